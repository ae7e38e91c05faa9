//! What the sanitizer says of instructions, wave by wave.

use std::ops::Range;

use device::Arch::Gfx1151;

use crate::{
    AddressSpace,
    checks::races,
    program::{bind, watch},
    text::register::EXEC,
    wave::{Machine, Stop, Wave},
};

struct Watched;

impl AddressSpace for Watched {
    fn range(&self, _: u64) -> Option<Range<u64>> {
        None
    }

    fn is_watched(&self) -> bool {
        true
    }
}

/// Runs one instruction of a launch that is watched.
fn run(wave: &mut Wave, machine: &mut Machine<'_>, pc: u64, line: &str) -> Result<(), Box<Stop>> {
    let exec = watch(bind(line, Gfx1151, pc, 8, 0), line, Gfx1151, pc, 8);
    let Ok(exec) = exec else { panic!("not bound: {line}") };
    exec.run(wave, machine)
}

/// Instructions of two waves in the order in which they run, as `wave: instruction` or `barrier`: the race that is found.
/// v0 holds 4 times the number of the work-item, v1 the same moved on by a wave, and v2 the number of the wave plus one.
#[track_caller]
fn race(lines: &str, expected: Option<&str>) {
    let mut machine = Machine::new(&Watched);
    machine.lds = vec![0; 512];
    let checks = machine.checks.as_mut().expect("the launch is watched");
    checks.waves = 2;
    checks.races.barrier();
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
    let mut found = None;
    for (pc, line) in lines.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let Some((wave, text)) = line.split_once(": ") else {
            machine.checks.as_mut().expect("it is still watched").races.barrier();
            continue;
        };
        let wave = &mut waves[wave.parse::<usize>().expect("a number")];
        match run(wave, &mut machine, pc as u64, text).map_err(|stop| *stop) {
            Ok(()) => {}
            Err(Stop::LdsRace { offset, first, second }) => {
                let side = |a: races::Access| format!("{} `{}`", a.kind.word(), a.text);
                found = Some(format!("{offset}: {}, {}", side(first), side(second)));
                break;
            }
            Err(stop) => panic!("{line}: {stop:?}"),
        }
    }
    assert_eq!(found.as_deref(), expected, "{lines}");
}

#[test]
fn waves_meet_at_a_barrier_before_they_exchange_data() {
    race("0: ds_store_b32 v0, v2\n 1: ds_store_b32 v0, v2\n barrier\n 0: ds_load_b32 v3, v1", None);
    race(
        "0: ds_store_b32 v0, v2\n 1: ds_load_b32 v3, v1",
        Some("0: write `ds_store_b32 v0, v2`, read `ds_load_b32 v3, v1`"),
    );
    race(
        "0: ds_load_2addr_b32 v[4:5], v0 offset1:32\n 1: ds_store_b8 v0, v2",
        Some("128: read `ds_load_2addr_b32 v[4:5], v0 offset1:32`, write `ds_store_b8 v0, v2`"),
    );
    race("0: ds_add_u32 v0, v2\n 1: ds_add_u32 v1, v2", None);
    race(
        "0: ds_add_u32 v0, v2\n 1: ds_store_b16 v1, v2",
        Some("0: atomic `ds_add_u32 v0, v2`, write `ds_store_b16 v1, v2`"),
    );
}
