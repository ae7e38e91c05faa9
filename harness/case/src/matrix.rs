use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
};

use crate::{
    Diagnostic, SourceSpan,
    diagnostic::suggest,
    read::Reader,
    yaml::{Node, Value},
};

/// Maximum number of trials of one case. A matrix with more trials is reported as a mistake.
const MAX_TRIALS: usize = 10_000;

/// Maximum length of one axis value, in bytes.
const MAX_VALUE_BYTES: usize = 4096;

/// Maximum length in bytes of a text after its axes have been replaced by their values. Case files have the same limit.
const MAX_TEXT_BYTES: usize = 4 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
    /// Value that the ids of trials omit. An axis with such a value can be added to a case without changing the ids of
    /// the existing trials.
    pub(crate) default: Option<String>,
    /// Position of the name.
    pub(crate) at: SourceSpan,
}

/// A trial of a case: one value for each axis of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Axes and their values, in the order of the matrix. All trials of a case share the strings.
    pub values: Vec<(Arc<str>, Arc<str>)>,
    shown: Vec<bool>,
}

impl Trial {
    /// Returns the trial's value on an axis; `None` if the case has no such axis.
    pub fn value(&self, axis: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| **name == *axis).map(|(_, value)| &**value)
    }

    /// Returns a copy of the trial with another value on one axis; `None` if the axis does not exist. The value need
    /// not be in the matrix, because a search also tries values between those of the matrix.
    pub fn with(&self, axis: &str, value: &str) -> Option<Trial> {
        let at = self.values.iter().position(|(name, _)| **name == *axis)?;
        let mut trial = self.clone();
        trial.values[at].1 = value.into();
        trial.shown[at] = true;
        Some(trial)
    }
}

impl fmt::Display for Trial {
    /// Formats the values as `[bytes=2,host=pageable]`. A case without a matrix results in an empty text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self
            .values
            .iter()
            .zip(&self.shown)
            .filter(|(_, shown)| **shown)
            .map(|((axis, value), _)| format!("{axis}={value}"))
            .collect();
        if shown.is_empty() { Ok(()) } else { write!(f, "[{}]", shown.join(",")) }
    }
}

/// A selection of trials. A trial is selected if, for each named axis, its value is one of the listed values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector(pub BTreeMap<String, Vec<String>>);

impl Selector {
    /// Returns true if the trial is selected.
    pub fn matches(&self, trial: &Trial) -> bool {
        self.0
            .iter()
            .all(|(axis, values)| trial.value(axis).is_some_and(|v| values.iter().any(|w| w == v)))
    }
}

/// The axes of a case, and the selections of trials that the case excludes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matrix {
    /// Axes in the order of the file. An axis without values is kept, so that only its declaration is reported as a
    /// mistake and not each use of the axis.
    pub(crate) axes: Vec<Axis>,
    exclude: Vec<Selector>,
    pub(crate) unknown_axes: bool,
    /// True if `exclude` is empty because its value in the case has a mistake. Some of the trials may then be meant to
    /// be excluded.
    pub(crate) unknown_trials: bool,
}

impl Matrix {
    pub(crate) fn trials(&self) -> Vec<Trial> {
        expand(&self.axes, &self.exclude)
    }

    /// Returns true if a name after a `$` may belong to an axis. If the declared name of an axis is invalid, its first
    /// valid characters suffice: a text can refer to the axis `my-axis` only as `$my`, because a name after a `$` ends
    /// before a dash.
    pub(crate) fn may_have(&self, axis: &str) -> bool {
        let start = |name: &str| name.find(|c| !in_name(c)).unwrap_or(name.len());
        self.unknown_axes
            || self.axes.iter().any(|a| a.name == axis || a.name[..start(&a.name)] == *axis)
    }
}

pub(crate) fn read_matrix(
    reader: &mut Reader,
    axes: Option<&Node>,
    exclude: Option<&Node>,
) -> Matrix {
    let mut matrix = Matrix::default();
    if let Some(node) = axes {
        read_axes(reader, node, &mut matrix);
    }
    let Some(node) = exclude else { return matrix };
    let before = reader.mistakes.len();
    for item in reader.list(node) {
        let selector = read_selector(reader, item, &matrix);
        matrix.exclude.push(selector);
    }
    let readable = reader.mistakes.len() == before
        && !matrix.unknown_axes
        && matrix.axes.iter().all(|axis| !axis.values.is_empty());
    if !readable {
        // If the exclusions cannot be read, every combination of values is checked.
        matrix.exclude.clear();
        matrix.unknown_trials = true;
    } else if matrix.trials().is_empty() {
        reader.mistake(node.at, "`exclude` leaves no trial");
        matrix.exclude.clear();
        matrix.unknown_trials = true;
    }
    matrix
}

