//! Measures the memory of the harness during a long run, and its processor time per trial. For comparison, also
//! measures other test runners that start a process for each test. Processor time is measured because it depends little
//! on how busy the machine is.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult};

const TRIALS: u32 = 10_000;

/// Number of tests that the other runners run. Their time per test does not depend on this number.
const TESTS: u32 = 1000;

/// Maximum growth of the harness's memory after the first tenth of the run, in KB.
const MAX_GROWTH_KB: u64 = 20 << 10;

const CASE: &str = "\
title: The device has nothing to do
source: [this measurement]
steps:
  - sync: device
faults: [call.denied]
";

#[derive(Default)]
struct ResourceUsage {
    /// Processor time of the measured program itself. The field `children` contains the processor time of its child
    /// processes.
    own: Duration,
    children: Duration,
    wall: Duration,
    /// Samples of the program's memory in the order of time, in KB.
    memory: Vec<u64>,
}

/// Measures rocrepro and the other runners, and prints a table.
///
/// # Errors
/// Fails if the memory of rocrepro grows by more than [`MAX_GROWTH_KB`].
pub(crate) fn night(sh: &Shell, trials: Option<&String>) -> TaskResult {
    let trials = trials.map_or(Ok(TRIALS), |text| text.parse())?;
    let folder = sh.current_dir().join("target/night");
    fs::create_dir_all(&folder)?;
    cmd!(sh, "cargo build --release --quiet --locked -p rocrepro").run()?;
    let program = sh.current_dir().join(crate::target_folder()).join("release/rocrepro");
    cmd!(sh, "{program} rocm fetch {STACK}").run()?;

    println!("milliseconds per test         own  children  wall");
    print_row("Command::status in a loop", TESTS, &measure_spawn()?);
    let (mimic, nextest) = measure_other_harnesses(sh, &folder)?;
    print_row("libtest-mimic", TESTS, &mimic);
    print_row("cargo nextest", TESTS, &nextest);
    let taken = run(&program, &folder, trials)?;
    print_row("rocrepro run", trials, &taken);

    let after_a_tenth = taken.memory.get(taken.memory.len() / 10).copied().unwrap_or_default();
    let most = taken.memory.iter().copied().max().unwrap_or_default();
    println!(
        "memory of `rocrepro run`: {after_a_tenth} KB after a tenth of the run, at most {most} KB"
    );
    match most - after_a_tenth > MAX_GROWTH_KB {
        true => {
            Err(format!("the memory of `rocrepro run` grew by more than {MAX_GROWTH_KB} KB").into())
        }
        false => Ok(()),
    }
}

fn print_row(name: &str, tests: u32, taken: &ResourceUsage) {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0 / f64::from(tests);
    let (own, children, wall) = (ms(taken.own), ms(taken.children), ms(taken.wall));
    println!("{name:25}  {own:6.2}  {children:8.2}  {wall:4.2}");
}

/// Measures how long it takes to start processes that do nothing, which is a lower bound for the time per test.
fn measure_spawn() -> Result<ResourceUsage, Box<dyn Error>> {
    let (begun, before) = (Instant::now(), cpu_times("self")?);
    for _ in 0..TESTS {
        Command::new("/bin/true").status()?;
    }
    let after = cpu_times("self")?;
    let (own, children) = (after.0 - before.0, after.1 - before.1);
    Ok(ResourceUsage { own, children, wall: begun.elapsed(), memory: Vec::new() })
}

fn run(program: &Path, folder: &Path, trials: u32) -> Result<ResourceUsage, Box<dyn Error>> {
    let (case, record) = (folder.join("case.yaml"), folder.join("record.jsonl"));
    fs::write(&case, CASE)?;
    if record.exists() {
        fs::remove_file(&record)?;
    }
    let on = ["run", "--rocm", STACK, "--device", "emulated", "--gfx", "gfx1151", "--cases-from"];
    let mut command = Command::new(program);
    command.args(on).arg(case).args(["--repeat", &trials.to_string(), "--record"]).arg(record);
    measure(command.stdout(Stdio::null()))
}

