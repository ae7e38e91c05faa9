//! Runs the command once with a set of disturbances, and checks the result.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::Value;

use crate::{
    expectation::Expectation,
    folder_snapshot::{differences, snapshot},
    processes::{self, RunningCommand},
    row::Row,
    setup::RunSetup,
    shared_tools::Tools,
};

/// Maximum duration of a run. No row takes this long, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(300);
/// Maximum number of bytes of the command's output that are read.
const MOST_OUTPUT: u64 = 4 << 20;

pub(crate) enum NotRun {
    /// The machine lacks something that a row needs. The value describes it.
    Impossible(String),
    /// Two rows require different values for the same setting, for example two different stacks.
    Conflict,
}

pub(crate) struct RunOutcome {
    /// Answer that the command gave, in the format of [`crate::row::row`].
    pub(crate) answer: String,
    /// Mistakes that are never acceptable, whatever was disturbed, for example a panic.
    wrong: Vec<String>,
    said: String,
    command: String,
}

impl RunOutcome {
    /// Compares the result with the allowed answers. Returns a description of all mistakes; `None` if the result is
    /// right.
    pub(crate) fn mismatch(mut self, expect: &Expectation) -> Option<String> {
        if !expect.allows(&self.answer) {
            let wanted = expect.any.all().join(" or ");
            self.wrong.insert(0, format!("the answer is `{}` and must be {wanted}", self.answer));
        }
        for text in expect.says.iter().filter(|text| !self.said.contains(**text)) {
            self.wrong.push(format!("the output does not contain {text:?}"));
        }
        for text in expect.hides.iter().filter(|text| self.said.contains(**text)) {
            self.wrong.push(format!("the output must not contain {text:?}"));
        }
        (!self.wrong.is_empty()).then(|| {
            let said: String = self.said.chars().take(6000).collect();
            format!("{}\n{}\n--- said:\n{said}", self.wrong.join("\n"), self.command)
        })
    }
}

/// Sets up several rows together and runs the command.
///
/// # Errors
/// Fails if the rows cannot be set up together, or cannot be set up on this machine.
pub(crate) fn run_rows(tools: &Tools, rows: &[&Row]) -> Result<RunOutcome, NotRun> {
    let mut setup = RunSetup::new(tools);
    rows.iter().for_each(|row| (row.set_up)(&mut setup));
    let reason = setup.impossible.take().map(NotRun::Impossible);
    if let Some(reason) = setup.conflict.then_some(NotRun::Conflict).or(reason) {
        let _ = fs::remove_dir_all(&setup.folder);
        return Err(reason);
    }
    let before = snapshot(&setup.folder);
    let mut command = command(&setup);
    let told = shell(&setup, &command);
    let mut wrong = Vec::new();
    let mut ended = None;
    for _ in 0..setup.times {
        let streams = [setup.folder.join("out"), setup.folder.join("err")];
        command.stdout(File::create(&streams[0]).expect("the folder is writable"));
        command.stderr(File::create(&streams[1]).expect("the folder is writable"));
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?} does not start: {e}"));
        ended = watch(child, &mut setup, &mut wrong);
    }
    let out = text(&setup, "out");
    let err = text(&setup, "err");
    wrong.extend(
        processes::kill_leftovers(&setup.folder).into_iter().map(|p| format!("left behind: {p}")),
    );
    let mut allowed = vec![setup.record(), setup.folder.join("out"), setup.folder.join("err")];
    allowed.push(setup.folder.join("cache"));
    allowed.append(&mut setup.outputs);
    wrong.extend(differences(&before, &snapshot(&setup.folder), &allowed));
    let records = records(&setup, &mut wrong);
    let answer = answer(ended, &records, &mut wrong);
    let said = format!("{out}\n{err}");
    always_wrong(&said, &mut wrong);
    let looks = std::mem::take(&mut setup.afterwards);
    wrong.extend(looks.into_iter().filter_map(|look| look(&said)));
    let _ = fs::remove_dir_all(&setup.folder);
    Ok(RunOutcome { answer, wrong, said, command: told })
}

