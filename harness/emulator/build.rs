//! Makes the linker give the library the file name that the HIP runtime loads (its soname), and gives each build a
//! build id.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhsa-runtime64.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--build-id=sha1");
    println!("cargo:rerun-if-changed=build.rs");
}
