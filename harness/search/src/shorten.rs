//! Shortens a text by removing lines while a predicate of the caller stays true, for example "the program still fails".

/// Result of shortening a text with [`shorten`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortenedText {
    /// Indices of the lines that are kept, counted from 0.
    pub lines: Vec<usize>,
    /// True if neither a single kept line nor a block of kept lines can be removed. False if the predicate ended the
    /// search early.
    pub complete: bool,
    /// Number of texts for which the predicate was called.
    pub tries: u32,
}

impl ShortenedText {
    /// Returns the kept lines of `text`, which must be the text that was passed to [`shorten`].
    pub fn apply_to(&self, text: &str) -> String {
        join(&split_lines(text), &self.lines)
    }
}

/// Removes blocks, halves, quarters, ... and single lines of `text` while the predicate `still` returns `Some(true)`.
///
/// `Some(false)` means that the removed lines are needed. `None` ends the search, and the result contains the lines
/// that are kept so far.
///
/// A block consists of a line and the more deeply indented lines after it (Python), or of a line that opens brackets
/// and the lines up to the closing ones (C++). A function is therefore removed as a whole, because removing a half of
/// it breaks the program.
pub fn shorten(text: &str, still: &mut dyn FnMut(&str) -> Option<bool>) -> ShortenedText {
    let lines = split_lines(text);
    let mut search = Search { left: (0..lines.len()).collect(), lines, tries: 0, still };
    let complete = search.run().is_some();
    ShortenedText { lines: search.left, complete, tries: search.tries }
}

struct Search<'t> {
    lines: Vec<&'t str>,
    left: Vec<usize>,
    tries: u32,
    still: &'t mut dyn FnMut(&str) -> Option<bool>,
}

impl Search<'_> {
    /// Removes lines until nothing more can be removed. Returns `None` if the predicate ended the search.
    fn run(&mut self) -> Option<()> {
        loop {
            let before = self.left.len();
            self.remove_blocks()?;
            let mut size = self.left.len().div_ceil(2);
            while size > 0 {
                self.remove_runs(size)?;
                size = if size == 1 { 0 } else { size.div_ceil(2) };
            }
            if self.left.len() == before {
                return Some(());
            }
        }
    }

    /// Tries to remove each block. If two blocks begin at one line, the longer one is tried first.
    fn remove_blocks(&mut self) -> Option<()> {
        let mut at = 0;
        while at < self.left.len() {
            let mut ends = [self.indented_end(at), self.bracket_end(at)];
            ends.sort_by_key(|end| std::cmp::Reverse(*end));
            let mut gone = false;
            for end in ends.into_iter().filter(|end| *end > at + 1) {
                gone = gone || self.remove(at, end)?;
            }
            at += usize::from(!gone);
        }
        Some(())
    }

    fn remove_runs(&mut self, size: usize) -> Option<()> {
        let mut at = 0;
        while at < self.left.len() {
            let end = (at + size).min(self.left.len());
            if !self.remove(at, end)? {
                at = end;
            }
        }
        Some(())
    }

    /// Removes the kept lines `from..to` if the predicate is true without them. Returns true if they were removed, and
    /// `None` if the predicate ended the search.
    fn remove(&mut self, from: usize, to: usize) -> Option<bool> {
        let rest = [&self.left[..from], &self.left[to..]].concat();
        self.tries += 1;
        let stays = (self.still)(&join(&self.lines, &rest))?;
        if stays {
            self.left = rest;
        }
        Some(stays)
    }

    fn line(&self, at: usize) -> &str {
        self.lines[self.left[at]]
    }

    /// Returns the index after the last of the lines that follow line `at` and are indented more deeply.
    fn indented_end(&self, at: usize) -> usize {
        let depth = |at: usize| self.line(at).len() - self.line(at).trim_start().len();
        let empty = |at: usize| self.line(at).trim().is_empty();
        let below = |n: &usize| empty(*n) || depth(*n) > depth(at);
        if empty(at) {
            at
        } else {
            (at + 1..self.left.len()).take_while(below).last().map_or(at, |n| n + 1)
        }
    }

    /// Returns the index after the line with the last closing bracket for the brackets that line `at` opens.
    fn bracket_end(&self, at: usize) -> usize {
        let mut open = 0_i64;
        for n in at..self.left.len() {
            let count = |set: [char; 3]| self.line(n).matches(set).count() as i64;
            open += count(['(', '[', '{']) - count([')', ']', '}']);
            if open <= 0 {
                return n + 1;
            }
        }
        at
    }
}

fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn join(lines: &[&str], left: &[usize]) -> String {
    left.iter().map(|n| lines[*n]).collect()
}
