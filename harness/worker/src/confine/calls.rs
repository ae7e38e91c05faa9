//! Restricts the worker of an untrusted case to a list of system calls.
//!
//! The list contains the calls that were observed when every built-in case was traced, and similar calls for memory,
//! threads, time, waiting, and files that Landlock allows to open. None of them changes a file outside of the worker's
//! folders or controls another process. Some have side effects: they lock readable files, remove pages of such files
//! from memory (`fadvise64`), or make an automounter look for a path.
//!
//! Other calls fail with EPERM, `clone3` fails with ENOSYS, and a call through the 32-bit interface kills the worker.
//! Linux handles the calls 335 (uretprobe) and 336 (uprobe) before any filter runs.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// System calls that are allowed with any argument.
#[cfg(target_arch = "x86_64")]
const CALLS: &[libc::c_long] = &[
    // System calls on files, which Landlock restricts. `open` and `openat` have conditions and are added below.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fadvise64,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_getdents,
    libc::SYS_getdents64,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    // System calls that read attributes of paths, which Landlock does not restrict.
    libc::SYS_stat,
    libc::SYS_fstat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    // System calls for memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_brk,
    libc::SYS_membarrier,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    // System calls for waiting and time.
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_futex_waitv,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    libc::SYS_restart_syscall,
    // System calls for threads and this process. `clone` and some others have conditions and are added below.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getpgrp,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_getrlimit,
    libc::SYS_getrandom,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Requests of `ioctl` that are allowed: TCGETS and TCGETS2 (with which glibc asks whether a file descriptor is a
/// terminal), TIOCGWINSZ, FIONREAD (number of bytes in a pipe), FIONBIO, FIONCLEX and FIOCLEX.
const IOCTLS: [u64; 7] = [0x5401, 0x802c_542a, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451];

/// Type bytes in the `ioctl` requests of the GPU drivers amdkfd and DRM.
const GPU_IOCTLS: [u8; 2] = [b'K', b'd'];

const FCNTLS: [libc::c_int; 14] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

const PRCTLS: [libc::c_int; 4] =
    [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_CAPBSET_READ, libc::PR_SET_VMA];

/// Requests of `arch_prctl` that glibc makes, from `asm/prctl.h`: `ARCH_SET_GS`, `ARCH_SET_FS`, `ARCH_GET_FS`,
/// `ARCH_GET_GS`, `ARCH_CET_STATUS` and `ARCH_SHSTK_STATUS`. Requests that map the vDSO again are not allowed, because
/// no resource limit counts such mappings.
const ARCH_PRCTLS: [u64; 6] = [0x1001, 0x1002, 0x1003, 0x1004, 0x3001, 0x5005];

/// Allowed flags of `memfd_create`, for ordinary memory. A file in huge pages (`MFD_HUGETLB`) is not allowed, because
/// resource limits do not bound its size: mapping the file makes it larger.
const MEMORY_FILE: libc::c_uint =
    libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL | libc::MFD_EXEC;

/// Smallest advice number of `madvise(2)` that injects an error into memory. Advice with this or a higher number is not
/// allowed.
const MADV_HWPOISON: u64 = 100;

/// Flag of `mbind(2)` that also moves memory pages which other processes share.
const MPOL_MF_MOVE_ALL: u64 = 4;

/// The mode bits set-user-ID and set-group-ID. A program with such a bit runs with the rights of the owner or group of
/// its file.
const SET_ID: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;

/// Flags of `open` that create a file. Without any of them, the call has no mode argument.
const CREATES: u64 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64;

/// Allowed operations of `futex`. Operations with priority inheritance are not allowed, because they lend the priority
/// of the caller to any process that it names.
const FUTEXES: [libc::c_int; 7] = [
    libc::FUTEX_WAIT,
    libc::FUTEX_WAKE,
    libc::FUTEX_REQUEUE,
    libc::FUTEX_CMP_REQUEUE,
    libc::FUTEX_WAKE_OP,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_WAKE_BITSET,
];

/// Flags that an operation of `futex` may have.
const FUTEX_FLAGS: u64 = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u64;

/// Flags of `clone` that are set for a new thread and not for a new process.
const THREAD: u64 = (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND) as u64;

/// Flags of `clone` that let the tracer of a thread also trace the new thread, or prevent it from doing so. The command
/// traces a worker that hangs.
const TRACED: u64 = (libc::CLONE_PTRACE | libc::CLONE_UNTRACED) as u64;

/// Flags of `clone` that put a new thread into new namespaces, which root is allowed to do.
const NAMESPACES: u64 = 0x7e02_0000;

/// Restricts this thread, and everything that it starts later, to the allowed system calls. `gpu` is true if requests
/// to the GPU drivers are allowed, too.
pub(super) fn restrict(gpu: bool) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    // A filter cannot read the flags of `clone3`, because they are in memory to which an argument points. If `clone3`
    // fails, the C library uses `clone`.
    let no_clone3 = filter(
        [(libc::SYS_clone3, Vec::new())].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
    );
    let allowed = allowed(gpu).map_err(|error| text(&error))?;
    let others = SeccompAction::Errno(libc::EPERM as u32);
    let listed = filter(allowed, others, SeccompAction::Allow);
    for program in [no_clone3, listed] {
        let program = program.map_err(|error| text(&error))?;
        seccompiler::apply_filter(&program).map_err(|error| text(&error))?;
    }
    Ok(())
}

type Rules = std::collections::BTreeMap<i64, Vec<SeccompRule>>;

fn filter(
    rules: Rules,
    others: SeccompAction,
    these: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let processor = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, others, these, processor)?.try_into()
}

