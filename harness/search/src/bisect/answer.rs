use serde::{Deserialize, Serialize};

/// Two builds between which the change lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Last good build.
    pub last_good: usize,
    /// First bad build. Builds between the two cannot be tested, so the change is in one of them or in this build.
    pub first_bad: usize,
    /// Posterior probability that the change is here, 0 to 1.
    pub confidence: f64,
    /// Estimated failure rate of bad builds, 0 to 1.
    pub rate: f64,
    /// Estimated rate at which good builds fail with the same signature, 0 to 1.
    pub noise: f64,
    /// Upper bound, with 99 % confidence, of the last good build's failure rate, from its own runs alone, 0 to 1.
    #[serde(default, rename = "before")]
    pub last_good_rate_below: f64,
}

impl Edge {
    /// Returns the probability that `first_bad` itself introduced the change, given that an incomplete listing
    /// omitted `hidden` builds right before it, each as likely as any other.
    pub fn confidence_in_first_bad(&self, hidden: u32) -> f64 {
        self.confidence / (1.0 + f64::from(hidden))
    }
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The change is at one place. None of the tested builds before it has failed.
    Found(Edge),
    /// The failure becomes more frequent at this edge, but builds before it have failed too, and the runs do not show
    /// where that began: at the good end already, or only in single builds.
    Increase {
        /// Edge at which the failure becomes more frequent.
        edge: Edge,
    },
    /// One of the two builds is an end that is from another line of history ([`super::Setup::other_line`]), so the
    /// failure begins outside of the builds between the ends.
    OtherLine {
        /// The two builds: the good end and the first build after it that fails, or the last build that passes and
        /// the bad end.
        edge: Edge,
    },
    /// The failure begins at a low rate in `after + 1 ..= until` and becomes much more frequent at `edge`.
    Worse {
        /// Last build that is certainly good.
        after: usize,
        /// First build that certainly fails at times.
        until: usize,
        /// Estimated failure rate before `edge`, 0 to 1.
        rate: f64,
        /// Edge at which the failure becomes more frequent.
        edge: Edge,
    },
    /// The observations need more than one change: the failure begins at each of these edges, and the history is good
    /// again between them.
    Several {
        /// Edges from good to bad, in the order of the history.
        edges: Vec<Edge>,
    },
    /// The budget is spent. The change is somewhere in `last_good + 1 ..= first_bad`.
    Range {
        /// Last build that is certainly good.
        last_good: usize,
        /// First build that is certainly bad.
        first_bad: usize,
        /// Posterior probability of the range, at least 0.99; 0 if the ends have not been verified yet.
        mass: f64,
        /// The exhausted budget: `runs`, `installs` or `seconds`.
        spent: String,
    },
    /// The bad end does not fail, or not often enough.
    NotReproducible {
        /// Runs of the bad end.
        runs: u32,
        /// Number of runs of the bad end that failed.
        bad: u32,
    },
    /// The good end fails too.
    GoodEndFails {
        /// Runs of the good end.
        runs: u32,
        /// Number of runs of the good end that failed.
        bad: u32,
    },
    /// The bad end only passes and the good end only fails; the ends seem to be exchanged.
    Exchanged {
        /// Passes of the bad end.
        passes: u32,
        /// Failures of the good end.
        failures: u32,
    },
    /// An end of the history cannot be tested.
    EndUnusable {
        /// 0 or the bad end.
        end: usize,
    },
    /// The good end passed and then failed in every run: the device is out of order, or the failure does not depend
    /// on the build.
    Wedged {
        /// Passes of the good end before its failures in a row.
        passes: u32,
        /// Failures in a row since then.
        failures: u32,
    },
}

impl Answer {
    /// Returns the two builds between which the failure begins or becomes more frequent, if the answer has one such
    /// place.
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

    /// Journals of earlier versions are read, so the names of the fields stay.
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
