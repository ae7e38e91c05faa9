//! Compares how `plan` treats C types, in formulas and in kernel parameters, with a C compiler.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use plan::{Arg, ScalarType, common_type, flat_args, own_parameters, promoted_type};

/// Types that every C compiler supports, with their names in C.
pub(super) const TYPES: [(ScalarType, &str); 10] = [
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

fn compiles(text: &str) -> bool {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-fsyntax-only", "-x", "c", "-"]);
    let cc = cc.stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut cc = cc.expect("a C compiler, which links the tests, too");
    cc.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    cc.wait().expect("it ends").success()
}

#[test]
fn common_types_equal_those_of_c() {
    let line = |expression: String, ty: &str| {
        format!("_Static_assert(_Generic({expression}, {ty}: 1, default: 0), \"\");\n")
    };
    let mut text = String::new();
    for (a, a_in_c) in TYPES {
        text += &line(format!("+({a_in_c})0"), in_c(promoted_type(a)));
        for (b, b_in_c) in TYPES {
            let both = common_type(a, b).expect("a type in common");
            text += &line(format!("({a_in_c})0 + ({b_in_c})0"), in_c(both));
        }
    }
    assert!(compiles(&text), "{text}");
    assert!(!compiles(&(text + &line("(short)0 + (short)0".to_owned(), "short"))));
}

/// Not every C compiler supports f16 and bf16, so these expected results are written by hand.
#[test]
fn f16_and_bf16_have_no_common_type() {
    use ScalarType::{Bf16, F16, F32, F64, I64};
    for (a, b, both) in
        [(F16, F32, F32), (Bf16, F64, F64), (F32, Bf16, F32), (F16, I64, F16), (I64, Bf16, Bf16)]
    {
        assert_eq!(common_type(a, b), Ok(both));
    }
    assert_eq!((common_type(F16, F16), promoted_type(Bf16)), (Ok(F16), Bf16));
    assert!(common_type(F16, Bf16).is_err() && common_type(Bf16, F16).is_err());
}

#[test]
fn struct_sizes_equal_those_of_c() {
    let structs = [
        "char a; double b; char c;",
        "short a; int b; short c; short d;",
        "float* a; unsigned char b;",
        "char a; char b; char c;",
        "long a; float b; double c; unsigned short d;",
    ];
    let mut text = String::new();
    for members in structs {
        let source = format!(
            "struct S {{ {members} }};\nextern \"C\" __global__ void k(struct S s, char x) {{}}"
        );
        let parameters = own_parameters(&source, "k").expect("they are plainly there");
        let bytes: Vec<_> = parameters.iter().map(|parameter| parameter.kind.bytes()).collect();
        let [Some(of_struct), Some(1)] = bytes[..] else { panic!("{members}: {bytes:?}") };
        text += &format!("_Static_assert(sizeof(struct {{ {members} }}) == {of_struct}, \"\");\n");
    }
    assert!(compiles(&text), "{text}");
}

/// The content of literals in single and double quotes, some with backslashes, must not be read as code.
#[test]
fn string_literals_are_not_parameters() {
    for before in [
        "const char* a = \"void k(int x) {}\";",
        "const char* a = \"\\\"void k(int x) {}\";",
        "char a = '\"';",
        "char a = '\\'', b = '\"';",
        "const char* a = \"it's\";",
    ] {
        let source = format!("{before}\nextern \"C\" __global__ void k(float* out, long n) {{}}\n");
        let parameters = own_parameters(&source, "k").unwrap_or_else(|| panic!("{source}"));
        let names: Vec<_> = parameters.iter().map(|parameter| &*parameter.name).collect();
        assert_eq!(names, ["out", "n"], "{source}");
    }
}

#[test]
fn reads_several_structs() {
    let source = "int before;\nstruct A { int a; };\nstruct B { double b; };\ntypedef struct { char c; } C;\n\
                  extern \"C\" __global__ void k(A a, struct B b, C c) {}";
    let parameters = own_parameters(source, "k").expect("they are plainly there");
    let bytes: Vec<_> = parameters.iter().map(|parameter| parameter.kind.bytes()).collect();
    assert_eq!(bytes, [Some(4), Some(8), Some(1)]);
}

#[test]
fn nested_struct_definitions_are_not_read() {
    let source = "struct O { struct I { int i; } x; struct P { int p; }; };\nstruct Q { int q; };\n\
                  extern \"C\" __global__ void k(P p, Q q) {}";
    let parameters = own_parameters(source, "k").expect("they are plainly there");
    let bytes: Vec<_> = parameters.iter().map(|parameter| parameter.kind.bytes()).collect();
    assert_eq!(bytes, [None, Some(4)]);
}

/// A `const` before the last star means that the kernel does not write through the pointer. A `const` after the last
/// star does not.
#[test]
fn pointers_to_const_are_read_only() {
    for (declaration, read) in [
        ("const float* p", true),
        ("float const* p", true),
        ("float* const p", false),
        ("float** p", false),
        ("float const** p", false),
        ("const float** p", false),
        ("float* const* p", true),
        ("const float* const* p", true),
    ] {
        let source = format!("extern \"C\" __global__ void k({declaration}) {{}}");
        let parameters = own_parameters(&source, "k").expect("it is plainly there");
        let plan::KernelParameterKind::Pointer { only_read, .. } = parameters[0].kind else {
            panic!("{declaration}: {parameters:?}")
        };
        assert_eq!(only_read, read, "{declaration}");
    }
}

/// A struct argument is not flattened if its number of members differs from that of the kernel's parameter.
#[test]
fn structs_with_matching_members_are_flattened() {
    let source = "struct S { int a; int b; };\nextern \"C\" __global__ void k(S s, int n) {}";
    let parameters = own_parameters(source, "k").expect("they are plainly there");
    let number = |n| Arg::u32(n);
    let args = |members: Vec<Arg>| vec![Arg::Struct(members), number(9)];
    let flat = |members| flat_args(&parameters, &args(members));
    assert_eq!(flat(vec![number(1), number(2)]), [number(1), number(2), number(9)]);
    assert_eq!(flat(vec![number(1)]), args(vec![number(1)]));
}
