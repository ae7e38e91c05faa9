//! Checks that the device features that HIP programs need work on the emulated device. The checks cover every release,
//! and every architecture that the release supports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::{TaskResult, build_and_fetch};

/// Versions of ROCm, each with a list of architectures.
type Targets = [(&'static str, &'static [&'static str]); 4];

/// Versions of ROCm that Debian packages, oldest first, each with the architectures on which its HIP runtime finds a
/// device.
const RELEASES: Targets = [
    ("5.2.3", &["gfx906", "gfx908", "gfx90a", "gfx1030"]),
    (
        "5.7.1",
        &[
            "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102",
            "gfx1103",
        ],
    ),
    ("6.4.3", BEFORE_7),
    ("7.2.4", ALL_ARCHITECTURES),
];

/// Releases and architectures that the gate (`ci -- all`) checks. Each architecture occurs once. gfx1151 is also
/// covered by `cargo test`.
const SAMPLE: Targets = [
    ("5.2.3", &["gfx906", "gfx1030"]),
    ("5.7.1", &["gfx942"]),
    ("6.4.3", &["gfx90a", "gfx1100"]),
    ("7.2.4", &["gfx950", "gfx1151", "gfx1201"]),
];

/// Architectures that the releases before ROCm 7 support. The runtime of 6.4.3 does not support gfx950.
const BEFORE_7: &[&str] = &[
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103",
    "gfx1150", "gfx1151", "gfx1152", "gfx1200", "gfx1201",
];

const ALL_ARCHITECTURES: &[&str] = &[
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102",
    "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1200", "gfx1201",
];

/// Evidence that a device feature works, as a condition that the records of a run must meet.
enum Evidence {
    /// Trials that must pass.
    Trials(&'static [&'static str]),
    /// The worker of every trial found the requested device.
    Found,
    /// The runtime reported the architecture and a name to every worker.
    Described,
    /// The worker of every passed trial ended by itself with the normal exit status.
    Ended,
}

use Evidence::{Described, Ended, Found, Trials};

/// The checks, each with the name of a device feature and the evidence that the feature works. They are in the order in
/// which a program uses the features.
const CHECKS: [(&str, Evidence); 27] = [
    ("initialisation", Found),
    ("properties", Described),
    (
        "copies of pageable memory, in both directions",
        Trials(&["copies/tensors[bytes=64,memory=host.pageable,api=memcpy]"]),
    ),
    (
        "copies within the device",
        Trials(&["copies/device-to-device[api=memcpy,to_offset=1,from_offset=3]"]),
    ),
    (
        "asynchronous copies of pinned memory, in both directions",
        Trials(&["copies/tensors[bytes=262144,memory=host.pinned,api=memcpy_async]"]),
    ),
    (
        "small and unaligned copies",
        Trials(&[
            "copies/small-sizes[bytes=63,host=pageable,api=memcpy]",
            "copies/offsets[offset=1,bytes=7,host=pageable]",
        ]),
    ),
    (
        "memset of a whole buffer and of a part, synchronous and asynchronous",
        Trials(&[
            "copies/memset[offset=1,bytes=3,async=false]",
            "copies/memset[offset=1,bytes=3,async=true]",
            "copies/memset[offset=64,bytes=64,async=false,words=true]",
        ]),
    ),
    (
        "two-dimensional copies, and managed memory",
        Trials(&[
            "copies/rows-2d[width=100,async=false,host=pageable]",
            "copies/rows-2d[width=100,async=false,host=pageable,memory=device.pitched]",
            "copies/managed-memory",
        ]),
    ),
    (
        "events",
        Trials(&[
            "copies/two-streams-by-event[bytes=64,stream=non_blocking]",
            "errors/refused-queries",
        ]),
    ),
    (
        "run-time compilation and modules",
        Trials(&["kernels/saxpy[n=63,block=64]", "errors/unknown-symbol"]),
    ),
    ("a kernel whose workgroups are all full", Trials(&["kernels/saxpy[n=65536,block=256]"])),
    ("a kernel whose last workgroup is not full", Trials(&["kernels/saxpy[n=1000,block=100]"])),
    ("local memory and barriers", Trials(&["kernels/local-memory-sum[n=4096]"])),
    ("atomics", Trials(&["kernels/histogram-atomics[n=1000,launches=1]"])),
    ("a tiled matrix product", Trials(&["kernels/matmul-tiles[n=64]"])),
    (
        "a module's variable, and the wave size",
        Trials(&[
            "kernels/module-variable[n=1000,block=64]",
            "kernels/module-variable[n=1000,block=100]",
        ]),
    ),
    (
        "shuffles",
        Trials(&["kernels/shuffles[n=1000,block=64]", "kernels/shuffles[n=1000,block=96]"]),
    ),
    (
        "graphs: capture, instantiation, and replays with changing input",
        Trials(&[
            "graphs/captured-copies[host=pinned,bytes=64]",
            "graphs/replay-changing-input[words=16,host=pinned]",
        ]),
    ),
    ("fork and join of captured streams", Trials(&["graphs/fork-join[words=1024,mode=global]"])),
    (
        "errors during capture",
        Trials(&[
            "capture/begin-twice[mode=global]",
            "capture/forbidden-calls[call=stream_sync,mode=global]",
        ]),
    ),
    ("captured allocations", Trials(&["graphs/shared-pool[words=1024]"])),
    ("stream-ordered allocations", Trials(&["copies/pool-small-sizes[bytes=16]"])),
    ("running out of memory", Trials(&["errors/out-of-memory"])),
    ("frees of invalid addresses, and double frees", Trials(&["errors/bad-free"])),
    (
        "invalid launches, and unknown symbols",
        Trials(&["errors/refused-launches", "errors/unknown-symbol"]),
    ),
    (
        "host functions in streams, and stream queries",
        Trials(&[
            "copies/host-function-in-order[api=add_callback,stream=default]",
            "copies/host-function-in-order[api=add_callback,stream=s]",
        ]),
    ),
    ("teardown", Ended),
];

/// Result of a check on one release and architecture. If the trials of the check have different results, the check has
/// the one that comes last in this enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CheckResult {
    Pass,
    /// Trials failed, as their cases expect.
    Known,
    /// Trials were skipped, because the release lacks a function.
    Unsupported,
    Fail,
}

impl CheckResult {
    fn as_str(self) -> &'static str {
        match self {
            CheckResult::Pass => "pass",
            CheckResult::Known => "expected failure",
            CheckResult::Unsupported => "function missing",
            CheckResult::Fail => "FAIL",
        }
    }
}

