use std::collections::{BTreeMap, BTreeSet};

use anstyle::{AnsiColor, Style};
use device::{Fault, Schedule};
use judge::{Kind, VerdictKind, expected_under, is_stated, signature_fits};

use crate::{
    Record,
    checks::insensitive_checks,
    words::{count, stack_and_device, styled, unique},
};

/// Result of a case under one injected fault. Every trial that ran with the fault must detect it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultCell {
    /// All trials detected the fault.
    Caught {
        /// Signatures of the failures with which the trials detected the fault, without duplicates.
        by: Vec<String>,
    },
    /// Some trials passed, or failed in a way that does not show the fault.
    Missed {
        /// Trials that missed the fault, each with its actual result.
        trials: Vec<(String, String)>,
    },
    /// No trial missed the fault, but some were skipped or have no verdict.
    Unsure {
        /// Reason why it is unknown whether the case detects the fault.
        why: String,
    },
}

/// Results of one case under all faults that it declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofRow {
    /// Name of the case.
    pub case: String,
    /// Trials that had an unexpected result or no verdict when no fault was injected, each with its signature.
    pub unhealthy: Vec<(String, String)>,
    /// Result under each fault that the case declares.
    pub cells: BTreeMap<Fault, FaultCell>,
    /// For each fault, the trials with an expected failure that did not detect the fault. They do not count against the
    /// case.
    pub hidden: BTreeMap<Fault, Vec<String>>,
    /// Number of trials that were skipped in the run without faults, and the skip reason of the first of them. Skipped
    /// trials count neither for nor against the case, unless nothing else ran.
    pub skipped: Option<(usize, String)>,
    /// Names of the checks in a program that pass both without faults and under every fault.
    pub unturned: Vec<String>,
}

/// A trial whose result depends on the schedule: another legal order of its work changes the result. Two accesses to
/// memory are unordered, so neither result says anything about ROCm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RacyTrial {
    /// Name of the trial.
    pub trial: String,
    /// Schedule with which the result differs from the result with the eager schedule.
    pub schedule: Schedule,
    /// Result with the eager schedule.
    pub eager: String,
    /// Result with the other schedule.
    pub other: String,
    /// Report of the sanitizer, which names the two accesses; `None` if the sanitizer found none.
    pub watched: Option<String>,
}

/// Result of mutation testing, which removes the checks and expected results of the cases one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// Number of checks and expected results in trials that pass without faults.
    pub all: usize,
    /// Checks and expected results that are not needed: after the removal of any one of them, the case still detects
    /// all faults that it declares.
    pub unnoticed: Vec<UnneededStatement>,
}

/// A check or expected result without which the case still detects all faults that it declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnneededStatement {
    /// Name of the case.
    pub case: String,
    /// Line of the check or expected result in the case file.
    pub line: u32,
    /// Short description of the check or expected result.
    pub statement: String,
    /// Name of a trial that contains the check or expected result.
    pub trial: String,
}

/// Describes the result of a trial in one line.
pub fn describe_result(record: &Record) -> String {
    let outcome = &record.outcome;
    let line = outcome.at.line.map_or(String::new(), |line| format!(" at line {line}"));
    let details: Vec<&str> = outcome.details.iter().take(2).map(String::as_str).collect();
    let text = format!("{}{line}: {}; {}", outcome.signature, outcome.summary, details.join("; "));
    text.trim_end_matches([';', ' ']).to_owned()
}

/// Compares the results of trials with the eager schedule to the results of the same trials with other schedules.
/// Returns the trials whose results differ.
pub fn find_racy_trials(eager: &[Record], others: &[(Schedule, Vec<Record>)]) -> Vec<RacyTrial> {
    let mut found: Vec<RacyTrial> = Vec::new();
    for (schedule, records) in others {
        for record in records {
            let first = eager.iter().find(|r| r.faults.is_empty() && r.trial == record.trial);
            let Some(first) = first.filter(|r| r.outcome.signature != record.outcome.signature)
            else {
                continue;
            };
            if found.iter().all(|racy| racy.trial != record.trial) {
                found.push(RacyTrial {
                    trial: record.trial.clone(),
                    schedule: *schedule,
                    eager: describe_result(first),
                    other: describe_result(record),
                    watched: None,
                });
            }
        }
    }
    found
}

