use std::{collections::BTreeMap, time::Duration};

use device::Fault;
use judge::{End, Known, VerdictKind};

use crate::{
    Record,
    conditions::passes_with,
    explain::explanations,
    rates::rates,
    words::{
        count, count_label, describe_setup, faults, rank, style, styled, unique, verdict_label,
        without_lines,
    },
};

/// Options of the view of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewOptions {
    /// Shows a line for each trial.
    pub trials: bool,
    /// Shows a line for each case whose trials passed, and the signatures of expected failures.
    pub verbose: bool,
    /// Shows each skip reason, instead of one line for all skipped trials.
    pub skips: bool,
}

/// Formats a whole run: the table (unexpected results first), and [`run_end`].
pub fn run_view(records: &[Record], options: ViewOptions, wall: Option<Duration>) -> String {
    let parts = [table(records, options), run_end(records, options, wall)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// Formats the end of a run whose lines have been shown already: explanations of unexpected results, failure rates of
/// repeated trials, the skips, and totals with stack and device. `wall` is the duration of the run, if it is known.
pub fn run_end(records: &[Record], options: ViewOptions, wall: Option<Duration>) -> String {
    let skips = if options.trials { String::new() } else { skips(records, options.skips) };
    let parts = [explanations(records), rates(records), skips + &summary(records, wall)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// Formats the table of results. It contains skipped trials only if each trial has a line.
fn table(records: &[Record], options: ViewOptions) -> String {
    let mut lines: Vec<TableLine> = Vec::new();
    if options.trials {
        lines.extend(records.iter().map(|record| trial(record, options)));
    } else {
        let mut cases: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
        let mut families: BTreeMap<&str, Passes> = BTreeMap::new();
        for record in records {
            cases.entry(&record.case).or_default().push(record);
        }
        for (name, records) in cases {
            lines.extend(case(name, &records, options));
            families.entry(family(name)).or_default().add(name, &records);
        }
        if !options.verbose {
            lines.extend(families.iter().filter_map(|(name, passes)| passes.line(name)));
        }
    }
    lines.sort_by(|a, b| (rank(a.kind), &a.name).cmp(&(rank(b.kind), &b.name)));
    lines.iter().map(TableLine::text).collect()
}

/// Returns the folder of a case, or the case itself if it is in no folder.
pub(crate) fn family(case: &str) -> &str {
    case.rsplit_once('/').map_or(case, |(folder, _)| folder)
}

/// Number of passed trials, and of all trials that ran, of the cases in a folder.
#[derive(Default)]
pub(crate) struct Passes {
    passed: usize,
    trials: usize,
    /// Name of the case to which all trials belong; `None` if they belong to several cases.
    only: Option<String>,
}

impl Passes {
    /// Adds the trials of a case.
    pub(crate) fn add(&mut self, case: &str, records: &[&Record]) {
        let ran = records.iter().filter(|r| r.verdict.kind != VerdictKind::Skip).count();
        if ran > 0 {
            self.only = (self.trials == 0).then(|| case.to_owned());
        }
        self.passed += records.iter().filter(|r| r.verdict.kind == VerdictKind::Pass).count();
        self.trials += ran;
    }

    /// Returns the line that counts the passes; `None` if no trial passed.
    pub(crate) fn line(&self, family: &str) -> Option<TableLine> {
        let Passes { passed, trials, only } = self;
        (*passed > 0).then(|| TableLine {
            kind: VerdictKind::Pass,
            name: only.as_deref().unwrap_or(family).to_owned(),
            note: format!("{passed} of {} passed", count(*trials, "trial")),
        })
    }
}

/// A line of the table.
pub(crate) struct TableLine {
    kind: VerdictKind,
    name: String,
    note: String,
}

impl TableLine {
    /// Formats the line. The spaces after the verdict make continuation lines align with the name.
    pub(crate) fn text(&self) -> String {
        let word = verdict_label(self.kind);
        let gap = " ".repeat(NAME_COLUMN - word.len());
        let note = if self.note.is_empty() { String::new() } else { format!(": {}", self.note) };
        format!("{}{gap}{}{note}\n", styled(style(self.kind), word), self.name)
    }
}

/// Column in which the name begins.
const NAME_COLUMN: usize = "no verdict".len() + 1;

/// Returns the line of a trial.
pub(crate) fn trial(record: &Record, options: ViewOptions) -> TableLine {
    let kind = record.verdict.kind;
    let name = match faults(record) {
        Some(faults) => format!("{} under {faults}", record.trial),
        None => record.trial.clone(),
    };
    let ms = Duration::from_nanos(record.wall_ns).as_millis();
    let note = reason(record, options.verbose);
    let note = if note.is_empty() { format!("{ms} ms") } else { format!("{ms} ms: {note}") };
    TableLine { kind, name, note }
}

/// Returns the lines of a case, one for each verdict. Skipped trials have no line, and trials that passed as expected
/// have one only if `verbose` is set.
pub(crate) fn case(name: &str, records: &[&Record], options: ViewOptions) -> Vec<TableLine> {
    let mut lines = Vec::new();
    for kind in VerdictKind::ALL.into_iter().filter(|kind| *kind != VerdictKind::Skip) {
        let of: Vec<&&Record> = records.iter().filter(|r| r.verdict.kind == kind).collect();
        let reasons = of.iter().map(|record| reason(record, options.verbose));
        let reasons = unique(reasons.filter(|reason| !reason.is_empty()));
        let note = match reasons.as_slice() {
            [] if of.is_empty() || !options.verbose => continue,
            [] => format!("{} of {} passed", of.len(), count(records.len(), "trial")),
            [one] => one.clone(),
            [one, other] => format!("{one}; {other}"),
            several => format!("in {} ways", several.len()),
        };
        let name = match reasons.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({} of {})", of.len(), records.len()),
        };
        lines.push(TableLine { kind, name, note });
    }
    lines
}

/// Describes the result of a trial in words; empty if it passed as expected. With `verbose`, the signature of an
/// expected failure follows.
fn reason(record: &Record, verbose: bool) -> String {
    let signature = || match verbose {
        true => format!(" [{}]", record.outcome.signature),
        false => String::new(),
    };
    match (record.verdict.kind, &record.verdict.known) {
        (VerdictKind::Pass, None) => String::new(),
        (VerdictKind::Pass, Some(_)) => describe_avoided(record),
        (VerdictKind::Difference, _) => format!(
            "{}; neither documentation nor CUDA rules this out{}",
            without_lines(&record.outcome.summary),
            signature()
        ),
        (VerdictKind::Known, Some(known)) => expected_failure(known) + &signature(),
        (VerdictKind::NewsFixed, Some(known)) => {
            format!("passes, but is expected to fail: {}", expected_failure(known))
        }
        (VerdictKind::Skip, _) => record.outcome.summary.clone(),
        _ => record.outcome.signature.clone(),
    }
}

/// Describes an expected failure as a sentence with its issue, for example `the copy arrives as zeros (ROCm/hip#1)`.
fn expected_failure(known: &Known) -> String {
    if known.is_from_file() {
        let place = known.upstream.as_deref().unwrap_or_default();
        return format!("listed as an expected failure in {place}");
    }
    let sentence = known.about.as_deref().unwrap_or(&known.signature).trim_end_matches('.');
    match &known.upstream {
        Some(issue) => format!("{sentence} ({issue})"),
        None => sentence.to_owned(),
    }
}

/// Describes the options with which an expected failure did not occur.
fn describe_avoided(record: &Record) -> String {
    format!("passes with {}; expected to fail without it", passes_with(record))
}

/// Formats the skipped trials: one line for each skip reason if `all` is true or if there is only one reason, otherwise
/// one line with their number.
pub fn skips(records: &[Record], all: bool) -> String {
    let mut reasons: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.verdict.kind == VerdictKind::Skip) {
        reasons.entry(&record.outcome.summary).or_default().push(record);
    }
    let lines: Vec<TableLine> = if all || reasons.len() < 2 {
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, records)| std::cmp::Reverse(records.len()));
        let each = reasons.into_iter().map(|(reason, records)| TableLine {
            kind: VerdictKind::Skip,
            name: skipped_trials(&records),
            note: reason.to_owned(),
        });
        each.collect()
    } else {
        let trials: usize = reasons.values().map(Vec::len).sum();
        vec![TableLine {
            kind: VerdictKind::Skip,
            name: format!("{}, for {} reasons", count(trials, "trial"), reasons.len()),
            note: "add `--explain-skips` to the command for a list".to_owned(),
        }]
    };
    lines.iter().map(TableLine::text).collect()
}

