//! Explains which libraries and GPU kernels a stack does not have, and how to add them.

use case::Case;
use stacks::{Extra, Manifest, Spec};

/// Returns advice on how to add a library to a stack.
pub(crate) fn advice(spec: &str, library: &str) -> String {
    let Ok(Spec::Debian(release)) = spec.parse() else {
        return format!("install {library} in `{spec}`");
    };
    match library.parse::<Extra>().ok().filter(|extra| release.extra(*extra).is_some()) {
        Some(extra) => format!(
            "`rocrepro stack fetch {spec} --with {extra}` adds it ({})",
            mb(release.size_of(extra))
        ),
        None => format!("`{spec}` does not contain it"),
    }
}

/// Returns the skip reason if a fetched library has no GPU kernels for the architecture. The kernels of hipBLASLt and
/// rocBLAS are files of their own, those of hipRAND are inside the library rocRAND.
pub(crate) fn kernels(case: &Case, manifest: &Manifest, gfx: &str) -> Option<String> {
    let names = case.needs.libraries.iter().map(|library| library.name());
    names.into_iter().find_map(|name| kernels_of(name, manifest, gfx))
}

fn kernels_of(name: &str, manifest: &Manifest, gfx: &str) -> Option<String> {
    let carrier = if name == "hiprand" { "rocrand" } else { name };
    let packages = || manifest.packages.iter().filter(|p| is_library(&p.name, carrier));
    let none = |version: &str| Some(format!("{name} {version} has no kernels for {gfx}"));
    let for_it = |architecture: &String| architecture == gfx || architecture.ends_with("generic");
    let Some(offered) = packages().find(|package| !package.architectures.is_empty()) else {
        let library = packages().find(|package| !package.inside.is_empty())?;
        return if library.inside.iter().any(for_it) { None } else { none(&library.version) };
    };
    if !offered.architectures.iter().any(|a| a == gfx) {
        return none(&offered.version);
    }
    let unpacked =
        manifest.architectures.is_empty() || manifest.architectures.iter().any(|a| a == gfx);
    let spec = &manifest.spec;
    (!unpacked).then(|| {
        format!(
            "{name} was fetched without kernels for {gfx}; `rocrepro stack fetch {spec} --with {name} --gfx {gfx}` adds \
             them"
        )
    })
}

/// Returns the skip reason if a fetched stack does not contain a library that the case needs.
pub(crate) fn missing_library(case: &Case, manifest: &Manifest) -> Option<String> {
    let names = case.needs.libraries.iter().map(|library| library.name());
    let is_there = |name: &str| manifest.packages.iter().any(|p| is_library(&p.name, name));
    let name = names.into_iter().find(|name| !is_there(name))?;
    Some(format!("the stack has no lib{name}; {}", advice(&manifest.spec, name)))
}

/// Returns true if `package` contains the library `name` itself. For `rocrand`, this is `librocrand1`, but neither
/// `librocrand1-tests` nor `librocrand-dev`.
fn is_library(package: &str, name: &str) -> bool {
    let number = package.strip_prefix("lib").and_then(|rest| rest.strip_prefix(name));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns a size in megabytes as text, for example `257 MB`.
pub fn mb(bytes: u64) -> String {
    format!("{} MB", (bytes + 500_000) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use stacks::Package;

    use super::*;

    fn manifest(package: &str, files: &[&str], inside: &[&str]) -> Manifest {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let of = |name: &str, files: &[&str], inside: &[&str]| Package {
            name: name.to_owned(),
            version: "1-2".to_owned(),
            sha256: String::new(),
            size: 1,
            architectures: owned(files),
            inside: owned(inside),
        };
        Manifest {
            spec: "debian:6.4.3".to_owned(),
            rocm: "6.4.3".parse().unwrap(),
            fetched: 1,
            mirror: String::new(),
            suites: Vec::new(),
            with: Vec::new(),
            architectures: owned(&["gfx90a"]),
            packages: vec![of("librocrand1-tests", &[], &["gfx906"]), of(package, files, inside)],
        }
    }

    #[test]
    fn reports_missing_kernels() {
        let check = |name: &str, manifest: &Manifest, gfx: &str, expected: &str| {
            let said = kernels_of(name, manifest, gfx).unwrap_or_default();
            assert!(said.starts_with(expected) && said.is_empty() == expected.is_empty(), "{said}");
        };
        let rand = manifest("librocrand1", &[], &["gfx1030", "gfx90a"]);
        check("hiprand", &rand, "gfx1030", "");
        check("hiprand", &rand, "gfx1151", "hiprand 1-2 has no kernels for gfx1151");
        check("hiprand", &manifest("librocrand1", &[], &["gfx11-generic"]), "gfx1151", "");
        check("hiprand", &manifest("librocrand1", &[], &[]), "gfx1151", "");
        // Some GPU kernels are inside the library file, in addition to those in files of their own.
        let blas = manifest("librocblas4", &["gfx1030", "gfx90a"], &["gfx1030", "gfx1151"]);
        check("rocblas", &blas, "gfx90a", "");
        check("rocblas", &blas, "gfx1030", "rocblas was fetched without kernels for gfx1030");
        check("rocblas", &blas, "gfx1151", "rocblas 1-2 has no kernels for gfx1151");
    }

    #[test]
    fn missing_libraries_come_with_advice() {
        let check = |spec, library, expected: &str| {
            let said = advice(spec, library);
            assert!(said.contains(expected), "{spec} {library}: {said}");
        };
        check("debian:7.2.4", "hipblaslt", "fetch debian:7.2.4 --with hipblaslt` adds it (2");
        check("debian:6.4.3", "hiprand", "--with hiprand` adds it (4");
        check("debian:5.2.3", "hipblaslt", "`debian:5.2.3` does not contain it");
        check("debian:7.2.4", "rocfft", "--with rocfft` adds it (");
        check("debian:7.2.4", "rocalution", "`debian:7.2.4` does not contain it");
        check("/opt/rocm", "hiprand", "install hiprand in `/opt/rocm`");
        check("system", "rocblas", "install rocblas in `system`");
    }
}
