//! Tests properties of all operations in the table.

use isa::inside::ops::TABLE;

/// Parts of the names of float operations whose result does not depend on MODE's rounding. These operations are exact
/// or approximate, or have a fixed rounding mode.
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
fn float_operations_follow_mode_or_have_fixed_rounding() {
    let mut rounded = 0;
    for (name, operation) in TABLE.iter() {
        let parts: Vec<&str> = name.split(['_', ' ']).collect();
        let is_float = |part: &str| ["f16", "f32", "f64", "bf16"].contains(&part);
        // The name of a conversion contains the type of the result before that of the operand. Other names contain only
        // one type, or also the type of the result first.
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
