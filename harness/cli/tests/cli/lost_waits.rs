//! Tests `rocrepro device audit --barriers` with kernels that the compiler of a release compiles.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::common::output_text;

/// Kernels with a barrier in a loop. `around` and `straight` have waits, and `bare` has no fences. LLVM 22.1.8 deletes
/// the waits of `store_in_tail` and `lds_in_tail` (llvm/llvm-project#211684).
const SOURCE: &str = r#"
#include <hip/hip_runtime.h>
#define KERNEL extern "C" __global__ void
KERNEL store_in_tail(float *g, int n) {
  for (int c = 0; c < n; c++) { __syncthreads(); if (threadIdx.x / 32 == c % 4) g[threadIdx.x % 32] += 1.0f; }
}
KERNEL around(float *g, int n) {
  for (int c = 0; c < n; c++) {
    __syncthreads(); if (threadIdx.x / 32 == c % 4) g[threadIdx.x % 32] += 1.0f; __syncthreads();
  }
}
KERNEL straight(float *g, int n) { g[threadIdx.x] = n; __syncthreads(); g[threadIdx.x ^ 64] += 1.0f; }
KERNEL bare(float *g, int n) {
  for (int c = 0; c < n; c++) { __builtin_amdgcn_s_barrier(); g[threadIdx.x ^ c] += 1.0f; }
}
KERNEL lds_in_tail(float *g, int n) {
  __shared__ float s[256];
  float sum = 0;
  for (int c = 0; c < n; c++) {
    __syncthreads(); sum += s[threadIdx.x ^ 96]; __syncthreads(); s[threadIdx.x] = g[c * 256 + threadIdx.x];
  }
  g[threadIdx.x] = sum;
}
"#;

fn run(folder: &Path, words: &[&str], code: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    let output = command.args(words).current_dir(folder).output().expect("the command starts");
    assert_eq!(output.status.code(), Some(code), "{}", output_text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles the kernels, examines them, and returns the finding. `code` is the exit status of the audit.
fn audit(folder: &Path, gfx: &str, options: &str, code: i32) -> Value {
    let arch = format!("--offload-arch={gfx}");
    let clang = format!(
        "/usr/lib/llvm-22/bin/clang -x hip --offload-device-only {arch} -O3 {options} --no-gpu-bundle-output \
         -o kernels.co kernels.hip"
    );
    let on = ["--rocm", "debian:7.2.4"];
    let compile = ["--device", "emulated", "--with", "dev", "--", "sh", "-c", &clang];
    run(folder, &[&["exec"][..], &on, &compile].concat(), 0);
    let audit = ["device", "audit", "--barriers", "--json", "--lib", "kernels.co"];
    let json: Value =
        serde_json::from_str(&run(folder, &[&audit[..], &on].concat(), code)).expect("JSON");
    let findings = json["barriers"].as_array().expect("a list");
    assert_eq!(findings.len(), 1, "{json:#}");
    assert_eq!(findings[0]["gfx"], gfx);
    findings[0].clone()
}

/// Returns the names of the kernels in a list, each with the kind of its only operation.
fn names<'a>(finding: &'a Value, list: &str) -> Vec<(&'a str, &'a str)> {
    let line = |kernel: &'a Value| {
        let operations = kernel["operations"].as_array().expect("a list");
        assert_eq!(operations.len(), 1, "{kernel:#}");
        (kernel["name"].as_str().expect("text"), operations[0]["kind"].as_str().expect("text"))
    };
    let mut names: Vec<_> = finding[list].as_array().expect("a list").iter().map(line).collect();
    names.sort_unstable();
    names
}

#[test]
fn lost_waits_are_found_in_the_code_of_a_compiler_that_loses_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("kernels.hip"), SOURCE).expect("the folder is writable");
    for gfx in ["gfx1030", "gfx1151", "gfx1201"] {
        let found = audit(at, gfx, "", 1);
        let expected = [("lds_in_tail", "LDS write"), ("store_in_tail", "global write")];
        assert_eq!(names(&found, "lost"), expected, "{gfx}");
        assert_eq!(
            (names(&found, "unexplained"), names(&found, "suspects")),
            (vec![], vec![]),
            "{gfx}"
        );
        assert_eq!((&found["kernels"], &found["bare_only"]), (&5.into(), &1.into()), "{gfx}");
    }
    // A workgroup in CU mode needs no wait for stores, and nothing proves that the source has a fence.
    for (gfx, options) in [("gfx1151", "-mcumode"), ("gfx90a", "")] {
        let found = audit(at, gfx, options, 0);
        assert_eq!(names(&found, "lost"), [], "{gfx}");
        assert_eq!((&found["kernels"], &found["bare_only"]), (&5.into(), &5.into()), "{gfx}");
    }
}
