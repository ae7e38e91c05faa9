//! Checks that code takes the properties of an architecture from the table in `harness/device/src/facts.rs`. Also
//! checks that no code has a default for unknown architectures. Then, if an enum in that file gets a new variant, the
//! compiler lists every place that has to handle it.

use xshell::{Shell, cmd};

/// File that declares the properties of architectures as enums. The rules apply to these enums.
const FACTS: &str = "harness/device/src/facts.rs";
const ROWS: &str = "harness/device/src/facts/rows.rs";

/// Files of the product that may name individual architectures, for example the table itself, the properties that each
/// GPU reports, the default architectures, and an example for tests.
const NAMING: [&str; 9] = [
    "harness/device/src/arch.rs",
    "harness/device/src/config.rs",
    "harness/device/src/model.rs",
    "harness/cli/src/args.rs",
    "harness/cli/src/args/stack.rs",
    "harness/engine/src/matrix.rs",
    "harness/engine/src/passing_release.rs",
    "harness/cli/src/commands/rocm.rs",
    "harness/report/src/issue/environment.rs",
];

/// Checks all files that git tracks.
///
/// # Errors
/// Returns every violation with its file and line.
pub(crate) fn check(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let enums = enums(&sh.read_file(FACTS)?);
    let files = cmd!(sh, "git ls-files harness").read()?;
    let mut problems = Vec::new();
    for file in files.lines().filter(|file| file.ends_with(".rs")) {
        problems.extend(problems_of(file, &sh.read_file(file)?, &enums));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Returns the names of the enums to which the rules apply: the public enums in `facts`, which is the text of
/// [`FACTS`], and `Arch` and `Generation`.
fn enums(facts: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("pub enum ")?.split(' ').next()?.to_owned());
    let mut enums: Vec<String> = facts.lines().filter_map(name).collect();
    enums.extend(["Arch", "Generation"].map(str::to_owned));
    enums
}

fn problems_of(file: &str, text: &str, enums: &[String]) -> Vec<String> {
    let is_test =
        file.contains("/tests/") || file.ends_with("tests.rs") || file.contains("/tests_");
    let is_helper = ["harness/chaos/", "harness/isa-verify/"].iter().any(|it| file.starts_with(it))
        || file.ends_with("fixture.rs");
    let is_product = file.contains("/src/") && !is_helper && !NAMING.contains(&file);
    let lines: Vec<&str> = text.lines().take_while(|line| *line != "mod tests {").collect();
    let mut problems = Vec::new();
    let mut broken = |at: usize, rule: &str| {
        problems.push(format!("{file}:{}: {rule}: {}", at + 1, lines[at].trim()));
    };
    for (at, line) in lines.iter().enumerate().filter(|_| !is_test) {
        let code = line.split("//").next().unwrap_or_default();
        if enums.iter().any(|name| compares_variant(code, name)) {
            broken(
                at,
                "replace this comparison with a match that lists every value, or with a field of `Facts`",
            );
        }
        if let Some(arm) = wildcard_arm(&lines, at, enums) {
            broken(arm, "list every value instead of `_`");
        }
        if is_product && names_an_architecture(code) {
            broken(at, "replace the name of the architecture with a field of `Facts`");
        }
        if file == ROWS && code.trim_start().starts_with("..") {
            broken(at, "list every field of this constant instead of `..`");
        }
    }
    problems
}

/// Returns true if a line compares a value with a variant of the enum `name`, or tests for such variants with
/// `matches!`.
fn compares_variant(code: &str, name: &str) -> bool {
    let value = format!("{name}::");
    let operators = ["==", "!=", ">=", "<=", ">", "<"];
    let compared = |operator: &&str| {
        code.contains(&format!(" {operator} {value}"))
            || code.contains(&format!(" {operator} device::{value}"))
    };
    let named = |text: &str| text.split(&value).count() > 1;
    operators.iter().any(compared)
        || code.split_once("matches!(").is_some_and(|(_, after)| named(after))
}

/// If a `match` on one of the enums begins at line `at` and has the arm `_ =>`, returns the index of the line with this
/// arm. Arms are recognised by an indent of four more spaces, because all code is formatted.
fn wildcard_arm(lines: &[&str], at: usize, enums: &[String]) -> Option<usize> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let first = lines[at];
    if !(first.contains("match ") && first.trim_end().ends_with('{')) {
        return None;
    }
    let outer = indent(first);
    let body = lines.iter().enumerate().skip(at + 1);
    let body = body.take_while(|(_, line)| line.trim().is_empty() || indent(line) > outer);
    let arms: Vec<(usize, &str)> =
        body.filter(|(_, line)| indent(line) == outer + 4).map(|(at, line)| (at, *line)).collect();
    let is_value = |arm: &str| {
        let pattern = arm.split("=>").next().unwrap_or_default();
        let pattern = pattern.split(" if ").next().unwrap_or_default();
        pattern
            .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
            .filter_map(|word| word.rsplit_once("::"))
            .any(|(path, _)| enums.iter().any(|name| path.rsplit("::").next() == Some(name)))
    };
    let concerned = arms.iter().any(|(_, arm)| is_value(arm));
    let all = arms.iter().find(|(_, arm)| {
        let pattern = arm.trim().split("=>").next().unwrap_or_default().trim();
        arm.contains("=>") && pattern.contains('_') && pattern.chars().all(|c| "(_, )".contains(c))
    });
    all.filter(|_| concerned).map(|(at, _)| *at)
}

