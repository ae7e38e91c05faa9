//! Tests how the helpers compare floats. The reference is an independent implementation that counts the floats between
//! two values one by one.

use std::{fs, path::Path, process::Command};

/// Returns the float that is `steps` representable values away from `value`.
fn walked(mut value: f32, steps: i32) -> f32 {
    for _ in 0..steps.abs() {
        value = if steps > 0 { value.next_up() } else { value.next_down() };
    }
    value
}

/// Returns pairs of numbers, each with the number of representable values from one to the other; `None` if one is
/// infinite.
fn pairs() -> Vec<(f32, f32, Option<u32>)> {
    let mut found = Vec::new();
    let around =
        [0.0, -0.0, f32::MIN_POSITIVE, -1e-45, 1.0, -1.0, 16_777_216.0, -3.25e-39, f32::MAX];
    for value in around {
        for steps in -6..=6 {
            let other = walked(value, steps);
            // In the binary encoding, infinity follows the largest number. No number counts as close to infinity.
            if other.is_finite() {
                found.push((value, other, Some(steps.unsigned_abs())));
            }
        }
    }
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let ends = [(nan, nan, Some(0)), (inf, inf, Some(0)), (inf, -inf, None), (nan, 1.0, None)];
    found.extend(ends.into_iter().chain([
        (1.0, nan, None),
        (inf, f32::MAX, None),
        (0.0, -inf, None),
    ]));
    let mut bits = 12345_u32;
    for _ in 0..200 {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let value = f32::from_bits(bits);
        let steps = i32::try_from(bits >> 27).expect("five bits") - 16;
        let other = walked(value, steps);
        if value.is_finite() && other.is_finite() {
            found.push((value, other, Some(steps.unsigned_abs())));
        }
    }
    found
}

fn expected() -> Vec<String> {
    let steps = pairs().into_iter().map(|(.., steps)| steps);
    steps.map(|steps| steps.map_or("none".to_owned(), |n| n.to_string())).collect()
}

fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().expect("it starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {err}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn folder_of_helpers() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("program")
}

#[test]
fn counts_floats_between_two_in_python() {
    let bits: Vec<String> =
        pairs().iter().map(|(a, b, _)| format!("({}, {})", a.to_bits(), b.to_bits())).collect();
    let script = format!(
        "import math, struct, rocrepro\nf = lambda bits: struct.unpack('<f', struct.pack('<I', bits))[0]\n\
         for a, b in [{}]:\n    n = rocrepro.ulps(f(a), f(b), 32)\n    print('none' if n == math.inf else n)\n",
        bits.join(", ")
    );
    let mut python = Command::new("python3");
    python.args(["-B", "-c", &script]).env("PYTHONPATH", folder_of_helpers());
    assert_eq!(lines(&mut python), expected());
}

/// bfloat16 is the upper half of a float, so one step leads to the next float whose lower half is zero.
#[test]
fn counts_bfloat16_steps_in_python() {
    let step = |mut value: f32, up: bool| loop {
        value = if up { value.next_up() } else { value.next_down() };
        if value.to_bits() & 0xffff == 0 {
            return value;
        }
    };
    let mut pairs = Vec::new();
    for start in [1.0_f32, -1.0, 0.0, 1.5e-39, 3.0e38, -255.0] {
        let start = f32::from_bits(start.to_bits() & 0xffff_0000);
        for up in [true, false] {
            let mut other = start;
            for steps in 1..4 {
                other = step(other, up);
                pairs.push((start, other, steps));
            }
        }
    }
    let listed: Vec<String> =
        pairs.iter().map(|(a, b, _)| format!("({}, {})", a.to_bits(), b.to_bits())).collect();
    let script = format!(
        "import struct, rocrepro\nf = lambda bits: struct.unpack('<f', struct.pack('<I', bits))[0]\n\
         class A(list):\n    class dtype:\n        itemsize, kind = 2, 'V'\n        def __str__(self): return 'bfloat16'\n    dtype = dtype()\n\
         for n, (a, b) in enumerate([{}]):\n    print(int(rocrepro.ulps(a and f(a), f(b), 'bfloat16')))\n    \
         k = int(rocrepro.ulps(f(a), f(b), 'bfloat16'))\n    \
         assert rocrepro.close('c%d' % n, A([f(a)]), [f(b)], ulp=k) and not rocrepro.close('d%d' % n, A([f(a)]), [f(b)], ulp=k - 1)\n",
        listed.join(", ")
    );
    let mut python = Command::new("python3");
    python.args(["-B", "-c", &script]).env("PYTHONPATH", folder_of_helpers());
    let printed = lines(&mut python);
    let counted: Vec<&String> = printed.iter().filter(|line| !line.contains(':')).collect();
    let right: Vec<String> = pairs.iter().map(|(.., steps)| steps.to_string()).collect();
    assert_eq!(counted, right.iter().collect::<Vec<_>>());
}

