use std::sync::atomic::AtomicU32;

use super::{indices::*, *};
use crate::abi::{BarrierPacket, BarrierValuePacket, Condition};

static ERROR: AtomicU32 = AtomicU32::new(0);

extern "C" fn note_error(status: Status, _queue: *mut QueueCell, data: *mut c_void) {
    ERROR.store(status.0, Ordering::SeqCst);
    Signal(data as u64).add(-1);
}

fn create(callback: Option<QueueCallback>, data: Signal) -> *mut QueueCell {
    let mut queue: *mut QueueCell = std::ptr::null_mut();
    // SAFETY: `Out` is a transparent pointer, in this case to a local variable of its type.
    let out = unsafe { std::mem::transmute::<*mut *mut QueueCell, Out<_>>(&mut queue) };
    let data = data.0 as *mut c_void;
    let status = hsa_queue_create(Agent::GPU, 64, 0, callback, data, 0, 0, out);
    assert_eq!(status, Status::SUCCESS);
    queue
}

/// Submits a packet as a host does: reserves a slot, writes the packet without its header, writes the header, and rings
/// the doorbell.
fn submit<T>(queue: *mut QueueCell, packet: T, header: u16) {
    assert_eq!(size_of::<T>(), PACKET);
    let index = hsa_queue_add_write_index_screlease(queue, 1);
    let found = find(queue as u64).unwrap();
    let slot = found.slot(index);
    // SAFETY: the slot is in the ring and was reserved.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const packet).cast::<u8>().add(2), slot.add(2), 62);
    }
    found.header(slot).store(header, Ordering::Release);
    ring(queue as u64);
}

fn barrier(dependencies: &[Signal], completion: Signal) -> BarrierPacket {
    let mut all = [Signal::NONE; 5];
    all[..dependencies.len()].copy_from_slice(dependencies);
    BarrierPacket {
        header: 0,
        reserved0: 0,
        reserved1: 0,
        dependencies: all,
        reserved2: 0,
        completion,
    }
}

fn lowered(signal: Signal) -> bool {
    signal::wait(signal, Condition::Eq, 0, u64::MAX) == 0
}

#[test]
fn packets_run_in_order_and_free_their_slots() {
    let queue = create(None, Signal::NONE);
    let (gate, first, second) = (signal::create(1), signal::create(1), signal::create(1));
    submit(queue, barrier(&[gate], first), packet::BARRIER_AND.into());
    submit(queue, barrier(&[], second), packet::BARRIER_AND.into());
    assert_eq!(signal::wait(second, Condition::Eq, 0, 1_000_000), 1, "the first packet is first");
    assert_eq!(hsa_queue_load_read_index_relaxed(queue), 0);
    gate.add(-1);
    assert!(lowered(second) && first.load() == 0);
    assert_eq!(hsa_queue_load_read_index_scacquire(queue), 2);
    assert_eq!(hsa_queue_destroy(queue), Status::SUCCESS);
    assert_eq!(hsa_queue_destroy(queue), Status::INVALID_QUEUE);
}

#[test]
fn barrier_or_and_barrier_value_wait() {
    let queue = create(None, Signal::NONE);
    let (one, other, done) = (signal::create(1), signal::create(1), signal::create(2));
    submit(queue, barrier(&[one, other], done), packet::BARRIER_OR.into());
    other.add(-1);
    assert_eq!(signal::wait(done, Condition::Eq, 1, u64::MAX), 1);
    let value = signal::create(0x10);
    let until = BarrierValuePacket {
        header: 0,
        format: packet::FORMAT_BARRIER_VALUE,
        reserved: 0,
        reserved0: 0,
        signal: value,
        value: 3,
        mask: 0xf,
        condition: 3,
        reserved1: 0,
        reserved2: [0; 2],
        completion: done,
    };
    submit(queue, until, packet::VENDOR.into());
    assert_eq!(signal::wait(done, Condition::Eq, 0, 1_000_000), 1);
    value.add(4);
    assert!(lowered(done));
    assert_eq!(hsa_queue_destroy(queue), Status::SUCCESS);
}

