//! Reads the call stacks of a program that dies or hangs: a signal handler is linked into the program for one more run.
//! The stacks contain functions that the libraries export; for other functions they contain offsets, which can be
//! resolved with debug files.

use std::path::Path;

use judge::Kind;

/// Source of the signal handler. It is appended to a program, so that the program's line numbers do not change.
pub(super) const HANDLER: &str = include_str!("thread_stacks.cpp");
/// Environment variable with the path of the file that the signal handler writes.
pub(super) const FILE: &str = "ROCREPRO_STACKS";
/// Environment variable with the number of seconds after which the signal handler treats the program as hung.
pub(super) const AFTER: &str = "ROCREPRO_STACKS_AFTER";

/// Returns true if call stacks help to understand this kind of failure.
pub(super) fn are_useful(kind: Kind) -> bool {
    matches!(kind, Kind::Crash | Kind::TeardownCrash | Kind::MemoryFault | Kind::Hang)
}

/// Formats the output of the signal handler: one heading per thread, and each frame as `library function+offset`.
/// Frames of the emulated device's library are marked, because the library has the same name as ROCm's.
pub(super) fn format_stacks(raw: &str, emulated: Option<&Path>) -> String {
    let mut out = String::new();
    let mut number = 0;
    let mut own = 0;
    let (mut last, mut again) = (String::new(), RepeatedFrame::default());
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
                (number, own) = (0, HANDLER_FRAMES);
                last.clear();
            }
            ["frames", count] => {
                again.add_gap(&mut out, count.parse().unwrap_or_default());
            }
            _ if own > 0 => own -= 1,
            _ => {
                let Some(frame) = frame(line, emulated) else { continue };
                if frame == last {
                    again.times += 1;
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

/// Repetitions of the last printed frame that were read, but are not described in the output yet.
#[derive(Default)]
struct RepeatedFrame {
    /// If the signal handler left out frames: number of repetitions before this gap, and number of frames in it.
    gap: Option<(u32, u32)>,
    /// Number of repetitions: after the gap if there is one, otherwise all of them.
    times: u32,
}

impl RepeatedFrame {
    /// Notes that the signal handler left out `count` frames.
    fn add_gap(&mut self, out: &mut String, count: u32) {
        if self.gap.is_some() {
            repeated(out, self);
        }
        self.gap = Some((std::mem::take(&mut self.times), count));
    }
}

/// Describes the repetitions of the last printed frame. If the frames on both sides of a gap are equal, one sentence
/// describes all of them.
fn repeated(out: &mut String, again: &mut RepeatedFrame) {
    let RepeatedFrame { gap, times } = std::mem::take(again);
    let mut tell = |text: String| out.push_str(&format!("    [{text}]\n"));
    match gap {
        Some((before, count)) if times > 0 => tell(format!(
            "{} more frames; the first {before} and the last {times} of them equal the frame above",
            before + count + times
        )),
        Some((before, count)) => {
            if before > 0 {
                tell(format!("the same frame {before} more times"));
            }
            tell(format!("{count} more frames"));
        }
        None if times > 0 => tell(format!("the same frame {times} more times")),
        None => {}
    }
}

/// Number of frames that belong to the signal handler: two functions, and the Linux kernel's return trampoline.
const HANDLER_FRAMES: u32 = 3;

/// Parses a line of backtrace_symbols_fd(3), for example `/usr/lib/libamdhip64.so.7(hipMalloc+0x41) [0x7f12]`. Returns
/// the frame as text; `None` for other lines.
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
            format_stacks(raw, None),
            "thread 7 gets SIGSEGV\n\
             #0  libamdhip64.so.7 +0x2a4\n    [the same frame 1 more times]\n    [900 more frames]\n\
             #1  libamdhip64.so.7 hipGraphInstantiate+0x41\nthread 8 waits\n#0  libc.so.6 poll+0x4f\n"
        );
    }

    /// The signal handler leaves out the middle of a long stack.
    #[test]
    fn recursion_around_a_gap_is_one_statement() {
        let (own, frame) = ("a(b) [0x1]\n".repeat(3), "/lib/libamdhip64.so.7(+0xe6) [0x4]\n");
        let raw = format!(
            "thread 7 signal 11\n{own}{}frames 24908\n{}/lib/libamdhip64.so.7(+0xe7) [0x5]\n",
            frame.repeat(20),
            frame.repeat(3)
        );
        assert_eq!(
            format_stacks(&raw, None),
            "thread 7 gets SIGSEGV\n#0  libamdhip64.so.7 +0xe6\n    [24930 more frames; the first 19 and the last 3 of \
             them equal the frame above]\n#1  libamdhip64.so.7 +0xe7\n"
        );
    }

    /// The emulated device's library has the same name as ROCm's library, so a reader could confuse the two.
    #[test]
    fn frames_of_the_emulated_device_say_so() {
        let raw = "thread 7 signal 11\na(b) [0x1]\na(b) [0x2]\na(b) [0x3]\n\
                   /x/libhsa-runtime64.so.1(+0x3) [0x4]\n/x/libamdhip64.so.7(+0x4) [0x5]\n";
        let frames =
            |emulated| format_stacks(raw, emulated).lines().skip(1).collect::<Vec<_>>().join(";");
        let ours = Path::new("/cache/device/libhsa-runtime64.so.1");
        assert_eq!(
            frames(Some(ours)),
            "#0  libhsa-runtime64.so.1 (the emulated device) +0x3;#1  libamdhip64.so.7 +0x4"
        );
        assert_eq!(frames(None), "#0  libhsa-runtime64.so.1 +0x3;#1  libamdhip64.so.7 +0x4");
    }

    #[test]
    fn crashes_and_hangs_have_useful_stacks() {
        assert!(are_useful(Kind::Crash) && are_useful(Kind::Hang));
        assert!(!are_useful(Kind::WrongData) && !are_useful(Kind::ApiError));
    }
}
