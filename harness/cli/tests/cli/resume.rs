//! Tests runs in shards, and interrupted runs that are resumed. Their record files must have the same content as that
//! of one undisturbed run.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::common::{rocrepro, wait_until};

/// Names of cases, which have dozens of trials.
const CASES: [&str; 1] = ["copies/rows-2d"];

fn run(record: &Path, more: &[&str]) -> Command {
    let mut command = rocrepro(&["run", "--rocm", "debian:7.2.4", "--device", "emulated"]);
    command.args(CASES).args(["--gfx", "gfx1151", "--record"]).arg(record).args(more);
    command
}

fn show(paths: &[&Path]) -> Output {
    rocrepro(&["show", "--trials"]).args(paths).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn verdicts(paths: &[&Path]) -> BTreeMap<(String, String), u32> {
    let mut counts = BTreeMap::new();
    for path in paths {
        for line in fs::read_to_string(path).expect("a file").lines() {
            // A process that is killed while it writes may leave an incomplete last line.
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            if let Some(verdict) = line["verdict"]["kind"].as_str() {
                let trial = line["trial"].as_str().expect("a trial").to_owned();
                *counts.entry((trial, verdict.to_owned())).or_default() += 1;
            }
        }
    }
    counts
}

/// Returns the lines about passed trials in the output.
fn table(output: &Output) -> Vec<String> {
    text(&output.stdout)
        .lines()
        .filter(|line| line.starts_with("pass"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn shows_all_shards_as_one_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let whole = run(&at("whole"), &["--trials"]).output().expect("it starts");
    assert!(whole.status.success(), "{whole:?}");
    for part in ["1/3", "2/3", "3/3"] {
        let part = run(&at(&part[..1]), &["--shard", part]).output().expect("it starts");
        assert!(part.status.success(), "{part:?}");
    }
    let parts = [at("1"), at("2"), at("3")];
    let parts: Vec<&Path> = parts.iter().map(|path| path.as_path()).collect();
    assert_eq!(verdicts(&parts), verdicts(&[&at("whole")]));
    let shown = show(&parts);
    assert_eq!((table(&shown), shown.status.code()), (table(&whole), Some(0)), "{shown:?}");
    assert_eq!(table(&show(&[&at("whole")])), table(&whole));

    let check = |paths: &[&Path], printed: &str| {
        let output = show(paths);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(printed), "{output:?}");
    };
    check(&parts[..2], "no file contains shard 3/3");
    check(&[parts[0], parts[0], parts[1]], "both contain the same shard, 1/3");
    check(&[parts[0], &at("whole")], "belong to different runs");
    check(&[parts[0], &at("none")], "cannot read");
    fs::write(at("empty"), "").expect("a file");
    check(&[&at("empty"), &at("none")], "contains no run with a plan");
}

#[test]
fn excludes_selected_trials() {
    let list = |more: &[&str]| {
        let output = rocrepro(&["list", "--trials", "copies/small-sizes"]).args(more).output();
        output.expect("it starts")
    };
    let lines = |output: &Output| text(&output.stdout).lines().count();
    let without =
        ["--exclude", "copies/small-sizes[bytes=2]", "--exclude", "copies/small-sizes[bytes=3]"];
    let (all, fewer) = (list(&[]), list(&without));
    assert!(lines(&all) > lines(&fewer) && lines(&fewer) > 0);
    assert!(!text(&fewer.stdout).contains("bytes=2,"), "{fewer:?}");
    let none = list(&["--exclude", "copies"]);
    assert_eq!(none.status.code(), Some(4), "{none:?}");
    let wrong = list(&["--exclude", "copys"]);
    assert!(
        wrong.status.code() == Some(2) && text(&wrong.stderr).contains("did you mean `copies`?")
    );
}

#[test]
fn refuses_record_files_in_use_and_pipes() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let record = at("record");
    let mut first = run(&record, &["--repeat", "3"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("no trial ended", || {
        fs::read_to_string(&record).is_ok_and(|text| text.contains("\"verdict\""))
    });
    let refused = |output: Output, printed: &str| {
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(printed), "{output:?}");
    };
    let resume = || run(&record, &["--repeat", "3", "--resume"]).output().expect("it starts");
    refused(resume(), "so no run can be resumed in this file");
    first.kill().expect("it is killed");
    first.wait().expect("it ends");

    // An incomplete UTF-8 character makes only its own line unreadable.
    let mut bytes = fs::read(&record).expect("a file");
    bytes.extend(b"{\"format\":1,\"x\":\"\xc3");
    fs::write(&record, bytes).expect("a file");
    assert_eq!(show(&[&record]).status.code(), Some(3));

    let path = |name: &str| at(name).display().to_string();
    let junit = rocrepro(&["show", &path("record"), "--junit", &path("record")]).output();
    refused(junit.expect("it starts"), "is already used for the records");
    let both = ["show", &path("record"), "--junit", &path("new"), "--tap", &path("new")];
    refused(rocrepro(&both).output().expect("it starts"), "is the file of two reports");
    fs::remove_file(at("new")).expect("it was empty");
    assert!(Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo").success());
    refused(show(&[&at("pipe")]), "is not a regular file, so it cannot hold records");
    refused(run(&at("pipe"), &["--resume"]).output().expect("it starts"), "is not a regular file");
}

/// Ctrl-C ends a run in good order. If it is resumed on another machine, no trial is therefore suspected of having
/// crashed the machine.
#[test]
fn resumes_an_interrupted_run_without_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let mut child = run(&record, &["--repeat", "3"]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("no trial ended", || {
        fs::read_to_string(&record).is_ok_and(|text| text.contains("\"verdict\""))
    });
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    let kept = fs::read_to_string(&record).expect("a file");
    let boot = kept.split("\"boot\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let moved = kept.replace(boot.expect("an id of the boot"), "another-machine");
    fs::write(&record, moved).expect("a file");
    let resumed = run(&record, &["--repeat", "3", "--resume"]).output().expect("it starts");
    assert!(resumed.status.success(), "{resumed:?}");
    assert!(!text(&resumed.stderr).contains("not run again"), "{resumed:?}");
    let counts = verdicts(&[&record]);
    assert!(counts.values().all(|count| *count == 3), "{counts:?}");
    let unfinished = rocrepro(&["unfinished"]).arg(&record).output().expect("it starts");
    assert_eq!(unfinished.status.code(), Some(0), "{unfinished:?}");
}

/// The trial during which the run was killed is run last, because it may be the cause and kill the resumed run too.
#[test]
fn defers_the_trial_during_which_a_run_was_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    assert!(run(&record, &[]).output().expect("it starts").status.success());
    let kept = fs::read_to_string(&record).expect("a file");
    let (opened, rest) = kept.split_once('\n').expect("lines");
    let begun = rest.lines().find(|line| line.contains("\"begun\"")).expect("a trial began");
    // This is the file that remains if a run is killed during its first trial.
    let killed = format!("{opened}\n{begun}\n");
    fs::write(&record, &killed).expect("a file");
    let resumed = run(&record, &["--resume", "--jobs", "1"]).output().expect("it starts");
    assert!(resumed.status.success(), "{resumed:?}");
    let said = text(&resumed.stderr);
    assert!(
        said.contains("; 1 trial will run last, because the run was killed during it"),
        "{said}"
    );
    let kept = fs::read_to_string(&record).expect("a file");
    let number = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line");
        line["begun"].is_string().then(|| line["number"].as_u64().expect("a number"))
    };
    let begins: Vec<u64> = kept[killed.len()..].lines().filter_map(number).collect();
    assert!(begins.len() > 2 && Some(begins[begins.len() - 1]) == number(begun), "{begins:?}");
    assert!(verdicts(&[&record]).values().all(|count| *count == 1));

    // If the machine crashes before that trial begins again, the trial is not suspected.
    let resumed =
        kept[killed.len()..].split_inclusive('\n').take_while(|line| number(line).is_none());
    let boot: serde_json::Value = serde_json::from_str(begun).expect("a line");
    let boot = boot["boot"].as_str().expect("an id");
    let down = format!("{killed}{}", resumed.collect::<String>()).replace(boot, "another-boot");
    fs::write(&record, down).expect("a file");
    let resumed = run(&record, &["--resume"]).output().expect("it starts");
    assert!(resumed.status.success(), "{resumed:?}");
    assert!(!text(&resumed.stderr).contains("not run again"), "{resumed:?}");
}

/// The trial that may have crashed the machine is reported, and not run again. The run cannot be resumed with other
/// options.
#[test]
fn skips_the_trial_during_which_the_machine_went_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    assert!(run(&record, &[]).output().expect("it starts").status.success());
    let kept = fs::read_to_string(&record).expect("a file");
    let lines: Vec<&str> = kept.lines().collect();
    let last = lines.iter().rposition(|line| line.contains("\"begun\"")).expect("a trial began");
    let begun: serde_json::Value = serde_json::from_str(lines[last]).expect("a line");
    let ends = |line: &&&str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line");
        line["verdict"].is_object() && line["number"] == begun["number"]
    };
    let end = lines.iter().find(ends).expect("it is over");
    // This is the file that remains after a crash of the machine: neither the trial nor the run has an end, and the
    // boot id differs.
    let boot = begun["boot"].as_str().expect("an id");
    let crashed: Vec<String> = lines
        .iter()
        .filter(|line| *line != end && !line.contains("\"over\""))
        .map(|line| line.replace(boot, "another-boot"))
        .collect();
    fs::write(&record, crashed.join("\n") + "\n").expect("a file");
    let resumed = run(&record, &["--resume", "--trials"]).output().expect("it starts");
    let trial = begun["trial"].as_str().expect("a trial");
    let said = text(&resumed.stdout);
    assert_eq!(resumed.status.code(), Some(3), "{resumed:?}");
    assert!(
        text(&resumed.stderr).contains(
            "1 trial will not run again, because the machine may have gone down during it"
        ),
        "{resumed:?}"
    );
    assert!(
        said.contains(trial) && said.contains("never finished: the machine was restarted"),
        "{said}"
    );
    // A second resume has the same exit code.
    let again = run(&record, &["--resume"]).output().expect("it starts");
    assert_eq!(again.status.code(), Some(3), "{again:?}");

    for other in [&["--repeat", "2"][..], &["--env", "A=1"], &["--fault", "copy.zero"]] {
        let output = run(&record, &[&["--resume"], other].concat()).output().expect("it starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said.contains("has other trials, options"), "{output:?}");
    }
}
