//! Bindings to the HIP runtime, `libamdhip64`, with the structs and constants that its functions need.

use std::{
    ffi::{OsStr, c_char, c_int, c_uint, c_void},
    mem::MaybeUninit,
};

use crate::{
    LoadError, SharedLibrary,
    loader::{functions, text},
};

/// Callback type `hipStreamCallback_t`. The parameters are the stream, the status of the stream, and a pointer to the
/// caller's data.
pub type StreamCallback = extern "C" fn(*mut c_void, c_int, *mut c_void);
/// Callback type `hipHostFn_t`. The parameter is a pointer to the caller's data.
pub type HostFunction = extern "C" fn(*mut c_void);

functions! {
    /// The HIP runtime, `libamdhip64`. Its functions are declared in hip/hip_runtime_api.h of ROCm 7.2.4. The
    /// declarations of the functions used here have not changed since ROCm 5.2.3. Status codes are `hipError_t`, and
    /// handles are opaque pointers.
    pub struct Hip;
    fn hipInit(flags: c_uint) -> c_int;
    fn hipRuntimeGetVersion(version: *mut c_int) -> c_int;
    fn hipGetDeviceCount(count: *mut c_int) -> c_int;
    fn hipGetDeviceProperties(properties: *mut c_void, device: c_int) -> c_int;
    fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int) -> c_int;
    fn hipDeviceGetPCIBusId(address: *mut c_char, bytes: c_int, device: c_int) -> c_int;
    fn hipGetErrorName(error: c_int) -> *const c_char;
    fn hipGetLastError() -> c_int;
    fn hipPeekAtLastError() -> c_int;
    fn hipDeviceSynchronize() -> c_int;
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int;
    fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) -> c_int;
    fn hipMallocPitch(pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) -> c_int;
    fn hipFree(pointer: *mut c_void) -> c_int;
    fn hipMallocAsync(pointer: *mut *mut c_void, bytes: usize, stream: *mut c_void) -> c_int;
    fn hipFreeAsync(pointer: *mut c_void, stream: *mut c_void) -> c_int;
    fn hipMallocManaged(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> c_int;
    fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> c_int;
    fn hipHostFree(pointer: *mut c_void) -> c_int;
    fn hipHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) -> c_int;
    fn hipHostUnregister(pointer: *mut c_void) -> c_int;
    fn hipDeviceGetDefaultMemPool(pool: *mut *mut c_void, device: c_int) -> c_int;
    fn hipMemPoolTrimTo(pool: *mut c_void, keep_bytes: usize) -> c_int;
    fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> c_int;
    fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: *mut c_void) -> c_int;
    fn hipMemcpyWithStream(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: *mut c_void) -> c_int;
    fn hipMemcpyHtoD(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
    fn hipMemcpyDtoH(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
    fn hipMemcpyDtoD(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
    fn hipMemcpy2D(to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, kind: c_int) -> c_int;
    fn hipMemcpy2DAsync(to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, kind: c_int, stream: *mut c_void) -> c_int;
    fn hipMemcpy3D(params: *const Memcpy3dParams) -> c_int;
    fn hipMemcpy3DAsync(params: *const Memcpy3dParams, stream: *mut c_void) -> c_int;
    fn hipMemset2D(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> c_int;
    fn hipMemset2DAsync(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: *mut c_void) -> c_int;
    fn hipMemset3D(to: PitchedPtr, value: c_int, extent: Extent) -> c_int;
    fn hipMemset3DAsync(to: PitchedPtr, value: c_int, extent: Extent, stream: *mut c_void) -> c_int;
    fn hipMemset(to: *mut c_void, value: c_int, bytes: usize) -> c_int;
    fn hipMemsetD32(to: *mut c_void, value: c_int, words: usize) -> c_int;
    fn hipMemsetD32Async(to: *mut c_void, value: c_int, words: usize, stream: *mut c_void) -> c_int;
    fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: *mut c_void) -> c_int;
    fn hipModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int;
    fn hipModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_int;
    fn hipModuleGetGlobal(address: *mut *mut c_void, bytes: *mut usize, module: *mut c_void, name: *const c_char) -> c_int;
    fn hipModuleUnload(module: *mut c_void) -> c_int;
    fn hipModuleLaunchKernel(
        function: *mut c_void,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared_bytes: c_uint,
        stream: *mut c_void,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_int;
    fn hipModuleLaunchCooperativeKernel(
        function: *mut c_void,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared_bytes: c_uint,
        stream: *mut c_void,
        parameters: *mut *mut c_void,
    ) -> c_int;
    fn hipStreamCreateWithFlags(stream: *mut *mut c_void, flags: c_uint) -> c_int;
    fn hipStreamDestroy(stream: *mut c_void) -> c_int;
    fn hipStreamSynchronize(stream: *mut c_void) -> c_int;
    fn hipStreamQuery(stream: *mut c_void) -> c_int;
    fn hipStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint) -> c_int;
    fn hipStreamAddCallback(stream: *mut c_void, callback: StreamCallback, data: *mut c_void, flags: c_uint) -> c_int;
    fn hipLaunchHostFunc(stream: *mut c_void, function: HostFunction, data: *mut c_void) -> c_int;
    fn hipEventCreateWithFlags(event: *mut *mut c_void, flags: c_uint) -> c_int;
    fn hipEventDestroy(event: *mut c_void) -> c_int;
    fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int;
    fn hipEventSynchronize(event: *mut c_void) -> c_int;
    fn hipEventQuery(event: *mut c_void) -> c_int;
    fn hipEventElapsedTime(ms: *mut f32, start: *mut c_void, end: *mut c_void) -> c_int;
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
    fn hipStreamBeginCapture(stream: *mut c_void, mode: c_int) -> c_int;
    fn hipStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int;
    fn hipThreadExchangeStreamCaptureMode(mode: *mut c_int) -> c_int;
    fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> c_int;
    fn hipGraphCreate(graph: *mut *mut c_void, flags: c_uint) -> c_int;
    fn hipGraphAddEmptyNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize) -> c_int;
    fn hipGraphAddKernelNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, params: *const KernelNodeParams) -> c_int;
    fn hipGraphAddMemcpyNode1D(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> c_int;
    fn hipGraphAddMemsetNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, params: *const MemsetParams) -> c_int;
    fn hipGraphAddHostNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, params: *const HostNodeParams) -> c_int;
    fn hipGraphAddChildGraphNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, child: *mut c_void) -> c_int;
    fn hipGraphClone(clone: *mut *mut c_void, graph: *mut c_void) -> c_int;
    fn hipGraphGetRootNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize) -> c_int;
    fn hipGraphGetEdges(graph: *mut c_void, from: *mut *mut c_void, to: *mut *mut c_void, count: *mut usize) -> c_int;
    fn hipGraphGetNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize) -> c_int;
    fn hipGraphInstantiate(exec: *mut *mut c_void, graph: *mut c_void, error_node: *mut *mut c_void, log: *mut c_char, log_bytes: usize) -> c_int;
    fn hipGraphLaunch(exec: *mut c_void, stream: *mut c_void) -> c_int;
    fn hipGraphExecUpdate(exec: *mut c_void, graph: *mut c_void, error_node: *mut *mut c_void, result: *mut c_int) -> c_int;
    fn hipGraphExecDestroy(exec: *mut c_void) -> c_int;
    fn hipGraphDestroy(graph: *mut c_void) -> c_int;
}

