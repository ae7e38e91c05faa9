//! The shortest program that shows a failure: the trial's plan, printed leanly, compiled and run, and made smaller as long as
//! the program itself shows the failure, and passes where the trial passes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use export::Form;
use judge::Outcome;
use plan::{Plan, Version};
use report::evidence::Rate;
use rewrite::reduce::Edit;
use search::reduce::{Made, Runner, Seen as Look, Settings, Space, Tree, reduce};
use supervise::Cancel;

use super::{
    build::Toolchain,
    seen::Seen,
    verify::{
        goes_wrong, header, limits, log_environment, measured, read_log, read_trace, run_program,
    },
};
use crate::{Job, Session, Stop};

/// Longest time for making a program smaller.
const BUDGET: Duration = Duration::from_secs(240);
/// Runs of the finished program, on each release.
const RUNS: u32 = 3;
/// Most runs of a program that fails now and then.
const MOST_RUNS: u32 = 60;

/// A release with what compiles for it.
pub(crate) struct Bench<'s> {
    session: &'s Session,
    toolchain: Toolchain,
    folder: tempfile::TempDir,
    /// The release that expectations are printed for: the failing one.
    version: Version,
}

/// What the runtime logs of a run.
#[derive(Clone, Copy, PartialEq)]
enum Logged {
    No,
    /// The calls.
    Calls,
    /// What it does for them, too.
    All,
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
}

