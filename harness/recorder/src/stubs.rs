//! Stubs to which the dynamic loader binds a program's calls of HIP functions.

use std::{
    arch::global_asm,
    cell::Cell,
    ffi::c_void,
    path::PathBuf,
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering},
    },
};

use crate::{
    arguments::{self, Registers},
    table::{self, STUBS},
    trace::{LOADED, TraceLine},
    writer::{FOLDER_VARIABLE, Writer},
};

/// Distance between two stubs, in bytes.
const DISTANCE: usize = 16;

// Each stub stores its index in r11, which no argument uses, and jumps to a common part. The common part saves all
// registers that can contain arguments (System V ABI for x86-64, 3.2.3), lets `before` write the call, copies the
// arguments on the stack, calls the function, lets `after` write the result, and returns what the function returned.
global_asm!(
    r#"
    .text
    .p2align 4
    .hidden rocrepro_stubs
    .globl rocrepro_stubs
rocrepro_stubs:
    .set rocrepro_index, 0
    .rept {stubs}
    .p2align 4
    mov $rocrepro_index, %r11d
    jmp rocrepro_record
    .set rocrepro_index, rocrepro_index + 1
    .endr

    .p2align 4
rocrepro_record:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    sub $224, %rsp
    mov %rdi, -224(%rbp)
    mov %rsi, -216(%rbp)
    mov %rdx, -208(%rbp)
    mov %rcx, -200(%rbp)
    mov %r8, -192(%rbp)
    mov %r9, -184(%rbp)
    mov %rax, -176(%rbp)
    movups %xmm0, -160(%rbp)
    movups %xmm1, -144(%rbp)
    movups %xmm2, -128(%rbp)
    movups %xmm3, -112(%rbp)
    movups %xmm4, -96(%rbp)
    movups %xmm5, -80(%rbp)
    movups %xmm6, -64(%rbp)
    movups %xmm7, -48(%rbp)
    mov %r11, -32(%rbp)
    lea -224(%rbp), %rdi
    lea 16(%rbp), %rsi
    call {before}
    mov %rax, %r11
    mov %rdx, %r10
    lea 1(%rdx), %rcx
    and $-2, %rcx
    shl $3, %rcx
    sub %rcx, %rsp
    xor %ecx, %ecx
2:
    cmp %r10, %rcx
    jae 3f
    mov 16(%rbp,%rcx,8), %rax
    mov %rax, (%rsp,%rcx,8)
    inc %rcx
    jmp 2b
3:
    mov -224(%rbp), %rdi
    mov -216(%rbp), %rsi
    mov -208(%rbp), %rdx
    mov -200(%rbp), %rcx
    mov -192(%rbp), %r8
    mov -184(%rbp), %r9
    mov -176(%rbp), %rax
    movups -160(%rbp), %xmm0
    movups -144(%rbp), %xmm1
    movups -128(%rbp), %xmm2
    movups -112(%rbp), %xmm3
    movups -96(%rbp), %xmm4
    movups -80(%rbp), %xmm5
    movups -64(%rbp), %xmm6
    movups -48(%rbp), %xmm7
    call *%r11
    mov %rax, -16(%rbp)
    mov %rdx, -8(%rbp)
    lea -224(%rbp), %rdi
    lea 16(%rbp), %rsi
    call {after}
    mov -16(%rbp), %rax
    mov -8(%rbp), %rdx
    leave
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
"#,
    stubs = const STUBS,
    before = sym before,
    after = sym after,
    options(att_syntax)
);

unsafe extern "C" {
    /// The first stub; see the assembler code.
    static rocrepro_stubs: u8;
}

/// Addresses of the functions that the stubs replace; 0 for a function that is not bound.
static FUNCTIONS: [AtomicU64; STUBS] = [const { AtomicU64::new(0) }; STUBS];

/// Role of a library for a stub: the stub calls the library's function, or the library only has a function of the same
/// name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Library {
    /// The library whose function the stub calls.
    First,
    /// Another library with a function of the same name.
    Other,
}

/// Makes the stub with this index call the function at `address`. If the stub already calls a function at another
/// address, changes nothing and returns [`Library::Other`].
pub(crate) fn bind(index: usize, address: u64) -> Library {
    let Some(function) = FUNCTIONS.get(index) else { return Library::Other };
    match function.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed) {
        Err(other) if other != address => Library::Other,
        _ => Library::First,
    }
}

/// Returns the address of a stub.
pub(crate) fn address(index: usize) -> u64 {
    // Only the address of the symbol is used; the memory is not read.
    (&raw const rocrepro_stubs) as u64 + (index * DISTANCE) as u64
}

/// The trace of this process. In a child of fork, this is at first the trace of the parent. A trace is never freed.
static WRITER: AtomicPtr<Writer> = AtomicPtr::new(ptr::null_mut());

/// Path of the libamdhip64 that the process loaded, and the notes that were made before the trace began.
static LOADED_LIBRARY: Mutex<(String, Vec<String>)> = Mutex::new((String::new(), Vec::new()));

/// Remembers the path of the libamdhip64 that this process loaded, and creates a file which states that a process
/// loaded it. A program whose calls are not bound by the loader can then be distinguished from a program that does not
/// use HIP.
pub(crate) fn loaded(library: &str) {
    let mut loaded = LOADED_LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
    if loaded.0.is_empty() {
        library.clone_into(&mut loaded.0);
        if let Some(folder) = folder() {
            let _ = std::fs::write(folder.join(LOADED), library);
        }
    }
}

