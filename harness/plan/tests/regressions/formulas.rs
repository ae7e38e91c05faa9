//! Compares the evaluation of random formulas with a C compiler: types, conversions, precedence and literals.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, process::Command};

use plan::{
    Formula, FormulaError, FormulaInputs, KernelParameter, Scalar, ScalarType, own_parameters,
};
use proptest::{
    prelude::*,
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngSeed, TestRunner},
};

use super::types::TYPES;

/// Number of random formulas that are drawn. Several hundred of them have a defined value.
const DRAWN: usize = 1500;
/// Number of work-items, and of elements per buffer.
const ITEMS: u32 = 3;

/// Values of the numeric parameters `a` and `b`, for each type of `TYPES`: limits of the C type, or numbers near the
/// limits.
const NUMBERS: [(&str, &str); 10] = [
    ("-128", "7"),
    ("255", "3"),
    ("-32768", "300"),
    ("65535", "9"),
    ("2147483647", "-5"),
    ("4294967295", "31"),
    ("-9223372036854775807", "40"),
    ("18446744073709551615", "2"),
    ("0.1", "-2.5"),
    ("1e300", "-0.75"),
];

/// Returns the source of a kernel whose output has elements of type `element`. The parameters `a0` to `a9` and `b0` to
/// `b9` are numbers. Each of `p0` to `p9` points to three elements: the values of the `a` and the `b` with the same
/// number, and 1.
fn source(element: &str) -> String {
    let mut parameters = vec![format!("{element}* out")];
    for (n, (_, ty)) in TYPES.iter().enumerate() {
        parameters.push(format!("{ty} a{n}, {ty} b{n}, const {ty}* p{n}"));
    }
    format!("extern \"C\" __global__ void k({}) {{}}\n", parameters.join(", "))
}

struct Given(Vec<KernelParameter>);

impl Given {
    fn value(&self, parameter: usize, at: i128) -> Option<Scalar> {
        let n: usize = self.0[parameter].name[1..].parse().expect("a number behind a letter");
        let text = match at {
            0 => NUMBERS[n].0,
            1 => NUMBERS[n].1,
            2 => "1",
            _ => return None,
        };
        Some(Scalar::parse(TYPES[n].0, text).expect("it is one"))
    }
}

impl FormulaInputs for Given {
    fn number(&self, parameter: usize) -> Option<Scalar> {
        self.value(parameter, self.0[parameter].name.starts_with('b').into())
    }

    fn element(&self, parameter: usize, at: i128) -> Result<Option<Scalar>, FormulaError> {
        self.value(parameter, at).map(Some).ok_or(FormulaError::Outside)
    }
}

type Texts = (String, String);

fn same(text: &str) -> Texts {
    (text.to_owned(), text.to_owned())
}

fn leaf() -> impl Strategy<Value = Texts> {
    const LITERALS: [&str; 25] = [
        "0",
        "1",
        "3",
        "31u",
        "2147483647",
        "2147483648",
        "4294967295",
        "0x80000000",
        "0xffu",
        "0xFFFFFFFFFFFFFFFF",
        "7l",
        "7ul",
        "5LU",
        "9ull",
        "1.5",
        "1.5f",
        ".5",
        "2.",
        "1e3",
        "1e-3f",
        "2.5E+2",
        "1E2F",
        "0.1f",
        "0.1",
        "0xe",
    ];
    prop_oneof![
        4 => (0..10_usize, prop::sample::select(&["a", "b"][..])).prop_map(|(n, x)| same(&format!("{x}{n}"))),
        2 => (0..10_usize, prop::sample::select(&["0", "1", "2", "i", "i % 2", "items - 1"][..]))
            .prop_map(|(n, at)| same(&format!("p{n}[{at}]"))),
        3 => prop::sample::select(&LITERALS[..]).prop_map(same),
        1 => prop::sample::select(&["i", "items"][..]).prop_map(same),
    ]
}

fn both(of: &Texts, then: impl Fn(&str) -> String) -> Texts {
    (then(&of.0), then(&of.1))
}