#[test]
fn ring_wraps() {
    let queue = create(None, Signal::NONE);
    for _ in 0..200 {
        let done = signal::create(1);
        submit(queue, barrier(&[], done), packet::BARRIER_AND.into());
        assert!(lowered(done) && signal::destroy(done));
    }
    assert_eq!(hsa_queue_load_read_index_relaxed(queue), 200);
    assert_eq!(hsa_queue_destroy(queue), Status::SUCCESS);
}

#[test]
fn unknown_packet_fails_the_queue() {
    let (called, after) = (signal::create(1), signal::create(1));
    let queue = create(Some(note_error), called);
    submit(queue, barrier(&[], after), 4);
    assert!(lowered(called));
    assert_eq!(ERROR.load(Ordering::SeqCst), Status::INVALID_PACKET_FORMAT.0);
    submit(queue, barrier(&[], after), packet::BARRIER_AND.into());
    assert_eq!(
        signal::wait(after, Condition::Eq, 0, 1_000_000),
        1,
        "a failed queue executes nothing"
    );
    assert_eq!(hsa_queue_destroy(queue), Status::SUCCESS);
}

#[test]
fn waiting_queue_can_be_destroyed() {
    let queue = create(None, Signal::NONE);
    let (never, done) = (signal::create(1), signal::create(1));
    submit(queue, barrier(&[never], done), packet::BARRIER_AND.into());
    assert_eq!(hsa_queue_destroy(queue), Status::SUCCESS);
    assert_eq!(done.load(), 1);
}

/// Returns a queue that contains the given packets and has no running thread. Each packet is given by its header and
/// the signals for which a barrier packet waits.
fn idle_queue(packets: &[(u16, &[Signal])]) -> Arc<Queue> {
    let queue = create(None, Signal::NONE);
    let found = find(queue as u64).unwrap();
    // The thread is stopped before the packets are submitted. Afterwards the queue is marked as running again.
    found.end();
    found.stop.store(false, Ordering::SeqCst);
    for (header, dependencies) in packets {
        submit(queue, barrier(dependencies, Signal::NONE), *header);
    }
    found
}

#[test]
fn barriers_prevent_overtaking() {
    const FREE: u16 = packet::DISPATCH as u16;
    const BEHIND: u16 = FREE | packet::BARRIER_BIT;
    const WAIT: u16 = packet::BARRIER_AND as u16;
    let gate = signal::create(1);
    #[track_caller]
    fn check(packets: &[(u16, &[Signal])], expected: &[u64], held_up: &[Signal]) {
        let (startable, signals) = idle_queue(packets).startable();
        let indices: Vec<u64> = startable.iter().map(|packet| packet.index).collect();
        assert_eq!((indices.as_slice(), signals.as_slice()), (expected, held_up));
    }
    check(&[], &[], &[]);
    check(&[(FREE, &[]), (FREE, &[])], &[0, 1], &[]);
    check(&[(BEHIND, &[]), (BEHIND, &[])], &[0], &[]);
    check(&[(FREE, &[]), (BEHIND, &[]), (FREE, &[])], &[0], &[]);
    check(&[(WAIT, &[]), (FREE, &[])], &[0], &[]);
    check(&[(WAIT, &[gate]), (FREE, &[])], &[], &[gate]);
    check(&[(FREE, &[]), (WAIT, &[gate]), (FREE, &[])], &[0], &[gate]);
    check(&[(FREE, &[]), (WAIT | packet::BARRIER_BIT, &[gate])], &[0], &[]);
}

#[test]
fn slots_are_freed_in_order() {
    let dispatch = (u16::from(packet::DISPATCH), [].as_slice());
    let queue = idle_queue(&[dispatch; 3]);
    let left = || queue.waiting().map(|(index, _)| index).collect::<Vec<_>>();
    queue.retire(1);
    assert_eq!((left(), queue.cell.read_index.load(Ordering::SeqCst)), (vec![0, 2], 0));
    queue.retire(0);
    assert_eq!((left(), queue.cell.read_index.load(Ordering::SeqCst)), (vec![2], 2));
}
