//! Drafts a case whose body is a program of the user: a reproducer in C++, HIP or Python.

mod doubts;

use std::{collections::BTreeSet, fmt::Write};

pub use self::doubts::doubts;
use crate::issue_link::{is_issue, of_address};

/// Longest title that is taken from a comment of the program, in characters.
const LONGEST_TITLE: usize = 100;

/// Language of a program, from the extension of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C++ with or without kernels.
    Cpp,
    /// Python.
    Python,
}

impl Language {
    /// Returns the language of a file with this extension; `None` for other files.
    pub fn of_extension(extension: &str) -> Option<Language> {
        match extension {
            "cpp" | "cc" | "cxx" | "hip" | "cu" => Some(Language::Cpp),
            "py" => Some(Language::Python),
            _ => None,
        }
    }
}

/// A library that a C++ program includes: the folder of its headers, its name in `stack fetch --with`, and the linker
/// option.
const LIBRARIES: [(&str, &str, &str); 11] = [
    ("hipblas/", "hipblas", "-lhipblas"),
    ("hipblaslt/", "hipblaslt", "-lhipblaslt"),
    ("hipfft/", "hipfft", "-lhipfft"),
    ("hiprand/", "hiprand", "-lhiprand"),
    ("hipsolver/", "hipsolver", "-lhipsolver"),
    ("hipsparse/", "hipsparse", "-lhipsparse"),
    ("miopen/", "miopen", "-lMIOpen"),
    ("rccl/", "rccl", "-lrccl"),
    ("rocblas/", "rocblas", "-lrocblas"),
    ("rocfft/", "rocfft", "-lrocfft"),
    ("rocsolver/", "rocsolver", "-lrocsolver"),
];

/// A framework that a Python program imports: the name of its module, the name of its package, and its name in `stack
/// fetch --with`.
const FRAMEWORKS: [(&str, &str, Option<&str>); 8] = [
    ("accelerate", "accelerate", None),
    ("cupy", "cupy-rocm-7-0", Some("cupy")),
    ("jax", "jax", Some("jax")),
    ("numpy", "numpy", None),
    ("onnxruntime", "onnxruntime-rocm", Some("onnxruntime")),
    ("torch", "torch", Some("torch")),
    ("transformers", "transformers", None),
    ("triton", "triton", Some("triton")),
];

/// Returns a case for a program. `file` is its file name, and `text` its source. If the file is in the folder of the
/// case (`is_beside`) and has a name that a case can contain, such as `repro.cpp`, the case names the file; otherwise
/// the case contains the source.
pub fn draft(file: &str, is_beside: bool, language: Language, text: &str) -> String {
    let mut groups = BTreeSet::new();
    let (mut options, mut packages) = (Vec::new(), Vec::new());
    match language {
        Language::Cpp => {
            groups.insert("dev");
            for (header, group, option) in LIBRARIES {
                if text.contains(&format!("<{header}")) || text.contains(&format!("\"{header}")) {
                    groups.insert(group);
                    options.push(option);
                }
            }
            if text.contains("hip/hiprtc.h") {
                options.push("-lhiprtc");
            }
        }
        Language::Python => {
            for (module, package, group) in FRAMEWORKS {
                if imports(text, module) {
                    packages.push(package);
                    groups.extend(group);
                }
            }
        }
    }
    let mut yaml = format!("title: {}\n", quoted(&title(file, text)));
    let issues = issues(text);
    if !issues.is_empty() {
        let issues: Vec<_> = issues.iter().map(|issue| quoted(issue)).collect();
        let _ = writeln!(yaml, "upstream: [{}]", issues.join(", "));
    }
    yaml.push_str("# The document, issue or measurement that says what is right.\n");
    let _ = writeln!(yaml, "source: {}", quoted(&format!("what the author of {file} expects")));
    let mut needs: Vec<String> = Vec::new();
    if !groups.is_empty() {
        let groups: Vec<_> = groups.into_iter().collect();
        needs.push(format!("with: [{}]", groups.join(", ")));
    }
    let devices = devices(text);
    if devices > 1 {
        needs.push(format!("devices: {devices}"));
    }
    if !needs.is_empty() {
        let _ = writeln!(yaml, "needs: {{{}}}", needs.join(", "));
    }
    yaml.push_str("program:\n");
    let key = if language == Language::Cpp { "cpp" } else { "python" };
    if !packages.is_empty() {
        let _ = writeln!(yaml, "  packages: [{}]", packages.join(", "));
    }
    if !options.is_empty() {
        let _ = writeln!(yaml, "  options: [{}]", options.join(", "));
    }
    yaml.push_str(&expectations(text));
    match crate::program::file_named(file, key).filter(|_| is_beside) {
        Some(file) => {
            let _ = writeln!(yaml, "  {key}: {file}");
        }
        None => {
            let _ = writeln!(yaml, "  {key}: |");
            for line in text.lines() {
                let line = line.replace('$', "$$");
                let _ = writeln!(yaml, "{}", format!("    {line}").trim_end());
            }
        }
    }
    yaml.push_str(
        "# A fault of the device that the program must notice; `rocrepro prove` tests it.\n",
    );
    let _ = writeln!(
        yaml,
        "faults: {{fault: {}, signature: \"{}\"}}",
        fault(text),
        end_of_failure(language, text)
    );
    yaml
}

