//! Makes reports about twelve failures, and checks what each report claims: runs the printed program with the printed
//! commands, and repeats the trial with each control, setting and release that the report names.

mod page;

use std::{path::Path, time::Instant};

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, build_and_fetch, frameworks, target_folder};
use page::{Page, between};

/// Time limit for making a report, in seconds.
const TIME_LIMIT: u64 = 300;

/// Maximum length of a title, which consists of a prefix and the title proper, in characters.
const MAX_TITLE_LENGTH: usize = 150;

/// Maximum number of runs to make a program fail. A program that fails in a fifth of its runs fails at least once in
/// this many runs with a probability of 99.9 %.
const MAX_RUNS: u32 = 30;

/// A failure about which a report is made.
struct ReportSubject {
    name: &'static str,
    gfx: &'static str,
    /// Arguments of `report` that select the failure.
    words: &'static [&'static str],
    /// Program of the user that the report is about, with its arguments; empty if the report is about a trial.
    command: &'static [&'static str],
}

impl ReportSubject {
    const fn new(
        name: &'static str,
        gfx: &'static str,
        words: &'static [&'static str],
    ) -> ReportSubject {
        ReportSubject { name, gfx, words, command: &[] }
    }
}

const SUBJECTS: [ReportSubject; 12] = [
    ReportSubject::new("long-chain", "gfx90a", &["graphs/long-chain[nodes=30000]"]),
    ReportSubject::new("retry", "gfx1151", &["capture/retry-after-invalidated-capture"]),
    ReportSubject::new("refused-allocation", "gfx1151", &["programs/refused-allocation"]),
    ReportSubject::new("hang", "gfx1151", &["programs/event-destroyed-under-lock"]),
    ReportSubject::new(
        "teardown",
        "gfx1151",
        &["graphs/destroyed-in-flight[destroyed=exec,words=65536]", "--fault", "teardown.crash"],
    ),
    ReportSubject::new(
        "lost-copy",
        "gfx1151",
        &[
            "copies/small-sizes[bytes=2,host=pageable,api=memcpy]",
            "--fault",
            "copy.zero,probability=0.3,seed=7",
        ],
    ),
    ReportSubject::new(
        "lost-kernel",
        "gfx1151",
        &["graphs/replay-changing-input", "--fault", "kernel.drop,probability=0.2,seed=3"],
    ),
    ReportSubject::new("wrong-data", "gfx1151", &["copies/set-rows"]),
    ReportSubject::new("missing-architecture", "gfx1151", &["programs/missing-architecture"]),
    ReportSubject::new("masked-multiply", "gfx1151", &["programs/masked-multiply"]),
    ReportSubject {
        name: "triton",
        gfx: "gfx942",
        words: &[
            "--in",
            "triton",
            "--also",
            "debian:7.2.4@gfx90a",
            "--title",
            "tl.atomic_max and tl.atomic_min of int32 compare signed numbers",
        ],
        command: &["python3", "signed_atomics.py"],
    },
    ReportSubject {
        name: "command",
        gfx: "gfx1151",
        words: &[
            "--with",
            "dev",
            "--also",
            "debian:5.7.1@gfx1100",
            "--source",
            "program.cpp",
            "--title",
            "hipMallocAsync in the null stream is refused or succeeds while another stream is captured",
        ],
        // The libraries of two major releases have different names. A compiled program therefore runs on only one of
        // the releases.
        command: &[
            "sh",
            "-c",
            "g++ -std=c++17 -D__HIP_PLATFORM_AMD__ -I/opt/rocm/include program.cpp -o program \
             -L/opt/rocm/lib -lamdhip64 && exec ./program",
        ],
    },
];

/// Shell code that defines `hipcc` if the release has none: Debian's releases of ROCm before 7 contain only the
/// compiler.
const HIPCC: &str = "command -v hipcc >/dev/null || hipcc() { $(ls /opt/rocm/bin/clang++-* | head -1) -x hip \"$@\" \
                     --rocm-path=/opt/rocm -L/opt/rocm/lib -lamdhip64; }";

/// Source of the program of the subject `command`.
const NULL_STREAM: &str = "ci/src/issues/null_stream.cpp";

