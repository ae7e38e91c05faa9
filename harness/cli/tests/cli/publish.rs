//! Tests text that reaches a terminal or is published: control characters and markup are escaped, private data is
//! removed, and printed commands work.

use std::{path::Path, process::Command};

use crate::common::output_text;

const BINARY: &str = env!("CARGO_BIN_EXE_rocrepro");

/// A file name with characters that are special in a shell.
const FILE: &str = "it's $HOME `a` \"case\".yaml";

const CASE: &str = r#"
title: "A <script>alert(1)</script> ![x](http://evil.example/y) @janedoe \u202ecase"
about: "By janedoe, 10.1.2.3, API_TOKEN=abcdef0123 | <img src=x> [link](http://evil.example)"
source: [this test]
buffers:
  src: {on: host.pageable, bytes: 64}
  dst: {on: device, bytes: 64}
steps:
  - fill: src
  - copy: {to: dst, from: src}
  - check: dst
faults: [copy.zero]
"#;

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).current_dir(folder).env("USER", "janedoe");
    command.env_remove("ROCREPRO_ROCM").env("ROCREPRO_DEVICE_KIND", "emulated");
    command
}

#[test]
fn escapes_hostile_text_and_prints_a_working_command() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(FILE), CASE).expect("a file");
    let output = command(folder.path(), &["run", "--cases-from", FILE, "--fault", "copy.zero"])
        .output()
        .expect("it starts");
    let shown = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("\\u{202e}case") && !shown.contains('\u{202e}'), "{shown}");

    let again = shown.lines().find_map(|line| line.trim().strip_prefix("Again: "));
    let again = again.expect("there is a command").replacen("rocrepro", &format!("'{BINARY}'"), 1);
    let output = Command::new("sh").args(["-c", &again]).current_dir(folder.path()).output();
    let output = output.expect("a shell");
    assert_eq!(output.status.code(), Some(1), "{again}: {}", output_text(&output));
    assert!(
        output_text(&output).contains("wrong-data:dst.back:zero"),
        "{again}: {}",
        output_text(&output)
    );

    let escape = CASE.replace("\\u202e", "\\e[2J");
    std::fs::write(folder.path().join("escape.yaml"), escape).expect("a file");
    let output = command(folder.path(), &["list", "--cases-from", "escape.yaml"]).output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        output_text(&output).contains("without control characters"),
        "{}",
        output_text(&output)
    );
    assert!(!output_text(&output).contains('\u{1b}'), "{}", output_text(&output));
}

#[test]
fn removes_private_data_from_reports() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(FILE), CASE).expect("a file");
    let arguments = [
        "report",
        "--budget-seconds",
        "40",
        "it's $HOME `a` \"case\"",
        "--cases-from",
        FILE,
        "--fault",
        "copy.zero",
        "--env",
        "LICENCE_SERVER=27000@licences.acme.example",
        "--env",
        "HSA_XNACK=0",
        "--launcher",
        "env ACCOUNT=acme-secret-project",
        "--repeat",
        "2",
        "--open",
        "--out",
        "found",
    ];
    let output = command(folder.path(), &arguments).output().expect("it starts");
    let shown = output_text(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    let report = std::fs::read_to_string(folder.path().join("found/report.md")).expect("a report");
    for private in ["janedoe", "licences.acme", "acme-secret", "10.1.2.3", "abcdef0123", "\u{202e}"]
    {
        assert!(!report.contains(private), "{private}: {report}");
        let address = shown.lines().find(|line| line.starts_with("https://")).expect("an address");
        assert!(!address.contains(private), "{private}: {address}");
    }
    if let Some(cache) = std::env::var("XDG_CACHE_HOME").ok().filter(|folder| !folder.is_empty()) {
        assert!(!report.contains(&cache), "{cache}: {report}");
    }
    assert!(report.contains("--env \"LICENCE_SERVER=$LICENCE_SERVER\""), "{report}");
    assert!(report.contains("HSA_XNACK=0"), "{report}");
    // Outside of code blocks, markup from the case is escaped.
    let prose: String = report.split("```").step_by(2).collect();
    for markup in ["<script>", "<img", "![x](", "[link](", "@janedoe"] {
        assert!(!prose.contains(markup), "{markup}: {prose}");
    }
    let private = std::fs::read_to_string(folder.path().join("found/PRIVATE.txt")).expect("a note");
    assert!(private.contains("rocrepro records redact"), "{private}");

    let raw = std::fs::read_to_string(folder.path().join("found/record.jsonl")).expect("records");
    assert!(raw.contains("licences.acme"), "what was measured is kept: {raw}");
    let redact = ["redact", "found", "--out", "public"];
    let output = command(folder.path(), &redact).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    for name in ["record.jsonl", "report.md"] {
        let public =
            std::fs::read_to_string(folder.path().join("public").join(name)).expect("it is there");
        assert!(
            !public.contains("licences.acme") && !public.contains("janedoe"),
            "{name}: {public}"
        );
    }
    let records =
        std::fs::read_to_string(folder.path().join("public/record.jsonl")).expect("it is there");
    for line in records.lines() {
        report::parse(line).expect("a record stays one");
    }
    let output = command(folder.path(), &redact).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "a folder that is there is not written to");
}

