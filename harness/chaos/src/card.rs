//! Runs the whole command on simulated GPU cards that misbehave, kills the command in the middle of a run, and reboots
//! the simulated machine. The HIP runtime and the files of the GPU driver are simulated too. The simulated card logs
//! what it did, and the tests compare the command's records with that log.

mod machine;
mod model;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use self::{
    machine::{MachineParts, SimulatedMachine},
    model::{PlannedTrial, RunPlan},
};
use crate::processes;

const TRIALS: usize = 8;
/// Maximum duration of a run. No run takes this long, even on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum number of times that a test starts the command until the run is complete.
const MAX_STARTS: usize = 2 * TRIALS + 2;

pub(crate) struct Cards {
    program: PathBuf,
    parts: OnceLock<MachineParts>,
}

/// End of one execution of the command.
enum CommandEnd {
    /// The command exited with this exit code and printed this text.
    With(i32, String),
    /// The test killed the command, because the simulated card requested it. The value is the reason.
    Killed(String),
}

impl Cards {
    pub(crate) fn new(program: PathBuf) -> Cards {
        Cards { program, parts: OnceLock::new() }
    }

    pub(crate) fn impossible() -> Option<&'static str> {
        machine::impossible()
    }

    /// Runs trials on simulated cards whose behaviours are drawn from a seed.
    ///
    /// # Errors
    /// Returns a description of what the command did wrong.
    pub(crate) fn run_random(&self, seed: u64) -> Result<(), String> {
        self.run_until_complete(&seed.to_string(), &model::draw(seed, TRIALS))
    }

    /// Runs trials on a card that breaks in the middle of the run. After that, only the trial that broke the card and
    /// its health check may access the card.
    pub(crate) fn break_card_mid_run(&self, trials: usize) -> Result<(), String> {
        let at = trials / 2;
        let fates = model::breaking_run(trials, at);
        let machine = self.machine(&format!("night-{trials}"), 1, &fates);
        let begun = Instant::now();
        let said = match start(&machine, false)? {
            CommandEnd::With(1, said) => said,
            CommandEnd::With(code, said) => return Err(format!("exit code {code}\n{said}")),
            CommandEnd::Killed(why) => return Err(format!("requested kill: {why}")),
        };
        println!("{trials} trials on a card that breaks at trial {at}: {:.1?}", begun.elapsed());
        let log = machine.text("card/log");
        let begins = |who: &str, how: &str| {
            log.lines().filter(|line| line.ends_with(how) && line.starts_with(who)).count()
        };
        let checks = (begins("check", " begins"), begins("check", " begins-on-a-broken-card"));
        let ran = log.lines().filter(|line| line.ends_with(" begins")).count() - checks.0;
        let left = format!("stopped: {ran} of {trials} trials finished");
        let wrong = (ran, checks) != (at + 1, (1, 1)) || !said.contains(&left);
        let _ = fs::remove_dir_all(&machine.folder);
        if wrong { Err(format!("{ran} trials ran, checks: {checks:?}\n{said}")) } else { Ok(()) }
    }

    /// Runs the command twice at the same time, on a machine with two cards. Two trials must never use a card at the
    /// same time, and both cards must be used.
    pub(crate) fn two_runs(&self, trials: usize) -> Result<(), String> {
        let fates = vec![model::HEALTHY; trials];
        let machine = self.machine("two-runs", 2, &fates);
        let start = |record: &&str| {
            let mut run = machine.run(record, false);
            run.stdout(Stdio::piped()).stderr(Stdio::piped());
            run.spawn().map_err(|e| format!("{run:?} does not start: {e}"))
        };
        let runs = ["one", "other"].iter().map(start).collect::<Result<Vec<_>, _>>()?;
        for run in runs {
            let output = run.wait_with_output().map_err(|e| e.to_string())?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if !output.status.success() || !said.contains(&format!("{trials} passed")) {
                return Err(format!("{}\n{said}{output:?}", output.status));
            }
        }
        let log = machine.text("card/log");
        if log.contains("is-not-alone") {
            return Err(format!("two trials used the same card at the same time\n{log}"));
        }
        let used: Vec<usize> = ["0000:03:00.0", "0000:43:00.0"]
            .iter()
            .map(|card| {
                let on = format!("\"bdf\":\"{card}\"");
                ["one", "other"]
                    .iter()
                    .map(|record| machine.text(record).matches(&on).count())
                    .sum()
            })
            .collect();
        let _ = fs::remove_dir_all(&machine.folder);
        // A record contains the address of its card twice: from the HIP runtime, and from the files of the driver.
        let right = used.iter().sum::<usize>() == 4 * trials && used.iter().all(|n| *n > 0);
        if right { Ok(()) } else { Err(format!("addresses of each card in the records: {used:?}")) }
    }

    /// Runs trials on two cards. One card is broken from the start: `how` is `lost` or `hangs`. The broken card must
    /// not be used, and no trial may fail because of the broken card.
    pub(crate) fn dead_from_the_start(&self, how: &str) -> Result<(), String> {
        let fates = vec![model::HEALTHY; TRIALS];
        let machine = self.machine(&format!("dead-{how}"), 2, &fates);
        let dead = "0000:43:00.0";
        fs::write(machine.at(&format!("card/broken-{dead}")), how).expect("the folder is writable");
        let (code, said) = match start(&machine, false)? {
            CommandEnd::With(code, said) => (code, said),
            CommandEnd::Killed(why) => return Err(format!("requested kill: {why}")),
        };
        let left_out =
            format!("no further trial runs on {dead}: the GPU did not pass the health check");
        let right = code == 0
            && said.contains(&left_out)
            && said.contains("0000:03:00.0 passed it with the same stack")
            && said.contains(&format!("{TRIALS} passed"));
        let _ = fs::remove_dir_all(&machine.folder);
        if right { Ok(()) } else { Err(format!("exit code {code}\n{said}")) }
    }

    /// Leaves a process running on a card, and this process cannot be killed. Until it has ended, the next command must
    /// not use the card either.
    pub(crate) fn keep_stuck_process(&self) -> Result<(), String> {
        let fates = [model::trial_with_action("holds-and-works"), model::HEALTHY];
        let machine = self.machine("held", 1, &fates);
        let run = |record: &str, trial: usize| {
            let mut run = machine.run(record, false);
            run.arg(format!("card/t[n={trial}]"));
            let output = run.output().map_err(|e| format!("{run:?} does not start: {e}"))?;
            let said = [output.stdout, output.stderr].concat();
            Ok::<_, String>((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
        };
        let holder = HoldingProcess::new(&machine);
        let begun = run("one", 0)?;
        let closed = run("two", 1)?;
        drop(holder);
        let _ = fs::remove_file(machine.at("card/hold"));
        processes::kill_leftovers(&machine.folder);
        let open = run("three", 1)?;
        let log = machine.text("card/log");
        let right = begun.0 == Some(1)
            && closed.0 == Some(3)
            && closed.1.contains("could not be killed and still exists")
            && open.0 == Some(0)
            && !log.contains("is-not-alone");
        let _ = fs::remove_dir_all(&machine.folder);
        let told = || format!("{begun:?}\n{closed:?}\n{open:?}\n{log}");
        if right { Ok(()) } else { Err(told()) }
    }

    fn machine(&self, name: &str, cards: usize, fates: &[&PlannedTrial]) -> SimulatedMachine<'_> {
        let parts = self.parts.get_or_init(|| MachineParts::make(self.program.clone()));
        let actions: Vec<&str> = fates.iter().map(|fate| fate.action).collect();
        SimulatedMachine::new(parts, name, cards, &actions)
    }

    /// Starts the command repeatedly until the run is complete. Reboots the simulated machine after a card has broken,
    /// and after a simulated crash.
    fn run_until_complete(&self, name: &str, drawn: &RunPlan) -> Result<(), String> {
        let RunPlan { trials: fates, repairs: mends, cards } = drawn;
        let mends = *mends;
        let mut machine = self.machine(name, *cards, fates);
        let told = |why: String, machine: &SimulatedMachine<'_>| {
            let actions: Vec<&str> = fates.iter().map(|fate| fate.action).collect();
            let said = machine.text("out");
            let log = machine.text("card/log");
            format!(
                "{why}\nactions: {actions:?}, mends: {mends}, cards: {cards}\n--- card log:\n{log}--- output:\n{said}"
            )
        };
        let mut over = None;
        for _ in 0..MAX_STARTS {
            match start(&machine, mends).map_err(|why| told(why, &machine))? {
                CommandEnd::Killed(why) => {
                    if why == "reboots" {
                        machine.boot();
                    }
                }
                CommandEnd::With(code, said) if said.contains("no further trial was started") => {
                    check_stopped_run(code, &said, &machine, fates, mends)
                        .map_err(|why| told(why, &machine))?;
                    machine.boot();
                }
                CommandEnd::With(code, _) => {
                    over = Some(code);
                    break;
                }
            }
        }
        let code = over.ok_or_else(|| told("the run never completed".to_owned(), &machine))?;
        check_complete_run(code, &machine, fates, mends).map_err(|why| told(why, &machine))?;
        let _ = fs::remove_dir_all(&machine.folder);
        Ok(())
    }
}

