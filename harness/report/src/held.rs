//! What a record file holds of one run, which may have been ended and resumed: what it was to do, what is over, what is left.

use std::{collections::BTreeMap, time::Duration};

use chrono::DateTime;
use judge::{Kind, Location, Outcome, Verdict, VerdictKind};

use crate::{Begun, Line, Opened, Record};

/// A run and those that resumed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// What it was to do.
    pub opened: Opened,
    /// The trials that are over, by their numbers.
    pub records: BTreeMap<u64, Record>,
    /// The trials that began and have no record, each as it began last, by their numbers.
    pub lost: BTreeMap<u64, Begun>,
}

impl Held {
    /// The last run of a record file that says what it was to do; none where no run does. Lines that were torn when their writer
    /// ended, and those of other runs, are passed over.
    pub fn last(text: &str) -> Option<Held> {
        let lines: Vec<Line> = text.lines().filter_map(|line| Line::parse(line).ok()).collect();
        let opened = |line: &Line| match line {
            Line::Opened(opened) => Some(opened.clone()),
            Line::Begun(_) | Line::Over(_) | Line::Trial(_) => None,
        };
        let all: Vec<Opened> = lines.iter().filter_map(opened).collect();
        let last = all.last()?;
        let first = last.resumes.as_ref().unwrap_or(&last.run);
        let opened = all.iter().find(|opened| opened.run == *first)?.clone();
        let ours = |run: &str| {
            let resumes = |o: &Opened| o.run == run && o.resumes.as_ref() == Some(&opened.run);
            run == opened.run || all.iter().any(resumes)
        };
        let (mut records, mut lost) = (BTreeMap::new(), BTreeMap::new());
        for line in lines {
            match line {
                Line::Trial(record) if ours(&record.run) => {
                    drop(records.insert(record.number, *record));
                }
                Line::Begun(begun) if ours(&begun.run) => drop(lost.insert(begun.number, begun)),
                Line::Trial(_) | Line::Begun(_) | Line::Over(_) | Line::Opened(_) => {}
            }
        }
        lost.retain(|number, _| !records.contains_key(number));
        Some(Held { opened, records, lost })
    }

    /// From the beginning of the run to the end of its last trial; a break before it was resumed counts.
    pub fn took(&self) -> Duration {
        let date = |text: &str| DateTime::parse_from_rfc3339(text).ok();
        let last = self.records.values().filter_map(|record| date(&record.date)).max();
        let took = date(&self.opened.opened).zip(last).map(|(first, last)| last - first);
        took.and_then(|took| took.to_std().ok()).unwrap_or_default()
    }

    /// The trials that have no record, by their numbers.
    pub fn missing(&self) -> impl Iterator<Item = (u64, &str)> {
        self.opened.all().filter(|(number, _)| !self.records.contains_key(number))
    }

    /// Records of what is missing, which have no verdict. None where nothing is over: what it would have run on is not known then.
    pub fn not_run(&self) -> Vec<Record> {
        let Some(like) = self.records.values().next() else { return Vec::new() };
        self.missing().map(|(number, trial)| not_run(like, number, trial)).collect()
    }
}

/// A trial that was not run, of the run that a record is of.
fn not_run(like: &Record, number: u64, trial: &str) -> Record {
    let outcome = Outcome {
        kind: Kind::NoVerdict,
        signature: "no-verdict:not-run".to_owned(),
        at: Location::default(),
        summary: "the run ended before this trial was over".to_owned(),
        details: Vec::new(),
    };
    Record {
        number,
        case: trial.split('[').next().unwrap_or(trial).to_owned(),
        trial: trial.to_owned(),
        title: String::new(),
        upstream: Vec::new(),
        faults: Vec::new(),
        outcome,
        red: Vec::new(),
        acts: Vec::new(),
        verdict: Verdict { kind: VerdictKind::NoVerdict, known: None },
        wall_ns: 0,
        stderr_tail: String::new(),
        ..like.clone()
    }
}

/// Why the runs of several files are not the shards of one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOne {
    /// They were to do different things.
    #[error("{0} and {1} are of different runs: other trials, options or libraries")]
    Different(String, String),
    /// The same trials are in two.
    #[error("{0} and {1} hold the same shard{2}")]
    Twice(String, String, String),
    /// Some trials are in none.
    #[error("no file holds shard {}", .0.join(", "))]
    Missing(Vec<String>),
}

/// Checks that the runs, by the names of their files, are the shards of one, each once and all of them.
///
/// # Errors
/// The first reason why they are not.
pub fn shards(held: &[(String, Held)]) -> Result<(), NotOne> {
    let mut seen: BTreeMap<Option<Shard>, &str> = BTreeMap::new();
    let Some((first, whole)) = held.first() else { return Ok(()) };
    for (name, held) in held {
        let (ours, theirs) = (held.opened.shard, whole.opened.shard);
        if held.opened.digest != whole.opened.digest || ours.map(|s| s.of) != theirs.map(|s| s.of) {
            return Err(NotOne::Different(first.clone(), name.clone()));
        }
        if let Some(other) = seen.insert(ours, name) {
            let shard = ours.map(|shard| format!(", {shard}")).unwrap_or_default();
            return Err(NotOne::Twice(other.to_owned(), name.clone(), shard));
        }
    }
    let all = whole.opened.shard.into_iter().flat_map(|shard| shard.all());
    let missing: Vec<_> =
        all.filter(|shard| !seen.contains_key(&Some(*shard))).map(|s| s.to_string()).collect();
    if missing.is_empty() { Ok(()) } else { Err(NotOne::Missing(missing)) }
}

