use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use super::*;
use crate::helper;

fn parameters() -> Parameters {
    [("n".to_owned(), "6\"4".to_owned())].into()
}

/// Runs a Python program in an empty folder, from which rocrepro's Python module cannot be imported.
fn run(text: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("program.py"), text).expect("a program");
    let mut python = Command::new("python3");
    python.args(["-B", "program.py"]).current_dir(folder.path()).env_remove("PYTHONPATH");
    python.output().expect("python3 starts")
}

/// Makes a Python program independent of the helper, runs it, and returns its output lines and its exit status.
fn printed(text: &str) -> (Vec<String>, Option<i32>) {
    let inlined = inline(text, "python", &parameters()).expect("it can be inlined");
    let output = run(&inlined);
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.is_empty(), "{inlined}\n{err}");
    (lines, output.status.code())
}

/// Returns the names of the functions that the Python helper offers.
fn offered_by_python() -> Vec<&'static str> {
    let names = helper::PYTHON.1.lines().filter_map(|line| line.strip_prefix("def "));
    let names = names.map(|line| line.split('(').next().unwrap_or_default());
    names.filter(|name| !name.starts_with('_')).collect()
}

/// Functions of the C++ helper that programs do not call.
const INTERNAL: [&str; 6] = ["wrong", "quoted", "word", "write_line", "say", "told"];

/// Returns the names of the functions that the C++ helper offers.
fn offered_by_cpp() -> Vec<&'static str> {
    let text = helper::CPP.1;
    let mut names = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with([' ', '}', '/', '#'])) {
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit([' ', '*', '&']).next().unwrap_or_default();
        names.push(name);
    }
    names
        .retain(|name| !INTERNAL.contains(name) && !["refused", "compare", "shown"].contains(name));
    names.sort_unstable();
    names.dedup();
    names
}

/// One call of each function of the Python helper, with the lines that it prints.
const CALLS: &[(&str, &str, &[&str])] = &[
    ("parameter", "print(rocrepro.parameter('n'), rocrepro.parameter('m', '7'))", &["6\"4 7"]),
    ("phase", "rocrepro.phase('copy')", &["phase: copy"]),
    ("flat", "print(rocrepro.flat([[1, 2], {'b': 3}]))", &["[1, 2, 'b', 3]"]),
    ("shape", "print(rocrepro.shape([[1, 2, 3], [4, 5, 6]]))", &["(2, 3)"]),
    ("agree", "print(rocrepro.agree(float('nan'), float('nan')))", &["True"]),
    ("ulps", "print(rocrepro.ulps(1.0, 1.0 + 2 ** -22, 32))", &["2"]),
    ("classify", "print(rocrepro.classify([0, 0], [0, 1]))", &["zero"]),
    (
        "equal",
        "rocrepro.equal('sum', [[1, 2], [4, 4]], [[1, 2], [3, 4]])",
        &["sum: 1 of 4 wrong, got[1][0] is 4, expected 3"],
    ),
    (
        "close",
        "rocrepro.close('sum', [1.0, 3.0], [1.1, 2.0], absolute=0.5)",
        &["sum: 1 of 2 wrong, got[1] is 3.0, expected 2.0"],
    ),
    (
        "same",
        "rocrepro.same('sum', {'a': 1}, {'a': 2})",
        &["sum: 1 of 1 wrong, got['a'] is 1, expected 2"],
    ),
    ("holds", "rocrepro.holds('fact', 1 > 2, 'one is not more')", &["fact: one is not more"]),
    (
        "status",
        "rocrepro.status('call', 2, word=lambda n: 'E%d' % n)",
        &["call: returned E2, expected E0"],
    ),
    (
        "raises",
        "rocrepro.raises('call', KeyError, {1: 2}.__getitem__, 1)",
        &["call: raised nothing, expected KeyError"],
    ),
    ("given_back", "rocrepro.given_back('free', 3, 2)", &["free: 3 before, 2 after"]),
    ("must", "rocrepro.must(0)", &[]),
    ("told_of_fault", "rocrepro.told_of_fault()", &["a call reported the fault of the device"]),
    ("skip", "rocrepro.skip('no GPU')", &["skipped: no GPU"]),
    ("done", "rocrepro.done()", &["all checks ok"]),
];

