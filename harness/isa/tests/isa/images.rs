//! Tests image instructions. The references are descriptors that were written by hand from the guides, and an
//! independent sampler that computes one texel at a time in double precision.

use std::ops::Range;

use device::Arch::{self, *};
use isa::{
    AddressSpace,
    image::{Border, Dimension, Format, Image, Numeric, Sampler, Wrap, buffer_word},
    inside::{
        program::line::{self, bind},
        text::{Site, register::EXEC},
        wave::{Stop, Wave},
    },
};

const ONE_OF_EACH: [Arch; 5] = [Gfx906, Gfx90a, Gfx1030, Gfx1151, Gfx1201];

struct Memory(Range<u64>);

// SAFETY: each test creates a `Memory` from a buffer that outlives the machine. Nothing else accesses the buffer until
// then.
unsafe impl AddressSpace for Memory {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.0.contains(&address).then(|| self.0.clone())
    }
}

/// Texels of an image, with the alignment that images require.
#[repr(C, align(256))]
struct Texels([u8; 16384]);

impl Texels {
    fn new(draw: &mut Draw) -> Box<Texels> {
        let mut texels = Box::new(Texels([0; 16384]));
        texels.0.fill_with(|| draw.below(256) as u8);
        texels
    }

    fn range(&mut self) -> Range<u64> {
        let Range { start, end } = self.0.as_mut_ptr_range();
        start.expose_provenance() as u64..end.expose_provenance() as u64
    }
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Executes an instruction on lane 1. The image descriptor is in s[0:7], the sampler in s[8:11], and the address in v8
/// and following registers.
fn run(
    arch: Arch,
    text: &str,
    image: &[u32],
    sampler: &[u32],
    address: &[u32],
    data: &[u32],
    memory: Range<u64>,
) -> Result<[u32; 8], Box<Stop>> {
    let mut wave = Wave::new(arch.wave_size() as usize);
    wave.set_pair(EXEC, 2);
    wave.scalar[..image.len()].copy_from_slice(image);
    wave.scalar[8..8 + sampler.len()].copy_from_slice(sampler);
    address.iter().enumerate().for_each(|(at, value)| wave.set_lane(8 + at, 1, *value));
    (0..8).for_each(|row| wave.set_lane(row, 1, 0xdead_beef));
    data.iter().enumerate().for_each(|(at, value)| wave.set_lane(at, 1, *value));
    let memory = Memory(memory);
    let mut machine = line::machine(&memory);
    let Ok(exec) = bind(text, &Site::for_arch(arch)) else { panic!("{arch}: not bound: {text}") };
    exec.run(&mut wave, &mut machine)?;
    Ok(std::array::from_fn(|row| wave.lane(row, 1)))
}

/// Returns the text of an image instruction as the disassembler prints it, with `registers` address registers from v8
/// on.
fn text(
    arch: Arch,
    name: &str,
    data: usize,
    registers: usize,
    sampled: bool,
    rest: &str,
) -> String {
    let row = |first: usize, count: usize| match count {
        1 => format!("v{first}"),
        _ => format!("v[{first}:{}]", first + count - 1),
    };
    let list = || {
        let rows: Vec<String> = (8..8 + registers).map(|row| format!("v{row}")).collect();
        format!("[{}]", rows.join(", "))
    };
    let address = match arch {
        // The disassembler does not know the number of address registers.
        Gfx906 | Gfx90a => row(8, 1),
        Gfx1030 => row(8, registers),
        _ if registers == 1 => row(8, 1),
        _ => list(),
    };
    let sampler = if sampled { ", s[8:11]" } else { "" };
    format!("{name} {}, {address}, s[0:7]{sampler} {rest}", row(0, data))
}

fn dim(arch: Arch, dimension: Dimension) -> &'static str {
    match (arch, dimension) {
        (Gfx906 | Gfx90a, Dimension::D1Array | Dimension::D2Array) => "da",
        (Gfx906 | Gfx90a, _) => "",
        (_, Dimension::D1) => "dim:SQ_RSRC_IMG_1D",
        (_, Dimension::D2) => "dim:SQ_RSRC_IMG_2D",
        (_, Dimension::D3) => "dim:SQ_RSRC_IMG_3D",
        (_, Dimension::D1Array) => "dim:SQ_RSRC_IMG_1D_ARRAY",
        (_, Dimension::D2Array) => "dim:SQ_RSRC_IMG_2D_ARRAY",
    }
}

