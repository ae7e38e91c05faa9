//! What tests share.

use std::path::PathBuf;

use device::{Arch, Config};
use rocrepro::{CaseLibrary, DeviceChoice, Session, SessionOptions};
use supervise::Cancel;

/// A good case of one copy.
pub(crate) const CASE: &str = "\
title: A case
source: [this test]
buffers:
  src: {on: host.pageable, bytes: 64}
  dst: {on: device, bytes: 64}
steps:
  - fill: src
  - copy: {to: dst, from: src}
  - check: dst
faults: [copy.zero]
";

/// The built-in cases.
pub(crate) fn library() -> CaseLibrary {
    CaseLibrary::load(None).expect("the library is well-formed")
}

/// ROCm 7.2.4 on the emulated gfx1151, whatever this machine has and its environment says, with some options changed.
pub(crate) fn session(change: impl FnOnce(&mut SessionOptions)) -> Session {
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_rocrepro"));
    let mut options = SessionOptions::from_environment(worker).expect("the environment is good");
    options.rocm = "debian:7.2.4".to_owned();
    options.device = DeviceChoice::Emulated(Arch::Gfx1151);
    options.emulation = Config::default();
    change(&mut options);
    Session::open(options).expect("the stack can be had")
}

/// Nobody cancels.
pub(crate) fn never() -> Cancel {
    Cancel::new().expect("a descriptor is free")
}
