//! Redaction of everything that is shown to other people. Whole texts pass through here, whatever their parts are.

use serde_json::{Map, Value};

use super::{
    Block, Issue, concerns_rocm,
    redact::{
        Identity,
        names::{Private, is_harmless, private},
        redact,
    },
};
use crate::text::visible;

/// Prepares a text for publication: removes names, addresses and secrets, escapes control characters (including those
/// that reorder text), and makes commands runnable for others.
pub fn publish(text: &str, who: &Identity) -> String {
    visible(&redact(&commands(text), who))
}

/// Prepares the text of a file for publication: JSON and lines of JSON as such, the rest as text. Each text of a JSON
/// value is prepared for itself, so its names decide about it.
pub fn publish_file(text: &str, who: &Identity) -> String {
    if let Some(value) = object(text) {
        return format!("{:#}\n", publish_json(value, who));
    }
    let mut out = String::with_capacity(text.len());
    // Lines that are not JSON belong together: a key in PEM has several.
    let mut rest = String::new();
    for line in text.split_inclusive('\n') {
        match object(line) {
            Some(value) => {
                out.push_str(&publish(&std::mem::take(&mut rest), who));
                out.push_str(&format!("{}\n", publish_json(value, who)));
            }
            None => rest.push_str(line),
        }
    }
    out + &publish(&rest, who)
}

/// Parses a JSON object or list; other values are text.
fn object(text: &str) -> Option<Value> {
    let starts = text.trim_start().starts_with(['{', '[']);
    starts.then(|| serde_json::from_str(text).ok()).flatten()
}

/// Prepares all texts of a JSON value for publication, names of fields included. Fields with a private name lose their
/// values, and so do variables of a run's environment that do not concern ROCm.
pub fn publish_json(value: Value, who: &Identity) -> Value {
    match value {
        Value::String(text) => Value::String(publish(&text, who)),
        Value::Array(all) => all.into_iter().map(|v| publish_json(v, who)).collect(),
        Value::Object(all) => {
            let mut fields = Map::new();
            for (key, value) in all {
                let value = match value {
                    Value::Object(variables) if key == "environment" => variables
                        .into_iter()
                        .map(|(name, value)| match is_publishable(&name) {
                            true => (name.clone(), publish_field(&name, value, who)),
                            false => (name, "<value>".into()),
                        })
                        .collect(),
                    value => publish_field(&key, value, who),
                };
                // Two names may become the same.
                let mut name = publish(&key, who);
                while fields.contains_key(&name) {
                    name.push('\'');
                }
                fields.insert(name, value);
            }
            Value::Object(fields)
        }
        other => other,
    }
}

/// Prepares the value of a field for publication.
fn publish_field(name: &str, value: Value, who: &Identity) -> Value {
    // A sentence is not the name of a field.
    let is_name = name.split_whitespace().count() <= 3 && !name.contains(['=', ':', '$', '<']);
    match private(name).filter(|_| is_name) {
        Some(private) => without(private, value, who),
        None => publish_json(value, who),
    }
}

/// Replaces all texts and numbers below a private name. Of an object below a name such as `host`, only the name and the
/// id are private.
fn without(private: Private, value: Value, who: &Identity) -> Value {
    let replaced = |text: &str| (!is_harmless(private, text)).then(|| private.word().into());
    match value {
        Value::String(text) => replaced(&text).unwrap_or_else(|| publish(&text, who).into()),
        Value::Number(number) => replaced(&number.to_string()).unwrap_or(number.into()),
        Value::Array(all) => all.into_iter().map(|value| without(private, value, who)).collect(),
        Value::Object(all) => {
            let is_whole = matches!(private, Private::Secret | Private::Token);
            let (below, rest): (Map<_, _>, Map<_, _>) =
                all.into_iter().partition(|(key, _)| is_whole || key == "name" || key == "id");
            let mut fields = match publish_json(Value::Object(rest), who) {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            fields.extend(
                below
                    .into_iter()
                    .map(|(key, value)| (publish(&key, who), without(private, value, who))),
            );
            Value::Object(fields)
        }
        other => other,
    }
}

impl Issue {
    /// Returns the issue with all texts redacted. `program` is the name of the block with the program.
    pub fn published(mut self, who: &Identity, program: Option<&str>) -> Issue {
        self.title = publish(&self.title, who);
        // In a program, a word that equals the user's name or host name is an identifier.
        let unnamed =
            Identity { user: String::new(), users: Vec::new(), host: String::new(), ..who.clone() };
        for Block { name, text, .. } in self.sections.iter_mut().flat_map(|(_, blocks)| blocks) {
            let of_program = program == Some(name.as_str());
            *text = publish(text, if of_program { &unnamed } else { who });
        }
        self
    }
}

/// Returns true if the value of the variable may be published, because it concerns ROCm.
fn is_publishable(name: &str) -> bool {
    concerns_rocm(name)
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
        // The whole word may be quoted: '--env=A=b c'.
        let quote = before.chars().next_back().filter(|c| ['\'', '"'].contains(c));
        let after = &found[option.len() + 1..];
        let (word, after) = match quote {
            Some(quote) => after.split_once(quote).unwrap_or((after, "")),
            None => shell_word(after),
        };
        out.push_str(before.strip_suffix(quote.unwrap_or('\0')).unwrap_or(before));
        let plain = shell_words::split(word).map(|words| words.join(" "));
        let plain = if quote.is_some() { word.to_owned() } else { plain.unwrap_or_default() };
        rest = after;
        match plain.split_once('=') {
            Some((name, _)) if option == "--env" && is_publishable(name) => {
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

/// Splits off the first word of a command line.
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
        check(
            text,
            "<user> and <user> on <host>, ~/x, the password <value>, <ip> \\u{202e}\\u{1b}[31m",
        );
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
            "~/key": 1,
            "~/key'": 2,
            "signature": "wrong-data:zero",
            "tokens": 512,
            "host": "pageable",
        });
        assert_eq!(publish_json(record, &who()), expected);
    }

    #[test]
    fn files_may_mix_json_and_text() {
        let text = "{\"user\":\"alice\"}\nhostname: box\n{torn\n[\"jane\"]\n";
        let expected = "{\"user\":\"<user>\"}\nhostname: <host>\n{torn\n[\"<user>\"]\n";
        assert_eq!(publish_file(text, &who()), expected);
    }
}
