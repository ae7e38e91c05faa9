//! Verifies which worker reported, and which stack and device that worker used. A run without this proof has no
//! verdict.

use std::{collections::BTreeMap, path::Path};

use device::{Config, Level};
use plan::{Event, LoadedLibrary, PLAN_VERSION, Phase, RefusedCall, Version};

use crate::{
    Context, End, Kind, Limit, Location, Observation, Outcome, RocmEvidence, index::Index, log,
    phrases,
};

/// Signature of the outcome if the HIP runtime did not start and no evidence ([`RocmEvidence`]) shows that this machine
/// can run ROCm. With such evidence, the outcome may be a failure instead.
pub const NOT_STARTED: &str = "no-verdict:start";

/// Verifies that the run is valid, and returns the ROCm version whose results are expected. Returns an outcome as the
/// error if the run proves nothing, or if the stack lacks something.
pub(crate) fn proof(seen: &Observation, context: &Context<'_>) -> Result<Version, Box<Outcome>> {
    if let End::NotStarted(why) = &seen.end {
        let summary = format!("the worker could not be started: {why}");
        return Err(Outcome::no_verdict("not-started", summary).into());
    }
    if let End::Lost(why) = &seen.end {
        let summary = format!("the worker could not be watched to its end: {why}");
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
            return no(format!("the worker could not execute its plan: {why}"));
        }
        Some(_) => return no("the first event of the worker did not contain its nonce".into()),
        None if context.launched && matches!(seen.end, End::TimedOut { .. }) => {
            return no(format!(
                "the launcher had not started the worker at the time limit ({}): a launcher that queues jobs needs a longer \
                 --quiet-timeout",
                ended(&seen.end)
            ));
        }
        None if phrases::not_started(&seen.stderr).is_some() => {
            let why = phrases::not_started(&seen.stderr).unwrap_or_default();
            return no(format!("the worker could not be started: {why}"));
        }
        None => {
            return no(format!(
                "the program that was started as the worker ended ({}) without a report: it is not a worker, or could \
                 not be loaded",
                ended(&seen.end)
            ));
        }
    };
    if nonce != context.nonce {
        return no("the worker reported a wrong nonce: its events belong to another trial".into());
    }
    if version != PLAN_VERSION {
        return no(format!(
            "the worker uses version {version} of the plan format, not {PLAN_VERSION}: worker and \
             harness are from different builds"
        ));
    }
    if let Some(wanted) = context.build
        && build != Some(wanted)
    {
        let build = build.unwrap_or("without an id");
        return no(format!(
            "the worker is another build of rocrepro ({build}) than this run ({wanted}): the launcher starts another \
             program, or the program was replaced during the run"
        ));
    }
    if order != context.order {
        return no("the worker received a different request from the one that was sent".into());
    }
    if seen.events.iter().skip(1).any(|event| matches!(event, Event::Hello { .. })) {
        return no("two workers reported".into());
    }
    if let Some(line) = seen.garbage.first() {
        return no(format!("something other than the worker wrote to its pipe: {line}"));
    }
    let differs = |about, requested, found, added| {
        let all = differences(requested, found, added);
        let summary =
            format!("{about} of the worker differ from the requested ones: {}", all.join(", "));
        if all.is_empty() { Ok(()) } else { Err(unproven("environment", summary, seen)) }
    };
    differs("the variables", context.environment, environment, context.launched)?;
    // The worker may have further limits, because the machine sets them.
    differs("the limits", context.limits, limits, true)
}

/// Returns the differences between requested and actual settings. If `may_add` is true, actual settings that were not
/// requested are ignored.
fn differences(
    requested: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
    may_add: bool,
) -> Vec<String> {
    let lost = requested.iter().filter_map(|(name, value)| match found.get(name) {
        Some(other) if other == value => None,
        Some(other) => Some(format!("{name}={other} instead of {value}")),
        None => Some(format!("no {name}={value}")),
    });
    let added = found.iter().filter(|(name, _)| !may_add && !requested.contains_key(*name));
    lost.chain(added.map(|(name, value)| format!("{name}={value}, which was not requested")))
        .collect()
}

/// Verifies that the worker injected delays if and only if they were requested.
fn late(seen: &Observation, context: &Context<'_>) -> Result<(), Box<Outcome>> {
    let done = seen.events.iter().any(|event| matches!(event, Event::Done));
    let reports = seen.events.iter().filter(|event| matches!(event, Event::Delayed { .. })).count();
    let summary = match (context.late, reports) {
        (true, 0) if done => "the worker did not report how many delays it injected",
        (false, 1..) => "the worker injected delays that were not requested",
        _ => return Ok(()),
    };
    Err(unproven("worker", summary.to_owned(), seen))
}

