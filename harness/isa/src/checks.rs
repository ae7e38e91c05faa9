//! Kernel sanitizer: checks the accesses and results of each instruction that the waves of a launch execute.
//!
//! The checks find four kinds of errors: races in the LDS ([`races`]), races in memory ([`between`]), registers that
//! are used before their result has arrived ([`scoreboard`]), and use of uninitialised memory. The checks for
//! uninitialised memory follow the rule of LLVM's MemorySanitizer: reading and copying uninitialised memory is allowed,
//! because kernels read padding and unused lanes all the time. Results that are computed from uninitialised memory are
//! uninitialised too. It is an error if a kernel stores such a result, branches on it, uses it as an address, or
//! changes it with an atomic. [`flow`] describes how instructions propagate uninitialised data.
//!
//! The sanitizer reports an error only once for the same instruction or pair of instructions. The launch continues
//! after an error, as it does on hardware.
//!
//! In a launch without checks, the decoder does not wrap the instructions in [`CheckedInstruction`], so the sanitizer
//! does not slow that launch down.

pub(crate) mod access;
pub(crate) mod between;
mod counters;
pub(crate) mod flow;
pub(crate) mod polls;
pub(crate) mod races;
pub(crate) mod scope;
pub(crate) mod scoreboard;
pub(crate) mod shadow;
pub(crate) mod taint;

use std::{any::Any, cell::RefCell, ops::Range, sync::Arc};

use access::{Data, Kind, Piece};
use between::{Access, MemoryRaceDetector, WaveOrder};
use counters::{Counter, Effect};
use flow::{Flow, Register, Rule};
use polls::ReadUse;
use races::{AccessPosition, CurrentAccess, Races};
use scope::Scope;
use scoreboard::{EarlyUse, OldValues, Origin, Scoreboard};
use shadow::Shadow;
use taint::{Change, Registers};

use crate::{
    AddressSpace,
    exec::{Bound, Exec},
    machine::{Machine, OutOfBounds},
    ops::memory::{BEYOND_ANY_LDS, Location},
    text::{Site, Text, Unsupported},
    wave::{Step, Wave, active},
};

/// Type of the field [`Machine::watch`], which contains the [`Checks`] of the machine's workgroup; `None` if the launch
/// has no checks.
pub type CheckState = Option<Box<dyn Any>>;

/// An error of the kernel that the checks found at the instruction that is being executed.
#[derive(Debug)]
pub enum CheckError {
    /// An access outside of every allocation, to a page that the GPU can access.
    Outside {
        /// Address of the first accessed byte that is outside of every allocation.
        address: u64,
        /// True for a write or an atomic.
        write: bool,
    },
    /// An access past the end of the LDS that the workgroup requested.
    LdsOutOfRange {
        /// Offset of the access in the LDS, in bytes.
        offset: u64,
        /// True for a write or an atomic.
        write: bool,
        /// True if the accessed bytes are still in the allocated LDS. The allocated size is the requested size, rounded
        /// up to whole granules.
        given: bool,
    },
    /// Use of uninitialised memory.
    NeverWritten {
        /// Instruction that read the memory.
        read: taint::Origin,
        /// Forbidden use of the uninitialised data, for example a branch that depends on it.
        how: shadow::ForbiddenUse,
    },
    /// Two waves access the same bytes of the LDS without synchronisation.
    LdsRace {
        /// Offset in the LDS of the first byte that both waves access.
        offset: u64,
        /// Access that was executed first in this run.
        first: races::Access,
        /// Access that was executed second in this run.
        second: races::Access,
    },
    /// A race between the launch and other work: they access the same memory without synchronisation.
    Unordered(crate::Unordered),
    /// An instruction uses a register before the result of an earlier instruction has arrived there.
    Early(Box<EarlyUse>),
    /// After a barrier, a wave reads LDS bytes that another wave wrote before the barrier, and that write may not have
    /// arrived.
    LdsEarly {
        /// Offset in the LDS of the first byte that was read.
        offset: u64,
        /// Write that may arrive late.
        write: races::Access,
        /// Read that may be executed before the write arrives.
        read: races::Access,
    },
}

