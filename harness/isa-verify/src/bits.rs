//! Tests random instruction words of all encodings: the interpreter must not ignore any bit of an instruction that it
//! executes.
//!
//! A bit is lost if the interpreter executes the instruction in the same way with and without it. The test does not
//! know the encodings. It starts with random words after each 9-bit prefix. If the disassembler knows an instruction
//! with these words, the test changes single bits, and continues in the same way with the resulting instructions until
//! it has tested enough instructions of each name. This tests the stack's disassembler, and how the interpreter treats
//! bits that the disassembler's text omits. Bits that hardware ignores are listed in `unread.rs`, with their reasons.

mod unread;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::c_int,
    fmt,
    sync::atomic::{AtomicU32, Ordering},
};

use device::Arch;

use unread::Reason;

/// Number of dwords of the longest instruction.
const DWORDS: usize = 5;
/// The dwords of an instruction and of the bytes that follow it.
pub(super) type Words = [u32; DWORDS];
/// Number of random instructions that are tried for each prefix.
const STARTS: usize = 240;

#[derive(Default)]
pub(crate) struct Table {
    names: BTreeSet<String>,
    pub(crate) words: usize,
    bits: usize,
    /// Number of tested bit changes after which the interpreter does not support the instruction any more.
    refused: usize,
    unread: BTreeMap<Reason, usize>,
    pub(crate) lost: Vec<String>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { names, words, bits, refused, unread, lost } = self;
        write!(
            f,
            "{} instructions, {words} encodings, {bits} changed bits: {refused} then unsupported, {} lost",
            names.len(),
            lost.len()
        )?;
        unread.iter().try_for_each(|(reason, bits)| write!(f, "\n    {bits} bits {reason}"))?;
        lost.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

struct Random(u64);

impl Random {
    /// Generates a number with Marsaglia's xorshift generator, followed by Vigna's multiplication.
    fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Returns random words for an instruction that starts with the nine bits of `start`. Some results are changed, so
    /// that more kinds of instructions occur: fewer bits are set, the second dword has few operands, or the first
    /// source operand is a special number, for example 0xff, which means that a literal follows.
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

struct Read {
    text: String,
    size: usize,
    executed: bool,
}

/// First two dwords of the instruction that is being disassembled.
static CURRENT_INSTRUCTION: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// Installs handlers for the signals of a crash. The handlers print the instruction that is being disassembled.
fn name_deaths() {
    extern "C" fn die(signal: c_int) {
        let [first, second] = &CURRENT_INSTRUCTION;
        let words = (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
        // If the crashed thread holds a lock, this line can block, but no other code is affected, because the process
        // ends afterwards.
        println!(
            "the disassembler crashed with signal {signal} on the encoding {:08x} {:08x}",
            words.0, words.1
        );
        // SAFETY: the call ends the process, so nothing runs afterwards.
        unsafe { libc::_exit(1) };
    }
    for signal in [libc::SIGTRAP, libc::SIGILL, libc::SIGABRT, libc::SIGSEGV] {
        // SAFETY: the handler lives as long as the process.
        unsafe { libc::signal(signal, die as extern "C" fn(c_int) as libc::sighandler_t) };
    }
}

fn read(arch: Arch, words: &Words) -> Result<Option<Read>, String> {
    CURRENT_INSTRUCTION.iter().zip(words).for_each(|(at, word)| at.store(*word, Ordering::Relaxed));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let place = isa::instruction(arch, 0, &bytes)?;
    Ok(place.map(|place| Read { text: place.text, size: place.size, executed: place.executable }))
}

/// Tests up to `each` instructions of each mnemonic, starting with random words that are drawn with `seed`.
///
/// # Errors
/// Returns the reason why no disassembler for the architecture is available.
pub(crate) fn check(arch: Arch, seed: u64, each: usize) -> Result<Table, String> {
    name_deaths();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut table = Table::default();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut next: VecDeque<(Words, Read)> = VecDeque::new();
    let mut meet = |words: Words, read: Read, next: &mut VecDeque<_>| {
        let name = read.text.split_whitespace().next().unwrap_or_default();
        let seen = seen.entry(name.to_owned()).or_default();
        // If the first instructions with a mnemonic are not executable, others with the same mnemonic may be.
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
                "bit {bit} of {:08x?} is lost: {}",
                &words[..read.size / 4],
                read.text
            )),
        }
    }
}
