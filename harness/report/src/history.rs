//! Summarises the results of a case over time, separately for each configuration.

use std::{collections::BTreeMap, fmt::Write};

use judge::{FailureIdentity, Kind, Rate, VerdictKind, may_be_same};
use serde::Serialize;

use crate::{
    Record, RunConfiguration,
    conditions::plan_digest,
    rates::percent,
    words::{BOLD, DIM, count, count_label, rank, styled},
};

/// All stored results of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// Name of the case or trial that the user asked for.
    pub of: String,
    /// Title of the case.
    pub title: String,
    /// Number of stored records of the case's trials.
    pub trials: usize,
    /// Number of the case's records by verdict.
    pub verdicts: BTreeMap<&'static str, usize>,
    /// Failures by signature, the most recent failure first.
    pub failures: Vec<Failure>,
    /// Results for each configuration. Results from different configurations are never counted together.
    pub grounds: Vec<ConfigurationHistory>,
}

/// A failure of the case, identified by its signature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// Signature of the failure.
    pub signature: String,
    /// Configurations on which the failure occurred.
    pub on: Vec<Sighting>,
}

/// Occurrences of a signature on one configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sighting {
    /// Name of the configuration.
    pub ground: String,
    /// True if the device of the configuration is emulated.
    pub emulated: bool,
    /// Number of times that a trial ran and failed with this signature.
    pub trials: usize,
    /// Date on which the first trial with this signature ended, RFC 3339 in UTC.
    pub first: String,
    /// Date on which the last trial with this signature ended, RFC 3339 in UTC.
    pub last: String,
}

/// Results of a case on one configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfigurationHistory {
    /// Name of the configuration.
    pub ground: String,
    /// Description of the configuration for people.
    pub words: String,
    /// True if the device of the configuration is emulated.
    pub emulated: bool,
    /// Number of runs that contain records of the case.
    pub runs: usize,
    /// Date on which the first trial ended, RFC 3339 in UTC.
    pub first: String,
    /// Date on which the last trial ended, RFC 3339 in UTC.
    pub last: String,
    /// Build ids of libamdhip64, each with the date of the first trial that used it.
    pub hip: Vec<(String, String)>,
    /// Number of records that are skipped or have no verdict. They count neither as passed nor as failed.
    pub not_counted: usize,
    /// Results of each trial.
    pub trials: Vec<TrialHistory>,
}

/// Results of one trial on one configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialHistory {
    /// Name of the trial.
    pub trial: String,
    /// Digest of the trial's plan or program, if its records contain one. After an edit of the case, the digest differs
    /// and the results are counted in another entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Number of times that the trial ran with a verdict.
    pub ran: u32,
    /// Number of times that the trial failed.
    pub failed: u32,
    /// 95 % interval (Clopper and Pearson) of the failure probability.
    pub interval: (f64, f64),
    /// Number of times that the trial ended with each signature.
    pub signatures: BTreeMap<String, u32>,
    /// Most recent signature, and the uninterrupted series of runs that ended with it.
    pub lately: RecentRuns,
}

/// The most recent runs of a trial, as far back as their signatures are equal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecentRuns {
    /// Signature of the most recent runs.
    pub signature: String,
    /// Date on which the first of the most recent runs ended, RFC 3339 in UTC.
    pub since: String,
    /// Number of most recent runs with this signature.
    pub times: u32,
    /// Date on which the last run with another signature ended; `None` if all runs have the same signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// Returns true if the record counts as passed or failed.
fn has_result(record: &Record) -> bool {
    !matches!(record.outcome.kind, Kind::Skip | Kind::NoVerdict)
}