#[test]
fn every_function_of_python_is_inlined() {
    let listed: Vec<&str> = CALLS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(listed, offered_by_python());
    for (name, call, lines) in CALLS {
        let program = format!("import rocrepro\n{call}\n");
        let inlined = inline(&program, "python", &parameters()).expect(name);
        assert!(!inlined.contains("import rocrepro"), "{inlined}");
        assert_eq!(printed(&program), (lines.iter().map(|l| (*l).to_owned()).collect(), Some(0)));
        // The exit status is known when the program ends.
        let program = format!("import rocrepro\n{call}\nrocrepro.done()\nprint('after')\n");
        let (lines, status) = printed(&program);
        let failed = lines.last().is_some_and(|line| line.starts_with("FAILED: "));
        assert_eq!(status, Some(i32::from(failed)), "{name}: {lines:?}");
        let checks = ["equal", "close", "same", "holds", "status", "raises", "given_back"];
        assert_eq!(failed, checks.contains(name), "{lines:?}");
    }
}

/// For right and wrong values, each check of the plain version has the same result as that of the helper.
#[test]
fn checks_of_python_agree_with_the_helper() {
    let values = "nan, inf = float('nan'), float('inf')\nmany = [0, 0.0, -0.0, 1, 1.5, nan, inf, -inf, [], [1], [1, 2], \
                  [[1], [2]], [[1, 2]], [[1, 2], [3]], [[1], [2, 3]], (1, 2), b'', b'ab', [97, 98], {'a': 1}, {'a': 2}, \
                  {'a': nan}, [nan, 1], [nan, 2], 1 + 2j, [None], 1.0000001, [1.0000001, 2.0]]\n";
    let checks = "\
print([rocrepro.equal('e %d %d' % (i, j), a, b) for i, a in enumerate(many) for j, b in enumerate(many)])
print([rocrepro.same('s %d %d' % (i, j), a, b) for i, a in enumerate(many) for j, b in enumerate(many)])
flat = [a for a in many if rocrepro.flat(a) and None not in rocrepro.flat(a) and not isinstance(a, dict)]
print([rocrepro.close('c %d %d' % (i, j), a, b, relative=1e-6) for i, a in enumerate(flat) for j, b in enumerate(flat)])
";
    let by_ulp = "\
real = [a for a in flat if not isinstance(a, complex)]
print([rocrepro.close('u %d %d' % (i, j), a, b, 1, 32) for i, a in enumerate(real) for j, b in enumerate(real)])
";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(helper::PYTHON.0), helper::PYTHON.1).unwrap();
    for checks in [checks.to_owned(), format!("{checks}{by_ulp}")] {
        let program = format!("import rocrepro\n{values}{checks}");
        let mut python = Command::new("python3");
        python.args(["-B", "-c", &program]).env("PYTHONPATH", folder.path());
        let output = python.env_remove("ROCREPRO_REPORT").output().unwrap();
        let by_helper = String::from_utf8_lossy(&output.stdout);
        let verdicts = |line: &&str| line.starts_with('[');
        let by_helper: Vec<_> = by_helper.lines().filter(verdicts).collect();
        let (lines, _) = printed(&program);
        let here: Vec<_> = lines.iter().map(String::as_str).filter(verdicts).collect();
        assert!(by_helper.len() >= 3, "{output:?}");
        assert_eq!(here, by_helper);
    }
}

