//! What a record file holds, without its records in memory: which runs, and where the record of each trial lies.
//!
//! A file is read once, a line at a time, and each record again when it is wanted. So memory grows with the number of trials by some
//! tens of bytes each, and not with what their records say.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufRead, ErrorKind},
    os::unix::fs::FileExt as _,
};

use judge::VerdictKind;

use crate::{Begun, Ended, Held, Line, Opened, Record, RecordError, Shard};

/// Mistakes of a file that are kept; the others are counted.
const KEPT: usize = 20;

/// Bytes of a record file, from which records are read again.
pub trait Source {
    /// Reads some bytes.
    ///
    /// # Errors
    /// Bytes that are not there, or cannot be read.
    fn read_at(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>>;
}

impl Source for File {
    fn read_at(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.read_exact_at(&mut read, at)?;
        Ok(read)
    }
}

impl Source for [u8] {
    fn read_at(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let read = self.get(at..).and_then(|rest| rest.get(..bytes));
        read.map(<[u8]>::to_vec).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}

/// A line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    at: u64,
    bytes: usize,
}

impl Place {
    fn record(self, source: &(impl Source + ?Sized)) -> io::Result<Record> {
        // Nearly every one is that of a finished trial, which saves to look for the kind of line.
        if let Ok(record) = serde_json::from_slice(&source.read_at(self.at, self.bytes)?) {
            return Ok(record);
        }
        match self.line(source)? {
            Line::Trial(record) => Ok(*record),
            Line::Ended(ended) => Ok(*ended.record),
            _ => Err(changed()),
        }
    }

    fn line(self, source: &(impl Source + ?Sized)) -> io::Result<Line> {
        let bytes = source.read_at(self.at, self.bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        // The line was valid when the index was made.
        Line::parse(&text).map_err(|_| changed())
    }
}

/// Identity of a run and of the shards that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIdentity {
    /// The run.
    pub run: String,
    /// [`Opened::digest`].
    pub digest: String,
    /// [`Opened::repeat`].
    pub repeat: u32,
    /// Which part of the trials it has.
    pub shard: Option<Shard>,
}

impl From<&Opened> for RunIdentity {
    fn from(opened: &Opened) -> RunIdentity {
        let Opened { run, digest, repeat, shard, .. } = opened.clone();
        RunIdentity { run, digest, repeat, shard }
    }
}

/// Where the record of a trial lies.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    passed: bool,
}

/// A run of a file, and those that resumed it.
#[derive(Clone, Debug)]
pub struct RunIndex {
    /// Identity of the run.
    pub identity: RunIdentity,
    opened: Place,
    entries: BTreeMap<u64, Entry>,
    not_looked: BTreeSet<u64>,
    /// The begins without an end, in their order: what gave up a trial that it could not begin, as the GPU was broken, does not make up
    /// for who was ended during it before.
    begins: Vec<Begun>,
}

impl RunIndex {
    /// Reads the plan of the run.
    ///
    /// # Errors
    /// A file that cannot be read, or was changed since it was indexed.
    pub fn opened(&self, source: &(impl Source + ?Sized)) -> io::Result<Opened> {
        match self.opened.line(source)? {
            Line::Opened(opened) => Ok(opened),
            _ => Err(changed()),
        }
    }

    /// Returns the number of finished trials.
    pub fn trials(&self) -> usize {
        self.entries.len()
    }

    /// Returns the numbers of the finished trials.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.entries.keys().copied()
    }

    /// Returns true if the trial of this number is finished.
    pub fn has(&self, number: u64) -> bool {
        self.entries.contains_key(&number)
    }

    /// The records of the trials that are over, by their numbers, each read when it is asked for.
    pub fn records<'i>(
        &'i self,
        source: &'i (impl Source + ?Sized),
    ) -> impl Iterator<Item = io::Result<Record>> + 'i {
        self.entries.values().map(|entry| entry.place.record(source))
    }

    /// The whole run, in memory. Of the records of trials that passed or were skipped only what views show is kept, where `trim` says so.
    ///
    /// # Errors
    /// Those of [`opened`](Self::opened).
    pub fn held(&self, source: &(impl Source + ?Sized), trim: bool) -> io::Result<Held> {
        let mut records = BTreeMap::new();
        for (number, record) in self.entries.keys().zip(self.records(source)) {
            let mut record = record?;
            // Those that are not looked at are written again.
            if trim && !self.not_looked.contains(number) {
                record.let_go();
            }
            records.insert(*number, record);
        }
        let begins = self.begins.iter().cloned();
        Ok(Held {
            opened: self.opened(source)?,
            records,
            not_looked: self.not_looked.clone(),
            lost: begins.map(|begun| (begun.number, begun)).collect(),
        })
    }

    /// A trial is over. Of two ends of one trial that which is no pass counts.
    fn ends(&mut self, record: &Record, place: Place) {
        let number = record.number;
        let there = self.entries.get(&number);
        if self.not_looked.remove(&number) || there.is_none_or(|there| there.passed) {
            let passed = record.verdict.kind == VerdictKind::Pass;
            self.entries.insert(number, Entry { place, passed });
        }
    }
}

