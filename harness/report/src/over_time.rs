//! Writes the section of the comparison page that shows how results changed from run to run.

use std::{collections::BTreeMap, fmt::Write};

use judge::VerdictKind;

use crate::{
    Record,
    text::html,
    words::{count, rank, word},
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
    pub past: Vec<Past>,
}

/// Summary of one run in a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// Date on which the run's last trial ended.
    pub date: String,
    /// For each case, the verdict that needs attention most.
    pub cases: BTreeMap<String, VerdictKind>,
}

impl Past {
    /// Summarises a run, given its records.
    pub fn of<'r>(records: impl IntoIterator<Item = &'r Record>) -> Past {
        let mut cases: BTreeMap<String, VerdictKind> = BTreeMap::new();
        let mut date = String::new();
        for record in records {
            date = date.max(record.date.clone());
            let worst = cases.entry(record.case.clone()).or_insert(record.verdict.kind);
            if rank(record.verdict.kind) < rank(*worst) {
                *worst = record.verdict.kind;
            }
        }
        Past { date, cases }
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
const LAST: usize = 40;

/// A case whose results differ between the runs of a column.
pub(crate) struct OverTime<'a> {
    pub(crate) case: &'a str,
    /// Columns in which the case's results changed, each with the date and verdict of every run.
    columns: Vec<(&'a str, Vec<(&'a str, VerdictKind)>)>,
}

/// Returns the cases whose results changed within a column. Cases whose latest verdict needs attention most come first.
pub(crate) fn over_time(columns: &[Column]) -> Vec<OverTime<'_>> {
    let mut cases: BTreeMap<&str, OverTime<'_>> = BTreeMap::new();
    for column in columns {
        let mut runs: BTreeMap<&str, Vec<(&str, VerdictKind)>> = BTreeMap::new();
        for past in &column.past {
            for (case, kind) in &past.cases {
                runs.entry(case).or_default().push((&past.date, *kind));
            }
        }
        for (case, runs) in runs {
            if runs.iter().any(|(_, kind)| *kind != runs[0].1) {
                let new = || OverTime { case, columns: Vec::new() };
                cases.entry(case).or_insert_with(new).columns.push((&column.name, runs));
            }
        }
    }
    let mut cases: Vec<_> = cases.into_values().collect();
    let worst = |case: &OverTime<'_>| {
        let last = case.columns.iter().filter_map(|(_, runs)| Some(rank(runs.last()?.1)));
        last.min()
    };
    cases.sort_by_key(|case| (worst(case), case.case));
    cases
}

/// Appends a section for each case to `page`, and stops before more than `room` runs are drawn. Returns the number of
/// sections.
pub(crate) fn write(cases: &[OverTime<'_>], mut room: usize, page: &mut String) -> usize {
    let mut written = 0;
    for case in cases {
        let runs = |runs: &[_]| runs.len().min(LAST);
        let marks: usize = case.columns.iter().map(|(_, all)| runs(all)).sum();
        if marks > room {
            break;
        }
        room -= marks;
        written += 1;
        case.write(written, page);
    }
    written
}

impl OverTime<'_> {
    fn write(&self, number: usize, page: &mut String) {
        let _ = writeln!(page, "<section id=\"t{number}\">\n<h3>{}</h3>", html(self.case));
        for (name, runs) in &self.columns {
            let shown = &runs[runs.len().saturating_sub(LAST)..];
            let (first, last) = (shown[0].0, shown[shown.len() - 1].0);
            let words: Vec<&str> = shown.iter().map(|(_, kind)| word(*kind)).collect();
            let earlier = match runs.len() - shown.len() {
                0 => String::new(),
                n => format!(", after {n} earlier ones"),
            };
            let _ = write!(
                page,
                "<p>{}: {}, from {} to {}{earlier}</p>\n<svg class=\"runs\" width=\"{width}\" height=\"20\" \
                 viewBox=\"0 0 {width} 20\" role=\"img\" aria-label=\"{}\">",
                html(name),
                count(shown.len(), "run"),
                html(first),
                html(last),
                html(&words.join(", ")),
                width = shown.len() * 12,
            );
            for (at, (date, kind)) in shown.iter().enumerate() {
                // Worse results have taller bars, so that colour is not the only difference.
                let top = match class(Some(*kind)) {
                    "ok" | "none" => 10,
                    "known" => 5,
                    _ => 0,
                };
                let _ = write!(
                    page,
                    "<rect class=\"{}\" x=\"{}\" y=\"{top}\" width=\"10\" height=\"{}\"><title>{}: {}</title></rect>",
                    class(Some(*kind)),
                    at * 12,
                    20 - top,
                    html(date),
                    word(*kind)
                );
            }
            page.push_str("</svg>\n");
        }
        page.push_str("</section>\n");
    }
}
