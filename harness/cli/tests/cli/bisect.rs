//! Tests `rocrepro bisect` with quick commands instead of trials, which need no ROCm.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use crate::common::check_command;

fn bisect(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.arg("bisect").args(arguments).stdin(Stdio::null());
    for name in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("ROCREPRO_DEVICE_KIND", "emulated");
    command
}

#[track_caller]
fn check(arguments: &[&str], code: i32, out: &[&str], err: &[&str]) -> Output {
    check_command(bisect(arguments), code, out, err)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[track_caller]
fn check_script(script: &str, options: &[&str], code: i32, out: &[&str]) {
    let folder = folder();
    let path = folder.path().join("out");
    let mut arguments = vec!["--axis", "x=1..1000", "--out", path.to_str().unwrap()];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", script]);
    check(&arguments, code, out, &[]);
}

/// The program fails depending on the path of the release, and never calls HIP, so its failures prove nothing about
/// ROCm.
#[test]
fn rejects_programs_that_never_use_the_device() {
    let folder = folder();
    let program = folder.path().join("which.sh");
    let script = "#!/bin/sh\ncase $ROCREPRO_PREFIX in *7.2.4*) exit 1;; esac\n";
    std::fs::write(&program, script).expect("a program");
    let (program, out) = (program.to_str().unwrap(), folder.path().join("out"));
    let ends = ["--good", "debian:6.4.3", "--bad", "debian:7.2.4", "--out", out.to_str().unwrap()];
    let output = check(&[&["--program", "sh"][..], &ends, &["--", program]].concat(), 3, &[], &[]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("never used the device"), "{printed}");
}

#[test]
fn finds_a_threshold() {
    check_script(
        "test $ROCREPRO_VALUE -lt 617",
        &[],
        0,
        &["last good 616, first bad 617", "signature   exit:1", "--axis=x=616,617"],
    );
    let fix = ["--fixed", "--good", "last", "--bad", "first"];
    check_script(
        "test $ROCREPRO_VALUE -gt 616",
        &fix,
        0,
        &["first good 617, last bad 616", "first good  617"],
    );
}

#[test]
fn counts_untestable_values_as_neither_good_nor_bad() {
    let skips = "[ $ROCREPRO_VALUE -ge 600 ] && [ $ROCREPRO_VALUE -lt 620 ] && exit 125; [ $ROCREPRO_VALUE -lt 610 ]";
    check_script(
        skips,
        &[],
        0,
        &["last good 599, first bad 620; none of the 20 points between them can be tested"],
    );
    // A value that fails with another signature cannot be tested.
    let other = "[ $ROCREPRO_VALUE = 617 ] && exit 9; [ $ROCREPRO_VALUE -lt 617 ]";
    check_script(other, &[], 0, &["last good 616, first bad 618", "skipped     617: exit code 9"]);
    check_script(other, &["--regress", "any"], 0, &["last good 616, first bad 617"]);
}

#[test]
fn exits_with_the_code_of_what_prevents_an_answer() {
    check_script("true", &[], 1, &["not reproducible: none of 150 runs"]);
    check_script("false", &[], 3, &["the good end fails"]);
    check_script("exit 125", &[], 3, &["1000 cannot be tested"]);
    check_script("kill -SEGV $$", &["--regress", "hang"], 3, &["1000 cannot be tested"]);
    check_script(
        "test $ROCREPRO_VALUE -lt 617",
        &["--budget-runs", "9"],
        4,
        &["the budget of runs is spent; with ", "the change is between 1 and "],
    );
    check_script("test $ROCREPRO_VALUE -lt 617", &["--budget-runs", "3"], 4, &["before the ends"]);
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let nothing = ["--axis", "x=1..9", "--out", path, "--", "/no/such/command"];
    check(&nothing, 5, &[], &["cannot start `/no/such/command`", "--resume to continue"]);
}

/// Values from 617 on fail. The value 500 fails too, with the same exit code but another message.
#[test]
fn identifies_failures_by_their_output() {
    let other = "[ $ROCREPRO_VALUE = 500 ] && { echo no disk >&2; exit 1; }; \
                 [ $ROCREPRO_VALUE -lt 617 ] || { echo \"wrong at 0x$$: $ROCREPRO_VALUE\" >&2; exit 1; }";
    check_script(
        other,
        &[],
        0,
        &["last good 616, first bad 617", "signature   exit:1:wrong at #: #"],
    );
    let output = "[ $ROCREPRO_VALUE -lt 617 ] || { echo mismatch; echo bye $ROCREPRO_VALUE apples; exit 3; }";
    check_script(
        output,
        &["--match", "mis?match"],
        0,
        &["first bad 617", "signature   match:mis?match"],
    );
    check_script(output, &["--match", "crash"], 3, &["1000 cannot be tested"]);
    let folder = folder();
    let path = folder.path().join("out");
    let bad = ["--axis", "x=1..9", "--out", path.to_str().unwrap(), "--match", "(", "--", "true"];
    check(&bad, 2, &[], &["`--match`", "unclosed group"]);
}

/// With `--regress any`, values may fail in different ways. The bisect reports the signature of the first bad value.
#[test]
fn names_the_signature_of_the_first_bad_build() {
    let two = "[ $ROCREPRO_VALUE -lt 617 ] && exit 0; [ $ROCREPRO_VALUE -lt 900 ] && { echo early >&2; exit 1; }; \
               echo late >&2; exit 2";
    check_script(
        two,
        &["--regress", "any"],
        0,
        &[
            "first bad 617",
            "signature   exit:1:early",
            "1000 failed with other signatures: exit:2:late in",
        ],
    );
}

/// The bad end fails in two ways in turn, so a search is possible only with `--regress any`.
#[test]
fn reports_both_signatures_of_a_bad_end() {
    let folder = folder();
    let count = folder.path().join("count");
    std::fs::write(&count, "0").expect("a file");
    let script = format!(
        "n=$(cat {0}); echo $((n + 1)) > {0}; [ $ROCREPRO_VALUE -lt 617 ] && exit 0; \
         [ $((n % 2)) = 0 ] && {{ echo even >&2; exit 1; }}; echo odd >&2; exit 2",
        count.display()
    );
    // Ten runs of the bad end show that both failures are frequent.
    let counts = "1000 fails in 2 ways (of 10 runs: exit:1:even in 5, exit:2:odd in 5)";
    check_script(&script, &[], 3, &[counts, "--regress any"]);
    check_script(&script, &["--regress", "any"], 0, &["last good 616, first bad 617"]);
}

/// One run of the bad end fails with another signature. The search continues and reports it.
#[test]
fn notes_an_unrelated_failure_next_to_the_answer() {
    let folder = folder();
    let count = folder.path().join("count");
    std::fs::write(&count, "0").expect("a file");
    let script = format!(
        "n=$(cat {0}); echo $((n + 1)) > {0}; [ $n = 2 ] && {{ echo noise >&2; exit 9; }}; \
         test $ROCREPRO_VALUE -lt 617",
        count.display()
    );
    let note = "other failures count neither as good nor as bad: 1000: exit:9:noise in 1";
    check_script(&script, &[], 0, &["last good 616, first bad 617", note]);
}

#[test]
fn reports_values_excluded_by_skip() {
    let left = |skip: &[&str], parts: &[&str]| {
        check_script("test $ROCREPRO_VALUE -lt 617", skip, 0, parts);
    };
    left(
        &["--skip", "616"],
        &[
            "last good 615, first bad 617; the point between them was skipped on request",
            "left out by --skip",
        ],
    );
    left(
        &["--skip", "616", "--skip=617"],
        &["first bad 618; the 2 points between them were skipped on request"],
    );
    let other = "[ $ROCREPRO_VALUE = 617 ] && exit 125; [ $ROCREPRO_VALUE -lt 617 ]";
    check_script(
        other,
        &["--skip", "616"],
        0,
        &[
            "of the 2 points between them 1 was skipped on request, and none of the others can be tested",
        ],
    );
}

/// Returns the command line in the output line `again`.
fn again(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rfind(|line| line.starts_with("again"));
    line.expect("a line that says how to do it again")["again".len()..].trim().to_owned()
}

/// The printed command line contains every option that affects the answer, and gives the same answer.
#[test]
fn prints_a_command_that_repeats_the_search() {
    let folder = folder();
    let out = folder.path().join("out");
    let script =
        "[ $ROCREPRO_VALUE -lt 617 ] && exit 0; echo it\\'s $((RANDOM)) >&2; exit $((1 + $$ % 2))";
    let arguments = [
        "--axis=x=1..1000",
        "--regress=any",
        "--rate=1",
        "--timeout=77",
        "--limit=files=512",
        "--out",
        out.to_str().unwrap(),
        "--",
        "bash",
        "-c",
        script,
    ];
    let output = check(&arguments, 0, &["last good 616, first bad 617"], &[]);
    let words = again(&output);
    for option in
        ["--axis=x=616,617", "--regress=any", "--rate=1", "--timeout=77", "--limit=files=512"]
    {
        assert!(words.contains(option), "no {option}: {words}");
    }
    let own = Path::new(env!("CARGO_BIN_EXE_rocrepro")).parent().expect("a folder");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").expect("a path"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &words]).env("PATH", path).current_dir(folder.path()).stdin(Stdio::null());
    let output = shell.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("last good 616, first bad 617"), "{words}\n{text}\n{output:?}");
}

