//! The nightly task of a machine with a GPU: runs the case library on the newest build, reports unexpected results, and
//! tests the open bugs of earlier nights again.
//!
//! docs/hardware-runner.md explains how to set up such a machine. The task keeps its state in the folder that
//! `NIGHTLY_STATE` names (default `nightly`). The folder has a subfolder for each build, so that the task can compare
//! the results with those of earlier nights.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::TaskResult;

/// Number of runs for a trial that passed unexpectedly. 30 runs without a failure show that the failure rate is at most
/// about 10 %.
const REPEATS: &str = "30";

/// Maximum number of bisects in one night. A failure that exceeds this number is reported without a bisect.
const MAX_BISECTS: usize = 4;

/// Result of a trial on one build.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BuildResult {
    /// Kind of the verdict as records contain it, for example `pass`, `news-fail` or `news-fixed`.
    verdict: String,
    signature: String,
    upstream: Vec<String>,
}

/// Runs the case library on the newest build, bisects new failures, and drafts a comment for each unexpected pass.
/// Succeeds if all results were expected, so that a scheduler sends mail only about unexpected results.
///
/// Environment variables: `NIGHTLY_GFX` is the architecture (default gfx1151), `NIGHTLY_SOURCE` the source or channel
/// of builds (default nightly), `NIGHTLY_SECONDS` the time limit of one bisect in seconds (default 7200), and
/// `NIGHTLY_DEVICE` the device (default gpu). `NIGHTLY_CONTROL` is another source or channel, whose newest build runs the
/// trials that failed unexpectedly (default none).
///
/// # Errors
/// Fails if results are unexpected, or if a build or the device is unavailable. For unexpected results, the message is
/// the first line of the summary.
pub(crate) fn nightly(sh: &Shell) -> TaskResult {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let gfx = setting("NIGHTLY_GFX", "gfx1151");
    let source = setting("NIGHTLY_SOURCE", "nightly");
    let seconds = setting("NIGHTLY_SECONDS", "7200");
    let device = setting("NIGHTLY_DEVICE", "gpu");
    let state = sh.current_dir().join(setting("NIGHTLY_STATE", "nightly"));
    let (build, prefix) = &newest_build(sh, &gfx, &source)?;
    let out = state.join(build);
    let record = out.join("run.jsonl");
    sh.create_dir(&out)?;
    // If the task runs twice in one night, the second run starts from the beginning.
    sh.remove_path(&record)?;
    let on = ["--rocm", prefix, "--gfx", &gfx, "--device", &device];
    let junit = out.join("junit.xml");
    // The exit code is 1 if results are unexpected. The record contains these results, so the exit code is ignored.
    cmd!(sh, "cargo run --release --locked -- run {on...} --record {record} --junit {junit}")
        .ignore_status()
        .run()?;
    let now = worst_results(&sh.read_file(&record)?)?;
    if !now.values().any(|seen| ["pass", "known", "difference"].contains(&&*seen.verdict)) {
        return Err(
            format!("no trial has a verdict on {build}; check whether the device works").into()
        );
    }
    let before = earlier_results(sh, &state, build)?;
    let mut summary = update_bugs(sh, &state, &record, &on, &out)?;
    let news: Vec<_> =
        now.iter().filter(|(trial, seen)| is_unexpected(trial, seen, &before)).collect();
    let failed: Vec<&str> = news
        .iter()
        .filter(|(_, seen)| seen.verdict != "news-fixed")
        .map(|(trial, _)| trial.as_str())
        .collect();
    let control = match setting("NIGHTLY_CONTROL", "") {
        source if source.is_empty() || failed.is_empty() => None,
        source => Some(run_control(sh, &source, &gfx, &device, &failed, &out)?),
    };
    let mut bisects = 0;
    for (trial, seen) in &news {
        let folder = out.join(folder_name(trial));
        sh.remove_path(&folder)?;
        if seen.verdict == "news-fixed" {
            let draft = report_fixed(sh, trial, seen, build, &on, &folder)?;
            let _ = writeln!(
                summary,
                "- possibly fixed: `{trial}`, the draft of a comment is in {}",
                draft.display()
            );
            continue;
        }
        let _ = write!(summary, "- {}: `{trial}`: {}", seen.verdict, seen.signature);
        let on_control = control.as_ref().map(|control| control.compare(trial, seen));
        if let Some((words, same)) = &on_control {
            let _ = write!(summary, "; {words}");
            if *same {
                summary.push_str("; not bisected and not reported\n");
                continue;
            }
        }
        match last_good(trial, &before) {
            None => summary.push_str("; not bisected, because no earlier build passed"),
            Some(_) if bisects == MAX_BISECTS => {
                summary.push_str("; not bisected, because the number of bisects is limited");
            }
            Some(good) => {
                bisects += 1;
                let ends = ["--source", &source, "--good", good, "--bad", build];
                let on = ["--gfx", &gfx, "--device", &device, "--budget-seconds", &seconds];
                let text =
                    cmd!(sh, "cargo run --release --locked -- bisect {trial} {ends...} {on...} --out {folder}")
                        .ignore_status()
                        .read()?;
                sh.write_file(folder.join("bisect.txt"), &text)?;
                let _ = write!(summary, "; bisected from {good}: {}", folder.display());
            }
        }
        summary.push('\n');
        cmd!(sh, "cargo run --release --locked -- report {trial} {on...} --out {folder}")
            .ignore_status()
            .run()?;
    }
    let head = format!("{build}: {} trials, {} with unexpected results\n", now.len(), news.len());
    sh.write_file(out.join("summary.md"), format!("{head}\n{summary}"))?;
    println!("{head}\n{summary}");
    if news.is_empty() { Ok(()) } else { Err(head.trim().into()) }
}

