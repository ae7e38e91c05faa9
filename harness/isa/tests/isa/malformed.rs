//! Tests code that no compiler emits. The interpreter must reject it or report an error in the kernel, and must not
//! crash.

use std::ops::Range;

use device::Arch::{self, *};
use isa::{
    AddressSpace, Launch, Trap,
    inside::{
        machine::Machine,
        program::line::{self, bind},
        text::Site,
        wave::Stop,
    },
    launch,
};

use super::wave;

struct Memory(Range<u64>);

// SAFETY: each test creates a `Memory` from a buffer that outlives the machine. Nothing else accesses the buffer until
// then.
unsafe impl AddressSpace for Memory {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.0.contains(&address).then(|| self.0.clone())
    }
}

impl Memory {
    fn of<T>(words: &mut [T]) -> Memory {
        let range = words.as_mut_ptr_range();
        Memory(range.start.expose_provenance() as u64..range.end.expose_provenance() as u64)
    }
}

#[test]
fn accesses_past_the_end_of_the_address_space_are_page_faults() {
    let mut words = [7u32; 16];
    let memory = Memory::of(&mut words);
    let start = memory.0.start;
    let mut machine = line::machine(&memory);
    // From here on, the range of this address is the most recently used one.
    assert_eq!(machine.read::<4>(start).ok(), Some([7, 0, 0, 0]));
    #[track_caller]
    fn check(machine: &mut Machine<'_>, address: u64, bytes: u64) {
        let found = machine.memory(address, bytes, true);
        assert!(
            matches!(found.as_ref().map_err(|stop| &**stop), Err(Stop::PageFault { .. })),
            "{bytes} bytes at {address:#x}: {found:?}"
        );
    }
    for bytes in [1, 4, 16] {
        check(&mut machine, u64::MAX, bytes);
        check(&mut machine, u64::MAX - bytes + 1, bytes);
        check(&mut machine, start + 64, bytes);
        check(&mut machine, start - 1, bytes);
    }
    check(&mut machine, start + 63, 2);
    check(&mut machine, start, u64::MAX);
    check(&mut machine, start + 1, u64::MAX - start);
}

#[test]
fn scratch_before_its_start_is_a_page_fault() {
    for text in [
        "scratch_load_dword v2, v1, off offset:-4",
        "scratch_store_dwordx2 v1, v[2:3], off offset:-2",
    ] {
        let Ok(exec) = bind(text, &Site::for_arch(Gfx90a)) else { panic!("not bound: {text}") };
        let mut wave = wave(Gfx90a);
        wave.scratch = vec![0; 64 * 64];
        let memory = Memory(0..0);
        let stop = exec.run(&mut wave, &mut line::machine(&memory)).map_err(|stop| *stop);
        assert!(matches!(stop, Err(Stop::PageFault { .. })), "{text}: {stop:?}");
    }
}

#[test]
fn scalar_load_before_a_buffer_returns_zero() {
    let mut words = [7u32; 16];
    let memory = Memory::of(&mut words[4..]);
    let mut wave = wave(Gfx1201);
    wave.set_pair(4, memory.0.start);
    wave.scalar[6] = 32;
    wave.scalar[8] = 1;
    let Ok(exec) = bind("s_buffer_load_b32 s8, s[4:7], -0x4", &Site::for_arch(Gfx1201)) else {
        panic!("not bound");
    };
    exec.run(&mut wave, &mut line::machine(&memory)).expect("zero is loaded");
    assert_eq!(wave.scalar[8], 0);
}