/// Returns a `no-verdict` outcome as the error if the worker reports that it could not execute its plan, because of the
/// worker itself, this machine or the case.
fn broken(seen: &Observation, context: &Context<'_>) -> Result<(), Box<Outcome>> {
    let mistaken = seen.events.iter().find_map(|event| match event {
        Event::Mistaken { step, why } => Some((*step, why)),
        _ => None,
    });
    if let Some((step, why)) = mistaken {
        let first = why.first().map_or("its code does not match the plan", String::as_str);
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
        let summary = format!("the worker could not execute its plan: {why}");
        Err(unproven("worker", summary, seen))
    })
}

/// Returns a skip if the worker reports that the stack lacks a library or function, and a failure if the library exists
/// but cannot be loaded. Returns `None` if nothing is missing.
fn missing(seen: &Observation, context: &Context<'_>) -> Option<Outcome> {
    let (index, what, why, there) =
        seen.events.iter().enumerate().find_map(|(index, event)| match event {
            Event::Missing { what, why, there } => Some((index, what, why, *there)),
            _ => None,
        })?;
    let loaded = |event: &Event| matches!(event, Event::Phase { phase } if *phase > Phase::Load);
    if seen.events[..index].iter().any(loaded) || index + 1 < seen.events.len() {
        let summary = format!("the worker reported that {what} is missing, but continued");
        return Some(Outcome::no_verdict("worker", summary));
    }
    let said = [format!("The loader said: {why}")];
    let library = what.strip_prefix("lib").map(|rest| rest.split('.').next().unwrap_or(rest));
    // Every release contains these two libraries. If a file has such a name but lacks the functions, it is a different
    // library.
    let runtime = matches!(library, Some("amdhip64" | "hiprtc"));
    if there && (!runtime || context.evidence != RocmEvidence::Unknown) {
        let summary = format!("{what} is in `{}` but cannot be loaded", context.spec);
        let failure = Outcome::new(Kind::ApiError, format!("api-error:dlopen:{what}"), summary);
        let at = Location { api: Some("dlopen".to_owned()), ..Location::phase(Phase::Load) };
        return Some(failure.at(at).with(said));
    }
    if runtime {
        let limits: Vec<_> =
            context.limits.iter().map(|(resource, limit)| format!("{resource}={limit}")).collect();
        let under = match limits.is_empty() {
            true => String::new(),
            false => format!(" under the given limits ({})", limits.join(", ")),
        };
        let summary =
            format!("the stack `{}` has no working HIP runtime{under}: {why}", context.spec);
        let unknown = Outcome::no_verdict(if there { "start" } else { "stack" }, summary);
        return Some(unknown);
    }
    let summary = match library {
        Some(name) => format!("the stack has no {what}; {}", (context.adding)(name)),
        None => format!("needs a ROCm with {what}, which `{}` does not contain", context.spec),
    };
    let signature = format!("skip:{what}");
    Some(Outcome::new(Kind::Skip, signature, summary).with(said))
}

