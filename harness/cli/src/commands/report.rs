mod controls;
mod logs;
mod own;
mod program;

use std::{path::Path, process::ExitCode};

use judge::{Kind, VerdictKind, signature_fits};
use plan::{Library, Plan};
use report::{
    Record,
    evidence::{Bisected, Evidence, Minimised, Mitigations, RECORDS_FILE, REPORT_FILE},
    issue::{Duplicate, Environment, Findings, Form, Identity, Issue, Log, Mistake, redact},
};

use super::doctor;
use crate::{args::Report, commands::setup::setup, interrupt, outputs};
use engine::{
    CaseLibrary, Session, SessionOptions, Stop, evidence,
    failing_trial::{FailingTrial, TrialRuns, first_failing},
    kernel_log,
    passing_release::PassingReleaseSearch,
    record,
    rerun::{Rerun, What},
    select,
};

pub(super) use self::own::{Wanted as OwnProgram, control, install, text_of};

pub(crate) fn report(args: &Report) -> Result<ExitCode, Stop> {
    let form = args.form.as_deref().map(str::parse::<Form>).transpose();
    let form = form.map_err(|e| Stop::usage(format!("error: {e}")))?;
    let library = CaseLibrary::load(args.from.chosen().as_ref())?;
    let selected = select(&library, std::slice::from_ref(&args.case))?;
    let (mut options, faults) = setup(&args.on, None, &args.fault)?;
    options.cases_from = args.from.chosen();
    let session = Session::open_on_one(options.clone())?;
    let (subject, runs) =
        first_failing(&library, selected, &faults, &session, args.repeat, &interrupt::cancel()?)?;
    let folder = evidence::folder(args.out.as_deref(), &subject.selected.case.id)?;
    let Some(failed) = runs.failed().cloned() else {
        return Err(Stop::no_verdict("error: no run failed"));
    };

    if let Some(known) = &failed.verdict.known
        && failed.verdict.kind == VerdictKind::Difference
    {
        return Err(Stop::usage(format!(
            "error: {} differs from what the case expects, and no document promises that ({}); a difference is not reported \
             as a fault",
            failed.trial,
            known.difference.as_deref().unwrap_or_default()
        )));
    }

    // Before hours of runs: one of them may be unreadable.
    let minimised = about::<Minimised>(&folder, &failed, |found| &found.trial)?;
    let mitigations = about::<Mitigations>(&folder, &failed, |found| &found.trial)?;
    let bisected = about::<Bisected>(&folder, &failed, |found| &found.trial)?;
    let finer = finer(&folder, bisected.as_ref(), &failed)?;

    let (environment, who) = machine(&session, &failed, form);
    let before = kernel_log::uptime();
    let controls = controls::controls(&subject, &session, &options, &failed, args.repeat)?;
    if subject.selected.case.is_program() {
        let own = OwnProgram {
            subject: &subject,
            session: &session,
            runs: &runs,
            failed: &failed,
            controls,
            again: again(args, &session, &subject, form),
            program: own::of_case(&subject, &failed)?,
            case: library.text(&subject.selected.case.id).to_owned(),
            variables: variables(&session, &subject.job()?.lowered.plan.environment),
            duplicates: duplicates(&library, &subject, &failed, &[]),
        };
        return own.write(&folder, form, args.open);
    }
    let job = subject.job()?;
    let wanted = program::Wanted {
        subject: &subject,
        session: &session,
        options: &options,
        failed: &failed,
        rate: runs.rate,
        folder: &folder,
        who: &who,
    };
    let found = wanted.program(minimised.as_ref())?;
    let (program, log, stacks) = match found {
        Some(found) => (Some(found.program), found.log, found.stacks),
        None => (None, None, String::new()),
    };
    let mut logs = logs::logs(&subject, &session, &failed, log.as_deref(), &who)?;
    if !stacks.is_empty() {
        let title =
            "Native stacks of the program, by a signal handler that was linked in for one more run"
                .to_owned();
        logs.insert(0, Log { title, text: redact(&stacks, &who) });
    }
    logs.extend(stood(&failed, &who));
    let findings = Findings {
        planted: faults.iter().map(ToString::to_string).collect(),
        about: subject.selected.case.about.clone(),
        mistake: mistake(&subject, &session, &options, &job.lowered.plan)?,
        rate: runs.rate,
        others: runs.others.clone(),
        program,
        packages: packages(&session, &failed),
        case: library.text(&subject.selected.case.id).to_owned(),
        controls,
        minimised,
        mitigations,
        finer,
        bisected,
        kernel_log: kernel_log::of_processes(before, &session.processes.all(), &who),
        environment,
        variables: variables(&session, &job.lowered.plan.environment),
        logs,
        libraries: job.lowered.plan.libraries.clone(),
        duplicates: duplicates(&library, &subject, &failed, &job.lowered.plan.libraries),
        again: redact(&again(args, &session, &subject, form), &who),
        record: redacted(failed, &who),
    };
    let program = findings.program.as_ref().map(|program| program.file.as_str());
    let issue = Issue::new(&findings, form).published(&who, program);
    write(&folder, &runs, &issue)?;
    outputs::print(&summary(&folder, &findings, &issue, args.open))?;
    Ok(ExitCode::SUCCESS)
}

