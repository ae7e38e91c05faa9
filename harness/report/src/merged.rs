//! Merges the shards of a run into one run.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Record, RecordedRun, RunPlan, Shard, ShardError, words::count};

/// Maximum number of trials that an error message names.
const NAMED: usize = 10;

/// A run that was merged from its shards.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedRun {
    /// Plan of the whole run.
    pub opened: RunPlan,
    /// Records of the finished trials, with their numbers in the whole run.
    pub records: Vec<Record>,
    /// Planned trials without a record, each with the file in which it is missing.
    pub missing: MissingTrials,
}

impl MergedRun {
    /// Merges the shards of one run, each given with its file name. All shards must have the same plan and rocrepro
    /// version, and each trial must be in exactly one shard.
    ///
    /// # Errors
    /// Returns all violations of these conditions.
    pub fn from_shards(held: &[(String, RecordedRun)]) -> Result<MergedRun, Vec<String>> {
        let part = |(file, held): &(String, RecordedRun)| ShardPlan {
            file: file.clone(),
            opened: held.opened.clone(),
            numbers: held.records.keys().copied().collect(),
        };
        let mut merging = ShardMerger::new(held.iter().map(part).collect());
        let order = merging.order().to_vec();
        let records =
            order.iter().flat_map(|at| held[*at].1.records.values().map(move |r| (*at, r)));
        let records = records.map(|(at, record)| merging.add_record(at, record.clone())).collect();
        let (opened, missing) = merging.end()?;
        Ok(MergedRun { opened, records, missing })
    }
}

/// One shard, as it is known before its records are read: its plan and the numbers of its finished trials.
#[derive(Clone, Debug)]
pub struct ShardPlan {
    /// Name of the shard's file.
    pub file: String,
    /// First line of the shard's file, which contains the plan of the shard.
    pub opened: RunPlan,
    /// Numbers of the trials that have a record.
    pub numbers: BTreeSet<u64>,
}

/// Planned trials without a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingTrials {
    /// The missing trials that [`crate::Missing::listed`] names, each as the name of the file that lacks it and the
    /// name of the trial.
    pub listed: Vec<(String, String)>,
    /// Number of all missing trials.
    pub count: u64,
}

/// Merges shards record by record, so that only one record at a time is in memory.
#[derive(Debug)]
pub struct ShardMerger {
    parts: Vec<ShardPlan>,
    /// Indices into `parts`, in the order of the shards. Empty if the parts are not the shards of one run.
    order: Vec<usize>,
    /// For each part, the number of its first trial in the whole run.
    first: Vec<u64>,
    opened: Option<RunPlan>,
    problems: Vec<String>,
    /// First errors about single trials.
    wrong: Vec<String>,
    /// Number of further errors about single trials.
    more: usize,
    versions: BTreeSet<String>,
}

impl ShardMerger {
    /// Checks the plans of the shards and prepares the merge.
    pub fn new(parts: Vec<ShardPlan>) -> ShardMerger {
        let (mut problems, same) = check_plans(&parts);
        // If the plans differ or a shard occurs twice, errors about single trials would only repeat this.
        let wrong = if same { planned(&parts) } else { Vec::new() };
        let mut merging = ShardMerger {
            order: Vec::new(),
            first: vec![0; parts.len()],
            opened: None,
            problems: Vec::new(),
            wrong,
            more: 0,
            versions: BTreeSet::new(),
            parts,
        };
        if problems.is_empty() {
            merging.begin();
        }
        merging.problems.append(&mut problems);
        merging
    }

