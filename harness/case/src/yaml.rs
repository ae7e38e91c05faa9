//! Parses YAML into a tree that contains the position of each node.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::{Diagnostic, SourceSpan, case_keys::KEYS};

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: SourceSpan,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) at: SourceSpan,
    pub(crate) text: String,
}

fn at(span: Span) -> SourceSpan {
    let (start, end) = (span.start, span.end);
    let length = if end.line() == start.line() { end.col().saturating_sub(start.col()) } else { 1 };
    SourceSpan {
        line: start.line() as u32,
        column: start.col() as u32 + 1,
        length: (length as u32).max(1),
    }
}

/// Parses one YAML document. Returns `None` and adds to `mistakes` if the text is not YAML, or uses features of YAML
/// that cases may not use.
pub(crate) fn parse(text: &str, mistakes: &mut Vec<Diagnostic>) -> Option<Node> {
    let parser = Parser::new_from_str(text);
    let mut events = Events { parser, mistakes, items: Vec::new(), entries: Vec::new() };
    let read = events.document();
    if let Some(mistake) = indented_by_other_spaces(text) {
        mistakes.push(mistake);
        return None;
    }
    match read {
        Ok(root) => Some(root),
        Err(mistake) => {
            let cut = list_cut_by_a_comment(text, mistake.at);
            mistakes.push(cut.unwrap_or_else(|| with_quotes(text, mistake)));
            None
        }
    }
}

/// Reports an indentation with a space character other than the ASCII space, for example a non-breaking space from a
/// web page. YAML reads such a character as part of a word.
fn indented_by_other_spaces(text: &str) -> Option<Diagnostic> {
    let (line, column, found) = text.lines().enumerate().find_map(|(line, text)| {
        let indent = text.chars().take_while(|c| c.is_whitespace());
        let (column, found) = indent.enumerate().find(|(_, c)| !matches!(c, ' ' | '\t' | '\r'))?;
        Some((line, column, found))
    })?;
    Some(Diagnostic {
        at: SourceSpan { line: line as u32 + 1, column: column as u32 + 1, length: 1 },
        message: format!("this space is not the ASCII space, but U+{:04X}", u32::from(found)),
        help: Some(
            "YAML indents only with ASCII spaces; other spaces often come from a web page"
                .to_owned(),
        ),
    })
}

/// Returns a hint for an error message of the YAML parser.
fn explain_parser_message(message: &str) -> Option<&'static str> {
    if message.contains("tabs") {
        return Some("indent with spaces, not with tabs");
    }
    let comment = "a `#` begins a comment; an issue is written `ROCm/hip#13`, and other text with `#` in quotes";
    message.contains("comments must be separated").then_some(comment)
}

/// Returns a hint for one of three errors: an axis in braces, a key of the case that does not begin in the first
/// column, or a program that is not indented.
fn misplaced_text(text: &str, line: &str, at: SourceSpan) -> Option<String> {
    let before = text.lines().take(at.line.saturating_sub(1) as usize);
    let last = before.filter(|line| !line.trim().is_empty()).last().unwrap_or_default();
    for line in [line, last] {
        if let Some((_, axis)) = line.split_once(": ${")
            && let Some((axis, _)) = axis.split_once('}')
        {
            let axis = axis.trim_start_matches(['{', ' ']).split([' ', '}']).next().unwrap_or(axis);
            let axis = axis.rsplit('.').next().unwrap_or(axis);
            return Some(format!("the value of an axis is written without braces: `${axis}`"));
        }
    }
    let is_block = |line: &str| {
        let line = line.trim();
        ["cpp: |", "python: |", "source: |"].iter().any(|begin| line.ends_with(begin))
    };
    // The program that follows may have empty lines, and its first line may look like YAML.
    let mut lines = text.lines().take(at.line as usize).skip_while(|line| !is_block(line));
    if let Some(block) = lines.next() {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let first = lines.find(|line| !line.trim().is_empty());
        if first.is_some_and(|first| indent(first) <= indent(block)) {
            return Some(format!("indent the text below `{}` more than that line", block.trim()));
        }
    }
    let key = line.trim_start().split_once(':').map(|(key, _)| key)?;
    (line.starts_with(' ') && KEYS.contains(&key))
        .then(|| format!("`{key}` is a key of the case: begin it in the first column"))
}

