//! Implements vector integer arithmetic, shifts and logic.

use crate::{
    exec::{Binder, Lanes, Plain, bind_plain, on_wave},
    float16::F16,
    masks::{carry, select},
    operation::{DataFlow, Operation, Table, bits, by_arch, copies, operations},
    registers::HALF,
    source::{Buffer, Source},
    text::{Base, Constant, Text, Unsupported, register},
    value::Value,
    vector::{binary, ternary, unary},
    wave::{Wave, active, sign_bits},
};

fn u24(a: u32) -> u32 {
    a & 0xff_ffff
}

fn i24(a: u32) -> i32 {
    (a << 8) as i32 >> 8
}

fn high_u24(a: u32, b: u32) -> u32 {
    ((u64::from(u24(a)) * u64::from(u24(b))) >> 32) as u32
}

fn high_i24(a: u32, b: u32) -> u32 {
    ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as u32
}

pub(crate) fn extract_u32(a: u32, offset: u32, width: u32) -> u32 {
    let width = width & 31;
    if width == 0 { 0 } else { (a >> (offset & 31)) & ((1 << width) - 1) }
}

pub(crate) fn extract_i32(a: i32, offset: u32, width: u32) -> i32 {
    let (offset, width) = (offset & 31, width & 31);
    if width == 0 {
        return 0;
    }
    // Bits above the value are copies of its sign.
    let up = 32 - width;
    ((a >> offset) << up) >> up
}

fn permute_bytes(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (u64::from(a) << 32) | u64::from(b);
    let mut result = 0;
    for position in 0..4 {
        let select = selector >> (8 * position) & 0xff;
        let byte = match select {
            0..=7 => (bytes >> (8 * select)) as u32 & 0xff,
            // The selected byte consists of copies of the sign bit of one of the four halves.
            8..=11 => 0xff * ((bytes >> (16 * (select - 8) + 15)) as u32 & 1),
            12 => 0,
            _ => 0xff,
        };
        result |= byte << (8 * position);
    }
    result
}

fn absolute_differences(a: u32, b: u32) -> u32 {
    (0..4).map(|i| (a >> (8 * i) & 0xff).abs_diff(b >> (8 * i) & 0xff)).sum()
}

/// Returns the sum of the absolute differences of the bytes of `a` and `b`. Byte positions at which `b` is zero are
/// left out.
fn masked_differences(a: u32, b: u32) -> u32 {
    let byte = |value: u32, i: u32| value >> (8 * i) & 0xff;
    (0..4).filter(|i| byte(b, *i) != 0).map(|i| byte(a, i).abs_diff(byte(b, i))).sum()
}

/// Returns four sums of absolute differences, added to the addends in `c`. Sum n uses the four bytes of `a` that start
/// at byte n. The sums wrap at 16 bits.
fn four_sums(a: u64, b: u32, c: u64, differences: fn(u32, u32) -> u32) -> u64 {
    (0..4).fold(0, |sums, i| {
        let sum = differences((a >> (8 * i)) as u32, b).wrapping_add((c >> (16 * i)) as u16 as u32);
        sums | u64::from(sum as u16) << (16 * i)
    })
}

/// Returns the implementation of `v_mqsad_u32_u8`, which writes its four sums to 32-bit registers.
fn four_words() -> Binder {
    Box::new(|text: &Text| {
        text.only(&[])?;
        let (row, sums) = (text.row(0, 4)?, text.row(3, 4)?);
        let (a, b) = (text.plain_source::<u64>(1)?, text.plain_source::<u32>(2)?);
        on_wave(move |wave| {
            for lane in active(wave.exec()) {
                let (a, b) = (a.lane::<u64>(wave, lane), b.lane::<u32>(wave, lane));
                // All results are computed first, because the destination may overlap the addends.
                let results: [u32; 4] = std::array::from_fn(|i| {
                    let differences = masked_differences((a >> (8 * i)) as u32, b);
                    differences.wrapping_add(wave.lane(sums + i, lane))
                });
                for (word, result) in results.into_iter().enumerate() {
                    wave.set_lane(row + word, lane, result);
                }
            }
        })
    })
}

fn median<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.max(b).min(a.min(b).max(c))
}

