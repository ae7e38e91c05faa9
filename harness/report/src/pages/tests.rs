//! Tests of the pages about bugs. They read the finished pages, independently of the code that writes them.

use std::collections::BTreeMap;

use super::{BugPages, BugProgram, PageFile};
use crate::{
    Bug, Bugs, Record,
    fixture::{failed, passed},
};

/// Returns a record of a trial on a nightly build.
fn on(night: &str, date: &str, mut record: Record) -> Record {
    record.stack.root = format!("/builds/prefixes/{night}-gfx1151");
    record.stack.spec.clone_from(&record.stack.root);
    record.stack.rocm = night.parse().ok();
    record.date = date.to_owned();
    record
}

fn bugs(records: &[Record]) -> Vec<Bug> {
    let mut bugs = Bugs::default();
    records.iter().for_each(|record| bugs.add(record));
    bugs.all()
}

/// Returns three bugs: one that fails on each night, and two regressions that began on the second and the third night.
fn three_bugs() -> Vec<Bug> {
    let nights = [
        ("10.0.0a20260701", "2026-07-01T02:00:00Z"),
        ("10.0.0a20260702", "2026-07-02T02:00:00Z"),
        ("10.0.0a20260703", "2026-07-03T02:00:00Z"),
    ];
    let mut records = Vec::new();
    for (at, (night, date)) in nights.into_iter().enumerate() {
        for (case, first) in [("a/old", 0), ("b/second", 1), ("c/third", 2)] {
            let record = if at < first { passed(case) } else { failed(case) };
            records.push(on(night, date, record));
        }
    }
    bugs(&records)
}

fn files(bugs: &[Bug], programs: &BTreeMap<String, BugProgram>) -> BTreeMap<String, PageFile> {
    let files = BugPages { bugs, programs, date: "2026-07-04T00:00:00Z" }.files();
    files.into_iter().map(|file| (file.name.clone(), file)).collect()
}

fn id(bugs: &[Bug], case: &str) -> String {
    let bug = bugs.iter().find(|bug| bug.case == case);
    bug.map(|bug| bug.id.clone()).unwrap_or_default()
}

#[test]
fn the_newest_regression_comes_first() {
    let bugs = three_bugs();
    let files = files(&bugs, &BTreeMap::new());
    let index = &files["index.html"].text;
    let links: Vec<&str> =
        index.split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let page = |case| format!("{}.html", id(&bugs, case));
    // The header links to the newest regression, and the table lists all bugs.
    assert_eq!(links, [page("c/third"), page("c/third"), page("b/second"), page("a/old")]);
    let header = index.split("</header>").next().unwrap_or_default();
    assert!(
        header.contains(
            "fails since <b>10.0.0a20260703</b> and passed on <b>10.0.0a20260702</b>: <a"
        ),
        "{header}"
    );
    assert_eq!(index.matches("regressions\">").count(), 3, "two rows and the choice: {index}");
    assert!(links.iter().all(|link| files.contains_key(*link)));
}

#[test]
fn each_page_offers_the_program_or_says_why_not() {
    let bugs = three_bugs();
    let programs = BTreeMap::from([
        (id(&bugs, "a/old"), BugProgram::Text("int main() { return 1 < 2; }".to_owned())),
        (id(&bugs, "b/second"), BugProgram::None("the case has files <1>".to_owned())),
    ]);
    let files = files(&bugs, &programs);
    let name = format!("{}.cpp", id(&bugs, "a/old"));
    assert_eq!(files[&name].text, "int main() { return 1 < 2; }");
    assert!(files[&name].is_program);
    let page = |case| &files[&format!("{}.html", id(&bugs, case))].text;
    assert!(page("a/old").contains(&format!("<a href=\"{name}\" download>")), "{}", page("a/old"));
    assert!(page("a/old").contains("<pre>int main() { return 1 &lt; 2; }</pre>"));
    assert!(page("b/second").contains("No stand-alone program: the case has files &lt;1&gt;."));
    assert!(page("c/third").contains("The case is not in the case library that made these pages."));
    assert_eq!(files.values().filter(|file| file.is_program).count(), 1);
}

#[test]
fn renders_the_page_of_a_bug() {
    let bugs = three_bugs();
    let bug: Vec<Bug> = bugs.into_iter().filter(|bug| bug.case == "b/second").collect();
    let name = format!("{}.html", bug[0].id);
    let files = files(&bug, &BTreeMap::new());
    insta::assert_snapshot!(files[&name].text.split("</style>").nth(1).unwrap_or_default());
}

#[test]
fn texts_of_records_are_escaped() {
    let mut record = failed("a/<b>\"'&");
    record.title = "<script>alert(1)</script>\u{1b}[31m\u{202e}".to_owned();
    record.outcome.summary.clone_from(&record.title);
    record.again.clone_from(&record.title);
    record.upstream = vec!["javascript:alert(1)".to_owned(), record.title.clone()];
    for file in files(&bugs(&[record]), &BTreeMap::new()).values() {
        let text = file.text.split("<script>const").next().unwrap_or_default();
        let text = text.replace("// Filters", "");
        for bad in ["<script>alert", "\u{1b}", "\u{202e}", "href=\"javascript", "<b>\"'&"] {
            assert!(!text.contains(bad), "{bad:?} in {}: {text}", file.name);
        }
    }
}

#[test]
fn empty_stores_have_a_page() {
    let files = files(&[], &BTreeMap::new());
    assert_eq!(files.keys().collect::<Vec<_>>(), ["index.html"]);
    assert!(files["index.html"].text.contains("<h1>0 bugs</h1>"), "{}", files["index.html"].text);
}
