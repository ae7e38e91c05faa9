//! Finds the name of a kernel in the code object that the HSA runtime has loaded.
//!
//! ROCr loads a code object, an ELF file, into one allocation that begins with the header of the file. The dynamic
//! symbols of the file name the kernel descriptors, as LLVM's AMDGPU usage guide describes ("ELF Code Object").

use std::ops::Range;

use crate::address_map;

const MAGIC: [u8; 4] = *b"\x7fELF";

/// Type of the program header of the dynamic table, and tags of its entries.
const PT_DYNAMIC: u32 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// Sizes of a program header, an entry of the dynamic table and a symbol, in bytes.
const PROGRAM_HEADER: u64 = 56;
const ENTRY: u64 = 16;
const SYMBOL: u64 = 24;

/// Length of the longest kernel name that is read, in bytes.
const MAX_NAME_BYTES: u64 = 4096;

/// A loaded code object.
struct Image<'a>(&'a [u8]);

impl Image<'_> {
    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let at = usize::try_from(at).ok()?;
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn half(&self, at: u64) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn word(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn long(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    fn text(&self, at: u64) -> Option<&str> {
        let start = usize::try_from(at).ok()?;
        let end = self.0.len().min(start.checked_add(MAX_NAME_BYTES as usize)?);
        let rest = self.0.get(start..end)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..length]).ok()
    }

    /// Returns the name of the kernel whose descriptor is at an offset in the image.
    fn kernel(&self, descriptor: u64) -> Option<&str> {
        if self.bytes(0)? != MAGIC {
            return None;
        }
        let (headers, count) = (self.long(32)?, u64::from(self.half(56)?));
        let header = |index| headers + index * PROGRAM_HEADER;
        let dynamic = (0..count).find(|index| self.word(header(*index)) == Some(PT_DYNAMIC))?;
        let (table, bytes) = (self.long(header(dynamic) + 16)?, self.long(header(dynamic) + 40)?);
        let value = |tag| {
            let entries = (0..bytes / ENTRY).map(|index| table + index * ENTRY);
            let found = entries.into_iter().find(|entry| self.long(*entry) == Some(tag))?;
            self.long(found + 8)
        };
        let (symbols, strings) = (value(DT_SYMTAB)?, value(DT_STRTAB)?);
        // The number of chains in a hash table equals the number of symbols.
        let count = u64::from(self.word(value(DT_HASH)? + 4)?);
        let name = |index: u64| {
            let symbol = symbols + index * SYMBOL;
            let is_there = self.long(symbol + 8)? == descriptor;
            let name = self.text(strings + u64::from(self.word(symbol)?))?;
            name.strip_suffix(".kd").filter(|_| is_there)
        };
        (0..count).find_map(name)
    }
}

/// Returns the name of the kernel with this descriptor. The HSA runtime's own kernels, which copy and fill memory, are
/// not part of a code object and have no name. For such a kernel, returns the address of the descriptor.
pub(crate) fn find(descriptor: u64) -> String {
    // As long as the map is locked, the memory stays mapped.
    let map = address_map::read();
    let named = map.reach(descriptor).and_then(|Range { start, end }| {
        // SAFETY: the range is mapped memory of the process. ROCr does not write to a code object that is in use.
        let image =
            unsafe { std::slice::from_raw_parts(start as *const u8, (end - start) as usize) };
        Image(image).kernel(descriptor - start).map(str::to_owned)
    });
    named.unwrap_or_else(|| format!("at {descriptor:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an image with one kernel, `copy`, whose descriptor is at offset 0x300.
    fn image() -> Vec<u8> {
        let mut image = vec![0; 0x400];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(32, &64u64.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        put(64, &PT_DYNAMIC.to_le_bytes());
        put(64 + 16, &0x100u64.to_le_bytes());
        put(64 + 40, &(3 * ENTRY).to_le_bytes());
        let entries = [(DT_HASH, 0x180u64), (DT_STRTAB, 0x1c0), (DT_SYMTAB, 0x200)];
        for (index, (tag, value)) in entries.into_iter().enumerate() {
            put(0x100 + index * 16, &tag.to_le_bytes());
            put(0x108 + index * 16, &value.to_le_bytes());
        }
        put(0x184, &3u32.to_le_bytes());
        put(0x1c0, b"\0copy\0copy.kd\0");
        for (index, (name, value)) in [(1u32, 0x380u64), (6, 0x300)].into_iter().enumerate() {
            put(0x218 + index * 24, &name.to_le_bytes());
            put(0x220 + index * 24, &value.to_le_bytes());
        }
        image
    }

    #[test]
    fn names_the_kernel_of_a_descriptor() {
        let image = image();
        assert_eq!(Image(&image).kernel(0x300), Some("copy"));
        assert_eq!(
            Image(&image).kernel(0x380),
            None,
            "the address of the code is not that of the descriptor"
        );
        for length in 0..image.len() {
            let _ = Image(&image[..length]).kernel(0x300);
        }
        assert_eq!(Image(&[0; 64]).kernel(0), None);
        assert_eq!(find(0x10), "at 0x10");
    }
}
