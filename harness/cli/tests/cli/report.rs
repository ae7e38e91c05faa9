//! Tests the commands `doctor`, `mitigate` and `report`.

use std::{path::Path, process::Command};

use report::evidence::MinimiseEvidence;

fn rocrepro(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(arguments)
        .current_dir(folder)
        .env("USER", "janedoe")
        .output()
        .expect("the command starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn prints_machine_facts_without_the_user_name() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text, _) = rocrepro(folder.path(), &["doctor"]);
    assert_eq!(code, Some(0));
    for fact in ["os ", "kernel ", "cpu ", "container ", "driver ", "gpu "] {
        assert!(text.lines().any(|line| line.starts_with(fact)), "{fact}: {text}");
    }
    assert!(!text.contains("janedoe"));
    let (code, json, _) = rocrepro(folder.path(), &["doctor", "--json"]);
    assert_eq!(code, Some(0));
    let machine: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(
        machine["os"].is_string() && machine["not_read"].is_array() || machine["gpus"].is_array()
    );
}

#[test]
fn rejects_an_unknown_form_with_the_valid_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, stderr) =
        rocrepro(folder.path(), &["report", "copies/tensors", "--for", "rocblas"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("rocm-libraries") && stderr.contains("accelerate"), "{stderr}");
}

#[test]
fn mitigates_and_reports_an_injected_fault() {
    let folder = tempfile::tempdir().unwrap();
    let trial = "copies/tensors[bytes=262144,memory=host.pageable,api=memcpy]";
    let fault = ["--fault", "sdma.zero", "--device", "emulated", "--out", "found"];
    let command = |first: &[&'static str]| [first, &[trial], &fault].concat();

    let (code, text, stderr) = rocrepro(folder.path(), &command(&["mitigate"]));
    assert_eq!(code, Some(0), "{stderr}");
    // The fault is injected into the copy engine (SDMA), so copies that the HIP runtime makes with GPU kernels are
    // right.
    for helps in ["HSA_ENABLE_SDMA=0", "GPU_FORCE_BLIT_COPY_SIZE=1048576"] {
        assert!(text.lines().any(|l| l.contains("helps") && l.contains(helps)), "{text}");
    }
    assert!(text.contains("This points to: copy engine (SDMA)"), "{text}");

    // This writes the files of a bisect with two searches.
    let build = |trial: &str, good: &str, bad: &str, within: Option<[&str; 2]>| {
        serde_json::json!({"trial": trial, "axis": "builds", "rates": [], "signature": "x",
            "last_good": good, "first_bad": bad, "within": within,
            "on": {"rocrepro": "0", "date": "", "stack": "", "gfx": "", "emulated": true, "again": ""}})
    };
    let nights = ["7.15.0a20260704", "7.15.0a20260705"];
    let found = folder.path().join("found");
    std::fs::create_dir_all(found.join("commits")).expect("a folder");
    let write = |name: &str, value: serde_json::Value| {
        std::fs::write(found.join(name), value.to_string()).expect("a file");
    };
    write("bisect.json", build(trial, nights[0], nights[1], None));
    write("commits/bisect.json", build(trial, "361a3e7", "9f00d11", Some(nights)));

    let (code, text, stderr) = rocrepro(
        folder.path(),
        &command(&["report", "--open", "--repeat", "3", "--budget-seconds", "60"]),
    );
    assert_eq!(code, Some(0), "{stderr}");
    let url = text.lines().find(|line| line.starts_with("https://")).expect("an address");
    assert!(url.len() <= report::issue::LIMIT && url.contains("INJECTED"), "{url}");
    let written = std::fs::read_to_string(folder.path().join("found/report.md")).expect("a report");
    for wanted in [
        "### Problem Description",
        "injected on purpose",
        "Last good: **7.15.0a20260704**. First bad: **7.15.0a20260705**.",
        "#### Between these two",
        "Last good: **361a3e7**. First bad: **9f00d11**.",
        "Please confirm on hardware",
        "| no fault injected | 0/3 | passes |",
        "| `HSA_ENABLE_SDMA=0` | 0/6 |",
        "AMD_LOG_LEVEL=4 of the program: calls before hipMemcpy, and everything from there on",
        "it failed as described in 3 of 3 fresh processes. A failing run ended with: `FAIL: buffer back: byte 0 is 00",
        "repro.cpp",
    ] {
        assert!(written.contains(wanted), "{wanted}: {written}");
    }
    let home = std::env::var("HOME").unwrap_or_default();
    assert!(!written.contains("janedoe") && (home.len() < 2 || !written.contains(&home)));
}

/// A case that instantiates a graph: a chain of 1000 nodes needs more than 256 KiB of call stack, and less than the
/// usual 8 MiB.
const CHAIN: &str = "\
title: A long chain of kernels
source: [this test]
buffers:
  counter: {on: device, bytes: 64, fill: zero}
steps:
  - begin_capture: {stream: s}
  - repeat:
      count: 1000
      steps:
        - launch: {kernel: add_u32, args: [counter, counter, 16, 1], block: 16, items: 16, stream: s}
  - end_capture: {stream: s, graph: g}
  - instantiate: {exec: x, graph: g}
  - launch_graph: {exec: x, stream: s}
  - sync: s
expect:
  - check: counter
faults: [value.wrong]
";

#[test]
fn finds_a_too_small_stack_as_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chain.yaml"), CHAIN).unwrap();
    let trial = "chain";
    let options = [
        "--cases-from",
        "chain.yaml",
        "--trust",
        "--limit",
        "stack=256K",
        "--failures",
        "3",
        "--device",
        "emulated",
    ];
    let (code, text, stderr) =
        rocrepro(folder.path(), &[&["mitigate", trial][..], &options].concat());
    assert_eq!(code, Some(0), "{stderr}");
    for helps in ["--limit stack=64M", "--limit stack=512M"] {
        assert!(text.lines().any(|l| l.contains("helps") && l.contains(helps)), "{text}");
    }
    assert!(text.contains("This points to: recursion in the runtime (stack overflow)"), "{text}");
}

