//! The cases on several stacks and architectures: a run for each, and a page of all.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, SystemTime},
};

use report::{Column, MatrixPage, Record, count};
use rustix::process::{Pid, Signal, kill_process};
use supervise::Cancel;

use super::{show, store};
use crate::{
    args,
    args::{DeviceKind, Matrix},
    interrupt, outputs,
};
use engine::{
    Selected, Stop, environments::Environments, output_files, own_program, record_file::RecordFile,
    stop::explained,
};

/// A run that becomes a column.
struct Planned {
    name: String,
    spec: String,
    /// None on a GPU.
    gfx: Option<String>,
    /// In which programs of cases run; none where each case says it.
    environment: Option<String>,
    record: PathBuf,
}

pub(crate) fn matrix(args: &Matrix) -> Result<ExitCode, Stop> {
    let library = args.selection.library()?;
    let selected = args.selection.select(&library);
    let every = args.selection.cases.is_empty() && args.selection.exclude.is_empty();
    let (selected, planned) = Stop::both(selected, planned(args))?;
    let selected: HashSet<String> = selected.iter().map(Selected::id).collect();
    // What is kept of cases that the library no longer has is shown with all.
    let wanted = |trial: &str| every || selected.contains(trial);
    output_files::ours(&args.out.join("index.html"), output_files::PAGE)?;
    fs::create_dir_all(&args.out).map_err(|e| {
        Stop::usage(format!("error: cannot make the folder `{}`: {e}", args.out.display()))
    })?;
    let cancel = interrupt::cancel()?;
    let (mut columns, mut trouble) = (Vec::new(), Vec::new());
    let (mut all, mut not_run) = (Vec::<Record>::new(), 0);
    for column in &planned {
        if cancel.is_cancelled() {
            trouble.push(format!("{}: not begun, as the run was interrupted", column.name));
            continue;
        }
        outputs::note(format!("{}: running", column.name));
        let ended = run(args, column, &cancel)?;
        if let Some(why) = ended {
            trouble.push(format!("{}: {why}", column.name));
        }
        let (records, missing) = read(&column.record)?;
        outputs::note(format!("{}: {}", column.name, report::sentence(&records)));
        all.extend(records.iter().cloned());
        not_run += missing.len();
        columns.push(Column { name: column.name.clone(), records, missing, past: Vec::new() });
        // After each column, so that there is something to look at.
        write(&args.out, &columns)?;
    }
    if let Some(store) = &args.store {
        let files = planned.iter().map(|column| &column.record).filter(|record| record.exists());
        let files: Vec<_> = show::all(files.map(|record| store::whole(record)))?;
        if !planned.is_empty() {
            outputs::note(store::add(store, &files)?);
        }
        columns = store::columns(store, &wanted)?;
        if columns.is_empty() {
            return Err(Stop::nothing("error: the store has no record of what is asked for"));
        }
        write(&args.out, &columns)?;
    }
    outputs::print(&format!("{}\n", args.out.join("index.html").display()))?;
    if planned.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let status = report::exit_status(&all);
    if trouble.is_empty() && not_run == 0 {
        return Ok(ExitCode::from(status));
    }
    if not_run > 0 {
        trouble.push(format!(
            "{} planned and not run; the same command goes on",
            count(not_run, "trial")
        ));
    }
    outputs::note(trouble.join("\n"));
    // News is louder than a missing verdict.
    Ok(ExitCode::from(if status == 1 { 1 } else { 3 }))
}

