//! The neighbour: a trial of the same case that passes. It is the control for a program that fails on every release: a
//! shorter program is accepted only if the neighbour's program with the same parts left out still passes.

use std::{cell::RefCell, collections::BTreeSet};

use ::export::line_removal;
use judge::Kind;
use plan::{Plan, api};
use rewrite::ShortenEdit;
use supervise::Cancel;

use super::{header, line_search::Lines, program_runner::ProgramRunner};
use crate::{
    Job, Selected, Session, Stop,
    failing_trial::{FailingTrial, nearest_trials},
    run_trial,
};

/// Number of consecutive passes that a neighbour must show.
const PASSES: u32 = 3;

/// Largest number of similar trials whose programs are printed.
const MAX_PRINTED: usize = 8;

/// Largest number of neighbours that are run.
const MAX_TRIED: usize = 4;

/// A trial that passes on the stack and device on which the failing trial fails. It makes the same calls with other
/// values.
pub struct Neighbour<'a> {
    trial: FailingTrial<'a>,
    /// The plan of the neighbour, shortened like the first program of the failing trial.
    plan: Plan,
    /// Id of the step that fails in the failing trial; `None` if no step is known to fail.
    failing: Option<u32>,
    pub(super) runner: ProgramRunner<'a>,
    /// All lines of the neighbour's program; a candidate keeps some of them. Empty if the lines do not correspond to
    /// those of the failing program.
    lines: RefCell<Vec<String>>,
}

/// A shortened candidate whose removed parts can also be left out of the neighbour's program.
pub(super) trait WithNeighbour {
    /// Returns the neighbour's program without the parts that were left out of this candidate; `None` if such a program
    /// does not exist.
    fn neighbours_program(&self, neighbour: &Neighbour<'_>) -> Option<String>;
}

impl<'a> Neighbour<'a> {
    /// Searches for a neighbour of a trial that has no injected faults. The neighbour is one of the most similar trials
    /// of the case, and must pass in each of several runs. `failing` is the id of the step that fails.
    ///
    /// # Errors
    /// Fails if the case has mistakes, if the machine has no compiler, or on a request to stop.
    pub fn find(
        trial: &FailingTrial<'a>,
        failing: Option<u32>,
        runner: &ProgramRunner<'a>,
        cancel: &Cancel,
    ) -> Result<Option<Neighbour<'a>>, Stop> {
        let own = trial.job()?;
        let case = trial.selected.case;
        let start = rewrite::shorten(&own.lowered.plan, failing, false);
        let Some(start) = start.and_then(|plan| Some((print(runner, &own, &plan, failing)?, plan)))
        else {
            return Ok(None);
        };
        let mut found = Vec::new();
        for near in nearest_trials(case, &trial.selected.trial).into_iter().take(MAX_PRINTED) {
            let trial = trial.with_trial(Selected { case, trial: near.trial }, Vec::new());
            let Ok(job) = trial.job() else { continue };
            if !makes_the_same_calls(&job.lowered.plan, &own.lowered.plan) {
                continue;
            }
            let Some(plan) = rewrite::shorten(&job.lowered.plan, failing, false) else { continue };
            let runner = ProgramRunner::new(runner.session, runner.version.clone())?;
            let lines = RefCell::default();
            let neighbour = Neighbour { trial, plan, failing, runner, lines };
            found.push((!neighbour.has_lines_of(&start.0, &start.1), neighbour));
        }
        // Lines can be left out of both programs only if both have the same lines.
        found.sort_by_key(|(differs, _)| *differs);
        for (_, neighbour) in found.into_iter().take(MAX_TRIED) {
            if passes(runner.session, &neighbour.job()?, cancel)? {
                return Ok(Some(neighbour));
            }
        }
        Ok(None)
    }

