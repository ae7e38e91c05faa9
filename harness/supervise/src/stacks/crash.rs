//! Reads the call stacks of a process whose signal handler waits after a crash.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use serde::Serialize;

use super::copies::{Call, Copies, Registers, stack_word};
use super::modules::Modules;
use super::{STOP_TIMEOUT, copy, looker};

/// Maximum number of calls that are read from the call stack of one thread, beginning with the innermost.
const CALLS: usize = 256;

/// Maximum size of a file that the process which reads the call stacks may write, in bytes.
const FILE_BYTES: u64 = 16 << 20;

/// Call stacks of a process that a signal is about to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashStacks {
    /// Id of the process.
    pub pid: i32,
    /// Number of the signal.
    pub signal: i32,
    /// Thread that received the signal.
    pub thread: ThreadCalls,
    /// Other threads of the process, at most 63.
    pub others: Vec<ThreadCalls>,
}

/// Call stack of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadCalls {
    /// Name of the thread.
    pub name: String,
    /// Calls on the stack, the innermost first, at most 256.
    pub calls: Vec<Call>,
    /// True if the last call is the first function of the thread, so that no call is missing.
    pub is_complete: bool,
}

/// Reads the call stacks of a process. `numbers` are the ids of the process and of the thread that crashed, the signal,
/// and the instruction pointer, stack pointer and frame pointer at the crash, separated by spaces.
///
/// The process may have mapped malicious files. This function therefore limits memory and time of the calling process.
///
/// # Errors
/// Fails if the numbers are not of this form, or if this process may not read the memory of the process that crashed.
pub fn read_crash(numbers: &str) -> io::Result<CrashStacks> {
    let bad = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("cannot read the call stacks of a crash from `{numbers}`"),
        )
    };
    let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
    let Ok(&[pid, tid, signal, instruction, stack, frame]) = numbers.as_deref() else {
        return Err(bad());
    };
    let number = |number: u64| i32::try_from(number).map_err(|_| bad());
    let (pid, tid, signal) = (number(pid)?, number(tid)?, number(signal)?);
    looker::limit(FILE_BYTES)?;
    let (mut threads, mut copies) = (Vec::new(), Copies::default());
    let until = Instant::now() + STOP_TIMEOUT;
    let registers = Registers { instruction, stack, frame };
    copy(pid, Some((tid, registers)), &mut threads, &mut copies, &|| Instant::now() < until);
    let process = copies.processes.first().ok_or_else(bad)?;
    let (maps, mut rest) = copies.bytes.split_at(process.maps);
    let modules = Modules::from_maps(pid, maps);
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let memory_word = |address| {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, address).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let mut read = Vec::new();
    for (copied, thread) in process.threads.iter().zip(threads.iter().filter(|t| t.is_copied)) {
        let (stack, others) = rest.split_at(copied.bytes);
        rest = others;
        let crashed = thread.tid == tid;
        // The thread that crashed waits, so its memory can still be read. A handler may have a stack of its own.
        let beyond = |address| {
            let mut bytes = [0; 8];
            let read = memory.read_exact_at(&mut bytes, address).ok().filter(|()| crashed);
            read.map(|()| u64::from_le_bytes(bytes))
        };
        let word = |address| {
            stack_word(stack, copied.registers.stack, address).or_else(|| beyond(address))
        };
        let (mut calls, is_complete) = modules.calls(&copied.registers, &word, CALLS);
        if crashed {
            // If another handler ran before, such as Python's `faulthandler`, the crash is in the code that this
            // handler interrupted.
            let handlers = calls.iter().rposition(|call| modules.returns_from_signal(*call));
            calls.drain(..handlers.map_or(0, |at| at + 1));
        }
        let mut named: Vec<Call> = Vec::new();
        for call in calls {
            let callee = named.last();
            named.extend(callee.and_then(|callee| modules.jumped_from(call, callee, &memory_word)));
            named.push(modules.symbolize(call));
        }
        let calls = named;
        read.push((crashed, ThreadCalls { name: thread.name.clone(), calls, is_complete }));
    }
    let at = read.iter().position(|(crashed, _)| *crashed);
    let unread = || io::Error::other(format!("cannot read the memory of process {pid}"));
    let (_, thread) = read.remove(at.ok_or_else(unread)?);
    Ok(CrashStacks {
        pid,
        signal,
        thread,
        others: read.into_iter().map(|(_, thread)| thread).collect(),
    })
}
