use serde::{Deserialize, Serialize};

/// The two builds between which the change is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The last build that is good.
    pub last_good: usize,
    /// The first build that is bad. Builds between the two cannot be tested: the change is in any of them or in this one.
    pub first_bad: usize,
    /// Posterior probability that the change is here, 0 to 1.
    pub confidence: f64,
    /// Rate at which bad builds fail, as estimated, 0 to 1.
    pub rate: f64,
    /// Rate at which good builds fail in the same way, as estimated, 0 to 1.
    pub noise: f64,
    /// The last good build fails more rarely than this, with 99 % by its own runs alone, 0 to 1.
    #[serde(default)]
    pub before: f64,
}

impl Edge {
    /// How sure it is that the newer of the two builds brings the change, where so many builds may be hidden between
    /// them: a source did not say what it has, and each of these is as likely a place as any.
    pub fn own_share(&self, hidden: u32) -> f64 {
        self.confidence / (1.0 + f64::from(hidden))
    }
}

/// How a search ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The change is here.
    Found(Edge),
    /// It fails rarely from a place in `after + 1 ..= until` on, and much more often from the edge on.
    Worse {
        /// No later than this the builds are good.
        after: usize,
        /// From this on they fail at times.
        until: usize,
        /// How often, as estimated, 0 to 1.
        rate: f64,
        /// Where it gets worse.
        edge: Edge,
    },
    /// What was observed needs more than one change: it breaks at each of these places, and is good again between them.
    Several {
        /// From good to bad, in the order of the history.
        edges: Vec<Edge>,
    },
    /// The budget is spent. The change is somewhere in `last_good + 1 ..= first_bad`.
    Range {
        /// No later than this the builds are good.
        last_good: usize,
        /// From this on they are bad.
        first_bad: usize,
        /// Posterior probability of the range, at least 0.99; 0 where the ends were not verified yet.
        mass: f64,
        /// Which budget: `runs`, `installs` or `seconds`.
        spent: String,
    },
    /// The bad end does not fail, or not often enough.
    NotReproducible {
        /// Runs of it.
        runs: u32,
        /// Failures among them.
        bad: u32,
    },
    /// The good end fails too.
    GoodEndFails {
        /// Runs of it.
        runs: u32,
        /// Failures among them.
        bad: u32,
    },
    /// The bad end only passes and the good end only fails: they seem to be exchanged.
    Exchanged {
        /// Passes of the bad end.
        passes: u32,
        /// Failures of the good end.
        failures: u32,
    },
    /// An end cannot be tested.
    EndUnusable {
        /// 0 or the bad end.
        end: usize,
    },
    /// The good end passed and then failed at every run: the device is out of order, or the failure depends on something else
    /// than the build.
    Wedged {
        /// Passes before.
        passes: u32,
        /// Failures in a row since.
        failures: u32,
    },
}
