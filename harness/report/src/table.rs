use std::{collections::BTreeMap, time::Duration};

use device::Fault;
use judge::{End, Known, VerdictKind};

use crate::{
    Record,
    conditions::passes_with,
    explain::explanations,
    rates::rates,
    words::{count, counted, faults, place, rank, style, styled, unique, window, word},
};

/// Selects what one row of the table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// A row shows a case with all its trials.
    Cases,
    /// A row shows one trial.
    Trials,
}

/// Formats a whole run: the table (unexpected results first), explanations, failure rates of repeated trials, and
/// totals with stack and device. `wall` is the duration of the run, if it is known.
pub fn run_view(records: &[Record], rows: Rows, wall: Option<Duration>) -> String {
    let parts =
        [table(records, rows), explanations(records), rates(records), summary(records, wall)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn table(records: &[Record], rows: Rows) -> String {
    let mut lines: Vec<Line> = match rows {
        Rows::Trials => records.iter().map(trial).collect(),
        Rows::Cases => {
            let mut cases: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
            for record in records {
                cases.entry(&record.case).or_default().push(record);
            }
            let (skipped, others) = families(cases);
            let others = others.into_iter().map(|(name, records)| case(&name, &records));
            let skipped = skipped.into_iter().map(|(name, records)| case(&name, &records));
            skipped.chain(others).collect()
        }
    };
    lines.sort_by(|a, b| (rank(a.kind), &a.name).cmp(&(rank(b.kind), &b.name)));
    let width = |column: fn(&Line) -> &str| {
        lines.iter().map(|line| column(line).chars().count()).max().unwrap_or(0)
    };
    let (names, numbers) = (width(|l| &l.name), width(|l| &l.number));
    lines
        .iter()
        .map(|Line { kind, name, number, note }| {
            let status = styled(style(*kind), format!("{:<10}", word(*kind)));
            let line = format!("{status} {name:<names$}  {number:>numbers$}  {note}");
            format!("{}\n", line.trim_end())
        })
        .collect()
}

struct Line {
    kind: VerdictKind,
    name: String,
    number: String,
    note: String,
}

fn trial(record: &Record) -> Line {
    let kind = record.verdict.kind;
    let note = match (kind, &record.verdict.known) {
        (VerdictKind::Pass, None) => String::new(),
        (VerdictKind::Pass, Some(_)) => avoided(record),
        (VerdictKind::Difference, Some(known)) => unsupported_expectation(known),
        (VerdictKind::Known | VerdictKind::NewsFixed, Some(known)) => window(known),
        (VerdictKind::Skip, _) => record.outcome.summary.clone(),
        _ => record.outcome.signature.clone(),
    };
    let name = match faults(record) {
        Some(faults) => format!("{} under {faults}", record.trial),
        None => record.trial.clone(),
    };
    let ms = Duration::from_nanos(record.wall_ns).as_millis();
    Line { kind, name, number: format!("{ms} ms"), note }
}

type Named<'a> = (String, Vec<&'a Record>);

/// Puts those cases of a family that were all skipped for the same reason into one group, so that the table shows the
/// reason once. The second list contains all other cases.
fn families<'a>(cases: BTreeMap<&str, Vec<&'a Record>>) -> (Vec<Named<'a>>, Vec<Named<'a>>) {
    let mut skipped = BTreeMap::<_, Vec<Named<'_>>>::new();
    let mut others = Vec::new();
    for (name, records) in cases {
        let all = records.iter().all(|record| record.verdict.kind == VerdictKind::Skip);
        let mut reasons: Vec<&str> = records.iter().map(|r| r.outcome.summary.as_str()).collect();
        reasons.dedup();
        match (name.rsplit_once('/'), reasons.as_slice()) {
            (Some((family, _)), [reason]) if all => {
                let key = (family.to_owned(), (*reason).to_owned());
                skipped.entry(key).or_default().push((name.to_owned(), records));
            }
            _ => others.push((name.to_owned(), records)),
        }
    }
    let together = skipped.into_iter().filter_map(|((family, _), mut cases)| {
        if cases.len() == 1 {
            return cases.pop();
        }
        let name = format!("{family} ({})", count(cases.len(), "case"));
        Some((name, cases.into_iter().flat_map(|(_, records)| records).collect()))
    });
    (together.collect(), others)
}

