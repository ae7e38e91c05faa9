//! Hints for words that users of HIP and of other languages write out of habit.

pub(crate) mod forms;

use plan::{DEFAULT_STREAM, Verb, functions_of_verb, hip_function, verbs, verbs_that_make};

use crate::{
    diagnostic::nearest,
    yaml::{Key, Node, Value},
};

/// Names that users write by habit in place of a verb, each with the right verb.
const VERBS: [(&str, &str); 37] = [
    ("add_host_node", "host_func"),
    ("add_kernel_node", "launch"),
    ("add_memcpy_node", "copy"),
    ("add_memset_node", "set"),
    ("allocate", "alloc"),
    ("assert", "check"),
    ("call", "hip"),
    ("capture", "begin_capture"),
    ("compare", "equal"),
    ("copy_async", "copy"),
    ("create_event", "record"),
    ("create_graph", "empty_graph"),
    ("device_synchronize", "sync"),
    ("event_record", "record"),
    ("expect", "returns"),
    ("for", "repeat"),
    ("foreach", "for_each"),
    ("graph_launch", "launch_graph"),
    ("if", "when"),
    ("init", "fill"),
    ("kernel", "launch"),
    ("loop", "repeat"),
    ("malloc", "alloc"),
    ("memcpy", "copy"),
    ("memset", "set"),
    ("run", "launch"),
    ("status", "returns"),
    ("stream_synchronize", "sync"),
    ("stream_wait_event", "wait"),
    ("synchronise", "sync"),
    ("synchronize", "sync"),
    ("unless", "when"),
    ("upload", "fill"),
    ("verify", "check"),
    ("wait_event", "wait"),
    ("while", "repeat"),
    ("write", "fill"),
];

/// Names that users write by habit in place of a key, each with the right key.
const KEYS: [(&str, &str); 22] = [
    ("arguments", "args"),
    ("blockDim", "block"),
    ("blocks", "grid"),
    ("callbacks", "steps"),
    ("destination", "to"),
    ("dst", "to"),
    ("elements", "items"),
    ("function", "call"),
    ("gridDim", "grid"),
    ("iterations", "count"),
    ("name", "title"),
    ("params", "args"),
    ("sharedMemBytes", "shared"),
    ("size", "bytes"),
    ("sizeBytes", "bytes"),
    ("source", "from"),
    ("src", "from"),
    ("times", "count"),
    ("threads", "block"),
    ("val", "value"),
    ("workgroup", "block"),
    ("where", "on"),
];

fn lookup(table: &'static [(&str, &str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(other, _)| *other == word).map(|(_, meant)| *meant)
}

/// Returns the known key that the user probably meant by an unknown key.
pub(crate) fn key_meant<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let usual = lookup(&KEYS, word);
    let usual = usual.and_then(|usual| known.iter().copied().find(|key| *key == usual));
    usual.or_else(|| nearest(word, known.iter().copied()))
}

/// If a word inside the braces of a verb probably means a key of the step, such as `returns`, returns that key;
/// otherwise `None`. Keys of a step belong next to the verb, not inside its braces.
pub(crate) fn key_of_a_step(word: &str) -> Option<&'static str> {
    match word {
        "returns" | "expect" | "expected" | "status" => Some("returns"),
        "gives" => Some("gives"),
        "when" | "if" | "unless" => Some("when"),
        _ => None,
    }
}

/// Returns a hint for a key that other tools have and cases do not.
pub(crate) fn key_of_case(word: &str) -> Option<&'static str> {
    match word {
        "runs-on" | "runs_on" | "gfx" | "arch" | "architecture" | "device" | "gpu" => {
            Some("an architecture is written `needs: {gfx: [gfx1151]}`, or given as `--gfx`")
        }
        "rocm" | "release" => Some("a release is written `needs: {rocm: \">=6.0\"}`"),
        "env" | "variables" => Some("variables are entries of `environment`"),
        "timeout" | "timeout-minutes" => Some("the time limit is given as `--timeout SECONDS`"),
        "strategy" | "parameters" | "parametrize" => Some("axes are entries of `matrix`"),
        "run" | "script" => Some("write `program: {command: [...]}`"),
        "include" => {
            Some("the trials are all combinations of the axes, less those under `exclude`")
        }
        _ => None,
    }
}

