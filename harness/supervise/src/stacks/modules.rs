//! Finds the chain of calls of a thread in another process, and the names of the functions, from the files that the
//! process has mapped.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use object::elf::{PF_X, SHN_UNDEF, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::read::ReadCache;
use object::read::elf::{ElfFile64, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSection, ObjectSegment, SegmentFlags};

use super::copies::Registers;

/// Mapped files of a process, with the data that is needed to find and name calls.
pub(super) struct Modules {
    unwinder: UnwinderX86_64<Vec<u8>>,
    files: Vec<Mapped>,
}

/// Code of a file that is mapped into a process.
struct Mapped {
    at: Range<u64>,
    /// Name of the file, without its folder.
    name: String,
    /// Difference between an address in memory and the address in the file.
    bias: u64,
    /// The file is opened only when it is read, because a process can map more files than this process may have open.
    path: PathBuf,
    /// Symbols of the file, which are read on first use: a large library has hundreds of thousands, and few libraries
    /// are needed.
    symbols: OnceCell<Vec<Symbol>>,
}

/// A function in a file, with its address range. Its name is read only when it is needed.
struct Symbol {
    at: Range<u64>,
    /// Offset in the file at which the function's name begins.
    name: u64,
}

/// Maximum length of a mangled name, in bytes. Functions with longer names are shown without a name.
const LONGEST_MANGLED: usize = 1 << 12;

/// Maximum length of a name as it is shown, in bytes. Longer names, such as those of C++ templates, are cut.
const LONGEST: usize = 1 << 10;

/// An executable range of a mapped file, as `/proc/PID/maps` lists it.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    at: Range<u64>,
    offset: u64,
    path: String,
}

impl Modules {
    /// Reads the unwind tables of the files in `maps`, the content of `/proc/PID/maps`.
    pub(super) fn of(pid: i32, maps: &[u8]) -> Modules {
        let (mut unwinder, mut files) = (UnwinderX86_64::new(), Vec::new());
        let lines = maps.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
        for part in lines.filter_map(part) {
            // The path is resolved as in the process, which may have its own view of the file system.
            let path = PathBuf::from(format!("/proc/{pid}/root{}", part.path));
            if let Some((module, mapped)) = read(&part, path) {
                unwinder.add_module(module);
                files.push(mapped);
            }
        }
        Modules { unwinder, files }
    }

    /// Returns the addresses of up to `most` calls of a thread, the innermost first. `stack` is the content of its
    /// stack from the stack pointer on.
    pub(super) fn calls(&self, at: &Registers, stack: &[u8], most: usize) -> Vec<u64> {
        let mut cache = CacheX86_64::<_>::new();
        let registers = UnwindRegsX86_64::new(at.instruction, at.stack, at.frame);
        let mut word = |address: u64| {
            let offset = address.checked_sub(at.stack).and_then(|offset| offset.try_into().ok());
            let bytes = offset.and_then(|offset: usize| stack.get(offset..)?.first_chunk());
            bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or(())
        };
        let mut frames =
            self.unwinder.iter_frames(at.instruction, registers, &mut cache, &mut word);
        let mut calls = Vec::new();
        while calls.len() < most
            && let Ok(Some(frame)) = frames.next()
        {
            // A return address may be after the last instruction of its function, but this address is always inside the
            // function.
            calls.push(frame.address_for_lookup());
        }
        calls
    }

    /// Returns the name of the function at an address, and the name of its file, as far as they are known.
    pub(super) fn named(&self, address: u64) -> String {
        let file = self.files.iter().find(|file| file.at.contains(&address));
        let Some(file) = file else {
            return format!("{address:#x}");
        };
        let inside = address.wrapping_sub(file.bias);
        let symbols = file.symbols.get_or_init(|| symbols(&file.path));
        let before = symbols.partition_point(|symbol| symbol.at.start <= inside);
        let symbol = symbols[..before].iter().rev().find(|symbol| symbol.at.contains(&inside));
        match symbol.and_then(|symbol| name(&file.path, symbol.name)) {
            Some(name) => format!("{} ({})", plain(&name), file.name),
            None => format!("{}+{inside:#x}", file.name),
        }
    }
}

