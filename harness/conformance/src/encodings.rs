//! The instructions of an architecture: every opcode of an encoding that the disassembler of the stack has a name for.
//!
//! Source of the encodings: AMD's ISA guides of Vega, CDNA 3 and RDNA 2 to 4, "Microcode formats".

use device::Arch;

use crate::Decoder;

/// What an instruction works on, and so where its operands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Lanes: sources from v10, v20 and v30 or s20 and s24 on, results from v40 or s40 on.
    Vector,
    /// Matrices: the same with a third source from v80 on, and wide results.
    Matrix,
    /// Scalars: sources s20 and s24, results from s40 on.
    Scalar,
}

/// One instruction with its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// As the disassembler of the stack prints it.
    pub text: String,
    /// Its code.
    pub words: Vec<u32>,
    /// What it works on.
    pub group: Group,
    /// Whether this build of the emulated device can execute it.
    pub emulated: bool,
}

/// Registers of operands: v10, v20, v30, v80, and s20, s24 as sources; 40 as a result; s44 as a second one.
const V: [u32; 3] = [256 + 10, 256 + 20, 256 + 30];
const MATRIX_C: u32 = 256 + 80;
const S: [u32; 2] = [20, 24];
const RESULT: u32 = 40;
const SECOND: u32 = 44;

/// Sources of vector instructions, in the order in which they are tried: the disassembler has a name for what fits.
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

/// What is not executed: it would direct the wave elsewhere, wait for others, change what comes behind it, give what is of this run
/// alone, or use registers that others do not expect.
const LEFT_OUT: &[&str] = &[
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

/// All of them that a stack's disassembler knows.
///
/// # Errors
/// Without a disassembler for the architecture: why.
pub fn instructions(decoder: &Decoder, arch: Arch) -> Result<Vec<Instruction>, String> {
    let mut all = Vec::new();
    // VOP3, in which every instruction of one to three sources has a form.
    let base: u32 = if arch.generation().is_gfx9() { 0xd000_0000 } else { 0xd400_0000 };
    for op in 0..if arch.generation().is_gfx9() { 0x380 } else { 0x400 } {
        let word = base | op << 16 | RESULT;
        all.extend(first(
            (decoder, arch),
            Group::Vector,
            &SOURCES.map(|sources| vector(word, sources, 0)),
        )?);
    }
    // VOP3P: packed arithmetic, dot products, and matrices. Of packed sources the upper half gives the upper half.
    let base: u32 = if arch.generation().is_gfx9() { 0xd380_0000 } else { 0xcc00_0000 };
    for op in 0..0x80 {
        let word = base | op << 16 | RESULT | 1 << 14;
        let forms = SOURCES.map(|sources| vector(word, sources, 3 << 27));
        // What matrix instructions have in the place of those bits is for the older ones something else.
        let plain = vector(base | op << 16 | RESULT, [V[0], V[1], MATRIX_C], 0);
        let packed = vector(word, [V[0], V[1], MATRIX_C], 3 << 27);
        match first((decoder, arch), Group::Vector, &forms)? {
            Some(one) if is_matrix(&one.text) => {
                let forms = if one.text.contains("wmma") { vec![packed] } else { vec![plain] };
                all.extend(first((decoder, arch), Group::Matrix, &forms)?);
            }
            Some(one) => all.push(one),
            None => {
                let found = first((decoder, arch), Group::Matrix, &[plain, packed])?;
                all.extend(found.filter(|one| is_matrix(&one.text)));
            }
        }
    }
    // SOP2, SOPK with a number of its own, SOP1 and SOPC.
    for op in 0..0x60 {
        let word = 0x8000_0000 | op << 23 | RESULT << 16 | S[1] << 8 | S[0];
        all.extend(first((decoder, arch), Group::Scalar, &[vec![word]])?);
    }
    for op in 0..0x1d {
        all.extend(first(
            (decoder, arch),
            Group::Scalar,
            &[vec![0xb000_0000 | op << 23 | RESULT << 16 | 0x1234]],
        )?);
    }
    for op in 0..0x100 {
        all.extend(first(
            (decoder, arch),
            Group::Scalar,
            &[vec![0xbe80_0000 | RESULT << 16 | op << 8 | S[0]]],
        )?);
    }
    for op in 0..0x80 {
        all.extend(first(
            (decoder, arch),
            Group::Scalar,
            &[vec![0xbf00_0000 | op << 16 | S[1] << 8 | S[0]]],
        )?);
    }
    // Encodings of another generation may have the same text.
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

/// The first of these that is an instruction and may be executed; one that the emulated device has before one that it lacks.
fn first(
    by: (&Decoder, Arch),
    group: Group,
    forms: &[Vec<u32>],
) -> Result<Option<Instruction>, String> {
    let mut lacking = None;
    for words in forms {
        let Some(one) = instruction(by, group, words)? else { continue };
        if LEFT_OUT.iter().any(|start| one.text.starts_with(start)) {
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
    group: Group,
    words: &[u32],
) -> Result<Option<Instruction>, String> {
    let Some(one) = named(by, group, words)? else { return Ok(None) };
    // A second result would go to s0, where other values are.
    let second = one.text.split(", ").nth(1).unwrap_or_default();
    if group == Group::Vector && ["s0", "s[0:1]", "s[0:3]"].contains(&second) {
        let moved = [words[0] | SECOND << 8, words[1]];
        return named(by, group, &moved);
    }
    Ok(Some(one))
}

fn named(
    (decoder, arch): (&Decoder, Arch),
    group: Group,
    words: &[u32],
) -> Result<Option<Instruction>, String> {
    let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let size = code.len();
    // The disassembler looks ahead.
    code.extend([0xbf80_0000u32; 4].iter().flat_map(|word| word.to_le_bytes()));
    let Some(found) = decoder.decode(arch, 0, &code)? else { return Ok(None) };
    // It also prints what an encoding cannot mean, with a remark.
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
