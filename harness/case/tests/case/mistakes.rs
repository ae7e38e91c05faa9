//! Tests of the messages for invalid cases. All mistakes of a file are reported at once, each with its position and, if
//! a known name is similar, a suggestion.

use case::{Kernels, mistakes};

/// Returns all mistakes in a case file as text, including those that are found when its trials are lowered.
fn messages(text: &str) -> String {
    let kernels: Kernels =
        plan::KERNELS.iter().map(|k| (k.name.to_owned(), String::new())).collect();
    let mut out = String::new();
    for m in mistakes("family/case", text, &kernels) {
        out += &format!("  {}:{} ({}) {}\n", m.at.line, m.at.column, m.at.length, m.message);
        if let Some(help) = m.help {
            out += &format!("      help: {help}\n");
        }
    }
    if out.is_empty() { "  nothing\n".to_owned() } else { out }
}

const OWN: &str = "kernels:\n  own:\n    source: 'struct S { int a; float b; }; extern \"C\" __global__ void own(float *out, const float *in, unsigned x, short y, float z, S s) {}'\n    computes: out[i] = in[i]\n";

/// Returns a valid case with the given steps. `head` is inserted before `buffers`.
fn with(head: &str, steps: &str) -> String {
    format!(
        "title: A case\nsource: a document\nfaults: copy.zero\n{head}buffers:\n  src: {{on: host.pinned, bytes: 64, fill: \
         pattern}}\n  dst: {{on: device, bytes: 64}}\n  big: {{on: device, bytes: 128}}\nsteps:\n{steps}"
    )
}

