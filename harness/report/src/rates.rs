use std::collections::{BTreeMap, BTreeSet};

use judge::{Rate, VerdictKind};

use crate::{
    Record,
    words::{self, styled},
};

/// Formats the failure rate of each repeated trial with its 95 % interval. Runs without a verdict are left out. Returns
/// an empty string if no trial ran twice.
pub(crate) fn rates(records: &[Record]) -> String {
    // Runs of a trial on different GPUs are counted separately.
    let gpu = |record: &Record| {
        let device = &record.device;
        let known = !device.emulated && device.proven;
        if known { device.bdf.clone() } else { String::new() }
    };
    let gpus: BTreeSet<String> = records.iter().map(gpu).filter(|bdf| !bdf.is_empty()).collect();
    let gpu = |record: &Record| if gpus.len() > 1 { gpu(record) } else { String::new() };
    let mut trials: BTreeMap<(&str, Option<String>, String), Vec<&Record>> = BTreeMap::new();
    for record in records {
        let key = (record.trial.as_str(), words::faults(record), gpu(record));
        trials.entry(key).or_default().push(record);
    }
    let mut text = String::new();
    for ((trial, faults, gpu), records) in trials.into_iter().filter(|(_, r)| r.len() > 1) {
        let under = faults.map_or(String::new(), |faults| format!(" under {faults}"));
        let under = if gpu.is_empty() { under } else { format!("{under} at {gpu}") };
        let counted = records
            .iter()
            .filter(|r| !matches!(r.verdict.kind, VerdictKind::NoVerdict | VerdictKind::Skip));
        let failed = counted.clone().filter(|r| r.outcome.kind.is_failure());
        let rate = Rate { hits: failed.clone().count() as u32, runs: counted.count() as u32 };
        if rate.runs == 0 {
            continue;
        }
        let (low, high) = rate.interval();
        let bounds = match rate.hits {
            0 => format!("fails in at most {} of runs", percent(high)),
            n if n == rate.runs => format!("fails in at least {} of runs", percent(low)),
            _ => format!("fails in {} to {} of runs", percent(low), percent(high)),
        };
        let mut signatures: BTreeMap<&str, u32> = BTreeMap::new();
        for record in failed {
            *signatures.entry(&record.outcome.signature).or_default() += 1;
        }
        let kind = if rate.hits == 0 { VerdictKind::Pass } else { VerdictKind::NewsFail };
        let count = styled(words::style(kind), format!("{} of {} failed", rate.hits, rate.runs));
        text.push_str(&format!("{trial}{under}: {count}; {bounds} (95 % interval, two-sided)\n"));
        for (signature, n) in signatures {
            text.push_str(&format!("    {n} x {signature}\n"));
        }
    }
    text
}

pub(crate) fn percent(p: f64) -> String {
    let value = 100.0 * p;
    if (1.0..=99.0).contains(&value) { format!("{value:.1} %") } else { format!("{value:.2} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{changed, failed, on_gpu, passed, plain, unproven};

    #[test]
    fn rates_are_counted_per_gpu() {
        let at = |bdf: &str, record: Record| {
            let mut record = on_gpu(record);
            record.device.bdf = bdf.to_owned();
            record
        };
        let (one, two) = ("0000:03:00.0", "0000:43:00.0");
        let bad = || at(one, failed("a/b"));
        let good = || at(two, passed("a/b"));
        let text = plain(&rates(&[bad(), good(), bad(), good()]));
        for part in [format!("a/b at {one}: 2 of 2 failed"), format!("a/b at {two}: 0 of 2 failed")]
        {
            assert!(text.contains(&part), "{text}");
        }
        assert!(plain(&rates(&[bad(), bad()])).starts_with("a/b: 2 of 2 failed"));
    }

    #[test]
    fn repeated_trials_have_rates() {
        let runs = |n: usize, record: Record| vec![record; n];
        let records = [
            runs(30, passed("a/clean")),
            runs(4, passed("a/flaky")),
            runs(2, failed("a/flaky")),
            runs(1, changed("a/flaky")),
            runs(3, unproven("a/flaky")),
            runs(5, failed("a/red")),
            runs(1, failed("a/once")),
            runs(2, unproven("a/unclear")),
        ];
        insta::assert_snapshot!(plain(&rates(&records.concat())));
    }
}
