//! Packets of AQL queues, the limits that a packet processor checks, and the lines that a device writes to standard
//! error.
//!
//! Both levels of the emulated device use this crate: the one that replaces the HSA runtime (`emulator`), and the one
//! that replaces the thunk below a released HSA runtime (`thunk`).

pub mod kind;
mod limits;
mod packets;
pub mod report;

pub use limits::{Refusal, refused, room};
pub use packets::{BarrierPacket, BarrierValuePacket, Condition, DispatchPacket};
