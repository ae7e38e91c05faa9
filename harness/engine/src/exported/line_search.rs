//! Shortens an exported program: searches for lines of its text that can be left out.

use std::collections::BTreeSet;

use ::export::line_removal;
use judge::Kind;
use search::reduce::{
    CandidateOutcome, EditResult, EditTree, ReduceSettings, Reduced, SearchSpace, reduce,
};

use super::shortest::{CandidateRunner, MOST_RUNS};
use crate::Stop;

/// A program with some lines left out. Each line is stored with its number in the full program.
#[derive(Clone)]
pub(super) struct Lines(Vec<(usize, String)>);

impl Lines {
    fn texts(&self) -> Vec<&str> {
        self.0.iter().map(|(_, line)| line.as_str()).collect()
    }

    /// Returns the numbers of the lines in the full program.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(number, _)| *number)
    }

    pub(super) fn text(&self) -> String {
        line_removal::join_tidy(&self.texts())
    }
}

/// An edit that leaves out the lines with these numbers in the full program.
#[derive(Clone)]
pub(super) struct LineRemoval(BTreeSet<usize>);

/// The search space of programs with some lines left out.
struct LineSpace {
    /// Names of the functions on whose calls the expected result depends, each with the number of lines that call it.
    calls: Vec<(&'static str, usize)>,
}

/// Counts the lines that call the function.
fn lines_that_call(program: &Lines, function: &str) -> usize {
    let called = format!("{function}(");
    program.0.iter().filter(|(_, line)| line.contains(&called)).count()
}

impl SearchSpace for LineSpace {
    type Candidate = Lines;
    type Edit = LineRemoval;

    fn edits(&self, program: &Lines) -> EditTree<LineRemoval> {
        let numbered = |part: Vec<usize>| part.into_iter().map(|at| program.0[at].0).collect();
        let parts = line_removal::removable_parts(&program.texts()).into_iter();
        EditTree::Turn(
            parts.map(|part| EditTree::Edit(vec![LineRemoval(numbered(part))])).collect(),
        )
    }

    fn apply(&self, program: &Lines, edits: &[LineRemoval]) -> EditResult<Lines> {
        let goes = |number: &usize| edits.iter().any(|edit| edit.0.contains(number));
        let part: Vec<usize> = (0..program.0.len()).filter(|at| goes(&program.0[*at].0)).collect();
        if part.is_empty() {
            return EditResult::Unchanged;
        }
        if !line_removal::can_remove(&program.texts(), &part) {
            return EditResult::IllFormed("other lines need these lines".to_owned());
        }
        let kept = program.0.iter().filter(|(number, _)| !goes(number)).cloned();
        let kept = Lines(kept.collect());
        match self.calls.iter().find(|(call, lines)| lines_that_call(&kept, call) < *lines) {
            Some((call, _)) => {
                EditResult::IllFormed(format!("the expected result depends on {call}"))
            }
            None => EditResult::Candidate(kept),
        }
    }

    fn key(&self, program: &Lines) -> String {
        program.text()
    }
}

/// Leaves out lines as long as the program still fails at the same rate, and passes on the oracle, the configuration on
/// which it must pass. Lines that call one of the functions `calls` are kept.
pub(super) fn fewer_lines(
    runs: &mut CandidateRunner<'_>,
    text: &str,
    calls: &BTreeSet<&'static str>,
    settings: ReduceSettings,
) -> Result<Reduced<Lines, LineRemoval>, Stop> {
    let start = line_removal::strip_main(text).lines().map(str::to_owned).enumerate().collect();
    let start = Lines(start);
    let calls = calls.iter().map(|call| (*call, lines_that_call(&start, call))).collect();
    let found = reduce(&LineSpace { calls }, start, settings, runs);
    match runs.trouble.take() {
        Some(stop) => Err(stop),
        None => Ok(found),
    }
}

/// Replaces the code that computes the program's expected bytes by literals. Their values are those of a run on the
/// oracle, the configuration on which the program must pass. Returns `None` if the program has no such code, or if it
/// no longer shows the failure with the literals.
pub(super) fn with_bytes(
    runs: &mut CandidateRunner<'_>,
    text: &str,
) -> Result<Option<String>, Stop> {
    let text = line_removal::strip_main(text);
    let Some(found) = line_removal::find_comparison(&text) else { return Ok(None) };
    let mut bytes = vec![0; found.bytes];
    for _ in 0..=found.bytes {
        let written = found.with_literal_bytes(&text, &bytes);
        let Some(seen) = runs.on_oracle(&written)? else { return Ok(None) };
        if seen.kind == Kind::Pass {
            for _ in 0..MOST_RUNS {
                if runs.run_candidate(&written, None)? == CandidateOutcome::Same {
                    return Ok(Some(written));
                }
            }
            return Ok(None);
        }
        match line_removal::parse_wrong_byte(&seen.line) {
            Some((at, byte)) if at < bytes.len() => bytes[at] = byte,
            _ => return Ok(None),
        }
    }
    Ok(None)
}
