//! Worker process that compiles and runs kernels. If a compiler crashes or hangs, only this process ends.
//!
//! The worker reads one job per line and writes answers, which are lines that begin with `@`. The last line of an
//! answer is `@end`. The worker announces each step in a line before the step starts, so that the cause of a crash is
//! known.

use std::{
    cell::RefCell,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, Write},
    path::Path,
    process::{Child, ChildStdin, ExitCode, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use super::{
    Target,
    compare::{self, ComparisonStatistics, Results},
    draw::Kernel,
};

/// A job for a worker: kernels `from..to` of the `of` kernels that a seed generates.
#[derive(Clone)]
pub(super) struct Job {
    /// Kind of job: `compare` compares the results on the target with those on the host, `shrink` minimises the first
    /// kernel, and `votes` runs the first kernel on the host at the other optimisation levels.
    pub(super) what: &'static str,
    pub(super) seed: u64,
    pub(super) of: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) target: Target,
}

impl Job {
    /// Returns the time that the worker may take for this job. Only time in which the worker computes or sleeps counts.
    fn limit(&self) -> Duration {
        match self.what {
            "shrink" => Duration::from_secs(300),
            _ => Duration::from_secs(60 + (self.to - self.from)),
        }
    }

    fn line(&self) -> String {
        let Job { what, seed, of, from, to, target } = self;
        let Target { arch, level, wave64 } = target;
        format!("{what} {seed} {of} {from} {to} {arch} {level} {wave64}\n")
    }

    fn parse(line: &str) -> Option<Job> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, seed, of, from, to, arch, level, wave64] = words[..] else { return None };
        let what = *["compare", "shrink", "votes"].iter().find(|known| **known == what)?;
        let level = *super::LEVELS.iter().find(|known| **known == level)?;
        let target = Target { arch: arch.parse().ok()?, level, wave64: wave64.parse().ok()? };
        let number = |text: &str| text.parse().ok();
        let (seed, of, from, to) = (number(seed)?, number(of)?, number(from)?, number(to)?);
        Some(Job { what, seed, of, from, to, target })
    }
}

fn folded(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unfolded(text: &str) -> String {
    let (mut all, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => all.push(if letters.next() == Some('n') { '\n' } else { '\\' }),
            other => all.push(other),
        }
    }
    all
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // If writing fails, the parent has ended and sends no further jobs.
    let _ = writeln!(out, "@{line}").and_then(|()| out.flush());
}

/// The kernels that a seed generates, and their results on the host.
struct Known {
    seed: u64,
    of: u64,
    kernels: Vec<Kernel>,
    expected: Result<Vec<Results>, String>,
}

/// Executes jobs until the end of the input. Returns exit code 2 if the input contains an invalid job.
pub(crate) fn serve() -> ExitCode {
    let mut known: Option<Known> = None;
    for line in std::io::stdin().lock().lines() {
        let Some(job) = line.ok().and_then(|line| Job::parse(&line)) else {
            return ExitCode::from(2);
        };
        let stage = |what: &str| say(&format!("stage {what}"));
        if known.as_ref().is_none_or(|known| (known.seed, known.of) != (job.seed, job.of)) {
            stage("host");
            let begun = Instant::now();
            let kernels = compare::kernels(job.seed, 0..job.of);
            let expected = compare::on_host(&kernels, job.seed, compare::HOST_LEVEL);
            say(&format!("time host {}", begun.elapsed().as_secs_f64()));
            known = Some(Known { seed: job.seed, of: job.of, kernels, expected });
        }
        if let Some(known) = &known {
            answer(&job, &known.kernels, &known.expected, &stage);
        }
        say("end");
    }
    ExitCode::SUCCESS
}

fn answer(
    job: &Job,
    kernels: &[Kernel],
    expected: &Result<Vec<Results>, String>,
    stage: &dyn Fn(&str),
) {
    let expected = match expected {
        Ok(expected) => expected,
        Err(problem) => return say(&format!("host {}", folded(problem))),
    };
    let part = job.from as usize..job.to as usize;
    let first = &kernels[part.start];
    match job.what {
        "shrink" => {
            let text = compare::shrink(first.clone(), job.target, job.seed, stage);
            say(&format!("text {}", folded(&text)));
        }
        "votes" => {
            stage("host");
            say(&format!("votes {}", compare::host_votes(first, job.seed).join(" ")));
        }
        _ => {
            let mut notes = ComparisonStatistics::default();
            let (kernels, expected) = (&kernels[part.clone()], &expected[part]);
            let found =
                compare::compare(kernels, expected, job.target, job.seed, &mut notes, stage);
            for (index, what) in found {
                say(&format!("differs {} {}", job.from + index as u64, folded(&what)));
            }
            for opcodes in notes.opcodes.values() {
                let all: Vec<&str> = opcodes.iter().map(String::as_str).collect();
                say(&format!("opcodes {}", all.join(" ")));
            }
            say(&format!("time compile {}", notes.compiling));
            say(&format!("time run {}", notes.running));
        }
    }
}

