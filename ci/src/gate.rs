//! The gate: all checks that a change has to pass. Each part of the gate prints how long it took.

use std::{
    fs::File,
    io::{Read, Seek, stdout},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    TaskResult, amd_tests, build, checks, exports, filing, frameworks, kernels_sample, lint,
    prove_sample, shell, stack, stacks_sample, test,
};

type GateTask = (&'static str, fn() -> TaskResult);

/// Phases of the gate. The parts of a phase use results of earlier phases. Two parts of a phase run at the same time,
/// because many parts wait for downloads or for a single program. The longest part of a phase comes first.
const PHASES: [&[GateTask]; 3] = [
    &[("build", build)],
    &[("stack", stack), ("lint", lint)],
    &[
        ("test", test),
        ("stacks", stacks_sample),
        ("frameworks", || frameworks::sample(&shell()?)),
        ("prove", prove_sample),
        ("filed", || filing::sample(&shell()?)),
        ("amd", || amd_tests::half(&shell()?)),
        ("kernels", kernels_sample),
        ("checks", || checks::sample(&shell()?)),
        ("exports", || exports::sample(&shell()?)),
    ],
];

const MAX_PARALLEL: usize = 2;

pub(crate) fn run_all() -> TaskResult {
    PHASES.into_iter().try_for_each(run)
}

/// Runs the parts of a phase. Starts no further part after a failure.
fn run(parts: &[GateTask]) -> TaskResult {
    let mut waiting = parts.iter();
    let mut running: Vec<Running> = Vec::new();
    let mut failed = Vec::new();
    loop {
        while failed.is_empty() && running.len() < MAX_PARALLEL {
            let Some((name, _)) = waiting.next() else { break };
            running.push(Running::start(name)?);
        }
        if running.is_empty() {
            break;
        }
        sleep(Duration::from_millis(100));
        let mut still = Vec::new();
        for mut part in running {
            match part.child.try_wait()? {
                None => still.push(part),
                Some(status) => {
                    part.show()?;
                    failed.extend((!status.success()).then_some(part.name));
                }
            }
        }
        running = still;
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("these parts of the gate failed: {}", failed.join(", ")).into()),
    }
}

/// A part of the gate that runs in a process of its own. Its output is printed when it has ended, so that the outputs
/// of two parts are not mixed.
struct Running {
    name: &'static str,
    child: Child,
    output: File,
}

impl Running {
    fn start(name: &'static str) -> std::io::Result<Running> {
        let output = tempfile::tempfile()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["part", name]).stdin(Stdio::null());
        let child = command.stdout(output.try_clone()?).stderr(output.try_clone()?).spawn()?;
        Ok(Running { name, child, output })
    }

    fn show(&mut self) -> std::io::Result<()> {
        self.output.rewind()?;
        std::io::copy(&mut self.output.by_ref(), &mut stdout())?;
        Ok(())
    }
}

/// Runs a part of the gate in this process, and prints how long it took.
pub(crate) fn run_task(name: &str) -> TaskResult {
    let named = PHASES.into_iter().flatten().find(|(part, _)| *part == name);
    let (name, part) = named.ok_or_else(|| format!("the gate has no part `{name}`"))?;
    let (begun, busy) = (Instant::now(), processor_seconds());
    let done = part();
    let end = if done.is_ok() { "succeeded" } else { "failed" };
    let (busy, wall) = (processor_seconds() - busy, begun.elapsed().as_secs());
    println!("ci all: {name} {end} after {wall} s, with {busy} s of processor time");
    done.map_err(|error| format!("{name}: {error}").into())
}

/// Returns the processor time of all child processes that have ended, in seconds. `proc_pid_stat(5)` reports the time
/// in hundredths of seconds.
fn processor_seconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() / 100
}
