//! Tests cases whose body is a program.

mod as_printed;
mod call_faults;
mod crashes;
mod helper;
mod own_mistakes;
mod report;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value;

use crate::{
    common,
    exec::{REFUSING, namespaces},
};

/// A case whose program ends in the way that its parameter names.
const OUTCOMES: &str = "\
title: Outcomes of programs
source: [this test]
matrix:
  what: [pass, crash, hang, early, raise, status, leak, unused, nothing, exit, skip]
program:
  python: |
    import ctypes
    import os
    import signal
    import sys
    import time
    import rocrepro

    what = rocrepro.parameter('what')
    hip = ctypes.CDLL('libamdhip64.so')
    if what == 'unused':
        rocrepro.equal('one', 1, 1)
        rocrepro.done()
        sys.exit(0)
    place, back = ctypes.c_void_p(), ctypes.create_string_buffer(64)
    rocrepro.must(hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)))
    rocrepro.must(hip.hipMemcpy(place, b'x' * 64, ctypes.c_size_t(64), 1))
    rocrepro.must(hip.hipMemcpy(back, place, ctypes.c_size_t(64), 2))
    rocrepro.phase('middle')
    if what == 'crash':
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == 'hang':
        time.sleep(600)
    if what == 'early':
        sys.exit(0)
    if what == 'exit':
        sys.exit(4)
    if what == 'raise':
        {}['absent']
    if what == 'skip':
        rocrepro.skip('it wants more')
    if what == 'status':
        rocrepro.status('malloc', hip.hipMalloc(None, ctypes.c_size_t(1)), 0)
    if what == 'leak':
        rocrepro.given_back('free', 3, 2)
    if what != 'nothing':
        rocrepro.equal('bytes', back.raw, b'x' * 64)
    rocrepro.done()
faults: [copy.zero]
";

/// A case whose program leaves a process of its own, or one that looks like a worker of a framework.
const LEAVES: &str = "\
title: Processes that programs leave
source: [this test]
matrix:
  what: [second, sleep, tracker, group]
program:
  python: |
    import ctypes
    import subprocess
    import sys
    import rocrepro

    what = rocrepro.parameter('what')
    rocrepro.must(ctypes.CDLL('libamdhip64.so').hipInit(0))
    tracker = 'from multiprocessing.resource_tracker import main;main(5)'
    pretended = 'import time; time.sleep(1000)'
    command = {
        'second': ['sleep', '1'],
        'sleep': ['sleep', '1000'],
        'tracker': [sys.executable, '-c', tracker.split(';')[0] + ';' + pretended],
        'group': ['sleep', '1001'],
    }[what]
    null = subprocess.DEVNULL
    subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=what != 'group')
    rocrepro.equal('one', 1, 1)
    rocrepro.done()
faults: [copy.zero]
";

/// A case whose program contains an imitation of PyTorch in four lines, which finds no GPU.
const WITHOUT_GPU: &str = "\
title: PyTorch sees no GPU
source: [this test]
matrix:
  build: [rocm, cuda, cpu, gpu]
program:
  python: |
    import ctypes, sys, types
    import rocrepro

    rocrepro.must(ctypes.CDLL('libamdhip64.so').hipInit(0))
    build = rocrepro.parameter('build')
    torch = sys.modules['torch'] = types.ModuleType('torch')
    torch.__version__ = '2.6.0'
    torch.cuda = types.SimpleNamespace(is_available=lambda: build == 'gpu')
    hip, cuda = {'rocm': ('7.2.4', None), 'cuda': (None, '12.4')}.get(build, (None, None))
    torch.version = types.SimpleNamespace(hip=hip, cuda=cuda)
    rocrepro.skip('it wants more')
    rocrepro.equal('one', 1, 1)
faults: [copy.zero]
";