/// NumPy-like arrays compare element by element and cannot be used as a truth value.
#[test]
fn compares_arrays_in_python() {
    let script = "import rocrepro\n\
        class Array:\n\
        \x20   def __init__(self, values): self.values, self.shape = values, (len(values),)\n\
        \x20   def tolist(self): return list(self.values)\n\
        \x20   def __bool__(self): raise ValueError('ambiguous')\n\
        \x20   def __eq__(self, other): return Array([a == b for a, b in zip(self.values, other.values)])\n\
        right = [1.0, 2.0, 4.0]\n\
        for other in Array(right), right:\n\
        \x20   print(rocrepro.equal('a', Array(right), other), rocrepro.equal('b', Array([1.0, 2.0, 3.0]), other))\n\
        \x20   print(rocrepro.close('c', Array(right), other, ulp=0, bits=32), rocrepro.same('d', other, Array(right)))\n\
        print(rocrepro.equal('e', Array([3.0]), Array([4.0]), before=Array([3.0]), poison=7.0))\n";
    let mut python = Command::new("python3");
    python.args(["-B", "-c", script]).env("PYTHONPATH", folder_of_helpers());
    let printed = lines(&mut python);
    let answers: Vec<&String> =
        printed.iter().filter(|line| line.starts_with(['T', 'F'])).collect();
    assert_eq!(answers, ["True False", "True True", "True False", "True True", "False"]);
    assert!(printed.iter().any(|line| line.ends_with("all as before")), "{printed:?}");
}

/// Compiles a C++ program with the helper's header and a minimal replacement of HIP's header, and runs it.
fn cpp(main: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let hip = folder.path().join("hip");
    fs::create_dir(&hip).unwrap();
    let types = "#pragma once\nenum hipError_t { hipSuccess = 0, hipErrorUnknown = 999 };\n\
                 inline const char *hipGetErrorName(hipError_t e) { return e ? \"hipErrorUnknown\" : \"hipSuccess\"; }\n";
    fs::write(hip.join("hip_runtime.h"), types).unwrap();
    let (source, program) = (folder.path().join("test.cpp"), folder.path().join("test"));
    fs::write(&source, format!("#include \"rocrepro.h\"\nint main() {{\n{main}\n}}\n")).unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-Wall", "-Werror", "-I"]).arg(folder_of_helpers());
    lines(compiler.arg("-I").arg(folder.path()).arg(&source).arg("-o").arg(&program));
    lines(&mut Command::new(&program))
}

#[test]
fn counts_floats_between_two_in_cpp() {
    let bits: Vec<String> =
        pairs().iter().map(|(a, b, _)| format!("{{{}u, {}u}}", a.to_bits(), b.to_bits())).collect();
    let main = format!(
        "uint32_t all[][2] = {{{}}};\nfor (auto &pair : all) {{\n  float a, b;\n  memcpy(&a, &pair[0], 4);\n  memcpy(&b, &pair[1], 4);\n  \
         uint64_t n = rocrepro::ulps(a, b);\n  puts(n == UINT64_MAX ? \"none\" : std::to_string(n).c_str());\n}}",
        bits.join(", ")
    );
    assert_eq!(cpp(&main), expected());
}

type Values = &'static [&'static str];

/// Expected classes of wrong values.
const CLASSES: &[(Values, Values, Values, &str)] = &[
    // The columns are the actual values, the expected values, the values before the call, and the class.
    (&["1", "2"], &["1", "2"], &["0", "0"], "right"),
    (&["nan", "2"], &["nan", "2"], &["0", "0"], "right"),
    (&["0", "-0"], &["-0", "0"], &["5", "5"], "right"),
    (&["0", "0"], &["1", "2"], &["0", "0"], "zero"),
    (&["0", "2"], &["1", "2"], &["7", "7"], "zero"),
    (&["7", "8"], &["1", "2"], &["7", "8"], "stale"),
    (&["7", "2"], &["1", "2"], &["7", "8"], "stale"),
    (&["nan", "nan"], &["1", "2"], &["0", "0"], "nan"),
    (&["nan", "0"], &["1", "2"], &["3", "3"], "other"),
    (&["7", "9"], &["1", "2"], &["7", "8"], "other"),
    (&["1"], &["1", "2"], &["0"], "shape"),
    (&[], &[], &[], "nothing"),
    // If the number of values before the call differs, those values are ignored.
    (&["1", "2"], &["3", "4"], &["1"], "other"),
];

