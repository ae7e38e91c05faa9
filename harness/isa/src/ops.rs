//! The table of operations: what each mnemonic does.

pub(crate) mod atomic;
mod branch;
pub(crate) mod buffer;
mod convert;
mod cross_lane;
mod dot;
pub(crate) mod extremes;
mod float;
mod gather;
mod half;
pub(crate) mod image;
mod indexed;
mod integer;
pub(crate) mod lds;
mod matrix;
pub(crate) mod memory;
mod packed;
mod scalar_alu;
mod scalar_float;
pub(crate) mod scalar_memory;
mod scaled;
mod scratch;
mod special;
pub(crate) mod sync;
pub(crate) mod to_lds;
pub(crate) mod transpose;
pub(crate) mod typed;
mod vector_compare;

use std::sync::LazyLock;

use crate::{
    exec::Bound,
    operation::{Operation, Passes, Table},
    text::{Text, Unsupported},
};

pub(crate) use buffer::SWIZZLE_ENABLE;
pub use indexed::moved;

/// What each mnemonic does, but for those that are told by the parts of their names.
pub static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    scalar_alu::register(&mut table);
    scalar_float::register(&mut table);
    integer::register(&mut table);
    float::register(&mut table);
    half::register(&mut table);
    special::register(&mut table);
    convert::register(&mut table);
    vector_compare::register(&mut table);
    cross_lane::register(&mut table);
    packed::register(&mut table);
    dot::register(&mut table);
    indexed::register(&mut table);
    branch::register(&mut table);
    table
});

/// Instructions that have no effect here: there is no timing, no cache and no hazard to wait for.
const NO_EFFECT: [&str; 33] = [
    "s_nop",
    "s_delay_alu",
    "s_clause",
    "s_inst_prefetch",
    "s_set_inst_prefetch_distance",
    "s_setprio",
    "s_dcache_inv",
    "s_dcache_wb",
    "s_dcache_inv_vol",
    "s_icache_inv",
    "s_gl1_inv",
    "s_sendmsg",
    "s_ttracedata",
    "s_ttracedata_imm",
    "s_version",
    "s_code_end",
    "s_wakeup",
    "s_incperflevel",
    "s_decperflevel",
    "s_prefetch_inst",
    "s_prefetch_inst_pc_rel",
    "s_prefetch_data",
    "buffer_gl0_inv",
    "buffer_gl1_inv",
    "buffer_wbl2",
    "buffer_inv",
    "buffer_invl2",
    "buffer_wbinvl1_vol",
    "buffer_wbinvl1",
    "global_inv",
    "global_wb",
    "global_wbinv",
    "v_nop",
];

/// Whether an instruction is known to do nothing here.
pub(crate) fn has_no_effect(name: &str) -> bool {
    NO_EFFECT.contains(&name) || name.starts_with("s_waitcnt") || name.starts_with("s_wait_")
}

/// What the table says of an instruction, and its text for that: under `clamp` some are operations of their own.
fn find(text: &Text) -> Option<(&'static Operation, Option<Text>)> {
    if text.has("clamp") {
        let mnemonic = format!("{} clamp", text.mnemonic);
        if let Some(operation) = TABLE.get(&mnemonic) {
            let mut own = text.clone();
            own.mnemonic = mnemonic;
            return Some((operation, Some(own)));
        }
    }
    TABLE.get(&text.mnemonic).map(|operation| (&**operation, None))
}

/// Binds one instruction.
pub(crate) fn bind(text: &Text) -> Bound {
    if let Some((operation, own)) = find(text) {
        return operation.bind(own.as_ref().unwrap_or(text));
    }
    let name = text.mnemonic.as_str();
    match Family::of(name) {
        Some(Family::NoEffect) => crate::exec::on_wave(|_| {}),
        Some(Family::ScalarMemory) => scalar_memory::bind(text),
        Some(Family::Memory) => memory::bind(text),
        Some(Family::Buffer) => buffer::bind(text),
        Some(Family::Lds) => lds::bind(text),
        Some(Family::Image) => image::bind(text),
        Some(Family::Matrix) => matrix::bind(text),
        Some(Family::Scaled) => scaled::bind(text),
        None => Err(Unsupported),
    }
}

/// Binds one instruction as it is in that MODE; `None` if it is the same as ever.
pub(crate) fn bind_rounded(text: &Text, mode: u32) -> Option<Bound> {
    let (operation, own) = find(text)?;
    operation.bind_rounded(own.as_ref().unwrap_or(text), mode)
}

