//! Tracks uninitialised data: which instructions read it from memory or from the LDS, and where it is used.

use std::{ops::Range, sync::Arc};

use super::{
    CheckError, CheckedInstruction, LaneAccess,
    access::{Data, Kind, Piece},
    flow::Register,
    taint::{Change, Lanes, Mark, Origins, Registers},
};
use crate::{AddressSpace, Written, ops::memory::Location, wave::Wave};

/// Use of uninitialised data that is reported as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForbiddenUse {
    Stored,
    Control,
    Address,
    Atomic,
}

impl ForbiddenUse {
    pub(crate) fn words(self) -> &'static str {
        match self {
            ForbiddenUse::Stored => "what was computed from it is stored",
            ForbiddenUse::Control => "it is used as a condition",
            ForbiddenUse::Address => "it is used as an address",
            ForbiddenUse::Atomic => "it is changed",
        }
    }
}

#[derive(Default)]
pub(crate) struct Shadow {
    origins: Origins,
    /// Mark of each byte of the LDS, which says if the byte is initialised. Bytes past the end of the list are
    /// initialised.
    local: Vec<Mark>,
    /// Recently accessed allocations whose bytes are tracked (`known`), and recently accessed address ranges that are
    /// not tracked (`untracked`).
    known: Vec<Arc<Written>>,
    untracked: Vec<Range<u64>>,
    pub(super) found: Vec<CheckError>,
}

/// Maximum number of cached allocations and ranges. Kernels usually access fewer at a time.
const MAX_CACHED: usize = 8;

/// Allocations with tracked bytes that one [`Piece`](super::access::Piece) of an instruction accesses.
enum TrackedAllocations {
    /// No such allocation, and no uninitialised byte of the LDS.
    Nowhere,
    /// One allocation. The range is `Some` if the accesses cover it without gaps.
    One(Arc<Written>, Option<Range<u64>>),
    /// Possibly several, or the LDS. Each access must be looked up.
    Several,
}

/// Returns the accesses of the [`Piece`](super::access::Piece) with index `piece`. They are consecutive in `touches`.
fn of_piece(touches: &[LaneAccess], piece: usize) -> &[LaneAccess] {
    let start = touches.partition_point(|touch| touch.piece < piece);
    let end = touches.partition_point(|touch| touch.piece <= piece);
    &touches[start..end]
}

type Space<'a> = &'a dyn AddressSpace;

impl Shadow {
    pub(crate) fn begin(&mut self) {
        self.local.clear();
    }

    /// Returns the [`Written`] that tracks the initialised bytes of the allocation that contains `address`; `None` if
    /// the allocation is not tracked.
    fn written(&mut self, space: Space<'_>, address: u64) -> Option<Arc<Written>> {
        if let Some(found) = self.known.iter().find(|known| known.range().contains(&address)) {
            return Some(found.clone());
        }
        if self.untracked.iter().any(|range| range.contains(&address)) {
            return None;
        }
        let found = space.written(address);
        match &found {
            Some(written) => {
                self.known.truncate(MAX_CACHED - 1);
                self.known.insert(0, written.clone());
            }
            None => {
                self.untracked.truncate(MAX_CACHED - 1);
                self.untracked.extend(space.range(address));
            }
        }
        found
    }

    /// Finds the allocations that one [`Piece`](super::access::Piece) of an instruction accesses and whose initialised
    /// bytes are tracked. One look-up serves all lanes, because they usually access one allocation.
    fn find_allocations(
        &mut self,
        touches: &[LaneAccess],
        bytes: u64,
        space: Space<'_>,
    ) -> TrackedAllocations {
        let (mut least, mut greatest, mut local) = (u64::MAX, 0, false);
        for touch in touches {
            match touch.at {
                Location::Global(address) => {
                    (least, greatest) = (least.min(address), greatest.max(address));
                }
                _ => local = true,
            }
        }
        if least > greatest {
            return if local && !self.local.is_empty() {
                TrackedAllocations::Several
            } else {
                TrackedAllocations::Nowhere
            };
        }
        let inside = |range: &Range<u64>| range.contains(&least) && greatest + bytes <= range.end;
        if local {
            TrackedAllocations::Several
        } else if self.untracked.iter().any(&inside) {
            TrackedAllocations::Nowhere
        } else {
            match self.written(space, least) {
                Some(written) if inside(&written.range()) => {
                    let span = touches.len() as u64 * bytes;
                    TrackedAllocations::One(
                        written,
                        (greatest + bytes - least == span).then_some(least..least + span),
                    )
                }
                _ => TrackedAllocations::Several,
            }
        }
    }