/// Result of `rocrepro prove`, which shows whether the cases detect the faults that are injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Results of each case.
    pub rows: Vec<ProofRow>,
    /// Trials whose result depends on the schedule.
    pub racy: Vec<RacyTrial>,
    /// Faults that a case declares but that cannot be injected on this device, each with the name of the case.
    pub left_out: BTreeSet<(String, Fault)>,
    /// Result of mutation testing; `None` if it was not requested.
    pub mutation: Option<Mutation>,
    /// Stacks and devices of the runs, described for people.
    pub places: Vec<String>,
}

impl Proof {
    /// Returns the exit status: 0 if every case passes as expected without faults and detects all its faults, 1 if not,
    /// 3 if a result has no verdict, 4 if no fault was injected.
    pub fn exit_status(&self) -> u8 {
        let cells = || self.rows.iter().flat_map(|row| row.cells.values());
        let missed = cells().any(|cell| matches!(cell, FaultCell::Missed { .. }));
        let unnoticed = self.mutation.as_ref().is_some_and(|m| !m.unnoticed.is_empty());
        if missed
            || unnoticed
            || !self.racy.is_empty()
            || self.rows.iter().any(|row| !row.unhealthy.is_empty() || !row.unturned.is_empty())
        {
            1
        } else if cells().any(|cell| matches!(cell, FaultCell::Unsure { .. })) {
            3
        } else if cells().next().is_none() {
            4
        } else {
            0
        }
    }
}

/// Evaluates the records of runs without faults and with one injected fault each. If a trial with an expected failure
/// misses the fault, this does not count against the case. `signature` returns the pattern that the failure must match,
/// if the case declares one; otherwise any failure that shows the fault is accepted.
pub fn prove(records: &[Record], signature: impl Fn(&Record, Fault) -> Option<String>) -> Proof {
    let mut cases: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        cases.entry(&record.case).or_default().push(record);
    }
    let failing = |r: &&Record| r.faults.is_empty() && r.verdict.kind.fails_as_expected();
    let known: BTreeSet<&str> = records.iter().filter(failing).map(|r| r.trial.as_str()).collect();
    // A trial that fails in the same way without the fault does not show the fault.
    let alone: BTreeSet<(&str, &str)> = records
        .iter()
        .filter(|r| r.faults.is_empty() && r.outcome.kind != Kind::Pass)
        .map(|r| (r.trial.as_str(), r.outcome.signature.as_str()))
        .collect();
    let noticed = |fault, record: &Record, pattern| {
        let got = &record.outcome.signature;
        if alone.contains(&(record.trial.as_str(), got)) {
            return Err(format!("{got}, as without the fault"));
        }
        check_detected(fault, record, pattern)
    };
    let rows = cases.into_iter().map(|(case, records)| {
        let unhealthy = records
            .iter()
            .filter(|r| r.faults.is_empty())
            .filter(|r| r.verdict.is_unexpected() || r.verdict.kind == VerdictKind::NoVerdict)
            .map(|r| {
                let expected = match r.verdict.kind {
                    VerdictKind::NewsFixed => ", but the case expects a failure",
                    _ => "",
                };
                (r.trial.clone(), format!("{}{expected}", r.outcome.signature))
            })
            .collect();
        let unturned = insensitive_checks(&records);
        let idle = |r: &&&Record| r.faults.is_empty() && r.outcome.kind == Kind::Skip;
        let idle: Vec<&Record> = records.iter().filter(idle).copied().collect();
        let skipped = idle.first().map(|first| (idle.len(), first.outcome.summary.clone()));
        let idle: BTreeSet<&str> = idle.iter().map(|r| r.trial.as_str()).collect();
        let mut under: BTreeMap<Fault, Vec<&Record>> = BTreeMap::new();
        let mut hidden: BTreeMap<Fault, Vec<String>> = BTreeMap::new();
        for record in records {
            let [planted] = &record.faults[..] else { continue };
            // An expected failure may hide the fault, so such a trial does not count against the case.
            let pattern = signature(record, planted.fault);
            if !known.contains(record.trial.as_str())
                || noticed(planted.fault, record, pattern).is_ok()
            {
                under.entry(planted.fault).or_default().push(record);
            } else {
                hidden.entry(planted.fault).or_default().push(record.trial.clone());
            }
        }
        let cells = under
            .into_iter()
            .map(|(fault, records)| (fault, cell(fault, &records, &idle, &signature, noticed)));
        ProofRow {
            case: case.to_owned(),
            unhealthy,
            cells: cells.collect(),
            hidden,
            skipped,
            unturned,
        }
    });
    Proof {
        rows: rows.collect(),
        racy: Vec::new(),
        left_out: BTreeSet::new(),
        mutation: None,
        places: unique(records.iter().map(stack_and_device)),
    }
}