/// Returns the two signed halves of `a` as saturated unsigned bytes.
fn saturated_bytes(a: u32) -> u16 {
    let byte = |half: u32| (half as i16).clamp(0, 255) as u16;
    byte(a) | byte(a >> 16) << 8
}

/// Returns two bytes: `a` and `b`, both shifted right and then limited by `fit` to the range of a byte.
fn shifted_bytes(a: i32, b: i32, shift: u32, fit: fn(i32) -> i32) -> u16 {
    let byte = |value: i32| fit(value >> (shift & 31)) as u8;
    u16::from_le_bytes([byte(a), byte(b)])
}

/// Returns the next state of the linear-feedback shift register of `v_prng_b32` (the CDNA 4 ISA guide).
pub(super) fn next_random(a: u32) -> u32 {
    a << 1 ^ if a >> 31 == 1 { 197 } else { 0 }
}

/// Implements `v_bitop3`. The bits of the operands at each position select a bit of the truth table `rows`, which is
/// the result at this position.
fn looked_up(rows: u32, a: u32, b: u32, c: u32) -> u32 {
    (0..8).filter(|row| rows >> row & 1 == 1).fold(0, |bits, row| {
        let pick = |value: u32, bit: u32| if row & bit != 0 { value } else { !value };
        bits | (pick(a, 4) & pick(b, 2) & pick(c, 1))
    })
}

/// Returns the implementation of `v_bitop3`, which has the truth table as a modifier.
fn by_rows(operation: impl Fn(u32) -> Binder + Send + Sync + 'static) -> Binder {
    Box::new(move |text: &Text| {
        let mut bare = text.clone();
        bare.drop_modifier("bitop3");
        operation(text.number("bitop3")? as u32)(&bare)
    })
}

/// Binds an operation with a 64-bit addend. Rejects floating-point and 32-bit constants as the addend, because no
/// public source specifies how hardware extends them.
fn without_wide_constant(operation: Binder) -> Binder {
    Box::new(move |text: &Text| match text.operand(3)?.base {
        Base::Constant(Constant::Float(_) | Constant::Literal(_)) => Err(Unsupported),
        _ => operation(text),
    })
}

fn leading(a: u32) -> u32 {
    if a == 0 { u32::MAX } else { a.leading_zeros() }
}

fn add_carry(a: u32, b: u32, carry: u32) -> (u32, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(carry);
    (sum, first | second)
}

fn subtract_borrow(a: u32, b: u32, borrow: u32) -> (u32, bool) {
    let (rest, first) = a.overflowing_sub(b);
    let (rest, second) = rest.overflowing_sub(borrow);
    (rest, first | second)
}

/// Returns the product plus the addend, saturated to 16 bits.
pub(super) fn mad_u16(a: u16, b: u16, c: u16) -> u16 {
    let sum = u64::from(a) * u64::from(b) + u64::from(c);
    u16::try_from(sum).unwrap_or(u16::MAX)
}