    /// Reports an error, unless reports of uninitialised data are turned off for the address space.
    fn mistake(&mut self, space: Space<'_>, origin: u32, how: ForbiddenUse) {
        if let Some(read) = self.origins.get(origin)
            && space.reports_never_written()
        {
            self.found.push(CheckError::NeverWritten { read: read.clone(), how });
        }
    }

    /// Reports a branch or a change of the active lanes that depends on uninitialised data.
    pub(crate) fn control(
        &mut self,
        registers: &Registers,
        sources: &[Vec<Register>],
        exec: u64,
        space: Space<'_>,
    ) {
        if let Some(found) = registers.everywhere(sources, exec) {
            self.mistake(space, found.origin, ForbiddenUse::Control);
        }
    }

    pub(crate) fn address(
        &mut self,
        registers: &Registers,
        address: &[Register],
        exec: u64,
        space: Space<'_>,
    ) {
        let found = address.iter().map(|register| registers.lanes(*register));
        if let Some(found) = found.into_iter().find(|lanes| lanes.never_written & exec != 0) {
            self.mistake(space, found.origin, ForbiddenUse::Address);
        }
    }

    /// Computes which data will be uninitialised in the registers that an instruction loads, and adds it to `changes`.
    /// Reports stores and atomics of the instruction that use uninitialised data. Called before the instruction runs.
    pub(super) fn reads(
        &mut self,
        (pc, text): (u64, &Arc<str>),
        checked: &CheckedInstruction,
        (touches, wave): (&[LaneAccess], &Wave),
        registers: &Registers,
        space: Space<'_>,
        changes: &mut Vec<Change>,
    ) {
        for (number, piece) in checked.pieces.iter().enumerate() {
            let touches = of_piece(touches, number);
            let target = match piece.kind {
                Kind::Load => piece.data,
                Kind::Store => Data::Nothing,
                Kind::Atomic => piece.returned,
            };
            if piece.kind != Kind::Load {
                for touch in touches {
                    self.check_write(checked, touch, registers, space);
                }
            }
            if piece.kind == Kind::Atomic && !piece.exchange {
                for touch in touches {
                    if let Location::Global(address) = touch.at
                        && let Some(written) = self.written(space, address)
                        && !written.any(address..address + piece.bytes)
                    {
                        let origin = self.origins.number(pc, text, address);
                        self.mistake(space, origin, ForbiddenUse::Atomic);
                    }
                }
            }
            if target == Data::Nothing {
                continue;
            }
            let book = self.find_allocations(touches, piece.bytes, space);
            if registers.are_clean() {
                match &book {
                    TrackedAllocations::Nowhere => continue,
                    TrackedAllocations::One(written, Some(range)) if written.all(range.clone()) => {
                        continue;
                    }
                    _ => {}
                }
            }
            let exec = if piece.uniform { u64::MAX } else { wave.exec() };
            for word in 0..piece.bytes.div_ceil(4) {
                let mut found = Lanes::default();
                for touch in touches {
                    let bytes = (piece.bytes - 4 * word).min(4);
                    let mark = self.mark((pc, text), touch.at.plus(4 * word), bytes, space);
                    if let Some(origin) = mark.origin() {
                        let lane = if piece.uniform { u64::MAX } else { 1 << touch.lane };
                        found.never_written |= lane;
                        found.computed |= if mark.computed() { lane } else { 0 };
                        found.origin = origin;
                    }
                }
                let word = word as usize;
                let change = |row: usize, found: Lanes| {
                    let old = registers.row(row);
                    (found.never_written != 0 || old.never_written != 0)
                        .then(|| Change::Row(row, old.only(!exec).or(found.only(exec))))
                };
                changes.extend(match target {
                    Data::Rows(row) => change(row + word, found),
                    // The load keeps the lower half of the register, so lanes that were initialised stay initialised.
                    Data::UpperHalf(row) => {
                        change(row, found.only(registers.row(row).never_written))
                    }
                    Data::Scalars(first) => {
                        let mark = match found.never_written {
                            0 => Mark::default(),
                            _ => Mark::new(found.origin, found.computed != 0),
                        };
                        Some(Change::Scalar(first + word as u16, mark))
                    }
                    Data::Nothing => None,
                });
            }
        }
    }

