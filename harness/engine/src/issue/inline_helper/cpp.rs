//! Rewrites C++ programs that include rocrepro's helper so that they do not need it.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::Value;

use super::{Parameters, PlainHelper, Values, arguments, end_of_imports, initializer};

pub(super) static PLAIN: LazyLock<PlainHelper> =
    LazyLock::new(|| PlainHelper::parse(include_str!("plain.h"), "//: "));

/// Header that every rewritten program includes.
const RUNTIME: &str = "hip/hip_runtime.h";

/// Further headers that the helper includes, each with words from it. A header is kept if the program or the plain
/// version contains one of its words.
const FURTHER: [(&str, &[&str]); 15] = [
    ("cstdio", &["printf", "puts", "fflush", "setvbuf", "stdout", "stderr", "FILE", "fopen"]),
    ("string", &["std::string", "std::to_string", " string "]),
    ("algorithm", &["std::mismatch"]),
    (
        "cmath",
        &[
            "std::isinf",
            "std::isnan",
            "std::abs",
            "fabs",
            "sqrt",
            "std::sin",
            "std::cos",
            "std::exp",
            "std::log",
            "std::pow",
            "ldexp",
            "nextafter",
            "NAN",
            "INFINITY",
            "floor(",
            "ceil(",
            "fma",
        ],
    ),
    ("cstdint", &["int8_t", "int16_t", "int32_t", "int64_t", "intptr_t", "INT32", "INT64"]),
    (
        "cstdlib",
        &["std::exit", "exit(", "abort(", "getenv", "malloc", "free(", "atoi", "strtol", "abs("],
    ),
    (
        "cstring",
        &[
            "memcpy", "memset", "memcmp", "memmove", "strcmp", "strncmp", "strlen", "strstr",
            "strerror",
        ],
    ),
    ("fcntl.h", &["open(", "fcntl(", "O_"]),
    ("iomanip", &["setprecision"]),
    ("limits", &["numeric_limits"]),
    ("map", &["std::map", "std::multimap", " map<"]),
    ("sstream", &["stringstream"]),
    (
        "type_traits",
        &["std::is_", "std::enable_if", "std::conditional", "std::remove_", "std::decay"],
    ),
    (
        "unistd.h",
        &[
            "sleep(", "fork(", "getpid", "pipe(", "read(", "write(", "close(", "exec", "sysconf",
            "_exit",
        ],
    ),
    ("vector", &["vector"]),
];

static INCLUDE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?m)^[ \t]*#[ \t]*include[ \t]*["<]rocrepro\.h[">][^\n]*\n?"#)
        .expect("a valid pattern")
});

static QUALIFIED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\brocrepro\b(?:\s*::\s*(\w+))?").expect("a valid pattern"));

static CALL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(\w+)\s*[(<]").expect("a valid pattern"));

static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+").expect("a valid pattern"));

/// Regular expression for a call of `parameter` whose arguments are literals.
static PARAMETER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\b(rocrepro\s*::\s*)?parameter\(\s*"(\w+)"\s*(?:,\s*"([^"\\\n]*)"\s*)?\)"#)
        .expect("a valid pattern")
});

/// Regular expression for a conditional expression that compares two string literals.
static CHOICE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"std::string\("([^"\\]*)"\) == "([^"\\]*)"\s*\?\s*([\w |]*\w)\s*:\s*([\w |]*\w)\s*;"#,
    )
    .expect("a valid pattern")
});

static OPENED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\busing\s+namespace\s+rocrepro\b").expect("a valid pattern"));

static USING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^[ \t]*using\s+namespace\s+rocrepro\s*;[ \t]*\n").expect("a valid pattern")
});

/// Regular expression for statements that begin a phase and follow another statement or the beginning of a block.
static PHASE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"([;{}][ \t]*\n)(?:[ \t]*(?:rocrepro\s*::\s*)?phase\([^;{}()]*\);[ \t]*\n)+")
        .expect("a valid pattern")
});

/// Returns a program without the statements that name its phases.
pub(super) fn without_phases(text: &str) -> String {
    PHASE.replace_all(text, "$1").into_owned()
}

/// Beginning of the plain version's statement that makes the output unbuffered, so that a crash does not lose it.
const UNBUFFERED: &str = "[[maybe_unused]] static const int unbuffered";

/// Returns an inlined program without the statement that makes its output unbuffered.
pub(super) fn with_buffered_output(text: &str) -> String {
    let kept = text.split_inclusive('\n').filter(|line| !line.starts_with(UNBUFFERED));
    kept.collect()
}

/// Returns the plain version for one kind of values. The sections for special kinds are left out for `Values::Any`, and
/// otherwise replace the general ones.
fn plain(values: Values) -> PlainHelper {
    let kind = |name: &'static str| name.split_once(" of ").map_or(name, |(name, _)| name);
    let is_kind = |name: &str| name.contains(" of ");
    let all = &PLAIN.parts;
    let replaced = |name: &str| all.iter().any(|(other, _)| is_kind(other) && kind(other) == name);
    let parts = all.iter().filter(|(name, _)| match values {
        Values::Any => !is_kind(name),
        Values::Flat | Values::Listed => !replaced(name),
    });
    let parts = parts.map(|(name, text)| (kind(name), text.clone())).collect();
    PlainHelper { head: PLAIN.head, parts }
}

