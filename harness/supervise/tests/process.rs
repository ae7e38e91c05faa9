//! Tests small shell scripts as children, each of which does one thing that a child may do.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use supervise::{Cancel, ChildEnd, LOG_HEAD_BYTES, Limits, Line, Observed, StopReason, run};

/// A time that is longer than any of these scripts needs on a loaded machine, and shorter than the scripts' `sleep
/// 600`.
const LONG: Duration = Duration::from_secs(120);
const SHORT: Duration = Duration::from_millis(300);

/// Limits that are so high that no child reaches them before it has done its part.
const PATIENT: Limits = Limits {
    total: LONG,
    quiet: LONG,
    progress: None,
    grace: LONG,
    reap: LONG,
    after: SHORT,
    looker: Vec::new(),
};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn watch(script: &str, input: &[u8], limits: &Limits) -> Observed {
    run(shell(script), input, limits, &Cancel::new().unwrap(), &mut |_| {})
}

/// Runs a script and cancels it when it prints its first line.
fn cancel_at_first_line(script: &str, limits: &Limits) -> Observed {
    let cancel = Cancel::new().unwrap();
    let handle = cancel.clone();
    run(shell(script), b"", limits, &cancel, &mut |_| handle.cancel())
}

fn texts(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| str::from_utf8(&line.text).unwrap()).collect()
}

/// Runs a script that ends by itself, and compares its end (in `Debug` form) and its output.
fn check(script: &str, ended: &str, lines: &[&str], torn: &str, stderr: &str) {
    let seen = watch(script, b"the orders", &PATIENT);
    assert_eq!(format!("{:?}", seen.ended), ended, "{script}: {seen:?}");
    assert_eq!(texts(&seen.lines), lines, "{script}");
    assert_eq!(seen.torn, torn.as_bytes(), "{script}");
    assert_eq!(seen.stderr.to_text(), stderr, "{script}");
    assert!(seen.left_behind.is_empty(), "{script}: {seen:?}");
    assert!(seen.pid.is_some() && seen.usage.is_some(), "{script}");
}

#[track_caller]
fn assert_stopped(seen: &Observed, because: StopReason, with_force: bool) {
    match seen.ended {
        ChildEnd::Stopped { reason, forced } => {
            assert_eq!((reason, forced), (because, with_force), "{seen:?}");
        }
        _ => panic!("{seen:?}"),
    }
}

#[test]
fn child_that_ends_by_itself_is_reported() {
    check("exit 0", "Exited(0)", &[], "", "");
    check("exit 42", "Exited(42)", &[], "", "");
    check("echo a; echo b; echo c >&2", "Exited(0)", &["a", "b"], "", "c\n");
    check("printf 'whole\ntorn'; exit 3", "Exited(3)", &["whole"], "torn", "");
    check("read line; echo \"got $line\"", "Exited(0)", &["got the orders"], "", "");
    check("kill -TERM $$", "Signalled { signal: 15, core: false }", &[], "", "");
    check("echo last; kill -9 $$", "Signalled { signal: 9, core: false }", &["last"], "", "");
    check("exec >&- 2>&-; exit 7", "Exited(7)", &[], "", "");
    check("exec <&-; sleep 0.1; exit 8", "Exited(8)", &[], "", "");
}

#[test]
fn standard_input_stays_open() {
    let limits = Limits { quiet: Duration::from_secs(1), ..PATIENT };
    let seen = watch("read line; echo read; read more; echo closed", b"orders", &limits);
    assert_stopped(&seen, StopReason::Quiet, false);
    assert!(!texts(&seen.lines).contains(&"closed"), "{seen:?}");
}

/// Without a closed standard input, a child that reads an order would wait for ever.
#[test]
fn standard_input_is_empty_without_orders() {
    let seen = watch("read line || echo nothing", b"", &PATIENT);
    assert_eq!(texts(&seen.lines), ["nothing"]);
}

#[test]
fn child_leads_its_own_group() {
    let seen =
        watch("read pid name state ppid group rest < /proc/$$/stat; echo $$ $group", b"", &PATIENT);
    let pid = seen.pid.unwrap();
    assert_eq!(texts(&seen.lines), [format!("{pid} {pid}")]);
}

