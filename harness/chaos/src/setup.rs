//! Describes how one run of the command is set up. The rows of the table of disturbances modify this description.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Pid;

use crate::{
    changed_stack,
    processes::{self, RunningCommand},
    shared_tools::{TRIAL, Tools},
};

/// Action that the test executes while the command runs.
type WhileRunning = Box<dyn FnOnce(&RunningCommand<'_>)>;

/// Check that is made after the run. Its argument is the output of the command. Returns a description of the mistake;
/// `None` if everything is right.
type OutputCheck = Box<dyn FnOnce(&str) -> Option<String>>;

pub(crate) struct RunSetup<'t> {
    pub(crate) tools: &'t Tools,
    pub(crate) folder: PathBuf,
    /// Arguments of the command without those in `more`. If the list is empty, the command runs [`TRIAL`].
    pub(crate) words: Vec<OsString>,
    /// Arguments that are appended to the others.
    pub(crate) more: Vec<OsString>,
    /// Commands that precede the command. Each of them starts the next one, and the last one starts the command itself.
    pub(crate) before: Vec<OsString>,
    /// Environment variables of the command. The value `None` removes a variable.
    pub(crate) variables: BTreeMap<OsString, Option<OsString>>,
    /// Disturbances that a preloaded library causes in the worker; see `c/trouble.c`.
    troubles: Vec<String>,
    launchers: Vec<String>,
    trial: Option<String>,
    stack: Option<PathBuf>,
    cache: Option<PathBuf>,
    /// Value of `--quiet-timeout`, in seconds.
    quiet: u32,
    record: Option<PathBuf>,
    /// Files and folders that the run may write.
    pub(crate) outputs: Vec<PathBuf>,
    during: Vec<WhileRunning>,
    pub(crate) afterwards: Vec<OutputCheck>,
    /// True if two rows of the table of disturbances need the same setting for themselves, for example the stack. These
    /// rows cannot be combined, so the command is not run.
    pub(crate) conflict: bool,
    /// Reason why the run is impossible on this machine; `None` if it is possible.
    pub(crate) impossible: Option<String>,
    /// Number of times that the command runs, one run after the other.
    pub(crate) times: u32,
}

