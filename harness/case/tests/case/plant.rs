//! Compares the injection of faults at calls with a second implementation: rules by function names, which were written
//! from the output of `explain --faults`. The status numbers were compared with hip/hip_runtime_api.h, hiprand.h and
//! hipblas-common.h.

use std::collections::BTreeSet;

use case::{Case, analyse, plant, stand_in};
use device::{Fault, Place, Planted, Values};
use plan::{Call, Effect, Plan, Step, api};

use super::texts::{KERNELS, PLANS};

/// Returns the steps of a plan, each with the name of its phase. Steps inside blocks are included, in the order of the
/// file.
fn steps(plan: &Plan) -> Vec<(&'static str, &Step)> {
    fn walk<'p>(phase: &'static str, steps: &'p [Step], all: &mut Vec<(&'static str, &'p Step)>) {
        for step in steps {
            all.push((phase, step));
            walk(phase, step.call.body().unwrap_or_default(), all);
        }
    }
    let mut all = Vec::new();
    walk("setup", &plan.setup, &mut all);
    walk("body", &plan.body, &mut all);
    walk("verify", &plan.verify, &mut all);
    walk("teardown", &plan.teardown, &mut all);
    all
}

const HANDLES: &[&str] = &["hiprandCreateGenerator", "hipblasLtCreate", "rocblas_create_handle"];
const GENERATES: &[&str] = &["hiprandGenerate"];
const WORK: &[&str] = &["hipMemcpy", "hipModuleLaunch", "hipLaunchHostFunc"];

/// Returns the effect that the rules in this file expect a fault to have at one step. `before` contains the functions
/// that earlier steps call.
fn rule(
    planted: &Planted,
    (phase, step): (&str, &Step),
    name: &str,
    captured: bool,
    before: &[&str],
) -> Option<Effect> {
    let starts = |name: &str, names: &[&str]| names.iter().any(|n| name.starts_with(n));
    let is = |names: &[&str]| phase == "body" && starts(name, names);
    // Faults in copies and launches do not apply to `hip` steps, even if the function copies or launches.
    let is_work = is(WORK) && !matches!(step.call, Call::Hip { .. });
    let named = phase != "teardown" && name == planted.which("call");
    let success = |names: &[String]| names.iter().any(|n| n.to_lowercase().ends_with("success"));
    let states = |good: bool| {
        let stated = |names: &[String]| !names.contains(&"any".to_owned());
        let such = step
            .returns
            .iter()
            .flat_map(|by| &by.0)
            .any(|(_, names)| stated(names) && success(names) == good);
        phase == "body" && such
    };
    const DAY: u64 = 24 * 3600 * 1000;
    #[expect(clippy::wildcard_enum_match_arm, reason = "most faults are of the device")]
    let (here, effect) = match planted.fault {
        Fault::CallCrash => (named, Effect::Abort),
        Fault::CallHang => (named, Effect::Late(DAY)),
        Fault::CallIgnored => (named, Effect::Return(0)),
        Fault::CallRefused => (named, Effect::Return(1)),
        Fault::HandleCrash => (is(HANDLES), Effect::Abort),
        Fault::HandleExit => (is(HANDLES), Effect::Exit(1)),
        Fault::HandleHang => (is(HANDLES), Effect::Late(DAY)),
        Fault::GraphLaunchLost => (is(&["hipGraphLaunch"]), Effect::Return(0)),
        Fault::GraphLaunchTwice => (is(&["hipGraphLaunch"]), Effect::Twice),
        Fault::GraphNodeLost => (captured && (is_work || is(&["hipGraphAdd"])), Effect::Return(0)),
        Fault::GraphUpdateIgnored => (is(&["hipGraphExecUpdate"]), Effect::Return(0)),
        Fault::GraphOverwriteOutput => {
            let launched = before.contains(&"hipGraphLaunch");
            (launched && is_work && name.starts_with("hipMemcpy"), Effect::AfterNextLaunch)
        }
        Fault::CaptureRefused => (captured && is_work, Effect::Return(900)),
        Fault::GemmNotSupported => (is(&["hipblasLtMatmulAlgoGetHeuristic"]), Effect::Return(7)),
        Fault::RngCaptureError => (captured && is(GENERATES), Effect::Return(202)),
        Fault::RngSkips => {
            let earlier = before.iter().filter(|name| starts(name, GENERATES)).count();
            (is(GENERATES) && earlier == 1, Effect::Twice)
        }
        Fault::CompileError => {
            (phase == "setup" && name == "hiprtcCompileProgram", Effect::Return(6))
        }
        Fault::TeardownCrash => (phase == "teardown", Effect::Abort),
        Fault::CallAccepted => (states(false), Effect::Accept),
        Fault::CallDenied => (states(true), Effect::Deny(999)),
        Fault::ValueWrong => (phase == "body" && step.gives.is_some(), Effect::OtherValue),
        Fault::HostFuncLost => {
            let all = ["hipLaunchHostFunc", "hipStreamAddCallback", "hipGraphAddHostNode"];
            (is(&all), Effect::Return(0))
        }
        _ => (false, Effect::Abort),
    };
    (here && step.call.body().is_none()).then_some(effect)
}

