//! Reads memory of the program at addresses that may be wrong.

use std::ffi::c_void;

/// Maximum size of a text that is read from the program, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Reads bytes of this process. Returns `None` if a part of the range cannot be read. A program may pass a wrong
/// address to HIP. Therefore the Linux kernel reads the memory, and reports an error instead of causing a fault.
pub(crate) fn bytes(address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    read(address, &mut bytes).then_some(bytes)
}

/// Fills `to` with the bytes at an address. Returns false if a part of the range cannot be read.
pub(crate) fn read(address: u64, to: &mut [u8]) -> bool {
    let mut done = 0;
    while done < to.len() {
        let rest = &mut to[done..];
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let from = (address as usize).wrapping_add(done);
        let remote = libc::iovec { iov_base: from as *mut c_void, iov_len: rest.len() };
        // SAFETY: the kernel writes at most `rest.len()` bytes to `rest`, which is borrowed mutably. It checks the
        // other address and fails if that memory cannot be read.
        let count = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            _ => return false,
        }
    }
    true
}

/// Reads a number of 1 to 8 bytes; `None` if the memory cannot be read.
pub(crate) fn number(address: u64, bytes: usize) -> Option<u64> {
    let mut number = [0; 8];
    read(address, number.get_mut(..bytes)?).then(|| u64::from_le_bytes(number))
}

/// Reads a text that ends with a zero byte. Returns `None` if the memory cannot be read or the text is longer than
/// [`MAX_TEXT_BYTES`].
pub(crate) fn text(address: u64) -> Option<String> {
    let mut text = Vec::new();
    if address == 0 {
        return None;
    }
    while text.len() < MAX_TEXT_BYTES {
        // A block does not cross a page boundary, so the whole block can be read if its first byte can.
        let at = address + text.len() as u64;
        let block = bytes(at, 256 - (at % 256) as usize)?;
        match block.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&block[..end]);
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
            None => text.extend(block),
        }
    }
    None
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_addresses_are_not_read() {
        let here = [1_u8, 2, 3, 4, 5, 6, 7, 8];
        let address = here.as_ptr() as u64;
        assert_eq!(bytes(address, 8).as_deref(), Some(&here[..]));
        assert_eq!(number(address, 2), Some(0x201));
        for wrong in [0, 8, 0x1000, u64::MAX - 3, 1 << 63] {
            assert_eq!(bytes(wrong, 8), None, "{wrong:#x}");
            assert_eq!(text(wrong), None, "{wrong:#x}");
        }
    }

    #[test]
    fn texts_end_at_their_zero_byte() {
        for length in [0, 1, 255, 256, 257, 5000] {
            let mut given = vec![b'x'; length];
            given.push(0);
            assert_eq!(text(given.as_ptr() as u64).map(|text| text.len()), Some(length));
        }
    }
}
