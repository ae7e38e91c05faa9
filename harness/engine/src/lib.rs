//! The engine behind the `rocrepro` command: opens sessions, runs trials and batches of trials, and decides what
//! follows from their results.
//!
//! A [`Session`] holds a stack, a device and limits, which all trials of a run share. A [`Job`] is a trial that is
//! ready to run, and [`batch`] runs many jobs. Operations take plain values, report [`events`], and stop when a
//! [`Cancel`] is cancelled. They neither print nor read a command line.
//!
//! Modules depend on each other in one direction. At the bottom are errors, events, cases and the resources of this
//! machine. Above them are the `session`, then one trial (`job`, `execute`, `record`), then batches.

pub mod audit;
pub mod baseline;
pub mod batch;
mod bug_programs;
pub mod bundled;
mod cache;
pub mod card;
pub mod case_names;
pub mod command_line;
mod compiled;
pub mod crash;
mod device_choice;
pub mod device_library;
mod diagnostics;
pub mod environments;
pub mod events;
pub mod evidence;
pub mod execute;
pub mod exported;
pub mod failing_trial;
mod hardware;
mod health;
mod helper;
mod hints;
pub mod home;
pub mod host;
pub mod issue;
pub mod job;
pub mod kernel_log;
pub mod library;
pub mod machine;
pub mod matrix;
pub mod minimise;
pub mod missing_libraries;
pub mod mitigate;
mod no_device;
mod on_gpu;
mod open_session;
pub mod output_files;
pub mod own_program;
pub mod passing_release;
pub mod planned_jobs;
pub mod prerequisites;
pub mod probe;
mod processes;
mod program;
mod program_text;
pub mod prove;
mod python_syntax;
pub mod record;
pub mod record_calls;
pub mod record_file;
pub mod recording;
pub mod rerun;
mod scratch;
pub mod select;
pub mod session;
mod slots;
mod spool;
pub mod stack_source;
pub mod stop;
pub mod toolchain;
pub mod trial;
pub mod which;
mod worker_process;

pub use bug_programs::bug_programs;
pub use device_choice::DeviceChoice;
pub use job::{Job, lower_all, lower_each, with_declared_faults};
pub use library::{CaseLibrary, CasesFrom};
pub use planned_jobs::{jobs_with, planned_jobs};
pub use scratch::TrialFolder;
pub use select::{Selected, select};
pub use session::{Session, SessionOptions, TrialRunner};
pub use slots::Slot;
pub use stop::{FailedOperation, FailureClass, Stop};
pub use supervise::Cancel;
pub use trial::{run_trial, skipped_record};

/// First argument that makes this program a worker. The worker is the same program, so its version always matches that
/// of the command.
pub const WORKER_ARGUMENT: &str = "__worker";

/// First argument that makes this program a starter. A starter takes the environment, the limits and the working
/// directory of another program from its arguments, applies them and executes that program, so that a launcher cannot
/// drop any of them.
pub const STARTER_ARGUMENT: &str = "__start";

/// First argument that makes this program read the call stacks of a hung trial's threads, under limits of time and
/// memory.
pub const LOOK_ARGUMENT: &str = "__look";

/// First argument that makes this program read the call stacks of a program that crashes.
pub const CRASH_ARGUMENT: &str = "__crash";
