//! Tests `rocrepro record`: calls found by dlsym are recorded with their statuses and contents, and a recording can be
//! read after the program was killed at any moment. Recordings are replayed and compared.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use engine::{
    CaseLibrary,
    recording::{case_of, difference, read},
};
use recorder::trace::{ArgumentValue, CALLS, CONTENTS, ProcessTrace};
use serde_json::Value;

use crate::common::{check_command, rocrepro, wait_until};

/// Program that makes failing and succeeding calls, which it finds by dlsym.
const CALLS_OF_PYTHON: &str = r#"
import ctypes, os, sys
hip = ctypes.CDLL("libamdhip64.so.7")
p = ctypes.c_void_p()
size = ctypes.c_size_t
src = (ctypes.c_char * 64)(*b"x" * 64)
back = (ctypes.c_char * 64)()
codes = [
    hip.hipMalloc(ctypes.byref(p), size(64)),
    hip.hipMemcpy(p, src, size(64), 1),
    hip.hipMemcpy(back, p, size(64), 2),
    hip.hipMemcpy(p, ctypes.c_void_p(8), size(0), 3),
    hip.hipSetDevice(9),
    hip.hipGetLastError(),
    hip.hipFree(p),
]
assert bytes(back) == b"x" * 64
print(*codes)
sys.exit(5)
"#;

const STATUSES: [i32; 7] = [0, 0, 0, 0, 101, 101, 0];

const LOOP: &str = r#"
import ctypes
hip = ctypes.CDLL("libamdhip64.so.7")
p = ctypes.c_void_p()
block = (ctypes.c_char * 4096)()
while True:
    hip.hipMalloc(ctypes.byref(p), ctypes.c_size_t(4096))
    hip.hipMemcpy(p, block, ctypes.c_size_t(4096), 1)
    block.value = bytes([block.raw[0] + 1 & 127])
    hip.hipFree(p)
"#;

fn record(out: &Path, words: &[&str]) -> Command {
    let out = out.display().to_string();
    let on = ["record", "--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];
    rocrepro(&[&on[..], &["--out", &out, "--"], words].concat())
}

fn statuses(trace: &ProcessTrace) -> Vec<i32> {
    trace.calls.iter().map(|(_, end)| end.as_ref().map_or(-1, |end| end.status)).collect()
}

#[test]
fn records_calls_that_are_found_by_dlsym() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("calls");
    let summary = [
        "1 process made 7 calls of HIP, of which 1 failed; the program ended with exit code 5",
        "failed: hipSetDevice returned hipErrorInvalidDevice",
    ];
    let output = check_command(
        record(&out, &["python3", "-c", CALLS_OF_PYTHON]),
        5,
        &["0 0 0 0 101 101 0\n"],
        &summary,
    );
    let trace = read(&out).expect("a recording").remove(0);
    assert_eq!(statuses(&trace), STATUSES, "{output:?}");
    let (copy, _) = &trace.calls[1];
    let arguments = copy.arguments.as_ref().expect("decoded arguments");
    let ArgumentValue::Memory { content: Some(content), .. } = &arguments[1].value else {
        panic!("{copy:?}")
    };
    let stored = fs::read(trace.folder.join(CONTENTS).join(&content.xxh3)).expect("a content");
    assert_eq!(stored, [b'x'; 64]);
    let back = trace.calls[2].1.as_ref().and_then(|end| end.wrote.as_ref());
    assert_eq!(back, Some(content));
    // The folder is not overwritten.
    check_command(record(&out, &["true"]), 2, &[], &["is not empty", "hint: name another folder"]);
}

#[test]
fn each_process_has_a_recording_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, program) = (folder.path().join("calls"), folder.path().join("calls.py"));
    fs::write(&program, CALLS_OF_PYTHON).expect("a program");
    let program = program.display();
    let twice = format!("python3 {program}; python3 {program}; kill -TERM $$");
    let ended = ["2 processes made 14 calls of HIP, of which 2 failed", "ended with signal 15"];
    check_command(record(&out, &["sh", "-c", &twice]), 128 + 15, &[], &ended);
    for trace in read(&out).expect("a recording") {
        assert_eq!(statuses(&trace), STATUSES);
    }
    let other = folder.path().join("other");
    let without = ["0 processes made 0 calls", "the program did not load libamdhip64"];
    check_command(record(&other, &["true"]), 0, &[], &without);
}

