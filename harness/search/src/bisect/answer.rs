use serde::{Deserialize, Serialize};

/// The last good and the first bad build of a change: the change lies between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Index of the last good build.
    pub last_good: usize,
    /// Index of the first bad build. The builds between the two cannot be tested, so this build or one of those
    /// introduced the change.
    pub first_bad: usize,
    /// Posterior probability that the change lies between these two builds, 0 to 1.
    pub confidence: f64,
    /// Estimated failure rate of bad builds, 0 to 1.
    pub rate: f64,
    /// Estimated rate at which good builds fail with the same signature, 0 to 1.
    pub noise: f64,
    /// Upper bound of the last good build's failure rate, with 99 % confidence, computed from the runs of this build
    /// alone, 0 to 1.
    #[serde(default, rename = "before")]
    pub last_good_rate_below: f64,
}

impl Edge {
    /// Returns the probability that `first_bad` itself introduced the change, if the listing omits `hidden` builds
    /// right before it. Each of these builds is as likely as `first_bad`.
    pub fn confidence_in_first_bad(&self, hidden: u32) -> f64 {
        self.confidence / (1.0 + f64::from(hidden))
    }
}

/// Result of a bisect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The failure begins at one place. None of the tested builds before it has failed.
    Found(Edge),
    /// The failure rate rises at one build, but earlier builds have failed too. The runs do not show where those
    /// earlier failures begin: they may begin at the good end already, or occur only in isolated builds.
    Increase {
        /// Edge at which the failure becomes more frequent.
        edge: Edge,
    },
    /// One of the edge's two builds is an end of the search that belongs to another line of history
    /// ([`super::BisectSettings::other_line`]), so the failure begins outside of the builds between the ends.
    OtherLine {
        /// The two builds: either the good end and the first build after it, which fails; or the last build before the
        /// bad end, which passes, and the bad end.
        edge: Edge,
    },
    /// The failure begins at a low rate in one of the builds `after + 1 ..= until`, and becomes much more frequent at
    /// `edge`.
    Worse {
        /// Last build that is certainly good.
        after: usize,
        /// First build that is certainly bad, although it does not fail in every run.
        until: usize,
        /// Estimated failure rate before `edge`, 0 to 1.
        rate: f64,
        /// Edge at which the failure becomes more frequent.
        edge: Edge,
    },
    /// A single change does not explain the observations: the failure begins at each of these edges, and disappears
    /// again somewhere between two of them.
    Several {
        /// Changes from good to bad, in the order of the history.
        edges: Vec<Edge>,
    },
    /// The budget is spent. One of the builds `last_good + 1 ..= first_bad` introduced the change.
    Range {
        /// Last build that is certainly good.
        last_good: usize,
        /// First build that is certainly bad.
        first_bad: usize,
        /// Confidence that the change lies in the range, 0 to 1; 0 if the ends have not been verified yet.
        mass: f64,
        /// The exhausted budget: `runs`, `installs` or `seconds`.
        spent: String,
    },
    /// The bad end passes in every run, or fails too rarely for a search.
    NotReproducible {
        /// Number of runs of the bad end.
        runs: u32,
        /// Number of runs of the bad end that failed.
        bad: u32,
    },
    /// The good end fails with the same signature as the bad end.
    GoodEndFails {
        /// Number of runs of the good end.
        runs: u32,
        /// Number of runs of the good end that failed.
        bad: u32,
    },
    /// The bad end has only passed and the good end has only failed, so the user seems to have exchanged the ends.
    Exchanged {
        /// Number of runs of the bad end, which all passed.
        passes: u32,
        /// Number of runs of the good end, which all failed.
        failures: u32,
    },
    /// The good or the bad end cannot be tested.
    EndUnusable {
        /// Index of the end that cannot be tested: 0 is the good end, every other index the bad end.
        end: usize,
    },
    /// The good end passed at first and then failed in every run. Either the device is out of order, or the failure
    /// does not depend on the build.
    Wedged {
        /// Number of passes of the good end before it began to fail.
        passes: u32,
        /// Number of failures in a row after these passes.
        failures: u32,
    },
}

impl Answer {
    /// Returns the two builds between which the failure begins or becomes more frequent; `None` if the answer has no
    /// such place, or several.
    pub fn edge(&self) -> Option<&Edge> {
        match self {
            Answer::Found(edge) | Answer::Increase { edge } | Answer::Worse { edge, .. } => {
                Some(edge)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Journals of earlier versions must remain readable, so the names of the fields must not change.
    #[test]
    fn answers_keep_their_serialised_form() {
        let text = r#"{"answer":"found","last_good":2,"first_bad":3,"confidence":0.99,"rate":0.5,"noise":0.0,"before":0.25}"#;
        let edge = Edge {
            last_good: 2,
            first_bad: 3,
            confidence: 0.99,
            rate: 0.5,
            noise: 0.0,
            last_good_rate_below: 0.25,
        };
        let answer = Answer::Found(edge);
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        assert_eq!(serde_json::from_str::<Answer>(text).unwrap(), answer);
    }
}