/// Limits of a program whose threads with names that begin with `device ` make progress.
fn of_a_program(quiet: Duration, total: Duration) -> Limits {
    Limits { quiet, total, progress: Some("device ".to_owned()), ..PATIENT }
}

#[test]
fn work_of_threads_with_a_name_is_progress() {
    let limits = of_a_program(SHORT, Duration::from_secs(3));
    let works = "echo 'device queue' > /proc/$$/comm; while :; do :; done";
    assert_stopped(&watch(works, b"", &limits), StopReason::Total, false);
    let below = format!("sh -c \"{}\"; :", works.replace("$$", "\\$\\$"));
    let seen = watch(&below, b"", &limits);
    assert!(matches!(seen.ended, ChildEnd::Stopped { reason: StopReason::Total, .. }), "{seen:?}");
    // The thread has its name and waits for work that does not come.
    let waits = "echo 'device queue' > /proc/$$/comm; read line; read more";
    assert_stopped(&watch(waits, b"orders", &of_a_program(SHORT, LONG)), StopReason::Quiet, false);
}

/// Python's logging and progress bars write to standard error, so such output is progress of a program. It is not
/// progress of a worker, whose libraries write to standard error.
#[test]
fn standard_error_is_progress_of_a_program_only() {
    let chatty = "while :; do echo tick >&2; sleep 0.05; done";
    let limits = of_a_program(Duration::from_secs(2), Duration::from_secs(6));
    assert_stopped(&watch(chatty, b"", &limits), StopReason::Total, false);
    let of_worker = Limits { progress: None, ..limits };
    assert_stopped(&watch(chatty, b"", &of_worker), StopReason::Quiet, false);
}

#[test]
fn loop_of_a_program_is_found() {
    let start = Instant::now();
    let seen = watch("while :; do :; done", b"", &of_a_program(SHORT, LONG));
    assert_stopped(&seen, StopReason::Quiet, false);
    assert!(start.elapsed() >= 3 * SHORT, "{:?}", start.elapsed());
}

#[test]
fn total_limit_ends_the_child() {
    let limits = Limits { total: SHORT, ..PATIENT };
    assert_stopped(&watch("exec sleep 600", b"", &limits), StopReason::Total, false);
    let chatty = "while :; do echo tick; sleep 0.05; done";
    assert_stopped(&watch(chatty, b"", &limits), StopReason::Total, false);
}

#[test]
fn quiet_limit_ends_a_silent_child() {
    let limits = Limits { quiet: SHORT, ..PATIENT };
    assert_stopped(&watch("exec sleep 600", b"", &limits), StopReason::Quiet, false);
    // Output on standard error, and an unfinished line, do not count as events.
    let muttering = "while :; do echo mutter >&2; printf .; sleep 0.05; done";
    assert_stopped(&watch(muttering, b"", &limits), StopReason::Quiet, false);
}

#[test]
fn child_that_ignores_sigterm_is_killed() {
    let script = "trap '' TERM; echo ready; while :; do sleep 1; done";
    let seen = cancel_at_first_line(script, &Limits { grace: SHORT, ..PATIENT });
    assert_stopped(&seen, StopReason::Cancelled, true);
    assert!(seen.usage.is_some());
}

#[test]
fn child_may_write_lines_during_its_grace() {
    let script = "trap 'echo dump; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    let seen = cancel_at_first_line(script, &PATIENT);
    assert_stopped(&seen, StopReason::Cancelled, false);
    assert_eq!(texts(&seen.lines), ["ready", "dump"]);
}

