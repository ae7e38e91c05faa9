//! Searches for the shortest program that shows a failure. The trial's plan is printed in a short form, compiled and
//! run. The program is reduced as long as it shows the failure and passes on the oracle, the configuration on which it
//! must pass.

use std::{
    cell::Cell,
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use ::export::Form;
use device::FaultPlace;
use judge::{Kind, Outcome};
use plan::{Call, Plan, api};
use report::evidence::Rate;
use rewrite::premise::Premises;
use search::reduce::{CandidateOutcome, ReduceSettings, Runner, reduce};
use supervise::Cancel;

use super::{
    ShortenBudget, describe_failure,
    line_search::{fewer_lines, with_bytes},
    measured,
    neighbour::{Neighbour, WithNeighbour},
    observed::{FAILED, ObservedProgram},
    print_program,
    program_runner::{ProgramRunner, RunMode},
    short_programs::Programs,
};
use crate::{Job, Stop};

/// Largest number of programs that are run to find a shorter one. A time limit instead would give other results on a
/// busy machine.
const MOST_TRIES: u32 = 3000;
/// Number of runs of the final, shortened program on each release.
const RUNS: u32 = 3;
/// Minimum number of runs of the final program if the trial fails only in some of its runs. Fewer runs say little about
/// the failure rate.
const MIN_RUNS_IF_RARE: u32 = 20;
/// Number of failures that the final program must show if it fails only in some of its runs.
const FAILURES: u32 = 3;
/// Largest number of runs of a program that fails only in some of its runs.
pub(super) const MOST_RUNS: u32 = 60;

/// The shortest program that showed the failure, and the results of its runs.
pub struct ShortestProgram {
    /// The source of the program.
    pub text: String,
    /// Rate of the finished program's runs that showed the failure.
    pub failed: Rate,
    /// The way in which a failing run ended, for example `died of SIGSEGV`.
    pub ended: String,
    /// Failure rate on the oracle, the configuration on which the program must pass; `None` without an oracle.
    pub elsewhere: Option<Rate>,
    /// Log of the HIP runtime during one failing run, with AMD_LOG_LEVEL=4.
    pub log: String,
    /// Call stacks of the threads in a failing run; empty unless the program died or hung.
    pub stacks: String,
    /// Number of runs that the search needed.
    pub tries: u32,
    /// True if the search has shown that nothing more can be left out; false if it was cut short.
    pub complete: bool,
}

/// The program that must pass so that a candidate is accepted. Used only if no fault is injected.
#[derive(Clone, Copy)]
pub enum PassingPrograms<'p> {
    /// No passing program is known.
    None,
    /// The candidate itself on another release.
    OnRelease(&'p ProgramRunner<'p>),
    /// The program of a trial that passes.
    OfNeighbour(&'p Neighbour<'p>),
}

/// Runs candidates on the failing release and on the oracle, the configuration on which they must pass.
pub(super) struct CandidateRunner<'a> {
    pub(super) job: &'a Job<'a>,
    healthy_job: Job<'a>,
    failing: &'a ProgramRunner<'a>,
    elsewhere: Option<&'a ProgramRunner<'a>>,
    neighbour: Option<&'a Neighbour<'a>>,
    /// Compiles and runs programs without the faults at their calls; `None` if no fault is injected at a call.
    without_faults: Option<ProgramRunner<'a>>,
    pub(super) goal: &'a Outcome,
    wanted: ObservedProgram,
    /// The line that reports the failure, if a neighbour is the control. It names the wrong and the right byte, and a
    /// shorter program must print the same line.
    line: Option<String>,
    pub(super) cancel: &'a Cancel,
    budget: ShortenBudget<'a>,
    tries: u32,
    pub(super) trouble: Option<Stop>,
    /// Source and result of the last compilation.
    last: Option<(String, Result<PathBuf, String>)>,
    /// Results of [`has_passing_program`](Self::has_passing_program), by the source of the candidate.
    passes: HashMap<String, bool>,
    /// Modes in which a program must pass on the oracle in addition to a plain run: with late execution, and under the
    /// sanitizer. The value is `None` until the first program has run in the mode, and then true if it passed. A mode
    /// with the value false is not used: the first program failed in it, or the sanitizer cannot check the kernels of
    /// the case.
    others: [(RunMode, Cell<Option<bool>>); 2],
}

