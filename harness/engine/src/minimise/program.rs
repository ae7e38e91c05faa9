//! Minimises the program of a case: shortens it line by line, as long as it fails in the same way.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ::case::Body;
use judge::{FailureIdentity, Kind, Outcome};
use plan::program::{ProgramBody, Source};
use report::{
    Record,
    evidence::{CASE_FILE, MinimisedProgram, Rate, Setting},
};
use search::shorten::{ShortenedText, shorten_many};
use supervise::Cancel;

use super::{
    MinimiseEvent, MinimiseReporter, MinimiseResult, Minimiser,
    controls::{self, Control, passing_neighbour},
    error::MinimiseError,
    line_groups::groups,
    reducer::ReducerChoice,
    waits::with_shorter_waits,
    yaml_block::Block,
};
use crate::{
    DeviceChoice, Job, Session, Stop, TrialFolder,
    command_line::CommandLine,
    evidence,
    exported::program_folder,
    failing_trial::{FailingTrial, Subjects, first_failing, is_same_after_edit, run_all},
    passing_release::Oracle,
    rerun::{Rerun, RerunSubject},
};

/// Number of runs of a shorter program, all of which must fail in the same way.
const RUNS: u32 = 3;

/// Duration of a run above which the waits of a program are shortened during the search.
const LONG_RUN: Duration = Duration::from_secs(2);

/// Minimum time limit for a run of a shorter program. A program that lost the end of a loop never terminates, and the
/// time limit of a trial, some minutes, would be too long for it.
const LEAST_TOTAL: Duration = Duration::from_secs(20);

/// The search for a shorter program, and the test of a candidate: it must fail like the original program, and pass on
/// the oracle, a configuration on which the original program passes.
struct Search<'s> {
    session: &'s Session,
    job: Job<'s>,
    place: TextPlace,
    goal: Outcome,
    /// Call of the helper's last function, in the form in which the program makes it; `None` if the program does not
    /// call it.
    last_call: Option<&'static str>,
    /// For each kind of bracket, the number of opening minus closing ones in the original program. Only brackets in
    /// string literals or comments make it different from zero.
    open_brackets: [i64; 3],
    /// Controls in which every candidate must have the required result, a plain run first. Empty if neither an oracle
    /// nor a passing trial is known.
    controls: Vec<Control<'s>>,
    /// True while the waits in a program are shortened for each run.
    shortens_waits: bool,
    /// True while a program without any check is accepted: it must fail in the same way, and reach its end on the
    /// oracle.
    without_checks: bool,
    /// True while a C++ program must not use a variable before it has a value. Such a program can die of its own
    /// mistake.
    refuses_uninitialised: bool,
    deadline: Instant,
    /// Number of processes that may still be started.
    left: u32,
    /// Number of texts that were tried so far.
    tries: u32,
    /// Source of the shortest program so far.
    best: String,
    file: PathBuf,
    trouble: Option<Stop>,
    cancel: &'s Cancel,
    report: MinimiseReporter<'s>,
}

/// The place at which a job contains the source of its program.
enum TextPlace {
    /// The source is part of the case.
    Body,
    /// An argument of the command line names the source file. A candidate is written to a file of the same name in a
    /// folder of its own.
    File {
        /// Index of the argument.
        word: usize,
        file: PathBuf,
        /// The folder of the original file, in which Python finds the program's other modules; `None` if the program is
        /// not Python.
        modules: Option<PathBuf>,
        _folder: TrialFolder,
    },
}

