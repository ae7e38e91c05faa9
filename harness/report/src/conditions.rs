//! Describes the unusual options with which a trial ran, such as a schedule or a sanitizer.

use device::Schedule;

use crate::{
    Record,
    asked::{WITH_PREFIX, sanitized},
};

/// Describes each unusual option of a trial, for example `schedule lazy`. Seeds are left out, because they differ
/// between runs with the same configuration.
pub(crate) fn unusual_options(record: &Record) -> Vec<String> {
    let mut all = match &record.asked {
        Some(asked) => asked.words(),
        None => device_options(record),
    };
    all.extend(record.late.iter().map(|_| "injected delays".to_owned()));
    let planted = record.faults.iter().map(|planted| {
        let own = planted.parameters().into_iter().filter(|(name, _)| *name != "seed");
        own.fold(planted.fault.to_string(), |text, (name, value)| format!("{text},{name}={value}"))
    });
    let planted: Vec<_> = planted.collect();
    if !planted.is_empty() {
        all.push(format!("injected fault: {}", planted.join(" ")));
    }
    all
}

/// Returns the options that the emulated device reported. Records of older versions of rocrepro contain only these
/// options, and not the requested ones.
fn device_options(record: &Record) -> Vec<String> {
    let Some(config) = record.device.identity.as_ref().map(|identity| &identity.config) else {
        return Vec::new();
    };
    let schedule = (config.schedule != Schedule::Eager).then(|| config.schedule.to_string());
    let schedule = schedule.map(|schedule| format!("schedule {schedule}"));
    let sanitize = config.sanitize.is_on().then(|| sanitized(config.sanitize).to_owned());
    // In the versions that wrote such records, large BAR was off by default, so `large-bar=no` is not an unusual
    // option.
    let options = config.options().into_iter().filter(|option| option != "large-bar=no");
    schedule.into_iter().chain(sanitize).chain(options).collect()
}

/// Describes the options with which an expected failure did not occur, for example `AMD_SERIALIZE_COPY=3, schedule
/// lazy`.
pub(crate) fn passes_with(record: &Record) -> String {
    let all = unusual_options(record).join(", ");
    all.strip_prefix(WITH_PREFIX).unwrap_or(&all).to_owned()
}

/// Returns the digest of the trial's plan or program; `None` if the record does not contain it.
pub(crate) fn plan_digest(record: &Record) -> Option<&str> {
    record.asked.as_ref().map(|asked| asked.text.as_str()).filter(|text| !text.is_empty())
}

/// Returns true if two records of a trial may belong to the same version of its case. Records without a digest match
/// every version.
pub fn may_be_one_text(a: &Record, b: &Record) -> bool {
    plan_digest(a).zip(plan_digest(b)).is_none_or(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use device::Sanitize;

    use super::*;
    use crate::{
        RequestedOptions,
        fixture::{passed, with_options},
    };

    #[test]
    fn describes_unusual_options() {
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
        let record = with_options(&given, passed("a/b"));
        assert_eq!(
            unusual_options(&record),
            [
                "with AMD_SERIALIZE_COPY=3 B=a b",
                "started by `nice -n 5`",
                "limit stack=64M",
                "time limit 9 s",
                "limit without progress 8 s",
                "schedule lazy",
                "sanitized",
                "threads=2"
            ]
        );
        for (n, one) in given.iter().enumerate() {
            let asked = RequestedOptions::new([(one.0, one.1.to_owned())], String::new());
            assert_eq!(asked.may_avoid_failures(), n != 2, "{one:?}");
        }
        assert!(!RequestedOptions::default().may_avoid_failures());
    }

    /// A record of an older version of rocrepro contains only the options that the device reported.
    #[test]
    fn describes_options_of_older_records() {
        let mut record = passed("a/b");
        let identity = record.device.identity.as_mut().expect("emulated");
        identity.config.schedule = Schedule::Lazy;
        identity.config.sanitize = Sanitize::On;
        assert_eq!(unusual_options(&record), ["schedule lazy", "sanitized"]);
        record.asked = Some(RequestedOptions::default());
        assert_eq!(unusual_options(&record), [""; 0]);
    }
}
