//! Dot products of the parts of two registers: bytes, halves or groups of four bits. A third operand is added to the
//! sum.

use std::sync::Arc;

use crate::{
    exec::Binder,
    float16::{Bf16, F16},
    operation::{Operation, Table, accumulates, by_arch, by_overflow, operations},
    small_float::SmallFloat,
    text::{Constant, Text, Unsupported},
    value::{NeverSaturatedF16, Type, Value, flushed},
    vector::{accumulate, ternary},
};

/// Returns part number `index` of a register, sign- or zero-extended. A part has `bits` bits.
#[inline(always)]
fn part(value: u32, index: u32, bits: u32, signed: bool) -> i64 {
    let top = value << (32 - bits * (index + 1));
    if signed { i64::from(top as i32 >> (32 - bits)) } else { i64::from(top >> (32 - bits)) }
}

#[inline(always)]
fn products(a: u32, b: u32, bits: u32, signed: (bool, bool)) -> i64 {
    (0..32 / bits).map(|i| part(a, i, bits, signed.0) * part(b, i, bits, signed.1)).sum()
}

/// Returns the implementation of a dot product `dst, a, b, c`. If the text has only three operands, the destination is
/// the addend. A part has `part_bits` bits. `f` receives the registers `a` and `b` and the addend, and returns the
/// result. The type `P` determines the bits of an inline constant.
fn dot<P: Pair, C: Value>(
    part_bits: u32,
    f: impl Fn(u32, u32, C) -> C + Copy + Send + Sync + 'static,
) -> Operation {
    accumulates(Box::new(move |text: &Text| {
        let bind = |text: &Text, accumulate: Operation, ternary: Binder| {
            if text.operands.len() == 3 { accumulate.bind(text) } else { ternary(text) }
        };
        // Only 16-bit halves can be selected, so instructions with smaller parts do not have these modifiers.
        let (select, bare) = match part_bits {
            16 => Select::take::<P>(text)?,
            _ => (Select::default(), text.clone()),
        };
        if select == Select::default() {
            let f = move |a: P, b: P, c: C| f(a.bits() as u32, b.bits() as u32, c);
            return bind(&bare, accumulate(f), ternary(f));
        }
        let f = move |a: P, b: P, c: C| {
            f(select.of(0, a.bits() as u32), select.of(1, b.bits() as u32), c)
        };
        bind(&bare, accumulate(f), ternary(f))
    }))
}

/// Two 16-bit halves in a register. The type determines the bits of an inline constant.
trait Pair: Value {
    /// Mask of the sign bit of a half; 0 for integers.
    const SIGNS: u32 = 0;
}

impl Pair for u32 {}

macro_rules! pair {
    ($name:ident of $half:ty) => {
        #[derive(Clone, Copy)]
        struct $name(u32);

        impl Value for $name {
            const WORDS: usize = 1;
            fn from_bits(bits: u64) -> Self {
                $name(bits as u32)
            }
            fn bits(self) -> u64 {
                self.0.into()
            }
            fn constant(constant: Constant) -> u64 {
                Type::of::<$half>().packed(constant).into()
            }
        }

        impl Pair for $name {
            const SIGNS: u32 = 0x8000;
        }
    };
}

pair!(Halves of F16);
pair!(Bfloats of Bf16);

/// Selection of halves of the first two source operands by `op_sel` and `op_sel_hi`, and the sign bits that are
/// flipped.
#[derive(Clone, Copy, PartialEq)]
struct Select {
    /// For each of the two products and each source operand, true if the product reads the high half of the operand.
    /// The indices are `[product][source operand]`.
    high: [[bool; 2]; 2],
    flip: [u32; 2],
}

impl Default for Select {
    fn default() -> Select {
        Select { high: [[false; 2], [true; 2]], flip: [0; 2] }
    }
}

