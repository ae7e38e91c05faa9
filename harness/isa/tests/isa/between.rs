//! Tests the detection of races between waves of different workgroups. The code sequences for fences and atomics with
//! agent scope are those of the memory models in LLVM's AMDGPU usage guide, for each architecture.
//!
//! The number after `#` is the encoding of a wait, as LLVM's assembler prints it.

use std::ops::Range;

use device::Arch::{self, Gfx90a, Gfx906, Gfx942, Gfx950, Gfx1030, Gfx1100, Gfx1151, Gfx1201};
use isa::{
    AddressSpace, WaveSync,
    inside::{
        checks::{
            CheckState, Checks,
            between::{MemoryRaceDetector, Race, RaceReason},
        },
        program::line::{self, bind, watch},
        text::{Site, register},
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

    fn is_watched(&self) -> bool {
        true
    }
}

const GROUPS: usize = 3;
const WAVES: usize = 2;

/// Runs lines such as `2.1: instruction` (wave 1 of workgroup 2) or `2: barrier`. Returns the races, each as its reason
/// and the numbers of the two lines.
///
/// `apart` is true if the waves of a workgroup may run on two compute units. s[0:1] contain the start of the memory, v0
/// the offset 64, v8 zero, and v9 a number that differs between waves. One lane is active.
fn run(arch: Arch, apart: bool, text: &str) -> Vec<(RaceReason, u64, u64)> {
    let mut words = vec![0u32; 256];
    let start = words.as_mut_ptr().expose_provenance() as u64;
    let memory = Memory(start..start + 1024);
    let sync = WaveSync::default();
    let mut machine = line::machine(&memory);
    machine.sync = Some(&sync);
    machine.give_lds(256, 1);
    let between = MemoryRaceDetector::new(arch, apart, GROUPS as u64, WAVES).map(Box::new);
    assert!(between.is_some(), "several workgroups are checked");
    Checks::from_state(&mut machine.watch).expect("the launch is checked").between = between;
    let mut groups: Vec<(CheckState, Vec<Wave>)> = (0..GROUPS)
        .map(|group| {
            let mut checks = Some(line::looks_on(true, false));
            Checks::swap(&mut machine.watch, &mut checks);
            let begun = Checks::from_state(&mut machine.watch).expect("the launch is checked");
            begun.begin(WAVES, group as u64);
            Checks::swap(&mut machine.watch, &mut checks);
            let waves = (0..WAVES).map(|index| {
                let mut wave = Wave::new(arch.wave_size() as usize);
                wave.index = index as u32;
                wave.set_pair(register::EXEC, 1);
                wave.set_pair(0, start);
                wave.set_lane(0, 0, 64);
                wave.set_lane(9, 0, (group * WAVES + index) as u32 + 1);
                wave
            });
            (checks, waves.collect())
        })
        .collect();
    let lines = text.split(';').map(str::trim).filter(|line| !line.is_empty());
    for (pc, line) in lines.enumerate() {
        let (who, line) = line.split_once(": ").expect("who");
        let (group, wave) = who.split_once('.').unwrap_or((who, "0"));
        let (checks, waves) = &mut groups[group.parse::<usize>().expect("a number")];
        Checks::swap(&mut machine.watch, checks);
        if line == "barrier" {
            let checks = Checks::from_state(&mut machine.watch).expect("the launch is checked");
            checks.barrier();
        } else {
            let wave = &mut waves[wave.parse::<usize>().expect("a number")];
            let (text, immediate) = line.split_once('#').unwrap_or((line, "0"));
            let immediate = u16::from_str_radix(immediate.trim(), 16).expect("an encoding");
            let lanes = wave.lanes;
            let site = Site { address: pc as u64, immediate, lanes, ..Site::for_arch(arch) };
            let exec = watch(bind(text.trim(), &site), text.trim(), &site);
            let Ok(exec) = exec else { panic!("{arch}: not bound: {line}") };
            exec.run(wave, &mut machine).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
        }
        Checks::swap(&mut machine.watch, checks);
    }
    let checks = Checks::from_state(&mut machine.watch).expect("the launch is checked");
    let races = checks.between.as_mut().expect("there are several waves").end();
    let [first, second] = [0, 1];
    let lines = |race: &Race| {
        let [one, other] = [&race.sides[first].origin.pc, &race.sides[second].origin.pc];
        (race.why, *one.min(other), *one.max(other))
    };
    races.iter().map(lines).collect()
}

#[track_caller]
fn check(archs: &[Arch], text: &str, expected: &[(RaceReason, u64, u64)]) {
    for arch in archs {
        assert_eq!(run(*arch, false, text), expected, "{arch}: {text}");
    }
}

const ALL: [Arch; 8] = [Gfx906, Gfx90a, Gfx942, Gfx950, Gfx1030, Gfx1100, Gfx1151, Gfx1201];
/// Architectures whose stores have no bits that show whether they are atomic.
const UNSAID: [Arch; 5] = [Gfx906, Gfx90a, Gfx1030, Gfx1100, Gfx1151];
const SAID: [Arch; 3] = [Gfx942, Gfx950, Gfx1201];

const WRITE: &str = "global_store_dword v0, v9, s[0:1]";
const READ: &str = "global_load_dword v1, v0, s[0:1]";

#[test]
fn unordered_plain_accesses_race() {
    let unordered = |one, other| (RaceReason::Unordered, one, other);
    check(&ALL, &format!("0: {WRITE}; 1: {WRITE}"), &[unordered(0, 1)]);
    check(&ALL, &format!("0: {WRITE}; 1: {READ}"), &[unordered(0, 1)]);
    check(&ALL, &format!("0: {READ}; 1: {WRITE}"), &[unordered(0, 1)]);
    check(&ALL, &format!("0: {READ}; 1: {READ}; 2: {READ}"), &[]);
    // A read by one workgroup does not hide a read by another: both reads race with the write, and both races are
    // reported.
    check(&ALL, &format!("0: {READ}; 1: {READ}; 1: {WRITE}"), &[unordered(0, 2)]);
    check(&ALL, &format!("0: {READ}; 0: {READ}; 2: {READ}; 0: {WRITE}"), &[unordered(2, 3)]);
    // Conflicts are detected for each byte.
    let byte = "global_store_byte v0, v9, s[0:1]";
    check(&ALL, &format!("0: {byte}; 1: {byte} offset:1; 2: {byte} offset:2"), &[]);
    check(&ALL, &format!("0: {WRITE}; 1: {byte} offset:3"), &[unordered(0, 1)]);
    check(
        &ALL,
        &format!("0: {byte} offset:3; 1: {READ}; 2: {byte}"),
        &[unordered(0, 1), unordered(1, 2)],
    );
    // A scalar load also needs synchronisation with writes of other workgroups.
    check(&ALL, &format!("0: {WRITE}; 1: s_load_dword s8, s[0:1], 0x40"), &[unordered(0, 1)]);
    // Memory contains zeros, so these writes do not change the value.
    let zero = "global_store_dword v0, v8, s[0:1]";
    check(&ALL, &format!("0: {zero}; 1: {zero}"), &[]);
    check(&ALL, &format!("0: {WRITE}; 1: {zero}"), &[unordered(0, 1)]);
}

#[test]
fn atomics_race_only_with_plain_accesses() {
    let add = "global_atomic_add v0, v9, s[0:1]";
    check(&ALL, &format!("0: {add}; 1: {add}; 2: {add}"), &[]);
    check(&ALL, &format!("0: {add}; 1: {READ}"), &[(RaceReason::Unordered, 0, 1)]);
    check(&ALL, &format!("0: {READ}; 1: {add}"), &[(RaceReason::Unordered, 0, 1)]);
    // A compare-and-swap loop starts with a plain read.
    let swap = "global_atomic_cmpswap v0, v[8:9], s[0:1]";
    check(&ALL, &format!("0: {READ}; 0: {swap}; 1: {READ}; 1: {swap}"), &[]);
    check(&SAID, &format!("0: {swap}; 1: {WRITE}"), &[(RaceReason::Unordered, 0, 1)]);
    // A store is treated as atomic if its bits do not show whether it is.
    check(&UNSAID, &format!("0: {add}; 1: {WRITE}"), &[]);
    check(&SAID, &format!("0: {add}; 1: {WRITE}"), &[(RaceReason::Unordered, 0, 1)]);
    check(&UNSAID, &format!("0: {add}; 1: {WRITE}; 2: {WRITE}"), &[]);
    for (arch, marks) in [(Gfx942, "sc1"), (Gfx1201, "scope:SCOPE_DEV")] {
        let stores = format!("0: {WRITE} {marks}; 1: {WRITE} {marks}; 2: {READ} {marks}; 0: {add}");
        check(&[arch], &stores, &[]);
        check(&[arch], &format!("0: {WRITE}; 1: {READ} {marks}"), &[(RaceReason::Unordered, 0, 1)]);
    }
    for (arch, marks) in [(Gfx90a, "glc"), (Gfx1030, "glc dlc"), (Gfx1151, "glc")] {
        check(&[arch], &format!("0: {WRITE}; 1: {WRITE}; 2: {READ} {marks}"), &[]);
        check(&[arch], &format!("0: {WRITE}; 2: {READ}"), &[(RaceReason::Unordered, 0, 1)]);
    }
}

/// A release and an acquire sequence of the LLVM guide: architectures, instructions of the release, bits of the flag's
/// store, bits of the flag's load, instructions of the acquire.
type Code =
    (&'static [Arch], &'static [&'static str], &'static str, &'static str, &'static [&'static str]);

const CODES: [Code; 6] = [
    (&[Gfx906, Gfx90a], &["s_waitcnt vmcnt(0) # 0f70"], "", "glc", &["buffer_wbinvl1_vol"]),
    (
        &[Gfx942],
        &["buffer_wbl2 sc1", "s_waitcnt vmcnt(0) # 0f70"],
        "sc1",
        "sc1",
        &["buffer_inv sc1"],
    ),
    (
        &[Gfx1030],
        &["s_waitcnt_vscnt null, 0x0 # 0"],
        "",
        "glc dlc",
        &["buffer_gl0_inv", "buffer_gl1_inv"],
    ),
    (
        &[Gfx1100, Gfx1151],
        &["s_waitcnt_vscnt null, 0x0 # 0"],
        "",
        "glc",
        &["buffer_gl1_inv", "buffer_gl0_inv"],
    ),
    (
        &[Gfx1201],
        &["s_wait_storecnt 0x0 # 0"],
        "scope:SCOPE_DEV",
        "scope:SCOPE_DEV",
        &["global_inv scope:SCOPE_DEV"],
    ),
    // On these architectures, stores write through the caches and loads bypass them, so the release needs only the
    // wait.
    (&[Gfx942, Gfx950], &["s_waitcnt vmcnt(0) # 0f70"], "sc1", "sc1", &["buffer_inv sc1"]),
];

/// Leaves out each instruction of the release and of the acquire in turn. A race must then be reported.
#[test]
fn release_needs_waits_and_acquire_needs_invalidation() {
    for (number, (archs, release, stores, loads, acquire)) in CODES.into_iter().enumerate() {
        let first = if number == 5 { format!("{WRITE} sc1") } else { WRITE.to_owned() };
        let program = |left_out: Option<usize>, flag: &str, look: &str| {
            let release = release.iter().map(|line| format!("0: {line}; "));
            let acquire = acquire.iter().map(|line| format!("1: {line}; "));
            let lines = release.chain([format!("0: {flag}; 1: {look}; ")]).chain(acquire);
            let kept = lines.enumerate().filter(|(at, _)| Some(*at) != left_out);
            let between: String = kept.map(|(_, line)| line).collect();
            let all = format!("0: {first}; {between}1: {READ}");
            let last = all.matches(';').count() as u64;
            (all, last)
        };
        let flag = format!("global_store_dword v0, v9, s[0:1] offset:512 {stores}");
        let look = format!("global_load_dword v2, v0, s[0:1] offset:512 {loads}");
        let add = "global_atomic_add v0, v9, s[0:1] offset:512".to_owned();
        let returns = if archs.contains(&Gfx942) {
            "sc0"
        } else if archs == [Gfx1201] {
            "th:TH_ATOMIC_RETURN"
        } else {
            "glc"
        };
        let fetch = format!("global_atomic_add v2, v0, v9, s[0:1] offset:512 {returns}");
        for (flag, look) in [(&flag, &look), (&add, &look), (&flag, &fetch), (&fetch, &fetch)] {
            check(archs, &program(None, flag, look).0, &[]);
            for left_out in 0..release.len() {
                let (text, last) = program(Some(left_out), flag, look);
                check(archs, &text, &[(RaceReason::NotArrived, 0, last)]);
            }
            for left_out in 0..acquire.len() {
                let (text, last) = program(Some(release.len() + 1 + left_out), flag, look);
                check(archs, &text, &[(RaceReason::Stale, 0, last)]);
            }
            let (text, last) = program(Some(release.len()), flag, look);
            check(archs, &text, &[(RaceReason::Unordered, 0, last)]);
        }
        // A read that bypasses the caches needs no invalidation, and neither does a write.
        for what in [format!("{READ} {loads}"), WRITE.to_owned()] {
            let release: String = release.iter().map(|line| format!("0: {line}; ")).collect();
            check(archs, &format!("0: {first}; {release}0: {flag}; 1: {look}; 1: {what}"), &[]);
        }
    }
}

#[test]
fn synchronisation_is_transitive() {
    let wait = "s_waitcnt vmcnt(0) # 0f70";
    let tell = |at: u32| format!("global_store_dword v0, v9, s[0:1] offset:{at}");
    let look = |at: u32| format!("global_load_dword v2, v0, s[0:1] offset:{at} glc");
    let drop = "buffer_wbinvl1_vol";
    let on = |archs: &[Arch], text: &str, expected: &[(RaceReason, u64, u64)]| {
        check(archs, text, expected)
    };
    let (flag, seen) = (tell(512), look(512));
    let (other_flag, other_seen) = (tell(516), look(516));
    // Synchronisation through a third workgroup also orders accesses.
    let chain = format!(
        "0: {WRITE}; 0: {wait}; 0: {flag}; 1: {seen}; 1: {other_flag}; 2: {other_seen}; 2: {drop}; 2: {READ}"
    );
    on(&[Gfx90a], &chain, &[]);
    // If several waves change a location with atomics, a wave that acquires there acquires from all of them.
    let add = "global_atomic_add v0, v9, s[0:1] offset:512";
    let both = format!(
        "0: {WRITE}; 1: {WRITE} offset:4; 0: {wait}; 1: {wait}; 0: {add}; 1: {add}; 2: {seen}; 2: {drop}; 2: {READ}; 2: {READ} offset:4"
    );
    on(&[Gfx90a], &both, &[]);
    // After a store to the location, waves acquire only from the wave that made the store.
    let anew =
        format!("0: {WRITE}; 0: {wait}; 0: {add}; 1: {flag}; 2: {seen}; 2: {drop}; 2: {READ}");
    on(&[Gfx90a], &anew, &[(RaceReason::Unordered, 0, 6)]);
    // At a barrier, the waves of a workgroup synchronise. A wave also acquires what the other waves acquired before the
    // barrier.
    let relay = format!("0: {wait}; 0: {flag}; 1: {seen}; 1: {drop}; 1: barrier; 1.1: {READ}");
    on(&[Gfx90a], &format!("0.1: {WRITE}; 0: barrier; {relay}"), &[]);
    on(&[Gfx90a], &format!("0.1: {WRITE}; {relay}"), &[(RaceReason::Unordered, 0, 6)]);
    let alone = relay.replace("1: barrier; ", "");
    on(&[Gfx90a], &format!("0.1: {WRITE}; 0: barrier; {alone}"), &[(RaceReason::Unordered, 0, 6)]);
    // Atomics on a location in the LDS synchronise like a barrier, if one of them returns the old value.
    let (add, take) = ("ds_add_u32 v0, v9", "ds_add_rtn_u32 v3, v0, v9");
    let local = |hears: &str| format!("0.1: {WRITE}; 0.1: {add}; 0: {hears}; {relay}");
    on(&[Gfx90a], &local(take), &[]);
    on(&[Gfx90a], &local(add), &[(RaceReason::Unordered, 0, 8)]);
    on(&[Gfx90a], &local(&format!("{take} offset:4")), &[(RaceReason::Unordered, 0, 8)]);
    // Waves also acquire the clocks that the other wave acquired from another workgroup.
    let relayed = format!(
        "0: {WRITE}; 0: {wait}; 0: {flag}; 1: {seen}; 1: {drop}; 1: {add}; 1.1: {take}; 1.1: {READ}"
    );
    on(&[Gfx90a], &relayed, &[]);
    on(&[Gfx90a], &relayed.replace("1: ds_add_u32 v0, v9; ", ""), &[(RaceReason::Unordered, 0, 6)]);
}

#[test]
fn waves_of_a_workgroup_need_synchronisation() {
    let unordered = |one, other| (RaceReason::Unordered, one, other);
    check(&ALL, &format!("0: {WRITE}; 0.1: {READ}"), &[unordered(0, 1)]);
    check(&ALL, &format!("0: {READ}; 0.1: {WRITE}"), &[unordered(0, 1)]);
    check(&ALL, &format!("0: {WRITE}; 0.1: {WRITE}; 0.1: {READ}"), &[unordered(0, 1)]);
    check(&ALL, &format!("0: {WRITE}; 0: {READ}; 0: {WRITE}"), &[]);
    check(&ALL, &format!("0: {WRITE}; 0: barrier; 0.1: {READ}; 0: barrier; 0: {WRITE}"), &[]);
    check(&ALL, &format!("0: barrier; 0: {WRITE}; 0.1: {READ}; 0: barrier"), &[unordered(1, 2)]);
    let (add, take) = ("ds_add_u32 v0, v9", "ds_add_rtn_u32 v3, v0, v9");
    check(&ALL, &format!("0.1: {WRITE}; 0.1: {add}; 0: {take}; 0: {READ}"), &[]);
    check(&ALL, &format!("0.1: {add}; 0.1: {WRITE}; 0: {take}; 0: {READ}"), &[unordered(1, 3)]);
    check(&ALL, &format!("0.1: {WRITE}; 0.1: {add}; 0: {READ}; 0: {take}"), &[unordered(0, 2)]);
    check(&ALL, &format!("0.1: {WRITE}; 0: {take}; 0.1: {add}; 0: {READ}"), &[unordered(0, 3)]);
    // These writes before and after a read do not change the value.
    let zero = "global_store_dword v0, v8, s[0:1]";
    check(&ALL, &format!("0: {READ}; 0.1: {zero}; 0: {zero}"), &[]);
    check(&ALL, &format!("0: {zero}; 0.1: {zero}; 0: {READ}; 0.1: {READ}"), &[]);
    check(
        &ALL,
        &format!("0: {zero}; 0.1: {zero}; 0: {WRITE}; 0.1: {READ}"),
        &[unordered(1, 2), unordered(2, 3)],
    );
    // Two equal writes of one workgroup do not race with each other, but they race with the read of another workgroup.
    check(&ALL, &format!("0: {zero}; 0.1: {zero}; 1: {READ}"), &[unordered(1, 2)]);
    check(&ALL, &format!("0: {READ}; 1: {zero}"), &[]);
    // With the bits of an atomic, accesses to a flag synchronise within a workgroup, without waits and invalidation.
    for (arch, stores, loads) in [
        (Gfx90a, "", "glc"),
        (Gfx942, "sc0", "sc0"),
        (Gfx950, "sc0", "sc0"),
        (Gfx1151, "", "glc"),
        (Gfx1201, "scope:SCOPE_SE", "scope:SCOPE_SE"),
    ] {
        let flag = format!("0: {WRITE} offset:512 {stores}; 0.1: {READ} offset:512 {loads}");
        check(&[arch], &format!("0: {WRITE}; {flag}; 0.1: {READ}"), &[]);
        check(&[arch], &format!("{flag}; 0: {WRITE}; 0.1: {READ}"), &[unordered(2, 3)]);
    }
    // Accesses with the bits for workgroup scope do not synchronise with another workgroup.
    for (arch, stores, loads) in [
        (Gfx942, "sc0", "sc0"),
        (Gfx1030, "", "glc"),
        (Gfx1201, "scope:SCOPE_SE", "scope:SCOPE_SE"),
    ] {
        let flag = format!("0: {WRITE} {stores}; 1: {READ} {loads}");
        check(&[arch], &flag, &[unordered(0, 1)]);
        check(&[arch], &flag.replace("1: ", "0.1: "), &[]);
    }
    let add = "global_atomic_add v0, v9, s[0:1]";
    check(&ALL, &format!("0: {add}; 0.1: {add}"), &[]);
    check(&ALL, &format!("0: {add}; 0.1: {READ}"), &[unordered(0, 1)]);
}

#[test]
fn wgp_mode_needs_waits_and_invalidation() {
    for (arch, wait, drops, marks) in [
        (Gfx1030, "s_waitcnt_vscnt null, 0x0 # 0", "buffer_gl0_inv", "glc"),
        (Gfx1151, "s_waitcnt_vscnt null, 0x0 # 0", "buffer_gl0_inv", "glc"),
        (Gfx1201, "s_wait_storecnt 0x0 # 0", "global_inv scope:SCOPE_SE", "scope:SCOPE_SE"),
    ] {
        let program =
            |parts: &[&str]| parts.iter().map(|part| format!("{part}; ")).collect::<String>();
        let (write, read) = (format!("0: {WRITE}"), format!("0.1: {READ}"));
        let (wait, drops) = (format!("0: {wait}"), format!("0.1: {drops}"));
        let check_sequence = |parts: &[&str], expected: &[(RaceReason, u64, u64)]| {
            let text = program(parts);
            assert_eq!(run(arch, true, &text), expected, "{arch}: {text}");
        };
        let barrier = "0: barrier";
        check_sequence(&[&write, &wait, barrier, &drops, &read], &[]);
        check_sequence(&[&write, barrier, &drops, &read], &[(RaceReason::NotArrived, 0, 3)]);
        check_sequence(&[&write, &wait, barrier, &read], &[(RaceReason::Stale, 0, 3)]);
        check_sequence(&[&write, &wait, &drops, barrier, &read], &[(RaceReason::Stale, 0, 4)]);
        check_sequence(&[&write, barrier, &wait, barrier, &drops, &read], &[]);
        // A barrier after a read needs no wait, and a write after the barrier needs no invalidation.
        check_sequence(&[&read, barrier, &write], &[]);
        let other = format!("0.1: {WRITE}");
        check_sequence(&[&write, &wait, barrier, &other], &[]);
        check_sequence(&[&write, barrier, &other], &[(RaceReason::NotArrived, 0, 2)]);
        // This read bypasses the cache, so it needs no invalidation.
        let past = format!("{read} {marks}");
        check_sequence(&[&write, &wait, barrier, &past], &[]);
        // The waves synchronise by a flag in memory.
        let (flag, seen) = (
            format!("0: {WRITE} offset:512 {}", if arch == Gfx1201 { marks } else { "" }),
            format!("0.1: {READ} offset:512 {marks}"),
        );
        check_sequence(&[&write, &wait, &flag, &seen, &drops, &read], &[]);
        check_sequence(&[&write, &flag, &seen, &drops, &read], &[(RaceReason::NotArrived, 0, 4)]);
        check_sequence(&[&write, &wait, &flag, &seen, &read], &[(RaceReason::Stale, 0, 4)]);
        // The waves synchronise by an atomic on the LDS.
        let (add, take) = ("0: ds_add_u32 v0, v9", "0.1: ds_add_rtn_u32 v3, v0, v9");
        check_sequence(&[&write, &wait, add, take, &drops, &read], &[]);
        check_sequence(&[&write, add, take, &drops, &read], &[(RaceReason::NotArrived, 0, 4)]);
        check_sequence(&[&write, &wait, add, take, &read], &[(RaceReason::Stale, 0, 4)]);
        // If the waves run on a single compute unit, neither waits nor invalidations are required.
        check(&[arch], &program(&[&write, barrier, &read]), &[]);
        check(&[arch], &program(&[&write, &flag, &seen, &read]), &[]);
    }
}

/// Tests the code of `__ockl_grid_sync`: a release, the global-wave-sync barrier, the wait for the barrier, and an
/// acquire.
#[test]
fn global_wave_sync_orders_waiting_waves() {
    for (archs, stored, waited, drops) in [
        (
            &[Gfx906, Gfx90a][..],
            "s_waitcnt vmcnt(0) # 0f70",
            "s_waitcnt lgkmcnt(0) # c07f",
            &["buffer_wbinvl1_vol"][..],
        ),
        (
            &[Gfx1030],
            "s_waitcnt_vscnt null, 0x0 # 0",
            "s_waitcnt lgkmcnt(0) # c07f",
            &["buffer_gl0_inv", "buffer_gl1_inv"],
        ),
        (
            &[Gfx1100],
            "s_waitcnt_vscnt null, 0x0 # 0",
            "s_waitcnt lgkmcnt(0) # fc07",
            &["buffer_gl1_inv", "buffer_gl0_inv"],
        ),
    ] {
        let lines = |who: &str, lines: &[&str]| {
            lines.iter().map(|line| format!("{who}: {line}; ")).collect::<String>()
        };
        // v9 of the first wave is 1, so the barrier waits for two waves.
        let init = lines("0", &["ds_gws_init v9 gds"]);
        let barrier = "ds_gws_barrier v8 gds";
        let write = lines("0", &[WRITE]);
        let release = lines("0", &[stored]);
        let both = lines("0", &[barrier]) + &lines("1", &[barrier]);
        let (wait, acquire, read) = (lines("1", &[waited]), lines("1", drops), lines("1", &[READ]));
        let all = [&init, &write, &release, &both, &wait, &acquire, &read];
        check(archs, &all.map(String::as_str).concat(), &[]);
        let last = 6 + drops.len() as u64;
        let without = |parts: &[&String], why, at: u64| {
            let text: String = parts.iter().map(|part| part.as_str()).collect();
            check(archs, &text, &[(why, 1, at)]);
        };
        without(&[&init, &write, &both, &wait, &acquire, &read], RaceReason::NotArrived, last - 1);
        without(
            &[&init, &write, &release, &both, &acquire, &read],
            RaceReason::Unordered,
            last - 1,
        );
        without(&[&init, &write, &release, &both, &wait, &read], RaceReason::Stale, 6);
        // The barrier does not order writes that follow it.
        let late = [&init, &release, &both, &write, &wait, &acquire, &read];
        check(archs, &late.map(String::as_str).concat(), &[(RaceReason::Unordered, 4, last)]);
    }
}

#[test]
fn semaphore_orders_release_before_acquire() {
    let (stored, waited) = ("s_waitcnt vmcnt(0) # 0f70", "s_waitcnt lgkmcnt(0) # c07f");
    let given = format!("0: {WRITE}; 0: {stored}; 0: ds_gws_sema_v gds; 1: ds_gws_sema_p gds");
    let taken = format!("1: {waited}; 1: buffer_wbinvl1_vol; 1: {READ}");
    check(&[Gfx90a], &format!("{given}; {taken}"), &[]);
    check(&[Gfx90a], &format!("{given}; 2: {READ}"), &[(RaceReason::Unordered, 0, 4)]);
}
