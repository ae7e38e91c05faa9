//! Compares the injection of faults at calls with a second implementation: rules by function names, which were written
//! from the output of `explain --faults`. The status numbers were compared with hip/hip_runtime_api.h, hiprand.h and
//! hipblas-common.h.

use std::collections::BTreeSet;

use case::{Case, analyse, inject_fault, interposer};
use device::{
    CaseBody, Fault, FaultPlace, FaultSpec, hip_statuses, library_function, library_functions,
    restriction,
};
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
    planted: &FaultSpec,
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
        Fault::CallSlow => (named, Effect::Late(3000)),
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
                let planted = FaultSpec::from(*fault);
                let mut plan = sound.clone();
                inject_fault(&mut plan, &planted);
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
    let at_calls = Fault::ALL.iter().filter(|fault| fault.place() == FaultPlace::Call);
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
            inject_fault(&mut plan, &FaultSpec::from(fault));
            let found: Vec<_> = plan.body[1].planted.iter().map(|m| m.effect.clone()).collect();
            assert_eq!(found, [effect], "{fault}: {copy}");
        }
    }
}

/// The refusal is injected at each function that any plan of the library calls, and at no other step.
#[test]
fn every_function_that_a_plan_calls_can_be_refused() {
    let mut refused = BTreeSet::new();
    for (id, text) in PLANS.iter() {
        let case = Case::parse(id, text).unwrap_or_else(|m| panic!("{id}: {m:#?}"));
        let trials = case.trials();
        let sound = analyse(&case, &trials[0], &KERNELS).unwrap_or_else(|m| panic!("{m:#?}"));
        let name_of = |step: &Step| api(&step.call, &sound);
        let names: BTreeSet<_> = steps(&sound).iter().map(|(_, step)| name_of(step)).collect();
        for name in names {
            let Some(function) = library_function(name) else { continue };
            let mut planted = FaultSpec::from(Fault::CallRefused);
            if let Err(why) = planted.set("call", name) {
                assert!(restriction(Fault::CallRefused, function, None).is_some(), "{why}");
                continue;
            }
            assert_eq!(case::injection_refusal_in_steps(&planted), None);
            planted.set("status", "hipErrorNoDevice").expect("a status");
            let mut plan = sound.clone();
            inject_fault(&mut plan, &planted);
            for (phase, step) in steps(&plan) {
                let here =
                    phase != "teardown" && name_of(step) == name && step.call.body().is_none();
                let found: Vec<_> = step.planted.iter().map(|m| m.effect.clone()).collect();
                let expected = here.then_some(Effect::Return(100));
                assert_eq!(found, Vec::from_iter(expected), "{id}: {name} at {}", step.id);
                if here {
                    refused.insert(name);
                }
            }
        }
    }
    assert!(refused.len() > 100, "{}", refused.len());
}

#[test]
fn steps_can_call_exactly_the_functions_that_are_marked_so() {
    let apis: BTreeSet<_> =
        plan::apis().iter().copied().filter(|name| library_function(name).is_some()).collect();
    let marked = library_functions().iter().filter(|function| function.in_steps);
    let marked: BTreeSet<_> = marked.map(|function| function.name).collect();
    assert_eq!(apis, marked);
    let others = plan::functions().filter(|name| library_function(name).is_none());
    assert_eq!(others.collect::<Vec<_>>(), [""; 0], "they cannot be named by a fault");
    assert!(library_functions().is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn functions_are_refused_where_a_fault_cannot_work() {
    #[track_caller]
    fn check(fault: &str, in_steps: Option<&str>, in_programs: Option<&str>) {
        let planted: FaultSpec = fault.parse().expect("a fault");
        for (why, expected) in [
            (case::injection_refusal_in_steps(&planted), in_steps),
            (case::injection_refusal(true, &planted), in_programs),
        ] {
            let agrees = match (&why, expected) {
                (Some(why), Some(expected)) => why.contains(expected),
                (why, expected) => why.is_none() && expected.is_none(),
            };
            assert!(agrees, "{fault}: {why:?}");
        }
    }
    let steps = Some("no step calls the function, but a C++ program can");
    check("call.refused,call=hipTexRefSetAddress", steps, None);
    check("call.crash,call=hipGetStreamDeviceId", steps, None);
    check("call.slow,call=hipSetDevice", steps, None);
    check("call.ignored,call=hipHostMalloc", Some("never allocated"), None);
    check("call.ignored,call=hiprtcCompileProgram", Some("never compiled"), None);
    check("call.ignored,call=hipMalloc", None, None);
    check("call.leak,call=hipMalloc", Some("only a C++ program can measure"), None);
    for fault in
        Fault::ALL.iter().filter(|fault| fault.parameters().iter().any(|p| p.name == "call"))
    {
        for function in library_functions() {
            // A reason that applies to all cases takes precedence over a reason for one kind of case.
            let all = restriction(*fault, function, None);
            let program = restriction(*fault, function, Some(CaseBody::Program));
            assert_eq!(
                program, all,
                "{fault} at {}: programs have no reason of their own",
                function.name
            );
        }
    }
}

/// The library that a program loads must replace the function. If a header renames the function, the library must also
/// replace the function with the other name. A test of the crate `rocrepro` compares the numbers with the header.
#[test]
fn interposer_replaces_functions_and_returns_statuses() {
    let source = |faults: &[&str]| {
        let faults: Vec<FaultSpec> = faults.iter().map(|f| f.parse().expect("a fault")).collect();
        interposer(&faults).unwrap_or_default()
    };
    for (status, number) in hip_statuses().iter().filter(|(_, number)| *number != 0) {
        let text = source(&[&format!("call.refused,call=hipInit,status={status}")]);
        assert!(text.contains(&format!("return {{nullptr, {number}}};")), "{text}");
        assert!(text.contains(".globl hipInit\n"), "{text}");
    }
    let text = source(&["call.slow,call=hipGetDeviceProperties,ms=7"]);
    for name in ["hipGetDeviceProperties", "hipGetDevicePropertiesR0600"] {
        assert!(text.contains(&format!(".globl {name}\n")), "{text}");
    }
    let text = source(&["call.leak,call=hipInit", "call.hang,call=hipInit", "copy.zero"]);
    assert_eq!(text.matches(".globl hipInit\n").count(), 1, "{text}");
    assert_eq!(source(&["copy.zero", "handle.crash"]), "");
}
