//! Tests workers that are started by launchers: the environment, limits and device that they need, and the verdict if a
//! launcher changes any of them.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
};

use judge::VerdictKind;
use report::Record;

use crate::common::write_script;

/// Id of the fastest trial that uses the device.
const TRIAL: &str = "copies/small-sizes[bytes=2,host=pinned,api=memcpy]";

fn rocrepro(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "ROCREPRO_DEVICE_KIND", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

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

/// Options that set properties of the device and the trial.
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
fn passes_settings_to_workers_below_any_launcher() {
    let plain = record(SETTINGS);
    assert_eq!(plain.verdict.kind, VerdictKind::Pass, "{plain:?}");
    assert_eq!(plain.limits["stack"], "16M");
    let launchers = [
        "env -i",
        "sh -c 'cd /; ulimit -S -s 1024; ulimit -S -n 64; exec \"$@\"' sh",
        "setarch -R env -i",
        // A launcher that waits until its child ends, as srun does.
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
fn records_variables_that_a_launcher_sets() {
    let launcher = ["--launcher", "env HSA_A_LAUNCHER=yes"];
    let launched = record(&launcher);
    assert_eq!(launched.verdict.kind, VerdictKind::Pass, "{launched:?}");
    assert_eq!(launched.environment["HSA_A_LAUNCHER"], "yes");
    // Variables of the user's shell reach the launcher, but not the trial.
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

/// The launcher changes or removes each variable of the worker in turn.
#[test]
fn gives_no_verdict_if_a_launcher_changes_a_variable() {
    let plain = record(SETTINGS);
    assert!(plain.environment.len() >= 6, "{:?}", plain.environment);
    for name in plain.environment.keys() {
        let encoded = format!("{name}%3d*)");
        for change in
            [format!("{encoded} continue;;"), format!("{encoded} word=\"${{word}}%20\";;")]
        {
            // The script passes its arguments on. It may change the argument that encodes the variable.
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

/// `ssh` joins its arguments with spaces, and a shell on the remote machine splits them again.
#[test]
fn quotes_arguments_for_launchers_that_use_a_shell() {
    let seen = record(&["--launcher", "sh -c 'eval \"exec $*\"' sh", "--env", "A=b  c; $d 'e'"]);
    assert_eq!(seen.verdict.kind, VerdictKind::Pass, "{seen:?}");
    assert_eq!(seen.environment.get("A").map(String::as_str), Some("b  c; $d 'e'"));
}

#[test]
fn gives_no_verdict_if_a_launcher_does_not_start_the_worker() {
    for launcher in ["false", "true", "cat", "/nonexistent/launcher"] {
        let seen = record(&["--launcher", launcher, "--env", "A=b c", "--quiet-timeout", "5"]);
        assert_eq!(seen.verdict.kind, VerdictKind::NoVerdict, "{launcher}: {seen:?}");
    }
    let output =
        rocrepro(&["run", TRIAL, "--launcher", "sh -c 'open"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("`--launcher` is not a valid shell"), "{stderr}");
}

/// The exit status, signal and output of a launcher must not count as those of the worker.
#[test]
fn separates_a_launchers_own_behaviour_from_the_workers() {
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
    // A crash of the worker is detected even with a launcher.
    let crashing =
        ["--fault", "call.crash,call=hipMemcpy", "--launcher", "sh -c '\"$@\"; exit 0' sh"];
    let seen = record(&crashing);
    assert_eq!(seen.outcome.signature, "crash:hipMemcpy", "{seen:?}");
}

#[test]
fn rejects_impossible_limits() {
    let output =
        rocrepro(&["run", TRIAL, "--limit", "stak=1", "--limit", "stack=x", "--limit", "core"]);
    let output = { output }.output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    for wanted in [
        "`stak`; available are stack, core, files, file-size",
        "`stack=x`: write",
        "`--limit core`",
    ] {
        assert!(stderr.contains(wanted), "{stderr}");
    }
    for (option, printed) in [
        ("-s 1024", "stack=1M, not 8M; use `--limit stack=1M` or less"),
        ("-v 8388608", "memory=8G, not unlimited"),
        ("-d 8388608", "data=8G, not unlimited"),
        ("-f 0", "file-size=0, not unlimited"),
    ] {
        let seen = record(&["--launcher", &format!("sh -c 'ulimit {option}; exec \"$@\"' sh")]);
        assert_eq!(seen.verdict.kind, VerdictKind::NoVerdict, "{seen:?}");
        let said = seen.outcome.details.join("\n");
        assert!(said.contains(&format!("this machine allows at most {printed}")), "{seen:?}");
    }
    let asked = record(&["--limit", "memory=64G"]);
    assert_eq!(asked.verdict.kind, VerdictKind::Pass, "{asked:?}");
    assert_eq!((asked.limits["memory"].as_str(), asked.limits.len()), ("64G", 7));
}

/// The limits are read from /proc/self/limits, as the Linux kernel applies them.
#[test]
fn sets_limits_in_the_kernel() {
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

/// A stack without a C library of its own needs LD_LIBRARY_PATH, which launchers may remove.
#[test]
fn passes_library_paths_through_launchers() {
    let stack = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = stack.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        path
    };
    write("lib/libamdhip64.so.7", "");
    // The worker prints its initial environment, without the variables that the shell adds.
    let worker = stack.path().join("worker");
    write_script(&worker, "#!/bin/sh\ntr '\\0' '\\n' < /proc/$$/environ >&2\n");
    let root = stack.path().canonicalize().expect("a folder");
    let (root, worker) = (root.to_str().expect("plain"), worker.to_str().expect("plain"));
    let mut printed = BTreeMap::new();
    for launcher in [&[][..], &["--launcher", "env -i"]] {
        let options = ["run", TRIAL, "--rocm", root, "--device", "gpu", "--worker", worker];
        let output = rocrepro(&[&options, launcher].concat()).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("LD_LIBRARY_PATH={root}/lib")), "{launcher:?}: {text}");
        assert!(text.contains(&format!("ROCM_PATH={root}")), "{launcher:?}: {text}");
        let variables = text.lines().map(str::trim).filter(|line| line.contains("_PATH="));
        printed.insert(launcher.len(), variables.map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(printed[&0], printed[&2]);
}
