//! Reads the verbs `hip`, which calls any HIP function, and `hip_value`, which reads a value that such a call returned.

use device::{Enumerator, hip_enumerators};
use plan::{
    BufferAddress, Call, Choice, HipArg, HipFunction, HipParameter, HipRead, HipReadType, HipRole,
    Keys, MAX_VALUE_BYTES, Name, Scalar, ScalarType, hip_function, number_of, pointed, scalar,
};

use super::args::Args;
use crate::{
    diagnostic::suggest,
    expression::evaluate,
    hints,
    scope::ValueOrigin,
    yaml::{Key, Node, Value},
};

/// Maximum number of elements in an array that a pointer argument points to.
const MAX_ARRAY_LENGTH: u64 = 64;

/// Returns the C type of a value that a function has returned.
fn type_of((function, at): ValueOrigin) -> &'static str {
    let parameter = &function.parameters[at];
    pointed(parameter.ty).unwrap_or(parameter.ty)
}

/// Returns true if a value of type `given` may be passed as type `wanted`.
fn fits(given: &str, wanted: &str) -> bool {
    let plain = |ty: &str| match ty.strip_prefix("const ").unwrap_or(ty) {
        "hipArray_const_t" => "hipArray_t".to_owned(),
        "hipMipmappedArray_const_t" => "hipMipmappedArray_t".to_owned(),
        "hipDeviceptr_t" => "void*".to_owned(),
        other => other.to_owned(),
    };
    // `void*` is compatible with every pointer type.
    let any = |ty: &str| ty == "void";
    let numbers = scalar(given).is_some() && scalar(wanted).is_some();
    any(given) || any(wanted) || numbers || plain(given) == plain(wanted)
}

impl Args<'_, '_, '_, '_> {
    pub(super) fn hip_call(&mut self) -> Option<Call> {
        let node = self.required("call")?;
        let name = self.reader.text(node, "`call`")?;
        let Some(function) = hip_function(name) else {
            let message = match device::library_function(name) {
                Some(_) => format!("a `hip` step cannot call `{name}`"),
                None => format!("unknown function `{name}`"),
            };
            self.reader.mistake_with_help(node.at, message, Some(hints::function(name)));
            return None;
        };
        let nodes = match self.get("args") {
            Some(node) => self.reader.list(node),
            None => &[],
        };
        let takes = function.parameters.len();
        if takes != nodes.len() {
            let names: Vec<_> = function.parameters.iter().map(|p| p.name).collect();
            let message = format!("`{name}` takes {takes} arguments, not {}", nodes.len());
            let help = (takes > 0).then(|| format!("the arguments are {}", names.join(", ")));
            self.reader.mistake_with_help(self.at("args"), message, help);
            return None;
        }
        // All arguments are read before an invalid one ends the step, so that all mistakes are reported.
        let args: Vec<_> = function
            .parameters
            .iter()
            .zip(nodes)
            .map(|(parameter, node)| self.hip_argument(parameter, node))
            .collect();
        let args = args.into_iter().collect::<Option<Vec<_>>>()?;
        self.fit_in_room(function, &args, nodes)?;
        for (at, arg) in args.iter().enumerate() {
            if let HipArg::Out { name, .. } = arg {
                self.scope.values.insert(name.clone(), (function, at));
            }
        }
        Some(Call::Hip { function: name.to_owned(), args })
    }

    /// Reports element counts that exceed the memory that the worker provides for an array.
    fn fit_in_room(
        &mut self,
        function: &HipFunction,
        args: &[HipArg],
        nodes: &[Node],
    ) -> Option<()> {
        let number = |name: &str| number_of(function, args, name);
        for (at, parameter) in function.parameters.iter().enumerate() {
            if args[at] == HipArg::Null {
                continue;
            }
            let (size, most) = match &parameter.role {
                HipRole::Out(Some(size)) if parameter.ty == "char*" => {
                    (size, MAX_VALUE_BYTES as u64)
                }
                HipRole::Out(Some(size)) | HipRole::In(Some(size)) => (size, MAX_ARRAY_LENGTH),
                _ => continue,
            };
            let (name, given) = (parameter.name, size.resolve(number));
            if given.is_none_or(|given| given > most) {
                let message = format!("the array of `{name}` has room for {most}");
                self.reader.mistake(nodes[at].at, message);
                return None;
            }
        }
        Some(())
    }

