//! Builds graphs node by node, with functions such as hipGraphAddKernelNode.

use std::{ffi::c_void, ptr};

use hip_sys::{HostNodeParams, KernelNodeParams, MemsetParams};
use plan::Call;

use crate::{
    broken::WorkerError,
    handles::Kind,
    host, kernels,
    machine::{CallResult, Machine},
    memory,
};

/// Adds a child graph node after the last node of a graph.
pub(crate) fn add_child(
    machine: &Machine<'_>,
    graph: &str,
    child: &str,
) -> Result<CallResult, WorkerError> {
    let last = machine.handle(Kind::Node, graph);
    let (handle, child) = (machine.handle(Kind::Graph, graph), machine.handle(Kind::Graph, child));
    let after: *const *mut c_void = &raw const last;
    let count = usize::from(!last.is_null());
    let mut node = ptr::null_mut();
    let hip = &machine.libraries.hip;
    // SAFETY: the graphs are null or live graphs of the HIP runtime, and `last` is a node of the first graph.
    let code = unsafe { hip.hipGraphAddChildGraphNode(&mut node, handle, after, count, child) }?;
    machine.store_handle(Kind::Node, graph, node, code);
    Ok(CallResult::hip(code))
}

/// Adds a node that does the work of `call`, after the last node of a graph.
pub(crate) fn add(
    machine: &Machine<'_>,
    graph: &str,
    call: &Call,
) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    let last = machine.handle(Kind::Node, graph);
    let handle = machine.handle(Kind::Graph, graph);
    let after: *const *mut c_void = &raw const last;
    let count = usize::from(!last.is_null());
    let mut node = ptr::null_mut();
    // SAFETY: the graph is null or a live graph of the HIP runtime, `last` is a node of it, the parameters live until
    // the call has copied them, and the data of a host node lives until the process ends.
    let code = unsafe {
        match call {
            Call::Launch { kernel, grid, block, args, shared, .. } => {
                let mut values = kernels::values(machine, args);
                let mut pointers = kernels::pointers(&mut values);
                let params = KernelNodeParams {
                    block: (*block).into(),
                    extra: ptr::null_mut(),
                    function: machine.handle(Kind::Function, kernel),
                    grid: (*grid).into(),
                    parameters: pointers.as_mut_ptr(),
                    shared_bytes: *shared,
                };
                hip.hipGraphAddKernelNode(&mut node, handle, after, count, &params)?
            }
            Call::Copy { to, from, bytes, .. } => {
                let kind = memory::kind(machine, to, from)?;
                let (to, from) = (machine.address(to), machine.address(from));
                let bytes = *bytes as usize;
                hip.hipGraphAddMemcpyNode1D(&mut node, handle, after, count, to, from, bytes, kind)?
            }
            Call::Set { to, value, words, bytes, .. } => {
                let element_bytes = if *words { 4 } else { 1 };
                let params = MemsetParams {
                    to: machine.address(to),
                    element_bytes,
                    height: 1,
                    pitch: *bytes as usize,
                    value: *value,
                    width: *bytes as usize / element_bytes as usize,
                };
                hip.hipGraphAddMemsetNode(&mut node, handle, after, count, &params)?
            }
            Call::HostFunc { buffer, .. } => {
                let data = host::bytes_of(machine, buffer)?;
                let params = HostNodeParams { function: host::add_one, data };
                hip.hipGraphAddHostNode(&mut node, handle, after, count, &params)?
            }
            other => return Err(WorkerError(format!("{other:?} is not a graph node"))),
        }
    };
    machine.store_handle(Kind::Node, graph, node, code);
    Ok(CallResult::hip(code))
}
