//! The second phase of `--to`: from an answer over nights to the pushes that lie between the two.

use std::path::PathBuf;

use stacks::Date;

/// What the first phase leaves to the second.
pub struct Nights {
    /// The build that passes.
    pub good: Night,
    /// The build that fails.
    pub bad: Night,
    /// The failure that is followed; none where every failure of a kind counts.
    pub(crate) signature: Option<String>,
    /// The folder of the answer.
    pub folder: PathBuf,
}

/// A build, as far as it tells which pushes it holds.
pub struct Night {
    /// Its name.
    pub id: String,
    pub(crate) day: Option<Date>,
    /// The commit in its manifest.
    pub(crate) commit: Option<String>,
}

impl Nights {
    /// Both, as the answer of the second phase names them.
    pub(crate) fn names(&self) -> (String, String) {
        (self.good.id.clone(), self.bad.id.clone())
    }
}

impl Night {
    /// The build of another source that this one is the same as: the push that its manifest names, or else the last that was
    /// there when it was built.
    pub(crate) fn among(
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
