//! Tests system calls that a seccomp filter forbids. A filter applies to one thread, so each test uses a thread of its
//! own.

use std::process::Command;

use supervise::{Cancel, ChildEnd, Limits, Start, run, try_system_calls};

/// Errors that filters return for a forbidden call.
const ERRORS: [i32; 2] = [libc::EPERM, libc::ENOSYS];

/// Forbids a system call in this thread and its children; see `seccomp(2)`.
fn forbid(call: libc::c_long, error: i32) {
    let filter = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // This instruction loads the number of the system call.
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: prctl and seccomp change only this thread; `program` and the array that it points to live until they
    // return.
    let set = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Runs a function in a thread in which a system call is forbidden.
fn without<T: Send>(call: libc::c_long, error: i32, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            forbid(call, error);
            run()
        });
        thread.join().unwrap()
    })
}

#[test]
fn forbidden_calls_are_reported_by_name() {
    assert!(try_system_calls().is_ok());
    assert!(Start::apply_limits([]).is_ok());
    let calls = [
        ("getcwd", libc::SYS_getcwd),
        ("getdents64", libc::SYS_getdents64),
        ("prctl", libc::SYS_prctl),
    ];
    for (name, call) in calls {
        for error in ERRORS {
            let found = without(call, error, || try_system_calls().unwrap_err().to_string());
            assert!(
                found.starts_with(&format!("the system call `{name}` fails on this machine")),
                "{found}"
            );
            assert!(!without(call, error, || Start::apply_limits([]).is_ok()), "{name}");
        }
    }
}

/// Linux before 5.3 has no `pidfd_open`.
#[test]
fn pidfd_open_is_not_needed() {
    for error in ERRORS {
        let (tried, settles) = without(libc::SYS_pidfd_open, error, || {
            (try_system_calls().is_ok(), Start::apply_limits([]).is_ok())
        });
        assert!(tried && settles, "errno {error}");
    }
}

/// Without `prctl`, the processes that a child leaves behind could not be found.
#[test]
fn child_is_not_started_if_leftovers_cannot_be_found() {
    let seen = without(libc::SYS_prctl, libc::EPERM, || {
        run(Command::new("true"), b"", &Limits::default(), &Cancel::new().unwrap(), &mut |_| {})
    });
    assert!(matches!(seen.ended, ChildEnd::SpawnFailed(_)), "{seen:?}");
}