#[test]
fn every_function_of_cpp_is_inlined() {
    assert!(offered_by_cpp().len() >= 15, "{:?}", offered_by_cpp());
    for name in offered_by_cpp() {
        for program in [
            format!(
                "#include \"rocrepro.h\"\nint main() {{ rocrepro::{name}(\"a\", b, c, d); }}\n"
            ),
            format!(
                "#include <rocrepro.h>\nusing namespace rocrepro;\nint main() {{\n  // A comment.\n  {name}(\"a\", b, c, d);\n}}\n"
            ),
        ] {
            let text = inline(&program, "cpp", &parameters()).expect(name);
            assert!(!text.contains("rocrepro.h"), "{text}");
            assert!(text.contains(&format!(" {name}(")), "{name}: {text}");
            assert!(text.contains("#include <hip/hip_runtime.h>\n"), "{text}");
        }
    }
    let missing = "#include \"rocrepro.h\"\nint main() { rocrepro::say(\"a\"); }\n";
    assert_eq!(inline(missing, "cpp", &parameters()), None);
}

#[test]
fn has_only_the_used_functions() {
    let python = "import ctypes\nimport rocrepro\nimport os\n\nrocrepro.must(0)\nrocrepro.done()\n";
    let inlined = inline(python, "python", &parameters()).unwrap();
    insta::assert_snapshot!(inlined);
    let cpp = "#include \"rocrepro.h\"\n#include <vector>\n\nusing namespace rocrepro;\n\nint main() {\n  \
               must(hipSetDevice(0));\n  int n = std::stoi(parameter(\"n\"));\n  close(n);\n  \
               holds(\"n\", n == 64);\n  return done();\n}\n";
    insta::assert_snapshot!(inline(cpp, "cpp", &parameters()).unwrap());
}

#[test]
fn rewrites_every_form_of_import() {
    let lines = |text: &str| printed(text).0;
    let passed = ["a: ok", "all checks ok"];
    for program in [
        "import rocrepro\nrocrepro.equal('a', 1, 1)\nrocrepro.done()\n",
        "import os, rocrepro as r, sys\nr.equal('a', 1, 1)\nr.done()\nos.getpid(), sys.path\n",
        "import rocrepro as r  # a comment\nimport sys\nr.equal('a', 1, 1)\nr.done()\n",
        "from rocrepro import equal, done\nequal('a', 1, 1)\ndone()\n",
        "from rocrepro import (\n    equal as e,\n    done,\n)\ne('a', 1, 1)\ndone()\n",
        "def f():\n    import rocrepro\n    rocrepro.equal('a', 1, 1)\n    rocrepro.done()\nf()\n",
        "def f():\n    from rocrepro import equal, done\n    equal('a', 1, 1)\n    done()\nf()\n",
        "def f():\n    import rocrepro as r\n    r.equal('a', 1, 1)\n    r.done()\nf()\n",
        "#!/usr/bin/env python3\n# By hand.\ndef f():\n    import rocrepro\n    rocrepro.equal('a', 1, 1)\n    rocrepro.done()\nf()\n",
        "from __future__ import annotations\nimport rocrepro\nfrom os import path\nrocrepro.equal('a', 1, 1)\nrocrepro.done()\n",
        "if True:\n    import rocrepro\nrocrepro.equal('a', 1, 1)\nrocrepro.done()",
    ] {
        assert_eq!(lines(program), passed, "{program}");
    }
}

#[test]
fn leaves_programs_that_it_cannot_rewrite() {
    for program in [
        "from rocrepro import *\ndone()\n",
        "import importlib\nimportlib.import_module('rocrepro').done()\n",
        "import rocrepro\nmodule = rocrepro\nmodule.done()\n",
        "import rocrepro\nimport subprocess\nsubprocess.run(['python3', '-c', 'import rocrepro'])\nrocrepro.done()\n",
        "import rocrepro\nrocrepro._say(say='done')\n",
        "import os; import rocrepro\nrocrepro.done()\n",
        "from __future__ import annotations\ndef f():\n    import rocrepro\n    rocrepro.done()\n",
    ] {
        assert_eq!(inline(program, "python", &parameters()), None, "{program}");
    }
    for program in [
        "#include \"rocrepro.h\"\nnamespace r = rocrepro;\nint main() { return r::done(); }\n",
        "#include \"rocrepro.h\"\nconst char *SOURCE = \"#include \\\"rocrepro.h\\\"\";\n",
    ] {
        assert_eq!(inline(program, "cpp", &parameters()), None, "{program}");
    }
    assert_eq!(inline("# rocrepro\n", "sh", &parameters()), None);
    // A program that does not use the helper is not changed.
    for (language, text) in [("python", "# without rocrepro\nprint(1)\n"), ("sh", "true\n")] {
        assert_eq!(inline(text, language, &parameters()).as_deref(), Some(text));
    }
}

