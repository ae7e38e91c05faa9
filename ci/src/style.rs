//! Counts violations of the rules in STYLE.md that a program can check: first words of doc comments, forbidden words,
//! names of types, files and tests, and long lines of pages. `ci/style.txt` contains the accepted number of violations
//! for each crate. The lint fails if a number grows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use xshell::{Shell, cmd};

/// File with the accepted counts: one row per crate, one column per [`Rule`].
const ACCEPTED: &str = "ci/style.txt";

/// Maximum length of a line on a page, in characters. Rows of tables, lines with links, and code blocks are exempt.
const MAX_PAGE_LINE: usize = 120;

/// Words that must not begin a doc comment, because its subject would be missing or unknown to the reader.
const OPENINGS: [&str; 15] = [
    "What", "Who", "Whose", "Whether", "How", "It", "Its", "They", "Their", "These", "This",
    "Likewise", "Same", "Nobody", "Whoever",
];

/// Words and phrases that STYLE.md replaces. They are searched for as whole words, without regard to case, in comments,
/// in string literals and on pages.
const WORDS: [&str; 31] = [
    "nobody",
    "somebody",
    "whoever",
    "told",
    "tells",
    "anew",
    "of ours",
    "there is none",
    "is no",
    "are no",
    "known window",
    "known windows",
    "planted",
    "plants",
    "plant",
    "stand-in",
    "stand in for",
    "stands for",
    "stands in",
    "comes to",
    "goes by",
    "by way of",
    "called off",
    "second hand",
    "vouches for",
    "lateness",
    "likewise",
    "besides",
    "it is told",
    "where there is no",
    "looked at by",
];

/// File names, without the extension, that do not describe the content of the file.
const FILES: [&str; 14] = [
    "able", "beside", "between", "held", "lacks", "made", "named", "opening", "rest", "told",
    "turn", "whole", "words", "at_call",
];

/// Beginnings of test names that do not describe a behaviour.
const TESTS: [&str; 8] = ["what_", "who_", "whose_", "a_", "an_", "no_", "nobody_", "whatever_"];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rule {
    Opening,
    Word,
    Type,
    File,
    Test,
    Line,
}

/// All rules, each with the heading of its column in `ci/style.txt`.
const RULES: [(Rule, &str); 6] = [
    (Rule::Opening, "openings"),
    (Rule::Word, "words"),
    (Rule::Type, "types"),
    (Rule::File, "files"),
    (Rule::Test, "tests"),
    (Rule::Line, "lines"),
];

#[derive(Debug)]
struct Finding {
    /// Crate of the file; `pages` for Markdown files.
    area: String,
    rule: Rule,
    /// The file, the line number and the text of the line.
    text: String,
}

type Counts = BTreeMap<String, BTreeMap<Rule, usize>>;

/// Compares the findings with the accepted counts.
///
/// # Errors
/// Lists every area that has more findings of a rule than accepted, with the command that lists them.
pub(crate) fn check(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let (found, accepted) = (counts(&findings(sh)?), parse(&sh.read_file(ACCEPTED)?)?);
    let grown = exceeded_counts(&found, &accepted);
    if grown.is_empty() { Ok(()) } else { Err(grown.join("\n").into()) }
}

/// Lists the findings in the areas that `words` names, or in all areas. With `--write`, stores the current counts as
/// accepted counts instead.
///
/// # Errors
/// Returns an error if a file cannot be read or written.
pub(crate) fn list(sh: &Shell, words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let findings = findings(sh)?;
    if words.iter().any(|word| word == "--write") {
        return Ok(sh.write_file(ACCEPTED, format_counts(&counts(&findings)))?);
    }
    for finding in findings.iter().filter(|f| words.is_empty() || words.contains(&f.area)) {
        println!("{:?}: {}", finding.rule, finding.text);
    }
    print!("{}", format_counts(&counts(&findings)));
    Ok(())
}

/// Describes each count that is larger than the accepted count.
fn exceeded_counts(found: &Counts, accepted: &Counts) -> Vec<String> {
    let mut grown = Vec::new();
    for (area, rules) in found {
        for (rule, heading) in RULES {
            let count = rules.get(&rule).copied().unwrap_or(0);
            let allowed = accepted.get(area).and_then(|a| a.get(&rule)).copied().unwrap_or(0);
            if count > allowed {
                grown.push(format!(
                    "{area}: {count} violations of the rule `{heading}` of STYLE.md, but {allowed} are accepted; \
                     `cargo run -p ci -- style {area}` lists them"
                ));
            }
        }
    }
    grown
}

