//! Layouts of packets, as `hsa.h` and `hsa_ext_amd.h` define them. `S` is the type of a signal handle.

/// `hsa_kernel_dispatch_packet_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DispatchPacket<S = u64> {
    /// Kind and flags.
    pub header: u16,
    /// Number of dimensions, in the two lowest bits.
    pub setup: u16,
    /// Size of a workgroup, in work-items.
    pub workgroup: [u16; 3],
    /// Not used.
    pub reserved0: u16,
    /// Size of the grid, in work-items.
    pub grid: [u32; 3],
    /// Scratch memory of a work-item, in bytes.
    pub private_bytes: u32,
    /// LDS of a workgroup, in bytes.
    pub group_bytes: u32,
    /// Address of the kernel descriptor.
    pub kernel_object: u64,
    /// Address of the arguments.
    pub kernarg: u64,
    /// Not used.
    pub reserved2: u64,
    /// Signal that is decremented when the kernel ends.
    pub completion: S,
}

/// `hsa_barrier_and_packet_t` and `hsa_barrier_or_packet_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BarrierPacket<S = u64> {
    /// Kind and flags.
    pub header: u16,
    /// Not used.
    pub reserved0: u16,
    /// Not used.
    pub reserved1: u32,
    /// Signals for which the packet waits. Null signals are ignored.
    pub dependencies: [S; 5],
    /// Not used.
    pub reserved2: u64,
    /// Signal that is decremented when the wait ends.
    pub completion: S,
}

/// `hsa_amd_barrier_value_packet_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BarrierValuePacket<S = u64> {
    /// Kind and flags.
    pub header: u16,
    /// Format of the vendor-specific packet.
    pub format: u8,
    /// Not used.
    pub reserved: u8,
    /// Not used.
    pub reserved0: u32,
    /// Signal whose value is compared.
    pub signal: S,
    /// Value with which the signal's value is compared.
    pub value: i64,
    /// Bits of the signal's value that are compared.
    pub mask: i64,
    /// Comparison of the signal's value with `value`, as the number of a [`Condition`].
    pub condition: u32,
    /// Not used.
    pub reserved1: u32,
    /// Not used.
    pub reserved2: [u64; 2],
    /// Signal that is decremented when the wait ends.
    pub completion: S,
}

const _: () = {
    assert!(size_of::<DispatchPacket>() == 64);
    assert!(size_of::<BarrierPacket>() == 64);
    assert!(size_of::<BarrierValuePacket>() == 64);
};

/// `hsa_signal_condition_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Greater than or equal.
    Gte,
}

impl Condition {
    /// Returns the condition with this number in the C interface; `None` if the number is not 0 to 3.
    pub fn from_c(value: u32) -> Option<Condition> {
        [Condition::Eq, Condition::Ne, Condition::Lt, Condition::Gte].get(value as usize).copied()
    }

    /// Returns true if the comparison of `value` with `reference` is true, for example `value < reference` for
    /// [`Condition::Lt`].
    pub fn holds(self, value: i64, reference: i64) -> bool {
        match self {
            Condition::Eq => value == reference,
            Condition::Ne => value != reference,
            Condition::Lt => value < reference,
            Condition::Gte => value >= reference,
        }
    }
}