pub(super) fn mad_i16(a: i16, b: i16, c: i16) -> i16 {
    let sum = i64::from(a) * i64::from(b) + i64::from(c);
    sum.clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

/// Returns the variant of `f`, an addition or subtraction with carry, for instructions with the modifier `clamp`: if
/// there is a carry or borrow, the result is `limit`.
fn stopped(
    f: impl Fn(u32, u32, u32) -> (u32, bool) + Copy,
    limit: u32,
) -> impl Fn(u32, u32, u32) -> (u32, bool) + Copy {
    move |a, b, carry| match f(a, b, carry) {
        (_, true) => (limit, true),
        (result, false) => (result, false),
    }
}

/// A multiply-add with a 64-bit result. It is computed in 32-bit words, because a vector of the host contains eight of
/// them.
struct WideMad<const SIGNED: bool> {
    a: Source,
    b: Source,
    c: Source,
    row: usize,
    carry_out: u16,
}

impl<const SIGNED: bool> WideMad<SIGNED> {
    /// Computes the results of half a wave. Returns a lane mask with bit 64 of each sum: the carry, or for signed
    /// numbers the sign of the exact sum ("{ D1.i1, D0.i64 } = 65'B(...)" in the RDNA 4 and CDNA 4 ISA guides).
    #[inline(always)]
    fn half(&self, wave: &mut Wave, half: usize) -> u32 {
        let mask = wave.exec_half(half);
        let (mut a0, mut b0) = (Buffer::uninit(), Buffer::uninit());
        let (mut c0, mut c1) = (Buffer::uninit(), Buffer::uninit());
        let a = self.a.whole(wave, half, 0, &mut a0);
        let b = self.b.whole(wave, half, 0, &mut b0);
        let c_low = self.c.whole(wave, half, 0, &mut c0);
        let c_high = self.c.whole(wave, half, 1, &mut c1);
        let (mut low, mut high, mut carries) = ([0; HALF], [0; HALF], [0; HALF]);
        for lane in 0..HALF {
            let (a, b, c) = (a[lane], b[lane], c_high[lane]);
            let product = if SIGNED {
                ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
            } else {
                ((u64::from(a) * u64::from(b)) >> 32) as u32
            };
            low[lane] = a.wrapping_mul(b).wrapping_add(c_low[lane]);
            let carry = u32::from(low[lane] < c_low[lane]);
            let sum = product.wrapping_add(c).wrapping_add(carry);
            high[lane] = sum;
            // The highest bit of each word is the carry of the lane.
            carries[lane] = if SIGNED {
                sum ^ ((product ^ sum) & (c ^ sum))
            } else {
                (product & c) | ((product | c) & !sum)
            };
        }
        wave.blend(self.row, half, mask, &low);
        wave.blend(self.row + 1, half, mask, &high);
        // Most kernels do not use the carry.
        if self.carry_out == register::NULL { 0 } else { sign_bits(&carries) & mask }
    }
}

impl<const SIGNED: bool> Lanes for WideMad<SIGNED> {
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let mut carry_out = 0u64;
        for half in 0..wave.halves() {
            carry_out |= u64::from(self.half(wave, half)) << (half * HALF);
        }
        wave.set_mask(self.carry_out, carry_out);
    }
}

impl<const SIGNED: bool> Plain for WideMad<SIGNED> {
    const SATURATES: bool = false;
    const FLUSHES: bool = false;

    fn is_plain(&self) -> bool {
        [&self.a, &self.b, &self.c].iter().all(|source| !source.overlaps_mask(self.carry_out))
    }

    #[inline(always)]
    fn run_plain(&self, wave: &mut Wave, half: usize) {
        let carry_out = self.half(wave, half);
        wave.set_half_mask(self.carry_out, half, carry_out);
    }
}

/// Returns the implementation of the multiply-add `op dst, carry_out, a, b, c`. `dst` and `c` have 64 bits.
fn wide_mad<const SIGNED: bool>() -> Operation {
    let binder: Binder = Box::new(move |text: &Text| {
        text.only(&[])?;
        bind_plain(WideMad::<SIGNED> {
            a: text.plain_source::<u32>(2)?,
            b: text.plain_source::<u32>(3)?,
            // The type of the source operand determines whether a 32-bit literal is sign-extended.
            c: if SIGNED { text.plain_source::<i64>(4)? } else { text.plain_source::<u64>(4)? },
            row: text.row(0, 2)?,
            carry_out: text.scalar(1, 1)?,
        })
    });
    Operation::from(binder).with_flow(DataFlow::Flags)
}

