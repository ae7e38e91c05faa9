//! Kinds of simulated histories, each with the true failure rates of its builds.

/// Pseudo-random numbers (xorshift64*). The generator makes the same histories on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a uniformly distributed number, 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        for shift in [12_i32, -25, 27] {
            self.0 ^= if shift < 0 { self.0 << -shift } else { self.0 >> shift };
        }
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn from(&mut self, low: usize, high: usize) -> usize {
        low + (self.share() * (high - low + 1) as f64) as usize
    }
}

/// Index of the last build, which is the bad end.
pub(crate) const LAST: usize = 48;

/// A simulated history with its true failure rates. Builds are numbered from the good end.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// For each build, the rate of the failure that the search looks for, 0 to 1.
    pub(crate) rates: Vec<f64>,
    /// For each build, the rate of another failure, 0 to 1.
    pub(crate) others: Vec<f64>,
    /// For each build, true if it cannot be installed.
    pub(crate) unfetchable: Vec<bool>,
    /// For each build, true if its runs give no verdict.
    pub(crate) silent: Vec<bool>,
    /// True if the good end is a release, which belongs to another line of history than the other builds.
    pub(crate) release: bool,
}

impl World {
    fn of(rate: impl FnMut(usize) -> f64) -> World {
        World {
            rates: (0..=LAST).map(rate).collect(),
            others: vec![0.0; LAST + 1],
            unfetchable: vec![false; LAST + 1],
            silent: vec![false; LAST + 1],
            release: false,
        }
    }

    fn step(r: &mut Random, rate: f64) -> World {
        let at = r.from(1, LAST);
        World::of(|n| if n < at { 0.0 } else { rate })
    }

    /// Returns a history whose builds first never fail, then fail at rate `low` for `length` builds, then at rate
    /// `high`.
    fn steps(r: &mut Random, low: f64, length: usize, high: f64) -> World {
        let at = r.from(1, LAST - length);
        World::of(|n| match n {
            n if n < at => 0.0,
            n if n < at + length => low,
            _ => high,
        })
    }

    /// Returns a history in which the failure begins, is fixed, and begins again.
    fn again(r: &mut Random, rate: f64) -> World {
        let (at, fixed) = (r.from(1, 14), r.from(18, 30));
        let again = r.from(fixed + 4, LAST);
        World::of(|n| if (at..fixed).contains(&n) || n >= again { rate } else { 0.0 })
    }

    /// Marks random rows of consecutive builds. The two ends are never marked.
    fn rows(r: &mut Random, begins: f64, ends: f64) -> Vec<bool> {
        let mut inside = false;
        let row = |n: usize| {
            inside = r.share() < if inside { 1.0 - ends } else { begins };
            inside && n > 0 && n < LAST
        };
        (0..=LAST).map(row).collect()
    }
}

