//! The program of a case made shorter, line by line, while it fails in the same way.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use case::Body;
use judge::{FailureIdentity, Kind, Likeness, Outcome};
use plan::program::ProgramBody;
use report::{Record, count, evidence::CASE_FILE};
use search::shorten::{ShortenedText, shorten};

use super::super::{
    oracle::Elsewhere,
    setup::setup,
    subject::{Subject, first_failing, run},
};
use crate::{
    args::{Minimise, Reducer},
    interrupt, outputs,
};
use engine::{
    CaseLibrary, Selected, Session, Stop, evidence,
    job::Job,
    rerun::{Rerun, What as Again},
};

/// Runs that must all fail in the same way.
const RUNS: u32 = 3;

/// What every shorter program is held against.
struct Search<'s> {
    session: &'s Session,
    job: Job<'s>,
    goal: Outcome,
    passes: Passes,
    begun: Instant,
    budget: Duration,
    /// Processes that may still be started.
    left: u32,
    /// Texts that were tried.
    tries: u32,
    trouble: Option<Stop>,
}

/// Where a program that shows the failure, and is not wrong itself, must pass.
enum Passes {
    Healthy,
    Release(Box<Session>),
    Nowhere,
}

pub(super) fn minimise(
    args: &Minimise,
    library: &CaseLibrary,
    selected: Vec<Selected<'_>>,
) -> Result<ExitCode, Stop> {
    let (mut options, faults) = setup(&args.on, None, &args.fault)?;
    options.cases_from = args.selection.from.chosen();
    if args.resume {
        return Err(Stop::usage(
            "error: the search for a shorter program has no journal to resume",
        ));
    }
    if let Some(other) = selected.iter().find(|entry| !entry.case.is_program()) {
        let id = &other.case.id;
        return Err(Stop::usage(format!(
            "error: `{id}` has steps, and other named cases are programs; minimise the two kinds in separate commands"
        )));
    }
    let session = Session::open_on_one(options.clone())?;
    let (subject, runs) = first_failing(library, selected, &faults, &session, RUNS)?;
    let Some(failed) = runs.failed().cloned() else {
        return Err(Stop::no_verdict("error: no run failed"));
    };
    if runs.rate.failed < runs.rate.runs || runs.rate.runs < RUNS {
        return Err(Stop::no_verdict(format!(
            "error: it failed as `{}` in {} of {RUNS} runs; minimise can shorten only a program that fails in the same way every \
             time",
            failed.outcome.signature, runs.rate.failed
        )));
    }
    if FailureIdentity::parse(&failed.outcome.signature).is_bare_exit() {
        return Err(Stop::no_verdict(format!(
            "error: `{}` is all that is known of the failure, so a shorter program may fail for another reason\n\
             hint: have the program check by the helper, or write what is wrong as its last line",
            failed.outcome.signature
        )));
    }
    let job = subject.job()?;
    let Body::Program(program) = &job.lowered.body else {
        return Err(Stop::no_verdict("error: the case has no program"));
    };
    let Some(source) = program.source().cloned() else {
        return Err(Stop::usage(format!(
            "error: `{}` is a command, so it has no text that minimise could shorten",
            subject.selected.case.id
        )));
    };
    let cancel = interrupt::cancel()?;
    let passes = match job.faults.is_empty() {
        false => Passes::Healthy,
        true => Elsewhere { options, named: args.passes_on.clone() }
            .find(&session, &job, &cancel)?
            .map_or(Passes::Nowhere, |session| Passes::Release(Box::new(session))),
    };
    let mut search = Search {
        session: &session,
        job: job.clone(),
        goal: failed.outcome.clone(),
        passes,
        begun: Instant::now(),
        budget: Duration::from_secs(args.budget_seconds.into()),
        left: args.budget_runs,
        tries: 0,
        trouble: None,
    };
    // What fails in another way on the healthy device tells nothing of a shorter program.
    if search.passes_there(&source.text).is_none_or(|passes| !passes) {
        search.passes = Passes::Nowhere;
    }
    let folder = evidence::folder(args.out.as_deref(), &subject.selected.case.id)?;
    let is_cpp = matches!(program.what, ProgramBody::Cpp { .. });
    let ending = if is_cpp { "cpp" } else { "py" };
    let wanted = match (args.reducer, &search.passes) {
        // By its syntax a program is soon made into one that is wrong itself, which nothing would tell here.
        (Reducer::Auto, Passes::Nowhere) => Reducer::None,
        (wanted, _) => wanted,
    };
    let by = match wanted.find(is_cpp)? {
        None => None,
        Some(reducer) => {
            let name = format!("program.{ending}");
            let reduced = reducer.reduce(&name, &source.text, &mut |text| search.still(text))?;
            Some((reducer.name, reduced))
        }
    };
    let before = by.as_ref().map_or(&source.text, |(_, reduced)| &reduced.text);
    let shorter = shorten(before, &mut |text| search.still(text));
    if let Some(stop) = search.trouble {
        return Err(stop);
    }
    let text = shorter.apply_to(before);
    let file = source.file.clone().unwrap_or_else(|| format!("program.{ending}"));
    evidence::write_text(&folder, &file, &text)?;
    let case = library.text(&subject.selected.case.id);
    let block = Block { above: source.file.is_none().then_some(source.above), text: &source.text };
    let case = if *before == source.text {
        block.without(case, &shorter)
    } else {
        block.replaced(case, &text)
    };
    let by = by.map(|(name, reduced)| (name, reduced.whole));
    let again = case.map(|case| again(&folder, &case, &subject, &session)).transpose()?;
    let left = Left { shorter: &shorter, by, before: &source.text };
    outputs::print(&told(&left, &search, &folder.join(&file), again, &failed))?;
    Ok(ExitCode::from(u8::from(!left.is_complete())))
}

