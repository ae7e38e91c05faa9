//! Global wave sync: counters of the device at which waves of all workgroups of a launch meet.
//!
//! A queue that has it, a cooperative one, has 64 resources, which stay as they are from one dispatch to the next: the HIP runtime
//! sets one up by a kernel of its own before a cooperative launch. A resource is a barrier or a semaphore, by what the
//! last instruction on it was. Each wave that comes to a barrier counts down; the one that finds nothing left to count lets all go, and
//! brings the count for the next time. A semaphore has a number of units: who takes one waits until there is one for him.
//!
//! Source: the Vega, CDNA and RDNA 3 ISA guides, `DS_GWS_*`; which resource is meant, which they leave in part open, LLVM's
//! `SelectDS_GWS`: M0\[21:16\] and the offset, modulo 64.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Resources of a queue.
const RESOURCES: usize = 64;

/// The global wave sync of a queue.
#[derive(Debug)]
pub struct WaveSync([Mutex<Resource>; RESOURCES]);

impl Default for WaveSync {
    fn default() -> WaveSync {
        WaveSync([const { Mutex::new(Resource::new()) }; RESOURCES])
    }
}

/// One resource.
#[derive(Debug)]
struct Resource {
    /// How many waves a barrier still waits for besides the last one; the units that a semaphore has.
    counter: u32,
    /// How often the barrier has let waves go. Of it hardware has the lowest bit, which is as much as it needs.
    opened: u64,
    /// The waves that have asked for a unit of the semaphore, and those of them that have one: they have their turns.
    asked: u64,
    served: u64,
}

/// What an instruction does to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets the counter up.
    Init,
    /// Comes to the barrier.
    Barrier,
    /// Gives the semaphore a unit, or so many, or one for each wave that waits.
    Release,
    /// Gives as many units as the value says.
    ReleaseSome,
    /// Gives a unit to each wave that waits.
    ReleaseAll,
    /// Takes a unit of the semaphore.
    Acquire,
}

/// What a wave waits for that has come to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaits {
    resource: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The barrier has let waves go more often than that.
    Opened(u64),
    /// More than that have a unit of the semaphore.
    Served(u64),
}

/// What an instruction did that concerns the order of waves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    pub(crate) resource: usize,
    /// It lets others know what its wave did before.
    pub(crate) lets_go: bool,
    /// It is done once others have let the wave know, and not before.
    pub(crate) hears: bool,
    /// Those who wait go on: at a barrier, with what all have let go of by now.
    pub(crate) opens: bool,
}

impl Resource {
    const fn new() -> Resource {
        Resource { counter: 0, opened: 0, asked: 0, served: 0 }
    }

    /// Gives units to those who wait, in turn.
    fn serve(&mut self) {
        let waiting = self.asked - self.served;
        let served = waiting.min(self.counter.into());
        self.served += served;
        // No more than the counter.
        self.counter -= served as u32;
    }
}

impl WaveSync {
    fn resource(&self, number: usize) -> MutexGuard<'_, Resource> {
        self.0[number % RESOURCES].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out an instruction of a wave. `value` is the one of its first lane.
    pub fn act(&self, action: Action, number: usize, value: u32) -> (Synced, Option<Awaits>) {
        let mut it = self.resource(number);
        let resource = number % RESOURCES;
        let mut synced = Synced { resource, lets_go: true, hears: false, opens: true };
        let mut awaits = None;
        match action {
            Action::Init => {
                // Whoever waited has ended with its launch.
                (it.counter, it.served) = (value, it.asked);
                (synced.lets_go, synced.opens) = (false, false);
            }
            Action::Barrier => {
                synced.hears = true;
                if it.counter == 0 {
                    it.counter = value;
                    it.opened += 1;
                } else {
                    awaits = Some(Awaits { resource, what: What::Opened(it.opened) });
                    it.counter -= 1;
                    synced.opens = false;
                }
            }
            Action::Release | Action::ReleaseSome => {
                let more = if action == Action::Release { 1 } else { value };
                it.counter = it.counter.saturating_add(more);
                it.serve();
            }
            Action::ReleaseAll => {
                // There are never as many waves.
                it.counter = u32::try_from(it.asked - it.served).unwrap_or(u32::MAX);
                it.serve();
            }
            Action::Acquire => {
                (synced.lets_go, synced.hears, synced.opens) = (false, true, false);
                let what = What::Served(it.asked);
                it.asked += 1;
                it.serve();
                awaits = Some(Awaits { resource, what }).filter(|_| it.served < it.asked);
            }
        }
        (synced, awaits)
    }

    /// Whether the wave goes on.
    pub fn lets_go(&self, awaits: Awaits) -> bool {
        let it = self.resource(awaits.resource);
        match awaits.what {
            What::Opened(before) => it.opened > before,
            What::Served(before) => it.served > before,
        }
    }
}
