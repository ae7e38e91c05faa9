//! An isolated machine for tests that run rocrepro with a local imitation of AMD's download servers.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use standin::Server;

use crate::common::wait_until;

/// Command line to bisect. It starts the test program of a fake build, which fails at the build's failure rate.
pub(crate) const PROBE: [&str; 4] = ["--", "sh", "-c", "\"$ROCREPRO_PREFIX/bin/probe\""];

/// A machine with its own cache folder and configuration.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        let machine = Machine { folder: tempfile::tempdir().expect("a folder") };
        fs::write(machine.at("state"), "1").expect("a file");
        machine
    }

    /// Writes a configuration file with these download sources, in which the server's address replaces `HOST`. Returns
    /// the `--sources-file` option that names the file.
    pub(crate) fn knows(&self, server: &Server, sources: &str) -> String {
        let config = self.at("config/rocrepro");
        fs::create_dir_all(&config).expect("a folder");
        let path = config.join("sources.toml");
        fs::write(&path, sources.replace("HOST", &server.url(""))).expect("a file");
        format!("--sources-file={}", path.display())
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn started(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env("XDG_CONFIG_HOME", self.at("config"))
            .env("XDG_CACHE_HOME", self.at("cache"))
            .env("FAKE_STATE", self.at("state"))
            .env("ROCREPRO_DEVICE_KIND", "emulated")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.started(env!("CARGO_BIN_EXE_rocrepro"));
        command.args(arguments);
        command
    }
}

/// Sends SIGINT to a command once `so` returns true, and checks that the command ends within 2 s.
#[track_caller]
pub(crate) fn interrupted(child: Child, so: impl Fn() -> bool) -> Output {
    wait_until("the condition never held", so);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let asked = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    output
}
