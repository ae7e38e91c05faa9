//! Tests output, streams and exit codes of simple commands.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::common::{check_command, wait_until, write_script};

/// Id of the fastest trial that uses the device.
const TRIAL: &str = "copies/small-sizes[bytes=2,host=pinned,api=memcpy]";

const GOOD: &str = "\
title: A case
source: [this test]
matrix: {bytes: [2, 4]}
buffers:
  src: {on: host.pageable, bytes: $bytes}
  dst: {on: device, bytes: $bytes}
steps:
  - fill: src
  - copy: {to: dst, from: src}
  - check: dst
faults: [copy.zero]
";

fn rocrepro(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments);
    for name in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("ROCREPRO_DEVICE_KIND", "emulated");
    command
}

#[track_caller]
fn check(arguments: &[&str], code: i32, out: &[&str], err: &[&str]) -> Output {
    check_command(rocrepro(arguments), code, out, err)
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn reports_mistakes_of_all_case_files_at_once() {
    let bad = |from: &str, to: &str| GOOD.replace(from, to);
    let huge: String = (0..8).map(|n| format!("  a{n}: [1, 2, 3, 4, 5, 6, 7, 8, 9]\n")).collect();
    let files = [
        ("syntax", bad("steps:", "steps: [")),
        ("key", bad("buffers:", "bufers:")),
        ("step", bad("fill:", "fil:")),
        ("buffer", bad("from: src", "from: scr")),
        ("axis", bad("bytes: $bytes}\nsteps", "bytes: $byts}\nsteps")),
        (
            "kernel",
            bad("  - check", "  - launch: {kernel: saxpi_f32, items: 1, args: []}\n  - check"),
        ),
        ("fault", bad("copy.zero", "copy.zeroo")),
        ("twice", bad("title: A", "title: B\ntitle: A")),
        ("matrix", bad("matrix: {bytes: [2, 4]}", &format!("matrix:\n  bytes: [2]\n{huge}"))),
        ("empty", String::new()),
    ];
    let named: Vec<(String, String)> =
        files.iter().map(|(name, text)| (format!("{name}.yaml"), text.clone())).collect();
    let mut all: Vec<(&str, &[u8])> =
        named.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    all.push(("binary.yaml", &[0xff, 0xfe, 0]));
    let folder = folder(&all);
    let places = [
        "syntax.yaml:",
        "key.yaml:4:1",
        "did you mean `buffers`?",
        "step.yaml:8:5",
        "did you mean `fill`?",
        "buffer.yaml:9:27",
        "did you mean `src`?",
        "axis.yaml:6:28",
        "kernel.yaml:10:22",
        "did you mean `saxpy_f32`?",
        "fault.yaml:11:10",
        "did you mean `copy.zero`?",
        "twice.yaml:2:1",
        "matrix.yaml:4:3",
        "more than 10000 trials",
        "empty.yaml:1:1",
        "binary.yaml",
    ];
    for command in ["check", "run"] {
        let output = check(&[command, "--cases-from", text(folder.path())], 2, &[], &places);
        assert!(output.stdout.is_empty());
    }
}

/// Some mistakes in a case can be found only by looking at all of its trials together.
#[test]
fn checks_what_all_trials_show_together() {
    let folder = tempfile::tempdir().unwrap();
    let head = "title: A\nsource: a document\n";
    let steps = "steps:\n  - set: {to: p, value: 7, bytes: 4}\n  - check: p\n";
    let buffers = "buffers:\n  p: {on: device, bytes: 8, fill: zero}\n";
    let fault = "{fault: call.refused, with: {call: hipMemcpyAsync}}";
    for (name, text) in [
        ("axis.yaml", format!("{head}matrix: {{n: [1, 2]}}\n{buffers}{steps}faults: copy.zero\n")),
        ("fault.yaml", format!("{head}{buffers}{steps}faults:\n  - {fault}\n")),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let wanted = [
        "nothing depends on axis `n`",
        "axis.yaml:3:10",
        "no step calls `hipMemcpyAsync`, so this fault changes nothing",
        "fault.yaml:",
    ];
    for command in ["check", "run"] {
        check(&[command, "--cases-from", text(folder.path())], 2, &[], &wanted);
    }
}

/// If a name resembles that of a file, the error suggests the file or the command for it.
#[test]
fn names_the_file_that_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mine.yaml", "repro.hip"] {
        std::fs::write(folder.path().join(name), "title: A\n").unwrap();
    }
    for (named, wanted) in [
        ("mine", "did you mean the file `mine.yaml`?"),
        ("mine.yml", "did you mean the file `mine.yaml`?"),
        ("repro.hip", "it is a program; `rocrepro case new repro.hip`"),
    ] {
        for command in ["check", "run"] {
            let mut product = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
            let output = product.args([command, named]).current_dir(folder.path()).output();
            let output = output.expect("the command starts");
            let printed = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{printed}");
            assert!(printed.contains(wanted), "{printed}");
        }
    }
}

