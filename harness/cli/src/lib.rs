//! The command `rocrepro`: reads the command line, drives the engine and shows results and events.
//!
//! `args` and `session_options` read the command line. `outputs`, `progress`, `ticker` and `console` write to the
//! terminal. The subcommands are in `commands`, which uses all of these.

mod args;
mod commands;
mod console;
mod interrupt;
mod outputs;
mod progress;
mod session_options;
mod shell_variables;
mod ticker;
mod width;

use std::{process::ExitCode, sync::Arc};

pub use engine::minimise::{Comparison, SimulatedSearches, compare};
use engine::{
    CRASH_ARGUMENT, LOOK_ARGUMENT, STARTER_ARGUMENT, WORKER_ARGUMENT, minimise::ASK_ARGUMENT,
};
pub use engine::{
    CaseLibrary, CasesFrom, DeviceChoice, Job, Selected, Session, SessionOptions, Stop, lower_all,
    lower_each, run_trial, select, with_declared_faults,
};
pub use outputs::report_stop;
pub use session_options::options_from_environment;

/// Runs the command, or one of its helper processes if the first argument selects one, for example a worker.
pub fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(first) if first == WORKER_ARGUMENT => {
            return worker::main(std::env::args_os().skip(2));
        }
        Some(first) if first == STARTER_ARGUMENT => {
            return supervise::Start::enter(&[first], std::env::args_os().skip(2));
        }
        Some(first) if first == LOOK_ARGUMENT => return supervise::unwind_copies(),
        Some(first) if first == CRASH_ARGUMENT => {
            return engine::crash::read(std::env::args_os().skip(2), &|text| report::note(text));
        }
        Some(first) if first == ASK_ARGUMENT => {
            let fails = engine::minimise::ask(std::env::args_os().skip(2));
            return ExitCode::from(u8::from(!fails));
        }
        _ => args::complete(),
    }
    interrupt::install();
    // With a handler for SIGXFSZ, a write beyond the file size limit fails with an error that the command reports.
    // Without a handler, the signal ends the process, so a failed registration is harmless and ignored. Started
    // programs get the default action, because exec resets handlers.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let work = || match commands::run(args::parse()) {
        Ok(code) => code,
        Err(stop) => outputs::report_stop(&stop),
    };
    // The stack size limit that the user sets is meant for the user's programs. rocrepro itself needs a stack of a
    // certain size, because it processes cases recursively.
    let done = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).map(|t| t.join());
    match done {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            let stop = Stop::no_verdict(format!("error: cannot start a thread: {error}"));
            outputs::report_stop(&stop)
        }
    }
}

/// Stack size of the thread that runs the command, in bytes.
const STACK_BYTES: usize = 16 << 20;
