//! A text made shorter by whole lines while something stays true of it. Pure: what it is, the caller finds out.

/// A text that was made shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shorter {
    /// The lines that are left, counted from 0.
    pub lines: Vec<usize>,
    /// Whether none of these can be left out alone, nor any block of them; else the caller wanted no more.
    pub complete: bool,
    /// Texts that were tried.
    pub tries: u32,
}

impl Shorter {
    /// The text that is left.
    pub fn of(&self, text: &str) -> String {
        kept(&split(text), &self.lines)
    }
}

/// Leaves out blocks, halves, quarters, ... and single lines of a text, as long as the rest `still` is what it was; none of that says
/// that no more shall be tried.
///
/// A block is a line with the lines below it that are indented deeper (Python), or up to where the brackets that it opens are closed
/// (C++); so a function goes in one piece, which no half of it could.
pub fn shorten(text: &str, still: &mut dyn FnMut(&str) -> Option<bool>) -> Shorter {
    let lines = split(text);
    let mut search = Search { left: (0..lines.len()).collect(), lines, tries: 0, still };
    let complete = search.run().is_some();
    Shorter { lines: search.left, complete, tries: search.tries }
}

struct Search<'t> {
    lines: Vec<&'t str>,
    left: Vec<usize>,
    tries: u32,
    still: &'t mut dyn FnMut(&str) -> Option<bool>,
}

impl Search<'_> {
    /// None where no more shall be tried.
    fn run(&mut self) -> Option<()> {
        loop {
            let before = self.left.len();
            self.without_blocks()?;
            let mut size = self.left.len().div_ceil(2);
            while size > 0 {
                self.without_runs_of(size)?;
                size = if size == 1 { 0 } else { size.div_ceil(2) };
            }
            if self.left.len() == before {
                return Some(());
            }
        }
    }

    /// The longest block first: what is in it need not be tried alone.
    fn without_blocks(&mut self) -> Option<()> {
        let mut at = 0;
        while at < self.left.len() {
            let mut ends = [self.deeper(at), self.closed(at)];
            ends.sort_by_key(|end| std::cmp::Reverse(*end));
            let mut gone = false;
            for end in ends.into_iter().filter(|end| *end > at + 1) {
                gone = gone || self.without(at, end)?;
            }
            at += usize::from(!gone);
        }
        Some(())
    }

    fn without_runs_of(&mut self, size: usize) -> Option<()> {
        let mut at = 0;
        while at < self.left.len() {
            let end = (at + size).min(self.left.len());
            if !self.without(at, end)? {
                at = end;
            }
        }
        Some(())
    }

    /// Leaves out some of the lines that are left, if what is to stay true does.
    fn without(&mut self, from: usize, to: usize) -> Option<bool> {
        let rest = [&self.left[..from], &self.left[to..]].concat();
        self.tries += 1;
        let stays = (self.still)(&kept(&self.lines, &rest))?;
        if stays {
            self.left = rest;
        }
        Some(stays)
    }

    fn line(&self, at: usize) -> &str {
        self.lines[self.left[at]]
    }

    /// The end of the lines that are indented deeper than this one.
    fn deeper(&self, at: usize) -> usize {
        let depth = |at: usize| self.line(at).len() - self.line(at).trim_start().len();
        let empty = |at: usize| self.line(at).trim().is_empty();
        let below = |n: &usize| empty(*n) || depth(*n) > depth(at);
        if empty(at) {
            at
        } else {
            (at + 1..self.left.len()).take_while(below).last().map_or(at, |n| n + 1)
        }
    }

    /// The end of the lines up to where what this one opens is closed.
    fn closed(&self, at: usize) -> usize {
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

fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn kept(lines: &[&str], left: &[usize]) -> String {
    left.iter().map(|n| lines[*n]).collect()
}
