//! Changes a load to a store of the same width to the same address, and finds reasons why the sanitizer need not report
//! the store.
//!
//! As in [`super::reasons`], the analysis uses the executed instructions of the mutated kernel. It considers the other
//! accesses to the stored bytes, and the barriers and atomics that order these accesses. If it cannot determine whether
//! two accesses are ordered, it treats them as ordered.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Range,
};

use device::{Arch, Microcode, ScopeBits};
use isa::AccessKind;

use super::reasons::{is_barrier, is_marked, is_marked_store};
use crate::trace::{Step, Touched};

/// A load: the beginning of its name, which contains the address space, and the number of bytes per lane and location.
struct Load<'a> {
    space: &'a str,
    bytes: u32,
    /// For a load from two locations in the LDS: true if its offsets count units of 64 elements, false if they count
    /// elements. `None` for a load from one location.
    two: Option<bool>,
}

impl Load<'_> {
    fn of(text: &str) -> Option<Load<'_>> {
        let mnemonic = text.split_whitespace().next()?;
        let (space, rest) = mnemonic.split_once('_')?;
        let is_lds = space == "ds";
        let what = match (is_lds, rest.split_once('_')) {
            (true, Some(("read" | "load", what))) => (what, None),
            (true, Some(("read2" | "load_2addr", what))) => (what, Some(false)),
            (true, Some(("read2st64", what))) => (what, Some(true)),
            (false, Some(("load", what))) if ["global", "flat"].contains(&space) => (what, None),
            _ => return None,
        };
        let (what, two) = match what.0.strip_prefix("2addr_") {
            Some(what) => match what.strip_prefix("stride64_") {
                Some(what) => (what, Some(true)),
                None => (what, Some(false)),
            },
            None => what,
        };
        let bytes = match what {
            "dword" | "b32" => 4,
            "dwordx2" | "b64" => 8,
            "dwordx3" | "b96" => 12,
            "dwordx4" | "b128" => 16,
            _ if ["byte", "u8", "i8"].iter().any(|name| what.contains(name)) => 1,
            _ if ["short", "u16", "i16", "b16"].iter().any(|name| what.contains(name)) => 2,
            _ => return None,
        };
        Some(Load { space, bytes, two })
    }
}

pub(super) fn is_load(text: &str) -> bool {
    Load::of(text).is_some()
}

/// Returns the encoding of the store that has the same width and address as a load; `None` if the load has no such
/// store. The caller checks the encoding with the disassembler. Source: "Microcode Formats" and the opcode tables of
/// the RDNA and CDNA ISA guides.
pub(super) fn store_of(arch: Arch, text: &str, words: &[u32]) -> Option<Vec<u32>> {
    let load = Load::of(text)?;
    let (gfx9, old) = match arch.facts().microcode {
        Microcode::Gfx9 => (true, true),
        Microcode::Gfx10 => (false, true),
        Microcode::Gfx11 | Microcode::Gfx12 | Microcode::Gfx1250 => (false, false),
    };
    let mut words = words.to_vec();
    if load.space == "ds" {
        let operation: u32 = match (load.bytes, load.two) {
            (1, None) => 30,
            (2, None) => 31,
            (4, None) => 13,
            (4, Some(false)) => 14,
            (4, Some(true)) => 15,
            (8, None) => 77,
            (8, Some(false)) => 78,
            (8, Some(true)) => 79,
            (12, None) => 222,
            (16, None) => 223,
            _ => return None,
        };
        let at = if gfx9 { 17 } else { 18 };
        let [first, second] = &mut words[..] else { return None };
        *first = *first & !(0xff << at) | operation << at;
        let (address, result) = (*second & 0xff, *second >> 24);
        let next = if load.two.is_some() { result + load.bytes / 4 } else { 0 };
        *second = address | result << 8 | next << 16;
        return Some(words);
    }
    let operation = match (load.bytes, old) {
        (1, _) => 24,
        (2, true) => 26,
        (4, true) => 28,
        (8, true) => 29,
        // On GFX10, the opcodes for three and four dwords are exchanged.
        (12, true) => {
            if gfx9 {
                30
            } else {
                31
            }
        }
        (16, true) => {
            if gfx9 {
                31
            } else {
                30
            }
        }
        (2, false) => 25,
        (4, false) => 26,
        (8, false) => 27,
        (12, false) => 28,
        (16, false) => 29,
        _ => return None,
    };
    match &mut words[..] {
        [first, second] => {
            *first = *first & !(0x7f << 18) | operation << 18;
            let result = *second >> 24;
            *second = *second & 0x00ff_00ff | result << 8;
        }
        // Instructions of three dwords exist on GFX12.
        [first, second, _] => {
            *first = *first & !(0xff << 14) | operation << 14;
            let result = *second & 0xff;
            *second = *second & !(0xff | 0xff << 23) | result << 23;
        }
        _ => return None,
    }
    Some(words)
}

