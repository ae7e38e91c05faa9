//! Tests of cases: reading, lowering, checks by the reference model, and writing. Also tests the case library in
//! `cases/` and the pages about it.

mod analysis;
mod claims;
mod coverage;
mod edges;
mod files;
mod first_cases;
mod for_each;
mod forms;
mod library;
mod mistakes;
mod names;
mod newcomers;
mod plant;
mod programs;
mod reference;
mod schema;
mod signatures;
mod texts;
mod verbs;
mod write;