#[test]
fn classifies_wrong_values_alike_in_both_helpers() {
    let list = |values: &[&str]| {
        let float = |v: &&str| if *v == "nan" { "NAN".to_owned() } else { format!("{v}.0") };
        values.iter().map(float).collect::<Vec<_>>().join(", ")
    };
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let said = |n: usize| {
        let text = fs::read_to_string(&report).unwrap();
        let checks = text
            .lines()
            .map(|line| serde_json::from_str::<judge::ProgramMessage>(line).expect(line));
        let classes: Vec<String> = checks
            .filter_map(|said| match said {
                judge::ProgramMessage::Check { wrong, .. } => {
                    Some(wrong.map_or("right".to_owned(), |wrong| wrong.class))
                }
                _ => None,
            })
            .collect();
        assert_eq!(classes.len(), n);
        fs::remove_file(&report).unwrap();
        classes
    };
    let expected: Vec<_> = CLASSES.iter().map(|(.., word)| (*word).to_owned()).collect();
    let python: String = CLASSES
        .iter()
        .map(|(got, right, before, _)| {
            let [got, right, before] = [got, right, before].map(|values| list(values));
            format!("rocrepro.equal('a', [{got}], [{right}], before=[{before}])\n")
        })
        .collect();
    let script = format!("import rocrepro\nNAN = float('nan')\n{python}");
    let mut command = Command::new("python3");
    command.args(["-B", "-c", &script]).env("PYTHONPATH", folder_of_helpers());
    lines(command.env("ROCREPRO_REPORT", &report));
    assert_eq!(said(CLASSES.len()), expected, "Python");
    let calls: String = CLASSES
        .iter()
        .map(|(got, right, before, _)| {
            // Empty braces alone would construct a vector with a single element.
            let vector = |values: &[&str]| format!("std::vector<float>{{{}}}", list(values));
            let [got, right, before] = [got, right, before].map(|values| vector(values));
            format!("rocrepro::equal(\"a\", {got}, {right}, {before});\n")
        })
        .collect();
    let set = format!("setenv(\"ROCREPRO_REPORT\", {:?}, 1);\n", report.display().to_string());
    cpp(&format!("{set}{calls}return rocrepro::done();"));
    assert_eq!(said(CLASSES.len()), expected, "C++");
}

/// The expected results follow from the documented formula.
#[test]
fn applies_tolerances_in_python() {
    let script = "import rocrepro\nnan, inf = float('nan'), float('inf')\n\
        for a, b, more in [(1.0, 1.001, dict(relative=1e-2)), (1.0, 1.1, dict(relative=1e-2)), (0.0, 1e-9, dict(absolute=1e-8)),\n\
        \x20   (nan, nan, dict(relative=1)), (nan, 1.0, dict(relative=9)), (1.0, nan, dict(absolute=9)), (inf, inf, dict(relative=0)),\n\
        \x20   (inf, 1.0, dict(relative=9)), (-1.0, 1.0, dict(relative=1)), (1.0, 1.0, dict()), (1+2j, 1+2j, dict()), ([1, [2, 3]], [1, [2, 4]], dict(absolute=1))]:\n\
        \x20   print(rocrepro.close('x', a, b, **more))\n";
    let mut python = Command::new("python3");
    python.args(["-B", "-c", script]).env("PYTHONPATH", folder_of_helpers());
    let printed: Vec<String> =
        lines(&mut python).into_iter().filter(|line| !line.starts_with("x:")).collect();
    let right = [
        "True", "False", "True", "True", "False", "False", "True", "False", "False", "True",
        "True", "True",
    ];
    assert_eq!(printed, right);
}

/// Wrong values are shown with their own indices unless they follow one another.
#[test]
fn wrong_values_are_shown_with_their_indices() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let said = || {
        let text = fs::read_to_string(&report).unwrap();
        fs::remove_file(&report).unwrap();
        let said = text
            .lines()
            .map(|line| serde_json::from_str::<judge::ProgramMessage>(line).expect(line));
        let wrong = said.filter_map(|said| match said {
            judge::ProgramMessage::Check { wrong, .. } => wrong,
            _ => None,
        });
        wrong.map(|wrong| wrong.details.join("; ")).collect::<Vec<_>>()
    };
    let expected = [
        "  got at 1, 3: 9, 8; right at 1, 3: 1, 3",
        "  got at 1: 9, 8; right at 1: 1, 2",
        "  got at 0, 1, 2, 4: 7, 7, 7, 7; right at 0, 1, 2, 4: 0, 1, 2, 4",
        "  got at 4: 7; right at 4: 4",
    ];
    let got = ["0, 9, 2, 8, 4, 5", "0, 9, 8, 3, 4, 5", "7, 7, 7, 3, 7, 7", "0, 1, 2, 3, 7, 5"];
    let right = "0, 1, 2, 3, 4, 5";
    let calls = got.map(|got| format!("rocrepro.equal('a', [{got}], [{right}])\n")).concat();
    let mut python = Command::new("python3");
    python.args(["-B", "-c", &format!("import rocrepro\n{calls}")]);
    lines(python.env("PYTHONPATH", folder_of_helpers()).env("ROCREPRO_REPORT", &report));
    assert_eq!(said(), expected, "Python");
    let vector = |values: &str| format!("std::vector<int>{{{values}}}");
    let call = |got| format!("rocrepro::equal(\"a\", {}, {});\n", vector(got), vector(right));
    let set = format!("setenv(\"ROCREPRO_REPORT\", {:?}, 1);\n", report.display().to_string());
    cpp(&format!("{set}{}return rocrepro::done();", got.map(call).concat()));
    assert_eq!(said(), expected, "C++");
}
