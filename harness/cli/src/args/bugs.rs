use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ExecutionOptions, Origin, StoreFile};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records bugs list --store results.db        all bugs and their states
  rocrepro records bugs show 1a2b3c4d --store results.db
  rocrepro records bugs retest --store results.db --rocm nightly:last
  rocrepro records bugs comment 1a2b3c4d --store results.db > comment.md
  rocrepro records bugs pages --store results.db --out bugs    HTML pages

A bug is a failure of a case with one signature; cases that run the same plan share it. Its state follows from the
records in the store, build by build. It is open while the newest tested build fails. It is fixed when newer builds
passed so often that a bug that still fails at the lower bound of its rate would pass that often with a probability of
at most 0.1 %. With fewer passes it is `not seen since`. A fixed bug that fails on a newer build is reopened.

Skipped trials, trials without verdict and injected faults are never evidence, and neither is another failure of the
trial. Results of the emulated device, of different GPUs, of nightly builds and releases, and of runs with unusual
options are kept apart.";

const LIST: &str = "\
Examples:
  rocrepro records bugs list --store results.db
  rocrepro records bugs list --store results.db --json | jq '.[].state'

Exit codes: 0 listed, 2 usage.";

const SHOW: &str = "\
Examples:
  rocrepro records bugs show 1a2b3c4d --store results.db
  rocrepro records bugs show 1a2b --store results.db --json

Exit codes: 0 shown, 2 usage, 4 the store has no such bug.";

const COMMENT: &str = "\
Examples:
  rocrepro records bugs comment 1a2b3c4d --store results.db > comment.md

The comment says on which builds the bug still fails or since which build it passes, with rates and intervals. It is a
draft: read it before you post it.

Exit codes: 0 written, 2 usage, 4 the store has no such bug.";

const PAGES: &str = "\
Examples:
  rocrepro records bugs pages --store results.db --out bugs
  rocrepro records bugs pages --store results.db --out bugs --cases-from my-cases

Writes index.html, which lists all bugs, a page for each bug, and the C++ program of its trial for download. The pages
load nothing else, so a web server for files can publish them. Read them before you publish them: they contain commands
and paths of the stored runs (`rocrepro records redact` removes these from records).

Exit codes: 0 written, 2 usage.";

const RETEST: &str = "\
Examples:
  rocrepro records bugs retest --store results.db --rocm nightly:last
  rocrepro records bugs retest --store results.db --rocm debian:6.4.3 --gfx gfx90a
  rocrepro records bugs retest --store results.db --rocm nightly:last --repeat 100

Runs the trials of all open bugs that were seen on this device, adds the results to the store, and prints which states
changed. The records also stay in a file next to the store (`results.db.retests.jsonl`), so that the results of a run
that was killed are added by the next one. If a bug is flaky, repeat its trials more often: `records bugs show` says how
many passes show a fix.

Exit codes: as those of `run`; 4 no open bug was seen on this device.";

#[derive(Subcommand)]
pub(crate) enum Bugs {
    /// List all bugs of the store
    #[command(after_help = LIST)]
    List {
        #[command(flatten)]
        file: StoreFile,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a bug with its results on each build
    #[command(after_help = SHOW)]
    Show {
        #[command(flatten)]
        bug: BugId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Draft a comment for the upstream issue of a bug
    #[command(after_help = COMMENT)]
    Comment {
        #[command(flatten)]
        bug: BugId,
    },
    /// Write HTML pages about all bugs, with a program for each
    #[command(after_help = PAGES)]
    Pages {
        #[command(flatten)]
        file: StoreFile,
        /// Folder for the pages; files of earlier pages are replaced
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        #[command(flatten)]
        from: Origin,
    },
    /// Run the trials of open bugs on a stack, and add the results
    #[command(after_help = RETEST)]
    Retest(Box<Retest>),
}

/// The options that name a bug in a store.
#[derive(Args)]
pub(crate) struct BugId {
    /// Name of the bug as `records bugs list` prints it, or the beginning of the name
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) file: StoreFile,
}

#[derive(Args)]
pub(crate) struct Retest {
    #[command(flatten)]
    pub(crate) file: StoreFile,
    #[command(flatten)]
    pub(crate) on: ExecutionOptions,
    #[command(flatten)]
    pub(crate) from: Origin,
    /// Run each trial this many times; each run is a fresh process
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) repeat: u32,
    /// Append the records to this file [default: the path of the store and `.retests.jsonl`]
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}
