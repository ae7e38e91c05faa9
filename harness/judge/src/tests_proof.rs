//! Tests which runs count as proof: the worker is the right one, was started as requested, and started at all.

use std::collections::BTreeMap;

use plan::{Event, Phase};

use crate::{
    End, Kind, RocmEvidence,
    fixture::HEAD,
    fixture::Run,
    tests::{QUIET, check, healthy},
};

#[test]
fn worker_with_another_order_or_environment_proves_nothing() {
    type Found<'f> =
        (&'f mut String, &'f mut BTreeMap<String, String>, &'f mut BTreeMap<String, String>);
    fn found(change: fn(Found<'_>)) -> Run {
        healthy().with(|run| {
            let Event::Hello { order, environment, limits, .. } = &mut run.seen.events[0] else {
                unreachable!()
            };
            change((order, environment, limits));
        })
    }
    let no = |run: Run, why: &str, summary: &str| {
        check(&run, Kind::NoVerdict, &format!("no-verdict:{why}"), summary);
    };
    no(found(|(order, ..)| order.push('x')), "worker", "a different request from the one");
    let without: fn(Found<'_>) = |(_, variables, _)| _ = variables.remove("HSA_XNACK");
    no(found(without), "environment", "no HSA_XNACK=1");
    let other: fn(Found<'_>) =
        |(_, variables, _)| _ = variables.insert("HSA_XNACK".into(), "0".into());
    no(found(other), "environment", "HSA_XNACK=0 instead of 1");
    no(found(|(.., limits)| limits.clear()), "environment", "no stack=8M");
    let more: fn(Found<'_>) = |(.., limits)| _ = limits.insert("stack".into(), "unlimited".into());
    no(found(more), "environment", "stack=unlimited instead of 8M");
    // The machine may set limits that were not requested.
    let own: fn(Found<'_>) = |(.., limits)| _ = limits.insert("processes".into(), "9".into());
    check(&found(own), Kind::Pass, "pass", "");
    let added: fn(Found<'_>) =
        |(_, variables, _)| _ = variables.insert("SLURM_JOB_ID".into(), "1".into());
    no(found(added), "environment", "SLURM_JOB_ID=1, which was not requested");
    // A launcher may set variables that select the devices of its job.
    check(&found(added).with(|run| run.launched = true), Kind::Pass, "pass", "");
    no(found(without).with(|run| run.launched = true), "environment", "no HSA_XNACK=1");
}

#[test]
fn second_worker_on_the_pipe_proves_nothing() {
    let no = |run: Run, summary: &str| {
        check(&run, Kind::NoVerdict, "no-verdict:worker", summary);
    };
    let again = |n: usize| {
        healthy().with(|run| {
            let event = run.seen.events[n].clone();
            run.seen.events.push(event);
        })
    };
    no(again(0), "two workers reported");
    let all = healthy().seen.events.len();
    for n in 1..all {
        let event = healthy().seen.events[n].clone();
        match event {
            Event::Loaded { .. } => check(&again(n), Kind::Pass, "pass", ""),
            _ => no(again(n), "more than once"),
        }
    }
    let done = |run: &mut Run| run.seen.events.insert(HEAD, Event::Done);
    no(healthy().with(done), "before all calls were made, so");
    let missing = |run: &mut Run| {
        let (what, why) = ("libhiprand".to_owned(), String::new());
        run.seen.events.insert(HEAD + 2, Event::Missing { what, why, there: false });
    };
    no(healthy().with(missing), "is missing, but continued");
    no(healthy().with(|run| run.seen.garbage.push("garbage".into())), "wrote to its pipe: garbage");
    check(&healthy().with(|run| run.seen.noise.push("welcome".into())), Kind::Pass, "pass", "");
    let second = healthy().with(|run| {
        let mut libraries = run.libraries().clone();
        libraries[0].path = format!("{}/other/libamdhip64.so.7", crate::fixture::ROOT);
        run.seen.events.push(Event::Loaded { libraries });
    });
    check(&second, Kind::NoVerdict, "no-verdict:stack", "several libamdhip64");
}

#[test]
fn runtime_that_does_not_start_fails_on_a_capable_machine() {
    let segfault = || End::Signalled { signal: 11 };
    let in_init = |end: End, able: RocmEvidence| {
        healthy().cut(|e| matches!(e, Event::Device { .. }), end).with(|run| {
            run.evidence = able;
        })
    };
    check(
        &in_init(segfault(), RocmEvidence::Unknown),
        Kind::NoVerdict,
        crate::NOT_STARTED,
        "no trial has run ROCm",
    );
    check(&in_init(segfault(), RocmEvidence::AnotherStack), Kind::Crash, "crash:init", "SIGSEGV");
    check(&in_init(QUIET, RocmEvidence::ThisStack), Kind::Hang, "hang:init", "");
    check(
        &in_init(End::Exited(1), RocmEvidence::ThisStack),
        Kind::LibraryExit,
        "library-exit:init",
        "",
    );
    let killed = in_init(End::Signalled { signal: 9 }, RocmEvidence::ThisStack);
    check(&killed, Kind::NoVerdict, "no-verdict:killed", "");
    let in_load = healthy().cut(|e| matches!(e, Event::Loaded { .. }), segfault()).with(|run| {
        run.evidence = RocmEvidence::AnotherStack;
    });
    check(&in_load, Kind::Crash, "crash:load", "");

    let refused = |status: &str, able: RocmEvidence| {
        let set_up = |event: &Event| *event == Event::Phase { phase: Phase::Setup };
        let mut run = healthy().cut(set_up, End::Exited(plan::WORKER_DONE));
        run.evidence = able;
        if let Some(Event::Device { refused, count, .. }) = run.seen.events.last_mut() {
            *refused = Some(plan::RefusedCall { api: "hipInit".into(), status: status.into() });
            *count = 0;
        }
        run
    };
    let memory = |able| refused("hipErrorOutOfMemory", able);
    check(&memory(RocmEvidence::Unknown), Kind::NoVerdict, crate::NOT_STARTED, "");
    let signature = "api-error:hipInit:hipErrorOutOfMemory";
    check(&memory(RocmEvidence::AnotherStack), Kind::ApiError, signature, "in phase init");
    // The release may not support the device, although another release does.
    let none = |able| refused("hipErrorNoDevice", able);
    check(&none(RocmEvidence::Unknown), Kind::NoVerdict, crate::NOT_STARTED, "");
    check(
        &none(RocmEvidence::AnotherStack),
        Kind::NoVerdict,
        "no-verdict:no-device",
        "may not support",
    );
    check(&none(RocmEvidence::ThisStack), Kind::ApiError, "api-error:hipInit:hipErrorNoDevice", "");
}

#[test]
fn library_that_cannot_be_loaded_fails_the_trial() {
    let lacks = |what: &str, able: RocmEvidence| {
        healthy().with(|run| {
            run.evidence = able;
            run.seen.events.truncate(1);
            let (what, why) = (what.to_owned(), "undefined symbol: x".to_owned());
            run.seen.events.push(Event::Missing { what, why, there: true });
        })
    };
    let rand = lacks("libhiprand", RocmEvidence::Unknown);
    check(&rand, Kind::ApiError, "api-error:dlopen:libhiprand", "cannot be loaded");
    assert_eq!(rand.judge().details, ["The loader said: undefined symbol: x"]);
    check(
        &lacks("libamdhip64", RocmEvidence::Unknown),
        Kind::NoVerdict,
        crate::NOT_STARTED,
        "no working",
    );
    let hip = lacks("libamdhip64", RocmEvidence::AnotherStack);
    check(&hip, Kind::ApiError, "api-error:dlopen:libamdhip64", "");
}

#[test]
fn gpu_is_proven_by_its_driver_and_libraries() {
    let library = |name: &str, root: &str| plan::LoadedLibrary {
        name: name.to_owned(),
        path: format!("{root}/lib/{name}"),
        build_id: None,
    };
    let gpu = |change: fn(&mut Vec<plan::LoadedLibrary>, &mut Vec<String>)| {
        healthy().with(|run| {
            run.emulated = None;
            let (mut driver, root) = (vec!["/dev/kfd".to_owned()], crate::fixture::ROOT);
            let libraries = run.libraries();
            libraries.push(library("libhsa-runtime64.so.1", root));
            libraries.push(library("libamd_comgr.so.3", root));
            change(libraries, &mut driver);
            let Event::Device { nodes, emulated, .. } = &mut run.seen.events[HEAD - 2] else {
                unreachable!()
            };
            (*nodes, *emulated) = (driver, None);
        })
    };
    check(&gpu(|_, _| {}), Kind::Pass, "pass", "");
    let no = |run: Run, why: &str, summary: &str| {
        check(&run, Kind::NoVerdict, &format!("no-verdict:{why}"), summary);
    };
    no(gpu(|_, nodes| nodes.clear()), "device", "neither /dev/kfd");
    no(gpu(|libraries, _| _ = libraries.remove(1)), "stack", "which libhsa-runtime64");
    no(gpu(|libraries, _| _ = libraries.pop()), "stack", "which libamd_comgr");
    no(
        gpu(|libraries, _| libraries[1].path = "/tmp/fake.so".into()),
        "stack",
        "outside of the stack",
    );
}

/// If the emulated device replaces the thunk library, the HSA runtime must be the released one of the stack.
#[test]
fn device_below_the_hsa_runtime_is_proven_by_the_released_runtime() {
    let thunk = |change: fn(&mut Vec<plan::LoadedLibrary>)| {
        healthy().with(|run| {
            let config = run.emulated.as_mut().unwrap();
            config.level = device::Level::Thunk;
            let config = config.clone();
            let Event::Device { emulated, .. } = &mut run.seen.events[HEAD - 2] else {
                unreachable!()
            };
            emulated.as_mut().unwrap().config = config;
            let libraries = run.libraries();
            libraries.retain(|library| !library.name.starts_with("libhsa-runtime64"));
            libraries.push(plan::LoadedLibrary {
                name: "libhsa-runtime64.so.1".to_owned(),
                path: format!("{}/lib/libhsa-runtime64.so.1", crate::fixture::ROOT),
                build_id: Some(crate::fixture::HSA_BUILD.to_owned()),
            });
            change(libraries);
        })
    };
    check(&thunk(|_| {}), Kind::Pass, "pass", "");
    let no = |run: Run, summary: &str| check(&run, Kind::NoVerdict, "no-verdict:stack", summary);
    no(thunk(|libraries| _ = libraries.pop()), "which libhsa-runtime64");
    no(
        thunk(|libraries| libraries.last_mut().unwrap().build_id = Some("beef".to_owned())),
        "another build (beef) than the stack's HSA runtime (45a)",
    );
    no(
        thunk(|libraries| libraries.last_mut().unwrap().path = "/tmp/libhsa-runtime64.so.1".into()),
        "outside of the stack",
    );
    let other = thunk(|_| {}).with(|run| run.emulated.as_mut().unwrap().level = device::Level::Hsa);
    check(&other, Kind::NoVerdict, "no-verdict:device", "level=thunk instead of hsa");
}

#[test]
fn delays_are_injected_only_on_request() {
    let run = |late: bool, says: bool| {
        healthy().with(|run| {
            run.late = late;
            let done = run.seen.events.iter().position(|event| *event == Event::Done);
            if says {
                run.seen.events.insert(done.expect("it is done"), Event::Delayed { times: 3 });
            }
        })
    };
    check(&run(true, true), Kind::Pass, "pass", "");
    check(&run(false, false), Kind::Pass, "pass", "");
    check(&run(true, false), Kind::NoVerdict, "no-verdict:worker", "how many delays it injected");
    check(
        &run(false, true),
        Kind::NoVerdict,
        "no-verdict:worker",
        "delays that were not requested",
    );
}
