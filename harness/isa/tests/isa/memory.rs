//! Tests accesses to memory and to the LDS. An instruction must have the same result whether it is executed for half a
//! wave at once or lane by lane.

use std::ops::Range;

use device::Arch::{self, *};
use isa::{
    AddressSpace,
    inside::{
        program::line::{self, bind},
        text::Site,
        text::register::EXEC,
        wave::Wave,
    },
};

struct Memory(Range<u64>);

// SAFETY: each test creates a `Memory` from a buffer that outlives the machine. Nothing else accesses the buffer until
// then.
unsafe impl AddressSpace for Memory {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.0.contains(&address).then(|| self.0.clone())
    }
}

/// Runs instructions. Memory contains dwords 0, 1, 2, ..., s[0:1] contain the address of the memory, and s[4:7] a
/// descriptor for a buffer of `records` bytes at this address. v1 contains the lane number times `stride`. Each lane
/// has 64 bytes of scratch.
fn run(arch: Arch, stride: u32, records: u32, exec: u64, text: &str) -> (Wave, Vec<u32>) {
    let mut words: Vec<u32> = (0..256).collect();
    let range = words.as_mut_ptr_range();
    let (start, end) = (range.start.expose_provenance(), range.end.expose_provenance());
    let mut wave = Wave::new(arch.wave_size() as usize);
    wave.set_pair(EXEC, exec);
    wave.set_pair(0, start as u64);
    wave.set_pair(4, start as u64);
    wave.scalar[6] = records;
    // OOB_SELECT of GPUs after GFX9: the range is counted in bytes, as libraries request.
    wave.scalar[7] = if arch.facts().microcode.is_gfx9() { 0 } else { 3 << 28 };
    for lane in 0..wave.lanes {
        wave.set_lane(1, lane, lane as u32 * stride);
        for row in 2..6 {
            wave.set_lane(row, lane, 0xaaaa_0000 | lane as u32);
        }
    }
    wave.scratch = vec![0; 64 * wave.lanes];
    let memory = Memory(start as u64..end as u64);
    let mut machine = line::machine(&memory);
    machine.give_lds(512, 1);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Ok(exec) = bind(line, &Site::for_arch(arch)) else { panic!("not bound: {line}") };
        exec.run(&mut wave, &mut machine).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
    }
    (wave, words)
}

fn lanes<const N: usize>(wave: &Wave, row: usize, lanes: [usize; N]) -> [u32; N] {
    lanes.map(|lane| wave.lane(row, lane))
}

#[test]
fn loads_scatter_and_gather() {
    for stride in [0, 4, 8, 12] {
        let (wave, _) =
            run(Gfx1151, stride, 0, 0xffff_fffe, "global_load_dwordx2 v[2:3], v1, s[0:1]");
        let word = stride / 4;
        assert_eq!(lanes(&wave, 2, [0, 1, 31]), [0xaaaa_0000, word, 31 * word], "{stride}");
        assert_eq!(lanes(&wave, 3, [0, 1, 31]), [0xaaaa_0000, word + 1, 31 * word + 1], "{stride}");
    }
    let text = "global_store_dwordx2 v1, v[2:3], s[0:1] offset:8";
    let (_, words) = run(Gfx1151, 8, 0, 5, text);
    assert_eq!(words[..8], [0, 1, 0xaaaa_0000, 0xaaaa_0000, 4, 5, 0xaaaa_0002, 0xaaaa_0002]);
    // If several lanes write a dword, the value of the highest lane remains.
    let (_, words) = run(Gfx1151, 0, 0, 7, "global_store_dword v1, v2, s[0:1]");
    assert_eq!(words[0], 0xaaaa_0002);
}

