//! Tests the bugs of a results store: their states, drafts of comments, and testing them again.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::common::{CASE, check_command, output_text};

fn rocrepro(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.env_remove("ROCREPRO_STORE").args(words).current_dir(folder);
    command
}

/// Options of a run of the case of this test on the emulated gfx1151.
const ON: [&str; 6] =
    ["--cases-from", "case.yaml", "--device", "emulated", "--rocm", "debian:7.2.4"];

/// Writes the records of another run, in which every trial of `text` failed on the release `version`.
fn failed_on(at: &Path, file: &str, text: &str, version: &str) {
    let first = text.lines().next().expect("a plan");
    let opened: Value = serde_json::from_str(first).expect("JSON");
    let run = opened["run"].as_str().expect("a name");
    let text = text
        .replace(run, &format!("{run}-{file}"))
        .replace("7.2.4", version)
        .replace(
            "\"kind\":\"pass\",\"signature\":\"pass\"",
            "\"kind\":\"hang\",\"signature\":\"hang:x\"",
        )
        .replace("\"verdict\":{\"kind\":\"pass\"", "\"verdict\":{\"kind\":\"news-fail\"");
    fs::write(at.join(file), text).expect("a file");
}

#[test]
fn retest_fixes_a_bug_and_a_newer_release_reopens_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("case.yaml"), CASE).expect("a file");
    let check = |words: &[&str], code: i32, out: &[&str], err: &[&str]| {
        let output = check_command(rocrepro(at, words), code, out, err);
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let bugs = |words: &[&str], code: i32, out: &[&str], err: &[&str]| {
        check(&[&["records", "bugs"], words, &["--store", "db"]].concat(), code, out, err)
    };
    let run = [&["run"], &ON[..], &["--repeat", "6", "--record", "now"]].concat();
    check(&run, 0, &["6 trials"], &[]);
    let text = fs::read_to_string(at.join("now")).expect("records");
    failed_on(at, "old", &text, "6.4.3");
    failed_on(at, "later", &text, "7.3.0");

    bugs(&["list"], 2, &[], &["store `db` does not exist"]);
    check(&["records", "store", "add", "old", "--store", "db"], 0, &[], &["6 trials added"]);
    let listed = bugs(&["list"], 0, &["1 bug: 1 open", "open  case: A case", "hang:x"], &[]);
    assert!(listed.contains("releases of Debian on emulated gfx1151: open; 6 of 6 runs failed"));
    let json: Value = serde_json::from_str(&bugs(&["list", "--json"], 0, &[], &[])).expect("JSON");
    assert_eq!((json[0]["state"].as_str(), json[0]["case"].as_str()), (Some("open"), Some("case")));
    let id = json[0]["id"].as_str().expect("a name").to_owned();

    // The bug was not seen on this device, so no trial runs.
    let retest = [&["retest"], &ON[..]].concat();
    let other = [&retest[..], &["--gfx", "gfx90a"]].concat();
    bugs(&other, 4, &[], &["no open bug of the emulated gfx90a"]);
    // One pass fixes nothing.
    let once = [&retest[..], &["--repeat", "1"]].concat();
    let changed =
        format!("{id} case: open -> not seen since, releases of Debian on emulated gfx1151");
    bugs(&once, 0, &["1 passed", &changed], &["db: 1 run and 1 trial added"]);
    bugs(&["comment", &id], 0, &["has not failed since debian:6.4.3, which is not enough"], &[]);
    let often = [&retest[..], &["--repeat", "10"]].concat();
    let changed = format!("{id} case: not seen since -> fixed");
    // The record file next to the store has both runs, of which the store already has the first.
    bugs(&often, 0, &["10 passed", &changed], &["10 trials added, 1 trial was already there"]);
    let shown =
        ["then 11 runs passed on debian:7.2.4 (11 are enough to show a fix)", "state      fixed"];
    bugs(&["show", &id[..4]], 0, &shown, &[]);
    let comment = ["passes since debian:7.2.4 (emulated gfx1151, which is not a GPU)"];
    bugs(&["comment", &id], 0, &comment, &[]);
    bugs(&retest, 4, &[], &["no open bug of the emulated gfx1151"]);

    check(&["records", "store", "add", "later", "--store", "db"], 0, &[], &[]);
    bugs(&["list"], 0, &["1 bug: 1 reopened"], &[]);
    bugs(&["comment", &id], 0, &["fails again since debian:7.3.0"], &[]);
    let pages = ["pages", "--cases-from", "case.yaml", "--out", "public/bugs"];
    bugs(&pages, 0, &["public/bugs/index.html"], &[]);
    let page = |name: &str| fs::read_to_string(at.join("public/bugs").join(name)).expect(name);
    assert!(page("index.html").contains(&format!("<a href=\"{id}.html\">")));
    assert!(page(&format!("{id}.html")).contains(&format!("<a href=\"{id}.cpp\" download>")));
    assert!(page(&format!("{id}.cpp")).contains("Printed by rocrepro from case."));
    // Earlier pages are replaced. If one file is not from rocrepro, no file is written.
    bugs(&pages, 0, &["public/bugs/index.html"], &[]);
    fs::write(at.join("public/bugs").join(format!("{id}.html")), "mine").expect("a file");
    fs::remove_file(at.join("public/bugs/index.html")).expect("a file");
    bugs(&pages, 2, &[], &[&format!("public/bugs/{id}.html"), "not a page"]);
    assert_eq!(page(&format!("{id}.html")), "mine");
    assert!(!at.join("public/bugs/index.html").exists());
    bugs(&["show", "zz"], 4, &[], &["the store has no bug `zz`"]);
    // A case that no longer exists is left out.
    let output = rocrepro(at, &["records", "bugs", "retest", "--store", "db", "--device=emulated"]);
    let output = check_command(output, 4, &[], &["1 trial of open bugs left out", ": case\n"]);
    assert!(!output_text(&output).contains("passed"));
}