    fn hip_argument(&mut self, parameter: &HipParameter, node: &Node) -> Option<HipArg> {
        let HipParameter { ty, name, role } = parameter;
        let text = match &node.value {
            Value::Scalar(text) => text.as_str(),
            Value::List(_) | Value::Map(_) => return self.hip_compound(parameter, node),
        };
        let is_number = matches!(role, HipRole::Value) && scalar(ty).is_some();
        if text == "null" && !is_number {
            return Some(HipArg::Null);
        }
        if let HipRole::Out(_) | HipRole::InOut = role {
            return self.new_value(node, text, 0);
        }
        let behind = matches!(role, HipRole::In(_) | HipRole::Keeps | HipRole::Text);
        let wanted = if behind { pointed(ty).unwrap_or(ty) } else { ty };
        if let Some(given) = self.scope.values.get(text).copied() {
            if matches!(role, HipRole::Works) {
                let message = format!(
                    "`{name}` must be a stream of the case, not a value, because the call submits work to it"
                );
                self.reader.mistake(node.at, message);
                return None;
            }
            if !fits(type_of(given), wanted) {
                let message = format!(
                    "`{name}` must be a `{wanted}`, but {} returned `{text}` as a `{}`",
                    given.0.name(),
                    type_of(given)
                );
                self.reader.mistake(node.at, message);
                return None;
            }
            return Some(HipArg::Value(text.to_owned()));
        }
        match (role, *ty) {
            (HipRole::Text, _) => self.hip_text(name, node, text),
            (HipRole::Value, "hipFunction_t" | "const hipFunction_t") => self.kernel(node, text),
            (HipRole::Value, ty) if scalar(ty).is_some() => {
                self.number_or_enumerator(node, text, ty).map(HipArg::Number)
            }
            (HipRole::Asks | HipRole::Works, "hipStream_t") => {
                self.scope.stream(self.reader, node).map(HipArg::Stream)
            }
            (HipRole::Asks, "hipEvent_t") => {
                Some(HipArg::Event(self.scope.event(self.reader, node.at, text)))
            }
            (HipRole::Asks, "hipGraph_t") => Some(HipArg::Graph(text.to_owned())),
            (HipRole::At | HipRole::Reads(_) | HipRole::Writes(_) | HipRole::Sets { .. }, _) => {
                let buffer = self.scope.buffer(self.reader, node)?;
                Some(HipArg::Place(BufferAddress { buffer, offset: 0 }))
            }
            (HipRole::Own, _) => {
                let message = format!(
                    "`{name}` must be a value that an earlier `hip` step returned, or `null`"
                );
                let help =
                    "a `hip` step cannot change or end what the case declares; other steps do that"
                        .to_owned();
                self.reader.mistake_with_help(node.at, message, Some(help));
                None
            }
            _ => {
                let known = self.scope.values.keys().map(String::as_str);
                let help = suggest(text, known);
                let message = format!("no earlier `hip` step returns a `{wanted}` named `{text}`");
                self.reader.mistake_with_help(node.at, message, help);
                None
            }
        }
    }

