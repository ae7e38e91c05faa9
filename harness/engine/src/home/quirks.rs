//! Library names that programs built for AMD's packages load, and that the stacks of some distributions do not have.

use std::path::PathBuf;

use stacks::Stack;

use super::stub_library::StubLibrary;

/// A library name that a stack does not have.
pub(super) enum Quirk {
    /// Programs load the library by this name. The stack has it under another name.
    Renamed(&'static str),
    /// The stack has the library under the name `of`, but its symbols have other versions than programs need.
    Vendored { name: &'static str, of: &'static str },
    /// The stack does not have the library in any form.
    Missing(StubLibrary),
}

pub(super) const QUIRKS: &[Quirk] = &[
    // hipGetProcAddress opens the first of these two names, and programs that bind to HIP open both. Debian has them
    // only in development packages.
    Quirk::Renamed("libamdhip64.so"),
    Quirk::Renamed("libhiprtc.so"),
    // Version 7 of this library has version number 1 in AMD's packages, to which XLA is linked.
    Quirk::Renamed("librocm_smi64.so.1"),
    // AMD's newer packages (those of ROCm 7.14, for example) contain these libraries of the system under names of their
    // own, and their symbols have the version AMDROCM_SYSDEPS_1.0. The LLVM of numba-hip is linked to the first two,
    // and JAX 0.12 to the other three.
    Quirk::Vendored { name: "librocm_sysdeps_z.so.1", of: "libz.so.1" },
    Quirk::Vendored { name: "librocm_sysdeps_zstd.so.1", of: "libzstd.so.1" },
    Quirk::Vendored { name: "librocm_sysdeps_drm.so.2", of: "libdrm.so.2" },
    Quirk::Vendored { name: "librocm_sysdeps_drm_amdgpu.so.1", of: "libdrm_amdgpu.so.1" },
    Quirk::Vendored { name: "librocm_sysdeps_numa.so.1", of: "libnuma.so.1" },
    // Debian does not package AMD SMI. JAX 0.12 asks it for the speed of memory and links, and works without an answer.
    Quirk::Missing(StubLibrary {
        soname: "libamd_smi.so.26",
        version: Some("AMDSMI_1"),
        needs: None,
        functions: &[
            "amdsmi_get_gpu_metrics_info",
            "amdsmi_get_pcie_info",
            "amdsmi_get_processor_handle_from_bdf",
            "amdsmi_get_processor_handles",
            "amdsmi_get_processor_type",
            "amdsmi_get_socket_handles",
            "amdsmi_get_xgmi_info",
            "amdsmi_init",
            "amdsmi_status_code_to_string",
            "amdsmi_topo_get_link_type",
        ],
        texts: &[],
    }),
    // Debian does not package roctracer. CuPy is linked to it for cupy.cuda.profiler.
    Quirk::Missing(StubLibrary {
        soname: "libroctracer64.so.4",
        version: Some("ROCTRACER_4.0"),
        needs: None,
        functions: &["roctracer_start", "roctracer_stop"],
        texts: &[],
    }),
    // Debian does not package rocprofiler-sdk. JAX's plugin is linked to these functions of it for jax.profiler.
    Quirk::Missing(StubLibrary {
        soname: "librocprofiler-sdk.so.1",
        version: None,
        needs: None,
        functions: &[
            "rocprofiler_assign_callback_thread",
            "rocprofiler_configure_buffer_tracing_service",
            "rocprofiler_configure_callback_tracing_service",
            "rocprofiler_configure_external_correlation_id_request_service",
            "rocprofiler_context_is_valid",
            "rocprofiler_create_buffer",
            "rocprofiler_create_callback_thread",
            "rocprofiler_create_context",
            "rocprofiler_flush_buffer",
            "rocprofiler_force_configure",
            "rocprofiler_get_timestamp",
            "rocprofiler_iterate_callback_tracing_kind_operations",
            "rocprofiler_iterate_callback_tracing_kinds",
            "rocprofiler_query_available_agents",
            "rocprofiler_query_callback_tracing_kind_name",
            "rocprofiler_query_callback_tracing_kind_operation_name",
            "rocprofiler_start_context",
            "rocprofiler_stop_context",
        ],
        texts: &["rocprofiler_get_status_string"],
    }),
];

impl Quirk {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Quirk::Renamed(name) | Quirk::Vendored { name, .. } => name,
            Quirk::Missing(stub) => stub.soname,
        }
    }

    /// For [`Quirk::Renamed`], returns the stack's file of the library, which has another name. `None` if the stack
    /// also has a file with the name that programs load, or does not have the library.
    pub(super) fn other_name(&self, stack: &Stack) -> Option<PathBuf> {
        let Quirk::Renamed(name) = self else { return None };
        let end = name.find(".so")? + ".so".len();
        let file = stack.library(&name[..end])?;
        (file.file_name()? != *name && !file.with_file_name(name).exists()).then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stub_is_a_valid_library() {
        for quirk in QUIRKS {
            assert!(quirk.name().contains(".so"), "{}", quirk.name());
            if let Quirk::Missing(stub) = quirk {
                let library = stub.library().unwrap();
                let object = object::File::parse(&*library).unwrap();
                let names = object::Object::dynamic_symbols(&object).count();
                assert_eq!(names, stub.functions.len() + stub.texts.len());
            }
        }
    }
}
