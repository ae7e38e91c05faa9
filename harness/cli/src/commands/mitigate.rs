mod factors;

use std::process::ExitCode;

use judge::{Kind, may_be_same};
use report::{
    Record,
    evidence::{Evidence, Factor, FactorKind, FactorVerdict, Mitigations, Rate, Setting},
};
use search::{
    mitigate::{ChangeEffect, FactorRuns, MitigateSettings, Mitigation, search},
    reduce::{InvalidReason, Seen},
};

use crate::{args::Mitigate, commands::setup::setup, interrupt, outputs};
use engine::failing_trial::{first_failing, run_all, states_an_answer};
use engine::{CaseLibrary, Session, Stop, evidence, job::Job, select};
use factors::{Change, Rewritten, Tried};

pub(crate) fn mitigate(args: &Mitigate) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load_named(args.from.chosen().as_ref(), &[&args.case])?;
    let selected = select(&library, std::slice::from_ref(&args.case))?;
    let (mut options, faults) = setup(&args.on, None, &args.fault)?;
    options.cases_from = args.from.chosen();
    let session = Session::open_on_one(options)?;
    let cancel = interrupt::cancel()?;
    let (subject, runs) =
        first_failing(&library, selected, &faults, &session, args.failures, &cancel)?;
    let (Some(signature), Some(failed)) = (runs.signature.clone(), runs.failed()) else {
        return Err(Stop::no_verdict("error: no run failed"));
    };
    let (tried, not_tried) = factors::factors(&subject, &session, failed)?;
    let job = subject.job()?;
    let base = |set: &[usize]| changed(&job, &tried, set);
    let together = |a: usize, b: usize| tried[a].goes_with(&tried[b]);
    let settings = MitigateSettings { failures: args.failures, ..MitigateSettings::default() };
    let (mut count, mut trouble) = (0, None);
    let folder = evidence::folder(args.out.as_deref(), &subject.selected.case.id)?;
    let found = search(tried.len(), &together, &settings, &mut |set, runs| {
        let jobs: Vec<_> = {
            let job = base(set);
            (count..count + runs).map(|n| job.of_run(n)).collect()
        };
        count += runs;
        match run_all(&session, jobs, &cancel) {
            Ok(records) => {
                let rewritten = rewritten(&tried, set);
                Some(records.iter().map(|r| seen(r, &signature, rewritten)).collect())
            }
            Err(stop) => {
                trouble = Some(stop);
                None
            }
        }
    });
    if let Some(stop) = trouble {
        return Err(stop);
    }
    let Some(found) = found else {
        return Err(Stop::no_verdict(format!("error: `{signature}` did not come again")));
    };
    let result = Mitigations {
        trial: subject.id(),
        on: Setting::of(failed),
        base: rate(&found.base),
        runs: found.runs,
        factors: tried.iter().zip(&found.single).map(factor).collect(),
        minimal_set: found.set.iter().map(|n| tried[*n].title()).collect(),
        points_to: points_to(&tried, &found),
        not_tried,
        signature,
    };
    evidence::write(&folder, &result)?;
    let text = if args.json {
        result.to_json().map_err(Stop::no_verdict)?
    } else {
        report::mitigations(&result)
    };
    if args.json {
        outputs::data(&text)?
    } else {
        outputs::print(&text)?
    }
    Ok(ExitCode::SUCCESS)
}

/// The trial with some changes made to it.
fn changed<'j>(job: &Job<'j>, tried: &'j [Tried], set: &[usize]) -> Job<'j> {
    let mut job = job.clone();
    if let Some(rewritten) = rewritten(tried, set) {
        job.case = &rewritten.case;
        job.trial = &rewritten.trial;
        job.lowered = rewritten.lowered.clone();
    }
    for change in set.iter().map(|n| &tried[*n].change) {
        match change {
            Change::Variable { name, value } => {
                let has = job.lowered.plan.environment.entry(name.clone()).or_default();
                *has = with(name, has, value);
            }
            Change::Limit { name, value } => {
                job.lowered.plan.limits.insert(name.clone(), value.clone());
            }
            Change::Calls(_) => {}
        }
    }
    job
}

