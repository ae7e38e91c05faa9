//! Tests `--launcher` with real launchers: Slurm with one node, sshd, bubblewrap, podman and sudo. The task starts
//! Slurm and sshd with temporary folders, and stops them at the end. Slurm needs root.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult};

/// Debian packages that must be installed.
const PACKAGES: &str =
    "slurmd slurmctld slurm-client munge openssh-server openssh-client bubblewrap podman runc sudo";

const PROGRAMS: &[&str] =
    &["/usr/sbin/slurmd", "/usr/sbin/slurmctld", "/usr/bin/srun", "/usr/sbin/munged"];
const ADDITIONAL_PROGRAMS: &[&str] =
    &["/usr/sbin/sshd", "/usr/bin/bwrap", "/usr/bin/podman", "/usr/bin/sudo"];

const TRIAL: &str = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";

/// Runs of the trial with each launcher: the arguments, the expected exit code, and a text that the output must
/// contain.
const TRIALS: &[(&[&str], i32, &str)] = &[
    (&["--env", "HIP_LAUNCH_BLOCKING=1", "--env", "A=two words; $HOME"], 0, "1 passed"),
    (&["--fault", "copy.zero"], 1, "wrong-data:dst.back:zero"),
    (&["--fault", "signal.stuck", "--quiet-timeout", "4"], 1, "hang:hipMemcpy"),
    (&["--limit", "stack=16M", "--limit", "files=512"], 0, "1 passed"),
];

/// A daemon that the task has started. It is killed when the value is dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn launchers(sh: &Shell) -> TaskResult {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .chain(ADDITIONAL_PROGRAMS)
        .copied()
        .filter(|program| !Path::new(program).exists())
        .collect();
    if !missing.is_empty() {
        return Err(format!(
            "these programs are missing: {}; run `apt-get install {PACKAGES}`",
            missing.join(", ")
        )
        .into());
    }
    let built = crate::build_program(sh)?;
    let folder = PathBuf::from("/tmp/rocrepro-launchers");
    // Creating the folder must fail if it exists, because another user could have created it.
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let result = test_launchers(sh, &built, &folder);
    fs::remove_dir_all(&folder)?;
    result
}

