//! Records programs, replays the recordings under an injected fault, minimises them, and writes a report.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, build_and_fetch};

/// Path of the report.
const REPORT: &str = "reports/recorded-programs.md";

/// Number of replays of each recording.
const REPLAYS: usize = 20;

/// A program, and the fault under which its recording is replayed.
struct Recorded {
    name: &'static str,
    /// Path of the program in the repository.
    source: &'static str,
    /// Name of the Python environment of the program, and of the group of libraries that it needs; `None` for a
    /// compiled program.
    environment: Option<&'static str>,
    fault: &'static str,
}

const fn compiled(name: &'static str, source: &'static str, fault: &'static str) -> Recorded {
    Recorded { name, source, environment: None, fault }
}

const PROGRAMS: [Recorded; 5] = [
    compiled("streams", "harness/cli/tests/cli/recorded/streams.hip", "kernel.drop"),
    compiled("streams", "harness/cli/tests/cli/recorded/streams.hip", "copy.zero"),
    compiled("graph", "harness/cli/tests/cli/recorded/graph.hip", "kernel.drop"),
    compiled("graph", "harness/cli/tests/cli/recorded/graph.hip", "copy.zero"),
    Recorded {
        name: "triton",
        source: "docs/programs/with_triton.py",
        environment: Some("triton"),
        fault: "kernel.drop",
    },
];

/// Measurements of one program.
struct Row {
    calls: u64,
    signature: String,
    same: usize,
    before: String,
    after: String,
    runs: String,
    seconds: f64,
}

/// Replays and minimises the recordings of all programs, and writes the report. A program whose Python environment is
/// missing is left out.
pub(crate) fn recorded(sh: &Shell) -> TaskResult {
    let program = build_and_fetch(sh)?;
    let mut table = String::new();
    let mut problems = Vec::new();
    for of in &PROGRAMS {
        if of.environment.is_some_and(|name| !has_environment(name)) {
            println!("{}: left out, because its environment does not exist", of.name);
            continue;
        }
        let Row { calls, signature, same, before, after, runs, seconds } =
            measured(sh, &program, of).map_err(|error| format!("{}: {error}", of.name))?;
        if same != REPLAYS || !signature.contains(':') {
            problems.push(format!("{}: {same} of {REPLAYS} replays give {signature}", of.name));
        }
        let Recorded { name, fault, .. } = of;
        let row = format!(
            "| {name}, {fault} | {calls} | {signature} | {same}/{REPLAYS} | {before} to {after} | {runs} | \
             {seconds:.1} |"
        );
        println!("{row}");
        writeln!(table, "{row}")?;
    }
    if !problems.is_empty() {
        return Err(problems.join("\n").into());
    }
    let date = cmd!(sh, "date -u +%F").quiet().read()?;
    let text = format!(
        "# Recorded programs\n\n\
         Reference. Written by `cargo run -p ci -- recorded`, on ROCm 7.2.4 (`{STACK}`) and the emulated gfx1151.\n\n\
         Each program is recorded on the healthy device. Its recording is replayed {REPLAYS} times under the fault, \
         and then minimised.\n\n\
         * **recorded**: calls of the program, without those that a compiler inserts.\n\
         * **same**: replays with the signature of the first replay.\n\
         * **calls**: calls of the whole plan, with set-up and teardown, before and after minimising. **runs**: \
         processes\n  that the search started. **seconds**: time of the search.\n\n\
         | program, fault | recorded | signature | same | calls | runs | seconds |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n\
         {table}\n\
         Measured {date}: `harness/recorder`, `harness/engine/src/recording`\n"
    );
    sh.write_file(REPORT, text)?;
    Ok(())
}

fn has_environment(name: &str) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    home.join(".cache/rocrepro/environments").join(name).is_dir()
}

fn measured(sh: &Shell, program: &Path, of: &Recorded) -> Result<Row, Box<dyn std::error::Error>> {
    let folder = sh.create_temp_dir()?;
    let at = |name: &str| folder.path().join(name);
    let on = ["--rocm", STACK, "--device", "emulated", "--gfx", "gfx1151"];
    let (source, calls) = (sh.current_dir().join(of.source), at("program.trace"));
    let recorded = match of.environment {
        Some(environment) => {
            let inside = ["--with", environment, "--in", environment];
            cmd!(sh, "{program} record {on...} {inside...} --out {calls} -- python {source}")
        }
        None => {
            let (binary, compiler) = (at("program"), ["--with", "dev", "--", "hipcc", "-O2"]);
            let target = "--offload-arch=gfx1151";
            cmd!(sh, "{program} exec {on...} {compiler...} {target} {source} -o {binary}")
                .quiet()
                .ignore_stderr()
                .run()?;
            cmd!(sh, "{program} record {on...} --out {calls} -- {binary}")
        }
    };
    let summary = recorded.quiet().ignore_stdout().read_stderr()?;
    let number = |text: &str, before: &str| {
        let (start, _) = text.split_once(before)?;
        start.rsplit(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    };
    let count = number(&summary, " calls of HIP").ok_or("the summary has no number of calls")?;

    let (records, repeat, fault) = (at("runs.jsonl"), REPLAYS.to_string(), of.fault);
    let run = ["--trust", "--fault", fault];
    cmd!(sh, "{program} run {calls} {run...} {on...} --repeat {repeat} --record {records}")
        .quiet()
        .ignore_status()
        .ignore_stdout()
        .ignore_stderr()
        .run()?;
    let text = sh.read_file(&records)?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let signatures =
        lines.filter_map(|line| Some(line["outcome"]["signature"].as_str()?.to_owned()));
    let signatures: Vec<String> = signatures.collect();
    let signature = signatures.first().ok_or("no replay has a record")?.clone();
    let same = signatures.iter().filter(|other| **other == signature).count();

    let (small, start) = (at("small"), Instant::now());
    let shown = cmd!(sh, "{program} minimise {calls} {run...} {on...} --out {small}")
        .quiet()
        .ignore_stderr();
    let shown = shown.ignore_status().read()?;
    let seconds = start.elapsed().as_secs_f64();
    // For example `Calls: 24 before, 14 after; 30 runs in 3.7 s`.
    let line = shown.lines().find_map(|line| line.strip_prefix("Calls: "));
    let line = line.ok_or_else(|| format!("`minimise` printed no number of calls:\n{shown}"))?;
    let found = |before: &str| number(line, before).map(|count: u64| count.to_string());
    let part = |before: &str| found(before).ok_or_else(|| format!("no `{before}` in `{line}`"));
    let (before, after, runs) = (part(" before")?, part(" after")?, part(" runs")?);
    Ok(Row { calls: count, signature, same, before, after, runs, seconds })
}
