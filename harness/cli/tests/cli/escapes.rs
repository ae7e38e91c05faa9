//! Compares the tables in SECURITY.md with what native code in the worker of an untrusted case can do.
//! `examples/escapes.rs` makes the attempts inside the worker.

use std::{
    collections::BTreeMap,
    env, fs,
    net::TcpListener,
    os::{
        fd::AsRawFd as _,
        unix::{fs::symlink, net::UnixListener},
    },
    path::PathBuf,
    process::{Command, Stdio},
};

use rocrepro::{CaseLibrary, CasesFrom, Job, lower_all, run_trial, select};

use crate::common::{CASE, never, ran_in_own_process, session, wait_until};

/// Returns the path of the library that makes the attempts to escape. `cargo test` builds it as an example.
fn library() -> PathBuf {
    let this = env::current_exe().expect("the path of this test");
    let profile = this.ancestors().nth(2).expect("a folder of the build");
    let library = profile.join("examples/libescapes.so");
    assert!(library.exists(), "run `cargo build -p rocrepro --examples` first");
    library
}

/// Runs the attempts in the worker of a case. Returns the result of each attempt, and the description of the worker's
/// confinement in the record.
fn attempts(trusted: bool) -> (BTreeMap<String, String>, String) {
    let cases = tempfile::tempdir().expect("a folder");
    fs::write(cases.path().join("case.yaml"), CASE).expect("a file");
    let outside = tempfile::tempdir().expect("a folder");
    for name in ["secret", "moved", "removed"] {
        fs::write(outside.path().join(name), "a secret").expect("a file");
    }
    symlink("secret", outside.path().join("link")).expect("a link");
    let _socket = UnixListener::bind(outside.path().join("socket")).expect("a socket");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let inherited = fs::File::open(outside.path().join("secret")).expect("a file");
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).expect("it is open");

    let from = CasesFrom { path: cases.path().to_owned(), trusted };
    let library_of_cases = CaseLibrary::load(Some(&from)).expect("a good case");
    let session = session(|options| {
        options.cases_from = Some(from);
        let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
        options.environment = [
            ("LD_PRELOAD", text(&library())),
            ("ESCAPES_OUTSIDE", text(outside.path())),
            ("ESCAPES_PORT", listener.local_addr().expect("a port").port().to_string()),
            ("ESCAPES_INHERITED", inherited.as_raw_fd().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let store = stacks::StackCache::from_environment().expect("a store");
        let spec = options.rocm.parse().expect("a stack");
        if let Ok(stack) = stacks::locate(&spec, &store) {
            let hip = stack.library("libamdhip64.so").expect("HIP");
            options.environment.insert("ESCAPES_STACK".to_owned(), text(&hip));
        }
    });
    let selected = select(&library_of_cases, &[]).expect("one case");
    let lowered = lower_all(&library_of_cases, &selected, []).expect("it lowers").swap_remove(0);
    let (case, trial) = (selected[0].case, &selected[0].trial);
    let job = Job { case, trial, lowered, run: 0, faults: Vec::new() };
    let record = run_trial(&session, &job, &never()).expect("it is not cancelled");
    assert!(record.outcome.kind == judge::Kind::Pass, "{record:#?}");
    let line = record.stderr_tail.lines().find_map(|line| line.strip_prefix("escapes: "));
    let line = line.unwrap_or_else(|| panic!("no attempts: {record:#?}"));
    let results = line.split(' ').filter_map(|word| word.split_once('='));
    (results.map(|(name, result)| (name.to_owned(), result.to_owned())).collect(), record.confined)
}

/// Returns the names of attempts in the last column of the tables in SECURITY.md under a heading.
fn listed(heading: &str) -> Vec<String> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../SECURITY.md"));
    let page = page.expect("the page is there");
    let section = page.split("\n### ").find(|section| section.starts_with(heading));
    let section = section.and_then(|section| section.split("\n## ").next());
    let rows = section.expect("the heading is there").lines().filter(|line| line.starts_with('|'));
    let last = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let mut names: Vec<String> =
        last.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    names.sort();
    names
}

