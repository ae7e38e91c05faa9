//! Tests how the waves of a workgroup take turns, and the search for the instruction at which a wave waits.

use std::collections::HashSet;

use isa::{
    At, TurnLength,
    inside::{
        checks::Checks,
        program::{Detours, line},
        text::register::EXEC,
        wave::{State, Wave},
        workgroup::{Clock, Group},
    },
};

#[test]
fn turns_are_short_or_seeded() {
    let lengths = |turns, workgroup| {
        let mut clock = Clock::new(turns, workgroup);
        (0..64).map(|_| clock.next_turn()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(TurnLength::default(), 3), [16; 64]);
    assert_eq!(lengths(TurnLength::Fixed(0), 3), [1; 64]);
    let seeded = lengths(TurnLength::Seeded(7), 3);
    assert_eq!(seeded, lengths(TurnLength::Seeded(7), 3));
    assert_ne!(seeded, lengths(TurnLength::Seeded(8), 3));
    assert_ne!(seeded, lengths(TurnLength::Seeded(7), 4));
    assert!(seeded.iter().any(|turn| *turn < 8) && seeded.iter().any(|turn| *turn > 256));
}
struct Watched(std::ops::Range<u64>);
// SAFETY: the test creates a `Watched` from a buffer that outlives the machine. Nothing else accesses the buffer until
// then.
unsafe impl isa::AddressSpace for Watched {
    fn range(&self, address: u64) -> Option<std::ops::Range<u64>> {
        self.0.contains(&address).then(|| self.0.clone())
    }
    fn is_watched(&self) -> bool {
        true
    }
}

/// The search executes steps of the kernel, including erroneous ones. This kernel computes v2 from v1 before the loaded
/// value has arrived in v1. The search must not leave a finding, because it would be attributed to the next
/// instruction.
#[test]
fn locating_a_wait_leaves_no_findings() {
    let mut words = [0u32; 64];
    let start = words.as_mut_ptr().expose_provenance() as u64;
    let space = Watched(start..start + 256);
    let arch = device::Arch::Gfx90a;
    let lines = [
        ("global_load_dword v1, v0, s[0:1]", 0),
        ("v_mov_b32_e32 v2, v1", 0),
        ("s_branch 65531", -5i16 as u16),
    ];
    let mut wave = Wave::new(64);
    wave.set_pair(EXEC, 1 << 5);
    wave.set_pair(0, start);
    wave.set_lane(0, 5, 20);
    wave.state = State::Resting;
    let mut machine = line::machine(&space);
    Checks::from_state(&mut machine.watch).expect("the launch is checked").begin(1, 0);
    let mut group = Group {
        code: line::code(arch, &space, &lines),
        detours: Detours::default(),
        machine,
        waves: vec![wave],
        number: 0,
        entry: 0,
        limit: u64::MAX,
        clock: Clock::new(TurnLength::default(), 0),
        reported: HashSet::new(),
    };
    let load = At { text: lines[0].0.to_owned(), offset: 0 };
    assert_eq!(group.waits_at(0), (load, Some(start + 20)));
    assert!(Checks::is_content(&mut group.machine));
    // The error is reported when the kernel itself executes the instruction.
    let has_finding = group.turn::<false>(0, 2).is_ok() && !Checks::is_content(&mut group.machine);
    assert!(has_finding, "the kernel is checked");
}
