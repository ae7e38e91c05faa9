//! Indexes a record file: finds its runs, and the position of the record of each trial.
//!
//! The file is read once, line by line. Records are read again when they are needed, so the index needs only some tens
//! of bytes of memory per trial, however long the records are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufRead, ErrorKind},
    os::unix::fs::FileExt as _,
};

use judge::VerdictKind;

use crate::{
    Line, ProvisionalRecord, Record, RecordError, RecordedRun, RunPlan, Shard, TrialStart,
};

/// Maximum number of invalid lines that are kept. Further invalid lines are only counted.
const MAX_KEPT_LINES: usize = 20;

/// Gives random access to the bytes of a record file.
pub trait RecordSource {
    /// Reads `bytes` bytes at offset `at`.
    ///
    /// # Errors
    /// The range does not exist or cannot be read.
    fn read_at(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>>;
}

impl RecordSource for File {
    fn read_at(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.read_exact_at(&mut read, at)?;
        Ok(read)
    }
}

impl RecordSource for [u8] {
    fn read_at(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let read = self.get(at..).and_then(|rest| rest.get(..bytes));
        read.map(<[u8]>::to_vec).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}

/// Position of a line in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinePosition {
    at: u64,
    bytes: usize,
}

impl LinePosition {
    fn record(self, source: &(impl RecordSource + ?Sized)) -> io::Result<Record> {
        // Nearly all lines are final records, so the line is parsed as a record first.
        if let Ok(record) = serde_json::from_slice(&source.read_at(self.at, self.bytes)?) {
            return Ok(record);
        }
        match self.line(source)? {
            Line::Trial(record) => Ok(*record),
            Line::Ended(ended) => Ok(*ended.record),
            _ => Err(changed_error()),
        }
    }

    fn line(self, source: &(impl RecordSource + ?Sized)) -> io::Result<Line> {
        let bytes = source.read_at(self.at, self.bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        // The line was valid when the index was created, so the file must have changed since then.
        Line::parse(&text).map_err(|_| changed_error())
    }
}

/// Identity of a run, by which its shards are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIdentity {
    /// Name of the run.
    pub run: String,
    /// Digest of the plan, see [`RunPlan::digest`].
    pub digest: String,
    /// Number of times that each trial runs, see [`RunPlan::repeat`].
    pub repeat: u32,
    /// Shard that the run executes; `None` if the run has all trials.
    pub shard: Option<Shard>,
}

impl From<&RunPlan> for RunIdentity {
    fn from(opened: &RunPlan) -> RunIdentity {
        let RunPlan { run, digest, repeat, shard, .. } = opened.clone();
        RunIdentity { run, digest, repeat, shard }
    }
}

/// Position of a trial's record in the file, and whether the trial passed.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: LinePosition,
    passed: bool,
}

/// A run in a record file, together with the runs that resumed it.
#[derive(Clone, Debug)]
pub struct RunIndex {
    /// Identity of the run.
    pub identity: RunIdentity,
    opened: LinePosition,
    entries: BTreeMap<u64, Entry>,
    without_health_check: BTreeSet<u64>,
    /// Lines that state the begin of a trial, by trial number, for all trials that have not ended. A trial may have
    /// begun several times: if a run was killed during the trial, and the run that resumed it gave the trial up, both
    /// lines remain.
    begins: BTreeMap<u64, Vec<TrialStart>>,
    /// Names of the runs that ended in good order, and thereby gave up the trials that they had begun but not finished.
    over: BTreeSet<String>,
}

impl RunIndex {
    /// Reads the plan of the run.
    ///
    /// # Errors
    /// The file cannot be read, or was changed since it was indexed.
    pub fn opened(&self, source: &(impl RecordSource + ?Sized)) -> io::Result<RunPlan> {
        match self.opened.line(source)? {
            Line::Opened(opened) => Ok(opened),
            _ => Err(changed_error()),
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

    /// Returns true if the trial with this number is finished.
    pub fn has(&self, number: u64) -> bool {
        self.entries.contains_key(&number)
    }

    /// Reads the records of the finished trials, in the order of their numbers, one at a time.
    pub fn records<'i>(
        &'i self,
        source: &'i (impl RecordSource + ?Sized),
    ) -> impl Iterator<Item = io::Result<Record>> + 'i {
        self.entries.values().map(|entry| entry.place.record(source))
    }

    /// Reads the whole run into memory. If `trim` is true, records of passed and skipped trials keep only the fields
    /// that views show.
    ///
    /// # Errors
    /// The errors of [`opened`](Self::opened).
    pub fn read_run(
        &self,
        source: &(impl RecordSource + ?Sized),
        trim: bool,
    ) -> io::Result<RecordedRun> {
        let mut records = BTreeMap::new();
        for (number, record) in self.entries.keys().zip(self.records(source)) {
            let mut record = record?;
            // If the health check after a trial is still pending, its record will be written again, so it keeps all
            // fields.
            if trim && !self.without_health_check.contains(number) {
                record.trim();
            }
            records.insert(*number, record);
        }
        let begins = self.begins.values().flatten().filter(|begun| !self.over.contains(&begun.run));
        Ok(RecordedRun {
            opened: self.opened(source)?,
            records,
            without_health_check: self.without_health_check.clone(),
            lost: begins.map(|begun| (begun.number, begun.clone())).collect(),
        })
    }

