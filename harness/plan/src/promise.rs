//! Ordering guarantees of the HIP interface: which stream executes the work of a call, and how much of the work has
//! completed when the call returns.
//!
//! | call | stream | has the work completed on return? |
//! | --- | --- | --- |
//! | hipMemcpy, hipMemcpyHtoD, hipMemcpyDtoH, hipMemcpyDtoD, hipMemcpy2D | null stream | yes, except device to device \[1\] \[2\] |
//! | hipMemcpyWithStream | its stream | yes, except device to device |
//! | hipMemcpyAsync, hipMemcpy2DAsync | its stream | no, but a pageable source has been read \[3\] |
//! | hipMemset, hipMemsetD32 | null stream | no \[2\] |
//! | hipMemsetAsync, hipMemsetD16Async, hipMemsetD32Async | its stream | no |
//! | hipModuleLaunchKernel, hipModuleLaunchCooperativeKernel, hipLaunchHostFunc, hipStreamAddCallback, hipGraphLaunch, GEMMs | its stream | no |
//! | hiprandGenerate | the generator's stream | no \[4\] |
//! | hipMallocAsync, hipFreeAsync | its stream | no |
//! | hipFree, hipHostFree | | yes, all work of the device \[6\] |
//! | hipHostUnregister, hipModuleUnload, hipStreamDestroy | | no \[7\] |
//! | hipDeviceSynchronize | | yes, all work of the device |
//! | hipStreamSynchronize | | yes, all work of its stream; for the null stream also of the blocking ones \[8\] |
//!
//! Only the streams of the launches order two launches of one executable graph. CUDA guarantees more, HIP documents
//! nothing, and ROCm 7.2.4 lets the launches overlap.
//!
//! The null stream and blocking streams wait for each other. Non-blocking streams and the null stream do not \[5\].
//!
//! 1. hip_runtime_api.h of 7.2.4, hipMemcpy2D: "Device to Device copies don't need to wait for host synchronization";
//!    clr, hipamd/src/hip_memory.cpp, says the same of all device-to-device copies. On a GPU, a device-to-device copy
//!    on the null stream overlaps with a later asynchronous copy on a non-blocking stream.
//! 2. CUDA driver API, "API synchronization behavior", which HIP follows: of transfers "from device memory to device
//!    memory, no host-side synchronization is performed", and transfers that involve unified memory are synchronous
//!    towards the host. Memset functions are asynchronous unless the target is pinned host or unified memory, an
//!    exception that cases must not rely on.
//! 3. hip_runtime_api.h, hipMemcpyAsync: "If host or dst are not pinned, the memory copy will be performed
//!    synchronously". CUDA, as in 2: asynchronous copies copy pageable memory to a staging buffer "immediately", before
//!    the earlier work of the stream; for synchronous copies "a stream sync is performed before the copy is initiated".
//!    Only copies stage: a kernel reads when it executes.
//! 4. hiprand.h: generation is asynchronous in the stream that hiprandSetStream set, else in the null stream.
//! 5. hip_runtime_api.h, hipStreamNonBlocking.
//! 6. hip_runtime_api.h of 7.2.4: "This API performs an implicit hipDeviceSynchronize() call."
//! 7. hip_runtime_api.h of 7.2.4, hipStreamDestroy: "The queue may be destroyed while some commands are still inflight,
//!    or may wait for all commands queued to the stream before destroying it." The header says nothing about
//!    hipHostUnregister and hipModuleUnload.
//! 8. hip_runtime_api.h of 7.2.4, hipStreamSynchronize: "Specifying the null stream will cause the command to wait for
//!    other streams on the same device to complete all pending operations."

use crate::{CompletedOnReturn, Memory, Plan};

/// The part of a call's work that has completed when the call returns: nothing, only its reads, or everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletedPart {
    Nothing,
    /// Only the reads have completed: the source has been copied to a staging buffer.
    Reads,
    Everything,
}

impl CompletedPart {
    pub(crate) fn for_call(plan: &Plan, over: CompletedOnReturn<'_>) -> Self {
        match over {
            CompletedOnReturn::Nothing => CompletedPart::Nothing,
            // Undeclared buffers are not reported here, because `executable.rs` reports them.
            CompletedOnReturn::Copy { asynchronous, to, from } => {
                let memory = |buffer| plan.memory(buffer).unwrap_or(Memory::Device);
                CompletedPart::for_copy(asynchronous, memory(to), memory(from))
            }
        }
    }

    fn for_copy(asynchronous: bool, to: Memory, from: Memory) -> Self {
        let inside_device = !from.on_host() && !to.on_host();
        match asynchronous {
            true if from == Memory::HostPageable => CompletedPart::Reads,
            false if !inside_device => CompletedPart::Everything,
            true | false => CompletedPart::Nothing,
        }
    }
}

pub(crate) fn free_waits(memory: Option<Memory>) -> bool {
    match memory {
        Some(Memory::Device | Memory::DevicePitched | Memory::Managed | Memory::HostPinned) => true,
        Some(Memory::DeviceAsync | Memory::HostPageable | Memory::HostRegistered) | None => false,
    }
}
