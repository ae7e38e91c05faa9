//! Drafts a case that runs a program of the user: a reproducer in C++, HIP or Python.

mod doubts;

use std::{collections::BTreeSet, fmt::Write};

pub use self::doubts::doubts;
use crate::issue_link::{is_issue, of_address};

/// Longest title that is taken from a comment of the program, in characters.
const MAX_TITLE_LENGTH: usize = 100;

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

/// Libraries that a C++ program can include. Each entry has the folder of the headers, the name in `stack fetch
/// --with`, and the linker option, which is empty for a header-only library.
const LIBRARIES: [(&str, &str, &str); 18] = [
    ("hipcub/", "hipcub", ""),
    ("rocprim/", "rocprim", ""),
    ("rocrand/", "hiprand", "-lrocrand"),
    ("rocsparse/", "rocsparse", "-lrocsparse"),
    ("rocwmma/", "rocwmma", ""),
    ("roctracer/roctx", "roctx", "-lroctx64"),
    ("thrust/", "rocthrust", ""),
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

/// Frameworks that a Python program can import. Each entry has the name of the module, the name of the package, and the
/// name in `stack fetch --with`, which is `None` if the stack needs nothing for the framework.
const FRAMEWORKS: [(&str, &str, Option<&str>); 21] = [
    ("accelerate", "accelerate", None),
    ("datasets", "datasets", None),
    ("diffusers", "diffusers", None),
    ("einops", "einops", None),
    ("flash_attn", "flash-attn", None),
    ("numba", "numba", None),
    ("onnx", "onnx", None),
    ("pandas", "pandas", None),
    ("pytest", "pytest", None),
    ("safetensors", "safetensors", None),
    ("scipy", "scipy", None),
    ("torchaudio", "torchaudio", None),
    ("torchvision", "torchvision", None),
    ("tqdm", "tqdm", None),
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
                    options.extend(Some(option).filter(|option| !option.is_empty()));
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
    let devices = devices(language, text);
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
        "# A fault of the device that the program must detect; `rocrepro prove` tests this.\n",
    );
    let _ = writeln!(yaml, "faults: {}", fault(language, text));
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

/// Returns the comment in the first line of the program if the comment has at least three words and is not too long for
/// a title. Otherwise returns a title that contains the name of the file.
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
        comment.split_whitespace().count() > 2 && comment.chars().count() <= MAX_TITLE_LENGTH;
    if is_sentence { comment.to_owned() } else { format!("{file} exits with status 0") }
}

/// Returns the lines of YAML that state the expected exit status and output of the program. Many reproducers report
/// their result by printing a word such as `PASSED` or `FAIL`.
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

/// Returns true if the program can report a wrong result: by an exit status other than 0, or by printing a word such as
/// `FAIL`. A case with any other program could never fail. A line that ends the program because a HIP call failed
/// counts only if the program prints nothing: the statuses of its calls are then its only results.
fn can_report_a_failure(text: &str) -> bool {
    let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    let (mut of_status, mut ends_after_calls, mut prints) = (false, false, false);
    for line in text.lines().map(without_comment) {
        let status_here = has(line, &["hip", "err", "Err", "ERR", "status", "#define"]);
        let returns_another = line.split("return ").skip(1).any(|rest| {
            let value = rest.split(';').next().unwrap_or_default().trim();
            !["", "0", "EXIT_SUCCESS"].contains(&value)
        });
        let ends = returns_another || has(line, &["exit(", "abort(", "EXIT_FAILURE"]);
        let is_of_status = status_here || of_status;
        if has(line, &["assert", "raise ", "throw ", "testing."]) || ends && !is_of_status {
            return true;
        }
        ends_after_calls |= ends;
        prints |= !is_of_status && has(line, &["print", "puts(", "cout"]);
        of_status = status_here;
    }
    ends_after_calls && !prints || expectations(text).lines().count() > 1
}

/// Returns a line without the comment at its end.
fn without_comment(line: &str) -> &str {
    let begin = [line.find("//"), line.find("# ")].into_iter().flatten().min();
    if line.trim_start().starts_with("#") && !line.trim_start().starts_with("# ") {
        return line;
    }
    begin.map_or(line, |begin| &line[..begin])
}

/// Returns the number of devices that the program uses, derived from the device numbers in its text.
fn devices(language: Language, text: &str) -> u32 {
    let calls: &[&str] = match language {
        Language::Cpp => &["hipSetDevice(", "hipDeviceGet(&dev, "],
        Language::Python => &[
            "hipSetDevice(",
            "cuda:",
            "torch.cuda.device(",
            "cuda.Device(",
            "set_device(",
            ".cuda(",
            ".to(",
            "device=",
            "'cuda', ",
            "\"cuda\", ",
        ],
    };
    let lists = text.split("device_ids=[").skip(1).filter_map(|rest| rest.split(']').next());
    let listed = lists.flat_map(|list| list.split(',').filter_map(|n| n.trim().parse().ok()));
    let after_calls = || calls.iter().flat_map(|call| text.split(call).skip(1));
    let numbers = after_calls().filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok().filter(|number| *number < 16)
    });
    // A program that asks for the number of devices also runs on one.
    let asks = ["DeviceCount", "device_count("].iter().any(|word| text.contains(word));
    let computed = ["hipSetDevice(", "cuda:{", "set_device("].iter().any(|call| {
        let rests = text.split(call).skip(1);
        rests.into_iter().any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    });
    let several = u32::from(text.contains("hipDeviceEnablePeerAccess") || computed && !asks);
    numbers.chain(listed).max().unwrap_or_default().max(several) + 1
}

