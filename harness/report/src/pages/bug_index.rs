//! Writes the HTML page that lists the bugs of a store.

use maud::{Markup, html};

use super::{
    bug_files::{BugPages, page_name, regression},
    layout::{Text, document, filter, issues},
};
use crate::{
    bugs::{Bug, BugState},
    words::{count, without_lines},
};

/// Choices of rows: the id of the choice, which is also the class of the rows that it shows, and its label.
const CHOICES: [(&str, &str); 3] = [
    ("bad", "open, or not yet shown to be fixed"),
    ("regressions", "regressions: an earlier build passed"),
    ("all", "all bugs"),
];

/// Returns the bugs in the order of the page: regressions first, the newest one first; then the other bugs that need
/// attention.
fn sorted(bugs: &[Bug]) -> Vec<&Bug> {
    let mut sorted: Vec<&Bug> = bugs.iter().collect();
    sorted.sort_by(|a, b| {
        let key = |bug: &'_ Bug| (regression(bug).is_some(), bug.state.is_open());
        key(b).cmp(&key(a)).then(b.first.cmp(&a.first)).then(a.case.cmp(&b.case))
    });
    sorted
}

impl BugPages<'_> {
    /// Renders the list of all bugs.
    pub(super) fn index(&self) -> String {
        let bugs = sorted(self.bugs);
        let newest = bugs.first().copied().filter(|bug| regression(bug).is_some());
        let open = bugs.iter().any(|bug| bug.state.is_open());
        let title = count(bugs.len(), "bug");
        let header = html! {
            p { "rocrepro, " (Text(self.date)) }
            h1 { (title) }
            p {
                (self.numbers())
                @if bugs.iter().flat_map(|bug| &bug.series).any(|series| series.series.emulated) {
                    ". The emulated device is not a GPU."
                }
            }
            @if let Some(bug) = newest { (newest_regression(bug)) }
        };
        let main = html! {
            (filter(&CHOICES, if open { "bad" } else { "all" }, "cases, titles, issues and results"))
            table.bugs.filtered {
                thead { tr {
                    @for heading in ["state", "bug", "fails", "first seen", "issues"] { th scope="col" { (heading) } }
                } }
                tbody { @for bug in &bugs { (row(bug)) } }
            }
            p {
                "A bug is a failure of a case with one signature. A regression failed after an earlier build of the same "
                "series had passed. A bug is fixed when newer builds passed so often that it would probably have been "
                "seen; with fewer passes it is " q { (BugState::Unseen.words()) } "."
            }
        };
        document(&title, true, &header, &main)
    }

    fn numbers(&self) -> String {
        let numbers = BugState::ALL.into_iter().filter_map(|state| {
            let n = self.bugs.iter().filter(|bug| bug.state == state).count();
            (n > 0).then(|| format!("{n} {}", state.words()))
        });
        numbers.collect::<Vec<_>>().join(", ")
    }
}

fn newest_regression(bug: &Bug) -> Markup {
    let Some(trial) = regression(bug) else { return html! {} };
    html! {
        p {
            "Newest regression, which fails since " b { (Text(&trial.from)) } " and passed on "
            b { (Text(trial.before.as_deref().unwrap_or_default())) } ": "
            a href=(page_name(bug)) { (Text(&bug.case)) } " (expected: " (Text(&bug.title)) ")"
        }
    }
}

fn row(bug: &Bug) -> Markup {
    let regression = regression(bug);
    let class = match (bug.state.is_open(), regression.is_some()) {
        (true, true) => "entry bad regressions",
        (true, false) => "entry bad",
        (false, _) => "entry",
    };
    html! {
        tr class=(class) {
            td.state { (bug.state.words()) @if regression.is_some() { span.sub { "regression" } } }
            td {
                a href=(page_name(bug)) { (Text(&bug.case)) }
                span.sub { b { "expected " } (Text(&bug.title)) }
                span.sub { b { "observed " } (Text(&observed(bug))) }
            }
            td {
                @for series in &bug.series {
                    @if let Some(first) = series.sorted().first() {
                        // Without an earlier pass, the failure may be older than the first tested build.
                        @if first.before.is_none() { "at least " }
                        @if first.from == first.to { "on " } @else { "from " }
                        (Text(&first.from))
                        @if first.from != first.to { " to " (Text(&first.to)) }
                        span.sub { (Text(&series.series.words())) ": " (series.state.words()) }
                    }
                }
            }
            td.state { span.phone { "first seen " } (Text(day(&bug.first))) }
            td { (issues(&bug.upstream)) }
        }
    }
}

/// Returns what happened, without positions in the case file, in at most 120 characters.
fn observed(bug: &Bug) -> String {
    let text = without_lines(&bug.summary);
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}

/// Returns the day of a date.
fn day(date: &str) -> &str {
    date.split('T').next().unwrap_or_default()
}