/// Programs that fail after a check that passes, each with its name, its line and the expected signature.
const WRONG: &[(&str, &str, &str)] = &[
    ("number", "rocrepro.holds('check', False, 7)", "wrong-data:check:false"),
    (
        "surrogate",
        "rocrepro.holds('check', False, b'\\xff'.decode('utf-8', 'surrogateescape'))",
        "wrong-data:check:false",
    ),
    (
        "infinite",
        "rocrepro.close('check', [1.0], [float('inf')], relative=1e-6)",
        "wrong-data:check:other",
    ),
    ("table", "rocrepro.equal('check', {'a': 1}, {'a': 2})", "wrong-data:check:other"),
    ("empty", "rocrepro.equal('check', [], [])", "wrong-data:check:nothing"),
    ("ragged", "rocrepro.equal('check', [[1, 2], [3]], [[1], [2, 3]])", "wrong-data:check:shape"),
    ("none", "rocrepro.equal('check', [2, 1].sort(), [1, 2].sort())", "wrong-data:check:nothing"),
    ("generator", "rocrepro.holds('check', (x == 0 for x in [1]))", "exception:TypeError"),
    (
        "parts",
        "rocrepro.equal('check', [complex(float('nan'), 1)], [complex(float('nan'), 2)])",
        "wrong-data:check:nan",
    ),
    (
        "thread",
        "t = threading.Thread(target=lambda: {}['absent']); t.start(); t.join()",
        "exception:KeyError",
    ),
    ("skip", "rocrepro.equal('check', 1, 2); rocrepro.skip('no more')", "wrong-data:check:other"),
    ("signal", "rocrepro.equal('check', 1, 2); os.kill(os.getpid(), 15)", "wrong-data:check:other"),
    (
        "two names",
        "rocrepro.equal('a b', 1, 1); rocrepro.equal('a-b', 1, 1)",
        "exception:ValueError",
    ),
    ("status", "rocrepro.done(); os._exit(3)", "exit:3"),
    ("late", "rocrepro.done(); rocrepro.equal('check', 1, 1)", "no-verdict:done-early"),
    (
        "child",
        "os.fork() == 0 and (rocrepro.done(), os._exit(0)); os.wait(); os._exit(0)",
        "library-exit:program",
    ),
    ("before", "rocrepro.equal('check', [1, 2], [3, 4], before=[1])", "wrong-data:check:other"),
    // This program removes the files in its own folder. Its reported checks must not be lost.
    (
        "cleared",
        "[os.remove(f) for f in os.listdir('.')]; rocrepro.equal('check', 1, 2)",
        "wrong-data:check:other",
    ),
    ("foreign", "open(os.environ['ROCREPRO_REPORT'], 'a').write('what\\n')", "no-verdict:report"),
];

fn rocrepro(arguments: &[&str]) -> Output {
    common::rocrepro(arguments).output().expect("it starts")
}

fn shown(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{}\n{out}\n--- stderr\n{err}", output.status)
}

fn case(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(format!("{name}.yaml"));
    fs::write(&file, text).expect("a case");
    (folder, file)
}

/// Runs the cases of a file. Returns the exit status and the record of each trial.
fn run(file: &Path, more: &[&str]) -> (Option<i32>, BTreeMap<String, Value>) {
    let records = file.with_extension("jsonl");
    let [file, to] = [file, &records].map(|path| path.to_str().expect("text"));
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];
    let words = [&["run", "--cases-from", file, "--trust", "--record", to][..], &on, more].concat();
    let output = rocrepro(&words);
    let text = fs::read_to_string(&records).unwrap_or_else(|_| panic!("{}", shown(&output)));
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let trials = records.filter(|record| record["outcome"].is_object());
    let named =
        trials.map(|record| (record["trial"].as_str().expect("a trial").to_owned(), record));
    (output.status.code(), named.collect())
}

fn signature(record: &Value) -> &str {
    record["outcome"]["signature"].as_str().expect("a signature")
}

