//! Tests the health check of a GPU after a failed trial, and options that end a run early.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use report::Record;

use crate::common::{output_text, write_script};

fn rocrepro(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).stdin(Stdio::null());
    command.env_remove("ROCREPRO_ROCM").env_remove("ROCREPRO_GFX");
    command
}

fn records(path: &Path) -> Vec<Record> {
    let text = fs::read_to_string(path).expect("a record file");
    report::records(&text).expect("records")
}

/// Each check in the case of the health check is needed: without it, a declared fault would not be detected.
#[test]
fn detects_every_declared_fault_of_the_health_check() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/src/health/check.yaml");
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];
    let proven = rocrepro(&["prove", "--mutate", "--cases-from", file]).args(on).output();
    let proven = proven.expect("it starts");
    assert!(proven.status.success(), "{}", output_text(&proven));
    assert!(
        output_text(&proven).contains("4 of 4 injected faults detected"),
        "{}",
        output_text(&proven)
    );
}

/// An empty stack, and a worker that writes a line when it starts and then does nothing, like a worker on a hung GPU.
struct Pretended {
    folder: tempfile::TempDir,
}

impl Pretended {
    fn new() -> Pretended {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("stack/lib")).expect("a folder");
        fs::create_dir_all(at("cache/rocrepro")).expect("a folder");
        fs::write(at("stack/lib/libamdhip64.so.7"), "").expect("a file");
        fs::create_dir_all(at("stack/.info")).expect("a folder");
        fs::write(at("stack/.info/version"), "7.2.4\n").expect("a file");
        let starts = at("starts").display().to_string();
        write_script(&at("worker"), &format!("#!/bin/sh\necho >> {starts}\nexec sleep 600\n"));
        Pretended { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("a folder").join(name)
    }

    /// Writes a cache entry which says that the health check has passed since the machine was started.
    fn passed_once(&self) {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
        let known = serde_json::json!({
            "boot": boot.trim(), "stacks": {self.at("stack").display().to_string(): null}
        });
        fs::write(self.at("cache/rocrepro/turn-on-the-gpu.json"), known.to_string())
            .expect("a file");
    }

    fn starts(&self) -> usize {
        fs::read_to_string(self.at("starts")).map_or(0, |text| text.lines().count())
    }

    fn run(&self, more: &[&str]) -> Output {
        self.command(more).output().expect("it starts")
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = rocrepro(&["run", "copies/small-sizes", "--device", "gpu"]);
        command.args(["--quiet-timeout", "1", "--record"]).arg(self.at("records"));
        command.arg("--rocm").arg(self.at("stack")).arg("--worker").arg(self.at("worker"));
        command.env("XDG_CACHE_HOME", self.at("cache")).args(more);
        command
    }
}

