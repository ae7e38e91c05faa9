//! Prints the stand-alone programs that the pages about bugs offer.

use std::collections::BTreeMap;

use ::export::{Form, Header};
use report::{
    Bug, BugProgram,
    issue::{Identity, Syntax, redact_program},
};

use crate::{CaseLibrary, Selected, Stop, planned_jobs, select};

/// Returns the stand-alone program of each bug's most recently failed trial, by the id of the bug. Bugs whose trial is
/// not in the library are left out. Private values in the programs are replaced by placeholders.
///
/// # Errors
/// Fails if a case of the library cannot be lowered.
pub fn bug_programs(
    library: &CaseLibrary,
    bugs: &[Bug],
    who: &Identity,
) -> Result<BTreeMap<String, BugProgram>, Stop> {
    let mut programs = BTreeMap::new();
    for bug in bugs {
        let Ok(selected) = select(library, std::slice::from_ref(&bug.trial)) else { continue };
        let [entry] = &selected[..] else { continue };
        let program = match entry.case.is_program() {
            true => BugProgram::None("the case itself runs a program".to_owned()),
            false => printed(library, entry, who)?,
        };
        programs.insert(bug.id.clone(), program);
    }
    Ok(programs)
}

fn printed(
    library: &CaseLibrary,
    entry: &Selected<'_>,
    who: &Identity,
) -> Result<BugProgram, Stop> {
    let header = Header {
        title: entry.case.title.clone(),
        wrong: Vec::new(),
        upstream: entry.case.upstream.clone(),
        tested: Vec::new(),
        faults: Vec::new(),
        gfx: "native".to_owned(),
        devices: entry.case.needs.devices,
        processes: entry.case.needs.processes,
    };
    let version = stacks::Release::latest().version();
    let jobs = planned_jobs(library, vec![(entry, Vec::new())])?;
    let text =
        jobs.iter().map(|job| ::export::print(&job.lowered.plan, Form::Hiprtc, &version, &header));
    Ok(match text.collect::<Result<String, _>>() {
        Ok(text) => BugProgram::Text(redact_program(&text, Syntax::Cpp, who)),
        Err(why) => BugProgram::None(why),
    })
}
