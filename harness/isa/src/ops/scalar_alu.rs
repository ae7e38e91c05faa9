//! Implements scalar arithmetic, logic and comparisons, and access to hardware registers.

use crate::{
    exec::{Binder, on_machine, on_wave},
    operation::{DataFlow, Operation, Table, accumulates, bits, copies, operations},
    scalar::{
        binary, binary_nz, binary_scc, compare, compare_immediate, save_exec, unary, unary_nz,
        with_immediate,
    },
    text::{Base, Text, Unsupported},
    value::Value,
};

/// Returns the offset and the width of the bit field that `s_bfe` extracts from an operand of `bits` bits. The second
/// operand, `b`, contains the offset in its lowest bits and the width in bits 22:16.
fn field(b: u32, bits: u32) -> (u32, u32) {
    (b & (bits - 1), (b >> 16) & 0x7f)
}

fn extract_u32(a: u32, b: u32) -> u32 {
    let (offset, width) = field(b, 32);
    let mask = if width >= 32 { u32::MAX } else { (1 << width) - 1 };
    (a >> offset) & mask
}

fn extract_i32(a: i32, b: u32) -> i32 {
    let (offset, width) = field(b, 32);
    if width == 0 {
        return 0;
    }
    let up = 32u32.saturating_sub(width);
    ((a >> offset) << up) >> up
}

fn extract_u64(a: u64, b: u32) -> u64 {
    let (offset, width) = field(b, 64);
    let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
    (a >> offset) & mask
}

fn extract_i64(a: i64, b: u32) -> i64 {
    let (offset, width) = field(b, 64);
    if width == 0 {
        return 0;
    }
    let up = 64u32.saturating_sub(width);
    ((a >> offset) << up) >> up
}

fn shift_add(shift: u32) -> Binder {
    binary_scc(move |a: u32, b: u32, _| {
        let sum = (u64::from(a) << shift) + u64::from(b);
        (sum as u32, sum >> 32 != 0)
    })
}

fn sum(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

fn difference(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    (
        a.wrapping_sub(b).wrapping_sub(u32::from(borrow)),
        u64::from(b) + u64::from(borrow) > u64::from(a),
    )
}

fn found(index: u32, bits: u32) -> u32 {
    if index == bits { u32::MAX } else { index }
}

/// Returns the number of leading bits that equal the sign bit, or `u32::MAX` (-1) if all bits are equal.
fn sign_bits_32(a: u32) -> u32 {
    found((a ^ ((a as i32) >> 31) as u32).leading_zeros(), 32)
}

fn sign_bits_64(a: i64) -> u32 {
    found((a ^ (a >> 63)).leading_zeros(), 64)
}

/// Returns one bit for each group of four bits of `a`. The bit is set if a bit of the group is set.
fn quads(a: u64, bits: u32) -> u64 {
    (0..bits / 4).fold(0, |mask, quad| mask | u64::from(a >> (4 * quad) & 15 != 0) << quad)
}

fn whole_quad(a: u64, lanes: u32) -> u64 {
    (0..lanes / 4).filter(|quad| a >> (quad * 4) & 15 != 0).fold(0, |m, quad| m | 15 << (quad * 4))
}

fn conditional_move<T: Value>() -> Binder {
    Box::new(|text| {
        let target = text.scalar(0, T::WORDS as u16)?;
        let source = text.plain_source::<T>(1)?;
        on_wave(move |wave| {
            if wave.scc() {
                let bits = source.uniform::<T>(wave).bits();
                wave.scalar[usize::from(target)] = bits as u32;
                if T::WORDS == 2 {
                    wave.scalar[usize::from(target) + 1] = (bits >> 32) as u32;
                }
            }
        })
    })
}

fn set_bit<T: Value>(value: bool) -> Binder {
    Box::new(move |text| {
        let target = text.scalar(0, T::WORDS as u16)?;
        let source = text.plain_source::<u32>(1)?;
        on_wave(move |wave| {
            let bit = source.uniform::<u32>(wave) & (T::WORDS as u32 * 32 - 1);
            let register = &mut wave.scalar[usize::from(target) + bit as usize / 32];
            if value {
                *register |= 1 << (bit % 32);
            } else {
                *register &= !(1 << (bit % 32));
            }
        })
    })
}

/// Parses the name and the bit field of `hwreg(NAME, offset, width)`.
fn hardware_register(text: &Text, index: usize) -> Result<(String, u32, u32), Unsupported> {
    let Base::Word(word) = &text.operand(index)?.base else { return Err(Unsupported) };
    let inner = word.strip_prefix("hwreg(").and_then(|w| w.strip_suffix(')')).ok_or(Unsupported)?;
    let mut parts = inner.split(',').map(str::trim);
    // GFX12 adds the prefix WAVE to the registers of a wave (LLVM, `AMDGPUAsmUtils.cpp`).
    let name = parts.next().unwrap_or_default().replace("HW_REG_WAVE_", "HW_REG_");
    let mut number = |default: u32| match parts.next() {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| Unsupported),
    };
    let (offset, width) = (number(0)?, number(32)?);
    if offset + width > 32 || width == 0 { Err(Unsupported) } else { Ok((name, offset, width)) }
}