fn counts(findings: &[Finding]) -> Counts {
    let mut counts = Counts::new();
    for finding in findings {
        *counts.entry(finding.area.clone()).or_default().entry(finding.rule).or_default() += 1;
    }
    counts
}

fn format_counts(counts: &Counts) -> String {
    let mut text = format!("{:<12}", "area");
    for (_, heading) in RULES {
        let _ = write!(text, "{heading:>9}");
    }
    for (area, rules) in counts {
        let _ = write!(text, "\n{area:<12}");
        for (rule, _) in RULES {
            let _ = write!(text, "{:>9}", rules.get(&rule).copied().unwrap_or(0));
        }
    }
    text.push('\n');
    text
}

fn parse(text: &str) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for line in text.lines().skip(1) {
        let mut fields = line.split_whitespace();
        let area = fields.next().ok_or_else(|| format!("{ACCEPTED}: a line is empty"))?;
        let numbers: Result<Vec<usize>, _> = fields.map(str::parse).collect();
        let numbers = numbers.map_err(|error| format!("{ACCEPTED}: {area}: {error}"))?;
        if numbers.len() != RULES.len() {
            return Err(format!(
                "{ACCEPTED}: the line {area} has {} numbers, not {}",
                numbers.len(),
                RULES.len()
            ));
        }
        let rules = RULES.iter().map(|(rule, _)| *rule).zip(numbers).collect();
        counts.insert(area.to_owned(), rules);
    }
    Ok(counts)
}

/// Returns the findings in all tracked Rust files and pages.
fn findings(sh: &Shell) -> Result<Vec<Finding>, Box<dyn std::error::Error>> {
    let mut found = Vec::new();
    let mut types: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for file in cmd!(sh, "git ls-files *.rs *.md").read()?.lines() {
        // `style.rs` itself and STYLE.md quote forbidden words. CHANGELOG and reports are not changed after they have
        // been written.
        let quoting = ["ci/src/style.rs", "STYLE.md", "CHANGELOG.md"].contains(&file);
        if quoting || file.starts_with("reports/") {
            continue;
        }
        let text = sh.read_file(file)?;
        if file.ends_with(".md") {
            found.extend(page_findings(file, &text));
            continue;
        }
        found.extend(rust_findings(file, &text));
        for name in exported_types(file, &text) {
            types.entry(name).or_default().push((area(file), file.to_owned()));
        }
    }
    for (name, places) in types.into_iter().filter(|(_, places)| places.len() > 1) {
        for (area, file) in places {
            found.push(Finding {
                area,
                rule: Rule::Type,
                text: format!("{file}: the type name {name} is not unique in the workspace"),
            });
        }
    }
    Ok(found)
}

fn area(file: &str) -> String {
    let mut parts = file.split('/');
    match parts.next() {
        Some("harness") => parts.next().unwrap_or_default().to_owned(),
        Some(first) if !first.contains('.') => first.to_owned(),
        _ => "pages".to_owned(),
    }
}

fn rust_findings(file: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |rule, number: usize, line: &str| {
        let text = format!("{file}:{}: {}", number + 1, line.trim());
        found.push(Finding { area: area(file), rule, text });
    };
    let stem = file.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    if FILES.contains(&stem) {
        add(Rule::File, 0, file);
    }
    let (mut in_doc, mut is_test) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let doc = code.strip_prefix("///").or_else(|| code.strip_prefix("//!"));
        if let Some(doc) = doc.filter(|_| !in_doc) {
            let first = doc.split_whitespace().next().unwrap_or_default();
            let first = first.trim_end_matches(|c: char| !c.is_alphanumeric());
            if OPENINGS.contains(&first) || doc.trim_start().starts_with("The same") {
                add(Rule::Opening, number, line);
            }
        }
        in_doc = doc.is_some();
        for _ in 0..forbidden_words(&prose_of(line)) {
            add(Rule::Word, number, line);
        }
        let name = code.strip_prefix("fn ").or_else(|| code.strip_prefix("async fn "));
        if let Some(name) = name.filter(|name| is_test && TESTS.iter().any(|t| name.starts_with(t)))
        {
            add(Rule::Test, number, name);
        }
        is_test = code.starts_with("#[test]") || (is_test && code.starts_with("#["));
    }
    found
}

fn page_findings(file: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let (mut in_code, mut may_indent) = (false, true);
    for (number, line) in text.lines().enumerate() {
        // A line with an indent of four spaces after an empty line starts an indented code block.
        let indented = may_indent && line.starts_with("    ");
        may_indent = indented || line.trim().is_empty();
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        let mut add = |rule| {
            let text = format!("{file}:{}: {}", number + 1, line.trim());
            found.push(Finding { area: "pages".to_owned(), rule, text });
        };
        let exempt = line.starts_with('|') || line.contains("](") || indented;
        if line.chars().count() > MAX_PAGE_LINE && !exempt {
            add(Rule::Line);
        }
        for _ in 0..forbidden_words(line) {
            add(Rule::Word);
        }
    }
    found
}

