//! Tests that every verb of the case language is read, and that the analyses consider its effects on order, on the
//! existence of objects, and on written memory.

use std::collections::BTreeSet;

use case::{Case, Kernels, analyse, lower, mistakes};
use plan::{Call, CaptureHandling, CppForm, HipFunction, HipRole, MemoryEffect, WorkStream};

use super::texts::{KERNELS, PLANS};

const HEAD: &str = "\
title: t
source: s
faults: copy.zero
streams: {s: non_blocking, t: non_blocking}
buffers:
  in: {on: host.pinned, bytes: 64, fill: pattern}
  also: {on: host.pinned, bytes: 64, fill: pattern}
  dst: {on: device, bytes: 64, fill: zero}
  new: {on: device.async, bytes: 64}
steps:
";

/// Steps that capture work, create a graph, and instantiate it. The kernel writes `dst`.
const GRAPH: &str = "begin_capture: {stream: s}
launch: {kernel: add_u32, args: [dst, in, 16, 1], items: 16, stream: s}
end_capture: {stream: s, graph: g}
instantiate: {exec: x, graph: g}";
const CAPTURED: &str = "begin_capture: {stream: s}
set: {to: new, value: 1, async: true, stream: s}
end_capture: {stream: s, graph: g}
instantiate: {exec: x, graph: g}";
const MADE: &str = "empty_graph: {graph: g, nodes: 0}";
const RUN: &str = "instantiate: {exec: x, graph: g}\nlaunch_graph: {exec: x, stream: s}";
const LAUNCHED: &str = "launch: {kernel: add_u32, args: [dst, in, 16, 1], items: 16, stream: s}";
/// Steps that read, on another stream, the bytes that the graph writes.
const READS: &str = "copy: {to: also, from: dst, stream: t}\nsync: t";
const HANDLE: &str = "blaslt_create: h";
const FILLED: &str = "fill: {buffer: in, numbers: f32}\nfill: {buffer: also, numbers: f32}";
const PROBLEM: &str = "handle: h, dtype: f32, m: 2, n: 2, k: 2";