fn of_child(out: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find(|path| path.join(CALLS).is_file())
}

fn ended(child: Child) -> Output {
    child.wait_with_output().expect("it ends")
}

#[test]
fn recording_of_a_killed_program_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    for moment in 0..4_u64 {
        let out = folder.path().join(moment.to_string());
        let mut command = record(&out, &["python3", "-c", LOOP]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        let has_calls = || read(&out).is_ok_and(|all| all.iter().any(|it| !it.calls.is_empty()));
        wait_until("no call is recorded", || of_child(&out).is_some() && has_calls());
        std::thread::sleep(Duration::from_micros(7919 * moment * moment));
        let process = of_child(&out).expect("a folder");
        let id = process.file_name().expect("a name").to_string_lossy().parse().expect("an id");
        // SAFETY: the call only sends a signal, to the program that this test started.
        assert_eq!(unsafe { libc::kill(id, libc::SIGKILL) }, 0);
        let output = ended(child);
        assert_eq!(output.status.code(), Some(128 + libc::SIGKILL), "{output:?}");
        let trace = read(&out).expect("a recording").remove(0);
        let (_, returned) = trace.calls.split_last().expect("a call");
        assert!(returned.iter().all(|(_, end)| end.is_some()));
        for (call, _) in returned.iter().filter(|(call, _)| call.function == "hipMemcpy") {
            let arguments = call.arguments.as_ref().expect("decoded arguments");
            let ArgumentValue::Memory { content: Some(content), .. } = &arguments[1].value else {
                panic!("{call:?}")
            };
            let stored = fs::read(process.join(CONTENTS).join(&content.xxh3)).expect("a content");
            assert_eq!(plan::digest(&stored), content.xxh3);
        }
    }
}

/// Program whose calls can all be written as steps of a case: it copies to the device, between buffers and back.
const COPIES: &str = r#"
import ctypes
hip = ctypes.CDLL("libamdhip64.so.7")
size = ctypes.c_size_t
a, b, s = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
src = (ctypes.c_char * 64)(*range(64))
back = (ctypes.c_char * 64)()
hip.hipStreamCreateWithFlags(ctypes.byref(s), 1)
hip.hipMalloc(ctypes.byref(a), size(64))
hip.hipMalloc(ctypes.byref(b), size(64))
hip.hipMemcpy(a, src, size(64), 1)
hip.hipMemsetAsync(b, 7, size(64), s)
hip.hipMemcpyAsync(ctypes.c_void_p(b.value + 16), a, size(32), 3, s)
hip.hipStreamSynchronize(s)
hip.hipMemcpy(back, b, size(64), 2)
hip.hipEventSynchronize(None)
hip.hipGetLastError()
"#;

fn case_new(recording: &Path, case: &Path) -> Command {
    let [recording, case] = [recording, case].map(|path| path.display().to_string());
    rocrepro(&["case", "new", &recording, "--out", &case, "--no-run"])
}

#[test]
fn recorded_calls_become_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, case) = (folder.path().join("calls"), folder.path().join("case.yaml"));
    let summary = ["13 calls of HIP, of which 1 failed", "as a case: rocrepro case new"];
    let program = COPIES
        .replace("hip.hipEventSynchronize(None)\n", "hip.hipMemcpy(a, a, size(1 << 40), 3)\n");
    let program = program + "hip.hipFree(a)\nhip.hipFree(b)\nhip.hipStreamDestroy(s)\n";
    check_command(record(&out, &["python3", "-c", &program]), 0, &[], &summary);
    // The size of a copy that fails is larger than its buffer. No case can state such a copy.
    let too_large =
        ["cannot be steps of a case", "call 8: hipMemcpy: its 1099511627776 bytes exceed a buffer"];
    check_command(case_new(&out, &case), 2, &[], &too_large);
    assert!(!case.exists());

    let out = folder.path().join("other");
    let program = COPIES.replace("hip.hipEventSynchronize(None)", "hip.hipStreamQuery(s)");
    check_command(record(&out, &["python3", "-c", &program]), 0, &[], &["0 failed"]);
    let replaced = "note: the bytes that the program copies from the host are replaced by patterns";
    check_command(case_new(&out, &case), 0, &[], &[replaced]);
    let text = fs::read_to_string(&case).expect("a case");
    for line in [
        "  - fill: h00",
        "  - copy: {to: b00, from: h00}",
        "  - set: {to: b01, value: 7, async: true, stream: s00}",
        "  - copy: {to: b01, from: b00, bytes: 32, to_offset: 16, stream: s00}",
        "  - sync: s00",
        "  - copy: {to: h01, from: b01}",
        "  - check: h01",
        "  - query: s00",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
    let case = case.display().to_string();
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];
    let run = |more: &[&str]| rocrepro(&[&["run", "--cases-from", &case], &on[..], more].concat());
    check_command(run(&[]), 0, &["1 of 1 trial passed"], &[]);
    check_command(run(&["--fault", "copy.zero"]), 1, &["wrong-data"], &[]);
}

