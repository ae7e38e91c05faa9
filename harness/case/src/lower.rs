//! Lowers one trial of a case to a plan.

use std::collections::BTreeMap;

use device::FaultSpec;
use plan::{
    Call, Choice, DEFAULT_STREAM, Expected, MAX_BUFFER_BYTES, PLAN_VERSION, Plan, Program,
    Reference, Step, StreamKind, races, reference, verbs,
};

mod program;
mod surround;

use self::program::program;
use crate::{
    Case, Diagnostic, SourceSpan, Trial,
    added_buffers::{BACK, INITIAL},
    buffers::{Initial, read_buffer, refuse_large},
    calls::{read_step, read_steps},
    diagnostic::finish,
    for_each,
    kernels::{Kernels, read_kernel_declaration},
    matrix::substitute,
    plant::inject_fault,
    read::{Fields, Reader},
    scope::Scope,
    signature::names_function,
    yaml::{Node, Value},
};

/// Result of lowering one trial.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Calls of the trial, including set-up and teardown. The plan of a program case contains no calls.
    pub plan: Plan,
    /// The calls of the plan, or the program that the trial runs.
    pub body: Body,
}

/// Body of a trial: calls, or a program.
#[derive(Clone, Debug)]
pub enum Body {
    /// The calls of the plan. The reference contains the bytes that the checks must find.
    Calls(Reference),
    /// A program, for a program case.
    Program(Box<Program>),
}

impl Body {
    /// Returns the bytes that the checks of the plan must find; an empty list for a program.
    pub fn expected(&self) -> &[Expected] {
        match self {
            Body::Calls(reference) => &reference.expected,
            Body::Program(_) => &[],
        }
    }
}

/// Lowers one trial to its plan, and injects the faults that take effect at calls. Faults of the emulated device do not
/// change the plan.
///
/// The resulting plan has passed every static check: its accesses are ordered, it uses no freed or uninitialised
/// memory, and each check has exactly one right result.
///
/// # Errors
/// Returns all mistakes in the case that affect this trial.
pub fn lower(
    case: &Case,
    trial: &Trial,
    kernels: &Kernels,
    faults: &[FaultSpec],
) -> Result<Lowered, Vec<Diagnostic>> {
    if case.is_program() {
        let (plan, made) = program(case, trial)?;
        return Ok(Lowered { plan, body: Body::Program(Box::new(made)) });
    }
    let (mut plan, reference) = lower_checked(case, trial, kernels, reference)?;
    for fault in faults {
        inject_fault(&mut plan, fault);
    }
    Ok(Lowered { plan, body: Body::Calls(reference) })
}

/// Lowers one trial with the same checks as [`lower`], but without computing the expected bytes.
///
/// # Errors
/// Returns the same mistakes as [`lower`].
pub fn analyse(case: &Case, trial: &Trial, kernels: &Kernels) -> Result<Plan, Vec<Diagnostic>> {
    if case.is_program() {
        return program(case, trial).map(|(plan, _)| plan);
    }
    lower_checked(case, trial, kernels, plan::analyse).map(|(plan, ())| plan)
}

/// Lowers a trial and checks its plan. The closure `model` makes the last check, and its result is returned with the
/// plan.
fn lower_checked<T: Default>(
    case: &Case,
    trial: &Trial,
    kernels: &Kernels,
    model: impl Fn(&Plan) -> Result<T, Vec<plan::Mistake>>,
) -> Result<(Plan, T), Vec<Diagnostic>> {
    let mut reader = Reader::default();
    let mut missing = Vec::new();
    let (root, open) = for_each::expand(&mut reader, case.body(), trial, &case.matrix);
    let root = substitute(&root, trial, &mut missing);
    let plan = assemble(&mut reader, case, trial, kernels, &root);
    // Where a cell of a table or the value of an axis is missing, other mistakes at the same position are dropped. The
    // missing cell has already been reported there, and the missing axis is reported there or in the matrix.
    let mut mistakes = reader.mistakes;
    mistakes.retain(|m| !open.contains(&m.at) && missing.iter().all(|axis| axis.at != m.at));
    mistakes.extend(missing.iter().filter_map(|axis| axis.mistake(trial, &case.matrix)));
    finish(mistakes)?;
    let plan = plan.filter(|_| missing.is_empty()).ok_or_else(Vec::new)?;
    let mut mistakes = races(&plan);
    let impossible = plan::impossible_steps(&plan).into_iter();
    mistakes.extend(impossible.map(|(step, message)| plan::Mistake { line: step.line, message }));
    let found = model(&plan).unwrap_or_else(|found| {
        mistakes.extend(found);
        T::default()
    });
    // Lowering adds steps and buffers that the case file does not contain. Messages about the added ones are harder to
    // understand, so they are dropped if the case's own steps have mistakes too.
    let declared =
        |name: &str| entry(&root, "buffers").is_some_and(|all| entry(all, name).is_some());
    let others = plan.buffers.keys().filter(|name| !declared(name));
    let others: Vec<String> = others.map(|name| format!("`{name}`")).collect();
    let added =
        |m: &plan::Mistake| m.line == 0 || others.iter().any(|name| m.message.contains(name));
    if !mistakes.iter().all(added) {
        mistakes.retain(|m| !added(m));
    }
    // In messages, the name of a host buffer that a check added is replaced by the name of the checked device buffer.
    for mistake in &mut mistakes {
        for name in others.iter().filter_map(|name| name.strip_suffix(&format!("{BACK}`"))) {
            mistake.message =
                mistake.message.replace(&format!("{name}{BACK}`"), &format!("{name}`"));
        }
    }
    let mut mistakes: Vec<_> =
        mistakes.into_iter().map(|m| in_case(m, None, &root, trial)).collect();
    for misplaced in plan::misplaced_steps(&plan) {
        let step = misplaced.step;
        if !expects_failure(case, plan::api(&step.call, &plan)) {
            let mistake = plan::Mistake { line: step.line, message: misplaced.message };
            mistakes.push(in_case(mistake, Some(misplaced.hint), &root, trial));
        }
    }
    finish(mistakes)?;
    Ok((plan, found))
}

