//! Emulated AMD device: a `libhsa-runtime64.so.1` that a released HIP runtime loads in place of ROCr. Faults can be
//! injected into the device.
//!
//! The HIP runtime, its compiler and the libraries above it run unmodified. The library replaces everything below the
//! HSA interface. The crate does not depend on cases, plans or verdicts. Its configuration is one environment variable
//! ([`device::CONFIG_VARIABLE`]), and its messages go to standard error in lines that start with `rocrepro-device:`.
//!
//! The device does not model timing, caches, the memory model or page migration.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the HIP runtime, and therefore this device, exists only for x86-64 Linux");

mod abi;
mod address_map;
mod agents;
mod blit;
mod caches;
mod clock;
mod code_object;
mod config;
mod copy_engine;
mod crash;
mod deallocation;
mod decoder;
mod delay;
mod dispatch;
mod events;
mod faults;
mod findings;
mod idle;
mod images;
pub mod install;
mod ipc;
mod isas;
pub mod kfd;
mod loader;
mod locks;
mod memory;
mod missing;
mod order;
mod packets;
mod part;
mod pools;
mod queue;
mod regions;
mod rest;
mod row;
mod sanitizer;
mod schedule;
mod signal;
mod system;
mod system_events;
mod transfer;
mod vmem;
mod whole;
mod witness;

use aql::report;
use device::model;
