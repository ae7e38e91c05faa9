//! Chooses trials.

use std::collections::HashSet;

use engine::{CaseLibrary, Selected, Stop, select};

use super::Selection;

impl Selection {
    /// The library, as far as what is named and left out needs it.
    ///
    /// # Errors
    /// Those of [`CaseLibrary::load_named`].
    pub(crate) fn library(&self) -> Result<CaseLibrary, Stop> {
        let words = if self.cases.is_empty() { [].iter() } else { self.exclude.iter() };
        let words: Vec<&str> = self.cases.iter().chain(words).map(String::as_str).collect();
        CaseLibrary::load_named(self.from.chosen().as_ref(), &words)
    }

    /// The trials that are named, without those that are left out.
    ///
    /// # Errors
    /// Those of [`select`], of both.
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
            return Err(Stop::nothing("error: every trial that is named is also left out"));
        }
        Ok(selected)
    }
}
