use std::{
    ffi::{CStr, CString, c_char, c_void},
    sync::OnceLock,
};

use device::{
    ACTS_SYMBOL, Acts, BUFFER_SYMBOL, IDENTITY_SYMBOL, Identity, LINE_SYMBOL, NEVER_WRITTEN_SYMBOL,
};
use hip_sys::{DeviceProperties, Hip};
use libloading::os::unix::{Library, RTLD_LAZY};
use plan::{Event, RefusedCall};

use crate::{broken::Broken, loaded};

/// What the runtime says after initialisation.
pub(crate) struct Look {
    runtime: i32,
    count: i32,
    /// Of device 0; none when there is no device.
    pub(crate) properties: Option<DeviceProperties>,
    bdf: String,
    nodes: Vec<String>,
    refused: Option<RefusedCall>,
    emulated: Option<Identity>,
}

impl Look {
    /// Whether the emulated device answered.
    pub(crate) fn is_emulated(&self) -> bool {
        self.emulated.is_some()
    }

    /// The look as an event.
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

/// Initialises the runtime and looks at device 0. That there is none is an answer.
pub(crate) fn look(hip: &Hip) -> Result<Look, Broken> {
    let (mut runtime, mut count) = (0, 0);
    // SAFETY: the calls need no state, and the results are places of their own.
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
    Ok(Look { runtime, count, properties, bdf, nodes, refused, emulated })
}

type LineSymbol = unsafe extern "C" fn(u32);

/// Where the emulated device wants to know the lines.
static LINE: OnceLock<LineSymbol> = OnceLock::new();

/// Tells an emulated device which line of the case comes next.
pub(crate) fn at_line(line: u32) {
    if let Some(tell) = LINE.get() {
        // SAFETY: the symbol is ours, and its library stays loaded.
        unsafe { tell(line) };
    }
}

type NeverWrittenSymbol = unsafe extern "C" fn(*const c_void, usize);

/// Where the emulated device wants to know what counts as never written.
static NEVER_WRITTEN: OnceLock<NeverWrittenSymbol> = OnceLock::new();

/// Tells an emulated device that what lies there was not put there by the program.
pub(crate) fn never_written(start: *const c_void, bytes: usize) {
    if let Some(tell) = NEVER_WRITTEN.get() {
        // SAFETY: the symbol is ours, and its library stays loaded; the device only looks the address up.
        unsafe { tell(start, bytes) };
    }
}

type BufferSymbol = unsafe extern "C" fn(*const c_void, usize, usize, *const c_char);

/// Where the emulated device wants to know the buffers.
static BUFFER: OnceLock<BufferSymbol> = OnceLock::new();

/// Tells an emulated device what lies there, and how many bytes on each side are nobody's.
pub(crate) fn is_buffer(start: *const c_void, bytes: usize, guard: usize, name: &str) {
    if let (Some(tell), Ok(name)) = (BUFFER.get(), CString::new(name)) {
        // SAFETY: the symbol is ours, and its library stays loaded; it copies the name and does not touch the range.
        unsafe { tell(start, bytes, guard, name.as_ptr()) };
    }
}

type ActsSymbol = unsafe extern "C" fn() -> *const c_char;

/// Where the emulated device tells how often planted faults misbehaved.
static ACTS: OnceLock<ActsSymbol> = OnceLock::new();

/// How often each fault that is planted in an emulated device has misbehaved.
pub(crate) fn acts() -> Vec<Acts> {
    let Some(ask) = ACTS.get() else { return Vec::new() };
    // SAFETY: the symbol is ours, its library stays loaded, and the text is terminated and never freed.
    let text = unsafe { CStr::from_ptr(ask()) };
    serde_json::from_slice(text.to_bytes()).unwrap_or_default()
}

/// The emulated device's own statement; none where libhsa-runtime64 is not ours.
fn identity() -> Result<Option<Identity>, Broken> {
    let Some(hsa) = loaded::file_of("libhsa-runtime64") else {
        return Ok(None);
    };
    // SAFETY: no initialiser runs, as the library is in the process already; else this fails.
    let opened = unsafe { Library::open(Some(&hsa), RTLD_LAZY | libc::RTLD_NOLOAD) };
    // Whether it is ours is then not known, and an emulated device must never pass for a GPU.
    let library = opened.map_err(|error| {
        Broken(format!("`{}` is in the process and cannot be asked: {error}", hsa.display()))
    })?;
    // SAFETY: the symbol is ours, and `device` documents its type.
    let symbol = unsafe {
        library.get::<unsafe extern "C" fn() -> *const c_char>(IDENTITY_SYMBOL.as_bytes())
    };
    let Ok(symbol) = symbol else {
        return Ok(None);
    };
    // SAFETY: as above. The library stays loaded to the end of the process, since HIP holds it.
    if let Ok(line) = unsafe { library.get::<LineSymbol>(LINE_SYMBOL.as_bytes()) } {
        let _ = LINE.set(*line);
    }
    // SAFETY: as above.
    let never = unsafe { library.get::<NeverWrittenSymbol>(NEVER_WRITTEN_SYMBOL.as_bytes()) };
    if let Ok(never) = never {
        let _ = NEVER_WRITTEN.set(*never);
    }
    // SAFETY: as above.
    if let Ok(buffer) = unsafe { library.get::<BufferSymbol>(BUFFER_SYMBOL.as_bytes()) } {
        let _ = BUFFER.set(*buffer);
    }
    // SAFETY: as above.
    if let Ok(acts) = unsafe { library.get::<ActsSymbol>(ACTS_SYMBOL.as_bytes()) } {
        let _ = ACTS.set(*acts);
    }
    // SAFETY: as above; the string is terminated and never freed.
    let text = unsafe { CStr::from_ptr(symbol()) };
    let identity = serde_json::from_slice(text.to_bytes())
        .map_err(|error| Broken(format!("the emulated device's statement: {error}")))?;
    Ok(Some(identity))
}