#[test]
fn mistakes_have_positions_and_suggestions() {
    let copy = "  - copy: {to: dst, from: src}\n";
    let table: &[(&str, String)] = &[
        ("nothing is wrong", with("", copy)),
        ("not YAML", "title: [A case\nsteps: - x".to_owned()),
        ("an empty file", String::new()),
        ("two documents", format!("{}---\ntitle: Another\n", with("", copy))),
        ("a list instead of a case", "- title: A case\n".to_owned()),
        ("a misspelt key", with("matirx: {bytes: [1]}\n", copy)),
        ("nothing but a folder of buffers", "buffers: {}\n".to_owned()),
        ("no fault", "title: A case\nsource: x\nsteps: [{sync: device}]\n".to_owned()),
        ("a key given twice", with("title: Again\n", copy)),
        ("an unknown fault", with("", copy).replace("copy.zero", "[copy.zeros, warp.core]")),
        ("parameters of faults", with("", copy).replace(
            "copy.zero",
            "[{fault: copy.late, with: {ms: soon, speed: 1}}, {fault: graph.launch-lost, with: {probability: 1.5, per: thread}}, {fault: copy.torn, with: {probability: 0.5, per: process, seed: 2 * 3}}]",
        )),
        ("faults that do nothing", with("", copy).replace(
            "copy.zero",
            "[{fault: launch.slow, with: {factor: 0, ms: 2H}}, {fault: copy.misplaced, with: {bytes: 64K}}, {fault: queue.error, with: {dispatch: 0}}, {fault: call.ignored, with: {call: hipMaloc}}]",
        )),
        ("needs of a device that cannot be", with(
            "matrix: {bar: [yes, maybe]}\nneeds: {device: {large-bar: $bar, memory: lots, gtt: $gtt, largebar: yes}}\n",
            copy,
        )),
        ("expectations without a source", with(
            "expectation: [{kind: cuda, source: x}, {kind: cuda, source: x, date: today}, {kind: difference, source: x}, {kind: folklore, source: x}, {kind: documented}, {kind: difference, source: x, signature: 'wrong-dta:*'}]\n",
            copy,
        )),
        ("an upstream link without number", with("upstream: [ROCm/clr, x/y#z]\n", copy)),
        ("an axis that the matrix lacks", with("matrix: {bytes: [1, 2]}\n", "  - sleep: $byte\n")),
        (
            "a value that the axis lacks",
            with(
                "matrix: {host: [pinned]}\nexclude: [{host: pined}]\nknown: [{rocm: '*', on: {hots: pinned}, signature: teardown-crash}]\n",
                copy,
            ),
        ),
        ("an axis without values and one with a repeat", with("matrix: {a: [], b: [1, 1], c: 'x=y'}\n", copy)),
        ("no trial is left", with("matrix: {a: [1]}\nexclude: [{a: 1}]\n", copy)),
        ("a misspelt verb", with("", "  - cpy: {to: dst, from: src}\n  - teleport: dst\n")),
        ("two verbs in one step", with("", "  - sync: device\n    check: src\n")),
        ("a step without verb", with("", "  - returns: hipSuccess\n  - sync\n")),
        ("a misspelt key of a verb", with("", "  - copy: {too: dst, from: src}\n")),
        ("an unknown buffer", with("", "  - copy: {to: dts, from: src}\n  - check: nowhere_near\n")),
        ("an unknown kernel", with("", "  - launch: {kernel: sapxy_f32}\n")),
        ("too few kernel arguments", with("", "  - launch: {kernel: add_u32, args: [dst, src, 16]}\n")),
        ("kernel arguments of the wrong kind", with("", "  - launch: {kernel: add_u32, args: [dst, 5, src, -1]}\n")),
        (
            "arguments that an own kernel does not take",
            with(OWN, "  - launch: {kernel: own, args: [1, src, -1, 70000, {f64: 1}, {struct: [1, {f32: x}]}]}\n"),
        ),
        (
            "structs that an own kernel does not take",
            with(OWN, "  - launch: {kernel: own, args: [dst, src, 1, 1, 1, {struct: [1, 2, 3]}]}\n  \
                       - launch: {kernel: own, args: [dst, src, 1, 1, 1, 5]}\n  \
                       - launch: {kernel: own, args: [dst, src, 1, 1, 1, {struct: [dst, {f64: 1}]}]}\n  \
                       - launch: {kernel: own, args: [dst, src, 1, 1, 1, {bytes: 00}]}\n"),
        ),
        (
            "a struct that the source does not have",
            with(&OWN.replace("int a; float b;", "Unknown a;"), "  - launch: {kernel: own, args: [dst, src, 1, 1, 1, {struct: [1]}]}\n"),
        ),
        ("too many for an own kernel", with(OWN, "  - launch: {kernel: own, args: [dst, src, 1, 1, 1, {bytes: 0a1}, 2]}\n")),
        (
            "formulas that are none",
            with(&OWN.replace("out[i] = in[i]", "['in[0] = 1', 'out[i] = in[i] +', 'out[i] = in + y', 'out[i] = z % 2', 'out[i] = s', 'out[i] = 1 for i < w']"), ""),
        ),
        ("a formula that leaves its buffer", with(OWN, "  - launch: {kernel: own, args: [dst, src, 1, 1, 1, {struct: [1, 2]}], items: 65}\n")),
        ("a grid and items", with("", "  - launch: {kernel: copy_u32, args: [dst, src, 16], items: 16, grid: [1]}\n")),
        ("sizes that differ", with("", "  - copy: {to: big, from: src}\n")),
        (
            "a comparison of sizes that differ",
            with("", "  - copy: {to: dst, from: src}\n  - equal: [big, dst]\n"),
        ),
        (
            "buffers with the names of those that lowering adds",
            with("", "  - copy: {to: dst, from: src}\n  - check: dst\n").replace(
                "steps:",
                "  dst.back: {on: host.pageable, bytes: 64}\n  in: {on: device, bytes: 4, fill: pattern}\n  in.initial: {on: \
                 host.pageable, bytes: 4}\nsteps:",
            ),
        ),
        (
            "misspelt streams and events",
            with(
                "matrix: {which: [copying, computing]}\n",
                "  - copy: {to: dst, from: src, stream: copying}\n  - record: {event: copied, stream: copying}\n  \
                 - wait: {stream: $which, event: coppied}\n  - sync: coping\n  - sync: $which\n  - query_event: copied\n",
            ),
        ),
        (
            "statuses that do not exist, and those of other libraries",
            with(
                "",
                "  - get_last_error:\n    returns: hipErrorInvalidValu\n  - sync: device\n    returns: \
                 HIPRAND_STATUS_NOT_INITIALIZED\n  - rand_create: {generator: g}\n    returns: hipErrorInvalidValue\n",
            ),
        ),
        ("a copy past the end", with("", "  - copy: {to: dst, to_offset: 32, from: src, bytes: 64}\n")),
        (
            "sizes that nothing has",
            with(
                "",
                "  - copy_2d: {to: dst, to_pitch: 6116889093886327012, from: src, width: 4, height: 5}\n  \
                 - copy_2d: {to: dst, from: src, width: 4, height: 5000000000000000000}\n  \
                 - copy_2d: {to: dst, to_pitch: 3, from: src, width: 4, height: 2}\n  \
                 - set: {to: dst, value: 0, bytes: 8000000000000000000}\n",
            ),
        ),
        (
            "lower bounds that are none",
            with("", "  - at_least: {buffer: src, type: u24, value: 1}\n  - at_least: {buffer: src, type: u8, value: 256}\n  - at_least: {buffer: dst, type: u16, value: 1}\n  - at_least: src\n")
                .replace("dst: {on: device, bytes: 64}", "dst: {on: device, bytes: 63}"),
        ),
        ("numbers that are none", with("", "  - sleep: 1-2\n  - sleep: soon\n  - set: {to: dst, value: 256}\n")),
        (
            "a race",
            with("", "  - copy: {to: dst, from: src, stream: s}\n  - fill: src\n"),
        ),
        (
            "a race in one trial",
            with(
                "matrix: {wait: ['yes', 'no']}\n",
                "  - copy: {to: dst, from: src, stream: s}\n  - sync: s\n    when: {wait: 'yes'}\n  - fill: src\n",
            ),
        ),
        ("use after free", with("", "  - free: dst\n  - copy: {to: dst, from: src}\n")),
        ("a check of what was never written", with("", "  - check: dst\n")),
        ("bad ranges of versions", with("needs: {rocm: '7'}\nknown: [{rocm: '>=7.0 <6.0', signature: teardown-crash}]\n", copy)),
        (
            "overlapping ranges of versions",
            with("", "  - sync: device\n    returns: {'<7.0': hipSuccess, '>=6.0': hipErrorUnknown}\n"),
        ),
        ("an unknown library and architecture", with("needs: {library: [hiprnd], gfx: [rdna3]}\n", copy)),
        (
            "architectures that do not exist, and one that cannot be emulated",
            with("needs: {gfx: [gfx9999, gfx950, gfx90a:xnack+, GFX1151]}\nknown: [{rocm: '*', gfx: gfx115, signature: teardown-crash}, {rocm: '*', gfx: [], signature: teardown-crash}]\n", copy),
        ),
        ("faults that never happen", with("", copy).replace(
            "copy.zero",
            "[{fault: copy.zero, with: {probability: 0, per: process}}, {fault: copy.torn, with: {probability: 0.0}}]",
        )),
        ("a graph that was never captured", with("", "  - instantiate: {exec: x, graph: g}\n  - end_capture: {stream: s, graph: g}\n")),
        ("an expectation that is a step", with("expect: [{sync: device}, {sync: device, returns: hipSuccess}]\n", copy)),
        ("misspelt expectations", with("expect: [{chek: dst}, check, [{check: dst}], {check: dts}]\n", copy)),
        ("a memory kind that is none", with("", copy).replace("host.pinned", "host.pined").replace("bytes: 128", "bytes: 0")),
        (
            "blocks in blocks that never end",
            with("", "  - repeat: {count: 1001, steps: [{repeat: {count: 1000, steps: [{set: {to: dst, value: 0}}]}}]}\n"),
        ),
        (
            "buffers that no host has room for",
            with("matrix: {n: [4096M]}\n", copy).replace("bytes: 128}", "bytes: $n}\n  b: {on: device, bytes: $n}\n  c: {on: device, bytes: $n}\n  d: {on: device, bytes: $n}"),
        ),
        (
            "several mistakes at once",
            "titel: A case\nupstream: nowhere\nmatrix: {a: [1], b: []}\nneeds: {rocm: new}\nfaults: [copy.none]\nsteps: []\n".to_owned(),
        ),
        ("mistakes in header and steps", with(
            "upstream: nowhere\nneeds: {rocm: new}\nknown: [{rocm: '*', singature: 'hang:*'}]\nmatrix: {host: [pinned]}\n",
            "  - copy: {to: dts, from: src}\n  - check: dst\n",
        ).replace("copy.zero", "[copy.zeros]")),
        ("a mistake in the header and one that shows in a trial", with(
            "matrix: {wait: ['yes', 'no']}\nneeds: {gfx: [rdna3]}\n",
            "  - copy: {to: dst, from: src, stream: s}\n  - sync: s\n    when: {wait: 'yes'}\n  - fill: src\n",
        )),
        ("an axis without values that many steps name", with(
            "matrix: {n: [], m: [1]}\n",
            "  - sleep: $n\n  - sleep: ${n}0\n  - sleep: $m\n  - sleep: $k\n  - check: nothing\n    when: {n: 5}\n",
        ).replace("bytes: 128", "bytes: $n")),
        ("a matrix that is none", with("matrix: 7\nexclude: [{a: 1}]\n", "  - sleep: $n\n    when: {a: 1}\n  - check: $b\n  - chekc: dst\n")),
        ("an axis with an odd name", with(
            "matrix: {a-b: [1], c: [1]}\nexclude: [{d: 1}]\n",
            "  - sleep: $a-b\n  - sleep: ${a-b}\n  - sleep: $c\n  - sleep: $d\n  - sleep: 1\n    when: {e: 1}\n  - sleep: $\n",
        )),
        ("an axis without a name", with("matrix: {'': [1]}\n", "  - sleep: $\n  - sleep: $d\n")),
        ("an axis whose default has a misspelt key", with("matrix: {a: {defualt: 1, values: [1]}}\n", "  - sleep: $a\n  - chekc: dst\n")),
        ("a misspelt matrix and steps", with("matirx: {n: [1]}\n", "  - sleep: $n\n  - chekc: dst\n").replace("steps:", "stesp:")),
        ("a matrix that is too large", with("matrix: {a: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], b: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], c: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], d: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}\n", "  - sleep: $a\n  - chekc: dst\n")),
        ("an exclusion that cannot be read leaves no trial in doubt", with(
            "matrix: {to: [dst, nowhere]}\nexclude: [{too: nowhere}]\n",
            "  - copy: {to: $to, from: src}\n  - fill: source\n",
        )),
        ("buffers, kernels and streams that are not mappings", with("streams: [s]\nkernels: own\n", "  - copy: {to: a, from: b, stream: s}\n  - launch: {kernel: own}\n  - chekc: a\n")
            .replace("buffers:\n", "buffers: [dst]\nenvironment: none\nx:\n")),
        ("a key given twice, and a step", with("title: Again\n", "  - fill: source\n")),
        ("a key given twice, and no YAML behind it", with("title: >-, Again\n", copy)),
        ("numbers as other languages write them", with("", copy).replace("bytes: 128", "bytes: 0x40").replace("bytes: 64, fill", "bytes: -1, fill").replace("device, bytes: 64", "device, bytes: 1G")),
        ("statuses and values that no call answers", with("", concat!(
            "  - copy: {to: dst, from: src}\n    returns: hipSucces\n",
            "  - copy: {to: dst, from: src}\n    returns: {'<7.0': [hipSuccess, 0], '>=7.0': hipErrorInvalidValue}\n",
            "  - copy: {to: dst, from: src}\n    gives: 7\n",
            "  - is_capturing: s\n    gives: [actve, 1]\n",
            "  - node_count: g\n    gives: [many, '>= 2', 3]\n",
            "  - mem_info: src\n    gives: returnd\n",
        ))),
        ("launches that are refused", with("", concat!(
            "  - launch: {kernel: copy_u32, args: [dst, src, 16], grid: 0}\n",
            "  - launch: {kernel: copy_u32, args: [dst, src, 16], block: [64, 64]}\n",
            "  - launch: {kernel: copy_u32, args: [dst, src, 16], grid: [4294967295, 4294967295, 4294967295]}\n",
            "  - launch: {kernel: copy_u32, args: [dst, src, 16], grid: 0}\n    returns: hipErrorInvalidConfiguration\n",
        ))),
        ("steps that do nothing", with("", concat!(
            "  - repeat: {count: 2, steps: []}\n  - thread: []\n  - sleep: 99999999999\n  - equal: [src, src]\n",
            "  - launch: {kernel: saxpy_f32, args: [dst, src, 16, 1e999]}\n  - sync: s\n  - query: device\n",
        ))),
        ("copies within a buffer", with("", "  - copy: {to: src, from: src, from_offset: 4, bytes: 32}\n  - copy: {to: src, from: src, from_offset: 32, bytes: 32}\n")),
        ("what is there is made again", with("", concat!(
            "  - rand_create: {generator: g}\n  - rand_create: {generator: g}\n",
            "  - begin_capture: {stream: s}\n  - end_capture: {stream: s, graph: g}\n",
            "  - begin_capture: {stream: s}\n  - end_capture: {stream: s, graph: g}\n",
            "  - instantiate: {exec: x, graph: g}\n  - instantiate: {exec: x, graph: g}\n",
        ))),
        ("the default stream is made", with("", "  - create_stream: default\n")),
        ("what no step made is destroyed", with("", "  - rocblas_destroy: h\n  - destroy_exec: x\n  - destroy_graph: g\n  - node_count: g\n")),
        ("names that nothing can have", with(
            "environment: {A=B: 1, '': x, C: \"\\0\"}\nstreams: {default: blocking, device: blocking, '': blocking}\nkernels: {a b: x}\n",
            copy,
        ).replace("  big:", "  16: {on: device, bytes: 4}\n  big:")),
        ("lists without values", with("upstream: []\nneeds: {function: []}\nmatrix: {n: [1]}\nexclude: [{n: []}]\n", copy)),
        ("a fault declared twice for a trial", with("matrix: {n: [1, 2]}\n", copy).replace(
            "copy.zero",
            "[{fault: copy.zero, on: {n: 1}}, {fault: copy.zero, on: {n: 2}}, {fault: copy.zero, signature: teardown-crash}, copy.drop]",
        )),
        ("a fault declared twice, on unknown trials", with("matrix: {n: [1, 2]}\n", copy).replace(
            "copy.zero",
            "[{fault: copy.zero, on: {m: 1}}, {fault: copy.zero, on: {n: 2}}]",
        )),
        ("an invalid issue of a `known` entry", with("known: [{rocm: '*', signature: teardown-crash, upstream: '#7'}]\n", copy)),
        ("lines that end as on Windows", with("", "  - cpy: {to: dst, from: src}\n").replace('\n', "\r\n")),
        ("a tab", with("", "\t- sync: device\n")),
        ("a fill of device memory", with("", &format!("{copy}  - fill: dst\n"))),
        ("a capture that is never ended", with("streams: {s: non_blocking}\n", &format!("{copy}  - begin_capture: {{stream: s}}\n"))),
        ("several mistakes in steps", with("", "  - copy: {to: a, from: b}\n  - set: {to: dst}\n  - sync: [s]\n  - repeat: {count: 0, steps: [{chekc: dst}]}\n")),
    ];
    let report: String =
        table.iter().map(|(name, text)| format!("{name}\n{}\n", messages(text))).collect();
    insta::assert_snapshot!("mistakes", report);
}
