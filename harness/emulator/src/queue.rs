//! AQL queues. A queue has a ring of packets, a read and a write index, a doorbell, and a thread that acts as the
//! packet processor.

mod indices;
mod units;

use std::{
    collections::{BTreeSet, HashMap},
    ffi::c_void,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering, fence},
    },
    thread::JoinHandle,
};

use device::Fault;
use isa::WaveSync;

use crate::{
    abi::{
        Agent, InfoOutput, Out, QueueCallback, QueueCell, QueueHead, Signal, Status, packet,
        pool_flag,
    },
    address_map::Kind,
    dispatch::QueueContext,
    events, faults,
    locks::{Condvar, Mutex, RwLock},
    memory, order, packets,
    part::DeviceComponent as _,
    report::trace,
    rest, schedule, signal,
};

/// Size of a packet, in bytes.
const PACKET: usize = 64;

/// HSA_QUEUE_TYPE_COOPERATIVE.
const COOPERATIVE: u32 = 2;

/// Upper 32 bits of the addresses of LDS and scratch in the flat address space. Kernels of older code objects read
/// these values from `amd_queue_t`. The crate `isa` defines the same values.
const GROUP_APERTURE_HI: u32 = 0x0002_0000;
const PRIVATE_APERTURE_HI: u32 = 0x0001_0000;

/// A queue and the thread that executes its packets.
pub(crate) struct Queue {
    agent: Agent,
    cell: &'static QueueCell,
    callback: Option<QueueCallback>,
    data: *mut c_void,
    doorbell: Mutex<()>,
    rung: Condvar,
    stop: AtomicBool,
    /// Thread of the queue; `None` unless the schedule is eager.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Indices of packets that are complete although an earlier packet is not.
    overtook: Mutex<BTreeSet<u64>>,
    /// Index of the packet that [`Queue::packet_that_lowers`] returned last.
    needed: AtomicU64,
    units: Mutex<units::Mask>,
    /// State of global wave sync; `None` unless the queue is cooperative.
    sync: Option<WaveSync>,
}

// SAFETY: this library does not dereference `data` and only passes it to the callback, which HSA requires to be
// callable from another thread. All fields of the cell that change are atomic.
unsafe impl Send for Queue {}
// SAFETY: the reasons for `Send` apply to `Sync` too.
unsafe impl Sync for Queue {}

#[derive(Default)]
pub(crate) struct Queues {
    /// All queues. The key is the address of their `amd_queue_t`.
    all: RwLock<HashMap<u64, Arc<Queue>>>,
    /// Number of queues created so far, which is also the id of the last one.
    created: AtomicU64,
}

impl Queue {
    fn address(&self) -> u64 {
        std::ptr::from_ref(self.cell) as u64
    }

