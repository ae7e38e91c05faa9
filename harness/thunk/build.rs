//! Gives the library the file name under which ROCr opens it (its soname), and gives each build a build id.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdtif.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--build-id=sha1");
    println!("cargo:rerun-if-changed=build.rs");
}