/// Text that does not grow beyond [`LONGEST`], because a short mangled name can expand to an endless one.
struct BoundedText(String);

impl fmt::Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// Demangles the name of a C++ or Rust function.
fn plain(name: &str) -> String {
    let mut plain = BoundedText(String::new());
    // Rust is tried first, because its older mangled names look like C++ names.
    let rust = rustc_demangle::try_demangle(name).ok();
    let written = match rust.map(|symbol| write!(plain, "{symbol:#}")) {
        Some(written) => Some(written),
        None => {
            let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
            let cpp = cpp_demangle::Symbol::new(name).ok();
            cpp.map(|symbol| symbol.structured_demangle(&mut plain, &options))
        }
    };
    match written {
        Some(Ok(())) => plain.0,
        Some(Err(_)) if !plain.0.is_empty() => plain.0 + "...",
        _ => name.chars().take(LONGEST).collect(),
    }
}

/// Parses a line of `/proc/PID/maps`; `None` unless it describes code in a file.
fn part(line: &str) -> Option<Part> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    if !fields.next()?.contains('x') {
        return None;
    }
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = number(fields.next()?)?;
    let path = fields.nth(2)?.trim_start();
    let at = number(start)?..number(end)?;
    path.starts_with('/').then(|| Part { at, offset, path: path.to_owned() })
}

/// Opens a regular file. The process may have replaced it by something else, such as a FIFO.
fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
}

/// Reads the unwind tables of a mapped range.
fn read(part: &Part, path: PathBuf) -> Option<(Module<Vec<u8>>, Mapped)> {
    let (bias, sections) = unwind_tables(part, &open(&path)?)?;
    let name = part.path.rsplit('/').next().unwrap_or_default().to_owned();
    let module = Module::new(name.clone(), part.at.clone(), bias, sections);
    Some((module, Mapped { at: part.at.clone(), name, bias, path, symbols: OnceCell::new() }))
}

/// Returns the difference between addresses in memory and in the file, and the sections with unwind tables.
fn unwind_tables(part: &Part, file: &File) -> Option<(u64, ExplicitModuleSectionInfo<Vec<u8>>)> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    // This finds the segment whose bytes are mapped there. Segments begin anywhere in a page, so two may share a page.
    let segment = elf.segments().find(|segment| {
        let (offset, size) = segment.file_range();
        let page = offset & !0xfff;
        let executed =
            matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0);
        executed && (page..offset.saturating_add(size)).contains(&part.offset)
    })?;
    let bias = part
        .at
        .start
        .wrapping_sub(part.offset)
        .wrapping_add(segment.file_range().0)
        .wrapping_sub(segment.address());
    let section = |name: &str| elf.section_by_name(name);
    let range =
        |name: &str| section(name).map(|s| s.address()..s.address().saturating_add(s.size()));
    let data = |name: &str| section(name)?.data().ok().map(<[u8]>::to_vec);
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    };
    Some((bias, sections))
}

