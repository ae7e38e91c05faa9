//! See the library of this package.

fn main() -> std::process::ExitCode {
    rocrepro::main()
}
