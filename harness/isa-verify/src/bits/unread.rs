//! Bits of instructions that have no effect, with the reasons. The reasons are from AMD's ISA guides, not from the
//! interpreter.

use std::fmt;

use super::Words;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// The instruction affects only caches, counters or hazards, none of which the emulated device has.
    NoEffect,
    /// The bit is in the upper half of a literal: "16-bit operands take the low 16 bits of the literal" (RDNA 3 ISA,
    /// 7.1, "Literal constants").
    UpperHalf,
    /// The bit is in `OP_SEL_HI`, which selects the half of a source operand that is used for the upper half of the
    /// result (RDNA 3 ISA, "VOP3P"). The bit has no effect if the source operand does not exist or the operation uses
    /// whole registers. Compilers set it anyway.
    NoPair,
    /// The bit is in a source operand field that the instruction does not use. LLVM 22 writes the constant 0 there, and
    /// older versions write the number 0.
    NoSource,
    /// The bit is in a register field that the instruction does not use, for example the data of a load. DS, FLAT,
    /// MUBUF and their successors have one field for each register that any of their instructions uses ("Microcode
    /// Formats").
    NoRegister,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NoEffect => "of instructions without an effect",
            Reason::UpperHalf => "in the upper half of a constant for a 16-bit operand",
            Reason::NoPair => "that select a half of an operand without halves",
            Reason::NoSource => {
                "that are 0, or encode the constant 0, for a source operand that does not exist"
            }
            Reason::NoRegister => "in fields for registers that the instruction does not use",
        })
    }
}

const NO_EFFECT: [&str; 20] = [
    "s_nop",
    "s_version",
    "s_waitcnt",
    "s_wait_",
    "s_sendmsg",
    "s_code_end",
    "s_delay_alu",
    "s_clause",
    "s_set_inst_prefetch_distance",
    "s_inst_prefetch",
    "s_prefetch_",
    "s_setprio",
    "s_ttracedata",
    "s_wakeup",
    "s_incperflevel",
    "s_decperflevel",
    "s_dcache_",
    "s_icache_inv",
    "s_gl1_inv",
    "v_nop",
];
const CACHES: [&str; 9] = [
    "buffer_gl0_inv",
    "buffer_gl1_inv",
    "buffer_wbl2",
    "buffer_inv",
    "buffer_wbinvl1",
    "global_inv",
    "global_wb",
    "global_wbinv",
    "s_dcache_wb",
];

/// Returns the reason why bit number `bit` of an instruction has no effect; `None` if no reason is known.
pub(super) fn reason(words: &Words, size: usize, text: &str, bit: usize) -> Option<Reason> {
    let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
    if NO_EFFECT.iter().chain(&CACHES).any(|start| name.starts_with(start)) {
        return Some(Reason::NoEffect);
    }
    // VOP3P: 0b110100111 on GFX9, 0b110011000 from GFX10 on.
    let packed = matches!(words[0] >> 23, 0x1a7 | 0x198);
    let pairs =
        name.starts_with("v_pk_") || name.starts_with("v_fma_mix") || name.contains("_mad_mix");
    if packed && bit == 14 && name.starts_with("v_pk_") && operands.split(", ").count() == 3 {
        return Some(Reason::NoPair);
    }
    if packed && matches!(bit, 14 | 59 | 60) && !pairs && !name.starts_with("v_dot2") {
        return Some(Reason::NoPair);
    }
    // The literal follows the first dword of the instruction, or the second one in VOP3 and VOP3P.
    let long = matches!(words[0] >> 26, 0x33 | 0x35);
    let narrow = ["f16", "i16", "u16", "b16"].iter().any(|of| name.contains(of));
    if narrow && size == if long { 12 } else { 8 } && bit >= 8 * size - 16 {
        return Some(Reason::UpperHalf);
    }
    // The register fields are, in this order: those of DS and FLAT in the second dword, of MUBUF and MTBUF in the
    // second dword, of VBUFFER in the second and third dword, and of VFLAT and similar encodings.
    let register = match (words[0] >> 26, size) {
        (0x36 | 0x37, 8) => bit >= 40,
        (0x38 | 0x3a, 8) => (32..40).contains(&bit),
        (0x31, 12) => (55..62).contains(&bit) || (64..72).contains(&bit),
        (0x3b, 12) => (32..40).contains(&bit) || (55..72).contains(&bit) && bit != 63,
        _ => false,
    };
    if register && !(words[0] >> 26 == 0x37 && (48..56).contains(&bit)) {
        return Some(Reason::NoRegister);
    }
    // An unused field contains either 0 or 0x80. These numbers differ in one bit.
    let long = long || words[0] >> 26 == 0x34;
    let source = (0..3).any(|source| {
        let at = 9 * source;
        bit == 32 + at + 7 && words[1] >> at & 0x1ff & !0x80 == 0
    });
    (long && source).then_some(Reason::NoSource)
}
