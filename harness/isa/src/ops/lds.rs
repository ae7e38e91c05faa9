//! Implements LDS loads, stores and atomics, and the lane permutations that use the LDS crossbar.

use super::{
    atomic::Atomic,
    gather::{inside_lds, load_lds, store_lds},
    memory::{Location, Transfer},
    sync, transpose,
};
use crate::{
    exec::{Bound, on_machine, on_wave},
    registers::{HALF, Row},
    source::Source,
    text::{Text, Unsupported, register},
    wave::{Wave, active},
};

/// Parses the name of an LDS atomic. Some of these names differ from those of atomics on memory.
pub(crate) fn atomic(name: &str) -> Option<Atomic> {
    Some(match name {
        "wrxchg_rtn_b32" | "storexchg_rtn_b32" => Atomic::parse("swap")?,
        "wrxchg_rtn_b64" | "storexchg_rtn_b64" => Atomic::parse("swap_x2")?,
        _ => {
            let plain = name.replace("_rtn", "");
            // In the LDS, every atomic has a type in its name. Names without a type belong to atomics on memory.
            if !plain.contains(|c: char| c.is_ascii_digit()) || plain.starts_with("cmpswap") {
                return None;
            }
            Atomic::parse(&plain)?
        }
    })
}

/// Returns the location in the LDS at `address` plus `offset`. The sum wraps at 32 bits, because compilers fold
/// negative constants into the register.
pub(crate) fn at(address: u32, offset: u32) -> Location {
    Location::Lds(u64::from(address.wrapping_add(offset)))
}

/// Returns the active lanes of the wave, starting with the lanes of half `half`.
fn remaining(wave: &Wave, half: usize) -> impl Iterator<Item = usize> + use<> {
    active(wave.exec() & (u64::MAX << (half * HALF)))
}

pub(crate) fn bind(text: &Text) -> Bound {
    let name = text.mnemonic.strip_prefix("ds_").ok_or(Unsupported)?;
    match name {
        "bpermute_b32" | "bpermute_fi_b32" | "permute_b32" => return permute(text, name),
        "swizzle_b32" => return swizzle(text),
        "nop" => return Err(Unsupported),
        "consume" | "append" => return count(text, name == "append"),
        _ if sync::is_sync(name) => return sync::bind(text, name),
        _ => {}
    }
    text.only(&["offset", "offset0", "offset1"])?;
    if let Some(transposed) = transpose::Local::parse(name) {
        return transposed.bind(text);
    }
    if let Some(rest) = name.strip_prefix("read2").or(name.strip_prefix("load_2addr_")) {
        return two(text, rest, true);
    }
    if let Some(rest) = name.strip_prefix("write2").or(name.strip_prefix("store_2addr_")) {
        return two(text, rest, false);
    }
    let offset = text.number("offset")? as u32;
    if let Some(rest) = name.strip_prefix("read_").or(name.strip_prefix("load_")) {
        if rest.starts_with("addtid") {
            return Err(Unsupported);
        }
        let transfer = Transfer::parse_load(rest, text.site.arch).ok_or(Unsupported)?;
        let row = text.row(0, transfer.words())?;
        let address = text.plain_source::<u32>(1)?;
        return on_machine(move |wave, machine| {
            let mut done = 0;
            if let Transfer::Words(words) = transfer {
                let (size, words) = (machine.lds.len(), usize::from(words));
                while done < wave.halves()
                    && let Some(at) = inside_lds(wave, done, (&address, offset), 4 * words, size)
                {
                    load_lds(wave, &machine.lds, done, row, words, &at);
                    done += 1;
                }
                if done == wave.halves() {
                    return Ok(());
                }
            }
            for lane in remaining(wave, done) {
                let place = at(address.word(wave, lane, 0), offset);
                transfer.load(wave, machine, row, lane, place)?;
            }
            Ok(())
        });
    }
    if let Some(rest) = name.strip_prefix("write_").or(name.strip_prefix("store_")) {
        if rest.starts_with("addtid") {
            return Err(Unsupported);
        }
        let transfer = Transfer::parse(rest).ok_or(Unsupported)?;
        let row = text.row(1, transfer.words())?;
        let address = text.plain_source::<u32>(0)?;
        return on_machine(move |wave, machine| {
            let mut done = 0;
            if let Transfer::Words(words) = transfer {
                let (size, words) = (machine.lds.len(), usize::from(words));
                while done < wave.halves()
                    && let Some(at) = inside_lds(wave, done, (&address, offset), 4 * words, size)
                {
                    store_lds(wave, &mut machine.lds, done, row, words, &at);
                    done += 1;
                }
                if done == wave.halves() {
                    return Ok(());
                }
            }
            for lane in remaining(wave, done) {
                let place = at(address.word(wave, lane, 0), offset);
                transfer.store(wave, machine, row, lane, place)?;
            }
            Ok(())
        });
    }
    let returns = name.contains("_rtn");
    let first = usize::from(returns);
    // The first data operand is the comparison value for `cmpst`, and the new value for `cmpstore`.
    if let Some(rest) = name.strip_prefix("cmpst") {
        let atomic = match rest.rsplit_once('_').map(|(_, of)| of) {
            Some("b32") => Atomic::CompareWord,
            Some("b64") => Atomic::CompareDouble,
            Some("f32") => Atomic::CompareF32,
            Some("f64") => Atomic::CompareF64,
            _ => return Err(Unsupported),
        };
        let words = atomic.words();
        let compare_first = !rest.starts_with("ore");
        let target = if returns { Some(text.row(0, words)?) } else { None };
        let address = text.plain_source::<u32>(first)?;
        let (a, b) = (text.row(first + 1, words)?, text.row(first + 2, words)?);
        let (value_row, compare_row) = if compare_first { (b, a) } else { (a, b) };
        return on_machine(move |wave, machine| {
            for lane in active(wave.exec()) {
                let place = at(address.word(wave, lane, 0), offset);
                let bits = |wave: &Wave, row: usize| {
                    let high = if words == 2 { wave.lane(row + 1, lane) } else { 0 };
                    u64::from(wave.lane(row, lane)) | u64::from(high) << 32
                };
                let (value, compare) = (bits(wave, value_row), bits(wave, compare_row));
                let old = atomic.apply(wave, machine, place, value, compare)?;
                if let Some(row) = target {
                    wave.set_lane(row, lane, old as u32);
                    if words == 2 {
                        wave.set_lane(row + 1, lane, (old >> 32) as u32);
                    }
                }
            }
            Ok(())
        });
    }
    let atomic = atomic(name).ok_or(Unsupported)?;
    let target = if returns { Some(text.row(0, atomic.words())?) } else { None };
    let address = text.plain_source::<u32>(first)?;
    let data = text.row(first + 1, atomic.data_words())?;
    on_machine(move |wave, machine| {
        for lane in active(wave.exec()) {
            let place = at(address.word(wave, lane, 0), offset);
            atomic.run(wave, machine, lane, place, data, target)?;
        }
        Ok(())
    })
}

