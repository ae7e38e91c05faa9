//! Builds the tools that all disturbances share: the command, the stack, compiled libraries that cause disturbances,
//! and a filled cache.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, getpid, set_child_subreaper};
use tempfile::TempDir;

use crate::processes;

/// Name of a fast trial, which copies two bytes.
pub(crate) const TRIAL: &str = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
/// Name of a trial that compiles a kernel.
pub(crate) const KERNEL: &str = "kernels/saxpy[n=65536,block=1024]";

/// Name of the file with the records of the run that fills the cache.
const RECORD: &str = "record.jsonl";

const RELEASE: &str = "debian:7.2.4";

pub(crate) struct Tools {
    pub(crate) program: PathBuf,
    pub(crate) stack: PathBuf,
    /// Library that is loaded into the worker with LD_PRELOAD and causes disturbances there.
    pub(crate) trouble: PathBuf,
    /// Program that starts another program in which one system call fails.
    pub(crate) forbid: PathBuf,
    /// Interposer library that causes disturbances: it replaces libamdhip64 and passes calls on to it.
    pub(crate) shim: PathBuf,
    /// A libamdhip64 whose functions do nothing.
    pub(crate) stub: PathBuf,
    base: TempDir,
    rows: AtomicUsize,
}

impl Tools {
    /// Compiles the libraries and programs, and finds the stack. Fetches the stack if necessary.
    pub(crate) fn make(program: PathBuf) -> Tools {
        // Processes that a run leaves behind become children of this process, which can therefore find them.
        set_child_subreaper(Some(getpid())).expect("requires Linux 3.4 or newer");
        let base = tempfile::Builder::new().prefix("chaos-").tempdir().expect("a temporary folder");
        // The path of a temporary folder may contain a symbolic link, whereas the paths in /proc contain none.
        let folder = fs::canonicalize(base.path()).expect("the folder exists");
        let built = |name: &str| folder.join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
        compile(&source.join("trouble.c"), &built("trouble.so"), &["-shared", "-ldl", "-lpthread"]);
        compile(&source.join("forbid.c"), &built("forbid"), &[]);
        // The interposer library is linked to the real library under another name. For linking, an empty library with
        // that name is sufficient.
        fs::write(built("empty.c"), "int chaos_nothing;\n").expect("the folder is writable");
        let name = ["-shared", "-Wl,-soname,libamdhip64_real.so"];
        compile(&built("empty.c"), &built("libamdhip64_real.so"), &name);
        let real = built("libamdhip64_real.so").display().to_string();
        let shim = [
            "-shared",
            "-DSHIM",
            "-Wl,-soname,libamdhip64.so.7",
            "-Wl,--no-as-needed",
            &real,
            "-ldl",
            "-lpthread",
        ];
        compile(&source.join("trouble.c"), &built("shim.so"), &shim);
        let stub = ["-shared", "-Wl,-soname,libamdhip64.so.7"];
        compile(&source.join("stub.c"), &built("stub.so"), &stub);
        let rocm = |what: &str| {
            let output = Command::new(&program).args(["rocm", what, RELEASE]).output();
            output.expect("the command starts")
        };
        let fetched = rocm("fetch");
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
        let path = rocm("path");
        let stack = PathBuf::from(String::from_utf8_lossy(&path.stdout).trim());
        let stack = fs::canonicalize(&stack).expect("the path of the stack is valid");
        let tools = Tools {
            program,
            stack,
            trouble: built("trouble.so"),
            forbid: built("forbid"),
            shim: built("shim.so"),
            stub: built("stub.so"),
            base,
            rows: AtomicUsize::new(0),
        };
        tools.fill_cache();
        tools
    }

    /// Runs the trials of the rows once, so that the rows find compiled kernels in the cache.
    fn fill_cache(&self) {
        // The cache contains a link to all fetched stacks. If a stack does not start, the command tries the other
        // stacks, to find out whether the machine can run ROCm.
        let cache = self.cache().join("rocrepro");
        fs::create_dir_all(&cache).expect("the folder is writable");
        let stacks = self.stack.parent().expect("a fetched stack is in the folder of stacks");
        symlink(stacks, cache.join("stacks")).expect("the cache is new");
        let status = Command::new(&self.program)
            .args(["run", TRIAL, KERNEL, "--device", "emulated", "--rocm"])
            .arg(&self.stack)
            .arg("--record")
            .arg(self.base.path().join(RECORD))
            .env("XDG_CACHE_HOME", self.cache())
            .output()
            .expect("the command starts");
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    }

    /// Returns the records of the run that filled the cache.
    pub(crate) fn record(&self) -> String {
        fs::read_to_string(self.base.path().join(RECORD)).expect("the filled cache has a record")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        let number = self.rows.fetch_add(1, Ordering::Relaxed);
        let base = fs::canonicalize(self.base.path()).expect("the folder exists");
        let folder = base.join(format!("row-{number}-"));
        fs::create_dir(&folder).expect("each folder has a new number");
        folder
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.base.path().join("cache")
    }

    /// Fills a cache with the results of earlier runs. Compiled kernels are copied, and the emulated device is linked.
    pub(crate) fn warm(&self, cache: &Path) {
        let from = self.cache().join("rocrepro");
        copy_tree(&from, cache);
    }

    /// Checks that no process of a run is alive.
    ///
    /// # Errors
    /// Returns a description of the processes that are alive.
    pub(crate) fn check_no_process_left(&self) -> Result<(), String> {
        let left = processes::children_of(getpid());
        if left.is_empty() {
            return Ok(());
        }
        let text: Vec<String> = left.iter().map(|&pid: &Pid| processes::describe(pid)).collect();
        left.iter().for_each(|&pid| processes::kill(pid));
        Err(format!("processes outlived their runs:\n{}", text.join("\n")))
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is writable");
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (path, at) = (entry.path(), to.join(entry.file_name()));
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            copy_tree(&path, &at);
        } else {
            // Another run may have removed the file in the meantime.
            let _ = fs::copy(&path, &at);
        }
    }
}

/// Compiles a C file. `more` contains additional arguments for the compiler.
pub(crate) fn compile(source: &Path, to: &Path, more: &[&str]) {
    let mut command = Command::new("cc");
    command.args(["-O1", "-g", "-w", "-fPIC", "-o"]).arg(to).arg(source).args(more);
    let output = command.output().unwrap_or_else(|e| panic!("cannot start the C compiler cc: {e}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
