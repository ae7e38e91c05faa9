//! Redacts everything that is shown to other people. Each text is passed to this module as a whole.

use serde_json::{Map, Value};

use super::{
    Block, Issue, concerns_rocm, is_public,
    redact::{
        Identity, is_value,
        names::{PrivateKind, is_harmless, is_plural, private_kind},
        redact_name, redact_patterns, redact_program_block, redact_values,
    },
};
use crate::text::visible;

/// Prepares a text for publication: removes names, addresses and secrets, escapes control characters (including those
/// that reorder text), and makes commands runnable for others. The values of options are replaced first, because the
/// other steps may change how a value is written.
pub fn publish(text: &str, who: &Identity) -> String {
    visible(&redact_patterns(&commands(&redact_values(text, who)), who))
}

/// Prepares an option in a record for publication, as [`commands`] does for the options in a command.
fn publish_option(option: &str, who: &Identity) -> String {
    if option.starts_with("--launcher ") {
        return "--launcher <value>".to_owned();
    }
    match option.strip_prefix("--env ").and_then(|variable| variable.split_once('=')) {
        Some((name, value)) if !is_public(name, value) => format!("--env \"{name}=${name}\""),
        _ => publish(option, who),
    }
}

/// Prepares all strings and field names of a JSON value for publication. Values of fields that have a private name are
/// removed, and so are environment variables that do not concern ROCm.
pub fn publish_json(value: Value, who: &Identity) -> Value {
    match value {
        Value::String(text) => Value::String(publish(&text, who)),
        Value::Array(all) => publish_list(all, who),
        Value::Object(mut all) => {
            // An object may name its value: `{"name": "password", "value": "x"}`.
            let named = ["name", "key"]
                .iter()
                .find_map(|key| all.get(*key)?.as_str().and_then(private_kind));
            if let Some(private) = named
                && let Some(value) = all.remove("value")
            {
                all.insert("value".to_owned(), redact_value(private, value, who));
            }
            if let (Some(name), Some(value)) = (all.get("name"), all.get("value"))
                && let (Some(name), Some(value)) = (name.as_str(), value.as_str())
                && concerns_rocm(name)
                && !is_public(name, value)
            {
                all.insert("value".to_owned(), "<value>".into());
            }
            let mut fields = Map::new();
            for (key, value) in all {
                let value = match value {
                    Value::Object(variables) if key == "environment" => variables
                        .into_iter()
                        .map(|(name, value)| {
                            match value.as_str().is_some_and(|v| is_public(&name, v)) {
                                true => (name.clone(), publish_field(&name, value, who)),
                                false => (name, "<value>".into()),
                            }
                        })
                        .collect(),
                    value => publish_field(&key, value, who),
                };
                // Two field names may be equal after redaction.
                let mut name = publish(&key, who);
                while fields.contains_key(&name) {
                    name.push('\'');
                }
                fields.insert(name, value);
            }
            Value::Object(fields)
        }
        Value::Number(number) if is_value(&number, who) => "<value>".into(),
        other => other,
    }
}

/// Prepares a JSON list for publication. A string in the list may show that the next one is private, as in `["--token",
/// "x"]` or in the lines of a PEM key.
fn publish_list(all: Vec<Value>, who: &Identity) -> Value {
    let mut option = None;
    let mut in_key = false;
    let mut out = Vec::with_capacity(all.len());
    for value in all {
        let text = value.as_str().unwrap_or_default();
        let next =
            text.strip_prefix('-').filter(|name| !name.contains(['=', ' '])).and_then(private_kind);
        let begins = text.contains("-----BEGIN ");
        let ends = text.contains("-----END ");
        out.push(match option {
            _ if in_key && value.is_string() => "<secret>".into(),
            Some(private) if !text.starts_with('-') => redact_value(private, value, who),
            _ => publish_json(value, who),
        });
        in_key = (in_key || begins) && !ends;
        option = next;
    }
    Value::Array(out)
}

