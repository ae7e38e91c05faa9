//! Tests the errors that the sanitizer finds if results have not arrived, on each architecture. Also tests the effects
//! of results that arrive late.
//!
//! The number after `#` is the encoding of a wait, as LLVM's assembler prints it.

use std::ops::Range;

use device::Arch::{self, Gfx90a, Gfx906, Gfx942, Gfx950, Gfx1030, Gfx1100, Gfx1151, Gfx1201};
use isa::{
    AddressSpace,
    inside::{
        checks::{CheckError, Checks},
        machine::Machine,
        program::line::{self, bind, watch},
        text::{SHARED_APERTURE, Site, register},
        wave::Wave,
    },
};

const BYTES: usize = 4096;

/// Memory that contains the dwords 1, 2, 3, ...
struct Memory {
    start: u64,
    watched: bool,
}

// SAFETY: each test creates a `Memory` from a buffer that outlives the machine. Nothing else accesses the buffer until
// then.
unsafe impl AddressSpace for Memory {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        let range = self.start..self.start + BYTES as u64;
        range.contains(&address).then_some(range)
    }

    fn is_watched(&self) -> bool {
        self.watched
    }
}

/// Two waves. s[0:1] contain the start of the memory, and s[4:7] a buffer descriptor for it. v0 contains four times the
/// lane number, and v9 the wave number plus one. v[10:11] contain the flat address of a dword of memory for each lane,
/// and v[12:13] that of a dword in the LDS.
struct Bench<'a> {
    arch: Arch,
    machine: Machine<'a>,
    waves: Vec<Wave>,
}

impl Bench<'_> {
    fn new(arch: Arch, memory: &Memory) -> Bench<'_> {
        let mut machine = line::machine(memory);
        if !memory.watched {
            machine.watch = Some(line::looks_on(false, true));
        }
        machine.give_lds(1024, 1);
        Checks::from_state(&mut machine.watch).expect("the launch is checked").begin(2, 0);
        let lanes = arch.wave_size() as usize;
        let waves = (0..2).map(|index| {
            let mut wave = Wave::new(lanes);
            wave.index = index;
            wave.set_pair(register::EXEC, u64::MAX >> (64 - lanes));
            wave.set_pair(0, memory.start);
            wave.set_pair(4, memory.start);
            wave.set_pair(6, BYTES as u64);
            for lane in 0..lanes {
                let offset = 4 * lane as u32;
                wave.set_lane(0, lane, offset);
                wave.set_lane(9, lane, index + 1);
                let address = memory.start + u64::from(offset);
                wave.set_lane(10, lane, address as u32);
                wave.set_lane(11, lane, (address >> 32) as u32);
                wave.set_lane(12, lane, offset);
                wave.set_lane(13, lane, SHARED_APERTURE);
            }
            wave
        });
        let waves = waves.collect();
        Bench { arch, machine, waves }
    }

    /// Runs a line: `barrier`, an instruction of wave 0, or `1: instruction` for wave 1.
    fn run(&mut self, pc: usize, line: &str) {
        if line == "barrier" {
            Checks::from_state(&mut self.machine.watch).expect("the launch is checked").barrier();
            return;
        }
        let (text, immediate) = line.split_once('#').unwrap_or((line, "0"));
        let immediate = u16::from_str_radix(immediate.trim(), 16).expect("an encoding");
        let (wave, text) = match (text.strip_prefix("0: "), text.strip_prefix("1: ")) {
            (None, Some(rest)) => (&mut self.waves[1], rest),
            (rest, _) => (&mut self.waves[0], rest.unwrap_or(text)),
        };
        let lanes = wave.lanes;
        let site = Site { address: pc as u64, immediate, lanes, ..Site::for_arch(self.arch) };
        let exec = watch(bind(text.trim(), &site), text.trim(), &site);
        let Ok(exec) = exec else { panic!("{}: not bound: {line}", self.arch) };
        exec.run(wave, &mut self.machine).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(';').map(str::trim).enumerate()
}

fn words() -> Vec<u32> {
    (1..=BYTES as u32 / 4).collect()
}

