//! Workgroups that are on the device at the same time, and how they take turns.
//!
//! A workgroup that ends soon has the device for itself. A workgroup that runs for long may be waiting for another
//! workgroup. Therefore more workgroups start and take turns, up to the maximum number for the device. Workgroups that
//! wait for each other then make progress, as on hardware. The launch is treated as hung if no wave reaches a new state
//! for a long time.

use std::{
    collections::{HashSet, VecDeque},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_64_with_seed};

use crate::{
    Trap,
    checks::{CheckState, Checks},
    registers::HALF,
    wave::{State, Wave},
    workgroup::{Clock, Group, TurnEnd},
};

/// Number of instructions that a workgroup executes before the next workgroup runs: `ALONE` if it is the only one on
/// the device, `SHARED` if there are several.
const ALONE: u64 = 1 << 20;
const SHARED: u64 = 1 << 16;

/// Maximum number of states that are recorded for each wave. A wave in a spin loop has fewer states.
const STATES: usize = 256;

/// A launch that has been reported as hung ends after this multiple of [`Launch::patience`](crate::Launch::patience)
/// without progress. Until then the host may still do what the launch waits for.
const PATIENT: u32 = 6;

/// Duration of a thread's sleep when no workgroup makes progress. Meanwhile the host can do what the launch waits for.
pub const PAUSE: Duration = Duration::from_micros(100);

/// A workgroup that is on the device but is not running now, because another one is.
pub(crate) struct Resident {
    pub(crate) number: u64,
    pub(crate) waves: Vec<Wave>,
    pub(crate) lds: Vec<u8>,
    pub(crate) lds_asked: u64,
    pub(crate) watch: CheckState,
    pub(crate) clock: Clock,
    /// For each wave, hashes of its states at the ends of its turns.
    states: Vec<HashSet<u64>>,
}

impl Group<'_> {
    fn swap(&mut self, other: &mut Resident) {
        std::mem::swap(&mut self.waves, &mut other.waves);
        std::mem::swap(&mut self.clock, &mut other.clock);
        std::mem::swap(&mut self.machine.lds, &mut other.lds);
        std::mem::swap(&mut self.machine.lds_asked, &mut other.lds_asked);
        Checks::swap(&mut self.machine.watch, &mut other.watch);
    }
}

impl Resident {
    pub(crate) fn new(waves: Vec<Wave>, clock: Clock, watch: CheckState) -> Resident {
        let states = waves.iter().map(|_| HashSet::new()).collect();
        Resident { number: 0, waves, lds: Vec::new(), lds_asked: 0, watch, clock, states }
    }

    /// Returns true if a wave is in a state that has not been recorded. `rows` is the number of vector registers that
    /// are part of the state.
    fn reached_new_state(&mut self, rows: usize) -> bool {
        let mut is_new = false;
        let lds = xxh3_64(&self.lds);
        for (wave, states) in self.waves.iter().zip(&mut self.states) {
            if states.len() >= STATES {
                states.clear();
            }
            is_new |= states.insert(xxh3_64_with_seed(&wave.scratch, state(wave, rows) ^ lds));
        }
        is_new
    }

    fn forget_states(&mut self) {
        self.states.iter_mut().for_each(HashSet::clear);
    }
}

fn state(wave: &Wave, rows: usize) -> u64 {
    let mut all = Xxh3Default::new();
    let mut add = |words: &[u32]| {
        for words in words.chunks(HALF) {
            let mut bytes = [0; 4 * HALF];
            for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
                *place = word.to_le_bytes();
            }
            all.update(&bytes);
        }
    };
    add(&[wave.pc as u32, (wave.pc >> 32) as u32, wave.state as u32]);
    add(&wave.scalar);
    let halves = wave.lanes / HALF;
    wave.vector[..rows].iter().flat_map(|row| &row[..halves]).for_each(|half| add(half));
    all.digest()
}

/// Progress of all threads of a launch. All these threads share this state.
pub struct Progress {
    /// Number of times that a thread has reported progress.
    count: AtomicU64,
    patience: Duration,
    /// True if the lack of progress has been reported and no progress has been made since.
    hang_reported: AtomicBool,
}

