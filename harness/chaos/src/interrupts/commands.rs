//! The long commands, and the files that must be on disk after each of them is interrupted.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use standin::{Entry, Fake, Listing, Site, pack};

use super::{files, follow_up};
use crate::setup::{RunSetup, write_file};

/// A command that the tests interrupt.
pub(crate) struct LongCommand {
    pub(crate) name: &'static str,
    /// Usual duration of the command. The time of the interruption is drawn between 0 and this duration.
    pub(crate) usual: Duration,
    pub(crate) set_up: fn(&mut RunSetup<'_>),
    /// Exit code of the command if it completes its work before the signal.
    pub(crate) code: i32,
    /// Exit code of the command if it is interrupted.
    pub(crate) interrupted: i32,
    /// Returns the mistakes in the files after the interruption. The second argument is the standard error of the
    /// command.
    pub(crate) check: fn(&RunSetup<'_>, &str) -> Vec<String>,
    /// True if the ordinary tests also interrupt the command once.
    pub(crate) sample: bool,
}

const fn command(name: &'static str, usual: u64, set_up: fn(&mut RunSetup<'_>)) -> LongCommand {
    let usual = Duration::from_secs(usual);
    LongCommand { name, usual, set_up, code: 0, interrupted: 3, check: no_check, sample: true }
}

impl LongCommand {
    const fn check(mut self, check: fn(&RunSetup<'_>, &str) -> Vec<String>) -> LongCommand {
        self.check = check;
        self
    }

    const fn long(mut self) -> LongCommand {
        self.sample = false;
        self
    }

    /// Sets the exit code that is accepted in addition to `interrupted` to 1, because a Python that is interrupted
    /// while it starts exits with 1.
    const fn python(mut self) -> LongCommand {
        self.code = 1;
        self
    }

    /// Changes the exit code after an interruption to 5. The command `bisect` uses 3 for another result: an end of the
    /// search does not behave as requested.
    const fn bisect(mut self) -> LongCommand {
        self.interrupted = 5;
        self
    }
}

/// A Python program that copies bytes and checks them.
const PROGRAM: &str = r#"import ctypes
import rocrepro

hip = ctypes.CDLL("libamdhip64.so")
n = ctypes.c_size_t(4096)
right = (bytes(i * 7 % 251 + 1 for i in range(251)) * 17)[:4096]
device, back = ctypes.c_void_p(), ctypes.create_string_buffer(b"\xa5" * 4096, 4096)
rocrepro.must(hip.hipMalloc(ctypes.byref(device), n))
rocrepro.must(hip.hipMemcpy(device, right, n, 1))
rocrepro.must(hip.hipMemcpy(back, device, n, 2))
rocrepro.equal("back", back.raw, right)
rocrepro.done()
"#;

/// A Python program that hangs and ignores SIGTERM.
const IGNORING_PROGRAM: &str = r#"import ctypes
import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
hip = ctypes.CDLL("libamdhip64.so")
assert hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(4096)) == 0
time.sleep(600)
"#;

/// A Python program that waits for the device.
const WAITING_PROGRAM: &str = r#"import ctypes
import time

hip = ctypes.CDLL("libamdhip64.so")
device = ctypes.c_void_p()
for _ in range(10000):
    assert hip.hipMalloc(ctypes.byref(device), ctypes.c_size_t(4096)) == 0
    assert hip.hipFree(device) == 0
    time.sleep(0.001)
"#;

pub(crate) const COMMANDS: &[LongCommand] = &[
    command("run", 40, |s| words(s, "run copies --record record.jsonl", "")),
    command("prove", 25, |s| {
        words(s, "prove graphs/fork-join copies/tensors --record record.jsonl", "")
    }),
    command("minimise case", 8, |s| {
        words(s, "minimise graphs/fork-join --fault kernel.drop --out small", "");
    })
    .check(smaller_case),
    command("minimise program", 80, |s| {
        words(s, "minimise programs/graph-output-reused --fault kernel.drop --out small", "");
    })
    .check(shorter_program)
    .long(),
    command("mitigate", 20, |s| {
        words(s, "mitigate copies/tensors[bytes=262144] --fault sdma.zero --out found", "");
    }),
    command("bisect axis", 40, |s| {
        words(s, "bisect graphs/long-chain --axis nodes=200..30000 --out out", "");
    })
    .bisect(),
    command("bisect releases", 30, |s| {
        let trial = "capture/synchronous-copy-on-stream[mode=global,direction=to_device]";
        let ends = "--good debian:7.2.4 --bad debian:5.2.3 --fixed";
        line(s, &format!("bisect {trial} {ends} --out out --device emulated --gfx gfx90a"), "");
    })
    .bisect()
    .long(),
    command("bisect command", 20, bisect_builds).bisect(),
    command("report case", 60, |s| {
        words(s, "report copies/small-sizes --fault copy.zero --out out", "");
    })
    .check(report),
    command("report program", 30, |s| {
        program(s, PROGRAM);
        words(s, "report --fault copy.zero --out out", "-- python3 program.py");
    })
    .check(report)
    .long(),
    command("exec --report", 30, |s| {
        program(s, PROGRAM);
        words(s, "exec --report --fault copy.zero --out out", "-- python3 program.py");
    })
    .check(report)
    .long(),
    command("exec --report of a stubborn program", 20, |s| {
        program(s, IGNORING_PROGRAM);
        words(s, "exec --report --quiet-timeout 4 --out out", "-- python3 program.py");
    })
    .check(report)
    .long(),
    command("exec", 10, |s| {
        program(s, WAITING_PROGRAM);
        words(s, "exec", "-- python3 program.py");
    })
    .python(),
    command("export --verify", 15, |s| {
        words(s, "export copies/tensors --fault copy.zero --verify --out program.cpp", "");
    }),
    command("matrix", 15, |s| {
        let on = "--on debian:7.2.4@gfx1151,debian:7.2.4@gfx90a";
        line(s, &format!("matrix copies/small-sizes copies/tensors {on} --out page"), "");
    })
    .check(page),
    command("records merge", 3, merge).check(check_merge),
    command("records store add", 4, add_to_store).check(check_store),
    command("stack fetch", 8, fetch).check(check_fetch),
];

fn no_check(_: &RunSetup<'_>, _: &str) -> Vec<String> {
    Vec::new()
}

fn line(setup: &mut RunSetup<'_>, first: &str, last: &str) {
    setup.words = first.split(' ').map(OsString::from).collect();
    setup.more = last.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
}

fn words(setup: &mut RunSetup<'_>, first: &str, last: &str) {
    line(setup, &format!("{first} --rocm debian:7.2.4 --device emulated --gfx gfx1151"), last);
}

fn program(setup: &mut RunSetup<'_>, text: &str) {
    setup.work("program.py", text.as_bytes());
}

/// If the output reported a smaller case, checks that this case is on disk and valid.
fn smaller_case(setup: &RunSetup<'_>, said: &str) -> Vec<String> {
    let printed = files::last_number(said, &[" calls left", " call left"]);
    if printed.is_none() {
        return Vec::new();
    }
    match setup.folder.join("work/small/case.yaml").exists() {
        false => vec![format!(
            "the output states {printed:?} calls left, but small/case.yaml is missing"
        )],
        true => follow_up(setup, &["case", "check", "--cases-from", "small/case.yaml"])
            .into_iter()
            .collect(),
    }
}

/// If the output reported a shorter program, checks that this program is on disk.
fn shorter_program(setup: &RunSetup<'_>, said: &str) -> Vec<String> {
    let Some(printed) = files::last_number(said, &[" lines left", " line left"]) else {
        return Vec::new();
    };
    let path = setup.folder.join("work/small/graph-output-reused.py");
    let lines = fs::read_to_string(path).map(|text| text.lines().count());
    match lines {
        Ok(lines) if lines <= printed => Vec::new(),
        other => vec![format!("{printed} lines left, but the file has {other:?}")],
    }
}

/// If a step that improves the report had begun, checks that the report was already on disk. Returns the mistake, if
/// any. `said` is the standard error of the command.
fn report(setup: &RunSetup<'_>, said: &str) -> Vec<String> {
    let improves = ["running it as the report prints it", "running the controls"]
        .iter()
        .any(|step| said.contains(step));
    let exists = setup.folder.join("work/out/report.md").exists();
    (improves && !exists).then(|| "report.md was written too late".to_owned()).into_iter().collect()
}

fn page(setup: &RunSetup<'_>, said: &str) -> Vec<String> {
    let over = said.contains(" passed");
    let exists = setup.folder.join("work/page/index.html").exists();
    (over && !exists)
        .then(|| "a column of the page was completed, but page/index.html is missing".to_owned())
        .into_iter()
        .collect()
}

/// Sets up a bisect of builds that fail from the fourth build on. The bisected command takes a while.
fn bisect_builds(setup: &mut RunSetup<'_>) {
    let source = serve(setup, 400_000);
    let first = format!("bisect --good first --bad last --gfx gfx1151 --source {source} --out out");
    line(setup, &first, "-- sh -c");
    setup.more.push("sleep 0.3; \"$ROCREPRO_PREFIX/bin/probe\"".into());
}

fn fetch(setup: &mut RunSetup<'_>) {
    let source = serve(setup, 150_000);
    let text = format!(
        "[[source]]\nname = 'june'\nchannel = 'june'\nkind = 's3-xml'\nurl = '{}'\n",
        source.trim_start_matches("s3-xml=")
    );
    let config = setup.folder.join("home/.config/rocrepro/sources.toml");
    write_file(&config, text.as_bytes());
    line(setup, "rocm fetch june:2026-06-03 --gfx gfx1151", "");
}

/// Serves seven builds of about 1 MB each, at `speed` bytes per second. Returns the source for the command line.
fn serve(setup: &mut RunSetup<'_>, speed: usize) -> String {
    let mut site = Site::default();
    site.listing("/bucket/", Listing::S3(30)).slow(speed);
    // Data that can hardly be compressed.
    let noise = (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes());
    let noise: Vec<u8> = noise.collect();
    for n in 0..7 {
        let mut fake = Fake::new(&format!("7.15.0a2026060{}", n + 1));
        fake.conf = if n < 4 { "0".into() } else { "1000".into() };
        let mut entries = fake.entries();
        entries.push(Entry::file("lib/large", noise.clone()));
        let path = format!("/bucket/therock-dist-linux-gfx1151-{}.tar.gz", fake.version);
        site.file(&path, pack(&entries, "tar.gz"));
    }
    let server = site.serve();
    setup.own_cache();
    let state = setup.folder.join("home/state");
    write_file(&state, b"1");
    setup.variable("FAKE_STATE", state);
    let source = format!("s3-xml={}", server.url("/bucket/"));
    // The server must live until the checks of the run have ended.
    setup.afterwards(move |_| {
        drop(server);
        None
    });
    source
}

/// Checks that the same fetch succeeds after an interrupted fetch.
fn check_fetch(setup: &RunSetup<'_>, _: &str) -> Vec<String> {
    follow_up(setup, &["rocm", "fetch", "june:2026-06-03", "--gfx", "gfx1151"])
        .into_iter()
        .collect()
}

/// Number of trials in the record files that are merged or stored.
const TRIALS: usize = 20_000;

/// Writes the records of a run to `shards` files, and returns the names of the files. Each record is a copy of a record
/// of a real run.
fn records(setup: &RunSetup<'_>, shards: usize) -> Vec<String> {
    let text = setup.tools.record();
    let mut lines =
        text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let mut of =
        |field: &str| lines.find(|line| !line[field].is_null()).expect("one line has the field");
    let (mut opened, mut record) = (of("opened"), of("verdict"));
    let trials: Vec<String> = (0..TRIALS).map(|n| format!("case[n={n}]")).collect();
    let mut names = Vec::new();
    for shard in 0..shards {
        let own: Vec<usize> = (shard * TRIALS / shards..(shard + 1) * TRIALS / shards).collect();
        opened["trials"] = own.iter().map(|n| trials[*n].clone()).collect::<Vec<_>>().into();
        opened["run"] = format!("20260601T00000{shard}Z-0000000{shard}").into();
        if shards > 1 {
            opened["shard"] = serde_json::json!({"number": shard + 1, "of": shards});
        }
        let mut many = opened.to_string() + "\n";
        record["run"] = opened["run"].clone();
        for (number, n) in own.into_iter().enumerate() {
            record["number"] = number.into();
            record["trial"] = trials[n].clone().into();
            many.push_str(&(record.to_string() + "\n"));
        }
        let name = format!("part-{}.jsonl", shard + 1);
        write_file(&setup.folder.join("work").join(&name), many.as_bytes());
        names.push(name);
    }
    names
}

fn merge(setup: &mut RunSetup<'_>) {
    let names = records(setup, 4).join(" ");
    line(setup, &format!("records merge {names} --out whole.jsonl"), "");
}

/// Checks that the merged file is complete or absent.
fn check_merge(setup: &RunSetup<'_>, _: &str) -> Vec<String> {
    let Ok(text) = fs::read_to_string(setup.folder.join("work/whole.jsonl")) else {
        return Vec::new();
    };
    let records = text.lines().filter(|line| line.contains("\"verdict\":")).count();
    (records != TRIALS)
        .then(|| format!("{records} records in the merged file"))
        .into_iter()
        .collect()
}

fn add_to_store(setup: &mut RunSetup<'_>) {
    let names = records(setup, 1).join(" ");
    line(setup, &format!("records store add {names} --store results.db"), "");
}

/// Checks that the store is complete or absent, and that the records can be added to it later.
fn check_store(setup: &RunSetup<'_>, _: &str) -> Vec<String> {
    let add = ["records", "store", "add", "part-1.jsonl", "--store", "results.db"];
    let list = ["records", "store", "list", "--store", "results.db"];
    [follow_up(setup, &add), follow_up(setup, &list)].into_iter().flatten().collect()
}