/// Returns name, language and source of each program in the case library.
fn programs_of_the_library() -> Vec<(String, &'static str, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the cases") {
        let file = entry.expect("a case").path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).expect("text");
        if name.ends_with(".py") {
            found.push((name, "python", text));
            continue;
        }
        let block = |key: &str| {
            let (_, rest) = text.split_once(&format!("\n  {key}: |\n"))?;
            let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
            let lines = lines.map(|line| line.strip_prefix("    ").unwrap_or_default());
            Some(lines.flat_map(|line| [line, "\n"]).collect::<String>())
        };
        found.extend(block("python").map(|program| (name.clone(), "python", program)));
        found.extend(block("cpp").map(|program| (name, "cpp", program)));
    }
    found
}

#[test]
fn every_program_of_the_library_is_inlined() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs_of_the_library();
    let count =
        |wanted: &str| programs.iter().filter(|(_, language, _)| *language == wanted).count();
    assert!(count("python") >= 45 && count("cpp") >= 35, "{} {}", count("python"), count("cpp"));
    let mut files = Vec::new();
    for (name, language, text) in &programs {
        let inlined = inline(text, language, &parameters()).unwrap_or_else(|| panic!("{name}"));
        for word in ["import rocrepro", "from rocrepro", "rocrepro.h\"", "ROCREPRO_"] {
            assert!(!inlined.contains(word), "{name}: {inlined}");
        }
        if *language == "python" {
            let file = folder.path().join(name).with_extension("py");
            fs::write(&file, inlined).unwrap();
            files.push(file);
        }
    }
    let output = Command::new("python3").args(["-m", "py_compile"]).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A simpler check either prints what the full one prints, or fails.
#[test]
fn simpler_checks_never_pass_where_the_full_one_fails() {
    let mut alike = 0;
    for values in [
        "[1, 2, 3], [1, 2, 3]",
        "[1, 2, 3], [1, 5, 3]",
        "(1, 2), [1, 2]",
        "[1], [1, 2]",
        "[1, 2], [1]",
        "[], []",
        "[float('nan')], [float('nan')]",
        "[[1, 2], [3]], [[1, 2], [4]]",
        "{0: 1, 1: 2}, {0: 1, 1: 3}",
        "{'a': 1}, {'a': 2}",
        "5, 6",
        "memoryview(b'ab'), [97, 98]",
    ] {
        let program = format!("import rocrepro\nrocrepro.equal('a', {values})\nrocrepro.done()\n");
        let full = run(&inline(&program, "python", &parameters()).expect("it can be inlined"));
        let texts = simpler(&program, "python", &parameters());
        assert_eq!(texts.len(), 2, "{values}");
        for text in texts {
            let output = run(&text);
            alike += u32::from(output == full);
            assert!(output == full || !output.status.success(), "{values}: {output:?}\n{text}");
        }
    }
    assert!(alike >= 10, "{alike}");
    assert!(simpler("import rocrepro\nrocrepro.done()\n", "python", &parameters()).is_empty());
}

