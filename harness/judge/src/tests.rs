//! Tests of every kind of outcome of a trial.

use device::Fault;
use plan::{ByVersion, Call, Event, Phase, VersionRange};

use crate::{
    End, Kind, LeftProcess, Limit, expected_under,
    fixture::{HEAD, Run, plan, step, there_and_back},
    phases,
};

pub(crate) const QUIET: End = End::TimedOut { limit: Limit::Quiet };

fn sleeper() -> LeftProcess {
    LeftProcess { name: "sleep".to_owned(), command: vec!["sleep".to_owned(), "9".to_owned()] }
}

#[track_caller]
pub(crate) fn check(run: &Run, kind: Kind, signature: &str, summary: &str) {
    let outcome = run.judge();
    assert_eq!((outcome.kind, outcome.signature.as_str()), (kind, signature), "{outcome:#?}");
    assert!(outcome.summary.contains(summary), "{summary}\nis not in\n{outcome:#?}");
}

pub(crate) fn healthy() -> Run {
    Run::healthy(there_and_back(64, 3))
}

fn begins(id: u32, nth: u32) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Begin { step, occurrence } if (*step, *occurrence) == (id, nth))
}

/// Matches the first event after the beginning of a call. A run that is cut before this event ends inside the call.
fn inside(id: u32, nth: u32) -> impl Fn(&Event) -> bool {
    move |event| match event {
        Event::End { step, occurrence, .. } | Event::Data { step, occurrence, .. } => {
            (*step, *occurrence) == (id, nth)
        }
        _ => false,
    }
}

#[test]
fn healthy_run_passes() {
    check(&healthy(), Kind::Pass, "pass", "every status, value and byte");
}

#[test]
fn unproven_runs_have_no_verdict() {
    let no = |run: Run, why: &str, summary: &str| {
        check(&run, Kind::NoVerdict, &format!("no-verdict:{why}"), summary);
    };
    let without = |gone: fn(&Event) -> bool| {
        healthy().with(|run| run.seen.events.retain(|event| !gone(event)))
    };
    let device = |change: fn(&mut Event)| {
        healthy().with(|run| {
            run.seen
                .events
                .iter_mut()
                .filter(|e| matches!(e, Event::Device { .. }))
                .for_each(change);
        })
    };
    no(without(|_| true), "worker", "ended (exit status 85) without a report");
    let queues = without(|_| true).with(|run| {
        run.launched = true;
        run.seen.end = End::TimedOut { limit: Limit::Quiet };
    });
    no(queues, "worker", "the launcher had not started the worker at the time limit");
    // In the first run, a launcher ended. In the second run, the worker was started without a launcher.
    no(without(|_| true).with(|run| run.launched = true), "worker", "without a report");
    no(
        without(|_| true).with(|run| run.seen.end = End::TimedOut { limit: Limit::Quiet }),
        "worker",
        "without a report",
    );
    no(without(|e| matches!(e, Event::Hello { .. })), "worker", "did not contain its nonce");
    no(without(|e| matches!(e, Event::Loaded { .. })), "stack", "which libamdhip64");
    no(
        without(|e| matches!(e, Event::Device { .. })),
        "start",
        "before it could report its device",
    );
    no(
        without(|e| matches!(e, Event::Data { step: 4, occurrence: 1, .. })),
        "worker",
        "did not report 1 of 4",
    );
    no(
        healthy().with(|r| r.seen.end = End::NotStarted("no such file".into())),
        "not-started",
        "no such",
    );
    no(healthy().with(|r| r.seen.end = End::Lost("cancelled".into())), "lost", "cancelled");
    no(
        healthy().with(|r| {
            let Event::Hello { nonce, .. } = &mut r.seen.events[0] else { unreachable!() };
            *nonce = "x".into();
        }),
        "worker",
        "wrong nonce",
    );
    no(
        healthy().with(|r| {
            let Event::Hello { version, .. } = &mut r.seen.events[0] else { unreachable!() };
            *version = 0;
        }),
        "worker",
        "version 0 of the plan format",
    );
    no(
        healthy().with(|r| {
            r.libraries()[0].path = "/opt/rocm/lib/libamdhip64.so.7".into();
        }),
        "stack",
        "outside of the stack in /stack",
    );
    no(
        device(|e| {
            if let Event::Device { count, .. } = e {
                *count = 0;
            }
        }),
        "no-device",
        "it may not support the emulated gfx1151",
    );
    no(
        device(|e| {
            if let Event::Device { gfx, .. } = e {
                *gfx = "gfx90a:sramecc+:xnack-".into();
            }
        }),
        "device",
        "is a gfx90a:sramecc+:xnack-, but the trial needs gfx1151",
    );
    no(
        device(|e| {
            if let Event::Device { emulated, .. } = e {
                *emulated = None;
            }
        }),
        "device",
        "not the emulated device",
    );
    no(
        device(|e| {
            if let Event::Device { emulated: Some(identity), .. } = e {
                identity.config.faults.clear();
            }
        }),
        "device",
        "no fault copy.zero",
    );
}

