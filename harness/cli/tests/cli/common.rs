//! Cases, sessions and programs that several tests use.

use std::path::{Path, PathBuf};
use std::process::Command;

use device::{Arch, Config, Sanitize};
use rocrepro::{CaseLibrary, DeviceChoice, Session, SessionOptions};
use supervise::Cancel;

/// A case of one copy that passes.
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

/// Loads the built-in cases.
pub(crate) fn library() -> CaseLibrary {
    CaseLibrary::load(None).expect("the library is well-formed")
}

/// Opens a session on ROCm 7.2.4 and the emulated gfx1151, independent of this machine and its environment; `change` edits the
/// options.
pub(crate) fn session(change: impl FnOnce(&mut SessionOptions)) -> Session {
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_rocrepro"));
    let mut options = rocrepro::options_from_environment(worker).expect("the environment is good");
    options.rocm = "debian:7.2.4".to_owned();
    options.device = DeviceChoice::Emulated(Arch::Gfx1151);
    options.emulation = Config::of(Arch::Gfx1151, Sanitize::Off);
    change(&mut options);
    Session::open(options).expect("the stack can be had")
}

/// Writes an executable file, by another process. If this process had it open for writing, a child that another test forks
/// meanwhile would inherit the descriptor, and the kernel refuses to start a program that is open for writing (ETXTBSY).
pub(crate) fn write_program(at: &Path, content: &Path) {
    let done = Command::new("install").args(["-m", "755"]).args([content, at]).status();
    assert!(done.expect("coreutils are here").success(), "{}", at.display());
}

/// Writes an executable script with this text.
pub(crate) fn write_script(at: &Path, text: &str) {
    let text_at = at.with_extension("text");
    std::fs::write(&text_at, text).expect("a file");
    write_program(at, &text_at);
    std::fs::remove_file(text_at).expect("it is ours");
}

/// Returns a cancellation that no test triggers.
pub(crate) fn never() -> Cancel {
    Cancel::new().expect("a descriptor is free")
}
