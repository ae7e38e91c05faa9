//! Implements buffer loads, stores and atomics (MUBUF), with the range check of the buffer descriptor.

use device::Descriptors;

use super::{
    atomic::{Atomic, returns_old_value},
    gather::Addresses,
    memory::{Location, Transfer, only_addressing},
    scratch,
    to_lds::ToLds,
    typed,
};
use crate::{
    exec::{Bound, on_machine},
    machine::Machine,
    registers::HALF,
    text::{Base, Text, Unsupported},
    wave::{Wave, active},
};

/// Returns the stride and the number of records in a buffer descriptor.
pub(crate) fn extent(wave: &Wave, descriptor: u16) -> (u64, u64) {
    let at = usize::from(descriptor);
    (u64::from(wave.scalar[at + 1] >> 16 & 0x3fff), u64::from(wave.scalar[at + 2]))
}

/// Bit in the second dword of the descriptor. The bit is set if the buffer is scratch memory, in which the dwords of
/// the lanes are interleaved.
pub(crate) const SWIZZLE_ENABLE: u32 = 1 << 31;

#[derive(Clone, Copy)]
pub(crate) struct Address {
    index: Option<usize>,
    offset_row: Option<usize>,
    descriptor: u16,
    scalar_offset: ScalarOffset,
    constant: u32,
    of_gfx9: bool,
    /// True for instructions that convert data. For such instructions, the descriptor contains a format in the bits
    /// that otherwise extend the stride.
    converts: bool,
}

/// Rule that decides whether an access is in the range of a buffer.
#[derive(Clone, Copy, PartialEq)]
enum Range {
    All,
    Nothing,
    /// The end of the access, counted from the start of the buffer, must not exceed this number of bytes. The scalar
    /// offset is included.
    Bytes(u64),
    /// The index of the access must be smaller than this number.
    Elements(u64),
    /// The index of the access must be smaller than `elements`, and the access must end within the first `stride` bytes
    /// of the element. The scalar offset does not count for this check.
    Within {
        elements: u64,
        stride: u64,
    },
}

/// Bit in the fourth dword of the descriptor. If the bit is set, the lane number is used as the index.
const ADD_TID_ENABLE: u32 = 1 << 23;

#[derive(Clone, Copy)]
enum ScalarOffset {
    Register(u16),
    Constant(u64),
}

/// Returns true if the architecture uses buffer descriptors in the layout of GFX9.
///
/// # Errors
/// Returns [`Unsupported`] if the interpreter does not know the layout of descriptors.
pub(super) fn is_of_gfx9(text: &Text) -> Result<bool, Unsupported> {
    match text.site.arch.facts().descriptors {
        Descriptors::Gfx9 => Ok(true),
        Descriptors::Gfx10 | Descriptors::Gfx11 | Descriptors::Gfx12 => Ok(false),
        Descriptors::Gfx1250 => Err(Unsupported),
    }
}

impl Address {
    pub(crate) fn parse(text: &Text, vector: usize) -> Result<Address, Unsupported> {
        let (by_index, by_offset) = (text.has("idxen"), text.has("offen"));
        let row = match &text.operand(vector)?.base {
            Base::Off => None,
            _ => Some(text.row(vector, if by_index && by_offset { 2 } else { 1 })?),
        };
        let scalar_offset = match &text.operand(vector + 2)?.base {
            Base::Constant(_) => match text.place::<u32>(vector + 2)? {
                crate::source::Place::Constant(bits) => ScalarOffset::Constant(bits),
                _ => return Err(Unsupported),
            },
            Base::Null => ScalarOffset::Constant(0),
            _ => ScalarOffset::Register(text.scalar(vector + 2, 1)?),
        };
        if row.is_some() != (by_index || by_offset) {
            return Err(Unsupported);
        }
        Ok(Address {
            index: row.filter(|_| by_index),
            offset_row: row.filter(|_| by_offset).map(|row| row + usize::from(by_index)),
            descriptor: text.scalar(vector + 1, 4)?,
            scalar_offset,
            constant: u32::try_from(text.number("offset")?).map_err(|_| Unsupported)?,
            of_gfx9: is_of_gfx9(text)?,
            converts: text.mnemonic.contains("_format_"),
        })
    }

