//! Compares the values of random formulas with the values that a C++ compiler computes, both for the original formula
//! and for the exported one.

use std::{fmt::Write, process::Command};

use plan::{
    Arg, Buffer, BufferAddress, CaseKernel, Choice, FormulaError, FormulaInputs, Memory, Scalar,
    flat_args, flat_parameters, own_parameters, pattern,
};

use super::*;

/// Number of elements of each output buffer.
const ITEMS: u32 = 12;
const FORMULAS: u64 = 300;

const STRUCTS: &str = "struct N { short h; long l; }; struct Q { int m; unsigned u; N n; };";
const SOURCE: &str = "__global__ void k(OUT *out, const float *f, const double *d, const int *s, const unsigned char *b, const \
                      unsigned long *w, float x, double y, Q q) {}";
/// Names of the parameters of the kernel that are pointers to inputs. `NUMBERS` contains the other parameters and the
/// members of the struct parameter, with their values.
const INPUTS: [&str; 5] = ["f", "d", "s", "b", "w"];
const NUMBERS: [(&str, ScalarType, &str); 6] = [
    ("x", ScalarType::F32, "-0.75"),
    ("y", ScalarType::F64, "1e10"),
    ("q.m", ScalarType::I32, "-7"),
    ("q.u", ScalarType::U32, "4000000000"),
    ("q.n.h", ScalarType::I16, "-300"),
    ("q.n.l", ScalarType::I64, "-5000000000"),
];
const OUTPUTS: [(&str, ScalarType); 6] = [
    ("float", ScalarType::F32),
    ("double", ScalarType::F64),
    ("int", ScalarType::I32),
    ("unsigned", ScalarType::U32),
    ("unsigned char", ScalarType::U8),
    ("long", ScalarType::I64),
];

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Returns a random expression twice: as a formula and in C++.
    fn expr(&mut self, depth: u32, sums: u32) -> (String, String) {
        let both = |text: String| (text.clone(), text);
        if depth == 0 || self.below(6) == 0 {
            return match self.below(5) {
                0 => both(self.of(&["i", "items"]).to_owned()),
                1 => both(self.of(&["3", "2u", "0.5f", "1.25", "0x7fff", "100000"]).to_owned()),
                2 if sums > 0 => both("k".to_owned()),
                2 | 3 => both(self.of(&NUMBERS).0.to_owned()),
                _ => both(format!("{}[(i * 5 + {}) % items]", self.of(&INPUTS), self.below(9))),
            };
        }
        let (a, a_cpp) = self.expr(depth - 1, sums);
        let (b, b_cpp) = self.expr(depth - 1, sums);
        match self.below(12) {
            0 => {
                let (c, c_cpp) = self.expr(depth - 1, sums);
                (format!("({a} ? {b} : {c})"), format!("({a_cpp} ? {b_cpp} : {c_cpp})"))
            }
            1 => {
                let ty = self.of(ScalarType::ALL).1;
                let ty = if [ScalarType::F16, ScalarType::Bf16].contains(&ty) {
                    ScalarType::U16
                } else {
                    ty
                };
                (format!("{}({a})", ty.word()), format!("(({})({a_cpp}))", ty.cpp()))
            }
            2 => {
                let name = self.of(&["min", "max"]);
                let sign = if name == "min" { '<' } else { '>' };
                let cpp = format!("(({a_cpp}) {sign} ({b_cpp}) ? ({a_cpp}) : ({b_cpp}))");
                (format!("{name}({a}, {b})"), cpp)
            }
            3 => (format!("fma({a}, {b}, x)"), format!("fused({a_cpp}, {b_cpp}, x)")),
            4 => {
                let name = self.of(&["abs", "sqrt"]);
                (format!("{name}({a})"), format!("{name}_of({a_cpp})"))
            }
            5 => {
                let sign = self.of(&["-", "~", "!"]);
                (format!("{sign}({a})"), format!("{sign}({a_cpp})"))
            }
            6 if sums == 0 => {
                let (each, each_cpp) = self.expr(depth - 1, 1);
                let cpp = format!(
                    "[&] {{ decltype(+({each_cpp})) all = 0; for (k = 0; k < 3; k++) all = all + ({each_cpp}); k = 0; return all; }}()"
                );
                (format!("sum(k < 3, {each})"), cpp)
            }
            _ => {
                let sign = self.of(&[
                    "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">",
                    ">=", "&&", "||",
                ]);
                (format!("({a} {sign} {b})"), format!("({a_cpp} {sign} {b_cpp})"))
            }
        }
    }
}