/// Maximum number of pairs of accesses that the analysis examines. If there are more pairs, the sanitizer must report
/// the mutation.
const MAX_PAIRS: usize = 4000;

/// Executed instructions of a kernel in which a load was changed to a store.
pub(super) struct Changed<'a> {
    pub(super) arch: Arch,
    pub(super) steps: &'a [Step],
    pub(super) texts: &'a HashMap<u64, String>,
}

type Wave = (usize, u64, u32);

fn wave(step: &Step) -> Wave {
    (step.launch, step.workgroup, step.wave)
}

/// Identifies the memory that contains the accessed bytes: the device memory in a launch, or the LDS of a workgroup in
/// a launch.
fn place(step: &Step, touched: &Touched) -> (usize, Option<u64>) {
    (step.launch, touched.local.then_some(step.workgroup))
}

impl Changed<'_> {
    fn text(&self, step: &Step) -> &str {
        self.texts.get(&step.pc).map_or("", String::as_str)
    }

    /// Returns the reason why the sanitizer need not report the stores at address `changed`.
    ///
    /// # Errors
    /// Returns an error that describes an access of another wave that is not ordered with one of these stores.
    pub(super) fn reason(&self, changed: u64) -> Result<String, String> {
        // The indices of the steps that access each word of memory.
        let mut by_word: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, step) in self.steps.iter().enumerate() {
            for touched in &step.touched {
                for word in words(touched) {
                    by_word.entry((place(step, touched), word)).or_default().push(at);
                }
            }
        }
        let unchanged = self.unchanged();
        let (mut pairs, mut reasons) = (HashSet::new(), BTreeSet::new());
        for (at, step) in self.steps.iter().enumerate().filter(|(_, step)| step.pc == changed) {
            for touched in &step.touched {
                for word in words(touched) {
                    let all = by_word.get(&(place(step, touched), word)).into_iter().flatten();
                    let others = all.copied().filter(|other| {
                        let other = &self.steps[*other];
                        let mut meeting = other.touched.iter().filter(|one| one.meets(touched));
                        wave(other) != wave(step) && meeting.any(|one| !one.agrees(touched))
                    });
                    // A write that does not change the value of the word does not conflict with earlier accesses.
                    let others = others.filter(|other| {
                        touched.local || !unchanged.contains(&(at.max(*other), word))
                    });
                    pairs.extend(others.map(|other| (at.min(other), at.max(other))));
                }
            }
        }
        if pairs.is_empty() {
            return Ok(
                "other waves access these bytes only to write the same value, if at all".to_owned()
            );
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        let intervals = self.intervals();
        let mut looked = 0;
        for (first, second) in pairs {
            let (one, two) = (&self.steps[first], &self.steps[second]);
            if self.may_be_atomic(one, two) {
                reasons.insert("the store and all conflicting accesses may be atomic");
                continue;
            }
            // This test is a shortcut. If the two barrier counts differ, the workgroup has passed a barrier between the
            // two accesses.
            if one.is_of_workgroup(two) && intervals[first] != intervals[second] {
                reasons.insert("barriers or atomics order the store with all conflicting accesses");
                continue;
            }
            looked += 1;
            if looked > MAX_PAIRS {
                return Err("there are too many pairs of accesses to analyse".to_owned());
            }
            if self.is_ordered(first, second) {
                reasons.insert("barriers or atomics order the store with all conflicting accesses");
                continue;
            }
            let side = |step: &Step| {
                let Step { wave, workgroup, .. } = step;
                format!("`{}` of wave {wave} of workgroup {workgroup}", self.text(step))
            };
            return Err(format!(
                "{} conflicts with {}, and no barrier or atomic orders the two accesses",
                side(one),
                side(two)
            ));
        }
        Ok(reasons.into_iter().collect::<Vec<_>>().join("; "))
    }

    /// Returns the stores that did not change a word of memory, each as the index of the step and the number of the
    /// word. The word had the same value before the store and at the next access.
    fn unchanged(&self) -> HashSet<(usize, u64)> {
        let mut last: HashMap<(usize, u64), (usize, u32)> = HashMap::new();
        let mut unchanged = HashSet::new();
        for (at, step) in self.steps.iter().enumerate() {
            for (word, held) in &step.held {
                let before = last.insert((step.launch, *word), (at, *held));
                let stores = |step: &Step| self.text(step).contains("_store_");
                if let Some((before, found)) = before
                    && found == *held
                    && stores(&self.steps[before])
                {
                    unchanged.insert((before, *word));
                }
            }
        }
        unchanged
    }

    /// Returns, for each step, the number of barriers that its wave has passed before the step.
    fn intervals(&self) -> Vec<usize> {
        let mut passed: HashMap<Wave, usize> = HashMap::new();
        let number = |step: &Step| {
            let passed = passed.entry(wave(step)).or_default();
            let before = *passed;
            *passed += usize::from(is_barrier(self.text(step)));
            before
        };
        self.steps.iter().map(number).collect()
    }

    /// Returns true if both accesses are to memory and have the bits of atomic accesses. If stores of the architecture
    /// have no such bits, every store is treated as atomic.
    fn may_be_atomic(&self, one: &Step, two: &Step) -> bool {
        let says = match self.arch.facts().scope_bits {
            ScopeBits::Sc | ScopeBits::Scope => true,
            ScopeBits::Glc | ScopeBits::GlcDlc => false,
        };
        let may_be = |step: &Step| {
            let text = self.text(step);
            let stores = text.contains("_store_");
            if stores { !says || is_marked_store(text) } else { is_marked(text) }
        };
        let local = |step: &Step| step.touched.iter().any(|touched| touched.local);
        !local(one) && !local(two) && may_be(one) && may_be(two)
    }

    /// Returns true if the wave of step `second` has synchronised with step `first`: at a barrier, or through a location
    /// that one wave writes and the other reads with the bits of atomics.
    fn is_ordered(&self, first: usize, second: usize) -> bool {
        let begin = &self.steps[first];
        let mut knowing = HashSet::from([wave(begin)]);
        let mut told: HashSet<((usize, Option<u64>), u64)> = HashSet::new();
        // The number of barriers that each wave has passed, and the barriers at which a synchronised wave has arrived.
        let mut passed: HashMap<Wave, usize> = HashMap::new();
        let mut met: HashSet<(usize, u64, usize)> = HashSet::new();
        for (at, step) in self.steps[..=second].iter().enumerate() {
            let text = self.text(step);
            if is_barrier(text) {
                let number = passed.entry(wave(step)).or_default();
                let barrier = (step.launch, step.workgroup, *number);
                *number += 1;
                if at > first && knowing.contains(&wave(step)) {
                    met.insert(barrier);
                }
                continue;
            }
            if at <= first {
                continue;
            }
            // The wave is also synchronised if it has passed a barrier at which a synchronised wave had arrived.
            let number = passed.get(&wave(step)).copied().unwrap_or(0);
            let heard = number > 0 && met.contains(&(step.launch, step.workgroup, number - 1));
            if at == second {
                return heard || knowing.contains(&wave(step));
            }
            if heard {
                knowing.insert(wave(step));
            }
            // Accesses to the LDS have no bits that mark atomics, and spin loops on the LDS use plain accesses.
            // Therefore every LDS access is treated as an atomic.
            let marked = |touched: &&Touched| {
                touched.local
                    || touched.kind == AccessKind::Atomic
                    || is_marked(text)
                    || touched.kind == AccessKind::Store
            };
            for touched in step.touched.iter().filter(marked) {
                let own = || words(touched).map(|word| (place(step, touched), word));
                if touched.kind != AccessKind::Store && own().any(|word| told.contains(&word)) {
                    knowing.insert(wave(step));
                }
                if touched.kind != AccessKind::Load && knowing.contains(&wave(step)) {
                    told.extend(own());
                }
            }
        }
        false
    }
}

fn words(touched: &Touched) -> Range<u64> {
    touched.start / 4..touched.end.div_ceil(4)
}