#[test]
fn failures_of_rocrepro_itself_have_no_verdict() {
    let no = |run: Run, why: &str, summary: &str| {
        check(&run, Kind::NoVerdict, &format!("no-verdict:{why}"), summary);
    };
    let failed = || healthy().returned(2, 719, "hipErrorLaunchFailure", None);
    no(failed().stderr("x\nrocrepro-device: gap: kernel k: v_dot2"), "gap", "kernel k: v_dot2");
    no(
        healthy().stderr("rocrepro-device: gap: kernel k: v_dot2\n"),
        "gap",
        "does not support a feature",
    );
    no(healthy().stderr("abcrocrepro-device: internal error: oops"), "device-error", "oops");
    no(healthy().stderr("rocrepro-device: bad configuration: x"), "device-configuration", "x");
    let broken = healthy().cut(inside(2, 0), End::Exited(2)).with(|run| {
        run.seen.events.push(Event::Broken { why: "buffer `x` has no guards".into() });
    });
    no(broken, "worker", "could not execute its plan: buffer `x` has no guards");
    // The text below and the exit statuses below can also come from a library.
    let printed = "thread 'main' panicked at src/main.rs:1\nworker: it is broken\n";
    for status in [101, 2] {
        let library = healthy().cut(inside(2, 0), End::Exited(status)).stderr(printed);
        check(&library, Kind::LibraryExit, "library-exit:hipMemcpy", "the process exited");
    }
    for signal in [1, 2, 9, 15] {
        no(healthy().cut(inside(2, 0), End::Signalled { signal }), "killed", "from outside");
    }
    for (signal, why) in [(24, "processor time"), (25, "`file-size`")] {
        no(healthy().cut(inside(2, 0), End::Signalled { signal }), "killed", why);
    }
    let settled = |run: &mut Run| run.seen.events.clear();
    let refused = healthy().with(settled).stderr("starter: this machine allows files=20000\n");
    no(refused, "worker", "could not be started: this machine allows files=20000");
    let alone = End::Exited(plan::WORKER_ORPHANED);
    no(healthy().cut(inside(2, 0), alone), "left-alone", "standard input or output");
    let stopped = |run: &mut Run| run.seen.events.insert(HEAD, Event::Stopped { step: 2 });
    no(healthy().with(stopped), "worker", "stopped at hipMemcpy");
    let stranger =
        |run: &mut Run| run.seen.events.insert(HEAD, Event::Begin { step: 999, occurrence: 0 });
    no(healthy().with(stranger), "worker", "step 999");
}

#[test]
fn missing_library_or_function_skips_the_trial() {
    let lacks = |what: &str| {
        healthy().with(|run| {
            run.seen.events.truncate(1);
            run.seen.events.push(Event::Missing {
                what: what.into(),
                why: "not found".into(),
                there: false,
            });
        })
    };
    let rand = "the stack has no libhiprand; the shop has hiprand";
    check(&lacks("libhiprand"), Kind::Skip, "skip:libhiprand", rand);
    let function = lacks("hipGraphExecUpdate");
    check(&function, Kind::Skip, "skip:hipGraphExecUpdate", "needs a ROCm with hipGraphExecUpdate");
    check(&lacks("libamdhip64.so"), Kind::NoVerdict, "no-verdict:stack", "no working HIP runtime");
    check(&lacks("libhiprtc"), Kind::NoVerdict, "no-verdict:stack", "no working HIP runtime");
}

