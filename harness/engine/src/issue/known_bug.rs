//! Recognises known failures of ROCm in the HIP calls of any program.

use std::collections::BTreeMap;

use case::EXIT;
use export::{LoggedCall, logged_calls};
use judge::{RunProperties, VerdictKind};
use plan::Version;
use report::{Record, issue::KnownBug};

use super::{call_sequence::occurrence, logs::plain};
use crate::{CaseLibrary, Stop, failing_trial::FailingTrial, record};

/// Returns the known failure that a `known` entry of the trial's own case describes, if the record has that failure.
pub(super) fn own_known_bug(subject: &FailingTrial<'_>, failed: &Record) -> Option<KnownBug> {
    let (case, trial) = (&subject.selected.case, &subject.selected.trial);
    let verdict = failed.verdict.known.as_ref().filter(|known| !known.is_from_file())?;
    let is_known = failed.verdict.kind == VerdictKind::Known && failed.faults.is_empty();
    let about = |known: &&::case::Known| {
        known.signature == verdict.signature
            && known.rocm == verdict.rocm
            && known.on.matches(trial)
            && known.upstream == verdict.upstream
    };
    let entry = case.known.iter().find(about);
    is_known.then(|| KnownBug {
        case: case.id.clone(),
        // The upstream issues of the case as a whole may be about another failure.
        upstream: verdict.upstream.clone(),
        about: entry.and_then(|known| known.about.clone()).unwrap_or_default(),
        calls: Vec::new(),
    })
}

/// Returns the known failures whose calls occur in a log of HIP calls, in the same order and on the same objects. Only
/// failures that are expected on the stack and device of the logged program are considered. `stacks` has the native
/// stacks of a program that crashed.
pub(super) fn known_bugs(
    library: &CaseLibrary,
    log: &str,
    stacks: &[String],
    on: &RunProperties<'_>,
) -> Vec<KnownBug> {
    let calls = logged_calls(log);
    let exit = LoggedCall {
        process: String::new(),
        name: EXIT.to_owned(),
        arguments: Vec::new(),
        status: None,
    };
    // The same address means different objects in different processes.
    let mut processes: BTreeMap<&str, Vec<&LoggedCall>> = BTreeMap::new();
    for call in &calls {
        processes.entry(&call.process).or_default().push(call);
    }
    if died_in_exit(stacks) {
        processes.values_mut().for_each(|calls| calls.push(&exit));
    }
    let mut found: Vec<KnownBug> = Vec::new();
    for case in library.cases() {
        for known in &case.known {
            let upstream = known.upstream.clone().or_else(|| case.upstream.first().cloned());
            if known.calls.is_empty() || !record::convert_expected_failure(known).holds(on) {
                continue;
            }
            let occurs = |calls: &Vec<&LoggedCall>| {
                let places = occurrence(&known.calls, calls)?;
                Some(places.into_iter().map(|at| shown(calls[at])).collect())
            };
            let Some(calls) = processes.values().find_map(occurs) else { continue };
            let about = known.about.clone().unwrap_or_else(|| case.title.clone());
            let bug = KnownBug { case: case.id.clone(), upstream, about, calls };
            if !found.iter().any(|other| is_same(other, &bug)) {
                found.push(bug);
            }
        }
    }
    found
}

/// Returns true if two known failures belong to the same case or to the same upstream issue.
pub(super) fn is_same(one: &KnownBug, other: &KnownBug) -> bool {
    one.case == other.case || one.upstream.is_some() && one.upstream == other.upstream
}

/// Returns true if a thread died of a signal after the program had called `exit`. A line of the stacks is, for example,
/// ``thread `python` died of SIGSEGV; libamdhip64.so.7+0x43a526 < libc.so.6+0x42b4f < exit+0x1b (libc.so.6)``.
fn died_in_exit(stacks: &[String]) -> bool {
    let in_exit = |line: &String| line.split(" < ").any(|frame| frame.starts_with("exit+"));
    stacks.iter().any(|line| line.contains(" died of SIG") && in_exit(line))
}

