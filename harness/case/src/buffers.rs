use plan::{Buffer, Call, Choice, MAX_BUFFER_BYTES, Memory, Plan, may_succeed};

use crate::{
    expression::evaluate,
    read::Reader,
    yaml::{Node, Value},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Initial {
    Poison,
    Pattern,
    Zero,
}

pub(crate) fn read_buffer(
    reader: &mut Reader,
    name: &str,
    node: &Node,
) -> Option<(Buffer, Initial)> {
    let what = format!("buffer `{name}`");
    let fields = reader.fields(node, &what, &["on", "bytes", "fill", "guarded"])?;
    let memory =
        reader.required(&fields, &what, "on").and_then(|n| reader.choice(n, "`on`", Memory::ALL));
    let bytes = reader.required(&fields, &what, "bytes").and_then(|n| {
        let bytes = reader.number(n, "`bytes`")?;
        if bytes == 0 {
            reader.mistake(n.at, "`bytes` must be from 1 byte to 4 GiB, not 0");
            return None;
        }
        Some(bytes)
    });
    let initial = match fields.get("fill") {
        Some(n) => {
            let kinds = [("pattern", Initial::Pattern), ("zero", Initial::Zero)];
            if let Value::Scalar(text) = &n.value
                && let Ok(value) = evaluate(text)
            {
                let help = format!(
                    "for other bytes write a step: `- set: {{to: {name}, value: {value}}}`"
                );
                let message = format!("`fill` is `pattern` or `zero`, not `{value}`");
                reader.mistake_with_help(n.at, message, Some(help));
                return None;
            }
            reader.choice(n, "`fill`", &kinds)?
        }
        None => Initial::Poison,
    };
    let guarded = match fields.get("guarded") {
        Some(n) => reader.flag(n, "`guarded`")?,
        None => true,
    };
    let memory = memory?;
    if initial == Initial::Zero && memory == Memory::HostPageable {
        let at = fields.get("fill").map_or(node.at, |n| n.at);
        reader.mistake_with_help(
            at,
            "`fill: zero` uses hipMemset, which does not accept pageable host memory",
            Some("`fill: pattern` writes from the host".into()),
        );
    }
    // The steps of the case allocate and free stream-ordered memory, so the set-up cannot write guards around it.
    let guarded = guarded && memory != Memory::DeviceAsync;
    Some((Buffer { memory, bytes: bytes?, guarded }, initial))
}

/// Rejects buffers that are too large for the reference model. A buffer may be larger if all its allocations must fail.
pub(crate) fn refuse_large(reader: &mut Reader, node: &Node, plan: &Plan) {
    for (name, spec) in reader.entries(node, "`buffers`").unwrap_or_default() {
        let Some(bytes) = plan.buffers.get(&name.text).map(|b| b.bytes) else { continue };
        let steps = plan.steps();
        let mut allocations = steps
            .iter()
            .filter(|s| matches!(&s.call, Call::Alloc { buffer, .. } if *buffer == name.text))
            .peekable();
        let never_there = allocations.peek().is_some() && allocations.all(|s| !may_succeed(s));
        if bytes > MAX_BUFFER_BYTES && !never_there {
            let at = match &spec.value {
                Value::Map(keys) => keys.iter().find(|(key, _)| key.text == "bytes"),
                Value::List(_) | Value::Scalar(_) => None,
            };
            let at = at.map_or(spec.at, |(_, value)| value.at);
            reader.mistake(at, format!("`bytes` must be from 1 byte to 4 GiB, not {bytes}"));
        }
    }
}
