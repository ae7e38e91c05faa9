//! One run with everything around it: planted, run, looked at.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::Value;

use crate::{
    expect::Expect,
    files::{differences, look},
    live::{self, Live},
    row::Row,
    scene::Scene,
    tools::Tools,
};

/// No row takes so long on a machine that does other things as well.
const LONGEST: Duration = Duration::from_secs(300);
/// More than anybody reads.
const MOST_OUTPUT: u64 = 4 << 20;

/// Why nothing was run.
pub(crate) enum NotPlayed {
    /// This machine lacks what is needed.
    Impossible(String),
    /// Two rows want different things of the same kind.
    Conflict,
}

/// What a run gave.
pub(crate) struct Played {
    /// As rows write it; see [`crate::row::row`].
    pub(crate) answer: String,
    /// What no run may do, whatever was planted.
    wrong: Vec<String>,
    said: String,
    command: String,
}

impl Played {
    /// What is wrong with it, if anything is.
    pub(crate) fn against(mut self, expect: &Expect) -> Option<String> {
        if !expect.allows(&self.answer) {
            let wanted = expect.any.all().join(" or ");
            self.wrong.insert(0, format!("the answer is `{}` and must be {wanted}", self.answer));
        }
        for text in expect.says.iter().filter(|text| !self.said.contains(**text)) {
            self.wrong.push(format!("it does not say {text:?}"));
        }
        for text in expect.hides.iter().filter(|text| self.said.contains(**text)) {
            self.wrong.push(format!("it says {text:?}"));
        }
        (!self.wrong.is_empty()).then(|| {
            let said: String = self.said.chars().take(6000).collect();
            format!("{}\n{}\n--- said:\n{said}", self.wrong.join("\n"), self.command)
        })
    }
}

/// Plants rows together and runs; the error says why that cannot be done.
pub(crate) fn play(tools: &Tools, rows: &[&Row]) -> Result<Played, NotPlayed> {
    let mut scene = Scene::new(tools);
    rows.iter().for_each(|row| (row.plant)(&mut scene));
    let reason = scene.impossible.take().map(NotPlayed::Impossible);
    if let Some(reason) = scene.conflict.then_some(NotPlayed::Conflict).or(reason) {
        let _ = fs::remove_dir_all(&scene.folder);
        return Err(reason);
    }
    let before = look(&scene.folder);
    let mut command = command(&scene);
    let told = shell(&scene, &command);
    let mut wrong = Vec::new();
    let mut ended = None;
    for _ in 0..scene.times {
        let streams = [scene.folder.join("out"), scene.folder.join("err")];
        command.stdout(File::create(&streams[0]).expect("the folder is ours"));
        command.stderr(File::create(&streams[1]).expect("the folder is ours"));
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?} does not start: {e}"));
        ended = watch(child, &mut scene, &mut wrong);
    }
    let out = text(&scene, "out");
    let err = text(&scene, "err");
    wrong.extend(live::left_of(&scene.folder).into_iter().map(|p| format!("left behind: {p}")));
    let mut allowed = vec![scene.record(), scene.folder.join("out"), scene.folder.join("err")];
    allowed.push(scene.folder.join("cache"));
    allowed.append(&mut scene.outputs);
    wrong.extend(differences(&before, &look(&scene.folder), &allowed));
    let records = records(&scene, &mut wrong);
    let answer = answer(ended, &records, &mut wrong);
    let said = format!("{out}\n{err}");
    always_wrong(&said, &mut wrong);
    let looks = std::mem::take(&mut scene.afterwards);
    wrong.extend(looks.into_iter().filter_map(|look| look(&said)));
    let _ = fs::remove_dir_all(&scene.folder);
    Ok(Played { answer, wrong, said, command: told })
}

fn command(scene: &Scene<'_>) -> Command {
    let mut words = scene.before.clone();
    words.push(scene.tools.program.clone().into());
    words.extend(scene.arguments());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(scene.folder.join("work"));
    command.env_clear().envs(scene.environment()).stdin(Stdio::null());
    command
}

/// What a person types to see the same.
fn shell(scene: &Scene<'_>, command: &Command) -> String {
    let variables: Vec<String> =
        scene.environment().iter().map(|(name, value)| format!("{name:?}={value:?}")).collect();
    format!("env -i {} {command:?}", variables.join(" "))
}

/// Waits for the end of the command and does meanwhile what rows ask for. None where it had to be ended.
fn watch(mut child: Child, scene: &mut Scene<'_>, wrong: &mut Vec<String>) -> Option<ExitStatus> {
    let pid = Pid::from_child(&child);
    let during = scene.take_during();
    during.into_iter().for_each(|action| action(&Live { pid, folder: &scene.folder }));
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

fn text(scene: &Scene<'_>, name: &str) -> String {
    let path = scene.folder.join(name);
    match fs::metadata(&path) {
        Ok(data) if data.len() > MOST_OUTPUT => format!("{} bytes of output", data.len()),
        _ => String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned(),
    }
}

/// The records of trials that ended.
fn records(scene: &Scene<'_>, wrong: &mut Vec<String>) -> Vec<Value> {
    let text = fs::read(scene.record()).unwrap_or_default();
    let mut records = Vec::new();
    for line in String::from_utf8_lossy(&text).lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(record) if record["verdict"]["kind"].is_string() => records.push(record),
            // Others say that a trial began.
            Ok(_) => {}
            Err(error) => wrong.push(format!("a line of the record is no JSON ({error}): {line}")),
        }
    }
    records
}

/// The answer as rows write it. Exit code and records must agree.
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
    // Trouble of the command itself, such as a record that cannot be written, comes on top.
    if records.len() == 1 && code != wanted && code != 3 {
        wrong.push(format!("the record says {verdict} and the exit code is {code}"));
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

/// What is wrong whatever was planted.
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
