//! Tests how the interpreter handles bits that the disassembler's text omits. Fake disassemblers print a few
//! instructions like released disassemblers.

use device::Arch::{self, *};
use isa::inside::{
    lost_bits::{completed, refusal},
    text::Site,
    unnamed::Named,
    wave::Wave,
};

use super::{execute, wave};

fn dwords(bytes: &[u8]) -> [u32; 3] {
    [0, 4, 8].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
}

/// Disassembles VOP3 like the comgr of ROCm 7.2.4 for GFX12 and that of ROCm 6.4.3 for GFX11, which do not print
/// `op_sel`. The texts are copied from their output.
fn without_op_sel(bytes: &[u8]) -> Named {
    let [first, second, _] = dwords(bytes);
    let [a, b, c] = [0, 9, 18].map(|at| second >> at & 0x1ff);
    let target = first & 0xff;
    let register = |operand: u32| format!("v{}", operand & 0xff);
    let (name, result) = match first >> 16 {
        0xd762 => ("v_and_b16", register(target)),
        0xd763 => ("v_or_b16", register(target)),
        0xd738 => ("v_lshlrev_b16", register(target)),
        0xd70b => ("v_min_u16", register(target)),
        0xd70a => ("v_max_i16", register(target)),
        0xd439 => ("v_cmp_lt_u16_e64", format!("s{target}")),
        0xd43a => ("v_cmp_eq_u16_e64", format!("s{target}")),
        // The third source operand of this instruction is the mask s0.
        0xd65d => {
            let sources = a >= 256 && b >= 256 && c == 0;
            let text =
                format!("v_cndmask_b16 {}, {}, {}, s0", register(target), register(a), register(b));
            return Ok((sources && second >> 27 == 0).then_some((text, 8)));
        }
        _ => return Ok(None),
    };
    // This instruction is an integer operation with two source operands, so its sign and absolute-value bits must be
    // zero.
    let whole = a >= 256 && b >= 256 && c == 0 && first & 0x8700 == 0 && second >> 27 == 0;
    Ok(whole.then(|| (format!("{name} {result}, {}, {}", register(a), register(b)), 8)))
}

fn bytes(words: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(32, 0);
    bytes
}

/// Completes the text of an instruction. Returns the text, and the numbers of the bits that still do not affect it.
#[track_caller]
fn complete(arch: Arch, words: &[u32], name: &dyn Fn(&[u8]) -> Named) -> (String, Vec<usize>) {
    let bytes = bytes(words);
    let (text, size) = name(&bytes).unwrap().expect("an instruction");
    completed(&Site { size, ..Site::for_arch(arch) }, &bytes, text, name).unwrap()
}

/// Values of v1 and v2 in each lane. [`BEFORE`] is the initial value of v0.
const SOURCES: [u32; 2] = [0x8003_00f5, 0x7ff1_9234];
const BEFORE: u32 = 0xaaaa_5555;

#[track_caller]
fn executed(arch: Arch, text: &str) -> Wave {
    let mut wave = wave(arch);
    for lane in 0..wave.lanes {
        for (row, value) in [BEFORE, SOURCES[0], SOURCES[1]].into_iter().enumerate() {
            wave.set_lane(row, lane, value);
        }
    }
    execute(arch, &mut wave, text);
    wave
}

/// Compares `v_and_b16 v0.?, v1.?, v2.?` and similar instructions with Rust, for all combinations of halves.
#[test]
fn omitted_halves_come_from_the_encoding() {
    type Model = fn(u16, u16) -> u16;
    let models: [(u32, Model); 5] = [
        (0xd762, |a, b| a & b),
        (0xd763, |a, b| a | b),
        // The first operand of LSHLREV is the shift count.
        (0xd738, |a, b| b << (a & 15)),
        (0xd70b, |a, b| a.min(b)),
        (0xd70a, |a, b| (a as i16).max(b as i16) as u16),
    ];
    let half = |value: u32, upper: bool| (value >> if upper { 16 } else { 0 }) as u16;
    for (arch, (opcode, model)) in [Gfx1201, Gfx1200, Gfx1151, Gfx1100]
        .into_iter()
        .flat_map(|arch| models.map(|it| (arch, it)))
    {
        for halves in 0..8 {
            let [a, b, result] = [0, 1, 2].map(|at| halves >> at & 1 == 1);
            let op_sel = u32::from(a) << 11 | u32::from(b) << 12 | u32::from(result) << 14;
            let words = [opcode << 16 | op_sel, 0x0002_0501];
            let (text, lost) = complete(arch, &words, &without_op_sel);
            assert_eq!(lost, [0; 0], "{arch}: {text}");
            let wave = executed(arch, &text);
            let value = u32::from(model(half(SOURCES[0], a), half(SOURCES[1], b)));
            let expected = match result {
                true => value << 16 | BEFORE & 0xffff,
                false => BEFORE & 0xffff_0000 | value,
            };
            for lane in 0..wave.lanes {
                assert_eq!(wave.lane(0, lane), expected, "{arch}, {halves:03b}: {text}");
            }
        }
    }
}

