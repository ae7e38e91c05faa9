//! Executes `rocrepro prove`: reads its options and prints the proof.

use std::process::ExitCode;

use engine::{
    SessionOptions, Stop,
    prove::{ProveOptions, ProveResult, Prover},
};
use report::count;

use crate::{args::Prove, interrupt, outputs};

pub(crate) fn prove(args: &Prove) -> Result<ExitCode, Stop> {
    let library = args.selection.library()?;
    let selected = args.selection.select(&library)?;
    let cases_from = args.selection.from.selected_source();
    let options = ProveOptions {
        session: SessionOptions { cases_from, ..SessionOptions::try_from(&args.on)? },
        schedules: args.schedules,
        mutate: args.mutate,
        record: args.record.clone(),
    };
    let cancel = interrupt::cancel()?;
    let result = Prover::prepare(&options, &library, &selected)?.run(&cancel)?;
    let ProveResult { proof, unmutated_programs, trouble } = result;
    if unmutated_programs > 0 {
        outputs::note(format!(
            "--mutate skips the checks of {}, because `prove` always requires that each of them fails under some fault",
            count(unmutated_programs, "program")
        ));
    }
    outputs::print(&report::matrix(&proof))?;
    match trouble {
        Some(stop) => Err(stop),
        None => Ok(ExitCode::from(proof.exit_status())),
    }
}
