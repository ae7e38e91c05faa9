//! Tests and writes docs/coverage.md: the functions that the cases of the library call, and the upstream issues that
//! they reproduce.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
};

use case::{Case, analyse};
use plan::{Call, Plan, Step};

use super::texts::{CASES, KERNELS, assert_page, root};

const PAGE: &str = "docs/coverage.md";

/// HIP functions that libamdhip64 of 7.2.4 exports, one per line. A test of the command line compares this list with
/// the library.
const EXPORTED: &str = include_str!("../exported-7.2.4.txt");

/// Upstream issues that were read in order to decide what the library of cases must reproduce.
const LIST: &str = "cases/issues.toml";

/// Cases that use one HIP function: all of them, and those that use it in a certain way.
#[derive(Default)]
struct Uses {
    cases: BTreeSet<String>,
    in_capture: BTreeSet<String>,
    as_node: BTreeSet<String>,
    refused: BTreeSet<String>,
}

fn note(found: &mut BTreeMap<&'static str, Uses>, case: &str, plan: &Plan) {
    let captured = plan::captured_steps(plan);
    let refused = |step: &Step| {
        let ranges = step.returns.iter().flat_map(|by| by.0.iter());
        ranges.into_iter().any(|(_, names)| !plan::accepts_success(names))
    };
    for step in plan.steps() {
        let added = matches!(step.call, Call::AddNode { .. } | Call::GraphAddChild { .. });
        for function in step.call.functions(plan) {
            let uses = found.entry(function).or_default();
            let mut put = |set: fn(&mut Uses) -> &mut BTreeSet<String>, when: bool| {
                if when {
                    set(uses).insert(case.to_owned());
                }
            };
            put(|uses| &mut uses.cases, true);
            put(|uses| &mut uses.in_capture, captured.during.contains(&step.id));
            put(|uses| &mut uses.as_node, added || captured.inside.contains(&step.id));
            put(|uses| &mut uses.refused, refused(step));
        }
    }
}

fn lines(words: &[&str]) -> String {
    words.chunks(4).map(|some| format!("\n* {}", some.join(", "))).collect()
}

fn page() -> String {
    let mut functions = BTreeMap::new();
    let mut issues: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let mut related: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, text) in CASES.iter() {
        let case = Case::parse(id, text).unwrap_or_else(|mistakes| panic!("{id}: {mistakes:?}"));
        // Programs are left out, because their calls are unknown before they run.
        for trial in case.trials().into_iter().filter(|_| !case.is_program()) {
            let plan = analyse(&case, &trial, &KERNELS).unwrap_or_else(|m| panic!("{id}: {m:?}"));
            note(&mut functions, id, &plan);
        }
        for issue in &case.upstream {
            let ways = issues.entry(issue.clone()).or_default().entry(id.clone()).or_default();
            let shown = case.faults.iter().filter(|fault| fault.shows.contains(issue));
            ways.extend(shown.map(|fault| format!("fault `{}`", fault.planted.fault.name())));
            let known = case.known.iter().filter(|known| known.upstream.as_ref() == Some(issue));
            ways.extend(known.map(|known| format!("known on ROCm {}", known.rocm)));
        }
        for issue in &case.related {
            related.entry(issue.clone()).or_default().insert(id.clone());
        }
    }
    let mut page = format!(
        "# What the library covers\n\nWritten by `cargo run -p ci -- coverage` from the {} cases of the library, with all of their trials. Of\nthose that are programs it counts the issues alone.\n\n\
         ## Functions\n\n{} functions are called. The columns count cases: that call the function, that call it while a stream is captured, where it makes or \
         becomes a node of a graph, and that want it to be refused.\n\n\
         | function | cases | in a capture | node | refused |\n| --- | ---: | ---: | ---: | ---: |\n",
        CASES.len(),
        functions.len(),
    );
    for (function, uses) in &functions {
        let Uses { cases, in_capture, as_node, refused } = uses;
        let counts = [cases, in_capture, as_node, refused].map(|set| match set.len() {
            0 => String::new(),
            count => count.to_string(),
        });
        let _ = writeln!(page, "| {function} | {} |", counts.join(" | "));
    }
    let without: Vec<_> =
        plan::functions().filter(|function| !functions.contains_key(function)).collect();
    if !without.is_empty() {
        let _ = writeln!(page, "\nThe language has these as well: {}.", without.join(", "));
    }
    let exported: Vec<&str> = EXPORTED.lines().collect();
    let (called, left): (Vec<&str>, Vec<&str>) =
        exported.iter().partition(|function| functions.contains_key(*function));
    let _ = writeln!(
        page,
        "\nOf the {} functions that libamdhip64 of 7.2.4 exports by names that begin with `hip`, but for hipRTC's, {} are called. The rest:\n{}",
        exported.len(),
        called.len(),
        lines(&left)
    );
    let _ = write!(
        page,
        "\n## Issues\n\n{} upstream issues are shown: an injected fault reproduces the symptom, or a release has it.\n\n\
         | issue | case | how |\n| --- | --- | --- |\n",
        issues.len()
    );
    for (issue, cases) in &issues {
        for (case, ways) in cases {
            let ways: Vec<_> = ways.iter().map(String::as_str).collect();
            let _ = writeln!(page, "| {issue} | {case} | {} |", ways.join(", "));
        }
    }
    related.retain(|issue, _| !issues.contains_key(issue));
    let _ = write!(
        page,
        "\n{} more are about something that a case does, and no trial could show their symptom.\n\n\
         | issue | cases |\n| --- | --- |\n",
        related.len()
    );
    for (issue, cases) in &related {
        let cases: Vec<_> = cases.iter().map(String::as_str).collect();
        let _ = writeln!(page, "| {issue} | {} |", cases.join(", "));
    }
    page.push_str(&answers(&listed(), &issues));
    page
}