impl CandidateRunner<'_> {
    /// Runs a candidate once on the failing release. `beside` is the corresponding program of the neighbour.
    pub(super) fn run_candidate(
        &mut self,
        text: &str,
        beside: Option<&str>,
    ) -> Result<CandidateOutcome, Stop> {
        let plan = &self.job.lowered.plan;
        self.tries += 1;
        (self.budget.tried)(self.tries);
        let program = match &self.last {
            Some((known, program)) if known == text => program.clone(),
            _ => self.failing.try_to_compile(text, plan, self.cancel)?,
        };
        self.last = Some((text.to_owned(), program.clone()));
        // A program that does not compile does not show the failure.
        let Ok(program) = program else { return Ok(CandidateOutcome::Pass) };
        let seen = self.failing.run(self.job, &program, self.goal, RunMode::Calls, self.cancel)?;
        if !seen.shows_failure(&self.wanted) {
            return Ok(match seen.kind {
                Kind::NoVerdict => CandidateOutcome::NoVerdict,
                kind if kind.is_failure() => CandidateOutcome::Other(seen.to_string()),
                _ => CandidateOutcome::Pass,
            });
        }
        if self.neighbour.is_some() && self.goal.kind == Kind::WrongData {
            match &self.line {
                Some(line) if *line != seen.line => return Ok(CandidateOutcome::Other(seen.line)),
                _ => self.line = Some(seen.line),
            }
        }
        if let Some(known) = self.passes.get(text) {
            return Ok(if *known { CandidateOutcome::Same } else { CandidateOutcome::Pass });
        }
        let passes = self.has_passing_program(text, beside, &program)?;
        self.passes.insert(text.to_owned(), passes);
        Ok(if passes { CandidateOutcome::Same } else { CandidateOutcome::Pass })
    }

    /// Returns true if the candidate passes on the oracle. Without an oracle, `beside`, the neighbour's program, must
    /// pass instead. Also returns true if there is neither. `program` is the compiled candidate.
    fn has_passing_program(
        &self,
        text: &str,
        beside: Option<&str>,
        program: &Path,
    ) -> Result<bool, Stop> {
        let (runner, job, text) = match (self.healthy(), self.neighbour) {
            (Some((runner, job)), _) if std::ptr::eq(runner, self.failing) => {
                return self.passes_on_oracle(runner, job, program);
            }
            (Some((runner, job)), _) => (runner, job.clone(), Some(self.on_healthy(text))),
            (None, Some(neighbour)) => {
                (&neighbour.runner, neighbour.job()?, beside.map(str::to_owned))
            }
            (None, None) => return Ok(true),
        };
        let Some(text) = text else { return Ok(false) };
        match runner.try_to_compile(&text, &job.lowered.plan, self.cancel)? {
            Ok(program) => self.passes_on_oracle(runner, &job, &program),
            Err(_) => Ok(false),
        }
    }

    /// Returns the program without the faults that are injected at its calls. In this form it runs on the oracle.
    fn on_healthy(&self, text: &str) -> String {
        match self.without_faults {
            Some(_) => ::export::without_injected(text),
            None => text.to_owned(),
        }
    }

    /// Returns true if a program passes a plain run with `runner`, which runs programs on the oracle (the configuration
    /// on which they must pass), or the programs of the neighbour. On the emulated device, the program must also pass
    /// in each mode of `others` in which the first program passed.
    fn passes_on_oracle(
        &self,
        runner: &ProgramRunner<'_>,
        job: &Job<'_>,
        program: &Path,
    ) -> Result<bool, Stop> {
        if self.measure_rate(runner, job, program, 1)?.failed > 0 {
            return Ok(false);
        }
        for (mode, must) in &self.others {
            if must.get() == Some(false) || runner.session.gfx().is_none() {
                continue;
            }
            let seen = runner.run(job, program, self.goal, *mode, self.cancel)?;
            let passes = seen.kind == Kind::Pass;
            if must.get().is_none() {
                must.set(Some(passes));
            } else if !passes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a program on the oracle; `None` without an oracle, or if the program does not compile there.
    pub(super) fn on_oracle(&mut self, text: &str) -> Result<Option<ObservedProgram>, Stop> {
        if self.budget.is_spent() {
            return Ok(None);
        }
        self.tries += 1;
        (self.budget.tried)(self.tries);
        // The compiler may overwrite the executable of the last program.
        self.last = None;
        let Some((runner, job)) = self.healthy() else { return Ok(None) };
        let (text, plan) = (self.on_healthy(text), &self.job.lowered.plan);
        let Ok(program) = runner.try_to_compile(&text, plan, self.cancel)? else {
            return Ok(None);
        };
        runner.run(job, &program, self.goal, RunMode::Plain, self.cancel).map(Some)
    }

    /// Returns the lines of a program's header that report the results of its runs.
    fn measured(&self, failed: Rate, passes: Option<Rate>) -> Vec<String> {
        let elsewhere = self.elsewhere.map(|runner| runner.session);
        measured(self.failing.session, failed, elsewhere, passes)
    }

    /// Returns the oracle, and the job to run on it. The oracle is a runner for another release, or for the device
    /// without the injected faults. `None` if neither exists.
    pub(super) fn healthy(&self) -> Option<(&ProgramRunner<'_>, &Job<'_>)> {
        match (self.elsewhere, &self.without_faults) {
            (Some(runner), _) => Some((runner, self.job)),
            (None, Some(runner)) => Some((runner, &self.healthy_job)),
            (None, None) => {
                (!self.job.faults.is_empty()).then_some((self.failing, &self.healthy_job))
            }
        }
    }

    /// Returns true if the neighbour's program that corresponds to the first candidate passes in each run.
    fn neighbour_passes(&self, neighbour: &Neighbour<'_>, start: &Plan) -> Result<bool, Stop> {
        let Some(text) = start.neighbours_program(neighbour) else { return Ok(false) };
        let job = neighbour.job()?;
        let plan = &job.lowered.plan;
        let Ok(program) = neighbour.runner.try_to_compile(&text, plan, self.cancel)? else {
            return Ok(false);
        };
        Ok(self.measure_rate(&neighbour.runner, &job, &program, RUNS)?.failed == 0)
    }

    fn measure_rate(
        &self,
        runner: &ProgramRunner<'_>,
        job: &Job<'_>,
        program: &Path,
        runs: u32,
    ) -> Result<Rate, Stop> {
        let mut rate = Rate { failed: 0, runs };
        for _ in 0..runs {
            let seen = runner.run(job, program, self.goal, RunMode::Plain, self.cancel)?;
            rate.failed += u32::from(seen.kind != Kind::Pass);
        }
        Ok(rate)
    }
}

impl<C: WithNeighbour> Runner<C> for CandidateRunner<'_> {
    fn run(&mut self, candidate: &C, text: &str) -> Option<CandidateOutcome> {
        if self.tries >= MOST_TRIES || self.trouble.is_some() || self.budget.is_spent() {
            return None;
        }
        let beside = self.neighbour.and_then(|neighbour| candidate.neighbours_program(neighbour));
        match self.run_candidate(text, beside.as_deref()) {
            Ok(look) => Some(look),
            Err(stop) => {
                self.trouble = Some(stop);
                None
            }
        }
    }
}

