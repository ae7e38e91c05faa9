use std::collections::BTreeSet;

use plan::{Call, CopyApi, Library, Memory, Plan};

use crate::memory::directed_function;

/// Which library a function lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Home {
    Hip,
    Rtc,
    Rand,
    Blaslt,
    Rocblas,
}

impl Home {
    /// The library of a function, by the prefix that all of that library's functions carry.
    pub(crate) fn of(function: &str) -> Home {
        const PREFIXES: [(&str, Home); 4] = [
            ("hiprtc", Home::Rtc),
            ("hiprand", Home::Rand),
            ("hipblasLt", Home::Blaslt),
            ("rocblas_", Home::Rocblas),
        ];
        let found = PREFIXES.iter().find(|(prefix, _)| function.starts_with(prefix));
        found.map_or(Home::Hip, |(_, home)| *home)
    }
}

impl From<Library> for Home {
    fn from(library: Library) -> Self {
        match library {
            Library::Hiprand => Home::Rand,
            Library::Hipblaslt => Home::Blaslt,
            Library::Rocblas => Home::Rocblas,
        }
    }
}

/// Every function that the plan calls or asks for.
pub(crate) fn functions(plan: &Plan) -> BTreeSet<&str> {
    let asked = plan.functions.iter().map(String::as_str);
    let called = plan.steps().into_iter().flat_map(|s| functions_of(plan, &s.call).iter().copied());
    asked.chain(called).collect()
}

/// Every library that the plan needs.
pub(crate) fn homes(plan: &Plan) -> BTreeSet<Home> {
    let named = plan.libraries.iter().map(|&library| Home::from(library));
    let called = functions(plan).into_iter().map(Home::of);
    named.chain(called).collect()
}

