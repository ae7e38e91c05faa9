//! Executes one plan on the ROCm stack in which the process was started, and reports every call.
//!
//! rocrepro starts itself as the worker, through the loader of the stack, so this crate must not use `current_exe`. The
//! worker reports results and never judges them. It ends by returning from `main`, because the exit handlers and
//! destructors of the ROCm libraries are part of the test.

mod broken;
mod cache;
mod calls;
mod checks;
mod code_object;
mod confine;
mod device_look;
mod foreign;
mod given;
mod handles;
mod host;
mod kernels;
mod late;
mod leash;
mod libraries;
mod loaded;
mod machine;
mod math;
mod memory;
mod needs;
mod nodes;
mod pipe;
mod steps;
mod tell;
mod types;

use std::{
    collections::BTreeMap, ffi::OsString, panic::AssertUnwindSafe, process::ExitCode,
    time::Duration,
};

use hip_sys::LoadError;
use plan::{Event, Order, PLAN_VERSION, Phase};
use supervise::{RUN_VARIABLE, Resource, Start};

use crate::{
    broken::WorkerError,
    libraries::Libraries,
    machine::Machine,
    pipe::Events,
    steps::{Flow, Steps},
    tell::tell,
};

/// Exit status if the order (the plan and its settings) cannot be executed, and neither the stack nor the device is the
/// reason.
const BROKEN: u8 = 2;

/// Exit status if the plan was executed as far as the stack allows, for example up to a call of a missing library.
const DONE: u8 = plan::WORKER_DONE as u8;

/// Runs the worker: reads an [`Order`] from standard input and writes [`Event`]s to the original standard output.
/// Standard output is then redirected to standard error, because libraries print to standard output. The arguments
/// `words` are resource limits for [`Start::apply_limits`].
///
/// The exit status is [`plan::WORKER_DONE`], whatever the calls of the plan returned. If the order could not be
/// executed, the exit status is 2 and a message on standard error gives the reason.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Err(code) = Start::apply_limits(words) {
        return code;
    }
    reset_signal_handlers();
    let events = match Events::instead_of_stdout() {
        Ok(events) => events,
        Err(error) => {
            tell(&error);
            return ExitCode::from(BROKEN);
        }
    };
    // After a panic, no state of `work` is used again.
    let worked = std::panic::catch_unwind(AssertUnwindSafe(|| work(&events)));
    let why = match worked {
        Ok(Ok(())) => return ExitCode::from(DONE),
        Ok(Err(WorkerError(why))) => why,
        Err(_) => "the worker panicked, which is a bug in rocrepro; see standard error".to_owned(),
    };
    tell(&why);
    // A library can print anything and exit with any status, but it cannot send this event.
    events.send(&Event::Broken { why });
    ExitCode::from(BROKEN)
}

