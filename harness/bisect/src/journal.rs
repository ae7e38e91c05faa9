//! The journal of a search. It contains a header and every observation, so that the search can be resumed or replayed.

use std::{collections::BTreeMap, path::Path};

use ::search::bisect::{Action, BisectSettings, Event, SearchBudget, State, next_action};
use serde::{Deserialize, Serialize};
use supervise::{Durability, Journal};

use crate::{
    error::SearchError,
    events::{BisectEvent, Reporter},
    identity::{self, Files},
    observation::PointObservation,
};
use engine::{Stop, evidence, stop::chain};

pub(crate) const FILE: &str = "bisect.jsonl";

const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub(crate) enum Entry {
    Begun(BisectHeader),
    /// Run time above which a run counts as slow, in seconds. It follows from the times measured at both ends.
    Threshold {
        seconds: f64,
    },
    Placed(HistoryPlacement),
    Seen(PointObservation),
}

/// The list of points as the command that resumed the search found it, with the new indices of the points that were
/// observed before. The list can change, because nightly builds appear and disappear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HistoryPlacement {
    /// Number of points, including both ends.
    points: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weights: Option<Vec<f64>>,
    budget: JournalBudget,
    places: BTreeMap<String, usize>,
}

/// The task of a search, which is the first entry of its journal. A journal can only be continued with the same task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BisectHeader {
    pub(crate) format: u32,
    /// The trial with its injected faults, or the command line.
    pub subject: String,
    /// The axis, and the other options that define what a point is.
    pub(crate) axis: String,
    /// Names of the two ends.
    pub(crate) good: String,
    pub(crate) bad: String,
    /// Number of points, including both ends.
    pub points: usize,
    pub(crate) regress: String,
    /// Cost of obtaining a build, expressed as a number of runs.
    pub install_cost: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) followed: Option<String>,
    /// True if the search looks for a fix, so the bad end is older than the good one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fix: bool,
    /// One flag for the good and one for the bad end, true if the end is a release and the point next to it is not.
    /// Releases are built from a branch of their own.
    #[serde(default, skip_serializing_if = "has_no_release")]
    pub(crate) other_line: [bool; 2],
    #[serde(default, skip_serializing_if = "Files::is_empty")]
    pub(crate) files: Files,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weights: Option<Vec<f64>>,
    /// Budget of the search, which may change when a journal is continued.
    pub(crate) budget: JournalBudget,
}

fn has_no_release(ends: &[bool; 2]) -> bool {
    *ends == [false; 2]
}

/// The budget of a search as the journal stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalBudget {
    pub(crate) runs: Option<u32>,
    pub(crate) installs: Option<u32>,
    pub(crate) seconds: Option<f64>,
}

impl BisectHeader {
    pub(crate) fn new(
        subject: String,
        axis: String,
        ends: (String, String),
        points: usize,
    ) -> Self {
        let (good, bad) = ends;
        BisectHeader {
            format: FORMAT,
            subject,
            axis,
            good,
            bad,
            points,
            regress: String::new(),
            install_cost: 0.0,
            rate: None,
            followed: None,
            fix: false,
            other_line: [false; 2],
            files: Files::new(),
            weights: None,
            budget: JournalBudget::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        let mut setup = BisectSettings::new(self.points - 1);
        if let Some(weights) = &self.weights {
            setup = setup.with_weights(weights);
        }
        setup.install_cost = self.install_cost;
        setup.rate = self.rate;
        setup.other_line = self.other_line;
        let JournalBudget { runs, installs, seconds } = self.budget;
        setup.budget = SearchBudget { runs, installs, seconds };
        State::new(setup)
    }

    fn is_same_search(&self, other: &BisectHeader) -> bool {
        // Nightly builds appear and disappear, so observations refer to the names of builds.
        let history = |begun: &BisectHeader| BisectHeader {
            points: 0,
            weights: None,
            budget: JournalBudget::default(),
            // Digests of files are compared separately, and older journals do not contain them.
            fix: false,
            other_line: [false; 2],
            files: Files::new(),
            ..begun.clone()
        };
        history(self) == history(other)
    }
}

pub(crate) struct PastSearch {
    pub(crate) header: BisectHeader,
    pub(crate) threshold: Option<f64>,
    pub(crate) seen: Vec<PointObservation>,
    /// Lists of points with which the search was resumed, each with the number of observations that were made before.
    placed: Vec<(usize, HistoryPlacement)>,
}

impl PastSearch {
    /// Replaces the index in each observation by the current index of its point, which `position` returns for a name.
    /// If a point has left the list, reports it and removes its observations.
    fn update_positions(&mut self, position: &dyn Fn(&str) -> Option<usize>, report: Reporter<'_>) {
        let mut gone: Vec<&str> = Vec::new();
        for observation in &self.seen {
            let label = observation.label.as_str();
            if position(label).is_none() && !gone.contains(&label) {
                report(BisectEvent::PointGone { label });
                gone.push(label);
            }
        }
        update_indices(&mut self.seen, position);
    }

