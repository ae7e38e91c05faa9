//! Compares the bugs of a store with a naive model, over 30 simulated nights. Some nights are missing or broken, some
//! runs are killed, old builds are tested again, bugs begin, are fixed and return, some bugs are flaky, and cases are
//! edited.
//!
//! The model is written from the definition of the states in `rocrepro records bugs --help`, and shares no code with
//! `report::Bugs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Seek as _, SeekFrom, Write as _},
};

use report::{Bug, BugState, Bugs, RecordIndex};
use serde_json::{Value, json};
use store::Store;

const NIGHTS: u32 = 30;
const SEEDS: u64 = 10;

/// Generator of pseudo-random numbers that are the same in every test run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, limit: u64) -> u64 {
        // The constants are those of Knuth's MMIX generator.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    /// Returns true with a probability of `percent` per cent.
    fn chance(&mut self, percent: u64) -> bool {
        self.next(100) < percent
    }
}

/// The truth about a trial on one device: on which builds it can fail, how often and with which signature.
struct Truth {
    trial: String,
    device: &'static str,
    /// First and last day of each stretch of builds that can fail, with the signature.
    bad: Vec<(u32, u32, &'static str)>,
    /// Failure rate in per cent on a bad build.
    rate: u64,
    /// First night on which the text of the case differs.
    edited: u32,
}

impl Truth {
    fn signature(&self, day: u32) -> Option<&'static str> {
        self.bad.iter().find(|(from, to, _)| (*from..=*to).contains(&day)).map(|bad| bad.2)
    }
}

fn truths(numbers: &mut Numbers) -> Vec<Truth> {
    let mut all = Vec::new();
    for device in ["emulated", "gpu"] {
        for case in 0..6 {
            let day = |numbers: &mut Numbers, from: u32, to: u32| {
                from + u32::try_from(numbers.next(u64::from(to - from))).expect("a small number")
            };
            let (start, end) = (day(numbers, 2, 10), day(numbers, 11, 18));
            let bad = match case {
                0 => vec![],
                1 => vec![(1, NIGHTS, "hang:x")],
                // A regression, a fix, and often another regression.
                2 if numbers.chance(70) => {
                    vec![(start, end, "hang:x"), (day(numbers, 22, 29), NIGHTS, "hang:x")]
                }
                2 => vec![(start, end, "hang:x")],
                3 => vec![(1, NIGHTS, "wrong-data:y:zero")],
                4 => vec![(1, end, "wrong-data:y:zero")],
                // The trial later fails in another way, which hides whether the first failure still exists.
                _ => vec![(1, end, "hang:x"), (end + 1, NIGHTS, "crash:z")],
            };
            let rate = if [3, 4].contains(&case) { 30 } else { 100 };
            let edited = if numbers.chance(15) { day(numbers, 5, 25) } else { NIGHTS + 1 };
            all.push(Truth { trial: format!("family/case-{case}"), device, bad, rate, edited });
        }
    }
    all
}

