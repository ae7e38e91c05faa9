//! Which component brings the change: the good build with one component of the bad one, and the same trial.

use report::evidence::{Crossed, Rate};
use search::bisect::{Edge, Seen};
use stacks::{Component, ObtainedBuild};

use super::{
    bench::{Bench, interrupted},
    subject::Ready,
    verdict::Sees,
};
use crate::{Stop, progress::Fetching, stop::chain};

/// Runs of one crossed build at most.
const MOST_RUNS: u32 = 60;

/// A component that still passes brings the change with less than this probability.
const DOUBT: f64 = 0.01;

impl Bench<'_> {
    /// Runs the last good build with each component of the first bad one, as often as the failure's rate asks for.
    pub(super) fn cross(&mut self, edge: &Edge, rate: f64) -> Result<Vec<Crossed>, Stop> {
        self.ready = None;
        let fetching = Fetching::default();
        let (good, bad) = (edge.last_good, edge.first_bad);
        let obtain = |point: usize| {
            let build = self.axis.build(point).ok_or_else(|| {
                Stop::usage("error: --cross exchanges components of builds, and this axis is not one of builds; leave it out")
            })?;
            self.store
                .obtain_unless(build, self.cancel.flag(), &|event| fetching.tell(event))
                .map_err(|e| interrupted(&format!("error: {}", chain(&e))))
        };
        let (good, bad) = (obtain(good)?, obtain(bad)?);
        let runs = runs(rate);
        Component::ALL
            .into_iter()
            .map(|component| {
                let (rate, why) = match self.crossed(&good, &bad, component) {
                    Ok(ready) => self.repeat(&ready, runs)?,
                    Err(why) => (Rate::default(), Some(why)),
                };
                let component = component.name().to_owned();
                Ok(Crossed { component, of: bad.id.clone(), rate, why })
            })
            .collect()
    }

    fn crossed(
        &self,
        good: &ObtainedBuild,
        bad: &ObtainedBuild,
        component: Component,
    ) -> Result<Ready<'_>, String> {
        let crossed = self.store.cross(good, bad, component).map_err(|e| chain(&e))?;
        let mut options = self.options.clone();
        options.rocm = crossed.prefix.display().to_string();
        let label = crossed.id.clone();
        let ready = self.subject.ready(self.axis, &label, options, Some(crossed));
        ready.map_err(|stop| stop.to_string().trim_start_matches("error: ").to_owned())
    }

    /// Failures of so many runs; why not, where they say nothing.
    fn repeat(&self, ready: &Ready<'_>, runs: u32) -> Result<(Rate, Option<String>), Stop> {
        let mut rate = Rate::default();
        for number in 0..runs {
            let ran = ready.run(number, &self.cancel).ok_or_else(|| interrupted("interrupted"))?;
            match self.verdicts.see(&ran, false) {
                Sees::Run(Seen::Good) => rate.runs += 1,
                Sees::Run(Seen::Bad) => {
                    rate = Rate { failed: rate.failed + 1, runs: rate.runs + 1 };
                }
                Sees::Run(Seen::Other) | Sees::Nothing => return Ok((rate, Some(ran.why))),
            }
        }
        Ok((rate, None))
    }
}

/// Runs after which a component that never failed is out of [`DOUBT`].
fn runs(rate: f64) -> u32 {
    let runs = DOUBT.ln() / (-rate).ln_1p();
    (runs.ceil() as u32).clamp(2, MOST_RUNS)
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn flaky_failures_need_more_runs() {
        assert_eq!(runs(1.0), 2);
        assert_eq!(runs(0.5), 7);
        assert_eq!(runs(0.2), 21);
        assert_eq!(runs(0.0), 60);
    }
}