/// Length of the longest value that a hint repeats, in characters.
const MAX_QUOTED: usize = 60;

/// Adds a hint to a mistake of the YAML parser if its cause can be guessed: misplaced text, or a value that must be in
/// quotes.
fn with_quotes(text: &str, mut mistake: Diagnostic) -> Diagnostic {
    let line = text.lines().nth(mistake.at.line.saturating_sub(1) as usize).unwrap_or_default();
    if let Some(help) = misplaced_text(text, line, mistake.at) {
        mistake.help = Some(help);
        return mistake;
    }
    let Some((key, value)) = line.split_once(": ") else { return mistake };
    let value = value.trim();
    if !mistake.message.starts_with("not YAML") || value.chars().count() > MAX_QUOTED {
        return mistake;
    }
    let begins_a_block = value.starts_with(['>', '|']) && value.len() > 2;
    if begins_a_block || value.contains(": ") && !value.starts_with(['{', '[']) {
        mistake.help = Some(format!("put the text in quotes: `{}: \"{value}\"`", key.trim()));
    }
    mistake
}

/// Returns a mistake at a ` #` that cuts off a list or mapping in brackets at or before `failed`, the position at which
/// the parser failed. The ` #` begins a comment, so the closing bracket is not read.
fn list_cut_by_a_comment(text: &str, failed: SourceSpan) -> Option<Diagnostic> {
    let lines = text.lines().enumerate().take(failed.line as usize);
    let cut = lines.filter_map(|(line, text)| {
        let (before, after) = text.split_once(" #")?;
        let opened = before.matches(['[', '{']).count();
        let is_open = opened > before.matches([']', '}']).count() && after.contains([']', '}']);
        is_open.then_some((line, before.chars().count() + 1))
    });
    let (line, column) = cut.last()?;
    Some(Diagnostic {
        at: SourceSpan { line: line as u32 + 1, column: column as u32 + 1, length: 1 },
        message: "` #` begins a comment, so the closing bracket after it is not read".to_owned(),
        help: Some(
            "an issue is written without a space, `ROCm/hip#13`; other text with ` #` needs quotes"
                .to_owned(),
        ),
    })
}

struct Events<'a, 'm> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    mistakes: &'m mut Vec<Diagnostic>,
    /// Items of all lists whose end has not been reached. Items of an inner list follow those of the outer list. When a
    /// list ends, its items are moved into a `Vec` of exactly the right capacity.
    items: Vec<Node>,
    /// Entries of all mappings whose end has not been reached, stored like `items`.
    entries: Vec<(Key, Node)>,
}

/// Maximum nesting depth of lists and mappings. It limits the recursion on malicious input; no real case comes near it.
const MAX_DEPTH: u32 = 64;