/// Writes the record file of a run on the build of `day`. The run happens in the night `now`.
fn night(numbers: &mut Numbers, truths: &[Truth], device: &str, day: u32, now: u32) -> String {
    let repeat = 1 + numbers.next(8);
    let broken = numbers.chance(8);
    let truths: Vec<&Truth> = truths.iter().filter(|truth| truth.device == device).collect();
    let trials: Vec<&str> = truths.iter().map(|truth| truth.trial.as_str()).collect();
    let run = format!("{device}-{day}-{now}");
    let date = format!("2026-07-{now:02}T0{}:00:00Z", if day == now { 1 } else { 5 });
    let opened = json!({"format": 1, "opened": date, "run": run, "trials": trials, "repeat": repeat, "digest": "d"});
    let mut text = format!("{opened}\n");
    for (number, (truth, _)) in
        truths.iter().flat_map(|truth| (0..repeat).map(move |n| (truth, n))).enumerate()
    {
        let fails = truth.signature(day).filter(|_| numbers.chance(truth.rate));
        let (mut kind, mut signature, mut verdict) = match fails {
            Some(signature) => {
                (signature.split(':').next().expect("a kind"), signature, "news-fail")
            }
            None => ("pass", "pass", "pass"),
        };
        let mut faults = json!([]);
        match numbers.next(100) {
            _ if broken => {
                (kind, signature, verdict) = ("no-verdict", "no-verdict:x", "no-verdict")
            }
            0..3 => (kind, signature, verdict) = ("skip", "skip:x", "skip"),
            3..6 => (kind, signature, verdict) = ("no-verdict", "no-verdict:x", "no-verdict"),
            6..9 => {
                (kind, signature, verdict) = ("hang", "hang:x", "news-fail");
                faults = json!(["copy.zero"]);
            }
            9..11 => (kind, signature, verdict) = ("hang", "hang:x", "difference"),
            _ => {}
        }
        let root = format!("/builds/7.15.0a202607{day:02}-gfx1151");
        let digest = if now >= truth.edited { "new" } else { "old" };
        let record = json!({
            "format": 1, "run": run, "number": number, "date": date, "rocrepro": "0.1.0", "case": truth.trial,
            "trial": truth.trial, "title": "A title", "faults": faults, "asked": {"text": digest},
            "stack": {"spec": root, "root": root, "rocm": "7.15.0", "libraries": []},
            "device": {"name": "d", "gfx": "gfx1151", "emulated": device == "emulated", "proven": true},
            "outcome": {"kind": kind, "signature": signature, "at": {}, "summary": "s"}, "verdict": {"kind": verdict},
            "exit": {"exited": 0}, "phases": [], "calls": 3, "wall_ns": 1000, "nonce": "n", "again": "rocrepro run",
        });
        text.push_str(&format!("{record}\n"));
    }
    if numbers.chance(10) {
        // The run was killed while it wrote a record.
        let plan = opened.to_string().len() + 1;
        let length = text.len() - plan;
        text.truncate(plan + usize::try_from(numbers.next(length as u64)).expect("a length"));
    }
    text
}

/// Results of one trial with one text on one device: failures and passes on each day.
#[derive(Default)]
struct Facts {
    days: BTreeMap<u32, Vec<String>>,
    last: String,
}

/// The naive model: every fact that a record states, in plain lists.
#[derive(Default)]
struct Model(BTreeMap<(String, String, String), Facts>);

/// Prediction of the model for a trial: state, failures, runs, later passes, first and last failing day.
type Predicted = (BugState, u32, u32, u32, u32, u32);

impl Model {
    fn read(&mut self, text: &str) {
        for line in text.lines().skip(1) {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let word = |value: &Value| value.as_str().expect("a text").to_owned();
            let verdict = word(&line["verdict"]["kind"]);
            let has_fault = line["faults"].as_array().is_some_and(|faults| !faults.is_empty());
            if has_fault || ["skip", "no-verdict", "difference"].contains(&verdict.as_str()) {
                continue;
            }
            let day = word(&line["stack"]["root"])["/builds/7.15.0a202607".len()..][..2].to_owned();
            let device = line["device"]["emulated"].to_string();
            let key = (device, word(&line["trial"]), word(&line["asked"]["text"]));
            let facts = self.0.entry(key).or_default();
            facts
                .days
                .entry(day.parse().expect("a day"))
                .or_default()
                .push(word(&line["outcome"]["signature"]));
            facts.last = word(&line["date"]).max(facts.last.clone());
        }
    }

    /// Returns the signatures of all failures of the trials.
    fn bugs(&self) -> BTreeSet<(String, String)> {
        let mut bugs = BTreeSet::new();
        for ((_, trial, _), facts) in &self.0 {
            for signature in facts.days.values().flatten().filter(|signature| *signature != "pass")
            {
                bugs.insert((trial.clone(), signature.clone()));
            }
        }
        bugs
    }

