//! The machine without its GPUs: operating system, processor, container, kernel log.

use std::{
    collections::BTreeSet, fs, io::Read, num::NonZeroUsize, os::unix::fs::OpenOptionsExt,
    path::Path,
};

use report::issue::{Environment, Identity, NotRead, is_gpu_line};

/// Lines of the kernel log that are kept.
const LOG_LINES: usize = 30;

pub(super) fn machine(not_read: &mut Vec<NotRead>) -> Environment {
    let mut read = |path: &str| match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            not_read.push(NotRead { what: path.to_owned(), why: error.to_string() });
            String::new()
        }
    };
    let system = rustix::system::uname();
    Environment {
        os: os_name(&read("/etc/os-release")).unwrap_or_else(|| "unknown".to_owned()),
        kernel: format!(
            "{} {} {}",
            system.sysname().to_string_lossy(),
            system.release().to_string_lossy(),
            system.machine().to_string_lossy()
        ),
        kernel_parameters: parameters(&read("/proc/cmdline")),
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
        processors: std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u32,
        memory_bytes: field(&read("/proc/meminfo"), "MemTotal").map_or(0, |text| kib(&text) * 1024),
        container: container(Path::new("/"), std::env::var("container").ok()),
        ..Environment::default()
    }
}

/// Who must not be named.
pub(super) fn identity() -> Identity {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let mut serials = Vec::new();
    for name in ["product_serial", "board_serial", "chassis_serial", "product_uuid"] {
        serials.extend(fs::read_to_string(format!("/sys/class/dmi/id/{name}")).ok());
    }
    serials.extend(fs::read_to_string("/etc/machine-id").ok());
    let serials = serials.into_iter().map(|text| text.trim().to_owned());
    Identity {
        user: Some(variable("USER"))
            .filter(|u| !u.is_empty())
            .unwrap_or_else(|| variable("LOGNAME")),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        home: variable("HOME"),
        serials: serials.collect(),
        users: logins(),
        values: Vec::new(),
    }
}

/// Login names of whoever is at work here: those that the environment has, that of the user id, and the owner of the current folder.
fn logins() -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let variables = ["USER", "LOGNAME", "SUDO_USER", "DOAS_USER", "USERNAME"];
    let mut names: Vec<String> =
        variables.iter().filter_map(|name| std::env::var(name).ok()).collect();
    let home = std::env::var("HOME").unwrap_or_default();
    if home.starts_with("/home/") {
        names.extend(home.rsplit('/').next().map(str::to_owned));
    }
    let mut ids = vec![rustix::process::getuid().as_raw()];
    ids.extend(fs::metadata(".").map(|folder| folder.uid()));
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    for account in accounts.lines() {
        let mut fields = account.split(':');
        let (name, id) = (fields.next(), fields.nth(1).and_then(|id| id.parse().ok()));
        if id.is_some_and(|id: u32| ids.contains(&id)) {
            names.extend(name.map(str::to_owned));
        }
    }
    names.retain(|name| name.len() > 1);
    names.sort();
    names.dedup();
    names
}

/// The name that /etc/os-release gives to people.
fn os_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// The value after `name :` in a file of /proc.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn kib(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The kernel parameters that can decide about a GPU.
fn parameters(text: &str) -> Vec<String> {
    const NAMES: [&str; 10] = [
        "amdgpu.",
        "amdkfd.",
        "amdttm.",
        "ttm.",
        "drm.",
        "iommu",
        "amd_iommu",
        "pci=",
        "pcie_",
        "hugepages",
    ];
    let wanted = |word: &&str| NAMES.iter().any(|name| word.starts_with(name));
    text.split_whitespace().filter(wanted).map(str::to_owned).collect()
}

/// The kind of container that has this root, by the marks that container engines leave.
fn container(root: &Path, variable: Option<String>) -> Option<String> {
    if root.join("run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    if root.join(".dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if root.join(".singularity.d").exists() {
        return Some("apptainer".to_owned());
    }
    let groups = fs::read_to_string(root.join("proc/1/cgroup")).unwrap_or_default();
    let by_group = ["kubepods", "docker", "libpod", "lxc", "containerd"];
    let engine =
        by_group.iter().find(|name| groups.contains(**name)).map(|name| (*name).to_owned());
    engine.or_else(|| variable.filter(|kind| !kind.is_empty()))
}

/// The lines of the kernel log about the GPU.
pub(super) fn kernel_log(not_read: &mut Vec<NotRead>) -> Vec<String> {
    match kernel_messages() {
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

/// Time since the machine started, in seconds: the clock of the kernel log.
pub(in crate::commands) fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split_whitespace().next().and_then(|t| t.parse().ok()).unwrap_or(0.0)
}

/// The lines about the GPU and one of these processes that the kernel has logged since then; none where the log cannot be read.
/// Within a container the kernel knows processes by other numbers, so that nothing is found there.
pub(in crate::commands) fn kernel_log_since(
    then: f64,
    processes: &BTreeSet<u32>,
    who: &Identity,
) -> Vec<String> {
    let time = |line: &str| -> Option<f64> {
        line.trim_start_matches('[').split(']').next()?.trim().parse().ok()
    };
    let lines = kernel_log(&mut Vec::new()).into_iter();
    let since = lines.filter(|line| time(line).is_some_and(|t| t >= then));
    let since = since.filter(|line| names_one(line, processes));
    since.map(|line| report::issue::redact(&line, who)).collect()
}

/// Whether a line speaks of one of these processes: `repro[17]: segfault`, `process repro pid 17`.
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

/// All messages that /dev/kmsg still has; a read gives one record.
fn kernel_messages() -> std::io::Result<String> {
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
            // A record that was overwritten meanwhile.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
}

/// `priority,sequence,microseconds,flags;text`, as the kernel's documentation of /dev/kmsg has it, in the form of dmesg.
fn message(record: &str) -> String {
    let Some((head, text)) = record.split_once(';') else { return String::new() };
    let time: u64 = head.split(',').nth(2).and_then(|t| t.parse().ok()).unwrap_or(0);
    // Lines that begin with a space are keys of the device, not text.
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    format!("[{:5}.{:06}] {}\n", time / 1_000_000, time % 1_000_000, text.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_say() {
        assert_eq!(os_name("ID=x\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
        assert_eq!(os_name(""), None);
        let memory = "MemTotal:       16384 kB\nMemFree: 1 kB\n";
        assert_eq!(field(memory, "MemTotal").map(|t| kib(&t)), Some(16384));
        let given = parameters("root=UUID=1 amdgpu.mes=0 quiet iommu=pt host=me");
        assert_eq!(given, ["amdgpu.mes=0", "iommu=pt"]);
        assert_eq!(
            message("6,339,5140900,-;amdgpu: ring gfx timeout\n SUBSYSTEM=pci\n"),
            "[    5.140900] amdgpu: ring gfx timeout\n"
        );
    }

    #[test]
    fn a_line_is_of_a_run_where_it_names_its_process() {
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

    #[test]
    fn containers_leave_marks() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(container(root.path(), None), None);
        assert_eq!(
            container(root.path(), Some("systemd-nspawn".into())).as_deref(),
            Some("systemd-nspawn")
        );
        fs::create_dir_all(root.path().join("proc/1")).unwrap();
        fs::write(root.path().join("proc/1/cgroup"), "0::/kubepods/burstable/pod1\n").unwrap();
        assert_eq!(container(root.path(), None).as_deref(), Some("kubepods"));
        fs::write(root.path().join(".dockerenv"), "").unwrap();
        assert_eq!(container(root.path(), None).as_deref(), Some("docker"));
    }
}
