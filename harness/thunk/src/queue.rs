//! The state of an AQL queue, as its thread and the kernels see it. ROCr owns the ring and the indices, which are in
//! the `amd_queue_t` of ROCr.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use aql::kind;
use isa::WaveSync;

use crate::address_map;

/// Size of a packet, in bytes.
pub(crate) const PACKET: u64 = 64;

/// Offset of the read index in `amd_queue_t`.
const READ_INDEX: u64 = 128;

/// Addresses in the memory of ROCr that a queue uses.
pub(crate) struct Indices {
    pub(crate) write: &'static AtomicU64,
    pub(crate) read: &'static AtomicU64,
    /// Value of the signal through which the host receives errors; `None` if the host does not wait for errors.
    pub(crate) errors: Option<&'static AtomicU64>,
}

pub(crate) struct Queue {
    pub(crate) id: u64,
    /// Address of the `amd_queue_t`, which kernels may read.
    pub(crate) address: u64,
    ring: u64,
    packets: u64,
    indices: Indices,
    /// True if the doorbell has rung since the thread last checked.
    rung: Mutex<bool>,
    bell: Condvar,
    stop: AtomicBool,
    in_kernel: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) sync: WaveSync,
}

impl Queue {
    /// Returns a queue whose thread has not been started. `ring` is the address of the first packet slot.
    pub(crate) fn new(id: u64, ring: u64, packets: u64, indices: Indices) -> Queue {
        Queue {
            id,
            address: indices.read.as_ptr() as u64 - READ_INDEX,
            ring,
            packets,
            indices,
            rung: Mutex::new(false),
            bell: Condvar::new(),
            stop: AtomicBool::new(false),
            in_kernel: AtomicBool::new(false),
            thread: Mutex::new(None),
            sync: WaveSync::default(),
        }
    }

    pub(crate) fn set_thread(&self, thread: JoinHandle<()>) {
        *address_map::lock(&self.thread) = Some(thread);
    }

    /// Lets the host reuse the slot of an executed packet.
    pub(crate) fn release(&self, slot: u64) {
        self.header(slot).store(u16::from(kind::INVALID), Ordering::Release);
        self.indices.read.fetch_add(1, Ordering::AcqRel);
    }

    /// Reports an error of the queue to the host, as an exception code of the driver.
    pub(crate) fn fail(&self, code: u32) {
        if let Some(errors) = self.indices.errors {
            errors.fetch_or(1 << (code - 1), Ordering::SeqCst);
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn header(&self, slot: u64) -> &AtomicU16 {
        // SAFETY: the slot is in the ring and aligned to 64 bytes. The host writes headers atomically.
        unsafe { AtomicU16::from_ptr(slot as *mut u16) }
    }

    /// Returns the slot of the next packet if that packet has been submitted.
    fn ready(&self) -> Option<u64> {
        let index = self.indices.read.load(Ordering::Acquire);
        if index >= self.indices.write.load(Ordering::Acquire) {
            return None;
        }
        let slot = self.ring + index % self.packets * PACKET;
        let kind = self.header(slot).load(Ordering::Acquire) as u8;
        (kind != kind::INVALID).then_some(slot)
    }

    /// Waits for the doorbell, and returns the slot of the next packet; `None` if the queue ends.
    pub(crate) fn next(&self) -> Option<u64> {
        let mut rung = address_map::lock(&self.rung);
        loop {
            if self.stopping() {
                return None;
            }
            *rung = false;
            if let Some(slot) = self.ready() {
                return Some(slot);
            }
            let waited = self.bell.wait_while(rung, |rung| !*rung);
            rung = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn ring(&self) {
        *address_map::lock(&self.rung) = true;
        self.bell.notify_one();
    }

    /// Marks the queue as executing a kernel, which cannot be interrupted, while `body` runs.
    pub(crate) fn while_in_kernel<T>(&self, body: impl FnOnce() -> T) -> T {
        self.in_kernel.store(true, Ordering::SeqCst);
        let result = body();
        self.in_kernel.store(false, Ordering::SeqCst);
        result
    }

    /// Stops the queue. Waits for the end of its thread, unless the thread is executing a kernel.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.ring();
        let thread = address_map::lock(&self.thread).take();
        // A kernel that never ends must not prevent the host program from ending.
        if let Some(thread) = thread
            && !self.in_kernel.load(Ordering::SeqCst)
        {
            let _ = thread.join();
        }
    }
}