/// A part of a run's trials, such as `2/5`: the second of five.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub struct Shard {
    /// Which, counted from 1.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

impl Shard {
    /// All shards of as many.
    fn all(self) -> impl Iterator<Item = Shard> {
        (1..=self.of).map(move |number| Shard { number, of: self.of })
    }

    /// Whether a trial belongs to it. That depends on its name alone, so that other trials come and go without moving it.
    pub fn holds(self, trial: &str) -> bool {
        // FNV-1a, 64 bits (Fowler, Noll, Vo), then mixed, as its low bits are those of the last letters.
        let hash = trial.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        device::mix(hash) % u64::from(self.of) == u64::from(self.number - 1)
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            Some(Shard { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        match parsed {
            Some(shard) if (1..=shard.of).contains(&shard.number) => Ok(shard),
            Some(shard) => Err(format!("there is no shard {} of {}", shard.number, shard.of)),
            None => Err("write the shard and how many there are, such as `2/5`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FORMAT, Over, fixture::passed, to_line};

    fn opened(run: &str, resumes: Option<&str>, shard: Option<&str>) -> Opened {
        Opened {
            format: FORMAT,
            opened: "2026-11-22T01:02:03Z".to_owned(),
            run: run.to_owned(),
            resumes: resumes.map(str::to_owned),
            trials: vec!["copies/a".to_owned(), "copies/b".to_owned()],
            repeat: 2,
            shard: shard.map(|text| text.parse().expect("a shard")),
            digest: "d".to_owned(),
        }
    }

    fn begun(run: &str, number: u64) -> String {
        let begun = Begun {
            format: FORMAT,
            begun: "2026-11-22T01:02:03Z".to_owned(),
            run: run.to_owned(),
            number,
            trial: "copies/a".to_owned(),
            again: "rocrepro run".to_owned(),
            pid: 42,
            boot: "b".to_owned(),
        };
        serde_json::to_string(&begun).unwrap()
    }

    fn trial(run: &str, number: u64) -> String {
        to_line(&Record { run: run.to_owned(), number, ..passed("copies/a") }).unwrap()
    }

    #[test]
    fn a_run_and_those_that_resumed_it_are_one() {
        let line = |opened: Opened| serde_json::to_string(&opened).unwrap();
        let over = Over { format: FORMAT, over: "x".to_owned(), run: "p".to_owned() };
        let text = [
            line(opened("old", None, None)),
            trial("old", 3),
            line(opened("p", None, None)),
            begun("p", 0),
            trial("p", 0),
            begun("p", 1),
            "{\"format\":1,\"begun\":\"2026".to_owned(),
            serde_json::to_string(&over).unwrap(),
            line(opened("q", Some("p"), None)),
            begun("q", 2),
            trial("q", 2),
        ];
        let held = Held::last(&text.join("\n")).expect("a run");
        assert_eq!(held.opened.run, "p");
        assert_eq!(held.records.keys().collect::<Vec<_>>(), [&0, &2]);
        assert_eq!(held.lost.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(held.missing().collect::<Vec<_>>(), [(1, "copies/a"), (3, "copies/b")]);
        let not_run = held.not_run();
        assert_eq!(not_run[1].trial, "copies/b");
        assert!(not_run.iter().all(|r| r.verdict.kind == VerdictKind::NoVerdict));
        assert_eq!(Held::last(&trial("p", 0)), None);
    }

    #[test]
    fn every_trial_is_in_one_share() {
        for of in [1, 2, 3, 7] {
            let shards: Vec<Shard> = Shard { number: 1, of }.all().collect();
            let mut sizes = vec![0; of as usize];
            for n in 0..700 {
                let name = format!("copies/small-sizes[bytes={n},host=pageable]");
                let holding: Vec<_> = shards.iter().filter(|s| s.holds(&name)).collect();
                assert_eq!(holding.len(), 1, "{name}");
                sizes[holding[0].number as usize - 1] += 1;
            }
            let even = 700 / of;
            assert!(sizes.iter().all(|n| (even * 3 / 4..=even * 4 / 3).contains(n)), "{sizes:?}");
        }
        for wrong in ["0/2", "3/2", "2", "a/b", "1/0", ""] {
            wrong.parse::<Shard>().expect_err(wrong);
        }
    }

    #[test]
    fn shares_of_one_run_are_complete_and_disjoint() {
        let held = |name: &str, shard: Option<&str>, digest: &str| {
            let opened = Opened { digest: digest.to_owned(), ..opened(name, None, shard) };
            (name.to_owned(), Held { opened, records: BTreeMap::new(), lost: BTreeMap::new() })
        };
        let check = |files: &[(String, Held)], told: Option<&str>| {
            assert_eq!(shards(files).err().map(|e| e.to_string()).as_deref(), told);
        };
        let (a, b) = (held("a", Some("1/2"), "d"), held("b", Some("2/2"), "d"));
        check(&[held("w", None, "d")], None);
        check(&[b.clone(), a.clone()], None);
        check(&[a.clone()], Some("no file holds shard 2/2"));
        check(&[a.clone(), a.clone()], Some("a and a hold the same shard, 1/2"));
        let other = "a and c are of different runs: other trials, options or libraries";
        check(&[a.clone(), held("c", Some("2/2"), "e")], Some(other));
        check(&[a.clone(), held("c", Some("2/3"), "d")], Some(other));
        check(&[a, held("c", None, "d")], Some(other));
    }
}
