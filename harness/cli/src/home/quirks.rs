//! What a release needs besides its files before programs load that were built for AMD's own packages: one table.

use std::path::PathBuf;

use stacks::Stack;

use super::stand_in::StandIn;

/// A library that programs load by a name that a release does not have.
pub(super) enum Quirk {
    /// The release has it by another name.
    Renamed(&'static str),
    /// The release has none.
    Missing(StandIn),
}

pub(super) const QUIRKS: &[Quirk] = &[
    // hipGetProcAddress opens the first name, programs that bind to HIP open both; Debian has them in its packages for
    // developers only.
    Quirk::Renamed("libamdhip64.so"),
    Quirk::Renamed("libhiprtc.so"),
    // AMD's own packages call version 7 of this library 1; XLA is linked to it.
    Quirk::Renamed("librocm_smi64.so.1"),
    // Debian has no roctracer. CuPy is linked to it for cupy.cuda.profiler.
    Quirk::Missing(StandIn {
        soname: "libroctracer64.so.4",
        version: Some("ROCTRACER_4.0"),
        needs: None,
        functions: &["roctracer_start", "roctracer_stop"],
        texts: &[],
    }),
    // Debian has no rocprofiler-sdk. The plugin of JAX is linked to it for jax.profiler; these are the functions that it names.
    Quirk::Missing(StandIn {
        soname: "librocprofiler-sdk.so.1",
        version: None,
        needs: None,
        functions: &[
            "rocprofiler_assign_callback_thread",
            "rocprofiler_configure_buffer_tracing_service",
            "rocprofiler_configure_callback_tracing_service",
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
    /// The name that programs load.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Quirk::Renamed(name) => name,
            Quirk::Missing(stand_in) => stand_in.soname,
        }
    }

    /// The file of a stack that programs know by another name; none where it has both or neither.
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
    fn every_stand_in_is_a_library() {
        for quirk in QUIRKS {
            assert!(quirk.name().contains(".so"), "{}", quirk.name());
            if let Quirk::Missing(stand_in) = quirk {
                let library = stand_in.library().unwrap();
                let object = object::File::parse(&*library).unwrap();
                let names = object::Object::dynamic_symbols(&object).count();
                assert_eq!(names, stand_in.functions.len() + stand_in.texts.len());
            }
        }
    }
}
