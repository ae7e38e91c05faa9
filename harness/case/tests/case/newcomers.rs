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
    step("  - check: {buffer: b, value: 7}\n", (1, 12), "takes a single value", "`check: b`");
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
    first("matrix: {n: [1, 2], exclude: [{n: 2}]}", 21, "is not an axis", "beside `matrix`");
    first("matrix: {n: 1..64}", 13, "has no ranges", "list the values");
    first("matrix: {n: [1, 2]}", 10, "nothing depends on axis `n`", "`$n`");
    first("upstream: [ROCm/hip]", 12, "is not `owner", "` #` begins a comment");
    first("needs: {rocm: '<=7.2.4'}", 15, "is not a range", "`<7.2.5` includes 7.2.4");
    first("needs: {rocm: '7.2.4'}", 15, "is not a range", "");
    first("needs: {gfx: 'gfx11*'}", 14, "is a pattern", "list the architectures");
    first("needs: {library: [torch]}", 19, "is a group of a stack", "`with`");
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
