//! The command `rocrepro` and the engine behind it.
//!
//! This crate brings the others together: it finds cases, stacks and the device, starts workers and hands what they say
//! to the judge. Whatever decides something lives in a crate of its own.

mod args;
mod batch;
mod commands;
mod device_library;
mod diagnostics;
mod evidence;
mod library;
mod machine;
mod outputs;
mod progress;
mod scratch;
mod select;
mod session;
mod stop;
mod trial;

use std::process::ExitCode;

use clap::Parser;

pub use commands::{Comparison, Simulated, compare};
pub use library::{CaseLibrary, CasesFrom};
pub use select::{Selected, select};
pub use session::{DeviceChoice, Session, SessionOptions};
pub use stop::Stop;
pub use trial::{Job, lower_all, lower_each, run_trial, with_declared_faults};

/// The first argument that makes this program a worker. The worker is the same program, so it always
/// matches the harness that started it, and `cargo run` builds it.
pub const WORKER_ARGUMENT: &str = "__worker";

/// The first argument that makes this program a starter: it finds the environment, limits and folder of another program among
/// its arguments and becomes that program, whatever a launcher dropped on the way.
pub const STARTER_ARGUMENT: &str = "__start";

/// The whole program.
pub fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(first) if first == WORKER_ARGUMENT => return worker::main(),
        Some(first) if first == STARTER_ARGUMENT => {
            return supervise::Start::enter(std::env::args_os().skip(2));
        }
        _ => {}
    }
    let command = args::Cli::parse();
    match commands::run(command) {
        Ok(code) => code,
        Err(stop) => stop.report(),
    }
}
