//! Tests every operand form of vector instructions against a model of one lane. The compiler of the stack compiles the
//! instructions.
//!
//! The model implements the formulas of AMD's ISA guides (RDNA 2, 3 and 4, CDNA 3), and for constants of packed
//! instructions LLVM's `getInlineEncodingV216`. The model shares no code with the interpreter, does not have waves, and
//! is slow. The test covers the disassembler's text and its parser, constants, modifiers, and both wave sizes.

use device::{Arch, Microcode};
use isa::Trap;

use crate::{
    code_object::CodeObject,
    device_memory::{Device, mapped},
    hiprtc,
    models::{Op, Value, ValueType, float, ops},
};

const ITEMS: usize = 64;
/// Maximum number of instructions per kernel.
const BATCH: usize = 48;

/// Kind of a source operand in assembler syntax.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Vector,
    Scalar,
    Constant(&'static str, Value),
}

const CONSTANTS: [(&str, Value); 9] = [
    ("1", Value::Integer(1)),
    ("64", Value::Integer(64)),
    ("-1", Value::Integer(-1)),
    ("-16", Value::Integer(-16)),
    ("1.0", Value::Float(1.0)),
    ("-4.0", Value::Float(-4.0)),
    ("0.5", Value::Float(0.5)),
    ("0x39a8", Value::Literal(0x39a8)),
    ("0x400039a8", Value::Literal(0x4000_39a8)),
];

/// An instruction with a certain combination of operand kinds and modifiers.
struct Form {
    op: Op,
    sources: Vec<Source>,
    modifiers: Modifiers,
    /// True if the assembler syntax selects a half of a register by a suffix (`v1.l`, `v1.h`), false if by the modifier
    /// `op_sel`.
    suffix: bool,
}

/// Modifiers of the source operands. Each mask has one bit per operand.
#[derive(Clone, Copy, Default)]
struct Modifiers {
    negate: u8,
    absolute: u8,
    clamp: bool,
    /// Mask of the source operands that are the upper half of a register.
    high: u8,
    op_sel: u8,
    /// Mask of the source operands whose bit in `op_sel_hi` is cleared, so that the lower half is used for both
    /// results.
    low_twice: u8,
    neg_lo: u8,
    neg_hi: u8,
}

impl Modifiers {
    fn is_none(&self) -> bool {
        let halves = [self.high, self.op_sel, self.low_twice, self.neg_lo, self.neg_hi];
        halves == [0; 5] && [self.negate, self.absolute] == [0; 2] && !self.clamp
    }
}

fn bit(bits: u8, at: usize) -> bool {
    bits >> at & 1 == 1
}

fn list(name: &str, count: usize, of: impl Fn(usize) -> bool) -> String {
    let bits: Vec<_> = (0..count).map(|at| if of(at) { "1" } else { "0" }).collect();
    format!(" {name}:[{}]", bits.join(","))
}

impl Form {
    /// Returns the text of the instruction. In this text, `%0` is a placeholder for the result, and `%1` and so on are
    /// placeholders for the source operands in registers.
    fn text(&self) -> String {
        let end = if self.suffix && self.op.result.is_half() { ".l" } else { "" };
        let mut text = format!("{} %0{end}", self.op.name);
        let mut register = 0;
        for (index, source) in self.sources.iter().enumerate() {
            let mut operand = match source {
                Source::Constant(constant, _) => (*constant).to_owned(),
                _ => {
                    register += 1;
                    format!("%{register}")
                }
            };
            if matches!(source, Source::Vector) && self.suffix && self.op.sources[index].is_half() {
                operand += if bit(self.modifiers.high, index) { ".h" } else { ".l" };
            }
            if bit(self.modifiers.absolute, index) {
                operand = format!("|{operand}|");
            }
            if bit(self.modifiers.negate, index) {
                operand = format!("-{operand}");
            }
            text += &format!(", {operand}");
        }
        let (m, count) = (self.modifiers, self.sources.len());
        if m.high != 0 && !self.suffix {
            // The last bit of the list selects the half of the result. The bit of a constant is 0, because a constant
            // has no halves.
            let of = |at: usize| matches!(self.sources.get(at), Some(Source::Vector));
            text += &list("op_sel", count + 1, |at| bit(m.high, at) && of(at));
        }
        if m.op_sel != 0 {
            text += &list("op_sel", count, |at| bit(m.op_sel, at));
        }
        if m.low_twice != 0 {
            text += &list("op_sel_hi", count, |at| !bit(m.low_twice, at));
        }
        if m.neg_lo != 0 {
            text += &list("neg_lo", count, |at| bit(m.neg_lo, at));
        }
        if m.neg_hi != 0 {
            text += &list("neg_hi", count, |at| bit(m.neg_hi, at));
        }
        if m.clamp {
            text += " clamp";
        }
        text
    }

