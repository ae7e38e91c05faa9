//! Tests of cases (reading, lowering, checking by the reference model, writing), of the library, and of the pages about
//! it.

mod analysis;
mod claims;
mod coverage;
mod edges;
mod for_each;
mod library;
mod mistakes;
mod names;
mod plant;
mod programs;
mod reference;
mod schema;
mod signatures;
mod texts;
mod verbs;
mod write;
