//! Tests the call stacks of children that reach a time limit. The process that reads them, and children that hang in a
//! crafted file, are this test program, started again with an environment variable.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use supervise::{Cancel, ChildEnd, Limits, Observed, StopReason, run};

const ROLE: &str = "SUPERVISE_TEST_ROLE";
const LOOKER: &str = "looker";

/// Acts as the other process that an environment variable names. Does nothing unless another test starts it.
#[test]
fn role() {
    match env::var(ROLE) {
        Err(_) => {}
        Ok(role) if role == LOOKER => {
            supervise::unwind_copies();
        }
        Ok(file) => hang_in(Path::new(&file)),
    }
}

fn words(role: &str) -> Vec<OsString> {
    let program = env::current_exe().unwrap().into_os_string();
    let role = format!("{ROLE}={role}").into();
    let rest = ["--exact", "role", "--nocapture", "--quiet"].map(OsString::from);
    [OsString::from("env"), role, program].into_iter().chain(rest).collect()
}

fn watch(words: &[OsString], looker: Vec<OsString>, cancel: &Cancel) -> Observed {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let hour = Duration::from_secs(3600);
    // The child writes a line when it is about to hang.
    let quiet = Duration::from_secs(1);
    let limits =
        Limits { total: hour, quiet, grace: hour, reap: hour, looker, ..Limits::default() };
    let seen = run(command, b"", &limits, cancel, &mut |_| {});
    let stopped = ChildEnd::Stopped { reason: StopReason::Quiet, forced: false };
    assert_eq!(format!("{:?}", seen.ended), format!("{stopped:?}"), "{seen:?}");
    seen
}

fn shell(script: &str) -> Vec<OsString> {
    ["sh", "-c", script].map(OsString::from).into()
}

fn sleeping(looker: Vec<OsString>) -> Vec<String> {
    watch(&shell("exec sleep 606"), looker, &Cancel::new().unwrap()).stacks
}

#[test]
fn stacks_are_read_before_a_child_is_ended() {
    let cancel = Cancel::new().unwrap();
    let stacks = watch(&shell("sleep 606 & wait"), words(LOOKER), &cancel).stacks;
    let has_stack = |name: &str, calls: &str| {
        let thread = format!("`{name}` sleeps");
        stacks.iter().any(|line| line.contains(&thread) && line.contains(calls))
    };
    assert!(has_stack("sh", " < ") && has_stack("sleep", "nanosleep (libc"), "{stacks:?}");
    assert_eq!(stacks.len(), 2, "{stacks:?}");
    assert!(sleeping(Vec::new()).is_empty());
}

/// Checks that the thread is listed without calls, after the reason `why`.
#[track_caller]
fn check_failed(stacks: &[String], why: &str) {
    let [failed, thread] = stacks else { panic!("{stacks:?}") };
    assert_eq!(*failed, format!("the calls of 1 threads could not be read: {why}"));
    assert!(thread.contains(", thread ") && !thread.contains(';'), "{thread}");
}

#[test]
fn failed_process_that_reads_stacks_is_reported() {
    let by = "the process that reads them";
    check_failed(&sleeping(shell("kill -9 $$")), &format!("signal 9 ended {by}"));
    check_failed(&sleeping(shell("echo no >&2; exit 3")), &format!("{by} exited with 3: no"));
    let lost = "No such file or directory (os error 2)";
    check_failed(
        &sleeping(vec!["/nowhere/looker".into()]),
        &format!("{by} could not be started: {lost}"),
    );
}

#[test]
fn process_that_reads_stacks_for_too_long_is_ended() {
    check_failed(&sleeping(shell("exec sleep 606")), "the process that reads them took 12 s");
}

#[test]
fn cancel_ends_the_reading_of_stacks() {
    let cancel = Cancel::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let looker = shell(&format!("echo > {}; exec sleep 606", begun.display()));
    let watched = std::thread::spawn({
        let cancel = cancel.clone();
        move || watch(&shell("exec sleep 606"), looker, &cancel).stacks
    });
    while !begun.exists() {
        assert!(!watched.is_finished(), "{:?}", watched.join());
        std::thread::sleep(Duration::from_millis(5));
    }
    cancel.cancel();
    check_failed(&watched.join().unwrap(), "the run was cancelled");
}

#[test]
fn crafted_frames_end_the_process_that_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    // The rule is DW_CFA_def_cfa_expression with DW_OP_skip -3, which jumps to itself.
    let file = write_elf(folder.path(), &[0x0f, 3, 0x2f, 0xfd, 0xff], 0);
    let seen = watch(&words(file.to_str().unwrap()), words(LOOKER), &Cancel::new().unwrap());
    // The test program has other threads, whose calls may be read before those of this one.
    let by = "the calls of 1 threads could not be read: the process that reads them took";
    let either = [format!("{by} 10 s of processor time"), format!("{by} 12 s")];
    assert!(either.contains(&seen.stacks[0]), "{:?}", seen.stacks);
}