/// How the sources of an instruction show in its results.
pub(crate) fn passes(text: &Text) -> Passes {
    if let Some((operation, _)) = find(text) {
        return operation.passes;
    }
    let name = text.mnemonic.as_str();
    let starts = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    match Family::of(name) {
        Some(Family::Matrix) if starts(&["v_smfmac_", "v_swmmac_"]) => Passes::AccumulatesAcross,
        Some(Family::Matrix) => Passes::Across,
        Some(Family::Lds) if starts(&["ds_bpermute", "ds_permute", "ds_swizzle"]) => Passes::Picks,
        Some(Family::Lds) if starts(&["ds_read_b64_tr_", "ds_read_b96_tr_"]) => Passes::Anywhere,
        // A transposing load gives each lane what others read; texels are converted and mixed on their way.
        Some(Family::Memory) if starts(&["global_load_tr_"]) => Passes::Anywhere,
        Some(Family::Buffer) if starts(&["buffer_load_format_"]) => Passes::Anywhere,
        Some(Family::Image) if starts(&["image_load", "image_sample", "image_gather4"]) => {
            Passes::Anywhere
        }
        Some(Family::ScalarMemory | Family::Scaled) => Passes::Computes,
        _ => Passes::Nothing,
    }
}

/// Instructions that are not one by one in the table: the parts of their names say what they do.
enum Family {
    NoEffect,
    ScalarMemory,
    Memory,
    Buffer,
    Lds,
    Image,
    Matrix,
    /// Conversions with a scale, which round to nearest even or by a random number.
    Scaled,
}

impl Family {
    fn of(name: &str) -> Option<Family> {
        if has_no_effect(name) {
            return Some(Family::NoEffect);
        }
        let matrices = ["mfma_", "smfmac_", "wmma_", "swmmac_"];
        match name.split_once('_')? {
            ("s", _) => Some(Family::ScalarMemory),
            ("global" | "flat" | "scratch", _) => Some(Family::Memory),
            ("buffer", _) => Some(Family::Buffer),
            ("ds", _) => Some(Family::Lds),
            ("image", _) => Some(Family::Image),
            ("v", rest) if rest.starts_with("cvt_scalef32_") => Some(Family::Scaled),
            ("v", rest) => {
                matrices.iter().any(|start| rest.starts_with(start)).then_some(Family::Matrix)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of the names of float operations that no rounding of MODE changes: they are exact, or approximations, or round in
    /// a way of their own.
    const IN_ONE_WAY: [&str; 33] = [
        "_min",
        "_max",
        "_med3",
        "_floor",
        "_ceil",
        "_trunc_",
        "_rndne",
        "_frexp",
        "_cube",
        "_rcp",
        "_rsq",
        "_sqrt",
        "_exp_",
        "_log_",
        "_sin",
        "_cos",
        "_dot",
        "_div_scale",
        "_div_fixup",
        "_trig_preop",
        "_cvt_f64_",
        "_cvt_f32_f16",
        "_cvt_f32_bf16",
        "_cvt_hi_f32_f16",
        "_cvt_f32_ubyte",
        "_cvt_off_f32",
        "_cvt_f32_fp8",
        "_cvt_f32_bf8",
        "_cvt_pk_f32_",
        "_rtz_f16",
        "_pkrtz_f16",
        "_cvt_pk_f16_f32",
        "_cvt_pk_bf16_f32",
    ];

    #[test]
    fn what_makes_a_float_is_rounded_as_mode_says_or_in_one_way() {
        let mut rounded = 0;
        for (name, operation) in TABLE.iter() {
            let parts: Vec<&str> = name.split(['_', ' ']).collect();
            let is_float = |part: &str| ["f16", "f32", "f64", "bf16"].contains(&part);
            // A conversion names its result first; others have one type, or the result's in front of the sources'.
            let Some(first) = parts.iter().find(|part| {
                is_float(part)
                    || ["fp8", "bf8"].contains(part)
                    || part.starts_with(['i', 'u', 'b']) && part[1..].parse::<u8>().is_ok()
            }) else {
                continue;
            };
            if !is_float(first) || parts[1].starts_with("cmp") || name == "v_pack_b32_f16" {
                continue;
            }
            let in_one_way = IN_ONE_WAY.iter().any(|part| name.contains(part));
            assert_ne!(operation.is_rounded(), in_one_way, "{name}");
            rounded += usize::from(operation.is_rounded());
        }
        assert!(rounded >= 72, "{rounded}");
    }
}
