//! Checks the findings of the sanitizer in compiled kernels whose workgroups access the same memory, or whose waves
//! access the same LDS. If the accesses are synchronised, there must be no finding. Otherwise, the finding must
//! describe the missing synchronisation.

use std::collections::BTreeSet;

use device::{Arch, ScopeBits};
use isa::Finding;

use crate::{
    checks,
    code_object::CodeObject,
    device_memory::{CheckMode, Device, mapped},
    hiprtc,
};

/// Findings that the sanitizer must report for a kernel.
#[derive(Clone, Copy)]
enum Said {
    Nothing,
    /// Workgroups race. Each finding must give one of these reasons.
    Races(&'static [&'static str]),
    /// Waves of a workgroup race in the LDS, or in memory without any synchronisation.
    Waves,
    /// A wave does not wait for its loads from memory to the LDS. The sanitizer must report this only on architectures
    /// with such loads.
    Moves,
    /// Workgroups race, because they synchronise only with workgroup scope. The sanitizer must report this only on
    /// architectures whose instructions encode the scope.
    Within,
}
use Said::{Moves, Nothing, Races, Waves, Within};

const UNORDERED: &str = "nothing orders them";
const NOT_COME: &str = "a wave signals the other before its earlier write has reached memory";
const STALE: &str = "a signalled wave has not invalidated its caches";

const KERNELS: &[(&str, Said)] = &[
    ("writes_own", Nothing),
    ("writes_one", Races(&[UNORDERED])),
    ("writes_flag", Nothing),
    ("writes_bytes", Nothing),
    ("reads_own", Nothing),
    ("reads_next", Races(&[UNORDERED])),
    ("counts", Nothing),
    ("counts_plainly", Races(&[UNORDERED])),
    ("counts_by_swapping", Nothing),
    ("reads_the_count", Races(&[UNORDERED])),
    ("signals", Nothing),
    ("signals_by_release", Nothing),
    ("signals_by_atomics", Nothing),
    ("signals_volatile", Nothing),
    ("signals_past_caches", Nothing),
    ("signals_without_release", Races(&[NOT_COME])),
    ("signals_atomics_without_release", Races(&[NOT_COME])),
    // The compiler may move the read before the read of the flag.
    ("signals_without_acquire", Races(&[STALE, UNORDERED])),
    ("shows", Nothing),
    ("shows_within", Within),
    ("signals_plainly", Races(&[UNORDERED])),
    ("comes_last", Nothing),
    ("comes_last_alone", Races(&[UNORDERED])),
    ("comes_last_unfenced", Races(&[NOT_COME, UNORDERED])),
    ("comes_last_stale", Races(&[STALE])),
    ("meets_all", Nothing),
    ("meets_nobody", Races(&[UNORDERED])),
    ("meets_without_waiting", Races(&[UNORDERED])),
    ("meets_waves_alone", Races(&[UNORDERED])),
    ("locks_it", Nothing),
    ("locks_by_store", Nothing),
    ("locks_nothing", Races(&[UNORDERED])),
    ("locks_unfenced", Races(&[NOT_COME, STALE])),
    ("group_swap", Nothing),
    ("group_swap_at_once", Waves),
    ("group_write_one", Waves),
    ("group_write_over", Waves),
    ("group_flag", Nothing),
    ("group_flag_volatile", Nothing),
    ("group_flag_count", Nothing),
    ("group_flag_nothing", Waves),
    ("waves_flag_for_memory", Nothing),
    ("waves_take_turns", Nothing),
    ("waves_raise_a_flag", Nothing),
    ("waves_lock", Nothing),
    ("waves_lock_by_store", Nothing),
    ("waves_count", Nothing),
    ("waves_count_in_vain", Waves),
    ("waves_look_first", Nothing),
    ("waves_sum_up", Nothing),
    ("waves_sum_up_early", Waves),
    ("waves_sum_up_late", Waves),
    ("waves_begin_early", Waves),
    ("waves_wait_asleep", Nothing),
    ("waves_sleep_alone", Waves),
    ("waves_look_and_wait", Nothing),
    ("waves_relay", Nothing),
    ("waves_meet_and_tell", Nothing),
    ("waves_ticket", Nothing),
    ("waves_exchange", Nothing),
    ("waves_try", Nothing),
    ("waves_try_in_vain", Waves),
    ("waves_try_in_turns", Nothing),
    ("waves_turn_in_vain", Waves),
    ("waves_lock_twice", Nothing),
    ("waves_lock_once", Waves),
    ("waves_lock_memory", Nothing),
    ("waves_unlock_early", Waves),
    ("waves_wait_for_each", Nothing),
    ("waves_wait_for_one", Waves),
    ("waves_ring", Nothing),
    ("waves_count_in_memory", Nothing),
    ("waves_count_apart", Waves),
    ("group_counts_in_lds", Nothing),
    ("group_counts_apart", Waves),
    ("waves_hand_on", Nothing),
    ("waves_hear_late", Nothing),
    ("group_passes_on", Nothing),
    ("group_counts_twice", Nothing),
    ("group_loads_to_lds", Nothing),
    ("group_loads_ahead_to_lds", Nothing),
    ("group_loads_to_lds_early", Moves),
    ("wave_loads_to_lds", Nothing),
    ("wave_loads_to_lds_early", Moves),
];