impl From<OutOfBounds> for CheckError {
    fn from(OutOfBounds { address, write }: OutOfBounds) -> CheckError {
        CheckError::Outside { address, write }
    }
}

/// Function that returns the instruction at an address, or both instructions of a dual-issue pair; `None` if there is
/// no instruction.
pub(crate) type Reader<'a> = Box<dyn FnMut(u64) -> Option<Arc<[Text]>> + 'a>;

/// Function that creates a [`Reader`] for the code in memory.
pub(crate) type Code = for<'a> fn(&Site, &'a dyn AddressSpace) -> Reader<'a>;

/// State of the sanitizer for one workgroup. It also keeps loaded values that the registers have not received yet.
pub struct Checks {
    watched: bool,
    /// True if a register receives a loaded value only when the wave waits for that value.
    late: bool,
    code: Code,
    /// Race detection in memory; `None` unless the launch is checked and has several waves.
    pub between: Option<Box<MemoryRaceDetector>>,
    found: Vec<CheckError>,
    races: Races,
    shadow: Shadow,
    /// For each wave, the registers with uninitialised contents.
    registers: Vec<Registers>,
    boards: Vec<Scoreboard>,
    /// True if the workgroup has executed a load from memory to the LDS.
    moves: bool,
    /// For each wave, the address of the instruction after its last wait for all of its LDS accesses.
    waited: Vec<u64>,
    /// For each wave, its happens-before state for the race detection in memory.
    workers: Vec<WaveOrder>,
    touches: Vec<LaneAccess>,
    /// Memory ranges that the current instruction accesses, each with the index of the [`Piece`] that accesses it.
    ranges: Vec<(usize, Range<u64>)>,
    changes: Vec<Change>,
    /// Old contents of the LDS bytes that the current instruction accesses.
    before: Vec<u8>,
}

#[derive(Clone, Copy)]
struct LaneAccess {
    piece: usize,
    lane: usize,
    at: Location,
}

struct CheckedInstruction {
    exec: Box<dyn Exec>,
    site: Site,
    origin: Origin,
    effect: Effect,
    scope: Option<Scope>,
    /// True for an atomic that replaces the value: the written value does not depend on the old one.
    swaps: bool,
    pieces: Vec<Piece>,
    address: Vec<Register>,
    flows: Vec<Flow>,
}

pub(crate) fn checked(exec: Bound, site: &Site, text: &str, parsed: &[Text]) -> Bound {
    let (mut pieces, mut flows, mut address) = (Vec::new(), Vec::new(), Vec::new());
    for text in parsed {
        // After an unknown kind of access, the contents of all registers count as initialised.
        let accesses = access::pieces(text).unwrap_or_else(|Unsupported| {
            flows.push(Flow { rule: Rule::Forget, targets: Vec::new(), sources: Vec::new() });
            Vec::new()
        });
        if !accesses.is_empty() {
            address.extend(flow::address(text));
        }
        pieces.extend(accesses);
        flows.extend(flow::flow(text));
    }
    let exec = exec?;
    let effect = Effect::from_instructions(parsed, &pieces);
    let scope = parsed.first().map(Scope::parse);
    let scope = scope.filter(|scope| scope.is_of_caches() || !pieces.is_empty());
    if pieces.is_empty() && flows.is_empty() && effect.is_nothing() && scope.is_none() {
        return Ok(exec);
    }
    let origin = Origin { pc: site.address, text: Arc::from(text) };
    let swaps = ["_cmpst", "_wrxchg", "_storexchg", "_cmpswap", "_swap"];
    let swaps = parsed.iter().any(|text| swaps.iter().any(|name| text.mnemonic.contains(name)));
    let site = *site;
    Ok(Box::new(CheckedInstruction {
        exec,
        site,
        origin,
        effect,
        scope,
        swaps,
        pieces,
        address,
        flows,
    }))
}

