//! Tests several devices with different configurations in one process. Each test uses a device as a host program does.

use std::{
    ffi::c_void,
    sync::{Barrier, Mutex},
};

use device::{Arch, Config, Fault, FaultSpec, Schedule};

use super::*;
use crate::{
    abi::{Agent, Condition, QueueCallback, QueueCell, Signal, Status},
    address_map::Kind,
    memory, queue, schedule, signal,
};

unsafe extern "C" {
    fn hsa_agent_get_info(agent: Agent, attribute: u32, value: *mut c_void) -> Status;
    fn hsa_queue_create(
        agent: Agent,
        size: u32,
        kind: u32,
        callback: Option<QueueCallback>,
        data: *mut c_void,
        private: u32,
        group: u32,
        queue: *mut *mut QueueCell,
    ) -> Status;
    fn hsa_queue_destroy(queue: *mut QueueCell) -> Status;
    fn hsa_amd_memory_async_copy(
        to: usize,
        to_agent: Agent,
        from: usize,
        from_agent: Agent,
        bytes: usize,
        count: u32,
        dependencies: *const Signal,
        completion: Signal,
    ) -> Status;
}

/// Creates a device that lives until the process ends, as the device of a process does.
fn device(config: Config) -> &'static Device {
    Box::leak(Box::new(Device::new(config.into())))
}

fn with(planted: FaultSpec) -> &'static Device {
    device(Config { faults: vec![planted], ..Config::default() })
}

fn allocate(owner: Agent, bytes: usize) -> usize {
    memory::allocate(bytes, owner, 0, Kind::Pool).expect("device memory")
}

/// Starts a copy to the device and returns its completion signal.
fn copy(to: usize, from: usize, bytes: usize) -> Signal {
    let done = signal::create(1);
    // SAFETY: the copy has no dependencies, and the device itself checks the two ranges.
    let status = unsafe {
        let none = std::ptr::null();
        hsa_amd_memory_async_copy(to, Agent::GPU, from, Agent::CPU, bytes, 0, none, done)
    };
    assert_eq!(status, Status::SUCCESS);
    done
}

/// Returns true if the signal is decremented within `nanoseconds`.
fn wait(signal: Signal, nanoseconds: u64) -> bool {
    let _waiting = schedule::Waiting::new(signal, Condition::Eq, 0);
    signal::wait(signal, Condition::Eq, 0, nanoseconds) == 0
}

/// Makes four copies of `bytes` bytes with the value 7 to memory that contains 9. Returns the first and the last byte
/// after each copy, or `--` for a copy that never completes.
fn copies(device: &'static Device, bytes: usize) -> String {
    let _entered = device.enter();
    let (from, to) = (allocate(Agent::CPU, bytes), allocate(Agent::GPU, bytes));
    let seen = [(); 4].map(|()| {
        let (source, target) = (from as *mut u8, to as *mut u8);
        // SAFETY: both addresses are allocations of that many bytes, and no copy is running.
        unsafe {
            source.write_bytes(7, bytes);
            target.write_bytes(9, bytes);
        }
        if !wait(copy(to, from, bytes), 1_000_000_000) {
            return "--".to_owned();
        }
        // SAFETY: the target is an allocation of `bytes` bytes, and the copy is complete.
        unsafe { format!("{}{}", target.read(), target.add(bytes - 1).read()) }
    });
    seen.join(" ")
}

