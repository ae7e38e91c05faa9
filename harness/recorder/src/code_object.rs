//! Finds code objects and the parameters of their kernels in the memory of the program.

use std::collections::HashMap;

use ::code_object::{BUNDLE, COMPRESSED, CodeParameter, ELF, entries};

use crate::memory;

/// Maximum size of code that is read, in bytes.
const MAX_CODE_BYTES: u64 = 512 << 20;

/// Kernels by name, each with the parameters that the program passes.
pub(crate) type Kernels = HashMap<String, Vec<CodeParameter>>;

/// Reads the code at an address: an ELF file or a bundle of ELF files. The headers determine the size, because programs
/// pass only the address to HIP. Returns `None` if the memory cannot be read or does not contain code, or if the code
/// is larger than [`MAX_CODE_BYTES`].
pub(crate) fn at(address: u64) -> Option<Vec<u8>> {
    let length = match memory::bytes(address, 24)? {
        start if start.starts_with(ELF) => {
            let number = |offset, bytes| memory::number(address + offset, bytes);
            // `e_shoff`, `e_shentsize` and `e_shnum`: the section table gives the size of the file, because linkers
            // write it last.
            number(0x28, 8)?.checked_add(number(0x3a, 2)?.checked_mul(number(0x3c, 2)?)?)?
        }
        start if start == BUNDLE => {
            let read = |offset, length| memory::bytes(address.checked_add(offset)?, length);
            let ends =
                entries(&read)?.into_iter().map(|entry| entry.offset.checked_add(entry.size));
            ends.collect::<Option<Vec<_>>>()?.into_iter().max().unwrap_or_default()
        }
        // The total size follows the magic number, the version and the method (version 2: 32 bits, version 3: 64).
        start if start.starts_with(COMPRESSED) => match start[4] {
            2 => memory::number(address + 8, 4)?,
            3 => memory::number(address + 8, 8)?,
            _ => return None,
        },
        _ => return None,
    };
    (length <= MAX_CODE_BYTES).then(|| memory::bytes(address, length as usize)).flatten()
}

/// Returns the kernels of a code object, or of all code objects in a bundle.
pub(crate) fn kernels(code: &[u8]) -> Kernels {
    let all = ::code_object::kernels(code).into_iter();
    all.map(|kernel| (kernel.name.clone(), kernel.parameters().cloned().collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_memory_is_not_code() {
        for start in [&b"text"[..], ELF, BUNDLE, COMPRESSED] {
            let mut bytes = start.to_vec();
            bytes.resize(4096, 0xff);
            assert!(at(bytes.as_ptr() as u64).is_none(), "{start:?}");
        }
        assert!(at(8).is_none());
    }
}
