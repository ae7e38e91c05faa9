//! Tracks the results that a wave has requested and that have not arrived, and detects accesses to their registers.
//!
//! A result is treated as arrived only after the wave has waited for it, even if the interpreter already knows the
//! value. If results arrive in order, a wait for the count `n` completes all but the last `n` results. If they arrive
//! in any order, only a wait for zero completes them.

use std::{collections::VecDeque, sync::Arc};

use super::{
    counters::{
        COUNTERS, Counter, CounterIncrement, Domain, Effect, Order, Set, WORDS, register_name,
    },
    races::CompletedCounts,
};
use crate::{
    registers::ROWS,
    registers::{HALF, Row},
    wave::{Wave, active},
};

/// An access to a register while a result for it is outstanding.
#[derive(Clone, Debug)]
pub struct EarlyUse {
    /// Name of the register, in assembler syntax.
    pub register: String,
    /// True if the instruction reads the register and therefore gets the old value. False if it writes the register, so
    /// that the late result will overwrite the new value.
    pub read: bool,
    pub(crate) wave: u32,
    /// First affected lane; `None` for scalar registers.
    pub(crate) lane: Option<usize>,
    /// Instruction that requested the result.
    pub producer: Origin,
    /// Name of the counter that counts the result (`counter`), and the highest value of the counter at which the result
    /// is certain to have arrived (`needs`).
    pub counter: &'static str,
    pub needs: usize,
    /// Last wait for this counter since the result was requested, and the value for which it waited; `None` if there
    /// was no such wait.
    pub waited: Option<(Origin, usize)>,
}

/// An instruction and its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub pc: u64,
    pub(crate) text: Arc<str>,
}

struct PendingResult {
    order: Order,
    name: &'static str,
    /// True if the result is written to the LDS.
    moves: bool,
    result: Arc<Set>,
    lanes: u64,
    producer: Origin,
    /// Time at which the instruction wrote to memory, as the race detection in memory counts it; 0 if the instruction
    /// does not write.
    writes: u32,
    /// Number of waits for this counter that were executed before the result was requested.
    waits: u64,
    /// True if an early use of the result has been reported. Later uses are consequences of the same bug and are not
    /// reported.
    reported: bool,
    late: Option<LateValues>,
}

/// Values that late results write to registers when they arrive.
#[derive(Default)]
struct LateValues {
    rows: Vec<(usize, Row)>,
    scalars: Vec<(usize, u32)>,
}

pub(crate) struct Scoreboard {
    counters: [VecDeque<PendingResult>; COUNTERS],
    /// Register halves that receive outstanding results, as a bit mask.
    pending: [u64; WORDS],
    /// For each counter, the last wait for it, with the value for which it waited (`waited`), and the number of waits
    /// (`waits`).
    waited: [Option<(Origin, usize)>; COUNTERS],
    waits: [u64; COUNTERS],
    /// Numbers of the LDS accesses and of the loads from memory to the LDS that the wave has made.
    local: CompletedCounts,
}

impl Default for Scoreboard {
    fn default() -> Scoreboard {
        Scoreboard {
            counters: [const { VecDeque::new() }; COUNTERS],
            pending: [0; WORDS],
            waited: [const { None }; COUNTERS],
            waits: [0; COUNTERS],
            local: CompletedCounts::default(),
        }
    }
}

impl Scoreboard {
    /// Returns true if a result for one of these registers is outstanding in some lane.
    #[inline(always)]
    pub(crate) fn intersects(&self, touched: &Set) -> bool {
        touched.intersects(&self.pending)
    }

    /// Returns how many accesses to the LDS, and how many loads from memory to the LDS, the wave has made.
    pub(crate) fn made(&self) -> CompletedCounts {
        self.local
    }

    /// Returns how many accesses to the LDS, and how many loads from memory to the LDS, have certainly completed.
    pub(crate) fn done(&self) -> CompletedCounts {
        let open = |counter: Counter, is_one: fn(&&PendingResult) -> bool| {
            self.counters[counter as usize].iter().filter(is_one).count() as u32
        };
        let local = open(Counter::Local, |pending| pending.order == Order::InOrder);
        let moved = open(Counter::Loads, |pending| pending.moves);
        CompletedCounts { local: self.local.local - local, moved: self.local.moved - moved }
    }

    /// Returns the time of the wave's first write to memory that may not have completed; `None` if all have.
    pub(crate) fn outstanding(&self) -> Option<u32> {
        let first =
            |open: &VecDeque<PendingResult>| open.iter().map(|p| p.writes).find(|then| *then > 0);
        self.counters.iter().filter_map(first).min()
    }

    /// Returns the errors of an instruction that is about to run: its accesses to registers for which results are
    /// outstanding. Each result is reported at most once.
    pub(crate) fn check(&mut self, effect: &Effect, wave: &Wave) -> Vec<EarlyUse> {
        let mut found = Vec::new();
        if !self.intersects(&effect.touched) {
            return found;
        }
        let runs = if effect.all_lanes { u64::MAX } else { wave.exec() };
        for (index, queue) in self.counters.iter_mut().enumerate() {
            for at in 0..queue.len() {
                let pending = &queue[at];
                if pending.reported {
                    continue;
                }
                // Results that increment the same counter and arrive in order may write the same register.
                let in_turn = |raise: &CounterIncrement| {
                    raise.counter as usize == index
                        && (raise.order, pending.order) == (Order::InOrder, Order::InOrder)
                };
                let in_turn = effect.raises.iter().any(in_turn);
                let early = pending.result.halves().find(|half| {
                    let lanes = if is_vector(*half) { pending.lanes & runs } else { u64::MAX };
                    let touched = effect.touched.contains(*half);
                    touched && lanes != 0 && (!in_turn || effect.read.contains(*half))
                });
                let Some(half) = early else { continue };
                let later = queue.iter().skip(at + 1).filter(|p| p.order == Order::InOrder).count();
                let lanes = pending.lanes & runs;
                found.push(EarlyUse {
                    register: register_name(half),
                    read: effect.read.contains(half),
                    wave: wave.index,
                    lane: is_vector(half).then_some(lanes.trailing_zeros() as usize),
                    producer: pending.producer.clone(),
                    counter: pending.name,
                    needs: if pending.order == Order::InOrder { later } else { 0 },
                    waited: self.waited[index]
                        .clone()
                        .filter(|_| self.waits[index] > pending.waits),
                });
                queue[at].reported = true;
            }
        }
        self.note();
        found
    }

