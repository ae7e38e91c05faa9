//! Tests vector and scalar instructions in all forms of their encodings against the plain form of the same instruction.
//! The plain form has only registers as operands and has no modifiers.
//!
//! The instruction words are built from the chapters "Microcode Formats" of AMD's ISA guides. Every opcode that the
//! stack's disassembler knows is tested. Most tests need no formulas. For example, a source operand is read from
//! another lane, is half of a register, or is a constant. The result must then equal that of the plain form after a
//! corresponding change of the registers. This tests the disassembler's text, the parser of this text, and how the
//! interpreter handles operands. For loads, stores and saturated integers (`clamp`), the tests compute the expected
//! results. Other tests check the results of plain forms, for example the test `forms`.

mod claim;
mod encodings;
mod known;
mod lanes;
mod matrix;
mod memory;
mod pairs;
mod parts;
mod relations;
mod saturation;
mod scalar;
mod slot;
mod types;

use std::{collections::BTreeMap, fmt};

use device::Arch;

use claim::Claim;
use encodings::Encoding;
use slot::{Slot, State};

#[derive(Default)]
pub(crate) struct Table {
    relations: BTreeMap<&'static str, Counts>,
    pub(crate) wrong: Vec<String>,
}

#[derive(Default)]
struct Counts {
    same: usize,
    /// Forms of instructions that the interpreter does not support, although it supports the plain forms of the same
    /// instructions.
    refused: Vec<String>,
}

impl Table {
    /// Returns the number of tested claims that turned out to be true. A claim says that a form of an instruction has
    /// the same effect as its plain form.
    pub(crate) fn held(&self) -> usize {
        self.relations.values().map(|counts| counts.same).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (relation, Counts { same, refused }) in &self.relations {
            write!(f, "    {relation}: {same} agree, {} not supported", refused.len())?;
            if let Some(one) = refused.first() {
                write!(f, ", for example {one}")?;
            }
            writeln!(f)?;
        }
        self.wrong.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

pub(crate) fn check(arch: Arch, wave64: bool) -> Result<Table, String> {
    let mut slot = Slot::new(arch, wave64)?;
    let mut table = Table::default();
    let mut known = pairs::Known::new();
    for encoding in Encoding::ALL {
        for opcode in 0..encoding.opcodes(arch) {
            let Some((plain, text)) = slot.plain(encoding, opcode) else { continue };
            for claim in relations::of(arch, encoding, &plain, &text) {
                table.take(&mut slot, claim);
            }
            if let Some(name) = text.split_whitespace().next()
                && matches!(encoding, Encoding::Vop1 | Encoding::Vop2)
            {
                known.insert(name.trim_end_matches("_e32").to_owned(), (encoding, plain));
            }
        }
    }
    let mut scalars = scalar::Known::new();
    for plain in scalar::words() {
        let Some(text) = slot.text(&[plain]) else { continue };
        scalars.insert(text.split_whitespace().next().unwrap_or_default().to_owned(), plain);
        for claim in scalar::of(plain, &text) {
            table.take(&mut slot, claim);
        }
    }
    for word in scalar::with_immediates() {
        let Some(text) = slot.text(&[word]) else { continue };
        for claim in scalar::of_immediates(word, &text, &scalars) {
            table.take(&mut slot, claim);
        }
    }
    for words in pairs::words() {
        let Some(text) = slot.text(&words).filter(|text| pairs::has_its_sources(text)) else {
            continue;
        };
        if let Some(claim) = pairs::of(words, &text, &known) {
            table.take(&mut slot, claim);
        }
    }
    memory::check(arch, wave64, &mut table, matrix::check)?;
    let claimed = |name: &str| table.relations.get(name).map_or(0, |counts| counts.same);
    let missed = known::missed(arch.facts(), claimed, table.held());
    table.wrong.extend(missed);
    Ok(table)
}

/// Compares a wave of 64 lanes with a wave of 32 lanes: the lower 32 lanes must have the same results.
pub(crate) fn sizes(arch: Arch) -> Result<Table, String> {
    let mut slots = [Slot::new(arch, false)?, Slot::new(arch, true)?];
    let mut table = Table::default();
    for encoding in Encoding::ALL {
        for opcode in 0..encoding.opcodes(arch) {
            let Some((plain, text)) = slots[0].plain(encoding, opcode) else { continue };
            let name = text.split_whitespace().next().unwrap_or_default();
            if types::crosses_lanes(name) {
                continue;
            }
            let left = slots.each_mut().map(|slot| {
                let given = slot.given(u64::MAX, true);
                slot.run(&plain, &given).map(State::of_32)
            });
            let [Some(of_32), Some(of_64)] = left else { continue };
            table.enter(
                "a wave of 64",
                &text,
                "the instruction in a wave of 32",
                of_64.difference(&of_32),
            );
        }
    }
    let missed = known::missed_of_sizes(table.held());
    table.wrong.extend(missed);
    Ok(table)
}

impl Table {
    fn take(&mut self, slot: &mut Slot, claim: Claim) {
        // The encoding does not have this form if the disassembler does not know an instruction with these words, or
        // prints the same text as for the words without the form.
        let without = claim.without.as_ref().and_then(|words| slot.text(words));
        let says = |text: &String| Some(text) != without.as_ref() && text.contains(claim.told);
        let Some(text) = slot.text(&claim.words).filter(says) else { return };
        let like = match claim.in_turn {
            true => "the two instructions in sequence".to_owned(),
            false => match slot.text(&claim.like) {
                Some(like) => like,
                None => return,
            },
        };
        let mut given = slot.given(claim.exec, claim.condition);
        (claim.given)(&mut given);
        let mut changed = given.clone();
        (claim.before)(&mut changed);
        let around = |words: &[u32]| [&claim.first, words, &claim.last].concat();
        let Some(mut expected) = slot.run(&around(&claim.like), &changed) else {
            self.gap(known::IN_NO_FORM, if claim.in_turn { &text } else { &like });
            return;
        };
        let Some(mut got) = slot.run(&around(&claim.words), &given) else {
            self.gap(claim.relation, &text);
            self.relations.entry(claim.relation).or_default().refused.push(text);
            return;
        };
        expected.unchange(&changed, &given);
        (claim.after)(&given, &mut got, &mut expected);
        // If two operands of a fused sum are NaNs, it depends on the host's processor and on the compiled loop which of
        // them is the result.
        if ["v_fma_f32", "v_fmac_f32"].iter().any(|name| text.starts_with(name)) {
            got.take_nans(&expected);
        }
        self.enter(claim.relation, &text, &like, got.difference(&expected));
    }

    fn gap(&mut self, relation: &'static str, text: &str) {
        let name = text.split_whitespace().next().unwrap_or_default();
        let name = ["_e32", "_dpp", "_sdwa", "_e64"]
            .iter()
            .fold(name, |name, suffix| name.trim_end_matches(suffix));
        if !known::is_lacking(relation, name) {
            self.wrong.push(format!("{relation}: the interpreter does not support {text}"));
        }
    }

    fn enter(
        &mut self,
        relation: &'static str,
        text: &str,
        like: &str,
        difference: Option<String>,
    ) {
        match difference {
            None => self.relations.entry(relation).or_default().same += 1,
            Some(difference) => {
                self.wrong.push(format!("{relation}: {text} differs from {like}: {difference}"));
            }
        }
    }
}