impl Select {
    /// Parses the modifiers that select halves. Returns the selection, and the instruction's text without these
    /// modifiers.
    fn take<P: Pair>(text: &Text) -> Result<(Select, Text), Unsupported> {
        let mut bare = text.clone();
        // With four entries, `op_sel` also selects halves of the 16-bit addend and of the 16-bit result. The selection
        // of those two is implemented elsewhere.
        if let Some(list) = text.list("op_sel").filter(|list| list.len() == 4) {
            let sources_are_whole = list[..2] == [0, 0];
            return if sources_are_whole {
                Ok((Select::default(), bare))
            } else {
                Err(Unsupported)
            };
        }
        let mut take = |name: &str, default: bool| {
            let list = text.list(name).unwrap_or_default();
            bare.drop_modifier(name);
            [0, 1].map(|source| list.get(source).map_or(default, |bit| *bit == 1))
        };
        let high = [take("op_sel", false), take("op_sel_hi", true)];
        let mut flip = [0; 2];
        if P::SIGNS != 0 {
            let (low, upper) = (take("neg_lo", false), take("neg_hi", false));
            for (source, flip) in flip.iter_mut().enumerate() {
                let sign = |set: bool| if set { P::SIGNS } else { 0 };
                *flip = sign(low[source]) | sign(upper[source]) << 16;
            }
        }
        Ok((Select { high, flip }, bare))
    }

    #[inline(always)]
    fn of(&self, source: usize, word: u32) -> u32 {
        let half = |high: bool| if high { word >> 16 } else { word & 0xffff };
        (half(self.high[0][source]) | half(self.high[1][source]) << 16) ^ self.flip[source]
    }
}

/// Adds dot products of integer parts to the table. Each name gets two operations: one that wraps, and one for `clamp`,
/// which saturates.
fn add_integers(table: &mut Table, names: &[&str], bits: u32, signed: bool) {
    let wrap: Arc<Operation> = Arc::new(dot::<u32, _>(bits, move |a: u32, b: u32, c: u32| {
        c.wrapping_add(products(a, b, bits, (signed, signed)) as u32)
    }));
    let saturate: Arc<Operation> = Arc::new(dot::<u32, _>(bits, move |a: u32, b: u32, c: u32| {
        let sum = products(a, b, bits, (signed, signed));
        if signed { clamp_signed(sum, c) } else { (sum + i64::from(c)).min(0xffff_ffff) as u32 }
    }));
    for name in names {
        crate::operation::add(table, name, wrap.clone());
        crate::operation::add(table, &format!("{name} clamp"), saturate.clone());
    }
}

fn clamp_signed(sum: i64, c: u32) -> u32 {
    (sum + i64::from(c as i32)).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
}

/// Returns the implementation of `v_dot4_i32_iu8` or `v_dot8_i32_iu4`. The bits of `neg_lo` select which source
/// operands are signed.
fn mixed_signs(bits: u32) -> Binder {
    Box::new(move |text: &Text| {
        let list = text.list("neg_lo").unwrap_or_default();
        let signed = (list.first() == Some(&1), list.get(1) == Some(&1));
        let clamp = text.has("clamp");
        let mut bare = text.clone();
        bare.drop_modifier("neg_lo");
        bare.drop_modifier("clamp");
        dot::<u32, _>(bits, move |a: u32, b: u32, c: u32| {
            let sum = products(a, b, bits, signed);
            if clamp { clamp_signed(sum, c) } else { c.wrapping_add(sum as u32) }
        })
        .bind(&bare)
    })
}

/// Adds the two products to the addend, first the low one and then the high one, as the ISA guides specify for
/// `V_DOT2_F32_F16`.
#[inline(always)]
fn halves(a: u32, b: u32, c: f32, wide: fn(u16) -> f32) -> f32 {
    let low = wide(a as u16).mul_add(wide(b as u16), c);
    wide((a >> 16) as u16).mul_add(wide((b >> 16) as u16), low)
}

/// Adds the two products to each other and then adds the addend, as the CDNA 4 ISA guide specifies for
/// `V_DOT2_F32_BF16`.
fn addend_last(a: u32, b: u32, c: f32) -> f32 {
    let low = wide_bf16(a as u16) * wide_bf16(b as u16);
    wide_bf16((a >> 16) as u16).mul_add(wide_bf16((b >> 16) as u16), low) + c
}