/// Returns true if a line names an architecture, as a variant or in a string that begins with `gfx` and a digit.
fn names_an_architecture(code: &str) -> bool {
    let mut strings = code.match_indices("\"gfx");
    let digit = |at: usize| code[at + 4..].starts_with(|c: char| c.is_ascii_digit());
    code.contains("Arch::Gfx") || strings.any(|(at, _)| digit(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, text: &str, problems: usize) {
        let found = problems_of(file, text, &enums("pub enum Microcode {\npub enum Float8 {\n"));
        assert_eq!(found.len(), problems, "{found:?}");
    }

    const FILE: &str = "harness/isa/src/misread.rs";

    #[test]
    fn rejects_comparisons_with_values() {
        check(FILE, "if facts.microcode == Microcode::Gfx12 {", 1);
        check(FILE, "if facts.microcode != device::Microcode::Gfx12 {", 1);
        check(FILE, "let new = generation >= Generation::Rdna3;", 1);
        check(FILE, "matches!(facts.float8, Float8::Fnuz | Float8::Ocp)", 1);
        check(FILE, "matches!(base, Base::Vector { .. }) // Float8::Ocp", 0);
        check(FILE, "if facts.microcode.is_gfx12() {", 0);
        check("harness/isa/tests/isa/table.rs", "a == Microcode::Gfx12", 0);
        check(FILE, "mod tests {\n    a == Microcode::Gfx12", 0);
    }

    #[test]
    fn rejects_wildcard_arms() {
        let text = |last: &str| {
            format!(
                "    let x = match facts.microcode {{\n        Microcode::Gfx9 => 1,\n        {last}\n    }};\n"
            )
        };
        check(FILE, &text("_ => 2,"), 1);
        check("harness/isa-verify/src/forms.rs", &text("_ => 2,"), 1);
        check(FILE, &text("Microcode::Gfx10 | Microcode::Gfx11 | Microcode::Gfx12 => 2,"), 0);
        check(FILE, &text("_ if given => 2,"), 0);
        check(FILE, &text("Microcode::Gfx10 => match word {\n            _ => 2,\n        },"), 0);
        check(FILE, "match (word, bits) {\n    (1, Float8::Ocp) => 1,\n    (_, _) => 2,\n}", 1);
        check(FILE, "match word {\n    1 => Some(Float8::Ocp),\n    _ => None,\n}", 0);
    }

    #[test]
    fn rejects_names_of_architectures() {
        check(FILE, "let wide = arch.name().starts_with(\"gfx94\");", 1);
        check(FILE, "let wide = [Arch::Gfx942, Arch::Gfx950].contains(&arch);", 1);
        check(FILE, "let rest = name.strip_prefix(\"gfx\");", 0);
        check("harness/device/src/model.rs", "        Arch::Gfx906 => Model {", 0);
        check(
            "harness/device/src/model.rs",
            "match arch {\n    Arch::Gfx906 => 1,\n    _ => 2,\n}",
            1,
        );
    }

    #[test]
    fn rejects_rows_that_copy_others() {
        check(ROWS, "const RDNA5: Facts = Facts {\n    lds_bytes: 1,\n    ..RDNA4\n};", 1);
        check(ROWS, "const RDNA5: Facts = Facts {\n    lds_bytes: 1,\n};", 0);
    }
}