fn cell(
    fault: Fault,
    records: &[&Record],
    idle: &BTreeSet<&str>,
    signature: impl Fn(&Record, Fault) -> Option<String>,
    noticed: impl Fn(Fault, &Record, Option<String>) -> Result<(), String>,
) -> FaultCell {
    let mut by = BTreeSet::new();
    let mut missed = Vec::new();
    let mut unclear = None;
    let ran = records.iter().any(|r| r.outcome.kind != Kind::Skip);
    for record in records {
        let outcome = &record.outcome;
        if ran && outcome.kind == Kind::Skip && idle.contains(record.trial.as_str()) {
            continue;
        }
        match noticed(fault, record, signature(record, fault)) {
            _ if matches!(outcome.kind, Kind::NoVerdict | Kind::Skip) => {
                unclear.get_or_insert(&outcome.summary);
            }
            Ok(()) => {
                by.insert(outcome.signature.clone());
            }
            Err(why) => missed.push((record.trial.clone(), why)),
        }
    }
    if !missed.is_empty() {
        return FaultCell::Missed { trials: missed };
    }
    match unclear {
        Some(why) => FaultCell::Unsure { why: why.clone() },
        None => FaultCell::Caught { by: by.into_iter().collect() },
    }
}

/// Checks that a trial detected the fault.
///
/// # Errors
/// Returns the reason why the trial did not detect the fault.
fn check_detected(fault: Fault, record: &Record, pattern: Option<String>) -> Result<(), String> {
    let outcome = &record.outcome;
    let got = &outcome.signature;
    // If the process crashed, the fault may have taken effect after the worker reported how often it did.
    let acts_complete = record.exit == judge::End::Exited(plan::WORKER_DONE);
    if acts_complete && record.acts.iter().any(|acts| acts.fault == fault && acts.times == 0) {
        return Err(format!(
            "{got}; the fault was never triggered, so this trial cannot detect it"
        ));
    }
    // A program that does not use rocrepro's functions can show wrong data only by the way in which it ends. Its case
    // then expects an exit status, an exception, or a failed assertion (`crash:program:SIGABRT:*`).
    let by_its_end = |pattern: &String| {
        ["exit:", "exception:", "crash:program"].iter().any(|end| pattern.starts_with(end))
    };
    if let Some(pattern) = pattern.as_ref().filter(|pattern| by_its_end(pattern)) {
        return match signature_fits(pattern, got) {
            true => Ok(()),
            false => Err(format!("{got} instead of {pattern}")),
        };
    }
    // If the case declares no signature, any of these ends counts for a program that makes no check.
    let makes_no_check = record.program.as_ref().is_some_and(|program| program.checks.is_empty());
    let ends = ["exit:*", "exception:*", "crash:program:SIGABRT:*", "wrong-data:output:*"];
    if pattern.is_none() && makes_no_check && ends.iter().any(|end| signature_fits(end, got)) {
        return Ok(());
    }
    let kinds = expected_under(fault);
    if !kinds.contains(&outcome.kind) || pattern.as_ref().is_some_and(|p| !signature_fits(p, got)) {
        let names = || kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
        return Err(format!("{got} instead of {}", pattern.unwrap_or_else(names)));
    }
    if !is_stated(fault, outcome) {
        return Err(format!("{got}, but no check or expected status of the case failed"));
    }
    Ok(())
}

const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red))).bold();
const OPEN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Magenta)));