#[track_caller]
fn check(archs: &[Arch], text: &str, expected: &[&str]) {
    for arch in archs {
        let mut words = words();
        let start = words.as_mut_ptr().expose_provenance() as u64;
        let memory = Memory { start, watched: true };
        let mut bench = Bench::new(*arch, &memory);
        let mut found = Vec::new();
        for (pc, line) in lines(text) {
            bench.run(pc, line);
            found.extend(Checks::found(&mut bench.machine).into_iter().map(|found| match found {
                CheckError::Early(early) => {
                    let how = if early.read { "read" } else { "written" };
                    let waited =
                        early.waited.as_ref().map_or(String::new(), |(_, n)| format!(", left {n}"));
                    format!(
                        "{} {how} by {pc} of {}, {}({}){waited}",
                        early.register, early.producer.pc, early.counter, early.needs
                    )
                }
                CheckError::LdsEarly { offset, write, read } => {
                    format!("LDS {offset} {} by {} of {}", read.kind.word(), read.pc, write.pc)
                }
                other => panic!("{arch}: {line}: {other:?}"),
            }));
        }
        assert_eq!(found, expected, "{arch}: {text}");
    }
}

const GFX9: [Arch; 4] = [Gfx906, Gfx90a, Gfx942, Gfx950];
const GFX11: [Arch; 2] = [Gfx1100, Gfx1151];

#[test]
fn loaded_registers_need_a_wait() {
    for (archs, wait, counter) in [
        (&GFX9[..], "s_waitcnt vmcnt(0) # 0f70", "vmcnt"),
        (&[Gfx1030], "s_waitcnt vmcnt(0) # 3f70", "vmcnt"),
        (&GFX11, "s_waitcnt vmcnt(0) # 03f7", "vmcnt"),
        (&[Gfx1201], "s_wait_loadcnt 0x0 # 0", "loadcnt"),
    ] {
        let load = "global_load_dword v1, v0, s[0:1]";
        check(archs, &format!("{load}; {wait}; v_mov_b32 v2, v1; v_mov_b32 v1, 0"), &[]);
        let early = |how: &str| format!("v1 {how} by 1 of 0, {counter}(0)");
        check(archs, &format!("{load}; v_mov_b32 v2, v1"), &[&early("read")]);
        check(archs, &format!("{load}; v_mov_b32 v1, 0"), &[&early("written")]);
        check(archs, &format!("{load}; global_store_dword v0, v1, s[0:1]"), &[&early("read")]);
        check(
            archs,
            &format!("{load}; global_load_dword v2, v1, s[0:1]; {wait}"),
            &[&early("read")],
        );
        // Only the first access is reported, and only if it is to the register that receives the result.
        check(archs, &format!("{load}; v_mov_b32 v2, v1; v_mov_b32 v3, v1"), &[&early("read")]);
        check(archs, &format!("{load}; v_mov_b32 v2, v0; v_mov_b32 v0, v3"), &[]);
        // Loads complete in order, so the register finally contains the result of the later one.
        check(
            archs,
            &format!("{load}; global_load_dword v1, v0, s[0:1] offset:4; {wait}; v_mov_b32 v2, v1"),
            &[],
        );
    }
}

#[test]
fn wait_may_leave_later_loads_outstanding() {
    for (archs, one, counter) in [
        (&GFX9[..], "s_waitcnt vmcnt(1) # 0f71", "vmcnt"),
        (&[Gfx1030], "s_waitcnt vmcnt(1) # 3f71", "vmcnt"),
        (&GFX11, "s_waitcnt vmcnt(1) # 07f7", "vmcnt"),
        (&[Gfx1201], "s_wait_loadcnt 0x1 # 1", "loadcnt"),
    ] {
        let two = "global_load_dword v1, v0, s[0:1]; global_load_dword v2, v0, s[0:1] offset:4";
        check(archs, &format!("{two}; {one}; v_mov_b32 v3, v1"), &[]);
        let left = format!("v2 read by 3 of 1, {counter}(0), left 1");
        check(archs, &format!("{two}; {one}; v_mov_b32 v3, v2"), &[&left]);
        check(
            archs,
            &format!("{two}; v_mov_b32 v3, v1"),
            &[&format!("v1 read by 2 of 0, {counter}(1)")],
        );
    }
    // GFX9 and GFX10 encode the two upper bits of the count apart from the lower ones.
    let many: String =
        (20..37).map(|row| format!("global_load_dword v{row}, v0, s[0:1]; ")).collect();
    for (archs, wait) in [(&GFX9[..], "# 4f70"), (&[Gfx1030], "# 7f70")] {
        check(archs, &format!("{many}s_waitcnt vmcnt(16) {wait}; v_mov_b32 v1, v20"), &[]);
        let early = "v21 read by 18 of 1, vmcnt(15), left 16";
        check(archs, &format!("{many}s_waitcnt vmcnt(16) {wait}; v_mov_b32 v1, v21"), &[early]);
    }
}