/// Returns the verb that the user probably meant by an unknown verb.
pub(crate) fn verb_meant(word: &str) -> Option<&'static str> {
    let known = verbs().map(|verb| verb.name).chain(["returns", "gives", "when", "for_each"]);
    lookup(&VERBS, word).or_else(|| nearest(word, known))
}

/// Returns the HIP name that corresponds to the CUDA name of a function or status. HIP need not have this name.
pub(crate) fn name_in_hip(name: &str) -> Option<String> {
    let rest = name.strip_prefix("cuda")?;
    rest.starts_with(|c: char| c.is_ascii_uppercase()).then(|| format!("hip{rest}"))
}

/// Returns a hint for a word that is not a function of HIP: a step, or a function of CUDA.
pub(crate) fn function_meant(word: &str) -> Option<String> {
    if let Some(name) = name_in_hip(word)
        && device::library_function(&name).is_some()
    {
        return Some(format!("HIP's name is `{name}`"));
    }
    let functions: Vec<_> = functions_of_verb(word).collect();
    (!functions.is_empty()).then(|| {
        format!("`{word}` is a step; the functions that it calls are {}", quoted(functions))
    })
}

/// Formats names as a list.
pub(crate) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Returns a hint for a step whose verb is unknown.
pub(crate) fn step(word: &str) -> String {
    if let Some(name) = name_in_hip(word)
        && device::library_function(&name).is_some()
    {
        return format!("HIP's name is `{name}`; {}", step(&name));
    }
    let own: Vec<_> = verbs_that_make(word).map(|verb| format!("`{}`", verb.name)).collect();
    if !own.is_empty() {
        return format!("`{word}` is called by the step {}", own.join(" or "));
    }
    if let Some(function) = hip_function(word) {
        let names: Vec<_> = function.parameters.iter().map(|p| p.name).collect();
        return format!("write `hip: {{call: {word}, args: [{}]}}`", names.join(", "));
    }
    if device::library_function(word).is_some() {
        return no_step_calls(word);
    }
    match verb_meant(word) {
        Some(verb) => format!("did you mean `{verb}`?"),
        None => "see `rocrepro case explain --steps` for all steps".to_owned(),
    }
}

fn no_step_calls(function: &str) -> String {
    match function {
        "hipDeviceSynchronize" => "write `sync: device`".to_owned(),
        "hipSetDevice" => {
            "a case with steps uses one device; to use more, write a case with a `program`"
                .to_owned()
        }
        _ => format!("no step calls `{function}`; a case with a C++ `program` can"),
    }
}

/// Returns a hint for a function that a `hip` step cannot call.
pub(crate) fn function(name: &str) -> String {
    if let Some(hip) = name_in_hip(name)
        && device::library_function(&hip).is_some()
    {
        return match hip_function(&hip) {
            Some(_) => format!("HIP's name is `{hip}`"),
            None => format!("HIP's name is `{hip}`; {}", function(&hip)),
        };
    }
    let own: Vec<_> = verbs_that_make(name).map(of_step).collect();
    if !own.is_empty() {
        return format!("use its own step: {}", own.join(" or "));
    }
    if device::library_function(name).is_some() {
        return no_step_calls(name);
    }
    let all = device::library_functions().iter().filter(|function| function.in_steps);
    let mut known: Vec<_> = all.map(|function| function.name).collect();
    known.sort_by_key(|known| strsim::damerau_levenshtein(name, known));
    let near: Vec<_> = known.iter().take(3).map(|name| format!("`{name}`")).collect();
    format!(
        "similar names: {}; `rocrepro case explain --functions` lists all functions",
        near.join(", ")
    )
}

/// Formats a verb with its keys.
pub(crate) fn of_step(verb: &Verb) -> String {
    let keys = verb.keys();
    match keys.is_empty() {
        true => format!("`{}`", verb.name),
        false => format!("`{}` with the keys {}", verb.name, keys.join(", ")),
    }
}

