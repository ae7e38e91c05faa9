use std::{
    ffi::{c_char, c_void},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::{Arch, FaultSpec, Level, Sanitize, Schedule};

/// Environment variable with the configuration of the emulated device: the JSON of a [`Config`]. If the variable is not
/// set, the device is a gfx1151 without faults.
pub const CONFIG_VARIABLE: &str = "ROCREPRO_DEVICE";

/// Symbol `const char *rocrepro_device_identity(void)`, which only the emulated device exports. The function returns
/// the JSON of an [`Identity`].
pub const IDENTITY_SYMBOL: &str = "rocrepro_device_identity";

/// Symbol `void rocrepro_device_line(uint32_t)`, which only the emulated device exports. The worker calls it before
/// each line of the case, so that the device can name the line in its messages.
pub const LINE_SYMBOL: &str = "rocrepro_device_line";

/// Symbol `void rocrepro_device_buffer(const void *, size_t, size_t, const char *)`, which only the emulated device
/// exports. The worker calls it for each buffer of the case. The arguments are the address, the size in bytes, the size
/// in bytes of the guard area on each side, and the name of the buffer.
pub const BUFFER_SYMBOL: &str = "rocrepro_device_buffer";

/// Symbol `void rocrepro_device_never_written(const void *, size_t)`, which only the emulated device exports. The
/// worker fills new memory with a known pattern and then calls this function, so that the device still treats the
/// memory as uninitialised.
pub const NEVER_WRITTEN_SYMBOL: &str = "rocrepro_device_never_written";

/// Symbol of a function of type [`Decode`], which only the emulated device exports. The function needs the disassembler
/// of the stack, but no device.
pub const DECODE_SYMBOL: &str = "rocrepro_device_decode";

/// Function `int64_t rocrepro_device_decode(const char *arch, uint64_t address, const uint8_t *bytes, size_t length,
/// void (*tell)(void *, const char *, size_t, bool), void *whom)`, which decodes the instruction at the start of
/// `bytes`.
///
/// The function passes the text of the instruction to `tell`, in UTF-8 and valid only during that call. The last
/// argument of `tell` is true if the device can execute the instruction. The result is the size of the instruction in
/// bytes, 0 if the bytes are not an instruction, and -1 if the architecture is unknown or the disassembler is missing.
/// For -1, `tell` receives the reason.
pub type Decode = unsafe extern "C" fn(
    arch: *const c_char,
    address: u64,
    bytes: *const u8,
    length: usize,
    tell: extern "C" fn(whom: *mut c_void, text: *const u8, length: usize, executable: bool),
    whom: *mut c_void,
) -> i64;

/// Maximum number of devices in one process.
pub const MAX_DEVICES: u32 = 8;

/// Largest valid value of [`Config::threads`]. Hosts have fewer processors than this.
const MAX_THREADS: u32 = 1024;

/// Default of [`Config::patience`], in seconds. The time limit of the supervisor for a silent trial is much longer.
const DEFAULT_PATIENCE: u32 = 10;

/// Largest valid value of [`Config::patience`], in seconds.
const MAX_PATIENCE: u32 = 3600;

/// Configuration of the emulated device for one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Architecture that the emulated GPUs report and whose instructions they execute.
    pub arch: Arch,
    /// Layer of AMD's software stack that the device replaces.
    #[serde(skip_serializing_if = "is_default")]
    pub level: Level,
    /// Memory of each device, in bytes. For an APU, the part of the host memory that the firmware reserves (carve-out).
    pub memory: u64,
    /// Host memory that an APU can use in addition (GTT), in bytes. On hardware, the Linux kernel parameters
    /// amdgpu.gttsize and ttm.pages_limit set this size.
    #[serde(skip_serializing_if = "is_default")]
    pub gtt: u64,
    /// Number of devices. All devices are of the same kind.
    #[serde(skip_serializing_if = "is_one")]
    pub devices: u32,
    /// True if the host can access device memory directly, for example through a large BAR or on an APU. If false, the
    /// device executes every copy from and to the host, so that it observes all of them.
    #[serde(skip_serializing_if = "is_default")]
    pub large_bar: bool,
    /// Mode of the sanitizer, which checks that kernels and copies access only allocated and initialised memory.
    #[serde(skip_serializing_if = "is_default")]
    pub sanitize: Sanitize,
    /// Number of threads that execute the workgroups of a kernel. With more than one thread, the order in which
    /// different workgroups access memory varies from run to run.
    #[serde(skip_serializing_if = "is_one")]
    pub threads: u32,
    /// Processor time in seconds after which a kernel that makes no forward progress is reported as hung.
    #[serde(skip_serializing_if = "is_usual_patience")]
    pub patience: u32,
    /// Rule that decides when, and in which order, the device executes submitted work.
    #[serde(skip_serializing_if = "is_default")]
    pub schedule: Schedule,
    /// Injected faults; empty for a healthy device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            arch: Arch::Gfx1151,
            level: Level::default(),
            memory: 4 << 30,
            gtt: 0,
            devices: 1,
            large_bar: false,
            threads: 1,
            patience: DEFAULT_PATIENCE,
            sanitize: Sanitize::Off,
            schedule: Schedule::default(),
            faults: Vec::new(),
        }
    }
}

