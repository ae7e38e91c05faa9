use std::{
    fs,
    io::{self, BufRead, Read},
    thread,
    time::Duration,
};

use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getpid, kill_current_process_group, kill_process, waitpid,
};

/// Reads the first line of standard input, which is the order (the plan and its settings).
pub(crate) fn first_line() -> io::Result<String> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(io::Error::other("standard input was closed before an order was received"));
    }
    Ok(line)
}

/// Starts a thread that ends the process when standard input is closed. Standard input closes when the parent ends, and
/// a trial must not outlive its runner.
pub(crate) fn hold() -> io::Result<()> {
    thread::Builder::new().name("leash".into()).spawn(|| {
        let mut sink = [0; 256];
        let mut input = io::stdin().lock();
        // An end of file or an error means that the parent has closed its end.
        while matches!(input.read(&mut sink), Ok(1..)) {}
        end()
    })?;
    Ok(())
}

/// Ends the process at once, with all programs that it has started. The process kills its whole process group only if
/// it is the leader of the group. Otherwise the group belongs to a shell or a test runner.
pub(crate) fn end() -> ! {
    end_children();
    if getpgrp() == getpid() {
        // Killing the own group does not fail. If it did, the call of `_exit` below would end the process.
        let _ = kill_current_process_group(Signal::KILL);
    }
    // SAFETY: _exit takes any status. It does not run exit handlers, because a call that hangs could make the handlers
    // hang too.
    unsafe { libc::_exit(plan::WORKER_ORPHANED) }
}

/// Kills descendants that have left the process group. This process or its starter has made it a subreaper, so a
/// descendant becomes its child when the descendant's own parent ends.
fn end_children() {
    // The loop ends after one second (200 times 5 ms), because a driver may prevent a process from ending.
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
