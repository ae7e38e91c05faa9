//! Test double of AMD's hosts: a loopback server that supports every listing format and every kind of failure, and fake
//! builds to publish on it. The program `rocrepro` does not contain this crate.

#![forbid(unsafe_code)]
// Panics need no documentation, because this crate is used only by tests.
#![allow(clippy::missing_panics_doc)]

mod fake;
mod server;

pub use fake::{Entry, Fake, bomb, pack, runtime, sha256, tar};
pub use server::{Listing, Server, Site, Trouble};
