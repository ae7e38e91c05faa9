//! Faults at calls.

use device::Fault;
use plan::{Call, Effect, Misbehaviour, Plan, Step, may_succeed};

/// Plants a fault at the calls that it concerns; faults of the device leave the plan alone.
pub(crate) fn plant(plan: &mut Plan, fault: Fault) {
    let effect: fn(&Step, bool) -> Option<Effect> = match fault {
        Fault::HandleCrash => |step, _| makes_handle(&step.call).then_some(Effect::Abort),
        Fault::HandleExit => |step, _| makes_handle(&step.call).then_some(Effect::Exit(1)),
        // Longer than any limit on a trial.
        Fault::HandleHang => |step, _| makes_handle(&step.call).then_some(Effect::Late(86_400_000)),
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
        // HIPRAND_STATUS_PREEXISTING_FAILURE, hiprand.h: what a generator answers after a failed launch.
        Fault::RngCaptureError => |step, capturing| {
            (capturing && matches!(step.call, Call::RandGenerate { .. }))
                .then_some(Effect::Return(202))
        },
        Fault::RngSkips => |step, capturing| {
            (capturing && matches!(step.call, Call::RandGenerate { .. })).then_some(Effect::Twice)
        },
        Fault::GraphNodeLost => {
            |step, capturing| (capturing && makes_node(&step.call)).then_some(Effect::Return(0))
        }
        // hipErrorStreamCaptureUnsupported, hip/hip_runtime_api.h.
        Fault::CaptureRefused => {
            |step, capturing| (capturing && makes_node(&step.call)).then_some(Effect::Return(900))
        }
        Fault::GraphUpdateIgnored => {
            |step, _| matches!(step.call, Call::GraphExecUpdate { .. }).then_some(Effect::Return(0))
        }
        // HIPRTC_ERROR_COMPILATION, hip/hiprtc.h.
        Fault::CompileError => {
            |step, _| matches!(step.call, Call::Compile { .. }).then_some(Effect::Return(6))
        }
        Fault::TeardownCrash => |_, _| Some(Effect::Abort),
        Fault::GraphOverwriteOutput => {
            |step, _| matches!(step.call, Call::Copy { .. }).then_some(Effect::AfterNextLaunch)
        }
        Fault::CallAccepted => |step, _| (!may_succeed(step)).then_some(Effect::Return(0)),
        Fault::HostFuncLost => {
            |step, _| matches!(step.call, Call::HostFunc { .. }).then_some(Effect::Return(0))
        }
        _ => return,
    };
    let after_launch = fault == Fault::GraphOverwriteOutput;
    let misbehaves = |step: &Step, capturing| {
        effect(step, capturing).map(|effect| Misbehaviour { fault, effect })
    };
    let phase = match fault {
        Fault::CompileError => &mut plan.setup,
        Fault::TeardownCrash => &mut plan.teardown,
        _ => &mut plan.body,
    };
    plant_in(phase, &misbehaves, &mut false, &mut !after_launch);
}

fn makes_node(call: &Call) -> bool {
    matches!(call, Call::Launch { .. } | Call::Copy { .. } | Call::HostFunc { .. })
}

fn makes_handle(call: &Call) -> bool {
    matches!(call, Call::BlasltCreate { .. } | Call::RocblasCreate { .. } | Call::RandCreate { .. })
}

fn plant_in(
    steps: &mut [Step],
    misbehaves: &dyn Fn(&Step, bool) -> Option<Misbehaviour>,
    capturing: &mut bool,
    armed: &mut bool,
) {
    for step in steps {
        if let Call::Repeat { body, .. } | Call::Thread { body } = &mut step.call {
            plant_in(body, misbehaves, capturing, armed);
            continue;
        }
        if *armed {
            step.planted.extend(misbehaves(step, *capturing));
        }
        match &step.call {
            Call::BeginCapture { .. } => *capturing = true,
            Call::EndCapture { .. } => *capturing = false,
            Call::GraphLaunch { .. } => *armed = true,
            _ => {}
        }
    }
}
