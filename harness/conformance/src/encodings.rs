//! Finds the instructions of an architecture. The disassembler of the stack decodes every opcode of each encoding.
//!
//! The encodings are described in AMD's ISA guides of Vega, CDNA 3 and RDNA 2 to 4, "Microcode formats".

use device::Arch;

use crate::Decoder;

/// Kind of an instruction. The kind determines which registers contain the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionGroup {
    /// Vector operands. Source operands are in v10, v20 and v30, or in s20 and s24. Results are in v40 or s40. Each
    /// operand continues in the following registers.
    Vector,
    /// Matrix operands. The registers are as for `Vector`, but the third source operand starts at v80, and the result
    /// may have up to 32 registers.
    Matrix,
    /// Scalar operands. Source operands are in s20 and s24, and results in s40. Each operand continues in the following
    /// registers.
    Scalar,
}

/// An instruction with its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Text of the instruction, as the disassembler of the stack prints it.
    pub text: String,
    /// Machine code of the instruction, in dwords.
    pub words: Vec<u32>,
    /// Kind of the instruction.
    pub group: InstructionGroup,
    /// True if this build of the emulated device can execute the instruction.
    pub emulated: bool,
}

/// Operand numbers of the source registers: v10, v20 and v30 (`V`), v80 (`MATRIX_C`), and s20 and s24 (`S`). Numbers of
/// the result registers: v40 or s40 (`RESULT`), and s44 (`SECOND`).
const V: [u32; 3] = [256 + 10, 256 + 20, 256 + 30];
const MATRIX_C: u32 = 256 + 80;
const S: [u32; 2] = [20, 24];
const RESULT: u32 = 40;
const SECOND: u32 = 44;

/// Source operands of vector instructions, in the order in which they are tried. The disassembler accepts only operands
/// that the opcode allows.
const SOURCES: [[u32; 3]; 9] = [
    V,
    [V[0], V[1], S[1]],
    [V[0], V[1], 0],
    [V[0], S[0], S[1]],
    [V[0], S[1], 0],
    [S[0], S[1], V[2]],
    [S[0], S[1], 0],
    [V[0], 0, 0],
    [S[0], 0, 0],
];

/// Prefixes of instructions that are not executed. They change the control flow, wait for other waves, modify later
/// instructions, have results that differ between runs, or use other registers.
const EXCLUDED: &[&str] = &[
    "v_movrel",
    "v_interp",
    "v_nop",
    "v_clrexcp",
    "v_pipeflush",
    "v_illegal",
    "v_swaprel",
    "v_accvgpr",
    "v_mov_from_global",
    "v_mov_to_global",
    "v_prng",
    "s_setpc",
    "s_set_pc",
    "s_swap_pc",
    "s_get_pc",
    "s_swappc",
    "s_rfe",
    "s_getpc",
    "s_cbranch",
    "s_call",
    "s_branch",
    "s_movrel",
    "s_set_gpr",
    "s_sendmsg",
    "s_barrier",
    "s_alloc_vgpr",
    "s_sleep",
    "s_get_barrier",
    "s_wakeup",
    "s_set_vgpr",
    "s_getreg",
    "s_setreg",
    "s_waitcnt",
    "s_wait",
    "s_subvector",
    "s_version",
    "s_setprio",
    "s_setvskip",
    "s_memtime",
    "s_mov_fed",
    "s_setkill",
    "s_endpgm",
    "s_trap",
    "s_prefetch",
    "s_load",
    "s_store",
    "s_add_pc",
    "s_mov_to_global",
    "s_mov_from_global",
    "s_set_valu",
    "s_get_shader",
    "s_rfe",
    "s_fork",
    "s_join",
    "s_invperm",
];

