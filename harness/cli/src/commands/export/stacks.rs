//! Where the threads of a program are when it dies or hangs. A handler is linked into one more run of it; the names are
//! those that the libraries export, and the offsets lead to the rest by way of their debug files.

use std::path::Path;

use judge::Kind;

/// The handler's text, which goes behind a program's: the lines of the program stay where they are.
pub(super) const HANDLER: &str = include_str!("stacks.cpp");
/// Where it writes.
pub(super) const FILE: &str = "ROCREPRO_STACKS";
/// Seconds after which it takes the program for hanging.
pub(super) const AFTER: &str = "ROCREPRO_STACKS_AFTER";

/// Whether there is something to see.
pub(super) fn tell(kind: Kind) -> bool {
    matches!(kind, Kind::Crash | Kind::TeardownCrash | Kind::MemoryFault | Kind::Hang)
}

/// What the handler wrote, for a reader: one heading per thread, and each frame as `library function+offset`. Those of the emulated
/// device, whose library has the name of ROCm's, are marked.
pub(super) fn readable(raw: &str, emulated: Option<&Path>) -> String {
    let mut out = String::new();
    let mut number = 0;
    let mut own = 0;
    let (mut last, mut again) = (String::new(), 0);
    for line in raw.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["thread", id, why, signal] => {
                let signal: i32 = signal.parse().unwrap_or_default();
                let what = match *why {
                    "signal" => format!("gets {}", judge::signal(signal)),
                    _ => "waits".to_owned(),
                };
                repeated(&mut out, &mut again);
                out.push_str(&format!("thread {id} {what}\n"));
                (number, own) = (0, OWN);
                last.clear();
            }
            ["frames", count] => {
                repeated(&mut out, &mut again);
                out.push_str(&format!("    [{count} frames more]\n"));
            }
            _ if own > 0 => own -= 1,
            _ => {
                let Some(frame) = frame(line, emulated) else { continue };
                if frame == last {
                    again += 1;
                    continue;
                }
                repeated(&mut out, &mut again);
                out.push_str(&format!("#{number:<3}{frame}\n"));
                (number, last) = (number + 1, frame);
            }
        }
    }
    repeated(&mut out, &mut again);
    out
}

fn repeated(out: &mut String, again: &mut u32) {
    if *again > 0 {
        out.push_str(&format!("    [the same {again} times more]\n"));
    }
    *again = 0;
}

/// Frames of the handler itself: two functions, and what the kernel returns by.
const OWN: u32 = 3;

/// `/usr/lib/libamdhip64.so.7(hipMalloc+0x41) [0x7f12]`, as backtrace_symbols_fd(3) has it.
fn frame(line: &str, emulated: Option<&Path>) -> Option<String> {
    let (path, rest) = line.rsplit_once('(')?;
    let (place, _) = rest.split_once(')')?;
    let file = path.rsplit('/').next().unwrap_or(path);
    let device = emulated.is_some_and(|library| library.file_name() == Path::new(path).file_name());
    Some(format!("{file}{} {place}", if device { " (the emulated device)" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_libraries_and_offsets() {
        let raw = "thread 7 signal 11\n./repro(+0x10) [0x1]\n./repro(+0x20) [0x2]\n/lib/libc.so.6(+0x3c050) [0x3]\n\
                   /lib/libamdhip64.so.7(+0x2a4) [0x4]\n/lib/libamdhip64.so.7(+0x2a4) [0x4]\nframes 900\n/lib/libamdhip64.so.7(hipGraphInstantiate+0x41) [0x5]\n\
                   thread 8 waits 0\na(b+0x1) [0x1]\na(c+0x1) [0x1]\nd(+0x1) [0x1]\nlibc.so.6(poll+0x4f) [0x1]\n";
        assert_eq!(
            readable(raw, None),
            "thread 7 gets SIGSEGV\n#0  libamdhip64.so.7 +0x2a4\n    [the same 1 times more]\n    [900 frames more]\n\
             #1  libamdhip64.so.7 hipGraphInstantiate+0x41\nthread 8 waits\n#0  libc.so.6 poll+0x4f\n"
        );
    }

    /// The emulated device never poses as ROCm's library, whose name it has.
    #[test]
    fn frames_of_the_emulated_device_say_so() {
        let raw = "thread 7 signal 11\na(b) [0x1]\na(b) [0x2]\na(b) [0x3]\n\
                   /x/libhsa-runtime64.so.1(+0x3) [0x4]\n/x/libamdhip64.so.7(+0x4) [0x5]\n";
        let frames =
            |emulated| readable(raw, emulated).lines().skip(1).collect::<Vec<_>>().join(";");
        let ours = Path::new("/cache/device/libhsa-runtime64.so.1");
        assert_eq!(
            frames(Some(ours)),
            "#0  libhsa-runtime64.so.1 (the emulated device) +0x3;#1  libamdhip64.so.7 +0x4"
        );
        assert_eq!(frames(None), "#0  libhsa-runtime64.so.1 +0x3;#1  libamdhip64.so.7 +0x4");
    }

    #[test]
    fn only_what_dies_or_hangs_has_stacks() {
        assert!(tell(Kind::Crash) && tell(Kind::Hang));
        assert!(!tell(Kind::WrongData) && !tell(Kind::ApiError));
    }
}
