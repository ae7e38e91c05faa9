//! Counting what code is made of.

use std::collections::{BTreeMap, HashMap};

use crate::Decoded;

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

/// The instruction with which bytes begin that lie at an address; nothing where that is none. Or why nobody can say.
type Decode<'a> = dyn FnMut(u64, &[u8]) -> Result<Option<Decoded>, String> + 'a;

/// Counts the instructions of code, opcode by opcode.
///
/// The code is read from its first byte to its last, so bytes between kernels that are no instructions are met;
/// they are counted apart.
pub struct Tally<'a> {
    decode: Box<Decode<'a>>,
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

impl<'a> Tally<'a> {
    /// Of code for one architecture, which `decode` decodes.
    pub fn new(
        decode: impl FnMut(u64, &[u8]) -> Result<Option<Decoded>, String> + 'a,
    ) -> Tally<'a> {
        Tally {
            decode: Box::new(decode),
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
        let decoded = (self.decode)(address, window)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The upper bytes of a dword name the opcode, and how many dwords its instruction has; 0 is none. The one of two dwords
    /// with an odd second one is not executed.
    fn decode(window: &[u8]) -> Option<Decoded> {
        let size = usize::from(window[3] & 3) * 4;
        let whole = size > 0 && window.len() >= size;
        whole.then(|| Decoded {
            text: match window[2] & 1 {
                0 => format!("v_{} v{}, v{}", window[3], window[0], window[1]),
                _ => format!("v_{} v{} :: v_other v{}", window[3], window[0], window[1]),
            },
            size,
            executable: size != 8 || window[4].is_multiple_of(2),
        })
    }

    /// Nothing is remembered here.
    fn plainly(code: &[u8]) -> (BTreeMap<String, Opcode>, u64) {
        let (mut opcodes, mut illegal, mut at) = (BTreeMap::<String, Opcode>::new(), 0, 0);
        while code.len() - at >= 4 {
            let Some(Decoded { text, size, executable }) = decode(&code[at..]) else {
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
                opcode.missing += 1;
                opcode.example.get_or_insert(text);
            }
            at += size;
        }
        (opcodes, illegal)
    }

    #[test]
    fn what_is_remembered_by_its_bytes_is_counted_as_if_it_were_decoded_each_time() {
        // Few values, so that most dwords were met before, as first, second and third ones.
        let mut state = 7_u64;
        let mut drawn = || {
            state = device::mix(state + 1);
            let of = |shift: u32, of: u64| (state >> shift) % of;
            [of(0, 3) as u8, of(8, 2) as u8, of(16, 2) as u8, of(24, 5) as u8]
        };
        let code: Vec<u8> = (0..4000).flat_map(|_| drawn()).chain([1, 2]).collect();
        let mut decoded = 0;
        let mut tally = Tally::new(|at, window| {
            decoded += 1;
            assert_eq!(window, &code[at as usize..]);
            Ok(decode(window))
        });
        tally.read(&code).expect("no reason not to");
        let (opcodes, illegal) = plainly(&code);
        assert!(illegal > 100 && opcodes.values().any(|opcode| opcode.missing > 50));
        let all = opcodes.values().map(|opcode| opcode.count).sum::<u64>() + illegal;
        assert_eq!((tally.opcodes(), tally.illegal()), (opcodes, illegal));
        drop(tally);
        assert!(decoded < all * 4 / 5, "{decoded} of {all}");
    }

    #[test]
    fn why_nobody_can_say_is_handed_on() {
        let mut tally = Tally::new(|_, _| Err("no disassembler".to_owned()));
        assert_eq!(tally.read(&[0; 8]), Err("no disassembler".to_owned()));
    }
}
