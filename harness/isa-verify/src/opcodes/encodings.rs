//! Encodes vector instructions bit by bit. Source: "Microcode Formats" of AMD's ISA guides for Vega, CDNA 1 to 3 and
//! RDNA 1 to 4.

use device::Arch;

/// First register whose value a test sets. In the plain form of an instruction, the result is in this register (v8, or
/// s8 if the result is scalar), and the source operands are in v10, v12 and v14.
pub(super) const FIRST: u32 = 8;
const SOURCES: [u32; 3] = [FIRST + 2, FIRST + 4, FIRST + 6];
/// Number of the first vector register, v0, among the 512 operand numbers.
pub(super) const VECTOR: u32 = 256;
/// Value of the first source operand field that means: the next dword contains the first source operand and its DPP
/// control.
const DPP16: u32 = 250;
const DPP8: u32 = 233;
const SDWA: u32 = 249;
pub(super) const LITERAL: u32 = 255;
/// Constant of an instruction with a mandatory 32-bit constant, for example `v_fmaak_f32`. It follows the instruction.
pub(super) const MANDATORY: u32 = 0x4123_4567;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
}

impl Encoding {
    pub(super) const ALL: [Encoding; 5] =
        [Encoding::Vop1, Encoding::Vop2, Encoding::Vopc, Encoding::Vop3, Encoding::Vop3p];

    pub(super) fn opcodes(self, arch: Arch) -> u32 {
        match self {
            Encoding::Vop1 | Encoding::Vopc => 256,
            // Larger opcodes of VOP2 mean that the instruction is VOP1 or VOPC.
            Encoding::Vop2 => 62,
            // Larger opcodes of VOP3 on GFX9 mean that the instruction is VOP3P.
            Encoding::Vop3 if arch.facts().microcode.is_gfx9() => 0x380,
            Encoding::Vop3 => 1024,
            Encoding::Vop3p => 128,
        }
    }

    /// Returns true if the encoding has two dwords. In these encodings, every source operand may be a vector register,
    /// a scalar register or a constant.
    pub(super) fn is_long(self) -> bool {
        matches!(self, Encoding::Vop3 | Encoding::Vop3p)
    }

    /// Returns the encodings that may be the plain form of an opcode. Their source operands are vector registers, and
    /// they have no modifiers. For VOP3 and VOP3P, these are encodings with three source operands, with two, and with
    /// one, because disassemblers before LLVM 22 require zeros in unused source operand fields. For VOP2, these are
    /// encodings without and with a literal.
    pub(super) fn plain(self, arch: Arch, opcode: u32) -> Vec<Vec<u32>> {
        let gfx9 = arch.facts().microcode.is_gfx9();
        let [a, b, c] = SOURCES.map(|register| VECTOR + register);
        let operands = [a | b << 9 | c << 18, a | b << 9, a];
        match self {
            Encoding::Vop1 => vec![vec![0x3f << 25 | FIRST << 17 | opcode << 9 | a]],
            Encoding::Vop2 => {
                let word = opcode << 25 | FIRST << 17 | SOURCES[1] << 9 | a;
                vec![vec![word], vec![word, MANDATORY]]
            }
            Encoding::Vopc => vec![vec![0x3e << 25 | opcode << 17 | SOURCES[1] << 9 | a]],
            Encoding::Vop3 => {
                let encoding = if gfx9 { 0x34 << 26 } else { 0x35 << 26 };
                operands.map(|operands| vec![encoding | opcode << 16 | FIRST, operands]).to_vec()
            }
            Encoding::Vop3p => {
                let encoding = if gfx9 { 0x1a7 << 23 } else { 0x198 << 23 };
                // All bits of op_sel_hi are set, so that the upper result uses the upper halves.
                let first = encoding | opcode << 16 | 1 << 14 | FIRST;
                operands.map(|operands| vec![first, operands | 3 << 27]).to_vec()
            }
        }
    }