    fn statement(&self, number: usize) -> String {
        let names = ["a", "b", "c"];
        let inputs: Vec<String> = (self.sources.iter().enumerate())
            .filter_map(|(index, source)| {
                let wide = self.op.sources[index].bits() == 64;
                let name = names[index];
                match source {
                    Source::Vector if wide => Some(format!("\"v\"({name})")),
                    Source::Vector => Some(format!("\"v\"((unsigned){name})")),
                    Source::Scalar if wide => Some(format!("\"s\"(s{name})")),
                    Source::Scalar => Some(format!("\"s\"((unsigned)s{name})")),
                    Source::Constant(..) => None,
                }
            })
            .collect();
        let kind = if self.op.result.bits() == 64 { "unsigned long long" } else { "unsigned" };
        let (text, inputs) = (self.text(), inputs.join(", "));
        format!(
            "{{ {kind} d = 0; asm volatile(\"{text}\" : \"+&v\"(d) : {inputs}); o[{number} * 64 + i] = d; }}\n"
        )
    }

    /// Returns the expected result of one lane. `lane` contains the bits of the source operands in this lane. `first`
    /// contains those in the first lane, which are used for scalar operands.
    fn model(&self, lane: [u64; 3], first: [u64; 3]) -> u64 {
        let of = |index: usize| match self.sources[index] {
            Source::Vector => lane[index],
            Source::Scalar => first[index],
            Source::Constant(_, value) => self.op.sources[index].constant(value),
        };
        let bits: Vec<u64> =
            (0..self.sources.len()).map(|index| self.modified(index, of(index))).collect();
        let get = |index: usize| bits.get(index).copied().unwrap_or(0);
        let result = (self.op.model)([get(0), get(1), get(2)]);
        if self.modifiers.clamp { self.op.result.clamped(result) } else { result }
    }

    fn modified(&self, index: usize, bits: u64) -> u64 {
        let (m, of) = (self.modifiers, self.op.sources[index]);
        if of.is_packed() {
            let half = |high: bool, negate: bool| {
                let half = if high { bits >> 16 } else { bits } & 0xffff;
                if negate { half ^ 0x8000 } else { half }
            };
            let low = half(bit(m.op_sel, index), bit(m.neg_lo, index));
            return low | half(!bit(m.low_twice, index), bit(m.neg_hi, index)) << 16;
        }
        let high = bit(m.high, index) && matches!(self.sources[index], Source::Vector);
        let mut bits = if high { bits >> 16 } else { bits } & of.mask();
        if bit(m.absolute, index) {
            bits &= !of.sign();
        }
        if bit(m.negate, index) {
            bits ^= of.sign();
        }
        bits
    }
}

