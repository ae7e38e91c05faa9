//! The library of cases is part of the program; without this, cargo would not notice that a case has changed.

fn main() {
    println!("cargo::rerun-if-changed=../../cases");
    println!("cargo::rerun-if-changed=../../kernels");
}
