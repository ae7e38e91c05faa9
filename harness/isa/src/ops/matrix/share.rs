//! Use of elements of other blocks and lanes in MFMA.

use crate::text::{Text, Unsupported};

/// Broadcast of blocks of A and lanes of B.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// CBSZ: log2 of the number of blocks that use the same A. ABID is the number of the block, among these, that
    /// contains this A.
    blocks: u32,
    of: usize,
    /// BLGP: permutation of the lanes of B.
    pub(super) lanes: usize,
}

impl Share {
    /// Parses the modifiers.
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

    /// Returns the number of the block that contains the A of a block.
    pub(super) fn block(self, block: usize) -> usize {
        (block >> self.blocks << self.blocks) + self.of
    }

    /// Returns the lane that contains the part of B that a lane uses.
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
