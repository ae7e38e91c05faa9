//! Tests what a record and a report say about a program that crashes.

use std::fs;

use serde_json::Value;

use super::{call_faults::fetch, case, rocrepro, run, shown, signature};

/// A program that crashes in the way that its parameter names.
const CRASHES: &str = r#"title: Ends of programs that crash
source: [this test]
needs: {with: dev}
matrix:
  what: [call, own, thread, abort, exit, exit-call, null]
program:
  cpp: |
    #include "rocrepro.h"
    #include <cstdlib>
    #include <string>
    #include <thread>
    #include <unistd.h>

    static int *volatile nowhere = nullptr;

    __attribute__((noinline)) void write_nowhere() { *nowhere = 1; }

    static void (*volatile none)() = nullptr;

    __attribute__((noinline)) void copy_nowhere() {
      hipMemcpy(reinterpret_cast<void *>(16), reinterpret_cast<void *>(8), 4, hipMemcpyHostToHost);
    }

    struct Last {
      bool dies = false, calls = false;
      ~Last() {
        if (dies) write_nowhere();
        if (calls) copy_nowhere();
      }
    };

    int main() {
      using namespace rocrepro;
      static Last last;
      const std::string what = parameter("what");
      int *p, got = 0;
      must(hipMalloc(&p, 4));
      equal("a", 1, 1);
      if (what == "call") copy_nowhere();
      if (what == "own") write_nowhere();
      if (what == "null") none();
      if (what == "thread") {
        hipStream_t stream;
        must(hipStreamCreate(&stream));
        must(hipLaunchHostFunc(stream, [](void *) { sleep(600); }, nullptr));
        std::thread([] { sleep(1); write_nowhere(); }).detach();
        must(hipStreamSynchronize(stream));
      }
      if (what == "abort" && hipFree(reinterpret_cast<void *>(8)) != hipSuccess) std::abort();
      last.dies = what == "exit";
      last.calls = what == "exit-call";
      return done();
    }
faults: [copy.zero]
"#;

fn summary(record: &Value) -> &str {
    record["outcome"]["summary"].as_str().expect("a summary")
}

fn stacks(record: &Value) -> Vec<&str> {
    let lines = record["stacks"].as_array().expect("stacks");
    lines.iter().map(|line| line.as_str().expect("a line")).collect()
}

#[test]
fn record_names_the_call_or_the_own_code() {
    fetch("debian:7.2.4", &["--with", "dev"]);
    let (_folder, file) = case("crashes", CRASHES);
    let (code, records) = run(&file, &[]);
    assert_eq!(code, Some(1));
    let check = |what: &str, wanted: &str, start: &str, end: &str, call: Option<&str>| {
        let record = &records[&format!("crashes[what={what}]")];
        let summary = summary(record);
        assert_eq!(signature(record), wanted, "{record:#}");
        assert!(summary.starts_with(start) && summary.ends_with(end), "{what}: {summary}");
        assert_eq!(record["outcome"]["at"]["api"].as_str(), call, "{record:#}");
        let stacks = stacks(record);
        assert!(stacks[0].contains("` died of SIG") && stacks[0].contains(" < "), "{stacks:?}");
        assert!(stacks.iter().any(|line| line.contains(" has build id ")), "{stacks:?}");
    };
    let segv = "crash:program:SIGSEGV";
    let in_call = "the program died of SIGSEGV in hipMemcpy";
    check("call", segv, in_call, in_call, Some("hipMemcpy"));
    let own = "no HIP call was running: the program died of SIGSEGV in its own code, ";
    check("own", segv, own, "write_nowhere+0xb", None);
    check("null", segv, &format!("{own}main+0x"), "", None);
    check(
        "thread",
        segv,
        "the program died of SIGSEGV in its own code, write_nowhere+0x",
        ", in a thread that ran no HIP call; another thread was in hipStreamSynchronize",
        None,
    );
    let abort = "no HIP call was running: the program died of SIGABRT in its own code, main+0x";
    check("abort", "crash:program:SIGABRT", abort, "", None);
    let after = ", after it had reported its end";
    check("exit", "teardown-crash", &format!("{own}write_nowhere+0x"), after, None);
    // It depends on the release which of HIP's libraries detects the call after its end.
    check("exit-call", "teardown-crash", "the program died of SIG", after, Some("hipMemcpy"));
    assert!(summary(&records["crashes[what=exit-call]"]).contains(" in hipMemcpy"));
}

/// In releases before 6.2, the call stack contains the exported function. In later releases, the exported function
/// jumps to another one, and the call stack contains only that one.
#[test]
fn crash_is_named_in_each_release() {
    let (_folder, file) = case("crashes", CRASHES);
    for (stack, gfx) in [("debian:5.7.1", "gfx90a"), ("debian:6.4.3", "gfx90a")] {
        fetch(stack, &["--with", "dev"]);
        let output = rocrepro(&[
            "run",
            "crashes[what=call]",
            "--cases-from",
            file.to_str().expect("text"),
            "--trust",
            "--rocm",
            stack,
            "--device",
            "emulated",
            "--gfx",
            gfx,
        ]);
        let printed = shown(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(printed.contains("\n    the program died of SIGSEGV in hipMemcpy\n"), "{printed}");
    }
}

#[test]
fn report_names_the_call() {
    fetch("debian:7.2.4", &["--with", "dev"]);
    let (folder, file) = case("crashes", CRASHES);
    let report = |trial: &str| {
        let out = folder.path().join(trial);
        let [file, to] = [&file, &out].map(|path| path.to_str().expect("text"));
        let subject = format!("crashes[what={trial}]");
        let output = rocrepro(&[
            "report",
            &subject,
            "--cases-from",
            file,
            "--trust",
            "--rocm",
            "debian:7.2.4",
            "--device",
            "emulated",
            "--gfx",
            "gfx1151",
            "--out",
            to,
            "--anyway",
            "--budget-seconds",
            "1",
        ]);
        assert!(output.status.success(), "{}", shown(&output));
        fs::read_to_string(out.join("report.md")).expect("a report")
    };
    let text = report("call");
    for words in [
        "<!-- title: [Issue]: the program dies of SIGSEGV in hipMemcpy",
        "The program died of SIGSEGV in hipMemcpy",
        "Call stacks of the threads of a failing run when it crashed",
        "libc.so.6 has build id ",
    ] {
        assert!(text.contains(words), "no {words:?}: {text}");
    }
    let text = report("own");
    let own =
        "no HIP call was running: the program died of SIGSEGV in its own code, write_nowhere+0x";
    assert!(text.contains(own), "{text}");
    assert!(!text.contains("SIGSEGV in `"), "{text}");
}
