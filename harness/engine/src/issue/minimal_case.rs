//! Uses the minimal case of an earlier `rocrepro minimise` as the subject of an issue.

use std::path::Path;

use report::{
    Record,
    evidence::{CASE_FILE, MinimiseEvidence},
};

use crate::{
    CaseLibrary, CasesFrom, Selected, Session, Stop,
    failing_trial::FailingTrial,
    rerun::{Rerun, RerunSubject},
};

/// A minimal case, and the result of the search that found it.
pub(super) struct MinimalCase {
    pub(super) found: MinimiseEvidence,
    library: CaseLibrary,
}

impl MinimalCase {
    /// Reads the minimal case from the evidence folder. Returns `None` if the file is not a valid case, or not the case
    /// that `found` describes, because an interrupted search may have replaced the file.
    pub(super) fn read(found: MinimiseEvidence, folder: &Path) -> Option<MinimalCase> {
        let path = folder.join(CASE_FILE);
        if std::fs::read_to_string(&path).ok()? != found.yaml {
            return None;
        }
        let from = CasesFrom { path, trusted: false };
        let library = CaseLibrary::load(Some(&from)).ok()?;
        Some(MinimalCase { found, library })
    }

    /// Returns the only trial of the minimal case, with the faults of `found`, the trial from which the case was
    /// reduced. `None` if the case has no trial.
    pub(super) fn subject<'a>(&'a self, found: &FailingTrial<'a>) -> Option<FailingTrial<'a>> {
        let case = self.library.cases().next()?;
        let trial = case.trials().into_iter().next()?;
        let selected = Selected { case, trial };
        Some(FailingTrial { library: &self.library, selected, ..found.clone() })
    }

    /// Returns true if the kernels and settings of the minimal case are those of the trial that it was reduced from.
    /// Kernels of rocrepro are also allowed.
    ///
    /// This matters because the user may have received the folder from another person, and the exported program of this
    /// case will be compiled and run unconfined.
    pub(super) fn has_only_code_of(&self, found: &FailingTrial<'_>) -> Result<bool, Stop> {
        let Some(subject) = self.subject(found) else { return Ok(false) };
        let (own, minimal) = (found.job()?.lowered.plan, subject.job()?.lowered.plan);
        let shipped = CaseLibrary::shipped_kernels();
        let is_known = |(name, source): (&String, &String)| {
            own.kernels.values().any(|text| text == source) || shipped.get(name) == Some(source)
        };
        let is_set = |(name, value)| own.environment.get(name) == Some(value);
        Ok(minimal.kernels.iter().all(is_known) && minimal.environment.iter().all(is_set))
    }

    /// Writes into the records of the minimal case the name of the trial from which the case was reduced, and the
    /// command that runs the minimal case.
    pub(super) fn describe(
        &self,
        records: &mut [Record],
        subject: &FailingTrial<'_>,
        on: &Session,
    ) {
        let (what, faults) = (Path::new(CASE_FILE), subject.faults.as_slice());
        let rerun =
            Rerun { command: "run", what: RerunSubject::File(what, false), late: on.late, faults };
        for record in records {
            record.trial.clone_from(&self.found.trial);
            record.again = rerun.command_line(on);
        }
    }
}
