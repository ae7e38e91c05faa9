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
pub use asked::RequestedOptions;
pub use audit::{AuditFinding, MissingOpcode, audit};
pub use barriers::{BarrierFinding, KernelFinding, OutstandingOperation, barriers};
pub use bisected::bisected;
pub use bugs::{Bug, BugBuild, BugOptions, BugSeries, BugState, BugTrial, Bugs, Series};
pub use builds::Builds;
pub use changed::{Change, Changed, Changes, FaultDifference, RunSummary};
pub use complete::{Incomplete, check_complete, exit_status};
pub use conditions::may_be_one_text;
pub use demo::{
    DemoFinding, Demonstrated, demonstration_header, demonstration_status, demonstration_summary,
};
pub use explain::explain;
pub use gpu::{Errors, Gpu, Link};
pub use ground::{RunConfiguration, RunConfigurations, group_by_configuration};
pub use held::index::{
    InvalidLine, InvalidLines, RecordIndex, RecordSource, RunIdentity, RunIndex,
};
pub use held::{RecordedRun, ShardError, check_shards, not_run_records};
pub use history::{ConfigurationHistory, Failure, History, RecentRuns, Sighting, TrialHistory};
pub use junit::junit;

pub use merged::{MergedRun, MissingTrials, ShardMerger, ShardPlan};
pub use minimised::{minimised, minimised_program};
pub use mitigations::mitigations;
pub use must::expected_behaviour;
pub use pages::{
    BugPages, BugProgram, BuildRange, Column, MatrixPage, PageFile, PastRun, RunMark, SearchPage,
    TestedBuild,
};
pub use program::{CheckRun, ProgramRun};
pub use prove::{
    FaultCell, Mutation, Proof, ProofRow, RacyTrial, UnneededStatement, describe_result,
    find_racy_trials, matrix, prove,
};

pub use record::{
    Device, FORMAT, InjectedDelays, Library, Record, RecordError, Stack, date,
    describe_confinement, output_tail, reported_environment, to_line,
};
pub use run::{
    Line, MOST_REPETITIONS, Missing, ProvisionalRecord, RunEnd, RunPlan, TrialStart, parse,
    records, schema, unfinished,
};
pub use shard::Shard;
pub use sink::{note, print};
pub use stream::ResultStream;
pub use table::{ViewOptions, run_end, run_view, sentence, skips};
pub use tap::tap;
pub use text::{one_line, terminal, visible};
pub use words::{count, format_duration, without_lines};
