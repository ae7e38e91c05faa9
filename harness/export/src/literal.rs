//! Numbers as C++ writes them.

use plan::{Arg, Scalar, ScalarType};

/// A number that is handed over: of 16-bit floats the bits, which any compiler takes.
pub(crate) fn value(arg: &Arg) -> String {
    match arg {
        Arg::Number(Scalar { ty: ScalarType::F16 | ScalarType::Bf16, bits }) => {
            format!("uint16_t({bits:#x})")
        }
        Arg::Number(number) => literal(*number),
        Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => String::new(),
    }
}

/// A number of its type.
pub(crate) fn literal(number: Scalar) -> String {
    let of = number.as_f64();
    let ty = number.ty;
    match ty {
        ScalarType::U32 => format!("{number}u"),
        ScalarType::U64 => format!("uint64_t({number}u)"),
        // The least number has no literal.
        ScalarType::I64 => format!("int64_t({:#x}u)", number.bits),
        ScalarType::I32 => format!("int32_t({:#x}u)", number.bits),
        ScalarType::I8 | ScalarType::U8 | ScalarType::I16 | ScalarType::U16 => {
            format!("{}({number})", ty.cpp())
        }
        ScalarType::F32 if of.is_finite() => format!("{:?}f", of as f32),
        ScalarType::F64 if of.is_finite() => format!("{of:?}"),
        _ if of.is_nan() => format!("{}(NAN)", ty.cpp()),
        _ if of.is_infinite() => {
            format!("{}({}INFINITY)", ty.cpp(), if of < 0.0 { "-" } else { "" })
        }
        // 16 bits, of which every number is one of 32.
        _ => format!("{}({:?}f)", ty.cpp(), of as f32),
    }
}
