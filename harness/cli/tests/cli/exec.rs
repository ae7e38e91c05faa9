//! Tests `rocrepro exec`: which files and libraries a program and its children see. Other processes must not see them.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::symlink, process::ExitStatusExt as _},
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::common::{check_command, rocrepro, session};

/// Beginning of the warning that only the program itself, and none of its children, uses the stack.
const WITHOUT: &str = "rocrepro: without a namespace, the loader of the stack starts the program";

/// Shell command whose child loads HIP and prints its memory map.
const CHILD: &str = "LD_PRELOAD=libamdhip64.so.7 cat /proc/self/maps";

/// Launcher with which no process can create a namespace.
pub(crate) const REFUSING: &str = r#"unshare --user --map-root-user sh -c '
echo 0 >/proc/sys/user/max_user_namespaces
exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$@"' sh"#;

/// Returns true if this user can mount an overlay file system in a user namespace. Tries it with util-linux's
/// `unshare`.
pub(crate) fn namespaces() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    let script = format!("mount -t overlay none -o lowerdir={at}:/usr {at}");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    command.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

fn exec(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["exec", "--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"]);
    command.args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

#[track_caller]
fn check(arguments: &[&str], code: i32, out: &[&str], err: &[&str]) -> String {
    let output = exec(arguments);
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let shown = format!("{arguments:?}: {}\n{stdout}\n--- stderr\n{stderr}", output.status);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    for wanted in out {
        assert!(stdout.contains(wanted), "no {wanted:?} on stdout: {shown}");
    }
    for wanted in err {
        assert!(stderr.contains(wanted), "no {wanted:?} on stderr: {shown}");
    }
    if !err.contains(&WITHOUT) {
        assert!(!stderr.contains(WITHOUT), "{shown}");
    }
    stdout.into_owned()
}

#[test]
fn runs_children_on_the_stack_and_the_device() {
    if !namespaces() {
        let alone = check(&["sh", "-c", CHILD], 0, &[], &[WITHOUT]);
        assert!(!alone.contains("libamdhip64"), "{alone}");
        return;
    }
    let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let maps =
        check(&["sh", "-c", CHILD], 0, &["/libamdhip64.so.7", "/libhsa-runtime64.so.1"], &[]);
    assert!(maps.contains("/usr/lib/x86_64-linux-gnu/libc.so.6"), "{maps}");
    let script = "echo $ROCM_PATH $ROCM_HOME $HIP_PATH; cat /opt/rocm/.info/version; ls /opt/rocm/lib/libamdhip64.so /opt/rocm/lib/libhiprtc.so; \
                  cat /sys/class/kfd/kfd/topology/nodes/2/properties; ls /sys/class/kfd/kfd/topology/nodes; cat /sys/class/net/lo/mtu";
    let nodes = ["gfx_target_version 110501\n", "simd_count 80\n", "\n0\n1\n2\n"];
    let prefix = [
        "/opt/rocm /opt/rocm /opt/rocm\n7.2.4\n",
        "/opt/rocm/lib/libamdhip64.so\n/opt/rocm/lib/libhiprtc.so\n",
    ];
    check(
        &["--device-option", "devices=2", "--", "sh", "-c", script],
        0,
        &[nodes, [prefix[0], prefix[1], "65536"]].concat(),
        &[],
    );
    // The mounts are not visible to this process.
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
    let made =
        Path::new(&std::env::var("XDG_CACHE_HOME").unwrap_or_default()).join("rocrepro/home/rocm");
    assert!(!made.exists());
}

#[test]
fn says_where_a_program_crashed() {
    let crashed = |words: &[&str]| {
        let output = exec(words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status, stderr)
    };
    let died = "no HIP call was running: the program died of SIGSEGV in its own code, ";
    let (status, stderr) = crashed(&["sh", "-c", "kill -SEGV $$"]);
    if namespaces() {
        let of_process = stderr.lines().find(|line| line.contains(died)).expect("a sentence");
        assert!(of_process.starts_with("rocrepro: process "), "{stderr}");
        assert!(stderr.contains("` died of SIGSEGV; "), "{stderr}");
        assert!(stderr.contains("libc.so.6 has build id "), "{stderr}");
    }
    // The signal still ends the program.
    assert_eq!((status.code(), status.signal()), (None, Some(11)), "{stderr}");
    let (status, stderr) = crashed(&["sh", "-c", "trap 'exit 3' ABRT; kill -ABRT $$"]);
    assert_eq!(status.code(), Some(3), "{stderr}");
    assert!(!stderr.contains("died of"), "{stderr}");
}