fn case(name: &str, records: &[&Record]) -> Line {
    let mut kinds: Vec<VerdictKind> = VerdictKind::ALL.to_vec();
    kinds.sort_by_key(|kind| rank(*kind));
    let of = |kind: VerdictKind| records.iter().filter(move |r| r.verdict.kind == kind);
    let worst = kinds.iter().copied().find(|kind| of(*kind).count() > 0);
    let passed = of(VerdictKind::Pass).filter(|r| r.verdict.known.is_some());
    let avoided = unique(passed.clone().map(|record| avoided(record)));
    let avoided = avoided.first().map(|how| format!("{} {how}", passed.count()));
    let notes: Vec<String> = kinds
        .iter()
        .copied()
        .filter(|kind| *kind != VerdictKind::Pass)
        .filter_map(|kind| {
            let n = of(kind).count();
            (n > 0).then(|| format!("{n} {}{}", counted(kind), because(of(kind))))
        })
        .chain(avoided)
        .collect();
    Line {
        kind: worst.unwrap_or(VerdictKind::Skip),
        name: name.to_owned(),
        number: format!("{}/{}", of(VerdictKind::Pass).count(), records.len()),
        note: notes.join("; "),
    }
}

/// Describes the options with which an expected failure did not occur.
fn avoided(record: &Record) -> String {
    format!("passes with {}; expected to fail without it", passes_with(record))
}

/// Describes a failure that is expected although neither the documentation nor CUDA promises another behaviour. The
/// case itself explains it.
fn unsupported_expectation(known: &Known) -> String {
    format!("{}, which neither a document nor CUDA excludes", known.signature)
}

/// Returns the reason that the trials share, the number of different reasons, or an empty string if the list of trials
/// is empty.
fn because<'a>(records: impl Iterator<Item = &'a &'a Record>) -> String {
    let reason = |record: &Record| match (record.verdict.kind, &record.verdict.known) {
        (VerdictKind::Known | VerdictKind::NewsFixed, Some(known)) => {
            known.upstream.clone().unwrap_or_else(|| known.signature.clone())
        }
        (VerdictKind::Difference, Some(known)) => unsupported_expectation(known),
        (VerdictKind::Skip, _) => record.outcome.summary.clone(),
        _ => record.outcome.signature.clone(),
    };
    let mut reasons: Vec<String> = records.map(|record| reason(record)).collect();
    reasons.sort();
    reasons.dedup();
    match reasons.as_slice() {
        [] => String::new(),
        [one] => format!(": {one}"),
        several => format!(", in {} ways", several.len()),
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
            (n > 0 || always).then(|| styled(style(kind), format!("{n} {}", counted(kind))))
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
    let mut places = unique(ran.map(place));
    if places.is_empty() {
        places = unique(records.iter().map(place));
    }
    for place in places {
        text.push_str(&format!("{place}; {date}\n"));
    }
    let confined = records.iter().map(|r| r.confined.clone()).filter(|text| !text.is_empty());
    for confined in unique(confined) {
        text.push_str(&format!("Cases from elsewhere: {confined}\n"));
    }
    for (fault, trials) in idle(records) {
        let trials = count(trials, "trial");
        text.push_str(&format!("The injected fault {fault} was never triggered, in {trials}\n"));
    }
    text
}

/// Returns the injected faults that never acted, each with the number of trials into which it was injected. Faults of
/// a process that did not end in good order are left out, because they may have acted after the process reported how
/// often its faults acted.
fn idle(records: &[Record]) -> Vec<(Fault, usize)> {
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
        short.iter_mut().for_each(Record::let_go);
        assert_ne!(short, records);
        let shown = |records: &[Record]| {
            let junit = crate::junit(records).expect("its texts are harmless");
            let junit: Vec<_> = junit.split_whitespace().map(str::to_owned).collect();
            [Rows::Cases, Rows::Trials]
                .map(|rows| run_view(records, rows, None))
                .into_iter()
                .chain(junit)
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&short), shown(&records));
    }

    #[test]
    fn cases() {
        insta::assert_snapshot!(plain(&table(&records(), Rows::Cases)));
    }

    #[test]
    fn skipped_family_has_one_line() {
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
        let text = plain(&table(&records, Rows::Cases));
        insta::assert_snapshot!(text);
        assert_eq!(plain(&table(&records, Rows::Trials)).lines().count(), records.len());
    }

    #[test]
    fn trials() {
        let mut records = records();
        records.push(with_fault(device::Fault::CopyZero, failed("copies/tensors[shape=4x4]")));
        insta::assert_snapshot!(plain(&table(&records, Rows::Trials)));
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
        let view = run_view(&records, Rows::Cases, Some(Duration::from_secs(2)));
        insta::assert_snapshot!(plain(&view));
    }

    #[test]
    fn styles_are_only_for_terminals() {
        assert!(table(&[failed("a/b")], Rows::Cases).contains("\u{1b}["));
    }
}