impl Config {
    /// Returns the default configuration for a device of this architecture in an ordinary machine.
    ///
    /// With the sanitizer the device has no large BAR. The device cannot observe what the host writes through a BAR, so
    /// it would treat all memory as initialised.
    pub fn for_arch(arch: Arch, sanitize: Sanitize) -> Config {
        let large_bar = arch.has_large_bar() && !sanitize.is_on();
        Config { arch, large_bar, sanitize, ..Config::default() }
    }

    /// Returns the number of bytes that can be allocated on each device, including GTT.
    pub fn total_memory(&self) -> u64 {
        self.memory.saturating_add(self.gtt)
    }

    /// Returns a description of the mistake if a device of this architecture, or at this level, cannot have this
    /// configuration; otherwise `None`.
    pub fn mistake(&self) -> Option<String> {
        if self.gtt > 0 && !self.arch.is_apu() {
            let apus: Vec<_> = Arch::ALL.iter().filter(|a| a.is_apu()).map(|a| a.name()).collect();
            let apus = apus.join(", ");
            return Some(format!("{} has no GTT, which only APUs have: {apus}", self.arch));
        }
        self.missing_at_level().map(|what| {
            format!(
                "the emulated device has no {what} at `level={}`; use the default, `level={}`",
                self.level,
                Level::default()
            )
        })
    }

