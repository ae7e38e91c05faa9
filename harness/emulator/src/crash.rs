//! Reads the call stacks of a program when it crashes. A signal handler starts another program, which reads the stacks
//! while the crashed thread waits. Then the signal takes its default action.
//!
//! A handler that the program or its language runtime installs later replaces this one.

use std::{
    ffi::{CString, OsString, c_void},
    fmt::{self, Write as _},
    os::unix::ffi::OsStringExt as _,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use device::{CRASH_FILE_VARIABLE, CRASH_READER_VARIABLE};
use libc::{c_char, c_int, siginfo_t, ucontext_t};

use crate::witness;

/// First argument of `rocrepro` when it is started to read the call stacks.
const ARGUMENT: &std::ffi::CStr = c"__crash";

/// Signals that the Linux kernel or the process itself sends because of a bug in the process.
const SIGNALS: [c_int; 7] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// Size in bytes of the alternate signal stack, which the handler uses if the stack of the main thread has overflowed.
const STACK_BYTES: usize = 64 << 10;

/// Interval at which the handler checks whether the process that reads the stacks has ended, in nanoseconds.
const CHECK_INTERVAL_NS: i64 = 5_000_000;

/// Maximum number of checks, [`CHECK_INTERVAL_NS`] apart, before the handler stops waiting. It limits the wait to 20
/// seconds.
const MAX_CHECKS: usize = 4000;

/// Command line of the program that reads the stacks, without the last argument, which describes the crash. The strings
/// are created in advance, because the signal handler cannot allocate memory.
struct Reader {
    program: CString,
    /// File to which the stacks are appended. If the name is empty, they are written to standard error.
    file: CString,
}

static READER: OnceLock<Reader> = OnceLock::new();

/// True while a thread waits for the stacks to be read.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Function that runs when the library is loaded, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = loaded;

extern "C" fn loaded() {
    let Some(program) = std::env::var_os(CRASH_READER_VARIABLE).filter(|value| !value.is_empty())
    else {
        return;
    };
    // The command `rocrepro` contains this code, too. There, this function must do nothing.
    if !witness::is_in_device() {
        return;
    }
    let text = |text: OsString| CString::new(text.into_vec()).ok();
    let file = std::env::var_os(CRASH_FILE_VARIABLE).unwrap_or_default();
    let (Some(program), Some(file)) = (text(program), text(file)) else { return };
    if READER.set(Reader { program, file }).is_err() {
        return;
    }
    // SAFETY: the structures are filled in as sigaction(2) and sigaltstack(2) require. The stack is never freed.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        if libc::sigaltstack(ptr::null(), &mut stack) == 0 && stack.ss_flags & libc::SS_DISABLE != 0
        {
            let memory: &'static mut [u8] = vec![0; STACK_BYTES].leak();
            stack.ss_sp = memory.as_mut_ptr().cast();
            stack.ss_size = STACK_BYTES;
            stack.ss_flags = 0;
            libc::sigaltstack(&stack, ptr::null_mut());
        }
        for signal in SIGNALS {
            let mut before: libc::sigaction = std::mem::zeroed();
            // A process that handles or ignores the signal already has its own use for it.
            if libc::sigaction(signal, ptr::null(), &mut before) != 0
                || before.sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = crashed as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}

/// Handles the signal of a crash. It calls only functions that are allowed in a signal handler.
extern "C" fn crashed(signal: c_int, info: *const siginfo_t, context: *const c_void) {
    if BUSY.swap(true, Ordering::SeqCst) {
        // Another thread crashed first. The default action would end the process while the stacks of that thread are
        // still being read.
        for _ in 0..MAX_CHECKS {
            if !BUSY.load(Ordering::SeqCst) {
                break;
            }
            pause();
        }
    } else {
        if let Some(reader) = READER.get() {
            // SAFETY: the kernel passes a `ucontext_t` to a handler that is installed with `SA_SIGINFO`.
            let context = unsafe { &*context.cast::<ucontext_t>() };
            reader.read(signal, context);
        }
        default_action(signal);
        BUSY.store(false, Ordering::SeqCst);
    }
    default_action(signal);
    // SAFETY: the kernel passes a valid `siginfo_t`. The signal is blocked until this handler returns.
    unsafe {
        // If an instruction caused the signal, it is executed again and causes the signal again.
        if (*info).si_code <= 0 {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
        }
    }
}

fn default_action(signal: c_int) {
    // SAFETY: an all-zero action is the default action without flags.
    unsafe {
        let action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

fn pause() {
    let interval = libc::timespec { tv_sec: 0, tv_nsec: CHECK_INTERVAL_NS };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::nanosleep(&interval, ptr::null_mut()) };
}

impl Reader {
    /// Starts the program that reads the stacks, and waits for its end. `context` contains the registers of the crashed
    /// thread.
    fn read(&self, signal: c_int, context: &ucontext_t) {
        let register = |number: c_int| context.uc_mcontext.gregs[number as usize];
        let mut numbers = Text { bytes: [0; 160], length: 0 };
        // SAFETY: these calls have no preconditions.
        let (pid, tid) = unsafe { (libc::getpid(), libc::gettid()) };
        let [instruction, stack, frame] =
            [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP].map(|number| register(number) as u64);
        if write!(numbers, "{pid} {tid} {signal} {instruction} {stack} {frame}\0").is_err() {
            return;
        }
        let words: [*const c_char; 5] = [
            self.program.as_ptr(),
            ARGUMENT.as_ptr(),
            self.file.as_ptr(),
            numbers.bytes.as_ptr().cast(),
            ptr::null(),
        ];
        let environment: [*const c_char; 1] = [ptr::null()];
        // SAFETY: the arguments end with null pointers. The new process calls only functions that are allowed after a
        // fork of a process with threads. `clone` is called directly, because `fork` takes locks that this thread may
        // hold.
        unsafe {
            // Yama lets a process be traced only by its ancestors, unless the process permits other tracers (prctl(2)).
            libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t;
            if child == 0 {
                let mut none: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut none);
                libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
                let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                libc::dup2(nothing, 0);
                libc::dup2(nothing, 1);
                if !self.file.is_empty() {
                    libc::dup2(nothing, 2);
                }
                libc::execve(self.program.as_ptr(), words.as_ptr(), environment.as_ptr());
                libc::_exit(127);
            }
            let mut looks = 0;
            // If the program ignores SIGCHLD, or another thread reaps the process, the child does not exist after its
            // end.
            while child > 0
                && looks < 2 * MAX_CHECKS
                && libc::waitpid(child, ptr::null_mut(), libc::WNOHANG) == 0
            {
                looks += 1;
                if looks == MAX_CHECKS {
                    libc::kill(child, libc::SIGKILL);
                }
                pause();
            }
        }
    }
}

/// Text in a fixed buffer, because a signal handler must not allocate memory.
struct Text {
    bytes: [u8; 160],
    length: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.length + part.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}