    /// Returns true if the lane number is the index.
    ///
    /// Source for GFX9: measurements on gfx950 (rocm-systems#10928). On gfx950, an index in a register takes precedence
    /// over the lane number.
    fn adds_lane(&self, wave: &Wave) -> bool {
        let fourth = wave.scalar[usize::from(self.descriptor) + 3];
        fourth & ADD_TID_ENABLE != 0 && self.index.is_none()
    }

    /// Returns the rule for the range check. On GFX9 it depends on the instruction, on later GPUs on a field of the
    /// descriptor.
    ///
    /// Source: measurements on gfx950 (rocm-systems#10928); the RDNA 3 ISA guide, "Range checking", and Mesa,
    /// `ac_set_buf_desc_word3`.
    fn range(&self, wave: &Wave) -> Range {
        let (stride, records) = extent(wave, self.descriptor);
        if self.of_gfx9 {
            return match (self.index, stride) {
                (None, _) if self.adds_lane(wave) => Range::All,
                (Some(_), 1..) => Range::Elements(records),
                _ => Range::Bytes(records),
            };
        }
        match wave.scalar[usize::from(self.descriptor) + 3] >> 28 & 3 {
            0 => Range::Within { elements: records, stride },
            1 => Range::Elements(records),
            2 if records == 0 => Range::Nothing,
            2 => Range::All,
            _ => Range::Bytes(records),
        }
    }

    /// Returns the sum of the offset in a vector register (`register`) and the constant offset. The sum wraps at 32
    /// bits.
    #[inline(always)]
    fn offset(&self, register: u32) -> u64 {
        u64::from(register.wrapping_add(self.constant))
    }

    /// Returns the scratch offset that all active lanes use, for each half of the wave. Returns `None` if the
    /// descriptor does not describe scratch memory, or if the active lanes of a half have different offsets.
    #[inline(always)]
    fn in_scratch(&self, wave: &Wave) -> Option<[u64; 2]> {
        if wave.scalar[usize::from(self.descriptor) + 1] & SWIZZLE_ENABLE == 0 {
            return None;
        }
        let scalar = self.scalar(wave) / wave.lanes as u64;
        let mut offsets = [0; 2];
        for (half, offset) in offsets.iter_mut().enumerate().take(wave.halves()) {
            let register = match (self.offset_row, wave.exec_half(half)) {
                (None, _) | (_, 0) => 0,
                (Some(row), mask) => scratch::common(&wave.vector[row][half], mask)?,
            };
            *offset = self.offset(register) + scalar;
        }
        Some(offsets)
    }

    #[inline(always)]
    fn scalar(&self, wave: &Wave) -> u64 {
        match self.scalar_offset {
            ScalarOffset::Register(index) => u64::from(wave.scalar[usize::from(index)]),
            ScalarOffset::Constant(bits) => bits,
        }
    }

    /// Returns the addresses of those lanes that are in range, for each half of the wave. Returns `None` if the
    /// accesses must be executed lane by lane: the range is not counted in bytes, the addressing mode is not supported
    /// here, or the data of a lane is only partly in range.
    #[inline(always)]
    fn all(&self, wave: &Wave, bytes: u64) -> Option<[Addresses; 2]> {
        let second = wave.scalar[usize::from(self.descriptor) + 1];
        let Range::Bytes(records) = self.range(wave) else { return None };
        if second & SWIZZLE_ENABLE != 0 || self.index.is_some() || self.adds_lane(wave) {
            return None;
        }
        let scalar = self.scalar(wave);
        let base = (wave.pair(self.descriptor) & 0xffff_ffff_ffff).wrapping_add(scalar);
        let row = self.offset_row;
        let mut partly = false;
        let mut half = |half: usize| {
            let exec = if half < wave.halves() { wave.exec_half(half) } else { 0 };
            let mut addresses = Addresses { lanes: [0; HALF], mask: 0 };
            for lane in 0..HALF {
                let register = row.map_or(0, |row| wave.vector[row][half][lane]);
                let offset = self.offset(register);
                let end = offset + scalar + bytes;
                addresses.lanes[lane] = base.wrapping_add(offset);
                addresses.mask |= u32::from(end <= records) << lane;
                // The data of the lane starts in range and ends out of range.
                partly |= end > records && end < records + bytes && exec & (1 << lane) != 0;
            }
            addresses.mask &= exec;
            addresses
        };
        let halves = [half(0), half(1)];
        (!partly).then_some(halves)
    }