    fn predict(&self, device: &str, trial: &str, text: &str, signature: &str) -> Option<Predicted> {
        let facts = self.0.get(&(device.to_owned(), trial.to_owned(), text.to_owned()))?;
        let count = |day: u32, wanted: &str| {
            let all = facts.days.get(&day).into_iter().flatten();
            u32::try_from(all.filter(|found| *found == wanted).count()).expect("a small number")
        };
        let sum = |from: u32, to: u32, wanted: &str| {
            (from..=to).map(|day| count(day, wanted)).sum::<u32>()
        };
        let bad: Vec<u32> = (1..=NIGHTS).filter(|day| count(*day, signature) > 0).collect();
        let mut from = *bad.first()?;
        let is_fixed = |from: u32, to: u32, until: u32| {
            let failed = sum(from, to, signature);
            enough(failed, failed + sum(from, to, "pass"), sum(to + 1, until, "pass"))
        };
        let mut reopened = false;
        for pair in bad.windows(2) {
            if is_fixed(from, pair[0], pair[1] - 1) {
                (from, reopened) = (pair[1], true);
            }
        }
        let to = *bad.last()?;
        let passed = sum(to + 1, NIGHTS, "pass");
        let other = if text == "old" { "new" } else { "old" };
        let other = self.0.get(&(device.to_owned(), trial.to_owned(), other.to_owned()));
        let state = if other.is_some_and(|other| other.last > facts.last) {
            BugState::Edited
        } else if is_fixed(from, to, NIGHTS) {
            BugState::Fixed
        } else if passed > 0 {
            BugState::Unseen
        } else if reopened {
            BugState::Reopened
        } else {
            BugState::Open
        };
        let failed = sum(from, to, signature);
        Some((state, failed, failed + sum(from, to, "pass"), passed, from, to))
    }
}

/// Returns true if `passed` passes are enough to call a bug fixed that failed in `failed` of `ran` runs. They are
/// enough if a bug whose failure rate is the lower end of the rate's 95 % interval would pass that often with a
/// probability of at most 0.1 %.
fn enough(failed: u32, ran: u32, passed: u32) -> bool {
    if failed < 2 {
        return false;
    }
    // The first failure is not counted.
    let (hits, runs) = (failed - 1, ran - 1);
    let tail = |p: f64| {
        // The terms of the binomial distribution, relative to the largest one, so that they do not underflow.
        let odds = p / (1.0 - p);
        let largest = (f64::from(runs + 1) * p).floor().min(f64::from(runs)) as u32;
        let mut terms = vec![1.0; runs as usize + 1];
        for k in largest..runs {
            let ratio = f64::from(runs - k) / f64::from(k + 1) * odds;
            terms[k as usize + 1] = terms[k as usize] * ratio;
        }
        for k in (1..=largest).rev() {
            let ratio = f64::from(k) / f64::from(runs - k + 1) / odds;
            terms[k as usize - 1] = terms[k as usize] * ratio;
        }
        terms[hits as usize..].iter().sum::<f64>() / terms.iter().sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if tail(middle) < 0.025 { low = middle } else { high = middle }
    }
    (0..passed).fold(1.0, |chance, _| chance * (1.0 - low)) <= 0.001
}

fn build(day: u32) -> String {
    format!("7.15.0a202607{day:02}")
}

/// Compares all bugs with the model, and returns the states of all trials.
fn compare(bugs: &[Bug], model: &Model, context: &str) -> Vec<(String, String, String, BugState)> {
    let names = bugs.iter().map(|bug| (bug.case.clone(), bug.signature.clone()));
    assert_eq!(names.collect::<BTreeSet<_>>(), model.bugs(), "{context}");
    let mut states = Vec::new();
    for bug in bugs {
        let mut found = BTreeMap::new();
        for series in &bug.series {
            assert_eq!(series.series.builds, "nightly builds");
            for trial in &series.trials {
                let text = trial.text.clone().expect("a digest");
                found
                    .insert((series.series.emulated.to_string(), trial.trial.clone(), text), trial);
            }
            let worst = series.trials.iter().map(|trial| trial.state).max();
            assert_eq!(worst, Some(series.state), "{context}");
        }
        let worst = bug.series.iter().map(|series| series.state).max();
        assert_eq!(worst, Some(bug.state), "{context}");
        for (key, _) in model.0.iter().filter(|((_, trial, _), _)| *trial == bug.case) {
            let predicted = model.predict(&key.0, &key.1, &key.2, &bug.signature);
            let got = found.get(key);
            let context = format!("{context}: {key:?} {} {got:?}", bug.signature);
            let Some((state, failed, ran, passed, from, to)) = predicted else {
                assert!(got.is_none(), "{context}");
                continue;
            };
            let got = got.unwrap_or_else(|| panic!("{context}"));
            assert_eq!(
                (got.state, got.failed, got.ran, got.passed),
                (state, failed, ran, passed),
                "{context}"
            );
            assert_eq!((&got.from, &got.to), (&build(from), &build(to)), "{context}");
            states.push((key.0.clone(), key.1.clone(), bug.signature.clone(), state));
        }
    }
    states
}

