use std::{
    ffi::{CStr, OsStr, c_int, c_void},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    slice,
};

use plan::LoadedLibrary;

/// Name prefixes of the libraries that determine how a HIP program behaves: the libraries of ROCm, the compiler that
/// comgr uses if it is a separate library, and the emulated device below the HSA runtime.
const PREFIXES: [&str; 7] =
    ["libamd", "libdtif", "libhip", "libhsa", "libroc", "libLLVM", "libclang"];

/// Type of the ELF note with a GNU build id (elf.h).
const NT_GNU_BUILD_ID: u32 = 3;

/// Returns the ROCm libraries in this process, in the order in which the dynamic loader lists them.
///
/// The list comes from the dynamic loader, because /proc may be missing in a chroot.
pub(crate) fn rocm_libraries() -> Vec<LoadedLibrary> {
    let library = |found: Found| LoadedLibrary {
        name: found.name,
        path: fs::canonicalize(&found.file).unwrap_or(found.file).to_string_lossy().into_owned(),
        build_id: found.build_id,
    };
    found().into_iter().map(library).collect()
}

/// Returns the path of the first library whose name starts with `name`, as the dynamic loader opened it; `None` if no
/// such library is loaded.
pub(crate) fn file_of(name: &str) -> Option<PathBuf> {
    found().into_iter().find(|found| found.name.starts_with(name)).map(|found| found.file)
}

/// Returns the device files of GPU drivers that are mapped into this process. If none is mapped, no work can reach a
/// GPU.
pub(crate) fn driver_nodes() -> Vec<String> {
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let mut nodes: Vec<String> = maps
        .lines()
        .filter_map(|line| line.find("/dev/").map(|at| line[at..].to_owned()))
        .filter(|node| DRIVERS.iter().any(|driver| node.starts_with(driver)))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Prefixes of the device files of the drivers amdkfd and amdgpu, and of the paravirtual GPU in WSL.
const DRIVERS: [&str; 3] = ["/dev/kfd", "/dev/dri/", "/dev/dxg"];

struct Found {
    name: String,
    file: PathBuf,
    build_id: Option<String>,
}

fn found() -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    // SAFETY: the callback has the declared type and gets this vector, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// Adds the library or program that `info` describes to `found`, if its name has one of the [`PREFIXES`].
///
/// # Safety
/// Must be called by dl_iterate_phdr with the vector of [`found`].
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and the last argument is the vector.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Found>>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are zero-terminated strings.
    let file = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()));
    let Some(name) = file.file_name().map(|n| n.to_string_lossy().into_owned()) else {
        return 0;
    };
    if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return 0;
    }
    // SAFETY: dl_iterate_phdr passes this description.
    let build_id = unsafe { build_id_of(info) };
    found.push(Found { name, file: file.to_owned(), build_id });
    0
}

/// Returns the GNU build id of this program; `None` if it has no build id. `/proc/self/exe` is not used, because it is
/// the dynamic loader if the program was started through the loader.
pub(crate) fn own_build_id() -> Option<String> {
    let mut own: Option<String> = None;
    // SAFETY: the callback has the declared type and gets this variable, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit_own), (&raw mut own).cast()) };
    own
}

/// Stores the build id of the library or program that `info` describes in `own`, if it contains this function.
///
/// # Safety
/// Must be called by dl_iterate_phdr with the variable of [`own_build_id`].
unsafe extern "C" fn visit_own(info: *mut libc::dl_phdr_info, _: usize, own: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and the last argument is the variable.
    let (info, own) = unsafe { (&*info, &mut *own.cast::<Option<String>>()) };
    // SAFETY: the loader's description says how many program headers there are.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let here = visit_own as *const () as u64;
    let holds = |header: &libc::Elf64_Phdr| {
        let begin = info.dlpi_addr + header.p_vaddr;
        header.p_type == libc::PT_LOAD && (begin..begin + header.p_memsz).contains(&here)
    };
    if !headers.iter().any(holds) {
        return 0;
    }
    // SAFETY: dl_iterate_phdr passes this description.
    *own = unsafe { build_id_of(info) };
    1
}

/// Returns the GNU build id of a loaded library or program; `None` if it has no build id.
///
/// # Safety
/// `info` must be a description that dl_iterate_phdr passes.
unsafe fn build_id_of(info: &libc::dl_phdr_info) -> Option<String> {
    // SAFETY: the loader's description says how many program headers there are.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    headers.iter().filter(|h| h.p_type == libc::PT_NOTE).find_map(|header| {
        let address = (info.dlpi_addr + header.p_vaddr) as *const u8;
        // SAFETY: a note segment is inside the first loaded segment of its file, which is readable.
        let notes = unsafe { slice::from_raw_parts(address, header.p_memsz as usize) };
        build_id(notes, header.p_align as usize)
    })
}

/// Finds the GNU build id among ELF notes and formats it in hexadecimal; `None` if the notes contain none. `align` is
/// the alignment of the segment in bytes. Names and descriptors of notes are padded to this alignment.
fn build_id(mut notes: &[u8], align: usize) -> Option<String> {
    let align = if align == 8 { 8 } else { 4 };
    let word = |bytes: &[u8], at: usize| {
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
    };
    while !notes.is_empty() {
        let (name_bytes, bytes, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let name = notes.get(12..)?.get(..name_bytes)?;
        let start = (12 + name_bytes).next_multiple_of(align);
        let descriptor = notes.get(start..)?.get(..bytes)?;
        if kind == NT_GNU_BUILD_ID as usize && name == b"GNU\0" {
            return Some(descriptor.iter().map(|b| format!("{b:02x}")).collect());
        }
        notes = notes.get((start + bytes).next_multiple_of(align)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], descriptor: &[u8], align: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for n in [name.len() as u32, descriptor.len() as u32, kind] {
            out.extend(n.to_le_bytes());
        }
        for part in [name, descriptor] {
            out.extend(part);
            out.resize(out.len().next_multiple_of(align), 0);
        }
        out
    }

    #[track_caller]
    fn check(notes: &[u8], align: usize, expected: Option<&str>) {
        assert_eq!(build_id(notes, align).as_deref(), expected);
    }

    #[test]
    fn build_id_is_found_among_other_notes() {
        let id = note(3, b"GNU\0", &[0xDE, 0xAD, 0x01], 4);
        let abi = note(1, b"GNU\0", &[0; 16], 4);
        let other = note(3, b"Go\0\0", &[9; 4], 4);
        check(&id, 4, Some("dead01"));
        check(&[abi.clone(), other, id.clone()].concat(), 4, Some("dead01"));
        check(&abi, 4, None);
        check(&[], 4, None);
        check(&id[..13], 4, None);
        check(&[0xFF; 16], 4, None);
        check(&note(3, b"GNU\0", &[1; 20], 8), 8, Some(&"01".repeat(20)));
    }
}
