//! Compares the outcome of each case, on the healthy device and under each fault that it declares, with those stored in
//! `reports/snapshots`.
//!
//! A changed line means that ROCm, the device or rocrepro behaves differently: read the line, then run `cargo insta
//! review`. Program cases, and cases that need a library in addition to HIP, are not included, because not every
//! machine has what they need. `rocrepro prove` covers them.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    time::Duration,
};

use device::Fault;
use judge::VerdictKind;
use rocrepro::{Job, Selected, lower_each, run_trial, select, with_declared_faults};
use supervise::{for_each, in_order};

use crate::common::{library, never, ran_in_own_process, session};

#[test]
fn matches_the_snapshots_of_all_outcomes() {
    if ran_in_own_process("outcomes::matches_the_snapshots_of_all_outcomes") {
        return;
    }
    let session = session(|options| options.limits.quiet = Duration::from_secs(10));
    let (library, cancel) = (library(), never());
    let selected = select(&library, &[]).expect("everything");
    let first: BTreeMap<&str, &Selected<'_>> = selected
        .iter()
        .filter(|s| s.case.needs.libraries.is_empty() && !s.case.is_program())
        .rev()
        .map(|s| (s.case.id.as_str(), s))
        .collect();
    let first: Vec<Selected<'_>> = first.into_values().cloned().collect();
    let planned = with_declared_faults(&first);
    let lowered = lower_each(&library, planned.iter().cloned()).expect("they lower");
    let jobs = planned.into_iter().zip(lowered).map(|((entry, fault), lowered)| {
        let faults = fault.into_iter().collect();
        Job { case: entry.case, trial: &entry.trial, lowered, run: 0, faults }
    });
    let mut families: BTreeMap<String, String> = BTreeMap::new();
    let mut keep = in_order(|_, record: Option<report::Record>| {
        let record = record.expect("it is not cancelled");
        let family = record.case.split('/').next().unwrap_or_default().to_owned();
        let text = families.entry(family).or_default();
        // The signature of an expected failure may depend on timing; the `known` entries of the case list the possible
        // signatures.
        let entry = first.iter().find(|s| s.case.id == record.case).expect("it was run");
        // If threads of the HIP runtime are delayed, the runtime allocates more memory. Then the amount of free memory
        // is the first thing that is wrong.
        const EITHER: [&str; 2] = ["leak:hipMemGetInfo", "wrong-data:out.back:zero"];
        let is_either = entry.case.needs.alone
            && EITHER.contains(&&*record.outcome.signature)
            && record.faults.first().is_some_and(|planted| planted.fault == Fault::KernelDrop);
        let signature = match (&record.verdict.known, record.faults.is_empty()) {
            (_, false) if is_either => EITHER.join(" or "),
            (Some(known), true) if record.verdict.kind == VerdictKind::Known => {
                let windows = &first
                    .iter()
                    .find(|s| s.case.id == record.case)
                    .expect("it was run")
                    .case
                    .known;
                let of_these = windows.iter().filter(|other| other.rocm == known.rocm);
                let signatures: BTreeSet<&str> = of_these.map(|other| &*other.signature).collect();
                format!("known {}", Vec::from_iter(signatures).join(" or "))
            }
            (Some(_), true) if record.verdict.kind == VerdictKind::Difference => {
                let entry = first.iter().find(|s| s.case.id == record.case).expect("it was run");
                let all = entry.case.differences(&entry.trial);
                let signatures: Vec<&str> =
                    all.filter_map(|entry| entry.signature.as_deref()).collect();
                format!("differs {}", signatures.join(" or "))
            }
            _ => record.outcome.signature,
        };
        match record.faults.first() {
            None => text.push_str(&format!("{}\n  healthy: {signature}\n", record.trial)),
            Some(planted) => text.push_str(&format!("  {}: {signature}\n", planted.fault)),
        }
    });
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    for_each(
        jobs,
        threads,
        &cancel,
        |_, job| run_trial(&session, &job, &cancel),
        |index, record| {
            keep(index, record);
        },
    );
    drop(keep);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../reports/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for (family, text) in families {
            insta::assert_snapshot!(family, text);
        }
    });
}