/// Returns how the code after the read at `pc` uses the value that was read.
fn looks(code: Code, space: &dyn AddressSpace, site: &Site, pc: u64) -> ReadUse {
    let code = RefCell::new(code(site, space));
    ReadUse::at(pc, &|address| (code.borrow_mut())(address))
}

/// Reads a byte of memory; `None` if the address is not mapped. This access is made by the checks, so it is not
/// reported as an error of the kernel.
fn byte(machine: &mut Machine<'_>, address: u64) -> Option<u8> {
    let known = machine.out_of_bounds.len();
    let there = machine.read::<1>(address).ok().map(|[byte]| byte);
    machine.out_of_bounds.truncate(known);
    there
}

impl Exec for CheckedInstruction {
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        let index = wave.index as usize;
        let has_work = |checks: &Checks| {
            self.scope.is_some()
                || self.effect.acts()
                || checks.registers.get(index).is_some_and(|r| !r.are_clean())
                || checks
                    .boards
                    .get(index)
                    .is_some_and(|board| board.intersects(&self.effect.touched))
        };
        if !Checks::from_state(&mut machine.watch).is_some_and(|checks| has_work(checks)) {
            return self.exec.run(wave, machine);
        }
        let mut watch = machine.watch.take();
        let result = match Checks::from_state(&mut watch) {
            Some(checks) => checks.run(self, wave, machine),
            None => self.exec.run(wave, machine),
        };
        machine.watch = watch;
        result
    }
}

impl Checks {
    /// Creates the state for a workgroup. `watched` is true if the kernel is checked for errors. `late` is true if a
    /// register receives a loaded value only when the wave waits for that value.
    pub(crate) fn new(watched: bool, late: bool, code: Code) -> Checks {
        Checks {
            watched,
            late,
            code,
            between: None,
            found: Vec::new(),
            races: Races::default(),
            shadow: Shadow::default(),
            registers: Vec::new(),
            boards: Vec::new(),
            moves: false,
            waited: Vec::new(),
            workers: Vec::new(),
            touches: Vec::new(),
            ranges: Vec::new(),
            changes: Vec::new(),
            before: Vec::new(),
        }
    }

    /// Returns the sanitizer's checks that `watch` contains; `None` if the launch runs without checks.
    pub fn from_state(watch: &mut CheckState) -> Option<&mut Checks> {
        watch.as_mut()?.downcast_mut()
    }

    /// Exchanges the checks of two workgroups, except [`Checks::between`], which belongs to the launch.
    pub fn swap(one: &mut CheckState, other: &mut CheckState) {
        if let (Some(one), Some(other)) = (Checks::from_state(one), Checks::from_state(other)) {
            std::mem::swap(&mut one.between, &mut other.between);
        }
        std::mem::swap(one, other);
    }

    /// Removes and returns the errors of the instruction that was executed last.
    pub fn found(machine: &mut Machine<'_>) -> Vec<CheckError> {
        let checks = Checks::from_state(&mut machine.watch);
        let mut found = checks.map(|checks| std::mem::take(&mut checks.found)).unwrap_or_default();
        found.extend(machine.out_of_bounds.drain(..).map(CheckError::from));
        found
    }

    /// Returns true if the last instruction had no errors.
    pub fn is_content(machine: &mut Machine<'_>) -> bool {
        machine.out_of_bounds.is_empty()
            && Checks::from_state(&mut machine.watch).is_none_or(|checks| checks.found.is_empty())
    }

