//! Rewrites Python programs that import rocrepro's helper so that they do not need it.

use std::{collections::BTreeSet, ops::Range, sync::LazyLock};

use regex::{Captures, Regex};

use super::{HELPER, Parameters, PlainHelper, Values, arguments, end_of_imports, initializer};

pub(super) static PLAIN: LazyLock<PlainHelper> =
    LazyLock::new(|| PlainHelper::parse(include_str!("plain.py"), "#: "));

/// Comment in the head of the plain version. The class with the check functions begins there.
const CLASS: &str = "# The checks of this program";

/// Sections that can replace another section with functions of the same names. Programs do not use the names of these
/// sections.
const VARIANTS: [&str; 3] = ["close_by_ulp", "equal_flat", "equal_listed"];

/// Statement of the plain version that returns the result of a check.
const RESULT: &str = "        return bool(right)\n";

/// Functions of the helper that return the result of a check.
const CHECKS: [&str; 7] = ["equal", "close", "same", "holds", "status", "raises", "given_back"];

/// Python modules that sections of the plain version use.
const MODULES: [&str; 3] = ["math", "struct", "sys"];

static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^([ \t]*)import[ \t]+([^\n#;]*\brocrepro\b[^\n#;]*?)[ \t]*(?:#[^\n]*)?$")
        .expect("a valid pattern")
});

static FROM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?m)^([ \t]*)from[ \t]+rocrepro[ \t]+import[ \t]+(?:\(([^)#]*)\)|([^\n#;(]+?))[ \t]*(?:#[^\n]*)?$",
    )
    .expect("a valid pattern")
});

static USE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(\w+)(?:\.(\w+))?").expect("a valid pattern"));

/// A statement that imports the helper.
struct Import {
    range: Range<usize>,
    indent: String,
    /// Other modules that the statement imports.
    others: Vec<String>,
    /// Names that the statement defines, each with its meaning, for example `rocrepro.check`.
    names: Vec<(String, String)>,
}

impl Import {
    /// Returns the statements that replace the import. They do not include the plain version.
    fn statements(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.others.is_empty() {
            lines.push(format!("{}import {}", self.indent, self.others.join(", ")));
        }
        if !self.indent.is_empty() {
            lines.extend(self.assignment());
            // The import may be the only statement in a block, which must not become empty.
            if lines.is_empty() {
                lines.push(format!("{}pass", self.indent));
            }
        }
        lines
    }

    /// Returns the statement that assigns the names that the import defined; `None` if it defined none.
    fn assignment(&self) -> Option<String> {
        let (names, values): (Vec<_>, Vec<_>) = self.names.iter().cloned().unzip();
        let text = format!("{}{} = {}", self.indent, names.join(", "), values.join(", "));
        (!names.is_empty()).then_some(text)
    }

    /// Returns the other names by which the program calls the module.
    fn aliases(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|(_, value)| value == HELPER).map(|(name, _)| name.as_str())
    }
}

pub(super) fn inline(text: &str, parameters: &Parameters, values: Values) -> Option<String> {
    let imports = imports(text)?;
    let mut used = BTreeSet::new();
    let aliases: Vec<&str> = imports.iter().flat_map(Import::aliases).collect();
    for import in &imports {
        let values = import.names.iter().filter_map(|(_, value)| value.split_once('.'));
        used.extend(values.map(|(_, name)| name));
    }
    for found in USE.captures_iter(text) {
        let at = found.get_match().start();
        let word = &found[1];
        if imports.iter().any(|import| import.range.contains(&at)) || is_comment(text, at) {
            continue;
        }
        match found.get(2).map(|name| name.as_str()) {
            Some(name) if word == HELPER || aliases.contains(&word) && PLAIN.has_part(name) => {
                used.insert(name);
            }
            // The program uses the module itself as a value, or imports it by a string.
            None if word == HELPER => return None,
            _ => {}
        }
    }
    if used.is_empty() && imports.is_empty() {
        return Some(text.to_owned());
    }
    let known = used.iter().all(|name| PLAIN.has_part(name) && !VARIANTS.contains(name));
    if !known || imports.is_empty() {
        return None;
    }
    if used.contains("close") && counts_ulps(text) {
        used.remove("close");
        used.insert("close_by_ulp");
    }
    let variant = match values {
        Values::Any => None,
        Values::Flat => Some("equal_flat"),
        Values::Listed => Some("equal_listed"),
    };
    if let Some(variant) = variant.filter(|_| used.remove("equal")) {
        used.insert(variant);
    }
    let mut block = block(used, parameters);
    if !uses_results(text, &imports) {
        block = block.replace(RESULT, "");
    }
    let is_new = |line: &&str| !line.starts_with("import ") || text.lines().all(|own| own != *line);
    let block: String = block.lines().filter(is_new).map(|line| format!("{line}\n")).collect();
    insert(text, &imports, &block)
}

