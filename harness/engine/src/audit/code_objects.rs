//! Finds code objects in plain ELF files, offload bundles, compressed bundles, and the fat binaries of host libraries.
//! Any input gives either code or an error, never a panic.
//!
//! Sources: LLVM's "Clang Offload Bundler" for the bundles and for the header of compressed ones (`CCOB`), and the
//! "AMDGPU Usage" guide for the machine numbers of `e_flags`.

use std::{collections::HashMap, io::Read, ops::Range};

use device::Arch;
use object::{
    LittleEndian as LE, elf,
    read::elf::{FileHeader as _, SectionHeader as _, Sym as _},
};

const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
const ELF: &[u8] = b"\x7fELF";

/// Size of the largest bundle that is accepted, in bytes. It limits what a damaged header can request.
const MAX_BUNDLE: u64 = 8 << 30;

/// The sections of one code object that contain instructions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CodeSections {
    /// The architecture that has this machine number; `None` if the emulated device does not support it.
    pub(super) arch: Option<Arch>,
    /// The machine number in `e_flags`.
    pub(super) machine: u32,
    pub(super) text: Vec<Vec<u8>>,
    pub(super) kernels: Vec<Kernel>,
}

/// A kernel of a code object, found by its descriptor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) name: String,
    /// Index in [`CodeSections::text`] of the section that contains the kernel, and the byte range of the kernel in
    /// that section.
    pub(super) section: usize,
    pub(super) bytes: Range<usize>,
    /// True if a workgroup may use both compute units of a pair (WGP mode). Only meaningful on architectures that have
    /// such pairs.
    pub(super) shares_units: bool,
}

impl CodeSections {
    pub(super) fn instructions_of(&self, kernel: &Kernel) -> &[u8] {
        &self.text[kernel.section][kernel.bytes.clone()]
    }
}

/// Returns all code objects in a file; empty if the file is neither an ELF file nor a bundle.
///
/// # Errors
/// The reason why the file cannot be read.
pub(super) fn read_all(file: &[u8]) -> Result<Vec<CodeSections>, String> {
    let mut found = Vec::new();
    unpack(file, &mut found)?;
    Ok(found)
}

fn unpack(bytes: &[u8], found: &mut Vec<CodeSections>) -> Result<(), String> {
    if bytes.starts_with(ELF) {
        return unpack_elf(bytes, found);
    }
    if bytes.starts_with(BUNDLE) || bytes.starts_with(COMPRESSED) {
        return unpack_bundles(bytes, found);
    }
    Ok(())
}

/// Unpacks bundles that follow one another, as the linker writes them to the section `.hip_fatbin`.
fn unpack_bundles(mut bytes: &[u8], found: &mut Vec<CodeSections>) -> Result<(), String> {
    loop {
        let used = if bytes.starts_with(COMPRESSED) {
            let (bundle, used) = decompress(bytes)?;
            unpack_bundle(&bundle, found)?;
            used
        } else if bytes.starts_with(BUNDLE) {
            unpack_bundle(bytes, found)?;
            BUNDLE.len()
        } else {
            return Ok(());
        };
        // The next bundle is aligned, so zeros may precede it. Code objects of this bundle may precede it too.
        let rest = bytes.get(used..).unwrap_or_default();
        let next = [BUNDLE, COMPRESSED].iter().filter_map(|magic| position(rest, magic)).min();
        match next {
            Some(at) => bytes = &rest[at..],
            None => return Ok(()),
        }
    }
}

/// Returns the offset of the first bundle header that begins with the magic number `magic`; `None` if the bytes contain
/// none.
fn position(bytes: &[u8], magic: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(bytes, magic).find(|at| {
        // Constants in a kernel can equal a magic number, so the fields after the number are checked.
        let rest = &bytes[*at..];
        match magic {
            COMPRESSED => header(rest).is_some(),
            _ => number(rest, BUNDLE.len(), 8).is_some_and(|entries| entries < 256),
        }
    })
}

fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide.get_mut(..len)?.copy_from_slice(bytes.get(at..at.checked_add(len)?)?);
    Some(u64::from_le_bytes(wide))
}

