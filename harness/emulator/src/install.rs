//! Installs the device library with the file name and the symbol versions that the HIP runtime expects.
//!
//! `libamdhip64` requires its `hsa_*` symbols in version `ROCR_1`. Without the version, the loader prints a warning
//! whenever a program that is linked to HIP starts. A linker could add the version, but `rustc` already passes a script
//! with an anonymous version, and GNU ld rejects a second version with a name. Therefore this module adds the version
//! to the finished file. The exported variable `VERSION_SYMBOL` reserves space for it, so nothing in the file moves.
//! Loaders read segments, but linkers read sections. Therefore a section table that contains the version is appended to
//! the file for linkers.
//!
//! Formats: the System V ABI, "Dynamic Linking", and the Linux Standard Base, "Symbol Versioning".

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use object::{
    LittleEndian as LE, Object, ObjectSegment, ObjectSymbol, elf,
    read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _},
};

/// File name under which the HIP runtime loads the HSA runtime.
pub const FILE_NAME: &str = "libhsa-runtime64.so.1";

/// Symbol version of the HSA interface, and name of the exported variable that reserves space for it. Because the
/// variable is exported, the string table also contains the name of the version.
const VERSION_SYMBOL: &str = "ROCR_1";

/// Maximum number of entries of the dynamic table, including the two entries that are added.
const DYNAMIC_ENTRIES: usize = 64;
/// Size in bytes of the two version definitions that are added to the ELF file. Each definition has one name.
const DEFINITIONS: usize = 2 * (20 + 8);
const SPACE: usize = DYNAMIC_ENTRIES * 2 + DEFINITIONS.div_ceil(8);

/// Space that is reserved for the dynamic table and the version definitions. It is in writable memory because loaders
/// write to the dynamic table. The values are not zero, because zeros would not occupy bytes in the file.
#[unsafe(export_name = "ROCR_1")]
static VERSION_SPACE: [AtomicU64; SPACE] = [const { AtomicU64::new(u64::MAX) }; SPACE];

/// Reason why the library could not be installed.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstallError {
    /// Writing a file failed.
    Io(PathBuf, io::Error),
    /// The bytes are not the device library as cargo builds it.
    NotTheDevice(String),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::Io(path, _) => write!(f, "{}", path.display()),
            InstallError::NotTheDevice(why) => {
                write!(f, "the library is not the emulated device as cargo builds it: {why}")
            }
        }
    }
}

impl std::error::Error for InstallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InstallError::Io(_, error) => Some(error),
            InstallError::NotTheDevice(..) => None,
        }
    }
}

/// Writes the device library into `folder` as [`FILE_NAME`], with symbol versions added, and returns its path.
/// Processes that have already loaded an older copy from that folder are not affected.
///
/// # Errors
/// Returns [`InstallError`] if a file cannot be written or `library` is not the device library.
pub fn install(library: &[u8], folder: &Path) -> Result<PathBuf, InstallError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| InstallError::Io(path, error)
    };
    let library = with_versions(library.to_vec()).map_err(InstallError::NotTheDevice)?;
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let target = folder.join(FILE_NAME);
    // Several processes, and several threads of a process, may install the library at the same time. Therefore each of
    // them uses a temporary file with a name of its own.
    static INSTALLED: AtomicU32 = AtomicU32::new(0);
    let number = INSTALLED.fetch_add(1, Ordering::Relaxed);
    let partial = folder.join(format!(".{FILE_NAME}.{}.{number}", std::process::id()));
    let written = fs::write(&partial, library).map_err(failed(&partial));
    let placed = written.and_then(|()| fs::rename(&partial, &target).map_err(failed(&target)));
    if placed.is_err() {
        // The temporary file may be incomplete. If it cannot be removed, only the reason why it could not be renamed is
        // reported.
        let _ = fs::remove_file(&partial);
    }
    placed.map(|()| target)
}

/// Size of a section header in a 64-bit ELF file, in bytes.
const HEADER: usize = 64;

/// Section table of the library, which linkers read.
struct Sections {
    headers: Vec<[u8; HEADER]>,
    names: Vec<u8>,
    /// Index of the section with the dynamic table.
    dynamic: usize,
    /// Index of the section that contains the section names.
    named: usize,
}

impl Sections {
    const ADDED: &[u8] = b".gnu.version_d\0";

