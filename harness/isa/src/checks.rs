//! The sanitizer of kernels: what the waves of a launch do is looked at instruction by instruction.
//!
//! Four mistakes are found: races in the LDS ([`races`]), races in memory ([`between`]), registers that are used
//! before their result has come ([`scoreboard`]), and work with memory that nobody ever wrote. The latter follows the
//! rule of LLVM's MemorySanitizer: to read and to copy such memory is no mistake, since padding and unused lanes are read all
//! the time. It is one when a kernel stores what it computed from it, branches on it, uses it as an address, or changes it by
//! an atomic. [`flow`] says how instructions pass it on.
//!
//! A mistake is told, once for the instructions that it is of, and the launch goes on as hardware would.
//!
//! A launch that is not watched runs other code: its instructions are decoded without any of this.

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
use between::{Access, Between, Worker};
use counters::{Counter, Effect};
use flow::{Flow, Register, Rule};
use polls::Looks;
use races::{By, Number, Races};
use scope::Scope;
use scoreboard::{Before, Early, Origin, Scoreboard};
use shadow::Shadow;
use taint::{Change, Registers};

use crate::{
    AddressSpace,
    exec::{Bound, Exec},
    machine::{Beyond, Machine},
    ops::memory::{BEYOND_ANY_LDS, Location},
    text::{Site, Text, Unsupported},
    wave::{Step, Wave, active},
};

/// Where a machine keeps [`Checks`].
pub type Watch = Option<Box<dyn Any>>;

/// A mistake of the instruction that is being executed.
#[derive(Debug)]
pub enum Found {
    /// An access outside of every allocation, to a page that a GPU reaches.
    Outside {
        /// The first byte that is outside.
        address: u64,
        /// Whether it is a write or an atomic.
        write: bool,
    },
    /// An access past the LDS that the workgroup asked for.
    LdsOutOfRange {
        /// Where it begins in the LDS.
        offset: u64,
        /// Whether it is a write or an atomic.
        write: bool,
        /// Whether the workgroup was given these bytes all the same.
        given: bool,
    },
    /// Work with memory that nobody wrote.
    NeverWritten {
        /// The instruction that read it.
        read: taint::Origin,
        /// What is done with it.
        how: shadow::Use,
    },
    /// Two waves touch the same bytes of the LDS with nothing that orders them.
    LdsRace {
        /// The first of the bytes.
        offset: u64,
        /// The access that came first this time.
        first: races::Access,
        /// The one that came second.
        second: races::Access,
    },
    /// The launch and other work touch the same memory with nothing that orders them.
    Unordered(crate::Unordered),
    /// A register is used before its result has come.
    Early(Box<Early>),
    /// The LDS is read where a write of another wave may not have come, although there was a barrier.
    LdsEarly {
        /// The first byte.
        offset: u64,
        /// What may come late.
        write: races::Access,
        /// What may come before it.
        read: races::Access,
    },
}

impl From<Beyond> for Found {
    fn from(Beyond { address, write }: Beyond) -> Found {
        Found::Outside { address, write }
    }
}

/// Reads code: the instruction at an address, or the two that are issued at once; nothing where there is none.
pub(crate) type Reader<'a> = Box<dyn FnMut(u64) -> Option<Arc<[Text]>> + 'a>;

/// Makes a reader of the code that lies in memory.
pub(crate) type Code = for<'a> fn(&Site, &'a dyn AddressSpace) -> Reader<'a>;

