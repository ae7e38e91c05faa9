//! Tests `rocrepro run --sanitize` with GPU kernels that contain deliberate mistakes, and with correct ones.

use std::process::{Command, Stdio};

const SUM: &str = include_str!("../../../../kernels/sum_u32.hip");
const ADD: &str = include_str!("../../../../kernels/add_u32.hip");

const SUM_CASE: &str = "\
title: A sum through local memory
about: One workgroup of several waves.
source: [made for this test]
buffers:
  src: {on: device, bytes: 1028, fill: pattern}
  sum: {on: device, bytes: 4, fill: zero}
steps:
  - launch: {kernel: sum_u32, args: [sum, src, 257]}
expect:
  - check: sum
faults: [kernel.drop]
";

const ADD_CASE: &str = "\
title: An output that was never written before
about: The kernel overwrites it, and may not read it.
source: [made for this test]
buffers:
  src: {on: device, bytes: 400, fill: pattern}
  dst: {on: device, bytes: 400}
steps:
  - launch: {kernel: add_u32, args: [dst, src, 100, 3], items: 100}
expect:
  - check: dst
faults: [kernel.drop]
";

const STREAMS_CASE: &str = "\
title: Two streams share what they read
about: Neither may write it.
source: [made for this test]
buffers:
  src: {on: device, bytes: 400, fill: pattern}
  dst: {on: device, bytes: 400}
  out: {on: device, bytes: 400}
steps:
  - launch: {kernel: add_u32, args: [dst, src, 100, 3], items: 100, stream: s}
  - copy: {to: out, from: src, stream: t}
  - sync: s
  - sync: t
expect:
  - check: dst
  - check: out
faults: [kernel.drop]
";

/// Returns the sanitizer's first finding in a case with this GPU kernel, without addresses and offsets. Returns an
/// empty string if the case passes.
fn report(case: &str, kernel: (&str, &str)) -> String {
    let stdout = run(case, kernel, "--sanitize");
    let found = stdout.split_once("the sanitizer found: ").map(|(_, rest)| rest);
    plain(found.and_then(|text| text.lines().next()).unwrap_or_default())
}

fn plain(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let number = word.trim_start_matches('+').trim_end_matches([',', ';', ':']);
        if number.starts_with("0x") { word.replace(number, "0x...") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Runs a case with this GPU kernel, and checks that it fails if and only if the sanitizer found a mistake. Returns
/// standard output.
fn run(case: &str, kernel: (&str, &str), sanitize: &str) -> String {
    let (status, stdout) = at(case, kernel, &[sanitize, "--schedule", "lazy"]);
    let expected = if stdout.contains("the sanitizer found: ") { 1 } else { 0 };
    assert_eq!(status, Some(expected), "{stdout}");
    stdout
}

/// Runs a case with this GPU kernel. Returns the exit status and standard output.
fn at(case: &str, kernel: (&str, &str), options: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("it is written");
    };
    write("it.yaml", case);
    write(&format!("{}.hip", kernel.0), kernel.1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["run", "--cases-from", ".", "--trust", "--device", "emulated"]);
    command.args(["--rocm", "debian:7.2.4", "--gfx", "gfx1151"]).args(options);
    command.current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    eprintln!("{}\n{stdout}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    (output.status.code(), stdout)
}

/// Each mistake is reported once, no matter how many workgroups make it.
#[test]
fn reports_each_mistake_once_or_stops_at_the_first() {
    let case = ADD_CASE.replace("bytes: 400", "bytes: 4000").replace("100", "1000");
    let wrong = ADD.replace(
        "dst[i] = src[i] + k;",
        "dst[i] = src[i] + k + (dst[i] == 77u) + (src[n] == 77u); if (i == n - 1) dst[n] = 7;",
    );
    assert_ne!(wrong, ADD);
    let printed = |sanitize| {
        let stdout = run(&case, ("add_u32", &wrong), sanitize);
        let lines = stdout.lines().map(str::trim);
        let is_told = |line: &&str| {
            line.get(..13).is_some_and(|start| start.eq_ignore_ascii_case("the sanitizer"))
        };
        let about = lines.filter(is_told);
        let all: Vec<_> = about.map(plain).collect();
        all.join("\n")
    };
    insta::assert_snapshot!("all_mistakes", printed("--sanitize"));
    insta::assert_snapshot!("the_first_mistake", printed("--sanitize=stop"));
}

/// The load is in inline assembly, for which the compiler does not insert a wait.
#[test]
fn finds_a_missing_wait_that_corrupts_late_results() {
    let wait = |wait: &str| {
        let load = format!(
            "unsigned v; asm volatile(\"global_load_b32 %0, %1, off{wait}\" : \"=&v\"(v) : \"v\"(src + i));"
        );
        let kernel = ADD.replace("dst[i] = src[i] + k;", &format!("{{ {load} dst[i] = v + k; }}"));
        assert_ne!(kernel, ADD);
        kernel
    };
    let (wrong, right) = (wait(""), wait("\\ns_waitcnt vmcnt(0)"));
    assert_eq!(report(ADD_CASE, ("add_u32", &right)), "");
    insta::assert_snapshot!(report(ADD_CASE, ("add_u32", &wrong)));
    let numbers = |kernel: &str| {
        let (status, stdout) = at(ADD_CASE, ("add_u32", kernel), &["--schedule", "late-results"]);
        (status, stdout.contains("wrong-data:dst"))
    };
    assert_eq!(numbers(&right), (Some(0), false));
    assert_eq!(numbers(&wrong), (Some(1), true));
}

/// The first workgroups wait for the last ones, so all of them must make progress.
#[test]
fn completes_a_barrier_of_the_grid() {
    let case = ADD_CASE.replace("bytes: 400", "bytes: 4000").replace("100", "1000");
    let meet = "
      __syncthreads();
      if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1);
        while (__hip_atomic_load(&arrived, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) < gridDim.x) {}
      }
      __syncthreads();
      if (i < n) dst[i] = src[i] + k;";
    let kernel = ADD.replace("extern", "__device__ unsigned arrived;\nextern");
    let kernel = kernel.replace("if (i < n) dst[i] = src[i] + k;", meet);
    assert!(kernel.contains("arrived, 1") && kernel.contains("unsigned arrived;"), "{kernel}");
    for options in [&[][..], &["--sanitize"]] {
        let (status, stdout) = at(&case, ("add_u32", &kernel), options);
        assert_eq!(status, Some(0), "{stdout}");
    }
}

