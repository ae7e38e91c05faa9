//! Effects of calls, as values. The declarations of calls contain these values, and the analyses match on them. If a
//! variant is added, the compiler lists every analysis that must handle it. A new call whose effects already exist
//! needs no change of the analyses.

use crate::{
    Arg, Box3d, BufferAddress, DEFAULT_STREAM, Dtype, HipArg, MatmulProblem, Operands, Plan,
};

/// Effect of a call on memory: which buffers it allocates, frees, reads and writes.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are the arguments of the call")]
pub enum MemoryEffect<'a> {
    /// Accesses no buffer.
    Nothing,
    /// Allocates a buffer with uninitialised content.
    Alloc(&'a str),
    /// Frees a buffer.
    Free(&'a str),
    /// Fills a buffer with [`POISON_BYTE`](crate::POISON_BYTE).
    Poison(&'a str),
    /// Fills a buffer with a [`pattern`](crate::pattern).
    Fill { buffer: &'a str, stamp: u32 },
    /// Fills a buffer with [`small_numbers`](crate::small_numbers).
    FillNumbers { buffer: &'a str, dtype: Dtype, stamp: u32 },
    /// Copies the bytes of a file to a buffer.
    FillFile { buffer: &'a str, file: &'a str },
    /// Copies a contiguous range of bytes.
    Copy { to: &'a BufferAddress, from: &'a BufferAddress, bytes: u64 },
    /// Copies `height` rows of `width` bytes. The number after each place is the distance between two rows, in bytes.
    Rows { to: (&'a BufferAddress, u64), from: (&'a BufferAddress, u64), width: u64, height: u64 },
    /// Copies a box of bytes, rows and slices.
    Boxes { to: &'a Box3d, from: &'a Box3d, size: [u64; 3] },
    /// Sets all bytes of a box to one value.
    SetBox { to: &'a Box3d, value: u8, size: [u64; 3] },
    /// Sets each element of a range to a value. `element` is the size of one element, and `bytes` the size of the
    /// range, in bytes.
    Set { to: &'a BufferAddress, value: u32, element: u64, bytes: u64 },
    /// Adds one to each byte of a buffer.
    CountUp(&'a str),
    /// Writes `count` random 32-bit words.
    Generate { to: &'a BufferAddress, count: u64 },
    /// Calls a function of libamdhip64, which accesses the ranges that its line in `functions.txt` declares. The bytes
    /// that the function writes are unknown to the model.
    Foreign { function: &'a str, args: &'a [HipArg] },
    /// Computes a matrix product.
    Product { problem: &'a MatmulProblem, operands: &'a Operands },
    /// Executes a kernel.
    Launch { kernel: &'a str, grid: &'a [u32; 3], block: &'a [u32; 3], args: &'a [Arg] },
    /// Executes the nodes of an executable graph.
    Replay(&'a str),
    /// Compares a buffer with its expected content. If `file` is given, bytes that the model cannot compute must equal
    /// the bytes of that file. Without a file, such bytes are a mistake in the case.
    Check { buffer: &'a str, file: Option<&'a str> },
    /// Compares two buffers with each other.
    Compare(&'a str, &'a str),
    /// Reads a buffer, whether or not the model can compute its content.
    Read(&'a str),
    /// Reads the guards of a buffer.
    Guards(&'a str),
}

/// Effect of a call on captures and graphs, and on the state that captures depend on.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each field is the name of an object among the call's arguments")]
pub enum CaptureEffect<'a> {
    /// No effect on captures or graphs.
    Nothing,
    /// Begins a capture on a stream.
    Begin(&'a str),
    /// Ends the capture of a stream and creates its graph.
    End { stream: &'a str, graph: &'a str },
    /// Creates a graph that is built node by node.
    EmptyGraph(&'a str),
    /// Adds the current nodes of `child` to a graph.
    AddChild { graph: &'a str, child: &'a str },
    /// Creates a copy of a graph in its current state.
    Clone { clone: &'a str, graph: &'a str },
    /// Reads the structure of a graph; the graph must exist.
    InspectGraph(&'a str),
    /// Creates an executable graph from the current state of a graph.
    Instantiate { exec: &'a str, graph: &'a str },
    /// Replaces the nodes of an executable graph with the current nodes of a graph.
    Update { exec: &'a str, graph: &'a str },
    /// Destroys an executable graph.
    DestroyExec(&'a str),
    /// Destroys a graph.
    DestroyGraph(&'a str),
    /// Assigns a stream to a random generator.
    RandStream { generator: &'a str, stream: &'a str },
    /// Creates a random generator. It uses the null stream until a stream is assigned.
    NewGenerator(&'a str),
    /// Creates an event that was never recorded.
    NewEvent(&'a str),
    /// Allocates memory. The new address may be the address of a freed buffer.
    Allocated,
}

/// Effect of a call on the happens-before order.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each field is the name of an object among the call's arguments")]
pub enum OrderEffect<'a> {
    /// Neither orders work nor accesses buffers.
    Nothing,
    /// Accesses buffers in program order on the host, or in the order of the stream that executes the work.
    ProgramOrder,
    /// Accesses buffers like [`ProgramOrder`](OrderEffect::ProgramOrder). From this call on, the buffer's name refers
    /// to new memory.
    Alloc(&'a str),
    /// Frees a buffer. Depending on the kind of memory, the host waits for all work, or the free is ordered like
    /// [`ProgramOrder`](OrderEffect::ProgramOrder).
    Free(&'a str),
    /// Records in an event all work that has been enqueued to a stream so far.
    Record { event: &'a str, stream: &'a str },
    /// Makes a stream wait for an event.
    WaitEvent { stream: &'a str, event: &'a str },
    /// Makes the host wait for an event.
    SyncEvent(&'a str),
    /// Resets an event to the state "never recorded".
    NewEvent(&'a str),
    /// Makes the host wait for a stream.
    Sync(&'a str),
    /// Makes the host wait for all work on the device.
    SyncDevice,
    /// Destroys a stream. Its pending work may continue.
    DestroyStream(&'a str),
    /// Executes the nodes of an executable graph after the earlier work of a stream.
    Replay { exec: &'a str, stream: &'a str },
}

/// The stream that executes the work of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStream<'a> {
    /// No stream: the call executes on the host, or has no effect.
    NoStream,
    /// The null stream, regardless of the stream that the call names.
    NullStream,
    /// The stream that the call names.
    Stream(&'a str),
    /// The stream that the call passes to hipRAND, hipBLASLt or rocBLAS, which enqueues the work.
    Library(&'a str),
    /// The stream that is assigned to this random generator.
    Generator(&'a str),
    /// The stream that the call names. The call enqueues only a marker to it, such as an event.
    Mark(&'a str),
    /// The stream that the call names if the buffer is pool memory, else the host.
    #[allow(missing_docs, reason = "the field names are self-explanatory")]
    Pool { buffer: &'a str, stream: &'a str },
    /// The host if it can access this buffer directly, else the null stream.
    NearestTo(&'a str),
}

impl<'a> WorkStream<'a> {
    /// Returns the stream that executes the work of a function that has a synchronous and an asynchronous form:
    /// `stream` for the asynchronous form, else the null stream.
    pub(super) fn asynchronous(asynchronous: bool, stream: &'a str) -> Self {
        if asynchronous { WorkStream::Stream(stream) } else { WorkStream::NullStream }
    }

    /// Returns the name of the stream; `None` if the host executes the work. `of_generator` maps a random generator to
    /// its stream.
    pub(crate) fn stream(
        self,
        plan: &Plan,
        of_generator: impl FnOnce(&str) -> &'a str,
    ) -> Option<&'a str> {
        match self {
            WorkStream::NoStream => None,
            WorkStream::NullStream => Some(DEFAULT_STREAM),
            WorkStream::Stream(stream) | WorkStream::Library(stream) | WorkStream::Mark(stream) => {
                Some(stream)
            }
            WorkStream::Generator(generator) => Some(of_generator(generator)),
            WorkStream::Pool { buffer, stream } => plan.is_pool_memory(buffer).then_some(stream),
            WorkStream::NearestTo(buffer) => (!plan.on_host(buffer)).then_some(DEFAULT_STREAM),
        }
    }
}

/// The part of a call's work that HIP guarantees to have completed when the call returns. Work that the host executes
/// itself has always completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the arguments of the call")]
pub enum CompletedOnReturn<'a> {
    /// No part of the work has necessarily completed.
    Nothing,
    /// The part that HIP guarantees for copies between the memory kinds of these two buffers.
    Copy { asynchronous: bool, to: &'a str, from: &'a str },
}

/// A field that selects whether the host continues before the work has completed.
pub trait Asynchronous {
    /// Returns true if the host continues before the work has completed.
    fn is_asynchronous(&self) -> bool;
    /// Returns true if the field selects the simplest function of the call's family, for example hipMemcpy.
    fn is_plain(&self) -> bool;
    /// Makes the field select the simplest function of the call's family.
    fn make_plain(&mut self);
}

impl Asynchronous for bool {
    fn is_asynchronous(&self) -> bool {
        *self
    }

    fn is_plain(&self) -> bool {
        !*self
    }

    fn make_plain(&mut self) {
        *self = false;
    }
}

impl Asynchronous for crate::CopyApi {
    fn is_asynchronous(&self) -> bool {
        *self == crate::CopyApi::MemcpyAsync
    }

    fn is_plain(&self) -> bool {
        *self == crate::CopyApi::Memcpy
    }

    fn make_plain(&mut self) {
        *self = crate::CopyApi::Memcpy;
    }
}
