//! Executes one workgroup, whose waves take turns.

use std::{
    collections::HashSet,
    mem::{Discriminant, discriminant},
};

use crate::{
    At, Executing, Finding, LdsAccess, MemoryAccess, Trap, TurnLength,
    checks::{CheckError, Checks, access, between, races, scoreboard::Origin},
    machine::Machine,
    ops::memory::Location,
    program::{Code, Detours, Instruction, Missing, PAGE},
    text::Unsupported,
    wave::{State, Stop, Wave, active},
};

/// Length of a turn, in instructions, if only one wave of the workgroup is running.
const ALONE: u64 = 100_000;

/// Maximum number of executed instructions in one iteration of a spin loop.
const LOOP: usize = 4096;

/// Generates the lengths of the turns of a workgroup.
pub struct Clock {
    turns: TurnLength,
    state: u64,
}

impl Clock {
    /// Creates the generator for this workgroup. Each workgroup has its own sequence of lengths, which does not depend
    /// on the host thread that executes the workgroup.
    pub fn new(turns: TurnLength, workgroup: u64) -> Clock {
        let seed = if let TurnLength::Seeded(seed) = turns { seed } else { 0 };
        // The state must not be zero, because the generator would then return only zeros.
        let state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ workgroup << 32;
        Clock { turns, state: state.max(1) }
    }

    /// Returns the length of the next turn, in instructions.
    pub fn next_turn(&mut self) -> u64 {
        match self.turns {
            TurnLength::Fixed(turn) => turn.max(1),
            TurnLength::Seeded(_) => {
                // Marsaglia's xorshift generates the sequence. The lengths are powers of two, so that short turns are
                // as frequent as long ones.
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                1 << ((self.state >> 32) % 12)
            }
        }
    }
}

/// A workgroup that is being executed.
pub struct Group<'a> {
    /// Code of the kernel.
    pub code: Code<'a>,
    /// Instructions for waves on a detour, see [`Wave::detours`].
    pub detours: Detours,
    /// Memory, and the state that the waves of the workgroup share.
    pub machine: Machine<'a>,
    /// Waves of the workgroup.
    pub waves: Vec<Wave>,
    /// Number of the workgroup.
    pub number: u64,
    /// Address of the kernel's first instruction.
    pub entry: u64,
    /// Maximum number of instructions that a wave may execute.
    pub limit: u64,
    /// Lengths of the turns.
    pub clock: Clock,
    /// Errors of this workgroup that have already been reported.
    pub reported: HashSet<Mistake>,
}

/// Identity of an error: its kind, the addresses of the instructions involved, and for an unordered access a
/// description of the other work. Errors with the same identity are reported once.
type Mistake = (Discriminant<CheckError>, [u64; 3], String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    Ended,
    /// The workgroup has used up its budget of instructions.
    BudgetSpent,
    /// No wave can run now: each wave sleeps, waits for another workgroup, or waits at a barrier for a wave that cannot
    /// run either.
    Waiting,
}

