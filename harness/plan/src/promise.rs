//! What the interface promises of the order of a call's work, towards the host and towards streams.
//!
//! | call | work belongs to | the host has waited when it returns |
//! | --- | --- | --- |
//! | hipMemcpy, hipMemcpyHtoD, hipMemcpyDtoH, hipMemcpyDtoD, hipMemcpy2D | the null stream | unless both sides are device memory \[1\] \[2\] |
//! | hipMemcpyWithStream | its stream | the same |
//! | hipMemcpyAsync, hipMemcpy2DAsync | its stream | no; a pageable source has been read \[3\] |
//! | hipMemset, hipMemsetD32 | the null stream | no \[2\] |
//! | hipMemsetAsync, hipMemsetD32Async | its stream | no |
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

use crate::{Call, CopyApi, DEFAULT_STREAM, Memory};

/// The null stream, for calls that work there whatever stream they name.
pub(crate) fn works_in(call: &Call) -> Option<&'static str> {
    let plain = matches!(
        call,
        Call::Copy { api: CopyApi::Memcpy | CopyApi::MemcpyDirected, .. }
            | Call::Copy2d { asynchronous: false, .. }
            | Call::Copy3d { asynchronous: false, .. }
            | Call::SetRows { asynchronous: false, .. }
            | Call::Set { asynchronous: false, .. }
    );
    plain.then_some(DEFAULT_STREAM)
}

/// Whether a flat copy, made by this function from one kind of memory to another, is over when it returns.
pub(crate) fn copy_is_over(api: CopyApi, from: Memory, to: Memory) -> bool {
    api != CopyApi::MemcpyAsync && !both_on_device(from, to)
}

/// Whether a copy of rows is over when it returns.
pub(crate) fn rows_are_over(asynchronous: bool, from: Memory, to: Memory) -> bool {
    !asynchronous && !both_on_device(from, to)
}

fn both_on_device(from: Memory, to: Memory) -> bool {
    !from.on_host() && !to.on_host()
}

/// Whether an asynchronous copy out of memory of this kind has read it when it returns. One that is synchronous reads in its turn.
pub(crate) fn is_staged(from: Memory) -> bool {
    from == Memory::HostPageable
}

/// Whether freeing memory of this kind waits for the device.
pub(crate) fn free_waits(memory: Option<Memory>) -> bool {
    match memory {
        Some(Memory::Device | Memory::DevicePitched | Memory::Managed | Memory::HostPinned) => true,
        Some(Memory::DeviceAsync | Memory::HostPageable | Memory::HostRegistered) | None => false,
    }
}
