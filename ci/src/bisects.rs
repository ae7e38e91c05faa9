//! Bisects real changes of behaviour between Debian's releases of ROCm, both with trials and with programs that are
//! exported from trials. The right answers are known in advance. No faults are injected.

use std::{
    fs,
    path::{Path, PathBuf},
};

use xshell::{Shell, cmd};

use crate::{TaskResult, build_and_fetch};

struct Change {
    trial: &'static str,
    good: &'static str,
    bad: &'static str,
    /// True if a newer release fixed the behaviour. The bad release is then older than the good one.
    fixed: bool,
    more: &'static [&'static str],
    /// Neighbouring releases between which the behaviour changed: first the good one, then the bad one.
    answer: (&'static str, &'static str),
    signature: &'static str,
    /// Signature with which the exported program fails; `None` if the program is not bisected.
    program: Option<&'static str>,
}

impl Change {
    const fn regression(
        trial: &'static str,
        answer: (&'static str, &'static str),
        signature: &'static str,
    ) -> Change {
        let (good, bad, more) = ("debian:5.7.1", "debian:7.2.4", &[]);
        Change { trial, good, bad, fixed: false, more, answer, signature, program: None }
    }

    const fn fix(
        trial: &'static str,
        answer: (&'static str, &'static str),
        signature: &'static str,
    ) -> Change {
        let (good, bad, more) = ("debian:7.2.4", "debian:5.2.3", &[]);
        Change { trial, good, bad, fixed: true, more, answer, signature, program: None }
    }

    const fn with_arguments(self, more: &'static [&'static str]) -> Change {
        Change { more, ..self }
    }

    const fn with_program_signature(self, signature: &'static str) -> Change {
        Change { program: Some(signature), ..self }
    }
}

/// Signature of an exported program that fails because one of its checks fails.
const CHECK_FAILURE: &str = "exit:1:FAILED: # expectations were not met";
const BETWEEN_5_AND_6: (&str, &str) = ("debian:5.7.1", "debian:6.4.3");
const BETWEEN_6_AND_7: (&str, &str) = ("debian:6.4.3", "debian:7.2.4");
const FIXED_IN_5_7: (&str, &str) = ("debian:5.7.1", "debian:5.2.3");

/// Known changes of behaviour. Each `answer` was determined by running the trial on all four releases. The table of
/// results is in reports/.
const CHANGES: [Change; 12] = [
    Change::fix(
        "capture/synchronous-copy-on-stream[mode=global,direction=to_device]",
        ("debian:7.2.4", "debian:6.4.3"),
        "api-error:hipMemcpyWithStream:hipSuccess",
    ),
    Change::regression(
        "capture/pool-allocation-in-null-stream[thread=capturing,mode=global]",
        BETWEEN_5_AND_6,
        "crash:hipMallocAsync",
    ),
    Change::regression(
        "capture/retry-after-invalidated-capture[node=kernel]",
        BETWEEN_5_AND_6,
        "api-error:hipGraphGetNodes:hipErrorInvalidValue",
    ),
    Change::regression(
        "capture/stream-after-invalidated-capture[mode=global]",
        BETWEEN_5_AND_6,
        "unexpected-value:hipStreamIsCapturing:invalidated",
    ),
    Change::regression(
        "graphs/long-chain[nodes=30000]",
        BETWEEN_6_AND_7,
        "crash:hipGraphInstantiate",
    )
    .with_program_signature("signal:11:"),
    Change::fix(
        "copies/memset[offset=1,bytes=1,async=false]",
        FIXED_IN_5_7,
        "memory-fault:__amd_rocclr_fillBufferAligned",
    )
    .with_program_signature(
        "signal:6:rocrepro-device: fault: kernel __amd_rocclr_fillBufferAligned",
    ),
    Change::fix(
        "graphs/exec-update[words=1024,nodes=1]",
        FIXED_IN_5_7,
        "wrong-data:out.back:later",
    )
    .with_program_signature(CHECK_FAILURE),
    Change::fix(
        "graphs/exec-update-refused[change=more_nodes]",
        FIXED_IN_5_7,
        "api-error:hipGraphExecUpdate:hipSuccess",
    )
    .with_program_signature(CHECK_FAILURE),
    Change::fix("graphs/many-replays[replays=50,waits=each]", FIXED_IN_5_7, "wrong-data:")
        .with_arguments(&["--regress", "wrong"]),
    Change::fix(
        "graphs/recapture[mode=global]",
        FIXED_IN_5_7,
        "unexpected-value:hipGraphGetNodes:0",
    )
    .with_program_signature(CHECK_FAILURE),
    Change::fix(
        "copies/small-sizes[bytes=2,host=registered,api=memcpy]",
        FIXED_IN_5_7,
        "teardown-crash",
    ),
    Change::fix("copies/pool-small-sizes[bytes=8]", FIXED_IN_5_7, "hang:teardown")
        .with_arguments(&["--regress", "hang", "--quiet-timeout", "4"]),
];