/// What is known of a workgroup of a launch that is watched, or whose results come late.
pub struct Checks {
    /// Mistakes are looked for.
    watched: bool,
    /// Results are kept back until a wait for them.
    late: bool,
    code: Code,
    /// What the workgroups do to each other, on a launch of several that is watched.
    pub between: Option<Box<Between>>,
    /// What the instruction that is being executed does wrong.
    found: Vec<Found>,
    races: Races,
    shadow: Shadow,
    /// By wave.
    registers: Vec<Registers>,
    boards: Vec<Scoreboard>,
    /// The workgroup has loaded from memory to the LDS.
    moves: bool,
    /// By wave, the instruction behind those by which it waited for all of its accesses to the LDS.
    waited: Vec<u64>,
    /// What each wave knows of other workgroups, on a launch of several.
    workers: Vec<Worker>,
    /// The accesses of the instruction that is being executed.
    touches: Vec<Touch>,
    /// The memory that it touches, by its pieces.
    ranges: Vec<(usize, Range<u64>)>,
    changes: Vec<Change>,
    /// What the LDS held there before it.
    before: Vec<u8>,
}

/// One access of one lane.
#[derive(Clone, Copy)]
struct Touch {
    /// Which of the instruction's pieces.
    piece: usize,
    lane: usize,
    at: Location,
}

/// An instruction of a launch that is watched.
struct Checked {
    exec: Box<dyn Exec>,
    site: Site,
    origin: Origin,
    effect: Effect,
    scope: Option<Scope>,
    /// It is an atomic that writes what does not hang on what was there.
    swaps: bool,
    pieces: Vec<Piece>,
    address: Vec<Register>,
    flows: Vec<Flow>,
}

/// The same instruction, looked at while it runs.
pub(crate) fn checked(exec: Bound, site: &Site, text: &str, parsed: &[Text]) -> Bound {
    let (mut pieces, mut flows, mut address) = (Vec::new(), Vec::new(), Vec::new());
    for text in parsed {
        // After an access that cannot be told apart, nothing is known of the registers.
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
    let effect = Effect::of(parsed, &pieces);
    let scope = parsed.first().map(Scope::of);
    let scope = scope.filter(|scope| scope.is_of_caches() || !pieces.is_empty());
    if pieces.is_empty() && flows.is_empty() && effect.is_nothing() && scope.is_none() {
        return Ok(exec);
    }
    let origin = Origin { pc: site.address, text: Arc::from(text) };
    let swaps = ["_cmpst", "_wrxchg", "_storexchg", "_cmpswap", "_swap"];
    let swaps = parsed.iter().any(|text| swaps.iter().any(|name| text.mnemonic.contains(name)));
    let site = *site;
    Ok(Box::new(Checked { exec, site, origin, effect, scope, swaps, pieces, address, flows }))
}

/// What the code at an address does with what it reads there.
fn looks(code: Code, space: &dyn AddressSpace, site: &Site, pc: u64) -> Looks {
    let code = RefCell::new(code(site, space));
    Looks::at(pc, &|address| (code.borrow_mut())(address))
}

/// What is in memory; nothing where there is none. Whoever looks is not the kernel, and makes no mistake.
fn byte(machine: &mut Machine<'_>, address: u64) -> Option<u8> {
    let known = machine.beyond.len();
    let there = machine.read::<1>(address).ok().map(|[byte]| byte);
    machine.beyond.truncate(known);
    there
}

impl Exec for Checked {
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        let index = wave.index as usize;
        let has_work = |checks: &Checks| {
            self.scope.is_some()
                || self.effect.acts()
                || checks.registers.get(index).is_some_and(|r| !r.are_clean())
                || checks.boards.get(index).is_some_and(|board| board.meets(&self.effect.touched))
        };
        if !Checks::of(&mut machine.watch).is_some_and(|checks| has_work(checks)) {
            return self.exec.run(wave, machine);
        }
        let mut watch = machine.watch.take();
        let result = match Checks::of(&mut watch) {
            Some(checks) => checks.run(self, wave, machine),
            None => self.exec.run(wave, machine),
        };
        machine.watch = watch;
        result
    }
}

impl Checks {
    /// Of a launch that is watched, or whose results come late, or both.
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

    /// Those of a machine.
    pub fn of(watch: &mut Watch) -> Option<&mut Checks> {
        watch.as_mut()?.downcast_mut()
    }

