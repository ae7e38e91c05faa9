//! The session: everything that the trials of a run share.

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
use judge::RocmEvidence;
use parking_lot::Mutex;
use plan::{DelayInjection, Order};
use stacks::Stack;
use supervise::{Limit, Limits, Resource, Start, View};

use self::parts::{Emulated, Gpus, Programs};
pub use self::{
    error::SessionError,
    options::SessionOptions,
    parts::{Folders, GivenOptions},
    runner::TrialRunner,
};
use crate::{
    DeviceChoice, LOOK_ARGUMENT, STARTER_ARGUMENT, Stop, WORKER_ARGUMENT,
    compiled::{Compiler, StartError},
    device_library,
    events::Reporting,
    home::{self, Home},
    machine::{self, MachineTrouble},
    own_program::OwnProgram,
    processes::Processes,
    scratch::{self, Temporary},
    slots::{self, Slot},
};

/// Default resource limits: those of a usual Linux system, so that neither `ulimit` nor a batch system affects a
/// result. Core files are off, because a run would leave hundreds of them. The limit on processes is not set, because
/// only root can raise it.
const DEFAULT_LIMITS: [(Resource, Limit); 6] = [
    (Resource::Stack, Limit(8 << 20)),
    (Resource::Core, Limit(0)),
    (Resource::Files, Limit(1024)),
    (Resource::FileSize, Limit::NONE),
    (Resource::Memory, Limit::NONE),
    (Resource::Data, Limit::NONE),
];

/// Default time limit of a trial, in seconds.
pub const TIMEOUT: u32 = 300;

/// Default time for which a worker may report nothing, in seconds.
pub const QUIET_TIMEOUT: u32 = 30;

/// Default time for which the program of a case may print nothing.
const SILENT_PROGRAM: Duration = Duration::from_secs(120);

/// Time from the end of a program until the processes that it left running are killed. Processes of frameworks detect
/// the end of their parent only after a while: those of PyTorch's DataLoader check every 5 s
/// (<https://github.com/pytorch/pytorch/blob/v2.6.0/torch/utils/data/_utils/__init__.py>, `MP_STATUS_CHECK_INTERVAL`).
const LEFTOVER_GRACE: Duration = Duration::from_secs(6);

const COMGR_CACHE: &str = "AMD_COMGR_CACHE_DIR";

const TEMPORARY: &str = "tmp";

/// File name of the HSA runtime, without its version.
const HSA_RUNTIME: &str = "libhsa-runtime64.so";

/// A stack, a device, limits and options that all trials of a run share.
pub struct Session {
    /// Id of the run.
    pub run: String,
    begun: AtomicU64,
    /// The ROCm stack of all trials.
    pub stack: Stack,
    /// ROCm version of the stack; `None` if neither its files nor its HIP runtime report one.
    pub rocm: Option<plan::Version>,
    /// The device of all trials.
    pub device: DeviceChoice,
    /// Number of trials that run at the same time.
    pub jobs: NonZeroUsize,
    /// Time limits of one trial.
    pub limits: Limits,
    /// Injected delays, if any.
    pub late: Option<DelayInjection>,
    /// Options of the command line that must also be in a printed command that repeats a trial.
    pub given: GivenOptions,
    pub(crate) emulated: Emulated,
    pub(crate) gpus: Gpus,
    pub(crate) programs: Programs,
    /// Folders to which the session writes.
    pub folders: Folders,
    /// Processes that the session started.
    pub processes: Processes,
    pub(crate) reporting: Reporting,
    pub(crate) runner: Option<Arc<dyn TrialRunner>>,
}

