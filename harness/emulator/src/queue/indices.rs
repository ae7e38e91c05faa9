//! HSA functions that read and change the read and write indices of a queue.

use std::sync::atomic::Ordering::SeqCst;

use crate::{
    abi::{QueueCell, export},
    schedule,
};

/// Converts a queue pointer that the host passes to a reference.
fn cell(queue: *const QueueCell) -> &'static QueueCell {
    // SAFETY: HSA requires a pointer from `hsa_queue_create` to a queue that has not been destroyed. Until then its
    // memory is 'static, and all fields that change are atomic.
    unsafe { &*queue }
}

fn load_read(queue: *const QueueCell) -> u64 {
    schedule::host_polled();
    cell(queue).read_index.load(SeqCst)
}

fn load_write(queue: *const QueueCell) -> u64 {
    cell(queue).write_index.load(SeqCst)
}

fn store_write(queue: *const QueueCell, value: u64) {
    cell(queue).write_index.store(value, SeqCst);
}

fn add_write(queue: *const QueueCell, count: u64) -> u64 {
    cell(queue).write_index.fetch_add(count, SeqCst)
}

/// Compares and swaps the write index. Returns the previous index, even if it does not equal `expected`.
fn cas_write(queue: *const QueueCell, expected: u64, value: u64) -> u64 {
    match cell(queue).write_index.compare_exchange(expected, value, SeqCst, SeqCst) {
        Ok(before) | Err(before) => before,
    }
}

/// Does nothing, because only the packet processor moves the read index. ROCr does not change the index of a hardware
/// queue either (`AqlQueue::StoreReadIndexRelease`).
fn store_read(_queue: *const QueueCell, _value: u64) {}

export! {
    fn load_read(queue: *const QueueCell) -> u64;
    hsa_queue_load_read_index_relaxed hsa_queue_load_read_index_scacquire
    hsa_queue_load_read_index_acquire
}

export! {
    fn store_read(queue: *const QueueCell, value: u64);
    hsa_queue_store_read_index_relaxed hsa_queue_store_read_index_screlease
    hsa_queue_store_read_index_release
}

export! {
    fn load_write(queue: *const QueueCell) -> u64;
    hsa_queue_load_write_index_relaxed hsa_queue_load_write_index_scacquire
    hsa_queue_load_write_index_acquire
}

export! {
    fn store_write(queue: *const QueueCell, value: u64);
    hsa_queue_store_write_index_relaxed hsa_queue_store_write_index_screlease
    hsa_queue_store_write_index_release
}

export! {
    fn add_write(queue: *const QueueCell, count: u64) -> u64;
    hsa_queue_add_write_index_relaxed hsa_queue_add_write_index_scacq_screl
    hsa_queue_add_write_index_scacquire hsa_queue_add_write_index_screlease
    hsa_queue_add_write_index_acq_rel hsa_queue_add_write_index_acquire
    hsa_queue_add_write_index_release
}

export! {
    fn cas_write(queue: *const QueueCell, expected: u64, value: u64) -> u64;
    hsa_queue_cas_write_index_relaxed hsa_queue_cas_write_index_scacq_screl
    hsa_queue_cas_write_index_scacquire hsa_queue_cas_write_index_screlease
    hsa_queue_cas_write_index_acq_rel hsa_queue_cas_write_index_acquire
    hsa_queue_cas_write_index_release
}
