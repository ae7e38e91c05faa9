//! Days, as builds are named after them.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// A calendar day, UTC. Nightlies carry the day on which the build machine started, not that of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// The day that this many seconds after 1970-01-01 UTC fall on.
    pub fn from_unix(seconds: i64) -> Self {
        // Days to civil date: https://howardhinnant.github.io/date_algorithms.html#civil_from_days.
        let z = seconds.div_euclid(86_400) + 719_468;
        let era = z.div_euclid(146_097);
        let of_era = z.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * of_year + 2) / 153;
        let day = (of_year - (153 * shifted + 2) / 5 + 1) as u8;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u8;
        let year = (year_of_era + era * 400 + i64::from(month <= 2)) as u16;
        Self { year, month, day }
    }

    /// This day, UTC.
    pub fn today() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::from_unix(since.as_secs() as i64)
    }

    /// This many days later, or earlier.
    pub fn plus(self, days: i64) -> Self {
        Self::from_unix((self.days() + days) * 86_400)
    }

    /// Days from this one to another; negative where that is earlier.
    pub fn until(self, other: Self) -> i64 {
        other.days() - self.days()
    }

    /// Days since 1970-01-01.
    fn days(self) -> i64 {
        // https://howardhinnant.github.io/date_algorithms.html#days_from_civil.
        let (month, day) = (i64::from(self.month), i64::from(self.day));
        let year = i64::from(self.year) - i64::from(month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
        let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        era * 146_097 + of_era - 719_468
    }

    /// As in file names: `20260702`.
    pub fn compact(self) -> String {
        format!("{:04}{:02}{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for Date {
    type Err = String;

    /// Reads `2026-07-02` and `20260702`, and ignores a time of day after a `T`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a day; expected one such as 2026-07-02");
        let day = text.split('T').next().unwrap_or(text);
        let digits = match day.len() {
            8 => day.to_owned(),
            10 if day.as_bytes()[4] == b'-' && day.as_bytes()[7] == b'-' => day.replace('-', ""),
            _ => return Err(bad()),
        };
        if digits.len() != 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let number =
            |range: std::ops::Range<usize>| digits[range].parse::<u16>().map_err(|_| bad());
        let (year, month, day) = (number(0..4)?, number(4..6)? as u8, number(6..8)? as u8);
        if year < 2000 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(bad());
        }
        Ok(Self { year, month, day })
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
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
        check("2026/07/02", "error");
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
    }
}
