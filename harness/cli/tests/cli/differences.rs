//! Checks the results of `minimise` and `report` independently, on real differences between releases and on injected
//! bugs. The test builds the program in the issue with the program's own build line. It runs the program on a release
//! where it must fail and on one where it must pass, leaves out its lines one by one, and compares the sentences of the
//! issue with the results.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Largest number of lines that a program may have.
const LINES: usize = 60;
/// Largest number of lines that a program with a GPU kernel may have. Source, compilation and launch of the kernel take
/// about 20 lines.
#[cfg(feature = "long-tests")]
const WITH_KERNEL: usize = 75;

/// A trial, a release on which it fails, and one on which it passes.
struct Difference {
    lines: usize,
    trial: &'static str,
    fails: (&'static str, &'static str),
    /// The release on which the trial passes; `None` if it passes on no release.
    passes: Option<(&'static str, &'static str)>,
    fault: Option<&'static str>,
    signature: &'static str,
}

const fn real(
    trial: &'static str,
    fails: (&'static str, &'static str),
    passes: Option<(&'static str, &'static str)>,
    signature: &'static str,
) -> Difference {
    Difference { lines: LINES, trial, fails, passes, fault: None, signature }
}

/// Returns a difference that is caused by an injected bug, and whose program contains a GPU kernel.
#[cfg(feature = "long-tests")]
const fn in_kernel(
    trial: &'static str,
    fault: &'static str,
    signature: &'static str,
) -> Difference {
    Difference { lines: WITH_KERNEL, ..planted(trial, fault, signature) }
}

#[cfg(feature = "long-tests")]
const fn planted(trial: &'static str, fault: &'static str, signature: &'static str) -> Difference {
    let here = ("debian:7.2.4", "gfx1151");
    Difference {
        lines: LINES,
        trial,
        fails: here,
        passes: Some(here),
        fault: Some(fault),
        signature,
    }
}

fn rocrepro(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the command starts")
}

fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = rocrepro(folder, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = format!("{arguments:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{all}");
    text(&output.stdout)
}

struct Release {
    spec: &'static str,
    gfx: &'static str,
    fault: Option<&'static str>,
    root: PathBuf,
    include: PathBuf,
}

#[derive(Debug, PartialEq)]
enum Did {
    Passed,
    /// The exit status is not 0. The text is the printed failure or the signal.
    Failed(String),
    /// The exit status is 0 although the program printed this failure.
    Contradicts(String),
}

impl Release {
    fn new(
        at: &Path,
        (spec, gfx): (&'static str, &'static str),
        fault: Option<&'static str>,
    ) -> Release {
        good(at, &["rocm", "fetch", spec, "--with", "dev"]);
        let root = PathBuf::from(good(at, &["rocm", "path", spec]).trim());
        // Only the headers of HIP are used, because the others in the folder belong to another C library.
        let include = at.join(format!("include-{}-{}", spec.replace(':', "-"), fault.is_some()));
        fs::create_dir_all(&include).expect("a folder");
        for library in ["hip", "hiprand", "rocrand", "rocblas"] {
            let (from, to) = (root.join("usr/include").join(library), include.join(library));
            if from.is_dir() && !to.exists() {
                std::os::unix::fs::symlink(from, to).expect("a link");
            }
        }
        Release { spec, gfx, fault, root, include }
    }

    /// Compiles a program with the build line that it contains, in which the paths of this release replace /opt/rocm.
    fn compile(&self, at: &Path, text: &str) -> Option<PathBuf> {
        let build =
            text.lines().find_map(|line| line.strip_prefix("// Build: ")).expect("a build line");
        let (source, program) = (at.join("tried.cpp"), at.join("tried"));
        fs::write(&source, text).expect("written");
        let mut words = build.split(' ');
        let mut command = Command::new(words.next().expect("a compiler"));
        for word in words {
            match word {
                "-I/opt/rocm/include" => command.arg("-I").arg(&self.include),
                "-L/opt/rocm/lib" => command.arg("-Wl,--allow-shlib-undefined"),
                "repro.cpp" => command.arg(&source),
                "repro" => command.arg(&program),
                library if library.starts_with("-l") => match self.library(&library[2..]) {
                    Some(file) => command.arg(file),
                    // In older releases, hipRTC is part of the HIP runtime.
                    None => &mut command,
                },
                other => command.arg(other),
            };
        }
        let output = command.output().expect("the compiler starts");
        output.status.success().then_some(program)
    }

