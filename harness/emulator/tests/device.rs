//! Tests of the device through its HSA interface in separate processes: how a process ends, which lines it prints, and
//! which memory it shares with another process. Tests that need only a configuration are in `src/whole/tests.rs`.
//!
//! Each test starts this program again with a configuration and the name of a scenario.

use device::Arch;
use std::{
    ffi::c_void,
    process::{Command, Output},
    sync::atomic::{AtomicBool, Ordering},
};

// Links the device into this program.
use hsa_runtime64 as _;

const SCENARIO: &str = "ROCREPRO_TEST_SCENARIO";
const CPU: u64 = 1;
const GPU: u64 = 2;
const HOST_POOL: u64 = 0x11;
const DEVICE_POOL: u64 = 0x21;

unsafe extern "C" {
    safe fn hsa_init() -> u32;
    safe fn hsa_shut_down() -> u32;
    fn hsa_agent_get_info(agent: u64, attribute: u32, value: *mut c_void) -> u32;
    fn hsa_amd_memory_pool_allocate(pool: u64, bytes: usize, flags: u32, out: *mut *mut u8) -> u32;
    fn hsa_amd_memory_pool_free(pointer: *mut u8) -> u32;
    fn hsa_signal_create(value: i64, count: u32, agents: *const u64, out: *mut u64) -> u32;
    fn hsa_signal_wait_scacquire(signal: u64, condition: u32, to: i64, ns: u64, hint: u32) -> i64;
    fn hsa_signal_store_screlease(signal: u64, value: i64);
    fn hsa_signal_load_scacquire(signal: u64) -> i64;
    fn hsa_amd_signal_async_handler(
        signal: u64,
        condition: u32,
        to: i64,
        handler: extern "C" fn(i64, *mut c_void) -> bool,
        data: *mut c_void,
    ) -> u32;
    fn hsa_amd_memory_async_copy(
        to: *mut u8,
        to_agent: u64,
        from: *const u8,
        from_agent: u64,
        bytes: usize,
        count: u32,
        dependencies: *const u64,
        completion: u64,
    ) -> u32;
    fn hsa_queue_create(
        agent: u64,
        size: u32,
        kind: u32,
        callback: extern "C" fn(u32, *mut Queue, *mut c_void),
        data: *mut c_void,
        private: u32,
        group: u32,
        out: *mut *mut Queue,
    ) -> u32;
    fn hsa_queue_add_write_index_screlease(queue: *mut Queue, count: u64) -> u64;
    fn hsa_queue_destroy(queue: *mut Queue) -> u32;
    fn hsa_amd_image_create() -> u32;
    fn hsa_amd_ipc_memory_create(pointer: *mut u8, bytes: usize, handle: *mut [u32; 8]) -> u32;
    fn hsa_amd_ipc_memory_attach(
        handle: *const [u32; 8],
        bytes: usize,
        count: u32,
        agents: *const u64,
        out: *mut *mut u8,
    ) -> u32;
    fn hsa_amd_ipc_memory_detach(pointer: *mut u8) -> u32;
}

/// First fields of `hsa_queue_t`.
#[repr(C)]
struct Queue {
    kind: u32,
    features: u32,
    base: *mut u8,
    doorbell: u64,
}

fn start() {
    assert_eq!(hsa_init(), 0);
}

fn allocate(pool: u64, bytes: usize) -> *mut u8 {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: the result is a local variable.
    assert_eq!(unsafe { hsa_amd_memory_pool_allocate(pool, bytes, 0, &mut pointer) }, 0);
    pointer
}

fn signal() -> u64 {
    let mut signal = 0;
    // SAFETY: the result is a local variable.
    assert_eq!(unsafe { hsa_signal_create(1, 0, std::ptr::null(), &mut signal) }, 0);
    signal
}

/// Copies bytes to the device and waits for at most a second. Returns true if the copy completed.
fn copy(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    let done = signal();
    // SAFETY: the copy has no dependencies, and the device itself checks the two ranges.
    unsafe {
        let none = std::ptr::null();
        assert_eq!(hsa_amd_memory_async_copy(to, GPU, from, CPU, bytes, 0, none, done), 0);
        hsa_signal_wait_scacquire(done, 0, 0, 1_000_000_000, 0) == 0
    }
}

fn available() -> u64 {
    let mut bytes = 0u64;
    // SAFETY: HSA_AMD_AGENT_INFO_MEMORY_AVAIL is a `uint64_t`.
    assert_eq!(unsafe { hsa_agent_get_info(GPU, 0xA015, (&raw mut bytes).cast()) }, 0);
    bytes
}

