//! What is part of the program besides its code.

use std::path::{Path, PathBuf};

fn main() {
    // Without these, cargo would not notice that a case or a kernel of the library has changed.
    println!("cargo::rerun-if-changed=../../cases");
    println!("cargo::rerun-if-changed=../../kernels");
    // The emulated device is a shared library that cargo builds before this crate, as it is one of its dependencies; it lies in
    // target/PROFILE/deps, and this script writes to target/PROFILE/build/PACKAGE/out.
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let profile = out.ancestors().nth(3).unwrap_or(Path::new("/"));
    println!(
        "cargo::rustc-env=ROCREPRO_BUILT_DEVICE={}",
        profile.join("deps/libhsa_runtime64.so").display()
    );
}
