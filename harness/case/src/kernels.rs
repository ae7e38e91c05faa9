//! Reads the kernels that a case defines.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
};

use plan::{
    FileContent, Files, Formula, KernelCode, KernelParameterKind, flat_parameters, own_parameters,
};

use crate::{
    SourceSpan,
    diagnostic::suggest,
    read::{Fields, Reader},
    yaml::{Key, Node, Value},
};

/// Content of files that belong to a case, other than the case file: kernel sources by the names of their kernels, and
/// other files by file name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernels {
    sources: BTreeMap<String, String>,
    /// Code objects and buffer contents, by file name.
    pub files: Files,
}

impl Kernels {
    /// Returns an empty set of files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the content of a file. If the file does not exist, reports a mistake and returns `None`.
    pub(crate) fn file(
        &self,
        reader: &mut Reader,
        at: SourceSpan,
        name: &str,
    ) -> Option<&FileContent> {
        let found = self.files.get(name);
        if found.is_none() {
            let near = suggest(name, self.files.keys().map(String::as_str));
            let help = near.or_else(|| match FILE_ENDINGS.iter().any(|end| name.ends_with(end)) {
                true => {
                    Some("files of a case are read only if it is trusted (`--trust`)".to_owned())
                }
                false => Some(format!("its name must end with {}", FILE_ENDINGS.join(" or "))),
            });
            reader.mistake_with_help(at, format!("no file `{name}` next to the case"), help);
        }
        found
    }
}

/// File name extensions of the files in [`Kernels::files`]: code objects and buffer contents.
pub const FILE_ENDINGS: [&str; 2] = [".co", ".bin"];

impl Deref for Kernels {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.sources
    }
}

impl DerefMut for Kernels {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.sources
    }
}

impl FromIterator<(String, String)> for Kernels {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(sources: T) -> Self {
        Kernels { sources: sources.into_iter().collect(), files: Files::new() }
    }
}

impl<const N: usize> From<[(String, String); N]> for Kernels {
    fn from(sources: [(String, String); N]) -> Self {
        sources.into_iter().collect()
    }
}

/// Declaration of a kernel that the case defines.
#[derive(Clone, Default)]
pub(crate) struct KernelDeclaration {
    pub(crate) line: u32,
    /// Source text; `None` if a file in the case's folder contains the source.
    pub(crate) source: Option<String>,
    pub(crate) options: Vec<String>,
    pub(crate) computes: Vec<String>,
    pub(crate) code: Option<KernelCode>,
}

/// Reads an entry under `kernels`, whose value is the source text or a mapping.
pub(crate) fn read_kernel_declaration(
    reader: &mut Reader,
    key: &Key,
    node: &Node,
    kernels: &Kernels,
) -> KernelDeclaration {
    reader.name(key.at, &key.text, "a kernel");
    let mut own = KernelDeclaration { line: key.at.line, ..KernelDeclaration::default() };
    let name = &key.text;
    if plan::kernel(name).is_some() {
        reader.mistake(key.at, format!("`{name}` is a kernel of the library; use another name"));
    }
    if !matches!(node.value, Value::Map(_)) {
        own.source = reader.text(node, "a kernel").map(str::to_owned);
    }
    if let (Some(text), Value::Scalar(_)) = (&own.source, &node.value)
        && is_file_name(text)
    {
        let message = format!("`{text}` is the name of a file, not the source of a kernel");
        let help = format!(
            "write the source here, or leave the entry out: `{name}.hip` next to the case is read without an entry"
        );
        reader.mistake_with_help(node.at, message, Some(help));
        return own;
    }
    let mut computes = None;
    if let Value::Map(_) = &node.value {
        let what = format!("kernel `{name}`");
        let Some(fields) =
            reader.fields(node, &what, &["source", "options", "computes", "code", "kernel"])
        else {
            return own;
        };
        if fields.get("code").is_some() || fields.get("kernel").is_some() {
            own.code = read_code(reader, key, node, &fields, kernels);
            return own;
        }
        if let Some(source) = fields.get("source") {
            own.source = reader.text(source, "`source`").map(str::to_owned);
        } else if !kernels.contains_key(name) {
            let message = format!("{what} needs `source`, or a file `{name}.hip` next to the case");
            reader.mistake(node.at, message);
        }
        if let Some(options) = fields.get("options") {
            own.options = reader.texts(options, "`options`");
        }
        computes = fields.get("computes");
    }
    if own.source.is_some() && kernels.contains_key(name) && plan::kernel(name).is_none() {
        let message = format!(
            "`{name}` has a source here and in `{name}.hip` next to the case; keep one of them"
        );
        reader.mistake(key.at, message);
    }
    let source = own.source.as_ref().or_else(|| kernels.get(name));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let source = source.filter(|source| !source.trim().is_empty() && name.chars().all(is_name));
    if let Some(why) = source.and_then(|source| not_found_by_name(source, name)) {
        let defined = source.map(|source| plan::kernel_names(source)).unwrap_or_default();
        let help = match &defined[..] {
            [only] if only != name => {
                format!("the source defines `{only}`: name the entry `{only}`")
            }
            _ => format!("the source needs `extern \"C\" __global__ void {name}(...)`"),
        };
        reader.mistake_with_help(key.at, why, Some(help));
    } else if let Some(computes) = computes {
        let nothing = String::new();
        let source = own.source.as_ref().or_else(|| kernels.get(name)).unwrap_or(&nothing);
        own.computes = formulas(reader, computes, name, source);
    }
    own
}