/// Source of the program of the subject `triton`.
const SIGNED_ATOMICS: &str = "reports/examples/triton-signed-atomics/signed_atomics.py";

/// Makes a report about each subject, and tests the statements in the report. `only` contains the names of the
/// subjects; an empty list means all of them.
pub(crate) fn issues(sh: &Shell, only: &[String]) -> TaskResult {
    let program = build_and_fetch(sh)?;
    for release in ["debian:5.7.1", "debian:6.4.3", STACK] {
        cmd!(sh, "{program} stack fetch {release} --with dev").run()?;
    }
    let folder = sh.current_dir().join(target_folder()).join("issues");
    sh.create_dir(&folder)?;
    let chosen =
        |subject: &&ReportSubject| only.is_empty() || only.iter().any(|n| n == subject.name);
    let mut wrong = Vec::new();
    for subject in SUBJECTS.iter().filter(chosen) {
        let made = ReportTest { sh, program: &program, subject, folder: &folder };
        let found = made.report()?;
        println!("{}: {}", subject.name, if found.is_empty() { "all right" } else { "WRONG" });
        for line in found {
            println!("    {line}");
            wrong.push(format!("{}: {line}", subject.name));
        }
    }
    match wrong.as_slice() {
        [] => Ok(()),
        wrong => Err(format!("{} statements are wrong:\n{}", wrong.len(), wrong.join("\n")).into()),
    }
}

/// State for making and testing one report.
struct ReportTest<'a> {
    sh: &'a Shell,
    program: &'a Path,
    subject: &'a ReportSubject,
    folder: &'a Path,
}

/// Result of a run: the exit status as a shell reports it, and the output.
struct RunOutput {
    status: i32,
    output: String,
}

