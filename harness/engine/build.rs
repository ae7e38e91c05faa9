//! Embeds the cases, the kernels and the emulated device's library into the program.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=../../cases");
    println!("cargo::rerun-if-changed=../../kernels");
    // Cargo sets OUT_DIR to target/PROFILE/build/PACKAGE/out, and builds the emulated device's library in
    // target/PROFILE/deps.
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let profile = out.ancestors().nth(3).unwrap_or(Path::new("/"));
    println!(
        "cargo::rustc-env=ROCREPRO_BUILT_DEVICE={}",
        profile.join("deps/libhsa_runtime64.so").display()
    );
}
