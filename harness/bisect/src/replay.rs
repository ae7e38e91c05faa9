//! Replays journals: repeats the decisions of a search and prints them, without running anything.

use std::path::Path;

use ::search::bisect::{Action, next_action};
use engine::Stop;

use crate::{
    answer,
    error::SearchError,
    journal,
    sentences::{self, Sentences},
};

/// Replays the decisions of a journal. Returns the observations and the answer as text, and the exit code.
///
/// # Errors
/// Returns a usage error for a file that is not a journal, and "no verdict" for a journal whose observations differ
/// from the decisions of this version.
pub fn replay(path: &Path) -> Result<(String, u8), Stop> {
    let past = journal::read(path)?;
    let mut past = past.ok_or_else(|| SearchError::NotJournal(path.to_owned()))?;
    let state = past.replay_decisions()?;
    let mut text = String::new();
    for observation in &past.seen {
        text.push_str(&sentences::line(observation));
        text.push('\n');
    }
    let (sentence, code) = match next_action(&state) {
        Action::Finish(answer) => {
            let name = |point: usize| sentences::label_of(&past.header, &past.seen, point);
            let sentences = Sentences { header: &past.header, seen: &past.seen, name: &name };
            (sentences.sentence(&answer), answer::exit_code(&answer))
        }
        Action::Install(point) | Action::Run(point) => {
            let label = sentences::label_of(&past.header, &past.seen, point);
            (format!("not finished: the next run would be on {label}"), 4)
        }
    };
    Ok((format!("{text}{sentence}\n"), code))
}
