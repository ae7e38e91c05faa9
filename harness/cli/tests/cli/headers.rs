//! The table of functions that `hip` steps call, against the header of the release that it is taken from.

use std::{fmt::Write, fs, os::unix::fs::symlink, process::Command};

use plan::{ROOM, hip_functions};

const STACK: &str = "debian:7.2.4";

/// A C++ compiler says of each function that its type is that of the table, and of each struct that there is room for it. Variants
/// for a default stream per thread are not in the header; their lines are those of the functions that they are variants of.
#[test]
fn the_table_has_the_types_of_the_header() {
    let fetched = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["rocm", "fetch", STACK, "--with", "dev"])
        .output()
        .expect("it starts");
    assert!(fetched.status.success(), "{fetched:?}");
    let store = rocm::Store::from_environment().expect("there is a cache");
    let spec = STACK.parse().expect("it is a stack");
    let root = rocm::locate(&spec, &store).expect("it is there").root;
    let folder = tempfile::tempdir().expect("a folder");
    // The other headers of the stack are those of another C library than the compiler's.
    symlink(root.join("usr/include/hip"), folder.path().join("hip")).expect("a link");

    let mut source = "#define __HIP_PLATFORM_AMD__\n#include <hip/hip_runtime_api.h>\n".to_owned();
    for function in hip_functions() {
        let name = function.name();
        let types: Vec<&str> = function.parameters.iter().map(|p| p.ty).collect();
        if let Some(of) = name.strip_suffix("_spt") {
            let other = plan::hip_function(of).unwrap_or_else(|| panic!("{of} is not there"));
            let others: Vec<&str> = other.parameters.iter().map(|p| p.ty).collect();
            assert_eq!(types, others, "{name}");
            continue;
        }
        let returns = if function.gives_text { "const char*" } else { "hipError_t" };
        let list = types.join(", ");
        let _ = writeln!(source, "auto f_{name} = static_cast<{returns} (*)({list})>(&{name});");
        for ty in types.iter().filter(|ty| ty.ends_with('*') && !ty.contains("void")) {
            let size = format!("sizeof(*static_cast<{ty}>(nullptr))");
            let _ = writeln!(source, "static_assert({size} <= {ROOM}, \"{ty}\");");
        }
    }
    let file = folder.path().join("table.cpp");
    fs::write(&file, source).expect("it is written");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-w", "-fsyntax-only", "-I"]).arg(folder.path()).arg(&file);
    let said = compiler.output().expect("a C++ compiler");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