/// This machine, without what does not matter to a reader, and who must not be named.
fn machine(session: &Session, failed: &Record, form: Option<Form>) -> (Environment, Identity) {
    let (machine, mut who) = doctor::environment(form.is_some_and(about_torch));
    who.values = session.private_values();
    let mut environment = machine.redacted(&who);
    // What was logged before is not of this failure, and what is not under it does not matter to a reader.
    environment.kernel_log.clear();
    environment
        .stacks
        .retain(|stack| stack.spec == failed.stack.spec || !stack.spec.starts_with("debian:"));
    (environment, who)
}

/// Forms that want PyTorch's own description of the machine.
fn about_torch(form: Form) -> bool {
    matches!(form, Form::Pytorch | Form::PytorchPt2 | Form::Accelerate | Form::Triton)
}

/// What the sanitizer finds in kernels of the case's own, where the failing release runs on the emulated device.
fn mistake(
    subject: &FailingTrial<'_>,
    session: &Session,
    options: &SessionOptions,
    plan: &Plan,
) -> Result<Option<Mistake>, Stop> {
    let elsewhere = PassingReleaseSearch { options: options.clone(), named: None };
    let watched = rewrite::launches_own(plan).then(|| elsewhere.watched(session)).flatten();
    let Some(watched) = watched else { return Ok(None) };
    let unplanted = subject.with(subject.selected.clone(), Vec::new());
    let found = unplanted.run(&watched, 1, 0, &[], &interrupt::cancel()?)?.into_iter().next();
    let found = found.filter(|record| record.outcome.kind == Kind::MemoryFault);
    Ok(found.map(|record| Mistake { found: record.outcome.summary, again: record.again }))
}

/// What a command found about this trial earlier; what is about another trial stays out.
fn about<E: Evidence>(
    folder: &Path,
    failed: &Record,
    trial: impl Fn(&E) -> &String,
) -> Result<Option<E>, Stop> {
    let found = evidence::read::<E>(folder)?;
    Ok(found.filter(|found| *trial(found) == failed.trial))
}

/// What a second search found between the two builds of the first; one that went on from an earlier answer stays out.
fn finer(
    folder: &Path,
    bisected: Option<&Bisected>,
    failed: &Record,
) -> Result<Option<Bisected>, Stop> {
    let finer = about::<Bisected>(&folder.join(Bisected::FINER), failed, |found| &found.trial)?;
    Ok(finer.filter(|finer| bisected.is_some_and(|bisected| finer.went_on_from(bisected))))
}

/// The packages of a fetched stack whose libraries were in the failing process. In the place of libhsa-runtime64 stands the
/// emulated device.
fn packages(session: &Session, failed: &Record) -> Vec<(String, String)> {
    let loaded: Vec<String> = failed
        .stack
        .libraries
        .iter()
        .filter_map(|library| library.name.split(".so").next())
        .filter(|name| !failed.device.emulated || *name != "libhsa-runtime64")
        .map(|name| name.replace('_', "-"))
        .collect();
    // The version of the interface follows the name.
    let of = |package: &str, library: &String| {
        let rest = package.to_lowercase();
        let rest = rest.strip_prefix(&library.to_lowercase()).map(str::to_owned);
        rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || "-.".contains(c)))
    };
    let packages = session.stack.manifest.iter().flat_map(|manifest| &manifest.packages);
    packages
        .filter(|package| loaded.iter().any(|library| of(&package.name, library)))
        .map(|package| (package.name.clone(), package.version.clone()))
        .collect()
}

