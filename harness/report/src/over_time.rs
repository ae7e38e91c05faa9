//! What the cases of a page came to in the runs of a column, one after the other.

use std::{collections::BTreeMap, fmt::Write};

use judge::VerdictKind;

use crate::{
    Record,
    text::html,
    words::{count, rank, word},
};

/// A run, as a column of the page.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its head, such as `7.2.4 gfx1151`.
    pub name: String,
    /// What is over.
    pub records: Vec<Record>,
    /// Planned trials without a record.
    pub missing: Vec<String>,
    /// All runs that it has, the last one too, in their order; none where only one is known.
    pub past: Vec<Past>,
}

/// A run that a column has, this or an earlier one.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// When its last trial ended.
    pub date: String,
    /// What somebody should see first of each case.
    pub cases: BTreeMap<String, VerdictKind>,
}

impl Past {
    /// A run, from its records.
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

/// The class of a verdict on the page.
pub(crate) fn class(kind: Option<VerdictKind>) -> &'static str {
    match kind {
        None | Some(VerdictKind::Skip) => "none",
        Some(VerdictKind::Pass) => "ok",
        Some(VerdictKind::Known | VerdictKind::Difference) => "known",
        Some(VerdictKind::NoVerdict) => "unknown",
        Some(VerdictKind::NewsFail | VerdictKind::NewsChanged | VerdictKind::NewsFixed) => "news",
    }
}

/// Runs of a column that are drawn, the last ones.
const LAST: usize = 40;

/// A case that did not come to the same in all runs of a column.
pub(crate) struct OverTime<'a> {
    pub(crate) case: &'a str,
    /// The columns in which it changed, with the runs that have it.
    columns: Vec<(&'a str, Vec<(&'a str, VerdictKind)>)>,
}

/// The cases that changed in a column, those that failed last first.
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

/// A section for each case, with as many runs as there is room for. How many cases were told.
pub(crate) fn write(cases: &[OverTime<'_>], mut room: usize, page: &mut String) -> usize {
    let mut told = 0;
    for case in cases {
        let runs = |runs: &[_]| runs.len().min(LAST);
        let marks: usize = case.columns.iter().map(|(_, all)| runs(all)).sum();
        if marks > room {
            break;
        }
        room -= marks;
        told += 1;
        case.write(told, page);
    }
    told
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
                // What is bad is taller, not only of another colour.
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
