//! Splits the bytes that a child writes into lines, each of which is one event, and limits their size.

use std::time::Duration;

/// Maximum length of a line in bytes, without its newline.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Maximum memory for all lines of one child, in bytes. Bookkeeping is included.
pub const MAX_EVENT_BYTES: usize = 64 << 20;

/// Memory in bytes that each line needs in addition to its text. Without this term, a child that prints only newlines
/// could use far more memory than [`MAX_EVENT_BYTES`].
const LINE_COST: usize = size_of::<Line>() + 32;

/// One line that the child wrote to its standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Time from the start of the child until the end of the line was read.
    pub at: Duration,
    /// The bytes, without the newline.
    pub text: Vec<u8>,
}

/// The complete lines that were read so far, and the beginning of the next one.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) finished: Vec<Line>,
    /// Bytes after the last newline.
    pub(crate) torn: Vec<u8>,
    /// True after a limit was exceeded. Later bytes are dropped.
    pub(crate) flooded: bool,
    cost: usize,
}

impl Lines {
    /// Returns the time at which the last line was read, or zero before the first line.
    pub(crate) fn last_at(&self) -> Duration {
        self.finished.last().map_or(Duration::ZERO, |line| line.at)
    }

    /// Appends bytes that were read at the time `at`, and calls `on_line` for each line that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], at: Duration, on_line: &mut dyn FnMut(&Line)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.flooded {
                return;
            }
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            self.cost += text.len() + if ends { LINE_COST } else { 0 };
            if self.torn.len() + text.len() > MAX_LINE_BYTES || self.cost > MAX_EVENT_BYTES {
                self.flooded = true;
                return;
            }
            self.torn.extend_from_slice(text);
            if ends {
                let line = Line { at, text: std::mem::take(&mut self.torn) };
                on_line(&line);
                self.finished.push(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&[u8]], finished: &[&str], torn: &str) {
        let mut lines = Lines::default();
        let mut heard = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            let at = Duration::from_secs(index as u64);
            lines.push(chunk, at, &mut |line| heard.push(line.clone()));
        }
        let texts: Vec<_> = heard.iter().map(|line| str::from_utf8(&line.text).unwrap()).collect();
        assert_eq!(texts, finished, "{chunks:?}");
        assert_eq!(lines.torn, torn.as_bytes(), "{chunks:?}");
        assert_eq!(lines.finished, heard, "{chunks:?}");
        assert!(!lines.flooded, "{chunks:?}");
    }

    #[test]
    fn lines_end_at_newlines_however_reads_are_split() {
        check(&[], &[], "");
        check(&[b"a\nb\n"], &["a", "b"], "");
        check(&[b"a", b"b", b"\n"], &["ab"], "");
        check(&[b"a\n\nb"], &["a", ""], "b");
        check(&[b"one\ntw", b"o\nthr"], &["one", "two"], "thr");
    }

    #[test]
    fn line_has_the_time_of_its_last_byte() {
        let mut lines = Lines::default();
        lines.push(b"beg", Duration::from_secs(1), &mut |_| {});
        lines.push(b"in\n", Duration::from_secs(2), &mut |_| {});
        assert_eq!(lines.finished[0].at, Duration::from_secs(2));
    }

    #[test]
    fn line_longer_than_the_limit_is_a_flood() {
        for (bytes, flooded) in [(MAX_LINE_BYTES, false), (MAX_LINE_BYTES + 1, true)] {
            let mut lines = Lines::default();
            for chunk in vec![b'x'; bytes].chunks(1000) {
                lines.push(chunk, Duration::ZERO, &mut |_| {});
            }
            lines.push(b"\n", Duration::ZERO, &mut |_| {});
            assert_eq!(lines.flooded, flooded, "{bytes}");
            assert_eq!(lines.finished.len(), usize::from(!flooded), "{bytes}");
        }
    }

    #[test]
    fn empty_lines_count_towards_the_total() {
        let mut lines = Lines::default();
        let newlines = vec![b'\n'; 1 << 16];
        let mut pushed = 0;
        while !lines.flooded {
            lines.push(&newlines, Duration::ZERO, &mut |_| {});
            pushed += newlines.len();
            assert!(pushed < MAX_EVENT_BYTES, "newlines cost nothing");
        }
        assert!(lines.finished.len() * size_of::<Line>() <= MAX_EVENT_BYTES);
    }
}
