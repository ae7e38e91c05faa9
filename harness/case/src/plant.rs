//! Injects faults at the calls of a plan.

use std::collections::BTreeSet;

use device::{Fault, FaultSpec, hip_statuses};
use plan::{
    Call, Effect, InjectedFault, ObjectKind, ObjectUse, Plan, Step, accepts_success, api,
    captured_steps,
};

/// One day in milliseconds, which is longer than any time limit of a trial.
const ONE_DAY_MS: u64 = 86_400_000;

/// Injects a fault at the calls of the plan to which it applies. A fault of the emulated device does not change the
/// plan.
#[expect(clippy::wildcard_enum_match_arm, reason = "most faults are of the device")]
pub fn inject_fault(plan: &mut Plan, planted: &FaultSpec) {
    let fault = planted.fault;
    let effect: fn(&Step, bool) -> Option<Effect> = match fault {
        Fault::CallCrash => return inject_at_call(plan, planted, &Effect::Abort),
        Fault::CallHang => return inject_at_call(plan, planted, &Effect::Late(ONE_DAY_MS)),
        Fault::CallIgnored => return inject_at_call(plan, planted, &Effect::Return(0)),
        Fault::CallRefused => {
            return inject_at_call(plan, planted, &Effect::Return(refusal_code(planted)));
        }
        Fault::CallSlow => {
            return inject_at_call(plan, planted, &Effect::Late(planted.amount("ms")));
        }
        Fault::RngSkips => return inject_at_generation(plan, planted.amount("generate")),
        Fault::HandleCrash => |step, _| makes_handle(&step.call).then_some(Effect::Abort),
        Fault::HandleExit => |step, _| makes_handle(&step.call).then_some(Effect::Exit(1)),
        Fault::HandleHang => |step, _| makes_handle(&step.call).then_some(Effect::Late(ONE_DAY_MS)),
        Fault::GraphLaunchLost => {
            |step, _| matches!(step.call, Call::GraphLaunch { .. }).then_some(Effect::Return(0))
        }
        Fault::GraphLaunchTwice => {
            |step, _| matches!(step.call, Call::GraphLaunch { .. }).then_some(Effect::Twice)
        }
        // HIPBLAS_STATUS_NOT_SUPPORTED, hipblas-common.h.
        Fault::GemmNotSupported => {
            |step, _| matches!(step.call, Call::BlasltHeuristic { .. }).then_some(Effect::Return(7))
        }
        // HIPRAND_STATUS_PREEXISTING_FAILURE, hiprand.h: a generator returns this status after a failed launch.
        Fault::RngCaptureError => |step, captured| {
            (captured && matches!(step.call, Call::RandGenerate { .. }))
                .then_some(Effect::Return(202))
        },
        Fault::GraphNodeLost => {
            |step, captured| (captured && makes_node(&step.call)).then_some(Effect::Return(0))
        }
        // hipErrorStreamCaptureUnsupported, hip/hip_runtime_api.h. Building a graph node by node is not a capture.
        Fault::CaptureRefused => |step, captured| {
            let added = matches!(step.call, Call::AddNode { .. });
            (captured && !added && makes_node(&step.call)).then_some(Effect::Return(900))
        },
        Fault::GraphUpdateIgnored => {
            |step, _| matches!(step.call, Call::GraphExecUpdate { .. }).then_some(Effect::Return(0))
        }
        // HIPRTC_ERROR_COMPILATION, hip/hiprtc.h.
        Fault::CompileError => {
            |step, _| matches!(step.call, Call::Compile { .. }).then_some(Effect::Return(6))
        }
        Fault::TeardownCrash => |_, _| Some(Effect::Abort),
        Fault::GraphOverwriteOutput => {
            |step, _| is_copy(&step.call).then_some(Effect::AfterNextLaunch)
        }
        Fault::CallAccepted => {
            |step, _| states(step, |names| !accepts_success(names)).then_some(Effect::Accept)
        }
        // hipErrorUnknown, hip/hip_runtime_api.h. hipRAND has the same number for HIPRAND_STATUS_INTERNAL_ERROR.
        Fault::CallDenied => |step, _| states(step, accepts_success).then_some(Effect::Deny(999)),
        Fault::ValueWrong => |step, _| step.gives.is_some().then_some(Effect::OtherValue),
        Fault::HostFuncLost => {
            |step, _| matches!(step.call.work(), Call::HostFunc { .. }).then_some(Effect::Return(0))
        }
        _ => return,
    };
    let inside = captured_steps(plan).inside;
    let after_launch = fault == Fault::GraphOverwriteOutput;
    let misbehaves = |step: &Step, captured| {
        effect(step, captured).map(|effect| InjectedFault { fault, effect })
    };
    let phase = match fault {
        Fault::CompileError => &mut plan.setup,
        Fault::TeardownCrash => &mut plan.teardown,
        _ => &mut plan.body,
    };
    inject_in(phase, &misbehaves, &inside, &mut !after_launch);
}

