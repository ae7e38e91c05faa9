use plan::{
    Arg, BufferAddress, Call, Choice, KernelParameter, KernelParameterKind, Keys, ObjectKind,
    Parameter, Scalar, ScalarType, kernel,
};

use super::args::Args;
use crate::{
    diagnostic::suggest,
    expression::evaluate,
    yaml::{Key, Node, Value},
};

impl Args<'_, '_, '_, '_> {
    pub(super) fn kernel_launch(&mut self) -> Option<Call> {
        let name = self.thing("kernel", ObjectKind::Kernel);
        let (block, grid) = (self.dimensions("block"), self.dimensions("grid"));
        let items = match self.get("items") {
            Some(node) => self.reader.number32(node, "`items`").map(Some),
            None => Some(None),
        };
        let (shared, stream) = (self.number("shared", Some(0)), self.stream("stream"));
        let cooperative = self.flag("cooperative");
        if let (Some(_), Some(node)) = (self.get("grid"), self.get("items")) {
            self.reader.mistake(node.at, "give `items` or `grid`, not both");
            return None;
        }
        let nodes = match self.get("args") {
            Some(node) => self.reader.list(node),
            None => &[],
        };
        let (kernel, block) = (name?, block?.unwrap_or([256, 1, 1]));
        if shared == Some(0) && declares_dynamic_shared(&self.scope.source(&kernel)) {
            let message = format!(
                "kernel `{kernel}` declares `extern __shared__`, but this launch reserves no bytes for it"
            );
            let help = "add `shared: BYTES` to the launch".to_owned();
            self.reader.mistake_with_help(self.step, message, Some(help));
        }
        let args = self.arguments(&kernel, nodes);
        let grid = match (grid?, items?) {
            (Some(grid), _) => grid,
            (None, Some(items)) => [items.div_ceil(block[0].max(1)).max(1), 1, 1],
            (None, None) => [1; 3],
        };
        let (args, shared, cooperative, stream) = (args?, shared?, cooperative?, stream?);
        Some(Call::Launch { kernel, grid, block, args, shared, cooperative, stream })
    }

    /// Reads the one to three numbers that give the size of a grid or a block. Returns `Some(None)` if the key is
    /// missing.
    fn dimensions(&mut self, key: &str) -> Option<Option<[u32; 3]>> {
        let Some(node) = self.get(key) else { return Some(None) };
        let items = self.reader.list(node);
        if items.is_empty() || items.len() > 3 {
            self.reader.mistake(node.at, format!("`{key}` has one to three numbers"));
            return None;
        }
        let read: Vec<_> =
            items.iter().map(|item| self.reader.number32(item, &format!("`{key}`"))).collect();
        let mut sizes = [1; 3];
        for (size, read) in sizes.iter_mut().zip(read) {
            *size = read?;
        }
        Some(Some(sizes))
    }

