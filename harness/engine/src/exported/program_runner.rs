//! Compiles exported programs and runs them on one ROCm release.

use std::{
    cell::{Cell, OnceCell},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ::export::Form;
use device::{Config, Sanitize, Schedule};
use judge::{Kind, Outcome};
use plan::{Plan, Version};
use supervise::Cancel;

use super::{
    ExportError, RunSettings, limits, log_environment,
    observed::ObservedProgram,
    program_folder, read_log, read_trace, run_program,
    shortest::{CandidateRunner, MOST_RUNS},
    thread_stacks,
};
use crate::{Job, Session, Stop, TrialFolder, toolchain::Toolchain};

/// Minimum time for which a program may print nothing, because a busy machine may delay it.
const MIN_QUIET_TIMEOUT: Duration = Duration::from_secs(10);

/// Compiles programs and runs them on one ROCm release.
pub struct ProgramRunner<'s> {
    pub(super) session: &'s Session,
    toolchain: Toolchain,
    folder: TrialFolder,
    /// The release on which the trial fails. Programs are exported with the results that are expected on this release.
    pub(super) version: Version,
    /// The precompiled headers of all candidates; `None` if the compiler does not support them.
    headers: OnceCell<Option<PathBuf>>,
    /// Run time of the first program, which is not shortened.
    took: OnceCell<Duration>,
    /// Number of runs so far. In each run, faults with a probability below 1 have another seed.
    runs: Cell<u32>,
}

/// The way in which a program is run once.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum RunMode {
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
            // The sanitizer's default setting, because it cannot check what the host writes through a large BAR.
            RunMode::Watched => |config| Config {
                sanitize: Sanitize::Stop,
                large_bar: config.large_bar && !config.arch.has_large_bar(),
                ..config
            },
        }
    }
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
    pub(super) fn try_to_compile(
        &self,
        text: &str,
        plan: &Plan,
        cancel: &Cancel,
    ) -> Result<Result<PathBuf, String>, Stop> {
        let headers =
            self.headers.get_or_init(|| self.toolchain.precompile_headers(text, self.at(), cancel));
        self.compile_with_headers(headers.as_deref(), text, plan, cancel)
    }

    /// Compiles a program without precompiled headers, like the command in its header comment. The inner error is the
    /// output of the compiler.
    pub(super) fn compile(
        &self,
        text: &str,
        plan: &Plan,
        cancel: &Cancel,
    ) -> Result<Result<PathBuf, String>, Stop> {
        self.compile_with_headers(None, text, plan, cancel)
    }

    fn compile_with_headers(
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
        let done =
            self.toolchain.compile_with_headers(headers, plan, &source, &program, gfx, cancel)?;
        Ok(done.map(|()| program))
    }

    /// Reads the HIP runtime's log of the last run.
    pub(super) fn log(&self) -> String {
        read_log(&self.at().join("program.log"))
    }

    /// Runs the program with the signal handler of `thread_stacks` linked in, and returns the call stacks of a failing
    /// run; empty if no run shows any.
    pub(super) fn stacks(&self, runs: &CandidateRunner<'_>, text: &str) -> Result<String, Stop> {
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
            let job = &job.for_run(n);
            run_program(self.session, job, &program, &how, cancel)?;
            let shown = fs::read_to_string(&file).unwrap_or_default();
            let shown =
                thread_stacks::format_stacks(&shown, self.session.device_library().as_deref());
            if !shown.is_empty() {
                return Ok(shown);
            }
        }
        Ok(String::new())
    }

    /// Runs a program once. In a mode with a log, the outcome contains the call in which the program died or hung.
    pub(super) fn run(
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
            // A candidate without the end of a loop never terminates, so its time limit is shorter than that of a
            // trial.
            limits.quiet = limits.quiet.min((*took * 20).max(MIN_QUIET_TIMEOUT));
        }
        let job = &job.for_run(self.runs.replace(self.runs.get() + 1));
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
        Ok(ObservedProgram::from_run(&seen, open.as_deref()))
    }
}
