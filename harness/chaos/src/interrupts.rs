//! Interrupts long commands at random moments. A command that receives SIGINT or SIGTERM must end within 2 s together
//! with all of its processes. It must remove its temporary files, and leave only complete files, with the best result
//! so far.

mod commands;
mod files;

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) use self::commands::{COMMANDS, LongCommand};
use crate::{mixture::RandomNumbers, processes, setup::RunSetup, shared_tools::Tools};

/// Maximum time from the signal to the end of the last process of the command.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Time after the signal at which the remaining processes are killed.
const KILL_AFTER: Duration = Duration::from_secs(60);
/// Maximum duration of a command that is not interrupted.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);
/// Interval between two checks whether a command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of attempts to interrupt a command. An attempt fails if the command ends before the drawn moment.
const MAX_ATTEMPTS: u32 = 8;
/// Maximum time to wait until other work of the machine has ended, before a slow interruption is repeated.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(60);

/// Result of interrupting a command once.
struct Interruption {
    /// Time from the start of the command to the signal.
    at: Duration,
    signal: Signal,
    /// Time from the signal to the end of the last process.
    took: Duration,
    /// Number of threads that ran on the machine at the time of the signal.
    running: u32,
    /// End of the command, for example `exit 3`.
    ended: String,
    /// Descriptions of all mistakes, except for a late end.
    wrong: Vec<String>,
    said: String,
}

impl Interruption {
    fn is_slow(&self) -> bool {
        self.took > END_LIMIT
    }

    /// Returns true if the command exited with 128 plus the number of the signal. A command does so if it cannot end in
    /// an orderly way in time.
    fn was_ended(&self) -> bool {
        self.ended == format!("exit {}", 128 + self.signal.as_raw())
    }

    fn mistakes(&self) -> Vec<String> {
        let slow =
            self.is_slow().then(|| format!("it ended after {:.2} s", self.took.as_secs_f64()));
        slow.into_iter().chain(self.wrong.iter().cloned()).collect()
    }
}

/// Interrupts a command once, at a moment that the seed determines. Checks its end, its processes and its files, but
/// not how long it took to end.
///
/// # Errors
/// Fails with a description of what is wrong.
pub(crate) fn interrupt_once(
    tools: &Tools,
    command: &LongCommand,
    seed: u64,
) -> Result<(), String> {
    let mut numbers = RandomNumbers(seed.wrapping_mul(7919).wrapping_add(17));
    numbers.next(1);
    let mut usual = command.usual;
    let Some(moment) = draw(tools, command, &mut usual, &mut numbers) else {
        return Err(format!("`{}` ended before each drawn moment", command.name));
    };
    // Other tests run at the same time, so only the long form of the tests checks the time.
    if moment.was_ended() || moment.wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n{}", describe(command, &moment, &moment.wrong), moment.said))
}

/// Interrupts each command at `moments` random moments and prints a table.
///
/// # Errors
/// Returns an error with the number of interruptions that revealed a mistake.
pub(crate) fn all(program: PathBuf, moments: u64, seed: u64, only: &str) -> Result<(), String> {
    let tools = Tools::make(program);
    let mut numbers = RandomNumbers(seed);
    let (mut lines, mut all, mut failed) = (Vec::new(), 0, 0);
    for command in COMMANDS.iter().filter(|command| command.name.contains(only)) {
        let (mut usual, mut slowest, mut wrong_here) = (command.usual, Duration::ZERO, 0);
        let (mut count, mut ends) = (0, std::collections::BTreeMap::<String, u32>::new());
        for _ in 0..moments {
            let Some(moment) = draw(&tools, command, &mut usual, &mut numbers) else { break };
            count += 1;
            slowest = slowest.max(moment.took);
            *ends.entry(moment.ended.clone()).or_default() += 1;
            let wrong = moment.mistakes();
            println!("{}", describe(command, &moment, &wrong));
            if !wrong.is_empty() {
                wrong_here += 1;
                println!("{}\n", moment.said);
            }
        }
        all += count;
        failed += wrong_here;
        let ends: Vec<String> = ends.iter().map(|(end, n)| format!("{n} {end}")).collect();
        lines.push(format!(
            "| {} | {count} | {:.2} | {wrong_here} | {} |",
            command.name,
            slowest.as_secs_f64(),
            ends.join(", ")
        ));
    }
    println!(
        "\n| command | moments | slowest s | violations | ends |\n| --- | --- | --- | --- | --- |"
    );
    println!("{}", lines.join("\n"));
    println!("in {failed} of {all} interruptions, the command violated a rule, seed {seed}");
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("in {failed} of {all} interruptions, the command violated a rule"))
    }
}

