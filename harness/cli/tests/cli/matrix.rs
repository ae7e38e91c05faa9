//! Tests `rocrepro matrix`, which runs cases on several stacks and architectures, and writes a page.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{CASE, failing_case, output_text, wait_until};

fn matrix(folder: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.arg("matrix").args(options).current_dir(folder).stdin(Stdio::null());
    if !options.contains(&"--out") {
        command.args(["--out", "out"]);
    }
    command.output().expect("it starts")
}

#[test]
fn runs_each_column_once_and_shows_all_on_one_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("good.yaml"), CASE).expect("a file");
    let options =
        ["--cases-from", "good.yaml", "--rocm", "debian:7.2.4", "--gfx", "gfx1151,gfx90a"];
    let output = matrix(at, &options);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for column in ["7.2.4 gfx1151", "7.2.4 gfx90a"] {
        assert!(text.contains(&format!("{column}: 1 trial of 1 case: 1 passed")), "{text}");
    }
    let page = fs::read_to_string(at.join("out/index.html")).expect("a page");
    assert_eq!(page.matches("<td class=\"ok\">1/1</td>").count(), 2, "{page}");
    assert!(page.contains("on the emulated gfx90a:sramecc+:xnack-; not a GPU result"), "{page}");

    // Only a new column is run: finished columns are not repeated.
    let files = || {
        let read = |name: &str| fs::read_to_string(at.join("out").join(name)).expect("records");
        ["7.2.4_gfx1151.jsonl", "7.2.4_gfx90a.jsonl"]
            .map(|name| read(name).matches("\"begun\"").count())
    };
    assert_eq!(files(), [1, 1]);
    let output = matrix(at, &[&options[..], &["--on", "debian:7.2.4@gfx1201"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert_eq!(files(), [1, 1]);
    let page = fs::read_to_string(at.join("out/index.html")).expect("a page");
    assert_eq!(page.matches("<td class=\"ok\">1/1</td>").count(), 3, "{page}");
}

/// From a terminal, the signal would also reach the process that runs a column. Here, only the command receives it, as
/// with `kill`.
#[test]
fn ends_its_run_when_terminated() {
    check_that_its_run_ends(Signal::TERM, Some(3));
}

#[test]
fn ends_its_run_when_killed() {
    check_that_its_run_ends(Signal::KILL, None);
}

fn check_that_its_run_ends(signal: Signal, code: Option<i32>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["matrix", "copies/small-sizes", "--on", "debian:7.2.4@gfx1151", "--jobs", "1"]);
    command.args(["--out", "out"]).current_dir(folder.path()).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let record = folder.path().join("out/7.2.4_gfx1151.jsonl");
    let begun = || std::fs::read_to_string(&record).is_ok_and(|text| text.contains("\"begun\""));
    wait_until("no trial began", begun);
    kill_process(Pid::from_child(&child), signal).expect("it runs");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), code);
    let text = || fs::read_to_string(&record).expect("a record");
    // A command that was killed does not wait for the process that runs the column, which may still be ending.
    wait_until("the run did not end", || code.is_some() || text().contains("\"over\""));
    let ended = text();
    let over = ended.matches("\"verdict\"").count();
    // The case has 36 trials, so the run was cut short.
    assert!(over < 30, "{over} trials ran on");
    // The run has ended, so the file must not grow any more.
    sleep(Duration::from_millis(300));
    assert_eq!(text(), ended);
}

/// The case `wrong` expects an error from a free that succeeds.
#[test]
fn links_unexpected_results_to_their_details() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("cases")).expect("a folder");
    fs::write(at.join("cases/wrong.yaml"), failing_case()).expect("a file");
    fs::write(at.join("cases/good.yaml"), CASE).expect("a file");
    let output = matrix(at, &["--cases-from", "cases", "--on", "debian:7.2.4@gfx1151"]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let page = fs::read_to_string(at.join("out/index.html")).expect("a page");
    assert!(page.contains("<td class=\"news\"><a href=\"#f1\">0/1 FAIL</a></td>"), "{page}");
    assert!(page.contains("<section class=\"found\" id=\"f1\">"), "{page}");
    // Unexpected results come first, whatever their names are.
    let row = |case: &str| page.find(&format!("<th scope=\"row\">{case}<")).expect(case);
    assert!(row("wrong") < row("good"), "{page}");
}