/// Error numbers with which the Linux kernel, a limit or a closed descriptor refuses an attempt.
const REFUSED: [i32; 6] =
    [libc::EPERM, libc::EACCES, libc::ENOMEM, libc::EFBIG, libc::EBADF, libc::EXDEV];

/// Error numbers of a Linux kernel that does not support the system call of an attempt.
const ABSENT: [i32; 5] = [
    libc::ENOSYS,
    libc::EAFNOSUPPORT,
    libc::EPROTONOSUPPORT,
    libc::ESOCKTNOSUPPORT,
    libc::EOPNOTSUPP,
];

/// Names of attempts that some machines disable, or allow only for root.
const PRIVILEGED: [&str; 7] = [
    "raw-socket",
    "io-uring",
    "make-device",
    "poison-memory",
    "move-shared-memory",
    "map-vdso",
    "huge-page-file",
];

#[test]
fn confines_workers_of_untrusted_cases_as_security_md_says() {
    if ran_in_own_process("escapes::confines_workers_of_untrusted_cases_as_security_md_says") {
        return;
    }
    let (confined, said) = attempts(false);
    if said.contains("NOT confined") {
        assert!(said.contains("kernel") || said.contains("seccomp"), "{said}");
        return;
    }
    assert!(said.starts_with("the worker could write only to its scratch and cache"), "{said}");
    let with = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        confined.iter().filter(|(_, r)| wanted(r)).map(|(name, _)| name.clone()).collect()
    };
    let refused = |result: &str| result.parse().is_ok_and(|error| REFUSED.contains(&error));
    assert_eq!(with(&refused), listed("What is refused"), "{confined:?}");
    assert_eq!(with(&|result| result == "ok"), listed("What is possible"), "{confined:?}");
    assert_eq!(with(&|result| result != "ok" && !refused(result)), [""; 0], "{confined:?}");

    // Each attempt must succeed without confinement. Otherwise its failure under confinement would prove nothing.
    let (free, said) = attempts(true);
    assert_eq!(said, "trusted (`--trust`), so nothing confined the worker");
    let absent = |result: &str| result.parse().is_ok_and(|error| ABSENT.contains(&error));
    let explained =
        |name: &str, result: &str| result == "ok" || absent(result) || PRIVILEGED.contains(&name);
    let bad: Vec<_> = free.iter().filter(|(name, result)| !explained(name, result)).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

fn processes_with(variable: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").expect("proc").flatten();
    let pids = processes.filter_map(|one| one.file_name().to_str()?.parse().ok());
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    pids.filter(has).collect()
}

#[test]
fn ends_workers_of_untrusted_cases_with_a_killed_command() {
    // Linux makes the nearest subreaper the parent of orphans. The test runs in a process of its own, because sessions
    // of other tests in this process kill all their orphans.
    if ran_in_own_process("escapes::ends_workers_of_untrusted_cases_with_a_killed_command") {
        return;
    }
    let this = Some(rustix::process::getpid());
    rustix::process::set_child_subreaper(this).expect("the kernel has subreapers");
    let cases = tempfile::tempdir().expect("a folder");
    fs::write(cases.path().join("case.yaml"), CASE).expect("a file");
    let variable = format!("ESCAPES_OUTLIVE={}", cases.path().display());
    let preload = format!("LD_PRELOAD={}", library().display());
    let log = cases.path().join("log");
    let output = fs::File::create(&log).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["run", "--rocm", "debian:7.2.4", "--device", "emulated", "--timeout", "600", "-j1"])
        .args(["--cases-from".as_ref(), cases.path().as_os_str()])
        .args(["--env", &preload, "--env", &variable])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .expect("the command starts");
    let worker = || processes_with(&variable);
    // The library blocks nearly all signals when it begins to stop the other threads.
    let waits = |pid: &i32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let masks = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        masks.filter(|status| status.contains("SigBlk:\tfffffff")).count() > 0
    };
    wait_until("the worker did not start", || worker().iter().any(waits));
    command.kill().expect("it runs");
    command.wait().expect("it was killed");
    wait_until("the worker outlives the command", || worker().is_empty());
}
