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
    let mut one = |texts: &[String]| texts.iter().map(|text| still(text)).collect();
    shorten_many(text, 1, &[], &mut one)
}

/// Shortens a text like [`shorten`], but passes up to `width` texts to `still` at once, so that the caller can test
/// them in parallel. `still` returns one answer for each text, in the same order. The result does not depend on
/// `width`.
///
/// First, the lines of each group in `groups`, which contains indices of lines, are removed together, because one try
/// may then replace one try for each line.
pub fn shorten_many(
    text: &str,
    width: usize,
    groups: &[Vec<usize>],
    still: &mut dyn FnMut(&[String]) -> Option<Vec<bool>>,
) -> ShortenedText {
    let lines = split_lines(text);
    let left = (0..lines.len()).collect();
    let mut search = Search { left, lines, tries: 0, width: width.max(1), still };
    let complete = search.remove_groups(groups).and_then(|()| search.run()).is_some();
    ShortenedText { lines: search.left, complete, tries: search.tries }
}

struct Search<'t> {
    lines: Vec<&'t str>,
    left: Vec<usize>,
    tries: u32,
    width: usize,
    still: &'t mut dyn FnMut(&[String]) -> Option<Vec<bool>>,
}

impl Search<'_> {
    fn remove_groups(&mut self, groups: &[Vec<usize>]) -> Option<()> {
        for group in groups {
            let rest = self.left.iter().copied().filter(|line| !group.contains(line));
            let rest: Vec<usize> = rest.collect();
            if rest.len() == self.left.len() {
                continue;
            }
            self.tries += 1;
            if (self.still)(&[join(&self.lines, &rest)])?.contains(&true) {
                self.left = rest;
            }
        }
        Some(())
    }

    /// Removes lines until nothing more can be removed. Returns `None` if the predicate ended the search.
    fn run(&mut self) -> Option<()> {
        loop {
            let before = self.left.len();
            self.remove_each(1, &|search, at| {
                // If two blocks begin at one line, the longer one is tried first.
                let mut ends = [search.indented_end(at), search.bracket_end(at)];
                ends.sort_by_key(|end| std::cmp::Reverse(*end));
                ends.into_iter().filter(|end| *end > at + 1).collect()
            })?;
            let mut size = self.left.len().div_ceil(2);
            while size > 0 {
                self.remove_each(size, &|search, at| vec![(at + size).min(search.left.len())])?;
                size = if size == 1 { 0 } else { size.div_ceil(2) };
            }
            if self.left.len() == before {
                return Some(());
            }
        }
    }

    /// For every `step`th line and for each end that `ends` returns for it, tries to remove the lines from there up to,
    /// but not including, the end. After a removal, continues at the same place. Returns `None` if the predicate ended
    /// the search.
    fn remove_each(
        &mut self,
        step: usize,
        ends: &dyn Fn(&Self, usize) -> Vec<usize>,
    ) -> Option<()> {
        let mut at = 0;
        while at < self.left.len() {
            // Each text of a batch is made as if no earlier text of the batch were accepted.
            let (mut batch, mut next) = (Vec::new(), at);
            while batch.len() < self.width && next < self.left.len() {
                batch.extend(ends(self, next).into_iter().map(|end| (next, end)));
                next += step;
            }
            let without =
                |(from, to): &(usize, usize)| [&self.left[..*from], &self.left[*to..]].concat();
            let rests: Vec<Vec<usize>> = batch.iter().map(without).collect();
            let texts: Vec<String> = rests.iter().map(|rest| join(&self.lines, rest)).collect();
            self.tries += texts.len() as u32;
            let stays = if texts.is_empty() { Vec::new() } else { (self.still)(&texts)? };
            match stays.iter().position(|stays| *stays) {
                Some(n) => {
                    self.left = rests[n].clone();
                    at = batch[n].0;
                }
                None => at = next,
            }
        }
        Some(())
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

    /// Returns the index after the line that closes the last of the brackets that line `at` opens; `at` if they are
    /// never closed.
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
