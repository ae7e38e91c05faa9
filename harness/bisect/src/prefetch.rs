//! Fetches the more likely next build while the current one runs.

use ::search::bisect::{Action, Event, Seen, State, next};
use stacks::{BuildLocation, BuildStore, Prefetch};

use crate::{axis::Axis, kind::AxisKind};

/// Number of future runs that a guess assumes.
const RUNS: u32 = 8;

#[derive(Default)]
pub(crate) struct NextBuild {
    fetch: Option<Prefetch>,
    guessed: Option<(usize, Seen, u32)>,
}

impl NextBuild {
    /// Fetches the next build if the current one continues as it began.
    ///
    /// Passes accumulate slowly on a good build, and one failure nearly decides about a bad one. So a build without a
    /// failure is assumed to pass.
    pub(crate) fn look(&mut self, state: &State, point: usize, axis: &Axis, store: &BuildStore) {
        if axis.kind != AxisKind::Builds {
            return;
        }
        let tally = state.tally(point);
        let seen = if tally.bad > 0 { Seen::Bad } else { Seen::Good };
        let guess = Some((point, seen, tally.runs() / RUNS));
        if self.guessed == guess {
            return;
        }
        self.guessed = guess;
        let mut imagined = state.clone();
        for _ in 0..RUNS {
            imagined.observe(Event::Ran { build: point, seen, seconds: 0.0 });
            match next(&imagined) {
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

    /// Returns the fetch of this build, and cancels the fetch of another.
    pub(crate) fn take(&mut self, axis: &Axis, point: usize) -> Option<Prefetch> {
        self.guessed = None;
        let id = axis.build(point).map(|build| build.id.as_str());
        self.fetch.take().filter(|fetch| Some(fetch.id()) == id)
    }
}