/// Prepares the value of a JSON field for publication. The field's name may make the value private.
fn publish_field(name: &str, value: Value, who: &Identity) -> Value {
    // The values of these fields may look like a host, an address or a UUID, but are versions or names of cases or
    // kernels.
    const NAMES: [&str; 9] =
        ["case", "trial", "trials", "kernel", "kernels", "build_id", "build", "rocm", "version"];
    let is_one_word = |text: &str| !text.contains(char::is_whitespace);
    match value {
        Value::String(text) if NAMES.contains(&name) && is_one_word(&text) => {
            return visible(&redact_name(&text, who)).into();
        }
        Value::Array(all) if NAMES.contains(&name) || name == "given" => {
            let replaced = |value| match value {
                Value::String(text) if name == "given" => publish_option(&text, who).into(),
                Value::String(text) if is_one_word(&text) => {
                    visible(&redact_name(&text, who)).into()
                }
                other => publish_json(other, who),
            };
            return all.into_iter().map(replaced).collect();
        }
        _ => {}
    }
    // A name that looks like a sentence does not make the value private.
    let is_name = name.split_whitespace().count() <= 3 && !name.contains(['=', ':', '$', '<']);
    match private_kind(name).filter(|_| is_name) {
        Some(private) if is_plural(name) && !private.is_secret() => match value {
            // If the name of the field is private, the keys of the object may be private too: `{"users": {"alice":
            // …}}`.
            Value::Object(all) => publish_private_keys(private, all, who),
            value => redact_value(private, value, who),
        },
        Some(private) => redact_value(private, value, who),
        None => publish_json(value, who),
    }
}

/// Replaces the keys of an object whose keys are private by words such as `<user>`. Apostrophes are added to words that
/// would otherwise be equal.
fn publish_private_keys(private: PrivateKind, all: Map<String, Value>, who: &Identity) -> Value {
    let mut fields = Map::new();
    for (key, value) in all {
        let mut name = if is_harmless(private, &key) { key } else { private.word().to_owned() };
        while fields.contains_key(&name) {
            name.push('\'');
        }
        fields.insert(name, redact_value(private, value, who));
    }
    Value::Object(fields)
}

/// Replaces all strings and numbers in the value of a private field. If the value is an object and the field is not a
/// secret, for example `host`, only the object's fields `name` and `id` are replaced.
fn redact_value(private: PrivateKind, value: Value, who: &Identity) -> Value {
    let replaced = |text: &str| (!is_harmless(private, text)).then(|| private.word().into());
    match value {
        Value::String(text) => replaced(&text).unwrap_or_else(|| publish(&text, who).into()),
        Value::Number(number) => {
            replaced(&number.to_string()).unwrap_or_else(|| publish_json(number.into(), who))
        }
        Value::Array(all) => {
            all.into_iter().map(|value| redact_value(private, value, who)).collect()
        }
        Value::Object(all) => {
            let is_whole = private.is_secret();
            let (below, rest): (Map<_, _>, Map<_, _>) =
                all.into_iter().partition(|(key, _)| is_whole || key == "name" || key == "id");
            let mut fields = match publish_json(Value::Object(rest), who) {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            fields.extend(
                below
                    .into_iter()
                    .map(|(key, value)| (publish(&key, who), redact_value(private, value, who))),
            );
            Value::Object(fields)
        }
        other => other,
    }
}

impl Issue {
    /// Returns the issue with its title and sections redacted. `program` is the name of the block that contains the
    /// program.
    pub fn published(mut self, who: &Identity, program: Option<&str>) -> Issue {
        self.title = publish(&self.title, who);
        for Block { name, text, .. } in self.sections.iter_mut().flat_map(|(_, blocks)| blocks) {
            *text = match program == Some(name.as_str()) {
                true => visible(&redact_program_block(&commands(&redact_values(text, who)), who)),
                false => publish(text, who),
            };
        }
        self
    }
}

/// Rewrites commands so that others can run them: values of variables that do not concern ROCm become `$NAME`, and
/// launchers are removed.
fn commands(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, found) = rest.split_at(at);
        let option = ["--env", "--launcher", "--worker"].into_iter().find(|option| {
            found.strip_prefix(option).is_some_and(|after| after.starts_with([' ', '=']))
        });
        let Some(option) = option else {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        // The option and its value may be quoted as one word: '--env=A=b c'.
        let quote = before.chars().next_back().filter(|c| ['\'', '"'].contains(c));
        let after = &found[option.len() + 1..];
        let (word, after) = match quote {
            Some(quote) => after.split_once(quote).unwrap_or((after, "")),
            None => shell_word(after),
        };
        out.push_str(before.strip_suffix(quote.unwrap_or('\0')).unwrap_or(before));
        let plain = shell::split(word).map(|words| words.join(" "));
        let plain = if quote.is_some() { word.to_owned() } else { plain.unwrap_or_default() };
        rest = after;
        match plain.split_once('=') {
            Some((name, value)) if option == "--env" && is_public(name, value) => {
                let mark = quote.map(String::from).unwrap_or_default();
                out.push_str(&format!("--env {mark}{word}{mark}"));
            }
            Some((name, _)) if option == "--env" => {
                out.push_str(&format!("--env \"{name}=${name}\""));
            }
            _ => rest = after.strip_prefix(' ').unwrap_or(after),
        }
    }
    out + rest
}

