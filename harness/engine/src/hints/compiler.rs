//! Hints that follow from the errors of the compiler for C++ programs.

/// Libraries of ROCm: their names in `needs: {with: ...}`, on the command line of the linker, and at the beginning of
/// their functions and headers.
const LIBRARIES: [(&str, &str, &str); 12] = [
    ("hipblaslt", "hipblaslt", "hipblaslt"),
    ("hipblas", "hipblas", "hipblas"),
    ("hipfft", "hipfft", "hipfft"),
    ("hiprand", "hiprand", "hiprand"),
    ("hipsolver", "hipsolver", "hipsolver"),
    ("hipsparse", "hipsparse", "hipsparse"),
    ("miopen", "MIOpen", "miopen"),
    ("rccl", "rccl", "nccl"),
    ("rocblas", "rocblas", "rocblas"),
    ("rocfft", "rocfft", "rocfft"),
    ("rocsolver", "rocsolver", "rocsolver"),
    ("rocsparse", "rocsparse", "rocsparse"),
];

/// Libraries of ROCm that consist of headers only, by their names in `needs: {with: ...}`.
const HEADERS: [(&str, &str); 6] = [
    ("hipcub", "hipcub"),
    ("rocprim", "rocprim"),
    ("rocthrust", "thrust"),
    ("rocwmma", "rocwmma"),
    ("rccl", "rccl"),
    ("roctx", "roctracer"),
];

/// Functions of the header `rocrepro.h`.
const OWN: [&str; 10] = [
    "close",
    "done",
    "equal",
    "given_back",
    "holds",
    "must",
    "parameter",
    "phase",
    "same",
    "status",
];

/// Returns the hints for the errors of a compiler, each once.
pub(super) fn hints(log: &[String], source: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in log {
        let hint = missing_file(line)
            .or_else(|| missing_library(line))
            .or_else(|| wrong_architecture(line));
        found.extend(hint.filter(|hint| !found.contains(hint)));
    }
    found.extend(log.iter().find_map(|line| missing_include(line, source)));
    found
}

/// Returns the part of `text` between `before` and `after`; `None` if the text does not contain them in this order.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    text.split_once(before)?.1.split_once(after).map(|(between, _)| between)
}

fn missing_file(line: &str) -> Option<String> {
    let name = between(line, "error: '", "' file not found")?;
    if name == "rocrepro.h" {
        return None;
    }
    if ["cuda.h", "cuda_runtime.h", "cuda_runtime_api.h"].contains(&name) {
        return Some(
            "the program is written for CUDA; translate it to HIP with `hipify-perl`".to_owned(),
        );
    }
    let lower = name.to_ascii_lowercase();
    let of_libraries = LIBRARIES.iter().map(|(with, _, start)| (*with, *start));
    let mut all = of_libraries.chain(HEADERS);
    if let Some((with, _)) =
        all.find(|(with, start)| lower.starts_with(with) || lower.starts_with(start))
    {
        return Some(format!("`needs: {{with: [dev, {with}]}}` adds this header to the stack"));
    }
    (!name.starts_with("hip/")).then(|| {
        "only the program itself is copied, so a header next to it is not found; copy its text into the program, or \
         name its folder under `options`: `[-I/FOLDER]`"
            .to_owned()
    })
}

fn missing_library(line: &str) -> Option<String> {
    let name = line
        .split_once("undefined symbol: ")
        .map(|(_, name)| name)
        .or_else(|| between(line, "undefined reference to `", "'"))?;
    let (with, library, _) = LIBRARIES.iter().find(|(_, _, start)| name.starts_with(start))?;
    Some(format!(
        "to link the library of `{with}`, add `options: [-l{library}]` to the program and \
         `needs: {{with: [dev, {with}]}}` to the case"
    ))
}

fn missing_include(line: &str, source: &str) -> Option<String> {
    let name = between(line, "use of undeclared identifier '", "'")?;
    let is_missing = (OWN.contains(&name) || name == "rocrepro") && !source.contains("rocrepro.h");
    is_missing.then(|| {
        format!(
            "the program lacks `#include \"rocrepro.h\"`, which declares `{name}` in the namespace `rocrepro`"
        )
    })
}

fn wrong_architecture(line: &str) -> Option<String> {
    let option = between(line, "unknown argument '", "'")
        .or_else(|| between(line, "unknown argument: '", "'"))?;
    let is_of_nvcc = ["-arch", "-gencode", "--gpu-architecture", "-code"];
    is_of_nvcc.iter().any(|start| option.starts_with(start)).then(|| {
        format!(
            "`{option}` is an option of nvcc; `arch: gfx1151` of the program names the architecture, by default that \
             of the device"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_newcomers_have_hints() {
        let check = |line: &str, source: &str, expected: &str| {
            let found = hints(&[line.to_owned(), line.to_owned()], source).join("; ");
            match expected {
                "" => assert_eq!(found, "", "{line}"),
                part => assert!(found.contains(part) && found.len() < 250, "{line}: {found}"),
            }
        };
        let absent = |file: &str| format!("program.cpp:4:10: fatal error: '{file}' file not found");
        check(&absent("rocfft/rocfft.h"), "", "`needs: {with: [dev, rocfft]}`");
        check(&absent("hipblaslt/hipblaslt.h"), "", "`needs: {with: [dev, hipblaslt]}`");
        check(&absent("nccl.h"), "", "`needs: {with: [dev, rccl]}`");
        check(&absent("miopen/miopen.h"), "", "`needs: {with: [dev, miopen]}`");
        check(&absent("thrust/sort.h"), "", "`needs: {with: [dev, rocthrust]}`");
        check(&absent("cuda_runtime.h"), "", "hipify-perl");
        check(&absent("util.h"), "", "only the program itself is copied");
        check(&absent("hip/hip_runtime.h"), "", "");
        let symbol = "ld.lld: error: undefined symbol: rocblas_create_handle";
        check(symbol, "", "`options: [-lrocblas]`");
        check("a.o: undefined reference to `miopenCreate'", "", "-lMIOpen");
        check("ld.lld: error: undefined symbol: f()", "", "");
        let undeclared = "program.cpp:12:3: error: use of undeclared identifier 'must'";
        check(
            undeclared,
            "int main() {}",
            "lacks `#include \"rocrepro.h\"`, which declares `must`",
        );
        check(undeclared, "#include \"rocrepro.h\"", "");
        check("error: use of undeclared identifier 'x'", "", "");
        let option = "clang++: error: unknown argument '-arch=sm_80'; did you mean '-march=sm_80'?";
        check(option, "", "`arch: gfx1151`");
        check("clang++: error: unknown argument: '-fno-such'", "", "");
    }

    #[test]
    fn header_declares_each_function_of_its_own() {
        let header =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/program/rocrepro.h"));
        for name in OWN {
            let is_declared =
                |line: &str| !line.starts_with(' ') && line.contains(&format!(" {name}("));
            assert!(header.lines().any(is_declared), "{name}");
        }
    }

    #[test]
    fn libraries_are_named_as_stacks_name_them() {
        let names = LIBRARIES.iter().map(|(with, ..)| *with).chain(HEADERS.map(|(with, _)| with));
        for name in names {
            assert!(name.parse::<stacks::Extra>().is_ok(), "{name}");
        }
    }
}
