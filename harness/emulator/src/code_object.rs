//! Parser for AMDGPU code objects. A code object is an ELF shared object whose layout LLVM's AMDGPU usage guide
//! describes ("ELF Code Object", "Kernel Descriptor").
//!
//! The parser converts bytes into a load plan and does not access device memory. For any input it returns a plan or an
//! error.

use device::Arch;
use object::{
    LittleEndian as LE, elf,
    pod::{Pod, slice_from_all_bytes},
    read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _},
};

const DESCRIPTOR_SUFFIX: &str = ".kd";

/// Maximum size of an image, in bytes. The limit protects against huge sizes in a damaged header.
const MAX_IMAGE: u64 = 16 << 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The bytes are not a valid code object. The string says why.
    Malformed(String),
    /// The code is for another architecture. The value is the machine number in `e_flags`.
    OtherArch(u32),
}

fn malformed(what: impl ToString) -> Problem {
    Problem::Malformed(what.to_string())
}

/// A part of the image that is copied from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    /// Offset of the segment in the image, in bytes.
    pub(crate) address: u64,
    pub(crate) data: &'a [u8],
    /// True if kernels may write to the segment. Such a segment contains variables, or shares pages with them.
    pub(crate) writable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kernel,
    Variable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Offset of the symbol in the image, in bytes.
    pub(crate) address: u64,
    pub(crate) size: u64,
}

/// Value to which the addend of a relocation is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RelocationBase {
    /// An offset in the image.
    Image(u64),
    /// A variable that the host defines.
    External(String),
}

/// Encoding of the value that a relocation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelocationKind {
    Abs32Lo,
    Abs32Hi,
    Abs64,
    Rel32Lo,
    Rel64,
}

impl RelocationKind {
    /// Returns the encoding that a relocation type requires; `None` if the device does not support the type. Source:
    /// LLVM's AMDGPU usage guide, "Relocation Records".
    fn from_elf_type(kind: u32) -> Option<RelocationKind> {
        Some(match kind {
            // R_AMDGPU_ABS32_LO and R_AMDGPU_ABS32
            1 | 6 => RelocationKind::Abs32Lo,
            2 => RelocationKind::Abs32Hi,
            // R_AMDGPU_ABS64 and R_AMDGPU_RELATIVE64
            3 | 13 => RelocationKind::Abs64,
            4 => RelocationKind::Rel32Lo,
            5 => RelocationKind::Rel64,
            _ => return None,
        })
    }

    /// Returns the number of bytes that the relocation writes.
    pub(crate) fn len(self) -> usize {
        match self {
            RelocationKind::Abs64 | RelocationKind::Rel64 => 8,
            _ => 4,
        }
    }

    /// Returns the bytes that a relocation at address `place` writes for `value`. Only the first
    /// [`RelocationKind::len`] bytes are used.
    pub(crate) fn bytes(self, value: u64, place: u64) -> [u8; 8] {
        match self {
            RelocationKind::Abs32Lo | RelocationKind::Abs64 => value,
            RelocationKind::Abs32Hi => value >> 32,
            RelocationKind::Rel32Lo | RelocationKind::Rel64 => value.wrapping_sub(place),
        }
        .to_le_bytes()
    }
}

/// A place in the image into which the loader writes an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relocation {
    /// Offset in the image at which the address is written.
    pub(crate) place: u64,
    pub(crate) form: RelocationKind,
    pub(crate) base: RelocationBase,
    pub(crate) addend: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CodeObject<'a> {
    /// Size of the image, in bytes.
    pub(crate) size: u64,
    pub(crate) segments: Vec<Segment<'a>>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) relocations: Vec<Relocation>,
}

