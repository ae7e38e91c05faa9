//! Reports faults and signatures that name a function which no step calls in the selected trials: the fault would change
//! nothing, and no failure would have the signature.

use std::collections::BTreeSet;

use plan::{Plan, api, apis};

use crate::{
    At, Case, Diagnostic, Selector, Trial,
    hints::quoted,
    signature::{OTHERS, names_function},
    yaml::{self, Node, Value},
};

/// Functions that the plan of one trial calls.
pub(crate) struct Called {
    trial: Trial,
    /// Functions at which a fault can be injected.
    before_teardown: BTreeSet<&'static str>,
    /// Functions that can fail. Includes the teardown.
    all: BTreeSet<&'static str>,
    /// Functions of the steps in the case file, for hints.
    of_steps: BTreeSet<&'static str>,
}

impl Called {
    pub(crate) fn of(trial: &Trial, plan: &Plan) -> Called {
        let teardown: BTreeSet<u32> = plan.teardown.iter().map(|step| step.id).collect();
        let steps = plan.steps();
        let first = |such: &dyn Fn(&plan::Step) -> bool| {
            steps.iter().filter(|step| such(step)).map(|step| api(&step.call, plan)).collect()
        };
        let mut all: BTreeSet<&str> = first(&|_| true);
        all.extend(steps.iter().flat_map(|step| step.call.functions(plan)));
        Called {
            trial: trial.clone(),
            before_teardown: first(&|step| !teardown.contains(&step.id)),
            all,
            of_steps: first(&|step| step.line > 0 && !step.call.functions(plan).is_empty()),
        }
    }
}

/// Returns the mistakes of a case whose file has no other mistakes. `called` has one entry for each trial.
pub(crate) fn functions(case: &Case, text: &str, called: &[Called]) -> Vec<Diagnostic> {
    let Some(root) = yaml::parse(text, &mut Vec::new()) else { return Vec::new() };
    let mut found = Vec::new();
    for (entry, node) in case.faults.iter().zip(entries(&root, "faults")) {
        let function = entry.planted.which("call");
        // Without a name, the function is the default of the fault; `prove` reports if no step calls it.
        let named = value_of(node, "with").and_then(|with| value_of(with, "call"));
        if let Some(at) = named.map(|named| named.at).filter(|_| !function.is_empty()) {
            let message = format!("no step calls `{function}`, so this fault changes nothing");
            let is_called = |of: &Called| of.before_teardown.contains(function);
            found.extend(missing(called, &entry.on, at, message, is_called));
        }
    }
    for (known, node) in case.known.iter().zip(entries(&root, "known")) {
        let at = value_of(node, "signature").unwrap_or(node).at;
        found.extend(of_signature(called, &known.on, at, &known.signature));
    }
    for (entry, node) in case.faults.iter().zip(entries(&root, "faults")) {
        if let (Some(signature), Some(node)) = (&entry.signature, value_of(node, "signature")) {
            found.extend(of_signature(called, &entry.on, node.at, signature));
        }
    }
    found
}

fn of_signature(called: &[Called], on: &Selector, at: At, signature: &str) -> Option<Diagnostic> {
    let function = names_function(signature)?;
    if OTHERS.contains(&function) || !apis().contains(&function) {
        return None;
    }
    let message = format!("no step calls `{function}`, so no failure has this signature");
    missing(called, on, at, message, |of| of.all.contains(function))
}

/// Returns the mistake if no selected trial calls the function.
fn missing(
    called: &[Called],
    on: &Selector,
    at: At,
    message: String,
    is_called: impl Fn(&Called) -> bool,
) -> Option<Diagnostic> {
    let selected: Vec<_> = called.iter().filter(|of| on.matches(&of.trial)).collect();
    if selected.is_empty() || selected.iter().any(|of| is_called(of)) {
        return None;
    }
    let steps: BTreeSet<_> = selected.iter().flat_map(|of| &of.of_steps).copied().collect();
    let help = (!steps.is_empty()).then(|| format!("the steps call {}", quoted(steps)));
    Some(Diagnostic { at, message, help })
}

fn entries<'n>(root: &'n Node, key: &str) -> &'n [Node] {
    match value_of(root, key) {
        Some(Node { value: Value::List(items), .. }) => items,
        Some(node) => std::slice::from_ref(node),
        None => &[],
    }
}

fn value_of<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|(of, _)| of.text == key).map(|(_, value)| value)
}