impl ReportTest<'_> {
    /// Makes the report and returns all statements that are wrong.
    fn report(&self) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let ReportSubject { name, gfx, words, command } = *self.subject;
        let here = self.sh.clone();
        here.change_dir(self.folder);
        let out = self.folder.join(name);
        here.remove_path(&out)?;
        if name == "triton" {
            frameworks::prepare(self.sh, "triton")?;
            let text = self.sh.read_file(SIGNED_ATOMICS)?;
            here.write_file("signed_atomics.py", text)?;
        }
        if name == "command" {
            here.write_file("program.cpp", self.sh.read_file(NULL_STREAM)?)?;
        }
        let program = self.program;
        let on = ["--rocm", STACK, "--device", "emulated", "--gfx", gfx];
        let dashes: &[&str] = if command.is_empty() { &[] } else { &["--"] };
        let begun = Instant::now();
        // Otherwise the report would contain the shell variables of cargo as properties of the machine.
        cmd!(here, "{program} report --out {out} {on...} {words...} {dashes...} {command...}")
            .env_remove("LD_LIBRARY_PATH")
            .ignore_stdout()
            .quiet()
            .run()?;
        let seconds = begun.elapsed().as_secs();
        println!("{name}: report after {seconds} s");
        let page = Page::read(&here.read_file(out.join("report.md"))?);
        let mut wrong = Vec::new();
        if seconds > TIME_LIMIT {
            wrong.push(format!("the report took {seconds} s"));
        }
        self.check_form(&page, &mut wrong);
        self.printed_program(&page, &mut wrong)?;
        self.check_trial(&page, &mut wrong)?;
        self.check_libraries(&page, &mut wrong)?;
        Ok(wrong)
    }

    /// Tests the form of a report: the title, and the three lines at the beginning.
    fn check_form(&self, page: &Page, wrong: &mut Vec<String>) {
        if page.title.chars().count() > MAX_TITLE_LENGTH {
            wrong.push(format!("the title has {} characters", page.title.chars().count()));
        }
        for word in ["Fails", "Passes", "What helps"] {
            if page.item(word).is_none() {
                wrong.push(format!("the list at the beginning has no item `{word}`"));
            }
        }
        if page.program.is_none() && !page.text.contains("which this report does not include") {
            wrong.push("the report contains no program".to_owned());
        }
    }

    /// Runs the printed program with the printed commands, on the failing release and on the releases on which it
    /// passes.
    fn printed_program(
        &self,
        page: &Page,
        wrong: &mut Vec<String>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let Some((file, text)) = &page.program else { return Ok(()) };
        // A fault at a host call is part of the printed program; a fault of the device is not.
        let is_planted = page.title.contains("INJECTED") && !text.contains("// Injected fault: ");
        let stated = page
            .quoted("A failing run ended with: `", "`.")
            .or_else(|| page.quoted("it failed as described: ", "."));
        let last = page.quoted("the last line of its output was `", "`");
        let mut failed = None;
        for _ in 0..if is_planted { 1 } else { MAX_RUNS } {
            let ran = self.run_program(file, text, &page.commands, STACK)?;
            if ran.status != 0 {
                failed = Some(ran);
                break;
            }
        }
        match (is_planted, failed, stated) {
            (true, None, _) => {}
            (true, Some(ran), _) => {
                wrong.push(format!("without the fault the program fails: {}", ran.output));
            }
            (false, None, _) => wrong.push("the printed program does not fail".to_owned()),
            (false, Some(_), None) => {}
            (false, Some(ran), Some(stated)) => {
                let as_stated = ends_as(&ran, stated)
                    && last.is_none_or(|last| contains_text(&ran.output, last));
                if !as_stated {
                    let RunOutput { status, output } = ran;
                    wrong.push(format!(
                        "the report states `{stated}`, but the status is {status}, and the output is: {output}"
                    ));
                }
            }
        }
        for release in passing_releases(page) {
            let ran = self.run_program(file, text, &page.commands, &release)?;
            if ran.status != 0 {
                wrong.push(format!(
                    "the program does not pass on {release}: status {}, output: {}",
                    ran.status, ran.output
                ));
            }
        }
        Ok(())
    }

    /// Repeats the trial as the report describes, then with each control, and with each setting that helps according to
    /// the report.
    fn check_trial(
        &self,
        page: &Page,
        wrong: &mut Vec<String>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let again = &page.again;
        if again.is_empty() {
            wrong.push("the report has no command that repeats the trial".to_owned());
            return Ok(());
        }
        let signature = page.quoted("Signature: `", "`.").unwrap_or_default();
        let rate = page.item("Fails").and_then(|item| between(item, "in ", " "));
        let always = rate.and_then(|rate| rate.split_once('/')).is_some_and(|(a, b)| a == b)
            && page.item("Fails").is_some_and(|item| !item.contains(" failed as described here"));
        let ran = self.repeat_command(again, if always { 2 } else { MAX_RUNS })?;
        // `exec` writes no record, so only the exit status shows how the program ended.
        let is_alike = |ran: &&TrialRun| match again.starts_with("rocrepro exec ") {
            true => ran.has_failed == Some(true),
            false => ran.signature == signature,
        };
        let alike = ran.iter().filter(is_alike).count();
        if alike == 0 || always && alike < ran.len() {
            wrong.push(format!("`{again}` does not fail as {signature}: {ran:?}"));
        }
        for (what, failed, runs) in &page.controls {
            if what == "as reported" || *failed != 0 && failed != runs {
                continue;
            }
            let Some(command) = with_control(again, what) else {
                println!("    not tested: the control `{what}`");
                continue;
            };
            let ran = self.repeat_command(&command, 2)?;
            let right = ran.iter().all(|ran| ran.has_failed == Some(*failed != 0));
            if !right {
                wrong.push(format!("the control `{what}` has {failed}/{runs} failures, but `{command}` gives {ran:?}"));
            }
        }
        for setting in mitigations(page) {
            let command = with_option(again, &setting);
            let ran = self.repeat_command(&command, 3)?;
            if ran.iter().any(|ran| ran.has_failed != Some(false)) {
                wrong.push(format!("the setting does not help: `{command}` gives {ran:?}"));
            }
        }
        Ok(())
    }

    /// Compares the stated build ids with the build ids of the files in the stack.
    fn check_libraries(
        &self,
        page: &Page,
        wrong: &mut Vec<String>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        // A Python environment has its libraries below the folder of its Python.
        let script = "p=$(command -v python3); IFS=:; for d in $LD_LIBRARY_PATH /opt/rocm/lib \
                      ${p%/bin/*}/lib/python3*/site-packages/*/_C \
                      ${p%/bin/*}/lib/python3*/site-packages/*/backends/*/lib; do for f in $d/lib*.so*; do echo \"$f $(readelf -n \
                      $f 2>/dev/null | grep 'Build ID')\"; done; done";
        let there = self.run(self.sh, STACK, script)?;
        for (name, id) in &page.libraries {
            let right = there.output.lines().any(|line| line.contains(name) && line.contains(id));
            if !right {
                wrong.push(format!("the build id of {name} is not {id}"));
            }
        }
        Ok(())
    }

    /// Builds and runs a program in an empty folder, on the given release.
    fn run_program(
        &self,
        file: &str,
        text: &str,
        commands: &[String],
        release: &str,
    ) -> Result<RunOutput, Box<dyn std::error::Error>> {
        let empty = self.sh.create_temp_dir()?;
        let here = self.sh.clone();
        here.change_dir(empty.path());
        here.write_file(file, text)?;
        let commands = commands.iter().filter(|line| !line.starts_with("pip install "));
        let commands: Vec<String> = commands.map(|line| with_libraries_of_release(line)).collect();
        self.run(&here, release, &commands.join(" && "))
    }

    /// Runs a shell command in the namespace of a release.
    fn run(
        &self,
        here: &Shell,
        release: &str,
        script: &str,
    ) -> Result<RunOutput, Box<dyn std::error::Error>> {
        let (program, gfx) = (self.program, self.subject.gfx);
        let (release, gfx) = release.split_once('@').unwrap_or((release, gfx));
        let within: &[&str] = if self.subject.name == "triton" { &["--in", "triton"] } else { &[] };
        // The script prints the status that a shell reports, because rocrepro judges the end of a program.
        let script = format!("{HIPCC}; ({script}) 2>&1; s=$?; echo; echo ENDED $s");
        let on = ["--rocm", release, "--device", "emulated", "--gfx", gfx, "--with", "dev"];
        let output = cmd!(here, "{program} exec {on...} {within...} -- sh -c {script}")
            .quiet()
            .ignore_stderr()
            .ignore_status()
            .read()?;
        let (output, status) = output.rsplit_once("ENDED ").unwrap_or((&output, "-1"));
        let status = status.lines().next().and_then(|text| text.trim().parse().ok()).unwrap_or(-1);
        Ok(RunOutput { status, output: output.trim().to_owned() })
    }

    /// Runs a command of rocrepro up to `times` times. If `times` is more than three, stops after a failure.
    fn repeat_command(
        &self,
        command: &str,
        times: u32,
    ) -> Result<Vec<TrialRun>, Box<dyn std::error::Error>> {
        let here = self.sh.clone();
        // The evidence folder contains the shortened case or program.
        let evidence = self.folder.join(self.subject.name);
        let file = command.rsplit(' ').next().unwrap_or_default();
        let is_there = command.contains("--cases-from case.yaml") || evidence.join(file).is_file();
        here.change_dir(if is_there { evidence } else { self.folder.to_path_buf() });
        let records_trials = !command.starts_with("rocrepro exec ");
        let folder = self.program.parent().unwrap_or(Path::new("."));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", folder.display());
        let records = self.folder.join("records.jsonl");
        let mut all = Vec::new();
        for n in 0..times {
            here.remove_path(&records)?;
            let seeded = command.replace("seed=", &format!("seed={n}"));
            let recorded = match records_trials {
                true => with_option(&seeded, &format!("--record '{}'", records.display())),
                false => seeded,
            };
            let ran = cmd!(here, "sh -c {recorded}").env("PATH", &path).quiet().ignore_status();
            let ended = ran.output()?;
            if !records_trials {
                let has_failed = ended.status.code().map(|status| status != 0);
                all.push(TrialRun { has_failed, signature: String::new() });
                continue;
            }
            let record = here.read_file(&records).unwrap_or_default();
            let record = record.lines().filter_map(|line| serde_json::from_str(line).ok());
            let mut outcomes = record.map(|record: serde_json::Value| record["outcome"].clone());
            let outcome = outcomes.rfind(|outcome| !outcome.is_null()).unwrap_or_default();
            let text = |key: &str| outcome[key].as_str().unwrap_or_default().to_owned();
            let has_failed = match text("kind").as_str() {
                "" | "skip" | "no-verdict" => None,
                kind => Some(kind != "pass"),
            };
            all.push(TrialRun { has_failed, signature: text("signature") });
            if has_failed == Some(true) && times > 3 {
                break;
            }
        }
        Ok(all)
    }
}