    fn read(library: &[u8]) -> Result<Sections, String> {
        let read = |error: object::Error| error.to_string();
        let header = elf::FileHeader64::<LE>::parse(library).map_err(read)?;
        let table = header.section_headers(LE, library).map_err(read)?;
        let named = header.shstrndx(LE, library).map_err(read)? as usize;
        let names = table.get(named).ok_or("it has no section names")?;
        let names = names.data(LE, library).map_err(read)?.to_vec();
        let is_dynamic =
            |section: &elf::SectionHeader64<LE>| section.sh_type(LE) == elf::SHT_DYNAMIC;
        Ok(Sections {
            headers: table.iter().map(|it| object::bytes_of(it).try_into().unwrap()).collect(),
            names,
            dynamic: table.iter().position(is_dynamic).ok_or("it has no dynamic table")?,
            named,
        })
    }
}

/// Positions in the library file that the installation patches.
struct Layout {
    /// File offset of the program header for the dynamic table.
    dynamic_header: usize,
    /// Entries of the dynamic table, as pairs of tag and value, without the terminating entry.
    dynamic: Vec<[u64; 2]>,
    /// File offset and address of the reserved space.
    space: (usize, u64),
    /// File offsets of the fields for the symbol versions of the exported symbols.
    symbols: Vec<usize>,
    /// First unused index of an ELF symbol version.
    version: u16,
    /// Name of the library and name of the symbol version. Each consists of its offset in the string table and its
    /// text.
    names: [(u32, &'static str); 2],
    sections: Sections,
}

fn with_versions(mut library: Vec<u8>) -> Result<Vec<u8>, String> {
    let layout = examine(&library)?;
    let mut put = |at: usize, bytes: &[u8]| {
        library[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let (offset, address) = layout.space;
    let definitions = DYNAMIC_ENTRIES * 16;
    let mut dynamic = layout.dynamic;
    dynamic.push([elf::DT_VERDEF.0 as u64, address + definitions as u64]);
    dynamic.push([elf::DT_VERDEFNUM.0 as u64, 2]);
    dynamic.push([0, 0]);
    for (index, word) in dynamic.iter().flatten().enumerate() {
        put(offset + index * 8, &word.to_le_bytes());
    }
    let len = dynamic.len() as u64 * 16;
    // These fields of a program header are offset, virtual and physical address, size in the file and in memory.
    for (index, word) in [offset as u64, address, address, len, len].into_iter().enumerate() {
        put(layout.dynamic_header + 8 + index * 8, &word.to_le_bytes());
    }
    for (index, (name, text)) in layout.names.into_iter().enumerate() {
        let at = offset + definitions + index * 28;
        let last = index == 1;
        // The fields are format, flags (set for the first definition, which names the file), index of the version, and
        // number of names.
        let number = if last { layout.version } else { 1 };
        for (field, half) in [1, u16::from(!last), number, 1].into_iter().enumerate() {
            put(at + field * 2, &half.to_le_bytes());
        }
        // The fields are hash, offset of the name, and offset of the next definition. The name follows.
        let next = if last { 0 } else { 28 };
        let words = [elf::hash(text.as_bytes()), 20, next, name, 0];
        for (field, word) in words.into_iter().enumerate() {
            put(at + 8 + field * 4, &word.to_le_bytes());
        }
    }
    for symbol in layout.symbols {
        put(symbol, &layout.version.to_le_bytes());
    }
    let dynamic = Piece { offset: offset as u64, address, size: len };
    let definitions = definitions as u64;
    let definitions =
        Piece { offset: offset as u64 + definitions, address: address + definitions, size: 56 };
    with_sections(library, layout.sections, dynamic, definitions)
}

/// File offset, address and size of a table.
struct Piece {
    offset: u64,
    address: u64,
    size: u64,
}

impl Piece {
    fn put(&self, header: &mut [u8]) {
        for (at, word) in [(16, self.address), (24, self.offset), (32, self.size)] {
            header[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Appends a section table to the file. The new table states that the dynamic table is now at `dynamic`, and contains
/// an additional section for the version definitions at `definitions`.
fn with_sections(
    mut library: Vec<u8>,
    sections: Sections,
    dynamic: Piece,
    definitions: Piece,
) -> Result<Vec<u8>, String> {
    let Sections { mut headers, mut names, dynamic: place, named } = sections;
    dynamic.put(headers.get_mut(place).ok_or("its dynamic table has no section")?);
    let mut added = [0; HEADER];
    for (at, half) in [(0, names.len() as u32), (4, elf::SHT_GNU_VERDEF.0), (44, 2)] {
        added[at..at + 4].copy_from_slice(&half.to_le_bytes());
    }
    // The section is loaded into memory and consists of words. The names of its entries are in the string table of the
    // dynamic table.
    (added[8], added[48]) = (elf::SHF_ALLOC.0 as u8, 8);
    added[40..44].copy_from_slice(&headers[place][40..44]);
    definitions.put(&mut added);
    names.extend_from_slice(Sections::ADDED);
    let header = headers.get_mut(named).ok_or("its section names have no section")?;
    Piece { offset: library.len() as u64, address: 0, size: names.len() as u64 }.put(header);
    headers.push(added);
    library.extend(names);
    library.resize(library.len().next_multiple_of(8), 0);
    let table = library.len() as u64;
    library[40..48].copy_from_slice(&table.to_le_bytes());
    library[60..62].copy_from_slice(&(headers.len() as u16).to_le_bytes());
    library.extend(headers.iter().flatten());
    Ok(library)
}

fn examine(library: &[u8]) -> Result<Layout, String> {
    let file = ElfFile64::<LE>::parse(library).map_err(|error| error.to_string())?;
    let header = file.elf_header();
    let segments = header.program_headers(LE, library).map_err(|error| error.to_string())?;
    let index = segments
        .iter()
        .position(|segment| segment.p_type(LE) == elf::PT_DYNAMIC)
        .ok_or("it has no dynamic table")?;
    let entries = segments[index].dynamic(LE, library).map_err(|error| error.to_string())?;
    let dynamic: Vec<_> = entries
        .unwrap_or_default()
        .iter()
        .map(|entry| [entry.d_tag.get(LE).0 as u64, entry.d_val.get(LE)])
        .take_while(|[tag, _]| *tag != 0)
        .collect();
    let value = |tag: elf::DynamicTag| {
        dynamic.iter().find(|[known, _]| *known == tag.0 as u64).map(|[_, value]| *value)
    };
    if value(elf::DT_VERDEF).is_some() {
        return Err("it already defines versions".into());
    }
    if dynamic.len() + 3 > DYNAMIC_ENTRIES {
        return Err("its dynamic table is too long".into());
    }
    let offset_of = |address: u64, len: usize| {
        file.segments().find_map(|segment| {
            let inside = address.checked_sub(segment.address())?;
            let (start, size) = segment.file_range();
            (inside + len as u64 <= size).then_some((start + inside) as usize)
        })
    };
    let symbol = |name: &str| file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
    let space = symbol(VERSION_SYMBOL).ok_or("it has no reserved space for versions")?;
    let space_offset =
        offset_of(space.address(), SPACE * 8).ok_or("its reserved space is not in the file")?;
    let strings = value(elf::DT_STRTAB).and_then(|at| offset_of(at, 1)).ok_or("no string table")?;
    let string_bytes = value(elf::DT_STRSZ).unwrap_or(0) as usize;
    let strings = library.get(strings..strings + string_bytes).ok_or("no string table")?;
    let name_of = |text: &'static str| {
        // Linkers may store a string as the end of a longer string, so any offset in the table can be the start of a
        // match.
        let wanted = [text.as_bytes(), b"\0"].concat();
        let at = strings.windows(wanted.len()).position(|bytes| bytes == wanted);
        at.map(|at| (at as u32, text)).ok_or(format!("the name {text} is missing"))
    };
    let numbers = value(elf::DT_VERSYM).ok_or("its symbols have no version numbers")?;
    let mut symbols = Vec::new();
    let mut version = 2;
    for symbol in file.dynamic_symbols() {
        let at = offset_of(numbers + 2 * symbol.index().0 as u64, 2).ok_or("cut off")?;
        let number = u16::from_le_bytes([library[at], library[at + 1]]) & 0x7fff;
        version = version.max(number + 1);
        if symbol.is_definition() && symbol.name().is_ok_and(|name| name.starts_with("hsa_")) {
            symbols.push(at);
        }
    }
    Ok(Layout {
        sections: Sections::read(library)?,
        dynamic_header: header.e_phoff.get(LE) as usize + index * 56,
        space: (space_offset, space.address()),
        names: [name_of(FILE_NAME)?, name_of(VERSION_SYMBOL)?],
        dynamic,
        symbols,
        version,
    })
}
