//! The workgroups that are on the device at a time, and their turns.
//!
//! A workgroup that ends soon has the device for itself. Where one goes on and on, which may be because it waits for
//! another, more of them begin and take turns, up to as many as the part has room for; so workgroups that wait for each other come
//! on, as on hardware. Where none of them can, the launch hangs: no wave has been in a new state for long.

use std::{
    collections::{HashSet, VecDeque},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_64_with_seed};

use crate::{
    Trap,
    checks::{Checks, Watch},
    registers::HALF,
    wave::{State, Wave},
    workgroup::{Clock, Group, Pause},
};

/// Instructions of a workgroup that has the device for itself, and of one that shares it, before the next one has a turn.
const ALONE: u64 = 1 << 20;
const SHARED: u64 = 1 << 16;

/// States of a wave that are remembered: one that waits in a loop has no more.
const STATES: usize = 256;

/// How often the time after which a launch is told to hang until it ends: the host may have to answer.
const PATIENT: u32 = 6;

/// How long a device sleeps on which nothing comes on: the host may have to answer.
pub const PAUSE: Duration = Duration::from_micros(100);

/// A workgroup that is on the device while another has its turn.
pub(crate) struct Resident {
    pub(crate) number: u64,
    pub(crate) waves: Vec<Wave>,
    pub(crate) lds: Vec<u8>,
    pub(crate) lds_asked: u64,
    pub(crate) watch: Watch,
    pub(crate) clock: Clock,
    /// By wave, the states that it was in at the end of a turn.
    states: Vec<HashSet<u64>>,
}

impl Group<'_> {
    /// Puts another workgroup in the place of this one.
    fn swap(&mut self, other: &mut Resident) {
        std::mem::swap(&mut self.waves, &mut other.waves);
        std::mem::swap(&mut self.clock, &mut other.clock);
        std::mem::swap(&mut self.machine.lds, &mut other.lds);
        std::mem::swap(&mut self.machine.lds_asked, &mut other.lds_asked);
        Checks::swap(&mut self.machine.watch, &mut other.watch);
    }
}

impl Resident {
    /// Room for a workgroup of so many waves.
    pub(crate) fn new(waves: Vec<Wave>, clock: Clock, watch: Watch) -> Resident {
        let states = waves.iter().map(|_| HashSet::new()).collect();
        Resident { number: 0, waves, lds: Vec::new(), lds_asked: 0, watch, clock, states }
    }

    /// Whether a wave is in a state in which it has not been yet, out of so many vector registers.
    fn is_in_a_new_state(&mut self, rows: usize) -> bool {
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

/// A number that is the same for the same registers of a wave.
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

/// What comes on, on any thread of a launch.
pub struct Progress {
    /// How often something did.
    count: AtomicU64,
    patience: Duration,
    /// That nothing came on since was told.
    told: AtomicBool,
}

/// For how long a thread has worked since something came on.
pub struct Quiet {
    /// How often something had come on by then.
    count: u64,
    /// What the thread had worked when it last looked.
    before: Duration,
    /// How long that is.
    pub worked: Duration,
}

impl Progress {
    /// Of a launch that is told to hang after that time.
    pub fn new(patience: Duration) -> Progress {
        Progress { count: AtomicU64::new(0), patience, told: AtomicBool::new(false) }
    }

    /// Notes that something came on.
    pub fn note(&self) {
        self.told.store(false, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is time to tell that nothing comes on, which is done once.
    pub fn is_to_be_told(&self, quiet: &Quiet) -> bool {
        quiet.worked > self.patience && !self.told.swap(true, Ordering::Relaxed)
    }

    /// Whether there is no more to wait for.
    pub fn is_at_an_end(&self, quiet: &Quiet) -> bool {
        quiet.worked > PATIENT * self.patience
    }
}

impl Quiet {
    /// Of a thread that begins to look.
    pub fn begin() -> Quiet {
        Quiet { count: 0, before: processor_time(), worked: Duration::ZERO }
    }

    /// Nothing has come on here; the thread has slept for so long since the last time.
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

/// What this thread has worked: neither a machine that is suspended nor one that is busy with other work counts.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is one of Linux, and the result is written to a place of its type.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "every thread has a clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The workgroups of one thread.
pub(crate) struct Residents<'a, 'b> {
    /// Where they have their turns.
    pub(crate) group: Group<'a>,
    pub(crate) progress: &'b Progress,
    /// How many there is room for.
    pub(crate) room: usize,
    /// The vector registers that the kernel uses.
    pub(crate) rows: usize,
    present: VecDeque<Resident>,
    /// Room of workgroups that have ended.
    spare: Vec<Resident>,
    /// How many may be present for now.
    wanted: usize,
    /// All that there are have begun.
    all_begun: bool,
    quiet: Quiet,
    /// The thread has slept since it last looked what comes on.
    slept: bool,
}

/// A workgroup could not be completed.
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

    /// Begins workgroups while there should be more, each by `begin` in room of which `room` makes a new one, and says whether
    /// there are any. `begin` says no more where there are none.
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
                    // What is known of those that were in this room is told at the end.
                    self.spare.push(one);
                }
            }
        }
        Ok(!self.present.is_empty())
    }

    /// The launch has ended: keeps the registers for another.
    pub(crate) fn keep(self) {
        let waves = self.present.into_iter().chain(self.spare).flat_map(|one| one.waves);
        waves.for_each(|wave| wave.vector.keep(self.rows));
    }

    /// What is known of the workgroups that there were, on a launch that is watched.
    pub(crate) fn checks(&mut self) -> impl Iterator<Item = &mut Checks> {
        let all = self.present.iter_mut().chain(&mut self.spare);
        all.filter_map(|one| Checks::of(&mut one.watch))
    }

    /// Gives each workgroup a turn; `ended` is told of the waves of those that have ended.
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
                Pause::Ended => {
                    ended(&one.waves);
                    self.spare.push(one);
                    came_on = true;
                }
                Pause::Tired | Pause::Rests => self.present.push_back(one),
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

    /// All that can be present are, and none has ended: whether any of them comes on.
    fn wait(&mut self) -> Result<(), Failed> {
        let rows = self.rows;
        // Each of them is looked at.
        let new =
            self.present.iter_mut().filter_map(|one| one.is_in_a_new_state(rows).then_some(()));
        let is_new = new.count() > 0;
        // However long the sleep was.
        let slept = if std::mem::take(&mut self.slept) { PAUSE } else { Duration::ZERO };
        self.quiet.goes_on(self.progress, slept);
        if is_new {
            self.progress.note();
        } else if self.progress.is_to_be_told(&self.quiet) {
            let hang = self.hang();
            if self.group.machine.space().hangs(&hang.1).is_break() {
                return Err(hang);
            }
        } else if self.progress.is_at_an_end(&self.quiet) {
            return Err(self.hang());
        } else {
            // The host, or other work, may have to do something first.
            thread::sleep(PAUSE);
            self.slept = true;
        }
        Ok(())
    }

    /// Who waits, and for what.
    fn hang(&mut self) -> Failed {
        let present = self.present.len();
        let find = |states: &[State]| {
            let waits =
                |one: &Resident| one.waves.iter().position(|wave| states.contains(&wave.state));
            let mut present = self.present.iter().enumerate();
            present.find_map(|(index, one)| Some((index, waits(one)?)))
        };
        // One that looks for something says more than those that wait until it comes.
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
