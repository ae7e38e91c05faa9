//! Models of realistic histories: failure rates that differ between builds, several changes, machines that drift or
//! break, and runs that depend on the previous run.

use std::ops::RangeInclusive;

/// Pseudo-random numbers (SplitMix64). The generator makes the same histories in every run, on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0x1234_5678);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uniformly distributed number from 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Ways in which the machine changes the failure rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Machine {
    Steady,
    /// The failure rates of bad builds fall, over `over` runs, to `to` times their value.
    Tires {
        to: f64,
        over: u32,
    },
    /// Every build fails at an additional rate, which rises to `to` over `over` runs.
    WearsOut {
        to: f64,
        over: u32,
    },
    /// In the runs `from..to`, every build fails if `fails` is true, and otherwise passes.
    OutOfOrder {
        from: u32,
        to: u32,
        fails: bool,
    },
    /// The first run after a switch to another build always passes.
    ColdStart,
    /// The run after a failing run fails at this rate, whatever the build.
    Lingers(f64),
    /// Before each run, the machine breaks or is repaired with these probabilities. While the machine is broken, every
    /// build fails.
    ComesAndGoes {
        breaks: f64,
        mends: f64,
    },
}

/// A simulated history, and the places that a right answer names.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Failure rate of each build, 0 to 1.
    pub(crate) rates: Vec<f64>,
    /// For each build, true if it cannot be tested.
    pub(crate) broken: Vec<bool>,
    /// For each build, true if the listing omits it, because the source of builds did not list it.
    pub(crate) hidden: Vec<bool>,
    /// Builds at which the failure begins or becomes much more frequent. A right answer names one of them.
    pub(crate) changes: Vec<usize>,
    pub(crate) machine: Machine,
}

impl World {
    pub(crate) fn listed(&self) -> Vec<usize> {
        (0..self.rates.len()).filter(|build| !self.hidden[*build]).collect()
    }

    /// Returns how many of the builds between `good` and `bad` the listing omits.
    pub(crate) fn hidden_between(&self, good: usize, bad: usize) -> u32 {
        (good + 1..bad).filter(|build| self.hidden[*build]).count() as u32
    }

    /// Returns a history with one change at `first_bad`. `bad` returns the failure rate of a bad build, given the
    /// number of builds since the change.
    fn once(
        builds: usize,
        first_bad: usize,
        mut good: impl FnMut() -> f64,
        mut bad: impl FnMut(usize) -> f64,
    ) -> World {
        let rate = |build: usize| if build >= first_bad { bad(build - first_bad) } else { good() };
        World {
            rates: (0..=builds).map(rate).collect(),
            broken: vec![false; builds + 1],
            hidden: vec![false; builds + 1],
            changes: vec![first_bad],
            machine: Machine::Steady,
        }
    }
}

/// A model: a name, and a function that makes random histories of one kind.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&mut Random) -> World,
}

const BUILDS: usize = 256;

fn within(random: &mut Random, range: RangeInclusive<usize>) -> usize {
    range.start() + random.below(range.end() - range.start() + 1)
}

fn anywhere(random: &mut Random) -> usize {
    within(random, 1..=BUILDS)
}

fn steady(random: &mut Random, p: f64, q: f64, machine: Machine) -> World {
    let at = anywhere(random);
    World { machine, ..World::once(BUILDS, at, || q, |_| p) }
}

/// Returns a history whose builds first never fail, then fail at rate `low` for `length` builds, then at rate `high`.
fn in_two_steps(random: &mut Random, low: f64, length: usize, high: f64) -> World {
    let at = within(random, 1..=BUILDS - length);
    let mut world =
        World::once(BUILDS, at, || 0.0, |since| if since < length { low } else { high });
    world.changes.push(at + length);
    world
}

/// Returns a random number from 0 to 1 with a bell-shaped distribution: the mean of three uniformly distributed
/// numbers.
fn bell(random: &mut Random) -> f64 {
    (random.share() + random.share() + random.share()) / 3.0
}

/// Models that were not used to tune the maximum confidence, so they are independent evidence for it.
pub(crate) const INDEPENDENT: [&str; 7] = [
    "a machine that comes and goes, p .7",
    "p heavy-tailed for each build",
    "two changes of any rates",
    "q heavy-tailed for each good build, p .8",
    "p swings with the seasons",
    "a third cannot be tested, in rows, p .7",
    "days missing from the listing, p .7",
];

