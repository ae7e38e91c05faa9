//! Copies of a child's registers, stacks and list of mappings, in the form in which one process sends them to another.

use std::fmt;
use std::io::{self, BufRead, Read as _};

use serde::{Deserialize, Serialize};

/// One call in the call stack of a thread, for example `hipMalloc (libamdhip64.so.7)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Name of the file, without its folder; empty if the address is in no file.
    pub file: String,
    /// Name of the function, if the file's symbol tables contain it.
    pub function: Option<String>,
    /// Offset in the function, or in the file if the function is unknown; the address if the file is unknown.
    pub offset: u64,
    /// GNU build id of the file, if it has one.
    pub build_id: Option<String>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { file, function, offset, .. } = self;
        match function {
            Some(function) => write!(f, "{function} ({file})"),
            None if file.is_empty() => write!(f, "{offset:#x}"),
            None => write!(f, "{file}+{offset:#x}"),
        }
    }
}

/// Values of the registers that unwinding starts from: instruction pointer, stack pointer and frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registers {
    pub(super) instruction: u64,
    pub(super) stack: u64,
    pub(super) frame: u64,
}

/// Returns the eight bytes at `address`. `stack` is a copy of memory that begins at the address `start`, the stack
/// pointer. `None` if the copy does not contain these bytes.
pub(super) fn stack_word(stack: &[u8], start: u64, address: u64) -> Option<u64> {
    let offset: usize = address.checked_sub(start)?.try_into().ok()?;
    Some(u64::from_le_bytes(*stack.get(offset..)?.first_chunk()?))
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopiedProcess {
    pub(super) pid: i32,
    /// Number of bytes copied from `/proc/PID/maps`.
    pub(super) maps: usize,
    pub(super) threads: Vec<CopiedThread>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopiedThread {
    pub(super) registers: Registers,
    /// Number of bytes copied from the thread's stack.
    pub(super) bytes: usize,
}

/// Copies from several processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) processes: Vec<CopiedProcess>,
    /// For each process its `/proc/PID/maps`, and then the stacks of its threads.
    pub(super) bytes: Vec<u8>,
}

impl Copies {
    /// Returns the copies as bytes: a line of JSON that describes them, followed by their content.
    pub(super) fn to_orders(&self) -> Vec<u8> {
        // Numbers and lists can always be serialised.
        let mut orders = serde_json::to_vec(&self.processes).unwrap_or_default();
        orders.push(b'\n');
        orders.extend_from_slice(&self.bytes);
        orders
    }

    /// Parses the bytes that [`to_orders`](Self::to_orders) returned. The input may continue after them.
    ///
    /// # Errors
    /// Fails if the input ends early or is not of this form.
    pub(super) fn read(mut input: impl BufRead) -> io::Result<Copies> {
        let mut line = Vec::new();
        input.read_until(b'\n', &mut line)?;
        let processes: Vec<CopiedProcess> = serde_json::from_slice(&line)?;
        let sizes = processes.iter().flat_map(|process| {
            process.threads.iter().map(|thread| thread.bytes).chain([process.maps])
        });
        let size: u64 = sizes.map(|size| size as u64).sum();
        let mut bytes = Vec::new();
        input.take(size).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Copies { processes, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_round_trip_through_bytes() {
        let registers = Registers { instruction: u64::MAX, stack: 1, frame: 2 };
        let threads = vec![CopiedThread { registers, bytes: 3 }];
        let processes = vec![CopiedProcess { pid: 7, maps: 2, threads }];
        let copies = Copies { processes, bytes: b"ab\n\0\xff".to_vec() };
        let orders = copies.to_orders();
        assert_eq!(Copies::read(&[&orders[..], b"\nmore"].concat()[..]).unwrap(), copies);
        for length in 0..orders.len() {
            assert!(Copies::read(&orders[..length]).is_err(), "{length}");
        }
    }
}