/// Returns the implementation of a 64-bit shift `op dst, shift, value`.
fn shift64<T: Value>(f: impl Fn(T, u32) -> T + Copy + Send + Sync + 'static) -> Binder {
    binary(move |shift: u32, value: T| f(value, shift & 63))
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "v_mov_b32" | "v_accvgpr_read_b32" | "v_accvgpr_write_b32" | "v_accvgpr_mov_b32"
            | "v_accvgpr_read" | "v_accvgpr_write" => copies(unary(|a: u32| a));
        "v_mov_b64" => copies(unary(|a: u64| a));
        "v_mov_b16" => copies(unary(|a: u16| a));
        "v_not_b32" => bits(unary(|a: u32| !a));
        "v_not_b16" => bits(unary(|a: u16| !a));
        "v_bfrev_b32" => unary(|a: u32| a.reverse_bits());
        "v_ffbh_u32" | "v_clz_i32_u32" => unary(leading);
        "v_ffbh_i32" | "v_cls_i32" => unary(|a: u32| leading(a ^ ((a as i32) >> 31) as u32));
        "v_ffbl_b32" | "v_ctz_i32_b32" =>
            unary(|a: u32| if a == 0 { u32::MAX } else { a.trailing_zeros() });
        // From GFX11 on, the instruction writes one 16-bit half of the destination register. Before GFX11, it writes
        // the whole register.
        "v_sat_pk_u8_i16" => by_arch(|arch| match arch.facts().sat_pk_writes_half {
            true => unary(saturated_bytes),
            false => unary(|a| u32::from(saturated_bytes(a))),
        });

        "v_add_u32" | "v_add_nc_u32" => binary(|a: u32, b: u32| a.wrapping_add(b));
        "v_add_u32 clamp" | "v_add_nc_u32 clamp" => binary(|a: u32, b: u32| a.saturating_add(b));
        "v_add_i32" | "v_add_nc_i32" => binary(|a: u32, b: u32| a.wrapping_add(b));
        "v_add_i32 clamp" | "v_add_nc_i32 clamp" => binary(|a: i32, b: i32| a.saturating_add(b));
        "v_sub_u32" | "v_sub_nc_u32" => binary(|a: u32, b: u32| a.wrapping_sub(b));
        "v_sub_u32 clamp" | "v_sub_nc_u32 clamp" => binary(|a: u32, b: u32| a.saturating_sub(b));
        "v_sub_i32" | "v_sub_nc_i32" => binary(|a: u32, b: u32| a.wrapping_sub(b));
        "v_sub_i32 clamp" | "v_sub_nc_i32 clamp" => binary(|a: i32, b: i32| a.saturating_sub(b));
        "v_subrev_u32" | "v_subrev_nc_u32" => binary(|a: u32, b: u32| b.wrapping_sub(a));
        "v_subrev_u32 clamp" | "v_subrev_nc_u32 clamp" => binary(|a: u32, b: u32| b.saturating_sub(a));
        "v_add_nc_u64" | "v_add_u64" => binary(|a: u64, b: u64| a.wrapping_add(b));
        "v_sub_nc_u64" | "v_sub_u64" => binary(|a: u64, b: u64| a.wrapping_sub(b));
        "v_add_co_u32" | "v_addc_co_u32" | "v_add_co_ci_u32" => carry(add_carry);
        "v_sub_co_u32" | "v_subb_co_u32" | "v_sub_co_ci_u32" => carry(subtract_borrow);
        "v_subrev_co_u32" | "v_subbrev_co_u32" | "v_subrev_co_ci_u32" =>
            carry(|a, b, borrow| subtract_borrow(b, a, borrow));
        "v_add_co_u32 clamp" | "v_addc_co_u32 clamp" | "v_add_co_ci_u32 clamp" =>
            carry(stopped(add_carry, u32::MAX));
        "v_sub_co_u32 clamp" | "v_subb_co_u32 clamp" | "v_sub_co_ci_u32 clamp" =>
            carry(stopped(subtract_borrow, 0));
        "v_subrev_co_u32 clamp" | "v_subbrev_co_u32 clamp" | "v_subrev_co_ci_u32 clamp" =>
            carry(stopped(|a, b, borrow| subtract_borrow(b, a, borrow), 0));
        "v_mul_lo_u32" => binary(|a: u32, b: u32| a.wrapping_mul(b));
        "v_mul_hi_u32" => binary(|a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32);
        "v_mul_hi_i32" => binary(|a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32);
        "v_mul_u32_u24" => binary(|a: u32, b: u32| u24(a).wrapping_mul(u24(b)));
        "v_mul_i32_i24" => binary(|a: u32, b: u32| i24(a).wrapping_mul(i24(b)));
        "v_mul_hi_u32_u24" => binary(high_u24);
        "v_mul_hi_i32_i24" => binary(high_i24);
        "v_mad_u32_u24" =>
            ternary(|a: u32, b: u32, c: u32| u24(a).wrapping_mul(u24(b)).wrapping_add(c));
        "v_mad_i32_i24" =>
            ternary(|a: u32, b: u32, c: i32| i24(a).wrapping_mul(i24(b)).wrapping_add(c));
        "v_mad_u32_u24 clamp" => ternary(|a: u32, b: u32, c: u32| {
            let sum = u64::from(u24(a)) * u64::from(u24(b)) + u64::from(c);
            u32::try_from(sum).unwrap_or(u32::MAX)
        });
        "v_mad_i32_i24 clamp" => ternary(|a: u32, b: u32, c: i32| {
            let sum = i64::from(i24(a)) * i64::from(i24(b)) + i64::from(c);
            sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32
        });
        "v_mad_u32" => ternary(|a: u32, b: u32, c: u32| a.wrapping_mul(b).wrapping_add(c));
        "v_mad_u64_u32" | "v_mad_co_u64_u32" => wide_mad::<false>();
        "v_mad_i64_i32" | "v_mad_co_i64_i32" => wide_mad::<true>();

        "v_and_b32" => bits(binary(|a: u32, b: u32| a & b));
        "v_or_b32" => bits(binary(|a: u32, b: u32| a | b));
        "v_xor_b32" => binary(|a: u32, b: u32| a ^ b);
        "v_xnor_b32" => binary(|a: u32, b: u32| !(a ^ b));
        "v_and_b16" => bits(binary(|a: u16, b: u16| a & b));
        "v_or_b16" => bits(binary(|a: u16, b: u16| a | b));
        "v_xor_b16" => binary(|a: u16, b: u16| a ^ b);
        "v_lshlrev_b32" => bits(binary(|shift: u32, a: u32| a << (shift & 31)));
        "v_lshrrev_b32" => bits(binary(|shift: u32, a: u32| a >> (shift & 31)));
        "v_ashrrev_i32" => bits(binary(|shift: u32, a: i32| a >> (shift & 31)));
        "v_lshlrev_b64" => bits(shift64(|a: u64, shift| a << shift));
        "v_lshrrev_b64" => bits(shift64(|a: u64, shift| a >> shift));
        "v_ashrrev_i64" => bits(shift64(|a: i64, shift| a >> shift));
        "v_lshlrev_b16" => bits(binary(|shift: u16, a: u16| a << (shift & 15)));
        "v_lshrrev_b16" => bits(binary(|shift: u16, a: u16| a >> (shift & 15)));
        "v_ashrrev_i16" => bits(binary(|shift: u16, a: i16| a >> (shift & 15)));
        "v_bfm_b32" => binary(|a: u32, b: u32| ((1u32 << (a & 31)) - 1) << (b & 31));
        "v_bcnt_u32_b32" => binary(|a: u32, b: u32| a.count_ones().wrapping_add(b));
        "v_min_u32" => binary(|a: u32, b: u32| a.min(b));
        "v_max_u32" => binary(|a: u32, b: u32| a.max(b));
        "v_min_i32" => binary(|a: i32, b: i32| a.min(b));
        "v_max_i32" => binary(|a: i32, b: i32| a.max(b));
        // The source operands are halves with `neg` and `abs`, as for an f16 operation. On GFX12 the instruction makes
        // signalling NaNs quiet: on a Radeon RX 9070 XT, 0x7c09 becomes 0x7e09.
        "v_pack_b32_f16" => bits(by_arch(|arch| match arch.facts().packs_quiet_nans {
            true => binary(|a: F16, b: F16| {
                u32::from(a.quiet().0) | u32::from(b.quiet().0) << 16
            }),
            false => binary(|a: F16, b: F16| u32::from(a.0) | u32::from(b.0) << 16),
        }));

        "v_add_u16" | "v_add_nc_u16" => binary(|a: u16, b: u16| a.wrapping_add(b));
        "v_add_u16 clamp" | "v_add_nc_u16 clamp" => binary(|a: u16, b: u16| a.saturating_add(b));
        "v_add_i16" | "v_add_nc_i16" => binary(|a: u16, b: u16| a.wrapping_add(b));
        "v_add_i16 clamp" | "v_add_nc_i16 clamp" => binary(|a: i16, b: i16| a.saturating_add(b));
        "v_sub_u16" | "v_sub_nc_u16" => binary(|a: u16, b: u16| a.wrapping_sub(b));
        "v_sub_u16 clamp" | "v_sub_nc_u16 clamp" => binary(|a: u16, b: u16| a.saturating_sub(b));
        "v_sub_i16" | "v_sub_nc_i16" => binary(|a: u16, b: u16| a.wrapping_sub(b));
        "v_sub_i16 clamp" | "v_sub_nc_i16 clamp" => binary(|a: i16, b: i16| a.saturating_sub(b));
        "v_subrev_u16" => binary(|a: u16, b: u16| b.wrapping_sub(a));
        "v_subrev_u16 clamp" => binary(|a: u16, b: u16| b.saturating_sub(a));
        "v_mul_lo_u16" => binary(|a: u16, b: u16| a.wrapping_mul(b));
        "v_min_u16" => binary(|a: u16, b: u16| a.min(b));
        "v_max_u16" => binary(|a: u16, b: u16| a.max(b));
        "v_min_i16" => binary(|a: i16, b: i16| a.min(b));
        "v_max_i16" => binary(|a: i16, b: i16| a.max(b));
        "v_mad_u16" | "v_mad_i16" | "v_mad_legacy_u16" | "v_mad_legacy_i16" =>
            ternary(|a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c));
        "v_mad_u16 clamp" | "v_mad_legacy_u16 clamp" => ternary(mad_u16);
        "v_mad_i16 clamp" | "v_mad_legacy_i16 clamp" => ternary(mad_i16);
        "v_mad_u32_u16 clamp" => ternary(|a: u16, b: u16, c: u32| {
            (u32::from(a) * u32::from(b)).saturating_add(c)
        });
        "v_mad_i32_i16 clamp" => ternary(|a: i16, b: i16, c: i32| {
            (i32::from(a) * i32::from(b)).saturating_add(c)
        });
        "v_mad_u32_u16" => ternary(|a: u16, b: u16, c: u32| {
            (u32::from(a) * u32::from(b)).wrapping_add(c)
        });
        "v_mad_i32_i16" => ternary(|a: i16, b: i16, c: i32| {
            (i32::from(a) * i32::from(b)).wrapping_add(c)
        });
        "v_min3_u16" => ternary(|a: u16, b: u16, c: u16| a.min(b).min(c));
        "v_max3_u16" => ternary(|a: u16, b: u16, c: u16| a.max(b).max(c));
        "v_min3_i16" => ternary(|a: i16, b: i16, c: i16| a.min(b).min(c));
        "v_max3_i16" => ternary(|a: i16, b: i16, c: i16| a.max(b).max(c));
        "v_med3_u16" => ternary(|a: u16, b: u16, c: u16| median(a, b, c));
        "v_med3_i16" => ternary(|a: i16, b: i16, c: i16| median(a, b, c));

        "v_bfe_u32" => bits(ternary(extract_u32));
        "v_bfe_i32" => bits(ternary(extract_i32));
        "v_bfi_b32" => bits(ternary(|mask: u32, a: u32, b: u32| (mask & a) | (!mask & b)));
        // From GFX11 on, the shift is a 16-bit operand, which may be the upper half of a register. Only the five lowest
        // bits of the shift are used.
        "v_alignbit_b32" => bits(ternary(|a: u32, b: u32, shift: u16| {
            ((u64::from(a) << 32 | u64::from(b)) >> (shift & 31)) as u32
        }));
        "v_alignbyte_b32" => bits(ternary(|a: u32, b: u32, shift: u16| {
            ((u64::from(a) << 32 | u64::from(b)) >> (8 * (shift & 3))) as u32
        }));
        "v_perm_b32" => bits(ternary(permute_bytes));
        "v_lshl_add_u32" => ternary(|a: u32, s: u32, c: u32| (a << (s & 31)).wrapping_add(c));
        "v_add_lshl_u32" => ternary(|a: u32, b: u32, s: u32| a.wrapping_add(b) << (s & 31));
        "v_lshl_or_b32" => bits(ternary(|a: u32, s: u32, c: u32| a << (s & 31) | c));
        "v_mul_u64" => binary(|a: u64, b: u64| a.wrapping_mul(b));
        "v_mad_nc_u64_u32" => without_wide_constant(ternary(|a: u32, b: u32, c: u64| {
            (u64::from(a) * u64::from(b)).wrapping_add(c)
        }));
        "v_mad_nc_i64_i32" => without_wide_constant(ternary(|a: i32, b: i32, c: i64| {
            (i64::from(a) * i64::from(b)).wrapping_add(c)
        }));
        // Only the three lowest bits of the shift are used (the CDNA 3 and CDNA 4 ISA guides).
        "v_lshl_add_u64" => ternary(|a: u64, s: u32, c: u64| (a << (s & 7)).wrapping_add(c));
        "v_and_or_b32" => bits(ternary(|a: u32, b: u32, c: u32| a & b | c));
        "v_or3_b32" => bits(ternary(|a: u32, b: u32, c: u32| a | b | c));
        "v_xor3_b32" => ternary(|a: u32, b: u32, c: u32| a ^ b ^ c);
        "v_xad_u32" => ternary(|a: u32, b: u32, c: u32| (a ^ b).wrapping_add(c));
        "v_add3_u32" => ternary(|a: u32, b: u32, c: u32| a.wrapping_add(b).wrapping_add(c));
        "v_min3_u32" => ternary(|a: u32, b: u32, c: u32| a.min(b).min(c));
        "v_max3_u32" => ternary(|a: u32, b: u32, c: u32| a.max(b).max(c));
        "v_min3_i32" => ternary(|a: i32, b: i32, c: i32| a.min(b).min(c));
        "v_max3_i32" => ternary(|a: i32, b: i32, c: i32| a.max(b).max(c));
        "v_med3_u32" => ternary(|a: u32, b: u32, c: u32| median(a, b, c));
        "v_med3_i32" => ternary(|a: i32, b: i32, c: i32| median(a, b, c));
        "v_maxmin_u32" => ternary(|a: u32, b: u32, c: u32| a.max(b).min(c));
        "v_minmax_u32" => ternary(|a: u32, b: u32, c: u32| a.min(b).max(c));
        "v_maxmin_i32" => ternary(|a: i32, b: i32, c: i32| a.max(b).min(c));
        "v_minmax_i32" => ternary(|a: i32, b: i32, c: i32| a.min(b).max(c));
        "v_sad_u8" => ternary(|a: u32, b: u32, c: u32| {
            absolute_differences(a, b).wrapping_add(c)
        });
        "v_sad_hi_u8" => ternary(|a: u32, b: u32, c: u32| {
            (absolute_differences(a, b) << 16).wrapping_add(c)
        });
        "v_sad_u16" => ternary(|a: u32, b: u32, c: u32| {
            let half = |shift: u32| (a >> shift & 0xffff).abs_diff(b >> shift & 0xffff);
            half(0).wrapping_add(half(16)).wrapping_add(c)
        });
        "v_msad_u8" => ternary(|a: u32, b: u32, c: u32| masked_differences(a, b).wrapping_add(c));
        "v_qsad_pk_u16_u8" => ternary(|a: u64, b: u32, c: u64| four_sums(a, b, c, absolute_differences));
        "v_mqsad_pk_u16_u8" => ternary(|a: u64, b: u32, c: u64| four_sums(a, b, c, masked_differences));
        "v_mqsad_u32_u8" => four_words();
        "v_lerp_u8" => ternary(|a: u32, b: u32, c: u32| {
            (0..4).map(|i| 8 * i).fold(0, |bytes, shift| {
                let sum = (a >> shift & 0xff) + (b >> shift & 0xff) + (c >> shift & 1);
                bytes | (sum >> 1) << shift
            })
        });
        "v_sad_u32" => ternary(|a: u32, b: u32, c: u32| a.abs_diff(b).wrapping_add(c));
        "v_bitop3_b32" => bits(by_rows(|rows| ternary(move |a: u32, b: u32, c: u32| looked_up(rows, a, b, c))));
        // The instruction has no third source operand, so the truth table is used with a third operand of zero.
        "v_bitop2_b32" => bits(by_rows(|rows| binary(move |a: u32, b: u32| looked_up(rows, a, b, 0))));
        "v_bitop3_b16" => bits(by_rows(|rows| ternary(move |a: u16, b: u16, c: u16| {
            looked_up(rows, a.into(), b.into(), c.into()) as u16
        })));
        "v_ashr_pk_i8_i32" => ternary(|a: i32, b: i32, shift: u32| {
            shifted_bytes(a, b, shift, |value| value.clamp(-128, 127))
        });
        "v_ashr_pk_u8_i32" => ternary(|a: i32, b: i32, shift: u32| {
            shifted_bytes(a, b, shift, |value| value.clamp(0, 255))
        });
        "v_prng_b32" => unary(next_random);
        "v_cndmask_b32" => select::<f32>();
        "v_cndmask_b16" => bits(select::<F16>());
    }
}
