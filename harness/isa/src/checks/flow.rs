//! How an instruction passes on what its sources hold, as far as never-written memory is concerned.
//!
//! Where in doubt, a result counts as clean: a miss is better than a finding that is none. So a value that is only partly
//! never-written is clean, and what combines several lanes (comparisons, permutations, matrices) passes on only what all lanes
//! that run have. Source for the operands: LLVM's syntax of AMDGPU instructions.

use crate::{
    ops::image,
    text::{Base, Text, register},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    Row(usize),
    Scalar(u16),
}

/// How targets follow from sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Register by register, unchanged.
    Copy,
    /// Bits are moved about: never-written where all sources are.
    Bits,
    /// A result that depends on each source.
    Compute,
    /// The second source where the mask has a one, else the first.
    Select { mask: u16 },
    /// The first source where the condition holds, else the second.
    SelectScalar,
    /// What all active lanes of one source have, all lanes of the target get.
    Across { computes: bool },
    /// The two targets change places.
    Swap,
    /// Targets that are not known before the instruction runs.
    Forget,
    /// The source decides where the wave goes, or which of its lanes run.
    Control,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) rule: Rule,
    pub(crate) targets: Vec<Register>,
    /// By operand; constants are left out.
    pub(crate) sources: Vec<Vec<Register>>,
}

pub(super) fn registers(base: &Base) -> Vec<Register> {
    match *base {
        Base::Vector { first, count } => {
            (first..first + count).map(|row| Register::Row(row.into())).collect()
        }
        Base::Scalar { first, count } => (first..first + count).map(Register::Scalar).collect(),
        _ => Vec::new(),
    }
}

const BITS: [&str; 24] = [
    "v_and_",
    "v_or_",
    "v_or3_",
    "v_not_",
    "v_lshlrev_",
    "v_lshrrev_",
    "v_ashrrev_",
    "v_bfe_",
    "v_bfi_",
    "v_perm_",
    "v_alignbit_",
    "v_alignbyte_",
    "v_pack_",
    "v_lshl_or_",
    "v_and_or_",
    "v_bitop3_",
    "v_cndmask_b16",
    "s_and_",
    "s_or_",
    "s_andn2_",
    "s_lshl_",
    "s_lshr_",
    "s_bfe_",
    "s_pack_",
];
const COPIES: [&str; 5] = ["v_mov_b", "v_accvgpr_", "v_pk_mov_", "s_mov", "s_cmov"];
/// Modifiers that make the first source come from other lanes.
const LANES: [&str; 15] = [
    "quad_perm",
    "row_shl",
    "row_shr",
    "row_ror",
    "wave_shl",
    "wave_rol",
    "wave_shr",
    "wave_ror",
    "row_mirror",
    "row_half_mirror",
    "row_bcast",
    "row_share",
    "row_newbcast",
    "row_xmask",
    "dpp8",
];

fn starts(name: &str, list: &[&str]) -> bool {
    list.iter().any(|start| name.starts_with(start))
}

