//! Kinds and flags of packets: `hsa_packet_type_t`, `hsa_packet_header_t` and `hsa_amd_packet_type_t`.

/// A vendor-specific packet. The third byte of the packet is its format.
pub const VENDOR: u8 = 0;
/// A slot of the queue that contains no packet.
pub const INVALID: u8 = 1;
/// A kernel dispatch.
pub const DISPATCH: u8 = 2;
/// A packet that waits for all of its signals.
pub const BARRIER_AND: u8 = 3;
/// A packet that waits for any one of its signals.
pub const BARRIER_OR: u8 = 5;
/// `HSA_PACKET_HEADER_BARRIER`: the packet starts only when all earlier packets of the queue are complete.
pub const BARRIER_BIT: u16 = 1 << 8;
/// Format of a vendor-specific packet that contains commands for the command processor. ROCr submits such packets to
/// invalidate caches (`AqlQueue::ExecutePM4`).
pub const FORMAT_COMMANDS: u8 = 1;
/// Format `HSA_AMD_PACKET_TYPE_BARRIER_VALUE` of a vendor-specific packet.
pub const FORMAT_BARRIER_VALUE: u8 = 2;
