//! Resource limits of a process; see getrlimit(2).

use std::{fmt, io, str::FromStr};

use rustix::process::{Resource as System, Rlimit, getrlimit, setrlimit};

/// A resource whose limit can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Size of the main thread's call stack, in bytes. Other threads get the same size unless the program sets another
    /// one.
    Stack,
    /// Size of a core file, in bytes.
    Core,
    /// Number of open file descriptors.
    Files,
    /// Size of a written file, in bytes.
    FileSize,
    /// Size of the address space, in bytes.
    Memory,
    /// Private writable memory (heap and data), in bytes.
    Data,
    /// Number of processes and threads of the user, in all programs together.
    Processes,
}

impl Resource {
    /// All resources whose limits can be set.
    pub const ALL: [Resource; 7] = [
        Resource::Stack,
        Resource::Core,
        Resource::Files,
        Resource::FileSize,
        Resource::Memory,
        Resource::Data,
        Resource::Processes,
    ];

    const fn name(self) -> &'static str {
        match self {
            Resource::Stack => "stack",
            Resource::Core => "core",
            Resource::Files => "files",
            Resource::FileSize => "file-size",
            Resource::Memory => "memory",
            Resource::Data => "data",
            Resource::Processes => "processes",
        }
    }

    const fn system(self) -> System {
        match self {
            Resource::Stack => System::Stack,
            Resource::Core => System::Core,
            Resource::Files => System::Nofile,
            Resource::FileSize => System::Fsize,
            Resource::Memory => System::As,
            Resource::Data => System::Data,
            Resource::Processes => System::Nproc,
        }
    }

    /// Returns the current limit of this process for the resource.
    pub fn current_limit(self) -> Limit {
        getrlimit(self.system()).current.map_or(Limit::NONE, Limit)
    }

    /// Sets the limit of this process and of the children that it starts later.
    ///
    /// # Errors
    /// Fails if `limit` exceeds the hard limit.
    pub(crate) fn set(self, limit: Limit) -> io::Result<()> {
        let maximum = getrlimit(self.system()).maximum;
        let current = (limit != Limit::NONE).then_some(limit.0);
        setrlimit(self.system(), Rlimit { current, maximum }).map_err(|_| {
            let most = maximum.map_or(Limit::NONE, Limit);
            io::Error::other(format!(
                "this machine allows at most {self}={most}, not {limit}; use `--limit {self}={most}` or less"
            ))
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Resource {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Resource::ALL.into_iter().find(|resource| resource.name() == name);
        found.ok_or_else(|| {
            let all: Vec<_> = Resource::ALL.iter().map(|resource| resource.name()).collect();
            format!("unknown limit `{name}`; available are {}", all.join(", "))
        })
    }
}

/// Limit of a resource, in the unit of the resource. Users write it as `1024`, `8M` (powers of 1024) or `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit(pub u64);

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit(u64::MAX);

    /// Parses a limit of a resource.
    ///
    /// # Errors
    /// Returns a message with the invalid text and the valid forms.
    pub fn parse(resource: Resource, text: &str) -> Result<Limit, String> {
        let shift = UNITS.iter().find(|(unit, _)| text.ends_with(*unit)).map_or(0, |(_, s)| *s);
        let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse::<u64>().ok().filter(|_| plain);
        match number.and_then(|number| number.checked_mul(1 << shift)) {
            _ if text == "unlimited" => Ok(Limit::NONE),
            Some(number) if number < u64::MAX => Ok(Limit(number)),
            _ => Err(format!(
                "`{resource}={text}`: write a number, such as 1024 or 8M, or unlimited"
            )),
        }
    }
}

const UNITS: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Limit::NONE {
            return f.write_str("unlimited");
        }
        // The suffix K is never printed, because 1024 files are not "1K files".
        let whole = |shift: u32| shift > 10 && self.0 > 0 && self.0.trailing_zeros() >= shift;
        match UNITS.iter().find(|(_, shift)| whole(*shift)) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_round_trip_through_text() {
        let check = |text: &str, number: u64, written: &str| {
            let limit = Limit::parse(Resource::Stack, text).unwrap();
            assert_eq!((limit, limit.to_string().as_str()), (Limit(number), written), "{text}");
            assert_eq!(Limit::parse(Resource::Stack, written), Ok(limit));
        };
        check("0", 0, "0");
        check("1000", 1000, "1000");
        check("1024", 1024, "1024");
        check("4K", 4096, "4096");
        check("8M", 8 << 20, "8M");
        check("8192K", 8 << 20, "8M");
        check("3G", 3 << 30, "3G");
        check("unlimited", u64::MAX, "unlimited");
        for bad in ["", "M", "-1", "+1", "8m", "1T", "8MM", "99999999999G", "18446744073709551615"]
        {
            let error = Limit::parse(Resource::Stack, bad).unwrap_err();
            assert!(error.contains(&format!("`stack={bad}`")), "{error}");
        }
    }

    #[test]
    fn resource_names_round_trip() {
        for resource in Resource::ALL {
            assert_eq!(resource.to_string().parse(), Ok(resource));
        }
        let error = "stak".parse::<Resource>().unwrap_err();
        assert_eq!(
            error,
            "unknown limit `stak`; available are stack, core, files, file-size, memory, data, processes"
        );
    }
}