/// Shortens the program of the first failing trial, and writes the evidence folder.
pub(super) fn minimise(
    minimiser: &Minimiser<'_>,
    cancel: &Cancel,
    report: MinimiseReporter<'_>,
) -> Result<MinimiseResult, Stop> {
    let Minimiser { options, subjects, session, releases, .. } = minimiser;
    let begun = Instant::now();
    let (subject, runs) = first_failing(Subjects::clone(subjects), session, RUNS, cancel)?;
    let no_failure = || MinimiseError::NoVerdict("no run failed".to_owned());
    let failed = runs.failed().cloned().ok_or_else(no_failure)?;
    let signature = failed.outcome.signature.clone();
    if runs.rate.failed < runs.rate.runs || runs.rate.runs < RUNS {
        let failed = runs.rate.failed;
        return Err(MinimiseError::FailsSometimes { signature, failed, runs: RUNS }.into());
    }
    if FailureIdentity::parse(&signature).is_bare_exit() {
        return Err(MinimiseError::OnlyExitStatus(signature).into());
    }
    report(MinimiseEvent::FailureFound { signature: &signature });
    let id = &subject.selected.case.id;
    let job = subject.job()?;
    let Body::Program(program) = &job.lowered.body else {
        return Err(MinimiseError::NoVerdict("the case has no program".to_owned()).into());
    };
    let (source, place) = match subject.command {
        Some(command) => of_command(command, session)?,
        None => {
            let source = program.source().cloned();
            (source.ok_or_else(|| MinimiseError::Command(id.clone()))?, TextPlace::Body)
        }
    };
    let is_cpp = matches!(program.what, ProgramBody::Cpp { .. });
    let ending = if is_cpp { "cpp" } else { "py" };
    let file = source.file.clone().unwrap_or_else(|| format!("program.{ending}"));
    let folder = evidence::folder(options.out.as_deref(), id)?;
    evidence::make(&folder)?;
    let oracle = releases.oracle(session, &job, cancel)?;
    let neighbour = match oracle {
        Oracle::None => passing_neighbour(&subject, session, cancel)?,
        Oracle::Healthy | Oracle::Release(_) => None,
    };
    let passes = match (&oracle, &neighbour) {
        (Oracle::Healthy, _) => Some("without the fault".to_owned()),
        (Oracle::Release(other), _) => Some(match other.gfx() {
            Some(gfx) if other.gfx() != session.gfx() => {
                format!("on {} on the emulated {gfx}", other.stack.spec)
            }
            _ => format!("on {}", other.stack.spec),
        }),
        (Oracle::None, neighbour) => neighbour.as_ref().map(|(what, _)| what.clone()),
    };
    let beside = neighbour.as_ref().map(|(_, trial)| trial.job()).transpose()?;
    // An external reducer soon produces a program with a mistake of its own, which only a run on the oracle detects.
    let has_oracle = !matches!(oracle, Oracle::None);
    let total = (Duration::from_nanos(failed.wall_ns) * 4).max(LEAST_TOTAL);
    let mut impatient = match (session.device.clone(), failed.outcome.kind) {
        (DeviceChoice::Gpu, _) | (_, Kind::Hang) => None,
        (DeviceChoice::Emulated(_), _) => Some(Session::open_on_one(options.session.clone())?),
    };
    if let Some(session) = &mut impatient {
        session.limits.total = session.limits.total.min(total);
    }
    let mut search = Search {
        session: impatient.as_ref().unwrap_or(session),
        job: job.clone(),
        place,
        goal: failed.outcome.clone(),
        open_brackets: open_brackets(&source.text),
        last_call: LAST_CALLS.into_iter().find(|call| source.text.contains(call)),
        controls: controls::oracle_controls(oracle, beside, &source.text, session, releases),
        shortens_waits: false,
        without_checks: false,
        refuses_uninitialised: false,
        deadline: begun + options.budget,
        left: options.budget_runs,
        tries: 0,
        best: source.text.clone(),
        file: folder.join(&file),
        trouble: None,
        cancel,
        report,
    };
    search.keep_passing_controls(&source.text);
    let passes = passes.filter(|_| !search.controls.is_empty());
    let reducer = match (options.reducer, has_oracle && passes.is_some()) {
        (ReducerChoice::Auto, false) => ReducerChoice::None,
        (choice, _) => choice,
    };
    search.shortens_waits = failed.wall_ns > LONG_RUN.as_nanos() as u64
        && search.fails_with_shorter_waits(&source.text);
    search.refuse_uninitialised(&source.text);
    let by = match reducer.find(is_cpp)? {
        None => None,
        Some(reducer) => {
            let name = format!("program.{ending}");
            let reduced = reducer
                .reduce(&name, &source.text, cancel, &mut |text| search.still_fails(text))?;
            Some((reducer.name, reduced))
        }
    };
    let before = by.as_ref().map_or(&source.text, |(_, reduced)| &reduced.text);
    let width = session.jobs.get();
    let mut shorter =
        shorten_many(before, width, &groups(before), &mut |texts| search.each_still_fails(texts));
    if std::mem::take(&mut search.shortens_waits) {
        // The shorter program must also fail with its original waits. These runs are made even after the time limit.
        search.deadline = search.deadline.max(Instant::now() + options.budget / 4);
        if search.is_confirmed(&shorter.apply_to(before), 0) != Some(true) {
            let lines = (0..before.split_inclusive('\n').count()).collect();
            shorter = ShortenedText { lines, complete: false, tries: shorter.tries };
        }
    }
    let text = shorter.apply_to(before);
    let without_checks = search.without_checks_of(&text);
    evidence::write_text(&folder, &file, &text)?;
    let again = match subject.command {
        Some(command) => {
            let shorter = command.with_file(&folder.join(&file), &options.session)?;
            shorter.map(|it| it.rerun("exec", Vec::new(), session, &subject.faults))
        }
        None => {
            let case = subject.library.text(id);
            let above = source.file.is_none().then_some(source.above);
            let block = Block { above, text: &source.text };
            let case = if *before == source.text {
                block.without_lines(case, &shorter)
            } else {
                block.replaced(case, &text)
            };
            case.map(|case| write_case(&folder, &case, &subject, session)).transpose()?
        }
    };
    let reducer = by.map(|(name, reduced)| (name.to_owned(), reduced.whole));
    let complete = shorter.complete && reducer.as_ref().is_none_or(|(_, whole)| *whole);
    let found = MinimisedProgram {
        trial: failed.trial.clone(),
        digest: job.sha256(),
        signature,
        on: Setting::from_record(&failed),
        file,
        lines_before: source.text.lines().count(),
        lines: shorter.lines.len(),
        tries: search.tries,
        rate: Rate { failed: RUNS, runs: RUNS },
        passes,
        reducer,
        without_checks,
        complete,
    };
    evidence::write(&folder, &found)?;
    // A request to stop ends the command here. The evidence folder already contains the shortest program so far.
    if let Some(stop) = search.trouble {
        return Err(stop);
    }
    let text = report::minimised_program(&found, &folder, again.as_deref());
    Ok(MinimiseResult { text, complete })
}