pub(crate) const MODELS: [Model; 28] = [
    Model { name: "always", make: |r| steady(r, 1.0, 0.0, Machine::Steady) },
    Model { name: "p .6", make: |r| steady(r, 0.6, 0.0, Machine::Steady) },
    Model { name: "p .2", make: |r| steady(r, 0.2, 0.0, Machine::Steady) },
    Model { name: "p .1 for 20 builds, then .9", make: |r| in_two_steps(r, 0.1, 20, 0.9) },
    Model { name: "p .2 for 40 builds, then 1", make: |r| in_two_steps(r, 0.2, 40, 1.0) },
    Model {
        name: "p .1 or .9 for each build",
        make: |r| {
            let at = anywhere(r);
            World::once(BUILDS, at, || 0.0, |_| if r.share() < 0.5 { 0.1 } else { 0.9 })
        },
    },
    Model {
        name: "p .1 to 1 for each build",
        make: |r| {
            let at = anywhere(r);
            World::once(BUILDS, at, || 0.0, |_| 0.1 + 0.9 * r.share())
        },
    },
    Model {
        name: "p a bell around .5 for each build",
        make: |r| {
            let at = anywhere(r);
            World::once(BUILDS, at, || 0.0, |_| bell(r))
        },
    },
    Model {
        name: "5 % of good builds fail at .3",
        make: |r| {
            let at = anywhere(r);
            let mut world =
                World::once(BUILDS, at, || if r.share() < 0.05 { 0.3 } else { 0.0 }, |_| 0.9);
            world.rates[0] = 0.0;
            world
        },
    },
    Model {
        name: "a good side branch of 30 in the bad part",
        make: |r| {
            let at = within(r, 1..=BUILDS - 60);
            let from = within(r, at + 1..=BUILDS - 31);
            let mut world = World::once(BUILDS, at, || 0.0, |_| 1.0);
            world.rates[from..from + 30].fill(0.0);
            world.changes.push(from + 30);
            world
        },
    },
    Model {
        name: "broken, fixed and broken again, p .8",
        make: |r| {
            let at = within(r, 1..=100);
            let (fixed, again) = (within(r, 110..=150), within(r, 160..=BUILDS));
            let mut world = World::once(BUILDS, at, || 0.0, |_| 0.8);
            world.rates[fixed..again].fill(0.0);
            world.changes.push(again);
            world
        },
    },
    Model {
        name: "p rises from .1 to 1 over 60 builds",
        make: |r| {
            let at = within(r, 1..=BUILDS - 60);
            let mut world =
                World::once(BUILDS, at, || 0.0, |since| (0.1 + since as f64 * 0.015).min(1.0));
            world.changes.extend(at + 1..=at + 60);
            world
        },
    },
    Model { name: "p .9, q .1", make: |r| steady(r, 0.9, 0.1, Machine::Steady) },
    Model { name: "p .5, q .05", make: |r| steady(r, 0.5, 0.05, Machine::Steady) },
    Model {
        name: "p falls from .9 to .3 in 40 runs",
        make: |r| steady(r, 0.9, 0.0, Machine::Tires { to: 0.33, over: 40 }),
    },
    Model {
        name: "q rises to .1 in 40 runs, p .9",
        make: |r| steady(r, 0.9, 0.0, Machine::WearsOut { to: 0.1, over: 40 }),
    },
    Model {
        name: "12 runs in a row fail, p .8",
        make: |r| {
            let from = within(r, 6..=30) as u32;
            steady(r, 0.8, 0.0, Machine::OutOfOrder { from, to: from + 12, fails: true })
        },
    },
    Model {
        name: "8 runs in a row pass, p 1",
        make: |r| {
            let from = within(r, 6..=20) as u32;
            steady(r, 1.0, 0.0, Machine::OutOfOrder { from, to: from + 8, fails: false })
        },
    },
    Model {
        name: "the first run of a build passes, p 1",
        make: |r| steady(r, 1.0, 0.0, Machine::ColdStart),
    },
    Model {
        name: "a run after a failure fails at .3, p .8",
        make: |r| steady(r, 0.8, 0.0, Machine::Lingers(0.3)),
    },
    Model {
        name: "a fifth cannot be tested, p .5",
        make: |r| {
            let mut world = steady(r, 0.5, 0.0, Machine::Steady);
            for build in 1..BUILDS {
                world.broken[build] = r.share() < 0.2;
            }
            world
        },
    },
    Model {
        name: "a machine that comes and goes, p .7",
        make: |r| steady(r, 0.7, 0.0, Machine::ComesAndGoes { breaks: 0.01, mends: 0.3 }),
    },
    Model {
        // Rates follow a Pareto distribution with exponent 1.2: most builds fail in a tenth of their runs, some always.
        name: "p heavy-tailed for each build",
        make: |r| {
            let at = anywhere(r);
            World::once(BUILDS, at, || 0.0, |_| (0.06 * r.share().powf(-1.0 / 1.2)).min(1.0))
        },
    },
    Model {
        name: "two changes of any rates",
        make: |r| {
            let (low, high) = (0.05 + 0.45 * r.share(), 0.6 + 0.4 * r.share());
            let length = within(r, 1..=120);
            in_two_steps(r, low, length, high)
        },
    },
    Model {
        // Most good builds never fail; one of ten fails in at least a tenth of its runs.
        name: "q heavy-tailed for each good build, p .8",
        make: |r| {
            let at = anywhere(r);
            World::once(BUILDS, at, || 0.2 * r.share().powi(8), |_| 0.8)
        },
    },
    Model {
        name: "p swings with the seasons",
        make: |r| {
            let (at, phase) = (anywhere(r), r.share());
            let turn = |since: usize| std::f64::consts::TAU * (since as f64 / 30.0 + phase);
            World::once(BUILDS, at, || 0.0, |since| 0.5 + 0.4 * turn(since).sin())
        },
    },
    Model {
        name: "a third cannot be tested, in rows, p .7",
        make: |r| {
            let mut world = steady(r, 0.7, 0.0, Machine::Steady);
            let mut broken = false;
            for build in 1..BUILDS {
                broken = if broken { r.share() > 0.125 } else { r.share() < 0.06 };
                world.broken[build] = broken;
            }
            world
        },
    },
    Model {
        // The source of builds lists the builds of some days only.
        name: "days missing from the listing, p .7",
        make: |r| {
            let mut world = steady(r, 0.7, 0.0, Machine::Steady);
            let mut hole = false;
            for build in 1..BUILDS {
                hole = if hole { r.share() > 0.3 } else { r.share() < 0.1 };
                world.hidden[build] = hole;
            }
            world
        },
    },
];

