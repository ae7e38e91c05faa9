//! Tests of the messages for mistakes of people who know HIP, C++ or Python, but not the case language.

use case::{Kernels, mistakes};

/// A mistake: lines of a case, the position at which it is reported, and parts of the message and of the hint.
pub(crate) struct Mistake {
    pub(crate) lines: &'static str,
    pub(crate) at: (u32, u32),
    pub(crate) message: &'static str,
    pub(crate) help: &'static str,
}

pub(crate) const HEAD: &str = "title: A case\nsource: a document\nfaults: copy.zero\n";
pub(crate) const BUFFERS: &str =
    "buffers:\n  a: {on: device, bytes: 64, fill: pattern}\n  b: {on: device, bytes: 64}\nsteps:\n";

fn reported(text: &str) -> String {
    let kernels: Kernels =
        plan::KERNELS.iter().map(|k| (k.name.to_owned(), String::new())).collect();
    let all = mistakes("family/case", text, &kernels);
    let line = |m: &case::Diagnostic| {
        let help = m.help.as_deref().unwrap_or("no hint");
        format!("{}:{} {} | {help}", m.at.line, m.at.column, m.message)
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
pub(crate) fn check(head: &str, Mistake { lines, at, message, help }: &Mistake) {
    let text = format!("{head}{lines}");
    let (line, column) = (at.0 + head.lines().count() as u32, at.1);
    let all = reported(&text);
    let wanted = format!("{line}:{column} ");
    let found = all.lines().find(|line| line.starts_with(&wanted) && line.contains(message));
    assert!(
        found.is_some_and(|found| found.contains(help)),
        "`{message}` with `{help}` is not reported at {line}:{column} of\n{text}\nbut\n{all}"
    );
}

#[test]
fn steps_named_after_hip_functions_have_hints() {
    let head = format!("{HEAD}{BUFFERS}");
    let step = |lines, column, message, help| {
        check(&head, &Mistake { lines, at: (1, column), message, help });
    };
    step(
        "  - hipMemcpyAsync: {to: b, from: a}\n",
        5,
        "unknown step `hipMemcpyAsync`",
        "by the step `copy`",
    );
    step("  - hipStreamSynchronize: s\n", 5, "unknown step", "by the step `sync`");
    step("  - hipMemset: {to: a}\n", 5, "unknown step", "`set`");
    step("  - hipMemcpy2D: {to: b, from: a}\n", 5, "unknown step", "`copy_2d`");
    step("  - synchronize: s\n", 5, "unknown step", "did you mean `sync`?");
    step("  - memcpy: {to: b, from: a}\n", 5, "unknown step", "did you mean `copy`?");
    step("  - hipSetDevice: 0\n", 5, "unknown step", "uses one device");
    step(
        "  - hipDeviceGetLimit: x\n",
        5,
        "unknown step",
        "`hip: {call: hipDeviceGetLimit, args: [pValue, limit]}`",
    );
    step(
        "  - hip: {call: hipSetDevice, args: [0]}\n",
        17,
        "cannot call `hipSetDevice`",
        "uses one device",
    );
    step(
        "  - hip: {call: hipMemcpy2D}\n",
        17,
        "cannot call",
        "`copy_2d` with the keys to, to_pitch, from",
    );
    step(
        "  - hip: {call: hipStreamQuerry}\n",
        17,
        "unknown function",
        "similar names: `hipStreamQuery`, ",
    );
    step("  - hip: {function: hipDeviceGetLimit}\n", 11, "no `function`", "did you mean `call`?");
    step(
        "  - query: {stream: s, returns: hipSuccess}
",
        12,
        "takes a single value",
        "`query: s`",
    );
    step(
        "  - copy: {to: b, from: a, returns: hipSuccess}\n",
        28,
        "no `returns`",
        "in the column of the verb",
    );
    step("  - copy: {dst: b, src: a}\n", 12, "no `dst`", "did you mean `to`?");
    step("  - copy: {to: b, from: a, size: 4}\n", 28, "no `size`", "did you mean `bytes`?");
    step("  - copy: {to: b, from: a, stream: 0}\n", 36, "a stream", "called `default`");
    step("  - sync: nullptr\n", 11, "a stream", "called `default`");
}

#[test]
fn values_of_other_forms_have_hints() {
    let head = format!("{HEAD}{BUFFERS}");
    let step = |lines, at, message, help| check(&head, &Mistake { lines, at, message, help });
    step(
        "  - copy:\n    to: b\n    from: a\n",
        (2, 5),
        "`to` must be indented further than `copy`",
        "a key of `copy`",
    );
    step("  - repeat: 3\n", (1, 13), "`repeat` must be a mapping", "its keys are count, steps");
    step(
        "  - launch: {kernel: copy_u32, args: [b, a, 16], grid: (4,1,1)}\n",
        (1, 56),
        "`grid` must be a whole number",
        "`[4, 1, 1]`",
    );
    step("  - launch: {kernel: copy_u32, args: [b]}\n", (1, 38), "takes 3 arguments, not 1", "");
    step("  - hip: {call: hipDeviceGetLimit}\n", (1, 10), "takes 2 arguments", "pValue, limit");
    step(
        "  - hip: {call: hipDeviceGetLimit, args: [x, hipFuncCachePreferL1]}\n",
        (1, 46),
        "`hipFuncCachePreferL1` is a `hipFuncCache_t`",
        "",
    );
    step(
        "  - hip: {call: hipDeviceGetLimit, args: [x, hipLimitMallocHeap]}\n",
        (1, 46),
        "not the name of a `hipLimit_t`",
        "did you mean `hipLimitMallocHeapSize`?",
    );
    let only_head = |lines, at, message, help| check(HEAD, &Mistake { lines, at, message, help });
    only_head(
        "matrix: {x: [\"\", a]}\nsteps: [{sync: device}]\n",
        (1, 14),
        "must not be empty",
        "",
    );
    only_head(
        "kernels: {k: k.hip}\nsteps: [{sync: device}]\n",
        (1, 14),
        "the name of a file",
        "`k.hip` next to the case",
    );
    only_head(
        "kernels: {k: '__global__ void k(int *a) {}'}\nsteps: [{sync: device}]\n",
        (1, 11),
        "not `extern \"C\"`",
        "`extern \"C\" __global__ void k(...)`",
    );
    only_head(
        "kernels: {k: 'extern \"C\" __global__ void other(int *a) {}'}\nsteps: [{sync: device}]\n",
        (1, 11),
        "defines no `k`",
        "",
    );
    only_head(
        "program: {cpp: repro.cu, says: PASS}\n",
        (1, 16),
        "the name of a file",
        "must end in `.cpp`, `.hip`, `.cc`, `.cxx`",
    );
    only_head(
        "program: {python: src/repro.py, says: PASS}\n",
        (1, 19),
        "the name of a file",
        "without a folder",
    );
    only_head(
        "upstream: [ROCm/hip #13]\nsteps: [{sync: device}]\n",
        (1, 21),
        "` #` begins a comment",
        "`ROCm/hip#13`",
    );
    only_head("steps:\n\u{a0} - sync: device\n", (2, 1), "U+00A0", "ASCII spaces");
    only_head(
        "program:\n  says: PASS\n  python: |\n    import os\n    x = 1\n    print(\"$HOME\")\n",
        (6, 12),
        "no axis `HOME`",
        "`$$`",
    );
}

#[test]
fn numbers_and_names_of_headers_are_read() {
    let valid = |lines: &str| {
        assert_eq!(reported(&format!("{HEAD}{lines}")), "", "{lines}");
    };
    valid(
        "buffers: {a: {on: device, bytes: 0x40, fill: pattern}}\nsteps: [{set: {to: a, value: 0xff}}]\n",
    );
    valid("steps:\n  - hip: {call: hipDeviceGetLimit, args: [x, hipLimitMallocHeapSize]}\n");
    valid("steps:\n  - hip: {call: hipStreamCreateWithFlags, args: [x, hipStreamNonBlocking]}\n");
}

#[test]
fn names_of_headers_are_their_numbers() {
    let text = |limit: &str| {
        format!("{HEAD}steps:\n  - hip: {{call: hipDeviceGetLimit, args: [x, {limit}]}}\n")
    };
    let plan = |limit: &str| {
        let case = case::Case::parse("family/case", &text(limit)).expect("a case");
        let trial = case.trials().remove(0);
        case::analyse(&case, &trial, &Kernels::new()).expect("a plan")
    };
    // hipLimitMallocHeapSize of driver_types.h.
    assert_eq!(plan("hipLimitMallocHeapSize"), plan("2"));
    assert_ne!(plan("hipLimitMallocHeapSize"), plan("0"));
}

#[test]
fn words_of_other_languages_have_hints() {
    let head = format!("{HEAD}{BUFFERS}");
    let step = |lines, at, message, help| check(&head, &Mistake { lines, at, message, help });
    step("  - hipDeviceSynchronize\n", (1, 5), "a step must be a mapping", "`sync: device`");
    step("  - get_last_error\n", (1, 5), "a step must be a mapping", "write `- get_last_error:`");
    step("  - create_event: e\n", (1, 5), "unknown step", "did you mean `record`?");
    step("  - create_graph: g\n", (1, 5), "unknown step", "did you mean `empty_graph`?");
    step("  - add_memset_node: {graph: g}\n", (1, 5), "unknown step", "did you mean `set`?");
    step("  - copy: {to: b, from: a}\n    if: x\n", (2, 5), "unknown step `if`", "`when`");
    step(
        "  - copy: {to: b, from: a}\n    expect: hipSuccess\n",
        (2, 5),
        "unknown step",
        "`returns`",
    );
    step(
        "  - repeat: 10\n    steps: []\n",
        (2, 5),
        "`steps` must be indented",
        "a key of `repeat`",
    );
    step(
        "  - set: {to: b, value: 7}\n    async: true\n",
        (2, 5),
        "`async` must be indented",
        "inside its braces",
    );
    step(
        "  - check: {buffer: b, value: 7}\n",
        (1, 24),
        "`check` has no `value`",
        "`buffer`, `file`",
    );
    let only_head = |lines, at, message, help| check(HEAD, &Mistake { lines, at, message, help });
    let steps = "steps: [{sync: device}]\n";
    let of = |lines: &str| format!("{lines}\n{steps}");
    let first = |lines: &str, at, message, help| {
        let lines = of(lines);
        let text = format!("{HEAD}{lines}");
        let found = reported(&text);
        let wanted = format!("4:{at} ");
        let line = found.lines().find(|line| line.starts_with(&wanted));
        assert!(
            line.is_some_and(|line: &str| line.contains(message) && line.contains(help)),
            "`{message}` with `{help}` at column {at}, but\n{found}"
        );
    };
    first("matrix: {n: [1, 2], include: [{n: 3}]}", 21, "is not an axis", "add the values");
    first("matrix: {n: [1, 2], exclude: [{n: 2}]}", 21, "is not an axis", "next to `matrix`");
    first("matrix: {n: 1..64}", 13, "cannot contain a range", "list the values");
    first("matrix: {n: [1, 2]}", 10, "nothing depends on axis `n`", "`$n`");
    first("upstream: [ROCm/hip]", 12, "is not `owner", "` #` begins a comment");
    first("needs: {rocm: '<=7.2.4'}", 15, "is not a range", "`<7.2.5` includes 7.2.4");
    first("needs: {rocm: '7.2.4'}", 15, "is not a range", "");
    first("needs: {gfx: 'gfx11*'}", 14, "is a pattern", "list the architectures");
    first("needs: {library: [torch]}", 19, "is a package group of a stack", "`with`");
    first(
        "known: {rocm: '*', signature: hipErrorInvalidValue}",
        31,
        "unknown kind",
        "`api-error:FUNCTION",
    );
    only_head("program: ./x.hip\n", (1, 10), "must be a mapping", "`cpp: |`");
    only_head(
        "program: {env: [HIP_LAUNCH_BLOCKING=1], says: PASS, cpp: 'int main() {}'}\n",
        (1, 16),
        "a Python environment",
        "`environment`",
    );
    only_head(
        "program: {options: '-O2 -g', says: PASS, cpp: 'int main() {}'}\n",
        (1, 20),
        "more than one option",
        "`[-O2, -g]`",
    );
    only_head(
        "program: {arch: MI300X, says: PASS, cpp: 'int main() {}'}\n",
        (1, 17),
        "not an architecture",
        "",
    );
    only_head(
        "program:\n  says: PASS\n  cpp: >\n    int main() {\n    }\n",
        (4, 5),
        "`>` joins",
        "`cpp: |`",
    );
    only_head("needs:\n  rocm: >=5.7\nsteps: [{sync: device}]\n", (2, 9), "not YAML", "in quotes");
}

#[test]
fn words_of_other_tools_have_hints() {
    let only_head = |lines, at, message, help| check(HEAD, &Mistake { lines, at, message, help });
    only_head("runs-on: gfx1151\nsteps: [{sync: device}]\n", (1, 1), "no `runs-on`", "needs: {gfx");
    only_head(
        "timeout: 5\nsteps: [{sync: device}]\n",
        (1, 1),
        "no `timeout`",
        "`--timeout SECONDS`",
    );
    only_head(
        "program: {args: '--size 64', says: PASS, cpp: 'int main() {}'}\n",
        (1, 17),
        "more than one argument",
        "`[--size, 64]`",
    );
    only_head(
        "steps:\n  - sync: device\n  known:\n  - {rocm: '*'}\n",
        (3, 3),
        "not YAML",
        "first column",
    );
    only_head(
        "program:\n  says: PASS\n  cpp: |\n  int f() {\n  }\n  : x\n",
        (5, 3),
        "not YAML",
        "below `cpp: |`",
    );
    only_head(
        "matrix: {n: '1, 2'}\nsteps: [{sync: device}]\n",
        (1, 13),
        "must not have any of",
        "`n: [1, 2]`",
    );
    only_head("related: [#18]\nsteps: [{sync: device}]\n", (1, 11), "not YAML", "`ROCm/hip#13`");
    let head = format!("{HEAD}matrix: {{n: [0, 4]}}\n{BUFFERS}");
    let step = |lines, at, message, help| check(&head, &Mistake { lines, at, message, help });
    step("  - set: {to: a, value: 1, bytes: ${{ matrix.n }}}\n", (1, 36), "not YAML", "`$n`");
    step("  - for: {i: [0, 1]}\n", (1, 5), "unknown step `for`", "`repeat`");
    step("  - set: {to: a, value: 1, bytes: ${n}}\n", (1, 36), "not YAML", "`$n`");
    step("  - set: {to: a, value: -1, bytes: $n}\n", (1, 25), "negative", "");
    step(
        "  - set: {to: a, value: 1, expect: hipSuccess}\n",
        (1, 28),
        "no `expect`",
        "`returns` is a key of the step",
    );
    let capture = "  - begin_capture: {stream: s, mode: global}\n  - set: {to: a, value: 1, bytes: 4, async: true, stream: t}\n  \
                   - end_capture: {stream: s, graph: g}\n  - sync: t\n  - instantiate: {exec: x, graph: g}\n";
    step(capture, (2, 5), "the capture of `s` gets no call", "`stream: s`");
}

/// A head whose buffers `h` and `late` are allocated by steps.
const PLACES: &str = "\
title: A case
source: a document
faults: copy.zero
buffers:
  a: {on: device, bytes: 64, fill: pattern}
  b: {on: device, bytes: 64, fill: zero}
  c: {on: host.pinned, bytes: 64, fill: zero}
  late: {on: device, bytes: 64}
steps:
";

#[test]
fn steps_at_the_wrong_place_have_hints() {
    let step = |lines, at, message, help| check(PLACES, &Mistake { lines, at, message, help });
    step(
        "  - set: {to: b, value: 7, stream: s}\n",
        (1, 36),
        "`set` without `async` takes no stream",
        "`async: true, stream: s`",
    );
    step(
        "  - copy_2d: {to: b, from: a, width: 8, height: 2, stream: s}\n",
        (1, 60),
        "`copy_2d` without `async`",
        "leave out `stream`",
    );
    let begin = "  - begin_capture: {stream: s, mode: global}\n";
    let end = "  - end_capture: {stream: s, graph: g}\n";
    let inside = |lines: &str, message, help| {
        let lines = format!("{begin}{lines}{end}").leak();
        step(lines, (2, 5), message, help);
    };
    inside(
        "  - launch: {kernel: copy_u32, args: [b, a, 16], items: 16}\n",
        "hipModuleLaunchKernel uses the null stream",
        "give the call `stream: s`",
    );
    inside("  - copy: {to: b, from: a}\n", "hipMemcpy uses the null stream", "`stream: s`");
    inside("  - set: {to: b, value: 7}\n", "hipMemset uses the null stream", "`async: true`");
    inside("  - check: b\n", "hipMemcpy uses the null stream", "each check, after `end_capture`");
    inside("  - alloc: late\n", "hipMalloc is refused", "before `begin_capture`");
    inside("  - sync: device\n", "hipDeviceSynchronize is refused", "after `end_capture`");
    inside(
        "  - sync: default\n",
        "hipStreamSynchronize is refused",
        "list the status in `returns`",
    );
    step(
        "  - record: {event: e, stream: s}\n  - elapsed: {start: e, end: f}\n  - record: {event: f, stream: s}\n",
        (2, 5),
        "event `f` has not been recorded here",
        "move `record: {event: f, stream: ...}` before this step",
    );
    step(
        "  - record: {event: e, stream: s}\n  - record: {event: f, stream: s}\n  - elapsed: {start: e, end: f}\n",
        (3, 5),
        "event `e` may not have happened here",
        "`sync_event: e`",
    );
    step(
        "  - wait: {event: e, stream: s}\n  - record: {event: e, stream: t}\n",
        (1, 5),
        "event `e` has not been recorded here",
        "before this step",
    );
    step(
        "  - sync_event: e\n  - record: {event: e, stream: t}\n",
        (1, 5),
        "event `e` has not been recorded here",
        "before this step",
    );
    step(
        "  - record: {event: e, stream: s}\n  - sync: e\n",
        (2, 11),
        "no step gives work to stream `e`",
        "`e` is an event: write `sync_event: e`",
    );
    step(
        "  - record: {event: e, stream: s}\n  - sync_event: s\n",
        (2, 17),
        "event `s` is never recorded",
        "`s` is a stream: write `sync: s`",
    );
    step(
        "  - copy: {to: b, from: a, stream: s}\n  - sync_event: e\n",
        (2, 17),
        "event `e` is never recorded",
        "`record: {event: e, stream: ...}`",
    );
    let graph = "  - empty_graph: {graph: g, nodes: 1}\n";
    let after = |lines: &str, line, message, help| {
        let lines = format!("{graph}{lines}").leak();
        step(lines, (line, 5), message, help);
    };
    after(
        "  - instantiate: {exec: x, graph: g}\n  - destroy_exec: x\n  - launch_graph: {exec: x, stream: s}\n",
        4,
        "`x` was destroyed before; move its `destroy_exec`",
        "",
    );
    after(
        "  - destroy_graph: g\n  - instantiate: {exec: x, graph: g}\n",
        3,
        "`g` was destroyed before; move its `destroy_graph`",
        "",
    );
    after("  - launch_graph: {exec: g}\n", 2, "`g` is a graph; create an executable graph", "");
    after("  - launch_graph: {exec: x}\n", 2, "`instantiate` makes it from a graph", "");
}

#[test]
fn misplaced_steps_may_be_intended() {
    let begin = "  - begin_capture: {stream: s, mode: global}\n";
    let end = "  - end_capture: {stream: s, graph: g}\n";
    let valid = |head: &str, steps: &str| {
        assert_eq!(reported(&format!("{head}{steps}")), "", "{steps}");
    };
    for step in [
        "  - sync: device\n    returns: hipErrorStreamCaptureUnsupported\n",
        "  - launch: {kernel: copy_u32, args: [b, a, 16], items: 16}\n    returns: any\n",
        "  - alloc: late\n    returns: any\n",
    ] {
        valid(PLACES, &format!("{begin}{step}{end}"));
    }
    valid(
        PLACES,
        "  - wait: {event: e, stream: s}\n    returns: hipSuccess\n  - record: {event: e, stream: t}\n",
    );
    // In the second repetition of the block, the event has been recorded.
    valid(
        PLACES,
        "  - repeat:\n      count: 3\n      steps:\n        - wait: {event: e, stream: s}\n        - record: {event: e, stream: t}\n",
    );
    // The null stream waits only for blocking streams, and relaxed captures refuse fewer calls.
    let other = PLACES.replace("steps:\n", "streams: {s: non_blocking}\nsteps:\n");
    valid(
        &other,
        &format!("{begin}  - launch: {{kernel: copy_u32, args: [b, a, 16], items: 16}}\n{end}"),
    );
    let relaxed = begin.replace("global", "relaxed");
    valid(PLACES, &format!("{relaxed}  - alloc: late\n{end}"));
    // The failure is an expected failure of the case, so the step may be misplaced.
    let known = PLACES.replace(
        "steps:\n",
        "known: {rocm: \"*\", signature: \"api-error:hipMalloc:hipErrorStreamCaptureUnsupported\"}\nsteps:\n",
    );
    valid(&known, &format!("{begin}  - alloc: late\n{end}"));
}

#[test]
fn functions_that_no_step_calls_are_reported() {
    let steps = "buffers: {a: {on: device, bytes: 64, fill: pattern}}\nsteps: [{check: a}]\n";
    let line = |lines: &str, at, message, help| {
        let lines = format!("{lines}{steps}").leak();
        check(
            "title: A case\nsource: a document\n",
            &Mistake { lines, at: (1, at), message, help },
        );
    };
    line(
        "faults: {fault: call.refused, with: {call: hipMemcpyAsync}}\n",
        44,
        "no step calls `hipMemcpyAsync`, so this fault changes nothing",
        "the steps call `hipMemcpy`",
    );
    line(
        "faults: {fault: call.refused, with: {call: copy}}\n",
        38,
        "`call=copy` of `call.refused`",
        "`copy` is a step; the functions that it calls are `hipMemcpy`, `hipMemcpyAsync`",
    );
    line(
        "faults: {fault: call.refused, with: {call: cudaMemcpy}}\n",
        38,
        "`call=cudaMemcpy`",
        "HIP's name is `hipMemcpy`",
    );
    line(
        "faults: {fault: copy.zero, signature: \"crash:hipGraphLaunch\"}\n",
        39,
        "no step calls `hipGraphLaunch`, so no failure has this signature",
        "the steps call `hipMemcpy`",
    );
    let known = |signature: &str, column, message, help| {
        let lines = format!("known: {{rocm: '*', signature: '{signature}'}}\nfaults: copy.zero\n");
        line(&lines, column, message, help);
    };
    known("api-error:hipMemcpyAsync:hipErrorUnknown", 31, "no step calls `hipMemcpyAsync`", "");
    known(
        "crash:copy",
        31,
        "unknown function `copy`",
        "the functions that it calls are `hipMemcpy`",
    );
    known("crash:cudaMemcpy", 31, "unknown function `cudaMemcpy`", "did you mean `hipMemcpy`?");
    for signature in
        ["crash:hipMemcpy", "crash:body", "hang:hipFree", "leak:process", "crash:hipGraph*"]
    {
        let text = format!(
            "title: A case\nsource: a document\nfaults: copy.zero\nknown: {{rocm: '*', signature: '{signature}'}}\n{steps}"
        );
        assert_eq!(reported(&text), "", "{signature}");
    }
}

#[test]
fn versions_and_architectures_that_do_not_exist_are_reported() {
    let line = |lines: &str, at, message, help| {
        let lines = format!("{lines}\nsteps: [{{sync: device}}]\n").leak();
        check(HEAD, &Mistake { lines, at: (1, at), message, help });
    };
    line("needs: {rocm: '>=6.4.43482'}", 15, "is a version of HIP, not of ROCm", "write `6.4`");
    line("needs: {rocm: '>=6.9'}", 15, "ROCm 6.9 does not exist", "6.4, the next one is 7.0");
    line("known: {rocm: '<8.3', signature: hang:body}", 15, "ROCm 8.3 does not exist", "10.0");
    line("needs: {gfx: gfx1199}", 14, "`gfx1199` is not an architecture", "did you mean `gfx11");
    check(
        HEAD,
        &Mistake {
            lines: "steps:\n  - sync: device\n    returns: {\">=6.7\": hipSuccess}\n",
            at: (3, 15),
            message: "ROCm 6.7 does not exist",
            help: "6.4, the next one is 7.0",
        },
    );
}