fn read_axes(reader: &mut Reader, node: &Node, matrix: &mut Matrix) {
    let Some(entries) = reader.entries(node, "`matrix`") else {
        matrix.unknown_axes = true;
        return;
    };
    let axes = &mut matrix.axes;
    for (key, value) in entries {
        let what = format!("axis `{}`", key.text);
        if ["exclude", "include"].contains(&key.text.as_str()) {
            let help = match key.text.as_str() {
                "exclude" => "`exclude` is written next to `matrix`, not in it",
                _ => {
                    "add the values to the axes, and leave combinations out by `exclude`, next to `matrix`"
                }
            };
            let message = format!("`{}` is not an axis", key.text);
            reader.mistake_with_help(key.at, message, Some(help.to_owned()));
            continue;
        }
        if key.text.is_empty() || !key.text.chars().all(in_name) {
            reader.mistake(key.at, "the name of an axis has only letters, digits and `_`");
        }
        let (values, default) = match &value.value {
            Value::Map(_) => {
                let Some(fields) = reader.fields(value, &what, &["default", "values"]) else {
                    continue;
                };
                let values =
                    reader.required(&fields, &what, "values").map(|n| reader.texts(n, &what));
                let default = reader
                    .required(&fields, &what, "default")
                    .and_then(|n| reader.text(n, &what).map(|t| (n.at, t.to_owned())));
                if let (Some((at, default)), Some(values)) = (&default, &values)
                    && !values.contains(default)
                {
                    reader
                        .mistake(*at, format!("the default `{default}` must be one of the values"));
                }
                (values, default.map(|(_, d)| d))
            }
            Value::List(_) | Value::Scalar(_) => (Some(reader.texts(value, &what)), None),
        };
        let values = values.unwrap_or_default();
        let mut before = HashSet::new();
        for v in &values {
            if is_range(v) {
                let help = Some("list the values, such as `[1, 2, 64]`".to_owned());
                reader.mistake_with_help(value.at, format!("{what} cannot contain a range"), help);
            }
            if !before.insert(v) {
                reader.mistake(value.at, format!("{what} has `{v}` twice"));
            }
            if v.len() > MAX_VALUE_BYTES {
                let what = format!(
                    "{what} has a value of {} bytes; a value has at most {MAX_VALUE_BYTES}",
                    v.len()
                );
                reader.mistake(value.at, what);
            }
            if v.contains(plan::affects_display) {
                let what = format!(
                    "value `{}` must not have control or invisible characters",
                    v.escape_default()
                );
                reader.mistake(value.at, what);
            }
            if v.contains([',', '[', ']', '=']) {
                let help = (!v.contains(['[', ']', '=']))
                    .then(|| format!("several values are a list: `{}: [{v}]`", key.text));
                let message = format!(
                    "value `{v}` must not have any of `, [ ] =`, which separate the parts of trial ids"
                );
                reader.mistake_with_help(value.at, message, help);
            }
        }
        axes.push(Axis { name: key.text.clone(), values, default, at: key.at });
    }
    if too_many(axes) {
        reader.mistake(node.at, format!("the matrix has more than {MAX_TRIALS} trials"));
    }
}