/// Returns the verb of a step that has a key named `key`; `None` if the step has no such verb. Used for a key that the
/// author wrote next to the verb instead of inside its value, so that the key looks like a second verb.
pub(crate) fn verb_with_key(entries: &[(Key, Node)], key: &str) -> Option<&'static Verb> {
    let of = |name: &str| verbs().find(|verb| verb.name == name && verb.keys().contains(&key));
    entries.iter().find_map(|(verb, _)| of(&verb.text))
}

/// Returns a hint for an invalid name of a stream.
pub(crate) fn stream(name: &str) -> Option<String> {
    let is_null =
        ["0", "null", "NULL", "nullptr", "hipStreamDefault", "hipStreamLegacy"].contains(&name);
    if !is_null && name.starts_with("hipStream") {
        return Some(
            "a stream has a name of its own, such as `s`; a C++ `program` can use HIP's handles"
                .to_owned(),
        );
    }
    is_null.then(|| {
        format!("the null stream is called `{DEFAULT_STREAM}`, and is used if `stream` is missing")
    })
}

/// Returns a hint for a text that is not a number.
pub(crate) fn number(text: &str) -> String {
    if let Some(hint) = forms::number(text) {
        return hint;
    }
    match text.trim_start().starts_with('(') && !text.contains("*") {
        true => "a list of numbers is written as `[4, 1, 1]`".to_owned(),
        false => "such as `64`, `0x40`, `4K` (KiB), `64M` or `$n * 4`".to_owned(),
    }
}

/// Returns the entries of a mapping, except those that result from a value such as `(4,1,1)`, which YAML splits at its
/// commas.
pub(crate) fn without_rest_of_parentheses(
    entries: &[(Key, Node)],
) -> impl Iterator<Item = &(Key, Node)> {
    let mut is_inside = false;
    entries.iter().filter(move |(key, node)| {
        let is_rest = is_inside && matches!(&node.value, Value::Scalar(text) if text.is_empty());
        if is_rest {
            is_inside = !key.text.ends_with(')');
            return false;
        }
        is_inside = matches!(&node.value, Value::Scalar(text) if text.starts_with('(') && !text.contains(')'));
        true
    })
}

/// Returns a hint for the unknown key of a mapping that messages call `what`. There is a hint only if the mapping is a
/// fault, and the key is a parameter (which belongs under `with`) or the name of a fault.
pub(crate) fn key_of_fault(what: &str, key: &str, value: &Node) -> Option<String> {
    if what != "a fault" {
        return None;
    }
    let value = match &value.value {
        Value::Scalar(text) if !text.is_empty() => text.as_str(),
        Value::Scalar(_) | Value::List(_) | Value::Map(_) => "...",
    };
    if let Ok(fault) = key.parse::<device::Fault>() {
        let parameter = fault.parameters().first();
        return Some(match parameter.filter(|_| value != "...") {
            Some(parameter) => {
                format!("write `{{fault: {key}, with: {{{}: {value}}}}}`", parameter.name)
            }
            None => format!("write `{{fault: {key}}}`"),
        });
    }
    let is_parameter =
        |fault: &device::Fault| fault.parameters().iter().any(|parameter| parameter.name == key);
    let usual = ["probability", "per", "seed", "only"];
    (usual.contains(&key) || device::Fault::ALL.iter().any(is_parameter))
        .then(|| format!("parameters are written under `with`: `with: {{{key}: {value}}}`"))
}

/// Returns a hint for a step that is a single word.
pub(crate) fn single_word(word: &str) -> String {
    match verbs().find(|verb| verb.name == word) {
        Some(verb) if verb.keys().is_empty() => {
            format!("write `- {word}:`, with a value if the step takes one")
        }
        Some(verb) => format!("write `- {word}: {{{}: ...}}`", verb.keys()[0]),
        None => step(word),
    }
}

/// Returns a hint for a signature that consists only of a status or a signal.
pub(crate) fn signature(text: &str) -> Option<String> {
    if text.starts_with("hipError") {
        return Some(format!("write `api-error:FUNCTION:{text}`, as `rocrepro run` prints it"));
    }
    (text.starts_with("SIG") || text.starts_with("segfault"))
        .then(|| "write `crash:FUNCTION`, as `rocrepro run` prints it".to_owned())
}
