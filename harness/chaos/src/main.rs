//! `cargo run -p chaos`, with the command in ROCREPRO_PROGRAM: the long form, for `ci -- chaos` and for work on the table.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::var_os("ROCREPRO_PROGRAM") {
        Some(program) => chaos::main(program.into()),
        None => {
            eprintln!("ROCREPRO_PROGRAM must name the built command");
            ExitCode::from(2)
        }
    }
}
