//! Executes `rocrepro bisect`: reads its options, shows the events of the search, and prints the answer.

mod rerun;

use std::process::ExitCode;

use bisect::{BisectEvent, BisectOptions, BisectResult, Bisection, NightlyPair, sentences};
use clap::ValueEnum as _;
use device::FaultSpec;
use engine::{CaseLibrary, SessionOptions, Stop};
use report::{count, evidence::BisectEvidence};

use crate::{
    args::{Bisect, Regress},
    commands::setup::setup,
    interrupt,
    outputs::{self, note},
};

pub(crate) fn bisect(args: &Bisect) -> Result<ExitCode, Stop> {
    // `rocrepro bisect` uses exit code 3 if an end of the history does not behave as requested, so a problem of the
    // machine gets exit code 5.
    let ended = match &args.replay {
        Some(path) => bisect::replay(path).and_then(|(text, code)| {
            outputs::print(&text)?;
            Ok(code)
        }),
        None => run_phases(args),
    };
    ended.map(ExitCode::from).map_err(Stop::with_trouble_code)
}

/// Runs the search. With `--to`, also runs a second search between the two builds that the first one found.
fn run_phases(args: &Bisect) -> Result<u8, Stop> {
    let (code, nights) = search(args, None)?;
    let (Some(to), Some(nights)) = (&args.to, nights) else { return Ok(code) };
    outputs::print("\n")?;
    let names = format!("between {} and {}", nights.good.id, nights.bad.id);
    note(format_args!("now searching the builds of {to} {names}"));
    match search(&second_search(&nights, args, to), Some(&nights)) {
        Ok((code, _)) => Ok(code),
        // If the second search is impossible, the result remains a range of builds, with the exit code for a range.
        Err(stop) if stop.is_usage() => Err(Stop::nothing(format!(
            "{stop}\ncannot search the builds of {to} {names}; the answer above is still valid"
        ))),
        Err(stop) => Err(stop),
    }
}

/// Returns the options of the second search, which searches the builds of the download source `to` between the two
/// builds that the first search found.
fn second_search(nights: &NightlyPair, args: &Bisect, to: &str) -> Bisect {
    Bisect {
        good: Some(nights.good.id.clone()),
        bad: Some(nights.bad.id.clone()),
        source: vec![to.to_owned()],
        // `--skip` names nightly builds, which do not occur in the second search.
        skip: Vec::new(),
        out: Some(nights.folder.join(BisectEvidence::REFINED_FOLDER)),
        to: None,
        ..args.clone()
    }
}

/// Runs one search and prints its result. Returns the exit code, and the two builds between which the result changes.
/// The builds are `None` if the search found no change, or ran nothing.
fn search(args: &Bisect, before: Option<&NightlyPair>) -> Result<(u8, Option<NightlyPair>), Stop> {
    let library = CaseLibrary::load(args.from.selected_source().as_ref())?;
    let (session, faults) = setup(&args.on, None, &args.fault)?;
    let options = options(args, session, faults);
    let cancel = interrupt::cancel()?;
    let prepared = Bisection::prepare(&options, &library, before, &cancel, &show)?;
    if args.list {
        let axis = prepared.axis();
        let line = |n| axis.build(n).map_or_else(|| axis.label(n) + "\n", super::rocm::line);
        let lines: String = (0..axis.point_count()).map(line).collect();
        return outputs::print(&lines).map(|()| (0, None));
    }
    if args.dry_run {
        let (axis, begun) = (prepared.axis(), prepared.header());
        let stacks = stacks::StackCache::from_environment();
        let store = stacks.ok().map(stacks::BuildStore::new);
        let kept = |n: usize| {
            store.as_ref().zip(axis.build(n)).is_some_and(|(store, build)| store.has(build))
        };
        return outputs::print(&bisect::dry_run(begun, axis, &kept, args.to.as_deref()))
            .map(|()| (0, None));
    }
    let rerun = |axis: &bisect::Axis, device: &_, skipped: &[usize], ends| {
        rerun::command(args, axis, device, skipped, ends)
    };
    let BisectResult { text, problems, answer, nights } = prepared.run(&rerun, &show)?;
    outputs::print(&text)?;
    problems
        .iter()
        .for_each(|problem| note(format_args!("{problem}; the answer above is complete")));
    Ok((bisect::exit_code(&answer), nights))
}

fn show(event: BisectEvent<'_>) {
    match event {
        BisectEvent::ArchitectureAssumed { gfx } => note(format_args!(
            "note: the driver does not report this GPU's architecture; using builds for {gfx} (choose another with \
             --gfx)"
        )),
        BisectEvent::HistoryNote(text) => note(format_args!("note: {text}")),
        BisectEvent::BuildsMissing(gap) => {
            note(format_args!("note: builds may be missing: {gap}"));
        }
        BisectEvent::Resumed { runs, builds } => {
            let (runs, builds) = (count(runs, "run"), count(builds, "build"));
            note(format_args!("resumed after {runs} of {builds}"));
        }
        BisectEvent::PointGone { label } => {
            note(format_args!("note: {label} is no longer in the history; its results are ignored"))
        }
        BisectEvent::StaysLeftOut { label } => note(format_args!(
            "note: {label} is still skipped, because an earlier command of this bisect had `--skip` for it; to \
             include it, start a new bisect with --out"
        )),
        BisectEvent::Observed { state, seen, observation, name } => {
            note(sentences::progress(state, seen, observation, name));
        }
        BisectEvent::EndMeasured { label, seconds, runs } => {
            note(format_args!("{label}: {seconds:.3} s, the median of {runs} runs"));
        }
        _ => {}
    }
}

fn options(args: &Bisect, session: SessionOptions, faults: Vec<FaultSpec>) -> BisectOptions {
    let kind = args.on.target.device.to_possible_value();
    let mut device_options = vec![format!("--gfx={}", args.on.target.gfx)];
    device_options.extend(kind.map(|kind| format!("--device={}", kind.get_name())));
    device_options.extend(args.fault.iter().map(|fault| format!("--fault={fault}")));
    BisectOptions {
        case: args.case.clone(),
        command: args.command.clone(),
        program: args.program.clone(),
        matching: args.matching.clone(),
        faults,
        device_options,
        gfx: args.on.target.gfx.clone(),
        good: args.good.clone(),
        bad: args.bad.clone(),
        fixed: args.fixed,
        source: args.source.clone(),
        sources_file: args.sources_file.clone(),
        axis: args.axis.clone(),
        packages: args.packages.clone(),
        skip: args.skip.clone(),
        regress: args.regress.into(),
        rate: args.rate,
        install_cost: args.install_cost,
        budget_runs: args.budget_runs,
        budget_installs: args.budget_installs,
        budget_seconds: args.budget_seconds,
        disk_budget: args.disk_budget,
        cross: args.cross,
        goes_on: args.to.is_some(),
        out: args.out.clone(),
        resume: args.resume,
        session: SessionOptions { cases_from: args.from.selected_source(), ..session },
    }
}

impl From<Regress> for bisect::FailureFilter {
    fn from(regress: Regress) -> bisect::FailureFilter {
        match regress {
            Regress::Signature => bisect::FailureFilter::Signature,
            Regress::Any => bisect::FailureFilter::Any,
            Regress::Crash => bisect::FailureFilter::Crash,
            Regress::Hang => bisect::FailureFilter::Hang,
            Regress::Wrong => bisect::FailureFilter::Wrong,
            Regress::Perf => bisect::FailureFilter::Perf,
        }
    }
}