/// The functions behind a call; the first is the one whose status counts.
pub(crate) fn functions_of(plan: &Plan, call: &Call) -> &'static [&'static str] {
    let memory = |name: &str| plan.buffers.get(name).map(|buffer| buffer.memory);
    match call {
        Call::Alloc { buffer, .. } => match memory(buffer) {
            Some(Memory::Device) => &["hipMalloc"],
            Some(Memory::DeviceAsync) => &["hipMallocAsync"],
            Some(Memory::Managed) => &["hipMallocManaged"],
            Some(Memory::HostPinned) => &["hipHostMalloc"],
            Some(Memory::HostRegistered) => &["hipHostRegister"],
            Some(Memory::HostPageable) | None => &[],
        },
        Call::Free { buffer, .. } => match memory(buffer) {
            Some(Memory::Device | Memory::Managed) => &["hipFree"],
            Some(Memory::DeviceAsync) => &["hipFreeAsync"],
            Some(Memory::HostPinned) => &["hipHostFree"],
            Some(Memory::HostRegistered) => &["hipHostUnregister"],
            Some(Memory::HostPageable) | None => &[],
        },
        Call::Poison { buffer } => match memory(buffer) {
            Some(memory) if !memory.on_host() => &["hipMemset"],
            _ => &[],
        },
        Call::Guards { buffer } => match memory(buffer) {
            Some(memory) if !memory.on_host() => &["hipMemcpy"],
            _ => &[],
        },
        Call::Copy { to, from, api, .. } => match api {
            CopyApi::Memcpy => &["hipMemcpy"],
            CopyApi::MemcpyAsync => &["hipMemcpyAsync"],
            CopyApi::MemcpyWithStream => &["hipMemcpyWithStream"],
            CopyApi::MemcpyDirected => {
                let pair = memory(&to.buffer).zip(memory(&from.buffer));
                pair.and_then(|(to, from)| directed_function(to, from)).unwrap_or(&[])
            }
        },
        Call::Copy2d { asynchronous: true, .. } => &["hipMemcpy2DAsync"],
        Call::Copy2d { .. } => &["hipMemcpy2D"],
        Call::Set { asynchronous: true, .. } => &["hipMemsetAsync"],
        Call::Set { .. } => &["hipMemset"],
        Call::Compile { .. } => &[
            "hiprtcCompileProgram",
            "hiprtcCreateProgram",
            "hiprtcDestroyProgram",
            "hiprtcGetCode",
            "hiprtcGetCodeSize",
            "hiprtcGetProgramLog",
            "hiprtcGetProgramLogSize",
        ],
        Call::Load { .. } => &["hipModuleLoadData", "hipModuleGetFunction"],
        Call::Unload { .. } => &["hipModuleUnload"],
        Call::Launch { .. } => &["hipModuleLaunchKernel"],
        Call::StreamCreate { .. } => &["hipStreamCreateWithFlags"],
        Call::StreamDestroy { .. } => &["hipStreamDestroy"],
        Call::StreamSynchronize { .. } => &["hipStreamSynchronize"],
        Call::StreamQuery { .. } => &["hipStreamQuery"],
        Call::StreamWaitEvent { .. } => &["hipStreamWaitEvent"],
        Call::DeviceSynchronize => &["hipDeviceSynchronize"],
        Call::EventCreate { .. } => &["hipEventCreateWithFlags"],
        Call::EventDestroy { .. } => &["hipEventDestroy"],
        Call::EventRecord { .. } => &["hipEventRecord"],
        Call::EventSynchronize { .. } => &["hipEventSynchronize"],
        Call::EventQuery { .. } => &["hipEventQuery"],
        Call::BeginCapture { .. } => &["hipStreamBeginCapture"],
        Call::EndCapture { .. } => &["hipStreamEndCapture"],
        Call::IsCapturing { .. } => &["hipStreamIsCapturing"],
        Call::GraphNodeCount { .. } => &["hipGraphGetNodes"],
        Call::GraphInstantiate { .. } => &["hipGraphInstantiate"],
        Call::GraphLaunch { .. } => &["hipGraphLaunch"],
        Call::GraphExecUpdate { .. } => &["hipGraphExecUpdate"],
        Call::GraphExecDestroy { .. } => &["hipGraphExecDestroy"],
        Call::GraphDestroy { .. } => &["hipGraphDestroy"],
        Call::GetLastError => &["hipGetLastError"],
        Call::MemGetInfo => &["hipMemGetInfo"],
        Call::TrimPool => &["hipMemPoolTrimTo", "hipDeviceGetDefaultMemPool"],
        Call::RandCreate { host: true, .. } => &["hiprandCreateGeneratorHost"],
        Call::RandCreate { .. } => &["hiprandCreateGenerator"],
        Call::RandSeed { .. } => &["hiprandSetPseudoRandomGeneratorSeed"],
        Call::RandOffset { .. } => &["hiprandSetGeneratorOffset"],
        Call::RandStream { .. } => &["hiprandSetStream"],
        Call::RandGenerate { .. } => &["hiprandGenerate"],
        Call::RandDestroy { .. } => &["hiprandDestroyGenerator"],
        Call::BlasltCreate { .. } => &["hipblasLtCreate"],
        Call::BlasltHeuristic { .. } => &[
            "hipblasLtMatmulAlgoGetHeuristic",
            "hipblasLtMatmulDescCreate",
            "hipblasLtMatmulDescDestroy",
            "hipblasLtMatmulDescSetAttribute",
            "hipblasLtMatmulPreferenceCreate",
            "hipblasLtMatmulPreferenceDestroy",
            "hipblasLtMatmulPreferenceSetAttribute",
            "hipblasLtMatrixLayoutCreate",
            "hipblasLtMatrixLayoutDestroy",
        ],
        Call::BlasltDestroy { .. } => &["hipblasLtDestroy"],
        Call::RocblasCreate { .. } => &["rocblas_create_handle"],
        Call::RocblasDestroy { .. } => &["rocblas_destroy_handle"],
        Call::Fill { .. }
        | Call::Check { .. }
        | Call::Equal { .. }
        | Call::Differ { .. }
        | Call::Sleep { .. }
        | Call::Repeat { .. }
        | Call::Thread { .. } => &[],
    }
}
