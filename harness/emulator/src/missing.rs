//! Calls that the HIP runtime binds but the emulated device does not offer.
//!
//! They must exist, or the runtime cannot be loaded. Each fails, and says so: the program under test
//! went where the emulation cannot follow.

use crate::{abi::Status, report};

macro_rules! missing {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> Status {
            report::gap("(none)", concat!("call not emulated: ", stringify!($name)));
            Status::ERROR
        })*
    };
}

missing! {
    // Images and samplers.
    hsa_amd_image_create
    hsa_ext_image_create
    hsa_ext_image_create_with_layout
    hsa_ext_image_data_get_info
    hsa_ext_image_destroy
    hsa_ext_image_export
    hsa_ext_image_import
    hsa_ext_sampler_create
    hsa_ext_sampler_create_v2
    hsa_ext_sampler_destroy
    // Memory shared with other processes, devices and interfaces.
    hsa_amd_interop_map_buffer
    hsa_amd_interop_unmap_buffer
    hsa_amd_ipc_memory_attach
    hsa_amd_ipc_memory_create
    hsa_amd_ipc_memory_detach
    hsa_amd_portable_export_dmabuf
    // Shared virtual memory with page migration: the system says that it is not supported.
    hsa_amd_svm_attributes_get
    hsa_amd_svm_attributes_set
    hsa_amd_svm_prefetch_async
    // Files read and written by the device.
    hsa_amd_ais_file_read
    hsa_amd_ais_file_write
}

macro_rules! without_effect {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> Status {
            Status::SUCCESS
        })*
    };
}

without_effect! {
    // The emulated device has no caches to be coherent with, no scratch to reclaim and a log of
    // its own.
    hsa_amd_coherency_set_type
    hsa_amd_agent_set_async_scratch_limit
    hsa_amd_enable_logging
}
