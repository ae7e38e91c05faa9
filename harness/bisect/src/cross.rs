//! Finds the component that causes the change, by running the good build with single components of the bad build.

use ::search::bisect::{BuildOutcome, Edge};
use report::evidence::{CrossedBuild, Rate};
use stacks::{Component, ObtainedBuild};

use crate::{
    error::{OptionError, SearchError},
    subject::PreparedPoint,
    verdict::Classification,
    workbench::Workbench,
};
use engine::{Stop, events::EngineEvent, stop::chain};

const MAX_RUNS: u32 = 60;

/// Accepted probability of overlooking the component that causes the change, because all runs with it pass by chance.
const MISS_PROBABILITY: f64 = 0.01;

impl Workbench<'_> {
    /// Exchanges one component of the last good build at a time for that of the first bad build, and runs each of these
    /// mixtures. `rate` is the failure rate of the first bad build, which determines the number of runs.
    pub(crate) fn cross(&mut self, edge: &Edge, rate: f64) -> Result<Vec<CrossedBuild>, Stop> {
        self.ready = None;
        let (good, bad) = (edge.last_good, edge.first_bad);
        let obtain = |point: usize| {
            let build = self.axis.build(point).ok_or(OptionError::CrossWithoutBuilds)?;
            self.store
                .obtain_unless(build, self.cancel.flag(), &|event| {
                    self.options.reporting.event(EngineEvent::Build(event));
                })
                .map_err(|e| Stop::from(SearchError::Interrupted(chain(&e))))
        };
        let (good, bad) = (obtain(good)?, obtain(bad)?);
        let runs = runs_needed(rate);
        Component::ALL
            .into_iter()
            .map(|component| {
                let (rate, why) = match self.crossed(&good, &bad, component) {
                    Ok(ready) => self.repeat(&ready, runs)?,
                    Err(why) => (Rate::default(), Some(why)),
                };
                let component = component.name().to_owned();
                Ok(CrossedBuild { component, of: bad.id.clone(), rate, why })
            })
            .collect()
    }

    fn crossed(
        &self,
        good: &ObtainedBuild,
        bad: &ObtainedBuild,
        component: Component,
    ) -> Result<PreparedPoint<'_>, String> {
        let crossed = self.store.cross(good, bad, component).map_err(|e| chain(&e))?;
        let mut options = self.options.clone();
        options.rocm = crossed.prefix.display().to_string();
        let label = crossed.id.clone();
        let ready = self.subject.ready(self.axis, &label, options, Some(crossed));
        ready.map_err(|stop| stop.reason())
    }

    /// Runs the point up to `runs` times and returns its failure rate. Stops at the first inconclusive run and then
    /// also returns the reason.
    fn repeat(
        &self,
        ready: &PreparedPoint<'_>,
        runs: u32,
    ) -> Result<(Rate, Option<String>), SearchError> {
        let mut rate = Rate::default();
        for number in 0..runs {
            let ran = ready.run(number, &self.cancel);
            let ran = ran.ok_or_else(|| SearchError::Interrupted("interrupted".to_owned()))?;
            match self.verdicts.classify(&ran, false) {
                Classification::Run(BuildOutcome::Good) => rate.runs += 1,
                Classification::Run(BuildOutcome::Bad) => {
                    rate = Rate { failed: rate.failed + 1, runs: rate.runs + 1 };
                }
                Classification::Run(BuildOutcome::Other) | Classification::Nothing => {
                    return Ok((rate, Some(ran.why)));
                }
            }
        }
        Ok((rate, None))
    }
}

fn runs_needed(rate: f64) -> u32 {
    let runs = MISS_PROBABILITY.ln() / (-rate).ln_1p();
    (runs.ceil() as u32).clamp(2, MAX_RUNS)
}

#[cfg(test)]
mod tests {
    use super::runs_needed;

    #[test]
    fn flaky_failures_need_more_runs() {
        assert_eq!(runs_needed(1.0), 2);
        assert_eq!(runs_needed(0.5), 7);
        assert_eq!(runs_needed(0.2), 21);
        assert_eq!(runs_needed(0.0), 60);
    }
}