/// Compares descriptors bit by bit with the tables of the ISA guides and with the values that ROCr writes.
#[test]
fn descriptors_match_hardware() {
    let image = Image {
        address: 0x0000_7f12_3456_7800,
        format: Format::of(4, 8, Numeric::Unorm),
        dimension: Dimension::D2,
        size: [101, 51, 1],
        select: [4, 5, 6, 7],
        pitch: 128,
    };
    #[track_caller]
    fn check(image: &Image, arch: Arch, words: [u32; 8]) {
        let made = image.words(arch).expect("the format is known");
        assert_eq!(made, words, "{arch}: {made:#010x?}");
        assert_eq!(Image::read(&words, arch), Ok(*image), "{arch}");
    }
    let last = [0, 0, 0];
    let words = |second, third, fourth, fifth| {
        [0x1234_5678, second, third, fourth, fifth, last[0], last[1], last[2]]
    };
    // The width minus one is 100 = 0b11001_00, and the height minus one is 50. The components are XYZW.
    check(&image, Gfx906, words(0x7f | 10 << 20, 100 | 50 << 14, 0x9000_0fac, 127 << 13));
    check(&image, Gfx1030, words(0x7f | 56 << 20, 25 | 50 << 14 | 1 << 31, 0x9000_0fac, 127));
    check(&image, Gfx1151, words(0x7f | 42 << 20, 25 | 50 << 14, 0x9000_0fac, 127));
    check(&image, Gfx1201, words(0x7f | 42 << 17, 25 | 50 << 14, 0x9000_0fac, 127));
    let format = Format::of(1, 32, Numeric::Float);
    let volume = Image { format, dimension: Dimension::D3, size: [7, 51, 9], pitch: 64, ..image };
    // The width minus one is 6 = 0b1_10. Its two lowest bits are at the top of the second word.
    check(
        &volume,
        Gfx908,
        words(0x7f | 4 << 20 | 7 << 26, 6 | 50 << 14, 0xa000_0fac, 8 | 63 << 13),
    );
    check(&volume, Gfx1151, words(0x7f | 22 << 20 | 2 << 30, 1 | 50 << 14, 0xa000_0fac, 8));
    check(&volume, Gfx1201, words(0x7f | 22 << 17 | 2 << 30, 1 | 50 << 14, 0xa000_0fac, 8));
    let layers = Image { dimension: Dimension::D1Array, size: [101, 1, 4], ..image };
    assert_eq!(layers.words(Gfx1151).map(|words| (words[3] >> 28, words[4])), Some((12, 3)));

    let sampler = Sampler {
        wrap: [Wrap::Repeat, Wrap::Edge, Wrap::Border],
        unnormalized: true,
        linear: true,
        border: Border::White,
    };
    let words = [2 << 3 | 6 << 6 | 1 << 15, 0xfff << 12, 1 << 20 | 1 << 22, 2 << 30];
    assert_eq!((sampler.words(Gfx1030), Sampler::read(&words)), (words, Ok(sampler)));
    assert_eq!(sampler.words(Gfx1201)[1], 0xfff << 13);
    // The selection is X001. The format is a data format and a number format on GFX9, a single number later.
    let select = [4, 0, 0, 1];
    assert_eq!(buffer_word(format, select, Gfx906), Some(4 | 1 << 9 | 7 << 12 | 4 << 15));
    assert_eq!(buffer_word(format, select, Gfx1030), Some(4 | 1 << 9 | 22 << 12 | 1 << 24));
    assert_eq!(buffer_word(format, select, Gfx1201), Some(4 | 1 << 9 | 22 << 12));
}

