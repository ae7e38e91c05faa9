//! Prints trials as stand-alone programs.

use std::process::ExitCode;

use export::Header;
use plan::Version;

use crate::{
    CaseLibrary, Stop,
    args::Export,
    commands::run::{call_fault, faults},
    outputs,
    select::select,
    trial::lower_all,
};

pub(crate) fn export(args: &Export) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.cases_from.as_deref())?;
    let faults = faults(&args.fault)?;
    let call_fault = call_fault(&faults)?;
    let selected = select(&library, &args.selection.cases)?;
    let lowered = lower_all(&library, &selected[..1], call_fault)?;
    let form = args.form;
    let header = Header { title: selected[0].case.title.clone(), upstream: selected[0].case.upstream.clone(), ..Header::default() };
    let text = export::print(&lowered[0].plan, form, &Version::new(7,2,4), &header).map_err(Stop::usage)?;
    outputs::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
