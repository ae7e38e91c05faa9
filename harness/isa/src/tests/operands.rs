//! Operands of all instructions of VOP1, VOP2, VOP3 and VOPC that LLVM's disassembler names with them: an instruction with a half
//! chosen or a source signed does what the one without makes of registers that were changed before. What is wrong with
//! an operand that nobody took for what it is shows here.

use super::*;

type Change = Box<dyn Fn(usize, u32) -> u32>;

/// Registers v0 to v7 of a lane: floats of each width, some of them no numbers.
fn value(lane: usize, row: usize) -> u32 {
    let seed = (lane as u32).wrapping_mul(0x9e37_79b9) ^ (row as u32 + 1).wrapping_mul(0x85eb_ca6b);
    if lane.is_multiple_of(4) { seed } else { 0x3fc0_3c40 ^ seed & 0x8fff_8fff }
}

/// What an instruction leaves in v0 and v1, where `change` is undone, and in the masks; none where it is not bound or does not run.
fn after(arch: Arch, line: &str, change: &Change) -> Option<(Vec<u32>, [u64; 4])> {
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
    let of_lane = |lane| [0, 1].map(|row| change(row, wave.lane(row, lane)));
    let results = (0..wave.lanes).flat_map(of_lane).collect();
    Some((results, [wave.mask(0), wave.mask(2), wave.mask(VCC), wave.exec()]))
}

/// Goes through a list, `=` before those of an architecture; `plainly` gives the instruction without, and how registers change.
/// At least so many are tried.
fn walk(named: &str, least: usize, plainly: impl Fn(&str, &[&str]) -> (String, Change)) {
    let (mut arch, mut wrong, mut tried) = (Gfx90a, Vec::new(), 0);
    let same: Change = Box::new(|_, value| value);
    for line in named.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('=') {
            arch = name.parse().expect("an architecture");
            continue;
        }
        let (name, operands) = line.split_once(' ').expect("operands");
        let operands: Vec<&str> =
            operands.split(" op_sel:[").flat_map(|part| part.split(", ")).collect();
        let (plain, change) = plainly(name, &operands);
        match (after(arch, line, &same), after(arch, &plain, &change)) {
            // It is a gap with and without.
            (None, None) => {}
            (this, other) if this == other => tried += 1,
            (None, _) => wrong.push(format!("{arch}: {line} is not bound")),
            _ => wrong.push(format!("{arch}: {line}")),
        }
    }
    assert!(wrong.is_empty(), "of {tried} that are right:\n{}", wrong.join("\n"));
    assert!(tried >= least, "{tried}");
}

/// The number of the register, or of the first of a pair.
fn register(operand: &str) -> usize {
    let digits =
        operand.trim_start_matches(['-', '|']).trim_start_matches('v').trim_start_matches('[');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or_else(|_| panic!("no register: {operand}"))
}

/// A half: the upper one is the lower one of a register whose halves are swapped.
#[test]
fn an_upper_half_is_as_the_lower_one_of_a_swapped_register() {
    walk(include_str!("halves.txt"), 700, |name, operands| {
        let (bits, operands) = match operands.split_last() {
            Some((bits, operands)) if bits.ends_with(']') && !bits.starts_with('v') => {
                (*bits, operands)
            }
            _ => ("", operands),
        };
        let upper: Vec<usize> = if operands.iter().any(|operand| operand.ends_with(".h")) {
            operands.iter().filter(|o| o.ends_with(".h")).map(|o| register(o)).collect()
        } else {
            // The bits are of the sources in their order, then of the result.
            let places = operands.iter().skip(1).chain(operands.first());
            let chosen = places.zip(bits.trim_end_matches(']').split(','));
            chosen.filter(|(_, bit)| *bit == "1").map(|(operand, _)| register(operand)).collect()
        };
        let plain = format!("{name} {}", operands.join(", ").replace(".h", ".l"));
        let turn =
            move |row, value: u32| if upper.contains(&row) { value.rotate_left(16) } else { value };
        (plain, Box::new(turn))
    });
}

/// `-v2` and `|v2|`: a register with another sign, whose place the type at the end of the name says.
#[test]
fn a_signed_source_is_a_register_with_another_sign() {
    walk(include_str!("signs.txt"), 2300, |name, operands| {
        let signed = operands.iter().find(|operand| operand.starts_with(['-', '|']));
        let signed = signed.unwrap_or_else(|| panic!("nothing is signed: {name} {operands:?}"));
        let (first, negated) = (register(signed), signed.starts_with('-'));
        let short = name.trim_end_matches("_e64");
        let (row, sign) = match &short[short.len() - 2..] {
            "16" => (first, 1 << 15),
            // The sign of 64 bits is in the second register.
            "64" => (first + 1, 1 << 31),
            _ => (first, 1u32 << 31),
        };
        let change = move |of, value| match (of == row, negated) {
            (false, _) => value,
            (true, true) => value ^ sign,
            (true, false) => value & !sign,
        };
        (format!("{name} {}", operands.join(", ").replace(['-', '|'], "")), Box::new(change))
    });
}