/// A variable's value where a trial `has` one: of flags given twice the last counts.
fn with(name: &str, has: &str, value: &str) -> String {
    match name.ends_with("_FLAGS") && !has.is_empty() {
        true => format!("{has} {value}"),
        false => value.to_owned(),
    }
}

/// The trial with other calls, of which a set of changes holds at most one.
fn rewritten<'j>(tried: &'j [Tried], set: &[usize]) -> Option<&'j Rewritten> {
    set.iter().find_map(|n| match &tried[*n].change {
        Change::Calls(rewritten) => Some(&**rewritten),
        Change::Variable { .. } | Change::Limit { .. } => None,
    })
}

fn seen(record: &Record, signature: &str, rewritten: Option<&Rewritten>) -> Seen {
    let outcome = &record.outcome;
    let answer = |other: &Rewritten| states_an_answer(&other.lowered.plan, outcome);
    match outcome.kind {
        Kind::Pass => Seen::Pass,
        Kind::Skip | Kind::NoVerdict => Seen::NoVerdict,
        _ if may_be_same(&outcome.signature, signature) => Seen::Same,
        _ if rewritten.is_some_and(answer) => {
            Seen::Invalid(outcome.signature.clone(), InvalidReason::Answer)
        }
        _ => Seen::Other(outcome.signature.clone()),
    }
}

fn rate(tally: &FactorRuns) -> Rate {
    Rate { failed: tally.same, runs: tally.runs() }
}

fn factor((tried, (effect, tally)): (&Tried, &(ChangeEffect, FactorRuns))) -> Factor {
    let (kind, name, value) = match &tried.change {
        Change::Variable { name, value } => (FactorKind::Env, name.clone(), value.clone()),
        Change::Limit { name, value } => (FactorKind::Limit, name.clone(), value.clone()),
        Change::Calls(_) => (FactorKind::Rewrite, tried.name.clone(), String::new()),
    };
    Factor {
        name,
        kind,
        value,
        meaning: tried.meaning.clone(),
        since: tried.since.clone(),
        rate: rate(tally),
        verdict: match effect {
            ChangeEffect::Helped => FactorVerdict::Helped,
            ChangeEffect::Nothing => FactorVerdict::NoEffect,
            ChangeEffect::Rarer => FactorVerdict::Rarer,
            ChangeEffect::Changed(to) => FactorVerdict::ChangedSignature { to: to.clone() },
            ChangeEffect::Invalid(to) => FactorVerdict::Wrong { to: to.clone() },
            ChangeEffect::Undecided => FactorVerdict::Undecided,
        },
        component: tried.component.clone(),
    }
}

/// The components of what helped, the one that most changes point to first.
fn points_to(tried: &[Tried], found: &Mitigation) -> Vec<String> {
    let alone =
        found.single.iter().enumerate().filter(|(_, (effect, _))| *effect == ChangeEffect::Helped);
    let helped = alone.map(|(n, _)| n).chain(found.set.iter().copied());
    let mut counts: Vec<(String, u32)> = Vec::new();
    for component in helped.map(|n| &tried[n].component) {
        match counts.iter_mut().find(|(name, _)| name == component) {
            Some((_, count)) => *count += 1,
            None => counts.push((component.clone(), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::with;

    #[test]
    fn flags_are_put_behind_those_of_the_trial() {
        assert_eq!(with("XLA_FLAGS", "", "--a=0"), "--a=0");
        assert_eq!(with("XLA_FLAGS", "--a=1 --b", "--a=0"), "--a=1 --b --a=0");
        assert_eq!(with("HSA_ENABLE_SDMA", "1", "0"), "0");
    }
}
