//! Kills runs by SIGKILL at random moments and resumes them. In the end, the record file contains each trial once, with
//! the same result as in an undisturbed run.
//!
//! `cargo test -p rocrepro --features long-tests --test cli killed_runs:: -- --nocapture` kills 100 times.
//! ROCREPRO_KILLED_SEED sets the seed that determines the moments.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::common::rocrepro;

const KILLS: usize = if cfg!(feature = "long-tests") { 100 } else { 3 };
/// Number of runs of each trial, so that a run is long enough for all kills.
const REPEAT: &str = if cfg!(feature = "long-tests") { "4" } else { "1" };
/// Names of cases: trials that pass, and some expected failures.
const CASES: [&str; 2] = ["copies/small-sizes", "capture/unjoined-fork"];

/// Verdicts and signatures of each trial, by its number and id.
type Ends = BTreeMap<(u64, String), Vec<(String, String)>>;

fn run(record: &Path, resume: bool) -> Command {
    let mut command = rocrepro(&["run", "--rocm", "debian:7.2.4", "--device", "emulated"]);
    command.args(CASES).args(["--gfx", "gfx1151", "--repeat", REPEAT, "--jobs", "2", "--record"]);
    command.arg(record).args(resume.then_some("--resume"));
    command
}

fn about(what: &str, record: &Path) -> Output {
    rocrepro(&[what]).arg(record).output().expect("it starts")
}

/// Returns the complete lines of a record file.
fn lines(record: &Path) -> Vec<serde_json::Value> {
    // If the run was killed before it created the file, the file does not exist.
    let text = fs::read_to_string(record).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn word(value: &serde_json::Value) -> String {
    value.as_str().expect("a word").to_owned()
}

fn trial(line: &serde_json::Value) -> (u64, String) {
    (line["number"].as_u64().expect("a number"), word(&line["trial"]))
}

fn ends(lines: &[serde_json::Value]) -> Ends {
    let mut ends = Ends::new();
    for line in lines.iter().filter(|line| line["verdict"].is_object()) {
        let end = (word(&line["verdict"]["kind"]), word(&line["outcome"]["signature"]));
        ends.entry(trial(line)).or_default().push(end);
    }
    ends
}

/// Returns the trials that began and have no record. Trials of runs that a later, resuming run declared as ended are
/// left out.
fn under_way(lines: &[serde_json::Value]) -> Vec<String> {
    let ends = ends(lines);
    let over = |run: &serde_json::Value| {
        lines.iter().any(|line| line["over"].is_string() && line["run"] == *run)
    };
    let begun = lines.iter().filter(|line| line["begun"].is_string() && !over(&line["run"]));
    let begun = begun.map(trial);
    let begun: BTreeMap<_, _> = begun.filter(|trial| !ends.contains_key(trial)).collect();
    let mut names: Vec<String> = begun.into_values().collect();
    names.sort();
    names
}

/// Returns the trials that `rocrepro records unfinished` lists, and checks that their processes have ended.
fn printed(record: &Path) -> Vec<String> {
    let output = about("unfinished", record);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter(|line| !line.starts_with(' '));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    assert_eq!(text.matches("never finished: its process ").count(), names.len(), "{output:?}");
    assert_eq!(output.status.code(), Some(if names.is_empty() { 0 } else { 3 }), "{output:?}");
    names.sort();
    names
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// The processes to which a test sends SIGKILL.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// The process that runs the trials.
    Runner,
    /// The runner's process group, as a shell or a batch system kills it.
    Group,
    /// The runner and all its descendants, as the end of a container kills them.
    Everybody,
}

fn kill(mut child: Child, victim: Victim) {
    let runner = Pid::from_child(&child);
    match victim {
        Victim::Runner => kill_process(runner, Signal::KILL),
        Victim::Group => kill_process_group(runner, Signal::KILL),
        Victim::Everybody => {
            // The runner is stopped first. Otherwise it could record the death of its workers before it is killed
            // itself.
            kill_process(runner, Signal::STOP).expect("it is there");
            for one in descendants(runner) {
                let _ = kill_process(one, Signal::KILL);
            }
            kill_process(runner, Signal::KILL)
        }
    }
    .expect("it is there");
    child.wait().expect("it ends");
}

fn descendants(of: Pid) -> Vec<Pid> {
    let of = of.as_raw_nonzero();
    let tasks = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: String = children.collect::<Vec<_>>().join(" ");
    let children = children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    children.flat_map(|child| descendants(child).into_iter().chain([child])).collect()
}

/// Waits until the file has `lines` more lines, and then for the time `while_`. Returns true if the run is still alive.
/// Waiting for lines ensures progress also on slow machines.
fn lives(child: &mut Child, record: &Path, lines: u64, while_: Duration) -> bool {
    let count = || fs::read(record).map_or(0, |text| text.split(|byte| *byte == b'\n').count());
    let wanted = count() + lines as usize;
    while count() < wanted {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        sleep(Duration::from_millis(2));
    }
    sleep(while_);
    child.try_wait().expect("a child").is_none()
}

#[test]
fn resumes_killed_runs_without_loss() {
    let seed =
        std::env::var("ROCREPRO_KILLED_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut draw = Draw(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let whole = run(&at("whole"), false).output().expect("it starts");
    assert!(whole.status.success(), "{whole:?}");
    let whole = ends(&lines(&at("whole")));
    assert!(whole.len() > KILLS && whole.values().all(|ends| ends.len() == 1), "{whole:?}");

    let (mut kills, mut interrupted, mut files) = (0, 0, 0);
    let mut history = format!("seed {seed}:");
    // A run may finish before all kills are done. In that case the next run begins.
    while kills < KILLS {
        let record = at(&files.to_string());
        files += 1;
        loop {
            // If the record file exists, every round resumes the run in it.
            let resume = record.is_file();
            let mut command = run(&record, resume);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = std::os::unix::process::CommandExt::process_group(&mut command, 0)
                .spawn()
                .expect("it starts");
            if kills == KILLS {
                assert!(child.wait().expect("it ends").success(), "{history}");
                break;
            }
            let victim = [Victim::Runner, Victim::Group, Victim::Everybody][draw.below(3) as usize];
            let (more, ms) = (draw.below(7), draw.below(150));
            if !lives(&mut child, &record, more, Duration::from_millis(ms)) {
                assert!(child.wait().expect("it ends").success(), "{history}");
                break;
            }
            kill(child, victim);
            kills += 1;
            write!(history, " {victim:?} after {more} lines and {ms} ms,").expect("a String");
            if record.is_file() {
                let expected = under_way(&lines(&record));
                interrupted += expected.len();
                assert_eq!(printed(&record), expected, "{history}");
                // `records show` exits with 2 if the file contains no plan, and with 3 if trials are unfinished.
                let held = about("show", &record);
                let left = ends(&lines(&record)).len() < whole.len();
                assert!(!left || matches!(held.status.code(), Some(2 | 3)), "{held:?} {history}");
            }
        }
        assert_eq!(ends(&lines(&record)), whole, "{history}");
        assert!(printed(&record).is_empty(), "{history}");
        let held = about("show", &record);
        assert_eq!(held.status.code(), Some(0), "{held:?} {history}");
        // A finished run has nothing to resume.
        let again = run(&record, true).output().expect("it starts");
        let said = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(again.status.success() && said.contains(" 0 to run"), "{again:?} {history}");
    }
    println!(
        "seed {seed}: {kills} kills in {files} runs of {} trials, {interrupted} trials were under way",
        whole.len()
    );
}
