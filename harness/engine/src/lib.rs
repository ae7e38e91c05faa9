//! The engine behind the command: sessions, trials, batches of trials, and the decisions about them.
//!
//! A [`Session`] is a stack, a device and limits, which all trials of a run share. A [`Job`] is a trial that is ready to run.
//! [`batch`] runs many of them, and `health` decides after a failure whether a GPU can be used further.
//!
//! Nothing here prints or reads a command line. Operations take plain values, report [`events`] while they run, and stop when
//! a [`Cancel`] says so.
//!
//! Modules use each other in one direction. At the bottom are errors and events, the case library and selections, and the
//! resources of this machine: stacks, cards, compilers, environments. Above them is the `session`; then one trial, from its
//! `job` over its execution to its `record`; then batches.

pub mod audit;
pub mod baseline;
pub mod batch;
pub mod bundled;
mod cache;
pub mod card;
pub mod case_names;
mod compiled;
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
pub mod home;
pub mod host;
pub mod issue;
pub mod job;
pub mod kernel_log;
pub mod lacks;
pub mod library;
pub mod machine;
pub mod matrix;
pub mod minimise;
pub mod mitigate;
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
pub mod prove;
pub mod record;
pub mod record_file;
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
pub use trial::run_trial;

/// The first argument that makes this program a worker. The worker is the same program, so it always matches the harness that
/// started it.
pub const WORKER_ARGUMENT: &str = "__worker";

/// The first argument that makes this program a starter: it finds the environment, limits and folder of another program among
/// its arguments and becomes that program, whatever a launcher dropped on the way.
pub const STARTER_ARGUMENT: &str = "__start";
