//! Runs the documented programs of frameworks in podman containers that share the files of this machine: as root, as an
//! ordinary user, and in a container without namespaces. Changes that a container makes to files are discarded. The
//! task needs root, podman and runc.

use std::path::Path;

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, build_program, frameworks};

/// Seccomp filter like Docker's, which forbids user namespaces and mounts. podman's own filter allows them.
const WITHOUT_NAMESPACES: &str = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
{"names":["unshare","mount","setns","umount2","pivot_root","open_tree","move_mount","fsopen"],"action":"SCMP_ACT_ERRNO","errnoRet":1},
{"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38},
{"names":["clone"],"action":"SCMP_ACT_ERRNO","errnoRet":1,
 "args":[{"index":0,"value":268435456,"valueTwo":268435456,"op":"SCMP_CMP_MASKED_EQ"}]}]}"#;

/// A kind of container: options of `podman run`, a shell prefix for the command, and the frameworks that cannot run in
/// such a container.
struct ContainerKind {
    name: &'static str,
    options: &'static [&'static str],
    shell_prefix: &'static str,
    /// Frameworks that cannot run in this kind of container, because their programs start other programs of the stack
    /// or search for GPUs below /sys.
    unsupported: &'static [&'static str],
}

const CONTAINER_KINDS: &[ContainerKind] = &[
    ContainerKind { name: "a plain container", options: &[], shell_prefix: "", unsupported: &[] },
    ContainerKind {
        name: "a container as an ordinary user",
        options: &[],
        // The prefix lets the user read root's Python and cache. This change of permissions is discarded with the
        // container.
        shell_prefix: "chmod 755 /root; export HOME=/tmp/home XDG_CACHE_HOME=; mkdir $HOME; chown 65534 $HOME; \
                 exec setpriv --reuid 65534 --regid 65534 --clear-groups ",
        unsupported: &[],
    },
    ContainerKind {
        name: "a container without namespaces",
        options: &["--security-opt", "seccomp=/tmp/rocrepro-seccomp.json"],
        shell_prefix: "",
        unsupported: &["cupy", "jax"],
    },
];

pub(crate) fn containers(sh: &Shell) -> TaskResult {
    let program = build_program(sh)?;
    sh.write_file("/tmp/rocrepro-seccomp.json", WITHOUT_NAMESPACES)?;
    let has_page = |name: &&str| sh.path_exists(format!("docs/programs/with_{name}.py"));
    let mut names = frameworks::names().filter(has_page);
    let result = names.try_for_each(|name| run_in_all(sh, &program, name));
    sh.remove_path("/tmp/rocrepro-seccomp.json")?;
    result
}

fn run_in_all(sh: &Shell, program: &Path, name: &str) -> TaskResult {
    frameworks::prepare(sh, name)?;
    let stack = cmd!(sh, "{program} rocm path {STACK}").read()?;
    let venv = cmd!(sh, "{program} env path {name}").read()?;
    let here = sh.current_dir();
    let (gfx, more) = match name {
        "triton" => ("gfx1151", ""),
        "jax" => (
            "gfx1151",
            "--env XLA_PYTHON_CLIENT_PREALLOCATE=false --env JAX_PLATFORMS=rocm,cpu --env XLA_FLAGS=--xla_gpu_autotune_level=0",
        ),
        _ => ("gfx90a", ""),
    };
    for &ContainerKind { name: place, options, shell_prefix, unsupported } in CONTAINER_KINDS {
        let script = format!(
            "cd {}; {shell_prefix}{} exec --rocm {stack} --gfx {gfx} {more} -- {venv}/bin/python3 docs/programs/with_{name}.py",
            here.display(),
            program.display()
        );
        let output = cmd!(
            sh,
            "podman --runtime runc --cgroup-manager cgroupfs run --rm --network none --ulimit nofile=1024:1024
             --ulimit nproc=1000:1000 {options...} --rootfs /:O bash -c {script}"
        );
        let output = output.quiet().ignore_status().output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let right = output.status.success() && text.contains(": right") && !text.contains("WRONG");
        println!("{name} in {place}: {}", if right { "works" } else { "does not work" });
        if right == unsupported.contains(&name) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{name} in {place}: the result differs from docs/programs.md:\n{text}{stderr}"
            )
            .into());
        }
    }
    Ok(())
}
