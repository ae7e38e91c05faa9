//! Executes the decisions of the search: installs and runs builds, and writes each observation to the journal before it
//! counts.

use std::{path::Path, time::Instant};

use ::search::bisect::{Event, State};
use supervise::{Cancel, Journal};

use crate::{
    answer,
    axis::Axis,
    error::SearchError,
    events::{BisectEvent, Reporter},
    journal::{self, Entry},
    observation::PointObservation,
    prefetch::NextBuild,
    run::{PreparationError, Run, RunResult},
    subject::{PreparedPoint, Subject},
    verdict::{Classification, Verdicts},
};
use engine::{SessionOptions, Stop, stop::chain};

/// Number of attempts to get a run with a verdict.
const MAX_ATTEMPTS: u32 = 3;

/// Number of runs at each end whose time `--regress perf` measures.
const TIMED_RUNS: u32 = 5;

pub(crate) struct Workbench<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) axis: &'a Axis,
    pub(crate) options: SessionOptions,
    pub(crate) store: stacks::BuildStore,
    pub(crate) cancel: Cancel,
    pub(crate) journal: Journal,
    pub(crate) folder: &'a Path,
    pub(crate) verdicts: Verdicts,
    pub(crate) observations: Vec<PointObservation>,
    pub(crate) ready: Option<(usize, PreparedPoint<'a>)>,
    pub(crate) ahead: NextBuild,
    pub(crate) report: Reporter<'a>,
}