#[test]
fn stops_after_a_trial_broke_the_gpu() {
    let pretended = Pretended::new();
    pretended.passed_once();
    let mended = pretended.at("mended").display().to_string();
    let output =
        pretended.run(&["--recover", &format!("sh -c 'echo was here >&2; echo >> {mended}'")]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    // The three starts are the trial, the health check after it, and the health check after `--recover`.
    assert_eq!(pretended.starts(), 3, "{text}");
    assert_eq!(fs::read_to_string(&mended).expect("it ran").lines().count(), 1);
    let done = records(&pretended.at("records"));
    let [suspect] = done.as_slice() else { panic!("{} trials have a record: {text}", done.len()) };
    for wanted in [
        "which ended with exit code 0",
        &format!("the suspected cause is `{}` of run {}", suspect.trial, suspect.run),
        "no further trial was started: the GPU did not pass the health check",
        "was here",
        "stopped: 1 of ",
    ] {
        assert!(text.contains(wanted), "no `{wanted}` in: {text}");
    }
    assert!(suspect.gpu_after.contains("the suspected cause is"), "{suspect:?}");

    // A later process reports the suspect and starts no worker.
    let output = pretended.run(&["--resume"]);
    let text = output_text(&output);
    assert_eq!((output.status.code(), pretended.starts()), (Some(3), 3), "{text}");
    assert!(
        text.contains(&format!(
            "the suspected cause is `{}` of run {}",
            suspect.trial, suspect.run
        )),
        "{text}"
    );
    assert_eq!(records(&pretended.at("records")).len(), 1);
}

/// The result of the trial is known before the health check. The trial is not repeated, because it could break a
/// recovered GPU again.
#[test]
fn keeps_the_result_of_a_run_killed_during_the_health_check() {
    let pretended = Pretended::new();
    pretended.passed_once();
    let mut command = pretended.command(&[]);
    let mut runner =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while pretended.starts() < 2 {
        assert!(runner.try_wait().expect("a child").is_none(), "it ended without a check");
        sleep(Duration::from_millis(10));
    }
    runner.kill().expect("it is there");
    runner.wait().expect("it ends");
    let path = pretended.at("records");
    let done = records(&path);
    let [suspect] = done.as_slice() else { panic!("{done:?}") };
    // The record contains the outcome of the trial, and the call stacks of its threads.
    assert_eq!(suspect.outcome.signature, "no-verdict:worker", "{suspect:?}");
    assert!(!suspect.stacks.is_empty(), "{suspect:?}");
    assert!(suspect.gpu_after.starts_with("unknown: the run was interrupted"), "{suspect:?}");
    let text = fs::read_to_string(&path).expect("a record file");
    assert_eq!(report::unfinished(text.lines()), []);

    // The four starts are the trial and its health check before the kill, and now two health checks, before and after
    // `--recover`.
    let output = pretended.run(&["--resume", "--recover", "true"]);
    let text = output_text(&output);
    assert_eq!((output.status.code(), pretended.starts()), (Some(3), 4), "{text}");
    for wanted in [
        "1 trial finished",
        &format!("the suspected cause is `{}` of run {}", suspect.trial, suspect.run),
        "stopped: 0 of ",
    ] {
        assert!(text.contains(wanted), "no `{wanted}` in: {text}");
    }
    assert_eq!(records(&path), done);
    let lines = fs::read_to_string(&path).expect("a record file");
    let whole = |line: &&str| matches!(report::Line::parse(line), Ok(report::Line::Trial(_)));
    assert_eq!(lines.lines().filter(whole).count(), 1, "{lines}");
}

#[test]
fn runs_all_trials_if_the_health_check_never_passed() {
    let pretended = Pretended::new();
    let output = pretended.run(&[
        "--exclude",
        "copies/small-sizes[bytes=2]",
        "--repeat",
        "1",
        "--shard",
        "1/12",
    ]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert_eq!(text.matches("the health check does not pass on this stack").count(), 1, "{text}");
    let done = records(&pretended.at("records"));
    assert_eq!(pretended.starts(), done.len() + 1, "{text}");
    assert!(done.iter().all(|record| record.gpu_after.is_empty()));
}

fn emulated(record: &Path, more: &[&str]) -> Output {
    let mut command = rocrepro(&["run", "--rocm", "debian:7.2.4", "--device", "emulated"]);
    command.args(["--gfx", "gfx1151", "--jobs", "1", "--record"]).arg(record).args(more);
    command.output().expect("it starts")
}

#[test]
fn stops_at_the_first_unexpected_result_with_fail_fast() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("records");
    let first = ["copies/small-sizes", "--fault", "copy.zero", "--fail-fast"];
    let output = emulated(&record, &first);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let done = records(&record);
    let (last, before) = done.split_last().expect("a record");
    assert!(
        last.verdict.kind.is_unexpected() && before.iter().all(|r| !r.verdict.kind.is_unexpected())
    );
    assert!(
        text.contains(&format!(
            "no further trial was started: {} has an unexpected result (--fail-fast)",
            last.trial
        )),
        "{text}"
    );
    assert!(text.contains(&format!("stopped: {} of ", done.len())), "{text}");
}

#[test]
fn skips_the_rest_of_a_case_after_max_hangs() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("records");
    let options = [
        "copies/small-sizes[host=pageable]",
        "errors/bad-free",
        "--fault",
        "call.hang,call=hipMemcpy",
        "--quiet-timeout",
        "2",
        "--max-hangs",
        "1",
    ];
    let output = emulated(&record, &options);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let done = records(&record);
    let of = |case: &str| done.iter().filter(|r| r.case == case).collect::<Vec<_>>();
    let hung =
        of("copies/small-sizes").iter().filter(|r| r.outcome.kind == judge::Kind::Hang).count();
    assert_eq!(hung, 1, "{text}");
    assert!(!of("errors/bad-free").is_empty(), "{text}");
    assert!(
        text.contains(
            "of copies/small-sizes not run, because 1 trial of this case hung (--max-hangs)"
        ),
        "{text}"
    );
}

#[test]
fn stops_at_the_time_budget_and_resumes() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("records");
    let all = ["copies/small-sizes[bytes=2,host=pinned]", "--repeat", "60"];
    let output = emulated(&record, &[&all[..], &["--budget-seconds", "1"]].concat());
    let text = output_text(&output);
    let done = records(&record).len();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(done > 0 && done < 60 * 4, "{done}: {text}");
    assert!(
        text.contains(
            "no further trial was started: the budget of 1 s is spent (--budget-seconds)"
        ),
        "{text}"
    );
    let output = emulated(&record, &[&all[..], &["--resume"]].concat());
    assert!(output.status.success(), "{}", output_text(&output));
    let numbers: std::collections::BTreeSet<u64> =
        records(&record).iter().map(|r| r.number).collect();
    assert_eq!(numbers.len(), records(&record).len());
}