/// Returns three fields of a compressed bundle's header: the compression method, the total length, and the offset of
/// the compressed data. `None` if the header is not valid.
fn header(bytes: &[u8]) -> Option<(u64, usize, usize)> {
    let version = number(bytes, 4, 2)?;
    let method = number(bytes, 6, 2)?;
    let (total, start) = match version {
        // Version 1 of the header does not contain the total length.
        1 => (bytes.len() as u64, 20),
        2 => (number(bytes, 8, 4)?, 24),
        3 => (number(bytes, 8, 8)?, 32),
        _ => return None,
    };
    let total = usize::try_from(total).ok()?;
    (method <= 1 && total >= start && total <= bytes.len()).then_some((method, total, start))
}

fn decompress(bytes: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let (method, total, start) = header(bytes).ok_or("compressed bundle with a damaged header")?;
    let payload = &bytes[start..total];
    let mut bundle = Vec::new();
    let read = if method == 1 {
        ruzstd::decoding::StreamingDecoder::new(payload)
            .map_err(|e| format!("compressed bundle: {e}"))?
            .take(MAX_BUNDLE)
            .read_to_end(&mut bundle)
    } else {
        flate2::read::ZlibDecoder::new(payload).take(MAX_BUNDLE).read_to_end(&mut bundle)
    };
    read.map_err(|e| format!("compressed bundle: {e}"))?;
    Ok((bundle, total))
}

fn unpack_bundle(bundle: &[u8], found: &mut Vec<CodeSections>) -> Result<(), String> {
    let damaged = || "damaged offload bundle".to_owned();
    let mut at = BUNDLE.len();
    let entries = number(bundle, at, 8).ok_or_else(damaged)?;
    at += 8;
    for _ in 0..entries {
        let [offset, size, name] = [0, 8, 16].map(|field| number(bundle, at + field, 8));
        let (Some(offset), Some(size), Some(name)) = (offset, size, name) else {
            return Err(damaged());
        };
        at = usize::try_from(name)
            .ok()
            .and_then(|n| (at + 24).checked_add(n))
            .ok_or_else(damaged)?;
        let code = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(size).ok())
            .and_then(|(offset, size)| bundle.get(offset..offset.checked_add(size)?))
            .ok_or_else(damaged)?;
        // A bundle also has an entry for the host, which is empty.
        if code.starts_with(ELF) {
            unpack_elf(code, found)?;
        }
    }
    Ok(())
}

fn unpack_elf(bytes: &[u8], found: &mut Vec<CodeSections>) -> Result<(), String> {
    let wrong = |e: object::Error| format!("damaged ELF file: {e}");
    let header = elf::FileHeader64::<LE>::parse(bytes).map_err(wrong)?;
    let endian = header.endian().map_err(wrong)?;
    let sections = header.sections(endian, bytes).map_err(wrong)?;
    if header.e_machine.get(endian) == elf::EM_AMDGPU {
        let (mut text, mut addresses) = (Vec::new(), Vec::new());
        for section in sections.iter() {
            if section.sh_flags(endian).contains(elf::SHF_EXECINSTR) {
                text.push(section.data(endian, bytes).map_err(wrong)?.to_vec());
                addresses.push(section.sh_addr(endian));
            }
        }
        let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM).map_err(wrong)?;
        let (mut descriptors, mut sizes) = (Vec::new(), HashMap::new());
        for symbol in symbols.iter() {
            let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
            let name = symbols.symbol_name(endian, symbol).map_err(wrong)?;
            match name.strip_suffix(b".kd") {
                Some(kernel) => descriptors.push((String::from_utf8_lossy(kernel), address)),
                None => _ = sizes.insert(address, size),
            }
        }
        let mut kernels = Vec::new();
        for (name, address) in descriptors {
            // Layout of the descriptor: AMDGPU usage guide, "Code Object V3 Kernel Descriptor".
            let field = |at: u64, len: usize| {
                let at = address.checked_add(at)?;
                let holds =
                    |start: u64, size: u64| (start..start.saturating_add(size)).contains(&at);
                let section = (sections.iter()).find(|it| {
                    it.sh_type(endian) == elf::SHT_PROGBITS
                        && holds(it.sh_addr(endian), it.sh_size(endian))
                })?;
                let data = section.data(endian, bytes).ok()?;
                number(data, usize::try_from(at - section.sh_addr(endian)).ok()?, len)
            };
            let place = || {
                let entry = address.wrapping_add(field(16, 8)?);
                let shares_units = field(48, 4)? >> 29 & 1 == 1;
                let (section, offset) = (0..text.len()).find_map(|section| {
                    let offset = usize::try_from(entry.checked_sub(addresses[section])?).ok()?;
                    (offset < text[section].len()).then_some((section, offset))
                })?;
                let rest = text[section].len() - offset;
                let size = sizes.get(&entry).and_then(|size| usize::try_from(*size).ok());
                let size = size.filter(|size| *size > 0).map_or(rest, |size| size.min(rest));
                Some((section, offset..offset + size, shares_units))
            };
            let (section, range, shares_units) =
                place().ok_or_else(|| format!("kernel `{name}` has a damaged descriptor"))?;
            kernels.push(Kernel { name: name.into_owned(), section, bytes: range, shares_units });
        }
        let machine = header.e_flags.get(endian).0 & 0xff;
        found.push(CodeSections { arch: arch(machine), machine, text, kernels });
        return Ok(());
    }
    for section in sections.iter() {
        if sections.section_name(endian, section).is_ok_and(|name| name == b".hip_fatbin") {
            unpack_bundles(section.data(endian, bytes).map_err(wrong)?, found)?;
        }
    }
    Ok(())
}