/// Variables of the trial beyond a stock environment.
fn variables(
    session: &Session,
    of_case: &std::collections::BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let mut all: Vec<_> = session.variables().chain(of_case).collect();
    all.dedup();
    all.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Where the threads of a run that hung stood.
fn stood(failed: &Record, who: &Identity) -> Option<Log> {
    let title = "Where the threads of a run that hung stood when it was ended".to_owned();
    (!failed.stacks.is_empty()).then(|| Log { title, text: redact(&failed.stacks.join("\n"), who) })
}

/// Known failures of other cases that end with the same signature, or call the same function and fail alike.
fn duplicates(
    library: &CaseLibrary,
    subject: &FailingTrial<'_>,
    failed: &Record,
    libraries: &[Library],
) -> Vec<Duplicate> {
    let mut found = Vec::new();
    for case in library.cases() {
        let same_libraries = case.needs.libraries == libraries;
        for known in &case.known {
            let own = case.id == subject.selected.case.id;
            let version = failed.stack.rocm.as_ref();
            let here = version.is_some_and(|version| known.rocm.contains(version));
            // A window that takes any failure of a kind says nothing about this one.
            let vague = known.signature.split(':').nth(1).is_none_or(|part| part == "*");
            if !here
                || vague
                || (own && !known.on.matches(&subject.selected.trial))
                || (!own && !same_libraries)
                || !signature_fits(&known.signature, &failed.outcome.signature)
            {
                continue;
            }
            // The issues of its case may be about another failure of it.
            let upstream = known.upstream.iter().cloned().collect();
            found.push(Duplicate { case: case.id.clone(), known: record::window(known), upstream });
        }
    }
    found
}

/// The command that writes this report again.
fn again(
    args: &Report,
    session: &Session,
    subject: &FailingTrial<'_>,
    form: Option<Form>,
) -> String {
    let (what, faults) = (subject.id(), subject.faults.as_slice());
    let command = "report";
    let mut text =
        Rerun { command, what: What::Trial(&what), late: session.late, faults }.of(session);
    if args.repeat != Report::REPEAT {
        text.push_str(&format!(" --repeat {}", args.repeat));
    }
    if let Some(form) = form {
        text.push_str(&format!(" --for {form}"));
    }
    text
}

/// A record without names of people and machines.
fn redacted(mut record: Record, who: &Identity) -> Record {
    let outcome = &mut record.outcome;
    let texts = [
        &mut outcome.signature,
        &mut outcome.summary,
        &mut record.again,
        &mut record.stack.spec,
        &mut record.stack.root,
    ];
    texts.into_iter().chain(&mut outcome.details).for_each(|text| *text = redact(text, who));
    record
}

fn write(folder: &Path, runs: &TrialRuns, issue: &Issue) -> Result<(), Stop> {
    let mut lines = String::new();
    for record in &runs.records {
        lines.push_str(&report::to_line(record).map_err(Stop::no_verdict)?);
        lines.push('\n');
    }
    evidence::write_text(folder, RECORDS_FILE, &lines)?;
    let title = format!(
        "<!-- title: {} -->\n<!-- repository: {} -->\n\n",
        // Nothing of it ends the comment, or is markup for who takes it for text.
        issue.title.replace("--", "- -").replace('<', "&lt;").replace("](", "] ("),
        issue.repository
    );
    evidence::write_text(folder, REPORT_FILE, &(title + &issue.markdown()))?;
    Ok(())
}

fn summary(folder: &Path, findings: &Findings, issue: &Issue, open: bool) -> String {
    let mut text = format!("{}\n", folder.join(REPORT_FILE).display());
    text.push_str(&format!("  title       {}\n", issue.title));
    text.push_str(&format!(
        "  belongs to  https://github.com/{} ({} form)\n",
        issue.repository, issue.form
    ));
    if let Some(mistake) = &findings.mistake {
        text.push_str(&format!(
            "  look first  {}: the case's own kernel is the first suspect, not ROCm\n              {}\n",
            mistake.found, mistake.again
        ));
    }
    if report::issue::may_be_its_own(findings) {
        text.push_str(
            "  look first  the program itself: nothing that was seen shows that ROCm did this\n",
        );
    }
    let mut issues: Vec<_> =
        findings.duplicates.iter().flat_map(|d| d.known.upstream.clone()).collect();
    issues.sort();
    issues.dedup();
    if !issues.is_empty() {
        text.push_str(&format!("  known as    {}\n", issues.join(", ")));
    }
    text.push_str(&format!("  rate        {}\n", findings.rate));
    for control in &findings.controls {
        let failure = control.failure(&findings.record.outcome.signature);
        text.push_str(&format!("  control     {}: {}; {failure}\n", control.what, control.rate));
    }
    let missing =
        [(findings.minimised.is_none(), "minimise"), (findings.mitigations.is_none(), "mitigate")];
    let own = findings.program.as_ref().is_some_and(|program| program.own.is_some());
    let missing = if own { &[][..] } else { &missing };
    let missing: Vec<_> =
        missing.iter().filter(|(lacks, _)| *lacks).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        let out = folder.display();
        text.push_str(&format!(
            "  would gain from `rocrepro {} --out {out}`\n",
            missing.join("`, `")
        ));
    }
    if open {
        let link = issue.link();
        text.push_str(&format!("\n{}\n", link.url));
        if !link.cut.is_empty() {
            text.push_str(&format!(
                "\nLeft out of the address, paste from the report: {}\n",
                link.cut.join(", ")
            ));
        }
    }
    text
}