/// A test of a verb: the verb, the steps that must precede it, the step with the verb, and further steps that must be
/// rejected after it, each with a part of the expected message.
type Kind = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const STEPS: &[Kind] = &[
    (
        "alloc",
        "",
        "alloc: {buffer: new, stream: s}",
        &[("set: {to: new, value: 1, async: true, stream: t}", ORDER)],
    ),
    (
        "free",
        "alloc: {buffer: new, stream: s}",
        "free: {buffer: new, stream: s}",
        &[
            ("set: {to: new, value: 1, async: true, stream: s}", "after it was freed"),
            (
                "alloc: {buffer: new, stream: s}\nCAPTURED\nfree: {buffer: new, stream: s}\nalloc: {buffer: new, stream: \
                 s}\nlaunch_graph: {exec: x, stream: s}",
                "uses its old memory",
            ),
        ],
    ),
    ("free_address", "", "free_address: 4096", &[]),
    ("fill", LAUNCHED, "fill: also", &[("fill: in", ORDER)]),
    ("copy", "", "copy: {to: dst, from: in, stream: s}", &[(READS, ORDER), ("fill: in", ORDER)]),
    (
        "copy_2d",
        "",
        "copy_2d: {to: dst, from: in, width: 8, height: 8, async: true, stream: s}",
        &[(READS, ORDER), ("copy_2d: {to: dst, from: in, width: 9, height: 8}", "lie outside")],
    ),
    (
        "copy_3d",
        "",
        "copy_3d: {to: dst, from: in, width: 4, height: 4, depth: 4, async: true, stream: s}",
        &[
            (READS, ORDER),
            ("fill: in", ORDER),
            ("copy_3d: {to: dst, from: in, width: 4, height: 4, depth: 5}", "lie outside"),
            (
                "copy_3d: {to: dst, to_pitch: 3, from: in, width: 4, height: 4}",
                "do not fit into a pitch of 3 bytes",
            ),
            (
                "copy_3d: {to: dst, to_rows: 1, from: in, width: 4, height: 2, depth: 2}",
                "of a slice",
            ),
            (
                "copy_3d: {to: dst, to_at: [0, 0, 3], from: dst, width: 4, height: 4, depth: 1, from_at: [0, 3, 2]}",
                "overlap",
            ),
        ],
    ),
    (
        "set_rows",
        "",
        "set_rows: {to: dst, pitch: 8, value: 1, width: 4, height: 8, async: true, stream: s}",
        &[(READS, ORDER), ("set_rows: {to: dst, value: 1, width: 9, height: 8}", "lie outside")],
    ),
    ("set", "", "set: {to: dst, value: 1, async: true, stream: s}", &[(READS, ORDER)]),
    // A synchronous call executes its work in the null stream, even if it names another stream.
    (
        "set",
        "",
        "set: {to: dst, value: 1, async: false, stream: s}",
        &[("copy: {to: also, from: dst, stream: s}\nsync: s", ORDER)],
    ),
    ("launch", "", LAUNCHED, &[(READS, ORDER)]),
    ("find_symbol", "", "find_symbol: {kernel: add_u32, symbol: add_u32}", &[]),
    ("host_func", "", "host_func: {buffer: in, stream: s}", &[("check: in", ORDER)]),
    ("sync", "", "sync: s", &[]),
    ("sync_event", "record: {event: e, stream: s}", "sync_event: e", &[]),
    ("query", "", "query: s", &[]),
    ("query_event", "record: {event: e, stream: s}", "query_event: e", &[]),
    ("elapsed", "record: {event: e, stream: s}\nsync: s", "elapsed: {start: e, end: e}", &[]),
    ("record", "", "record: {event: e, stream: s}", &[]),
    ("wait", "record: {event: e, stream: s}", "wait: {event: e, stream: t}", &[]),
    (
        "begin_capture",
        "",
        "begin_capture: {stream: s}\nend_capture: {stream: s, graph: g}",
        &[
            ("end_capture: {stream: s, graph: h}", "is not capturing"),
            ("begin_capture: {stream: t}", "is never ended"),
        ],
    ),
    (
        "end_capture",
        "begin_capture: {stream: s}",
        "end_capture: {stream: s, graph: g}",
        &[("end_capture: {stream: s, graph: h}", "is not capturing")],
    ),
    ("empty_graph", "", "empty_graph: {graph: g, nodes: 2}", &[("node_count: h", "was not made")]),
    // The graph is built node by node. Its launch must be rejected.
    (
        "copy",
        MADE,
        "copy: {to: dst, from: in, graph: g}",
        &[("RUN\nREADS", ORDER), ("RUN\nfill: in", ORDER)],
    ),
    ("set", MADE, "set: {to: dst, value: 1, graph: g}", &[("RUN\nREADS", ORDER)]),
    (
        "launch",
        MADE,
        "launch: {kernel: add_u32, args: [dst, in, 16, 1], items: 16, graph: g}",
        &[
            ("RUN\nREADS", ORDER),
            ("copy: {to: dst, from: in, graph: h}", "was not made"),
            ("copy: {to: dst, from: in, graph: g, stream: s, api: memcpy}", "which has no `api`"),
            ("set: {to: dst, value: 1, graph: g, async: true}", "which has no `async`"),
            (
                "begin_capture: {stream: s}\nLAUNCHED\nend_capture: {stream: s, graph: c}\nset: {to: dst, value: 1, graph: c}",
                "comes from a capture",
            ),
        ],
    ),
    ("host_func", MADE, "host_func: {buffer: in, graph: g}", &[("RUN\ncheck: in", ORDER)]),
    (
        "child_graph",
        "MADE\nset: {to: dst, value: 1, graph: g}\nempty_graph: {graph: p, nodes: 1}",
        "child_graph: {graph: p, child: g}",
        &[
            ("instantiate: {exec: x, graph: p}\nlaunch_graph: {exec: x, stream: s}\nREADS", ORDER),
            ("child_graph: {graph: p, child: h}", "was not made"),
            (
                "begin_capture: {stream: s}\nend_capture: {stream: s, graph: c}\nchild_graph: {graph: c, child: g}",
                "comes from a capture",
            ),
        ],
    ),
    (
        "clone_graph",
        GRAPH,
        "clone_graph: {clone: c, graph: g}",
        &[
            ("instantiate: {exec: y, graph: c}\nlaunch_graph: {exec: y, stream: s}\nREADS", ORDER),
            ("clone_graph: {clone: d, graph: h}", "was not made"),
        ],
    ),
    ("root_count", GRAPH, "root_count: g", &[("root_count: h", "was not made")]),
    ("edge_count", GRAPH, "edge_count: g", &[("edge_count: h", "was not made")]),
    ("is_capturing", "", "is_capturing: s", &[]),
    ("node_count", GRAPH, "node_count: g", &[("node_count: h", "was not made")]),
    (
        "instantiate",
        "empty_graph: {graph: g, nodes: 1}",
        "instantiate: {exec: x, graph: g}",
        &[
            ("instantiate: {exec: y, graph: h}", "was not made"),
            ("launch_graph: {exec: y, stream: s}", "was not instantiated"),
        ],
    ),
    (
        "launch_graph",
        GRAPH,
        "launch_graph: {exec: x, stream: s}",
        &[(READS, ORDER), ("fill: in", ORDER)],
    ),
    (
        "update_graph",
        GRAPH,
        "update_graph: {exec: x, graph: g}",
        &[("update_graph: {exec: y, graph: g}", "was not inst")],
    ),
    (
        "destroy_exec",
        GRAPH,
        "destroy_exec: x",
        &[("launch_graph: {exec: x, stream: s}", "was destroyed before")],
    ),
    (
        "destroy_graph",
        GRAPH,
        "destroy_graph: g",
        &[("instantiate: {exec: y, graph: g}", "was destroyed before")],
    ),
    ("get_last_error", "", "get_last_error:", &[]),
    ("mem_info", "", "mem_info:", &[]),
    ("device_attribute", "", "device_attribute: {attribute: warp_size}", &[]),
    ("trim_pool", "", "trim_pool:", &[]),
    ("create_stream", "", "create_stream: c", &[]),
    ("destroy_stream", LAUNCHED, "destroy_stream: s", &[("fill: in", ORDER)]),
    (
        "rand_create",
        "",
        "rand_create: {generator: g}",
        &[("rand_seed: {generator: h, seed: 1}", "generator `h` does not exist")],
    ),
    ("rand_seed", "rand_create: {generator: g}", "rand_seed: {generator: g, seed: 1}", &[]),
    ("rand_offset", "rand_create: {generator: g}", "rand_offset: {generator: g, offset: 1}", &[]),
    (
        "rand_stream",
        "rand_create: {generator: g}",
        "rand_stream: {generator: g, stream: s}",
        &[(
            "rand_generate: {generator: g, to: dst}\ncopy: {to: also, from: dst, stream: t}\nsync: t",
            ORDER,
        )],
    ),
    (
        "rand_generate",
        "rand_create: {generator: g}",
        "rand_generate: {generator: g, to: dst}",
        &[(READS, ORDER), ("check: dst", "cannot be computed")],
    ),
    (
        "rand_destroy",
        "rand_create: {generator: g}",
        "rand_destroy: g",
        &[("rand_generate: {generator: g, to: dst}", "generator `g` does not exist")],
    ),
    ("blaslt_create", "", HANDLE, &[("blaslt_destroy: i", "hipBLASLt handle `i` does not exist")]),
    (
        "blaslt_heuristic",
        HANDLE,
        "blaslt_heuristic: {PROBLEM}",
        &[(
            "blaslt_destroy: h\nblaslt_heuristic: {PROBLEM}",
            "hipBLASLt handle `h` does not exist",
        )],
    ),
    (
        "blaslt_matmul",
        "FILLED\nblaslt_create: h",
        "blaslt_matmul: {PROBLEM, a: in, b: also, d: dst, stream: s}",
        &[("copy: {to: in, from: dst, stream: t}", ORDER)],
    ),
    (
        "blaslt_destroy",
        HANDLE,
        "blaslt_destroy: h",
        &[("blaslt_destroy: h", "hipBLASLt handle `h` does not exist")],
    ),
    (
        "rocblas_create",
        "",
        "rocblas_create: h",
        &[("rocblas_destroy: i", "rocBLAS handle `i` does not exist")],
    ),
    (
        "rocblas_gemm",
        "FILLED\nrocblas_create: h",
        "rocblas_gemm: {PROBLEM, a: in, b: also, d: dst, stream: s}",
        &[("copy: {to: in, from: dst, stream: t}", ORDER)],
    ),
    (
        "rocblas_destroy",
        "rocblas_create: h",
        "rocblas_destroy: h",
        &[("rocblas_destroy: h", "rocBLAS handle `h` does not exist")],
    ),
    ("check", "copy: {to: in, from: dst, stream: s}\nsync: s", "check: in", &[]),
    (
        "equal",
        "",
        "equal: [in, also]",
        &[("copy: {to: in, from: dst, stream: s}\nequal: [in, also]", ORDER)],
    ),
    (
        "differ",
        "",
        "differ: [in, also]",
        &[("copy: {to: in, from: dst, stream: s}\ndiffer: [in, also]", ORDER)],
    ),
    (
        "at_least",
        "",
        "at_least: {buffer: in, type: u32, value: 1}",
        &[(
            "copy: {to: in, from: dst, stream: s}\nat_least: {buffer: in, type: u32, value: 1}",
            ORDER,
        )],
    ),
    (
        "hip",
        "",
        "hip: {call: hipMemcpyToSymbolAsync, args: [null, in, 4, 0, 1, s]}",
        &[("fill: in", ORDER), ("hip: {call: hipMemsetD8, args: [dst, 1, 65]}", "lie outside")],
    ),
    (
        "hip",
        "",
        "hip: {call: hipMemcpyFromSymbolAsync, args: [dst, null, 64, 0, 2, s]}",
        &[(READS, ORDER), ("sync: s\ncheck: dst", "cannot be computed")],
    ),
    (
        "hip",
        "",
        "hip: {call: hipMemcpyDtoDAsync, args: [dst, in, 64, s]}",
        &[(READS, ORDER), ("fill: in", ORDER)],
    ),
    (
        "hip_value",
        "hip: {call: hipGetDevice, args: [device]}",
        "hip_value: {of: device}",
        &[
            ("hip_value: {of: devise}", "no earlier `hip` step returns `devise`"),
            ("hip: {call: hipGetDevise, args: [x]}", "unknown function `hipGetDevise`"),
            ("hip: {call: hipGetDevice}", "takes 1 arguments, not 0"),
            ("hip: {call: hipCtxSetCurrent, args: [device]}", "must be a `hipCtx_t`"),
            (
                "hip: {call: hipStreamDestroy, args: [s]}",
                "a value that an earlier `hip` step returned",
            ),
            ("hip: {call: hipDeviceGetName, args: [name, 5000, 0]}", "has room for 4096"),
            ("hip: {call: hipGraphDebugDotPrint, args: [null, ../x, 0]}", "without `/`"),
            ("hip: {call: hipInit, args: [-1]}", "u32"),
            (
                "{hip: {call: hipGetDevice, args: [device]}, returns: hipErrorNoDevice, gives: 0}",
                "returns no value where it must fail, on ROCm *",
            ),
        ],
    ),
    ("sleep", "", "sleep: 1", &[]),
    (
        "repeat",
        "",
        "repeat: {count: 2, steps: [{copy: {to: dst, from: in, stream: s}}]}",
        &[("fill: in", ORDER)],
    ),
    ("thread", "", "thread: [{copy: {to: dst, from: in, stream: s}}]", &[("fill: in", ORDER)]),
];

