//! Expected results of the tests in [`opcodes`](super): minimum numbers of claims, and forms that the interpreter does
//! not support. Any other result is an error.

use device::Facts;

/// Minimum number of claims for each relation, on every architecture and for one wave size. All these relations exist
/// on every architecture.
const MIN_CLAIMS: [(&str, usize); 21] = [
    ("DPP", 800),
    ("DPP and other modifiers", 200),
    ("DPP in some rows and banks", 90),
    ("DPP of inactive lanes", 420),
    ("DPP with bound control", 90),
    ("a clamped result", 90),
    ("a constant", 8000),
    ("a constant of 16 bits", 448),
    ("a half of a mixed-precision source", 18),
    ("a result register that is also a source", 1400),
    ("a scalar result register that is also a source", 140),
    ("a scalar source", 1000),
    ("a scalar's constant", 3600),
    ("an integer that saturates", 256),
    ("an upper half", 55),
    ("another sign modifier", 800),
    ("halves of a packed source", 130),
    ("lanes that are inactive", 640),
    ("sign modifiers of a packed source", 26),
    ("the long encoding", 230),
    ("two locations in the LDS", 72),
];
/// Function that returns true for the architectures on which a relation exists.
type Where = fn(&Facts) -> bool;
const MIN_CLAIMS_BY_ARCH: [(&str, usize, Where); 13] = [
    ("DPP8", 90, |facts| !facts.microcode.is_gfx9()),
    ("DPP8 of inactive lanes", 180, |facts| !facts.microcode.is_gfx9()),
    ("SDWA of a source", 2900, |facts| facts.has_sdwa),
    ("SDWA of the result", 660, |facts| facts.has_sdwa),
    // GFX12 does not have a comparison of a register with a 16-bit constant.
    ("a constant of 16 bits", 1792, |facts| !facts.microcode.is_gfx12()),
    ("two instructions in one (VOPD)", 170, |facts| facts.selects_halves),
    ("a constant for a matrix instruction", 12, |facts| facts.selects_halves),
    ("a constant for a matrix instruction", 64, has_accumulators),
    ("a matrix instruction and inactive lanes", 6, |facts| facts.selects_halves),
    ("a matrix instruction and inactive lanes", 22, has_accumulators),
    ("accumulators as the destination", 22, has_accumulators),
    ("accumulators as sources", 44, has_accumulators),
    ("blocks and lanes of a matrix instruction", 230, has_accumulators),
];
/// Returns true if loads and stores can access accumulator registers like vector registers.
fn has_accumulators(facts: &Facts) -> bool {
    facts.has_gfx90a_instructions
}

/// Minimum number of claims for each relation of memory instructions, on every architecture. An architecture with more
/// cache bits or atomics has more claims.
const MIN_MEMORY_CLAIMS: [(&str, usize); 30] = [
    ("LDS", 44),
    ("LDS at an offset", 220),
    ("LDS atomics", 99),
    ("LDS atomics that return", 102),
    ("a buffer and a scalar offset", 220),
    ("a buffer and cache bits", 88),
    ("a buffer at an index", 88),
    ("a buffer at an index and an offset", 88),
    ("a buffer at an offset", 264),
    ("a buffer without an address register", 88),
    ("a buffer's end", 528),
    ("buffer atomics", 494),
    ("buffer atomics that return", 494),
    ("flat atomics", 182),
    ("flat atomics that return", 182),
    ("flat memory", 44),
    ("flat memory and cache bits", 88),
    ("flat memory at an offset", 220),
    ("global atomics", 442),
    ("global atomics that return", 442),
    ("global memory", 44),
    ("global memory and cache bits", 88),
    ("global memory at an offset", 308),
    ("global memory with a scalar address", 352),
    ("scalar loads", 198),
    ("scalar loads of buffers", 144),
    ("scratch", 22),
    ("scratch and cache bits", 44),
    ("scratch at an offset", 154),
    ("scratch with a scalar address", 176),
];
/// Minimum total number of claims.
const MIN_TOTAL_CLAIMS: usize = 20_000;
/// Minimum number of instructions that are compared between waves of the two sizes.
const MIN_WAVE_SIZE_CLAIMS: usize = 640;

