//! Programs that start others: what they and their children find, and that nothing of it is seen outside.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output, Stdio},
};

/// What is told of a program that is started without its children's libraries.
const WITHOUT: &str =
    "rocrepro: without a namespace, the loader of the stack starts the program alone";

/// Loads HIP as any program does, and shows what it is mapped from. It is a child of the shell.
const CHILD: &str = "LD_PRELOAD=libamdhip64.so.7 cat /proc/self/maps";

/// Makes what is started behind it one that may make no namespace.
pub(crate) const REFUSING: &str = r#"unshare --user --map-root-user sh -c '
echo 0 >/proc/sys/user/max_user_namespaces
exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$@"' sh"#;

/// Whether this machine lets somebody like us lay folders over folders, which util-linux is asked.
pub(crate) fn namespaces() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    let script = format!("mount -t overlay none -o lowerdir={at}:/usr {at}");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    command.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

/// Runs a program; gives what it says on standard output and standard error.
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
fn children_run_on_the_stack_and_the_device() {
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
    // Nothing of that is seen here.
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
    let made =
        Path::new(&std::env::var("XDG_CACHE_HOME").unwrap_or_default()).join("rocrepro/home/rocm");
    assert!(!made.exists());
}

/// The device is loaded before all libraries of a program; neither a program that never uses it nor the address sanitizer minds.
#[test]
fn programs_that_never_use_the_device_run_as_before() {
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

#[test]
fn a_machine_without_namespaces_is_told_what_will_not_work() {
    let refusing = ["--launcher", REFUSING];
    // Where there is none to refuse, there is none anyway.
    let launcher = if namespaces() { &refusing[..] } else { &[] };
    let maps =
        check(&[launcher, &["--", "sh", "-c", CHILD]].concat(), 0, &[], &[WITHOUT, "no script"]);
    assert!(!maps.contains("libamdhip64"), "{maps}");
    // The program itself still runs on the stack.
    let own =
        check(&[launcher, &["cat", "/proc/self/maps"]].concat(), 0, &["libc.so.6"], &[WITHOUT]);
    let libc = own.lines().find(|line| line.ends_with("/libc.so.6")).unwrap();
    assert!(libc.contains("debian-7.2.4"), "{libc}");
    let output = exec(&[launcher, &["--home", "namespace", "--", "true"]].concat());
    assert!(!output.status.success(), "{output:?}");
    check(&[launcher, &["--home", "loader", "--", "true"]].concat(), 0, &[], &[]);
}

#[test]
fn mounts_below_what_is_covered_stay() {
    if !namespaces() {
        return check_told();
    }
    let launcher = "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /usr/share/man && \
                    echo kept >/usr/share/man/kept && exec \"$@\"' sh";
    check(&["--launcher", launcher, "cat", "/usr/share/man/kept"], 0, &["kept\n"], &[]);
}

/// All that a machine without namespaces can be asked.
#[track_caller]
fn check_told() {
    check(&["true"], 0, &[], &[WITHOUT]);
}

#[test]
fn a_program_keeps_the_name_that_it_was_found_by() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    symlink("/bin/sh", &python).unwrap();
    let python = python.to_str().unwrap();
    // What a virtual environment's python is, it knows by its own path.
    let told = if namespaces() { &[][..] } else { &[WITHOUT] };
    check(&[python, "-c", "echo $0"], 0, &[&format!("{python}\n")], told);
    check(&["no-such-program"], 2, &[], &["cannot run `no-such-program`"]);
    check(&["/usr"], 2, &[], &["`/usr` is not a file"]);
}

#[test]
fn a_stand_in_says_once_that_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("calls.c"), folder.path().join("calls"));
    let text = "#include <dlfcn.h>\nint main(void) {\n  void *library = dlopen(\"libroctracer64.so.4\", RTLD_NOW);\n  \
                int (*start)(void) = library ? dlsym(library, \"roctracer_start\") : 0;\n  \
                return start && dlopen(\"libamdhip64.so\", RTLD_NOW) ? 40 + start() + start() : 3;\n}\n";
    fs::write(&source, text).unwrap();
    let done = Command::new("cc").arg(&source).args(["-ldl", "-o"]).arg(&program).status().unwrap();
    assert!(done.success());
    // A program that has no view of its own finds the names as well.
    let homes = if namespaces() { &["namespace", "loader"][..] } else { &["loader"] };
    for home in homes {
        let output = exec(&["--home", home, program.to_str().unwrap()]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(42), "{home}: {stderr}");
        let said = stderr.matches("libroctracer64.so.4 is a stand-in of rocrepro").count();
        assert_eq!(said, 1, "{home}: {stderr}");
    }
}

#[test]
fn a_program_has_the_helper_behind_its_own_modules() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.py"), "import rocrepro\nchecks = rocrepro").unwrap();
    let at = format!("PYTHONPATH={}", folder.path().display());
    let script = "from own import checks; checks.equal('sum', 2, 2); checks.equal('other', 1, 2); checks.done()";
    let words = ["--home", "auto", "--env", &at, "--", "python3", "-c", script];
    let told = if namespaces() { &[][..] } else { &[WITHOUT] };
    check(&words, 1, &["sum: right\n", "other: WRONG: "], told);
    fs::write(folder.path().join("rocrepro.py"), "print('of the user')").unwrap();
    check(&["--env", &at, "--", "python3", "-c", "import rocrepro"], 0, &["of the user"], told);
}

/// Where the group of the command is one from outside of its namespace, which has no number there.
#[test]
fn a_run_in_a_pid_namespace_of_its_own_ends_as_elsewhere() {
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

/// comgr's folders lie beside each other for all that runs, and what killed ones left is removed when nobody uses them.
#[test]
fn what_a_program_has_in_the_folder_of_temporary_files_stays() {
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