    /// Prepares the checks for the workgroup with index `number`, which has `waves` waves.
    pub fn begin(&mut self, waves: usize, number: u64) {
        self.workers = match &self.between {
            Some(between) => between.workers(number),
            None => Vec::new(),
        };
        self.races.begin(waves);
        self.shadow.begin();
        self.registers.resize_with(waves, Registers::default);
        self.registers.iter_mut().for_each(Registers::clean);
        self.boards.clear();
        self.boards.resize_with(waves, Scoreboard::default);
        self.waited.clear();
        self.waited.resize(waves, 0);
        self.moves = false;
    }

    /// Records that all waves of the workgroup have reached a barrier.
    pub fn barrier(&mut self) {
        if let Some(between) = &mut self.between {
            between.meet(&mut self.workers, self.boards.iter().map(Scoreboard::outstanding));
        }
        self.races.barrier(self.boards.iter().map(Scoreboard::done));
    }

    /// Updates the happens-before state of memory if the last instruction acquired, through the LDS, what another wave
    /// released. This synchronisation orders accesses to memory too.
    fn acquire(&mut self, between: &mut MemoryRaceDetector) {
        let Some((wave, made)) = self.races.take_acquired() else { return };
        let outstanding = self.boards.iter().map(Scoreboard::outstanding);
        between.record_acquire(&mut self.workers, wave, made.zip(outstanding));
        self.races.update_completed(self.boards.iter().map(Scoreboard::done));
    }

