//! Hides private values in every input that a user may provide, runs the commands whose outputs are meant to be
//! published, and searches these outputs for each value. The search is a comparison of bytes and shares no code with
//! the redaction.

mod hidden;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use self::hidden::{Channel, HIDDEN, Hidden};
use crate::{common, common::output_text, exec::namespaces};

/// Program that prints the texts of two files and then fails.
const PROGRAM: &str = "\
import ctypes, sys
hip = ctypes.CDLL('libamdhip64.so')
place = ctypes.c_void_p()
assert hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)) == 0
print(open('out.txt').read())
print(open('err.txt').read(), file=sys.stderr)
sys.exit(7)
";

/// Case that fails under `copy.zero`, and that has a kernel of its own.
pub(crate) const CASE: &str = "\
title: TITLE
about: >-
  ABOUT
source: SOURCE
environment: {ENVIRONMENT}
kernels:
  own:
    options: OPTIONS
    source: |
KERNEL
      extern \"C\" __global__ void own(unsigned *out) { if (threadIdx.x < 16) out[threadIdx.x] = 7; }
buffers:
  d: {on: device, bytes: 64, fill: zero}
  one: {on: host.pageable, bytes: 64}
  src: {on: host.pageable, bytes: 64}
steps:
  - fill: src
  - copy: {to: d, from: src}
  - check: d
  - launch: {kernel: own, args: [d], items: 16}
  - sync: device
  - copy: {to: one, from: d}
faults: [copy.zero]
";

/// Returns a word that occurs in no other text. It depends only on the number of the text.
fn word(number: usize) -> String {
    let mut seed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let letter = |_| {
        seed ^= seed >> 29;
        seed = seed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        char::from(b'a' + (seed >> 40) as u8 % 26)
    };
    (0..10).map(letter).collect()
}

/// Returns the text of `hidden`, in which its placeholders are replaced, and the private values in it. `number` is the
/// position of `hidden` in `HIDDEN`.
fn expanded(number: usize, hidden: &Hidden) -> (String, Vec<String>) {
    let mut text = hidden.text.replace('§', &word(number));
    let mut secrets: Vec<String> =
        hidden.text.contains('§').then(|| word(number)).into_iter().collect();
    secrets.extend(
        hidden.text.split('«').skip(1).filter_map(|part| Some(part.split_once('»')?.0.to_owned())),
    );
    text.retain(|c| !"«»".contains(c));
    // The values of hidden variables are inserted.
    for (number, other) in HIDDEN.iter().enumerate() {
        let Some((name, value)) = other.text.split_once(['=', ' ']) else { continue };
        let name = name.trim_end_matches(':');
        let value = value.replace('§', &word(number)).replace('"', "");
        for (mark, value) in [("", value.clone()), ("%", value.replace(' ', "%20"))] {
            let mark = format!("{{{name}{mark}}}");
            if text.contains(&mark) {
                text = text.replace(&mark, &value);
                secrets.push(word(number));
            }
        }
    }
    assert!(!secrets.is_empty(), "no secret in `{}`", hidden.text);
    (text, secrets)
}

/// Returns the texts that are hidden in a channel.
fn texts(channel: Channel) -> Vec<String> {
    let all = HIDDEN.iter().enumerate().filter(|(_, hidden)| hidden.channel == channel);
    all.map(|(number, hidden)| expanded(number, hidden).0).collect()
}

fn lines(channel: Channel, before: &str) -> String {
    texts(channel).iter().map(|text| format!("{before}{text}\n")).collect()
}

/// Files that are meant to be published, by their names.
pub(crate) type Published = BTreeMap<String, Vec<u8>>;

/// Adds a file, or all files of a folder with their names.
pub(crate) fn add(published: &mut Published, path: &Path, name: &str) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry")) {
            let below = format!("{name}/{}", entry.file_name().to_string_lossy());
            add(published, &entry.path(), &below);
        }
    } else {
        let mut bytes = name.as_bytes().to_vec();
        bytes.push(b'\n');
        bytes.extend(fs::read(path).expect("a file"));
        published.insert(name.to_owned(), bytes);
    }
}