#[test]
fn buffers_check_each_dword() {
    // Lane 1 loads bytes 16 to 31, and the buffer has 24 bytes.
    let text = "buffer_load_dwordx4 v[2:5], v1, s[4:7], 0 offen";
    let (wave, _) = run(Gfx90a, 16, 24, 7, text);
    let row = |row| lanes(&wave, row, [0, 1, 2, 3]);
    assert_eq!(row(2), [0, 4, 0, 0xaaaa_0003]);
    assert_eq!(row(3), [1, 5, 0, 0xaaaa_0003]);
    assert_eq!(row(4), [2, 0, 0, 0xaaaa_0003]);
    let text = "buffer_store_dwordx2 v[2:3], v1, s[4:7], 0 offen";
    let (_, words) = run(Gfx1151, 8, 12, 3, text);
    assert_eq!(words[..4], [0xaaaa_0000, 0xaaaa_0000, 0xaaaa_0001, 3]);
    // The address register is also the destination.
    let (wave, _) = run(Gfx1151, 8, 12, 3, "buffer_load_b64 v[1:2], v1, s[4:7], 0 offen");
    assert_eq!((lanes(&wave, 1, [0, 1]), lanes(&wave, 2, [0, 1])), ([0, 2], [1, 0]));
}

/// The offsets in a register and in the instruction are added with 32 bits, and the other parts of the address with 64
/// bits. This was measured on gfx950 (rocm-systems#10928).
#[test]
fn lane_offsets_wrap() {
    for (arch, load) in [(Gfx950, "dwordx4"), (Gfx1030, "dwordx4"), (Gfx1201, "b128")] {
        let load = format!("buffer_load_{load} v[2:5], v1, s[4:7]");
        // The register points 8 bytes before the start, and the constant adds 12.
        let text = format!("v_mov_b32 v1, -8\n{load}, 0 offen offset:12");
        let (wave, _) = run(arch, 0, 64, 1, &text);
        assert_eq!([2, 3, 4, 5].map(|row| wave.lane(row, 0)), [1, 2, 3, 4], "{arch:?}");
        // If an access starts before the buffer, its later dwords are out of range too. A scalar offset does not change
        // this result.
        for scalar in ["0", "s8"] {
            let text = format!("s_mov_b32 s8, 8\nv_mov_b32 v1, -8\n{load}, {scalar} offen");
            let text = if arch == Gfx1201 { text.replace(", 0 ", ", null ") } else { text };
            let (wave, _) = run(arch, 0, 64, 1, &text);
            assert_eq!([2, 3, 4, 5].map(|row| wave.lane(row, 0)), [0; 4], "{arch:?} {scalar}");
        }
    }
}

/// GFX9 compares the index with the number of elements if the access has an index. This was measured on gfx950
/// (rocm-systems#10928).
#[test]
fn gfx9_checks_elements_with_an_index() {
    // The stride of the descriptor is 16 bytes.
    let load = |records, exec, text: &str| {
        let text = format!("s_or_b32 s5, s5, 0x100000\n{text}");
        run(Gfx950, 8, records, exec, &text).0
    };
    // The buffer has 20 bytes, of which lane 2 loads the last four.
    let wave = load(20, 15, "buffer_load_dwordx2 v[2:3], v1, s[4:7], 0 offen");
    assert_eq!(lanes(&wave, 2, [0, 1, 2, 3]), [0, 2, 4, 0]);
    assert_eq!(lanes(&wave, 3, [0, 1, 2, 3]), [1, 3, 0, 0]);
    // Lane 1 loads from the last of 9 elements. The offset in the element is not checked.
    let wave = load(9, 7, "buffer_load_dword v2, v1, s[4:7], 0 idxen offset:20");
    assert_eq!(lanes(&wave, 2, [0, 1, 2]), [5, 37, 0]);
}