/// Splits off the first word of a command line. Returns the word and the rest of the line.
fn shell_word(text: &str) -> (&str, &str) {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '`') => return text.split_at(at),
            (None, _) if c.is_whitespace() => return text.split_at(at),
            (None, _) => {}
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who() -> Identity {
        Identity {
            user: "jane".to_owned(),
            users: vec!["jdoe".to_owned()],
            host: "workhorse".to_owned(),
            folders: vec![("/home/jane".to_owned(), "~".to_owned())],
            serials: Vec::new(),
            values: vec!["hunter2".to_owned()],
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(publish(text, &who()), expected);
    }

    #[test]
    fn commands_stay_runnable() {
        check(
            "rocrepro run 'a[x=1]' --rocm debian:7.2.4 --env 'LICENCE=a b' --env HSA_XNACK=1 --launcher 'srun -A acme' --gfx gfx90a",
            "rocrepro run 'a[x=1]' --rocm debian:7.2.4 --env \"LICENCE=$LICENCE\" --env HSA_XNACK=1 --gfx gfx90a",
        );
        check("x '--env=A=b c' '--launcher=srun -n1' y", "x --env \"A=$A\" y");
        check("`rocrepro run a --env K='it'\\''s'`", "`rocrepro run a --env \"K=$K\"`");
        check("give --env NAME", "give ");
        check("a -- b --environment=x --env", "a -- b --environment=x --env");
    }

    #[test]
    fn personal_data_is_removed() {
        let text = "jane and jdoe on workhorse, /home/jane/x, the password hunter2, 10.1.2.3 \u{202e}\u{1b}[31m";
        check(text, "<user> and <user> on <host>, ~/<path>, the password <value>, <ip> \\u{202e}");
    }

    #[test]
    fn json_is_redacted_text_by_text() {
        let record = serde_json::json!({
            "again": "rocrepro run a --env TOKEN=abc",
            "environment": {"HOME": "/home/jane", "API_KEY": "abc", "HSA_XNACK": "1"},
            "list": ["jane", 3, null, {"deep": "ghp_0123456789abcdefghij0123456789abcdef"}],
        });
        let expected = serde_json::json!({
            "again": "rocrepro run a --env \"TOKEN=$TOKEN\"",
            "environment": {"HOME": "<value>", "API_KEY": "<value>", "HSA_XNACK": "1"},
            "list": ["<user>", 3, null, {"deep": "<secret>"}],
        });
        assert_eq!(publish_json(record, &who()), expected);
    }

    #[test]
    fn private_fields_of_json_lose_their_values() {
        let record = serde_json::json!({
            "password": "hunter2",
            "api_key": ["k1", {"deep": "k2"}, 123],
            "hostname": "gpu-box",
            "serial": "X1",
            "user": {"name": "alice", "shell": "/bin/sh"},
            "/home/alice/key": 1,
            "/home/bob/key": 2,
            "signature": "wrong-data:zero",
            "tokens": 512,
            "host": "pageable",
        });
        let expected = serde_json::json!({
            "password": "<secret>",
            "api_key": ["<secret>", {"deep": "<secret>"}, "<secret>"],
            "hostname": "<host>",
            "serial": "<serial>",
            "user": {"name": "<user>", "shell": "/bin/sh"},
            "~/<path>": 1,
            "~/<path>'": 2,
            "signature": "wrong-data:zero",
            "tokens": 512,
            "host": "pageable",
        });
        assert_eq!(publish_json(record, &who()), expected);
    }
}