impl Group<'_> {
    /// Runs the waves in turns. Returns when all waves have ended, when the workgroup has executed `budget`
    /// instructions, or when no wave can run.
    pub(crate) fn run(&mut self, budget: u64) -> Result<TurnEnd, Trap> {
        let mut spent = 0;
        loop {
            for wave in &mut self.waves {
                let goes_on = match wave.state {
                    State::Resting => true,
                    State::AtSync => self.machine.may_continue(wave.awaits),
                    State::Running | State::AtBarrier | State::Ended => false,
                };
                if goes_on {
                    wave.state = State::Running;
                }
            }
            let running = |wave: &&Wave| wave.state == State::Running;
            let alone = self.waves.iter().filter(running).count() < 2;
            for index in 0..self.waves.len() {
                let length = if alone { ALONE } else { self.clock.next_turn() };
                let before = self.waves[index].executed;
                match &self.waves[index] {
                    wave if wave.state != State::Running => {}
                    wave if wave.detours != 0 => self.turn_on_detour(index, length)?,
                    _ if self.machine.watch.is_some() => self.turn::<true>(index, length)?,
                    _ => self.turn::<false>(index, length)?,
                }
                spent += self.waves[index].executed - before;
            }
            let all = |states: &[State]| self.waves.iter().all(|wave| states.contains(&wave.state));
            if all(&[State::Ended]) {
                return Ok(TurnEnd::Ended);
            }
            // A barrier does not wait for waves that have ended.
            if all(&[State::Ended, State::AtBarrier]) {
                if let Some(checks) = Checks::from_state(&mut self.machine.watch) {
                    checks.barrier();
                }
                for wave in &mut self.waves {
                    if wave.state == State::AtBarrier {
                        wave.state = State::Running;
                    }
                }
            } else if all(&[State::Ended, State::AtBarrier, State::Resting, State::AtSync]) {
                return Ok(TurnEnd::Waiting);
            }
            if spent >= budget {
                return Ok(TurnEnd::BudgetSpent);
            }
        }
    }

    /// Reports errors that the checks detect at the end of the launch. Each error is reported once.
    pub(crate) fn report_finding(&mut self, found: Vec<CheckError>) -> Result<(), Trap> {
        for found in found {
            if !self.reported.insert(mistake(&found, 0)) {
                continue;
            }
            let finding = finding(found, At::default(), self.machine.lds_asked, self.entry);
            if self.machine.space().found(&finding).is_break() {
                return Err(Trap::Found(Box::new(finding)));
            }
        }
        Ok(())
    }

    /// Returns the memory instruction that a wave repeats in a spin loop: the last one before the loop repeats. Also
    /// returns the first address that this instruction accesses; `None` if it is unknown. To find the instruction,
    /// executes the wave for at most one iteration of the loop. For a wave that waits at global wave sync, returns the
    /// instruction at which it waits, and `None`.
    pub fn waits_at(&mut self, index: usize) -> (At, Option<u64>) {
        let mut found = (At::default(), None);
        if self.waves[index].state == State::AtSync {
            return (self.at_sync(self.waves[index].pc), None);
        }
        let first = self.waves[index].pc;
        for _ in 0..LOOP {
            let pc = self.waves[index].pc;
            let Ok(page) = self.code.page(pc) else { break };
            let Ok(instruction) = page.instruction(pc) else { break };
            let place = at(&instruction.text, pc, self.entry);
            let wave = &self.waves[index];
            let pieces = instruction.parts.iter().filter_map(|text| access::pieces(text).ok());
            let lane = active(wave.exec()).next().unwrap_or(0);
            let looks = |piece: access::Piece| match piece.of(wave, lane) {
                Some(Location::Global(address)) if piece.kind != access::Kind::Store => {
                    Some(address)
                }
                _ => None,
            };
            let address = pieces.flatten().find_map(looks);
            if address.is_some() || found.1.is_none() {
                found = (place, address);
            }
            let wave = &mut self.waves[index];
            wave.state = State::Running;
            let stepped = self.turn::<false>(index, 1);
            let wave = &self.waves[index];
            let waits = matches!(wave.state, State::Running | State::Resting);
            if stepped.is_err() || !waits || wave.pc == first {
                break;
            }
        }
        // The steps above only search for the spin loop. If they cause errors, the kernel causes them again when it
        // continues.
        drop(Checks::found(&mut self.machine));
        found
    }

    /// Returns the global-wave-sync instruction at which a wave waits. `behind` is the address after this instruction.
    /// All global-wave-sync instructions have the same size.
    fn at_sync(&mut self, behind: u64) -> At {
        let pc = behind.wrapping_sub(8);
        let Ok(page) = self.code.page(pc) else { return At::default() };
        let Ok(instruction) = page.instruction(pc) else { return At::default() };
        at(&instruction.text, pc, self.entry)
    }

    /// Runs a wave for at most `length` instructions. If `WATCHED` is true, also reports the errors that the checks
    /// find, and passes each instruction to the tracer if the launch is traced.
    pub fn turn<const WATCHED: bool>(&mut self, index: usize, length: u64) -> Result<(), Trap> {
        let Group { code, machine, waves, number, entry, limit, reported: told, .. } = self;
        let wave = &mut waves[index];
        let (mut pc, mut last) = (wave.pc, wave.pc);
        let mut left = length.min(limit.saturating_sub(wave.executed)).max(1);
        wave.executed += left;
        while left > 0 && wave.goes_on() {
            let page = code.page(pc).map_err(|missing| missing_trap(missing, pc, *entry))?;
            // The inner loop runs while the program counter stays in the page.
            while left > 0 && pc.wrapping_sub(page.base) < PAGE {
                let instruction =
                    page.instruction(pc).map_err(|missing| missing_trap(missing, pc, *entry))?;
                (last, pc) = (pc, pc + instruction.site.size);
                left -= 1;
                // The other instructions neither read nor change the program counter.
                if instruction.directs {
                    wave.pc = pc;
                }
                if WATCHED && machine.follows {
                    notify_tracer(machine, *number, wave, last, instruction);
                }
                let step = instruction.exec.run(wave, machine);
                if WATCHED && !Checks::is_content(machine) {
                    report_finding(machine, told, instruction, last, *entry)?;
                }
                if let Err(stop) = step {
                    return Err(stop_trap(*stop, instruction, last, *entry));
                }
                if instruction.directs {
                    pc = wave.pc;
                    if !wave.goes_on() {
                        break;
                    }
                }
                debug_assert!(wave.goes_on(), "{} directs", instruction.text);
            }
        }
        wave.pc = pc;
        wave.executed -= left;
        if wave.executed >= *limit {
            let missing = |missing| missing_trap(missing, last, *entry);
            let instruction =
                code.page(last).map_err(missing)?.instruction(last).map_err(missing)?;
            return Err(step_limit(*limit, instruction, last, *entry));
        }
        Ok(())
    }

    fn turn_on_detour(&mut self, index: usize, length: u64) -> Result<(), Trap> {
        let Group { code, detours, machine, waves, number, entry, limit, reported: told, .. } =
            self;
        let checked = machine.watch.is_some();
        let wave = &mut waves[index];
        for _ in 0..length {
            if wave.state != State::Running || wave.detours == 0 {
                break;
            }
            let pc = wave.pc;
            let missing = |missing| missing_trap(missing, pc, *entry);
            let page = code.page(pc).map_err(missing)?;
            let instruction = page.instruction(pc).map_err(missing)?;
            let Instruction { text, site, parts, .. } = instruction;
            let other = detours
                .find(text, site, parts, wave, checked)
                .map_err(|Unsupported| missing(Missing::Unimplemented(text.to_string())))?;
            wave.pc = pc + instruction.site.size;
            wave.executed += 1;
            if machine.follows {
                notify_tracer(machine, *number, wave, pc, instruction);
            }
            let exec = other.unwrap_or(&*instruction.exec);
            let step = exec.run(wave, machine);
            if !Checks::is_content(machine) {
                report_finding(machine, told, instruction, pc, *entry)?;
            }
            if let Err(stop) = step {
                return Err(stop_trap(*stop, instruction, pc, *entry));
            }
            if wave.executed >= *limit {
                return Err(step_limit(*limit, instruction, pc, *entry));
            }
        }
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn notify_tracer(
    machine: &Machine<'_>,
    workgroup: u64,
    wave: &Wave,
    pc: u64,
    instruction: &Instruction,
) {
    let text = &*instruction.text;
    let executing = Executing { workgroup, wave: wave.index, pc, text, registers: wave };
    machine.space().trace_instruction(&executing);
}

impl Wave {
    /// Returns true if the wave is running and not on a detour (see [`Wave::detours`]).
    #[inline(always)]
    fn goes_on(&self) -> bool {
        self.state == State::Running && self.detours == 0
    }
}

fn at(text: &str, pc: u64, entry: u64) -> At {
    At { text: text.to_owned(), offset: pc.wrapping_sub(entry) as i64 }
}

fn step_limit(limit: u64, instruction: &Instruction, pc: u64, entry: u64) -> Trap {
    Trap::StepLimit { limit, instruction: at(&instruction.text, pc, entry) }
}

fn missing_trap(missing: Missing, pc: u64, entry: u64) -> Trap {
    match missing {
        Missing::Unmapped => Trap::PageFault {
            address: pc,
            write: false,
            instruction: at("instruction fetch", pc, entry),
        },
        Missing::Illegal => Trap::IllegalInstruction { instruction: at("?", pc, entry) },
        Missing::Unnamed(word) => {
            let text = format!("{word:#010x}, which the disassembler of this stack does not know");
            Trap::Unimplemented { instruction: at(&text, pc, entry) }
        }
        Missing::Unimplemented(text) => Trap::Unimplemented { instruction: at(&text, pc, entry) },
        Missing::NoDisassembler(reason) => Trap::NoDisassembler { reason },
    }
}

fn stop_trap(stop: Stop, instruction: &Instruction, pc: u64, entry: u64) -> Trap {
    let text = &instruction.text;
    let instruction = at(text, pc, entry);
    match stop {
        Stop::PageFault { address, write } => Trap::PageFault { address, write, instruction },
        Stop::Abort => Trap::Abort { instruction },
        Stop::Unsupported(what) => {
            let text = format!("{text}, which uses {what}");
            Trap::Unimplemented { instruction: at(&text, pc, entry) }
        }
    }
}

fn report_finding(
    machine: &mut Machine<'_>,
    told: &mut HashSet<Mistake>,
    instruction: &Instruction,
    pc: u64,
    entry: u64,
) -> Result<(), Trap> {
    let (space, size) = (machine.space(), machine.lds_asked);
    for found in Checks::found(machine) {
        if !told.insert(mistake(&found, pc)) {
            continue;
        }
        let finding = finding(found, at(&instruction.text, pc, entry), size, entry);
        if space.found(&finding).is_break() {
            return Err(Trap::Found(Box::new(finding)));
        }
    }
    Ok(())
}

fn mistake(found: &CheckError, pc: u64) -> Mistake {
    let (first, second, with) = match found {
        CheckError::Outside { write, .. } | CheckError::LdsOutOfRange { write, .. } => {
            (u64::from(*write), 0, String::new())
        }
        CheckError::NeverWritten { read, how } => (read.pc, *how as u64, String::new()),
        CheckError::LdsRace { first, second, .. } => (first.pc, second.pc, String::new()),
        CheckError::LdsEarly { write, read, .. } => (write.pc, read.pc, String::new()),
        CheckError::Early(early) => (early.producer.pc, 0, String::new()),
        CheckError::Unordered(accesses) => (0, 0, accesses.rival.clone()),
    };
    (discriminant(found), [pc, first, second], with)
}

/// Converts an error that the checks found to a [`Finding`]. `size` is the size of the LDS that the workgroup
/// requested, in bytes. `entry` is the address of the kernel's first instruction.
fn finding(found: CheckError, instruction: At, size: u64, entry: u64) -> Finding {
    match found {
        CheckError::Outside { address, write } => Finding::Outside { address, write, instruction },
        CheckError::LdsOutOfRange { offset, write, given } => {
            Finding::LdsOutOfRange { offset, write, size, given, instruction }
        }
        CheckError::NeverWritten { read, how } => Finding::NeverWritten {
            address: read.address,
            read: at(&read.text, read.pc, entry),
            how: how.words(),
            instruction,
        },
        CheckError::LdsRace { offset, first, second } => {
            Finding::LdsRace { offset, first: side(first, entry), second: side(second, entry) }
        }
        CheckError::LdsEarly { offset, write, read } => {
            Finding::LdsEarly { offset, write: side(write, entry), read: side(read, entry) }
        }
        CheckError::Early(early) => {
            let place = |origin: &Origin| at(&origin.text, origin.pc, entry);
            Finding::Early {
                producer: place(&early.producer),
                waited: early.waited.as_ref().map(|(wait, left)| (place(wait), *left)),
                register: early.register,
                read: early.read,
                wave: early.wave,
                lane: early.lane,
                counter: early.counter,
                needs: early.needs,
                instruction,
            }
        }
        CheckError::Unordered(accesses) => Finding::Unordered { accesses, instruction },
    }
}

pub(crate) fn race_between(race: between::Race, entry: u64) -> Finding {
    let between::Race { address, why, sides } = race;
    let [first, second] = sides.map(|side| MemoryAccess {
        kind: side.kind.word(),
        workgroup: side.workgroup,
        wave: side.wave,
        instruction: at(&side.origin.text, side.origin.pc, entry),
    });
    let why = match why {
        between::RaceReason::Unordered => "nothing orders them",
        between::RaceReason::NotArrived => {
            "a wave signals the other before its earlier write has reached memory"
        }
        between::RaceReason::Stale => "a signalled wave has not invalidated its caches",
    };
    Finding::MemoryRace { address, why, first, second }
}

fn side(access: races::Access, entry: u64) -> LdsAccess {
    LdsAccess {
        kind: access.kind.word(),
        wave: access.wave,
        instruction: at(&access.text, access.pc, entry),
    }
}