/// Returns the source of the program that a command line runs, and the place at which the job contains this source.
fn of_command(command: &CommandLine, session: &Session) -> Result<(Source, TextPlace), Stop> {
    let unknown = || MinimiseError::Command(command.words().join(" "));
    let (Some(text), Some(word)) = (command.text(), command.source_argument_index()) else {
        return Err(unknown().into());
    };
    let name = text.file.file_name().ok_or_else(unknown)?;
    let folder = program_folder(session)?;
    let file = folder.path().join(name);
    let beside = text.file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = std::path::absolute(beside.unwrap_or(Path::new("."))).ok();
    let modules = beside.filter(|_| text.language == "python");
    let file_name = Some(name.to_string_lossy().into_owned());
    let source = Source { text: text.text.clone(), file: file_name, above: 0 };
    Ok((source, TextPlace::File { word, file, modules, _folder: folder }))
}

/// Writes the case with the shorter program, and returns the command that runs the case.
fn write_case(
    folder: &Path,
    case: &str,
    subject: &FailingTrial<'_>,
    session: &Session,
) -> Result<String, Stop> {
    evidence::write_text(folder, CASE_FILE, case)?;
    let (path, faults) = (folder.join(CASE_FILE), subject.faults.as_slice());
    let what = RerunSubject::File(&path, true);
    Ok(Rerun { command: "run", what, late: session.late, faults }.command_line(session))
}

/// Minimum time of the search for a program without checks.
const LEAST_WITHOUT_CHECKS: Duration = Duration::from_secs(30);

