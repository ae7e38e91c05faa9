//! Simulates a machine with GPU cards. The simulated machine consists of a stack whose HIP runtime is `c/card.c`, the
//! files of the GPU driver, and the environment of the command.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{setup::write_file, shared_tools::compile};

pub(super) struct MachineParts {
    program: PathBuf,
    libraries: PathBuf,
    /// Path of a program that keeps another process from ending.
    holder: PathBuf,
    base: TempDir,
}

/// PCI addresses of the simulated cards. `c/card.c` contains the same addresses.
const ADDRESSES: [&str; 2] = ["0000:03:00.0", "0000:43:00.0"];

/// Returns the files that the GPU driver would provide for a card, each with its path and content.
fn files(number: usize) -> [(String, String); 8] {
    let address = ADDRESSES[number];
    let (minor, unique) = (128 + number, 10 + number);
    let bus = u32::from_str_radix(&address[5..7], 16).expect("an address");
    let of = |name: &str| format!("drm/card{number}/device/{name}");
    [
        (of("vendor"), "0x1002\n".to_owned()),
        (of("device"), "0x1586\n".to_owned()),
        (of("revision"), "0xc1\n".to_owned()),
        (of("unique_id"), format!("{unique:016x}\n")),
        (of("uevent"), format!("DRIVER=amdgpu\nPCI_SLOT_NAME={address}\n")),
        (of(&format!("drm/renderD{minor}/dev")), format!("226:{minor}\n")),
        (of("ras/umc_err_count"), "ue: 0\nce: 0\n".to_owned()),
        (
            format!("kfd/kfd/topology/nodes/{}/properties", number + 1),
            format!(
                "simd_count 80\ngfx_target_version 110501\ndrm_render_minor {minor}\nlocation_id {}\ndomain 0\nunique_id {unique}\n",
                bus << 8
            ),
        ),
    ]
}

/// Shell script that makes /dev/kfd, the driver's files and a boot id visible to the command, in a mount namespace of
/// its own.
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

/// Returns the reason why no machine can be simulated here; `None` if it is possible.
pub(super) fn impossible() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounts need root");
    }
    let tried = Command::new("unshare").args(["-m", "mount", "--make-rprivate", "/"]).output();
    (!tried.is_ok_and(|tried| tried.status.success()))
        .then_some("mount namespaces are not available")
}

impl MachineParts {
    pub(super) fn make(program: PathBuf) -> MachineParts {
        let base = tempfile::Builder::new().prefix("card-").tempdir().expect("a temporary folder");
        let folder = fs::canonicalize(base.path()).expect("the folder exists");
        let libraries = folder.join("lib");
        fs::create_dir(&libraries).expect("the folder is writable");
        fs::write(folder.join("empty.c"), "int nothing;\n").expect("the folder is writable");
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
        MachineParts { program, libraries, holder: folder.join("holder"), base }
    }
}

pub(super) struct SimulatedMachine<'p> {
    parts: &'p MachineParts,
    pub(super) folder: PathBuf,
    pub(super) cards: usize,
    boots: u32,
}

impl SimulatedMachine<'_> {
    /// Creates a simulated machine with `cards` cards. `actions` contains the behaviour of the cards in each trial.
    pub(super) fn new<'p>(
        parts: &'p MachineParts,
        name: &str,
        cards: usize,
        actions: &[&str],
    ) -> SimulatedMachine<'p> {
        let base = fs::canonicalize(parts.base.path()).expect("the folder exists");
        let folder = base.join(format!("machine-{name}-"));
        let at = |name: &str| folder.join(name);
        write_file(&at("stack/.info/version"), b"7.2.4\n");
        // The simulated HIP runtime looks for the folder `card` next to the stack that contains the file of the
        // runtime. Therefore that file must not be a symbolic link.
        fs::create_dir(at("stack/lib")).expect("the folder is writable");
        for library in fs::read_dir(&parts.libraries).expect("the folder exists").flatten() {
            let to = at("stack/lib").join(library.file_name());
            fs::copy(library.path(), to).expect("the folder is writable");
        }
        symlink("libamdhip64.so.7", at("stack/lib/libamdhip64.so"))
            .expect("the folder is writable");
        for (file, text) in (0..cards).flat_map(files) {
            write_file(&at("card/class").join(file), text.as_bytes());
        }
        for name in ["dev", "tmp", "cache"] {
            fs::create_dir(at(name)).expect("the folder is writable");
        }
        let trials: Vec<String> = (0..actions.len()).map(|n| n.to_string()).collect();
        write_file(&at("cases/card/t.yaml"), CASE.replace("TRIALS", &trials.join(", ")).as_bytes());
        let lines = actions.iter().enumerate().map(|(n, action)| format!("{n} {action}\n"));
        write_file(&at("card/actions"), lines.collect::<String>().as_bytes());
        let mounts = format!("ROW={}\n{MOUNTS}", folder.display());
        write_file(&at("mounts.sh"), mounts.as_bytes());
        let mut machine = SimulatedMachine { parts, folder, cards, boots: 0 };
        machine.boot();
        machine
    }

    /// Reboots the simulated machine: its cards work again, and the boot id changes.
    pub(super) fn boot(&mut self) {
        self.boots += 1;
        write_file(&self.at("card/boot_id"), format!("boot-{}\n", self.boots).as_bytes());
        let broken = ADDRESSES.iter().map(|address| format!("card/broken-{address}"));
        for name in broken.chain(["card/kill-in-check".to_owned()]) {
            let _ = fs::remove_file(self.at(&name));
        }
    }

    pub(super) fn holder(&self) -> &Path {
        &self.parts.holder
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the text of a file, or an empty string if the file does not exist.
    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.at(name)).unwrap_or_default()).into_owned()
    }

    /// Returns the command that starts the run, or resumes it if the file `record` exists. If `mends` is true, the run
    /// has a recovery command that repairs a card (`--recover`). The shell replaces itself with rocrepro, so killing
    /// the returned process kills rocrepro.
    pub(super) fn run(&self, record: &str, mends: bool) -> Command {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh"]).arg(self.at("mounts.sh")).arg(&self.parts.program);
        // The time limit for a trial without output is long enough for a healthy trial on a busy machine.
        command.args(["run", "--device", "gpu", "--quiet-timeout", "5", "--trust", "--trials"]);
        command.arg("--cases-from").arg(self.at("cases"));
        command.arg("--rocm").arg(self.at("stack")).arg("--record").arg(self.at(record));
        if self.cards > 1 {
            command.args(["--cards", "all"]);
        }
        if self.at(record).exists() {
            command.arg("--resume");
        }
        if mends {
            // The command that repairs a card receives the address of the card in an environment variable.
            let broken = self.at("card/broken-").display().to_string();
            let mend = format!("sh -c 'rm {broken}${{ROCREPRO_CARD:-{}}}'", ADDRESSES[0]);
            command.args(["--recover", &mend]);
        }
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TMPDIR", self.at("tmp")).env("XDG_CACHE_HOME", self.at("cache"));
        command.env("HOME", self.at("tmp")).current_dir(&self.folder).stdin(Stdio::null());
        command
    }
}