/// Reads the keys of a kernel in a code object.
fn read_code(
    reader: &mut Reader,
    key: &Key,
    node: &Node,
    fields: &Fields<'_>,
    kernels: &Kernels,
) -> Option<KernelCode> {
    let name = &key.text;
    for other in ["source", "options", "computes"] {
        if let Some(other_node) = fields.get(other) {
            let message = format!("kernel `{name}` has `code`, so it cannot have `{other}`");
            reader.mistake(other_node.at, message);
        }
    }
    if kernels.contains_key(name) {
        let message =
            format!("`{name}` has `code` here and a source in `{name}.hip` next to the case");
        reader.mistake(key.at, message);
    }
    let file_node = reader.required(fields, &format!("kernel `{name}`"), "code")?;
    let file = reader.text(file_node, "`code`")?.to_owned();
    let kernel = match fields.get("kernel") {
        Some(node) => reader.text(node, "`kernel`")?.to_owned(),
        None => name.clone(),
    };
    if kernel.is_empty() || kernel.contains('\0') {
        reader.mistake(node.at, "`kernel` is the name of a kernel in the code object");
        return None;
    }
    kernels.file(reader, file_node.at, &file)?;
    Some(KernelCode { file, kernel })
}

/// Returns true for a single word with the extension of a source file.
fn is_file_name(text: &str) -> bool {
    let endings = [".hip", ".cpp", ".cc", ".cu", ".h"];
    !text.trim().contains(char::is_whitespace)
        && endings.iter().any(|ending| text.trim().ends_with(ending))
}

/// Returns the reason why the HIP runtime cannot find a kernel by its name in a module compiled from this source;
/// `None` if the text shows no such reason.
fn not_found_by_name(source: &str, name: &str) -> Option<String> {
    // An included file may define the kernel.
    let may_be_elsewhere = ["#include", "#define", "__attribute__"];
    if may_be_elsewhere.iter().any(|word| source.contains(word)) {
        return None;
    }
    if !source.contains("__global__") {
        return Some(format!("the source of kernel `{name}` defines no `__global__` function"));
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !source.split(|c| !is_word(c)).any(|word| word == name) {
        return Some(format!("the source of kernel `{name}` defines no `{name}`"));
    }
    let is_c = source.contains("extern \"C\"");
    (!is_c).then(|| {
        format!("kernel `{name}` is not `extern \"C\"`, so it cannot be found by its name")
    })
}

fn formulas(reader: &mut Reader, node: &Node, name: &str, source: &str) -> Vec<String> {
    let texts = reader.texts(node, "`computes`");
    let before = reader.mistakes.len();
    let Some(parameters) = own_parameters(source, name) else {
        let message = format!(
            "the parameters of kernel `{name}` cannot be read from its source, so `computes` cannot be used; compare \
             its output with `equal`"
        );
        let help = "give each parameter a type in plain words and a name that is not itself a type, as `half` is";
        reader.mistake_with_help(node.at, message, Some(help.to_owned()));
        return Vec::new();
    };
    let parameters = flat_parameters(&parameters);
    let mut outputs = Vec::new();
    for node in reader.list(node) {
        // An item that is not text has already been reported.
        let Value::Scalar(text) = &node.value else { continue };
        match Formula::parse(text, &parameters) {
            Ok(formula) if outputs.contains(&formula.out) => {
                let output = &parameters[formula.out].name;
                reader.mistake(node.at, format!("`{output}` is computed twice"));
            }
            Ok(formula) => outputs.push(formula.out),
            Err(why) => reader.mistake(node.at, why),
        }
    }
    // An output without a formula would have unknown content, and a later check would be rejected with a message that
    // does not name the cause.
    for parameter in &parameters {
        let written =
            matches!(parameter.kind, KernelParameterKind::Pointer { only_read: false, .. });
        let has_formula = outputs.iter().any(|out| parameters[*out].name == parameter.name);
        if written && !has_formula && reader.mistakes.len() == before {
            let message = format!(
                "kernel `{name}` can also write `{0}`; add a formula for `{0}`, or make it a pointer to `const`",
                parameter.name
            );
            reader.mistake(node.at, message);
        }
    }
    texts
}
