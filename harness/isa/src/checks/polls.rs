//! Spin-loop detection: analyses how code uses a value that it reads from the LDS or from memory.
//!
//! LDS instructions have no bits that distinguish an atomic or volatile read from a plain one (LLVM's AMDGPU usage
//! guide: all become "ds_load"). But a compiler reads a location again in each iteration of a loop only if the program
//! requires it: the compiler moves a plain read before the loop if the loop does not change the location. Therefore a
//! read is a spin-loop read if it reads the same location in each iteration of a loop without a barrier, and its value
//! decides whether the loop continues. Compilers may move the read of the first iteration before the loop, as a
//! separate instruction.

use std::{collections::HashSet, sync::Arc};

use super::{
    access::{Data, Kind, pieces},
    flow::{Register, Rule, address, flow, registers},
};
use crate::text::{Base, Text, register};

/// Results of the analysis of one read, which describe how the code uses the value that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadUse {
    /// True if the code repeats the read until the value changes, as a spin loop does.
    pub waits: bool,
    /// True if the value decides whether a loop without a barrier continues. Unlike with `waits`, each iteration may
    /// read a different address.
    pub turns: bool,
    /// True if the value decides a branch, or a change of the LDS, before the next barrier.
    pub decides: bool,
}

/// Maximum number of instructions that are examined after a read or in a loop.
const MAX_INSTRUCTIONS: usize = 1024;

/// Maximum number of instructions after a read that are searched for a decision that depends on the value.
const MAX_DISTANCE: usize = 256;

struct DecodedLine {
    address: u64,
    next: u64,
    target: Option<u64>,
    is_barrier: bool,
    ends: bool,
    parts: Vec<InstructionPart>,
    load: Option<Load>,
}

/// A read, with the parts of its address that the instruction contains. The contents of the address registers are
/// unknown.
struct Load {
    mnemonic: String,
    address: Vec<ValueLocation>,
    /// Constant offset of the address. For the LDS, it is taken from the encoding; for memory, it is the modifier in
    /// the text.
    offset: (Option<u16>, Option<String>),
}

#[derive(Default)]
struct InstructionPart {
    targets: Vec<ValueLocation>,
    sources: Vec<ValueLocation>,
    /// True if the instruction is a branch, sets the active lanes, or changes the LDS.
    decides: bool,
    /// True if the instruction reads memory. The value that it reads may change between iterations even if the address
    /// does not.
    reads: bool,
    moves: Option<MovedValue>,
}

/// Origin of the value that a move instruction writes to all lanes of a register.
#[derive(Clone, Copy, Debug)]
enum MovedValue {
    Constant,
    Scalar(ValueLocation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ValueLocation {
    Row(usize),
    Scalar(u16),
    /// All scratch locations, to which compilers spill registers. The analysis treats them as one location.
    Scratch,
}

impl From<Register> for ValueLocation {
    fn from(register: Register) -> ValueLocation {
        match register {
            Register::Row(row) => ValueLocation::Row(row),
            Register::Scalar(scalar) => ValueLocation::Scalar(scalar),
        }
    }
}

impl ReadUse {
    /// Analyses the read or atomic at `pc`. `code` returns the parsed instruction at an address.
    pub fn at(pc: u64, code: &dyn Fn(u64) -> Option<Arc<[Text]>>) -> ReadUse {
        let lines = read(pc, u64::MAX, code);
        let Some(first) = lines.first() else { return ReadUse::default() };
        let near =
            lines.iter().take(MAX_DISTANCE).take_while(|line| !line.is_barrier && !line.ends);
        let decides = decides(first, near);
        let mut loops: Vec<_> = lines
            .iter()
            .filter_map(|l| Some((l.target.filter(|t| *t <= pc)?, l.address)))
            .collect();
        loops.sort_by_key(|(first, last)| last - first);
        let (mut waits, mut turns) = (decides && is_hoisted_read(&lines), false);
        for (begin, last) in loops {
            let around = read(begin, last, code);
            turns |= decides_iteration(&around, pc).is_some();
            waits |= is_spin_read(&around, pc);
        }
        ReadUse { waits, turns, decides }
    }
}

/// Returns true if the first instruction is a spin-loop read of the first iteration, which the compiler has moved
/// before the loop.
fn is_hoisted_read(lines: &[DecodedLine]) -> bool {
    let barrier = lines.iter().position(|line| line.is_barrier).unwrap_or(lines.len());
    let lines = &lines[..barrier];
    let Some(DecodedLine { load: Some(first), .. }) = lines.first() else { return false };
    // Describes the value that a register has before a line: `None` if no earlier line writes the register,
    // `Some(true)` if the value is a constant or a scalar register that no earlier line writes, otherwise
    // `Some(false)`.
    let given = |place: &ValueLocation, before: &[DecodedLine]| -> Option<bool> {
        Some(match last_writer(place, before)?.moves {
            None => false,
            Some(MovedValue::Constant) => true,
            Some(MovedValue::Scalar(from)) => last_writer(&from, before).is_none(),
        })
    };
    let mut again = (1..lines.len()).filter(|at| {
        let Some(load) = &lines[*at].load else { return false };
        let given = |place| given(place, &lines[..*at]);
        let is_same = load.address == first.address
            && load.address.iter().all(|place| given(place).unwrap_or(true));
        let is_constant = || load.address.iter().all(|place| given(place) == Some(true));
        let is_alike = (&load.mnemonic, &load.offset) == (&first.mnemonic, &first.offset);
        is_alike && (is_same || is_constant())
    });
    let loops = |at: usize| {
        let ends =
            lines[at..].iter().enumerate().filter_map(move |(n, l)| Some((at + n, l.target?)));
        let begins = move |target| lines[1..=at].iter().position(|line| line.address == target);
        ends.filter_map(move |(end, target)| Some(&lines[begins(target)? + 1..=end]))
    };
    again.any(|at| loops(at).any(|turn| is_spin_read(turn, lines[at].address)))
}

/// Returns the last instruction in `before` that writes the location `place`; `None` if no instruction in `before`
/// does.
fn last_writer<'a>(
    place: &ValueLocation,
    before: &'a [DecodedLine],
) -> Option<&'a InstructionPart> {
    before.iter().rev().flat_map(|line| &line.parts).find(|part| part.targets.contains(place))
}

