//! Types of C, beside what a compiler of C says of them.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use plan::{ScalarType, promoted, together};

/// The types that every C compiler has, as C calls them.
const TYPES: [(ScalarType, &str); 10] = [
    (ScalarType::I8, "signed char"),
    (ScalarType::U8, "unsigned char"),
    (ScalarType::I16, "short"),
    (ScalarType::U16, "unsigned short"),
    (ScalarType::I32, "int"),
    (ScalarType::U32, "unsigned int"),
    (ScalarType::I64, "long"),
    (ScalarType::U64, "unsigned long"),
    (ScalarType::F32, "float"),
    (ScalarType::F64, "double"),
];

fn in_c(ty: ScalarType) -> &'static str {
    TYPES.iter().find(|(of, _)| *of == ty).expect("a type of C").1
}

/// Whether a compiler accepts the text.
fn compiles(text: &str) -> bool {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-fsyntax-only", "-x", "c", "-"]);
    let cc = cc.stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut cc = cc.expect("a C compiler, which links the tests, too");
    cc.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    cc.wait().expect("it ends").success()
}

#[test]
fn two_numbers_have_the_type_in_common_that_c_gives_them() {
    let line = |expression: String, ty: &str| {
        format!("_Static_assert(_Generic({expression}, {ty}: 1, default: 0), \"\");\n")
    };
    let mut text = String::new();
    for (a, a_in_c) in TYPES {
        text += &line(format!("+({a_in_c})0"), in_c(promoted(a)));
        for (b, b_in_c) in TYPES {
            let both = together(a, b).expect("a type in common");
            text += &line(format!("({a_in_c})0 + ({b_in_c})0"), in_c(both));
        }
    }
    assert!(compiles(&text), "{text}");
    assert!(!compiles(&(text + &line("(short)0 + (short)0".to_owned(), "short"))));
}

/// Of small floats there is no more in C than that they are floats.
#[test]
fn small_floats_have_no_type_in_common() {
    use ScalarType::{Bf16, F16, F32, F64, I64};
    for (a, b, both) in
        [(F16, F32, F32), (Bf16, F64, F64), (F32, Bf16, F32), (F16, I64, F16), (I64, Bf16, Bf16)]
    {
        assert_eq!(together(a, b), Ok(both));
    }
    assert_eq!((together(F16, F16), promoted(Bf16)), (Ok(F16), Bf16));
    assert!(together(F16, Bf16).is_err() && together(Bf16, F16).is_err());
}
