//! Disassembles the kernels of shipped libraries, and lists the kernels that lack a wait before a barrier.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::{TaskResult, build_program};

/// File to which the tables are written.
const TABLES: &str = "reports/data/shipped-code.md";

/// Releases whose libraries are read, each with the libraries to fetch.
const RELEASES: [(&str, &str); 2] = [
    ("debian:7.2.4", "hiprand,rocblas,rocfft,rocsparse,rocsolver,miopen,rccl"),
    ("debian:6.4.3", "hiprand,rocfft,rocsparse,rocsolver"),
];

/// Libraries of a release that contain kernels.
const LIBRARIES: [&str; 7] = [
    "librocrand",
    "librocblas",
    "librocfft",
    "librocsparse",
    "librocsolver",
    "libMIOpen",
    "librccl",
];

/// Architectures that are read: one of each generation of RDNA, and two of CDNA.
const ARCHITECTURES: &str = "gfx1030,gfx1100,gfx1151,gfx1201,gfx90a,gfx942";

/// Reads the libraries of all releases, and writes the tables to a file. If the variable `ROCREPRO_TORCH` is set, also
/// reads the PyTorch in the folder that it names. If `files` is not empty, reads only these files, with the
/// disassembler of the newest release, and prints their tables.
///
/// # Errors
/// Fails if a stack cannot be fetched, or if a file cannot be read.
pub(crate) fn shipped_code(sh: &Shell, files: &[String]) -> TaskResult {
    let program = build_program(sh)?;
    let mut text = String::from("# Tables of `cargo run -p ci -- shipped-code`\n");
    let (newest, _) = RELEASES[0];
    let audit = |stack: &str, files: &[String]| {
        let list = files.join(",");
        let words = ["--barriers", "--json", "--gfx", ARCHITECTURES, "--lib"];
        // Exit status 1 means that waits are missing.
        let output = cmd!(sh, "{program} device audit --rocm {stack} {words...} {list}")
            .ignore_status()
            .read()?;
        Ok::<Value, Box<dyn std::error::Error>>(serde_json::from_str(&output)?)
    };
    if !files.is_empty() {
        write_tables(&mut text, "Named files", &audit(newest, files)?)?;
        print!("{text}");
        return Ok(());
    }
    for (stack, with) in RELEASES {
        cmd!(sh, "{program} stack fetch {stack} --with {with}").run()?;
        let root = PathBuf::from(cmd!(sh, "{program} stack path {stack}").read()?);
        let mut files = Vec::new();
        for entry in sh.read_dir(root.join("usr/lib/x86_64-linux-gnu"))? {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_library = LIBRARIES.iter().any(|it| name.starts_with(&format!("{it}.so.")));
            if is_library && !entry.is_symlink() {
                files.push(entry.display().to_string());
            }
        }
        write_tables(&mut text, stack, &audit(stack, &files)?)?;
    }
    if let Ok(torch) = std::env::var("ROCREPRO_TORCH") {
        let python = cmd!(sh, "{torch}/venv/bin/python -c")
            .arg("import sysconfig; print(sysconfig.get_path('platlib'))")
            .read()?;
        let library = format!("{python}/torch/lib/libtorch_hip.so");
        write_tables(&mut text, "PyTorch", &audit(newest, &[library])?)?;
    }
    sh.write_file(TABLES, text)?;
    Ok(())
}

