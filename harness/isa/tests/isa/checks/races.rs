//! Tests race detection in the LDS with single accesses.

use std::sync::Arc;

use isa::{
    AccessKind::{self as Kind, *},
    inside::checks::{
        CheckError,
        polls::ReadUse,
        races::{
            AccessPosition, Clock, ClockEntry, CompletedCounts, CurrentAccess, Races,
            bytes::{Byte, Touch, WaveView},
        },
    },
};
use proptest::strategy::Strategy;

/// An action of a wave on one byte. The code address of its instruction is the index of the action in its list.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A wave accesses the byte. The flag is true if the access changes the content.
    Does(u32, Kind, bool),
    /// A wave executes an atomic that returns the old value.
    Takes(u32),
    /// A wave executes a swapping atomic that returns the old value.
    Swaps(u32),
    /// A wave writes directly after a wait for all its LDS accesses.
    Tells(u32),
    /// The first of these waves acquires from the second one through memory.
    Learns(usize, usize),
    Barrier,
}
use Act::{Barrier, Does, Learns, Swaps, Takes, Tells};

/// Returns the races in a list of offsets and actions, as pairs of indices in the list. `look` returns the analysis of
/// the instruction at an index.
fn races(list: &[(u64, Act)], look: impl Fn(u64) -> ReadUse) -> Vec<(u64, u64)> {
    races_at(list, |index| index as u64, look)
}

fn races_at(
    list: &[(u64, Act)],
    place: impl Fn(usize) -> u64,
    look: impl Fn(u64) -> ReadUse,
) -> Vec<(u64, u64)> {
    let (mut races, mut found) = (Races::default(), Vec::new());
    races.begin(3);
    for (index, (offset, act)) in list.iter().enumerate() {
        let (wave, kind, changed, returns) = match *act {
            Does(wave, kind, changed) => (wave, kind, changed, false),
            Takes(wave) | Swaps(wave) => (wave, Atomic, true, true),
            Tells(wave) => (wave, Store, true, false),
            Learns(wave, of) => {
                races.record_acquire(wave, of);
                continue;
            }
            Barrier => {
                races
                    .barrier([CompletedCounts { local: u32::MAX, moved: u32::MAX }; 3].into_iter());
                continue;
            }
        };
        let bytes = (&[0][..], &[u8::from(changed)][..]);
        let (swaps, may_release) = (matches!(act, Swaps(_)), matches!(act, Tells(_)));
        let (number, come) = (AccessPosition::default(), CompletedCounts::default());
        let by = CurrentAccess {
            kind,
            wave,
            pc: place(index),
            number,
            come,
            returns,
            swaps,
            may_release,
        };
        races.runs(by.pc, &Arc::from(""), 0);
        races.touch(&by, *offset, bytes, &mut |pc| look(pc), &mut found);
    }
    found.extend(Races::end(vec![&mut races]));
    let pair = |found: &CheckError| match found {
        CheckError::LdsRace { first, second, .. } => (first.pc, second.pc),
        other => panic!("{other:?}"),
    };
    found.iter().map(pair).collect()
}

#[track_caller]
fn check(list: &[Act], expected: &[(u64, u64)]) {
    let list: Vec<_> = list.iter().map(|act| (7, *act)).collect();
    assert_eq!(races(&list, |_| ReadUse::default()), expected, "{list:?}");
}

fn write(wave: u32) -> Act {
    Does(wave, Store, true)
}

fn read(wave: u32) -> Act {
    Does(wave, Load, false)
}

fn atomic(wave: u32) -> Act {
    Does(wave, Atomic, true)
}