#[test]
fn stores_share_the_load_counter_only_on_gfx9() {
    let program = |wait: &str| {
        format!(
            "global_load_dword v1, v0, s[0:1]; global_store_dword v0, v9, s[0:1]; {wait}; v_mov_b32 v3, v1"
        )
    };
    check(&GFX9, &program("s_waitcnt vmcnt(1) # 0f71"), &[]);
    let early = |counter: &str| format!("v1 read by 3 of 0, {counter}(0), left 1");
    check(&[Gfx1030], &program("s_waitcnt vmcnt(1) # 3f71"), &[&early("vmcnt")]);
    check(&GFX11, &program("s_waitcnt vmcnt(1) # 07f7"), &[&early("vmcnt")]);
    check(&[Gfx1201], &program("s_wait_loadcnt 0x1 # 1"), &[&early("loadcnt")]);
    // A wait for stores does not wait for loads.
    let stores =
        "global_load_dword v1, v0, s[0:1]; s_waitcnt_vscnt null, 0x0 # 0; v_mov_b32 v3, v1";
    check(&[Gfx1030, Gfx1100], stores, &["v1 read by 2 of 0, vmcnt(0)"]);
    // An atomic that returns the old value is counted like a load, and any other atomic like a store.
    let atomic =
        "global_atomic_add v1, v0, v9, s[0:1] glc; s_waitcnt_vscnt null, 0x0 # 0; v_mov_b32 v3, v1";
    check(&[Gfx1030], atomic, &["v1 read by 2 of 0, vmcnt(0)"]);
    let atomic = "global_load_dword v1, v0, s[0:1]; global_atomic_add v0, v9, s[0:1]; s_waitcnt vmcnt(1) # 3f71; v_mov_b32 v3, v1";
    check(&[Gfx1030], atomic, &["v1 read by 3 of 0, vmcnt(0), left 1"]);
}

#[test]
fn cache_invalidations_count_only_on_gfx12() {
    let between = |arch: Arch, line: &str, wait: &str, early: &[&str]| {
        let program = format!("global_load_dword v1, v0, s[0:1]; {line}; {wait}; v_mov_b32 v3, v1");
        check(&[arch], &program, early);
    };
    let (one, left) = ("s_wait_loadcnt 0x1 # 1", "loadcnt(0), left 1");
    between(Gfx1201, "global_inv scope:SCOPE_DEV", one, &[]);
    between(Gfx1201, "global_wb scope:SCOPE_DEV", one, &[&format!("v1 read by 3 of 0, {left}")]);
    between(
        Gfx1201,
        "global_inv scope:SCOPE_DEV",
        "s_wait_loadcnt 0x2 # 2",
        &["v1 read by 3 of 0, loadcnt(1), left 2"],
    );
    let early = "v1 read by 3 of 0, vmcnt(0), left 1";
    between(Gfx1030, "buffer_gl0_inv", "s_waitcnt vmcnt(1) # 3f71", &[early]);
    between(Gfx942, "buffer_inv sc1", "s_waitcnt vmcnt(1) # 0f71", &[early]);
}

#[test]
fn scalar_results_arrive_in_any_order() {
    let two = "s_load_dword s8, s[0:1], 0x0; s_load_dword s9, s[0:1], 0x4";
    for (archs, none, one, counter) in [
        (&GFX9[..], "s_waitcnt lgkmcnt(0) # c07f", "s_waitcnt lgkmcnt(1) # c17f", "lgkmcnt"),
        (&[Gfx1030], "s_waitcnt lgkmcnt(0) # c07f", "s_waitcnt lgkmcnt(1) # c17f", "lgkmcnt"),
        (&GFX11, "s_waitcnt lgkmcnt(0) # fc07", "s_waitcnt lgkmcnt(1) # fc17", "lgkmcnt"),
        (&[Gfx1201], "s_wait_kmcnt 0x0 # 0", "s_wait_kmcnt 0x1 # 1", "kmcnt"),
    ] {
        check(archs, &format!("{two}; {none}; s_add_u32 s10, s8, s9"), &[]);
        let early = format!("s8 read by 3 of 0, {counter}(0), left 1");
        check(archs, &format!("{two}; {one}; s_add_u32 s10, s8, s8"), &[&early]);
        check(archs, &format!("{two}; {one}; v_mov_b32 v1, s8"), &[&early]);
        let written = format!("s8 written by 2 of 0, {counter}(0)");
        check(archs, &format!("{two}; s_mov_b32 s8, 0"), &[&written]);
        check(archs, &format!("{two}; s_load_dword s8, s[0:1], 0x8; {none}"), &[&written]);
        check(
            archs,
            &format!("{two}; s_add_u32 s10, s8, s9"),
            &[
                &format!("s8 read by 2 of 0, {counter}(0)"),
                &format!("s9 read by 2 of 1, {counter}(0)"),
            ],
        );
    }
}

