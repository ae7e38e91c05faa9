//! Describes bugs for people.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use judge::{FailureIdentity, Rate};

use super::{Bug, BugBuild, BugOptions, BugSeries, BugState, BugTrial, Bugs, MAX_CHANCE, Series};
use crate::{
    rates::percent,
    words::{BOLD, count, link, styled},
};

/// Maximum number of trials of a series that the text shows.
const MAX_SHOWN_TRIALS: usize = 20;

impl BugState {
    /// Returns the words for this state.
    pub const fn words(self) -> &'static str {
        match self {
            BugState::Edited => "case edited",
            BugState::Fixed => "fixed",
            BugState::Unseen => "not seen since",
            BugState::Open => "open",
            BugState::Reopened => "reopened",
        }
    }
}

impl Series {
    /// Describes the series, for example `nightly builds on emulated gfx1151`.
    pub fn words(&self) -> String {
        format!("{} on {}", self.builds, self.device)
    }
}

/// Formats one build or a range of builds.
fn range(from: &str, to: &str) -> String {
    if from == to { format!("on {from}") } else { format!("from {from} to {to}") }
}

impl BugTrial {
    /// Describes the failures: their number, the builds that failed, and the confidence interval of the failure rate.
    fn failures(&self) -> String {
        let (low, high) = self.interval;
        format!(
            "{} of {} failed {}, a rate of {} to {} (95 % interval)",
            self.failed,
            count(self.ran, "run"),
            range(&self.from, &self.to),
            percent(low),
            percent(high)
        )
    }

    /// Describes the passes after the failures; an empty string if there are none.
    fn passes(&self) -> String {
        let Some(since) = &self.since else { return String::new() };
        let passed = format!("{} passed {}", count(self.passed, "run"), range(since, &self.newest));
        match self.needed {
            Some(needed) => format!("{passed} ({needed} are enough to show a fix)"),
            None => format!(
                "{passed}, but a single failure does not show a rate: repeat the trial on {} to measure it",
                self.to
            ),
        }
    }

    pub(crate) fn words(&self, newest: &str) -> String {
        let mut text = self.failures();
        if self.state != BugState::Edited {
            let passes = self.passes();
            if !passes.is_empty() {
                let _ = write!(text, "; then {passes}");
            }
            if self.newest != newest {
                let _ = write!(text, "; not tested on {newest}");
            }
        }
        text
    }
}

impl BugBuild {
    fn words(&self) -> String {
        let ran = self.failed + self.passed;
        let mut text = format!("{}: {} of {} failed", self.build, self.failed, count(ran, "run"));
        if ran > 0 {
            let (low, high) = Rate { hits: self.failed, runs: ran }.interval();
            let _ = write!(text, ", {} to {}", percent(low), percent(high));
        }
        if self.otherwise > 0 {
            let _ = write!(text, "; {} with another failure, not counted", self.otherwise);
        }
        text
    }
}

impl BugSeries {
    /// Returns the trials, those that need attention most first.
    pub(crate) fn sorted(&self) -> Vec<&BugTrial> {
        let mut trials: Vec<&BugTrial> = self.trials.iter().collect();
        trials.sort_by_key(|trial| (std::cmp::Reverse(trial.state), &trial.trial));
        trials
    }

    fn in_one_line(&self) -> String {
        let mut text = format!("{}: {}", self.series.words(), self.state.words());
        if let Some(first) = self.sorted().first() {
            let _ = write!(text, "; {}", first.words(&self.newest));
        }
        match self.trials.len() - 1 {
            0 => {}
            more => {
                let _ = write!(text, " ({} more)", count(more, "trial"));
            }
        }
        text
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n{}: {}",
            styled(BOLD, self.series.words()),
            styled(BOLD, self.state.words())
        );
        let trials = self.sorted();
        for trial in trials.iter().take(MAX_SHOWN_TRIALS) {
            let _ = writeln!(
                text,
                "    {}: {}; {}",
                trial.trial,
                trial.state.words(),
                trial.words(&self.newest)
            );
            if let Some(before) = &trial.before {
                let _ = writeln!(text, "        passed before, last on {before}");
            }
        }
        if trials.len() > MAX_SHOWN_TRIALS {
            let _ = writeln!(text, "    {} more", count(trials.len() - MAX_SHOWN_TRIALS, "trial"));
        }
        for build in &self.builds {
            let _ = writeln!(text, "    {}", build.words());
        }
        for BugOptions { options, passed } in &self.passes_with {
            let (_, high) = Rate { hits: 0, runs: *passed }.interval();
            let _ = writeln!(
                text,
                "    did not fail {options}: {} on builds that fail otherwise, a rate of at most {}",
                count(*passed, "run"),
                percent(high)
            );
        }
    }
}

impl Bug {
    /// Describes the bug for people.
    pub fn text(&self) -> String {
        let Bug { id, case, signature, title, summary, state, first, last, .. } = self;
        let mut text = format!("{} {}: {title}\n", styled(BOLD, id), styled(BOLD, case));
        let alone = match FailureIdentity::parse(signature).is_bare_exit() {
            true => " (only an exit status is known, so these may be different failures)",
            false => "",
        };
        let _ = writeln!(text, "    state      {}", styled(BOLD, state.words()));
        let _ = writeln!(text, "    signature  {signature}{alone}");
        let _ = writeln!(text, "    summary    {summary}");
        let _ = writeln!(text, "    {:<10} first {first}, last {last}", "seen");
        for issue in &self.upstream {
            let _ = writeln!(text, "    issue      {}", link(issue));
        }
        let _ = writeln!(text, "    again      {}", self.again);
        let trial = shell::quote(&self.trial);
        let _ = writeln!(text, "    program    rocrepro export {trial}");
        self.series.iter().for_each(|series| series.write(&mut text));
        text
    }

