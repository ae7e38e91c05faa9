//! The program `rocrepro`. All of its code is in the library of this package.

fn main() -> std::process::ExitCode {
    rocrepro::main()
}
