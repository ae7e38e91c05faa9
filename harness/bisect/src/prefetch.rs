//! Downloads the build that is probably needed next while the current build runs.

use ::search::bisect::{Action, BuildOutcome, Event, State, next_action};
use stacks::{BuildLocation, BuildStore, Prefetch};

use crate::{axis::Axis, kind::AxisKind};

/// Number of further runs with the same result that are simulated to guess the next build.
const SIMULATED_RUNS: u32 = 8;

#[derive(Default)]
pub(crate) struct NextBuild {
    fetch: Option<Prefetch>,
    guessed: Option<(usize, BuildOutcome, u32)>,
}

impl NextBuild {
    /// Starts the download of the build that is needed next if the further runs of the current build have the same
    /// result as so far.
    ///
    /// A good build needs many passes, but one failure almost decides that a build is bad. Therefore a build without a
    /// failure so far is assumed to be good.
    pub(crate) fn prefetch(
        &mut self,
        state: &State,
        point: usize,
        axis: &Axis,
        store: &BuildStore,
    ) {
        if axis.kind != AxisKind::Builds {
            return;
        }
        let tally = state.tally(point);
        let seen = if tally.bad > 0 { BuildOutcome::Bad } else { BuildOutcome::Good };
        let guess = Some((point, seen, tally.runs() / SIMULATED_RUNS));
        if self.guessed == guess {
            return;
        }
        self.guessed = guess;
        let mut imagined = state.clone();
        for _ in 0..SIMULATED_RUNS {
            imagined.observe(Event::Ran { build: point, seen, seconds: 0.0 });
            match next_action(&imagined) {
                Action::Run(same) if same == point => {}
                Action::Run(other) | Action::Install(other) => {
                    self.begin(other, axis, store);
                    return;
                }
                Action::Finish(_) => return,
            }
        }
    }

    fn begin(&mut self, point: usize, axis: &Axis, store: &BuildStore) {
        let Some(build) = axis.build(point) else { return };
        let download =
            build.places.iter().any(|place| matches!(place, BuildLocation::Archives { .. }));
        let under_way = self.fetch.as_ref().is_some_and(|fetch| fetch.id() == build.id);
        if download && !under_way && !store.has(build) {
            self.fetch = Some(store.prefetch(build));
        }
    }

    /// Returns the running download if it is that of the build at `point`. Otherwise cancels the download and returns
    /// `None`.
    pub(crate) fn take(&mut self, axis: &Axis, point: usize) -> Option<Prefetch> {
        self.guessed = None;
        let id = axis.build(point).map(|build| build.id.as_str());
        self.fetch.take().filter(|fetch| Some(fetch.id()) == id)
    }
}