impl History {
    /// Returns the history of `asked`, a case or trial, from the records of runs and their configurations.
    pub fn from_runs(asked: &str, runs: &[(RunConfiguration, Vec<Record>)]) -> History {
        let mut grounds: BTreeMap<&RunConfiguration, (usize, Vec<&Record>)> = BTreeMap::new();
        for (ground, records) in runs {
            let wanted = records.iter().filter(|r| r.case == asked || r.trial == asked);
            let wanted: Vec<&Record> = wanted.collect();
            if !wanted.is_empty() {
                let (runs, all) = grounds.entry(ground).or_default();
                *runs += 1;
                all.extend(wanted);
            }
        }
        // The sort is stable, so records with equal dates stay in the order of their runs and numbers.
        for (_, records) in grounds.values_mut() {
            records.sort_by(|a, b| a.date.cmp(&b.date));
        }
        let all = || grounds.values().flat_map(|(_, records)| records.iter().copied());
        let mut verdicts = BTreeMap::new();
        for record in all() {
            *verdicts.entry(count_label(record.verdict.kind)).or_default() += 1;
        }
        let latest = all().max_by(|a, b| a.date.cmp(&b.date));
        History {
            of: asked.to_owned(),
            title: latest.map(|record| record.title.clone()).unwrap_or_default(),
            trials: all().count(),
            verdicts,
            failures: failures(&grounds),
            grounds: grounds
                .iter()
                .map(|(ground, (runs, all))| summarize_configuration(ground, *runs, all))
                .collect(),
        }
    }

    /// Describes the history for people.
    pub fn text(&self) -> String {
        let mut text = styled(BOLD, &self.of);
        if !self.title.is_empty() {
            let _ = write!(text, ": {}", self.title);
        }
        let mut kinds = VerdictKind::ALL.to_vec();
        kinds.sort_by_key(|kind| rank(*kind));
        let numbers = kinds.into_iter().filter_map(|kind| {
            let n = self.verdicts.get(count_label(kind))?;
            Some(format!("{n} {}", count_label(kind)))
        });
        let numbers: Vec<String> = numbers.collect();
        let _ = writeln!(
            text,
            "\n{} on {}: {}",
            count(self.trials, "trial"),
            count(self.grounds.len(), "configuration"),
            numbers.join(", ")
        );
        for failure in &self.failures {
            let alone = match FailureIdentity::parse(&failure.signature).is_bare_exit() {
                true => " (only an exit status is known, so these may be different failures)",
                false => "",
            };
            let _ = writeln!(text, "\n{}{alone}", styled(BOLD, &failure.signature));
            for on in &failure.on {
                let when = match on.first == on.last {
                    true => format!("seen {}", on.first),
                    false => format!("first seen {}, last {}", on.first, on.last),
                };
                let _ =
                    writeln!(text, "    {when}: {} on {}", count(on.trials, "trial"), on.ground);
            }
        }
        for on in &self.grounds {
            on.write(&mut text);
        }
        text
    }
}

/// Number of hexadecimal digits of a case's digest that the text shows.
const SHOWN: usize = 8;

