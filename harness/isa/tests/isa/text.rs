use device::Arch;
use isa::inside::text::{Base, Constant, Site, Text};

fn check(text: &str, mnemonic: &str, operands: &[Base]) -> Text {
    let parsed = Text::parse(
        text,
        &Site { address: 0x1000, size: 4, immediate: 0xfffe, ..Site::for_arch(Arch::Gfx1100) },
    )
    .expect(text);
    assert_eq!(parsed.mnemonic, mnemonic);
    let bases: Vec<_> = parsed.operands.iter().map(|o| o.base.clone()).collect();
    assert_eq!(bases, operands, "{text}");
    parsed
}

#[test]
fn operands_and_modifiers() {
    let v = |first, count| Base::Vector { first, count };
    let s = |first, count| Base::Scalar { first, count };
    check(
        "\tv_add_f32_e32 v0, 1.0, v1",
        "v_add_f32",
        &[v(0, 1), Base::Constant(Constant::Float(1.0)), v(1, 1)],
    );
    let store = check(
        "global_store_dwordx4 v[0:1], a[4:7], off offset:-16 glc",
        "global_store_dwordx4",
        &[v(0, 2), v(260, 4), Base::Off],
    );
    assert_eq!(store.number("offset"), Ok(-16));
    assert!(store.has("glc"));
    let packed = check(
        "v_pk_fma_f16 v1, v2, s3, -v4 op_sel_hi:[1,0,1] // 0000: FF",
        "v_pk_fma_f16",
        &[v(1, 1), v(2, 1), s(3, 1), v(4, 1)],
    );
    assert_eq!(packed.list("op_sel_hi"), Some(vec![1, 0, 1]));
    assert!(packed.operands[3].negate);
    let half = check("v_add_f16_e32 v0.h, v1.l, |v2.h|", "v_add_f16", &[v(0, 1), v(1, 1), v(2, 1)]);
    assert!(half.operands[0].high && !half.operands[1].high && half.operands[2].absolute);
    let dpp = check(
        "v_mov_b32_dpp v0, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1",
        "v_mov_b32",
        &[v(0, 1), v(1, 1)],
    );
    assert_eq!(dpp.list("quad_perm"), Some(vec![1, 0, 3, 2]));
    assert_eq!(dpp.number("row_mask"), Ok(15));
    check(
        "s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 2)",
        "s_getreg_b32",
        &[s(0, 1), Base::Word("hwreg(HW_REG_MODE, 4, 2)".into())],
    );
    check("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt", &[]);
    assert_eq!(check("s_cbranch_scc0 65534", "s_cbranch_scc0", &[]).branch_target(), 0xffc);
}

#[test]
fn registers_out_of_range_are_refused() {
    for text in ["v_mov_b32 v512, 0", "s_mov_b32 s106, 0", "v_mov_b32 v[3:1], 0"] {
        assert!(
            !matches!(
                Text::parse(text, &Site::for_arch(Arch::Gfx90a))
                    .map(|t| t.operands[0].base.clone()),
                Ok(Base::Vector { .. } | Base::Scalar { .. })
            ),
            "{text}"
        );
    }
}