/// `dim3` (hip/hip_runtime_api.h).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dim3 {
    /// Sizes in the three dimensions. `x` is the dimension that changes fastest.
    pub x: c_uint,
    #[allow(missing_docs, reason = "as `x`")]
    pub y: c_uint,
    #[allow(missing_docs, reason = "as `x`")]
    pub z: c_uint,
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Dim3 {
        Dim3 { x, y, z }
    }
}

/// `hipKernelNodeParams` (hip/hip_runtime_api.h).
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "the header of HIP documents the fields")]
pub struct KernelNodeParams {
    pub block: Dim3,
    pub extra: *mut *mut c_void,
    pub function: *mut c_void,
    pub grid: Dim3,
    pub parameters: *mut *mut c_void,
    pub shared_bytes: c_uint,
}

/// `hipMemsetParams` (hip/hip_runtime_api.h), which describes `height` rows of `width` elements.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "the header of HIP documents the fields")]
pub struct MemsetParams {
    pub to: *mut c_void,
    pub element_bytes: c_uint,
    pub height: usize,
    pub pitch: usize,
    pub value: c_uint,
    pub width: usize,
}

/// `hipPitchedPtr` (hip/driver_types.h).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header of HIP documents the fields")]
pub struct PitchedPtr {
    pub address: *mut c_void,
    pub pitch: usize,
    pub x_size: usize,
    pub y_size: usize,
}

