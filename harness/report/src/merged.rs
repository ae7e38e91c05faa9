//! The shards of a run put together to one.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Held, NotOne, Opened, Record, Shard, words::count};

/// Trials that are named at most, of those with which something is wrong.
const NAMED: usize = 10;

/// A run that was made of its shards.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// What all of them were to do.
    pub opened: Opened,
    /// The trials that are over, with their numbers in it.
    pub records: Vec<Record>,
    /// Planned trials without a record, each with the file that lacks it.
    pub missing: Vec<(String, String)>,
}

impl Merged {
    /// Puts the shards of one run together, by the names of their files: the same plan by the same rocrepro, each trial of it in
    /// exactly one.
    ///
    /// # Errors
    /// All reasons why they are not that.
    pub fn of(held: &[(String, Held)]) -> Result<Merged, Vec<String>> {
        let (mut problems, same) = plans(held);
        // Of different plans, or of one twice, trials could tell nothing else.
        if same {
            problems.extend(trials(held));
        }
        let Some((_, whole)) = held.first().filter(|_| problems.is_empty()) else {
            return Err(problems);
        };
        let mut parts: Vec<&(String, Held)> = held.iter().collect();
        parts.sort_by_key(|(_, held)| held.opened.shard);
        let (mut number, mut missing) = (0, Vec::new());
        let (mut records, mut trials) = (Vec::new(), Vec::new());
        let name = merged_name(&parts);
        for (file, held) in &parts {
            missing.extend(held.missing().map(|(_, trial)| (file.clone(), trial.to_owned())));
            trials.extend(held.opened.trials.iter().cloned());
            // A shard's numbers follow each other, and so do the shards.
            records.extend(held.records.iter().map(|(n, record)| Record {
                run: name.clone(),
                number: number + n,
                ..record.clone()
            }));
            number += held.opened.all().count() as u64;
        }
        let opened = Opened {
            opened: parts.iter().map(|(_, h)| h.opened.opened.clone()).min().unwrap_or_default(),
            run: name,
            resumes: None,
            trials,
            shard: None,
            build: one_build(&parts),
            merged: parts.iter().map(|(_, held)| held.opened.run.clone()).collect(),
            ..whole.opened.clone()
        };
        Ok(Merged { opened, records, missing })
    }
}

/// The build that began all parts; empty where there are several.
fn one_build(parts: &[&(String, Held)]) -> String {
    let mut builds = parts.iter().map(|(_, held)| &held.opened.build);
    let first = builds.next().cloned().unwrap_or_default();
    if builds.all(|build| *build == first) { first } else { String::new() }
}

/// A name that the same shards have each time, and others never.
fn merged_name(parts: &[&(String, Held)]) -> String {
    let names: Vec<&str> = parts.iter().map(|(_, held)| held.opened.run.as_str()).collect();
    format!("merged-{}", names.join("+"))
}

/// What is wrong with the runs as shards of one, and whether each is at least another shard of the same plan.
fn plans(held: &[(String, Held)]) -> (Vec<String>, bool) {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<Option<Shard>, &str> = BTreeMap::new();
    let Some((first, whole)) = held.first() else {
        return (vec!["no run".to_owned()], false);
    };
    for (name, held) in held {
        let (ours, theirs) = (held.opened.shard, whole.opened.shard);
        let of = |shard: Option<Shard>| shard.map(|s| s.of);
        if (&held.opened.digest, held.opened.repeat, of(ours))
            != (&whole.opened.digest, whole.opened.repeat, of(theirs))
        {
            problems.push(NotOne::Different(first.clone(), name.clone()).to_string());
        } else if let Some(other) = seen.insert(ours, name) {
            let shard = ours.map_or("run".to_owned(), |shard| format!("shard, {shard}"));
            problems.push(NotOne::Twice(other.to_owned(), name.clone(), shard).to_string());
        }
    }
    let same = problems.is_empty();
    let all = whole.opened.shard.into_iter().flat_map(Shard::all);
    let missing = all.filter(|shard| !seen.contains_key(&Some(*shard)));
    problems.extend(missing.map(|shard| NotOne::Missing(format!("shard {shard}")).to_string()));
    (problems, same)
}

