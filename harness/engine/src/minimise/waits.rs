//! Shortens the waits of a program while it is minimised, so that a run that waits in vain takes less time.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Waits of at least two whole seconds: durations of C++, `time.sleep` of Python, and time-outs of Python's functions.
static WAIT: LazyLock<Regex> = LazyLock::new(|| {
    let cpp = r"\bseconds\((?P<cpp>[2-9]|[1-9]\d+)\)";
    let python = r"(?P<python>\btime\.sleep\(|\btimeout=)(?P<number>[2-9]|[1-9]\d+)(?P<end>[,)])";
    Regex::new(&format!("{cpp}|{python}")).expect("a valid pattern")
});

/// Returns the program with each wait of two seconds or more shortened to a tenth; `None` if it has no such wait. Apart
/// from these numbers, the lines stay the same.
pub(super) fn with_shorter_waits(text: &str) -> Option<String> {
    let shorter = WAIT.replace_all(text, |found: &Captures<'_>| {
        let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
        match part("cpp") {
            "" => format!("{}{} / 10{}", part("python"), part("number"), part("end")),
            number => format!("milliseconds({number}00)"),
        }
    });
    (shorter != text).then(|| shorter.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_waits_of_two_seconds_and_more() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(with_shorter_waits(text).as_deref(), expected, "{text}");
        };
        check(
            "held(lock, std::chrono::seconds(5));",
            Some("held(lock, std::chrono::milliseconds(500));"),
        );
        check("time.sleep(30)", Some("time.sleep(30 / 10)"));
        check("a.wait(timeout=5, b=2)", Some("a.wait(timeout=5 / 10, b=2)"));
        for same in ["seconds(1)", "milliseconds(500)", "time.sleep(0.5)", "usleep(5)", "x = 5"] {
            check(same, None);
        }
    }
}