/// Formats the results for people: a table of cases and faults, the faults that were missed, and the totals.
pub fn matrix(proof: &Proof) -> String {
    let of =
        |row: &ProofRow| row.cells.keys().chain(row.hidden.keys()).copied().collect::<Vec<_>>();
    let faults: BTreeSet<Fault> = proof.rows.iter().flat_map(of).collect();
    let width = proof.rows.iter().map(|row| row.case.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    // Fault names are long, so each has its own line above its column.
    for (n, fault) in faults.iter().enumerate() {
        text.push_str(&format!("{:width$}  {:9}{}{fault}\n", "", "", "| ".repeat(n)));
    }
    for row in &proof.rows {
        let healthy = match row.unhealthy.is_empty() {
            true => styled(GOOD, format!("{:<8}", "healthy")),
            false => styled(BAD, format!("{:<8}", "RED")),
        };
        let marks: Vec<String> = faults
            .iter()
            .map(|fault| match row.cells.get(fault) {
                Some(FaultCell::Caught { .. }) => styled(GOOD, "x"),
                Some(FaultCell::Missed { .. }) => styled(BAD, "-"),
                Some(FaultCell::Unsure { .. }) => styled(OPEN, "?"),
                None if row.hidden.contains_key(fault) => styled(OPEN, "k"),
                None => " ".to_owned(),
            })
            .collect();
        let line = format!("{:width$}  {healthy} {}", row.case, marks.join(" "));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(
        "\nx detected, - missed, ? no verdict, k hidden by an expected failure, blank: not declared by the case\n",
    );
    for problem in problems(proof) {
        text.push_str(&problem);
        text.push('\n');
    }
    let cells = || proof.rows.iter().flat_map(|row| row.cells.values());
    let caught = cells().filter(|cell| matches!(cell, FaultCell::Caught { .. })).count();
    text.push_str(&format!(
        "{} of {} detected in {}\n",
        caught,
        count(cells().count(), "injected fault"),
        count(proof.rows.len(), "case")
    ));
    if !proof.left_out.is_empty() {
        let bare = proof.rows.iter().filter(|row| row.cells.is_empty());
        let bare = bare.filter(|row| proof.left_out.iter().any(|(case, _)| *case == row.case));
        text.push_str(&format!(
            "{} below the HIP runtime could not be injected, because they need the emulated device; {} could \
             therefore not be proven\n",
            count(proof.left_out.len(), "declared fault"),
            count(bare.count(), "case")
        ));
    }
    if let Some(mutation) = &proof.mutation {
        let noticed = mutation.all - mutation.unnoticed.len();
        let all = mutation.all;
        text.push_str(&format!(
            "{noticed} of {all} checks, expected statuses and values of the cases are needed to \
                                detect the declared faults\n"
        ));
    }
    for place in &proof.places {
        text.push_str(&format!("{place}\n"));
    }
    text
}

fn problems(proof: &Proof) -> Vec<String> {
    let mut lines = Vec::new();
    for unnoticed in proof.mutation.iter().flat_map(|mutation| &mutation.unnoticed) {
        let UnneededStatement { case, line, statement, trial } = unnoticed;
        lines.push(format!(
            "{} {case}, line {line}: {statement}; every declared fault is detected without it, too (seen in {trial})",
            styled(BAD, "UNNOTICED")
        ));
    }
    for racy in &proof.racy {
        lines.push(format!(
            "{} {} is rejected: its result depends on the order of unsynchronised work",
            styled(BAD, "RACY"),
            racy.trial
        ));
        lines.push(format!("    --schedule eager: {}", racy.eager));
        lines.push(format!("    --schedule {}: {}", racy.schedule, racy.other));
        let watched = racy.watched.iter();
        lines.extend(
            watched.map(|text| format!("    --schedule {} --sanitize: {text}", racy.schedule)),
        );
    }
    for row in &proof.rows {
        for (trial, signature) in &row.unhealthy {
            lines
                .push(format!("{} {trial} on the healthy device: {signature}", styled(BAD, "RED")));
        }
        let fails =
            |(_, text): &(String, String)| !text.starts_with("no-verdict:") && !text.contains(' ');
        if row.unhealthy.iter().any(fails) {
            lines.push(format!(
                "hint: if {} fails on this release because of a bug of ROCm, add its signature under `known`",
                row.case
            ));
        }
        for check in &row.unturned {
            let mark = styled(BAD, "UNTURNED");
            lines.push(format!(
                "{mark} {}: no declared fault makes the check `{check}` fail",
                row.case
            ));
        }
        if let Some((number, why)) = &row.skipped {
            lines.push(format!(
                "{} {}: {} not counted: {why}",
                styled(OPEN, "SKIPPED"),
                row.case,
                count(*number, "trial")
            ));
        }
        for (fault, trials) in &row.hidden {
            let (first, number) = (&trials[0], count(trials.len(), "trial"));
            lines.push(format!(
                "{} {} under {fault}: {number} such as {first} failed as expected without the fault, which may hide \
                 the fault",
                styled(OPEN, "KNOWN"),
                row.case
            ));
        }
        for (fault, cell) in &row.cells {
            match cell {
                FaultCell::Caught { .. } => {}
                FaultCell::Missed { trials } => {
                    lines.extend(trials.iter().map(|(trial, why)| {
                        format!("{} {trial} under {fault}: {why}", styled(BAD, "MISSED"))
                    }));
                }
                FaultCell::Unsure { why } => {
                    lines.push(format!("{} {} under {fault}: {why}", styled(OPEN, "?"), row.case));
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests;