/// The expected values were measured on gfx950 (rocm-systems#10928).
#[test]
fn descriptor_can_make_the_lane_the_index() {
    let setup = "s_or_b32 s5, s5, 0x100000\ns_mov_b32 s7, 0x800000\n";
    let load = |text: &str| run(Gfx950, 8, 2, 15, &format!("{setup}{text}")).0;
    // Without an index, the range is not checked. An index in a register replaces the lane number.
    let wave = load("buffer_load_dword v2, off, s[4:7], 0 offset:4");
    assert_eq!(lanes(&wave, 2, [0, 1, 2, 3]), [1, 5, 9, 13]);
    let wave = load("v_mov_b32 v1, 1\nbuffer_load_dword v2, v1, s[4:7], 0 idxen offset:4");
    assert_eq!(lanes(&wave, 2, [0, 1, 2, 3]), [5; 4]);
    // The format field contains four more bits of the stride, which is then 0x4010 bytes.
    let text = "s_mov_b32 s7, 0x808000\ns_sub_u32 s4, s4, 0x4000\ns_subb_u32 s5, s5, 0
        s_mov_b32 exec_lo, 2\nbuffer_load_dword v2, off, s[4:7], 0 offset:4";
    assert_eq!(load(text).lane(2, 1), 5);
    let text =
        format!("{setup}s_mov_b32 s7, 0x30800000\nbuffer_load_b32 v2, off, s[4:7], 0 offset:4");
    // Later GPUs count the range in bytes, without the part of the address that comes from the index.
    let (wave, _) = run(Gfx1151, 8, 8, 15, &text);
    assert_eq!(lanes(&wave, 2, [0, 1, 2, 3]), [1, 5, 9, 13]);
}

/// The expected values follow the table of Mesa's `ac_set_buf_desc_word3`.
#[test]
fn descriptors_select_the_range_check() {
    // The buffer has 2 records of 16 bytes; `records` is their number in the unit of the check. The first load is at
    // byte 8 of element 1, the second at byte 16 of element 1, and the third at byte 8 of element 2. The last load has
    // no index and is at byte 8.
    for (select, records, expected) in [
        (0, 2, [6, 0, 0, 2]),
        (1, 2, [6, 8, 0, 2]),
        (2, 2, [6, 8, 10, 2]),
        (2, 0, [0, 0, 0, 0]),
        (3, 12, [6, 0, 10, 2]),
        (3, 11, [0, 0, 0, 0]),
    ] {
        for (arch, dword) in [(Gfx1030, "dword"), (Gfx1100, "b32"), (Gfx1201, "b32")] {
            let zero = if arch == Gfx1201 { "null" } else { "0" };
            let load = format!("buffer_load_{dword}");
            let text = format!(
                "s_or_b32 s5, s5, 0x100000
                s_mov_b32 s7, 0x{select}0000000
                v_mov_b32 v1, 1
                v_mov_b32 v6, 2
                {load} v2, v1, s[4:7], {zero} idxen offset:8
                {load} v3, v1, s[4:7], {zero} idxen offset:16
                {load} v4, v6, s[4:7], {zero} idxen offset:8
                {load} v5, off, s[4:7], {zero} offset:8"
            );
            let (wave, _) = run(arch, 0, records, 1, &text);
            let found = [2, 3, 4, 5].map(|row| wave.lane(row, 0));
            assert_eq!(found, expected, "{arch:?} {select} {records}");
        }
    }
}

#[test]
fn half_loads_keep_or_clear_the_other_half() {
    let high = |arch, records| {
        let name = if arch == Gfx1151 { "d16_hi_b16" } else { "short_d16_hi" };
        let text = format!("buffer_load_{name} v2, v1, s[4:7], 0 offen offset:8");
        run(arch, 4, records, 4, &text).0.lane(2, 2)
    };
    assert_eq!((high(Gfx1151, 64), high(Gfx1151, 4)), (0x0004_0002, 0x0000_0002));
    assert_eq!((high(Gfx90a, 64), high(Gfx90a, 4)), (0x0004_0000, 0));
    let low = |arch| run(arch, 4, 64, 2, "ds_read_u16_d16 v2, v1").0.lane(2, 1);
    assert_eq!((low(Gfx1030), low(Gfx90a)), (0xaaaa_0000, 0));
}