    fn library(&self, name: &str) -> Option<PathBuf> {
        let folder = self.root.join("usr/lib/x86_64-linux-gnu");
        let file = folder.join(format!("lib{name}.so"));
        file.exists().then_some(file)
    }

    fn run(&self, at: &Path, program: &Path) -> Did {
        self.run_with(at, program, &[])
    }

    fn run_with(&self, at: &Path, program: &Path, more: &[&str]) -> Did {
        let mut arguments =
            vec!["exec", "--device", "emulated", "--rocm", self.spec, "--gfx", self.gfx];
        arguments.extend(more);
        arguments.extend(self.fault.iter().flat_map(|fault| ["--fault", fault]));
        let program = program.display().to_string();
        arguments.push(&program);
        // After a kernel that accessed unmapped memory, HIP waits for ever for a copy, so the run needs a time limit.
        let output = Command::new("timeout")
            .args(["--signal=KILL", "120", env!("CARGO_BIN_EXE_rocrepro")])
            .args(&arguments)
            .current_dir(at)
            .output()
            .expect("the command starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = text.lines().map(str::trim_start).find(|line| line.starts_with("FAIL: "));
        let said = said.map(str::to_owned);
        match (output.status.signal(), said) {
            (Some(signal), _) => Did::Failed(format!("died of {}", judge::signal(signal))),
            (None, Some(said)) if output.status.success() => Did::Contradicts(said),
            (None, Some(said)) => Did::Failed(said),
            (None, None) if output.status.success() && text.contains("PASS") => Did::Passed,
            (None, None) => Did::Failed(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Runs the program with the lazy schedule, with which missing waits cause failures.
    fn run_late(&self, at: &Path, program: &Path) -> Did {
        self.run_with(at, program, &["--schedule", "lazy"])
    }

    fn tried(&self, at: &Path, text: &str) -> Option<Did> {
        let program = self.compile(at, text)?;
        Some(self.run(at, &program))
    }
}

/// Returns the kind of a failure without line numbers and offsets. As in a signature, wrong bytes that are zero or
/// those of fresh memory are separate kinds.
fn kind(did: &Did) -> String {
    match did {
        Did::Passed => "passed".to_owned(),
        Did::Contradicts(said) => format!("exit status 0 after {said}"),
        Did::Failed(said) => {
            // Line numbers change when lines are left out.
            let said = said.split(" (line ").next().unwrap_or_default();
            // The offset of the wrong byte depends on the remaining lines.
            let Some((buffer, byte)) = said.split_once(": byte ") else { return said.to_owned() };
            let got = byte.split(" is ").nth(1).and_then(|got| got.split(';').next());
            let class = match got {
                Some("00") => ": zero",
                Some("a5") => ": fresh",
                _ => "",
            };
            format!("{buffer}{class}")
        }
    }
}

/// Returns the lines of `main` without which the program still fails and passes as it must. Each line is left out
/// alone, and together with the next line.
fn removable(
    at: &Path,
    text: &str,
    fails: &Release,
    passes: &Release,
    wanted: &str,
) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|l| l.starts_with("int main()")).expect("main") + 1;
    let end = lines.len() - 1;
    let mut found = Vec::new();
    for from in begin..end {
        for length in [1, 2] {
            // The last line prints PASS, on which this test relies.
            if from + length > end - 1 {
                continue;
            }
            let kept = lines[..from].iter().chain(&lines[from + length..]);
            let shorter = kept.copied().collect::<Vec<_>>().join("\n") + "\n";
            let shows = fails.tried(at, &shorter).is_some_and(|did| kind(&did) == wanted);
            if !shows {
                continue;
            }
            let Some(program) = passes.compile(at, &shorter) else { continue };
            let right = |did| did == Did::Passed;
            if right(passes.run(at, &program)) && right(passes.run_late(at, &program)) {
                found.push(lines[from..from + length].join(" / "));
            }
        }
    }
    found
}

/// Returns both numbers in a text such as `3 of 3`, which is between the texts `before` and `after`.
fn counts(text: &str, before: &str, after: &str) -> Option<(u32, u32)> {
    let rest = &text[text.find(before)? + before.len()..];
    let (k, n) = rest[..rest.find(after)?].split_once(" of ")?;
    Some((k.trim().parse().ok()?, n.trim().parse().ok()?))
}

/// Returns the rates in a report with their confidence intervals, for example `3/3 (95 % interval 29 % to 100 %)`.
fn intervals(report: &str) -> Vec<(u32, u32, String)> {
    const WORDS: &str = " (95 % interval ";
    let starts: Vec<usize> = report.match_indices(WORDS).map(|(at, _)| at).collect();
    let read = |at: usize| {
        let rate = report[..at].rsplit([' ', '\n']).next()?;
        let (k, n) = rate.split_once('/')?;
        let interval = report[at + WORDS.len()..].split(')').next()?;
        Some((k.parse().ok()?, n.parse().ok()?, interval.to_owned()))
    };
    starts.into_iter().map(|at| read(at).expect("a rate before an interval")).collect()
}

/// Returns the two-sided 95 % Clopper-Pearson interval of n successes in n trials. Its lower end is 0.025^(1/n),
/// rounded down.
fn every_time(n: u32) -> String {
    let low = 0.025_f64.powf(1.0 / f64::from(n)) * 100.0;
    format!("{} % to 100 %", low.floor())
}

#[track_caller]
fn check(difference: &Difference) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let Difference { lines, trial, fails, passes, fault, signature } = difference;
    let failing = Release::new(at, *fails, *fault);
    let passing = passes.map(|place| Release::new(at, place, None));
    let mut on =
        vec![*trial, "--out", "out", "--device", "emulated", "--rocm", fails.0, "--gfx", fails.1];
    on.extend(fault.iter().flat_map(|fault| ["--fault", fault]));
    good(at, &[&["minimise"], on.as_slice()].concat());
    good(at, &[&["report", "--repeat", "3", "--budget-seconds", "40"], on.as_slice()].concat());
    let read = |name: &str| fs::read_to_string(at.join("out").join(name)).expect(name);
    let (text, report) = (read("repro.cpp"), read("report.md"));
    let json = |name: &str| serde_json::from_str::<serde_json::Value>(&read(name)).expect("JSON");
    let (minimised, exported) = (json("minimise.json"), json("export.json"));
    assert_eq!(minimised["signature"], *signature);

    // The program in the issue is compiled and run.
    let shown = format!("{text}\n{report}");
    assert!(text.lines().count() <= *lines, "{} lines\n{shown}", text.lines().count());
    assert!(text.lines().all(|line| line.len() <= 120 || line.starts_with("//")), "{shown}");
    let did = failing.tried(at, &text).unwrap_or_else(|| panic!("it does not compile\n{shown}"));
    assert!(matches!(did, Did::Failed(_)), "{did:?}\n{shown}");
    if let Some(passing) = &passing {
        let program =
            passing.compile(at, &text).unwrap_or_else(|| panic!("it does not compile\n{shown}"));
        assert_eq!(passing.run(at, &program), Did::Passed, "{shown}");
        assert_eq!(passing.run_late(at, &program), Did::Passed, "{shown}");
        let left = removable(at, &text, &failing, passing, &kind(&did));
        assert!(left.is_empty(), "could go: {left:#?}\n{shown}");
    }

    if passing.is_none() {
        // Without a release on which the program passes, no call can be shown to be unnecessary, so all calls must
        // remain.
        let steps = read("case.yaml").lines().filter(|line| line.starts_with("  - ")).count();
        let (_, main) = text.split_once("int main()").expect("main");
        let words = main.split('(').filter_map(|before| before.rsplit([' ', ')']).next());
        let calls = words.filter(|word| word.starts_with("hip")).count();
        assert!(calls >= steps, "{calls} calls for {steps} steps\n{shown}");
    }

    // The sentences of the report are checked.
    assert!(!report.contains("| --- | --- | --- |\n\n"), "a table without rows\n{shown}");
    let mut also_seen = report.lines().filter(|line| line.starts_with("Symptom: "));
    assert!(also_seen.all(|line| !line.contains("(line ")), "lines of another file\n{shown}");
    assert!(report.contains(&text), "the attached program is another\n{shown}");
    let said = counts(&report, "it failed as described in ", " fresh processes");
    let number = |value: &serde_json::Value| value.as_u64().map(|n| n as u32);
    let verified = &exported["verified"];
    assert_eq!(said, number(&verified["failed"]).zip(number(&verified["runs"])), "{shown}");
    assert!(said.is_some_and(|(k, n)| k == n && n >= 3), "{shown}");
    let Did::Failed(end) = &did else { panic!("{shown}") };
    if end.starts_with("FAIL: ") || end.starts_with("died of ") {
        // Wrong bytes from uninitialised memory differ between processes.
        let end = end
            .split_once(" is ")
            .filter(|_| end.contains(": byte "))
            .map_or_else(|| format!("{end}`."), |(at, _)| at.to_owned());
        let sentence = format!("A failing run ended with: `{end}");
        assert!(report.contains(&sentence), "{sentence}\n{shown}");
    }
    if let Some((_, line)) = end.split_once(" (line ") {
        let line: usize = line.trim_end_matches(')').parse().expect("a number");
        let call = end.trim_start_matches("FAIL: ").split('(').next().unwrap_or_default();
        let there = text.lines().nth(line - 1).unwrap_or_default();
        assert!(there.contains(call), "line {line} is {there:?}\n{shown}");
    }
    if let Some(signal) = end.strip_prefix("died of ") {
        let others = ["SIGABRT", "SIGSEGV", "SIGBUS"].into_iter().filter(|other| *other != signal);
        for other in others {
            let written = report.lines().filter(|line| !line.starts_with(':'));
            assert!(!written.into_iter().any(|line| line.contains(other)), "{other}\n{shown}");
        }
    }
    if passing.is_some() {
        let passed = counts(&report, "The same program passed in ", " runs on");
        assert!(passed.is_some_and(|(k, n)| k == n && n >= 3), "{shown}");
    }
    match (&passing, fault) {
        (Some(_), None) => {}
        (None, _) => {
            assert!(report.contains("No release was found on which the program passes"), "{shown}")
        }
        (Some(_), Some(_)) => assert!(report.contains("injected on purpose"), "{shown}"),
    }
    for (k, n, interval) in intervals(&report) {
        let wanted = every_time(n);
        assert!(k == n && interval == wanted, "{k}/{n} has {interval}, not {wanted}\n{shown}");
    }
    let control = match (&passing, fault) {
        (_, Some(_)) => Some("| no fault injected | 0/3 | passes |".to_owned()),
        (Some(passing), None) => {
            let release = passing.spec.trim_start_matches("debian:");
            // The table of the report has no row for a release that does not support the architecture of the failing
            // run.
            let same = passing.gfx == failing.gfx;
            same.then(|| format!("| the same on ROCm {release} | 0/3 | passes |"))
        }
        (None, None) => None,
    };
    assert!(control.is_none_or(|row| report.contains(&row)), "{shown}");
    for label in ["// Build: ", "// Run:   "] {
        let line = text.lines().find_map(|line| line.strip_prefix(label)).expect(label);
        assert!(report.lines().any(|other| other == line), "{line}\n{shown}");
    }
    let manifest = fs::read_to_string(failing.root.join("manifest.json")).expect("a manifest");
    let packages =
        report.lines().find_map(|l| l.strip_prefix("Debian packages, with Debian's patches: "));
    let packages = packages.unwrap_or_else(|| panic!("no packages\n{shown}")).trim_end_matches('.');
    for package in packages.split(", ") {
        let (name, version) = package.split_once(' ').expect("a name and a version");
        let named = format!("\"name\": \"{name}\"");
        let at = manifest.find(&named).unwrap_or_else(|| panic!("{name} is not in the manifest"));
        assert!(manifest[at..].lines().nth(1).is_some_and(|l| l.contains(version)), "{package}");
    }
    for never in ["unmodified", "as its documentation says", "holds what the calls before wrote"] {
        assert!(!report.contains(never), "{never}\n{shown}");
    }
    assert!(exported.get("cut_short").is_none(), "the search was ended early\n{shown}");
}

/// The fault takes effect in some of the processes, so the program in the issue should fail about as often as its
/// trial.
#[cfg(feature = "long-tests")]
#[test]
fn reports_the_rate_of_an_intermittent_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let fault = "copy.zero,probability=0.5,per=process";
    let trial = "copies/small-sizes[bytes=64,host=pageable,api=memcpy]";
    let on = [
        trial, "--out", "out", "--device", "emulated", "--rocm", NEW.0, "--gfx", NEW.1, "--fault",
        fault,
    ];
    good(at, &[&["minimise"], &on[..]].concat());
    good(at, &[&["report", "--repeat", "20", "--budget-seconds", "40"], &on[..]].concat());
    let read = |name: &str| fs::read_to_string(at.join("out").join(name)).expect(name);
    let (text, report) = (read("repro.cpp"), read("report.md"));
    let shown = format!("{text}\n{report}");
    assert!(text.lines().count() <= LINES, "{shown}");