/// Arguments that select an emulated device which all four releases support.
const DEVICE_ARGUMENTS: [&str; 4] = ["--gfx", "gfx90a", "--device", "emulated"];
/// Release whose headers and expected results the exported programs use.
const REFERENCE_RELEASE: &str = "debian:5.7.1";

/// Runs all bisects and prints the tables for the reports.
///
/// # Errors
/// Fails if an answer or a signature differs from that in [`CHANGES`], or if a command cannot be run.
pub(crate) fn bisects(sh: &Shell) -> TaskResult {
    let program = build_and_fetch(sh)?;
    let folder = sh.create_temp_dir()?;
    let folder = folder.path();
    let mut wrong = Vec::new();
    println!("| search | answer | signature | confidence | time |\n|---|---|---|---|---|");
    for (n, change) in CHANGES.iter().enumerate() {
        let out = folder.join(n.to_string());
        let what = [&[change.trial][..], change.more].concat();
        let printed = run_bisect(sh, &program, &what, change, &out)?;
        wrong.extend(print_row(change.trial, &printed, change, change.signature));
    }
    let library = library(sh, &program, folder)?;
    for change in &CHANGES {
        let Some(signature) = change.program else { continue };
        let name = change.trial.split(['/', '[']).nth(1).unwrap_or(change.trial);
        let built = compile(sh, &program, change.trial, &library, &folder.join(name))?;
        let out = folder.join(format!("{name}.out"));
        let printed = run_bisect(sh, &program, &["--program", &built], change, &out)?;
        wrong.extend(print_row(name, &printed, change, signature));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Runs `rocrepro bisect` on `what`, a trial or program, between the good and the bad release of a change. Returns the
/// standard output.
fn run_bisect(
    sh: &Shell,
    program: &Path,
    what: &[&str],
    change: &Change,
    out: &Path,
) -> Result<String, Box<dyn std::error::Error>> {
    let fixed = change.fixed.then_some("--fixed");
    let (good, bad) = (change.good, change.bad);
    let printed = cmd!(
        sh,
        "{program} bisect {what...} --good {good} --bad {bad} {fixed...} {DEVICE_ARGUMENTS...} --out {out}"
    )
    .quiet()
    .ignore_stderr()
    .ignore_status()
    .read()?;
    Ok(printed)
}

/// Prints a row of the table from the output of a bisect. Returns a message if the answer or the signature is not the
/// expected one.
fn print_row(name: &str, printed: &str, change: &Change, signature: &str) -> Option<String> {
    let value = |key: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim())
    };
    let words = ["answer ", "signature ", "confidence ", "spent "];
    let [answer, seen, confidence, spent] = words.map(|key| value(key).unwrap_or("none"));
    println!("| `{name}` | {answer} | `{seen}` | {confidence} | {spent} |");
    let (good, bad) = change.answer;
    let right = match change.fixed {
        true => format!("first good {good}, last bad {bad}"),
        false => format!("last good {good}, first bad {bad}"),
    };
    let holds = answer == right && seen.starts_with(signature);
    (!holds).then(|| {
        format!("{name}: expected `{right}` with `{signature}`; the output was:\n{printed}")
    })
}

