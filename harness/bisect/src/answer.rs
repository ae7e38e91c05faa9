//! Writes the answer of a finished search: the text for the terminal, the web page, and the evidence file.

use std::{path::Path, sync::atomic::AtomicBool};

use ::search::bisect::{Answer, BuildOutcome, Edge, Event, Posterior, State, find_band};
use report::{
    BuildRange, Record, RunMark, SearchPage, TestedBuild, count,
    evidence::{
        BisectEvidence, BuildRate, Component, CrossedBuild, Rate, Setting, SkippedBuild,
        ThresholdBand,
    },
};
use serde::{Deserialize, Serialize};
use supervise::{Durability, Journal};

use crate::{
    axis::Axis, error::SearchError, journal::BisectHeader, kind::AxisKind,
    observation::PointObservation, packages, sentences::Sentences, subject::Subject,
};
use engine::{Stop, evidence};

const RECORDS_FILE: &str = "bisect-records.jsonl";
const PAGE_FILE: &str = "bisect.html";

#[derive(Serialize, Deserialize)]
struct KeptRecord {
    label: String,
    record: Record,
}

pub(crate) fn keep_record(folder: &Path, label: &str, record: &Record) -> Result<(), SearchError> {
    let kept = KeptRecord { label: label.to_owned(), record: record.clone() };
    Journal::open(&folder.join(RECORDS_FILE), Durability::Process)
        .and_then(|mut journal| journal.write(&kept))
        .map_err(SearchError::NotWritten)
}

/// Returns the exit code that the command has for an answer.
pub fn exit_code(answer: &Answer) -> u8 {
    match answer {
        Answer::Found(_) | Answer::Increase { .. } | Answer::Worse { .. } => 0,
        Answer::NotReproducible { .. } => 1,
        Answer::GoodEndFails { .. } | Answer::EndUnusable { .. } | Answer::Exchanged { .. } => 3,
        Answer::Range { .. } | Answer::Several { .. } | Answer::OtherLine { .. } => 4,
        Answer::Wedged { .. } => 5,
    }
}

pub(crate) struct FinishedSearch<'a> {
    pub(crate) answer: &'a Answer,
    pub(crate) state: &'a State,
    pub(crate) header: &'a BisectHeader,
    pub(crate) axis: &'a Axis,
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) observations: &'a [PointObservation],
    pub(crate) signature: &'a str,
    pub(crate) gfx: &'a str,
    pub(crate) emulated: bool,
    pub(crate) store: &'a stacks::BuildStore,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) crossed: Vec<CrossedBuild>,
    /// Names of the good and of the bad build that an earlier search found; `None` if this search does not continue
    /// between them.
    pub(crate) within: Option<(String, String)>,
    /// True if a second search will follow, over the builds between the two builds that this search finds.
    pub(crate) goes_on: bool,
    /// Returns the command line that searches between two points. The first index is that of the good point.
    pub(crate) rerun: &'a dyn Fn((usize, usize)) -> String,
}

