//! Bindings to hipRTC, the runtime compiler for kernels.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr,
};

use crate::{
    LoadError, SharedLibrary,
    loader::{functions, text},
};

functions! {
    /// The library hipRTC. Its functions are declared in hip/hiprtc.h of ROCm 7.2.4. The declarations have not changed
    /// since ROCm 5.2.3. Status codes are `hiprtcResult`.
    pub struct Rtc;
    fn hiprtcGetErrorString(result: c_int) -> *const c_char;
    fn hiprtcCreateProgram(program: *mut *mut c_void, source: *const c_char, name: *const c_char, header_count: c_int, headers: *const *const c_char, include_names: *const *const c_char) -> c_int;
    fn hiprtcCompileProgram(program: *mut c_void, option_count: c_int, options: *const *const c_char) -> c_int;
    fn hiprtcGetProgramLogSize(program: *mut c_void, bytes: *mut usize) -> c_int;
    fn hiprtcGetProgramLog(program: *mut c_void, log: *mut c_char) -> c_int;
    fn hiprtcGetCodeSize(program: *mut c_void, bytes: *mut usize) -> c_int;
    fn hiprtcGetCode(program: *mut c_void, code: *mut c_char) -> c_int;
    fn hiprtcDestroyProgram(program: *mut *mut c_void) -> c_int;
}

/// Error of a failed compilation, with the compiler's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Status that hipRTC returned: a `hiprtcResult` other than success.
    pub status: c_int,
    /// Output of the compiler, which may be empty.
    pub log: String,
}

impl Rtc {
    /// Opens hipRTC: the `libhiprtc` with the same major version as the HIP runtime. If that library is missing, uses
    /// the HIP runtime itself, which contains hipRTC in releases up to ROCm 6.x.
    ///
    /// # Errors
    /// Fails if neither of the two libraries contains hipRTC.
    pub fn load(runtime: SharedLibrary) -> Result<Self, LoadError> {
        let file = runtime.file().replace("libamdhip64", "libhiprtc");
        match SharedLibrary::open("libhiprtc", &[&file]) {
            Ok(shared) => Ok(Self::resolve(shared)),
            Err(_) if runtime.has("hiprtcCreateProgram") => Ok(Self::resolve(runtime)),
            Err(missing) => Err(missing),
        }
    }

    /// Returns hipRTC's name for a status, for example `HIPRTC_ERROR_COMPILATION`.
    pub fn error_name(&self, status: c_int) -> String {
        // SAFETY: the function takes any number and returns a string constant or null.
        let name = unsafe { self.hiprtcGetErrorString(status) };
        // SAFETY: the pointer is null or a string constant of the library, which is never freed.
        let name = name.ok().and_then(|name| unsafe { text(name) });
        name.unwrap_or_else(|| format!("hiprtcResult({status})"))
    }

    /// Compiles `source` to a code object.
    ///
    /// # Errors
    /// The outer error means that the release lacks a function. The inner error means that the compilation failed.
    pub fn compile(
        &self,
        source: &CStr,
        name: &CStr,
        options: &[CString],
    ) -> Result<Result<Vec<u8>, CompileError>, LoadError> {
        let mut program = ptr::null_mut();
        // SAFETY: the strings are terminated and are valid during the call. No headers are passed.
        let status = unsafe {
            self.hiprtcCreateProgram(
                &mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        }?;
        if status != 0 {
            return Ok(Err(CompileError { status, log: String::new() }));
        }
        let options: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program was created above, and the options are valid during the call.
        let status = unsafe {
            self.hiprtcCompileProgram(program, options.len() as c_int, options.as_ptr())
        }?;
        let result = if status == 0 {
            self.read(program, Self::hiprtcGetCodeSize, Self::hiprtcGetCode)?
                .map_err(|status| CompileError { status, log: String::new() })
        } else {
            let log = self
                .read(program, Self::hiprtcGetProgramLogSize, Self::hiprtcGetProgramLog)?
                .unwrap_or_default();
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
            Err(CompileError { status, log })
        };
        // SAFETY: the program was created above and is not used again.
        unsafe { self.hiprtcDestroyProgram(&mut program) }?;
        Ok(result)
    }

    /// Returns the code or the log of a program. The function `size` returns the size of this data in bytes, and the
    /// function `get` returns the data itself.
    fn read(
        &self,
        program: *mut c_void,
        size: unsafe fn(&Self, *mut c_void, *mut usize) -> Result<c_int, LoadError>,
        get: unsafe fn(&Self, *mut c_void, *mut c_char) -> Result<c_int, LoadError>,
    ) -> Result<Result<Vec<u8>, c_int>, LoadError> {
        let mut bytes = 0;
        // SAFETY: the caller passes a valid program and two functions for the same data.
        let status = unsafe { size(self, program, &mut bytes) }?;
        if status != 0 {
            return Ok(Err(status));
        }
        let mut product = vec![0_u8; bytes];
        // SAFETY: the caller passes a valid program and two functions for the same data. The buffer has the size that
        // the library returned.
        let status = unsafe { get(self, program, product.as_mut_ptr().cast()) }?;
        Ok(if status == 0 { Ok(product) } else { Err(status) })
    }
}