/// Measures the time that a process has computed or slept. Time in which the process waits for a processor is excluded,
/// because on a busy machine a process with a low priority waits for minutes.
struct Clock {
    process: u32,
    begun: Option<Duration>,
    asleep: Duration,
}

impl Clock {
    const TICK: Duration = Duration::from_secs(1);

    fn new(process: u32) -> Clock {
        let begun = Clock::look(process).map(|(_, computed)| computed);
        Clock { process, begun, asleep: Duration::ZERO }
    }

    /// Returns true if the process sleeps, and the processor time that it has used; `None` if the process does not
    /// exist. Source: `proc_pid_stat(5)`, which counts hundredths of a second.
    fn look(process: u32) -> Option<(bool, Duration)> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some((fields.first() == Some(&"S"), Duration::from_millis(10 * (ticks(11)? + ticks(12)?))))
    }

    /// Updates and returns the time that the worker has spent on the current job. Must be called once per tick.
    fn spent(&mut self) -> Duration {
        let Some((sleeps, computed)) = Clock::look(self.process) else { return Duration::MAX };
        if sleeps {
            // A worker that waits for the host's compiler sleeps too, so only a part of its sleep is counted.
            self.asleep += Clock::TICK / 4;
        }
        let begun = *self.begun.get_or_insert(computed);
        computed.saturating_sub(begun) + self.asleep
    }
}

/// Description of how a worker ended before it completed a job.
pub(super) struct WorkerDeath {
    pub(super) stage: String,
    pub(super) how: String,
}

/// A worker process, as its parent sees it: a channel for jobs and one for answers.
pub(super) struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: RefCell<File>,
}

impl Worker {
    pub(super) fn start(root: &Path) -> Result<Worker, String> {
        let errors = tempfile::tempfile()
            .map_err(|error| format!("cannot create a temporary file: {error}"))?;
        let copy = errors
            .try_clone()
            .map_err(|error| format!("cannot create a temporary file: {error}"))?;
        let mut command = crate::command(root);
        command.args(["fuzz", "worker"]).env(crate::INSIDE, "1").stderr(copy);
        // Compiled code is not cached, because each random kernel is compiled only once and the cache would fill the
        // disk.
        if std::env::var_os("AMD_COMGR_CACHE").is_none() {
            command.env("AMD_COMGR_CACHE", "0");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("cannot start a worker: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the worker has no pipes".to_owned());
        };
        let (tell, lines) = channel();
        // The thread ends with the worker, because the worker's output ends then.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix('@')
                    && tell.send(line.to_owned()).is_err()
                {
                    break;
                }
            }
        });
        Ok(Worker { child, input, lines, errors: RefCell::new(errors) })
    }

    /// Sends a job to the worker, waits for the answer, and returns the lines of the answer.
    ///
    /// # Errors
    /// Returns a description of how the worker ended, if it ended before it completed the job.
    pub(super) fn ask(&mut self, job: &Job) -> Result<Vec<(String, String)>, WorkerDeath> {
        let mut clock = Clock::new(self.child.id());
        let (mut stage, mut answer) = ("begin".to_owned(), Vec::new());
        if let Err(error) = self.input.write_all(job.line().as_bytes()) {
            return Err(self.died(stage, &format!("the worker did not accept the job: {error}")));
        }
        loop {
            match self.lines.recv_timeout(Clock::TICK) {
                Ok(line) => {
                    let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
                    match word {
                        "end" => return Ok(answer),
                        "stage" => stage = rest.to_owned(),
                        _ => answer.push((word.to_owned(), unfolded(rest))),
                    }
                }
                Err(RecvTimeoutError::Timeout) if clock.spent() < job.limit() => {}
                Err(RecvTimeoutError::Timeout) => {
                    let how = format!(
                        "the worker did not finish the job within {} s of its own time",
                        job.limit().as_secs()
                    );
                    return Err(self.died(stage, &how));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.died(stage, "")),
            }
        }
    }

    /// Kills the worker, and describes how it ended.
    fn died(&mut self, stage: String, how: &str) -> WorkerDeath {
        if !how.is_empty() {
            // The worker may have ended already.
            let _ = self.child.kill();
        }
        let status = self.child.wait().map_or_else(|error| error.to_string(), |s| s.to_string());
        let mut said = Vec::new();
        let errors = &mut *self.errors.borrow_mut();
        let _ = errors.rewind().and_then(|()| errors.read_to_end(&mut said));
        let said = String::from_utf8_lossy(&said);
        let known = ["LLVM ERROR", "Assertion", "panicked", "fatal error", "UNREACHABLE"];
        let telling = said.lines().find(|line| known.iter().any(|word| line.contains(word)));
        let how = if how.is_empty() { status } else { how.to_owned() };
        let how = telling.map_or(how.clone(), |line| format!("{how}: {}", line.trim()));
        WorkerDeath { stage, how }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
