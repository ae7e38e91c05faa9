//! Compares the functions that `hip` steps can call with the header of their release.

use std::{fmt::Write, fs, os::unix::fs::symlink, path::PathBuf, process::Command};

use object::{Object, ObjectSymbol, SymbolKind};
use plan::{MAX_VALUE_BYTES, hip_functions};

const STACK: &str = "debian:7.2.4";

/// Exported functions of HIP 7.2.4, one per line; docs/coverage.md counts them.
const EXPORTED: &str = include_str!("../../../case/tests/exported-7.2.4.txt");

#[test]
fn lists_the_exported_functions_of_the_library() {
    let library = fetched().join("usr/lib/x86_64-linux-gnu/libamdhip64.so.7");
    let bytes = fs::read(&library).expect("it is there");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let mut found: Vec<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| symbol.name().ok())
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .filter(|name| name.starts_with("hip") && !name.starts_with("hiprtc"))
        .collect();
    found.sort();
    found.dedup();
    let listed: Vec<&str> = EXPORTED.lines().collect();
    assert_eq!(found, listed);
}

fn fetched() -> PathBuf {
    let fetched = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["rocm", "fetch", STACK, "--with", "dev"])
        .output()
        .expect("it starts");
    assert!(fetched.status.success(), "{fetched:?}");
    let store = stacks::StackCache::from_environment().expect("there is a cache");
    let spec = STACK.parse().expect("it is a stack");
    stacks::locate(&spec, &store).expect("it is there").root
}

/// A C++ compiler checks the type of each function, and that each struct fits into the buffer that holds one value. The
/// header does not declare the `_spt` variants (default stream per thread), so their rows in rocrepro's function table
/// must equal those of the functions without the suffix.
#[test]
fn declares_functions_with_the_types_of_the_header() {
    let root = fetched();
    let folder = tempfile::tempdir().expect("a folder");
    // Only HIP's headers are linked, because the others in the stack belong to another C library than that of the
    // compiler.
    symlink(root.join("usr/include/hip"), folder.path().join("hip")).expect("a link");

    let mut source = "#define __HIP_PLATFORM_AMD__\n#include <hip/hip_runtime_api.h>\n".to_owned();
    for function in hip_functions().iter().chain(plan::hip_functions_of_steps()) {
        let name = function.name();
        let types: Vec<&str> = function.parameters.iter().map(|p| p.ty).collect();
        if let Some(of) = name.strip_suffix("_spt") {
            let other = plan::hip_declared(of).unwrap_or_else(|| panic!("{of} is not there"));
            let others: Vec<&str> = other.parameters.iter().map(|p| p.ty).collect();
            assert_eq!(types, others, "{name}");
            continue;
        }
        let returns = if function.gives_text { "const char*" } else { "hipError_t" };
        let list = types.join(", ");
        let _ = writeln!(source, "auto f_{name} = static_cast<{returns} (*)({list})>(&{name});");
        for ty in types.iter().filter(|ty| ty.ends_with('*') && !ty.contains("void")) {
            let size = format!("sizeof(*static_cast<{ty}>(nullptr))");
            let _ = writeln!(source, "static_assert({size} <= {MAX_VALUE_BYTES}, \"{ty}\");");
        }
    }
    for (status, number) in device::hip_statuses() {
        let _ = writeln!(source, "static_assert({status} == {number}, \"{status}\");");
    }
    for device::Enumerator { ty, name, value } in device::hip_enumerators() {
        // A macro has no type of its own. An enumerator converts only to its own type.
        if *ty != device::Enumerator::FLAGS {
            let _ = writeln!(source, "const {ty} e_{ty}_{name} = {name};");
        }
        let _ = writeln!(
            source,
            "static_assert(static_cast<unsigned long long>({name}) == {value}ull, \"{name}\");"
        );
    }
    let file = folder.path().join("table.cpp");
    fs::write(&file, source).expect("it is written");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-w", "-fsyntax-only", "-I"]).arg(folder.path()).arg(&file);
    let said = compiler.output().expect("a C++ compiler");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
