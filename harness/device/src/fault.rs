use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Names;

/// Component that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPlace {
    /// The emulated device, below the HSA interface and thus below the HIP runtime.
    Device,
    /// A call in the plan. The worker modifies the call to imitate a bug inside the runtime or a library.
    Call,
}

/// A parameter of a fault, for example the milliseconds by which a copy is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the parameter. If the value has a unit, the name is the unit, for example `ms`.
    pub name: &'static str,
    /// Valid values, and the default.
    pub values: Values,
}

/// The values that a [`Parameter`] accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Integers from `least` to `most`.
    Number {
        /// Default value.
        usual: u64,
        /// Smallest value that has an effect.
        least: u64,
        /// Largest valid value.
        most: u64,
    },
    /// One of the names in `of`.
    Name {
        /// Default value.
        usual: &'static str,
        /// Valid names.
        of: Names,
    },
}

impl Values {
    /// Returns the default value as it is written in a case.
    pub fn usual(self) -> String {
        match self {
            Values::Number { usual, .. } => usual.to_string(),
            Values::Name { usual, .. } => usual.to_owned(),
        }
    }
}

impl Values {
    /// Describes the valid values. If the values are names, lists the names that are most similar to `written`.
    pub fn near(self, written: &str) -> String {
        match self {
            Values::Number { .. } => self.to_string(),
            Values::Name { of, .. } => {
                let near = of.nearest(written).join(", ");
                format!("{near} or another one: `rocrepro case explain --faults` has all")
            }
        }
    }
}

/// Formats the valid values, for example `2 to 1000`.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Number { least, most, .. } => write!(f, "{least} to {most}"),
            Values::Name { of: Names::Functions, .. } => {
                f.write_str("a function of the list below")
            }
            Values::Name { of: Names::Errors, .. } => f.write_str("an error of hipError_t"),
        }
    }
}

const fn number(usual: u64, least: u64, most: u64) -> Values {
    Values::Number { usual, least, most }
}

const fn function(usual: &'static str) -> Values {
    Values::Name { usual, of: Names::Functions }
}

const fn error(usual: &'static str) -> Values {
    Values::Name { usual, of: Names::Errors }
}

/// One hour in milliseconds, longer than any time limit of a trial.
const HOUR: u64 = 3_600_000;

macro_rules! faults {
    ($($variant:ident $name:literal $place:ident $(($parameter:ident: $values:expr))* $about:literal)*) => {
        /// A bug that can be injected. A case that declares a fault must fail when the fault is injected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Fault { $(#[doc = $about] $variant,)* }

        impl Fault {
            /// All faults.
            pub const ALL: &[Fault] = &[$(Fault::$variant),*];

            /// Returns the name by which cases and the command line refer to the fault, as `component.effect`.
            pub const fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name),* }
            }

            /// Describes the effect in one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Fault::$variant => $about),* }
            }

            /// Returns the affected component.
            pub const fn place(self) -> FaultPlace {
                match self { $(Fault::$variant => FaultPlace::$place),* }
            }

            /// Returns the parameters of the fault.
            pub const fn parameters(self) -> &'static [Parameter] {
                match self {
                    $(Fault::$variant => const { &[
                        $(Parameter { name: stringify!($parameter), values: $values }),*
                    ] },)*
                }
            }
        }
    };
}

