//! The session: what every trial of a run shares.

mod build;
mod confinement;
mod devices;
mod error;
mod options;
mod parts;
mod runner;

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    ffi::OsStr,
    hash::{BuildHasher, Hasher},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use device::{Config, Sanitize, Schedule};
use judge::Able;
use parking_lot::Mutex;
use plan::{Late, Order};
use stacks::Stack;
use supervise::{Limit, Limits, Resource, Start, View};

use self::parts::{Emulated, Gpus, Programs};
pub use self::{
    error::SessionError,
    options::SessionOptions,
    parts::{Folders, Given},
    runner::TrialRunner,
};
use crate::{
    DeviceChoice, STARTER_ARGUMENT, Stop, WORKER_ARGUMENT,
    compiled::{Compiler, Unready},
    device_library,
    events::Reporting,
    home::{self, Home},
    machine::{self, Trouble},
    own_program::OwnProgram,
    processes::Processes,
    scratch::{self, Temporary},
    slots::{self, Slot},
};

/// The limits that trials run under unless others are given: those of a usual Linux, so that neither a shell's `ulimit` nor a
/// batch system decides a trial. No core files, of which a run would leave hundreds. That of processes is the machine's: it counts
/// those of all programs of the user, and nobody but root can lift it.
const USUAL: [(Resource, Limit); 6] = [
    (Resource::Stack, Limit(8 << 20)),
    (Resource::Core, Limit(0)),
    (Resource::Files, Limit(1024)),
    (Resource::FileSize, Limit::NONE),
    (Resource::Memory, Limit::NONE),
    (Resource::Data, Limit::NONE),
];

/// Seconds that a trial may take, unless an option gives another limit.
pub const TIMEOUT: u32 = 300;

/// Seconds that a worker may be silent, unless an option gives another limit.
pub const QUIET_TIMEOUT: u32 = 30;

/// How long a program may be silent where nobody says.
const SILENT_PROGRAM: Duration = Duration::from_secs(120);

/// Where HIP's compiler keeps what it has compiled.
const COMGR_CACHE: &str = "AMD_COMGR_CACHE_DIR";

/// The workers' folder of temporary files, in the cache of compiled kernels.
const TEMPORARY: &str = "tmp";

/// A stack, a device and a worker: what every trial of a run shares.
pub struct Session {
    /// The id of the run.
    pub run: String,
    /// Trials that have begun.
    begun: AtomicU64,
    /// The stack.
    pub stack: Stack,
    /// Its ROCm version, as far as files or else its runtime tell.
    pub rocm: Option<plan::Version>,
    /// The device.
    pub device: DeviceChoice,
    /// Trials at once.
    pub jobs: NonZeroUsize,
    /// Time limits of one trial.
    pub limits: Limits,
    /// Injected delays.
    pub late: Option<Late>,
    /// Options that a command which repeats a trial needs.
    pub given: Given,
    /// The emulated device.
    pub(crate) emulated: Emulated,
    /// The GPUs that trials run on.
    pub(crate) gpus: Gpus,
    /// The programs that run and compile trials.
    pub(crate) programs: Programs,
    /// The folders that it writes to.
    pub folders: Folders,
    /// The processes that it started.
    pub processes: Processes,
    /// The receiver of events.
    pub(crate) reporting: Reporting,
    /// What executes trials, where it is not a worker process.
    pub(crate) runner: Option<Arc<dyn TrialRunner>>,
}

