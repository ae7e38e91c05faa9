//! ROCm that a Python package brings in its own folders: which release it is, and what it needs of the HSA runtime.
//!
//! PyTorch's wheels have theirs in `torch/lib`, TheRock's in `_rocm_sdk_core/lib` and `_rocm_sdk_libraries_*/lib`, and wheels that
//! auditwheel repaired in `NAME.libs`.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use object::{
    Endianness, Object as _, ObjectSymbol as _, ReadCache,
    elf::FileHeader64,
    read::elf::{ElfFile64, FileHeader as _},
};

use super::stack;
use crate::Version;

/// The start of the name of a HIP runtime's file.
const HIP: &str = "libamdhip64";

/// The start of the name of an HSA runtime's file, and of its functions.
const HSA: (&str, &str) = ("libhsa-runtime64", "hsa_");

/// Returns the release of a HIP runtime: by the name of its file, by a file `.info/version` next to its folder, or by the newest
/// version of its functions (`hip_7.2`).
pub fn release_of(hip: &Path) -> Option<Version> {
    let folder = hip.parent()?;
    let by_files = stack::version(folder.parent().unwrap_or(folder), folder).0;
    by_files.or_else(|| {
        let versions = Elf::open(hip)?.versions();
        versions.iter().filter_map(|name| name.strip_prefix("hip_")?.parse::<Version>().ok()).max()
    })
}

/// Returns the functions of HSA that libraries of a virtual environment need and `offered` lacks, each with the library.
///
/// HIP runtimes count, and libraries that need both HIP and HSA: a tool in the same folder that is never loaded does not decide.
pub fn missing_functions(venv: &Path, offered: &BTreeSet<String>) -> Vec<(PathBuf, String)> {
    let mut missing = Vec::new();
    for file in libraries(venv) {
        let Some(elf) = Elf::open(&file) else { continue };
        let needs = elf.needed();
        let needs = |start: &str| needs.iter().any(|name| name.starts_with(start));
        if needs(HSA.0) && (is_hip(&file) || needs(HIP)) {
            let functions = elf.undefined(HSA.1).into_iter().filter(|name| !offered.contains(name));
            missing.extend(functions.map(|name| (file.clone(), name)));
        }
    }
    missing
}

/// Returns the functions of HSA that a library exports.
pub fn offered_functions(library: &Path) -> BTreeSet<String> {
    Elf::open(library).map(|elf| elf.defined(HSA.1)).unwrap_or_default()
}

fn is_hip(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(HIP))
}

/// Libraries in the folders of packages, where one of them is a HIP runtime.
fn libraries(venv: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let mut files = Vec::new();
    for python in below(&venv.join("lib")) {
        for package in below(&python.join("site-packages")) {
            let is_repaired = package.extension().is_some_and(|extension| extension == "libs");
            files.extend(below(&if is_repaired { package } else { package.join("lib") }));
        }
    }
    files.retain(|file| {
        file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"))
            && file.is_file()
    });
    if !files.iter().any(|file| is_hip(file)) {
        return Vec::new();
    }
    // One file may have several names.
    let mut seen = BTreeSet::new();
    files.sort();
    files.retain(|file| seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.clone())));
    files
}

/// A shared library, of which only the parts are read that are asked for.
struct Elf(ReadCache<File>);

impl Elf {
    fn open(path: &Path) -> Option<Elf> {
        Some(Elf(ReadCache::new(File::open(path).ok()?)))
    }

    fn parse(&self) -> Option<ElfFile64<'_, Endianness, &ReadCache<File>>> {
        ElfFile64::parse(&self.0).ok()
    }

    /// Names of the libraries that it needs.
    fn needed(&self) -> Vec<String> {
        let read = || {
            let header = FileHeader64::<Endianness>::parse(&self.0).ok()?;
            let endian = header.endian().ok()?;
            let sections = header.sections(endian, &self.0).ok()?;
            let (entries, link) = sections.dynamic(endian, &self.0).ok()??;
            let strings = sections.strings(endian, &self.0, link).ok()?;
            let needed = entries
                .iter()
                .filter(|entry| entry.d_tag.get(endian).0 == object::elf::DT_NEEDED.0);
            let names = needed.filter_map(|entry| {
                let name = strings.get(u32::try_from(entry.d_val.get(endian)).ok()?).ok()?;
                Some(String::from_utf8_lossy(name).into_owned())
            });
            Some(names.collect())
        };
        read().unwrap_or_default()
    }

    /// Versions that it defines.
    fn versions(&self) -> Vec<String> {
        let read = || {
            let header = FileHeader64::<Endianness>::parse(&self.0).ok()?;
            let endian = header.endian().ok()?;
            let sections = header.sections(endian, &self.0).ok()?;
            let (mut definitions, link) = sections.gnu_verdef(endian, &self.0).ok()??;
            let strings = sections.strings(endian, &self.0, link).ok()?;
            let mut names = Vec::new();
            while let Ok(Some((_, mut auxiliary))) = definitions.next() {
                if let Ok(Some(first)) = auxiliary.next()
                    && let Ok(name) = strings.get(first.vda_name.get(endian))
                {
                    names.push(String::from_utf8_lossy(name).into_owned());
                }
            }
            Some(names)
        };
        read().unwrap_or_default()
    }

    /// Functions that it needs and cannot do without, whose names begin so.
    fn undefined(&self, start: &str) -> BTreeSet<String> {
        self.symbols(start, |symbol| symbol.is_undefined() && !symbol.is_weak())
    }

    fn defined(&self, start: &str) -> BTreeSet<String> {
        self.symbols(start, |symbol| symbol.is_definition())
    }

    fn symbols<'a>(
        &'a self,
        start: &str,
        wanted: impl Fn(
            &object::read::elf::ElfSymbol64<'a, '_, Endianness, &'a ReadCache<File>>,
        ) -> bool,
    ) -> BTreeSet<String> {
        let Some(file) = self.parse() else { return BTreeSet::new() };
        let symbols = file.dynamic_symbols().filter(|symbol| wanted(symbol));
        let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
        names.filter(|name| name.starts_with(start)).collect()
    }
}
