//! Compares the minimiser with plain delta debugging on injected bugs: `cargo bench --bench minimiser`. If further
//! arguments are given, only trials whose id contains one of them are measured.

use std::{path::PathBuf, time::Duration};

use device::FaultSpec;
use rocrepro::{CaseLibrary, Job, Session, Stop, compare, lower_all, select};

const BUGS: &[(&str, &str)] = &[
    ("copies/round-trip-in-one-stream", "copy.zero"),
    ("copies/small-sizes[bytes=64,host=pageable,api=memcpy_async]", "copy.lost-small-slot"),
    ("copies/tensors", "copy.torn"),
    ("copies/two-streams-by-event", "copy.drop"),
    ("copies/free-returns-memory", "alloc.leak"),
    ("graphs/fork-join[words=1024,mode=global]", "kernel.drop"),
    ("graphs/long-chain", "kernel.drop"),
    ("graphs/many-replays", "graph.launch-lost"),
    ("graphs/output-after-next-replay[words=16,clone=device]", "graph.overwrite-output"),
    ("kernels/saxpy[n=64,block=64]", "kernel.stale-args"),
    ("kernels/saxpy[n=64,block=64]", "device.lost"),
    ("graphs/launch-on-other-streams[stream=blocking]", "copy.misplaced"),
];
const RATES: &[f64] = &[0.5, 0.2];
const REPEATS: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo passes the option `--bench`, which is not part of a trial's id.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let library = CaseLibrary::load(None)?;
    let mut options =
        rocrepro::options_from_environment(PathBuf::from(env!("CARGO_BIN_EXE_rocrepro")))?;
    options.with = vec!["hiprand".to_owned()];
    options.limits.quiet = Duration::from_secs(5);
    let session = Session::open(options)?;
    println!(
        "| planted bug | signature | calls | runs | ddmin: calls | ddmin: runs | of them well-formed | at 50 %: runs | wrong | at 20 %: runs | wrong |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    let (mut runs, mut ddmin) = (0, 0);
    for (case, fault) in BUGS {
        if !wanted.is_empty() && !wanted.iter().any(|w| case.contains(w.as_str())) {
            continue;
        }
        let row = row(&session, &library, case, fault)?;
        runs += row.runs;
        let all = row.ddmin_runs + row.ddmin_unresolved;
        ddmin += all;
        let simulated: String = row
            .simulated
            .iter()
            .map(|s| format!(" {} | {}/{} |", s.runs / s.repeats, s.wrong, s.repeats))
            .collect();
        println!(
            "| {}, {fault} | {} | {} to {} | {} | {} | {all} | {} |{simulated}",
            row.trial,
            row.signature,
            row.calls_before,
            row.calls_after,
            row.runs,
            row.ddmin_calls,
            row.ddmin_runs
        );
    }
    println!("\nRuns in all: {runs}; plain ddmin: {ddmin}.");
    Ok(())
}

fn row(
    session: &Session,
    library: &CaseLibrary,
    case: &str,
    fault: &str,
) -> Result<rocrepro::Comparison, Box<dyn std::error::Error>> {
    let planted = FaultSpec::from(fault.parse::<device::Fault>()?);
    let mut selected = select(library, &[case.to_owned()])?;
    selected.truncate(1);
    let at_call = planted.fault.place() == device::FaultPlace::Call;
    let lowered = lower_all(library, &selected, at_call.then_some(planted.clone()))?;
    let jobs = selected.iter().zip(lowered);
    let job = jobs
        .map(|(s, lowered)| Job {
            case: s.case,
            trial: &s.trial,
            lowered,
            run: 0,
            faults: vec![planted.clone()],
        })
        .next()
        .ok_or_else(|| Stop::nothing("no trial"))?;
    Ok(compare(session, library, &job, RATES, REPEATS)?)
}
