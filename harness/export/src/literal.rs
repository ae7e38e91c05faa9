//! Prints numbers and strings as C++ literals.

use plan::{Arg, Scalar, ScalarType};

/// Returns a numeric argument as a C++ literal; an empty text for any other argument. A 16-bit float is printed as its
/// bits, because not every compiler supports the type.
pub(crate) fn value(arg: &Arg) -> String {
    match arg {
        Arg::Number(Scalar { ty: ScalarType::F16 | ScalarType::Bf16, bits }) => {
            format!("uint16_t({bits:#x})")
        }
        Arg::Number(number) => literal(*number),
        Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => String::new(),
    }
}

/// Returns a C++ string literal that contains the text.
pub(crate) fn text(text: &str) -> String {
    let character = |c: char| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        c if c.is_ascii_control() => format!("\\{:03o}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(character).collect::<String>())
}

/// Returns a delimiter for a raw string literal that contains `text`. The delimiter does not occur in `text`.
pub(crate) fn delimiter(text: &str) -> String {
    let ends = (0_u32..).map(|n| match n {
        0 => String::new(),
        1 => "hip".to_owned(),
        n => format!("hip{n}"),
    });
    let mut free = ends.filter(|end| !text.contains(&format!("){end}\"")));
    free.next().unwrap_or_default()
}

/// Returns a number as a C++ literal of the number's type.
pub(crate) fn literal(number: Scalar) -> String {
    let of = number.as_f64();
    let ty = number.ty;
    match ty {
        ScalarType::U32 => format!("{number}u"),
        ScalarType::U64 => format!("uint64_t({number}u)"),
        // C++ has no decimal literal for the smallest number of a signed type.
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
        // A 16-bit float is printed as a 32-bit literal, because every 16-bit value is also a 32-bit value.
        _ => format!("{}({:?}f)", ty.cpp(), of as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::{delimiter, text};

    #[test]
    fn strings_and_raw_delimiters_are_escaped() {
        assert_eq!(text("add_u32"), "\"add_u32\"");
        assert_eq!(text("\"); f(\""), r#""\"); f(\"""#);
        assert_eq!(text("\\\n\u{7}9"), r#""\\\n\0079""#);
        assert_eq!(delimiter("f()"), "");
        assert_eq!(delimiter("f(\"a)\")"), "hip");
        assert_eq!(delimiter("a)\" b)hip\""), "hip2");
    }
}
