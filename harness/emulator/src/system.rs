//! HSA calls about the runtime as a whole: initialisation, shutdown, system attributes and extensions.

use std::{
    ffi::{CString, c_char},
    sync::{
        OnceLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use crate::{
    abi::{Agent, InfoOutput, Out, Status},
    clock, config, copy_engine, images, loader,
    part::DeviceComponent as _,
    queue, report,
    report::trace,
    rest, schedule, signal, system_events, witness,
};

#[derive(Default)]
pub(crate) struct System {
    /// Number of `hsa_init` calls that have not been matched by `hsa_shut_down`.
    references: AtomicUsize,
    /// Set once an error in the configuration has been reported, so that it is reported only once.
    announced: OnceLock<()>,
    /// Coherency that the host has requested. The value has no effect, because caches are not emulated.
    coherency: AtomicU32,
    identity: OnceLock<CString>,
}

/// Maximum number of nested `hsa_init` calls, as in ROCr.
const REFERENCES_MAX: usize = i32::MAX as usize;

#[unsafe(no_mangle)]
extern "C" fn hsa_init() -> Status {
    match config::result() {
        Ok(config) => {
            let more = |n: usize| (n < REFERENCES_MAX).then_some(n + 1);
            match System::current().references.fetch_update(
                Ordering::SeqCst,
                Ordering::SeqCst,
                more,
            ) {
                Err(_) => Status::REFCOUNT_OVERFLOW,
                Ok(0) => {
                    report::abort_on_panic();
                    trace!("init {} with {} bytes", config.arch, config.memory);
                    witness::initialised(&config::identity());
                    rest::before_exit();
                    Status::SUCCESS
                }
                Ok(_) => Status::SUCCESS,
            }
        }
        Err(problem) => {
            System::current().announced.get_or_init(|| report::bad_configuration(problem));
            Status::ERROR
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_shut_down() -> Status {
    let references = &System::current().references;
    let last = references.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    match last {
        Err(_) => return Status::NOT_INITIALIZED,
        Ok(1) => {}
        Ok(_) => return Status::SUCCESS,
    }
    trace!("shut_down");
    schedule::shut_down();
    queue::shut_down();
    copy_engine::shut_down();
    signal::shut_down();
    system_events::shut_down();
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_status_string(status: Status, text: Out<*const c_char>) -> Status {
    text.put(status.c_name().as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn hsa_system_get_info(attribute: u32, value: InfoOutput) -> Status {
    match attribute {
        // VERSION_MAJOR, VERSION_MINOR: ROCr reports 1.1 or a later minor version with the same meaning.
        0 => value.put(1u16),
        1 => value.put(18u16),
        // TIMESTAMP, TIMESTAMP_FREQUENCY
        2 => value.put(clock::now()),
        3 => value.put(clock::FREQUENCY),
        // SIGNAL_MAX_WAIT
        4 => value.put(u64::MAX),
        // ENDIANNESS: little. MACHINE_MODEL: large.
        5 => value.put(0u32),
        6 => value.put(1u32),
        // EXTENSIONS: images. The bit field does not have a bit for the AMD loader extension (0x201).
        7 => {
            let mut extensions = [0u8; 128];
            extensions[0] = 1 << EXTENSION_IMAGES;
            value.put(extensions)
        }
        // AMD_BUILD_VERSION
        0x200 => value.put(c"rocrepro emulated device".as_ptr()),
        // SVM_SUPPORTED, SVM_ACCESSIBLE_BY_DEFAULT, MWAITX_ENABLED, DMABUF_SUPPORTED
        0x201..=0x204 => value.put(false),
        // VIRTUAL_MEM_API_SUPPORTED
        0x205 => value.put(true),
        // XNACK_ENABLED
        0x206 => value.put(false),
        // EXT_VERSION_MAJOR, EXT_VERSION_MINOR of `hsa_ext_amd.h`
        0x207 => value.put(1u16),
        0x208 => value.put(6u16),
        _ => {
            trace!("system_get_info: attribute {attribute:#x} is not known");
            Status::INVALID_ARGUMENT
        }
    }
}

/// `HSA_EXTENSION_IMAGES`.
const EXTENSION_IMAGES: u16 = 1;

/// `HSA_EXTENSION_AMD_LOADER`.
const EXTENSION_LOADER: u16 = 0x201;

#[unsafe(no_mangle)]
extern "C" fn hsa_system_extension_supported(
    extension: u16,
    _major: u16,
    _minor: u16,
    result: Out<bool>,
) -> Status {
    result.put([EXTENSION_IMAGES, EXTENSION_LOADER].contains(&extension))
}

#[unsafe(no_mangle)]
extern "C" fn hsa_agent_extension_supported(
    extension: u16,
    _agent: Agent,
    major: u16,
    minor: u16,
    result: Out<bool>,
) -> Status {
    hsa_system_extension_supported(extension, major, minor, result)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_system_get_major_extension_table(
    extension: u16,
    _major: u16,
    bytes: usize,
    table: InfoOutput,
) -> Status {
    match extension {
        EXTENSION_IMAGES => table.prefix(images::extension_table(), bytes),
        EXTENSION_LOADER => table.prefix(loader::EXTENSION_TABLE, bytes),
        _ => {
            trace!("system_get_major_extension_table: extension {extension:#x} is not known");
            Status::ERROR
        }
    }
}

/// Older form of `hsa_system_get_major_extension_table`, with a version in place of the length of the table. The table
/// for each version of the loader extension is a prefix of the newest table.
#[unsafe(no_mangle)]
extern "C" fn hsa_system_get_extension_table(
    extension: u16,
    major: u16,
    minor: u16,
    table: InfoOutput,
) -> Status {
    // Number of image functions except those that have a layout parameter, which only the newer table contains.
    const IMAGE_CALLS: usize = 10;
    if extension == EXTENSION_IMAGES {
        return table.prefix(images::extension_table(), IMAGE_CALLS * size_of::<usize>());
    }
    // Numbers of functions in versions 1.0, 1.1, 1.2 and 1.3 of the loader extension.
    const CALLS: [usize; 4] = [3, 5, 6, 7];
    let calls = CALLS[usize::from(minor).min(CALLS.len() - 1)];
    hsa_system_get_major_extension_table(extension, major, calls * size_of::<usize>(), table)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_system_major_extension_supported(
    extension: u16,
    major: u16,
    minor: Out<u16>,
    result: Out<bool>,
) -> Status {
    if minor.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let newest = match extension {
        EXTENSION_LOADER if major == 1 => Some(3),
        EXTENSION_IMAGES if major == 1 => Some(0),
        _ => None,
    };
    if let Some(newest) = newest {
        minor.put_if_wanted(newest);
    }
    result.put(newest.is_some())
}

#[unsafe(no_mangle)]
extern "C" fn hsa_agent_major_extension_supported(
    extension: u16,
    _agent: Agent,
    major: u16,
    minor: Out<u16>,
    result: Out<bool>,
) -> Status {
    hsa_system_major_extension_supported(extension, major, minor, result)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_extension_get_name(extension: u16, name: Out<*const c_char>) -> Status {
    let text = match extension {
        0 => c"HSA_EXTENSION_FINALIZER",
        EXTENSION_IMAGES => c"HSA_EXTENSION_IMAGES",
        2 => c"HSA_EXTENSION_PERFORMANCE_COUNTERS",
        3 => c"HSA_EXTENSION_PROFILING_EVENTS",
        0x200 => c"HSA_EXTENSION_AMD_PROFILER",
        EXTENSION_LOADER => c"HSA_EXTENSION_AMD_LOADER",
        0x202 => c"HSA_EXTENSION_AMD_AQLPROFILE",
        0x203 => c"HSA_EXTENSION_AMD_PC_SAMPLING",
        _ => return Status::INVALID_ARGUMENT,
    };
    name.put(text.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_coherency_set_type(agent: Agent, kind: u32) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    // COHERENT, NONCOHERENT
    if kind > 1 {
        return Status::INVALID_ARGUMENT;
    }
    System::current().coherency.store(kind, Ordering::SeqCst);
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_coherency_get_type(agent: Agent, kind: Out<u32>) -> Status {
    if agent.is_gpu() {
        kind.put(System::current().coherency.load(Ordering::SeqCst))
    } else {
        Status::INVALID_AGENT
    }
}

/// Returns the JSON of an [`Identity`](device::Identity). From this JSON, a program learns that the device is emulated,
/// and how it is configured.
#[unsafe(no_mangle)]
extern "C" fn rocrepro_device_identity() -> *const c_char {
    let json = System::current().identity.get_or_init(|| {
        let json = serde_json::to_string(&config::identity()).unwrap_or_default();
        CString::new(json).unwrap_or_default()
    });
    json.as_ptr()
}
