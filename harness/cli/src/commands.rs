//! Executes the subcommands, one module for each.

mod bisect;
mod bugs;
mod check;
mod demo;
mod device;
mod diff;
mod diff_recordings;
mod doctor;
mod env;
mod exec;
mod explain;
mod export;
mod list;
mod matrix;
mod merge;
mod minimise;
mod mitigate;
mod new;
mod prove;
mod record;
mod redact;
mod report;
mod rocm;
mod run;
mod schema;
mod setup;
mod show;
mod store;
mod subject;
mod unfinished;

use std::{path::Path, process::ExitCode};

use crate::{
    args::{Case, Cli, Command, Records, Schema, Stack},
    outputs,
};
use engine::Stop;

pub(crate) fn run(mut cli: Cli) -> Result<ExitCode, Stop> {
    cli.command.take_case_files()?;
    match cli.command {
        Command::Demo(args) => demo::demo(&args),
        Command::Run(args) => run::run(&args),
        Command::Exec(args) => exec::exec(&args),
        Command::Record(args) => record::record(&args),
        Command::Prove(args) => prove::prove(&args),
        Command::Matrix(args) => matrix::matrix(&args),
        Command::Minimise(args) => minimise::minimise(&args),
        Command::Mitigate(args) => mitigate::mitigate(&args),
        Command::Bisect(args) => bisect::bisect(&args),
        Command::Export(args) => export::export(&args),
        Command::Report(args) => report::report(&args),
        Command::Case(Case::List(args)) => list::list(&args),
        Command::Case(Case::Explain(args)) => explain::explain(&args),
        Command::Case(Case::Check(args)) => check::check(&args),
        Command::Case(Case::New(args)) => new::new(&args),
        Command::Case(Case::Schema) => schema::schema(&Schema { record: false }),
        Command::Records(Records::Show(args)) => show::show(&args),
        Command::Records(Records::Diff(args)) => diff::diff(&args),
        Command::Records(Records::Merge(args)) => merge::merge(&args),
        Command::Records(Records::Store(args)) => store::store(&args),
        Command::Records(Records::History(args)) => store::history(&args),
        Command::Records(Records::Bugs(args)) => bugs::bugs(&args),
        Command::Records(Records::Unfinished(args)) => unfinished::unfinished(&args),
        Command::Records(Records::Redact(args)) => redact::redact(&args),
        Command::Records(Records::Schema) => schema::schema(&Schema { record: true }),
        Command::Stack(Stack::Rocm(args)) => rocm::rocm(args),
        Command::Stack(Stack::Env(args)) => env::env(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Device(args) => device::device(&args),
        Command::Completions { shell } => completions(shell),
        Command::Man { folder } => man(&folder),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Stop> {
    let script =
        crate::args::script(shell).map_err(|error| Stop::no_verdict(format!("error: {error}")))?;
    outputs::print_data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a manual page for each command, for example `rocrepro-run.1`.
fn man(folder: &Path) -> Result<ExitCode, Stop> {
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(crate::args::command(), folder));
    written.map_err(|error| {
        Stop::no_verdict(format!("error: cannot write to `{}`: {error}", folder.display()))
    })?;
    Ok(ExitCode::SUCCESS)
}
