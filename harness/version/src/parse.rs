use std::{fmt, str::FromStr};

use crate::{Spelling, Stage, Version};

/// Error returned if a string is neither a version nor a range of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseVersionError(pub(crate) String);

impl fmt::Display for ParseVersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseVersionError {}

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        version(text).ok_or_else(|| {
            ParseVersionError(format!(
                "`{text}` is not a version; write 7.2, 7.2.4, 7.10.0rc1, 7.15.0a20260901 or 7.10.0.dev0+COMMIT"
            ))
        })
    }
}

fn version(text: &str) -> Option<Version> {
    let (text, revision) = match text.split_once('-') {
        Some((text, revision)) => (text, Some(number(revision)?)),
        None => (text, None),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    // The dot before `dev0` belongs to the suffix, not to the numbers.
    let (numbers, suffix) = text.split_at(text[..end].trim_end_matches('.').len());
    let numbers = numbers.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (major, minor, patch) = match numbers[..] {
        [major] => (major, None, None),
        [major, minor] => (major, Some(minor), None),
        [major, minor, patch] => (major, Some(minor), Some(patch)),
        _ => return None,
    };
    let (stage, spelling) = stage(suffix)?;
    Some(Version { major, minor, patch, stage, spelling, revision })
}

fn stage(suffix: &str) -> Option<(Stage, Spelling)> {
    if suffix.is_empty() {
        return Some((Stage::Release, Spelling::Python));
    }
    if let Some(of_commit) = suffix.strip_prefix(".dev0+") {
        let stage = Stage::Development { day: None, commit: Some(commit(of_commit)?) };
        return Some((stage, Spelling::Python));
    }
    if let Some(candidate) = suffix.strip_prefix("rc") {
        return Some((Stage::Candidate(number(candidate)?), Spelling::Python));
    }
    if let Some(nightly) = suffix.strip_prefix('a') {
        return Some((parse_nightly(nightly, "+bkc.")?, Spelling::Python));
    }
    let native = suffix.strip_prefix('~')?;
    if let Some(candidate) = native.strip_prefix("rc") {
        return Some((Stage::Candidate(number(candidate)?), Spelling::Rpm));
    }
    if let Some(candidate) = native.strip_prefix("pre") {
        return Some((Stage::Candidate(number(candidate)?), Spelling::Debian));
    }
    if let Some(of_day) = native.strip_prefix("dev") {
        let stage = Stage::Development { day: Some(day(of_day)?), commit: None };
        return Some((stage, Spelling::Debian));
    }
    if let Some((of_day, of_commit)) = native.split_once('g') {
        let (day, commit) = (Some(day(of_day)?), Some(commit(of_commit)?));
        return Some((Stage::Development { day, commit }, Spelling::Rpm));
    }
    Some((parse_nightly(native, ".bkc.")?, Spelling::Rpm))
}

fn parse_nightly(text: &str, mark: &str) -> Option<Stage> {
    Some(match text.split_once(mark) {
        Some((of_day, fixes)) => Stage::Nightly { day: day(of_day)?, fixes: Some(day(fixes)?) },
        None => Stage::Nightly { day: day(text)?, fixes: None },
    })
}

/// Parses a number without leading zeros. A leading zero would be lost when the version is printed.
fn number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn day(text: &str) -> Option<u32> {
    let day = number(text).filter(|_| text.len() == 8)?;
    ((1..=12).contains(&(day / 100 % 100)) && (1..=31).contains(&(day % 100))).then_some(day)
}

/// Parses the full or abbreviated hash of a commit: 1 to 40 lowercase hexadecimal digits.
fn commit(text: &str) -> Option<String> {
    let hexadecimal = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    (!text.is_empty() && text.len() <= 40 && text.chars().all(hexadecimal)).then(|| text.to_owned())
}
