//! Unwinds the call stack of a thread in another process, and finds the names of the functions on it, with the files
//! that the process has mapped.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use object::elf::{PF_X, SHN_UNDEF, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::read::ReadCache;
use object::read::elf::{ElfFile64, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSection, ObjectSegment, SegmentFlags};

use super::copies::{Call, Registers};

/// Mapped files of a process, with the data that is needed to unwind its call stacks and to name the functions.
pub(super) struct Modules {
    unwinder: UnwinderX86_64<Vec<u8>>,
    files: Vec<Mapped>,
}

/// Code of a file that is mapped into a process.
struct Mapped {
    at: Range<u64>,
    /// Offset in the file of the first mapped byte.
    offset: u64,
    /// Name of the file, without its folder.
    name: String,
    /// Difference between an address in memory and the address in the file.
    bias: u64,
    /// Path of the file. The file is opened only when it is read, because a process can map more files than this
    /// process may have open.
    path: PathBuf,
    /// Symbols of the file, which are read on first use: a large library has hundreds of thousands, and few libraries
    /// are needed.
    symbols: OnceCell<Vec<Symbol>>,
    /// GNU build id of the file, which is read on first use.
    build_id: OnceCell<Option<String>>,
}

/// A function in a file, with its address range. Its name is read only when it is needed.
struct Symbol {
    at: Range<u64>,
    /// Offset in the file at which the function's name begins.
    name: u64,
}

/// Instructions to which a signal handler returns: `mov $15, %rax` and `syscall`, which calls `rt_sigreturn`. Debuggers
/// recognise a signal handler in the same way.
const RETURN_FROM_SIGNAL: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Maximum length of a mangled name, in bytes. Functions with longer names are shown without a name.
const MAX_MANGLED_BYTES: usize = 1 << 12;

/// Maximum length of a name as it is shown, in bytes. Longer names, such as those of C++ templates, are cut.
const MAX_NAME_BYTES: usize = 1 << 10;

/// An executable range of a mapped file, as `/proc/PID/maps` lists it.
#[derive(Debug, PartialEq, Eq)]
struct MappedRange {
    at: Range<u64>,
    offset: u64,
    path: String,
}

