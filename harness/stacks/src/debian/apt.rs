//! Runs apt with a state of its own. This apt reads signed indexes and resolves dependencies, independently of the
//! packages that are installed on the machine, and needs no privileges.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use percent_encoding::percent_decode_str;
use rustix::process::{Pid, Signal, kill_process};

use super::release::NEEDLESS;
use crate::debian::planned::{Absent, Planned};
use crate::{FetchError, watch::watched};

/// Requirement on the signature of a Debian archive.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// One of the keys in this file must have signed the archive.
    Keyring(PathBuf),
    /// No signature is needed. Only tests use this, for archives that they create.
    #[cfg(test)]
    Unsigned,
}

/// apt with a state directory of its own, for one stack.
pub(crate) struct Apt<'a> {
    directory: PathBuf,
    mirror: String,
    /// Address of the mirror, in the form that apt's list of sources needs.
    uri: String,
    lock: File,
    /// Flag that the caller sets to cancel the running apt command.
    stop: &'a AtomicBool,
    /// Command with arguments that is put in front of `apt-get` to make it end when this process ends; empty if this
    /// machine has no program for that.
    prefix: &'static [&'static str],
}

enum Failure {
    Error(FetchError),
    /// apt-get failed. The value contains its error lines.
    Lines(String),
}

impl<'a> Apt<'a> {
    /// Prepares apt's state in `directory`, so that apt reads the indexes of `suites` from `mirror`. `spec` is the name
    /// of the stack in error messages. `lock` stays locked until the last apt process has ended. When `stop` becomes
    /// true, a running apt command is cancelled.
    ///
    /// # Errors
    /// [`FetchError::NoApt`] if apt-get is not in PATH.
    pub(crate) fn new(
        directory: PathBuf,
        spec: &str,
        mirror: &str,
        suites: &[String],
        trust: &Trust,
        lock: &File,
        stop: &'a AtomicBool,
    ) -> Result<Self, FetchError> {
        let dump = Command::new("apt-config").arg("dump").env("LC_ALL", "C").output();
        let dump = dump.map_err(|_| FetchError::NoApt { spec: spec.into() })?;
        for part in ["lists/partial", "none/partial"] {
            let path = directory.join(part);
            fs::create_dir_all(&path).map_err(FetchError::io("create", &path))?;
        }
        // apt stores packages from `copy:` addresses in its download folder, but reads packages from `file:` addresses
        // in place.
        let uri = match mirror.strip_prefix("file:") {
            Some(path) => format!("copy:{path}"),
            None => mirror.to_owned(),
        };
        let trust = match trust {
            Trust::Keyring(path) => format!("Signed-By: {}", path.display()),
            #[cfg(test)]
            Trust::Unsigned => "Trusted: yes".to_owned(),
        };
        let sources = format!(
            "Types: deb\nURIs: {uri}\nSuites: {}\nComponents: main\nArchitectures: amd64\n{trust}\n",
            suites.join(" ")
        );
        write(&directory.join("sources.sources"), &sources)?;
        write(&directory.join("status"), "")?;
        let host = acquire_settings(&String::from_utf8_lossy(&dump.stdout));
        write(&directory.join("apt.conf"), &(host + &configuration(&directory, suites)))?;
        let dies_with_parent: &[&str] = &["setpriv", "--pdeathsig", "TERM"];
        let works = Command::new(dies_with_parent[0])
            .args(&dies_with_parent[1..])
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        Ok(Self {
            lock: lock.try_clone().map_err(FetchError::io("lock", &directory))?,
            stop,
            prefix: if works { dies_with_parent } else { &[] },
            mirror: mirror.to_owned(),
            uri,
            directory,
        })
    }

    pub(crate) fn update(&self) -> Result<(), FetchError> {
        let action = "read the index of the mirror";
        // Without this option, apt only prints a warning if it cannot reach a mirror, and reports success.
        let arguments = ["update", "-oAPT::Update::Error-Mode=any"];
        self.run(&arguments, |_| ()).map_err(|failure| match failure {
            Failure::Error(error) => error,
            Failure::Lines(detail) => {
                let has = |words: &[&str]| words.iter().any(|word| detail.contains(word));
                let mirror = self.mirror.clone();
                if has(&["NO_PUBKEY", "is not signed", "Missing key", "invalid", "OpenPGP"]) {
                    FetchError::Untrusted { mirror, detail }
                } else if has(&["Failed to fetch", "does not have a Release file"]) {
                    FetchError::Mirror { mirror, detail }
                } else {
                    self.error(action, detail)
                }
            }
        })
    }

