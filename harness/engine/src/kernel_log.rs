//! Reads the lines of the Linux kernel's log that are about GPUs.

use std::{collections::BTreeSet, fs, io::Read, os::unix::fs::OpenOptionsExt};

use report::issue::{Identity, NotRead, is_gpu_line};

/// Largest number of log lines that are kept.
const LOG_LINES: usize = 30;

/// Returns the last log lines that are about a GPU.
pub fn last_lines(not_read: &mut Vec<NotRead>) -> Vec<String> {
    match messages() {
        Ok(text) => {
            let lines: Vec<&str> = text.lines().filter(|line| is_gpu_line(line)).collect();
            let from = lines.len().saturating_sub(LOG_LINES);
            lines[from..].iter().map(|line| (*line).to_owned()).collect()
        }
        Err(error) => {
            not_read.push(NotRead { what: "kernel log".to_owned(), why: error.to_string() });
            Vec::new()
        }
    }
}

/// Returns the seconds since the machine started, the clock that the Linux kernel's log uses.
pub fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split_whitespace().next().and_then(|t| t.parse().ok()).unwrap_or(0.0)
}

/// Returns the log lines about the GPU since `then` that name one of these processes. In a container no line matches,
/// because process ids differ from those in the log.
pub fn lines_of_processes(then: f64, processes: &BTreeSet<u32>, who: &Identity) -> Vec<String> {
    let lines = since(then).unwrap_or_default().into_iter();
    let lines = lines.filter(|line| names_one(line, processes));
    lines.map(|line| report::issue::redact(&line, who)).collect()
}

/// Returns the log lines about the GPU since a time, in seconds after the start of the machine.
pub(crate) fn since(then: f64) -> std::io::Result<Vec<String>> {
    let time = |line: &str| -> Option<f64> {
        line.trim_start_matches('[').split(']').next()?.trim().parse().ok()
    };
    let text = messages()?;
    let lines = text.lines().filter(|line| is_gpu_line(line));
    let lines = lines.filter(|line| time(line).is_some_and(|t| t >= then));
    Ok(lines.map(str::to_owned).collect())
}

/// Returns true if a log line names one of the processes, for example `repro[17]: segfault` or `process repro pid 17`.
fn names_one(line: &str, processes: &BTreeSet<u32>) -> bool {
    let text = line.split_once("] ").map_or(line, |(_, text)| text);
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '[');
    let mut words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.insert(0, "");
    words.windows(2).any(|pair| {
        let number = match pair[1].split_once('[') {
            Some((_, number)) => number,
            None if pair[0].eq_ignore_ascii_case("pid") => pair[1],
            None => return false,
        };
        number.parse().is_ok_and(|pid| processes.contains(&pid))
    })
}

/// Returns all messages of `/dev/kmsg`. Each read returns one message.
fn messages() -> std::io::Result<String> {
    let mut log = fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open("/dev/kmsg")?;
    let mut text = String::new();
    let mut record = [0; 8192];
    loop {
        match log.read(&mut record) {
            Ok(0) => return Ok(text),
            Ok(len) => text.push_str(&message(&String::from_utf8_lossy(&record[..len]))),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(text),
            // The Linux kernel overwrote the record while it was being read.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Converts a record of the form `priority,sequence,microseconds,flags;text` (see the Linux kernel's documentation of
/// /dev/kmsg) to the format of dmesg.
fn message(record: &str) -> String {
    let Some((head, text)) = record.split_once(';') else { return String::new() };
    let time: u64 = head.split(',').nth(2).and_then(|t| t.parse().ok()).unwrap_or(0);
    // In a record, lines that begin with a space are properties of the device, not part of the message.
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    format!("[{:5}.{:06}] {}\n", time / 1_000_000, time % 1_000_000, text.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_records_like_dmesg() {
        assert_eq!(
            message("6,339,5140900,-;amdgpu: ring gfx timeout\n SUBSYSTEM=pci\n"),
            "[    5.140900] amdgpu: ring gfx timeout\n"
        );
    }

    #[test]
    fn attributes_log_lines_by_process() {
        let check = |line: &str, expected: bool| {
            assert_eq!(names_one(line, &BTreeSet::from([17])), expected, "{line}");
        };
        check(
            "[    1.000000] repro[17]: segfault at 0 ip 1 sp 2 error 4 in libamdhip64.so.7",
            true,
        );
        check(
            "[    1.000000] amdgpu 0000:03:00.0:  for process repro pid 17 thread repro pid 19",
            true,
        );
        check("[   17.000000] amdgpu: ring gfx timeout, signaled seq=17, emitted seq=18", false);
        check("[    1.000000] repro[171]: segfault", false);
    }
}