impl Modules {
    /// Reads the unwind tables of the files in `maps`, the content of `/proc/PID/maps`.
    pub(super) fn from_maps(pid: i32, maps: &[u8]) -> Modules {
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

    /// Returns the addresses of up to `most` calls on a thread's call stack, the innermost first, and true if the last
    /// one is the first function of the thread. `word` returns the eight bytes at an address of the thread's memory.
    pub(super) fn calls(
        &self,
        at: &Registers,
        word: &dyn Fn(u64) -> Option<u64>,
        most: usize,
    ) -> (Vec<u64>, bool) {
        let mut cache = CacheX86_64::<_>::new();
        let mut calls = Vec::new();
        let (mut instruction, mut pointer) = (at.instruction, at.stack);
        if !self.files.iter().any(|file| file.at.contains(&instruction))
            && let Some(caller) = word(pointer)
        {
            // The thread called an address without a function. The stack contains only the return address.
            calls.push(instruction);
            (instruction, pointer) = (caller, pointer.wrapping_add(8));
        }
        let mut registers = UnwindRegsX86_64::new(instruction, pointer, at.frame);
        let mut read = |address: u64| word(address).ok_or(());
        let mut frame = FrameAddress::InstructionPointer(instruction);
        while calls.len() < most {
            // A return address may be after the last instruction of its function, but this address is always inside the
            // function.
            calls.push(frame.address_for_lookup());
            let unwound = self.unwinder.unwind_frame(frame, &mut registers, &mut cache, &mut read);
            let caller = match unwound {
                Ok(None) => return (calls, true),
                Ok(Some(caller)) => caller,
                Err(_) => break,
            };
            let before_signal = self
                .returns_from_signal(caller.wrapping_sub(1))
                .then(|| interrupted(registers.sp(), word))
                .flatten();
            let next = match before_signal {
                Some(before) => {
                    calls.push(caller.wrapping_sub(1));
                    let Registers { instruction, stack, frame } = before;
                    registers = UnwindRegsX86_64::new(instruction, stack, frame);
                    Some(FrameAddress::InstructionPointer(instruction))
                }
                None => FrameAddress::from_return_address(caller),
            };
            match next {
                Some(next) => frame = next,
                None => break,
            }
        }
        (calls, false)
    }

    /// Returns the exported function that the call instruction at `caller` calls, if this function is missing in the
    /// call stack because it jumped to `callee`, as the functions of libamdhip64 do since ROCm 6.2. `None` if the
    /// instruction calls `callee` itself, or a function that is unknown or in another file than `callee`. `word`
    /// returns the eight bytes at an address.
    pub(super) fn jumped_from(
        &self,
        caller: u64,
        callee: &Call,
        word: &dyn Fn(u64) -> Option<u64>,
    ) -> Option<Call> {
        // The address of a call is that of its last byte.
        let after = caller.wrapping_add(1);
        let relative = |from: u64, offset: [u8; 4]| {
            from.wrapping_add_signed(i32::from_le_bytes(offset).into())
        };
        let mut target = match word(after.wrapping_sub(8))?.to_le_bytes() {
            // `call target`
            [.., 0xe8, a, b, c, d] => relative(after, [a, b, c, d]),
            // `call *slot(%rip)`
            [.., 0xff, 0x15, a, b, c, d] => word(relative(after, [a, b, c, d]))?,
            _ => return None,
        };
        // A stub of the procedure linkage table jumps to the address that the dynamic loader has stored in a slot. It
        // may begin with `endbr64`, and the jump with the prefix `bnd`.
        let bytes = [word(target), word(target.wrapping_add(8))];
        let bytes: Vec<u8> = bytes.into_iter().flatten().flat_map(u64::to_le_bytes).collect();
        let jump = bytes.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(&bytes);
        let jump = jump.strip_prefix(&[0xf2]).unwrap_or(jump);
        if let [0xff, 0x25, a, b, c, d, rest @ ..] = jump {
            let end = target.wrapping_add((bytes.len() - rest.len()) as u64);
            target = word(relative(end, [*a, *b, *c, *d]))?;
        }
        let called = self.symbolize(target);
        let is_new = called.function.is_some() && called.function != callee.function;
        (is_new && called.offset == 0 && called.file == callee.file).then_some(called)
    }

    /// Returns true if the call at `address` is that of a signal handler, which returns to the instructions
    /// `RETURN_FROM_SIGNAL`.
    pub(super) fn returns_from_signal(&self, address: u64) -> bool {
        let file = self.files.iter().find(|file| file.at.contains(&address));
        let code = file.and_then(|file| {
            let mut code = [0; RETURN_FROM_SIGNAL.len()];
            // The address of a call is that of the byte before the one to which the call returns.
            let at = address - file.at.start + file.offset + 1;
            open(&file.path)?.read_exact_at(&mut code, at).ok().map(|()| code)
        });
        code == Some(RETURN_FROM_SIGNAL)
    }

    /// Returns the function at an address and its file, as far as they are known.
    pub(super) fn symbolize(&self, address: u64) -> Call {
        let file = self.files.iter().find(|file| file.at.contains(&address));
        let Some(file) = file else {
            return Call { offset: address, ..Call::default() };
        };
        let inside = address.wrapping_sub(file.bias);
        let symbols = file.symbols.get_or_init(|| symbols(&file.path));
        let before = symbols.partition_point(|symbol| symbol.at.start <= inside);
        let symbol = symbols[..before].iter().rev().find(|symbol| symbol.at.contains(&inside));
        let function = symbol.and_then(|symbol| {
            Some((demangle(&name(&file.path, symbol.name)?), inside - symbol.at.start))
        });
        let (function, offset) = function.map_or((None, inside), |(name, at)| (Some(name), at));
        let build_id = file.build_id.get_or_init(|| build_id(&file.path)).clone();
        Call { file: file.name.clone(), function, offset, build_id }
    }
}

/// Returns the registers that a thread had before a signal interrupted it. `context` is the address of the `ucontext_t`
/// in which Linux saved them: the stack pointer of the function to which the signal handler returns (`rt_sigframe` in
/// Linux's arch/x86/include/asm/sigframe.h).
fn interrupted(context: u64, word: &dyn Fn(u64) -> Option<u64>) -> Option<Registers> {
    // The registers follow the flags, the link and the description of the stack.
    let register = |number: i32| word(context.wrapping_add(40 + 8 * u64::try_from(number).ok()?));
    Some(Registers {
        instruction: register(libc::REG_RIP)?,
        stack: register(libc::REG_RSP)?,
        frame: register(libc::REG_RBP)?,
    })
}

/// Text that is cut at [`MAX_NAME_BYTES`] bytes, because a short mangled name can expand to an endless one.
struct BoundedText(String);

impl fmt::Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_NAME_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// Demangles the name of a C++ or Rust function.
fn demangle(name: &str) -> String {
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
        _ => name.chars().take(MAX_NAME_BYTES).collect(),
    }
}

