//! The shortest program that shows a failure: the trial's plan, printed leanly, compiled and run, and made smaller as long as
//! the program itself shows the failure, and passes where the trial passes.

use std::{
    cell::{Cell, OnceCell},
    cmp::Ordering,
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use device::{Config, Sanitize, Schedule};
use export::Form;
use judge::{Kind, Outcome};
use plan::{Plan, Version};
use report::evidence::Rate;
use rewrite::ShortenEdit;
use search::reduce::{Made, ReduceSettings, Runner, Seen as Look, Space, Tree, reduce};
use supervise::Cancel;

use super::{
    fewer::{fewer_lines, with_bytes},
    seen::{FAILED, Seen},
    stacks,
    verify::{
        How, goes_wrong, header, limits, log_environment, measured, printed, read_log, read_trace,
        run_program,
    },
};
use engine::{Job, Session, Stop, toolchain::Toolchain};

/// Most tries, each one run of a program, in making it smaller. A number of tries, and no time, so that the result is the same on a
/// busy machine.
const MOST_TRIES: u32 = 3000;
/// Runs of the finished program, on each release.
const RUNS: u32 = 3;
/// Failures of a program that fails now and then, before it is shown.
const FAILURES: u32 = 3;
/// Most runs of a program that fails now and then.
pub(super) const MOST_RUNS: u32 = 60;

/// A busy machine may let a program wait so long.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// A release with what compiles for it.
pub(crate) struct Bench<'s> {
    session: &'s Session,
    toolchain: Toolchain,
    folder: engine::TrialFolder,
    /// The release that expectations are printed for: the failing one.
    version: Version,
    /// The headers of the candidates, compiled once; none where the compiler cannot.
    headers: OnceCell<Option<PathBuf>>,
    /// How long the first program ran, which nothing had been left out of.
    took: OnceCell<Duration>,
    /// Runs so far: a fault that is drawn is drawn anew in each.
    runs: Cell<u32>,
}

/// How a program is run.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    /// The runtime logs the calls.
    Calls,
    /// The runtime logs what it does for them, too.
    All,
    /// Work is done as late as the interface allows: a program that waits for less than it uses shows it.
    Late,
    /// The sanitizer stops what reaches too far, or uses what nobody wrote.
    Watched,
}

impl Way {
    fn device(self) -> fn(Config) -> Config {
        match self {
            Way::Plain | Way::Calls | Way::All => |config| config,
            Way::Late => |config| Config { schedule: Schedule::Lazy, ..config },
            // As by default under the sanitizer, which cannot watch what the host writes through a large BAR.
            Way::Watched => |config| Config {
                sanitize: Sanitize::Stop,
                large_bar: config.large_bar && !config.arch.has_large_bar(),
                ..config
            },
        }
    }
}

/// A short program that showed the failure.
pub(crate) struct Short {
    pub(crate) text: String,
    /// Runs of the finished program that showed the failure.
    pub(crate) failed: Rate,
    /// How it ended, such as `died of SIGSEGV`.
    pub(crate) ended: String,
    /// Runs where it must pass, failures counted; none without such a place.
    pub(crate) elsewhere: Option<Rate>,
    /// What the runtime logged of one failing run, at AMD_LOG_LEVEL=4.
    pub(crate) log: String,
    /// Where the threads of a failing run were; empty unless it died or hung.
    pub(crate) stacks: String,
    /// Runs of programs that it took to find it.
    pub(crate) tries: u32,
    /// Whether nothing more could be left out: the search came to its own end.
    pub(crate) complete: bool,
}