/// What the instruction does between registers; memory is looked at elsewhere. `None` where nothing changes.
pub(crate) fn flow(text: &Text) -> Option<Flow> {
    let name = text.mnemonic.as_str();
    let operands: Vec<Vec<Register>> =
        text.operands.iter().map(|operand| registers(&operand.base)).collect();
    let scalar = |first| vec![vec![Register::Scalar(first)]];
    let some = |rule, targets, sources: &[Vec<Register>]| {
        let sources = sources.iter().filter(|registers| !registers.is_empty()).cloned().collect();
        Some(Flow { rule, targets, sources })
    };
    let rest = |from: usize| operands.get(from..).unwrap_or_default();
    let first = operands.first().cloned().unwrap_or_default();
    if name.starts_with("s_cbranch_vcc") {
        return some(Rule::Control, Vec::new(), &scalar(register::VCC));
    }
    if name.starts_with("s_cbranch_scc") {
        return some(Rule::Control, Vec::new(), &scalar(register::SCC));
    }
    if name.starts_with("s_cmp") || name.starts_with("s_bitcmp") {
        return some(Rule::Compute, vec![Register::Scalar(register::SCC)], &operands);
    }
    let writes_exec = first.contains(&Register::Scalar(register::EXEC));
    if name.contains("_saveexec_") || name.contains("_wrexec_") || writes_exec {
        return some(Rule::Control, first, rest(1));
    }
    if name.starts_with("v_cmpx") {
        return some(Rule::Control, Vec::new(), &operands);
    }
    // A transposing load gives each lane what others read; texels are converted and mixed on their way.
    let elsewhere = [
        "v_movrel",
        "s_movrel",
        "global_load_tr_",
        "buffer_load_format_",
        "image_load",
        "image_sample",
        "image_gather4",
    ];
    if starts(name, &elsewhere) {
        return some(Rule::Forget, Vec::new(), &[]);
    }
    if name.starts_with("v_swap_") {
        return some(Rule::Swap, operands.concat(), &[]);
    }
    if name.contains("permlane") && name.contains("swap") || name.starts_with("v_writelane") {
        return some(Rule::Copy, operands.concat(), &[]);
    }
    if let Some(name) = name.strip_prefix("ds_") {
        let permutes = starts(name, &["bpermute", "permute", "swizzle"]);
        let rule = Rule::Across { computes: false };
        return if permutes {
            some(rule, first, operands.get(2..3).unwrap_or(rest(1)))
        } else {
            None
        };
    }
    if !(name.starts_with("v_") || name.starts_with("s_")) || first.is_empty() {
        return None;
    }
    if name.starts_with("v_cndmask_b32")
        && let Some(Base::Scalar { first: mask, .. }) = text.operands.get(3).map(|o| o.base.clone())
    {
        // A constant keeps its place among the two.
        let sources = vec![operands[1].clone(), operands[2].clone()];
        return Some(Flow { rule: Rule::Select { mask }, targets: first, sources });
    }
    if name.starts_with("s_cselect") && operands.len() == 3 {
        return Some(Flow {
            rule: Rule::SelectScalar,
            targets: first,
            sources: operands[1..].into(),
        });
    }
    let mut targets = first;
    let mut sources = rest(1);
    // A second target, where carries and flags go.
    let two =
        name.contains("_co_") || starts(name, &["v_div_scale", "v_mad_u64_u32", "v_mad_i64_i32"]);
    let vector = matches!(targets[0], Register::Row(_));
    if two && vector && matches!(sources.first().and_then(|s| s.first()), Some(Register::Scalar(_)))
    {
        targets.extend(&sources[0]);
        sources = rest(2);
    }
    let accumulates = ["fmac", "_mac_", "dot2c_", "dot4c_", "dot8c_", "dot2acc", "addk_", "mulk_"];
    let mut all = sources.to_vec();
    if accumulates.iter().any(|part| name.contains(part)) {
        all.push(targets.clone());
    }
    let copies = starts(name, &COPIES);
    let moves_lanes = text.modifier_names().any(|modifier| LANES.contains(&modifier));
    let crosses = starts(name, &["v_cmp_", "v_mfma_", "v_wmma_", "v_swmmac_", "v_smfmac_"]);
    let reads_lanes = starts(name, &["v_readlane", "v_readfirstlane", "v_permlane"]);
    let rule = if crosses || moves_lanes || reads_lanes {
        Rule::Across { computes: crosses || (moves_lanes && !copies) }
    } else if copies {
        Rule::Copy
    } else if starts(name, &BITS) {
        Rule::Bits
    } else if !vector && operands.iter().flatten().any(|r| matches!(r, Register::Row(_))) {
        Rule::Across { computes: true }
    } else {
        Rule::Compute
    };
    some(rule, targets, &all)
}

/// The registers of the operands that make up the address of an access to memory.
pub(crate) fn address(text: &Text) -> Vec<Register> {
    let returns = usize::from(super::access::returns(text));
    let operands: &[usize] = match text.mnemonic.split_once('_') {
        Some(("global" | "flat" | "scratch", rest)) if rest.starts_with("store") => &[0, 2],
        Some(("global" | "flat" | "scratch", rest)) if rest.starts_with("atomic") => {
            &[[0, 2], [1, 3]][returns]
        }
        Some(("global" | "flat" | "scratch" | "s", _)) => &[1, 2],
        Some(("buffer", _)) => &[1, 2, 3],
        Some(("image", _)) => {
            let rows = image::rows(text, 1).unwrap_or_default();
            let scalars = text.operands.iter().skip(2);
            let descriptors = scalars.flat_map(|operand| registers(&operand.base));
            return rows.into_iter().map(Register::Row).chain(descriptors).collect();
        }
        Some(("ds", rest)) if rest.starts_with("read") || rest.starts_with("load") => &[1],
        Some(("ds", rest)) => &[usize::from(rest.contains("_rtn"))],
        _ => &[],
    };
    operands
        .iter()
        .filter_map(|index| text.operands.get(*index))
        .flat_map(|operand| registers(&operand.base))
        .collect()
}

