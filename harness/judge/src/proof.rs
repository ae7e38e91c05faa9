//! Who answered, from which stack, on which device.

use std::{collections::BTreeMap, path::Path};

use plan::{Event, LoadedLibrary, PLAN_VERSION, Version};

use crate::{Context, End, Kind, Limit, Observation, Outcome, log, words};

/// The version that expectations are looked up under, or the outcome of a run that proves nothing.
pub(crate) fn proof(seen: &Observation, context: &Context<'_>) -> Result<Version, Box<Outcome>> {
    if let End::NotStarted(why) = &seen.end {
        let summary = format!("the worker could not be started: {why}");
        return Err(Outcome::no_verdict("not-started", summary).into());
    }
    if let End::Lost(why) = &seen.end {
        let summary = format!("the worker was given up: {why}");
        return Err(Outcome::no_verdict("lost", summary).into());
    }
    hello(seen, context)?;
    if let Some(own) = log::own_failure(&seen.stderr) {
        return Err(own.into());
    }
    if let Some(missing) = missing(seen, context) {
        return Err(missing.into());
    }
    let version = device(seen, context)?;
    stack(seen, context)?;
    Ok(version)
}

fn hello(seen: &Observation, context: &Context<'_>) -> Result<(), Box<Outcome>> {
    let no = |summary| Err(unproven("worker", summary, seen));
    let (version, nonce, order, environment, limits) = match seen.events.first() {
        Some(Event::Hello { version, nonce, pid: _, order, environment, limits }) => {
            (*version, nonce, order, environment, limits)
        }
        Some(_) => return no("the worker did not begin by answering with its nonce".into()),
        None => {
            return no(format!(
                "the program that was started as the worker said nothing and ended ({}): it is not a \
                 worker, or could not load",
                ended(&seen.end)
            ));
        }
    };
    if nonce != context.nonce {
        return no(
            "the worker answered with another nonce: its events belong to another trial".into()
        );
    }
    if version != PLAN_VERSION {
        return no(format!(
            "the worker speaks version {version} of the plan format, not {PLAN_VERSION}: it and the \
             harness were built apart"
        ));
    }
    if order != context.order {
        return no("the worker was told something else than it was sent".into());
    }
    let differs = |about, told, found, added| {
        let all = differences(told, found, added);
        let summary =
            format!("the worker did not find {about} that it was to find: {}", all.join(", "));
        if all.is_empty() { Ok(()) } else { Err(unproven("environment", summary, seen)) }
    };
    differs("the environment", context.environment, environment, context.launched)?;
    differs("the limits", context.limits, limits, false)
}

/// What differs between the variables that were told and those that were found. What was added is no difference where that is
/// allowed.
fn differences(
    told: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
    may_add: bool,
) -> Vec<String> {
    let lost = told.iter().filter_map(|(name, value)| match found.get(name) {
        Some(other) if other == value => None,
        Some(other) => Some(format!("{name}={other} instead of {value}")),
        None => Some(format!("no {name}={value}")),
    });
    let added = found.iter().filter(|(name, _)| !may_add && !told.contains_key(*name));
    lost.chain(added.map(|(name, value)| format!("{name}={value}, which nobody set"))).collect()
}

/// The skip of a trial whose stack lacks something.
fn missing(seen: &Observation, context: &Context<'_>) -> Option<Outcome> {
    let (what, why) = seen.events.iter().find_map(|event| match event {
        Event::Missing { what, why } => Some((what, why)),
        _ => None,
    })?;
    let library = what.strip_prefix("lib").map(|rest| rest.split('.').next().unwrap_or(rest));
    // Every release has both; a file of that name that lacks their functions is not the library.
    if matches!(library, Some("amdhip64" | "hiprtc")) {
        let summary = format!("the stack `{}` has no working HIP runtime: {why}", context.spec);
        return Some(Outcome::no_verdict("stack", summary));
    }
    let summary = match library {
        Some(name) if context.spec.starts_with("debian:") => format!(
            "the stack has no {what}; `rocrepro rocm fetch {} --with {name}` adds it",
            context.spec
        ),
        Some(name) => {
            format!("the stack has no {what}; install {name} in `{}`", context.spec)
        }
        None => format!("needs a ROCm that has {what}; `{}` has not", context.spec),
    };
    let signature = format!("skip:{what}");
    Some(Outcome::new(Kind::Skip, signature, summary).with([format!("The loader said: {why}")]))
}

