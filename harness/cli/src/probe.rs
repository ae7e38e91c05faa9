//! What a plan that does nothing finds out about a stack.

use judge::{Able, Context, Kind, Outcome};
use plan::{Event, Order, Plan, Version};
use stacks::Stack;
use supervise::Cancel;

use crate::{
    Session, Stop, lacks, machine, outputs,
    session::nonce,
    told::{Told, observe},
};

/// What a worker without work said and came to.
struct Probe {
    outcome: Outcome,
    /// hipRuntimeGetVersion, as far as the worker came to ask.
    runtime: Option<Version>,
}

/// Whether this machine can run ROCm with another stack than this one.
pub(crate) fn able(session: &Session, cancel: &Cancel) -> Able {
    let mut others = session.other_stacks();
    while session.able() == Able::Unknown
        && let Some(stack) = others.pop()
    {
        let Some(probe) = start_nothing(session, &stack, cancel) else { break };
        if probe.outcome.kind == Kind::Pass {
            machine::has_started(&stack.root, &session.device);
        }
    }
    session.able()
}

/// Asks the runtime for the release where the files of the stack do not tell, and says what is not known and what
/// follows from that.
///
/// # Errors
/// A machine without a free descriptor.
pub(crate) fn ask_for_the_release(session: &mut Session) -> Result<(), Stop> {
    let Some(doubt) = &session.stack.doubt else { return Ok(()) };
    if let Some(version) = &session.rocm {
        outputs::note(format!(
            "warning: {doubt}; ROCm {version} is what the name of its libamdhip64 says"
        ));
        return Ok(());
    }
    let cancel = Cancel::new().map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
    let probe = start_nothing(session, &session.stack, &cancel);
    if probe.as_ref().is_some_and(|probe| probe.outcome.kind == Kind::Pass) {
        session.has_started();
    }
    match probe.as_ref().and_then(|probe| probe.runtime.as_ref()) {
        Some(version) => {
            outputs::note(format!("warning: {doubt}; ROCm {version} is what its HIP runtime says"));
            session.rocm = Some(version.clone());
        }
        None => {
            let why = probe.map_or_else(String::new, |p| format!(" ({})", p.outcome.summary));
            outputs::note(format!(
                "warning: the ROCm version is not known: {doubt}, and its HIP runtime does not say it{why}. Of known \
                 windows only those of every version count, no case is skipped for a version that it needs, and \
                 programs are exported as for ROCm {}",
                assumed()
            ));
        }
    }
    Ok(())
}

/// The release that a program is exported for: what its calls must return may depend on it.
pub(crate) fn release_of_programs(session: &Session) -> Version {
    session.rocm.clone().unwrap_or_else(assumed)
}

/// None where nothing could be started, or the run was cancelled.
fn start_nothing(session: &Session, stack: &Stack, cancel: &Cancel) -> Option<Probe> {
    let nonce = nonce();
    let folder = session.scratch.trial().ok()?;
    let config = session.device_config(Vec::new());
    let order = Order {
        nonce: nonce.clone(),
        plan: Plan::nothing(),
        faults: Vec::new(),
        late: None,
        spool: ".".to_owned(),
        code_cache: None,
        confinement: session.confinement(stack),
        wanted: Vec::new(),
    };
    let text = config.as_ref().map(serde_json::to_string).transpose().unwrap_or_default();
    let start = session.worker(stack, &order, folder.path(), text.as_deref());
    let told = Told::of(start.ok()?, &order).ok()?;
    let (seen, _) = observe(session, &told, &session.limits, cancel)?;
    let context = Context {
        plan: &order.plan,
        nonce: &nonce,
        order: &told.digest,
        environment: &told.environment,
        build: session.worker_build(),
        device_build: session.device_build(),
        launched: session.is_launched(),
        late: false,
        limits: &told.limits,
        able: Able::Unknown,
        wanted: &[],
        spec: &stack.spec,
        adding: &|name| lacks::adding(&stack.spec, name),
        rocm: None,
        expect_gfx: session.gfx(),
        emulated: config.as_ref(),
        stack_root: Some(&stack.root),
        spool: &|_| None,
    };
    let outcome = judge::judge(&seen, &context);
    let runtime = seen.events.iter().find_map(|event| match event {
        Event::Device { hip_runtime, .. } => Version::from_hip_version(*hip_runtime),
        _ => None,
    });
    Some(Probe { outcome, runtime })
}

/// Stands in for a release that nobody knows.
fn assumed() -> Version {
    stacks::Release::latest().version()
}
