//! Counting what code is made of.

use std::collections::{BTreeMap, HashMap};

use device::Arch;
use probe::{Decoded, Decoder};

/// What was found of one opcode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Opcode {
    /// Instructions of it, known and unknown.
    pub(super) count: u64,
    /// Those that the interpreter would refuse.
    pub(super) missing: u64,
    /// The text of the first that it would refuse.
    pub(super) example: Option<String>,
}

/// Counts the instructions of code, opcode by opcode.
///
/// The code is read from its first byte to its last, so bytes between kernels that are no instructions are met;
/// they are counted apart.
pub(super) struct Tally<'a> {
    decoder: &'a Decoder,
    arch: Arch,
    /// By the bytes of the instruction. That an encoding is one, two or three dwords long shows in its first ones.
    one: HashMap<u32, usize>,
    two: HashMap<u64, usize>,
    three: HashMap<(u64, u32), usize>,
    kinds: Vec<Kind>,
    index: HashMap<(String, bool), usize>,
    illegal: u64,
}

/// An opcode, known or not.
struct Kind {
    name: String,
    missing: bool,
    example: String,
    count: u64,
}

impl Tally<'_> {
    /// Of code for one architecture.
    pub(super) fn new(decoder: &Decoder, arch: Arch) -> Tally<'_> {
        Tally {
            decoder,
            arch,
            one: HashMap::new(),
            two: HashMap::new(),
            three: HashMap::new(),
            kinds: Vec::new(),
            index: HashMap::new(),
            illegal: 0,
        }
    }

    /// Counts what is in `code`.
    ///
    /// # Errors
    /// Without a disassembler for the architecture: why.
    pub(super) fn read(&mut self, code: &[u8]) -> Result<(), String> {
        let dword = |at: usize| {
            let bytes = code.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        let mut at = 0;
        while at + 4 <= code.len() {
            let first = dword(at);
            let pair = u64::from(first) | u64::from(dword(at + 4)) << 32;
            let triple = (pair, dword(at + 8));
            let known = (self.one.get(&first).map(|kind| (*kind, 4)))
                .or_else(|| self.two.get(&pair).map(|kind| (*kind, 8)))
                .or_else(|| self.three.get(&triple).map(|kind| (*kind, 12)));
            let (kind, size) = match known {
                Some(known) => known,
                None => {
                    let Some((kind, size)) = self.look(&code[at..], at as u64)? else {
                        self.illegal += 1;
                        at += 4;
                        continue;
                    };
                    match size {
                        4 => self.one.insert(first, kind),
                        8 => self.two.insert(pair, kind),
                        12 => self.three.insert(triple, kind),
                        _ => None,
                    };
                    (kind, size)
                }
            };
            self.kinds[kind].count += 1;
            at += size;
        }
        Ok(())
    }

    /// Decodes one instruction; `None` is no instruction.
    fn look(&mut self, window: &[u8], address: u64) -> Result<Option<(usize, usize)>, String> {
        let decoded = self.decoder.decode(self.arch, address, window)?;
        let Some(Decoded { text, size, executable }) = decoded else { return Ok(None) };
        let missing = !executable;
        let name = opcode(&text);
        let kind = *self.index.entry((name.clone(), missing)).or_insert_with(|| {
            self.kinds.push(Kind { name, missing, example: text.clone(), count: 0 });
            self.kinds.len() - 1
        });
        Ok(Some((kind, size)))
    }

    /// What was found, by opcode.
    pub(super) fn opcodes(&self) -> BTreeMap<String, Opcode> {
        let mut opcodes: BTreeMap<String, Opcode> = BTreeMap::new();
        for kind in &self.kinds {
            let opcode = opcodes.entry(kind.name.clone()).or_default();
            opcode.count += kind.count;
            if kind.missing {
                opcode.missing += kind.count;
                opcode.example.get_or_insert_with(|| kind.example.clone());
            }
        }
        opcodes
    }

    /// Dwords that are no instructions: padding and tables between kernels.
    pub(super) fn illegal(&self) -> u64 {
        self.illegal
    }
}

/// The opcode of an instruction's text; of two that are issued at once, both.
fn opcode(text: &str) -> String {
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    match text.split_once(" :: ") {
        Some((a, b)) => format!("{} :: {}", first(a), first(b)),
        None => first(text),
    }
}