struct Listed {
    of: String,
    title: String,
    /// Why no case reproduces the issue, as a category and an explanation; `None` if a case reproduces it.
    why: Option<(String, String)>,
}

fn listed() -> Vec<Listed> {
    let text = fs::read_to_string(root().join(LIST)).expect("the list is part of the project");
    read_list(&text)
}

fn read_list(text: &str) -> Vec<Listed> {
    let table: toml::Table = text.parse().unwrap_or_else(|e| panic!("{LIST}: {e}"));
    let (key, issues) = table.iter().next().expect("a list");
    assert_eq!((key.as_str(), table.len()), ("issue", 1), "{LIST}");
    let issues = issues.as_array().expect("a list").iter();
    let read = issues.map(|issue| {
        let mut entry = issue.as_table().expect("an issue").clone();
        let mut text = |key: &str| match entry.remove(key)? {
            toml::Value::String(text) if !text.is_empty() => Some(text),
            other => panic!("{LIST}: `{key}` is not a text: {other:?}"),
        };
        let (of, title) = (text("of").expect("`of`"), text("title").expect("`title`"));
        let whys = ["cannot", "not_yet"].map(|key| Some((key.to_owned(), text(key)?)));
        let whys: Vec<_> = whys.into_iter().flatten().collect();
        assert!(whys.len() < 2, "{LIST}: {of} has two reasons");
        assert!(entry.is_empty(), "{LIST}: {of} has {entry:?} as well");
        Listed { of, title, why: whys.into_iter().next() }
    });
    read.collect()
}

/// Returns the mistakes in the list of issues. An issue must be listed once. It must have either a case that reproduces
/// it, or a reason why no case does.
fn mistakes(listed: &[Listed], shown: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let wrong = listed.iter().filter_map(|Listed { of, why, .. }| match (shown(of), why) {
        _ if !seen.insert(of) => Some(format!("{of} stands there twice")),
        (true, Some((key, _))) => Some(format!("{of} is shown by a case and has `{key}`")),
        (false, None) => Some(format!("{of} is shown by no case and has no reason")),
        _ => None,
    });
    wrong.collect()
}

/// Returns the section of the page that says, for each issue that was read, which case reproduces it, or why none does.
fn answers(
    listed: &[Listed],
    shown: &BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
) -> String {
    let wrong = mistakes(listed, &|of| shown.contains_key(of));
    assert!(wrong.is_empty(), "{LIST}: {}", wrong.join("\n"));
    let with = |wanted: &str| {
        let found = listed.iter().filter_map(|issue| match &issue.why {
            Some((key, why)) if key == wanted => {
                Some(format!("| {} | {} | {why} |\n", issue.of, cell(&issue.title)))
            }
            _ => None,
        });
        found.collect::<Vec<_>>()
    };
    let (cannot, not_yet) = (with("cannot"), with("not_yet"));
    format!(
        "\n## Issues that were read\n\n{LIST} lists {} issues that were read to see what the library must be able to show. {} of them are shown, as said \
         above. {} cannot be:\n\n| issue | title | why not |\n| --- | --- | --- |\n{}\n{} are not shown yet:\n\n\
         | issue | title | what is missing |\n| --- | --- | --- |\n{}",
        listed.len(),
        listed.len() - cannot.len() - not_yet.len(),
        cannot.len(),
        cannot.concat(),
        not_yet.len(),
        not_yet.concat(),
    )
}

/// Escapes the title of an issue for a table cell, because it may contain `|` or `<`.
fn cell(title: &str) -> String {
    title.replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn each_issue_of_the_list_is_shown_or_has_a_reason() {
    let text = "[[issue]]\nof = 'a/b#1'\ntitle = 't'\n";
    let why = |key: &str| format!("{text}{key} = 'w'\n");
    let mistakes_of = |text: &str, shown: bool| mistakes(&read_list(text), &|_| shown);
    assert_eq!(mistakes_of(text, true), [""; 0]);
    assert_eq!(mistakes_of(text, false), ["a/b#1 is shown by no case and has no reason"]);
    for key in ["cannot", "not_yet"] {
        assert_eq!(mistakes_of(&why(key), false), [""; 0]);
        assert_eq!(
            mistakes_of(&why(key), true),
            [format!("a/b#1 is shown by a case and has `{key}`")]
        );
    }
    assert_eq!(mistakes_of(&format!("{text}{text}"), true), ["a/b#1 stands there twice"]);
}

#[test]
fn page_matches_the_library() {
    assert_page(PAGE, &page(), "cargo run -p ci -- coverage");
}