impl<'s> Bench<'s> {
    /// Finds a compiler for a release.
    ///
    /// # Errors
    /// A stack without headers, or a machine without a compiler.
    pub(crate) fn new(session: &'s Session, version: Version) -> Result<Bench<'s>, Stop> {
        session.require_trust()?;
        let folder = super::tools(session)?;
        let toolchain = Toolchain::find(&session.stack, Form::Hiprtc, folder.path())?;
        Ok(Bench {
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

    /// Compiles a candidate, quickly; the compiler's errors where it cannot be.
    fn try_to_compile(&self, text: &str, plan: &Plan) -> Result<Result<PathBuf, String>, Stop> {
        let headers = self.headers.get_or_init(|| self.toolchain.precompiled(text, self.at()));
        self.compile_behind(headers.as_deref(), text, plan)
    }

    /// Compiles a text by its own build line; the compiler's errors where it cannot be.
    fn compile(&self, text: &str, plan: &Plan) -> Result<Result<PathBuf, String>, Stop> {
        self.compile_behind(None, text, plan)
    }

    fn compile_behind(
        &self,
        headers: Option<&Path>,
        text: &str,
        plan: &Plan,
    ) -> Result<Result<PathBuf, String>, Stop> {
        let (source, program) = (self.at().join(Form::Hiprtc.file()), self.at().join("repro"));
        fs::write(&source, text).map_err(|e| {
            Stop::no_verdict(format!("error: cannot write `{}`: {e}", source.display()))
        })?;
        let gfx = self.session.gfx().unwrap_or("native");
        let done = self.toolchain.compile_behind(headers, plan, &source, &program, gfx)?;
        Ok(done.map(|()| program))
    }

    /// What the runtime logged of the last run.
    fn log(&self) -> String {
        read_log(&self.at().join("program.log"))
    }

    /// Where the threads of a failing run are, by a handler that is linked in; empty where nothing was seen.
    fn stacks(&self, runs: &Runs<'_>, text: &str) -> Result<String, Stop> {
        if !stacks::tell(runs.goal.kind) {
            return Ok(String::new());
        }
        let (job, cancel) = (runs.job, runs.cancel);
        let with_handler = format!("{text}{}", stacks::HANDLER);
        let Ok(program) = self.compile(&with_handler, &job.lowered.plan)? else {
            return Ok(String::new());
        };
        let limits = limits(self.session, runs.goal, Duration::ZERO);
        let file = self.at().join("stacks");
        let mut variables = vec![(stacks::FILE.to_owned(), file.display().to_string())];
        if runs.goal.kind == Kind::Hang {
            let after = limits.quiet.as_secs().div_ceil(2);
            variables.push((stacks::AFTER.to_owned(), after.to_string()));
        }
        let how = How {
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
            let shown = stacks::readable(&shown, self.session.device_library().as_deref());
            if !shown.is_empty() {
                return Ok(shown);
            }
        }
        Ok(String::new())
    }

    /// One run. With a log, the call that it died or hung in is known.
    fn run(
        &self,
        job: &Job<'_>,
        program: &Path,
        goal: &Outcome,
        way: Way,
        cancel: &Cancel,
    ) -> Result<Seen, Stop> {
        let log = self.at().join("program.log");
        for entry in fs::read_dir(self.at()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("program.log") {
                // An older log would be read in the place of this run's.
                let _ = fs::remove_file(entry.path());
            }
        }
        let mut limits = limits(self.session, goal, Duration::ZERO);
        if let (true, Some(took)) = (goal.kind != Kind::Hang, self.took.get()) {
            // A program that runs on and on, as the end of a loop was left out, need not be waited for as long as a trial.
            limits.quiet = limits.quiet.min((*took * 20).max(LEAST_PATIENCE));
        }
        let job = &job.of_run(self.runs.replace(self.runs.get() + 1));
        let mut variables = match way {
            Way::Plain | Way::Late | Way::Watched => Vec::new(),
            Way::Calls | Way::All => log_environment(&log).to_vec(),
        };
        if way == Way::All {
            variables.retain(|(name, _)| name != "AMD_LOG_MASK");
            variables.push(("AMD_LOG_LEVEL".to_owned(), "4".to_owned()));
        }
        let how =
            How { folder: self.at(), limits: &limits, variables: &variables, device: way.device() };
        let seen = run_program(self.session, job, program, &how, cancel)?;
        let _ = self.took.set(seen.wall);
        let open = match way {
            Way::Plain | Way::Late | Way::Watched => None,
            Way::Calls | Way::All => read_trace(&log, Form::Hiprtc).open,
        };
        Ok(Seen::of_program(&seen, open.as_deref()))
    }
}

/// Programs as what a search reduces.
struct Programs<'a> {
    job: &'a Job<'a>,
    version: &'a Version,
    session: &'a Session,
    failing: Option<u32>,
}

impl Programs<'_> {
    fn print(
        &self,
        plan: &Plan,
        tested: Vec<String>,
        wrong: Vec<String>,
    ) -> Result<String, String> {
        let header = header(self.session, self.job, tested, wrong);
        export::print_short(plan, self.version, &header, self.failing)
    }
}

impl Programs<'_> {
    /// The program with all of its header: its numbers come later, the lines are where they will be.
    fn finished(&self, runs: &Runs<'_>, plan: &Plan) -> Result<String, String> {
        let tested = runs.measured(UNKNOWN, runs.healthy().map(|_| UNKNOWN));
        self.print(plan, tested, vec![goes_wrong(runs.goal)])
    }
}

impl Space for Programs<'_> {
    type Candidate = Plan;
    type Edit = ShortenEdit;

