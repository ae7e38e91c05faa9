//! What code does with a value that it reads of the LDS: whether it reads it again and again until it changes, or decides by it.
//!
//! Memory instructions of the LDS have no bits that tell an atomic or a volatile read from a plain one (LLVM's AMDGPU usage
//! guide: "ds_load" is what they all become). But compilers read a place anew in each turn of a loop only where the program says
//! so: a plain read of what nothing in the loop can have changed is made once, before it. So a read at the same place
//! in each turn of a loop without a barrier, whose value decides whether the loop goes on, is one that waits.
//! Compilers put the first turn's read of such a loop before it, where it is a read of its own.

use std::{collections::HashSet, sync::Arc};

use super::{
    access::{Data, Kind, pieces},
    flow::{Register, Rule, address, flow, registers},
};
use crate::text::{Base, Text, register};

/// What code does with a value that it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// It reads the same place until the value changes.
    pub waits: bool,
    /// A loop without a barrier goes on or not by what it reads, of whatever place.
    pub turns: bool,
    /// Before the next barrier it decides by the value where to go, or changes the LDS by it.
    pub decides: bool,
}

/// Instructions that are looked at behind a read, and of a loop.
const MOST: usize = 1024;

/// Instructions that are looked at for a decision by what is read.
const NEAR: usize = 256;

/// What an instruction needs and gives.
struct Line {
    address: u64,
    next: u64,
    /// Where a branch goes.
    target: Option<u64>,
    is_barrier: bool,
    ends: bool,
    parts: Vec<Part>,
    load: Option<Load>,
}

/// A read, and where, but for the values of registers.
struct Load {
    mnemonic: String,
    address: Vec<Place>,
    /// Of the LDS as bytes of the instruction, of memory as text.
    offset: (Option<u16>, Option<String>),
}

#[derive(Default)]
struct Part {
    targets: Vec<Place>,
    sources: Vec<Place>,
    /// It decides where the wave goes, or which lanes run, or changes the LDS.
    decides: bool,
    /// It reads memory: of a place that nothing changes, it may give something else each time.
    reads: bool,
    moves: Option<Moves>,
}

