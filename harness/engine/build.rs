//! Declares the embedded cases, kernels and device library.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=../../cases");
    println!("cargo::rerun-if-changed=../../kernels");
    // OUT_DIR is target/PROFILE/build/PACKAGE/out, and the emulated device is in target/PROFILE/deps.
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let profile = out.ancestors().nth(3).unwrap_or(Path::new("/"));
    println!(
        "cargo::rustc-env=ROCREPRO_BUILT_DEVICE={}",
        profile.join("deps/libhsa_runtime64.so").display()
    );
}
