use clap::{Args, Subcommand};

use super::{New, Origin, Selection, new};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro case list capture                 the cases of one family
  rocrepro case explain graphs/long-chain    what a case does and why
  rocrepro case check --cases-from mine.yaml";

const CHECK: &str = "\
Examples:
  rocrepro case check                          the built-in cases
  rocrepro case check --cases-from my-cases    all case files of a folder; kernels (*.hip) may be there too
  rocrepro case check --cases-from my-cases/new.yaml

All mistakes of all files are shown at once, with line and column; the exit code is then 2.";

const LIST: &str = "\
Examples:
  rocrepro case list                     all cases, with the number of their trials
  rocrepro case list capture --trials    the trials of one family, one on each line
  rocrepro case list graphs --faults     the faults that they declare, each after a trial, separated by a tab";

const EXPLAIN: &str = "\
Examples:
  rocrepro case explain copies/small-sizes   steps, issues, faults, how to run it
  rocrepro case explain mine.yaml            the same for a case file of yours
  rocrepro case explain --steps              the steps that cases are made of
  rocrepro case explain --functions          the functions that the step `hip` can call
  rocrepro case explain --faults             the faults that can be injected";

const SCHEMA: &str = "\
Examples:
  rocrepro case schema > case.schema.json    for the YAML support of an editor

`rocrepro records schema` prints the schema of result records.";

#[derive(Subcommand)]
pub(crate) enum Case {
    /// List cases, or their trials
    #[command(after_help = LIST)]
    List(List),
    /// Explain a case, the steps, functions or faults
    #[command(after_help = EXPLAIN)]
    Explain(Explain),
    /// Make a case from a reproducer in C++, HIP or Python, and run it
    #[command(after_help = new::NEW)]
    New(New),
    /// Check case files without running anything
    #[command(after_help = CHECK)]
    Check(Selection),
    /// Print the JSON Schema of case files
    #[command(after_help = SCHEMA)]
    Schema,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// List the trials of each case
    #[arg(long)]
    pub(crate) trials: bool,

    /// List the faults that each case declares, each after the first trial that the fault concerns
    #[arg(long, conflicts_with = "trials")]
    pub(crate) faults: bool,

    /// List the upstream issues whose symptom makes a case fail, and those that are only related to a case
    #[arg(long, conflicts_with_all = ["trials", "faults"])]
    pub(crate) issues: bool,

    /// List the source of each expectation: a document, a measurement on CUDA, releases that differ from each other, or
    /// none of these (a difference)
    #[arg(long, conflicts_with_all = ["trials", "faults", "issues"])]
    pub(crate) expectations: bool,
}

#[derive(Args)]
pub(crate) struct Explain {
    /// The case, such as `copies/small-sizes`
    #[arg(required_unless_present_any = ["steps", "functions", "faults"])]
    pub(crate) case: Option<String>,

    /// Explain the steps that cases are made of
    #[arg(long)]
    pub(crate) steps: bool,

    /// List the functions that the step `hip` can call, with their parameters
    #[arg(long)]
    pub(crate) functions: bool,

    /// Explain the faults that can be injected
    #[arg(long)]
    pub(crate) faults: bool,

    #[command(flatten)]
    pub(crate) from: Origin,
}

/// Choice between the schema of result records and the schema of case files.
pub(crate) struct Schema {
    pub(crate) record: bool,
}