#[test]
fn write_and_access_of_another_wave_need_a_barrier() {
    let same = |wave| Does(wave, Store, false);
    check(&[write(0), read(1)], &[(0, 1)]);
    check(&[write(0), Barrier, read(1)], &[]);
    check(&[read(1), write(0)], &[(0, 1)]);
    check(&[read(1), Barrier, write(0)], &[]);
    check(&[write(0), read(0), write(0)], &[]);
    check(&[write(0), write(1)], &[(0, 1)]);
    check(&[read(0), read(1), read(0)], &[]);
    // A read by the writing wave does not hide a read by another wave.
    check(&[read(0), read(1), write(0)], &[(1, 2)]);
    check(&[read(2), read(2), read(1), Barrier, read(1), write(1)], &[]);
    check(&[write(0), atomic(1)], &[(0, 1)]);
    check(&[atomic(1), write(0)], &[(0, 1)]);
    // All waves write the same value to a flag.
    check(&[write(0), same(1), same(2), read(2)], &[]);
    check(&[write(0), same(1), write(2)], &[(1, 2)]);
    check(&[read(0), same(1)], &[(0, 1)]);
}

#[test]
fn atomic_and_plain_read_need_a_barrier() {
    check(&[atomic(0), atomic(1), read(2)], &[(1, 2), (0, 2)]);
    check(&[atomic(0), atomic(1), Barrier, read(2)], &[]);
    check(&[read(2), atomic(1)], &[(0, 1)]);
    check(&[read(2), Barrier, atomic(1)], &[]);
    check(&[atomic(0), read(0)], &[]);
    // The read comes after the atomic of its wave, so it cannot decide about that atomic.
    check(&[atomic(0), atomic(1), read(0)], &[(1, 2)]);
}

#[test]
fn spin_and_guard_reads_do_not_race() {
    let waits = |list: &[Act], places: &[u64]| {
        let list: Vec<_> = list.iter().map(|act| (7, *act)).collect();
        races(&list, |pc| ReadUse { waits: places.contains(&pc), decides: true, turns: false })
    };
    // `places` contains the code address of each action. The instruction at address 1 waits in a spin loop.
    let again = |list: &[Act], places: &[u64]| {
        let list: Vec<_> = list.iter().map(|act| (7, *act)).collect();
        races_at(
            &list,
            |index| places[index],
            |pc| ReadUse { waits: pc == 1, decides: true, turns: false },
        )
    };
    assert_eq!(waits(&[atomic(0), read(1)], &[1]), []);
    assert_eq!(waits(&[read(1), atomic(0)], &[0]), []);
    assert_eq!(waits(&[read(1), write(0), read(1)], &[0, 2]), []);
    assert_eq!(waits(&[write(0), read(1)], &[1]), []);
    // The atomic ended the loop. In the second case, both reads are the same instruction, so the loop continued after
    // the first write.
    assert_eq!(waits(&[write(0), read(1), atomic(0), read(1)], &[1, 3]), []);
    assert_eq!(again(&[write(0), read(1), atomic(0), read(1)], &[0, 1, 2, 1]), [(0, 1)]);
    // This write did not end a spin loop.
    assert_eq!(waits(&[read(1), write(0)], &[0]), [(0, 1)]);
    // The read of a wave that does not wait in a spin loop races with the atomic.
    assert_eq!(waits(&[atomic(0), read(1), atomic(0), read(2)], &[1]), [(2, 3)]);
    // The lock is taken with an atomic and released with a store.
    assert_eq!(waits(&[Takes(0), write(0), Takes(1), write(1)], &[0, 2]), []);
    assert_eq!(waits(&[Takes(0), write(0), Takes(1), write(1)], &[]), [(1, 2), (1, 3)]);
    // A read may precede an atomic of its wave on the same location, whatever the order of the waves is. If there is a
    // barrier between the two, the read is an ordinary read.
    assert_eq!(waits(&[read(0), read(1), Takes(1), Takes(0)], &[]), []);
    assert_eq!(waits(&[Takes(2), read(1), Takes(1)], &[]), []);
    assert_eq!(waits(&[Takes(2), read(1), Barrier, Takes(1)], &[]), [(0, 1)]);
}