/// Creates a folder with HIP's headers and an empty libamdhip64 without a version number. A program that is linked with
/// this library can load the libamdhip64 of every release.
fn library(
    sh: &Shell,
    program: &Path,
    folder: &Path,
) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let root = cmd!(sh, "{program} rocm path {REFERENCE_RELEASE}").read()?;
    let names =
        cmd!(sh, "nm -D --defined-only {root}/usr/lib/x86_64-linux-gnu/libamdhip64.so.5").read()?;
    let names = names.lines().filter_map(|line| line.split(" T ").nth(1));
    let hip: Vec<_> = names
        .map(|name| name.split('@').next().unwrap_or(name))
        .filter(|name| name.starts_with("hip") && !name.starts_with("hiprtc"))
        .map(|name| format!("void {name}(void) {{}}"))
        .collect();
    let source = folder.join("names.c");
    fs::write(&source, hip.join("\n"))?;
    cmd!(sh, "gcc -shared {source} -o {folder}/libamdhip64.so").run()?;
    // The symbolic link leads only to HIP's headers, because the other headers in the same folder belong to the C
    // library of another distribution.
    std::os::unix::fs::symlink(Path::new(&root).join("usr/include/hip"), folder.join("hip"))?;
    Ok(folder.to_owned())
}

/// C source of a library that forwards calls to hipRTC. hipRTC is part of libamdhip64 up to ROCm 6, and a library of
/// its own from ROCm 7 on. The forwarded functions have at most six integer parameters.
const HIPRTC: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static void *find(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    void *library = found ? 0 : dlopen("libhiprtc.so.7", RTLD_NOW);
    if (!found && library) found = dlsym(library, name);
    if (!found) { fprintf(stderr, "no %s\n", name); exit(125); }
    return found;
}
#define F(name) long name(long a, long b, long c, long d, long e, long f) { \
    long (*next)(long, long, long, long, long, long) = find("h" #name); return next(a, b, c, d, e, f); }
"#;

/// Exports a trial as a program, and compiles the program with the compiler of this machine.
fn compile(
    sh: &Shell,
    program: &Path,
    trial: &str,
    library: &Path,
    to: &Path,
) -> Result<String, Box<dyn std::error::Error>> {
    let (source, rtc) = (to.with_extension("cpp"), to.with_extension("rtc.c"));
    cmd!(
        sh,
        "{program} export {trial} --rocm {REFERENCE_RELEASE} {DEVICE_ARGUMENTS...} --out {source}"
    )
    .quiet()
    .ignore_stderr()
    .run()?;
    // In the program, calls of hipRTC are replaced by calls of the forwarding functions, whose names lack the first
    // letter of the original names.
    let text = fs::read_to_string(&source)?;
    let mut used: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("hiprtc") && text.contains(&format!("{word}(")))
        .collect();
    used.sort_unstable();
    used.dedup();
    let functions: Vec<_> = used.iter().map(|name| format!("F({})", &name[1..])).collect();
    fs::write(&rtc, HIPRTC.to_owned() + &functions.join("\n"))?;
    let renamed: Vec<_> = used.iter().map(|name| format!("-D{name}={}", &name[1..])).collect();
    let object = to.with_extension("o");
    cmd!(sh, "gcc -c {rtc} -o {object}").run()?;
    cmd!(
        sh,
        "g++ -w -D__HIP_PLATFORM_AMD__ -I {library} {renamed...} {source} {object} -o {to} -L {library} -lamdhip64 -ldl"
    )
    .run()?;
    Ok(to.display().to_string())
}