/// Returns the status code that a call returns when the fault `call.refused` takes effect.
pub(crate) fn refusal_code(planted: &FaultSpec) -> i32 {
    let status = planted.which("status");
    let found = hip_statuses().iter().find(|(name, _)| *name == status);
    // The default is hipErrorUnknown. A `status` with an unknown name has been reported when the fault was read.
    found.map_or(999, |(_, number)| *number)
}

/// Injects a fault at each call of one function. Calls in the teardown are left out, because a failure there would be
/// reported as a failure of the teardown.
fn inject_at_call(plan: &mut Plan, planted: &FaultSpec, effect: &Effect) {
    let steps = plan.steps().into_iter();
    let named = steps.filter(|step| api(&step.call, plan) == planted.which("call"));
    let named: BTreeSet<u32> = named.map(|step| step.id).collect();
    let misbehaves = |step: &Step, _| {
        let fault = planted.fault;
        named.contains(&step.id).then(|| InjectedFault { fault, effect: effect.clone() })
    };
    for phase in [&mut plan.setup, &mut plan.body, &mut plan.verify] {
        inject_in(phase, &misbehaves, &BTreeSet::new(), &mut true);
    }
}

/// Injects the fault at one step that generates random numbers. `number` counts these steps from 1, in the order of the
/// case file.
fn inject_at_generation(plan: &mut Plan, number: u64) {
    let steps = plan.steps().into_iter();
    let generations = steps.filter(|step| matches!(step.call, Call::RandGenerate { .. }));
    let the_one = generations.zip(1..).find(|(_, n)| *n == number).map(|(step, _)| step.id);
    let misbehaves = |step: &Step, _| {
        let (fault, effect) = (Fault::RngSkips, Effect::Twice);
        (Some(step.id) == the_one).then_some(InjectedFault { fault, effect })
    };
    inject_in(&mut plan.body, &misbehaves, &BTreeSet::new(), &mut true);
}

/// Returns true if the step accepts, on some release, a list of statuses for which `such` returns true. Releases on
/// which the step accepts `any` status do not count.
fn states(step: &Step, such: fn(&[String]) -> bool) -> bool {
    let stated = |names: &[String]| !names.iter().any(|name| name == "any");
    step.returns.as_ref().is_some_and(|by| by.0.iter().any(|(_, n)| stated(n) && such(n)))
}

fn makes_node(call: &Call) -> bool {
    let added = matches!(call, Call::AddNode { .. });
    added || is_copy(call) || matches!(call, Call::Launch { .. } | Call::HostFunc { .. })
}

fn is_copy(call: &Call) -> bool {
    matches!(call, Call::Copy { .. } | Call::Copy2d { .. } | Call::Copy3d { .. })
}

fn makes_handle(call: &Call) -> bool {
    let handles = [ObjectKind::Generator, ObjectKind::Blaslt, ObjectKind::Rocblas];
    call.named().iter().any(|n| n.role == ObjectUse::Created && handles.contains(&n.kind))
}

fn inject_in(
    steps: &mut [Step],
    misbehaves: &dyn Fn(&Step, bool) -> Option<InjectedFault>,
    inside: &BTreeSet<u32>,
    armed: &mut bool,
) {
    for step in steps {
        if let Some(body) = step.call.body_mut() {
            inject_in(body, misbehaves, inside, armed);
            continue;
        }
        if *armed {
            step.planted.extend(misbehaves(step, inside.contains(&step.id)));
        }
        *armed |= matches!(step.call, Call::GraphLaunch { .. });
    }
}
