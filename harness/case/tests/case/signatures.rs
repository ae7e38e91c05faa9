//! Compares the signatures that cases may list, under `known` and under faults, with the signatures of failures that
//! occurred in recorded runs.

use case::{Kernels, mistakes};

fn messages(buffers: &[&str], signature: &str) -> Vec<String> {
    let buffers: String = buffers
        .iter()
        .map(|name| format!("  {name}: {{on: host.pinned, bytes: 64, fill: pattern}}\n"))
        .collect();
    let text = format!(
        "title: t\nsource: s\nfaults: copy.zero\nknown: [{{rocm: '*', signature: \"{signature}\"}}]\nbuffers:\n  \
         own: {{on: host.pinned, bytes: 64, fill: pattern}}\n{buffers}steps:\n  - check: own\n"
    );
    let found = mistakes("family/case", &text, &Kernels::new());
    // The case has only one step, so it lacks the functions of most signatures.
    let found = found.into_iter().filter(|m| !m.message.starts_with("no step calls"));
    found.map(|m| format!("{}; {}", m.message, m.help.unwrap_or_default())).collect()
}

#[test]
fn every_recorded_signature_can_be_expected() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reports/snapshots");
    let mut seen = 0;
    for name in ["capture", "copies", "errors", "graphs", "kernels"] {
        let text = std::fs::read_to_string(format!("{folder}/{name}.snap")).expect("it is there");
        // A line consists of two spaces, the injected fault, and the result of the trial.
        let lines = text.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(": "));
        // If the result is an expected failure, the line lists the signatures of its `known` entries.
        let signatures = lines.flat_map(|(_, signature)| {
            let known =
                signature.strip_prefix("known ").or_else(|| signature.strip_prefix("differs "));
            known.unwrap_or(signature).split(" or ")
        });
        for signature in signatures.filter(|signature| *signature != "pass") {
            let buffer = signature.split(':').nth(1).unwrap_or_default();
            let buffer = buffer.split('.').next().filter(|_| signature.starts_with("wrong-data"));
            let buffers: Vec<&str> = buffer.into_iter().collect();
            assert_eq!(messages(&buffers, signature), [""; 0], "{name}: {signature}");
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn impossible_signatures_are_reported_with_a_suggestion() {
    #[track_caller]
    fn check(signature: &str, expected: &str) {
        assert_eq!(messages(&[], signature).join(" | "), expected, "{signature}");
    }
    for good in [
        "wrong-data:*",
        "wrong-data:own.guards:zero",
        "api-error:hip*",
        "hang:teardown",
        "leak:process",
        // The last part of these signatures is a file name or a message of the runtime, not a status.
        "api-error:dlopen:libamdhip64.so.6",
        "api-error:queue:anything",
    ] {
        check(good, "");
    }
    check("wrong-date:*", "unknown kind of failure `wrong-date`; did you mean `wrong-data`?");
    check(
        "crash",
        "`crash` is only the beginning of a signature; write `crash:FUNCTION-OR-PHASE`, or its beginning followed \
         by `*`",
    );
    check("wrong-data:on.back:zero", "no check reads a buffer `on.back`; did you mean `own.back`?");
    check("wrong-data:own:zeros", "wrong bytes are never `zeros`; did you mean `zero`?");
    check("crash:hipMaloc", "unknown function `hipMaloc`; did you mean `hipMalloc`?");
    check("crash:hipMaloc*", "unknown function `hipMaloc*`; did you mean `hipMalloc`?");
    check(
        "api-error:hipMalloc:hipErrorOutofMemory",
        "unknown status `hipErrorOutofMemory`; did you mean `hipErrorOutOfMemory`?",
    );
    check(
        "api-error:hipMalloc:HIPRAND_STATUS_NOT_IMPLEMENTED",
        "unknown status `HIPRAND_STATUS_NOT_IMPLEMENTED`; ",
    );
    check(
        "api-error:*:hipErrorUnknown",
        "`*` matches any end, so it must be the last character; write `api-error:FUNCTION:STATUS`, or its beginning \
         followed by `*`",
    );
    check("teardown-crash:hipFree", "`teardown-crash` must be the end of the signature; ");
}
