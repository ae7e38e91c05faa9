//! Which results a wave still waits for, and what it does to their registers before they have come.
//!
//! A result has come when a wait says so and not before, however fast memory may be. Of one counter the accesses that come in
//! turn are done up to the last ones that a wait leaves open; those that come in any order are done at zero alone.

use std::{collections::VecDeque, sync::Arc};

use super::{
    counters::{COUNTERS, Counter, Domain, Effect, Order, Raise, Set, WORDS, register_name},
    races::Come,
};
use crate::{
    registers::ROWS,
    registers::{HALF, Row},
    wave::{Wave, active},
};

/// A register that is used while its result is on the way.
#[derive(Clone, Debug)]
pub struct Early {
    /// As the assembler calls it.
    pub register: String,
    /// Whether its old content is read; else it is written, and the result will write over that.
    pub read: bool,
    pub(crate) wave: u32,
    /// The first of its lanes; none for scalar registers.
    pub(crate) lane: Option<usize>,
    /// The instruction that asked for the result.
    pub producer: Origin,
    /// The counter that tells, and the highest count at which it is there.
    pub counter: &'static str,
    pub needs: usize,
    /// The last wait for that counter since then, with the count that it left open.
    pub waited: Option<(Origin, usize)>,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub pc: u64,
    pub(crate) text: Arc<str>,
}

/// A result on its way.
struct Pending {
    order: Order,
    name: &'static str,
    /// It comes to the LDS.
    moves: bool,
    result: Arc<Set>,
    lanes: u64,
    producer: Origin,
    /// When it writes to memory that other workgroups share, if it does and that is followed; else 0.
    writes: u32,
    /// Of the instructions that waited for this counter, how many had run.
    waits: u64,
    /// A use that came too early was told: what else uses the registers follows from it.
    told: bool,
    /// What the registers will hold, where results are kept back.
    late: Option<Late>,
}

/// The values of a result that is kept back.
#[derive(Default)]
struct Late {
    rows: Vec<(usize, Row)>,
    scalars: Vec<(usize, u32)>,
}

/// What one wave waits for.
pub(crate) struct Scoreboard {
    counters: [VecDeque<Pending>; COUNTERS],
    /// All register halves of results on their way.
    pending: [u64; WORDS],
    /// The last wait for each counter, and how many there were.
    waited: [Option<(Origin, usize)>; COUNTERS],
    waits: [u64; COUNTERS],
    /// Accesses to the LDS so far, and loads from memory to the LDS.
    local: Come,
}

impl Default for Scoreboard {
    fn default() -> Scoreboard {
        Scoreboard {
            counters: [const { VecDeque::new() }; COUNTERS],
            pending: [0; WORDS],
            waited: [const { None }; COUNTERS],
            waits: [0; COUNTERS],
            local: Come::default(),
        }
    }
}

impl Scoreboard {
    /// Whether an instruction that touches these registers may find one without its result.
    #[inline(always)]
    pub(crate) fn meets(&self, touched: &Set) -> bool {
        touched.meets(&self.pending)
    }

    /// How many accesses to the LDS there were.
    pub(crate) fn made(&self) -> Come {
        self.local
    }

    /// How many of them are done for sure.
    pub(crate) fn done(&self) -> Come {
        let open = |counter: Counter, is_one: fn(&&Pending) -> bool| {
            self.counters[counter as usize].iter().filter(is_one).count() as u32
        };
        let local = open(Counter::Local, |pending| pending.order == Order::Turns);
        let moved = open(Counter::Loads, |pending| pending.moves);
        Come { local: self.local.local - local, moved: self.local.moved - moved }
    }

    /// When the first of the writes to memory was made that may not have come.
    pub(crate) fn outstanding(&self) -> Option<u32> {
        let first = |open: &VecDeque<Pending>| open.iter().map(|p| p.writes).find(|then| *then > 0);
        self.counters.iter().filter_map(first).min()
    }