impl ConfigurationHistory {
    /// Describes to which version of the case the results of `of` belong; an empty string if there is only one version.
    fn version_of_case(&self, of: &TrialHistory) -> String {
        let same = self.trials.iter().filter(|other| other.trial == of.trial).count();
        match &of.text {
            _ if same < 2 => String::new(),
            Some(text) => {
                format!(" with version {} of the case", text.get(..SHOWN).unwrap_or(text))
            }
            None => " with an unrecorded version of the case".to_owned(),
        }
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "\n{}", styled(BOLD, &self.words));
        let _ =
            writeln!(text, "    {}, from {} to {}", count(self.runs, "run"), self.first, self.last);
        if self.hip.len() > 1 {
            for (id, since) in &self.hip {
                let _ = writeln!(text, "    libamdhip64 {id}: first seen {since}");
            }
        }
        let passed = self.trials.iter().filter(|trial| trial.failed == 0);
        let (trials, runs) =
            passed.fold((0_usize, 0), |(trials, runs), trial| (trials + 1, runs + trial.ran));
        if trials > 0 {
            let _ = writeln!(
                text,
                "    {} passed whenever {} ran, {} in total",
                count(trials, "trial"),
                if trials == 1 { "it" } else { "they" },
                count(runs, "time")
            );
        }
        let mut names: Vec<&str> = self.trials.iter().map(|trial| trial.trial.as_str()).collect();
        let entries = names.len();
        names.dedup();
        if names.len() < entries {
            text.push_str(
                "    The text of the case changed in between; each version is counted separately.\n",
            );
        }
        if self.not_counted > 0 {
            let _ = writeln!(
                text,
                "    {} skipped or without verdict, not counted",
                count(self.not_counted, "trial")
            );
        }
        for trial in self.trials.iter().filter(|trial| trial.failed > 0) {
            let (low, high) = trial.interval;
            let _ = writeln!(
                text,
                "    {}{}: {} of {} failed; fails in {} to {} of runs {}",
                trial.trial,
                self.version_of_case(trial),
                trial.failed,
                trial.ran,
                percent(low),
                percent(high),
                styled(DIM, "(95 % interval, two-sided)")
            );
            if trial.signatures.len() > 1 {
                for (signature, n) in &trial.signatures {
                    let _ = writeln!(text, "        {n} x {signature}");
                }
            }
            let RecentRuns { signature, since, times, before } = &trial.lately;
            let _ = match (before, times) {
                (None, 1) => writeln!(text, "        {signature}, {since}"),
                (None, times) => {
                    writeln!(text, "        {signature} in each of {times} runs since {since}")
                }
                (Some(before), times) => writeln!(
                    text,
                    "        most recently {signature}, {} since {since}; another result until {before}",
                    count(*times, "time")
                ),
            };
        }
    }
}

fn failures(grounds: &BTreeMap<&RunConfiguration, (usize, Vec<&Record>)>) -> Vec<Failure> {
    let mut found: BTreeMap<&str, Vec<Sighting>> = BTreeMap::new();
    for (ground, (_, records)) in grounds {
        for record in records.iter().filter(|r| has_result(r) && r.outcome.kind.is_failure()) {
            let on = found.entry(&record.outcome.signature).or_default();
            match on.last_mut() {
                Some(sighting) if sighting.ground == ground.name => {
                    sighting.trials += 1;
                    sighting.last.clone_from(&record.date);
                }
                _ => on.push(Sighting {
                    ground: ground.name.clone(),
                    emulated: record.device.emulated,
                    trials: 1,
                    first: record.date.clone(),
                    last: record.date.clone(),
                }),
            }
        }
    }
    let mut failures: Vec<Failure> = found
        .into_iter()
        .map(|(signature, on)| Failure { signature: signature.to_owned(), on })
        .collect();
    let last = |failure: &Failure| failure.on.iter().map(|on| on.last.clone()).max();
    failures.sort_by_key(|failure| std::cmp::Reverse(last(failure)));
    failures
}

/// Summarises the records of a case on one configuration. `runs` is the number of runs that contain the records.
/// `records` is sorted by date and not empty.
fn summarize_configuration(
    ground: &RunConfiguration,
    runs: usize,
    records: &[&Record],
) -> ConfigurationHistory {
    let mut trials: BTreeMap<(&str, Option<&str>), Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|record| has_result(record)) {
        trials.entry((&record.trial, plan_digest(record))).or_default().push(record);
    }
    let mut hip: Vec<(String, String)> = Vec::new();
    for record in records {
        let library = record.stack.libraries.iter().find(|l| l.name.starts_with("libamdhip64"));
        let Some(id) = library.and_then(|library| library.build_id.clone()) else { continue };
        if !hip.iter().any(|(there, _)| *there == id) {
            hip.push((id, record.date.clone()));
        }
    }
    let end = |record: Option<&&Record>| record.map(|r| r.date.clone()).unwrap_or_default();
    ConfigurationHistory {
        ground: ground.name.clone(),
        words: ground.words.clone(),
        emulated: records.first().is_some_and(|record| record.device.emulated),
        runs,
        first: end(records.first()),
        last: end(records.last()),
        hip,
        not_counted: records.iter().filter(|record| !has_result(record)).count(),
        trials: trials
            .into_iter()
            .filter_map(|((trial, text), records)| summarize_trial(trial, text, &records))
            .collect(),
    }
}

