//! Expands `for_each`, which repeats a list of steps once for each row of a table. The expansion happens before the
//! values of the matrix are substituted, so other readers of steps never see a `for_each`.
//!
//! | text in the steps | replacement |
//! | --- | --- |
//! | `$column` | the cell of the row, or the cell in `default` |
//! | `${column.axis}` | if the cell maps the values of this axis to entries: the entry for the trial's value |
//! | `$axis` | if no column has this name: the value of the axis, as outside of `for_each` |
//!
//! A row may name a kind with the key `is`. A cell is looked up in the row, then in the row's kind, then in `default`.
//! If a text is only `$column`, the cell may also be a list or a mapping. If `$column` is an item of a list and the
//! cell is a list, the item is replaced by all items of the cell.

use std::{borrow::Cow, collections::BTreeSet};

use crate::{
    SourceSpan, Trial,
    diagnostic::suggest,
    matrix::{Matrix, read_selector},
    read::Reader,
    yaml::{Key, Node, Value},
};

/// Maximum number of steps of a case after expansion. A table that results in more steps is reported as a mistake.
const MAX_STEPS: usize = 100_000;

/// Keyword `for_each`. The crate `plan` does not list it as a verb, because `for_each` is expanded before steps are
/// converted to calls.
pub(crate) const WORD: &str = "for_each";

const KEYS: &[&str] = &["rows", "kinds", "default", "steps"];

/// Keys of a row that are not columns: `when` selects the trials that use the row, and `is` names its kind.
const ROW_KEYS: &[&str] = &["when", "is"];

/// Returns the case with each `for_each` expanded, and the positions of names in the steps for which a row has no cell.
/// The missing cells have been reported, so the caller ignores other mistakes at these positions.
pub(crate) fn expand<'n>(
    reader: &mut Reader,
    root: &'n Node,
    trial: &Trial,
    matrix: &Matrix,
) -> (Cow<'n, Node>, Vec<SourceSpan>) {
    let as_it_is = || (Cow::Borrowed(root), Vec::new());
    let Value::Map(entries) = &root.value else { return as_it_is() };
    let steps = |key: &Key| key.text == "steps";
    if !entries.iter().any(|(key, node)| steps(key) && has(node)) {
        return as_it_is();
    }
    let mut made = Expansion { reader, trial, matrix, steps: 0, open: Vec::new() };
    let entries = entries.iter().map(|(key, node)| {
        let node = if steps(key) { made.inside(node) } else { node.clone() };
        (key.clone(), node)
    });
    let value = Value::Map(entries.collect());
    (Cow::Owned(Node { at: root.at, value }), made.open)
}

fn has(node: &Node) -> bool {
    match &node.value {
        Value::Scalar(_) => false,
        Value::List(items) => items.iter().any(has),
        Value::Map(entries) => entries.iter().any(|(key, node)| key.text == WORD || has(node)),
    }
}

struct Expansion<'e> {
    reader: &'e mut Reader,
    trial: &'e Trial,
    matrix: &'e Matrix,
    /// Number of steps that expansion has produced so far.
    steps: usize,
    /// Positions of names in the steps for which a row has no cell. Other mistakes at these positions are ignored.
    open: Vec<SourceSpan>,
}

/// Cells by the names of their columns.
type Cells<'n> = &'n [(Key, Node)];

/// A row with its cells, the cells of its kind, and the default cells.
struct Row<'n> {
    at: SourceSpan,
    own: Cells<'n>,
    kind: Cells<'n>,
    default: Cells<'n>,
}

impl<'n> Row<'n> {
    fn cell(&self, column: &str) -> Option<&'n Node> {
        let mut cells = self.cells();
        cells.find(|(key, _)| key.text == column).map(|(_, node)| node)
    }

    /// Returns the cells of the row, then those of its kind, then the default cells. If several cells have the same
    /// name, the first one applies.
    fn cells(&self) -> impl Iterator<Item = &'n (Key, Node)> + Clone + use<'n> {
        self.own.iter().chain(self.kind).chain(self.default)
    }
}

