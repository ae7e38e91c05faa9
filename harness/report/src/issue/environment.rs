//! Describes the machine in a report: hardware, driver, ROCm stacks and environment variables.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::redact::{Identity, redact};
use super::variables::is_public;
use crate::gpu::{Gpu, gib};

/// Hardware, driver, ROCm stacks and environment variables of a machine. [`Environment::redacted`] removes personal
/// data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Date on which the machine was described, RFC 3339 in UTC.
    pub date: String,
    /// Version of rocrepro.
    pub rocrepro: String,
    /// Name and version of the operating system in which rocrepro runs; in a container, this is the container's system.
    pub os: String,
    /// Output of `uname -srm`: the Linux kernel of the machine, also in a container.
    pub kernel: String,
    /// Parameters on the Linux command line that concern amdgpu, the IOMMU or memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_parameters: Vec<String>,
    /// Model of the processor.
    pub cpu: String,
    /// Number of processors that this process may use.
    pub processors: u32,
    /// Size of the machine's main memory, in bytes.
    pub memory_bytes: u64,
    /// Kind of container in which rocrepro runs; `None` outside a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The amdgpu driver of the Linux kernel.
    pub driver: Driver,
    /// The AMD GPUs in the machine.
    pub gpus: Vec<Gpu>,
    /// Likely problems of the machine, each with a remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// ROCm installations on the machine.
    pub stacks: Vec<StackFound>,
    /// Environment variables that are set and that ROCm or PyTorch read. A fresh installation sets none of them.
    pub variables: Vec<Variable>,
    /// Output of `python3 -m torch.utils.collect_env`, if PyTorch is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
    /// The last lines about the GPU in the log of the Linux kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_log: Vec<String>,
    /// Facts about the machine that could not be read, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<NotRead>,
}

/// The amdgpu driver of the Linux kernel, which a container shares with its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// Version of the DKMS package of amdgpu; `None` if the module comes with the Linux kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amdgpu: Option<String>,
    /// True if the amdgpu module is loaded.
    pub loaded: bool,
    /// Reasons why rocrepro cannot use the device files; empty if it can.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<String>,
}

/// A ROCm installation on the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFound {
    /// Value for `--rocm` that selects this installation.
    pub spec: String,
    /// Folder of the installation.
    pub root: String,
    /// ROCm version; `None` if the installation's files do not contain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm: Option<String>,
    /// Names of the libraries, each with its build id if there is one.
    pub libraries: Vec<(String, Option<String>)>,
}

/// An environment variable that a fresh installation does not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Value of the variable.
    pub value: String,
}

/// A fact about the machine that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRead {
    /// Description of the missing fact.
    pub what: String,
    /// Reason why it could not be read.
    pub why: String,
}

/// Returns true if a line from the log of the Linux kernel concerns the GPU.
pub fn is_gpu_line(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["amdgpu", "amdkfd", "kfd:", "[drm", "iommu", "libamdhip64", "libhsa-runtime64"]
        .iter()
        .any(|word| line.contains(word))
}

impl Environment {
    /// Replaces the names of people and machines in all strings of the description.
    pub fn redacted(mut self, who: &Identity) -> Environment {
        let clean = |text: &mut String| *text = redact(text, who);
        let texts = [&mut self.os, &mut self.kernel, &mut self.cpu]
            .into_iter()
            .chain(&mut self.kernel_parameters)
            .chain(&mut self.container)
            .chain(&mut self.driver.access)
            .chain(&mut self.torch)
            .chain(&mut self.advice)
            .chain(&mut self.kernel_log);
        texts.for_each(clean);
        self.gpus.iter_mut().for_each(|gpu| clean(&mut gpu.name));
        for stack in &mut self.stacks {
            clean(&mut stack.spec);
            clean(&mut stack.root);
        }
        for Variable { name, value } in &mut self.variables {
            match is_public(name, value) {
                true => clean(value),
                false => "<value>".clone_into(value),
            }
        }
        self.not_read.iter_mut().for_each(|entry| clean(&mut entry.why));
        self
    }

    /// Describes all GPUs in one line; `None` if the machine has no GPU.
    pub fn gpu_line(&self) -> Option<String> {
        let mut counted: Vec<(String, usize)> = Vec::new();
        for gpu in &self.gpus {
            let name = if gpu.name.is_empty() { "AMD GPU" } else { &gpu.name };
            let text = format!("{name} ({}, {})", gpu.gfx, gpu.pci);
            match counted.iter_mut().find(|(known, _)| *known == text) {
                Some((_, n)) => *n += 1,
                None => counted.push((text, 1)),
            }
        }
        let words = |(text, n): &(String, usize)| match n {
            1 => text.clone(),
            n => format!("{n} x {text}"),
        };
        (!counted.is_empty()).then(|| counted.iter().map(words).collect::<Vec<_>>().join(", "))
    }