    /// Returns a requested feature that the device does not have at its level; `None` if the device has all requested
    /// features.
    fn missing_at_level(&self) -> Option<&'static str> {
        match self.level {
            Level::Hsa => None,
            Level::Thunk if self.sanitize.is_on() => Some("sanitizer"),
            Level::Thunk if self.schedule != Schedule::default() => Some("choice of schedules"),
            Level::Thunk if !self.faults.is_empty() => Some("faults that can be injected"),
            Level::Thunk => None,
        }
    }

    /// Lists the settings in which `other` differs from this configuration. One of the two configurations may have been
    /// converted to JSON and back. Therefore a different last bit of a fault's probability is not a difference.
    pub fn differences(&self, other: &Config) -> Vec<String> {
        let Config {
            arch,
            level,
            memory,
            gtt,
            devices,
            large_bar,
            sanitize,
            threads,
            patience,
            schedule,
            faults,
        } = self;
        let mut all = Vec::new();
        let mut compare = |name: &str, requested: &dyn fmt::Display, found: &dyn fmt::Display| {
            let (requested, found) = (requested.to_string(), found.to_string());
            if requested != found {
                all.push(format!("{name}={found} instead of {requested}"));
            }
        };
        compare("arch", arch, &other.arch);
        compare("level", level, &other.level);
        compare("memory", memory, &other.memory);
        compare("gtt", gtt, &other.gtt);
        compare("devices", devices, &other.devices);
        compare("large-bar", large_bar, &other.large_bar);
        compare("sanitize", sanitize, &other.sanitize);
        compare("threads", threads, &other.threads);
        compare("patience", patience, &other.patience);
        compare("schedule", schedule, &other.schedule);
        let mut found = other.faults.iter();
        for requested in faults {
            match found.next() {
                Some(found) if requested.is_same(found) => {}
                Some(found) => all.push(format!("the fault {found} instead of {requested}")),
                None => all.push(format!("no fault {requested}")),
            }
        }
        all.extend(found.map(|found| format!("the fault {found}, which was not requested")));
        all
    }

    /// Returns the command-line options that turn the default device of this architecture into this device. Options for
    /// the schedule and the sanitizer are not included.
    pub fn options(&self) -> Vec<String> {
        let usual = Config::for_arch(self.arch, self.sanitize);
        let mut options = Vec::new();
        if self.level != usual.level {
            options.push(format!("level={}", self.level));
        }
        if self.memory != usual.memory {
            options.push(format!("memory={}", self.memory));
        }
        if self.gtt != usual.gtt {
            options.push(format!("gtt={}", self.gtt));
        }
        if self.devices != usual.devices {
            options.push(format!("devices={}", self.devices));
        }
        if self.large_bar != usual.large_bar {
            let value = if self.large_bar { "yes" } else { "no" };
            options.push(format!("large-bar={value}"));
        }
        if self.threads != usual.threads {
            options.push(format!("threads={}", self.threads));
        }
        if self.patience != usual.patience {
            options.push(format!("patience={}", self.patience));
        }
        options
    }

    /// Applies a command-line option, for example `memory=256M`.
    ///
    /// # Errors
    /// Describes the mistake and the valid options.
    pub fn set(&mut self, option: &str) -> Result<(), String> {
        let bad = || {
            format!(
                "`{option}` is not an option of the emulated device; write memory=256M, gtt=1G, devices=2, \
                 large-bar=yes, threads=4, patience=60 or level=thunk"
            )
        };
        let (name, value) = option.split_once('=').ok_or_else(bad)?;
        match name {
            "level" => {
                let level = Level::ALL.iter().find(|level| level.name() == value);
                self.level = *level.ok_or_else(bad)?;
            }
            "memory" => self.memory = bytes(value).filter(|n| *n > 0).ok_or_else(bad)?,
            "gtt" => self.gtt = bytes(value).ok_or_else(bad)?,
            "devices" => {
                let number = value.parse().ok().filter(|n| (1..=MAX_DEVICES).contains(n));
                self.devices = number.ok_or_else(bad)?;
            }
            "threads" => {
                let number = value.parse().ok().filter(|n| (1..=MAX_THREADS).contains(n));
                self.threads = number.ok_or_else(bad)?;
            }
            "patience" => {
                let number = value.parse().ok().filter(|n| (1..=MAX_PATIENCE).contains(n));
                self.patience = number.ok_or_else(bad)?;
            }
            "large-bar" => {
                self.large_bar = match value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(bad()),
                };
            }
            _ => return Err(bad()),
        }
        Ok(())
    }
}

