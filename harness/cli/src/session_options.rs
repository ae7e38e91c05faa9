//! Converts the command-line options to the options of a session.

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Parser;
use device::Arch;
use engine::{
    DeviceChoice, SessionOptions, Stop, environments::Environments, stack_source, stop::explained,
};
use stacks::{Extra, Spec};
use supervise::{Limit, Limits, Resource};

use crate::{
    args::{DeviceKind, ExecutionOptions, TargetOptions},
    console, interrupt,
};

/// Returns the options of a command without arguments, including those from environment variables such as
/// `ROCREPRO_ROCM`. `program` is the path of rocrepro's executable.
///
/// # Errors
/// Returns an error if an environment variable has an invalid value.
pub fn options_from_environment(program: PathBuf) -> Result<SessionOptions, Stop> {
    let on = ExecutionOptions::try_parse_from(["rocrepro"]).map_err(Stop::usage)?;
    Ok(SessionOptions { program: Some(program), ..SessionOptions::try_from(&on)? })
}

/// Returns the device that `--device` chooses. `arch` is the architecture of the emulated device.
fn device(kind: DeviceKind, arch: Arch) -> DeviceChoice {
    match kind {
        DeviceKind::Auto => DeviceChoice::detect(arch),
        DeviceKind::Emulated => DeviceChoice::Emulated(arch),
        DeviceKind::Gpu => DeviceChoice::Gpu,
    }
}

impl TryFrom<&TargetOptions> for SessionOptions {
    type Error = Stop;

    fn try_from(on: &TargetOptions) -> Result<Self, Stop> {
        let mut problems = Vec::new();
        let arch = on.gfx.parse::<Arch>().map_err(|e| problems.push(format!("error: {e}")));
        if !stack_source::is_night(&on.rocm)
            && let Err(error) = on.rocm.parse::<Spec>()
        {
            problems.push(format!("error: {}", explained(&error)));
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
        let launcher = shell::split(on.launcher.as_deref().unwrap_or_default());
        let launcher = launcher.unwrap_or_else(|error| {
            problems.push(format!("error: `--launcher` is not a valid shell command: {error}"));
            Vec::new()
        });
        let Ok(arch) = arch else { return Err(Stop::usage(problems.join("\n"))) };
        if !problems.is_empty() {
            return Err(Stop::usage(problems.join("\n")));
        }
        let device = device(on.device, arch);
        Ok(SessionOptions {
            with: on.with.clone(),
            mirrors: on.mirrors.mirror.clone(),
            environment,
            launcher,
            reporting: console::reporting(),
            stop: interrupt::flag_for(&on.rocm),
            ..SessionOptions::new(on.rocm.clone(), device, arch)
        })
    }
}

impl TryFrom<&ExecutionOptions> for SessionOptions {
    type Error = Stop;

    fn try_from(on: &ExecutionOptions) -> Result<Self, Stop> {
        let late = on.late.as_deref().map(str::parse).transpose();
        let late = late.map_err(|problem: String| Stop::usage(format!("error: {problem}")));
        let recovery = shell::split(on.recover.as_deref().unwrap_or_default());
        let recovery = match recovery {
            Ok(words) if words.is_empty() && on.recover.is_some() => {
                Err(Stop::usage("error: `--recover`: empty command"))
            }
            words => words.map_err(|error| {
                Stop::usage(format!("error: `--recover` is not a valid shell command: {error}"))
            }),
        };
        // An unknown Python environment is reported here. Otherwise each trial that needs one would be skipped.
        let named = on.environment.as_ref().map(|name| Environments::named(name));
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

fn resources(texts: &[String]) -> Result<BTreeMap<Resource, Limit>, Stop> {
    let read = |text: &String| {
        let (name, limit) = text
            .split_once('=')
            .ok_or_else(|| format!("`--limit {text}` is not NAME=VALUE, for example stack=64M"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_releases_have_an_architecture_that_they_support() {
        // The variable overrides the default architecture of each release, so the defaults cannot be tested.
        if std::env::var_os("ROCREPRO_GFX").is_some() {
            return;
        }
        let check = |words: &[&str], gfx: &str| {
            let on =
                ExecutionOptions::try_parse_from([&["rocrepro"], words].concat()).expect("options");
            assert_eq!(on.target.gfx, gfx, "{words:?}");
        };
        check(&["--rocm", "debian:7.2.4"], "gfx1151");
        check(&["--rocm", "debian:6.4.3"], "gfx1151");
        check(&["--rocm", "debian:5.7.1"], "gfx1100");
        check(&["--rocm", "debian:5.2.3"], "gfx90a");
        check(&["--rocm", "debian:5.2.3", "--gfx", "gfx942"], "gfx942");
        check(&[], "gfx1151");
    }
}
