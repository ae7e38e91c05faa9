//! Tests the instructions of global wave sync.

use isa::{
    WaveSync,
    inside::wave::{State, Stop},
};

use super::*;

/// Executes one instruction and returns the wave. The operand v1 is `value`, and M0 is `m0`.
fn waits(sync: &WaveSync, arch: Arch, m0: u32, value: u32, line: &str) -> Wave {
    let mut wave = wave(arch);
    // The instruction must use the value of the first active lane.
    wave.set_pair(EXEC, 0b1100);
    wave.set_lane(1, 2, value);
    wave.set_lane(1, 3, 77);
    wave.scalar[usize::from(register::M0)] = m0;
    let mut machine = line::machine(&Nothing);
    machine.sync = Some(sync);
    let Ok(exec) = bind(line, &Site::for_arch(arch)) else { panic!("not bound: {line}") };
    exec.run(&mut wave, &mut machine).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
    wave
}

#[test]
fn m0_and_offset_select_the_resource() {
    for arch in [Gfx906, Gfx90a, Gfx942, Gfx1030, Gfx1100] {
        let sync = WaveSync::default();
        let at = |m0, value, line: &str| waits(&sync, arch, m0, value, line);
        // M0[21:16] is 2 and the offset is 3, so this is resource 5. The other bits of M0 are ignored.
        at(0xffc2_ffff, 1, "ds_gws_init v1 offset:3 gds");
        let first = at(5 << 16, 1, "ds_gws_barrier v1 gds");
        assert_eq!(first.state, State::AtSync, "{arch}");
        let mut machine = line::machine(&Nothing);
        machine.sync = Some(&sync);
        assert!(!machine.may_continue(first.awaits));
        // Another resource has a counter of its own.
        assert_eq!(at(0, 0, "ds_gws_barrier v1 offset:6 gds").awaits, None, "{arch}");
        assert!(!machine.may_continue(first.awaits));
        // Resource numbers have six bits and wrap.
        assert_eq!(at(63 << 16, 1, "ds_gws_barrier v1 offset:6 gds").awaits, None);
        assert!(machine.may_continue(first.awaits), "{arch}");
    }
}

#[test]
fn semaphores_release_waves() {
    let sync = WaveSync::default();
    let at = |value, line: &str| waits(&sync, Gfx90a, 0, value, line);
    let mut machine = line::machine(&Nothing);
    machine.sync = Some(&sync);
    let waiting: Vec<_> = (0..4).map(|_| at(0, "ds_gws_sema_p gds").awaits).collect();
    let through = || waiting.iter().filter(|awaits| machine.may_continue(**awaits)).count();
    assert_eq!(through(), 0);
    at(0, "ds_gws_sema_v gds");
    assert_eq!(through(), 1);
    at(2, "ds_gws_sema_br v1 gds");
    assert_eq!(through(), 3);
    at(0, "ds_gws_sema_release_all gds");
    assert_eq!(through(), 4);
    at(0, "ds_gws_sema_v offset:1 gds");
    assert_eq!(at(0, "ds_gws_sema_p offset:1 gds").awaits, None);
}

#[test]
fn needs_a_cooperative_queue_and_an_active_lane() {
    let mut wave = wave(Gfx90a);
    let Ok(exec) = bind("ds_gws_barrier v1 gds", &Site::for_arch(Gfx90a)) else {
        panic!("not bound")
    };
    let mut machine = line::machine(&Nothing);
    assert!(
        matches!(exec.run(&mut wave, &mut machine), Err(stop) if matches!(*stop, Stop::Unsupported(_)))
    );
    wave.set_pair(EXEC, 0);
    assert!(exec.run(&mut wave, &mut machine).is_ok() && wave.state != State::AtSync);
    assert!(bind("ds_gws_barrier v1", &Site::for_arch(Gfx90a)).is_err(), "it requires `gds`");
}