    /// What an instruction that is about to run touches too early. Each result is told once.
    pub(crate) fn check(&mut self, effect: &Effect, wave: &Wave) -> Vec<Early> {
        let mut found = Vec::new();
        if !self.meets(&effect.touched) {
            return found;
        }
        let runs = if effect.all_lanes { u64::MAX } else { wave.exec() };
        for (index, queue) in self.counters.iter_mut().enumerate() {
            for at in 0..queue.len() {
                let pending = &queue[at];
                if pending.told {
                    continue;
                }
                // Results of the same counter that come in turn may write the same register, the later one last.
                let in_turn = |raise: &Raise| {
                    raise.counter as usize == index
                        && (raise.order, pending.order) == (Order::Turns, Order::Turns)
                };
                let in_turn = effect.raises.iter().any(in_turn);
                let early = pending.result.halves().find(|half| {
                    let lanes = if is_vector(*half) { pending.lanes & runs } else { u64::MAX };
                    let touched = effect.touched.contains(*half);
                    touched && lanes != 0 && (!in_turn || effect.read.contains(*half))
                });
                let Some(half) = early else { continue };
                let later = queue.iter().skip(at + 1).filter(|p| p.order == Order::Turns).count();
                let lanes = pending.lanes & runs;
                found.push(Early {
                    register: register_name(half),
                    read: effect.read.contains(half),
                    wave: wave.index,
                    lane: is_vector(half).then_some(lanes.trailing_zeros() as usize),
                    producer: pending.producer.clone(),
                    counter: pending.name,
                    needs: if pending.order == Order::Turns { later } else { 0 },
                    waited: self.waited[index]
                        .clone()
                        .filter(|_| self.waits[index] > pending.waits),
                });
                queue[at].told = true;
            }
        }
        self.note();
        found
    }

    /// An instruction has run: what it raises, and what it waited for.
    pub(crate) fn runs(
        &mut self,
        effect: &Effect,
        wave: &mut Wave,
        (running, in_lds): (u64, u64),
        (producer, writes): (&Origin, u32),
        before: Option<Before>,
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
            let is_local = raise.counter == Counter::Local && raise.order == Order::Turns;
            self.local.local += u32::from(is_local);
            self.local.moved += u32::from(raise.moves);
            // Of a FLAT access, this part may go nowhere.
            let goes = lanes != 0 || raise.domain == Domain::All;
            let writes = if goes && raise.domain != Domain::Lds { writes } else { 0 };
            let late = before.as_ref().map(|before| before.late(&raise.result, wave));
            self.counters[index].push_back(Pending {
                order: raise.order,
                name: raise.name,
                moves: raise.moves,
                result: if goes { raise.result.clone() } else { Arc::default() },
                lanes,
                producer: producer.clone(),
                writes,
                waits: self.waits[index],
                told: false,
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

    /// So many of a counter are left open at most.
    fn come(&mut self, index: usize, left: usize, wave: &mut Wave) {
        let queue = &mut self.counters[index];
        if queue.is_empty() {
            return;
        }
        let in_turn = queue.iter().filter(|pending| pending.order == Order::Turns).count();
        let mut done = in_turn.saturating_sub(left);
        queue.retain_mut(|pending| {
            let comes = left == 0 || pending.order == Order::Turns && done > 0;
            done -= usize::from(comes && pending.order == Order::Turns);
            if comes && let Some(late) = pending.late.take() {
                late.land(&pending.result, pending.lanes, wave);
            }
            !comes
        });
        self.note();
    }

    /// Which registers wait.
    fn note(&mut self) {
        self.pending = [0; WORDS];
        for pending in self.counters.iter().flatten().filter(|pending| !pending.told) {
            pending.result.add_to(&mut self.pending);
        }
    }
}

fn is_vector(half: usize) -> bool {
    half / 2 < ROWS
}

/// The registers that an instruction is going to write, before it runs.
pub(crate) struct Before(Late);

impl Before {
    pub(crate) fn of(effect: &Effect, wave: &Wave) -> Before {
        let mut before = Late::default();
        for raise in &effect.raises {
            before.take(&raise.result, wave);
        }
        Before(before)
    }

    fn late(&self, result: &Set, wave: &Wave) -> Late {
        let mut late = Late::default();
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

impl Late {
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

    fn land(self, result: &Set, lanes: u64, wave: &mut Wave) {
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