impl FinishedSearch<'_> {
    /// Writes the answer's files to the folder. Returns the text of the answer, and the problems in reading or writing
    /// the files.
    pub(crate) fn write(&self, folder: &Path) -> (String, Vec<String>) {
        let mut problems = Vec::new();
        let path = folder.join(RECORDS_FILE);
        let kept = match path.exists().then(|| supervise::read::<KeptRecord>(&path)) {
            Some(Ok(read)) => read.records,
            Some(Err(error)) => {
                problems.push(Stop::from(SearchError::JournalNotOpened(error)).to_string());
                Vec::new()
            }
            None => Vec::new(),
        };
        let record = |point: Option<usize>, failing: bool| {
            let label = self.axis.label(point?);
            let fits =
                |k: &&KeptRecord| k.label == label && k.record.outcome.kind.is_failure() == failing;
            kept.iter().find(fits).map(|k| &k.record)
        };
        let edge = self.edge();
        let (good, bad) = (edge.map(|e| e.0), edge.map(|e| e.1));
        let pair = (record(good, false), record(bad, true));
        let name = |point| self.axis.label(point);
        let sentences = Sentences { header: self.header, seen: self.observations, name: &name };
        let found = self.bisected(&sentences, edge, pair);
        let sentence = self.with_gaps(sentences.sentence(self.answer));
        let state = self.state;
        let spent = format!(
            "{}, {} of {}, {:.0} s",
            count(state.runs(), "run"),
            state.installs(),
            count(self.header.points, "point"),
            state.seconds()
        );
        let text = report::bisected(&found, &sentence, &spent);
        let picture = self.page(&found, &sentence, &spent, &text);
        let written = [
            evidence::write(folder, &found).err(),
            evidence::write_text(folder, PAGE_FILE, &picture).err(),
        ];
        problems.extend(written.into_iter().flatten().map(|error| Stop::from(error).to_string()));
        (format!("{text}{:<11} {}\n", "files", folder.display()), problems)
    }

    /// Returns the relative position of a point in the history, from 0 (oldest) to 1 (newest).
    fn relative_position(&self, point: usize) -> f64 {
        let place = point as f64 / self.state.setup().bad() as f64;
        if self.axis.is_fix() { 1.0 - place } else { place }
    }

    fn page(&self, found: &BisectEvidence, sentence: &str, spent: &str, text: &str) -> String {
        let label = |point| self.axis.label(point);
        let ordered = |a: usize, b: usize| if self.axis.is_fix() { (b, a) } else { (a, b) };
        let edge = self.edge().map(|(good, bad)| ordered(good, bad));
        let names = edge.map(|(older, newer)| (label(older), label(newer)));
        let verified = self.state.tally(self.state.setup().bad()).runs() > 0;
        let posterior = Posterior::from_state(self.state);
        let stretch = |stretch: &::search::bisect::Interval| {
            let (older, newer) = ordered(stretch.after, stretch.until);
            BuildRange {
                from: self.relative_position(older),
                to: self.relative_position(newer),
                labels: (label(older), label(newer)),
                mass: posterior.confidence_in(self.state, stretch),
            }
        };
        let stretches: Vec<_> = posterior.intervals().iter().map(stretch).collect();
        let run = |observation: &PointObservation| match observation.event {
            Event::Ran { build, seen, .. } => Some((
                self.relative_position(build),
                match seen {
                    BuildOutcome::Good => RunMark::Passed,
                    BuildOutcome::Bad => RunMark::Failed,
                    BuildOutcome::Other => RunMark::Other,
                },
            )),
            _ => None,
        };
        let runs: Vec<_> = self.observations.iter().filter_map(run).collect();
        let (oldest, newest) = ordered(0, self.state.setup().bad());
        let (on, back) =
            (format!("{}/{PAGE_FILE}", BisectEvidence::REFINED_FOLDER), format!("../{PAGE_FILE}"));
        SearchPage {
            title: &found.trial,
            sentence,
            spent,
            answer: text,
            ends: (&label(oldest), &label(newest)),
            edge: edge.zip(names.as_ref()).map(|((older, newer), (a, b))| {
                (
                    self.relative_position(older),
                    self.relative_position(newer),
                    a.as_str(),
                    b.as_str(),
                )
            }),
            stretches: if verified { &stretches } else { &[] },
            runs: &runs,
            tested: &self.tested(),
            moved: &found.components,
            other: match (&self.within, self.goes_on) {
                (Some(_), _) => Some((&back, "Previous search")),
                (None, true) => {
                    Some((&on, "Next search, between these two builds (once it has an answer)"))
                }
                (None, false) => None,
            },
        }
        .html()
    }

    /// Adds to the sentence that the change may be in a missing build, if the list of builds has a gap between the last
    /// good and the first bad build.
    fn with_gaps(&self, sentence: String) -> String {
        let Some(Edge { last_good, first_bad, confidence, .. }) = self.answer.edge() else {
            return sentence;
        };
        let holes = self.axis.gaps_between(*last_good, *first_bad);
        if holes.is_empty() {
            return sentence;
        }
        let names: Vec<_> = holes.iter().map(|hole| hole.source.as_str()).collect();
        let place = match self.answer {
            Answer::Found(_) => format!(
                "with a confidence of {:.1} % the change is between {} and {}",
                100.0 * confidence,
                self.axis.label(*last_good),
                self.axis.label(*first_bad)
            ),
            _ => sentence,
        };
        format!(
            "{place}; there may be further builds between these two, because {} did not list all of its builds",
            names.join(" and ")
        )
    }

    fn share(&self, (good, bad): (usize, usize)) -> Option<String> {
        let hidden = self.axis.hidden_builds(good, bad);
        let newer = self.axis.label(if self.axis.is_fix() { good } else { bad });
        (hidden > 0).then(|| {
            let hidden = count(hidden, "build");
            format!(
                "the confidence is the probability that {newer} itself introduced the change, not one of {hidden} before it \
                 that may be missing from the list"
            )
        })
    }

    fn sha256(&self, point: usize) -> Option<&str> {
        let label = self.axis.label(point);
        let known = |o: &&PointObservation| o.label == label && !o.sha256.is_empty();
        self.observations.iter().find(known).map(|o| o.sha256.as_str())
    }

    fn edge(&self) -> Option<(usize, usize)> {
        match self.answer {
            Answer::Found(edge) | Answer::Increase { edge } | Answer::Worse { edge, .. } => {
                Some((edge.last_good, edge.first_bad))
            }
            Answer::Several { edges } => edges.first().map(|e| (e.last_good, e.first_bad)),
            Answer::Range { last_good, first_bad, mass, .. } if *mass > 0.0 => {
                Some((*last_good, *first_bad))
            }
            _ => None,
        }
    }

    fn why(&self, point: usize) -> Option<String> {
        let tally = self.state.tally(point);
        if !tally.is_unusable() {
            return None;
        }
        let label = self.axis.label(point);
        let last = self.observations.iter().rev().find(|o| {
            o.label == label
                && matches!(
                    o.event,
                    Event::Unusable { .. } | Event::Ran { seen: BuildOutcome::Other, .. }
                )
        });
        let why = last.map(|o| if o.why.is_empty() { o.signature.clone() } else { o.why.clone() });
        Some(why.unwrap_or_default().lines().next().unwrap_or_default().to_owned())
    }

    fn tested(&self) -> Vec<TestedBuild> {
        let mut tested: Vec<_> = self
            .state
            .tallies()
            .map(|(point, tally)| TestedBuild {
                label: self.axis.label(point),
                failed: tally.bad,
                passed: tally.good,
                skipped: self.why(point),
            })
            .collect();
        if self.axis.is_fix() {
            tested.reverse();
        }
        tested
    }

    fn bisected(
        &self,
        sentences: &Sentences<'_>,
        edge: Option<(usize, usize)>,
        pair: (Option<&Record>, Option<&Record>),
    ) -> BisectEvidence {
        let tested = self.tested();
        let rates = tested.iter().filter(|t| t.skipped.is_none()).map(|t| BuildRate {
            version: t.label.clone(),
            rate: Rate { failed: t.failed, runs: t.failed + t.passed },
        });
        let skipped = tested.iter().filter_map(|t| {
            Some(SkippedBuild { version: t.label.clone(), why: t.skipped.clone()? })
        });
        let confidence = match self.answer {
            Answer::Found(edge) | Answer::Increase { edge } | Answer::Worse { edge, .. } => {
                let hidden = self.axis.hidden_builds(edge.last_good, edge.first_bad);
                Some(edge.confidence_in_first_bad(hidden))
            }
            Answer::Several { edges } => edges.first().map(|edge| edge.confidence),
            Answer::Range { mass, .. } if *mass > 0.0 => Some(*mass),
            _ => None,
        };
        let rerun = self.rerun(edge, pair);
        BisectEvidence {
            trial: self.header.subject.clone(),
            axis: self.header.axis.clone(),
            last_good: edge.map(|(good, _)| self.axis.label(good)),
            first_bad: edge.map(|(_, bad)| self.axis.label(bad)),
            band: self.band(),
            rates: rates.collect(),
            notes: sentences
                .notes(self.answer, self.state)
                .into_iter()
                .chain(edge.and_then(|edge| self.share(edge)))
                .chain(self.axis.silent.iter().cloned())
                .chain(self.axis.gaps().map(|hole| format!("builds may be missing: {hole}")))
                .chain(edge.into_iter().flat_map(|(good, bad)| [good, bad]).filter_map(|point| {
                    let sha256 = self.sha256(point)?;
                    Some(format!("sha256 of {}: {sha256}", self.axis.label(point)))
                }))
                .collect(),
            fix: self.axis.is_fix(),
            worse: edge.is_some_and(|(good, _)| self.failed_up_to(good)),
            confidence,
            signature: self.signature(sentences, edge),
            on: self.setting(edge, pair.1, &rerun),
            components: self.components(edge, pair),
            crossed: self.crossed.clone(),
            skipped: skipped.collect(),
            rerun,
            within: self.within.clone(),
        }
    }

    /// Returns true if a usable point with at most this index has failed.
    fn failed_up_to(&self, point: usize) -> bool {
        let failed = |(at, tally): (usize, ::search::bisect::Tally)| {
            at <= point && tally.bad > 0 && !tally.is_unusable()
        };
        self.state.tallies().any(failed)
    }

    /// Returns the signature with which the bad build failed. If it is unknown, returns the signature that was searched
    /// for.
    fn signature(&self, sentences: &Sentences<'_>, edge: Option<(usize, usize)>) -> String {
        let shown = edge.and_then(|(_, bad)| sentences.counted_signatures(bad).first().copied());
        shown.unwrap_or(self.signature).to_owned()
    }

    /// Returns the range of axis values in which some values fail and others pass. Returns `None` for builds, because a
    /// build that fails only sometimes has a flaky failure, not an uncertain threshold.
    fn band(&self) -> Option<ThresholdBand> {
        if !matches!(self.axis.kind, AxisKind::Parameter(_) | AxisKind::Environment(_)) {
            return None;
        }
        let tallies = self.state.tallies().filter(|(_, tally)| !tally.is_unusable());
        let found = find_band(tallies.map(|(point, tally)| (point, tally.good, tally.bad)))?;
        let label = |point| self.axis.label(point);
        let [never, first, always] =
            [found.last_passing, found.first_failing, found.always_failing].map(label);
        Some(ThresholdBand { never, first, always })
    }

    fn setting(
        &self,
        edge: Option<(usize, usize)>,
        bad: Option<&Record>,
        rerun: &[String],
    ) -> Setting {
        match bad {
            Some(record) => Setting::from_record(record),
            None => Setting {
                rocrepro: env!("CARGO_PKG_VERSION").to_owned(),
                date: report::date(std::time::SystemTime::now()),
                stack: edge.map_or(self.header.bad.clone(), |(_, bad)| self.axis.label(bad)),
                rocm: None,
                // A command line of the user need not use this architecture.
                gfx: match self.subject {
                    Subject::Command(_) => String::new(),
                    Subject::Trial { .. } => self.gfx.to_owned(),
                },
                emulated: self.emulated,
                faults: Vec::new(),
                again: rerun.last().cloned().unwrap_or_default(),
            },
        }
    }

    /// Returns the command lines that the evidence contains: those that repeat the run on the good and on the bad point
    /// of `edge`, if both can be repeated, and the one that repeats the search between these points. Empty if `edge` is
    /// `None`.
    fn rerun(
        &self,
        edge: Option<(usize, usize)>,
        pair: (Option<&Record>, Option<&Record>),
    ) -> Vec<String> {
        let Some(edge) = edge else { return Vec::new() };
        let search = (self.rerun)(edge);
        // A value that is not in the case's matrix has no trial whose command could be repeated.
        match (&self.axis.kind, pair) {
            (
                AxisKind::Builds
                | AxisKind::Stacks
                | AxisKind::Environment(_)
                | AxisKind::Package { .. },
                (Some(good), Some(bad)),
            ) => {
                vec![good.again.clone(), bad.again.clone(), search]
            }
            _ => vec![search],
        }
    }

    /// Returns the commits of a build's components; `None` if the build does not name them.
    pub(crate) fn commits(&self, point: usize) -> Option<stacks::Components> {
        let build = self.axis.build(point)?;
        let known = build.components.clone();
        let fetched = build.places.iter().any(|p| !matches!(p, stacks::BuildLocation::Debian(_)));
        let obtain = || self.store.obtain_unless(build, self.stop, &|_| ());
        known.or_else(|| fetched.then(|| obtain().ok()?.components)?)
    }

    /// Returns the components that differ between the two points of `edge`; empty if `edge` is `None`.
    ///
    /// If the points are versions of a Python package, a component is a package whose version differs. Between builds,
    /// a component is a repository whose commit differs. If the commits are unknown, a component is a library that the
    /// trial loaded and whose build id differs.
    fn components(
        &self,
        edge: Option<(usize, usize)>,
        pair: (Option<&Record>, Option<&Record>),
    ) -> Vec<Component> {
        let Some((good, bad)) = edge else { return Vec::new() };
        if let kind @ AxisKind::Package { .. } = &self.axis.kind {
            let imports = self.subject.imports().unwrap_or_default();
            let [good, bad] = [good, bad]
                .map(|n| packages::required_packages(kind, &self.axis.label(n), &imports));
            return packages::changed_packages(&good, &bad);
        }
        // In a search for a fix, the bad build is the older one.
        let (older, newer) = if self.axis.is_fix() { (bad, good) } else { (good, bad) };
        if let (Some(from), Some(to)) = (self.commits(older), self.commits(newer)) {
            let unknown = || "none".to_owned();
            let moved =
                from.moved(&to).into_iter().filter(|m| self.subject.depends_on(&m.component));
            let moved = moved.map(|moved| {
                let (from, to) =
                    (moved.from.unwrap_or_else(unknown), moved.to.unwrap_or_else(unknown));
                let (good, bad) = if self.axis.is_fix() { (to, from) } else { (from, to) };
                Component { name: moved.component, good, bad, compare_url: moved.compare }
            });
            return moved.collect();
        }
        let (Some(good), Some(bad)) = pair else { return Vec::new() };
        let stem = |name: &str| name.split(".so").next().unwrap_or(name).to_owned();
        let build = |library: &report::Library| {
            let file =
                Path::new(&library.path).file_name().map(|n| n.to_string_lossy().into_owned());
            let id = library.build_id.as_deref().unwrap_or("no build id");
            format!("{} ({})", file.unwrap_or_default(), &id[..id.len().min(12)])
        };
        good.stack
            .libraries
            .iter()
            .filter_map(|old| {
                let name = stem(&old.name);
                let new = bad.stack.libraries.iter().find(|l| stem(&l.name) == name)?;
                (old.build_id != new.build_id).then(|| Component {
                    name,
                    good: build(old),
                    bad: build(new),
                    compare_url: None,
                })
            })
            .collect()
    }
}