    /// Returns all packages that have to be installed so that the given packages work, sorted by name.
    ///
    /// # Errors
    /// [`Absent::Gone`] if the index does not contain one of the given packages.
    pub(crate) fn plan(&self, packages: &[String]) -> Result<Vec<Planned>, Absent> {
        // Without ForceHash, apt prints MD5 sums instead of SHA-256.
        let mut arguments = vec!["install", "--print-uris", "-oAcquire::ForceHash=SHA256"];
        arguments.extend(packages.iter().map(String::as_str));
        let mut plan = Vec::new();
        let done = self.run(&arguments, |line| plan.extend(planned(line, &self.uri)));
        match done {
            Ok(()) => {
                plan.retain(|package| !NEEDLESS.contains(&package.name.as_str()));
                plan.sort_by(|a, b| a.name.cmp(&b.name));
                Ok(plan)
            }
            Err(Failure::Error(error)) => Err(error.into()),
            Err(Failure::Lines(detail)) => Err(match missing(&detail) {
                Some(package) => Absent::Gone { package },
                None => self.error("find a consistent set of packages", detail).into(),
            }),
        }
    }

    fn command(&self) -> Command {
        let words = [self.prefix, &["apt-get"]].concat();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env("APT_CONFIG", self.directory.join("apt.conf"))
            .env("LC_ALL", "C");
        command
    }

    fn error(&self, action: &'static str, detail: String) -> FetchError {
        FetchError::Apt { action, detail }
    }

    /// Runs apt-get, and passes each line of its standard output to `line`.
    fn run(&self, arguments: &[&str], mut line: impl FnMut(&str)) -> Result<(), Failure> {
        let io = |source| Failure::Error(FetchError::io("run apt-get in", &self.directory)(source));
        // apt-get inherits the lock as its standard input. If this process is killed, the state stays locked for as
        // long as apt-get is writing to it.
        let mut child = self
            .command()
            .args(["-q", "-y"])
            .args(arguments)
            .stdin(self.lock.try_clone().map_err(io)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        // The child process is reaped below. Until then, its PID is not reused.
        let pid = Pid::from_child(&child);
        let end = || {
            // apt-get may have ended already, so errors are ignored.
            let _ = kill_process(pid, Signal::TERM);
        };
        let errors = watched(self.stop, end, || {
            thread::scope(|scope| {
                let errors = thread::Builder::new().spawn_scoped(scope, || {
                    let mut bytes = Vec::new();
                    let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut bytes));
                    String::from_utf8_lossy(&bytes).into_owned()
                });
                // If the thread that reads standard error cannot be started, the error lines are lost, but apt-get
                // still ends.
                if let Some(stdout) = stdout {
                    let mut stdout = BufReader::new(stdout);
                    let mut bytes = Vec::new();
                    while stdout.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
                        line(String::from_utf8_lossy(&bytes).trim_end());
                        bytes.clear();
                    }
                }
                errors.ok().and_then(|errors| errors.join().ok()).unwrap_or_default()
            })
        });
        let status = child.wait().map_err(io)?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::Error(FetchError::Cancelled));
        }
        if status.success() {
            return Ok(());
        }
        if errors.contains("No space left on device") || errors.contains("enough free space") {
            return Err(Failure::Error(FetchError::DiskFull { path: self.directory.clone() }));
        }
        Err(Failure::Lines(error_lines(&errors).unwrap_or_else(|| status.to_string())))
    }
}

fn error_lines(text: &str) -> Option<String> {
    let lines: Vec<_> = text.lines().filter_map(|l| l.strip_prefix("E: ").map(str::trim)).collect();
    // The first line is sufficient, because apt prints one such line per file if it cannot reach a mirror. The last
    // line is only a summary.
    lines.first().map(|first| (*first).to_owned())
}

/// Returns the name of the package that apt could not find, as quoted in apt's error message.
fn missing(detail: &str) -> Option<String> {
    let quoted = |text: &str| text.split('\'').nth(1).map(str::to_owned);
    if let Some(rest) = detail.strip_prefix("Version ") {
        let mut parts = rest.split('\'').skip(1).step_by(2);
        let (version, name) = (parts.next()?, parts.next()?);
        return Some(format!("{name} {version}"));
    }
    if let Some(name) = detail.strip_prefix("Unable to locate package ") {
        return Some(name.to_owned());
    }
    if detail.contains("has no installation candidate") { quoted(detail) } else { None }
}