    /// Adds the record of a finished trial. If a trial has two records, a failure takes precedence over a pass.
    fn add_finished(&mut self, record: &Record, place: LinePosition) {
        let number = record.number;
        let there = self.entries.get(&number);
        if self.without_health_check.remove(&number) || there.is_none_or(|there| there.passed) {
            let passed = record.verdict.kind == VerdictKind::Pass;
            self.entries.insert(number, Entry { place, passed });
        }
    }
}

fn changed_error() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the file changed while it was being read")
}

/// A line that is not valid in a record file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLine {
    /// Line number, counted from 1.
    pub line: usize,
    /// Reason why the line is not valid.
    pub what: String,
}

/// Invalid lines of a file: the first 20 of them, and the number of further ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidLines {
    /// The first invalid lines of the file, at most 20.
    pub first: Vec<InvalidLine>,
    /// Number of further invalid lines.
    pub more: usize,
}

impl InvalidLines {
    fn add(&mut self, line: InvalidLine) {
        match self.first.len() < MAX_KEPT_LINES {
            true => self.first.push(line),
            false => self.more += 1,
        }
    }
}

/// Index of all runs in a record file.
#[derive(Clone, Debug, Default)]
pub struct RecordIndex {
    /// The runs whose plan is in the file, in the order in which they began.
    pub runs: Vec<RunIndex>,
    /// Incomplete lines, for example because the writer was killed.
    pub torn: InvalidLines,
    /// Lines that rocrepro did not write.
    pub foreign: InvalidLines,
    /// Number of records that are ignored, because their run has no plan, or because their trial already has a record.
    pub left_out: usize,
    /// Maps the name of each run, and the name of each run that resumed it, to an index into `runs`.
    places: BTreeMap<String, usize>,
    strays: OrphanRecords,
}

/// Records and provisional records of runs whose plan is missing in the file.
#[derive(Clone, Debug, Default)]
struct OrphanRecords {
    records: BTreeSet<(String, u64)>,
    /// Run and number of the provisional records whose final record is still missing.
    ended: BTreeSet<(String, u64)>,
}

impl RecordIndex {
    /// Reads a record file. Incomplete lines, and lines that rocrepro did not write, are collected and do not end the
    /// reading.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(mut lines: impl BufRead) -> io::Result<RecordIndex> {
        let mut index = RecordIndex::default();
        let (mut at, mut bytes) = (0, Vec::new());
        for number in 1.. {
            bytes.clear();
            if lines.read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let place = LinePosition { at, bytes: bytes.len() };
            at += bytes.len() as u64;
            // Invalid UTF-8 in an incomplete line must not affect other lines.
            let text = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
            if text.trim().is_empty() {
                continue;
            }
            match Line::parse(&text) {
                Ok(line) => index.add(line, place),
                Err(error) => {
                    let torn = matches!(&error, RecordError::Json(error) if error.is_eof());
                    let kept = if torn { &mut index.torn } else { &mut index.foreign };
                    kept.add(InvalidLine { line: number, what: error.to_string() });
                }
            }
        }
        index.left_out += index.strays.ended.difference(&index.strays.records).count();
        index.strays = OrphanRecords::default();
        Ok(index)
    }

    fn add(&mut self, line: Line, place: LinePosition) {
        match line {
            Line::Opened(opened) => {
                let before = opened.resumes.as_ref().and_then(|run| self.places.get(run)).copied();
                self.places.insert(opened.run.clone(), before.unwrap_or(self.runs.len()));
                if before.is_none() {
                    self.runs.push(RunIndex {
                        identity: RunIdentity::from(&opened),
                        opened: place,
                        entries: BTreeMap::new(),
                        without_health_check: BTreeSet::new(),
                        begins: BTreeMap::new(),
                        over: BTreeSet::new(),
                    });
                }
            }
            Line::Begun(begun) => {
                if let Some(run) = self.run(&begun.run) {
                    run.begins.entry(begun.number).or_default().push(begun);
                }
            }
            Line::Ended(ProvisionalRecord { run, number, record, .. }) => match self.run(&run) {
                Some(run) => {
                    run.begins.remove(&number);
                    if !run.has(number) {
                        run.without_health_check.insert(number);
                        let passed = record.verdict.kind == VerdictKind::Pass;
                        run.entries.insert(number, Entry { place, passed });
                    }
                }
                None => _ = self.strays.ended.insert((run, number)),
            },
            Line::Over(over) => {
                if let Some(run) = self.run(&over.run) {
                    run.over.insert(over.run);
                }
            }
            Line::Trial(record) => match self.run(&record.run) {
                Some(run) => {
                    run.begins.remove(&record.number);
                    let instead = run.has(record.number)
                        && !run.without_health_check.contains(&record.number);
                    run.add_finished(&record, place);
                    self.left_out += usize::from(instead);
                }
                None => {
                    self.left_out += 1;
                    self.strays.records.insert((record.run, record.number));
                }
            },
        }
    }

    /// Returns the run to which lines with this run name belong; `None` if the file contains no plan of that run.
    fn run(&mut self, run: &str) -> Option<&mut RunIndex> {
        self.places.get(run).map(|at| &mut self.runs[*at])
    }

    /// Returns the last run in the file. If it is a shard, the last runs of the other shards with the same plan are
    /// included.
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
