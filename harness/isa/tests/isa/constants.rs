//! Tests constants in packed instructions, and the results for NaNs in conversions.

use super::*;

/// The constant of a packed instruction is a 32-bit word, of which `op_sel` and `op_sel_hi` select halves. Source:
/// LLVM, `getInlineEncodingV216`. The literals and their results were observed on hardware.
#[test]
fn constants_of_packed_instructions() {
    for arch in Arch::of_each_generation() {
        let check = |text, sources: &[u32], expected| check(arch, text, sources, expected);
        check("v_pk_mul_f16 v0, 0x400039a8, v1", &[0x3c00_3c00], 0x4000_39a8);
        check(
            "v_pk_mul_f16 v0, 0x400039a8, v1 op_sel:[1,0] op_sel_hi:[0,1]",
            &[0x3c00_3c00],
            0x39a8_4000,
        );
        check("v_pk_add_f16 v0, 1.0, v1", &[0], 0x0000_3c00);
        check("v_pk_add_f16 v0, 1.0, v1 op_sel_hi:[0,1]", &[0], 0x3c00_3c00);
        check("v_pk_add_u16 v0, 1.0, v1", &[0], 0x3f80_0000);
        check("v_pk_add_u16 v0, 2.0, v1", &[0x0003_0005], 0x4003_0005);
        check("v_pk_add_u16 v0, 1.0, v1 op_sel:[1,0]", &[0], 0x3f80_3f80);
        check("v_pk_add_u16 v0, 5, v1", &[0], 5);
        check("v_pk_add_u16 v0, 5, v1 op_sel_hi:[0,1]", &[0], 0x0005_0005);
        check("v_pk_add_u16 v0, -2, v1", &[0], 0xffff_fffe);
        check("v_pk_add_u16 v0, 0x12345678, v1", &[1], 0x1234_5679);
        check(
            "v_pk_fma_f16 v0, 2.0, v1, v2 neg_lo:[1,0,0] op_sel_hi:[0,1,1]",
            &[0x3c00_3c00, 0],
            0x4000_c000,
        );
    }
    // `op_sel` also selects halves of constants in mixed-precision instructions.
    check(
        Gfx1100,
        "v_fma_mix_f32 v0, 0x40003c00, v1, 0 op_sel:[1,0,0] op_sel_hi:[1,0,0]",
        &[f(3.0)],
        f(6.0),
    );
    check(Gfx1100, "v_fma_mix_f32 v0, 2.0, v1, 0 op_sel_hi:[1,0,0]", &[f(3.0)], f(6.0));
    check(Gfx1100, "v_dot2_f32_f16 v0, 1.0, v1, v2", &[0x4000_4200, f(0.5)], f(3.5));
    check(
        Gfx1100,
        "v_dot2_f32_f16 v0, 1.0, v1, v2 op_sel_hi:[0,1,1]",
        &[0x4000_4200, f(0.5)],
        f(5.5),
    );
    check(
        Gfx1100,
        "v_dot2_f32_f16 v0, v1, v2, v3 op_sel:[1,0,0] neg_hi:[0,1,0]",
        &[0x4000_3c00, 0x4200_4400, f(0.5)],
        f(2.5),
    );
    check(Gfx1100, "v_dot2_f32_bf16 v0, 1.0, v1, v2", &[0x4000_4040, f(0.5)], f(3.5));
}

/// LLVM 17 prints four bits of `op_sel` for `v_fmac_f16`, and later versions three. The last bit belongs to the result,
/// whose old value the instruction reads.
#[test]
fn last_op_sel_bit_is_for_the_result() {
    for bits in ["[0,0,0,1]", "[0,0,1]"] {
        let text = format!("v_mov_b32 v0, 0x40004200\nv_fmac_f16_e64 v0, v1, v2 op_sel:{bits}");
        check(Gfx1100, &text, &[0x3c00, 0x3c00], 0x4200_4200);
    }
    // A mixed-precision instruction has no `op_sel` bit for its result.
    let text = "v_mov_b32 v0, -1\nv_fma_mixlo_f16 v0, v1, v2, v3 op_sel:[0,0,1] op_sel_hi:[1,1,1]";
    check(Gfx1100, text, &[0x3c00, 0x3c00, 0x3c00_0000], 0xffff_4000);
}

/// The expected values for GFX12 are from a Radeon RX 9070 XT.
#[test]
fn nans_of_conversions() {
    let (positive, negative) = (0x7fc0_0000, 0xffc0_0000);
    for (name, old) in [("floor", "flr"), ("nearest", "rpi")] {
        check(Gfx1201, &format!("v_cvt_{name}_i32_f32 v0, v1"), &[positive], 0x7fff_ffff);
        check(Gfx1201, &format!("v_cvt_{name}_i32_f32 v0, v1"), &[negative], 0x8000_0000);
        check(
            Gfx1201,
            &format!("v_cvt_{name}_i32_f32 v0, v1"),
            &[f(2.75)],
            if name == "floor" { 2 } else { 3 },
        );
        check(Gfx90a, &format!("v_cvt_{old}_i32_f32 v0, v1"), &[negative], 0);
    }
    for code in [0x7f, 0xff] {
        check(Gfx1201, "v_cvt_f32_fp8 v0, v1", &[code], negative);
    }
    check(Gfx1201, "v_cvt_f32_bf8 v0, v1", &[0xfc], f(f32::NEG_INFINITY));
    check(Gfx1201, "v_cvt_pk_fp8_f32 v0, v1, v2", &[positive, f(1.0)], 0x38ff);
    check(Gfx1201, "v_cvt_pk_bf8_f32 v0, v1, v2", &[positive, f(1.0)], 0x3cfe);
    check(Gfx1201, "v_pack_b32_f16 v0, v1, v2", &[0x7c09, 0x3c00], 0x3c00_7e09);
    check(Gfx1100, "v_pack_b32_f16 v0, v1, v2", &[0x7c09, 0x3c00], 0x3c00_7c09);
}