#[test]
fn rejects_exchanged_ends() {
    check_script("test $ROCREPRO_VALUE -gt 616", &[], 3, &["the ends seem to be swapped"]);
}

/// The answer states the failure rate that the runs cannot exclude. It names a device only if one was used.
#[test]
fn states_the_limits_of_an_answer() {
    let folder = folder();
    let path = folder.path().join("out");
    let arguments = [
        "--axis",
        "x=1..1000",
        "--out",
        path.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "test $ROCREPRO_VALUE -lt 617",
    ];
    let output = check(
        &arguments,
        0,
        &["note        616 fails in less than", "may have existed before"],
        &["if stopped now"],
    );
    assert!(!String::from_utf8_lossy(&output.stdout).contains("device"));
}

/// The journal stores results by the names of builds, so a build that is added to the history does not shift the
/// results of others.
#[test]
fn keeps_results_when_the_history_gains_a_build() {
    let folder = folder();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let log = folder.path().join("log");
    let script = format!("echo $ROCREPRO_VALUE >> {}; test $ROCREPRO_VALUE -lt 6", log.display());
    let search = |values: &str, more: &[&str], code: i32, err: &[&str]| {
        let axis = format!("x={values}");
        let mut arguments = vec!["--axis", axis.as_str(), "--out", out, "--resume"];
        arguments.extend(more);
        arguments.extend(["--", "sh", "-c", script.as_str()]);
        check(&arguments, code, &[], err)
    };
    search("1,2,3,5,6,7,8,9", &["--budget-runs", "7"], 4, &[]);
    let before = std::fs::read_to_string(&log).expect("a log").lines().count();
    assert_eq!(before, 7);
    search("1,2,3,4,5,6,7,8,9", &[], 0, &["resumed after 7 runs"]);
    let after = std::fs::read_to_string(&log).expect("a log").lines().count();
    assert!(after > before && after < 56, "{after}");
    // A replay repeats the decisions of both commands, each with the history as it was at that time.
    let journal = Path::new(out).join("bisect.jsonl");
    let replayed = ["--replay", journal.to_str().unwrap()];
    check(&replayed, 0, &["last good 5, first bad 6"], &[]);
}

