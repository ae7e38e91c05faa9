//! Checks the last line of each report, and prints the age of each report. The last line contains the date and the
//! paths of the measured code, for example ``Measured 2026-11-26: `harness/isa`, `harness/emulator` ``.

use std::path::Path;

use xshell::{Shell, cmd};

use crate::TaskResult;

#[derive(Debug, PartialEq, Eq)]
struct Measurement<'a> {
    date: &'a str,
    places: Vec<&'a str>,
}

/// Parses the last line of a report.
///
/// # Errors
/// Returns a message if the line does not contain a date and paths.
fn parse_measurement(report: &str) -> Result<Measurement<'_>, String> {
    let line = report.trim_end().lines().last().unwrap_or_default();
    let (date, places) = line
        .strip_prefix("Measured ")
        .and_then(|rest| rest.split_once(": "))
        .ok_or("the last line is not `Measured DATE: PATHS`")?;
    let parts: Vec<&str> = date.split('-').collect();
    let is_date = parts.iter().map(|part| part.len()).eq([4, 2, 2])
        && parts.concat().bytes().all(|byte| byte.is_ascii_digit());
    if !is_date {
        return Err(format!("`{date}` is not a date such as 2026-11-26"));
    }
    let places: Vec<&str> = places.split(", ").map(|place| place.trim_matches('`')).collect();
    Ok(Measurement { date, places })
}

fn read_reports(sh: &Shell) -> xshell::Result<Vec<(String, String)>> {
    let files = cmd!(sh, "git ls-files reports/*.md").quiet().read()?;
    let files = files.lines().filter(|file| file.matches('/').count() == 1);
    files.map(|file| Ok((file.to_owned(), sh.read_file(file)?))).collect()
}

/// Checks that the last line of each report contains a date and the paths of the measured code. Also checks that these
/// paths exist, and that the file name of a report contains no digits, which would belong to a date.
///
/// # Errors
/// Lists every report that violates a rule.
pub(crate) fn check(sh: &Shell) -> TaskResult {
    let mut problems = Vec::new();
    for (file, text) in read_reports(sh)? {
        if file.bytes().any(|byte| byte.is_ascii_digit()) {
            let why = "remove the date from the file name; git records when the report was written";
            problems.push(format!("{file}: {why}"));
        }
        match parse_measurement(&text) {
            Ok(Measurement { places, .. }) => {
                let root = sh.current_dir();
                let gone = places.iter().filter(|place| !root.join(Path::new(place)).exists());
                problems.extend(
                    gone.map(|place| format!("{file}: the stated path {place} does not exist")),
                );
            }
            Err(error) => problems.push(format!("{file}: {error}")),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Prints for each report how many commits have changed the measured code since the measurement.
///
/// # Errors
/// Fails if git fails or if the last line of a report is malformed.
pub(crate) fn ages(sh: &Shell) -> TaskResult {
    for (file, text) in read_reports(sh)? {
        let Measurement { date, places } =
            parse_measurement(&text).map_err(|error| format!("{file}: {error}"))?;
        let named = places.join(", ");
        let since = format!("--since={date}T23:59:59Z");
        let commits = cmd!(sh, "git log --format=%h {since} -- {places...}").quiet().read()?;
        match (commits.lines().count(), named) {
            (0, places) => {
                println!("{file}: measured on {date}; no commit has changed {places} since")
            }
            (1, places) => {
                println!("{file}: measured on {date}; 1 commit has changed {places} since")
            }
            (n, places) => {
                println!("{file}: measured on {date}; {n} commits have changed {places} since")
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_last_line_of_a_report() {
        let text = "# A\n\nMeasured 2026-11-26: `harness/isa`, `cases`\n";
        let expected = Measurement { date: "2026-11-26", places: vec!["harness/isa", "cases"] };
        assert_eq!(parse_measurement(text), Ok(expected));
        for wrong in [
            "# A\n",
            "Measured now: `cases`",
            "Measured 2026-11: `cases`",
            "Measured 2026-11-2x: `cases`",
        ] {
            assert!(parse_measurement(wrong).is_err(), "{wrong}");
        }
    }
}