#[test]
fn rejects_invalid_arguments_with_suggestions() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "copys"], &["unknown case `copys`; did you mean `copies`?"]),
        (&["check", "a/b.yaml"], &["unknown case `a/b.yaml`; no file has this name"]),
        (&["run", "copies/smal-sizes"], &["did you mean `copies/small-sizes`?"]),
        (
            &["list", "copies/small-sizes[bytes=7]", "copies/small-sizes[byts=2]", "nope"],
            &[
                "`bytes` is one of 2, 3, 63, 64, 65, 4096",
                "unknown axis `byts`; did you mean `bytes`?",
                "unknown case `nope`",
            ],
        ),
        (
            &["run", "--fault", "copy.zer", "--fault", "copy.drop,prob=1"],
            &["did you mean `copy.zero`?", "no parameter `prob`; write probability=0.2"],
        ),
        (&["run", "--fault", "launch-lost"], &["did you mean `graph.launch-lost`?"]),
        (&["prove", "copies", "--fault", "copy.zero"], &["`rocrepro run CASE --fault NAME`"]),
        (&["stack", "fetch", "debian:7.2.4", "--with", "dev", "rccl"], &["written with commas"]),
        (
            &[
                "run",
                "nope",
                "--fault",
                "copy.zer",
                "--device-option",
                "memory=abc",
                "--schedule",
                "later",
                "--gfx",
                "gfx900",
                "--rocm",
                "debian:1.0",
            ],
            &["`nope`", "`copy.zer`", "`memory=abc`", "`later`", "`gfx900`", "1.0"],
        ),
        (
            &["run", "--device", "gpu", "--fault", "copy.zero"],
            &["faults below the HIP runtime", "use `--device emulated`"],
        ),
        (&["run", "--device", "gpu", "--sanitize"], &["use `--device emulated`"]),
        (
            &["exec", "--device", "gpu", "--schedule", "lazy", "/bin/sh"],
            &["use `--device emulated`"],
        ),
        (
            &["exec", "--fault", "handle.crash", "--device-option", "foo=1", "/nonexistent"],
            &["`foo", "cannot run `/nonexistent`", "`handle.crash` is injected at calls of a case"],
        ),
        (&["run", "--fault", "copy.zero", "--fault", "copy.zero"], &["given twice"]),
        (
            &["run", "--fault", "copy.zero,probability=2", "--fault", "copy.drop,probability=0"],
            &["`probability=2` of `copy.zero`", "`probability=0` of `copy.drop`: write a number"],
        ),
        (
            &["run", "--fault", "copy.late,ms=x,foo=3,ms=7", "--fault", "launch.slow,factor=0"],
            &[
                "`ms=x` of `copy.late`: write 1 to",
                "`copy.late` has no parameter `foo`",
                "`ms` of `copy.late` is given twice",
                "`factor=0` of `launch.slow`: write 2 to",
            ],
        ),
        (
            &["run", "--fault", "call.crash,call=hipMaloc", "--fault", "call.refused,status=1"],
            &["`call=hipMaloc` of `call.crash`: write hipMalloc,", "`status=1` of `call.refused`"],
        ),
        (&["run", "--gfx", "gfx1", "--env", "A"], &["gfx1151", "`--env A` is not NAME=VALUE"]),
        (&["run", "--rocm", "debin:7.2.4"], &["debian:7.2.4"]),
        (&["run", "--rocm", "debian:9.9.9"], &["choose from debian:5.2.3"]),
        (&["run", "--with", "rocblass"], &["choose from dev, hipblas, hipblaslt"]),
        (&["run", "--jobs", "0"], &["1..=1024"]),
        (&["run", "--repeat", "0"], &["--repeat"]),
        (&["run", "--timeout", "0"], &["--timeout", "such as 120 or 120s"]),
        (&["run", "--quiet-timeout", "2m"], &["'2m' for '--quiet-timeout", "such as 120 or 120s"]),
        (&["run", "copies", "--rocm", "/nonexistent"], &["/nonexistent"]),
        (&["run", "copies", "--rocm", "/etc"], &["no ROCm in /etc", "libamdhip64.so"]),
    ];
    for (arguments, err) in cases {
        check(arguments, 2, &[], err);
    }
}