    /// Puts those of another workgroup in the place of one's. What the workgroups do to each other stays where it is.
    pub fn swap(one: &mut Watch, other: &mut Watch) {
        if let (Some(one), Some(other)) = (Checks::of(one), Checks::of(other)) {
            std::mem::swap(&mut one.between, &mut other.between);
        }
        std::mem::swap(one, other);
    }

    /// What the instruction that was executed last does wrong, in the order in which it showed.
    pub fn found(machine: &mut Machine<'_>) -> Vec<Found> {
        let checks = Checks::of(&mut machine.watch);
        let mut found = checks.map(|checks| std::mem::take(&mut checks.found)).unwrap_or_default();
        found.extend(machine.beyond.drain(..).map(Found::from));
        found
    }

    /// Whether that is nothing.
    pub fn is_content(machine: &mut Machine<'_>) -> bool {
        machine.beyond.is_empty()
            && Checks::of(&mut machine.watch).is_none_or(|checks| checks.found.is_empty())
    }

    /// The workgroup of that number begins, with so many waves.
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

    /// All waves of the workgroup have come to a barrier.
    pub fn barrier(&mut self) {
        if let Some(between) = &mut self.between {
            between.meet(&mut self.workers, self.boards.iter().map(Scoreboard::outstanding));
        }
        self.races.barrier(self.boards.iter().map(Scoreboard::done));
    }

    /// What a wave has heard of others in the LDS it knows of memory, too, by what came of it so far.
    fn hears(&mut self, between: &mut Between) {
        let Some((wave, made)) = self.races.take_heard() else { return };
        let outstanding = self.boards.iter().map(Scoreboard::outstanding);
        between.learns(&mut self.workers, wave, made.zip(outstanding));
        self.races.comes(self.boards.iter().map(Scoreboard::done));
    }