#[test]
fn rejects_findings_of_another_version() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    std::fs::write(folder.path().join("out/minimise.json"), "{\"trial\": 1}\n").unwrap();
    let trial = "copies/tensors[bytes=262144,memory=host.pageable,api=memcpy]";
    let options = [
        "report",
        trial,
        "--budget-seconds",
        "20",
        "--device",
        "emulated",
        "--fault",
        "copy.zero",
        "--out",
        "out",
    ];
    let (code, _, stderr) = rocrepro(folder.path(), &options);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("`out/minimise.json` does not have the format of this version: "),
        "{stderr}"
    );
    assert!(stderr.contains("line 1 column 11\nhint: create it again, or remove it"), "{stderr}");
}

#[test]
fn refuses_to_report_trials_that_do_not_fail() {
    let folder = tempfile::tempdir().unwrap();
    let trial = "copies/tensors[bytes=262144,memory=host.pageable,api=memcpy]";
    for command in ["report", "mitigate"] {
        let (code, _, stderr) = rocrepro(folder.path(), &[command, trial, "--device", "emulated"]);
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("nothing failed in"), "{stderr}");
    }
}

/// The program of a report runs unconfined, so an evidence folder that another person made must not add kernels to it.
#[test]
fn reports_no_minimal_case_with_a_kernel_that_the_case_does_not_have() {
    let folder = tempfile::tempdir().unwrap();
    let trial = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
    let on = [trial, "--fault", "copy.zero", "--device", "emulated", "--out", "found"];
    let (code, _, stderr) = rocrepro(folder.path(), &[&["minimise"][..], &on].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let report = || {
        let few = ["--repeat", "1", "--budget-seconds", "1"];
        let (code, _, stderr) = rocrepro(folder.path(), &[&["report"][..], &on, &few].concat());
        assert_eq!(code, Some(0), "{stderr}");
        (std::fs::read_to_string(folder.path().join("found/report.md")).expect("a report"), stderr)
    };
    let reason = "the minimal case has a kernel or a variable that the case does not have";
    let (text, stderr) = report();
    let is_minimal = text.contains("steps:\n  - check: dst\n");
    assert!(is_minimal && !stderr.contains(reason), "{stderr}: {text}");

    let path = folder.path().join("found/case.yaml");
    let minimal = std::fs::read_to_string(&path).expect("a minimal case");
    let changed_case = minimal
        .replacen("buffers:\n", "buffers:\n  e: {on: device, bytes: 64, fill: zero}\n", 1)
        .replacen("steps:\n", "steps:\n  - launch: {kernel: evil, args: [e], items: 1}\n", 1)
        + "kernels:\n  evil: |\n    extern \"C\" __global__ void evil(unsigned *p) { p[0] = 1; }\n";
    std::fs::write(&path, &changed_case).expect("a file");
    let (text, stderr) = report();
    let other = "`case.yaml` is not the case that `minimise.json` describes";
    assert!(stderr.contains(other), "{stderr}");
    assert!(!text.contains("evil"), "{text}");
    let path = folder.path().join("found/minimise.json");
    let found = std::fs::read_to_string(&path).expect("a result");
    let mut found: MinimiseEvidence = serde_json::from_str(&found).expect("a result");
    found.yaml = changed_case;
    std::fs::write(&path, serde_json::to_string(&found).expect("JSON")).expect("a file");
    let (text, stderr) = report();
    assert!(stderr.contains(reason), "{stderr}");
    assert!(!text.contains("evil"), "{text}");
}

/// `minimise` runs an untrusted case confined, but the exported program of a report is not confined.
#[test]
fn reports_no_minimal_case_of_another_case_with_the_same_name() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs/copies");
    std::fs::create_dir_all(&theirs).expect("a folder");
    let case = "title: A copy\nsource: [theirs]\n\
                matrix: {bytes: [2, 4], host: [pageable, pinned], api: [memcpy, async]}\n\
                buffers:\n  src: {on: host.pageable, bytes: 37, fill: pattern}\n  \
                dst: {on: device, bytes: 37, fill: zero}\n\
                steps:\n  - copy: {to: dst, from: src}\n  - check: dst\nfaults: [copy.zero]\n";
    std::fs::write(theirs.join("small-sizes.yaml"), case).expect("a file");
    let trial = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
    let on = [trial, "--fault", "copy.zero", "--device", "emulated"];
    let minimise = [&["minimise"][..], &on, &["--cases-from", "theirs"]].concat();
    let (code, _, stderr) = rocrepro(folder.path(), &minimise);
    assert_eq!(code, Some(0), "{stderr}");
    let found = folder.path().join("rocrepro-small-sizes");
    let minimal = std::fs::read_to_string(found.join("case.yaml")).expect("a minimal case");
    assert!(minimal.contains("theirs"), "{minimal}");
    let report = [&["report"][..], &on, &["--repeat", "1", "--budget-seconds", "1"]].concat();
    let (code, _, stderr) = rocrepro(folder.path(), &report);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("does not use `minimise.json`, which is about another case"),
        "{stderr}"
    );
    let entries =
        std::fs::read_dir(&found).expect("a folder").map(|entry| entry.expect("an entry").path());
    for path in entries.filter(|path| path.is_file()) {
        let is_of_minimise = ["case.yaml", "minimise.json", "minimise.jsonl"]
            .iter()
            .any(|name| path.ends_with(name));
        let text = std::fs::read_to_string(&path).expect("a text");
        assert!(is_of_minimise || !text.contains("theirs"), "{}: {text}", path.display());
    }
}

/// The report says that copies to the device arrive whole, so its program must make such a copy.
#[test]
fn printed_program_makes_the_copy_that_the_report_is_about() {
    let folder = tempfile::tempdir().unwrap();
    let trial = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
    let on = [trial, "--fault", "copy.zero", "--device", "emulated", "--out", "found"];
    let few = ["--repeat", "1", "--budget-seconds", "10"];
    let (code, _, stderr) = rocrepro(folder.path(), &[&["report"][..], &on, &few].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let program =
        std::fs::read_to_string(folder.path().join("found/repro.cpp")).expect("a program");
    assert!(program.contains("hipMemcpyHostToDevice"), "{program}");
}