    /// Ends the checks of the launch and returns the remaining suspected races in the LDS. The function needs the
    /// checks of all workgroups, because any of them may show that a suspected race is legal.
    pub(crate) fn end<'a>(all: impl Iterator<Item = &'a mut Checks>) -> Vec<CheckError> {
        Races::end(all.map(|checks| &mut checks.races).collect())
    }

    fn run(
        &mut self,
        checked: &CheckedInstruction,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
    ) -> Step {
        let index = wave.index as usize;
        self.changes.clear();
        let in_lds = self.touch(checked, wave);
        let running = wave.exec();
        let mut writes = 0;
        if self.watched {
            let early = self.boards[index].check(&checked.effect, wave);
            self.found.extend(early.into_iter().map(|early| CheckError::Early(Box::new(early))));
            self.before(checked, wave, machine);
            writes = self.between(checked, index, machine);
        }
        let before = self.late.then(|| OldValues::save(&checked.effect, wave));
        let result = checked.exec.run(wave, machine);
        self.found.extend(machine.out_of_bounds.drain(..).map(CheckError::from));
        result?;
        let synced = machine.synced.take();
        if checked.effect.acts() {
            let lanes = (running, in_lds);
            let producer = (&checked.origin, writes);
            self.boards[index].runs(&checked.effect, wave, lanes, producer, before);
        }
        if self.watched {
            let registers = &mut self.registers[index];
            self.shadow.writes(checked, &self.touches, registers, machine.space());
            self.changes.iter().for_each(|change| registers.apply(*change));
            self.races(checked, wave, machine);
            if let Some(mut between) = self.between.take() {
                self.acquire(&mut between);
                between.settle(&mut |address| byte(machine, address));
                let waits = |wait: &(Counter, usize)| *wait == (Counter::Loads, 0);
                let worker = &mut self.workers[index];
                if checked.effect.waits.iter().any(waits) {
                    MemoryRaceDetector::waited(worker);
                }
                if checked.effect.waits.contains(&(Counter::Local, 0)) {
                    between.passes(worker);
                }
                if let Some(synced) = synced {
                    let outstanding = self.boards[index].outstanding();
                    between.syncs(worker, &checked.origin, &synced, outstanding);
                }
                self.between = Some(between);
            }
        }
        let waits = checked.effect.waits.contains(&(Counter::Local, 0));
        let goes_on =
            self.waited[index] == checked.site.address && !checked.effect.waits.is_empty();
        if waits || goes_on {
            self.waited[index] = checked.site.address + checked.site.size;
        }
        Ok(())
    }

    /// Records the addresses that the instruction accesses. Returns a mask of the lanes that access the LDS.
    fn touch(&mut self, checked: &CheckedInstruction, wave: &Wave) -> u64 {
        self.touches.clear();
        for (piece, access) in checked.pieces.iter().enumerate() {
            let lanes = if access.uniform { 1 } else { wave.exec() };
            let places = active(lanes).filter_map(|lane| Some((lane, access.of(wave, lane)?)));
            self.touches.extend(places.map(|(lane, at)| LaneAccess { piece, lane, at }));
        }
        let in_lds = |touch: &&LaneAccess| matches!(touch.at, Location::Lds(_));
        self.touches.iter().filter(in_lds).fold(0, |lanes, touch| lanes | 1 << touch.lane)
    }

    fn before(&mut self, checked: &CheckedInstruction, wave: &Wave, machine: &mut Machine<'_>) {
        self.leave_the_lds(checked, machine);
        self.order(checked, machine);
        self.local_bytes(checked, machine);
        let instruction = (checked.origin.pc, &checked.origin.text);
        let space = machine.space();
        let registers = &self.registers[wave.index as usize];
        if !registers.are_clean() {
            for flow in &checked.flows {
                if flow.rule == Rule::Control {
                    self.shadow.control(registers, &flow.sources, wave.exec(), space);
                }
                registers.changes(flow, wave, &mut self.changes);
            }
            self.shadow.address(registers, &checked.address, wave.exec(), space);
        }
        self.shadow.reads(
            instruction,
            checked,
            (&self.touches, wave),
            registers,
            space,
            &mut self.changes,
        );
        self.found.append(&mut self.shadow.found);
    }

    /// Reports accesses past the end of the LDS that the workgroup requested. Such an access is an error already, so it
    /// is not checked for races.
    fn leave_the_lds(&mut self, checked: &CheckedInstruction, machine: &mut Machine<'_>) {
        let Machine { lds, lds_asked, .. } = machine;
        let Checks { touches, found, .. } = self;
        touches.retain(|LaneAccess { piece, at, .. }| {
            let Location::Lds(offset) = *at else { return true };
            let Piece { kind, bytes, .. } = checked.pieces[*piece];
            let end = offset.saturating_add(bytes);
            let is_inside = end <= *lds_asked;
            // Loads this far outside are intentional: compilers use them to read zeros.
            let is_meant = offset >= BEYOND_ANY_LDS && kind == Kind::Load;
            if !is_inside && !is_meant {
                let given = end <= lds.len() as u64;
                found.push(CheckError::LdsOutOfRange { offset, write: kind != Kind::Load, given });
            }
            is_inside
        });
    }

    /// Passes each memory range that the instruction accesses to [`AddressSpace::touch`], and records the unordered
    /// accesses that this function returns. Adjacent bytes of several lanes form one range.
    fn order(&mut self, checked: &CheckedInstruction, machine: &mut Machine<'_>) {
        let space = machine.space();
        self.ranges.clear();
        let mut touch = |piece: usize, range: Range<u64>| {
            let touched = space.touch(checked.pieces[piece].kind, range.clone());
            self.found.extend(touched.err().map(CheckError::Unordered));
            self.ranges.push((piece, range));
        };
        for (number, piece) in checked.pieces.iter().enumerate() {
            let mut range = 0..0;
            for LaneAccess { at, .. } in self.touches.iter().filter(|touch| touch.piece == number) {
                let Location::Global(address) = *at else { continue };
                let end = address.saturating_add(piece.bytes);
                if address == range.end {
                    range.end = end;
                    continue;
                }
                if range.start < range.end {
                    touch(number, range);
                }
                range = address..end;
            }
            if range.start < range.end {
                touch(number, range);
            }
        }
    }

    /// Records the accesses of the instruction for the race detection in memory. Returns the time of the write, or 0 if
    /// the instruction does not write.
    fn between(
        &mut self,
        checked: &CheckedInstruction,
        index: usize,
        machine: &mut Machine<'_>,
    ) -> u32 {
        let Some(mut between) = self.between.take() else { return 0 };
        let (mut writes, worker) = (0, &mut self.workers[index]);
        if let (Some(scope), Some((first, _))) = (&checked.scope, self.ranges.first()) {
            let piece = &checked.pieces[*first];
            let access = Access {
                origin: &checked.origin,
                kind: piece.kind,
                scope,
                returns: piece.returned != Data::Nothing,
                outstanding: self.boards[index].outstanding(),
            };
            let ranges = self.ranges.iter().map(|(_, range)| range.clone());
            let space = machine.space();
            let code = self.code;
            let waits = |pc| looks(code, space, &checked.site, pc).waits;
            let mut read = |address| byte(machine, address);
            let now = between.touch(worker, &access, ranges, &mut read, &waits);
            writes = if piece.kind == Kind::Load { 0 } else { now };
            let heard = between.take_acquired();
            heard.iter().for_each(|other| self.races.record_acquire(index, *other as usize));
            if !heard.is_empty() {
                self.races.update_completed(self.boards.iter().map(Scoreboard::done));
            }
        }
        if let Some(scope) = checked.scope.as_ref().filter(|scope| scope.is_of_caches()) {
            between.caches(worker, scope);
        }
        self.between = Some(between);
        writes
    }

    /// Saves the old contents of the LDS bytes that the instruction accesses, ordered by [`Piece`] and lane.
    fn local_bytes(&mut self, checked: &CheckedInstruction, machine: &mut Machine<'_>) {
        self.before.clear();
        self.moves |= checked.effect.raises.iter().any(|raise| raise.moves);
        // In a workgroup with one wave, only the wave's own loads from memory to the LDS can race.
        if self.registers.len() < 2 && !self.moves {
            return;
        }
        for LaneAccess { piece, at, .. } in &self.touches {
            if let Location::Lds(offset) = at
                && let Some(there) = machine.lds(*offset, checked.pieces[*piece].bytes as usize)
            {
                self.before.extend_from_slice(there);
            }
        }
    }

    fn races(&mut self, checked: &CheckedInstruction, wave: &Wave, machine: &mut Machine<'_>) {
        let in_memory = self.between.as_ref().map_or(0, |between| between.now());
        let mut before = &self.before[..];
        if before.is_empty() {
            return;
        }
        let space = machine.space();
        let code = self.code;
        let mut looks = |pc| looks(code, space, &checked.site, pc);
        let Machine { lds, .. } = machine;
        let Origin { pc, text } = &checked.origin;
        self.races.runs(*pc, text, in_memory);
        // The completion of a FLAT access on GFX9 cannot be tracked, because its results arrive in any order.
        let board = &self.boards[wave.index as usize];
        let made = board.made();
        let number = match &checked.effect.raises[..] {
            raises if raises.iter().any(|raise| raise.moves) => AccessPosition::moved(made),
            raises if raises.iter().any(|raise| raise.counter == Counter::Local) => {
                AccessPosition::local(made)
            }
            _ => AccessPosition::default(),
        };
        let come = board.done();
        for LaneAccess { piece, at, .. } in &self.touches {
            let Location::Lds(offset) = at else { continue };
            let piece = &checked.pieces[*piece];
            let start = *offset as usize;
            let Some(now) = lds.get(start..start + piece.bytes as usize) else { continue };
            let Some((was, rest)) = before.split_at_checked(now.len()) else { break };
            before = rest;
            let returns = piece.returned != Data::Nothing;
            let (kind, wave) = (piece.kind, wave.index);
            let (swaps, may_release) = (checked.swaps, self.waited[wave as usize] == *pc);
            let access =
                CurrentAccess { kind, wave, pc: *pc, number, come, returns, swaps, may_release };
            self.races.touch(&access, *offset, (was, now), &mut looks, &mut self.found);
        }
    }
}