    /// Reads kernel arguments: buffer names, `{buffer, offset}`, numbers, and literals with an explicit type.
    fn arguments(&mut self, name: &str, nodes: &[Node]) -> Option<Vec<Arg>> {
        let takes = match kernel(name) {
            Some(kernel) => {
                Some(kernel.parameters.iter().map(|p| ParameterType::from(*p)).collect())
            }
            None => self.own_parameters(name),
        };
        if let Some(takes) = &takes
            && takes.len() != nodes.len()
        {
            let (takes, here) = (takes.len(), nodes.len());
            let message = format!("kernel `{name}` takes {takes} arguments, not {here}");
            let help = self.parameter_names(name);
            let help = (!help.is_empty()).then(|| format!("the arguments are {}", help.join(", ")));
            self.reader.mistake_with_help(self.at("args"), message, help);
            return None;
        }
        // All arguments are read before an invalid one ends the step, so that all mistakes are reported.
        let mut args = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let takes = takes.as_ref().map_or(&ParameterType::Anything, |takes| &takes[i]);
            let arg = self.argument(node, takes);
            // NaN and infinity are rejected, because the bits of a NaN that a kernel computes from them are
            // unspecified.
            let infinite = |arg: &Arg| matches!(arg, Arg::Number(n) if !n.as_f64().is_finite());
            if kernel(name).is_some() && arg.as_ref().is_some_and(infinite) {
                self.reader.mistake(node.at, "a `float` argument must be finite");
            }
            args.push(arg);
        }
        args.into_iter().collect()
    }

    /// Returns the parameters of a kernel that the case defines; `None` if they cannot be read from the kernel's
    /// source.
    fn own_parameters(&self, name: &str) -> Option<Vec<ParameterType>> {
        let own = self.scope.own_kernel(name)?;
        Some(own.parameters?.iter().map(ParameterType::from).collect())
    }

    /// Returns the names of a kernel's parameters; an empty list if the parameters cannot be read from its source.
    fn parameter_names(&self, name: &str) -> Vec<String> {
        let parameters = plan::own_parameters(&self.scope.source(name), name);
        parameters.into_iter().flatten().map(|parameter| parameter.name).collect()
    }

    fn argument(&mut self, node: &Node, takes: &ParameterType) -> Option<Arg> {
        let arg = match &node.value {
            Value::Map(entries)
                if entries
                    .iter()
                    .any(|(key, _)| ["buffer", "input"].contains(&key.text.as_str())) =>
            {
                let (what, is_input) =
                    ("a place", entries.iter().any(|(key, _)| key.text == "input"));
                let key = if is_input { "input" } else { "buffer" };
                let fields = self.reader.fields(node, what, &[key, "offset"])?;
                let buffer = self.reader.required(&fields, what, key)?;
                let buffer = self.scope.buffer(self.reader, buffer)?;
                let offset = match fields.get("offset") {
                    Some(n) => self.reader.number(n, "`offset`")?,
                    None => 0,
                };
                let bytes = self.scope.buffers[&buffer].bytes;
                if offset > bytes {
                    let message =
                        format!("`{buffer}` has {bytes} bytes, and byte {offset} is past its end");
                    self.reader.mistake(node.at, message);
                    return None;
                }
                let place = BufferAddress { buffer, offset };
                if is_input { Arg::Input(place) } else { Arg::Address(place) }
            }
            Value::Map(entries) => self.typed(node, entries, takes)?,
            Value::List(_) => {
                self.reader.mistake(
                    node.at,
                    "an argument cannot be a list; a struct is `{struct: [...]}`",
                );
                return None;
            }
            Value::Scalar(text) => match takes {
                ParameterType::Pointer { .. } => Arg::Address(BufferAddress {
                    buffer: self.scope.buffer(self.reader, node)?,
                    offset: 0,
                }),
                ParameterType::Anything if self.scope.buffers.contains_key(text) => {
                    Arg::Address(BufferAddress { buffer: text.clone(), offset: 0 })
                }
                ParameterType::Number(ty) => Arg::Number(self.number_of(node, *ty)?),
                ParameterType::Anything | ParameterType::Struct { .. } => {
                    Arg::Number(self.number_of(node, ScalarType::U32)?)
                }
            },
        };
        self.fits(node, arg, takes)
    }

    fn fits(&mut self, node: &Node, arg: Arg, takes: &ParameterType) -> Option<Arg> {
        let given = match &arg {
            Arg::Address(_) | Arg::Input(_) => "an address".to_owned(),
            Arg::Number(number) => format!("a number of type {}", number.ty.word()),
            Arg::Struct(_) => "a struct".to_owned(),
            Arg::Bytes(_) => "bytes".to_owned(),
        };
        match (takes, arg) {
            (ParameterType::Pointer { only_read: true }, Arg::Address(place)) => {
                Some(Arg::Input(place))
            }
            (ParameterType::Pointer { .. }, arg @ Arg::Address(_)) => Some(arg),
            (ParameterType::Pointer { only_read: true }, arg @ Arg::Input(_)) => Some(arg),
            (ParameterType::Number(ty), Arg::Number(number)) if number.ty == *ty => {
                Some(Arg::Number(number))
            }
            (ParameterType::Anything, arg) => Some(arg),
            (ParameterType::Struct { .. }, arg @ Arg::Struct(_)) => Some(arg),
            (ParameterType::Struct { bytes, .. }, Arg::Bytes(given)) if given.len() == *bytes => {
                Some(Arg::Bytes(given))
            }
            (ParameterType::Struct { bytes, .. }, Arg::Bytes(given)) => {
                let here = given.len();
                let message =
                    format!("according to its source, this struct has {bytes} bytes, not {here}");
                self.reader.mistake(node.at, message);
                None
            }
            (ParameterType::Struct { .. }, _) => {
                let message = format!("the kernel takes a struct here, not {given}");
                let help = Some("a struct is `{struct: [...]}`".to_owned());
                self.reader.mistake_with_help(node.at, message, help);
                None
            }
            (ParameterType::Pointer { .. }, Arg::Input(_)) => {
                let message = "according to its source the kernel may write here, so use the name of the buffer without `input`";
                self.reader.mistake(node.at, message);
                None
            }
            (ParameterType::Pointer { .. }, _) => {
                self.reader
                    .mistake(node.at, format!("the kernel takes a pointer here, not {given}"));
                None
            }
            (ParameterType::Number(ty), _) => {
                let message =
                    format!("the kernel takes a number of type {} here, not {given}", ty.word());
                self.reader.mistake(node.at, message);
                None
            }
        }
    }

    /// Reads an argument with an explicit type: `{f32: 1.5}`, `{struct: [...]}` or `{bytes: 0a ff}`.
    fn typed(
        &mut self,
        node: &Node,
        entries: &[(Key, Node)],
        takes: &ParameterType,
    ) -> Option<Arg> {
        let types = ScalarType::ALL.iter().map(|(word, _)| *word);
        let known: Vec<_> = types.chain(["buffer", "input", "struct", "bytes"]).collect();
        let [(key, value)] = entries else {
            self.reader.mistake(node.at, "an argument has one key, such as `{f64: 0.5}`");
            return None;
        };
        match key.text.as_str() {
            "struct" => {
                let nodes = self.reader.list(value);
                let known = match takes {
                    ParameterType::Struct { members, .. } => Some(members),
                    ParameterType::Pointer { .. }
                    | ParameterType::Number(_)
                    | ParameterType::Anything => None,
                };
                if nodes.is_empty() {
                    self.reader.mistake(value.at, "a struct has members");
                    return None;
                }
                if let Some(members) = known
                    && members.len() != nodes.len()
                {
                    let (has, here) = (members.len(), nodes.len());
                    let message =
                        format!("this struct has {has} members in the source, not {here}");
                    self.reader.mistake(value.at, message);
                    return None;
                }
                let member = |(at, node)| match known {
                    Some(members) => self.argument(node, &members[at]),
                    None => self.member(node),
                };
                let members: Vec<_> = nodes.iter().enumerate().map(member).collect();
                Some(Arg::Struct(members.into_iter().collect::<Option<_>>()?))
            }
            "bytes" => self.bytes(value).map(Arg::Bytes),
            word => match ScalarType::ALL.iter().find(|(known, _)| *known == word) {
                Some((_, ty)) => self.number_of(value, *ty).map(Arg::Number),
                None => {
                    let help = suggest(word, known.iter().copied());
                    let message = format!("an argument has no `{word}`");
                    self.reader.mistake_with_help(key.at, message, help);
                    None
                }
            },
        }
    }

    /// Reads a member of a struct whose definition is unknown. A member that is not a buffer must be written with its
    /// type, for example `{f32: 1.5}`.
    fn member(&mut self, node: &Node) -> Option<Arg> {
        if let Value::Scalar(text) = &node.value
            && !self.scope.buffers.contains_key(text)
        {
            let message = "a member of a struct is a buffer, or has its type: `{f32: 1.5}`";
            self.reader.mistake(node.at, message);
            return None;
        }
        self.argument(node, &ParameterType::Anything)
    }

    pub(super) fn bytes(&mut self, node: &Node) -> Option<Vec<u8>> {
        let text = self.reader.text(node, "`bytes`")?;
        let digits: String = text.split_whitespace().collect();
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bytes = bytes.filter(|_| plain && digits.len().is_multiple_of(2));
        if bytes.is_none() {
            let message = "`bytes` are pairs of hexadecimal digits, such as `\"0a ff\"`";
            self.reader.mistake(node.at, message);
        }
        bytes
    }

    /// Reads a number of the given type. A whole number may be written as an expression, for example `$n * 4`.
    fn number_of(&mut self, node: &Node, ty: ScalarType) -> Option<Scalar> {
        let text = self.reader.text(node, "an argument")?;
        let computed = match evaluate(text) {
            Ok(value) if !ty.is_float() => value.to_string(),
            Ok(_) | Err(_) => text.to_owned(),
        };
        Scalar::parse(ty, &computed).map_err(|why| self.reader.mistake(node.at, why)).ok()
    }
}