#[test]
fn compares_two_runs_by_their_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let rocrepro = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
        command.args(words).current_dir(at).stdin(Stdio::null()).output().expect("it starts")
    };
    fs::write(at.join("good.yaml"), CASE).expect("a file");
    let run =
        ["run", "--cases-from", "good.yaml", "--device", "emulated", "--rocm", "debian:7.2.4"];
    rocrepro(&[&run[..], &["--record", "old", "--gfx", "gfx1151"]].concat());
    rocrepro(&[&run[..], &["--record", "new", "--gfx", "gfx90a"]].concat());
    rocrepro(&[&run[..], &["--record", "other", "--launcher", "sh -c 'exit 1'"]].concat());
    let same = rocrepro(&["diff", "old", "new"]);
    assert_eq!(same.status.code(), Some(0), "{}", output_text(&same));
    assert!(output_text(&same).contains("1 trial in both: 0 differ"), "{}", output_text(&same));
    assert!(
        output_text(&same).contains("new: ROCm 7.2.4 (debian:7.2.4) on the emulated gfx90a"),
        "{}",
        output_text(&same)
    );
    let none = rocrepro(&["diff", "old", "other"]);
    assert!(
        output_text(&none).contains("a verdict in only one run: 1 trial"),
        "{}",
        output_text(&none)
    );

    let text = fs::read_to_string(at.join("new")).expect("records");
    fs::write(at.join("new"), text.replace("\"signature\":\"pass\"", "\"signature\":\"hang:x\""))
        .expect("a file");
    let differs = rocrepro(&["diff", "old", "new"]);
    assert_eq!(differs.status.code(), Some(1), "{}", output_text(&differs));
    assert!(
        output_text(&differs).contains("now fails       good\n    pass -> hang:x"),
        "{}",
        output_text(&differs)
    );
    let missing = rocrepro(&["diff", "old", "nothing"]);
    assert_eq!(missing.status.code(), Some(2), "{}", output_text(&missing));
}

/// Runs `rocrepro matrix` twice and corrects a case in between. The page leaves out results of the earlier version of
/// the case, and the store alone gives the same page.
#[test]
fn shows_the_same_page_from_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("cases")).expect("a folder");
    fs::write(at.join("cases/good.yaml"), CASE).expect("a file");
    let options =
        ["--cases-from", "cases", "--on", "debian:7.2.4@gfx1151", "--store", "results.db"];
    for (text, folder, code) in [(failing_case(), "first", 1), (CASE.to_owned(), "second", 0)] {
        fs::write(at.join("cases/mended.yaml"), text).expect("a file");
        let output = matrix(at, &[&options[..], &["--out", folder]].concat());
        assert_eq!(output.status.code(), Some(code), "{}", output_text(&output));
        assert!(
            output_text(&output).contains("1 run and 2 trials added"),
            "{}",
            output_text(&output)
        );
    }
    let page = |name: &str| {
        let page = fs::read_to_string(at.join(name).join("index.html")).expect("a page");
        // The text before the heading contains the date.
        page.split("<h1>").nth(1).map(str::to_owned).expect("a heading")
    };
    let shown = page("second");
    assert_eq!(shown.matches("<td class=\"ok\">1/1</td>").count(), 2, "{shown}");
    assert_eq!(shown.matches("<rect").count(), 0, "{shown}");
    let kept =
        store::Store::open(&at.join("results.db")).and_then(|store| store.case_records("mended"));
    assert_eq!(kept.expect("records").len(), 2);
    let output = matrix(at, &["--store", "results.db", "--out", "third"]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert_eq!(page("third"), shown);
    let none = matrix(at, &["--store", "nothing.db", "--out", "fourth"]);
    assert_eq!(none.status.code(), Some(2), "{}", output_text(&none));
}

#[test]
fn reports_all_mistakes_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = matrix(
        folder.path(),
        &["copies/smal-sizes", "--rocm", "debian:0.0", "--gfx", "gfx9999", "--on", "debian:7.2.4"],
    );
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for wanted in ["copies/smal-sizes", "0.0", "gfx9999", "`--on debian:7.2.4` is not SPEC@GFX"] {
        assert!(text.contains(wanted), "no {wanted}: {text}");
    }
    assert!(!folder.path().join("out").exists());
    let output = matrix(folder.path(), &[]);
    assert!(output_text(&output).contains("no stacks given"), "{}", output_text(&output));
    let output =
        matrix(folder.path(), &["--device", "gpu", "--rocm", "system", "--gfx", "gfx1151"]);
    assert!(
        output_text(&output).contains(
            "`--gfx` and `--on` cannot be used with a GPU, which has its own architecture"
        ),
        "{}",
        output_text(&output)
    );
}
