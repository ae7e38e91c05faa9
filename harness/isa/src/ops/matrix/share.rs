//! Modifiers of MFMA instructions. They make blocks and lanes use elements of A or B that belong to other blocks and
//! lanes.

use crate::text::{Text, Unsupported};

/// Modifiers that broadcast blocks of A and permute lanes of B.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// `blocks` is the modifier CBSZ: log2 of the number of consecutive blocks that use the same A. `of` is the
    /// modifier ABID: the number, among these blocks, of the block whose A is used.
    blocks: u32,
    of: usize,
    /// Modifier BLGP: number of the permutation that is applied to the lanes of B.
    pub(super) lanes: usize,
}

impl Share {
    /// Parses the modifiers of an instruction.
    ///
    /// Source: the CDNA 3 ISA guide, "MFMA broadcasting values", and AMD's matrix instruction calculator.
    pub(super) fn parse(text: &Text, blocks: usize) -> Result<Share, Unsupported> {
        let field = |name| usize::try_from(text.number(name)?).map_err(|_| Unsupported);
        let (cbsz, of, lanes) = (field("cbsz")?, field("abid")?, field("blgp")?);
        if cbsz > 4 || 1 << cbsz > blocks || of >= 1 << cbsz || lanes > 7 {
            return Err(Unsupported);
        }
        Ok(Share { blocks: cbsz as u32, of, lanes })
    }

    /// Returns the number of the block whose A is used for block `block`.
    pub(super) fn block(self, block: usize) -> usize {
        (block >> self.blocks << self.blocks) + self.of
    }

    /// Returns the number of the lane whose elements of B are used for lane `lane`.
    pub(super) fn lane(self, lane: usize) -> usize {
        match self.lanes {
            1 => lane % 32,
            2 => lane % 32 + 32,
            3 => (lane + 16) % 64,
            part @ 4..=7 => lane % 16 + 16 * (part - 4),
            _ => lane,
        }
    }
}