/// Returns a fault that the program will probably detect: a fault of copies or of kernels if the program uses them,
/// else the refusal of one of its HIP calls.
fn fault(language: Language, text: &str) -> String {
    let copies = ["hipMemcpy", ".cpu()", ".get()", "asnumpy", ".item()", "to(\"cpu\""];
    let launches = ["<<<", "hipLaunchKernel", "hipModuleLaunchKernel"];
    if copies.iter().any(|call| text.contains(call)) {
        return "copy.zero".to_owned();
    }
    if launches.iter().any(|call| text.contains(call)) {
        return "kernel.drop".to_owned();
    }
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let refused = words.filter(|_| language == Language::Cpp).find_map(|word| {
        let fault = format!("{{fault: call.refused, with: {{call: {word}}}}}");
        let mut planted = device::FaultSpec::from(device::Fault::CallRefused);
        let is_possible = word.starts_with("hip") && planted.set("call", word).is_ok();
        (is_possible && crate::program::injection_refusal(true, &planted).is_none())
            .then_some(fault)
    });
    refused.unwrap_or_else(|| "copy.zero".to_owned())
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
            "faults: copy.zero",
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
    }

    #[test]
    fn ends_after_failed_calls_report_no_result() {
        let set_up = "int main() {\n  if (hipMalloc(&p, 4) != hipSuccess)\n    return 2;\n  printf(\"%d\", n);\n  return 0;\n}\n";
        assert!(!can_report_a_failure(set_up));
        let macros = "#define CHECK(x) if (x) exit(1)\nint main() {\n  CHECK(hipMalloc(&p, 4));\n\n  puts(n ? \"a\" : \"b\");\n}\n";
        assert!(!can_report_a_failure(macros));
        assert!(can_report_a_failure("int main() { if (hipMalloc(&p, 4)) return 1; }\n"));
        assert!(can_report_a_failure("int main() {\n  return n == 4 ? 0 : 1;\n}\n"));
        assert!(!can_report_a_failure("import torch  # raise no error\nprint(x)\n"));
        assert!(can_report_a_failure("import torch\nraise SystemExit(1)\n"));
    }

    #[test]
    fn devices_are_found_in_each_usual_form() {
        let python = |text: &str| devices(Language::Python, text);
        for text in [
            "x.to(1)",
            "x.cuda(1)",
            "torch.ones(4, device=1)",
            "torch.cuda.set_device(1)",
            "torch.device('cuda', 1)",
            "for i in range(2): f(f\"cuda:{i}\")",
            "DataParallel(m, device_ids=[0, 1])",
            "cupy.cuda.Device(1)",
        ] {
            assert_eq!(python(text), 2, "{text}");
        }
        for text in
            ["x.to(device)", "x.to(torch.float16)", "x.cuda()", "device='cuda:0'", "y.to('cpu')"]
        {
            assert_eq!(python(text), 1, "{text}");
        }
        let cpp = |text: &str| devices(Language::Cpp, text);
        assert_eq!(cpp("for (int i = 0; i < 2; i++) hipSetDevice(i);"), 2);
        assert_eq!(cpp("hipGetDeviceCount(&n); for (int i = 0; i < n; i++) hipSetDevice(i);"), 1);
        assert_eq!(cpp("hipSetDevice(0); y.to(3);"), 1);
    }

    #[test]
    fn program_without_copies_and_launches_gets_a_refused_call() {
        let text = "#include <hip/hip_runtime.h>\nint main() { hipDeviceProp_t p; return hipGetDeviceProperties(&p, 0) != hipSuccess; }\n";
        let yaml = valid("a.cpp", Language::Cpp, text);
        let line = "faults: {fault: call.refused, with: {call: hipGetDeviceProperties}}";
        assert!(yaml.contains(line), "{yaml}");
        let headers =
            "#include <thrust/sort.h>\n#include <hipcub/hipcub.hpp>\nint main() { return 1; }\n";
        let yaml = valid("a.cpp", Language::Cpp, headers);
        assert!(yaml.contains("needs: {with: [dev, hipcub, rocthrust]}"), "{yaml}");
        assert!(!yaml.contains("options"), "{yaml}");
    }

    #[test]
    fn other_files_are_contained_in_the_case() {
        let text = "#include <hip/hip_runtime.h>\n\n__global__ void k() {}\nint main() {\n\tk<<<1, 1>>>(); // costs $5\n}\n";
        let yaml = valid("repro.cu", Language::Cpp, text);
        assert!(yaml.contains("    \tk<<<1, 1>>>(); // costs $$5\n"), "{yaml}");
        assert!(yaml.contains("faults: kernel.drop\n"), "{yaml}");
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