    fn origin(&self) -> QueueContext<'_> {
        QueueContext {
            id: self.id(),
            address: self.address(),
            sync: self.sync.as_ref(),
            stop: &self.stop,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.cell.head.id
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn slot(&self, index: u64) -> *mut u8 {
        let offset = (index % u64::from(self.cell.head.size)) as usize * PACKET;
        // SAFETY: the ring has `size` packets, and the offset is the offset of one of them.
        unsafe { self.cell.head.base.add(offset) }
    }

    fn header(&self, slot: *mut u8) -> &AtomicU16 {
        // SAFETY: the slot is in the ring and aligned to 64 bytes; the host writes headers atomically.
        unsafe { AtomicU16::from_ptr(slot.cast()) }
    }

    /// Returns the slot of the next packet if that packet has been submitted.
    fn ready(&self) -> Option<*mut u8> {
        let index = self.cell.read_index.load(Ordering::Acquire);
        if index >= self.cell.write_index.load(Ordering::Acquire) {
            return None;
        }
        let slot = self.slot(index);
        let kind = self.header(slot).load(Ordering::Acquire) as u8;
        (kind != packet::INVALID).then_some(slot)
    }

    fn next(&self) -> Option<*mut u8> {
        let mut guard = self.doorbell.lock();
        loop {
            if self.stopping() {
                return None;
            }
            if let Some(slot) = self.ready() {
                return Some(slot);
            }
            guard = self.rung.wait(guard);
        }
    }

    /// Executes the packets of the queue one after another. A packet ends before the next one starts, so the barrier
    /// bit and the fence scopes of a header need no further action.
    fn run(&self) {
        while let Some(slot) = self.next() {
            let index = self.cell.read_index.load(Ordering::Acquire);
            if !self.execute(index, slot) {
                return;
            }
        }
    }

    /// Executes the packet with this index, which is in `slot`. Returns false if the queue must stop.
    fn execute(&self, index: u64, slot: *mut u8) -> bool {
        let _work = rest::Work::begin();
        let outcome = packets::process(&self.origin(), index, slot);
        if self.stopping() {
            return false;
        }
        match outcome {
            packets::Outcome::Done(completion) => {
                self.retire(index);
                // The host may read the results as soon as the signal is decremented.
                fence(Ordering::SeqCst);
                completion.lower();
                true
            }
            packets::Outcome::Error(status) => {
                trace!("queue {} fails with status {:#x}", self.id(), status.0);
                if let Some(callback) = self.callback {
                    callback(status, self.address() as *mut QueueCell, self.data);
                }
                false
            }
            packets::Outcome::Hang => false,
        }
    }

    /// Marks a packet as complete. If all packets before it are complete, too, advances the read index, so that the
    /// host can reuse their slots.
    fn retire(&self, index: u64) {
        let mut overtook = self.overtook.lock();
        overtook.insert(index);
        let mut front = self.cell.read_index.load(Ordering::Acquire);
        while overtook.remove(&front) {
            let slot = self.slot(front);
            self.header(slot).store(u16::from(packet::INVALID), Ordering::Release);
            front += 1;
            self.cell.read_index.store(front, Ordering::Release);
        }
    }

    /// Returns the index and the slot of each submitted packet that is not complete yet.
    fn waiting(&self) -> impl Iterator<Item = (u64, *mut u8)> {
        let overtook = self.overtook.lock().clone();
        let front = self.cell.read_index.load(Ordering::Acquire);
        let end = self.cell.write_index.load(Ordering::Acquire);
        let end = if self.stopping() { front } else { end };
        (front..end)
            .map(|index| (index, self.slot(index)))
            .take_while(|(_, slot)| {
                self.header(*slot).load(Ordering::Acquire) as u8 != packet::INVALID
            })
            .filter(move |(index, _)| !overtook.contains(index))
    }

    /// Returns the packets that may be executed now, in the order of the queue. If a barrier packet holds up later
    /// packets, also returns the signals for which it waits.
    pub(crate) fn startable(self: &Arc<Self>) -> (Vec<Ready>, Vec<Signal>) {
        let mut found: Vec<Ready> = Vec::new();
        for (index, slot) in self.waiting().take(order::WINDOW) {
            let header = self.header(slot).load(Ordering::Acquire);
            // The fault can take effect only on a packet that its barrier bit would delay.
            let barrier = header & packet::BARRIER_BIT != 0 && !found.is_empty();
            if barrier && !faults::is_active_at(Fault::QueueBarrierIgnored, index) {
                break;
            }
            match packets::holds_up(slot) {
                None => found.push(Ready { queue: Arc::clone(self), index, slot }),
                Some(signals) => return (found, signals),
            }
            if header as u8 != packet::DISPATCH {
                break;
            }
        }
        (found, Vec::new())
    }

    /// Returns the index of the packet that decrements the signal when it completes; `None` if the queue contains no
    /// such packet.
    pub(crate) fn packet_that_lowers(&self, signal: Signal) -> Option<u64> {
        let lowers = |slot: *mut u8| {
            // SAFETY: the slot is in the ring. Every kind of packet has its completion signal in the last word. A
            // packet that the host is still writing has not been submitted.
            Signal(unsafe { slot.cast::<u64>().add(7).read_volatile() }) == signal
        };
        let known = self.needed.load(Ordering::Relaxed);
        let found = self
            .waiting()
            .skip_while(|(index, _)| *index < known)
            .take(1)
            .chain(self.waiting())
            .find(|(_, slot)| lowers(*slot))?;
        self.needed.store(found.0, Ordering::Relaxed);
        Some(found.0)
    }

    fn ring(&self) {
        order::doorbell_rang(self.id(), self.cell.write_index.load(Ordering::Acquire));
        if schedule::is_eager() {
            drop(self.doorbell.lock());
            self.rung.notify_one();
            rest::at_call();
        } else {
            schedule::host_called();
        }
    }

    fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.ring();
        events::notify();
        let thread = self.thread.lock().take();
        // A callback may destroy its own queue, and a thread cannot join itself. A thread that is executing a kernel is
        // not joined either, because a kernel that never ends must not prevent the host program from ending.
        let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) else {
            return;
        };
        if !packets::in_kernel(self.address()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Queue {
    /// Frees the memory of the queue. A thread that is still executing a kernel keeps the queue alive until the process
    /// ends.
    fn drop(&mut self) {
        signal::destroy(self.cell.head.doorbell);
        memory::free(self.cell.head.base as usize);
        memory::free(self.address() as usize);
    }
}

pub(crate) struct Ready {
    queue: Arc<Queue>,
    pub(crate) index: u64,
    slot: *mut u8,
}

impl Ready {
    pub(crate) fn execute(self) {
        if !self.queue.execute(self.index, self.slot) {
            // A queue that has failed executes no further packets.
            self.queue.stop.store(true, Ordering::SeqCst);
        }
    }
}

/// Returns all queues, oldest first.
pub(crate) fn all() -> Vec<Arc<Queue>> {
    let mut all: Vec<_> = Queues::current().all.read().values().cloned().collect();
    all.sort_by_key(|queue| queue.id());
    all
}

/// Returns true if a running queue has a packet that can start.
pub(crate) fn any_ready() -> bool {
    all().iter().any(|queue| !queue.stopping() && queue.ready().is_some())
}

fn find(address: u64) -> Option<Arc<Queue>> {
    Queues::current().all.read().get(&address).cloned()
}

/// Rings the doorbell of the queue at this address.
pub(crate) fn ring(address: u64) {
    if let Some(queue) = find(address) {
        queue.ring();
    }
}

/// Stops all queues, as the amdgpu driver does when it closes the queues of a process. Their memory stays allocated,
/// because the host may still read it.
pub(crate) fn shut_down() {
    for queue in all() {
        queue.end();
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_queue_create(
    agent: Agent,
    size: u32,
    kind: u32,
    callback: Option<QueueCallback>,
    data: *mut c_void,
    _private_bytes: u32,
    _group_bytes: u32,
    out: Out<*mut QueueCell>,
) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    if !size.is_power_of_two() || size > 128 << 10 || out.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let queues = Queues::current();
    let bytes = size as usize * PACKET;
    let flags = pool_flag::FINE_GRAINED;
    let allocate = |bytes| memory::allocate(bytes, Agent::CPU, flags, Kind::Internal);
    let (Some(base), Some(cell)) = (allocate(bytes), allocate(size_of::<QueueCell>())) else {
        return Status::OUT_OF_RESOURCES;
    };
    // One call for all pages is cheaper than one page fault for each page. Older versions of Linux ignore the advice.
    // SAFETY: the range is the ring that was just allocated, and no byte changes.
    unsafe { libc::madvise(base as *mut c_void, bytes, libc::MADV_POPULATE_WRITE) };
    for slot in (base..base + bytes).step_by(PACKET) {
        // SAFETY: the slot is in the ring that was just allocated.
        unsafe { (slot as *mut u16).write(u16::from(packet::INVALID)) };
    }
    let doorbell = signal::create(0);
    let cell = cell as *mut QueueCell;
    // SAFETY: the memory is freshly allocated and zeroed, and zero is a valid state of every field. The address is not
    // known elsewhere yet.
    let queue_cell = unsafe {
        (*cell).head = QueueHead {
            kind,
            features: 1,
            base: base as *mut u8,
            doorbell,
            size,
            reserved1: 0,
            id: queues.created.fetch_add(1, Ordering::Relaxed) + 1,
        };
        (*cell).group_aperture_hi = GROUP_APERTURE_HI;
        (*cell).private_aperture_hi = PRIVATE_APERTURE_HI;
        (*cell).read_index_offset = std::mem::offset_of!(QueueCell, read_index) as u32;
        &*cell
    };
    if let Some(bell) = doorbell.cell() {
        bell.queue.store(cell as u64, Ordering::Release);
    }
    let queue = Arc::new(Queue {
        agent,
        cell: queue_cell,
        callback,
        data,
        doorbell: Mutex::new(()),
        rung: Condvar::new(),
        stop: AtomicBool::new(false),
        thread: Mutex::new(None),
        overtook: Mutex::new(BTreeSet::new()),
        needed: AtomicU64::new(0),
        units: Mutex::new(units::Mask::all()),
        sync: (kind == COOPERATIVE).then(WaveSync::default),
    });
    if schedule::is_eager() {
        let own = Arc::clone(&queue);
        let thread = Queues::spawn("device queue", move || own.run());
        let Ok(thread) = thread else { return Status::OUT_OF_RESOURCES };
        *queue.thread.lock() = Some(thread);
    } else {
        schedule::start();
    }
    trace!("queue_create {} with {size} packets", queue.id());
    queues.all.write().insert(cell as u64, queue);
    out.put(cell)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_queue_destroy(queue: *mut QueueCell) -> Status {
    let removed = Queues::current().all.write().remove(&(queue as u64));
    let Some(queue) = removed else { return Status::INVALID_QUEUE };
    trace!("queue_destroy {}", queue.id());
    queue.end();
    Status::SUCCESS
}

/// Stops the queue. As HSA permits for `hsa_queue_inactivate`, packets that are already submitted may not be executed.
#[unsafe(no_mangle)]
extern "C" fn hsa_queue_inactivate(queue: *mut QueueCell) -> Status {
    let Some(queue) = find(queue as u64) else { return Status::INVALID_QUEUE };
    queue.end();
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_queue_get_info(
    queue: *mut QueueCell,
    attribute: u32,
    value: InfoOutput,
) -> Status {
    let Some(queue) = find(queue as u64) else { return Status::INVALID_QUEUE };
    match attribute {
        // AGENT
        0 => value.put(queue.agent),
        // DOORBELL_ID: the emulated device has no hardware doorbell.
        1 => Status::INVALID_QUEUE,
        _ => Status::INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_profiling_set_profiler_enabled(_queue: *mut QueueCell, _on: i32) -> Status {
    // Times are always recorded, so the call has no effect.
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_queue_set_priority(_queue: *mut QueueCell, priority: u32) -> Status {
    // Priorities have no effect, because every queue has a thread of its own.
    if priority <= 2 { Status::SUCCESS } else { Status::INVALID_ARGUMENT }
}

impl packets::Completion {
    fn lower(self) {
        if let packets::Completion { signal: Some(signal), start } = self {
            Signal::complete(signal, start);
        }
    }
}

#[cfg(test)]
mod tests;
