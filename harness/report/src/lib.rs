//! Defines the records of trials, and formats every text that people read.
//!
//! A [`Record`] is the result of one trial, stored as one line of JSON. All views are made from records, so a stored
//! run can be shown in another format without running it again. No other crate formats text for people.
//!
//! Views are strings with ANSI styles. [`print()`] removes the styles if the output is not a terminal.

mod annotations;
mod asked;
mod audit;
mod barriers;
mod bisected;
mod bugs;
mod builds;
mod changed;
mod checks;
mod complete;
mod conditions;
mod demo;
pub mod evidence;
mod explain;
mod failures;
mod gpu;
mod ground;
mod held;
mod history;
pub mod issue;
mod junit;

mod merged;
mod minimised;
mod mitigations;
mod must;
mod pages;
mod program;
mod prove;
mod rates;
mod record;
mod run;

mod shard;
mod sink;
mod stream;
mod table;
mod tap;
mod text;
mod words;

#[cfg(test)]
mod fixture;

pub use annotations::annotations;
pub use asked::Asked;
pub use audit::{AuditFinding, MissingOpcode, audit};
pub use barriers::{BarrierFinding, KernelFinding, OutstandingOperation, barriers};
pub use bisected::bisected;
pub use bugs::{Bug, BugBuild, BugOptions, BugSeries, BugState, BugTrial, Bugs, Series};
pub use builds::Builds;
pub use changed::{Change, Changed, Changes, FaultDifference, Side};
pub use complete::{Incomplete, complete, exit_status};
pub use conditions::may_be_one_text;
pub use demo::{
    DemoFinding, Demonstrated, demonstration_begins, demonstration_ends, demonstration_status,
};
pub use explain::explain;
pub use gpu::{Errors, Gpu, Link};
pub use ground::{Ground, Grounds, by_ground};
pub use held::index::{OddLine, OddLines, RecordIndex, RunIdentity, RunIndex, Source};
pub use held::{Held, NotOne, not_run_of, shards};
pub use history::{Failure, History, Lately, OfTrial, OnGround, Sighting};
pub use junit::junit;

pub use merged::{Merged, Merging, MissingTrials, Part};
pub use minimised::{minimised, minimised_program};
pub use mitigations::mitigations;
pub use must::must_hold;
pub use pages::{
    BugPages, BugProgram, Column, Dot, MatrixPage, PageFile, Past, SearchPage, Stretch, Tested,
};
pub use program::{CheckRun, ProgramRun};
pub use prove::{Cell, Mutation, Proof, Racy, Row, Unnoticed, matrix, prove, racy, result};

pub use record::{
    Device, FORMAT, Lateness, Library, Record, RecordError, Stack, confined, date, found,
    output_tail, to_line,
};
pub use run::{
    Begun, Ended, Line, MOST_REPETITIONS, Missing, Opened, Over, parse, records, schema, unfinished,
};
pub use shard::Shard;
pub use sink::{note, print};
pub use stream::ResultStream;
pub use table::{ViewOptions, run_end, run_view, sentence, skips};
pub use tap::tap;
pub use text::{one_line, terminal, visible};
pub use words::{count, how_long, without_lines};