/// Writes a note to the trace. If the trace has not begun, the note is written when it begins.
pub(crate) fn note(text: &str) {
    match writer() {
        Some(writer) => writer.line(&TraceLine::Note(text.to_owned())),
        None => {
            let mut loaded = LOADED_LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
            loaded.1.push(text.to_owned());
        }
    }
}

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// A page that Linux fills with zeros in a child process of fork.
static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

fn is_forked() -> bool {
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: the page was mapped by `mark_process` and is never unmapped.
    !mark.is_null() && unsafe { (*mark).load(Ordering::Relaxed) } == 0
}

/// Marks this process, so that [`is_forked`] detects a forked copy of it.
fn mark_process() {
    let mut mark = MARK.load(Ordering::Acquire);
    if mark.is_null() {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: Linux chooses an address that is not in use.
        let page = unsafe { libc::mmap(ptr::null_mut(), 4096, access, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return;
        }
        // SAFETY: the range is the page that was mapped above.
        if unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) } != 0 {
            return;
        }
        mark = page.cast();
        MARK.store(mark, Ordering::Release);
    }
    // SAFETY: the page is writable and is never unmapped.
    unsafe { (*mark).store(1, Ordering::Relaxed) };
}

/// Returns the trace of this process, which begins with the first call. Returns `None` if the process is not recorded,
/// or if the trace cannot be written.
fn writer() -> Option<&'static Writer> {
    let current = WRITER.load(Ordering::Acquire);
    if !current.is_null() && !is_forked() {
        // SAFETY: a trace is never freed.
        return Some(unsafe { &*current });
    }
    start(current)
}

#[cold]
fn start(current: *mut Writer) -> Option<&'static Writer> {
    static STARTING: Mutex<()> = Mutex::new(());
    let folder = folder()?;
    // At the time of fork, a thread of the parent may have held this lock. Therefore a child does not lock it.
    let _starting = if current.is_null() { Some(STARTING.lock()) } else { None };
    let now = WRITER.load(Ordering::Acquire);
    if now != current {
        // SAFETY: a trace is never freed.
        return Some(unsafe { &*now });
    }
    let (library, notes) = LOADED_LIBRARY.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let writer = Writer::create(&folder, &library).ok()?;
    if !current.is_null() {
        writer.line(&TraceLine::Note(
            "fork created this process after its parent had used HIP".to_owned(),
        ));
    }
    for note in notes {
        writer.line(&TraceLine::Note(note));
    }
    let writer = Box::leak(Box::new(writer));
    mark_process();
    WRITER.store(writer, Ordering::Release);
    Some(writer)
}

/// Returns the id of this thread in the Linux kernel.
fn thread() -> u32 {
    thread_local! { static ID: Cell<u32> = const { Cell::new(0) } }
    let known = ID.get();
    if known != 0 && !is_forked() {
        return known;
    }
    // SAFETY: the system call has no arguments.
    let id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    ID.set(id);
    id
}

/// Memory of a running stub on the stack, in the layout of the assembler code.
#[repr(C)]
struct Frame {
    registers: Registers,
    index: u64,
    /// Number of the call plus one; 0 if the call is not recorded.
    token: u64,
    returned: [u64; 2],
}

/// The function that a stub calls, and the number of words on the stack that the stub passes to the function.
#[repr(C)]
struct Target {
    function: u64,
    words: u64,
}

/// Writes the beginning of a call to the trace.
///
/// # Safety
/// The stub passes its frame, and the address of the first argument on the stack, which follows the return address.
unsafe extern "C" fn before(frame: *mut Frame, stack: *const u64) -> Target {
    // SAFETY: the frame is that of the stub that is running, and nothing else refers to it.
    let frame = unsafe { &mut *frame };
    let index = frame.index as u32 as usize;
    frame.token = 0;
    let function = FUNCTIONS.get(index).map_or(0, |function| function.load(Ordering::Relaxed));
    let Some(recorded) = table::functions().get(index) else {
        return Target { function, words: 0 };
    };
    let words = recorded.stack_words as u64;
    if let Some(writer) = writer() {
        // SAFETY: the caller has pushed the arguments that the declaration requires, see `Recorded::stack_words`. For a
        // function without declaration, 16 words are read. This memory exists: above the arguments are the frames of
        // the callers, and above the outermost frame is the thread's block of glibc, or the arguments and environment
        // of the process.
        let stack = unsafe { std::slice::from_raw_parts(stack, recorded.stack_words) };
        let call = arguments::call(recorded, thread(), &frame.registers, stack, writer);
        frame.token = writer.begin(call) + 1;
    }
    Target { function, words }
}

/// Writes the return of a call to the trace.
///
/// # Safety
/// The stub passes the same arguments as to [`before`].
unsafe extern "C" fn after(frame: *mut Frame, stack: *const u64) {
    // SAFETY: as in `before`.
    let frame = unsafe { &*frame };
    let (Some(recorded), Some(number)) =
        (table::functions().get(frame.index as u32 as usize), frame.token.checked_sub(1))
    else {
        return;
    };
    if let Some(writer) = writer() {
        // SAFETY: as in `before`. The function may have changed its stack arguments, but only in the copies that the
        // stub made for it.
        let stack = unsafe { std::slice::from_raw_parts(stack, recorded.stack_words) };
        let end =
            arguments::end(recorded, number, &frame.registers, stack, frame.returned[0], writer);
        writer.line(&TraceLine::End(end));
    }
}

const _: () = {
    assert!(size_of::<Frame>() == 224);
    assert!(std::mem::offset_of!(Frame, index) == 192);
    assert!(std::mem::offset_of!(Frame, token) == 200);
    assert!(std::mem::offset_of!(Frame, returned) == 208);
    assert!(size_of::<*const c_void>() == 8);
};
