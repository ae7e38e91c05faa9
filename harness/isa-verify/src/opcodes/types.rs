//! Derives the types of operands from the names of instructions.

use super::claim::row;
use crate::models::ValueType;

/// Parts of the names of instructions whose operand types the names do not show: the instructions work across lanes, or
/// their registers have another size or meaning than in VOP3.
const APART: [&str; 4] = ["lane", "interp", "v_swap", "v_movrel"];
/// Instructions whose names do not specify the types of the operands.
const UNTOLD: [&str; 11] = [
    "v_dot",
    "v_pk_",
    "v_fma_mix",
    "v_mad_mix",
    "v_cndmask",
    "v_sad_u16",
    "v_qsad",
    "v_mqsad",
    "v_swap",
    "v_cvt_f32_bf16",
    "v_cvt_scalef32_",
];
const TWO_RESULTS: [&str; 4] = ["v_div_scale_", "v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_"];

pub(super) fn crosses_lanes(name: &str) -> bool {
    APART.iter().any(|part| name.contains(part)) || is_matrix(name)
}

fn is_matrix(name: &str) -> bool {
    ["mfma", "smfmac", "wmma", "swmmac"].iter().any(|part| name.contains(part))
}

/// Returns true for an instruction that uses more registers than a slot sets ([`super::slot`]).
pub(super) fn is_wide(name: &str) -> bool {
    is_matrix(name) || name.contains("pk32_") || name.contains("2xpk16_")
}

pub(super) fn has_second_result(name: &str) -> bool {
    name.contains("_co_") || TWO_RESULTS.iter().any(|start| name.starts_with(start))
}

pub(super) fn is_small_float(name: &str) -> bool {
    ["fp8", "bf8", "fp4"].iter().any(|part| name.contains(part))
}

/// Returns the type of a source operand, which the end of the instruction's name shows; `None` if the name does not
/// show it.
pub(super) fn type_of(name: &str, source: usize) -> Option<ValueType> {
    if UNTOLD.iter().any(|start| name.starts_with(start)) || crosses_lanes(name) {
        return None;
    }
    let last = name.split('_').filter_map(named).next_back()?;
    Some(match (name, source) {
        // The second operand is an exponent or selects a segment.
        ("v_ldexp_f32" | "v_ldexp_f64" | "v_trig_preop_f64", 1) => ValueType::U32,
        ("v_ldexp_f16", 1) => ValueType::U16,
        // The second operand is a mask of float classes.
        (name, 1) if name.ends_with("_class_f16") => ValueType::U16,
        (name, 1) if name.contains("_class_") => ValueType::U32,
        // This operand is a shift count.
        ("v_lshlrev_b64" | "v_lshrrev_b64" | "v_ashrrev_i64", 0) => ValueType::U32,
        ("v_lshl_add_u64", 1) => ValueType::U32,
        // The third operand is the addend.
        ("v_mad_u64_u32" | "v_mad_i64_i32" | "v_mad_co_u64_u32" | "v_mad_co_i64_i32", 2) => {
            ValueType::U64
        }
        ("v_mad_u32_u16" | "v_mad_i32_i16", 2) => ValueType::U32,
        // The second operand is the number of a byte. The third one contains the other bytes.
        ("v_cvt_pk_u8_f32", 1 | 2) => ValueType::U32,
        _ => last,
    })
}

/// Returns where the sign bit of a source operand is: the index of its register among those that a slot sets, and a
/// mask of the bit. `None` for types without a sign modifier.
pub(super) fn sign(name: &str, source: usize) -> Option<(usize, u32)> {
    match type_of(name, source)? {
        ValueType::F16 => Some((row(source), 1 << 15)),
        ValueType::F32 => Some((row(source), 1 << 31)),
        ValueType::F64 => Some((row(source) + 1, 1 << 31)),
        _ => None,
    }
}

/// Returns the type of a result that is a single float; `None` for all other results.
pub(super) fn result_of(name: &str) -> Option<ValueType> {
    let apart = ["cmp", "v_pk_", "v_cvt_pk", "pack", "v_dot", "_mix", "v_div_scale", "fp8", "bf8"];
    let of = name.split('_').find_map(named)?;
    (gives_float(name) && !crosses_lanes(name) && !apart.iter().any(|part| name.contains(part)))
        .then_some(of)
}

/// Returns true if the result is a float. The first type in a name is the type of the result.
pub(super) fn gives_float(name: &str) -> bool {
    matches!(
        name.split('_').find_map(named),
        Some(ValueType::F16 | ValueType::F32 | ValueType::F64)
    )
}

/// Returns true if the result has 16 bits. The first type in a name is the type of the result.
pub(super) fn gives_half(name: &str) -> bool {
    let of = name.split('_').find_map(named);
    matches!(of, Some(ValueType::F16 | ValueType::U16)) && !name.starts_with("v_pk_")
}

fn named(part: &str) -> Option<ValueType> {
    Some(match part {
        "f16" => ValueType::F16,
        "i16" | "u16" | "b16" => ValueType::U16,
        "f32" => ValueType::F32,
        "i32" | "u32" | "b32" | "u24" | "i24" => ValueType::U32,
        "f64" => ValueType::F64,
        "i64" | "u64" | "b64" => ValueType::U64,
        _ => return None,
    })
}