    /// Drafts a comment for the upstream issues of the bug.
    pub fn comment(&self) -> String {
        let Bug { case, signature, .. } = self;
        let mut text =
            format!("The case `{case}` of rocrepro, with the failure `{signature}`:\n\n");
        for BugSeries { series, newest, trials, .. } in &self.series {
            let device = match series.emulated {
                true => {
                    let (name, options) =
                        series.device.split_once("; ").unwrap_or((&series.device, ""));
                    let gap = if options.is_empty() { "" } else { "; " };
                    format!("{name}, which is not a GPU{gap}{options}")
                }
                false => series.device.clone(),
            };
            for trial in trials.iter().filter(|trial| trial.state != BugState::Edited) {
                let name = &trial.trial;
                let head = match trial.state {
                    BugState::Open => match &trial.before {
                        Some(before) => format!(
                            "`{name}` fails on {}; it fails since {} and passed on {before}",
                            trial.to, trial.from
                        ),
                        None => format!("`{name}` still fails on {}", trial.to),
                    },
                    BugState::Reopened => format!("`{name}` fails again since {}", trial.from),
                    BugState::Unseen => {
                        format!(
                            "`{name}` has not failed since {}, which is not enough to show a fix",
                            trial.to
                        )
                    }
                    _ => format!(
                        "`{name}` passes since {}",
                        trial.since.as_deref().unwrap_or_default()
                    ),
                };
                let _ = writeln!(text, "* {head} ({device}): {}.", trial.words(newest));
            }
        }
        let mut trials = self.series.iter().flat_map(|series| &series.trials);
        if trials.any(|trial| trial.state == BugState::Fixed) {
            let _ = writeln!(
                text,
                "\nA bug that still failed at the lower end of its rate would pass that often with a probability of at \
                 most {}.",
                percent(MAX_CHANCE)
            );
        }
        let _ = writeln!(text, "\nTo repeat the failure: `{}`", self.again);
        if !self.upstream.is_empty() {
            let issues: Vec<String> = self.upstream.iter().map(|issue| link(issue)).collect();
            let _ = writeln!(text, "\nIssues: {}", issues.join(", "));
        }
        text
    }
}

impl Bugs {
    /// Lists bugs for people.
    pub fn list(bugs: &[Bug]) -> String {
        let mut numbers: BTreeMap<BugState, usize> = BTreeMap::new();
        for bug in bugs {
            *numbers.entry(bug.state).or_default() += 1;
        }
        let each: Vec<String> =
            numbers.iter().rev().map(|(state, n)| format!("{n} {}", state.words())).collect();
        let mut text = match bugs.is_empty() {
            true => "no bugs\n".to_owned(),
            false => format!("{}: {}\n", count(bugs.len(), "bug"), each.join(", ")),
        };
        for bug in bugs {
            let Bug { id, case, signature, title, state, .. } = bug;
            let state = state.words();
            let _ = writeln!(text, "\n{} {state}  {case}: {title}", styled(BOLD, id));
            let issues = bug.upstream.iter().map(|issue| format!(", {issue}"));
            let _ = writeln!(text, "    {signature}{}", issues.collect::<String>());
            for series in &bug.series {
                let _ = writeln!(text, "    {}", series.in_one_line());
            }
        }
        text
    }

    /// Describes how states changed between two lists of bugs, one line for each series; an empty string if no state
    /// changed.
    pub fn changes(before: &[Bug], after: &[Bug]) -> String {
        let states = |bugs: &[Bug]| -> BTreeMap<(String, Series), BugState> {
            let each = bugs.iter().flat_map(|bug| {
                bug.series.iter().map(|of| ((bug.id.clone(), of.series.clone()), of.state))
            });
            each.collect()
        };
        let (old, new) = (states(before), states(after));
        let cases: BTreeMap<&str, &str> =
            after.iter().map(|bug| (bug.id.as_str(), bug.case.as_str())).collect();
        let mut text = String::new();
        for ((id, series), state) in &new {
            let old = old.get(&(id.clone(), series.clone()));
            if old == Some(state) {
                continue;
            }
            let case = cases.get(id.as_str()).copied().unwrap_or_default();
            let old = old.map_or("new", |old| old.words());
            let _ = writeln!(
                text,
                "{id} {case}: {old} -> {}, {}",
                styled(BOLD, state.words()),
                series.words()
            );
        }
        text
    }

    /// Returns the trials of open bugs whose series satisfy `wanted`, in the order of their names. Series with unusual
    /// options are left out.
    pub fn open_trials(bugs: &[Bug], wanted: &dyn Fn(&Series) -> bool) -> BTreeSet<String> {
        let series = bugs.iter().flat_map(|bug| &bug.series);
        let series = series.filter(|of| !of.series.unusual && wanted(&of.series));
        let trials = series.flat_map(|of| &of.trials).filter(|trial| trial.state.is_open());
        trials.map(|trial| trial.trial.clone()).collect()
    }
}
