//! Tests which errors the sanitizer finds in instructions of several waves. The submodules test the parts of the
//! sanitizer.

mod access;
mod clock;
mod flow;
mod polls;
mod races;
mod scope;

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use device::Arch::{self, Gfx1151, Gfx1201};
use isa::{
    AccessKind, AddressSpace, Unordered, Written,
    inside::{
        checks::{CheckError, Checks, races::Access},
        machine::Machine,
        program::line::{self, bind, watch},
        text::Site,
        text::register::EXEC,
        wave::{Stop, Wave},
    },
};

struct Watched;

// SAFETY: the address space has no memory.
unsafe impl AddressSpace for Watched {
    fn range(&self, _: u64) -> Option<Range<u64>> {
        None
    }

    fn is_watched(&self) -> bool {
        true
    }
}

fn run(wave: &mut Wave, machine: &mut Machine<'_>, pc: u64, line: &str) -> Result<(), Box<Stop>> {
    run_on(Gfx1151, wave, machine, pc, line)
}

fn run_on(
    arch: Arch,
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    pc: u64,
    line: &str,
) -> Result<(), Box<Stop>> {
    let site = Site { address: pc, ..Site::for_arch(arch) };
    let wait = if arch == Gfx1201 { "s_wait_idle" } else { "s_waitcnt vmcnt(0) lgkmcnt(0)" };
    for line in [line, wait] {
        let exec = watch(bind(line, &site), line, &site);
        let Ok(exec) = exec else { panic!("not bound: {line}") };
        exec.run(wave, machine)?;
    }
    Ok(())
}

/// Runs instructions of two waves in the given order, as lines `wave: instruction` or `barrier`, and compares the races
/// that the sanitizer finds with `expected`. v0 contains 4 times the work-item number. v1 contains the value that v0
/// has in the other wave, and v2 the wave number plus one.
#[track_caller]
fn race(lines: &str, expected: &[&str]) {
    let mut machine = line::machine(&Watched);
    machine.give_lds(512, 1);
    let checks = Checks::from_state(&mut machine.watch).expect("the launch is watched");
    checks.begin(2, 0);
    let mut waves: Vec<Wave> = (0..2).map(|_| Wave::new(32)).collect();
    for (index, wave) in waves.iter_mut().enumerate() {
        wave.index = index as u32;
        wave.set_pair(EXEC, u64::from(u32::MAX));
        for lane in 0..32 {
            let item = (index * 32 + lane) as u32;
            wave.set_lane(0, lane, item * 4);
            wave.set_lane(1, lane, (item + 32) % 64 * 4);
            wave.set_lane(2, lane, index as u32 + 1);
        }
    }
    let mut found = Vec::new();
    for (pc, line) in lines.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let Some((wave, text)) = line.split_once(": ") else {
            Checks::from_state(&mut machine.watch).expect("it is still watched").barrier();
            continue;
        };
        let wave = &mut waves[wave.parse::<usize>().expect("a number")];
        run(wave, &mut machine, pc as u64, text).expect("it runs");
        for mistake in Checks::found(&mut machine) {
            let CheckError::LdsRace { offset, first, second } = mistake else {
                panic!("{line}: {mistake:?}");
            };
            let side = |a: Access| format!("{} `{}`", a.kind.word(), a.text);
            found.push(format!("{offset}: {}, {}", side(first), side(second)));
        }
    }
    assert_eq!(found, expected, "{lines}");
}

#[test]
fn waves_need_a_barrier_to_exchange_data() {
    race("0: ds_store_b32 v0, v2\n 1: ds_store_b32 v0, v2\n barrier\n 0: ds_load_b32 v3, v1", &[]);
    race(
        "0: ds_store_b32 v0, v2\n 1: ds_load_b32 v3, v1",
        &["0: write `ds_store_b32 v0, v2`, read `ds_load_b32 v3, v1`"],
    );
    race(
        "0: ds_load_2addr_b32 v[4:5], v0 offset1:32\n 1: ds_store_b8 v0, v2",
        &["128: read `ds_load_2addr_b32 v[4:5], v0 offset1:32`, write `ds_store_b8 v0, v2`"],
    );
    race("0: ds_add_u32 v0, v2\n 1: ds_add_u32 v1, v2", &[]);
    race(
        "0: ds_add_u32 v0, v2\n 1: ds_store_b16 v1, v2",
        &["0: atomic `ds_add_u32 v0, v2`, write `ds_store_b16 v1, v2`"],
    );
}

