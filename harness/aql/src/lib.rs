//! Packets of AQL queues, the limits that a packet processor checks, and the lines that a device writes to standard
//! error.
//!
//! Both variants of the emulated device use this crate: `emulator`, which replaces the HSA runtime, and `thunk`, which
//! replaces the thunk below the HSA runtime of a ROCm release.

pub mod kind;
mod limits;
mod packets;
pub mod report;

pub use limits::{Refusal, rejection_reason, room};
pub use packets::{BarrierPacket, BarrierValuePacket, Condition, DispatchPacket};
