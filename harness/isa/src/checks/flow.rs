//! Describes how instructions propagate uninitialised data between registers.
//!
//! If the state of a result is unclear, it is treated as initialised, because a missed error is better than a false
//! report. A value is also treated as initialised if only some of its bytes are uninitialised. The result of an
//! instruction that combines several lanes (a comparison, a permutation, a matrix product) is uninitialised only if a
//! source is uninitialised in all active lanes. Source for the operands: LLVM's syntax of AMDGPU instructions.

use crate::{
    control::MOVES,
    operation::DataFlow,
    ops::{self, image},
    text::{Base, Text, register},
};

/// A register whose state, initialised or not, is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// A vector register.
    Row(usize),
    /// A scalar register, including the interpreter's internal ones.
    Scalar(u16),
}

/// Rule that determines the state of the registers that an instruction writes (targets) from the state of those that it
/// reads (sources).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Each target register gets the state of the source register at the same position.
    Copy,
    /// The instruction rearranges bits. A result is uninitialised only if all sources are.
    Bits,
    /// The result depends on each source, so it is uninitialised if any source is.
    Compute,
    /// In each lane, the result is the second source if the mask bit is set, otherwise the first source.
    Select {
        /// First scalar register of the mask.
        mask: u16,
    },
    /// The result is the first source if SCC is one, otherwise the second source.
    SelectScalar,
    /// All lanes of the target get the same state. It is uninitialised if one of the sources is uninitialised in all
    /// active lanes.
    Across {
        /// True if the result is computed from several lanes, false if values are only copied between lanes.
        computes: bool,
    },
    /// The instruction exchanges its two targets.
    Swap,
    /// The targets are known only at run time. Therefore the state of all registers becomes initialised.
    Forget,
    /// The source operands decide whether a branch is taken, or which lanes are active.
    Control,
}

/// Propagation of uninitialised data by one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Rule for all targets.
    pub rule: Rule,
    /// Registers that the instruction writes.
    pub targets: Vec<Register>,
    /// For each operand, the registers that the instruction reads. Constants are omitted.
    pub sources: Vec<Vec<Register>>,
}

pub(super) fn registers(base: &Base) -> Vec<Register> {
    match *base {
        Base::Vector { first, count } => {
            (first..first + count).map(|row| Register::Row(row.into())).collect()
        }
        Base::Scalar { first, count } => (first..first + count).map(Register::Scalar).collect(),
        _ => Vec::new(),
    }
}