/// Returns the shortest program that shows the failure `goal`; `None` if no short program does. The program is made
/// from the trial `job`, whose failure rate is `rate`. `reported` is the failure rate of the trial that the user
/// reports.
///
/// # Errors
/// An interruption by the user, or a compiler that cannot be started.
pub fn shortest(
    failing: &ProgramRunner<'_>,
    passing: PassingPrograms<'_>,
    job: &Job<'_>,
    goal: &Outcome,
    [rate, reported]: [Rate; 2],
    budget: ShortenBudget<'_>,
    cancel: &Cancel,
) -> Result<Option<ShortestProgram>, Stop> {
    let at_calls = job.faults_of(FaultPlace::Call);
    if at_calls.iter().any(|planted| planted.probability < 1.0) {
        // A fault at calls is part of the printed program, which cannot inject it in some of its runs.
        return Ok(None);
    }
    let (session, version) = (failing.session, &failing.version);
    let states = goal.at.step.filter(|_| states_a_result(&job.lowered.plan, goal));
    let premise =
        states.map_or(Premises::default(), |id| Premises::for_step(&job.lowered.plan, id));
    let mut calls = states.map_or(BTreeSet::new(), |id| Premises::functions(&job.lowered.plan, id));
    if let Some(step) = goal.at.step.and_then(|id| job.lowered.plan.step(id))
        && !at_calls.is_empty()
    {
        // An injected failure does not depend on the call at which it is injected, but a reader needs to see the call.
        calls.insert(api(&step.call, &job.lowered.plan));
    }
    let of_data = goal.at.step.filter(|_| goal.kind == Kind::WrongData);
    let writers = of_data.map_or(BTreeSet::new(), |id| rewrite::last_writes(&job.lowered.plan, id));
    let space = Programs { job, version, session, failing: goal.at.step, premise, writers };
    // The sanitizer knows the bounds of buffers only for library kernels, not for kernels defined in the case.
    let own = rewrite::launches_own(&job.lowered.plan);
    let mut runs = CandidateRunner {
        job,
        healthy_job: Job { faults: Vec::new(), ..job.clone() },
        failing,
        elsewhere: match passing {
            PassingPrograms::OnRelease(runner) => Some(runner),
            PassingPrograms::None | PassingPrograms::OfNeighbour(_) => None,
        },
        neighbour: None,
        without_faults: match at_calls.is_empty() {
            true => None,
            false => Some(ProgramRunner::new(session, version.clone())?),
        },
        goal,
        wanted: ObservedProgram::expected(goal),
        line: None,
        cancel,
        budget,
        tries: 0,
        trouble: None,
        last: None,
        passes: HashMap::new(),
        others: [(RunMode::Late, None), (RunMode::Watched, (!own).then_some(false))]
            .map(|(mode, must)| (mode, Cell::new(must))),
    };
    let in_teardown = goal.kind == Kind::TeardownCrash;
    let start = rewrite::shorten(&job.lowered.plan, goal.at.step, in_teardown);
    let start = start.filter(|plan| space.print(plan, Vec::new(), Vec::new()).is_ok());
    if let (PassingPrograms::OfNeighbour(neighbour), Some(start)) = (passing, &start) {
        runs.neighbour = runs.neighbour_passes(neighbour, start)?.then_some(neighbour);
    }
    let deterministic = rate.failed == rate.runs;
    let settings = ReduceSettings { deterministic, ..ReduceSettings::default() };
    let has_control = runs.healthy().is_some() || runs.neighbour.is_some();
    let (mut text, complete) = match (start, has_control) {
        // Without an oracle, a call whose absence makes the program wrong cannot be distinguished from one that can be
        // left out.
        (Some(start), false) => {
            let text = printed_in_full(&space, &runs, &start).map_err(Stop::no_verdict)?;
            return confirm_program(&runs, &text, reported);
        }
        (None, _) if !at_calls.is_empty() => return Ok(None),
        (None, false) => return Ok(None),
        (Some(start), true) => {
            let found = reduce(&space, start, settings, &mut runs);
            if let Some(stop) = runs.trouble.take() {
                return Err(stop);
            }
            if found.with.same == 0 {
                return Ok(None);
            }
            let text =
                printed_in_full(&space, &runs, &found.candidate).map_err(Stop::no_verdict)?;
            if runs.neighbour.is_some_and(|other| !other.has_lines_of(&text, &found.candidate)) {
                // The neighbour has no program that corresponds to one with fewer lines.
                let short = confirm_program(&runs, &text, reported)?;
                return Ok(short.map(|short| ShortestProgram { complete: found.complete, ..short }));
            }
            (text, found.complete)
        }
        // If the plan cannot be printed as a short program, the full program can still be shortened line by line.
        (None, true) => {
            let tested = runs.measured(UNKNOWN, Some(UNKNOWN));
            (print_program(session, job, Form::Hiprtc, tested, vec![describe_failure(goal)])?, true)
        }
    };
    if let Some(shorter) = with_bytes(&mut runs, &text)? {
        text = shorter;
    }
    let found = fewer_lines(&mut runs, &text, &calls, settings)?;
    if found.with.same == 0 {
        return Ok(None);
    }
    let complete = complete && found.complete;
    let short = confirm_program(&runs, &found.candidate.text(), reported)?;
    Ok(short.map(|short| ShortestProgram { complete, ..short }))
}