/// Memory of 256 bytes, of which the first 128 are initialised.
struct Book(Arc<Written>);

// SAFETY: each test creates a `Book` for a buffer that outlives the machine.
unsafe impl AddressSpace for Book {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.0.range().contains(&address).then(|| self.0.range())
    }

    fn is_watched(&self) -> bool {
        true
    }

    fn written(&self, _: u64) -> Option<Arc<Written>> {
        Some(self.0.clone())
    }
}

/// Runs instructions of a wave and compares the sanitizer's finding with `expected`. s[0:1] contain the start of the
/// memory, and v0 contains 4 times the lane number. `unwritten_from` is the first byte that must still be uninitialised
/// at the end.
#[track_caller]
fn never_written(lines: &str, expected: Option<&str>, unwritten_from: Option<u64>) {
    let mut memory = [0u8; 256];
    let start = memory.as_mut_ptr().expose_provenance() as u64;
    let book = Book(Arc::new(Written::new(start, 256)));
    book.0.set(start..start + 128, true);
    let mut machine = line::machine(&book);
    machine.give_lds(512, 1);
    Checks::from_state(&mut machine.watch).expect("the launch is watched").begin(1, 0);
    let mut wave = Wave::new(32);
    wave.set_pair(EXEC, u64::from(u32::MAX));
    wave.set_pair(0, start);
    for lane in 0..32 {
        wave.set_lane(0, lane, lane as u32 * 4);
    }
    let mut found = None;
    for (pc, line) in lines.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        run(&mut wave, &mut machine, pc as u64, line).expect("it runs");
        for mistake in Checks::found(&mut machine) {
            let CheckError::NeverWritten { read, how } = mistake else {
                panic!("{line}: {mistake:?}")
            };
            let at = read.address - start;
            found.get_or_insert(format!("{at} `{}`, {how:?} `{line}`", read.text));
        }
    }
    assert_eq!(found.as_deref(), expected, "{lines}");
    let first = (128..256).find(|at| !book.0.any(start + at..start + 256));
    if expected.is_none() {
        assert_eq!(first, unwritten_from, "{lines}");
    }
}

#[test]
fn uninitialised_memory_may_be_read_and_copied() {
    // The kernel copies the initialised half of the memory over the uninitialised one.
    never_written(
        "global_load_b32 v1, v0, s[0:1]
        global_store_b32 v0, v1, s[0:1] offset:128",
        None,
        None,
    );
    never_written(
        "global_load_b32 v1, v0, s[0:1] offset:128
        v_mov_b32 v2, v1
        v_lshlrev_b32 v3, 2, v2
        global_store_b32 v0, v3, s[0:1] offset:128",
        None,
        Some(128),
    );
    // In lane 0, two bytes of the loaded word are initialised, so the word is treated as initialised. The results of
    // the other lanes do not depend on the loaded words.
    never_written(
        "global_load_b32 v1, v0, s[0:1] offset:126
        v_add_nc_u32 v1, v1, v1
        v_cmp_gt_u32 vcc_lo, 4, v0
        v_cndmask_b32 v2, 0, v1, vcc_lo
        global_store_b32 v0, v2, s[0:1]",
        None,
        Some(128),
    );
    // The kernel overwrites the loaded data before it uses the registers.
    never_written(
        "global_load_b64 v[2:3], v0, s[0:1] offset:120
        s_load_b64 s[2:3], s[0:1], 0x80
        v_mov_b32 v2, 7
        v_mov_b32 v3, 7
        v_mov_b32 v4, 7
        global_store_b64 v0, v[2:3], s[0:1] offset:0",
        None,
        Some(132),
    );
}

