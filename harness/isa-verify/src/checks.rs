//! Launches each kernel of `kernels.hip` in the interpreter and compares its results with expected ones.

use std::{fmt::Debug, time::Duration};

use isa::{DEFAULT_STEP_LIMIT, Trap};

use crate::device_memory::{Device, mapped};

pub(crate) type Check = fn(&Device) -> Result<(), String>;

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("fill", fill),
    ("copy", copy),
    ("add", add),
    ("saxpy", saxpy),
    ("lcg", lcg),
    ("reduce", reduce),
    ("histogram", histogram),
    ("matmul", matmul),
    ("daxpy", daxpy),
    ("halves", halves),
    ("half2s", half2s),
    ("bf16s", bf16s),
    ("shuffles", shuffles),
    ("divisions", divisions),
    ("fdivs", fdivs),
    ("ddivs", ddivs),
    ("maths", maths),
    ("globals", globals),
    ("gives_up", gives_up),
    ("narrow", narrow),
    ("atomics64", atomics64),
    ("dims", dims),
    ("locals", locals),
    ("calls", calls),
    ("flats", flats),
    ("lds64", lds64),
    ("bits", bits),
    ("spin", spin),
    ("meets", meets),
    ("looks_back", looks_back),
    ("locks", locks),
    ("meets alone", meets_alone),
    ("dynamic", dynamic),
    ("converts", converts),
    ("rounds", rounds),
    ("saxpy fault", saxpy_fault),
];

/// Launches a kernel. The arguments are buffers and scalars. The kernel may access only the listed buffers.
macro_rules! launch {
    ($device:expr, $name:literal, $groups:expr, $size:expr, lds $lds:expr,
     [$($argument:expr),*], [$($buffer:expr),*]) => {{
        let ranges = [$(mapped(&$buffer)),*];
        $device.launch($name, $groups, $size, $lds, &[$($argument.into()),*], &ranges)
    }};
    ($device:expr, $name:literal, $groups:expr, $size:expr,
     [$($argument:expr),*], [$($buffer:expr),*]) => {
        launch!($device, $name, [$groups, 1, 1], [$size, 1, 1], lds 0, [$($argument),*], [$($buffer),*])
            .map_err(|trap: isa::Trap| trap.to_string())?
    };
}
pub(crate) use launch;

pub(crate) fn equal<T: PartialEq + Debug>(
    got: &[T],
    want: impl Fn(usize) -> T,
) -> Result<(), String> {
    for (index, got) in got.iter().enumerate() {
        let want = want(index);
        if *got != want {
            return Err(format!("element {index} is {got:x?}, must be {want:x?}"));
        }
    }
    Ok(())
}

fn close(got: f32, want: f64, relative: f64, what: &str) -> Result<(), String> {
    let error = (f64::from(got) - want).abs();
    if error <= relative * want.abs().max(1e-30) || f64::from(got) == want {
        Ok(())
    } else {
        Err(format!("{what} is {got}, must be {want}"))
    }
}

pub(crate) fn random(seed: u32) -> impl FnMut() -> u32 {
    let mut state = u64::from(seed) * 2 + 1;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32 ^ (state >> 11) as u32
    }
}

fn floats(seed: u32, n: usize) -> Vec<f32> {
    let mut next = random(seed);
    (0..n).map(|_| (next() >> 8) as f32 / (1 << 23) as f32 * 8.0 - 8.0).collect()
}

fn fill(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 1024];
    launch!(device, "fill", 4, 256, [&mut o, 0xabcd_1234u32, 1000u32], [o]);
    equal(&o, |i| if i < 1000 { 0xabcd_1234 } else { 0 })
}

fn copy(device: &Device) -> Result<(), String> {
    let (mut o, mut a) = (vec![0u32; 1000], (0..1000).collect::<Vec<u32>>());
    launch!(device, "copy", 10, 100, [&mut o, &mut a, 1000u32], [o, a]);
    equal(&o, |i| i as u32)
}

fn add(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 1000];
    let (mut a, mut b) = ((0..1000).collect::<Vec<u32>>(), vec![0xffff_fff0u32; 1000]);
    launch!(device, "add", 4, 256, [&mut o, &mut a, &mut b, 1000u32], [o, a, b]);
    equal(&o, |i| (i as u32).wrapping_add(0xffff_fff0))
}