    pub(super) fn job(&self) -> Result<Job<'_>, Stop> {
        self.trial.job()
    }

    /// Returns the neighbour's program with only those steps that are also in `like`, a shortened plan of the failing
    /// trial; `None` if it cannot be printed.
    fn program(&self, like: &Plan) -> Option<String> {
        let kept: BTreeSet<u32> = like.steps().into_iter().map(|step| step.id).collect();
        let gone = self.plan.steps().into_iter().map(|step| step.id);
        let gone = gone.filter(|id| !kept.contains(id)).collect();
        let mut plan = self.plan.clone();
        rewrite::apply_shorten_edit(&mut plan, &ShortenEdit::Drop(gone));
        if like.kernels.iter().any(|(name, source)| self.plan.kernels.get(name) != Some(source)) {
            rewrite::apply_shorten_edit(&mut plan, &ShortenEdit::EmptyKernels);
        }
        print(&self.runner, &self.job().ok()?, &plan, self.failing)
    }

    /// Stores the lines of the neighbour's program that has the steps of the plan `like`, so that lines can be left out
    /// of it and of `text`, the program of `like`, in the same way. Returns false if the two programs differ in more
    /// than numbers, or if the neighbour's program cannot be printed.
    pub(super) fn has_lines_of(&self, text: &str, like: &Plan) -> bool {
        let Some(program) = self.program(like) else { return false };
        let [own, other] = [program.as_str(), text].map(line_removal::strip_main);
        let is_alike = own.lines().count() == other.lines().count()
            && own.lines().zip(other.lines()).all(|(own, other)| {
                own.starts_with("//") || without_numbers(own) == without_numbers(other)
            });
        if is_alike {
            *self.lines.borrow_mut() = own.lines().map(str::to_owned).collect();
        }
        is_alike
    }
}

impl WithNeighbour for Plan {
    fn neighbours_program(&self, neighbour: &Neighbour<'_>) -> Option<String> {
        neighbour.program(self)
    }
}

impl WithNeighbour for Lines {
    fn neighbours_program(&self, neighbour: &Neighbour<'_>) -> Option<String> {
        let lines = neighbour.lines.borrow();
        let kept: Option<Vec<&str>> =
            self.numbers().map(|at| lines.get(at).map(String::as_str)).collect();
        Some(line_removal::join_tidy(&kept?))
    }
}

/// Prints a shortened plan of a trial; `None` if it cannot be printed. Two placeholder lines in the header keep the
/// line numbers equal to those of the failing program.
fn print(
    runner: &ProgramRunner<'_>,
    job: &Job<'_>,
    plan: &Plan,
    failing: Option<u32>,
) -> Option<String> {
    let line = || vec!["a line".to_owned()];
    let header = header(runner.session, job, line(), line());
    ::export::print_short(plan, &runner.version, &header, failing).ok()
}

/// Returns true if two plans have the same steps and call the same functions, whatever the arguments are.
fn makes_the_same_calls(one: &Plan, other: &Plan) -> bool {
    let calls = |plan: &Plan| {
        let steps = plan.steps().into_iter();
        steps.map(|step| (step.id, api(&step.call, plan))).collect::<Vec<_>>()
    };
    calls(one) == calls(other)
}

fn passes(session: &Session, job: &Job<'_>, cancel: &Cancel) -> Result<bool, Stop> {
    for run in 0..PASSES {
        let record = run_trial(session, &job.for_run(run), cancel)
            .ok_or_else(|| Stop::no_verdict("interrupted"))?;
        if record.outcome.kind != Kind::Pass {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a line with a zero in place of each number.
fn without_numbers(line: &str) -> String {
    let mut out = String::new();
    let mut in_word = false;
    for c in line.chars() {
        // Digits in names such as `hipMemset3D` are kept.
        match c.is_ascii_digit() && !in_word {
            true if out.ends_with('0') => {}
            true => out.push('0'),
            false => out.push(c),
        }
        in_word = c.is_ascii_alphabetic() || c == '_' || in_word && c.is_ascii_digit();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_lines_apart_from_numbers() {
        let line = "CHECK(hipMemset3D(make_hipPitchedPtr(dst, 64, 64, 5), 171), hipSuccess);";
        assert_eq!(without_numbers(line), without_numbers(&line.replace("64", "1")));
        assert_ne!(without_numbers(line), without_numbers(&line.replace("3D", "2D")));
        assert_eq!(without_numbers("a10 + 10;"), "a10 + 0;");
    }
}