fn get_register() -> Binder {
    Box::new(|text| {
        let target = text.scalar(0, 1)?;
        let (name, offset, width) = hardware_register(text, 1)?;
        let bits = move |value: u32| (value >> offset) & (u32::MAX >> (32 - width));
        match name.as_str() {
            "HW_REG_SH_MEM_BASES" => {
                let value = (crate::text::SHARED_APERTURE & 0xffff_0000)
                    | crate::text::PRIVATE_APERTURE >> 16;
                on_wave(move |wave| wave.scalar[usize::from(target)] = bits(value))
            }
            "HW_REG_MODE" => on_wave(move |wave| {
                wave.scalar[usize::from(target)] = bits(wave.mode());
            }),
            "HW_REG_SHADER_CYCLES" | "HW_REG_SHADER_CYCLES_LO" => {
                on_machine(move |wave, machine| {
                    wave.scalar[usize::from(target)] = bits(machine.nanoseconds() as u32);
                    Ok(())
                })
            }
            "HW_REG_SHADER_CYCLES_HI" => on_machine(move |wave, machine| {
                wave.scalar[usize::from(target)] = bits((machine.nanoseconds() >> 32) as u32);
                Ok(())
            }),
            // Kernels read these registers to distinguish compute units. The interpreter has one compute unit, with one
            // SIMD and one wave slot.
            "HW_REG_HW_ID" | "HW_REG_HW_ID1" | "HW_REG_HW_ID2" | "HW_REG_XCC_ID"
            // IB_STS2 of GFX1250 contains the size of the cluster. In the interpreter, no workgroup belongs to a
            // cluster.
            | "HW_REG_TRAPSTS" | "HW_REG_STATUS" | "HW_REG_IB_STS2" => {
                on_wave(move |wave| wave.scalar[usize::from(target)] = 0)
            }
            _ => Err(Unsupported),
        }
    })
}

/// Returns the implementation of `s_sendmsg_rtn`, which requests properties of the environment. The interpreter returns
/// 0 for all of them except the time, because its only queue has the doorbell number 0 and it does not have a trap
/// handler.
fn ask(words: u16) -> Binder {
    Box::new(move |text| {
        let target = usize::from(text.scalar(0, words)?);
        let Base::Word(word) = &text.operand(1)?.base else { return Err(Unsupported) };
        let message = word.strip_prefix("sendmsg(").and_then(|w| w.strip_suffix(')'));
        let ticks = match message.map(str::trim) {
            Some("MSG_RTN_GET_REALTIME") => true,
            Some(
                "MSG_RTN_GET_DOORBELL"
                | "MSG_RTN_GET_DDID"
                | "MSG_RTN_GET_TMA"
                | "MSG_RTN_GET_TBA"
                | "MSG_RTN_GET_SE_AID_ID",
            ) => false,
            _ => return Err(Unsupported),
        };
        on_machine(move |wave, machine| {
            let answer = if ticks { machine.nanoseconds() / 10 } else { 0 };
            wave.scalar[target] = answer as u32;
            if words == 2 {
                wave.scalar[target + 1] = (answer >> 32) as u32;
            }
            Ok(())
        })
    })
}