#[test]
fn loads_to_lds() {
    let text = "s_mov_b32 m0, 0x40
        buffer_load_dword v1, s[4:7], 0 offen offset:4 lds
        v_mov_b32 v3, 0x48
        ds_read_b32 v2, v3";
    // Lane 1 loads dword 3 and writes it at 0x40 + 4 + 4.
    let (wave, _) = run(Gfx90a, 8, 64, 3, text);
    assert_eq!(wave.lane(2, 0), 3);
    // With three or four dwords per lane, lane 1 loads dwords 6 to 9 of memory. They are written to the LDS 16 bytes
    // after the dwords of lane 0.
    for (load, at) in [
        ("buffer_load_dwordx4 v1, s[4:7], 0 offen offset:16 lds", "0x34"),
        ("global_load_lds_dwordx4 v1, s[0:1] offset:16", "0x34"),
        ("buffer_load_dwordx3 v1, s[4:7], 0 offen offset:16 lds", "0x34"),
        ("global_load_lds_dwordx3 v1, s[0:1] offset:16", "0x34"),
    ] {
        // GFX950 uses bits 16 and 17 of M0, so the second load is far out of range.
        let text = format!(
            "s_mov_b32 m0, 0x10
            {load}
            s_mov_b32 m0, 0x10010
            {load}
            v_mov_b32 v3, {at}
            ds_read_b32 v2, v3"
        );
        let (wave, _) = run(Gfx950, 8, 128, 3, &text);
        assert_eq!(wave.lane(2, 0), 7, "{load}");
        let (wave, _) = run(Gfx950, 8, 128, 3, &text.replace("0x10010", "0xc"));
        assert_eq!(wave.lane(2, 0), 8, "{load}, over the first");
        // A fourth dword of lane 0 would be at 0x10 + 16 + 12.
        let fourth = if load.contains("x3") { 0 } else { 7 };
        let text = format!("s_mov_b32 m0, 0x10\n{load}\nv_mov_b32 v3, 0x2c\nds_read_b32 v2, v3");
        let (wave, _) = run(Gfx950, 8, 128, 3, &text);
        assert_eq!(wave.lane(2, 0), fourth, "{load}");
    }
    let text = "s_mov_b32 m0, 0x10004
        global_load_lds_dword v1, s[0:1]
        v_mov_b32 v3, 8
        ds_read_b32 v2, v3";
    let (wave, _) = run(Gfx942, 8, 0, 3, text);
    assert_eq!(wave.lane(2, 0), 2);
}

#[test]
fn transposing_loads_from_lds() {
    // The LDS contains consecutive halves. Below, the LDS contains consecutive bytes.
    let halves = "v_lshrrev_b32 v6, 1, v1
        s_mov_b32 s8, 0x10001
        v_mul_lo_u32 v2, v6, s8
        v_add_u32_e64 v2, 0x10000, v2
        v_add_u32_e64 v3, 0x20002, v2
        ds_write_b64 v1, v[2:3]";
    let bytes = "s_mov_b32 s8, 0x1010101
        v_mul_lo_u32 v2, v1, s8
        v_add_u32_e64 v2, 0x3020100, v2
        v_add_u32_e64 v3, 0x4040404, v2
        ds_write_b64 v1, v[2:3]";
    let read = |fill: &str, name: &str, lane: usize| {
        let text = format!("{fill}\nds_read_b64_tr_{name} v[4:5], v1");
        let (wave, _) = run(Gfx950, 8, 0, u64::MAX, &text);
        [wave.lane(4, lane), wave.lane(5, lane)]
    };
    // Each group of 16 lanes loads four rows of 16 halves. Lane 5 receives column 5.
    assert_eq!(read(halves, "b16", 5), [0x0015_0005, 0x0035_0025]);
    assert_eq!(read(halves, "b16", 17), [0x0051_0041, 0x0071_0061]);
    // Each group of 16 lanes loads eight rows of bytes. The first byte of the second group is 128. Lane 20 receives
    // column 4 of this group.
    assert_eq!(read(bytes, "b8", 20), [0xb4a4_9484, 0xf4e4_d4c4]);
    // Each group of 16 lanes loads sixteen rows of 4-bit elements, one row per lane. Lane 5 receives the upper half of
    // the third byte of each row.
    assert_eq!(read(bytes, "b4", 5), [0x3322_1100, 0x7766_5544]);
    // Hardware requires that the addresses are multiples of 16.
    let text = "v_lshlrev_b32 v9, 1, v1\nds_write_b96 v9, v[2:4]\nds_read_b96_tr_b6 v[6:8], v9";
    let (wave, _) = run(Gfx950, 8, 0, u64::MAX, text);
    let expected = (0..16u128).fold(0, |all, lane| all | lane << (6 * lane));
    let got = (0..3).fold(0, |all, row| all | u128::from(wave.lane(6 + row, 0)) << (32 * row));
    assert_eq!(got, expected);
}

