//! Who answered, from which stack, on which device.

use std::{collections::BTreeMap, path::Path};

use plan::{Event, LoadedLibrary, PLAN_VERSION, Phase, RefusedCall, Version};

use crate::{
    Able, Context, End, Kind, Limit, Location, Observation, Outcome, index::Index, log, words,
};

/// The signature of a run whose runtime did not start, on a machine of which nothing else is known. With another [`Able`] it may
/// be a failure.
pub const NOT_STARTED: &str = "no-verdict:start";

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
    broken(seen, context)?;
    late(seen, context)?;
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
    let (version, build, nonce, order, environment, limits) = match seen.events.first() {
        Some(Event::Hello { version, build, nonce, pid: _, order, environment, limits }) => {
            (*version, build.as_deref(), nonce, order, environment, limits)
        }
        Some(Event::Broken { why }) => {
            return no(format!("the worker could not carry out its order: {why}"));
        }
        Some(_) => return no("the worker did not begin by answering with its nonce".into()),
        None if context.launched && matches!(seen.end, End::TimedOut { .. }) => {
            return no(format!(
                "the launcher had not started the worker when its time was over ({}): one that queues needs a longer \
                 --quiet-timeout",
                ended(&seen.end)
            ));
        }
        None if words::not_started(&seen.stderr).is_some() => {
            let why = words::not_started(&seen.stderr).unwrap_or_default();
            return no(format!("the worker could not be started: {why}"));
        }
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
    if let Some(wanted) = context.build
        && build != Some(wanted)
    {
        let build = build.unwrap_or("without an id");
        return no(format!(
            "the worker is another build of rocrepro ({build}) than this run ({wanted}): what the launcher starts is not this program, or \
             it was replaced meanwhile"
        ));
    }
    if order != context.order {
        return no("the worker received other orders than it was sent".into());
    }
    if seen.events.iter().skip(1).any(|event| matches!(event, Event::Hello { .. })) {
        return no("two workers answered".into());
    }
    if let Some(line) = seen.garbage.first() {
        return no(format!("something else than the worker wrote on its pipe: {line}"));
    }
    let differs = |about, told, found, added| {
        let all = differences(told, found, added);
        let summary = format!("the worker did not find {about} as it should: {}", all.join(", "));
        if all.is_empty() { Ok(()) } else { Err(unproven("environment", summary, seen)) }
    };
    differs("the environment", context.environment, environment, context.launched)?;
    // Those that nobody stated are the machine's.
    differs("the limits", context.limits, limits, true)
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

/// Work was late on purpose where that was ordered, and nowhere else.
fn late(seen: &Observation, context: &Context<'_>) -> Result<(), Box<Outcome>> {
    let done = seen.events.iter().any(|event| matches!(event, Event::Done));
    let told = seen.events.iter().filter(|event| matches!(event, Event::Delayed { .. })).count();
    let summary = match (context.late, told) {
        (true, 0) if done => "the worker does not say how often it made work late",
        (false, 1..) => "the worker made work late, and was not told to",
        _ => return Ok(()),
    };
    Err(unproven("worker", summary.to_owned(), seen))
}

/// No verdict where the worker says that it, this machine, or the case is at fault.
fn broken(seen: &Observation, context: &Context<'_>) -> Result<(), Box<Outcome>> {
    let mistaken = seen.events.iter().find_map(|event| match event {
        Event::Mistaken { step, why } => Some((*step, why)),
        _ => None,
    });
    if let Some((step, why)) = mistaken {
        let first = why.first().map_or("its code does not fit", String::as_str);
        let summary = format!("the case itself is wrong, so this says nothing about ROCm: {first}");
        let at = Index::new(context.plan).location(step, 0);
        let others = why.iter().skip(1).cloned();
        return Err(Box::new(Outcome::no_verdict("case", summary).at(at).with(others)));
    }
    let why = seen.events.iter().find_map(|event| match event {
        Event::Broken { why } => Some(why),
        _ => None,
    });
    why.map_or(Ok(()), |why| {
        let summary = format!("the worker could not carry out its order: {why}");
        Err(unproven("worker", summary, seen))
    })
}

/// The skip of a trial whose stack lacks something, or its failure where that is there and cannot be loaded.
fn missing(seen: &Observation, context: &Context<'_>) -> Option<Outcome> {
    let (index, what, why, there) =
        seen.events.iter().enumerate().find_map(|(index, event)| match event {
            Event::Missing { what, why, there } => Some((index, what, why, *there)),
            _ => None,
        })?;
    let loaded = |event: &Event| matches!(event, Event::Phase { phase } if *phase > Phase::Load);
    if seen.events[..index].iter().any(loaded) || index + 1 < seen.events.len() {
        let summary = format!("the worker says that {what} is missing, and went on");
        return Some(Outcome::no_verdict("worker", summary));
    }
    let said = [format!("The loader said: {why}")];
    let library = what.strip_prefix("lib").map(|rest| rest.split('.').next().unwrap_or(rest));
    // Every release has both; a file of that name that lacks their functions is not the library.
    let runtime = matches!(library, Some("amdhip64" | "hiprtc"));
    if there && (!runtime || context.able != Able::Unknown) {
        let summary = format!("{what} is in `{}` and cannot be loaded", context.spec);
        let failure = Outcome::new(Kind::ApiError, format!("api-error:dlopen:{what}"), summary);
        let at = Location { api: Some("dlopen".to_owned()), ..Location::phase(Phase::Load) };
        return Some(failure.at(at).with(said));
    }
    if runtime {
        let limits: Vec<_> =
            context.limits.iter().map(|(resource, limit)| format!("{resource}={limit}")).collect();
        let under = match limits.is_empty() {
            true => String::new(),
            false => format!(" under the limits that were given ({})", limits.join(", ")),
        };
        let summary =
            format!("the stack `{}` has no working HIP runtime{under}: {why}", context.spec);
        let unknown = Outcome::no_verdict(if there { "start" } else { "stack" }, summary);
        return Some(unknown);
    }
    let summary = match library {
        Some(name) => format!("the stack has no {what}; {}", (context.adding)(name)),
        None => format!("needs a ROCm that has {what}; `{}` has not", context.spec),
    };
    let signature = format!("skip:{what}");
    Some(Outcome::new(Kind::Skip, signature, summary).with(said))
}

/// The runtime comes from where it must. On a GPU so do the libraries below it: whoever stands in for them answers instead of
/// the hardware.
fn stack(seen: &Observation, context: &Context<'_>) -> Result<(), Box<Outcome>> {
    let no = |summary| Err(unproven("stack", summary, seen));
    if let (Some(_), Some(wanted)) = (context.emulated, context.device_build) {
        let mut below = libraries(seen).filter(|l| l.name.starts_with("libhsa-runtime64"));
        if let Some(other) = below.find(|l| l.build_id.as_deref() != Some(wanted)) {
            let summary = other_device(&other.path, other.build_id.as_deref(), wanted);
            return Err(unproven("device", summary, seen));
        }
    }
    let below: &[&str] = match context.emulated {
        Some(_) => &[],
        None => &["libhsa-runtime64", "libamd_comgr"],
    };
    for name in ["libamdhip64"].iter().chain(below) {
        let mut paths: Vec<&str> = libraries(seen)
            .filter(|l| l.name.starts_with(&format!("{name}.so")))
            .map(|l| l.path.as_str())
            .collect();
        paths.sort_unstable();
        paths.dedup();
        let root = context.stack_root.map(|root| root.to_string_lossy().into_owned());
        match (paths.as_slice(), root) {
            // A process that died while its libraries were loaded could not name them; it was told where to look.
            ([], _) if not_started(seen) => {}
            ([], _) => {
                return no(format!(
                    "the worker did not say which {name} it runs on ({})",
                    ended(&seen.end)
                ));
            }
            ([_, _, ..], _) => {
                return no(format!(
                    "there are several {name} in the process: {}",
                    paths.join(", ")
                ));
            }
            ([path], Some(root)) if !Path::new(path).starts_with(&root) => {
                return no(format!("{name} came from {path}, outside the stack in {root}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// That a process loaded another library as the emulated device than the one that the run began with.
pub(crate) fn other_device(path: &str, build: Option<&str>, wanted: &str) -> String {
    let build = build.unwrap_or("without an id");
    format!(
        "`{path}` is another build ({build}) than the emulated device that this run began with ({wanted}): it was replaced meanwhile, or \
         something else is loaded in its place"
    )
}

/// Whether the worker ended before it could name its device.
fn not_started(seen: &Observation) -> bool {
    !seen.events.iter().any(|event| matches!(event, Event::Device { .. }))
}

/// The device is the one that the trial is for. Gives the ROCm version in force.
fn device(seen: &Observation, context: &Context<'_>) -> Result<Version, Box<Outcome>> {
    let no = |summary| Err(unproven("device", summary, seen));
    let found = seen.events.iter().find_map(|event| match event {
        Event::Device { hip_runtime, count, gfx, nodes, refused, emulated, .. } => {
            Some((*hip_runtime, *count, gfx.as_str(), nodes, refused.as_ref(), emulated))
        }
        _ => None,
    });
    let unknown = || Version::new(0, 0, 0);
    let Some((hip_runtime, count, gfx, nodes, refused, emulated)) = found else {
        if context.able != Able::Unknown {
            // How it ended is the failure.
            return Ok(context.rocm.clone().unwrap_or_else(unknown));
        }
        let summary = format!(
            "the worker ended ({}) before it could name its device, on a machine that is not known to run ROCm",
            ended(&seen.end)
        );
        return Err(unproven("start", summary, seen));
    };
    let version = context
        .rocm
        .clone()
        .or_else(|| Version::from_hip_version(hip_runtime))
        .unwrap_or_else(unknown);
    if let Some(refused) = refused {
        return Err(refusal(refused, &version, seen, context));
    }
    if count <= 0 {
        return Err(unproven("no-device", no_device(&version, context), seen));
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
        (None, None) if nodes.is_empty() => no(
            "device 0 is no GPU: the worker has mapped neither /dev/kfd nor another node of a GPU driver"
                .to_owned(),
        ),
        (None, None) => Ok(version),
    }
}

fn no_device(version: &Version, context: &Context<'_>) -> String {
    match (context.emulated, context.expect_gfx) {
        (Some(_), Some(gfx)) => format!(
            "the runtime of ROCm {version} sees no device: it was offered the emulated {gfx}, which it may not support"
        ),
        _ => format!("the runtime of ROCm {version} sees no device"),
    }
}

/// The first look at the device was refused. A release may not support a device that another one runs on.
fn refusal(
    RefusedCall { api, status }: &RefusedCall,
    version: &Version,
    seen: &Observation,
    context: &Context<'_>,
) -> Box<Outcome> {
    let unsupported = ["hipErrorNoDevice", "hipErrorInvalidDevice"].contains(&status.as_str());
    let needed = if unsupported { Able::ThisStack } else { Able::AnotherStack };
    if context.able >= needed {
        let signature = format!("api-error:{api}:{status}");
        let summary = format!("{api} returned {status}, in phase init");
        let at = Location { api: Some(api.clone()), ..Location::phase(Phase::Init) };
        return Box::new(Outcome::new(Kind::ApiError, signature, summary).at(at));
    }
    if unsupported && context.able == Able::AnotherStack {
        return unproven("no-device", no_device(version, context), seen);
    }
    // Who hides all devices has none.
    let hides = |(name, _): &(&String, &String)| name.ends_with("_VISIBLE_DEVICES");
    let hidden = context.environment.iter().filter(hides);
    let with: String = hidden.map(|(name, value)| format!(" with {name}={value}")).collect();
    let summary =
        format!("{api} returned {status}{with}, on a machine that is not known to run ROCm");
    unproven("start", summary, seen)
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
