//! Tests a program, or a library of the emulated device, that is replaced during a run, or before the run is resumed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::common::{output_text, write_program};

const TRIAL: &str = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";

fn command(program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    command
}

/// Runs the trial eight times, one run after the other, and calls `during` after the first record.
fn run(program: &Path, record: &Path, more: &[&str], during: impl FnOnce()) -> Output {
    let words = ["run", TRIAL, "--device", "emulated", "--gfx", "gfx1151", "--repeat", "8"];
    let mut run = command(program, &words);
    run.args(["--jobs", "1", "--record"]).arg(record).args(more);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().expect("it starts");
    let begun = || fs::read_to_string(record).is_ok_and(|text| text.contains("\"verdict\""));
    while !begun() && run.try_wait().expect("it is a child").is_none() {
        sleep(Duration::from_millis(2));
    }
    assert!(run.try_wait().expect("it is a child").is_none(), "it ended too early");
    during();
    run.wait_with_output().expect("it ends")
}

fn verdicts(record: &Path) -> Vec<String> {
    let text = fs::read_to_string(record).expect("records");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let kinds = lines
        .filter_map(|line: serde_json::Value| line["verdict"]["kind"].as_str().map(str::to_owned));
    kinds.collect()
}

fn another_build(of: &Path, to: &Path) {
    let id = stacks::build_id(of).expect("linkers of this project write one");
    let id: Vec<u8> = (0..id.len() / 2)
        .map(|n| u8::from_str_radix(&id[2 * n..2 * n + 2], 16).expect("hexadecimal"))
        .collect();
    let mut bytes = fs::read(of).expect("a file");
    let at = bytes.windows(id.len()).position(|bytes| bytes == id).expect("it is there");
    bytes[at] ^= 1;
    let text = to.with_extension("bytes");
    fs::write(&text, bytes).expect("a file");
    write_program(to, &text);
    fs::remove_file(text).expect("it is ours");
    assert_ne!(stacks::build_id(of), stacks::build_id(to));
}

/// Makes a folder with a copy of the program. Returns the folder, the path of the copy and the path of the stack.
fn place() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let built = Path::new(env!("CARGO_BIN_EXE_rocrepro"));
    let program = folder.path().join("rocrepro");
    write_program(&program, built);
    let stack = command(built, &["rocm", "path", "debian:7.2.4"]).output().expect("it starts");
    let stack = String::from_utf8(stack.stdout).expect("a path").trim().to_owned();
    (folder, program, stack)
}

#[test]
fn keeps_a_run_to_the_build_that_began_it() {
    let (folder, program, stack) = place();
    let at = |name: &str| folder.path().join(name);
    write_program(&at("other"), Path::new("/bin/true"));
    let output = run(&program, &at("records"), &["--rocm", &stack], || {
        fs::rename(at("other"), &program).expect("it is ours");
    });
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert_eq!(verdicts(&at("records")), vec!["pass"; 8]);
    let own = stacks::build_id(Path::new(env!("CARGO_BIN_EXE_rocrepro"))).expect("it has one");
    let text = fs::read_to_string(at("records")).expect("records");
    assert_eq!(text.matches(&format!("\"build\":\"{own}\"")).count(), 9, "{text}");
}

/// A launcher starts rocrepro by its path, which may lead to another build now.
#[test]
fn gives_no_verdict_to_another_build_below_a_launcher() {
    let (folder, program, stack) = place();
    let at = |name: &str| folder.path().join(name);
    another_build(&program, &at("other"));
    let launched = ["--rocm", &stack, "--launcher", "env"];
    let output = run(&program, &at("records"), &launched, || {
        fs::rename(at("other"), &program).expect("it is ours");
    });
    assert_eq!(output.status.code(), Some(3), "{}", output_text(&output));
    let verdicts = verdicts(&at("records"));
    assert!(verdicts[0] == "pass" && verdicts[7] == "no-verdict", "{verdicts:?}");
    assert!(
        output_text(&output).contains("the worker is another build of rocrepro"),
        "{}",
        output_text(&output)
    );
}