const ORDER: &str = "order the two";

/// For each verb that waits: the steps before the wait, the step that waits, and steps that are accepted only after it.
const WAITS: &[(&str, &str, &str)] = &[
    (LAUNCHED, "sync: s", READS),
    ("LAUNCHED\nrecord: {event: e, stream: s}", "sync_event: e", READS),
    ("LAUNCHED\nrecord: {event: e, stream: s}", "wait: {event: e, stream: t}", READS),
    (
        "record: {event: e, stream: s}\nLAUNCHED",
        "record: {event: e, stream: s}",
        "wait: {event: e, stream: t}\nREADS",
    ),
    ("LAUNCHED\ncopy: {to: also, from: dst, stream: s}", "sync: device", "check: also"),
];

fn case_of(steps: &str) -> (String, Kernels) {
    let steps = [
        ("CAPTURED", CAPTURED),
        ("MADE", MADE),
        ("FILLED", FILLED),
        ("LAUNCHED", LAUNCHED),
        ("RUN", RUN),
        ("READS", READS),
        ("PROBLEM", PROBLEM),
    ]
    .into_iter()
    .fold(steps.to_owned(), |text, (name, value)| text.replace(name, value));
    let lines: String =
        steps.lines().filter(|l| !l.is_empty()).map(|l| format!("  - {l}\n")).collect();
    let kernels: Kernels =
        plan::KERNELS.iter().map(|k| (k.name.to_owned(), String::new())).collect();
    (format!("{HEAD}{lines}"), kernels)
}