#[test]
fn crafted_names_are_not_read_by_this_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_elf(folder.path(), &[], 100_000);
    let words = words(file.to_str().unwrap());
    let looker = self::words(LOOKER);
    let read = || {
        let io = fs::read_to_string("/proc/thread-self/io").unwrap();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok()).unwrap()
    };
    let before = read();
    let seen = watch(&words, looker, &Cancel::new().unwrap());
    let read = read() - before;
    assert!(read < 32 << 20, "{read} bytes");
    assert!(seen.stacks.iter().any(|line| line.contains(" runs")), "{:?}", seen.stacks);
}

const TEXT: u64 = 0x200;
const FRAMES: u64 = 0x300;
const PAGE: u64 = 0x1000;

/// Maps a file made by [`write_elf`], and hangs in its code.
fn hang_in(file: &Path) {
    let file = File::open(file).unwrap();
    // SAFETY: a new mapping of a page does not overlap any other mapping.
    let page = unsafe {
        let rights = libc::PROT_READ | libc::PROT_EXEC;
        libc::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            rights,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    println!("hangs");
    // SAFETY: the code at this offset of the mapping is `pause; jmp`, which changes nothing.
    let endless: extern "C" fn() =
        unsafe { std::mem::transmute(page.cast::<u8>().add(TEXT as usize)) };
    endless();
}

/// Writes a shared object whose only function never returns. `rule` contains its call frame instructions. The object
/// has `more` additional sections, whose names have up to 4096 bytes and overlap.
fn write_elf(folder: &Path, rule: &[u8], more: u64) -> PathBuf {
    let mut bytes = vec![0; PAGE as usize];
    let mut put = |at: u64, part: &[u8]| {
        bytes[at as usize..][..part.len()].copy_from_slice(part);
    };
    put(TEXT, &[0xf3, 0x90, 0xeb, 0xfc]);
    // The bytes are a CIE: version 1, augmentation, factors 1 and -8, register 16, 4-byte relative pointers, then CFA =
    // rsp + 8.
    let cie = [1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];
    put(FRAMES, &[&20_u32.to_le_bytes()[..], &[0; 4], &cie].concat());
    let fde = FRAMES + 24;
    let start = (TEXT as u32).wrapping_sub(fde as u32 + 8);
    let fields = [32, 28, start, 4].map(u32::to_le_bytes).concat();
    put(fde, &[&fields, &[0][..], rule].concat());
    let names = b"\0.text\0.eh_frame\0";
    let sections = 4 + more;
    let (headers, names_at) = (PAGE, PAGE + 64 * sections);
    let blocks = more.div_ceil(200);
    let mut table = Vec::new();
    let mut section = |name: u32, kind: u32, address: u64, offset: u64, size: u64| {
        table.extend([name, kind].map(u32::to_le_bytes).concat());
        table.extend([2, address, offset, size].map(u64::to_le_bytes).concat());
        table.extend([0; 24]);
    };
    // The first section header contains the number of sections.
    section(0, 0, 0, 0, sections);
    section(1, 1, TEXT, TEXT, 4);
    section(7, 1, FRAMES, FRAMES, 24 + 36 + 4);
    section(0, 3, 0, names_at, 4096 * (1 + blocks));
    for nth in 0..more {
        section(4096 + (nth % blocks * 4096 + nth / blocks) as u32, 1, 0, 0, 0);
    }
    let mut strings = vec![0; 4096];
    strings[..names.len()].copy_from_slice(names);
    for _ in 0..blocks {
        strings.extend([b'A'; 4095]);
        strings.push(0);
    }
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    header.extend([3, 62].map(u16::to_le_bytes).concat());
    header.extend(1_u32.to_le_bytes());
    header.extend([0, 64, headers].map(u64::to_le_bytes).concat());
    header.extend(0_u32.to_le_bytes());
    header.extend([64, 56, 1, 64, 0, 3].map(u16::to_le_bytes).concat());
    put(0, &header);
    let segment = [1, 5].map(u32::to_le_bytes).concat();
    put(64, &[segment, [0, 0, 0, PAGE, PAGE, PAGE].map(u64::to_le_bytes).concat()].concat());
    bytes.extend(table);
    bytes.extend(strings);
    let path = folder.join("crafted.so");
    fs::write(&path, bytes).unwrap();
    path
}
