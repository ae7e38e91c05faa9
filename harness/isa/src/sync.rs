//! Global wave sync (GWS): counters on the device that synchronise the waves of all workgroups of a launch.
//!
//! A cooperative queue has 64 resources, which keep their state between dispatches. Before a cooperative launch, the
//! HIP runtime runs a kernel that initialises one of them. The last instruction on a resource determines whether the
//! resource is a barrier or a semaphore. Each wave that arrives at a barrier decrements the counter. The wave that
//! finds the counter at zero releases all waves and sets the counter for the next use. A semaphore has a number of
//! units. A wave that takes a unit waits until one is available.
//!
//! Source: the Vega, CDNA and RDNA 3 ISA guides, `DS_GWS_*`. The guides partly leave open which resource an instruction
//! uses. LLVM's `SelectDS_GWS` defines the number of the resource as the sum of M0\[21:16\] and the offset, modulo 64.

use std::sync::{Mutex, MutexGuard, PoisonError};

const RESOURCES: usize = 64;

/// Global wave sync of one queue. Each resource is a barrier or a semaphore.
#[derive(Debug)]
pub struct WaveSync([Mutex<Resource>; RESOURCES]);

impl Default for WaveSync {
    fn default() -> WaveSync {
        WaveSync([const { Mutex::new(Resource::new()) }; RESOURCES])
    }
}

/// A barrier or a semaphore.
#[derive(Debug)]
struct Resource {
    /// For a barrier: number of waves that must still arrive, not counting the last one. For a semaphore: number of
    /// available units.
    counter: u32,
    /// Number of times that the barrier has opened. Hardware stores only the lowest bit of this number.
    opened: u64,
    /// Number of waves that have requested a unit of the semaphore (`asked`), and number of waves that have received
    /// one (`served`). Waves receive units in the order of their requests.
    asked: u64,
    served: u64,
}

/// Action of a global-wave-sync instruction on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Initialises the counter of the resource.
    Init,
    /// Records that a wave arrives at the barrier.
    Barrier,
    /// Adds one unit to the semaphore.
    Release,
    /// Adds as many units to the semaphore as the operand specifies.
    ReleaseSome,
    /// Adds one unit to the semaphore for each waiting wave.
    ReleaseAll,
    /// Takes a unit of the semaphore.
    Acquire,
}

/// Condition for which a wave waits at a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingWait {
    resource: usize,
    what: WaitCondition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitCondition {
    /// The barrier must have opened more than this number of times.
    Opened(u64),
    /// More than this number of waves must have received a unit.
    Served(u64),
}

/// Effect of a global-wave-sync instruction on the order of memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncEffect {
    pub(crate) resource: usize,
    /// True if the wave releases its earlier accesses.
    pub(crate) lets_go: bool,
    /// True if the wave acquires when it continues.
    pub(crate) hears: bool,
    /// True if waiting waves continue. At a barrier, these waves acquire from all waves that have arrived.
    pub(crate) opens: bool,
}

impl Resource {
    const fn new() -> Resource {
        Resource { counter: 0, opened: 0, asked: 0, served: 0 }
    }

    /// Assigns units to waiting waves in the order of their requests.
    fn serve(&mut self) {
        let waiting = self.asked - self.served;
        let served = waiting.min(self.counter.into());
        self.served += served;
        // The subtraction cannot underflow, because `served` is at most the counter.
        self.counter -= served as u32;
    }
}

impl WaveSync {
    fn resource(&self, number: usize) -> MutexGuard<'_, Resource> {
        self.0[number % RESOURCES].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a global-wave-sync instruction on resource `number`. `value` is the operand of the first active lane.
    /// Returns the effect, and the condition for which the wave must wait; `None` if the wave continues immediately.
    pub fn act(
        &self,
        action: Action,
        number: usize,
        value: u32,
    ) -> (SyncEffect, Option<PendingWait>) {
        let mut it = self.resource(number);
        let resource = number % RESOURCES;
        let mut synced = SyncEffect { resource, lets_go: true, hears: false, opens: true };
        let mut awaits = None;
        match action {
            Action::Init => {
                // Waves that are still waiting belong to an earlier launch that has ended.
                (it.counter, it.served) = (value, it.asked);
                (synced.lets_go, synced.opens) = (false, false);
            }
            Action::Barrier => {
                synced.hears = true;
                if it.counter == 0 {
                    it.counter = value;
                    it.opened += 1;
                } else {
                    awaits = Some(PendingWait { resource, what: WaitCondition::Opened(it.opened) });
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
                // The fallback is never used, because there are fewer than 2^32 waves.
                it.counter = u32::try_from(it.asked - it.served).unwrap_or(u32::MAX);
                it.serve();
            }
            Action::Acquire => {
                (synced.lets_go, synced.hears, synced.opens) = (false, true, false);
                let what = WaitCondition::Served(it.asked);
                it.asked += 1;
                it.serve();
                awaits = Some(PendingWait { resource, what }).filter(|_| it.served < it.asked);
            }
        }
        (synced, awaits)
    }

    /// Returns true if a wave that waits for `awaits` may continue.
    pub fn may_continue(&self, awaits: PendingWait) -> bool {
        let it = self.resource(awaits.resource);
        match awaits.what {
            WaitCondition::Opened(before) => it.opened > before,
            WaitCondition::Served(before) => it.served > before,
        }
    }
}
