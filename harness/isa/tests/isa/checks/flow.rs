//! Tests the propagation of uninitialised data between registers.

use device::Arch::Gfx1151;
use isa::inside::{
    checks::flow::{Flow, Register, Register::*, Rule, address, flow},
    text::{Site, Text, register},
};

#[track_caller]
fn check(line: &str, rule: Rule, targets: &[Register], sources: &[&[Register]]) {
    let text = Text::parse(line, &Site::for_arch(Gfx1151)).expect(line);
    let expected = Flow {
        rule,
        targets: targets.to_vec(),
        sources: sources.iter().map(|registers| registers.to_vec()).collect(),
    };
    assert_eq!(flow(&text), Some(expected), "{line}");
}

#[test]
fn targets_precede_sources_with_exceptions() {
    let vcc = Scalar(register::VCC);
    check("v_add_f32_e32 v0, 1.0, v1", Rule::Compute, &[Row(0)], &[&[Row(1)]]);
    check("v_fmac_f32 v0, v1, s2", Rule::Compute, &[Row(0)], &[&[Row(1)], &[Scalar(2)], &[Row(0)]]);
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
    check("v_cndmask_b32 v0, 0, v2, s4", Rule::Select { mask: 4 }, &[Row(0)], &[&[], &[Row(2)]]);
    check(
        "v_cmp_gt_u32 vcc_lo, s3, v1",
        Rule::Across { computes: true },
        &[vcc],
        &[&[Scalar(3)], &[Row(1)]],
    );
    check("v_cmpx_gt_u32 s3, v1", Rule::Control, &[], &[&[Scalar(3)], &[Row(1)]]);
    check("v_cmpx_gt_u32 vcc_lo, s3, v1", Rule::Control, &[vcc], &[&[Scalar(3)], &[Row(1)]]);
    check("v_writelane_b32 v0, s3, s4", Rule::Copy, &[Row(0)], &[]);
    check("s_not_b32 s0, s1", Rule::Bits, &[Scalar(0)], &[&[Scalar(1)]]);
    check("v_pk_lshlrev_b16 v0, v1, v2", Rule::Bits, &[Row(0)], &[&[Row(1)], &[Row(2)]]);
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
    check("ds_bpermute_b32 v0, v1, v2", Rule::Across { computes: false }, &[Row(0)], &[&[Row(2)]]);
    check("v_movreld_b32 v0, v1", Rule::Forget, &[], &[]);
}

#[test]
fn address_operands_depend_on_the_kind_of_access() {
    let check = |line: &str, expected: &[Register]| {
        let text = Text::parse(line, &Site::for_arch(Gfx1151)).expect(line);
        assert_eq!(address(&text), expected, "{line}");
    };
    check("global_load_b32 v0, v1, s[2:3]", &[Row(1), Scalar(2), Scalar(3)]);
    check("global_store_b32 v1, v0, s[2:3]", &[Row(1), Scalar(2), Scalar(3)]);
    check("global_load_lds_dwordx4 v1, s[2:3]", &[Row(1), Scalar(2), Scalar(3)]);
    let buffer = [Row(1), Scalar(4), Scalar(5), Scalar(6), Scalar(7), Scalar(2)];
    check("buffer_load_b32 v0, v1, s[4:7], s2 offen", &buffer);
    check("buffer_load_dword v1, s[4:7], s2 offen lds", &buffer);
}
