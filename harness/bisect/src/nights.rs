//! The second phase of `--to`: continues from two nightly builds to the pushes between them.

use std::path::PathBuf;

use stacks::Date;

/// The result of the first phase.
pub struct Nights {
    /// The build that passes.
    pub good: Night,
    /// The build that fails.
    pub bad: Night,
    pub(crate) signature: Option<String>,
    /// Folder of the answer.
    pub folder: PathBuf,
}

/// A nightly build.
pub struct Night {
    /// Name.
    pub id: String,
    pub(crate) day: Option<Date>,
    /// Commit in the manifest.
    pub(crate) commit: Option<String>,
}

impl Nights {
    pub(crate) fn names(&self) -> (String, String) {
        (self.good.id.clone(), self.bad.id.clone())
    }
}

impl Night {
    /// Returns the corresponding build of another source: the push of its commit, else the last push of its day.
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
                format!("{source} has no build of {commit}, the commit of {}", self.id)
            }
            None => format!("the commit of {} is unknown", self.id),
        };
        let day = self.day.ok_or_else(|| format!("{why}: no date is recorded for it"))?;
        let at = history.find(&day.to_string()).map_err(|e| format!("{why}: {e}"))?;
        notes.push(format!("{why}; taking {} instead, by its day", history.builds[at].id));
        Ok(at)
    }
}