/// Returns the issues that the program mentions, as `owner/repository#number` or as addresses on GitHub.
fn issues(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let is_around = |c: char| c.is_whitespace() || "()[]{}<>\"'`,;".contains(c);
    for word in text.split(is_around) {
        let word = word.trim_end_matches(['.', ':', '!', '?', '/']);
        let issue = match word.split_once("github.com/") {
            Some((_, path)) => of_address(path),
            None => Some(word.to_owned()),
        };
        if let Some(issue) = issue.filter(|issue| is_issue(issue) && !found.contains(issue)) {
            found.push(issue);
        }
    }
    found
}

/// Returns true if a Python program imports the module, on a line of its own.
fn imports(text: &str, module: &str) -> bool {
    text.lines().map(str::trim_start).any(|line| {
        let Some(rest) = line.strip_prefix("import ").or_else(|| line.strip_prefix("from ")) else {
            return false;
        };
        let names = rest.split(" import ").next().unwrap_or_default();
        names.split(',').any(|name| name.trim().split(['.', ' ']).next() == Some(module))
    })
}

/// Returns the first comment of the program if it is a line of words, else a title that contains the file's name.
fn title(file: &str, text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("#!"));
    let first = lines.filter(|line| !line.is_empty()).map(|line| {
        let comment =
            ["///", "//", "#", "\"\"\"", "/*"].iter().find_map(|mark| line.strip_prefix(mark));
        comment.filter(|comment| !comment.starts_with("include") && !comment.starts_with("define"))
    });
    let comment = first.take(1).flatten().next().unwrap_or_default();
    let comment =
        comment.trim_end_matches("*/").trim_end_matches("\"\"\"").trim().trim_end_matches('.');
    let is_sentence =
        comment.split_whitespace().count() > 2 && comment.chars().count() <= LONGEST_TITLE;
    if is_sentence { comment.to_owned() } else { format!("{file} exits with status 0") }
}

/// Returns the expectations of the program's exit status and output. Many reproducers report their result by printing
/// one of these words.
fn expectations(text: &str) -> String {
    let mut stated = "  exit: 0\n".to_owned();
    if let Some(word) = ["PASSED", "PASS", "SUCCESS"].into_iter().find(|word| prints(text, word)) {
        let _ = writeln!(stated, "  says: {word}");
    }
    let bad: Vec<_> = ["FAILED", "FAIL", "ERROR", "MISMATCH", "mismatch", "incorrect"]
        .into_iter()
        .filter(|word| prints(text, word))
        .collect();
    match bad.as_slice() {
        [] => {}
        [word] => {
            let _ = writeln!(stated, "  never: {word}");
        }
        words => {
            let _ = writeln!(stated, "  never: [{}]", words.join(", "));
        }
    }
    stated
}

/// Returns true if a string literal of the program contains the word.
fn prints(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().any(|line| {
        let mut literals = line.split(['"', '\'']).skip(1).step_by(2);
        literals.any(|literal| literal.split(|c| !is_part(c)).any(|found| found == word))
    })
}

/// Returns true if the program may end with a status other than 0, or prints a word that reports a failure. A case with
/// any other program could not fail.
fn can_report_a_failure(text: &str) -> bool {
    let words = ["exit(", "abort(", "assert", "raise ", "throw ", "EXIT_FAILURE", "testing."];
    let returns_another = text.split("return ").skip(1).any(|rest| {
        let value = rest.split(';').next().unwrap_or_default().trim();
        !["", "0", "EXIT_SUCCESS"].contains(&value)
    });
    let stated = expectations(text);
    words.iter().any(|word| text.contains(word)) || returns_another || stated.lines().count() > 1
}

/// Returns the number of devices that the program uses, derived from the device numbers in its text.
fn devices(text: &str) -> u32 {
    let numbers = ["hipSetDevice(", "cuda:", "torch.cuda.device("].iter().flat_map(|call| {
        text.split(call).skip(1).filter_map(|rest| {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u32>().ok().filter(|number| *number < 16)
        })
    });
    let peer = u32::from(text.contains("hipDeviceEnablePeerAccess"));
    numbers.max().unwrap_or_default().max(peer) + 1
}

/// Returns the pattern of the signature with which the program probably reports wrong data.
fn end_of_failure(language: Language, text: &str) -> &'static str {
    let raises = ["assert", "raise ", "testing."].iter().any(|word| text.contains(word));
    let aborts = ["assert(", "abort("].iter().any(|word| text.contains(word));
    match language {
        Language::Python if raises => "exception:*",
        Language::Cpp if aborts => "crash:program:SIGABRT:*",
        Language::Python | Language::Cpp => "exit:*",
    }
}

