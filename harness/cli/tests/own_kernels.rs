//! What becomes of mistakes in the kernels that a case brings itself: they say nothing of ROCm.

use std::{
    fs,
    process::{Command, Stdio},
};

use judge::VerdictKind;
use report::Record;

/// A case that launches its own kernel.
fn case(kernel: &str, args: &str) -> String {
    format!(
        "\
title: A kernel of its own
source: [this test]
kernels:
  own: |
    {kernel}
buffers:
  d: {{on: device, bytes: 64, fill: zero}}
  one: {{on: host.pageable, bytes: 64}}
  two: {{on: host.pageable, bytes: 64}}
steps:
  - launch: {{kernel: own, args: {args}, items: 16}}
  - copy: {{to: one, from: d}}
  - copy: {{to: two, from: d}}
  - equal: [one, two]
faults: [copy.zero]
"
    )
}

const GOOD: &str =
    "extern \"C\" __global__ void own(unsigned *out, unsigned n, unsigned m) { out[n] = m; }";

/// What each mistake must be told as.
const MISTAKES: &[(&str, &str, &str, &str)] = &[
    (
        "few",
        GOOD,
        "[d, 1]",
        "kernel `own` (line 4) has 3 parameters, and the launch at line 11 gives 2 arguments",
    ),
    ("many", GOOD, "[d, 1, 2, 3]", "has 3 parameters, and the launch at line 11 gives 4 arguments"),
    (
        "swapped",
        GOOD,
        "[1, d, 2]",
        "parameter 1 of kernel `own` (line 4) is a pointer, and the launch at line 11 gives a 32-bit",
    ),
    (
        "wide",
        "extern \"C\" __global__ void own(unsigned *out, double n) { out[0] = (unsigned)n; }",
        "[d, 2]",
        "parameter 2 of kernel `own` (line 4) is a value of 8 bytes, and the launch at line 11 gives a 32-bit integer",
    ),
    (
        "mangled",
        "__global__ void own(unsigned *out) { out[0] = 1; }",
        "[d]",
        "has `_Z3ownPj`; declare it `extern \"C\"`",
    ),
    (
        "named",
        "extern \"C\" __global__ void other(unsigned *out) { out[0] = 1; }",
        "[d]",
        "the source of kernel `own` (line 4) must define a kernel of that name and has `other`",
    ),
];

fn run(rocm: &str) -> Vec<Record> {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = folder.path().join("cases");
    fs::create_dir(&cases).expect("a folder");
    for (name, kernel, args, _) in MISTAKES {
        fs::write(cases.join(format!("{name}.yaml")), case(kernel, args)).expect("a file");
    }
    fs::write(cases.join("good.yaml"), case(GOOD, "[d, 1, 2]")).expect("a file");
    let records = folder.path().join("records");
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["run", "--device", "emulated", "--gfx", "gfx90a", "--rocm", rocm, "--cases-from"])
        .arg(&cases)
        .arg("--record")
        .arg(&records)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let text = fs::read_to_string(&records).unwrap_or_default();
    let records = report::records(&text).expect("records");
    assert_eq!(records.len(), MISTAKES.len() + 1, "{output:?}");
    records
}

#[test]
fn a_mistake_in_an_own_kernel_is_no_finding() {
    for record in run("debian:7.2.4") {
        let Some((.., told)) = MISTAKES.iter().find(|(name, ..)| *name == record.case) else {
            assert_eq!(record.verdict.kind, VerdictKind::Pass, "{record:?}");
            continue;
        };
        assert_eq!(record.verdict.kind, VerdictKind::NoVerdict, "{}: {record:?}", record.case);
        assert_eq!(record.outcome.signature, "no-verdict:case", "{}", record.case);
        let all = [&[record.outcome.summary][..], &record.outcome.details].concat().join("\n");
        assert!(all.contains("says nothing of ROCm") && all.contains(told), "{all}");
    }
}