/// Returns the implementation of `v_dot4_f32_fp8_bf8` or a similar instruction, which adds exact products to the addend
/// one after another, from the lowest byte to the highest.
fn bytes(a: &'static str, b: &'static str) -> Binder {
    Box::new(move |text: &Text| {
        let format = |name| SmallFloat::named(name, text.site.arch).ok_or(Unsupported);
        let (a_is, b_is) = (format(a)?, format(b)?);
        dot::<u32, _>(8, move |a: u32, b: u32, c: f32| {
            let parts = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
            parts.fold(c, |sum, (a, b)| a_is.to_f32(a).mul_add(b_is.to_f32(b), sum))
        })
        .bind(text)
    })
}

/// Adds products and flushes denormals in the addend and the sum, as for `v_dot2_f32_f16`: "fdot2_f32_f16
/// unconditionally flushes the f32 accumulator input and output to zero, ignoring the hardware mode register" (LLVM,
/// `performFMACombine`).
#[inline(always)]
fn flushing(a: u32, b: u32, c: f32, wide: fn(u16) -> f32) -> f32 {
    flushed(halves(a, b, flushed(c), wide))
}

/// Converts a factor and flushes denormals, like an MI200, which "unconditionally flushes f16 subnormal inputs". No
/// other measured GPU does so (llvm-project#205101).
fn normal_f16(bits: u16) -> f32 {
    F16(bits).without_denormals().to_f32()
}

fn wide_f16(bits: u16) -> f32 {
    F16(bits).to_f32()
}

fn wide_bf16(bits: u16) -> f32 {
    Bf16(bits).to_f32()
}

pub(crate) fn register(table: &mut Table) {
    add_integers(table, &["v_dot2_i32_i16", "v_dot2c_i32_i16"], 16, true);
    add_integers(table, &["v_dot2_u32_u16"], 16, false);
    add_integers(table, &["v_dot4_i32_i8", "v_dot4c_i32_i8"], 8, true);
    add_integers(table, &["v_dot4_u32_u8"], 8, false);
    add_integers(table, &["v_dot8_i32_i4", "v_dot8c_i32_i4"], 4, true);
    add_integers(table, &["v_dot8_u32_u4"], 4, false);
    operations! { table;
        "v_dot4_i32_iu8" => mixed_signs(8);
        "v_dot8_i32_iu4" => mixed_signs(4);
        "v_dot4_f32_fp8_fp8" => bytes("fp8", "fp8");
        "v_dot4_f32_fp8_bf8" => bytes("fp8", "bf8");
        "v_dot4_f32_bf8_fp8" => bytes("bf8", "fp8");
        "v_dot4_f32_bf8_bf8" => bytes("bf8", "bf8");
        "v_dot2_f32_f16" | "v_dot2c_f32_f16" | "v_dot2acc_f32_f16" =>
            accumulates(by_arch(|arch| match arch.facts().dot2_f16_flushes {
                true => dot::<Halves, _>(16, |a: u32, b: u32, c: f32| flushing(a, b, c, normal_f16)),
                false => dot::<Halves, _>(16, |a: u32, b: u32, c: f32| flushing(a, b, c, wide_f16)),
            }));
        "v_dot2_f32_bf16" => accumulates(by_arch(|arch| match arch.facts().dot2_bf16_adds_last {
            true => dot::<Bfloats, _>(16, addend_last),
            false => dot::<Bfloats, _>(16, |a: u32, b: u32, c: f32| halves(a, b, c, wide_bf16)),
        }));
        "v_dot2c_f32_bf16" | "v_dot2acc_f32_bf16" =>
            dot::<Bfloats, _>(16, |a: u32, b: u32, c: f32| halves(a, b, c, wide_bf16));
        "v_dot2_f16_f16" => by_overflow(|saturates| {
            let round = F16::rounding(saturates);
            dot::<Halves, _>(16, move |a: u32, b: u32, c: NeverSaturatedF16| {
                NeverSaturatedF16(round(halves(a, b, c.0.to_f32(), wide_f16)))
            })
        });
        "v_dot2_bf16_bf16" => dot::<Bfloats, _>(16, |a: u32, b: u32, c: Bf16| {
            Bf16::from_f32(halves(a, b, c.to_f32(), wide_bf16))
        });
    }
}