fn saxpy(device: &Device) -> Result<(), String> {
    let n = 16384;
    let mut x: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
    let mut y = vec![1.0f32; n];
    launch!(device, "saxpy", n as u32 / 256, 256, [2.0f32, &mut x, &mut y, n as u32], [x, y]);
    equal(&y, |i| i as f32 + 1.0)
}

fn saxpy_fault(device: &Device) -> Result<(), String> {
    let (mut x, mut y) = (vec![0f32; 256], vec![0f32; 200]);
    let end = mapped(&y).end;
    let result = launch!(device, "saxpy", [1, 1, 1], [256, 1, 1], lds 0,
        [2.0f32, &mut x, &mut y, 256u32], [x, y]);
    match result {
        Err(Trap::PageFault { address, write: false, .. }) if address == end => Ok(()),
        other => Err(format!("the launch must fault at {end:#x}, but the result is {other:?}")),
    }
}

fn lcg(device: &Device) -> Result<(), String> {
    let n = 131_072;
    let mut o = vec![0u32; n];
    launch!(device, "lcg", n as u32 / 256, 256, [&mut o, 16u32], [o]);
    equal(&o, |i| {
        let mut x = (i as u32).wrapping_mul(2654435761).wrapping_add(1);
        let mut y = i as u64 + 1;
        for _ in 0..16 {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            y = y.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            x = (x ^ (y >> 33) as u32).rotate_left(7);
        }
        x ^ (y >> 32) as u32
    })
}

fn reduce(device: &Device) -> Result<(), String> {
    let mut x: Vec<f32> = (0..4096).map(|i| (i % 17) as f32).collect();
    let mut y = vec![0f32; 1];
    launch!(device, "reduce", 1, 256, [&mut x, &mut y, 4096u32], [x, y]);
    equal(&y, |_| x.iter().sum::<f32>())
}

fn histogram(device: &Device) -> Result<(), String> {
    let mut x: Vec<u32> = (0..4096).map(|i| i * 7).collect();
    let (mut h, mut f) = (vec![0u32; 16], vec![0f32; 16]);
    launch!(device, "histogram", 16, 256, [&mut x, &mut h, &mut f, 4096u32], [x, h, f]);
    equal(&h, |_| 256)?;
    equal(&f, |_| 128.0)
}

fn matmul(device: &Device) -> Result<(), String> {
    let n = 64usize;
    // The matrices contain small integers, whose sums are exact even if the compiler uses fused operations.
    let whole = |seed| floats(seed, n * n).iter().map(|x| x.round()).collect::<Vec<f32>>();
    let (mut a, mut b, mut c) = (whole(1), whole(2), vec![0f32; n * n]);
    launch!(device, "matmul", [4, 4, 1], [16, 16, 1], lds 0,
        [&mut a, &mut b, &mut c, n as u32], [a, b, c])
    .map_err(|trap| trap.to_string())?;
    equal(&c, |i| (0..n).map(|k| a[i / n * n + k] * b[k * n + i % n]).sum::<f32>())
}

fn daxpy(device: &Device) -> Result<(), String> {
    let mut x: Vec<f64> = (0..256).map(|i| f64::from(i) * 0.3).collect();
    let mut y: Vec<f64> = (0..256).map(|i| f64::from(i) - 77.7).collect();
    let old = y.clone();
    launch!(device, "daxpy", 1, 256, [1.7f64, &mut x, &mut y, 256u32], [x, y]);
    equal(&y, |i| 1.7f64.mul_add(x[i], old[i] / 3.0))
}

/// Returns the bits of the f16 that is nearest to `value`, ties to even. Finds this number by a binary search.
pub(crate) fn f16_bits(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    let (mut low, mut high) = (0u16, 0x7c00u16);
    while low < high {
        let middle = (low + high) / 2;
        if f16_value(middle) < magnitude { low = middle + 1 } else { high = middle }
    }
    if low > 0 {
        let (below, above) =
            (f16_value(low - 1), if low == 0x7c00 { 65536.0 } else { f16_value(low) });
        let middle = (below + above) / 2.0;
        if magnitude < middle || (magnitude == middle && low % 2 == 1) {
            low -= 1;
        }
    }
    low | sign
}

fn f16_value(bits: u16) -> f64 {
    let magnitude = f64::from(bits & 0x3ff);
    let value = match bits >> 10 & 31 {
        0 => magnitude * 2f64.powi(-24),
        31 => f64::INFINITY,
        exponent => (1024.0 + magnitude) * 2f64.powi(i32::from(exponent) - 25),
    };
    if bits & 0x8000 != 0 { -value } else { value }
}

