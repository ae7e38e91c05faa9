//! Fetching the likelier next build while the current one runs.

use search::bisect::{Action, Event, Seen, State, next};
use stacks::{BuildLocation, BuildStore, Prefetch};

use super::axis::{Axis, Kind};

/// How many runs of the same kind are imagined to come. A flaky build takes more, and is looked at again after these.
const RUNS: u32 = 8;

/// The fetch that is under way, and what it was guessed from.
#[derive(Default)]
pub(super) struct Ahead {
    fetch: Option<Prefetch>,
    guessed: Option<(usize, Seen, u32)>,
}

impl Ahead {
    /// Imagines that the active build goes on as it began, and fetches what the search would then want.
    ///
    /// Passes accumulate on a good build and one failure nearly decides on a bad one, so nothing seen yet counts as passing.
    pub(super) fn look(&mut self, state: &State, point: usize, axis: &Axis, store: &BuildStore) {
        if axis.kind != Kind::Builds {
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

    /// The fetch of this build, if it is under way; that of another is called off.
    pub(super) fn take(&mut self, axis: &Axis, point: usize) -> Option<Prefetch> {
        self.guessed = None;
        let id = axis.build(point).map(|build| build.id.as_str());
        self.fetch.take().filter(|fetch| Some(fetch.id()) == id)
    }
}