#[test]
fn keeps_skips_and_rejects_a_changed_program_on_resume() {
    let folder = folder();
    let (out, test) = (folder.path().join("out"), folder.path().join("test.sh"));
    let (out, test) = (out.to_str().unwrap(), test.to_str().unwrap());
    let write = |text: &str| std::fs::write(test, text).expect("a file");
    write("test $ROCREPRO_VALUE -lt 6");
    let search = |more: &[&str], code: i32, err: &[&str]| {
        let mut arguments = vec!["--axis", "x=1..9", "--out", out, "--resume"];
        arguments.extend(more);
        arguments.extend(["--", "sh", test]);
        check(&arguments, code, &[], err)
    };
    search(&["--skip", "4", "--budget-runs", "7"], 4, &["4                            skipped"]);
    search(&["--budget-runs", "8"], 4, &["note: 4 is still skipped"]);
    write("test $ROCREPRO_VALUE -lt 7");
    search(&[], 2, &["test.sh` was changed after this bisect started"]);
    write("test $ROCREPRO_VALUE -lt 6");
    let same = search(&["--skip", "4"], 0, &["resumed after 8 runs"]);
    assert!(!String::from_utf8_lossy(&same.stderr).contains("is still skipped, because"));
}

#[test]
fn prints_the_answer_when_its_files_cannot_be_written() {
    let folder = folder();
    let out = folder.path().join("out");
    std::fs::create_dir_all(out.join("bisect.json")).expect("a folder in the way");
    let out = out.to_str().unwrap();
    let script = "test $ROCREPRO_VALUE -lt 617";
    let arguments = ["--axis", "x=1..1000", "--out", out, "--", "sh", "-c", script];
    check(&arguments, 0, &["last good 616, first bad 617"], &["the answer above is complete"]);
}

