//! Stands in for AMD's hosts in tests: a loopback server with every listing generation and every trouble that a host
//! makes, and fake builds to publish on it. Nothing here is part of the command.

#![forbid(unsafe_code)]
// A test's own tools may stop it.
#![allow(clippy::missing_panics_doc)]

mod fake;
mod server;

pub use fake::{Entry, Fake, bomb, pack, runtime, sha256, tar};
pub use server::{Listing, Server, Site, Trouble};