/// Returns the implementation of `s_setreg`, which can write only MODE. Arithmetic always keeps 16-bit and 64-bit
/// denormals, as all released kernels request, and ignores the bits of MODE that could change this.
fn set_register() -> Binder {
    /// Bits of MODE that extend the numbers of vector registers, on architectures with register banks (LLVM,
    /// `AMDGPULowerVGPREncoding.cpp`).
    const REGISTER_BANKS: std::ops::Range<u32> = 12..20;

    Box::new(|text| {
        let (name, offset, width) = hardware_register(text, 0)?;
        if name.starts_with("HW_REG_FLAT_SCR") {
            // The address of scratch memory is ignored, because the interpreter keeps the scratch of each wave
            // separately.
            return on_wave(|_| {});
        }
        if name != "HW_REG_MODE" {
            return Err(Unsupported);
        }
        let banks = text.site.arch.facts().has_register_banks;
        if banks && offset < REGISTER_BANKS.end && offset + width > REGISTER_BANKS.start {
            return Err(Unsupported);
        }
        let source = text.plain_source::<u32>(1)?;
        let field = u32::MAX >> (32 - width) << offset;
        on_wave(move |wave| {
            let value = source.uniform::<u32>(wave) << offset & field;
            wave.set_mode((wave.mode() & !field) | value);
        })
    })
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "s_mov_b32" => copies(unary(|a: u32| a));
        "s_mov_b64" => copies(unary(|a: u64| a));
        "s_cmov_b32" => copies(conditional_move::<u32>());
        "s_cmov_b64" => copies(conditional_move::<u64>());
        "s_not_b32" => bits(unary_nz(|a: u32| !a));
        "s_not_b64" => bits(unary_nz(|a: u64| !a));
        "s_abs_i32" => unary_nz(|a: i32| a.wrapping_abs());
        "s_brev_b32" => unary(|a: u32| a.reverse_bits());
        "s_brev_b64" => unary(|a: u64| a.reverse_bits());
        "s_sext_i32_i8" => unary(|a: u32| i32::from(a as i8));
        "s_sext_i32_i16" => unary(|a: u32| i32::from(a as i16));
        "s_bcnt0_i32_b32" => unary_nz(|a: u32| a.count_zeros());
        "s_bcnt0_i32_b64" => unary_nz(|a: u64| a.count_zeros());
        "s_bcnt1_i32_b32" => unary_nz(|a: u32| a.count_ones());
        "s_bcnt1_i32_b64" => unary_nz(|a: u64| a.count_ones());
        "s_ff1_i32_b32" | "s_ctz_i32_b32" => unary(|a: u32| found(a.trailing_zeros(), 32));
        "s_ff1_i32_b64" | "s_ctz_i32_b64" => unary(|a: u64| found(a.trailing_zeros(), 64));
        "s_ff0_i32_b32" => unary(|a: u32| found(a.trailing_ones(), 32));
        "s_ff0_i32_b64" => unary(|a: u64| found(a.trailing_ones(), 64));
        "s_flbit_i32_b32" | "s_clz_i32_u32" => unary(|a: u32| found(a.leading_zeros(), 32));
        "s_flbit_i32_b64" | "s_clz_i32_u64" => unary(|a: u64| found(a.leading_zeros(), 64));
        "s_flbit_i32" | "s_cls_i32" => unary(sign_bits_32);
        "s_flbit_i32_i64" | "s_cls_i32_i64" => unary(sign_bits_64);
        "s_quadmask_b32" => unary_nz(|a: u32| quads(a.into(), 32) as u32);
        "s_quadmask_b64" => unary_nz(|a: u64| quads(a, 64));
        "s_bitreplicate_b64_b32" => unary(|a: u32| {
            (0..32).fold(0u64, |bits, i| bits | (u64::from(a >> i & 1) * 3) << (2 * i))
        });
        "s_wqm_b32" => unary_nz(|a: u32| whole_quad(u64::from(a), 32) as u32);
        "s_wqm_b64" => unary_nz(|a: u64| whole_quad(a, 64));
        "s_bitset0_b32" => set_bit::<u32>(false);
        "s_bitset1_b32" => set_bit::<u32>(true);
        "s_bitset0_b64" => set_bit::<u64>(false);
        "s_bitset1_b64" => set_bit::<u64>(true);

        "s_add_u32" | "s_add_co_u32" => binary_scc(|a: u32, b: u32, _| sum(a, b, false));
        "s_addc_u32" | "s_add_co_ci_u32" => binary_scc(sum);
        "s_sub_u32" | "s_sub_co_u32" => binary_scc(|a: u32, b: u32, _| difference(a, b, false));
        "s_subb_u32" | "s_sub_co_ci_u32" => binary_scc(difference);
        "s_add_i32" | "s_add_co_i32" => binary_scc(|a: i32, b: i32, _| a.overflowing_add(b));
        "s_sub_i32" | "s_sub_co_i32" => binary_scc(|a: i32, b: i32, _| a.overflowing_sub(b));
        "s_add_u64" | "s_add_nc_u64" => binary(|a: u64, b: u64| a.wrapping_add(b));
        "s_sub_u64" | "s_sub_nc_u64" => binary(|a: u64, b: u64| a.wrapping_sub(b));
        "s_mul_u64" => binary(|a: u64, b: u64| a.wrapping_mul(b));
        "s_mul_i32" => binary(|a: u32, b: u32| a.wrapping_mul(b));
        "s_mul_hi_u32" => binary(|a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32);
        "s_mul_hi_i32" => binary(|a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32);
        "s_absdiff_i32" => binary_nz(|a: i32, b: i32| a.wrapping_sub(b).wrapping_abs());
        "s_min_u32" => binary_scc(|a: u32, b: u32, _| (a.min(b), a < b));
        // For the maximum, "SCC = S0 >= S1", and for the minimum, "SCC = S0 < S1" (all ISA guides).
        "s_max_u32" => binary_scc(|a: u32, b: u32, _| (a.max(b), a >= b));
        "s_min_i32" => binary_scc(|a: i32, b: i32, _| (a.min(b), a < b));
        "s_max_i32" => binary_scc(|a: i32, b: i32, _| (a.max(b), a >= b));
        "s_lshl1_add_u32" => shift_add(1);
        "s_lshl2_add_u32" => shift_add(2);
        "s_lshl3_add_u32" => shift_add(3);
        "s_lshl4_add_u32" => shift_add(4);

        "s_and_b32" => bits(binary_nz(|a: u32, b: u32| a & b));
        "s_and_b64" => bits(binary_nz(|a: u64, b: u64| a & b));
        "s_or_b32" => bits(binary_nz(|a: u32, b: u32| a | b));
        "s_or_b64" => bits(binary_nz(|a: u64, b: u64| a | b));
        "s_xor_b32" => binary_nz(|a: u32, b: u32| a ^ b);
        "s_xor_b64" => binary_nz(|a: u64, b: u64| a ^ b);
        "s_andn2_b32" | "s_and_not1_b32" => bits(binary_nz(|a: u32, b: u32| a & !b));
        "s_andn2_b64" | "s_and_not1_b64" => bits(binary_nz(|a: u64, b: u64| a & !b));
        "s_orn2_b32" | "s_or_not1_b32" => bits(binary_nz(|a: u32, b: u32| a | !b));
        "s_orn2_b64" | "s_or_not1_b64" => bits(binary_nz(|a: u64, b: u64| a | !b));
        "s_nand_b32" => binary_nz(|a: u32, b: u32| !(a & b));
        "s_nand_b64" => binary_nz(|a: u64, b: u64| !(a & b));
        "s_nor_b32" => binary_nz(|a: u32, b: u32| !(a | b));
        "s_nor_b64" => binary_nz(|a: u64, b: u64| !(a | b));
        "s_xnor_b32" => binary_nz(|a: u32, b: u32| !(a ^ b));
        "s_xnor_b64" => binary_nz(|a: u64, b: u64| !(a ^ b));
        "s_lshl_b32" => bits(binary_nz(|a: u32, b: u32| a << (b & 31)));
        "s_lshl_b64" => bits(binary_nz(|a: u64, b: u32| a << (b & 63)));
        "s_lshr_b32" => bits(binary_nz(|a: u32, b: u32| a >> (b & 31)));
        "s_lshr_b64" => bits(binary_nz(|a: u64, b: u32| a >> (b & 63)));
        "s_ashr_i32" => bits(binary_nz(|a: i32, b: u32| a >> (b & 31)));
        "s_ashr_i64" => bits(binary_nz(|a: i64, b: u32| a >> (b & 63)));
        "s_bfm_b32" => binary(|a: u32, b: u32| ((1u32 << (a & 31)) - 1) << (b & 31));
        "s_bfm_b64" => binary(|a: u32, b: u32| ((1u64 << (a & 63)) - 1) << (b & 63));
        "s_bfe_u32" => bits(binary_nz(extract_u32));
        "s_bfe_i32" => bits(binary_nz(extract_i32));
        "s_bfe_u64" => bits(binary_nz(extract_u64));
        "s_bfe_i64" => bits(binary_nz(extract_i64));
        "s_pack_ll_b32_b16" => bits(binary(|a: u32, b: u32| (a & 0xffff) | b << 16));
        "s_pack_lh_b32_b16" => bits(binary(|a: u32, b: u32| (a & 0xffff) | (b & 0xffff_0000)));
        "s_pack_hh_b32_b16" => bits(binary(|a: u32, b: u32| a >> 16 | (b & 0xffff_0000)));
        "s_pack_hl_b32_b16" => bits(binary(|a: u32, b: u32| a >> 16 | b << 16));
        "s_cselect_b32" => Operation::from(binary_scc(|a: u32, b: u32, scc| (if scc { a } else { b }, scc))).with_flow(DataFlow::SelectsScalar);
        "s_cselect_b64" => Operation::from(binary_scc(|a: u64, b: u64, scc| (if scc { a } else { b }, scc))).with_flow(DataFlow::SelectsScalar);

        "s_movk_i32" => copies(with_immediate(|_, k| (i32::from(k as i16) as u32, None)));
        "s_cmovk_i32" => copies(Box::new(|text: &Text| {
            let (target, k) = (text.scalar(0, 1)?, i32::from(text.site.immediate as i16) as u32);
            on_wave(move |wave| if wave.scc() { wave.scalar[usize::from(target)] = k })
        }));
        "s_addk_i32" | "s_addk_co_i32" => accumulates(with_immediate(|a, k| {
            let (sum, overflow) = (a as i32).overflowing_add(i32::from(k as i16));
            (sum as u32, Some(overflow))
        }));
        "s_mulk_i32" => accumulates(with_immediate(|a, k| (a.wrapping_mul(i32::from(k as i16) as u32), None)));
        "s_cmpk_eq_i32" => compare_immediate(|a, k| a as i32 == i32::from(k as i16));
        "s_cmpk_lg_i32" => compare_immediate(|a, k| a as i32 != i32::from(k as i16));
        "s_cmpk_gt_i32" => compare_immediate(|a, k| a as i32 > i32::from(k as i16));
        "s_cmpk_ge_i32" => compare_immediate(|a, k| a as i32 >= i32::from(k as i16));
        "s_cmpk_lt_i32" => compare_immediate(|a, k| (a as i32) < i32::from(k as i16));
        "s_cmpk_le_i32" => compare_immediate(|a, k| a as i32 <= i32::from(k as i16));
        "s_cmpk_eq_u32" => compare_immediate(|a, k| a == u32::from(k));
        "s_cmpk_lg_u32" => compare_immediate(|a, k| a != u32::from(k));
        "s_cmpk_gt_u32" => compare_immediate(|a, k| a > u32::from(k));
        "s_cmpk_ge_u32" => compare_immediate(|a, k| a >= u32::from(k));
        "s_cmpk_lt_u32" => compare_immediate(|a, k| a < u32::from(k));
        "s_cmpk_le_u32" => compare_immediate(|a, k| a <= u32::from(k));

        "s_cmp_eq_i32" | "s_cmp_eq_u32" => compare(|a: u32, b: u32| a == b);
        "s_cmp_lg_i32" | "s_cmp_lg_u32" => compare(|a: u32, b: u32| a != b);
        "s_cmp_gt_i32" => compare(|a: i32, b: i32| a > b);
        "s_cmp_ge_i32" => compare(|a: i32, b: i32| a >= b);
        "s_cmp_lt_i32" => compare(|a: i32, b: i32| a < b);
        "s_cmp_le_i32" => compare(|a: i32, b: i32| a <= b);
        "s_cmp_gt_u32" => compare(|a: u32, b: u32| a > b);
        "s_cmp_ge_u32" => compare(|a: u32, b: u32| a >= b);
        "s_cmp_lt_u32" => compare(|a: u32, b: u32| a < b);
        "s_cmp_le_u32" => compare(|a: u32, b: u32| a <= b);
        "s_cmp_eq_u64" => compare(|a: u64, b: u64| a == b);
        "s_cmp_lg_u64" => compare(|a: u64, b: u64| a != b);
        "s_bitcmp0_b32" => compare(|a: u32, b: u32| a >> (b & 31) & 1 == 0);
        "s_bitcmp1_b32" => compare(|a: u32, b: u32| a >> (b & 31) & 1 == 1);
        "s_bitcmp0_b64" => compare(|a: u64, b: u32| a >> (b & 63) & 1 == 0);
        "s_bitcmp1_b64" => compare(|a: u64, b: u32| a >> (b & 63) & 1 == 1);

        "s_and_saveexec_b32" => save_exec(|a: u32, exec| a & exec, false);
        "s_and_saveexec_b64" => save_exec(|a: u64, exec| a & exec, false);
        "s_or_saveexec_b32" => save_exec(|a: u32, exec| a | exec, false);
        "s_or_saveexec_b64" => save_exec(|a: u64, exec| a | exec, false);
        "s_xor_saveexec_b32" => save_exec(|a: u32, exec| a ^ exec, false);
        "s_xor_saveexec_b64" => save_exec(|a: u64, exec| a ^ exec, false);
        "s_nand_saveexec_b32" => save_exec(|a: u32, exec| !(a & exec), false);
        "s_nand_saveexec_b64" => save_exec(|a: u64, exec| !(a & exec), false);
        "s_nor_saveexec_b32" => save_exec(|a: u32, exec| !(a | exec), false);
        "s_nor_saveexec_b64" => save_exec(|a: u64, exec| !(a | exec), false);
        "s_xnor_saveexec_b32" => save_exec(|a: u32, exec| !(a ^ exec), false);
        "s_xnor_saveexec_b64" => save_exec(|a: u64, exec| !(a ^ exec), false);
        "s_andn2_saveexec_b32" | "s_and_not1_saveexec_b32" =>
            save_exec(|a: u32, exec| a & !exec, false);
        "s_andn2_saveexec_b64" | "s_and_not1_saveexec_b64" =>
            save_exec(|a: u64, exec| a & !exec, false);
        "s_orn2_saveexec_b32" | "s_or_not1_saveexec_b32" =>
            save_exec(|a: u32, exec| a | !exec, false);
        "s_orn2_saveexec_b64" | "s_or_not1_saveexec_b64" =>
            save_exec(|a: u64, exec| a | !exec, false);
        "s_andn1_saveexec_b32" | "s_and_not0_saveexec_b32" =>
            save_exec(|a: u32, exec| !a & exec, false);
        "s_andn1_saveexec_b64" | "s_and_not0_saveexec_b64" =>
            save_exec(|a: u64, exec| !a & exec, false);
        "s_orn1_saveexec_b32" | "s_or_not0_saveexec_b32" =>
            save_exec(|a: u32, exec| !a | exec, false);
        "s_orn1_saveexec_b64" | "s_or_not0_saveexec_b64" =>
            save_exec(|a: u64, exec| !a | exec, false);
        "s_andn1_wrexec_b32" | "s_and_not0_wrexec_b32" => save_exec(|a: u32, exec| !a & exec, true);
        "s_andn1_wrexec_b64" | "s_and_not0_wrexec_b64" => save_exec(|a: u64, exec| !a & exec, true);
        "s_andn2_wrexec_b32" | "s_and_not1_wrexec_b32" => save_exec(|a: u32, exec| a & !exec, true);
        "s_andn2_wrexec_b64" | "s_and_not1_wrexec_b64" => save_exec(|a: u64, exec| a & !exec, true);

        "s_getreg_b32" => get_register();
        "s_setreg_b32" | "s_setreg_imm32_b32" => Operation::from(set_register()).with_flow(DataFlow::Nothing);
        "s_denorm_mode" => Operation::from(Box::new(|text: &Text| {
            let denormals = u32::from(text.site.immediate & 0xf) << 4;
            on_wave(move |wave| wave.set_mode((wave.mode() & !0xf0) | denormals))
        })).with_flow(DataFlow::Nothing);
        "s_round_mode" => Operation::from(Box::new(|text: &Text| {
            let rounding = u32::from(text.site.immediate & 0xf);
            on_wave(move |wave| wave.set_mode((wave.mode() & !0xf) | rounding))
        })).with_flow(DataFlow::Nothing);
        "s_memtime" => Box::new(|text: &Text| {
            let target = text.scalar(0, 2)?;
            on_machine(move |wave, machine| {
                wave.set_pair(target, machine.nanoseconds());
                Ok(())
            })
        });
        // The clock of this instruction has a constant frequency of 100 MHz.
        "s_memrealtime" => Box::new(|text: &Text| {
            let target = text.scalar(0, 2)?;
            on_machine(move |wave, machine| {
                wave.set_pair(target, machine.nanoseconds() / 10);
                Ok(())
            })
        });
        "s_sendmsg_rtn_b32" => ask(1);
        "s_sendmsg_rtn_b64" => ask(2);
        "s_getpc_b64" | "s_get_pc_i64" => Box::new(|text: &Text| {
            let (target, next) = (text.scalar(0, 2)?, text.next_address());
            on_wave(move |wave| wave.set_pair(target, next))
        });
    }
}
