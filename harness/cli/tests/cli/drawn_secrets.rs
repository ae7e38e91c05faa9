//! Draws private values of many kinds, puts them into the places from which published files take their texts, and
//! searches these files for the values and for parts of them. The values, their layouts and the search share nothing
//! with the redaction. `ROCREPRO_SECRETS_SEED=7` draws other values.

mod draw;
mod kinds;

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use serde_json::{Value, json};

use self::{
    Place::*,
    draw::{Draw, Secret, found},
    kinds::KINDS,
};
use crate::{
    exec::namespaces,
    secrets::{CASE, Published, add, add_address, run},
};

/// A place of a text in a program, in its output, in a case, or in evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Comment in the program.
    Comment,
    /// Text between quotes in the program.
    Literal,
    Stdout,
    Stderr,
    /// Message of the exception that ends the program.
    Exception,
    /// Word of the program's command line.
    Argument,
    /// Value of `--env`.
    Env,
    /// Log of HIP calls of the program.
    AmdLog,
    CaseTitle,
    CaseAbout,
    CaseComment,
    KernelComment,
    /// Standard error in a record.
    RecordStderr,
    /// Details of the outcome in a record.
    RecordDetail,
    /// Log in an evidence folder.
    Log,
    /// Line of a log with a time and a module before the text.
    LogLine,
    /// Log that a Windows program wrote.
    LogCrlf,
    Json,
    /// Text in JSON that is itself a text in JSON.
    NestedJson,
    MarkdownItem,
    MarkdownQuote,
    MarkdownCode,
    Html,
}

impl Place {
    const OF_PROGRAMS: [Place; 8] =
        [Comment, Literal, Stdout, Stderr, Exception, Argument, Env, AmdLog];
    const OTHER: [Place; 15] = [
        CaseTitle,
        CaseAbout,
        CaseComment,
        KernelComment,
        RecordStderr,
        RecordDetail,
        Log,
        LogLine,
        LogCrlf,
        Json,
        NestedJson,
        MarkdownItem,
        MarkdownQuote,
        MarkdownCode,
        Html,
    ];

    /// Returns true if the place takes the text `text`, whose kind has this number. Some places have a single line, and
    /// some have space for only a few texts. The other places take only a part of the kinds, so that the test is quick.
    fn takes(self, number: usize, text: &str) -> bool {
        let in_group = number % GROUP;
        let has_space = match self {
            Stdout => in_group < 10,
            Exception => (10..15).contains(&in_group),
            Stderr => (15..22).contains(&in_group),
            AmdLog => (10..32).contains(&in_group),
            CaseTitle => number < 8,
            Comment | Literal | Argument | Env => (number + self as usize).is_multiple_of(2),
            _ => (number + self as usize).is_multiple_of(3),
        };
        let is_line = [Stdout, Exception, Env, AmdLog, CaseTitle, CaseAbout].contains(&self);
        // A `$` in a case begins the name of an axis.
        let is_axis = [CaseTitle, CaseAbout, KernelComment].contains(&self) && text.contains('$');
        has_space && !is_axis && !(is_line && text.contains(char::is_control))
    }
}

/// Number of kinds in a report of a program.
const GROUP: usize = 56;

/// A text that is put into a place.
struct Planted {
    /// Position of the kind in an order that depends on the seed.
    number: usize,
    kind: &'static str,
    place: Place,
    text: String,
    secrets: Vec<Secret>,
}

/// Draws a text of each kind for each place.
fn drawn(places: &[Place]) -> Vec<Planted> {
    let seed = std::env::var("ROCREPRO_SECRETS_SEED").map_or(1, |s| s.parse().expect("a seed"));
    let mut draw = Draw::new(seed);
    let mut planted = Vec::new();
    for (number, at) in (0..KINDS.len()).map(|n| (n, (n + seed as usize * 7) % KINDS.len())) {
        let (kind, template) = KINDS[at];
        for place in places.iter().copied().filter(|place| place.takes(number, template)) {
            let (text, secrets) = draw.text(template);
            planted.push(Planted { number, kind, place, text, secrets });
        }
    }
    planted
}

fn texts(planted: &[&Planted], place: Place) -> Vec<String> {
    planted.iter().filter(|p| p.place == place).map(|p| p.text.clone()).collect()
}

/// Puts a text before each line of other texts.
fn lines(texts: &[String], before: &str) -> String {
    texts.iter().flat_map(|text| text.lines()).map(|line| format!("{before}{line}\n")).collect()
}

