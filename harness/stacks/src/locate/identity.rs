//! Reads which libraries a stack contains, with their build ids. This identity proves that a result was obtained with
//! this stack.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Object, ReadCache};
use serde::{Deserialize, Serialize};

use crate::transfer::hex;
use crate::{Stack, Version};

/// Names of the libraries whose version can change the result of a trial.
const NAMES: &[&str] = &[
    "libamdhip64",
    "libhiprtc",
    "libamd_comgr",
    "libhsa-runtime64",
    "libhipblaslt",
    "libhiprand",
    "librocblas",
    "librocrand",
];

/// Release and libraries of a stack, as read from its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackIdentity {
    /// ROCm release; `None` if it is unknown.
    pub rocm: Option<Version>,
    /// Libraries of the stack, the HIP runtime first.
    pub libraries: Vec<StackLibrary>,
}

/// One shared library of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackLibrary {
    /// Name without extension, for example `libamdhip64`.
    pub name: String,
    /// Path of the library, with symbolic links resolved.
    pub path: PathBuf,
    /// GNU build id in hexadecimal; `None` if the file has none.
    pub build_id: Option<String>,
}

impl StackIdentity {
    /// Returns the library with this name; `None` if the stack does not contain it.
    pub fn library(&self, name: &str) -> Option<&StackLibrary> {
        self.libraries.iter().find(|library| library.name == name)
    }
}

impl Stack {
    /// Reads the release and the libraries from the files of the stack. Libraries that the stack does not contain are
    /// left out. The library of an emulated device is not included.
    pub fn identify(&self) -> StackIdentity {
        let library = |name: &&str| {
            let path = self.library(&format!("{name}.so"))?;
            let path = fs::canonicalize(&path).unwrap_or(path);
            Some(StackLibrary { name: (*name).to_owned(), build_id: build_id(&path), path })
        };
        StackIdentity {
            rocm: self.rocm.clone(),
            libraries: NAMES.iter().filter_map(library).collect(),
        }
    }
}

/// Returns the GNU build id of an ELF file; `None` if the file has none or cannot be read. Only a few parts of the file
/// are read, because librocblas has a size of 1 GB.
pub fn build_id(path: &Path) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(hex(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_build_id_from_the_note_of_the_file() {
        // The smallest file that has a build id: a little-endian ELF64 file with one PT_NOTE segment.
        let mut elf = vec![0; 64 + 56];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let mut put = |at: usize, bytes: &[u8]| elf[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &3u16.to_le_bytes()); // ET_DYN
        put(18, &62u16.to_le_bytes()); // EM_X86_64
        put(20, &1u32.to_le_bytes());
        put(32, &64u64.to_le_bytes()); // e_phoff
        put(52, &64u16.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &1u16.to_le_bytes()); // e_phnum
        put(64, &4u32.to_le_bytes()); // PT_NOTE
        put(72, &120u64.to_le_bytes()); // p_offset
        put(96, &20u64.to_le_bytes()); // p_filesz
        put(112, &4u64.to_le_bytes()); // p_align
        elf.extend([4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0]); // Sizes, NT_GNU_BUILD_ID.
        elf.extend(b"GNU\0\xde\xad\xbe\xef");

        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("lib")).unwrap();
        fs::write(root.path().join("lib/libamdhip64.so.7"), &elf).unwrap();
        fs::write(root.path().join("lib/libhiprtc.so.7"), &elf[..90]).unwrap();
        let spec = crate::Spec::Directory(root.path().to_owned());
        let stack = crate::locate(&spec, &crate::StackCache::at("/nonexistent".into())).unwrap();
        let identity = stack.identify();
        let id = |name| identity.library(name).map(|library| library.build_id.as_deref());
        assert_eq!(id("libamdhip64"), Some(Some("deadbeef")));
        assert_eq!(id("libhiprtc"), Some(None), "a damaged file has no build id");
        assert_eq!(id("librocblas"), None);
    }
}
