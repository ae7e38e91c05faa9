//! Searches for the shortest program that shows a failure. The trial's plan is printed in a short form, compiled and
//! run, and it is reduced as long as the program shows the failure and passes on the oracle.

use std::{
    cell::{Cell, OnceCell},
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ::export::Form;
use device::{Config, Sanitize, Schedule};
use judge::{Kind, Outcome};
use plan::{Call, Plan, Version};
use report::evidence::Rate;
use rewrite::premise::Premises;
use search::reduce::{ReduceSettings, Runner, Seen, reduce};
use supervise::Cancel;

use super::{
    ExportError, RunSettings, ShortenBudget, goes_wrong, limits,
    line_search::{fewer_lines, with_bytes},
    log_environment, measured,
    observed::{FAILED, ObservedProgram},
    printed, program_folder, read_log, read_trace, run_program,
    short_programs::Programs,
    thread_stacks,
};
use crate::{Job, Session, Stop, TrialFolder, toolchain::Toolchain};

/// Largest number of tries to make the program smaller. Each try runs one program. Because the limit is not a time, the
/// result is the same on a busy machine.
const MOST_TRIES: u32 = 3000;
/// Number of runs of the final, shortened program on each release.
const RUNS: u32 = 3;
/// Minimum number of runs of the final program if the trial fails only in some of its runs. Fewer runs say little about
/// the failure rate.
const RUNS_OF_RARE: u32 = 20;
/// Number of failures that the final program must show if it fails only in some of its runs.
const FAILURES: u32 = 3;
/// Largest number of runs of a program that fails only in some of its runs.
pub(super) const MOST_RUNS: u32 = 60;

/// Minimum time for which a program may print nothing, because a busy machine may delay it.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// Compiles and runs programs on a release.
pub struct ProgramRunner<'s> {
    session: &'s Session,
    toolchain: Toolchain,
    folder: TrialFolder,
    /// The failing release, whose expected results the programs contain.
    version: Version,
    /// The precompiled headers of all candidates; `None` if the compiler does not support them.
    headers: OnceCell<Option<PathBuf>>,
    /// Run time of the first program, which is not shortened.
    took: OnceCell<Duration>,
    /// Number of runs so far. In each run, faults with a probability below 1 have another seed.
    runs: Cell<u32>,
}

/// The way in which a program is run once.
#[derive(Clone, Copy, PartialEq)]
enum RunMode {
    Plain,
    /// The HIP runtime logs the calls of the program.
    Calls,
    /// The HIP runtime logs the calls and their execution on the device.
    All,
    /// The device executes work as late as the interface allows, so a program without enough synchronisation fails.
    Late,
    /// The sanitizer stops the program at out-of-bounds accesses and at uses of uninitialised memory.
    Watched,
}

impl RunMode {
    fn device(self) -> fn(Config) -> Config {
        match self {
            RunMode::Plain | RunMode::Calls | RunMode::All => |config| config,
            RunMode::Late => |config| Config { schedule: Schedule::Lazy, ..config },
            // This is the sanitizer's default: it cannot check what the host writes through a large BAR.
            RunMode::Watched => |config| Config {
                sanitize: Sanitize::Stop,
                large_bar: config.large_bar && !config.arch.has_large_bar(),
                ..config
            },
        }
    }
}