#[test]
fn prints_numbers_that_agree_with_their_nouns() {
    #[track_caller]
    fn checked(matrix: &str, expected: &str) {
        // Some editors put a byte-order mark at the start of a file.
        let marked = format!("\u{feff}{}", GOOD.replace("[2, 4]", matrix));
        let case = folder(&[("new.yaml", marked.as_bytes())]);
        check(&["check", "--cases-from", text(&case.path().join("new.yaml"))], 0, &[expected], &[]);
    }
    checked("[2]", "1 case is well-formed: 1 trial, 2 plans with the declared faults");
    checked("[2, 4]", "1 case is well-formed: 2 trials, 4 plans with the declared faults");
}

#[test]
fn stops_at_unwritable_output_files() {
    for option in ["--record", "--junit", "--tap", "--annotations"] {
        let output = check(&["run", TRIAL, option, "/nonexistent/x"], 2, &[], &["/nonexistent/x"]);
        assert!(output.stdout.is_empty());
    }
    // A full disk ends the run, because later records could not be written.
    check(&["run", "copies", "--record", "/dev/full"], 3, &[], &[" not run"]);
}

#[test]
fn gives_no_verdict_to_programs_that_are_not_workers() {
    let script = folder(&[]);
    let noise = script.path().join("noise");
    write_script(&noise, "#!/bin/sh\necho noise; echo more >&2; exec \"$@\"\n");
    for worker in ["/bin/true", "/bin/cat", "/usr/bin/yes", "/nonexistent/worker"] {
        check(&["run", TRIAL, "--worker", worker], 3, &["1 without verdict"], &[]);
    }
    check(&["run", TRIAL, "--launcher", "no-such-launcher"], 3, &["no-verdict:not-started"], &[]);
    let sleeper = ["run", TRIAL, "--launcher", "sh -c 'exec(sleep' 60", "--quiet-timeout", "1s"];
    check(&sleeper, 3, &["1 without verdict"], &[]);
    for launcher in ["env", text(&noise)] {
        check(&["run", TRIAL, "--launcher", launcher], 0, &["1 passed"], &[]);
    }
}

#[test]
fn gives_no_verdict_if_the_fault_was_not_injected() {
    let healthy = "ROCREPRO_DEVICE={\"arch\":\"gfx1151\"}";
    check(
        &["run", TRIAL, "--fault", "copy.zero", "--env", healthy],
        3,
        &["no-verdict:device", "no fault", "--env 'ROCREPRO_DEVICE="],
        &[],
    );
}

#[test]
fn rejects_a_missing_temporary_or_cache_folder() {
    let mut command = rocrepro(&["run", TRIAL]);
    command.env("TMPDIR", "/nonexistent");
    check_command(command, 3, &[], &["temporary folder in `/nonexistent`", "TMPDIR"]);
    let mut command = rocrepro(&["run", TRIAL]);
    command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    check_command(command, 2, &[], &["set XDG_CACHE_HOME or HOME"]);
}

#[test]
fn creates_no_cache_for_commands_without_a_stack() {
    let empty = folder(&[]);
    let cache = empty.path().join("cache");
    for arguments in [["list", "--trials"], ["explain", "--steps"], ["schema", "--record"]] {
        let mut command = rocrepro(&arguments);
        command.env("XDG_CACHE_HOME", &cache);
        check_command(command, 0, &[], &[]);
    }
    assert!(!cache.exists());
}

#[test]
fn exits_4_if_all_trials_are_skipped() {
    let case = folder(&[("new.yaml", format!("{GOOD}needs: {{rocm: '>=99.0'}}\n").as_bytes())]);
    let from = case.path().join("new.yaml");
    let output = check(&["run", "--cases-from", text(&from)], 4, &["2 skipped"], &[]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("did not prove"));
}

#[test]
fn reports_the_failure_rate_of_repeated_trials() {
    let fault = "copy.zero,probability=0.02,seed=1";
    check(
        &["run", TRIAL, "--fault", fault, "--repeat", "4"],
        1,
        &["of 4", "probability=0.02"],
        &[],
    );
}

