//! The world of one run, as rows set it up.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Pid;

use crate::{
    live::{self, Live},
    overlay,
    tools::{TRIAL, Tools},
};

/// What is done while the command runs.
type During = Box<dyn FnOnce(&Live<'_>)>;

/// What looks at the text of a run when it is over, and says what is wrong.
type Look = Box<dyn FnOnce(&str) -> Option<String>>;

pub(crate) struct Scene<'t> {
    pub(crate) tools: &'t Tools,
    /// Everything of this run.
    pub(crate) folder: PathBuf,
    /// The command's arguments; a run of [`TRIAL`] without.
    pub(crate) words: Vec<OsString>,
    /// More of them.
    pub(crate) more: Vec<OsString>,
    /// Words before the command, each of which starts the next.
    pub(crate) before: Vec<OsString>,
    /// Variables of the command; none removes one.
    pub(crate) variables: BTreeMap<OsString, Option<OsString>>,
    /// What is planted into the worker.
    troubles: Vec<String>,
    launchers: Vec<String>,
    /// The trial to run.
    trial: Option<String>,
    stack: Option<PathBuf>,
    cache: Option<PathBuf>,
    quiet: u32,
    record: Option<PathBuf>,
    /// Files that the run may write.
    pub(crate) outputs: Vec<PathBuf>,
    during: Vec<During>,
    /// Looks at what is there after the run and says what is wrong.
    pub(crate) afterwards: Vec<Look>,
    /// Two rows want different things of the same kind.
    pub(crate) conflict: bool,
    /// Why the run cannot be made here.
    pub(crate) impossible: Option<String>,
    /// How often the command is run, one run after the other.
    pub(crate) times: u32,
}

