//! Random words of all encodings: no bit of an instruction that the interpreter executes is lost.
//!
//! A bit is lost if the instruction is executed as the same one with and without it. This test knows no encodings: it
//! begins with random words behind each start of nine bits, and goes on with what one other bit makes of those that have a
//! name, until it has seen enough words of each name. What is under test: the stack's disassembler, and what the interpreter
//! does about the bits that its text leaves out. The bits that hardware does not read stand in `unread.rs`, with the reason.

mod unread;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::c_int,
    fmt,
    sync::atomic::{AtomicU32, Ordering},
};

use device::Arch;

use unread::Reason;

/// Dwords of the longest instruction.
const DWORDS: usize = 5;
/// An instruction, and what follows it.
pub(super) type Words = [u32; DWORDS];
/// Random words behind each start.
const STARTS: usize = 240;

/// Counts and findings of one architecture.
#[derive(Default)]
pub(crate) struct Table {
    /// Names of instructions that are executed.
    names: BTreeSet<String>,
    pub(crate) words: usize,
    bits: usize,
    /// Words that are executed no longer with another value of a bit.
    refused: usize,
    unread: BTreeMap<Reason, usize>,
    pub(crate) lost: Vec<String>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { names, words, bits, refused, unread, lost } = self;
        write!(
            f,
            "{} instructions, {words} words, {bits} bits: {refused} refused, {} lost",
            names.len(),
            lost.len()
        )?;
        unread.iter().try_for_each(|(reason, bits)| write!(f, "\n    {bits} {reason}"))?;
        lost.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

struct Random(u64);

impl Random {
    /// Xorshift of Marsaglia, with the multiplication of Vigna.
    fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Words behind a start: as they come, with fewer bits, with few operands in the second, with an operand in the first that
    /// says that more follows.
    fn words(&mut self, start: u32) -> Words {
        let mut words = [0; DWORDS].map(|_: u32| self.word());
        let kind = self.word();
        if kind & 1 == 1 {
            words = words.map(|word| word & self.word());
        }
        if kind & 2 == 2 {
            words[1] &= [0x1ff, 0x3_ffff, 0xff, 0x07ff_ffff][kind as usize >> 2 & 3];
        }
        if kind & 0x30 == 0 {
            let more = [0xff, 0xfa, 0xf9, 0xe9, 0xea, 0x80, 0x101, 0xff][kind as usize >> 6 & 7];
            words[0] = words[0] & !0x1ff | more;
        }
        words[0] = words[0] & 0x7f_ffff | start << 23;
        words
    }
}

/// An instruction, as the interpreter reads it.
struct Read {
    text: String,
    size: usize,
    executed: bool,
}

/// The first dwords of what the disassembler is looking at.
static LOOKED_AT: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// Names the words that the disassembler dies of.
fn name_deaths() {
    extern "C" fn die(signal: c_int) {
        let [first, second] = &LOOKED_AT;
        let words = (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
        // The process ends: a lock that is held by then does no harm but to this line.
        println!("the disassembler died by signal {signal} of {:08x} {:08x}", words.0, words.1);
        // SAFETY: nothing runs behind it.
        unsafe { libc::_exit(1) };
    }
    for signal in [libc::SIGTRAP, libc::SIGILL, libc::SIGABRT, libc::SIGSEGV] {
        // SAFETY: the handler lives as long as the process.
        unsafe { libc::signal(signal, die as extern "C" fn(c_int) as libc::sighandler_t) };
    }
}

fn read(arch: Arch, words: &Words) -> Result<Option<Read>, String> {
    LOOKED_AT.iter().zip(words).for_each(|(at, word)| at.store(*word, Ordering::Relaxed));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let place = isa::instruction(arch, 0, &bytes)?;
    Ok(place.map(|place| Read { text: place.text, size: place.size, executed: place.executable }))
}

/// Tries `each` words of each name.
///
/// # Errors
/// Without a disassembler for the architecture: why.
pub(crate) fn check(arch: Arch, seed: u64, each: usize) -> Result<Table, String> {
    name_deaths();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut table = Table::default();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut next: VecDeque<(Words, Read)> = VecDeque::new();
    let mut meet = |words: Words, read: Read, next: &mut VecDeque<_>| {
        let name = read.text.split_whitespace().next().unwrap_or_default();
        let seen = seen.entry(name.to_owned()).or_default();
        // Of a name whose first words are not executed, others may be.
        if *seen < each * if read.executed { 1 } else { 4 } {
            *seen += 1;
            next.push_back((words, read));
        }
    };
    for start in 0..512 {
        for _ in 0..STARTS {
            let words = random.words(start);
            if let Some(read) = read(arch, &words)? {
                meet(words, read, &mut next);
            }
        }
    }
    while let Some((words, this)) = next.pop_front() {
        if this.executed {
            table.words += 1;
            table.names.extend(this.text.split_whitespace().next().map(str::to_owned));
        }
        for bit in 0..8 * this.size {
            let mut other = words;
            other[bit / 32] ^= 1 << (bit % 32);
            let Some(that) = read(arch, &other)? else { continue };
            if this.executed {
                table.bits += 1;
                table.refused += usize::from(!that.executed);
                if that.executed && (&that.text, that.size) == (&this.text, this.size) {
                    table.enter(&words, bit, &this);
                }
            }
            meet(other, that, &mut next);
        }
    }
    Ok(table)
}

impl Table {
    fn enter(&mut self, words: &Words, bit: usize, read: &Read) {
        match unread::reason(words, read.size, &read.text, bit) {
            Some(reason) => *self.unread.entry(reason).or_default() += 1,
            None => self.lost.push(format!(
                "bit {bit} of {:08x?}: {}",
                &words[..read.size / 4],
                read.text
            )),
        }
    }
}