#[test]
fn reports_computing_with_uninitialised_memory() {
    never_written(
        "global_load_b32 v1, v0, s[0:1] offset:128
        v_add_nc_u32 v2, v1, v0
        ds_store_b32 v0, v2
        ds_load_b32 v3, v0
        global_store_b32 v0, v3, s[0:1]",
        Some(
            "128 `global_load_b32 v1, v0, s[0:1] offset:128`, Stored `global_store_b32 v0, v3, s[0:1]`",
        ),
        None,
    );
    never_written(
        "s_load_b32 s2, s[0:1], 0x84
        s_cmp_eq_u32 s2, 0
        s_cbranch_scc1 4",
        Some("132 `s_load_b32 s2, s[0:1], 0x84`, Control `s_cbranch_scc1 4`"),
        None,
    );
    never_written(
        "global_load_b32 v1, v0, s[0:1] offset:128
        v_cmp_gt_u32 vcc_lo, 8, v1
        s_and_saveexec_b32 s4, vcc_lo",
        Some(
            "128 `global_load_b32 v1, v0, s[0:1] offset:128`, Control `s_and_saveexec_b32 s4, vcc_lo`",
        ),
        None,
    );
    never_written(
        "global_load_b32 v1, v0, s[0:1] offset:128
        global_load_b32 v2, v1, s[0:1]",
        Some(
            "128 `global_load_b32 v1, v0, s[0:1] offset:128`, Address `global_load_b32 v2, v1, s[0:1]`",
        ),
        None,
    );
    never_written(
        "global_atomic_add_u32 v0, v0, s[0:1] offset:128",
        Some(
            "128 `global_atomic_add_u32 v0, v0, s[0:1] offset:128`, Atomic `global_atomic_add_u32 v0, v0, s[0:1] offset:128`",
        ),
        None,
    );
}

struct List(Range<u64>, Mutex<Vec<(AccessKind, Range<u64>)>>);

// SAFETY: the only test creates a `List` from a buffer that outlives the machine.
unsafe impl AddressSpace for List {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.0.contains(&address).then(|| self.0.clone())
    }

    fn is_watched(&self) -> bool {
        true
    }

    fn touch(&self, kind: AccessKind, range: Range<u64>) -> Result<(), Unordered> {
        self.1.lock().expect("one thread").push((kind, range));
        Ok(())
    }
}

#[test]
fn adjacent_lanes_form_one_access() {
    let mut memory = [0u8; 512];
    let start = memory.as_mut_ptr().expose_provenance() as u64;
    let check =
        |arch, lanes: u32, stride, line: &str, kind: AccessKind, expected: &[(u64, u64)]| {
            let list = List(start..start + 512, Mutex::default());
            let mut machine = line::machine(&list);
            Checks::from_state(&mut machine.watch).expect("the launch is watched").begin(1, 0);
            let mut wave = Wave::new(32);
            wave.set_pair(EXEC, (1 << lanes) - 1);
            wave.set_pair(0, start);
            for lane in 0..32 {
                wave.set_lane(0, lane, lane as u32 * stride);
            }
            assert!(run_on(arch, &mut wave, &mut machine, 0, line).is_ok(), "{line}");
            drop(machine);
            let touched = list.1.into_inner().expect("one thread");
            let absolute = |(from, to): &(u64, u64)| (kind, start + from..start + to);
            assert_eq!(touched, expected.iter().map(absolute).collect::<Vec<_>>(), "{line}");
        };
    use AccessKind::{Atomic, Load, Store};
    check(Gfx1151, 32, 4, "global_load_b32 v2, v0, s[0:1]", Load, &[(0, 128)]);
    check(Gfx1151, 2, 4, "global_store_b8 v0, v2, s[0:1]", Store, &[(0, 1), (4, 5)]);
    check(Gfx1151, 32, 4, "global_atomic_add_u32 v0, v2, s[0:1]", Atomic, &[(0, 128)]);
    check(Gfx1201, 32, 8, "global_load_tr_b64 v[2:3], v0, s[0:1]", Load, &[(0, 256)]);
    check(Gfx1201, 32, 16, "global_load_tr_b128 v[2:5], v0, s[0:1]", Load, &[(0, 512)]);
}

/// Memory of 256 bytes, with the address of its start. It contains an allocation of 128 bytes, for which the sanitizer
/// may track which bytes are initialised.
struct Page(u64, Option<Arc<Written>>);

// SAFETY: each test creates a `Page` for a buffer of 256 bytes that outlives the machine.
unsafe impl AddressSpace for Page {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        let range = self.0..self.0 + 128;
        range.contains(&address).then_some(range)
    }

    fn pages(&self, address: u64) -> Option<Range<u64>> {
        let range = self.0..self.0 + 256;
        range.contains(&address).then_some(range)
    }

    fn written(&self, _: u64) -> Option<Arc<Written>> {
        self.1.clone()
    }

    fn is_watched(&self) -> bool {
        true
    }
}

