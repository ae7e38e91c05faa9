//! Writes the upstream issue for a failing trial or program: makes the runs that the issue needs, and writes the files
//! of the evidence folder.

mod as_printed;
mod call_sequence;
mod controls;
mod draft;
mod error;
mod inline_helper;
mod known_bug;
mod logs;
mod minimal_case;
mod on_cpu;
mod program;
mod searches;
mod shorter_program;
mod stand_alone;
mod unused_definitions;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use device::Sanitize;
use judge::{Kind, VerdictKind, signature_fits};
use plan::Library;
use report::{
    Record,
    evidence::{BisectEvidence, Evidence, MinimiseEvidence, MinimisedProgram, Mitigations},
    issue::{Duplicate, Findings, Form, Log, SanitizerError, faulting_library, redact},
};
use supervise::Cancel;

use self::{
    controls::Controls,
    draft::Draft,
    known_bug::{is_same, known_bugs, own_known_bug},
    logs::ProgramLog,
    minimal_case::MinimalCase,
    searches::Searches,
    shorter_program::ShorterProgram,
    unused_definitions::UnusedDefinitions,
};
pub use self::{error::IssueError, known_bug::known_bugs_in_log, logs::LEVEL as LOG_LEVEL};
use crate::{
    CaseLibrary, Session, SessionOptions, Stop,
    command_line::CommandLine,
    evidence,
    failing_trial::{
        FailingTrial, Subjects, TrialRuns, all_runs, first_failure, is_same_after_edit,
    },
    kernel_log,
    passing_release::PassingReleaseSearch,
    record,
    rerun::{Rerun, RerunSubject, quoted},
};

/// Default number of runs for the failing trial, and for each control.
pub const REPEAT: u32 = 5;

/// Default number of runs of a failing program on each release.
pub const PROGRAM_REPEAT: u32 = 3;

/// Minimum number of runs of a minimised case whose trial fails only in some of its runs.
const MIN_RUNS: u32 = 20;

/// Minimum time for the search for unused definitions in the printed program. This search only compiles the program.
const MIN_UNUSED_TIME: Duration = Duration::from_secs(30);

/// Default time limit of all searches: for a shorter program, and for settings that help.
pub const BUDGET: Duration = Duration::from_secs(180);

/// Options of a report about a failing trial.
#[derive(Clone, Debug)]
pub struct IssueOptions {
    /// The stack and device of the trials.
    pub session: SessionOptions,
    /// Number of runs of the trial, and of each control.
    pub repeat: u32,
    /// Time limit of all searches together: for a shorter program, and for settings that help.
    pub budget: Duration,
    /// Further releases for controls, as `RELEASE` or `RELEASE@GFX`. If empty, the releases that this machine has are
    /// used.
    pub also: Vec<String>,
    /// True to write the issue even if the program itself may be the cause.
    pub anyway: bool,
    /// The issue form to fill in; by default that of the repository to which the failure belongs.
    pub form: Option<Form>,
    /// The evidence folder; by default it is named after the case.
    pub out: Option<PathBuf>,
    /// True to add a link to the summary. The link opens the issue form with its fields filled in.
    pub open: bool,
}