    /// Formats the description as plain text, one fact per line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<12}{value}");
        };
        line("os", &self.os);
        line("kernel", &self.kernel);
        if !self.kernel_parameters.is_empty() {
            line("parameters", &self.kernel_parameters.join(" "));
        }
        line("cpu", &format!("{}, {} processors", self.cpu, self.processors));
        line("memory", &gib(self.memory_bytes));
        line("container", self.container.as_deref().unwrap_or("none: this is the host"));
        line("driver", &self.driver.words(&self.kernel));
        for problem in &self.driver.access {
            line("access", problem);
        }
        match self.gpu_line() {
            None => line("gpu", "none"),
            Some(_) => {
                for gpu in &self.gpus {
                    line("gpu", &gpu.words());
                    for errors in &gpu.errors {
                        line("errors", &errors.to_string());
                    }
                    if !gpu.firmware.is_empty() {
                        let parts: Vec<_> =
                            gpu.firmware.iter().map(|(part, v)| format!("{part} {v}")).collect();
                        line("firmware", &parts.join(", "));
                    }
                }
            }
        }
        if self.stacks.is_empty() {
            line("rocm", "none found");
        }
        for stack in &self.stacks {
            let version = stack.rocm.as_deref().unwrap_or("of unknown version");
            line("rocm", &format!("{version} as {} in {}", stack.spec, stack.root));
            for (name, id) in &stack.libraries {
                let id = id.as_deref().unwrap_or("without build id");
                line("", &format!("{name} {id}"));
            }
        }
        if self.variables.is_empty() {
            line("variables", "none that ROCm or PyTorch read");
        }
        for Variable { name, value } in &self.variables {
            line("variable", &format!("{name}={value}"));
        }
        for advice in &self.advice {
            line("look at", advice);
        }
        for log in &self.kernel_log {
            line("kernel log", log);
        }
        for NotRead { what, why } in &self.not_read {
            line("not read", &format!("{what}: {why}"));
        }
        if let Some(torch) = &self.torch {
            text.push('\n');
            text.push_str(torch.trim_end());
            text.push('\n');
        }
        text
    }
}

impl Driver {
    /// Returns a name for the driver, for example `amdgpu 6.12.12 on Linux 6.14.0`. Returns `None` if amdgpu is not
    /// loaded, so that an expected failure limited to `amdgpu*` does not apply. `kernel`, the release of Linux, is part
    /// of the name, because the amdgpu module that comes with Linux has no version of its own.
    pub fn name(&self, kernel: &str) -> Option<String> {
        match (&self.amdgpu, self.loaded) {
            (Some(version), _) => Some(format!("amdgpu {version} on {kernel}")),
            (None, true) => Some(format!("amdgpu of {kernel}")),
            (None, false) => None,
        }
    }

    fn words(&self, kernel: &str) -> String {
        self.name(kernel).unwrap_or_else(|| "amdgpu is not loaded".to_owned())
    }
}

#[cfg(test)]
pub(super) fn example() -> Environment {
    Environment {
        date: "2026-11-21T01:02:03Z".to_owned(),
        rocrepro: "0.1.0".to_owned(),
        os: "Ubuntu 24.04.3 LTS".to_owned(),
        kernel: "Linux 6.14.0-33-generic x86_64".to_owned(),
        kernel_parameters: vec!["iommu=pt".to_owned()],
        cpu: "AMD Ryzen 9 7950X 16-Core Processor".to_owned(),
        processors: 32,
        memory_bytes: 64 << 30,
        container: Some("docker".to_owned()),
        driver: Driver {
            amdgpu: Some("6.16.6".to_owned()),
            loaded: true,
            access: vec!["/dev/kfd: no write access; add the user jane to `render`".to_owned()],
        },
        gpus: vec![Gpu {
            name: "Radeon RX 7900 XTX".to_owned(),
            gfx: "gfx1100".to_owned(),
            pci: "1002:744c rev c8".to_owned(),
            vram_bytes: 24 << 30,
            vbios: Some("113-EXT800217-001".to_owned()),
            firmware: vec![("mec".to_owned(), "0x000001f6".to_owned())],
            ..Gpu::default()
        }],
        stacks: vec![StackFound {
            spec: "/opt/rocm".to_owned(),
            root: "/opt/rocm-7.2.0".to_owned(),
            rocm: Some("7.2.0".to_owned()),
            libraries: vec![("libamdhip64".to_owned(), Some("0123abcd".to_owned()))],
        }],
        variables: vec![Variable {
            name: "LD_LIBRARY_PATH".to_owned(),
            value: "/home/jane/lib".to_owned(),
        }],
        torch: None,
        advice: Vec::new(),
        kernel_log: vec!["workhorse amdgpu 0000:03:00.0: MES failed to respond".to_owned()],
        not_read: vec![NotRead {
            what: "/sys/kernel/debug/dri/1/amdgpu_firmware_info".to_owned(),
            why: "permission denied".to_owned(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_the_machine() {
        let who = Identity {
            user: "jane".to_owned(),
            host: "workhorse".to_owned(),
            folders: vec![("/home/jane".to_owned(), "~".to_owned())],
            serials: Vec::new(),
            users: Vec::new(),
            values: Vec::new(),
        };
        insta::assert_snapshot!(example().redacted(&who).text());
        insta::assert_snapshot!(Environment::default().text());
    }

    #[test]
    fn missing_driver_has_no_name() {
        let name = |amdgpu: Option<&str>, loaded: bool| {
            let amdgpu = amdgpu.map(str::to_owned);
            Driver { amdgpu, loaded, access: Vec::new() }.name("Linux 6.14.0")
        };
        assert_eq!(name(Some("6.16.6"), true).as_deref(), Some("amdgpu 6.16.6 on Linux 6.14.0"));
        assert_eq!(name(None, true).as_deref(), Some("amdgpu of Linux 6.14.0"));
        assert_eq!(name(None, false), None);
    }

    #[test]
    fn equal_gpus_are_counted() {
        let mut machine = example();
        machine.gpus.push(machine.gpus[0].clone());
        let line = machine.gpu_line();
        assert_eq!(line.as_deref(), Some("2 x Radeon RX 7900 XTX (gfx1100, 1002:744c rev c8)"));
    }

    #[test]
    fn recognises_gpu_log_lines() {
        assert!(is_gpu_line("[drm:amdgpu_job_timedout] *ERROR* ring gfx timeout"));
        assert!(!is_gpu_line("usb 1-1: new device"));
    }
}