/// Runs the checks on all releases and architectures, and prints the table.
///
/// # Errors
/// Fails if a check fails unexpectedly.
pub(crate) fn checks(sh: &Shell) -> TaskResult {
    check(sh, &RELEASES)
}

pub(crate) fn sample(sh: &Shell) -> TaskResult {
    check(sh, &SAMPLE)
}

fn check(sh: &Shell, places: &Targets) -> TaskResult {
    let program = build_and_fetch(sh)?;
    let folder = sh.create_temp_dir()?;
    let mut table: Vec<BTreeMap<CheckResult, Vec<String>>> = Vec::new();
    let mut failed = Vec::new();
    for (rocm, architectures) in places {
        for gfx in *architectures {
            let file = folder.path().join(format!("{rocm}-{gfx}.jsonl"));
            let records = run(sh, &program, rocm, gfx, file)?;
            for (index, (name, evidence)) in CHECKS.iter().enumerate() {
                let answer = evaluate(evidence, &records, gfx);
                if answer == CheckResult::Fail {
                    failed.push(format!("{name} on ROCm {rocm}, {gfx}: {}", what_failed(&records)));
                }
                let place = format!("{rocm} {gfx}");
                if table.len() <= index {
                    table.push(BTreeMap::new());
                }
                table[index].entry(answer).or_default().push(place);
            }
        }
    }
    print(&table, places);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// Runs the cases once and returns the records of all trials. Ignores the exit code, because the caller judges the
/// records.
fn run(
    sh: &Shell,
    program: &Path,
    rocm: &str,
    gfx: &str,
    file: PathBuf,
) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
    let trials: BTreeSet<&str> = CHECKS
        .iter()
        .filter_map(|(_, evidence)| match evidence {
            Trials(trials) => Some(trials.iter().copied()),
            _ => None,
        })
        .flatten()
        .collect();
    let rocm = format!("debian:{rocm}");
    let on = ["--rocm", &rocm, "--gfx", gfx, "--device", "emulated", "--quiet-timeout", "5"];
    cmd!(sh, "{program} run {trials...} {on...} --record {file}")
        .quiet()
        .ignore_status()
        .ignore_stdout()
        .run()?;
    let text = fs::read_to_string(&file)?;
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    // Other lines of the record only state that a trial began or that the run has ended.
    Ok(lines.into_iter().filter(|line| !line["verdict"].is_null()).collect())
}