#[test]
fn gives_no_verdict_with_a_replaced_device_library() {
    let (folder, program, stack) = place();
    let at = |name: &str| folder.path().join(name);
    let mut first = command(&program, &["run", TRIAL, "--rocm", &stack, "--device", "emulated"]);
    let first = first.env("XDG_CACHE_HOME", at("cache")).output().expect("it starts");
    assert!(first.status.success(), "{}", output_text(&first));
    let builds: Vec<_> = fs::read_dir(at("cache/rocrepro/device")).expect("it is there").collect();
    let [Ok(build)] = &builds[..] else { panic!("one device is installed: {builds:?}") };
    let library = build.path().join("libhsa-runtime64.so.1");
    another_build(&library, &at("other"));
    // The stack is in the shared cache, but the library of the emulated device is in a separate one.
    let cache = format!("XDG_CACHE_HOME={}", at("cache").display());
    let script = at("start");
    crate::common::write_script(
        &script,
        &format!("#!/bin/sh\n{} exec {} \"$@\"\n", cache, program.display()),
    );
    let output = run(&script, &at("records"), &["--rocm", &stack], || {
        fs::rename(at("other"), &library).expect("it is ours");
    });
    assert_eq!(output.status.code(), Some(3), "{}", output_text(&output));
    let verdicts = verdicts(&at("records"));
    assert!(verdicts[0] == "pass" && verdicts[7] == "no-verdict", "{verdicts:?}");
    assert!(output_text(&output).contains("is another build"), "{}", output_text(&output));
}

#[test]
fn refuses_to_resume_another_build_and_reports_mixed_builds() {
    let (folder, program, stack) = place();
    let at = |name: &str| folder.path().join(name);
    let named = |name: &str| at(name).display().to_string();
    let words = ["run", TRIAL, "--rocm", &stack, "--device", "emulated", "--repeat", "2"];
    let records = named("records");
    let first = [&words[..], &["--record", &records]].concat();
    let output = command(&program, &first).output().expect("it starts");
    assert!(output.status.success(), "{}", output_text(&output));
    let own = stacks::build_id(&program).expect("it has one");
    let text = fs::read_to_string(&records).expect("records");
    let lines: Vec<&str> = text.lines().collect();
    // This makes the plan and the first trial look like those of another build.
    let other = |line: &str| line.replace(&format!("\"build\":\"{own}\""), "\"build\":\"0ther\"");
    let begun: Vec<String> = lines[..lines.len() - 2].iter().map(|line| other(line)).collect();
    fs::write(at("begun"), begun.join("\n") + "\n").expect("a file");
    let mixed =
        [&begun[..], &lines[lines.len() - 2..].iter().map(|l| (*l).to_owned()).collect::<Vec<_>>()];
    fs::write(at("mixed"), mixed.concat().join("\n") + "\n").expect("a file");

    let begun = named("begun");
    let resumed = [&words[..], &["--record", &begun, "--resume"]].concat();
    let output = command(&program, &resumed).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    let text = output_text(&output);
    assert!(text.contains("another build of rocrepro (0ther; this is "), "{text}");

    let mixed = named("mixed");
    let several = "were written by 2 builds of rocrepro";
    for (words, code, warned) in [
        (vec!["show", &records], 0, false),
        (vec!["show", &mixed], 0, true),
        (vec!["merge", &mixed, "--out", &named("merged")], 0, true),
    ] {
        let output = command(&program, &words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", output_text(&output));
        assert_eq!(
            output_text(&output).contains(several),
            warned,
            "{words:?}: {}",
            output_text(&output)
        );
    }
    let output = command(&program, &["diff", &records, &mixed]).output().expect("it starts");
    let text = output_text(&output);
    assert!(text.contains(&format!("rocrepro: {own} -> ")) && text.contains("0ther"), "{text}");
}
