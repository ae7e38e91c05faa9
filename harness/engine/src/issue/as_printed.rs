//! Runs a program once exactly as an issue prints it, and compares the result with the reported failure.

use judge::{End, Kind, Outcome};
use plan::program::ProgramExpectations;
use report::{
    Record,
    issue::{PrintedProgramRun, Program},
};
use supervise::Cancel;

use super::IssueError;
use crate::{
    Session, Stop,
    compiled::StartError,
    failing_trial::FailingTrial,
    program::{PrintedProgram, PrintedRun, run_printed},
};
use plan::Program as CaseProgram;

/// Length at which a quoted line of output is cut, in characters.
const LONGEST: usize = 200;

/// Last output line of a program without rocrepro's helper, if all checks pass.
const FINISHED: &str = "all checks ok";

/// Simpler versions of a program's source, and the function that makes a printable program from such a source.
pub(super) struct SimplerTexts<'m> {
    pub(super) texts: Vec<String>,
    pub(super) make: &'m dyn Fn(String) -> Program,
}

/// Runs the printed program and its shorter versions. Returns the first version that fails in the same way and prints
/// the same lines about its checks, or the printed program if no version does.
///
/// # Errors
/// Fails if the case has mistakes, or on a request to stop.
pub(super) fn simplest_version(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    of_case: &CaseProgram,
    printed: Program,
    SimplerTexts { texts, make }: SimplerTexts<'_>,
    cancel: &Cancel,
) -> Result<Program, Stop> {
    let ran = |program: &Program| program.own.as_ref().and_then(|own| own.as_printed.clone());
    if texts.is_empty()
        || !matches!(ran(&printed), Some(PrintedProgramRun::Ran { fails_alike: true, .. }))
    {
        return Ok(printed);
    }
    let mut job = subject.job()?;
    job.lowered.plan.environment.clear();
    let run = |program: &Program| {
        let commands = program.own.as_ref().map(|own| own.plainly.as_slice()).unwrap_or_default();
        let printed = PrintedProgram { file: &program.file, text: &program.text, commands };
        match run_printed(session, &job, of_case, &printed, cancel) {
            Ok(None) => Err(IssueError::Interrupted),
            Ok(Some(run)) => Ok(Some(run)),
            Err(_) => Ok(None),
        }
    };
    let Some(before) = run(&printed)? else { return Ok(printed) };
    for text in texts {
        let mut program = make(text);
        let Some(run) = run(&program)? else { continue };
        let ran = describe_run(failed, of_case, &run);
        let is_alike = matches!(ran, PrintedProgramRun::Ran { fails_alike: true, .. });
        if is_alike && lines_of_checks(&run) == lines_of_checks(&before) {
            if let Some(own) = &mut program.own {
                own.as_printed = Some(ran);
            }
            return Ok(program);
        }
    }
    Ok(printed)
}

/// Returns the lines that a program prints about its checks.
fn lines_of_checks(run: &PrintedRun) -> Vec<&str> {
    let is_check = |line: &&str| {
        line.ends_with(": ok") || line.contains(" wrong, got") || line.starts_with("FAILED: ")
    };
    run.stdout.lines().filter(is_check).collect()
}

/// Describes a run of a printed program.
fn describe_run(failed: &Record, of_case: &CaseProgram, run: &PrintedRun) -> PrintedProgramRun {
    PrintedProgramRun::Ran {
        fails_alike: fails_same_way(&Failure::from_record(failed), &of_case.stated, run),
        last: last_line(run),
        end: run.end.clone(),
    }
}

