//! Injects delays: launches a GPU kernel that spins before the calls of a case, so that missing synchronisation shows.

use std::{
    collections::HashSet,
    ffi::{c_int, c_void},
    ptr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use plan::{Call, DEFAULT_STREAM, DelayInjection, Step, delayed_stream};

use crate::{broken::WorkerError, kernels, machine::Machine};

const NAME: &std::ffi::CStr = c"rocrepro_late";

/// Source of a GPU kernel that spins for `ticks` ticks of the constant clock, which has 100 MHz (25 MHz on some older
/// GPUs). If the clock does not advance, the kernel ends after a few seconds.
const SOURCE: &str = r#"
__device__ static unsigned long long now() {
#if defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_s_sendmsg_rtnl(0x83);
#else
  return __builtin_amdgcn_s_memrealtime();
#endif
}

extern "C" __global__ void rocrepro_late(unsigned ticks) {
  unsigned long long start = now();
  for (unsigned i = 0; i < (1u << 24) && now() - start < ticks; ++i) __builtin_amdgcn_s_sleep(1);
}
"#;

const TICKS_PER_MICROSECOND: u32 = 100;

/// Maximum total delay that is injected into the body of a trial, in microseconds. Without this limit, a body with
/// thousands of calls would take too long.
const MAX_TOTAL_DELAY_MICROS: u64 = 2_000_000;

pub(crate) struct DelayInjector {
    late: DelayInjection,
    function: *mut c_void,
    /// Code object of the delay kernel, which must stay allocated as long as the module is loaded.
    _code: Vec<u8>,
    on: AtomicBool,
    /// Names of streams that are being captured, and of streams whose capture could not be ended. In such a stream, the
    /// delay kernel would become part of the graph, or the HIP runtime would reject it.
    capturing: Mutex<HashSet<String>>,
    times: AtomicU64,
    micros: AtomicU64,
}

impl DelayInjector {
    pub(crate) fn new(
        machine: &Machine<'_>,
        late: DelayInjection,
    ) -> Result<DelayInjector, WorkerError> {
        let cannot = |what: &str, code: c_int| {
            WorkerError(format!("delays cannot be injected: {what} returned {code}"))
        };
        let code = kernels::compiled(machine, "rocrepro_late", SOURCE)?
            .map_err(|error| WorkerError(format!("delays cannot be injected: {}", error.log)))?;
        let hip = &machine.libraries.hip;
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the image is a complete code object of hipRTC, and it stays allocated at this address.
        match unsafe { hip.hipModuleLoadData(&mut module, code.as_ptr().cast()) }? {
            0 => {}
            status => return Err(cannot("hipModuleLoadData", status)),
        }
        // SAFETY: the module was loaded above, and the name is zero-terminated.
        match unsafe { hip.hipModuleGetFunction(&mut function, module, NAME.as_ptr()) }? {
            0 => {}
            status => return Err(cannot("hipModuleGetFunction", status)),
        }
        Ok(DelayInjector {
            late,
            function,
            _code: code,
            on: AtomicBool::new(false),
            capturing: Mutex::default(),
            times: AtomicU64::new(0),
            micros: AtomicU64::new(0),
        })
    }

    /// Switches delay injection on or off. The worker switches it on only for the body of a case, not for set-up and
    /// teardown.
    pub(crate) fn is_on(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Relaxed)
    }

    /// Launches the delay kernel before a step, and returns the status of the launch; 0 if the step is not delayed. Any
    /// other status means that the device or the stream is broken, and becomes the result of the step.
    pub(crate) fn before(
        &self,
        machine: &Machine<'_>,
        step: &Step,
        occurrence: u32,
    ) -> Result<c_int, WorkerError> {
        let Some(name) = delayed_stream(&step.call).filter(|_| self.on.load(Ordering::Relaxed))
        else {
            return Ok(0);
        };
        let stream = machine.stream(name);
        let gone = name != DEFAULT_STREAM && stream.is_null();
        let micros = self.late.micros(step.id, occurrence);
        let spent = self.micros.load(Ordering::Relaxed) + u64::from(micros);
        if micros == 0 || gone || spent > MAX_TOTAL_DELAY_MICROS || !self.capturing().is_empty() {
            return Ok(0);
        }
        self.micros.store(spent, Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed);
        let mut ticks = micros * TICKS_PER_MICROSECOND;
        let mut parameters = [ptr::from_mut(&mut ticks).cast::<c_void>()];
        // SAFETY: the function's module stays loaded, and the function takes this one number, which the call copies.
        let code = unsafe {
            machine.libraries.hip.hipModuleLaunchKernel(
                self.function,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                stream,
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        }?;
        Ok(code)
    }

    /// Updates the set of streams that are being captured, after `call` has returned the status `code`.
    pub(crate) fn after(&self, call: &Call, code: c_int) {
        match call {
            Call::BeginCapture { stream, .. } => drop(self.capturing().insert(stream.clone())),
            Call::EndCapture { stream, .. } if code == 0 => drop(self.capturing().remove(stream)),
            _ => {}
        }
    }

    fn capturing(&self) -> MutexGuard<'_, HashSet<String>> {
        self.capturing.lock()
    }
}

// SAFETY: the function's handle is only passed to HIP, whose calls may come from any thread.
unsafe impl Sync for DelayInjector {}
