//! Test double of the hosts on which AMD publishes builds: a loopback server that supports every listing format and
//! every kind of failure, and fake builds to publish on it. The program `rocrepro` does not contain this crate.

#![forbid(unsafe_code)]
// The functions of this crate panic on errors, because only tests use them.
#![allow(clippy::missing_panics_doc)]

mod fake;
mod server;

pub use fake::{Entry, Fake, bomb, pack, runtime, sha256, tar};
pub use server::{Listing, Server, Site, Trouble};