#[test]
fn rejects_out_of_range_fields() {
    #[track_caller]
    fn check(arch: Arch, text: &str) {
        assert!(bind(text, &Site::for_arch(arch)).is_err(), "{text}");
    }
    check(Gfx90a, "s_mov_b32 ttmp16, 0");
    check(Gfx90a, "s_mov_b32 s0, ttmp65535");
    check(Gfx90a, "s_mov_b64 ttmp[15:16], 0");
    check(Gfx90a, "v_mov_b32 v[0:65535], 0");
    check(Gfx90a, "v_mov_b32_dpp v0, v1 row_shl:16 row_mask:0xf bank_mask:0xf");
    check(Gfx90a, "v_mov_b32_dpp v0, v1 row_ror:-1 row_mask:0xf bank_mask:0xf");
    check(Gfx90a, "v_mov_b32_dpp v0, v1 quad_perm:[4,0,0,0] row_mask:0xf bank_mask:0xf");
    check(Gfx1100, "v_mov_b32_dpp v0, v1 dpp8:[0,1,2,3,4,5,6,8]");
    check(Gfx1201, "v_cvt_f32_fp8 v0, v1 byte_sel:4");
    check(Gfx1201, "v_cvt_sr_fp8_f32 v0, v1, v2 byte_sel:-1");
    check(Gfx90a, "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], a255, a[0:15]");
    check(Gfx90a, "v_mfma_f32_32x32x8f16 a255, v[0:1], v[2:3], a255");
    check(Gfx942, "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:9], v12");
    check(Gfx942, "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12 abid:4");
    check(Gfx942, "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12 abid:-1");
    check(Gfx942, "v_smfmac_f32_32x32x4_f32 v[0:15], v[32:47], v[48:79], v12");
    check(Gfx1201, "v_swmmac_f32_16x16x32_f16 v[0:7], v[8:11], v[16:23], v24 index_key:2");
    check(Gfx90a, "ds_read2_b32 v[0:1], v2 offset1:256");
    check(Gfx90a, "buffer_load_dword v0, off, s[4:7], 0 offset:-4");
    check(Gfx90a, "global_load_dword v0, v1, s[0:1] offset:0x8000000000000000");
    check(Gfx90a, "s_load_dword s0, s[4:5], 0xffffffff00000000");
}

fn launch_of(descriptor: u64) -> Launch<'static> {
    Launch {
        sync: None,
        kernel_name: "k",
        descriptor,
        packet: 0,
        queue: 0,
        kernarg: 0,
        grid: [1024, 4, 2],
        workgroup: [64, 1, 1],
        group_segment_bytes: 0,
        private_segment_bytes: 0,
        arch: Gfx1151,
        step_limit: 1,
        threads: 1,
        late_results: false,
        room: 2,
        patience: std::time::Duration::from_secs(1),
        turns: isa::TurnLength::default(),
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no clock of a thread")]
fn threads_that_share_a_launch_all_end_at_a_trap() {
    // No code is mapped after the descriptor.
    let mut descriptor = [0u64, 0, 64, 0, 0, 0, 0, 0];
    let memory = Memory::of(&mut descriptor);
    for threads in [1, 3, 200] {
        let trap = launch(&Launch { threads, ..launch_of(memory.0.start) }, &memory);
        let Err(Trap::PageFault { address, write: false, .. }) = trap else { panic!("{trap:?}") };
        assert_eq!(address, memory.0.end);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no clock of a thread")]
fn rejects_launches_larger_than_a_compute_unit() {
    let mut descriptor = [0u64; 8];
    let memory = Memory::of(&mut descriptor);
    let check = |group_segment_bytes, private_segment_bytes| {
        let launched = launch(
            &Launch { group_segment_bytes, private_segment_bytes, ..launch_of(memory.0.start) },
            &memory,
        );
        assert!(matches!(launched, Err(Trap::InvalidLaunch { .. })), "{launched:?}");
    };
    check(u32::MAX, 0);
    check(0, u32::MAX);
    let refuses = |arch, group_segment_bytes| {
        let one = Launch { arch, group_segment_bytes, ..launch_of(memory.0.start) };
        matches!(launch(&one, &memory), Err(Trap::InvalidLaunch { .. }))
    };
    // A compute unit of GFX950 has more LDS than those of other GPUs.
    for (arch, most) in [(Gfx942, 64 << 10), (Gfx950, 160 << 10), (Gfx1201, 64 << 10)] {
        assert!(!refuses(arch, most) && refuses(arch, most + 1), "{arch}");
    }
}
