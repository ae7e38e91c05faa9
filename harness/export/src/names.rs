//! Assigns C++ identifiers to the objects that a plan names.

use std::collections::{BTreeMap, BTreeSet};

use plan::ObjectKind;

/// Kinds of objects to which names refer. Objects of different kinds may have the same name in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    Buffer,
    Stream,
    Event,
    Graph,
    Exec,
    Kernel,
    Generator,
    Blaslt,
    Rocblas,
    /// Value that a call to a HIP function returned and that a later step uses.
    Given,
    Loop,
    Value,
}

impl From<ObjectKind> for NameKind {
    fn from(thing: ObjectKind) -> NameKind {
        match thing {
            ObjectKind::Buffer => NameKind::Buffer,
            ObjectKind::Stream => NameKind::Stream,
            ObjectKind::Kernel => NameKind::Kernel,
            ObjectKind::Event => NameKind::Event,
            ObjectKind::Graph => NameKind::Graph,
            ObjectKind::Exec => NameKind::Exec,
            ObjectKind::Generator => NameKind::Generator,
            ObjectKind::Blaslt => NameKind::Blaslt,
            ObjectKind::Rocblas => NameKind::Rocblas,
            ObjectKind::Value => NameKind::Given,
        }
    }
}

impl NameKind {
    /// Returns the suffix that is appended to an identifier of this kind if the plain identifier is already taken.
    const fn suffix(self) -> &'static str {
        match self {
            NameKind::Buffer => "buffer",
            NameKind::Stream => "stream",
            NameKind::Event => "event",
            NameKind::Graph => "graph",
            NameKind::Exec => "exec",
            NameKind::Kernel => "kernel",
            NameKind::Generator => "generator",
            NameKind::Blaslt | NameKind::Rocblas => "handle",
            NameKind::Given => "given",
            NameKind::Loop => "round",
            NameKind::Value => "value",
        }
    }
}

/// Identifiers that cannot be used, because they have another meaning in the printed programs.
const RESERVED: &[&str] = &[
    "Bfloat16",
    "CHECK",
    "GUARD",
    "GUARD_BYTE",
    "Half",
    "POISON",
    "Problem",
    "abort",
    "add_kernel",
    "add_one",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "as",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "check",
    "check_device_guards",
    "check_differ",
    "check_equal",
    "check_guards",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compile",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "device",
    "dim3",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "errno",
    "exit",
    "expect_returned",
    "expect_status",
    "expect_value",
    "explicit",
    "export",
    "extern",
    "failed_node",
    "failures",
    "false",
    "fill_numbers",
    "fill_pattern",
    "float",
    "for",
    "free",
    "free_at_first",
    "friend",
    "function_of",
    "gemm_ex",
    "goto",
    "host_alloc",
    "if",
    "inline",
    "int",
    "is_steady",
    "launch",
    "linux",
    "long",
    "main",
    "make_postponed",
    "malloc",
    "matmul",
    "matmul_heuristic",
    "matmul_on_host",
    "mutable",
    "name_of",
    "namespace",
    "new",
    "no_arguments",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "poison_host",
    "postponed",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "require",
    "requires",
    "return",
    "runtime",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "std",
    "stderr",
    "stdin",
    "stdout",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
];

/// Prefixes that identifiers must not have, because library functions or the variables with expected bytes begin with
/// them.
const PREFIXES: &[&str] = &["before_want_", "hip", "roc", "want_"];

/// C++ identifiers of a program. Each one refers to a single object.
#[derive(Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
    given: BTreeMap<(NameKind, String), String>,
}

impl Names {
    /// Returns the C++ identifier for an object. Further calls for the same object return the same identifier.
    pub(crate) fn identifier(&mut self, kind: NameKind, name: &str) -> String {
        if let Some(given) = self.given.get(&(kind, name.to_owned())) {
            return given.clone();
        }
        let identifier = self.fresh(kind, name);
        self.given.insert((kind, name.to_owned()), identifier.clone());
        identifier
    }

    /// Returns a C++ identifier that resembles `name` and is not in use, and marks it as used.
    pub(crate) fn fresh(&mut self, kind: NameKind, name: &str) -> String {
        let mut plain: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let taken = PREFIXES.iter().any(|prefix| plain.starts_with(prefix));
        if taken || !plain.starts_with(|c: char| c.is_ascii_alphabetic()) {
            plain.insert_str(0, "x_");
        }
        // An identifier without lower-case letters may be a macro in a header, unless it is a single letter.
        let macros =
            |text: &str| text.len() > 1 && !text.contains(|c: char| c.is_ascii_lowercase());
        let free = |text: &String| {
            !RESERVED.contains(&text.as_str()) && !macros(text) && !self.taken.contains(text)
        };
        let mut candidate = plain.clone();
        // If the identifier is taken, the suffix of its kind is appended. For values, a number is appended instead.
        if !free(&candidate) && kind != NameKind::Value {
            candidate = format!("{plain}_{}", kind.suffix());
        }
        let mut number = 2;
        while !free(&candidate) {
            candidate = format!("{plain}_{number}");
            number += 1;
        }
        self.taken.insert(candidate.clone());
        candidate
    }

    /// Makes an identifier available again at the end of its scope.
    pub(crate) fn release(&mut self, identifier: &str) {
        self.taken.remove(identifier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_legal_and_unique() {
        let mut names = Names::default();
        let mut check = |kind, name: &str, expected: &str| {
            assert_eq!(names.identifier(kind, name), expected, "{kind:?} {name}");
        };
        check(NameKind::Buffer, "dst", "dst");
        check(NameKind::Buffer, "dst", "dst");
        check(NameKind::Buffer, "dst.back", "dst_back");
        check(NameKind::Buffer, "dst_back", "dst_back_buffer");
        check(NameKind::Buffer, "new", "new_buffer");
        check(NameKind::Event, "hipMalloc", "x_hipMalloc");
        check(NameKind::Event, "want_d", "x_want_d");
        check(NameKind::Generator, "g", "g");
        check(NameKind::Graph, "g", "g_graph");
        check(NameKind::Exec, "g", "g_exec");
        check(NameKind::Stream, "0", "x_0");
        // `export` is a keyword of C++, and headers define `errno`.
        check(NameKind::Buffer, "export", "export_buffer");
        check(NameKind::Buffer, "errno", "errno_buffer");
        check(NameKind::Buffer, "INT_MAX", "INT_MAX_buffer");
        check(NameKind::Buffer, "A", "A");
    }
}