/// An event during the writing of an issue.
#[derive(Debug)]
#[non_exhaustive]
pub enum IssueEvent<'a> {
    /// No short program could be made.
    NoShortProgram(&'a Stop),
    /// The short program that was found could not be run on another release.
    NotTriedOn {
        /// Name of the release.
        release: &'a str,
        /// The reason why the program could not be run on this release.
        why: &'a Stop,
    },
    /// The exported program could not be compared with its trial.
    NotVerified(&'a Stop),
    /// The trial cannot be written as a program.
    NotExported(&'a Stop),
    /// A step with this description begins.
    Step(&'static str),
    /// A candidate for a shorter program was tried.
    ShorterProgramTried {
        /// Number of candidates that were tried so far.
        tries: u32,
        /// Longest time until the search ends.
        left: Duration,
    },
    /// The result of an earlier command is not used, because it is about another case with the same name, or about
    /// another version of the case.
    EvidenceNotUsed {
        /// Name of the file in the evidence folder.
        file: &'static str,
    },
    /// The shorter program that an earlier search found is not used.
    ShorterProgramNotUsed {
        /// The reason why the shorter program is not used.
        why: &'a str,
    },
    /// No run on another release had a verdict.
    NotJudged {
        /// Name of the release.
        release: &'a str,
        /// The reason why no run had a verdict.
        why: &'a str,
    },
}

/// A receiver of the events of a report.
pub type IssueReporter<'a> = &'a dyn Fn(IssueEvent<'_>);

/// Checks the options for mistakes that can be detected before any trial runs, because the runs may take hours.
///
/// # Errors
/// Returns an error for releases that are not valid, or for an evidence folder with files that rocrepro did not write.
pub fn check(options: &IssueOptions, command: Option<&CommandLine>) -> Result<(), Stop> {
    let releases = controls::on_releases(&options.session, &options.also);
    let folder = command.map(|line| evidence::folder(options.out.as_deref(), line.name()));
    Stop::both(releases, folder.transpose().map_err(Stop::from)).map(drop)
}

/// Writes the issue for the first of several trials that fails, and returns a summary for people.
///
/// # Errors
/// Returns a usage error for a failure that must not be reported. Other errors: no trial fails, trouble of this
/// machine, or a request to stop.
pub fn report(
    session: &Session,
    options: &IssueOptions,
    subjects: Subjects<'_>,
    cancel: &Cancel,
    events: IssueReporter<'_>,
) -> Result<String, Stop> {
    let IssueOptions { form, repeat, .. } = *options;
    events(IssueEvent::Step("running the trial until it fails"));
    // The other runs may take long, for example if the trial hangs.
    let (found, first) = first_failure(subjects, session, repeat, 1, cancel)?;
    let library = found.library;
    let runs = TrialRuns::from_records(first);
    let folder = evidence::folder(options.out.as_deref(), &found.selected.case.id)?;
    let failed = runs.failed().cloned().ok_or(IssueError::NoFailure)?;
    if let Some(known) = &failed.verdict.known
        && failed.verdict.kind == VerdictKind::Difference
    {
        let difference = known.difference.clone().unwrap_or_default();
        return Err(IssueError::Difference { trial: failed.trial, difference }.into());
    }

    // A file that cannot be read is reported before hours of runs, not after them.
    let minimised = evidence_about::<MinimiseEvidence>(&folder, &failed)?;
    let shortened = evidence_about::<MinimisedProgram>(&folder, &failed)?;
    let mitigations = evidence_about::<Mitigations>(&folder, &failed)?;
    let bisected = evidence_about::<BisectEvidence>(&folder, &failed)?;
    let finer = refined_bisect(&folder, bisected.as_ref(), &failed)?;
    let digest = found.job()?.sha256();
    let minimised = with_digest(minimised, |it| &it.digest, &[&digest], events);
    let shortened = with_digest(shortened, |it| &it.digest, &[&digest], events);

    events(IssueEvent::Step("running the trial under the sanitizer"));
    let mistake = sanitizer_error(&found, session, &options.session, cancel)?;
    if let Some(SanitizerError { found: message, again }) =
        mistake.clone().filter(|_| !options.anyway)
    {
        let what = match found.selected.case.is_program() {
            true => "the program",
            false => "a kernel of the case",
        };
        let found = message;
        return Err(IssueError::OwnMistake { what, found, again }.into());
    }
    let uptime = kernel_log::uptime();
    let is_program = found.selected.case.is_program();
    let text_of = |subject: &FailingTrial<'_>| match subject.command {
        Some(_) => String::new(),
        None => subject.library.text(&subject.selected.case.id).to_owned(),
    };
    // The signature of a program names the program's own checks and phases, so equal signatures of two programs do not
    // mean the same failure.
    let duplicates_of = |failed: &Record, plan: &plan::Plan| match is_program {
        true => Vec::new(),
        false => duplicates(library, &found, failed, &plan.libraries),
    };
    // The original trial decides: a shorter program still has the trial's known failure, although it is another case.
    let mut known: Vec<_> = own_known_bug(&found, &failed).into_iter().collect();
    let is_of_the_user = found.command.is_some() || options.session.cases_from.is_some();
    let first_log = {
        // A complete report exists from the first failing run on, and further steps improve it.
        let draft = Draft {
            subject: &found,
            session,
            runs: &runs,
            failed: &failed,
            again: again(options, session, &found),
            folder: &folder,
            form,
            open: options.open,
            anyway: options.anyway,
            is_of_the_user,
        };
        let plan = &found.job()?.lowered.plan;
        let (environment, who) = draft.machine(&plan.environment, cancel);
        let program = || program::of_trial(&found, session, &failed, None, None);
        let findings = Findings {
            mistake: mistake.clone(),
            program: is_program.then(program).transpose()?,
            case: text_of(&found),
            variables: variables(session, &plan.environment),
            duplicates: duplicates_of(&failed, plan),
            known_bugs: known.clone(),
            unfinished: Some("the other runs"),
            ..draft.findings(environment, &who)
        };
        draft.write(findings.clone(), &who)?;
        if is_program {
            events(IssueEvent::Step("running the program with a log of its HIP calls"));
            let log = logs::of_program(&found, session, &failed, &who, cancel)?;
            // The known failures are those of the library, also for a program of the user.
            let (case_library, on) = (CaseLibrary::load(None)?, record::ground(&failed));
            let by_calls = known_bugs(&case_library, &log.text, &failed.stacks, &on);
            for bug in by_calls {
                if !known.iter().any(|own| is_same(own, &bug)) {
                    known.push(bug);
                }
            }
            draft.write(Findings { known_bugs: known.clone(), ..findings }, &who)?;
            Some(log)
        } else {
            None
        }
    };
    let runs = all_runs(&found, runs.records, session, repeat, cancel)?;
    let failed = runs.failed().cloned().ok_or(IssueError::NoFailure)?;
    let deadline = Instant::now() + options.budget;
    let searches = Searches { options, folder: &folder, deadline, cancel, events };
    let shortened = match shortened {
        // A search for a shorter program needs a failure that occurs in each run.
        None if is_program && runs.rate.failed == runs.rate.runs => {
            searches.shorter_program(&found, Duration::from_nanos(failed.wall_ns))?
        }
        shortened => shortened,
    };
    // The issue is about the program that it prints: its runs, its controls and its commands.
    let shorter = shortened
        .map(|found_before| ShorterProgram::read(&found, found_before, &folder, &options.session));
    let shorter = shorter.transpose()?.and_then(|read| {
        read.map_err(|why| events(IssueEvent::ShorterProgramNotUsed { why: &why })).ok()
    });
    let (subject, runs, shortened) = match &shorter {
        None => (found.clone(), runs, None),
        Some(shorter) => {
            let subject = shorter.subject(&found)?;
            let mut records = subject.run(session, repeat, 0, &[], cancel)?;
            shorter.describe(&mut records, &subject, session);
            let same = |record: &&Record| is_same_after_edit(&record.outcome, &failed.outcome);
            match records.iter().find(same).map(|record| record.outcome.signature.clone()) {
                None => {
                    let why = "the shortened program no longer fails in the same way";
                    events(IssueEvent::ShorterProgramNotUsed { why });
                    (found.clone(), runs, None)
                }
                signature => {
                    let runs = TrialRuns::with_signature(records, signature);
                    (subject, runs, Some(shorter.found.clone()))
                }
            }
        }
    };
    let has_minimised = minimised.is_some();
    let minimal = minimised.and_then(|minimised| MinimalCase::read(minimised, &folder));
    if has_minimised && minimal.is_none() {
        let why = "`case.yaml` is not the case that `minimise.json` describes";
        events(IssueEvent::ShorterProgramNotUsed { why });
    }
    let minimal = match minimal {
        Some(minimal) if !minimal.has_only_code_of(&found)? => {
            let why = "the minimal case has a kernel or a variable that the case does not have";
            events(IssueEvent::ShorterProgramNotUsed { why });
            None
        }
        minimal => minimal,
    };
    let smaller = minimal.as_ref().and_then(|minimal| Some((minimal, minimal.subject(&found)?)));
    let (subject, runs, minimised) = match smaller {
        None => (subject, runs, None),
        Some((minimal, smaller)) => {
            let rare = runs.rate.failed < runs.rate.runs;
            let runs_of_it = if rare { repeat.max(MIN_RUNS) } else { repeat };
            let mut records = smaller.run(session, runs_of_it, 0, &[], cancel)?;
            minimal.describe(&mut records, &smaller, session);
            let signature = Some(failed.outcome.signature.clone());
            let runs_of_it = TrialRuns::with_signature(records, signature);
            if runs_of_it.failed().is_some() {
                (smaller, runs_of_it, Some(minimal.found.clone()))
            } else {
                let why = "the minimal case no longer fails in the same way";
                events(IssueEvent::ShorterProgramNotUsed { why });
                (subject, runs, None)
            }
        }
    };
    let failed = runs.failed().cloned().ok_or(IssueError::NoFailure)?;

    let draft = Draft {
        subject: &subject,
        session,
        runs: &runs,
        failed: &failed,
        again: again(options, session, &found),
        folder: &folder,
        form,
        open: options.open,
        anyway: options.anyway,
        is_of_the_user,
    };
    let job = subject.job()?;
    // An earlier report has tried the settings on the shorter program.
    let mitigations = with_digest(mitigations, |it| &it.digest, &[&digest, &job.sha256()], events);
    let plan = &job.lowered.plan;
    let (environment, who) = draft.machine(&plan.environment, cancel);
    if is_program {
        events(IssueEvent::Step("running the program as the report prints it"));
    }
    let (program, shortened) = match is_program {
        true => {
            let (program, shortened) =
                program::printed(&subject, session, &failed, shortened, cancel)?;
            (Some(program), shortened)
        }
        false => (None, shortened),
    };
    let program = match program {
        Some(program) => {
            events(IssueEvent::Step("removing what the printed program does not need"));
            let unused = UnusedDefinitions {
                subject: &subject,
                session,
                failed: &failed,
                deadline: searches.end_of_share(2, MIN_UNUSED_TIME),
                cancel,
            };
            Some(unused.removed(program)?)
        }
        None => None,
    };
    let runs_alone = Findings {
        mistake,
        program,
        minimised,
        shortened,
        mitigations,
        finer,
        bisected,
        case: text_of(&subject),
        variables: variables(session, &plan.environment),
        duplicates: duplicates_of(&failed, plan),
        known_bugs: known,
        ..draft.findings(environment, &who)
    };
    // From here on, the folder contains a complete report at every moment, and further steps improve it.
    let unfinished = |findings: &Findings, unfinished| {
        draft.write(Findings { unfinished: Some(unfinished), ..findings.clone() }, &who)
    };
    let with_mitigations = |findings: Findings| -> Result<Findings, Stop> {
        if findings.mitigations.is_some() {
            return Ok(findings);
        }
        unfinished(&findings, "settings that may avoid the failure")?;
        Ok(Findings { mitigations: searches.mitigations(&subject, session)?, ..findings })
    };
    unfinished(&runs_alone, "the controls")?;
    events(IssueEvent::Step("running the controls"));
    let Controls { controls, not_judged } =
        controls::controls(&subject, &failed.outcome.signature, session, options, cancel, events)?;
    let on_cpu = match (&runs_alone.program, &job.lowered.body) {
        (Some(printed), case::Body::Program(of_case)) => {
            on_cpu::run(&subject, session, &failed, of_case, printed, cancel)?
        }
        _ => None,
    };
    let common = Findings { controls, not_judged, on_cpu, ..runs_alone };
    if is_program {
        let log = match first_log {
            Some(log) if shorter.is_none() => log,
            _ => logs::of_program(&subject, session, &failed, &who, cancel)?,
        };
        let ProgramLog { logs, open_call, refused_call, text: _ } = log;
        let logs = common.logs.iter().cloned().chain(logs).collect();
        let findings = Findings { logs, open_call, refused_call, ..common };
        return draft.write(with_mitigations(findings)?, &who);
    }
    unfinished(&common, "a stand-alone program")?;
    events(IssueEvent::Step("searching for a short stand-alone program"));
    let maker = stand_alone::ProgramMaker {
        trial: &found,
        subject: &subject,
        session,
        options: &options.session,
        failed: &failed,
        rate: runs.rate,
        folder: &folder,
        who: &who,
        deadline: deadline - options.budget / 4,
        cancel,
        events,
    };
    let (program, log, stacks) = match maker.program()? {
        Some(found) => (Some(found.program), found.log, found.stacks),
        None => (None, None, String::new()),
    };
    let mut logs = logs::logs(&subject, session, &failed, log.as_deref(), &who, cancel)?;
    if !stacks.is_empty() {
        let title =
            "Native stacks of the program, printed by a signal handler that was linked in for one more run"
                .to_owned();
        logs.insert(0, Log { title, text: redact(&stacks, &who) });
    }
    logs.extend(common.logs);
    let findings = Findings {
        program,
        kernel_log: kernel_log::lines_of_processes(uptime, &session.processes.all(), &who),
        logs,
        libraries: plan.libraries.clone(),
        ..common
    };
    draft.write(with_mitigations(findings)?, &who)
}

/// Returns the error that the sanitizer finds in the program, or in a kernel defined in the case. The run uses the
/// emulated device and the failing release, without injected faults. Errors in a library's kernels do not count. `None`
/// if the sanitizer finds no error or cannot be used.
fn sanitizer_error(
    subject: &FailingTrial<'_>,
    session: &Session,
    options: &SessionOptions,
    cancel: &Cancel,
) -> Result<Option<SanitizerError>, Stop> {
    let is_program = subject.selected.case.is_program();
    if is_program && options.emulation.sanitize != Sanitize::Off {
        // The sanitizer's finding is itself the failure that the user reports.
        return Ok(None);
    }
    let releases = PassingReleaseSearch { options: options.clone(), named: None };
    let relevant = is_program || rewrite::launches_own(&subject.job()?.lowered.plan);
    let watched = relevant.then(|| releases.sanitized_session(session)).flatten();
    let Some(watched) = watched else { return Ok(None) };
    let healthy = subject.with_trial(subject.selected.clone(), Vec::new());
    let found = healthy.run(&watched, 1, 0, &[], cancel)?.into_iter().next();
    let found = found.filter(|record| {
        let outcome = &record.outcome;
        outcome.kind == Kind::MemoryFault && faulting_library(&outcome.signature).is_none()
    });
    Ok(found.map(|record| SanitizerError { found: record.outcome.summary, again: record.again }))
}

/// Reads a result of an earlier command from the evidence folder, if it is about this trial.
fn evidence_about<E: Evidence>(folder: &Path, failed: &Record) -> Result<Option<E>, Stop> {
    let found = evidence::read::<E>(folder)?;
    Ok(found.filter(|found| found.trial() == failed.trial))
}

/// Returns the evidence if `digest` returns one of the digests in `of` for it; otherwise reports an event and returns
/// `None`. An evidence folder is named after a case, so it may hold results of another case with that name, which may
/// even be untrusted.
fn with_digest<E: Evidence>(
    found: Option<E>,
    digest: impl Fn(&E) -> &String,
    of: &[&str],
    events: IssueReporter<'_>,
) -> Option<E> {
    let found = found?;
    if of.contains(&digest(&found).as_str()) {
        return Some(found);
    }
    events(IssueEvent::EvidenceNotUsed { file: E::FILE });
    None
}

/// Reads the result of a second bisect that searched between the two builds found by the first one, `bisected`. `None`
/// if the folder has no such result.
fn refined_bisect(
    folder: &Path,
    bisected: Option<&BisectEvidence>,
    failed: &Record,
) -> Result<Option<BisectEvidence>, Stop> {
    let finer =
        evidence_about::<BisectEvidence>(&folder.join(BisectEvidence::REFINED_FOLDER), failed)?;
    Ok(finer.filter(|finer| bisected.is_some_and(|bisected| finer.refines(bisected))))
}

/// Returns the environment variables that the user or the case sets for the trial.
fn variables(session: &Session, of_case: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut all: Vec<_> = session.variables().chain(of_case).collect();
    all.dedup();
    all.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the expected failures of other cases with the same signature, or with the same kind and the same failing
/// function.
fn duplicates(
    library: &CaseLibrary,
    subject: &FailingTrial<'_>,
    failed: &Record,
    libraries: &[Library],
) -> Vec<Duplicate> {
    let mut found = Vec::new();
    let own = &subject.selected.case.id;
    let others = library.cases().filter(|case| case.id != *own);
    for case in others.filter(|case| case.needs.libraries == libraries) {
        for known in &case.known {
            let version = failed.stack.rocm.as_ref();
            let here = version.is_some_and(|version| known.rocm.contains(version));
            // An entry that accepts every failure of one kind need not be about this failure.
            let vague = known.signature.split(':').nth(1).is_none_or(|part| part == "*");
            if !here || vague || !signature_fits(&known.signature, &failed.outcome.signature) {
                continue;
            }
            // The upstream issues of the case as a whole may be about another failure.
            let upstream = known.upstream.iter().cloned().collect();
            found.push(Duplicate {
                case: case.id.clone(),
                known: record::convert_expected_failure(known),
                upstream,
            });
        }
    }
    found
}

/// Returns the command that writes this issue once more.
fn again(options: &IssueOptions, session: &Session, subject: &FailingTrial<'_>) -> String {
    let mut more = Vec::new();
    let usual = if subject.command.is_some() { PROGRAM_REPEAT } else { REPEAT };
    if options.repeat != usual {
        more.push(("--repeat", options.repeat.to_string()));
    }
    if !options.also.is_empty() {
        more.push(("--also", options.also.join(",")));
    }
    if options.anyway {
        more.push(("--anyway", String::new()));
    }
    if let Some(form) = options.form {
        more.push(("--for", form.to_string()));
    }
    if let Some(command) = subject.command {
        more.extend(command.requirements());
        return command.rerun("report", more, session, &subject.faults);
    }
    let (id, faults) = (subject.id(), subject.faults.as_slice());
    let what = RerunSubject::Trial(&id);
    let mut text =
        Rerun { command: "report", what, late: session.late, faults }.command_line(session);
    for (option, value) in more {
        text.push_str(&format!(" {option}"));
        if !value.is_empty() {
            text.push_str(&format!(" {}", quoted(&value)));
        }
    }
    text
}
