//! The program `rocrepro`. Its code is in the library of this package.

fn main() -> std::process::ExitCode {
    rocrepro::main()
}
