//! Functions that a released ROCr exports but the emulated device does not implement.
//!
//! If these symbols were missing, the HIP runtime and other programs could not be loaded. Each function reports that it
//! is not emulated, and returns an error.

use crate::{abi::Status, report};

macro_rules! missing {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> Status {
            report::unsupported("(none)", concat!("call not emulated: ", stringify!($name)));
            Status::ERROR
        })*
    };
}

missing! {
    // These functions import images of graphics interfaces, which have a layout of their own.
    hsa_amd_image_create
    // These functions import memory of graphics interfaces, or share signals with other processes. A thread that waits
    // for a signal is only woken by its own process.
    hsa_amd_interop_map_buffer
    hsa_amd_interop_unmap_buffer
    hsa_amd_ipc_signal_attach
    hsa_amd_ipc_signal_create
    // These functions manage shared virtual memory with page migration. The system attributes report that it is not
    // supported.
    hsa_amd_svm_attributes_get
    hsa_amd_svm_attributes_set
    hsa_amd_svm_prefetch_async
    // These functions let the device access files directly.
    hsa_amd_ais_file_read
    hsa_amd_ais_file_write
    // These functions read hardware counters and samples.
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
    // These functions use handles of code objects, which code object readers have replaced, or code objects that belong
    // to a program instead of an agent.
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
    // These functions belong to the finalizer, which compiled BRIG (an intermediate language).
    hsa_ext_program_add_module
    hsa_ext_program_create
    hsa_ext_program_destroy
    hsa_ext_program_finalize
    hsa_ext_program_get_info
    hsa_ext_program_iterate_modules
    // These functions are about queues whose packets the host processes, user data of allocations, and threads of the
    // device.
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
    // ROCr has never implemented these functions either (`MemoryRegion::CanMigrate`, `MemoryRegion::Migrate`).
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
    // These functions are about scratch memory that can be reclaimed, and the log of ROCr. The emulated device has
    // neither.
    hsa_amd_agent_set_async_scratch_limit
    hsa_amd_enable_logging
}