/// Functions of the helper that make or end checks.
const CHECKS: [&str; 8] =
    ["equal", "close", "same", "holds", "status", "raises", "given_back", "done"];

/// Returns true if the line is a statement that only makes a check, or ends the checks.
fn is_check(line: &str) -> bool {
    let line = line.trim();
    let call = line.strip_prefix("return ").unwrap_or(line);
    let call =
        call.strip_prefix("rocrepro").map_or(call, |call| call.trim_start_matches([':', '.']));
    let name = call.split_once('(').map(|(name, _)| name);
    name.is_some_and(|name| CHECKS.contains(&name)) && line.ends_with([')', ';'])
}

/// Ways in which a program calls the helper's last function. This call makes a program whose check failed end with an
/// exit status other than 0.
const LAST_CALLS: [&str; 3] = ["rocrepro.done(", "rocrepro::done(", "return done("];

impl Search<'_> {
    /// Keeps those controls in which the original program has the required result. If the first control fails for any
    /// reason, none is kept, because its configuration cannot be the oracle.
    fn keep_passing_controls(&mut self, text: &str) {
        let all = std::mem::take(&mut self.controls);
        for (n, control) in all.into_iter().enumerate() {
            let passes = self.passes_in(&control, text) == Some(true);
            match (n, passes) {
                (_, true) => self.controls.push(control),
                (0, false) => return,
                (_, false) => {}
            }
        }
    }

    /// Shortens the waits in a program. Returns true if the program has long waits, and with shorter waits still fails
    /// in the same way and passes on the oracle.
    fn fails_with_shorter_waits(&mut self, text: &str) -> bool {
        if with_shorter_waits(text).is_none() {
            return false;
        }
        self.shortens_waits = true;
        self.is_confirmed(text, 0) == Some(true)
    }

    /// Refuses programs that use a variable before it has a value, unless the original program does so.
    fn refuse_uninitialised(&mut self, text: &str) {
        let Body::Program(program) = &self.job.lowered.body else { return };
        if !matches!(program.what, ProgramBody::Cpp { .. }) {
            return;
        }
        self.refuses_uninitialised = true;
        let records = self.run(None, &[text.to_owned()]).unwrap_or_default();
        self.refuses_uninitialised =
            records.iter().any(|it| is_same_after_edit(&it.outcome, &self.goal));
    }

    /// Shortens a program further by removing its checks, if the failure is a crash, which no check detects. The result
    /// crashes in the same way, and reaches its end on the oracle. Returns `None` if the checks are needed, or without
    /// an oracle.
    fn without_checks_of(&mut self, text: &str) -> Option<String> {
        if self.goal.kind != Kind::Crash || self.controls.is_empty() {
            return None;
        }
        (self.without_checks, self.last_call) = (true, None);
        self.deadline = self.deadline.max(Instant::now() + LEAST_WITHOUT_CHECKS);
        // One try without all checks saves a try for each.
        let bare: String = text.split_inclusive('\n').filter(|line| !is_check(line)).collect();
        let start = if self.still_fails(&bare) == Some(true) { bare.as_str() } else { text };
        let width = self.session.jobs.get();
        let shorter = shorten_many(start, width, &[], &mut |texts| self.each_still_fails(texts));
        let shorter = shorter.apply_to(start);
        (shorter != text).then_some(shorter)
    }

    /// Returns true if a text still fails in the same way and passes on the oracle; `None` if the search must end.
    fn still_fails(&mut self, text: &str) -> Option<bool> {
        self.each_still_fails(&[text.to_owned()])?.pop()
    }

    /// Like [`Search::still_fails`], but for several texts, whose first runs are made at the same time. One run is
    /// enough to reject most texts. Only the results up to the first accepted text are valid; those after it are false.
    fn each_still_fails(&mut self, texts: &[String]) -> Option<Vec<bool>> {
        let (last, open) = (self.last_call, self.open_brackets);
        // A text with half of a pair of brackets does not compile, and finding that out takes seconds.
        let may_run = |text: &&String| {
            last.is_none_or(|call| text.contains(call)) && open_brackets(text) == open
        };
        let tried: Vec<String> = texts.iter().filter(may_run).cloned().collect();
        self.tries += tried.len() as u32;
        let mut firsts = self.run(None, &tried)?.into_iter();
        let mut all = Vec::new();
        for text in texts {
            let first = if may_run(&text) { firsts.next() } else { None };
            let Some(first) = first else {
                all.push(false);
                continue;
            };
            // The search continues with the first text that is accepted, and does not use the answers after it.
            let is_open = !all.contains(&true) && is_same_after_edit(&first.outcome, &self.goal);
            all.push(is_open && self.is_confirmed(text, 1)?);
        }
        Some(all)
    }

    /// Makes the remaining runs of a text that has already failed in the same way `made` times, and runs it in all
    /// controls. Returns true if each run has the required result; `None` if the search must end.
    fn is_confirmed(&mut self, text: &str, made: u32) -> Option<bool> {
        // Most texts that are wrong do not pass on the oracle. If the failure is a hang, a run there takes less time.
        if !self.passes_on_oracle(text)? {
            return Some(false);
        }
        let records = self.run(None, &vec![text.to_owned(); (RUNS - made) as usize])?;
        if !records.iter().all(|record| is_same_after_edit(&record.outcome, &self.goal)) {
            return Some(false);
        }
        if text.len() < self.best.len() && !self.without_checks {
            self.keep(text);
        }
        Some(true)
    }

    /// Writes the shortest program so far to its file, so that nothing is lost if the command is killed.
    fn keep(&mut self, text: &str) {
        text.clone_into(&mut self.best);
        let written = atomic::write(&self.file, text.as_bytes());
        if let Err(error) = written {
            self.trouble = Some(Stop::no_verdict(format!(
                "error: cannot write `{}`: {error}",
                self.file.display()
            )));
        }
        let (lines, runs) = (text.lines().count(), self.tries);
        (self.report)(MinimiseEvent::ShorterProgram {
            signature: &self.goal.signature,
            lines,
            tries: runs,
        });
    }

    /// Returns true if a text has the required result in all controls, or if there are none; `None` if the search must
    /// end.
    fn passes_on_oracle(&mut self, text: &str) -> Option<bool> {
        for control in self.controls.clone() {
            if !self.passes_in(&control, text)? {
                return Some(false);
            }
        }
        Some(true)
    }

    fn passes_in(&mut self, control: &Control<'_>, text: &str) -> Option<bool> {
        let records = self.run(Some(control), &[text.to_owned()])?;
        let (goal, checks) = (&self.goal, !self.without_checks);
        Some(records.iter().all(|record| control.accepts(record, goal, checks)))
    }

    /// Runs each of the texts: in the given control without faults, or, without a control, on the failing release with
    /// the faults. Returns `None` if the search must end.
    fn run(&mut self, control: Option<&Control<'_>>, texts: &[String]) -> Option<Vec<Record>> {
        let runs = texts.len() as u32;
        if self.left < runs || Instant::now() > self.deadline || self.trouble.is_some() {
            return None;
        }
        self.left -= runs;
        let mut jobs = Vec::new();
        for (n, text) in (0..).zip(texts) {
            let neighbour = control.and_then(|control| control.neighbour.as_deref());
            let mut job = neighbour.unwrap_or(&self.job).clone();
            let shorter = if self.shortens_waits { with_shorter_waits(text) } else { None };
            if let Err(error) =
                self.place.set_source(&mut job, shorter.as_deref().unwrap_or(text), n)
            {
                self.trouble = Some(Stop::no_verdict(format!(
                    "error: cannot write a shorter program: {error}"
                )));
                return None;
            }
            if control.is_some() {
                job.faults.clear();
            }
            if let (true, Body::Program(program)) =
                (self.refuses_uninitialised, &mut job.lowered.body)
                && let ProgramBody::Cpp { options, .. } = &mut program.what
            {
                options.push("-Werror=uninitialized".to_owned());
            }
            jobs.push(job.for_run(n));
        }
        let session = control.and_then(|control| control.session.as_deref());
        let session = session.unwrap_or(self.session);
        let done = run_all(session, jobs, self.cancel);
        (0..runs).for_each(|_| (self.report)(MinimiseEvent::TrialEnded));
        done.map_err(|stop| self.trouble = Some(stop)).ok()
    }
}