#[test]
fn ends_without_panic_when_its_reader_leaves() {
    let mut child = rocrepro(&["list", "--trials"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{}\n{stderr}", output.status);
}

#[test]
fn fails_if_standard_output_cannot_be_written() {
    let commands: &[&[&str]] = &[
        &["list"],
        &["explain", "--steps"],
        &["schema"],
        &["completions", "zsh"],
        &["run", TRIAL],
    ];
    for arguments in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
        let output = rocrepro(arguments).stdout(full).output().expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn reports_the_finished_part_of_an_interrupted_run() {
    let folder = folder(&[]);
    let record = folder.path().join("record.jsonl");
    let junit = folder.path().join("junit.xml");
    let command = rocrepro(&["run", "kernels", "--record", text(&record), "--junit", text(&junit)]);
    // timeout(1) sends the signal to the command and to its process group, so the run receives it twice.
    let mut timeout = Command::new("timeout");
    timeout.arg("100").arg(command.get_program()).args(command.get_args());
    timeout.env("TMPDIR", folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = timeout.spawn().expect("timeout is part of coreutils");
    let finished = |text: String| report::records(&text).map_or(0, |records| records.len());
    wait_until("two trials did not end", || {
        std::fs::read_to_string(&record).map_or(0, finished) >= 2
    });
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status().expect("kill is there");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("interrupted: ") && stderr.contains(" not run"), "{stderr}");
    let kept = std::fs::read_to_string(&record).expect("it is there");
    let records = report::records(&kept).unwrap_or_else(|e| panic!("{e}: {kept}"));
    let finished = format!("interrupted: {} of ", records.len());
    assert!(stderr.contains(&finished), "{stderr} with {} records", records.len());
    // The run ended in good order, so none of its trials counts as unfinished.
    assert_eq!(report::unfinished(kept.lines()), []);
    // The JUnit file also lists the trials that were not run, without a verdict.
    let planned = stderr.split("interrupted: ").nth(1).and_then(|rest| rest.split(' ').nth(2));
    let xml = std::fs::read_to_string(&junit).expect("it is there");
    let planned = format!("tests=\"{}\"", planned.expect("a number"));
    assert!(xml.contains(&planned) && xml.contains("no-verdict:not-run"), "{planned}: {xml}");
    let left: Vec<PathBuf> = std::fs::read_dir(folder.path())
        .expect("it is there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| *path != record && *path != junit)
        .collect();
    assert!(left.is_empty(), "temporary files are left: {left:?}");
}

#[test]
fn names_the_trial_during_which_a_run_was_killed() {
    let folder = folder(&[]);
    let record = folder.path().join("record.jsonl");
    let (first, second) = ("pinned", "pageable");
    let trial = |host| format!("copies/small-sizes[bytes=2,host={host},api=memcpy]");
    let run = |host, more: &[&str]| {
        let mut command = rocrepro(&["run", &trial(host), "--record", text(&record)]);
        command.args(more).env("TMPDIR", folder.path()).stderr(Stdio::piped());
        command.stdout(Stdio::null());
        command
    };
    let unfinished = || rocrepro(&["unfinished", text(&record)]).output().expect("it starts");
    assert!(run(first, &[]).status().expect("it starts").success());
    assert_eq!(unfinished().status.code(), Some(0));

    // The trial hangs until the run is killed, so the file does not contain a record of the trial.
    let mut child = run(second, &["--fault", "signal.stuck"]).spawn().expect("it starts");
    let begun = || {
        let text = std::fs::read_to_string(&record).expect("it is there");
        text.lines().any(|line| line.contains("\"begun\"") && line.contains(&trial(second)))
    };
    wait_until("the trial did not begin", begun);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let output = unfinished();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.starts_with(&trial(second)) && !printed.contains(&trial(first)), "{printed}");
    assert!(printed.contains(&format!("its process {} no longer exists", child.id())), "{printed}");
    assert!(
        printed.contains("Again: rocrepro run") && printed.contains("signal.stuck"),
        "{printed}"
    );

    let next = run(first, &[]).output().expect("it starts");
    let said = String::from_utf8_lossy(&next.stderr);
    let warning =
        format!("1 trial of an earlier run started and never finished (last: {}", trial(second));
    assert!(said.contains(&warning), "{said}");
}

/// If rocrepro did not look for GPUs before it starts workers, each worker would report that the GPU is missing.
#[test]
fn reports_missing_gpus_in_one_line_before_starting() {
    if ["/dev/kfd", "/dev/dxg"].iter().any(|file| std::path::Path::new(file).exists()) {
        return;
    }
    let cache = tempfile::tempdir().expect("a folder");
    for words in [&["run", "copies/*"][..], &["exec", "true"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocrepro"));
        command.args([&words[..1], &["--device", "gpu"], &words[1..]].concat());
        let output = command.env("XDG_CACHE_HOME", cache.path()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        let [line, hint] = lines[..] else { panic!("{said}") };
        assert!(line.contains("`/dev/kfd` is missing"), "{said}");
        assert!(hint.starts_with("hint: `--device emulated`"), "{said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}