#[test]
fn lds_results_arrive_in_order_and_share_a_counter_before_gfx12() {
    let two = "ds_read_b32 v1, v0; ds_read_b32 v2, v0 offset:4";
    for (archs, one, counter) in [
        (&GFX9[..], "s_waitcnt lgkmcnt(1) # c17f", "lgkmcnt"),
        (&[Gfx1030], "s_waitcnt lgkmcnt(1) # c17f", "lgkmcnt"),
        (&GFX11, "s_waitcnt lgkmcnt(1) # fc17", "lgkmcnt"),
        (&[Gfx1201], "s_wait_dscnt 0x1 # 1", "dscnt"),
    ] {
        check(archs, &format!("{two}; {one}; v_mov_b32 v3, v1"), &[]);
        let early = format!("v2 read by 3 of 1, {counter}(0), left 1");
        check(archs, &format!("{two}; {one}; v_mov_b32 v3, v2"), &[&early]);
        let lanes = format!("v2 read by 1 of 0, {counter}(0)");
        check(archs, "ds_bpermute_b32 v2, v0, v9; v_add_f32 v3, v2, v2", &[&lanes]);
        check(archs, "ds_add_rtn_u32 v2, v0, v9; v_add_f32 v3, v2, v2", &[&lanes]);
    }
    // A scalar load may complete before or after the LDS read. If one of the two results is outstanding, it may be
    // either.
    let mixed = "ds_read_b32 v1, v0; s_load_dword s8, s[0:1], 0x0";
    check(
        &GFX9,
        &format!("{mixed}; s_waitcnt lgkmcnt(1) # c17f; v_mov_b32 v3, v1"),
        &["v1 read by 3 of 0, lgkmcnt(0), left 1"],
    );
    let both = "s_waitcnt lgkmcnt(0) # fc07; v_mov_b32 v3, v1; s_mov_b32 s9, s8";
    check(&GFX11, &format!("{mixed}; {both}"), &[]);
    let other = "s_wait_dscnt 0x0 # 0; v_mov_b32 v3, v1; s_mov_b32 s9, s8";
    check(&[Gfx1201], &format!("{mixed}; {other}"), &["s8 read by 4 of 1, kmcnt(0)"]);
    let pair = "ds_read_b32 v1, v0; global_load_dword v2, v0, s[0:1]";
    check(&[Gfx1201], &format!("{pair}; s_wait_loadcnt_dscnt 0x0 # 0; v_add_f32 v3, v1, v2"), &[]);
    check(
        &[Gfx1201],
        &format!("{pair}; s_wait_loadcnt_dscnt 0x100 # 100; v_add_f32 v3, v1, v2"),
        &["v2 read by 3 of 1, loadcnt(0), left 1"],
    );
    check(
        &[Gfx1201],
        &format!("{pair}; s_wait_loadcnt_dscnt 0x1 # 1; v_add_f32 v3, v1, v2"),
        &["v1 read by 3 of 0, dscnt(0), left 1"],
    );
}

#[test]
fn outstanding_results_are_limited_by_the_counter() {
    let many: String = (20..36).map(|row| format!("ds_read_b32 v{row}, v0; ")).collect();
    check(&GFX9, &format!("{many}v_mov_b32 v1, v20"), &[]);
    check(&GFX9, &format!("{many}v_mov_b32 v1, v21"), &["v21 read by 16 of 1, lgkmcnt(14)"]);
    check(&[Gfx1030], &format!("{many}v_mov_b32 v1, v20"), &["v20 read by 16 of 0, lgkmcnt(15)"]);
}