impl TextPlace {
    /// Replaces the source of the program that a job runs. Jobs that run at the same time need different numbers `n`.
    fn set_source(&self, job: &mut Job<'_>, text: &str, n: u32) -> io::Result<()> {
        let Body::Program(program) = &mut job.lowered.body else { return Ok(()) };
        match (self, &mut program.what) {
            (TextPlace::File { word, file, modules, .. }, ProgramBody::Command(words)) => {
                let file = numbered_path(file, n);
                fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
                fs::write(&file, text)?;
                file.to_string_lossy().into_owned().clone_into(&mut words[*word]);
                if let Some(modules) = modules {
                    let path = job.lowered.plan.environment.entry("PYTHONPATH".to_owned());
                    let path = path.or_default();
                    *path = match path.is_empty() {
                        true => modules.display().to_string(),
                        false => format!("{}:{path}", modules.display()),
                    };
                }
            }
            (_, ProgramBody::Python(source) | ProgramBody::Cpp { source, .. }) => {
                text.clone_into(&mut source.text);
            }
            (TextPlace::Body, ProgramBody::Command(_)) => {}
        }
        Ok(())
    }
}

/// Returns, for each kind of bracket, the number of opening minus closing brackets in the text.
fn open_brackets(text: &str) -> [i64; 3] {
    let count = |bracket: char| text.matches(bracket).count() as i64;
    [('(', ')'), ('[', ']'), ('{', '}')].map(|(open, close)| count(open) - count(close))
}