#[test]
fn gives_each_way_of_ending_its_own_outcome() {
    let (_folder, file) = case("outcomes", OUTCOMES);
    let (code, records) = run(&file, &["--quiet-timeout", "4"]);
    if !namespaces() {
        assert!(records.values().all(|r| signature(r) == "skip:needs"), "{records:?}");
        return;
    }
    assert_eq!(code, Some(1));
    let expected = [
        ("pass", "pass"),
        ("crash", "crash:middle"),
        ("hang", "hang:middle"),
        ("early", "library-exit:middle"),
        ("raise", "exception:KeyError"),
        ("status", "api-error:malloc:1"),
        ("leak", "leak:free:lost"),
        ("unused", "no-verdict:device"),
        ("nothing", "no-verdict:no-check"),
        ("exit", "exit:4"),
        ("skip", "skip:program"),
    ];
    assert_eq!(records.len(), expected.len());
    for (what, wanted) in expected {
        let record = &records[&format!("outcomes[what={what}]")];
        assert!(judge::signature_fits(wanted, signature(record)), "{what}: {record:#}");
    }
    // The record contains the interpreter, the checks, and the proof that the program used the device.
    let pass = &records["outcomes[what=pass]"];
    assert!(pass["program"]["runs_on"].as_str().unwrap().starts_with("Python 3."), "{pass:#}");
    assert_eq!(pass["program"]["checks"][0]["name"], "bytes");
    assert_eq!(
        (&pass["device"]["proven"], &pass["device"]["gfx"]),
        (&true.into(), &"gfx1151".into())
    );
    let libraries = pass["stack"]["libraries"].as_array().unwrap();
    assert!(libraries.iter().any(|l| l["name"].as_str().unwrap().starts_with("libamdhip64.so")));
    // Line numbers refer to the case file.
    let raised = &records["outcomes[what=raise]"];
    let of_program = |text: &str| {
        let lines = OUTCOMES.lines().skip_while(|line| !line.contains("python: |")).skip(1);
        lines.enumerate().find(|(_, line)| line.contains(text)).expect("a line").0 + 1
    };
    // The signature contains the line of the program that failed.
    let place = format!("program.py:{}", of_program("['absent']"));
    assert_eq!(signature(raised), format!("exception:KeyError:{place}"));
    let place = format!("program.py:{}", of_program("os.kill"));
    let crashed = signature(&records["outcomes[what=crash]"]);
    assert_eq!(crashed, format!("crash:middle:SIGSEGV:{place}"));
    // Python's own handler of the signal runs first.
    let crash = &records["outcomes[what=crash]"]["outcome"]["summary"];
    let crash = crash.as_str().unwrap();
    let died = "no HIP call was running: the program died of SIGSEGV in ";
    assert!(crash.starts_with(died) && crash.ends_with(", in phase middle"), "{crash}");
    assert!(!crash.contains("faulthandler"), "{crash}");
    let line = OUTCOMES.lines().position(|line| line.contains("['absent']")).unwrap() + 1;
    assert_eq!(raised["outcome"]["at"]["line"], line);

    // `--env` cannot override the case's parameters.
    let env = ["--env", "ROCREPRO_PARAMETER_what=crash", "--env", "ROCREPRO_REPORT=/dev/null"];
    let (code, records) = run(&file, &[&["outcomes[what=pass]"][..], &env].concat());
    assert_eq!((code, signature(&records["outcomes[what=pass]"])), (Some(0), "pass"));

    let (code, records) = run(&file, &["outcomes[what=pass]", "--fault", "copy.zero"]);
    let red = &records["outcomes[what=pass]"];
    assert_eq!((code, signature(red)), (Some(1), "wrong-data:bytes:zero"));
    let fault = ["outcomes[what=pass]", "--fault", "graph.launch-lost"];
    assert_eq!(signature(&run(&file, &fault).1["outcomes[what=pass]"]), "skip:needs");
}

#[test]
fn names_a_missing_requirement_and_how_to_get_it() {
    let skipped = |program: &str, words: &[&str]| {
        let text = format!("title: A\nsource: [this test]\nfaults: [copy.zero]\n{program}\n");
        let (_folder, file) = case("missing", &text);
        let (code, records) = run(&file, &[]);
        let record = &records["missing"];
        assert_eq!((code, &record["outcome"]["kind"]), (Some(4), &"skip".into()), "{record:#}");
        let summary = record["outcome"]["summary"].as_str().unwrap();
        for word in words {
            assert!(summary.contains(word), "no {word:?}: {summary}");
        }
    };
    skipped(
        "program: {python: 'import rocrepro', packages: [no-such-package==1.0, numpy], says: x}",
        &[
            "no environment contains no-such-package==1.0 and numpy",
            "`rocrepro stack env create no-such-package no-such-package==1.0 numpy`",
        ],
    );
    skipped(
        "program: {python: 'import rocrepro', env: no-such-environment, says: x}",
        &["unknown environment", "`rocrepro stack env create no-such-environment PACKAGE...`"],
    );
    if namespaces() {
        let absent = "program: {command: [no-such-program-at-all], says: x}";
        skipped(absent, &["program `no-such-program-at-all` found neither"]);
    }
    // The release does not contain this package group, whatever the machine has fetched.
    skipped(
        "needs: {with: llama}\nprogram: {command: ['true'], says: x}",
        &["`debian:7.2.4` does not contain llama"],
    );
}

