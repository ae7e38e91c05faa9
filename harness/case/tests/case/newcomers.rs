//! Tests of the messages for what people write who know HIP, C++ or Python, but not this language.

use case::{Kernels, mistakes};

/// A mistake: lines of a case, the position at which it is reported, and parts of the message and of the hint.
struct Mistake {
    lines: &'static str,
    at: (u32, u32),
    message: &'static str,
    help: &'static str,
}

const HEAD: &str = "title: A case\nsource: a document\nfaults: copy.zero\n";
const BUFFERS: &str =
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
fn check(head: &str, Mistake { lines, at, message, help }: &Mistake) {
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
    step("  - query: {stream: s, returns: hipSuccess}\n", 12, "must be text", "");
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
        "program: {cpp: repro.hip, says: PASS}\n",
        (1, 16),
        "the name of a file",
        "must end in `.cpp`",
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
    only_head("steps:\n\u{a0} - sync: device\n", (2, 1), "U+00A0", "ordinary spaces");
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