#[test]
fn flat_access_waits_for_its_segment() {
    let memory = "flat_load_dword v1, v[10:11]";
    let lds = "flat_load_dword v1, v[12:13]";
    for (archs, loads, local) in [
        (&GFX9[..], "s_waitcnt vmcnt(0) # 0f70", "s_waitcnt lgkmcnt(0) # c07f"),
        (&[Gfx1030], "s_waitcnt vmcnt(0) # 3f70", "s_waitcnt lgkmcnt(0) # c07f"),
        (&GFX11, "s_waitcnt vmcnt(0) # 03f7", "s_waitcnt lgkmcnt(0) # fc07"),
    ] {
        check(archs, &format!("{memory}; {loads}; v_mov_b32 v2, v1"), &[]);
        check(archs, &format!("{lds}; {local}; v_mov_b32 v2, v1"), &[]);
        let early = ["v1 read by 2 of 0, vmcnt(0)", "v1 read by 2 of 0, lgkmcnt(0)"];
        check(archs, &format!("{memory}; {local}; v_mov_b32 v2, v1"), &early[..1]);
        check(archs, &format!("{lds}; {loads}; v_mov_b32 v2, v1"), &early[1..]);
    }
    // On GFX9, LDS accesses of FLAT instructions complete in any order.
    let later = "ds_read_b32 v2, v0; s_waitcnt lgkmcnt(1) # c17f; v_mov_b32 v3, v1";
    check(&GFX9, &format!("{lds}; {later}"), &["v1 read by 3 of 0, lgkmcnt(0), left 1"]);
    check(&[Gfx1030], &format!("{lds}; {later}"), &[]);
}

#[test]
fn distinguishes_halves_and_lanes() {
    let high = "global_load_d16_hi_b16 v1, v0, s[0:1]";
    let other = "v_mov_b16 v2.l, v1.l";
    check(&[Gfx1151], &format!("{high}; {other}"), &[]);
    check(&[Gfx1151], &format!("{high}; v_mov_b16 v2.l, v1.h"), &["v1 read by 1 of 0, vmcnt(0)"]);
    check(&[Gfx1151], &format!("{high}; v_mov_b32 v2, v1"), &["v1 read by 1 of 0, vmcnt(0)"]);
    // A 16-bit store reads only one half of the register.
    let store = |store: &str| format!("{high}; {store}");
    check(&[Gfx1151], &store("ds_store_b16 v0, v1"), &[]);
    check(&[Gfx1151], &store("global_store_b8 v0, v1, s[0:1]"), &[]);
    check(&[Gfx1151], &store("buffer_store_b16 v1, v0, s[4:7], 0 offen"), &[]);
    for line in ["ds_store_b16_d16_hi v0, v1", "ds_store_b32 v0, v1", "v_mov_b32 v2, v1"] {
        check(&[Gfx1151], &store(line), &["v1 read by 1 of 0, vmcnt(0)"]);
    }
    // If registers have ECC, a load writes the whole register.
    let old = "global_load_short_d16_hi v1, v0, s[0:1]";
    check(&[Gfx90a], &format!("{old}; v_mov_b32 v2, v1"), &["v1 read by 1 of 0, vmcnt(0)"]);
    let low =
        "s_mov_b32 exec_lo, 0xff; global_load_dword v1, v0, s[0:1]; s_mov_b32 exec_lo, 0xff00";
    check(&[Gfx1151], &format!("{low}; v_mov_b32 v2, v1"), &[]);
    check(
        &[Gfx1151],
        &format!("{low}; s_mov_b32 exec_lo, 0x180; v_mov_b32 v2, v1"),
        &["v1 read by 4 of 1, vmcnt(0)"],
    );
    check(
        &[Gfx1151],
        &format!("{low}; v_readlane_b32 s8, v1, 3"),
        &["v1 read by 3 of 1, vmcnt(0)"],
    );
}

#[test]
fn implicit_registers_need_a_wait_too() {
    let load = "s_load_dwordx2 vcc, s[0:1], 0x0";
    check(&GFX9, &format!("{load}; s_cbranch_vccz 0"), &["vcc_lo read by 1 of 0, lgkmcnt(0)"]);
    let fmas = "v_div_fmas_f32 v1, v9, v9, v9";
    check(&GFX9, &format!("{load}; {fmas}"), &["vcc_lo read by 1 of 0, lgkmcnt(0)"]);
    check(&GFX9, "s_memtime s[8:9]; s_mov_b32 s10, s9", &["s9 read by 1 of 0, lgkmcnt(0)"]);
    let pair = "global_load_b32 v1, v0, s[0:1]; v_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v4, v1";
    check(&GFX11, pair, &["v1 read by 1 of 0, vmcnt(0)"]);
    let buffer = "buffer_load_dword v1, v0, s[4:7], 0 offen; v_mov_b32 v2, v1";
    check(&GFX9, buffer, &["v1 read by 1 of 0, vmcnt(0)"]);
    let swap = "buffer_atomic_cmpswap v[2:3], v0, s[4:7], 0 offen glc; v_mov_b32 v4, v3";
    check(&GFX9, swap, &[]);
    check(&GFX9, &swap.replace("v4, v3", "v4, v2"), &["v2 read by 1 of 0, vmcnt(0)"]);
}

