//! Finds files of a crate that use each other in a cycle. Such files can only be understood together.
//!
//! A file may use the declarations of its own parent modules, and a parent may use its children, because this is how a
//! module is divided into files. Every other path from one file to another counts as a use. If a path uses a
//! re-exported name, it counts as a use of the file that declares the name.

use std::collections::{BTreeMap, BTreeSet};

use xshell::{Shell, cmd};

/// An accepted cycle: the crate, the paths of the files in the cycle, and the reason why it is accepted.
type AcceptedCycle = (&'static str, &'static [&'static str], &'static str);

const ACCEPTED_CYCLES: &[AcceptedCycle] = &[
    (
        "emulator",
        &["copy_engine", "queue", "rest", "schedule", "signal"],
        "a store to a signal starts a queue, and a wait for a signal executes work of queues and copy engines",
    ),
    (
        "engine",
        &[
            "exported/line_search",
            "exported/neighbour",
            "exported/program_runner",
            "exported/shortest",
        ],
        "the searches run candidates with the functions of `shortest`, which calls the searches",
    ),
    (
        "isa",
        &[
            "ops/atomic",
            "ops/buffer",
            "ops/gather",
            "ops/image",
            "ops/lds",
            "ops/memory",
            "ops/memory/address",
            "ops/scratch",
            "ops/to_lds",
            "ops/transpose",
            "ops/typed",
        ],
        "memory instructions share their operand types, and each calls the module of the address space",
    ),
];

/// Path of a module below the root of its crate.
type Module = Vec<String>;

#[derive(Default)]
struct Files {
    /// Code of each file, without comments and without the module `tests`.
    code: BTreeMap<Module, String>,
    declared: BTreeMap<Module, BTreeSet<String>>,
    uses: BTreeMap<Module, Vec<Vec<String>>>,
}

/// Checks the files of all crates in `harness/`.
///
/// # Errors
/// Returns every cycle that is not accepted, and every accepted cycle that does not exist any more.
pub(crate) fn check(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let mut crates: BTreeMap<String, Files> = BTreeMap::new();
    for file in cmd!(sh, "git ls-files harness/*/src/*.rs").read()?.lines() {
        let mut parts = file.splitn(4, '/').skip(1);
        let (Some(name), Some(_), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if !module.iter().any(|part| part == "tests") {
            crates.entry(name.to_owned()).or_default().add(module, &sh.read_file(file)?);
        }
    }
    let mut problems = Vec::new();
    for (name, files) in &crates {
        let found: BTreeSet<String> =
            find_cycles(&files.graph()).iter().map(|cycle| cycle.join(" ")).collect();
        let known = ACCEPTED_CYCLES.iter().filter(|(of, ..)| of == name).map(|(_, cycle, _)| cycle);
        let known: BTreeSet<String> = known.map(|cycle| cycle.join(" ")).collect();
        problems.extend(
            found
                .difference(&known)
                .map(|cycle| format!("{name}: these files depend on each other: {cycle}")),
        );
        problems.extend(known.difference(&found).map(|cycle| {
            let gone = "these files do not depend on each other any more; remove them from `KNOWN`";
            format!("{name}: {gone}: {cycle}")
        }));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

impl Files {
    fn add(&mut self, mut module: Module, text: &str) {
        if ["lib", "main", "mod"].map(Some).contains(&module.last().map(String::as_str)) {
            module.pop();
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code: Vec<&str> =
            code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        self.declared.insert(module.clone(), declared(&code));
        self.uses.insert(module.clone(), uses(&code));
        self.code.insert(module, code);
    }

    /// Returns the files that each file uses. Parent modules of a file are left out.
    fn graph(&self) -> BTreeMap<String, BTreeSet<String>> {
        let edges = self.code.iter().map(|(module, code)| {
            let paths = self.uses[module].iter().cloned().chain(paths(code));
            let inside = paths.filter(|path| self.is_inside(module, path));
            let used = inside.map(|path| self.resolve(module, &path, 0));
            let used: BTreeSet<String> =
                used.filter(|used| !module.starts_with(used)).map(|used| used.join("/")).collect();
            (module.join("/"), used)
        });
        edges.collect()
    }

    /// Returns true if a path in the file of `module` refers to an item of the same crate.
    fn is_inside(&self, module: &Module, path: &[String]) -> bool {
        let first = path.first().map_or("", String::as_str);
        ["crate", "self", "super"].contains(&first)
            || self.code.contains_key(&[module, &[first.to_owned()][..]].concat())
    }

    /// Returns the file that declares the item at the end of a path. If no declaration is found, returns the file of
    /// the last module in the path.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Module {
        let mut at = module.clone();
        let mut rest = path.iter();
        let name = loop {
            let Some(part) = rest.next() else { return at };
            let below = [&at[..], std::slice::from_ref(part)].concat();
            match part.as_str() {
                "crate" => at.clear(),
                "super" => drop(at.pop()),
                "self" => {}
                _ if self.code.contains_key(&below) => at = below,
                name => break name,
            }
        };
        if self.declared.get(&at).is_some_and(|names| names.contains(name)) || depth == 8 {
            return at;
        }
        for used in self.uses.get(&at).into_iter().flatten() {
            let Some((last, before)) = used.split_last() else { continue };
            let path = match last.as_str() {
                "*" => [before, &[name.to_owned()]].concat(),
                last if last == name => used.clone(),
                _ => continue,
            };
            if !before.is_empty() && self.is_inside(&at, &path) {
                let found = self.resolve(&at, &path, depth + 1);
                if last != "*" || self.declared.get(&found).is_some_and(|all| all.contains(name)) {
                    return found;
                }
            }
        }
        at
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn declared(code: &str) -> BTreeSet<String> {
    const KINDS: [&str; 8] =
        ["const", "enum", "fn", "macro_rules!", "static", "struct", "trait", "type"];
    let words: Vec<&str> = code.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| KINDS.contains(&pair[0]));
    pairs.filter_map(|pair| pair[1].split(|c| !is_word(c)).next()).map(str::to_owned).collect()
}

/// Returns the paths that a file imports with `use`, one path for each imported name.
fn uses(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].chars().next_back();
        if before.is_none_or(|c| !is_word(c))
            && let Some((tree, _)) = code[at + 4..].split_once(';')
        {
            expand(tree, &[], &mut found);
        }
    }
    found
}

/// Adds each path in a `use` tree such as `a::{b, c::{self, D as E}}` to `found`.
fn expand(tree: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let (head, list) = match tree.split_once('{') {
        Some((head, list)) => (head, list.rsplit_once('}').map_or(list, |(list, _)| list)),
        None => (tree, ""),
    };
    let head = head.split(" as ").next().unwrap_or_default();
    let head = head.split("::").map(str::trim).filter(|part| !part.is_empty());
    let path: Vec<String> = before.iter().cloned().chain(head.map(str::to_owned)).collect();
    if list.is_empty() {
        found.push(path);
        return;
    }
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&list[begin..at], &path, found);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if !list[begin..].trim().is_empty() {
        expand(&list[begin..], &path, found);
    }
}

/// Returns all paths in a file that consist of at least two names.
fn paths(code: &str) -> impl Iterator<Item = Vec<String>> {
    let words = code.split(|c| !(is_word(c) || c == ':'));
    let paths = words.map(|word| word.split("::").map(str::to_owned).collect::<Vec<_>>());
    paths.filter(|path| path.len() > 1 && path.iter().all(|part| !part.is_empty()))
}

/// Returns the groups of files in which each file uses every other file, directly or through other files.
fn find_cycles(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(used) = open.pop().and_then(|file| graph.get(file)) {
            open.extend(used.iter().filter(|file| reached.insert((*file).clone())));
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        graph.keys().map(|file| (file, reached(file))).collect();
    let mut found = BTreeSet::new();
    for (file, from) in &reached {
        let back =
            from.iter().filter(|other| reached.get(other).is_some_and(|r| r.contains(*file)));
        let cycle: Vec<String> = back.cloned().collect();
        if cycle.len() > 1 {
            found.insert(cycle);
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which cycles are found in a crate that consists of these files.
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&[&str]]) {
        let mut all = Files::default();
        for (path, text) in files {
            all.add(path.split('/').map(str::to_owned).collect(), text);
        }
        assert_eq!(find_cycles(&all.graph()), expected);
    }

    #[test]
    fn finds_cycles_between_files_of_one_module() {
        let a = "use super::b::{self, c::D};\nfn a() {}";
        check(&[("m/a", a), ("m/b", "fn b() { super::a::a() }"), ("m", "")], &[&["m/a", "m/b"]]);
        check(&[("m/a", a), ("m/b", "// super::a::a()"), ("m", "")], &[]);
        let test = "#[cfg(test)]\nmod tests {\n use super::super::a;\n}";
        check(&[("m/a", a), ("m/b", test), ("m", "")], &[]);
    }

    #[test]
    fn follows_names_that_a_module_exports_again() {
        let lib = "mod a;\nmod b;\npub use a::{A, make as made};\npub use b::*;";
        let (a, b) = ("use crate::B;\npub struct A;", "pub struct B(crate::A);");
        check(&[("lib", lib), ("a", a), ("b", b)], &[&["a", "b"]]);
        check(&[("lib", lib), ("a", a), ("b", "pub struct B;")], &[]);
    }

    #[test]
    fn lets_files_use_their_parents() {
        let parent = "mod child;\nfn f() { child::g() }\nstruct S;";
        check(&[("m", parent), ("m/child", "use super::S;\nfn g() {}")], &[]);
        let three = [("a", "use crate::b;"), ("b", "use crate::c;"), ("c", "use crate::a;")];
        check(&three, &[&["a", "b", "c"]]);
    }
}
