//! Finds the stack that has the name given by a user, or fetches it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use stacks::{
    Build, BuildQuery, BuildStore, Extra, FetchError, FetchOptions, FindError, Hint, ListError,
    LocateError, NoCacheError, ObtainError, Sources, SourcesError, Spec, SpecError, Stack,
    StackCache, fetch,
};
use thiserror::Error;

use crate::{
    FailedOperation, FailureClass, Stop, card,
    events::{EngineEvent, Reporting},
    stop::chain,
};

/// An error that prevents a stack from being found, fetched or listed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// The environment variables of this process name no cache folder.
    #[error("{}", chain(.0))]
    NoCache(NoCacheError),
    /// The text is not the name of a stack.
    #[error("{}", chain(.0))]
    Name(SpecError),
    /// The text is not the name of a library that can be fetched.
    #[error("{0}")]
    Library(String),
    /// The stack cannot be fetched, or its folder cannot be read.
    #[error("{}", chain(.0))]
    Fetch(FetchError, FailureClass),
    /// The stack is not on this machine.
    #[error("{}", chain(.0))]
    Locate(LocateError),
    /// The build has not been fetched; the second text is the command that fetches it.
    #[error("{0} has not been fetched")]
    NotFetched(String, String),
    /// The build is specific to an architecture, and the architecture of this machine's GPU is unknown.
    #[error(
        "`{0}` is built for one architecture, and the driver does not report that of this machine's GPU"
    )]
    UnknownArchitecture(String),
    /// No build has the name in the first text. The last texts describe gaps in the list of builds.
    #[error("`{}`: {}{}", .0, chain(.1), .2.concat())]
    UnknownBuild(String, FindError, Vec<String>),
    /// The configuration file of download sources is not valid.
    #[error("{}", chain(.0))]
    Sources(SourcesError),
    /// The builds cannot be listed.
    #[error("{}", chain(.0))]
    List(ListError),
    /// A build cannot be downloaded. The first field is the name of the build.
    #[error("{}: {}", .0, chain(.1))]
    Obtain(String, ObtainError),
}

impl FailedOperation for StackError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fetch(_, class) => *class,
            Self::Sources(error) => FailureClass::from_cause(error.is_environment()),
            Self::List(error) => FailureClass::from_cause(error.is_environment()),
            Self::Obtain(..) => FailureClass::NoVerdict,
            _ => FailureClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoCache(error) => error.hint(),
            Self::Name(error) => error.hint(),
            Self::Fetch(error, _) => error.hint(),
            Self::Locate(error) => error.hint(),
            Self::NotFetched(_, command) => Some(format!("run `{command}`")),
            Self::UnknownArchitecture(spec) => Some(format!(
                "fetch it with `rocrepro stack fetch {spec} --gfx GFX` and use the path of the fetched folder"
            )),
            Self::Sources(error) => error.hint(),
            Self::List(error) => error.hint(),
            Self::Obtain(_, error) => error.hint(),
            Self::Library(_) | Self::UnknownBuild(..) => None,
        }
    }
}

/// Finds a stack on this machine, or fetches it. Gives up when `stop` becomes true.
///
/// # Errors
/// Returns a usage error for a name that is not a stack, and "no verdict" if the stack cannot be fetched.
pub fn find_or_fetch(
    spec: &str,
    with: &[String],
    architectures: Vec<String>,
    mirrors: Vec<String>,
    stop: &Arc<AtomicBool>,
    reporting: &Reporting,
) -> Result<Stack, Stop> {
    // Packages of a distribution may support several architectures, but a nightly build supports one.
    let one = || architectures.first().cloned().or_else(|| card::first(Path::new("/")));
    if let Some(night) = find_build(spec, &one, stop)? {
        return obtain_build(spec, &night, stop, reporting);
    }
    let spec: Spec = spec.parse().map_err(StackError::Name)?;
    let with = with
        .iter()
        .map(|name| Extra::named(name).map_err(StackError::Library))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let store = StackCache::from_environment().map_err(StackError::NoCache)?;
    let name = spec.to_string();
    let options = FetchOptions { mirrors, with, architectures, stop: Arc::clone(stop) };
    let stack = fetch(&spec, &options, &store, &|step| {
        reporting.event(EngineEvent::Fetch { spec: &name, step });
    });
    reporting.event(EngineEvent::FetchEnded);
    // A folder of the user that cannot be read is a mistake of the user, not a problem of the machine.
    let fetched = matches!(spec, Spec::Debian(_));
    stack.map_err(|error| {
        let class = FailureClass::from_cause(fetched && error.is_environment());
        StackError::Fetch(error, class).into()
    })
}