/// Returns all instructions that the disassembler of the stack knows and that may be executed.
///
/// # Errors
/// Fails if the stack has no disassembler for the architecture.
pub fn instructions(decoder: &Decoder, arch: Arch) -> Result<Vec<Instruction>, String> {
    let mut all = Vec::new();
    // This loop handles VOP3. Every instruction with one to three source operands has a form in this encoding.
    let base: u32 = if arch.facts().microcode.is_gfx9() { 0xd000_0000 } else { 0xd400_0000 };
    for op in 0..if arch.facts().microcode.is_gfx9() { 0x380 } else { 0x400 } {
        let word = base | op << 16 | RESULT;
        all.extend(first_executable(
            (decoder, arch),
            InstructionGroup::Vector,
            &SOURCES.map(|sources| vector(word, sources, 0)),
        )?);
    }
    // This loop handles VOP3P, which contains packed arithmetic, dot products and matrix instructions. The encodings
    // select the upper half of each packed operand for the upper half of the result.
    let base: u32 = if arch.facts().microcode.is_gfx9() { 0xd380_0000 } else { 0xcc00_0000 };
    for op in 0..0x80 {
        let word = base | op << 16 | RESULT | 1 << 14;
        let forms = SOURCES.map(|sources| vector(word, sources, 3 << 27));
        // In older matrix instructions, the bits that select the upper halves have other meanings.
        let plain = vector(base | op << 16 | RESULT, [V[0], V[1], MATRIX_C], 0);
        let packed = vector(word, [V[0], V[1], MATRIX_C], 3 << 27);
        match first_executable((decoder, arch), InstructionGroup::Vector, &forms)? {
            Some(one) if is_matrix(&one.text) => {
                let forms = if one.text.contains("wmma") { vec![packed] } else { vec![plain] };
                all.extend(first_executable((decoder, arch), InstructionGroup::Matrix, &forms)?);
            }
            Some(one) => all.push(one),
            None => {
                let found =
                    first_executable((decoder, arch), InstructionGroup::Matrix, &[plain, packed])?;
                all.extend(found.filter(|one| is_matrix(&one.text)));
            }
        }
    }
    // These loops handle SOP2, SOPK with an immediate, SOP1 and SOPC.
    for op in 0..0x60 {
        let word = 0x8000_0000 | op << 23 | RESULT << 16 | S[1] << 8 | S[0];
        all.extend(first_executable((decoder, arch), InstructionGroup::Scalar, &[vec![word]])?);
    }
    for op in 0..0x1d {
        all.extend(first_executable(
            (decoder, arch),
            InstructionGroup::Scalar,
            &[vec![0xb000_0000 | op << 23 | RESULT << 16 | 0x1234]],
        )?);
    }
    for op in 0..0x100 {
        all.extend(first_executable(
            (decoder, arch),
            InstructionGroup::Scalar,
            &[vec![0xbe80_0000 | RESULT << 16 | op << 8 | S[0]]],
        )?);
    }
    for op in 0..0x80 {
        all.extend(first_executable(
            (decoder, arch),
            InstructionGroup::Scalar,
            &[vec![0xbf00_0000 | op << 16 | S[1] << 8 | S[0]]],
        )?);
    }
    // Two encodings of an architecture may have the same text. In this case, only the first one is kept.
    let mut texts = std::collections::HashSet::new();
    all.retain(|one| texts.insert(one.text.clone()));
    Ok(all)
}

fn is_matrix(text: &str) -> bool {
    ["v_mfma", "v_smfmac", "v_wmma", "v_swmmac"].iter().any(|start| text.starts_with(start))
}

fn vector(word: u32, [a, b, c]: [u32; 3], bits: u32) -> Vec<u32> {
    vec![word, a | b << 9 | c << 18 | bits]
}

/// Returns the first of the encodings in `forms` that the disassembler knows; `None` if the disassembler knows none of
/// them, or if the instruction must not be executed. Encodings that the emulated device supports take precedence.
fn first_executable(
    by: (&Decoder, Arch),
    group: InstructionGroup,
    forms: &[Vec<u32>],
) -> Result<Option<Instruction>, String> {
    let mut lacking = None;
    for words in forms {
        let Some(one) = instruction(by, group, words)? else { continue };
        if EXCLUDED.iter().any(|start| one.text.starts_with(start)) {
            return Ok(None);
        }
        if one.emulated {
            return Ok(Some(one));
        }
        lacking.get_or_insert(one);
    }
    Ok(lacking)
}

fn instruction(
    by: (&Decoder, Arch),
    group: InstructionGroup,
    words: &[u32],
) -> Result<Option<Instruction>, String> {
    let Some(one) = disassemble(by, group, words)? else { return Ok(None) };
    // Without this change, the instruction would write its second result to s0, although s0 has another use in the
    // kernel.
    let second = one.text.split(", ").nth(1).unwrap_or_default();
    if group == InstructionGroup::Vector && ["s0", "s[0:1]", "s[0:3]"].contains(&second) {
        let moved = [words[0] | SECOND << 8, words[1]];
        return disassemble(by, group, &moved);
    }
    Ok(Some(one))
}

fn disassemble(
    (decoder, arch): (&Decoder, Arch),
    group: InstructionGroup,
    words: &[u32],
) -> Result<Option<Instruction>, String> {
    let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let size = code.len();
    // The disassembler reads bytes after the end of the instruction, so the buffer is padded.
    code.extend([0xbf80_0000u32; 4].iter().flat_map(|word| word.to_le_bytes()));
    let Some(found) = decoder.decode(arch, 0, &code)? else { return Ok(None) };
    // For some invalid encodings, the disassembler prints an instruction with a remark.
    if found.size != size || found.text.contains("/*") {
        return Ok(None);
    }
    Ok(Some(Instruction {
        text: found.text,
        words: words.to_vec(),
        group,
        emulated: found.executable,
    }))
}