fn test_launchers(sh: &Shell, built: &Path, folder: &Path) -> TaskResult {
    let program = folder.join("rocrepro");
    fs::copy(built, &program)?;
    cmd!(sh, "{program} rocm fetch {STACK}").run()?;
    let cache = Command::new(&program).args(["rocm", "path", STACK]).output()?.stdout;
    let cache = PathBuf::from(String::from_utf8(cache)?.trim());
    let cache = cache
        .ancestors()
        .find(|at| at.ends_with("rocrepro"))
        .ok_or("the path of the stack is not in the cache of rocrepro")?;
    let _slurm = slurm(sh, folder)?;
    let _sshd = sshd(sh, folder)?;
    let at = folder.display();
    let ssh = format!(
        "ssh -q -p 16822 -i {at}/id -o UserKnownHostsFile={at}/hosts -o StrictHostKeyChecking=no 127.0.0.1"
    );
    let cache = cache.display();
    let tmp = std::env::temp_dir();
    let tmp = tmp.display();
    let bwrap = format!(
        "bwrap --ro-bind / / --dev /dev --proc /proc --bind {tmp} {tmp} --bind {cache} {cache} --unshare-all --die-with-parent"
    );
    let podman = format!(
        "podman --runtime runc --cgroup-manager cgroupfs run --rm -i --network none --ulimit nofile=1024:1024 \
         --ulimit nproc=1000:1000 -v {tmp}:{tmp} -v {cache}:{cache} --rootfs /:O"
    );
    let tried =
        ["srun --quiet -N1 -n1", &ssh, &bwrap, &podman, "sudo -u root", "sudo -n nice -n 5"];
    let mut wrong = Vec::new();
    for launcher in tried {
        for (more, code, says) in TRIALS {
            let begun = Instant::now();
            let mut command = Command::new(&program);
            command.args(["run", TRIAL, "--rocm", STACK, "--device", "emulated", "--launcher"]);
            command.arg(launcher).args(*more).env("SLURM_CONF", folder.join("slurm.conf"));
            let output = command.stdin(Stdio::null()).output()?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut problem = Vec::new();
            if output.status.code() != Some(*code) || !said.contains(says) {
                problem.push(format!(
                    "{}\n{said}{}",
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
            problem.extend(
                running_process(&program).map(|left| format!("a process was left behind: {left}")),
            );
            let name = launcher.split(' ').next().unwrap_or_default();
            let verdict = if problem.is_empty() { "ok" } else { "WRONG" };
            println!("{verdict:5} {name:6} {:5.1?} {}", begun.elapsed(), more.join(" "));
            wrong.extend(problem.into_iter().map(|why| format!("{launcher} {more:?}: {why}")));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n\n").into()),
    }
}

/// Returns a description of one process of the program that is still running after the trials; `None` if all have
/// ended.
fn running_process(program: &Path) -> Option<String> {
    let begun = Instant::now();
    loop {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        let left = lines.into_iter().find(|line| line.contains(&program.display().to_string()))?;
        if begun.elapsed() > Duration::from_secs(5) {
            return Some(left);
        }
        sleep(Duration::from_millis(50));
    }
}

/// Starts Slurm, with this machine as the only node, on ports of its own.
fn slurm(sh: &Shell, folder: &Path) -> Result<[Daemon; 3], Box<dyn std::error::Error>> {
    let host = cmd!(sh, "hostname").read()?;
    let at = folder.display();
    let conf = format!(
        "ClusterName=one\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket\nCredType=cred/munge\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\n\
         StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/ctld.pid\n\
         SlurmdPidFile={at}/d.pid\nSlurmctldPort=16817\nSlurmdPort=16818\n\
         SlurmdParameters=config_overrides\nNodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
         PartitionName=p Nodes=ALL Default=YES State=UP\n"
    );
    let conf_file = folder.join("slurm.conf");
    fs::write(&conf_file, conf)?;
    fs::create_dir(folder.join("state"))?;
    fs::create_dir(folder.join("spool"))?;
    let key = folder.join("munge.key");
    cmd!(sh, "dd if=/dev/urandom of={key} bs=1 count=1024 status=none").run()?;
    cmd!(sh, "chmod 400 {key}").run()?;
    let start = |program: &str, arguments: &[String]| -> std::io::Result<Daemon> {
        let log = fs::File::create(folder.join(format!("{program}.log")))?;
        let mut command = Command::new(format!("/usr/sbin/{program}"));
        command.args(arguments).env("SLURM_CONF", &conf_file).stdin(Stdio::null());
        Ok(Daemon(command.stdout(log.try_clone()?).stderr(log).spawn()?))
    };
    let munge = ["--foreground", "--force"].map(str::to_owned).into_iter().chain([
        format!("--key-file={at}/munge.key"),
        format!("--socket={at}/munge.socket"),
        format!("--pid-file={at}/munged.pid"),
        format!("--seed-file={at}/munged.seed"),
    ]);
    let munged = start("munged", &munge.collect::<Vec<_>>())?;
    let is_there = |file: &str| {
        let begun = Instant::now();
        while !folder.join(file).exists() && begun.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(50));
        }
    };
    is_there("munge.socket");
    let control = start("slurmctld", &["-D".to_owned()])?;
    let node = start("slurmd", &["-D".to_owned()])?;
    let begun = Instant::now();
    let ready = || {
        let mut sinfo = Command::new("sinfo");
        sinfo.args(["--noheader", "--format=%T"]).env("SLURM_CONF", &conf_file);
        sinfo.output().is_ok_and(|output| output.stdout.starts_with(b"idle"))
    };
    while !ready() {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("the Slurm node did not become idle within a minute".into());
        }
        sleep(Duration::from_millis(200));
    }
    Ok([munged, control, node])
}

fn sshd(sh: &Shell, folder: &Path) -> Result<Daemon, Box<dyn std::error::Error>> {
    let (host, id) = (folder.join("host"), folder.join("id"));
    cmd!(sh, "ssh-keygen -q -t ed25519 -N '' -f {host}").run()?;
    cmd!(sh, "ssh-keygen -q -t ed25519 -N '' -f {id}").run()?;
    let at = folder.display();
    let conf = format!(
        "Port 16822\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/id.pub\n\
         StrictModes no\nPidFile none\nPermitRootLogin yes\nUsePAM no\n"
    );
    fs::write(folder.join("sshd.conf"), conf)?;
    // sshd needs this empty folder for privilege separation.
    fs::create_dir_all("/run/sshd")?;
    let mut command = Command::new("/usr/sbin/sshd");
    command.args(["-D", "-f"]).arg(folder.join("sshd.conf"));
    let daemon = Daemon(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?);
    sleep(Duration::from_millis(500));
    Ok(daemon)
}
