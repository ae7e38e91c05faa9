//! Happens-before state: the clocks of queues, signals and the host, and the search for accesses without a guaranteed
//! order.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use isa::{AccessKind, Unordered};

use super::{
    WINDOW,
    accesses::Accesses,
    clock::{Clock, WorkId},
};
use crate::{row::Row, sanitizer};

/// Number of the pseudo-queue that contains all copies. A copy waits only for its signals.
const COPIES: u64 = 0;

struct Entry {
    place: WorkId,
    line: u32,
    name: Arc<str>,
}

impl Entry {
    fn access(&self, kind: AccessKind) -> String {
        let packet = match self.place.queue {
            COPIES => String::new(),
            queue => format!(" (packet {} of queue {queue})", self.place.index),
        };
        format!("{}{packet}", self.work(kind))
    }

    /// Describes the packet or copy without its number, so that all packets of a loop have the same description.
    fn work(&self, kind: AccessKind) -> String {
        format!("{} by {} of {}", kind.word(), self.name, sanitizer::line(self.line))
    }
}

/// Vector clocks that the packets of a queue share.
#[derive(Default)]
struct Queue {
    /// Packets and copies that must be complete before any later packet of this queue starts.
    floor: Clock,
    /// All complete packets of this queue, and the packets and copies that were complete before them.
    all: Clock,
    /// Clock of the host each time it rang the doorbell. The key is the index after the last submitted packet.
    rung: BTreeMap<u64, Submission>,
}

/// Clock of the host, and line of the case, at the time of a submission.
#[derive(Clone)]
pub(crate) struct Submission {
    clock: Clock,
    line: u32,
}

/// A packet or copy that is being executed.
pub(crate) struct Work {
    number: u32,
    place: WorkId,
    clock: Clock,
    /// True if the writes of the packet are a synchronisation themselves, as in hipStreamWriteValue and
    /// hipStreamWaitValue.
    signals_by_memory: bool,
}

#[derive(Default)]
pub(super) struct State {
    host: Clock,
    signals: HashMap<u64, Clock>,
    queues: BTreeMap<u64, Queue>,
    entries: Vec<Entry>,
    names: BTreeSet<Arc<str>>,
    copies: u64,
    accesses: Accesses,
}

impl State {
    pub(super) fn known(&self, line: u32) -> Submission {
        Submission { clock: self.host.clone(), line }
    }

    /// Records that the host rang the doorbell of a queue. By then the host has written all packets with an index below
    /// `end`.
    pub(super) fn record_doorbell(&mut self, queue: u64, end: u64, line: u32) {
        let known = self.known(line);
        self.queues.entry(queue).or_default().rung.entry(end).or_insert(known);
    }

    fn begin(&mut self, place: WorkId, name: &str, known: Submission) -> Work {
        let number = self.entries.len() as u32;
        let name = self.shared(name);
        self.entries.push(Entry { place, line: known.line, name });
        Work { number, place, clock: known.clock, signals_by_memory: false }
    }

    /// Records that a packet starts. `barrier` is the barrier bit of its header. `line` is the current line of the
    /// case, which is used if the host has not yet rung the doorbell for this packet.
    pub(super) fn begin_packet(
        &mut self,
        queue: u64,
        index: u64,
        barrier: bool,
        line: u32,
    ) -> Work {
        let now = self.known(line);
        let before = self.queues.entry(queue).or_default();
        let rung = before.rung.range(index + 1..).next();
        let mut known = rung.map_or(now, |(_, known)| known.clone());
        // Packets without the barrier bit may start out of order, but only within the window.
        before.rung = before.rung.split_off(&index.saturating_sub(WINDOW as u64));
        known.clock.join(&before.floor);
        if barrier {
            known.clock.join(&before.all);
            before.floor.join(&known.clock);
        }
        self.begin(WorkId { queue, index }, "a packet", known)
    }

