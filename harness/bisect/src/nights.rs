//! The second phase of `--to`: continues from two nightly builds to the pushes between them.

use std::path::PathBuf;

use stacks::Date;

/// The result of the first phase.
pub struct Nights {
    /// The build that passes.
    pub good: Night,
    /// The build that fails.
    pub bad: Night,
    /// Signature that the search follows; none if every failure of a kind counts.
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
    /// Returns the build of another source that corresponds to this one: the push with the commit of its manifest, else
    /// the last push of its day.
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