    fn begin(&mut self) {
        let parts = &self.parts;
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|at| parts[*at].opened.shard);
        let (mut number, mut trials) = (0, Vec::new());
        for at in &order {
            // The numbers of a shard are consecutive and continue those of the previous shard.
            self.first[*at] = number;
            number = u64::saturating_add(number, parts[*at].opened.planned());
            trials.extend(parts[*at].opened.trials.iter().cloned());
        }
        let all = || order.iter().map(|at| &parts[*at].opened);
        let builds: BTreeSet<&str> = all().map(|opened| opened.build.as_str()).collect();
        self.opened = parts.first().map(|whole| RunPlan {
            opened: all().map(|opened| opened.opened.clone()).min().unwrap_or_default(),
            run: merged_name(all()),
            resumes: None,
            trials,
            shard: None,
            build: if builds.len() == 1 { whole.opened.build.clone() } else { String::new() },
            merged: all().map(|opened| opened.run.clone()).collect(),
            ..whole.opened.clone()
        });
        self.order = order;
    }

    /// Returns the indices of the parts, in the order of their trials. Empty if the parts are not the shards of one
    /// run.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the plan of the whole run; `None` if the parts are not the shards of one run.
    pub fn opened(&self) -> Option<&RunPlan> {
        self.opened.as_ref()
    }

    /// Checks a record of the part with index `part`, and returns it with its number in the whole run. The records of a
    /// part must be passed in the order of their numbers.
    pub fn add_record(&mut self, part: usize, record: Record) -> Record {
        let ShardPlan { file, opened, .. } = &self.parts[part];
        let trial = opened.trial(record.number);
        if trial != Some(&record.trial) {
            let otherwise = match trial {
                Some(trial) => format!("but its plan has {trial} there"),
                None => "but its plan has no trial of that number".to_owned(),
            };
            match self.wrong.len() > NAMED {
                true => self.more += 1,
                false => self.wrong.push(format!(
                    "{file} has a record of {} as trial {}, {otherwise}",
                    record.trial, record.number
                )),
            }
        }
        if !self.versions.contains(&record.rocrepro) {
            self.versions.insert(record.rocrepro.clone());
        }
        let run = self.opened.as_ref().map(|opened| opened.run.clone()).unwrap_or_default();
        Record { run, number: self.first[part].saturating_add(record.number), ..record }
    }

    /// Returns the plan of the whole run, and the planned trials without a record.
    ///
    /// # Errors
    /// Returns all reasons why the parts are not the shards of one run by one version of rocrepro.
    pub fn end(self) -> Result<(RunPlan, MissingTrials), Vec<String>> {
        let ShardMerger { parts, order, opened, mut problems, mut wrong, more, versions, .. } =
            self;
        let more = wrong.len().saturating_sub(NAMED) + more;
        if more > 0 {
            wrong.truncate(NAMED);
            wrong.push(format!("and {} more", count(more, "such trial")));
        }
        problems.append(&mut wrong);
        if versions.len() > 1 {
            let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
            problems.push(format!(
                "the records come from different versions of rocrepro: {}",
                versions.join(" and ")
            ));
        }
        let Some(opened) = opened.filter(|_| problems.is_empty()) else { return Err(problems) };
        let mut missing = MissingTrials::default();
        for at in order {
            let ShardPlan { file, opened, numbers } = &parts[at];
            let of_part = opened.missing(numbers.iter().copied());
            missing.count = missing.count.saturating_add(of_part.count);
            let named = of_part.listed.into_iter().map(|(_, trial)| (file.clone(), trial));
            missing.listed.extend(named);
        }
        Ok((opened, missing))
    }
}

/// Returns the name of the merged run, which depends only on the names of the shards' runs.
fn merged_name<'o>(parts: impl Iterator<Item = &'o RunPlan>) -> String {
    let names: Vec<&str> = parts.map(|opened| opened.run.as_str()).collect();
    format!("merged-{}", names.join("+"))
}

/// Returns the differences between the plans, and the shards that are missing. The second value is true if the parts
/// are distinct shards of one plan, even if some shards are missing.
fn check_plans(parts: &[ShardPlan]) -> (Vec<String>, bool) {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<Option<Shard>, &str> = BTreeMap::new();
    let Some(ShardPlan { file: first, opened: whole, .. }) = parts.first() else {
        return (vec!["no run".to_owned()], false);
    };
    for ShardPlan { file: name, opened, .. } in parts {
        let (ours, theirs) = (opened.shard, whole.shard);
        let of = |shard: Option<Shard>| shard.map(|s| s.of);
        if (&opened.digest, opened.repeat, of(ours)) != (&whole.digest, whole.repeat, of(theirs)) {
            problems.push(ShardError::Different(first.clone(), name.clone()).to_string());
        } else if let Some(other) = seen.insert(ours, name) {
            let shard = ours.map_or("run".to_owned(), |shard| format!("shard, {shard}"));
            problems.push(ShardError::Twice(other.to_owned(), name.clone(), shard).to_string());
        }
    }
    let same = problems.is_empty();
    let all = whole.shard.into_iter().flat_map(Shard::all);
    let missing = all.filter(|shard| !seen.contains_key(&Some(*shard)));
    problems.extend(missing.map(|shard| ShardError::Missing(format!("shard {shard}")).to_string()));
    (problems, same)
}