#[cfg(target_arch = "x86_64")]
fn allowed(gpu: bool) -> Result<Rules, seccompiler::BackendError> {
    let one = |at: u8, width: Width, is: Is, value: u64| {
        SeccompRule::new(vec![SeccompCondition::new(at, width, is, value)?])
    };
    let any = |at: u8, values: &[u64]| {
        values.iter().map(|value| one(at, Width::Dword, Is::Eq, *value)).collect::<Result<_, _>>()
    };
    let words = |words: &[libc::c_int]| words.iter().map(|word| *word as u64).collect::<Vec<_>>();
    let mut rules: Rules = CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let mut ioctls: Vec<SeccompRule> = any(1, &IOCTLS)?;
    if gpu {
        for kind in GPU_IOCTLS {
            ioctls.push(one(1, Width::Dword, Is::MaskedEq(0xff00), u64::from(kind) << 8)?);
        }
        // The HIP runtime sets the processor affinity of its threads.
        rules.insert(libc::SYS_sched_setaffinity, Vec::new());
    }
    // The fourth access mode, 3, is for `ioctl` alone and requires no Landlock right. With `O_TMPFILE`, it would create
    // a file in any folder. It would also open any device.
    for (call, flags) in [(libc::SYS_open, 1), (libc::SYS_openat, 2)] {
        let mut of_call = Vec::new();
        for access in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR] {
            let is = |at, mask, value| {
                SeccompCondition::new(at, Width::Dword, Is::MaskedEq(mask), value)
            };
            let this = || is(flags, libc::O_ACCMODE as u64, access as u64);
            of_call.push(SeccompRule::new(vec![this()?, is(flags, CREATES, 0)?])?);
            of_call.push(SeccompRule::new(vec![this()?, is(flags + 1, SET_ID, 0)?])?);
        }
        rules.insert(call, of_call);
    }
    let futexes = FUTEXES.iter().map(|operation| {
        one(1, Width::Dword, Is::MaskedEq(!FUTEX_FLAGS), (*operation).cast_unsigned().into())
    });
    rules.insert(libc::SYS_futex, futexes.collect::<Result<_, _>>()?);
    // `RENAME_WHITEOUT` creates a character device, even if `mknod` is not allowed.
    let no_device = one(4, Width::Dword, Is::MaskedEq(libc::RENAME_WHITEOUT.into()), 0)?;
    rules.insert(libc::SYS_renameat2, vec![no_device]);
    // Other modes can allocate space beyond the size limit of a file.
    rules.insert(libc::SYS_fallocate, any(1, &[0])?);
    let ordinary = one(1, Width::Dword, Is::MaskedEq(u64::from(!MEMORY_FILE)), 0)?;
    rules.insert(libc::SYS_memfd_create, vec![ordinary]);
    rules.insert(libc::SYS_arch_prctl, any(0, &ARCH_PRCTLS)?);
    // Advice with a higher number can make the machine stop using a page of memory.
    rules.insert(libc::SYS_madvise, vec![one(2, Width::Dword, Is::Lt, MADV_HWPOISON)?]);
    // A process of root could otherwise move memory pages that it shares with other processes.
    rules.insert(libc::SYS_mbind, vec![one(5, Width::Dword, Is::MaskedEq(MPOL_MF_MOVE_ALL), 0)?]);
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_ioctl, ioctls);
    rules.insert(libc::SYS_fcntl, any(1, &words(&FCNTLS))?);
    rules.insert(libc::SYS_prctl, any(0, &words(&PRCTLS))?);
    rules.insert(
        libc::SYS_clone,
        vec![one(0, Width::Qword, Is::MaskedEq(THREAD | NAMESPACES | TRACED), THREAD)?],
    );
    // A process may send signals to itself and to its process group. Landlock protects other processes.
    rules.insert(libc::SYS_kill, any(0, &[own, 0])?);
    rules.insert(libc::SYS_tgkill, any(0, &[own])?);
    // Resource limits may be read but not set.
    rules.insert(libc::SYS_prlimit64, vec![one(2, Width::Qword, Is::Eq, 0)?]);
    Ok(rules)
}

