//! Keeps the standard error of a child: its beginning, its end and its size.

/// Number of bytes that are kept from the beginning of standard error.
pub const LOG_HEAD_BYTES: usize = 256 << 10;

/// Number of bytes that are kept from the end of standard error. The end does not overlap the beginning.
pub const LOG_TAIL_BYTES: usize = 1 << 20;

/// A log of bounded size that keeps the beginning and the end. Among many errors, the first one usually names the
/// cause, and the last one explains why the child ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    head: Vec<u8>,
    /// The last bytes. The vector grows to twice [`LOG_TAIL_BYTES`] before it is cut, so that each byte is moved at
    /// most once.
    tail: Vec<u8>,
    total: u64,
}

impl Log {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = LOG_HEAD_BYTES - self.head.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        if self.tail.len() >= 2 * LOG_TAIL_BYTES {
            self.tail.drain(..self.tail.len() - LOG_TAIL_BYTES);
        }
    }

    /// Returns the beginning of the log, at most [`LOG_HEAD_BYTES`] bytes.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the end of the log, at most [`LOG_TAIL_BYTES`] bytes. It does not overlap the head.
    pub fn tail(&self) -> &[u8] {
        &self.tail[self.tail.len().saturating_sub(LOG_TAIL_BYTES)..]
    }

    /// Returns the number of bytes that the child wrote.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of bytes between head and tail that were not kept.
    pub fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail().len()) as u64
    }

    /// Returns the log as text. If bytes were dropped, a line between head and tail says how many. Bytes that are not
    /// UTF-8 become U+FFFD.
    pub fn to_text(&self) -> String {
        match self.dropped() {
            0 => String::from_utf8_lossy(&[self.head(), self.tail()].concat()).into_owned(),
            dropped => format!(
                "{}\n[... {dropped} of {} bytes dropped here ...]\n{}",
                String::from_utf8_lossy(self.head()),
                self.total,
                String::from_utf8_lossy(self.tail()),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes `total` bytes in reads of `step` bytes and compares the log with them. The value of each byte is the low
    /// byte of its offset.
    fn check(total: usize, step: usize, dropped: usize) {
        let all: Vec<u8> = (0..total).map(|position| position as u8).collect();
        let mut log = Log::default();
        all.chunks(step).for_each(|chunk| log.push(chunk));
        let head = total.min(LOG_HEAD_BYTES);
        assert_eq!(log.total(), total as u64);
        assert_eq!(log.dropped(), dropped as u64, "{total} by {step}");
        assert!(log.head() == &all[..head], "head of {total} by {step}");
        assert!(log.tail() == &all[head + dropped..], "tail of {total} by {step}");
    }

    #[test]
    fn both_ends_are_kept() {
        let full = LOG_HEAD_BYTES + LOG_TAIL_BYTES;
        check(0, 1, 0);
        check(1000, 7, 0);
        check(LOG_HEAD_BYTES, 1000, 0);
        check(LOG_HEAD_BYTES + 1, 1000, 0);
        check(full, 65536, 0);
        check(full + 1, 65536, 1);
        check(5 * full + 3, 65521, 4 * full + 3);
        check(5 * full, 5 * full, 4 * full);
    }

    #[test]
    fn text_says_what_is_missing() {
        let mut log = Log::default();
        log.push(b"caf\xc3\xa9 \xff");
        assert_eq!(log.to_text(), "café \u{fffd}");
        log.push(&vec![b'x'; LOG_HEAD_BYTES + LOG_TAIL_BYTES]);
        let text = log.to_text();
        assert!(text.contains("\n[... 7 of 1310727 bytes dropped here ...]\n"), "{}", text.len());
    }

    #[test]
    fn character_across_head_and_tail_stays_whole() {
        let mut log = Log::default();
        log.push(&vec![b'x'; LOG_HEAD_BYTES - 1]);
        log.push("é".as_bytes());
        assert!(log.to_text().ends_with("xé"));
    }
}
