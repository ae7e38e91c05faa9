//! The second search of `bisect --to`: the first one found two nightly builds, and the second one searches the builds
//! of another download source between them. That source makes one build for each push to the repository.

use std::path::PathBuf;

use stacks::Date;

/// The result of the first search: two nightly builds.
pub struct NightlyPair {
    /// The nightly build that passes.
    pub good: NightlyBuild,
    /// The nightly build that fails.
    pub bad: NightlyBuild,
    pub(crate) signature: Option<String>,
    /// Folder with the answer of the first search.
    pub folder: PathBuf,
}

/// A nightly build.
pub struct NightlyBuild {
    /// Name of the build.
    pub id: String,
    pub(crate) day: Option<Date>,
    /// Commit from which the build was made, according to its manifest.
    pub(crate) commit: Option<String>,
}

impl NightlyPair {
    pub(crate) fn names(&self) -> (String, String) {
        (self.good.id.clone(), self.bad.id.clone())
    }
}

impl NightlyBuild {
    /// Returns the index of the build in `history` that corresponds to this nightly build. `history` lists the builds
    /// of another download source, which makes one build for each push. The build of the same commit corresponds to the
    /// nightly build. Without such a build, returns the index that [`stacks::History::find`] returns for the day of the
    /// nightly build, and adds the reason to `notes`. `source` is the name of the other download source.
    pub(crate) fn find_in_history(
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
                format!(
                    "{source} has no build of commit {commit}, from which {} was built",
                    self.id
                )
            }
            None => format!("the commit of {} is unknown", self.id),
        };
        let day = self.day.ok_or_else(|| format!("{why}: no date is recorded for it"))?;
        let at = history.find(&day.to_string()).map_err(|e| format!("{why}: {e}"))?;
        notes.push(format!("{why}; using {} instead, chosen by its date", history.builds[at].id));
        Ok(at)
    }
}