/// Adds the web address that a command printed, as it is and decoded.
pub(crate) fn add_address(published: &mut Published, printed: &str, name: &str) {
    let address = printed.lines().find(|line| line.starts_with("https://github.com/"));
    let address = address.unwrap_or_else(|| panic!("no address: {printed}"));
    let mut decoded = Vec::new();
    let mut bytes = address.bytes();
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte.unwrap_or_default()).to_digit(16);
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                (high.expect("a digit") * 16 + low.expect("a digit")) as u8
            }
            byte => byte,
        });
    }
    published.insert(format!("{name}, as printed"), address.as_bytes().to_vec());
    published.insert(name.to_owned(), decoded);
}

/// Runs a command in a folder with the hidden environment, and returns what it printed.
#[track_caller]
pub(crate) fn run(folder: &Path, words: &[&str], codes: &[i32]) -> (String, String) {
    let mut command: Command = common::rocrepro(words);
    command.current_dir(folder).env("ROCREPRO_DEVICE_KIND", "emulated").env_remove("ROCREPRO_ROCM");
    // The stack is in the usual cache, although the home folder is another one.
    if std::env::var_os("XDG_CACHE_HOME").is_none_or(|cache| cache.is_empty()) {
        let home = std::env::var("HOME").expect("a home folder");
        command.env("XDG_CACHE_HOME", format!("{home}/.cache"));
    }
    for text in texts(Channel::Variable) {
        let (name, value) = text.split_once('=').expect("a variable");
        command.env(name, value);
    }
    let output = command.output().expect("it starts");
    let code = output.status.code();
    assert!(code.is_some_and(|code| codes.contains(&code)), "{words:?}: {}", output_text(&output));
    (String::from_utf8_lossy(&output.stdout).into_owned(), output_text(&output))
}

fn options(channel: Channel, option: &str) -> Vec<String> {
    texts(channel).into_iter().flat_map(|text| [option.to_owned(), text]).collect()
}