const GROUPS: u32 = 8;
const ITEMS: u32 = 128;

/// Tests all kernels on an architecture. Returns the number of kernels, and a description of each finding that is wrong
/// or missing.
pub(crate) fn check(arch: Arch, level: &str) -> (usize, Vec<String>) {
    let mut wrong = Vec::new();
    let compile = |source| hiprtc::compile(source, arch.name(), &[level]);
    let (races, others) =
        (compile(include_str!("races.hip")), compile(include_str!("kernels.hip")));
    let (races, others) = match (races, others) {
        (Ok(races), Ok(others)) => (races, others),
        (Err(error), _) | (_, Err(error)) => {
            return (
                0,
                vec![format!("{arch} {level}: hipRTC does not compile the kernels: {error}")],
            );
        }
    };
    let device = Device::new(arch, CodeObject::load(&races));
    device.look.set(CheckMode::Watched);
    for (kernel, said) in KERNELS {
        let (says, writes_back) = match arch.facts().scope_bits {
            // On RDNA 3, workgroup scope and device scope have the same encoding.
            ScopeBits::Glc => (!arch.facts().has_two_caches, false),
            ScopeBits::GlcDlc | ScopeBits::Scope => (true, false),
            ScopeBits::Sc => (true, true),
        };
        let said = match said {
            Within if says => Races(&[UNORDERED]),
            Within => Nothing,
            Moves if !writes_back => Nothing,
            _ => *said,
        };
        let name = format!("{arch} {level} {kernel}");
        let [first, turned] = [0, 1].map(|turned| found(&device, kernel, turned));
        for found in [&first, &turned] {
            wrong.extend(differs(found, said).map(|reason| format!("{name}: {reason}")));
        }
        if pairs(&first) != pairs(&turned) {
            wrong.push(format!(
                "{name}: the findings depend on which workgroup runs first: {first:?}, {turned:?}"
            ));
        }
    }
    let device = Device::new(arch, CodeObject::load(&others));
    let image = device.code.image();
    for (kernel, check) in checks::CHECKS {
        // These kernels have intentional errors or execute millions of instructions.
        if ["saxpy fault", "gives_up", "spin", "meets alone", "lcg", "dynamic"].contains(kernel) {
            continue;
        }
        device.look.set(CheckMode::Watched);
        let result = check(&device);
        device.look.set(CheckMode::Plain);
        device.code.restore(&image);
        let found = device.findings.take();
        let all = result.err().into_iter().chain(found.iter().map(ToString::to_string));
        wrong.extend(all.map(|reason| format!("{arch} {level} {kernel}: {reason}")));
    }
    (KERNELS.len() + checks::CHECKS.len(), wrong)
}

/// Returns the names of the kernels in which the sanitizer must find nothing.
pub(crate) fn right() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().filter(|(_, said)| matches!(said, Nothing)).map(|(kernel, _)| *kernel)
}

pub(crate) fn run(device: &Device, kernel: &str, turned: u32) -> Result<(), String> {
    let mut o = vec![0u32; 4096];
    let ranges = [mapped(&o)];
    device
        .launch(
            kernel,
            [GROUPS, 1, 1],
            [ITEMS, 1, 1],
            0,
            &[(&mut o).into(), turned.into()],
            &ranges,
        )
        .map_err(|trap| trap.to_string())
}

fn found(device: &Device, kernel: &str, turned: u32) -> Result<Vec<Finding>, String> {
    run(device, kernel, turned)?;
    Ok(device.findings.take())
}

/// Compares the actual findings with the expected ones. Returns a description of the difference; `None` if they agree.
fn differs(found: &Result<Vec<Finding>, String>, said: Said) -> Option<String> {
    let found = match found {
        Ok(found) => found,
        Err(reason) => return Some(reason.clone()),
    };
    let is_right = |finding: &Finding| match (finding, said) {
        (Finding::MemoryRace { why, .. }, Races(reasons)) => reasons.contains(why),
        (Finding::LdsRace { .. }, Waves) => true,
        (Finding::LdsEarly { write, .. }, Moves) => {
            write.instruction.text.starts_with("global_load_lds_")
        }
        (Finding::MemoryRace { why, first, second, .. }, Waves) => {
            *why == UNORDERED && first.workgroup == second.workgroup && first.wave != second.wave
        }
        _ => false,
    };
    match found.iter().find(|finding| !is_right(finding)) {
        Some(other) => Some(format!("unexpected finding: {other}")),
        None if !matches!(said, Nothing) && found.is_empty() => {
            Some("the sanitizer did not report the race in this kernel".to_owned())
        }
        None => None,
    }
}

/// Returns descriptions of the errors that the sanitizer found, which contain the offsets of the instructions.
fn pairs(found: &Result<Vec<Finding>, String>) -> BTreeSet<String> {
    found.iter().flatten().map(Finding::mistake).collect()
}