impl Workbench<'_> {
    pub(crate) fn observe(
        &mut self,
        state: &mut State,
        observation: PointObservation,
    ) -> Result<(), Stop> {
        journal::write(&mut self.journal, &Entry::Seen(observation.clone()))?;
        state.observe(observation.event);
        self.observations.push(observation.clone());
        let name = |n| self.axis.label(n);
        (self.report)(BisectEvent::Observed {
            state,
            seen: &self.observations,
            observation: &observation,
            name: &name,
        });
        Ok(())
    }

    /// Protects two builds from being removed from the disk: the last one that passed, and the first one that failed.
    pub(crate) fn pin(&self, state: &State) -> Result<(), SearchError> {
        let usable = || state.tallies().filter(|(_, tally)| !tally.is_unusable());
        let good = usable().filter(|(_, tally)| tally.good > 0 && tally.bad == 0).last();
        let bad = usable().find(|(_, tally)| tally.bad > 0);
        let pair = [good, bad].into_iter().flatten();
        let builds: Vec<_> = pair.filter_map(|(point, _)| self.axis.build(point)).collect();
        self.store.pin(&builds).map_err(|e| SearchError::Interrupted(chain(&e)))
    }

    fn prepare(&mut self, point: usize) -> Result<Result<(), String>, Stop> {
        self.ready = None;
        // If another build is being downloaded, this cancels its download.
        let _ahead = self.ahead.take(self.axis, point);
        match self.subject.prepare(
            self.axis,
            point,
            &self.options,
            (&self.store, self.cancel.flag()),
        )? {
            Ok(ready) => {
                self.refuse_rebuilt(point, &ready)?;
                self.ready = Some((point, ready));
                Ok(Ok(()))
            }
            Err(PreparationError::Unusable(why)) => Ok(Err(why)),
            Err(PreparationError::Trouble(why)) => Err(SearchError::Interrupted(why).into()),
        }
    }

    /// Returns an error if the build was published again with different content since an earlier run of this search.
    fn refuse_rebuilt(&self, point: usize, ready: &PreparedPoint<'_>) -> Result<(), SearchError> {
        let label = self.axis.label(point);
        let now = ready.sha256();
        let known = |o: &&PointObservation| o.label == label && !o.sha256.is_empty();
        match self.observations.iter().find(known) {
            Some(before) if !now.is_empty() && before.sha256 != now => {
                let before = before.sha256.clone();
                Err(SearchError::Republished { build: label, now, before })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn install(&mut self, state: &mut State, point: usize) -> Result<(), Stop> {
        let begun = Instant::now();
        let prepared = self.prepare(point)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (event, why) = match prepared {
            Ok(()) => (Event::Installed { build: point, seconds }, String::new()),
            Err(why) => (Event::Unusable { build: point, seconds }, why),
        };
        let label = self.axis.label(point);
        let sha256 = self.ready.as_ref().map(|(_, ready)| ready.sha256()).unwrap_or_default();
        self.observe(
            state,
            PointObservation { event, label, signature: String::new(), why, sha256 },
        )
    }

    pub(crate) fn run(&mut self, state: &mut State, point: usize) -> Result<(), Stop> {
        let begun = Instant::now();
        let label = self.axis.label(point);
        let unusable = |seconds, why| PointObservation {
            event: Event::Unusable { build: point, seconds },
            label: label.clone(),
            signature: String::new(),
            why,
            sha256: String::new(),
        };
        // When a search is resumed, no point is prepared yet.
        if self.ready.as_ref().is_none_or(|(active, _)| *active != point)
            && let Err(why) = self.prepare(point)?
        {
            return self.observe(state, unusable(begun.elapsed().as_secs_f64(), why));
        }
        let ran = self.attempt(state.runs())?;
        let seconds = begun.elapsed().as_secs_f64();
        let signature = match &ran.result {
            RunResult::Failed { signature, .. } => signature.clone(),
            _ => String::new(),
        };
        let observation = match self.verdicts.classify(&ran, point == state.setup().bad()) {
            Classification::Run(seen) => PointObservation {
                event: Event::Ran { build: point, seen, seconds },
                label: label.clone(),
                signature,
                why: ran.why,
                sha256: String::new(),
            },
            Classification::Nothing => unusable(seconds, ran.why),
        };
        self.verdicts.learn(&observation, state.setup().bad());
        self.observe(state, observation)
    }

    fn attempt(&mut self, number: u32) -> Result<Run, SearchError> {
        let Some((point, ready)) = &self.ready else { unreachable!("a point was prepared") };
        let label = self.axis.label(*point);
        let mut last = None;
        for _ in 0..MAX_ATTEMPTS {
            let Some(ran) = ready.run(number, &self.cancel) else {
                return Err(SearchError::Interrupted("interrupted".to_owned()));
            };
            if let Some(record) = &ran.record {
                answer::keep_record(self.folder, &label, record)?;
            }
            if matches!(ran.result, RunResult::Trouble) {
                return Err(SearchError::Interrupted(ran.why));
            }
            let no_verdict = ran
                .record
                .as_ref()
                .is_some_and(|record| record.outcome.kind == judge::Kind::NoVerdict);
            last = Some(ran);
            if !no_verdict {
                break;
            }
        }
        Ok(last.unwrap_or_else(|| unreachable!("at least one attempt was made")))
    }

    /// Measures the run time at both ends, and sets the time above which a run counts as slow.
    pub(crate) fn measure(&mut self) -> Result<(), Stop> {
        let mut medians = Vec::new();
        for point in [0, self.axis.point_count() - 1] {
            if let Err(why) = self.prepare(point)? {
                return Err(SearchError::Untestable(self.axis.label(point), why).into());
            }
            let mut times = Vec::new();
            for number in 0..TIMED_RUNS {
                let ran = self.attempt(number)?;
                if !matches!(ran.result, RunResult::Passed) {
                    return Err(SearchError::NotPassing(self.axis.label(point), ran.why).into());
                }
                times.push(ran.time);
            }
            times.sort_by(f64::total_cmp);
            medians.push(times[times.len() / 2]);
            (self.report)(BisectEvent::EndMeasured {
                label: &self.axis.label(point),
                seconds: times[times.len() / 2],
                runs: TIMED_RUNS,
            });
        }
        let seconds = mean_run_time(medians[0], medians[1]);
        journal::write(&mut self.journal, &Entry::Threshold { seconds })?;
        self.verdicts.set_threshold(seconds);
        Ok(())
    }
}

/// Time by which a busy machine may delay the start of a process, in seconds.
const START_DELAY: f64 = 0.05;

/// Returns the geometric mean of two run times. Adds `START_DELAY` to both before and subtracts it from the result, so
/// that a run time near zero does not make the mean too small.
fn mean_run_time(one: f64, other: f64) -> f64 {
    ((one + START_DELAY) * (other + START_DELAY)).sqrt() - START_DELAY
}

#[cfg(test)]
mod tests {
    use super::mean_run_time;

    #[test]
    fn threshold_tolerates_late_starts() {
        let check = |one: f64, other: f64, least: f64, most: f64| {
            let time = mean_run_time(one, other);
            assert!((least..most).contains(&time), "{one} and {other}: {time}");
            assert_eq!(time, mean_run_time(other, one));
        };
        check(0.001, 0.4, 0.08, 0.2);
        check(1.0, 4.0, 1.99, 2.02);
    }
}
