//! Compiles the C++ functions by which printed programs compute matrix products on the host, and compares their results
//! with the reference in `plan`.

use std::process::Command;

use plan::{Dtype, MatmulProblem};

const M: u64 = 5;
const N: u64 = 7;
const K: u64 = 12;

/// For each data type, the C++ types of the elements of A and B, and of D, in printed programs.
const TYPES: [(Dtype, &str, &str); 5] = [
    (Dtype::F32, "float", "float"),
    (Dtype::F16, "Half", "Half"),
    (Dtype::Bf16, "Bfloat16", "Bfloat16"),
    (Dtype::F64, "double", "double"),
    (Dtype::I8, "int8_t", "int32_t"),
];

#[test]
fn host_products_match_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("products.cpp");
    let program = folder.path().join("products");
    let mut text = "#include <algorithm>\n#include <cstdint>\n#include <cstdio>\n#include <cstring>\n#include <vector>\n".to_owned();
    for helper in ["half", "bfloat16", "fill_pattern", "fill_numbers", "views", "matmul_on_host"] {
        let file = format!("{}/src/cpp/{helper}.cpp", env!("CARGO_MANIFEST_DIR"));
        text.push_str(&std::fs::read_to_string(file).unwrap());
    }
    text.push_str("int main() {\n");
    for (_, input, output) in TYPES {
        text.push_str(&format!(
            "  {{\n    std::vector<unsigned char> a({M} * {K} * sizeof({input})), b({K} * {N} * sizeof({input}));\n    \
             std::vector<unsigned char> bias({M} * sizeof({output})), d({M} * {N} * sizeof({output}));\n    \
             fill_numbers<{input}>(a.data(), a.size(), 1);\n    fill_numbers<{input}>(b.data(), b.size(), 2);\n    \
             fill_numbers<{output}>(bias.data(), bias.size(), 3);\n    \
             matmul_on_host(as<{output}>(d), as<{input}>(a), as<{input}>(b), as<{output}>(bias), {M}, {N}, {K}, true, \
             false);\n    std::fwrite(d.data(), 1, d.size(), stdout);\n  }}\n"
        ));
    }
    text.push_str("}\n");
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("c++")
        .args(["-std=c++17", "-O0", "-fno-strict-aliasing", "-o"])
        .args([&program, &source])
        .output()
        .expect("a C++ compiler is installed");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut got = Command::new(&program).output().unwrap().stdout;

    for (dtype, ..) in TYPES {
        let problem = MatmulProblem {
            dtype,
            m: M,
            n: N,
            k: K,
            transpose_a: true,
            transpose_b: false,
            bias: true,
        };
        let numbers = |dtype: Dtype, count: u64, stamp| {
            let mut bytes = vec![0; (count * dtype.bytes()) as usize];
            plan::small_numbers(dtype, stamp, &mut bytes);
            bytes
        };
        let (a, b) = (numbers(dtype, M * K, 1), numbers(dtype, K * N, 2));
        let bias = numbers(dtype.output(), M, 3);
        let want = plan::matmul(&problem, &a, &b, Some(&bias)).expect("an exact product");
        let rest = got.split_off(want.len());
        assert_eq!(got, want, "{dtype:?}");
        got = rest;
    }
    assert!(got.is_empty());
}
