//! Tests that the JSON Schema for editors agrees with the reader: on every case of the library, on typical mistakes,
//! and on every verb.

use std::collections::{BTreeSet, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value, json};

use case::{Case, analyse, mistakes};

use super::texts::{CASES, KERNELS, root};

fn schema() -> Value {
    let text = std::fs::read_to_string(root().join("cases/schema.json"))
        .expect("the schema is part of the library");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// Converts a YAML document to JSON as an editor's language server does before it applies a schema: unquoted numbers
/// and words such as `true` are not strings.
fn json_of(text: &str) -> Value {
    let mut parser = Parser::new_from_str(text);
    loop {
        match next(&mut parser) {
            Event::StreamStart | Event::DocumentStart(_) => {}
            event => return node(&mut parser, event),
        }
    }
}

fn next<'a>(parser: &mut Parser<'a, StrInput<'a>>) -> Event<'a> {
    parser.next().expect("the document goes on").expect("the document is YAML").0
}

fn node<'a>(parser: &mut Parser<'a, StrInput<'a>>, event: Event<'a>) -> Value {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, ..) => match text.as_ref() {
            "" | "null" | "~" => Value::Null,
            "true" => json!(true),
            "false" => json!(false),
            plain => plain
                .parse::<i64>()
                .map(|n| json!(n))
                .or_else(|_| plain.parse::<f64>().map(|x| json!(x)))
                .unwrap_or_else(|_| json!(plain)),
        },
        Event::Scalar(text, ..) => json!(text),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match next(parser) {
                    Event::SequenceEnd => return Value::Array(items),
                    event => items.push(node(parser, event)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut entries = Map::new();
            loop {
                match next(parser) {
                    Event::MappingEnd => return Value::Object(entries),
                    Event::Scalar(key, ..) => {
                        let event = next(parser);
                        entries.insert(key.into_owned(), node(parser, event));
                    }
                    event => panic!("a key must be text, not {event:?}"),
                }
            }
        }
        event => panic!("unexpected {event:?}"),
    }
}

#[test]
fn every_case_of_the_library_validates() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
    for (id, text) in CASES.iter() {
        let case = json_of(text);
        let errors: Vec<_> =
            validator.iter_errors(&case).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{id}: {errors:#?}");
    }
    assert!(CASES.len() >= 30, "{} cases", CASES.len());
}

#[test]
fn typical_mistakes_do_not_validate() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
    let valid = |steps: &str, rest: &str| {
        let text = format!("title: A\nfaults: [copy.zero]\nsteps: [{steps}]\n{rest}");
        validator.is_valid(&json_of(&text))
    };
    assert!(valid("{sync: device}", "source: x"), "the frame is right");
    for steps in [
        "{snyc: device}",
        "{sync: s, check: b}",
        "{copy: {too: a, from: b}}",
        "{copy: {to: a}}",
        "{equal: [a]}",
        "{returns: hipSuccess}",
        "{begin_capture: {mode: globl}}",
        "{sync: s, returns: {'=7.0': hipSuccess}}",
        "sync",
    ] {
        assert!(!valid(steps, "source: x"), "{steps}");
    }
    for rest in [
        "",
        "upstream: ROCm/clr",
        "source: x\nmatirx: {}",
        "source: x\nneeds: {library: cublas}",
        "source: x\nneeds: {gfx: gfx9999}",
        "source: x\nknown: [{rocm: '7', signature: y}]",
        "source: x\nknown: [{rocm: '>=7.0'}]",
        "source: x\nbuffers: {a: {on: hots.pinned, bytes: 4}}",
        "source: x\nbuffers: {a: {on: device}}",
    ] {
        assert!(!valid("{sync: device}", rest), "{rest}");
    }
}

