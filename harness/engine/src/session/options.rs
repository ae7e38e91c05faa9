//! Options of a session.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use device::{Arch, Config, Sanitize};
use plan::Late;
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

/// The options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The stack, as typed.
    pub rocm: String,
    /// Libraries to fetch with it.
    pub with: Vec<String>,
    /// The device.
    pub device: DeviceChoice,
    /// The configuration of the emulated device without faults.
    pub emulation: Config,
    /// Options of the emulated device as typed, which take precedence over a case's needs.
    pub device_options: Vec<String>,
    /// Mirrors to fetch from; if empty, the default mirrors.
    pub mirrors: Vec<String>,
    /// Variables of the trials' environment.
    pub environment: BTreeMap<String, String>,
    /// Words of the launcher command, which precede the worker's own.
    pub launcher: Vec<String>,
    /// The command to run once for a GPU that no longer works; none if empty.
    pub recovery: Vec<String>,
    /// The source of the cases; the built-in library if none.
    pub cases_from: Option<CasesFrom>,
    /// The environment in which program cases run, in place of the package versions that they name.
    pub packages_in: Option<String>,
    /// The folder in which program cases start; a new folder for each if none.
    pub programs_in: Option<PathBuf>,
    /// The GPUs to run on: `all`, or names. If empty, trials see all GPUs and use the first.
    pub cards: Vec<String>,
    /// Number of simultaneous trials.
    pub jobs: Option<NonZeroUsize>,
    /// Time limits of one trial, before they are adapted to the device.
    pub limits: Limits,
    /// True if trials often hang, as under `prove`, so that the limit of silence is shorter.
    pub hangs_on_purpose: bool,
    /// Injected delays.
    pub late: Option<Late>,
    /// Resource limits of one trial that replace the default ones.
    pub resources: BTreeMap<Resource, Limit>,
    /// The file of this program; if none, the system reports it.
    pub program: Option<PathBuf>,
    /// The program that executes plans; this one if none.
    pub worker: Option<PathBuf>,
    /// The folder that is kept between runs; the user's cache folder if none.
    pub cache: Option<PathBuf>,
    /// The runner of trials; worker processes if none.
    pub runner: Option<Arc<dyn TrialRunner>>,
    /// The receiver of events.
    pub reporting: Reporting,
    /// Cancels the fetch of a stack when it becomes true.
    pub stop: Arc<AtomicBool>,
}

/// Limit of silence if trials often hang. The longest calls of the case library take 3 s.
const QUIET_ON_PURPOSE: Duration = Duration::from_secs(8);

/// Factor on the limit of silence under the sanitizer.
const SANITIZER_SLOWS: u32 = 4;

/// Variables with the meaning of `--cards`; the first that is set counts.
const CARDS: [&str; 2] = ["ROCREPRO_CARDS", slots::VISIBLE];

impl SessionOptions {
    /// Returns the options for a stack and a device, with every other option at its default.
    pub fn new(rocm: String, device: DeviceChoice, arch: Arch) -> SessionOptions {
        SessionOptions {
            rocm,
            with: Vec::new(),
            device,
            emulation: Config::of(arch, Sanitize::Off),
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

    /// Returns the same options for another emulated architecture and its properties.
    pub fn on(&self, arch: Arch) -> SessionOptions {
        SessionOptions {
            device: DeviceChoice::Emulated(arch),
            emulation: self.usual(arch, self.emulation.sanitize),
            ..self.clone()
        }
    }

    /// Returns the configuration of the emulated device under the sanitizer.
    pub fn sanitized(&self, sanitize: Sanitize) -> Config {
        self.usual(self.emulation.arch, sanitize)
    }

    fn usual(&self, arch: Arch, sanitize: Sanitize) -> Config {
        let mut config = Config { arch, sanitize, ..self.emulation.clone() };
        if !self.device_options.iter().any(|option| option.starts_with("large-bar=")) {
            config.large_bar = Config::of(arch, sanitize).large_bar;
        }
        config
    }

    /// Returns the stack, which is fetched if it is missing.
    pub fn stack(&self) -> Result<Stack, Stop> {
        let gfx = self.device.gfx().map(str::to_owned).into_iter().collect();
        stack_source::get(
            &self.rocm,
            &self.with,
            gfx,
            self.mirrors.clone(),
            &self.stop,
            &self.reporting,
        )
    }

    /// Returns the time limits, adapted to hangs and to the sanitizer.
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
            Some((said, words)) => slots::chosen(&words, said, &cards, hidden),
        }
    }
}