/// Returns true for a text such as `1..64`, by which other languages denote a range of numbers.
fn is_range(value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    value.split_once("..").is_some_and(|(from, to)| is_number(from) && is_number(to))
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn too_many(axes: &[Axis]) -> bool {
    let trials = axes.iter().try_fold(1_usize, |n, axis| n.checked_mul(axis.values.len()));
    trials.is_none_or(|n| n > MAX_TRIALS)
}

/// Reads a mapping of axes to one value or a list of values. Unknown axes are reported and left out.
pub(crate) fn read_selector(reader: &mut Reader, node: &Node, matrix: &Matrix) -> Selector {
    let axes = &matrix.axes;
    let mut selector = Selector::default();
    let Some(entries) = reader.entries(node, "a selection of trials") else { return selector };
    for (key, value) in entries {
        let Some(axis) = axes.iter().find(|a| a.name == key.text) else {
            if matrix.unknown_axes {
                continue;
            }
            let help = suggest(&key.text, axes.iter().map(|a| a.name.as_str()));
            reader.mistake_with_help(
                key.at,
                format!("the matrix has no axis `{}`", key.text),
                help,
            );
            continue;
        };
        let values = reader.texts(value, &format!("`{}`", key.text));
        if axis.values.is_empty() {
            continue;
        }
        let known: HashSet<&String> = axis.values.iter().collect();
        for v in &values {
            if !known.contains(v) {
                let help = suggest(v, axis.values.iter().map(String::as_str));
                reader.mistake_with_help(
                    value.at,
                    format!("axis `{}` has no value `{v}`", axis.name),
                    help,
                );
            }
        }
        selector.0.insert(key.text.clone(), values);
    }
    selector
}

/// Returns all combinations of axis values except the excluded ones. The last axis changes fastest. If there are too
/// many combinations, returns only one.
fn expand(axes: &[Axis], exclude: &[Selector]) -> Vec<Trial> {
    let most = if too_many(axes) { 1 } else { usize::MAX };
    let mut trials = vec![Trial { values: Vec::new(), shown: Vec::new() }];
    for axis in axes.iter().filter(|axis| !axis.values.is_empty()) {
        let name: Arc<str> = axis.name.as_str().into();
        let with_shown =
            |value: &String| (value.as_str().into(), axis.default.as_ref() != Some(value));
        let values: Vec<(Arc<str>, bool)> = axis.values.iter().take(most).map(with_shown).collect();
        trials = trials
            .iter()
            .flat_map(|trial| {
                values.iter().map(|(value, shown)| Trial {
                    values: [&trial.values[..], &[(name.clone(), value.clone())]].concat(),
                    shown: [&trial.shown[..], &[*shown]].concat(),
                })
            })
            .collect();
    }
    trials.retain(|trial| !exclude.iter().any(|e| e.matches(trial)));
    trials
}

/// A `$name` that cannot be replaced by a value.
pub(crate) struct BadSubstitution {
    /// Position of the text that contains the `$name`.
    pub(crate) at: SourceSpan,
    /// Position of the `$name`.
    place: SourceSpan,
    /// Axis for which the trial has no value; `None` if the mistake is that the text is longer than [`MAX_TEXT_BYTES`].
    axis: Option<String>,
}

impl BadSubstitution {
    pub(crate) fn mistake(&self, trial: &Trial, matrix: &Matrix) -> Option<Diagnostic> {
        let Some(axis) = &self.axis else {
            let message = format!(
                "with the values of its axes, the text has more than {} MiB",
                MAX_TEXT_BYTES >> 20
            );
            return Some(Diagnostic { at: self.place, message, help: None });
        };
        (!matrix.may_have(axis)).then(|| Diagnostic {
            at: self.place,
            message: match axis.as_str() {
                "" => "`$` must be followed by the name of an axis".to_owned(),
                axis => format!("the matrix has no axis `{axis}`"),
            },
            help: Some(hint_for_name(axis, trial)),
        })
    }
}

/// Returns a hint for a name after a `$` that is not an axis: an environment variable, the index of a loop, or a
/// misspelt axis.
fn hint_for_name(name: &str, trial: &Trial) -> String {
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
        return format!(
            "variables of the environment are not expanded in a case; in a text, a dollar sign is written as `$$`: `$${name}`"
        );
    }
    if ["i", "j", "k", "index", "iteration"].contains(&name) {
        return "`repeat` has no index; `for_each` repeats the steps with a different value each time"
            .to_owned();
    }
    let axes = trial.values.iter().map(|(axis, _)| &**axis);
    suggest(name, axes).unwrap_or_else(|| "a dollar sign in a text is written as `$$`".to_owned())
}

/// Replaces `$axis` and `${axis}` in every text of the tree. Names that the trial has no value for are added to
/// `missing`.
pub(crate) fn substitute(node: &Node, trial: &Trial, missing: &mut Vec<BadSubstitution>) -> Node {
    let value = match &node.value {
        Value::Scalar(text) => Value::Scalar(substitute_text(text, node, trial, missing)),
        Value::List(items) => {
            Value::List(items.iter().map(|n| substitute(n, trial, missing)).collect())
        }
        Value::Map(entries) => Value::Map(
            entries.iter().map(|(k, n)| (k.clone(), substitute(n, trial, missing))).collect(),
        ),
    };
    Node { at: node.at, value }
}

/// Returns the position of `$name`, which starts at the byte `start` of a text. For a text of a single line, returns
/// the position of the whole text, because quotation marks and escapes move its parts.
fn within(whole: SourceSpan, text: &str, start: usize, name: &str) -> SourceSpan {
    let before = &text[..start];
    if !text.trim_end().contains('\n') {
        return whole;
    }
    let in_line = before.rsplit('\n').next().unwrap_or_default();
    SourceSpan {
        line: whole.line + before.matches('\n').count() as u32,
        column: whole.column + in_line.chars().count() as u32,
        length: name.chars().count() as u32 + 1,
    }
}

/// Replaces the axes in a text by the values of the trial.
///
/// # Errors
/// Returns the first name for which the trial has no value; an empty name if the text becomes too long.
pub(crate) fn substituted(text: &str, trial: &Trial) -> Result<String, String> {
    let node = Node { at: SourceSpan::default(), value: Value::Scalar(String::new()) };
    let mut missing = Vec::new();
    let text = substitute_text(text, &node, trial, &mut missing);
    missing.into_iter().next().map_or(Ok(text), |missing| Err(missing.axis.unwrap_or_default()))
}

fn substitute_text(
    text: &str,
    node: &Node,
    trial: &Trial,
    missing: &mut Vec<BadSubstitution>,
) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(i) = rest.find('$') {
        let start = text.len() - rest.len() + i;
        out.push_str(&rest[..i]);
        rest = &rest[i + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let braced = rest.strip_prefix('{').and_then(|r| r.split_once('}'));
        let (name, after) = braced.unwrap_or_else(|| {
            let end = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
            rest.split_at(end)
        });
        rest = after;
        match trial.value(name) {
            Some(value) => out.push_str(value),
            None => {
                let place = within(node.at, text, start, name);
                missing.push(BadSubstitution { at: node.at, place, axis: Some(name.to_owned()) });
            }
        }
        if out.len() > MAX_TEXT_BYTES {
            missing.push(BadSubstitution { at: node.at, place: node.at, axis: None });
            return String::new();
        }
    }
    out + rest
}
