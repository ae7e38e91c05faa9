//! Which modules of a crate use each other in a circle: what goes in one can only be read as a whole.

use std::collections::{BTreeMap, BTreeSet};

use xshell::{Shell, cmd};

/// Crates whose modules still do; none may come to these.
const WITH_CIRCLES: [&str; 8] =
    ["case", "chaos", "cli", "emulator", "export", "rocm", "store", "worker"];

/// Which modules each module of a crate uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks the crates of the harness.
///
/// # Errors
/// Every crate with a circle that is not known, and every known one without.
pub(crate) fn check(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let mut crates: BTreeMap<String, Graph> = BTreeMap::new();
    for file in cmd!(sh, "git ls-files harness/*/src/*.rs").read()?.lines() {
        let mut parts = file.splitn(4, '/').skip(1);
        let (Some(name), Some(_), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if path.contains("tests") {
            continue;
        }
        let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let graph = crates.entry(name.to_owned()).or_default();
        let used = graph.entry(module.to_owned()).or_default();
        used.extend(uses(&sh.read_file(file)?));
        used.remove(module);
    }
    let mut problems = Vec::new();
    for (name, mut graph) in crates {
        // The root hands on what its modules have.
        graph.remove("lib");
        graph.remove("main");
        let known = WITH_CIRCLES.contains(&name.as_str());
        match (circle(&graph), known) {
            (Some(modules), false) => {
                problems.push(format!("{name}: modules use each other: {}", modules.join(" -> ")));
            }
            (None, true) => {
                problems.push(format!("{name} has no circle any more; take it off the list"))
            }
            _ => {}
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// The modules of its own crate that a file uses, but for its tests.
fn uses(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => found.extend(name(rest)),
            Some(list) => {
                let mut depth = 0;
                // A name stands at the beginning and behind each comma that is in no inner braces.
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

/// The name of a module at the beginning of a path; types and constants have capitals.
fn name(path: &str) -> Option<String> {
    let path = path.trim_start();
    let end = path.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(path.len());
    let name = &path[..end];
    name.starts_with(|c: char| c.is_ascii_lowercase()).then(|| name.to_owned())
}

/// Modules of which each uses the next, and the last the first.
fn circle(graph: &Graph) -> Option<Vec<String>> {
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
    fn what_a_file_uses_is_read_from_its_paths() {
        let text = "use crate::{\n    Machine,\n    a::{B, c::D},\n    e::F,\n};\nuse crate::g::H;\n\
                    // crate::no\nfn f() { crate::i::j() }\n#[cfg(test)]\nmod tests { use crate::k; }";
        let used: Vec<String> = uses(text).into_iter().collect();
        assert_eq!(used, ["a", "e", "g", "i"]);
    }

    #[test]
    fn a_circle_is_found_and_a_diamond_is_none() {
        let graph = |uses: &[(&str, &[&str])]| -> Graph {
            let set = |all: &[&str]| all.iter().map(ToString::to_string).collect();
            uses.iter().map(|(name, used)| ((*name).to_owned(), set(used))).collect()
        };
        let diamond: &[(&str, &[&str])] =
            &[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &["e"])];
        assert_eq!(circle(&graph(diamond)), None);
        let ring: &[(&str, &[&str])] =
            &[("a", &["b"]), ("b", &["x", "c"]), ("c", &["d"]), ("d", &["b"])];
        assert_eq!(circle(&graph(ring)), Some(["b", "c", "d", "b"].map(str::to_owned).into()));
    }
}