/// Dispatches a packet whose kernel object does not exist.
fn dispatch_of_nothing() {
    extern "C" fn error(status: u32, _queue: *mut Queue, data: *mut c_void) {
        println!("queue error {status:#x}");
        // SAFETY: the data is the handle of a signal.
        unsafe { hsa_signal_store_screlease(data as u64, 0) };
    }
    start();
    let called = signal();
    let mut queue = std::ptr::null_mut();
    let data = called as *mut c_void;
    // SAFETY: the result is a local variable, and the packet is written to the slot that was reserved for it.
    unsafe {
        assert_eq!(hsa_queue_create(GPU, 64, 0, error, data, 0, 0, &mut queue), 0);
        let index = hsa_queue_add_write_index_screlease(queue, 1);
        let slot = (*queue).base.add(index as usize * 64);
        slot.add(32).cast::<u64>().write(0x1000);
        slot.cast::<u16>().add(1).write(1);
        slot.cast::<u16>().write_volatile(2);
        hsa_signal_store_screlease((*queue).doorbell, 0);
        hsa_signal_wait_scacquire(called, 0, 0, 10_000_000_000, 0);
        assert_eq!(hsa_queue_destroy(queue), 0);
    }
    assert_eq!(hsa_shut_down(), 0);
}

/// Size of the shared memory in bytes. It is larger than a page and not a multiple of the page size.
const SHARED_BYTES: usize = 5000;
/// Environment variable with the IPC handle of the memory that the second process attaches.
const HANDLE: &str = "ROCREPRO_TEST_HANDLE";

/// Attaches the memory that a handle describes.
///
/// # Errors
/// Returns the HSA status.
fn attach(handle: &[u32; 8], bytes: usize) -> Result<*mut u8, u32> {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: the handle and the result belong to this function, and there is one agent.
    let status = unsafe { hsa_amd_ipc_memory_attach(handle, bytes, 1, &GPU, &mut pointer) };
    if status == 0 { Ok(pointer) } else { Err(status) }
}

