//! What was asked of a trial besides its stack and its device.

use device::{Sanitize, Schedule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Record;

/// What was asked of a trial besides its stack, its device, its faults and its lateness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Options of the command line that a result depends on and that are not usual, such as `--env AMD_SERIALIZE_COPY=3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
    /// A digest of what the trial does: its plan without places in the case file, or its program. Another text of the same case has
    /// another one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl Asked {
    /// Options with their values, as a session gives them, and a digest.
    pub fn new<'o>(given: impl IntoIterator<Item = (&'o str, String)>, text: String) -> Asked {
        let option =
            |(option, value): (&str, String)| format!("{option} {value}").trim().to_owned();
        Asked { given: given.into_iter().map(option).collect(), text }
    }

    /// Whether it may be why a failure stays away. A launcher says where a trial runs, and nothing about how.
    pub fn may_avoid_failures(&self) -> bool {
        self.given.iter().any(|given| !given.starts_with("--launcher "))
    }

    /// The options for people; variables together, as one mitigation may need several.
    fn words(&self) -> Vec<String> {
        let mut variables = Vec::new();
        let mut words = Vec::new();
        for given in &self.given {
            let (option, value) = given.split_once(' ').unwrap_or((given, ""));
            words.push(match option {
                "--env" => {
                    variables.push(value);
                    continue;
                }
                "--launcher" => format!("started by `{value}`"),
                "--limit" => format!("limit {value}"),
                "--timeout" => format!("at most {value} s"),
                "--quiet-timeout" => format!("silent for at most {value} s"),
                "--schedule" => format!("schedule {value}"),
                "--sanitize" => sanitized(Sanitize::On).to_owned(),
                "--sanitize=stop" => sanitized(Sanitize::Stop).to_owned(),
                "--device-option" => value.to_owned(),
                _ => given.clone(),
            });
        }
        if !variables.is_empty() {
            words.insert(0, format!("{WITH}{}", variables.join(" ")));
        }
        words
    }
}

/// In front of variables.
const WITH: &str = "with ";

fn sanitized(sanitize: Sanitize) -> &'static str {
    match sanitize {
        Sanitize::Off => "not sanitized",
        Sanitize::On => "sanitized",
        Sanitize::Stop => "sanitized up to the first finding",
    }
}

/// What was asked of a trial that is not usual, each in words. Seeds of faults and of lateness are left out, as each run has its own.
pub(crate) fn asked(record: &Record) -> Vec<String> {
    let mut all = match &record.asked {
        Some(asked) => asked.words(),
        None => of_device(record),
    };
    all.extend(record.late.iter().map(|_| "work late on purpose".to_owned()));
    let planted = record.faults.iter().map(|planted| {
        let own = planted.parameters().into_iter().filter(|(name, _)| *name != "seed");
        own.fold(planted.fault.to_string(), |text, (name, value)| format!("{text},{name}={value}"))
    });
    let planted: Vec<_> = planted.collect();
    if !planted.is_empty() {
        all.push(format!("planted fault: {}", planted.join(" ")));
    }
    all
}

/// What the device said that it was asked, for records of versions that did not write it down.
fn of_device(record: &Record) -> Vec<String> {
    let Some(config) = record.device.identity.as_ref().map(|identity| &identity.config) else {
        return Vec::new();
    };
    let schedule = (config.schedule != Schedule::Eager).then(|| config.schedule.to_string());
    let schedule = schedule.map(|schedule| format!("schedule {schedule}"));
    let sanitize = config.sanitize.is_on().then(|| sanitized(config.sanitize).to_owned());
    schedule.into_iter().chain(sanitize).chain(config.options()).collect()
}

/// What a trial was given that passed and is known to fail without: `AMD_SERIALIZE_COPY=3, schedule lazy`.
pub(crate) fn passes_with(record: &Record) -> String {
    let all = asked(record).join(", ");
    all.strip_prefix(WITH).unwrap_or(&all).to_owned()
}

/// What a trial does, where that is known.
pub(crate) fn text(record: &Record) -> Option<&str> {
    record.asked.as_ref().map(|asked| asked.text.as_str()).filter(|text| !text.is_empty())
}

/// Whether two records of a trial may be of one text of its case: those of older versions may be of any.
pub fn may_be_one_text(a: &Record, b: &Record) -> bool {
    text(a).zip(text(b)).is_none_or(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{asking, passed};

    #[test]
    fn what_was_asked_is_told() {
        let given = [
            ("--env", "AMD_SERIALIZE_COPY=3"),
            ("--env", "B=a b"),
            ("--launcher", "nice -n 5"),
            ("--limit", "stack=64M"),
            ("--timeout", "9"),
            ("--quiet-timeout", "8"),
            ("--schedule", "lazy"),
            ("--sanitize", ""),
            ("--device-option", "threads=2"),
        ];
        let record = asking(&given, passed("a/b"));
        assert_eq!(
            asked(&record),
            [
                "with AMD_SERIALIZE_COPY=3 B=a b",
                "started by `nice -n 5`",
                "limit stack=64M",
                "at most 9 s",
                "silent for at most 8 s",
                "schedule lazy",
                "sanitized",
                "threads=2"
            ]
        );
        for (n, one) in given.iter().enumerate() {
            let asked = Asked::new([(one.0, one.1.to_owned())], String::new());
            assert_eq!(asked.may_avoid_failures(), n != 2, "{one:?}");
        }
        assert!(!Asked::default().may_avoid_failures());
    }

    /// A record of an older version has the device's word alone.
    #[test]
    fn what_an_older_record_tells_is_told() {
        let mut record = passed("a/b");
        let identity = record.device.identity.as_mut().expect("emulated");
        identity.config.schedule = Schedule::Lazy;
        identity.config.sanitize = Sanitize::On;
        assert_eq!(asked(&record), ["schedule lazy", "sanitized"]);
        record.asked = Some(Asked::default());
        assert_eq!(asked(&record), [""; 0]);
    }
}
