//! Tests integer instructions with `clamp`. The test computes the expected result with wide integers and saturates it.
//! Source: "Clamp" in the chapters on vector instructions of the ISA guides, and the names of the instructions.

use std::rc::Rc;

use super::{
    claim::{Claim, Plain, row},
    encodings::Encoding,
    slot::{MASK, State},
};

/// Name of the relation for the claims of this module. The tables in `known.rs` contain this name too.
pub(super) const RELATION: &str = "an integer that saturates";
const CLAMP: u32 = 1 << 15;
/// Limits of the ranges of integers with 4, 8, 16, 24, 32 and 64 bits, and some numbers in between.
const ENDS: [u32; 16] = [
    0,
    1,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_7fff,
    0x8000_8000,
    0xffff_0001,
    0x7f7f_7f7f,
    0x8080_8080,
    0x007f_ffff,
    0x0080_0000,
    0x7777_7777,
    0x8888_8888,
    0x1234_5678,
    0xfedc_ba98,
];
/// Number of tests per instruction, each with another combination of values from [`ENDS`].
const TURNS: usize = 8;

/// Range of a saturating result: an integer with this number of bits. A register may contain two such results.
#[derive(Clone, Copy)]
struct Stops {
    bits: u32,
    signed: bool,
}

impl Stops {
    fn of(self, exact: i128) -> u64 {
        let (least, most) = match self.signed {
            true => (-1i128 << (self.bits - 1), (1i128 << (self.bits - 1)) - 1),
            false => (0, (1i128 << self.bits) - 1),
        };
        exact.clamp(least, most) as u64 & (u64::MAX >> (64 - self.bits))
    }
}

/// Source operands of a lane, and the lane's bit of the carry-in mask.
type Lane = ([u64; 3], bool);
type Exact = Rc<dyn Fn(Lane) -> i128>;

fn part(value: u64, at: u32, bits: u32, signed: bool) -> i128 {
    let high = value << (64 - at - bits);
    if signed { (high as i64 >> (64 - bits)).into() } else { (high >> (64 - bits)).into() }
}

/// Parses a type such as `u16` or `i32`.
fn type_named(name: &str) -> Option<Stops> {
    let signed = name.starts_with('i');
    let bits = name.strip_prefix(['i', 'u'])?.parse().ok()?;
    Some(Stops { bits, signed })
}

/// Returns the type of the result and a function that computes the exact result; `None` for instructions that the test
/// does not model.
fn formula(name: &str, signs: [bool; 2]) -> Option<(Stops, Exact)> {
    let packed = name.starts_with("v_pk_");
    let name = name.replace("v_pk_", "v_").replace("_nc_", "_").replace("_legacy_", "_");
    let (operation, types) = match name.strip_prefix("v_")? {
        rest if rest.starts_with("dot") => return products(rest, signs),
        rest if rest.starts_with("mul_lo_") => ("mul", rest.strip_prefix("mul_lo_")?),
        rest if rest.starts_with("mad_co_") => ("mad", rest.strip_prefix("mad_co_")?),
        rest if rest.contains("_co_ci_") => rest.split_once("_co_ci_")?,
        rest if rest.contains("_co_") => rest.split_once("_co_")?,
        rest => rest.split_once('_')?,
    };
    let carries = name.contains("_co_ci_") || name.starts_with("v_addc") || name.contains("subb");
    let mut types = types.split('_');
    let result = type_named(types.next()?)?;
    let factor = types.next().map_or(Some(result), type_named)?;
    if types.next().is_some() || packed && (result.bits != 16 || factor.bits != 16) {
        return None;
    }
    let one = move |value: u64| part(value, 0, factor.bits, factor.signed);
    let exact: Exact = match operation {
        "add" | "addc" => {
            Rc::new(move |([a, b, _], carry)| one(a) + one(b) + i128::from(carry && carries))
        }
        "sub" | "subb" => {
            Rc::new(move |([a, b, _], carry)| one(a) - one(b) - i128::from(carry && carries))
        }
        "subrev" | "subbrev" => {
            Rc::new(move |([a, b, _], carry)| one(b) - one(a) - i128::from(carry && carries))
        }
        "mul" => Rc::new(move |([a, b, _], _)| one(a) * one(b)),
        "mad" => {
            Rc::new(move |([a, b, c], _)| one(a) * one(b) + part(c, 0, result.bits, result.signed))
        }
        _ => return None,
    };
    Some((result, exact))
}