/// Creates the folder with the hidden name below another folder.
fn make_folders(folder: &Path) -> PathBuf {
    let below = texts(Channel::FolderName).concat();
    let folder = folder.join(below.trim_start_matches('/'));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Reports a program of the user. Returns the published files and the private records.
fn report_program(folder: &Path) -> (Published, String) {
    let folder = make_folders(folder);
    let strings = texts(Channel::String);
    let strings: String = strings.iter().map(|text| format!("    {text:?},\n")).collect();
    let program = format!("{}words = [\n{strings}]\n{PROGRAM}", lines(Channel::Comment, "# "));
    let at = folder.join("train.py");
    fs::write(&at, &program).expect("a program");
    fs::write(folder.join("out.txt"), texts(Channel::Stdout).join(", ")).expect("a file");
    fs::write(folder.join("err.txt"), lines(Channel::Stderr, "")).expect("a file");
    let (at, environment) = (at.display().to_string(), options(Channel::Env, "--env"));
    let arguments: Vec<String> = texts(Channel::Argument)
        .iter()
        .flat_map(|text| shell::split(text).expect("words"))
        .collect();
    let mut words = vec![
        "report",
        "--budget-seconds",
        "1",
        "--anyway",
        "--open",
        "--repeat",
        "1",
        "--out",
        "found",
    ];
    words.extend(["--rocm", "debian:7.2.4"]);
    words.extend(environment.iter().map(String::as_str));
    let title = texts(Channel::Title).join(", ");
    let never = options(Channel::Never, "--never");
    words.extend(["--title", &title]);
    words.extend(never.iter().map(String::as_str));
    words.extend(["--", "python3", &at]);
    words.extend(arguments.iter().map(String::as_str));
    let (printed, _) = run(&folder, &words, &[0]);
    let mut published = Published::new();
    add(&mut published, &folder.join("found/report.md"), "report of a program/report.md");
    add_address(&mut published, &printed, "address of the report of a program");
    run(&folder, &["records", "redact", "found", "--out", "public"], &[0]);
    add(&mut published, &folder.join("public"), "redacted evidence of a program");
    let private = fs::read_to_string(folder.join("found/record.jsonl")).expect("records");
    (published, private + &program)
}

/// Reports, exports and minimises a case of the user, and runs it.
fn report_case(folder: &Path) -> (Published, String) {
    let folder = make_folders(folder);
    let case = lines(Channel::CaseComment, "# ")
        + &CASE
            .replace("TITLE", &format!("{:?}", texts(Channel::CaseTitle).join(", ")))
            .replace("ABOUT", &texts(Channel::CaseAbout).join("\n  "))
            .replace("SOURCE", &format!("{:?}", texts(Channel::CaseSource)))
            .replace("OPTIONS", &format!("{:?}", texts(Channel::KernelOption)))
            .replace("ENVIRONMENT", &texts(Channel::CaseEnvironment).join(", "))
            .replace("KERNEL\n", &lines(Channel::KernelComment, "      // "));
    let at = folder.join("own.yaml");
    fs::write(&at, &case).expect("a case");
    let at = at.display().to_string();
    let mut options = options(Channel::CaseEnv, "--env");
    let launcher = texts(Channel::Launcher).join(" ");
    options.extend(["--launcher".to_owned(), format!("env {launcher}")]);
    let base = ["--cases-from", &at, "--trust", "--rocm", "debian:7.2.4"];
    let fault = ["--fault", "copy.zero"];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let records =
        ["--record", "all/runs.jsonl", "--junit", "all/junit.xml", "--tap", "all/tap.txt"];
    fs::create_dir(folder.join("all")).expect("a folder");
    run(&folder, &[&["run"], &base[..], &fault, &options, &records].concat(), &[1]);
    let small = ["minimise", "--out", "all/small"];
    run(&folder, &[&small[..], &base, &fault, &options].concat(), &[0, 1]);
    let report = [
        "report",
        "own",
        "--open",
        "--repeat",
        "1",
        "--budget-seconds",
        "3",
        "--out",
        "all/report",
    ];
    // The report names the stack by its path.
    let stack = folder.join("rocm");
    std::os::unix::fs::symlink(trial(&folder)["stack"]["root"].as_str().expect("a path"), &stack)
        .expect("a link");
    let stack = stack.display().to_string();
    let base = ["--cases-from", &at, "--trust", "--rocm", &stack];
    let (printed, _) = run(&folder, &[&report[..], &base, &fault, &options].concat(), &[0]);
    run(
        &folder,
        &[&["export", "own", "--out", "all/repro.cpp"], &base[..], &options].concat(),
        &[0],
    );
    foreign(&folder);
    run(&folder, &["records", "redact", "all", "--out", "public"], &[0]);
    let (line, _) = run(&folder, &["records", "redact", "all/foreign/runs.jsonl"], &[0]);
    let mut published = Published::new();
    for entry in fs::read_dir(folder.join("all/report")).expect("a folder") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        if name == "report.md" || name.ends_with(".cpp") {
            let at = folder.join("all/report").join(&name);
            add(&mut published, &at, &format!("report of a case/{name}"));
        }
    }
    add(&mut published, &folder.join("all/repro.cpp"), "exported program");
    add_address(&mut published, &printed, "address of the report of a case");
    add(&mut published, &folder.join("public"), "redacted evidence of a case");
    published.insert("redacted file of records".to_owned(), line.into_bytes());
    let private = fs::read_to_string(folder.join("all/runs.jsonl")).expect("records");
    let foreign = ["runs.jsonl", "log.txt", "lines.jsonl", "junit.xml", "page.md"]
        .map(|name| fs::read_to_string(folder.join("all/foreign").join(name)).expect("a file"));
    (published, private + &case + &foreign.concat())
}

