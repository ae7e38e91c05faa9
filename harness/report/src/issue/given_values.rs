//! Finds the values of variables and of `--launcher` in record files, even in damaged and reformatted ones, so that they
//! can be redacted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::is_public;

/// Returns the private values of variables and of `--launcher` in the records of a file. The file need not be valid: a line
/// may be incomplete, a record may have several lines or be part of a list, and single bytes may be damaged.
pub fn private_values(file: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(file);
    let mut values = BTreeSet::new();
    for option in ["--env ", "--launcher "] {
        for (at, _) in text.match_indices(&format!("\"{option}")) {
            if let Some(option) = json::<String>(&text[at..]) {
                values.extend(option_values(&option));
            }
        }
    }
    for command in fields::<String>(&text, "again") {
        // If a trial did not end, its options are only in the command that repeats it.
        let words = shell::split(&command).unwrap_or_default();
        let pairs = words.windows(2).map(|pair| pair.join(" "));
        for option in pairs.chain(words.iter().map(|word| word.replacen('=', " ", 1))) {
            values.extend(option_values(&option));
        }
    }
    // Cases and launchers also set variables. Paths are skipped here, because they are redacted by their form.
    for environment in fields::<BTreeMap<String, serde_json::Value>>(&text, "environment") {
        let texts = environment.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
        let private = texts.filter(|(name, value)| {
            !name.starts_with("ROCREPRO_") && !value.starts_with('/') && !is_public(name, value)
        });
        values.extend(private.map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty()));
    }
    let raw: Vec<_> = values.iter().map(|value| unescaped(value)).collect();
    values.extend(raw);
    values.into_iter().collect()
}

/// Parses the JSON value at the beginning of a string. `None` if the value has another type.
fn json<T: for<'a> Deserialize<'a>>(text: &str) -> Option<T> {
    serde_json::Deserializer::from_str(text).into_iter().next()?.ok()
}

/// Returns the values of all fields with this name, at any depth.
fn fields<T: for<'a> Deserialize<'a>>(text: &str, name: &str) -> Vec<T> {
    let name = format!("\"{name}\"");
    let after = text.match_indices(&name).map(|(at, name)| text[at + name.len()..].trim_start());
    after.filter_map(|after| json(after.strip_prefix(':')?)).collect()
}

/// Replaces the escape sequences that [`crate::text::visible`] writes, such as `\u{1b}`, by the characters that they
/// stand for.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\u{") {
        out.push_str(before);
        let escaped = after.split_once('}').and_then(|(code, after)| {
            Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, after))
        });
        let (text, after) = match escaped {
            Some((c, after)) => (c.to_string(), after),
            None => ("\\u{".to_owned(), after),
        };
        out.push_str(&text);
        rest = after;
    }
    out + rest
}

/// Returns the private values in an option, which has the form `--env NAME=VALUE` or `--launcher COMMAND`.
fn option_values(option: &str) -> Vec<String> {
    if let Some(variable) = option.strip_prefix("--env ") {
        let (name, value) = variable.split_once('=').unwrap_or_default();
        let is_private = !is_public(name, value) && !value.is_empty();
        return if is_private { vec![value.to_owned()] } else { Vec::new() };
    }
    let Some(launcher) = option.strip_prefix("--launcher ") else { return Vec::new() };
    let words = shell::split(launcher).unwrap_or_default();
    let mut values = vec![launcher.to_owned()];
    for (at, word) in words.iter().enumerate() {
        // The name of a program such as `srun` is public, but its folder is private.
        let word = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
        if (at > 0 || word.contains('/')) && !word.starts_with('-') {
            values.push(word.to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"asked":{"given":["--env A=plainvalue77","--env M=one secret\\u{a}two"]},
        "again":"rocrepro run x --env 'A=plainvalue77' --launcher 'srun -J launchsecret99'",
        "environment":{"A":"plainvalue77","M":"one secret\ntwo","PATH":"/bin","OF_CASE":"casevalue55"}}"#;

    #[test]
    fn values_are_found_in_every_layout() {
        let line = RECORD.replace('\n', " ");
        let torn = line.split("\"environment").next().unwrap_or_default();
        assert!(private_values(RECORD.as_bytes()).iter().any(|found| found == "casevalue55"));
        for text in [&line, &format!("[{line},\n{line}]"), RECORD, &format!("\u{feff}{line}"), torn]
        {
            let values = private_values(text.as_bytes());
            for value in ["plainvalue77", "one secret\ntwo", "launchsecret99"] {
                assert!(values.iter().any(|found| found == value), "{value}: {values:?} in {text}");
            }
            assert!(!values.iter().any(|found| found == "/bin"), "{values:?}");
        }
        let damaged = [&[0xff, 0xfe][..], line.as_bytes(), &[0xc3]].concat();
        assert_eq!(private_values(&damaged), private_values(line.as_bytes()));
    }
}