impl Expansion<'_> {
    fn inside(&mut self, node: &Node) -> Node {
        let value = match &node.value {
            Value::Scalar(_) => return node.clone(),
            Value::List(items) => {
                Value::List(items.iter().flat_map(|item| self.item(item)).collect())
            }
            Value::Map(entries) => {
                let inside = |(key, node): &(Key, Node)| (key.clone(), self.inside(node));
                Value::Map(entries.iter().map(inside).collect())
            }
        };
        Node { at: node.at, value }
    }

    /// Expands an item of a list: a `for_each` becomes the steps of its rows, and other items remain one item.
    fn item(&mut self, node: &Node) -> Vec<Node> {
        let Value::Map(entries) = &node.value else { return vec![self.inside(node)] };
        let Some((_, table)) = entries.iter().find(|(key, _)| key.text == WORD) else {
            return vec![self.inside(node)];
        };
        if let Some((key, _)) = entries.iter().find(|(key, _)| key.text != WORD) {
            let message =
                format!("`{WORD}` cannot have another key next to it; put `when` into its rows");
            self.reader.mistake(key.at, message);
        }
        self.rows(table).unwrap_or_default()
    }

    fn rows(&mut self, table: &Node) -> Option<Vec<Node>> {
        let what = format!("`{WORD}`");
        let fields = self.reader.fields(table, &what, KEYS)?;
        let rows = self.reader.required(&fields, &what, "rows");
        let steps = self.reader.required(&fields, &what, "steps");
        let default = match fields.get("default") {
            Some(node) => self.reader.entries(node, "`default`")?,
            None => &[],
        };
        let kinds = match fields.get("kinds") {
            Some(node) => self.kinds(node)?,
            None => Vec::new(),
        };
        let (rows, steps) = (rows?, steps?);
        let Value::List(rows) = &rows.value else {
            self.reader.mistake(rows.at, "`rows` must be a list of mappings");
            return None;
        };
        if has(steps) {
            self.reader.mistake(steps.at, "a `for_each` cannot contain another `for_each`");
            return None;
        }
        let mut used = BTreeSet::new();
        columns(steps, &mut used);
        let of_kinds = kinds.iter().flat_map(|(_, cells)| *cells);
        let mut unused: Vec<_> = default.iter().chain(of_kinds).map(|(key, _)| key).collect();
        let mut made = Vec::new();
        for node in rows {
            let Some(own) = self.reader.entries(node, "a row") else { continue };
            unused.extend(own.iter().map(|(key, _)| key));
            let mut row = Row { at: node.at, own, kind: &[], default };
            if let Some(node) = row.cell("is") {
                let Some(name) = self.reader.text(node, "`is`") else { continue };
                let Some((_, cells)) = kinds.iter().find(|(kind, _)| kind.text == name) else {
                    let known = kinds.iter().map(|(kind, _)| kind.text.as_str());
                    let message = format!("unknown kind `{name}` of rows");
                    self.reader.mistake_with_help(node.at, message, suggest(name, known));
                    continue;
                };
                row.kind = cells;
            }
            if let Some(when) = row.cell("when")
                && !read_selector(self.reader, when, self.matrix).matches(self.trial)
            {
                continue;
            }
            for step in self.reader.list(steps) {
                let steps = self.instances(step, &row);
                self.steps += steps.len();
                if self.steps > MAX_STEPS {
                    let message = format!("this makes more than {MAX_STEPS} steps of the case");
                    self.reader.mistake(table.at, message);
                    // The steps expanded so far are returned, because an empty list of steps would be reported as a
                    // second mistake.
                    return Some(made);
                }
                made.extend(steps);
            }
        }
        let said = |key: &str| used.contains(key) || ROW_KEYS.contains(&key);
        for key in unused.into_iter().filter(|key| !said(&key.text)) {
            let message = format!("no step of this `{WORD}` uses `${}`", key.text);
            let help = suggest(&key.text, used.iter().copied());
            self.reader.mistake_with_help(key.at, message, help);
        }
        Some(made)
    }

    fn kinds<'n>(&mut self, node: &'n Node) -> Option<Vec<(&'n Key, Cells<'n>)>> {
        let kinds = self.reader.entries(node, "`kinds`")?;
        let cells =
            kinds.iter().map(|(key, node)| Some((key, self.reader.entries(node, "a kind")?)));
        cells.collect()
    }

    /// Returns copies of a node in which `$column` is replaced by the row's cell of that column: one copy, or several
    /// if the node is an item of a list and the cell is a list.
    fn instances(&mut self, node: &Node, row: &Row<'_>) -> Vec<Node> {
        let Value::Scalar(text) = &node.value else { return vec![self.instance(node, row)] };
        match self.whole(text, node.at, row) {
            Some(Node { value: Value::List(items), .. }) => items,
            Some(other) => vec![other],
            None => vec![self.instance(node, row)],
        }
    }

    fn instance(&mut self, node: &Node, row: &Row<'_>) -> Node {
        let mut at = node.at;
        let value = match &node.value {
            Value::Scalar(text) => match self.whole(text, node.at, row) {
                Some(cell) => return cell,
                None => Value::Scalar(self.text(text, node.at, row)),
            },
            Value::List(items) => {
                Value::List(items.iter().flat_map(|item| self.instances(item, row)).collect())
            }
            Value::Map(entries) => {
                let inside = |(key, node): &(Key, Node)| {
                    let text = self.text(&key.text, key.at, row);
                    (Key { at: key.at, text }, self.instance(node, row))
                };
                // Mistakes in the expanded mapping are reported at the row, because all rows share the text of the
                // steps.
                at = row.at;
                Value::Map(entries.iter().map(inside).collect())
            }
        };
        Node { at, value }
    }

    /// If the whole text is a single `$column`, returns the cell of that column, else `None`.
    fn whole(&mut self, text: &str, at: SourceSpan, row: &Row<'_>) -> Option<Node> {
        let mut parts = parts(text);
        match (parts.next(), parts.next()) {
            (Some(TextPart::Name(name)), None) => self.cell(name, at, row),
            _ => None,
        }
    }

    fn text(&mut self, text: &str, at: SourceSpan, row: &Row<'_>) -> String {
        let mut out = String::new();
        for part in parts(text) {
            let name = match part {
                TextPart::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                TextPart::Name(name) => name,
            };
            match self.cell(name, at, row) {
                Some(Node { value: Value::Scalar(text), .. }) => out.push_str(&text),
                Some(cell) => {
                    let message =
                        format!("`${name}` is used inside a text, so its value must be text");
                    self.reader.mistake(cell.at, message);
                }
                // The name belongs to an axis, whose value is substituted later.
                None => {
                    out.push_str("${");
                    out.push_str(name);
                    out.push('}');
                }
            }
        }
        out
    }

    /// Returns the cell for a name in the steps, which is a column, or a column followed by axes as in `column.axis`.
    /// Returns `None` if the name is not a column but an axis. If it is neither, reports a mistake and returns an empty
    /// list.
    fn cell(&mut self, name: &str, at: SourceSpan, row: &Row<'_>) -> Option<Node> {
        let mut axes = name.split('.');
        let column = axes.next()?;
        let Some(mut cell) = row.cell(column) else {
            if !self.matrix.may_have(name) {
                let known = row.cells().map(|(key, _)| key.text.as_str());
                let message = format!("the row has no `{column}`, which the steps use");
                self.reader.mistake_with_help(row.at, message, suggest(column, known));
                self.open.push(at);
                return Some(Node { at, value: Value::List(Vec::new()) });
            }
            return None;
        };
        for name in axes {
            let Some(axis) = self.matrix.axes.iter().find(|axis| axis.name == name) else {
                if !self.matrix.unknown_axes {
                    let known = self.matrix.axes.iter().map(|axis| axis.name.as_str());
                    let message = format!("the matrix has no axis `{name}`");
                    self.reader.mistake_with_help(at, message, suggest(name, known));
                }
                break;
            };
            let Value::Map(entries) = &cell.value else { continue };
            let of_axis = |key: &Key| axis.values.contains(&key.text);
            if !entries.iter().any(|(key, _)| of_axis(key)) {
                continue;
            }
            for (key, _) in entries.iter().filter(|(key, _)| !of_axis(key)) {
                let message = format!("axis `{name}` has no value `{}`", key.text);
                let help = suggest(&key.text, axis.values.iter().map(String::as_str));
                self.reader.mistake_with_help(key.at, message, help);
            }
            let value = self.trial.value(name).unwrap_or_default();
            match entries.iter().find(|(key, _)| key.text == value) {
                Some((_, node)) => cell = node,
                None => {
                    let message =
                        format!("`{column}` has no entry for the value `{value}` of axis `{name}`");
                    self.reader.mistake(cell.at, message);
                    break;
                }
            }
        }
        Some(cell.clone())
    }
}