    /// Returns the name as a shared string, so that each name is stored only once.
    fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let new = Arc::<str>::from(name);
        self.names.insert(new.clone());
        new
    }

    pub(super) fn begin_copy(&mut self, name: &str, known: Submission) -> Work {
        let place = WorkId { queue: COPIES, index: self.copies };
        self.copies += 1;
        self.begin(place, name, known)
    }

    pub(super) fn launches(&mut self, work: &mut Work, kernel: &str) {
        self.entries[work.number as usize].name = self.shared(&format!("kernel {kernel}"));
        work.signals_by_memory = kernel.starts_with("__amd_rocclr_streamOps");
    }

    fn signal(&mut self, signal: u64) -> &mut Clock {
        self.signals.entry(signal).or_default()
    }

    pub(super) fn waited(&mut self, work: &mut Work, signal: u64) {
        work.clock.join(self.signal(signal));
    }

    /// Makes all later packets of the queue wait for this packet.
    pub(super) fn block_later_packets(&mut self, work: &Work) {
        let floor = &mut self.queues.entry(work.place.queue).or_default().floor;
        floor.join(&work.clock);
        floor.add(work.place);
    }

    pub(super) fn end_packet(&mut self, work: &Work) {
        let all = &mut self.queues.entry(work.place.queue).or_default().all;
        all.join(&work.clock);
        all.add(work.place);
    }

    /// Records that a complete packet or copy decrements a signal.
    pub(super) fn record_decrement(&mut self, work: &Work, signal: u64) {
        let clock = self.signal(signal);
        clock.join(&work.clock);
        clock.add(work.place);
    }

    pub(super) fn host_read_signal(&mut self, signal: u64) {
        let clock = self.signal(signal).clone();
        self.host.join(&clock);
    }

    pub(super) fn host_added_to_signal(&mut self, signal: u64) {
        let clock = self.host.clone();
        self.signal(signal).join(&clock);
    }

    /// Records that the host set the value of a signal. From then on, a wait for the signal is ordered after the work
    /// that the host knows to be complete, and no longer after the work that decremented the signal before.
    pub(super) fn host_set_signal(&mut self, signal: u64) {
        let clock = self.host.clone();
        *self.signal(signal) = clock;
    }

    /// Records a copy that the host itself has completed, so that the host's clock contains it.
    pub(super) fn complete_on_host(&mut self, work: &Work) {
        self.host.add(work.place);
    }

    pub(super) fn touch(
        &mut self,
        work: &mut Work,
        kind: AccessKind,
        range: Range<u64>,
    ) -> Result<(), Unordered> {
        if work.signals_by_memory {
            if kind == AccessKind::Load {
                self.waited(work, range.start);
            } else {
                self.record_decrement(work, range.start);
            }
            return Ok(());
        }
        let entries = &self.entries;
        let is_before = |number: u32| work.clock.contains(entries[number as usize].place);
        let touched = self.accesses.touch(work.number, kind, range, is_before);
        touched.map_err(|other| Unordered {
            address: other.address,
            this: entries[work.number as usize].access(kind),
            other: entries[other.work as usize].access(other.kind),
            rival: entries[other.work as usize].work(other.kind),
        })
    }

    /// Records the accesses of a copy.
    ///
    /// # Errors
    /// Returns the first conflict with an earlier access.
    pub(super) fn touch_rows(&mut self, work: &mut Work, rows: &[Row]) -> Result<(), Unordered> {
        let range = |start: usize, len: usize| start as u64..(start + len) as u64;
        let mut first = Ok(());
        for row in rows {
            first = first.and(self.touch(work, AccessKind::Load, range(row.from, row.len)));
            first = first.and(self.touch(work, AccessKind::Store, range(row.to, row.len)));
        }
        first
    }

    pub(super) fn forget(&mut self, range: Range<u64>) {
        self.accesses.forget(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of a test, in the order in which they happen. All accesses are to the same bytes.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// A packet writes and then decrements a signal: queue, index, barrier bit and signal.
        Packet(u64, u64, bool, u64),
        /// A barrier packet waits for a signal: queue, index and signal.
        Barrier(u64, u64, u64),
        /// A copy that waits for the first signal reads and then decrements the second signal.
        Copy(u64, u64),
        /// A kernel of the HIP runtime reads or writes a value for which streams wait: queue, index and kind of access.
        Value(u64, u64, AccessKind),
        Ring(u64, u64),
        HostRead(u64),
        HostSet(u64),
    }
    use Event::*;

    #[track_caller]
    fn check(events: &[Event], expected: Option<(&str, &str)>) {
        let mut state = State::default();
        let mut found = None;
        for (event, line) in events.iter().zip(1..) {
            let result = match *event {
                Packet(queue, index, barrier, signal) => {
                    let mut work = state.begin_packet(queue, index, barrier, line);
                    state.launches(&mut work, "k");
                    let result = state.touch(&mut work, AccessKind::Store, 4096..4100);
                    state.end_packet(&work);
                    state.record_decrement(&work, signal);
                    result
                }
                Barrier(queue, index, signal) => {
                    let mut work = state.begin_packet(queue, index, false, line);
                    state.waited(&mut work, signal);
                    state.block_later_packets(&work);
                    state.end_packet(&work);
                    Ok(())
                }
                Copy(dependency, signal) => {
                    let known = state.known(line);
                    let mut work = state.begin_copy("the copy", known);
                    state.waited(&mut work, dependency);
                    let result = state.touch(&mut work, AccessKind::Load, 4096..4100);
                    state.record_decrement(&work, signal);
                    result
                }
                Value(queue, index, kind) => {
                    let mut work = state.begin_packet(queue, index, true, line);
                    state.launches(&mut work, "__amd_rocclr_streamOpsWait");
                    let result = state.touch(&mut work, kind, 8192..8200);
                    state.end_packet(&work);
                    result
                }
                Ring(queue, end) => {
                    state.record_doorbell(queue, end, line);
                    Ok(())
                }
                HostRead(signal) => {
                    state.host_read_signal(signal);
                    Ok(())
                }
                HostSet(signal) => {
                    state.host_set_signal(signal);
                    Ok(())
                }
            };
            found = found.or(result.err().map(|found| (found.this, found.other)));
        }
        let found = found.as_ref().map(|(this, other)| (this.as_str(), other.as_str()));
        assert_eq!(found, expected, "{events:?}");
    }

    /// Handles of signals. If the completion of a packet does not matter, the packet decrements `NO`.
    const NO: u64 = 10;
    const S: u64 = 11;
    const T: u64 = 12;

    #[test]
    fn barriers_order_packets() {
        let first = "write by kernel k of line 1 (packet 0 of queue 1)";
        check(&[Packet(1, 0, true, NO), Packet(1, 1, true, NO)], None);
        let second = "write by kernel k of line 2 (packet 1 of queue 1)";
        check(&[Packet(1, 0, true, NO), Packet(1, 1, false, NO)], Some((second, first)));
        let second = "write by kernel k of line 2 (packet 0 of queue 2)";
        check(&[Packet(1, 0, true, NO), Packet(2, 0, true, NO)], Some((second, first)));
        check(&[Packet(1, 0, true, S), Barrier(2, 0, S), Packet(2, 1, false, NO)], None);
        // The first packet has the barrier bit, so the second one starts after it.
        let order = [Packet(1, 0, true, S), Barrier(2, 0, S), Barrier(2, 1, NO)];
        check(&[&order[..], &[Packet(2, 2, false, NO)]].concat(), None);
        let third = "write by kernel k of line 3 (packet 1 of queue 2)";
        check(
            &[Packet(1, 0, true, S), Barrier(2, 0, T), Packet(2, 1, true, NO)],
            Some((third, first)),
        );
    }

    #[test]
    fn signals_order_copies() {
        let first = "write by kernel k of line 1 (packet 0 of queue 1)";
        check(&[Packet(1, 0, true, S), Copy(S, T), Barrier(1, 1, T), Packet(1, 2, true, NO)], None);
        check(&[Packet(1, 0, true, S), Copy(T, NO)], Some(("read by the copy of line 2", first)));
        let third = "write by kernel k of line 3 (packet 1 of queue 1)";
        let copy = "read by the copy of line 2";
        check(&[Packet(1, 0, true, S), Copy(S, T), Packet(1, 1, true, NO)], Some((third, copy)));
    }

    #[test]
    fn stream_values_order_like_signals() {
        let [write, read] = [AccessKind::Store, AccessKind::Load];
        check(
            &[
                Packet(1, 0, true, NO),
                Value(1, 1, write),
                Value(2, 0, read),
                Packet(2, 1, true, NO),
            ],
            None,
        );
    }

    #[test]
    fn reading_a_signal_orders_later_submissions() {
        let first = "write by kernel k of line 1 (packet 0 of queue 1)";
        let second = |line| format!("write by kernel k of line {line} (packet 0 of queue 2)");
        check(&[Packet(1, 0, true, S), HostRead(S), Packet(2, 0, true, NO)], None);
        // The packet starts after the host has read the signal, but the host had submitted the packet before the read.
        check(
            &[Packet(1, 0, true, S), Ring(2, 1), HostRead(S), Packet(2, 0, true, NO)],
            Some((&second(2), first)),
        );
        check(&[Packet(1, 0, true, S), Ring(2, 0), HostRead(S), Packet(2, 0, true, NO)], None);
        // After the host has set a signal, earlier decrements of the signal do not order a wait for it any more.
        check(
            &[Packet(1, 0, true, S), HostSet(S), HostRead(S), Packet(2, 0, true, NO)],
            Some((&second(4), first)),
        );
    }
}
