use std::{
    ffi::{CStr, CString, c_char, c_void},
    sync::OnceLock,
};

use device::{
    ACTS_SYMBOL, BUFFER_SYMBOL, FaultActivations, IDENTITY_SYMBOL, Identity, LINE_SYMBOL, Level,
    NEVER_WRITTEN_SYMBOL,
};
use hip_sys::{DeviceProperties, Hip};
use libloading::os::unix::{Library, RTLD_LAZY};
use plan::{Event, RefusedCall};

use crate::{broken::WorkerError, loaded};

/// Properties of the device and the runtime, as the HIP runtime reported them after its initialisation.
pub(crate) struct DeviceReport {
    runtime: i32,
    count: i32,
    /// Properties of device 0, or `None` if the HIP runtime has no device.
    pub(crate) properties: Option<DeviceProperties>,
    bdf: String,
    nodes: Vec<String>,
    refused: Option<RefusedCall>,
    emulated: Option<Identity>,
}

impl DeviceReport {
    pub(crate) fn is_emulated(&self) -> bool {
        self.emulated.is_some()
    }

    pub(crate) fn event(&self) -> Event {
        let properties = self.properties.as_ref();
        Event::Device {
            hip_runtime: self.runtime,
            count: self.count,
            name: properties.map(|p| p.name.clone()).unwrap_or_default(),
            gfx: properties.map(|p| p.gcn_arch_name.clone()).unwrap_or_default(),
            memory: properties.map_or(0, |p| p.total_global_mem),
            bdf: self.bdf.clone(),
            nodes: self.nodes.clone(),
            refused: self.refused.clone(),
            emulated: self.emulated.clone(),
        }
    }
}

/// Initialises the HIP runtime and queries device 0. A runtime without devices is not an error.
pub(crate) fn inspect_device(hip: &Hip) -> Result<DeviceReport, WorkerError> {
    let (mut runtime, mut count) = (0, 0);
    // SAFETY: the calls need no state, and the results go to separate variables.
    let (init, counted) = unsafe {
        let init = hip.hipInit(0)?;
        hip.hipRuntimeGetVersion(&mut runtime)?;
        (init, hip.hipGetDeviceCount(&mut count)?)
    };
    let mut statuses = vec![("hipInit", init), ("hipGetDeviceCount", counted)];
    let mut properties = None;
    if init != 0 || counted != 0 {
        count = 0;
    } else if count > 0 {
        match hip.properties(0)? {
            Ok(read) => properties = Some(read),
            Err(status) => statuses.push(("hipGetDeviceProperties", status)),
        }
    }
    let refused = statuses.into_iter().find(|(_, status)| *status != 0);
    let refused = refused
        .map(|(api, status)| RefusedCall { api: api.to_owned(), status: hip.error_name(status) });
    let bdf = if properties.is_some() { hip.pci_address(0) } else { String::new() };
    let (nodes, emulated) = (loaded::driver_nodes(), identity()?);
    Ok(DeviceReport { runtime, count, properties, bdf, nodes, refused, emulated })
}

type LineSymbol = unsafe extern "C" fn(u32);

/// Function of the emulated device's library that receives the current line number of the case.
static LINE: OnceLock<LineSymbol> = OnceLock::new();

pub(crate) fn at_line(line: u32) {
    if let Some(set_line) = LINE.get() {
        // SAFETY: the symbol belongs to rocrepro's library, which stays loaded.
        unsafe { set_line(line) };
    }
}

type NeverWrittenSymbol = unsafe extern "C" fn(*const c_void, usize);

/// Function of the emulated device's library that marks memory as uninitialised.
static NEVER_WRITTEN: OnceLock<NeverWrittenSymbol> = OnceLock::new();

/// Makes the emulated device treat memory as uninitialised. Has no effect on devices without this function, such as
/// GPUs.
pub(crate) fn never_written(start: *const c_void, bytes: usize) {
    if let Some(mark) = NEVER_WRITTEN.get() {
        // SAFETY: the symbol belongs to rocrepro's library, which stays loaded. The device looks up the address and
        // does not dereference it.
        unsafe { mark(start, bytes) };
    }
}