impl Session {
    /// A session on this stack and these GPUs. The device's library is in `device_folder`, and what is kept between
    /// runs in `cache`.
    ///
    /// # Errors
    /// More trials at once than GPUs run (usage), or a machine that does not let us work (no verdict).
    pub(crate) fn new(
        options: SessionOptions,
        stack: Stack,
        slots: Vec<Slot>,
        device_folder: Option<PathBuf>,
        cache: PathBuf,
    ) -> Result<Session, Stop> {
        let limits = options.effective_limits();
        let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let jobs = options.jobs.unwrap_or(match options.device {
            // Trials wait now and then: on two processors three at once took a tenth less time than two.
            DeviceChoice::Emulated(_) => processors.saturating_add(1),
            // Two trials on one GPU disturb each other.
            DeviceChoice::Gpu => NonZeroUsize::new(slots.len()).unwrap_or(NonZeroUsize::MIN),
        });
        if let Some(card) = slots.iter().find_map(|slot| slot.card.as_ref())
            && jobs.get() > slots.len()
        {
            let gpus = match slots.len() {
                1 => card.name.clone(),
                n => format!("{n} of them"),
            };
            return Err(SessionError::TooManyJobs { jobs: jobs.get(), gpus }.into());
        }
        let program = OwnProgram::open(options.program).map(Arc::new);
        let program = program.map_err(SessionError::OwnProgram)?;
        if !options.launcher.is_empty() && program.is_replaced() {
            return Err(SessionError::Replaced { path: program.path().to_owned() }.into());
        }
        let device_build = device_folder.as_deref().and_then(device_library::build_id);
        let mut resources = BTreeMap::from(USUAL);
        resources.extend(options.resources);
        let scratch = scratch::create()?;
        let rocm = stack.rocm.clone();
        let foreign = options.cases_from.as_ref().is_some_and(|from| !from.trusted);
        // Cases from elsewhere can write to their cache, so no other run may read it: it ends with this run.
        let code_cache = if foreign { scratch.path().join("code") } else { cache.join("code") };
        let temporary = Temporary::open(&code_cache, TEMPORARY).map_err(|error| {
            SessionError::NoTemporaryFolder { folder: code_cache.join(TEMPORARY), error }
        })?;
        Ok(Session {
            run: run_id(),
            begun: AtomicU64::new(0),
            stack,
            rocm,
            device: options.device,
            jobs,
            limits,
            late: options.late,
            given: Given {
                limits: options.limits,
                resources,
                environment: options.environment,
                launcher: options.launcher,
                cases_from: options.cases_from,
                packages_in: options.packages_in,
                programs_in: options.programs_in,
            },
            emulated: Emulated {
                config: options.emulation,
                options: options.device_options,
                folder: device_folder,
                build: device_build,
            },
            gpus: Gpus {
                slots,
                recovery: options.recovery,
                checked: Mutex::default(),
                mended: Mutex::default(),
                left_out: Mutex::default(),
            },
            programs: Programs {
                own: program,
                worker: options.worker,
                views: OnceLock::new(),
                compiler: OnceLock::new(),
            },
            folders: Folders { cache, code: code_cache, temporary, scratch },
            processes: Processes::default(),
            reporting: options.reporting,
            runner: options.runner,
        })
    }

    /// A number that no other trial of this run has.
    pub(crate) fn next_number(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// The folder of this run's temporary files. It goes with the session.
    pub fn scratch_folder(&self) -> &Path {
        self.folders.scratch.path()
    }

    /// The library that stands in the place of libhsa-runtime64; none on a GPU.
    pub fn device_library(&self) -> Option<PathBuf> {
        self.emulated.folder.as_ref().map(|folder| folder.join("libhsa-runtime64.so.1"))
    }

    /// Variables of the trials' environment that were given on the command line.
    pub fn variables(&self) -> impl Iterator<Item = (&String, &String)> {
        self.given.environment.iter()
    }

    /// What was given for this machine alone: values of variables that do not concern ROCm, and words of the launcher.
    pub fn private_values(&self) -> Vec<String> {
        let foreign =
            self.given.environment.iter().filter(|(name, _)| !report::issue::concerns_rocm(name));
        let words = self.given.launcher.iter().flat_map(|word| word.split('=')).skip(1);
        foreign.map(|(_, value)| value.clone()).chain(words.map(str::to_owned)).collect()
    }

    /// Where trials start whose bodies are programs; a fresh folder for each without.
    pub(crate) fn programs_in(&self) -> Option<&Path> {
        self.given.programs_in.as_deref()
    }

    /// Where its cases come from, as it was given on the command line.
    pub(crate) fn cases_from(&self) -> Vec<(&'static str, String)> {
        let Some(from) = &self.given.cases_from else { return Vec::new() };
        let trust = from.trusted.then(|| ("--trust", String::new()));
        let path = ("--cases-from", from.path.display().to_string());
        std::iter::once(path).chain(trust).collect()
    }

    /// The GPUs that were chosen: each trial says on which it was, and is the same on another.
    pub(crate) fn cards(&self) -> Option<(&'static str, String)> {
        let cards = slots::names(&self.gpus.slots);
        (!cards.is_empty()).then(|| ("--cards", cards.join(",")))
    }

    /// What else was given on the command line that a trial depends on.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let environment = self.given.environment.iter().map(|(k, v)| ("--env", format!("{k}={v}")));
        let launcher = (!self.given.launcher.is_empty())
            .then(|| ("--launcher", shell_words::join(&self.given.launcher)));
        let limits =
            self.given.resources.iter().filter(|(r, limit)| !USUAL.contains(&(**r, **limit)));
        let limits = limits.map(|(resource, limit)| ("--limit", format!("{resource}={limit}")));
        let times = [
            ("--timeout", self.given.limits.total, TIMEOUT),
            ("--quiet-timeout", self.given.limits.quiet, QUIET_TIMEOUT),
        ];
        let times =
            times.into_iter().filter(|(_, asked, usual)| asked.as_secs() != u64::from(*usual));
        let times = times.map(|(option, asked, _)| (option, asked.as_secs().to_string()));
        let mut given: Vec<_> = environment.chain(launcher).chain(limits).chain(times).collect();
        if self.emulated.config.schedule != Schedule::Eager {
            given.push(("--schedule", self.emulated.config.schedule.to_string()));
        }
        given.extend(self.given.packages_in.iter().map(|name| ("--in", name.clone())));
        match self.emulated.config.sanitize {
            Sanitize::Off => {}
            Sanitize::On => given.push(("--sanitize", String::new())),
            Sanitize::Stop => given.push(("--sanitize=stop", String::new())),
        }
        given.extend(self.emulated.config.options().into_iter().map(|o| ("--device-option", o)));
        given
    }

