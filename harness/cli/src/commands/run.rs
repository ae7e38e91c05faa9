use std::{process::ExitCode, time::Instant};

use device::{BadPlanted, Config, Fault, Per, Place, Planted, UnknownSchedule};
use report::Rows;

use crate::{
    CaseLibrary, Session, SessionOptions, Stop,
    args::{Emulation, Run},
    batch::run_jobs,
    outputs::{self, Junit},
    select::{meant, select},
    trial::{Job, lower_all},
};

pub(crate) fn run(args: &Run) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.cases_from.as_deref())?;
    let selected = select(&library, &args.selection.cases)?;
    let faults = faults(&args.fault)?;
    let call_fault = call_fault(&faults)?;
    let mut options = SessionOptions::try_from(&args.on)?;
    options.emulation = args.emulation.config()?;
    options.cases_from = args.selection.cases_from.clone();
    let lowered = lower_all(&library, &selected, call_fault)?;
    let journal = outputs::journal(args.on.record.as_deref())?;
    let junit = args.junit.as_deref().map(Junit::open).transpose()?;
    let session = Session::open(options)?;
    let begun = Instant::now();
    let jobs = selected
        .iter()
        .zip(lowered)
        .flat_map(|(s, lowered)| {
            let faults = &faults;
            (0..args.repeat).map(move |repetition| Job {
                case: s.case,
                trial: &s.trial,
                lowered: lowered.clone(),
                faults: faults.iter().map(|fault| of_process(fault, repetition)).collect(),
            })
        })
        .collect();
    let (records, trouble) = run_jobs(&session, jobs, journal)?;

    let rows = if args.trials { Rows::Trials } else { Rows::Cases };
    let view = report::run_view(&records, rows, begun.elapsed());
    let shown = outputs::print(&view);
    if let Some(junit) = junit {
        junit.write(&records)?;
    }
    shown?;
    match trouble {
        Some(stop) => Err(stop),
        None => Ok(ExitCode::from(report::exit_status(&records))),
    }
}

/// A fault as it is planted in one of the processes that repeat a trial: one that a process has or has not is drawn anew.
fn of_process(fault: &Planted, repetition: u32) -> Planted {
    let seed = match fault.per {
        Per::Process => fault.seed.wrapping_add(repetition.into()),
        Per::Call => fault.seed,
    };
    Planted { seed, ..fault.clone() }
}

/// The fault that is part of the plan.
pub(super) fn call_fault(faults: &[Planted]) -> Result<Option<Fault>, Stop> {
    let at_call: Vec<_> =
        faults.iter().map(|p| p.fault).filter(|f| f.place() == Place::Call).collect();
    match at_call.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        _ => Err(Stop::usage("error: only one fault can be planted at calls")),
    }
}

/// Reads all `--fault` options.
pub(super) fn faults(texts: &[String]) -> Result<Vec<Planted>, Stop> {
    let mut faults: Vec<Planted> = Vec::new();
    let mut problems = Vec::new();
    for text in texts {
        match planted(text) {
            Ok(planted) if faults.iter().any(|other| other.fault == planted.fault) => {
                problems.push(format!("error: `{}` is planted twice", planted.fault));
            }
            Ok(planted) => faults.push(planted),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(faults) } else { Err(Stop::usage(problems.join("\n"))) }
}

/// Reads `copy.zero` or `copy.late,ms=50,probability=0.2,seed=7`.
fn planted(text: &str) -> Result<Planted, String> {
    text.parse().map_err(|problem| match problem {
        BadPlanted::Fault(name) => {
            let known = Fault::ALL.iter().map(|fault| fault.name());
            format!("error: no fault is called `{name}`; {}", meant(&name, known))
        }
        BadPlanted::Parameter(problem) => format!("error: {problem}"),
    })
}

impl Emulation {
    /// The configuration that the options describe, or all that is wrong with them.
    pub(crate) fn config(&self) -> Result<Config, Stop> {
        let mut config = Config { sanitize: self.sanitize, ..Config::default() };
        let mut problems: Vec<String> =
            self.device_option.iter().filter_map(|option| config.set(option).err()).collect();
        match self.schedule.parse() {
            Ok(schedule) => config.schedule = schedule,
            Err(problem) => problems.push(UnknownSchedule::to_string(&problem)),
        }
        let problems: Vec<_> = problems.iter().map(|text| format!("error: {text}")).collect();
        if problems.is_empty() { Ok(config) } else { Err(Stop::usage(problems.join("\n"))) }
    }
}