type BufferSymbol = unsafe extern "C" fn(*const c_void, usize, usize, *const c_char);

/// Function of the emulated device's library that receives a description of each buffer.
static BUFFER: OnceLock<BufferSymbol> = OnceLock::new();

/// Describes a buffer to the emulated device: its address, its size in bytes, the size in bytes of the guard on each
/// side, and its name. Has no effect on devices without this function, such as GPUs.
pub(crate) fn is_buffer(start: *const c_void, bytes: usize, guard: usize, name: &str) {
    if let (Some(add), Ok(name)) = (BUFFER.get(), CString::new(name)) {
        // SAFETY: the symbol belongs to rocrepro's library, which stays loaded. The device copies the name and does not
        // access the buffer.
        unsafe { add(start, bytes, guard, name.as_ptr()) };
    }
}

type ActsSymbol = unsafe extern "C" fn() -> *const c_char;

static ACTS: OnceLock<ActsSymbol> = OnceLock::new();

/// Returns how often each fault that is injected in the emulated device took effect.
pub(crate) fn acts() -> Vec<FaultActivations> {
    let Some(ask) = ACTS.get() else { return Vec::new() };
    // SAFETY: the symbol belongs to rocrepro's library, which stays loaded, and the text is terminated and never freed.
    let text = unsafe { CStr::from_ptr(ask()) };
    serde_json::from_slice(text.to_bytes()).unwrap_or_default()
}

/// Returns the identity that the emulated device reports; `None` if no library in the process is the emulated device.
/// At the thunk level, this library is the emulated thunk below a released HSA runtime.
fn identity() -> Result<Option<Identity>, WorkerError> {
    let levels = [Level::Thunk, Level::Hsa];
    let Some(hsa) = levels.iter().find_map(|level| loaded::file_of(level.library())) else {
        return Ok(None);
    };
    // SAFETY: with RTLD_NOLOAD no initialiser runs, because opening fails unless the library is already loaded.
    let opened = unsafe { Library::open(Some(&hsa), RTLD_LAZY | libc::RTLD_NOLOAD) };
    // If the query fails, the library may still be that of the emulated device, which must never be mistaken for a GPU.
    // Therefore a failed query is an error.
    let library = opened.map_err(|error| {
        WorkerError(format!("`{}` is loaded but cannot be queried: {error}", hsa.display()))
    })?;
    // SAFETY: the symbol belongs to rocrepro's library, and `device` documents its type.
    let symbol = unsafe {
        library.get::<unsafe extern "C" fn() -> *const c_char>(IDENTITY_SYMBOL.as_bytes())
    };
    let Ok(symbol) = symbol else {
        return Ok(None);
    };
    // SAFETY: `device` documents the type of the symbol. HIP keeps the library open, so it stays loaded until the
    // process ends.
    if let Ok(line) = unsafe { library.get::<LineSymbol>(LINE_SYMBOL.as_bytes()) } {
        let _ = LINE.set(*line);
    }
    // SAFETY: as for the line symbol above.
    let never = unsafe { library.get::<NeverWrittenSymbol>(NEVER_WRITTEN_SYMBOL.as_bytes()) };
    if let Ok(never) = never {
        let _ = NEVER_WRITTEN.set(*never);
    }
    // SAFETY: as for the line symbol above.
    if let Ok(buffer) = unsafe { library.get::<BufferSymbol>(BUFFER_SYMBOL.as_bytes()) } {
        let _ = BUFFER.set(*buffer);
    }
    // SAFETY: as for the line symbol above.
    if let Ok(acts) = unsafe { library.get::<ActsSymbol>(ACTS_SYMBOL.as_bytes()) } {
        let _ = ACTS.set(*acts);
    }
    // SAFETY: `device` documents the type of the symbol; the string is terminated and never freed.
    let text = unsafe { CStr::from_ptr(symbol()) };
    let identity = serde_json::from_slice(text.to_bytes())
        .map_err(|error| WorkerError(format!("cannot read the device identity: {error}")))?;
    Ok(Some(identity))
}