impl<'t> RunSetup<'t> {
    pub(crate) fn new(tools: &'t Tools) -> RunSetup<'t> {
        let folder = tools.folder();
        for name in ["tmp", "home", "work", "tools"] {
            fs::create_dir(folder.join(name)).expect("the folder is new");
        }
        RunSetup {
            tools,
            folder,
            words: Vec::new(),
            more: Vec::new(),
            before: Vec::new(),
            variables: BTreeMap::new(),
            troubles: Vec::new(),
            launchers: Vec::new(),
            trial: None,
            stack: None,
            cache: None,
            quiet: 20,
            record: None,
            outputs: Vec::new(),
            during: Vec::new(),
            afterwards: Vec::new(),
            conflict: false,
            impossible: None,
            times: 1,
        }
    }

    /// Adds a disturbance that a preloaded library causes in the worker; see `c/trouble.c`.
    pub(crate) fn trouble(&mut self, what: &str) {
        self.troubles.push(what.to_owned());
    }

    /// Makes the worker hang at a point of its execution, and then executes an action with the worker's process id.
    pub(crate) fn at_worker(
        &mut self,
        point: &str,
        what: impl FnOnce(&RunningCommand<'_>, Pid) + 'static,
    ) {
        let path = self.folder.join(processes::WORKER);
        self.outputs.push(path.clone());
        self.trouble(&format!("pid={}@{point}", path.display()));
        self.trouble(&format!("hang@{point}"));
        self.during(move |running| {
            if let Some(worker) = running.worker() {
                what(running, worker);
            }
        });
    }

    /// Shortens the time after which a worker without output counts as hung, for rows in which a worker hangs.
    pub(crate) fn hangs(&mut self) {
        self.quiet = 3;
    }

    /// Adds a launcher, given as a shell script, which usually ends with `exec "$@"`.
    pub(crate) fn launcher(&mut self, script: &str) {
        let name = format!("launcher-{}.sh", self.launchers.len());
        let path = self.tool(&name, script);
        self.launchers.push(format!("sh {}", path.display()));
    }

    pub(crate) fn launcher_words(&mut self, words: &str) {
        self.launchers.push(words.to_owned());
    }

    /// Sets an environment variable of the worker, given as `NAME=VALUE`. If a row has already set this variable, sets
    /// `conflict`.
    pub(crate) fn worker_variable(&mut self, pair: &str) {
        let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
        let known =
            self.more.iter().filter_map(|word| word.to_str()).any(|word| name(word) == name(pair));
        self.conflict |= known;
        self.more.extend(["--env".into(), pair.into()]);
    }

    /// Adds an option to the arguments. If a row has already added this option, sets `conflict`.
    pub(crate) fn option(&mut self, name: &str, value: &str) {
        self.conflict |= self.more.iter().any(|word| word == name);
        self.more.push(name.into());
        if !value.is_empty() {
            self.more.push(value.into());
        }
    }

    pub(crate) fn variable(&mut self, name: &str, value: impl Into<OsString>) {
        self.conflict |= self.variables.insert(name.into(), Some(value.into())).is_some();
    }

    pub(crate) fn without(&mut self, name: &str) {
        self.conflict |= self.variables.insert(name.into(), None).is_some();
    }

    /// Runs the command under a resource limit, which is written as an option of `prlimit`.
    pub(crate) fn limit(&mut self, limit: &str) {
        self.needs("prlimit");
        self.before.extend(["prlimit".into(), limit.into(), "--".into()]);
    }

    /// Runs the command as another user, who may have at most `most` processes and threads, but has root's rights to
    /// read and write files. For root itself, such a limit would have no effect. For an existing user, all other
    /// programs of that user would count towards the limit.
    pub(crate) fn processes(&mut self, most: u32) {
        if !rustix::process::geteuid().is_root() {
            self.impossible = Some("another user needs root".into());
        }
        self.needs("setpriv");
        // The limit applies to all processes of a user together. Therefore each row and each test program uses a
        // different user.
        let user = 10_000 + (std::process::id() * 7 + most) % 50_000;
        let words = [
            "setpriv".to_owned(),
            "--clear-groups".to_owned(),
            "--inh-caps=+dac_override,+dac_read_search".to_owned(),
            "--ambient-caps=+dac_override,+dac_read_search".to_owned(),
            format!("--reuid={user}"),
            format!("--regid={user}"),
        ];
        // A container may allow only some user ids, and its root user may have only some capabilities.
        let tried = Command::new(&words[0]).args(&words[1..]).arg("true").output();
        if !tried.is_ok_and(|tried| tried.status.success()) {
            self.impossible = Some("this machine does not allow a change of the user".into());
        }
        self.before.extend(words.map(Into::into));
        self.limit(&format!("--nproc={most}"));
    }

    /// Runs a shell script in a new mount namespace, and then starts the command in that namespace. In the script,
    /// `$ROW` is the folder of the run.
    pub(crate) fn mounts(&mut self, script: &str) {
        if !rustix::process::geteuid().is_root() {
            self.impossible = Some("mounts need root".into());
        }
        self.needs("unshare");
        let text = format!("set -e\nROW={}\n{script}\nexec \"$@\"\n", self.folder.display());
        let name = format!("mounts-{}.sh", self.before.len());
        let path = self.tool(&name, &text);
        let words: [OsString; 4] = ["unshare".into(), "-m".into(), "sh".into(), path.into()];
        // The script runs before any resource limits are set, so that they apply to the command but not to the mounts.
        self.before.splice(0..0, words);
    }

    pub(crate) fn runs(&mut self, trial: &str) {
        self.conflict |= self.trial.replace(trial.to_owned()).is_some_and(|other| other != trial);
    }

    /// Makes the command run the only case in a file or folder.
    pub(crate) fn cases_from(&mut self, path: impl Into<OsString>) {
        self.conflict |= self.trial.replace(String::new()).is_some();
        self.more.extend(["--cases-from".into(), path.into()]);
    }

    /// Writes a case file to the working directory, and makes the command run this case.
    pub(crate) fn case(&mut self, text: &str) {
        let path = self.work("case.yaml", text.as_bytes());
        self.cases_from(path);
    }

    pub(crate) fn stack(&mut self, root: PathBuf) {
        self.conflict |= self.stack.replace(root).is_some();
    }

    /// Makes the command use a copy of the stack in which some files are changed; see [`changed_stack::make`].
    pub(crate) fn overlay(&mut self, changes: &[(&str, changed_stack::Change)]) {
        let root = self.folder.join("stack");
        if self.stack.is_some() {
            self.conflict = true;
            return;
        }
        changed_stack::make(&self.tools.stack, &root, changes);
        self.stack(root);
    }

    /// Makes the command use a copy of the stack in which an interposer library takes the place of libamdhip64 and
    /// causes the disturbance `what`.
    pub(crate) fn shim(&mut self, what: &str) {
        let shim = self.tools.shim.clone();
        let real = self.tools.stack.join(changed_stack::LIBRARIES).join("libamdhip64.so.7");
        self.overlay(&[
            ("libamdhip64*", changed_stack::Change::Remove),
            ("libamdhip64.so.7", changed_stack::Change::Copy(shim)),
            ("libamdhip64_real.so", changed_stack::Change::Link(real)),
        ]);
        self.worker_variable(&format!("CHAOS_SHIM={what}"));
    }

    /// Gives the run an empty cache of its own. Returns the folder in that cache that the command uses.
    pub(crate) fn own_cache(&mut self) -> PathBuf {
        let cache = self.folder.join("cache");
        if self.cache.is_none() {
            let _ = fs::create_dir(&cache);
            self.cache = Some(cache.clone());
        }
        cache.join("rocrepro")
    }

    /// Gives the run a cache of its own that contains the results of an earlier run. Returns the folder in that cache
    /// that the command uses.
    pub(crate) fn warm_cache(&mut self) -> PathBuf {
        let cold = self.cache.is_none();
        let cache = self.own_cache();
        if cold {
            self.tools.warm(&cache);
        }
        cache
    }

    /// Gives the run an empty cache of its own to which all users can write.
    pub(crate) fn open_cache(&mut self) {
        let mut folders = vec![self.own_cache()];
        while let Some(folder) = folders.pop() {
            let _ = fs::set_permissions(&folder, Permissions::from_mode(0o777));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(inner.map(|entry| entry.path()));
        }
    }

    pub(crate) fn during(&mut self, what: impl FnOnce(&RunningCommand<'_>) + 'static) {
        self.during.push(Box::new(what));
    }

    pub(crate) fn afterwards(&mut self, look: impl FnOnce(&str) -> Option<String> + 'static) {
        self.afterwards.push(Box::new(look));
    }

    /// Creates a file in the working directory. The command must not change this file.
    pub(crate) fn work(&mut self, name: &str, content: &[u8]) -> PathBuf {
        write_file(&self.folder.join("work").join(name), content)
    }

    /// Creates a file in TMPDIR. The command must not change this file.
    pub(crate) fn decoy(&mut self, name: &str, content: &[u8]) -> PathBuf {
        write_file(&self.folder.join("tmp").join(name), content)
    }

    fn tool(&self, name: &str, content: &str) -> PathBuf {
        write_file(&self.folder.join("tools").join(name), content.as_bytes())
    }

    fn needs(&mut self, program: &str) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            self.impossible = Some(format!("`{program}` is not installed"));
        }
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.record.clone().unwrap_or_else(|| self.folder.join("work/record.jsonl"))
    }

    pub(crate) fn records_to(&mut self, file: PathBuf) {
        self.conflict |= self.record.replace(file).is_some();
    }

    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut words = self.words.clone();
        if words.is_empty() {
            words.push("run".into());
            let trial = self.trial.as_deref().unwrap_or(TRIAL);
            if !trial.is_empty() {
                words.extend(trial.split(' ').map(OsString::from));
            }
            words.push("--rocm".into());
            words.push(self.stack.as_ref().unwrap_or(&self.tools.stack).into());
            let quiet = self.quiet.to_string();
            let fixed = ["--device", "emulated", "--gfx", "gfx1151", "-j1", "--timeout", "30"];
            words.extend(fixed.map(OsString::from));
            words.extend([
                "--quiet-timeout".into(),
                quiet.into(),
                "--record".into(),
                self.record().into(),
            ]);
        }
        words.extend(self.more.iter().cloned());
        if !self.troubles.is_empty() {
            let preload = format!("LD_PRELOAD={}", self.tools.trouble.display());
            let trouble = format!("CHAOS_TROUBLE={}", self.troubles.join(","));
            words.extend(["--env".into(), preload.into(), "--env".into(), trouble.into()]);
        }
        if !self.launchers.is_empty() {
            words.extend(["--launcher".into(), self.launchers.join(" ").into()]);
        }
        words
    }

    pub(crate) fn environment(&self) -> BTreeMap<OsString, OsString> {
        let cache = self.cache.clone().unwrap_or_else(|| self.tools.cache());
        let mut all: BTreeMap<OsString, Option<OsString>> = BTreeMap::from([
            ("PATH".into(), std::env::var_os("PATH")),
            ("HOME".into(), Some(self.folder.join("home").into())),
            ("TMPDIR".into(), Some(self.folder.join("tmp").into())),
            ("XDG_CACHE_HOME".into(), Some(cache.into())),
        ]);
        all.extend(self.variables.clone());
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    pub(crate) fn take_during(&mut self) -> Vec<WhileRunning> {
        std::mem::take(&mut self.during)
    }
}

pub(crate) fn write_file(path: &Path, content: &[u8]) -> PathBuf {
    let parent = path.parent().expect("the path has a parent folder");
    fs::create_dir_all(parent).expect("the folder is writable");
    fs::write(path, content).expect("the folder is writable");
    path.to_path_buf()
}