#[test]
fn errors_are_reported_in_order() {
    let mut memory = vec![0u64; 32];
    let start = memory.as_mut_ptr().expose_provenance() as u64;
    memory[0] = start + 200;
    let page = Page(start, Some(Arc::new(Written::new(start, 128))));
    let mut machine = line::machine(&page);
    Checks::from_state(&mut machine.watch).expect("the launch is watched").begin(1, 0);
    let mut wave = Wave::new(32);
    wave.set_pair(EXEC, 1);
    wave.set_pair(0, start);
    run(&mut wave, &mut machine, 0, "s_load_b64 s[4:5], s[0:1], 0x0").expect("it continues");
    run(&mut wave, &mut machine, 8, "s_load_b32 s6, s[4:5], 0x0").expect("it continues");
    let found = Checks::found(&mut machine);
    assert!(
        matches!(
            &found[..],
            [CheckError::NeverWritten { .. }, CheckError::Outside { write: false, .. }, ..]
        ),
        "the cause comes first: {found:?}"
    );
    assert!(Checks::found(&mut machine).is_empty(), "each error is reported once");
}

#[test]
fn reports_accesses_out_of_range_and_executes_them_like_hardware() {
    let mut memory: Vec<u32> = (0..64).collect();
    let start = memory.as_mut_ptr().expose_provenance() as u64;
    let page = Page(start, None);
    let mut machine = line::machine(&page);
    machine.give_lds(300, 512);
    machine.lds.fill(7);
    Checks::from_state(&mut machine.watch).expect("the launch is watched").begin(2, 0);
    let mut wave = Wave::new(32);
    wave.set_pair(EXEC, 1);
    wave.set_pair(0, start);
    wave.set_lane(2, 0, 0xaaaa);
    let mut check = |line: &str, expected: &[&str]| {
        run(&mut wave, &mut machine, 0, line).expect("it continues");
        let what = |found: CheckError| match found {
            CheckError::Outside { address, write } => {
                format!("outside {} {write}", address - start)
            }
            CheckError::LdsOutOfRange { offset, write, given } => {
                format!("LDS {offset} {write} {given}")
            }
            other => panic!("{line}: {other:?}"),
        };
        let mut found: Vec<_> = Checks::found(&mut machine).into_iter().map(what).collect();
        // If the fast path of an instruction fails, the access is executed a second time, so the same error is found
        // twice. A launch reports it once.
        found.dedup();
        assert_eq!(found, expected, "{line}");
    };
    check("global_load_b32 v3, v0, s[0:1] offset:124", &[]);
    check("global_load_b64 v[4:5], v0, s[0:1] offset:124", &["outside 128 false"]);
    check("global_store_b32 v0, v2, s[0:1] offset:252", &["outside 252 true"]);
    check("s_load_b32 s2, s[0:1], 0x80", &["outside 128 false"]);
    check("v_mov_b32 v7, 0x200", &[]);
    check("ds_load_b32 v8, v7", &["LDS 512 false false"]);
    check("ds_store_b32 v7, v2", &["LDS 512 true false"]);
    check("ds_add_rtn_u32 v9, v7, v2", &["LDS 512 true false"]);
    // The offset is past the LDS of any GPU, although the sum would be inside if it wrapped at 16 bits.
    check("ds_load_b32 v10, v7 offset:65532", &["LDS 66044 false false"]);
    // The offset is so large that reading zeros is intentional, as in Tensile's kernels.
    check("v_mov_b32 v7, 0xf00000", &[]);
    check("ds_load_b32 v10, v7", &[]);
    check("ds_store_b32 v7, v2", &["LDS 15728640 true false"]);
    // The offset is past the requested size, but inside of the allocated granule.
    check("v_mov_b32 v7, 0x128", &[]);
    check("ds_load_b32 v11, v7", &[]);
    check("ds_load_b32 v12, v7 offset:4", &["LDS 300 false true"]);
    check("ds_store_b32 v7, v2 offset:212", &["LDS 508 true true"]);
    let Err(stop) =
        run(&mut wave, &mut machine, 0, "global_load_b64 v[4:5], v0, s[0:1] offset:252")
    else {
        panic!("the access must fail, because the page ends there");
    };
    assert!(matches!(*stop, Stop::PageFault { write: false, .. }), "{stop:?}");
    assert_eq!([3, 4, 5, 8, 9, 10].map(|row| wave.lane(row, 0)), [31, 31, 32, 0, 0, 0]);
    assert_eq!([11, 12].map(|row| wave.lane(row, 0)), [0x0707_0707; 2]);
    assert_eq!((wave.scalar[2], memory[63]), (32, 0xaaaa));
    assert_eq!(machine.lds[..508], [7; 508]);
    assert_eq!(machine.lds[508..], [0xaa, 0xaa, 0, 0]);
}