#[test]
fn lds_by_the_wave() {
    let text = "v_mov_b32 v6, v1
        ds_write2_b32 v1, v1, v2 offset0:1 offset1:2
        ds_read_b64 v[6:7], v6 offset:4";
    let (wave, _) = run(Gfx1030, 8, 0, 0xff, text);
    assert_eq!(lanes(&wave, 6, [0, 1, 7]), [0, 8, 56]);
    assert_eq!(lanes(&wave, 7, [0, 1, 7]), [0xaaaa_0000, 0xaaaa_0001, 0xaaaa_0007]);
}

/// If both offsets are equal: "Only one write occurs, and only DATA0 is used" (RDNA 2 ISA guide, 10.4.3).
#[test]
fn two_stores_to_one_address_write_the_first() {
    for (arch, name) in [(Gfx1030, "ds_write2"), (Gfx1201, "ds_store_2addr")] {
        let text = format!(
            "v_mov_b32 v4, 7
            v_mov_b32 v5, 8
            {name}_b32 v1, v2, v4 offset0:3 offset1:3
            {name}_b64 v1, v[2:3], v[4:5] offset0:5 offset1:5
            ds_read_b32 v6, v1 offset:12
            ds_read_b64 v[8:9], v1 offset:40"
        );
        let text = if arch == Gfx1201 { text.replace("read", "load") } else { text };
        let (wave, _) = run(arch, 0, 0, 1, &text);
        assert_eq!([6, 8, 9].map(|row| wave.lane(row, 0)), [0xaaaa_0000; 3], "{arch:?}");
    }
}

/// The base address is in M0, except on GFX12: "addr = offset" (RDNA 4 ISA guide, `DS_APPEND`).
#[test]
fn append_counter_ignores_m0_on_gfx12() {
    for (arch, found) in [(Gfx1100, [0, 5]), (Gfx1201, [5, 0])] {
        let text = "s_mov_b32 m0, 0x400020
            ds_append v6 offset:8
            ds_load_b32 v7, v1 offset:8
            ds_load_b32 v8, v1 offset:72";
        let (wave, _) = run(arch, 0, 0, 0x1f, text);
        assert_eq!([7, 8].map(|row| wave.lane(row, 4)), found, "{arch:?}");
    }
}

#[test]
fn lds_in_order_and_past_its_end() {
    // The active lanes access consecutive dwords. The last of them accesses the last dword of the LDS.
    let text = "v_add_nc_u32 v6, 384, v1
        ds_store_b32 v6, v2
        s_mov_b32 exec_lo, -1
        ds_load_b32 v7, v1 offset:384";
    let (wave, _) = run(Gfx1151, 4, 0, 0x8000_0003, text);
    assert_eq!(lanes(&wave, 7, [0, 1, 2, 31]), [0xaaaa_0000, 0xaaaa_0001, 0, 0xaaaa_001f]);
    // Lane 0 is inactive. Its address would be out of range.
    let text = "v_add_nc_u32 v6, -4, v1
        ds_store_b32 v6, v2
        ds_load_b32 v7, v6";
    let (wave, _) = run(Gfx1151, 4, 0, 6, text);
    assert_eq!(lanes(&wave, 7, [0, 1, 2]), [0, 0xaaaa_0001, 0xaaaa_0002]);
}

