//! Which runs show the failure that is looked for.

use ::search::bisect::{Event, Seen};
use judge::{Kind, may_be_same};

use crate::{
    observation::PointObservation,
    options::FailureFilter,
    run::{Ran, Shown},
};

/// The signature of a run that is too slow.
const SLOW: &str = "slow";

/// What a run means for the search.
pub(crate) enum Sees {
    Run(Seen),
    /// The build cannot be tested.
    Nothing,
}

/// Tells the failure that is looked for from others.
pub(crate) struct Verdicts {
    regress: FailureFilter,
    /// The signature of the bad end's first failure.
    reference: Option<String>,
    /// Seconds above which a run is slow.
    threshold: Option<f64>,
}

impl Verdicts {
    /// `followed` is the signature of a failure that another search found already.
    pub(crate) fn new(
        regress: FailureFilter,
        threshold: Option<f64>,
        followed: Option<String>,
    ) -> Verdicts {
        let reference = (regress == FailureFilter::Perf).then(|| SLOW.to_owned()).or(followed);
        Verdicts { regress, reference, threshold }
    }

    pub(crate) fn has_threshold(&self) -> bool {
        self.threshold.is_some()
    }

    pub(crate) fn set_threshold(&mut self, seconds: f64) {
        self.threshold = Some(seconds);
    }

    /// The signature that is followed; empty before the bad end has failed.
    pub(crate) fn signature(&self) -> &str {
        self.reference.as_deref().unwrap_or_default()
    }

    /// The first failure of the bad end is the one to look for.
    pub(crate) fn learn(&mut self, observation: &PointObservation, bad_end: usize) {
        if let Event::Ran { build, seen: Seen::Bad, .. } = observation.event
            && build == bad_end
            && self.reference.is_none()
        {
            self.reference = Some(observation.signature.clone());
        }
    }

    pub(crate) fn see(&self, ran: &Ran, bad_end: bool) -> Sees {
        match &ran.shown {
            Shown::Passed if self.regress == FailureFilter::Perf => {
                let slow = self.threshold.is_some_and(|limit| ran.time > limit);
                Sees::Run(if slow { Seen::Bad } else { Seen::Good })
            }
            Shown::Passed => Sees::Run(Seen::Good),
            Shown::Failed { signature, kind, started } => {
                // Before the bad end has failed only the good one is run besides, to see whether they are exchanged.
                let first = self.reference.is_none() && (bad_end || *started);
                // A command whose exit status is all that is known of its failure is the user's own answer, as for git bisect.
                let same = first
                    || self.reference.as_ref().is_some_and(|wanted| may_be_same(wanted, signature));
                // A build whose runtime does not find its device is broken in a way of its own, unless that is what is
                // looked for.
                if !started && !same {
                    return Sees::Nothing;
                }
                let counts = match self.regress {
                    // A failure that does not say what --match asks for.
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
                Sees::Run(if counts { Seen::Bad } else { Seen::Other })
            }
            Shown::Untestable | Shown::Trouble => Sees::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(signature: &str, kind: Kind, started: bool) -> Ran {
        let shown = Shown::Failed { signature: signature.to_owned(), kind, started };
        Ran { shown, why: String::new(), time: 0.0, record: None }
    }

    #[track_caller]
    fn check(regress: FailureFilter, run: Ran, expected: Option<Seen>) {
        let mut verdicts = Verdicts::new(regress, None, None);
        let event = Event::Ran { build: 3, seen: Seen::Bad, seconds: 0.0 };
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
        let got = match verdicts.see(&run, false) {
            Sees::Run(seen) => Some(seen),
            Sees::Nothing => None,
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn failures_are_told_apart() {
        use FailureFilter::*;
        check(Signature, ran("crash:hipMalloc", Kind::Crash, true), Some(Seen::Bad));
        check(Signature, ran("crash:hipFree", Kind::Crash, true), Some(Seen::Other));
        check(Signature, ran("crash:hipInit", Kind::Crash, false), None);
        check(Any, ran("hang:hipFree", Kind::Hang, true), Some(Seen::Bad));
        check(Crash, ran("crash:hipFree", Kind::Crash, true), Some(Seen::Bad));
        check(Crash, ran("hang:hipFree", Kind::Hang, true), Some(Seen::Other));
        check(Hang, ran("hang:hipFree", Kind::Hang, true), Some(Seen::Bad));
        check(Wrong, ran("wrong-data:a:zero", Kind::WrongData, true), Some(Seen::Bad));
    }

    /// The good end is asked when the bad one only passes: what it shows then is no other failure, for there is none yet.
    #[test]
    fn a_failure_of_the_good_end_counts_before_any_of_the_bad_one() {
        let verdicts = Verdicts::new(FailureFilter::Signature, None, None);
        let failed = |started| verdicts.see(&ran("crash:hipInit", Kind::Crash, started), false);
        assert!(matches!(failed(true), Sees::Run(Seen::Bad)));
        assert!(matches!(failed(false), Sees::Nothing));
    }

    #[test]
    fn slow_runs_are_above_the_threshold() {
        let verdicts = Verdicts::new(FailureFilter::Perf, Some(2.0), None);
        for (time, expected) in [(1.0, Seen::Good), (3.0, Seen::Bad)] {
            let run = Ran { shown: Shown::Passed, why: String::new(), time, record: None };
            assert!(matches!(verdicts.see(&run, false), Sees::Run(seen) if seen == expected));
        }
    }
}
