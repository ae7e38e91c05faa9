//! Minimal loader for AMDGPU code objects. With it, kernels run without an HSA runtime.

use std::collections::HashMap;

/// A code object, loaded into executable memory of this process.
pub(crate) struct CodeObject {
    base: u64,
    length: usize,
    symbols: HashMap<String, u64>,
    /// Sizes of the symbols, in bytes, by name.
    sizes: HashMap<String, u64>,
    /// Version of the code object: 4, 5 or 6.
    pub(crate) version: u8,
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes")))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize
}

impl CodeObject {
    pub(crate) fn load(elf: &[u8]) -> CodeObject {
        assert_eq!(&elf[..4], b"\x7fELF", "the code object is not an ELF file");
        let header = |index: usize| u64_at(elf, 32) + index * u16_at(elf, 54);
        let segments: Vec<_> = (0..u16_at(elf, 56)).map(header).collect();
        let loads = || segments.iter().copied().filter(|&at| u32_at(elf, at) == 1);
        let length = loads().map(|at| u64_at(elf, at + 16) + u64_at(elf, at + 40)).max();
        let length = length.expect("the ELF file has a loadable segment").next_multiple_of(4096);
        // SAFETY: the mapping is new and anonymous.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED, "mmap of {length} bytes failed");
        // SAFETY: the mapping has `length` bytes, and no other reference to it exists yet.
        let image = unsafe { std::slice::from_raw_parts_mut(memory.cast::<u8>(), length) };
        for at in loads() {
            let (offset, address, size) =
                (u64_at(elf, at + 8), u64_at(elf, at + 16), u64_at(elf, at + 32));
            image[address..address + size].copy_from_slice(&elf[offset..offset + size]);
        }
        let base = memory as u64;
        let mut object = CodeObject {
            base,
            length,
            symbols: HashMap::new(),
            sizes: HashMap::new(),
            version: elf[8] + 2,
        };
        object.link(image, segments.iter().copied().find(|&at| u32_at(elf, at) == 2), elf);
        object
    }

    /// Reads the dynamic symbols of the image that has been loaded, and applies its relocations.
    fn link(&mut self, image: &mut [u8], dynamic: Option<usize>, elf: &[u8]) {
        let Some(dynamic) = dynamic else { return };
        let (start, size) = (u64_at(elf, dynamic + 16), u64_at(elf, dynamic + 40));
        let tags: HashMap<usize, usize> = (start..start + size)
            .step_by(16)
            .map(|at| (u64_at(image, at), u64_at(image, at + 8)))
            .collect();
        let (symbols, strings) = (tags[&6], tags[&5]);
        let count = tags.get(&4).map_or(0, |&hash| u32_at(image, hash + 4));
        let symbol = |image: &[u8], index: usize| {
            let at = symbols + index * 24;
            let name = &image[strings + u32_at(image, at)..];
            let end = name.iter().position(|&byte| byte == 0).expect("the name ends with NUL");
            (String::from_utf8_lossy(&name[..end]).into_owned(), u64_at(image, at + 8) as u64)
        };
        for index in 1..count {
            let (name, value) = symbol(image, index);
            let size = u64_at(image, symbols + index * 24 + 16) as u64;
            self.sizes.insert(name.clone(), size);
            self.symbols.insert(name, self.base + value);
        }
        let (rela, size) = (tags.get(&7).copied().unwrap_or(0), tags.get(&8).copied().unwrap_or(0));
        for at in (rela..rela + size).step_by(24) {
            let (place, kind, index) =
                (u64_at(image, at), u32_at(image, at + 8), u32_at(image, at + 12));
            let addend = u64_at(image, at + 16) as u64;
            let value = match kind {
                // The relocations are R_AMDGPU_RELATIVE64 and R_AMDGPU_ABS64.
                13 => self.base + addend,
                3 => self.base + symbol(image, index).1 + addend,
                other => panic!("unsupported relocation type {other}"),
            };
            image[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn kernel(&self, name: &str) -> Option<u64> {
        self.symbols.get(&format!("{name}.kd")).copied()
    }

    /// Returns the address range of a kernel's code. Functions that the kernel calls are outside of this range.
    pub(crate) fn code(&self, name: &str) -> Option<std::ops::Range<u64>> {
        let start = *self.symbols.get(name)?;
        Some(start..start + self.sizes[name])
    }

    pub(crate) fn image(&self) -> Vec<u8> {
        let start = std::ptr::with_exposed_provenance::<u8>(self.base as usize);
        // SAFETY: the mapping belongs to this object, and no kernel runs.
        unsafe { std::slice::from_raw_parts(start, self.length) }.to_vec()
    }

    /// Restores the code object from a copy that [`CodeObject::image`] returned.
    pub(crate) fn restore(&self, image: &[u8]) {
        assert_eq!(image.len(), self.length, "the image has a different length");
        let start = std::ptr::with_exposed_provenance_mut::<u8>(self.base as usize);
        // SAFETY: the mapping belongs to this object, no kernel runs, and `image` is as long as the mapping.
        unsafe { start.copy_from_nonoverlapping(image.as_ptr(), image.len()) };
    }

    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        self.base..self.base + self.length as u64
    }
}

impl Drop for CodeObject {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this object.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.length) };
    }
}
