//! Trials that are ready to run: lowered to a plan, with their injected faults.

use case::{Body, Case, Lowered, Trial, lower};
use device::{FaultPlace, FaultSpec};
use plan::Plan;
use sha2::{Digest, Sha256};

use crate::{CaseLibrary, Selected, Stop};

/// One run of a trial.
#[derive(Clone)]
pub struct Job<'a> {
    /// The case of the trial.
    pub case: &'a Case,
    /// The axis values of the trial.
    pub trial: &'a Trial,
    /// The plan with its expected results.
    pub lowered: Lowered,
    /// Number of this run among repetitions, from 0. Each run draws its own delays.
    pub run: u32,
    /// Injected faults. The plan contains the calls at which they take effect, but not their probabilities.
    pub faults: Vec<FaultSpec>,
}

impl Job<'_> {
    /// Returns the id of the trial, for example `copies/small-sizes[bytes=2]`.
    pub fn id(&self) -> String {
        self.case.trial_id(self.trial)
    }

    /// Returns a digest of the plan, and of the program if the trial has one. Line numbers do not affect the digest.
    pub(crate) fn text(&self) -> String {
        plan::digest(self.serialized(self.lowered.plan.clone()).as_bytes())
    }

    /// Returns the digest of the same data as [`text`](Self::text), without the name of the trial.
    pub(crate) fn unnamed(&self) -> String {
        let plan = Plan { trial: String::new(), ..self.lowered.plan.clone() };
        plan::digest(self.serialized(plan).as_bytes())
    }

    /// Returns the SHA-256 digest of the same data as [`text`](Self::text). An attacker cannot construct a different
    /// case with the same SHA-256 digest.
    pub(crate) fn sha256(&self) -> String {
        let digest = Sha256::digest(self.serialized(self.lowered.plan.clone()));
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the plan as text, without line numbers and injected faults, and the program if there is one.
    fn serialized(&self, mut plan: Plan) -> String {
        let steps = [&mut plan.setup, &mut plan.body, &mut plan.verify, &mut plan.teardown];
        for step in steps.into_iter().flatten() {
            step.line = 0;
            // A record lists its injected faults separately.
            step.planted.clear();
        }
        let mut text = serde_json::to_string(&plan).unwrap_or_default();
        if let Body::Program(program) = &self.lowered.body {
            text.push_str(&serde_json::to_string(&program.without_places()).unwrap_or_default());
        }
        text
    }

    /// Returns the faults that are injected at `place`: in the emulated device, or at the worker's calls.
    pub(crate) fn faults_of(&self, place: FaultPlace) -> Vec<FaultSpec> {
        self.faults.iter().filter(|planted| planted.fault.place() == place).cloned().collect()
    }

    /// Derives the delay injection of this run from `late`, the delay injection of the session; `None` if the session
    /// has none.
    pub fn late(&self, late: Option<plan::DelayInjection>) -> Option<plan::DelayInjection> {
        late.map(|late| late.for_run(self.run.into()))
    }

    /// Returns the job of the nth run, with faults that are drawn for that run.
    pub fn for_run(&self, n: u32) -> Self {
        let faults = self.faults.iter().map(|planted| planted.for_run(n.into())).collect();
        Job { faults, run: n, ..self.clone() }
    }
}

/// Returns each trial once without a fault (`None`), and once with each fault that its case declares.
pub fn with_declared_faults<'s, 'a>(
    selected: &'s [Selected<'a>],
) -> Vec<(&'s Selected<'a>, Option<FaultSpec>)> {
    let each = selected.iter().flat_map(|entry| {
        let declared = entry.case.faults.iter().filter(|f| f.on.matches(&entry.trial));
        let faults = declared.map(|f| Some(f.planted.clone()));
        [None].into_iter().chain(faults).map(move |fault| (entry, fault))
    });
    each.collect()
}

/// Lowers trials, all with the same injected faults.
///
/// # Errors
/// Returns the errors of [`lower_each`].
pub fn lower_all(
    library: &CaseLibrary,
    selected: &[Selected<'_>],
    faults: impl IntoIterator<Item = FaultSpec> + Clone,
) -> Result<Vec<Lowered>, Stop> {
    lower_each(library, selected.iter().map(|entry| (entry, faults.clone())))
}

/// Lowers trials, each with its injected faults.
///
/// # Errors
/// Returns all mistakes in all cases, each with its position.
pub fn lower_each<'s, 'a: 's>(
    library: &CaseLibrary,
    planned: impl IntoIterator<Item = (&'s Selected<'a>, impl IntoIterator<Item = FaultSpec>)>,
) -> Result<Vec<Lowered>, Stop> {
    let planned = planned.into_iter().map(|(entry, faults)| (entry.case, (&entry.trial, faults)));
    library.map_cases(planned, |case, (trial, faults)| {
        let faults: Vec<FaultSpec> = faults.into_iter().collect();
        lower(case, trial, library.kernels(), &faults)
    })
}
