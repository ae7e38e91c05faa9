//! Implements loads and stores: their data formats, and the addressing of global, flat and scratch memory.

mod address;

use device::Arch;

pub(crate) use address::Address;

use super::scratch;

use crate::{
    exec::{Bound, on_machine},
    machine::Machine,
    registers::HALF,
    text::{PRIVATE_APERTURE, SHARED_APERTURE, Text, Unsupported},
    wave::{Step, Stop, Wave, active},
};

/// Offset that is larger than the LDS of any GPU. Tensile's kernels for GFX90A set registers to zero by reading at
/// offset 0xf00000. Checked launches report a load past the workgroup's LDS only if it is below this offset.
pub(crate) const BEYOND_ANY_LDS: u64 = Arch::LARGEST_LDS as u64;

/// Location that a lane accesses.
#[derive(Clone, Copy, Debug)]
pub enum Location {
    /// Device address.
    Global(u64),
    /// Byte offset in the LDS of the workgroup.
    Lds(u64),
    /// Byte offset in the scratch memory of a lane.
    Scratch {
        /// Number of the lane in the wave.
        lane: usize,
        /// Byte offset in the scratch memory of the lane.
        offset: u64,
    },
}

impl Location {
    pub(crate) fn plus(self, bytes: u64) -> Location {
        match self {
            Location::Global(address) => Location::Global(address.wrapping_add(bytes)),
            Location::Lds(offset) => Location::Lds(offset + bytes),
            Location::Scratch { lane, offset } => {
                Location::Scratch { lane, offset: offset + bytes }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn read<const N: usize>(
        self,
        wave: &Wave,
        machine: &mut Machine<'_>,
    ) -> Result<[u8; N], Box<Stop>> {
        match self {
            Location::Global(address) => machine.read(address),
            Location::Lds(BEYOND_ANY_LDS..) => Ok([0; N]),
            Location::Lds(offset) => {
                let mut bytes = [0; N];
                if let Some(there) = machine.lds(offset, N) {
                    bytes.copy_from_slice(there);
                }
                Ok(bytes)
            }
            Location::Scratch { lane, offset } => {
                let mut bytes = [0; N];
                if N <= 4 && offset % 4 + N as u64 <= 4 {
                    let at = scratch_index(wave, lane, offset, false)?;
                    bytes.copy_from_slice(&wave.scratch[at..at + N]);
                    return Ok(bytes);
                }
                for (index, byte) in bytes.iter_mut().enumerate() {
                    let at = scratch_index(wave, lane, offset + index as u64, false)?;
                    *byte = wave.scratch[at];
                }
                Ok(bytes)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn write<const N: usize>(
        self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        bytes: [u8; N],
    ) -> Step {
        match self {
            Location::Global(address) => machine.write(address, bytes),
            Location::Lds(offset) => {
                if let Some(there) = machine.lds(offset, N) {
                    there.copy_from_slice(&bytes);
                }
                Ok(())
            }
            Location::Scratch { lane, offset } => {
                if N <= 4 && offset % 4 + N as u64 <= 4 {
                    let at = scratch_index(wave, lane, offset, true)?;
                    wave.scratch[at..at + N].copy_from_slice(&bytes);
                    return Ok(());
                }
                for (index, byte) in bytes.iter().enumerate() {
                    let at = scratch_index(wave, lane, offset + index as u64, true)?;
                    wave.scratch[at] = *byte;
                }
                Ok(())
            }
        }
    }
}

/// Returns the index of a byte in the scratch memory of the wave, given the byte's offset in the scratch memory of a
/// lane. The dwords of the lanes are interleaved.
///
/// # Errors
/// Returns a page fault if the offset is outside of the lane's scratch memory.
fn scratch_index(wave: &Wave, lane: usize, offset: u64, write: bool) -> Result<usize, Box<Stop>> {
    let (lanes, len) = (wave.lanes as u64, wave.scratch.len() as u64);
    // A negative offset is a very large unsigned number, for which the index would overflow.
    if offset < len {
        let at = offset / 4 * 4 * lanes + lane as u64 * 4 + offset % 4;
        if at < len {
            return Ok(at as usize);
        }
    }
    let address = u64::from(PRIVATE_APERTURE) << 32 | (offset & 0xffff_ffff);
    Err(Box::new(Stop::PageFault { address, write }))
}

/// Returns the location of a flat address. The upper half of the address determines whether it is in the LDS, in
/// scratch or in device memory.
pub(crate) fn flat(address: u64, lane: usize) -> Location {
    match (address >> 32) as u32 {
        SHARED_APERTURE => Location::Lds(address & 0xffff_ffff),
        PRIVATE_APERTURE => Location::Scratch { lane, offset: address & 0xffff_ffff },
        _ => Location::Global(address),
    }
}

/// Format in which data is moved between registers and memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Transfer {
    Words(u8),
    /// One or two bytes. A load sign-extends (`signed`) or zero-extends them to a whole register.
    Bytes {
        count: u8,
        signed: bool,
    },
    /// One or two bytes in half a register. A load keeps the other half if `keep` is true and clears it otherwise.
    Half {
        count: u8,
        signed: bool,
        high: bool,
        keep: bool,
    },
}

impl Transfer {
    /// Parses the part of a mnemonic after `load_` or `store_`; `None` if it is unknown.
    pub(crate) fn parse(name: &str) -> Option<Transfer> {
        let bytes = |count, signed| Some(Transfer::Bytes { count, signed });
        let half = |count, signed, high| Some(Transfer::Half { count, signed, high, keep: true });
        match name {
            "dword" | "b32" => Some(Transfer::Words(1)),
            "dwordx2" | "b64" => Some(Transfer::Words(2)),
            "dwordx3" | "b96" => Some(Transfer::Words(3)),
            "dwordx4" | "b128" => Some(Transfer::Words(4)),
            "ubyte" | "u8" | "byte" | "b8" => bytes(1, false),
            "sbyte" | "i8" => bytes(1, true),
            "ushort" | "u16" | "short" | "b16" => bytes(2, false),
            "sshort" | "i16" => bytes(2, true),
            "ubyte_d16" | "d16_u8" | "u8_d16" => half(1, false, false),
            "ubyte_d16_hi" | "d16_hi_u8" | "u8_d16_hi" | "byte_d16_hi" | "d16_hi_b8"
            | "b8_d16_hi" => half(1, false, true),
            "sbyte_d16" | "d16_i8" | "i8_d16" => half(1, true, false),
            "sbyte_d16_hi" | "d16_hi_i8" | "i8_d16_hi" => half(1, true, true),
            "short_d16" | "d16_b16" | "u16_d16" => half(2, false, false),
            "short_d16_hi" | "d16_hi_b16" | "u16_d16_hi" | "b16_d16_hi" => half(2, false, true),
            _ => None,
        }
    }

    /// Parses the part of a mnemonic after `load_`. On GPUs whose registers have ECC, a load of half a register clears
    /// the other half (LLVM, `GCNSubtarget::d16PreservesUnusedBits`). Tensile's kernels for GFX90A rely on that.
    pub(crate) fn parse_load(name: &str, arch: Arch) -> Option<Transfer> {
        let ecc = arch.has_ecc();
        Transfer::parse(name).map(|transfer| match transfer {
            Transfer::Half { count, signed, high, .. } => {
                Transfer::Half { count, signed, high, keep: !ecc }
            }
            other => other,
        })
    }

    fn bytes(self) -> u8 {
        match self {
            Transfer::Words(words) => 4 * words,
            Transfer::Bytes { count, .. } | Transfer::Half { count, .. } => count,
        }
    }

    pub(crate) fn words(self) -> u16 {
        match self {
            Transfer::Words(words) => u16::from(words),
            _ => 1,
        }
    }

    #[inline(always)]
    pub(crate) fn load(
        self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        row: usize,
        lane: usize,
        from: Location,
    ) -> Step {
        match self {
            Transfer::Words(1) => {
                let bytes = from.read::<4>(wave, machine)?;
                wave.set_lane(row, lane, u32::from_le_bytes(bytes));
            }
            Transfer::Words(words) => {
                let mut values = [0; 4];
                for (word, value) in values.iter_mut().enumerate().take(usize::from(words)) {
                    let bytes = from.plus(word as u64 * 4).read::<4>(wave, machine)?;
                    *value = u32::from_le_bytes(bytes);
                }
                for (word, value) in values.iter().enumerate().take(usize::from(words)) {
                    wave.set_lane(row + word, lane, *value);
                }
            }
            Transfer::Bytes { count, signed } => {
                let value = small(wave, machine, count, signed, from)?;
                wave.set_lane(row, lane, value);
            }
            Transfer::Half { count, signed, high, keep } => {
                let value = small(wave, machine, count, signed, from)?;
                let old = if keep { wave.lane(row, lane) } else { 0 };
                let new = if high {
                    (old & 0xffff) | value << 16
                } else {
                    (old & 0xffff_0000) | (value & 0xffff)
                };
                wave.set_lane(row, lane, new);
            }
        }
        Ok(())
    }

    /// Writes the result of a load that is out of the range of a buffer: zeros.
    pub(crate) fn load_zero(self, wave: &mut Wave, row: usize, lane: usize) {
        let old = wave.lane(row, lane);
        let kept = match self {
            Transfer::Half { keep: true, high: true, .. } => old & 0xffff,
            Transfer::Half { keep: true, high: false, .. } => old & 0xffff_0000,
            _ => 0,
        };
        wave.set_lane(row, lane, kept);
    }

    #[inline(always)]
    pub(crate) fn store(
        self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        row: usize,
        lane: usize,
        to: Location,
    ) -> Step {
        match self {
            Transfer::Words(words) => {
                for word in 0..usize::from(words) {
                    let bytes = wave.lane(row + word, lane).to_le_bytes();
                    to.plus(word as u64 * 4).write(wave, machine, bytes)?;
                }
                Ok(())
            }
            Transfer::Bytes { count, .. } | Transfer::Half { count, .. } => {
                let high = matches!(self, Transfer::Half { high: true, .. });
                let value = wave.lane(row, lane) >> if high { 16 } else { 0 };
                let [first, second, ..] = value.to_le_bytes();
                if count == 1 {
                    to.write(wave, machine, [first])
                } else {
                    to.write(wave, machine, [first, second])
                }
            }
        }
    }
}

fn small(
    wave: &Wave,
    machine: &mut Machine<'_>,
    count: u8,
    signed: bool,
    from: Location,
) -> Result<u32, Box<Stop>> {
    if count == 1 {
        let [byte] = from.read::<1>(wave, machine)?;
        Ok(if signed { i32::from(byte as i8) as u32 } else { u32::from(byte) })
    } else {
        let word = u16::from_le_bytes(from.read::<2>(wave, machine)?);
        Ok(if signed { i32::from(word as i16) as u32 } else { u32::from(word) })
    }
}

/// Kind of memory that an instruction addresses, which the start of its name shows: `global_`, `flat_` or `scratch_`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Segment {
    Global,
    Flat,
    Scratch,
}

/// A load or store of dwords by half a wave, for the case that all 32 lanes are active and access consecutive memory.
#[derive(Clone, Copy)]
struct Block {
    address: Address,
    row: usize,
    words: usize,
}

impl Block {
    fn new(address: Address, row: usize, transfer: Transfer) -> Option<Block> {
        match transfer {
            Transfer::Words(words) => Some(Block { address, row, words: words.into() }),
            _ => None,
        }
    }

    /// Returns a pointer to the data of lane 0. Returns `None` if the accesses must be made lane by lane, which also
    /// finds the lane that faults.
    #[inline(always)]
    fn find(
        &self,
        wave: &Wave,
        machine: &mut Machine<'_>,
        half: usize,
        write: bool,
    ) -> Option<*mut [u8; 4]> {
        if wave.exec_half(half) != u32::MAX {
            return None;
        }
        let first = self.address.consecutive(wave, half, self.words as u32 * 4)?;
        machine.memory(first, (HALF * self.words * 4) as u64, write).ok().map(|at| at.cast())
    }

    #[inline(always)]
    fn load(&self, wave: &mut Wave, machine: &mut Machine<'_>, half: usize) -> bool {
        let Some(at) = self.find(wave, machine, half, false) else { return false };
        if self.words == 1 {
            // SAFETY: `find` checked that 32 dwords are mapped at `at`. `Machine::read` explains why the read is
            // allowed.
            let values = unsafe { at.cast::<[[u8; 4]; HALF]>().read_unaligned() };
            wave.vector[self.row][half] = values.map(u32::from_le_bytes);
            return true;
        }
        for word in 0..self.words {
            let target = &mut wave.vector[self.row + word][half];
            for (lane, value) in target.iter_mut().enumerate() {
                // SAFETY: `find` checked that 32 times `words` dwords are mapped at `at`. `Machine::read` explains why
                // the read is allowed.
                *value = u32::from_le_bytes(unsafe {
                    at.add(lane * self.words + word).read_unaligned()
                });
            }
        }
        true
    }

    #[inline(always)]
    fn store(&self, wave: &Wave, machine: &mut Machine<'_>, half: usize) -> bool {
        let Some(at) = self.find(wave, machine, half, true) else { return false };
        if self.words == 1 {
            let values = wave.vector[self.row][half].map(u32::to_le_bytes);
            // SAFETY: the dwords are mapped, as in `load`, and the address space guarantees that the range is writable.
            unsafe { at.cast::<[[u8; 4]; HALF]>().write_unaligned(values) };
            return true;
        }
        for word in 0..self.words {
            for (lane, value) in wave.vector[self.row + word][half].iter().enumerate() {
                // SAFETY: the dwords are mapped, as in `load`, and the address space guarantees that the range is
                // writable.
                unsafe { at.add(lane * self.words + word).write_unaligned(value.to_le_bytes()) };
            }
        }
        true
    }
}

fn active_half(wave: &Wave, half: usize) -> impl Iterator<Item = usize> + use<> {
    active(u64::from(wave.exec_half(half)) << (half * HALF))
}

/// Modifiers that select a cache policy. They have no effect, because caches are not modelled.
pub(crate) const CACHE_POLICY: [&str; 11] =
    ["glc", "slc", "dlc", "nt", "sc0", "sc1", "scc", "th", "scope", "nv", "lds"];

pub(crate) fn only_addressing(text: &Text, addressing: &[&str]) -> Result<(), Unsupported> {
    let known =
        |name: &str| name != "lds" && CACHE_POLICY.contains(&name) || addressing.contains(&name);
    if text.modifier_names().all(known) { Ok(()) } else { Err(Unsupported) }
}

pub(crate) fn bind(text: &Text) -> Bound {
    let (segment, operation) = text.mnemonic.split_once('_').ok_or(Unsupported)?;
    let segment = match segment {
        "global" => Segment::Global,
        "flat" => Segment::Flat,
        "scratch" => Segment::Scratch,
        _ => return Err(Unsupported),
    };
    only_addressing(text, &["offset", "scale_offset"])?;
    if let Some(name) = operation.strip_prefix("load_tr_") {
        return super::transpose::bind(text, segment, name);
    }
    if let (Segment::Global, Some(name)) = (segment, operation.strip_prefix("load_lds_")) {
        return super::to_lds::ToLds::of_global(text, name)?.bind();
    }
    if let Some(name) = operation.strip_prefix("load_") {
        let transfer = Transfer::parse_load(name, text.site.arch).ok_or(Unsupported)?;
        let row = text.row(0, transfer.words())?;
        let address = Address::parse(text, segment, 1, 2)?;
        let block = Block::new(address, row, transfer);
        return on_machine(move |wave, machine| {
            for half in 0..wave.halves() {
                if block.is_some_and(|block| block.load(wave, machine, half)) {
                    continue;
                }
                let mask = wave.exec_half(half);
                if let Transfer::Words(words) = transfer
                    && let Some(offset) = address.in_scratch(wave, half, mask)
                    && scratch::load(wave, half, row, words.into(), offset)
                {
                    continue;
                }
                let gathered = address.all(wave, half, mask);
                if gathered.is_some_and(|all| all.load(wave, machine, half, row, transfer)) {
                    continue;
                }
                for lane in active_half(wave, half) {
                    let from = address.of(wave, lane);
                    transfer.load(wave, machine, row, lane, from)?;
                }
            }
            Ok(())
        });
    }
    if let Some(name) = operation.strip_prefix("store_") {
        let transfer = Transfer::parse(name).ok_or(Unsupported)?;
        let row = text.row(1, transfer.words())?;
        let address = Address::parse(text, segment, 0, 2)?;
        let block = Block::new(address, row, transfer);
        return on_machine(move |wave, machine| {
            for half in 0..wave.halves() {
                if block.is_some_and(|block| block.store(wave, machine, half)) {
                    continue;
                }
                let mask = wave.exec_half(half);
                if let Transfer::Words(words) = transfer
                    && let Some(offset) = address.in_scratch(wave, half, mask)
                    && scratch::store(wave, half, row, words.into(), offset)
                {
                    continue;
                }
                let gathered = address.all(wave, half, mask);
                if gathered.is_some_and(|all| all.store(wave, machine, half, row, transfer)) {
                    continue;
                }
                for lane in active_half(wave, half) {
                    let to = address.of(wave, lane);
                    transfer.store(wave, machine, row, lane, to)?;
                }
            }
            Ok(())
        });
    }
    let name = operation.strip_prefix("atomic_").ok_or(Unsupported)?;
    let atomic = super::atomic::Atomic::parse(name).ok_or(Unsupported)?;
    let returns = super::atomic::returns_old_value(text);
    let first = usize::from(returns);
    let target = if returns { Some(text.row(0, atomic.words())?) } else { None };
    let address = Address::parse(text, segment, first, first + 2)?;
    let data = text.row(first + 1, atomic.data_words())?;
    on_machine(move |wave, machine| {
        for lane in active(wave.exec()) {
            let at = address.of(wave, lane);
            atomic.run(wave, machine, lane, at, data, target)?;
        }
        Ok(())
    })
}
