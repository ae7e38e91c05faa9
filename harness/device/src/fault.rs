use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a fault is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the emulated device, below the HSA interface: the HIP runtime is deceived.
    Device,
    /// At a call of the plan, by the worker: stands for bugs inside the runtime or a library.
    Call,
}

macro_rules! faults {
    ($($variant:ident $name:literal $place:ident $about:literal)*) => {
        /// A bug planted on purpose; a case that declares it must turn red under it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Fault { $(#[doc = $about] $variant,)* }

        impl Fault {
            /// The whole catalogue.
            pub const ALL: &[Fault] = &[$(Fault::$variant),*];

            /// The name used in cases and on the command line, `what.how`.
            pub const fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name),* }
            }

            /// What goes wrong, in one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Fault::$variant => $about),* }
            }

            /// Who misbehaves.
            pub const fn place(self) -> Place {
                match self { $(Fault::$variant => Place::$place),* }
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
    SdmaZero "sdma.zero" Device
        "The copy engine writes zeros; copies that the runtime makes with kernels arrive whole."
    KernelDrop "kernel.drop" Device
        "A kernel dispatch completes without being executed."
    KernelStaleArgs "kernel.stale-args" Device
        "A kernel runs with the argument bytes of the previous dispatch of the same kernel."
    SignalStuck "signal.stuck" Device
        "The completion signal of a dispatch or copy is never lowered, so whoever waits hangs."
    DeviceLost "device.lost" Device
        "The queue reports an error at the first kernel dispatch and executes nothing from then on."
    AllocLeak "alloc.leak" Device
        "Freed device memory is not given back to the free total."
    GraphOverwriteOutput "graph.overwrite-output" Call
        "What is read after a graph launch is read only after the next launch, so the later replay has overwritten it."
    GraphLaunchLost "graph.launch-lost" Call
        "A graph launch answers success and launches nothing."
    GraphLaunchTwice "graph.launch-twice" Call
        "One graph launch runs the graph two times."
    RngCaptureError "rng.capture-error" Call
        "The random generator refuses to generate while its stream is captured."
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

/// The name is not in the catalogue of faults.
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
