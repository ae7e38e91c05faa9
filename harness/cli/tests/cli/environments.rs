//! Tests Python environments. The tests make the wheels themselves, so that no network is needed.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::exec::namespaces;

fn rocrepro(cache: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    // pip finds only the wheels in this folder.
    cache.map(|cache| {
        command.env("XDG_CACHE_HOME", cache).env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", cache)
    });
    command.args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

#[track_caller]
fn check(cache: Option<&Path>, arguments: &[&str], code: i32, said: &str) -> String {
    let output = rocrepro(cache, arguments);
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let shown = format!("{arguments:?}: {}\n{stdout}\n--- stderr\n{stderr}", output.status);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    assert!(stdout.contains(said) || stderr.contains(said), "no {said:?}: {shown}");
    stdout.trim_end().to_owned()
}

pub(crate) fn python_makes_environments() -> bool {
    let mut command = Command::new("python3");
    command.args(["-c", "import venv, ensurepip"]);
    command.output().is_ok_and(|output| output.status.success())
}

/// Makes a wheel of the Python package `tiny`, whose module defines the constant `ANSWER`.
fn wheel(folder: &Path, version: &str, answer: u32) -> String {
    wheel_of("tiny", folder, version, answer)
}

/// Makes a wheel of the Python package `package` with the module `tiny`, which defines the constant `ANSWER`.
fn wheel_of(package: &str, folder: &Path, version: &str, answer: u32) -> String {
    let (name, file) =
        (format!("{package}-{version}.dist-info"), format!("{package}-{version}-py3-none-any.whl"));
    let info = folder.join(&name);
    fs::create_dir(&info).unwrap();
    fs::write(folder.join("tiny.py"), format!("ANSWER = {answer}\n")).unwrap();
    let about = format!("Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n");
    fs::write(info.join("METADATA"), about).unwrap();
    fs::write(info.join("WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        .unwrap();
    fs::write(info.join("RECORD"), "").unwrap();
    let mut zip = Command::new("python3");
    zip.args(["-m", "zipfile", "-c", &file, "tiny.py", &name]);
    assert!(zip.current_dir(folder).status().unwrap().success());
    folder.join(file).to_str().unwrap().to_owned()
}

#[test]
fn creates_uses_and_removes_an_environment() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Some(folder.path());
    check(cache, &["env", "create", "../x", "tiny"], 2, "not a valid name for an environment");
    check(cache, &["env", "path", "a"], 2, "unknown environment `a`; none exists");
    check(cache, &["exec", "--in", "a", "true"], 2, "unknown environment `a`");
    if !python_makes_environments() {
        let refused = rocrepro(cache, &["env", "create", "a", "tiny==1.0"]);
        assert!(matches!(refused.status.code(), Some(2 | 3)), "{refused:?}");
        return;
    }
    let wheel = wheel(folder.path(), "1.0", 42);
    let venv = check(cache, &["env", "create", "a", &wheel], 0, "/environments/a/venv");
    assert_eq!(check(cache, &["env", "path", "a"], 0, ""), venv);
    check(cache, &["env", "create", "a", "tiny"], 2, "already exists");
    let lock = fs::read_to_string(Path::new(&venv).with_file_name("requirements.txt")).unwrap();
    assert!(lock.starts_with("tiny @ file://") && lock.contains(" --hash=sha256:"), "{lock}");
    // A failed command leaves no files, so the corrected command works.
    check(cache, &["env", "create", "b", "/nonexistent.whl"], 3, "error:");
    check(cache, &["exec", "--in", "b", "true"], 2, "unknown environment `b`: `a`");
    check(cache, &["env", "create", "b", &wheel], 0, "/environments/b/venv");
    // An unfinished environment is not used, but created again.
    let mark = Path::new(&venv).with_file_name("../b/rocrepro-environment.json");
    let unfinished =
        fs::read_to_string(&mark).unwrap().replace("\"whole\": true", "\"whole\": false");
    fs::write(&mark, unfinished).unwrap();
    check(cache, &["exec", "--in", "b", "true"], 2, "is incomplete");
    let listed = check(cache, &["env", "list"], 0, "(not finished)");
    assert!(listed.starts_with("a  "), "{listed}");
    let being_made = fs::File::open(mark.parent().unwrap()).unwrap();
    rustix::fs::flock(&being_made, rustix::fs::FlockOperation::LockExclusive).unwrap();
    check(
        cache,
        &["env", "create", "b", &wheel],
        3,
        "another process is making the environment `b`",
    );
    drop(being_made);
    check(cache, &["env", "create", "b", &wheel], 0, "is incomplete; creating it again");

    // Here the cache of stacks that all tests share is used.
    let stack = check(None, &["rocm", "path", "debian:7.2.4"], 0, "/");
    let on = ["exec", "--rocm", &stack, "--device", "emulated", "--in", "a", "--"];
    let script = "import sys, tiny; print(tiny.ANSWER, sys.prefix)";
    check(cache, &[&on[..], &["python3", "-c", script]].concat(), 0, &format!("42 {venv}"));
    check(cache, &["env", "remove", "a"], 0, "");
    check(cache, &["env", "remove", "b"], 0, "");
    check(cache, &["env", "list"], 0, "");
    assert!(!Path::new(&venv).exists());
}

/// The index has the layout of <https://peps.python.org/pep-0503/>, which PyTorch's and AMD's indexes have, too.
#[test]
fn installs_packages_from_a_named_index() {
    if !python_makes_environments() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let wheels = folder.path().join("wheels");
    let pages = folder.path().join("simple/tiny");
    fs::create_dir_all(&wheels).unwrap();
    fs::create_dir_all(&pages).unwrap();
    let link = |version: &str, answer| {
        let path = wheel(&wheels, version, answer);
        let name = path.rsplit('/').next().unwrap().to_owned();
        format!("<a href=\"file://{path}\">{name}</a><br>\n")
    };
    let links = format!("<html><body>\n{}{}</body></html>", link("1.0", 1), link("2.0.dev3", 2));
    fs::write(pages.join("index.html"), links).unwrap();
    let constraints = folder.path().join("constraints.txt");
    fs::write(&constraints, "tiny==1.0\n").unwrap();
    let index = format!("file://{}", folder.path().join("simple").display());
    let create = |name: &str, more: &[&str], installed: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
        command.env("XDG_CACHE_HOME", folder.path());
        for name in ["PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"] {
            command.env_remove(name);
        }
        command.args(["stack", "env", "create", name]).args(more).arg("tiny");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{more:?}: {shown}");
        let venv = String::from_utf8(output.stdout).unwrap();
        let lock = Path::new(venv.trim_end()).with_file_name("requirements.txt");
        let lock = fs::read_to_string(lock).unwrap();
        assert!(lock.starts_with(&format!("tiny=={installed} ")), "{more:?}: {lock}");
    };
    let file = constraints.to_str().unwrap();
    let links = wheels.to_str().unwrap();
    create("stable", &["--index-url", &index], "1.0");
    create("development", &["--index-url", &index, "--pre"], "2.0.dev3");
    create("constrained", &["--index-url", &index, "--pre", "--constraint", file], "1.0");
    let empty = format!("file://{}", folder.path().display());
    create("links", &["--index-url", &empty, "--find-links", links], "1.0");
    create("further", &["--index-url", &empty, "--extra-index-url", &index], "1.0");
}

/// The size of an installed wheel is not known before pip unpacks it, so a resource limit (RLIMIT_FSIZE) bounds each
/// file.
#[test]
fn limits_the_size_of_files_that_pip_writes() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    let script =
        "#!/bin/sh\ngrep 'Max file size' /proc/self/limits > \"$XDG_CACHE_HOME/limits\"\nexit 1\n";
    fs::write(&python, script).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let python = python.to_str().unwrap();
    check(Some(folder.path()), &["env", "create", "x", "--python", python, "tiny"], 3, "ended: ");
    let limits = fs::read_to_string(folder.path().join("limits")).unwrap();
    let limits: Vec<&str> = limits.split_whitespace().skip(3).take(2).collect();
    let is_bounded = |limit: &str| limit.parse::<u64>().is_ok_and(|limit| limit <= 16 << 30);
    assert!(limits.len() == 2 && limits.iter().all(|limit| is_bounded(limit)), "{limits:?}");
}