fn expression() -> impl Strategy<Value = Texts> {
    let signs = [
        "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&",
        "||",
    ];
    leaf().prop_recursive(4, 20, 3, move |inner| {
        let sign = prop::sample::select(signs.to_vec());
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            // Without parentheses, the value depends on the precedence of the operators.
            6 => (inner.clone(), sign, inner.clone()).prop_map(|(a, sign, b)| {
                (format!("{} {sign} {}", a.0, b.0), format!("{} {sign} {}", a.1, b.1))
            }),
            3 => inner.clone().prop_map(|a| both(&a, |a| format!("({a})"))),
            2 => (prop::sample::select(vec!["-", "~", "!"]), inner.clone())
                .prop_map(|(sign, a)| both(&a, |a| format!("{sign} {a}"))),
            2 => (0..TYPES.len(), inner.clone()).prop_map(|(n, a)| {
                (format!("{}({})", word(TYPES[n].0), a.0), format!("(({})({}))", TYPES[n].1, a.1))
            }),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| {
                (format!("({} ? {} : {})", c.0, a.0, b.0), format!("({} ? {} : {})", c.1, a.1, b.1))
            }),
            1 => (prop::bool::ANY, two.clone()).prop_map(|(least, (a, b))| {
                let (name, sign) = if least { ("min", "<") } else { ("max", ">") };
                let c = format!(
                    "({{ __typeof__(({0}) + ({1})) a_ = ({0}), b_ = ({1}); a_ {sign} b_ ? a_ : b_; }})", a.1, b.1
                );
                (format!("{name}({}, {})", a.0, b.0), c)
            }),
            1 => inner.clone().prop_map(|a| {
                let of = "_Generic(+a_, float: fabsf, double: fabs, unsigned: same, unsigned long: same, unsigned long long: same, default: absolute)";
                (format!("abs({})", a.0), format!("({{ __typeof__(+({})) a_ = ({}); (__typeof__(a_)){of}(a_); }})", a.1, a.1))
            }),
            1 => inner.clone().prop_map(|a| {
                (format!("sqrt({})", a.0), format!("({{ __typeof__(+({0})) a_ = ({0}); _Generic(a_, float: sqrtf, double: sqrt)(a_); }})", a.1))
            }),
            1 => (inner.clone(), two).prop_map(|(a, (b, c))| {
                let (x, y, z) = (&a.1, &b.1, &c.1);
                let of = format!("_Generic(({x}) + ({y}) + ({z}), float: fmaf, double: fma)");
                (format!("fma({}, {}, {})", a.0, b.0, c.0), format!("{of}({x}, {y}, {z})"))
            }),
            1 => (prop::sample::select(vec!["2", "items", "i", "a0", "items - 1"]), inner).prop_map(|(n, a)| {
                let c = format!(
                    "({{ unsigned k = 0; __typeof__(+({0})) s_ = 0; for (; (long)k < (long)({n}); k++) s_ = s_ + ({0}); s_; }})", a.1
                );
                // The summed expression contains the variable `k` of the sum.
                (format!("sum(k < {n}, {})", a.0.replace("a5", "k")), c.replace("a5", "k"))
            }),
        ]
    })
}

fn word(ty: ScalarType) -> String {
    format!("{ty:?}").to_lowercase()
}

/// Returns a C program with one function per formula, each on a line of its own, and the number of lines before the
/// first one. A function returns the type and value of its formula.
fn program(all: &[(usize, String)]) -> (String, usize) {
    let mut text = "#include <math.h>\n#include <stdio.h>\n#include <string.h>\n\
        static unsigned long same(unsigned long a) { return a; }\n\
        static long absolute(long a) { return a < 0 ? -a : a; }\n"
        .to_owned();
    for (n, (_, c)) in TYPES.iter().enumerate() {
        let (x, y) = NUMBERS[n];
        let x = if x == "18446744073709551615" { "18446744073709551615u" } else { x };
        let _ = writeln!(text, "static {c} a{n} = {x}, b{n} = {y}, p{n}[] = {{ {x}, {y}, 1 }};");
    }
    let before = text.lines().count();
    for (at, (ty, c)) in all.iter().enumerate() {
        let ty = TYPES[*ty].1;
        let _ = writeln!(
            text,
            "static void f{at}(unsigned i, unsigned items) {{ {ty} out = {c}; unsigned long bits = 0; \
             memcpy(&bits, &out, sizeof out); printf(\"%lu\\n\", bits); }}"
        );
    }
    text += "int main(void) {\n";
    for at in 0..all.len() {
        let _ = writeln!(text, "for (unsigned i = 0; i < {ITEMS}; i++) f{at}(i, {ITEMS});");
    }
    (text + "return 0; }\n", before)
}

/// Compiles the program and returns the numbers of the lines in which the compiler reports errors. `-frounding-math`
/// prevents the compiler from folding constants.
fn compile(text: &str, program: &Path) -> BTreeSet<usize> {
    let file = program.with_extension("c");
    fs::write(&file, text).expect("it is written");
    let options = ["-std=gnu11", "-O0", "-w", "-ffp-contract=off", "-frounding-math", "-o"];
    let mut cc = Command::new("cc");
    let cc = cc.args(options).args([program, &file]).arg("-lm").output();
    let said = cc.expect("a C compiler, which links the tests, too").stderr;
    let error = |line: &str| {
        let (line, _) = line.split_once(": error")?;
        line.strip_prefix(&*file.to_string_lossy())?.split(':').nth(1)?.parse().ok()
    };
    String::from_utf8_lossy(&said).lines().filter_map(error).collect()
}

