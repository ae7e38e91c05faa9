//! Measures how `rocrepro exec --report` matches PyTorch programs to the known bugs of the case library, and writes
//! reports/known-bug-matching.md. Needs a PyTorch for ROCm, whose folder the variable `ROCREPRO_TORCH` names.

use std::{
    fmt::Write as _,
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
};

use engine::issue::{LOG_LEVEL, known_bugs_in_log};
use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, build_and_fetch};

const PAGE: &str = "reports/known-bug-matching.md";

/// Programs that hit a known bug. The first line of each names the case.
const KNOWN: &str = "ci/src/matching/known";

/// Program that hits no known bug. Its argument, a number, selects a template and the parameters of the template.
const OTHER: &str = "ci/src/matching/other.py";

/// Number of programs that hit no known bug.
const OTHERS: u32 = 100;

/// Time limit of a program, in seconds. A program that is killed at this limit counts as a hang.
const LIMIT: u32 = 60;

const GFX: &str = "gfx1151";

/// Folder of the logs. A program is not run again if the folder already contains its log.
const FOLDER: &str = "target/matching";

/// A program and what it is expected to do.
struct Subject {
    name: String,
    /// Words after `python`.
    words: Vec<String>,
    /// Case of the bug that the program hits; `None` if it hits none.
    case: Option<String>,
}

/// Result of one run.
struct Ran {
    /// Exit status as a shell reports it; 124 if the program was killed at its time limit.
    status: i32,
    output: String,
    /// Cases whose known failures were found in the log, each with its upstream issue.
    found: Vec<(String, Option<String>)>,
}

/// Runs all programs with a log of their HIP calls, compares the logs with the case library, and writes the page. If
/// `words` contains `reports`, makes a report about each program that hits a known bug instead, and checks that the
/// report names the bug.
///
/// # Errors
/// Fails if fewer than nine tenths of the bugs are found, if a bug is found in more than one in a hundred of the other
/// programs, or if a program ends in another way than it states.
pub(crate) fn matching(sh: &Shell, words: &[String]) -> TaskResult {
    let Ok(torch) = std::env::var("ROCREPRO_TORCH") else {
        println!(
            "skipped: set ROCREPRO_TORCH to a folder with PyTorch for ROCm in venv/bin/python"
        );
        return Ok(());
    };
    let program = build_and_fetch(sh)?;
    let python = Path::new(&torch).join("venv/bin/python");
    let known = known_subjects(sh)?;
    if words.iter().any(|word| word == "reports") {
        return reports(sh, &program, &python, &known);
    }
    let others = (0..OTHERS).map(|number| Subject {
        name: format!("other-{number}"),
        words: vec![OTHER.to_owned(), number.to_string()],
        case: None,
    });
    let others: Vec<Subject> = others.collect();
    let mut measured = Measured::default();
    for subject in known.iter().chain(&others) {
        let ran = run(sh, &program, &python, subject)?;
        measured.add(subject, &ran);
    }
    let commit = cmd!(sh, "git rev-parse --short=8 HEAD").read()?;
    let date = cmd!(sh, "date -u +%Y-%m-%d").read()?;
    sh.write_file(PAGE, measured.page(&commit, &date))?;
    println!("wrote {PAGE}; read it before you commit it");
    measured.verdict()
}