#[test]
fn all_calls_without_a_step_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, case) = (folder.path().join("calls"), folder.path().join("case.yaml"));
    let program =
        CALLS_OF_PYTHON.replace("hip.hipSetDevice(9)", "hip.hipHostRegister(src, size(64), 0)");
    check_command(record(&out, &["python3", "-c", &program]), 5, &[], &[]);
    let named =
        ["call 3: hipMemcpy: ", "call 4: hipHostRegister: `hostPtr` is not in recorded memory"];
    check_command(case_new(&out, &case), 2, &[], &named);
}

const ON: [&str; 4] = ["--device", "emulated", "--gfx", "gfx1151"];

/// Compiles a program with the compiler of the release, records it, and makes a case of the recording.
fn case_of_program(folder: &Path, name: &str) -> PathBuf {
    let source = format!("{}/tests/cli/recorded/{name}.hip", env!("CARGO_MANIFEST_DIR"));
    let [program, calls, case] =
        ["program", "calls", "case.yaml"].map(|of| folder.join(format!("{name}-{of}")));
    let program = program.display().to_string();
    let words = ["exec", "--rocm", "debian:7.2.4", "--with", "dev"];
    let compiler = ["--", "hipcc", "--offload-arch=gfx1151", "-O2", &source, "-o", &program];
    check_command(rocrepro(&[&words[..], &ON, &compiler].concat()), 0, &[], &[]);
    check_command(record(&calls, &[&program]), 0, &["0 wrong"], &["0 failed"]);
    check_command(case_new(&calls, &case), 0, &[], &["wrote"]);
    case
}

#[test]
fn kernels_of_compiled_programs_become_files_of_a_case() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["streams", "graph"] {
        let case = case_of_program(folder.path(), name);
        let text = fs::read_to_string(&case).expect("a case");
        assert!(text.contains("needs: {gfx: [gfx1151]}"), "{text}");
        let path = case.display().to_string();
        let run = |rocm: &str, more: &[&str]| {
            let words = ["run", &path, "--trust", "--rocm", rocm];
            rocrepro(&[&words[..], &ON, more].concat())
        };
        // The program compares its results itself, so it has the same verdicts as the case.
        check_command(run("debian:7.2.4", &[]), 0, &["1 of 1 trial passed"], &[]);
        check_command(run("debian:6.4.3", &[]), 0, &["1 of 1 trial passed"], &[]);
        for fault in ["kernel.drop", "copy.zero"] {
            let program = folder.path().join(format!("{name}-program")).display().to_string();
            let words = ["exec", "--rocm", "debian:7.2.4", "--fault", fault];
            check_command(
                rocrepro(&[&words[..], &ON, &["--", &program]].concat()),
                1,
                &["wrong"],
                &[],
            );
            check_command(run("debian:7.2.4", &["--fault", fault]), 1, &["wrong-data"], &[]);
        }
        let export = ["export", &path, "--trust", "--rocm", "debian:7.2.4"];
        let refused = ["cannot be exported: kernel `k00` (line ", "and a program has no files"];
        check_command(rocrepro(&[&export[..], &ON].concat()), 2, &[], &refused);
        // Files of a case that is not trusted are not read.
        let on = ["run", "--cases-from", &path, "--rocm", "debian:7.2.4"];
        let untrusted = ["is a code object, whose content nothing checks", "add `--trust`"];
        check_command(rocrepro(&[&on[..], &ON].concat()), 2, &[], &untrusted);
        // The recording has the same verdicts as the case.
        let calls = folder.path().join(format!("{name}-calls")).display().to_string();
        let replay = |rocm: &str, more: &[&str]| {
            rocrepro(&[&["run", &calls, "--rocm", rocm], &ON[..], more].concat())
        };
        let untrusted = ["has kernels of its own, whose code nothing checks", "add `--trust`"];
        check_command(replay("debian:7.2.4", &[]), 2, &[], &untrusted);
        check_command(replay("debian:6.4.3", &["--trust"]), 0, &["1 of 1 trial passed"], &[]);
        let differs = ["wrong-data", "first unexpected result is that of call "];
        let drop = ["--trust", "--fault", "kernel.drop"];
        check_command(replay("debian:7.2.4", &drop), 1, &differs, &[]);
    }
}