/// Offsets 0 and 1 contain data. Atomics access the offsets 8 and 12.
#[test]
fn atomics_and_spin_loops_order_waves() {
    let plain = |list: &[(u64, Act)]| races(list, |_| ReadUse::default());
    // The wave whose atomic is the last one acquires from all others.
    let last = |takes| [(0, write(0)), (8, takes), (8, Takes(1)), (0, read(1))];
    assert_eq!(plain(&last(atomic(0))), []);
    assert_eq!(plain(&[(0, write(0)), (8, atomic(0)), (8, atomic(1)), (0, read(1))]), [(0, 3)]);
    assert_eq!(plain(&[(0, write(0)), (8, atomic(0)), (12, Takes(1)), (0, read(1))]), [(0, 3)]);
    // A release does not order accesses that follow it.
    assert_eq!(plain(&[(8, atomic(0)), (0, write(0)), (8, Takes(1)), (0, read(1))]), [(1, 3)]);
    // Waves may synchronise through a third wave.
    let chain = [(0, write(0)), (8, atomic(0)), (8, Takes(2)), (12, atomic(2)), (12, Takes(1))];
    assert_eq!(plain(&[&chain[..], &[(0, read(1))]].concat()), []);
    // A wave waits for a flag in a spin loop.
    for flag in [atomic(0), write(0)] {
        let list =
            [(0, write(0)), (8, flag), (8, read(1)), (0, read(1)), (1, read(1)), (1, write(0))];
        assert_eq!(
            races(&list, |pc| ReadUse { waits: pc == 2, decides: true, turns: false }),
            [(4, 5)]
        );
    }
}

/// Computes the races with a graph. An access is ordered before another one if there is a path of edges from the first
/// to the second whose last edge does not connect two atomics.
fn races_by_paths(list: &[(u64, Act)]) -> Vec<(u64, u64)> {
    let parts = |act: Act| match act {
        Does(wave, kind, _) => Some((wave, kind, false)),
        Takes(wave) | Swaps(wave) => Some((wave, Atomic, true)),
        Tells(wave) => Some((wave, Store, false)),
        // The generator of the test does not create these actions.
        Learns(..) | Barrier => None,
    };
    let is_of_the_wave = |from: usize, to: usize| match (parts(list[from].1), parts(list[to].1)) {
        (Some((one, ..)), Some((other, ..))) => one == other,
        _ => true,
    };
    let is_edge = |from: usize, to: usize| match (parts(list[from].1), parts(list[to].1)) {
        (Some((_, Atomic, _)), Some((_, Atomic, true))) if list[from].0 / 4 == list[to].0 / 4 => {
            true
        }
        _ => is_of_the_wave(from, to),
    };
    let mut before = vec![vec![false; list.len()]; list.len()];
    for to in 0..list.len() {
        for from in (0..to).rev() {
            before[from][to] = is_edge(from, to)
                || (from + 1..to).any(|between| before[from][between] && is_edge(between, to));
        }
    }
    let conflicts = |one: usize, other: usize| {
        let (Some((_, a, _)), Some((_, b, _))) = (parts(list[one].1), parts(list[other].1)) else {
            return false;
        };
        list[one].0 == list[other].0 && (a != b || a == Store)
    };
    let is_ordered = |one: usize, other: usize| {
        let by_way_of = |way: usize| before[one][way] && is_of_the_wave(way, other);
        is_of_the_wave(one, other) || (one + 1..other).any(by_way_of)
    };
    let pairs = (0..list.len()).flat_map(|other| (0..other).map(move |one| (one, other)));
    pairs
        .filter(|(one, other)| !is_ordered(*one, *other) && conflicts(*one, *other))
        .map(|(one, other)| (one as u64, other as u64))
        .collect()
}

#[test]
fn races_equal_unordered_pairs_in_the_reference() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % below
    };
    let (mut racy, mut missed) = (0, 0);
    for number in 0..20_000 {
        let waves = 2 + number % 2;
        let mut act = || {
            let (wave, offset) = (next(waves) as u32, [0, 1, 8, 12][next(4) as usize]);
            let atomics = offset >= 8 && next(4) > 0;
            let act = match next(8) {
                0 => Barrier,
                1..4 if atomics => atomic(wave),
                _ if atomics => Takes(wave),
                1..4 => write(wave),
                _ => read(wave),
            };
            (offset, act)
        };
        let list: Vec<_> = (0..9).map(|_| act()).collect();
        let expected = races_by_paths(&list);
        let found = races(&list, |_| ReadUse::default());
        assert!(found.iter().all(|pair| expected.contains(pair)), "{list:?}: {found:?}");
        // If more than two waves access a byte and no synchronisation orders them, only two of the races are recorded.
        assert!(waves > 2 || found.is_empty() == expected.is_empty(), "{list:?}: {expected:?}");
        racy += usize::from(!expected.is_empty());
        missed += usize::from(found.is_empty() && !expected.is_empty());
    }
    assert!((5000..18_000).contains(&racy) && missed < racy / 100, "{missed} of {racy}");
}

