//! Tests devices with unusual properties, as the released HIP runtime reports them, and cases on these devices.

use std::{
    ffi::{c_int, c_void},
    process::Command,
};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// Environment variable that is set when this test runs itself as a program with the stack's libraries.
const INSIDE: &str = "ROCREPRO_TEST_INSIDE";

/// Values of `hipDeviceAttribute_t` in ROCm 7.2.4, hip/hip_runtime_api.h.
const WARP_SIZE: c_int = 87;

macro_rules! call {
    ($hip:expr, $name:ident($($value:expr => $type:ty),*)) => {{
        // SAFETY: the name and type of the function are those in hip/hip_runtime_api.h, and the pointers are to live
        // values.
        let code = unsafe {
            let function: libloading::os::unix::Symbol<unsafe extern "C" fn($($type),*) -> c_int> =
                $hip.get(concat!(stringify!($name), "\0").as_bytes()).expect(stringify!($name));
            function($($value),*)
        };
        assert_eq!(code, 0, stringify!($name));
    }};
}

const MIB: usize = 1 << 20;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;

/// Prints the properties that HIP reports for each device, and copies between each pair of devices.
fn inside() {
    // SAFETY: this is the library of the stack, whose initialisers are intended to run.
    let hip = unsafe { Library::open(Some("libamdhip64.so.7"), RTLD_NOW | RTLD_GLOBAL) };
    let hip = hip.expect("it is in the stack");
    let mut devices = 0;
    call!(hip, hipGetDeviceCount(&mut devices => *mut c_int));
    let mut blocks = Vec::new();
    for device in 0..devices {
        call!(hip, hipSetDevice(device => c_int));
        let (mut free, mut total, mut wave) = (0, 0, 0);
        call!(hip, hipMemGetInfo(&mut free => *mut usize, &mut total => *mut usize));
        call!(hip, hipDeviceGetAttribute(&mut wave => *mut c_int, WARP_SIZE => c_int, device => c_int));
        let mut block = std::ptr::null_mut();
        call!(hip, hipMalloc(&mut block => *mut *mut c_void, MIB => usize));
        let mut left = 0;
        call!(hip, hipMemGetInfo(&mut left => *mut usize, &mut total => *mut usize));
        assert!(free <= total && left + MIB <= free, "{left} {free} {total}");
        println!("device {device}: {} MiB, wave {wave}", total / MIB);
        blocks.push(block);
    }
    for (from, source) in (0..devices).zip(&blocks) {
        for (to, target) in (0..devices).zip(&blocks).filter(|(to, _)| *to != from) {
            let mut can = 0;
            call!(hip, hipDeviceCanAccessPeer(&mut can => *mut c_int, to => c_int, from => c_int));
            let wanted: Vec<u8> = (0..MIB).map(|n| (n * 7 + n / 251) as u8 ^ from as u8).collect();
            let mut got = vec![0_u8; MIB];
            call!(hip, hipMemcpy(*source => *mut c_void, wanted.as_ptr().cast() => *const c_void, MIB => usize, HOST_TO_DEVICE => c_int));
            call!(hip, hipMemset(*target => *mut c_void, 0x5a => c_int, MIB => usize));
            call!(hip, hipMemcpyPeer(*target => *mut c_void, to => c_int, *source => *const c_void, from => c_int, MIB => usize));
            call!(hip, hipMemcpy(got.as_mut_ptr().cast() => *mut c_void, *target => *const c_void, MIB => usize, DEVICE_TO_HOST => c_int));
            println!(
                "{from} to {to}: {}, access {can}",
                if got == wanted { "arrived" } else { "WRONG" }
            );
        }
    }
}

fn rocrepro(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).args(["--rocm", "debian:7.2.4", "--device", "emulated"]);
    command.env_remove("ROCREPRO_GFX");
    command
}

fn options(given: &str) -> impl Iterator<Item = String> {
    given.split_whitespace().map(|option| format!("--device-option={option}"))
}

