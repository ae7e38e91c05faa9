//! Describes this machine apart from its GPUs: operating system, processor, container.

use std::{fs, num::NonZeroUsize, path::Path};

use report::issue::{Environment, Identity, NotRead};

/// Describes this machine. Files that cannot be read are added to `not_read`.
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

/// Returns the names of this machine and its users, which a published text must not contain.
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
        folders: folders(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        })),
        serials: serials.collect(),
        users: logins(),
        values: Vec::new(),
    }
}

/// Returns private folders, each with its replacement in published texts. These are the folders in the variables
/// `HOME`, `TMPDIR` and `XDG_*`, without system folders in lists such as `XDG_DATA_DIRS`.
fn folders(variables: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    const SYSTEM: [&str; 6] = ["usr", "etc", "opt", "var", "snap", "nix"];
    let is_system = |path: &str| {
        path.split('/').find(|part| !part.is_empty()).is_none_or(|top| SYSTEM.contains(&top))
    };
    let mut found = Vec::new();
    for (name, value) in variables {
        let word = match name.as_str() {
            "HOME" => "~".to_owned(),
            "TMPDIR" => "$TMPDIR".to_owned(),
            name if name.starts_with("XDG_") => format!("${name}"),
            _ => continue,
        };
        let paths: Vec<&str> = match name.ends_with("_DIRS") {
            true => value.split(':').filter(|path| !is_system(path)).collect(),
            false => vec![&value],
        };
        // The path /tmp reveals nothing.
        let paths = paths.into_iter().filter(|path| path.starts_with('/') && *path != "/tmp");
        found.extend(paths.map(|path| (path.to_owned(), word.clone())));
    }
    // Two variables may contain the same folder. The replacement `~` is preferred.
    found.sort_by_key(|(_, word)| (word != "~", word.clone()));
    found
}

/// Returns login names: those in environment variables, that of the user id, and that of the owner of the current
/// folder.
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

/// Returns the name of the operating system, from the text of /etc/os-release.
fn os_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// Returns the value after `name :` in a file of /proc.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn kib(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Returns those parameters of the Linux kernel's command line that can affect a GPU.
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

/// Returns the kind of container that has the root folder `root`; `None` outside of containers. A container is
/// recognised by files that container engines create, or by `variable`, the value of the environment variable
/// `container`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_files_of_the_system() {
        assert_eq!(os_name("ID=x\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
        assert_eq!(os_name(""), None);
        let memory = "MemTotal:       16384 kB\nMemFree: 1 kB\n";
        assert_eq!(field(memory, "MemTotal").map(|t| kib(&t)), Some(16384));
        let given = parameters("root=UUID=1 amdgpu.mes=0 quiet iommu=pt host=me");
        assert_eq!(given, ["amdgpu.mes=0", "iommu=pt"]);
    }

    #[test]
    fn folders_are_called_by_their_variables() {
        let named = folders(
            [
                ("XDG_CACHE_HOME", "/fast/jane"),
                ("HOME", "/home/jane"),
                ("TMPDIR", "/tmp"),
                ("XDG_STATE_HOME", "state"),
                ("XDG_PROJECTS_DIR", "/work/jane"),
                ("XDG_DATA_DIRS", "/usr/local/share:/var/lib/flatpak:/apps/jane/share:/"),
                ("PATH", "/secret/jane"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter(),
        );
        let named: Vec<_> = named.iter().map(|(folder, word)| (&**folder, &**word)).collect();
        let expected = [
            ("/home/jane", "~"),
            ("/fast/jane", "$XDG_CACHE_HOME"),
            ("/apps/jane/share", "$XDG_DATA_DIRS"),
            ("/work/jane", "$XDG_PROJECTS_DIR"),
        ];
        assert_eq!(named, expected);
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