#[test]
fn statuses_are_compared_with_the_case() {
    let kind = Kind::ApiError;
    let failed = healthy().returned(2, 1, "hipErrorInvalidValue", None);
    check(&failed, kind, "api-error:hipMemcpy:hipErrorInvalidValue", "(line 15) returned");
    let outcome = failed.judge();
    assert_eq!(
        (outcome.at.phase, outcome.at.step, outcome.at.line, outcome.at.occurrence),
        (Some(Phase::Body), Some(2), Some(15), Some(0))
    );

    let expects = |ranges: &[(&str, &str)]| {
        let by = ranges.iter().map(|(range, name)| {
            (range.parse::<VersionRange>().unwrap(), vec![(*name).to_owned()])
        });
        let mut step = step(1, 9, Call::DeviceSynchronize);
        step.returns = Some(ByVersion(by.collect()));
        Run::healthy(plan(64, vec![step], vec![]))
    };
    let signature = "api-error:hipDeviceSynchronize:hipSuccess";
    let forbidden = [("<7.0", "hipSuccess"), (">=7.0", "hipErrorStreamCaptureUnsupported")];
    check(&expects(&forbidden), kind, signature, "expected hipErrorStreamCaptureUnsupported");
    let refused = expects(&forbidden).returned(1, 900, "hipErrorStreamCaptureUnsupported", None);
    check(&refused, Kind::Pass, "pass", "");

    // If the version of the stack is unknown, the version that the runtime reports is used.
    check(&expects(&forbidden).with(|run| run.rocm = None), kind, signature, "");

    // If the case lists no statuses for this version, the status is recorded but not compared.
    let unsaid = expects(&[("<6.0", "hipErrorX")]);
    check(&unsaid, Kind::Pass, "pass", "");
    assert!(unsaid.judge().details[0].contains("declares no status for ROCm 7.2.4"));
}

#[test]
fn failed_call_ends_the_plan() {
    let stop = |end: End| {
        let mut run = healthy().returned(2, 1, "hipErrorInvalidValue", None).cut(begins(3, 0), end);
        run.seen.events.push(Event::Stopped { step: 2 });
        run.seen.events.push(Event::Phase { phase: Phase::Teardown });
        run
    };
    let signature = "api-error:hipMemcpy:hipErrorInvalidValue";
    check(&stop(End::Exited(plan::WORKER_DONE)), Kind::ApiError, signature, "");
    assert_eq!(stop(End::Exited(plan::WORKER_DONE)).judge().details, Vec::<String>::new());
    check(&stop(End::Signalled { signal: 11 }), Kind::ApiError, signature, "");
    let afterwards =
        "Afterwards: the process was killed by SIGSEGV between two calls, in phase teardown";
    assert_eq!(stop(End::Signalled { signal: 11 }).judge().details, [afterwards]);
}

#[test]
fn values_are_compared_with_the_case() {
    let gives = |call: Call, wanted: &str, value: Option<&str>| {
        let mut step = step(1, 9, call);
        step.gives = Some(ByVersion::always(vec![wanted.to_owned()]));
        Run::healthy(plan(64, vec![step], vec![])).returned(1, 0, "hipSuccess", value)
    };
    let capturing = || Call::IsCapturing { stream: "s".into() };
    check(&gives(capturing(), "active", Some("active")), Kind::Pass, "pass", "");
    check(
        &gives(capturing(), "active", Some("none")),
        Kind::ApiError,
        "unexpected-value:hipStreamIsCapturing:none",
        "gave none; expected active",
    );
    let nodes = || Call::GraphNodeCount { graph: "g".into() };
    check(&gives(nodes(), ">=1", Some("3")), Kind::Pass, "pass", "");
    let elapsed = || Call::EventElapsed { start: "a".into(), end: "b".into() };
    let times = |after: &str| {
        let steady = |id| {
            let mut step = step(id, 9, elapsed());
            step.gives = Some(ByVersion::always(vec!["steady".to_owned()]));
            step
        };
        Run::healthy(plan(64, vec![steady(1), steady(2)], vec![]))
            .returned(1, 0, "hipSuccess", Some("3000"))
            .returned(2, 0, "hipSuccess", Some(after))
    };
    check(&times("30000"), Kind::Pass, "pass", "");
    let signature = "unexpected-value:hipEventElapsedTime:slow";
    check(
        &times("3000000"),
        Kind::ApiError,
        signature,
        "compared with 3000 us at the first measurement",
    );
    let signature = "unexpected-value:hipGraphGetNodes:nothing";
    check(&gives(nodes(), ">=1", None), Kind::ApiError, signature, "expected >=1");
}