    /// How a worker is started in the stack.
    ///
    /// # Errors
    /// Limits of the plan that cannot be.
    pub(crate) fn worker(
        &self,
        stack: &Stack,
        order: &Order,
        folder: &Path,
        device_config: Option<&str>,
    ) -> Result<Start, String> {
        let worker = self.programs.worker.as_deref().unwrap_or(self.own());
        let mut start = self.start_in(stack, worker, device_config, &order.plan.environment);
        start.arguments.push(WORKER_ARGUMENT.into());
        start.directory = Some(folder.to_owned());
        self.name_cache(&mut start, folder)?;
        start.tell_end = true;
        // A worker that somebody names may be any program.
        start.settles = self.programs.worker.is_none();
        start.limits = self.limits(&order.plan.limits)?;
        Ok(start)
    }

    /// What a worker calls the cache of compiled kernels. comgr writes names of folders into texts that it splits again and crashes
    /// where they are not plain, and an order is text; such a folder has another name in the one that the worker starts in.
    pub(crate) fn cache_name(&self) -> &Path {
        if is_plain(&self.folders.code) { &self.folders.code } else { Path::new("cache") }
    }

    fn name_cache(&self, start: &mut Start, folder: &Path) -> Result<(), String> {
        let name = self.cache_name();
        if *name == self.folders.code {
            return Ok(());
        }
        std::os::unix::fs::symlink(&self.folders.code, folder.join(name))
            .map_err(|error| format!("no name for `{}`: {error}", self.folders.code.display()))?;
        for value in start.environment.values_mut() {
            if let Ok(below) = Path::new(value).strip_prefix(&self.folders.code) {
                *value = name.join(below).into();
            }
        }
        Ok(())
    }

    /// Time limits of a trial whose body is a program: it may compile, or read libraries of gigabytes, for long without a word.
    pub(crate) fn limits_of_programs(&self) -> Limits {
        let usual = self.given.limits.quiet.as_secs() == u64::from(QUIET_TIMEOUT);
        let quiet =
            if usual { self.limits.quiet.max(SILENT_PROGRAM) } else { self.given.limits.quiet };
        Limits { quiet, ..self.limits }
    }

