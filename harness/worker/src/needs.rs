use std::collections::BTreeSet;

use plan::{Call, CopyApi, HostFuncApi, Library, Memory, Plan};

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
            Some(Memory::DevicePitched) => &["hipMallocPitch"],
            Some(Memory::DeviceAsync) => &["hipMallocAsync"],
            Some(Memory::Managed) => &["hipMallocManaged"],
            Some(Memory::HostPinned) => &["hipHostMalloc"],
            Some(Memory::HostRegistered) => &["hipHostRegister"],
            Some(Memory::HostPageable) | None => &[],
        },
        Call::Free { buffer, .. } => match memory(buffer) {
            Some(Memory::Device | Memory::DevicePitched | Memory::Managed) => &["hipFree"],
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
        Call::Set { words: true, asynchronous: true, .. } => &["hipMemsetD32Async"],
        Call::Set { words: true, .. } => &["hipMemsetD32"],
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
        Call::FreeAddress { .. } => &["hipFree"],
        Call::FindSymbol { variable: false, .. } => &["hipModuleGetFunction"],
        Call::FindSymbol { variable: true, .. } => &["hipModuleGetGlobal"],
        Call::HostFunc { api: HostFuncApi::AddCallback, .. } => &["hipStreamAddCallback"],
        Call::HostFunc { api: HostFuncApi::LaunchHostFunc, .. } => &["hipLaunchHostFunc"],
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
        Call::EventElapsed { .. } => &["hipEventElapsedTime"],
        Call::BeginCapture { .. } => &["hipStreamBeginCapture"],
        Call::EndCapture { .. } => &["hipStreamEndCapture"],
        Call::EmptyGraph { .. } => &["hipGraphCreate", "hipGraphAddEmptyNode"],
        Call::AddNode { node, .. } => match **node {
            Call::Launch { .. } => &["hipGraphAddKernelNode"],
            Call::Copy { .. } => &["hipGraphAddMemcpyNode1D"],
            Call::Set { .. } => &["hipGraphAddMemsetNode"],
            Call::HostFunc { .. } => &["hipGraphAddHostNode"],
            _ => &[],
        },
        Call::IsCapturing { .. } => &["hipStreamIsCapturing"],
        Call::GraphNodeCount { .. } => &["hipGraphGetNodes"],
        Call::GraphInstantiate { .. } => &["hipGraphInstantiate"],
        Call::GraphLaunch { .. } => &["hipGraphLaunch"],
        Call::GraphExecUpdate { .. } => &["hipGraphExecUpdate"],
        Call::GraphExecDestroy { .. } => &["hipGraphExecDestroy"],
        Call::GraphDestroy { .. } => &["hipGraphDestroy"],
        Call::GetLastError => &["hipGetLastError"],
        Call::DeviceAttribute { .. } => &["hipDeviceGetAttribute"],
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
        Call::BlasltMatmul { .. } => &[
            "hipblasLtMatmul",
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
        Call::RocblasGemm { .. } => &["rocblas_gemm_ex", "rocblas_set_stream"],
        Call::RocblasDestroy { .. } => &["rocblas_destroy_handle"],
        Call::Fill { .. }
        | Call::FillNumbers { .. }
        | Call::Check { .. }
        | Call::Equal { .. }
        | Call::Differ { .. }
        | Call::Sleep { .. }
        | Call::Repeat { .. }
        | Call::Thread { .. } => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hip_sys::{Blaslt, Hip, Rand, Rocblas, Rtc};
    use serde_json::json;

    /// A plan with these calls, on a buffer of every kind of memory.
    fn plan(calls: serde_json::Value) -> Plan {
        let mut body = calls;
        for (id, call) in body.as_array_mut().unwrap().iter_mut().enumerate() {
            call["id"] = id.into();
        }
        let buffer = |memory| json!({"memory": memory, "bytes": 4, "guarded": true});
        serde_json::from_value(json!({
            "version": 1, "trial": "t", "streams": {}, "setup": [], "body": body, "verify": [], "teardown": [],
            "buffers": {
                "device": buffer("device"), "pitched": buffer("device_pitched"), "device_async": buffer("device_async"), "managed": buffer("managed"),
                "pageable": buffer("host_pageable"), "pinned": buffer("host_pinned"),
                "registered": buffer("host_registered"),
            },
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(calls: serde_json::Value, functions_: &[&str], homes_: &[Home]) {
        let plan = plan(calls);
        assert_eq!(functions(&plan), functions_.iter().copied().collect());
        assert_eq!(homes(&plan), homes_.iter().copied().collect());
    }

    #[test]
    fn what_a_call_needs_depends_on_its_arguments() {
        let alloc = |buffer| json!({"call": "alloc", "buffer": buffer, "stream": "default"});
        check(json!([alloc("device"), alloc("pageable")]), &["hipMalloc"], &[Home::Hip]);
        check(json!([alloc("managed")]), &["hipMallocManaged"], &[Home::Hip]);
        check(json!([{"call": "poison", "buffer": "pinned"}]), &[], &[]);
        check(json!([{"call": "poison", "buffer": "device"}]), &["hipMemset"], &[Home::Hip]);
        let copy = |to: &str, from: &str, api| {
            json!({"call": "copy", "to": {"buffer": to}, "from": {"buffer": from}, "bytes": 4, "api": api,
                "stream": "default"})
        };
        check(
            json!([
                copy("device", "pageable", "memcpy_directed"),
                copy("pinned", "pinned", "memcpy")
            ]),
            &["hipMemcpyHtoD", "hipMemcpy"],
            &[Home::Hip],
        );
        let create =
            |host| json!({"call": "rand_create", "generator": "g", "kind": "philox", "host": host});
        check(json!([create(true)]), &["hiprandCreateGeneratorHost"], &[Home::Rand]);
        check(
            json!([{"call": "repeat", "count": 2, "body": [
                {"id": 9, "call": "thread", "body": [{"id": 10, "call": "rocblas_create", "handle": "h"}]},
            ]}]),
            &["rocblas_create_handle"],
            &[Home::Rocblas],
        );
    }

    /// A misspelt name would make every trial that needs it a skip.
    #[test]
    fn every_needed_function_is_bound() {
        let tables = [
            Hip::FUNCTIONS,
            Rtc::FUNCTIONS,
            Rand::FUNCTIONS,
            Blaslt::FUNCTIONS,
            Rocblas::FUNCTIONS,
        ];
        let homes = [Home::Hip, Home::Rtc, Home::Rand, Home::Blaslt, Home::Rocblas];
        for (table, home) in tables.into_iter().zip(homes) {
            assert!(table.iter().all(|function| Home::of(function) == home), "{home:?}");
        }

        let place = |buffer: &str| json!({"buffer": buffer});
        let copy = |to, from, api| json!({"call": "copy", "to": place(to), "from": place(from), "bytes": 4, "api": api, "stream": "s"});
        let copy_2d = |asynchronous: bool| {
            json!({"call": "copy2d", "to": place("device"), "to_pitch": 4, "from": place("pinned"), "from_pitch": 4,
                "width": 4, "height": 1, "asynchronous": asynchronous, "stream": "s"})
        };
        let set = |words: bool, asynchronous: bool| {
            json!({"call": "set", "to": place("device"), "value": 1, "words": words, "bytes": 4,
                "asynchronous": asynchronous, "stream": "s"})
        };
        let create = |host: bool| json!({"call": "rand_create", "generator": "g", "kind": "xorwow", "host": host});
        let multiply = |call: &str| {
            json!({"call": call, "handle": "h", "problem": {"dtype": "f16", "m": 1, "n": 1, "k": 1,
                "transpose_a": false, "transpose_b": false, "bias": false},
                "operands": {"a": "device", "b": "device", "d": "device"}, "stream": "s"})
        };
        let launch = json!({"call": "launch", "kernel": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "args": [], "stream": "s"});
        let host = json!({"call": "host_func", "buffer": "pinned", "api": "launch_host_func", "stream": "s"});
        let node =
            |node: &serde_json::Value| json!({"call": "add_node", "graph": "g", "node": node});
        let mut calls = vec![
            node(&launch),
            node(&host),
            node(&copy("device", "pinned", "memcpy_async")),
            node(&set(false, true)),
            copy("device", "pinned", "memcpy"),
            copy("device", "pinned", "memcpy_async"),
            copy("device", "pinned", "memcpy_with_stream"),
            copy("device", "pinned", "memcpy_directed"),
            copy("pinned", "device", "memcpy_directed"),
            copy("device", "device", "memcpy_directed"),
            copy_2d(true),
            copy_2d(false),
            set(false, true),
            set(false, false),
            set(true, true),
            set(true, false),
            create(true),
            create(false),
            launch,
            json!({"call": "find_symbol", "kernel": "k", "symbol": "v", "variable": true}),
            json!({"call": "host_func", "buffer": "pinned", "api": "add_callback", "stream": "s"}),
            json!({"call": "host_func", "buffer": "pinned", "api": "launch_host_func", "stream": "s"}),
            json!({"call": "stream_wait_event", "stream": "s", "event": "e"}),
            json!({"call": "event_record", "stream": "s", "event": "e"}),
            json!({"call": "event_elapsed", "start": "e", "end": "e"}),
            json!({"call": "device_attribute", "attribute": "warp_size", "device": 0}),
            json!({"call": "begin_capture", "stream": "s", "mode": "global"}),
            json!({"call": "end_capture", "stream": "s", "graph": "g"}),
            json!({"call": "empty_graph", "graph": "g", "nodes": 2}),
            json!({"call": "graph_launch", "exec": "x", "stream": "s"}),
            json!({"call": "rand_seed", "generator": "g", "seed": 1}),
            json!({"call": "rand_offset", "generator": "g", "offset": 1}),
            json!({"call": "rand_stream", "generator": "g", "stream": "s"}),
            json!({"call": "rand_generate", "generator": "g", "to": place("device"), "count": 1}),
            json!({"call": "rand_destroy", "generator": "g"}),
            json!({"call": "blaslt_heuristic", "handle": "h", "problem": {"dtype": "f16", "m": 1, "n": 1, "k": 1,
                "transpose_a": false, "transpose_b": false, "bias": false}}),
            multiply("blaslt_matmul"),
            multiply("rocblas_gemm"),
        ];
        for buffer in
            ["device", "pitched", "device_async", "managed", "pageable", "pinned", "registered"]
        {
            for call in ["alloc", "free", "poison", "guards"] {
                calls.push(json!({"call": call, "buffer": buffer, "stream": "s"}));
            }
        }
        for call in ["compile", "load", "unload"] {
            calls.push(json!({"call": call, "kernel": "k"}));
        }
        for call in [
            "stream_create",
            "stream_destroy",
            "stream_synchronize",
            "stream_query",
            "is_capturing",
        ] {
            calls.push(json!({"call": call, "stream": "s"}));
        }
        for call in ["event_create", "event_destroy", "event_synchronize", "event_query"] {
            calls.push(json!({"call": call, "event": "e"}));
        }
        for call in [
            "graph_node_count",
            "graph_instantiate",
            "graph_exec_update",
            "graph_exec_destroy",
            "graph_destroy",
        ] {
            calls.push(json!({"call": call, "graph": "g", "exec": "x"}));
        }
        for call in ["blaslt_create", "blaslt_destroy", "rocblas_create", "rocblas_destroy"] {
            calls.push(json!({"call": call, "handle": "h"}));
        }
        for call in ["device_synchronize", "get_last_error", "mem_get_info", "trim_pool"] {
            calls.push(json!({"call": call}));
        }
        // What the worker itself calls before set-up and to name a status.
        let own = [
            "hipInit",
            "hipRuntimeGetVersion",
            "hipGetDeviceCount",
            "hipDeviceGetPCIBusId",
            "hipGetDeviceProperties",
            "hipGetDevicePropertiesR0600",
            "hipGetErrorName",
            "hiprtcGetErrorString",
        ];
        let plan = plan(calls.into());
        let needed: BTreeSet<&str> = functions(&plan).into_iter().chain(own).collect();
        let bound: BTreeSet<&str> = tables.into_iter().flatten().copied().collect();
        assert_eq!(needed, bound);
    }
}