pub(crate) type Kind = (&'static str, fn(&mut Random) -> World);

pub(crate) const KINDS: [Kind; 36] = [
    ("a step from 0 to 1", |r| World::step(r, 1.0)),
    ("a step from 0 to .8", |r| World::step(r, 0.8)),
    ("a step from 0 to .5", |r| World::step(r, 0.5)),
    ("a step from 0 to .2", |r| World::step(r, 0.2)),
    ("a step from 0 to .1", |r| World::step(r, 0.1)),
    (".1 for 8 builds, then 1", |r| World::steps(r, 0.1, 8, 1.0)),
    (".2 for 20 builds, then 1", |r| World::steps(r, 0.2, 20, 1.0)),
    (".5 for 10 builds, then 1", |r| World::steps(r, 0.5, 10, 1.0)),
    (".1 for 20 builds, then .9", |r| World::steps(r, 0.1, 20, 0.9)),
    (".3 for 3 builds, then .8", |r| World::steps(r, 0.3, 3, 0.8)),
    ("two steps of random rates", |r| {
        let (low, high, length) = (0.1 + 0.4 * r.share(), 0.6 + 0.4 * r.share(), r.from(1, 30));
        World::steps(r, low, length, high)
    }),
    ("fixed, and broken again", |r| World::again(r, 1.0)),
    ("fixed, and broken again, .6", |r| World::again(r, 0.6)),
    ("a rise from .1 to 1 over 18 builds", |r| {
        let at = r.from(1, LAST - 20);
        World::of(|n| if n < at { 0.0 } else { (0.1 + 0.05 * (n - at) as f64).min(1.0) })
    }),
    ("a rise by .1 at each build", |r| {
        let at = r.from(1, LAST - 10);
        World::of(|n| if n < at { 0.0 } else { (0.1 * (n - at + 1) as f64).min(1.0) })
    }),
    ("uniform random rates from a build on", |r| {
        let at = r.from(1, LAST);
        World::of(|n| match n {
            LAST => 0.9,
            n if n < at => 0.0,
            _ => r.share(),
        })
    }),
    ("uniform random rates between clean ends", |r| {
        World::of(|n| [r.share(), 0.0, 1.0][usize::from(n == 0) + 2 * usize::from(n == LAST)])
    }),
    ("uniform random rates, the good end too", |r| {
        World::of(|n| if n == LAST { 0.9 } else { 0.2 + 0.6 * r.share() })
    }),
    ("a single bad build before the step", |r| {
        let (single, at) = (r.from(2, 20), r.from(24, LAST));
        World::of(|n| f64::from(u8::from(n == single || n >= at)))
    }),
    ("a tenth of the good builds fails at .3", |r| {
        let at = r.from(10, LAST);
        World::of(|n| match n {
            n if n >= at => 0.9,
            0 => 0.0,
            _ if r.share() < 0.1 => 0.3,
            _ => 0.0,
        })
    }),
    ("a fifth cannot be fetched, .7", |r| {
        let unfetchable = World::rows(r, 0.2, 0.8);
        World { unfetchable, ..World::step(r, 0.7) }
    }),
    ("rows that cannot be fetched, 1", |r| {
        let unfetchable = World::rows(r, 0.1, 0.15);
        World { unfetchable, ..World::step(r, 1.0) }
    }),
    ("rows without a verdict, .6", |r| {
        let silent = World::rows(r, 0.1, 0.25);
        World { silent, ..World::step(r, 0.6) }
    }),
    ("a release before nights that broke earlier", |_| World {
        release: true,
        ..World::of(|n| f64::from(u8::from(n > 0)))
    }),
    ("a release before nights that broke earlier, .5", |_| World {
        release: true,
        ..World::of(|n| if n > 0 { 0.5 } else { 0.0 })
    }),
    ("a release before good nights", |r| {
        let at = r.from(2, LAST);
        World { release: true, ..World::of(|n| f64::from(u8::from(n >= at))) }
    }),
    ("fixed in two steps, seen backwards", |r| {
        let mut world = World::steps(r, 0.25, 6, 1.0);
        world.rates[LAST] = 0.9;
        world
    }),
    ("always bad", |_| World::of(|_| 1.0)),
    ("always bad at .3", |_| World::of(|_| 0.3)),
    ("never bad", |_| World::of(|_| 0.0)),
    ("every second build bad, from a build on", |r| {
        let at = r.from(2, LAST - 10);
        World::of(|n| f64::from(u8::from(n >= at && (LAST - n).is_multiple_of(2))))
    }),
    ("another failure before the step", |r| {
        let mut world = World::step(r, 0.9);
        let share = r.share();
        let bad = world.rates.clone();
        world.others =
            (0..=LAST).map(|n| if n > 0 && bad[n] == 0.0 { 0.4 * share } else { 0.0 }).collect();
        world
    }),
    ("every build fails at .05, then .9", |r| {
        let at = r.from(2, LAST);
        World::of(|n| if n < at { 0.05 } else { 0.9 })
    }),
    ("every build fails at .2, then 1", |r| {
        let at = r.from(2, LAST);
        World::of(|n| if n < at { 0.2 } else { 1.0 })
    }),
    ("the good end alone fails at .2 to .5", |r| {
        let (at, rate) = (r.from(2, LAST), 0.2 + 0.3 * r.share());
        World::of(|n| match n {
            0 => rate,
            n if n < at => 0.0,
            _ => 1.0,
        })
    }),
    ("exchanged ends", |r| {
        let at = r.from(1, LAST);
        World::of(|n| f64::from(u8::from(n < at)))
    }),
];
