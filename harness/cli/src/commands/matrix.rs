//! Runs the cases on several stacks and devices, and writes a page with all results.

use std::{collections::HashSet, fs, path::Path, process::ExitCode, time::SystemTime};

use report::{Column, MatrixPage, Record, count};

use super::{show, store};
use crate::{
    args,
    args::{DeviceKind, Matrix},
    interrupt, outputs,
};
use engine::{
    Selected, Stop,
    matrix::{MatrixOptions, PlannedColumn, planned_columns},
    output_files,
};

pub(crate) fn matrix(args: &Matrix) -> Result<ExitCode, Stop> {
    let library = args.selection.library()?;
    let selected = args.selection.select(&library);
    let every = args.selection.cases.is_empty() && args.selection.exclude.is_empty();
    let (selected, planned) = Stop::both(selected, plan_columns(args))?;
    let selected: HashSet<String> = selected.iter().map(Selected::id).collect();
    // Without a selection, records of cases that the library no longer contains are shown too.
    let wanted = |trial: &str| every || selected.contains(trial);
    output_files::check_own_file(&args.out.join("index.html"), output_files::PAGE)?;
    fs::create_dir_all(&args.out).map_err(|e| {
        Stop::usage(format!("error: cannot make the folder `{}`: {e}", args.out.display()))
    })?;
    let (cancel, words) = (interrupt::cancel()?, run_arguments(args));
    let (mut columns, mut trouble) = (Vec::new(), Vec::new());
    let (mut all, mut not_run) = (Vec::<Record>::new(), 0);
    for column in &planned {
        if cancel.is_cancelled() {
            trouble.push(format!("{}: not started, because the run was interrupted", column.name));
            continue;
        }
        outputs::note(format!("{}: running", column.name));
        let ended = column.run(&words, &cancel)?;
        if let Some(why) = ended {
            trouble.push(format!("{}: {why}", column.name));
        }
        let (records, missing) = column.read()?;
        outputs::note(format!("{}: {}", column.name, report::sentence(&records)));
        all.extend(records.iter().cloned());
        not_run += missing.len();
        columns.push(Column { name: column.name.clone(), records, missing, past: Vec::new() });
        // After each column, the page is written, so that it can be read while the other columns run.
        write(&args.out, &columns)?;
    }
    if let Some(store) = &args.store {
        let files = planned.iter().map(|column| &column.record).filter(|record| record.exists());
        let files: Vec<_> =
            show::collect_results(files.map(|record| store::open_complete(record)))?;
        if !planned.is_empty() {
            outputs::note(store::add(store, &files)?);
        }
        columns = store::columns(store, &wanted)?;
        if columns.is_empty() {
            return Err(Stop::nothing("error: the store has no records for these columns"));
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
            "{} planned but not run; repeat the command to run the rest",
            count(not_run, "trial")
        ));
    }
    outputs::note(trouble.join("\n"));
    // An unexpected result takes precedence over a missing verdict.
    Ok(ExitCode::from(if status == 1 { 1 } else { 3 }))
}

/// Returns the columns that the options choose.
fn plan_columns(args: &Matrix) -> Result<Vec<PlannedColumn>, Stop> {
    let device = match args.device {
        DeviceKind::Auto => {
            Err(Stop::usage("error: `--device auto` is not allowed here; use `emulated` or `gpu`"))
        }
        _ => Ok(()),
    };
    let options = MatrixOptions {
        on_gpu: args.device == DeviceKind::Gpu,
        rocm: args.rocm.clone(),
        gfx: args.gfx.clone(),
        on: args.on.clone(),
        environments: args.environments.clone(),
        out: args.out.clone(),
        may_be_empty: args.store.is_some(),
    };
    Stop::both(planned_columns(&options), device).map(|(columns, ())| columns)
}

/// Returns the arguments of `rocrepro run` that all columns share.
fn run_arguments(args: &Matrix) -> Vec<String> {
    let args::Selection { cases, exclude, from } = &args.selection;
    let mut words = cases.clone();
    let mut option = |name: &str, value: &str| words.push(format!("{name}={value}"));
    exclude.iter().for_each(|name| option("--exclude", name));
    from.words().iter().for_each(|(name, value)| option(name, value));
    args.with.iter().for_each(|name| option("--with", name));
    args.mirrors.mirror.iter().for_each(|url| option("--mirror", url));
    args.jobs.iter().for_each(|jobs| option("--jobs", &jobs.to_string()));
    args.quiet_timeout.iter().for_each(|time| option("--quiet-timeout", &time.to_string()));
    words.extend(from.is_trusted().then(|| "--trust".to_owned()));
    words
}

fn write(out: &Path, columns: &[Column]) -> Result<(), Stop> {
    let date = report::date(SystemTime::now());
    let page = MatrixPage { columns, date: &date }.html();
    Ok(output_files::replace(&out.join("index.html"), output_files::PAGE, &page)?)
}
