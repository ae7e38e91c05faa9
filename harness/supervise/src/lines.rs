//! Event lines, cut out of a byte stream.

use std::time::Duration;

/// The longest line taken, in bytes, without its newline.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The most memory that all lines of one child may take, in bytes, bookkeeping included.
pub const MAX_EVENT_BYTES: usize = 64 << 20;

/// What keeping a line costs beyond its text; without it a child that prints newlines would fill
/// far more memory than [`MAX_EVENT_BYTES`].
const LINE_COST: usize = size_of::<Line>() + 32;

/// One line that the child wrote to its standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When its end was read, counted from the start of the child.
    pub at: Duration,
    /// The bytes, without the newline.
    pub text: Vec<u8>,
}

/// The lines so far and the beginning of the next one.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) finished: Vec<Line>,
    /// The bytes after the last newline.
    pub(crate) torn: Vec<u8>,
    /// Set when a limit was passed; everything from there on is dropped.
    pub(crate) flooded: bool,
    cost: usize,
}

impl Lines {
    /// When the last line came, or the start where none has.
    pub(crate) fn last_at(&self) -> Duration {
        self.finished.last().map_or(Duration::ZERO, |line| line.at)
    }

    /// Takes what was read at the time `at`, and hands each line that it ends to `on_line`.
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
    fn a_line_ends_at_its_newline_wherever_reads_were_cut() {
        check(&[], &[], "");
        check(&[b"a\nb\n"], &["a", "b"], "");
        check(&[b"a", b"b", b"\n"], &["ab"], "");
        check(&[b"a\n\nb"], &["a", ""], "b");
        check(&[b"one\ntw", b"o\nthr"], &["one", "two"], "thr");
    }

    #[test]
    fn a_line_carries_the_time_of_its_last_byte() {
        let mut lines = Lines::default();
        lines.push(b"beg", Duration::from_secs(1), &mut |_| {});
        lines.push(b"in\n", Duration::from_secs(2), &mut |_| {});
        assert_eq!(lines.finished[0].at, Duration::from_secs(2));
    }

    #[test]
    fn the_longest_line_fits_and_one_byte_more_does_not() {
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