#[test]
fn redact_removes_private_fields_from_each_carrier() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "Authorization: Bearer abcdef123456\nhostname: gpu-box-3\nbdf 0000:03:00.0\n\
        -----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n";
    let lines = concat!(
        r#"{"password":"hunter2","api_key":["k1","k2"],"hostname":"gpu-box","serial":"X1","#,
        r#""user":"alice","/home/alice/key":1,"signature":"wrong-data:zero"}"#,
        "\n{\"n\":1}\n"
    );
    let table = "| user | case |\n|---|---|\n| alice | copies/plain |\n\n`--password hunter2`\n";
    for (name, text, expected) in [
        (
            "log.txt",
            text,
            "Authorization: <secret>\nhostname: <host>\nbdf 0000:03:00.0\n<secret>\n",
        ),
        (
            "lines.jsonl",
            lines,
            concat!(
                r#"{"password":"<secret>","api_key":["<secret>","<secret>"],"hostname":"<host>","#,
                r#""serial":"<serial>","user":"<user>","~/<path>":1,"signature":"wrong-data:zero"}"#,
                "\n{\"n\":1}\n"
            ),
        ),
        (
            "page.md",
            table,
            "| user | case |\n|---|---|\n| <user> | copies/plain |\n\n`--password <secret>`\n",
        ),
    ] {
        std::fs::write(folder.path().join(name), text).expect("a file");
        let output = command(folder.path(), &["redact", name]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
        let sorted = |text: &str| match serde_json::from_str::<serde_json::Value>(
            text.lines().next().unwrap_or_default(),
        ) {
            Ok(value) => value.to_string(),
            Err(_) => text.to_owned(),
        };
        assert_eq!(sorted(&String::from_utf8_lossy(&output.stdout)), sorted(expected), "{name}");
    }
}

#[test]
fn redact_takes_values_of_options_from_the_records_of_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("found/job_janedoe_7")).expect("a folder");
    let record = concat!(
        r#"{"asked":{"given":["--env MYVAR=supersecretvalue","--launcher /a/l.sh launchsecret99"]},"#,
        r#""stderr_tail":"val supersecretvalue! up"}"#,
        "\n"
    );
    let log = "started by /a/l.sh launchsecret99 with supersecretvalue\n";
    std::fs::write(path("found/runs.jsonl"), record).expect("a file");
    std::fs::write(path("found/job_janedoe_7/log.txt"), log).expect("a file");
    let redact = ["redact", "found", "--out", "public"];
    let output = command(folder.path(), &redact).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    for name in ["public/runs.jsonl", "public/job_user_7/log.txt"] {
        let text = std::fs::read_to_string(path(name)).expect(name);
        assert!(text.contains("<value>"), "{text}");
        assert!(!text.contains("supersecret") && !text.contains("launchsecret"), "{text}");
    }
    let output = command(folder.path(), &["redact", "found/runs.jsonl"]).output();
    let text = output_text(&output.expect("it starts"));
    assert!(!text.contains("supersecret") && !text.contains("launchsecret"), "{text}");

    // An output folder inside the input would be copied into itself.
    let inside = ["redact", "found", "--out", "found/sub"];
    let output = command(folder.path(), &inside).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    assert!(!path("found/sub").exists());
}

#[test]
fn rejects_case_names_with_control_characters() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = folder.path().join("cases");
    std::fs::create_dir(&cases).expect("a folder");
    std::fs::write(cases.join("x\n1 passed.yaml"), CASE).expect("a file");
    let whole = cases.join("x\n1 passed.yaml").display().to_string();
    for from in ["cases", &whole] {
        let output = command(folder.path(), &["list", "--cases-from", from]).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
        assert!(
            output_text(&output).contains(r"`x\u{a}1 passed` contains a control character"),
            "{}",
            output_text(&output)
        );
        assert!(
            !output_text(&output).lines().any(|line| line.starts_with("1 passed")),
            "{}",
            output_text(&output)
        );
    }
}
