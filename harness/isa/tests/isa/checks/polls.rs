//! Tests spin-loop detection.

use device::Arch;
use isa::inside::{
    checks::polls::ReadUse,
    text::{Site, Text},
};

/// Compares the analysis of instruction number `at` with the expected results. Each instruction has four bytes.
#[track_caller]
fn check(lines: &str, at: usize, waits: bool, decides: bool) {
    check_in_turns(lines, at, waits, waits, decides);
}

#[track_caller]
fn check_in_turns(lines: &str, at: usize, waits: bool, turns: bool, decides: bool) {
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let code = |address: u64| {
        let line = lines.get(address as usize / 4)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let immediate = words.last().and_then(|word| word.parse::<i16>().ok()).unwrap_or(0);
        let site =
            Site { address, size: 4, immediate: immediate as u16, ..Site::for_arch(Arch::Gfx1151) };
        Some([Text::parse(line, &site).expect(line)].into())
    };
    assert_eq!(ReadUse::at(at as u64 * 4, &code), ReadUse { waits, turns, decides }, "{lines:#?}");
}

#[test]
fn detects_spin_loops() {
    let poll = "v_mov_b32 v1, 0
        ds_load_b32 v0, v1 offset:4
        s_waitcnt lgkmcnt(0)
        v_cmp_eq_u32 vcc_lo, 0, v0
        s_cbranch_vccnz -4
        s_endpgm";
    check(poll, 1, true, true);
    // The loop computes the address again, and continues until all lanes have finished.
    check(
        "s_mov_b32 s2, 0
        v_mov_b32 v1, s4
        ds_load_b32 v0, v1
        v_cmp_ne_u32 vcc_lo, 0, v0
        s_or_b32 s2, vcc_lo, s2
        s_and_not1_b32 exec_lo, exec_lo, s2
        s_cbranch_execnz -6
        s_endpgm",
        2,
        true,
        true,
    );
    // The loop takes a lock with an atomic.
    check(
        "ds_cmpstore_rtn_b32 v0, v1, v2, v3
        v_cmp_ne_u32 vcc_lo, 0, v0
        s_cbranch_vccnz -3
        s_endpgm",
        0,
        true,
        true,
    );
    // The code spills values to scratch, as compilers do if they do not optimise.
    check(
        "scratch_load_b32 v1, off, s33 offset:8
        ds_load_b32 v0, v1
        scratch_store_b32 off, v0, s33 offset:4
        scratch_load_b32 v2, off, s33 offset:4
        v_cmp_eq_u32 vcc_lo, 0, v2
        s_cbranch_vccnz -6
        s_endpgm",
        1,
        true,
        true,
    );
}

#[test]
fn detects_the_first_read_before_a_spin_loop() {
    let poll = |between: &str, address: &str| {
        format!(
            "ds_load_b32 v2, v1 offset:4
            v_cmp_ne_u32 vcc_lo, 0, v2
            s_cbranch_vccnz 5
            {between}
            s_sleep 1
            ds_load_b32 v2, {address} offset:4
            v_cmp_eq_u32 vcc_lo, 0, v2
            s_cbranch_vccnz -4
            s_endpgm"
        )
    };
    check_in_turns(&poll("s_nop 0", "v1"), 0, true, false, true);
    check_in_turns(&poll("v_mov_b32 v1, 0", "v1"), 0, true, false, true);
    // The result overwrites the address, and the loop computes the address again.
    let over = poll("v_mov_b32 v1, 0", "v1").replacen("v2, v1", "v1, v1", 1);
    check_in_turns(&over.replacen("0, v2", "0, v1", 1), 0, true, false, true);
    // The constant address is copied from another register.
    check_in_turns(&poll("v_mov_b32 v3, 0", "v3"), 0, true, false, true);
    // The loop copies the address from a scalar. In the second case, the scalar register has changed.
    let anew = "ds_load_b32 v2, v2
            s_wait_dscnt 0
            v_cmp_ne_u32 vcc_lo, 0, v2
            s_cbranch_vccnz 7
            v_mov_b32 v2, s8
            s_sleep 1
            ds_load_b32 v2, v2
            s_wait_dscnt 0
            v_cmp_eq_u32 vcc_lo, 0, v2
            s_cbranch_vccnz -6
            s_branch -11
            s_endpgm";
    check_in_turns(anew, 0, true, true, true);
    check_in_turns(&anew.replace("s_sleep 1", "s_add_co_i32 s8, s8, 4"), 0, false, true, true);
    // These loops read another location than the first read, change the address, contain a barrier, or do not use the
    // value.
    check(&poll("s_nop 0", "v3"), 0, false, true);
    check(&poll("v_add_nc_u32 v1, 4, v1", "v1"), 0, false, true);
    check(&poll("s_barrier", "v1"), 0, false, true);
    check(
        &poll("s_nop 0", "v1").replacen("v_cmp_ne_u32 vcc_lo, 0, v2", "s_nop 0", 1),
        0,
        false,
        false,
    );
}

#[test]
fn other_locations_and_barriers_are_not_spin_loops() {
    // The loop is a search, in which each iteration reads another location.
    check_in_turns(
        "ds_load_b32 v0, v1
        v_add_nc_u32 v1, 4, v1
        v_cmp_eq_u32 vcc_lo, 0, v0
        s_cbranch_vccnz -4
        s_endpgm",
        0,
        false,
        true,
        true,
    );
    check_in_turns(
        "s_add_u32 s4, s4, 4
        v_mov_b32 v1, s4
        ds_load_b32 v0, v1
        v_cmp_eq_u32 vcc_lo, 0, v0
        s_cbranch_vccnz -5
        s_endpgm",
        2,
        false,
        true,
        true,
    );
    // The loop follows a linked list. The value that it reads is the next address.
    check_in_turns(
        "ds_load_b32 v1, v1
        v_cmp_eq_u32 vcc_lo, 0, v1
        s_cbranch_vccnz -3
        s_endpgm",
        0,
        false,
        true,
        true,
    );
    // The first loop computes a sum, and the others have a barrier in each iteration.
    check(
        "ds_load_b32 v0, v1
        v_add_f32 v2, v2, v0
        s_add_u32 s4, s4, -1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 -5
        s_endpgm",
        0,
        false,
        false,
    );
    check(
        "ds_load_b32 v0, v1
        v_cmp_eq_u32 vcc_lo, 0, v0
        s_barrier
        s_cbranch_vccnz -4
        s_endpgm",
        0,
        false,
        false,
    );
    // The code contains no loop or does not use the value.
    check("ds_load_b32 v0, v1\n v_mov_b32 v0, 0\n v_cmpx_eq_u32 0, v0", 0, false, false);
}

#[test]
fn compare_and_swap_decides() {
    check(
        "ds_load_b32 v0, v1
        v_add_f32 v2, 1.0, v0
        ds_cmpstore_rtn_b32 v3, v1, v2, v0
        s_endpgm",
        0,
        false,
        true,
    );
    check(
        "ds_load_b32 v0, v1
        global_store_b32 v4, v0, s[0:1]
        ds_add_u32 v1, v2
        s_endpgm",
        0,
        false,
        false,
    );
}
