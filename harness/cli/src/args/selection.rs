//! Finds the trials that a command line selects.

use std::collections::HashSet;

use engine::{CaseLibrary, Selected, Stop, select};

use super::Selection;

impl Selection {
    /// Loads the case library. If the arguments name cases, only these and the excluded ones are loaded.
    ///
    /// # Errors
    /// Returns the errors of [`CaseLibrary::load_named`].
    pub(crate) fn library(&self) -> Result<CaseLibrary, Stop> {
        let words = if self.cases.is_empty() { [].iter() } else { self.exclude.iter() };
        let words: Vec<&str> = self.cases.iter().chain(words).map(String::as_str).collect();
        CaseLibrary::load_named(self.from.selected_source().as_ref(), &words)
    }

    /// Returns the trials that the arguments name, without the excluded ones.
    ///
    /// # Errors
    /// Returns an error if a name is unknown or if all trials are excluded.
    pub(crate) fn select<'a>(&self, library: &'a CaseLibrary) -> Result<Vec<Selected<'a>>, Stop> {
        let excluded = match self.exclude.as_slice() {
            [] => Ok(Vec::new()),
            names => select(library, names),
        };
        let (mut selected, excluded) = Stop::both(select(library, &self.cases), excluded)?;
        if excluded.is_empty() {
            return Ok(selected);
        }
        let excluded: HashSet<String> = excluded.iter().map(Selected::id).collect();
        selected.retain(|selected| !excluded.contains(&selected.id()));
        if selected.is_empty() {
            return Err(Stop::nothing("error: no trial is left: every named trial is excluded"));
        }
        Ok(selected)
    }
}
