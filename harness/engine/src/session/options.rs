//! The options with which a session is opened.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use device::{Arch, Config, Sanitize};
use plan::DelayInjection;
use stacks::Stack;
use supervise::{Limit, Limits, Resource};

use super::{SessionError, TrialRunner};
use crate::{
    DeviceChoice, Stop, card,
    events::Reporting,
    library::CasesFrom,
    slots::{self, Slot},
    stack_source,
};

/// The options with which a session is opened.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Name of the stack, as typed.
    pub rocm: String,
    /// Names of libraries to fetch with the stack.
    pub with: Vec<String>,
    /// The choice of the device.
    pub device: DeviceChoice,
    /// Configuration of the emulated device, without faults.
    pub emulation: Config,
    /// Options for the emulated device, as typed. They take precedence over the needs of a case.
    pub device_options: Vec<String>,
    /// URLs of mirrors from which to fetch; if empty, the default mirrors are used.
    pub mirrors: Vec<String>,
    /// Environment variables of the trials, in addition to those of the case.
    pub environment: BTreeMap<String, String>,
    /// Program and arguments of the launcher, which precede those of the worker.
    pub launcher: Vec<String>,
    /// The command that is run once when a GPU no longer works; empty for no command.
    pub recovery: Vec<String>,
    /// A file or folder of the user with cases; `None` for the built-in ones.
    pub cases_from: Option<CasesFrom>,
    /// Name of the Python environment in which program cases run. If set, it is used even if the cases name other
    /// versions of packages.
    pub packages_in: Option<String>,
    /// Working directory in which programs of cases start. If `None`, each gets a new folder.
    pub programs_in: Option<PathBuf>,
    /// The GPUs to run on: `all`, or names. If empty, trials see all GPUs and use the first.
    pub cards: Vec<String>,
    /// Number of trials that run at the same time. If `None`, it depends on the device.
    pub jobs: Option<NonZeroUsize>,
    /// Time limits of one trial, before they are adapted to the device.
    pub limits: Limits,
    /// True if many trials hang because of injected faults, as with `rocrepro prove`. A trial may then report nothing
    /// for a shorter time than usual.
    pub hangs_on_purpose: bool,
    /// Injected delays, if any.
    pub late: Option<DelayInjection>,
    /// Resource limits of a trial that replace the defaults.
    pub resources: BTreeMap<Resource, Limit>,
    /// Path of rocrepro's own executable. If `None`, the system reports it.
    pub program: Option<PathBuf>,
    /// Path of the program that executes plans; `None` for rocrepro itself.
    pub worker: Option<PathBuf>,
    /// Path of the cache folder that is kept between runs; `None` for that of the user.
    pub cache: Option<PathBuf>,
    /// The runner that executes trials; `None` to start worker processes.
    pub runner: Option<Arc<dyn TrialRunner>>,
    /// The receiver of events.
    pub reporting: Reporting,
    /// When this becomes true, the download of a stack is cancelled.
    pub stop: Arc<AtomicBool>,
}

/// Time for which a trial may report nothing if [`SessionOptions::hangs_on_purpose`] is true. The longest calls of the
/// built-in cases take 3 s.
const QUIET_ON_PURPOSE: Duration = Duration::from_secs(8);

/// Factor by which the sanitizer prolongs the time for which a trial may report nothing.
const SANITIZER_SLOWS: u32 = 4;

/// Environment variables that have the same meaning as `--cards`. The first one that is set takes effect.
const CARDS: [&str; 2] = ["ROCREPRO_CARDS", slots::VISIBLE];

impl SessionOptions {
    /// Returns the options for a stack and a device, with the defaults for all other options.
    pub fn new(rocm: String, device: DeviceChoice, arch: Arch) -> SessionOptions {
        SessionOptions {
            rocm,
            with: Vec::new(),
            device,
            emulation: Config::for_arch(arch, Sanitize::Off),
            device_options: Vec::new(),
            mirrors: Vec::new(),
            environment: BTreeMap::new(),
            launcher: Vec::new(),
            recovery: Vec::new(),
            cases_from: None,
            packages_in: None,
            programs_in: None,
            cards: Vec::new(),
            jobs: None,
            limits: Limits::default(),
            hangs_on_purpose: false,
            late: None,
            resources: BTreeMap::new(),
            program: None,
            worker: None,
            cache: None,
            runner: None,
            reporting: Reporting::default(),
            stop: Arc::default(),
        }
    }

    /// Returns the same options for another emulated architecture, with the usual properties of that architecture.
    pub fn for_arch(&self, arch: Arch) -> SessionOptions {
        SessionOptions {
            device: DeviceChoice::Emulated(arch),
            emulation: self.default_config(arch, self.emulation.sanitize),
            ..self.clone()
        }
    }

    /// Returns the configuration of the emulated device with the given sanitizer mode.
    pub fn sanitized(&self, sanitize: Sanitize) -> Config {
        self.default_config(self.emulation.arch, sanitize)
    }

    fn default_config(&self, arch: Arch, sanitize: Sanitize) -> Config {
        let mut config = Config { arch, sanitize, ..self.emulation.clone() };
        if !self.device_options.iter().any(|option| option.starts_with("large-bar=")) {
            config.large_bar = Config::for_arch(arch, sanitize).large_bar;
        }
        config
    }

    /// Finds the stack, and fetches it if this machine does not have it.
    pub fn stack(&self) -> Result<Stack, Stop> {
        let gfx = self.device.gfx().map(str::to_owned).into_iter().collect();
        stack_source::find_or_fetch(
            &self.rocm,
            &self.with,
            gfx,
            self.mirrors.clone(),
            &self.stop,
            &self.reporting,
        )
    }

    /// Returns the time limits, adapted to trials that often hang and to the sanitizer.
    pub(crate) fn effective_limits(&self) -> Limits {
        let mut quiet = self.limits.quiet;
        if self.hangs_on_purpose && self.device != DeviceChoice::Gpu {
            quiet = quiet.min(QUIET_ON_PURPOSE);
        }
        if self.emulation.sanitize.is_on() {
            quiet *= SANITIZER_SLOWS;
        }
        Limits { quiet, ..self.limits.clone() }
    }

    pub(crate) fn slots(&self) -> Result<Vec<Slot>, Stop> {
        if self.device != DeviceChoice::Gpu {
            let given =
                [("--cards", !self.cards.is_empty()), ("--recover", !self.recovery.is_empty())];
            let given = given.into_iter().filter(|(_, given)| *given);
            let problems = given.map(|(option, _)| SessionError::GpuOption(option));
            return Stop::unless_empty(problems).map(|()| Vec::new());
        }
        let cards = card::cards(Path::new("/"));
        let by_variable = CARDS.iter().find_map(|name| {
            let words = std::env::var(name).ok().filter(|words| !words.is_empty())?;
            Some((*name, words.split(',').map(|word| word.trim().to_owned()).collect()))
        });
        let by_option = (!self.cards.is_empty()).then(|| ("--cards", self.cards.clone()));
        let hidden = self.environment.keys();
        match by_option.or(by_variable) {
            None => slots::without_choice(&cards, hidden),
            Some((said, words)) => slots::chosen_slots(&words, said, &cards, hidden),
        }
    }
}
