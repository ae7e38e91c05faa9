//! Which instructions of a piece of code the interpreter would execute, by the way that it decodes them itself.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use device::Arch;

use crate::program::{Decoded, decode, decoded};

/// An instruction of a piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the code.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// As the disassembler prints it.
    pub text: String,
}

/// The instructions of code, one behind the other; what is none is left out.
///
/// # Errors
/// Without a disassembler for the architecture: why.
pub fn listing(arch: Arch, code: &[u8]) -> Result<Vec<Place>, String> {
    let (mut places, mut offset) = (Vec::new(), 0);
    while offset + 4 <= code.len() {
        let window = &code[offset..code.len().min(offset + crate::disassembler::LONGEST)];
        let decoded = decode(arch, arch.wave_size() as usize, offset as u64, window)?;
        let size = decoded.as_ref().map_or(4, |decoded| decoded.site.size as usize);
        places.extend(decoded.map(|Decoded { text, .. }| Place { offset, size, text }));
        offset += size;
    }
    Ok(places)
}

/// The opcodes of what waves have executed of code for an architecture that still lies in memory, each once.
///
/// # Safety
/// The range must be mapped and readable.
pub unsafe fn executed(arch: Arch, code: Range<u64>) -> BTreeSet<String> {
    let length = (code.end - code.start) as usize;
    let bytes = std::ptr::with_exposed_provenance::<u8>(code.start as usize);
    // SAFETY: as the caller promises.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    let mut opcodes = BTreeSet::new();
    decoded(arch, code.start, bytes, |text| {
        // Two that are issued at once are two.
        let names = text.split(" :: ").filter_map(|one| one.split_whitespace().next());
        opcodes.extend(names.map(str::to_owned));
    });
    opcodes
}

/// What was found of one opcode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opcode {
    /// Instructions of it, known and unknown.
    pub count: u64,
    /// Those that the interpreter would refuse.
    pub missing: u64,
    /// The text of the first that it would refuse.
    pub example: Option<String>,
}

/// Counts the instructions of code, opcode by opcode.
///
/// The code is read from its first byte to its last, so bytes between kernels that are no instructions are met;
/// they are counted apart.
pub struct Audit {
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

impl Audit {
    /// Of code for one architecture.
    pub fn new(arch: Arch) -> Audit {
        Audit {
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
    pub fn read(&mut self, code: &[u8]) -> Result<(), String> {
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
                    let window = &code[at..code.len().min(at + crate::disassembler::LONGEST)];
                    let Some((kind, size)) = self.look(window, at as u64)? else {
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
        let Some(Decoded { text, site, exec, .. }) =
            decode(self.arch, self.arch.wave_size() as usize, address, window)?
        else {
            return Ok(None);
        };
        let missing = exec.is_err();
        let name = opcode(&text);
        let kind = *self.index.entry((name.clone(), missing)).or_insert_with(|| {
            self.kinds.push(Kind { name, missing, example: text.clone(), count: 0 });
            self.kinds.len() - 1
        });
        Ok(Some((kind, site.size as usize)))
    }

    /// What was found, by opcode.
    pub fn opcodes(&self) -> BTreeMap<String, Opcode> {
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
    pub fn illegal(&self) -> u64 {
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