/// Replaces calls of the helper's `parameter` by the values of the trial.
fn with_values(text: &str, parameters: &Parameters) -> String {
    let is_opened = OPENED.is_match(text);
    let value = |found: &Captures<'_>| {
        if found.get(1).is_none() && !is_opened {
            return found[0].to_owned();
        }
        let otherwise = found.get(3).map_or("", |text| text.as_str());
        let value = parameters.get(&found[2]).map_or(otherwise, String::as_str);
        format!("std::string({})", Value::from(value))
    };
    let text = PARAMETER.replace_all(text, value);
    let chosen = |found: &Captures<'_>| {
        format!("{};", if found[1] == found[2] { &found[3] } else { &found[4] })
    };
    CHOICE.replace_all(&text, chosen).into_owned()
}

pub(super) fn inline(text: &str, parameters: &Parameters, values: Values) -> Option<String> {
    let text = &with_values(text, parameters);
    let plain = plain(values);
    let mut used = BTreeSet::new();
    let mut opened = false;
    for found in QUALIFIED.captures_iter(text) {
        let whole = found.get_match();
        let line = text[..whole.start()].rsplit('\n').next().unwrap_or_default();
        let is_include =
            line.trim_start().starts_with('#') && text[whole.end()..].starts_with(".h");
        let is_using = line.trim_end().ends_with("using namespace");
        opened |= is_using;
        match found.get(1) {
            Some(name) => used.insert(name.as_str()),
            None if is_include || is_using || line.contains("//") => continue,
            None => return None,
        };
    }
    let Some(place) = INCLUDE.find(text) else {
        return (used.is_empty() && !opened).then(|| text.to_owned());
    };
    if opened {
        used.extend(called(text));
    }
    if !used.iter().all(|name| plain.has_part(name)) {
        return None;
    }
    let is_needed = !used.is_empty();
    used.insert("end");
    let mentions = |text: &str, name: &str| WORD.find_iter(text).any(|word| word.as_str() == name);
    let parts = plain.with_needed(used, mentions).concat();
    let values = initializer(parameters, |name, value| format!("{{{name}, {value}}}"));
    let parts = parts.replace("values = {}", &format!("values = {{{values}}}"));
    let head = PLAIN.head.split_once("\n\n").map_or("", |(_, head)| head).trim_end();
    let mut rest = INCLUDE.replace_all(text, "").into_owned();
    let block = match is_needed {
        true => format!("\n{head}\n{parts}\n"),
        false => {
            rest = USING.replace_all(&rest, "").into_owned();
            "\n".to_owned()
        }
    };
    let uses = format!("{rest}{block}");
    let further = FURTHER.iter().filter(|(_, words)| words.iter().any(|word| uses.contains(word)));
    let headers = [RUNTIME].into_iter().chain(further.map(|(header, _)| *header));
    let headers: String = headers
        .map(|header| format!("#include <{header}>\n"))
        .filter(|line| !rest.contains(line.trim_end()))
        .collect();
    let behind = end_of_imports(&rest, place.start(), &["#include"]);
    let (before, after) = (&rest[..place.start()], rest[behind..].trim_start_matches('\n'));
    Some(format!("{before}{headers}{}{block}{after}", &rest[place.start()..behind]))
}

/// Returns the `#include` lines of those headers in [`FURTHER`] none of whose words occurs in the text.
pub(super) fn unused_headers(text: &str) -> Vec<String> {
    let is_needed = |words: &[&str]| {
        let code = text.lines().filter(|line| !line.starts_with('#'));
        code.into_iter().any(|line| words.iter().any(|word| line.contains(word)))
    };
    let unused = FURTHER.iter().filter(|(_, words)| !is_needed(words));
    let lines = unused.map(|(header, _)| format!("#include <{header}>\n"));
    lines.filter(|line| text.contains(line.as_str())).collect()
}

/// Returns the names of the helper functions that the program `text` calls by their unqualified names, which `using
/// namespace` makes possible.
fn called(text: &str) -> impl Iterator<Item = &str> {
    CALL.captures_iter(text).filter_map(|found| {
        let name = found.get(1)?;
        let before = text[..name.start()].trim_end_matches([' ', '\t']);
        let of_another = [".", "->", "::"].iter().any(|mark| before.ends_with(mark));
        let name = name.as_str();
        // The function that closes a file descriptor has the same name as a function of the helper.
        let descriptor = name == "close" && arguments(&text[found.get_match().end()..]).len() < 4;
        (PLAIN.has_part(name) && !of_another && !descriptor).then_some(name)
    })
}