/// Returns true if the program may use the result of a check. A check whose result is not used is a statement.
fn uses_results(text: &str, imports: &[Import]) -> bool {
    let checks = |line: &str| {
        USE.captures_iter(line).any(|found| {
            let name = found.get(2).map(|name| name.as_str());
            &found[1] == HELPER && name.is_some_and(|name| CHECKS.contains(&name))
        })
    };
    let is_statement = |line: &str| {
        let call = line.trim_start().strip_prefix("rocrepro.");
        let is_whole = line.trim_end().ends_with([')', ',', '(', '['])
            && [" or ", " and ", " if "].iter().all(|word| !line.contains(word));
        call.is_some_and(|call| !checks(call) && is_whole)
    };
    imports.iter().any(|import| !import.names.is_empty())
        || text.lines().any(|line| checks(line) && !is_statement(line))
}

/// Returns all statements that import the helper; `None` if an import has a form that cannot be rewritten.
fn imports(text: &str) -> Option<Vec<Import>> {
    let mut all = Vec::new();
    for found in IMPORT.captures_iter(text) {
        let (mut others, mut names) = (Vec::new(), Vec::new());
        for one in found[2].split(',') {
            match *one.split_whitespace().collect::<Vec<_>>() {
                [HELPER] => {}
                [HELPER, "as", alias] => names.push((alias.to_owned(), HELPER.to_owned())),
                _ if one.contains(HELPER) => return None,
                _ => others.push(one.trim().to_owned()),
            }
        }
        all.push(import(&found, others, names));
    }
    for found in FROM.captures_iter(text) {
        let list = found.get(2).or(found.get(3)).map_or("", |list| list.as_str());
        let mut names = Vec::new();
        for one in list.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let (name, new) = match *one.split_whitespace().collect::<Vec<_>>() {
                [name] => (name, name),
                [name, "as", new] => (name, new),
                _ => return None,
            };
            names.push((new.to_owned(), format!("{HELPER}.{name}")));
        }
        all.push(import(&found, Vec::new(), names));
    }
    all.sort_by_key(|import| import.range.start);
    Some(all)
}

fn import(found: &Captures<'_>, others: Vec<String>, names: Vec<(String, String)>) -> Import {
    Import { range: found.get_match().range(), indent: found[1].to_owned(), others, names }
}

/// Returns true if a number sign precedes the offset in its line.
fn is_comment(text: &str, at: usize) -> bool {
    text[..at].rsplit('\n').next().unwrap_or_default().contains('#')
}

/// Returns true if a call of `close` may state its tolerance in units in the last place.
fn counts_ulps(text: &str) -> bool {
    let mut calls = text.split("close(").skip(1).map(arguments);
    let named = |argument: &str| argument.starts_with("**") || argument.contains('=');
    text.contains("ulp") || calls.any(|call| call.get(3).is_some_and(|fourth| !named(fourth)))
}

/// Returns the plain version of the functions that the program uses.
fn block(used: BTreeSet<&str>, parameters: &Parameters) -> String {
    let mentions = |text: &str, name: &str| {
        USE.captures_iter(text).any(|found| {
            &found[1] == HELPER && found.get(2).is_some_and(|word| word.as_str() == name)
        })
    };
    let parts = PLAIN.with_needed(used, mentions).join("\n");
    let values = initializer(parameters, |name, value| format!("{name}: {value}"));
    let parts = parts.replace("values = {}", &format!("values = {{{values}}}"));
    let class = PLAIN.head.find(CLASS).map_or("", |at| &PLAIN.head[at..]).trim_end();
    let modules = MODULES.iter().filter(|module| parts.contains(&format!("{module}.")));
    let modules: String = modules.map(|module| format!("import {module}\n")).collect();
    format!("{modules}\n\n{class}\n{parts}\n")
}

/// Replaces the imports of the helper, and inserts the plain version after the program's other imports. Returns `None`
/// if the plain version has no place, because the program has an import of `__future__`.
fn insert(text: &str, imports: &[Import], block: &str) -> Option<String> {
    let place = match imports.iter().find(|import| import.indent.is_empty()) {
        Some(import) => end_of_imports(text, with_newline(text, import), &["import ", "from "]),
        // No statement may precede an import of this module.
        None if text.contains("__future__") => return None,
        None => end_of_imports(text, 0, &["#"]),
    };
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut names = String::new();
    for import in imports {
        let mut range = import.range.clone();
        let lines = import.statements();
        if lines.is_empty() {
            range.end = with_newline(text, import);
        }
        if import.indent.is_empty() {
            names.extend(import.assignment().map(|line| format!("{line}\n")));
        }
        edits.push((range, lines.join("\n")));
    }
    let behind = if text[place..].starts_with('\n') { "" } else { "\n" };
    edits.push((place..place, format!("{block}{names}{behind}")));
    edits.sort_by_key(|(range, _)| range.start);
    let (mut out, mut at) = (String::new(), 0);
    for (range, new) in edits {
        out.push_str(&text[at..range.start]);
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(&text[at..]);
    Some(out.trim_start_matches('\n').to_owned())
}

/// Returns the offset after the last line of an import.
fn with_newline(text: &str, import: &Import) -> usize {
    let end = import.range.end;
    end + usize::from(text[end..].starts_with('\n'))
}