/// A bad value takes nine times as long as a good one, so that a busy machine makes no good value look slow.
#[test]
fn finds_a_slow_value_by_its_run_time() {
    check_script(
        "sleep 0.05; [ $ROCREPRO_VALUE -lt 617 ] || sleep 0.4",
        &["--regress", "perf"],
        0,
        &["last good 616, first bad 617", "signature   slow"],
    );
}

#[test]
fn searches_the_values_of_an_environment_variable() {
    let folder = folder();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let script = "test $QUEUES -lt 4";
    let arguments = ["--axis", "env:QUEUES=1,2,4,8", "--out", out, "--", "sh", "-c", script];
    check(&arguments, 0, &["last good 2, first bad 4"], &["ready", "between"]);
    let journal = Path::new(out).join("bisect.jsonl");
    let replayed = ["--replay", journal.to_str().unwrap()];
    check(&replayed, 0, &["last good 2, first bad 4"], &[]);
    check(
        &arguments,
        2,
        &[],
        &["already contains a bisect", "--resume, or choose another folder with"],
    );
    let mut again = vec!["--resume"];
    again.extend(arguments);
    check(&again, 0, &["last good 2, first bad 4"], &["resumed after"]);
    let other = ["--resume", "--axis", "env:QUEUES=1,2,4", "--out", out, "--", "sh", "-c", script];
    check(&other, 2, &[], &["contains another bisect"]);
    for file in ["bisect.json", "bisect.html"] {
        let text = std::fs::read_to_string(Path::new(out).join(file)).expect("it is written");
        assert!(text.contains("QUEUES"), "{file}");
    }
}

#[test]
fn rejects_invalid_arguments() {
    check(&[], 2, &[], &["required"]);
    check(&["copies/tensors"], 2, &[], &["matches", "trials; choose one"]);
    check(&["graphs/empty"], 2, &[], &["needs both --good and --bad"]);
    let ends = ["graphs/empty", "--good", "debian:1.2.3", "--bad", "debian:4.5.6"];
    check(&ends, 2, &[], &["--good debian:1.2.3", "--bad debian:4.5.6", "debian:5.2.3"]);
    let axis = ["graphs/long-chain[nodes=200]", "--axis", "node=1..9"];
    check(&axis, 2, &[], &["graphs/long-chain has no axis `node`; did you mean `nodes`?"]);
    let fixed = ["graphs/empty", "--good", "debian:5.2.3", "--bad", "debian:7.2.4", "--fixed"];
    check(&fixed, 2, &[], &["with --fixed the bad end must come before"]);
}

/// Kills a bisect up to six times, at moments that `seed` determines, and resumes it until it ends. Returns the line
/// with the answer.
fn kill_and_resume_until_done(out: &str, script: &str, mut seed: u64) -> String {
    let arguments = ["--axis", "x=1..200", "--out", out, "--resume", "--", "sh", "-c", script];
    let mut kills = 0;
    loop {
        let mut child = bisect(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(20 + (seed >> 33) % 150));
        if kills < 6 && child.try_wait().expect("a child").is_none() {
            child.kill().expect("it is killed");
            child.wait().expect("a child");
            kills += 1;
            continue;
        }
        let output = child.wait_with_output().expect("a child");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        return text.lines().nth(1).unwrap_or_default().to_owned();
    }
}

#[test]
fn resumes_a_killed_bisect() {
    let script = "sleep 0.01; test $ROCREPRO_VALUE -lt 137";
    let kept = folder();
    let out = kept.path().join("out");
    let out = out.to_str().unwrap();
    let answer = kill_and_resume_until_done(out, script, 7);
    assert!(answer.ends_with("last good 136, first bad 137"), "{answer}");
    // A replay gives the same answer as one uninterrupted run.
    let journal = Path::new(out).join("bisect.jsonl");
    check(&["--replay", journal.to_str().unwrap()], 0, &["last good 136, first bad 137"], &[]);
}