fn changed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the file was changed while it was read")
}

/// A line that a record file cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddLine {
    /// Counted from 1.
    pub line: usize,
    /// Reason why it is not such a line.
    pub what: String,
}

/// Such lines of a file: the first ones, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OddLines {
    /// The first ones.
    pub first: Vec<OddLine>,
    /// Number of further lines.
    pub more: usize,
}

impl OddLines {
    fn add(&mut self, line: OddLine) {
        match self.first.len() < KEPT {
            true => self.first.push(line),
            false => self.more += 1,
        }
    }
}

/// The runs of a record file.
#[derive(Clone, Debug, Default)]
pub struct RecordIndex {
    /// The runs that say what they were to do, in the order in which they began.
    pub runs: Vec<RunIndex>,
    /// Lines whose end is missing, as where their writer was killed.
    pub torn: OddLines,
    /// Lines that were written by something else.
    pub foreign: OddLines,
    /// Records that belong to no run with a plan, or to a trial that has another record.
    pub left_out: usize,
    /// Where the run of a line stands among them.
    places: BTreeMap<String, usize>,
    strays: Strays,
}

/// Records of runs that do not say what they were to do.
#[derive(Clone, Debug, Default)]
struct Strays {
    records: BTreeSet<(String, u64)>,
    /// Ends that have no record yet.
    ended: BTreeSet<(String, u64)>,
}

impl RecordIndex {
    /// Reads a record file. Lines that were torn when their writer ended, and those of other runs, are passed over.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(mut lines: impl BufRead) -> io::Result<RecordIndex> {
        let mut index = RecordIndex::default();
        let (mut at, mut bytes) = (0, Vec::new());
        for number in 1.. {
            bytes.clear();
            if lines.read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let place = Place { at, bytes: bytes.len() };
            at += bytes.len() as u64;
            // A letter that was torn with its line spoils no other line.
            let text = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
            if text.trim().is_empty() {
                continue;
            }
            match Line::parse(&text) {
                Ok(line) => index.add(line, place),
                Err(error) => {
                    let torn = matches!(&error, RecordError::Json(error) if error.is_eof());
                    let kept = if torn { &mut index.torn } else { &mut index.foreign };
                    kept.add(OddLine { line: number, what: error.to_string() });
                }
            }
        }
        index.left_out += index.strays.ended.difference(&index.strays.records).count();
        index.strays = Strays::default();
        Ok(index)
    }

    fn add(&mut self, line: Line, place: Place) {
        match line {
            Line::Opened(opened) => {
                let before = opened.resumes.as_ref().and_then(|run| self.places.get(run)).copied();
                self.places.insert(opened.run.clone(), before.unwrap_or(self.runs.len()));
                if before.is_none() {
                    self.runs.push(RunIndex {
                        identity: RunIdentity::from(&opened),
                        opened: place,
                        entries: BTreeMap::new(),
                        not_looked: BTreeSet::new(),
                        begins: Vec::new(),
                    });
                }
            }
            Line::Begun(begun) => {
                if let Some(run) = self.run(&begun.run) {
                    run.begins.push(begun);
                }
            }
            Line::Ended(Ended { run, number, record, .. }) => match self.run(&run) {
                Some(run) => {
                    run.begins.retain(|begun| begun.number != number);
                    if !run.has(number) {
                        run.not_looked.insert(number);
                        let passed = record.verdict.kind == VerdictKind::Pass;
                        run.entries.insert(number, Entry { place, passed });
                    }
                }
                None => _ = self.strays.ended.insert((run, number)),
            },
            // The run gave up the trials that it had begun.
            Line::Over(over) => {
                if let Some(run) = self.run(&over.run) {
                    run.begins.retain(|begun| begun.run != over.run);
                }
            }
            Line::Trial(record) => match self.run(&record.run) {
                Some(run) => {
                    run.begins.retain(|begun| begun.number != record.number);
                    let instead =
                        run.has(record.number) && !run.not_looked.contains(&record.number);
                    run.ends(&record, place);
                    self.left_out += usize::from(instead);
                }
                None => {
                    self.left_out += 1;
                    self.strays.records.insert((record.run, record.number));
                }
            },
        }
    }

    /// The run that a line of a run belongs to.
    fn run(&mut self, run: &str) -> Option<&mut RunIndex> {
        self.places.get(run).map(|at| &mut self.runs[*at])
    }

    /// The last run of the file; where it is a shard, the last ones of the other shards too.
    pub fn last(&self) -> Vec<&RunIndex> {
        let Some(RunIndex { identity: last, .. }) = self.runs.last() else { return Vec::new() };
        let mut shards: BTreeMap<Option<Shard>, &RunIndex> = BTreeMap::new();
        let alike = self.runs.iter().filter(|run| run.identity.digest == last.digest);
        for run in alike {
            shards.insert(run.identity.shard, run);
        }
        shards.retain(|shard, _| shard.map(|s| s.of) == last.shard.map(|s| s.of));
        shards.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