/// Records [`COPIES`] in the folder `name`, with more options.
fn record_copies(folder: &Path, name: &str, more: &[&str]) -> String {
    let out = folder.join(name);
    let path = out.display().to_string();
    let on = ["record", "--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];
    let program = COPIES.replace("hip.hipEventSynchronize(None)", "hip.hipStreamQuery(s)");
    let words = ["--out", &path, "--", "python3", "-c", &program];
    check_command(rocrepro(&[&on[..], more, &words].concat()), 0, &[], &["10 calls of HIP"]);
    path
}

#[test]
fn recording_is_accepted_in_place_of_a_case_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = record_copies(folder.path(), "copies.trace", &[]);
    let words = |command: &str, rocm: &str, more: &[&str]| {
        rocrepro(&[&[command, &calls, "--rocm", rocm], &ON[..], more].concat())
    };
    let run = |rocm: &str, more: &[&str]| words("run", rocm, more);
    let replaced =
        ["note: the bytes that the program copies from the host are replaced by patterns"];
    check_command(run("debian:7.2.4", &[]), 0, &["1 of 1 trial passed"], &replaced);
    check_command(run("debian:6.4.3", &[]), 0, &["1 of 1 trial passed"], &replaced);
    // The first call with another result is named by its number in the recording, with both results.
    let wrong_bytes = [
        "wrong-data:h01:zero",
        "got at 0x0000: 00 00",
        "right at 0x0000: 07 07",
        "result is that of call 7 of the recording, hipMemcpy;",
        "Again: rocrepro run copies --rocm debian:7.2.4 --device emulated --gfx gfx1151 --cases-from ",
    ];
    check_command(run("debian:7.2.4", &["--fault", "copy.zero"]), 1, &wrong_bytes, &[]);
    let refused = [
        "hipMemsetAsync",
        "hipErrorInvalidValue",
        "result is that of call 4 of the recording, hipMemsetAsync;",
    ];
    let fault = "call.refused,call=hipMemsetAsync,status=hipErrorInvalidValue";
    check_command(run("debian:7.2.4", &["--fault", fault]), 1, &refused, &[]);
    // The folder of the process is a recording too, and the printed command works.
    let process = of_child(Path::new(&calls)).expect("a folder").display().to_string();
    let again = ["run", "--cases-from", &process, "--rocm", "debian:7.2.4"];
    check_command(rocrepro(&[&again[..], &ON].concat()), 0, &["1 of 1 trial passed"], &[]);

    let small = folder.path().join("small").display().to_string();
    let smaller = ["--fault", "copy.zero", "--out", &small];
    check_command(words("minimise", "debian:7.2.4", &smaller), 0, &["wrong-data:h01:zero"], &[]);
    check_command(words("prove", "debian:7.2.4", &[]), 0, &["1 of 1 injected fault detected"], &[]);
    let program = folder.path().join("program.cpp").display().to_string();
    check_command(words("export", "debian:7.2.4", &["--out", &program]), 0, &[], &[]);
    assert!(fs::read_to_string(program).expect("a program").contains("hipMemsetAsync"));
    check_command(
        rocrepro(&["case", "explain", &calls]),
        0,
        &["The recorded calls of copies"],
        &[],
    );
    check_command(rocrepro(&["case", "check", &calls]), 0, &["1 case is well-formed"], &[]);
}