    fn current_placement(&self, begun: &BisectHeader) -> HistoryPlacement {
        let place =
            |observation: &PointObservation| (observation.label.clone(), build(&observation.event));
        HistoryPlacement {
            points: begun.points,
            weights: begun.weights.clone(),
            budget: begun.budget,
            places: self.seen.iter().map(place).collect(),
        }
    }

    /// Repeats the decisions of the search: decides before each observation in the journal what to do next, and
    /// compares this with the observation. Returns the state after all observations.
    ///
    /// # Errors
    /// Returns an error for an observation that the search would not have made. In that case the journal was edited, or
    /// another version of rocrepro wrote it.
    pub(crate) fn replay_decisions(&mut self) -> Result<State, SearchError> {
        let all = std::mem::take(&mut self.seen);
        let mut state = self.header.state();
        let mut placed = std::mem::take(&mut self.placed).into_iter().peekable();
        for (n, observation) in all.into_iter().enumerate() {
            while let Some((_, now)) = placed.next_if(|(before, _)| *before == n) {
                state = self.continue_with(now);
            }
            if !was_requested(&next_action(&state), &observation) {
                let action = format!("{:?}", next_action(&state));
                return Err(SearchError::OtherDecision(n + 1, observation.label, action));
            }
            state.observe(observation.event);
            self.seen.push(observation);
        }
        // A command may have ended before its first observation, so a list of points without observations can follow.
        for (_, now) in placed {
            state = self.continue_with(now);
        }
        Ok(state)
    }

