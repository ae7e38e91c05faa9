//! Cache of decoded instructions. Most instructions of a library occur many times, and decoding an instruction is slow.

use std::collections::HashMap;

/// Cached values, with the bytes of an instruction as the key. A cached instruction has one, two or three dwords, and
/// its first dwords determine its size.
pub(crate) struct DecodeCache<T> {
    one: HashMap<u32, T>,
    two: HashMap<u64, T>,
    three: HashMap<(u64, u32), T>,
}

impl<T> Default for DecodeCache<T> {
    fn default() -> DecodeCache<T> {
        DecodeCache { one: HashMap::new(), two: HashMap::new(), three: HashMap::new() }
    }
}

impl<T: Copy> DecodeCache<T> {
    /// Returns the cached value for the instruction at the start of `window`, and the size of the instruction in bytes.
    /// Calls `decode` if the instruction is not cached. `None` means that the bytes are not an instruction.
    ///
    /// # Errors
    /// Fails if `decode` fails.
    pub(crate) fn get<E>(
        &mut self,
        window: &[u8],
        decode: impl FnOnce() -> Result<Option<(T, usize)>, E>,
    ) -> Result<Option<(T, usize)>, E> {
        let dword = |at: usize| {
            let bytes = window.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        let first = dword(0);
        let pair = u64::from(first) | u64::from(dword(4)) << 32;
        let triple = (pair, dword(8));
        let known = (self.one.get(&first).map(|entry| (*entry, 4)))
            .or_else(|| self.two.get(&pair).map(|entry| (*entry, 8)))
            .or_else(|| self.three.get(&triple).map(|entry| (*entry, 12)));
        if known.is_some() {
            return Ok(known);
        }
        let decoded = decode()?;
        if let Some((entry, size)) = decoded {
            match size {
                4 => self.one.insert(first, entry),
                8 => self.two.insert(pair, entry),
                12 => self.three.insert(triple, entry),
                _ => None,
            };
        }
        Ok(decoded)
    }
}
