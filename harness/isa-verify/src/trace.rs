//! Records the executed instructions and the bytes that they access. The accesses to the LDS are derived from registers
//! and the text of the instructions, independently of the sanitizer.

use isa::{AccessKind, Executing};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) local: bool,
    pub(crate) kind: AccessKind,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Value that the access writes, if it is a store to the LDS; `None` for any other access.
    pub(crate) value: Option<u128>,
}

impl Touched {
    /// Returns true if both accesses are stores of the same value to the same bytes.
    pub(crate) fn agrees(&self, other: &Touched) -> bool {
        let place = |touched: &Touched| (touched.local, touched.start, touched.end);
        self.value.is_some() && self.value == other.value && place(self) == place(other)
    }

    /// Returns true if the two accesses need synchronisation when different waves make them: they overlap, at least one
    /// of them writes, and they are not both atomic.
    pub(crate) fn meets(&self, other: &Touched) -> bool {
        let writes = |touched: &Touched| touched.kind != AccessKind::Load;
        let atomic = |touched: &Touched| touched.kind == AccessKind::Atomic;
        self.local == other.local
            && self.start < other.end
            && other.start < self.end
            && (writes(self) || writes(other))
            && !(atomic(self) && atomic(other))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) launch: usize,
    pub(crate) workgroup: u64,
    pub(crate) wave: u32,
    pub(crate) pc: u64,
    pub(crate) lanes: u64,
    pub(crate) touched: Vec<Touched>,
    /// Dwords of memory that the instruction accesses: for each, its address divided by four, and its content before
    /// the access.
    pub(crate) held: Vec<(u64, u32)>,
}

impl Step {
    pub(crate) fn new(launch: usize, executing: &Executing<'_>) -> Step {
        Step {
            launch,
            workgroup: executing.workgroup,
            wave: executing.wave,
            pc: executing.pc,
            lanes: executing.lanes(),
            touched: in_lds(executing),
            held: Vec::new(),
        }
    }

    /// Returns an artificial step that contains the final contents of memory after a launch. It does not belong to a
    /// wave.
    pub(crate) fn end(launch: usize, held: impl Iterator<Item = (u64, u32)>) -> Step {
        let (workgroup, held) = (u64::MAX, held.collect());
        Step { launch, workgroup, wave: 0, pc: 0, lanes: 0, touched: Vec::new(), held }
    }

    pub(crate) fn is_of(&self, other: &Step) -> bool {
        self.is_of_workgroup(other) && self.wave == other.wave
    }

    pub(crate) fn is_of_workgroup(&self, other: &Step) -> bool {
        (self.launch, self.workgroup) == (other.launch, other.workgroup)
    }
}

/// Returns the number of the first vector register of an operand; `None` if the operand is not a vector register.
fn row(operand: &str) -> Option<usize> {
    let name = operand.strip_prefix('v')?;
    let first = name.strip_prefix('[').map_or(name, |pair| pair.split(':').next().unwrap_or(""));
    first.parse().ok()
}

fn number(text: &str, name: &str) -> u64 {
    let found = text.split_whitespace().find_map(|word| word.strip_prefix(name));
    found.and_then(|value| value.strip_prefix(':')?.parse().ok()).unwrap_or(0)
}

/// Returns the number of bytes that each lane accesses, according to the end of the mnemonic.
fn size(mnemonic: &str) -> u64 {
    let ends = |ends: &[&str]| ends.iter().any(|end| mnemonic.ends_with(end));
    match () {
        () if ends(&["b128"]) => 16,
        () if ends(&["b96"]) => 12,
        () if ends(&["64"]) => 8,
        () if ends(&["b16", "u16", "i16", "b16_d16_hi", "u16_d16", "u16_d16_hi"]) => 2,
        () if ends(&["b8", "u8", "i8", "u8_d16", "u8_d16_hi"]) => 1,
        () => 4,
    }
}

fn in_lds(executing: &Executing<'_>) -> Vec<Touched> {
    let text = executing.text;
    let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let operands: Vec<&str> = rest.split(',').map(str::trim).collect();
    let word = |index: usize| operands.get(index).and_then(|o| o.split_whitespace().next());
    let lanes = (0..64).filter(|lane| executing.lanes() >> lane & 1 == 1);
    let reads = mnemonic.contains("read") || mnemonic.contains("load");
    let kind = if reads {
        AccessKind::Load
    } else if mnemonic.contains("write") || mnemonic.contains("store") {
        AccessKind::Store
    } else {
        AccessKind::Atomic
    };
    let touched = |start: u64, bytes: u64| Touched {
        local: true,
        kind,
        start,
        end: start + bytes,
        value: None,
    };
    if mnemonic.starts_with("flat_") {
        let index = usize::from(reads || kind == AccessKind::Atomic && operands.len() > 2);
        let Some(row) = word(index).and_then(row) else { return Vec::new() };
        let bytes = if mnemonic.contains("x2") || mnemonic.ends_with("64") { 8 } else { 4 };
        let local = lanes.filter(|lane| executing.vector(row + 1, *lane) == SHARED);
        let at = |lane| u64::from(executing.vector(row, lane)) + number(text, "offset");
        return local.map(|lane| touched(at(lane), bytes)).collect();
    }
    let moves = ["ds_bpermute", "ds_permute", "ds_swizzle", "ds_nop"];
    if !mnemonic.starts_with("ds_") || moves.iter().any(|name| mnemonic.starts_with(name)) {
        return Vec::new();
    }
    let index = usize::from(reads || mnemonic.contains("_rtn"));
    let Some(row) = word(index).and_then(row) else { return Vec::new() };
    let bytes = size(mnemonic);
    let is_two =
        mnemonic.contains("read2") || mnemonic.contains("write2") || mnemonic.contains("2addr");
    let offsets = if is_two {
        let step = if mnemonic.contains("st64") || mnemonic.contains("stride64") { 64 } else { 1 };
        vec![number(text, "offset0") * bytes * step, number(text, "offset1") * bytes * step]
    } else {
        vec![number(text, "offset")]
    };
    let value = |place: usize, lane: usize| {
        let first = (kind == AccessKind::Store).then(|| word(1 + place).and_then(self::row))??;
        let all = (0..bytes.div_ceil(4) as usize).map(|at| executing.vector(first + at, lane));
        let all = all.enumerate().fold(0, |all, (at, word)| all | u128::from(word) << (32 * at));
        Some(all & (u128::MAX >> (128 - 8 * bytes)))
    };
    let all = lanes
        .flat_map(|lane| {
            offsets.iter().enumerate().map(move |(place, offset)| (lane, place, *offset))
        })
        .map(|(lane, place, offset)| Touched {
            value: value(place, lane),
            ..touched(u64::from(executing.vector(row, lane)) + offset, bytes)
        });
    // If several lanes write to a location, the value of the last lane remains there.
    let mut touched: Vec<Touched> = Vec::new();
    for one in all {
        touched.retain(|other| kind != AccessKind::Store || other.start != one.start);
        touched.push(one);
    }
    touched
}

/// Upper half of each flat address that refers to the LDS, on the emulated device.
const SHARED: u32 = 0x0002_0000;