fn describe(command: &LongCommand, moment: &Interruption, wrong: &[String]) -> String {
    let (at, took) = (moment.at.as_secs_f64(), moment.took.as_secs_f64());
    let signal = if moment.signal == Signal::INT { "SIGINT" } else { "SIGTERM" };
    let load = moment.running;
    let mut text = format!(
        "{}: {signal} after {at:.2} s, ended {took:.2} s later, {}, {load} threads of the machine were running",
        command.name, moment.ended
    );
    for mistake in wrong {
        text.push_str(&format!("\n  WRONG: {mistake}"));
    }
    text
}

/// Draws moments until the command is interrupted at one of them. `usual` is the usual duration of the command; if the
/// command ends before the drawn moment, sets it to that shorter time. If the interrupted command ends slowly,
/// interrupts it again when the machine has no other work, and returns the second result. Returns `None` if no attempt
/// interrupted the command.
fn draw(
    tools: &Tools,
    command: &LongCommand,
    usual: &mut Duration,
    numbers: &mut RandomNumbers,
) -> Option<Interruption> {
    for _ in 0..MAX_ATTEMPTS {
        let at = Duration::from_millis(numbers.next(usual.as_millis().max(1) as usize) as u64);
        let signal = if numbers.next(2) == 0 { Signal::INT } else { Signal::TERM };
        match interrupt(tools, command, at, signal) {
            Err(ended) => *usual = ended,
            Ok(moment) if moment.is_slow() || moment.was_ended() => {
                wait_for_rest();
                return interrupt(tools, command, at, signal).ok().or(Some(moment));
            }
            Ok(moment) => return Some(moment),
        }
    }
    None
}

/// Runs a command and interrupts it after the time `at`.
///
/// # Errors
/// Returns the duration of the command if it ended before the time `at`.
fn interrupt(
    tools: &Tools,
    command: &LongCommand,
    at: Duration,
    signal: Signal,
) -> Result<Interruption, Duration> {
    let mut setup = RunSetup::new(tools);
    (command.set_up)(&mut setup);
    // A shell makes its background jobs ignore SIGINT, and this process may be such a job. `env` restores the default.
    let mut process = Command::new("env");
    process.arg("--default-signal=INT,TERM").arg(&tools.program);
    process.args(setup.arguments()).current_dir(setup.folder.join("work"));
    process.env_clear().envs(setup.environment()).stdin(Stdio::null());
    let at_streams = ["out", "err"].map(|name| setup.folder.join(name));
    process.stdout(File::create(&at_streams[0]).expect("the folder is writable"));
    process.stderr(File::create(&at_streams[1]).expect("the folder is writable"));
    let begun = Instant::now();
    let mut child = process.spawn().expect("the command starts");
    while begun.elapsed() < at {
        if child.try_wait().expect("a child").is_some() {
            let _ = fs::remove_dir_all(&setup.folder);
            return Err(begun.elapsed());
        }
        sleep(POLL_INTERVAL);
    }
    let running = running_threads();
    let sent = Instant::now();
    let _ = kill_process(Pid::from_child(&child), signal);
    let (status, took, mut wrong) = wait_for_end(&mut child, sent, &setup);
    let [out, err] = at_streams.map(|path| fs::read(path).unwrap_or_default());
    let [out, err] = [out, err].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let (ended, mistake) = describe_end(command, status, signal);
    wrong.extend(mistake);
    wrong.extend(files::leftovers(&setup.folder.join("tmp")));
    wrong.extend(files::incomplete_files(&setup.folder.join("work")));
    if err.contains("panicked at") {
        wrong.push("the command panicked".to_owned());
    }
    wrong.extend((command.check)(&setup, &err));
    let _ = fs::remove_dir_all(&setup.folder);
    let said = format!("--- stdout:\n{out}\n--- stderr:\n{err}");
    Ok(Interruption { at, signal, took, running, ended, wrong, said })
}