#[cfg(test)]
mod tests {
    use device::Arch::Gfx1151;

    use super::{Register::*, *};
    use crate::text::Site;

    #[track_caller]
    fn check(line: &str, rule: Rule, targets: &[Register], sources: &[&[Register]]) {
        let text = Text::parse(line, &Site::of(Gfx1151)).expect(line);
        let expected = Flow {
            rule,
            targets: targets.to_vec(),
            sources: sources.iter().map(|registers| registers.to_vec()).collect(),
        };
        assert_eq!(flow(&text), Some(expected), "{line}");
    }

    #[test]
    fn targets_come_first_but_where_they_do_not() {
        let vcc = Scalar(register::VCC);
        check("v_add_f32_e32 v0, 1.0, v1", Rule::Compute, &[Row(0)], &[&[Row(1)]]);
        check(
            "v_fmac_f32 v0, v1, s2",
            Rule::Compute,
            &[Row(0)],
            &[&[Row(1)], &[Scalar(2)], &[Row(0)]],
        );
        check("v_mov_b32 v3, v4", Rule::Copy, &[Row(3)], &[&[Row(4)]]);
        check("v_and_b32 v3, 15, v4", Rule::Bits, &[Row(3)], &[&[Row(4)]]);
        check("v_lshl_add_u32 v3, v4, 2, v5", Rule::Compute, &[Row(3)], &[&[Row(4)], &[Row(5)]]);
        check(
            "v_add_co_u32 v0, vcc_lo, v1, v2",
            Rule::Compute,
            &[Row(0), vcc],
            &[&[Row(1)], &[Row(2)]],
        );
        check(
            "v_cndmask_b32 v0, v1, v2, vcc_lo",
            Rule::Select { mask: register::VCC },
            &[Row(0)],
            &[&[Row(1)], &[Row(2)]],
        );
        check(
            "v_cndmask_b32 v0, 0, v2, s4",
            Rule::Select { mask: 4 },
            &[Row(0)],
            &[&[], &[Row(2)]],
        );
        check(
            "v_cmp_gt_u32 vcc_lo, s3, v1",
            Rule::Across { computes: true },
            &[vcc],
            &[&[Scalar(3)], &[Row(1)]],
        );
        check("v_cmpx_gt_u32 s3, v1", Rule::Control, &[], &[&[Scalar(3)], &[Row(1)]]);
        check(
            "v_mov_b32_dpp v0, v1 row_shr:1",
            Rule::Across { computes: false },
            &[Row(0)],
            &[&[Row(1)]],
        );
        check(
            "v_readfirstlane_b32 s4, v1",
            Rule::Across { computes: false },
            &[Scalar(4)],
            &[&[Row(1)]],
        );
        check("s_cmp_eq_u32 s4, 0", Rule::Compute, &[Scalar(register::SCC)], &[&[Scalar(4)]]);
        check("s_cbranch_scc1 12", Rule::Control, &[], &[&[Scalar(register::SCC)]]);
        check("s_and_saveexec_b32 s0, vcc_lo", Rule::Control, &[Scalar(0)], &[&[vcc]]);
        check("s_cselect_b32 s0, s1, 0", Rule::SelectScalar, &[Scalar(0)], &[&[Scalar(1)], &[]]);
        check("v_swap_b32 v0, v1", Rule::Swap, &[Row(0), Row(1)], &[]);
        check(
            "ds_bpermute_b32 v0, v1, v2",
            Rule::Across { computes: false },
            &[Row(0)],
            &[&[Row(2)]],
        );
        check("v_movreld_b32 v0, v1", Rule::Forget, &[], &[]);
    }
}