/// The emulated device's library is loaded before all other libraries. Static programs, and programs with the address
/// sanitizer, must still work.
#[test]
fn leaves_programs_that_never_use_the_device_unchanged() {
    if !namespaces() {
        return check_told();
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("plain.c"), folder.path().join("plain"));
    fs::write(&source, "int main(void) { return 7; }\n").unwrap();
    for option in ["-static", "-fsanitize=address"] {
        let mut cc = Command::new("cc");
        cc.arg(&source).arg(option).arg("-o").arg(&program).stderr(Stdio::null());
        if !cc.status().unwrap().success() {
            println!("not tried: this machine's cc has no {option}");
            continue;
        }
        for given in [&[][..], &["--env", "ASAN_OPTIONS=detect_leaks=0"]] {
            let output = exec(&[given, &["--", program.to_str().unwrap()]].concat());
            assert_eq!(output.status.code(), Some(7), "{option} {given:?}: {output:?}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{option} {given:?}");
        }
    }
}

/// If the stack does not have a library, the worker of a case loads HIP too, but ends before it needs the device.
#[test]
fn notes_an_unused_device_for_programs_but_not_for_skipped_trials() {
    const NOTE: &str = "never reached the emulated device: it ran nothing on it";
    if namespaces() {
        let load = "import ctypes; ctypes.CDLL('libamdhip64.so.7')";
        check(&["--", "python3", "-c", load], 0, &[], &[NOTE]);
    }
    let libraries = Path::new("usr/lib/x86_64-linux-gnu");
    let stack = session(|_| {}).stack.root.join(libraries);
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join(libraries);
    fs::create_dir_all(&partial).unwrap();
    for entry in fs::read_dir(stack).unwrap().map(Result::unwrap) {
        if !entry.file_name().to_string_lossy().starts_with("librocblas") {
            symlink(entry.path(), partial.join(entry.file_name())).unwrap();
        }
    }
    let (stack, record) = (folder.path().to_str().unwrap(), folder.path().join("record.jsonl"));
    let case = "gemm/rocblas-handle[handles=1]";
    let options = ["--device", "emulated", "--gfx", "gfx1151", "--rocm", stack, "--record"];
    let mut run = rocrepro(&["run", case]);
    run.args(options).arg(&record);
    check_command(run, 4, &["librocblas"], &[]);
    let record = fs::read_to_string(record).unwrap();
    assert!(record.contains("\"skip:librocblas\""), "{record}");
    assert!(!record.contains("stderr_tail"), "{record}");
}

#[test]
fn warns_of_missing_namespaces() {
    let refusing = ["--launcher", REFUSING];
    // On a machine without namespaces, the launcher that forbids namespaces is not needed.
    let launcher = if namespaces() { &refusing[..] } else { &[] };
    let maps = check(
        &[launcher, &["--", "sh", "-c", CHILD]].concat(),
        0,
        &[],
        &[WITHOUT, "scripts do not work"],
    );
    assert!(!maps.contains("libamdhip64"), "{maps}");
    // Even without a namespace, the program itself uses the stack.
    let own =
        check(&[launcher, &["cat", "/proc/self/maps"]].concat(), 0, &["libc.so.6"], &[WITHOUT]);
    let libc = own.lines().find(|line| line.ends_with("/libc.so.6")).unwrap();
    assert!(libc.contains("debian-7.2.4"), "{libc}");
    let output = exec(&[launcher, &["--home", "namespace", "--", "true"]].concat());
    assert!(!output.status.success(), "{output:?}");
    check(&[launcher, &["--home", "loader", "--", "true"]].concat(), 0, &[], &[]);
}

#[test]
fn keeps_mounts_below_covered_folders() {
    if !namespaces() {
        return check_told();
    }
    let launcher = "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /usr/share/man && \
                    echo kept >/usr/share/man/kept && exec \"$@\"' sh";
    check(&["--launcher", launcher, "cat", "/usr/share/man/kept"], 0, &["kept\n"], &[]);
}