/// Returns the known failures of the library that occur in a log of HIP calls, as `report` finds them. The log may
/// contain colours. `output` is the text that `exec` wrote while the program ran. If the program crashed, this text
/// contains the native stacks.
///
/// # Errors
/// Returns an error if the case library cannot be read.
pub fn known_bugs_in_log(
    log: &str,
    output: &str,
    rocm: &Version,
    gfx: &str,
) -> Result<Vec<KnownBug>, Stop> {
    let on = RunProperties { gfx, rocm: Some(rocm), ..RunProperties::default() };
    let stacks: Vec<String> = output.lines().map(str::to_owned).collect();
    Ok(known_bugs(&CaseLibrary::load(None)?, &plain(log), &stacks, &on))
}

fn shown(call: &LoggedCall) -> String {
    let status = call.status.as_deref().unwrap_or("no return");
    format!("{}({}) -> {status}", call.name, call.arguments.join(", "))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Reads a log of HIP calls. `# 20000 times:` before a call repeats the call.
    fn read(file: &Path) -> String {
        let text = fs::read_to_string(file).unwrap();
        let mut log = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let times = line.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" times:"));
            let (times, repeated) = match times {
                Some(number) => {
                    (number.parse().unwrap(), [lines.next().unwrap(), lines.next().unwrap(), ""])
                }
                None => (1, [line, "", ""]),
            };
            for _ in 0..times {
                repeated.iter().for_each(|line| log.push_str(&format!("{line}\n")));
            }
        }
        log
    }

    /// The logs are those of PyTorch programs on the emulated gfx1151 with ROCm 7.2.4 (`ci -- matching`), without calls
    /// that only ask for properties. The first line names the case, or `none`.
    #[test]
    fn logs_of_pytorch_match_the_bugs_that_they_show_and_no_others() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/issue/call_logs");
        let (mut known, mut others) = (0, 0);
        for entry in fs::read_dir(&folder).unwrap() {
            let file = entry.unwrap().path();
            let log = read(&file);
            let expected = log.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap();
            let bugs = |rocm: &str| {
                let bugs =
                    known_bugs_in_log(&log, &log, &rocm.parse().unwrap(), "gfx1151").unwrap();
                bugs.into_iter().map(|bug| bug.case).collect::<Vec<_>>()
            };
            let found = bugs("7.2.4");
            match expected {
                "none" => others += 1,
                _ => known += 1,
            }
            let right = match expected {
                "none" => found.is_empty(),
                case => found.iter().any(|name| name == case),
            };
            assert!(right, "{}: {expected}, but found {found:?}", file.display());
        }
        assert!(known >= 18 && others >= 12, "{known} and {others}");
    }

    #[test]
    fn calls_of_two_processes_do_not_make_one_failure() {
        let log = |pid: [u32; 4]| {
            let calls = [
                ("hipStreamBeginCapture ( 0x5, 0 )", "hipSuccess"),
                ("hipStreamSynchronize ( 0x5 )", "hipErrorStreamCaptureUnsupported"),
                ("hipStreamEndCapture ( 0x5, 0x6 )", "hipErrorStreamCaptureInvalidated"),
                ("hipStreamSynchronize ( 0x5 )", "hipErrorStreamCaptureInvalidated"),
            ];
            let lines = calls.iter().zip(pid).map(|((call, status), pid)| {
                let name = call.split(' ').next().unwrap();
                let ids = format!(":3: :0 : 1 us: [pid:{pid} tid: 0xa]");
                format!("{ids} {call}\n{ids} {name}: Returned {status} :\n")
            });
            lines.collect::<String>()
        };
        let found = |pid| {
            known_bugs_in_log(&log(pid), "", &"7.2.4".parse().unwrap(), "gfx1151").unwrap().len()
        };
        assert_eq!((found([7, 7, 7, 7]), found([7, 7, 7, 8])), (1, 0));
    }

    #[test]
    fn only_a_signal_in_exit_is_a_crash_at_the_end() {
        let line = |text: &str| [text.to_owned()];
        let crash =
            "rocrepro:   thread `python` died of SIGSEGV; liba.so+0x1 < exit+0x1b (libc.so.6)";
        assert!(died_in_exit(&line(crash)));
        assert!(!died_in_exit(&line("thread `python` died of SIGSEGV; liba.so+0x1 < main+0x1b")));
        assert!(!died_in_exit(&line("thread `python`; liba.so+0x1 < exit+0x1b (libc.so.6)")));
    }
}
