//! Counts how often each opcode occurs in machine code.

use std::collections::{BTreeMap, HashMap};

use crate::{DecodedInstruction, decode_cache::DecodeCache};

/// Numbers of instructions with one opcode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpcodeCounts {
    /// Total number of these instructions, with and without support.
    pub count: u64,
    /// Number of instructions with this opcode that the interpreter does not support.
    pub unsupported: u64,
    /// Text of the first unsupported instruction with this opcode; `None` if all these instructions are supported.
    pub example: Option<String>,
}

/// Callback that decodes the instruction at the start of the bytes. The first argument is the address of the bytes.
/// `None` means that the bytes are not an instruction. The error is the reason why they cannot be decoded.
pub(crate) type Decode<'a> =
    dyn FnMut(u64, &[u8]) -> Result<Option<DecodedInstruction>, String> + 'a;

/// Counts the instructions of machine code by opcode.
///
/// Every byte of the code is examined, in order. Dwords that are not instructions, for example padding between kernels,
/// are counted separately.
pub struct OpcodeCounter<'a> {
    decode: Box<Decode<'a>>,
    /// Cache of decoded instructions. The value is the index in `entries`.
    cache: DecodeCache<usize>,
    entries: Vec<Entry>,
    index: HashMap<(String, bool), usize>,
    illegal: u64,
}

/// Number of the instructions with one opcode. Instructions that the interpreter supports and those that it does not
/// support have separate entries.
struct Entry {
    name: String,
    unsupported: bool,
    example: String,
    count: u64,
}

impl<'a> OpcodeCounter<'a> {
    /// Returns a counter that decodes instructions with `decode`.
    pub fn new(
        decode: impl FnMut(u64, &[u8]) -> Result<Option<DecodedInstruction>, String> + 'a,
    ) -> OpcodeCounter<'a> {
        OpcodeCounter {
            decode: Box::new(decode),
            cache: DecodeCache::default(),
            entries: Vec::new(),
            index: HashMap::new(),
            illegal: 0,
        }
    }

    /// Counts the instructions of `code`.
    ///
    /// # Errors
    /// Fails if `decode` fails, for example because the stack has no disassembler for the architecture.
    pub fn count(&mut self, code: &[u8]) -> Result<(), String> {
        let mut at = 0;
        while at + 4 <= code.len() {
            let window = &code[at..];
            let mut cache = std::mem::take(&mut self.cache);
            let found = cache.get(window, || self.decode_one(window, at as u64));
            self.cache = cache;
            let Some((entry, size)) = found? else {
                self.illegal += 1;
                at += 4;
                continue;
            };
            self.entries[entry].count += 1;
            at += size;
        }
        Ok(())
    }

    /// Decodes one instruction. Returns its index in `entries` and its size in bytes; `None` if the bytes are not an
    /// instruction.
    fn decode_one(
        &mut self,
        window: &[u8],
        address: u64,
    ) -> Result<Option<(usize, usize)>, String> {
        let decoded = (self.decode)(address, window)?;
        let Some(DecodedInstruction { text, size, executable }) = decoded else { return Ok(None) };
        let unsupported = !executable;
        let name = opcode(&text);
        let entry = *self.index.entry((name.clone(), unsupported)).or_insert_with(|| {
            self.entries.push(Entry { name, unsupported, example: text.clone(), count: 0 });
            self.entries.len() - 1
        });
        Ok(Some((entry, size)))
    }

    /// Returns the numbers of instructions for each opcode.
    pub fn opcodes(&self) -> BTreeMap<String, OpcodeCounts> {
        let mut opcodes: BTreeMap<String, OpcodeCounts> = BTreeMap::new();
        for entry in &self.entries {
            let opcode = opcodes.entry(entry.name.clone()).or_default();
            opcode.count += entry.count;
            if entry.unsupported {
                opcode.unsupported += entry.count;
                opcode.example.get_or_insert_with(|| entry.example.clone());
            }
        }
        opcodes
    }

    /// Returns the number of dwords that are not instructions, for example padding and tables between kernels.
    pub fn illegal(&self) -> u64 {
        self.illegal
    }
}

/// Returns the opcode in the text of an instruction. For a dual-issue pair, returns both opcodes, as `a :: b`.
fn opcode(text: &str) -> String {
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    match text.split_once(" :: ") {
        Some((a, b)) => format!("{} :: {}", first(a), first(b)),
        None => first(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes instructions of a fictitious encoding. The highest byte is the opcode, and its two lowest bits are the
    /// number of dwords. If this number is 0, the dword is not an instruction. An instruction of two dwords is
    /// unsupported if the second dword is odd.
    fn decode(window: &[u8]) -> Option<DecodedInstruction> {
        let size = usize::from(window[3] & 3) * 4;
        let whole = size > 0 && window.len() >= size;
        whole.then(|| DecodedInstruction {
            text: match window[2] & 1 {
                0 => format!("v_{} v{}, v{}", window[3], window[0], window[1]),
                _ => format!("v_{} v{} :: v_other v{}", window[3], window[0], window[1]),
            },
            size,
            executable: size != 8 || window[4].is_multiple_of(2),
        })
    }

    /// Counts opcodes like [`OpcodeCounter`], but decodes an instruction each time that it occurs.
    fn count_uncached(code: &[u8]) -> (BTreeMap<String, OpcodeCounts>, u64) {
        let (mut opcodes, mut illegal, mut at) = (BTreeMap::<String, OpcodeCounts>::new(), 0, 0);
        while code.len() - at >= 4 {
            let Some(DecodedInstruction { text, size, executable }) = decode(&code[at..]) else {
                illegal += 1;
                at += 4;
                continue;
            };
            let name = match text.contains("::") {
                true => format!("v_{} :: v_other", code[at + 3]),
                false => format!("v_{}", code[at + 3]),
            };
            let opcode = opcodes.entry(name).or_default();
            opcode.count += 1;
            if !executable {
                opcode.unsupported += 1;
                opcode.example.get_or_insert(text);
            }
            at += size;
        }
        (opcodes, illegal)
    }

    #[test]
    fn cached_instructions_are_counted_like_decoded_ones() {
        // The code contains only a few different dwords. Therefore, most of them occur several times, as the first, the
        // second or the third dword of an instruction.
        let mut state = 7_u64;
        let mut drawn = || {
            state = device::mix(state + 1);
            let of = |shift: u32, of: u64| (state >> shift) % of;
            [of(0, 3) as u8, of(8, 2) as u8, of(16, 2) as u8, of(24, 5) as u8]
        };
        let code: Vec<u8> = (0..4000).flat_map(|_| drawn()).chain([1, 2]).collect();
        let mut decoded = 0;
        let mut counter = OpcodeCounter::new(|at, window| {
            decoded += 1;
            assert_eq!(window, &code[at as usize..]);
            Ok(decode(window))
        });
        counter.count(&code).expect("the decoder returns no error");
        let (opcodes, illegal) = count_uncached(&code);
        assert!(illegal > 100 && opcodes.values().any(|opcode| opcode.unsupported > 50));
        let all = opcodes.values().map(|opcode| opcode.count).sum::<u64>() + illegal;
        assert_eq!((counter.opcodes(), counter.illegal()), (opcodes, illegal));
        drop(counter);
        assert!(decoded < all * 4 / 5, "{decoded} of {all}");
    }

    #[test]
    fn decoder_errors_are_returned() {
        let mut counter = OpcodeCounter::new(|_, _| Err("no disassembler".to_owned()));
        assert_eq!(counter.count(&[0; 8]), Err("no disassembler".to_owned()));
    }
}