impl<'a> Events<'a, '_> {
    fn next(&mut self) -> Result<(Event<'a>, SourceSpan), Diagnostic> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((event, at(span))),
            Some(Err(error)) => {
                let marker = error.marker();
                Err(Diagnostic {
                    at: SourceSpan {
                        line: marker.line() as u32,
                        column: marker.col() as u32 + 1,
                        length: 1,
                    },
                    message: format!("not YAML: {}", error.info()),
                    help: explain_parser_message(error.info()).map(str::to_owned),
                })
            }
            None => Err(Diagnostic {
                at: SourceSpan { line: 1, column: 1, length: 1 },
                message: "the file ends early".into(),
                help: None,
            }),
        }
    }

    fn document(&mut self) -> Result<Node, Diagnostic> {
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => {
                    return Err(Diagnostic {
                        at: SourceSpan { line: 1, column: 1, length: 1 },
                        message: "the file is empty".into(),
                        help: Some("a case needs at least `title` and `steps`".into()),
                    });
                }
                event => {
                    let root = self.node(event, at, 0)?;
                    self.only_document()?;
                    return Ok(root);
                }
            }
        }
    }

    fn only_document(&mut self) -> Result<(), Diagnostic> {
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(()),
                Event::DocumentStart(_) => {
                    return Err(Diagnostic {
                        at,
                        message: "a second YAML document".into(),
                        help: Some("one file is one case".into()),
                    });
                }
                _ => {}
            }
        }
    }

    fn node(
        &mut self,
        event: Event<'a>,
        place: SourceSpan,
        depth: u32,
    ) -> Result<Node, Diagnostic> {
        let fail = |message: &str| Diagnostic { at: place, message: message.into(), help: None };
        if depth > MAX_DEPTH {
            return Err(fail("nested too deeply"));
        }
        match event {
            Event::Scalar(text, ..) => {
                Ok(Node { at: place, value: Value::Scalar(text.into_owned()) })
            }
            Event::SequenceStart(..) => {
                let first = self.items.len();
                loop {
                    let (event, at) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        let items = self.items.drain(first..).collect();
                        return Ok(Node { at: place, value: Value::List(items) });
                    }
                    let item = self.node(event, at, depth + 1)?;
                    self.items.push(item);
                }
            }
            Event::MappingStart(..) => {
                let first = self.entries.len();
                let read = self.entries(depth);
                let entries: Vec<_> = self.entries.drain(first..).collect();
                self.report_duplicate_keys(&entries);
                read.map(|()| Node { at: place, value: Value::Map(entries) })
            }
            Event::Alias(_) => Err(fail("aliases are not used in cases")),
            _ => Err(fail("unexpected YAML")),
        }
    }

    /// Reads the entries of a mapping up to its end. The caller has read the beginning of the mapping.
    fn entries(&mut self, depth: u32) -> Result<(), Diagnostic> {
        loop {
            let (event, at) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(());
            }
            let Event::Scalar(text, ..) = event else {
                return Err(Diagnostic {
                    at,
                    message: "a key must be plain text".into(),
                    help: None,
                });
            };
            let key = Key { at, text: text.into_owned() };
            if let Some(Ok((Event::Scalar(_, ScalarStyle::Folded, ..), span))) = self.parser.peek()
                && ["cpp", "python", "source"].contains(&key.text.as_str())
            {
                let place = crate::yaml::at(*span);
                self.mistakes.push(Diagnostic {
                    at: SourceSpan { length: 1, ..place },
                    message: format!("`>` joins the lines of `{}`", key.text),
                    help: Some(format!("write `{}: |`", key.text)),
                });
            }
            let read = self.next().and_then(|(event, at)| self.node(event, at, depth + 1));
            // A duplicate key is reported even if the text after it is not YAML.
            let nothing = Node { at: key.at, value: Value::Scalar(String::new()) };
            let (value, end) =
                read.map_or_else(|error| (nothing, Err(error)), |node| (node, Ok(())));
            self.entries.push((key, value));
            end?;
        }
    }

    fn report_duplicate_keys(&mut self, entries: &[(Key, Node)]) {
        let mut keys: Vec<&Key> = entries.iter().map(|(key, _)| key).collect();
        keys.sort_by(|a, b| a.text.cmp(&b.text));
        for same in keys.chunk_by(|a, b| a.text == b.text) {
            let (first, others) = (same[0].at.line, &same[1..]);
            self.mistakes.extend(others.iter().map(|key| Diagnostic {
                at: key.at,
                message: format!("`{}` is given twice", key.text),
                help: Some(format!("the first is in line {first}")),
            }));
        }
    }
}