    /// What waves did to each other that is told when the launch has ended; all of its checks together know what is none.
    pub(crate) fn end<'a>(all: impl Iterator<Item = &'a mut Checks>) -> Vec<Found> {
        Races::end(all.map(|checks| &mut checks.races).collect())
    }

    fn run(&mut self, checked: &Checked, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        let index = wave.index as usize;
        self.changes.clear();
        let in_lds = self.touch(checked, wave);
        let running = wave.exec();
        let mut writes = 0;
        if self.watched {
            let early = self.boards[index].check(&checked.effect, wave);
            self.found.extend(early.into_iter().map(|early| Found::Early(Box::new(early))));
            self.before(checked, wave, machine);
            writes = self.between(checked, index, machine);
        }
        let before = self.late.then(|| Before::of(&checked.effect, wave));
        let result = checked.exec.run(wave, machine);
        self.found.extend(machine.beyond.drain(..).map(Found::from));
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
                self.hears(&mut between);
                between.settle(&mut |address| byte(machine, address));
                let waits = |wait: &(Counter, usize)| *wait == (Counter::Loads, 0);
                let worker = &mut self.workers[index];
                if checked.effect.waits.iter().any(waits) {
                    Between::waited(worker);
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

    /// Notes where the instruction goes, and says which lanes go to the LDS.
    fn touch(&mut self, checked: &Checked, wave: &Wave) -> u64 {
        self.touches.clear();
        for (piece, access) in checked.pieces.iter().enumerate() {
            let lanes = if access.uniform { 1 } else { wave.exec() };
            let places = active(lanes).filter_map(|lane| Some((lane, access.of(wave, lane)?)));
            self.touches.extend(places.map(|(lane, at)| Touch { piece, lane, at }));
        }
        let in_lds = |touch: &&Touch| matches!(touch.at, Location::Lds(_));
        self.touches.iter().filter(in_lds).fold(0, |lanes, touch| lanes | 1 << touch.lane)
    }

    /// Looks at an instruction that is about to run.
    fn before(&mut self, checked: &Checked, wave: &Wave, machine: &mut Machine<'_>) {
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

    /// Tells of accesses past what the workgroup asked for. They race with nobody: it is a mistake already.
    fn leave_the_lds(&mut self, checked: &Checked, machine: &mut Machine<'_>) {
        let Machine { lds, lds_asked, .. } = machine;
        let Checks { touches, found, .. } = self;
        touches.retain(|Touch { piece, at, .. }| {
            let Location::Lds(offset) = *at else { return true };
            let Piece { kind, bytes, .. } = checked.pieces[*piece];
            let end = offset.saturating_add(bytes);
            let is_inside = end <= *lds_asked;
            // So far outside that it is meant: a way to have zeros.
            let is_meant = offset >= BEYOND_ANY_LDS && kind == Kind::Load;
            if !is_inside && !is_meant {
                let given = end <= lds.len() as u64;
                found.push(Found::LdsOutOfRange { offset, write: kind != Kind::Load, given });
            }
            is_inside
        });
    }

    /// Notes which memory the instruction touches: lanes that touch neighbouring bytes do it in one access.
    fn order(&mut self, checked: &Checked, machine: &mut Machine<'_>) {
        let space = machine.space();
        self.ranges.clear();
        let mut touch = |piece: usize, range: Range<u64>| {
            let touched = space.touch(checked.pieces[piece].kind, range.clone());
            self.found.extend(touched.err().map(Found::Unordered));
            self.ranges.push((piece, range));
        };
        for (number, piece) in checked.pieces.iter().enumerate() {
            let mut range = 0..0;
            for Touch { at, .. } in self.touches.iter().filter(|touch| touch.piece == number) {
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

    /// Notes what the instruction is about to do that concerns other workgroups, and returns when it writes to memory; 0 where
    /// it does not.
    fn between(&mut self, checked: &Checked, index: usize, machine: &mut Machine<'_>) -> u32 {
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
            let heard = between.take_heard();
            heard.iter().for_each(|other| self.races.learns(index, *other as usize));
            if !heard.is_empty() {
                self.races.comes(self.boards.iter().map(Scoreboard::done));
            }
        }
        if let Some(scope) = checked.scope.as_ref().filter(|scope| scope.is_of_caches()) {
            between.caches(worker, scope);
        }
        self.between = Some(between);
        writes
    }

    /// Notes the bytes of the LDS that the instruction touches, one access after the other.
    fn local_bytes(&mut self, checked: &Checked, machine: &mut Machine<'_>) {
        self.before.clear();
        self.moves |= checked.effect.raises.iter().any(|raise| raise.moves);
        // A single wave races with nobody but its own loads to the LDS.
        if self.registers.len() < 2 && !self.moves {
            return;
        }
        for Touch { piece, at, .. } in &self.touches {
            if let Location::Lds(offset) = at
                && let Some(there) = machine.lds(*offset, checked.pieces[*piece].bytes as usize)
            {
                self.before.extend_from_slice(there);
            }
        }
    }

    fn races(&mut self, checked: &Checked, wave: &Wave, machine: &mut Machine<'_>) {
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
        // Of a FLAT access on GFX9, which comes in no order, nothing is known.
        let board = &self.boards[wave.index as usize];
        let made = board.made();
        let number = match &checked.effect.raises[..] {
            raises if raises.iter().any(|raise| raise.moves) => Number::moved(made),
            raises if raises.iter().any(|raise| raise.counter == Counter::Local) => {
                Number::local(made)
            }
            _ => Number::default(),
        };
        let come = board.done();
        for Touch { piece, at, .. } in &self.touches {
            let Location::Lds(offset) = at else { continue };
            let piece = &checked.pieces[*piece];
            let start = *offset as usize;
            let Some(now) = lds.get(start..start + piece.bytes as usize) else { continue };
            let Some((was, rest)) = before.split_at_checked(now.len()) else { break };
            before = rest;
            let returns = piece.returned != Data::Nothing;
            let (kind, wave) = (piece.kind, wave.index);
            let (swaps, lets_go) = (checked.swaps, self.waited[wave as usize] == *pc);
            let access = By { kind, wave, pc: *pc, number, come, returns, swaps, lets_go };
            self.races.touch(&access, *offset, (was, now), &mut looks, &mut self.found);
        }
    }
}
