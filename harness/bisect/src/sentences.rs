//! Formats observations and answers as sentences for people.

use std::collections::BTreeSet;

use ::search::bisect::{Answer, BuildOutcome, Edge, Event, Posterior, State};
use report::{count, format_duration};

use crate::{
    journal::{BisectHeader, EXCLUDED_REASON},
    observation::PointObservation,
};

pub(crate) struct Sentences<'a> {
    pub(crate) header: &'a BisectHeader,
    pub(crate) seen: &'a [PointObservation],
    pub(crate) name: &'a dyn Fn(usize) -> String,
}

/// A signature with which runs at one point failed, and the number of these runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FailureMode<'a> {
    pub(crate) signature: &'a str,
    pub(crate) runs: u32,
    /// True if the search looks for this failure.
    pub(crate) counts: bool,
}

pub(crate) fn failure_modes(seen: &[PointObservation], point: usize) -> Vec<FailureMode<'_>> {
    let mut ways: Vec<FailureMode<'_>> = Vec::new();
    for observation in seen {
        let Event::Ran { build, seen, .. } = observation.event else { continue };
        let (signature, counts) = (observation.signature.as_str(), seen == BuildOutcome::Bad);
        if build != point || seen == BuildOutcome::Good {
            continue;
        }
        match ways.iter_mut().find(|way| way.signature == signature && way.counts == counts) {
            Some(way) => way.runs += 1,
            None => ways.push(FailureMode { signature, runs: 1, counts }),
        }
    }
    ways.sort_by_key(|way| std::cmp::Reverse(way.runs));
    ways
}

