//! Kernel launches and their arguments.

use plan::{Arg, Call, Keys, Parameter, Place, Thing, kernel};

use super::args::Args;
use crate::yaml::{Node, Value};

impl Args<'_, '_, '_, '_> {
    pub(super) fn kernel_launch(&mut self) -> Option<Call> {
        let name = self.thing("kernel", Thing::Kernel)?;
        let dimensions = |args: &mut Self, key: &str| -> Option<Option<[u32; 3]>> {
            let Some(node) = args.get(key) else { return Some(None) };
            let items = args.reader.list(node);
            if items.is_empty() || items.len() > 3 {
                args.reader.mistake(node.at, format!("`{key}` has one to three numbers"));
                return None;
            }
            let mut sizes = [1; 3];
            for (size, item) in sizes.iter_mut().zip(items) {
                *size = args.reader.number32(item, &format!("`{key}`"))?;
            }
            Some(Some(sizes))
        };
        let block = dimensions(self, "block")?.unwrap_or([256, 1, 1]);
        let grid = match (dimensions(self, "grid")?, self.get("items")) {
            (Some(_), Some(node)) => {
                self.reader.mistake(node.at, "give `items` or `grid`, not both");
                return None;
            }
            (Some(grid), None) => grid,
            (None, Some(node)) => {
                let items = self.reader.number32(node, "`items`")?;
                [items.div_ceil(block[0].max(1)).max(1), 1, 1]
            }
            (None, None) => [1; 3],
        };
        let nodes = match self.get("args") {
            Some(node) => self.reader.list(node),
            None => &[],
        };
        let args = self.arguments(&name, nodes)?;
        Some(Call::Launch { kernel: name, grid, block, args, stream: self.stream("stream")? })
    }

    /// Kernel arguments: buffer names, `{buffer, offset}`, numbers, and `{f32: x}`.
    fn arguments(&mut self, name: &str, nodes: &[Node]) -> Option<Vec<Arg>> {
        let parameters = kernel(name).map(|k| k.parameters);
        if let Some(parameters) = parameters
            && parameters.len() != nodes.len()
        {
            self.reader.mistake(
                self.at("args"),
                format!(
                    "kernel `{name}` takes {} arguments, here are {}",
                    parameters.len(),
                    nodes.len()
                ),
            );
            return None;
        }
        let mut args = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let parameter = parameters.map(|p| p[i]);
            let arg = match (&node.value, parameter) {
                (Value::Map(_), None | Some(Parameter::In | Parameter::Out)) => {
                    let what = "a place";
                    let fields = self.reader.fields(node, what, &["buffer", "offset"])?;
                    let buffer = self.reader.required(&fields, what, "buffer")?;
                    let buffer = self.scope.buffer(self.reader, buffer)?;
                    let offset = match fields.get("offset") {
                        Some(n) => self.reader.number(n, "`offset`")?,
                        None => 0,
                    };
                    Arg::Address(Place { buffer, offset })
                }
                (_, Some(Parameter::In | Parameter::Out)) => {
                    Arg::Address(Place { buffer: self.scope.buffer(self.reader, node)?, offset: 0 })
                }
                (_, Some(Parameter::F32)) => {
                    let value: f32 = self.reader.parsed(node, "a `float` argument")?;
                    if !value.is_finite() {
                        self.reader.mistake(node.at, "a `float` argument must be finite");
                        return None;
                    }
                    Arg::F32(value)
                }
                (_, Some(Parameter::U32)) => {
                    Arg::U32(self.reader.number32(node, "an `unsigned int` argument")?)
                }
                (Value::Scalar(text), None) if self.scope.buffers.contains_key(text) => {
                    Arg::Address(Place { buffer: text.clone(), offset: 0 })
                }
                (_, None) => Arg::U32(self.reader.number32(node, "an argument")?),
            };
            args.push(arg);
        }
        Some(args)
    }
}