fn halves(device: &Device) -> Result<(), String> {
    let (mut a, mut b, mut o) = (floats(3, 256), floats(4, 256), vec![0u32; 768]);
    launch!(device, "halves", 1, 256, [&mut a, &mut b, &mut o], [a, b, o]);
    equal(&o, |i| {
        let round = |v: f64| f16_value(f16_bits(v));
        let (x, y) = (round(f64::from(a[i % 256])), round(f64::from(b[i % 256])));
        let bits = |v: f64| u32::from(f16_bits(v));
        match i / 256 {
            0 => bits(x + y) | bits(x * y) << 16,
            1 => bits(x * y + round(x + y)) | bits(x - y) << 16,
            _ => (x as f32).to_bits(),
        }
    })
}

fn half2s(device: &Device) -> Result<(), String> {
    let mut next = random(5);
    let mut pack = || {
        let half = |bits: u32| f16_bits(f64::from(bits & 0xffff) / 4096.0 - 8.0);
        let word = next();
        u32::from(half(word)) | u32::from(half(word >> 16)) << 16
    };
    let mut a: Vec<u32> = (0..256).map(|_| pack()).collect();
    let mut b: Vec<u32> = (0..256).map(|_| pack()).collect();
    let mut o = vec![0u32; 768];
    launch!(device, "half2s", 1, 256, [&mut a, &mut b, &mut o], [a, b, o]);
    equal(&o, |i| {
        let one = |shift: u32| {
            let (x, y) =
                (f16_value((a[i % 256] >> shift) as u16), f16_value((b[i % 256] >> shift) as u16));
            u32::from(f16_bits(match i / 256 {
                0 => x + y,
                1 => x * y,
                _ => x * y + x,
            }))
        };
        one(0) | one(16) << 16
    })
}

fn bf16s(device: &Device) -> Result<(), String> {
    let (mut a, mut o) = (floats(6, 256), vec![0u16; 256]);
    launch!(device, "bf16s", 1, 256, [&mut a, &mut o], [a, o]);
    equal(&o, |i| ((a[i].to_bits() + 0x7fff + (a[i].to_bits() >> 16 & 1)) >> 16) as u16)
}

fn shuffles(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 448];
    launch!(device, "shuffles", 1, 64, [&mut o], [o]);
    let lanes = device.arch.wave_size() as usize;
    equal(&o, |i| {
        let (t, x) = (i % 64, |t: usize| t as u32 * 3 + 1);
        let group = t / 32 * 32;
        match i / 64 {
            0 => (group..group + 32).map(x).sum(),
            1 => x(if t % 32 + 3 < 32 { t + 3 } else { t }),
            2 => x(if t % 32 == 0 { t } else { t - 1 }),
            3 => x(group + 5),
            4 | 5 => {
                let first = t / lanes * lanes;
                let ballot = (0..lanes)
                    .filter(|l| (first + l).is_multiple_of(3))
                    .fold(0u64, |mask, l| mask | 1 << l);
                if i / 64 == 4 { ballot as u32 } else { ballot.count_ones() }
            }
            _ => u32::from(t / lanes == 0) | 2,
        }
    })
}

fn divisions(device: &Device) -> Result<(), String> {
    let mut next = random(7);
    let mut a: Vec<i32> = (0..256).map(|_| next() as i32).collect();
    let mut b: Vec<i32> = (0..256).map(|i| (next() >> (i % 31)) as i32 | 1).collect();
    // The host uses copies of the numbers, because a kernel with an injected error may write zeros to the divisors.
    let (dividends, divisors) = (a.clone(), b.clone());
    let mut o = vec![0u32; 1536];
    launch!(device, "divisions", 1, 256, [&mut a, &mut b, &mut o], [a, b, o]);
    equal(&o, |i| {
        let (x, y) = (dividends[i % 256], divisors[i % 256]);
        let (p, q) = (i64::from(x) * 1000003, i64::from(y) * 7 + 1);
        match i / 256 {
            0 => x.wrapping_div(y) as u32,
            1 => x.wrapping_rem(y) as u32,
            2 => x as u32 / y as u32,
            3 => x as u32 % y as u32,
            4 => (p / q) as u32,
            _ => (p % q) as u32,
        }
    })
}

