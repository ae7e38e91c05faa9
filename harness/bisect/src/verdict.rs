//! Decides which runs show the failure that the search looks for.

use ::search::bisect::{BuildOutcome, Event};
use judge::{Kind, may_be_same};

use crate::{
    observation::PointObservation,
    options::FailureFilter,
    run::{Run, RunResult},
};

const SLOW_SIGNATURE: &str = "slow";

/// The class of a run, which decides how it counts in the search.
pub(crate) enum Classification {
    Run(BuildOutcome),
    /// The build cannot be tested, so the run does not count.
    Nothing,
}

pub(crate) struct Verdicts {
    regress: FailureFilter,
    /// Signature of the failure that the search looks for, once it is known.
    reference: Option<String>,
    /// Run time above which a run counts as slow, in seconds.
    threshold: Option<f64>,
}

impl Verdicts {
    /// Creates the classification of runs. `threshold` is the run time above which a run counts as slow, in seconds, if
    /// an earlier command measured it. `followed` is the signature that an earlier search found.
    pub(crate) fn new(
        regress: FailureFilter,
        threshold: Option<f64>,
        followed: Option<String>,
    ) -> Verdicts {
        let reference =
            (regress == FailureFilter::Perf).then(|| SLOW_SIGNATURE.to_owned()).or(followed);
        Verdicts { regress, reference, threshold }
    }

    pub(crate) fn has_threshold(&self) -> bool {
        self.threshold.is_some()
    }

    pub(crate) fn set_threshold(&mut self, seconds: f64) {
        self.threshold = Some(seconds);
    }

    /// Returns the signature of the failure that the search looks for; empty until the bad end has failed.
    pub(crate) fn signature(&self) -> &str {
        self.reference.as_deref().unwrap_or_default()
    }

    /// If the observation is the first failure of the bad end, stores it as the failure that the search looks for.
    pub(crate) fn learn(&mut self, observation: &PointObservation, bad_end: usize) {
        if let Event::Ran { build, seen: BuildOutcome::Bad, .. } = observation.event
            && build == bad_end
            && self.reference.is_none()
        {
            self.reference = Some(observation.signature.clone());
        }
    }

    pub(crate) fn classify(&self, ran: &Run, bad_end: bool) -> Classification {
        match &ran.result {
            RunResult::Passed if self.regress == FailureFilter::Perf => {
                let slow = self.threshold.is_some_and(|limit| ran.time > limit);
                Classification::Run(if slow { BuildOutcome::Bad } else { BuildOutcome::Good })
            }
            RunResult::Passed => Classification::Run(BuildOutcome::Good),
            RunResult::Failed { signature, kind, started } => {
                // Before the bad end has failed, the good end runs only to see whether the two ends are swapped.
                let first = self.reference.is_none() && (bad_end || *started);
                // If only its exit status identifies the failure, that status is the verdict of the user, as in `git
                // bisect run`.
                let same = first
                    || self.reference.as_ref().is_some_and(|wanted| may_be_same(wanted, signature));
                // A build with which the HIP runtime finds no device cannot be tested, unless this is the failure that
                // the search is for.
                if !started && !same {
                    return Classification::Nothing;
                }
                let counts = match self.regress {
                    // The output of the failure does not match `--match`.
                    _ if *kind == Kind::Skip => false,
                    FailureFilter::Signature => same,
                    FailureFilter::Any => true,
                    FailureFilter::Crash => matches!(
                        kind,
                        Kind::Crash | Kind::TeardownCrash | Kind::MemoryFault | Kind::LibraryExit
                    ),
                    FailureFilter::Hang => *kind == Kind::Hang,
                    FailureFilter::Wrong => {
                        *kind == Kind::WrongData
                            || (*kind == Kind::ApiError
                                && signature.starts_with("unexpected-value"))
                    }
                    FailureFilter::Perf => false,
                };
                Classification::Run(if counts { BuildOutcome::Bad } else { BuildOutcome::Other })
            }
            RunResult::Untestable | RunResult::Trouble => Classification::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(signature: &str, kind: Kind, started: bool) -> Run {
        let shown = RunResult::Failed { signature: signature.to_owned(), kind, started };
        Run { result: shown, why: String::new(), time: 0.0, record: None }
    }

    #[track_caller]
    fn check(regress: FailureFilter, run: Run, expected: Option<BuildOutcome>) {
        let mut verdicts = Verdicts::new(regress, None, None);
        let event = Event::Ran { build: 3, seen: BuildOutcome::Bad, seconds: 0.0 };
        let signature = "crash:hipMalloc".to_owned();
        verdicts.learn(
            &PointObservation {
                event,
                label: String::new(),
                signature,
                why: String::new(),
                sha256: String::new(),
            },
            3,
        );
        let got = match verdicts.classify(&run, false) {
            Classification::Run(seen) => Some(seen),
            Classification::Nothing => None,
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn distinguishes_failures() {
        use FailureFilter::*;
        check(Signature, ran("crash:hipMalloc", Kind::Crash, true), Some(BuildOutcome::Bad));
        check(Signature, ran("crash:hipFree", Kind::Crash, true), Some(BuildOutcome::Other));
        check(Signature, ran("crash:hipInit", Kind::Crash, false), None);
        check(Any, ran("hang:hipFree", Kind::Hang, true), Some(BuildOutcome::Bad));
        check(Crash, ran("crash:hipFree", Kind::Crash, true), Some(BuildOutcome::Bad));
        check(Crash, ran("hang:hipFree", Kind::Hang, true), Some(BuildOutcome::Other));
        check(Hang, ran("hang:hipFree", Kind::Hang, true), Some(BuildOutcome::Bad));
        check(Wrong, ran("wrong-data:a:zero", Kind::WrongData, true), Some(BuildOutcome::Bad));
    }

    /// If the bad end has never failed, the search looks for the first failure of the good end.
    #[test]
    fn first_failure_of_the_good_end_counts() {
        let verdicts = Verdicts::new(FailureFilter::Signature, None, None);
        let failed =
            |started| verdicts.classify(&ran("crash:hipInit", Kind::Crash, started), false);
        assert!(matches!(failed(true), Classification::Run(BuildOutcome::Bad)));
        assert!(matches!(failed(false), Classification::Nothing));
    }

    #[test]
    fn slow_runs_are_above_the_threshold() {
        let verdicts = Verdicts::new(FailureFilter::Perf, Some(2.0), None);
        for (time, expected) in [(1.0, BuildOutcome::Good), (3.0, BuildOutcome::Bad)] {
            let run = Run { result: RunResult::Passed, why: String::new(), time, record: None };
            assert!(
                matches!(verdicts.classify(&run, false), Classification::Run(seen) if seen == expected)
            );
        }
    }
}