#[test]
fn unreleased_memory_is_a_leak() {
    let run =
        |after: &str| {
            let mut last = step(2, 9, Call::MemGetInfo);
            last.gives = Some(ByVersion::always(vec!["returned".to_owned()]));
            let body = vec![step(1, 7, Call::MemGetInfo), last];
            Run::healthy(plan(64, body, vec![]))
                .returned(1, 0, "hipSuccess", Some("4096"))
                .returned(2, 0, "hipSuccess", Some(after))
        };
    check(&run("4096"), Kind::Pass, "pass", "");
    check(&run("8192"), Kind::Pass, "pass", "");
    check(&run("4032"), Kind::Leak, "leak:hipMemGetInfo", "64 bytes of device memory");
    let signature = "unexpected-value:hipMemGetInfo:more-than-the-total";
    check(&run("more than the total"), Kind::ApiError, signature, "expected returned");
    // If free memory changes while the worker is idle, comparisons of free memory prove nothing.
    let at_rest = |bytes: &[u64]| {
        run("4032").with(|run| {
            run.seen.events.insert(HEAD, Event::FreeAtRest { bytes: bytes.to_vec() });
        })
    };
    check(&at_rest(&[4096; 6]), Kind::Leak, "leak:hipMemGetInfo", "");
    check(&at_rest(&[]), Kind::Leak, "leak:hipMemGetInfo", "");
    let moved = at_rest(&[4096, 4096, 2048, 4096]);
    let why = "something else uses the GPU: its free memory varied between 2048 and 4096 bytes";
    check(&moved, Kind::NoVerdict, "no-verdict:memory", why);
    let processes = healthy().with(|run| run.seen.left_behind = vec![sleeper(); 2]);
    check(&processes, Kind::Leak, "leak:process", "left 2 processes running");
}

#[test]
fn kernels_must_compile() {
    let body = vec![step(1, 5, Call::Compile { kernel: "add_u32".into() })];
    let run = Run::healthy(plan(64, body, vec![])).returned(
        1,
        6,
        "HIPRTC_ERROR_COMPILATION",
        Some("add_u32:3: error: no"),
    );
    check(&run, Kind::CompileError, "compile-error:add_u32", "did not compile");
    assert_eq!(run.judge().details, ["add_u32:3: error: no"]);
}

#[test]
fn end_of_a_process_is_named_after_its_call() {
    let segfault = || End::Signalled { signal: 11 };
    let crash = healthy().cut(inside(3, 1), segfault());
    check(&crash, Kind::Crash, "crash:hipMemcpy", "SIGSEGV in hipMemcpy (line 16, iteration 2)");
    check(&healthy().cut(begins(2, 0), segfault()), Kind::Crash, "crash:body", "in phase body");
    let exit = healthy().cut(inside(2, 0), End::Exited(1));
    check(&exit, Kind::LibraryExit, "library-exit:hipMemcpy", "status 1 in hipMemcpy");
    let silent = healthy().cut(begins(2, 0), End::Exited(0));
    check(&silent, Kind::LibraryExit, "library-exit:body", "status 0 between two calls");
    let hang = healthy().cut(inside(3, 0), QUIET);
    check(&hang, Kind::Hang, "hang:hipMemcpy", "hung in hipMemcpy (line 16) and was killed");
    let stuck = healthy().cut(inside(3, 0), End::CouldNotBeKilled);
    check(&stuck, Kind::Hang, "hang:hipMemcpy", "could not be killed");
    let host = healthy().cut(inside(1, 0), QUIET);
    check(&host, Kind::Hang, "hang:host-fill", "in host fill");
    let sleeps = |place: &str| {
        let mut run = healthy().cut(inside(3, 0), QUIET);
        let thread = "process 7, thread 7 `worker` sleeps in the kernel's";
        run.seen.stacks = vec![format!("{thread} {place} and ignores signals")];
        run
    };
    check(&sleeps("amdgpu_fence_wait"), Kind::Hang, "hang:hipMemcpy", "hung in hipMemcpy");
    check(
        &sleeps("folio_wait_bit"),
        Kind::NoVerdict,
        "no-verdict:machine",
        "a disk of this machine",
    );
}