impl Session {
    /// Creates a session on a stack and on the chosen GPUs.
    ///
    /// # Errors
    /// Returns an error if more trials are to run at the same time than there are GPUs, or if the machine prevents the
    /// session.
    pub(crate) fn new(
        options: SessionOptions,
        stack: Stack,
        slots: Vec<Slot>,
        device_folder: Option<PathBuf>,
        cache: PathBuf,
    ) -> Result<Session, Stop> {
        let mut limits = options.effective_limits();
        let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let jobs = options.jobs.unwrap_or(match options.device {
            // On two processors, three simultaneous trials took a tenth less time than two did.
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
        if !options.hangs_on_purpose {
            limits.looker = vec![program.stable_path().into(), LOOK_ARGUMENT.into()];
        }
        let level = options.emulation.level;
        let device_build =
            device_folder.as_deref().and_then(|folder| device_library::build_id(folder, level));
        let hsa_build = stack.library(HSA_RUNTIME).as_deref().and_then(stacks::build_id);
        let mut resources = BTreeMap::from(DEFAULT_LIMITS);
        resources.extend(options.resources);
        let scratch = scratch::create(&options.stop)?;
        let rocm = stack.rocm.clone();
        let foreign = options.cases_from.as_ref().is_some_and(|from| !from.trusted);
        // Untrusted cases can write to the cache of compiled kernels. The cache that they use is removed after this
        // run, so that no other run reads it.
        let code_cache = if foreign { scratch.path().join("code") } else { cache.join("code") };
        let temporary =
            Temporary::open(&code_cache, TEMPORARY, &options.stop).map_err(|error| {
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
            given: GivenOptions {
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
                hsa_build,
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

    pub(crate) fn next_number(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the folder of this run's temporary files, which is removed with the session.
    pub fn scratch_folder(&self) -> &Path {
        self.folders.scratch.path()
    }

    /// Returns the path of the emulated device's library; `None` on a GPU.
    pub fn device_library(&self) -> Option<PathBuf> {
        let name = device_library::name(self.emulated.config.level);
        self.emulated.folder.as_ref().map(|folder| folder.join(name))
    }

    /// Returns the environment variables for trials that the user gave on the command line.
    pub fn variables(&self) -> impl Iterator<Item = (&String, &String)> {
        self.given.environment.iter()
    }

    /// Returns values that must not be published: those of private environment variables from the command line or the
    /// case, and the arguments of the launcher.
    pub fn private_values(&self, of_case: &BTreeMap<String, String>) -> Vec<String> {
        let is_private =
            |(name, value): &(&String, &String)| !report::issue::is_public(name, value);
        let foreign = self.given.environment.iter().chain(of_case).filter(is_private);
        let words = self.given.launcher.iter().flat_map(|word| word.split('='));
        // The name of a launcher such as `srun` is public, but its folder is not.
        let words = words.enumerate().filter(|(at, word)| *at > 0 || word.contains('/'));
        let words = words.map(|(_, word)| word.to_owned());
        foreign.map(|(_, value)| value.clone()).chain(words).collect()
    }

    pub(crate) fn programs_in(&self) -> Option<&Path> {
        self.given.programs_in.as_deref()
    }

    pub(crate) fn cases_from(&self) -> Vec<(&'static str, String)> {
        let Some(from) = &self.given.cases_from else { return Vec::new() };
        let trust = from.trusted.then(|| ("--trust", String::new()));
        let path = ("--cases-from", from.path.display().to_string());
        std::iter::once(path).chain(trust).collect()
    }

    /// Returns the `--cards` option, if the user gave it. It is not part of a trial's identity: on another GPU the
    /// trial is the same.
    pub(crate) fn cards(&self) -> Option<(&'static str, String)> {
        let cards = slots::names(&self.gpus.slots);
        (!cards.is_empty()).then(|| ("--cards", cards.join(",")))
    }

    /// Returns the options of the command line, other than `--cards`, that affect the result of a trial.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let environment = self.given.environment.iter().map(|(k, v)| ("--env", format!("{k}={v}")));
        let launcher = (!self.given.launcher.is_empty())
            .then(|| ("--launcher", shell::unsplit(&self.given.launcher)));
        let limits = self
            .given
            .resources
            .iter()
            .filter(|(r, limit)| !DEFAULT_LIMITS.contains(&(**r, **limit)));
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

    /// Describes how a worker is started with the libraries of `stack`.
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
        // rocrepro's own worker applies its limits itself, but a worker that the user provides does not.
        start.settles = self.programs.worker.is_none();
        start.limits = self.limits(&order.plan.limits)?;
        Ok(start)
    }

    /// Returns the path at which a worker finds the cache of compiled GPU kernels. comgr crashes on paths with special
    /// characters. If the cache's path has any, the result is a symbolic link in the worker's folder.
    pub(crate) fn cache_name(&self) -> &Path {
        if is_plain(&self.folders.code) { &self.folders.code } else { Path::new("cache") }
    }

    fn name_cache(&self, start: &mut Start, folder: &Path) -> Result<(), String> {
        let name = self.cache_name();
        if *name == self.folders.code {
            return Ok(());
        }
        std::os::unix::fs::symlink(&self.folders.code, folder.join(name)).map_err(|error| {
            format!("cannot create a link to `{}`: {error}", self.folders.code.display())
        })?;
        for value in start.environment.values_mut() {
            if let Ok(below) = Path::new(value).strip_prefix(&self.folders.code) {
                *value = name.join(below).into();
            }
        }
        Ok(())
    }

    /// Returns the time limits of a program case. Its program may compile code or read gigabytes of libraries without
    /// printing anything.
    pub(crate) fn limits_of_programs(&self) -> Limits {
        let usual = self.given.limits.quiet.as_secs() == u64::from(QUIET_TIMEOUT);
        let quiet =
            if usual { self.limits.quiet.max(SILENT_PROGRAM) } else { self.given.limits.quiet };
        // Beginning of the names of all threads of the emulated device (`harness/emulator`, `harness/isa`).
        let progress = Some("device ".to_owned());
        Limits { quiet, progress, after: LEFTOVER_GRACE, ..self.limits.clone() }
    }

    /// Returns the resource limits of a trial, including those that its plan sets.
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

    /// Describes how a program is started with the stack's libraries and on the session's device. The environment is
    /// clean, so that HIP and HSA variables in the user's shell have no effect.
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
        // The path is part of the keys of comgr's cache. With a new one, the HIP runtime would compile its copy kernels
        // again, which takes three times as long as the rest of a trial.
        set("TMPDIR".as_ref(), self.folders.code.join(TEMPORARY).as_ref());
        // Without this variable, HIP's compiler would share ~/.cache/comgr with other programs.
        set(COMGR_CACHE.as_ref(), self.folders.code.join("comgr").as_ref());
        set("AMD_COMGR_CACHE_POLICY".as_ref(), "prune_interval=1m:cache_size_bytes=32m".as_ref());
        if let Some(config) = device_config {
            set(device::CONFIG_VARIABLE.as_ref(), config.as_ref());
            for (name, value) in self.emulated.config.level.variables() {
                set(name.as_ref(), value.as_ref());
            }
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

    /// Returns the view of the file system in which a program and its children find the stack.
    ///
    /// # Errors
    /// Returns the reason why the view cannot be prepared.
    pub fn home(&self, config: Option<&Config>) -> Result<View, String> {
        self.home_of(config).view()
    }

    /// Prepares a program that runs without a view of the file system: it finds the stack by environment variables
    /// alone.
    pub fn without_home(&self, start: &mut Start) -> Result<(), String> {
        self.home_of(None).without_view(start)
    }

    fn home_of<'a>(&'a self, config: Option<&'a Config>) -> Home<'a> {
        let (stack, device) = (&self.stack, self.emulated.folder.as_deref());
        Home { stack, device, config, cache: &self.folders.cache }
    }

    /// Tests, once per session, whether programs can be started in a view of the file system.
    ///
    /// # Errors
    /// Returns the reason why they cannot.
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

    /// Returns the folder for compiled programs and for the caches of frameworks. Each stack has its own.
    pub(crate) fn programs_folder(&self) -> PathBuf {
        let stack = plan::digest(self.stack.root.to_string_lossy().as_bytes());
        self.folders.code.join("programs").join(&stack[..16])
    }

    pub(crate) fn compiler(&self) -> Result<&Compiler, StartError> {
        let headers = || self.folders.scratch.path().join("compiler");
        let kept = || self.programs_folder().join("compiled");
        let found =
            self.programs.compiler.get_or_init(|| Compiler::find(&self.stack, headers(), kept()));
        found.as_ref().map_err(StartError::clone)
    }

    /// Returns the process command that starts a program.
    pub fn command(&self, start: &Start) -> Command {
        start.command(&[self.own().into(), STARTER_ARGUMENT.into()], &self.given.launcher)
    }

    /// Returns the name of a worker's process as the Linux kernel reports it, see proc_pid_comm(5).
    pub(crate) fn process_name(&self) -> String {
        let through = self.stack.through(self.emulated.folder.as_deref());
        let worker = self.programs.worker.as_deref().unwrap_or(self.own());
        let program = through.first().map_or(worker, |word| Path::new(word));
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        name.chars().take(15).collect()
    }

    pub(crate) fn able(&self) -> RocmEvidence {
        machine::able(&self.stack.root, &self.device)
    }

    pub(crate) fn has_started(&self) {
        machine::has_started(&self.stack.root, &self.device);
    }

    /// Returns the other stacks of this machine: the installed ones first, then those fetched from Debian.
    pub(crate) fn other_stacks(&self) -> Vec<Stack> {
        let Ok(store) = stacks::StackCache::from_environment() else { return Vec::new() };
        let listing = stacks::list_stacks(&store);
        let fetched = listing.debian.into_iter().filter_map(|entry| entry.stack);
        let all = listing.system.into_iter().chain(fetched);
        all.filter(|stack| stack.root != self.stack.root).collect()
    }

    /// Returns a problem of this machine that may explain a failed trial; `None` if none is found.
    pub(crate) fn trouble(
        &self,
        spool: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Option<MachineTrouble> {
        let mut folders = vec![spool.to_owned(), self.folders.code.clone()];
        // A case may set other folders. A missing cache folder is not a problem, because the compiler creates it.
        let [temporary, cache] = ["TMPDIR", COMGR_CACHE].map(|name| environment.get(name));
        folders.extend(temporary.map(|folder| spool.join(folder)));
        folders.extend(cache.map(|folder| spool.join(folder)).filter(|folder| folder.exists()));
        machine::trouble(&folders)
    }

    pub(crate) fn has_exclusive_gpu(&self) -> bool {
        self.device == DeviceChoice::Gpu && self.jobs.get() <= self.gpus.slots.len()
    }

    pub(crate) fn is_launched(&self) -> bool {
        !self.given.launcher.is_empty()
    }

    /// Returns the architecture that device 0 must report; `None` on a GPU.
    pub fn gfx(&self) -> Option<&'static str> {
        self.device.gfx()
    }
}

/// Returns true if a path has only plain characters, so that a program that splits a text into words does not split it.
fn is_plain(path: &Path) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@%,:=~".contains(byte);
    path.as_os_str().as_encoded_bytes().iter().all(plain)
}

fn run_id() -> String {
    let when = report::date(SystemTime::now()).replace(['-', ':'], "");
    format!("{when}-{}", &nonce()[..8])
}

/// Returns 128 random bits. A worker that repeats them proves that it belongs to this run. The source is the standard
/// library's hasher, which is seeded randomly.
pub(crate) fn nonce() -> String {
    let word = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}