/// Reads the programs that hit a known bug, each with the case in its first line.
fn known_subjects(sh: &Shell) -> Result<Vec<Subject>, Box<dyn std::error::Error>> {
    let mut subjects = Vec::new();
    for file in sh.read_dir(KNOWN)? {
        let text = sh.read_file(&file)?;
        let case = text.lines().next().and_then(|line| line.strip_prefix("# case: "));
        let case = case.ok_or(format!("{}: the first line names no case", file.display()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let words = vec![file.display().to_string()];
        subjects.push(Subject { name, words, case: Some(case.to_owned()) });
    }
    Ok(subjects)
}

/// Runs a program with a log of its HIP calls, or reads the log of an earlier run.
fn run(
    sh: &Shell,
    program: &Path,
    python: &Path,
    subject: &Subject,
) -> Result<Ran, Box<dyn std::error::Error>> {
    let folder = sh.current_dir().join(FOLDER).join(&subject.name);
    let output = folder.join("output.txt");
    if !output.exists() {
        sh.remove_path(&folder)?;
        sh.create_dir(&folder)?;
        let log = format!("AMD_LOG_LEVEL_FILE={}", folder.join("hip").display());
        let level = LOG_LEVEL.map(|(name, value)| format!("{name}={value}"));
        let environment = level.iter().chain([&log]).flat_map(|it| ["--env", it]);
        let on = ["--rocm", STACK, "--device", "emulated", "--gfx", GFX, "--with", "torch"];
        let (words, limit) = (&subject.words, LIMIT.to_string());
        let ran = cmd!(
            sh,
            "timeout --kill-after=5 {limit} {program} exec {on...} {environment...} -- {python} {words...}"
        );
        let ran = ran.ignore_status().quiet().output()?;
        // `timeout` dies of the signal that its command died of.
        let signal = ran.status.signal().map(|signal| 128 + signal);
        let status = ran.status.code().or(signal).unwrap_or_default();
        let text = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        sh.write_file(&output, format!("{status}\n{}", text.concat()))?;
    }
    let text = sh.read_file(&output)?;
    let (status, output) = text.split_once('\n').ok_or("the output has no status")?;
    let mut log = String::new();
    for file in sh.read_dir(&folder)?.iter().filter(|file| !file.ends_with("output.txt")) {
        log.push_str(&String::from_utf8_lossy(&fs::read(file)?));
    }
    let rocm = STACK.trim_start_matches("debian:").parse()?;
    let found = known_bugs_in_log(&log, output, &rocm, GFX)?;
    let found = found.into_iter().map(|bug| (bug.case, bug.upstream)).collect();
    Ok(Ran { status: status.parse()?, output: output.to_owned(), found })
}

/// Rows and counts of the page.
#[derive(Default)]
struct Measured {
    known: Vec<String>,
    hit: usize,
    others: Vec<String>,
    wrong: usize,
    /// Programs that did not end as they state.
    otherwise: Vec<String>,
}

impl Measured {
    fn add(&mut self, subject: &Subject, ran: &Ran) {
        let Ran { status, output, found } = ran;
        let names: Vec<String> = found.iter().map(|(case, _)| format!("`{case}`")).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        match &subject.case {
            Some(case) => {
                let is_hit = found.iter().any(|(name, _)| name == case);
                self.hit += usize::from(is_hit);
                self.known.push(format!("| {} | {status} | `{case}` | {names} |\n", subject.name));
                if *status == 0 {
                    self.otherwise.push(format!("{} passes", subject.name));
                }
            }
            None => {
                let first = output.lines().next().unwrap_or_default();
                let (ending, template) = first.split_once(' ').unwrap_or((first, ""));
                let ended = match status {
                    0 => "success",
                    124 | 137 => "hang",
                    _ => "failure",
                };
                if ended != ending {
                    self.otherwise.push(format!("{}: {ended}, not {first}", subject.name));
                }
                self.wrong += usize::from(!found.is_empty());
                self.others
                    .push(format!("| {} | {template} | {status} | {names} |\n", subject.name));
            }
        }
    }

    fn page(&self, commit: &str, date: &str) -> String {
        let mut text = HEAD.to_owned();
        _ = write!(
            text,
            "Of {} programs that hit a known bug, {} were matched to it. Of {} that hit none, {} were matched to one.\n\
             Commit {commit}, {date}, ROCm {} and {GFX}.\n",
            self.known.len(),
            self.hit,
            self.others.len(),
            self.wrong,
            STACK.trim_start_matches("debian:"),
        );
        text.push_str("\n## Programs that hit a known bug\n\n");
        text.push_str("| program | exit status | bug | matched to |\n| --- | ---: | --- | --- |\n");
        text.push_str(&self.known.concat());
        text.push_str("\n## Programs that hit none\n\n");
        text.push_str(
            "| program | template | exit status | matched to |\n| --- | --- | ---: | --- |\n",
        );
        text.push_str(&self.others.concat());
        _ = writeln!(
            text,
            "\nMeasured {date}: `ci/src/matching`, `harness/engine`, `harness/export`, `cases`"
        );
        text
    }

    fn verdict(&self) -> TaskResult {
        println!("known bugs: {} of {} matched", self.hit, self.known.len());
        println!("no bug: {} of {} matched", self.wrong, self.others.len());
        if !self.otherwise.is_empty() {
            return Err(self.otherwise.join("\n").into());
        }
        if self.hit * 10 < self.known.len() * 9 || self.wrong * 100 > self.others.len() {
            return Err("too few bugs are found, or too many where there are none".into());
        }
        Ok(())
    }
}

const HEAD: &str = "\
# PyTorch programs matched to known bugs

`rocrepro exec --report` and `rocrepro report` compare the HIP calls of a failing program with those that the case
library states for its known bugs. This page says how often that is right for programs of PyTorch 2.6.0, on the
**emulated device**; not a GPU result.

    ROCREPRO_TORCH=FOLDER cargo run -p ci -- matching

Each program ran once with a log of its HIP calls, and the whole log was compared, as `report` does after a failure.
`report` compares only the logs of programs that fail, so that a program with exit status 0 is never matched by it.
Exit status 124 is the time limit of 60 s; 134 and 139 are SIGABRT and SIGSEGV. The first programs are in
`ci/src/matching/known`; some call libamdhip64 by ctypes, as an extension would. The others are drawn from the
templates of `ci/src/matching/other.py` by their numbers.

The programs and the calls of the cases were written together, so that these numbers say that the calls are what PyTorch
makes, and not how often a stranger's program is matched. hipMemset3D's log has neither the pitch nor the rows of the
memory, so `copies/set-rows` looks like a right call and states no calls. A program whose log is there from an
earlier run is not run again.

";

/// Makes a report about each program that hits a known bug, and checks that its first lines name the bug.
fn reports(sh: &Shell, program: &Path, python: &Path, known: &[Subject]) -> TaskResult {
    let mut missing = Vec::new();
    for subject in known {
        let out: PathBuf = sh.current_dir().join(FOLDER).join(format!("report-{}", subject.name));
        sh.remove_path(&out)?;
        let on = ["--rocm", STACK, "--device", "emulated", "--gfx", GFX, "--with", "torch"];
        let few = ["--repeat", "1", "--budget-seconds", "1", "--quiet-timeout", "15"];
        let words = &subject.words;
        cmd!(sh, "{program} report {on...} {few...} --out {out} -- {python} {words...}")
            .ignore_status()
            .ignore_stdout()
            .quiet()
            .run()?;
        let page = sh.read_file(out.join("report.md")).unwrap_or_default();
        let case = subject.case.as_deref().unwrap_or_default();
        let named = format!("The test `{case}` of rocrepro makes them without a framework.");
        let is_named = page.contains(&named);
        println!("{}: {}", subject.name, if is_named { "named" } else { "NOT NAMED" });
        if !is_named {
            missing.push(subject.name.clone());
        }
    }
    println!("reports: {} of {} name the bug", known.len() - missing.len(), known.len());
    if missing.len() * 10 > known.len() { Err(missing.join(", ").into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str, case: Option<&str>) -> Subject {
        Subject { name: name.to_owned(), words: Vec::new(), case: case.map(str::to_owned) }
    }

    fn ran(status: i32, output: &str, case: Option<&str>) -> Ran {
        let found = case.map(|case| (case.to_owned(), None)).into_iter().collect();
        Ran { status, output: output.to_owned(), found }
    }

    #[test]
    fn counts_only_the_right_case_and_reports_other_endings() {
        let mut measured = Measured::default();
        measured.add(&subject("a", Some("x/one")), &ran(1, "", Some("x/one")));
        measured.add(&subject("b", Some("x/one")), &ran(139, "", Some("x/other")));
        measured.add(&subject("c", None), &ran(124, "hang waits", None));
        assert_eq!((measured.hit, measured.wrong), (1, 0));
        assert!(measured.verdict().unwrap_err().to_string().contains("too few"));
        measured.add(&subject("d", None), &ran(0, "failure raises", Some("x/one")));
        assert_eq!((measured.wrong, measured.otherwise.len()), (1, 1));
        let page = measured.page("0123abcd", "2026-11-29");
        assert!(page.contains("Of 2 programs that hit a known bug, 1 were matched"), "{page}");
        assert!(page.contains("| d | raises | 0 | `x/one` |"), "{page}");
        assert!(page.contains("| c | waits | 124 | none |"), "{page}");
    }

    #[test]
    fn each_program_names_a_case_with_a_known_failure() {
        let sh = crate::shell().unwrap();
        let known = known_subjects(&sh).unwrap();
        assert_eq!(known.len(), 20);
        for subject in known {
            let case = subject.case.unwrap();
            let text = sh.read_file(format!("cases/{case}.yaml")).unwrap();
            assert!(text.contains("known:"), "{case}");
        }
    }
}