/// What a register of one lane each is given in all of them.
#[derive(Clone, Copy, Debug)]
enum Moves {
    Constant,
    Scalar(Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Row(usize),
    Scalar(u16),
    /// Where registers are spilled, as one.
    Scratch,
}

impl From<Register> for Place {
    fn from(register: Register) -> Place {
        match register {
            Register::Row(row) => Place::Row(row),
            Register::Scalar(scalar) => Place::Scalar(scalar),
        }
    }
}

impl Looks {
    /// Of the read or the atomic at an address; `code` gives the instruction at one, as text.
    pub fn at(pc: u64, code: &dyn Fn(u64) -> Option<Arc<[Text]>>) -> Looks {
        let lines = read(pc, u64::MAX, code);
        let Some(first) = lines.first() else { return Looks::default() };
        let near = lines.iter().take(NEAR).take_while(|line| !line.is_barrier && !line.ends);
        let decides = decides(first, near);
        let mut loops: Vec<_> = lines
            .iter()
            .filter_map(|l| Some((l.target.filter(|t| *t <= pc)?, l.address)))
            .collect();
        loops.sort_by_key(|(first, last)| last - first);
        let (mut waits, mut turns) = (decides && is_first_look(&lines), false);
        for (begin, last) in loops {
            let around = read(begin, last, code);
            turns |= decides_a_turn(&around, pc).is_some();
            waits |= is_waited_for(&around, pc);
        }
        Looks { waits, turns, decides }
    }
}

/// Whether the first of these instructions reads what a loop behind it, with no barrier between, waits for.
fn is_first_look(lines: &[Line]) -> bool {
    let barrier = lines.iter().position(|line| line.is_barrier).unwrap_or(lines.len());
    let lines = &lines[..barrier];
    let Some(Line { load: Some(first), .. }) = lines.first() else { return false };
    // Who gives a register its value, on the way to a line: whether by what may be what was there before, a constant, or a scalar
    // that stays as it is.
    let given = |place: &Place, before: &[Line]| -> Option<bool> {
        Some(match gives(place, before)?.moves {
            None => false,
            Some(Moves::Constant) => true,
            Some(Moves::Scalar(from)) => gives(&from, before).is_none(),
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
    again.any(|at| loops(at).any(|turn| is_waited_for(turn, lines[at].address)))
}

/// What gave a register its value, of the instructions before another one.
fn gives<'a>(place: &Place, before: &'a [Line]) -> Option<&'a Part> {
    before.iter().rev().flat_map(|line| &line.parts).find(|part| part.targets.contains(place))
}

/// The instructions from one address to another, as far as they are any.
fn read(from: u64, last: u64, code: &dyn Fn(u64) -> Option<Arc<[Text]>>) -> Vec<Line> {
    let mut next = from;
    let line = || {
        let line = (next <= last).then(|| code(next)).flatten().and_then(|texts| Line::of(&texts));
        next = line.as_ref()?.next;
        line
    };
    std::iter::from_fn(line).take(MOST).collect()
}

/// Whether the instruction at `pc` looks at the same place in each turn of a loop, which goes on or not by what it gives.
fn is_waited_for(lines: &[Line], pc: u64) -> bool {
    decides_a_turn(lines, pc).is_some_and(|line| has_same_address(lines, line))
}

/// The instruction at `pc`, if a loop without a barrier goes on or not by what it gives.
fn decides_a_turn(lines: &[Line], pc: u64) -> Option<&Line> {
    let at = lines.iter().position(|line| line.address == pc)?;
    // Behind it, and then from the beginning of the loop on.
    let around = lines[at..].iter().chain(&lines[..at]);
    let is_apart = lines.iter().any(|line| line.is_barrier);
    (!is_apart && decides(&lines[at], around)).then_some(&lines[at])
}

/// Whether one of these instructions decides by what the first of them gives.
fn decides<'a>(first: &Line, lines: impl Iterator<Item = &'a Line>) -> bool {
    let mut known: HashSet<Place> = first
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
            // Other values may be in scratch beside it.
            if follows {
                known.insert(*target);
            } else if *target != Place::Scratch {
                known.remove(target);
            }
        }
    }
    false
}

/// Whether a line of a loop has the same address in each turn of it.
fn has_same_address(lines: &[Line], line: &Line) -> bool {
    let parts = || lines.iter().flat_map(|line| &line.parts);
    let mut changing: HashSet<Place> = parts().flat_map(|part| part.targets.clone()).collect();
    // What is spilled is mostly what it was before.
    changing.remove(&Place::Scratch);
    loop {
        let changes = |part: &Part, place: &Place| {
            part.targets.contains(place)
                && (part.sources.iter().any(|source| changing.contains(source))
                    || part.reads && !part.sources.contains(&Place::Scratch))
        };
        let is_same = |place: &&Place| !parts().any(|part| changes(part, place));
        let same: Vec<Place> = changing.iter().filter(is_same).copied().collect();
        if same.is_empty() {
            break;
        }
        changing.retain(|place| !same.contains(place));
    }
    // The result may come to where the address was, which is then made anew.
    let before = lines.split(|other| other.address == line.address).next().unwrap_or_default();
    let is_anew = |place: &Place| match gives(place, before).and_then(|part| part.moves) {
        None => false,
        Some(Moves::Constant) => true,
        Some(Moves::Scalar(from)) => !changing.contains(&from),
    };
    let mut sources = line.parts.iter().filter(|part| part.reads).flat_map(|part| &part.sources);
    sources.all(|source| !changing.contains(source) || is_anew(source))
}