/// Measures libtest-mimic and nextest with [`TESTS`] tests each. A test for libtest-mimic starts a process. A test for
/// nextest is empty, because nextest itself starts a process for each test.
fn measure_other_harnesses(
    sh: &Shell,
    folder: &Path,
) -> Result<(ResourceUsage, ResourceUsage), Box<dyn Error>> {
    let folder = folder.join("others");
    fs::create_dir_all(folder.join("tests"))?;
    // This makes cargo select the same versions of the dependencies as in this project.
    sh.copy_file("Cargo.lock", &folder)?;
    let manifest = "[package]\nname = \"others\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = \"lib.rs\"\n\
                    [dev-dependencies]\nlibtest-mimic = \"0.8.2\"\n[[test]]\nname = \"mimic\"\nharness = false\n";
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("lib.rs"), "")?;
    let mimic = format!(
        "fn main() {{ use libtest_mimic::*; let test = |n| Trial::test(format!(\"t{{n}}\"), || \
         {{ std::process::Command::new(\"/bin/true\").status()?; Ok(()) }}); \
         run(&Arguments::from_args(), (0..{TESTS}).map(test).collect()).exit(); }}\n"
    );
    fs::write(folder.join("tests/mimic.rs"), mimic)?;
    let empty: String = (0..TESTS).map(|n| format!("#[test] fn t{n}() {{}}\n")).collect();
    fs::write(folder.join("tests/empty.rs"), empty)?;
    let _in = sh.push_dir(&folder);
    let built = cmd!(sh, "cargo test --no-run --test mimic --message-format=json").read()?;
    let built = built.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mimic: Option<PathBuf> = built
        .filter_map(|line: serde_json::Value| Some(line["executable"].as_str()?.into()))
        .next();
    let mut mimic = Command::new(mimic.ok_or("cargo built no test program")?);
    let mimic = measure(mimic.arg("--quiet").stdout(Stdio::null()))?;
    cmd!(sh, "cargo nextest run --no-run --test empty").quiet().run()?;
    let mut nextest = Command::new("cargo");
    nextest.args(["nextest", "run", "--test", "empty"]).current_dir(&folder);
    let nextest = measure(nextest.stderr(Stdio::null()))?;
    Ok((mimic, nextest))
}

/// Runs a program, and samples its processor time and its memory repeatedly until it ends.
fn measure(command: &mut Command) -> Result<ResourceUsage, Box<dyn Error>> {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let mut taken = ResourceUsage::default();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let id = child.id().to_string();
        // The program may end between the two queries.
        if let (Ok((own, children)), Some(memory)) = (cpu_times(&id), memory(&id)) {
            (taken.own, taken.children) = (own, children);
            taken.memory.push(memory);
        }
        sleep(Duration::from_millis(20));
    };
    taken.wall = begun.elapsed();
    match status.success() {
        true => Ok(taken),
        false => Err(format!("{command:?} ended with {status}").into()),
    }
}

/// Returns the processor times of a process and of its reaped children (proc_pid_stat(5)).
fn cpu_times(process: &str) -> Result<(Duration, Duration), Box<dyn Error>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the process, in parentheses, may contain spaces.
    let fields = stat.rsplit_once(')').ok_or("/proc/PID/stat contains no name")?.1;
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(11).take(4).map(str::parse).collect::<Result<_, _>>()?;
    let [user, system, children_user, children_system] = ticks[..] else {
        return Err("/proc/PID/stat has too few fields".into());
    };
    // Linux reports processor times in ticks of 10 ms.
    let time = |ticks: u64| Duration::from_millis(10 * ticks);
    Ok((time(user + system), time(children_user + children_system)))
}

/// Returns the private memory of a process, in KB.
fn memory(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse().ok()
}