impl<'t> Scene<'t> {
    pub(crate) fn new(tools: &'t Tools) -> Scene<'t> {
        let folder = tools.folder();
        for name in ["tmp", "home", "work", "tools"] {
            fs::create_dir(folder.join(name)).expect("the folder is new");
        }
        Scene {
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

    /// Plants trouble into the worker, see `c/trouble.c`.
    pub(crate) fn trouble(&mut self, what: &str) {
        self.troubles.push(what.to_owned());
    }

    /// Makes the worker hang at a point, and does something to it there.
    pub(crate) fn at_worker(&mut self, point: &str, what: impl FnOnce(&Live<'_>, Pid) + 'static) {
        let path = self.folder.join(live::WORKER);
        self.outputs.push(path.clone());
        self.trouble(&format!("pid={}@{point}", path.display()));
        self.trouble(&format!("hang@{point}"));
        self.during(move |live| {
            if let Some(worker) = live.worker() {
                what(live, worker);
            }
        });
    }

    /// Makes the time limit for silence short, where a hang is sure.
    pub(crate) fn hangs(&mut self) {
        self.quiet = 3;
    }

    /// Starts the worker through a script that ends with `exec "$@"` or does something else.
    pub(crate) fn launcher(&mut self, script: &str) {
        let name = format!("launcher-{}.sh", self.launchers.len());
        let path = self.tool(&name, script);
        self.launchers.push(format!("sh {}", path.display()));
    }

    /// Uses words as the launcher.
    pub(crate) fn launcher_words(&mut self, words: &str) {
        self.launchers.push(words.to_owned());
    }

    /// Sets a variable of the worker with `--env`.
    pub(crate) fn worker_variable(&mut self, pair: &str) {
        let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
        let known =
            self.more.iter().filter_map(|word| word.to_str()).any(|word| name(word) == name(pair));
        self.conflict |= known;
        self.more.extend(["--env".into(), pair.into()]);
    }

    /// Adds an option that may be given once.
    pub(crate) fn option(&mut self, name: &str, value: &str) {
        self.conflict |= self.more.iter().any(|word| word == name);
        self.more.push(name.into());
        if !value.is_empty() {
            self.more.push(value.into());
        }
    }

    /// Sets a variable of the command.
    pub(crate) fn variable(&mut self, name: &str, value: impl Into<OsString>) {
        self.conflict |= self.variables.insert(name.into(), Some(value.into())).is_some();
    }

    /// Removes a variable of the command.
    pub(crate) fn without(&mut self, name: &str) {
        self.conflict |= self.variables.insert(name.into(), None).is_some();
    }

    /// Runs under limits, as `prlimit` writes them.
    pub(crate) fn limit(&mut self, limit: &str) {
        self.needs("prlimit");
        self.before.extend(["prlimit".into(), limit.into(), "--".into()]);
    }

    /// Runs as a user of its own, who may read and write as root does and may have so many processes and threads: root has no such
    /// limit, and that of another counts what else runs.
    pub(crate) fn processes(&mut self, most: u32) {
        if !rustix::process::geteuid().is_root() {
            self.impossible = Some("another user needs root".into());
        }
        self.needs("setpriv");
        // The limit counts all that the user runs: each row has one of its own, and so has each program of tests.
        let user = 10_000 + (std::process::id() * 7 + most) % 50_000;
        let words = [
            "setpriv".to_owned(),
            "--clear-groups".to_owned(),
            "--inh-caps=+dac_override,+dac_read_search".to_owned(),
            "--ambient-caps=+dac_override,+dac_read_search".to_owned(),
            format!("--reuid={user}"),
            format!("--regid={user}"),
        ];
        // A container may have few users, and root of it few capabilities.
        let tried = Command::new(&words[0]).args(&words[1..]).arg("true").output();
        if !tried.is_ok_and(|tried| tried.status.success()) {
            self.impossible = Some("nobody can become another user here".into());
        }
        self.before.extend(words.map(Into::into));
        self.limit(&format!("--nproc={most}"));
    }

    /// Runs a script of a shell in a mount namespace of its own before the command; `$ROW` is the run's folder.
    pub(crate) fn mounts(&mut self, script: &str) {
        if !rustix::process::geteuid().is_root() {
            self.impossible = Some("mounts need root".into());
        }
        self.needs("unshare");
        let text = format!("set -e\nROW={}\n{script}\nexec \"$@\"\n", self.folder.display());
        let name = format!("mounts-{}.sh", self.before.len());
        let path = self.tool(&name, &text);
        let words: [OsString; 4] = ["unshare".into(), "-m".into(), "sh".into(), path.into()];
        // Limits are for the command and not for the mounts.
        self.before.splice(0..0, words);
    }

    /// Runs something else than the cheap trial.
    pub(crate) fn runs(&mut self, trial: &str) {
        self.conflict |= self.trial.replace(trial.to_owned()).is_some_and(|other| other != trial);
    }

    /// Runs the only case of a file or folder.
    pub(crate) fn cases_from(&mut self, path: impl Into<OsString>) {
        self.conflict |= self.trial.replace(String::new()).is_some();
        self.more.extend(["--cases-from".into(), path.into()]);
    }

    /// Makes a case file in the work folder and runs it.
    pub(crate) fn case(&mut self, text: &str) {
        let path = self.work("case.yaml", text.as_bytes());
        self.cases_from(path);
    }

    /// Runs on another stack.
    pub(crate) fn stack(&mut self, root: PathBuf) {
        self.conflict |= self.stack.replace(root).is_some();
    }

    /// Runs on the stack with some files changed, see [`overlay::make`].
    pub(crate) fn overlay(&mut self, changes: &[(&str, overlay::Change)]) {
        let root = self.folder.join("stack");
        if self.stack.is_some() {
            self.conflict = true;
            return;
        }
        overlay::make(&self.tools.stack, &root, changes);
        self.stack(root);
    }

    /// Runs on the stack with our library in front of libamdhip64, which makes this trouble.
    pub(crate) fn shim(&mut self, what: &str) {
        let shim = self.tools.shim.clone();
        let real = self.tools.stack.join(overlay::LIBRARIES).join("libamdhip64.so.7");
        self.overlay(&[
            ("libamdhip64*", overlay::Change::Remove),
            ("libamdhip64.so.7", overlay::Change::Copy(shim)),
            ("libamdhip64_real.so", overlay::Change::Link(real)),
        ]);
        self.worker_variable(&format!("CHAOS_SHIM={what}"));
    }

    /// Uses a cache of its own, empty.
    pub(crate) fn own_cache(&mut self) -> PathBuf {
        let cache = self.folder.join("cache");
        if self.cache.is_none() {
            let _ = fs::create_dir(&cache);
            self.cache = Some(cache.clone());
        }
        cache.join("rocrepro")
    }

    /// Uses a cache of its own with what an earlier run left.
    pub(crate) fn warm_cache(&mut self) -> PathBuf {
        let cold = self.cache.is_none();
        let cache = self.own_cache();
        if cold {
            self.tools.warm(&cache);
        }
        cache
    }

    /// Lets every user write to the cache of its own.
    pub(crate) fn open_cache(&mut self) {
        let mut folders = vec![self.own_cache()];
        while let Some(folder) = folders.pop() {
            let _ = fs::set_permissions(&folder, Permissions::from_mode(0o777));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(inner.map(|entry| entry.path()));
        }
    }

    /// Does something while the command runs.
    pub(crate) fn during(&mut self, what: impl FnOnce(&Live<'_>) + 'static) {
        self.during.push(Box::new(what));
    }

    /// Looks at the end what is there.
    pub(crate) fn afterwards(&mut self, look: impl FnOnce(&str) -> Option<String> + 'static) {
        self.afterwards.push(Box::new(look));
    }

    /// A foreign file in the folder that the command is started in.
    pub(crate) fn work(&mut self, name: &str, content: &[u8]) -> PathBuf {
        put(&self.folder.join("work").join(name), content)
    }

    /// A foreign file in TMPDIR.
    pub(crate) fn decoy(&mut self, name: &str, content: &[u8]) -> PathBuf {
        put(&self.folder.join("tmp").join(name), content)
    }

    fn tool(&self, name: &str, content: &str) -> PathBuf {
        put(&self.folder.join("tools").join(name), content.as_bytes())
    }

    fn needs(&mut self, program: &str) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            self.impossible = Some(format!("there is no `{program}`"));
        }
    }

    /// The file of records.
    pub(crate) fn record(&self) -> PathBuf {
        self.record.clone().unwrap_or_else(|| self.folder.join("work/record.jsonl"))
    }

    /// Keeps records elsewhere.
    pub(crate) fn records_to(&mut self, file: PathBuf) {
        self.conflict |= self.record.replace(file).is_some();
    }

    /// All arguments of the command.
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

    /// The environment of the command.
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

    /// What is to be done while the command runs.
    pub(crate) fn take_during(&mut self) -> Vec<During> {
        std::mem::take(&mut self.during)
    }
}

/// Writes a file and the folders above it.
pub(crate) fn put(path: &Path, content: &[u8]) -> PathBuf {
    let parent = path.parent().expect("a file is in a folder");
    fs::create_dir_all(parent).expect("the folder is ours");
    fs::write(path, content).expect("the folder is ours");
    path.to_path_buf()
}