fn component(format: Format, texel: &[u8], at: usize) -> f64 {
    let bits = usize::from(format.bits[at]);
    if bits == 0 {
        return 0.0;
    }
    let mut raw = 0u64;
    for (place, byte) in texel[at * bits / 8..(at + 1) * bits / 8].iter().enumerate() {
        raw |= u64::from(*byte) << (8 * place);
    }
    let unit = |raw: f64| raw / (2f64.powi(bits as i32) - 1.0);
    let signed =
        if raw >> (bits - 1) == 1 { raw as f64 - 2f64.powi(bits as i32) } else { raw as f64 };
    match format.numeric {
        Numeric::Unorm => unit(raw as f64),
        Numeric::Snorm => (signed / (2f64.powi(bits as i32 - 1) - 1.0)).max(-1.0),
        Numeric::Uint => raw as f64,
        Numeric::Sint => signed,
        Numeric::Float if bits == 32 => f64::from(f32::from_bits(raw as u32)),
        Numeric::Float => {
            let (exponent, part) = ((raw >> 10 & 31) as i32, (raw & 1023) as f64);
            let value = match exponent {
                0 => part * 2f64.powi(-24),
                _ => (1024.0 + part) * 2f64.powi(exponent - 25),
            };
            if raw >> 15 == 1 { -value } else { value }
        }
        Numeric::Srgb if at == 3 => unit(raw as f64),
        Numeric::Srgb => {
            let value = unit(raw as f64);
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        }
    }
}

/// Returns the position in the image that corresponds to position `at` in an infinite row; `None` for the border.
fn place(at: i64, size: i64, wrap: Wrap) -> Option<i64> {
    let (turn, rest) = (at.div_euclid(size), at.rem_euclid(size));
    match wrap {
        Wrap::Repeat => Some(rest),
        Wrap::Mirror if turn % 2 == 0 => Some(rest),
        Wrap::Mirror => Some(size - 1 - rest),
        Wrap::Edge if at < 0 => Some(0),
        Wrap::Edge | Wrap::MirrorEdge if at >= size => Some(size - 1),
        Wrap::MirrorEdge if at < -size => Some(size - 1),
        Wrap::MirrorEdge if at < 0 => Some(-at - 1),
        Wrap::Border if at < 0 || at >= size => None,
        _ => Some(at),
    }
}

/// Returns the expected result of a sample for each component, computed with weights in units of 1/256 on each axis.
/// Also returns, for each component, the sum of the magnitudes, from which the tolerance is computed.
fn modelled(image: &Image, sampler: &Sampler, at: [f32; 3], texels: &[u8]) -> [(f64, f64); 4] {
    let axes = match image.dimension {
        Dimension::D1 | Dimension::D1Array => 1,
        Dimension::D2 | Dimension::D2Array => 2,
        Dimension::D3 => 3,
    };
    let mut sum = [(0.0, 0.0); 4];
    for corner in 0..8 {
        let (mut weight, mut texel, mut inside) = (1.0, [0i64; 3], true);
        for axis in 0..3 {
            let size = i64::from(image.size[axis]);
            let far = corner >> axis & 1;
            if axis >= axes {
                let layer = f64::from(at[2]).round_ties_even().clamp(0.0, size as f64 - 1.0);
                texel[axis] =
                    if axis == 2 && image.dimension.is_array() { layer as i64 } else { 0 };
                weight *= if far == 0 { 1.0 } else { 0.0 };
                continue;
            }
            let scale = if sampler.unnormalized { 1.0 } else { size as f64 };
            let mut coordinate = f64::from(at[axis]) * scale;
            // A coordinate that is a NaN is treated as 0.
            coordinate = if coordinate.is_nan() { 0.0 } else { coordinate.clamp(-1e6, 1e6) };
            let steps =
                (coordinate * 256.0).round_ties_even() - if sampler.linear { 128.0 } else { 0.0 };
            let (whole, part) = ((steps / 256.0).floor(), steps.rem_euclid(256.0) / 256.0);
            let part = if sampler.linear { part } else { 0.0 };
            weight *= if far == 1 { part } else { 1.0 - part };
            match place(whole as i64 + far, size, sampler.wrap[axis]) {
                Some(at) => texel[axis] = at,
                None => inside = false,
            }
        }
        if weight == 0.0 {
            continue;
        }
        let bytes = image.format.bytes() as i64;
        let rows = texel[2] * i64::from(image.size[1]) + texel[1];
        let offset = ((rows * i64::from(image.pitch) + texel[0]) * bytes) as usize;
        for (at, sum) in sum.iter_mut().enumerate() {
            let part = match (inside, sampler.border) {
                (true, _) => component(image.format, &texels[offset..], at),
                (_, Border::White) => 1.0,
                (_, Border::Black) if at == 3 => 1.0,
                _ => 0.0,
            };
            *sum = (sum.0 + weight * part, sum.1 + weight * part.abs());
        }
    }
    std::array::from_fn(|at| match image.select[at] {
        0 => (0.0, 0.0),
        1 => (1.0, 1.0),
        select => sum[usize::from(select) - 4],
    })
}