/// `hipExtent` and `hipPos` (hip/driver_types.h), in bytes, rows and slices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header of HIP documents the fields")]
pub struct Extent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// `hipMemcpy3DParms` (hip/driver_types.h). The pointers to HIP arrays are null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header of HIP documents the fields")]
pub struct Memcpy3dParams {
    pub from_array: *mut c_void,
    pub from_at: Extent,
    pub from: PitchedPtr,
    pub to_array: *mut c_void,
    pub to_at: Extent,
    pub to: PitchedPtr,
    pub extent: Extent,
    pub kind: c_int,
}

/// `hipHostNodeParams` (hip/hip_runtime_api.h).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header of HIP documents the fields")]
pub struct HostNodeParams {
    pub function: HostFunction,
    pub data: *mut c_void,
}

/// `hipErrorNotReady` (hip/hip_runtime_api.h).
pub const ERROR_NOT_READY: c_int = 600;
/// `hipMemAttachGlobal` (hip/hip_runtime_api.h).
pub const MEM_ATTACH_GLOBAL: c_uint = 1;
/// `hipStreamDefault` (hip/hip_runtime_api.h).
pub const STREAM_DEFAULT: c_uint = 0;
/// `hipStreamNonBlocking` (hip/hip_runtime_api.h).
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipEventDisableTiming` (hip/hip_runtime_api.h).
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `hipEventDefault` (hip/hip_runtime_api.h).
pub const EVENT_DEFAULT: c_uint = 0;
/// `hipStreamCaptureModeGlobal` (hip/hip_runtime_api.h).
pub const CAPTURE_MODE_GLOBAL: c_int = 0;
/// `hipStreamCaptureModeThreadLocal` (hip/hip_runtime_api.h).
pub const CAPTURE_MODE_THREAD_LOCAL: c_int = 1;
/// `hipStreamCaptureModeRelaxed` (hip/hip_runtime_api.h).
pub const CAPTURE_MODE_RELAXED: c_int = 2;

/// `hipMemcpyKind` (hip/hip_runtime_api.h; hip/driver_types.h since 6.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum MemcpyKind {
    /// `hipMemcpyHostToHost`.
    HostToHost = 0,
    /// `hipMemcpyHostToDevice`.
    HostToDevice = 1,
    /// `hipMemcpyDeviceToHost`.
    DeviceToHost = 2,
    /// `hipMemcpyDeviceToDevice`.
    DeviceToDevice = 3,
    /// `hipMemcpyDefault`: the runtime infers the direction from the addresses.
    Default = 4,
}

/// Returns a short name for a `hipStreamCaptureStatus` (hip/hip_runtime_api.h); `None` for an unknown number.
pub fn capture_status_name(status: c_int) -> Option<&'static str> {
    ["none", "active", "invalidated"].get(usize::try_from(status).ok()?).copied()
}

/// Returns a short name for a `hipGraphExecUpdateResult` (hip/hip_runtime_api.h); `None` for an unknown number.
pub fn exec_update_name(result: c_int) -> Option<&'static str> {
    const NAMES: [&str; 8] = [
        "success",
        "error",
        "topology_changed",
        "node_type_changed",
        "function_changed",
        "parameters_changed",
        "not_supported",
        "unsupported_function_change",
    ];
    NAMES.get(usize::try_from(result).ok()?).copied()
}

/// Fields of `hipDeviceProp_t` that the worker reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProperties {
    /// Field `name`. Some releases leave the name empty.
    pub name: String,
    /// Field `gcnArchName`, for example `gfx90a:sramecc+:xnack-`.
    pub gcn_arch_name: String,
    /// Field `totalGlobalMem`, in bytes.
    pub total_global_mem: u64,
}

/// Offsets of two fields of `hipDeviceProp_t`, in bytes. HIP has two versions of this struct. The field `name` is at
/// offset 0 in both.
struct Layout {
    total_global_mem: usize,
    gcn_arch_name: usize,
}

/// `hipDeviceProp_tR0000`, 792 bytes: hip/hip_runtime_api.h of 5.2.3 and 5.7.1.
const R0000: Layout = Layout { total_global_mem: 256, gcn_arch_name: 396 };
/// `hipDeviceProp_tR0600`, 1472 bytes: hip/hip_runtime_api.h of 6.4.3 and 7.2.4.
const R0600: Layout = Layout { total_global_mem: 288, gcn_arch_name: 1160 };
/// Size in bytes of each string field of `hipDeviceProp_t`, which is a `char[256]`.
const STRING_BYTES: usize = 256;

/// Buffer for `hipDeviceProp_t`. It is large enough for both layouts and for fields that later releases may append.
#[repr(C, align(16))]
struct PropertyBytes([u8; 8192]);

impl Hip {
    /// Sonames of the HIP runtime, the newest first. The order rarely matters, because a process uses only one release,
    /// and a folder rarely contains two.
    pub const SONAMES: [&str; 3] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];

    /// Opens the first of `files` (sonames or paths) that can be opened.
    ///
    /// # Errors
    /// Fails if no file can be opened.
    pub fn load<F: AsRef<OsStr>>(files: &[F]) -> Result<Self, LoadError> {
        SharedLibrary::open("libamdhip64", files).map(Self::resolve)
    }

    /// Returns the runtime's name for a status, for example `hipErrorOutOfMemory`.
    pub fn error_name(&self, status: c_int) -> String {
        // SAFETY: the function takes any number and returns a string constant or null.
        let name = unsafe { self.hipGetErrorName(status) };
        // SAFETY: the pointer is null or a string constant of the runtime, which is never freed.
        let name = name.ok().and_then(|name| unsafe { text(name) });
        name.unwrap_or_else(|| format!("hipError_t({status})"))
    }

    /// Returns the PCI address of a device, or an empty string if the runtime does not report the address.
    pub fn pci_address(&self, device: c_int) -> String {
        let mut text = [0_u8; 64];
        // SAFETY: the buffer has more than 63 bytes, and the runtime writes a terminated string into it.
        let status = unsafe { self.hipDeviceGetPCIBusId(text.as_mut_ptr().cast(), 63, device) };
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(0);
        match status {
            Ok(0) => String::from_utf8_lossy(&text[..end]).into_owned(),
            _ => String::new(),
        }
    }

    /// Returns the properties of a device. Calls the function for the newer layout of the properties if the release has
    /// it, and the function for the older layout otherwise.
    ///
    /// # Errors
    /// The outer error means that the runtime has neither of the two functions. The inner error is the status of a
    /// failed call.
    pub fn properties(&self, device: c_int) -> Result<Result<DeviceProperties, c_int>, LoadError> {
        let mut bytes = MaybeUninit::<PropertyBytes>::zeroed();
        let (status, layout) = if self.hipGetDevicePropertiesR0600.is_some() {
            // SAFETY: the buffer is larger than the struct and sufficiently aligned.
            (unsafe { self.hipGetDevicePropertiesR0600(bytes.as_mut_ptr().cast(), device) }?, R0600)
        } else {
            // SAFETY: the buffer is larger than the struct and sufficiently aligned.
            (unsafe { self.hipGetDeviceProperties(bytes.as_mut_ptr().cast(), device) }?, R0000)
        };
        if status != 0 {
            return Ok(Err(status));
        }
        // SAFETY: all bytes are initialised to zero, and every bit pattern is a valid u8.
        let PropertyBytes(bytes) = unsafe { bytes.assume_init() };
        Ok(Ok(layout.read(&bytes)))
    }
}

impl Layout {
    fn read(&self, bytes: &[u8]) -> DeviceProperties {
        let string = |at: usize| {
            let field = &bytes[at..at + STRING_BYTES];
            let end = field.iter().position(|&b| b == 0).unwrap_or(STRING_BYTES);
            String::from_utf8_lossy(&field[..end]).into_owned()
        };
        let mut memory = [0; 8];
        memory.copy_from_slice(&bytes[self.total_global_mem..self.total_global_mem + 8]);
        DeviceProperties {
            name: string(0),
            gcn_arch_name: string(self.gcn_arch_name),
            total_global_mem: u64::from_le_bytes(memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_from_both_layouts() {
        for (layout, size) in [(R0000, 792), (R0600, 1472)] {
            let mut bytes = vec![0; size];
            bytes[..7].copy_from_slice(b"A card\0");
            bytes[layout.total_global_mem..][..8].copy_from_slice(&(16_u64 << 30).to_le_bytes());
            bytes[layout.gcn_arch_name..][..8].copy_from_slice(b"gfx1151\0");
            let read = layout.read(&bytes);
            assert_eq!(
                read,
                DeviceProperties {
                    name: "A card".into(),
                    gcn_arch_name: "gfx1151".into(),
                    total_global_mem: 16 << 30,
                }
            );
        }
    }

    #[test]
    fn unknown_enumeration_values_have_no_name() {
        assert_eq!(capture_status_name(2), Some("invalidated"));
        assert_eq!(capture_status_name(3), None);
        assert_eq!(exec_update_name(7), Some("unsupported_function_change"));
        assert_eq!(exec_update_name(-1), None);
    }
}
