use std::{
    fs,
    io::{self, BufRead, Read},
    thread,
    time::Duration,
};

use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getpid, kill_current_process_group, kill_process, waitpid,
};

/// Reads the order from standard input.
pub(crate) fn first_line() -> io::Result<String> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(io::Error::other("standard input was closed before an order came"));
    }
    Ok(line)
}

/// Starts a thread that ends the process when standard input is closed: then its parent is gone, and a trial must not
/// outlive its runner.
pub(crate) fn hold() -> io::Result<()> {
    thread::Builder::new().name("leash".into()).spawn(|| {
        let mut sink = [0; 256];
        let mut input = io::stdin().lock();
        // Anything but more input, including an error, means that the other end is closed.
        while matches!(input.read(&mut sink), Ok(1..)) {}
        end()
    })?;
    Ok(())
}

/// Ends the process at once, with every program that it started. Only the leader of a group may kill it; another group
/// belongs to a shell or a test runner.
pub(crate) fn end() -> ! {
    end_children();
    if getpgrp() == getpid() {
        // Killing the own group cannot fail; if it did, the process would still end below.
        let _ = kill_current_process_group(Signal::KILL);
    }
    // SAFETY: _exit takes any status. Exit handlers are not run, because a hanging call would hang them too.
    unsafe { libc::_exit(plan::WORKER_ORPHANED) }
}

/// Ends descendants that left the group and would outlive it. This process is a subreaper (by itself or its starter),
/// so they become its children when their own parents end.
fn end_children() {
    // Stop after one second (200 times 5 ms), because a driver may keep a process from ending.
    for _ in 0..200 {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the children of all threads of this process.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids = list.split_ascii_whitespace();
            pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect::<Vec<_>>()
        })
        .collect()
}