const DIMENSIONS: [Dimension; 5] =
    [Dimension::D1, Dimension::D2, Dimension::D3, Dimension::D1Array, Dimension::D2Array];

fn drawn_image(draw: &mut Draw, arch: Arch, address: u64, numerics: &[Numeric]) -> Image {
    let numeric = draw.of(numerics);
    let (components, bits) = match numeric {
        Numeric::Float => (draw.of(&[1, 2, 4]), draw.of(&[16, 32])),
        Numeric::Srgb => (4, 8),
        Numeric::Uint | Numeric::Sint => (draw.of(&[1, 2, 4]), draw.of(&[8, 16, 32])),
        _ => (draw.of(&[1, 2, 4]), draw.of(&[8, 16])),
    };
    let format = Format::of(components, bits, numeric);
    let dimension = draw.of(&DIMENSIONS);
    let [width, height, depth] = [draw.below(13), draw.below(5), draw.below(3)];
    let [width, height, depth] = [width as u32 + 1, height as u32 + 1, depth as u32 + 1];
    let size = match dimension {
        Dimension::D1 => [width, 1, 1],
        Dimension::D2 => [width, height, 1],
        Dimension::D1Array => [width, 1, depth],
        Dimension::D3 | Dimension::D2Array => [width, height, depth],
    };
    let natural = Image::natural_pitch(width, format);
    let pitch =
        if Image::has_pitch(arch, dimension) { natural * draw.of(&[1, 2]) } else { natural };
    let select = draw.of(&[[4, 5, 6, 7], [6, 5, 4, 7], [4, 0, 0, 1], [5, 6, 7, 4]]);
    Image { address, format, dimension, size, select, pitch }
}

/// Replaces NaNs and infinities, because sums with them cannot be compared.
fn tame(texels: &mut Texels, format: Format) {
    if format.numeric == Numeric::Float {
        let step = usize::from(format.bits[0]) / 8;
        texels.0.iter_mut().skip(step - 1).step_by(step).for_each(|byte| *byte &= 0xbb);
    }
}

#[test]
fn samples_match_the_reference() {
    let mut draw = Draw(1);
    for number in 0..4000 {
        let arch = draw.of(&ONE_OF_EACH);
        let mut texels = Texels::new(&mut draw);
        let range = texels.range();
        let linear = draw.below(2) == 1;
        let all = [
            Numeric::Unorm,
            Numeric::Snorm,
            Numeric::Float,
            Numeric::Srgb,
            Numeric::Uint,
            Numeric::Sint,
        ];
        let image = drawn_image(&mut draw, arch, range.start, &all[..if linear { 4 } else { 6 }]);
        assert!(image.bytes() <= 16384);
        tame(&mut texels, image.format);
        let wraps = [Wrap::Repeat, Wrap::Mirror, Wrap::Edge, Wrap::MirrorEdge, Wrap::Border];
        let sampler = Sampler {
            wrap: [draw.of(&wraps), draw.of(&wraps), draw.of(&wraps)],
            unnormalized: draw.below(2) == 1,
            linear,
            border: draw.of(&[Border::Transparent, Border::Black, Border::White]),
        };
        let mut coordinate = |size: u32| {
            let part = draw.of(&[0.0, 0.5, 0.25, 0.0625, 0.99, 0.001953125, 0.7]);
            let texel = draw.below(5 * u64::from(size)) as f64 - 2.0 * f64::from(size) + part;
            let texel = texel / if sampler.unnormalized { 1.0 } else { f64::from(size) };
            match draw.below(40) {
                0 => f32::NAN,
                1 if !matches!(sampler.wrap, [Wrap::Repeat | Wrap::Mirror, ..]) => -1e9,
                _ => texel as f32,
            }
        };
        let at = image.size.map(&mut coordinate);
        let mut at = at;
        // A repeating coordinate far away from the image would depend on bits that a float does not have.
        for (axis, at) in at.iter_mut().enumerate() {
            if *at == -1e9 && matches!(sampler.wrap[axis], Wrap::Repeat | Wrap::Mirror) {
                *at = 0.25;
            }
        }
        let address: Vec<u32> = match image.dimension {
            Dimension::D1 => vec![at[0]],
            Dimension::D2 => vec![at[0], at[1]],
            Dimension::D1Array => vec![at[0], at[2]],
            _ => at.to_vec(),
        }
        .into_iter()
        .map(f32::to_bits)
        .collect();
        let form = draw.of(&["image_sample", "image_sample_lz", "image_sample_l"]);
        let mut registers = address.clone();
        if form == "image_sample_l" {
            registers.push(0);
        }
        let rest = format!("dmask:0xf {}", dim(arch, image.dimension));
        let line = text(arch, form, 4, registers.len(), true, rest.trim_end());
        let words = image.words(arch).expect("a known format");
        let got = run(arch, &line, &words, &sampler.words(arch), &registers, &[], range);
        let got = got.unwrap_or_else(|stop| panic!("{number}: {line}: {stop:?}"));
        let right = modelled(&image, &sampler, at, &texels.0);
        for (got, (right, size)) in got.into_iter().zip(right) {
            let value = match image.format.numeric {
                Numeric::Uint => f64::from(got),
                Numeric::Sint => f64::from(got as i32),
                _ => f64::from(f32::from_bits(got)),
            };
            let near = (value - right).abs() <= 1e-6 * size;
            assert!(
                near,
                "{number}: {arch}: {image:?} {sampler:?} at {at:?}: {value} is not {right}"
            );
        }
    }
}