    /// Returns the VOP3 encoding of an instruction that is given in a shorter encoding; `None` for VOP3 and VOP3P.
    pub(super) fn lengthened(self, arch: Arch, words: &[u32]) -> Option<Vec<u32>> {
        let (opcode, sources) = match (self, arch.facts().microcode.is_gfx9()) {
            (Encoding::Vopc, _) => (words[0] >> 17 & 0xff, 2),
            (Encoding::Vop2, _) => (0x100 | words[0] >> 25, 2),
            (Encoding::Vop1, true) => (0x140 + (words[0] >> 9 & 0xff), 1),
            (Encoding::Vop1, false) => (0x180 + (words[0] >> 9 & 0xff), 1),
            _ => return None,
        };
        Encoding::Vop3.plain(arch, opcode).into_iter().nth(3 - sources)
    }

    /// Returns true if the source operand of the plain form is a vector register. Where a scalar register is required,
    /// the plain form contains s0.
    pub(super) fn has_vector(self, words: &[u32], source: usize) -> bool {
        !self.is_long() || words[1] >> (9 * source) & 0x1ff >= VECTOR
    }

    /// Replaces a source operand by operand number `operand`; `None` if the encoding does not allow this.
    pub(super) fn with_source(
        self,
        words: &[u32],
        source: usize,
        operand: u32,
    ) -> Option<Vec<u32>> {
        let mut words = words.to_vec();
        match (self.is_long(), source) {
            (true, _) => words[1] = words[1] & !(0x1ff << (9 * source)) | operand << (9 * source),
            (false, 0) => words[0] = words[0] & !0x1ff | operand,
            (false, 1) if self != Encoding::Vop1 && operand >= VECTOR => {
                words[0] = words[0] & !(0xff << 9) | (operand - VECTOR) << 9;
            }
            (false, _) => return None,
        }
        Some(words)
    }

    pub(super) fn with_result(self, words: &[u32], register: u32) -> Option<Vec<u32>> {
        let mut words = words.to_vec();
        match self {
            Encoding::Vopc => return None,
            Encoding::Vop1 | Encoding::Vop2 => words[0] = words[0] & !(0xff << 17) | register << 17,
            _ => words[0] = words[0] & !0xff | register,
        }
        Some(words)
    }

    /// Returns the instruction with DPP or SDWA control for its first source operand. `way` is the operand number that
    /// means DPP or SDWA, and `control` is the control dword without its register field.
    fn with_first(self, words: &[u32], way: u32, control: u32) -> Option<Vec<u32>> {
        let mut words = self.with_source(words, 0, way)?;
        words.push(control | SOURCES[0]);
        Some(words)
    }

    /// Adds DPP16 control to the instruction. `control` is the value of the field `DPP_CTRL`, and `rest` contains the
    /// other fields of the control dword.
    pub(super) fn dpp16(self, words: &[u32], control: u32, rest: u32) -> Option<Vec<u32>> {
        self.with_first(words, DPP16, control << 8 | rest)
    }

    /// Adds DPP8 control to the instruction. In each group of eight lanes, lane `n` reads from lane `lanes[n]`. If
    /// `fetch` is true, the values of inactive lanes may be read.
    pub(super) fn dpp8(self, words: &[u32], lanes: [u32; 8], fetch: bool) -> Option<Vec<u32>> {
        let lanes = lanes.iter().enumerate().map(|(at, lane)| lane << (8 + 3 * at));
        self.with_first(words, DPP8 + u32::from(fetch), lanes.fold(0, |all, lane| all | lane))
    }

    /// Returns the SDWA control dword that selects whole registers for all operands.
    pub(super) fn whole(self) -> u32 {
        const DWORD: u32 = 6;
        match self {
            // For a comparison, these bits are the register of the mask, which is vcc.
            Encoding::Vopc => DWORD << 16 | DWORD << 24,
            _ => DWORD << 8 | DWORD << 16 | DWORD << 24,
        }
    }

    /// Adds SDWA control to the instruction. `control` is the SDWA dword without the register.
    pub(super) fn sdwa(self, words: &[u32], control: u32) -> Option<Vec<u32>> {
        (!self.is_long()).then(|| self.with_first(words, SDWA, control)).flatten()
    }
}

/// Returns true if, in 32-bit encodings, one bit of the register number selects the upper half of the register.
pub(super) fn numbers_halves(arch: Arch) -> bool {
    arch.facts().selects_halves
}
