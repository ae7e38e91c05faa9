//! Lists the bugs of a store, shows them, and tests them again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

use clap::Parser as _;
use engine::{
    CaseLibrary, DeviceChoice, SessionOptions, Stop, bug_programs, host, output_files, select,
};
use report::{Bug, BugPages, Bugs, PageFile, Series, count};

use super::{run, store};
use crate::{
    args::{self, BugId, Cli, Command, Retest, Run},
    outputs,
};

pub(crate) fn bugs(args: &args::Bugs) -> Result<ExitCode, Stop> {
    match args {
        args::Bugs::List { file, json } => {
            let bugs = all_bugs(&file.store)?;
            match json {
                true => outputs::print_data(&(store::json(&bugs)? + "\n"))?,
                false => outputs::print(&Bugs::list(&bugs))?,
            }
        }
        args::Bugs::Show { bug, json } => {
            let bug = find_bug(bug)?;
            match json {
                true => outputs::print_data(&(store::json(&bug)? + "\n"))?,
                false => outputs::print(&bug.text())?,
            }
        }
        args::Bugs::Comment { bug } => {
            outputs::print_data(&report::visible(&find_bug(bug)?.comment()))?
        }
        args::Bugs::Pages { file, out, from } => pages(&file.store, out, from)?,
        args::Bugs::Retest(args) => return retest(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages about all bugs of a store. Nothing is written if the folder contains files of the same names that
/// rocrepro did not write.
fn pages(store: &Path, out: &Path, from: &args::Origin) -> Result<(), Stop> {
    let bugs = all_bugs(store)?;
    let library = CaseLibrary::load(from.selected_source().as_ref())?;
    let programs = bug_programs(&library, &bugs, &host::identity())?;
    let date = report::date(SystemTime::now());
    let files = BugPages { bugs: &bugs, programs: &programs, date: &date }.files();
    let mark = |file: &PageFile| match file.is_program {
        true => output_files::PROGRAM,
        false => output_files::PAGE,
    };
    fs::create_dir_all(out).map_err(|error| {
        Stop::usage(format!("error: cannot make the folder `{}`: {error}", out.display()))
    })?;
    for file in &files {
        output_files::check_own_file(&out.join(&file.name), mark(file))?;
    }
    for file in &files {
        output_files::replace(&out.join(&file.name), mark(file), &file.text)?;
    }
    outputs::print(&format!("{}\n", out.join("index.html").display()))
}

/// Returns all bugs of a store.
fn all_bugs(path: &Path) -> Result<Vec<Bug>, Stop> {
    let store = store::open(path)?;
    let mut bugs = Bugs::default();
    for run in store.runs().map_err(store::stop)? {
        store.for_each_record(&run, &mut |record| bugs.add(record)).map_err(store::stop)?;
    }
    Ok(bugs.all())
}

/// Returns the bug whose name begins with the given text.
fn find_bug(BugId { id, file }: &BugId) -> Result<Bug, Stop> {
    let mut found = all_bugs(&file.store)?;
    found.retain(|bug| bug.id.starts_with(id));
    match found.len() {
        0 => Err(Stop::nothing(format!(
            "error: the store has no bug `{id}`\nhint: `rocrepro records bugs list` lists all bugs"
        ))),
        1 => Ok(found.remove(0)),
        _ => {
            let each = found.iter().map(|bug| format!("\n    {} {}", bug.id, bug.case));
            Err(Stop::usage(format!(
                "error: `{id}` is the beginning of several bugs:{}",
                each.collect::<String>()
            )))
        }
    }
}

fn retest(args: &Retest) -> Result<ExitCode, Stop> {
    let device = SessionOptions::try_from(&args.on)?.device;
    let path = &args.file.store;
    let before = all_bugs(path)?;
    let (trials, gone) = trials(&before, &device, args)?;
    if !gone.is_empty() {
        outputs::note(format!(
            "{} of open bugs left out, because the cases no longer contain them: {}",
            count(gone.len(), "trial"),
            gone.join(", ")
        ));
    }
    if trials.is_empty() {
        let device = match &device {
            DeviceChoice::Emulated(arch) => format!("the emulated {arch}"),
            DeviceChoice::Gpu => "a GPU".to_owned(),
        };
        return Err(Stop::nothing(format!("error: the store has no open bug of {device}")));
    }
    let record = args.record.clone().unwrap_or_else(|| record_file_path(path));
    let ran = run::run(&Run {
        selection: args::Selection { cases: trials, exclude: Vec::new(), from: args.from.clone() },
        on: args.on.clone(),
        repeat: args.repeat,
        record: Some(record.clone()),
        ..usual_run()?
    });
    // If the run was interrupted, the results of its finished trials are added.
    let added = store::open_complete(&record).and_then(|file| store::add(path, &[file]));
    let (ran, added) = Stop::both(ran, added)?;
    outputs::note(added);
    let changes = Bugs::changes(&before, &all_bugs(path)?);
    let text = if changes.is_empty() { "no bug changed its state\n" } else { &changes };
    outputs::print(&format!("\n{text}"))?;
    Ok(ran)
}

/// Returns the trials that have open bugs on the device, in two lists: first those that the cases still contain, then
/// those that they no longer contain.
fn trials(
    bugs: &[Bug],
    device: &DeviceChoice,
    args: &Retest,
) -> Result<(Vec<String>, Vec<String>), Stop> {
    let wanted = |series: &Series| match device {
        DeviceChoice::Emulated(arch) => series.emulated && series.gfx == arch.name(),
        DeviceChoice::Gpu => !series.emulated,
    };
    let trials = Bugs::open_trials(bugs, &wanted);
    if trials.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let library = CaseLibrary::load(args.from.selected_source().as_ref())?;
    let is_there = |trial: &String| select(&library, std::slice::from_ref(trial)).is_ok();
    Ok(trials.into_iter().partition(is_there))
}

/// Returns the options of `rocrepro run` without arguments.
fn usual_run() -> Result<Run, Stop> {
    match Cli::try_parse_from(["rocrepro", "run"]).map_err(Stop::usage)?.command {
        Command::Run(run) => Ok(run),
        _ => Err(Stop::usage("error: `run` is not a command")),
    }
}

/// Returns the path of the record file next to a store.
fn record_file_path(store: &Path) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(".retests.jsonl");
    path.into()
}
