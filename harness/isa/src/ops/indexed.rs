//! Implements the instructions that access registers whose numbers are known only at run time.

use crate::{
    exec::{Binder, on_wave},
    operation::{DataFlow, Operation, Table, operations},
    registers::HALF,
    text::{Base, Text, Unsupported, register},
    wave::{INDEXING, Wave, active},
};

/// Lowest bit of the field in M0 that contains the mode of `s_set_gpr_idx_on`.
const MODE_SHIFT: u32 = 12;
const DESTINATION: u32 = 8;

/// Returns the implementation of a `v_movrel*` instruction, which adds M0 to the register number of the source operand,
/// of the destination, or of both. `source` and `target` receive M0 and return the number to add to the source operand
/// and to the destination.
fn relative(source: fn(u32) -> u32, target: fn(u32) -> u32) -> Binder {
    Box::new(move |text: &Text| {
        text.only(&[])?;
        let row = text.row(0, 1)?;
        let from = text.plain_source::<u32>(1)?;
        let source_row = text.row(1, 1).ok();
        on_wave(move |wave| {
            let m0 = wave.scalar[usize::from(register::M0)];
            let shifted = |row: usize, by: u32| {
                row.checked_add(by as usize).filter(|row| *row < register::ACCUMULATION.into())
            };
            // If the register number is too large, a source operand is read from v0, and a destination is not written.
            let values: [u32; 2 * HALF] = match source_row {
                Some(row) => {
                    let row = shifted(row, source(m0)).unwrap_or(0);
                    std::array::from_fn(|lane| wave.lane(row, lane))
                }
                None => [from.uniform(wave); 2 * HALF],
            };
            if let Some(row) = shifted(row, target(m0)) {
                for lane in active(wave.exec()) {
                    wave.set_lane(row, lane, values[lane]);
                }
            }
        })
    })
}

fn set_index(wave: &mut Wave, index: u32) {
    let m0 = &mut wave.scalar[usize::from(register::M0)];
    *m0 = (*m0 & !0xff) | (index & 0xff);
}

fn set_mode(wave: &mut Wave, mode: u32) {
    let m0 = &mut wave.scalar[usize::from(register::M0)];
    *m0 = (*m0 & !(0xf << MODE_SHIFT)) | mode << MODE_SHIFT;
}

fn mode(text: &Text, index: usize) -> Result<u32, Unsupported> {
    let Base::Word(word) = &text.operand(index)?.base else { return Err(Unsupported) };
    let names =
        word.strip_prefix("gpr_idx(").and_then(|w| w.strip_suffix(')')).ok_or(Unsupported)?;
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).try_fold(0, |mode, name| {
        let bit = match name {
            "SRC0" => 1,
            "SRC1" => 2,
            "SRC2" => 4,
            "DST" => DESTINATION,
            _ => return Err(Unsupported),
        };
        Ok(mode | bit)
    })
}

/// Returns the text of a vector instruction for a wave in indexing mode, in which M0 is added to register numbers.
/// Returns `None` if the instruction is not affected.
///
/// # Errors
/// Returns `Unsupported` if the interpreter does not support the instruction in indexing mode.
pub fn moved(text: &Text, m0: u32) -> Result<Option<Text>, Unsupported> {
    let (index, mode) = ((m0 & 0xff) as u16, m0 >> MODE_SHIFT & 0xf);
    if !text.mnemonic.starts_with("v_") {
        return Ok(None);
    }
    // Hardware does not add M0 to the register numbers of these instructions. The interpreter rejects them in indexing
    // mode.
    if ["v_readlane", "v_readfirstlane", "v_writelane", "v_swap"]
        .iter()
        .any(|name| text.mnemonic.starts_with(name))
    {
        return Err(Unsupported);
    }
    // The first operand is a destination, for a comparison a scalar one. An addition with carry or a division step has
    // a second destination.
    let has_flags = text.mnemonic.contains("_co_")
        || ["v_div_scale", "v_mad_u64", "v_mad_i64"]
            .iter()
            .any(|name| text.mnemonic.starts_with(name));
    let destinations = if has_flags { 2 } else { 1 };
    let mut moved = text.clone();
    for (position, operand) in moved.operands.iter_mut().enumerate() {
        let bit = match position.checked_sub(destinations) {
            None => DESTINATION,
            Some(source) => 1 << source,
        };
        if let Base::Vector { first, count } = &mut operand.base
            && mode & bit != 0
        {
            *first = first.checked_add(index).ok_or(Unsupported)?;
            if *first + *count > register::ACCUMULATION {
                return Err(Unsupported);
            }
        }
    }
    Ok(Some(moved))
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "v_movrels_b32" => Operation::from(relative(|m0| m0, |_| 0)).with_flow(DataFlow::Anywhere);
        "v_movreld_b32" => Operation::from(relative(|_| 0, |m0| m0)).with_flow(DataFlow::Anywhere);
        "v_movrelsd_b32" => Operation::from(relative(|m0| m0, |m0| m0)).with_flow(DataFlow::Anywhere);
        "v_movrelsd_2_b32" =>
            Operation::from(relative(|m0| m0 & 0x3ff, |m0| m0 >> 16 & 0x3ff)).with_flow(DataFlow::Anywhere);
        "s_set_gpr_idx_on" => Operation::from(Box::new(|text: &Text| {
            let (index, mode) = (text.plain_source::<u32>(0)?, mode(text, 1)?);
            on_wave(move |wave| {
                set_index(wave, index.uniform(wave));
                set_mode(wave, mode);
                wave.set_detour(INDEXING, true);
            })
        })).with_flow(DataFlow::Nothing);
        "s_set_gpr_idx_off" => Operation::from(Box::new(|_: &Text| on_wave(|wave| wave.set_detour(INDEXING, false)))).with_flow(DataFlow::Nothing);
        "s_set_gpr_idx_idx" => Operation::from(Box::new(|text: &Text| {
            let index = text.plain_source::<u32>(0)?;
            on_wave(move |wave| set_index(wave, index.uniform(wave)))
        })).with_flow(DataFlow::Nothing);
        "s_set_gpr_idx_mode" => Operation::from(Box::new(|text: &Text| {
            let mode = mode(text, 0)?;
            on_wave(move |wave| set_mode(wave, mode))
        })).with_flow(DataFlow::Nothing);
    }
}