#[test]
fn try_locks_and_flags_after_waits_order_waves() {
    let (data, word) = (0, 8);
    let race = |list: &[(u64, Act)], waits: ReadUse| races(list, |_| waits);
    let decides = ReadUse { decides: true, ..ReadUse::default() };
    let turns = ReadUse { turns: true, ..decides };
    let lock = |give, take| {
        [(word, Swaps(0)), (data, write(0)), (word, give), (word, take), (data, write(1))]
    };
    assert_eq!(race(&lock(write(0), Swaps(1)), decides), []);
    assert_eq!(race(&lock(write(0), Swaps(1)), ReadUse::default()), [(2, 3), (1, 4)]);
    assert_eq!(race(&lock(write(0), Takes(1)), decides), [(2, 3), (1, 4)]);
    // Another wave has tried to take the lock before, without success.
    assert_eq!(race(&[(word, Swaps(0)), (word, Swaps(1)), (word, write(0))], decides), []);
    // The first write initialises the lock, and does not release it.
    assert_eq!(race(&[(word, Swaps(1)), (word, write(0))], decides), [(0, 1)]);
    assert_eq!(race(&[(word, write(0)), (word, Swaps(1)), (word, Swaps(0))], decides), [(0, 1)]);

    let flag = |tell| [(data, write(0)), (word, tell), (word, read(1)), (data, read(1))];
    assert_eq!(race(&flag(Tells(0)), turns), []);
    assert_eq!(race(&flag(write(0)), turns), [(1, 2), (0, 3)]);
    assert_eq!(race(&flag(Tells(0)), decides), [(1, 2), (0, 3)]);

    // Two waves write the same flag. A third wave acquires from the first one through the second one.
    let relay = |second| {
        let flagged = [(data, write(0)), (word, Tells(0)), (word, read(1)), (16, Tells(0))];
        [&flagged[..], &[(16, Does(second, Store, false)), (16, read(2)), (data, read(2))]].concat()
    };
    let waits = ReadUse { waits: true, ..decides };
    assert_eq!(race(&relay(1), waits), []);
    assert_eq!(race(&[(data, write(0)), (data, Learns(1, 0)), (data, read(1))], decides), []);
    assert_eq!(race(&[(data, write(0)), (data, Learns(2, 0)), (data, read(1))], decides), [(0, 2)]);
}

