//! What all rows share: the command, the stack, compiled troublemakers and a warm cache.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, getpid, set_child_subreaper};
use tempfile::TempDir;

use crate::live;

/// A cheap trial: copies of two bytes.
pub(crate) const TRIAL: &str = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
/// A trial that compiles a kernel.
pub(crate) const KERNEL: &str = "kernels/saxpy[n=65536,block=1024]";

/// The release that rows run on.
const RELEASE: &str = "debian:7.2.4";

pub(crate) struct Tools {
    /// The command.
    pub(crate) program: PathBuf,
    /// The root of the stack.
    pub(crate) stack: PathBuf,
    /// The preloaded troublemaker.
    pub(crate) trouble: PathBuf,
    /// The program that forbids a system call to another.
    pub(crate) forbid: PathBuf,
    /// The same in the place of libamdhip64.
    pub(crate) shim: PathBuf,
    /// A libamdhip64 that is none.
    pub(crate) stub: PathBuf,
    base: TempDir,
    rows: AtomicUsize,
}

impl Tools {
    /// Compiles what is needed and finds the stack, fetching it where it is not there.
    pub(crate) fn make(program: PathBuf) -> Tools {
        // Whoever escapes from a run becomes a child of this process and is seen.
        set_child_subreaper(Some(getpid())).expect("Linux 3.4 or newer");
        let base = tempfile::Builder::new().prefix("chaos-").tempdir().expect("a temporary folder");
        // A temporary folder may lie behind a link; what processes say of themselves does not.
        let folder = fs::canonicalize(base.path()).expect("it was just made");
        let built = |name: &str| folder.join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
        compile(&source.join("trouble.c"), &built("trouble.so"), &["-shared", "-ldl", "-lpthread"]);
        compile(&source.join("forbid.c"), &built("forbid"), &[]);
        // The real library is found under another name, which a library without content lends.
        fs::write(built("empty.c"), "int chaos_nothing;\n").expect("the folder is ours");
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
        let stack = fs::canonicalize(&stack).expect("a fetched stack has a path");
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

    /// Runs the trials of the rows once, so that no row waits for a compiler.
    fn fill_cache(&self) {
        // Other stacks show that the machine can run ROCm where one does not start.
        let cache = self.cache().join("rocrepro");
        fs::create_dir_all(&cache).expect("the folder is ours");
        let stacks = self.stack.parent().expect("a fetched stack is in the folder of stacks");
        symlink(stacks, cache.join("stacks")).expect("the cache is new");
        let status = Command::new(&self.program)
            .args(["run", TRIAL, KERNEL, "--device", "emulated", "--rocm"])
            .arg(&self.stack)
            .env("XDG_CACHE_HOME", self.cache())
            .output()
            .expect("the command starts");
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    }

    /// A fresh folder for one run.
    pub(crate) fn folder(&self) -> PathBuf {
        let number = self.rows.fetch_add(1, Ordering::Relaxed);
        let base = fs::canonicalize(self.base.path()).expect("it is there");
        let folder = base.join(format!("row-{number}-"));
        fs::create_dir(&folder).expect("numbers are used once");
        folder
    }

    /// The cache that runs share.
    pub(crate) fn cache(&self) -> PathBuf {
        self.base.path().join("cache")
    }

    /// Fills a cache with what runs before left: compiled kernels copied, the device linked.
    pub(crate) fn warm(&self, cache: &Path) {
        let from = self.cache().join("rocrepro");
        copy_tree(&from, cache);
    }

    /// An error where a process of a run still lives.
    pub(crate) fn nobody_is_left(&self) -> Result<(), String> {
        let left = live::children_of(getpid());
        if left.is_empty() {
            return Ok(());
        }
        let text: Vec<String> = left.iter().map(|&pid: &Pid| live::describe(pid)).collect();
        left.iter().for_each(|&pid| live::kill(pid));
        Err(format!("processes outlived their runs:\n{}", text.join("\n")))
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is ours");
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (path, at) = (entry.path(), to.join(entry.file_name()));
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            copy_tree(&path, &at);
        } else {
            // Another run may have just removed it.
            let _ = fs::copy(&path, &at);
        }
    }
}

/// Compiles a C file, with more words behind it.
pub(crate) fn compile(source: &Path, to: &Path, more: &[&str]) {
    let mut command = Command::new("cc");
    command.args(["-O1", "-g", "-w", "-fPIC", "-o"]).arg(to).arg(source).args(more);
    let output = command.output().unwrap_or_else(|e| panic!("cannot start the C compiler cc: {e}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