impl<'a> CodeObject<'a> {
    pub(crate) fn parse(data: &'a [u8], arch: Arch) -> Result<CodeObject<'a>, Problem> {
        let header = elf::FileHeader64::<LE>::parse(data).map_err(malformed)?;
        if !header.is_class_64() || !header.is_little_endian() {
            return Err(malformed("not a 64-bit little-endian ELF file"));
        }
        if header.e_machine.get(LE) != elf::EM_AMDGPU {
            return Err(malformed("not for an AMD GPU"));
        }
        let machine = header.e_flags.get(LE).0 & 0xff;
        if !arch.machines().contains(&machine) {
            return Err(Problem::OtherArch(machine));
        }
        let mut object =
            CodeObject { size: 0, segments: Vec::new(), symbols: Vec::new(), relocations: vec![] };
        let headers = header.program_headers(LE, data).map_err(malformed)?;
        for segment in headers.iter().filter(|segment| segment.p_type(LE) == elf::PT_LOAD) {
            let (address, memory) = (segment.p_vaddr(LE), segment.p_memsz(LE));
            let data = segment
                .data(LE, data)
                .map_err(|()| malformed("segment past the end of the file"))?;
            let end = address.checked_add(memory).filter(|end| *end <= MAX_IMAGE);
            object.size = object.size.max(end.ok_or_else(|| malformed("segment too large"))?);
            if data.len() as u64 > memory {
                return Err(malformed("segment larger in the file than in memory"));
            }
            let writable = segment.p_flags(LE).0 & elf::PF_W.0 != 0;
            object.segments.push(Segment { address, data, writable });
        }
        for segment in headers {
            if let Some(entries) = segment.dynamic(LE, data).map_err(malformed)? {
                object.read_dynamic(entries)?;
            }
        }
        Ok(object)
    }

    fn at(&self, address: u64, len: u64) -> Option<&'a [u8]> {
        self.segments.iter().find_map(|segment| {
            let start = usize::try_from(address.checked_sub(segment.address)?).ok()?;
            segment.data.get(start..start.checked_add(usize::try_from(len).ok()?)?)
        })
    }