/// Returns true if `known` or `expectation` lists a failure of this function. The author may then have misplaced a step
/// on purpose, to show the failure.
fn expects_failure(case: &Case, function: &str) -> bool {
    let known = case.known.iter().map(|known| known.signature.as_str());
    let stated = case.expectation.iter().filter_map(|entry| entry.signature.as_deref());
    known.chain(stated).any(|signature| names_function(signature) == Some(function))
}

fn in_case(mistake: plan::Mistake, hint: Option<String>, root: &Node, trial: &Trial) -> Diagnostic {
    let trial = trial.to_string();
    let line = mistake.line.max(1);
    let seen = (!trial.is_empty()).then(|| format!("seen in the trial {trial}"));
    let help = hint.into_iter().chain(seen).collect::<Vec<_>>().join("; ");
    Diagnostic {
        at: first_key_of_line(root, line).unwrap_or(SourceSpan { line, column: 1, length: 1 }),
        message: mistake.message,
        help: (!help.is_empty()).then_some(help),
    }
}

fn entry<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|(key, _)| key.text == name).map(|(_, value)| value)
}

/// Returns the position of the first key in a line; `None` if no key begins in the line. Mistakes in a plan are
/// reported at this position, because only their line is known.
fn first_key_of_line(node: &Node, line: u32) -> Option<SourceSpan> {
    match &node.value {
        Value::Map(entries) => entries.iter().find_map(|(key, value)| {
            if key.at.line == line { Some(key.at) } else { first_key_of_line(value, line) }
        }),
        Value::List(items) => items.iter().find_map(|item| first_key_of_line(item, line)),
        Value::Scalar(_) => None,
    }
}

/// Maximum total size of all buffers of a case, in bytes. The limit exists because the reference model keeps every
/// buffer in host memory.
const MAX_TOTAL_BUFFER_BYTES: u64 = 16 << 30;

