use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Mode of the sanitizer, which checks that kernels and copies access only allocated and initialised memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum Sanitize {
    /// The sanitizer is off.
    #[default]
    Off,
    /// The sanitizer reports each error once. The device continues as hardware would.
    On,
    /// The sanitizer stops the device at the first error.
    Stop,
}

/// The mode as written in JSON: a string, or a boolean in records of older versions, in which the sanitizer always
/// stopped the device at the first error.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Whether(bool),
    Word(Word),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    On,
    Stop,
}

impl From<Sanitize> for Written {
    fn from(sanitize: Sanitize) -> Written {
        match sanitize {
            Sanitize::Off => Written::Whether(false),
            Sanitize::On => Written::Word(Word::On),
            Sanitize::Stop => Written::Word(Word::Stop),
        }
    }
}

impl From<Written> for Sanitize {
    fn from(written: Written) -> Sanitize {
        match written {
            Written::Whether(false) => Sanitize::Off,
            Written::Word(Word::On) => Sanitize::On,
            Written::Whether(true) | Written::Word(Word::Stop) => Sanitize::Stop,
        }
    }
}

impl Sanitize {
    /// Returns true if accesses are checked.
    pub fn is_on(self) -> bool {
        self != Sanitize::Off
    }
}

/// Formats the mode for the command line.
impl fmt::Display for Sanitize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sanitize::Off => "off",
            Sanitize::On => "on",
            Sanitize::Stop => "stop",
        })
    }
}

/// Error for a text that is not a mode of the sanitizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSanitize(String);

impl fmt::Display for UnknownSanitize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid value `--sanitize={}`; write `--sanitize` or `--sanitize=stop`", self.0)
    }
}

impl std::error::Error for UnknownSanitize {}

impl FromStr for Sanitize {
    type Err = UnknownSanitize;

    fn from_str(text: &str) -> Result<Sanitize, UnknownSanitize> {
        let all = [Sanitize::Off, Sanitize::On, Sanitize::Stop];
        let found = all.into_iter().find(|sanitize| sanitize.to_string() == text);
        found.ok_or_else(|| UnknownSanitize(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_current_and_old_json() {
        #[track_caller]
        fn check(json: &str, expected: Sanitize) {
            let read: Sanitize = serde_json::from_str(json).unwrap();
            assert_eq!(read, expected, "{json}");
            let again: Sanitize =
                serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
            assert_eq!(again, expected, "{json}");
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
        check("false", Sanitize::Off);
        check("true", Sanitize::Stop);
        check("\"on\"", Sanitize::On);
        check("\"stop\"", Sanitize::Stop);
        assert!(serde_json::from_str::<Sanitize>("\"no\"").is_err());
        assert!("yes".parse::<Sanitize>().is_err());
    }
}
