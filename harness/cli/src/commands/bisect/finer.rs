//! The second phase of `--to`: from an answer over nights to the pushes that lie between the two.

use std::path::PathBuf;

use report::evidence::Bisected;
use stacks::Date;

use crate::args::Bisect;

/// What the first phase leaves to the second.
pub(super) struct Nights {
    pub(super) good: Night,
    pub(super) bad: Night,
    /// The failure that is followed; none where every failure of a kind counts.
    pub(super) signature: Option<String>,
    pub(super) folder: PathBuf,
}

/// A build, as far as it tells which pushes it holds.
pub(super) struct Night {
    pub(super) id: String,
    pub(super) day: Option<Date>,
    /// The commit in its manifest.
    pub(super) commit: Option<String>,
}

impl Nights {
    /// Both, as the answer of the second phase names them.
    pub(super) fn names(&self) -> (String, String) {
        (self.good.id.clone(), self.bad.id.clone())
    }

    /// The same search between the two, over the builds of another source.
    pub(super) fn search(&self, args: &Bisect, to: &str) -> Bisect {
        Bisect {
            good: Some(self.good.id.clone()),
            bad: Some(self.bad.id.clone()),
            source: vec![to.to_owned()],
            // Names of nights are none of pushes.
            skip: Vec::new(),
            out: Some(self.folder.join(Bisected::FINER)),
            to: None,
            ..args.clone()
        }
    }
}

impl Night {
    /// The build of another source that this one is the same as: the push that its manifest names, or else the last that was
    /// there when it was built.
    pub(super) fn among(
        &self,
        history: &stacks::History,
        source: &str,
        notes: &mut Vec<String>,
    ) -> Result<usize, String> {
        let commit = self.commit.as_ref();
        if let Some(at) = commit.and_then(|commit| history.find(commit).ok()) {
            return Ok(at);
        }
        let why = match commit {
            Some(commit) => {
                format!("{source} has no build of {commit}, of which {} was made", self.id)
            }
            None => format!("nobody knows of which commit {} was made", self.id),
        };
        let day = self.day.ok_or_else(|| format!("{why}, and it has no day"))?;
        let at = history.find(&day.to_string()).map_err(|e| format!("{why}: {e}"))?;
        notes.push(format!("{why}; taking {} instead, by its day", history.builds[at].id));
        Ok(at)
    }
}