/// Results that the unexpectedly failed trials of this night have on the newest build of another channel.
struct Control {
    build: String,
    seen: BTreeMap<String, BuildResult>,
}

impl Control {
    /// Describes the result of a trial on the build of the control. The second value is true if the trial fails there
    /// with the same signature as in `seen`. The cause is then not only in the build of this night.
    fn compare(&self, trial: &str, seen: &BuildResult) -> (String, bool) {
        let build = &self.build;
        match self.seen.get(trial) {
            Some(other) if other.signature == seen.signature => {
                (format!("fails in the same way on {build}, the control"), true)
            }
            Some(other) if other.verdict == "pass" => {
                (format!("passes on {build}, the control"), false)
            }
            Some(other) => (format!("{} on {build}, the control", other.signature), false),
            None => (format!("without result on {build}, the control"), false),
        }
    }
}

/// Fetches the newest build of a source or channel, and returns its name and its installation prefix.
fn newest_build(
    sh: &Shell,
    gfx: &str,
    source: &str,
) -> Result<(String, String), Box<dyn std::error::Error>> {
    let got =
        cmd!(sh, "cargo run --release --locked -p stacks --example obtain -- {gfx} {source} last")
            .read()?;
    let (build, prefix) =
        got.split_once('\n').ok_or("the example `obtain` printed no installation prefix")?;
    Ok((build.to_owned(), prefix.to_owned()))
}

/// Runs the given trials on the newest build of another channel.
fn run_control(
    sh: &Shell,
    source: &str,
    gfx: &str,
    device: &str,
    trials: &[&str],
    out: &Path,
) -> Result<Control, Box<dyn std::error::Error>> {
    let (build, prefix) = newest_build(sh, gfx, source)?;
    let record = out.join("control.jsonl");
    sh.remove_path(&record)?;
    let on = ["--rocm", &prefix, "--gfx", gfx, "--device", device];
    cmd!(sh, "cargo run --release --locked -- run {trials...} {on...} --record {record}")
        .ignore_status()
        .run()?;
    Ok(Control { build, seen: worst_results(&sh.read_file(&record)?)? })
}