#[test]
fn simpler_cpp_programs_have_checks_of_numbers_and_statuses() {
    let program = "#include \"rocrepro.h\"\nusing namespace rocrepro;\nint main() {\n  must(hipSetDevice(0));\n  \
                   status(\"s\", hipSuccess);\n  equal(\"n\", 1, std::stoi(parameter(\"n\")));\n  return done();\n}\n";
    let texts = simpler(program, "cpp", &parameters());
    assert_eq!(texts.len(), 3);
    let general = ["answer_name", "std::vector", "ostringstream", "<map>", "<type_traits>"];
    for (n, text) in texts.iter().enumerate() {
        assert_eq!(text.contains("unbuffered"), n == 1, "{text}");
        assert_eq!(general.iter().any(|word| text.contains(word)), n == 2, "{n}: {text}");
        for function in ["void must(", "bool status(", "bool equal("] {
            let count = if n == 2 && function.contains("equal") { 2 } else { 1 };
            assert_eq!(text.matches(function).count(), count, "{function} in {text}");
        }
    }
}

#[test]
fn calls_of_parameter_become_the_values_of_the_trial() {
    let program = |call: &str, using: &str| {
        let text = format!("#include \"rocrepro.h\"\n{using}\nstd::string a = {call};\n");
        inline(&text, "cpp", &parameters()).expect("it can be inlined")
    };
    let using = "using namespace rocrepro;";
    for (call, using, value) in [
        ("rocrepro::parameter(\"n\")", "", "std::string(\"6\\\"4\")"),
        ("parameter( \"n\", \"7\" )", using, "std::string(\"6\\\"4\")"),
        ("parameter(\"m\", \"7\")", using, "std::string(\"7\")"),
        ("parameter(\"m\")", using, "std::string(\"\")"),
        ("parameter(\"m\", \"7\") == \"7\" ? A | B : C", using, "A | B"),
        ("parameter(\"m\") == \"7\" ? A : 12", using, "12"),
        // The program's own function.
        ("parameter(\"n\")", "", "parameter(\"n\")"),
        ("rocrepro::parameter(name)", "", "rocrepro::parameter(name)"),
    ] {
        let text = program(call, using);
        assert!(text.contains(&format!("std::string a = {value};\n")), "{call}: {text}");
        assert_eq!(text.contains("values.at(name)"), value.contains("(name)"), "{text}");
    }
}

#[test]
fn checks_return_their_result_only_if_it_is_used() {
    let check = |call: &str, uses: bool| {
        let program = format!("import rocrepro\n{call}\n");
        let text = inline(&program, "python", &parameters()).expect("it can be inlined");
        assert_eq!(text.contains("return bool(right)"), uses, "{call}");
    };
    check("rocrepro.equal('a', [1], [1])", false);
    check("if a:\n    rocrepro.holds('a', True)", false);
    check("if not rocrepro.equal('a', [1], [1]): pass", true);
    check("rocrepro.equal('a', [1], [1]) or print(1)", true);
    check("rocrepro.holds('b', rocrepro.equal('a', [1], [1]))", true);
    let from = "from rocrepro import equal\nequal('a', [1], [1])\n";
    assert!(inline(from, "python", &parameters()).unwrap().contains("return bool(right)"));
}

#[test]
fn modules_are_imported_once() {
    let program = "import sys\nimport rocrepro\nrocrepro.done()\nsys.exit(3)\n";
    let text = inline(program, "python", &parameters()).expect("it can be inlined");
    assert_eq!(text.matches("import sys\n").count(), 1, "{text}");
}

#[test]
fn phases_and_the_helper_go_if_nothing_else_needs_them() {
    let program = "#include \"rocrepro.h\"\nint main() {\n  using namespace rocrepro;\n  phase(\"launch\");\n  one<<<1, 1>>>(p);\n  \
                   if (a)\n    phase(\"b\");\n}\n";
    let kept = "#include \"rocrepro.h\"\nint main() {\n  using namespace rocrepro;\n  one<<<1, 1>>>(p);\n  if (a)\n    phase(\"b\");\n}\n";
    assert_eq!(cpp::without_phases(program), kept);
    let program = program.replace("  if (a)\n    phase(\"b\");\n", "");
    let texts = simpler(&program, "cpp", &parameters());
    let shortest = "#include <hip/hip_runtime.h>\n\nint main() {\n  one<<<1, 1>>>(p);\n}\n";
    assert_eq!(texts.first().map(String::as_str), Some(shortest), "{texts:#?}");
}