/// A simulated machine that runs the builds of one history.
pub(crate) struct Lab<'a> {
    world: &'a World,
    random: &'a mut Random,
    runs: u32,
    fresh: bool,
    failed: bool,
    out_of_order: bool,
}

impl<'a> Lab<'a> {
    pub(crate) fn new(world: &'a World, random: &'a mut Random) -> Lab<'a> {
        Lab { world, random, runs: 0, fresh: false, failed: false, out_of_order: false }
    }

    /// Installs a build. Returns false if the build cannot be tested.
    pub(crate) fn install(&mut self, build: usize) -> bool {
        self.fresh = true;
        !self.world.broken[build]
    }

    pub(crate) fn run(&mut self, build: usize) -> bool {
        let rate = self.world.rates[build];
        let part = |over: u32| (f64::from(self.runs) / f64::from(over)).min(1.0);
        let rate = match self.world.machine {
            Machine::Steady => rate,
            Machine::Tires { to, over } => rate * (1.0 - (1.0 - to) * part(over)),
            Machine::WearsOut { to, over } => rate.max(to * part(over)),
            Machine::OutOfOrder { from, to, fails } => match (from..to).contains(&self.runs) {
                true => f64::from(u8::from(fails)),
                false => rate,
            },
            Machine::ColdStart if self.fresh => 0.0,
            Machine::ColdStart => rate,
            Machine::Lingers(lingering) if self.failed => rate.max(lingering),
            Machine::Lingers(_) => rate,
            Machine::ComesAndGoes { breaks, mends } => {
                let turns = if self.out_of_order { mends } else { breaks };
                self.out_of_order ^= self.random.share() < turns;
                if self.out_of_order { 1.0 } else { rate }
            }
        };
        self.failed = self.random.share() < rate;
        self.runs += 1;
        self.fresh = false;
        self.failed
    }
}