/// Returns, for each formula, the bits that the C program computes for each work-item.
fn computed_by_c(all: &[(usize, String)]) -> Vec<Vec<u64>> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("formulas");
    let (text, _) = program(all);
    assert_eq!(compile(&text, &file), BTreeSet::new(), "{text}");
    let out = Command::new(&file).output().expect("it runs").stdout;
    let bits: Vec<u64> =
        String::from_utf8(out).expect("digits").lines().map(|l| l.parse().expect("bits")).collect();
    bits.chunks(ITEMS as usize).map(<[u64]>::to_vec).collect()
}

#[test]
fn formulas_have_the_values_that_c_computes() {
    let config = Config { rng_seed: RngSeed::Fixed(29), ..Config::default() };
    let mut runner = TestRunner::new(config);
    let (mut texts, mut in_c, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut refused = Vec::new();
    for _ in 0..DRAWN {
        let drawn = (0..TYPES.len(), expression()).new_tree(&mut runner).expect("it is drawn");
        let (ty, (text, c)) = drawn.current();
        let given = own_parameters(&source(TYPES[ty].1), "k").expect("they are plainly there");
        let formula = Formula::parse(&format!("out[i] = {text} for i < items"), &given);
        let Ok(formula) = formula else {
            refused.push((ty, c));
            continue;
        };
        // Formulas with undefined behaviour are left out, because they have no value to compare.
        let mut values = Vec::new();
        let done = formula.evaluate(&Given(given), ITEMS, |_, value| {
            values.push(value.expect("all is known"));
            Ok(())
        });
        if done.is_ok() {
            texts.push(text);
            in_c.push((ty, c));
            found.push(values);
        }
    }
    assert!(texts.len() > DRAWN / 4, "{} of {DRAWN}", texts.len());
    // The C compiler must also reject each text that the parser of formulas rejects.
    let folder = tempfile::tempdir().expect("a folder");
    let (text, before) = program(&refused);
    let no_c = compile(&text, &folder.path().join("refused"));
    let is_c = |(at, _): &(usize, &(usize, String))| !no_c.contains(&(before + at + 1));
    let is_c: Vec<_> = refused.iter().enumerate().filter(is_c).map(|(_, (_, c))| c).collect();
    assert!(
        is_c.is_empty() && !refused.is_empty(),
        "{} of {}: {is_c:#?}",
        is_c.len(),
        refused.len()
    );
    let is = |value: &Scalar, bits: u64| {
        let other = Scalar { bits, ..*value };
        value.bits == bits
            || value.ty.is_float() && value.as_f64().is_nan() && other.as_f64().is_nan()
    };
    let wrong: Vec<String> = computed_by_c(&in_c)
        .into_iter()
        .zip(&found)
        .zip(texts.iter().zip(&in_c))
        .filter(|((computed, found), _)| {
            !found.iter().zip(computed).all(|(value, bits)| is(value, *bits))
        })
        .map(|((computed, found), (text, (ty, c)))| {
            format!("{} of {text}: {found:x?}, and C has {computed:x?} for {c}", TYPES[*ty].1)
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        texts.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
}

#[test]
fn rejects_numbers_that_c_rejects() {
    let parameters = own_parameters(&source("double"), "k").expect("they are plainly there");
    let parsed = |number: &str| Formula::parse(&format!("out[i] = {number}"), &parameters).err();
    for number in ["0", "00.5", "1llu", "1LL", "0x10u", "0e1", "1.f"] {
        assert_eq!(parsed(number), None, "{number}");
    }
    for number in
        ["1lul", "1lL", "1uu", "1lll", "1fu", "0x", "1x", "1.5.2", "1e", "99999999999999999999"]
    {
        assert!(parsed(number).is_some(), "{number}");
    }
    // A sign belongs to a number only if it follows the `e` of the number.
    for sum in ["1+2", "1.5-1", "0xe+1", "1e+2-1e-2", "a0-1"] {
        assert_eq!(parsed(sum), None, "{sum}");
    }
    for (call, why) in
        [("min(1)", "`min` takes 2 values"), ("sqrt(1.0, 2.0)", "`sqrt` takes 1 value")]
    {
        assert_eq!(parsed(call).as_deref(), Some(why));
    }
    // A chain of operators nests expressions as deeply as parentheses do.
    assert_eq!(parsed(&format!("{}1", "-1 + ".repeat(200))), None);
    assert_eq!(
        parsed(&format!("{}1", "- ".repeat(200))).as_deref(),
        Some("the formula is nested too deeply")
    );
    for number in ["010", "07u", "00", "09"] {
        assert!(parsed(number).is_some_and(|why| why.contains("octal")), "{number}");
    }
}