/// Writes the table of one group of files, and the kernels that lack a wait.
fn write_tables(text: &mut String, title: &str, answer: &Value) -> std::fmt::Result {
    let findings: Vec<&Value> = answer["barriers"].as_array().into_iter().flatten().collect();
    let number = |value: &Value, field: &str| value[field].as_u64().unwrap_or_default();
    let count = |value: &Value, field: &str| value[field].as_array().map_or(0, Vec::len);
    write!(text, "\n## {title}\n\n")?;
    text.push_str(
        "| file | gfx | kernels | with barriers | with fenced barriers | undecided | fenced barriers | bare barriers \
         | lost waits: kernels | unexplained | suspects |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for it in &findings {
        let (file, gfx) =
            (it["library"].as_str().unwrap_or_default(), it["gfx"].as_str().unwrap_or_default());
        let kernels = number(it, "kernels");
        if number(it, "not_read") > 0 {
            writeln!(text, "| {file} | {gfx} | {kernels} | not read | | | | | | | |")?;
            continue;
        }
        let [barriers, bare_only, undecided, fenced, bare] =
            ["with_barriers", "bare_only", "undecided", "fenced", "bare"]
                .map(|it_is| number(it, it_is));
        let [lost, unexplained, suspects] =
            ["lost", "unexplained", "suspects"].map(|list| count(it, list));
        writeln!(
            text,
            "| {file} | {gfx} | {kernels} | {barriers} | {} | {undecided} | {fenced} | {bare} | {lost} | \
             {unexplained} | {suspects} |",
            barriers - bare_only
        )?;
    }
    for (list, meaning) in [("lost", "lack a wait"), ("suspects", "are suspects")] {
        for it in findings.iter().filter(|it| count(it, list) > 0) {
            let (file, gfx) = (it["library"].as_str(), it["gfx"].as_str());
            let place = format!("{} {}", file.unwrap_or_default(), gfx.unwrap_or_default());
            write!(
                text,
                "\n{place}: kernels that {meaning}, by template, with the kinds of operations:\n\n"
            )?;
            for (name, (kernels, kinds)) in by_template(&it[list]) {
                writeln!(text, "* {kernels} x `{name}`: {}", kinds.join(", "))?;
            }
        }
    }
    Ok(())
}

/// Groups kernels by their names without template arguments. Returns for each group the number of its kernels and the
/// kinds of their operations.
fn by_template(kernels: &Value) -> BTreeMap<String, (usize, Vec<&str>)> {
    let mut groups: BTreeMap<String, (usize, Vec<&str>)> = BTreeMap::new();
    for kernel in kernels.as_array().into_iter().flatten() {
        let name = short_name(kernel["name"].as_str().unwrap_or_default());
        let (count, kinds) = groups.entry(name).or_default();
        *count += 1;
        let operations = kernel["operations"].as_array().into_iter().flatten();
        kinds.extend(operations.filter_map(|operation| operation["kind"].as_str()));
        kinds.sort_unstable();
        kinds.dedup();
    }
    groups
}

/// Returns the qualified name of a mangled function without template arguments and parameters, for example
/// `rocsparse::csrmv` for `_ZN9rocsparse5csrmvIfEEvPT_`. Leaves out everything after the template arguments, and the
/// mark of an internal function. Returns other names unchanged.
fn short_name(mangled: &str) -> String {
    let Some(rest) = mangled.strip_prefix("_Z") else { return mangled.to_owned() };
    let mut rest = rest.strip_prefix('N').unwrap_or(rest);
    let mut parts = Vec::new();
    loop {
        rest = rest.strip_prefix('L').unwrap_or(rest);
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let Some(part) = rest.get(digits..digits + length) else { break };
        parts.push(if part.starts_with("_GLOBAL__N") { "(anonymous)" } else { part });
        rest = &rest[digits + length..];
    }
    if parts.is_empty() { mangled.to_owned() } else { parts.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_grouped_by_template() {
        assert_eq!(short_name("_ZN9rocsparse5csrmvIfEEvPT_"), "rocsparse::csrmv");
        assert_eq!(
            short_name("_ZN2at6native12_GLOBAL__N_13topIfEEv"),
            "at::native::(anonymous)::top"
        );
        assert_eq!(short_name("_ZN9rocsparseL4backILj3EEvv"), "rocsparse::back");
        assert_eq!(short_name("_Z4testPf"), "test");
        assert_eq!(short_name("Cijk_Ailk"), "Cijk_Ailk");
        let kernel = |name: &str, kind: &str| serde_json::json!({"name": name, "operations": [{"kind": kind}]});
        let kernels = serde_json::json!([
            kernel("_ZN1a1bIfEEv", "global write"),
            kernel("_ZN1a1bIdEEv", "LDS read"),
            kernel("_ZN1a1bIiEEv", "global write"),
            kernel("c", "LDS write"),
        ]);
        let expected = [
            ("a::b".to_owned(), (3, vec!["LDS read", "global write"])),
            ("c".to_owned(), (1, vec!["LDS write"])),
        ];
        assert_eq!(by_template(&kernels), BTreeMap::from(expected));
    }
}