/// Triton compiles C code at run time. Without a compiler, each trial would fail for a reason that is not a bug of
/// ROCm.
#[test]
fn skips_triton_programs_without_a_compiler() {
    if !python_makes_environments() || !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    wheel_of("triton", folder.path(), "3.9.0", 1);
    let cache = Some(folder.path());
    check(cache, &["env", "create", "t", "triton==3.9.0"], 0, "/environments/t/venv");
    let stack = check(None, &["rocm", "path", "debian:7.2.4"], 0, "/");
    let case = folder.path().join("kernel.yaml");
    let text = "title: A kernel of Triton\nsource: [a test]\nprogram:\n  python: |\n    import ctypes, rocrepro\n    \
                rocrepro.must(ctypes.CDLL('libamdhip64.so').hipInit(0))\n    rocrepro.equal('one', 1, 1)\n    raise RuntimeError('Failed to find C compiler')\n  \
                packages: [triton==3.9.0]\nfaults: [copy.zero]\n";
    fs::write(&case, text).unwrap();
    let bare = folder.path().join("bare");
    fs::create_dir(&bare).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.env("XDG_CACHE_HOME", folder.path()).env("PATH", &bare).stdin(Stdio::null());
    command.args(["run", "--rocm", &stack, "--device", "emulated", "--trust", "--cases-from"]);
    let output = command.arg(&case).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(said.contains("PATH has no `gcc` and no `clang`; install a C compiler"), "{said}");
}

