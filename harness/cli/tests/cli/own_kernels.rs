//! Tests mistakes in GPU kernels that belong to a case. Their failures prove nothing about ROCm.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use judge::VerdictKind;
use report::Record;

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

/// A kernel whose parameters are in a macro, which `rocrepro case check` does not expand, so mistakes show only after
/// compilation.
const GOOD: &str = "#define TAKES unsigned *out, unsigned n, unsigned m\n    extern \"C\" __global__ void own(TAKES) { out[n] = m; }";

/// Mistakes, each with its name, the kernel, the arguments, and the expected message.
const MISTAKES: &[(&str, &str, &str, &str)] = &[
    (
        "few",
        GOOD,
        "[d, 1]",
        "kernel `own` (line 4) has 3 parameters, but the launch at line 12 passes 2 arguments",
    ),
    (
        "many",
        GOOD,
        "[d, 1, 2, 3]",
        "has 3 parameters, but the launch at line 12 passes 4 arguments",
    ),
    (
        "swapped",
        GOOD,
        "[1, d, 2]",
        "parameter 1 of kernel `own` (line 4) is a pointer, but the launch at line 12 passes a number of type u32",
    ),
    (
        "wide",
        "typedef double number;\n    extern \"C\" __global__ void own(unsigned *out, number n) { out[0] = (unsigned)n; }",
        "[d, 2]",
        "parameter 2 of kernel `own` (line 4) is a value of 8 bytes, but the launch at line 12 passes a number of type u32",
    ),
    (
        "narrow",
        "struct Two { float a, b[1]; };\n    extern \"C\" __global__ void own(unsigned *out, Two two) { out[0] = two.b[0]; }",
        "[d, {struct: [{f32: 1}, {f64: 2}]}]",
        "is a value of 8 bytes, but the launch at line 12 passes a struct of 16 bytes",
    ),
    // Without the word `__global__`, only the compiled code shows the next two mistakes.
    (
        "mangled",
        "__attribute__((global)) void own(unsigned *out) { out[0] = 1; }",
        "[d]",
        "defines `_Z3ownPj`; declare it `extern \"C\"`",
    ),
    (
        "named",
        "extern \"C\" __attribute__((global)) void other(unsigned *out) { out[0] = 1; }",
        "[d]",
        "the source of kernel `own` (line 4) must define a kernel of that name but defines `other`",
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
fn gives_no_verdict_to_mistakes_in_own_kernels() {
    for record in run("debian:7.2.4") {
        let Some((.., printed)) = MISTAKES.iter().find(|(name, ..)| *name == record.case) else {
            assert_eq!(record.verdict.kind, VerdictKind::Pass, "{record:?}");
            continue;
        };
        assert_eq!(record.verdict.kind, VerdictKind::NoVerdict, "{}: {record:?}", record.case);
        assert_eq!(record.outcome.signature, "no-verdict:case", "{}", record.case);
        let all = [&[record.outcome.summary][..], &record.outcome.details].concat().join("\n");
        assert!(all.contains("says nothing about ROCm") && all.contains(printed), "{all}");
    }
}

fn rocrepro(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(arguments)
        .env("ROCREPRO_DEVICE_KIND", "emulated")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns a case whose GPU kernel reads through an index. It writes each result `too_far` elements after the right
/// place.
fn gather(too_far: u32) -> String {
    format!(
        "\
title: A gather
source: [this test]
kernels:
  own: |
    extern \"C\" __global__ void own(unsigned *out, const unsigned *index, const unsigned *from) {{
      unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
      out[i + {too_far}] = from[index[i]] + 1;
    }}
buffers:
  out: {{on: device, bytes: 1024, fill: zero}}
  index: {{on: device, bytes: 1024}}
  from: {{on: device, bytes: 1024, fill: zero}}
  one: {{on: host.pageable, bytes: 1024}}
  two: {{on: host.pageable, bytes: 1024}}
steps:
  - set: {{to: index, value: 0}}
  - launch: {{kernel: own, args: [out, index, from], grid: 4, block: 64}}
  - copy: {{to: one, from: out}}
  - copy: {{to: two, from: from}}
  - differ: [one, two]
faults: [kernel.drop]
"
    )
}

#[test]
fn keeps_what_the_own_kernel_of_a_minimal_case_accesses() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("gather.yaml"), gather(0)).expect("a file");
    let from =
        ["minimise", "gather", "--cases-from", "gather.yaml", "--fault", "kernel.drop,only=1"];
    rocrepro(at, &[&from[..], &["--out", "out"]].concat());
    let case = fs::read_to_string(at.join("out/case.yaml")).expect("a case");
    // The reduced case keeps one element for each work-item, and the content of the index.
    assert!(case.contains("launch: {kernel: own") && case.contains("bytes: 1024"), "{case}");
    assert!(case.contains("set: {to: index, value: 0}"), "{case}");
    let watched = rocrepro(at, &["run", "--cases-from", "out/case.yaml", "--sanitize"]);
    assert!(watched.contains("1 passed"), "{watched}");
}

#[test]
fn suspects_an_out_of_bounds_own_kernel_before_rocm() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for (too_far, suspect) in [(0, false), (256, true)] {
        // With `equal` in place of `differ`, the check fails for both values of `too_far`.
        let case = gather(too_far).replace("differ:", "equal:");
        fs::write(at.join("gather.yaml"), case).expect("a file");
        let report = ["report", "gather", "--budget-seconds", "40", "--cases-from", "gather.yaml"];
        let options = ["--out", "out", "--repeat", "2", "--anyway"];
        let printed = rocrepro(at, &[&report[..], &options].concat());
        let text = fs::read_to_string(at.join("out/report.md")).expect("a report");
        assert_eq!(
            printed.contains("look first  the sanitizer found: kernel own"),
            suspect,
            "{printed}"
        );
        assert_eq!(
            text.contains("The most likely cause is a kernel defined in the case, not ROCm"),
            suspect,
            "{text}"
        );
        assert_eq!(text.contains("--cases-from gather.yaml --sanitize`"), suspect, "{text}");
    }
}