    fn edits(&self, plan: &Plan) -> Tree<ShortenEdit> {
        rewrite::shorten_edits(plan, self.failing)
    }

    fn apply(&self, plan: &Plan, edits: &[ShortenEdit]) -> Made<Plan> {
        let mut smaller = plan.clone();
        edits.iter().for_each(|edit| rewrite::apply_shorten_edit(&mut smaller, edit));
        if smaller == *plan {
            return Made::Unchanged;
        }
        match rewrite::used_before_creation(&smaller) {
            Some(why) => Made::IllFormed(why),
            None => match self.print(&smaller, Vec::new(), Vec::new()) {
                Ok(_) => Made::Candidate(smaller),
                Err(why) => Made::IllFormed(why),
            },
        }
    }

    fn key(&self, plan: &Plan) -> String {
        self.print(plan, Vec::new(), Vec::new()).unwrap_or_default()
    }
}

/// Runs programs on the failing release and where they must pass.
pub(super) struct Runs<'a> {
    job: &'a Job<'a>,
    unplanted: Job<'a>,
    failing: &'a Bench<'a>,
    elsewhere: Option<&'a Bench<'a>>,
    goal: &'a Outcome,
    wanted: Seen,
    cancel: &'a Cancel,
    tries: u32,
    pub(super) trouble: Option<Stop>,
    /// The program that was compiled last.
    last: Option<(String, Result<PathBuf, String>)>,
    /// Whether programs pass where they must.
    passes: HashMap<String, bool>,
    /// In which other ways they must pass there, too, because the first one does; none before that is known.
    others: [(Way, Cell<Option<bool>>); 2],
}