struct Inputs<'i> {
    args: &'i [Arg],
    bytes: Vec<Vec<u8>>,
    types: Vec<Option<ScalarType>>,
}

impl FormulaInputs for Inputs<'_> {
    fn number(&self, parameter: usize) -> Option<Scalar> {
        if let Arg::Number(number) = self.args[parameter] { Some(number) } else { None }
    }

    fn element(&self, parameter: usize, at: i128) -> Result<Option<Scalar>, FormulaError> {
        let ty = self.types[parameter].expect("numbers");
        let all = &self.bytes[parameter];
        let start = at as usize * ty.bytes();
        let bytes = all.get(start..start + ty.bytes()).ok_or(FormulaError::Outside)?;
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        Ok(Some(Scalar { ty, bits: u64::from_le_bytes(bits) }))
    }
}

/// Returns the bytes of an input buffer: arbitrary integers, or floats that are neither tiny nor huge.
fn input(index: usize, ty: ScalarType) -> Vec<u8> {
    let mut bytes = vec![0; ITEMS as usize * ty.bytes()];
    pattern(index as u64, &mut bytes);
    for chunk in bytes.chunks_exact_mut(ty.bytes()).filter(|_| ty.is_float()) {
        let number = format!("{}", f64::from(i16::from_le_bytes([chunk[0], chunk[1]])) / 16.0);
        chunk.copy_from_slice(&Scalar::parse(ty, &number).expect("a number").to_bytes());
    }
    bytes
}

const HEAD: &str = "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <type_traits>\n#include <vector>\n\
template <class A, class B, class C> auto fused(A a, B b, C c) { using T = decltype(a + b + c); return std::fma(T(a), T(b), T(c)); }\n\
template <class A> auto sqrt_of(A a) { return std::sqrt(a); }\n\
inline float abs_of(float a) { return std::fabs(a); }\ninline double abs_of(double a) { return std::fabs(a); }\n\
template <class A> auto abs_of(A a) { return +a < 0 ? -a : +a; }\n";

