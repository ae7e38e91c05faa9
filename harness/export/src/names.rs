//! Identifiers for the names of a plan.

use std::collections::{BTreeMap, BTreeSet};

use plan::Thing;

/// What a name in a plan stands for; the same name may stand for several things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Buffer,
    Stream,
    Event,
    Graph,
    Exec,
    Kernel,
    Generator,
    Blaslt,
    Rocblas,
    /// What a call of any function gave.
    Given,
    Loop,
    Value,
}

impl From<Thing> for Kind {
    fn from(thing: Thing) -> Kind {
        match thing {
            Thing::Buffer => Kind::Buffer,
            Thing::Stream => Kind::Stream,
            Thing::Kernel => Kind::Kernel,
            Thing::Event => Kind::Event,
            Thing::Graph => Kind::Graph,
            Thing::Exec => Kind::Exec,
            Thing::Generator => Kind::Generator,
            Thing::Blaslt => Kind::Blaslt,
            Thing::Rocblas => Kind::Rocblas,
            Thing::Value => Kind::Given,
        }
    }
}

impl Kind {
    /// What is appended where an identifier is taken.
    const fn suffix(self) -> &'static str {
        match self {
            Kind::Buffer => "buffer",
            Kind::Stream => "stream",
            Kind::Event => "event",
            Kind::Graph => "graph",
            Kind::Exec => "exec",
            Kind::Kernel => "kernel",
            Kind::Generator => "generator",
            Kind::Blaslt | Kind::Rocblas => "handle",
            Kind::Given => "given",
            Kind::Loop => "round",
            Kind::Value => "value",
        }
    }
}

/// Words that mean something else in the printed programs.
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

/// What functions of the libraries begin with, and variables that hold what a buffer must hold.
const PREFIXES: &[&str] = &["before_want_", "hip", "roc", "want_"];

/// Identifiers, given out once each.
#[derive(Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
    given: BTreeMap<(Kind, String), String>,
}

impl Names {
    /// The identifier of a name; the same one every time.
    pub(crate) fn of(&mut self, kind: Kind, name: &str) -> String {
        if let Some(given) = self.given.get(&(kind, name.to_owned())) {
            return given.clone();
        }
        let identifier = self.fresh(kind, name);
        self.given.insert((kind, name.to_owned()), identifier.clone());
        identifier
    }

    /// An identifier like `name` that nothing else has.
    pub(crate) fn fresh(&mut self, kind: Kind, name: &str) -> String {
        let mut plain: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let taken = PREFIXES.iter().any(|prefix| plain.starts_with(prefix));
        if taken || !plain.starts_with(|c: char| c.is_ascii_alphabetic()) {
            plain.insert_str(0, "x_");
        }
        // Macros of the headers have no small letters; a single letter is none.
        let macros =
            |text: &str| text.len() > 1 && !text.contains(|c: char| c.is_ascii_lowercase());
        let free = |text: &String| {
            !RESERVED.contains(&text.as_str()) && !macros(text) && !self.taken.contains(text)
        };
        let mut candidate = plain.clone();
        // One more value of its sort is told apart by its number.
        if !free(&candidate) && kind != Kind::Value {
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

    /// Takes a fresh identifier back, where its scope ends.
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
            assert_eq!(names.of(kind, name), expected, "{kind:?} {name}");
        };
        check(Kind::Buffer, "dst", "dst");
        check(Kind::Buffer, "dst", "dst");
        check(Kind::Buffer, "dst.back", "dst_back");
        check(Kind::Buffer, "dst_back", "dst_back_buffer");
        check(Kind::Buffer, "new", "new_buffer");
        check(Kind::Event, "hipMalloc", "x_hipMalloc");
        check(Kind::Event, "want_d", "x_want_d");
        check(Kind::Generator, "g", "g");
        check(Kind::Graph, "g", "g_graph");
        check(Kind::Exec, "g", "g_exec");
        check(Kind::Stream, "0", "x_0");
        // Of the language, and of its headers.
        check(Kind::Buffer, "export", "export_buffer");
        check(Kind::Buffer, "errno", "errno_buffer");
        check(Kind::Buffer, "INT_MAX", "INT_MAX_buffer");
        check(Kind::Buffer, "A", "A");
    }
}