#[test]
fn barrier_orders_completed_accesses() {
    let exchange =
        |wait: &str| format!("0: ds_write_b32 v0, v9; {wait}barrier; 1: ds_read_b32 v1, v0");
    for (archs, wait) in [
        (&GFX9[..], "s_waitcnt lgkmcnt(0) # c07f; "),
        (&[Gfx1030], "s_waitcnt lgkmcnt(0) # c07f; "),
        (&GFX11, "s_waitcnt lgkmcnt(0) # fc07; "),
        (&[Gfx1201], "s_wait_dscnt 0x0 # 0; "),
    ] {
        check(archs, &exchange(wait), &[]);
        check(archs, &exchange(""), &["LDS 0 read by 2 of 0"]);
        // If the wave waits between the two barriers, the second barrier is sufficient.
        let later =
            format!("0: ds_write_b32 v0, v9; barrier; {wait}barrier; 1: ds_read_b32 v1, v0");
        check(archs, &later, &[]);
        // LDS accesses of one wave complete in order, so a wave may read what it wrote without a wait.
        check(archs, "0: ds_write_b32 v0, v9; barrier; 0: ds_read_b32 v1, v0", &[]);
    }
}

/// A load from memory to the LDS increments the counter of loads. Neither a barrier nor a wait for LDS accesses ensures
/// that it has completed.
#[test]
fn loads_to_the_lds_need_a_wait() {
    let buffer = "s_mov_b32 m0, 0; buffer_load_dword v0, s[4:7], 0 offen lds";
    let global = "s_mov_b32 m0, 0; global_load_lds_dword v0, s[0:1]";
    let (wait, one) = ("s_waitcnt vmcnt(0) # 0f70", "s_waitcnt vmcnt(1) # 0f71");
    let local = "s_waitcnt lgkmcnt(0) # c07f";
    let read = "ds_read_b32 v1, v0";
    let with = |load: &str, archs: &[Arch]| {
        let check =
            |text: &str, expected: &[&str]| check(archs, &format!("{load}; {text}"), expected);
        check(&format!("{wait}; {read}"), &[]);
        check(&format!("{wait}; barrier; 1: {read}"), &[]);
        check(read, &["LDS 0 read by 2 of 1"]);
        check(&format!("{local}; {read}"), &["LDS 0 read by 3 of 1"]);
        check(&format!("barrier; 1: {read}"), &["LDS 0 read by 3 of 1"]);
        check(&format!("{local}; barrier; 1: {read}"), &["LDS 0 read by 4 of 1"]);
        // Neither a wait by another wave nor a wait after the barrier is sufficient.
        check(&format!("1: {wait}; barrier; 1: {read}"), &["LDS 0 read by 4 of 1"]);
        check(&format!("barrier; {wait}; 1: {read}"), &["LDS 0 read by 4 of 1"]);
        check(&format!("barrier; {wait}; barrier; 1: {read}"), &[]);
        // Loads of one wave from memory to the LDS complete in order, with each other and with other loads.
        let again = load.rsplit("; ").next().unwrap_or_default();
        check(&format!("{again}; {wait}; {read}"), &[]);
        check(&format!("global_load_dword v2, v0, s[0:1]; {one}; {read}"), &[]);
        check(&format!("global_load_dword v2, v0, s[0:1]; {read}"), &["LDS 0 read by 3 of 1"]);
        // If a wave writes before the load has completed, the load overwrites the written value.
        check("ds_write_b32 v0, v9", &["LDS 0 write by 2 of 1"]);
        check(&format!("{wait}; ds_write_b32 v0, v9"), &[]);
        check("barrier; 1: ds_write_b32 v0, v9", &["LDS 0 write by 3 of 1"]);
        check("ds_add_u32 v0, v9", &["LDS 0 atomic by 2 of 1"]);
        // Other addresses are not affected. Each pair of instructions is reported once.
        check("ds_read_b32 v1, v0 offset:512", &[]);
        check(&format!("{read}; {read}"), &["LDS 0 read by 2 of 1", "LDS 0 read by 3 of 1"]);
        // The wave's own write has completed before the read, so outstanding loads do not matter.
        check(&format!("ds_write_b32 v0, v9 offset:512; {wait}; {read}"), &[]);
    };
    with(buffer, &GFX9);
    with(global, &[Gfx942, Gfx950]);
    let more = "s_mov_b32 m0, 0; global_load_lds_dwordx4 v0, s[0:1]";
    check(&[Gfx950], &format!("{more}; {read}"), &["LDS 0 read by 2 of 1"]);
    check(&[Gfx950], &format!("{more}; {wait}; {read}"), &[]);
}

