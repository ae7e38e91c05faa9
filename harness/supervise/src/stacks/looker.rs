//! Process that finds the calls of copied threads. It reads files that a hostile child may have made, so the kernel
//! limits its memory and its time.

use std::io::{self, BufReader, Write};
use std::process::ExitCode;

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};

use super::copies::{Call, Copies};
use super::modules::Modules;

/// Processor time in seconds. A hung worker of ROCm needs a tenth of a second.
pub(super) const CPU_SECONDS: u64 = 10;

/// Size of the address space in bytes. The tables of LLVM's library have 9 MB.
pub(super) const MEMORY_BYTES: u64 = 1 << 30;

/// Maximum number of bytes of the answer. Threads beyond that are answered without their calls.
const ANSWER_BYTES: usize = 1 << 20;

/// Maximum number of calls that are listed for one thread, from the innermost.
const CALLS: usize = 20;

/// Runs the process that finds calls. It reads copies of threads on standard input, and writes the calls of each thread
/// as a line of JSON to standard output. The caller starts it by the words in [`Limits::looker`](crate::Limits::looker).
pub fn look() -> ExitCode {
    let done = limit().and_then(|()| answer(BufReader::new(io::stdin()), io::stdout()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Limits this process, which its parent also ends after a time.
fn limit() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, most) in [
        (Resource::As, MEMORY_BYTES),
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ] {
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        // At the higher limit of processor time the kernel sends SIGKILL, which would hide the reason.
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
        let modules = Modules::of(process.pid, maps);
        for thread in &process.threads {
            let (stack, others) = rest.split_at(thread.bytes);
            rest = others;
            let calls = modules.calls(&thread.registers, stack, CALLS);
            let calls: Vec<Call> = calls.into_iter().map(|call| modules.named(call)).collect();
            let mut line = serde_json::to_vec(&calls)?;
            match room.checked_sub(line.len()) {
                Some(left) => room = left,
                None => line = b"[]".to_vec(),
            }
            line.push(b'\n');
            // The parent uses the lines that came before a limit.
            output.write_all(&line)?;
            output.flush()?;
        }
    }
    Ok(())
}
