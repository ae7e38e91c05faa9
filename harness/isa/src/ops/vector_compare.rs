//! Implements vector comparisons and class tests.

use std::sync::Arc;

use crate::{
    exec::Binder,
    float16::F16,
    masks::compare,
    operation::{DataFlow, Operation, Table},
    text::Text,
    value::UnflushedF32,
};

/// Adds a comparison to the table, as `v_cmp_*` and as `v_cmpx_*`. `binder` distinguishes the two by the mnemonic.
fn add(table: &mut Table, names: &[&str], type_name: &str, binder: Binder) {
    let binder = Arc::new(binder);
    for (prefix, passes) in [("v_cmp", DataFlow::Across), ("v_cmpx", DataFlow::Compares)] {
        let binder = binder.clone();
        let operation = Operation::from(Box::new(move |text: &Text| binder(text)));
        let operation = Arc::new(operation.with_flow(passes));
        for name in names {
            crate::operation::add(
                table,
                &format!("{prefix}_{name}_{type_name}"),
                operation.clone(),
            );
        }
    }
}

macro_rules! integers {
    ($table:ident, $($type:ident)+) => {
        $(
            let name = stringify!($type);
            add($table, &["f"], name, compare(|_: $type, _: $type| false));
            add($table, &["lt"], name, compare(|a: $type, b: $type| a < b));
            add($table, &["eq"], name, compare(|a: $type, b: $type| a == b));
            add($table, &["le"], name, compare(|a: $type, b: $type| a <= b));
            add($table, &["gt"], name, compare(|a: $type, b: $type| a > b));
            add($table, &["ne", "lg"], name, compare(|a: $type, b: $type| a != b));
            add($table, &["ge"], name, compare(|a: $type, b: $type| a >= b));
            add($table, &["t"], name, compare(|_: $type, _: $type| true));
        )+
    };
}

macro_rules! floats {
    ($table:ident, $($name:literal $type:ident $number:expr;)+) => {
        $(
            let name = $name;
            add($table, &["f"], name, compare(|_: $type, _: $type| false));
            add($table, &["lt"], name, compare(|a: $type, b: $type| $number(a) < $number(b)));
            add($table, &["eq"], name, compare(|a: $type, b: $type| $number(a) == $number(b)));
            add($table, &["le"], name, compare(|a: $type, b: $type| $number(a) <= $number(b)));
            add($table, &["gt"], name, compare(|a: $type, b: $type| $number(a) > $number(b)));
            add($table, &["lg"], name, compare(|a: $type, b: $type| {
                $number(a) < $number(b) || $number(a) > $number(b)
            }));
            add($table, &["ge"], name, compare(|a: $type, b: $type| $number(a) >= $number(b)));
            add($table, &["o"], name, compare(|a: $type, b: $type| {
                !$number(a).is_nan() && !$number(b).is_nan()
            }));
            add($table, &["u"], name, compare(|a: $type, b: $type| {
                $number(a).is_nan() || $number(b).is_nan()
            }));
            add($table, &["nge"], name, compare(|a: $type, b: $type| !($number(a) >= $number(b))));
            add($table, &["nlg"], name, compare(|a: $type, b: $type| {
                !($number(a) < $number(b) || $number(a) > $number(b))
            }));
            add($table, &["ngt"], name, compare(|a: $type, b: $type| !($number(a) > $number(b))));
            add($table, &["nle"], name, compare(|a: $type, b: $type| !($number(a) <= $number(b))));
            add($table, &["neq"], name, compare(|a: $type, b: $type| $number(a) != $number(b)));
            add($table, &["nlt"], name, compare(|a: $type, b: $type| !($number(a) < $number(b))));
            add($table, &["tru", "t"], name, compare(|_: $type, _: $type| true));
        )+
    };
}

/// Returns the class of a float, as one of the bits that `v_cmp_class` tests. The bits are, from the lowest: signalling
/// NaN, quiet NaN, negative infinity, negative normal, negative denormal, -0, +0, positive denormal, positive normal,
/// positive infinity.
fn class(bits: u64, exponent_bits: u32, fraction_bits: u32) -> u32 {
    let fraction = bits & ((1 << fraction_bits) - 1);
    let exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    let negative = bits >> (fraction_bits + exponent_bits) & 1 == 1;
    let kind = match (exponent, fraction) {
        (0, 0) => 3,
        (0, _) => 2,
        (e, f) if e == (1 << exponent_bits) - 1 => {
            if f != 0 {
                return 1 << (f >> (fraction_bits - 1) & 1);
            }
            0
        }
        _ => 1,
    };
    1 << if negative { 2 + kind } else { 9 - kind }
}

#[expect(clippy::neg_cmp_op_on_partial_ord, reason = "`nlt` is true for unordered operands")]
pub(crate) fn register(table: &mut Table) {
    integers!(table, i16 u16 i32 u32 i64 u64);
    floats! { table,
        "f16" F16 F16::to_f32;
        "f32" f32 (|x: f32| x);
        "f64" f64 (|x: f64| x);
    }
    add(
        table,
        &["class"],
        "f32",
        // Denormals are not flushed: LLVM, `VOPCInstructions.td`, "cmp_class ignores the FP mode".
        compare(|a: UnflushedF32, mask: u32| class(u64::from(a.0.to_bits()), 8, 23) & mask != 0),
    );
    add(
        table,
        &["class"],
        "f64",
        compare(|a: f64, mask: u32| class(a.to_bits(), 11, 52) & mask != 0),
    );
    add(
        table,
        &["class"],
        "f16",
        compare(|a: F16, mask: u16| class(u64::from(a.0), 5, 10) & u32::from(mask) != 0),
    );
}
