use std::{process::ExitCode, time::Instant};

use device::{Config, Sanitize, UnknownSanitize, UnknownSchedule};
use report::Rows;

use super::setup::setup;
use crate::{
    CaseLibrary, Session, Stop,
    args::{Emulation, Run},
    batch::{Batch, run_batch},
    outputs::{self, Junit},
    select::select,
    trial::{Job, lower_all},
};

pub(crate) fn run(args: &Run) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.from.chosen().as_ref())?;
    let selected = select(&library, &args.selection.cases);
    let setup = setup(&args.on, Some(&args.emulation), &args.fault);
    let (selected, (mut options, faults)) = Stop::both(selected, setup)?;
    options.cases_from = args.selection.from.chosen();
    let lowered = lower_all(&library, &selected, faults.iter().cloned())?;
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
                run: repetition,
                faults: faults.iter().map(|p| p.of_run(repetition.into())).collect(),
            })
        })
        .collect::<Vec<_>>();
    let Batch { mut records, not_run, trouble } = run_batch(&session, &jobs, journal)?;

    let rows = if args.trials { Rows::Trials } else { Rows::Cases };
    let view = report::run_view(&records, rows, begun.elapsed());
    let shown = outputs::print(&view);
    if let Some(junit) = junit {
        records.extend(not_run);
        junit.write(&records)?;
    }
    shown?;
    match trouble {
        Some(stop) => Err(stop),
        None => Ok(ExitCode::from(report::exit_status(&records))),
    }
}

impl Emulation {
    /// The configuration that the options describe, or all that is wrong with them.
    pub(crate) fn config(&self) -> Result<Config, Stop> {
        let mut config = Config::default();
        let mut problems: Vec<String> =
            self.device_option.iter().filter_map(|option| config.set(option).err()).collect();
        match self.schedule.parse() {
            Ok(schedule) => config.schedule = schedule,
            Err(problem) => problems.push(UnknownSchedule::to_string(&problem)),
        }
        match self.sanitize.as_deref().map_or(Ok(Sanitize::Off), str::parse) {
            Ok(sanitize) => config.sanitize = sanitize,
            Err(problem) => problems.push(UnknownSanitize::to_string(&problem)),
        }
        let problems: Vec<_> = problems.iter().map(|text| format!("error: {text}")).collect();
        if problems.is_empty() { Ok(config) } else { Err(Stop::usage(problems.join("\n"))) }
    }
}