    fn continue_with(&mut self, now: HistoryPlacement) -> State {
        let HistoryPlacement { points, weights, budget, places } = now;
        update_indices(&mut self.seen, &|label| places.get(label).copied());
        self.header = BisectHeader { points, weights, budget, ..self.header.clone() };
        let mut state = self.header.state();
        self.seen.iter().for_each(|observation| state.observe(observation.event));
        state
    }
}

impl PastSearch {
    /// Reports points that an earlier command excluded and this command does not. They remain excluded, because the
    /// search has already made decisions without them.
    pub(crate) fn report_excluded(&self, skipped: &[usize], report: Reporter<'_>) {
        for observation in &self.seen {
            let asked = matches!(observation.event, Event::Unusable { build, .. } if skipped.contains(&build));
            if observation.why == EXCLUDED_REASON && !asked {
                report(BisectEvent::StaysLeftOut { label: &observation.label });
            }
        }
    }
}

fn build(event: &Event) -> usize {
    let (Event::Installed { build, .. } | Event::Unusable { build, .. } | Event::Ran { build, .. }) =
        event;
    *build
}

fn update_indices(seen: &mut Vec<PointObservation>, position: &dyn Fn(&str) -> Option<usize>) {
    seen.retain_mut(|observation| {
        let (Event::Installed { build, .. }
        | Event::Unusable { build, .. }
        | Event::Ran { build, .. }) = &mut observation.event;
        let now = position(&observation.label);
        *build = now.unwrap_or(*build);
        now.is_some()
    });
}

/// Reads a journal; `None` if it does not exist or its first line is incomplete.
pub(crate) fn read(path: &Path) -> Result<Option<PastSearch>, SearchError> {
    if !path.exists() {
        return Ok(None);
    }
    let read = supervise::read::<Entry>(path).map_err(SearchError::JournalNotOpened)?;
    let strange = read.unreadable.iter().find(|line| !line.source.is_eof());
    if let Some(line) = strange {
        return Err(SearchError::UnreadableLine(path.to_owned(), chain(line)));
    }
    let mut entries = read.records.into_iter();
    let begun = match entries.next() {
        None => return Ok(None),
        Some(Entry::Begun(begun)) if begun.format == FORMAT && begun.points > 1 => begun,
        Some(_) => return Err(SearchError::NotJournal(path.to_owned())),
    };
    let mut past =
        PastSearch { header: begun, threshold: None, seen: Vec::new(), placed: Vec::new() };
    for entry in entries {
        match entry {
            Entry::Begun(_) => {}
            Entry::Threshold { seconds } => past.threshold = Some(seconds),
            Entry::Placed(placed) => past.placed.push((past.seen.len(), placed)),
            Entry::Seen(observation) => past.seen.push(observation),
        }
    }
    Ok(Some(past))
}

pub(crate) const EXCLUDED_REASON: &str = "left out by --skip";

pub(crate) fn excluded_observation(point: usize, label: String) -> PointObservation {
    let event = Event::Unusable { build: point, seconds: 0.0 };
    let (signature, sha256) = Default::default();
    PointObservation { event, label, signature, why: EXCLUDED_REASON.to_owned(), sha256 }
}

fn was_requested(action: &Action, observation: &PointObservation) -> bool {
    match (action, observation.event) {
        (_, Event::Unusable { .. }) if observation.why == EXCLUDED_REASON => true,
        (Action::Install(want), Event::Installed { build, .. } | Event::Unusable { build, .. })
        | (Action::Run(want), Event::Ran { build, .. } | Event::Unusable { build, .. }) => {
            *want == build
        }
        _ => false,
    }
}

/// Opens a new journal, or continues an existing one. An existing journal is an error if `resume` is false. `position`
/// returns the current index of the build with a given name; `None` if the build has left the list of builds.
pub(crate) fn open(
    folder: &Path,
    begun: &BisectHeader,
    resume: bool,
    position: &dyn Fn(&str) -> Option<usize>,
    report: Reporter<'_>,
) -> Result<(Journal, PastSearch), Stop> {
    let path = folder.join(FILE);
    evidence::make(folder)?;
    let past = read(&path)?;
    let past = match past {
        Some(_) if !resume => {
            return Err(SearchError::Exists(folder.to_owned()).into());
        }
        Some(past) if !begun.is_same_search(&past.header) => {
            let BisectHeader { subject, axis, good, bad, .. } = past.header;
            let texts = [subject, axis, good, bad];
            return Err(SearchError::Other { folder: folder.to_owned(), texts }.into());
        }
        past => past,
    };
    past.iter().try_for_each(|past| identity::reject_changes(&past.header.files, &begun.files))?;
    let journal = Journal::open(&path, Durability::Process);
    let mut journal = journal.map_err(SearchError::JournalNotOpened)?;
    let past = match past {
        Some(mut past) => {
            past.update_positions(position, report);
            let last = past.placed.last().map(|(_, placed)| placed);
            let before = last.map_or_else(
                || (past.header.points, &past.header.weights, past.header.budget),
                |placed| (placed.points, &placed.weights, placed.budget),
            );
            let same = before == (begun.points, &begun.weights, begun.budget);
            if !same {
                write(&mut journal, &Entry::Placed(past.current_placement(begun)))?;
            }
            PastSearch { header: begun.clone(), ..past }
        }
        None => {
            write(&mut journal, &Entry::Begun(begun.clone()))?;
            PastSearch {
                header: begun.clone(),
                threshold: None,
                seen: Vec::new(),
                placed: Vec::new(),
            }
        }
    };
    Ok((journal, past))
}

pub(crate) fn write(journal: &mut Journal, entry: &Entry) -> Result<(), SearchError> {
    journal.write(entry).map_err(SearchError::NotWritten)
}