/// The shortest program that showed the failure, and the results of its runs.
pub struct ShortestProgram {
    /// The source of the program.
    pub text: String,
    /// Rate of the finished program's runs that showed the failure.
    pub failed: Rate,
    /// The way in which a failing run ended, for example `died of SIGSEGV`.
    pub ended: String,
    /// Rate of failures on the oracle; `None` without an oracle.
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

impl<'s> ProgramRunner<'s> {
    /// Finds a compiler for the session's release.
    ///
    /// # Errors
    /// A stack without headers, or a machine without a compiler.
    pub fn new(session: &'s Session, version: Version) -> Result<ProgramRunner<'s>, Stop> {
        session.require_trust()?;
        let folder = program_folder(session)?;
        let toolchain = Toolchain::find(&session.stack, Form::Hiprtc, folder.path())?;
        Ok(ProgramRunner {
            session,
            toolchain,
            folder,
            version,
            headers: OnceCell::new(),
            took: OnceCell::new(),
            runs: Cell::new(0),
        })
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles a candidate with precompiled headers. The inner error is the output of the compiler.
    fn try_to_compile(
        &self,
        text: &str,
        plan: &Plan,
        cancel: &Cancel,
    ) -> Result<Result<PathBuf, String>, Stop> {
        let headers =
            self.headers.get_or_init(|| self.toolchain.precompiled(text, self.at(), cancel));
        self.compile_behind(headers.as_deref(), text, plan, cancel)
    }

    /// Compiles a program with the build line in its own header. The inner error is the output of the compiler.
    fn compile(
        &self,
        text: &str,
        plan: &Plan,
        cancel: &Cancel,
    ) -> Result<Result<PathBuf, String>, Stop> {
        self.compile_behind(None, text, plan, cancel)
    }

    fn compile_behind(
        &self,
        headers: Option<&Path>,
        text: &str,
        plan: &Plan,
        cancel: &Cancel,
    ) -> Result<Result<PathBuf, String>, Stop> {
        let (source, program) = (self.at().join(Form::Hiprtc.file()), self.at().join("repro"));
        fs::write(&source, text)
            .map_err(|error| ExportError::CannotWrite { path: source.clone(), error })?;
        let gfx = self.session.gfx().unwrap_or("native");
        let done = self.toolchain.compile_behind(headers, plan, &source, &program, gfx, cancel)?;
        Ok(done.map(|()| program))
    }

    /// Reads the HIP runtime's log of the last run.
    fn log(&self) -> String {
        read_log(&self.at().join("program.log"))
    }

    /// Returns the call stacks in a failing run of the program with the signal handler; empty if no run shows any.
    fn stacks(&self, runs: &Runs<'_>, text: &str) -> Result<String, Stop> {
        if !thread_stacks::are_useful(runs.goal.kind) {
            return Ok(String::new());
        }
        let (job, cancel) = (runs.job, runs.cancel);
        let with_handler = format!("{text}{}", thread_stacks::HANDLER);
        let Ok(program) = self.compile(&with_handler, &job.lowered.plan, cancel)? else {
            return Ok(String::new());
        };
        let limits = limits(self.session, runs.goal, Duration::ZERO);
        let file = self.at().join("stacks");
        let mut variables = vec![(thread_stacks::FILE.to_owned(), file.display().to_string())];
        if runs.goal.kind == Kind::Hang {
            let after = limits.quiet.as_secs().div_ceil(2);
            variables.push((thread_stacks::AFTER.to_owned(), after.to_string()));
        }
        let how = RunSettings {
            folder: self.at(),
            limits: &limits,
            variables: &variables,
            device: |config| config,
        };
        for n in 0..MOST_RUNS {
            let _ = fs::remove_file(&file);
            let job = &job.of_run(n);
            run_program(self.session, job, &program, &how, cancel)?;
            let shown = fs::read_to_string(&file).unwrap_or_default();
            let shown = thread_stacks::readable(&shown, self.session.device_library().as_deref());
            if !shown.is_empty() {
                return Ok(shown);
            }
        }
        Ok(String::new())
    }

    /// Runs a program once. In a mode with a log, the outcome contains the call in which the program died or hung.
    fn run(
        &self,
        job: &Job<'_>,
        program: &Path,
        goal: &Outcome,
        mode: RunMode,
        cancel: &Cancel,
    ) -> Result<ObservedProgram, Stop> {
        let log = self.at().join("program.log");
        for entry in fs::read_dir(self.at()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("program.log") {
                // Otherwise the log of an earlier run could be read in place of this run's.
                let _ = fs::remove_file(entry.path());
            }
        }
        let mut limits = limits(self.session, goal, Duration::ZERO);
        if let (true, Some(took)) = (goal.kind != Kind::Hang, self.took.get()) {
            // If the candidate does not contain the end of a loop, it never ends. The search waits for it for a shorter
            // time than for a trial.
            limits.quiet = limits.quiet.min((*took * 20).max(LEAST_PATIENCE));
        }
        let job = &job.of_run(self.runs.replace(self.runs.get() + 1));
        let mut variables = match mode {
            RunMode::Plain | RunMode::Late | RunMode::Watched => Vec::new(),
            RunMode::Calls | RunMode::All => log_environment(&log).to_vec(),
        };
        if mode == RunMode::All {
            variables.retain(|(name, _)| name != "AMD_LOG_MASK");
            variables.push(("AMD_LOG_LEVEL".to_owned(), "4".to_owned()));
        }
        let how = RunSettings {
            folder: self.at(),
            limits: &limits,
            variables: &variables,
            device: mode.device(),
        };
        let seen = run_program(self.session, job, program, &how, cancel)?;
        let _ = self.took.set(seen.wall);
        let open = match mode {
            RunMode::Plain | RunMode::Late | RunMode::Watched => None,
            RunMode::Calls | RunMode::All => read_trace(&log, Form::Hiprtc).open,
        };
        Ok(ObservedProgram::of(&seen, open.as_deref()))
    }
}

/// Runs candidates on the failing release and on the oracle, the configuration on which they must pass.
pub(super) struct Runs<'a> {
    job: &'a Job<'a>,
    healthy_job: Job<'a>,
    failing: &'a ProgramRunner<'a>,
    elsewhere: Option<&'a ProgramRunner<'a>>,
    goal: &'a Outcome,
    wanted: ObservedProgram,
    cancel: &'a Cancel,
    budget: ShortenBudget<'a>,
    tries: u32,
    pub(super) trouble: Option<Stop>,
    /// Source and result of the last compilation.
    last: Option<(String, Result<PathBuf, String>)>,
    /// Results of candidates on the oracle, by their source. True if the candidate passed.
    passes: HashMap<String, bool>,
    /// Further modes for runs on the oracle. If the first program passes in a mode, later programs must pass in it too.
    /// The value is `None` until the first program has run.
    others: [(RunMode, Cell<Option<bool>>); 2],
}

impl Runs<'_> {
    /// Runs a candidate once on the failing release.
    pub(super) fn look(&mut self, text: &str) -> Result<Seen, Stop> {
        let plan = &self.job.lowered.plan;
        self.tries += 1;
        (self.budget.tried)(self.tries);
        let program = match &self.last {
            Some((known, program)) if known == text => program.clone(),
            _ => self.failing.try_to_compile(text, plan, self.cancel)?,
        };
        self.last = Some((text.to_owned(), program.clone()));
        // A program that does not compile does not show the failure.
        let Ok(program) = program else { return Ok(Seen::Pass) };
        let seen = self.failing.run(self.job, &program, self.goal, RunMode::Calls, self.cancel)?;
        if !seen.shows(&self.wanted) {
            return Ok(match seen.kind {
                Kind::NoVerdict => Seen::NoVerdict,
                kind if kind.is_failure() => Seen::Other(seen.to_string()),
                _ => Seen::Pass,
            });
        }
        if let Some(known) = self.passes.get(text) {
            return Ok(if *known { Seen::Same } else { Seen::Pass });
        }
        let passes = match (self.elsewhere, self.healthy()) {
            (Some(runner), _) => match runner.try_to_compile(text, plan, self.cancel)? {
                Ok(program) => self.is_right(runner, self.job, &program)?,
                Err(_) => false,
            },
            (None, Some((runner, job))) => self.is_right(runner, job, &program)?,
            (None, None) => true,
        };
        self.passes.insert(text.to_owned(), passes);
        Ok(if passes { Seen::Same } else { Seen::Pass })
    }