    /// Returns a joint mark for up to four bytes. The mark is uninitialised only if all of these bytes are.
    fn mark(
        &mut self,
        (pc, text): (u64, &Arc<str>),
        at: Location,
        bytes: u64,
        space: Space<'_>,
    ) -> Mark {
        match at {
            Location::Global(address) => match self.written(space, address) {
                Some(written) if !written.any(address..address + bytes) => {
                    Mark::new(self.origins.number(pc, text, address), false)
                }
                _ => Mark::default(),
            },
            Location::Lds(offset) => {
                let range = offset as usize..(offset + bytes) as usize;
                let marks = self.local.get(range).unwrap_or_default();
                let all = !marks.iter().any(|mark| mark.is_clean());
                marks.first().copied().filter(|_| all).unwrap_or_default()
            }
            // Scratch memory, which contains spilled registers, is treated as initialised.
            Location::Scratch { .. } => Mark::default(),
        }
    }

    /// Reports an error if a store or an atomic writes a value that was computed from uninitialised memory.
    fn check_write(
        &mut self,
        checked: &CheckedInstruction,
        touch: &LaneAccess,
        registers: &Registers,
        space: Space<'_>,
    ) {
        let piece = &checked.pieces[touch.piece];
        if !matches!(touch.at, Location::Global(_)) || registers.are_clean() {
            return;
        }
        let computes = piece.kind == Kind::Atomic && !piece.exchange;
        for word in 0..piece.bytes.div_ceil(4) {
            let mark = stored(registers, piece.data, word, touch.lane);
            if let Some(origin) = mark.origin().filter(|_| mark.computed() || computes) {
                self.mistake(space, origin, ForbiddenUse::Stored);
            }
        }
    }

    pub(super) fn writes(
        &mut self,
        checked: &CheckedInstruction,
        touches: &[LaneAccess],
        registers: &Registers,
        space: Space<'_>,
    ) {
        for (number, piece) in checked.pieces.iter().enumerate() {
            if piece.kind != Kind::Load {
                self.written_by(piece, of_piece(touches, number), registers, space);
            }
        }
    }

    fn written_by(
        &mut self,
        piece: &Piece,
        touches: &[LaneAccess],
        registers: &Registers,
        space: Space<'_>,
    ) {
        if registers.are_clean() {
            match self.find_allocations(touches, piece.bytes, space) {
                TrackedAllocations::Nowhere => return,
                TrackedAllocations::One(written, Some(range)) => return written.set(range, true),
                _ => {}
            }
        }
        for touch in touches {
            for word in 0..piece.bytes.div_ceil(4) {
                let bytes = (piece.bytes - 4 * word).min(4);
                let mut mark = stored(registers, piece.data, word, touch.lane);
                if piece.kind == Kind::Atomic && !piece.exchange {
                    mark = mark.after_computing();
                }
                match touch.at.plus(4 * word) {
                    Location::Global(address) => {
                        if let Some(written) = self.written(space, address) {
                            let copied = !mark.is_clean() && !mark.computed();
                            written.set(address..address + bytes, !copied);
                        }
                    }
                    Location::Lds(offset) => {
                        let range = offset as usize..(offset + bytes) as usize;
                        if self.local.len() < range.end && !mark.is_clean() {
                            self.local.resize(range.end, Mark::default());
                        }
                        let end = range.end.min(self.local.len());
                        if let Some(marks) = self.local.get_mut(range.start.min(end)..end) {
                            marks.fill(mark);
                        }
                    }
                    Location::Scratch { .. } => {}
                }
            }
        }
    }
}

/// Returns the state of a register that a store writes to memory, for one lane.
fn stored(registers: &Registers, data: Data, word: u64, lane: usize) -> Mark {
    match data {
        Data::Rows(row) | Data::UpperHalf(row) => {
            let lanes = registers.row(row + word as usize);
            match lanes.never_written >> lane & 1 {
                0 => Mark::default(),
                _ => Mark::new(lanes.origin, lanes.computed >> lane & 1 == 1),
            }
        }
        Data::Scalars(first) => registers.scalar(first + word as u16),
        Data::Nothing => Mark::default(),
    }
}