fn fdivs(device: &Device) -> Result<(), String> {
    let mut next = random(8);
    let mut a: Vec<f32> = (0..256).map(|_| f32::from_bits(next())).collect();
    let mut b: Vec<f32> = (0..256).map(|_| f32::from_bits(next())).collect();
    let special =
        [0.0, -0.0, f32::INFINITY, -f32::INFINITY, f32::NAN, 1e-40, f32::MAX, f32::MIN_POSITIVE];
    for i in 0..64 {
        (a[i], b[i]) = (special[i / 8], special[i % 8]);
    }
    let mut o = vec![0f32; 768];
    launch!(device, "fdivs", 1, 256, [&mut a, &mut b, &mut o], [a, b, o]);
    for (i, got) in o.iter().enumerate() {
        let (x, y) = (a[i % 256], b[i % 256]);
        let want = match i / 256 {
            0 => x / y,
            1 => (if x < 0.0 { -x } else { x }).sqrt(),
            _ => 1.0 / y,
        };
        // The bits are compared, in order to distinguish zeros with different signs. All NaNs are treated as equal.
        if got.to_bits() != want.to_bits() && !(got.is_nan() && want.is_nan()) {
            return Err(format!("element {i}, for {x:e} and {y:e}, is {got:e}, must be {want:e}"));
        }
    }
    Ok(())
}

fn ddivs(device: &Device) -> Result<(), String> {
    let mut next = random(9);
    let mut wide = || f64::from_bits(u64::from(next()) << 32 | u64::from(next()));
    let mut a: Vec<f64> = (0..256).map(|_| wide()).collect();
    let mut b: Vec<f64> = (0..256).map(|_| wide()).collect();
    let mut o = vec![0f64; 512];
    launch!(device, "ddivs", 1, 256, [&mut a, &mut b, &mut o], [a, b, o]);
    for (i, got) in o.iter().enumerate() {
        let (x, y) = (a[i % 256], b[i % 256]);
        let want = if i < 256 { x / y } else { x.abs().sqrt() };
        if got.to_bits() != want.to_bits() && !(got.is_nan() && want.is_nan()) {
            return Err(format!("element {i}, for {x:e} and {y:e}, is {got:e}, must be {want:e}"));
        }
    }
    Ok(())
}

fn maths(device: &Device) -> Result<(), String> {
    let (mut a, mut o) = (floats(10, 256), vec![0f32; 2048]);
    launch!(device, "maths", 1, 256, [&mut a, &mut o], [a, o]);
    for (i, got) in o.iter().enumerate() {
        let single = a[i % 256];
        let x = f64::from(single);
        let (want, tolerance) = match i / 256 {
            0 => (x.exp(), 1e-6),
            1 => (f64::from(single.abs() + 1e-3).ln(), 2e-6),
            2 => (f64::from(single * 100.0).sin(), 2e-5),
            3 => (x.abs().powf(1.5), 2e-6),
            4 => (x.floor() + x.ceil() * 3.0 + x.trunc() * 5.0 + x.round_ties_even() * 7.0, 0.0),
            5 => (f64::from(single.min(0.5) + single.max(-0.25)), 0.0),
            6 => (x.tanh(), 2e-6),
            _ => (f64::from(single * 1e6).cos(), 2e-3),
        };
        close(*got, want, tolerance, &format!("element {i}, for {single},"))?;
    }
    Ok(())
}

fn globals(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 16];
    for first in [7, 8] {
        launch!(device, "globals", 1, 16, [&mut o], [o]);
        equal(&o, |i| first + (1 << i))?;
    }
    Ok(())
}

fn gives_up(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 64];
    launch!(device, "gives_up", 1, 64, [&mut o], [o]);
    o[33] = 1;
    match launch!(device, "gives_up", [1, 1, 1], [64, 1, 1], lds 0, [&mut o], [o]) {
        Err(Trap::Abort { .. }) => Ok(()),
        other => Err(format!("the kernel must abort, but the result is {other:?}")),
    }
}

fn narrow(device: &Device) -> Result<(), String> {
    let mut a: Vec<u8> = (0..=255).collect();
    let mut b: Vec<i16> = (0..256).map(|i| (i * 255 - 32000) as i16).collect();
    let (mut c, mut d) = (vec![0u8; 256], vec![0i16; 256]);
    launch!(device, "narrow", 1, 256, [&mut a, &mut b, &mut c, &mut d], [a, b, c, d]);
    equal(&c, |i| a[i].wrapping_mul(3).wrapping_add(b[i] as u8))?;
    equal(&d, |i| b[i].wrapping_mul(2).wrapping_add(i16::from(a[i] as i8)))
}

