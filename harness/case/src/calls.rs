//! Reads the verbs in `steps`. A verb is the key of a step that names a call, for example `copy`, or a block of steps,
//! for example `repeat`.

mod answers;
mod args;
mod by_hand;
mod gemm;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the matches are over roles of parameters, not over calls"
)]
mod hip;
mod launch;
mod node;
mod statuses;

use plan::{ByVersion, Call, Plan, Step, verbs};

use self::args::Args;
pub(crate) use self::statuses::for_function as every_status;
use crate::{
    hints,
    matrix::read_selector,
    read::Reader,
    scope::Scope,
    yaml::{Node, Value},
};

/// Accepted statuses, or accepted values, of a step, for each range of ROCm versions.
type Names = ByVersion<Vec<String>>;

/// Maximum `count` of a `repeat` step. The limit exists because the reference model executes every repetition, too.
const MAX_REPEATS: u32 = 1_000_000;

/// Longest sleep of the host that a step may request, in milliseconds. It is below 30 s, because a trial without events
/// for 30 s is reported as hung, unless the command line sets another limit.
const MAX_SLEEP_MS: u64 = 20_000;

/// Returns how often the most repeated step in a block is executed: the product of the counts of the nested `repeat`
/// blocks around the step. The product does not overflow, because the counts of inner blocks have already been limited.
fn repeats(steps: &[Step]) -> u64 {
    let step = |step: &Step| {
        let times = if let Call::Repeat { count, .. } = step.call { count } else { 1 };
        u64::from(times) * step.call.body().map_or(1, repeats)
    };
    steps.iter().map(step).max().unwrap_or(1)
}

pub(crate) fn read_steps(reader: &mut Reader, scope: &mut Scope, node: &Node) -> Vec<Step> {
    let mut steps = Vec::new();
    for item in reader.list(node) {
        read_step(reader, scope, item, &mut steps);
    }
    steps
}

fn read_block(reader: &mut Reader, scope: &mut Scope, node: &Node) -> Vec<Step> {
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        reader.mistake(node.at, "a block needs steps");
    }
    read_steps(reader, scope, node)
}

/// Checks that a `hip` step that calls `function` may have the key `gives`. The function must return a value. On each
/// release for which `gives` lists values, `returns` must accept success, because the outputs of a call that must fail
/// are undefined.
///
/// # Errors
/// Returns a message for the author of the case.
fn can_give(function: &str, returns: Option<&Names>, gives: &Names) -> Result<(), String> {
    let known = plan::hip_function(function);
    if !known.is_some_and(|known| known.gives_text || known.first_given().is_some()) {
        return Err(format!("`{function}` returns no value"));
    }
    let refused =
        returns.iter().flat_map(|by| &by.0).filter(|(_, names)| !plan::accepts_success(names));
    let stated = || gives.0.iter().filter(|(_, names)| names.iter().all(|name| name != "any"));
    let mut both = refused.flat_map(|(range, _)| stated().map(move |given| (range, &given.0)));
    match both.find(|(range, given)| range.overlaps(given)) {
        None => Ok(()),
        Some((range, _)) => Err(format!(
            "`{function}` returns no value where it must fail, on ROCm {range}; write `gives` only for the other \
             versions"
        )),
    }
}

/// Reads one step and appends it to `out`. Steps that must precede it, for example the copy before a check, are
/// appended first.
pub(crate) fn read_step(reader: &mut Reader, scope: &mut Scope, node: &Node, out: &mut Vec<Step>) {
    if let Value::Scalar(word) = &node.value {
        let help = Some(hints::single_word(word));
        return reader.mistake_with_help(node.at, "a step must be a mapping", help);
    }
    let Some(entries) = reader.entries(node, "a step") else { return };
    // If `when` excludes the step from this trial, only its keys, its verb, and the words under `returns` and `gives`
    // are checked.
    let mut elsewhere = false;
    let mut verb = None;
    let (mut returns, mut gives) = (None, None);
    for (key, value) in entries {
        match key.text.as_str() {
            "returns" => returns = reader.by_version(value, "`returns`"),
            "gives" => gives = reader.by_version(value, "`gives`"),
            "when" => {
                elsewhere = !read_selector(reader, value, scope.matrix).matches(scope.trial);
            }
            // All `for_each` entries of lists of steps have been expanded before, so this `for_each` is in a place
            // where it is not allowed.
            crate::for_each::WORD => {
                return reader.mistake(key.at, "`for_each` must be an entry of a list of steps");
            }
            text => match verbs().find(|verb| verb.name == text) {
                Some(_) if verb.is_some() => {
                    let help =
                        "begin each step with a `- ` of its own, all in one column".to_owned();
                    reader.mistake_with_help(
                        key.at,
                        "a step has one verb; start the next one with `-`",
                        Some(help),
                    );
                }
                Some(known) => verb = Some((known, value)),
                None => {
                    let (message, help) = match hints::verb_with_key(entries, text) {
                        Some(verb) => (
                            format!("`{text}` must be indented further than `{}`", verb.name),
                            format!(
                                "here YAML takes `{text}` as a step; it is a key of `{}`: write it below the verb, indented, or \
                                 inside its braces",
                                verb.name
                            ),
                        ),
                        None if text == "steps" && entries.iter().any(|(key, _)| key.text == "when") => (
                            "`when` has no steps of its own".to_owned(),
                            "write `when: {...}` below the verb of each step, in the column of the verb".to_owned(),
                        ),
                        None => (format!("unknown step `{text}`"), hints::step(text)),
                    };
                    reader.mistake_with_help(key.at, message, Some(help));
                    return;
                }
            },
        }
    }
    let Some((verb, value)) = verb else {
        return reader.mistake(node.at, "a step needs a verb such as `copy`");
    };
    if let Some((_, value)) = entries.iter().find(|(key, _)| key.text == "returns") {
        answers::check_returns(reader, verb.name, value);
    }
    if let Some((key, value)) = entries.iter().find(|(key, _)| key.text == "gives") {
        answers::check_gives(reader, verb, key, value);
    }
    if elsewhere {
        return;
    }
    let what = format!("`{}`", verb.name);
    let args =
        Args { reader, scope, node: value, fields: None, what, step: node.at, before: &mut *out };
    if let Some(call) = args.read(verb) {
        // `any` accepts every status and value. Authors write it in a `for_each` table whose other rows list statuses
        // or values.
        let stated = returns.iter().flat_map(|by| &by.0).flat_map(|(_, names)| names);
        if stated.clone().any(|name| name != "any") && call.functions(&Plan::empty()).is_empty() {
            let key = entries.iter().find(|(key, _)| key.text == "returns");
            let at = key.map_or(node.at, |(key, _)| key.at);
            return reader.mistake(at, format!("`{}` returns no status", verb.name));
        }
        if let (Call::Hip { function, .. }, Some(gives)) = (&call, &gives)
            && let Err(why) = can_give(function, returns.as_ref(), gives)
        {
            let key = entries.iter().find(|(key, _)| key.text == "gives");
            return reader.mistake(key.map_or(node.at, |(key, _)| key.at), why);
        }
        if let Some((_, value)) = entries.iter().find(|(key, _)| key.text == "gives") {
            answers::check_hip_gives(reader, &call, value);
        }
        let step =
            Step { id: scope.id(), call, returns, gives, line: node.at.line, planted: Vec::new() };
        out.push(step);
    }
}
