//! Compares the two levels of the emulated device: the HSA level, at which the device replaces the HSA runtime, and the
//! thunk level, at which the device replaces the thunk library and the released HSA runtime runs on top of it. Each
//! trial must have the same result at both levels.

use std::collections::BTreeMap;

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::{EXCLUDE_PACKAGED, QUIET_TIMEOUT, STACK, TaskResult, build_and_fetch};

/// Architecture on which the levels are compared if the arguments name none.
const DEFAULT_GFX: &str = "gfx1151";

/// Signature of a trial that needs an unsupported feature.
const UNSUPPORTED_SIGNATURE: &str = "(no-verdict:gap)";

/// Trials whose results may differ, each with the reason. A `*` at the end of a name matches any text.
const EXPLAINED: &[(&str, &str)] = &[];

/// Runs trials on both levels, and prints the trials whose results differ. Words such as `gfx=gfx90a` select the
/// architecture, and all other words select cases.
///
/// # Errors
/// Fails if results differ and the difference is not explained.
pub(crate) fn levels(sh: &Shell, words: &[String]) -> TaskResult {
    let program = build_and_fetch(sh)?;
    let (named, filters): (Vec<_>, Vec<_>) =
        words.iter().partition(|word| word.starts_with("gfx="));
    let gfx = named.last().and_then(|word| word.strip_prefix("gfx=")).unwrap_or(DEFAULT_GFX);
    let folder = sh.create_temp_dir()?;
    let mut results = Vec::new();
    for level in ["hsa", "thunk"] {
        let file = folder.path().join(format!("{level}.jsonl"));
        let on = ["--rocm", STACK, "--gfx", gfx, "--device", "emulated", "--record"];
        let (option, filters) = (format!("level={level}"), &filters);
        // Unexpected results are compared like all others.
        cmd!(sh, "{program} run {filters...} {on...} {file} --device-option {option}")
            .args(EXCLUDE_PACKAGED)
            .args(QUIET_TIMEOUT)
            .ignore_status()
            .run()?;
        results.push(read(&sh.read_file(&file)?)?);
    }
    let [hsa, thunk] = &results[..] else { return Err("expected two levels".into()) };
    let compared = compare(hsa, thunk);
    for line in &compared.lines {
        println!("{line}");
    }
    println!(
        "{gfx}: {} trials equal, {} different ({} of them explained); at the thunk level {} skipped, {} not emulated; \
         mean seconds per trial: {:.2} at the HSA level, {:.2} at the thunk level",
        compared.equal,
        compared.different,
        compared.explained,
        compared.not_tried,
        compared.gaps,
        compared.seconds[0],
        compared.seconds[1],
    );
    match compared.different - compared.explained {
        0 if compared.equal > 0 => Ok(()),
        0 => Err("no trial ran on both levels".into()),
        n => Err(format!("{n} trials have different results that are not explained").into()),
    }
}

/// Result of a trial.
#[derive(Clone, Debug, PartialEq)]
struct TrialResult {
    /// Verdict and signature of the outcome.
    text: String,
    is_skip: bool,
    seconds: f64,
}

/// Reads the results of a record file, by the name of the trial.
fn read(text: &str) -> Result<BTreeMap<String, TrialResult>, Box<dyn std::error::Error>> {
    let mut results = BTreeMap::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line)?;
        let (Some(trial), Some(verdict)) =
            (record["trial"].as_str(), record["verdict"]["kind"].as_str())
        else {
            continue;
        };
        let Some(signature) = record["outcome"]["signature"].as_str() else { continue };
        let result = TrialResult {
            text: format!("{verdict} ({signature})"),
            is_skip: verdict == "skip",
            seconds: record["wall_ns"].as_f64().unwrap_or_default() / 1e9,
        };
        results.insert(trial.to_owned(), result);
    }
    Ok(results)
}

#[derive(Debug, Default, PartialEq)]
struct Comparison {
    equal: usize,
    different: usize,
    explained: usize,
    /// Number of trials that ran at the HSA level, but were skipped at the thunk level.
    not_tried: usize,
    /// Number of trials that need a feature that the device does not support at the thunk level.
    gaps: usize,
    /// Mean run time on each of the two levels, in seconds, over the trials that ran on both.
    seconds: [f64; 2],
    lines: Vec<String>,
}

fn compare(
    hsa: &BTreeMap<String, TrialResult>,
    thunk: &BTreeMap<String, TrialResult>,
) -> Comparison {
    let mut found = Comparison::default();
    for (trial, above) in hsa {
        let below = match thunk.get(trial) {
            _ if above.is_skip => continue,
            Some(below) if !below.is_skip => below,
            _ => {
                found.not_tried += 1;
                continue;
            }
        };
        if below.text.contains(UNSUPPORTED_SIGNATURE) && above.text != below.text {
            found.gaps += 1;
            found.lines.push(format!("{trial}: needs a feature that the thunk level lacks"));
            continue;
        }
        found.seconds[0] += above.seconds;
        found.seconds[1] += below.seconds;
        if above.text == below.text {
            found.equal += 1;
            continue;
        }
        found.different += 1;
        let why = EXPLAINED.iter().find(|(name, _)| matches_name(name, trial));
        found.explained += usize::from(why.is_some());
        let why = why.map_or("NOT EXPLAINED", |(_, why)| why);
        found.lines.push(format!(
            "{trial}: {} at the HSA level, {} at the thunk level: {why}",
            above.text, below.text
        ));
    }
    let ran = (found.equal + found.different).max(1) as f64;
    found.seconds = found.seconds.map(|sum| sum / ran);
    found
}

fn matches_name(name: &str, trial: &str) -> bool {
    name.strip_suffix('*').map_or(name == trial, |begin| trial.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_trials_that_ran_on_both_levels() {
        let line = |trial: &str, verdict: &str, signature: &str, wall: u32| {
            let verdict = format!(r#""verdict":{{"kind":"{verdict}"}}"#);
            let outcome = format!(r#""outcome":{{"signature":"{signature}"}}"#);
            format!(r#"{{"trial":"{trial}",{verdict},{outcome},"wall_ns":{wall}000000}}"#)
        };
        let hsa = [
            r#"{"begun":1}"#.to_owned(),
            line("a[x=1]", "pass", "pass", 100),
            line("b", "pass", "pass", 300),
            line("c", "pass", "pass", 900),
            line("d", "skip", "skip:x", 900),
            line("e", "pass", "pass", 900),
        ];
        let thunk = [
            line("a[x=1]", "pass", "pass", 200),
            line("b", "fail", "wrong-data", 600),
            line("c", "skip", "skip:program", 1),
            line("d", "skip", "skip:x", 1),
            line("e", "no-verdict", "no-verdict:gap", 1),
        ];
        let [hsa, thunk] = [hsa.join("\n"), thunk.join("\n")].map(|text| read(&text).unwrap());
        let found = compare(&hsa, &thunk);
        assert_eq!((found.equal, found.different, found.not_tried, found.gaps), (1, 1, 1, 1));
        assert_eq!(found.seconds, [0.2, 0.4]);
        assert_eq!(
            found.lines,
            [
                "b: pass (pass) at the HSA level, fail (wrong-data) at the thunk level: NOT EXPLAINED",
                "e: needs a feature that the thunk level lacks"
            ]
        );
        assert_eq!(compare(&hsa, &hsa).different, 0);
        assert!(
            matches_name("copies/*", "copies/a[x=1]") && !matches_name("copies/a", "copies/ab")
        );
    }
}
