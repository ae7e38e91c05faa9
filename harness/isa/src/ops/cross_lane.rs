//! Implements the instructions that move data between lanes, or between lanes and scalar registers.

use crate::{
    exec::{Binder, on_wave},
    operation::{DataFlow, Operation, Table, operations, picks},
    registers::HALF,
    text::{Text, Unsupported},
    wave::{Wave, active},
};

/// Returns the number of set bits in `mask` that belong to lanes below `lane`. The lowest bit of `mask` is that of lane
/// `first`.
fn before(mask: u32, lane: usize, first: usize) -> u32 {
    let below = match lane.saturating_sub(first) {
        0 => 0,
        n if n >= 32 => u32::MAX,
        n => (1 << n) - 1,
    };
    (mask & below).count_ones()
}

fn count_before(first: usize) -> Binder {
    Box::new(move |text: &Text| {
        text.only(&[])?;
        let row = text.row(0, 1)?;
        let (mask, base) = (text.plain_source::<u32>(1)?, text.plain_source::<u32>(2)?);
        on_wave(move |wave| {
            for lane in active(wave.exec()) {
                let count = before(mask.word(wave, lane, 0), lane, first);
                let value = count.wrapping_add(base.word(wave, lane, 0));
                wave.set_lane(row, lane, value);
            }
        })
    })
}

fn copy_row(wave: &Wave, row: usize) -> [u32; 64] {
    std::array::from_fn(|lane| wave.vector[row][lane / HALF][lane % HALF])
}

/// Effect of `op_sel` on inactive lanes in a permutation. `fetch` is true if inactive lanes may be read. If it is
/// false, a lane that would read an inactive lane becomes zero (`zero` is true) or keeps its value (`zero` is false).
#[derive(Clone, Copy)]
struct Inactive {
    fetch: bool,
    zero: bool,
}

impl Inactive {
    fn parse(text: &Text) -> Result<Inactive, Unsupported> {
        text.only(&["op_sel"])?;
        let options = text.list("op_sel").unwrap_or_default();
        let bit = |at: usize| options.get(at) == Some(&1);
        Ok(Inactive { fetch: bit(0), zero: bit(1) })
    }

    /// Writes to each active lane of register `target` the element of `values` that belongs to another lane: lane
    /// `number(lane)` of the same row of 16 lanes, or, if `other_row` is true, of the other row of the pair of rows.
    #[inline(always)]
    fn permute(
        self,
        wave: &mut Wave,
        (target, values): (usize, [u32; 64]),
        other_row: bool,
        number: impl Fn(usize) -> usize,
    ) {
        let exec = wave.exec();
        for lane in active(exec) {
            let row = if other_row { (lane & !15) ^ 16 } else { lane & !15 };
            let from = row + number(lane);
            if self.fetch || exec >> from & 1 != 0 {
                wave.set_lane(target, lane, values[from]);
            } else if self.zero {
                wave.set_lane(target, lane, 0);
            }
        }
    }
}

/// Returns the implementation of `v_permlane16` or `v_permlanex16`. Two scalar operands contain four bits for each
/// lane, which select the lane to read. `v_permlane16` selects from the same row of 16 lanes, `v_permlanex16` from the
/// other row of the pair.
fn permute_rows(other_row: bool) -> Binder {
    Box::new(move |text: &Text| {
        let inactive = Inactive::parse(text)?;
        let (target, source) = (text.row(0, 1)?, text.row(1, 1)?);
        let (low, high) = (text.plain_source::<u32>(2)?, text.plain_source::<u32>(3)?);
        on_wave(move |wave| {
            let values = copy_row(wave, source);
            let nibbles =
                u64::from(low.uniform::<u32>(wave)) | u64::from(high.uniform::<u32>(wave)) << 32;
            let number = |lane: usize| (nibbles >> (4 * (lane % 16)) & 15) as usize;
            inactive.permute(wave, (target, values), other_row, number);
        })
    })
}

/// Returns the implementation of `v_permlane16_var` or `v_permlanex16_var`, where a vector register contains the lane
/// numbers. `op_sel` determines whether inactive lanes are read. The formula in the RDNA 4 ISA guide omits this, but
/// measurements by others on a gfx1201 show it.
fn permute_rows_by_lane(other_row: bool) -> Binder {
    Box::new(move |text: &Text| {
        let inactive = Inactive::parse(text)?;
        let (target, source, index) = (text.row(0, 1)?, text.row(1, 1)?, text.row(2, 1)?);
        on_wave(move |wave| {
            let values = copy_row(wave, source);
            let indices = copy_row(wave, index);
            let number = |lane: usize| (indices[lane] & 15) as usize;
            inactive.permute(wave, (target, values), other_row, number);
        })
    })
}