#[test]
fn recording_that_cannot_be_replayed_is_refused_with_all_reasons() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("calls.trace");
    let run = |out: &Path, more: &[&str]| {
        let out = out.display().to_string();
        rocrepro(&[&["run", &out], &ON[..], more].concat())
    };
    let program =
        CALLS_OF_PYTHON.replace("hip.hipSetDevice(9)", "hip.hipHostRegister(src, size(64), 0)");
    check_command(record(&out, &["python3", "-c", &program]), 5, &[], &[]);
    let reasons = [
        "cannot be steps of a case",
        "call 3: hipMemcpy: ",
        "call 4: hipHostRegister: `hostPtr` is not in recorded memory",
    ];
    check_command(run(&out, &[]), 2, &[], &reasons);
    let empty = folder.path().join("empty.trace");
    fs::create_dir(&empty).expect("a folder");
    check_command(run(&empty, &[]), 2, &[], &["has no recorded call", "hint: record a program"]);
    // Two recordings would be two cases of different origins.
    let both = out.display().to_string();
    check_command(run(&empty, &[&both]), 2, &[], &["only one case file can be named"]);
}

#[test]
fn recordings_of_a_program_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = record_copies(folder.path(), "good", &[]);
    let again = record_copies(folder.path(), "again", &[]);
    let bad = record_copies(folder.path(), "bad", &["--fault", "copy.zero"]);
    let diff = |words: &[&str]| rocrepro(&[&["records", "diff"], words].concat());
    check_command(diff(&[&good, &again]), 0, &["10 calls are the same\n"], &[]);
    let shown = [
        "process 1, thread 1: the first calls that differ",
        "call 7: hipMemcpy(dst=address of the program, 64 bytes, src=`ptr` of call 2, 64 bytes,",
        "from byte 0 of 64: 07 07 07",
        "from byte 0 of 64: 00 00 00",
        "9 calls are the same, 1 is only in ",
    ];
    check_command(diff(&[&good, &bad]), 1, &shown, &[]);
    let output = check_command(diff(&[&good, &bad, "--json"]), 1, &[], &[]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&json["same"], &json["missing"], &json["additional"]),
        (&9.into(), &1.into(), &1.into())
    );
    let first = &json["threads"][0]["first"];
    assert_eq!(
        (&first["old"]["number"], &first["new"]["function"]),
        (&7.into(), &"hipMemcpy".into())
    );
    assert_eq!(first["parts"][0]["part"], "bytes that the call copied");

    let file = folder.path().join("runs.jsonl").display().to_string();
    fs::write(&file, "").expect("a file");
    for words in [[&good, &file], [&file, &good]] {
        let words = words.map(String::as_str);
        let mixed = ["is a recording, but `", "runs.jsonl` is not", "hint: name two folders"];
        check_command(diff(&words), 2, &[], &mixed);
    }
    let stored = ["`--store` selects runs, but recordings are named", "hint: leave out `--store`"];
    check_command(diff(&[&good, &bad, "--store", &file]), 2, &[], &stored);
}

#[test]
fn recording_is_read_up_to_any_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = PathBuf::from(record_copies(folder.path(), "calls.trace", &[]));
    let whole = read(&out).expect("a recording");
    let kernels = CaseLibrary::shipped_kernels();
    let calls = of_child(&out).expect("a folder").join(CALLS);
    let bytes = fs::read(&calls).expect("a file");
    for cut in 0..=bytes.len() {
        fs::write(&calls, &bytes[..cut]).expect("a file");
        let part = read(&out).unwrap_or_else(|error| panic!("{cut}: {error}"));
        let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        let returned = part[0].calls.iter().filter(|(_, end)| end.is_some()).count();
        let open = part[0].calls.len() - returned;
        // The first line describes the process. Each call has a line, and another one if it returned.
        assert_eq!((2 * returned + open, open <= 1), (lines.saturating_sub(1), true), "{cut}");
        let found = difference(&whole, &part);
        let counts = (found.same, found.missing, found.additional);
        assert_eq!(counts, (returned, 10 - returned, open), "{cut}");
        // A conversion takes longer, so it is tried only where a line ends, and one byte before.
        if bytes[..cut].ends_with(b"\n") || bytes[cut..].starts_with(b"\n") {
            let refused = case_of(&out, &kernels).err().map(|stop| stop.to_string());
            let names_open_call = refused.is_some_and(|why| why.contains(" did not return"));
            assert_eq!(names_open_call, open == 1, "{cut}");
        }
    }
}
