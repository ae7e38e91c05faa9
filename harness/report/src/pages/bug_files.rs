//! Defines the files of the pages about bugs, and functions that several of these pages use.

use std::collections::BTreeMap;

use crate::bugs::{Bug, BugTrial};

/// Content of the pages about the bugs of a store: a list of all bugs, and a page for each.
#[derive(Clone, Debug)]
pub struct BugPages<'a> {
    /// Bugs of the store.
    pub bugs: &'a [Bug],
    /// For each bug, by its id: the stand-alone program of the trial that failed most recently.
    pub programs: &'a BTreeMap<String, BugProgram>,
    /// Date of the pages, RFC 3339 in UTC.
    pub date: &'a str,
}

/// Stand-alone program that shows a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BugProgram {
    /// Text of the program, in C++.
    Text(String),
    /// A program cannot be printed, for this reason.
    None(String),
}

/// A file of the pages about bugs: a page or a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFile {
    /// Name of the file: `index.html`, or the id of the bug and `.html` or `.cpp`.
    pub name: String,
    /// Content of the file.
    pub text: String,
    /// True for a program, false for a page.
    pub is_program: bool,
}

impl BugPages<'_> {
    /// Renders all files. The list of bugs comes last, so that it links only to files that are already written.
    pub fn files(&self) -> Vec<PageFile> {
        let mut files = Vec::new();
        for bug in self.bugs {
            if let Some(BugProgram::Text(text)) = self.programs.get(&bug.id) {
                files.push(PageFile {
                    name: program_name(bug),
                    text: with_name(text, bug),
                    is_program: true,
                });
            }
            files.push(PageFile { name: page_name(bug), text: self.page(bug), is_program: false });
        }
        files.push(PageFile {
            name: "index.html".to_owned(),
            text: self.index(),
            is_program: false,
        });
        files
    }
}

/// Returns the trial of a bug that failed after an earlier build of its series had passed; `None` if all builds failed or
/// the bug no longer fails.
pub(super) fn regression(bug: &Bug) -> Option<&BugTrial> {
    let trials = bug.series.iter().flat_map(|series| &series.trials);
    trials.into_iter().find(|trial| trial.before.is_some() && trial.state.is_open())
}

/// Returns the file name of the page about a bug.
pub(super) fn page_name(bug: &Bug) -> String {
    format!("{}.html", bug.id)
}

/// Returns the file name of the program of a bug.
pub(super) fn program_name(bug: &Bug) -> String {
    format!("{}.cpp", bug.id)
}

/// Returns the text of a program after writing the program's file name, in place of `repro.cpp`, into the command that
/// builds it.
pub(super) fn with_name(text: &str, bug: &Bug) -> String {
    text.replacen("repro.cpp", &program_name(bug), 1)
}