/// Returns how an instruction propagates uninitialised data between registers; `None` if it does not. The type `Shadow`
/// handles the data that an instruction loads or stores.
pub fn flow(text: &Text) -> Option<Flow> {
    let operands: Vec<Vec<Register>> =
        text.operands.iter().map(|operand| registers(&operand.base)).collect();
    let some = |rule, targets, sources: &[Vec<Register>]| {
        let sources = sources.iter().filter(|registers| !registers.is_empty()).cloned().collect();
        Some(Flow { rule, targets, sources })
    };
    let rest = |from: usize| operands.get(from..).unwrap_or_default();
    let first = operands.first().cloned().unwrap_or_default();
    let passes = ops::passes(text);
    match passes {
        DataFlow::Nothing => return None,
        DataFlow::Branches(by) => {
            return some(Rule::Control, Vec::new(), &[vec![Register::Scalar(by)]]);
        }
        DataFlow::Condition => {
            return some(Rule::Compute, vec![Register::Scalar(register::SCC)], &operands);
        }
        DataFlow::Masks => return some(Rule::Control, first, rest(1)),
        DataFlow::Compares if operands.len() == 3 => return some(Rule::Control, first, rest(1)),
        DataFlow::Compares => return some(Rule::Control, Vec::new(), &operands),
        DataFlow::Anywhere => return some(Rule::Forget, Vec::new(), &[]),
        DataFlow::Swaps => return some(Rule::Swap, operands.concat(), &[]),
        DataFlow::Mixes => {
            let rows = operands.concat().into_iter().filter(|one| matches!(one, Register::Row(_)));
            return some(Rule::Copy, rows.collect(), &[]);
        }
        _ if first.is_empty() => return None,
        _ if first.contains(&Register::Scalar(register::EXEC)) => {
            return some(Rule::Control, first, rest(1));
        }
        // The data operand follows the addresses or the lane number.
        DataFlow::Picks if text.mnemonic.starts_with("ds_") => {
            let sources = operands.get(2..3).unwrap_or(rest(1));
            return some(Rule::Across { computes: false }, first, sources);
        }
        DataFlow::Selects => {
            if let Some(Base::Scalar { first: mask, .. }) = text.operands.get(3).map(|o| &o.base) {
                // Both entries are kept, even if one is a constant, because the rule depends on their positions.
                let sources = vec![operands[1].clone(), operands[2].clone()];
                return Some(Flow { rule: Rule::Select { mask: *mask }, targets: first, sources });
            }
        }
        DataFlow::SelectsScalar if operands.len() == 3 => {
            let sources = operands[1..].into();
            return Some(Flow { rule: Rule::SelectScalar, targets: first, sources });
        }
        _ => {}
    }
    let mut targets = first;
    let mut sources = rest(1);
    let vector = matches!(targets[0], Register::Row(_));
    if passes == DataFlow::Flags && !sources.is_empty() {
        targets.extend(&sources[0]);
        sources = rest(2);
    }
    let mut all = sources.to_vec();
    let accumulates = match passes {
        DataFlow::Accumulates => operands.len() < 4,
        DataFlow::AccumulatesAcross => true,
        _ => false,
    };
    if accumulates {
        all.push(targets.clone());
    }
    let moves_lanes = text.modifier_names().any(|modifier| MOVES.contains(&modifier));
    let copies = passes == DataFlow::Copies;
    let rule = match passes {
        DataFlow::Across | DataFlow::AccumulatesAcross => Rule::Across { computes: true },
        DataFlow::Picks => Rule::Across { computes: false },
        _ if moves_lanes => Rule::Across { computes: !copies },
        DataFlow::Copies => Rule::Copy,
        DataFlow::Bits => Rule::Bits,
        _ if !vector && operands.iter().flatten().any(|r| matches!(r, Register::Row(_))) => {
            Rule::Across { computes: true }
        }
        _ => Rule::Compute,
    };
    some(rule, targets, &all)
}

/// Returns the registers that form the address of a memory access.
pub fn address(text: &Text) -> Vec<Register> {
    let returns = usize::from(super::access::returns(text));
    let operands: &[usize] = match text.mnemonic.split_once('_') {
        // Loads to the LDS have no target register, so the address starts at operand 0.
        Some(("global", rest)) if rest.starts_with("load_lds") => &[0, 1],
        Some(("buffer", _)) if text.has("lds") => &[0, 1, 2],
        Some(("global" | "flat" | "scratch", rest)) if rest.starts_with("store") => &[0, 2],
        Some(("global" | "flat" | "scratch", rest)) if rest.starts_with("atomic") => {
            &[[0, 2], [1, 3]][returns]
        }
        Some(("global" | "flat" | "scratch" | "s", _)) => &[1, 2],
        Some(("buffer", _)) => &[1, 2, 3],
        Some(("image", _)) => {
            let rows = image::rows(text, 1).unwrap_or_default();
            let scalars = text.operands.iter().skip(2);
            let descriptors = scalars.flat_map(|operand| registers(&operand.base));
            return rows.into_iter().map(Register::Row).chain(descriptors).collect();
        }
        Some(("ds", rest)) if rest.starts_with("read") || rest.starts_with("load") => &[1],
        Some(("ds", rest)) => &[usize::from(rest.contains("_rtn"))],
        _ => &[],
    };
    operands
        .iter()
        .filter_map(|index| text.operands.get(*index))
        .flat_map(|operand| registers(&operand.base))
        .collect()
}
