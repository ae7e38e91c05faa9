//! Prints trials as stand-alone programs, and verifies that the programs behave like their trials.

use std::{path::Path, process::ExitCode};

use super::setup::setup;
use crate::{args::Export, interrupt, outputs};
use engine::{
    Job, Session, Stop,
    exported::{ExportError, VerifiedProgram, print_program, verify_all},
    host, output_files, planned_jobs,
    select::plans_only,
};
use report::issue::{Identity, Syntax, redact_program};

pub(crate) fn export(args: &Export) -> Result<ExitCode, Stop> {
    let library = args.selection.library()?;
    let (mut options, faults) = setup(&args.on, None, &args.fault)?;
    if args.selection.cases.is_empty()
        && args.selection.from.selected_source().is_none()
        && !args.all
    {
        return Err(Stop::usage(
            "error: no case given; name a case, or use `--all` or `--cases-from`",
        ));
    }
    let mut selected = args.selection.select(&library)?;
    if args.all {
        selected.retain(|entry| !entry.case.is_program());
    }
    plans_only("export", &selected)?;
    if !args.trials {
        // The case library keeps trials of a case together, so this keeps the first trial of each case.
        selected.dedup_by(|next, first| next.case.id == first.case.id);
    }
    options.cases_from = args.selection.from.selected_source();
    if !faults.is_empty() || args.declared_fault {
        options.hangs_on_purpose = true;
    }
    let planned: Vec<_> = selected
        .iter()
        .filter_map(|entry| {
            let declared = entry.case.faults.iter().find(|f| f.on.matches(&entry.trial));
            match args.declared_fault {
                true => Some((entry, vec![declared?.planted.clone()])),
                false => Some((entry, faults.clone())),
            }
        })
        .collect();
    let mut jobs = planned_jobs(&library, planned)?;
    if args.verify {
        interrupt::cancel()?;
    }
    let session = Session::open_on_one(options)?;
    match jobs.len() {
        0 => Err(Stop::nothing("error: no trial to export")),
        1 => export_one(args, &session, jobs.remove(0)),
        _ if !args.verify => Err(Stop::usage(format!(
            "error: {} trials are selected; name one, or verify them with `--verify`",
            jobs.len()
        ))),
        _ => verify_many(args, &session, jobs),
    }
}

fn export_one(args: &Export, session: &Session, job: Job<'_>) -> Result<ExitCode, Stop> {
    let mut who = host::identity();
    who.values = session.private_values(&job.lowered.plan.environment);
    if !args.verify {
        let text = print_program(session, &job, args.form, Vec::new(), Vec::new())?;
        write(&args.out, &text, &who)?;
        return Ok(ExitCode::SUCCESS);
    }
    let id = job.id();
    let mut result = Err(ExportError::Interrupted.into());
    verify_all(
        session,
        vec![job],
        args.form,
        args.repeat,
        &interrupt::cancel()?,
        |_, verified| {
            result = verified;
        },
    )?;
    let result = result?;
    if result.runs == 0 {
        return Err(Stop::nothing(format!("{id}: skipped: {}", result.outcome.summary)));
    }
    write(&args.out, &result.text, &who)?;
    outputs::note(line(&id, &Ok(&result)));
    Ok(ExitCode::from(u8::from(!result.is_verified())))
}

/// Verifies many programs at once, and prints a line for each and the totals.
fn verify_many(args: &Export, session: &Session, jobs: Vec<Job<'_>>) -> Result<ExitCode, Stop> {
    let cancel = interrupt::cancel()?;
    let ids: Vec<String> = jobs.iter().map(Job::id).collect();
    let mut counts = [0_u32; 4];
    let mut shown = Ok(());
    verify_all(session, jobs, args.form, args.repeat, &cancel, |index, result| {
        let which = match &result {
            Ok(result) if result.runs == 0 => 2,
            Ok(result) => usize::from(!result.is_verified()),
            Err(_) => 3,
        };
        counts[which] += 1;
        let text = format!("{}\n", line(&ids[index], &result.as_ref()));
        if shown.is_ok() {
            shown = outputs::print(&text);
        }
    })?;
    shown?;
    let [verified, differ, skipped, without] = counts;
    outputs::print(&format!(
        "\n{} exported as {}: {verified} verified, {differ} differ, {skipped} skipped, {without} without verdict\n",
        ids.len(),
        args.form.name()
    ))?;
    if cancel.is_cancelled() || without > 0 {
        return Ok(ExitCode::from(3));
    }
    Ok(ExitCode::from(u8::from(differ > 0)))
}

fn line(id: &str, result: &Result<&VerifiedProgram, &Stop>) -> String {
    match result {
        Err(stop) => format!("no verdict {id}: {stop}"),
        Ok(result) if result.runs == 0 => format!("skipped    {id}: {}", result.outcome.summary),
        Ok(result) => {
            let word = if result.is_verified() { "verified  " } else { "DIFFERS   " };
            let difference = result.difference.as_ref().map_or(String::new(), |d| format!(": {d}"));
            format!(
                "{word} {id}: {} {}/{}{difference}",
                result.outcome.signature, result.verified, result.runs
            )
        }
    }
}

/// Writes a program without private values, because it is meant for other people.
fn write(out: &Path, text: &str, who: &Identity) -> Result<(), Stop> {
    let public = redact_program(text, Syntax::Cpp, who);
    if public != text {
        outputs::note("private values in the program were replaced by placeholders such as <path>");
    }
    if out.as_os_str() == "-" {
        return outputs::print_data(&public);
    }
    Ok(output_files::replace(out, output_files::PROGRAM, &public)?)
}
