//! Encodes memory instructions bit by bit. Source: "Microcode Formats" of AMD's ISA guides for Vega, CDNA 3 and RDNA 2
//! to 4; for GFX90A, LLVM's assembler tests.

use device::{Arch, Microcode};

/// Returns the number in the scalar register field that means: no scalar register.
pub(super) fn none(arch: Arch) -> u32 {
    match arch.facts().microcode {
        Microcode::Gfx9 => 0x7f,
        Microcode::Gfx10 => 0x7d,
        Microcode::Gfx11 | Microcode::Gfx12 | Microcode::Gfx1250 => 0x7c,
    }
}

/// Segment of a FLAT instruction, with the number that encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Flat = 0,
    Scratch = 1,
    Global = 2,
}

/// Operands of FLAT, and of VFLAT, VGLOBAL and VSCRATCH on GFX12. All registers are given by their numbers.
#[derive(Clone, Copy)]
pub(super) struct Flat {
    pub(super) segment: Segment,
    pub(super) opcode: u32,
    pub(super) result: u32,
    pub(super) data: u32,
    /// Register of the vector address. Only scratch instructions may lack it.
    pub(super) address: Option<u32>,
    pub(super) scalar: Option<u32>,
    pub(super) offset: i32,
    pub(super) policy: Policy,
}

/// Cache policy bits of an instruction, in the order in which the architecture encodes them.
#[derive(Clone, Copy, Default)]
pub(super) struct Policy(pub(super) u32);

impl Policy {
    pub(super) fn returning(arch: Arch) -> Policy {
        // The bit that makes an atomic return the old value is the lowest bit of `th` on GFX12, and `glc` or `sc0` on
        // GFX9 to GFX11.
        Policy(if arch.facts().microcode.is_gfx12() { 4 } else { 1 })
    }

    /// Returns, for each cache policy bit of the architecture, the policy in which only this bit is set.
    pub(super) fn each(arch: Arch) -> impl Iterator<Item = Policy> {
        let bits = match arch.facts().microcode {
            // These are the bits of `scope` and `th`.
            Microcode::Gfx12 | Microcode::Gfx1250 => 5,
            Microcode::Gfx9 if !arch.facts().has_gfx940_instructions => 2,
            Microcode::Gfx9 | Microcode::Gfx10 | Microcode::Gfx11 => 3,
        };
        (0..bits).map(|bit| Policy(1 << bit))
    }

    fn bit(self, at: u32) -> u32 {
        self.0 >> at & 1
    }
}

/// Returns the smallest and the largest constant offset that a FLAT instruction of this segment can encode.
pub(super) fn reach(arch: Arch, segment: Segment) -> (i32, i32) {
    match (arch.facts().microcode, segment) {
        (Microcode::Gfx9, Segment::Flat) => (0, 4095),
        (Microcode::Gfx10, Segment::Flat) => (0, 2047),
        (Microcode::Gfx11, Segment::Flat) => (0, 4095),
        (Microcode::Gfx9 | Microcode::Gfx11, _) => (-4096, 4095),
        (Microcode::Gfx10, _) => (-2048, 2047),
        (Microcode::Gfx12 | Microcode::Gfx1250, _) => (-0x80_0000, 0x7f_ffff),
    }
}

/// Returns true if a scratch address may be the sum of a vector register and a scalar register.
pub(super) fn adds_both_in_scratch(arch: Arch) -> bool {
    match arch.facts().microcode {
        Microcode::Gfx9 => arch.facts().has_gfx940_instructions,
        Microcode::Gfx10 => false,
        Microcode::Gfx11 | Microcode::Gfx12 | Microcode::Gfx1250 => true,
    }
}

impl Flat {
    pub(super) fn words(self, arch: Arch) -> Vec<u32> {
        let Flat { segment, opcode, result, data, offset, policy, .. } = self;
        // FLAT of GFX9 has no scalar field.
        let has_scalar = !arch.facts().microcode.is_gfx9() || segment != Segment::Flat;
        let scalar = self.scalar.unwrap_or(if has_scalar { none(arch) } else { 0 });
        let address = self.address.unwrap_or(0);
        // From GFX940 and GFX11 on, scratch instructions have a bit that is set if the address contains a vector
        // register.
        let has_address = u32::from(segment == Segment::Scratch && self.address.is_some());
        let registers = result << 24 | scalar << 16 | data << 8 | address;
        let segment_bits = segment as u32;
        match arch.facts().microcode {
            Microcode::Gfx9 => {
                let is_gfx940 = arch.facts().has_gfx940_instructions;
                let first = 0x37 << 26 | opcode << 18 | policy.bit(1) << 17 | policy.bit(0) << 16;
                let more = if is_gfx940 { policy.bit(2) << 25 | has_address << 13 } else { 0 };
                vec![first | more | segment_bits << 14 | offset as u32 & 0x1fff, registers]
            }
            Microcode::Gfx10 => {
                let policy = policy.bit(1) << 17 | policy.bit(0) << 16 | policy.bit(2) << 12;
                let first = 0x37 << 26 | opcode << 18 | policy | segment_bits << 14;
                vec![first | offset as u32 & 0xfff, registers]
            }
            Microcode::Gfx11 => {
                let policy = policy.bit(1) << 15 | policy.bit(0) << 14 | policy.bit(2) << 13;
                let first = 0x37 << 26 | opcode << 18 | segment_bits << 16 | policy;
                vec![first | offset as u32 & 0x1fff, registers | has_address << 23]
            }
            Microcode::Gfx12 | Microcode::Gfx1250 => vec![
                0x3b << 26 | segment_bits << 24 | opcode << 14 | scalar,
                data << 23 | has_address << 17 | policy_of_gfx12(policy) | result,
                (offset as u32) << 8 | address,
            ],
        }
    }
}