/// Adds the records of the night to the store of this machine, tests the open bugs again, and drafts a comment for each
/// bug that is fixed or reopened. Returns the lines of the summary about these bugs.
fn update_bugs(
    sh: &Shell,
    state: &Path,
    record: &Path,
    on: &[&str],
    out: &Path,
) -> Result<String, Box<dyn std::error::Error>> {
    let store = state.join("results.db");
    let states = || -> Result<Bugs, Box<dyn std::error::Error>> {
        let list =
            cmd!(sh, "cargo run --release --locked -- records bugs list --json --store {store}");
        bug_states(&list.read()?)
    };
    let before = if store.is_file() { states()? } else { Bugs::new() };
    cmd!(sh, "cargo run --release --locked -- records store add --store {store} {record}").run()?;
    let file = out.join("retests.jsonl");
    // The exit code is 1 if results are unexpected and 4 if no bug is open. The store contains the results.
    cmd!(
        sh,
        "cargo run --release --locked -- records bugs retest --store {store} {on...} --repeat {REPEATS} --record {file}"
    )
    .ignore_status()
    .run()?;
    let list =
        cmd!(sh, "cargo run --release --locked -- records bugs list --store {store}").read()?;
    sh.write_file(out.join("bugs.txt"), list)?;
    let pages = state.join("bugs");
    cmd!(sh, "cargo run --release --locked -- records bugs pages --store {store} --out {pages}")
        .run()?;
    let mut summary = String::new();
    for (id, case, state) in ended_or_reopened(&before, &states()?) {
        let draft = out.join(format!("bug-{id}.md"));
        let comment =
            cmd!(sh, "cargo run --release --locked -- records bugs comment {id} --store {store}");
        sh.write_file(&draft, comment.read()?)?;
        let _ = writeln!(
            summary,
            "- {state}: bug {id} of `{case}`, the draft of a comment is in {}",
            draft.display()
        );
    }
    Ok(summary)
}

/// Cases and states of bugs, by the ids of the bugs.
type Bugs = BTreeMap<String, (String, String)>;

/// Reads the output of `rocrepro records bugs list --json`.
fn bug_states(json: &str) -> Result<Bugs, Box<dyn std::error::Error>> {
    let list: Value = serde_json::from_str(json)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let bugs = list.as_array().into_iter().flatten();
    Ok(bugs.map(|bug| (text(&bug["id"]), (text(&bug["case"]), text(&bug["state"])))).collect())
}

/// Returns the id, case and state of each bug that was known before and is now fixed or reopened. Changes between other
/// states, such as a flaky bug that was not seen in one night, need no comment.
fn ended_or_reopened<'a>(before: &Bugs, after: &'a Bugs) -> Vec<(&'a str, &'a str, &'a str)> {
    let changed = after.iter().filter(|(id, (_, state))| {
        let matters = ["fixed", "reopened"].contains(&state.as_str());
        matters && before.get(*id).is_some_and(|(_, old)| old != state)
    });
    changed.map(|(id, (case, state))| (id.as_str(), case.as_str(), state.as_str())).collect()
}

/// Returns the worst result of each trial in the text of a record file. If one of several runs of a trial failed, the
/// result is that failure.
fn worst_results(
    record: &str,
) -> Result<BTreeMap<String, BuildResult>, Box<dyn std::error::Error>> {
    let mut trials: BTreeMap<String, BuildResult> = BTreeMap::new();
    for line in record.lines().filter(|line| !line.trim().is_empty()) {
        let line: Value = serde_json::from_str(line)?;
        // Other lines of the record only state that a trial began or that a run has ended.
        if line["verdict"].is_null() {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let one = BuildResult {
            verdict: text(&line["verdict"]["kind"]),
            signature: text(&line["outcome"]["signature"]),
            upstream: line["upstream"].as_array().into_iter().flatten().map(text).collect(),
        };
        let known = trials.entry(text(&line["trial"])).or_insert_with(|| one.clone());
        if one.verdict.starts_with("news") {
            *known = one;
        }
    }
    Ok(trials)
}

/// Results of earlier builds, the newest build first. Builds are ordered by the date in their names, because version
/// strings cannot be sorted.
type EarlierResults = Vec<(String, BTreeMap<String, BuildResult>)>;

fn earlier_results(
    sh: &Shell,
    state: &Path,
    build: &str,
) -> Result<EarlierResults, Box<dyn std::error::Error>> {
    let day = |build: &str| {
        let mut runs = build.rsplit(|c: char| !c.is_ascii_digit());
        runs.find(|run| run.len() == 8).unwrap_or_default().to_owned()
    };
    let mut records = Vec::new();
    for folder in sh.read_dir(state)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let record: PathBuf = folder.join("run.jsonl");
        if name != build && day(&name) <= day(build) && record.is_file() {
            records.push((name, worst_results(&sh.read_file(&record)?)?));
        }
    }
    records.sort_by_key(|(name, _)| std::cmp::Reverse(day(name)));
    Ok(records)
}