/// Returns true if the name of a stack refers to a build (such as a nightly build) from a configured download source.
pub fn is_night(spec: &str) -> bool {
    spec.split_once(':').is_some_and(|(channel, _)| sources_of(spec, channel).is_some())
}

fn sources_of(spec: &str, channel: &str) -> Option<Sources> {
    if ["debian", "dir"].contains(&channel) || Path::new(spec).exists() {
        return None;
    }
    Sources::load(None).ok()?.select(&[channel.to_owned()]).ok()
}

/// Returns the folder of an existing stack.
///
/// # Errors
/// Returns a usage error for a name that is not a stack, and for a stack that has not been fetched.
pub fn find_folder(
    spec: &str,
    gfx: &dyn Fn() -> Option<String>,
    stop: &Arc<AtomicBool>,
    reporting: &Reporting,
) -> Result<PathBuf, Stop> {
    let store = StackCache::from_environment().map_err(StackError::NoCache)?;
    let Some(night) = find_build(spec, gfx, stop)? else {
        let spec: Spec = spec.parse().map_err(StackError::Name)?;
        return Ok(stacks::locate(&spec, &store).map_err(StackError::Locate)?.root);
    };
    if !BuildStore::new(store).has(&night) {
        let gfx = gfx().map_or_else(String::new, |gfx| format!(" --gfx {gfx}"));
        let command = format!("rocrepro stack fetch {spec}{gfx}");
        return Err(StackError::NotFetched(night.id, command).into());
    }
    obtain_build(spec, &night, stop, reporting).map(|stack| stack.root)
}

/// Returns the build that a name such as `nightly:2026-07-02` means; `None` for names of other stacks.
fn find_build(
    spec: &str,
    gfx: &dyn Fn() -> Option<String>,
    stop: &AtomicBool,
) -> Result<Option<Build>, Stop> {
    let Some((channel, build)) = spec.split_once(':') else { return Ok(None) };
    let Some(sources) = sources_of(spec, channel) else { return Ok(None) };
    let gfx = gfx().ok_or_else(|| StackError::UnknownArchitecture(spec.to_owned()))?;
    // All builds are listed, so that similar ones can be suggested.
    let wanted = BuildQuery { from: None, to: None, ..BuildQuery::between(&gfx, build, build) };
    let mut history = stacks::list_builds(&sources, &wanted, stop).map_err(unlisted)?;
    let at = history.find(build).map_err(|error| {
        let holes = history.holes.iter().map(|hole| format!("\nbuilds may be missing: {hole}"));
        StackError::UnknownBuild(spec.to_owned(), error, holes.collect())
    })?;
    Ok(Some(history.builds.swap_remove(at)))
}

/// Converts an error in the configuration of download sources to the error that ends a command.
pub fn bad_sources(error: SourcesError) -> Stop {
    StackError::Sources(error).into()
}

/// Converts an error in downloading a list of builds to the error that ends a command.
pub fn unlisted(error: ListError) -> Stop {
    StackError::List(error).into()
}

fn obtain_build(
    spec: &str,
    night: &Build,
    stop: &AtomicBool,
    reporting: &Reporting,
) -> Result<Stack, Stop> {
    let store = BuildStore::new(StackCache::from_environment().map_err(StackError::NoCache)?);
    let obtained =
        store.obtain_unless(night, stop, &|event| reporting.event(EngineEvent::Build(event)));
    obtained
        .map(|obtained| obtained.stack)
        .map_err(|error| StackError::Obtain(spec.to_owned(), error).into())
}