/// Parses a line of `apt-get --print-uris`: `'URI' FILE SIZE SHA256:HASH`.
fn planned(line: &str, mirror: &str) -> Option<Planned> {
    let (address, rest) = line.strip_prefix('\'')?.split_once("' ")?;
    let path = address.strip_prefix(mirror)?.trim_start_matches('/');
    let mut words = rest.split_whitespace();
    let (file, size, hash) = (words.next()?, words.next()?, words.next()?);
    let mut parts = file.strip_suffix(".deb")?.split('_');
    Some(Planned {
        name: parts.next()?.to_owned(),
        version: parts.next()?.replace("%3a", ":"),
        path: percent_decode_str(path).decode_utf8().ok()?.into_owned(),
        size: size.parse().ok()?,
        sha256: hash.strip_prefix("SHA256:")?.to_owned(),
    })
}

/// Returns the lines of `apt-config dump` that concern downloads (proxies, time-outs, checks of dates), without the
/// settings for additional indexes, which desktop packages add.
fn acquire_settings(dump: &str) -> String {
    let wanted = |line: &&str| {
        line.starts_with("Acquire::")
            && !line.starts_with("Acquire::IndexTargets")
            && !line.starts_with("Acquire::Languages")
    };
    dump.lines().filter(wanted).map(|line| format!("{line}\n")).collect()
}

/// Returns the text of apt's configuration file for the state in `directory`. Other settings of this machine's apt,
/// such as its pins and hooks, are not used.
fn configuration(directory: &Path, suites: &[String]) -> String {
    let at = |part: &str| directory.join(part).display().to_string();
    let settings = [
        ("Dir::Etc::main", "/dev/null".to_owned()),
        ("Dir::Etc::parts", "/dev/null".to_owned()),
        ("Dir::Etc::sourcelist", at("sources.sources")),
        ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
        ("Dir::Etc::preferences", "/dev/null".to_owned()),
        ("Dir::Etc::preferencesparts", "/dev/null".to_owned()),
        ("Dir::State", directory.display().to_string()),
        ("Dir::State::lists", at("lists")),
        ("Dir::State::status", at("status")),
        ("Dir::Cache", directory.display().to_string()),
        // This folder is empty. apt would not print the packages that it finds here.
        ("Dir::Cache::archives", at("none")),
        ("Dir::Log", directory.display().to_string()),
        ("APT::Architecture", "amd64".to_owned()),
        ("APT::Architectures::", "amd64".to_owned()),
        ("APT::Default-Release", suites.first().cloned().unwrap_or_default()),
        ("APT::Install-Recommends", "false".to_owned()),
        // apt's own user may not have access to the user's directory. Switching to apt's user would protect nothing
        // here.
        ("APT::Sandbox::User", "root".to_owned()),
        ("Acquire::Languages", "none".to_owned()),
        ("Acquire::PDiffs", "false".to_owned()),
        ("Acquire::Retries", "2".to_owned()),
    ];
    settings.iter().map(|(name, value)| format!("{name} \"{value}\";\n")).collect()
}

/// Writes a file that only the user can read, because apt's settings may contain the password of a proxy.
fn write(path: &Path, text: &str) -> Result<(), FetchError> {
    File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(FetchError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_packages_from_uris() {
        let line = "'http://mirror.example/pool/z/zlib1g_1.3%2b2_amd64.deb' zlib1g_1%3a1.3+2_amd64.deb 92 SHA256:ab12";
        let expected = Planned {
            name: "zlib1g".into(),
            version: "1:1.3+2".into(),
            path: "pool/z/zlib1g_1.3+2_amd64.deb".into(),
            size: 92,
            sha256: "ab12".into(),
        };
        assert_eq!(expected.file(), "zlib1g_1%3a1.3+2_amd64.deb");
        assert_eq!(planned(line, "http://mirror.example"), Some(expected));
        for line in
            ["", "Reading package lists...", "'x", "'x' y_1.deb 1", "'x' y_1_amd64.deb 1 MD5Sum:1"]
        {
            assert_eq!(planned(line, "http://mirror.example"), None, "{line}");
        }
    }

    #[test]
    fn finds_the_missing_package() {
        let check = |detail: &str, expected: Option<&str>| {
            assert_eq!(missing(detail).as_deref(), expected, "{detail}");
        };
        check("Version '7.2.4*' for 'libamdhip64-7' was not found", Some("libamdhip64-7 7.2.4*"));
        check("Unable to locate package librocblas0", Some("librocblas0"));
        check("Package 'libhiprand1' has no installation candidate", Some("libhiprand1"));
        check("Unable to correct problems, you have held broken packages.", None);
    }

    #[test]
    fn takes_only_download_settings_from_the_host() {
        let dump = "APT::Update::Post-Invoke:: \"rm -f /\";\nAcquire::http::Proxy \"http://p:1\";\n\
            Acquire::Languages:: \"de\";\nAcquire::IndexTargets::deb::DEP-11 \"\";\nDir::Cache \"x\";\n";
        assert_eq!(acquire_settings(dump), "Acquire::http::Proxy \"http://p:1\";\n");
    }
}