#[cfg(not(target_arch = "x86_64"))]
fn allowed(_: bool) -> Result<Rules, seccompiler::BackendError> {
    Err(seccompiler::BackendError::InvalidTargetArch(std::env::consts::ARCH.to_owned()))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::{io, thread};

    use super::*;

    /// Makes a system call. Returns its result, or its error number as an error.
    fn call(number: libc::c_long, first: usize, second: usize) -> Result<libc::c_long, i32> {
        // SAFETY: the system calls of these tests get addresses of memory that is large enough, or no address.
        match unsafe { libc::syscall(number, first, second) } {
            -1 => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            done => Ok(done),
        }
    }

    /// Runs the attempts in a new thread, because a filter cannot be removed from a thread.
    fn in_a_restricted_thread(attempts: impl FnOnce() + Send + 'static) {
        let thread = thread::spawn(|| {
            restrict(false).unwrap();
            attempts();
        });
        thread.join().unwrap();
    }

    #[test]
    fn allows_memory_files_only_of_ordinary_pages() {
        let memory_file = |flags: libc::c_uint| {
            call(libc::SYS_memfd_create, c"x".as_ptr() as usize, flags as usize)
        };
        in_a_restricted_thread(move || {
            for flags in [0, libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING] {
                let file = memory_file(flags).unwrap();
                call(libc::SYS_close, file as usize, 0).unwrap();
            }
            for flags in [libc::MFD_HUGETLB, libc::MFD_HUGETLB | libc::MFD_HUGE_2MB, 1 << 5] {
                assert_eq!(memory_file(flags), Err(libc::EPERM), "{flags:#x}");
            }
        });
    }

    #[test]
    fn allows_only_the_requests_of_arch_prctl_that_the_c_library_makes() {
        in_a_restricted_thread(|| {
            let mut base = 0_usize;
            call(libc::SYS_arch_prctl, 0x1003, &raw mut base as usize).unwrap();
            assert_ne!(base, 0, "the base address of thread-local storage");
            // The requests are ARCH_MAP_VDSO_X32, ARCH_MAP_VDSO_32, ARCH_MAP_VDSO_64, ARCH_SET_CPUID and
            // ARCH_REQ_XCOMP_PERM.
            for request in [0x2001, 0x2002, 0x2003, 0x1012, 0x1023] {
                assert_eq!(
                    call(libc::SYS_arch_prctl, request, 0),
                    Err(libc::EPERM),
                    "{request:#x}"
                );
            }
        });
    }
}
