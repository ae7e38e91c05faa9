use device::Arch::Gfx1151;
use isa::{
    AccessKind as Kind,
    image::{Border, Dimension, Format, Image, Numeric, Sampler, Wrap},
    inside::{
        checks::{
            access::pieces,
            flow::{Rule, address, flow},
        },
        ops::Location,
        text::{Site, Text},
        wave::Wave,
    },
};

/// Compares the accesses of lane 5 with `expected` (address and number of bytes of each), and their kind with `kind`.
#[track_caller]
fn check(line: &str, coordinates: [u32; 2], kind: Kind, expected: &[(u64, u64)]) {
    let image = Image {
        address: 0x1000,
        format: Format::of(2, 16, Numeric::Unorm),
        dimension: Dimension::D2,
        size: [8, 4, 1],
        select: [4, 5, 0, 1],
        pitch: 64,
    };
    let (unnormalized, linear, border) = (true, true, Border::Transparent);
    let sampler = Sampler { wrap: [Wrap::Border; 3], unnormalized, linear, border };
    let mut wave = Wave::new(32);
    wave.scalar[..8].copy_from_slice(&image.words(Gfx1151).expect("a known format"));
    wave.scalar[8..12].copy_from_slice(&sampler.words(Gfx1151));
    coordinates.iter().enumerate().for_each(|(at, value)| wave.set_lane(8 + at, 5, *value));
    let text = Text::parse(line, &Site::for_arch(Gfx1151)).expect(line);
    let pieces = pieces(&text).expect(line);
    assert!(pieces.iter().all(|piece| piece.kind == kind), "{line}");
    let touched: Vec<_> = pieces
        .iter()
        .filter_map(|piece| match piece.of(&wave, 5) {
            Some(Location::Global(address)) => Some((address, piece.bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(touched, expected, "{line}");
}

#[test]
fn texels_are_memory_accesses() {
    let rest = "s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D unorm";
    let store = format!("image_store v[0:3], [v8, v9], {rest}");
    check(&store, [3, 2], Kind::Store, &[(0x1000 + 4 * (2 * 64 + 3), 4)]);
    check(&store, [8, 2], Kind::Store, &[]);
    check(&format!("image_load v[0:3], [v8, v9], {rest}"), [0, 0], Kind::Load, &[(0x1000, 4)]);
    let sample = "image_sample_lz v[0:3], [v8, v9], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D";
    // The first sample is at a corner of the image, where only one of the four surrounding texels exists. The second
    // one is between two texels and reads both.
    check(sample, [0f32, 0f32].map(f32::to_bits), Kind::Load, &[(0x1000, 4)]);
    let two = [(0x1000, 4), (0x1004, 4)];
    check(sample, [1f32, 0.5].map(f32::to_bits), Kind::Load, &two);
    // A filtered texel is not a copy of memory. Therefore its registers must be treated as initialised.
    let text = Text::parse(sample, &Site::for_arch(Gfx1151)).expect(sample);
    let flow = flow(&text).expect(sample);
    assert_eq!(flow.rule, Rule::Forget);
    assert_eq!(address(&text).len(), 2 + 8 + 4);
}

/// Unknown memory instructions must not be treated as instructions without accesses, because the checks would then miss
/// their errors.
#[test]
fn unknown_memory_instructions_are_unsupported() {
    let of = |line: &str| pieces(&Text::parse(line, &Site::for_arch(Gfx1151)).expect(line));
    for line in ["global_inv", "global_wb", "global_wbinv", "buffer_gl0_inv", "buffer_wbl2"] {
        assert!(of(line).expect(line).is_empty(), "{line}");
    }
    for line in [
        "global_move_b32 v0, v[1:2], off",
        "flat_move_b32 v0, v[1:2]",
        "scratch_move_b32 v0, v1, off",
        "buffer_move_b32 v0, v1, s[0:3], 0 offen",
        "ds_move_b32 v0, v1",
    ] {
        assert!(of(line).is_err(), "{line}");
    }
}