/// Checks that no published file contains a drawn value, and that the private files contain all of them, which shows
/// that the search had something to find.
#[track_caller]
fn check(planted: &[Planted], published: &Published, private: &str) {
    let all: Vec<(&Planted, &Secret)> =
        planted.iter().flat_map(|p| p.secrets.iter().map(move |secret| (p, secret))).collect();
    let secrets: Vec<&Secret> = all.iter().map(|(_, secret)| *secret).collect();
    let found = found(&secrets, published);
    let mut wrong = Vec::new();
    let mut reached: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, (Planted { kind, place, text, .. }, secret)) in all.iter().enumerate() {
        let about = format!("{kind}, {place:?}: `{}` of `{text}`", secret.whole);
        match private.contains(&secret.whole) {
            true => *reached.entry(*kind).or_default() += 1,
            false => wrong.push(format!("did not arrive: {about}")),
        }
        let files: Vec<&str> = found.get(&at).into_iter().flatten().map(String::as_str).collect();
        if !files.is_empty() {
            wrong.push(format!("leaked: {about} in {}", files.join(", ")));
        }
    }
    let values: usize = reached.values().sum();
    println!("{values} values of {} kinds in {} files", reached.len(), published.len());
    wrong.sort();
    assert!(wrong.is_empty(), "{} of {values}\n{}", wrong.len(), wrong.join("\n"));
    assert!(values >= 60 && reached.len() >= 20, "{values} values of {} kinds", reached.len());
}

/// Program that prints the texts of files, adds one to the log of its HIP calls, and fails with an exception.
const PROGRAM: &str = "\
import ctypes, os, sys
hip = ctypes.CDLL('libamdhip64.so')
place = ctypes.c_void_p()
assert hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)) == 0
if 'AMD_LOG_LEVEL_FILE' in os.environ:
    open(os.environ['AMD_LOG_LEVEL_FILE'] + '_0', 'w').write(open('log.txt').read())
print(open('stdout.txt').read())
print(open('stderr.txt').read(), file=sys.stderr)
raise RuntimeError(open('exception.txt').read())
";

/// Reports a program that contains the texts. Returns the published files and the private ones.
fn report_program(folder: &Path, planted: &[&Planted]) -> (Published, String) {
    let mut literals = String::new();
    for text in texts(planted, Literal) {
        let _ = writeln!(literals, "    {text:?},");
    }
    let program =
        format!("{}words = [\n{literals}]\n{PROGRAM}", lines(&texts(planted, Comment), "# "));
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
    write("train.py", &program);
    write("stdout.txt", &texts(planted, Stdout).join("; "));
    write("stderr.txt", &texts(planted, Stderr).join("\n"));
    write("exception.txt", &texts(planted, Exception).join("; "));
    let log = lines(&texts(planted, AmdLog), ":3:hip_module.cpp : 88 : 1287 us:  ");
    write("log.txt", &log);
    let arguments = texts(planted, Argument);
    let variables = texts(planted, Env);
    let variables = variables.iter().enumerate();
    let variables: Vec<String> =
        variables.flat_map(|(n, text)| ["--env".to_owned(), format!("PLACE_{n}={text}")]).collect();
    let words =
        "report --budget-seconds 1 --anyway --open --repeat 1 --out found --rocm debian:7.2.4";
    let mut words: Vec<&str> = words.split(' ').collect();
    words.extend(variables.iter().map(String::as_str));
    words.extend(["--", "python3", "train.py"]);
    words.extend(arguments.iter().map(String::as_str));
    let (printed, _) = run(folder, &words, &[0]);
    let mut published = Published::new();
    add(&mut published, &folder.join("found/report.md"), "report.md");
    add_address(&mut published, &printed, "address");
    run(folder, &["records", "redact", "found", "--out", "public"], &[0]);
    add(&mut published, &folder.join("public"), "redacted evidence");
    let report = String::from_utf8_lossy(&published["report.md"]).into_owned();
    // The log is in no private file. The report has as many lines of it, and each of them begins as in the log.
    let shown = report.matches(":3:hip_module.cpp : 88 : 1287 us:").count();
    assert_eq!(shown, log.lines().count(), "{report}");
    let private = fs::read_to_string(folder.join("found/record.jsonl")).expect("records");
    (published, strings(&private) + &program.replace("\\\\", "\\").replace("\\\"", "\"") + &log)
}

/// Returns all strings in lines of JSON, without their escapes.
fn strings(lines: &str) -> String {
    fn add(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(inner) if inner.is_object() => {
                    let _ = writeln!(out, "{text}");
                    add(&inner, out);
                }
                _ => {
                    let _ = writeln!(out, "{text}");
                }
            },
            Value::Array(all) => all.iter().for_each(|value| add(value, out)),
            Value::Object(all) => all.values().for_each(|value| add(value, out)),
            _ => {}
        }
    }
    let mut out = String::new();
    for line in lines.lines() {
        add(&serde_json::from_str(line).expect("JSON"), &mut out);
    }
    out
}

#[test]
fn nothing_drawn_is_in_reports_of_programs() {
    if !namespaces() {
        return;
    }
    let planted = drawn(&Place::OF_PROGRAMS);
    let (mut published, mut private) = (Published::new(), String::new());
    for group in 0..KINDS.len().div_ceil(GROUP) {
        let folder = tempfile::tempdir().expect("a folder");
        let of_group: Vec<_> = planted.iter().filter(|p| p.number / GROUP == group).collect();
        let (files, text) = report_program(folder.path(), &of_group);
        let files = files.into_iter().map(|(name, text)| (format!("{group}: {name}"), text));
        published.extend(files);
        private += &text;
    }
    check(&planted, &published, &private);
}