    fn table<T: Pod>(&self, address: u64, count: u64) -> Result<&'a [T], Problem> {
        count
            .checked_mul(size_of::<T>() as u64)
            .and_then(|len| self.at(address, len))
            .and_then(|bytes| slice_from_all_bytes(bytes).ok())
            .ok_or_else(|| malformed("dynamic table outside of the image"))
    }

    fn read_dynamic(&mut self, entries: &[elf::Dyn64<LE>]) -> Result<(), Problem> {
        let value = |tag| entries.iter().find(|entry| entry.tag(LE) == tag).map(|e| e.val(LE));
        let (Some(symbols), Some(strings)) = (value(elf::DT_SYMTAB), value(elf::DT_STRTAB)) else {
            return Ok(());
        };
        let count = match (value(elf::DT_HASH), value(elf::DT_GNU_HASH)) {
            // The number of chains in a System V hash table equals the number of symbols.
            (Some(hash), _) => u64::from(self.table::<object::U32<LE>>(hash, 2)?[1].get(LE)),
            (None, Some(hash)) => self.count_by_gnu_hash(hash)?,
            (None, None) => return Ok(()),
        };
        let symbols = self.table::<elf::Sym64<LE>>(symbols, count)?;
        let strings = self
            .at(strings, value(elf::DT_STRSZ).unwrap_or(0))
            .ok_or_else(|| malformed("string table outside of the image"))?;
        let name = |symbol: &elf::Sym64<LE>| {
            let rest = strings.get(symbol.st_name.get(LE) as usize..)?;
            let end = rest.iter().position(|byte| *byte == 0)?;
            std::str::from_utf8(&rest[..end]).ok().map(str::to_owned)
        };
        let relocations = match (value(elf::DT_RELA), value(elf::DT_RELASZ)) {
            (Some(table), Some(bytes)) => {
                let count = bytes / size_of::<elf::Rela64<LE>>() as u64;
                self.table::<elf::Rela64<LE>>(table, count)?
            }
            _ => &[],
        };
        for relocation in relocations {
            let info = relocation.r_info.get(LE);
            let kind = info as u32;
            let form = RelocationKind::from_elf_type(kind)
                .ok_or_else(|| malformed(format_args!("unsupported relocation type {kind}")))?;
            let place = relocation.r_offset.get(LE);
            if place.checked_add(form.len() as u64).is_none_or(|end| end > self.size) {
                return Err(malformed("relocation outside of the image"));
            }
            let base = match (info >> 32) as usize {
                0 => RelocationBase::Image(0),
                index => {
                    let symbol = symbols
                        .get(index)
                        .ok_or_else(|| malformed("relocation by a missing symbol"))?;
                    if is_defined(symbol) {
                        let value = symbol.st_value.get(LE);
                        if value > self.size {
                            return Err(malformed("relocation by a symbol outside of the image"));
                        }
                        RelocationBase::Image(value)
                    } else {
                        RelocationBase::External(
                            name(symbol).ok_or_else(|| malformed("symbol's name"))?,
                        )
                    }
                }
            };
            let addend = relocation.r_addend.get(LE);
            self.relocations.push(Relocation { place, form, base, addend });
        }
        for symbol in symbols.iter().filter(|symbol| is_defined(symbol)) {
            let name = name(symbol).ok_or_else(|| malformed("symbol's name"))?;
            let kind = if name.ends_with(DESCRIPTOR_SUFFIX) {
                Kind::Kernel
            } else if symbol.st_info.st_type() == elf::STT_OBJECT {
                Kind::Variable
            } else {
                continue;
            };
            let (address, size) = (symbol.st_value.get(LE), symbol.st_size.get(LE));
            if address.checked_add(size).is_none_or(|end| end > self.size) {
                return Err(malformed(format_args!("symbol {name} outside of the image")));
            }
            if kind == Kind::Kernel && self.at(address, DESCRIPTOR_BYTES as u64).is_none() {
                return Err(malformed(format_args!("descriptor of {name} outside of the file")));
            }
            self.symbols.push(Symbol { name, kind, address, size });
        }
        Ok(())
    }

    /// Returns the number of symbols. A GNU hash table does not contain this number, so it is computed from the table's
    /// last chain.
    fn count_by_gnu_hash(&self, hash: u64) -> Result<u64, Problem> {
        let header = self.table::<object::U32<LE>>(hash, 4)?;
        let [buckets, base, bloom] = [0, 1, 2].map(|i| u64::from(header[i].get(LE)));
        let bucket_table = hash + 16 + bloom * 8;
        let chains = bucket_table + buckets * 4;
        let buckets = self.table::<object::U32<LE>>(bucket_table, buckets)?;
        let Some(mut last) = buckets.iter().map(|b| u64::from(b.get(LE))).max() else {
            return Ok(base);
        };
        if last < base {
            return Ok(base);
        }
        while self.table::<object::U32<LE>>(chains + (last - base) * 4, 1)?[0].get(LE) & 1 == 0 {
            last += 1;
        }
        Ok(last + 1)
    }

    pub(crate) fn descriptor(&self, kernel: &Symbol) -> Descriptor {
        let bytes = self.at(kernel.address, DESCRIPTOR_BYTES as u64).unwrap_or(&[]);
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            u32::from_le_bytes(word.unwrap_or_default())
        };
        Descriptor {
            group_bytes: word(0),
            private_bytes: word(4),
            kernarg_bytes: word(8),
            dynamic_stack: word(56) & (1 << 11) != 0,
        }
    }
}

/// Size of a kernel descriptor, in bytes.
const DESCRIPTOR_BYTES: usize = 64;

/// Resources that a kernel needs, as stated in its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Static LDS per workgroup, in bytes.
    pub(crate) group_bytes: u32,
    /// Scratch memory per work-item, in bytes.
    pub(crate) private_bytes: u32,
    /// Size of the kernel arguments, in bytes.
    pub(crate) kernarg_bytes: u32,
    /// True if the size of the scratch memory is known only when the kernel is launched.
    pub(crate) dynamic_stack: bool,
}

fn is_defined(symbol: &elf::Sym64<LE>) -> bool {
    symbol.st_shndx.get(LE) != elf::SHN_UNDEF
}

#[cfg(test)]
mod tests;