/// Returns all forms of an operation that the architecture can encode.
fn forms(op: Op, arch: Arch) -> Vec<Form> {
    let count = op.sources.len();
    let (gfx9, suffix, halves) = match arch.facts().microcode {
        Microcode::Gfx9 => (true, false, false),
        Microcode::Gfx10 => (false, false, false),
        Microcode::Gfx11 => (false, true, false),
        Microcode::Gfx12 | Microcode::Gfx1250 => (false, false, true),
    };
    let op_sel = op.op_sel || halves && !op.short;
    let mut modifiers = vec![Modifiers::default()];
    for index in 0..count {
        let one = 1 << index;
        let with = |change: fn(&mut Modifiers, u8)| {
            let mut modifiers = Modifiers::default();
            change(&mut modifiers, one);
            modifiers
        };
        if op.sources[index].is_packed() {
            modifiers.push(with(|m, bits| m.op_sel = bits));
            modifiers.push(with(|m, bits| m.low_twice = bits));
            modifiers.push(with(|m, bits| (m.op_sel, m.low_twice) = (bits, bits)));
            if op.sources[index] == ValueType::PackedF16 {
                modifiers.push(with(|m, bits| m.neg_lo = bits));
                modifiers.push(with(|m, bits| m.neg_hi = bits));
            }
            continue;
        }
        if op.sources[index].is_half() && (suffix || op_sel) {
            modifiers.push(with(|m, bits| m.high = bits));
        }
        if op.sources[index].sign() != 0 {
            modifiers.push(with(|m, bits| m.negate = bits));
            modifiers.push(with(|m, bits| m.absolute = bits));
            modifiers.push(with(|m, bits| (m.negate, m.absolute) = (bits, bits)));
        }
    }
    if op.result.sign() != 0 && op.clamps {
        modifiers.push(Modifiers { clamp: true, ..Modifiers::default() });
    }
    let mut forms = Vec::new();
    for modifiers in modifiers {
        let mut push = |sources: Vec<Source>| forms.push(Form { op, sources, modifiers, suffix });
        push(vec![Source::Vector; count]);
        for index in 0..count {
            let mut with = |source| {
                let mut sources = vec![Source::Vector; count];
                sources[index] = source;
                push(sources);
            };
            // The compiler may place a scalar in a vector register. Without a suffix, the text could not select a half
            // of this register.
            if !(suffix && op.sources[index].is_half()) {
                with(Source::Scalar);
            }
            for (text, value) in CONSTANTS {
                let literal = matches!(value, Value::Literal(_));
                // GFX9 has literals only in its 32-bit encodings, where only the first source operand may be a literal.
                // With a literal, the assembler applies modifiers itself. 64-bit literals do not exist.
                let short = op.short && index == 0 && modifiers.is_none();
                let wide = op.sources[index].bits() == 64;
                // The assembler rejects a literal that has more bits than the operand.
                let half = op.sources[index].is_half() && text.len() > "0xffff".len();
                if literal && (gfx9 && !short || wide || half) {
                    continue;
                }
                // For the assembler, `-1.0` is another constant, and `-|1|` is not a constant.
                if !op.sources[index].is_packed()
                    && (modifiers.negate | modifiers.absolute) & 1 << index != 0
                {
                    continue;
                }
                with(Source::Constant(text, value));
            }
        }
    }
    forms
}

/// Returns the values with which source operand number `source`, of type `of`, is tested: the ends of its range, other
/// special values, and random ones.
fn inputs(of: ValueType, source: u64) -> Vec<u64> {
    let special: &[u64] = match of {
        ValueType::F16 | ValueType::PackedF16 => {
            &[0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7bff, 0x0001, 0x83ff, 0x0400, 0x3555]
        }
        ValueType::F32 => &[
            0,
            0x8000_0000,
            0x3f80_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7f7f_ffff,
            1,
            0x807f_ffff,
            0x4b00_0001,
        ],
        ValueType::F64 => {
            &[0, 1 << 63, 0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000, 0xffef_ffff_ffff_ffff, 1]
        }
        _ => &[
            0,
            1,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0x8000,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            31,
            33,
        ],
    };
    let mut state = source.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    (0..ITEMS)
        .map(|item| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let mixed = state ^ state >> 31;
            match special.get(item / (source as usize + 1)) {
                Some(low) if of.is_packed() => low & 0xffff | mixed << 16 & 0xffff_0000,
                Some(bits) => *bits,
                None => mixed,
            }
        })
        .map(|bits| of.without_signalling(bits))
        .collect()
}

