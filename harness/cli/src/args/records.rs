use clap::Subcommand;

use super::{
    Bugs, Diff, History, Merge, Redact, Show, Store, Unfinished, bugs, diff, redact, show, store,
    unfinished,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro run --record runs.jsonl             run, and keep the records
  rocrepro records show runs.jsonl             show the run again, as a table
  rocrepro records diff old.jsonl new.jsonl    show the outcomes that differ";

const SCHEMA: &str = "\
Examples:
  rocrepro records schema > record.schema.json

`rocrepro case schema` prints the schema of case files.";

#[derive(Subcommand)]
pub(crate) enum Records {
    /// Show a run again from its record files
    #[command(after_help = show::EXAMPLES)]
    Show(Show),
    /// Compare two runs, or two recordings of a program: what differs
    #[command(after_help = diff::EXAMPLES)]
    Diff(Diff),
    /// Merge the shards of a run into one record file
    #[command(after_help = store::MERGE)]
    Merge(Merge),
    /// Keep the records of many runs in one file
    #[command(subcommand, after_help = store::EXAMPLES)]
    Store(Store),
    /// Show the outcomes of a case over all stored runs
    #[command(after_help = store::HISTORY)]
    History(History),
    /// List the bugs of all stored runs, and test them again
    #[command(subcommand, after_help = bugs::EXAMPLES)]
    Bugs(Bugs),
    /// List trials that started and never finished
    #[command(after_help = unfinished::EXAMPLES)]
    Unfinished(Unfinished),
    /// Remove names, addresses and secrets from evidence
    #[command(after_help = redact::EXAMPLES)]
    Redact(Redact),
    /// Print the JSON Schema of records
    #[command(after_help = SCHEMA)]
    Schema,
}
