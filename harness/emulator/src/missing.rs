//! Calls that a released runtime exports but the emulated device does not offer.
//!
//! They must exist, or the HIP runtime and other programs cannot be loaded. Each fails, and says so: the program under
//! test went where the emulation cannot follow.

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
    // Images of other interfaces, whose layout is theirs.
    hsa_amd_image_create
    // Memory of other devices and interfaces, and signals shared with other processes: who waits for a signal is woken inside of
    // its process, so another could not be told.
    hsa_amd_interop_map_buffer
    hsa_amd_interop_unmap_buffer
    hsa_amd_ipc_signal_attach
    hsa_amd_ipc_signal_create
    // Shared virtual memory with page migration: the system says that it is not supported.
    hsa_amd_svm_attributes_get
    hsa_amd_svm_attributes_set
    hsa_amd_svm_prefetch_async
    // Files read and written by the device.
    hsa_amd_ais_file_read
    hsa_amd_ais_file_write
    // Counters and samples of the hardware.
    hsa_amd_spm_acquire
    hsa_amd_spm_release
    hsa_amd_spm_set_dest_buffer
    hsa_ven_amd_pcs_create
    hsa_ven_amd_pcs_create_from_id
    hsa_ven_amd_pcs_destroy
    hsa_ven_amd_pcs_flush
    hsa_ven_amd_pcs_iterate_configuration
    hsa_ven_amd_pcs_start
    hsa_ven_amd_pcs_stop
    // Code objects as handles, which readers have taken the place of, and those for programs instead of agents.
    hsa_code_object_deserialize
    hsa_code_object_destroy
    hsa_code_object_get_info
    hsa_code_object_get_symbol
    hsa_code_object_get_symbol_from_name
    hsa_code_object_iterate_symbols
    hsa_code_object_serialize
    hsa_code_symbol_get_info
    hsa_executable_global_variable_define
    hsa_executable_load_code_object
    hsa_executable_load_program_code_object
    hsa_executable_readonly_variable_define
    // The finalizer: there is no BRIG to compile.
    hsa_ext_program_add_module
    hsa_ext_program_create
    hsa_ext_program_destroy
    hsa_ext_program_finalize
    hsa_ext_program_get_info
    hsa_ext_program_iterate_modules
    // Queues whose packets the host carries out, and what a program hangs on an allocation or on the device's threads.
    hsa_soft_queue_create
    hsa_amd_async_function
    hsa_amd_pointer_info_set_userdata
}

macro_rules! refused {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> Status {
            Status::OUT_OF_RESOURCES
        })*
    };
}

refused! {
    // ROCr itself has never had these (`MemoryRegion::CanMigrate`, `MemoryRegion::Migrate`).
    hsa_amd_memory_migrate
    hsa_amd_memory_pool_can_migrate
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
    // The emulated device has no scratch to reclaim and a log of its own.
    hsa_amd_agent_set_async_scratch_limit
    hsa_amd_enable_logging
}