impl Line {
    fn of(texts: &[Text]) -> Option<Line> {
        let text = texts.first()?;
        let name = text.mnemonic.as_str();
        let branches = name.starts_with("s_branch") || name.starts_with("s_cbranch_");
        Some(Line {
            address: text.site.address,
            next: text.next_address(),
            target: branches.then(|| text.branch_target()),
            is_barrier: matches!(name, "s_barrier" | "s_barrier_wait"),
            ends: matches!(name, "s_endpgm" | "s_setpc_b64"),
            parts: texts.iter().map(Part::of).collect(),
            load: Load::of(text),
        })
    }
}

impl Moves {
    fn of(text: &Text) -> Option<Moves> {
        let moves = ["v_mov_b32", "v_dual_mov_b32"].contains(&&*text.mnemonic);
        match text.operands.get(1).filter(|_| moves)?.base {
            Base::Constant(_) | Base::Bits(_) => Some(Moves::Constant),
            Base::Scalar { first, count: 1 } => Some(Moves::Scalar(Place::Scalar(first))),
            _ => None,
        }
    }
}

impl Load {
    fn of(text: &Text) -> Option<Load> {
        let pieces = pieces(text).ok().filter(|pieces| !pieces.is_empty())?;
        pieces.iter().all(|piece| piece.kind == Kind::Load).then(|| Load {
            mnemonic: text.mnemonic.clone(),
            address: address(text).into_iter().map(Place::from).collect(),
            offset: (
                text.mnemonic.starts_with("ds_").then_some(text.site.immediate),
                text.value("offset").map(str::to_owned),
            ),
        })
    }
}

impl Part {
    fn of(text: &Text) -> Part {
        let name = text.mnemonic.as_str();
        let places = |registers: Vec<Register>| registers.into_iter().map(Place::from);
        let Some(flow) = flow(text) else { return Part::of_memory(text) };
        let mut part = Part {
            targets: places(flow.targets.clone()).collect(),
            sources: flow.sources.into_iter().flat_map(places).collect(),
            decides: flow.rule == Rule::Control,
            reads: ["s_load", "s_buffer_load"].iter().any(|start| name.starts_with(start)),
            moves: Moves::of(text),
        };
        if flow.rule == Rule::Swap {
            part.sources.extend(part.targets.clone());
        }
        // The result of a choice hangs on what it is made by, too.
        match flow.rule {
            Rule::Select { mask } => part.sources.push(Place::Scalar(mask)),
            Rule::SelectScalar => part.sources.push(Place::Scalar(register::SCC)),
            _ => {}
        }
        if name.starts_with("s_") && part.targets.len() <= 2 && !name.starts_with("s_mov") {
            part.targets.push(Place::Scalar(register::SCC));
        }
        part
    }

    fn of_memory(text: &Text) -> Part {
        let name = text.mnemonic.as_str();
        let Ok(pieces) = pieces(text) else { return Part::default() };
        if pieces.is_empty() {
            return Part::default();
        }
        let of = |data: Data, bytes: u64| -> Vec<Place> {
            let words = bytes.div_ceil(4);
            match data {
                Data::Rows(row) | Data::UpperHalf(row) => {
                    (row..row + words as usize).map(Place::Row).collect()
                }
                Data::Scalars(first) => (first..first + words as u16).map(Place::Scalar).collect(),
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
            sources.extend(address(text).into_iter().map(Place::from));
        } else {
            let given = if targets.is_empty() { 0 } else { 1 };
            let operands = text.operands.get(given..).unwrap_or_default();
            sources.extend(operands.iter().flat_map(|o| registers(&o.base)).map(Place::from));
        }
        let off = |index: usize| text.operands.get(index).is_some_and(|o| o.base == Base::Off);
        let is_scratch = name.starts_with("scratch_") || name.starts_with("buffer_") && off(1);
        if is_scratch {
            (if is_load { &mut sources } else { &mut targets }).push(Place::Scratch);
        }
        let is_atomic = pieces.iter().any(|piece| piece.kind == Kind::Atomic);
        let decides = is_atomic && (name.starts_with("ds_") || name.starts_with("flat_"));
        let reads = !targets.is_empty() && (is_load || is_atomic);
        Part { reads, targets, sources, decides, moves: None }
    }
}