fn command(setup: &RunSetup<'_>) -> Command {
    let mut words = setup.before.clone();
    words.push(setup.tools.program.clone().into());
    words.extend(setup.arguments());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(setup.folder.join("work"));
    command.env_clear().envs(setup.environment()).stdin(Stdio::null());
    command
}

/// Returns a shell command that repeats the run.
fn shell(setup: &RunSetup<'_>, command: &Command) -> String {
    let variables: Vec<String> =
        setup.environment().iter().map(|(name, value)| format!("{name:?}={value:?}")).collect();
    format!("env -i {} {command:?}", variables.join(" "))
}

/// Executes the actions that the rows request while the command runs, and waits for the command to end. Returns `None`
/// if the command had to be killed.
fn watch(
    mut child: Child,
    setup: &mut RunSetup<'_>,
    wrong: &mut Vec<String>,
) -> Option<ExitStatus> {
    let pid = Pid::from_child(&child);
    let during = setup.take_during();
    during.into_iter().for_each(|action| action(&RunningCommand { pid, folder: &setup.folder }));
    let until = Instant::now() + LONGEST;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                wrong.push(format!("the command still ran after {} s", LONGEST.as_secs()));
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

fn text(setup: &RunSetup<'_>, name: &str) -> String {
    let path = setup.folder.join(name);
    match fs::metadata(&path) {
        Ok(data) if data.len() > MOST_OUTPUT => format!("{} bytes of output", data.len()),
        _ => String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned(),
    }
}

fn records(setup: &RunSetup<'_>, wrong: &mut Vec<String>) -> Vec<Value> {
    let text = fs::read(setup.record()).unwrap_or_default();
    let mut records = Vec::new();
    for line in String::from_utf8_lossy(&text).lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(record) if record["verdict"]["kind"].is_string() => records.push(record),
            // All other lines only state that a trial began.
            Ok(_) => {}
            Err(error) => wrong.push(format!("a line of the record is not JSON ({error}): {line}")),
        }
    }
    records
}

/// Returns the answer of the command, in the format of [`crate::row::row`]. Adds an error to `wrong` if the exit code
/// and the records disagree.
fn answer(ended: Option<ExitStatus>, records: &[Value], wrong: &mut Vec<String>) -> String {
    let Some(status) = ended else { return "endless".to_owned() };
    let Some(code) = status.code() else {
        return format!("killed by signal {}", status.signal().unwrap_or(0));
    };
    let Some(record) = records.last() else {
        return match code {
            0 => "done".to_owned(),
            1 => "news".to_owned(),
            2 => "refused".to_owned(),
            3 => "stopped".to_owned(),
            4 => "nothing".to_owned(),
            other => format!("exit code {other}"),
        };
    };
    let verdict = record["verdict"]["kind"].as_str().unwrap_or_default();
    let signature = record["outcome"]["signature"].as_str().unwrap_or_default();
    let (word, wanted) = match verdict {
        "pass" => ("pass", 0),
        "known" => ("known", 0),
        "skip" => ("skip", 4),
        "no-verdict" => ("no-verdict", 3),
        _ => ("fail", 1),
    };
    // If the command itself is in trouble, for example because a record cannot be written, the exit code becomes 3.
    if records.len() == 1 && code != wanted && code != 3 {
        wrong.push(format!("the verdict in the record is {verdict}, but the exit code is {code}"));
    }
    if verdict != "no-verdict"
        && verdict != "skip"
        && record["device"]["emulated"] != Value::Bool(true)
    {
        wrong.push("an emulated run is recorded as one on a GPU".to_owned());
    }
    if word == "pass" && code == 3 {
        return "stopped".to_owned();
    }
    if word == "pass" { "pass".to_owned() } else { format!("{word} {signature}") }
}

/// Appends to `wrong` the mistakes that are never acceptable, whatever was disturbed: a panic, or control characters in
/// the output.
fn always_wrong(said: &str, wrong: &mut Vec<String>) {
    if said.contains("thread 'main' panicked at harness/cli")
        || said.contains("thread 'main' panicked at /")
    {
        wrong.push("the command panicked".to_owned());
    }
    let control = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    if let Some(found) = said.chars().find(|&c| control(c)) {
        wrong.push(format!("a control character reaches the terminal: {found:?}"));
    }
}