/// A case that fails unless the package's constant is 42. The program initialises HIP, because a program that never
/// uses the device proves nothing.
const ANSWERS: &str = r#"title: The answer of a package is right
source: [a test]
program:
  python: |
    import ctypes, rocrepro, tiny
    hip = ctypes.CDLL("libamdhip64.so")
    rocrepro.equal("init", hip.hipInit(0), 0)
    rocrepro.equal("answer", tiny.ANSWER, 42)
    rocrepro.done()
  packages: [tiny==1.0]
faults: [copy.zero]
"#;

#[test]
fn bisects_the_versions_of_a_package() {
    if !python_makes_environments() || !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (at, cache) = (folder.path(), Some(folder.path()));
    // Version 1.2 is not a valid archive, so it cannot be installed.
    fs::write(at.join("tiny-1.2-py3-none-any.whl"), "torn").unwrap();
    for (version, answer) in [("1.0", 42), ("1.10", 41)] {
        wheel(at, version, answer);
    }
    fs::write(at.join("answers.yaml"), ANSWERS).unwrap();
    let stack = check(None, &["rocm", "path", "debian:7.2.4"], 0, "/");
    let case = at.join("answers.yaml").display().to_string();
    let on = ["--rocm", &stack, "--device", "emulated", "--gfx", "gfx1151"];
    let bisect = |what: &[&str], out: &str, code, said: &str| {
        let out = at.join(out).display().to_string();
        let along = ["bisect", "--source", "pypi:tiny", "--good", "1.0", "--bad", "last"];
        check(cache, &[&along[..], &on, &["--out", &out], what].concat(), code, said)
    };
    let of_case = ["answers", "--cases-from", &case, "--trust"];
    // Versions are sorted as versions, not as text. A version that cannot be installed is excluded.
    let listed = bisect(&[&of_case[..], &["--list"]].concat(), "a", 0, "");
    let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let listed: Vec<_> = listed.lines().map(first).filter(|word| word.starts_with("1.")).collect();
    assert_eq!(listed, ["1.0", "1.2", "1.10"]);
    let printed = bisect(
        &of_case,
        "a",
        0,
        "last good 1.0, first bad 1.10; the point between them cannot be tested",
    );
    assert!(
        printed.contains("tiny 1.0 .. 1.10")
            && printed.contains("1.2: cannot create the environment of"),
        "{printed}"
    );
    assert!(printed.contains("--axis=pypi:tiny=1.0,1.10"), "{printed}");
    let records = fs::read_to_string(at.join("a/bisect-records.jsonl")).unwrap();
    assert!(records.contains("--in tiny-1.10-") && records.contains("tiny==1.10"), "{records}");

    // A search with a command line uses the existing Python environments.
    let script = "import ctypes, tiny; assert ctypes.CDLL('libamdhip64.so').hipInit(0) == 0; assert tiny.ANSWER == 42";
    let printed = bisect(&["--", "python3", "-c", script], "b", 0, "AssertionError");
    assert!(printed.contains("first bad   1.10"), "{printed}");
    let made = check(cache, &["env", "list"], 0, "");
    assert_eq!(made.lines().filter(|line| line.contains("tiny==1.10")).count(), 1, "{made}");

    // A matrix has one column for each Python environment.
    let named = |what: &str| made.lines().find(|line| line.contains(what)).map(first).unwrap();
    let (right, wrong) = (named("tiny==1.0"), named("tiny==1.10"));
    let (both, out) = (format!("{right},{wrong}"), at.join("matrix").display().to_string());
    let matrix = ["matrix", "--cases-from", &case, "--trust", "--in", &both, "--out", &out];
    let output = rocrepro(cache, &[&matrix[..], &on].concat());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    for (name, result) in [(right, "1 passed"), (wrong, "0 passed, 1 failed")] {
        let column = format!("gfx1151 in {name}: 1 trial of 1 case: {result}");
        assert!(printed.contains(&column), "{column}: {printed}");
    }

    // `run --in` uses this Python environment, whatever version the case requires.
    let name = made.lines().find(|line| line.contains("tiny==1.10")).map(first).unwrap();
    let run = ["run", "--cases-from", &case, "--trust", "--in", &name];
    check(cache, &[&run[..], &on].concat(), 1, "answer");
    let run = ["run", "--cases-from", &case, "--trust", "--in", "no-such"];
    check(cache, &[&run[..], &on].concat(), 2, "unknown environment `no-such`");
    for (words, why) in [
        (&["--packages", "numpy", "--axis", "env:A=1,2", "--", "true"][..], "`--packages` needs"),
        (
            &["--source", "pypi:tiny", "--good", "1", "--bad", "1.3", "--", "true"],
            "`--good 1`: pip finds no such",
        ),
        (
            &["--source", "pypi:no-such", "--good", "1", "--bad", "2", "--", "true"],
            "pip finds no versions of `no-such`",
        ),
        (
            &[
                "copies/small-sizes[bytes=2,host=pageable,api=memcpy]",
                "--axis",
                "pypi:tiny=1.0,1.10",
            ],
            "has no program whose `packages`",
        ),
        (&["--axis", "pypi:tiny=1.0,1.3", "--program", "/bin/true"], "after `--`"),
    ] {
        let output = rocrepro(cache, &[&["bisect"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() >= Some(2) && said.contains(why), "{words:?}: {said}");
    }
}

/// Returns the files below a folder, with the time of each file's last change.
fn files_below(folder: &Path) -> Vec<(String, std::time::SystemTime)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let about = entry.path().symlink_metadata().unwrap();
        match about.is_dir() {
            true => files.extend(files_below(&entry.path())),
            false => files.push((entry.path().display().to_string(), about.modified().unwrap())),
        }
    }
    files.sort();
    files
}

