//! Compiles the C++ functions by which printed programs compute library kernels on the host, and compares their results
//! with the references in `plan`.

use std::process::Command;

use plan::{KERNELS, Parameter};

/// Number of elements of each buffer. It is a multiple of the tile size of the matrix kernel.
const WORDS: usize = 16 * 16;

#[test]
fn host_functions_match_the_references() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("kernels.cpp");
    let program = folder.path().join("kernels");
    let texts = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let read = |file: String| std::fs::read_to_string(format!("{texts}/{file}")).unwrap();

    let mut text = "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <cstring>\n\
                    #include <numeric>\n#include <vector>\n"
        .to_owned();
    text.push_str(&read("cpp/fill_pattern.cpp".into()));
    for kernel in KERNELS {
        text.push_str(&read(format!("kernels/{}.cpp", kernel.name)));
    }
    text.push_str("int main() {\n");
    text.push_str(&format!("  static uint32_t in[2][{WORDS}], out[{WORDS}];\n"));
    for kernel in KERNELS {
        let mut input = 0;
        let arguments: Vec<String> = kernel
            .parameters
            .iter()
            .enumerate()
            .map(|(index, parameter)| match parameter {
                Parameter::Out => format!("reinterpret_cast<{}*>(out)", element(kernel.name, true)),
                Parameter::In => {
                    input += 1;
                    format!(
                        "reinterpret_cast<const {}*>(in[{}])",
                        element(kernel.name, false),
                        input - 1
                    )
                }
                Parameter::U32 => number(kernel.name, index).to_string(),
                Parameter::F32 => "2.5f".to_owned(),
            })
            .collect();
        text.push_str(
            "  fill_pattern(in[0], sizeof in[0], 1);\n  fill_pattern(in[1], sizeof in[1], 2);\n",
        );
        text.push_str("  fill_pattern(out, sizeof out, 3);\n");
        text.push_str(&format!("  {}_on_host({});\n", kernel.name, arguments.join(", ")));
        text.push_str("  std::fwrite(out, 1, sizeof out, stdout);\n");
    }
    text.push_str("}\n");
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("c++")
        .args(["-std=c++17", "-O0", "-fno-strict-aliasing", "-o"])
        .args([&program, &source])
        .output()
        .expect("a C++ compiler is installed");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().unwrap().stdout;

    for (kernel, got) in KERNELS.iter().zip(output.chunks(4 * WORDS)) {
        let pattern = |stamp| {
            let mut bytes = vec![0; 4 * WORDS];
            plan::pattern(stamp, &mut bytes);
            bytes
        };
        let (first, second, mut want) = (pattern(1), pattern(2), pattern(3));
        let numbers: Vec<u32> = kernel
            .parameters
            .iter()
            .enumerate()
            .filter_map(|(index, parameter)| match parameter {
                Parameter::U32 => Some(number(kernel.name, index)),
                Parameter::F32 => Some(2.5_f32.to_bits()),
                _ => None,
            })
            .collect();
        (kernel.reference)(&mut want, &[&first, &second], &numbers, 1 << 20).unwrap();
        assert!(got == want, "{} computes something else on the host", kernel.name);
    }
    assert_eq!(output.len(), 4 * WORDS * KERNELS.len());
}

fn element(kernel: &str, output: bool) -> &'static str {
    match (kernel, output) {
        ("copy_u8", _) => "unsigned char",
        ("saxpy_f32" | "matmul_f32", _) | ("to_f32", true) => "float",
        _ => "uint32_t",
    }
}

/// Returns the value for a number parameter of a kernel: the size for the first number, a small value for the others.
fn number(kernel: &str, index: usize) -> u32 {
    let sizes = KERNELS.iter().find(|k| k.name == kernel).unwrap().parameters;
    let first = sizes.iter().position(|p| *p == Parameter::U32);
    match kernel {
        _ if first != Some(index) => 7,
        "matmul_f32" => 16,
        _ => WORDS as u32 - 3,
    }
}