#[test]
fn comparisons_read_the_encoded_halves() {
    for arch in [Gfx1201, Gfx1151] {
        for (opcode, model) in [
            (0xd439, (|a, b| a < b) as fn(u16, u16) -> bool),
            (0xd43a, (|a, b| a == b) as fn(u16, u16) -> bool),
        ] {
            for halves in 0..4 {
                let words = [opcode << 16 | 5 | halves << 11, 0x0002_0501];
                let (text, lost) = complete(arch, &words, &without_op_sel);
                assert_eq!(lost, [0; 0], "{text}");
                let half = |at: usize| (SOURCES[at] >> (16 * (halves >> at & 1))) as u16;
                let expected = if model(half(0), half(1)) { u32::MAX } else { 0 };
                assert_eq!(executed(arch, &text).scalar[5], expected, "{arch}: {text}");
            }
        }
    }
}

#[test]
fn selections_write_the_encoded_half() {
    for (halves, taken) in [(0, SOURCES[0]), (1, SOURCES[0] >> 16), (2, SOURCES[0])] {
        for upper in [false, true] {
            let words = [0xd65d << 16 | halves << 11 | u32::from(upper) << 14, 0x0002_0501];
            let (text, lost) = complete(Gfx1201, &words, &without_op_sel);
            assert_eq!(lost, [0; 0], "{text}");
            // s0 is 0, so the first source operand is selected.
            let expected = match upper {
                true => taken << 16 | BEFORE & 0xffff,
                false => BEFORE & 0xffff_0000 | taken & 0xffff,
            };
            assert_eq!(executed(Gfx1201, &text).lane(0, 7), expected, "{text}");
        }
    }
    assert_eq!(complete(Gfx1201, &[0xd65d_2000, 0x0002_0501], &without_op_sel).1, [13]);
}

/// The instruction has no third source operand, and the result of a comparison is not a half, so instructions with
/// `op_sel` bits for these operands are rejected. Before GFX11, LLVM prints `op_sel` of all instructions with halves,
/// so instructions with any lost bit are rejected.
#[test]
fn rejects_lost_bits_by_number() {
    let lost = |arch, words: [u32; 2]| complete(arch, &words, &without_op_sel).1;
    assert_eq!(lost(Gfx1201, [0xd762_2000, 0x0002_0501]), [13]);
    assert_eq!(lost(Gfx1201, [0xd762_6800, 0x0002_0501]), [13]);
    assert_eq!(lost(Gfx1201, [0xd439_4005, 0x0002_0501]), [14]);
    assert_eq!(lost(Gfx1030, [0xd762_0800, 0x0002_0501]), [11]);
    let bytes = bytes(&[0xd762_2000, 0x0002_0501]);
    assert_eq!(
        refusal("v_and_b16 v0, v1, v2", &bytes, 8, &[13]),
        "v_and_b16 v0, v1, v2, encoded as d7622000 00020501, of which the disassembler leaves out bit 13"
    );
}

