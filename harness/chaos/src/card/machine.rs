//! A machine with a pretended card: a stack whose runtime is `c/card.c`, the files of the driver, and the runner's world.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{scene::put, tools::compile};

/// What all machines share.
pub(super) struct Parts {
    /// The command.
    program: PathBuf,
    libraries: PathBuf,
    /// Keeps a process from ending.
    holder: PathBuf,
    base: TempDir,
}

/// What is on a machine with one card.
const CARD: [(&str, &str); 8] = [
    ("drm/card0/device/vendor", "0x1002\n"),
    ("drm/card0/device/device", "0x1586\n"),
    ("drm/card0/device/revision", "0xc1\n"),
    ("drm/card0/device/unique_id", "123456\n"),
    ("drm/card0/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n"),
    ("drm/card0/device/drm/renderD128/dev", "226:128\n"),
    ("drm/card0/device/ras/umc_err_count", "ue: 0\nce: 0\n"),
    (
        "kfd/kfd/topology/nodes/1/properties",
        "simd_count 80\ngfx_target_version 110501\ndrm_render_minor 128\n",
    ),
];

/// Gives the command /dev/kfd, the files of the driver and an id of the boot, in a mount namespace of its own.
const MOUNTS: &str = "set -e
mount --make-rprivate /
mount --rbind /dev $ROW/dev
mount -t tmpfs none /dev
for name in null zero full random urandom tty; do : > /dev/$name; mount --bind $ROW/dev/$name /dev/$name; done
mkdir /dev/shm
truncate -s 4096 /dev/kfd
umount -l $ROW/dev
mount --bind $ROW/card/class /sys/class
mount --bind $ROW/card/boot_id /proc/sys/kernel/random/boot_id
exec \"$@\"
";

const CASE: &str = "title: A copy comes back
source: [a pretended card]
matrix: {n: [TRIALS]}
environment: {CARD_TRIAL: $n}
buffers:
  there: {on: host.pageable, bytes: 4096, fill: pattern}
  dst: {on: device, bytes: 4096}
  back: {on: host.pageable, bytes: 4096}
steps:
  - copy: {to: dst, from: there}
  - copy: {to: back, from: dst}
expect:
  - check: back
faults: [copy.zero]
";

/// Why no machine can be made here; none where one can.
pub(super) fn impossible() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounts need root");
    }
    let tried = Command::new("unshare").args(["-m", "mount", "--make-rprivate", "/"]).output();
    (!tried.is_ok_and(|tried| tried.status.success())).then_some("there are no mount namespaces")
}

impl Parts {
    pub(super) fn make(program: PathBuf) -> Parts {
        let base = tempfile::Builder::new().prefix("card-").tempdir().expect("a temporary folder");
        let folder = fs::canonicalize(base.path()).expect("it was just made");
        let libraries = folder.join("lib");
        fs::create_dir(&libraries).expect("the folder is ours");
        fs::write(folder.join("empty.c"), "int nothing;\n").expect("the folder is ours");
        let mut below = Vec::new();
        for name in ["libhsa-runtime64.so.1", "libamd_comgr.so.3"] {
            let file = libraries.join(name);
            compile(&folder.join("empty.c"), &file, &["-shared", &format!("-Wl,-soname,{name}")]);
            below.push(file.display().to_string());
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
        let runtime = ["-shared", "-Wl,-soname,libamdhip64.so.7", "-Wl,-rpath,$ORIGIN"];
        let runtime =
            runtime.into_iter().chain(["-Wl,--no-as-needed", &below[0], &below[1], "-ldl"]);
        let runtime: Vec<&str> = runtime.collect();
        compile(&source.join("card.c"), &libraries.join("libamdhip64.so.7"), &runtime);
        compile(&source.join("holder.c"), &folder.join("holder"), &[]);
        Parts { program, libraries, holder: folder.join("holder"), base }
    }
}

/// A machine and what was done there so far.
pub(super) struct Machine<'p> {
    parts: &'p Parts,
    pub(super) folder: PathBuf,
    boots: u32,
}

impl Machine<'_> {
    /// A new one, whose card does these things to its trials.
    pub(super) fn new<'p>(parts: &'p Parts, name: &str, actions: &[&str]) -> Machine<'p> {
        let base = fs::canonicalize(parts.base.path()).expect("it is there");
        let folder = base.join(format!("machine-{name}-"));
        let at = |name: &str| folder.join(name);
        put(&at("stack/.info/version"), b"7.2.4\n");
        // The runtime looks for its card beside the stack that it lies in, so it is no link.
        fs::create_dir(at("stack/lib")).expect("the folder is ours");
        for library in fs::read_dir(&parts.libraries).expect("it is there").flatten() {
            let to = at("stack/lib").join(library.file_name());
            fs::copy(library.path(), to).expect("the folder is ours");
        }
        symlink("libamdhip64.so.7", at("stack/lib/libamdhip64.so")).expect("the folder is ours");
        for (file, text) in CARD {
            put(&at("card/class").join(file), text.as_bytes());
        }
        for name in ["dev", "tmp", "cache"] {
            fs::create_dir(at(name)).expect("the folder is ours");
        }
        let trials: Vec<String> = (0..actions.len()).map(|n| n.to_string()).collect();
        put(&at("cases/card/t.yaml"), CASE.replace("TRIALS", &trials.join(", ")).as_bytes());
        let lines = actions.iter().enumerate().map(|(n, action)| format!("{n} {action}\n"));
        put(&at("card/actions"), lines.collect::<String>().as_bytes());
        let mounts = format!("ROW={}\n{MOUNTS}", folder.display());
        put(&at("mounts.sh"), mounts.as_bytes());
        let mut machine = Machine { parts, folder, boots: 0 };
        machine.boot();
        machine
    }

    /// The machine is started: its card works again, and the kernel has another id.
    pub(super) fn boot(&mut self) {
        self.boots += 1;
        put(&self.at("card/boot_id"), format!("boot-{}\n", self.boots).as_bytes());
        for name in ["card/broken", "card/kill-in-check"] {
            let _ = fs::remove_file(self.at(name));
        }
    }

    pub(super) fn holder(&self) -> &Path {
        &self.parts.holder
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A file's text; empty where there is none.
    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.at(name)).unwrap_or_default()).into_owned()
    }

    /// The run, or what is left of it. Whoever kills the process that this starts kills the runner itself.
    pub(super) fn run(&self, mends: bool) -> Command {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh"]).arg(self.at("mounts.sh")).arg(&self.parts.program);
        // Long enough for a healthy trial on a machine that does much else.
        command.args(["run", "--device", "gpu", "--quiet-timeout", "5", "--trust", "--trials"]);
        command.arg("--cases-from").arg(self.at("cases"));
        command.arg("--rocm").arg(self.at("stack")).arg("--record").arg(self.at("record"));
        if self.at("record").exists() {
            command.arg("--resume");
        }
        if mends {
            let mend = format!("rm {}", self.at("card/broken").display());
            command.args(["--recover", &mend]);
        }
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TMPDIR", self.at("tmp")).env("XDG_CACHE_HOME", self.at("cache"));
        command.env("HOME", self.at("tmp")).current_dir(&self.folder).stdin(Stdio::null());
        command
    }
}