/// Parses a line of `/proc/PID/maps`; `None` unless it describes code in a file.
fn part(line: &str) -> Option<MappedRange> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    if !fields.next()?.contains('x') {
        return None;
    }
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = number(fields.next()?)?;
    let path = fields.nth(2)?.trim_start();
    let at = number(start)?..number(end)?;
    path.starts_with('/').then(|| MappedRange { at, offset, path: path.to_owned() })
}

/// Opens a file; `None` if it is not a regular file. The process may have replaced the file by something else, such as
/// a FIFO.
fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
}

/// Reads the unwind tables of the file at `path`, which is mapped as `part` describes. `None` if the file cannot be
/// read or has no such code.
fn read(part: &MappedRange, path: PathBuf) -> Option<(Module<Vec<u8>>, Mapped)> {
    let (bias, sections) = unwind_tables(part, &open(&path)?)?;
    let name = part.path.rsplit('/').next().unwrap_or_default().to_owned();
    let module = Module::new(name.clone(), part.at.clone(), bias, sections);
    let (symbols, build_id) = (OnceCell::new(), OnceCell::new());
    let (at, offset) = (part.at.clone(), part.offset);
    Some((module, Mapped { at, offset, name, bias, path, symbols, build_id }))
}

/// Returns the GNU build id of a file in hexadecimal.
fn build_id(path: &Path) -> Option<String> {
    let file = open(path)?;
    let cache = ReadCache::new(&file);
    let elf = object::File::parse(&cache).ok()?;
    let id = elf.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the difference between addresses in memory and in the file, and the sections with unwind tables.
fn unwind_tables(
    part: &MappedRange,
    file: &File,
) -> Option<(u64, ExplicitModuleSectionInfo<Vec<u8>>)> {
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
    let mut bytes = vec![0; MAX_MANGLED_BYTES];
    let read = open(path)?.read_at(&mut bytes, at).ok()?;
    let end = bytes[..read].iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demangles_cpp_and_rust_names() {
        assert_eq!(demangle("hipMemcpy"), "hipMemcpy");
        assert_eq!(demangle("_ZN6worker6memory4copy17h09c7ed967b3cbde5E"), "worker::memory::copy");
        assert_eq!(demangle("_ZN3hip6Stream4WaitEPS0_i"), "hip::Stream::Wait");
        assert_eq!(demangle("_Zx"), "_Zx");
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
            demangle(&short).starts_with("f<a<int, int>, b<a<int, int>, a<int, int>"),
            "{}",
            demangle(&short)
        );
        let name = name + "EvT_";
        assert!(cpp_demangle::Symbol::new(&name).is_ok());
        let cut = demangle(&name);
        assert!(cut.starts_with("f<a<int, int>, b<") && cut.ends_with("..."), "{cut}");
        assert!(cut.len() <= MAX_NAME_BYTES + 3);
        // Each tuple contains the previous tuple twice: `B` refers back to an earlier offset in the name.
        let mut rust = "_RINvC1a1bTmm".to_owned();
        let mut before = rust.len() - 3;
        for _ in 0..40 {
            let digits = base_62(before - 3);
            rust += "E";
            before = rust.len();
            rust += &format!("T{digits}{digits}");
        }
        let cut = demangle(&(rust + "EE"));
        assert!(cut.starts_with("a::b::<(u32, u32), (") && cut.ends_with("..."), "{cut}");
        assert!(cut.len() <= MAX_NAME_BYTES + 3);
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
        let expected = MappedRange {
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
