//! `cargo run -p chaos`, with the path of the command in ROCREPRO_PROGRAM: runs the long form, for `ci -- chaos` and
//! for work on the table. With ROCREPRO_SOAK=MINUTES it runs one command after another for that long.

use std::process::ExitCode;

fn main() -> ExitCode {
    let minutes = std::env::var("ROCREPRO_SOAK").ok().and_then(|text| text.parse().ok());
    match (std::env::var_os("ROCREPRO_PROGRAM"), minutes) {
        (Some(program), Some(minutes)) => chaos::soak(program.into(), minutes),
        (Some(program), None) => chaos::main(program.into()),
        (None, _) => {
            eprintln!("ROCREPRO_PROGRAM must name the built command");
            ExitCode::from(2)
        }
    }
}
