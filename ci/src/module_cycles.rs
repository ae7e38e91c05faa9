//! Finds cyclic dependencies between the top-level modules of a crate. The modules of a cycle can only be understood
//! together. The check reads the paths that start at the root of the crate, with `crate` or with enough `super`, and
//! the names that the root re-exports.

use std::collections::{BTreeMap, BTreeSet};

use xshell::{Shell, cmd};

/// An accepted cycle: the crate, and each module of the cycle with the reason for its dependency.
type AcceptedCycle = (&'static str, &'static [(&'static str, &'static str)]);

const ACCEPTED_CYCLES: [AcceptedCycle; 2] = [
    (
        "emulator",
        &[
            (
                "copy_engine",
                "asks `schedule` whether the engine has its own thread, and reports host calls to `schedule`",
            ),
            (
                "queue",
                "the doorbell of a queue is a signal, and `schedule` decides when the queue runs",
            ),
            ("rest", "waits for queues and for signal handlers when the process ends"),
            (
                "schedule",
                "executes the work of queues and copy engines when the host waits for a signal",
            ),
            (
                "signal",
                "a store to a doorbell signal starts its queue, and each wait is reported to `schedule`",
            ),
        ],
    ),
    (
        "stacks",
        &[
            (
                "builds",
                "lists the releases of `debian` as builds, and also the nightly builds of an index",
            ),
            (
                "debian",
                "stores packages in the cache of `keep`, with the locks and shared files of that cache",
            ),
            ("keep", "fetches releases with `debian`, and unpacks archives that `builds` lists"),
            (
                "locate",
                "needs the list of releases in `debian`, and finds stacks in the cache of `keep`",
            ),
            (
                "unpack",
                "returns error types of `debian` and `keep`, and links equal files to the blobs of `keep`",
            ),
        ],
    ),
];

type Graph = BTreeMap<String, BTreeSet<String>>;

#[derive(Default)]
struct Crate {
    root: String,
    uses: Graph,
    public: BTreeMap<String, BTreeSet<String>>,
}

/// Checks the modules of all crates in `harness/`.
///
/// # Errors
/// Lists every cycle that is not accepted, and every accepted cycle that does not exist any more.
pub(crate) fn check(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for file in cmd!(sh, "git ls-files harness/*/src/*.rs").read()?.lines() {
        let mut parts = file.splitn(4, '/').skip(1);
        let (Some(name), Some(_), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if path.split('/').any(|part| part.trim_end_matches(".rs") == "tests") {
            continue;
        }
        let Crate { root, uses, public } = crates.entry(name.to_owned()).or_default();
        let text = sh.read_file(file)?;
        if ["lib.rs", "main.rs"].contains(&path) {
            root.push_str(&text);
            continue;
        }
        let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        public.entry(module.to_owned()).or_default().extend(declared(&text));
        let used = uses.entry(module.to_owned()).or_default();
        used.extend(used_by(&text, path.split('/').count()));
        used.remove(module);
    }
    let mut problems = Vec::new();
    for (name, Crate { root, uses: mut graph, public }) in crates {
        // A name that the root re-exports counts as a name of the module that declares it.
        let handed_on = reexports(&root, &public);
        for (module, used) in &mut graph {
            let through = used.iter().filter_map(|name| handed_on.get(name)).cloned();
            let through: Vec<String> = through.filter(|other| other != module).collect();
            used.extend(through);
        }
        let known =
            ACCEPTED_CYCLES.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, known)| known);
        let known: BTreeSet<&str> = known.iter().map(|(module, _)| *module).collect();
        if let Some(modules) = find_cycle(&merge_modules(&graph, &known)) {
            problems.push(format!(
                "{name}: these modules depend on each other in a cycle: {}",
                modules.join(" -> ")
            ));
        }
        for module in known.iter().filter(|module| !is_cyclic(&graph, &known, module)) {
            problems.push(format!(
                "{name}: {module} is not in a cycle any more; remove it from `CIRCLES`"
            ));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Returns, for each name that the root re-exports, the module that declares it. `public` contains the public names of
/// each module.
fn reexports(root: &str, public: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in root.split(';') {
        let Some((_, path)) = statement.rsplit_once("use ") else { continue };
        let Some((module, names)) = path.trim().split_once("::") else { continue };
        let all = public.get(module).filter(|_| names == "*").into_iter().flatten();
        found.extend(all.map(|name| (name.clone(), module.to_owned())));
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for name in names.split(|c: char| !is_word(c)).filter(|name| !name.is_empty()) {
            found.insert(name.to_owned(), module.to_owned());
        }
    }
    found
}

fn declared(text: &str) -> BTreeSet<String> {
    const KINDS: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "unsafe"];
    let public = text.lines().filter_map(|line| line.strip_prefix("pub "));
    let named = |line: &str| name(line.split(' ').find(|word| !KINDS.contains(word))?);
    public.filter_map(named).collect()
}

/// Returns the names at the root of the crate that a file uses outside of its tests. `levels` is the number of module
/// levels between the root and the file.
fn used_by(text: &str, levels: usize) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.replace(&"super::".repeat(levels), "crate::");
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => found.extend(name(rest)),
            Some(list) => {
                let mut depth = 0;
                // A name begins at the start of the list, and after each comma outside of inner braces.
                found.extend(name(list));
                for (at, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => found.extend(name(&list[at + 1..])),
                        _ => {}
                    }
                }
            }
        }
    }
    found
}