fn atomics64(device: &Device) -> Result<(), String> {
    let mut o = vec![0u64, 0, 5, 0];
    let mut p = vec![0u32; 4 + 257];
    (p[0], p[260]) = (u32::MAX, 10);
    launch!(device, "atomics64", 1, 256, [&mut o, &mut p], [o, p]);
    let sum = (0..256u64).map(|i| i << 20).sum();
    equal(&o, |i| [sum, 255 * 77, 0, 9][i])?;
    equal(&p[..4], |i| [0, u32::MAX, 0, -255i32 as u32][i])?;
    equal(&p[260..], |_| 10u32.wrapping_sub(256))
}

fn dims(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 8 * 6 * 4];
    launch!(device, "dims", [2, 3, 2], [4, 2, 2], lds 0, [&mut o], [o])
        .map_err(|trap| trap.to_string())?;
    equal(&o, |i| ((i % 8) | ((i / 8 % 6) << 8) | ((i / 48) << 16)) as u32)
}

fn locals(device: &Device) -> Result<(), String> {
    let mut next = random(11);
    let mut a: Vec<u32> = (0..256).map(|_| next()).collect();
    let mut o = vec![0u32; 256];
    launch!(device, "locals", 1, 256, [&mut a, &mut o], [a, o]);
    equal(&o, |i| {
        let mut buffer = [0u32; 32];
        for k in 0..32 {
            buffer[(k * 7 + i) & 31] = a[(i + k) & 255].wrapping_add(k as u32);
        }
        (0..32).fold(0u32, |s, k| {
            s.wrapping_mul(31).wrapping_add(buffer[(a[k].wrapping_add(i as u32) & 31) as usize])
        })
    })
}

fn calls(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 64];
    launch!(device, "calls", 1, 64, [&mut o], [o]);
    equal(&o, |i| [0, 1, 1, 2, 3, 5, 8, 13][i % 8])
}

fn flats(device: &Device) -> Result<(), String> {
    for which in 0..3u32 {
        let mut o: Vec<u32> = (0..128).collect();
        launch!(device, "flats", 1, 64, [&mut o, which], [o]);
        equal(&o[..64], |i| {
            let t = i as u32;
            [(t ^ 1) + 100, t << (t & 1), t + 64][which as usize] + 1
        })?;
    }
    Ok(())
}

fn lds64(device: &Device) -> Result<(), String> {
    let mut o = vec![0u64; 65];
    launch!(device, "lds64", 1, 64, [&mut o], [o]);
    let s = |t: u64| t.wrapping_mul(0x1_0000_0001);
    equal(&o, |i| match i as u64 {
        64 => (0..64).sum(),
        t => s(63 - t).wrapping_add(!s(t ^ 5)),
    })
}

fn bits(device: &Device) -> Result<(), String> {
    let mut next = random(12);
    let mut a: Vec<u32> = (0..256).map(|i| next() >> (i % 33).min(31)).collect();
    a[32] = 0;
    let mut o = vec![0u32; 1536];
    launch!(device, "bits", 1, 256, [&mut a, &mut o], [a, o]);
    equal(&o, |i| {
        let x = a[i % 256];
        let y = u64::from(x) << 13 | u64::from(x);
        let first = |zeros: u32, bits: u32| if zeros == bits { 0 } else { zeros + 1 };
        let high = |a: i64, b: i64| ((i128::from(a) * i128::from(b)) >> 32) as u32;
        match i / 256 {
            0 => x.count_ones() + x.leading_zeros() * 64 + first(x.trailing_zeros(), 32) * 4096,
            1 => x.reverse_bits(),
            2 => y.count_ones() + y.leading_zeros() * 128 + first(y.trailing_zeros(), 64) * 16384,
            3 => (x >> 5 & 0x3ff).wrapping_add(((x << 3) as i32 >> 20) as u32),
            4 => (y >> (x & 63)) as u32 ^ (y as i64 >> 3) as u32,
            _ => (((u64::from(x) * 0x9e37_79b9) >> 32) as u32)
                .wrapping_add(high(i64::from(x as i32), -77))
                .wrapping_add(((x << 8) as i32 >> 8).wrapping_mul(1234) as u32)
                .wrapping_add(((u128::from(y) * u128::from(y)) >> 64) as u32),
        }
    })
}

fn spin(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 1];
    device.step_limit.set(1000);
    let result = launch!(device, "spin", [1, 1, 1], [64, 1, 1], lds 0, [&mut o], [o]);
    device.step_limit.set(DEFAULT_STEP_LIMIT);
    match result {
        Err(Trap::StepLimit { limit: 1000, .. }) => Ok(()),
        other => Err(format!("the launch must reach the step limit, but the result is {other:?}")),
    }
}