faults! {
    CopyZero "copy.zero" Device
        "The copy engine writes zeros instead of the source."
    CopyDrop "copy.drop" Device
        "The copy engine signals completion without copying."
    CopyLostSmallSlot "copy.lost-small-slot" Device
        "Every second host-to-device copy of at most 64 bytes arrives as zeros, as when two staging slots share a cache line."
    CopyTorn "copy.torn" Device
        "The last bytes of a copy (a quarter of the copy, 1 to 64 bytes) are not written."
    CopyMisplaced "copy.misplaced" Device (bytes: number(4, 1, 65536))
        "A copy is written `bytes` bytes after its target address, and its last `bytes` bytes are left out."
    CopyLate "copy.late" Device (ms: number(20, 1, HOUR))
        "A copy signals completion immediately, but reads and writes its bytes `ms` milliseconds later."
    CopyOverrun "copy.overrun" Device (bytes: number(16, 1, 256))
        "A copy also writes `bytes` zero bytes after its end, if the device has memory there."
    CopyPageFault "copy.page-fault" Device
        "A copy touches memory that is not mapped."
    CopyTwice "copy.twice" Device
        "A copy is executed again after the next copy to the same address."
    CacheStale "cache.stale" Device (bytes: number(128, 1, 65536))
        "The first dispatch after a copy to the device still sees the old content of the first `bytes` bytes, as if a \
         cache line were not invalidated."
    SdmaZero "sdma.zero" Device
        "The copy engine writes zeros; copies that the runtime executes with kernels are correct."
    KernelDrop "kernel.drop" Device
        "A kernel dispatch completes without being executed."
    KernelStaleArgs "kernel.stale-args" Device
        "A kernel runs with the argument bytes of the previous dispatch of the same kernel."
    KernelWrongArgs "kernel.wrong-args" Device (byte: number(20, 0, 4095))
        "A kernel runs with the lowest bit of byte `byte` of its arguments flipped; `byte` is taken modulo the size \
         of the arguments."
    KernelTwice "kernel.twice" Device
        "A kernel dispatch is executed twice."
    LaunchSlow "launch.slow" Device (factor: number(10, 2, 1_000_000)) (ms: number(3000, 0, HOUR)) (from: number(3, 1, 1_000_000))
        "Kernel dispatches from number `from` on take `factor` times as long, plus `ms` milliseconds."
    KernelPageFault "kernel.page-fault" Device
        "A kernel touches memory that is not mapped."
    KernelWrongUnit "kernel.wrong-unit" Device (unit: number(0, 0, 303))
        "One compute unit is faulty: on unit `unit` (modulo the number of units), the first work-item of each wave \
         uses the index of the second."
    ModuleZeroed "module.zeroed" Device
        "The variables of a loaded module are zero, whatever their initial values are."
    SignalStuck "signal.stuck" Device
        "The completion signal of a dispatch or copy is never decremented, so a wait for the signal hangs."
    SignalEarly "signal.early" Device (ms: number(20, 1, HOUR))
        "The completion signal of a dispatch is decremented `ms` milliseconds before the kernel runs."
    QueueBarrierIgnored "queue.barrier-ignored" Device
        "The barrier bits of a queue are ignored: a packet for which a thread waits is executed before the earlier \
         packets of its queue."
    QueueError "queue.error" Device (dispatch: number(1, 1, 1_000_000))
        "Dispatch number `dispatch` stops its queue with an error; other queues continue."
    DeviceLost "device.lost" Device
        "The queue reports an error at the first kernel dispatch and executes nothing from then on."
    DeviceReset "device.reset" Device (dispatch: number(1, 1, 1_000_000))
        "After dispatch number `dispatch`, the device is reset and does not notify the runtime: all device memory \
         becomes zero."
    AllocLeak "alloc.leak" Device
        "Freed device memory does not increase the reported free memory."
    AllocFreedTwice "alloc.freed-twice" Device
        "Device memory is freed twice, so that two later allocations of its size get the same address."
    AllocAlias "alloc.alias" Device
        "An allocation of device memory gets the address of a live allocation of the same size."
    MemoryFreeWrong "memory.free-wrong" Device (percent: number(50, 0, 99))
        "Every second query of the free device memory returns `percent` percent of the true value."
    MemoryTotalWrong "memory.total-wrong" Device (percent: number(50, 1, 99))
        "The device reports `percent` percent of its memory as its total, as if an APU counted only its carve-out, so \
         more memory can be free than the total."
    GraphOverwriteOutput "graph.overwrite-output" Call
        "A read after a graph launch happens only after the next launch, so the later replay has already overwritten \
         the data."
    GraphLaunchLost "graph.launch-lost" Call
        "A graph launch returns success but launches nothing."
    GraphLaunchTwice "graph.launch-twice" Call
        "One graph launch runs the graph twice."
    GraphNodeLost "graph.node-lost" Call
        "A captured kernel launch, copy or host function returns success but adds no node to the graph."
    GraphUpdateIgnored "graph.update-ignored" Call
        "An update of an executable graph returns success but changes nothing."
    CaptureRefused "capture.refused" Call
        "A kernel launch, copy or host function on a captured stream fails, as if it were not allowed during capture."
    CompileError "compile.error" Call
        "Compiling a kernel at run time fails."
    TeardownCrash "teardown.crash" Call
        "The process crashes when it frees its resources, after all results were right."
    HostFuncLost "host-func.lost" Call
        "A host function in a stream is never called."
    CallAccepted "call.accepted" Call
        "A call returns success although the case accepts only errors for it; only such calls count as opportunities."
    CallDenied "call.denied" Call
        "A call that may fail according to the case does its work, but returns hipErrorUnknown."
    ValueWrong "value.wrong" Call
        "A call returns a value that differs from the one in the case: an impossible number or another word."
    CallCrash "call.crash" Call (call: function("hipMalloc"))
        "A call of `call` kills the process."
    CallHang "call.hang" Call (call: function("hipFreeAsync"))
        "A call of `call` never returns."
    CallRefused "call.refused" Call (call: function("hipMemGetInfo")) (status: error("hipErrorInvalidValue"))
        "A call of `call` fails with `status` without a reason."
    CallIgnored "call.ignored" Call (call: function("hipMemset"))
        "A call of `call` returns success but does nothing, so that its output memory keeps the old content."
    CallLeak "call.leak" Call (call: function("hipMemcpy")) (bytes: number(256, 16, 1_048_576))
        "A call of `call` in a C++ program does its work but leaks `bytes` bytes of host memory."
    CallSlow "call.slow" Call (call: function("hipModuleLaunchKernel")) (ms: number(3000, 1, HOUR))
        "A call of `call` is delayed by `ms` milliseconds."
    RngCaptureError "rng.capture-error" Call
        "Generating random numbers fails while the stream of the generator is captured."
    RngSkips "rng.skips" Call (generate: number(2, 1, 1000))
        "Call number `generate` that generates random numbers advances the generator twice and returns the second \
         batch."
    GemmNotSupported "gemm.not-supported" Call
        "The matmul heuristic reports that the problem is not supported."
    HandleCrash "handle.crash" Call
        "Creating a library handle kills the process."
    HandleExit "handle.exit" Call
        "Creating a library handle exits the process, as hipblasLtCreate does if it finds no device."
    HandleHang "handle.hang" Call
        "Creating a library handle never returns."
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for an unknown fault name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFault(pub String);

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Fault::ALL.iter().map(|f| f.name()).collect();
        write!(f, "unknown fault `{}`; available are {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownFault {}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Fault::ALL.iter().copied().find(|f| f.name() == s).ok_or_else(|| UnknownFault(s.to_owned()))
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
