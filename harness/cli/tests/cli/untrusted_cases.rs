//! Tests limits on untrusted cases (`--cases-from` without `--trust`), and paths that are not regular files.

use std::{
    os::unix::{fs::symlink, process::CommandExt},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::common::{CASE, output_text};

fn rocrepro(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).env_remove("ROCREPRO_ROCM").env("ROCREPRO_DEVICE_KIND", "emulated");
    command.stdin(Stdio::null()).output().expect("it starts")
}

#[track_caller]
fn check(arguments: &[&str], code: i32, wanted: &[&str]) {
    let start = Instant::now();
    let output = rocrepro(arguments);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    for wanted in wanted {
        assert!(text.contains(wanted), "no {wanted:?}: {text}");
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{arguments:?} took {:?}", start.elapsed());
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn rejects_forbidden_content_of_untrusted_cases() {
    let with = |more: &str| format!("{CASE}{more}");
    let cases = [
        (
            "preload",
            with("environment: {LD_PRELOAD: /tmp/x.so}\n"),
            "may not set the variable `LD_PRELOAD`",
        ),
        ("log", with("environment: {AMD_LOG_LEVEL_FILE: /tmp/x}\n"), "`AMD_LOG_LEVEL_FILE`"),
        ("tools", with("environment: {HSA_TOOLS_LIB: x.so}\n"), "`HSA_TOOLS_LIB`"),
        (
            "include",
            with("kernels:\n  own: |\n    #include \"/etc/passwd\"\n"),
            "kernel `own` includes a file that is not a built-in header",
        ),
        (
            "returns",
            with("kernels:\n  own: \"int a0;\\r#inc\\\\\\rlude \\\"/etc/passwd\\\"\\n\"\n"),
            "kernel `own` has a carriage return",
        ),
        (
            "assembler",
            with("kernels:\n  own: \"as\\\\\\rm(\\\".incbin 1\\\");\"\n"),
            "kernel `own` has a carriage return",
        ),
        (
            "dependency",
            with("kernels:\n  own: |\n    #pragma GCC dependency \"/etc/passwd\"\n"),
            "has `#pragma GCC`; only `unroll` is allowed",
        ),
        (
            "crash",
            with("kernels:\n  own: |\n    #pragma clang __debug crash\n"),
            "has `#pragma clang`; only `unroll` is allowed",
        ),
    ];
    for (name, case, mistake) in &cases {
        let folder = folder(&[("case.yaml", case)]);
        let from = ["check", "--cases-from", text(folder.path())];
        check(&from, 2, &[mistake, "--trust", "case.yaml:"]);
        // The kernels define no function, which is a mistake in any case file.
        let (code, said) = match case.contains("kernels:") {
            true => (2, "kernel `own`"),
            false => (0, "1 case is well-formed"),
        };
        check(&[&from[..], &["--trust"]].concat(), code, &[said]);
        assert!(!name.is_empty());
    }
    let allowed = folder(&[("case.yaml", &with("environment: {HSA_ENABLE_SDMA: 0}\n"))]);
    check(&["check", "--cases-from", text(allowed.path())], 0, &[]);
    let kernel = folder(&[("case.yaml", CASE), ("kernels/own.hip", "#include \"x\"\n")]);
    check(&["check", "--cases-from", text(kernel.path())], 2, &["own.hip` includes", "--trust"]);
    let taken = folder(&[("case.yaml", CASE), ("kernels/copy_u32.hip", "void f() {}\n")]);
    check(&["check", "--cases-from", text(taken.path())], 2, &["another kernel `copy_u32`"]);
}

#[test]
fn rejects_folders_with_more_than_256_mib_of_cases() {
    let at = folder(&[]);
    let real = at.path().join("real.yaml");
    std::fs::write(&real, vec![b' '; 4 << 20]).expect("a file");
    for n in 0..70 {
        symlink(&real, at.path().join(format!("l{n}.yaml"))).expect("a link");
    }
    let wanted = ["have more than 256 MiB", "name the folder of the cases"];
    check(&["check", "--cases-from", text(at.path())], 2, &wanted);
}

#[test]
fn rejects_special_files_without_blocking() {
    check(&["check", "--cases-from", "/dev/zero"], 2, &["`/dev/zero`: it is not a regular file"]);
    let outside = folder(&[("secret.yaml", CASE)]);
    let at = folder(&[("good.yaml", CASE), ("one/twin.yaml", CASE), ("one/twin.yml", CASE)]);
    let (path, name) = (at.path(), |name: &str| at.path().join(name));
    let pipe = Command::new("mkfifo").arg(name("pipe.yaml")).status().expect("mkfifo");
    assert!(pipe.success());
    symlink("loop.yaml", name("loop.yaml")).expect("a link");
    symlink(".", name("again")).expect("a link");
    symlink(outside.path(), name("out")).expect("a link");
    symlink(outside.path().join("secret.yaml"), name("out.yaml")).expect("a link");
    symlink("/dev/zero", name("zero.yaml")).expect("a link");
    std::fs::write(name("large.yaml"), vec![b' '; 5 << 20]).expect("a file");
    std::fs::write(name("--trust.yaml"), CASE).expect("a file");
    let wanted = [
        "pipe.yaml`: it is not a regular file",
        "loop.yaml`: Too many levels of symbolic links",
        "again` leads to a folder that was already read",
        "out` is a link to a place outside of",
        "out.yaml` is a link to a place outside of",
        "zero.yaml` is a link to a place outside of",
        "large.yaml`: it is larger than 4 MiB",
        "the file name `--trust` begins with `-`, like a command-line option",
        "define the same case `one/twin`",
    ];
    check(&["check", "--cases-from", text(path)], 2, &wanted);
    check(&["check", "--cases-from", text(&name("pipe.yaml"))], 2, &["not a regular file"]);
    check(&["check", "--cases-from", text(&name("loop.yaml"))], 2, &["symbolic links"]);
    check(
        &["check", "--cases-from", text(&name("--trust.yaml"))],
        2,
        &["like a command-line option"],
    );
    check(
        &["check", "--cases-from", text(path), "--trust"],
        2,
        &["zero.yaml`: it is not a regular file"],
    );
}

/// With the variable AMD_LOG_LEVEL_FILE, HIP writes its log to any path.
#[test]
fn confines_writes_of_untrusted_cases() {
    let cases = folder(&[("case.yaml", CASE)]);
    let outside = tempfile::tempdir().expect("a folder");
    let variable = format!("AMD_LOG_LEVEL_FILE={}", text(&outside.path().join("log")));
    let run = [
        "run",
        "--cases-from",
        text(cases.path()),
        "--rocm",
        "debian:7.2.4",
        "--env",
        "AMD_LOG_LEVEL=4",
        "--env",
        &variable,
    ];
    let written = || std::fs::read_dir(outside.path()).expect("a folder").count() > 0;
    let output = rocrepro(&run);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("Cases from elsewhere: "), "{shown}");
    if shown.contains("NOT confined") {
        assert!(shown.contains("this kernel"), "{shown}");
    } else {
        assert!(shown.contains("the worker could write only to its scratch and cache"), "{shown}");
        assert!(!written(), "it wrote to a place that is not its own: {shown}");
        assert!(shown.contains("1 passed"), "{shown}");
    }
    let trusted = "Cases from elsewhere: trusted (`--trust`), so nothing confined the worker";
    check(&[&run[..], &["--trust"]].concat(), 0, &["1 passed", trusted]);
    assert!(written(), "a trusted case writes the log");
    // An interrupted trial leaves no record, so trusted and confined trials must not be mixed in one run.
    let record = outside.path().join("run.jsonl");
    let recorded = [&run[..], &["--record", text(&record)]].concat();
    check(&[&recorded[..], &["--trust"]].concat(), 0, &["1 passed", trusted]);
    let resumed = [&recorded[..], &["--resume"]].concat();
    check(&resumed, 2, &["has other trials, options, libraries"]);
    check(&[&resumed[..], &["--trust"]].concat(), 0, &["1 passed", trusted]);
    // The same trials of the case library are not confined.
    let library = outside.path().join("library.jsonl");
    let same = ["run", "errors/names", "--rocm", "debian:7.2.4", "--record", text(&library)];
    check(&same, 0, &["passed"]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases");
    let copy = folder(&[]);
    std::fs::create_dir(copy.path().join("errors")).expect("a folder");
    let name = "errors/names.yaml";
    std::fs::copy(format!("{source}/{name}"), copy.path().join(name)).expect("a copy");
    let mixed = [&same[..], &["--resume", "--cases-from", text(copy.path())]].concat();
    check(&mixed, 2, &["has other trials, options, libraries"]);
}

/// Makes a system call fail in a program and its children. With `argument`, only calls with this first argument fail;
/// see `seccomp(2)`.
fn forbid(command: &mut Command, call: libc::c_long, argument: Option<u32>) {
    let filter = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |offset| filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let or_skip =
        |value, skipped| filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skipped, value);
    let end = |action| filter(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    // The number of the system call is at offset 0, the first argument at offset 16.
    let of_argument = argument.map(|value| [load(16), or_skip(value, 1)]);
    let mut filters = vec![load(0), or_skip(call as u32, if argument.is_some() { 3 } else { 1 })];
    filters.extend(of_argument.into_iter().flatten());
    filters.push(end(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    filters.push(end(libc::SECCOMP_RET_ALLOW));
    let install = move || {
        let program = libc::sock_fprog { len: filters.len() as u16, filter: filters.as_mut_ptr() };
        // SAFETY: prctl and seccomp change only this thread; `program` and the array that it points to live until they
        // return.
        let set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
        };
        if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: `install` makes only system calls, which are allowed between fork and exec.
    unsafe { command.pre_exec(install) };
}

/// An unconfined case could change what the command prints, including the note that its worker was not confined.
#[test]
fn refuses_untrusted_cases_where_the_worker_cannot_be_confined() {
    let cases = folder(&[("case.yaml", CASE)]);
    let calls = [
        (libc::SYS_landlock_create_ruleset, None),
        (libc::SYS_seccomp, None),
        // Files that the user's shell has open would stay open.
        (libc::SYS_close_range, None),
        // The worker would outlive the command.
        (libc::SYS_prctl, Some(libc::PR_SET_PDEATHSIG as u32)),
    ];
    for (call, argument) in calls {
        let run = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
            command.args(["run", "--cases-from", text(cases.path()), "--rocm", "debian:7.2.4"]);
            command.args(["--device", "emulated"]).args(more).stdin(Stdio::null());
            forbid(&mut command, call, argument);
            command.output().expect("it starts")
        };
        let output = run(&[]);
        let shown = output_text(&output);
        assert_eq!(output.status.code(), Some(3), "{shown}");
        assert!(shown.contains("this machine cannot confine it"), "{shown}");
        assert!(shown.contains("`--trust` runs it unconfined"), "{shown}");
        assert!(shown.contains(": 0 passed, 1 without verdict"), "{shown}");
        let output = run(&["--trust"]);
        assert!(output.status.success(), "{}", output_text(&output));
    }
}

/// The worker of an untrusted case may make no hard links, so it writes its cache by renaming files.
#[test]
fn worker_of_an_untrusted_case_caches_its_kernels() {
    let cases = folder(&[("case.yaml", WRONG)]);
    let run = ["run", "--cases-from", text(cases.path()), "--rocm", "debian:7.2.4"];
    // Workers that run at the same time compile the same kernel, and the later ones replace the file of the first.
    for (more, failed) in [(&[][..], "1 failed"), (&["--repeat", "4", "--jobs", "4"], "4 failed")] {
        let output = rocrepro(&[&run, more].concat());
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.contains(failed), "{shown}");
        assert!(!shown.contains("is not cached"), "{shown}");
    }
}

/// A case whose GPU kernel writes wrong numbers, so that `report` finds a failure.
const WRONG: &str = "\
title: The result is one more
source: [this test]
upstream: [ROCm/ROCm#6602]
expectation: {kind: documented, source: this test}
buffers: {out: {on: device, bytes: 64, fill: zero}}
kernels:
  k:
    computes: out[i] = i + 1 for i < 16
    source: |
      extern \"C\" __global__ void k(unsigned *out) { out[threadIdx.x] = threadIdx.x; }
steps:
  - launch: {kernel: k, args: [out], block: 16, items: 16, stream: s}
  - sync: s
  - check: out
faults: [kernel.drop]
";

/// The `environment` of a case that hides every GPU. The command therefore starts a second worker to look for one.
const HIDDEN: &str = "environment: {HIP_VISIBLE_DEVICES: \"99\"}\n";

/// In each process that a command starts, HIP tries to write a log outside of the temporary folder.
#[test]
fn confines_every_command_that_runs_untrusted_code() {
    let cases = folder(&[
        ("wrong/case.yaml", WRONG),
        ("hidden/case.yaml", &format!("{CASE}{HIDDEN}")),
        ("right/case.yaml", CASE),
    ]);
    let evidence = tempfile::tempdir().expect("a folder");
    let [out, minimal] = ["report", "minimal"].map(|name| evidence.path().join(name));
    let commands: [&[&str]; 6] = [
        &["report", "wrong/case", "--repeat", "2", "--budget-seconds", "20", "--out", text(&out)],
        &["minimise", "wrong/case", "--out", text(&minimal)],
        &["export", "wrong/case"],
        &["export", "wrong/case", "--verify"],
        &["run", "hidden/case"],
        &["prove", "right/case"],
    ];
    for command in commands {
        let outside = tempfile::tempdir().expect("a folder");
        let log = format!("AMD_LOG_LEVEL_FILE={}", text(&outside.path().join("log")));
        let output = rocrepro(
            &[
                command,
                &["--cases-from", text(cases.path()), "--rocm", "debian:7.2.4"],
                &["--env", "AMD_LOG_LEVEL=4", "--env", &log],
            ]
            .concat(),
        );
        let shown = output_text(&output);
        if shown.contains("NOT confined") {
            continue;
        }
        let written = std::fs::read_dir(outside.path()).expect("a folder").count();
        assert_eq!(written, 0, "`{}` started a process unconfined: {shown}", command.join(" "));
    }
}

/// A case that fails from the value 3 of its axis on.
const FROM_THREE: &str = "\
title: The result is one more
source: [this test]
expectation: {kind: documented, source: this test}
matrix: {n: [1, 2, 3, 4]}
buffers: {out: {on: device, bytes: 64, fill: zero}}
kernels:
  k:
    computes: out[i] = i + 1 for i < 16
    source: |
      extern \"C\" __global__ void k(unsigned *out) { out[threadIdx.x] = threadIdx.x + ($n < 3); }
steps:
  - launch: {kernel: k, args: [out], block: 16, items: 16, stream: s}
  - sync: s
  - check: out
faults: [kernel.drop]
";

/// All runs of one bisect must be of the same case, and either all confined or all unconfined.
#[test]
fn bisect_resumes_only_with_the_same_case_and_trust() {
    let cases = folder(&[("case.yaml", FROM_THREE)]);
    let out = cases.path().join("out");
    let file = cases.path().join("case.yaml");
    let search = |more: &[&str]| {
        let axis = ["bisect", "case", "--axis", "n=1,2,3,4", "--cases-from", text(&file)];
        let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--out", text(&out)];
        [&axis[..], &on, &["--resume"], more].concat().into_iter().map(str::to_owned).collect()
    };
    let check = |more: &[&str], code, expected: &str| {
        let words: Vec<String> = search(more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = rocrepro(&words);
        let shown = output_text(&output);
        assert_eq!(output.status.code(), Some(code), "{shown}");
        assert!(shown.contains(expected), "{expected:?}: {shown}");
    };
    check(&["--budget-runs", "3"], 4, "");
    check(&["--trust"], 2, "another bisect");
    std::fs::write(&file, FROM_THREE.replace("< 3", "< 2")).expect("a file");
    check(&[], 2, "was changed after this bisect started");
    std::fs::write(&file, FROM_THREE).expect("a file");
    check(&[], 0, "last good 2, first bad 3");
}