    let failing = Release::new(at, NEW, None);
    let program =
        failing.compile(at, &text).unwrap_or_else(|| panic!("it does not compile\n{shown}"));
    let runs = 40;
    let failed = (0..runs).filter(|n| {
        let drawn = format!("{fault},seed={}", 1000 + n).leak();
        let did = Release { fault: Some(drawn), ..Release::new(at, NEW, None) }.run(at, &program);
        assert_ne!(kind(&did), "", "{shown}");
        matches!(did, Did::Failed(_))
    });
    let failed = failed.count();
    // With a failure rate of 0.5, the count is outside of this range with a probability of 1.4e-6.
    assert!((6..=34).contains(&failed), "{failed} of {runs}\n{shown}");

    let (k, n) = counts(&report, "it failed as described in ", " fresh processes").expect("a rate");
    assert!(k >= 3 && k < n && n <= 60, "{k} of {n}\n{shown}");
    for sentence in ["these runs do not show a difference.", "Run it in a loop: `for i in $(seq "] {
        assert!(report.contains(sentence), "{sentence}\n{shown}");
    }
}

macro_rules! differences {
    ($($(#[$attribute:meta])* $name:ident: $difference:expr;)*) => {
        $($(#[$attribute])*
        #[test]
        fn $name() {
            check(&$difference);
        })*
    };
}

const NEW: (&str, &str) = ("debian:7.2.4", "gfx1151");
#[cfg(feature = "long-tests")]
const OLD: (&str, &str) = ("debian:5.2.3", "gfx90a");
#[cfg(feature = "long-tests")]
const GOOD: Option<(&str, &str)> = Some(("debian:5.7.1", "gfx1100"));

differences! {
    #[cfg(feature = "long-tests")]
    long_chain: real("graphs/long-chain[nodes=30000]", NEW, Some(("debian:6.4.3", "gfx1151")), "crash:hipGraphInstantiate");
    #[cfg(feature = "long-tests")]
    pool_allocation_in_the_null_stream: real("capture/pool-allocation-in-null-stream[thread=capturing,mode=global]", NEW, GOOD, "crash:hipMallocAsync");
    #[cfg(feature = "long-tests")]
    synchronous_copy_in_a_capture: real("capture/synchronous-copy-on-stream[mode=global,direction=to_device]", ("debian:6.4.3", "gfx1151"), Some(NEW), "api-error:hipMemcpyWithStream:hipSuccess");
    #[cfg(feature = "long-tests")]
    second_capture: real("capture/retry-after-invalidated-capture[node=copy]", NEW, GOOD, "api-error:hipMemcpyAsync:hipErrorInvalidValue");
    #[cfg(feature = "long-tests")]
    stream_after_an_invalidated_capture: real("capture/stream-after-invalidated-capture[mode=global]", NEW, GOOD, "unexpected-value:hipStreamIsCapturing:invalidated");
    // The trial passes on no release, so all calls of the case must remain.
    unjoined_fork: real("capture/unjoined-fork[mode=global]", NEW, None, "unexpected-value:hipStreamIsCapturing:active");
    #[cfg(feature = "long-tests")]
    memset_at_an_odd_address: real("copies/memset[offset=1,bytes=1,async=false,words=false]", OLD, Some(("debian:5.7.1", "gfx90a")), "memory-fault:__amd_rocclr_fillBufferAligned");
    #[cfg(feature = "long-tests")]
    launch_that_is_not_captured: real("graphs/replay-changing-input[words=16,host=pageable]", OLD, Some(("debian:5.7.1", "gfx90a")), "unexpected-value:hipGraphGetNodes:0");

    #[cfg(feature = "long-tests")]
    zeros_instead_of_a_copy: planted("copies/small-sizes[bytes=64,host=pageable,api=memcpy]", "copy.zero", "wrong-data:dst.back:zero");
    #[cfg(feature = "long-tests")]
    rows_that_are_not_copied: planted("copies/rows-2d[width=12,async=false,host=pageable]", "copy.drop", "wrong-data:back:stale");
    #[cfg(feature = "long-tests")]
    set_of_words: planted("copies/memset[offset=64,bytes=64,async=false,words=true]", "copy.zero", "wrong-data:dst.back:zero");
    #[cfg(feature = "long-tests")]
    stream_that_waits_for_an_event: in_kernel("copies/two-streams-by-event[bytes=64,stream=non_blocking]", "kernel.drop", "wrong-data:back:poison");
    #[cfg(feature = "long-tests")]
    null_stream_that_does_not_wait: in_kernel("copies/null-stream-waits[bytes=64,host=pageable]", "signal.early,ms=200", "wrong-data:back:zero");
    #[cfg(feature = "long-tests")]
    replay_with_old_arguments: in_kernel("graphs/replay-changing-input[words=16,host=pageable]", "kernel.stale-args", "wrong-data:static_out.back:poison");
    #[cfg(feature = "long-tests")]
    zeros_in_memory_of_a_pool: planted("copies/pool-small-sizes[bytes=16]", "copy.zero", "wrong-data:back:zero");
    #[cfg(feature = "long-tests")]
    variable_without_its_value: in_kernel("kernels/module-variable[n=4,block=64]", "module.zeroed", "wrong-data:dst.back:other");
    #[cfg(feature = "long-tests")]
    numbers_that_are_not_generated: planted("rng/same-seed[kind=philox]", "kernel.drop", "wrong-data:a.back:same");
    #[cfg(feature = "long-tests")]
    host_function_that_gets_zeros: planted("copies/host-function-in-order[api=launch_host_func,stream=s]", "copy.zero", "wrong-data:via:garbage");
    #[cfg(feature = "long-tests")]
    copy_that_leaves_its_memory: planted("copies/small-sizes[bytes=4096,host=pageable,api=memcpy]", "copy.page-fault", "memory-fault:__amd_rocclr_copyBuffer");
    #[cfg(feature = "long-tests")]
    managed_memory_that_no_kernel_writes: in_kernel("copies/managed-memory[words=16]", "kernel.drop", "wrong-data:out:poison");
    #[cfg(feature = "long-tests")]
    two_allocations_in_one_place: planted("copies/two-after-one-free[bytes=4096]", "alloc.alias", "wrong-data:a.back:other");
}
