//! Tests differences between GFX1250 and RDNA 4. Some instructions have the same name but another result, or are
//! unsupported. Source: LLVM 22, whose names for the differences are in the comments.

use std::ops::Range;

use device::Arch::{self, *};
use isa::{
    AddressSpace,
    inside::{
        program::line::{self, bind},
        text::Site,
    },
};

use super::{check, execute, vector, wave};

struct Memory(Range<u64>);

// SAFETY: each test creates a `Memory` from a buffer that outlives the machine. Nothing else accesses the buffer until
// then.
unsafe impl AddressSpace for Memory {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.0.contains(&address).then(|| self.0.clone())
    }
}

/// Executes a load and returns v0. Memory contains dwords 0, 1, 2, ..., s[0:1] contain the address of dword 16, and v1
/// contains `offset`.
#[track_caller]
fn load(arch: Arch, offset: i32, text: &str) -> u32 {
    let mut words: Vec<u32> = (0..64).collect();
    let range = words.as_mut_ptr_range();
    let (start, end) = (range.start.expose_provenance(), range.end.expose_provenance());
    let memory = Memory(start as u64..end as u64);
    let mut wave = wave(arch);
    wave.set_pair(0, start as u64 + 64);
    wave.set_lane(1, 3, offset as u32);
    let Ok(exec) = bind(text, &Site::for_arch(arch)) else { panic!("not bound: {text}") };
    wave.set_pair(isa::inside::text::register::EXEC, 8);
    let mut machine = line::machine(&memory);
    exec.run(&mut wave, &mut machine).unwrap_or_else(|stop| panic!("{text}: {stop:?}"));
    wave.lane(0, 3)
}

fn is_supported(arch: Arch, text: &str) -> bool {
    bind(text, &Site::for_arch(arch)).is_ok()
}

/// Source: LLVM, `hasSignedGVSOffset` and `hasScaleOffset`.
#[test]
fn vector_offsets_are_signed_and_scaled() {
    assert_eq!(load(Gfx1250, -4, "global_load_b32 v0, v1, s[0:1]"), 15);
    assert_eq!(load(Gfx1250, 8, "global_load_b32 v0, v1, s[0:1] offset:4"), 19);
    assert_eq!(load(Gfx1250, -2, "global_load_b32 v0, v1, s[0:1] scale_offset"), 14);
    assert_eq!(load(Gfx1250, 3, "global_load_b64 v[0:1], v1, s[0:1] scale_offset"), 22);
    assert_eq!(load(Gfx1250, 4, "global_load_u8 v0, v1, s[0:1] scale_offset"), 17);
    assert_eq!(load(Gfx1201, 8, "global_load_b32 v0, v1, s[0:1]"), 18);
    // It is unknown whether hardware can scale by the size of three words, or scale a 64-bit address.
    assert!(!is_supported(Gfx1250, "global_load_b96 v[0:2], v1, s[0:1] scale_offset"));
    assert!(!is_supported(Gfx1250, "global_load_b32 v0, v[2:3], off scale_offset"));
    assert!(!is_supported(Gfx1250, "global_atomic_add_u32 v1, v2, s[0:1] scale_offset"));
}

/// Each instruction is supported on another architecture, which shows that GFX1250 is the reason for the rejection.
#[test]
fn differing_instructions_are_unsupported() {
    for (arch, text) in [
        // GFX1250 has another layout of descriptors (`has45BitNumRecordsBufferResource`).
        (Gfx1201, "buffer_load_b32 v0, off, s[4:7], null"),
        (Gfx1201, "buffer_store_b32 v0, off, s[4:7], null"),
        (Gfx1201, "buffer_atomic_add_u32 v0, off, s[4:7], null"),
        (Gfx1201, "s_buffer_load_b32 s0, s[4:7], 0x0"),
        // LLVM: `hasPKF32InstsReplicatingLower32BitsOfScalarInput`.
        (Gfx90a, "v_pk_add_f32 v[0:1], s[2:3], v[4:5]"),
        (Gfx90a, "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], 1.0"),
        // It is unknown which layouts GFX1250 has for matrix instructions with the names of RDNA 4.
        (Gfx1201, "v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[12:15], v[0:7]"),
        (Gfx1201, "v_swmmac_f32_16x16x32_f16 v[0:7], v[8:11], v[12:19], v20"),
        // Bits 12 to 19 of MODE extend the numbers of vector registers (`s_set_vgpr_msb`).
        (Gfx1201, "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 12, 8), 1"),
        (Gfx1201, "s_setreg_b32 hwreg(HW_REG_WAVE_MODE), s0"),
    ] {
        assert!(is_supported(arch, text), "{arch}: {text}");
        assert!(!is_supported(Gfx1250, text), "{text}");
    }
    for text in [
        "v_pk_add_f32 v[0:1], v[2:3], v[4:5]",
        "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 25, 1), 1",
        "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 4, 4), 15",
        "s_wait_xcnt 0x0",
    ] {
        assert!(is_supported(Gfx1250, text), "{text}");
    }
    // These instructions use the upper bits of register numbers, or exist only on GFX1250.
    for text in [
        "s_set_vgpr_msb 0x1",
        "tensor_load_to_lds s[0:3], s[4:11]",
        "global_load_async_to_lds_b32 v0, v[2:3], off",
        "v_wmma_f32_16x16x32_f16 v[0:7], v[8:15], v[16:23], v[0:7]",
        "v_cvt_scale_pk8_f16_fp8 v[0:3], v[4:5], v6",
        "v_tanh_f32 v0, v1",
        "v_mad_nc_u64_u32 v[0:1], v1, v2, 1.0",
        "v_mad_nc_i64_i32 v[0:1], v1, v2, 0xfedcba98",
        "v_add_f64 v[0:1], src_flat_scratch_base_lo, v[2:3]",
    ] {
        assert!(!is_supported(Gfx1250, text), "{text}");
    }
}