#[test]
fn lds_far_out_of_range_reads_zero() {
    let text = "v_mov_b32 v6, 0xf00000
        ds_read_b32 a0, v6
        ds_read_b64 v[2:3], v6 offset:8
        v_accvgpr_read_b32 v4, a0";
    let (wave, _) = run(Gfx90a, 0, 0, 3, text);
    for row in 2..5 {
        assert_eq!(lanes(&wave, row, [0, 1, 2]), [0, 0, 0xaaaa_0002], "v{row}");
    }
}

/// The LDS of these tests has 512 bytes. The tests of the sanitizer test the findings for such accesses.
#[test]
fn lds_out_of_range_reads_zero_and_drops_writes() {
    let text = "v_mov_b32 v6, 0x1fc
        ds_store_b64 v6, v[2:3]
        v_mov_b32 v7, 0x200
        ds_store_b32 v7, v2
        ds_add_rtn_u32 v8, v7, v2
        ds_load_b32 v9, v7
        ds_load_b32 v10, v6";
    let (wave, _) = run(Gfx1151, 0, 0, 1, text);
    assert_eq!([8, 9, 10].map(|row| wave.lane(row, 0)), [0, 0, 0xaaaa_0000]);
}

#[test]
fn halves_load_from_lds_separately() {
    // Lane 40 reads far out of range, and all other lanes read what they stored. The destination is the address
    // register.
    let text = "ds_write_b32 v1, v2
        v_cmp_eq_u32 vcc, 0xa0, v1
        v_mov_b32 v7, 0xf00000
        v_cndmask_b32 v6, v1, v7, vcc
        ds_read_b32 v6, v6";
    let (wave, _) = run(Gfx90a, 4, 0, !(1 << 50), text);
    assert_eq!(lanes(&wave, 6, [0, 31, 32, 40]), [0xaaaa_0000, 0xaaaa_001f, 0xaaaa_0020, 0]);
    assert_eq!(lanes(&wave, 6, [41, 50, 63]), [0xaaaa_0029, 0, 0xaaaa_003f]);
}

/// The positions were found with the matrix products of hipBLASLt's kernels for GFX1201, which load only one factor
/// with these instructions.
#[test]
fn transposing_loads() {
    let (wave, _) = run(Gfx1201, 16, 0, u64::MAX, "global_load_tr_b128 v[2:5], v1, s[0:1]");
    let words = |lane| [2, 3, 4, 5].map(|row| wave.lane(row, lane));
    // Half 8 * lane + i of memory is 4 * lane + i / 2 for an even i, and 0 for an odd one.
    assert_eq!(words(0), [0x0004_0000, 0x000c_0008, 0x0014_0010, 0x001c_0018]);
    assert_eq!(words(1), [0; 4]);
    assert_eq!(words(10), [0x0025_0021, 0x002d_0029, 0x0035_0031, 0x003d_0039]);
    let (wave, _) = run(Gfx1201, 8, 0, u64::MAX, "global_load_tr_b64 v[2:3], v1, s[0:1]");
    let words = |lane| [2, 3].map(|row| wave.lane(row, lane));
    // Byte 8 * lane + i is 2 * lane + i / 4 if i is divisible by 4, otherwise 0.
    assert_eq!(words(0), [0x0604_0200, 0x1614_1210]);
    assert_eq!(words(12), [0x0f0d_0b09, 0x1f1d_1b19]);
    assert_eq!(words(16), [0x2624_2220, 0x3634_3230]);
}

#[test]
fn scalar_stores_and_atomics() {
    let text = "s_mov_b32 s8, 77
        s_store_dword s8, s[0:1], 0x8
        s_mov_b32 s9, 5
        s_atomic_add s9, s[0:1], 0xc glc";
    let (wave, words) = run(Gfx90a, 0, 0, 1, text);
    assert_eq!((words[2], words[3], wave.scalar[9]), (77, 8, 3));
}

