//! Runs the long form of the tests: `cargo run -p chaos`. Both `ci -- chaos` and developers who change the table of
//! disturbances use this program. The environment variable ROCREPRO_PROGRAM must contain the path of the command. With
//! ROCREPRO_SOAK=MINUTES, the program instead runs one command after another for that many minutes. With
//! ROCREPRO_MOMENTS=COUNT, it instead interrupts each long command at that many random moments.

use std::process::ExitCode;

fn main() -> ExitCode {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let program = std::env::var_os("ROCREPRO_PROGRAM");
    if let (Some(program), Some(moments)) = (&program, number("ROCREPRO_MOMENTS")) {
        let only = std::env::var("ROCREPRO_MOMENTS_OF").unwrap_or_default();
        let seed = number("ROCREPRO_MOMENTS_SEED").unwrap_or(1);
        return chaos::interrupts(program.into(), moments, seed, &only);
    }
    match (program, number("ROCREPRO_SOAK")) {
        (Some(program), Some(minutes)) => chaos::soak(program.into(), minutes),
        (Some(program), None) => chaos::main(program.into()),
        (None, _) => {
            eprintln!("ROCREPRO_PROGRAM must name the built command");
            ExitCode::from(2)
        }
    }
}