impl Runs<'_> {
    /// Tries a program once.
    pub(super) fn look(&mut self, text: &str) -> Result<Look, Stop> {
        let plan = &self.job.lowered.plan;
        self.tries += 1;
        let program = match &self.last {
            Some((known, program)) if known == text => program.clone(),
            _ => self.failing.try_to_compile(text, plan)?,
        };
        self.last = Some((text.to_owned(), program.clone()));
        // What does not compile shows nothing.
        let Ok(program) = program else { return Ok(Look::Pass) };
        let seen = self.failing.run(self.job, &program, self.goal, Way::Calls, self.cancel)?;
        if !seen.shows(&self.wanted) {
            return Ok(match seen.kind {
                Kind::NoVerdict => Look::NoVerdict,
                kind if kind.is_failure() => Look::Other(seen.to_string()),
                _ => Look::Pass,
            });
        }
        if let Some(known) = self.passes.get(text) {
            return Ok(if *known { Look::Same } else { Look::Pass });
        }
        let passes = match (self.elsewhere, self.healthy()) {
            (Some(bench), _) => match bench.try_to_compile(text, plan)? {
                Ok(program) => self.is_right(bench, self.job, &program)?,
                Err(_) => false,
            },
            (None, Some((bench, job))) => self.is_right(bench, job, &program)?,
            (None, None) => true,
        };
        self.passes.insert(text.to_owned(), passes);
        Ok(if passes { Look::Same } else { Look::Pass })
    }

    /// Whether a program passes where it must: in the other ways, too, if the first one does.
    fn is_right(&self, bench: &Bench<'_>, job: &Job<'_>, program: &Path) -> Result<bool, Stop> {
        if self.passing(bench, job, program, 1)?.failed > 0 {
            return Ok(false);
        }
        for (way, must) in &self.others {
            if must.get() == Some(false) || bench.session.gfx().is_none() {
                continue;
            }
            let seen = bench.run(job, program, self.goal, *way, self.cancel)?;
            let passes = seen.kind == Kind::Pass;
            if must.get().is_none() {
                must.set(Some(passes));
            } else if !passes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What a program does where it must pass; none where there is no such place, or it does not compile.
    pub(super) fn elsewhere(&mut self, text: &str) -> Result<Option<Seen>, Stop> {
        self.tries += 1;
        // Another program may be written over it.
        self.last = None;
        let Some((bench, job)) = self.healthy() else { return Ok(None) };
        let Ok(program) = bench.try_to_compile(text, &self.job.lowered.plan)? else {
            return Ok(None);
        };
        bench.run(job, &program, self.goal, Way::Plain, self.cancel).map(Some)
    }

    /// What runs showed, for the header.
    fn measured(&self, failed: Rate, passes: Option<Rate>) -> Vec<String> {
        let elsewhere = self.elsewhere.map(|bench| bench.session);
        measured(self.failing.session, failed, elsewhere, passes)
    }

    /// Where programs must pass: on another release, or without the planted faults; none where nobody knows.
    pub(super) fn healthy(&self) -> Option<(&Bench<'_>, &Job<'_>)> {
        match self.elsewhere {
            Some(bench) => Some((bench, self.job)),
            None => (!self.job.faults.is_empty()).then_some((self.failing, &self.unplanted)),
        }
    }

    fn passing(
        &self,
        bench: &Bench<'_>,
        job: &Job<'_>,
        program: &Path,
        runs: u32,
    ) -> Result<Rate, Stop> {
        let mut rate = Rate { failed: 0, runs };
        for _ in 0..runs {
            let seen = bench.run(job, program, self.goal, Way::Plain, self.cancel)?;
            rate.failed += u32::from(seen.kind != Kind::Pass);
        }
        Ok(rate)
    }
}

impl<C> Runner<C> for Runs<'_> {
    fn run(&mut self, _candidate: &C, text: &str) -> Option<Look> {
        if self.tries >= MOST_TRIES || self.trouble.is_some() {
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

/// Makes the shortest program that shows `goal`; none where no short program does. The case that it is printed from failed at
/// `rate`, and the trial that is reported at `reported`.
///
/// # Errors
/// An interruption, or a compiler that cannot be started.
pub(crate) fn shortest(
    failing: &Bench<'_>,
    elsewhere: Option<&Bench<'_>>,
    job: &Job<'_>,
    goal: &Outcome,
    [rate, reported]: [Rate; 2],
    cancel: &Cancel,
) -> Result<Option<Short>, Stop> {
    let at_call = |p: &device::Planted| p.fault.place() == device::Place::Call;
    if job.faults.iter().any(at_call) {
        // The misbehaviour is part of the program, so nothing healthy is left to compare it with.
        return Ok(None);
    }
    let (session, version) = (failing.session, &failing.version);
    let space = Programs { job, version, session, failing: goal.at.step };
    // The library's kernels say how far they reach; the case's own do not.
    let own = rewrite::launches_own(&job.lowered.plan);
    let mut runs = Runs {
        job,
        unplanted: Job { faults: Vec::new(), ..job.clone() },
        failing,
        elsewhere,
        goal,
        wanted: Seen::of_trial(goal),
        cancel,
        tries: 0,
        trouble: None,
        last: None,
        passes: HashMap::new(),
        others: [(Way::Late, None), (Way::Watched, (!own).then_some(false))]
            .map(|(way, must)| (way, Cell::new(must))),
    };
    let start = rewrite::shorten(&job.lowered.plan, goal.at.step);
    let start = start.filter(|plan| space.print(plan, Vec::new(), Vec::new()).is_ok());
    let deterministic = rate.failed == rate.runs;
    let settings = ReduceSettings { deterministic, ..ReduceSettings::default() };
    let (mut text, complete) = match (start, runs.healthy().is_some()) {
        // Nothing would tell a call that is needed for the failure to be one from a call that only stands before it.
        (Some(start), false) => {
            let text = space.finished(&runs, &start).map_err(Stop::no_verdict)?;
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
            let text = space.finished(&runs, &found.candidate).map_err(Stop::no_verdict)?;
            (text, found.complete)
        }
        // What has no short form may be made shorter line by line.
        (None, true) => {
            let tested = runs.measured(UNKNOWN, Some(UNKNOWN));
            (printed(session, job, Form::Hiprtc, tested, vec![goes_wrong(goal)])?, true)
        }
    };
    if let Some(shorter) = with_bytes(&mut runs, &text)? {
        text = shorter;
    }
    let found = fewer_lines(&mut runs, &text, settings)?;
    if found.with.same == 0 {
        return Ok(None);
    }
    let complete = complete && found.complete;
    let short = finished(&runs, &found.candidate.text(), reported)?;
    Ok(short.map(|short| Short { complete, ..short }))
}

/// What stands where a number of the finished program comes.
const UNKNOWN: Rate = Rate { failed: 0, runs: 0 };

/// Runs the finished program, its header included, and says what it showed: as often as it takes to see that its rate is that of
/// the trial, up to a bound.
fn finished(runs: &Runs<'_>, text: &str, reported: Rate) -> Result<Option<Short>, Stop> {
    let plan = &runs.job.lowered.plan;
    let passes = match runs.healthy() {
        None => None,
        Some((bench, job)) => {
            // What does not compile there does not pass.
            let Ok(program) = bench.compile(text, plan)? else { return Ok(None) };
            let passes = runs.passing(bench, job, &program, RUNS)?;
            if passes.failed > 0 {
                return Ok(None);
            }
            Some(passes)
        }
    };
    let Ok(program) = runs.failing.compile(text, plan)? else { return Ok(None) };
    let (mut failed, mut ended) = (Rate::default(), String::new());
    let enough = |found: Rate| {
        found.runs >= RUNS
            && found.failed >= FAILURES
            && found.compared(reported) == Ordering::Equal
    };
    while !enough(failed) && failed.runs < MOST_RUNS {
        let seen = runs.failing.run(runs.job, &program, runs.goal, Way::Plain, runs.cancel)?;
        let shows = seen.shows(&runs.wanted);
        failed.runs += 1;
        failed.failed += u32::from(shows);
        if shows {
            ended = seen.line;
        }
    }
    // Once more for the log, and for the call that it died in.
    let mut logged = runs.failing.run(runs.job, &program, runs.goal, Way::All, runs.cancel)?;
    for _ in 0..MOST_RUNS {
        if logged.shows(&runs.wanted) {
            break;
        }
        logged = runs.failing.run(runs.job, &program, runs.goal, Way::All, runs.cancel)?;
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
        // The trial's own words are about all of its bytes and buffers.
        let words = [goes_wrong(runs.goal), format!("A failing run ended so: {ended}")];
        let [trial, program] = words.map(|words| format!("// {words}\n"));
        text = text.replacen(&trial, &program, 1);
    }
    let log = runs.failing.log();
    let stacks = runs.failing.stacks(runs, &text)?;
    let tries = runs.tries;
    Ok(Some(Short { text, failed, ended, elsewhere: passes, log, stacks, tries, complete: true }))
}