fn name_of_the_gpu() -> String {
    let mut name = [0u8; 64];
    // SAFETY: HSA_AGENT_INFO_NAME has 64 characters.
    let status = unsafe { hsa_agent_get_info(Agent::GPU, 0, name.as_mut_ptr().cast()) };
    assert_eq!(status, Status::SUCCESS);
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

#[test]
fn two_devices_are_independent() {
    let configs = [
        Config { arch: Arch::Gfx90a, memory: 1 << 30, ..Config::default() },
        Config { arch: Arch::Gfx1151, memory: 2 << 30, ..Config::default() },
    ];
    let (meet, places) = (Barrier::new(2), Mutex::new([0; 2]));
    std::thread::scope(|scope| {
        for (number, config) in configs.iter().enumerate() {
            let (meet, places) = (&meet, &places);
            scope.spawn(move || {
                let _entered = device(config.clone()).enter();
                let mut made = std::ptr::null_mut();
                // SAFETY: the result is a local variable. A queue without a callback does not use the data.
                let status = unsafe {
                    let none = std::ptr::null_mut();
                    hsa_queue_create(Agent::GPU, 64, 0, None, none, 0, 0, &mut made)
                };
                assert_eq!(status, Status::SUCCESS);
                let own = allocate(Agent::GPU, 5000);
                places.lock().unwrap()[number] = own;
                // At this point both devices have a queue and memory.
                meet.wait();
                let other = places.lock().unwrap()[1 - number];
                assert_eq!(name_of_the_gpu(), config.arch.name());
                assert_eq!(queue::all().iter().map(|queue| queue.id()).collect::<Vec<_>>(), [1]);
                assert_eq!(memory::available(Agent::GPU), config.memory - 8192);
                assert!(memory::map().find(own).is_some() && memory::map().find(other).is_none());
                assert!(!memory::free(other), "the memory belongs to the other device");
                meet.wait();
                assert!(memory::free(own));
                // SAFETY: the queue was created above and is not in use.
                assert_eq!(unsafe { hsa_queue_destroy(made) }, Status::SUCCESS);
            });
        }
    });
}

/// The healthy device copies correctly before and after the other devices, because a fault takes effect only on its own
/// device.
#[test]
fn copy_faults_change_the_target() {
    #[track_caller]
    fn check(fault: Fault, bytes: usize, expected: &str) {
        assert_eq!(copies(with(fault.into()), bytes), expected, "{fault}");
    }
    let healthy = device(Config::default());
    assert_eq!(copies(healthy, 65), "77 77 77 77");
    check(Fault::CopyZero, 65, "00 00 00 00");
    check(Fault::CopyDrop, 65, "99 99 99 99");
    check(Fault::CopyTorn, 65, "79 79 79 79");
    check(Fault::CopyLostSmallSlot, 65, "77 77 77 77");
    check(Fault::CopyLostSmallSlot, 64, "77 00 77 00");
    check(Fault::SignalStuck, 65, "-- -- -- --");
    check(Fault::KernelDrop, 65, "77 77 77 77");
    assert_eq!(copies(healthy, 65), "77 77 77 77");
}

#[test]
fn seed_repeats_its_choices() {
    let line = |seed| {
        let half = FaultSpec { probability: 0.5, seed, ..FaultSpec::from(Fault::CopyZero) };
        copies(with(half), 65)
    };
    assert_eq!(line(3), line(3));
    let all: std::collections::HashSet<_> = (0..8).map(line).collect();
    assert!(all.len() > 1, "every seed had the same effect");
}

#[test]
fn freed_memory_is_available_unless_it_leaks() {
    #[track_caller]
    fn check(device: &'static Device, missing: u64) {
        let _entered = device.enter();
        let before = memory::available(Agent::GPU);
        let start = allocate(Agent::GPU, 5000);
        assert_eq!(before - memory::available(Agent::GPU), 8192);
        assert!(memory::free(start));
        assert_eq!(before - memory::available(Agent::GPU), missing);
    }
    check(device(Config::default()), 0);
    check(with(Fault::AllocLeak.into()), 8192);
}

/// One thread uses both devices in turn, and each device follows its own schedule.
#[test]
fn eager_and_lazy_devices_coexist() {
    let lazy = device(Config { schedule: Schedule::Lazy, ..Config::default() });
    let hand_over = || copy(allocate(Agent::GPU, 64), allocate(Agent::CPU, 64), 64);
    let later = {
        let _entered = lazy.enter();
        hand_over()
    };
    let at_once = {
        let _entered = device(Config::default()).enter();
        hand_over()
    };
    // The thread spins, because a process that sleeps would be treated as idle.
    while at_once.load() != 0 {
        std::hint::spin_loop();
    }
    assert_eq!(later.load(), 1, "the lazy device copied although no thread waits");
    let _entered = lazy.enter();
    assert!(wait(later, u64::MAX));
}
