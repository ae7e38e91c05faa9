//! Reports axes of the matrix on which nothing depends.

use crate::{
    Case, Diagnostic,
    yaml::{Node, Value},
};

/// Returns a mistake for each axis that neither a text of the case nor a selection of trials names. Trials that differ
/// only in such an axis would be the same.
///
/// A program may read its axes by name. Therefore an axis counts as used if the text of a program case contains its
/// quoted name. If the program is in a file or computes the names, the axes are not checked.
pub(crate) fn axes(case: &Case, text: &str) -> Vec<Diagnostic> {
    let computes_names = text
        .match_indices("parameter(")
        .any(|(at, call)| !text[at + call.len()..].trim_start().starts_with(['"', '\'']));
    if case.is_program() && (case.program_file().is_some() || computes_names) {
        return Vec::new();
    }
    let is_read = |name: &str| {
        case.is_program() && ['"', '\''].iter().any(|q| text.contains(&format!("{q}{name}{q}")))
    };
    let unused = case
        .matrix
        .axes
        .iter()
        .filter(|axis| !is_used(case.body(), &axis.name, false) && !is_read(&axis.name));
    unused
        .filter(|axis| axis.values.len() > 1)
        .map(|axis| Diagnostic {
            at: axis.at,
            message: format!("nothing depends on axis `{}`, so its trials are the same", axis.name),
            help: Some(format!("use `${}` in what the trial does, or `when`", axis.name)),
        })
        .collect()
}

/// Returns true if `node` depends on the axis `name`: one of its texts contains `$name`, or a `when` selects values of
/// the axis. `in_selection` is true if `node` is the value of a `when`.
fn is_used(node: &Node, name: &str, in_selection: bool) -> bool {
    match &node.value {
        Value::Scalar(text) => {
            text.contains(&format!("${name}")) || text.contains(&format!("${{{name}}}"))
        }
        Value::List(items) => items.iter().any(|item| is_used(item, name, in_selection)),
        Value::Map(entries) => entries.iter().any(|(key, value)| {
            let is_selection = key.text == "when";
            in_selection && key.text == name || is_used(value, name, is_selection)
        }),
    }
}
