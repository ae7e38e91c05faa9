//! Tests runs that are merged, stored and queried.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::common::{CASE, output_text, repeat_record};

fn rocrepro(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.env_remove("ROCREPRO_STORE");
    command.args(words).current_dir(folder).stdin(Stdio::null()).output().expect("it starts")
}

#[track_caller]
fn ends(folder: &Path, words: &[&str], code: i32) -> String {
    let output = rocrepro(folder, words);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", output_text(&output));
    output_text(&output)
}

fn cases(folder: &Path, trials: usize) {
    let numbers: Vec<String> = (1..=trials).map(|n| (8 * n).to_string()).collect();
    let matrix = format!("matrix: {{n: [{}]}}\nbuffers:\n", numbers.join(", "));
    let case = CASE.replace("buffers:\n", &matrix).replace("bytes: 64", "bytes: $n");
    fs::write(folder.join("case.yaml"), case).expect("a file");
}

const RUN: [&str; 7] =
    ["run", "--cases-from", "case.yaml", "--device", "emulated", "--rocm", "debian:7.2.4"];

fn run(folder: &Path, more: &[&str]) {
    ends(folder, &[&RUN[..], more].concat(), 0);
}

fn trials(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("records");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let over = lines.filter(|line| line["verdict"].is_object());
    let mut names: Vec<String> =
        over.map(|line| line["trial"].as_str().expect("a name").to_owned()).collect();
    names.sort();
    names
}

#[test]
fn merges_seven_shards_into_their_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    cases(at, 24);
    run(at, &["--record", "whole"]);
    let parts: Vec<String> = (1..=7).map(|n| format!("part-{n}")).collect();
    for (n, part) in (1..).zip(&parts) {
        let shard = format!("{n}/7");
        // A shard may be empty, for which there is an exit code of its own, so the exit code is not checked.
        rocrepro(at, &[&RUN[..], &["--shard", &shard, "--record", part]].concat());
    }
    let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    parts.rotate_left(3);
    parts.swap(0, 5);
    let merge = |files: &[&str], out: &str| {
        let words = [&["merge"], files, &["--out", out]].concat();
        let output = rocrepro(at, &words);
        (output.status.code(), output_text(&output))
    };
    let (code, text) = merge(&parts, "merged");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("24 trials of 7 shards"), "{text}");
    assert_eq!(trials(&at.join("merged")), trials(&at.join("whole")));
    assert!(ends(at, &["show", "merged"], 0).contains("24 trials of 1 case: 24 passed"));
    assert!(ends(at, &["diff", "whole", "merged"], 0).contains("24 trials in both: 0 differ"));
    let resumed = [&RUN[..], &["--record", "merged", "--resume"]].concat();
    assert!(ends(at, &resumed, 2).contains("was merged from shards"));

    // An existing file is not overwritten.
    let before = fs::read(at.join("merged")).expect("a file");
    assert!(
        matches!(merge(&parts, "merged"), (Some(2), printed) if printed.contains("already exists"))
    );
    assert_eq!(fs::read(at.join("merged")).expect("a file"), before);

    let refused = |files: &[&str], wanted: &[&str]| {
        let (code, text) = merge(files, "bad");
        assert!(code == Some(2) && wanted.iter().all(|printed| text.contains(printed)), "{text}");
        assert!(!at.join("bad").exists());
    };
    refused(&parts[1..], &["no file contains shard"]);
    refused(&[&parts[..], &[parts[2]]].concat(), &["both contain the same shard"]);
    run(at, &["--quiet-timeout", "77", "--shard", "1/7", "--record", "other"]);
    let others: Vec<&str> =
        parts.iter().map(|p| if *p == "part-1" { "other" } else { p }).collect();
    refused(&others, &["belong to different runs"]);
    // The error lists all problems with file and line.
    let text = fs::read_to_string(at.join(parts[0])).expect("records");
    fs::write(at.join("foreign"), format!("{text}hello\n")).expect("a file");
    refused(&["foreign", "nothing"], &["foreign:", "not a record", "cannot read `nothing`"]);

    // The last record is cut, so that its line is incomplete.
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().rposition(|line| line.contains("\"verdict\"")).expect("a record");
    let torn = [&lines[..last], &[&lines[last][..lines[last].len() / 2]]].concat().join("\n");
    fs::write(at.join("torn"), torn).expect("a file");
    let files: Vec<&str> = parts.iter().map(|p| if *p == parts[0] { "torn" } else { p }).collect();
    let (code, text) = merge(&files, "short");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(&format!("torn:{}: this line is incomplete", last + 1)), "{text}");
    assert!(text.contains("no record of 1 planned trial:\n    case["), "{text}");
    assert_eq!(trials(&at.join("short")).len(), 23);
    ends(at, &["show", "short"], 3);

    // In a store, a merged run replaces the shards from which it was merged.
    ends(at, &[&["store", "add", "--store", "db"], &parts[..]].concat(), 0);
    ends(at, &["store", "add", "--store", "db", "merged"], 0);
    let listed = ends(at, &["store", "list", "--store", "db"], 0);
    assert!(listed.lines().count() == 1 && listed.contains("24 of 24 trials"), "{listed}");

    // A merged run with fewer records than its shards does not replace any of them, whichever is added first.
    let added =
        |db: &str, files: &[&str]| ends(at, &[&["store", "add", "--store", db], files].concat(), 0);
    added("first", &parts);
    let printed = added("first", &["short"]);
    assert!(
        printed.contains("1 run and 0 trials added, 23 trials were already there\n"),
        "{printed}"
    );
    assert_eq!(printed.matches(" and contains all trials of it").count(), 7, "{printed}");
    added("last", &["short"]);
    let printed = added("last", &parts);
    assert!(
        printed.contains("0 runs and 1 trial added, 23 trials were already there\n"),
        "{printed}"
    );
    assert_eq!(printed.matches(", because it is one of its shards").count(), 7, "{printed}");
    for db in ["first", "last"] {
        let listed = ends(at, &["store", "list", "--store", db], 0);
        assert!(listed.lines().count() == 1 && listed.contains("24 of 24 trials"), "{listed}");
    }
}