/// Writes the case of the shorter program, and gives the command that runs it.
fn again(
    folder: &Path,
    case: &str,
    subject: &Subject<'_>,
    session: &Session,
) -> Result<String, Stop> {
    evidence::write_text(folder, CASE_FILE, case)?;
    let (path, faults) = (folder.join(CASE_FILE), subject.faults.as_slice());
    let what = Again::File(&path);
    let text = Rerun { command: "run", what, late: session.late, faults }.of(session);
    Ok(if text.contains(" --trust") { text } else { text + " --trust" })
}

/// A program as its case has it.
struct Block<'t> {
    /// Lines of the case above it; none where it is a file of its own.
    above: Option<u32>,
    text: &'t str,
}

impl Block<'_> {
    /// The case with the lines left out that the program went without. None where the program stands there as no block of lines.
    fn without(&self, case: &str, shorter: &ShortenedText) -> Option<String> {
        let Some(above) = self.above else { return Some(case.to_owned()) };
        let above = above as usize;
        let (lines, end) = self.lines(case, above)?;
        let left = |n: &usize| *n < above || *n >= end || shorter.lines.contains(&(n - above));
        Some((0..lines.len()).filter(left).map(|n| lines[n]).collect())
    }

    /// The case with another text in the place of the program's.
    fn replaced(&self, case: &str, text: &str) -> Option<String> {
        let Some(above) = self.above else { return Some(case.to_owned()) };
        let above = above as usize;
        let (lines, end) = self.lines(case, above)?;
        let depth = |line: &&str| line.len() - line.trim_start().len();
        let filled = |line: &&&str| !line.trim().is_empty();
        let depth =
            lines[above..end].iter().copied().filter(|line| filled(&line)).map(|l| depth(&l)).min();
        let depth = " ".repeat(depth.unwrap_or(4));
        let line = |line: &str| match line.trim() {
            "" => "\n".to_owned(),
            // A dollar of the program's own is none of the matrix.
            _ => format!("{depth}{}\n", line.replace('$', "$$")),
        };
        let new: String = text.lines().map(line).collect();
        Some([&lines[..above].concat(), new.as_str(), &lines[end..].concat()].concat())
    }

    /// The lines of the case, and where those of the program end.
    fn lines<'c>(&self, case: &'c str, above: usize) -> Option<(Vec<&'c str>, usize)> {
        let lines: Vec<&str> = case.split_inclusive('\n').collect();
        let own: Vec<&str> = self.text.lines().collect();
        let end = above + own.len();
        // A value of the matrix stands in the place of its name.
        let same =
            |(of_case, own): (&&str, &&str)| of_case.contains('$') || of_case.trim() == own.trim();
        lines.get(above..end)?.iter().zip(&own).all(same).then_some((lines, end))
    }
}

/// What is left of a program.
struct Left<'t> {
    shorter: &'t ShortenedText,
    /// The reducer that went before, and whether it came to its end.
    by: Option<(&'static str, bool)>,
    before: &'t str,
}

impl Left<'_> {
    fn is_complete(&self) -> bool {
        self.shorter.complete && self.by.is_none_or(|(_, whole)| whole)
    }
}