#[test]
fn prefetches_to_the_lds_arrive_in_order() {
    let check_on = |archs: &[Arch], load: &str, [one, none]: [&str; 2]| {
        let both = format!("s_mov_b32 m0, 0; {load}; s_mov_b32 m0, 0x200; {load}");
        let (first, second) = ("ds_read_b32 v1, v0", "ds_read_b32 v1, v0 offset:512");
        check(archs, &format!("{both}; {one}; {first}; barrier; 1: {first}"), &[]);
        check(archs, &format!("{both}; {one}; {second}"), &["LDS 512 read by 5 of 3"]);
        check(archs, &format!("{both}; {one}; barrier; 1: {second}"), &["LDS 512 read by 6 of 3"]);
        check(archs, &format!("{both}; {none}; {second}; barrier; 1: {second}"), &[]);
        // In the second iteration of the loop, the wave loads again the data that has been read.
        let turn = format!("{one}; barrier; {first}; 1: {first}; barrier; s_mov_b32 m0, 0; {load}");
        check(archs, &format!("{both}; {turn}; {one}; barrier; 1: {second}"), &[]);
        check(archs, &format!("{both}; {turn}; {one}; {first}"), &["LDS 0 read by 12 of 10"]);
        // A store increments the counter of loads only on GFX9.
        let stores = format!("s_mov_b32 m0, 0; {load}; global_store_dword v0, v9, s[0:1]; {one}");
        let expected: &[&str] = if archs == [Gfx1030] { &["LDS 0 read by 4 of 1"] } else { &[] };
        check(archs, &format!("{stores}; {first}"), expected);
    };
    let buffer = "buffer_load_dword v0, s[4:7], 0 offen lds";
    let gfx9 = ["s_waitcnt vmcnt(1) # 0f71", "s_waitcnt vmcnt(0) # 0f70"];
    check_on(&GFX9, buffer, gfx9);
    check_on(&[Gfx942, Gfx950], "global_load_lds_dword v0, s[0:1]", gfx9);
    check_on(&[Gfx1030], buffer, ["s_waitcnt vmcnt(1) # 3f71", "s_waitcnt vmcnt(0) # 3f70"]);
    let stores = "s_waitcnt_vscnt null, 0x0 # 0";
    let load = format!("s_mov_b32 m0, 0; {buffer}; {stores}; ds_read_b32 v1, v0");
    check(&[Gfx1030], &load, &["LDS 0 read by 3 of 1"]);
}

#[test]
fn single_wave_must_wait_for_loads_to_the_lds() {
    let mut words = words();
    let start = words.as_mut_ptr().expose_provenance() as u64;
    for (wait, expected) in [("s_waitcnt vmcnt(0) # 0f70", 0), ("s_nop 0", 1)] {
        let memory = Memory { start, watched: true };
        let mut bench = Bench::new(Gfx942, &memory);
        Checks::from_state(&mut bench.machine.watch).expect("the launch is checked").begin(1, 0);
        let load = "s_mov_b32 m0, 0; global_load_lds_dword v0, s[0:1]";
        let text = format!("{load}; {wait}; ds_read_b32 v1, v0");
        lines(&text).for_each(|(pc, line)| bench.run(pc, line));
        assert_eq!(Checks::found(&mut bench.machine).len(), expected, "{wait}");
    }
}

/// Runs a program whose loaded values arrive late, and compares v2 of lane 3 with `expected`.
#[track_caller]
fn late(arch: Arch, text: &str, expected: u32) {
    let mut words = words();
    let start = words.as_mut_ptr().expose_provenance() as u64;
    let memory = Memory { start, watched: false };
    let mut bench = Bench::new(arch, &memory);
    bench.machine.give_lds(BYTES as u32, 1);
    bench.machine.lds = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for lane in 0..bench.waves[0].lanes {
        bench.waves[0].set_lane(1, lane, 1000);
    }
    bench.waves[0].scalar[8] = 1000;
    lines(text).for_each(|(pc, line)| bench.run(pc, line));
    assert_eq!(bench.waves[0].lane(2, 3), expected, "{arch}: {text}");
}