/// Adds the text of a record file to a store, as `rocrepro records store add` does.
fn add(store: &mut Store, text: &str) {
    let mut file: File = tempfile::tempfile().expect("a file");
    file.write_all(text.as_bytes()).expect("there is room");
    file.seek(SeekFrom::Start(0)).expect("a file");
    let index = RecordIndex::read(std::io::BufReader::new(&file)).expect("it can be read");
    let mut adding = store.begin().expect("the store is unlocked");
    for run in &index.runs {
        adding.run(&run.opened(&file).expect("a plan"), run.records(&file)).expect("added");
    }
    adding.commit().expect("added");
}

fn stored(store: &Store) -> Bugs {
    let mut bugs = Bugs::default();
    for run in store.runs().expect("runs") {
        store.for_each_record(&run, &mut |record| bugs.add(record)).expect("records");
    }
    bugs
}

#[test]
fn bugs_of_thirty_nights_equal_a_naive_model() {
    let mut seen: BTreeMap<BugState, usize> = BTreeMap::new();
    let (mut fixes, mut regressions) = (0, 0);
    for seed in 0..SEEDS {
        let mut numbers = Numbers(seed);
        let truths = truths(&mut numbers);
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store::open_or_make(&folder.path().join("results.db")).expect("a store");
        let (mut model, mut files) = (Model::default(), Vec::new());
        for now in 1..=NIGHTS {
            for device in ["emulated", "gpu"] {
                // A missing night.
                if numbers.chance(10) {
                    continue;
                }
                files.push(night(&mut numbers, &truths, device, now, now));
                if now > 3 && numbers.chance(15) {
                    let day = 1 + u32::try_from(numbers.next(u64::from(now - 1))).expect("a day");
                    files.push(night(&mut numbers, &truths, device, day, now));
                }
            }
            for file in files.drain(..) {
                model.read(&file);
                add(&mut store, &file);
                if numbers.chance(10) {
                    add(&mut store, &file);
                }
            }
            if now % 5 != 0 {
                continue;
            }
            let context = format!("seed {seed}, night {now}");
            let states = compare(&stored(&store).all(), &model, &context);
            for (device, trial, signature, state) in states {
                *seen.entry(state).or_default() += 1;
                let is_it = |truth: &&Truth| {
                    truth.trial == trial && (truth.device == "emulated") == (device == "true")
                };
                let truth = truths.iter().find(is_it).expect("the truth");
                let context = format!("{context}: {device} {trial} {signature} {state:?}");
                let days = truth.bad.iter().filter(|(.., bad)| *bad == signature);
                let last_bad = days.filter(|bad| bad.0 <= now).map(|bad| bad.1.min(now)).max();
                let still_bad = last_bad == Some(now);
                // A bug that exists is not called fixed, except after a regression that no run has seen.
                if still_bad && state != BugState::Edited {
                    let began = truth.bad.iter().rfind(|bad| bad.0 <= now).map_or(0, |bad| bad.0);
                    let tested = (began..=now).any(|day| {
                        let facts =
                            model.0.iter().filter(|((d, t, _), _)| (d, t) == (&device, &trial));
                        facts.clone().any(|(_, facts)| {
                            facts.days.get(&day).is_some_and(|all| all.contains(&signature))
                        })
                    });
                    assert!(!tested || state != BugState::Fixed, "falsely fixed: {context}");
                    let is_seen = [BugState::Open, BugState::Reopened].contains(&state);
                    assert!(!tested || truth.rate < 100 || is_seen, "missed regression: {context}");
                }
                fixes += usize::from(state == BugState::Fixed);
                regressions += usize::from(state == BugState::Reopened);
            }
        }
        // The bugs depend on the records alone, not on the order in which they came.
        let bugs = stored(&store).all();
        let mut reversed = Bugs::default();
        for run in store.runs().expect("runs").iter().rev() {
            for record in store.records(run).expect("records").iter().rev() {
                reversed.add(record);
            }
        }
        assert_eq!(reversed.all(), bugs, "seed {seed}");
    }
    eprintln!("states {seen:?}, {fixes} fixes, {regressions} regressions");
    for state in BugState::ALL {
        assert!(seen.get(&state).is_some_and(|n| *n > 9), "{state:?}: {seen:?}");
    }
}