/// What is wrong with their trials.
fn trials(held: &[(String, Held)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut planned: BTreeMap<&str, &str> = BTreeMap::new();
    let mut versions: BTreeSet<&str> = BTreeSet::new();
    for (name, held) in held {
        for trial in &held.opened.trials {
            if held.opened.shard.is_some_and(|shard| !shard.holds(trial)) {
                problems.push(format!("{name} plans {trial}, which is of another shard"));
            }
            if let Some(other) = planned.insert(trial, name)
                && other != name
            {
                problems.push(format!("{other} and {name} both plan {trial}"));
            }
        }
        let plan: BTreeMap<u64, &str> = held.opened.all().collect();
        for (number, record) in &held.records {
            versions.insert(&record.rocrepro);
            match plan.get(number) {
                Some(trial) if *trial == record.trial => {}
                Some(trial) => problems.push(format!(
                    "{name} has a record of {} as trial {number}, which is {trial}",
                    record.trial
                )),
                None => problems.push(format!(
                    "{name} has a record of {} as trial {number}, and plans none of that number",
                    record.trial
                )),
            }
        }
    }
    let more = problems.len().saturating_sub(NAMED);
    if more > 0 {
        problems.truncate(NAMED);
        problems.push(format!("and {} more", count(more, "such trial")));
    }
    if versions.len() > 1 {
        let versions: Vec<&str> = versions.into_iter().collect();
        problems.push(format!(
            "the records come from different versions of rocrepro: {}",
            versions.join(" and ")
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FORMAT, Line, fixture::passed};

    /// Numbers as a seed gives them.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, n: usize) -> usize {
            self.0 = device::mix(self.0);
            (self.0 % n as u64) as usize
        }
    }

    type Parts = Vec<(String, Held)>;

    fn shards(of: u32, trials: usize, repeat: u32) -> Vec<(String, Held)> {
        (1..=of)
            .map(|number| {
                let shard = Shard { number, of };
                let names = (0..trials).map(|n| format!("copies/sizes[n={n}]"));
                let opened = Opened {
                    format: FORMAT,
                    opened: "2026-11-22T01:02:03Z".to_owned(),
                    run: format!("r{number}"),
                    resumes: None,
                    trials: names.filter(|name| shard.holds(name)).collect(),
                    repeat,
                    shard: Some(shard),
                    digest: "d".to_owned(),
                    build: String::new(),
                    merged: Vec::new(),
                };
                let record = |(n, trial): (u64, &str)| {
                    (n, Record { run: opened.run.clone(), number: n, ..passed(trial) })
                };
                let records = opened.all().map(record).collect();
                (
                    format!("part-{number}"),
                    Held { records, opened, not_looked: BTreeSet::new(), lost: BTreeMap::new() },
                )
            })
            .collect()
    }

    /// Each trial of each shard once, counted from the lines alone, whatever the order of the files is.
    #[test]
    fn seven_shards_are_their_run() {
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
            let Merged { opened, records, missing } = Merged::of(&parts).expect("one run");
            assert_eq!(missing, []);
            let mut lines = vec![serde_json::to_string(&Line::Opened(opened)).expect("JSON")];
            lines.extend(records.iter().map(|r| crate::to_line(r).expect("JSON")));
            let read = Held::last(&lines.join("\n"));
            assert_eq!((read.len(), read[0].missing().count()), (1, 0));
            let mut got: BTreeMap<String, usize> = BTreeMap::new();
            read[0].records.values().for_each(|r| *got.entry(r.trial.clone()).or_default() += 1);
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn whatever_is_wrong_with_shards_is_told() {
        let mut draw = Draw(11);
        for _ in 0..20 {
            let at = draw.below(7);
            let told = |change: &dyn Fn(&mut Parts)| {
                let mut parts = shards(7, 80, 2);
                change(&mut parts);
                Merged::of(&parts).map_err(|problems| problems.join("\n"))
            };
            let name = format!("part-{}", at + 1);
            let shard = format!("{}/7", at + 1);

            let missing = told(&|parts| drop(parts.remove(at))).expect_err("one is missing");
            assert_eq!(missing, format!("no file holds shard {shard}"));
            let twice = told(&|parts| parts.push(parts[at].clone())).expect_err("one is double");
            assert_eq!(twice, format!("{name} and {name} hold the same shard, {shard}"));
            // The other plan is told wherever it stands.
            let other = told(&|parts| parts[at].1.opened.digest = "e".to_owned());
            assert!(other.expect_err("another plan").contains("are of different runs"));
            let foreign = told(&|parts| parts[at].1.opened.trials[0] = "x/foreign".to_owned());
            assert!(foreign.expect_err("another trial").contains("x/foreign"));
            let moved = told(&|parts| {
                let (_, other) = &parts[(at + 1) % 7];
                parts[at].1.opened.trials = other.opened.trials.clone();
            });
            let moved = moved.expect_err("trials of another shard");
            assert!(moved.contains("which is of another shard"), "{moved}");
            assert!(moved.contains("such trial") && moved.lines().count() <= NAMED + 1, "{moved}");
            let version = told(&|parts| {
                let record = parts[at].1.records.values_mut().next().expect("a record");
                record.rocrepro = "9.9.9".to_owned();
            });
            assert!(version.expect_err("another version").contains("0.1.0 and 9.9.9"));
            // One that was torn lacks its last trial.
            let torn = told(&|parts| _ = parts[at].1.records.pop_last());
            let torn = torn.expect("one run");
            assert_eq!(torn.missing.len(), 1);
            assert_eq!(torn.missing[0].0, name);
            assert_eq!(torn.records.len(), 159);
        }
    }
}