#[test]
fn late_results_reveal_missing_waits() {
    let load = "global_load_dword v1, v0, s[0:1]";
    late(Gfx1151, &format!("{load}; s_waitcnt vmcnt(0) # 03f7; v_mov_b32 v2, v1"), 4);
    late(Gfx1151, &format!("{load}; v_mov_b32 v2, v1"), 1000);
    // The late result overwrites a value that the wave has written in the meantime.
    late(
        Gfx1151,
        &format!("{load}; v_mov_b32 v1, 7; s_waitcnt vmcnt(0) # 03f7; v_mov_b32 v2, v1"),
        4,
    );
    let two = format!("{load}; global_load_dword v1, v0, s[0:1] offset:4");
    late(Gfx906, &format!("{two}; s_waitcnt vmcnt(1) # 0f71; v_mov_b32 v2, v1"), 4);
    late(Gfx906, &format!("{two}; s_waitcnt vmcnt(0) # 0f70; v_mov_b32 v2, v1"), 5);
    late(Gfx906, &format!("{two}; s_waitcnt lgkmcnt(0) # c07f; v_mov_b32 v2, v1"), 1000);
    let scalar = "s_load_dword s8, s[0:1], 0x10";
    late(Gfx1201, &format!("{scalar}; s_wait_kmcnt 0x0 # 0; v_mov_b32 v2, s8"), 5);
    late(Gfx1201, &format!("{scalar}; s_wait_dscnt 0x0 # 0; v_mov_b32 v2, s8"), 1000);
    late(Gfx1030, "ds_read_b32 v1, v0 offset:8; v_mov_b32 v2, v1", 1000);
    late(Gfx1030, "ds_read_b32 v1, v0 offset:8; s_waitcnt lgkmcnt(0) # c07f; v_mov_b32 v2, v1", 6);
    // The other half keeps the value that the wave has written in the meantime.
    let half = "global_load_d16_hi_b16 v1, v0, s[0:1]; v_mov_b16 v1.l, 5";
    late(Gfx1151, &format!("{half}; s_waitcnt vmcnt(0) # 03f7; v_mov_b32 v2, v1"), 4 << 16 | 5);
}

#[test]
fn finding_names_the_last_wait() {
    let early = isa::Finding::Early {
        register: "v1".into(),
        read: true,
        wave: 2,
        lane: Some(5),
        producer: isa::At { text: "global_load_b32 v1, v0, s[0:1]".into(), offset: 16 },
        counter: "vmcnt",
        needs: 1,
        waited: Some((isa::At { text: "s_waitcnt vmcnt(2)".into(), offset: 32 }, 2)),
        instruction: isa::At { text: "v_mov_b32_e32 v2, v1".into(), offset: 40 },
    };
    assert_eq!(
        early.to_string(),
        "v1 is read before its value arrives: by `v_mov_b32_e32 v2, v1` at +0x28 in wave 2, lane 5; `global_load_b32 v1, \
         v0, s[0:1]` at +0x10 requested it, and a wait for vmcnt(1) completes it; the \
         last wait between them, `s_waitcnt vmcnt(2)` at \
         +0x20, leaves vmcnt at 2"
    );
}

#[test]
fn finding_names_the_missing_wait_for_loads_to_the_lds() {
    let side = |kind, wave, text: &str, offset| isa::LdsAccess {
        kind,
        wave,
        instruction: isa::At { text: text.into(), offset },
    };
    let early = |wave| isa::Finding::LdsEarly {
        offset: 64,
        write: side("write", 1, "global_load_lds_dword v0, s[0:1]", 16),
        read: side("read", wave, "ds_read_b32 v1, v0", 32),
    };
    assert_eq!(
        early(1).to_string(),
        "LDS at 0x40 is used before what the wave loads there arrives: read by `ds_read_b32 v1, v0` at +0x20 in wave 1; write \
         by `global_load_lds_dword v0, s[0:1]` at +0x10 in wave 1, which it did not wait for between them"
    );
    let other = early(2).to_string();
    assert!(
        other.ends_with("that wave did not wait for before the barrier between them"),
        "{other}"
    );
}