/// Shares memory whose first byte is 1 and whose last byte is 2. A second process copies 7 to the first byte and 8 to
/// the last byte.
fn shared_memory() {
    start();
    let memory = allocate(DEVICE_POOL, SHARED_BYTES);
    let mut handles = [[0; 8]; 2];
    // SAFETY: the memory belongs to this process, and nothing runs on the device.
    unsafe {
        memory.write(1);
        memory.add(SHARED_BYTES - 1).write(2);
        assert_ne!(hsa_amd_ipc_memory_create(memory.add(64), 64, &mut handles[0]), 0);
        assert_eq!(hsa_amd_ipc_memory_create(memory, SHARED_BYTES, &mut handles[0]), 0);
        assert_eq!(hsa_amd_ipc_memory_create(memory, SHARED_BYTES, &mut handles[1]), 0);
    }
    assert_eq!(handles[0], handles[1], "sharing memory again must return the same handle");
    let words = handles[0].map(|word| word.to_string()).join(" ");
    let other = |words: &str| {
        let mut command = again("attached memory", "{}");
        let output = command.env(HANDLE, words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = text.lines().find_map(|line| line.find("attached").map(|at| &line[at..]));
        said.unwrap_or(&text).to_owned()
    };
    println!("{}", other(&words));
    // SAFETY: the other process has ended.
    unsafe { println!("then {} {}", memory.read(), memory.add(SHARED_BYTES - 1).read()) };
    // The device must reject a handle with another random number, and a handle of freed memory.
    let mut strange = handles[0];
    strange[3] ^= 1;
    println!("{}", other(&strange.map(|word| word.to_string()).join(" ")));
    // SAFETY: the memory is unused.
    assert_eq!(unsafe { hsa_amd_memory_pool_free(memory) }, 0);
    println!("{}", other(&words));
    assert_eq!(hsa_shut_down(), 0);
}

fn attached_memory() {
    start();
    let words: Vec<u32> =
        std::env::var(HANDLE).unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
    let handle = words.try_into().unwrap();
    let before = available();
    let memory = match attach(&handle, SHARED_BYTES) {
        Ok(memory) => memory,
        Err(status) => return println!("attached: {status:#x}"),
    };
    let from = allocate(HOST_POOL, SHARED_BYTES);
    // SAFETY: the memory has that many bytes, and the copies are complete when the memory is detached.
    unsafe {
        println!("attached {} {}", memory.read(), memory.add(SHARED_BYTES - 1).read());
        from.write(7);
        from.add(SHARED_BYTES - 1).write(8);
        assert!(copy(memory, from, SHARED_BYTES));
        assert_eq!(available(), before, "attached memory must not count as used in this process");
        assert_ne!(hsa_amd_memory_pool_free(memory), 0, "attached memory cannot be freed");
        assert_eq!(hsa_amd_ipc_memory_detach(memory), 0);
        assert_ne!(hsa_amd_ipc_memory_detach(memory), 0);
    }
    assert_eq!(hsa_shut_down(), 0);
}

fn wild_copy() {
    start();
    copy(0x1000 as *mut u8, allocate(HOST_POOL, 64), 64);
}

fn images() {
    start();
    // SAFETY: the call is not emulated and does not read arguments.
    assert_ne!(unsafe { hsa_amd_image_create() }, 0);
}

/// Imitates a runtime that ends without waiting for its copies, and whose destructors submit another copy. Prints for
/// each handler whether it ran before the objects that it uses were destroyed.
fn end_at_once() {
    static GONE: AtomicBool = AtomicBool::new(false);
    extern "C" fn handled(_value: i64, _data: *mut c_void) -> bool {
        std::thread::sleep(std::time::Duration::from_millis(20));
        println!("handled {}", if GONE.load(Ordering::SeqCst) { "too late" } else { "in time" });
        false
    }
    fn hand_over() -> u64 {
        let done = signal();
        let (from, to) = (allocate(HOST_POOL, 64), allocate(DEVICE_POOL, 64));
        // SAFETY: both addresses are allocations of that many bytes that are never freed, and the handler does not
        // access memory.
        unsafe {
            let none = std::ptr::null();
            assert_eq!(hsa_amd_signal_async_handler(done, 0, 0, handled, std::ptr::null_mut()), 0);
            assert_eq!(hsa_amd_memory_async_copy(to, GPU, from, CPU, 64, 0, none, done), 0);
        }
        done
    }
    extern "C" fn destroy() {
        let last = hand_over();
        // SAFETY: the signal is live.
        while unsafe { hsa_signal_load_scacquire(last) } != 0 {}
        GONE.store(true, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // SAFETY: the function has no parameters and does not unwind.
    assert_eq!(unsafe { libc::atexit(destroy) }, 0);
    start();
    hand_over();
    std::process::exit(0);
}

fn report_status() {
    println!("{:#x}", hsa_init());
}

/// Entry point of the processes that the tests start. This function is not a test itself.
#[test]
fn scenario() {
    match std::env::var(SCENARIO).as_deref() {
        Ok("dispatch of nothing") => dispatch_of_nothing(),
        Ok("wild copy") => wild_copy(),
        Ok("shared memory") => shared_memory(),
        Ok("attached memory") => attached_memory(),
        Ok("images") => images(),
        Ok("end at once") => end_at_once(),
        Ok("init") => report_status(),
        Ok(other) => panic!("no scenario is called {other}"),
        Err(_) => {}
    }
}

fn again(scenario: &str, configuration: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "scenario", "--nocapture", "--test-threads=1"])
        .env(SCENARIO, scenario)
        .env(device::CONFIG_VARIABLE, configuration);
    command
}

fn run(scenario: &str, configuration: &str) -> Output {
    again(scenario, configuration).output().unwrap()
}

/// Runs a scenario in another process. Compares a line of its standard output and the lines of the device on its
/// standard error with the expected ones.
#[track_caller]
fn check(scenario: &str, configuration: &str, out: &str, err: &[&str]) {
    let output = run(scenario, configuration);
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said: Vec<_> = stderr.lines().filter(|l| l.starts_with("rocrepro-device:")).collect();
    assert!(
        stdout.contains(out) && said == err,
        "{configuration}\n{}\nstdout: {stdout}\nstderr: {stderr}",
        output.status
    );
}

fn with(fault: &str) -> String {
    format!(r#"{{"faults":[{{"fault":"{fault}"}}]}}"#)
}

#[test]
fn other_process_reads_and_writes_shared_memory() {
    let right = "attached 1 2\nthen 7 8\nattached: 0x1001\nattached: 0x1001\n";
    check("shared memory", "{}", right, &[]);
    // With the sanitizer, the device tracks the exact bytes of allocations.
    check("shared memory", r#"{"sanitize":true}"#, right, &[]);
}

#[test]
fn handlers_run_before_static_destructors() {
    check("end at once", "{}", "handled in time\nhandled in time\n", &[]);
}

#[test]
fn errors_are_single_lines() {
    check("init", "{}", "0x0\n", &[]);
    let names: Vec<_> = Arch::ALL.iter().map(|arch| format!("`{arch}`")).collect();
    let told = format!(
        "rocrepro-device: bad configuration: ROCREPRO_DEVICE: unknown variant `gfx803`, expected one of {} at line 1 column 16",
        names.join(", ")
    );
    check("init", r#"{"arch":"gfx803"}"#, "0x1000\n", &[&told]);
    check(
        "wild copy",
        "{}",
        "",
        &["rocrepro-device: fault: kernel copy engine: page fault at 0x1000"],
    );
    check(
        "dispatch of nothing",
        "{}",
        "",
        &["rocrepro-device: fault: kernel unknown: no kernel is loaded at 0x1000"],
    );
    check("dispatch of nothing", &with("device.lost"), "queue error 0x1016", &[]);
    check(
        "images",
        "{}",
        "",
        &["rocrepro-device: gap: kernel (none): call not emulated: hsa_amd_image_create"],
    );
}

#[test]
fn unhandled_fault_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let output = run("wild copy", "{}");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
}
