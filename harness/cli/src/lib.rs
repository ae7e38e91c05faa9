//! The command `rocrepro`: reads the command line, drives the engine and shows results and events.
//!
//! At the bottom are what is typed (`args`, `session_options`) and what is shown (`outputs`, `progress`, `ticker`, `console`).
//! Above them are the `commands`.

mod args;
mod commands;
mod console;
mod interrupt;
mod outputs;
mod progress;
mod session_options;
mod ticker;
mod width;

use std::{process::ExitCode, sync::Arc};

pub use engine::minimise::{Comparison, SimulatedSearches, compare};
pub use engine::{
    CaseLibrary, CasesFrom, DeviceChoice, Job, Selected, Session, SessionOptions, Stop, lower_all,
    lower_each, run_trial, select, with_declared_faults,
};
use engine::{LOOK_ARGUMENT, STARTER_ARGUMENT, WORKER_ARGUMENT, minimise::ASK_ARGUMENT};
pub use outputs::stopped;
pub use session_options::options_from_environment;

/// The whole program.
pub fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(first) if first == WORKER_ARGUMENT => {
            return worker::main(std::env::args_os().skip(2));
        }
        Some(first) if first == STARTER_ARGUMENT => {
            return supervise::Start::enter(&[first], std::env::args_os().skip(2));
        }
        Some(first) if first == LOOK_ARGUMENT => return supervise::look(),
        Some(first) if first == ASK_ARGUMENT => {
            let fails = engine::minimise::ask(std::env::args_os().skip(2));
            return ExitCode::from(u8::from(!fails));
        }
        _ => args::complete(),
    }
    // A write beyond the limit of file sizes is then an error, which is told, instead of the end. Where that cannot be had, it is
    // the end. Programs that are started have it as it was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let work = || match commands::run(args::parse()) {
        Ok(code) => code,
        Err(stop) => outputs::stopped(&stop),
    };
    // The user's limit of stacks is for the user's programs; cases are read and lowered by recursion.
    let done = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).map(|t| t.join());
    match done {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            let stop = Stop::no_verdict(format!("error: no thread could be started: {error}"));
            outputs::stopped(&stop)
        }
    }
}

/// The stack that the command works on, in bytes.
const STACK_BYTES: usize = 16 << 20;