#[test]
fn scratch_is_per_lane() {
    // The offset is a constant, in a register, or different for each lane.
    for (stride, address) in [(0, "off"), (0, "v1"), (8, "v1")] {
        let text = format!(
            "s_mov_b32 exec_lo, 5
            scratch_store_b64 {address}, v[2:3], off offset:8
            s_mov_b32 exec_lo, 7
            scratch_load_b32 v6, {address}, off offset:12
            scratch_load_b64 v[4:5], off, off offset:8"
        );
        let (wave, _) = run(Gfx1151, stride, 0, 7, &text);
        assert_eq!(lanes(&wave, 6, [0, 1, 2, 3]), [0xaaaa_0000, 0, 0xaaaa_0002, 0], "{address}");
        let third = if stride == 0 { 0xaaaa_0002 } else { 0 };
        assert_eq!(lanes(&wave, 5, [0, 1, 2, 3]), [0xaaaa_0000, 0, third, 0xaaaa_0003]);
    }
}

#[test]
fn buffers_over_scratch() {
    for (stride, address) in [(0, "off, s[4:7], 0"), (0, "v1, s[4:7], 0 offen")] {
        let text = format!(
            "s_mov_b32 s5, 0x80000000
            buffer_store_dwordx2 v[2:3], {address} offset:4
            buffer_load_dword v6, off, s[4:7], 0 offset:8
            buffer_load_dwordx2 v[1:2], {address}"
        );
        let (wave, _) = run(Gfx90a, stride, 0, 0x8000_0001_0000_0002, &text);
        assert_eq!(lanes(&wave, 6, [0, 1, 32, 63]), [0, 0xaaaa_0001, 0xaaaa_0020, 0xaaaa_003f]);
        assert_eq!(lanes(&wave, 2, [0, 1, 63]), [0xaaaa_0000, 0xaaaa_0001, 0xaaaa_003f]);
        assert_eq!(lanes(&wave, 1, [1, 63]), [0, 0], "{address}");
    }
}

#[test]
fn floats_are_compared_as_floats() {
    // The pairs are zeros of different signs, a NaN that is compared with itself, and values with equal lower halves.
    for (there, compare, finds) in [
        (0f64, -0f64, true),
        (f64::NAN, f64::NAN, false),
        (1.5, 1.5, true),
        (1.5, f64::from_bits(1.5f64.to_bits() ^ 1 << 40), false),
    ] {
        let value = 7f64.to_bits();
        let move_in = |row: usize, bits: u64| {
            format!(
                "v_mov_b32_e32 v{row}, 0x{:x}\nv_mov_b32_e32 v{}, 0x{:x}\n",
                bits as u32,
                row + 1,
                bits >> 32,
            )
        };
        let text = |first: u64, second: u64, name: &str| {
            let given = move_in(4, there.to_bits()) + &move_in(6, first) + &move_in(8, second);
            format!(
                "v_mov_b32_e32 v1, 16\n{given}ds_write_b64 v1, v[4:5]\n\
                 {name} v[10:11], v1, v[6:7], v[8:9]\nds_read_b64 v[12:13], v1"
            )
        };
        for (arch, text) in [
            (Gfx90a, text(compare.to_bits(), value, "ds_cmpst_rtn_f64")),
            (Gfx1100, text(value, compare.to_bits(), "ds_cmpstore_rtn_f64")),
        ] {
            let (wave, _) = run(arch, 0, 0, 1, &text);
            let pair = |row| u64::from(wave.lane(row, 0)) | u64::from(wave.lane(row + 1, 0)) << 32;
            assert_eq!(pair(10), there.to_bits(), "{text}");
            assert_eq!(pair(12), if finds { value } else { there.to_bits() }, "{text}");
        }
    }
    // Memory contains 0.0. The data is the new value, and then the comparison value -0.0. Dword 0 contains 0.
    let text = "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 7\nv_bfrev_b32_e32 v3, 1\n\
                global_atomic_fcmpswap v4, v1, v[2:3], s[0:1] glc";
    let (wave, words) = run(Gfx1030, 0, 0, 1, text);
    assert_eq!((wave.lane(4, 0), words[0]), (0, 7));
}