/// Compares the properties and copies of devices with these options with the expected text.
#[track_caller]
fn check(gfx: &str, given: &str, expected: &str) {
    let myself = std::env::current_exe().expect("it runs");
    let mut command = rocrepro(&["exec", "--gfx", gfx]);
    command.arg(format!("--env={INSIDE}=1")).args(options(given)).arg(myself);
    command.args(["--exact", "devices::reports_device_options_through_hip", "--nocapture"]);
    let output = command.output().expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let printed: Vec<&str> =
        stdout.lines().filter(|l| l.starts_with("device") || l.contains(" to ")).collect();
    assert_eq!(printed.join("\n"), expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn reports_device_options_through_hip() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    check("gfx1151", "", "device 0: 4096 MiB, wave 32");
    check("gfx90a", "", "device 0: 4096 MiB, wave 64");
    check("gfx1100", "memory=64M", "device 0: 64 MiB, wave 32");
    check("gfx942", "large-bar=yes", "device 0: 4096 MiB, wave 64");
    // This is a Strix Halo: the firmware reserves 512 MiB for the GPU, and the GPU may use host memory too.
    check("gfx1151", "memory=512M gtt=96G", "device 0: 98816 MiB, wave 32");
    check("gfx1151", "memory=512M gtt=96G large-bar=yes", "device 0: 98816 MiB, wave 32");
    check(
        "gfx1100",
        "devices=2 memory=256M",
        "device 0: 256 MiB, wave 32\n\
         device 1: 256 MiB, wave 32\n\
         0 to 1: arrived, access 1\n\
         1 to 0: arrived, access 1",
    );
}

/// HIP keeps the kernel arguments of a graph in device memory if the host can access all of it (large BAR).
#[test]
fn selects_the_device_that_a_case_needs() {
    let run = |gfx: &str, given: &str, trial: &str| {
        let mut command = rocrepro(&["run", trial, "--gfx", gfx]);
        let output = command.args(options(given)).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let case = "graphs/updates-take-no-memory";
    for gfx in ["gfx1100", "gfx942"] {
        let (code, text) = run(gfx, "", case);
        assert_eq!(code, Some(0), "{gfx}: {text}");
        assert!(text.contains("1 passed, 1 failed as known"), "{gfx}: {text}");
    }
    // The command line takes precedence over the case, so a trial that needs another device is skipped.
    let (code, text) = run("gfx942", "large-bar=no", case);
    assert_eq!(code, Some(0), "{text}");
    let why =
        "needs a device with large-bar=yes, but `--device-option large-bar=no` contradicts it";
    assert!(text.contains("1 passed, 1 skipped") && text.contains(why), "{text}");

    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("r.jsonl");
    let record = record.to_str().expect("a path");
    let mut command = rocrepro(&["run", &format!("{case}[large_bar=yes]"), "--record", record]);
    assert!(command.args(["--gfx", "gfx1100"]).output().expect("it starts").status.success());
    let records = std::fs::read_to_string(record).expect("a record");
    let record: serde_json::Value = records
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .find(|line: &serde_json::Value| line["outcome"].is_object())
        .expect("a trial");
    assert_eq!(record["device"]["identity"]["config"]["large_bar"], true, "{record}");
    let again = record["again"].as_str().unwrap_or_default();
    assert!(again.contains("--device-option 'large-bar=yes'"), "{again}");
    let explain = Command::new(env!("CARGO_BIN_EXE_rocrepro")).args(["explain", case]).output();
    let text = String::from_utf8_lossy(&explain.expect("it starts").stdout).into_owned();
    assert!(text.contains("a device with large-bar=$large_bar"), "{text}");
}

#[test]
fn rejects_gtt_memory_on_discrete_gpus() {
    let mut command = rocrepro(&["run", "copies/tensors", "--gfx", "gfx1100"]);
    let output = command.args(options("gtt=1G")).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("gfx1100 has no GTT, which only APUs have: gfx1103, gfx1150"),
        "{stderr}"
    );
}

/// A case with two blocks. The memory of carve-out and GTT together has room for only one of them at a time.
const BEYOND: &str = "\
title: More than the carve-out comes out of GTT
source: [made for this test]
buffers:
  first: {on: device, bytes: 64M}
  second: {on: device, bytes: 64M}
steps:
  - mem_info:
    gives: '<=134217728'
  - mem_info:
    gives: '>=100000000'
  - alloc: first
  - set: {to: first, value: 7}
  - check: first
  - mem_info:
    gives: '<=67108864'
  - alloc: second
    returns: hipErrorOutOfMemory
  - get_last_error:
    returns: hipErrorOutOfMemory
  - free: first
  - mem_info:
    gives: returned
  - alloc: second
  - set: {to: second, value: 9}
  - check: second
  - free: second
faults: [call.accepted]
";

#[track_caller]
fn runs(arguments: &[&str], gfx: &str, given: &str, status: i32, expected: &str) {
    let mut command = rocrepro(&["run", "--gfx", gfx]);
    let output = command.args(arguments).args(options(given)).output().expect("it starts");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{gfx} {given}\n{stdout}\n{stderr}");
    assert!(stdout.contains(expected), "{gfx} {given}\n{stdout}\n{stderr}");
}

#[test]
fn allocates_beyond_the_carve_out_from_gtt() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = folder.path().join("beyond.yaml");
    std::fs::write(&case, BEYOND).expect("it is written");
    let case = ["--cases-from", case.to_str().expect("a path")];
    runs(&case, "gfx1151", "memory=32M gtt=96M", 0, "1 passed");
    runs(&case, "gfx1151", "memory=96M gtt=32M large-bar=yes", 0, "1 passed");
    runs(&case, "gfx1151", "memory=128M", 0, "1 passed");
    runs(&case, "gfx1151", "memory=32M", 1, "unexpected-value:hipMemGetInfo");
    let printed = ["--fault", "memory.total-wrong,percent=25"];
    let under = [case.as_slice(), &printed].concat();
    let more = "unexpected-value:hipMemGetInfo:more-than-the-total";
    runs(&under, "gfx1151", "memory=32M gtt=96M", 1, more);
}

/// The trials are distributed over the devices, so that each trial runs on one of them.
#[test]
fn passes_cases_on_odd_devices() {
    let cases = [
        "copies/tensors",
        "copies/managed-memory",
        "copies/offsets",
        "kernels/shuffles",
        "kernels/saxpy",
        "kernels/histogram-atomics",
        "errors/out-of-memory",
        "graphs/fork-join",
    ];
    let devices = [
        ("gfx1151", "memory=64M gtt=512M large-bar=yes"),
        ("gfx1100", "memory=96M"),
        ("gfx90a", "large-bar=yes"),
        ("gfx942", "devices=2"),
        ("gfx1030", "threads=4"),
    ];
    for (part, (gfx, given)) in (1..).zip(devices) {
        let shard = format!("{part}/{}", devices.len());
        let words = [&cases[..], &["--shard", &shard]].concat();
        runs(&words, gfx, given, 0, "cases: ");
    }
}