/// Runs a printed program once, and returns the result; `None` if the issue does not contain the full source. The inner
/// error is the compiler's output if the program does not compile as printed, although it compiled in the reported
/// runs.
///
/// # Errors
/// Fails if the case has mistakes, or on a request to stop.
pub(super) fn run(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    of_case: &CaseProgram,
    printed: &Program,
    cancel: &Cancel,
) -> Result<Result<Option<PrintedProgramRun>, String>, Stop> {
    let Some(own) = printed.own.as_ref().filter(|own| own.text_is_whole) else {
        return Ok(Ok(None));
    };
    let not = |why: String| Ok(Ok(Some(PrintedProgramRun::NotRun(why))));
    if let Some(helper) = own.helper {
        return not(format!("the program needs {helper}"));
    }
    let program =
        PrintedProgram { file: &printed.file, text: &printed.text, commands: &own.plainly };
    let mut job = subject.job()?;
    // The printed commands set these variables themselves.
    job.lowered.plan.environment.clear();
    match run_printed(session, &job, of_case, &program, cancel) {
        Ok(None) => Err(IssueError::Interrupted.into()),
        Ok(Some(run)) => Ok(Ok(Some(describe_run(failed, of_case, &run)))),
        Err(StartError::Missing(why) | StartError::Trouble(why)) => not(why),
        Err(StartError::Refused(log)) if failed.outcome.kind == Kind::CompileError => {
            let run = PrintedRun { end: End::Exited(1), stdout: String::new(), stderr: log };
            let last = run.stderr.lines().find(|line| line.contains("error:"));
            let last = last.map_or_else(|| last_line(&run), shortened);
            Ok(Ok(Some(PrintedProgramRun::Ran { fails_alike: true, end: run.end, last })))
        }
        Err(StartError::Refused(log)) => Ok(Err(log)),
    }
}

/// The properties of the reported failure that a run without rocrepro's helper can show.
struct Failure<'a> {
    outcome: &'a Outcome,
    end: &'a End,
    /// Names of the checks that failed.
    wrong: Vec<&'a str>,
}

impl Failure<'_> {
    fn from_record(failed: &Record) -> Failure<'_> {
        let checks = failed.program.iter().flat_map(|program| &program.checks);
        let wrong = checks.filter(|check| !check.held).map(|check| check.name.as_str()).collect();
        Failure { outcome: &failed.outcome, end: &failed.exit, wrong }
    }
}

/// Returns true if the run of the printed program failed in the same way as the run that is reported.
fn fails_same_way(failed: &Failure<'_>, stated: &ProgramExpectations, run: &PrintedRun) -> bool {
    let outcome = failed.outcome;
    let parts: Vec<&str> = outcome.signature.split(':').collect();
    let part = |n: usize| parts.get(n).copied().unwrap_or_default();
    let output = format!("{}\n{}", run.stdout, run.stderr);
    let is_finished =
        run.stdout.lines().any(|line| line == FINISHED || line.starts_with("FAILED: "));
    if failed.wrong.contains(&part(1)) {
        // With rocrepro's helper, the exit status does not depend on the checks. A program that also crashes at its end
        // may be killed by another signal in another run.
        let ends_wrong = match (&run.end, failed.end) {
            (End::Exited(status), _) => *status != 0,
            (End::Signalled { .. }, End::Signalled { .. }) => true,
            (run, failed) => run == failed,
        };
        return ends_wrong && run.stdout.lines().any(|line| reports_failed_check(line, part(1)));
    }
    let same_end = match (&run.end, failed.end) {
        (End::TimedOut { .. }, End::TimedOut { .. }) => true,
        (run, failed) => run == failed,
    };
    match (outcome.kind, part(0), part(1)) {
        (Kind::WrongData, _, "output") => {
            let right = stated.says.iter().all(|text| output.contains(text))
                && !stated.never.iter().any(|text| output.contains(text));
            same_end && !right
        }
        (Kind::ApiError, "exception", name) => same_end && output.contains(name),
        (Kind::LibraryExit, ..) => same_end && !is_finished,
        (Kind::MemoryFault, ..) if run.end == End::Exited(0) => {
            same_end && run.stderr.contains("rocrepro-device: ")
        }
        _ => same_end && (run.end != End::Exited(0) || stated.exit.is_some_and(|exit| exit != 0)),
    }
}

/// Returns true if the output line reports a failure of the check called `name`.
fn reports_failed_check(line: &str, name: &str) -> bool {
    let words =
        |text: &str| text.replace(':', " ").split_whitespace().collect::<Vec<_>>().join("-");
    let parts = line.rsplit_once(": ").filter(|(_, text)| *text == "ok");
    parts.is_none() && line.match_indices(": ").any(|(at, _)| words(&line[..at]) == name)
}