/// Forms that the interpreter does not support. Each entry contains the first words of the relation's name, and the
/// instructions for which this form is unsupported. The first entry lists instructions that are not supported in any
/// form.
const MISSING_FORMS: [(&str, &[&str]); 8] = [
    (
        "in any form",
        &[
            "v_cvt_pkaccum_u8_f32",
            // No guide specifies which bits of the random number these instructions use.
            "v_cvt_sr_bf16_f32",
            "v_cvt_sr_f16_f32",
            "ds_mskor_b32",
            "ds_mskor_b64",
            "ds_mskor_rtn_b32",
            "ds_mskor_rtn_b64",
            "global_atomic_ordered_add_b64",
            "v_interp_p1ll_f16",
            "v_interp_p1lv_f16",
            "v_interp_p2_f16",
            "v_interp_p2_legacy_f16",
            "v_madak_f16",
            "v_madmk_f16",
            "v_screen_partition_4se_b32",
        ],
    ),
    (
        "DPP",
        &[
            "v_cvt_sr_bf8_f32",
            "v_cvt_sr_fp8_f32",
            "v_fma_mix_f32",
            "v_fma_mixhi_f16",
            "v_fma_mixlo_f16",
            "v_mbcnt_hi_u32_b32",
            "v_mbcnt_lo_u32_b32",
            "v_pk_fmac_f16",
        ],
    ),
    ("SDWA", &["v_pk_fmac_f16"]),
    ("a clamped result", &["v_div_fmas_f32", "v_div_fmas_f64"]),
    (
        "an integer that saturates",
        &[
            "v_mad_co_i64_i32",
            "v_mad_co_u64_u32",
            "v_mad_i64_i32",
            "v_mad_u64_u32",
            "v_mul_lo_u16",
            "v_mul_i32_i24",
            "v_mul_u32_u24",
            "v_pk_mul_lo_u16",
        ],
    ),
    (
        "two locations in the LDS",
        &[
            "ds_storexchg_2addr_rtn_b32",
            "ds_storexchg_2addr_rtn_b64",
            "ds_storexchg_2addr_stride64_rtn_b32",
            "ds_storexchg_2addr_stride64_rtn_b64",
            "ds_wrxchg2_rtn_b32",
            "ds_wrxchg2_rtn_b64",
            "ds_wrxchg2st64_rtn_b32",
            "ds_wrxchg2st64_rtn_b64",
        ],
    ),
    // These forms do not exist, although LLVM disassembles them.
    ("a scalar source", &["v_mqsad_u32_u8", "v_permlane16_b32", "v_permlanex16_b32", "v_swap_b16"]),
    ("a scaled result", &["v_div_fmas_f32", "v_div_scale_f32", "v_pk_fmac_f16"]),
];
/// Instructions whose operands are whole 32-bit registers, so that `op_sel` has no effect. LLVM prints `op_sel` for
/// them anyway, or their VOP3 encoding has these bits.
const WHOLE: [&str; 31] = [
    "v_alignbit_b32",
    "v_alignbyte_b32",
    "v_ashr_pk_i8_i32",
    "v_ashr_pk_u8_i32",
    "v_cvt_f16_f32",
    "v_cvt_f32_f16",
    "v_cvt_i32_i16",
    "v_cvt_pk_i16_f32",
    "v_cvt_pk_i16_i32",
    "v_cvt_pk_norm_i16_f32",
    "v_cvt_pk_norm_u16_f32",
    "v_cvt_pk_rtz_f16_f32",
    "v_cvt_pk_u16_f32",
    "v_cvt_pk_u16_u32",
    "v_cvt_pknorm_i16_f32",
    "v_cvt_pknorm_u16_f32",
    "v_cvt_pkrtz_f16_f32",
    "v_dot2_bf16_bf16",
    "v_dot2_f16_f16",
    "v_cvt_pk_norm_i16_f16",
    "v_cvt_pk_norm_u16_f16",
    "v_cvt_pknorm_i16_f16",
    "v_cvt_pknorm_u16_f16",
    "v_cvt_u32_u16",
    "v_mad_i32_i16",
    "v_mad_u32_u16",
    "v_mqsad_pk_u16_u8",
    "v_qsad_pk_u16_u8",
    "v_sad_u16",
    "v_pack_b32_f16",
    "v_sat_pk_u8_i16",
];

/// First words of the relation for an instruction that is unsupported in its plain form, and therefore in every form.
pub(super) const IN_NO_FORM: &str = MISSING_FORMS[0].0;

/// Returns true if the interpreter is known not to support the instruction `name` in the form that `relation`
/// describes.
pub(super) fn is_lacking(relation: &str, name: &str) -> bool {
    let halves = relation.starts_with("an upper half") || relation == "DPP and other modifiers";
    let lacks =
        |(start, names): &(&str, &[&str])| relation.starts_with(start) && names.contains(&name);
    // LLVM 22 does not print `op_sel` for some VOP3 instructions with halves.
    let has_halves = ["f16", "i16", "u16", "b16"].iter().any(|of| name.contains(of));
    halves && (WHOLE.contains(&name) || !has_halves) || MISSING_FORMS.iter().any(lacks)
}

fn few(relation: &str, found: usize, least: usize) -> Option<String> {
    (found < least).then(|| {
        format!("{relation}: {found} comparisons agree, fewer than the minimum of {least}")
    })
}

/// Returns a message for each relation that has too few claims.
pub(super) fn missed(facts: &Facts, claimed: impl Fn(&str) -> usize, all: usize) -> Vec<String> {
    let there = MIN_CLAIMS_BY_ARCH.iter().filter(|(_, _, there)| there(facts));
    let least = MIN_CLAIMS
        .into_iter()
        .chain(MIN_MEMORY_CLAIMS)
        .chain(there.map(|(name, least, _)| (*name, *least)));
    let each = least.filter_map(|(name, least)| few(name, claimed(name), least));
    each.chain(few("all relations together", all, MIN_TOTAL_CLAIMS)).collect()
}

/// Returns a message if too few instructions were compared between waves of the two sizes.
pub(super) fn missed_of_sizes(all: usize) -> Option<String> {
    few("waves of both sizes", all, MIN_WAVE_SIZE_CLAIMS)
}