#[test]
fn stores_round_trip_and_stay_inside() {
    let mut draw = Draw(2);
    for _ in 0..2000 {
        let arch = draw.of(&ONE_OF_EACH);
        let mut texels = Texels::new(&mut draw);
        let range = texels.range();
        let numerics =
            [Numeric::Unorm, Numeric::Snorm, Numeric::Float, Numeric::Uint, Numeric::Sint];
        let mut image = drawn_image(&mut draw, arch, range.start, &numerics);
        image.select = [4, 5, 6, 7];
        let before = texels.0;
        let at = image.size.map(|size| draw.below(u64::from(size) + 1) as u32);
        let layers = image.size[2];
        let address = match image.dimension {
            Dimension::D1 => vec![at[0]],
            Dimension::D2 => vec![at[0], at[1]],
            Dimension::D1Array => vec![at[0], at[2]],
            _ => at.to_vec(),
        };
        let used = match image.dimension {
            Dimension::D1 => [at[0], 0, 0],
            Dimension::D2 => [at[0], at[1], 0],
            Dimension::D1Array => [at[0], 0, at[2]],
            _ => at,
        };
        let inside = used[0] < image.size[0] && used[1] < image.size[1] && used[2] < layers;
        // The format represents these values exactly, so a load returns them unchanged.
        let bits = u32::from(image.format.bits[0]);
        let values: [u32; 4] = std::array::from_fn(|_| {
            let raw = draw.below(1 << bits.min(16)) as i64;
            let signed = (raw << (64 - bits)) >> (64 - bits);
            let half = 2i64.pow(bits.min(16) - 1) - 1;
            match image.format.numeric {
                Numeric::Unorm => (raw as f32 / (2f32.powi(bits as i32) - 1.0)).to_bits(),
                Numeric::Snorm => (signed.max(-half) as f32 / half as f32).to_bits(),
                Numeric::Float => ((raw % 2048) as f32 - 1024.0).to_bits(),
                Numeric::Sint => signed as u32,
                _ => raw as u32,
            }
        });
        let rest = format!("dmask:0xf {}", dim(arch, image.dimension));
        let line = |name| text(arch, name, 4, address.len(), false, &format!("{rest} unorm"));
        let words = image.words(arch).expect("a known format");
        let stored = run(arch, &line("image_store"), &words, &[], &address, &values, range.clone());
        stored.expect("it ends");
        let loaded =
            run(arch, &line("image_load"), &words, &[], &address, &[], range).expect("it ends");
        let components = image.format.bits.iter().filter(|bits| **bits != 0).count();
        for at in 0..4 {
            let right = if inside && at < components { values[at] } else { 0 };
            assert_eq!(loaded[at], right, "{arch}: {image:?} at {used:?}, component {at}");
        }
        let bytes = image.format.bytes();
        let rows = used[2] * image.size[1] + used[1];
        let offset = (rows * image.pitch + used[0]) as usize * bytes;
        for (index, (now, before)) in texels.0.iter().zip(before).enumerate() {
            let written = inside && (offset..offset + bytes).contains(&index);
            assert!(written || *now == before, "{arch}: {image:?} at {used:?} wrote byte {index}");
        }
    }
}

