//! Table that maps mnemonics to operations. The submodules implement the operations.

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
    operation::{DataFlow, Operation, Table},
    text::{Base, Operand, Text, Unsupported},
};

pub(crate) use buffer::SWIZZLE_ENABLE;
pub use indexed::moved;

/// Table of operations by mnemonic. Instructions of a `Family` are not in the table, because the interpreter parses
/// their names.
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

/// Instructions that do nothing, because the interpreter has neither timing nor caches nor hazards.
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

pub(crate) fn has_no_effect(name: &str) -> bool {
    NO_EFFECT.contains(&name) || name.starts_with("s_waitcnt") || name.starts_with("s_wait_")
}

/// Returns the operation of an instruction; `None` if the table does not contain it. For some instructions with
/// `clamp`, the table has a separate operation, whose name ends in ` clamp`. Then the second element is the text of the
/// instruction with this name as its mnemonic.
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

/// Returns true if the interpreter must reject the instruction: `v_pk_add_f32` or a similar one, with a source operand
/// that is not a vector register, on an architecture that uses the same 32 bits of such an operand for both results.
fn is_refused(text: &Text) -> bool {
    if !text.site.arch.facts().packed_f32_repeats_scalars {
        return false;
    }
    let packed = text.mnemonic.strip_prefix("v_pk_").is_some_and(|rest| rest.ends_with("_f32"));
    let is_vector = |operand: &Operand| matches!(operand.base, Base::Vector { .. });
    packed && !text.operands.iter().all(is_vector)
}

pub(crate) fn bind(text: &Text) -> Bound {
    if is_refused(text) {
        return Err(Unsupported);
    }
    if let Some((operation, own)) = find(text) {
        return operation.bind(own.as_ref().unwrap_or(text));
    }
    let name = text.mnemonic.as_str();
    match Family::from_mnemonic(name) {
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

/// Binds an instruction for this value of MODE; returns `None` if MODE does not affect it.
pub(crate) fn bind_rounded(text: &Text, mode: u32) -> Option<Bound> {
    if is_refused(text) {
        return None;
    }
    let (operation, own) = find(text)?;
    operation.bind_rounded(own.as_ref().unwrap_or(text), mode)
}

/// Returns the rule by which uninitialised source operands affect the results of an instruction.
pub(crate) fn passes(text: &Text) -> DataFlow {
    if let Some((operation, _)) = find(text) {
        return operation.passes;
    }
    let name = text.mnemonic.as_str();
    let starts = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    match Family::from_mnemonic(name) {
        Some(Family::Matrix) if starts(&["v_smfmac_", "v_swmmac_"]) => DataFlow::AccumulatesAcross,
        Some(Family::Matrix) => DataFlow::Across,
        Some(Family::Lds) if starts(&["ds_bpermute", "ds_permute", "ds_swizzle"]) => {
            DataFlow::Picks
        }
        Some(Family::Lds) if starts(&["ds_read_b64_tr_", "ds_read_b96_tr_"]) => DataFlow::Anywhere,
        // A transposing load writes to each lane data that other lanes have read. An image load converts and filters
        // texels.
        Some(Family::Memory) if starts(&["global_load_tr_"]) => DataFlow::Anywhere,
        Some(Family::Buffer) if starts(&["buffer_load_format_"]) => DataFlow::Anywhere,
        Some(Family::Image) if starts(&["image_load", "image_sample", "image_gather4"]) => {
            DataFlow::Anywhere
        }
        Some(Family::ScalarMemory | Family::Scaled) => DataFlow::Computes,
        _ => DataFlow::Nothing,
    }
}

/// Groups of instructions with systematic names. The interpreter parses these names instead of looking them up.
enum Family {
    NoEffect,
    ScalarMemory,
    Memory,
    Buffer,
    Lds,
    Image,
    Matrix,
    /// Conversions with a scale. They round to nearest even or stochastically.
    Scaled,
}

impl Family {
    fn from_mnemonic(name: &str) -> Option<Family> {
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
