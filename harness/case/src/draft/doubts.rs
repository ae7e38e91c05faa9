//! Reasons, found in the text of a program, why the program will probably not work as a case.

use super::{Language, can_report_a_failure};

/// Returns the reasons why a program, run as a case, will probably not compile, not do its work, or never be able to
/// fail. Each reason contains advice.
pub fn doubts(text: &str, language: Language) -> Vec<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let uses_hip = has(&["hipMalloc", "hipError_t", "hipGetLastError", "hipMemcpy"])
        && language == Language::Cpp;
    let is_cuda = has(&["cuda_runtime", "cudaMalloc", "cudaMemcpy"]);
    let doubts = [
        (
            is_cuda,
            "the program is written for CUDA; translate it to HIP first, for example with `hipify-perl`",
        ),
        (
            uses_hip && !is_cuda && !has(&["hip/hip_runtime", "rocrepro.h"]),
            "the program uses HIP and does not include <hip/hip_runtime.h>",
        ),
        (
            has(&["argv[1]", "argv + 1"]),
            "the program is started without arguments; give them as `args: [...]` under `program`",
        ),
        (
            has(&[", \"r\")", ", \"rb\")", "std::ifstream", "np.load(", "torch.load("]),
            "the program is started in an empty folder, so files that it reads must be written by the program itself",
        ),
        (
            !can_report_a_failure(text),
            "the program seems to end with status 0 whatever its results are; add `says` or `never` with words of its output, \
             or let it return 1",
        ),
    ];
    doubts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, doubt)| doubt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_will_go_wrong() {
        #[track_caller]
        fn check(text: &str, language: Language, expected: &[&str]) {
            let found = doubts(text, language);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (doubt, part) in found.iter().zip(expected) {
                assert!(doubt.contains(part), "{doubt}");
            }
        }
        let right = "#include <hip/hip_runtime.h>\nint main() { if (hipMalloc(&p, 4)) return 1; }";
        check(right, Language::Cpp, &[]);
        let cuda = "#include <cuda_runtime.h>\nint main() { if (cudaMalloc(&p, 4)) return 1; }";
        check(cuda, Language::Cpp, &["written for CUDA"]);
        let bare = "int main(int argc, char **argv) { int n = atoi(argv[1]); hipMalloc(&p, n); return 0; }";
        let expected = ["does not include", "without arguments", "status 0"];
        check(bare, Language::Cpp, &expected);
        let reads = "import sys\nx = open('a', \"rb\").read()\nassert x\n";
        check(reads, Language::Python, &["empty folder"]);
    }
}