    /// Loads from the addresses that [`Address::all`] returned, and writes zeros to lanes that are out of range.
    /// Returns false if the caller must repeat the load lane by lane.
    #[inline(always)]
    fn load(
        &self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        halves: &[Addresses; 2],
        row: usize,
        transfer: Transfer,
    ) -> bool {
        let words = match transfer {
            Transfer::Words(words) => usize::from(words),
            _ => return false,
        };
        // If the load overwrites its address register, it cannot be repeated lane by lane.
        let overlaps = self.offset_row.is_some_and(|offset| (row..row + words).contains(&offset));
        if overlaps && wave.halves() == 2 && halves.iter().all(|half| half.mask != 0) {
            return false;
        }
        for (half, addresses) in halves.iter().enumerate().take(wave.halves()) {
            let outside = wave.exec_half(half) & !addresses.mask;
            if addresses.mask != 0 && !addresses.load(wave, machine, half, row, transfer) {
                return false;
            }
            if outside != 0 {
                for word in 0..words {
                    wave.blend(row + word, half, outside, &[0; HALF]);
                }
            }
        }
        true
    }

    /// Stores to the addresses that [`Address::all`] returned. Returns false if the caller must repeat the store lane
    /// by lane. Lanes that have already stored may store again, because that has no effect.
    #[inline(always)]
    fn store(
        &self,
        wave: &Wave,
        machine: &mut Machine<'_>,
        halves: &[Addresses; 2],
        row: usize,
        transfer: Transfer,
    ) -> bool {
        halves.iter().enumerate().all(|(half, addresses)| {
            addresses.mask == 0 || addresses.store(wave, machine, half, row, transfer)
        })
    }

    /// Returns the location of a part of a lane's data: `bytes` bytes, which start `skip` bytes after the start of the
    /// data. The parts are separate because hardware checks the range of each dword. Returns `None` if the part is out
    /// of range. Then a load returns zero, and a store does nothing.
    pub(crate) fn of(&self, wave: &Wave, lane: usize, skip: u64, bytes: u64) -> Option<Location> {
        let second = wave.scalar[usize::from(self.descriptor) + 1];
        let scalar = self.scalar(wave);
        let offset = self.offset(self.offset_row.map_or(0, |row| wave.lane(row, lane))) + skip;
        if second & SWIZZLE_ENABLE != 0 {
            // The scalar offset is the stack pointer, which counts the bytes of all lanes. The other offsets are
            // relative to the bytes of one lane.
            let offset = (offset & 0xffff_ffff) + scalar / wave.lanes as u64;
            return Some(Location::Scratch { lane, offset });
        }
        let (mut stride, _) = extent(wave, self.descriptor);
        let mut index = self.index.map_or(0, |row| u64::from(wave.lane(row, lane)));
        if self.adds_lane(wave) {
            index = lane as u64;
            if self.of_gfx9 && !self.converts {
                let fourth = wave.scalar[usize::from(self.descriptor) + 3];
                stride |= u64::from(fourth >> 15 & 15) << 14;
            }
        }
        let inside = match self.range(wave) {
            Range::All => true,
            Range::Nothing => false,
            Range::Bytes(size) => offset + scalar + bytes <= size,
            Range::Elements(elements) => index < elements,
            Range::Within { elements, stride } => index < elements && offset + bytes <= stride,
        };
        let base = wave.pair(self.descriptor) & 0xffff_ffff_ffff;
        inside.then(|| Location::Global(base + scalar + index * stride + offset))
    }
}

