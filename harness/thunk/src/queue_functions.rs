//! The functions of the thunk for AQL queues, and the thread of a queue, which acts as the packet processor. ROCr rings
//! the doorbell by calling a function.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering, fence},
    },
};

use aql::report::trace;

use crate::{
    address_map,
    node::Node,
    outcome::Outcome,
    packets,
    queue::{Indices, PACKET, Queue},
    status::Status,
    types::{Event, QueueResource},
};

/// Queue type `HSA_QUEUE_COMPUTE_AQL`, the only supported one. ROCr also creates SDMA queues unless `HSA_ENABLE_SDMA=0`
/// is set.
const COMPUTE_AQL: u32 = 21;

static QUEUES: Mutex<BTreeMap<u64, Arc<Queue>>> = Mutex::new(BTreeMap::new());
static CREATED: AtomicU64 = AtomicU64::new(0);

/// Doorbells in memory. ROCr calls [`hsaKmtQueueRingDoorbell`] instead of writing to them, but passes their addresses
/// to debuggers.
static DOORBELLS: AtomicU64 = AtomicU64::new(0);

/// Executes the packets one after another. A packet ends before the next one starts, so the barrier bit and the fence
/// scopes of a header need no further action.
fn execute(queue: &Queue) {
    while let Some(slot) = queue.next() {
        match packets::process(queue, slot) {
            Outcome::Done(completion) => {
                queue.release(slot);
                // The host may read the results as soon as the signal is decremented.
                fence(Ordering::SeqCst);
                completion.lower();
            }
            Outcome::Error(code) => {
                trace!("queue {} fails with exception {code}", queue.id);
                return queue.fail(code);
            }
            Outcome::Stopped => return,
        }
    }
}

fn find(id: u64) -> Option<Arc<Queue>> {
    address_map::lock(&QUEUES).get(&id).cloned()
}

/// Returns a reference to an atomic number in the memory of ROCr; `None` if the address is null.
///
/// # Safety
/// The address must be null, or that of an aligned number which lives as long as the queue.
unsafe fn number(address: u64) -> Option<&'static AtomicU64> {
    // SAFETY: the address is not null, and the caller states that it is valid. All accesses of ROCr are atomic.
    (address != 0).then(|| unsafe { AtomicU64::from_ptr(address as *mut u64) })
}

/// # Safety
/// As the thunk requires, `resource` must be valid for reading and writing, and its addresses must stay valid until the
/// queue is destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtCreateQueueExt(
    node: u32,
    kind: u32,
    _percentage: u32,
    _priority: i32,
    _engine: u32,
    ring: u64,
    bytes: u64,
    _event: *const Event,
    resource: *mut QueueResource,
) -> Status {
    if Node::new(node).map(Node::gpu).is_ok_and(|gpu| gpu.is_none()) || resource.is_null() {
        return Status::INVALID_PARAMETER;
    }
    if kind != COMPUTE_AQL {
        aql::report::unsupported(
            "(none)",
            format_args!("a queue of type {kind}; set HSA_ENABLE_SDMA=0"),
        );
        return Status::NOT_SUPPORTED;
    }
    // SAFETY: the caller passes a pointer that is valid for reading.
    let mut given = unsafe { resource.read_unaligned() };
    // SAFETY: the caller passes addresses that stay valid until the queue is destroyed.
    let (write_index, read_index, errors) =
        unsafe { (number(given.write_index), number(given.read_index), number(given.errors)) };
    let (Some(write_index), Some(read_index)) = (write_index, read_index) else {
        return Status::INVALID_PARAMETER;
    };
    let packets = bytes / PACKET;
    if ring == 0 || packets == 0 {
        return Status::INVALID_PARAMETER;
    }
    let id = CREATED.fetch_add(1, Ordering::SeqCst) + 1;
    let indices = Indices { write: write_index, read: read_index, errors };
    let queue = Arc::new(Queue::new(id, ring, packets, indices));
    let own = Arc::clone(&queue);
    let thread =
        std::thread::Builder::new().name("device queue".into()).spawn(move || execute(&own));
    let Ok(thread) = thread else { return Status::NO_MEMORY };
    queue.set_thread(thread);
    address_map::lock(&QUEUES).insert(id, queue);
    given.id = id;
    given.doorbell = DOORBELLS.as_ptr() as u64;
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { resource.write_unaligned(given) };
    trace!("create queue {id} with {packets} packets");
    Status::SUCCESS
}

/// # Safety
/// As for [`hsaKmtCreateQueueExt`].
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtCreateQueue(
    node: u32,
    kind: u32,
    percentage: u32,
    priority: i32,
    ring: u64,
    bytes: u64,
    event: *const Event,
    resource: *mut QueueResource,
) -> Status {
    // SAFETY: the requirements are the same.
    unsafe {
        hsaKmtCreateQueueExt(node, kind, percentage, priority, 0, ring, bytes, event, resource)
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtQueueRingDoorbell(id: u64) -> Status {
    match find(id) {
        Some(queue) => {
            queue.ring();
            Status::SUCCESS
        }
        None => Status::INVALID_HANDLE,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtDestroyQueue(id: u64) -> Status {
    let removed = address_map::lock(&QUEUES).remove(&id);
    match removed {
        Some(queue) => {
            trace!("destroy queue {id}");
            queue.end();
            Status::SUCCESS
        }
        None => Status::INVALID_HANDLE,
    }
}

/// Does nothing, because the priority and the share of a queue have no effect: every queue has a thread of its own.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtUpdateQueue(
    id: u64,
    _percentage: u32,
    _priority: i32,
    _ring: u64,
    _bytes: u64,
    _event: *const Event,
) -> Status {
    if find(id).is_some() { Status::SUCCESS } else { Status::INVALID_HANDLE }
}

/// Ignores the mask, because the device does not model which compute unit executes a workgroup.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtSetQueueCUMask(id: u64, _bits: u32, _mask: *const u32) -> Status {
    if find(id).is_some() { Status::SUCCESS } else { Status::INVALID_HANDLE }
}

/// Permits the kernels of a queue to wait for the waves of all workgroups. All queues have this permission anyway.
///
/// # Safety
/// As the thunk requires, `first` must be null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtAllocQueueGWS(id: u64, _count: u32, first: *mut u32) -> Status {
    if find(id).is_none() {
        return Status::INVALID_HANDLE;
    }
    if !first.is_null() {
        // SAFETY: the pointer is not null, and the caller passes one that is valid for writing.
        unsafe { first.write(0) };
    }
    Status::SUCCESS
}
