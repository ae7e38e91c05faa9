//! Hints for values and keys that are written as in other tools.

use device::hip_statuses;

/// Products and families of GPUs with their architectures, one product or family per line.
const PRODUCTS: &str = include_str!("products.txt");

/// Reduces a word to its letters and digits, in lower case.
fn plain(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns a hint for a product or a family of GPUs that is named in place of an architecture.
pub(crate) fn architecture(name: &str) -> Option<String> {
    let name = plain(name);
    let mut products = PRODUCTS.lines().filter_map(|line| line.split_once(": "));
    let (_, gfx) = products.find(|(product, _)| *product == name)?;
    Some(format!("write `[{gfx}]`"))
}

/// Returns the keyword that ends with the word, or with which the word ends: `host.pinned` for `pinned`, and `global`
/// for `hipStreamCaptureModeGlobal`. Returns `None` if no keyword or more than one keyword fits.
pub(crate) fn keyword<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    const MIN_LENGTH: usize = 4;
    let word = plain(word);
    let is_end = |known: &&str| {
        let known = plain(known);
        word.len().min(known.len()) >= MIN_LENGTH
            && (known.ends_with(&word) || word.ends_with(&known))
    };
    let mut found = known.filter(is_end);
    found.next().filter(|_| found.next().is_none())
}

/// Returns the name of the status that the user means by a number or by a word such as `ok`.
pub(crate) fn status(text: &str) -> Option<&'static str> {
    if ["success", "ok", "true", "none", "passed"].contains(&plain(text).as_str()) {
        return Some("hipSuccess");
    }
    let number: i32 = text.parse().ok()?;
    hip_statuses().iter().find(|(_, of)| *of == number).map(|(name, _)| *name)
}

/// Returns a hint for a text that cannot be the name of a buffer.
pub(crate) fn buffer(text: &str) -> Option<String> {
    if let Some(name) = text.strip_prefix(['&', '*']) {
        return Some(format!("write `{name}`: the name of a buffer is its address"));
    }
    let is_condition = text.contains(['=', '<', '>', ' ', '[']);
    is_condition.then(|| {
        "write only the name of the buffer: its content follows from the earlier steps; `at_least` compares with a number"
            .to_owned()
    })
}

/// Returns a hint for a value that must be a mapping. `what` is the name of the value in messages.
pub(crate) fn mapping(what: &str) -> Option<String> {
    let example = match what {
        "`environment`" => "{AMD_SERIALIZE_KERNEL: 3}",
        "`streams`" => "{s: non_blocking}`; a blocking stream needs no declaration: `stream: s",
        "`matrix`" => "{bytes: [0, 64]}",
        "`needs`" => "{gfx: [gfx90a]}",
        "`buffers`" => "{p: {on: device, bytes: 1024, fill: zero}}",
        "an expectation" => "{kind: documented, source: HIP runtime API reference (hipMemcpy)}",
        "a `known` entry" => "{rocm: \">=6.0\", signature: \"crash:hipFree\"}",
        _ if what.starts_with("buffer ") => "{on: device, bytes: 1024, fill: zero}",
        _ => return None,
    };
    Some(format!("such as `{example}`"))
}

/// Returns a hint for a value that must be a single text. `what` is the name of the value in messages.
pub(crate) fn text(what: &str) -> Option<String> {
    let example = match what {
        "`rocm`" => {
            "write one range, such as `\">=6.4 <7.3\"`; for several ranges, write several entries"
        }
        "`numbers`" => {
            "write only the type of the numbers, such as `numbers: f32`; rocrepro chooses the values"
        }
        "`title`" | "`about`" => "put a text that has `: ` or begins with `[` or `{` in quotes",
        _ => return None,
    };
    Some(example.to_owned())
}

/// Returns a hint for a key that is missing from a mapping. `what` is the name of the mapping in messages.
pub(crate) fn missing(what: &str, key: &str) -> Option<String> {
    let hint = match (what, key) {
        ("a `known` entry", "signature") => {
            "copy it from the line of `rocrepro run`, such as `api-error:hipMemsetAsync:hipErrorInvalidValue`"
        }
        ("a `known` entry", "rocm") => {
            "such as `rocm: \">=6.0\"`, or `rocm: \"*\"` for all releases"
        }
        ("`launch_graph`", "exec") => {
            "create an executable graph with `instantiate: {exec: x, graph: g}` before, and name it: `exec: x`"
        }
        ("a case", "title") => "say in one sentence what must hold",
        ("a fault", "fault") => {
            "write `{fault: NAME}`, and parameters under `with`, such as `with: {call: hipMemcpy}`"
        }
        ("a case", "steps") => "write `steps` or a `program`",
        _ if key == "on" && what.starts_with("buffer ") => {
            "such as `on: device` or `on: host.pinned`"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Returns a hint for a text that is not a number, because it has a unit or is a template of another tool.
pub(crate) fn number(text: &str) -> Option<String> {
    let text = text.trim();
    if text.contains("{{") {
        return Some("the value of an axis is written `$axis`".to_owned());
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let count: u64 = digits.trim().parse().ok()?;
    match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" => Some(format!("write milliseconds: `{}`", count.saturating_mul(1000))),
        "ms" => Some(format!("write milliseconds without the unit: `{count}`")),
        "b" | "bytes" => Some(format!("write `{count}`")),
        "kb" | "kib" => Some(format!("write `{count}K`, which is {count} KiB")),
        "mb" | "mib" => Some(format!("write `{count}M`, which is {count} MiB")),
        "gb" | "gib" => Some(format!("write `{}M`", count.saturating_mul(1024))),
        _ => None,
    }
}