#[test]
fn runs_programs_in_a_folder_of_the_user() {
    if !python_makes_environments() || !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (at, cache) = (folder.path(), Some(folder.path()));
    let venv = at.join("own");
    let mut made = Command::new("python3");
    assert!(made.args(["-m", "venv", "--without-pip"]).arg(&venv).status().unwrap().success());
    let package = fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path();
    let package = package.join("site-packages");
    fs::write(package.join("tiny.py"), "ANSWER = 42\n").unwrap();
    let info = package.join("tiny-1.10.dist-info");
    fs::create_dir(&info).unwrap();
    fs::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: tiny\nVersion: 1.10\n").unwrap();
    fs::write(at.join("answers.yaml"), ANSWERS).unwrap();
    let before = files_below(&venv);
    let case = at.join("answers.yaml").display().to_string();
    let stack = check(None, &["rocm", "path", "debian:7.2.4"], 0, "/");
    let on = ["--rocm", &stack, "--device", "emulated", "--gfx", "gfx1151"];
    let (own, bare) = (venv.display().to_string(), at.display().to_string());
    let record = at.join("record.jsonl").display().to_string();
    let run = ["run", "--cases-from", &case, "--trust", "--record", &record, "--in"];
    let with = |value: &str, code, said: &str| {
        check(cache, &[&run[..], &[value], &on].concat(), code, said)
    };
    with(&own, 0, "1 passed");
    let recorded = fs::read_to_string(&record).unwrap();
    assert!(recorded.contains("\"tiny==1.10\"") && recorded.contains(&own), "{recorded}");
    let script = "import sys, tiny; print(tiny.ANSWER, sys.prefix)";
    let exec = [&["exec", "--in", &own], &on[..], &["--", "python3", "-c", script]].concat();
    check(cache, &exec, 0, &format!("42 {own}"));
    let out = at.join("matrix").display().to_string();
    let matrix = ["matrix", "--cases-from", &case, "--trust", "--out", &out, "--in", &own];
    check(cache, &[&matrix[..], &on].concat(), 0, "1 passed");
    // The tool writes no bytecode and no other file into the user's environment.
    assert_eq!(files_below(&venv), before);

    fs::remove_dir_all(&info).unwrap();
    with(&own, 4, "tiny is not installed in");
    let refused = "is not a virtual environment: it has no program bin/python";
    with(&bare, 2, refused);
    for (command, rest) in [
        ("exec", &["true"][..]),
        ("matrix", &["--out", &out]),
        ("prove", &["programs/ctypes-copies"]),
        ("bisect", &["programs/ctypes-copies", "--good", "first", "--bad", "last"]),
    ] {
        check(cache, &[&[command, "--in", &bare], rest].concat(), 2, refused);
    }
    with("./no-such", 2, "hint: name the folder of an environment");
}
