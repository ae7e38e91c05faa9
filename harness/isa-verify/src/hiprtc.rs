//! Compiles HIP source with the hipRTC of the ROCm release whose libraries the process uses.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Libraries that may contain hipRTC. Before ROCm 7, hipRTC was a part of libamdhip64.
const LIBRARIES: [&CStr; 4] =
    [c"libhiprtc.so.7", c"libamdhip64.so.6", c"libamdhip64.so.5", c"libhiprtc.so"];

fn library() -> *mut c_void {
    for name in LIBRARIES {
        // SAFETY: the library belongs to a ROCm release, whose initialisers are trusted.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if !handle.is_null() {
            return handle;
        }
    }
    panic!("no library of hipRTC was found in the library path of this process");
}

macro_rules! call {
    ($library:expr, $name:literal, fn($($type:ty),* $(,)?), $($argument:expr),*) => {{
        // SAFETY: the handle is open, and the types are those of hip/hiprtc.h.
        unsafe {
            let symbol = libc::dlsym($library, concat!($name, "\0").as_ptr().cast());
            assert!(!symbol.is_null(), "hipRTC has no function {}", $name);
            let function: unsafe extern "C" fn($($type),*) -> c_int = std::mem::transmute(symbol);
            function($($argument),*)
        }
    }};
}

/// Compiles HIP source for one architecture and returns the code object.
///
/// # Errors
/// Returns the compiler's log if the compiler rejects the source.
pub(crate) fn compile(source: &str, arch: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let library = library();
    let source = CString::new(source).expect("the source contains no NUL");
    let mut program: *mut c_void = std::ptr::null_mut();
    let status = call!(
        library,
        "hiprtcCreateProgram",
        fn(
            *mut *mut c_void,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ),
        &mut program,
        source.as_ptr(),
        c"kernels.hip".as_ptr(),
        0,
        std::ptr::null(),
        std::ptr::null()
    );
    assert_eq!(status, 0, "hiprtcCreateProgram failed");
    let mut arguments = vec![format!("--offload-arch={arch}")];
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    let arguments: Vec<_> =
        arguments.into_iter().map(|a| CString::new(a).expect("options contain no NUL")).collect();
    let pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    let status = call!(
        library,
        "hiprtcCompileProgram",
        fn(*mut c_void, c_int, *const *const c_char),
        program,
        pointers.len() as c_int,
        pointers.as_ptr()
    );
    let mut size = 0usize;
    if status != 0 {
        call!(library, "hiprtcGetProgramLogSize", fn(*mut c_void, *mut usize), program, &mut size);
        let mut log = vec![0u8; size + 1];
        call!(library, "hiprtcGetProgramLog", fn(*mut c_void, *mut u8), program, log.as_mut_ptr());
        return Err(format!("status {status}: {}", String::from_utf8_lossy(&log)));
    }
    call!(library, "hiprtcGetCodeSize", fn(*mut c_void, *mut usize), program, &mut size);
    let mut code = vec![0u8; size];
    call!(library, "hiprtcGetCode", fn(*mut c_void, *mut u8), program, code.as_mut_ptr());
    call!(library, "hiprtcDestroyProgram", fn(*mut *mut c_void), &mut program);
    Ok(code)
}