#[test]
fn cancel_from_another_thread_ends_every_run() {
    let cancel = Cancel::new().unwrap();
    let barrier = std::sync::Barrier::new(4);
    let seen: Vec<Observed> = std::thread::scope(|scope| {
        let run_one = || {
            let mut ready = |_: &Line| {
                barrier.wait();
            };
            run(shell("echo ready; exec sleep 600"), b"", &PATIENT, &cancel, &mut ready)
        };
        let runs: Vec<_> = (0..3).map(|_| scope.spawn(run_one)).collect();
        barrier.wait();
        cancel.cancel();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for seen in &seen {
        assert_stopped(seen, StopReason::Cancelled, false);
        assert_eq!(texts(&seen.lines), ["ready"]);
    }
    let late = run(shell("echo ready"), b"", &PATIENT, &cancel, &mut |_| {});
    assert_stopped(&late, StopReason::Cancelled, false);
    assert_eq!(late.pid, None, "nothing starts after a cancel");
}

/// Runs a script that prints the ids of the children that it leaves, and checks that these children are reported and
/// killed.
fn check_left_behind(script: &str, ended: &str) {
    let start = Instant::now();
    let seen = watch(script, b"", &PATIENT);
    assert_eq!(format!("{:?}", seen.ended), ended, "{script}");
    let pids: Vec<i32> = texts(&seen.lines).iter().map(|pid| pid.parse().unwrap()).collect();
    let mut left: Vec<_> = seen.left_behind.iter().map(|process| process.pid).collect();
    left.sort_unstable();
    assert_eq!(left, pids, "{script}: {seen:?}");
    assert!(seen.left_behind.iter().all(|process| !process.survived), "{script}: {seen:?}");
    assert!(pids.into_iter().all(|pid| ends(pid, LONG)), "{script}");
    assert!(start.elapsed() < LONG, "{script}: waited for the pipe to be closed");
}

#[test]
fn leftover_processes_are_killed_and_named() {
    check_left_behind("sleep 600 & echo $!; exit 5", "Exited(5)");
    check_left_behind("sleep 600 <&- >&- 2>&- & echo $!", "Exited(0)");
    check_left_behind("sleep 600 & echo $!; kill -9 $$", "Signalled { signal: 9, core: false }");
    // A process that continues to write after the end of the leader never lets the pipe become empty.
    check_left_behind("yes >&2 & echo $!; exit 0", "Exited(0)");
}

#[test]
fn group_does_not_outlive_a_stopped_leader() {
    let script = "(trap '' TERM; exec sleep 600) & while ! grep -q sleep /proc/$!/comm; do :; done;
        echo $!; wait";
    let seen = cancel_at_first_line(script, &PATIENT);
    assert_stopped(&seen, StopReason::Cancelled, false);
    let pid = texts(&seen.lines)[0].parse().unwrap();
    assert!(ends(pid, LONG));
}

#[test]
fn process_outside_the_group_may_keep_the_pipes() {
    let seen = watch("setsid sleep 600 & echo $!; exit 0", b"", &PATIENT);
    assert!(matches!(seen.ended, ChildEnd::Exited(0)), "{seen:?}");
    let pid: i32 = texts(&seen.lines)[0].parse().unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    // If the shell's child did not leave the process group in time, it was killed with the group.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[test]
fn flood_on_standard_error_keeps_both_ends() {
    let script = "echo first >&2; head -c 100000000 /dev/zero >&2; echo last >&2";
    let seen = watch(script, b"", &PATIENT);
    assert!(matches!(seen.ended, ChildEnd::Exited(0)), "{:?}", seen.ended);
    assert_eq!(seen.stderr.total(), 100_000_011);
    assert!(seen.stderr.head().starts_with(b"first\n\0"));
    assert!(seen.stderr.tail().ends_with(b"\0last\n"));
    assert!(seen.stderr.dropped() > 98_000_000);
    assert_eq!(seen.stderr.head().len(), LOG_HEAD_BYTES);
}

#[test]
fn flood_on_standard_output_ends_the_child() {
    let limits = Limits { grace: SHORT, ..PATIENT };
    for script in ["exec cat /dev/zero", "exec yes"] {
        let seen = watch(script, b"", &limits);
        assert_stopped(&seen, StopReason::Flooded, false);
    }
}

#[test]
fn unread_orders_do_not_block() {
    let orders = vec![b'x'; 10 << 20];
    let seen = watch("echo deaf; exit 4", &orders, &PATIENT);
    assert!(matches!(seen.ended, ChildEnd::Exited(4)), "{:?}", seen.ended);
    let seen = watch("echo deaf; exec sleep 600", &orders, &Limits { total: SHORT, ..PATIENT });
    assert_stopped(&seen, StopReason::Total, false);
}

#[test]
fn long_orders_arrive_while_the_child_speaks() {
    let mut orders = vec![b'x'; 10 << 20];
    orders.extend_from_slice(b"\nend");
    // `tee` writes as much as it reads, so both pipes become full repeatedly.
    let seen = watch("head -n 2 | tee /dev/stderr | wc -c", &orders, &PATIENT);
    assert!(matches!(seen.ended, ChildEnd::Exited(0)), "{:?}", seen.ended);
    assert_eq!(texts(&seen.lines), [(orders.len() + 1).to_string()]);
    assert_eq!(seen.stderr.total(), orders.len() as u64 + 1);
}

#[test]
fn failed_starts_are_reported() {
    let cancel = Cancel::new().unwrap();
    for program in ["/nowhere/worker", "/", "/etc/passwd"] {
        let seen = run(Command::new(program), b"", &PATIENT, &cancel, &mut |_| {});
        assert!(matches!(seen.ended, ChildEnd::SpawnFailed(_)), "{program}: {seen:?}");
        assert_eq!(seen.pid, None);
    }
}

#[test]
fn resource_usage_is_measured() {
    let seen = watch("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done", b"", &PATIENT);
    let usage = seen.usage.unwrap();
    assert!(usage.user_cpu + usage.system_cpu > Duration::ZERO, "{usage:?}");
    assert!(usage.max_rss_bytes > 100 << 10, "{usage:?}");
    assert!(seen.wall < LONG);
}

/// Returns true if a process ends within `limit`. The process need not be a child of this process.
fn ends(pid: i32, limit: Duration) -> bool {
    let Ok(fd) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else {
        return true;
    };
    let limit = limit.try_into().unwrap();
    rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)) == Ok(1)
}

/// Makes `pidfd_open` fail in this thread and its children, as on a version of Linux that does not have it.
fn without_pidfd_open() {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    // The number of the system call is the first word of seccomp_data; see seccomp(2).
    let mut lines = [
        line(load, 0, 0),
        line(equal, libc::SYS_pidfd_open as u32, 1),
        line(give, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0),
        line(give, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the filter and its lines live until the call has copied them, and neither call touches other memory.
    let done = unsafe {
        let quiet = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        quiet | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn watches_children_without_pidfd_open() {
    // A filter applies to one thread, so the child is watched in a thread of its own.
    let watched = std::thread::spawn(|| {
        without_pidfd_open();
        assert!(pidfd_open(Pid::from_raw(1).unwrap(), PidfdFlags::empty()).is_err());
        check("echo a; exit 3", "Exited(3)", &["a"], "", "");
        check("kill -9 $$", "Signalled { signal: 9, core: false }", &[], "", "");
        let seen = watch("sleep 611", b"", &Limits { total: SHORT, ..PATIENT });
        assert_stopped(&seen, StopReason::Total, false);
        // Threads are stopped when their stacks are read. Such a stop must not count as the end of the child.
        let looker = vec!["true".into()];
        let seen = watch("sleep 611", b"", &Limits { total: SHORT, looker, ..PATIENT });
        assert_stopped(&seen, StopReason::Total, false);
        assert!(!seen.stacks.is_empty(), "{seen:?}");
        // A process that outlives the leader must be killed here too.
        let seen = watch("sleep 612 > /dev/null 2>&1 & exit 0", b"", &PATIENT);
        assert!(matches!(seen.ended, ChildEnd::Exited(0)), "{seen:?}");
        let [left] = &seen.left_behind[..] else { panic!("one is left behind: {seen:?}") };
        assert!(left.name == "sleep" && !left.survived, "{seen:?}");
        assert!(!std::path::Path::new("/proc").join(left.pid.to_string()).exists());
    });
    watched.join().expect("no child is lost");
}
