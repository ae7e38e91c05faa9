//! Runs the case library as tests, one per trial: `cargo test --test cases`, also under nextest.
//!
//! ROCREPRO_ROCM names the stack (default `debian:7.2.4`, fetched once), and ROCREPRO_GFX the emulated architecture. On
//! a machine with an AMD GPU, ROCREPRO_DEVICE_KIND=gpu runs the tests there.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, OnceLock},
};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use rocrepro::{CaseLibrary, Job, Selected, Session, lower_all, run_trial, select};
use supervise::Cancel;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // nextest starts a process for each trial and passes the trial's name, so only the case of that trial is loaded.
    let named: Vec<&str> = match arguments.exact {
        true => arguments.filter.iter().map(String::as_str).collect(),
        false => Vec::new(),
    };
    // Tests must own their data or borrow it for the whole life of the process.
    let library: &'static CaseLibrary = match CaseLibrary::load_named(None, &named) {
        Ok(library) => Box::leak(Box::new(library)),
        Err(stop) => return rocrepro::report_stop(&stop),
    };
    let selected = match select(library, &[]) {
        Ok(selected) => selected,
        Err(stop) => return rocrepro::report_stop(&stop),
    };
    let shared = Arc::<Shared>::default();
    let tests = selected
        .into_iter()
        .map(|entry| {
            let shared = Arc::clone(&shared);
            Trial::ignorable_test(entry.id(), move || run(library, &entry, &shared))
        })
        .collect();
    let code = libtest_mimic::run(&arguments, tests).exit_code();
    // Dropping the session removes its temporary files.
    let scratch =
        shared.get().and_then(|opened| Some(opened.as_ref().ok()?.0.scratch_folder().to_owned()));
    drop(shared);
    match scratch {
        Some(folder) if folder.exists() => {
            eprintln!("error: the run left `{}` behind", folder.display());
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// The session that all tests share. The first test opens it, so that `--list` needs no ROCm.
type Shared = OnceLock<Result<(Session, Cancel), String>>;

fn open(shared: &Shared) -> Result<&(Session, Cancel), Failed> {
    let opened = shared.get_or_init(|| {
        let worker = PathBuf::from(env!("CARGO_BIN_EXE_rocrepro"));
        let options = rocrepro::options_from_environment(worker).map_err(|e| e.to_string())?;
        let session = Session::open(options).map_err(|e| e.to_string())?;
        Ok((session, Cancel::new().map_err(|e| e.to_string())?))
    });
    opened.as_ref().map_err(|message| Failed::from(message.as_str()))
}

fn run(library: &CaseLibrary, entry: &Selected<'_>, shared: &Shared) -> Result<Completion, Failed> {
    let lowered = lower_all(library, std::slice::from_ref(entry), None)
        .map_err(|e| Failed::from(e.to_string()))?
        .remove(0);
    let (session, cancel) = open(shared)?;
    let job = Job { case: entry.case, trial: &entry.trial, lowered, run: 0, faults: Vec::new() };
    let record = run_trial(session, &job, cancel).ok_or("the run was cancelled")?;
    match record.verdict.kind {
        judge::VerdictKind::Pass | judge::VerdictKind::Known | judge::VerdictKind::Difference => {
            Ok(Completion::Completed)
        }
        judge::VerdictKind::Skip => Ok(Completion::ignored_with(record.outcome.summary)),
        _ => Err(Failed::from(report::explain(&record))),
    }
}
