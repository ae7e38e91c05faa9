//! Writes the HTML page about one bug.

use judge::Rate;
use maud::{Markup, html};

use super::{
    bug_files::{BugPages, BugProgram, program_name, regression, with_name},
    layout::{Text, document, issues},
};
use crate::{
    bugs::{Bug, BugBuild, BugOptions, BugSeries, BugTrial},
    rates::percent,
    words::{count, without_lines},
};

impl BugPages<'_> {
    pub(super) fn page(&self, bug: &Bug) -> String {
        let header = html! {
            p { a href="index.html" { "all bugs" } ", " (Text(self.date)) }
            h1 { (Text(&bug.case)) }
            p { (state(bug)) }
            p { (self.program_link(bug)) }
        };
        let main = html! {
            dl.facts {
                dt { "expected" } dd { (Text(&bug.title)) }
                dt { "observed" } dd { (Text(&without_lines(&bug.summary))) }
                dt { "trial" } dd { code { (Text(&bug.trial)) } }
                dt { "signature" } dd { code { (Text(&bug.signature)) } }
                @if !bug.upstream.is_empty() { dt { "issues" } dd { (issues(&bug.upstream)) } }
                dt { "seen" } dd { "first " (Text(&bug.first)) ", last " (Text(&bug.last)) }
                dt { "again" } dd { code { (Text(&bug.again)) } }
            }
            h2 { "Results of each build" }
            @for series in &bug.series { (series_markup(series)) }
            h2 { "Draft of a comment" }
            p { "For the upstream issue. Read it before you post it." }
            pre { (Text(&bug.comment())) }
            @if let Some(BugProgram::Text(text)) = self.programs.get(&bug.id) {
                h2 { "Program" }
                p {
                    "The trial as one C++ file, which depends on HIP only. "
                    code { "rocrepro minimise " (Text(&shell::quote(&bug.trial))) } " searches for a shorter one."
                }
                pre { (Text(&with_name(text, bug))) }
            }
        };
        document(&bug.case, false, &header, &main)
    }

    fn program_link(&self, bug: &Bug) -> Markup {
        html! {
            @match self.programs.get(&bug.id) {
                Some(BugProgram::Text(_)) => a href=(program_name(bug)) download { "Download the program " (program_name(bug)) },
                Some(BugProgram::None(why)) => { "No stand-alone program: " (Text(why)) "." },
                None => "The case is not in the case library that made these pages.",
            }
        }
    }
}

/// Returns the state of a bug. For a regression, the last build that passed and the first build that failed follow.
fn state(bug: &Bug) -> Markup {
    html! {
        b { (bug.state.words()) }
        @if let Some(trial) = regression(bug) {
            "; a regression: fails since " b { (Text(&trial.from)) } ", passed on "
            b { (Text(trial.before.as_deref().unwrap_or_default())) } (passes(bug, trial))
        }
    }
}

/// Returns, as the end of a sentence, the number of runs that passed on the last build before a regression. All trials
/// of the bug in the same series count. Empty if the series has no such build.
fn passes(bug: &Bug, trial: &BugTrial) -> String {
    let mut series = bug.series.iter().filter(|series| series.trials.contains(trial));
    let builds = series.next().map(|series| series.builds.as_slice()).unwrap_or_default();
    let before = builds.iter().find(|build| Some(&build.build) == trial.before.as_ref());
    let passed = |build: &BugBuild| format!(" in {}", count(build.passed as usize, "run"));
    before.map(passed).unwrap_or_default()
}

fn series_markup(series: &BugSeries) -> Markup {
    html! {
        section {
            h3 { (Text(&series.series.words())) ": " (series.state.words()) }
            @if series.series.emulated { p { "The emulated device is not a GPU." } }
            @for trial in series.sorted() {
                p {
                    code { (Text(&trial.trial)) } ": " (trial.state.words()) "; " (Text(&trial.words(&series.newest)))
                    @if let Some(before) = &trial.before { "; passed before, last on " (Text(before)) }
                }
            }
            @if series.trials.len() > 1 { p { "All these trials together, build by build:" } }
            table.rates {
                thead { tr {
                    th scope="col" { "build" } th scope="col" { "failed, 95 % interval" } th scope="col" { "runs" }
                } }
                tbody { @for build in &series.builds { (build_row(build)) } }
            }
            @for with in &series.passes_with { (passes_with(with)) }
        }
    }
}

/// Returns a row of the table of builds, with the failure rate and its interval drawn as a bar.
fn build_row(build: &BugBuild) -> Markup {
    let runs = build.failed + build.passed;
    let (low, high) = Rate { hits: build.failed, runs }.interval();
    let at = |share: f64| format!("{:.1}", 160.0 * share);
    let seen = f64::from(build.failed) / f64::from(runs.max(1));
    html! {
        tr {
            th scope="row" { (Text(&build.build)) }
            td.why {
                @if runs > 0 {
                    svg.rate viewBox="0 0 160 16" role="img" aria-label="failure rate" {
                        rect.all x="0" y="7" width="160" height="2" {}
                        rect.interval x=(at(low)) y="4" width=(at(high - low)) height="8" {}
                        rect.seen x=(format!("{:.1}", 157.0 * seen)) y="1" width="3" height="14" {}
                    }
                    " " (percent(low)) " to " (percent(high))
                }
            }
            td {
                (build.failed) " of " (count(runs, "run")) " failed"
                @if build.otherwise > 0 { "; " (build.otherwise) " with another failure, not counted" }
            }
        }
    }
}

fn passes_with(BugOptions { options, passed }: &BugOptions) -> Markup {
    let (_, high) = Rate { hits: 0, runs: *passed }.interval();
    html! {
        p {
            "Did not fail " (Text(options)) ": " (count(*passed, "run")) " on builds that fail otherwise, a rate of at "
            "most " (percent(high)) "."
        }
    }
}
