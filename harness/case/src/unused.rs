//! Reports axes of the matrix on which nothing depends.

use crate::{
    Case, Diagnostic,
    yaml::{Node, Value},
};

/// Returns the axes that neither a text of the case nor a selection of trials names. Their trials would be the same. A
/// program may read its axes by name, so the axes of program cases are not checked unless the program is in the case.
pub(crate) fn axes(case: &Case, text: &str) -> Vec<Diagnostic> {
    if case.is_program() && (case.file_beside().is_some() || text.contains("parameter(")) {
        return Vec::new();
    }
    let unused = case.matrix.axes.iter().filter(|axis| !is_used(case.body(), &axis.name, false));
    unused
        .filter(|axis| axis.values.len() > 1)
        .map(|axis| Diagnostic {
            at: axis.at,
            message: format!("nothing depends on axis `{}`, so its trials are the same", axis.name),
            help: Some(format!("use `${}` in what the trial does, or `when`", axis.name)),
        })
        .collect()
}

/// Returns true if a text contains `$name`, or a selection in the steps names the axis.
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