fn messages(steps: &str) -> Vec<String> {
    let (text, kernels) = case_of(steps);
    mistakes("family/case", &text, &kernels).into_iter().map(|m| m.message).collect()
}

/// Returns the names of all effects that the analyses see at the calls of a case's first trial.
fn effects(text: &str, kernels: &Kernels) -> BTreeSet<String> {
    let case = Case::parse("family/case", text).unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"));
    let plan = lower(&case, &case.trials()[0], kernels, &[]).expect("it was checked").plan;
    let named = |effect: &dyn std::fmt::Debug, part: &str| {
        let effect = format!("{effect:?}");
        let name = effect.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        format!("{part} {name}")
    };
    let calls = plan.body.iter().flat_map(|step| [&step.call, step.call.work()]);
    calls
        .flat_map(|call| {
            [
                named(&call.memory_effect(), "memory"),
                named(&call.capture_effect(), "captures"),
                named(&call.order_effect(), "order"),
                named(&call.work_stream(), "works in"),
            ]
        })
        .collect()
}

/// Returns the differences between the declaration of a call and the entry of its function in the table of HIP
/// functions. Compares the C++ arguments, the stream, the effects on memory, and whether a captured call becomes a
/// node.
fn otherwise(call: &Call, function: &HipFunction) -> Vec<String> {
    let mut wrong = Vec::new();
    let CppForm::Function(template) = call.cpp() else { return wrong };
    let arguments = template.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
    let arguments: Vec<&str> = arguments.split(", ").filter(|text| !text.is_empty()).collect();
    if arguments.len() != function.parameters.len() {
        wrong.push(format!("{} arguments", arguments.len()));
    }
    for (argument, parameter) in arguments.iter().zip(&function.parameters) {
        let (name, ty) = (parameter.name, parameter.ty);
        let right = match argument.strip_prefix("&{").and_then(|rest| rest.strip_suffix('}')) {
            // The function writes a result or a new handle through this argument.
            Some(given) => {
                let out = matches!(parameter.role, HipRole::Out(_) | HipRole::InOut);
                let of = given.split_once(": ").map(|(_, of)| of);
                out && of.is_none_or(|of| plan::pointed(ty) == Some(of))
            }
            None => match argument.trim_matches(['{', '}']) {
                "stream" => ty == "hipStream_t",
                "event" => ty == "hipEvent_t",
                "graph" => ty == "hipGraph_t",
                "exec" => ty == "hipGraphExec_t",
                // If an argument is named like a parameter of the function, it must be passed to that parameter.
                _ => {
                    !arguments.contains(&&*format!("{{{name}}}"))
                        || *argument == format!("{{{name}}}")
                }
            },
        };
        if !right {
            wrong.push(format!("`{argument}` for `{ty} {name}`"));
        }
    }
    let works = function.parameters.iter().any(|p| matches!(p.role, HipRole::Works));
    let in_capture = match call.in_capture() {
        CaptureHandling::Node => works,
        CaptureHandling::Now => !works,
        CaptureHandling::Refused => true,
    };
    if !in_capture || works != matches!(call.work_stream(), WorkStream::Stream(_)) {
        let (captured, stream) = (call.in_capture(), call.work_stream());
        wrong.push(format!("{captured:?} and {stream:?}, and its stream gets work: {works}"));
    }
    let any = |of: fn(&HipRole) -> bool| function.parameters.iter().any(|p| of(&p.role));
    let sets = function.parameters.iter().find_map(|p| match p.role {
        HipRole::Sets { element, .. } => Some(element),
        _ => None,
    });
    let touches =
        (sets, any(|r| matches!(r, HipRole::Reads(_))), any(|r| matches!(r, HipRole::Writes(_))));
    let declared = match call.memory_effect() {
        MemoryEffect::Set { element, .. } => (Some(element), false, false),
        MemoryEffect::Copy { .. } => (None, true, true),
        _ => (None, false, false),
    };
    if touches != declared {
        wrong.push(format!("{:?}, and its parameters are {touches:?}", call.memory_effect()));
    }
    wrong
}

