use std::{ffi::c_int, fs, path::Path};

use hip_sys::MemcpyKind;
use plan::{Call, Event, GUARD_BYTES, Scalar, digest};

use crate::{
    broken::WorkerError,
    handles::Kind,
    machine::{CallResult, Machine},
    memory::{declared, load},
    tell::tell,
};

/// Maximum size in bytes of a buffer whose content is written to a file although the order does not state the expected
/// digest.
const MAX_UNREQUESTED_BYTES: usize = 64 << 10;
/// Maximum number of files with buffer contents that one process writes. Without a limit, a case that fails in every
/// iteration could fill the disk.
const MAX_FILES: u32 = 16;

/// Executes a check: reads the buffer and returns its digest. Also writes the bytes to a file if [`must_keep`] returns
/// true.
pub(crate) fn call(
    machine: &Machine<'_>,
    step: u32,
    call: &Call,
    occurrence: u32,
) -> Result<CallResult, WorkerError> {
    let report = |buffer: String, bytes: &[u8]| {
        let digest = digest(bytes);
        let file = spool(machine, step, occurrence, &digest, bytes);
        let bytes = bytes.len() as u64;
        machine.events.send(&Event::Data { step, occurrence, buffer, bytes, digest, file });
    };
    let whole = |name: &str| load(machine, name, 0, declared(machine, name)?.bytes);
    match call {
        Call::Check { buffer, .. } => report(buffer.clone(), &whole(buffer)?),
        Call::Equal { a, b } | Call::Differ { a, b } => {
            // Both buffers are read before either is reported, to keep the time between the two reads short.
            let (first, second) = (whole(a)?, whole(b)?);
            report(a.clone(), &first);
            report(b.clone(), &second);
        }
        Call::AtLeast { buffer, least } => {
            let found = Scalar::min_element(least.ty, &whole(buffer)?);
            let value = found.map(|(at, least)| format!("{least} at {at}"));
            return Ok(CallResult { value, ..CallResult::NONE });
        }
        Call::Guards { buffer } => match guards(machine, buffer)? {
            (answer, Some(bytes)) => {
                report(format!("{buffer}.guards"), &bytes);
                return Ok(answer);
            }
            (answer, None) => return Ok(answer),
        },
        other => return Err(WorkerError(format!("{other:?} is not a check"))),
    }
    Ok(CallResult::NONE)
}

/// Reads the guards of a buffer. Returns the result of reading, and the bytes of the low guard followed by those of the
/// high guard. Guards in device memory are copied to the host. If the copy fails, returns `None` in place of the bytes.
fn guards(machine: &Machine<'_>, name: &str) -> Result<(CallResult, Option<Vec<u8>>), WorkerError> {
    let buffer = declared(machine, name)?;
    if !buffer.guarded {
        return Err(WorkerError(format!("buffer `{name}` has no guards")));
    }
    if buffer.memory.on_host() {
        let mut bytes = load(machine, name, -(GUARD_BYTES as i64), GUARD_BYTES)?;
        bytes.extend(load(machine, name, buffer.bytes as i64, GUARD_BYTES)?);
        return Ok((CallResult::NONE, Some(bytes)));
    }
    let base = machine.handle(Kind::Buffer, name);
    if base.is_null() {
        return Err(WorkerError(format!("the guards of `{name}` are read before it is allocated")));
    }
    let mut bytes = vec![0_u8; 2 * GUARD_BYTES as usize];
    let starts = [0, GUARD_BYTES + buffer.bytes];
    for (part, start) in bytes.chunks_mut(GUARD_BYTES as usize).zip(starts) {
        let from = base.wrapping_byte_add(start as usize);
        // SAFETY: the destination has the size of a guard, and the source is inside the allocation.
        let code = unsafe {
            machine.libraries.hip.hipMemcpy(
                part.as_mut_ptr().cast(),
                from,
                part.len(),
                MemcpyKind::DeviceToHost as c_int,
            )
        }?;
        if code != 0 {
            return Ok((CallResult::hip(code), None));
        }
    }
    Ok((CallResult::hip(0), Some(bytes)))
}

/// Returns true if the content of a buffer must be written to a file. If the order states an expected digest for this
/// execution of the step, the content must be written if `digest` differs. Otherwise it must be written if the buffer
/// is small.
fn must_keep(
    wanted: &[(u32, u32, String)],
    step: u32,
    occurrence: u32,
    digest: &str,
    len: usize,
) -> bool {
    let mut known = wanted.iter().filter(|(s, o, _)| (*s, *o) == (step, occurrence)).peekable();
    match known.peek() {
        Some(_) => known.all(|(_, _, wanted)| wanted != digest),
        None => len <= MAX_UNREQUESTED_BYTES,
    }
}

/// Writes the content of a buffer to a file if [`must_keep`] returns true, and returns the name of the file. Returns
/// `None` if no file was written.
fn spool(
    machine: &Machine<'_>,
    step: u32,
    occurrence: u32,
    digest: &str,
    bytes: &[u8],
) -> Option<String> {
    if !must_keep(&machine.order.wanted, step, occurrence, digest, bytes.len()) {
        return None;
    }
    let number = {
        let mut state = machine.state();
        state.spooled += 1;
        state.spooled
    };
    if number > MAX_FILES {
        return None;
    }
    let name = format!("{step}-{occurrence}-{number}.bin");
    match fs::write(Path::new(&machine.order.spool).join(&name), bytes) {
        Ok(()) => Some(name),
        Err(error) => {
            // Without the bytes, the judge can still use their digest.
            tell(format_args!("cannot save the bytes of step {step}: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(step: u32, occurrence: u32, digest: &str, len: usize, expected: bool) {
        let wanted = [(1, 0, "aa".to_owned()), (1, 1, "bb".to_owned())];
        assert_eq!(must_keep(&wanted, step, occurrence, digest, len), expected);
    }

    #[test]
    fn only_wrong_or_unknown_bytes_are_kept() {
        check(1, 0, "aa", 4, false);
        check(1, 1, "aa", 4, true);
        check(1, 1, "aa", 1 << 30, true);
        check(2, 0, "aa", MAX_UNREQUESTED_BYTES, true);
        check(2, 0, "aa", MAX_UNREQUESTED_BYTES + 1, false);
    }
}
