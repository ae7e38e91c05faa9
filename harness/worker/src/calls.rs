use std::{
    ffi::{c_int, c_uint, c_ushort, c_void},
    ptr, thread,
    time::Duration,
};

use hip_sys::{
    CAPTURE_MODE_GLOBAL, CAPTURE_MODE_RELAXED, CAPTURE_MODE_THREAD_LOCAL, EVENT_DEFAULT,
    EVENT_DISABLE_TIMING, STREAM_DEFAULT, STREAM_NON_BLOCKING, capture_status_name,
    exec_update_name,
};
use plan::{Call, CaptureMode, Choice, Step, StreamKind, api};

use crate::{
    broken::WorkerError,
    checks, foreign,
    handles::Kind,
    host::host_func,
    kernels,
    machine::{CallResult, Machine},
    math, memory, nodes, types,
};

fn capture_mode(mode: CaptureMode) -> c_int {
    match mode {
        CaptureMode::Global => CAPTURE_MODE_GLOBAL,
        CaptureMode::ThreadLocal => CAPTURE_MODE_THREAD_LOCAL,
        CaptureMode::Relaxed => CAPTURE_MODE_RELAXED,
    }
}

/// Executes a call of a plan. This function makes simple HIP calls itself; other modules make the remaining calls. The
/// `match` names every call, so a new call without an implementation does not compile.
pub(crate) fn call(
    machine: &Machine<'_>,
    step: &Step,
    occurrence: u32,
) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    let handle = |kind, name: &str| machine.handle(kind, name);
    let stream_of = |name: &str| machine.stream(name);
    let function = api(&step.call, machine.plan());
    /// Calls the HIP function of a step with the given Rust type and arguments. The step's declaration determines the
    /// name of the function.
    macro_rules! made {
        ($function:ty, $($argument:expr),*) => {{
            // In debug builds, a test that runs a case with a new call also checks the type of the call.
            debug_assert_eq!(types::mistake(function, std::any::type_name::<$function>()), None);
            hip.shared().call::<$function>(function, |function| function($($argument),*))?
        }};
    }
    let mut value = None;
    // SAFETY: applies to the whole block. A function has the type that the header declares. A handle is null or a live
    // handle of the runtime, because the table forgets destroyed handles. Results are written to separate variables.
    let code = unsafe {
        match &step.call {
            Call::StreamCreate { stream } => {
                let flags = match machine.plan().streams.get(stream) {
                    Some(StreamKind::NonBlocking) => STREAM_NON_BLOCKING,
                    Some(StreamKind::Blocking) | None => STREAM_DEFAULT,
                };
                let mut new = ptr::null_mut();
                let code = hip.hipStreamCreateWithFlags(&mut new, flags)?;
                machine.store_handle(Kind::Stream, stream, new, code);
                code
            }
            Call::StreamDestroy { stream } => {
                let code = hip.hipStreamDestroy(stream_of(stream))?;
                machine.drop_handle(Kind::Stream, stream, code);
                code
            }
            Call::StreamSynchronize { stream } => hip.hipStreamSynchronize(stream_of(stream))?,
            Call::StreamQuery { stream } => hip.hipStreamQuery(stream_of(stream))?,
            Call::StreamGetFlags { stream } => {
                type Function = unsafe extern "C" fn(*mut c_void, *mut c_uint) -> c_int;
                let mut flags = 0;
                let code = made!(Function, stream_of(stream), &mut flags);
                value = (code == 0).then(|| flags.to_string());
                code
            }
            Call::StreamGetPriority { stream } => {
                type Function = unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int;
                let mut priority = 0;
                let code = made!(Function, stream_of(stream), &mut priority);
                value = (code == 0).then(|| priority.to_string());
                code
            }
            Call::SetHalves { to, value, count, stream } => {
                type Function =
                    unsafe extern "C" fn(*mut c_void, c_ushort, usize, *mut c_void) -> c_int;
                made!(Function, machine.address(to), *value, *count as usize, stream_of(stream))
            }
            Call::StreamWaitEvent { stream, event } => {
                hip.hipStreamWaitEvent(stream_of(stream), handle(Kind::Event, event), 0)?
            }
            Call::HostFunc { buffer, api, stream } => host_func(machine, buffer, *api, stream)?,
            Call::DeviceSynchronize => hip.hipDeviceSynchronize()?,
            Call::GetLastError => hip.hipGetLastError()?,
            Call::PeekAtLastError => hip.hipPeekAtLastError()?,
            Call::EventCreate { event, timing } => {
                let mut new = ptr::null_mut();
                let flags = if *timing { EVENT_DEFAULT } else { EVENT_DISABLE_TIMING };
                let code = hip.hipEventCreateWithFlags(&mut new, flags)?;
                machine.store_handle(Kind::Event, event, new, code);
                code
            }
            Call::EventDestroy { event } => {
                let code = hip.hipEventDestroy(handle(Kind::Event, event))?;
                machine.drop_handle(Kind::Event, event, code);
                code
            }
            Call::EventRecord { event, stream } => {
                hip.hipEventRecord(handle(Kind::Event, event), stream_of(stream))?
            }
            Call::EventSynchronize { event } => {
                hip.hipEventSynchronize(handle(Kind::Event, event))?
            }
            Call::EventQuery { event } => hip.hipEventQuery(handle(Kind::Event, event))?,
            Call::EventElapsed { start, end } => {
                let mut ms = 0.0;
                let (start, end) = (handle(Kind::Event, start), handle(Kind::Event, end));
                let code = hip.hipEventElapsedTime(&mut ms, start, end)?;
                value = (code == 0).then(|| ((ms * 1000.0) as i64).to_string());
                code
            }
            Call::BeginCapture { stream, mode } => {
                hip.hipStreamBeginCapture(stream_of(stream), capture_mode(*mode))?
            }
            Call::ExchangeCaptureMode { mode } => {
                let mut mode = capture_mode(*mode);
                let code = hip.hipThreadExchangeStreamCaptureMode(&mut mode)?;
                let all = CaptureMode::ALL.iter();
                let before = all.clone().find(|(_, of)| capture_mode(*of) == mode);
                value = before.filter(|_| code == 0).map(|(word, _)| (*word).to_owned());
                code
            }
            Call::EndCapture { stream, graph } => {
                let mut new = ptr::null_mut();
                let code = hip.hipStreamEndCapture(stream_of(stream), &mut new)?;
                machine.store_handle(Kind::Graph, graph, new, code);
                code
            }
            Call::EmptyGraph { graph, nodes } => {
                let mut new = ptr::null_mut();
                let mut code = hip.hipGraphCreate(&mut new, 0)?;
                let mut last = ptr::null_mut();
                for n in 0..*nodes {
                    if code != 0 {
                        break;
                    }
                    let before = last;
                    code = hip.hipGraphAddEmptyNode(&mut last, new, &before, (n > 0).into())?;
                }
                machine.store_handle(Kind::Graph, graph, new, code);
                machine.store_handle(Kind::Node, graph, last, code);
                code
            }
            Call::IsCapturing { stream } => {
                let mut status = -1;
                let code = hip.hipStreamIsCapturing(stream_of(stream), &mut status)?;
                value = capture_status_name(status).filter(|_| code == 0).map(str::to_owned);
                code
            }
            Call::GraphNodeCount { graph } => {
                let mut count = 0;
                let graph = handle(Kind::Graph, graph);
                let code = hip.hipGraphGetNodes(graph, ptr::null_mut(), &mut count)?;
                value = (code == 0).then(|| count.to_string());
                code
            }
            Call::GraphRootCount { graph } => {
                let mut count = 0;
                let graph = handle(Kind::Graph, graph);
                let code = hip.hipGraphGetRootNodes(graph, ptr::null_mut(), &mut count)?;
                value = (code == 0).then(|| count.to_string());
                code
            }
            Call::GraphEdgeCount { graph } => {
                let mut count = 0;
                let (graph, none) = (handle(Kind::Graph, graph), ptr::null_mut());
                let code = hip.hipGraphGetEdges(graph, none, none, &mut count)?;
                value = (code == 0).then(|| count.to_string());
                code
            }
            Call::GraphAddChild { graph, child } => {
                return nodes::add_child(machine, graph, child);
            }
            Call::GraphClone { clone, graph } => {
                let mut new = ptr::null_mut();
                let code = hip.hipGraphClone(&mut new, handle(Kind::Graph, graph))?;
                machine.store_handle(Kind::Graph, clone, new, code);
                code
            }
            Call::GraphInstantiate { exec, graph } => {
                let mut new = ptr::null_mut();
                let mut node = ptr::null_mut();
                let graph = handle(Kind::Graph, graph);
                let code =
                    hip.hipGraphInstantiate(&mut new, graph, &mut node, ptr::null_mut(), 0)?;
                machine.store_handle(Kind::GraphExec, exec, new, code);
                code
            }
            Call::GraphLaunch { exec, stream } => {
                hip.hipGraphLaunch(handle(Kind::GraphExec, exec), stream_of(stream))?
            }
            Call::GraphExecUpdate { exec, graph } => {
                let mut node = ptr::null_mut();
                let mut result = -1;
                let (exec, graph) = (handle(Kind::GraphExec, exec), handle(Kind::Graph, graph));
                let code = hip.hipGraphExecUpdate(exec, graph, &mut node, &mut result)?;
                // The HIP runtime returns a result even together with a failing status.
                value = exec_update_name(result).map(str::to_owned);
                code
            }
            Call::GraphExecDestroy { exec } => {
                let code = hip.hipGraphExecDestroy(machine.handle_or_old(Kind::GraphExec, exec))?;
                machine.drop_handle(Kind::GraphExec, exec, code);
                code
            }
            Call::GraphDestroy { graph } => {
                let code = hip.hipGraphDestroy(machine.handle_or_old(Kind::Graph, graph))?;
                machine.drop_handle(Kind::Graph, graph, code);
                code
            }
            Call::Hip { function, args } => return foreign::call(machine, step.id, function, args),
            Call::HipValue { of, read, against, .. } => {
                return Ok(foreign::look(machine, of, read, against.as_deref()));
            }
            Call::AddNode { graph, node } => return nodes::add(machine, graph, node),
            Call::Alloc { .. }
            | Call::Free { .. }
            | Call::FreeAddress { .. }
            | Call::Poison { .. }
            | Call::Fill { .. }
            | Call::FillNumbers { .. }
            | Call::FillFile { .. }
            | Call::Copy { .. }
            | Call::Copy2d { .. }
            | Call::Copy3d { .. }
            | Call::SetRows { .. }
            | Call::Set { .. }
            | Call::DeviceAttribute { .. }
            | Call::MemGetInfo
            | Call::TrimPool => return memory::call(machine, step, occurrence),
            Call::Compile { .. }
            | Call::Load { .. }
            | Call::Unload { .. }
            | Call::FindSymbol { .. }
            | Call::Launch { .. } => return kernels::call(machine, step),
            Call::RandCreate { .. }
            | Call::RandSeed { .. }
            | Call::RandOffset { .. }
            | Call::RandStream { .. }
            | Call::RandGenerate { .. }
            | Call::RandDestroy { .. }
            | Call::BlasltCreate { .. }
            | Call::BlasltHeuristic { .. }
            | Call::BlasltMatmul { .. }
            | Call::BlasltDestroy { .. }
            | Call::RocblasCreate { .. }
            | Call::RocblasGemm { .. }
            | Call::RocblasDestroy { .. } => return math::call(machine, &step.call),
            Call::Check { .. }
            | Call::Equal { .. }
            | Call::Differ { .. }
            | Call::AtLeast { .. }
            | Call::Guards { .. } => {
                return checks::call(machine, step.id, &step.call, occurrence);
            }
            Call::Sleep { ms } => {
                thread::sleep(Duration::from_millis(*ms));
                return Ok(CallResult::NONE);
            }
            // `Steps::run` executes blocks.
            Call::Repeat { .. } | Call::Thread { .. } => return Ok(CallResult::NONE),
        }
    };
    Ok(CallResult::hip(code).with(value))
}