/// Time since the launch last made progress, as one thread measures it. The measured time excludes time in which this
/// thread neither has the processor nor sleeps.
pub struct Quiet {
    /// Value of [`Progress::count`] when this thread last checked.
    count: u64,
    before: Duration,
    /// Measured time since the launch last made progress.
    pub worked: Duration,
}

impl Progress {
    /// Creates the state for a launch that is reported as hung after `patience`.
    pub fn new(patience: Duration) -> Progress {
        Progress { count: AtomicU64::new(0), patience, hang_reported: AtomicBool::new(false) }
    }

    /// Records progress.
    pub fn note(&self) {
        self.hang_reported.store(false, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if the launch must be reported as hung now. After that, returns false until there has been
    /// progress.
    pub fn should_report_hang(&self, quiet: &Quiet) -> bool {
        quiet.worked > self.patience && !self.hang_reported.swap(true, Ordering::Relaxed)
    }

    /// Returns true if the launch must end, because the time without progress is several times the patience.
    pub fn is_timed_out(&self, quiet: &Quiet) -> bool {
        quiet.worked > PATIENT * self.patience
    }
}

impl Quiet {
    /// Creates the state for a thread that begins to measure time without progress.
    pub fn begin() -> Quiet {
        Quiet { count: 0, before: processor_time(), worked: Duration::ZERO }
    }

    /// Updates the measured time. The time restarts at zero if any thread has made progress. `slept` is the time for
    /// which this thread has slept since the last call.
    pub fn goes_on(&mut self, progress: &Progress, slept: Duration) {
        let (now, count) = (processor_time(), progress.count.load(Ordering::Relaxed));
        if self.count == count {
            self.worked += now.saturating_sub(self.before) + slept;
        } else {
            (self.count, self.worked) = (count, Duration::ZERO);
        }
        self.before = now;
    }
}

/// Returns the processor time of this thread. Unlike the time of day, it excludes time in which the machine is
/// suspended or runs other processes.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: Linux has this clock, and the result is written to a variable of the right type.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "every thread has a clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Workgroups that one host thread executes, and their state.
pub(crate) struct Residents<'a, 'b> {
    pub(crate) group: Group<'a>,
    pub(crate) progress: &'b Progress,
    /// Maximum number of workgroups that are on the device.
    pub(crate) room: usize,
    pub(crate) rows: usize,
    present: VecDeque<Resident>,
    /// State of ended workgroups, for reuse by new ones.
    spare: Vec<Resident>,
    /// Number of workgroups that may be on the device now. It grows up to `room`.
    wanted: usize,
    all_begun: bool,
    quiet: Quiet,
    slept: bool,
}

/// Number of the workgroup that failed, and the reason.
pub(crate) type Failed = Box<(u64, Trap)>;

impl<'a, 'b> Residents<'a, 'b> {
    pub(crate) fn new(
        group: Group<'a>,
        progress: &'b Progress,
        room: usize,
        rows: usize,
    ) -> Residents<'a, 'b> {
        let (present, spare) = (VecDeque::new(), Vec::new());
        Residents {
            group,
            progress,
            room: room.max(1),
            rows,
            present,
            spare,
            wanted: 1,
            all_begun: false,
            quiet: Quiet::begin(),
            slept: false,
        }
    }

    /// Starts workgroups until `wanted` workgroups are present. `room` creates an empty state for a workgroup, and
    /// `begin` starts the next workgroup or returns `None` if all have been started. Returns true if a workgroup is
    /// present.
    pub(crate) fn fill(
        &mut self,
        room: impl Fn() -> Resident,
        begin: impl Fn(&mut Group<'a>) -> Result<Option<u64>, Failed>,
    ) -> Result<bool, Failed> {
        while !self.all_begun && self.present.len() < self.wanted.min(self.room) {
            let mut one = self.spare.pop().unwrap_or_else(&room);
            self.group.swap(&mut one);
            let begun = begin(&mut self.group);
            self.group.swap(&mut one);
            match begun? {
                Some(number) => {
                    one.number = number;
                    one.forget_states();
                    self.present.push_back(one);
                }
                None => {
                    self.all_begun = true;
                    // The state may contain suspected races of an earlier workgroup, which are reported at the end.
                    self.spare.push(one);
                }
            }
        }
        Ok(!self.present.is_empty())
    }

    /// Keeps the registers of all waves for another launch. Called after the launch has ended.
    pub(crate) fn keep(self) {
        let waves = self.present.into_iter().chain(self.spare).flat_map(|one| one.waves);
        waves.for_each(|wave| wave.vector.keep(self.rows));
    }

    pub(crate) fn checks(&mut self) -> impl Iterator<Item = &mut Checks> {
        let all = self.present.iter_mut().chain(&mut self.spare);
        all.filter_map(|one| Checks::from_state(&mut one.watch))
    }

    /// Runs each workgroup for one turn. Calls `ended` with the waves of each workgroup that has ended.
    pub(crate) fn turn(&mut self, mut ended: impl FnMut(&[Wave])) -> Result<(), Failed> {
        let alone = self.present.len() == 1;
        let mut came_on = false;
        for _ in 0..self.present.len() {
            let Some(mut one) = self.present.pop_front() else { break };
            self.group.swap(&mut one);
            self.group.number = one.number;
            let paused = self.group.run(if alone { ALONE } else { SHARED });
            self.group.swap(&mut one);
            match paused.map_err(|trap| Box::new((one.number, trap)))? {
                TurnEnd::Ended => {
                    ended(&one.waves);
                    self.spare.push(one);
                    came_on = true;
                }
                TurnEnd::BudgetSpent | TurnEnd::Waiting => self.present.push_back(one),
            }
        }
        if came_on {
            self.progress.note();
            return Ok(());
        }
        if !self.all_begun && self.wanted < self.room {
            self.wanted = (2 * self.wanted).min(self.room);
            return Ok(());
        }
        self.wait()
    }

    /// Updates the time without progress, and then sleeps or reports a hang. Called when the maximum number of
    /// workgroups is present and no workgroup has ended in this round.
    fn wait(&mut self) -> Result<(), Failed> {
        let rows = self.rows;
        // `any` would stop at the first workgroup with a new state, but the states of all workgroups must be recorded.
        let new =
            self.present.iter_mut().filter_map(|one| one.reached_new_state(rows).then_some(()));
        let is_new = new.count() > 0;
        // A sleep counts as `PAUSE`, even if it took longer.
        let slept = if std::mem::take(&mut self.slept) { PAUSE } else { Duration::ZERO };
        self.quiet.goes_on(self.progress, slept);
        if is_new {
            self.progress.note();
        } else if self.progress.should_report_hang(&self.quiet) {
            let hang = self.hang();
            if self.group.machine.space().report_hang(&hang.1).is_break() {
                return Err(hang);
            }
        } else if self.progress.is_timed_out(&self.quiet) {
            return Err(self.hang());
        } else {
            // The workgroups may be waiting for the host or for other work.
            thread::sleep(PAUSE);
            self.slept = true;
        }
        Ok(())
    }

    fn hang(&mut self) -> Failed {
        let present = self.present.len();
        let find = |states: &[State]| {
            let waits =
                |one: &Resident| one.waves.iter().position(|wave| states.contains(&wave.state));
            let mut present = self.present.iter().enumerate();
            present.find_map(|(index, one)| Some((index, waits(one)?)))
        };
        // A wave in a spin loop shows the cause better than a wave that waits at global wave sync.
        let found = find(&[State::Running, State::Resting]).or_else(|| find(&[State::AtSync]));
        let (index, wave) = found.unwrap_or_default();
        let Some(mut one) = self.present.remove(index) else {
            return Box::new((0, Trap::InvalidLaunch { reason: "no workgroup".to_owned() }));
        };
        self.group.swap(&mut one);
        let (instruction, address) = self.group.waits_at(wave);
        self.group.swap(&mut one);
        let (workgroup, wave) = (one.number, wave as u32);
        let all_begun = self.all_begun;
        self.present.insert(index, one);
        let hang = Trap::Hang { workgroup, wave, instruction, address, present, all_begun };
        Box::new((workgroup, hang))
    }
}