#[test]
fn reports_mistakes_with_line_and_column() {
    let text = "title: A\nsource: [this test]\nfaults: [copy.zero]\nprogram:\n  command: [true]\n  arch: gfx90a\n";
    let (_folder, file) = case("wrong", text);
    let file = file.to_str().unwrap();
    let output = rocrepro(&["check", "--cases-from", file, "--trust"]);
    let printed = shown(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    for words in ["wrong.yaml:4:1", "has no check", "wrong.yaml:6:9", "is only for `cpp`"] {
        assert!(printed.contains(words), "no {words:?}: {printed}");
    }
    // A case with a program requires `--trust`.
    let (_folder, file) = case("foreign", OUTCOMES);
    let output = rocrepro(&["check", "--cases-from", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        shown(&output)
            .contains("the case runs a program, which can do everything that its user can"),
        "{}",
        shown(&output)
    );
}

#[test]
fn refuses_to_export_programs() {
    let subject = "programs/ctypes-copies[bytes=64]";
    let output = rocrepro(&["export", subject]);
    let printed = shown(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    let words = "`programs/ctypes-copies` is a program, and `export` needs a case with steps";
    assert!(printed.contains(words), "{printed}");
}

#[test]
fn reports_checks_that_no_fault_turns_red() {
    if !namespaces() {
        return;
    }
    let text = OUTCOMES
        .replace(
            "pass, crash, hang, early, raise, status, leak, unused, nothing, exit, skip",
            "pass",
        )
        .replace(
            "    rocrepro.done()\nfaults",
            "    rocrepro.equal('idle', 1, 1)\n    rocrepro.done()\nfaults",
        );
    let (_folder, file) = case("idle", &text);
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];
    let prove = ["prove", "--cases-from", file.to_str().unwrap(), "--trust"];
    let output = rocrepro(&[&prove[..], &on].concat());
    let printed = shown(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("UNTURNED idle: no declared fault makes the check `idle` fail"),
        "{printed}"
    );
    assert!(printed.contains("1 of 1 injected fault detected"), "{printed}");
}

#[test]
fn skips_programs_if_the_machine_allows_no_namespace() {
    if !namespaces() {
        return;
    }
    let (_folder, file) = case("refused", OUTCOMES);
    let (code, records) = run(&file, &["--launcher", REFUSING]);
    assert_eq!(code, Some(4));
    for record in records.values() {
        assert_eq!(signature(record), "skip:needs", "{record:#}");
        let summary = record["outcome"]["summary"].as_str().unwrap();
        assert!(summary.contains("this machine does not allow namespaces"), "{summary}");
    }
}

#[test]
fn compiles_cpp_programs_or_names_what_they_need() {
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];
    let output = rocrepro(&[&["run", "programs/struct-by-value[n=1000]"][..], &on].concat());
    let printed = shown(&output);
    match output.status.code() {
        Some(0) => assert!(printed.contains("1 passed"), "{printed}"),
        code => {
            assert_eq!(code, Some(4), "{printed}");
            assert!(
                printed.contains("`rocrepro stack fetch debian:7.2.4 --with dev` adds it"),
                "{printed}"
            );
        }
    }
}

/// Option `-l` finds libraries of the stack, and the C++ helper accepts status codes of libraries other than HIP.
#[test]
fn links_cpp_programs_with_libraries_of_the_stack() {
    let text = |library: &str| {
        format!(
            "title: hipRTC\nsource: [this test]\nneeds: {{with: dev}}\nprogram:\n  options: {library}\n  cpp: |\n    \
            #include \"rocrepro.h\"\n    #include <hip/hiprtc.h>\n    using namespace rocrepro;\n    int main() {{\n      \
            void *p;\n      must(hipMalloc(&p, 1));\n      int a, b;\n      must(hiprtcVersion(&a, &b), \"hipRTC\");\n      \
            status(\"refused\", hiprtcVersion(nullptr, &b), HIPRTC_ERROR_INVALID_INPUT);\n      \
            must(hiprtcVersion(nullptr, &b), \"hipRTC\");\n      return done();\n    }}\nfaults: [copy.zero]\n"
        )
    };
    for (library, wanted) in [
        ("-lhiprtc", "exception:hipRTC_3"),
        ("'-l:libhiprtc.so'", "exception:hipRTC_3"),
        ("-lno-such-library", "skip:needs"),
    ] {
        let (_folder, file) = case("linked", &text(library));
        let (code, records) = run(&file, &[]);
        if code == Some(4) {
            let why = records["linked"]["outcome"]["summary"].as_str().unwrap();
            let lacks = why.contains("libno-such-library") && wanted == "skip:needs";
            assert!(lacks || why.contains("--with dev"), "{why}");
            continue;
        }
        let outcome = &records["linked"]["outcome"];
        let got = signature(&records["linked"]);
        assert!(judge::signature_fits(wanted, got), "{library}: {outcome}");
    }
}

#[test]
fn keeps_every_wrong_check() {
    if !namespaces() {
        return;
    }
    let names: Vec<&str> = WRONG.iter().map(|(name, ..)| *name).collect();
    let mut text = format!(
        "title: Wrong checks\nsource: [this test]\nmatrix:\n  what: [{}]\nprogram:\n  python: |\n    import ctypes, os, threading\n    \
         import rocrepro\n    hip = ctypes.CDLL('libamdhip64.so')\n    place = ctypes.c_void_p()\n    \
         rocrepro.must(hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)))\n    rocrepro.equal('one', 1, 1)\n    \
         what = rocrepro.parameter('what')\n",
        names.join(", ")
    );
    for (name, line, _) in WRONG {
        text.push_str(&format!("    if what == '{name}':\n        {line}\n"));
    }
    text.push_str("    rocrepro.done()\nfaults: [copy.zero]\n");
    let (_folder, file) = case("wrong", &text);
    let (_, records) = run(&file, &[]);
    assert_eq!(records.len(), WRONG.len());
    for (name, line, wanted) in WRONG {
        let record = &records[&format!("wrong[what={name}]")];
        assert!(judge::signature_fits(wanted, signature(record)), "{line}: {}", record["outcome"]);
    }
}

#[test]
fn only_processes_of_the_program_itself_are_leaks() {
    if !namespaces() {
        return;
    }
    let (_folder, file) = case("leaves", LEAVES);
    let (code, records) = run(&file, &["--jobs", "4"]);
    assert_eq!(code, Some(1), "{records:?}");
    for (what, expected, named) in [
        ("second", "pass", None),
        ("sleep", "leak:process", Some("Still running: sleep 1000")),
        ("tracker", "pass", Some(", the resource tracker of Python's multiprocessing")),
        ("group", "leak:process", Some("Still running: sleep 1001")),
    ] {
        let record = &records[&format!("leaves[what={what}]")];
        assert_eq!(signature(record), expected, "{record:#}");
        let details = record["outcome"]["details"].as_array().cloned().unwrap_or_default();
        let is_named = |detail: &Value| {
            detail.as_str().is_some_and(|text| named.is_some_and(|named| text.ends_with(named)))
        };
        assert_eq!(details.len(), usize::from(named.is_some()), "{record:#}");
        assert!(details.iter().all(is_named), "{record:#}");
    }
}

#[test]
fn skips_say_why_pytorch_has_no_gpu() {
    if !namespaces() {
        return;
    }
    let (_folder, file) = case("without-gpu", WITHOUT_GPU);
    let (_, records) = run(&file, &[]);
    for (build, why) in [
        ("rocm", " is built for ROCm 7.2.4, and HIP sees no device"),
        ("cuda", " is a CUDA build (torch.version.hip is None)"),
        ("cpu", " is a CPU build (torch.version.hip is None)"),
        ("gpu", "it wants more"),
    ] {
        let record = &records[&format!("without-gpu[build={build}]")];
        assert_eq!(signature(record), "skip:program", "{record:#}");
        let summary = record["outcome"]["summary"].as_str().unwrap();
        assert!(summary.ends_with(why), "{summary}");
    }
}