    /// The limits of resources of a trial whose plan asks for these.
    pub fn limits(
        &self,
        of_plan: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<Resource, Limit>, String> {
        let mut limits = self.given.resources.clone();
        for (name, limit) in of_plan {
            let resource = name.parse()?;
            limits.insert(resource, Limit::parse(resource, limit)?);
        }
        self.at_most(&mut limits);
        Ok(limits)
    }

    /// How a program is started in the stack and on the device, in a clean environment with these variables: what a user's shell
    /// sets for HIP or HSA must not decide a trial unseen.
    pub fn start(
        &self,
        program: &Path,
        device_config: Option<&str>,
        variables: &BTreeMap<String, String>,
    ) -> Start {
        let mut start = self.start_in(&self.stack, program, device_config, variables);
        if self.emulated.folder.is_some() {
            home::allow_preloading(&mut start.environment);
        }
        start
    }

    fn start_in(
        &self,
        stack: &Stack,
        program: &Path,
        device_config: Option<&str>,
        variables: &BTreeMap<String, String>,
    ) -> Start {
        let inner = stack.command(program, self.emulated.folder.as_deref());
        let mut environment = BTreeMap::new();
        let mut set = |name: &OsStr, value: &OsStr| {
            environment.insert(name.to_owned(), value.to_owned());
        };
        for name in ["PATH", "HOME", "LANG", "XDG_RUNTIME_DIR"] {
            if let Some(value) = std::env::var_os(name) {
                set(name.as_ref(), &value);
            }
        }
        for (name, value) in inner.get_envs() {
            if let Some(value) = value {
                set(name, value);
            }
        }
        // The folder of temporary files is part of the keys of comgr's cache: with one that is new in each trial, the
        // runtime compiles its own copy kernels every time, which takes three times as long as the rest of a trial.
        set("TMPDIR".as_ref(), self.folders.code.join(TEMPORARY).as_ref());
        // Without it HIP's compiler shares ~/.cache/comgr with every other program of the user.
        set(COMGR_CACHE.as_ref(), self.folders.code.join("comgr").as_ref());
        set("AMD_COMGR_CACHE_POLICY".as_ref(), "prune_interval=1m:cache_size_bytes=32m".as_ref());
        if let Some(config) = device_config {
            set(device::CONFIG_VARIABLE.as_ref(), config.as_ref());
        }
        for (name, value) in self.given.environment.iter().chain(variables) {
            set(name.as_ref(), value.as_ref());
        }
        Start {
            program: program.to_owned(),
            through: stack.through(self.emulated.folder.as_deref()),
            view: None,
            preload: Vec::new(),
            arguments: Vec::new(),
            environment,
            directory: None,
            limits: BTreeMap::new(),
            fixed_addresses: self.emulated.config.schedule != Schedule::Eager,
            tell_end: false,
            settles: false,
        }
    }

    /// What a program and its children find in place of the machine's folders, or why they cannot.
    pub fn home(&self, config: Option<&Config>) -> Result<View, String> {
        self.home_of(config).view()
    }

    /// Prepares a program for a start without such a view: it finds the libraries that it can find then.
    pub fn without_home(&self, start: &mut Start) -> Result<(), String> {
        self.home_of(None).without_view(start)
    }

    fn home_of<'a>(&'a self, config: Option<&'a Config>) -> Home<'a> {
        let (stack, device) = (&self.stack, self.emulated.folder.as_deref());
        Home { stack, device, config, cache: &self.folders.cache }
    }

    /// Whether programs can have such a view here, or why not. A program that does nothing tries it once.
    pub(crate) fn views(&self) -> Result<(), String> {
        let tried = self.programs.views.get_or_init(|| {
            let mut start = self.start(Path::new("/bin/true"), None, &BTreeMap::new());
            start.view = Some(self.home(None)?);
            let output = self.command(&start).stdin(Stdio::null()).output();
            let output = output.map_err(|error| error.to_string())?;
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            }
        });
        tried.clone()
    }

    /// Where compiled programs of cases and the caches of frameworks are kept, for each stack.
    pub(crate) fn programs_folder(&self) -> PathBuf {
        let stack = plan::digest(self.stack.root.to_string_lossy().as_bytes());
        self.folders.code.join("programs").join(&stack[..16])
    }

    /// What compiles programs of cases, looked for when there is the first.
    pub(crate) fn compiler(&self) -> Result<&Compiler, Unready> {
        let headers = || self.folders.scratch.path().join("compiler");
        let kept = || self.programs_folder().join("compiled");
        let found =
            self.programs.compiler.get_or_init(|| Compiler::find(&self.stack, headers(), kept()));
        found.as_ref().map_err(Unready::clone)
    }

