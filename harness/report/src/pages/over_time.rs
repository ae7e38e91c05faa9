//! Writes the section of the comparison page that shows how results changed from run to run.

use std::collections::BTreeMap;

use judge::VerdictKind;
use maud::{Markup, html};

use super::layout::Text;
use crate::{
    Record,
    words::{count, rank, verdict_label},
};

/// A column of the page: a run, and the earlier runs with the same configuration.
#[derive(Clone, Debug)]
pub struct Column {
    /// Heading, for example `7.2.4 gfx1151`.
    pub name: String,
    /// Records of the finished trials.
    pub records: Vec<Record>,
    /// Names of the planned trials without a record.
    pub missing: Vec<String>,
    /// All runs of the column, from the oldest to the newest, including the run of `records`. Empty if only that run is
    /// known.
    pub past: Vec<PastRun>,
}

/// Summary of one run in a column.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRun {
    /// Date on which the run's last trial ended.
    pub date: String,
    /// For each case, the verdict that needs attention most.
    pub cases: BTreeMap<String, VerdictKind>,
}

impl PastRun {
    /// Summarises a run, given its records.
    pub fn from_records<'r>(records: impl IntoIterator<Item = &'r Record>) -> PastRun {
        let mut cases: BTreeMap<String, VerdictKind> = BTreeMap::new();
        let mut date = String::new();
        for record in records {
            date = date.max(record.date.clone());
            let worst = cases.entry(record.case.clone()).or_insert(record.verdict.kind);
            if rank(record.verdict.kind) < rank(*worst) {
                *worst = record.verdict.kind;
            }
        }
        PastRun { date, cases }
    }
}

pub(crate) fn class(kind: Option<VerdictKind>) -> &'static str {
    match kind {
        None | Some(VerdictKind::Skip) => "none",
        Some(VerdictKind::Pass) => "ok",
        Some(VerdictKind::Known | VerdictKind::Difference) => "known",
        Some(VerdictKind::NoVerdict) => "unknown",
        Some(VerdictKind::NewsFail | VerdictKind::NewsChanged | VerdictKind::NewsFixed) => "news",
    }
}

/// Maximum number of runs that are drawn for each column. Earlier runs are left out.
const MAX_RUNS: usize = 40;

/// A case whose results differ between the runs of a column.
pub(crate) struct CaseHistory<'a> {
    pub(crate) case: &'a str,
    /// Columns in which the case's results changed, each with the date and verdict of every run.
    columns: Vec<(&'a str, Vec<(&'a str, VerdictKind)>)>,
}

/// Returns the cases whose results changed within a column. Cases whose latest verdict needs attention most come first.
pub(crate) fn over_time(columns: &[Column]) -> Vec<CaseHistory<'_>> {
    let mut cases: BTreeMap<&str, CaseHistory<'_>> = BTreeMap::new();
    for column in columns {
        let mut runs: BTreeMap<&str, Vec<(&str, VerdictKind)>> = BTreeMap::new();
        for past in &column.past {
            for (case, kind) in &past.cases {
                runs.entry(case).or_default().push((&past.date, *kind));
            }
        }
        for (case, runs) in runs {
            if runs.iter().any(|(_, kind)| *kind != runs[0].1) {
                let new = || CaseHistory { case, columns: Vec::new() };
                cases.entry(case).or_insert_with(new).columns.push((&column.name, runs));
            }
        }
    }
    let mut cases: Vec<_> = cases.into_values().collect();
    let worst = |case: &CaseHistory<'_>| {
        let last = case.columns.iter().filter_map(|(_, runs)| Some(rank(runs.last()?.1)));
        last.min()
    };
    cases.sort_by_key(|case| (worst(case), case.case));
    cases
}

/// Returns how many of the first cases can be drawn with at most `room` runs in total.
pub(crate) fn drawn(cases: &[CaseHistory<'_>], mut room: usize) -> usize {
    let fits = |case: &&CaseHistory<'_>| {
        let marks: usize = case.columns.iter().map(|(_, runs)| runs.len().min(MAX_RUNS)).sum();
        let fits = marks <= room;
        room = room.saturating_sub(marks);
        fits
    };
    cases.iter().take_while(fits).count()
}

impl CaseHistory<'_> {
    /// Renders the section of the case: a bar for each run of each column.
    pub(crate) fn markup(&self, number: usize) -> Markup {
        html! {
            section id=(format!("t{number}")) {
                h3 { (Text(self.case)) }
                @for (name, runs) in &self.columns { (bars(name, runs)) }
            }
        }
    }
}

/// Draws the last runs of a column.
fn bars(name: &str, runs: &[(&str, VerdictKind)]) -> Markup {
    let shown = &runs[runs.len().saturating_sub(MAX_RUNS)..];
    let (first, last) = (shown[0].0, shown[shown.len() - 1].0);
    let words: Vec<&str> = shown.iter().map(|(_, kind)| verdict_label(*kind)).collect();
    let earlier = match runs.len() - shown.len() {
        0 => String::new(),
        n => format!(", after {n} earlier ones"),
    };
    let width = shown.len() * 12;
    html! {
        p { (Text(name)) ": " (count(shown.len(), "run")) ", from " (Text(first)) " to " (Text(last)) (earlier) }
        svg.runs width=(width) height="20" viewBox=(format!("0 0 {width} 20")) role="img" aria-label=(words.join(", ")) {
            @for (at, (date, kind)) in shown.iter().enumerate() {
                @let class = class(Some(*kind));
                // Worse results have taller bars, so that colour is not the only difference.
                @let top = match class { "ok" | "none" => 10, "known" => 5, _ => 0 };
                rect class=(class) x=(at * 12) y=(top) width="10" height=(20 - top) {
                    title { (Text(date)) ": " (verdict_label(*kind)) }
                }
            }
        }
    }
}
