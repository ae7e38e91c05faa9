//! What a worker must find, whatever starts it, and what is said where it does not.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
};

use judge::VerdictKind;
use report::Record;

use crate::common::write_script;

/// The fastest trial that goes all the way.
const TRIAL: &str = "copies/small-sizes[bytes=2,host=pinned,api=memcpy]";

fn rocrepro(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "ROCREPRO_DEVICE_KIND", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

/// The record of the one trial, run with these options.
#[track_caller]
fn record(options: &[&str]) -> Record {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("records");
    let mut command = rocrepro(&["run", TRIAL, "--device", "emulated", "--record"]);
    let output = command.arg(&file).args(options).output().expect("it starts");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let records = report::records(&text).unwrap_or_else(|e| panic!("{options:?}: {e}: {output:?}"));
    let [record] = &records[..] else {
        panic!("{options:?}: {} records: {output:?}", records.len())
    };
    record.clone()
}

/// Every setting of a device and a trial that an option can make.
const SETTINGS: &[&str] = &[
    "--env",
    "A_VARIABLE=with spaces, \"quotes\" and $signs",
    "--schedule",
    "seeded=3",
    "--sanitize",
    "--device-option",
    "threads=2",
    "--device-option",
    "devices=2",
    "--device-option",
    "memory=1G",
    "--limit",
    "stack=16M",
];

#[test]
fn what_a_launcher_drops_reaches_the_worker() {
    let plain = record(SETTINGS);
    assert_eq!(plain.verdict.kind, VerdictKind::Pass, "{plain:?}");
    assert_eq!(plain.limits["stack"], "16M");
    let launchers = [
        "env -i",
        "sh -c 'cd /; ulimit -S -s 1024; ulimit -S -n 64; exec \"$@\"' sh",
        "setarch -R env -i",
        // A launcher that waits for its child, as srun does.
        "sh -c '\"$@\"; exit $?' sh",
    ];
    for launcher in launchers {
        let launched = record(&[SETTINGS, &["--launcher", launcher]].concat());
        assert_eq!(launched.verdict.kind, VerdictKind::Pass, "{launcher}: {launched:?}");
        assert_eq!(launched.device, plain.device, "{launcher}");
        assert_eq!(launched.environment, plain.environment, "{launcher}");
        assert_eq!(launched.limits, plain.limits, "{launcher}");
    }
}

#[test]
fn what_a_launcher_sets_itself_is_recorded() {
    let launcher = ["--launcher", "env HSA_A_LAUNCHER=yes"];
    let launched = record(&launcher);
    assert_eq!(launched.verdict.kind, VerdictKind::Pass, "{launched:?}");
    assert_eq!(launched.environment["HSA_A_LAUNCHER"], "yes");
    // What the user's shell has is for the launcher and not for the trial.
    let mut command = rocrepro(&["run", TRIAL, "--device", "emulated", "--record", "/dev/stdout"]);
    let script = "test \"$HSA_OF_A_SHELL\" = yes && exec \"$@\"";
    command.env("HSA_OF_A_SHELL", "yes").args(["--launcher", &format!("sh -c '{script}' sh")]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let record = text.lines().find_map(|line| report::parse(line).ok()).expect("a record");
    assert_eq!(record.verdict.kind, VerdictKind::Pass, "{record:?}");
    assert!(!record.environment.contains_key("HSA_OF_A_SHELL"));
}

/// Every variable that the worker was told, taken away and changed by a launcher.
#[test]
fn what_a_launcher_changes_is_no_verdict() {
    let plain = record(SETTINGS);
    assert!(plain.environment.len() >= 6, "{:?}", plain.environment);
    for name in plain.environment.keys() {
        let encoded = format!("{name}%3d*)");
        for change in
            [format!("{encoded} continue;;"), format!("{encoded} word=\"${{word}}%20\";;")]
        {
            // It goes through its words once, and puts those that it keeps behind the others.
            let script = format!(
                "for word in \"$@\"; do shift; case \"$word\" in {change} esac; set -- \"$@\" \"$word\"; done; exec \"$@\""
            );
            let launcher = format!("sh -c {} sh", quoted(&script));
            let changed = record(&[SETTINGS, &["--launcher", &launcher]].concat());
            assert_eq!(changed.outcome.signature, "no-verdict:environment", "{name}: {changed:?}");
            assert!(changed.outcome.summary.contains(name.as_str()), "{changed:?}");
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// `ssh` puts the words together with spaces, and a shell takes them apart.
#[test]
fn words_come_through_a_shell() {
    let seen = record(&["--launcher", "sh -c 'eval \"exec $*\"' sh", "--env", "A=b  c; $d 'e'"]);
    assert_eq!(seen.verdict.kind, VerdictKind::Pass, "{seen:?}");
    assert_eq!(seen.environment.get("A").map(String::as_str), Some("b  c; $d 'e'"));
}

#[test]
fn a_launcher_that_does_not_start_the_worker_is_no_verdict() {
    for launcher in ["false", "true", "cat", "/nonexistent/launcher"] {
        let seen = record(&["--launcher", launcher, "--env", "A=b c", "--quiet-timeout", "5"]);
        assert_eq!(seen.verdict.kind, VerdictKind::NoVerdict, "{launcher}: {seen:?}");
    }
    let output =
        rocrepro(&["run", TRIAL, "--launcher", "sh -c 'open"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("`--launcher` is no command of a shell"), "{stderr}");
}

/// The exit status of a launcher, and what it leaves, are not the worker's.
#[test]
fn what_a_launcher_does_itself_is_no_failure() {
    let check = |launcher: &str, signature: &str| {
        let seen = record(&["--launcher", launcher]);
        assert_eq!(seen.outcome.signature, signature, "{launcher}: {seen:?}");
        assert!(!seen.environment.contains_key("LD_PRELOAD"));
    };
    check("sh -c '\"$@\"; exit 3' sh", "pass");
    check("sh -c '\"$@\"; kill -SEGV $$' sh", "pass");
    check("env LD_PRELOAD=/nonexistent/library.so", "pass");
    check("sh -c 'echo a greeting; exec \"$@\"' sh", "pass");
    check("sh -c '\"$@\"; echo goodbye' sh", "pass");
    check("sh -c '\"$@\" | head -n 12' sh", "no-verdict:lost");
    check("sh -c 'sleep 60 >/dev/null 2>&1 & exec \"$@\"' sh", "no-verdict:launcher");
    // What the worker does shows through a launcher.
    let crashing =
        ["--fault", "call.crash,call=hipMemcpy", "--launcher", "sh -c '\"$@\"; exit 0' sh"];
    let seen = record(&crashing);
    assert_eq!(seen.outcome.signature, "crash:hipMemcpy", "{seen:?}");
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let output =
        rocrepro(&["run", TRIAL, "--limit", "stak=1", "--limit", "stack=x", "--limit", "core"]);
    let output = { output }.output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    for wanted in
        ["`stak`; there are stack, core, files, file-size", "`stack=x`: write", "`--limit core`"]
    {
        assert!(stderr.contains(wanted), "{stderr}");
    }
    for (option, told) in [
        ("-s 1024", "stack=1M, not 8M; use `--limit stack=1M` or less"),
        ("-v 8388608", "memory=8G, not unlimited"),
        ("-d 8388608", "data=8G, not unlimited"),
        ("-f 0", "file-size=0, not unlimited"),
    ] {
        let seen = record(&["--launcher", &format!("sh -c 'ulimit {option}; exec \"$@\"' sh")]);
        assert_eq!(seen.verdict.kind, VerdictKind::NoVerdict, "{seen:?}");
        let said = seen.outcome.details.join("\n");
        assert!(said.contains(&format!("this machine allows at most {told}")), "{seen:?}");
    }
    let asked = record(&["--limit", "memory=64G"]);
    assert_eq!(asked.verdict.kind, VerdictKind::Pass, "{asked:?}");
    assert_eq!((asked.limits["memory"].as_str(), asked.limits.len()), ("64G", 7));
}

/// The kernel's own words are the second hand.
#[test]
fn limits_are_set_as_they_are_named() {
    let limits = [
        ("stack=1M", "Max stack size", "1048576"),
        ("core=0", "Max core file size", "0"),
        ("files=77", "Max open files", "77"),
        ("file-size=2M", "Max file size", "2097152"),
        ("memory=1G", "Max address space", "1073741824"),
        ("data=512M", "Max data size", "536870912"),
        ("processes=99", "Max processes", "99"),
    ];
    let words = limits.iter().flat_map(|(limit, ..)| ["--limit", limit]);
    let words: Vec<&str> = ["__start"].into_iter().chain(words).collect();
    let words = [&words[..], &["--", "/bin/cat", "/proc/self/limits"]].concat();
    let output = { rocrepro(&words) }.output().expect("it starts");
    let shown = String::from_utf8_lossy(&output.stdout);
    for (limit, name, number) in limits {
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let soft = line[name.len().min(line.len())..].split_whitespace().next();
        assert_eq!(
            soft,
            Some(number),
            "{limit}: {shown}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A stack without a libc of its own is found through LD_LIBRARY_PATH, which launchers drop.
#[test]
fn a_prefix_reaches_the_worker_through_a_launcher() {
    let stack = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = stack.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        path
    };
    write("lib/libamdhip64.so.7", "");
    // Nothing but what it was told: not even a shell's own variables.
    let worker = stack.path().join("worker");
    write_script(&worker, "#!/bin/sh\ntr '\\0' '\\n' < /proc/$$/environ >&2\n");
    let root = stack.path().canonicalize().expect("a folder");
    let (root, worker) = (root.to_str().expect("plain"), worker.to_str().expect("plain"));
    let mut told = BTreeMap::new();
    for launcher in [&[][..], &["--launcher", "env -i"]] {
        let options = ["run", TRIAL, "--rocm", root, "--device", "gpu", "--worker", worker];
        let output = rocrepro(&[&options, launcher].concat()).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("LD_LIBRARY_PATH={root}/lib")), "{launcher:?}: {text}");
        assert!(text.contains(&format!("ROCM_PATH={root}")), "{launcher:?}: {text}");
        let variables = text.lines().map(str::trim).filter(|line| line.contains("_PATH="));
        told.insert(launcher.len(), variables.map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(told[&0], told[&2]);
}