#[test]
fn verbs_and_keys_match_the_reader() {
    let schema = schema();
    let properties =
        schema["$defs"]["step"]["properties"].as_object().expect("steps have properties");
    let in_schema: BTreeSet<&str> = properties
        .keys()
        .map(String::as_str)
        .filter(|key| !["when", "returns", "gives", "for_each"].contains(key))
        .collect();
    let verbs: BTreeSet<&str> = plan::verbs().map(|verb| verb.name).collect();
    let differ: Vec<_> = in_schema.symmetric_difference(&verbs).collect();
    assert!(
        differ.is_empty(),
        "{differ:?} is in cases/schema.json or among the verbs, not in both"
    );
    for verb in plan::verbs() {
        let (keys, about, verb) = (verb.keys(), verb.about, verb.name);
        // If a verb also accepts a plain name, its schema is an `anyOf` with two alternatives, the second of which is
        // the mapping.
        let verb_schema = &properties[verb];
        let mapping = verb_schema.get("anyOf").map_or(verb_schema, |either| &either[1]);
        let known: BTreeSet<&str> = mapping["properties"]
            .as_object()
            .map(|p| p.keys().map(String::as_str).collect())
            .unwrap_or_default();
        assert_eq!(known, keys.into_iter().collect(), "{verb}");
        let described = verb_schema["description"].as_str().unwrap_or_default();
        assert_eq!(described, sentence(about), "what cases/schema.json says of `{verb}`");
    }
    let processors = device::Arch::PROCESSORS;
    assert_eq!(schema["$defs"]["gfx_name"]["enum"], json!(processors));
    let faults: Vec<_> = device::Fault::ALL.iter().map(|f| json!(f.name())).collect();
    assert_eq!(schema["$defs"]["fault_name"]["enum"], Value::Array(faults));
}

fn object(entries: &[(&str, String)]) -> String {
    let line = |(key, value): &(&str, String)| {
        let value = value.replace('\n', "\n  ");
        format!("  \"{key}\": {value}")
    };
    let lines: Vec<String> = entries.iter().map(line).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

fn sentence(about: &str) -> String {
    format!("{}{}.", about[..1].to_uppercase(), &about[1..])
}

/// Returns the schema of a verb, generated from the declaration of its call; `None` for verbs that are read by hand.
fn declared(verb: &plan::Verb) -> Option<String> {
    let pretty = |value: Value| serde_json::to_string_pretty(&value).expect("JSON");
    let reference = |name: &str| ("$ref", pretty(format!("#/$defs/{name}").into()));
    let value = |key: &plan::Key| match key.value_type {
        plan::KeyType::Name => reference("name"),
        plan::KeyType::Number => reference("number"),
        plan::KeyType::Flag => reference("flag"),
        plan::KeyType::Word(words) => {
            ("anyOf", pretty(json!([{"enum": words()}, {"$ref": "#/$defs/placeholder"}])))
        }
    };
    let mut entries = vec![("description", pretty(sentence(verb.about).into()))];
    match verb.arguments {
        plan::VerbArguments::Other(_) => return None,
        plan::VerbArguments::Value([]) => entries.push(("type", pretty("null".into()))),
        plan::VerbArguments::Value([key, ..]) => entries.push(value(&key[0])),
        plan::VerbArguments::Keys(keys) => {
            let keys: Vec<_> = keys.iter().copied().flatten().collect();
            let properties: Vec<_> =
                keys.iter().map(|key| (key.name, object(&[value(key)]))).collect();
            entries.push(("type", pretty("object".into())));
            entries.push(("properties", object(&properties)));
            entries.push(("additionalProperties", "false".to_owned()));
            let required: Vec<_> = keys.iter().filter(|k| k.required).map(|k| k.name).collect();
            if !required.is_empty() {
                entries.push(("required", pretty(required.into())));
            }
        }
    }
    Some(object(&entries))
}

/// The schema must describe each verb as the declaration of its call does, except verbs that are read by hand.
/// `ROCREPRO_WRITE_SCHEMA=1` updates the schema.
#[test]
fn regular_verbs_match_their_declarations() {
    let path = root().join("cases/schema.json");
    let text = std::fs::read_to_string(&path).expect("cases/schema.json");
    let mut written = text.clone();
    for verb in plan::verbs() {
        let Some(schema) = declared(verb) else { continue };
        let there = self::schema()["$defs"]["step"]["properties"][verb.name].clone();
        if there == serde_json::from_str::<Value>(&schema).expect("JSON") {
            continue;
        }
        let shown = schema.replace('\n', "\n        ");
        let entry = format!("        \"{}\": {shown},\n", verb.name);
        let start = format!("\n        \"{}\": {{\n", verb.name);
        match written.find(&start).map(|at| at + 1) {
            Some(at) => {
                let end = at + written[at..].find("\n        },\n").expect("its end") + 12;
                written.replace_range(at..end, &entry);
            }
            None => {
                let at =
                    written.find("\n        \"when\": {\n").expect("the keys of every step") + 1;
                written.insert_str(at, &entry);
                let last =
                    "          \"required\": [\n            \"thread\"\n          ]\n        }";
                let at = written.find(last).expect("the last verb") + last.len();
                let needs = last.replace("thread", verb.name);
                written.insert_str(at, &format!(",\n        {{\n{needs}"));
            }
        }
    }
    if std::env::var_os("ROCREPRO_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, written).expect("cases/schema.json can be written");
    } else {
        assert!(
            written == text,
            "cases/schema.json is older than the calls; write it by `ROCREPRO_WRITE_SCHEMA=1 cargo test -p case --test case regular_verbs`"
        );
    }
}

#[test]
fn groups_of_a_stack_match_the_reader() {
    let schema = schema();
    assert_eq!(schema["$defs"]["group"]["enum"], json!(case::GROUPS));
}

/// Collects the JSON pointers (RFC 6901) of all values in a document.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    let mut below = |key: &str, value| {
        pointers(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), all);
    };
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| below(&i.to_string(), item));
        }
        Value::Object(entries) => entries.iter().for_each(|(key, value)| below(key, value)),
        _ => {}
    }
}

