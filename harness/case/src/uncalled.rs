//! Reports parts of a case that no step uses: kernels that no step launches, faults that apply to no step, and faults
//! and signatures with a function that no step calls in the selected trials. Such a fault would change nothing, and no
//! failure would have such a signature.

use std::collections::BTreeSet;

use device::FaultPlace;
use plan::{Plan, api, apis};

use crate::{
    Case, Diagnostic, FaultEntry, Selector, SourceSpan, Trial,
    hints::quoted,
    plant,
    signature::{OTHERS, names_function},
    yaml::{self, Node, Value},
};

/// Functions that are called by the plan of one trial.
pub(crate) struct CalledFunctions {
    trial: Trial,
    /// Functions that the trial calls before the teardown. Faults can be injected only at these.
    before_teardown: BTreeSet<&'static str>,
    /// All functions that the trial calls, those of the teardown included. Each of them can fail.
    all: BTreeSet<&'static str>,
    /// Functions of the steps in the case file, for hints.
    of_steps: BTreeSet<&'static str>,
}

impl CalledFunctions {
    pub(crate) fn in_plan(trial: &Trial, plan: &Plan) -> CalledFunctions {
        let teardown: BTreeSet<u32> = plan.teardown.iter().map(|step| step.id).collect();
        let steps = plan.steps();
        let first = |such: &dyn Fn(&plan::Step) -> bool| {
            steps.iter().filter(|step| such(step)).map(|step| api(&step.call, plan)).collect()
        };
        let mut all: BTreeSet<&str> = first(&|_| true);
        all.extend(steps.iter().flat_map(|step| step.call.functions(plan)));
        CalledFunctions {
            trial: trial.clone(),
            before_teardown: first(&|step| !teardown.contains(&step.id)),
            all,
            of_steps: first(&|step| step.line > 0 && !step.call.functions(plan).is_empty()),
        }
    }
}

/// Faults and kernels that no trial has used so far.
pub(crate) struct UnusedEntries<'c> {
    /// Faults at calls, except those that name a function. Each has its index in the case's list `faults`.
    faults: Vec<(usize, &'c FaultEntry)>,
    /// Names of kernels that the case defines.
    kernels: BTreeSet<String>,
}

impl<'c> UnusedEntries<'c> {
    /// Returns the kernels of a case, and its faults at calls, all of them as unused.
    pub(crate) fn new(case: &'c Case) -> UnusedEntries<'c> {
        let at_calls = |entry: &FaultEntry| {
            entry.planted.fault.place() == FaultPlace::Call
                && entry.planted.which("call").is_empty()
        };
        let faults = case.faults.iter().enumerate().filter(|(_, entry)| at_calls(entry));
        let declared = value_of(case.body(), "kernels").map(|node| &node.value);
        let kernels = match declared {
            Some(Value::Map(entries)) => entries.iter().map(|(key, _)| key.text.clone()).collect(),
            _ => BTreeSet::new(),
        };
        UnusedEntries { faults: faults.collect(), kernels }
    }

    /// Removes what a trial uses: kernels of its plan, and faults that can be injected at one of its steps.
    pub(crate) fn mark_used(&mut self, trial: &Trial, plan: &Plan) {
        self.kernels.retain(|kernel| !plan.own_kernels.contains_key(kernel));
        self.faults.retain(|(_, entry)| {
            if !entry.on.matches(trial) {
                return true;
            }
            let mut with_fault = plan.clone();
            plant::inject_fault(&mut with_fault, &entry.planted);
            with_fault.steps().iter().all(|step| step.planted.is_empty())
        });
    }

    fn mistakes(&self, root: &Node) -> Vec<Diagnostic> {
        let nodes = entries(root, "faults");
        let faults = self.faults.iter().filter_map(|(number, entry)| {
            let fault = entry.planted.fault;
            let message = format!("no step makes a call to which `{fault}` applies");
            let help = format!("`{fault}`: {}", fault.about());
            Some(Diagnostic { at: nodes.get(*number)?.at, message, help: Some(help) })
        });
        let declared = match value_of(root, "kernels").map(|node| &node.value) {
            Some(Value::Map(entries)) => &entries[..],
            _ => &[],
        };
        let unused = declared.iter().filter(|(key, _)| self.kernels.contains(&key.text));
        let kernels = unused.map(|(key, _)| Diagnostic {
            at: key.at,
            message: format!("no step launches kernel `{}`", key.text),
            help: Some(format!("add `launch: {{kernel: {}, args: [...]}}`", key.text)),
        });
        kernels.chain(faults).collect()
    }
}

/// Returns a mistake for each entry under `faults`, `known` or `expectation` whose `on` selects no trial.
fn without_trials(case: &Case, root: &Node) -> Vec<Diagnostic> {
    let trials = case.trials();
    let selectors = [
        ("faults", case.faults.iter().map(|entry| &entry.on).collect::<Vec<_>>()),
        ("known", case.known.iter().map(|entry| &entry.on).collect()),
        ("expectation", case.expectation.iter().map(|entry| &entry.on).collect()),
    ];
    let mut found = Vec::new();
    for (key, selectors) in selectors {
        for (on, node) in selectors.into_iter().zip(entries(root, key)) {
            if trials.iter().all(|trial| !on.matches(trial)) {
                let at = value_of(node, "on").unwrap_or(node).at;
                let message = "this selects no trial, because `exclude` leaves these trials out";
                found.push(Diagnostic { at, message: message.to_owned(), help: None });
            }
        }
    }
    found
}

/// Returns a mistake for each kernel, fault and signature of the case that no step uses. The case file must have no
/// other mistakes, and `called` must have one entry for each trial.
pub(crate) fn mistakes(
    case: &Case,
    text: &str,
    called: &[CalledFunctions],
    idle: &UnusedEntries<'_>,
) -> Vec<Diagnostic> {
    let Some(root) = yaml::parse(text, &mut Vec::new()) else { return Vec::new() };
    let mut found = without_trials(case, &root);
    if called.is_empty() {
        return found;
    }
    found.extend(idle.mistakes(&root));
    for (entry, node) in case.faults.iter().zip(entries(&root, "faults")) {
        let function = entry.planted.which("call");
        // If the fault does not name a function, its default applies; `prove` reports if no step calls that function.
        let named = value_of(node, "with").and_then(|with| value_of(with, "call"));
        if let Some(at) = named.map(|named| named.at).filter(|_| !function.is_empty()) {
            let message = format!("no step calls `{function}`, so this fault changes nothing");
            let is_called = |of: &CalledFunctions| of.before_teardown.contains(function);
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

fn of_signature(
    called: &[CalledFunctions],
    on: &Selector,
    at: SourceSpan,
    signature: &str,
) -> Option<Diagnostic> {
    let function = names_function(signature)?;
    if OTHERS.contains(&function) || !apis().contains(&function) {
        return None;
    }
    let message = format!("no step calls `{function}`, so no failure has this signature");
    missing(called, on, at, message, |of| of.all.contains(function))
}

/// Returns a mistake with the text `message` if `is_called` is false for all trials that `on` selects. Returns `None`
/// if it is true for one of them, or if `on` selects no trial.
fn missing(
    called: &[CalledFunctions],
    on: &Selector,
    at: SourceSpan,
    message: String,
    is_called: impl Fn(&CalledFunctions) -> bool,
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
