//! One module per subcommand.

mod bisect;
mod check;
mod device;
mod diff;
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
mod prove;
mod redact;
mod report;
mod rocm;
mod run;
mod schema;
mod setup;
mod show;
mod store;
mod unfinished;

use std::{path::Path, process::ExitCode};

use crate::{
    args::{Cli, Command},
    outputs,
};
use engine::Stop;

pub(crate) fn run(cli: Cli) -> Result<ExitCode, Stop> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Prove(args) => prove::prove(&args),
        Command::Exec(args) => exec::exec(&args),
        Command::Env(args) => env::env(&args),
        Command::Export(args) => export::export(&args),
        Command::Minimise(args) => minimise::minimise(&args),
        Command::Mitigate(args) => mitigate::mitigate(&args),
        Command::Report(args) => report::report(&args),
        Command::Redact(args) => redact::redact(&args),
        Command::Show(args) => show::show(&args),
        Command::Unfinished(args) => unfinished::unfinished(&args),
        Command::Matrix(args) => matrix::matrix(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Merge(args) => merge::merge(&args),
        Command::Store(args) => store::store(&args),
        Command::History(args) => store::history(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Bisect(args) => bisect::bisect(&args),
        Command::Device(args) => device::device(&args),
        Command::Check(args) => check::check(&args),
        Command::List(args) => list::list(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Schema(args) => schema::schema(&args),
        Command::Rocm(args) => rocm::rocm(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::args::command(), "rocrepro", &mut script);
            outputs::data(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { folder } => man(&folder),
    }
}

/// Writes a page for each command: `rocrepro-run.1`.
fn man(folder: &Path) -> Result<ExitCode, Stop> {
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(crate::args::command(), folder));
    written.map_err(|error| {
        Stop::no_verdict(format!("error: cannot write to `{}`: {error}", folder.display()))
    })?;
    Ok(ExitCode::SUCCESS)
}