fn summarize_trial(trial: &str, text: Option<&str>, records: &[&Record]) -> Option<TrialHistory> {
    let mut signatures: BTreeMap<String, u32> = BTreeMap::new();
    for record in records {
        *signatures.entry(record.outcome.signature.clone()).or_default() += 1;
    }
    let failed = records.iter().filter(|record| record.outcome.kind.is_failure()).count();
    let rate = Rate { hits: u32::try_from(failed).ok()?, runs: u32::try_from(records.len()).ok()? };
    let signature = &records.last()?.outcome.signature;
    let lately = records.iter().rev().take_while(|r| may_be_same(&r.outcome.signature, signature));
    let times = lately.count();
    let (before, same) = records.split_at(records.len() - times);
    Some(TrialHistory {
        trial: trial.to_owned(),
        text: text.map(str::to_owned),
        ran: rate.runs,
        failed: rate.hits,
        interval: rate.interval(),
        signatures,
        lately: RecentRuns {
            signature: signature.clone(),
            since: same.first()?.date.clone(),
            times: u32::try_from(times).ok()?,
            before: before.last().map(|record| record.date.clone()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{
        failed, on_gpu, passed, plain, skipped, unproven, with_digest, with_options,
    };

    fn at(day: u32, mut record: Record) -> Record {
        record.date = format!("2026-11-{day:02}T01:00:00Z");
        record
    }

    fn run(records: Vec<Record>) -> (RunConfiguration, Vec<Record>) {
        (RunConfiguration::from_records(&records).expect("a ground"), records)
    }

    /// Records of different versions of a case, or with different options, are not counted together.
    #[test]
    fn versions_and_options_are_counted_separately() {
        let history_text = |runs: &[(RunConfiguration, Vec<Record>)]| {
            plain(&History::from_runs("a/b", runs).text())
        };
        let text = history_text(&[
            run(vec![at(1, with_digest("0123456789", passed("a/b")))]),
            run(vec![at(2, with_digest("abcdefghij", failed("a/b")))]),
        ]);
        assert!(text.contains("2 trials on 1 configuration"), "{text}");
        assert!(
            text.contains("    a/b with version abcdefgh of the case: 1 of 1 failed;"),
            "{text}"
        );
        assert!(
            text.contains("The text of the case changed in between; each version is counted"),
            "{text}"
        );
        let variable = [("--env", "AMD_SERIALIZE_COPY=3")];
        let text = history_text(&[
            run(vec![at(1, with_options(&[], failed("a/b")))]),
            run(vec![at(2, with_options(&variable, passed("a/b")))]),
        ]);
        assert!(text.contains("2 trials on 2 configurations"), "{text}");
        assert!(text.contains("    a/b: 1 of 1 failed;"), "{text}");
        assert!(text.contains("not a GPU result; with AMD_SERIALIZE_COPY=3\n"), "{text}");
    }

    #[test]
    fn each_configuration_is_counted_separately() {
        let mut rebuilt = failed("a/b[x=1]");
        rebuilt.stack.libraries[0].build_id = Some("4567".to_owned());
        let runs = [
            run(vec![at(1, passed("a/b[x=1]")), at(1, passed("a/b[x=2]")), at(1, passed("a/c"))]),
            run(vec![at(2, rebuilt), at(2, passed("a/b[x=2]")), at(2, skipped("a/b[x=3]"))]),
            run(vec![at(3, failed("a/b[x=1]")), at(3, unproven("a/b[x=2]"))]),
            run(vec![at(4, on_gpu(failed("a/b[x=1]")))]),
        ];
        let history = History::from_runs("a/b", &runs);
        insta::assert_snapshot!(plain(&history.text()));
        let one = History::from_runs("a/b[x=2]", &runs);
        assert_eq!((one.trials, one.failures.len()), (3, 0));
        assert_eq!(History::from_runs("a/d", &runs).trials, 0);
    }
}
