use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Names;

/// Component that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
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
    /// The value is one of the names in `all`.
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
    /// Describes the valid values. Of names, lists those most similar to `written`.
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
        /// A bug that can be injected. If a case declares a fault, the case must fail when that fault is injected.
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
            pub const fn place(self) -> Place {
                match self { $(Fault::$variant => Place::$place),* }
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
        "The last bytes of a copy (a quarter of it, 1 to 64 bytes) are not written."
    CopyMisplaced "copy.misplaced" Device (bytes: number(4, 1, 65536))
        "A copy arrives `bytes` bytes behind its place, and its end is cut off."
    CopyLate "copy.late" Device (ms: number(20, 1, HOUR))
        "A copy signals completion at once, and its bytes are fetched and arrive `ms` milliseconds later."
    CopyOverrun "copy.overrun" Device (bytes: number(16, 1, 256))
        "A copy writes `bytes` zero bytes behind its end, where the device has memory there."
    CopyPageFault "copy.page-fault" Device
        "A copy touches memory that is not mapped."
    CopyTwice "copy.twice" Device
        "A copy is carried out again behind the next copy to the same place."
    CacheStale "cache.stale" Device (bytes: number(128, 1, 65536))
        "The first `bytes` bytes of a copy to the device are seen by kernels only from the second dispatch on, as when a cache line is not invalidated."
    SdmaZero "sdma.zero" Device
        "The copy engine writes zeros; copies that the runtime makes with kernels arrive whole."
    KernelDrop "kernel.drop" Device
        "A kernel dispatch completes without being executed."
    KernelStaleArgs "kernel.stale-args" Device
        "A kernel runs with the argument bytes of the previous dispatch of the same kernel."
    KernelWrongArgs "kernel.wrong-args" Device (byte: number(20, 0, 4095))
        "A kernel runs with the lowest bit of the byte `byte` of its arguments flipped, counted round where they are fewer."
    KernelTwice "kernel.twice" Device
        "A kernel dispatch is executed two times."
    LaunchSlow "launch.slow" Device (factor: number(10, 2, 1_000_000)) (ms: number(3000, 0, HOUR)) (from: number(3, 1, 1_000_000))
        "Kernel dispatches from number `from` on take `factor` times as long, and `ms` milliseconds more."
    KernelPageFault "kernel.page-fault" Device
        "A kernel touches memory that is not mapped."
    KernelWrongUnit "kernel.wrong-unit" Device (unit: number(0, 0, 303))
        "One compute unit computes wrongly: the first work-item of each wave that runs on unit `unit`, counted round where there are fewer, takes itself for the second."
    ModuleZeroed "module.zeroed" Device
        "The variables of a loaded module are zero, whatever their initial values are."
    SignalStuck "signal.stuck" Device
        "The completion signal of a dispatch or copy is never lowered, so a wait for it hangs."
    SignalEarly "signal.early" Device (ms: number(20, 1, HOUR))
        "The completion signal of a dispatch is lowered `ms` milliseconds before the kernel runs."
    QueueBarrierIgnored "queue.barrier-ignored" Device
        "The barrier bits of a queue are ignored: a packet that is waited for is executed before the packets ahead of it."
    QueueError "queue.error" Device (dispatch: number(1, 1, 1_000_000))
        "The dispatch of number `dispatch` ends its queue with an error; other queues go on."
    DeviceLost "device.lost" Device
        "The queue reports an error at the first kernel dispatch and executes nothing from then on."
    DeviceReset "device.reset" Device (dispatch: number(1, 1, 1_000_000))
        "The device is reset behind the runtime's back after the dispatch of number `dispatch`: all of its memory reads zero."
    AllocLeak "alloc.leak" Device
        "Freed device memory is not given back to the free total."
    AllocFreedTwice "alloc.freed-twice" Device
        "Freed device memory goes back two times, so that two later allocations of its size get one place."
    AllocAlias "alloc.alias" Device
        "An allocation of device memory gets the address of a live one of the same size."
    MemoryFreeWrong "memory.free-wrong" Device (percent: number(50, 0, 99))
        "Every second answer to how much device memory is free is `percent` percent of the truth."
    MemoryTotalWrong "memory.total-wrong" Device (percent: number(50, 1, 99))
        "The device says that it has `percent` percent of its memory, as where an APU counts its carve-out alone, and more of it is free."
    GraphOverwriteOutput "graph.overwrite-output" Call
        "What is read after a graph launch is read only after the next launch, so the later replay has overwritten it."
    GraphLaunchLost "graph.launch-lost" Call
        "A graph launch answers success and launches nothing."
    GraphLaunchTwice "graph.launch-twice" Call
        "One graph launch runs the graph two times."
    GraphNodeLost "graph.node-lost" Call
        "A captured kernel launch, copy or host function answers success and leaves no node in the graph."
    GraphUpdateIgnored "graph.update-ignored" Call
        "An update of an executable graph answers success and changes nothing."
    CaptureRefused "capture.refused" Call
        "A kernel launch, copy or host function on a captured stream is refused, as if capture forbade it."
    CompileError "compile.error" Call
        "Compiling a kernel at run time fails."
    TeardownCrash "teardown.crash" Call
        "The process dies when it gives back what it used, after everything was right."
    HostFuncLost "host-func.lost" Call
        "A host function that is given to a stream is never called."
    CallAccepted "call.accepted" Call
        "A call that is refused, as the case wants, answers success; each such call is an opportunity."
    CallDenied "call.denied" Call
        "A call that the case lets be refused, and that succeeds, answers hipErrorUnknown although it did its work."
    ValueWrong "value.wrong" Call
        "A call whose value the case states gives another one: a number that is not there, another word."
    CallCrash "call.crash" Call (call: function("hipMalloc"))
        "A call of `call` kills the process."
    CallHang "call.hang" Call (call: function("hipFreeAsync"))
        "A call of `call` never returns."
    CallRefused "call.refused" Call (call: function("hipMemGetInfo")) (status: error("hipErrorInvalidValue"))
        "A call of `call` is refused with `status`, for no reason."
    CallIgnored "call.ignored" Call (call: function("hipMemset"))
        "A call of `call` answers success and does nothing, so that what it would have written keeps its content."
    CallLeak "call.leak" Call (call: function("hipMemcpy")) (bytes: number(256, 16, 1_048_576))
        "A call of `call` in a C++ program does its work and never gives back `bytes` bytes of the host's memory."
    CallSlow "call.slow" Call (call: function("hipModuleLaunchKernel")) (ms: number(3000, 1, HOUR))
        "A call of `call` is made `ms` milliseconds late."
    RngCaptureError "rng.capture-error" Call
        "The random generator refuses to generate while its stream is captured."
    RngSkips "rng.skips" Call (generate: number(2, 1, 1000))
        "The generate call of number `generate` advances the generator two times, and leaves the second batch."
    GemmNotSupported "gemm.not-supported" Call
        "The matmul heuristic answers that the problem is not supported."
    HandleCrash "handle.crash" Call
        "Creating a library handle kills the process."
    HandleExit "handle.exit" Call
        "Creating a library handle ends the process by exit, as hipblasLtCreate does where it finds no device."
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
        write!(f, "no fault is called `{}`; there are {}", self.0, known.join(", "))
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