/// Returns the type of the result, and a function that computes the exact result, for instructions that sum products,
/// such as `dot4_i32_iu8`; `None` for others. `signs` specifies for each factor whether it is signed, if the name does
/// not.
fn products(name: &str, signs: [bool; 2]) -> Option<(Stops, Exact)> {
    let (number, types) = name.strip_prefix("dot")?.split_once('_')?;
    let (result, factor) = types.split_once('_')?;
    let result = type_named(result)?;
    let factors = match factor.strip_prefix("iu") {
        Some(bits) => signs.map(|signed| Stops { bits: bits.parse().unwrap_or(0), signed }),
        None => [type_named(factor)?; 2],
    };
    // The letter c in a name means that the result register is also the addend.
    let number: u32 = number.trim_end_matches('c').parse().ok()?;
    if number * factors[0].bits != 32 || result.bits != 32 {
        return None;
    }
    let exact = move |([a, b, c], _): Lane| {
        let product = |at: u32| {
            let [of_a, of_b] = factors;
            part(a, at, of_a.bits, of_a.signed) * part(b, at, of_b.bits, of_b.signed)
        };
        (0..number).map(|at| product(at * factors[0].bits)).sum::<i128>()
            + part(c, 0, 32, result.signed)
    };
    Some((result, Rc::new(exact)))
}

/// Adds all claims about the instructions with this opcode and `clamp`.
pub(super) fn claims(plain: &mut Plain) {
    let is_long = matches!(plain.encoding, Encoding::Vop3 | Encoding::Vop3p);
    // In a sum of products, two bits specify which operands are signed.
    let of_signs = if plain.name.contains("_iu") { 4 } else { 1 };
    for signs in 0..if is_long { of_signs } else { 0 } {
        let signed = [signs & 1 == 1, signs & 2 == 2];
        let Some((stops, exact)) = formula(plain.name, signed) else { return };
        for turn in 0..TURNS {
            let mut words = plain.words.to_vec();
            words[1] |= signs << 29;
            let like = words.clone();
            words[0] |= CLAMP;
            let mut claim = Claim::new(RELATION, words, like);
            claim.told = "clamp";
            claim.given = Rc::new(move |state| ends(state, turn));
            let accumulates = plain.name.starts_with("v_dot") && plain.name.contains("c_");
            let (exact, packed) = (exact.clone(), plain.name.starts_with("v_pk_"));
            claim.set_after(move |given, _, like| {
                for lane in (0..like.lanes.len()).filter(|lane| given.exec >> lane & 1 == 1) {
                    let of = |at: usize| {
                        let [low, high] = [0, 1].map(|word| given.lanes[lane][row(at) + word]);
                        u64::from(low) | u64::from(high) << 32
                    };
                    let sources = match accumulates {
                        true => [of(0), of(1), given.lanes[lane][0].into()],
                        false => [of(0), of(1), of(2)],
                    };
                    let carry = MASK >> lane & 1 == 1;
                    let result = &mut like.lanes[lane];
                    match (packed, stops.bits) {
                        (true, _) => {
                            let half = |at: u32| {
                                let sources = sources.map(|source| source >> at);
                                (stops.of(exact((sources, carry))) as u32) << at
                            };
                            result[0] = half(0) | half(16);
                        }
                        // The other half of the register must be as after the instruction without `clamp`.
                        (false, 16) => {
                            let low = stops.of(exact((sources, carry))) as u32;
                            result[0] = result[0] & !0xffff | low;
                        }
                        (false, bits) => {
                            let all = stops.of(exact((sources, carry)));
                            result[0] = all as u32;
                            if bits == 64 {
                                result[1] = (all >> 32) as u32;
                            }
                        }
                    }
                }
            });
            plain.claims.push(claim);
        }
    }
}

/// Sets the source operands to values from [`ENDS`]. The number `turn` selects the combination.
fn ends(state: &mut State, turn: usize) {
    for (lane, registers) in state.lanes.iter_mut().enumerate() {
        for (at, register) in registers.iter_mut().enumerate() {
            let (source, upper) = (if at < 2 { 3 } else { at / 2 }, at % 2);
            *register =
                ENDS[(lane * source + lane / 16 * (source + upper) + turn * at) % ENDS.len()];
        }
    }
}
