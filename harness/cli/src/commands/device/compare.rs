//! Compares the results of each instruction on a device with those of another device.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::Path,
    process::{ExitCode, Stdio},
    time::SystemTime,
};

use conformance::{Differences, ResultDifference, ResultFile};

use crate::{
    args::{Compare, ProbeInside},
    outputs,
};
use engine::{Session, SessionOptions, Stop, device_library, stop::chain};

/// Maximum number of names that a printed list shows. A list may have hundreds.
const NAMES: usize = 12;

pub(super) fn compare(args: &Compare) -> Result<ExitCode, Stop> {
    let files = read_all(args);
    let asked = check_arguments(args);
    let (mut files, ()) = Stop::both(files, asked)?;
    if files.len() < 2 {
        let found = run_tests(args)?;
        if let Some(path) = &args.write {
            write(path, &found)?;
            let (path, count) = (path.display(), found.results.len());
            outputs::print(&format!("{path}: {count} results of {}\n", found.header.describe()))?;
        }
        files.push(found);
    }
    let [one, other] = &files[..] else { return Ok(ExitCode::SUCCESS) };
    let found = conformance::compare(one, other).map_err(|e| Stop::usage(format!("error: {e}")))?;
    outputs::print(&view(one, other, &found))?;
    Ok(ExitCode::from(u8::from(!found.specified.is_empty())))
}

/// Returns an error if the arguments cannot be combined.
fn check_arguments(args: &Compare) -> Result<(), Stop> {
    match (args.files.len(), &args.write) {
        (0, None) => Err(Stop::usage(
            "error: nothing to compare: give one or two result files, or `--write FILE` to save the results of this \
             device",
        )),
        (2, Some(_)) => Err(Stop::usage(
            "error: `--write` cannot be used with two files, because their comparison runs no device",
        )),
        (_, Some(path)) if path.exists() => Err(Stop::usage(format!(
            "error: `{}` already exists; choose another file name",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Reads the result files that the user named.
///
/// # Errors
/// Returns the problems in all files.
fn read_all(args: &Compare) -> Result<Vec<ResultFile>, Stop> {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in &args.files {
        let at = path.display();
        match fs::read_to_string(path) {
            Err(error) => problems.push(format!("error: cannot read `{at}`: {error}")),
            Ok(text) => match ResultFile::parse(&text) {
                Ok(file) => files.push(file),
                Err(refused) => {
                    problems.extend(refused.iter().map(|one| format!("error: `{at}`: {one}")));
                }
            },
        }
    }
    if problems.is_empty() { Ok(files) } else { Err(Stop::usage(problems.join("\n"))) }
}

fn write(path: &Path, file: &ResultFile) -> Result<(), Stop> {
    let failed = |error: &dyn std::error::Error| {
        Stop::no_verdict(format!("error: cannot write `{}`: {}", path.display(), chain(error)))
    };
    let text = file.to_text().map_err(|e| failed(&e))?;
    atomic::write_new(path, text).map_err(|e| failed(&e))
}

/// Runs the conformance tests on the device, in a process that is started with the stack's libraries.
fn run_tests(args: &Compare) -> Result<ResultFile, Stop> {
    let failed = |what: &str, e: &dyn std::error::Error| {
        Stop::no_verdict(format!("error: the probe process {what}: {}", chain(e)))
    };
    let options = SessionOptions::try_from(&args.on)?;
    let session = Session::open_on_one(options)?;
    let config = session.device_config(Vec::new()).map(|c| serde_json::to_string(&c)).transpose();
    let config = config.map_err(|e| failed("cannot receive the device configuration", &e))?;
    let folder =
        session.folders.scratch.trial().map_err(|e| failed("has no temporary folder", &e))?;
    let mut start = session.start(session.own(), config.as_deref(), &BTreeMap::new());
    let to = folder.path().join("probe");
    let name = match &session.rocm {
        Some(version) => format!("{} (ROCm {version})", session.stack.spec),
        None => session.stack.spec.clone(),
    };
    let decoder = device_library::file()?;
    let words = [
        "device".into(),
        "probe-inside".into(),
        OsString::from(name),
        to.clone().into(),
        decoder.into(),
    ];
    start.arguments.extend(words);
    let status = session.command(&start).stdin(Stdio::null()).status();
    let status = status.map_err(|e| failed("cannot be started", &e))?;
    if !status.success() {
        return Err(Stop::no_verdict(format!("error: the probe process failed: {status}")));
    }
    let text = fs::read_to_string(&to).map_err(|e| failed("wrote no result", &e))?;
    ResultFile::parse(&text).map_err(|refused| {
        let all: Vec<String> = refused.iter().map(ToString::to_string).collect();
        Stop::no_verdict(format!(
            "error: the probe process wrote an invalid result: {}",
            all.join("; ")
        ))
    })
}

/// Runs the conformance tests, in the process that was started with the stack's libraries.
pub(super) fn run_inside(args: &ProbeInside) -> Result<ExitCode, Stop> {
    let date = report::date(SystemTime::now());
    let file = conformance::run_on_device(args.stack.clone(), date, &args.decoder)
        .map_err(|e| Stop::no_verdict(format!("error: {}", chain(&e))))?;
    write(&args.to, &file)?;
    Ok(ExitCode::SUCCESS)
}

fn view(one: &ResultFile, other: &ResultFile, found: &Differences) -> String {
    let mut text =
        format!("first:  {}\nsecond: {}\n", one.header.describe(), other.header.describe());
    let list = |text: &mut String, title: &str, differences: &[ResultDifference]| {
        if !differences.is_empty() {
            let _ = writeln!(text, "\n{title}");
        }
        for difference in differences {
            let _ = writeln!(text, "    {difference}");
        }
    };
    list(&mut text, "Differences:", &found.specified);
    list(
        &mut text,
        "These results are not specified for hardware, so they may differ:",
        &found.unspecified,
    );
    let sides = ["the first", "the second"].iter().zip(&found.only_in);
    for (side, names) in sides {
        names_of(
            &mut text,
            &format!("Instructions that only the disassembler of {side} knows"),
            names,
        );
    }
    for (side, names) in ["first", "second"].iter().zip(&found.unsupported) {
        names_of(
            &mut text,
            &format!("Instructions that the emulated device of the {side} does not support"),
            names,
        );
    }
    let differ = found.compared - found.same;
    let _ = writeln!(
        text,
        "\n{} results compared: {} equal, {differ} different",
        found.compared, found.same
    );
    text
}

fn names_of(text: &mut String, title: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
    let rest = match names.len() - shown.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let _ = writeln!(text, "\n{title} ({}): {}{rest}", names.len(), shown.join("; "));
}