/// Returns the first name in a path; `None` if the path does not begin with a name.
fn name(path: &str) -> Option<String> {
    let path = path.trim_start();
    let end = path.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(path.len());
    let name = &path[..end];
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns a copy of the graph in which the modules `modules` are merged into one module.
fn merge_modules(graph: &Graph, modules: &BTreeSet<&str>) -> Graph {
    let all = modules.iter().copied().collect::<Vec<_>>().join("+");
    let of = |name: &String| if modules.contains(&**name) { all.clone() } else { name.clone() };
    let mut whole = Graph::new();
    for (module, used) in graph {
        let module = of(module);
        let used: Vec<String> = used.iter().map(of).filter(|used| *used != module).collect();
        whole.entry(module).or_default().extend(used);
    }
    whole
}

/// Returns true if `module` depends on itself through the modules in `modules`.
fn is_cyclic(graph: &Graph, modules: &BTreeSet<&str>, module: &str) -> bool {
    let used = |of: &str| graph.get(of).into_iter().flatten().map(String::as_str);
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = used(module).collect();
    while let Some(next) = open.pop() {
        if modules.contains(next) && reached.insert(next) {
            open.extend(used(next));
        }
    }
    reached.contains(module)
}

/// Returns a cycle in the graph, if it contains one: each module uses the next one, and the last module equals the
/// first one.
fn find_cycle(graph: &Graph) -> Option<Vec<String>> {
    fn follow<'a>(
        graph: &'a Graph,
        at: &'a str,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<String>> {
        if let Some(first) = path.iter().position(|before| *before == at) {
            return Some(path[first..].iter().chain([&at]).map(ToString::to_string).collect());
        }
        let used = graph.get(at).filter(|_| done.insert(at))?;
        path.push(at);
        let found = used.iter().find_map(|next| follow(graph, next, path, done));
        path.pop();
        found
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|start| follow(graph, start, &mut Vec::new(), &mut done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_dependencies_from_paths() {
        let text = "use crate::{\n    Machine,\n    a::{B, c::D},\n    e::F,\n};\nuse crate::g::H;\n\
                    // crate::no\n#[cfg(test)]\nmod tests;\nfn f() { crate::i::j(super::no, super::super::l::M) }\n\
                    #[cfg(test)]\nmod tests { use crate::k; }";
        let used: Vec<String> = used_by(text, 2).into_iter().collect();
        assert_eq!(used, ["Machine", "a", "e", "g", "i", "l"]);
        let all = declared("pub const fn all() {}\npub(crate) fn no() {}\nfn no() {}");
        let public = BTreeMap::from([("o".to_owned(), all)]);
        let root = "mod m;\npub use m::{Machine, n::Part};\npub(crate) use k::help;\n\
                    pub use o::*;\nuse std::fmt;";
        let handed_on = reexports(root, &public);
        let of = |name: &str| handed_on.get(name).map(String::as_str);
        assert_eq!(
            [of("Machine"), of("Part"), of("help"), of("all"), of("m"), of("no")],
            [Some("m"), Some("m"), Some("k"), Some("o"), None, None]
        );
    }

    fn graph(uses: &[(&str, &[&str])]) -> Graph {
        let set = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        uses.iter().map(|(name, used)| ((*name).to_owned(), set(used))).collect()
    }

    #[test]
    fn accepts_only_cycles_of_the_named_modules() {
        let uses = graph(&[("a", &["b"]), ("b", &["c", "x"]), ("c", &["b"]), ("x", &["y"])]);
        let known = BTreeSet::from(["b", "c", "x"]);
        assert_eq!(find_cycle(&merge_modules(&uses, &known)), None);
        let back = known.iter().map(|module| is_cyclic(&uses, &known, module));
        assert_eq!(back.collect::<Vec<_>>(), [true, true, false]);
        // A cycle through a module outside of the accepted set is not accepted.
        let uses = graph(&[("b", &["c", "x"]), ("c", &["b"]), ("x", &["b"])]);
        let found = find_cycle(&merge_modules(&uses, &BTreeSet::from(["b", "c"])));
        assert_eq!(found, Some(["b+c", "x", "b+c"].map(str::to_owned).into()));
    }

    #[test]
    fn finds_a_cycle_and_accepts_a_diamond() {
        let diamond: &[(&str, &[&str])] =
            &[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &["e"])];
        assert_eq!(find_cycle(&graph(diamond)), None);
        let ring: &[(&str, &[&str])] =
            &[("a", &["b"]), ("b", &["x", "c"]), ("c", &["d"]), ("d", &["b"])];
        assert_eq!(find_cycle(&graph(ring)), Some(["b", "c", "d", "b"].map(str::to_owned).into()));
    }
}