/// Returns true if the source declares an array in dynamic shared memory, whose size each launch specifies.
fn declares_dynamic_shared(source: &str) -> bool {
    let code = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    let words: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    words.windows(2).any(|pair| pair == ["extern", "__shared__"])
}

/// Kinds of argument that a kernel parameter accepts.
enum ParameterType {
    Pointer {
        only_read: bool,
    },
    Number(ScalarType),
    /// A struct that is passed by value, with these members.
    Struct {
        members: Vec<ParameterType>,
        bytes: usize,
    },
    /// Any argument. Only the compiler knows the parameter's type, so the type of the argument is not checked.
    Anything,
}

/// Converts a parameter of a kernel that the case defines.
impl From<&KernelParameter> for ParameterType {
    fn from(parameter: &KernelParameter) -> ParameterType {
        match &parameter.kind {
            KernelParameterKind::Pointer { only_read, .. } => {
                ParameterType::Pointer { only_read: *only_read }
            }
            KernelParameterKind::Number { of } => ParameterType::Number(*of),
            KernelParameterKind::Struct { members } => ParameterType::Struct {
                members: members.iter().map(ParameterType::from).collect(),
                bytes: parameter.kind.bytes().unwrap_or_default(),
            },
            KernelParameterKind::Other => ParameterType::Anything,
        }
    }
}

/// Converts a parameter of a kernel from the built-in kernel library. `only_read` is false even for inputs, because the
/// library's own table already says which parameters are inputs.
impl From<Parameter> for ParameterType {
    fn from(parameter: Parameter) -> ParameterType {
        match parameter {
            Parameter::In | Parameter::Out => ParameterType::Pointer { only_read: false },
            Parameter::U32 => ParameterType::Number(ScalarType::U32),
            Parameter::F32 => ParameterType::Number(ScalarType::F32),
        }
    }
}