    /// Records the effect of the instruction `producer`, which has run: the counters that it increments, and those for
    /// which it waits. `running` contains the active lanes, and `in_lds` the lanes that accessed the LDS. `writes` is
    /// the time of the instruction's write to memory, or 0. If `before` is given, results arrive late: the registers
    /// get the old values in `before` back until the wave waits.
    pub(crate) fn runs(
        &mut self,
        effect: &Effect,
        wave: &mut Wave,
        (running, in_lds): (u64, u64),
        (producer, writes): (&Origin, u32),
        before: Option<OldValues>,
    ) {
        for (counter, left) in &effect.waits {
            let index = *counter as usize;
            self.waits[index] += 1;
            self.waited[index] = Some((producer.clone(), *left));
            self.come(index, *left, wave);
        }
        for raise in &effect.raises {
            let index = raise.counter as usize;
            let lanes = match raise.domain {
                Domain::All => running,
                Domain::Memory => running & !in_lds,
                Domain::Lds => in_lds,
            };
            let is_local = raise.counter == Counter::Local && raise.order == Order::InOrder;
            self.local.local += u32::from(is_local);
            self.local.moved += u32::from(raise.moves);
            // A FLAT instruction may access only memory or only the LDS. Its result of the other kind then has no lanes
            // and no registers.
            let goes = lanes != 0 || raise.domain == Domain::All;
            let writes = if goes && raise.domain != Domain::Lds { writes } else { 0 };
            let late = before.as_ref().map(|before| before.late(&raise.result, wave));
            self.counters[index].push_back(PendingResult {
                order: raise.order,
                name: raise.name,
                moves: raise.moves,
                result: if goes { raise.result.clone() } else { Arc::default() },
                lanes,
                producer: producer.clone(),
                writes,
                waits: self.waits[index],
                reported: false,
                late,
            });
            if goes {
                raise.result.add_to(&mut self.pending);
            }
            if self.counters[index].len() > raise.capacity {
                self.come(index, raise.capacity, wave);
            }
        }
        if let Some(before) = before {
            before.restore(wave);
        }
    }

    fn come(&mut self, index: usize, left: usize, wave: &mut Wave) {
        let queue = &mut self.counters[index];
        if queue.is_empty() {
            return;
        }
        let in_turn = queue.iter().filter(|pending| pending.order == Order::InOrder).count();
        let mut done = in_turn.saturating_sub(left);
        queue.retain_mut(|pending| {
            let comes = left == 0 || pending.order == Order::InOrder && done > 0;
            done -= usize::from(comes && pending.order == Order::InOrder);
            if comes && let Some(late) = pending.late.take() {
                late.apply(&pending.result, pending.lanes, wave);
            }
            !comes
        });
        self.note();
    }

    /// Recomputes the mask of the register halves for which results are outstanding.
    fn note(&mut self) {
        self.pending = [0; WORDS];
        for pending in self.counters.iter().flatten().filter(|pending| !pending.reported) {
            pending.result.add_to(&mut self.pending);
        }
    }
}

fn is_vector(half: usize) -> bool {
    half / 2 < ROWS
}

/// Old values of the registers that an instruction is going to write.
pub(crate) struct OldValues(LateValues);

impl OldValues {
    pub(crate) fn save(effect: &Effect, wave: &Wave) -> OldValues {
        let mut before = LateValues::default();
        for raise in &effect.raises {
            before.take(&raise.result, wave);
        }
        OldValues(before)
    }

    fn late(&self, result: &Set, wave: &Wave) -> LateValues {
        let mut late = LateValues::default();
        late.take(result, wave);
        late
    }

    fn restore(self, wave: &mut Wave) {
        for (row, values) in self.0.rows {
            wave.vector[row] = values;
        }
        for (scalar, value) in self.0.scalars {
            wave.scalar[scalar] = value;
        }
    }
}

impl LateValues {
    fn take(&mut self, result: &Set, wave: &Wave) {
        for half in result.halves() {
            let register = half / 2;
            if is_vector(half) {
                if self.rows.iter().all(|(known, _)| *known != register) {
                    self.rows.push((register, wave.vector[register]));
                }
            } else if self.scalars.iter().all(|(known, _)| *known != register - ROWS) {
                self.scalars.push((register - ROWS, wave.scalar[register - ROWS]));
            }
        }
    }

    fn apply(self, result: &Set, lanes: u64, wave: &mut Wave) {
        for (row, values) in self.rows {
            let mask = [0, 1].iter().fold(0, |mask, half| {
                if result.contains(2 * row + half) { mask | 0xffff << (16 * half) } else { mask }
            });
            for lane in active(lanes) {
                let value = values[lane / HALF][lane % HALF];
                let old = wave.lane(row, lane);
                wave.set_lane(row, lane, (value & mask) | (old & !mask));
            }
        }
        for (scalar, value) in self.scalars {
            if result.contains(2 * (scalar + ROWS)) {
                wave.scalar[scalar] = value;
            }
        }
    }
}