/// Parses the offsets of `read2`, `write2` or a form with `st64`. Returns the number of registers of an element, and
/// the two offsets in bytes. The encoded offsets count elements.
pub(crate) fn two_offsets(text: &Text, name: &str) -> Result<(u16, [u32; 2]), Unsupported> {
    let words: u16 = if name.ends_with("b64") { 2 } else { 1 };
    let stride = if name.starts_with("st64_") || name.starts_with("stride64_") { 64 } else { 1 };
    let bytes = u32::from(words) * 4;
    // The two fields have eight bits each.
    let field = |name| u8::try_from(text.number(name)?).map_err(|_| Unsupported);
    let start = |name| field(name).map(|n| u32::from(n) * bytes * stride);
    Ok((words, [start("offset0")?, start("offset1")?]))
}

fn two(text: &Text, name: &str, load: bool) -> Bound {
    let (words, [first, second]) = two_offsets(text, name)?;
    let transfer = Transfer::Words(words as u8);
    if load {
        let row = text.row(0, words * 2)?;
        let address = text.plain_source::<u32>(1)?;
        on_machine(move |wave, machine| {
            let (size, words, mut done) = (machine.lds.len(), usize::from(words), 0);
            // The load may overwrite its address register. Therefore both offsets are computed before the first load.
            while done < wave.halves()
                && let Some(at) = inside_lds(wave, done, (&address, first), 4 * words, size)
                && let Some(then) = inside_lds(wave, done, (&address, second), 4 * words, size)
            {
                load_lds(wave, &machine.lds, done, row, words, &at);
                load_lds(wave, &machine.lds, done, row + words, words, &then);
                done += 1;
            }
            if done == wave.halves() {
                return Ok(());
            }
            for lane in remaining(wave, done) {
                // The load may overwrite its address register. Therefore the address is read before the first load.
                let base = address.word(wave, lane, 0);
                transfer.load(wave, machine, row, lane, at(base, first))?;
                transfer.load(wave, machine, row + words, lane, at(base, second))?;
            }
            Ok(())
        })
    } else {
        let address = text.plain_source::<u32>(0)?;
        let (a, b) = (text.row(1, words)?, text.row(2, words)?);
        on_machine(move |wave, machine| {
            for lane in active(wave.exec()) {
                let base = address.word(wave, lane, 0);
                transfer.store(wave, machine, a, lane, at(base, first))?;
                // If both offsets are equal, hardware writes only the first value (the RDNA 2 ISA guide,
                // "Double-address instructions").
                if first != second {
                    transfer.store(wave, machine, b, lane, at(base, second))?;
                }
            }
            Ok(())
        })
    }
}

fn snapshot(wave: &Wave, source: &Source) -> Row {
    let mut row = [[0; HALF]; 2];
    for lane in 0..wave.lanes {
        row[lane / HALF][lane % HALF] = source.word(wave, lane, 0);
    }
    row
}

