//! Stacks by the names that users give them, which are located or fetched.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use stacks::{Build, BuildQuery, Extra, FetchOptions, Sources, Spec, Stack, StackCache, fetch};

use crate::{
    Stop, card,
    events::{EngineEvent, Reporting},
    stop::{chain, explained},
};

/// Locates or fetches the stack that a user names. The fetch ends early when `stop` becomes true.
///
/// # Errors
/// Returns a usage error for a name or folder that is not a stack, and no verdict if a fetch fails.
pub fn get(
    spec: &str,
    with: &[String],
    architectures: Vec<String>,
    mirrors: Vec<String>,
    stop: &Arc<AtomicBool>,
    reporting: &Reporting,
) -> Result<Stack, Stop> {
    let usage = |error: &dyn stacks::Hint| Stop::usage(format!("error: {}", explained(error)));
    // Packages of a distribution may serve all architectures, a nightly build serves one.
    let one = || architectures.first().cloned().or_else(|| card::first(Path::new("/")));
    if let Some(night) = night(spec, &one, stop)? {
        return obtained(spec, &night, stop, reporting);
    }
    let spec: Spec = spec.parse().map_err(|e: stacks::SpecError| usage(&e))?;
    let with = with
        .iter()
        .map(|name| Extra::named(name).map_err(|e| Stop::usage(format!("error: {e}"))))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let store = StackCache::from_environment().map_err(|e| usage(&e))?;
    let name = spec.to_string();
    let options = FetchOptions { mirrors, with, architectures, stop: Arc::clone(stop) };
    let stack = fetch(&spec, &options, &store, &|step| {
        reporting.event(EngineEvent::Fetch { spec: &name, step });
    });
    reporting.event(EngineEvent::FetchEnded);
    // A folder that cannot be read is a mistake of the user.
    let fetched = matches!(spec, Spec::Debian(_));
    stack.map_err(|error| match fetched && error.is_environment() {
        true => Stop::no_verdict(format!("error: {}", explained(&error))),
        false => usage(&error),
    })
}

/// Returns true if a name is of a build of a configured source.
pub fn is_night(spec: &str) -> bool {
    spec.split_once(':').is_some_and(|(channel, _)| sources_of(spec, channel).is_some())
}

fn sources_of(spec: &str, channel: &str) -> Option<Sources> {
    if ["debian", "dir"].contains(&channel) || Path::new(spec).exists() {
        return None;
    }
    Sources::load(None).ok()?.select(&[channel.to_owned()]).ok()
}

/// Returns the folder of an existing stack. Fetches nothing, but asks the source of a build which build is meant.
///
/// # Errors
/// Returns a usage error for a name that is not a stack, and for a stack that has not been fetched.
pub fn located(
    spec: &str,
    gfx: &dyn Fn() -> Option<String>,
    stop: &Arc<AtomicBool>,
    reporting: &Reporting,
) -> Result<PathBuf, Stop> {
    let usage = |error: &dyn stacks::Hint| Stop::usage(format!("error: {}", explained(error)));
    let store = StackCache::from_environment().map_err(|e| usage(&e))?;
    let Some(night) = night(spec, gfx, stop)? else {
        let spec: Spec = spec.parse().map_err(|e: stacks::SpecError| usage(&e))?;
        return Ok(stacks::locate(&spec, &store).map_err(|e| usage(&e))?.root);
    };
    if !stacks::BuildStore::new(store).has(&night) {
        let gfx = gfx().map_or_else(String::new, |gfx| format!(" --gfx {gfx}"));
        return Err(Stop::usage(format!(
            "error: {} has not been fetched\nhint: run `rocrepro rocm fetch {spec}{gfx}`",
            night.id
        )));
    }
    obtained(spec, &night, stop, reporting).map(|stack| stack.root)
}

/// Returns the build of a configured source that `nightly:2026-07-02` means; none for other names.
fn night(
    spec: &str,
    gfx: &dyn Fn() -> Option<String>,
    stop: &AtomicBool,
) -> Result<Option<Build>, Stop> {
    let Some((channel, build)) = spec.split_once(':') else { return Ok(None) };
    let Some(sources) = sources_of(spec, channel) else { return Ok(None) };
    let gfx = gfx().ok_or_else(|| {
        Stop::usage(format!(
            "error: `{spec}` is built for one architecture, and the driver does not tell that of this machine's GPU; fetch it with \
             `rocrepro rocm fetch {spec} --gfx GFX` and name the folder"
        ))
    })?;
    // All builds are listed, so that for a day without a build the nearest ones are suggested.
    let wanted = BuildQuery { from: None, to: None, ..BuildQuery::between(&gfx, build, build) };
    let mut history = stacks::list_builds(&sources, &wanted, stop).map_err(unlisted)?;
    let at = history.find(build).map_err(|error| {
        let holes = history.holes.iter().map(|hole| format!("\nbuilds may be missing: {hole}"));
        Stop::usage(format!("error: `{spec}`: {}{}", chain(&error), holes.collect::<String>()))
    })?;
    Ok(Some(history.builds.swap_remove(at)))
}

/// Returns the stop for an unusable configuration of sources.
pub fn bad_sources(error: stacks::SourcesError) -> Stop {
    let text = format!("error: {}", explained(&error));
    match error.is_environment() {
        true => Stop::no_verdict(text),
        false => Stop::usage(text),
    }
}

/// Returns the stop for a failed listing of builds.
pub fn unlisted(error: stacks::ListError) -> Stop {
    let text = format!("error: {}", explained(&error));
    match error.is_environment() {
        true => Stop::no_verdict(text),
        false => Stop::usage(text),
    }
}

fn obtained(
    spec: &str,
    night: &Build,
    stop: &AtomicBool,
    reporting: &Reporting,
) -> Result<Stack, Stop> {
    let stacks = StackCache::from_environment()
        .map_err(|e| Stop::usage(format!("error: {}", explained(&e))))?;
    let store = stacks::BuildStore::new(stacks);
    let obtained =
        store.obtain_unless(night, stop, &|event| reporting.event(EngineEvent::Build(event)));
    obtained
        .map(|obtained| obtained.stack)
        .map_err(|error| Stop::no_verdict(format!("error: {spec}: {}", explained(&error))))
}