/// Returns true if a result is unexpected and differs from the result of the trial in the last earlier build.
fn is_unexpected(trial: &str, seen: &BuildResult, before: &EarlierResults) -> bool {
    let last = before.iter().find_map(|(_, trials)| trials.get(trial));
    seen.verdict.starts_with("news")
        && last
            .is_none_or(|last| (&last.verdict, &last.signature) != (&seen.verdict, &seen.signature))
}

fn last_good<'a>(trial: &str, before: &'a EarlierResults) -> Option<&'a str> {
    let passed = |trials: &BTreeMap<String, BuildResult>| {
        trials.get(trial).is_some_and(|seen| seen.verdict == "pass")
    };
    before.iter().find(|(_, trials)| passed(trials)).map(|(build, _)| build.as_str())
}

/// Repeats a trial that passed unexpectedly, and drafts a comment for the upstream issues of its case.
fn report_fixed(
    sh: &Shell,
    trial: &str,
    seen: &BuildResult,
    build: &str,
    on: &[&str],
    folder: &Path,
) -> Result<PathBuf, Box<dyn std::error::Error>> {
    sh.create_dir(folder)?;
    let record = folder.join("repeat.jsonl");
    cmd!(
        sh,
        "cargo run --release --locked -- run {trial} {on...} --repeat {REPEATS} --record {record}"
    )
    .ignore_status()
    .run()?;
    let mut verdicts: Vec<String> = Vec::new();
    for line in sh.read_file(&record)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        // Other lines of the record only state that a trial began or that the run has ended.
        verdicts.extend(line["verdict"]["kind"].as_str().map(str::to_owned));
    }
    let draft = folder.join("possibly-fixed.md");
    sh.write_file(&draft, comment(trial, seen, build, &verdicts))?;
    Ok(draft)
}

/// Drafts a comment about a trial that passed. Runs without a failure give only an upper bound of the failure rate.
/// Therefore the comment never claims that the rate is zero.
fn comment(trial: &str, seen: &BuildResult, build: &str, verdicts: &[String]) -> String {
    let passed = verdicts.iter().filter(|v| *v == "news-fixed" || *v == "pass").count();
    let runs = verdicts.len();
    let (head, bound) = match passed == runs && runs > 0 {
        // Rule of three: after n runs without a failure, the failure rate is at most 3/n, with 95 % confidence.
        true => (
            "Possibly fixed",
            format!("The failure rate is below {:.0} % (95 %).", 300.0 / runs as f64),
        ),
        false => ("Not fixed", "The trial still fails.".to_owned()),
    };
    let issues: BTreeSet<_> = seen.upstream.iter().map(|issue| format!("- {issue}")).collect();
    let issues = issues.into_iter().collect::<Vec<_>>().join("\n");
    format!(
        "{head}. Issues of this case:\n{issues}\n\n\
         On {build}, `{trial}` passed in {passed} of {runs} runs, each in a fresh process. {bound}\n\
         To find the build with the fix, run \
         `rocrepro bisect '{trial}' --source nightly --fixed --good {build} --bad BUILD`, \
         where BUILD is a build that fails.\n"
    )
}

