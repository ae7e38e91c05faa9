//! Halves of registers: an instruction reads and writes an upper half as it does the lower half of a register whose halves are
//! swapped. The instructions are those that LLVM's disassembler names, from all words of VOP1, VOP2, VOP3 and VOPC with
//! one half chosen; what is wrong with an operand that nobody took for one of 16 bits shows here.

use super::*;

/// What LLVM 22 prints for words of VOP1, VOP2, VOP3 and VOPC that choose an upper half, `=` before those of an architecture.
/// Left out is what LLVM prints of bits that its own definitions give no meaning.
const NAMED: &str = include_str!("halves.txt");

/// The registers whose upper half is meant, and whether v0 is written.
fn upper(line: &str) -> Vec<usize> {
    let (name, rest) = line.split_once(' ').expect("operands");
    let (operands, bits) = match rest.split_once(" op_sel:[") {
        Some((operands, bits)) => (operands, bits.trim_end_matches(']')),
        None => (rest, ""),
    };
    let operands: Vec<&str> = operands.split(", ").collect();
    let register = |text: &str| {
        let digits = text.trim_start_matches('v').trim_end_matches(".h").trim_end_matches(".l");
        digits.parse().unwrap_or_else(|_| panic!("{name}: no register: {text}"))
    };
    if line.contains(".h") {
        return operands.iter().filter(|o| o.ends_with(".h")).map(|o| register(o)).collect();
    }
    // The bits are of the sources in their order, then of the result.
    let places = operands.iter().skip(1).chain(operands.first());
    let chosen = places.zip(bits.split(',')).filter(|(_, bit)| *bit == "1");
    chosen.map(|(operand, _)| register(operand)).collect()
}

/// The registers of lanes after an instruction, and the masks that it may have changed.
fn after(arch: Arch, line: &str, swapped: &[usize]) -> Option<(Vec<u32>, [u64; 3])> {
    let mut wave = wave(arch);
    let exec = bind(line, &Site { lanes: wave.lanes, ..Site::of(arch) }).ok()?;
    for (lane, row) in (0..wave.lanes).flat_map(|lane| (0..4).map(move |row| (lane, row))) {
        // Halves of all kinds: floats of middling size and others.
        let seed =
            (lane as u32).wrapping_mul(0x9e37_79b9) ^ (row as u32 + 1).wrapping_mul(0x85eb_ca6b);
        let value = if lane % 2 == 0 { 0x3c40_4180 ^ seed & 0x83ff_87ff } else { seed };
        let turn = if swapped.contains(&row) { 16 } else { 0 };
        wave.set_lane(row, lane, value.rotate_left(turn));
    }
    let mut machine = Machine::new(&Nothing);
    exec.run(&mut wave, &mut machine).ok()?;
    let turn = if swapped.contains(&0) { 16 } else { 0 };
    let results = (0..wave.lanes).map(|lane| wave.lane(0, lane).rotate_left(turn)).collect();
    Some((results, [wave.mask(0), wave.mask(VCC), wave.exec()]))
}

#[test]
fn an_upper_half_is_as_the_lower_one_of_a_swapped_register() {
    let (mut arch, mut wrong, mut tried) = (Gfx90a, Vec::new(), 0);
    for line in NAMED.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('=') {
            arch = name.parse().expect("an architecture");
            continue;
        }
        let plain = line.replace(".h", ".l");
        let plain = plain.split(" op_sel:").next().unwrap_or_default();
        match (after(arch, line, &[]), after(arch, plain, &upper(line))) {
            (None, None) => {}
            (this, other) if this == other => tried += 1,
            (None, _) => wrong.push(format!("{arch}: {line} is not bound")),
            _ => wrong.push(format!("{arch}: {line}")),
        }
    }
    assert!(wrong.is_empty(), "of {tried} that are right:\n{}", wrong.join("\n"));
    assert!(tried > 600, "{tried}");
}