/// All workgroups wait for a flag that is never set.
#[test]
fn reports_workgroups_that_wait_for_ever_as_hung() {
    let kernel = ADD.replace("extern", "__device__ unsigned flag;\nextern").replace(
        "if (i < n) dst[i] = src[i] + k;",
        "while (__hip_atomic_load(&flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) != 7) {} dst[i] = k;",
    );
    assert!(kernel.contains("flag;") && kernel.contains("&flag"), "{kernel}");
    let options = ["--device-option", "patience=1", "--quiet-timeout", "6"];
    let (status, stdout) = at(ADD_CASE, ("add_u32", &kernel), &options);
    assert_eq!(status, Some(1), "{stdout}");
    assert!(stdout.contains("hang:"), "{stdout}");
    // The message contains the polling instruction and the address of the flag.
    let line = stdout.lines().find(|line| line.contains("The device reports a hang"));
    let line = line.unwrap_or_default();
    assert!(line.contains("kernel add_u32: wave 0 of workgroup 0 waits at `"), "{stdout}");
    assert!(line.contains("for another value at 0x"), "{stdout}");
}

/// One kernel has no fence, and another no atomic operation. In the correct kernel, the sanitizer finds nothing.
#[test]
fn finds_races_of_workgroups() {
    let case = ADD_CASE.replace("bytes: 400", "bytes: 4000").replace("100", "1000");
    let last = "
      __shared__ bool last;
      if (i < n) dst[i] = src[i] + k;
      __syncthreads();
      if (threadIdx.x == 0) { FENCE; last = atomicAdd(&arrived, 1) == gridDim.x - 1; }
      __syncthreads();
      if (last) { FENCE; if (threadIdx.x == 0) dst[5] += dst[n - 1] - src[n - 1] - k; }";
    let kernel = |last: &str, fence: &str| {
        let kernel = ADD.replace("extern", "__device__ unsigned arrived;\nextern");
        let kernel = kernel.replace("if (i < n) dst[i] = src[i] + k;", last);
        kernel.replace("FENCE", fence)
    };
    let right = kernel(last, "__threadfence()");
    assert!(right.contains("last = ") && right.contains("unsigned arrived;"), "{right}");
    assert_eq!(report(&case, ("add_u32", &right)), "");
    let unfenced = kernel(last, "asm volatile(\"\" ::: \"memory\")");
    let found = report(&case, ("add_u32", &unfenced));
    let is_missing = |why: &str| found.contains(why);
    assert!(found.starts_with("kernel add_u32: race of workgroups at "), "{found}");
    assert!(
        is_missing("before its earlier write has reached")
            || is_missing("has not invalidated its caches"),
        "{found}"
    );
    assert!(found.contains("in wave 0 of workgroup "), "{found}");
    let counts = kernel("if (i < n) { dst[i] = src[i] + k; arrived += src[i] | 1; }", "");
    let found = report(&case, ("add_u32", &counts));
    assert!(found.starts_with("kernel add_u32: race of waves of a workgroup at "), "{found}");
    assert!(found.contains("nothing orders them"), "{found}");
}