/// Returns the functions of a file, in the order of their addresses.
fn symbols(path: &Path) -> Vec<Symbol> {
    let Some(file) = open(path) else { return Vec::new() };
    let cache = ReadCache::new(&file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else { return Vec::new() };
    let endian = elf.endian();
    let mut symbols = BTreeMap::new();
    for table in [elf.elf_dynamic_symbol_table(), elf.elf_symbol_table()] {
        let Ok(names) = elf.elf_section_table().section(table.string_section()) else { continue };
        let is_function = |one: &&object::elf::Sym64<Endianness>| {
            one.st_shndx(endian) != SHN_UNDEF
                && matches!(one.st_type(), STT_FUNC | STT_GNU_IFUNC | STT_NOTYPE)
        };
        for symbol in table.iter().filter(is_function) {
            let start = symbol.st_value(endian);
            let end = start.saturating_add(symbol.st_size(endian));
            let name = names.sh_offset(endian).saturating_add(symbol.st_name(endian).into());
            if start < end && symbol.st_name(endian) != 0 {
                symbols.entry((start, end)).or_insert(name);
            }
        }
    }
    symbols.into_iter().map(|((start, end), name)| Symbol { at: start..end, name }).collect()
}

/// Reads the name that begins at an offset in a file.
fn name(path: &Path, at: u64) -> Option<String> {
    let mut bytes = vec![0; LONGEST_MANGLED];
    let read = open(path)?.read_at(&mut bytes, at).ok()?;
    let end = bytes[..read].iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demangles_cpp_and_rust_names() {
        assert_eq!(plain("hipMemcpy"), "hipMemcpy");
        assert_eq!(plain("_ZN6worker6memory4copy17h09c7ed967b3cbde5E"), "worker::memory::copy");
        assert_eq!(plain("_ZN3hip6Stream4WaitEPS0_i"), "hip::Stream::Wait");
        assert_eq!(plain("_Zx"), "_Zx");
    }

    #[test]
    fn cuts_names_whose_plain_form_has_no_end() {
        let digit = |n: u32| char::from_digit(n % 36, 36).unwrap().to_ascii_uppercase();
        let number = |n: u32| [(n >= 36).then(|| digit(n / 36)), Some(digit(n))];
        let mut name = "_Z1fI1aIiiE".to_owned();
        // Each type contains the previous one twice: `b<a<int, int>, a<int, int>>`.
        for level in 0..40 {
            let before: String = number(2 * level + 1).into_iter().flatten().collect();
            name += &format!("1bIS{before}_S{before}_E");
        }
        let short = format!("{}EvT_", &name[..name.find("1bIS3_").unwrap()]);
        assert!(
            plain(&short).starts_with("f<a<int, int>, b<a<int, int>, a<int, int>"),
            "{}",
            plain(&short)
        );
        let name = name + "EvT_";
        assert!(cpp_demangle::Symbol::new(&name).is_ok());
        let cut = plain(&name);
        assert!(cut.starts_with("f<a<int, int>, b<") && cut.ends_with("..."), "{cut}");
        assert!(cut.len() <= LONGEST + 3);
        // Each tuple contains the previous tuple twice: `B` refers back to an earlier offset in the name.
        let mut rust = "_RINvC1a1bTmm".to_owned();
        let mut before = rust.len() - 3;
        for _ in 0..40 {
            let digits = base_62(before - 3);
            rust += "E";
            before = rust.len();
            rust += &format!("T{digits}{digits}");
        }
        let cut = plain(&(rust + "EE"));
        assert!(cut.starts_with("a::b::<(u32, u32), (") && cut.ends_with("..."), "{cut}");
        assert!(cut.len() <= LONGEST + 3);
    }

    /// Formats a reference to an earlier offset in a mangled name of Rust; see Rust's v0 mangling scheme.
    fn base_62(position: usize) -> String {
        let digits = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let (mut text, mut rest) = (String::new(), position.checked_sub(1));
        while let Some(n) = rest {
            text.insert(0, char::from(digits[n % 62]));
            rest = Some(n / 62).filter(|n| *n > 0);
        }
        format!("B{text}_")
    }

    #[test]
    fn parses_lines_of_maps() {
        let code = "7f22a0a00000-7f22a0b00000 r-xp 00028000 fe:00 123        /opt/a b/libx.so.1";
        let expected = Part {
            at: 0x7f22_a0a0_0000..0x7f22_a0b0_0000,
            offset: 0x28000,
            path: "/opt/a b/libx.so.1".to_owned(),
        };
        assert_eq!(part(code), Some(expected));
        assert_eq!(part(&code.replace("r-xp", "r--p")), None);
        assert_eq!(part("7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0   [vdso]"), None);
        assert_eq!(part("7f22a0a00000-7f22a0b00000 rwxp 00000000 00:00 0 "), None);
        assert_eq!(part(""), None);
    }
}
