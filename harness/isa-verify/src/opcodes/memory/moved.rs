//! Models the data formats of loads and stores, byte by byte.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moved {
    pub(super) bytes: usize,
    signed: bool,
    /// True if the data is in the upper half of a register, false if it is in the lower half; `None` if the data fills
    /// the register.
    half: Option<bool>,
}

impl Moved {
    /// Parses the part of a load's or store's name after `load_` or `store_`; `None` if it is not a known data format.
    pub(super) fn named(name: &str) -> Option<Moved> {
        let half = name.contains("d16").then(|| name.contains("d16_hi"));
        let size = name.replace("d16_hi", "").replace("d16", "");
        let (bytes, signed) = match size.trim_matches('_') {
            "ubyte" | "byte" | "u8" | "b8" => (1, false),
            "sbyte" | "i8" => (1, true),
            "ushort" | "short" | "u16" | "b16" => (2, false),
            "sshort" | "i16" => (2, true),
            "dword" | "b32" => (4, false),
            "dwordx2" | "b64" => (8, false),
            "dwordx3" | "b96" => (12, false),
            "dwordx4" | "b128" => (16, false),
            _ => return None,
        };
        Some(Moved { bytes, signed, half })
    }

    /// Returns the misalignment of a lane's data: its distance in bytes from a multiple of 16. The value differs
    /// between lanes.
    pub(super) fn skew(self, lane: usize) -> usize {
        match self.bytes {
            1 => lane * 7 % 16,
            2 => lane * 6 % 16,
            _ => 0,
        }
    }

    /// Writes bytes of memory to a lane's registers, as a load does. If the load writes half a register, the other half
    /// is cleared if `clears` is true, and kept otherwise.
    pub(super) fn load(self, bytes: &[u8], registers: &mut [u32], clears: bool) {
        if self.bytes >= 4 {
            for (register, word) in registers.iter_mut().zip(bytes.chunks_exact(4)) {
                *register = u32::from_le_bytes(word.try_into().expect("four"));
            }
            return;
        }
        let top = bytes[self.bytes - 1] >> 7 == 1 && self.signed;
        let mut word = if top { [0xff; 4] } else { [0; 4] };
        word[..self.bytes].copy_from_slice(bytes);
        if let Some(high) = self.half {
            let old = if clears { [0; 4] } else { registers[0].to_le_bytes() };
            word = match high {
                true => [old[0], old[1], word[0], word[1]],
                false => [word[0], word[1], old[2], old[3]],
            };
        }
        registers[0] = u32::from_le_bytes(word);
    }

    pub(super) fn stored(self, registers: &[u32]) -> Vec<u8> {
        let bytes: Vec<u8> = registers.iter().flat_map(|word| word.to_le_bytes()).collect();
        let first = if self.half == Some(true) { 2 } else { 0 };
        bytes[first..first + self.bytes].to_vec()
    }
}

pub(super) fn read(words: &[u32], at: usize, bytes: usize) -> Vec<u8> {
    (at..at + bytes).map(|at| words[at / 4].to_le_bytes()[at % 4]).collect()
}

pub(super) fn write(words: &mut [u32], at: usize, bytes: &[u8]) {
    for (at, byte) in (at..).zip(bytes) {
        let mut word = words[at / 4].to_le_bytes();
        word[at % 4] = *byte;
        words[at / 4] = u32::from_le_bytes(word);
    }
}
