//! Reads the value of the verb of one step: a mapping of keys, or a single value.

use plan::{BufferAddress, Call, Choice, DEFAULT_STREAM, Keys, Name, ObjectKind, Verb};

use crate::{
    SourceSpan,
    diagnostic::suggest,
    read::{Fields, Reader},
    scope::Scope,
    yaml::{Node, Value},
};

pub(super) struct Args<'r, 's, 'n, 'c> {
    pub(super) reader: &'r mut Reader,
    pub(super) scope: &'s mut Scope<'c>,
    /// YAML node after the verb: a mapping, or a single value.
    pub(super) node: &'n Node,
    /// Keys that follow the verb; `None` if the verb has a single value.
    pub(super) fields: Option<Fields<'n>>,
    pub(super) what: String,
    pub(super) step: SourceSpan,
    /// List to which steps that must precede this step are appended.
    pub(super) before: &'r mut Vec<plan::Step>,
}

impl<'n> Args<'_, '_, 'n, '_> {
    pub(super) fn read(mut self, verb: &Verb) -> Option<Call> {
        let bare = ["fill", "alloc", "free", "check"].contains(&verb.name)
            && matches!(self.node.value, Value::Scalar(_));
        let keys = verb.keys();
        if let (true, Value::Map(entries)) = (keys.is_empty(), &self.node.value) {
            // The value that the user probably means is the first value that is a word.
            let word = entries.iter().find_map(|(_, node)| match &node.value {
                Value::Scalar(text) => Some(text.as_str()),
                Value::List(_) | Value::Map(_) => None,
            });
            let message = format!("{} takes a single value", self.what);
            let help = format!("write `{}: {}`", verb.name, word.unwrap_or("NAME"));
            self.reader.mistake_with_help(self.node.at, message, Some(help));
            return None;
        }
        if !keys.is_empty() && !bare {
            if !matches!(self.node.value, Value::Map(_)) {
                let message = format!("{} must be a mapping", self.what);
                let help = format!("its keys are {}", keys.join(", "));
                self.reader.mistake_with_help(self.node.at, message, Some(help));
                return None;
            }
            self.fields = Some(self.reader.fields(self.node, &self.what, &keys)?);
        }
        Call::read(verb.name, &mut self)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        match &self.fields {
            Some(fields) => fields.get(key),
            None => Some(self.node),
        }
    }

    pub(super) fn required(&mut self, key: &str) -> Option<&'n Node> {
        match &self.fields {
            Some(fields) => self.reader.required(fields, &self.what, key),
            None => Some(self.node),
        }
    }

    /// Returns the name by which messages refer to the value of a key, for example `` `bytes` ``.
    fn called(&self, key: &str) -> String {
        match &self.fields {
            Some(_) => format!("`{key}`"),
            None => self.what.clone(),
        }
    }

    /// Returns the position of a key's value; if the key is missing, the position of the step.
    pub(super) fn at(&self, key: &str) -> SourceSpan {
        self.get(key).unwrap_or(self.node).at
    }

    /// Reads an optional number. Returns `Some(None)` if the key is missing, and `None` if the value is not a number.
    pub(super) fn given_number(&mut self, key: &str) -> Option<Option<u64>> {
        match self.get(key) {
            Some(_) => self.number(key, None).map(Some),
            None => Some(None),
        }
    }

    /// Reads the name of a buffer, and returns the place at the buffer's first byte.
    pub(super) fn place(&mut self, key: &str) -> Option<BufferAddress> {
        Some(BufferAddress { buffer: self.buffer(key)?, offset: 0 })
    }

    /// Returns the number of bytes between a place in a buffer and the end of the buffer.
    pub(super) fn room(&self, place: &BufferAddress) -> u64 {
        self.scope.buffers[&place.buffer].bytes.saturating_sub(place.offset)
    }
}

impl Keys for Args<'_, '_, '_, '_> {
    fn stream(&mut self, key: &str) -> Option<Name> {
        match self.get(key) {
            Some(node) => self.scope.stream(self.reader, node),
            None => Some(DEFAULT_STREAM.to_owned()),
        }
    }

    fn new_stream(&mut self, key: &str) -> Option<Name> {
        let stream = self.stream(key)?;
        if stream == DEFAULT_STREAM {
            self.reader.mistake(self.at(key), "the default stream always exists");
        }
        Some(stream)
    }

    fn thing(&mut self, key: &str, thing: ObjectKind) -> Option<Name> {
        let name = self.text(key)?;
        let at = self.at(key);
        match thing {
            ObjectKind::Event => drop(self.scope.event(self.reader, at, &name)),
            ObjectKind::Kernel if !self.scope.has_kernel(&name) => {
                let help = suggest(&name, self.scope.kernel_names());
                let message = format!("unknown kernel `{name}`");
                self.reader.mistake_with_help(at, message, help);
                return None;
            }
            ObjectKind::Graph
            | ObjectKind::Generator
            | ObjectKind::Blaslt
            | ObjectKind::Rocblas => {
                self.reader.name(at, &name, &format!("a {thing}"));
            }
            ObjectKind::Exec => self.reader.name(at, &name, "an executable graph"),
            // The spelling of these names is not checked: the object must have been declared, or returned by an earlier
            // step.
            ObjectKind::Buffer | ObjectKind::Stream | ObjectKind::Kernel | ObjectKind::Value => {}
        }
        Some(name)
    }

    fn buffer(&mut self, key: &str) -> Option<Name> {
        let node = self.required(key)?;
        self.scope.buffer(self.reader, node)
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let node = self.required(key)?;
        self.reader.text(node, &self.called(key)).map(str::to_owned)
    }

    fn number<T: TryFrom<u64>>(&mut self, key: &str, default: Option<T>) -> Option<T> {
        if self.get(key).is_none() && default.is_some() {
            return default;
        }
        let node = self.required(key)?;
        let what = self.called(key);
        let value = self.reader.number(node, &what)?;
        let number = T::try_from(value).ok();
        if number.is_none() {
            self.reader.mistake(node.at, format!("{what} is too large: {value}"));
        }
        number
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        match self.get(key) {
            Some(node) => self.reader.flag(node, &self.called(key)),
            None => Some(false),
        }
    }

    fn choice<T: Choice>(&mut self, key: &str, default: Option<T>) -> Option<T> {
        if self.get(key).is_none() && default.is_some() {
            return default;
        }
        let node = self.required(key)?;
        self.reader.choice(node, &self.called(key), T::ALL)
    }

    fn nothing(&mut self) {
        if !matches!(&self.node.value, Value::Scalar(text) if text.is_empty()) {
            self.reader.mistake(self.node.at, format!("{} takes no arguments", self.what));
        }
    }
}