/// Returns the implementation of `bpermute` or `permute`. In `bpermute` the address selects the lane from which a lane
/// reads; in `permute` it selects the lane to which a lane writes. The value of an inactive lane is read as zero, and
/// inactive lanes are not written. `bpermute_fi` also reads the values of inactive lanes.
///
/// "Lane is MOD 32 regardless of wave size" (the RDNA 3 ISA guide). Therefore on GFX10 and GFX11 the two halves of a
/// wave of 64 lanes are permuted separately, and LLVM and LLPC use other instructions to move data between halves. The
/// guides of CDNA and RDNA 4 describe a permutation of all 64 lanes.
fn permute(text: &Text, name: &str) -> Bound {
    let (push, fetch_inactive) = (name == "permute_b32", name == "bpermute_fi_b32");
    text.only(&["offset"])?;
    let target = text.row(0, 1)?;
    let address = text.plain_source::<u32>(1)?;
    let data = text.plain_source::<u32>(2)?;
    let offset = text.number("offset")? as u32;
    let reach = text.site.arch.facts().permuted_lanes;
    on_wave(move |wave| {
        let exec = wave.exec();
        let values = snapshot(wave, &data);
        let mut result = [[0u32; HALF]; 2];
        let below = wave.lanes.min(reach) - 1;
        for lane in active(exec) {
            let at = address.word(wave, lane, 0).wrapping_add(offset) >> 2;
            let other = (lane & !below) | (at as usize & below);
            let (from, to) = if push { (lane, other) } else { (other, lane) };
            if fetch_inactive || exec >> from & 1 != 0 {
                result[to / HALF][to % HALF] = values[from / HALF][from % HALF];
            }
        }
        for lane in active(exec) {
            wave.set_lane(target, lane, result[lane / HALF][lane % HALF]);
        }
    })
}

/// Returns the lane from which `lane` reads in `ds_swizzle_b32`. The upper bits of the pattern select a mode: FFT
/// order, rotation, permutation of four lanes, or 5-bit masks for `and`, `or` and `xor` (the ISA guides,
/// `DS_SWIZZLE_B32`).
fn swizzled(pattern: usize, lane: usize) -> usize {
    let (low, upper) = (lane & 31, lane & 32);
    match pattern {
        0xe000.. => {
            let mask = pattern & 31;
            let reversed = ((low as u8).reverse_bits() >> 3) as usize;
            (reversed >> mask.count_ones()) | (lane & mask) | upper
        }
        0xc000.. => {
            let (left, rotate, mask) = (pattern >> 10 & 1 == 0, pattern >> 5 & 31, pattern & 31);
            let turned = if left { low + rotate } else { low + 32 - rotate };
            (low & mask) | (turned & 31 & !mask) | upper
        }
        0x8000.. => (lane & !3) | (pattern >> (2 * (lane & 3)) & 3),
        _ => {
            let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
            upper | (((low & and) | or) ^ xor)
        }
    }
}

/// Returns the implementation of `ds_swizzle_b32`. A lane that reads from an inactive lane receives zero.
fn swizzle(text: &Text) -> Bound {
    let target = text.row(0, 1)?;
    let source = text.plain_source::<u32>(1)?;
    let pattern = usize::from(text.site.immediate);
    on_wave(move |wave| {
        let exec = wave.exec();
        let values = snapshot(wave, &source);
        for lane in active(exec) {
            let from = swizzled(pattern, lane);
            let value = if exec >> from & 1 != 0 { values[from / HALF][from % HALF] } else { 0 };
            wave.set_lane(target, lane, value);
        }
    })
}

/// Returns a function that computes the location of the counter of `ds_append` and `ds_consume`. The location is the
/// sum of the base in M0 and the offset, or on GFX12 the offset alone (the RDNA 3 and RDNA 4 ISA guides, `DS_APPEND`).
pub(crate) fn counter(text: &Text) -> Result<impl Fn(&Wave) -> Location + use<>, Unsupported> {
    let offset = text.number("offset")? as u32;
    let has_base = text.site.arch.facts().append_adds_m0;
    Ok(move |wave: &Wave| {
        let base = if has_base { wave.scalar[usize::from(register::M0)] >> 16 } else { 0 };
        at(base, offset)
    })
}

/// Implements `ds_append` (if `up` is true) and `ds_consume`, which add the number of active lanes to the counter or
/// subtract it.
fn count(text: &Text, up: bool) -> Bound {
    text.only(&["offset"])?;
    let target = text.row(0, 1)?;
    let counter = counter(text)?;
    on_machine(move |wave, machine| {
        let at = counter(wave);
        let lanes = wave.exec().count_ones();
        let old = u32::from_le_bytes(at.read(wave, machine)?);
        let new = if up { old.wrapping_add(lanes) } else { old.wrapping_sub(lanes) };
        at.write(wave, machine, new.to_le_bytes())?;
        for lane in active(wave.exec()) {
            wave.set_lane(target, lane, old);
        }
        Ok(())
    })
}