/// libamdhip64 comes from where it must.
fn stack(seen: &Observation, context: &Context<'_>) -> Result<(), Box<Outcome>> {
    let no = |summary| Err(unproven("stack", summary, seen));
    let mut runtimes = libraries(seen).filter(|l| l.name.starts_with("libamdhip64.so"));
    let Some(first) = runtimes.next() else {
        return no(format!(
            "the worker did not say which libamdhip64 it runs on ({})",
            ended(&seen.end)
        ));
    };
    let Some(root) = context.stack_root else { return Ok(()) };
    match std::iter::once(first).chain(runtimes).find(|l| !Path::new(&l.path).starts_with(root)) {
        Some(foreign) => no(format!(
            "libamdhip64 came from {}, outside the stack in {}",
            foreign.path,
            root.display()
        )),
        None => Ok(()),
    }
}

/// The device is the one that the trial is for. Gives the ROCm version in force.
fn device(seen: &Observation, context: &Context<'_>) -> Result<Version, Box<Outcome>> {
    let no = |summary| Err(unproven("device", summary, seen));
    let found = seen.events.iter().find_map(|event| match event {
        Event::Device { hip_runtime, count, gfx, emulated, .. } => {
            Some((*hip_runtime, *count, gfx.as_str(), emulated))
        }
        _ => None,
    });
    let Some((hip_runtime, count, gfx, emulated)) = found else {
        return no(format!(
            "the worker ended ({}) before it could name its device",
            ended(&seen.end)
        ));
    };
    let version = context.rocm.clone().unwrap_or_else(|| runtime_version(hip_runtime));
    if count <= 0 {
        let summary = match (context.emulated, context.expect_gfx) {
            (Some(_), Some(gfx)) => format!(
                "the runtime sees no device: ROCm {version} does not support the emulated {gfx} \
                 that it was offered"
            ),
            _ => format!("the runtime of ROCm {version} sees no device"),
        };
        return Err(unproven("no-device", summary, seen));
    }
    let base = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    if let Some(want) = context.expect_gfx {
        let same = if want.contains(':') { want == gfx } else { want == base(gfx) };
        if !same {
            return no(format!("device 0 is a {gfx}, not the {want} that the trial is for"));
        }
    }
    match (context.emulated, emulated) {
        (Some(_), None) => {
            no("device 0 is not the emulated device that the trial is for".to_owned())
        }
        (None, Some(_)) => no("device 0 is emulated; the trial is for a GPU".to_owned()),
        // A lost injection must be neither a green nor a red trial.
        (Some(told), Some(identity)) => match told.differences(&identity.config).as_slice() {
            [] => Ok(version),
            all => {
                no(format!("the emulated device is not set up as it was told: {}", all.join(", ")))
            }
        },
        (None, None) => Ok(version),
    }
}

/// `HIP_VERSION` is major * 10^7 + minor * 10^5 + a build count (hip_version.h), and the build count is
/// no patch number, so the patch stays 0.
fn runtime_version(hip_runtime: i32) -> Version {
    let version = u32::try_from(hip_runtime).unwrap_or(0);
    Version::new(version / 10_000_000, version / 100_000 % 100, 0)
}

fn libraries(seen: &Observation) -> impl Iterator<Item = &LoadedLibrary> {
    seen.events.iter().flat_map(|event| match event {
        Event::Loaded { libraries } => libraries.as_slice(),
        _ => &[],
    })
}

fn unproven(why: &str, summary: String, seen: &Observation) -> Box<Outcome> {
    Box::new(Outcome::no_verdict(why, summary).with(evidence(seen)))
}

/// What there is to read where a worker said too little.
fn evidence(seen: &Observation) -> Vec<String> {
    let line = |about: &str, text: &str| format!("{about}: {text}");
    let stderr = words::last_line(&seen.stderr);
    let noise = seen.noise.iter().find_map(|text| words::last_line(text));
    stderr
        .map(|text| line("Last line on standard error", text))
        .into_iter()
        .chain(noise.map(|text| line("No event, but on its pipe", text)))
        .collect()
}

/// How a process ended, in a few words.
pub(crate) fn ended(end: &End) -> String {
    match end {
        End::Exited(status) => format!("exit status {status}"),
        End::Signalled { signal } => words::signal(*signal),
        End::TimedOut { limit: Limit::Total } => "killed at the time limit".to_owned(),
        End::TimedOut { limit: Limit::Quiet } => "killed after a long silence".to_owned(),
        End::CouldNotBeKilled => "it could not be killed".to_owned(),
        End::NotStarted(why) | End::Lost(why) => why.clone(),
    }
}