fn policy_of_gfx12(policy: Policy) -> u32 {
    policy.0 << 18
}

/// Operands of MUBUF, and of VBUFFER on GFX12.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub(super) opcode: u32,
    pub(super) data: u32,
    pub(super) address: u32,
    pub(super) descriptor: u32,
    /// Operand number of the scalar offset, which is a register or a constant.
    pub(super) scalar: Option<u32>,
    pub(super) by_index: bool,
    pub(super) by_offset: bool,
    pub(super) offset: u32,
    pub(super) policy: Policy,
}

/// Returns the largest constant offset that a buffer instruction can encode.
pub(super) fn reach_of_buffer(arch: Arch) -> u32 {
    if arch.facts().microcode.is_gfx12() { 0x7f_ffff } else { 4095 }
}

/// Returns true if the scalar offset may be a constant operand.
pub(super) fn adds_constants(arch: Arch) -> bool {
    !arch.facts().microcode.is_gfx12()
}

impl Buffer {
    pub(super) fn words(self, arch: Arch) -> Vec<u32> {
        let Buffer { opcode, data, address, descriptor, offset, policy, .. } = self;
        let (index, by_offset) = (u32::from(self.by_index), u32::from(self.by_offset));
        // The number of the constant 0 is 128.
        let scalar = self.scalar.unwrap_or(if adds_constants(arch) { 128 } else { none(arch) });
        let registers = scalar << 24 | descriptor >> 2 << 16 | data << 8 | address;
        let first = 0x38 << 26 | offset;
        let ways = index << 13 | by_offset << 12;
        match arch.facts().microcode {
            Microcode::Gfx9 => {
                let policy = policy.bit(0) << 14 | policy.bit(1) << 17 | policy.bit(2) << 15;
                vec![first | opcode << 18 | policy | ways, registers]
            }
            Microcode::Gfx10 => {
                let (low, high) = (opcode & 0x7f, opcode >> 7);
                let policy_bits = policy.bit(0) << 14 | policy.bit(2) << 15;
                let word = first | high << 25 | low << 18 | policy_bits | ways;
                vec![word, registers | policy.bit(1) << 22]
            }
            Microcode::Gfx11 => {
                let policy = policy.bit(0) << 14 | policy.bit(1) << 12 | policy.bit(2) << 13;
                vec![first | opcode << 18 | policy, registers | index << 23 | by_offset << 22]
            }
            Microcode::Gfx12 | Microcode::Gfx1250 => {
                let second = index << 31 | by_offset << 30 | policy_of_gfx12(policy) | data;
                let first = 0x31 << 26 | opcode << 14 | scalar;
                vec![first, second | descriptor << 9, offset << 8 | address]
            }
        }
    }
}

/// Encodes a DS instruction. `offsets` contains one 16-bit offset or two 8-bit offsets. The registers are the result,
/// the address, and two data registers; unused ones are zero.
pub(super) fn local(arch: Arch, opcode: u32, offsets: u32, registers: [u32; 4]) -> Vec<u32> {
    let [result, address, data, more] = registers;
    let place = if arch.facts().microcode.is_gfx9() { 17 } else { 18 };
    vec![0x36 << 26 | opcode << place | offsets, result << 24 | more << 16 | data << 8 | address]
}

/// Encodes an SMEM instruction. The arguments are the first registers of the result and of the base, a constant offset,
/// and an offset register.
pub(super) fn scalar(
    arch: Arch,
    opcode: u32,
    (result, base): (u32, u32),
    offset: i32,
    register: Option<u32>,
) -> Vec<u32> {
    let common = result << 6 | base >> 1;
    match arch.facts().microcode {
        Microcode::Gfx9 => {
            // The offset is a constant, a register, or the sum of both.
            let (both, constant) = (register.is_some() && offset != 0, register.is_none());
            let way = u32::from(both || constant) << 17 | u32::from(register.is_some()) << 14;
            let second = register.unwrap_or(0) << 25 | offset as u32 & 0x1f_ffff;
            vec![0x30 << 26 | opcode << 18 | way | common, second]
        }
        Microcode::Gfx10 | Microcode::Gfx11 => vec![
            0x3d << 26 | opcode << 18 | common,
            register.unwrap_or(none(arch)) << 25 | offset as u32 & 0x1f_ffff,
        ],
        Microcode::Gfx12 | Microcode::Gfx1250 => vec![
            0x3d << 26 | opcode << 13 | common,
            register.unwrap_or(none(arch)) << 25 | offset as u32 & 0xff_ffff,
        ],
    }
}

/// Returns the smallest and the largest constant offset that a scalar load can encode.
pub(super) fn reach_of_scalar(arch: Arch) -> (i32, i32) {
    match arch.facts().microcode {
        Microcode::Gfx12 | Microcode::Gfx1250 => (-0x80_0000, 0x7f_ffff),
        Microcode::Gfx9 | Microcode::Gfx10 | Microcode::Gfx11 => (-0x10_0000, 0xf_ffff),
    }
}
