//! Signs of sources: `-v2` and `|v2|` are what the instruction without them makes of a register whose sign bit was changed
//! before, for every instruction of VOP3 that LLVM's disassembler names with them.

use super::*;

const NAMED: &str = include_str!("signs.txt");

/// The bits of a source by the type at the end of an instruction's name.
fn width(name: &str) -> Option<u32> {
    let name = name.trim_end_matches("_e64");
    let ends = [("16", 16), ("32", 32), ("64", 64)];
    ends.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, bits)| bits)
}

/// What was signed: the register, and whether it is negated or without its sign.
fn signed(operands: &str) -> Option<(usize, bool)> {
    operands.split(", ").find_map(|operand| {
        let negated = operand.starts_with('-');
        let inner = operand.trim_start_matches('-').trim_matches('|');
        if inner == operand {
            return None;
        }
        let digits = inner.trim_start_matches("v[").trim_start_matches('v');
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        Some((digits[..end].parse().ok()?, negated))
    })
}

/// Registers v0 to v7 of a lane: floats of each width, some of them no numbers.
fn value(lane: usize, row: usize) -> u32 {
    let seed = (lane as u32).wrapping_mul(0x9e37_79b9) ^ (row as u32 + 1).wrapping_mul(0x85eb_ca6b);
    if lane.is_multiple_of(4) { seed } else { 0x3fc0_3c40 ^ seed & 0x8fff_8fff }
}

fn after(
    arch: Arch,
    line: &str,
    change: impl Fn(usize, u32) -> u32,
) -> Option<(Vec<u32>, [u64; 4])> {
    let mut wave = wave(arch);
    let exec = bind(line, &Site { lanes: wave.lanes, ..Site::of(arch) }).ok()?;
    for (lane, row) in (0..wave.lanes).flat_map(|lane| (0..8).map(move |row| (lane, row))) {
        wave.set_lane(row, lane, change(row, value(lane, row)));
    }
    // Where a mask chooses.
    for pair in [VCC, 0, 2, 4, 6] {
        wave.set_pair(pair, 0x5a5a_a5a5_0f0f_3c3c);
    }
    let mut machine = Machine::new(&Nothing);
    exec.run(&mut wave, &mut machine).ok()?;
    let rows = (0..wave.lanes).flat_map(|lane| [wave.lane(0, lane), wave.lane(1, lane)]);
    let results = rows.collect();
    Some((results, [wave.mask(0), wave.mask(2), wave.mask(VCC), wave.exec()]))
}

#[test]
fn a_signed_source_is_a_register_with_another_sign() {
    let (mut arch, mut wrong, mut tried) = (Gfx90a, Vec::new(), 0);
    for line in NAMED.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('=') {
            arch = name.parse().expect("an architecture");
            continue;
        }
        let (name, operands) = line.split_once(' ').expect("operands");
        let Some((register, negated)) = signed(operands) else {
            panic!("nothing is signed: {line}");
        };
        let Some(bits) = width(name) else { continue };
        let plain = format!("{name} {}", operands.replace(['-', '|'], ""));
        // The sign of 64 bits is in the second register.
        let (row, sign) = match bits {
            64 => (register + 1, 1 << 31),
            bits => (register, 1u32 << (bits - 1)),
        };
        let change = |of: usize, value: u32| match (of == row, negated) {
            (false, _) => value,
            (true, true) => value ^ sign,
            (true, false) => value & !sign,
        };
        match (after(arch, line, |_, value| value), after(arch, &plain, change)) {
            (None, None) => {}
            (this, other) if this == other => tried += 1,
            (None, _) => wrong.push(format!("{arch}: {line} is not bound")),
            _ => wrong.push(format!("{arch}: {line}")),
        }
    }
    assert!(wrong.is_empty(), "of {tried} that are right:\n{}", wrong.join("\n"));
    assert!(tried > 1500, "{tried}");
}
