//! The process that finds the calls of copied threads. It reads files that a malicious child may have made, so its
//! memory and its time are limited by resource limits.

use std::io::{self, BufReader, Write};
use std::process::ExitCode;

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};

use super::copies::{Call, Copies, stack_word};
use super::modules::Modules;

/// Limit of the processor time of the process that finds the calls, in seconds. For a hung worker of ROCm, a tenth of a
/// second is enough.
pub(super) const CPU_SECONDS: u64 = 10;

/// Limit of the address space of the process that finds the calls, in bytes. The unwind tables of LLVM's library have 9
/// MB.
pub(super) const MEMORY_BYTES: u64 = 1 << 30;

/// Maximum size of the output in bytes. The calls of threads that no longer fit are not reported.
const ANSWER_BYTES: usize = 1 << 20;

/// Maximum number of calls that are listed for one thread, beginning with the innermost.
const CALLS: usize = 20;

/// Runs as the process that unwinds the call stacks of a supervised process. It reads copies of threads (registers and
/// stack memory) from standard input, and writes the call stack of each thread as a line of JSON to standard output.
/// [`Limits::looker`](crate::Limits::looker) is the command line that starts this process.
pub fn unwind_copies() -> ExitCode {
    let done = limit(0).and_then(|()| answer(BufReader::new(io::stdin()), io::stdout()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Sets the resource limits of this process. In addition, its parent kills it after some time. `file_bytes` is the
/// maximum size of a file that it writes.
pub(super) fn limit(file_bytes: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, most) in [
        (Resource::As, MEMORY_BYTES),
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Fsize, file_bytes),
        (Resource::Core, 0),
    ] {
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        // At the hard limit of processor time, Linux sends SIGKILL, which would hide the reason.
        let maximum =
            if resource == Resource::Cpu { getrlimit(resource).maximum } else { Some(most) };
        setrlimit(resource, Rlimit { current: Some(most), maximum })?;
    }
    Ok(())
}

fn answer(input: impl io::BufRead, mut output: impl Write) -> io::Result<()> {
    let copies = Copies::read(input)?;
    let mut rest = &copies.bytes[..];
    let mut room = ANSWER_BYTES;
    for process in &copies.processes {
        let (maps, stacks) = rest.split_at(process.maps);
        rest = stacks;
        let modules = Modules::from_maps(process.pid, maps);
        for thread in &process.threads {
            let (stack, others) = rest.split_at(thread.bytes);
            rest = others;
            let word = |address| stack_word(stack, thread.registers.stack, address);
            let (calls, _) = modules.calls(&thread.registers, &word, CALLS);
            let calls: Vec<Call> = calls.into_iter().map(|call| modules.symbolize(call)).collect();
            let mut line = serde_json::to_vec(&calls)?;
            match room.checked_sub(line.len()) {
                Some(left) => room = left,
                None => line = b"[]".to_vec(),
            }
            line.push(b'\n');
            // If this process reaches a limit, the parent uses the lines that came before.
            output.write_all(&line)?;
            output.flush()?;
        }
    }
    Ok(())
}