#[test]
fn last_byte_of_a_buffer_is_in_range() {
    // The buffer has 7 bytes. Dword 0 is 0 and dword 1 is 1.
    for (name, offset, expected) in
        [("u8", 6, 0), ("u8", 4, 1), ("u8", 7, 0), ("u16", 4, 1), ("i16", 4, 1), ("u16", 6, 0)]
    {
        let text = format!("s_mov_b32 s8, -1\ns_buffer_load_{name} s8, s[4:7], 0x{offset:x}");
        let (wave, _) = run(Gfx1201, 0, 7, 1, &text);
        assert_eq!(wave.scalar[8], expected, "{text}");
    }
}

/// From GFX11 on, hardware ignores the lowest two bits of each part of the address (llvm-project#216269). Older
/// hardware ignores only the lowest two bits of the sum.
#[test]
fn scalar_addresses_ignore_low_bits_of_each_part() {
    for (arch, load, found) in
        [(Gfx90a, "s_load_dword", 3), (Gfx1100, "s_load_b32", 2), (Gfx1201, "s_load_b32", 2)]
    {
        let text = format!("s_add_u32 s0, s0, 2\n{load} s8, s[0:1], 0xa");
        assert_eq!(run(arch, 0, 0, 1, &text).0.scalar[8], found, "{arch:?}");
    }
    for arch in [Gfx1100, Gfx1201] {
        let text = "s_mov_b32 s9, 10\ns_add_u32 s0, s0, 2\ns_load_b32 s8, s[0:1], s9";
        assert_eq!(run(arch, 0, 0, 1, text).0.scalar[8], 2, "{arch:?}");
    }
    let text = "s_add_u32 s0, s0, 2\ns_load_u16 s8, s[0:1], 0xa";
    assert_eq!(run(Gfx1201, 0, 0, 1, text).0.scalar[8], 3);
}

#[test]
fn lowest_th_bit_makes_atomics_return() {
    for (th, expected) in [("0x5", 3), ("0x4", 10), ("RETURN", 3), ("NT_RETURN", 3)] {
        let text = format!(
            "v_mov_b32_e32 v1, 12\nv_mov_b32_e32 v2, 10\n\
             buffer_atomic_add_u32 v2, v1, s[4:7], null offen th:TH_ATOMIC_{th}"
        );
        let (wave, words) = run(Gfx1201, 0, 1024, 1, &text);
        assert_eq!((wave.lane(2, 0), words[3]), (expected, 13), "{text}");
    }
}

/// LLVM prints `TH_ATOMIC_CASCADE_RT` for a reserved combination of bits, which includes the bit for returning the old
/// value. Only the operands show whether this bit is set.
#[test]
fn rejects_returning_cascades() {
    let site = Site::for_arch(Gfx1201);
    let th = "th:TH_ATOMIC_CASCADE_RT scope:SCOPE_DEV";
    for text in [
        "global_atomic_add_u32 v0, v1, s[0:1]",
        "global_atomic_add_u32 v[0:1], v2, off",
        "flat_atomic_add_u32 v[0:1], v2",
    ] {
        assert!(bind(&format!("{text} {th}"), &site).is_ok(), "{text}");
    }
    for text in [
        "global_atomic_add_u32 v4, v0, v1, s[0:1]",
        "global_atomic_add_u32 v4, v[0:1], v2, off",
        "flat_atomic_add_u32 v4, v[0:1], v2",
        "global_atomic_add_u64 v[4:5], v[0:1], v[2:3], off",
        "flat_atomic_add_u64 v[4:5], v[0:1], v[2:3]",
    ] {
        assert!(bind(&format!("{text} {th}"), &site).is_err(), "{text}");
    }
}