/// Decodes the instructions from address `from` to address `last`. Stops at the first one that cannot be decoded.
fn read(from: u64, last: u64, code: &dyn Fn(u64) -> Option<Arc<[Text]>>) -> Vec<DecodedLine> {
    let mut next = from;
    let line = || {
        let line = (next <= last)
            .then(|| code(next))
            .flatten()
            .and_then(|texts| DecodedLine::parse(&texts));
        next = line.as_ref()?.next;
        line
    };
    std::iter::from_fn(line).take(MAX_INSTRUCTIONS).collect()
}

/// Returns true if the instruction at `pc` reads the same address in each iteration of a loop, and the value that it
/// reads decides whether the loop continues.
fn is_spin_read(lines: &[DecodedLine], pc: u64) -> bool {
    decides_iteration(lines, pc).is_some_and(|line| has_same_address(lines, line))
}

/// Returns the instruction at `pc` if the value that it reads decides whether a loop without a barrier continues.
/// `lines` are the instructions of the loop.
fn decides_iteration(lines: &[DecodedLine], pc: u64) -> Option<&DecodedLine> {
    let at = lines.iter().position(|line| line.address == pc)?;
    // The search starts with the instructions after the read, and continues at the start of the loop.
    let around = lines[at..].iter().chain(&lines[..at]);
    let is_apart = lines.iter().any(|line| line.is_barrier);
    (!is_apart && decides(&lines[at], around)).then_some(&lines[at])
}

/// Returns true if the value that `first` reads influences a decision in one of these instructions: a branch, the
/// active lanes, or a change of the LDS.
fn decides<'a>(first: &DecodedLine, lines: impl Iterator<Item = &'a DecodedLine>) -> bool {
    let mut known: HashSet<ValueLocation> = first
        .parts
        .iter()
        .filter(|part| part.reads)
        .flat_map(|part| part.targets.clone())
        .collect();
    for part in lines.skip(1).flat_map(|line| &line.parts) {
        let follows = part.sources.iter().any(|source| known.contains(source));
        if follows && part.decides {
            return true;
        }
        for target in &part.targets {
            // A write overwrites a register completely. After a write to scratch memory, another scratch location may
            // still contain the value.
            if follows {
                known.insert(*target);
            } else if *target != ValueLocation::Scratch {
                known.remove(target);
            }
        }
    }
    false
}

/// Returns true if the address of an access is the same in each iteration of the loop.
fn has_same_address(lines: &[DecodedLine], line: &DecodedLine) -> bool {
    let parts = || lines.iter().flat_map(|line| &line.parts);
    let mut changing: HashSet<ValueLocation> =
        parts().flat_map(|part| part.targets.clone()).collect();
    // A value that was spilled to scratch memory is assumed to stay the same in the loop, because it rarely changes
    // there.
    changing.remove(&ValueLocation::Scratch);
    loop {
        let changes = |part: &InstructionPart, place: &ValueLocation| {
            part.targets.contains(place)
                && (part.sources.iter().any(|source| changing.contains(source))
                    || part.reads && !part.sources.contains(&ValueLocation::Scratch))
        };
        let is_same = |place: &&ValueLocation| !parts().any(|part| changes(part, place));
        let same: Vec<ValueLocation> = changing.iter().filter(is_same).copied().collect();
        if same.is_empty() {
            break;
        }
        changing.retain(|place| !same.contains(place));
    }
    // The address register may be overwritten by the result if the loop computes the same address again.
    let before = lines.split(|other| other.address == line.address).next().unwrap_or_default();
    let is_anew =
        |place: &ValueLocation| match last_writer(place, before).and_then(|part| part.moves) {
            None => false,
            Some(MovedValue::Constant) => true,
            Some(MovedValue::Scalar(from)) => !changing.contains(&from),
        };
    let mut sources = line.parts.iter().filter(|part| part.reads).flat_map(|part| &part.sources);
    sources.all(|source| !changing.contains(source) || is_anew(source))
}

