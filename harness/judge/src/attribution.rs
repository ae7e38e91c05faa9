//! Explains wrong bytes that a check has read, by finding the write of the trial that the bytes came from.

use std::{collections::HashMap, ops::Range};

use plan::{BufferWrite, GUARD_BYTE, MemoryEffect, POISON_BYTE, Plan};

use crate::phrases::{self, EXPECTED};

/// Maximum number of wrong ranges that are explained separately.
const RUNS: usize = 64;
/// Maximum number of wrong ranges that are listed, one line for each.
const LINES: usize = 8;
/// Minimum length in bytes of a wrong range that is also searched for at other offsets. A shorter range would often
/// match by chance.
const NEEDLE: usize = 8;

/// Classes of wrong bytes. The class is the last part of a `wrong-data` signature, for example `zero`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// All bytes are zero.
    Zero,
    /// All bytes are the poison that fills fresh memory.
    Poison,
    /// The bytes are an earlier version of the right data.
    Stale,
    /// The bytes are a later version of the right data.
    Later,
    /// The bytes come from another buffer, another offset, or a guard.
    Other,
    /// The bytes are right up to an offset. From that offset to the end they are zero, poison or an earlier version.
    Torn,
    /// Several ranges are wrong, and their classes differ.
    Mixed,
    /// No write of the trial explains the bytes.
    Garbage,
}

impl Class {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Class::Zero => "zero",
            Class::Poison => "poison",
            Class::Stale => "stale",
            Class::Later => "later",
            Class::Other => "other",
            Class::Torn => "torn",
            Class::Mixed => "mixed",
            Class::Garbage => "garbage",
        }
    }
}

/// Facts about a check that failed: the bytes that it read, the expected bytes, and the writes of the trial.
pub(crate) struct Evidence<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) buffer: &'a str,
    /// True if the check read the guards around the buffer instead of the buffer's content.
    pub(crate) guards: bool,
    pub(crate) got: &'a [u8],
    pub(crate) want: &'a [u8],
    pub(crate) earlier: &'a [BufferWrite],
    pub(crate) later: &'a [BufferWrite],
}

pub(crate) struct Attribution {
    pub(crate) class: Class,
    /// Explanation for people: where the wrong bytes and the right bytes come from.
    pub(crate) text: String,
    pub(crate) lines: Vec<String>,
}

/// Explains the wrong ranges. If one explanation fits all ranges, it is used; otherwise each range is explained
/// separately.
pub(crate) fn attribute(evidence: &Evidence<'_>, runs: &[Range<usize>]) -> Attribution {
    let right = evidence.origin(runs);
    let end = |text: String| match &right {
        Some(right) => format!("{text}{EXPECTED}{right}"),
        None => text,
    };
    if let Some(source) = evidence.explain(runs) {
        let text = source.text(evidence);
        return match evidence.torn(runs, &source) {
            Some(at) => Attribution {
                class: Class::Torn,
                text: end(format!("correct up to offset {at}, then {text}")),
                lines: Vec::new(),
            },
            None => Attribution { class: source.class(), text: end(text), lines: Vec::new() },
        };
    }
    let each: Vec<_> = runs
        .iter()
        .take(RUNS)
        .map(|run| (run, evidence.explain(std::slice::from_ref(run))))
        .collect();
    let mut classes: Vec<Class> =
        each.iter().map(|(_, s)| s.as_ref().map_or(Class::Garbage, Source::class)).collect();
    classes.dedup();
    let (class, text) = match classes.as_slice() {
        [Class::Garbage] => {
            (Class::Garbage, "bytes that are not those of any one write of this trial")
        }
        [one] => (*one, "from several writes"),
        _ => (Class::Mixed, "from several sources"),
    };
    let mut lines: Vec<String> = if class == Class::Garbage {
        Vec::new()
    } else {
        each.iter()
            .take(LINES)
            .map(|(run, source)| {
                let what = source.as_ref().map_or(
                    "bytes that are not those of any one write of this trial".to_owned(),
                    |s| s.text(evidence),
                );
                format!("Bytes {}..{}: {what}", run.start, run.end)
            })
            .collect()
    };
    if !lines.is_empty() && runs.len() > LINES {
        lines.push(format!("... and {} more ranges", runs.len() - LINES));
    }
    Attribution { class, text: end(text.to_owned()), lines }
}

enum Source<'a> {
    Constant(Class, u8),
    Write {
        class: Class,
        write: &'a BufferWrite,
        /// Offset in the written buffer that corresponds to offset 0 of the buffer that the check read.
        shift: isize,
    },
}