/// Imitates a disassembler that knows three kinds of instructions: operations whose third source operand is the
/// constant 0, packed operations in which the bit that compilers set for such an operand is set, and operations with
/// constants.
fn of_many(bytes: &[u8]) -> Named {
    let [first, second, third] = dwords(bytes);
    let sources = format!("v{}, v{}", second & 0xff, second >> 9 & 0xff);
    let registers = second & 0x100 != 0 && second & 0x2_0000 != 0;
    Ok(match first {
        // Disassemblers since LLVM 22 ignore source operand fields that an instruction does not use.
        0xd703_0000 if registers && second >> 27 == 0 => {
            Some((format!("v_add_nc_u16 v0, {sources}"), 8))
        }
        // In this operation, the text omits the bit that selects the half of the second source operand for the upper
        // result.
        0xcc02_0000 | 0xcc02_4000 if registers && second >> 29 == 0 => {
            let upper = if second >> 27 & 1 == 1 { "" } else { " op_sel_hi:[0,1]" };
            Some((format!("v_pk_add_i16 v0, {sources}{upper}"), 8))
        }
        0x6400_04ff => Some((format!("v_add_f16_e32 v0, {:#x}, v2", second & 0xffff), 8)),
        0xd701_0000 if second == 0x0002_04ff => {
            Some((format!("v_sub_f16_e64 v0, {:#x}, v2", third & 0xffff), 12))
        }
        0xbf80_0000..=0xbf80_ffff => Some(("s_nop 0".to_owned(), 4)),
        _ => None,
    })
}

#[test]
fn accepts_bits_that_hardware_ignores() {
    #[track_caller]
    fn check(words: &[u32], expected: &[usize]) {
        assert_eq!(complete(Gfx1201, words, &of_many).1, expected, "{words:08x?}");
    }
    // The third source operand does not exist. Its field contains the constant 0, the number 0, or another operand.
    check(&[0xd703_0000, 0x0202_0501], &[]);
    check(&[0xd703_0000, 0x0002_0501], &[]);
    check(&[0xd703_0000, 0x0206_0501], &[50, 57]);
    // The lost bits select the half of a third source operand that does not exist, and the half of the second operand.
    check(&[0xcc02_4000, 0x1802_0501], &[60]);
    check(&[0xcc02_0000, 0x0802_0501], &[60]);
    // The lost bits are in the upper half of a constant.
    check(&[0x6400_04ff, 0xffff_8000], &[]);
    check(&[0xd701_0000, 0x0002_04ff, 0xffff_8000], &[]);
    // The lost bits of an instruction without an effect do not matter.
    check(&[0xbf80_0007], &[]);
}

/// Prints the pattern like LLVM: as `1` for each bit of the `or` mask, whatever the `and` mask contains.
fn swizzle(bytes: &[u8]) -> Named {
    let [first, second, _] = dwords(bytes);
    let digit = |bit: u32| match [0, 5, 10].map(|mask| first >> mask >> bit & 1) {
        [_, 1, xor] => ["1", "0"][xor as usize],
        [0, 0, xor] => ["0", "1"][xor as usize],
        [_, _, xor] => ["p", "i"][xor as usize],
    };
    let mask: String = (0..5).rev().map(digit).collect();
    let gds = if first >> 16 & 1 == 1 { " gds" } else { "" };
    let text = format!("ds_swizzle_b32 v2, v2 offset:swizzle(BITMASK_PERM,\"{mask}\"){gds}");
    Ok((first >> 17 == 0xd87a >> 1 && second == 0x0200_0002).then_some((text, 8)))
}

#[test]
fn patterns_that_share_a_text_are_numbers() {
    for (pattern, expected) in [
        // Random kernels contained these patterns. The masks of the first one are `and` 3, `or` 21 and `xor` 11.
        (0x2ea3, "ds_swizzle_b32 v2, v2 offset:0x2ea3"),
        (0x45ff, "ds_swizzle_b32 v2, v2 offset:0x45ff"),
        (0x2ea2, "ds_swizzle_b32 v2, v2 offset:swizzle(BITMASK_PERM,\"111i0\")"),
    ] {
        let (text, lost) = complete(Gfx90a, &[0xd87a << 16 | pattern, 0x0200_0002], &swizzle);
        assert_eq!((text.as_str(), lost), (expected, vec![]), "{pattern:#x}");
        let (text, _) = complete(Gfx90a, &[0xd87b << 16 | pattern, 0x0200_0002], &swizzle);
        assert_eq!(text, format!("{expected} gds"));
    }
}
