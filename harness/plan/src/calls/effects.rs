//! What calls do, as values: declarations give them, and whoever has to know what a call does matches on them. An effect that
//! is new here is one that the compiler asks each of them about; a new call with the effects of another is asked about by none.

use crate::{Arg, Box3d, DEFAULT_STREAM, Dtype, HipArg, MatmulProblem, Operands, Place, Plan};

/// What a call does to memory, or reads there.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are what the call is given")]
pub enum OnMemory<'a> {
    /// Nothing.
    Nothing,
    /// A buffer is there, and nobody has written it.
    Alloc(&'a str),
    /// A buffer is gone.
    Free(&'a str),
    /// A buffer holds [`POISON_BYTE`](crate::POISON_BYTE).
    Poison(&'a str),
    /// A buffer holds a [`pattern`](crate::pattern).
    Fill { buffer: &'a str, stamp: u32 },
    /// A buffer holds small whole [`small_numbers`](crate::small_numbers).
    FillNumbers { buffer: &'a str, dtype: Dtype, stamp: u32 },
    /// Bytes are copied.
    Copy { to: &'a Place, from: &'a Place, bytes: u64 },
    /// Rows are copied; places come with their pitches.
    Rows { to: (&'a Place, u64), from: (&'a Place, u64), width: u64, height: u64 },
    /// A box of bytes, rows and slices is copied.
    Boxes { to: &'a Box3d, from: &'a Box3d, size: [u64; 3] },
    /// A box holds one byte everywhere.
    SetBox { to: &'a Box3d, value: u8, size: [u64; 3] },
    /// Elements of so many bytes each hold a value.
    Set { to: &'a Place, value: u32, element: u64, bytes: u64 },
    /// One is added to each byte of a buffer.
    CountUp(&'a str),
    /// So many 32-bit words hold random numbers.
    Generate { to: &'a Place, count: u64 },
    /// A function of the table reads and writes places, and what it writes nobody knows.
    Foreign { function: &'a str, args: &'a [HipArg] },
    /// A matrix product.
    Product { problem: &'a MatmulProblem, operands: &'a Operands },
    /// What a kernel computes.
    Launch { kernel: &'a str, grid: &'a [u32; 3], block: &'a [u32; 3], args: &'a [Arg] },
    /// What the nodes of an executable graph do.
    Replay(&'a str),
    /// A buffer holds what program order says.
    Check(&'a str),
    /// Two buffers are read and compared with each other.
    Compare(&'a str, &'a str),
    /// The guards of a buffer are read.
    Guards(&'a str),
}

/// What a call does to captures and graphs, and what those depend on.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are the names that the call is given")]
pub enum OnCaptures<'a> {
    /// Nothing.
    Nothing,
    /// A capture begins on a stream.
    Begin(&'a str),
    /// The capture of a stream ends, and its graph is there.
    End { stream: &'a str, graph: &'a str },
    /// A graph is there whose nodes come one by one.
    EmptyGraph(&'a str),
    /// A graph gets the nodes that another one has now.
    AddChild { graph: &'a str, child: &'a str },
    /// A graph is there that is as another one is now.
    Clone { clone: &'a str, graph: &'a str },
    /// A graph has to be there.
    LookAt(&'a str),
    /// An executable graph is there that does what a graph does now.
    Instantiate { exec: &'a str, graph: &'a str },
    /// An executable graph that is there does what a graph does now.
    Update { exec: &'a str, graph: &'a str },
    /// An executable graph is gone.
    EndExec(&'a str),
    /// A graph is gone.
    EndGraph(&'a str),
    /// A generator works in a stream from now on.
    RandStream { generator: &'a str, stream: &'a str },
    /// A generator is there, which works in the null stream.
    NewGenerator(&'a str),
    /// An event is there that was never recorded.
    NewEvent(&'a str),
    /// Memory was allocated, perhaps where other memory was.
    Allocated,
}

/// What a call orders.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are the names that the call is given")]
pub enum OnOrder<'a> {
    /// Nothing, and it touches no buffer.
    Nothing,
    /// Its own accesses come when it is its turn.
    InTurn,
    /// The same, for a buffer that is other memory from now on.
    Alloc(&'a str),
    /// The same, or the host waits for everything, as the memory of the buffer says.
    Free(&'a str),
    /// An event stands for what its stream was given so far.
    Record { event: &'a str, stream: &'a str },
    /// A stream waits for an event.
    WaitEvent { stream: &'a str, event: &'a str },
    /// The host waits for an event.
    SyncEvent(&'a str),
    /// An event stands for nothing.
    NewEvent(&'a str),
    /// The host waits for a stream.
    Sync(&'a str),
    /// The host waits for everything.
    SyncDevice,
    /// A stream is gone, and what it was given may go on.
    EndStream(&'a str),
    /// The nodes of an executable graph come behind what a stream holds.
    Replay { exec: &'a str, stream: &'a str },
}

/// Whose work the call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStream<'a> {
    /// The host's, or there is none.
    NoStream,
    /// The null stream's, whatever stream is named.
    NullStream,
    /// This stream's.
    Stream(&'a str),
    /// A library's, in this stream.
    Library(&'a str),
    /// A library's, in the stream of this generator.
    Generator(&'a str),
    /// This stream's, and no more than a mark between works.
    Mark(&'a str),
    /// This stream's where the buffer is memory of a pool; else the host's.
    #[allow(missing_docs, reason = "as the names say")]
    Pool { buffer: &'a str, stream: &'a str },
    /// The host's where it can reach this buffer; else the null stream's.
    NearestTo(&'a str),
}

impl<'a> WorkStream<'a> {
    /// What a function with an asynchronous form in a stream does.
    pub(super) fn asynchronous(asynchronous: bool, stream: &'a str) -> Self {
        if asynchronous { WorkStream::Stream(stream) } else { WorkStream::NullStream }
    }

    /// The stream, where `of_generator` tells that of a generator.
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
            WorkStream::Pool { buffer, stream } => plan.is_of_pool(buffer).then_some(stream),
            WorkStream::NearestTo(buffer) => (!plan.on_host(buffer)).then_some(DEFAULT_STREAM),
        }
    }
}

/// What the interface promises to be over when the call returns, besides what the host does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are what the call is given")]
pub enum CompletedOnReturn<'a> {
    /// Nothing.
    Nothing,
    /// What is promised of a copy between the memories of these buffers.
    Copy { asynchronous: bool, to: &'a str, from: &'a str },
}

/// A field that says whether the host goes on before the work is done.
pub trait Asynchronous {
    /// Whether it does.
    fn goes_on(&self) -> bool;
    /// Whether the field is as in the plainest of these calls.
    fn is_plain(&self) -> bool;
    /// Makes it so.
    fn make_plain(&mut self);
}

impl Asynchronous for bool {
    fn goes_on(&self) -> bool {
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
    fn goes_on(&self) -> bool {
        *self == crate::CopyApi::MemcpyAsync
    }

    fn is_plain(&self) -> bool {
        *self == crate::CopyApi::Memcpy
    }

    fn make_plain(&mut self) {
        *self = crate::CopyApi::Memcpy;
    }
}