    /// The command that starts what is described.
    pub fn command(&self, start: &Start) -> Command {
        start.command(&[self.own().into(), STARTER_ARGUMENT.into()], &self.given.launcher)
    }

    /// What the kernel calls a worker: the first 15 bytes of its file's name; see proc_pid_comm(5).
    pub(crate) fn process_name(&self) -> String {
        let through = self.stack.through(self.emulated.folder.as_deref());
        let worker = self.programs.worker.as_deref().unwrap_or(self.own());
        let program = through.first().map_or(worker, |word| Path::new(word));
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        name.chars().take(15).collect()
    }

    /// What is known of this machine.
    pub(crate) fn able(&self) -> Able {
        machine::able(&self.stack.root, &self.device)
    }

    /// Remembers that the stack's runtime has started.
    pub(crate) fn has_started(&self) {
        machine::has_started(&self.stack.root, &self.device);
    }

    /// The other stacks of this machine, the one to try first last.
    pub(crate) fn other_stacks(&self) -> Vec<Stack> {
        let Ok(store) = stacks::StackCache::from_environment() else { return Vec::new() };
        let listing = stacks::list_stacks(&store);
        let fetched = listing.debian.into_iter().filter_map(|entry| entry.stack);
        let all = listing.system.into_iter().chain(fetched);
        all.filter(|stack| stack.root != self.stack.root).collect()
    }

    /// Why a trial may have failed because of this machine: it did not let the worker write, or start a thread.
    pub(crate) fn trouble(
        &self,
        spool: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Option<Trouble> {
        let mut folders = vec![spool.to_owned(), self.folders.code.clone()];
        // Those of the compilers may be others than ours. Where the second is missing they make it.
        let [temporary, cache] = ["TMPDIR", COMGR_CACHE].map(|name| environment.get(name));
        folders.extend(temporary.map(|folder| spool.join(folder)));
        folders.extend(cache.map(|folder| spool.join(folder)).filter(|folder| folder.exists()));
        machine::trouble(&folders)
    }

    /// Whether trials share their GPU with nobody.
    pub(crate) fn takes_turns(&self) -> bool {
        self.device == DeviceChoice::Gpu && self.jobs.get() <= self.gpus.slots.len()
    }

    pub(crate) fn is_launched(&self) -> bool {
        !self.given.launcher.is_empty()
    }

    /// What trials run on, in one line.
    pub fn stands_on(&self) -> String {
        let rocm = self.rocm.as_ref().map_or_else(String::new, |rocm| format!("ROCm {rocm} "));
        let device = match self.device {
            DeviceChoice::Emulated(arch) => {
                format!("the emulated {}; not a GPU result", arch.name())
            }
            DeviceChoice::Gpu => {
                let turns = if self.takes_turns() { ", one trial at a time" } else { "" };
                let names = slots::names(&self.gpus.slots);
                match names.len() {
                    0 => format!("the AMD GPU of this machine{turns}"),
                    1 => format!("the AMD GPU {} of this machine{turns}", names[0]),
                    _ => {
                        let each = if turns.is_empty() { "" } else { " on each" };
                        format!("the AMD GPUs {} of this machine{turns}{each}", names.join(", "))
                    }
                }
            }
        };
        format!("{rocm}({}), on {device}", self.stack.spec)
    }

    /// The architecture that device 0 must have; none on a GPU, whose own word is taken.
    pub fn gfx(&self) -> Option<&'static str> {
        self.device.gfx()
    }
}

/// Whether a path is one word for whoever splits a text into words.
fn is_plain(path: &Path) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@%,:=~".contains(byte);
    path.as_os_str().as_encoded_bytes().iter().all(plain)
}

/// The second in which a run began, and what tells it from others of that second.
fn run_id() -> String {
    let when = report::date(SystemTime::now()).replace(['-', ':'], "");
    format!("{when}-{}", &nonce()[..8])
}

/// Unguessable enough to prove that a worker of this run answered; the standard library seeds its
/// hasher from the system's random source.
pub(crate) fn nonce() -> String {
    let word = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}
