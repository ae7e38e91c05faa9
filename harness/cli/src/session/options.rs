//! How a session is asked for.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Parser;
use device::{Arch, Config, Sanitize};
use plan::Late;
use stacks::{Extra, Spec, Stack};
use supervise::{Limit, Limits, Resource};

use crate::{
    DeviceChoice, Stop,
    args::{On, Target},
    card,
    environments::Environments,
    library::CasesFrom,
    progress,
    slots::{self, Slot},
};

/// How to set up a session, as the user or a test chose it.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The stack, as typed.
    pub rocm: String,
    /// Libraries to fetch with it.
    pub with: Vec<String>,
    /// The device.
    pub device: DeviceChoice,
    /// How the emulated device is set up, but for its faults.
    pub emulation: Config,
    /// Options of the emulated device as typed, which a case's needs do not override.
    pub device_options: Vec<String>,
    /// Mirrors to fetch from; the usual ones without any.
    pub mirrors: Vec<String>,
    /// Variables of the trials' environment.
    pub environment: BTreeMap<String, String>,
    /// Command words before the worker's own.
    pub launcher: Vec<String>,
    /// The command to run once where a GPU no longer works after a trial; none without words.
    pub recovery: Vec<String>,
    /// Where the cases come from, if not from the built-in library.
    pub cases_from: Option<CasesFrom>,
    /// The environment in which programs of cases run, whatever versions of packages they name.
    pub packages_in: Option<String>,
    /// Where trials start whose bodies are programs; a fresh folder for each without.
    pub programs_in: Option<PathBuf>,
    /// The GPUs to run on, one trial at a time on each: `all`, or their names; without, all are seen and the first is used.
    pub cards: Vec<String>,
    /// Trials at once.
    pub jobs: Option<NonZeroUsize>,
    /// Time limits of one trial, as asked for.
    pub limits: Limits,
    /// Whether trials hang on purpose, so often that waiting for them takes less patience.
    pub hangs_on_purpose: bool,
    /// Whether work is late on purpose.
    pub late: Option<Late>,
    /// Limits of resources of one trial, over the usual ones.
    pub resources: BTreeMap<Resource, Limit>,
    /// The file of this program; asked of the system without.
    pub program: Option<PathBuf>,
    /// The program that executes plans; this one without.
    pub worker: Option<PathBuf>,
}

impl TryFrom<&Target> for SessionOptions {
    type Error = Stop;

    fn try_from(on: &Target) -> Result<Self, Stop> {
        let mut problems = Vec::new();
        let arch = on.gfx.parse::<Arch>().map_err(|e| problems.push(format!("error: {e}")));
        if !progress::is_night(&on.rocm)
            && let Err(error) = on.rocm.parse::<Spec>()
        {
            problems.push(format!("error: {error}"));
        }
        for name in &on.with {
            if let Err(error) = Extra::named(name) {
                problems.push(format!("error: {error}"));
            }
        }
        let mut environment = BTreeMap::new();
        for pair in &on.env {
            match pair.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    environment.insert(name.to_owned(), value.to_owned());
                }
                _ => problems.push(format!("error: `--env {pair}` is not NAME=VALUE")),
            }
        }
        let launcher = shell_words::split(on.launcher.as_deref().unwrap_or_default());
        let launcher = launcher.unwrap_or_else(|error| {
            problems.push(format!("error: `--launcher` is no command of a shell: {error}"));
            Vec::new()
        });
        let Ok(arch) = arch else { return Err(Stop::usage(problems.join("\n"))) };
        if !problems.is_empty() {
            return Err(Stop::usage(problems.join("\n")));
        }
        Ok(SessionOptions {
            rocm: on.rocm.clone(),
            with: on.with.clone(),
            device: DeviceChoice::of(on.device, arch),
            emulation: Config::of(arch, Sanitize::Off),
            device_options: Vec::new(),
            mirrors: on.mirrors.mirror.clone(),
            environment,
            launcher,
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
        })
    }
}

impl TryFrom<&On> for SessionOptions {
    type Error = Stop;

    fn try_from(on: &On) -> Result<Self, Stop> {
        let late = on.late.as_deref().map(str::parse).transpose();
        let late = late.map_err(|problem: String| Stop::usage(format!("error: {problem}")));
        let recovery = shell_words::split(on.recover.as_deref().unwrap_or_default());
        let recovery = match recovery {
            Ok(words) if words.is_empty() && on.recover.is_some() => {
                Err(Stop::usage("error: `--recover` names no command"))
            }
            words => words.map_err(|error| {
                Stop::usage(format!("error: `--recover` is no command of a shell: {error}"))
            }),
        };
        // A name that is none is a mistake now, and not a reason to skip each trial.
        let named = on.environment.as_ref().map(|name| Environments::open()?.whole(name));
        let given = Stop::both(late, Stop::both(resources(&on.limit), recovery));
        let given = Stop::both(given, named.transpose());
        let (options, ((late, (resources, recovery)), _)) =
            Stop::both(SessionOptions::try_from(&on.target), given)?;
        Ok(SessionOptions {
            resources,
            late,
            recovery,
            cards: on.cards.clone(),
            jobs: on.jobs.and_then(|n| NonZeroUsize::new(n.into())),
            limits: Limits {
                total: Duration::from_secs(on.timeout.into()),
                quiet: Duration::from_secs(on.quiet_timeout.into()),
                ..Limits::default()
            },
            worker: on.worker.clone(),
            packages_in: on.environment.clone(),
            ..options
        })
    }
}

