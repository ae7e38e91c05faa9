//! Tests of mistakes that HIP engineers made in their first cases: what they wrote was well-formed, and did not do what
//! they meant.

use crate::newcomers::{BUFFERS, HEAD, Mistake, check};

const TRIALS: &str = "title: A case\nsource: a document\nmatrix: {n: [1, 2]}\nexclude: [{n: 1}]\n\
    buffers: {b: {on: device, bytes: 64, fill: zero}}\nsteps:\n  - set: {to: b, value: $n}\n  - check: b\n";
const KERNEL: &str = "kernels:\n  scale:\n    source: |\n      extern \"C\" __global__ void scale(float *out, const float *in, int n) {\n        \
    extern __shared__ float part[];\n        int i = blockIdx.x * blockDim.x + threadIdx.x;\n        \
    if (i < n) out[i] = in[i];\n      }\n    computes: out[i] = in[i] for i < n\n";
const CAPTURE: &str = "title: A case\nsource: a document\nbuffers: {b: {on: device, bytes: 64, fill: zero}}\nsteps:\n  \
    - begin_capture: {stream: s, mode: global}\n  - set: {to: b, value: 7, async: true, stream: s}\n  \
    - end_capture: {stream: s, graph: g}\n";

fn step(lines: &'static str, at: (u32, u32), message: &'static str, help: &'static str) {
    check(&format!("{HEAD}{BUFFERS}"), &Mistake { lines, at, message, help });
}

#[test]
fn kernel_without_launch_is_reported() {
    let head = format!("{HEAD}{}", KERNEL.replace("    extern __shared__ float part[];\n", ""));
    let lines = "buffers: {b: {on: device, bytes: 64, fill: zero}}\nsteps: [{check: b}]\n";
    let head_lines = head.lines().count();
    assert_eq!(head_lines, 11);
    let mistake = Mistake {
        lines: head.split_once("kernels:").expect("kernels").1.to_owned().leak(),
        at: (1, 3),
        message: "no step launches kernel `scale`",
        help: "`launch: {kernel: scale, args: [...]}`",
    };
    let before = format!("{HEAD}{lines}kernels:\n");
    let rest = mistake.lines.trim_start_matches('\n').to_owned().leak();
    check(&before, &Mistake { lines: rest, ..mistake });
}

#[test]
fn launch_without_dynamic_shared_memory_is_reported() {
    let head = format!("{HEAD}{KERNEL}{BUFFERS}");
    let lines = "  - launch: {kernel: scale, args: [b, a, 16], items: 16}\n  - check: b\n";
    let (message, help) = ("declares `extern __shared__`", "add `shared: BYTES`");
    check(&head, &Mistake { lines, at: (1, 5), message, help });
}

#[test]
fn kernel_of_another_name_is_named_once() {
    let kernel = KERNEL.replace("  scale:\n", "  scaled:\n");
    let head = format!("{HEAD}{}", kernel.replace("    extern __shared__ float part[];\n", ""));
    let lines = "buffers: {}\nsteps: [{sync: device}]\n";
    let text = format!("{head}{lines}");
    let all = case::mistakes("family/case", &text, &case::Kernels::new());
    let shown: Vec<_> = all.iter().map(|m| (m.at.line, m.message.as_str())).collect();
    assert_eq!(shown, [(5, "the source of kernel `scaled` defines no `scaled`")], "{all:#?}");
    let help = all[0].help.as_deref();
    assert_eq!(help, Some("the source defines `scale`: name the entry `scale`"));
}

#[test]
fn kernel_without_global_is_named_where_it_is_defined() {
    let kernel = KERNEL.replace("__global__ ", "");
    let text = format!("{HEAD}{kernel}buffers: {{}}\nsteps: [{{sync: device}}]\n");
    let all = case::mistakes("family/case", &text, &case::Kernels::new());
    let shown: Vec<_> = all.iter().map(|m| (m.at.line, m.message.as_str())).collect();
    assert_eq!(shown, [(5, "the source of kernel `scale` defines no `__global__` function")]);
    let indexed = KERNEL.replace("out[i] = in[i] for i < n", "out[blockIdx.x] = in[blockIdx.x]");
    let text = format!("{HEAD}{indexed}buffers: {{}}\nsteps: [{{sync: device}}]\n");
    let all = case::mistakes("family/case", &text, &case::Kernels::new());
    assert!(all[0].message.contains("`i` is the index of the element"), "{all:#?}");
}

#[test]
fn helper_that_is_not_included_is_named() {
    let program = |text: &str, message, help| {
        let lines = format!("program:\n  cpp: |\n{text}").leak();
        check(HEAD, &Mistake { lines, at: (1, 1), message, help });
    };
    program(
        "    #include <vector>\n    int main() { equal(\"a\", b, c); return done(); }\n",
        "does not include it",
        "`#include \"rocrepro.h\"`",
    );
}

#[test]
fn fault_that_concerns_no_step_is_reported() {
    let lines = "faults: [copy.zero, graph.launch-lost]\n";
    let message = "no step makes a call to which `graph.launch-lost` applies";
    check(CAPTURE, &Mistake { lines, at: (1, 21), message, help: "graph" });
}

#[test]
fn selection_of_excluded_trials_is_reported() {
    let message = "this selects no trial, because `exclude` leaves these trials out";
    let report = |lines, column| {
        check(TRIALS, &Mistake { lines, at: (1, column), message, help: "no hint" });
    };
    report("faults: [copy.zero, {fault: kernel.drop, on: {n: 1}}]\n", 46);
    report(
        "known: [{rocm: '*', signature: 'api-error:hipMemset:hipErrorInvalidValue', on: {n: 1}}]\nfaults: copy.zero\n",
        80,
    );
}