#[test]
fn calls_of_two_threads_are_both_named() {
    let body = vec![
        step(1, 4, Call::Thread { body: vec![step(2, 5, Call::DeviceSynchronize)] }),
        step(3, 6, Call::GetLastError),
    ];
    let run = Run::healthy(plan(64, body, vec![])).cut(inside(2, 0), QUIET).with(|run| {
        run.seen.events.push(Event::Begin { step: 3, occurrence: 0 });
    });
    check(&run, Kind::Hang, "hang:hipGetLastError", "");
    assert_eq!(run.judge().details, ["Other threads were in hipDeviceSynchronize (line 5)."]);
}

#[test]
fn failures_after_the_trial_are_named_teardown() {
    let kind = Kind::TeardownCrash;
    let free = || healthy().cut(inside(120, 0), End::Signalled { signal: 6 });
    check(&free(), kind, "teardown-crash", "failed in hipFree: SIGABRT");
    assert_eq!(free().judge().at.phase, Some(Phase::Teardown));
    let ended = |end: End| healthy().with(|run| run.seen.end = end);
    check(&ended(End::Exited(3)), kind, "teardown-crash", "after the teardown: exit status 3");
    check(&ended(End::Signalled { signal: 11 }), kind, "teardown-crash", "SIGSEGV");
    let early = healthy().cut(|e| matches!(e, Event::Bye), End::Exited(0));
    check(&early, kind, "teardown-crash", "exit status 0");
    // A run ends like this if a destructor calls `_exit(0)`, or if a SIGSEGV handler exits during the teardown.
    check(&ended(End::Exited(0)), kind, "teardown-crash", "after the teardown: exit status 0");
    let left =
        || ended(End::Exited(plan::WORKER_DONE)).with(|run| run.seen.left_behind = vec![sleeper()]);
    check(&left(), Kind::Leak, "leak:process", "left a process running");
    let launched = left().with(|run| run.launched = true);
    check(&launched, Kind::NoVerdict, "no-verdict:launcher", "the launcher or the worker");
    check(&ended(QUIET), Kind::Hang, "hang:teardown", "the trial had finished");
    let freed = healthy().returned(120, 1, "hipErrorInvalidValue", None);
    check(&freed, Kind::ApiError, "api-error:hipFree:hipErrorInvalidValue", "");
    assert_eq!(freed.judge().at.phase, Some(Phase::Teardown));
}

#[test]
fn device_fault_explains_the_end() {
    let ours = "rocrepro-device: fault: kernel add_u32.kd: load of 4 bytes at 0x10, not mapped\n";
    let kind = Kind::MemoryFault;
    let aborted = || healthy().cut(inside(3, 0), End::Signalled { signal: 6 });
    check(&aborted().stderr(ours), kind, "memory-fault:add_u32", "load of 4 bytes");
    let gpu = "Memory access fault by GPU node-1 (Agent handle: 0x5) on address 0x7f.";
    check(&aborted().stderr(gpu), kind, "memory-fault:hipMemcpy", "by GPU node-1");
    let status = healthy().returned(2, 719, "hipErrorLaunchFailure", None).stderr(ours);
    check(&status, kind, "memory-fault:add_u32", "");
    check(&healthy().stderr(ours), kind, "memory-fault:add_u32", "the device reported a fault");
    check(&healthy().stderr(gpu), kind, "memory-fault:device", "by GPU node-1");
    let queue = ":0:rocdevice.cpp:2614: 3 us: Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_X";
    check(
        &healthy().stderr(queue),
        Kind::ApiError,
        "api-error:queue:aborted",
        "no call reported it",
    );
    let wrong = healthy().read(4, 0, |got| got.fill(0)).stderr(ours);
    check(&wrong, Kind::WrongData, "wrong-data:back:zero", "");
}

