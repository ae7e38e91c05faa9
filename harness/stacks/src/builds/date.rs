//! Calendar days in UTC, which are part of the names of builds.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

/// A calendar day in UTC. The day of a nightly build is the day on which the build machine started, which may differ
/// from the day of the build's commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date(NaiveDate);

impl Date {
    /// Returns the day that contains a time, given in seconds since 1970-01-01 UTC.
    pub fn from_unix(seconds: i64) -> Self {
        Self(DateTime::from_timestamp(seconds, 0).unwrap_or_default().date_naive())
    }

    /// Returns today's date in UTC.
    pub fn today() -> Self {
        Self(DateTime::<Utc>::from(SystemTime::now()).date_naive())
    }

    /// Returns the date `days` days later, or earlier if `days` is negative. If the result would be outside of the
    /// calendar's range, returns the date unchanged.
    pub fn plus(self, days: i64) -> Self {
        let later = TimeDelta::try_days(days).and_then(|days| self.0.checked_add_signed(days));
        Self(later.unwrap_or(self.0))
    }

    /// Returns the number of days from this date to `other`; negative if `other` is earlier.
    pub fn until(self, other: Self) -> i64 {
        (other.0 - self.0).num_days()
    }

    /// Returns the date in the form that file names contain, for example `20260702`.
    pub fn compact(self) -> String {
        self.0.format("%Y%m%d").to_string()
    }
}

impl FromStr for Date {
    type Err = String;

    /// Parses `2026-07-02` and `20260702`. A time of day after a `T` is ignored.
    fn from_str(text: &str) -> Result<Self, String> {
        let day = text.split('T').next().unwrap_or(text);
        // The formats alone would also accept numbers with fewer digits, and signs.
        let format = match day.len() {
            8 if day.bytes().all(|b| b.is_ascii_digit()) => "%Y%m%d",
            10 if day.bytes().all(|b| b.is_ascii_digit() || b == b'-') => "%Y-%m-%d",
            _ => "",
        };
        let read = NaiveDate::parse_from_str(day, format).ok().filter(|day| day.year() >= 2000);
        let bad = || format!("{text:?} is not a date; write one such as 2026-07-02");
        read.map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.format("%Y-%m-%d"))
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Date;

    #[test]
    fn days_are_read_and_written() {
        let check = |text: &str, expected: &str| {
            let got = text.parse::<Date>().map_or_else(|_| "error".into(), |d| d.to_string());
            assert_eq!(got, expected, "{text:?}");
        };
        check("20260702", "2026-07-02");
        check("2026-07-02", "2026-07-02");
        check("2026-07-02T01:02:03.000Z", "2026-07-02");
        check("2026-13-02", "error");
        check("2026-02-29", "error");
        check("-2026-7-02", "error");
        check("2026-7-002", "error");
        check("2026/07/02", "error");
        check("2026 7 2", "error");
        check("2026- 7- 2", "error");
        check("10000702", "error");
        check("", "error");
        check("２０２６", "error");
    }

    #[test]
    fn seconds_become_days() {
        let check = |seconds, expected: &str| {
            assert_eq!(Date::from_unix(seconds).to_string(), expected);
        };
        check(0, "1970-01-01");
        check(951_782_400, "2000-02-29");
        check(1_769_990_000, "2026-02-01");
        check(1_798_761_599, "2026-12-31");
    }

    #[test]
    fn days_are_counted() {
        let check = |from: &str, days, expected: &str| {
            assert_eq!(from.parse::<Date>().unwrap().plus(days).to_string(), expected);
        };
        check("2026-12-31", 1, "2027-01-01");
        check("2028-03-01", -1, "2028-02-29");
        check("2026-01-01", 0, "2026-01-01");
        check("2026-01-01", 365, "2027-01-01");
        let until = |from: &str, to: &str| from.parse::<Date>().unwrap().until(to.parse().unwrap());
        assert_eq!(until("2026-02-27", "2026-03-02"), 3);
        assert_eq!(until("2026-03-02", "2026-02-27"), -3);
    }
}