fn assemble(
    reader: &mut Reader,
    case: &Case,
    trial: &Trial,
    kernels: &Kernels,
    root: &Node,
) -> Option<Plan> {
    // Unknown keys have been reported when the file was parsed.
    let fields = reader.fields(root, "a case", crate::case_keys::KEYS)?;
    let mut scope = Scope::new(&case.matrix, trial, kernels);
    if let Some(node) = fields.get("streams") {
        for (key, value) in reader.entries(node, "`streams`").unwrap_or_default() {
            reader.name(key.at, &key.text, "a stream");
            if [DEFAULT_STREAM, "device"].contains(&key.text.as_str()) {
                reader.mistake(key.at, format!("`{}` is reserved; use another name", key.text));
            }
            if let Some(kind) = reader.choice(value, "a stream", StreamKind::ALL) {
                scope.streams.insert(key.text.clone(), kind);
            }
        }
    }
    if let Some(node) = fields.get("kernels") {
        let entries = reader.entries(node, "`kernels`");
        scope.unknown_kernels = entries.is_none();
        for (key, value) in entries.unwrap_or_default() {
            let own = read_kernel_declaration(reader, key, value, kernels);
            scope.own_kernels.insert(key.text.clone(), own);
        }
    }
    let environment = read_environment(reader, &fields);
    let mut initial = BTreeMap::new();
    if let Some(node) = fields.get("buffers") {
        let entries = reader.entries(node, "`buffers`");
        scope.unknown_buffers = entries.is_none();
        for (key, value) in entries.unwrap_or_default() {
            reader.name(key.at, &key.text, "a buffer");
            scope.declared.insert(key.text.clone());
            match read_buffer(reader, &key.text, value) {
                Some((buffer, first)) => {
                    initial.insert(key.text.clone(), first);
                    scope.buffers.insert(key.text.clone(), buffer);
                }
                None => {
                    scope.broken.insert(key.text.clone());
                }
            }
        }
        for (key, value) in reader.entries(node, "`buffers`").unwrap_or_default() {
            let staged =
                initial.get(&key.text).is_some_and(|first| matches!(first, Initial::Pattern))
                    && scope.buffers.get(&key.text).is_some_and(|b| !b.memory.on_host());
            let from = format!("{}{INITIAL}", key.text);
            if staged && scope.declared.contains(&from) {
                let message = format!(
                    "`fill: pattern` makes a host buffer `{from}`, but the case declares one with that name"
                );
                let help = format!("give the buffer `{from}` of the case another name");
                reader.mistake_with_help(value.at, message, Some(help));
            }
        }
        // Buffers above `MAX_BUFFER_BYTES` do not count, because their allocation must fail. The sum of the other sizes
        // cannot overflow, because a file declares fewer than 2^32 buffers.
        let there =
            scope.buffers.values().map(|b| b.bytes).filter(|bytes| *bytes <= MAX_BUFFER_BYTES);
        let bytes: u64 = there.sum();
        if bytes > MAX_TOTAL_BUFFER_BYTES {
            reader.mistake(
                node.at,
                format!(
                    "the buffers have {bytes} bytes together; at most {MAX_TOTAL_BUFFER_BYTES} are allowed"
                ),
            );
        }
    }
    let mut body = Vec::new();
    if let Some(node) = fields.get("steps") {
        let before = reader.mistakes.len();
        body = read_steps(reader, &mut scope, node);
        let all_read = scope.broken.is_empty() && !scope.unknown_buffers;
        if body.is_empty() && all_read && reader.mistakes.len() == before {
            reader.mistake(node.at, "`steps` is empty");
        }
    }
    if let Some(node) = fields.get("expect") {
        for item in reader.list(node) {
            let other = match &item.value {
                Value::Map(entries) => entries.iter().find(|(key, _)| is_other_verb(&key.text)),
                Value::List(_) | Value::Scalar(_) => None,
            };
            match other {
                Some((key, _)) => reader.mistake(
                    key.at,
                    "`expect` allows only `check`, `equal`, `differ` and `at_least`; write other steps under \
                     `steps`",
                ),
                None if matches!(&item.value, Value::Scalar(_)) => {
                    let help = "write `check: BUFFER`; the status of a call is stated by `returns: hipErrorInvalidValue` below \
                                its verb";
                    let message = "a check under `expect` must be a mapping";
                    reader.mistake_with_help(item.at, message, Some(help.to_owned()));
                }
                None => read_step(reader, &mut scope, item, &mut body),
            }
        }
    }
    stamp(&mut body);
    let plan = Plan {
        version: PLAN_VERSION,
        trial: case.trial_id(trial),
        environment,
        limits: BTreeMap::new(),
        libraries: case.needs.libraries.clone(),
        functions: case.needs.functions.clone(),
        buffers: scope
            .buffers
            .iter()
            .chain(&scope.added)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        streams: scope.streams.clone(),
        events: scope.events.iter().cloned().collect(),
        kernels: BTreeMap::new(),
        own_kernels: BTreeMap::new(),
        files: BTreeMap::new(),
        setup: Vec::new(),
        body,
        verify: Vec::new(),
        teardown: Vec::new(),
    };
    if let Some(node) = fields.get("buffers") {
        refuse_large(reader, node, &plan);
    }
    Some(surround::surround(plan, scope, &initial))
}

fn read_environment(reader: &mut Reader, fields: &Fields<'_>) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    if let Some(node) = fields.get("environment") {
        for (key, value) in reader.entries(node, "`environment`").unwrap_or_default() {
            if key.text.is_empty() || key.text.contains(['=', '\0']) {
                reader.mistake(key.at, format!("`{}` is not a valid name of a variable", key.text));
            }
            if let Some(text) = reader.text(value, "a variable") {
                environment.insert(key.text.clone(), text.to_owned());
            }
        }
    }
    environment
}

/// Returns true if a key is a verb that is not allowed in `expect`.
fn is_other_verb(name: &str) -> bool {
    !["check", "equal", "differ", "at_least"].contains(&name)
        && verbs().any(|verb| verb.name == name)
}

/// Sets the stamp of each fill to the id of the step that makes it.
fn stamp(steps: &mut [Step]) {
    for step in steps {
        if let Call::Fill { stamp, .. } | Call::FillNumbers { stamp, .. } = &mut step.call {
            *stamp = step.id;
        }
        if let Some(body) = step.call.body_mut() {
            stamp(body);
        }
    }
}