fn plain(address: u64, format: Format) -> Image {
    let (dimension, select) = (Dimension::D2, [4, 5, 6, 7]);
    Image { address, format, dimension, size: [8, 4, 1], select, pitch: 64 }
}

#[test]
fn masks_halves_and_packed_addresses() {
    let mut texels = Texels::new(&mut Draw(3));
    let range = texels.range();
    let image = plain(range.start, Format::of(4, 8, Numeric::Uint));
    texels.0[(64 + 3) * 4..][..4].copy_from_slice(&[10, 20, 30, 40]);
    let words = image.words(Gfx1151).expect("a known format");
    let load = |line: &str, address: &[u32]| {
        run(Gfx1151, line, &words, &[], address, &[], range.clone()).expect("it ends")
    };
    let masked = "image_load v[0:1], [v8, v9], s[0:7] dmask:0xa dim:SQ_RSRC_IMG_2D unorm";
    assert_eq!(load(masked, &[3, 1])[..3], [20, 40, 0xdead_beef]);
    let packed = "image_load v0, v8, s[0:7] dmask:0x1 dim:SQ_RSRC_IMG_2D unorm a16";
    assert_eq!(load(packed, &[1 << 16 | 3])[0], 10);
    let list = "image_load v0, [v10, v[8:9]], s[0:7] dmask:0x4 dim:SQ_RSRC_IMG_2D_ARRAY unorm";
    assert_eq!(load(list, &[1, 0, 3])[0], 30);
    let level = "image_load_mip v0, [v8, v9, v10], s[0:7] dmask:0x1 dim:SQ_RSRC_IMG_2D unorm";
    assert_eq!((load(level, &[3, 1, 0])[0], load(level, &[3, 1, 1])[0]), (10, 0));

    let floats = plain(range.start, Format::of(2, 32, Numeric::Float));
    texels.0[..8].copy_from_slice(&[1.5f32, -0.1].map(f32::to_le_bytes).concat());
    let words = floats.words(Gfx1151).expect("a known format");
    let halves = "image_load v0, [v8, v9], s[0:7] dmask:0x3 dim:SQ_RSRC_IMG_2D unorm d16";
    let got = run(Gfx1151, halves, &words, &[], &[0, 0], &[], range.clone()).expect("it ends");
    // The nearest f16 to -0.1 is -0x1.998p-4.
    assert_eq!(got[0], 0xae66_3e00);
}

/// Components that a store omits are 0. From GFX12 on, omitted components equal the first component (LLVM,
/// `hasDefaultComponentBroadcast`).
#[test]
fn stores_fill_in_omitted_components() {
    let mut texels = Texels::new(&mut Draw(4));
    let range = texels.range();
    let image = plain(range.start, Format::of(4, 8, Numeric::Uint));
    let stored = |arch: Arch| {
        let words = image.words(arch).expect("a known format");
        let line = text(arch, "image_store", 2, 2, false, "dmask:0x3 dim:SQ_RSRC_IMG_2D unorm");
        run(arch, &line, &words, &[], &[0, 0], &[300, 5], range.clone()).expect("it ends");
        texels.0[..4].to_vec()
    };
    assert_eq!(stored(Gfx1151), [255, 5, 0, 0]);
    assert_eq!(stored(Gfx1201), [255, 5, 255, 255]);
}

#[test]
fn atomics_on_texels() {
    let mut texels = Texels::new(&mut Draw(5));
    let range = texels.range();
    let image = plain(range.start, Format::of(1, 32, Numeric::Uint));
    texels.0[8..12].copy_from_slice(&7u32.to_le_bytes());
    let words = image.words(Gfx1030).expect("a known format");
    let run = |line: &str, data: &[u32]| {
        run(Gfx1030, line, &words, &[], &[2, 0], data, range.clone()).expect("it ends")[0]
    };
    let rest = "dim:SQ_RSRC_IMG_2D unorm glc";
    assert_eq!(run(&format!("image_atomic_add v0, v[8:9], s[0:7] dmask:0x1 {rest}"), &[5]), 7);
    let swap = format!("image_atomic_cmpswap v[0:1], v[8:9], s[0:7] dmask:0x3 {rest}");
    assert_eq!(run(&swap, &[99, 12]), 12);
    assert_eq!(texels.0[8..12], 99u32.to_le_bytes());
}