    /// Reads a number, the name of an enumerator of the parameter's type, or the name of a flag.
    fn number_or_enumerator(&mut self, node: &Node, text: &str, ty: &str) -> Option<Scalar> {
        let plain = ty.strip_prefix("const ").unwrap_or(ty);
        let number = scalar(ty)?;
        let all = hip_enumerators().iter();
        let fits = |of: &&Enumerator| {
            of.ty == plain || of.ty == Enumerator::FLAGS && plain == "unsigned int"
        };
        let named: Vec<_> = all.filter(|of| of.name == text).collect();
        if let Some(found) = named.iter().copied().find(fits) {
            return Scalar::parse(number, &found.value.to_string()).ok();
        }
        if let Some(other) = named.first() {
            let message = format!("`{text}` is a `{}`, and the argument is a `{plain}`", other.ty);
            self.reader.mistake(node.at, message);
            return None;
        }
        let is_name = text.starts_with("hip") || text.starts_with("HIP_");
        let known: Vec<_> = hip_enumerators().iter().filter(fits).map(|of| of.name).collect();
        if is_name {
            let message = format!("`{text}` is not the name of a `{plain}`");
            let help = suggest(text, known.iter().copied());
            self.reader.mistake_with_help(node.at, message, help);
            return None;
        }
        let ends_with = |name: &&str| name.to_lowercase().ends_with(&text.to_lowercase());
        let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic());
        if let Some(name) = known.iter().find(|name| is_word && ends_with(name)) {
            let message = format!("`{text}` is not the name of a `{plain}`");
            self.reader.mistake_with_help(node.at, message, Some(format!("write `{name}`")));
            return None;
        }
        self.hip_number(node, number)
    }

    fn hip_text(&mut self, name: &str, node: &Node, text: &str) -> Option<HipArg> {
        if text.len() >= MAX_VALUE_BYTES {
            self.reader
                .mistake(node.at, format!("a text must have fewer than {MAX_VALUE_BYTES} bytes"));
            return None;
        }
        // A trial may use files only in its own folder, so paths with `/` are rejected.
        if matches!(name, "path" | "fname") && (text.contains('/') || text.starts_with('.')) {
            let message = "write the name of a file in the folder of the trial, without `/`";
            self.reader.mistake(node.at, message);
            return None;
        }
        Some(HipArg::Text(text.to_owned()))
    }

    /// Reads an argument that is a list or a mapping.
    fn hip_compound(&mut self, parameter: &HipParameter, node: &Node) -> Option<HipArg> {
        match (&parameter.role, &node.value) {
            (HipRole::In(_) | HipRole::Keeps, Value::List(items)) => {
                let keeps = matches!(parameter.role, HipRole::Keeps);
                let members: Vec<_> =
                    items.iter().map(|node| self.hip_member(node, keeps)).collect();
                let members = members.into_iter().collect::<Option<Vec<_>>>()?;
                let whole = HipArg::Struct(members);
                if whole.to_bytes(&|_| 0).len() > MAX_VALUE_BYTES {
                    self.reader
                        .mistake(node.at, format!("at most {MAX_VALUE_BYTES} bytes are allowed"));
                    return None;
                }
                Some(whole)
            }
            (HipRole::InOut, Value::Map(_)) => {
                let fields = self.reader.fields(node, "the given value", &["out", "before"])?;
                let out = self.reader.required(&fields, "the given value", "out")?;
                let before = self.reader.required(&fields, "the given value", "before")?;
                let before = self.reader.number(before, "`before`")?;
                let name = self.reader.text(out, "`out`")?;
                self.new_value(out, name, before)
            }
            (
                HipRole::At | HipRole::Reads(_) | HipRole::Writes(_) | HipRole::Sets { .. },
                Value::Map(_),
            ) => self.hip_place(node),
            _ => {
                let message =
                    format!("`{}` is a single value of type `{}`", parameter.name, parameter.ty);
                self.reader.mistake(node.at, message);
                None
            }
        }
    }

    fn hip_place(&mut self, node: &Node) -> Option<HipArg> {
        let fields = self.reader.fields(node, "a place", &["buffer", "offset"])?;
        let buffer = self.reader.required(&fields, "a place", "buffer")?;
        let buffer = self.scope.buffer(self.reader, buffer)?;
        let offset = match fields.get("offset") {
            Some(node) => self.reader.number(node, "`offset`")?,
            None => 0,
        };
        Some(HipArg::Place(BufferAddress { buffer, offset }))
    }

    /// Reads a member of a struct: a value that an earlier step returned, `null`, or a literal with an explicit type.
    /// If `keeps` is true, a member may also be the name of a buffer.
    fn hip_member(&mut self, node: &Node, keeps: bool) -> Option<HipArg> {
        match &node.value {
            Value::Scalar(text) if text == "null" => Some(HipArg::Null),
            Value::Scalar(text) if self.scope.values.contains_key(text) => {
                Some(HipArg::Value(text.clone()))
            }
            Value::Scalar(text) if keeps && self.scope.buffers.contains_key(text) => {
                Some(HipArg::Place(BufferAddress { buffer: text.clone(), offset: 0 }))
            }
            Value::Map(entries) => self.hip_typed(node, entries, keeps),
            Value::Scalar(_) | Value::List(_) => {
                let message =
                    "a member is a value of an earlier step, `null`, or has its type: `{u32: 1}`";
                self.reader.mistake(node.at, message);
                None
            }
        }
    }

    fn hip_typed(&mut self, node: &Node, entries: &[(Key, Node)], keeps: bool) -> Option<HipArg> {
        let [(key, value)] = entries else {
            self.reader.mistake(node.at, "a member has one key, such as `{u64: 5}`");
            return None;
        };
        match key.text.as_str() {
            "bytes" => self.bytes(value).map(HipArg::Bytes),
            "kernel" => {
                let name = self.reader.text(value, "`kernel`")?.to_owned();
                self.kernel(value, &name)
            }
            "struct" => {
                let members = self.reader.list(value).iter();
                let members: Vec<_> = members.map(|node| self.hip_member(node, keeps)).collect();
                Some(HipArg::Struct(members.into_iter().collect::<Option<_>>()?))
            }
            word => match ScalarType::ALL.iter().find(|(known, _)| *known == word) {
                Some((_, ty)) => self.hip_number(value, *ty).map(HipArg::Number),
                None => {
                    let types = ScalarType::ALL.iter().map(|(word, _)| *word);
                    let help = suggest(word, types.chain(["bytes", "kernel", "struct"]));
                    let message = format!("a member has no `{word}`");
                    self.reader.mistake_with_help(key.at, message, help);
                    None
                }
            },
        }
    }

    fn kernel(&mut self, node: &Node, name: &str) -> Option<HipArg> {
        if !self.scope.has_kernel(name) {
            let help = suggest(name, self.scope.kernel_names());
            let message = format!("unknown kernel `{name}`");
            self.reader.mistake_with_help(node.at, message, help);
            return None;
        }
        Some(HipArg::Kernel(name.to_owned()))
    }

    fn new_value(&mut self, node: &Node, name: &str, before: u64) -> Option<HipArg> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(plain) {
            let message = "the name of a value must be a letter, then letters, digits and `_`";
            self.reader.mistake(node.at, message);
            return None;
        }
        Some(HipArg::Out { name: name.to_owned(), before })
    }

    pub(super) fn hip_number(&mut self, node: &Node, ty: ScalarType) -> Option<Scalar> {
        let text = self.reader.text(node, "an argument")?;
        let computed = match evaluate(text) {
            Ok(value) if !ty.is_float() => value.to_string(),
            Ok(_) | Err(_) => text.to_owned(),
        };
        Scalar::parse(ty, &computed).map_err(|why| self.reader.mistake(node.at, why)).ok()
    }

    pub(super) fn look_at_value(&mut self) -> Option<Call> {
        let (of, given) = self.given("of")?;
        let against = match self.get("against") {
            Some(_) => Some(self.given("against")?.0),
            None => None,
        };
        let at: u64 = self.number("at", Some(0))?;
        if at > MAX_VALUE_BYTES as u64 - 8 {
            self.reader.mistake(
                self.at("at"),
                format!("a value may have at most {MAX_VALUE_BYTES} bytes"),
            );
            return None;
        }
        let sort = match self.get("type") {
            None => given.0.parameters[given.1].gives(),
            Some(node) => {
                let numbers =
                    ScalarType::ALL.iter().map(|(word, ty)| (*word, HipReadType::Number(*ty)));
                let others = [
                    ("text", HipReadType::Text),
                    ("text_at", HipReadType::TextAt),
                    ("pointer", HipReadType::Pointer),
                ];
                let all: Vec<_> = numbers.chain(others).collect();
                Some(self.reader.choice(node, "`type`", &all)?)
            }
        };
        // `text_at` is allowed only for a value that is the address of a C string.
        let own = given.0.parameters[given.1].gives();
        if sort == Some(HipReadType::TextAt) && (at != 0 || own != sort) {
            let message = format!("`{of}` is not the address of a text");
            self.reader.mistake(self.at("type"), message);
            return None;
        }
        let Some(sort) = sort else {
            let message = format!("`{of}` is a `{}`, which has members", type_of(given));
            let help = "choose a member with `at` (its first byte) and `type`".to_owned();
            self.reader.mistake_with_help(self.at("of"), message, Some(help));
            return None;
        };
        let function = given.0.name().to_owned();
        Some(Call::HipValue { of, function, read: HipRead { at, sort }, against })
    }

    fn given(&mut self, key: &str) -> Option<(Name, ValueOrigin)> {
        let node = self.required(key)?;
        let name = self.reader.text(node, &format!("`{key}`"))?;
        let Some(given) = self.scope.values.get(name) else {
            let help = suggest(name, self.scope.values.keys().map(String::as_str));
            let message = format!("no earlier `hip` step returns `{name}`");
            self.reader.mistake_with_help(node.at, message, help);
            return None;
        };
        Some((name.to_owned(), *given))
    }
}
