//! Disassembler: calls `libamd_comgr` of a ROCm release. The library decodes all GPU generations, and AMD tests it with
//! the compiler of the same release.
//!
//! Source for the interface: `amd_comgr.h`, `amd_comgr_create_disassembly_info` (since 1.8).

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_int, c_void},
    sync::{Mutex, OnceLock, PoisonError},
};

use device::Arch;

use crate::misread;

const LIBRARIES: [&CStr; 2] = [c"libamd_comgr.so.3", c"libamd_comgr.so.2"];

/// Size in bytes of the window that is passed to the disassembler. The window is longer than any GPU instruction, so
/// that the disassembler can read ahead.
pub(crate) const MAX_INSTRUCTION_BYTES: usize = 32;

#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    handle: u64,
}

type ReadMemory = extern "C" fn(from: u64, to: *mut c_char, size: u64, user: *mut c_void) -> u64;
type PrintInstruction = extern "C" fn(text: *const c_char, user: *mut c_void);
type PrintAddress = extern "C" fn(address: u64, user: *mut c_void);
type CreateInfo = unsafe extern "C" fn(
    isa_name: *const c_char,
    read: ReadMemory,
    print: PrintInstruction,
    address: PrintAddress,
    info: *mut Info,
) -> c_int;
type Disassemble =
    unsafe extern "C" fn(info: Info, address: u64, user: *mut c_void, size: *mut u64) -> c_int;

struct Session<'a> {
    address: u64,
    bytes: &'a [u8],
    text: String,
}

extern "C" fn read_memory(from: u64, to: *mut c_char, size: u64, user: *mut c_void) -> u64 {
    // SAFETY: comgr passes the pointer from `disassemble`, during that call.
    let session = unsafe { &*user.cast::<Session<'_>>() };
    let Some(skip) = from.checked_sub(session.address) else { return 0 };
    let rest = session.bytes.get(skip as usize..).unwrap_or_default();
    let length = rest.len().min(size as usize);
    // SAFETY: comgr's buffer has `size` bytes, and `length` is not larger.
    unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to.cast::<u8>(), length) };
    length as u64
}

extern "C" fn print_instruction(text: *const c_char, user: *mut c_void) {
    // SAFETY: as in `read_memory`; the text is a string that lives during the callback.
    let (session, text) = unsafe { (&mut *user.cast::<Session<'_>>(), CStr::from_ptr(text)) };
    session.text = text.to_string_lossy().into_owned();
}

extern "C" fn print_address(_: u64, _: *mut c_void) {}

struct Library {
    create: CreateInfo,
    disassemble: Disassemble,
    /// One decoder per architecture. The mutex is needed because comgr does not guarantee thread safety.
    infos: Mutex<HashMap<Arch, Info>>,
}

/// The comgr library, opened on first use, or the reason why it cannot be opened. It is never closed, because HIP needs
/// comgr in this process anyway.
static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();

fn open() -> Result<Library, String> {
    let mut tried = Vec::new();
    for name in LIBRARIES {
        // SAFETY: a plain dlopen of a released library, whose initialisers are trusted like HIP's.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            // SAFETY: after a failed dlopen, dlerror returns a string of this thread or null.
            let error = unsafe { libc::dlerror() };
            tried.push(if error.is_null() {
                format!("cannot load {}", name.to_string_lossy())
            } else {
                // SAFETY: `error` is not null, and no other dl call happens in between.
                unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned()
            });
            continue;
        }
        let symbol = |symbol: &CStr| {
            // SAFETY: the handle is open and the name a C string.
            let pointer = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            if pointer.is_null() {
                Err(format!("{} lacks {}", name.to_string_lossy(), symbol.to_string_lossy()))
            } else {
                Ok(pointer)
            }
        };
        let create = symbol(c"amd_comgr_create_disassembly_info")?;
        let disassemble = symbol(c"amd_comgr_disassemble_instruction")?;
        return Ok(Library {
            // SAFETY: `amd_comgr.h` declares the functions with these types.
            create: unsafe { std::mem::transmute::<*mut c_void, CreateInfo>(create) },
            // SAFETY: `amd_comgr.h` declares the function with this type.
            disassemble: unsafe { std::mem::transmute::<*mut c_void, Disassemble>(disassemble) },
            infos: Mutex::new(HashMap::new()),
        });
    }
    Err(tried.join("; "))
}

/// Returns the text and the size in bytes of the instruction at the start of `bytes`; `None` if the bytes are not an
/// instruction.
///
/// # Errors
/// Returns the reason why no disassembler for the architecture is available.
pub(crate) fn disassemble(
    arch: Arch,
    address: u64,
    bytes: &[u8],
) -> Result<Option<(String, u64)>, String> {
    let library = LIBRARY.get_or_init(open).as_ref().map_err(Clone::clone)?;
    if misread::kills(arch, bytes) {
        return Ok(None);
    }
    // LLVM crashes on literals past the end of the buffer, so the window is padded.
    let mut window = [0; MAX_INSTRUCTION_BYTES];
    let given = bytes.len().min(MAX_INSTRUCTION_BYTES);
    window[..given].copy_from_slice(&bytes[..given]);
    let (bytes, right) = misread::instead(arch, &window);
    let mut infos = library.infos.lock().unwrap_or_else(PoisonError::into_inner);
    let info = match infos.get(&arch) {
        Some(info) => *info,
        None => {
            let name = CString::new(format!("amdgcn-amd-amdhsa--{}", arch.name()))
                .map_err(|error| error.to_string())?;
            let mut info = Info { handle: 0 };
            // SAFETY: all pointers live during the call, and the callbacks have the right types.
            let status = unsafe {
                (library.create)(
                    name.as_ptr(),
                    read_memory,
                    print_instruction,
                    print_address,
                    &mut info,
                )
            };
            if status != 0 {
                return Err(format!("this comgr does not know {arch} (status {status})"));
            }
            infos.insert(arch, info);
            info
        }
    };
    let mut session = Session { address, bytes: &bytes, text: String::new() };
    let mut size = 0;
    // SAFETY: `info` is from the same library; the session outlives the call that uses it.
    let status =
        unsafe { (library.disassemble)(info, address, (&raw mut session).cast(), &mut size) };
    let text = session.text.trim();
    // If the text contains one of these marks, it is wrong. LLVM 22 prints invalid operands that older versions
    // rejected, for example `v129/*Invalid register, operand has 'VGPR_16_Lo128' register class*/`. Older versions
    // print `/*invalid immediate*/`, or a warning after the operands if the printed register differs from the encoded
    // one.
    let refused = ["/*", "; Warning"].iter().any(|mark| text.contains(mark));
    let whole = size > 0 && size <= given as u64;
    let named = status == 0 && whole && !text.is_empty() && !refused;
    Ok(named.then(|| {
        let text = misread::with_lanes(right(text), &bytes, size);
        (misread::with_constant(text, &bytes, size), size)
    }))
}