/// Checks the warning, which is all that can be tested without namespaces.
#[track_caller]
fn check_told() {
    check(&["true"], 0, &[], &[WITHOUT]);
}

#[test]
fn keeps_the_name_of_a_linked_program() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    symlink("/bin/sh", &python).unwrap();
    let python = python.to_str().unwrap();
    // The Python of a virtual environment finds its packages by its own path.
    let printed = if namespaces() { &[][..] } else { &[WITHOUT] };
    check(&[python, "-c", "echo $0"], 0, &[&format!("{python}\n")], printed);
    check(&["no-such-program"], 2, &[], &["cannot run `no-such-program`"]);
    check(&["/usr"], 2, &[], &["`/usr` is not a file"]);
}

#[test]
fn reports_once_that_a_substitute_library_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("calls.c"), folder.path().join("calls"));
    let text = "#include <dlfcn.h>\nint main(void) {\n  void *library = dlopen(\"libroctracer64.so.4\", RTLD_NOW);\n  \
                int (*start)(void) = library ? dlsym(library, \"roctracer_start\") : 0;\n  \
                return start && dlopen(\"libamdhip64.so\", RTLD_NOW) ? 40 + start() + start() : 3;\n}\n";
    fs::write(&source, text).unwrap();
    let done = Command::new("cc").arg(&source).args(["-ldl", "-o"]).arg(&program).status().unwrap();
    assert!(done.success());
    // A program also finds the libraries without a namespace.
    let homes = if namespaces() { &["namespace", "loader"][..] } else { &["loader"] };
    for home in homes {
        let output = exec(&["--home", home, program.to_str().unwrap()]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(42), "{home}: {stderr}");
        let said = stderr.matches("libroctracer64.so.4 is a stub of rocrepro").count();
        assert_eq!(said, 1, "{home}: {stderr}");
    }
}

#[test]
fn prefers_a_programs_own_modules_to_the_helper() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.py"), "import rocrepro\nchecks = rocrepro").unwrap();
    let at = format!("PYTHONPATH={}", folder.path().display());
    let script = "from own import checks; checks.equal('sum', 2, 2); checks.equal('other', 1, 2); checks.done()";
    let words = ["--home", "auto", "--env", &at, "--", "python3", "-c", script];
    let printed = if namespaces() { &[][..] } else { &[WITHOUT] };
    check(&words, 1, &["sum: right\n", "other: WRONG: "], printed);
    fs::write(folder.path().join("rocrepro.py"), "print('of the user')").unwrap();
    check(&["--env", &at, "--", "python3", "-c", "import rocrepro"], 0, &["of the user"], printed);
}

/// The process group of the command was created outside of the PID namespace. Inside, its id reads as 0.
#[test]
fn runs_in_a_pid_namespace() {
    let enter = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let unshare = |words: &[&str]| Command::new("unshare").args(enter).args(words).output();
    if !unshare(&["true"]).is_ok_and(|output| output.status.success()) {
        eprintln!("not tried: this machine allows no PID namespace");
        return;
    }
    let program = env!("CARGO_BIN_EXE_rocrepro");
    let words = ["run", "copies/tensors[bytes=64]", "--device", "emulated", "--gfx", "gfx1151"];
    let output = unshare(&[&[program][..], &words].concat()).expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// All programs share comgr's temporary folder. The next command removes what killed programs left there, but must not
/// remove folders in use.
#[test]
fn keeps_temporary_files_of_running_programs() {
    let script = "mkdir -p $TMPDIR/comgr-0-test; echo made; read line; test -d $TMPDIR/comgr-0-test; \
                  echo $?; rmdir $TMPDIR/comgr-0-test";
    let mut program = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    program.args(["exec", "--rocm", "debian:7.2.4", "--device", "emulated", "--", "sh", "-c"]);
    program.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().expect("it starts");
    let mut says = BufReader::new(program.stdout.take().expect("a pipe")).lines();
    assert_eq!(says.next().expect("a line").expect("text"), "made");
    check(&["true"], 0, &[], if namespaces() { &[] } else { &[WITHOUT] });
    writeln!(program.stdin.as_ref().expect("a pipe"), "go").expect("it reads");
    assert_eq!(says.next().expect("a line").expect("text"), "0", "it is gone");
    assert!(program.wait().expect("it ends").success());
}
