//! Tests of the hints for values and keys that are written as in other tools.

use crate::newcomers::{BUFFERS, HEAD, Mistake, check};

/// One message for each mistake that a reader of the tutorials and the reference made.
#[test]
fn forms_of_other_tools_have_hints() {
    let head = format!("{HEAD}{BUFFERS}");
    let step = |lines, at, message, help| check(&head, &Mistake { lines, at, message, help });
    step("\t- check: a\n", (1, 2), "tabs disallowed", "indent with spaces");
    step("  set: {to: b, value: 7}\n  check: b\n", (2, 3), "one verb", "with a `- ` of its own");
    step("  - check: b == 7\n", (1, 12), "unknown buffer `b == 7`", "only the name of the buffer");
    step(
        "  - launch: {kernel: copy_u32, args: ['&b', a, 16], items: 16}\n",
        (1, 39),
        "unknown buffer `&b`",
        "write `b`",
    );
    step("  - check: b\nexpect: hipSuccess\n", (2, 9), "under `expect`", "`returns: hipError");
    let returns = |text: &str, help| {
        let lines = format!("  - set: {{to: b, value: 7}}\n    returns: {text}\n").leak();
        step(lines, (2, 14), "is not a status of `set`", help);
    };
    returns("success", "did you mean `hipSuccess`?");
    returns("0", "did you mean `hipSuccess`?");
    returns("1", "did you mean `hipErrorInvalidValue`?");
    returns("cudaErrorInvalidValue", "did you mean `hipErrorInvalidValue`?");
    step("  - set: {to: b, value: 7}\n    gives: hipSuccess\n", (2, 5), "no value", "`returns`");
    step(
        "  - begin_capture: {stream: s, mode: hipStreamCaptureModeThreadLocal}\n",
        (1, 38),
        "`mode` cannot be",
        "did you mean `thread_local`?",
    );
    step("  - launch_graph: {graph: g}\n", (1, 19), "needs `exec`", "`instantiate: {exec: x");
    step("  - sleep: 5s\n", (1, 12), "`sleep` must be", "milliseconds: `5000`");
    step("  - set: {to: b, value: 1, bytes: 4KB}\n", (1, 35), "`bytes` must be", "write `4K`");
    step("  - set: {to: b, value: 1, bytes: '{{n}}'}\n", (1, 35), "`bytes` must be", "`$axis`");
    step(
        "  - when: {n: 1}\n    steps: [{check: b}]\n",
        (2, 5),
        "`when` has no steps of its own",
        "below the verb of each step",
    );
    step(
        "  - cudaMemcpyAsync: {to: b}\n",
        (1, 5),
        "unknown step",
        "HIP's name is `hipMemcpyAsync`",
    );
    step("  - hip: {call: cudaMemcpy}\n", (1, 17), "unknown function", "HIP's name is `hipMemcpy`");
    let only_head = |lines, at, message, help| check(HEAD, &Mistake { lines, at, message, help });
    let buffer = |text: &str, at, message, help| {
        let lines = format!("buffers: {{p: {text}}}\nsteps: [{{check: p}}]\n").leak();
        only_head(lines, (1, at), message, help);
    };
    buffer("{on: pinned, bytes: 4}", 19, "`on` cannot be `pinned`", "did you mean `host.pinned`?");
    buffer("{on: device, bytes: 4, fill: 7}", 43, "not `7`", "`- set: {to: p, value: 7}`");
    buffer("1024", 14, "must be a mapping", "`{on: device, bytes: 1024");
    buffer("{bytes: 1024}", 14, "needs `on`", "`on: device`");
    let first = |line: &str, at, message, help| {
        let lines = format!("{line}\nsteps: [{{sync: device}}]\n").leak();
        only_head(lines, (1, at), message, help);
    };
    first("environment: [A=3]", 14, "must be a mapping", "such as `{AMD_SERIALIZE_KERNEL: 3}`");
    first("streams: [s, t]", 10, "must be a mapping", "`{s: non_blocking}`");
    first("needs: {gfx: RDNA3}", 14, "not an architecture", "`[gfx1100, gfx1101, gfx1102]`");
    first("known: [{rocm: '*'}]", 9, "needs `signature`", "the line of `rocrepro run`");
    first(
        "upstream: https://github.com/ROCm/hip/issues/12",
        11,
        "is not `owner/repository#number`",
        "write `ROCm/hip#12`",
    );
    let fault = |text: &str, at, message, help| {
        let lines = format!("faults: [{text}]\nsteps: [{{sync: device}}]\n").leak();
        check("title: A\nsource: b\n", &Mistake { lines, at: (1, at), message, help });
    };
    fault("{fault: call.hang, call: hipFree}", 29, "no `call`", "`with: {call: hipFree}`");
    fault(
        "{call.hang: hipFree}",
        11,
        "no `call.hang`",
        "`{fault: call.hang, with: {call: hipFree}}`",
    );
}

#[test]
fn absent_call_of_a_known_failure_must_be_between_two_others() {
    let report = |calls| {
        let head = "title: t\nsource: s\nfaults: copy.zero\nsteps: [{sync: device}]\n";
        let known = format!("known: {{rocm: '*', signature: 'crash:hipFree', calls: [{calls}]}}\n");
        let found = case::mistakes("a/b", &format!("{head}{known}"), &case::Kernels::new());
        found.iter().any(|mistake| mistake.message.contains("must be between two calls that occur"))
    };
    assert!(report("not hipMalloc, hipFree"));
    assert!(report("hipFree, not hipMalloc"));
    assert!(!report("hipFree, not hipMalloc, hipFree"));
}