/// Describes the trials that are skipped for one reason: their number, and their case or the number and folders of
/// their cases.
fn skipped_trials(records: &[&Record]) -> String {
    let cases = unique(records.iter().map(|record| record.case.clone()));
    let trials = count(records.len(), "trial");
    match cases.as_slice() {
        [case] => format!("{trials} of {case}"),
        cases => {
            let families = unique(cases.iter().map(|case| family(case).to_owned()));
            format!("{trials} of {} in {}", count(cases.len(), "case"), families.join(", "))
        }
    }
}

/// Returns a sentence with the number of trials for each verdict. These numbers add up to the number of trials.
pub fn sentence(records: &[Record]) -> String {
    let cases = {
        let mut names: Vec<&str> = records.iter().map(|r| r.case.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    };
    let mut kinds = VerdictKind::ALL.to_vec();
    kinds.sort_by_key(|kind| (*kind != VerdictKind::Pass, rank(*kind)));
    let parts: Vec<String> = kinds
        .into_iter()
        .filter_map(|kind| {
            let n = records.iter().filter(|r| r.verdict.kind == kind).count();
            let always = kind == VerdictKind::Pass;
            (n > 0 || always).then(|| styled(style(kind), format!("{n} {}", count_label(kind))))
        })
        .collect();

    format!("{} of {}: {}", count(records.len(), "trial"), count(cases, "case"), parts.join(", "))
}

/// Formats the totals of a run: verdict counts, stacks and devices, and the date of the last trial.
fn summary(records: &[Record], wall: Option<Duration>) -> String {
    let date = records.iter().map(|r| r.date.as_str()).max().unwrap_or_default();
    let mut text = format!(
        "{}{}\n",
        sentence(records),
        wall.map(|wall| format!(" in {:.1} s", wall.as_secs_f64())).unwrap_or_default()
    );
    // A skipped trial started nothing, so its stack and device are shown only if no other trial ran.
    let ran = records.iter().filter(|r| r.verdict.kind != VerdictKind::Skip);
    let mut places = unique(ran.map(describe_setup));
    if places.is_empty() {
        places = unique(records.iter().map(describe_setup));
    }
    for place in places {
        text.push_str(&format!("{place}; {date}\n"));
    }
    let confined = records.iter().map(|r| r.confined.clone()).filter(|text| !text.is_empty());
    for confined in unique(confined) {
        text.push_str(&format!("Cases from elsewhere: {confined}\n"));
    }
    for (fault, trials) in inactive_faults(records) {
        let trials = count(trials, "trial");
        text.push_str(&format!("The injected fault {fault} was never triggered, in {trials}\n"));
    }
    text
}

/// Returns the injected faults that never took effect, each with the number of trials into which it was injected. A
/// fault is left out if one of these trials did not end normally, because the fault may have taken effect after the
/// process reported how often it did.
fn inactive_faults(records: &[Record]) -> Vec<(Fault, usize)> {
    let mut faults: BTreeMap<Fault, (usize, bool)> = BTreeMap::new();
    for record in records {
        let acts_complete = record.exit == End::Exited(plan::WORKER_DONE);
        for acts in &record.acts {
            let (trials, acted) = faults.entry(acts.fault).or_default();
            *trials += 1;
            *acted |= acts.times > 0 || !acts_complete;
        }
    }
    let idle = faults.into_iter().filter(|(_, (_, acted))| !acted);
    idle.map(|(fault, (trials, _))| (fault, trials)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{
        changed, failed, fixed, known, on_gpu, passed, plain, skipped, unproven, with_fault,
    };

    const CASES: ViewOptions = ViewOptions { trials: false, verbose: false, skips: false };
    const TRIALS: ViewOptions = ViewOptions { trials: true, ..CASES };
    const VERBOSE: ViewOptions = ViewOptions { verbose: true, ..CASES };

    fn records() -> Vec<Record> {
        vec![
            passed("copies/small-sizes[bytes=64]"),
            failed("copies/small-sizes[bytes=2]"),
            failed("copies/small-sizes[bytes=4]"),
            passed("copies/tensors[shape=4x4]"),
            passed("copies/tensors[shape=16x1x64x64]"),
            known("graphs/replay[n=1]"),
            passed("graphs/replay[n=2]"),
            changed("graphs/destroy[n=1]"),
            fixed("graphs/fork[n=1]"),
            skipped("rng/capture[kind=philox]"),
            skipped("rng/capture[kind=xorwow]"),
            unproven("gemm/handles"),
        ]
    }

    #[test]
    fn trimmed_fields_are_not_rendered() {
        let mut records = records();
        records.push(on_gpu(passed("copies/offsets")));
        let mut short = records.clone();
        short.iter_mut().for_each(Record::trim);
        assert_ne!(short, records);
        let shown = |records: &[Record]| {
            let junit = crate::junit(records).expect("its texts are harmless");
            let junit: Vec<_> = junit.split_whitespace().map(str::to_owned).collect();
            [CASES, TRIALS]
                .map(|options| run_view(records, options, None))
                .into_iter()
                .chain(junit)
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&short), shown(&records));
    }

    #[test]
    fn cases() {
        insta::assert_snapshot!(plain(&table(&records(), CASES)));
        insta::assert_snapshot!("cases_verbose", plain(&table(&records(), VERBOSE)));
    }

    #[test]
    fn several_results_of_a_case_have_a_line_each() {
        let about = |text: &str, mut record: Record| {
            let known = record.verdict.known.as_mut().expect("a failure is expected");
            known.about = Some(text.to_owned());
            record
        };
        let records = [
            about("The copy arrives as zeros.", known("copies/a[n=1]")),
            about("The copy arrives as zeros.", known("copies/a[n=2]")),
            failed("copies/a[n=3]"),
            passed("copies/a[n=4]"),
            skipped("copies/a[n=5]"),
        ];
        let text = [
            ("FAIL", "copies/a (1 of 5): wrong-data:back:zero"),
            ("known", "copies/a (2 of 5): The copy arrives as zeros (ROCm/rocm-systems#10639)"),
            ("ok", "copies/a: 1 of 4 trials passed"),
        ];
        let text: String = text.iter().map(|(word, rest)| format!("{word:10} {rest}\n")).collect();
        assert_eq!(plain(&table(&records, CASES)), text);
        let mut other = about("The last byte is lost.", known("copies/a[n=6]"));
        other.verdict.known.as_mut().expect("a failure is expected").upstream = None;
        let line = plain(&table(&[records[0].clone(), other], CASES));
        let sentences =
            "The copy arrives as zeros (ROCm/rocm-systems#10639); The last byte is lost\n";
        assert_eq!(line, format!("{:10} copies/a (2 of 2): {sentences}", "known"));
    }

    #[test]
    fn skipped_trials_are_grouped_by_reason() {
        let why = |trial: &str, reason: &str| {
            let mut record = skipped(trial);
            record.outcome.summary = reason.to_owned();
            record
        };
        let none = "the stack has no libhipblaslt; `rocrepro stack fetch X --with hipblaslt` adds it (257 MB)";
        let records = [
            why("gemm/a[n=1]", none),
            why("gemm/a[n=2]", none),
            why("gemm/b", none),
            why("gemm/c", "the stack has no librocblas"),
            why("gemm/d[n=1]", none),
            passed("gemm/d[n=2]"),
            why("gemm/e[n=1]", none),
            why("gemm/e[n=2]", "needs gfx90a"),
            why("rng/a", none),
            why("alone", none),
            why("lonely", none),
        ];
        insta::assert_snapshot!(plain(&skips(&records, true)));
        let one = "skip       10 trials, for 3 reasons: add `--explain-skips` to the command for a list\n";
        assert_eq!(plain(&skips(&records, false)), one);
        assert_eq!(
            plain(&skips(&records[..3], false)),
            format!("skip       3 trials of 2 cases in gemm: {none}\n")
        );
        assert_eq!(skips(&[passed("a/b")], false), "");
        assert_eq!(plain(&table(&records, TRIALS)).lines().count(), records.len());
    }

    #[test]
    fn trials() {
        let mut records = records();
        records.push(with_fault(device::Fault::CopyZero, failed("copies/tensors[shape=4x4]")));
        insta::assert_snapshot!(plain(&table(&records, TRIALS)));
    }

    #[test]
    fn summaries() {
        let wall = Some(Duration::from_millis(1234));
        insta::assert_snapshot!(plain(&summary(&records(), wall)));
        let gpu = [passed("a/b"), on_gpu(passed("a/b"))];
        let text = plain(&summary(&gpu, wall));
        assert_eq!(
            text.lines().count(),
            3,
            "an emulated device and a GPU never share a line: {text}"
        );
    }

    #[test]
    fn formats_a_whole_run() {
        let records = [
            passed("copies/a[x=1]"),
            passed("copies/a[x=1]"),
            failed("copies/b"),
            known("copies/c"),
        ];
        let view = run_view(&records, CASES, Some(Duration::from_secs(2)));
        insta::assert_snapshot!(plain(&view));
    }

    #[test]
    fn styles_are_only_for_terminals() {
        assert!(table(&[failed("a/b")], CASES).contains("\u{1b}["));
    }
}