enum TextPart<'t> {
    Text(&'t str),
    /// Name that follows a `$` in the text.
    Name(&'t str),
}

/// Splits a text into literal parts and names. `$$` stays unchanged in a literal part, because the substitution of axes
/// replaces it later.
fn parts(text: &str) -> impl Iterator<Item = TextPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = match rest.strip_prefix('$') {
            Some(after) if after.starts_with('$') => (TextPart::Text(&rest[..2]), &after[1..]),
            Some(after) => {
                let braced = after.strip_prefix('{').and_then(|text| text.split_once('}'));
                let (name, after) = braced.unwrap_or_else(|| {
                    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    after.split_at(after.find(|c| !letter(c)).unwrap_or(after.len()))
                });
                (TextPart::Name(name), after)
            }
            None => {
                let (text, after) = rest.split_at(rest.find('$').unwrap_or(rest.len()));
                (TextPart::Text(text), after)
            }
        };
        rest = after;
        Some(part)
    })
}

/// Collects the names of columns and axes that the steps contain.
fn columns<'n>(node: &'n Node, found: &mut BTreeSet<&'n str>) {
    fn columns_of_text<'n>(text: &'n str, found: &mut BTreeSet<&'n str>) {
        found.extend(parts(text).filter_map(|part| match part {
            TextPart::Name(name) => name.split('.').next(),
            TextPart::Text(_) => None,
        }));
    }
    match &node.value {
        Value::Scalar(text) => columns_of_text(text, found),
        Value::List(items) => items.iter().for_each(|item| columns(item, found)),
        Value::Map(entries) => {
            for (key, node) in entries {
                columns_of_text(&key.text, found);
                columns(node, found);
            }
        }
    }
}