impl Source<'_> {
    fn class(&self) -> Class {
        match self {
            Source::Constant(class, _) | Source::Write { class, .. } => *class,
        }
    }

    /// Returns true if the bytes that the check read in this range can come from this source.
    fn fits(&self, got: &[u8], range: &Range<usize>) -> bool {
        let Some(read) = got.get(range.clone()) else { return false };
        match self {
            Source::Constant(_, byte) => read.iter().all(|b| b == byte),
            Source::Write { write, shift, .. } => {
                slice(&write.bytes, range, *shift).is_some_and(|bytes| bytes == read)
            }
        }
    }

    fn text(&self, evidence: &Evidence<'_>) -> String {
        match self {
            Source::Constant(Class::Zero, _) => "all zero".to_owned(),
            Source::Constant(Class::Poison, _) => {
                "the fill pattern of fresh memory, so nothing was written there".to_owned()
            }
            Source::Constant(..) => "the bytes of a guard".to_owned(),
            Source::Write { class, write, shift } => {
                let what = evidence.describe(write);
                match (class, *shift) {
                    (Class::Stale, _) => {
                        format!("an earlier content of `{}`, {what}", write.buffer)
                    }
                    (Class::Later, _) => {
                        format!("a later content of `{}`, {what}", write.buffer)
                    }
                    (_, 0) => format!("the bytes of `{}`, {what}", write.buffer),
                    (_, n) if !evidence.guards => format!(
                        "bytes of `{}`, shifted by {} {}, {what}",
                        write.buffer,
                        phrases::count(n.unsigned_abs(), "byte"),
                        if n > 0 { "forward" } else { "back" }
                    ),
                    _ => format!("bytes of `{}`, {what}", write.buffer),
                }
            }
        }
    }
}

