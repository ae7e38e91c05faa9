//! Hints that follow from the source of a program and its messages.

use std::ops::Range;

/// Ways in which the source of a C++ program starts work that the host does not wait for.
const STARTS: [&str; 5] =
    ["<<<", "Async(", "hipGraphLaunch(", "hipLaunchKernel", "hipModuleLaunchKernel("];

/// Returns a hint for a program that ended without reporting its end, if its source does not call the function that
/// reports it.
pub(super) fn missing_end(text: &str) -> Option<String> {
    (!text.contains("done"))
        .then(|| "the program does not call `done()` to report that it has finished".to_owned())
}

/// Returns a hint if the source of a C++ program nowhere waits for the device and makes no blocking copy after its
/// last launch.
pub(super) fn missing_wait(text: &str) -> Option<String> {
    let ends = STARTS.iter().filter_map(|start| text.rfind(start).map(|at| at + start.len()));
    let after = &text[ends.max()?..];
    let waits = ["Synchronize", "hipStreamQuery", "hipEventQuery", "hipStreamWaitValue"];
    let is_waiting = waits.iter().any(|call| text.contains(call)) || calls(after).any(blocks);
    (!is_waiting).then(|| {
        "nothing in the source waits for its last launch; call `hipDeviceSynchronize` before the host reads the result"
            .to_owned()
    })
}

/// Returns the names before the opening parentheses of a text.
fn calls(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let parts = text.match_indices('(').map(|(at, _)| text[..at].trim_end());
    parts.map(move |before| &before[before.trim_end_matches(is_name).len()..])
}

fn blocks(call: &str) -> bool {
    let copies = call.starts_with("hipMemcpy") && !call.contains("Async");
    copies || call == "hipDeviceReset"
}

/// Addresses at which Linux on x86-64 places a program and its heap: `ELF_ET_DYN_BASE` in arch/x86/include/asm/elf.h,
/// plus up to 2^40 bytes. The emulated device has no memory there.
const OF_PROGRAM: Range<u64> = 0x5500_0000_0000..0x5700_0000_0000;

/// Returns a hint if `message`, a message of the device, reports that a kernel accessed an unmapped address at which
/// the program or its heap on the host may be.
pub(super) fn host_pointer(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("unmapped address 0x")?;
    let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    let address = u64::from_str_radix(digits, 16).ok().filter(|it| OF_PROGRAM.contains(it))?;
    Some(format!(
        "Linux places the program and its heap at addresses such as {address:#x}, so a kernel probably got a pointer \
         to host memory; pass a pointer from `hipMalloc` or `hipHostMalloc`"
    ))
}

/// Returns a hint if Python did not find a module.
pub(super) fn missing_package(stderr: &str) -> Option<String> {
    let (_, rest) = stderr.split_once("ModuleNotFoundError: No module named '")?;
    let name = rest.split(['\'', '.']).next()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then(|| {
        format!(
            "name the package of `{name}` under `packages` of the case; `--in FOLDER` names an environment that has it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_without_an_end_has_a_hint() {
        assert!(missing_end("equal(\"a\", b, c); return 0;").is_some());
        assert!(missing_end("if (x) return done();").is_none());
    }

    #[test]
    fn launch_without_a_wait_has_a_hint() {
        let check = |text: &str, expected: bool| {
            assert_eq!(missing_wait(text).is_some(), expected, "{text}");
        };
        check("hipMemcpy(p, q, 4, hipMemcpyHostToDevice); k<<<1, 64>>>(p); use(p[0]);", true);
        check("hipMemcpyAsync(h, p, 4, hipMemcpyDeviceToHost, s); use(h);", true);
        check("k<<<1, 64>>>(p); hipMemcpyAsync(h, p, 4, kind, s);", true);
        check("k<<<1, 64>>>(p); must(hipMemcpy (h, p, 4, hipMemcpyDeviceToHost));", false);
        check("void wait() { hipDeviceSynchronize(); }  k<<<1, 64>>>(p); wait();", false);
        check("k<<<1, 64>>>(p); while (hipEventQuery(e)) {}", false);
        check("hipMemset(p, 0, 4); use(p[0]);", false);
    }

    #[test]
    fn access_to_the_heap_of_the_host_has_a_hint() {
        let of = |address: &str| {
            host_pointer(&format!(
                "page fault: read of unmapped address {address} by `flat_load_b32`"
            ))
        };
        let hint = of("0x56160d1c8240").expect("a hint");
        assert!(hint.contains("such as 0x56160d1c8240, so a kernel probably got"), "{hint}");
        for other in ["0x7f0012340000", "0x0", "0x5700000000000"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn missing_module_has_a_hint_with_its_name() {
        let error = "Traceback ...\nModuleNotFoundError: No module named 'torch.nn'\n";
        assert!(missing_package(error).is_some_and(|hint| hint.contains("`torch`")));
        assert_eq!(missing_package("TypeError: 'str'"), None);
    }
}