/// Waits until the command and all of its processes have ended. Returns the exit status of the command, the time since
/// the signal, and the mistakes.
fn wait_for_end(
    child: &mut Child,
    sent: Instant,
    setup: &RunSetup<'_>,
) -> (Option<ExitStatus>, Duration, Vec<String>) {
    let mut status = None;
    while sent.elapsed() < KILL_AFTER {
        if status.is_none() {
            status = child.try_wait().expect("a child");
        }
        if status.is_some() && processes::alive(&setup.folder).is_empty() {
            return (status, sent.elapsed(), Vec::new());
        }
        sleep(POLL_INTERVAL);
    }
    let left = processes::alive(&setup.folder);
    let wrong = left.iter().map(|&pid| format!("left behind: {}", processes::describe(pid)));
    let wrong = wrong.collect();
    left.iter().for_each(|&pid| processes::kill(pid));
    let _ = child.kill();
    let _ = child.wait();
    (status, sent.elapsed(), wrong)
}

/// Describes how a command ended. If it must not end in this way, also returns the mistake.
fn describe_end(
    command: &LongCommand,
    status: Option<ExitStatus>,
    signal: Signal,
) -> (String, Option<String>) {
    let Some(status) = status else { return ("no end".to_owned(), None) };
    match (status.code(), status.signal()) {
        (Some(code), _) if code == command.interrupted => (format!("exit {code}"), None),
        // The command had completed its work when the signal arrived.
        (Some(code), _) if code == command.code => (format!("exit {code}"), None),
        (Some(code), _) => {
            let ended = format!("exit {code}");
            (ended.clone(), Some(format!("expected exit {}, not {ended}", command.interrupted)))
        }
        (None, Some(number)) if number == signal.as_raw() => (format!("signal {number}"), None),
        (None, number) => {
            let ended = format!("signal {}", number.unwrap_or_default());
            (ended.clone(), Some(ended))
        }
    }
}

/// Returns the number of threads that run or wait for a processor on the machine.
fn running_threads() -> u32 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let field = text.split_whitespace().nth(3).and_then(|field| field.split('/').next());
    field.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Waits until the machine has idle processors, but at most for [`MAX_IDLE_WAIT`].
fn wait_for_rest() {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let begun = Instant::now();
    let mut calm = 0;
    while calm < 5 && begun.elapsed() < MAX_IDLE_WAIT {
        // The number of running threads includes this thread.
        calm = if running_threads() <= processors { calm + 1 } else { 0 };
        sleep(Duration::from_millis(200));
    }
}

/// Runs a command to its end in the folder of a run. Returns a description, including the output, if the command fails.
fn follow_up(setup: &RunSetup<'_>, arguments: &[&str]) -> Option<String> {
    let mut process = Command::new(&setup.tools.program);
    process.args(arguments).current_dir(setup.folder.join("work"));
    process.env_clear().envs(setup.environment()).stdin(Stdio::piped());
    process.stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let output = process.output().expect("the command starts");
    if begun.elapsed() > COMMAND_TIMEOUT {
        return Some(format!("{arguments:?} took {:?}", begun.elapsed()));
    }
    (!output.status.success()).then(|| {
        let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
        format!("after the interrupt, {arguments:?} ended with {}: {out}{err}", output.status)
    })
}