/// Returns the architecture with this machine number in `e_flags`; `None` if the emulated device does not support it.
fn arch(machine: u32) -> Option<Arch> {
    Arch::ALL.iter().copied().find(|arch| arch.machines().first() == Some(&machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an offload bundle with these entries, each a target and its content.
    fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let header: usize =
            BUNDLE.len() + 8 + entries.iter().map(|(name, _)| 24 + name.len()).sum::<usize>();
        let mut bytes = BUNDLE.to_vec();
        bytes.extend((entries.len() as u64).to_le_bytes());
        let mut offset = header;
        for (name, content) in entries {
            for number in [offset, content.len(), name.len()] {
                bytes.extend((number as u64).to_le_bytes());
            }
            bytes.extend(name.as_bytes());
            offset += content.len();
        }
        for (_, content) in entries {
            bytes.extend(*content);
        }
        bytes
    }

    /// Returns the smallest ELF file for an AMD GPU, which has no sections.
    fn code(machine: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[18] = 224;
        bytes[48] = machine;
        bytes
    }

    fn check(file: &[u8], expected: Result<&[Option<Arch>], &str>) {
        match (read_all(file), expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<_> = found.iter().map(|code| code.arch).collect();
                assert_eq!(found, expected);
            }
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn files_and_bundles() {
        let (one, two) = (code(0x4a), code(0x3f));
        check(&one, Ok(&[Some(Arch::Gfx1151)]));
        check(&code(0x01), Ok(&[None]));
        check(b"a text", Ok(&[]));
        let both = bundle(&[("host-x86_64", b""), ("hipv4-a", &one), ("hipv4-b", &two)]);
        check(&both, Ok(&[Some(Arch::Gfx1151), Some(Arch::Gfx90a)]));
        let twice = [both.clone(), vec![0; 100], bundle(&[("x", &two)])].concat();
        check(&twice, Ok(&[Some(Arch::Gfx1151), Some(Arch::Gfx90a), Some(Arch::Gfx90a)]));
    }

    #[test]
    fn damaged_files_are_errors() {
        let both = bundle(&[("hipv4-a", &code(0x4a))]);
        check(&both[..both.len() - 1], Err("damaged offload bundle"));
        check(&both[..30], Err("damaged offload bundle"));
        check(b"CCOB\x03\x00\x01\x00", Err("damaged header"));
        check(&code(0x4a)[..40], Err("damaged ELF file"));
        let mut long = b"CCOB\x02\x00\x01\x00".to_vec();
        long.extend([28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        check(&long, Err("compressed bundle"));
    }
}