/// Returns the path of a file with the same name in a folder named `n`. The folder is next to the file.
fn numbered_path(file: &Path, n: u32) -> PathBuf {
    let folder = file.parent().unwrap_or(Path::new("."));
    folder.join(n.to_string()).join(file.file_name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_brackets_of_each_kind() {
        assert_eq!(open_brackets("f(a[1], {\n"), [1, 0, 1]);
        assert_eq!(open_brackets("f(a[1], {})\n}"), [0, 0, -1]);
    }

    #[test]
    fn phases_are_tried_together() {
        let text = "phase(\"a\");\nmust(f());\n  rocrepro.phase('b')\nrocrepro.phase(\n";
        assert_eq!(groups(text), [[0, 2]]);
    }

    #[test]
    fn recognises_statements_that_are_checks() {
        for line in ["  equal(\"a\", b, 1);", "return rocrepro::done();", "rocrepro.holds('a', b)"]
        {
            assert!(is_check(line), "{line}");
        }
        for line in ["must(f());", "rocrepro.equal('a',", "phase(\"a\");", "if (equal(a, b)) c();"]
        {
            assert!(!is_check(line), "{line}");
        }
    }

    #[test]
    fn removes_the_same_lines_from_case_and_program() {
        let case = "title: A\nprogram:\n  python: |\n    one\n    two $n\n    three\nfaults: [copy.zero]\n";
        let shorter = ShortenedText { lines: vec![1], complete: true, tries: 1 };
        let block = |above, text| Block { above, text };
        let whole = block(Some(3), "one\ntwo 4\nthree\n");
        let kept = whole.without_lines(case, &shorter).unwrap();
        assert_eq!(kept, "title: A\nprogram:\n  python: |\n    two $n\nfaults: [copy.zero]\n");
        assert_eq!(block(None, "other\n").without_lines(case, &shorter).as_deref(), Some(case));
        let other = whole.replaced(case, "if a: b = '$x'\n\nc").unwrap();
        assert_eq!(
            other,
            "title: A\nprogram:\n  python: |\n    if a: b = '$$x'\n\n    c\nfaults: [copy.zero]\n"
        );
        // In a YAML flow mapping, the program is not a block of lines.
        let flow = block(Some(0), "one\n");
        assert_eq!(flow.without_lines("program: {python: 'one'}\n", &shorter), None);
        assert_eq!(flow.replaced("program: {python: 'one'}\n", "two\n"), None);
    }
}