fn fault(text: &str) -> &'static str {
    let copies = ["hipMemcpy", ".cpu()", ".get()", "asnumpy", ".item()", "to(\"cpu\""];
    let launches = ["<<<", "hipLaunchKernel", "hipModuleLaunchKernel"];
    if copies.iter().any(|call| text.contains(call))
        || !launches.iter().any(|call| text.contains(call))
    {
        "copy.zero"
    } else {
        "kernel.drop"
    }
}

/// Quotes a text for YAML.
fn quoted(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, Kernels, mistakes};

    /// Checks that a draft is a valid case, and returns it.
    #[track_caller]
    fn valid(file: &str, language: Language, text: &str) -> String {
        let yaml = draft(file, true, language, text);
        let found = mistakes("a/b", &yaml, &Kernels::new());
        let file_is_read_later =
            |m: &crate::Diagnostic| m.message.contains("not found in the folder");
        assert!(found.iter().all(file_is_read_later), "{found:?} in\n{yaml}");
        Case::parse("a/b", &yaml).expect("a case");
        yaml
    }

    #[test]
    fn draft_names_what_the_program_needs() {
        let text = "// hipMemcpyPeer loses the last byte.\n#include <hip/hip_runtime.h>\n#include <rocblas/rocblas.h>\n\
                    int main() { hipSetDevice(1); hipMemcpy(a, b, 4, kind); puts(\"PASS\"); puts(\"FAIL\"); }\n";
        let yaml = valid("repro.cpp", Language::Cpp, text);
        for line in [
            "title: \"hipMemcpyPeer loses the last byte\"",
            "needs: {with: [dev, rocblas], devices: 2}",
            "  options: [-lrocblas]",
            "  cpp: repro.cpp",
            "  says: PASS",
            "  never: FAIL",
            "faults: {fault: copy.zero, signature: \"exit:*\"}",
        ] {
            assert!(yaml.lines().any(|found| found == line), "`{line}` in\n{yaml}");
        }
    }

    #[test]
    fn words_of_results_are_whole_words_of_literals() {
        let silent = "// FAIL\nint main() { if (x) return EXIT_FAILURE; puts(\"BYPASS\"); }\n";
        assert_eq!(expectations(silent), "  exit: 0\n");
        assert!(can_report_a_failure(silent));
        let both = "puts(\"Test PASSED\"); puts(\"ERROR: 5 mismatch\");";
        let stated = "  exit: 0\n  says: PASSED\n  never: [ERROR, mismatch]\n";
        assert_eq!(expectations(both), stated);
        assert!(!can_report_a_failure("int main() { printf(\"%d\", n); return 0; }"));
        let yaml = valid("a.cpp", Language::Cpp, "int main() { assert(x == 1); }\n");
        assert!(yaml.contains("signature: \"crash:program:SIGABRT:*\""), "{yaml}");
    }

    #[test]
    fn other_files_are_contained_in_the_case() {
        let text = "#include <hip/hip_runtime.h>\n\n__global__ void k() {}\nint main() {\n\tk<<<1, 1>>>(); // costs $5\n}\n";
        let yaml = valid("repro.cu", Language::Cpp, text);
        assert!(yaml.contains("    \tk<<<1, 1>>>(); // costs $$5\n"), "{yaml}");
        assert!(yaml.contains("fault: kernel.drop"), "{yaml}");
        assert!(yaml.contains("title: \"repro.cu exits with status 0\""), "{yaml}");
    }

    #[test]
    fn files_with_each_usual_extension_are_named() {
        for file in ["repro.hip", "repro.cc", "repro.cxx"] {
            let yaml = valid(file, Language::Cpp, "int main() { return 1; }\n");
            assert!(yaml.contains(&format!("  cpp: {file}\n")), "{yaml}");
        }
    }

    #[test]
    fn named_issues_are_upstream() {
        let text = "// A memset is lost (ROCm/hip#13, see https://github.com/ROCm/rocm-systems/issues/1849#issue-2).\n\
                    // Not ROCm/hip, a/b#c or https://github.com/ROCm/hip/tree/13; again ROCm/hip#13.\nint main() { return 1; }\n";
        let yaml = valid("repro.cpp", Language::Cpp, text);
        let line = "upstream: [\"ROCm/hip#13\", \"ROCm/rocm-systems#1849\"]";
        assert!(yaml.lines().any(|found| found == line), "{yaml}");
        let yaml =
            valid("repro.cpp", Language::Cpp, "#include <a/b.h>\nint main() { return 1; }\n");
        assert!(!yaml.contains("upstream"), "{yaml}");
    }

    #[test]
    fn python_imports_are_packages() {
        let text = "#!/usr/bin/env python3\n\"\"\"A \\ sum \"of\" zeros.\"\"\"\nimport torch, sys\nfrom numpy.linalg import norm\n\
                    import torchvision_not\nx = torch.ones(4, device='cuda:0')\n";
        let yaml = valid("my repro.py", Language::Python, text);
        assert!(yaml.contains("packages: [numpy, torch]"), "{yaml}");
        assert!(yaml.contains("needs: {with: [torch]}"), "{yaml}");
        let yaml = valid("repro.py", Language::Python, "import ctypes\n");
        assert!(!yaml.contains("needs") && !yaml.contains("packages"), "{yaml}");
    }
}
