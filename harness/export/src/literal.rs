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

/// A text, whatever stands in it.
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

/// What ends a raw literal of a text, in which that does not stand.
pub(crate) fn delimiter(text: &str) -> String {
    let ends = (0_u32..).map(|n| match n {
        0 => String::new(),
        1 => "hip".to_owned(),
        n => format!("hip{n}"),
    });
    let mut free = ends.filter(|end| !text.contains(&format!("){end}\"")));
    free.next().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::{delimiter, text};

    #[test]
    fn a_text_ends_where_it_ends() {
        assert_eq!(text("add_u32"), "\"add_u32\"");
        assert_eq!(text("\"); f(\""), r#""\"); f(\"""#);
        assert_eq!(text("\\\n\u{7}9"), r#""\\\n\0079""#);
        assert_eq!(delimiter("f()"), "");
        assert_eq!(delimiter("f(\"a)\")"), "hip");
        assert_eq!(delimiter("a)\" b)hip\""), "hip2");
    }
}