#[test]
fn each_fault_is_injected_where_it_is_documented() {
    let mut seen = BTreeSet::new();
    for (id, text) in PLANS.iter() {
        let case = Case::parse(id, text).unwrap_or_else(|m| panic!("{id}: {m:#?}"));
        for trial in case.trials() {
            let sound = analyse(&case, &trial, &KERNELS).unwrap_or_else(|m| panic!("{m:#?}"));
            let captured = plan::captured_steps(&sound).inside;
            for fault in Fault::ALL {
                let planted = Planted::from(*fault);
                let mut plan = sound.clone();
                plant(&mut plan, &planted);
                let mut before = Vec::new();
                for (phase, step) in steps(&plan) {
                    let name = api(&step.call, &plan);
                    let inside = captured.contains(&step.id);
                    let expected = rule(&planted, (phase, step), name, inside, &before);
                    let found: Vec<_> = step.planted.iter().map(|m| m.effect.clone()).collect();
                    assert_eq!(found, Vec::from_iter(expected), "{id}{trial}: {fault} at {name}");
                    if !found.is_empty() {
                        seen.insert(*fault);
                    }
                    before.push(name);
                }
            }
        }
    }
    // `CallLeak` has no rule, because it applies only to programs.
    let at_calls = Fault::ALL.iter().filter(|fault| fault.place() == Place::Call);
    let unseen: Vec<_> = at_calls.filter(|fault| !seen.contains(fault)).collect();
    assert_eq!(unseen, [&Fault::CallLeak]);
}

/// The library has no case that captures all kinds of copies, so this test builds a plan that does.
#[test]
fn faults_apply_to_every_kind_of_copy() {
    for copy in [
        "copy: {to: b, from: a, api: memcpy_async, stream: s}",
        "copy_2d: {to: b, from: a, width: 16, height: 4, async: true, stream: s}",
        "copy_3d: {to: b, from: a, width: 16, height: 4, async: true, stream: s}",
    ] {
        let text = format!(
            "title: t\nsource: s\nfaults: copy.zero\nbuffers:\n  a: {{on: device, bytes: 64, fill: zero}}\n  b: {{on: device, bytes: 64, fill: zero}}\nsteps:\n  \
             - begin_capture: {{stream: s}}\n  - {copy}\n  - end_capture: {{stream: s, graph: g}}\n"
        );
        let case = Case::parse("a/b", &text).unwrap_or_else(|m| panic!("{m:#?}"));
        let sound =
            analyse(&case, &case.trials()[0], &KERNELS).unwrap_or_else(|m| panic!("{m:#?}"));
        for (fault, effect) in [
            (Fault::GraphNodeLost, Effect::Return(0)),
            (Fault::CaptureRefused, Effect::Return(900)),
        ] {
            let mut plan = sound.clone();
            plant(&mut plan, &Planted::from(fault));
            let found: Vec<_> = plan.body[1].planted.iter().map(|m| m.effect.clone()).collect();
            assert_eq!(found, [effect], "{fault}: {copy}");
        }
    }
}

/// The expected numbers are the values in hip/hip_runtime_api.h.
#[test]
fn refused_call_returns_the_number_of_its_status() {
    let numbers = [
        ("hipErrorInvalidValue", 1),
        ("hipErrorOutOfMemory", 2),
        ("hipErrorInvalidDevicePointer", 17),
        ("hipErrorInvalidImage", 200),
        ("hipErrorIllegalAddress", 700),
        ("hipErrorLaunchFailure", 719),
        ("hipErrorNotSupported", 801),
        ("hipErrorStreamCaptureUnsupported", 900),
        ("hipErrorUnknown", 999),
    ];
    let refused = |status: &str| {
        let mut planted = Planted::from(Fault::CallRefused);
        planted.set("call", "hipMalloc").expect("a call");
        planted.set("status", status).map(|()| planted)
    };
    let all = Fault::CallRefused.parameters().iter().find(|p| p.name == "status");
    let Some(Values::Name { all, .. }) = all.map(|p| p.values) else { panic!("it has statuses") };
    assert_eq!(all.len(), numbers.len(), "{all:?}");
    for (status, number) in numbers {
        let planted = refused(status).unwrap_or_else(|why| panic!("{why}"));
        let text = stand_in(&planted).expect("the function can be interposed");
        assert!(text.contains(&format!("int hipMalloc() {{ return {number}; }}")), "{text}");
    }
}