/// Returns the record of the trial that was run first.
fn trial(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("all/runs.jsonl")).expect("records");
    let is_trial = |record: &Value| record["outcome"].is_object();
    let mut records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    records.find(is_trial).expect("a trial")
}

/// Adds records and logs of another machine to the evidence.
fn foreign(folder: &Path) {
    let at = folder.join("all/foreign");
    fs::create_dir(&at).expect("a folder");
    let mut record = trial(folder);
    for text in texts(Channel::Record) {
        let (pointer, value) = text.split_once(' ').expect("a place and a value");
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        match record.pointer_mut(pointer) {
            Some(at) => *at = value,
            None => {
                let (parent, name) = pointer.rsplit_once('/').expect("a place");
                let parent = record.pointer_mut(parent).expect("a place that is there");
                parent[name] = value;
            }
        }
    }
    fs::write(at.join("runs.jsonl"), format!("{record}\n")).expect("a file");
    let logs = texts(Channel::Log);
    fs::write(at.join("log.txt"), logs.join("\n\n")).expect("a file");
    let inside = serde_json::json!({"stderr_tail": logs.join("\n\n")});
    fs::write(at.join("inside.json"), inside.to_string()).expect("a file");
    fs::write(at.join("lines.jsonl"), lines(Channel::JsonLog, "")).expect("a file");
    fs::write(
        at.join("junit.xml"),
        format!("<testsuites>{}</testsuites>", lines(Channel::XmlLog, "")),
    )
    .expect("a file");
    fs::write(at.join("page.md"), texts(Channel::MarkdownLog).join("\n\n")).expect("a file");
    for name in texts(Channel::FileName) {
        fs::write(at.join(name), "empty\n").expect("a file");
    }
    fs::write(at.join("binary"), lines(Channel::Binary, "\0")).expect("a file");
}

/// Searches the published files for all secrets. Also checks that the secrets of the given channels are in the private
/// files, which shows that the search had something to find.
#[track_caller]
fn check(published: &Published, private: &str, is_used: impl Fn(Channel) -> bool) {
    let mut wrong = Vec::new();
    let mut kinds = BTreeSet::new();
    let mut count = 0;
    for (number, hidden) in HIDDEN.iter().enumerate() {
        let (_, secrets) = expanded(number, hidden);
        let about = |secret: &str| {
            format!("{}, {:?}: `{secret}` of `{}`", hidden.kind, hidden.channel, hidden.text)
        };
        for secret in secrets {
            let finder = memchr::memmem::Finder::new(&secret);
            let found = published.iter().filter(|(_, text)| finder.find(text).is_some());
            let files: Vec<&str> = found.map(|(name, _)| name.as_str()).collect();
            let about = about(&secret);
            if is_used(hidden.channel) {
                count += 1;
                kinds.insert(hidden.kind);
                if !private.contains(&secret) && hidden.channel.must_arrive() {
                    wrong.push(format!("did not arrive: {about}"));
                }
            }
            match hidden.stays {
                "" if files.is_empty() => {}
                "" => wrong.push(format!("leaked: {about} in {}", files.join(", "))),
                why if !files.is_empty() => {
                    println!("stays ({why}): {about} in {}", files.join(", "))
                }
                why if is_used(hidden.channel) && !hidden.channel.is_of_both() => {
                    wrong
                        .push(format!("replaced although {why}, so remove the exception: {about}"));
                }
                _ => {}
            }
        }
    }
    println!("{count} secrets of {} kinds in {} files", kinds.len(), published.len());
    assert!(count >= 60 && kinds.len() >= 20, "{count} secrets of {} kinds", kinds.len());
    assert!(wrong.is_empty(), "{} of {count}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn reports_of_programs_have_no_private_value() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (published, private) = report_program(folder.path());
    check(&published, &private, Channel::is_of_program);
}

#[test]
fn outputs_about_cases_have_no_private_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let (published, private) = report_case(folder.path());
    check(&published, &private, |channel| channel.is_of_both() || !channel.is_of_program());
}