/// Returns replacements to try for a value in a case; `None` means removing the value.
fn others(value: &Value) -> Vec<Option<Value>> {
    let mut others = vec![None, Some(json!([value]))];
    others.extend([json!(null), json!({}), json!([]), json!(true), json!(0)].map(Some));
    match value {
        Value::Array(items) => others.extend(items.first().map(|item| Some(item.clone()))),
        Value::Number(number) => others.push(Some(json!(number.to_string()))),
        _ => {}
    }
    others
}

/// The schema must not reject a case that `rocrepro check` accepts. The test replaces each value in the library's cases
/// in turn. Positions whose last two keys are equal are tried once.
#[test]
fn schema_accepts_what_the_reader_accepts() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
    let (mut seen, mut refused, mut wrong) = (HashSet::new(), 0, Vec::new());
    // Only the first trial is lowered at first. It reveals most mistakes, and lowering all trials would take too long.
    let taken = |id: &str, text: &str| {
        Case::parse(id, text).is_ok_and(|case| {
            case.trials().first().is_none_or(|trial| analyse(&case, trial, &KERNELS).is_ok())
        }) && mistakes(id, text, &KERNELS).is_empty()
    };
    let trials =
        |(id, text): &(&String, &String)| Case::parse(id, text).expect("a case").trials().len();
    let mut cases: Vec<_> = CASES.iter().collect();
    cases.sort_by_cached_key(trials);
    for (id, text) in cases {
        let case = json_of(text);
        let mut all = Vec::new();
        pointers(&case, "", &mut all);
        for at in all.iter().filter(|at| !at.is_empty()) {
            let names = at.rsplit('/').filter(|name| name.parse::<usize>().is_err()).take(2);
            let names: Vec<&str> = names.collect();
            let there = case.pointer(at).expect("it is there");
            if !seen.insert((names.join(" "), std::mem::discriminant(there))) {
                continue;
            }
            for other in others(there) {
                let mut changed = case.clone();
                let (parent, key) = at.rsplit_once('/').expect("it is not the whole");
                match (other.clone(), changed.pointer_mut(parent).expect("it is there")) {
                    (Some(other), _) => *changed.pointer_mut(at).expect("it is there") = other,
                    (None, Value::Object(entries)) => drop(entries.remove(key)),
                    (None, Value::Array(items)) => {
                        drop(items.remove(key.parse().expect("an index")));
                    }
                    (None, _) => unreachable!("what has a part is one of the two"),
                }
                // Cases that the schema accepts are skipped, because most of them are valid, and valid cases take
                // longest to read.
                if !validator.is_valid(&changed) {
                    refused += 1;
                    if taken(id, &changed.to_string()) {
                        wrong.push(format!("{id}{at} = {other:?}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {refused}: {wrong:#?}", wrong.len());
    assert!(refused > 1000, "{refused}");
}
