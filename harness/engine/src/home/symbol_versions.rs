//! Makes copies of libraries whose symbols have no versions, for programs that need the same library with other
//! versions.

use object::{
    LittleEndian, elf,
    read::elf::{FileHeader, ProgramHeader},
};

/// Size of an entry of the dynamic table: a tag and a value of 64 bits each.
const ENTRY: usize = 16;

/// Tags of the entries that are removed: those with the name of the library and with its symbol versions. If the copy
/// kept the name, the dynamic loader would take it for the library itself.
const REMOVED: [u64; 6] = [
    elf::DT_SONAME.0 as u64,
    elf::DT_VERSYM.0 as u64,
    elf::DT_VERDEF.0 as u64,
    elf::DT_VERDEFNUM.0 as u64,
    elf::DT_VERNEED.0 as u64,
    elf::DT_VERNEEDNUM.0 as u64,
];

/// Returns a copy of a library in which the dynamic loader finds each symbol whatever version a program needs. Returns
/// `None` if the library defines no versions, because the loader then ignores versions anyway.
///
/// See check_match and match_symbol in elf/dl-lookup.c and elf/dl-version.c of the GNU C library.
///
/// # Errors
/// Returns an error if the bytes are not a 64-bit library for little-endian processors.
pub(super) fn without_symbol_versions(library: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let bad = |error| format!("not a 64-bit ELF file: {error}");
    let header = elf::FileHeader64::<LittleEndian>::parse(library).map_err(bad)?;
    let order = header.endian().map_err(bad)?;
    let segments = header.program_headers(order, library).map_err(bad)?;
    let dynamic = segments.iter().find(|it| it.p_type(order) == elf::PT_DYNAMIC);
    let (start, size) = dynamic.ok_or("no dynamic table")?.file_range(order);
    let range = start as usize..start.saturating_add(size) as usize;
    let mut copy = library.to_vec();
    let table = copy.get_mut(range).ok_or("the dynamic table is outside of the file")?;
    let tag = |entry: &[u8]| entry.iter().take(8).rfold(0, |all, byte| all << 8 | u64::from(*byte));
    if table.chunks(ENTRY).all(|entry| tag(entry) != elf::DT_VERDEF.0 as u64) {
        return Ok(None);
    }
    let kept: Vec<_> = table
        .chunks(ENTRY)
        .filter(|entry| !REMOVED.contains(&tag(entry)))
        .flatten()
        .copied()
        .collect();
    table.fill(0);
    table[..kept.len()].copy_from_slice(&kept);
    Ok(Some(copy))
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, path::Path};

    use super::*;
    use crate::home::stub_library::StubLibrary;

    /// Loads a library and returns its handle.
    fn load(path: &Path) -> *mut libc::c_void {
        // SAFETY: the library has no initialisers.
        unsafe { libloading::os::unix::Library::new(path) }.unwrap().into_raw()
    }

    #[test]
    fn copy_has_every_symbol_version_and_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let stub = StubLibrary {
            soname: "libversions-are-removed.so.4",
            version: Some("V_4.0"),
            needs: None,
            functions: &["start"],
            texts: &[],
        };
        let library = stub.library().unwrap();
        let copy = without_symbol_versions(&library).unwrap().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        std::fs::write(&one, copy).unwrap();
        std::fs::write(&other, library).unwrap();

        let has = |handle, version: &str| {
            let version = CString::new(version).unwrap();
            // SAFETY: both texts are zero-terminated, and the returned address is not called.
            unsafe { !libc::dlvsym(handle, c"start".as_ptr(), version.as_ptr()).is_null() }
        };
        // SAFETY: the text is zero-terminated, and RTLD_NOLOAD loads nothing.
        let is_loaded = || unsafe {
            let name = c"libversions-are-removed.so.4".as_ptr();
            !libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD).is_null()
        };
        let copy = load(&one);
        assert!(has(copy, "V_4.0") && has(copy, "V_5.0"));
        assert!(!is_loaded());
        let library = load(&other);
        assert!(has(library, "V_4.0") && !has(library, "V_5.0"));
        assert!(is_loaded());
    }

    #[test]
    fn library_without_versions_needs_no_copy() {
        let stub = StubLibrary {
            soname: "libplain.so.1",
            version: None,
            needs: None,
            functions: &["start"],
            texts: &[],
        };
        assert_eq!(without_symbol_versions(&stub.library().unwrap()), Ok(None));
        assert!(without_symbol_versions(b"text").is_err());
    }
}