#[test]
fn sanitizer_findings_come_before_later_failures() {
    let kind = Kind::MemoryFault;
    let race = "rocrepro-device: finding: kernel k.kd: LDS race at 0x0\n";
    check(
        &healthy().stderr(race),
        kind,
        "memory-fault:k",
        "the sanitizer found: kernel k.kd: LDS race at 0x0",
    );
    assert!(healthy().stderr(race).judge().details.is_empty());
    let two = format!("{race}rocrepro-device: finding: kernel l: never-written memory\n");
    let wrong = healthy().read(4, 0, |got| got.fill(0)).stderr(&two);
    check(&wrong, kind, "memory-fault:k", "(and 1 more)");
    let details = wrong.judge().details;
    assert_eq!(details[0], "The sanitizer also found: kernel l: never-written memory");
    assert!(details[1].starts_with("Symptom: "), "{details:?}");
    let fault = format!("{two}rocrepro-device: fault: kernel m: page fault\n");
    check(&healthy().stderr(&fault), kind, "memory-fault:k", "");
    let details = healthy().stderr(&fault).judge().details.join("\n");
    assert!(
        details.contains("Symptom: the device reported a fault: kernel m: page fault"),
        "{details}"
    );
    let gap = format!("{race}rocrepro-device: gap: kernel k: v_dot2\n");
    assert_eq!(healthy().stderr(&gap).judge().kind, Kind::NoVerdict);
}

#[test]
fn hang_shows_what_the_device_reports() {
    let hang = "rocrepro-device: hang: kernel k: wave 0 of workgroup 3 waits\n";
    assert_eq!(healthy().stderr(hang).judge().kind, Kind::Pass);
    let outcome = healthy().cut(inside(3, 0), QUIET).stderr(hang).judge();
    assert_eq!(outcome.kind, Kind::Hang);
    assert_eq!(
        outcome.details[0],
        "The device reports a hang: kernel k: wave 0 of workgroup 3 waits"
    );
}

#[test]
fn the_first_deviation_decides() {
    let run = healthy()
        .read(4, 0, |got| got.fill(0))
        .returned(3, 1, "hipErrorInvalidValue", None)
        .cut(inside(2, 2), End::Signalled { signal: 11 });
    check(&run, Kind::ApiError, "api-error:hipMemcpy:hipErrorInvalidValue", "");
    let run =
        healthy().read(4, 0, |got| got.fill(0)).cut(inside(2, 2), End::Signalled { signal: 11 });
    check(&run, Kind::WrongData, "wrong-data:back:zero", "");
    let details = run.judge().details.join("\n");
    assert!(
        details.contains("Afterwards: the process was killed by SIGSEGV in hipMemcpy"),
        "{details}"
    );
}

#[test]
fn every_fault_has_outcomes_that_detect_it() {
    for fault in Fault::ALL {
        let kinds = expected_under(*fault);
        assert!(!kinds.is_empty() && kinds.iter().all(|kind| kind.is_failure()), "{fault}");
    }
}

#[test]
fn kind_names_match_their_json() {
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}

#[test]
fn calls_are_counted_by_phase() {
    let used = phases(&healthy().seen.events);
    let counts: Vec<_> = used.iter().map(|u| (u.phase, u.calls, u.ns)).collect();
    assert_eq!(
        counts,
        [
            (Phase::Start, 0, 0),
            (Phase::Load, 0, 0),
            (Phase::Init, 0, 0),
            (Phase::Setup, 8, 8000),
            (Phase::Body, 12, 12_000),
            (Phase::Verify, 1, 1000),
            (Phase::Teardown, 1, 1000)
        ]
    );
}

#[test]
fn body_time_is_the_time_of_its_calls() {
    let (_, events) = crate::fixture::recorded();
    let body = |events: &[Event]| crate::body_ns(&phases(events));
    let slower = |slow: Phase| {
        let (mut events, mut phase) = (events.clone(), Phase::Start);
        for event in &mut events {
            match event {
                Event::Phase { phase: next } => phase = *next,
                Event::End { ns, .. } if phase == slow => *ns *= 1000,
                _ => {}
            }
        }
        body(&events)
    };
    let time = body(&events);
    assert!(time > 0);
    assert_eq!(slower(Phase::Body), 1000 * time);
    for other in [Phase::Setup, Phase::Verify, Phase::Teardown] {
        assert_eq!(slower(other), time, "{other} is not part of the body");
    }
}