/// Returns signatures and numbers of runs as text, for example `a in 3, b in 1`.
fn format_modes(ways: &[FailureMode<'_>]) -> String {
    let one = |way: &FailureMode<'_>| format!("{} in {}", way.signature, way.runs);
    ways.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl Sentences<'_> {
    pub(crate) fn sentence(&self, answer: &Answer) -> String {
        let name = self.name;
        match answer {
            Answer::Found(Edge { last_good, first_bad, .. }) => {
                let (good, bad) = match self.header.fix {
                    true => ("first good", "last bad"),
                    false => ("last good", "first bad"),
                };
                let between = self.between(*last_good, *first_bad);
                format!("{good} {}, {bad} {}{between}", name(*last_good), name(*first_bad))
            }
            Answer::Increase { edge } => self.increase(edge),
            Answer::OtherLine { edge } => self.other_line(edge),
            Answer::Worse { after, until, rate, edge } if self.header.fix => {
                format!(
                    "the failure becomes rarer between {} and {}; it then still occurs in about {:.0} % of runs, and \
                     ends between {} and {}",
                    name(edge.first_bad),
                    name(edge.last_good),
                    100.0 * rate,
                    name(*until),
                    name(*after)
                )
            }
            Answer::Worse { after, until, rate, edge } => {
                format!(
                    "the failure becomes more frequent between {} and {}; before, it occurs in about {:.0} % of runs, \
                     starting between {} and {}",
                    name(edge.last_good),
                    name(edge.first_bad),
                    100.0 * rate,
                    name(*after),
                    name(*until)
                )
            }
            Answer::Several { edges } if self.header.fix => {
                // The list begins with the oldest change, which is the farthest from the good end.
                let places: Vec<_> = edges
                    .iter()
                    .rev()
                    .map(|e| format!("between {} and {}", name(e.first_bad), name(e.last_good)))
                    .collect();
                format!("the failure was fixed several times: {}", places.join(", and again "))
            }
            Answer::Several { edges } => {
                let places: Vec<_> = edges
                    .iter()
                    .map(|e| format!("between {} and {}", name(e.last_good), name(e.first_bad)))
                    .collect();
                format!("the failure began several times: {}", places.join(", and again "))
            }
            Answer::Range { last_good, first_bad, mass, spent } if *mass > 0.0 => format!(
                "the budget of {spent} is spent; with a confidence of {:.1} % the change is between {} and {}",
                100.0 * mass,
                name(*last_good),
                name(*first_bad)
            ),
            Answer::Range { spent, .. } => {
                format!("the budget of {spent} is spent before the ends were verified")
            }
            Answer::NotReproducible { runs, bad: 0 } => format!(
                "not reproducible: none of {} of the bad end failed, so its failure rate is below {:.1} % (95 % \
                 confidence)",
                count(*runs, "run"),
                300.0 / f64::from(*runs)
            ),
            Answer::NotReproducible { runs, bad } => {
                let runs = count(*runs, "run");
                format!("hardly reproducible: {bad} of {runs} of the bad end failed")
            }
            Answer::GoodEndFails { runs, bad } => {
                let (runs, same) =
                    (count(*runs, "run"), self.compare_signatures(0, self.header.points - 1));
                format!("the good end fails: {bad} of its {runs} failed {same}")
            }
            Answer::Exchanged { passes, failures } => format!(
                "the ends seem to be swapped: the bad end passed {} and the good end failed {}; swap --good and --bad",
                count(*passes, "time"),
                count(*failures, "time")
            ),
            Answer::EndUnusable { end } => self.unusable(*end),
            Answer::Wedged { passes, failures } => format!(
                "the good end passed {} and then failed {} in a row: the device may be broken, or the failure does not depend on \
                 the build",
                count(*passes, "time"),
                count(*failures, "time")
            ),
        }
    }

    fn increase(&self, edge: &Edge) -> String {
        let (mut runs, mut failures) = (0, 0);
        for observation in self.seen {
            if let Event::Ran { build, seen, .. } = observation.event
                && build <= edge.last_good
                && seen != BuildOutcome::Other
            {
                runs += 1;
                failures += u32::from(seen == BuildOutcome::Bad);
            }
        }
        let (good, bad) = ((self.name)(edge.last_good), (self.name)(edge.first_bad));
        let runs = count(runs, "run");
        match self.header.fix {
            true => format!(
                "the failure becomes rarer between {bad} and {good}; after that it still occurred, in {failures} of {runs}"
            ),
            false => format!(
                "the failure becomes more frequent between {good} and {bad}; before, it also occurred, in {failures} of {runs}"
            ),
        }
    }

    fn other_line(&self, edge: &Edge) -> String {
        let [good, bad] = [edge.last_good, edge.first_bad].map(self.name);
        let (of_good, fix) = (self.header.other_line[0] && edge.last_good == 0, self.header.fix);
        let (release, option) = if of_good { (&good, "--good") } else { (&bad, "--bad") };
        let age = if of_good != fix { "an older" } else { "a newer" };
        format!(
            "{good} passes and {bad} fails, but {release} is a release, from a branch of its own, so this is not a change between \
             two builds of one branch; name {age} nightly build as {option}"
        )
    }

    fn between(&self, last_good: usize, first_bad: usize) -> String {
        let points = first_bad - last_good - 1;
        let asked = |o: &&PointObservation| {
            matches!(o.event, Event::Unusable { build, .. } if last_good < build && build < first_bad)
                && o.why == EXCLUDED_REASON
        };
        match (points, self.seen.iter().filter(asked).count()) {
            (0, _) => String::new(),
            (1, 0) => "; the point between them cannot be tested".to_owned(),
            (1, _) => "; the point between them was skipped on request".to_owned(),
            (n, 0) => format!("; none of the {n} points between them can be tested"),
            (n, left) if left >= n => {
                format!("; the {n} points between them were skipped on request")
            }
            (n, left) => format!(
                "; of the {n} points between them {left} {} skipped on request, and none of the others can be tested",
                if left == 1 { "was" } else { "were" }
            ),
        }
    }

    fn unusable(&self, end: usize) -> String {
        let name = (self.name)(end);
        let broken = self
            .seen
            .iter()
            .rev()
            .find(|o| matches!(o.event, Event::Unusable { build, .. } if build == end));
        if let Some(broken) = broken {
            return format!("{name} cannot be tested: {}", broken.why);
        }
        let of_end =
            |o: &&PointObservation| matches!(o.event, Event::Ran { build, .. } if build == end);
        let runs = count(self.seen.iter().filter(of_end).count() as u32, "run");
        let ways = failure_modes(self.seen, end);
        let (looked_for, others): (Vec<_>, Vec<_>) = ways.into_iter().partition(|way| way.counts);
        if looked_for.is_empty() {
            let failures: u32 = others.iter().map(|way| way.runs).sum();
            return format!(
                "{name} cannot be tested: {failures} of its {runs} failed with a different signature: {}",
                format_modes(&others)
            );
        }
        let help = match self.header.regress.contains("match") {
            true => "",
            false => "; use --regress any to accept any failure",
        };
        format!(
            "{name} fails in {} ways (of {runs}: {}); only {} counts, and too many runs fail in another way to \
             continue{help}",
            looked_for.len() + others.len(),
            format_modes(&[&looked_for[..], &others[..]].concat()),
            looked_for.iter().map(|way| way.signature).collect::<Vec<_>>().join(" or "),
        )
    }

    /// Returns notes about what makes the answer uncertain, and about other failures.
    pub(crate) fn notes(&self, answer: &Answer, state: &State) -> Vec<String> {
        let mut notes = Vec::new();
        let Some(edge) = answer.edge() else { return notes };
        let (name, fix) = (self.name, self.header.fix);
        let percent = |share: f64| format!("{:.0} %", (100.0 * share).ceil());
        notes.push(format!(
            "{} fails in less than {} of runs (99 % confidence, from its {}); a rarer failure may {}",
            name(edge.last_good),
            percent(edge.last_good_rate_below),
            count(state.tally(edge.last_good).runs(), "run"),
            if fix { "still exist" } else { "have existed before" }
        ));
        notes.extend(self.several_signatures(edge.first_bad));
        notes.extend(self.other_failures(state));
        let earlier =
            || state.tallies().filter(|(point, t)| *point < edge.first_bad && !t.is_unusable());
        let ran = earlier().filter(|(_, tally)| tally.runs() > 0);
        let tested: Vec<usize> = ran.map(|(point, _)| point).collect();
        let gap = tested.windows(2).map(|pair| pair[1] - pair[0] - 1).max();
        if let Some(gap) = gap.filter(|gap| *gap > 0) {
            let from_good = if fix { "after" } else { "before" };
            notes.push(format!(
                "{} of the {} {from_good} the change were tested; up to {gap} consecutive bad ones could be \
                 undetected between them",
                tested.len(),
                count(edge.first_bad, "point")
            ));
        }
        for (point, tally) in earlier().filter(|(_, tally)| tally.bad > 0) {
            let same = self.compare_signatures(point, edge.first_bad);
            notes.push(format!(
                "{} failed {same}, in {} of {}",
                name(point),
                tally.bad,
                count(tally.runs(), "run")
            ));
        }
        if let Some(requested) = state.setup().rate
            && Posterior::from_state(state).supports_rate(requested) < 0.01
        {
            notes.push(format!(
                "the runs contradict --rate {requested}: bad builds fail in about {} of runs",
                percent(edge.rate)
            ));
        }
        notes
    }

    /// Returns the signatures of the failures that the search counts at a point, the most frequent first. A run that
    /// counts as a failure only because it was slow has no signature, and adds none.
    pub(crate) fn counted_signatures(&self, point: usize) -> Vec<&str> {
        let ways = failure_modes(self.seen, point).into_iter();
        ways.filter(|way| way.counts && !way.signature.is_empty())
            .map(|way| way.signature)
            .collect()
    }

    fn compare_signatures(&self, point: usize, other: usize) -> String {
        let (ways, others) = (self.counted_signatures(point), self.counted_signatures(other));
        match ways.iter().all(|way| others.contains(way)) {
            true => "in the same way".to_owned(),
            false => format!("as {}", ways.join(" and as ")),
        }
    }

    fn other_failures(&self, state: &State) -> Option<String> {
        let tested = state.tallies().filter(|(_, tally)| tally.other > 0 && !tally.is_unusable());
        let each: Vec<_> = tested
            .map(|(point, _)| {
                let ways = failure_modes(self.seen, point).into_iter().filter(|way| !way.counts);
                format!("{}: {}", (self.name)(point), format_modes(&ways.collect::<Vec<_>>()))
            })
            .collect();
        let (some, rest) = each.split_at(each.len().min(3));
        let more = match rest.len() {
            0 => String::new(),
            n => format!("; and {} more", count(n, "point")),
        };
        (!each.is_empty()).then(|| {
            format!("other failures count neither as good nor as bad: {}{more}", some.join("; "))
        })
    }

    /// Returns a note if the first bad point failed with several signatures, or if the bad end failed with other
    /// signatures than the first bad point.
    fn several_signatures(&self, first_bad: usize) -> Option<String> {
        let one = self.counted_signatures(first_bad);
        let all = |point: usize| {
            let ways = failure_modes(self.seen, point).into_iter().filter(|way| way.counts);
            format_modes(&ways.collect::<Vec<_>>())
        };
        let last = self.header.points - 1;
        let end = self.counted_signatures(last);
        let name = self.name;
        if one.len() > 1 {
            return Some(format!(
                "{} failed with several signatures: {}",
                name(first_bad),
                all(first_bad)
            ));
        }
        (last != first_bad && !end.is_empty() && one != end)
            .then(|| format!("{} failed with other signatures: {}", name(last), all(last)))
    }
}

/// Formats an observation as one line, for `bisect --replay`.
pub(crate) fn line(observation: &PointObservation) -> String {
    let (what, seconds) = match observation.event {
        Event::Installed { seconds, .. } => ("ready", seconds),
        Event::Unusable { seconds, .. } => ("skipped", seconds),
        Event::Ran { seen: BuildOutcome::Good, seconds, .. } => ("good", seconds),
        Event::Ran { seen: BuildOutcome::Bad, seconds, .. } => ("bad", seconds),
        Event::Ran { seen: BuildOutcome::Other, seconds, .. } => ("other", seconds),
    };
    let detail = match what {
        "skipped" => &observation.why,
        _ => &observation.signature,
    };
    format!("{:<28} {what:<8} {seconds:>6.1} s  {detail}", observation.label).trim_end().to_owned()
}

fn remaining_effort(posterior: &Posterior, state: &State, seen: &[PointObservation]) -> String {
    let left = posterior.remaining(state);
    let mean = |of: &dyn Fn(&Event) -> Option<f64>| {
        let each: Vec<f64> = seen.iter().filter_map(|o| of(&o.event)).collect();
        each.iter().sum::<f64>() / each.len().max(1) as f64
    };
    let run = mean(&|event| match event {
        Event::Ran { seconds, .. } => Some(*seconds),
        _ => None,
    });
    // A build that is already installed is activated quickly, so only the first installation of each build counts.
    let mut known = BTreeSet::new();
    let mut install = 0.0;
    for observation in seen {
        if let Event::Installed { build, seconds } = observation.event
            && known.insert(build)
        {
            install += seconds;
        }
    }
    let seconds = left.runs * run + left.builds * install / known.len().max(1) as f64;
    let (runs, builds) = (left.runs.round() as u32, left.builds.round() as u32);
    let of =
        if builds > 0 { format!(" and {}", count(builds, "new build")) } else { String::new() };
    format!("about {}{of} remaining, {}", count(runs, "run"), format_duration(seconds))
}

/// Returns a line about a new observation and the current state of the search.
pub fn progress(
    state: &State,
    seen: &[PointObservation],
    observation: &PointObservation,
    name: &dyn Fn(usize) -> String,
) -> String {
    let mut text = format!("[run {:>3}] {}", state.runs(), line(observation));
    if let Event::Ran { build, .. } = observation.event {
        let tally = state.tally(build);
        text.push_str(&format!("  ({} good, {} bad)", tally.good, tally.bad));
        let last = state.setup().bad();
        if state.tally(0).runs() > 0 && state.tally(last).bad > 0 {
            let posterior = Posterior::from_state(state);
            let (good, bad, _) = posterior.range();
            let (good, bad, left) =
                (name(good), name(bad), remaining_effort(&posterior, state, seen));
            text.push_str(&format!("  answer if stopped now: between {good} and {bad}; {left}"));
        }
    }
    text
}

pub(crate) fn label_of(begun: &BisectHeader, seen: &[PointObservation], point: usize) -> String {
    let of = |o: &&PointObservation| match o.event {
        Event::Installed { build, .. }
        | Event::Unusable { build, .. }
        | Event::Ran { build, .. } => build == point,
    };
    match (seen.iter().find(of), point) {
        (Some(observation), _) => observation.label.clone(),
        (None, 0) => begun.good.clone(),
        (None, point) if point + 1 == begun.points => begun.bad.clone(),
        (None, point) => format!("point {point}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search for a fix goes from new to old builds, but its sentences describe the builds from old to new.
    #[test]
    fn sentences_of_a_fix_are_in_order_of_time() {
        let ends = ("new".to_owned(), "old".to_owned());
        let mut begun = BisectHeader::new("trial".to_owned(), "builds".to_owned(), ends, 10);
        let name = |point: usize| format!("b{point}");
        let edge = |last_good: usize| Edge {
            last_good,
            first_bad: last_good + 1,
            confidence: 0.9,
            rate: 0.9,
            noise: 0.0,
            last_good_rate_below: 0.1,
        };
        let worse = Answer::Worse { after: 2, until: 3, rate: 0.1, edge: edge(6) };
        let several = Answer::Several { edges: vec![edge(2), edge(6)] };
        let mut check = |fix: bool, answer: &Answer, expected: &str| {
            begun.fix = fix;
            let got = Sentences { header: &begun, seen: &[], name: &name }.sentence(answer);
            assert!(got.starts_with(expected), "{got}");
        };
        check(
            false,
            &worse,
            "the failure becomes more frequent between b6 and b7; before, it occurs in about 10 %",
        );
        let better = "the failure becomes rarer between b7 and b6; it then still occurs in about 10 % of runs, and ends between b3 and b2";
        check(true, &worse, better);
        check(
            false,
            &Answer::Increase { edge: edge(6) },
            "the failure becomes more frequent between b6 and b7; before, it also occurred, in 0 of 0 runs",
        );
        check(
            true,
            &Answer::Increase { edge: edge(6) },
            "the failure becomes rarer between b7 and b6; after",
        );
        check(
            false,
            &several,
            "the failure began several times: between b2 and b3, and again between b6 and b7",
        );
        check(
            true,
            &several,
            "the failure was fixed several times: between b7 and b6, and again between b3 and b2",
        );
    }
}