fn meets(device: &Device) -> Result<(), String> {
    for sleeps in [0u32, 1] {
        let (mut o, mut slots) = (vec![0u32; 16 * 64], vec![0u32; 16 * 4]);
        let mut counts = vec![0u32; 4];
        launch!(
            device,
            "meets",
            16,
            64,
            [&mut o, &mut slots, &mut counts, 4u32, sleeps],
            [o, slots, counts]
        );
        equal(&o, |i| 600 + 4 * ((i as u32 / 64 + 1) % 16))?;
    }
    Ok(())
}

/// Launches one workgroup more than fits on the device at the same time. Because all workgroups wait for each other,
/// the launch must be reported as hung.
fn meets_alone(device: &Device) -> Result<(), String> {
    let (mut o, mut slots) = (vec![0u32; 17 * 64], vec![0u32; 17]);
    let mut counts = vec![0u32; 1];
    device.patience.set(Duration::from_millis(200));
    let at = mapped(&counts).start;
    let result = launch!(device, "meets", [17, 1, 1], [64, 1, 1], lds 0,
        [&mut o, &mut slots, &mut counts, 1u32, 0u32], [o, slots, counts]);
    device.patience.set(Duration::from_secs(60));
    match result {
        Err(Trap::Hang { address: Some(address), present: 16, all_begun: false, .. })
            if address == at =>
        {
            Ok(())
        }
        other => Err(format!("the launch must hang at {at:#x}, but the result is {other:?}")),
    }
}

fn looks_back(device: &Device) -> Result<(), String> {
    let (mut o, mut states) = (vec![0u32; 12], vec![0u64; 12]);
    launch!(device, "looks_back", 12, 64, [&mut o, &mut states], [o, states]);
    equal(&o, |i| (i as u32..12).sum())
}

fn locks(device: &Device) -> Result<(), String> {
    let (mut lock, mut sum) = (vec![0u32; 1], vec![0u32; 1]);
    launch!(device, "locks", 16, 64, [&mut lock, &mut sum, 50u32], [lock, sum]);
    equal(&sum, |_| 800)
}

fn dynamic(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 200];
    launch!(device, "dynamic", [1, 1, 1], [200, 1, 1], lds 800, [&mut o, 200u32], [o])
        .map_err(|trap| trap.to_string())?;
    equal(&o, |i| (199 - i as u32).pow(2))?;
    // Without LDS, the workgroup reads zeros.
    launch!(device, "dynamic", [1, 1, 1], [200, 1, 1], lds 0, [&mut o, 200u32], [o])
        .map_err(|trap| trap.to_string())?;
    equal(&o, |_| 0)
}

fn converts(device: &Device) -> Result<(), String> {
    let mut next = random(13);
    let mut a: Vec<f64> = (0..256).map(|_| f64::from(next() as i32) / 65536.0).collect();
    let mut o = vec![0u32; 1792];
    launch!(device, "converts", 1, 256, [&mut a, &mut o], [a, o]);
    equal(&o, |i| {
        let x = a[i % 256];
        match i / 256 {
            0 => x as i32 as u32,
            1 => x.abs() as u32,
            2 => (x * 1e6) as i64 as u32,
            3 => ((x * 1e9) as i64 as f32).to_bits(),
            4 => (x as f32).to_bits(),
            5 => {
                x.round_ties_even() as i32 as u32
                    ^ if x < 0.0 { return o[i] } else { (x * 3.0).floor() as u32 }
            }
            _ => u32::from(x as f32 as i32 as u8),
        }
    })
}

/// Tests products in each of the four rounding modes. The kernel sets the mode.
fn rounds(device: &Device) -> Result<(), String> {
    let (mut a, mut o) = (floats(11, 512), vec![0f32; 1024]);
    launch!(device, "rounds", 1, 256, [&mut a, &mut o], [a, o]);
    equal(&o, |index| {
        let exact = f64::from(a[index / 4]) * f64::from(a[index / 4 + 256]);
        let nearest = exact as f32;
        let (above, below) = (f64::from(nearest) > exact, f64::from(nearest) < exact);
        match index % 4 {
            0 if below => nearest.next_up(),
            1 if above => nearest.next_down(),
            2 if below && exact < 0.0 => nearest.next_up(),
            2 if above && exact > 0.0 => nearest.next_down(),
            _ => nearest,
        }
    })
}
