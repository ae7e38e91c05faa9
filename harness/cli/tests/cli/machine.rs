//! What tests share that drive the command over a stand-in of AMD's hosts.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use standin::Server;

/// The command that is bisected: the stand-in's program, which fails as its build says.
pub(crate) const PROBE: [&str; 4] = ["--", "sh", "-c", "\"$ROCREPRO_PREFIX/bin/probe\""];

/// A machine with a cache and a configuration of its own.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        let machine = Machine { folder: tempfile::tempdir().expect("a folder") };
        fs::write(machine.at("state"), "1").expect("a file");
        machine
    }

    /// Gives its configuration these sources; `HOST` is the server. The option that names the same file is for whoever
    /// looks at no configuration.
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

    /// A program as it is started on this machine.
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

    /// The command under test.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.started(env!("CARGO_BIN_EXE_rocrepro"));
        command.args(arguments);
        command
    }
}

/// Interrupts a command once something is so; it ends at once.
#[track_caller]
pub(crate) fn interrupted(child: Child, so: impl Fn() -> bool) -> Output {
    let waited = Instant::now();
    while !so() {
        assert!(waited.elapsed() < Duration::from_secs(60), "it never comes to that");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let asked = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    output
}