impl<'s> Bench<'s> {
    /// Finds a compiler for a release.
    ///
    /// # Errors
    /// A stack without headers, or a machine without a compiler.
    pub(crate) fn new(session: &'s Session, version: Version) -> Result<Bench<'s>, Stop> {
        let folder = super::tools(session)?;
        let toolchain = Toolchain::find(session, Form::Hiprtc, folder.path())?;
        Ok(Bench { session, toolchain, folder, version })
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles a text; the compiler's errors where it cannot be.
    fn compile(&self, plan: &Plan, text: &str) -> Result<Result<PathBuf, String>, Stop> {
        let (source, program) = (self.at().join(Form::Hiprtc.file()), self.at().join("repro"));
        fs::write(&source, text).map_err(|e| {
            Stop::no_verdict(format!("error: cannot write `{}`: {e}", source.display()))
        })?;
        let gfx = self.session.gfx().unwrap_or("native");
        let done = self.toolchain.compile(self.session, plan, &source, &program, gfx)?;
        Ok(done.map(|()| program))
    }

    /// What the runtime logged of the last run.
    fn log(&self) -> String {
        read_log(&self.at().join("program.log"))
    }

    /// One run. With a log, the call that it died or hung in is known.
    fn run(
        &self,
        job: &Job<'_>,
        program: &Path,
        goal: &Outcome,
        logged: Logged,
        cancel: &Cancel,
    ) -> Result<Seen, Stop> {
        let log = self.at().join("program.log");
        for entry in fs::read_dir(self.at()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("program.log") {
                // An older log would be read in the place of this run's.
                let _ = fs::remove_file(entry.path());
            }
        }
        let limits = limits(self.session, goal, Duration::ZERO);
        let mut variables = match logged {
            Logged::No => Vec::new(),
            Logged::Calls | Logged::All => log_environment(&log).to_vec(),
        };
        if logged == Logged::All {
            variables.retain(|(name, _)| name != "AMD_LOG_MASK");
            variables.push(("AMD_LOG_LEVEL".to_owned(), "4".to_owned()));
        }
        let seen = run_program(self.session, job, program, self.at(), &limits, &variables, cancel)?;
        let open = match logged {
            Logged::No => None,
            Logged::Calls | Logged::All => read_trace(&log, Form::Hiprtc).open,
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
        export::print_lean(plan, self.version, &header, self.failing)
    }
}

impl Space for Programs<'_> {
    type Candidate = Plan;
    type Edit = Edit;

    fn edits(&self, plan: &Plan) -> Tree<Edit> {
        rewrite::leaner(plan, self.failing)
    }

    fn apply(&self, plan: &Plan, edits: &[Edit]) -> Made<Plan> {
        let mut smaller = plan.clone();
        for edit in edits {
            if let Edit::Drop { steps, .. } = edit {
                rewrite::without(&mut smaller, &steps.iter().copied().collect());
            }
        }
        if smaller == *plan {
            return Made::Unchanged;
        }
        match rewrite::unmade(&smaller) {
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
struct Runs<'a> {
    job: &'a Job<'a>,
    healthy: Job<'a>,
    failing: &'a Bench<'a>,
    elsewhere: Option<&'a Bench<'a>>,
    goal: &'a Outcome,
    wanted: Seen,
    cancel: &'a Cancel,
    until: Instant,
    trouble: Option<Stop>,
    /// The program that was compiled last, and whether it passes where it must.
    last: Option<(String, Result<PathBuf, String>)>,
    passes: std::collections::HashMap<String, bool>,
}

impl Runs<'_> {
    fn look(&mut self, plan: &Plan, text: &str) -> Result<Look, Stop> {
        let program = match &self.last {
            Some((known, program)) if known == text => program.clone(),
            _ => self.failing.compile(plan, text)?,
        };
        self.last = Some((text.to_owned(), program.clone()));
        // What does not compile shows nothing.
        let Ok(program) = program else { return Ok(Look::Pass) };
        let seen = self.failing.run(self.job, &program, self.goal, Logged::Calls, self.cancel)?;
        if !seen.shows(&self.wanted) {
            return Ok(if seen.kind.is_failure() {
                Look::Other(seen.to_string())
            } else {
                Look::Pass
            });
        }
        if let Some(known) = self.passes.get(text) {
            return Ok(if *known { Look::Same } else { Look::Pass });
        }
        let passes = match self.passing(plan, text, 1)? {
            Some(rate) => rate.failed == 0,
            None => true,
        };
        self.passes.insert(text.to_owned(), passes);
        Ok(if passes { Look::Same } else { Look::Pass })
    }

    /// Runs a program where it must pass: on another release, or without the planted faults. What does not compile there fails.
    fn passing(&self, plan: &Plan, text: &str, runs: u32) -> Result<Option<Rate>, Stop> {
        let planted = !self.job.faults.is_empty();
        let (bench, job) = match self.elsewhere {
            Some(bench) => (bench, self.job),
            None if planted => (self.failing, &self.healthy),
            None => return Ok(None),
        };
        let mut rate = Rate { failed: 0, runs };
        match bench.compile(plan, text)? {
            Err(_) => rate.failed = runs,
            Ok(program) => {
                for _ in 0..runs {
                    let seen = bench.run(job, &program, self.goal, Logged::No, self.cancel)?;
                    rate.failed += u32::from(seen.kind != judge::Kind::Pass);
                }
            }
        }
        Ok(Some(rate))
    }
}

impl Runner<Plan> for Runs<'_> {
    fn run(&mut self, plan: &Plan, key: &str) -> Option<Look> {
        if Instant::now() >= self.until || self.trouble.is_some() {
            return None;
        }
        match self.look(plan, key) {
            Ok(look) => Some(look),
            Err(stop) => {
                self.trouble = Some(stop);
                None
            }
        }
    }
}

/// Makes the shortest program that shows `goal`, found in runs that failed at `rate`; none where no short program does.
///
/// # Errors
/// An interruption, or a compiler that cannot be started.
pub(crate) fn shortest(
    failing: &Bench<'_>,
    elsewhere: Option<&Bench<'_>>,
    job: &Job<'_>,
    goal: &Outcome,
    rate: Rate,
    cancel: &Cancel,
) -> Result<Option<Short>, Stop> {
    let at_call = |p: &device::Planted| p.fault.place() == device::Place::Call;
    if job.faults.iter().any(at_call) {
        // The misbehaviour is part of the program, so nothing healthy is left to compare it with.
        return Ok(None);
    }
    let Some(start) = rewrite::lean(&job.lowered.plan, goal.at.step) else { return Ok(None) };
    let (session, version) = (failing.session, &failing.version);
    let space = Programs { job, version, session, failing: goal.at.step };
    if space.print(&start, Vec::new(), Vec::new()).is_err() {
        return Ok(None);
    }
    let mut runs = Runs {
        job,
        healthy: Job { faults: Vec::new(), ..job.clone() },
        failing,
        elsewhere,
        goal,
        wanted: Seen::of_trial(goal),
        cancel,
        until: Instant::now() + BUDGET,
        trouble: None,
        last: None,
        passes: std::collections::HashMap::new(),
    };
    let settings = Settings { deterministic: rate.failed == rate.runs, ..Settings::default() };
    let found = reduce(&space, start, settings, &mut runs);
    if let Some(stop) = runs.trouble.take() {
        return Err(stop);
    }
    if found.with.same == 0 {
        return Ok(None);
    }
    finished(&space, &runs, &found.candidate, rate)
}

/// Runs the finished program, its header included, and says what it showed.
fn finished(
    space: &Programs<'_>,
    runs: &Runs<'_>,
    plan: &Plan,
    rate: Rate,
) -> Result<Option<Short>, Stop> {
    let print = |failed: Rate, passes: Option<Rate>| {
        let elsewhere = runs.elsewhere.map(|bench| bench.session);
        let tested = measured(runs.failing.session, failed, elsewhere, passes);
        space.print(plan, tested, vec![goes_wrong(runs.goal)]).map_err(Stop::no_verdict)
    };
    // The numbers come later; the lines of the program are where they will be.
    let has_oracle = runs.elsewhere.is_some() || !runs.job.faults.is_empty();
    let text = print(Rate::default(), has_oracle.then(Rate::default))?;
    let elsewhere = runs.passing(plan, &text, RUNS)?;
    let Ok(program) = runs.failing.compile(plan, &text)? else { return Ok(None) };
    let (mut failed, mut ended) = (Rate::default(), String::new());
    let enough = |found: Rate| {
        let often = rate.failed == rate.runs || found.failed >= 3;
        found.runs >= MOST_RUNS || found.runs >= RUNS && often
    };
    while !enough(failed) {
        let seen = runs.failing.run(runs.job, &program, runs.goal, Logged::No, runs.cancel)?;
        let shows = seen.shows(&runs.wanted);
        failed.runs += 1;
        failed.failed += u32::from(shows);
        if shows {
            ended = seen.line;
        }
    }
    // Once more for the log, and for the call that it died in.
    let mut logged = runs.failing.run(runs.job, &program, runs.goal, Logged::All, runs.cancel)?;
    for _ in 0..MOST_RUNS {
        if logged.shows(&runs.wanted) {
            break;
        }
        logged = runs.failing.run(runs.job, &program, runs.goal, Logged::All, runs.cancel)?;
    }
    if failed.failed == 0 || !logged.shows(&runs.wanted) {
        return Ok(None);
    }
    Ok(Some(Short {
        text: print(failed, elsewhere)?,
        failed,
        ended,
        elsewhere,
        log: runs.failing.log(),
    }))
}