/// Resets the signal handlers, so that signals end this process as they end any C++ program. An overflow of the call
/// stack in a library then raises SIGSEGV instead of the SIGABRT of Rust's handler. Signals that nohup or a shell
/// ignores for background jobs get their default effect, too.
fn reset_signal_handlers() {
    let handled = [libc::SIGSEGV, libc::SIGBUS];
    let ignored =
        [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];
    for signal in handled.into_iter().chain(ignored).chain([libc::SIGALRM]) {
        // SAFETY: SIG_DFL is not a function of this program, and no other thread runs yet that could rely on a handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn work(events: &Events) -> Result<(), WorkerError> {
    let line = leash::first_line()?;
    let order = parse(&line)?;
    let limits = limits();
    // The confinement must start before the second thread, because it does not apply to threads that are already
    // running.
    let confined = order.confinement.as_ref().map(|to| confine::confine(to, events.pipe()));
    leash::hold()?;
    events.send(&Event::Hello {
        version: PLAN_VERSION,
        build: loaded::own_build_id(),
        nonce: order.nonce.clone(),
        pid: std::process::id(),
        order: plan::digest(line.trim_end_matches('\n').as_bytes()),
        environment: environment(),
        limits,
    });
    if let Some(confined) = confined {
        events.send(&confined?);
    }
    events.send(&Event::Phase { phase: Phase::Start });
    if let Some((step, why)) = plan::impossible_steps(&order.plan).into_iter().next() {
        return Err(WorkerError(format!("step {} of the plan: {why}", step.id)));
    }

    events.send(&Event::Phase { phase: Phase::Load });
    let libraries = match Libraries::load(&order.plan, order.late.is_some()) {
        Ok(libraries) => libraries,
        Err(missing) => {
            let LoadError { what, why, exists: there } = missing;
            events.send(&Event::Missing { what, why, there });
            return Ok(());
        }
    };

    let mut reported = Vec::new();
    report_loaded(events, &mut reported);
    events.send(&Event::Phase { phase: Phase::Init });
    let device = device_look::inspect_device(&libraries.hip)?;
    report_loaded(events, &mut reported);
    events.send(&device.event());
    let on_gpu = !device.is_emulated();
    let Some(device) = device.properties else {
        return Ok(());
    };

    let steps = Steps::new(Machine::new(&order, events, &libraries, device.gcn_arch_name))?;
    let mut flow = Flow::Go;
    for (phase, todo) in order.plan.phases() {
        if phase == Phase::Teardown {
            report_loaded(events, &mut reported);
            let acts = steps.acts();
            if !acts.is_empty() {
                events.send(&Event::Acted { acts });
            }
            if let Some(delay_injector) = steps.delay_injector() {
                events.send(&Event::Delayed { times: delay_injector.times() });
            }
            if flow == Flow::Go {
                events.send(&Event::Done);
            }
            // The end of the process belongs to the teardown phase, even if a step has stopped the plan.
            events.send(&Event::Phase { phase });
        } else if flow == Flow::Go {
            if phase == Phase::Body && on_gpu && counts_memory(&order.plan) {
                events.send(&Event::FreeAtRest { bytes: free_at_rest(&libraries.hip)? });
            }
            events.send(&Event::Phase { phase });
        }
        if let Some(delay_injector) = steps.delay_injector() {
            delay_injector.is_on(phase == Phase::Body);
        }
        if flow == Flow::Go {
            flow = steps.run(todo)?;
            if phase == Phase::Body && flow == Flow::Go {
                flow = steps.make_postponed()?;
            }
        }
    }
    report_loaded(events, &mut reported);
    if flow == Flow::Go {
        events.send(&Event::Bye);
    }
    Ok(())
}

/// Returns true if the plan queries the amount of free memory.
fn counts_memory(plan: &plan::Plan) -> bool {
    plan.steps().iter().any(|step| step.call == plan::Call::MemGetInfo)
}

/// Number of queries, and time between two queries, to find out whether the amount of free memory changes while the
/// worker does nothing.
const MEMORY_QUERIES: usize = 6;
const QUERY_INTERVAL: Duration = Duration::from_millis(20);

fn free_at_rest(hip: &hip_sys::Hip) -> Result<Vec<u64>, WorkerError> {
    let mut answers = Vec::new();
    for n in 0..MEMORY_QUERIES {
        if n > 0 {
            std::thread::sleep(QUERY_INTERVAL);
        }
        let (mut free, mut total) = (0, 0);
        // SAFETY: the results go to separate variables.
        if unsafe { hip.hipMemGetInfo(&mut free, &mut total) }? == 0 {
            answers.push(free as u64);
        }
    }
    Ok(answers)
}

/// Returns the environment of this process without [`RUN_VARIABLE`], whose value is different in each process.
fn environment() -> BTreeMap<String, String> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let all = std::env::vars_os().filter(|(name, _)| name != RUN_VARIABLE);
    all.map(|(name, value)| (text(name), text(value))).collect()
}

fn limits() -> BTreeMap<String, String> {
    Resource::ALL.iter().map(|r| (r.to_string(), r.current_limit().to_string())).collect()
}

/// Parses an order. If the version of the order differs from that of this worker, the error names both versions.
fn parse(line: &str) -> Result<Order, WorkerError> {
    let version = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        value.get("plan")?.get("version")?.as_u64()
    };
    match serde_json::from_str::<Order>(line) {
        Ok(order) if order.plan.version == PLAN_VERSION => Ok(order),
        Ok(order) => Err(other_version(order.plan.version.into())),
        Err(error) => match version(line) {
            Some(version) if version != u64::from(PLAN_VERSION) => Err(other_version(version)),
            _ => Err(WorkerError(format!("the order cannot be read: {error}"))),
        },
    }
}

fn other_version(version: u64) -> WorkerError {
    WorkerError(format!(
        "the plan has version {version}; this worker executes version {PLAN_VERSION}"
    ))
}

/// Reports the ROCm libraries that are loaded but not yet in `reported`.
fn report_loaded(events: &Events, reported: &mut Vec<plan::LoadedLibrary>) {
    let mut new = loaded::rocm_libraries();
    new.retain(|library| !reported.contains(library));
    if !new.is_empty() {
        events.send(&Event::Loaded { libraries: new.clone() });
        reported.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let error = parse(line).expect_err(line).0;
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn rejects_bad_orders_with_a_reason() {
        check("", "EOF while parsing");
        check("{}", "missing field `nonce`");
        check(r#"{"plan": {"version": 1}}"#, "version 1");
        let this = format!(r#"{{"plan": {{"version": {PLAN_VERSION}}}}}"#);
        check(&this, "missing field `trial`");
        check(r#"{"plan": 3}"#, "cannot be read");
    }
}