#[test]
fn gap_between_versions_is_reported() {
    let lines = "  - set: {to: b, value: 7}\n    returns: {'<6.0': hipSuccess, '>=7.2': hipErrorInvalidValue}\n";
    step(lines, (2, 14), "`returns` says nothing for ROCm >=6.0 <7.2", "close the gap");
    let lines = "  - mem_info:\n    gives: {'<6.0': any, '>=7.2': unchanged}\n";
    step(lines, (2, 12), "`gives` says nothing for ROCm >=6.0 <7.2", "close the gap");
}

#[test]
fn object_whose_step_must_fail_does_not_exist() {
    let report = |lines, at, message| {
        check(CAPTURE, &Mistake { lines, at, message, help: "no hint" });
    };
    report(
        "    returns: hipErrorInvalidValue\n  - instantiate: {exec: x, graph: g}\nfaults: copy.zero\n",
        (2, 5),
        "graph `g` does not exist: given its `returns`, the `end_capture` in line 7 must fail",
    );
    report(
        "  - instantiate: {exec: x, graph: g}\n    returns: hipErrorInvalidValue\n  - launch_graph: {exec: x, stream: s}\n\
         faults: copy.zero\n",
        (3, 5),
        "`x` does not exist: given its `returns`, the `instantiate` in line 8 must fail",
    );
}

#[test]
fn status_that_depends_on_time_is_reported() {
    let lines = "  - set: {to: b, value: 7, async: true, stream: s}\n  - query: s\n    returns: hipErrorNotReady\n";
    step(lines, (3, 14), "depends on time", "list both");
}

#[test]
fn words_of_hip_and_of_other_tools_have_hints() {
    step("  - sync: hipStreamPerThread\n", (1, 11), "a stream cannot be called", "name of its own");
    step(
        "  - hip: {call: hipDeviceGetAttribute, args: [v, warpSize, 0]}\n",
        (1, 50),
        "`warpSize` is not the name of a `hipDeviceAttribute_t`",
        "write `hipDeviceAttributeWarpSize`",
    );
    step("  - set: {to: b, value: 1, bytes: $i}\n", (1, 35), "no axis `i`", "`for_each`");
    step("  - set: {to: b, value: 1, bytes: $SIZE}\n", (1, 35), "no axis `SIZE`", "not expanded");
    step("  - fill: {buffer: b, numbers: [1.0]}\n", (1, 32), "must be text", "`numbers: f32`");
    step(
        "  - set: {to: b, value: 7, bytes: ${{ matrix.bytes }}, async: true}\n",
        (1, 36),
        "not YAML",
        "written without braces: `$bytes`",
    );
    step(
        "  - elapsed: {start: e, end: f}\n    gives: '<0.5'\n",
        (2, 12),
        "`elapsed` cannot return",
        "whole number of microseconds",
    );
    let first = |line: &str, at, message, help| {
        let lines = format!("{line}\nsteps: [{{sync: device}}]\n").leak();
        check(HEAD, &Mistake { lines, at: (1, at), message, help });
    };
    first("needs: {memory: 1G}", 9, "`needs` has no `memory`", "`needs: {device: {memory: ...}}`");
    first("expectation: documented", 14, "must be a mapping", "`{kind: documented, source:");
    first(
        "known: [{rocm: [6.4, 7.2], signature: 'crash:hipFree'}]",
        16,
        "`rocm` must be text",
        "several entries",
    );
}

#[test]
fn programs_with_arguments_have_hints() {
    let program = |lines, at, message, help| check(HEAD, &Mistake { lines, at, message, help });
    program(
        "program:\n  says: PASS\n  python: train.py --epochs 1\n",
        (3, 11),
        "`train.py --epochs 1` is a file with arguments",
        "`python: train.py` and `args: [--epochs, 1]`",
    );
    program(
        "program: {says: PASS, command: 'echo PASS | grep PASS'}\n",
        (1, 32),
        "no shell divides it",
        "`[sh, -c, \"echo PASS | grep PASS\"]`",
    );
    program(
        "program: {says: PASS, command: ./repro --size 4}\n",
        (1, 32),
        "more than one word",
        "`[./repro, --size, 4]`",
    );
    program(
        "matrix: {n: [4, 8]}\nprogram:\n  says: PASS\n  args: --n $n\n  command: ./repro\n",
        (4, 9),
        "`--n $n` is more than one argument",
        "`[--n, $n]`",
    );
}

#[test]
fn parameter_without_axis_is_reported() {
    let program = |text: &str, help| {
        let lines = format!(
            "matrix: {{size_of: [4, 8]}}\nprogram:\n  python: |\n    import rocrepro\n{text}"
        )
        .leak();
        check(
            HEAD,
            &Mistake { lines, at: (6, 1), message: "the matrix has no axis `sizeof`", help },
        );
    };
    program(
        "    rocrepro.equal('size', 1, 1)\n    size = rocrepro.parameter('sizeof')\n    rocrepro.parameter('size_of')\n",
        "did you mean `size_of`?",
    );
    let lines = "matrix: {n: [4, 8]}\nprogram:\n  says: PASS\n  python: |\n    from rocrepro import parameter\n    n = 3\n    \
        print(parameter('n', '4'), parameter('m', '4'))\n";
    let text = format!("{HEAD}{lines}");
    assert_eq!(case::mistakes("family/case", &text, &case::Kernels::new()), []);
    let lines = "matrix: {n: [4, 8]}\nprogram:\n  says: PASS\n  python: |\n    from rocrepro import parameter\n    n = 3\n    \
        print(parameter('m', '4'))\n";
    let message = "nothing depends on axis `n`";
    check(HEAD, &Mistake { lines, at: (1, 10), message, help: "`$n`" });
}