/// Prints the program with its full header. The results of runs are filled in later and do not change the line numbers.
fn printed_in_full(
    space: &Programs<'_>,
    runs: &CandidateRunner<'_>,
    plan: &Plan,
) -> Result<String, String> {
    let tested = runs.measured(UNKNOWN, runs.healthy().map(|_| UNKNOWN));
    space.print(plan, tested, vec![describe_failure(runs.goal)])
}

/// Returns true if the failure is a result that differs from an expected one: a status, a value, or a comparison of two
/// buffers.
fn states_a_result(plan: &Plan, goal: &Outcome) -> bool {
    let step = goal.at.step.and_then(|id| plan.step(id));
    let compares = |step: &plan::Step| {
        matches!(step.call, Call::Equal { .. } | Call::Differ { .. } | Call::AtLeast { .. })
    };
    goal.kind == Kind::ApiError || step.is_some_and(compares)
}

/// Placeholder for a rate in the header of a program that has not run yet.
const UNKNOWN: Rate = Rate { failed: 0, runs: 0 };

/// Runs the finished program, with its header comment, until its failure rate agrees with that of the reported trial,
/// at most `MOST_RUNS` times. Returns `None` if the program does not pass on the oracle, or does not show the failure.
fn confirm_program(
    runs: &CandidateRunner<'_>,
    text: &str,
    reported: Rate,
) -> Result<Option<ShortestProgram>, Stop> {
    let plan = &runs.job.lowered.plan;
    let passes = match runs.healthy() {
        None => None,
        Some((runner, job)) => {
            // A program that does not compile on the oracle does not pass.
            let text = runs.on_healthy(text);
            let Ok(program) = runner.compile(&text, plan, runs.cancel)? else { return Ok(None) };
            let passes = runs.measure_rate(runner, job, &program, RUNS)?;
            if passes.failed > 0 {
                return Ok(None);
            }
            Some(passes)
        }
    };
    let Ok(program) = runs.failing.compile(text, plan, runs.cancel)? else { return Ok(None) };
    let (mut failed, mut ended) = (Rate::default(), String::new());
    let least = if reported.failed == reported.runs { RUNS } else { MIN_RUNS_IF_RARE };
    let enough = |found: Rate| {
        found.runs >= least
            && found.failed >= FAILURES
            && found.compare(reported) == Ordering::Equal
    };
    let most = || if runs.budget.is_spent() { RUNS } else { MOST_RUNS };
    while !enough(failed) && failed.runs < most() {
        let seen = runs.failing.run(runs.job, &program, runs.goal, RunMode::Plain, runs.cancel)?;
        let shows = seen.shows_failure(&runs.wanted);
        failed.runs += 1;
        failed.failed += u32::from(shows);
        if shows {
            ended = seen.line;
        }
    }
    // This additional run produces the log, which shows the call in which the program died.
    let mut logged = runs.failing.run(runs.job, &program, runs.goal, RunMode::All, runs.cancel)?;
    for n in 0..MOST_RUNS {
        if logged.shows_failure(&runs.wanted) || n >= most() {
            break;
        }
        logged = runs.failing.run(runs.job, &program, runs.goal, RunMode::All, runs.cancel)?;
    }
    if failed.failed == 0 || !logged.shows_failure(&runs.wanted) {
        return Ok(None);
    }
    let mut text = text.to_owned();
    let [before, after] = [(UNKNOWN, passes.map(|_| UNKNOWN)), (failed, passes)]
        .map(|(failed, passes)| runs.measured(failed, passes));
    for (unknown, known) in before.iter().zip(&after) {
        text = text.replacen(&format!("// {unknown}\n"), &format!("// {known}\n"), 1);
    }
    if ended.starts_with(FAILED) {
        // The trial's failure may mention bytes and buffers that the program does not have, so the header describes the
        // program's own failure.
        let words = [describe_failure(runs.goal), format!("A failing run ended with: {ended}")];
        let [trial, program] = words.map(|words| format!("// {words}\n"));
        text = text.replacen(&trial, &program, 1);
    }
    let log = runs.failing.log();
    let stacks = runs.failing.stacks(runs, &text)?;
    let tries = runs.tries;
    Ok(Some(ShortestProgram {
        text,
        failed,
        ended,
        elsewhere: passes,
        log,
        stacks,
        tries,
        complete: true,
    }))
}