fn folder_name(trial: &str) -> String {
    trial
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(trial: &str, verdict: &str, signature: &str) -> String {
        serde_json::json!({"trial": trial, "verdict": {"kind": verdict},
            "outcome": {"signature": signature}, "upstream": ["ROCm/x#1"]})
        .to_string()
    }

    fn night(name: &str, lines: &[(&str, &str, &str)]) -> (String, BTreeMap<String, BuildResult>) {
        let text: Vec<_> = lines.iter().map(|(t, v, s)| line(t, v, s)).collect();
        (name.to_owned(), worst_results(&text.join("\n")).unwrap())
    }

    #[test]
    fn reports_an_unexpected_result_once() {
        let before = vec![
            night("a20260703", &[("t", "news-fail", "hang"), ("u", "pass", "")]),
            night("a20260702", &[("t", "pass", ""), ("u", "pass", "")]),
        ];
        let check = |trial: &str, verdict: &str, signature: &str, expected: bool| {
            let (_, now) = night("a20260704", &[(trial, verdict, signature)]);
            assert_eq!(is_unexpected(trial, &now[trial], &before), expected, "{trial} {verdict}");
        };
        check("t", "news-fail", "hang", false);
        check("t", "news-fail", "crash", true);
        check("t", "pass", "", false);
        check("u", "news-fail", "hang", true);
        check("u", "known", "hang", false);
        check("new", "news-fail", "hang", true);
        assert_eq!(last_good("t", &before), Some("a20260702"));
        assert_eq!(last_good("u", &before), Some("a20260703"));
        assert_eq!(last_good("new", &before), None);
    }

    #[test]
    fn failures_of_both_channels_are_not_bisected() {
        let lines = [
            ("same", "news-fail", "hang"),
            ("other", "news-fail", "crash"),
            ("good", "pass", "pass"),
        ];
        let (build, seen) = night("b", &lines);
        let control = Control { build, seen };
        let check = |trial: &str, words: &str, same: bool| {
            let (_, now) = night("a", &[(trial, "news-fail", "hang")]);
            assert_eq!(control.compare(trial, &now[trial]), (words.to_owned(), same));
        };
        check("same", "fails in the same way on b, the control", true);
        check("other", "crash on b, the control", false);
        check("good", "passes on b, the control", false);
        check("none", "without result on b, the control", false);
    }

    #[test]
    fn drafts_a_comment_for_a_known_bug_that_is_fixed_or_reopened() {
        let bugs = |all: &[(&str, &str)]| {
            let all = all.iter().map(|(id, state)| {
                serde_json::json!({"id": id, "case": format!("case/{id}"), "state": state, "series": []})
            });
            bug_states(&Value::from_iter(all).to_string()).expect("a list")
        };
        let before = bugs(&[("1", "open"), ("2", "fixed"), ("3", "fixed"), ("4", "open")]);
        let after = bugs(&[
            ("1", "fixed"),
            ("2", "reopened"),
            ("3", "fixed"),
            ("4", "unseen"),
            ("5", "fixed"),
        ]);
        let changed = ended_or_reopened(&before, &after);
        assert_eq!(changed, [("1", "case/1", "fixed"), ("2", "case/2", "reopened")]);
        assert_eq!(ended_or_reopened(&Bugs::new(), &after), []);
    }

    #[test]
    fn counts_one_failure_of_many_runs() {
        let (_, now) =
            night("x", &[("t", "pass", ""), ("t", "news-fail", "hang"), ("t", "pass", "")]);
        assert_eq!(now["t"].verdict, "news-fail");
    }

    #[test]
    fn claims_in_a_draft_only_what_was_measured() {
        let (_, now) = night("x", &[("t", "news-fixed", "")]);
        let check = |verdicts: &[&str], expected: &str| {
            let verdicts: Vec<_> = verdicts.iter().map(|v| (*v).to_owned()).collect();
            let text = comment("t", &now["t"], "x", &verdicts);
            assert!(text.contains(expected) && text.contains("ROCm/x#1"), "{text}");
        };
        check(
            &["news-fixed"; 30],
            "in 30 of 30 runs, each in a fresh process. The failure rate is below 10 %",
        );
        check(
            &["news-fixed", "known"],
            "in 1 of 2 runs, each in a fresh process. The trial still fails",
        );
        check(&[], "in 0 of 0 runs, each in a fresh process. The trial still fails");
    }
}