fn evaluate(evidence: &Evidence, records: &[Value], gfx: &str) -> CheckResult {
    let all = |holds: &dyn Fn(&Value) -> bool| {
        let good = !records.is_empty() && records.iter().all(holds);
        if good { CheckResult::Pass } else { CheckResult::Fail }
    };
    let skipped = |record: &Value| record["verdict"]["kind"] == "skip";
    match evidence {
        Trials(trials) => trials
            .iter()
            .map(|wanted| {
                let of_it =
                    records.iter().filter(|r| r["case"] == *wanted || r["trial"] == *wanted);
                of_it.map(verdict).max().unwrap_or(CheckResult::Fail)
            })
            .max()
            .unwrap_or(CheckResult::Fail),
        Found => {
            all(&|r| skipped(r) || r["device"]["proven"] == true && r["device"]["emulated"] == true)
        }
        Described => all(&|r| {
            let text = |key: &str| r["device"][key].as_str().unwrap_or_default();
            // The reported name may contain features, for example `gfx90a:sramecc+:xnack-`.
            skipped(r) || text("gfx").split(':').next() == Some(gfx) && !text("name").is_empty()
        }),
        Ended => {
            all(&|r| verdict(r) != CheckResult::Pass || r["exit"]["exited"] == plan::WORKER_DONE)
        }
    }
}

/// Returns the names and outcomes of the failed trials as one line.
fn what_failed(records: &[Value]) -> String {
    let failed = records.iter().filter(|r| verdict(r) == CheckResult::Fail);
    let outcome = |r: &Value| format!("{} {}", r["trial"], r["outcome"]["summary"]);
    let each: Vec<String> = failed.map(outcome).collect();
    if each.is_empty() { "no trial failed".to_owned() } else { each.join("; ") }
}

fn verdict(record: &Value) -> CheckResult {
    match record["verdict"]["kind"].as_str() {
        Some("pass") => CheckResult::Pass,
        Some("known") => CheckResult::Known,
        Some("skip") => CheckResult::Unsupported,
        _ => CheckResult::Fail,
    }
}

fn print(table: &[BTreeMap<CheckResult, Vec<String>>], releases: &Targets) {
    let places: usize = releases.iter().map(|(_, architectures)| architectures.len()).sum();
    println!("| # | check | {} |", releases.map(|(rocm, _)| rocm).join(" | "));
    println!("| --- | --- | --- | --- | --- | --- |");
    for (index, ((name, _), answers)) in CHECKS.iter().zip(table).enumerate() {
        let cells = releases.map(|(rocm, architectures)| {
            let of_release = |answer: &CheckResult| -> Vec<&str> {
                let places = answers.get(answer).into_iter().flatten();
                places
                    .filter_map(|p| p.split_once(' '))
                    .filter(|p| p.0 == rocm)
                    .map(|p| p.1)
                    .collect()
            };
            let each: Vec<String> = answers
                .keys()
                .map(|answer| (answer, of_release(answer)))
                .filter(|(_, on)| !on.is_empty())
                .map(|(answer, on)| match on.len() == architectures.len() {
                    true => answer.as_str().to_owned(),
                    false => format!("{} on {}", answer.as_str(), on.join(", ")),
                })
                .collect();
            each.join("; ")
        });
        println!("| {} | {name} | {} |", index + 1, cells.join(" | "));
    }
    println!();
    for (rocm, architectures) in releases {
        println!("ROCm {rocm}: {}", architectures.join(", "));
    }
    let count = |wanted: &[CheckResult]| -> usize {
        table.iter().flatten().filter(|(a, _)| wanted.contains(a)).map(|(_, on)| on.len()).sum()
    };
    println!(
        "{} of {} checks pass on {places} pairs of release and architecture, {} fail as expected, \
         {} need a function that the release lacks",
        count(&[CheckResult::Pass]),
        CHECKS.len() * places,
        count(&[CheckResult::Known]),
        count(&[CheckResult::Unsupported])
    );
}