#[test]
fn integers_of_64_bits() {
    let vectors = |text, sources: [u64; 2]| {
        let words = sources.map(|source| [source as u32, (source >> 32) as u32]);
        vector(Gfx1250, text, words.as_flattened())
    };
    let sources = [0x1_8000_0001, 0xffff_ffff_0000_0003];
    let [a, b] = sources;
    assert_eq!(vectors("v_add_nc_u64 v[0:1], v[1:2], v[3:4]", sources), a.wrapping_add(b));
    assert_eq!(vectors("v_sub_nc_u64 v[0:1], v[1:2], v[3:4]", sources), a.wrapping_sub(b));
    assert_eq!(vectors("v_mul_u64 v[0:1], v[1:2], v[3:4]", sources), a.wrapping_mul(b));
    assert_eq!(
        vectors("v_mul_u64 v[0:1], 0x100000001, v[3:4]", sources),
        0x100000001u64.wrapping_mul(b)
    );
    let sum = 0x8000_0001u64.wrapping_mul(3).wrapping_add(b);
    assert_eq!(vectors("v_mad_nc_u64_u32 v[0:1], v1, 3, v[3:4]", sources), sum);
    let sum = i64::from(0x8000_0001u32 as i32).wrapping_mul(3).wrapping_add(b as i64);
    assert_eq!(vectors("v_mad_nc_i64_i32 v[0:1], v1, 3, v[3:4]", sources), sum as u64);
    check(Gfx1250, "v_dual_bitop2_b32 v0, v1, v2 bitop3:0x40", &[12, 10], 8);
    check(Gfx1250, "v_dual_bitop2_b32 v0, v1, v2 bitop3:0x14", &[12, 10], 6);
    check(Gfx1250, "v_dual_bitop2_b32 v0, v1, v2 bitop3:0x54", &[12, 10], 14);
}

/// The disassembler prints `lit64` if extending a 32-bit literal would change the value.
#[test]
fn literals_of_64_bits_are_not_extended() {
    for text in ["s_mov_b64 s[2:3], lit64(0xfedcba98)", "s_add_nc_u64 s[2:3], lit64(0xfedcba98), 0"]
    {
        let mut wave = wave(Gfx1250);
        execute(Gfx1250, &mut wave, text);
        assert_eq!(wave.pair(2), 0xfedc_ba98, "{text}");
    }
    let sum = |text| vector(Gfx1250, text, &[0, 0]);
    assert_eq!(sum("v_add_f64 v[0:1], lit64(0x4059), v[1:2]"), 0x4059);
    assert_eq!(sum("v_add_f64 v[0:1], 0x4059000000000001, v[1:2]"), 0x4059_0000_0000_0001);
    assert_eq!(sum("v_add_f64 v[0:1], 0x40590000, v[1:2]"), 0x4059_0000_0000_0000);
    assert_eq!(sum("v_add_nc_u64 v[0:1], lit64(0xfedcba98), v[1:2]"), 0xfedc_ba98);
    assert_eq!(
        sum(
            "v_cmp_eq_i64 vcc_lo, lit64(0xfedcba98), v[1:2]\nv_ashrrev_i64 v[0:1], 4, lit64(0xfedcba98)"
        ),
        0xfed_cba9
    );
}

/// The LDS of GFX1250 is larger than that of GFX950. Loads past the LDS of any GPU return zero.
#[test]
fn lds_has_320_kib() {
    let mut wave = wave(Gfx1250);
    for lane in 0..wave.lanes {
        wave.set_lane(1, lane, (319 << 10) + 4 * lane as u32);
        wave.set_lane(2, lane, 1 + lane as u32);
    }
    let mut machine = line::machine(&Memory(0..0));
    machine.give_lds(Gfx1250.facts().lds_bytes, Gfx1250.facts().lds_granule);
    for text in ["ds_store_b32 v1, v2", "ds_load_b32 v0, v1"] {
        let Ok(exec) = bind(text, &Site::for_arch(Gfx1250)) else { panic!("not bound: {text}") };
        exec.run(&mut wave, &mut machine).unwrap_or_else(|stop| panic!("{text}: {stop:?}"));
    }
    assert_eq!([0, 31].map(|lane| wave.lane(0, lane)), [1, 32]);
}
