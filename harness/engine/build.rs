//! Embeds the cases, the kernels and the libraries of rocrepro into the program.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=../../cases");
    println!("cargo::rerun-if-changed=../../kernels");
    // Cargo sets OUT_DIR to target/PROFILE/build/PACKAGE/out, and builds the libraries in
    // target/PROFILE/deps.
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let profile = out.ancestors().nth(3).unwrap_or(Path::new("/"));
    let libraries = [
        ("ROCREPRO_BUILT_DEVICE", "libhsa_runtime64.so"),
        ("ROCREPRO_BUILT_RECORDER", "librecorder.so"),
        ("ROCREPRO_BUILT_THUNK", "libdtif.so"),
    ];
    for (variable, library) in libraries {
        println!("cargo::rustc-env={variable}={}", profile.join("deps").join(library).display());
    }
}