/// Returns true if the bits of two results are equal or both results are NaNs. The payloads of NaNs are ignored.
fn agree(of: ValueType, got: u64, want: u64) -> bool {
    let halves = |bits: u64| [bits & 0xffff, bits >> 16 & 0xffff];
    match of {
        ValueType::PackedF16 => {
            (0..2).all(|half| agree(ValueType::F16, halves(got)[half], halves(want)[half]))
        }
        _ => {
            let (got, want) = (got & of.mask(), want & of.mask());
            got == want
                || float(of, got)
                    .zip(float(of, want))
                    .is_some_and(|(g, w)| g.is_nan() && w.is_nan())
        }
    }
}

/// Tests all forms of all instructions on an architecture. Returns the number of tested forms, and a description of
/// each difference.
pub(crate) fn check(arch: Arch, wave64: bool) -> (usize, Vec<String>) {
    let mut failures = Vec::new();
    let all: Vec<Form> = ops(arch).into_iter().flat_map(|op| forms(op, arch)).collect();
    for batch in all.chunks(BATCH) {
        let source = kernel(batch);
        let mut options = vec!["-O1"];
        if wave64 {
            options.push("-mwavefrontsize64");
        }
        let code = match hiprtc::compile(&source, arch.name(), &options) {
            Ok(code) => code,
            Err(log) => {
                failures.push(format!("hipRTC does not compile the forms: {log}"));
                continue;
            }
        };
        match run(&Device::new(arch, CodeObject::load(&code)), batch) {
            Ok(different) => failures.extend(different),
            Err(trap) => {
                failures.push(format!("the test of {} and others stopped: {trap}", batch[0].text()))
            }
        }
    }
    (all.len(), failures)
}

/// Returns the HIP source code of a kernel that tests the forms in `batch`. In each work-item, each form reads input
/// values of its operand types and writes its result to the buffer `o`.
fn kernel(batch: &[Form]) -> String {
    let mut body = String::new();
    for (number, form) in batch.iter().enumerate() {
        let base = number * 3 * ITEMS;
        for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
            let at = base + index * ITEMS;
            body += &format!("{name} = in[{at} + i]; s{name} = in[{at}];\n");
        }
        body += &form.statement(number);
    }
    format!(
        "extern \"C\" __global__ void forms(unsigned long long *o, const unsigned long long *in) {{\n\
         unsigned i = threadIdx.x; unsigned long long a, b, c, sa, sb, sc;\n{body}}}\n"
    )
}

fn run(device: &Device, batch: &[Form]) -> Result<Vec<String>, Trap> {
    let mut input: Vec<u64> = Vec::new();
    for form in batch {
        for index in 0..3 {
            let of = form.op.sources.get(index).copied().unwrap_or(ValueType::U32);
            input.extend(inputs(of, index as u64));
        }
    }
    let mut output = vec![0x5555_5555_5555_5555u64; batch.len() * ITEMS];
    let ranges = [mapped(&output), mapped(&input)];
    let arguments = [(&mut output).into(), (&mut input).into()];
    device.launch("forms", [1, 1, 1], [ITEMS as u32, 1, 1], 0, &arguments, &ranges)?;
    let mut different = Vec::new();
    for (number, form) in batch.iter().enumerate() {
        let of = |index: usize, item: usize| input[(number * 3 + index) * ITEMS + item];
        let sources = |item| [0, 1, 2].map(|index| of(index, item));
        let wrong = (0..ITEMS).find_map(|item| {
            let want = form.model(sources(item), sources(0));
            let got = output[number * ITEMS + item];
            // The guides do not specify the sign of zero after `clamp`.
            let zeros = form.modifiers.clamp && form.op.result.are_zeros(got, want);
            (!zeros && !agree(form.op.result, got, want)).then(|| {
                format!(
                    "{}: the result for the operands {:x?} is {got:#x}, must be {want:#x}",
                    form.text(),
                    sources(item)
                )
            })
        });
        different.extend(wrong);
    }
    Ok(different)
}
