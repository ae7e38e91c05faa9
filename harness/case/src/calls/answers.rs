//! Checks the values of the keys `returns` (accepted statuses) and `gives` (accepted values) in a step.

use plan::{
    Call, Choice, HipArg, HipRead, HipReadType, Scalar, ScalarType, ValueKind, Verb, hip_function,
};

use super::statuses;
use crate::{
    diagnostic::{nearest, suggest},
    hints::forms,
    read::Reader,
    yaml::{Key, Node, Value},
};

/// Reports names under `returns` that are not statuses of the library whose function the verb calls. `hipSuccess` means
/// the success status of every library.
pub(super) fn check_returns(reader: &mut Reader, verb: &str, node: &Node) {
    if ["query", "query_event"].contains(&verb)
        && wanted(node).next().is_some()
        && wanted(node).all(|(text, _)| text == "hipErrorNotReady")
    {
        let help = "list both: `returns: [hipSuccess, hipErrorNotReady]`".to_owned();
        let message = format!("whether the work is done when `{verb}` is called depends on time");
        reader.mistake_with_help(node.at, message, Some(help));
    }
    let known = statuses::for_verb(verb).iter().copied().chain(["any", "hipSuccess"]);
    for (text, item) in wanted(node) {
        if !known.clone().any(|name| name == text) {
            let meant = forms::status(text).filter(|word| known.clone().any(|name| name == *word));
            let help = match meant.or_else(|| nearest(text, known.clone())) {
                Some(word) => format!("did you mean `{word}`?"),
                None => "write the name from the header, such as `hipErrorInvalidValue`, or `any`"
                    .to_owned(),
            };
            let message = format!("`{text}` is not a status of `{verb}`");
            reader.mistake_with_help(item.at, message, Some(help));
        }
    }
}

pub(super) fn check_gives(reader: &mut Reader, verb: &Verb, key: &Key, node: &Node) {
    let Verb { name: verb, gives, .. } = verb;
    let (counts, words): (_, Vec<&str>) = match gives {
        ValueKind::Anything => return,
        ValueKind::Nothing => {
            let help =
                "`returns` lists the accepted statuses; `gives` is for a value next to the status";
            let message = format!("`{verb}` returns no value");
            return reader.mistake_with_help(key.at, message, Some(help.to_owned()));
        }
        ValueKind::Number(since) => (true, since.iter().map(|since| since.word()).collect()),
        ValueKind::Word(words) => (false, words.to_vec()),
    };
    for (text, item) in wanted(node) {
        let bound = [">=", "<=", ">", "<"].iter().find_map(|sign| text.strip_prefix(sign));
        let number = bound.unwrap_or(text).trim().parse::<u64>().is_ok();
        if !(counts && number) && text != "any" && !words.contains(&text) {
            let help = match words.is_empty() {
                true => Some("write a number such as `2`, or a bound such as `>=1`".to_owned()),
                false if counts && nearest(text, words.iter().copied()).is_none() => {
                    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                    let unit = if *verb == "elapsed" { " of microseconds" } else { "" };
                    let number =
                        format!("a whole number{unit} such as `2`, or a bound such as `>=1`");
                    Some(format!("write {number}, or {}", words.join(", ")))
                }
                false => suggest(text, words.iter().copied()),
            };
            reader.mistake_with_help(item.at, format!("`{verb}` cannot return `{text}`"), help);
        }
    }
}

pub(super) fn check_hip_gives(reader: &mut Reader, call: &Call, node: &Node) {
    let Some(sort) = sort_of(call) else { return };
    let words: &[&str] = match (call, sort) {
        (Call::HipValue { against: Some(_), .. }, HipReadType::Number(_)) => {
            &["same", "less", "more"]
        }
        (Call::HipValue { against: Some(_), .. }, _) => &["same", "other"],
        (_, HipReadType::Pointer) => &["null", "set"],
        (_, HipReadType::Number(_)) => &[],
        // Any text is accepted.
        (_, HipReadType::Text | HipReadType::TextAt) => return,
    };
    for (text, item) in wanted(node) {
        let fits = match (words, sort) {
            ([], HipReadType::Number(ty)) => is_number(ty, text),
            _ => words.contains(&text),
        };
        if !fits && text != "any" {
            let help = match words {
                [] => Some("write a number such as `2`, or a bound such as `>=1`".to_owned()),
                words => suggest(text, words.iter().copied()),
            };
            reader.mistake_with_help(item.at, format!("this value cannot be `{text}`"), help);
        }
    }
}

/// Returns the type of the value that a `hip` or `hip_value` step returns; `None` for other steps.
fn sort_of(call: &Call) -> Option<HipReadType> {
    if let Call::HipValue { read: HipRead { sort, .. }, .. } = call {
        return Some(*sort);
    }
    let Call::Hip { function, args } = call else { return None };
    let known = hip_function(function).filter(|known| !known.gives_text)?;
    let first = known.first_given().filter(|at| matches!(args.get(*at), Some(HipArg::Out { .. })));
    known.parameters[first?].gives()
}

/// Returns true if a text is a number of type `ty`, or a bound for whole numbers such as `>=1`.
fn is_number(ty: ScalarType, text: &str) -> bool {
    match [">=", "<=", ">", "<"].iter().find_map(|sign| text.strip_prefix(sign)) {
        Some(limit) => limit.trim().parse::<i128>().is_ok(),
        None => Scalar::parse(ty, text).is_ok_and(|number| number.to_string() == text),
    }
}

/// Returns each text in `node`, together with the YAML node that contains the text. `node` is one value, a list of
/// values, or a mapping from ROCm versions to either. Values that are not text are skipped, because other functions
/// report them.
fn wanted(node: &Node) -> impl Iterator<Item = (&str, &Node)> {
    fn items(node: &Node) -> &[Node] {
        match &node.value {
            Value::List(items) => items,
            Value::Map(_) | Value::Scalar(_) => std::slice::from_ref(node),
        }
    }
    let either: Vec<&Node> = match &node.value {
        Value::Map(entries) => entries.iter().map(|(_, value)| value).collect(),
        Value::List(_) | Value::Scalar(_) => vec![node],
    };
    either.into_iter().flat_map(items).filter_map(|item| match &item.value {
        Value::Scalar(text) if !text.is_empty() => Some((text.as_str(), item)),
        Value::Map(_) | Value::List(_) | Value::Scalar(_) => None,
    })
}
