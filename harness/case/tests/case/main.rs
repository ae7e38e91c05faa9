//! Cases, as they are read, lowered, judged by the model and written, and the library beside what is said of it.

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