/// Returns the races between accesses of three waves to 16 bytes. The history is recorded for each byte if `of_bytes`
/// is true, otherwise for whole dwords where possible. Each entry of `list` contains the wave, kind, width, offset and
/// value of an access, or is a barrier.
fn by_history(list: &[(u32, u8, u64, u64, u8)], of_bytes: bool) -> Vec<String> {
    let (mut races, mut found, mut lds) = (Races::default(), Vec::new(), [0u8; 16]);
    races.begin(3);
    races.bytes.reach(16);
    if of_bytes {
        (0..4)
            .for_each(|dword| assert_eq!(races.bytes.part(dword * 4, dword * 4 + 1, |_| true), 1));
    }
    for (index, &(wave, act, width, place, value)) in list.iter().enumerate() {
        let pc = index as u64 % 13;
        let (kind, returns) = match act {
            0..=3 => (Load, true),
            4..=6 => (Store, false),
            7 => (Atomic, false),
            8 => (Atomic, true),
            _ => {
                let come = u32::from(value) * index as u32;
                races.barrier([CompletedCounts { local: come, moved: come / 2 }; 3].into_iter());
                continue;
            }
        };
        let size = if kind == Atomic { 4 } else { 1 << width };
        let at = place % 16 / size * size;
        let range = at as usize..(at + size) as usize;
        let before = lds;
        if kind != Load {
            lds[range.clone()].copy_from_slice(&[value, 1, 0, 1, 1, value, 1, 0][..size as usize]);
        }
        let (swaps, may_release) = (value == 1, value == 2);
        let index = index as u32;
        let made = CompletedCounts { local: index, moved: index };
        let number =
            if place % 3 == 0 { AccessPosition::moved(made) } else { AccessPosition::local(made) };
        let come = CompletedCounts { local: index, moved: u32::from(value) * index / 2 };
        let by = CurrentAccess { kind, wave, pc, number, come, returns, swaps, may_release };
        races.runs(pc, &Arc::from(""), 0);
        let mut look =
            |pc| ReadUse { waits: pc % 5 == 1, decides: pc % 3 == 0, turns: pc % 4 == 2 };
        races.touch(&by, at, (&before[range.clone()], &lds[range]), &mut look, &mut found);
    }
    found.extend(Races::end(vec![&mut races]));
    let pair = |found: &CheckError| match found {
        CheckError::LdsRace { first, second, .. } => format!("{first:?} {second:?}"),
        CheckError::LdsEarly { write, read, .. } => format!("early {write:?} {read:?}"),
        other => panic!("{other:?}"),
    };
    found.iter().map(pair).collect()
}

fn come() -> impl Strategy<Value = CompletedCounts> {
    (0..3u32, 0..3u32).prop_map(|(local, moved)| CompletedCounts { local, moved })
}

fn number() -> impl Strategy<Value = AccessPosition> {
    (come(), proptest::bool::ANY).prop_map(|(made, moved)| {
        if moved { AccessPosition::moved(made) } else { AccessPosition::local(made) }
    })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4000))]
    #[test]
    fn dword_history_equals_byte_histories(
        list in proptest::collection::vec((0..3u32, 0..10u8, 0..4u64, 0..16u64, 0..3u8), 1..40),
    ) {
        proptest::prop_assert_eq!(by_history(&list, true), by_history(&list, false));
    }

    /// If the fast path handles an access, the full path must record the same history and find no conflict.
    #[test]
    fn quick_path_equals_the_full_path(
        touches in proptest::array::uniform5((0..9u32, 0..3u32)),
        (numbers, agreed, is_load) in (proptest::array::uniform2(number()), proptest::bool::ANY, proptest::bool::ANY),
        (known, begun, met) in (proptest::array::uniform3(0..9u32), 1..4u32, 0..5u32),
        (come, own) in (proptest::collection::vec(come(), 3), come()),
    ) {
        let [write, atomic, other, first, second] =
            touches.map(|(time, wave)| Touch { time, wave, pc: u64::from(time) });
        let reads = [first, second];
        let mut byte = Byte { write, atomics: [atomic, other], numbers, in_memory: 0, wrote_same_value: agreed, reads };
        let mut looked_at = byte;
        // All accesses before the last barrier happen before the wave's next access.
        let known = known.map(|here| ClockEntry { here: here.max(begun + met), in_memory: 0 });
        let clock = Clock(known.to_vec());
        let settled = WaveView { wave: 1, own, clock: &clock, begun, met: begun + met, come: &come };
        let (kind, touch) = (if is_load { Load } else { Store }, Touch { time: 9, wave: 1, pc: 9 });
        if byte.record_if_ordered(kind, &touch, &settled) {
            let rivals = looked_at.add(kind, &touch, true, |other| settled.is_before(other));
            proptest::prop_assert!(rivals.iter().all(Option::is_none));
            for (write, number) in [(write, numbers[0]), (atomic, numbers[1])] {
                let since = begun <= write.time && write.time <= begun + met;
                let has_completed = match write.wave {
                    1 => !number.is_moved() || write.time < begun || number.has_completed(own),
                    other => !since || number.has_completed(come[other as usize]),
                };
                proptest::prop_assert!(has_completed);
            }
        }
        proptest::prop_assert_eq!(format!("{byte:?}"), format!("{looked_at:?}"));
    }
}
