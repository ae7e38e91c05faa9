//! Replays of journals.

use std::path::Path;

use ::search::bisect::{Action, next};
use engine::Stop;

use crate::{
    answer, journal,
    sentences::{self, Sentences},
};

/// Replays the decisions of a journal without running anything. Returns the observations and the answer as text, and
/// the exit code of the search.
///
/// # Errors
/// Returns a usage error for a file that is not the journal of a search, and no verdict for one in which the search
/// would have decided otherwise.
pub fn replay(path: &Path) -> Result<(String, u8), Stop> {
    let mut past = journal::read(path)?.ok_or_else(|| {
        Stop::usage(format!("error: `{}` is not the journal of a bisect", path.display()))
    })?;
    let state = past.decide_again()?;
    let mut text = String::new();
    for observation in &past.seen {
        text.push_str(&sentences::line(observation));
        text.push('\n');
    }
    let (sentence, code) = match next(&state) {
        Action::Finish(answer) => {
            let name = |point: usize| sentences::label_of(&past.begun, &past.seen, point);
            let sentences = Sentences { begun: &past.begun, seen: &past.seen, name: &name };
            (sentences.sentence(&answer), answer::exit_code(&answer))
        }
        Action::Install(point) | Action::Run(point) => {
            let label = sentences::label_of(&past.begun, &past.seen, point);
            (format!("not finished: the next run is of {label}"), 4)
        }
    };
    Ok((format!("{text}{sentence}\n"), code))
}