impl Search<'_> {
    /// Whether a text still fails in the same way, and passes where it should. None where no more shall be tried.
    fn still(&mut self, text: &str) -> Option<bool> {
        self.tries += 1;
        // Most of what does not fail alike shows it at once.
        for runs in [1, RUNS - 1] {
            let records = self.run(None, text, runs)?;
            if !records.iter().all(|record| alike(&record.outcome, &self.goal)) {
                return Some(false);
            }
        }
        self.passes_there(text)
    }

    /// Whether a text passes where the program itself does.
    fn passes_there(&mut self, text: &str) -> Option<bool> {
        let release = match std::mem::replace(&mut self.passes, Passes::Nowhere) {
            Passes::Nowhere => return Some(true),
            Passes::Healthy => None,
            Passes::Release(session) => Some(session),
        };
        let records = self.run(Some(release.as_deref()), text, 1);
        self.passes = release.map_or(Passes::Healthy, Passes::Release);
        Some(records?.iter().all(|record| record.outcome.kind == Kind::Pass))
    }

    /// Runs a text: as it failed, or on another release or the same one, without a fault.
    fn run(
        &mut self,
        there: Option<Option<&Session>>,
        text: &str,
        runs: u32,
    ) -> Option<Vec<Record>> {
        if self.left < runs || self.begun.elapsed() > self.budget {
            return None;
        }
        self.left -= runs;
        let mut job = self.job.clone();
        if let Body::Program(program) = &mut job.lowered.body
            && let ProgramBody::Python(source) | ProgramBody::Cpp { source, .. } = &mut program.what
        {
            text.clone_into(&mut source.text);
        }
        if there.is_some() {
            job.faults.clear();
        }
        let session = there.flatten().unwrap_or(self.session);
        let done = run(session, (0..runs).map(|n| job.of_run(n)).collect());
        done.map_err(|stop| self.trouble = Some(stop)).ok()
    }
}

/// Compares two failures where lines of the program were left out. A refusal of the compiler says little: its
/// first error has to be the same too, so that a text which does not parse is not taken for a shorter program.
fn alike(one: &Outcome, other: &Outcome) -> bool {
    let identity = |outcome: &Outcome| FailureIdentity::parse(&outcome.signature);
    let error = |outcome: &Outcome| {
        let line = |line: &String| line.split_once("error: ").map(|(_, text)| text.to_owned());
        let refused = outcome.kind == Kind::CompileError;
        refused.then(|| outcome.details.iter().find_map(line)).flatten()
    };
    identity(one).compare_edited(&identity(other)) == Likeness::Same && error(one) == error(other)
}

fn told(
    left: &Left<'_>,
    search: &Search<'_>,
    file: &Path,
    again: Option<String>,
    failed: &Record,
) -> String {
    let (before, after) = (left.before.lines().count(), left.shorter.lines.len());
    let mut out = format!(
        "{}: {} of {}, after {} of smaller texts\n",
        failed.trial,
        count(after, "line"),
        before,
        count(search.tries, "trial")
    );
    match left.by {
        Some((name, true)) => {
            out.push_str(&format!("  made by    {name}, then by leaving out lines\n"))
        }
        Some((name, false)) => out.push_str(&format!(
            "  made by    {name}, which was stopped before its end, then by leaving out lines\n"
        )),
        None => {}
    }
    out.push_str(&format!("  fails as    {}, in {RUNS} of {RUNS} runs\n", search.goal.signature));
    let passes = match &search.passes {
        Passes::Healthy => "without the fault".to_owned(),
        Passes::Release(session) => format!("on {}", session.stack.spec),
        Passes::Nowhere => {
            "on no release that was tried: the program itself may be wrong, so read what is left"
                .to_owned()
        }
    };
    out.push_str(&format!("  {:<11} {passes}\n", "passes"));
    if !left.shorter.complete {
        out.push_str("  not minimal: the budget was spent\n");
    }
    out.push_str(&format!("  {}\n", file.display()));
    if let Some(again) = again {
        out.push_str(&format!("  {again}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_keeps_the_lines_that_its_program_keeps() {
        let case = "title: A\nprogram:\n  python: |\n    one\n    two $n\n    three\nfaults: [copy.zero]\n";
        let shorter = ShortenedText { lines: vec![1], complete: true, tries: 1 };
        let block = |above, text| Block { above, text };
        let whole = block(Some(3), "one\ntwo 4\nthree\n");
        let kept = whole.without(case, &shorter).unwrap();
        assert_eq!(kept, "title: A\nprogram:\n  python: |\n    two $n\nfaults: [copy.zero]\n");
        assert_eq!(block(None, "other\n").without(case, &shorter).as_deref(), Some(case));
        let other = whole.replaced(case, "if a: b = '$x'\n\nc").unwrap();
        assert_eq!(
            other,
            "title: A\nprogram:\n  python: |\n    if a: b = '$$x'\n\n    c\nfaults: [copy.zero]\n"
        );
        // It stands there in another form.
        let flow = block(Some(0), "one\n");
        assert_eq!(flow.without("program: {python: 'one'}\n", &shorter), None);
        assert_eq!(flow.replaced("program: {python: 'one'}\n", "two\n"), None);
    }
}