    /// Returns true if a program passes on the oracle, also in those further modes in which the first program passed.
    fn is_right(
        &self,
        runner: &ProgramRunner<'_>,
        job: &Job<'_>,
        program: &Path,
    ) -> Result<bool, Stop> {
        if self.passing(runner, job, program, 1)?.failed > 0 {
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
        let Ok(program) = runner.try_to_compile(text, &self.job.lowered.plan, self.cancel)? else {
            return Ok(None);
        };
        runner.run(job, &program, self.goal, RunMode::Plain, self.cancel).map(Some)
    }

    /// Returns the lines of a program's header that report the results of its runs.
    fn measured(&self, failed: Rate, passes: Option<Rate>) -> Vec<String> {
        let elsewhere = self.elsewhere.map(|runner| runner.session);
        measured(self.failing.session, failed, elsewhere, passes)
    }

    /// Returns the oracle: another release, or the device without the injected faults; `None` if there is neither.
    pub(super) fn healthy(&self) -> Option<(&ProgramRunner<'_>, &Job<'_>)> {
        match self.elsewhere {
            Some(runner) => Some((runner, self.job)),
            None => (!self.job.faults.is_empty()).then_some((self.failing, &self.healthy_job)),
        }
    }

    fn passing(
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

impl<C> Runner<C> for Runs<'_> {
    fn run(&mut self, _candidate: &C, text: &str) -> Option<Seen> {
        if self.tries >= MOST_TRIES || self.trouble.is_some() || self.budget.is_spent() {
            return None;
        }
        match self.look(text) {
            Ok(look) => Some(look),
            Err(stop) => {
                self.trouble = Some(stop);
                None
            }
        }
    }
}

/// Returns the shortest program that shows the failure `goal`; `None` if no short program does. `job`, the trial that
/// is printed as a program, failed at the rate `rate`, and the trial that the user reports at the rate `reported`.
///
/// # Errors
/// An interruption by the user, or a compiler that cannot be started.
pub fn shortest(
    failing: &ProgramRunner<'_>,
    elsewhere: Option<&ProgramRunner<'_>>,
    job: &Job<'_>,
    goal: &Outcome,
    [rate, reported]: [Rate; 2],
    budget: ShortenBudget<'_>,
    cancel: &Cancel,
) -> Result<Option<ShortestProgram>, Stop> {
    let at_call = |p: &device::Planted| p.fault.place() == device::Place::Call;
    if job.faults.iter().any(at_call) {
        // A fault at calls is part of the printed program, so no configuration exists on which the program passes.
        return Ok(None);
    }
    let (session, version) = (failing.session, &failing.version);
    let states = goal.at.step.filter(|_| states_a_result(&job.lowered.plan, goal));
    let premise = states.map_or(Premises::default(), |id| Premises::of_step(&job.lowered.plan, id));
    let calls = states.map_or(BTreeSet::new(), |id| Premises::functions(&job.lowered.plan, id));
    let of_data = goal.at.step.filter(|_| goal.kind == Kind::WrongData);
    let writers = of_data.map_or(BTreeSet::new(), |id| rewrite::last_writes(&job.lowered.plan, id));
    let space = Programs { job, version, session, failing: goal.at.step, premise, writers };
    // The sanitizer knows the bounds of the buffers of library kernels only, not of kernels that belong to the case.
    let own = rewrite::launches_own(&job.lowered.plan);
    let mut runs = Runs {
        job,
        healthy_job: Job { faults: Vec::new(), ..job.clone() },
        failing,
        elsewhere,
        goal,
        wanted: ObservedProgram::expected(goal),
        cancel,
        budget,
        tries: 0,
        trouble: None,
        last: None,
        passes: HashMap::new(),
        others: [(RunMode::Late, None), (RunMode::Watched, (!own).then_some(false))]
            .map(|(mode, must)| (mode, Cell::new(must))),
    };
    let start = rewrite::shorten(&job.lowered.plan, goal.at.step);
    let start = start.filter(|plan| space.print(plan, Vec::new(), Vec::new()).is_ok());
    let deterministic = rate.failed == rate.runs;
    let settings = ReduceSettings { deterministic, ..ReduceSettings::default() };
    let (mut text, complete) = match (start, runs.healthy().is_some()) {
        // Without an oracle, a call whose absence makes the program wrong cannot be distinguished from one that can be
        // left out.
        (Some(start), false) => {
            let text = printed_in_full(&space, &runs, &start).map_err(Stop::no_verdict)?;
            return finished(&runs, &text, reported);
        }
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
            (text, found.complete)
        }
        // If the plan cannot be printed as a short program, the full program can still be shortened line by line.
        (None, true) => {
            let tested = runs.measured(UNKNOWN, Some(UNKNOWN));
            (printed(session, job, Form::Hiprtc, tested, vec![goes_wrong(goal)])?, true)
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
    let short = finished(&runs, &found.candidate.text(), reported)?;
    Ok(short.map(|short| ShortestProgram { complete, ..short }))
}

/// Prints the program with its full header. The results of runs are filled in later and do not change the line numbers.
fn printed_in_full(space: &Programs<'_>, runs: &Runs<'_>, plan: &Plan) -> Result<String, String> {
    let tested = runs.measured(UNKNOWN, runs.healthy().map(|_| UNKNOWN));
    space.print(plan, tested, vec![goes_wrong(runs.goal)])
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

/// Runs the finished program, with its header comment, again and again until its failure rate agrees with that of the
/// reported trial, at most `MOST_RUNS` times. Returns what the runs showed.
fn finished(runs: &Runs<'_>, text: &str, reported: Rate) -> Result<Option<ShortestProgram>, Stop> {
    let plan = &runs.job.lowered.plan;
    let passes = match runs.healthy() {
        None => None,
        Some((runner, job)) => {
            // A program that does not compile on the oracle does not pass.
            let Ok(program) = runner.compile(text, plan, runs.cancel)? else { return Ok(None) };
            let passes = runs.passing(runner, job, &program, RUNS)?;
            if passes.failed > 0 {
                return Ok(None);
            }
            Some(passes)
        }
    };
    let Ok(program) = runs.failing.compile(text, plan, runs.cancel)? else { return Ok(None) };
    let (mut failed, mut ended) = (Rate::default(), String::new());
    let least = if reported.failed == reported.runs { RUNS } else { RUNS_OF_RARE };
    let enough = |found: Rate| {
        found.runs >= least
            && found.failed >= FAILURES
            && found.compared(reported) == Ordering::Equal
    };
    let most = || if runs.budget.is_spent() { RUNS } else { MOST_RUNS };
    while !enough(failed) && failed.runs < most() {
        let seen = runs.failing.run(runs.job, &program, runs.goal, RunMode::Plain, runs.cancel)?;
        let shows = seen.shows(&runs.wanted);
        failed.runs += 1;
        failed.failed += u32::from(shows);
        if shows {
            ended = seen.line;
        }
    }
    // This additional run produces the log, which shows the call in which the program died.
    let mut logged = runs.failing.run(runs.job, &program, runs.goal, RunMode::All, runs.cancel)?;
    for n in 0..MOST_RUNS {
        if logged.shows(&runs.wanted) || n >= most() {
            break;
        }
        logged = runs.failing.run(runs.job, &program, runs.goal, RunMode::All, runs.cancel)?;
    }
    if failed.failed == 0 || !logged.shows(&runs.wanted) {
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
        let words = [goes_wrong(runs.goal), format!("A failing run ended with: {ended}")];
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