impl DecodedLine {
    fn parse(texts: &[Text]) -> Option<DecodedLine> {
        let text = texts.first()?;
        let name = text.mnemonic.as_str();
        let branches = name.starts_with("s_branch") || name.starts_with("s_cbranch_");
        Some(DecodedLine {
            address: text.site.address,
            next: text.next_address(),
            target: branches.then(|| text.branch_target()),
            is_barrier: matches!(name, "s_barrier" | "s_barrier_wait"),
            ends: matches!(name, "s_endpgm" | "s_setpc_b64" | "s_set_pc_i64"),
            parts: texts.iter().map(InstructionPart::parse).collect(),
            load: Load::parse(text),
        })
    }
}

impl MovedValue {
    fn parse(text: &Text) -> Option<MovedValue> {
        let moves = ["v_mov_b32", "v_dual_mov_b32"].contains(&&*text.mnemonic);
        match text.operands.get(1).filter(|_| moves)?.base {
            Base::Constant(_) | Base::Bits(_) => Some(MovedValue::Constant),
            Base::Scalar { first, count: 1 } => {
                Some(MovedValue::Scalar(ValueLocation::Scalar(first)))
            }
            _ => None,
        }
    }
}

impl Load {
    fn parse(text: &Text) -> Option<Load> {
        let pieces = pieces(text).ok().filter(|pieces| !pieces.is_empty())?;
        pieces.iter().all(|piece| piece.kind == Kind::Load).then(|| Load {
            mnemonic: text.mnemonic.clone(),
            address: address(text).into_iter().map(ValueLocation::from).collect(),
            offset: (
                text.mnemonic.starts_with("ds_").then_some(text.site.immediate),
                text.value("offset").map(str::to_owned),
            ),
        })
    }
}

impl InstructionPart {
    fn parse(text: &Text) -> InstructionPart {
        let name = text.mnemonic.as_str();
        let places = |registers: Vec<Register>| registers.into_iter().map(ValueLocation::from);
        let Some(flow) = flow(text) else { return InstructionPart::of_memory(text) };
        let mut part = InstructionPart {
            targets: places(flow.targets.clone()).collect(),
            sources: flow.sources.into_iter().flat_map(places).collect(),
            decides: flow.rule == Rule::Control,
            reads: ["s_load", "s_buffer_load"].iter().any(|start| name.starts_with(start)),
            moves: MovedValue::parse(text),
        };
        if flow.rule == Rule::Swap {
            part.sources.extend(part.targets.clone());
        }
        // The result of a selection also depends on the mask.
        match flow.rule {
            Rule::Select { mask } => part.sources.push(ValueLocation::Scalar(mask)),
            Rule::SelectScalar => part.sources.push(ValueLocation::Scalar(register::SCC)),
            _ => {}
        }
        if name.starts_with("s_") && part.targets.len() <= 2 && !name.starts_with("s_mov") {
            part.targets.push(ValueLocation::Scalar(register::SCC));
        }
        part
    }

    fn of_memory(text: &Text) -> InstructionPart {
        let name = text.mnemonic.as_str();
        let Ok(pieces) = pieces(text) else { return InstructionPart::default() };
        if pieces.is_empty() {
            return InstructionPart::default();
        }
        let of = |data: Data, bytes: u64| -> Vec<ValueLocation> {
            let words = bytes.div_ceil(4);
            match data {
                Data::Rows(row) | Data::UpperHalf(row) => {
                    (row..row + words as usize).map(ValueLocation::Row).collect()
                }
                Data::Scalars(first) => {
                    (first..first + words as u16).map(ValueLocation::Scalar).collect()
                }
                Data::Nothing => Vec::new(),
            }
        };
        let (mut targets, mut sources) = (Vec::new(), Vec::new());
        for piece in &pieces {
            targets.extend(match piece.kind {
                Kind::Load => of(piece.data, piece.bytes),
                Kind::Store => Vec::new(),
                Kind::Atomic => of(piece.returned, piece.bytes),
            });
        }
        let is_load = pieces.iter().all(|piece| piece.kind == Kind::Load);
        if is_load {
            sources.extend(address(text).into_iter().map(ValueLocation::from));
        } else {
            let given = if targets.is_empty() { 0 } else { 1 };
            let operands = text.operands.get(given..).unwrap_or_default();
            sources
                .extend(operands.iter().flat_map(|o| registers(&o.base)).map(ValueLocation::from));
        }
        let off = |index: usize| text.operands.get(index).is_some_and(|o| o.base == Base::Off);
        let is_scratch = name.starts_with("scratch_") || name.starts_with("buffer_") && off(1);
        if is_scratch {
            (if is_load { &mut sources } else { &mut targets }).push(ValueLocation::Scratch);
        }
        let is_atomic = pieces.iter().any(|piece| piece.kind == Kind::Atomic);
        let decides = is_atomic && (name.starts_with("ds_") || name.starts_with("flat_"));
        let reads = !targets.is_empty() && (is_load || is_atomic);
        InstructionPart { reads, targets, sources, decides, moves: None }
    }
}
