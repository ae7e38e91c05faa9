use std::collections::BTreeSet;

use plan::{Library, Plan};

/// The library to which a function belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FunctionLibrary {
    Hip,
    Rtc,
    Rand,
    Blaslt,
    Rocblas,
}

impl FunctionLibrary {
    /// Returns the library of a function, which the prefix of its name determines.
    pub(crate) fn for_function(function: &str) -> FunctionLibrary {
        const PREFIXES: [(&str, FunctionLibrary); 4] = [
            ("hiprtc", FunctionLibrary::Rtc),
            ("hiprand", FunctionLibrary::Rand),
            ("hipblasLt", FunctionLibrary::Blaslt),
            ("rocblas_", FunctionLibrary::Rocblas),
        ];
        let found = PREFIXES.iter().find(|(prefix, _)| function.starts_with(prefix));
        found.map_or(FunctionLibrary::Hip, |(_, home)| *home)
    }
}

impl From<Library> for FunctionLibrary {
    fn from(library: Library) -> Self {
        match library {
            Library::Hiprand => FunctionLibrary::Rand,
            Library::Hipblaslt => FunctionLibrary::Blaslt,
            Library::Rocblas => FunctionLibrary::Rocblas,
        }
    }
}

pub(crate) fn functions(plan: &Plan) -> BTreeSet<&str> {
    let asked = plan.functions.iter().map(String::as_str);
    let called = plan.steps().into_iter().flat_map(|s| s.call.functions(plan).iter().copied());
    asked.chain(called).collect()
}

pub(crate) fn homes(plan: &Plan) -> BTreeSet<FunctionLibrary> {
    let named = plan.libraries.iter().map(|&library| FunctionLibrary::from(library));
    let called = functions(plan).into_iter().map(FunctionLibrary::for_function);
    named.chain(called).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hip_sys::{Blaslt, Hip, Rand, Rocblas, Rtc};
    use serde_json::json;

    /// Returns a plan that makes `calls` and has one buffer of each kind of memory.
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
    fn check(calls: serde_json::Value, functions_: &[&str], homes_: &[FunctionLibrary]) {
        let plan = plan(calls);
        assert_eq!(functions(&plan), functions_.iter().copied().collect());
        assert_eq!(homes(&plan), homes_.iter().copied().collect());
    }

    #[test]
    fn needed_functions_depend_on_arguments() {
        let alloc = |buffer| json!({"call": "alloc", "buffer": buffer, "stream": "default"});
        check(json!([alloc("device"), alloc("pageable")]), &["hipMalloc"], &[FunctionLibrary::Hip]);
        check(json!([alloc("managed")]), &["hipMallocManaged"], &[FunctionLibrary::Hip]);
        check(json!([{"call": "poison", "buffer": "pinned"}]), &[], &[]);
        check(
            json!([{"call": "poison", "buffer": "device"}]),
            &["hipMemset"],
            &[FunctionLibrary::Hip],
        );
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
            &[FunctionLibrary::Hip],
        );
        let create =
            |host| json!({"call": "rand_create", "generator": "g", "kind": "philox", "host": host});
        check(json!([create(true)]), &["hiprandCreateGeneratorHost"], &[FunctionLibrary::Rand]);
        check(
            json!([{"call": "repeat", "count": 2, "body": [
                {"id": 9, "call": "thread", "body": [{"id": 10, "call": "rocblas_create", "handle": "h"}]},
            ]}]),
            &["rocblas_create_handle"],
            &[FunctionLibrary::Rocblas],
        );
    }

    /// Checks that the worker can call every function that a plan may need. If a name were misspelt, every trial that
    /// needs the function would be skipped. A function without an entry in a table is called by the name in its
    /// declaration, which the exported C++ program also uses.
    #[test]
    fn every_needed_function_has_a_binding() {
        let tables = [
            Hip::FUNCTIONS,
            Rtc::FUNCTIONS,
            Rand::FUNCTIONS,
            Blaslt::FUNCTIONS,
            Rocblas::FUNCTIONS,
        ];
        let homes = [
            FunctionLibrary::Hip,
            FunctionLibrary::Rtc,
            FunctionLibrary::Rand,
            FunctionLibrary::Blaslt,
            FunctionLibrary::Rocblas,
        ];
        for (table, home) in tables.into_iter().zip(homes) {
            assert!(
                table.iter().all(|function| FunctionLibrary::for_function(function) == home),
                "{home:?}"
            );
        }
        // The worker calls these functions itself, before the set-up or to get the name of a status.
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
        let needed: BTreeSet<&str> = plan::functions().chain(own).collect();
        let bound: BTreeSet<&str> = tables.into_iter().flatten().copied().collect();
        assert!(bound.is_subset(&needed), "{:?}", bound.difference(&needed));
        for function in needed.difference(&bound) {
            let called_by_table = plan::hip_function(function).is_some();
            let in_cpp = plan::is_output_argument(function, 0).is_some();
            assert!(
                called_by_table || in_cpp,
                "neither the worker nor the exported C++ program calls {function}"
            );
        }
    }
}