#[test]
fn reports_the_history_of_a_case() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    cases(at, 3);
    run(at, &["--record", "old", "--gfx", "gfx1151", "--repeat", "2"]);
    run(at, &["--record", "new", "--gfx", "gfx1151"]);
    run(at, &["--record", "other", "--gfx", "gfx90a"]);
    // One of the trials in the new run is made to fail.
    let text = fs::read_to_string(at.join("new")).expect("records");
    let fails = |line: &str| match line.contains("\"trial\":\"case[n=16]\"") {
        true => line
            .replace(
                "\"kind\":\"pass\",\"signature\":\"pass\"",
                "\"kind\":\"hang\",\"signature\":\"hang:x\"",
            )
            .replace("\"verdict\":{\"kind\":\"pass\"", "\"verdict\":{\"kind\":\"news-fail\""),
        false => line.to_owned(),
    };
    let text: Vec<String> = text.lines().map(fails).collect();
    fs::write(at.join("new"), text.join("\n")).expect("a file");

    // Three processes add records at the same time. Two of them add the same file.
    let add = |file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
        command.args(["store", "add", "--store", "db", file]).current_dir(at);
        command.stderr(Stdio::piped()).spawn().expect("it starts")
    };
    for child in [add("old"), add("old"), add("other")] {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", output_text(&output));
    }
    // If several runs began in the same second, the one that was added last counts as the newest.
    ends(at, &["store", "add", "--store", "db", "new"], 0);
    let again = ends(at, &["store", "add", "--store", "db", "old", "new"], 0);
    assert!(again.contains("0 runs and 0 trials added"), "{again}");

    // Results on gfx90a are counted separately.
    let printed = ends(at, &["history", "case", "--store", "db"], 0);
    assert!(printed.contains("12 trials on 2 configurations: 1 failed, 11 passed"), "{printed}");
    assert!(printed.contains("case[n=16]: 1 of 3 failed; fails in"), "{printed}");
    assert!(printed.contains("on the emulated gfx1151; not a GPU result"), "{printed}");
    let json = ends(at, &["history", "case[n=16]", "--store", "db", "--json"], 0);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((json["trials"].as_u64(), json["verdicts"]["failed"].as_u64()), (Some(4), Some(1)));
    let none = ends(at, &["history", "cas", "--store", "db"], 4);
    assert!(none.contains("did you mean `case`?"), "{none}");

    let on = ["debian:7.2.4@gfx90a", "debian:7.2.4@gfx1151", "--store", "db"];
    let printed = ends(at, &[&["diff"], &on[..]].concat(), 1);
    assert!(printed.contains("now fails       case[n=16]\n    pass -> hang:x"), "{printed}");
    let json = ends(at, &[&["diff", "--json"], &on[..]].concat(), 1);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["changed"][0]["change"], "now_fails");
    let wrong = ends(at, &["diff", "debian:7.2.4@gfx91a", "x", "--store", "db"], 2);
    assert!(wrong.contains("did you mean `debian:7.2.4@gfx90a`?"), "{wrong}");
}