/// Reads all `--limit` options.
fn resources(texts: &[String]) -> Result<BTreeMap<Resource, Limit>, Stop> {
    let read = |text: &String| {
        let (name, limit) = text
            .split_once('=')
            .ok_or_else(|| format!("`--limit {text}` is not NAME=VALUE, such as stack=64M"))?;
        let resource: Resource = name.parse()?;
        Ok((resource, Limit::parse(resource, limit)?))
    };
    let (mut limits, mut problems) = (BTreeMap::new(), Vec::new());
    for result in texts.iter().map(read) {
        match result {
            Ok((resource, limit)) => _ = limits.insert(resource, limit),
            Err::<_, String>(problem) => problems.push(format!("error: {problem}")),
        }
    }
    if problems.is_empty() { Ok(limits) } else { Err(Stop::usage(problems.join("\n"))) }
}

/// Silence that counts as a hang where hangs come on purpose and no GPU is waited for. The longest calls of the case library,
/// generators that set up their state, compute for three seconds.
const QUIET_ON_PURPOSE: Duration = Duration::from_secs(8);

/// How much longer a trial may be silent while the sanitizer looks at it.
const SANITIZER_SLOWS: u32 = 4;

/// Say what `--cards` says, for all commands, the first that is set; what runs on the emulated device has nothing to do with it. By the
/// second, batch systems hand out GPUs.
const CARDS: [&str; 2] = ["ROCREPRO_CARDS", slots::VISIBLE];

impl SessionOptions {
    /// Returns the same options for another emulated architecture, which has what its own cards have unless an option says
    /// otherwise.
    pub(crate) fn on(&self, arch: Arch) -> SessionOptions {
        SessionOptions {
            device: DeviceChoice::Emulated(arch),
            emulation: self.usual(arch, self.emulation.sanitize),
            ..self.clone()
        }
    }

    /// Returns the emulated device under the sanitizer; none of the other options change.
    pub(crate) fn sanitized(&self, sanitize: Sanitize) -> Config {
        self.usual(self.emulation.arch, sanitize)
    }

    fn usual(&self, arch: Arch, sanitize: Sanitize) -> Config {
        let mut config = Config { arch, sanitize, ..self.emulation.clone() };
        if !self.device_options.iter().any(|option| option.starts_with("large-bar=")) {
            config.large_bar = Config::of(arch, sanitize).large_bar;
        }
        config
    }

    /// The stack, fetched where it is not there yet.
    pub(crate) fn stack(&self) -> Result<Stack, Stop> {
        let gfx = self.device.gfx().map(str::to_owned).into_iter().collect();
        progress::get(&self.rocm, &self.with, gfx, self.mirrors.clone())
    }

    /// The time limits of a trial: less patience with what hangs on purpose, more with what the sanitizer looks at. A GPU keeps its
    /// time.
    pub(crate) fn effective_limits(&self) -> Limits {
        let mut quiet = self.limits.quiet;
        if self.hangs_on_purpose && self.device != DeviceChoice::Gpu {
            quiet = quiet.min(QUIET_ON_PURPOSE);
        }
        if self.emulation.sanitize.is_on() {
            quiet *= SANITIZER_SLOWS;
        }
        Limits { quiet, stacks: !self.hangs_on_purpose, ..self.limits }
    }

    /// The GPUs that trials run on; none on the emulated device.
    pub(crate) fn slots(&self) -> Result<Vec<Slot>, Stop> {
        if self.device != DeviceChoice::Gpu {
            let given =
                [("--cards", !self.cards.is_empty()), ("--recover", !self.recovery.is_empty())];
            let given = given.into_iter().filter(|(_, given)| *given);
            let problems: Vec<_> = given
                .map(|(option, _)| {
                    format!("error: `{option}` is about GPUs of this machine, and the trials run on the emulated device; say `--device gpu`")
                })
                .collect();
            return if problems.is_empty() {
                Ok(Vec::new())
            } else {
                Err(Stop::usage(problems.join("\n")))
            };
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
        .map_err(|problems| Stop::usage(problems.join("\n")))
    }

    /// The options that the command of this file would have without arguments; what the environment says of them counts.
    ///
    /// # Errors
    /// Values of the environment that cannot be.
    pub fn from_environment(program: PathBuf) -> Result<SessionOptions, Stop> {
        let on = On::try_parse_from(["rocrepro"]).map_err(Stop::usage)?;
        Ok(SessionOptions { program: Some(program), ..SessionOptions::try_from(&on)? })
    }
}