/// Starts the command and waits for its end. Kills the command if the simulated card requests that. If `mends` is true,
/// the command has a recovery command that repairs a card (`--recover`).
fn start(machine: &SimulatedMachine<'_>, mends: bool) -> Result<CommandEnd, String> {
    let out = File::create(machine.at("out")).expect("the folder is writable");
    let mut command = machine.run("record", mends);
    command.stderr(out.try_clone().expect("a descriptor")).stdout(out);
    let holder = HoldingProcess::new(machine);
    let mut child = command.spawn().map_err(|e| format!("{command:?} does not start: {e}"))?;
    let until = Instant::now() + RUN_TIMEOUT;
    let (wants, mut wanted) = (machine.at("card/wants"), None);
    let status = loop {
        if let Ok(Some(status)) = child.try_wait() {
            break status;
        }
        if wanted.is_none() && wants.exists() {
            // The card creates the file first and then writes the whole text at once, so the file may still be empty.
            let text = machine.text("card/wants");
            if !text.is_empty() {
                wanted = Some(text);
                let _ = fs::remove_file(&wants);
                child.kill().map_err(|e| e.to_string())?;
            }
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the command still ran after {} s", RUN_TIMEOUT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // After this, the process that could not be killed can end.
    drop(holder);
    let _ = fs::remove_file(machine.at("card/hold"));
    let left = processes::kill_leftovers(&machine.folder);
    if !left.is_empty() {
        return Err(format!("left behind: {}", left.join("\n")));
    }
    match (wanted, status.code()) {
        (Some(why), None) if status.signal() == Some(9) => Ok(CommandEnd::Killed(why)),
        (None, Some(code)) => Ok(CommandEnd::With(code, machine.text("out"))),
        (wanted, _) => Err(format!("it ended with {status}, and the card requested {wanted:?}")),
    }
}

/// A process that keeps another process from ending until this value is dropped.
struct HoldingProcess(Child);

impl HoldingProcess {
    fn new(machine: &SimulatedMachine<'_>) -> HoldingProcess {
        let mut command = Command::new(machine.holder());
        command.arg(machine.at("card/hold")).stdin(Stdio::piped()).stdout(Stdio::null());
        // `kill_leftovers` finds the processes of a run by their working directory. This process belongs to the test,
        // so it must have another working directory.
        HoldingProcess(
            command.env_clear().current_dir("/").spawn().expect("the program can be started"),
        )
    }
}

impl Drop for HoldingProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Checks the output of a run that stopped early. The output must state that the card is broken, and which trial broke
/// it.
fn check_stopped_run(
    code: i32,
    said: &str,
    machine: &SimulatedMachine<'_>,
    fates: &[&PlannedTrial],
    mends: bool,
) -> Result<(), String> {
    if code != 1 && code != 3 {
        return Err(format!("the command stopped with exit code {code}"));
    }
    let log = machine.text("card/log");
    let last = |words: &[&str]| {
        let broke = |line: &&str| words.iter().any(|word| line.ends_with(word));
        log.lines().rfind(broke).and_then(|line| line.split(' ').next()).map(str::to_owned)
    };
    let culprit = last(&[" poisons", " loses", " cannot-be-killed", " holds-and-works"]);
    let Some(culprit) = culprit else {
        return Err("the command stopped, although nothing broke the card".to_owned());
    };
    let number: usize = culprit.parse().map_err(|_| format!("`{culprit}` is not a trial"))?;
    let told = fates[number];
    if mends && !told.cannot_be_killed() {
        return Err("the command stopped, although the card was repaired".to_owned());
    }
    let blamed = format!("`card/t[n={culprit}]` of run ");
    let others = said.matches("the suspected cause is").count();
    match said.lines().filter(|line| line.contains(&blamed)).count() {
        0 => Err(format!("the output does not name trial {culprit} as the suspect")),
        _ if others == 0 => Err("the output names no suspect".to_owned()),
        _ => Ok(()),
    }
}

/// Checks the records of a complete run: each trial has one record, with the planned result, and no trial is wrongly
/// suspected.
fn check_complete_run(
    code: i32,
    machine: &SimulatedMachine<'_>,
    fates: &[&PlannedTrial],
    mends: bool,
) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut records: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in machine.text("record").lines() {
        // If the command was killed, its last line may be incomplete.
        let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
        if record["verdict"]["kind"].is_string() {
            records.entry(word(&record["trial"])).or_default().push(record);
        }
    }
    let log = machine.text("card/log");
    if log.contains("is-not-alone") {
        wrong.push("two processes used the same card at the same time".to_owned());
    }
    for (n, fate) in fates.iter().enumerate() {
        let name = format!("card/t[n={n}]");
        let begins = log.lines().filter(|line| *line == format!("{n} begins")).count();
        if begins != fate.begins {
            wrong.push(format!("{name}, which {}, began {begins} times", fate.action));
        }
        if log.contains(&format!("\n{n} begins-on-a-broken-card")) {
            wrong.push(format!("{name} ran on a broken card"));
        }
        let held = records.remove(&name).unwrap_or_default();
        let [record] = held.as_slice() else {
            wrong.push(format!("{name}, which {}, has {} records", fate.action, held.len()));
            continue;
        };
        let said = (word(&record["verdict"]["kind"]), word(&record["outcome"]["signature"]));
        if !fate.allows(&said.0, &said.1) {
            let wanted = fate.words();
            wrong.push(format!(
                "{name}, which {}, has {said:?} and must have {wanted}",
                fate.action
            ));
        }
        if let Some(why) = check_gpu_report(record, fate, &name, mends) {
            wrong.push(why);
        }
        let counted = record["device"]["errors"].as_array().is_some_and(|all| !all.is_empty());
        if counted != fate.action.starts_with("counts") {
            wrong.push(format!(
                "{name}, which {}, has the device errors {}",
                fate.action, record["device"]["errors"]
            ));
        }
    }
    wrong.extend(records.keys().map(|name| format!("a record of {name}, which was not planned")));
    let any = |verdict: &str| fates.iter().any(|fate| fate.verdict == verdict);
    let wanted = if any("news-fail") {
        1
    } else if any("no-verdict") {
        3
    } else {
        0
    };
    if code != wanted {
        wrong.push(format!("the exit code is {code} and must be {wanted}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Checks what a record reports about the card after the trial. `mends` is true if the run can repair a card. Returns a
/// description of the mistake; `None` if the report is right.
fn check_gpu_report(
    record: &Value,
    fate: &PlannedTrial,
    name: &str,
    mends: bool,
) -> Option<String> {
    let after = word(&record["gpu_after"]);
    let lost = fate.verdict == "no-verdict" && fate.action != "counts-and-fails";
    let right = match fate.verdict {
        "pass" => after.is_empty(),
        // The command was killed before the trial ended, so there was no health check.
        _ if lost => after.is_empty(),
        _ if fate.is_killed_in_check() => after.starts_with("unknown: the run was interrupted"),
        _ if !fate.breaks => after == "it worked: the health check passed",
        _ if mends && !fate.cannot_be_killed() => {
            after.starts_with("it did not work: the health check passed only after `sh -c ")
        }
        _ => {
            after.contains(&format!("`{name}` of run ")) && after.contains("the suspected cause is")
        }
    };
    (!right).then(|| format!("{name}, which {}: wrong card report: {after:?}", fate.action))
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