#[test]
fn finds_a_missing_barrier() {
    assert_eq!(report(SUM_CASE, ("sum_u32", SUM)), "");
    let wrong = SUM.replace("    __syncthreads();\n  }\n", "  }\n");
    assert_ne!(wrong, SUM);
    insta::assert_snapshot!(report(SUM_CASE, ("sum_u32", &wrong)));
}

#[test]
fn finds_work_with_never_written_memory() {
    assert_eq!(report(ADD_CASE, ("add_u32", ADD)), "");
    let wrong = ADD.replace("src[i] + k;", "src[i] + k + (dst[i] == 77u);");
    assert_ne!(wrong, ADD);
    insta::assert_snapshot!(report(ADD_CASE, ("add_u32", &wrong)));
}

#[test]
fn finds_accesses_just_outside_a_buffer() {
    for (name, line) in [
        ("read_behind", "dst[i] = src[i] + k + (src[n] == 77u);"),
        ("write_before", "dst[i] = src[i] + k; dst[-1] = 7;"),
    ] {
        let wrong = ADD.replace("dst[i] = src[i] + k;", line);
        assert_ne!(wrong, ADD);
        insta::assert_snapshot!(name, report(ADD_CASE, ("add_u32", &wrong)));
    }
}

#[test]
fn finds_unordered_accesses() {
    assert_eq!(report(STREAMS_CASE, ("add_u32", ADD)), "");
    let wrong =
        ADD.replace("dst[i] = src[i] + k;", "dst[i] = const_cast<unsigned*>(src)[i]++ + k;");
    assert_ne!(wrong, ADD);
    insta::assert_snapshot!(report(STREAMS_CASE, ("add_u32", &wrong)));
}

#[test]
fn records_requested_runs_without_the_explaining_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    // In this variant of the case, the copy comes before the kernel that writes the copied buffer.
    let (launch, copy) = STREAMS_CASE.split_once("  - copy").expect("a copy");
    let (head, launch) = launch.split_once("  - launch").expect("a launch");
    let (copy, tail) = copy.split_once('\n').expect("more steps");
    let case = format!("{head}  - copy{copy}\n  - launch{launch}{tail}");
    // The kernel is slow, so a copy that begins at the same time ends before the kernel.
    let kernel = "{
    unsigned x = src[i];
    for (unsigned r = 0; r < 300000; r++) x = x * 1664525u + 1013904223u;
    asm volatile(\"\" :: \"v\"(x));
    dst[i] = const_cast<unsigned*>(src)[i]++ + k;
  }";
    std::fs::write(at("it.yaml"), case).expect("it is written");
    std::fs::write(at("add_u32.hip"), ADD.replace("dst[i] = src[i] + k;", kernel))
        .expect("it is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args([
        "prove",
        "--cases-from",
        ".",
        "--trust",
        "--schedules",
        "1",
        "--record",
        "record.jsonl",
    ]);
    command.args(["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"]);
    command.current_dir(folder.path()).stdin(Stdio::null());
    // On a busy machine, the race may also show in the run on the healthy device, where the copy is first. Then there
    // is nothing to compare.
    for _ in 0..20 {
        let output = command.output().expect("it starts");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let shown = format!("{}\n{stdout}\n{stderr}", output.status);
        let record = std::fs::read_to_string(at("record.jsonl")).expect("it was written");
        assert_eq!(output.status.code(), Some(1), "{shown}");
        if stdout.contains("RED it on the healthy device") {
            std::fs::remove_file(at("record.jsonl")).expect("it is there");
            continue;
        }
        assert!(
            stdout.contains("RACY it") && stdout.contains("--schedule lazy --sanitize:"),
            "{shown}"
        );
        // There is one record each of the healthy device, of the fault, and of the lazy schedule.
        let records = report::records(&record).expect("records");
        assert_eq!(records.len(), 3, "{shown}\n{record}");
        assert!(!record.contains("--sanitize"), "{record}");
        return;
    }
    panic!("the race showed in the first order each time");
}
