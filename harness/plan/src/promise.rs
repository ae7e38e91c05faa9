//! What the interface promises of the order of a call's work, towards the host and towards streams.
//!
//! | call | work belongs to | the host has waited when it returns |
//! | --- | --- | --- |
//! | hipMemcpy, hipMemcpyHtoD, hipMemcpyDtoH, hipMemcpyDtoD, hipMemcpy2D | the null stream | unless both sides are device memory \[1\] \[2\] |
//! | hipMemcpyWithStream | its stream | the same |
//! | hipMemcpyAsync, hipMemcpy2DAsync | its stream | no; a pageable source has been read \[3\] |
//! | hipMemset, hipMemsetD32 | the null stream | no \[2\] |
//! | hipMemsetAsync, hipMemsetD16Async, hipMemsetD32Async | its stream | no |
//! | hipModuleLaunchKernel, hipLaunchHostFunc, hipStreamAddCallback, hipGraphLaunch, GEMMs | its stream | no |
//! | hiprandGenerate | the generator's stream | no \[4\] |
//! | hipMallocAsync, hipFreeAsync | its stream | no |
//! | hipFree, hipHostFree | | yes, for everything \[6\] |
//! | hipHostUnregister, hipModuleUnload, hipStreamDestroy | | no \[7\] |
//! | hipDeviceSynchronize | | yes, for everything |
//! | hipStreamSynchronize | | yes, for its stream; of the null stream also for the blocking ones \[8\] |
//!
//! Two launches of one executable graph are ordered by their streams alone: CUDA promises more, HIP says nothing of it, and ROCm 7.2.4
//! lets them overlap.
//!
//! The null stream and blocking streams wait for each other; non-blocking streams wait for neither, and neither waits for
//! them \[5\].
//!
//! 1. hip_runtime_api.h of 7.2.4, hipMemcpy2D: "Device to Device copies don't need to wait for host synchronization"; clr,
//!    hipamd/src/hip_memory.cpp, says the same of all of them. A GPU shows it: a copy inside the device on the null stream and an
//!    asynchronous one behind it on a non-blocking stream overlap.
//! 2. CUDA driver API, "API synchronization behavior", which HIP follows: of transfers "from device memory to device memory, no
//!    host-side synchronization is performed", and transfers that involve unified memory are synchronous towards the host; memset
//!    functions are asynchronous unless the target is pinned host or unified memory, on which cases must not rely.
//! 3. hip_runtime_api.h, hipMemcpyAsync: "If host or dst are not pinned, the memory copy will be performed synchronously". CUDA, as in 2:
//!    asynchronous copies from pageable memory stage it "immediately", before what the stream holds; for synchronous ones "a stream
//!    sync is performed before the copy is initiated". Only copies stage: a kernel reads when it runs.
//! 4. hiprand.h: generation is asynchronous in the stream that hiprandSetStream gave, else in the null stream.
//! 5. hip_runtime_api.h, hipStreamNonBlocking.
//! 6. hip_runtime_api.h of 7.2.4: "This API performs an implicit hipDeviceSynchronize() call."
//! 7. hip_runtime_api.h of 7.2.4, hipStreamDestroy: "The queue may be destroyed while some commands are still inflight, or may wait for
//!    all commands queued to the stream before destroying it." Of the others nothing is said.
//! 8. hip_runtime_api.h of 7.2.4, hipStreamSynchronize: "Specifying the null stream will cause the command to wait for other streams on
//!    the same device to complete all pending operations."

use crate::{CompletedOnReturn, Memory, Plan};

/// What of a call's work is over when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsOver {
    Nothing,
    /// What it reads: that was put aside.
    Reads,
    Everything,
}

impl IsOver {
    /// What a call promises.
    pub(crate) fn of(plan: &Plan, over: CompletedOnReturn<'_>) -> Self {
        match over {
            CompletedOnReturn::Nothing => IsOver::Nothing,
            // A buffer that is not there is told of elsewhere.
            CompletedOnReturn::Copy { asynchronous, to, from } => {
                let memory = |buffer| plan.memory(buffer).unwrap_or(Memory::Device);
                IsOver::of_copy(asynchronous, memory(to), memory(from))
            }
        }
    }

    fn of_copy(asynchronous: bool, to: Memory, from: Memory) -> Self {
        let inside_device = !from.on_host() && !to.on_host();
        match asynchronous {
            true if from == Memory::HostPageable => IsOver::Reads,
            false if !inside_device => IsOver::Everything,
            true | false => IsOver::Nothing,
        }
    }
}

/// Whether freeing memory of this kind waits for the device.
pub(crate) fn free_waits(memory: Option<Memory>) -> bool {
    match memory {
        Some(Memory::Device | Memory::DevicePitched | Memory::Managed | Memory::HostPinned) => true,
        Some(Memory::DeviceAsync | Memory::HostPageable | Memory::HostRegistered) | None => false,
    }
}