#[test]
fn random_formulas_match_the_cpp_compiler() {
    let mut program = HEAD.to_owned();
    program.push_str(include_str!("../cpp/views.cpp"));
    let mut body = String::new();
    let mut wanted: Vec<(String, Vec<u8>)> = Vec::new();
    let mut undefined = 0;
    for seed in 1..=FORMULAS {
        let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (name, ty) = draw.of(&OUTPUTS);
        let (formula, cpp) = draw.expr(4, 0);
        let text = format!("out[items - 1 - i] = {formula} for i < items");
        let source = format!("{STRUCTS}\n{}", SOURCE.replace("OUT", name));
        let parameters = own_parameters(&source, "k").expect("its parameters");
        // The parser rejects expressions that have no type in C++ either.
        let Ok(parsed) = Formula::parse(&text, &parameters) else { continue };
        let place = |buffer: &str| BufferAddress { buffer: buffer.to_owned(), offset: 0 };
        let mut args = vec![Arg::Address(place("out"))];
        args.extend(INPUTS.map(|input| Arg::Input(place(input))));
        let number = |(_, ty, value): &(_, ScalarType, &str)| {
            Arg::Number(Scalar::parse(*ty, value).expect("a number"))
        };
        let numbers: Vec<Arg> = NUMBERS.iter().map(number).collect();
        let [x, y, m, u, h, l] = numbers.try_into().expect("six");
        args.extend([x, y, Arg::Struct(vec![m, u, Arg::Struct(vec![h, l])])]);
        let types: Vec<_> = flat_parameters(&parameters)
            .iter()
            .map(|p| match p.kind {
                plan::KernelParameterKind::Pointer { element, .. } => element,
                plan::KernelParameterKind::Number { of } => Some(of),
                plan::KernelParameterKind::Struct { .. } | plan::KernelParameterKind::Other => None,
            })
            .collect();
        let bytes = (0..6).map(|at| input(at, types[at].expect("numbers"))).collect();
        let flat = flat_args(&parameters, &args);
        let inputs = Inputs { args: &flat, bytes, types };
        let mut out = vec![0; ITEMS as usize * ty.bytes()];
        let done = parsed.evaluate(&inputs, ITEMS, |at, value| {
            let value = value.expect("all is known").to_bytes();
            let start = at as usize * value.len();
            out[start..start + value.len()].copy_from_slice(&value);
            Ok(())
        });
        match done {
            Err((_, FormulaError::Undefined(_))) => {
                undefined += 1;
                continue;
            }
            other => assert_eq!(other, Ok(()), "{text}"),
        }
        let mut plan = Plan::empty();
        for (index, buffer) in ["out"].iter().chain(&INPUTS).enumerate() {
            let bytes = inputs.bytes[index].len() as u64;
            plan.buffers.insert(
                (*buffer).to_owned(),
                Buffer { memory: Memory::HostPageable, bytes, guarded: false },
            );
        }
        let own = CaseKernel {
            parameters: Some(parameters),
            computes: vec![text.clone()],
            ..CaseKernel::default()
        };
        plan.own_kernels.insert("k".to_owned(), own);
        let exported = on_host(&plan, &mut Names::default(), "k", (ITEMS.into(), &args), &|_| true)
            .join("\n    ");
        let _ = write!(
            body,
            "  {{\n    std::vector<unsigned char> want_out({0}), also({0});\n    {exported}\n    \
             for (uint32_t i = 0; i < items; i++) {{ uint32_t k = 0; (void)k; as<{1}>(also)[items - 1 - i] = {cpp}; }}\n    \
             std::fwrite(want_out.data(), 1, {0}, stdout);\n    std::fwrite(also.data(), 1, {0}, stdout);\n  }}\n",
            out.len(),
            ty.cpp(),
        );
        wanted.push((text, out));
    }
    assert!(
        wanted.len() as u64 > FORMULAS / 3,
        "{} of {FORMULAS}, {undefined} undefined",
        wanted.len()
    );
    program.push_str(STRUCTS);
    program.push_str("\nint main() {\n  const uint32_t items = 12;\n");
    let types =
        [ScalarType::F32, ScalarType::F64, ScalarType::I32, ScalarType::U8, ScalarType::U64];
    for (index, (name, ty)) in INPUTS.iter().zip(types).enumerate() {
        let bytes: Vec<_> = input(index + 1, ty).iter().map(u8::to_string).collect();
        let _ = writeln!(
            program,
            "  std::vector<unsigned char> want_{name} = {{{}}};",
            bytes.join(", ")
        );
        let _ = writeln!(program, "  const {0}* {name} = as<{0}>(want_{name});", ty.cpp());
    }
    for (name, ty, value) in &NUMBERS[..2] {
        let _ = writeln!(program, "  const {} {name} = {value}; (void){name};", ty.cpp());
    }
    let [m, u, h, l] = [2, 3, 4, 5].map(|at| NUMBERS[at].2);
    let _ = writeln!(program, "  const Q q = {{{m}, {u}, {{{h}, {l}}}}}; (void)q;");
    program.push_str(&body);
    program.push_str("}\n");
    let folder = tempfile::tempdir().expect("a folder");
    let (source, built) = (folder.path().join("f.cpp"), folder.path().join("f"));
    std::fs::write(&source, &program).expect("a file");
    let compiled = Command::new("c++")
        .args([
            "-std=c++17",
            "-O0",
            "-w",
            "-fwrapv",
            "-fno-strict-aliasing",
            "-ffp-contract=off",
            "-o",
        ])
        .args([&built, &source])
        .output()
        .expect("a C++ compiler is installed");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let got = Command::new(&built).output().expect("it runs").stdout;
    let mut rest = got.as_slice();
    for (text, want) in wanted {
        for how in ["exported", "as it stands"] {
            let (one, behind) = rest.split_at(want.len());
            rest = behind;
            assert_eq!(one, want, "{how}: {text}");
        }
    }
    assert!(rest.is_empty());
}