/// Parses a size such as `4096`, `64K`, `256M` or `2G`, in powers of 1024. Returns `None` for any other text, and for a
/// size that exceeds 64 bits.
fn bytes(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn is_usual_patience(seconds: &u32) -> bool {
    *seconds == DEFAULT_PATIENCE
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Version and configuration of the emulated device, as [`IDENTITY_SYMBOL`] returns them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of the emulated device.
    pub version: String,
    /// Actual configuration of the device.
    pub config: Config,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_options() {
        #[track_caller]
        fn check(option: &str, expected: Option<u64>) {
            let mut config = Config::default();
            let read = config.set(option).ok().map(|()| config.memory);
            assert_eq!(read, expected, "{option}");
        }
        check("memory=4096", Some(4096));
        check("memory=256M", Some(256 << 20));
        check("memory=2G", Some(2 << 30));
        for bad in ["memory=0", "memory=", "memory=G", "memory=1T", "memory=-1", "memory", "size=1"]
        {
            check(bad, None);
        }
        check("memory=99999999999G", None);
        check("devices=2", Some(4 << 30));
        check("devices=0", None);
        check("large-bar=maybe", None);
        check("patience=1", Some(4 << 30));
        check("patience=0", None);
        check("patience=4000", None);
    }

    /// The list of fields comes from the JSON, so that the test also covers fields that are added later.
    #[test]
    fn reports_every_different_field() {
        let mut planted = FaultSpec::from(crate::Fault::CopyLate);
        for (name, value) in
            [("probability", "0.25"), ("per", "process"), ("seed", "7"), ("ms", "9")]
        {
            planted.set(name, value).unwrap();
        }
        let config = Config {
            arch: Arch::Gfx1151,
            level: Level::Thunk,
            memory: 3,
            gtt: 4,
            devices: 5,
            large_bar: true,
            sanitize: Sanitize::Stop,
            threads: 6,
            patience: 8,
            schedule: Schedule::Seeded(7),
            faults: vec![planted],
        };
        let json = serde_json::to_value(&config).unwrap();
        let read =
            |json: &serde_json::Value| -> Config { serde_json::from_value(json.clone()).unwrap() };
        assert_eq!(config.differences(&read(&json)), [""; 0]);
        let fields = json.as_object().unwrap();
        assert_eq!(fields.len(), 11);
        for field in fields.keys() {
            let mut changed = json.clone();
            changed.as_object_mut().unwrap().remove(field);
            if field == "arch" {
                changed["arch"] = "gfx90a".into();
            }
            assert_eq!(config.differences(&read(&changed)).len(), 1, "{field}");
            assert_eq!(read(&changed).differences(&config).len(), 1, "{field}");
        }
        let parameters = json["faults"][0].as_object().unwrap();
        assert_eq!(parameters.len(), 5);
        for parameter in parameters.keys() {
            let mut changed = json.clone();
            let fault = changed["faults"][0].as_object_mut().unwrap();
            fault.remove(parameter);
            if parameter == "fault" {
                fault.insert("fault".to_owned(), "copy.zero".into());
            }
            assert_eq!(config.differences(&read(&changed)).len(), 1, "{parameter}");
        }
    }

    #[test]
    fn only_apus_have_gtt() {
        let config = |arch, gtt| Config { arch, gtt, ..Config::default() };
        assert_eq!(config(Arch::Gfx1151, 1 << 30).mistake(), None);
        assert_eq!(config(Arch::Gfx1100, 0).mistake(), None);
        let mistake = config(Arch::Gfx1100, 1).mistake();
        assert_eq!(
            mistake.as_deref(),
            Some("gfx1100 has no GTT, which only APUs have: gfx1103, gfx1150, gfx1151, gfx1152")
        );
        assert_eq!(config(Arch::Gfx1151, u64::MAX).total_memory(), u64::MAX);
    }

    #[test]
    fn level_of_the_thunk_lacks_features() {
        let thunk = Config { level: Level::Thunk, ..Config::default() };
        assert_eq!(thunk.mistake(), None);
        let check = |config: Config, what: &str| {
            let mistake = config.mistake().unwrap_or_default();
            assert!(mistake.contains(what), "{mistake}");
            assert_eq!(Config { level: Level::Hsa, ..config }.mistake(), None);
        };
        check(Config { sanitize: Sanitize::On, ..thunk.clone() }, "no sanitizer at `level=thunk`");
        check(Config { schedule: Schedule::Lazy, ..thunk.clone() }, "no choice of schedules");
        let faults = vec![FaultSpec::from(crate::Fault::CopyLate)];
        check(Config { faults, ..thunk }, "no faults that can be injected");
    }

    #[test]
    fn options_round_trip() {
        for (arch, large_bar) in [(Arch::Gfx1100, "yes"), (Arch::Gfx942, "no")] {
            let config = Config {
                memory: 1 << 20,
                gtt: 4096,
                devices: 2,
                large_bar: large_bar == "yes",
                level: Level::Thunk,
                ..Config::for_arch(arch, Sanitize::Off)
            };
            let options = config.options();
            let bar = format!("large-bar={large_bar}");
            assert_eq!(
                options,
                ["level=thunk", "memory=1048576", "gtt=4096", "devices=2", bar.as_str()]
            );
            let mut read = Config::for_arch(arch, Sanitize::Off);
            for option in options {
                read.set(&option).unwrap();
            }
            assert_eq!(read, config);
        }
    }

    #[test]
    fn large_bar_follows_the_architecture() {
        let radeon = ["gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201"];
        for arch in Arch::ALL.iter().copied() {
            let config = Config::for_arch(arch, Sanitize::Off);
            assert_eq!(config.large_bar, !radeon.contains(&arch.name()), "{arch}");
            assert_eq!(config.options(), [""; 0], "{arch}");
            // The sanitizer must observe all writes of the host.
            let watched = Config::for_arch(arch, Sanitize::Stop);
            assert!(!watched.large_bar && watched.options().is_empty(), "{arch}");
            // Records of older versions do not have the field `large_bar`. Their devices had no large BAR.
            let old: Config = serde_json::from_str(&format!("{{\"arch\": \"{arch}\"}}")).unwrap();
            assert_eq!(old.options().is_empty(), radeon.contains(&arch.name()), "{arch}");
        }
    }
}