#[test]
fn elements_of_buffers_are_converted() {
    let mut texels = Texels::new(&mut Draw(6));
    let range = texels.range();
    texels.0[12..16].copy_from_slice(&[0, 51, 255, 102]);
    for arch in [Gfx906, Gfx1030, Gfx1151, Gfx1201] {
        let format = Format::of(4, 8, Numeric::Unorm);
        let last = buffer_word(format, [6, 5, 4, 1], arch).expect("a known format");
        let words = [range.start as u32, (range.start >> 32) as u32 | 4 << 16, 64, last];
        let load = |index| {
            let line = "buffer_load_format_xyzw v[0:3], v8, s[0:3], 0 idxen";
            let got = run(arch, line, &words, &[], &[index], &[], range.clone()).expect("it ends");
            [0, 1, 2, 3].map(|at| f32::from_bits(got[at]))
        };
        assert_eq!((load(3), load(64)), ([1.0, 0.2, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]), "{arch}");
        let line = "buffer_store_format_xy v[0:1], v8, s[0:3], 0 idxen";
        let data = [1f32.to_bits(), 0.6f32.to_bits()];
        run(arch, line, &words, &[], &[9], &data, range.clone()).expect("it ends");
        // A store writes each component to the position from which a load would read it, according to the selection.
        let first = if arch == Gfx1201 { 255 } else { 0 };
        assert_eq!(texels.0[36..40], [first, 153, 255, 0], "{arch}");
    }
}

#[test]
fn reports_unsupported_features() {
    for line in [
        "image_load v[0:4], v[8:9], s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D unorm tfe",
        "image_load v0, v[8:10], s[0:7] dmask:0x1 dim:SQ_RSRC_IMG_2D_MSAA unorm",
        "image_load v0, v[8:10], s[0:7] dmask:0x1 dim:SQ_RSRC_IMG_CUBE unorm",
        "image_sample_c v0, v[8:10], s[0:7], s[8:11] dmask:0x1 dim:SQ_RSRC_IMG_2D",
        "image_get_resinfo v[0:3], v8, s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D",
        "image_gather4_lz v[0:3], v[8:9], s[0:7], s[8:11] dmask:0x3 dim:SQ_RSRC_IMG_2D",
        "image_load v0, v[8:9], s[0:7] dmask:0x0 dim:SQ_RSRC_IMG_2D unorm",
        "buffer_load_format_d16_x v0, v8, s[0:3], 0 idxen",
    ] {
        assert!(bind(line, &Site::for_arch(Gfx1030)).is_err(), "{line}");
    }
    let mut texels = Texels::new(&mut Draw(7));
    let range = texels.range();
    let image = plain(range.start, Format::of(4, 8, Numeric::Uint)).words(Gfx1151).unwrap();
    let wrap = [Wrap::Edge; 3];
    let border = Border::Black;
    let sampler = Sampler { wrap, unnormalized: true, linear: true, border }.words(Gfx1151);
    let check = |at: usize, flip: u32, in_sampler: u32, wanted: &str| {
        let (mut image, mut sampler) = (image, sampler);
        if at < 8 {
            image[at] ^= flip
        } else {
            sampler[at - 8] ^= in_sampler
        }
        let line = "image_sample_lz v[0:3], [v8, v9], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D";
        match run(Gfx1151, line, &image, &sampler, &[0, 0], &[], range.clone()) {
            Err(stop) => assert!(matches!(*stop, Stop::Unsupported(w) if w == wanted), "{stop:?}"),
            Ok(_) => panic!("no gap: {wanted}"),
        }
    };
    check(3, 1 << 20, 0, "a tiled image");
    check(3, 1 << 16, 0, "an image of several levels");
    check(1, 0xff << 20, 0, "the format of its image");
    check(3, 2 << 28, 0, "the type of its image");
    check(4, 1 << 16, 0, "an image whose first layer is not 0");
    check(8, 0, 6, "a half-border wrap mode");
    check(8, 0, 1 << 9, "anisotropic filtering");
    check(10, 0, 1 << 20, "the filters of its sampler");
    check(11, 0, 2 << 30, "a custom border colour");
    check(0, 0, 0, "a linear filter over integers");
}