/// Compares the declarations of calls with the table of functions, which was generated from the headers.
#[test]
fn calls_are_declared_like_their_functions() {
    let (_, kernels) = case_of("");
    let examples = STEPS.iter().map(|(_, before, step, _)| case_of(&format!("{before}\n{step}")).0);
    let texts: Vec<String> = examples.chain(PLANS.values().cloned()).collect();
    let (mut compared, mut wrong) = (BTreeSet::new(), BTreeSet::new());
    for text in texts {
        let case =
            Case::parse("family/case", &text).unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"));
        let kernels = if text.starts_with(HEAD) { &kernels } else { &*KERNELS };
        let plan = analyse(&case, &case.trials()[0], kernels)
            .unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"));
        let unnamed = plan.body.iter().find(|step| step.call.words().is_empty());
        assert!(unnamed.is_none(), "what people read of it: {unnamed:?}");
        for step in plan.steps() {
            let name = plan::api(&step.call, &plan);
            if let Some(function) =
                plan::hip_declared(name).filter(|_| matches!(step.call.cpp(), CppForm::Function(_)))
            {
                compared.insert(name);
                wrong.extend(
                    otherwise(&step.call, function).into_iter().map(|why| format!("{name}: {why}")),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared.len() > 20, "{compared:?}");
}

#[test]
fn every_step_is_read_and_analysed() {
    let verbs: BTreeSet<&str> = plan::verbs().map(|verb| verb.name).collect();
    let tried: BTreeSet<&str> = STEPS.iter().map(|(verb, ..)| *verb).collect();
    assert!(tried.is_subset(&verbs), "{tried:?}");
    // A verb without a test in this file must occur in a case of the library.
    for verb in plan::verbs().filter(|verb| !tried.contains(verb.name)) {
        let step = format!("- {}:", verb.name);
        assert!(PLANS.values().any(|text| text.contains(&step)), "no case has `{}`", verb.name);
    }
    // Each effect of a call needs an example in this file.
    let (_, kernels) = case_of("");
    let steps = STEPS.iter().map(|(_, before, step, _)| format!("{before}\n{step}"));
    let waits = WAITS.iter().map(|(before, step, then)| format!("{before}\n{step}\n{then}"));
    let examples = steps.chain(waits).map(|steps| case_of(&steps).0);
    let seen: BTreeSet<String> = examples.flat_map(|text| effects(&text, &kernels)).collect();
    for (id, text) in PLANS.iter() {
        let done = effects(text, &kernels);
        let missing: Vec<_> = done.difference(&seen).collect();
        assert!(missing.is_empty(), "{id} does what no example here does: {missing:?}");
    }
    for (verb, before, step, wrong) in STEPS {
        assert!(step.starts_with(verb));
        let good = format!("{before}\n{step}");
        assert_eq!(messages(&good), [""; 0], "{verb}: {good}");
        for (then, part) in *wrong {
            let found = messages(&format!("{good}\n{then}"));
            assert!(
                found.iter().any(|message| message.contains(part)),
                "{verb}, then {then}: {found:?}"
            );
            // Without the tested step, the message must disappear. Otherwise another step is its cause.
            if *part == ORDER
                && !["fill", "equal", "differ", "at_least", "rand_stream"].contains(verb)
            {
                let without = messages(&format!("{before}\n{then}"));
                let same = without.iter().any(|message| found.contains(message));
                assert!(!same || *verb == "destroy_stream", "{verb}, {then}: {without:?}");
            }
        }
    }
}

#[test]
fn every_wait_is_analysed() {
    for (before, step, then) in WAITS {
        let with = format!("{before}\n{step}\n{then}");
        assert_eq!(messages(&with), [""; 0], "{with}");
        let without = messages(&format!("{before}\n{then}"));
        assert!(without.iter().any(|message| message.contains(ORDER)), "{step}: {without:?}");
    }
}

/// If a function has a verb of its own, the message names that verb. For an unknown function, the message suggests
/// known functions.
#[test]
fn hip_step_suggests_the_step_of_a_function() {
    let help = |function: &str| {
        let (text, kernels) = case_of(&format!("hip: {{call: {function}}}"));
        let messages = mistakes("a/b", &text, &kernels);
        messages.into_iter().find_map(|mistake| mistake.help).unwrap_or_default()
    };
    assert!(
        help("hipMemcpy").starts_with("use its own step: `copy` with the keys to, from"),
        "{}",
        help("hipMemcpy")
    );
    assert_eq!(help("hipStreamSynchronize"), "use its own step: `sync`");
    let unknown = help("hipNothingLikeThat");
    assert!(
        unknown.ends_with("`rocrepro case explain --functions` lists all functions"),
        "{unknown}"
    );
}