/// The columns that the options ask for, each once, or all that is wrong with them.
fn planned(args: &Matrix) -> Result<Vec<Planned>, Stop> {
    let (mut columns, mut problems) = (Vec::<Planned>::new(), Vec::new());
    let gpu = args.device == DeviceKind::Gpu;
    if gpu && !(args.gfx.is_empty() && args.on.is_empty()) {
        problems
            .push("error: a GPU has its own architecture; leave out `--gfx` and `--on`".to_owned());
    }
    if args.device == DeviceKind::Auto {
        problems.push("error: name the device of the columns: `emulated` or `gpu`".to_owned());
    }
    let usual = ["gfx1151".to_owned()];
    let gfx = if args.gfx.is_empty() { &usual[..] } else { &args.gfx };
    let mut pairs: Vec<(&str, Option<&str>)> = Vec::new();
    for spec in &args.rocm {
        match gpu {
            true => pairs.push((spec, None)),
            false => pairs.extend(gfx.iter().map(|gfx| (spec.as_str(), Some(gfx.as_str())))),
        }
    }
    for on in &args.on {
        match on.rsplit_once('@') {
            Some((spec, gfx)) => pairs.push((spec, Some(gfx))),
            None => problems
                .push(format!("error: `--on {on}` is not SPEC@GFX, such as debian:5.7.1@gfx1030")),
        }
    }
    if pairs.is_empty() && problems.is_empty() && args.store.is_none() {
        problems
            .push("error: no column is asked for; name stacks with `--rocm` or `--on`".to_owned());
    }
    let named = |name: &String| Environments::open()?.whole(name);
    problems
        .extend(args.environments.iter().filter_map(|name| Some(named(name).err()?.to_string())));
    let each_case: [Option<&String>; 1] = [None];
    let named: Vec<_> = args.environments.iter().map(Some).collect();
    let environments = if named.is_empty() { &each_case[..] } else { &named };
    let each = pairs.iter().flat_map(|pair| environments.iter().map(move |it| (*pair, *it)));
    for ((spec, gfx), environment) in each {
        if let Err(error) = spec.parse::<stacks::Spec>() {
            problems.push(format!("error: {}", explained(&error)));
        }
        if let Some(Err(error)) = gfx.map(str::parse::<device::Arch>) {
            problems.push(format!("error: {error}"));
        }
        let short = spec.strip_prefix("debian:").unwrap_or(spec);
        let mut name = gfx.map_or_else(|| format!("{short} GPU"), |gfx| format!("{short} {gfx}"));
        name.extend(environment.map(|environment| format!(" in {environment}")));
        let plain = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
        let file = format!("{}.jsonl", name.chars().map(plain).collect::<String>());
        let record = args.out.join(file);
        match columns.iter().find(|column| column.record == record) {
            Some(same) if same.name == name => {}
            Some(other) => problems.push(format!(
                "error: `{name}` and `{}` would have the same file of records, `{}`",
                other.name,
                record.display()
            )),
            None => {
                let (spec, gfx) = (spec.to_owned(), gfx.map(str::to_owned));
                let environment = environment.cloned();
                columns.push(Planned { name, spec, gfx, environment, record });
            }
        }
    }
    problems.dedup();
    if problems.is_empty() { Ok(columns) } else { Err(Stop::usage(problems.join("\n"))) }
}

/// Runs a column, or what is left of it, in a process of its own. Why it came to no end, where it did not.
fn run(args: &Matrix, column: &Planned, cancel: &Cancel) -> Result<Option<String>, Stop> {
    let cannot = |e: std::io::Error| Stop::no_verdict(format!("error: cannot start a run: {e}"));
    let mut command = Command::new(own_program::held().map_err(cannot)?);
    let args::Selection { cases, exclude, from } = &args.selection;
    command.arg("run").args(cases);
    let mut option = |name: &str, value: &str| _ = command.arg(format!("{name}={value}"));
    exclude.iter().for_each(|name| option("--exclude", name));
    from.words().iter().for_each(|(name, value)| option(name, value));
    option("--rocm", &column.spec);
    option("--device", if column.gfx.is_some() { "emulated" } else { "gpu" });
    column.gfx.iter().for_each(|gfx| option("--gfx", gfx));
    column.environment.iter().for_each(|name| option("--in", name));
    args.with.iter().for_each(|name| option("--with", name));
    args.mirrors.mirror.iter().for_each(|url| option("--mirror", url));
    args.jobs.iter().for_each(|jobs| option("--jobs", &jobs.to_string()));
    args.quiet_timeout.iter().for_each(|time| option("--quiet-timeout", &time.to_string()));
    if args.selection.from.is_trusted() {
        command.arg("--trust");
    }
    command.arg("--record").arg(&column.record);
    if column.record.exists() {
        command.arg("--resume");
    }
    // Its table is what the page shows.
    command.arg("--below").arg(std::process::id().to_string());
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(cannot)?;
    let mut told = false;
    let status = loop {
        if let Some(status) = run.try_wait().map_err(cannot)? {
            break status;
        }
        // A terminal tells both. Whoever tells this process alone means the run as well.
        if cancel.is_cancelled() && !told {
            told = kill_process(Pid::from_child(&run), Signal::INT).is_ok();
        }
        sleep(Duration::from_millis(20));
    };
    Ok(match status.code() {
        Some(0 | 1 | 3 | 4) => None,
        Some(2) => Some("it could not be run as asked".to_owned()),
        Some(code) => Some(format!("it ended with exit code {code}")),
        None => Some(format!("it was ended: {status}")),
    })
}

/// What a column's file holds, and the planned trials that it lacks.
fn read(record: &Path) -> Result<(Vec<Record>, Vec<String>), Stop> {
    if !record.exists() {
        return Ok(Default::default());
    }
    let file = RecordFile::open(record)?;
    let held = file.index.last().pop().map(|run| file.held(run, false)).transpose()?;
    let Some(held) = held else { return Ok(Default::default()) };
    let missing = held.missing();
    if missing.count > missing.listed.len() as u64 {
        return Err(Stop::usage(format!(
            "error: `{}` lacks {} planned trials, more than a page can name",
            record.display(),
            missing.count
        )));
    }
    let names = missing.listed.into_iter().map(|(_, trial)| trial).collect();
    Ok((held.records.into_values().collect(), names))
}

fn write(out: &Path, columns: &[Column]) -> Result<(), Stop> {
    let date = report::date(SystemTime::now());
    let page = MatrixPage { columns, date: &date }.html();
    Ok(output_files::replace(&out.join("index.html"), output_files::PAGE, &page)?)
}