/// Outcome of one run of a trial.
#[derive(Debug)]
struct TrialRun {
    /// True if the trial failed; `None` if the run had no verdict.
    has_failed: Option<bool>,
    signature: String,
}

/// Changes a build command so that the shell leaves out each library (`-l`) that the release does not contain, as the
/// report suggests.
fn with_libraries_of_release(command: &str) -> String {
    let word = |word: &str| match word.strip_prefix("-l") {
        Some(name) => format!("$(test -e /opt/rocm/lib/lib{name}.so && echo {word})"),
        None => word.to_owned(),
    };
    command.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Returns true if a run ended as the report states: with the stated exit status or signal, or with the stated last
/// line.
fn ends_as(ran: &RunOutput, stated: &str) -> bool {
    const SIGNALS: [(&str, i32); 6] = [
        ("SIGABRT", 6),
        ("SIGSEGV", 11),
        ("SIGBUS", 7),
        ("SIGFPE", 8),
        ("SIGILL", 4),
        ("SIGKILL", 9),
    ];
    if let Some((_, number)) = SIGNALS.iter().find(|(name, _)| stated.contains(name)) {
        return ran.status == 128 + number;
    }
    match stated.split_once("exit status ") {
        Some((_, status)) => {
            status.split(';').next().is_some_and(|s| s.trim() == ran.status.to_string())
        }
        None => contains_text(&ran.output, stated),
    }
}

/// Returns true if an output contains a text. Spaces and line ends are ignored.
fn contains_text(output: &str, text: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    plain(output).contains(&plain(text).replace("...", ""))
}

/// Returns the releases on which the report says that the program passes, for example `debian:6.4.3@gfx90a`.
fn passing_releases(page: &Page) -> Vec<String> {
    let item = page.item("Passes").unwrap_or_default();
    // An exported program may expect other results on another release than the test does there.
    let item = item.split("the test passes").next().unwrap_or_default();
    let releases = item.split("; ").filter_map(|part| {
        let version = between(part, "ROCm ", " ")?;
        let gfx =
            between(part, "on the emulated ", " ").map_or(String::new(), |gfx| format!("@{gfx}"));
        part.contains("(0 of ").then(|| format!("debian:{version}{gfx}"))
    });
    releases.collect()
}

/// Returns the settings that make the failure go away according to the report, as options of `rocrepro run`.
fn mitigations(page: &Page) -> Vec<String> {
    let item = page.item("What helps").unwrap_or_default();
    // After these words, the page lists settings with which the program fails in a different way.
    let item = item.split("; with `").next().unwrap_or_default();
    let named = item.split('`').skip(1).step_by(2).filter(|name| name.contains('='));
    named
        .map(|name| match item.contains(&format!("limit `{name}`")) {
            true => format!("--limit {name}"),
            false => format!("--env '{name}'"),
        })
        .collect()
}

fn with_option(command: &str, option: &str) -> String {
    match command.split_once(" -- ") {
        Some((before, program)) => format!("{before} {option} -- {program}"),
        None => format!("{command} {option}"),
    }
}

/// Returns the command with the change that a control describes; `None` if no option can express the change.
fn with_control(command: &str, what: &str) -> Option<String> {
    if what == "no fault injected" {
        let words = command.split(" --fault ").collect::<Vec<_>>();
        let [before, rest] = words.as_slice() else { return None };
        let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        return Some(format!("{before} {rest}"));
    }
    if let Some((now, was)) = what.split_once(" instead of ") {
        return command.contains(was).then(|| command.replace(was, now));
    }
    let (_, release) = what.split_once(" on ROCm ")?;
    let (version, gfx) = release.split_once(" on the emulated ").unwrap_or((release, ""));
    let command = command.replace(STACK, &format!("debian:{version}"));
    if gfx.is_empty() {
        return Some(command);
    }
    let (before, rest) = command.split_once("--gfx ")?;
    let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
    Some(format!("{before}--gfx {gfx} {rest}"))
}