/// Returns the implementation of an instruction that exchanges odd blocks of the first register with even blocks of the
/// second one. A block has `block` lanes.
fn swap_blocks(block: usize) -> Binder {
    Box::new(move |text: &Text| {
        text.only(&["op_sel", "bound_ctrl", "fi"])?;
        let (first, second) = (text.row(0, 1)?, text.row(1, 1)?);
        on_wave(move |wave| {
            let exec = wave.exec();
            for lane in (0..wave.lanes).filter(|lane| (lane / block).is_multiple_of(2)) {
                let odd = lane + block;
                let (a, b) = (wave.lane(first, odd), wave.lane(second, lane));
                if exec >> odd & 1 != 0 {
                    wave.set_lane(first, odd, b);
                }
                if exec >> lane & 1 != 0 {
                    wave.set_lane(second, lane, a);
                }
            }
        })
    })
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "v_readfirstlane_b32" => picks(Box::new(|text: &Text| {
            let (target, source) = (text.scalar(0, 1)?, text.plain_source::<u32>(1)?);
            on_wave(move |wave| {
                let exec = wave.exec();
                let lane = if exec == 0 { 0 } else { exec.trailing_zeros() as usize };
                wave.scalar[usize::from(target)] = source.word(wave, lane, 0);
            })
        }));
        "v_readlane_b32" => picks(Box::new(|text: &Text| {
            let (target, source) = (text.scalar(0, 1)?, text.plain_source::<u32>(1)?);
            let lane = text.plain_source::<u32>(2)?;
            on_wave(move |wave| {
                let lane = lane.uniform::<u32>(wave) as usize & (wave.lanes - 1);
                wave.scalar[usize::from(target)] = source.word(wave, lane, 0);
            })
        }));
        "v_writelane_b32" => Operation::from(Box::new(|text: &Text| {
            let (row, source) = (text.row(0, 1)?, text.plain_source::<u32>(1)?);
            let lane = text.plain_source::<u32>(2)?;
            on_wave(move |wave| {
                let lane = lane.uniform::<u32>(wave) as usize & (wave.lanes - 1);
                let value = source.uniform(wave);
                wave.set_lane(row, lane, value);
            })
        })).with_flow(DataFlow::Mixes);
        "v_mbcnt_lo_u32_b32" => count_before(0);
        "v_mbcnt_hi_u32_b32" => count_before(32);
        "v_permlane16_b32" => picks(permute_rows(false));
        "v_permlanex16_b32" => picks(permute_rows(true));
        "v_permlane16_var_b32" => picks(permute_rows_by_lane(false));
        "v_permlanex16_var_b32" => picks(permute_rows_by_lane(true));
        "v_permlane16_swap_b32" => Operation::from(swap_blocks(16)).with_flow(DataFlow::Mixes);
        "v_permlane32_swap_b32" => Operation::from(swap_blocks(32)).with_flow(DataFlow::Mixes);
        "v_permlane64_b32" => picks(Box::new(|text: &Text| {
            let (target, source) = (text.row(0, 1)?, text.row(1, 1)?);
            on_wave(move |wave| {
                let values = copy_row(wave, source);
                if wave.lanes == 64 {
                    for lane in active(wave.exec()) {
                        wave.set_lane(target, lane, values[lane ^ 32]);
                    }
                }
            })
        }));
        "v_swap_b16" => Operation::from(Box::new(|text: &Text| {
            let high = [text.operand(0)?.high, text.operand(1)?.high];
            let [a, b] = [(0, high[0]), (1, high[1])].map(|(index, high)| {
                text.row(index, 1).map(|row| (row, if high { 16 } else { 0 }))
            });
            let (a, b) = (a?, b?);
            on_wave(move |wave| {
                for lane in active(wave.exec()) {
                    let half = |wave: &Wave, (row, shift): (usize, u32)| wave.lane(row, lane) >> shift & 0xffff;
                    let put = |wave: &mut Wave, (row, shift): (usize, u32), value: u32| {
                        let kept = wave.lane(row, lane) & !(0xffff << shift);
                        wave.set_lane(row, lane, kept | value << shift);
                    };
                    let (x, y) = (half(wave, a), half(wave, b));
                    put(wave, a, y);
                    put(wave, b, x);
                }
            })
        })).with_flow(DataFlow::Swaps);
        "v_swap_b32" => Operation::from(Box::new(|text: &Text| {
            let (a, b) = (text.row(0, 1)?, text.row(1, 1)?);
            on_wave(move |wave| {
                for lane in active(wave.exec()) {
                    let (x, y) = (wave.lane(a, lane), wave.lane(b, lane));
                    wave.set_lane(a, lane, y);
                    wave.set_lane(b, lane, x);
                }
            })
        })).with_flow(DataFlow::Swaps);
    }
}
