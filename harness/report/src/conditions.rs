//! What a record says of what was asked of its trial.

use device::Schedule;

use crate::{
    Record,
    asked::{WITH, sanitized},
};

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
    // Versions that did not write down what was asked had no large BAR unless it was asked for.
    let options = config.options().into_iter().filter(|option| option != "large-bar=no");
    schedule.into_iter().chain(sanitize).chain(options).collect()
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
    use device::Sanitize;

    use super::*;
    use crate::{
        Asked,
        fixture::{asking, passed},
    };

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