pub(crate) fn bind(text: &Text) -> Bound {
    only_addressing(text, &["offset", "idxen", "offen", "lds"])?;
    let name = text.mnemonic.strip_prefix("buffer_").ok_or(Unsupported)?;
    if let Some(typed) = typed::Access::parse(text, name) {
        return typed::bind(typed?);
    }
    if text.has("lds") {
        return ToLds::of_buffer(text, name)?.bind();
    }
    if let Some(name) = name.strip_prefix("load_") {
        let transfer = Transfer::parse_load(name, text.site.arch).ok_or(Unsupported)?;
        let row = text.row(0, transfer.words())?;
        let address = Address::parse(text, 1)?;
        // If the load overwrites its address register, it cannot be repeated lane by lane.
        let words = row..row + usize::from(transfer.words());
        let overlaps = address.offset_row.is_some_and(|offset| words.contains(&offset));
        return on_machine(move |wave, machine| {
            if let Transfer::Words(words) = transfer
                && !overlaps
                && let Some(offsets) = address.in_scratch(wave)
                && (0..wave.halves())
                    .all(|half| scratch::load(wave, half, row, words.into(), offsets[half]))
            {
                return Ok(());
            }
            if let Some(halves) = address.all(wave, bytes(transfer))
                && address.load(wave, machine, &halves, row, transfer)
            {
                return Ok(());
            }
            for lane in active(wave.exec()) {
                let (part, step) = parts(transfer);
                // The load may overwrite its address register. Therefore all addresses are computed before the first
                // load.
                let places: [_; 4] =
                    std::array::from_fn(|word| address.of(wave, lane, 4 * word as u64, step));
                for (word, place) in places.iter().enumerate().take(transfer.words().into()) {
                    match place {
                        Some(from) => part.load(wave, machine, row + word, lane, *from)?,
                        None => part.load_zero(wave, row + word, lane),
                    }
                }
            }
            Ok(())
        });
    }
    if let Some(name) = name.strip_prefix("store_") {
        let transfer = Transfer::parse(name).ok_or(Unsupported)?;
        let row = text.row(0, transfer.words())?;
        let address = Address::parse(text, 1)?;
        return on_machine(move |wave, machine| {
            if let Transfer::Words(words) = transfer
                && let Some(offsets) = address.in_scratch(wave)
                && (0..wave.halves())
                    .all(|half| scratch::store(wave, half, row, words.into(), offsets[half]))
            {
                return Ok(());
            }
            if let Some(halves) = address.all(wave, bytes(transfer))
                && address.store(wave, machine, &halves, row, transfer)
            {
                return Ok(());
            }
            for lane in active(wave.exec()) {
                let (part, step) = parts(transfer);
                for word in 0..usize::from(transfer.words()) {
                    if let Some(to) = address.of(wave, lane, 4 * word as u64, step) {
                        part.store(wave, machine, row + word, lane, to)?;
                    }
                }
            }
            Ok(())
        });
    }
    let atomic =
        Atomic::parse(name.strip_prefix("atomic_").ok_or(Unsupported)?).ok_or(Unsupported)?;
    let row = text.row(0, atomic.data_words())?;
    let target = returns_old_value(text).then_some(row);
    let address = Address::parse(text, 1)?;
    on_machine(move |wave, machine| {
        for lane in active(wave.exec()) {
            if let Some(at) = address.of(wave, lane, 0, u64::from(atomic.words()) * 4) {
                atomic.run(wave, machine, lane, at, row, target)?;
            }
        }
        Ok(())
    })
}

/// Returns the part of the data for which hardware checks the range, and its size in bytes. This part is a dword, or
/// the whole data if it is smaller than a dword.
pub(crate) fn parts(transfer: Transfer) -> (Transfer, u64) {
    match transfer {
        Transfer::Words(_) => (Transfer::Words(1), 4),
        other => (other, bytes(other)),
    }
}

pub(crate) fn bytes(transfer: Transfer) -> u64 {
    match transfer {
        Transfer::Words(words) => u64::from(words) * 4,
        Transfer::Bytes { count, .. } | Transfer::Half { count, .. } => u64::from(count),
    }
}