/// Reports and exports a case that contains the texts, and adds the outputs to `published`. Returns the records of the
/// case, and the text of the case without escapes.
fn report_case(folder: &Path, all: &[&Planted], published: &mut Published) -> (String, String) {
    let case = lines(&texts(all, CaseComment), "# ")
        + &CASE
            .replace("TITLE", &format!("{:?}", texts(all, CaseTitle).join(", ")))
            .replace("ABOUT", &texts(all, CaseAbout).join("\n\n  "))
            .replace("SOURCE", "[this test]")
            .replace("OPTIONS", "[-O2]")
            .replace("ENVIRONMENT", "")
            .replace("KERNEL\n", &lines(&texts(all, KernelComment), "      // "));
    fs::write(folder.join("own.yaml"), &case).expect("a case");
    let on = "own --cases-from own.yaml --trust --rocm debian:7.2.4 --fault copy.zero";
    let report = format!("report {on} --open --repeat 1 --budget-seconds 1 --out found");
    let (printed, _) = run(folder, &report.split(' ').collect::<Vec<_>>(), &[0]);
    let export = format!("export {on} --out found/exported.cpp");
    run(folder, &export.split(' ').collect::<Vec<_>>(), &[0]);
    add(published, &folder.join("found/report.md"), "report of the case/report.md");
    add(published, &folder.join("found/exported.cpp"), "exported program");
    add_address(published, &printed, "address of the report of the case");
    let run_it = format!("run {on} --record one.jsonl");
    run(folder, &run_it.split(' ').collect::<Vec<_>>(), &[1]);
    let records = fs::read_to_string(folder.join("one.jsonl")).expect("records");
    (records, case.replace("\\\\", "\\").replace("\\\"", "\""))
}

#[test]
fn nothing_drawn_is_in_redacted_evidence() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let planted = drawn(&Place::OTHER);
    let all: Vec<&Planted> = planted.iter().collect();
    let mut published = Published::new();
    let (one, mut private) = report_case(folder, &all, &mut published);
    let is_trial = |line: &&str| line.contains("\"outcome\"");
    let trial = one.lines().find(is_trial).expect("a trial");
    let trial: Value = serde_json::from_str(trial).expect("JSON");
    let mut records: String =
        one.lines().filter(|line| !is_trial(line)).map(|line| format!("{line}\n")).collect();
    for error in texts(&all, RecordStderr) {
        let mut record = trial.clone();
        record["stderr_tail"] = error.into();
        let _ = writeln!(records, "{record}");
    }
    for detail in texts(&all, RecordDetail) {
        let mut record = trial.clone();
        record["outcome"]["details"] = json!([detail]);
        let _ = writeln!(records, "{record}");
    }
    let at = folder.join("found");
    let write = |name: &str, text: &str| fs::write(at.join(name), text).expect("a file");
    write("runs.jsonl", &records);
    write("log.txt", &texts(&all, Log).join("\n\n"));
    let time = "2026-11-27 21:22:23,456 INFO train.py:42: ";
    write("lines.txt", &lines(&texts(&all, LogLine), time));
    write("crlf.txt", &lines(&texts(&all, LogCrlf), "").replace('\n', "\r\n"));
    let message = |text: &String| format!("{}\n", json!({"message": text}));
    write("lines.jsonl", &texts(&all, Json).iter().map(message).collect::<String>());
    let nested = texts(&all, NestedJson);
    let nested = nested.iter().map(|text| json!({"log": message(text)}));
    write("nested.json", &json!(nested.collect::<Vec<_>>()).to_string());
    write("items.md", &lines(&texts(&all, MarkdownItem), "* "));
    write("quotes.md", &lines(&texts(&all, MarkdownQuote), "> "));
    write("code.md", &texts(&all, MarkdownCode).join("\n```\n\n```\n"));
    let html = texts(&all, Html).join("</p>\n<p>\u{1}").replace('&', "&amp;");
    let html = html.replace('<', "&lt;").replace("&lt;/p>\n&lt;p>\u{1}", "</p>\n<p>");
    write("page.html", &format!("<!DOCTYPE html>\n<html><body>\n<p>{html}</p></body></html>\n"));
    let show = "records show found/runs.jsonl --junit found/junit.xml --tap found/tap.txt";
    run(folder, &show.split(' ').collect::<Vec<_>>(), &[0, 1, 3]);
    run(folder, &["records", "redact", "found", "--out", "public"], &[0]);
    let show = "records show public/runs.jsonl --annotations public/annotations.txt";
    let (printed, _) = run(folder, &show.split(' ').collect::<Vec<_>>(), &[0, 1, 3]);
    add(&mut published, &folder.join("public"), "redacted");
    published.insert("redacted run".to_owned(), printed.into_bytes());
    for entry in fs::read_dir(&at).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a file");
        let name = path.to_string_lossy();
        private += &match name.ends_with(".jsonl") || name.ends_with("nested.json") {
            true => strings(&text),
            false => text.replace("&lt;", "<").replace("&amp;", "&"),
        };
    }
    check(&planted, &published, &private);
}
