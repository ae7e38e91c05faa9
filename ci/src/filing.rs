//! Makes an issue report for every case under an injected fault, as a user would: minimises the trial, exports and
//! verifies a program, and writes the report.

use std::{
    borrow::Cow,
    path::Path,
    process::{Command, Output},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, build_and_fetch};

/// Number of cases for which reports are made at the same time.
const MAX_PARALLEL: usize = 3;

/// Cases for which the gate makes reports, because they are quick. One has a fault in the device, one in a kernel, and
/// one at a call.
const SAMPLE: [&str; 3] = ["capture/begin-twice", "copies/memset", "kernels/saxpy"];

/// Makes a report for every case under the first fault that the case declares.
pub(crate) fn filing(sh: &Shell) -> TaskResult {
    report_all(sh, |_| true)
}

pub(crate) fn sample(sh: &Shell) -> TaskResult {
    report_all(sh, |case| SAMPLE.contains(&case))
}

fn report_all(sh: &Shell, wanted: impl Fn(&str) -> bool) -> TaskResult {
    let program = build_and_fetch(sh)?;
    let listed = cmd!(sh, "{program} list --faults").quiet().read()?;
    let mut planned: Vec<(&str, &str)> = Vec::new();
    for (trial, fault) in listed.lines().filter_map(|line| line.split_once('\t')) {
        if planned.last().is_none_or(|(last, _)| case(last) != case(trial)) {
            planned.push((trial, fault));
        }
    }
    planned.retain(|(trial, _)| wanted(case(trial)));
    if planned.is_empty() {
        return Err("no case declares a fault".into());
    }

    let folder = sh.create_temp_dir()?;
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..MAX_PARALLEL {
            scope.spawn(|| {
                while let Some((trial, fault)) = planned.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let out = folder.path().join(case(trial).replace('/', "-"));
                    match write_report(&program, trial, fault, &out) {
                        Ok(line) => println!("ok      {trial} with the fault {fault}: {line}"),
                        Err(why) => {
                            println!(
                                "FAILED  {trial} with the fault {fault}: {}",
                                why.lines().next().unwrap_or("")
                            );
                            let mut failed = failed.lock().unwrap_or_else(|e| e.into_inner());
                            failed.push(format!("{trial} with the fault {fault}: {why}"));
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(|e| e.into_inner());
    println!("reports were made for {} of {} cases", planned.len() - failed.len(), planned.len());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n\n").into()) }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn case(trial: &str) -> &str {
    trial.split('[').next().unwrap_or(trial)
}

/// Makes the report for one case. Returns the line in which `rocrepro minimise` states the number of calls before and
/// after.
fn write_report(program: &Path, trial: &str, fault: &str, out: &Path) -> Result<String, String> {
    let run = |arguments: &[&str]| -> Result<Output, String> {
        let mut command = Command::new(program);
        // Each command runs one trial at a time, because other cases are processed at the same time.
        command.args(arguments).args(["--rocm", STACK, "--device", "emulated", "--jobs", "1"]);
        let output = command.output().map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(output);
        }
        Err(format!(
            "rocrepro {} ended with {}\n{}{}",
            arguments.join(" "),
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        ))
    };
    let path = |name: &str| out.join(name).display().to_string();
    let (folder, minimal, source) =
        (out.display().to_string(), path("case.yaml"), path("repro.cpp"));
    let minimised = run(&["minimise", trial, "--fault", fault, "--out", &folder])?;
    // The exported program must fail on the faulty device in the same way as the trial, and pass on the healthy device.
    let from = ["export", "case", "--cases-from", &minimal, "--trust", "--verify"];
    run(&[&from[..], &["--out", &source, "--fault", fault]].concat())?;
    let healthy = run(&[&from[..], &["--out", &path("healthy.cpp")]].concat())?;
    if !text(&healthy.stderr).contains(": pass ") {
        // The exported program may fail on the healthy device only if the trial itself fails on this release.
        let itself = run(&["run", trial, "--trials"])?;
        if !text(&itself.stdout).starts_with("known ") {
            return Err(format!(
                "the exported program fails without the fault: {}",
                text(&healthy.stderr)
            ));
        }
    }
    run(&[
        "report",
        "case",
        "--cases-from",
        &minimal,
        "--trust",
        "--fault",
        fault,
        "--out",
        &folder,
    ])?;
    let report = std::fs::read_to_string(out.join("report.md")).map_err(|e| e.to_string())?;
    for needed in [fault, "no fault injected", "Built and run before filing"] {
        if !report.contains(needed) {
            return Err(format!("the report does not contain `{needed}`:\n{report}"));
        }
    }
    Ok(text(&minimised.stdout)
        .lines()
        .find(|line| line.starts_with("Calls:"))
        .unwrap_or("minimised")
        .trim()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_only_cases_of_the_library() {
        let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../cases");
        for case in SAMPLE {
            let text = std::fs::read_to_string(format!("{cases}/{case}.yaml")).expect(case);
            assert!(text.contains("faults:"), "{case} declares no fault");
        }
    }
}