/// Checks the plans of all parts. Returns an error for each planned trial that belongs to another shard, and for each
/// trial that two plans contain.
fn planned(parts: &[ShardPlan]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut planned: BTreeMap<&str, &str> = BTreeMap::new();
    for ShardPlan { file, opened, .. } in parts {
        for trial in &opened.trials {
            if opened.shard.is_some_and(|shard| !shard.contains(trial)) {
                problems.push(format!(
                    "the plan in {file} contains {trial}, which belongs to another shard"
                ));
            }
            if let Some(other) = planned.insert(trial, file)
                && other != file
            {
                problems.push(format!("the plans in {other} and {file} both contain {trial}"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FORMAT, Line, fixture::passed};

    /// Generator of pseudo-random numbers.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, n: usize) -> usize {
            self.0 = device::mix(self.0);
            (self.0 % n as u64) as usize
        }
    }

    type Parts = Vec<(String, RecordedRun)>;

    fn shards(of: u32, trials: usize, repeat: u32) -> Vec<(String, RecordedRun)> {
        (1..=of)
            .map(|number| {
                let shard = Shard { number, of };
                let names = (0..trials).map(|n| format!("copies/sizes[n={n}]"));
                let opened = RunPlan {
                    format: FORMAT,
                    opened: "2026-11-22T01:02:03Z".to_owned(),
                    run: format!("r{number}"),
                    resumes: None,
                    trials: names.filter(|name| shard.contains(name)).collect(),
                    repeat,
                    shard: Some(shard),
                    digest: "d".to_owned(),
                    build: String::new(),
                    merged: Vec::new(),
                };
                let record = |(n, trial): (u64, &str)| {
                    (n, Record { run: opened.run.clone(), number: n, ..passed(trial) })
                };
                let records = opened
                    .missing([])
                    .listed
                    .iter()
                    .map(|(n, trial)| record((*n, trial.as_str())))
                    .collect();
                (
                    format!("part-{number}"),
                    RecordedRun {
                        records,
                        opened,
                        without_health_check: BTreeSet::new(),
                        lost: BTreeMap::new(),
                    },
                )
            })
            .collect()
    }

    /// The merged run contains each trial of each shard once, whatever the order of the files is.
    #[test]
    fn merges_seven_shards_in_any_order() {
        let mut draw = Draw(7);
        for round in 0..20 {
            let mut parts = shards(7, 60 + round, 1 + round as u32 % 3);
            for last in (1..parts.len()).rev() {
                parts.swap(last, draw.below(last + 1));
            }
            let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
            for (_, held) in &parts {
                held.records
                    .values()
                    .for_each(|r| *wanted.entry(r.trial.clone()).or_default() += 1);
            }
            let MergedRun { opened, records, missing } =
                MergedRun::from_shards(&parts).expect("one run");
            assert_eq!(missing, MissingTrials::default());
            let mut lines = vec![serde_json::to_string(&Line::Opened(opened)).expect("JSON")];
            lines.extend(records.iter().map(|r| crate::to_line(r).expect("JSON")));
            let read = RecordedRun::parse_last(&lines.join("\n"));
            assert_eq!((read.len(), read[0].missing().count), (1, 0));
            let mut got: BTreeMap<String, usize> = BTreeMap::new();
            read[0].records.values().for_each(|r| *got.entry(r.trial.clone()).or_default() += 1);
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn reports_all_errors_of_shards() {
        let mut draw = Draw(11);
        for _ in 0..20 {
            let at = draw.below(7);
            let merge_changed = |change: &dyn Fn(&mut Parts)| {
                let mut parts = shards(7, 80, 2);
                change(&mut parts);
                MergedRun::from_shards(&parts).map_err(|problems| problems.join("\n"))
            };
            let name = format!("part-{}", at + 1);
            let shard = format!("{}/7", at + 1);

            let missing =
                merge_changed(&|parts| drop(parts.remove(at))).expect_err("one is missing");
            assert_eq!(missing, format!("no file contains shard {shard}"));
            let twice =
                merge_changed(&|parts| parts.push(parts[at].clone())).expect_err("one is double");
            assert_eq!(twice, format!("{name} and {name} both contain the same shard, {shard}"));
            // A shard with another plan is detected at any position.
            let other = merge_changed(&|parts| parts[at].1.opened.digest = "e".to_owned());
            assert!(other.expect_err("another plan").contains("belong to different runs"));
            let foreign =
                merge_changed(&|parts| parts[at].1.opened.trials[0] = "x/foreign".to_owned());
            assert!(foreign.expect_err("another trial").contains("x/foreign"));
            let moved = merge_changed(&|parts| {
                let (_, other) = &parts[(at + 1) % 7];
                parts[at].1.opened.trials = other.opened.trials.clone();
            });
            let moved = moved.expect_err("trials of another shard");
            assert!(moved.contains("which belongs to another shard"), "{moved}");
            assert!(moved.contains("such trial") && moved.lines().count() <= NAMED + 1, "{moved}");
            let version = merge_changed(&|parts| {
                let record = parts[at].1.records.values_mut().next().expect("a record");
                record.rocrepro = "9.9.9".to_owned();
            });
            assert!(version.expect_err("another version").contains("0.1.0 and 9.9.9"));
            // In the incomplete file, the record of the last trial is missing.
            let torn = merge_changed(&|parts| _ = parts[at].1.records.pop_last());
            let torn = torn.expect("one run");
            assert_eq!(torn.missing.count, 1);
            assert_eq!(torn.missing.listed[0].0, name);
            assert_eq!(torn.records.len(), 159);
        }
    }
}
