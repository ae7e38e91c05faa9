//! Computes the addresses of global, flat and scratch memory instructions.

use super::{Location, Segment, Transfer, flat};
use crate::{
    ops::{gather::Addresses, scratch},
    registers::HALF,
    text::{Base, SHARED_APERTURE, Text, Unsupported},
    wave::Wave,
};

/// Address operands of an instruction, from which the address of each lane is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    segment: Segment,
    /// Vector register that contains a 64-bit address, or a 32-bit offset if there is a scalar base; `None` if the
    /// instruction has no vector operand.
    vector: Option<usize>,
    scalar: Option<u16>,
    offset: i64,
    /// Factor for the vector offset if the offset is signed; `None` if it is unsigned and counts bytes.
    factor: Option<i64>,
}

/// Returns the factor by which `scale_offset` multiplies the offset: the size of the data in bytes, or 1 without this
/// modifier. Atomics, and sizes that are not a power of two, are not supported.
fn scale(text: &Text) -> Result<i64, Unsupported> {
    if !text.has("scale_offset") {
        return Ok(1);
    }
    let name = text.mnemonic.split_once('_').ok_or(Unsupported)?.1;
    let transfer = match (name.strip_prefix("load_"), name.strip_prefix("store_")) {
        (Some(name), _) => Transfer::parse_load(name, text.site.arch),
        (_, Some(name)) => Transfer::parse(name),
        (None, None) => None,
    };
    let bytes = transfer.ok_or(Unsupported)?.bytes();
    if bytes.is_power_of_two() { Ok(bytes.into()) } else { Err(Unsupported) }
}

impl Address {
    /// Parses an address. `vector` and `scalar` are the positions of the operands. Flat instructions have a scalar
    /// operand only on GFX12.
    pub(crate) fn parse(
        text: &Text,
        segment: Segment,
        vector: usize,
        scalar: usize,
    ) -> Result<Address, Unsupported> {
        let base = match text.operands.get(scalar).map(|operand| &operand.base) {
            None | Some(Base::Off | Base::Null) => None,
            Some(_) => Some(text.scalar(scalar, if segment == Segment::Scratch { 1 } else { 2 })?),
        };
        let vector = match &text.operand(vector)?.base {
            Base::Off => None,
            _ if segment == Segment::Scratch || base.is_some() => Some(text.row(vector, 1)?),
            _ => Some(text.row(vector, 2)?),
        };
        if segment != Segment::Scratch && vector.is_none() {
            return Err(Unsupported);
        }
        let (scale, is_indexed) = (scale(text)?, base.is_some() || segment == Segment::Scratch);
        if scale != 1 && !(is_indexed && vector.is_some()) {
            return Err(Unsupported);
        }
        let signed = text.site.arch.facts().signed_vector_offsets && is_indexed;
        let factor = signed.then_some(scale);
        Ok(Address { segment, vector, scalar: base, offset: text.number("offset")?, factor })
    }

    #[inline(always)]
    fn extended(&self, low: u32) -> u64 {
        match self.factor {
            None => u64::from(low),
            Some(factor) => (i64::from(low as i32) * factor) as u64,
        }
    }

    #[inline(always)]
    pub(crate) fn of(&self, wave: &Wave, lane: usize) -> Location {
        let low = self.vector.map_or(0, |row| wave.lane(row, lane));
        if self.segment == Segment::Scratch {
            let base = self.scalar.map_or(0, |first| wave.scalar[usize::from(first)]);
            let low = self.extended(low) as u32;
            let offset = i64::from(low.wrapping_add(base) as i32) + self.offset;
            return Location::Scratch { lane, offset: offset as u64 };
        }
        let address = match (self.scalar, self.vector) {
            (Some(base), _) => wave.pair(base).wrapping_add(self.extended(low)),
            (None, Some(row)) => u64::from(low) | u64::from(wave.lane(row + 1, lane)) << 32,
            (None, None) => 0,
        };
        let address = address.wrapping_add_signed(self.offset);
        if self.segment == Segment::Flat { flat(address, lane) } else { Location::Global(address) }
    }

    /// Returns the addresses for half a wave. Returns `None` if the addresses cannot be computed at once, or if one of
    /// them may be in the LDS or in scratch.
    #[inline(always)]
    pub(super) fn all(&self, wave: &Wave, half: usize, mask: u32) -> Option<Addresses> {
        let row = self.vector?;
        if self.factor.is_some() {
            return None;
        }
        let low = &wave.vector[row][half];
        let lanes: [u64; HALF] = match (self.segment, self.scalar) {
            (Segment::Scratch, _) | (Segment::Flat, Some(_)) => return None,
            (_, Some(base)) => {
                let base = wave.pair(base).wrapping_add_signed(self.offset);
                std::array::from_fn(|lane| base.wrapping_add(low[lane].into()))
            }
            (_, None) => {
                let high = &wave.vector[row + 1][half];
                std::array::from_fn(|lane| {
                    let address = u64::from(low[lane]) | u64::from(high[lane]) << 32;
                    address.wrapping_add_signed(self.offset)
                })
            }
        };
        // Addresses in the apertures of the LDS and scratch, or below, are computed lane by lane.
        let apertures = u64::from(SHARED_APERTURE + 1) << 32;
        let above = |address: &u64| *address >= apertures;
        if self.segment == Segment::Flat && !lanes.iter().all(above) {
            return None;
        }
        Some(Addresses { lanes, mask })
    }

    /// Returns the scratch offset if it is the same in all active lanes of half a wave, otherwise `None`. Also returns
    /// `None` for global and flat accesses, and if the vector offset is signed.
    #[inline(always)]
    pub(super) fn in_scratch(&self, wave: &Wave, half: usize, mask: u32) -> Option<u64> {
        if self.segment != Segment::Scratch || self.factor.is_some() {
            return None;
        }
        let low = match self.vector {
            Some(row) => scratch::common(&wave.vector[row][half], mask)?,
            None => 0,
        };
        let base = self.scalar.map_or(0, |first| wave.scalar[usize::from(first)]);
        u64::try_from(i64::from(low.wrapping_add(base) as i32) + self.offset).ok()
    }

    /// Returns the address of lane 0 of half a wave if the lanes access consecutive memory, `stride` bytes per lane.
    /// This is the common case.
    #[inline(always)]
    pub(super) fn consecutive(&self, wave: &Wave, half: usize, stride: u32) -> Option<u64> {
        let row = self.vector?;
        if self.factor.is_some() {
            return None;
        }
        let low = &wave.vector[row][half];
        let mut differs = 0;
        for lane in 0..HALF {
            differs |= low[lane] ^ low[0].wrapping_add(lane as u32 * stride);
        }
        if self.scalar.is_none() {
            let high = &wave.vector[row + 1][half];
            for lane in 0..HALF {
                differs |= high[lane] ^ high[0];
            }
        }
        // The lower half of the last lane's address must not wrap either.
        if differs != 0 || low[0].checked_add(HALF as u32 * stride).is_none() {
            return None;
        }
        match self.of(wave, half * HALF) {
            Location::Global(first) => Some(first),
            _ => None,
        }
    }
}