/// Verifies that the HIP runtime comes from the stack. On a GPU, the libraries below HIP must come from the stack, too,
/// because a replacement could emulate the hardware. If the emulated device replaces the thunk library, the HSA runtime
/// must be the one that the stack's release contains.
fn stack(seen: &Observation, context: &Context<'_>) -> Result<(), Box<Outcome>> {
    let no = |summary| Err(unproven("stack", summary, seen));
    if let (Some(config), Some(wanted)) = (context.emulated, context.device_build) {
        let mut below = libraries(seen).filter(|l| l.name.starts_with(config.level.library()));
        if let Some(other) = below.find(|l| l.build_id.as_deref() != Some(wanted)) {
            let summary = other_device(&other.path, other.build_id.as_deref(), wanted);
            return Err(unproven("device", summary, seen));
        }
    }
    let below: &[&str] = match context.emulated {
        Some(Config { level: Level::Hsa, .. }) => &[],
        Some(Config { level: Level::Thunk, .. }) => {
            let mut runtimes = libraries(seen).filter(|l| l.name.starts_with("libhsa-runtime64"));
            if let (Some(found), Some(wanted)) = (runtimes.next(), context.hsa_build)
                && found.build_id.as_deref() != Some(wanted)
            {
                let build = found.build_id.as_deref().unwrap_or("without an id");
                return no(format!(
                    "`{}` is another build ({build}) than the stack's HSA runtime ({wanted})",
                    found.path
                ));
            }
            &["libhsa-runtime64"]
        }
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
            // A process that crashed while it loaded its libraries could not report them. Its loader searched the
            // folders of the stack.
            ([], _) if not_started(seen) => {}
            ([], _) => {
                return no(format!(
                    "the worker did not report which {name} it uses ({})",
                    ended(&seen.end)
                ));
            }
            ([_, _, ..], _) => {
                return no(format!("the process loaded several {name}: {}", paths.join(", ")));
            }
            ([path], Some(root)) if !Path::new(path).starts_with(&root) => {
                return no(format!(
                    "{name} was loaded from {path}, outside of the stack in {root}"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Describes that a process loaded an emulated device other than the one that was installed for the run.
pub(crate) fn other_device(path: &str, build: Option<&str>, wanted: &str) -> String {
    let build = build.unwrap_or("without an id");
    format!(
        "`{path}` is another build ({build}) than the emulated device of this run ({wanted}): the file was replaced \
         during the run, or another library was loaded instead"
    )
}

fn not_started(seen: &Observation) -> bool {
    !seen.events.iter().any(|event| matches!(event, Event::Device { .. }))
}

/// Verifies that the worker used the requested device. Returns the ROCm version that the worker used.
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
        if context.evidence != RocmEvidence::Unknown {
            // The run failed. How the process ended decides the kind of failure.
            return Ok(context.rocm.clone().unwrap_or_else(unknown));
        }
        let summary = format!(
            "the worker ended ({}) before it could report its device, and no trial has run ROCm on this machine yet",
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
            return no(format!("device 0 is a {gfx}, but the trial needs {want}"));
        }
    }
    match (context.emulated, emulated) {
        (Some(_), None) => {
            no("device 0 is not the emulated device that the trial needs".to_owned())
        }
        (None, Some(_)) => no("device 0 is emulated, but the trial needs a GPU".to_owned()),
        // If the device had another configuration, a requested fault may not have been injected, so neither a pass nor
        // a failure counts.
        (Some(wanted), Some(identity)) => match wanted.differences(&identity.config).as_slice() {
            [] => Ok(version),
            all => {
                no(format!("the emulated device is not configured as requested: {}", all.join(", ")))
            }
        },
        (None, None) if nodes.is_empty() => no(
            "device 0 is not a GPU: the worker has mapped neither /dev/kfd nor another node of a GPU driver"
                .to_owned(),
        ),
        (None, None) => Ok(version),
    }
}

fn no_device(version: &Version, context: &Context<'_>) -> String {
    match (context.emulated, context.expect_gfx) {
        (Some(_), Some(gfx)) => format!(
            "the runtime of ROCm {version} reports no device: it may not support the emulated {gfx}"
        ),
        _ => format!("the runtime of ROCm {version} reports no device"),
    }
}

/// Returns the outcome of a trial whose first device query failed. The outcome is not a failure if the release may not
/// support the device, or if nothing shows that the machine can run ROCm.
fn refusal(
    RefusedCall { api, status }: &RefusedCall,
    version: &Version,
    seen: &Observation,
    context: &Context<'_>,
) -> Box<Outcome> {
    let unsupported = ["hipErrorNoDevice", "hipErrorInvalidDevice"].contains(&status.as_str());
    let needed = if unsupported { RocmEvidence::ThisStack } else { RocmEvidence::AnotherStack };
    if context.evidence >= needed {
        let signature = format!("api-error:{api}:{status}");
        let summary = format!("{api} returned {status}, in phase init");
        let at = Location { api: Some(api.clone()), ..Location::phase(Phase::Init) };
        return Box::new(Outcome::new(Kind::ApiError, signature, summary).at(at));
    }
    if unsupported && context.evidence == RocmEvidence::AnotherStack {
        return unproven("no-device", no_device(version, context), seen);
    }
    // Variables such as HIP_VISIBLE_DEVICES can hide every device.
    let hides = |(name, _): &(&String, &String)| name.ends_with("_VISIBLE_DEVICES");
    let hidden = context.environment.iter().filter(hides);
    let with: String = hidden.map(|(name, value)| format!(" with {name}={value}")).collect();
    let summary =
        format!("{api} returned {status}{with}, and no trial has run ROCm on this machine yet");
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

/// Returns the lines of the worker's output that may explain why the worker reported nothing more.
fn evidence(seen: &Observation) -> Vec<String> {
    let line = |about: &str, text: String| format!("{about}: {text}");
    let stderr = phrases::last_line_but_warnings(&seen.stderr);
    let noise = seen.noise.iter().find_map(|text| phrases::last_line(text));
    stderr
        .map(|text| line("Last line on standard error", text))
        .into_iter()
        .chain(noise.map(|text| line("Line on the pipe of the worker that is not an event", text)))
        .collect()
}

pub(crate) fn ended(end: &End) -> String {
    match end {
        End::Exited(status) => format!("exit status {status}"),
        End::Signalled { signal } => phrases::signal(*signal),
        End::TimedOut { limit: Limit::Total } => "killed at the time limit".to_owned(),
        End::TimedOut { limit: Limit::Quiet } => "killed after making no progress".to_owned(),
        End::CouldNotBeKilled => "could not be killed".to_owned(),
        End::NotStarted(why) | End::Lost(why) => why.clone(),
    }
}