impl<'a> Evidence<'a> {
    /// Returns the most likely source that explains the wrong bytes of all ranges; `None` if no source explains them.
    fn explain(&self, runs: &[Range<usize>]) -> Option<Source<'a>> {
        let fits = |source: &Source<'_>| runs.iter().all(|run| source.fits(self.got, run));
        let constants = [
            Source::Constant(Class::Zero, 0),
            Source::Constant(Class::Poison, POISON_BYTE),
            Source::Constant(Class::Other, GUARD_BYTE),
        ];
        constants
            .into_iter()
            .find(|c| fits(c))
            .or_else(|| self.same_offset(runs).into_iter().find(|source| fits(source)))
            .or_else(|| self.shifted(runs.first()?, fits))
    }

    /// Returns candidates for the source of the wrong bytes: buffer contents that may contain these bytes at the offset
    /// at which the check read them. The caller compares the candidates with the bytes. The most likely candidate comes
    /// first.
    fn same_offset(&self, runs: &[Range<usize>]) -> Vec<Source<'a>> {
        if self.guards {
            // The recorded writes contain the content of buffers, without their guards.
            return Vec::new();
        }
        // Names of the buffers that contained the right data at some time. The number is the index of the last write
        // after which a buffer contained it.
        let mut way: HashMap<&str, usize> = HashMap::new();
        for (at, write) in self.earlier.iter().enumerate() {
            if runs.iter().all(|run| slice(&write.bytes, run, 0) == self.want.get(run.clone())) {
                way.insert(&write.buffer, at);
            }
        }
        let mut candidates: Vec<(u8, Source<'a>)> = Vec::new();
        let mut add = |rank, class, write| {
            candidates.push((rank, Source::Write { class, write, shift: 0 }));
        };
        for (at, write) in self.earlier.iter().enumerate().rev() {
            match way.get(write.buffer.as_str()) {
                // There is one recorded write for each copied row. Therefore the content after only some rows of a copy
                // is not an earlier version of the data.
                Some(right) if same_call(write, &self.earlier[*right]) => {}
                _ if write.buffer == self.buffer => add(0, Class::Stale, write),
                Some(right) if at > *right => add(1, Class::Later, write),
                Some(_) => add(1, Class::Stale, write),
                None => add(3, Class::Other, write),
            }
        }
        for write in self.later {
            if write.buffer == self.buffer || way.contains_key(write.buffer.as_str()) {
                add(2, Class::Later, write);
            } else {
                add(4, Class::Other, write);
            }
        }
        candidates.sort_by_key(|(rank, _)| *rank);
        candidates.into_iter().map(|(_, source)| source).collect()
    }

    /// Returns a write that contains the wrong bytes of `run` at an offset other than that at which the check read
    /// them, and for which `fits` returns true. Returns `None` if no write does, or if `run` is too short to be
    /// searched for.
    fn shifted(
        &self,
        run: &Range<usize>,
        fits: impl Fn(&Source<'_>) -> bool,
    ) -> Option<Source<'a>> {
        let read = self.got.get(run.clone()).filter(|read| read.len() >= NEEDLE)?;
        let finder = memchr::memmem::Finder::new(read);
        self.earlier.iter().rev().chain(self.later).find_map(|write| {
            let found = finder.find(&write.bytes)?;
            let shift = found as isize - run.start as isize;
            let source = Source::Write { class: Class::Other, write, shift };
            fits(&source).then_some(source)
        })
    }

    /// If a write stopped half-way, returns the offset at which it stopped: the bytes before this offset are right, and
    /// all bytes from there to the end are old content (zero, poison or an earlier version). Returns `None` if the
    /// write may not have changed any byte.
    fn torn(&self, runs: &[Range<usize>], source: &Source<'_>) -> Option<usize> {
        let start = runs.first()?.start;
        let old = matches!(source.class(), Class::Zero | Class::Poison | Class::Stale);
        // All bytes from the first wrong byte to the end must equal the old content. Right bytes among them may be
        // right by chance.
        let tail = start > 0 && source.fits(self.got, &(start..self.want.len()));
        // If the whole buffer equals the old content, the write may not have changed any byte.
        let all = source.fits(self.got, &(0..self.got.len()));
        (old && tail && !all && !self.guards).then_some(start)
    }

    /// Describes the first write of the trial after which some buffer contained the right bytes. Returns `None` if no
    /// buffer contained them, or if guards were checked.
    fn origin(&self, runs: &[Range<usize>]) -> Option<String> {
        if self.guards {
            return None;
        }
        let root = self.earlier.iter().find(|write| {
            runs.iter().all(|run| slice(&write.bytes, run, 0) == self.want.get(run.clone()))
        })?;
        Some(self.describe(root))
    }

    /// Describes a write, for example `the pattern written at line 14 (fill of src)`. If the write copied bytes,
    /// describes the earlier write that produced them.
    fn describe(&self, write: &BufferWrite) -> String {
        let all = || self.earlier.iter().chain(self.later);
        let root = all().find(|w| w.bytes == write.bytes).unwrap_or(write);
        let repeated = all().any(|w| w.step == root.step && w.occurrence != root.occurrence);
        let iteration = match repeated {
            true => format!(", iteration {}", root.occurrence.saturating_add(1)),
            false => String::new(),
        };
        let step = self.plan.step(root.step);
        let line = match step.map_or(0, |s| s.line) {
            0 => "in set-up".to_owned(),
            line => format!("at line {line}"),
        };
        let buffer = &root.buffer;
        let does = step.map_or(MemoryEffect::Nothing, |s| s.call.work().memory_effect());
        match does {
            MemoryEffect::Fill { .. } => {
                format!("the pattern written {line} (fill of {buffer}{iteration})")
            }
            MemoryEffect::FillNumbers { .. } => {
                format!("the numbers written {line} (fill of {buffer}{iteration})")
            }
            MemoryEffect::FillFile { file, .. } => {
                format!("the bytes of `{file}` written {line} (fill of {buffer}{iteration})")
            }
            MemoryEffect::Set { value, element: 1, .. } => {
                format!("the {value:#04x} bytes set {line} ({buffer}{iteration})")
            }
            MemoryEffect::Set { value, element, .. } => {
                let (of, digits) = (if element == 4 { "words" } else { "elements" }, 2 * element);
                let value = format!("{value:#0width$x}", width = 2 + digits as usize);
                format!("the {of} {value} set {line} ({buffer}{iteration})")
            }
            MemoryEffect::Launch { kernel, .. } => {
                format!("the result of kernel {kernel} {line} (in {buffer}{iteration})")
            }
            MemoryEffect::Product { .. } => {
                format!("the product made {line} (in {buffer}{iteration})")
            }
            MemoryEffect::Copy { .. } | MemoryEffect::Rows { .. } | MemoryEffect::Boxes { .. } => {
                format!("the copy made {line} (to {buffer}{iteration})")
            }
            MemoryEffect::SetBox { .. }
            | MemoryEffect::CountUp(_)
            | MemoryEffect::Generate { .. }
            | MemoryEffect::Foreign { .. }
            | MemoryEffect::Alloc(_)
            | MemoryEffect::Poison(_)
            // Calls with the effects below write nothing.
            | MemoryEffect::Nothing
            | MemoryEffect::Free(_)
            | MemoryEffect::Replay(_)
            | MemoryEffect::Check { .. }
            | MemoryEffect::Compare(..)
            | MemoryEffect::Read(_)
            | MemoryEffect::Guards(_) => format!("the write {line} (to {buffer}{iteration})"),
        }
    }
}

fn same_call(a: &BufferWrite, b: &BufferWrite) -> bool {
    (a.step, a.occurrence) == (b.step, b.occurrence)
}

/// Moves a range by `shift` and returns the part of `bytes` at the moved range; `None` if that range is not inside
/// `bytes`.
fn slice<'b>(bytes: &'b [u8], range: &Range<usize>, shift: isize) -> Option<&'b [u8]> {
    let start = range.start.checked_add_signed(shift)?;
    let end = range.end.checked_add_signed(shift)?;
    bytes.get(start..end)
}