/// Returns the last line of standard output if it is about the program's checks; otherwise returns the last line of
/// standard error.
fn last_line(run: &PrintedRun) -> String {
    let last = |text: &str| text.lines().rfind(|line| !line.trim().is_empty()).map(shortened);
    let out = last(&run.stdout);
    let by_checks = out.as_ref().is_some_and(|l| l == FINISHED || l.starts_with("FAILED: "));
    let err = last(&run.stderr).filter(|_| !by_checks);
    err.or(out).unwrap_or_default()
}

fn shortened(line: &str) -> String {
    match line.trim().char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &line.trim()[..end]),
        None => line.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use judge::Location;

    use super::*;

    fn run(end: End, stdout: &str, stderr: &str) -> PrintedRun {
        PrintedRun { end, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    #[test]
    fn compares_the_failure_not_the_words() {
        let stated = ProgramExpectations { says: vec!["done".to_owned()], ..Default::default() };
        let record = |kind, signature: &str, end| {
            let outcome = Outcome {
                kind,
                signature: signature.to_owned(),
                at: Location::default(),
                summary: String::new(),
                details: Vec::new(),
            };
            (outcome, end)
        };
        let check = |(outcome, end): &(Outcome, End), run: PrintedRun, expected: bool| {
            let failed = Failure { outcome, end, wrong: vec!["sum-of-all"] };
            let signature = &outcome.signature;
            assert_eq!(
                fails_same_way(&failed, &stated, &run),
                expected,
                "{signature}: {}",
                run.stdout
            );
        };
        let (zero, one, segv) = (End::Exited(0), End::Exited(1), End::Signalled { signal: 11 });
        let wrong = record(Kind::WrongData, "wrong-data:sum-of-all:zero", zero.clone());
        let printed = "sum of all: 1 of 2 wrong, got[0] is 0, expected 1\nFAILED: sum of all\n";
        check(&wrong, run(one.clone(), printed, ""), true);
        check(&wrong, run(one.clone(), "sum of all: ok\nother: no\nFAILED: other\n", ""), false);
        check(&wrong, run(zero.clone(), printed, ""), false);
        check(&wrong, run(segv.clone(), printed, ""), false);
        let dies = record(Kind::Leak, "leak:sum-of-all:lost", segv.clone());
        check(&dies, run(segv.clone(), printed, ""), true);
        check(&dies, run(End::Signalled { signal: 6 }, printed, ""), true);
        check(&wrong, run(zero.clone(), "sum of all: ok\nall checks ok\n", ""), false);

        let crash = record(Kind::Crash, "crash:copy", segv.clone());
        check(&crash, run(segv.clone(), "phase: copy\n", ""), true);
        check(&crash, run(End::Signalled { signal: 6 }, "", ""), false);
        let raised = record(Kind::ApiError, "exception:KeyError:a.py:3", one.clone());
        check(&raised, run(one.clone(), "", "KeyError: 'a'\n"), true);
        check(&raised, run(one.clone(), "", "ImportError: no module\n"), false);
        let early = record(Kind::LibraryExit, "library-exit:program", zero.clone());
        check(&early, run(zero.clone(), "phase: copy\n", ""), true);
        check(&early, run(zero.clone(), "all checks ok\n", ""), false);
        let output = record(Kind::WrongData, "wrong-data:output:missing", zero.clone());
        check(&output, run(zero.clone(), "nothing\n", ""), true);
        check(&output, run(zero.clone(), "done\n", ""), false);
        // A run whose end shows nothing is not the same failure.
        let leak = record(Kind::Leak, "leak:process", zero.clone());
        check(&leak, run(zero, "all checks ok\n", ""), false);
    }

    #[test]
    fn quotes_the_line_that_shows_the_end() {
        let check = |run: PrintedRun, line: &str| assert_eq!(last_line(&run), line);
        check(run(End::Exited(1), "a: no\nFAILED: a\n\n", "a warning\n"), "FAILED: a");
        check(run(End::Exited(1), "phase: b\n", "Traceback\nKeyError: 'c'\n"), "KeyError: 'c'");
        check(run(End::Exited(0), "phase: b\n", ""), "phase: b");
        let long = last_line(&run(End::Exited(0), &"ä".repeat(900), ""));
        assert_eq!(long.chars().count(), LONGEST + 3);
    }
}
