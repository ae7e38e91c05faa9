//! Generates elementary statements, each with a single operation on inputs. Random expressions seldom test such an
//! operation alone: in 64 kernels, no less-than comparison of signed words affected a result. Therefore each kernel
//! contains some elementary statements. Different kernels contain different ones, so that all of them are tested.

use super::{FLOATS, INPUTS, INTEGERS, Type, U32, Writer, expression::KNOWN, scalar};

/// Number of elementary statements in a kernel.
const EACH: usize = 4;

/// Returns the names of two operands. The first one is an input of the work-item. The second one is the same input of
/// the first work-item in its group of four, so it is the same for all four.
fn operands(of: Type, at: usize) -> [String; 2] {
    ["t", "(t & ~3u)"].map(|item| {
        let word = |at: usize| format!("uni[{item} * {INPUTS} + {}]", at % INPUTS);
        let (name, low) = (of.name(), word(at));
        match (of.is_float(), of.bits) {
            (true, 16) => format!("as_f16((u16){low})"),
            (true, 32) => format!("as_f32({low})"),
            (true, _) => format!("as_f64((u64){} << 32 | {low})", word(at + 1)),
            (false, 64) => format!("({name})((u64){} << 32 | {low})", word(at + 1)),
            _ => format!("({name}){low}"),
        }
    })
}

/// Returns an expression that combines the 32-bit words of a value into one word.
fn folded(of: Type, value: &str) -> String {
    match (of.kind, of.bits) {
        ('f', 64) => folded(scalar('u', 64), &format!("of_f64({value})")),
        ('f', bits) => format!("of_f{bits}({value})"),
        (_, 64) => format!("(u32)(({value}) ^ (u64)({value}) >> 32)"),
        _ => format!("(u32)({value})"),
    }
}

impl Writer {
    /// Returns the elementary statements of kernel number `number`. Each kernel gets the next part of the list of all
    /// elementary statements.
    pub(super) fn basics(&mut self, number: u64) -> Vec<String> {
        let at = self.draw.below(INPUTS);
        let mut all = basics(at);
        all.extend((0..KNOWN).map(|known| {
            let of = scalar('u', 64);
            (None, folded(of, &format!("({})", self.known(known, of, 1))))
        }));
        let count = all.len();
        let first = (number as usize).wrapping_mul(EACH) % count;
        let share = (first..first + EACH).map(|place| all[place % count].clone());
        let share: Vec<_> = share.collect();
        let each = share.into_iter().map(|(before, value)| {
            let to = self.draw.below(3);
            let before = before.unwrap_or_default();
            format!("{before}s->u32_{to} = s->u32_{to} * 5 + {value};")
        });
        each.collect()
    }
}

/// Returns all elementary statements. Each consists of an optional C statement that prepares the operands, and a C
/// expression whose value is a 32-bit word.
fn basics(at: usize) -> Vec<(Option<String>, String)> {
    let mut all = Vec::new();
    for of in INTEGERS.into_iter().chain(FLOATS) {
        let [a, b] = operands(of, at);
        for what in ["<", ">", "<=", ">=", "==", "!="] {
            all.push((None, format!("({a} {what} {b})")));
        }
        for what in ["min", "max"] {
            let name = if of.is_float() { of.bits.to_string() } else { format!("_{}", of.name()) };
            all.push((None, folded(of, &format!("{what}{name}({a}, {b})"))));
        }
    }
    for of in INTEGERS {
        let ([a, _], [n, _], name) = (operands(of, at), operands(U32, at + 2), of.name());
        let most = of.bits - 1;
        all.push((None, folded(of, &format!("({name})(({}){a} << ({n} & {most}))", of.wide()))));
        all.push((None, folded(of, &format!("({name})({a} >> ({n} & {most}))"))));
    }
    all.extend(halves(at));
    all.extend(exchanges(at));
    all
}

/// Returns operations on pairs of half floats. In each operation, one half of one operand is negated.
fn halves(at: usize) -> impl Iterator<Item = (Option<String>, String)> {
    let pair = |at: usize| {
        let [[low, _], [high, _]] = [at, at + 1].map(|at| operands(FLOATS[0], at));
        [low, high]
    };
    let [a, b, c] = [at, at + 2, at + 4].map(pair);
    let made = |[low, high]: &[String; 2], negated: usize| {
        let sign = |lane: usize| if negated == lane { "-" } else { "" };
        format!("((f16x2){{{}{low}, {}{high}}})", sign(0), sign(1))
    };
    (0..6).flat_map(move |which| {
        let (operand, lane) = (which / 2, which % 2);
        let each = [&a, &b, &c].into_iter().enumerate();
        let each = each.map(|(place, of)| made(of, if place == operand { lane } else { 2 }));
        let [a, b, c] = [(); 3].map({
            let mut each = each;
            move |()| each.next().expect("there are three")
        });
        let sums = [format!("vfma_f16x2({a}, {b}, {c})"), format!("({a} + {b})"), format!("({a} * {b})")];
        // Only one operation has a third operand.
        let sums = sums.into_iter().take(if operand == 2 { 1 } else { 3 });
        sums.map(|sum| {
            let before = format!("{{ f16x2 pair = {sum}; s->u32_0 ^= of_f16(pair[0]) | (u32)of_f16(pair[1]) << 16; }} ");
            (Some(before), "1".to_owned())
        })
    })
}

/// Returns atomics on words that only one work-item uses. Their operands are chosen so that counters reach the end of
/// their range.
fn exchanges(at: usize) -> impl Iterator<Item = (Option<String>, String)> {
    const WORDS: &[&str] =
        &["Add", "Sub", "And", "Or", "Xor", "Min", "Max", "Exch", "CAS", "Inc", "Dec"];
    const SIGNED: &[&str] = &["Min", "Max", "Add"];
    const LONG: &[&str] = &["Add", "And", "Or", "Xor", "Min", "Max", "Exch", "CAS"];
    let kinds = [(U32, WORDS), (scalar('i', 32), SIGNED), (scalar('u', 64), LONG)];
    let places = ["(own + t * 4)", "far"];
    places.into_iter().flat_map(move |place| {
        kinds.into_iter().flat_map(move |(of, operations)| {
            operations.iter().map(move |what| {
                let [a, b] = operands(of, at);
                // The limit is small, so that a counter reaches the end of its range.
                let few = if ["Inc", "Dec"].contains(what) { " & 3" } else { "" };
                let (name, place) = (of.name(), format!("({} *){place}", of.name()));
                let other = if *what == "CAS" { format!(", {b} ^ 1") } else { String::new() };
                let before = format!("*{place} = {a}{few}; ");
                let old = format!("OLD_{what}({name}, {place}, {b}{few}{other})");
                let old = if of.bits == 64 { format!("({old} >> 7)") } else { old };
                (Some(before), format!("(u32){old}"))
            })
        })
    })
}