/// Returns the parts of a line of Rust code that are prose: the comment and the string literals.
fn prose_of(line: &str) -> String {
    if let Some(comment) = line.trim_start().strip_prefix("//") {
        return comment.to_owned();
    }
    let strings: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
    let comment = line.split_once(" // ").map_or("", |(_, comment)| comment);
    format!("{} {comment}", strings.join(" "))
}

fn forbidden_words(text: &str) -> usize {
    let spaced: String =
        text.chars()
            .map(|c| {
                if c.is_alphanumeric() || c == '-' || c == '_' {
                    c.to_ascii_lowercase()
                } else {
                    ' '
                }
            })
            .collect();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let phrase_at = |at: usize, phrase: &str| {
        phrase.split(' ').enumerate().all(|(i, word)| words.get(at + i) == Some(&word))
    };
    (0..words.len()).filter(|at| WORDS.iter().any(|phrase| phrase_at(*at, phrase))).count()
}

/// Returns the names of the types that a source file exports; an empty set for tests and for files outside of `src`.
fn exported_types(file: &str, text: &str) -> BTreeSet<String> {
    let is_source =
        file.starts_with("harness/") && file.contains("/src/") && !file.contains("tests");
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|_| is_source) {
        for start in ["pub struct ", "pub enum ", "pub trait ", "pub type "] {
            if let Some(rest) = line.strip_prefix(start) {
                let end =
                    rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                names.insert(rest[..end].to_owned());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(found: &[Finding]) -> Vec<Rule> {
        found.iter().map(|f| f.rule).collect()
    }

    #[test]
    fn counts_each_rule_once_per_violation() {
        let check = |file: &str, text: &str, expected: &[Rule]| {
            assert_eq!(rules_of(&rust_findings(file, text)), expected, "{text}");
        };
        let file = "harness/judge/src/outcome.rs";
        check(file, "/// Whether a trial passed.\nfn f() {}", &[Rule::Opening]);
        check(file, "/// The same as above.", &[Rule::Opening]);
        check(file, "/// Returns the outcome.\n/// Whether it is final is unknown.", &[]);
        check(file, "let x = \"nobody was told\";", &[Rule::Word, Rule::Word]);
        check(file, "let nobody = told;", &[]);
        check(file, "#[test]\nfn what_is_no_number() {}", &[Rule::Test]);
        check(file, "#[test]\n#[cfg(unix)]\nfn a_b() {}", &[Rule::Test]);
        check(file, "fn a_b() {}", &[]);
        check("harness/judge/src/told.rs", "", &[Rule::File]);
    }

    #[test]
    fn page_rules_skip_code_tables_and_links() {
        let long = "x".repeat(MAX_PAGE_LINE + 1);
        let check = |text: &str, expected: &[Rule]| {
            assert_eq!(rules_of(&page_findings("docs/a.md", text)), expected, "{text}");
        };
        check(&long, &[Rule::Line]);
        check(&format!("| {long} |"), &[]);
        check(&format!("```\n{long}\n```"), &[]);
        check(&format!("[a](b){long}"), &[]);
        check(&format!("    {long}"), &[]);
        check(&format!("   {long}"), &[Rule::Line]);
        check(&format!("* a\n    * {long}"), &[Rule::Line]);
        check(&format!("a\n\n    b\n\n    - {long}"), &[]);
        check("a bug planted on purpose", &[Rule::Word]);
    }

    #[test]
    fn accepted_counts_round_trip_and_only_growth_fails() {
        let finding = |rule| Finding { area: "judge".to_owned(), rule, text: String::new() };
        let two = counts(&[finding(Rule::Word), finding(Rule::Word)]);
        let one = counts(&[finding(Rule::Word)]);
        assert_eq!(parse(&format_counts(&two)).as_ref().map(|c| c["judge"][&Rule::Word]), Ok(2));
        assert!(exceeded_counts(&one, &two).is_empty());
        assert_eq!(exceeded_counts(&two, &one).len(), 1);
        assert_eq!(exceeded_counts(&one, &Counts::new()).len(), 1);
    }

    #[test]
    fn finds_exported_types_of_sources_only() {
        let text = "pub struct Kind;\npub(crate) struct Other;\npub enum Place { A }";
        let names = exported_types("harness/judge/src/a.rs", text);
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["Kind", "Place"]);
        assert!(exported_types("harness/judge/tests/a.rs", text).is_empty());
    }
}