#[test]
fn stores_nothing_of_foreign_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    cases(at, 2);
    run(at, &["--record", "good"]);
    run(at, &["--record", "later"]);
    let text = fs::read_to_string(at.join("good")).expect("records");
    fs::write(at.join("foreign"), format!("{text}{{\"format\":2}}\nhello\n")).expect("a file");
    fs::write(at.join("nothing"), "").expect("a file");
    let add = ["store", "add", "--store", "db"];
    let printed = ends(at, &[&add[..], &["good", "foreign", "nothing", "none"]].concat(), 2);
    let lines = text.lines().count();
    for wanted in [
        format!("foreign:{}: the record has format 2", lines + 1),
        format!("foreign:{}: not a record", lines + 2),
        "`nothing` contains no run".to_owned(),
        "cannot read `none`".to_owned(),
    ] {
        assert!(printed.contains(&wanted), "no {wanted}: {printed}");
    }
    assert!(!at.join("db").exists());
    // An incomplete line is reported, and the other records are added.
    fs::write(at.join("torn"), &text[..text.len() - 30]).expect("a file");
    let printed = ends(at, &[&add[..], &["torn"]].concat(), 0);
    assert!(printed.contains(&format!("torn:{lines}: this line is incomplete")), "{printed}");

    let foreign = fs::read(at.join("later")).expect("a file");
    let printed = ends(at, &["store", "add", "--store", "later", "good"], 2);
    assert!(printed.contains("is not a results store of rocrepro"), "{printed}");
    assert_eq!(fs::read(at.join("later")).expect("a file"), foreign);
    assert!(
        ends(at, &["history", "case", "--store", "no"], 2).contains("store `no` does not exist")
    );
    assert!(!at.join("no").exists());
}

/// Size of each record in the test's record file, in bytes.
const FAT: usize = 100_000;
const RECORDS: usize = 500;

/// `ulimit -d` limits the memory of the command to half of the size of the record file.
#[test]
fn reads_record_files_in_less_memory_than_their_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    cases(at, 1);
    run(at, &["--record", "one"]);
    let text = fs::read_to_string(at.join("one")).expect("records");
    let fat = repeat_record(&text, RECORDS, |record| {
        record["environment"]["FAT"] = "x".repeat(FAT).into();
    });
    assert!(fat.len() > FAT * RECORDS);
    fs::write(at.join("fat"), fat).expect("there is room");
    let limit = format!("ulimit -c 0; ulimit -d {}; exec \"$0\" \"$@\"", FAT * RECORDS / 2048);
    let commands: [&[&str]; 4] = [
        &["show", "fat"],
        &["merge", "fat", "--out", "merged"],
        &["diff", "fat", "fat"],
        &["store", "add", "fat", "--store", "db"],
    ];
    for words in commands {
        let mut command = Command::new("sh");
        command.args(["-c", &limit, env!("CARGO_BIN_EXE_rocrepro")]).args(words).current_dir(at);
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", output_text(&output));
    }
}

#[test]
fn record_files_cannot_claim_more_work_than_their_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    cases(at, 1);
    run(at, &["--record", "run.jsonl"]);
    let text = fs::read_to_string(at.join("run.jsonl")).expect("records");
    for (name, repeat) in [("huge.jsonl", "4000000000"), ("large.jsonl", "1000000")] {
        let claimed = text.replace("\"repeat\":1,", &format!("\"repeat\":{repeat},"));
        assert_ne!(claimed, text);
        fs::write(at.join(name), claimed).expect("a file");
    }
    let began = std::time::Instant::now();
    let shown = ends(at, &["show", "huge.jsonl"], 2);
    assert!(shown.contains("contains no run with a plan; line 1: "), "{shown}");
    assert!(shown.contains("repeat must be 1 to 1000000"), "{shown}");
    let shown = ends(at, &["show", "large.jsonl"], 3);
    assert!(shown.contains("999999 planned trials"), "{shown}");
    let merged = ends(at, &["merge", "large.jsonl", "--out", "merged.jsonl"], 3);
    assert!(merged.contains("999999 planned trials"), "{merged}");
    ends(at, &["store", "add", "large.jsonl", "--store", "kept"], 0);
    let listed = ends(at, &["store", "list", "--store", "kept"], 0);
    assert!(listed.contains("1 of 1000000 trials"), "{listed}");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}
