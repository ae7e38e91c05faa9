//! The command `rocrepro` and the engine behind it.
//!
//! This crate brings the others together: it finds cases, stacks and the device, starts workers and hands what they say
//! to the judge. Whatever decides something lives in a crate of its own.
//!
//! Modules use each other in one direction. At the bottom are what is typed and told (`args`, `stop`, `outputs`), the case
//! library and what words name in it, and what is on this machine: stacks, cards, compilers, environments. On these stands
//! the `session`, which all trials of a run share; then one trial, from its `job` by way of what its worker is `told` and
//! how it is executed to its `record`; then many of them (`batch`), and above all the `commands`.

mod args;
mod baseline;
mod batch;
mod bundled;
mod cache;
mod card;
mod commands;
mod compiled;
mod device_choice;
mod device_library;
mod diagnostics;
mod environments;
mod evidence;
mod execute;
mod hardware;
mod health;
mod helper;
mod home;
mod interrupt;
mod job;
mod kernel_log;
mod lacks;
mod library;
mod machine;
mod named;
mod on_gpu;
mod opening;
mod outputs;
mod own_program;
mod prerequisites;
mod probe;
mod processes;
mod program;
mod progress;
mod record;
mod record_file;
mod rerun;
mod scratch;
mod select;
mod session;
mod slots;
mod spool;
mod stop;
mod ticker;
mod told;
mod toolchain;
mod trial;
mod which;

use std::{process::ExitCode, sync::Arc};

pub use commands::{Comparison, Simulated, compare};
pub use device_choice::DeviceChoice;
pub use job::{Job, lower_all, lower_each, with_declared_faults};
pub use library::{CaseLibrary, CasesFrom};
pub use select::{Selected, select};
pub use session::{Session, SessionOptions};
pub use stop::Stop;
pub use trial::run_trial;

/// The first argument that makes this program a worker. The worker is the same program, so it always
/// matches the harness that started it, and `cargo run` builds it.
pub const WORKER_ARGUMENT: &str = "__worker";

/// The first argument that makes this program a starter: it finds the environment, limits and folder of another program among
/// its arguments and becomes that program, whatever a launcher dropped on the way.
pub const STARTER_ARGUMENT: &str = "__start";

/// The whole program.
pub fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(first) if first == WORKER_ARGUMENT => {
            return worker::main(std::env::args_os().skip(2));
        }
        Some(first) if first == STARTER_ARGUMENT => {
            return supervise::Start::enter(&[first], std::env::args_os().skip(2));
        }
        Some(first) if first == commands::ASK_ARGUMENT => {
            return commands::ask(std::env::args_os().skip(2));
        }
        _ => {}
    }
    // A write beyond the limit of file sizes is then an error, which is told, instead of the end. Where that cannot be had, it is
    // the end. Programs that are started have it as it was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let work = || match commands::run(args::parse()) {
        Ok(code) => code,
        Err(stop) => stop.report(),
    };
    // The user's limit of stacks is for the user's programs; cases are read and lowered by recursion.
    let done = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).map(|t| t.join());
    match done {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            Stop::no_verdict(format!("error: no thread could be started: {error}")).report()
        }
    }
}

/// The stack that the command works on, in bytes.
const STACK_BYTES: usize = 16 << 20;
