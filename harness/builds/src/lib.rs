//! Ordered histories of ROCm builds: listing them, fetching them, keeping them.
//!
//! [`Sources`] say where builds are published; [`list`] merges what they offer into one [`History`], oldest
//! first. A [`Store`] turns a [`Build`] into a prefix on disk that [`rocm::locate`] accepts, or says why it
//! cannot ([`Unusable`]): that is knowledge about the build, never a verdict about a bug. [`Store::cross`] puts
//! one component of a bad build into a good one. This crate prints nothing and decides nothing.
//!
//! Where, when and how AMD publishes is read from TheRock's build tools (`s3_buckets.py`,
//! `index_generation_s3_tar.py`, `install_rocm_from_artifacts.py`) and is configuration, with dated defaults in
//! `sources.toml`, because it has changed several times a year.

#![forbid(unsafe_code)]

mod blobs;
mod build;
mod components;
mod config;
mod cross;
mod date;
mod error;
mod history;
mod listing;
mod loads;
mod names;
mod partial;
mod prefetch;
mod store;
mod unpack;

pub use build::{Archive, Build, Place, Wanted};
pub use components::{Components, Moved, Pin};
pub use config::{Families, Kind, Source, Sources};
pub use cross::Component;
pub use date::Date;
pub use error::{Error, Unusable};
pub use history::{History, Hole, list, read_components};
pub use prefetch::Prefetch;
pub use store::{Event, Obtained, Progress, Store};
