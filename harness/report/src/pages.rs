//! Writes the HTML pages. Each page is one file that loads nothing else.

mod bisect;
mod bug_files;
mod bug_index;
mod bug_page;
mod findings;
mod layout;
mod matrix;
mod over_time;
#[cfg(test)]
mod tests;

pub use bisect::{BuildRange, RunMark, SearchPage, TestedBuild};
pub use bug_files::{BugPages, BugProgram, PageFile};
pub use matrix::MatrixPage;
pub use over_time::{Column, PastRun};
