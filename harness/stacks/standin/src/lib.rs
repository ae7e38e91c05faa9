//! Test double of AMD's hosts: a loopback server with every listing format and every trouble of a host, and fake builds to
//! publish on it. The command does not contain this crate.

#![forbid(unsafe_code)]
// A test's own tools may stop it.
#![allow(clippy::missing_panics_doc)]

mod fake;
mod server;

pub use fake::{Entry, Fake, bomb, pack, runtime, sha256, tar};
pub use server::{Listing, Server, Site, Trouble};
