//! Tests and writes docs/claims.md: claims about ROCm on gfx1151 that users have published, and the observed behaviour
//! (`cases/claims.toml`).

use std::{collections::BTreeSet, fmt::Write, fs};

use toml::{Table, Value};

use super::texts::{CASES, assert_page, root};

const DATA: &str = "cases/claims.toml";
const PAGE: &str = "docs/claims.md";

/// Every state that a claim can have, and true if the state requires a measurement.
const STATES: [(&str, bool); 6] = [
    ("confirmed", true),
    ("not reproduced", true),
    ("framework contract", true),
    ("fixed in version", true),
    ("needs hardware", false),
    ("cannot be tested", false),
];

fn text<'a>(table: &'a Table, key: &str) -> Result<&'a str, String> {
    let found = table.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    found.ok_or_else(|| format!("no text `{key}` in {table:?}"))
}

fn list<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a str>, String> {
    let Some(values) = table.get(key) else { return Ok(Vec::new()) };
    let texts: Option<Vec<_>> =
        values.as_array().and_then(|all| all.iter().map(Value::as_str).collect());
    texts.ok_or_else(|| format!("`{key}` is not a list of texts in {table:?}"))
}

fn tables<'a>(data: &'a Table, key: &str) -> Result<Vec<&'a Table>, String> {
    let all = data.get(key).and_then(Value::as_array).ok_or(format!("no [[{key}]]"))?;
    all.iter().map(|one| one.as_table().ok_or(format!("a {key} is not a table"))).collect()
}

/// Checks one claim of `cases/claims.toml` and returns its first mistake.
fn check(claim: &Table, cases: &BTreeSet<String>, places: &Table) -> Result<(), String> {
    let (what, state) = (text(claim, "claim")?, text(claim, "state")?);
    text(claim, "where")?;
    let (named, measured) = (list(claim, "cases")?, list(claim, "measured")?);
    let Some((_, needed)) = STATES.iter().find(|(name, _)| *name == state) else {
        return Err(format!("`{what}`: no state is called `{state}`"));
    };
    for case in &named {
        if !cases.contains(*case) {
            return Err(format!("`{what}`: unknown case {case}"));
        }
    }
    for place in &measured {
        if !places.contains_key(*place) {
            return Err(format!("`{what}`: nothing was measured at `{place}`"));
        }
    }
    if *needed && (named.is_empty() || measured.is_empty()) {
        return Err(format!("`{what}` is {state} and names no case, or nowhere it was measured"));
    }
    if !measured.is_empty() && named.is_empty() {
        return Err(format!("`{what}` was measured by no case"));
    }
    // A result on the control platform is not a result of ROCm.
    let rocm = measured.iter().any(|place| {
        places[*place].as_table().and_then(|of| of.get("rocm")).and_then(Value::as_bool)
            == Some(true)
    });
    if matches!(state, "confirmed" | "not reproduced" | "fixed in version") && !rocm {
        return Err(format!("`{what}` is {state}, and no ROCm was asked"));
    }
    text(claim, "says").map(|_| ())
}

fn page(data: &str, cases: &BTreeSet<String>) -> Result<String, String> {
    let data: Table = data.parse().map_err(|error| format!("{DATA}: {error}"))?;
    let places = data.get("measured").and_then(Value::as_table).ok_or("no [measured]")?;
    let claims = tables(&data, "claim")?;
    let documents = tables(&data, "document")?;
    let mut page = format!(
        "# What notes about ROCm on gfx1151 claim\n\nEach claim of {} documents that people wrote, the cases that test it, and what was seen. Written from\n\
         `{DATA}` by `ROCREPRO_WRITE_REFERENCE=1 cargo test -p case --test case claims::`.\n\n\
         **A result on an NVIDIA GPU shows PyTorch's contract, not ROCm's behaviour**, and a result on the emulated device, with\n\
         PyTorch or without, is not a GPU result. `needs hardware` is left for what only a card can show, above all speed, and\n\
         for firmware, drivers, Windows, and kernels that the build of PyTorch lacks. `rocrepro run CASE` with a PyTorch for\n\
         ROCm in an environment repeats a line.\n\n\
         Measured:\n\n",
        documents.len()
    );
    for (name, place) in places {
        let place = place.as_table().ok_or("a place is not a table")?;
        let _ = write!(page, "* {name}: {}", text(place, "how")?);
        if place.contains_key("report") {
            let report = text(place, "report")?;
            if !root().join(report).is_file() {
                return Err(format!("report {report} does not exist"));
            }
            let _ = write!(page, " ([report](../{report}))");
        }
        page.push('\n');
    }
    page.push_str("\n| state | claims |\n| --- | ---: |\n");
    for (state, _) in STATES {
        let count = claims.iter().filter(|claim| text(claim, "state") == Ok(state)).count();
        let _ = writeln!(page, "| {state} | {count} |");
    }
    let mut shown = 0;
    for document in documents {
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n| where | claim | state | cases | measured | what was seen |\n| --- | --- | --- | --- | --- | --- |\n",
            text(document, "title")?,
            text(document, "about")?
        );
        let key = text(document, "key")?;
        let of = claims.iter().filter(|claim| text(claim, "document") == Ok(key));
        let before = shown;
        for claim in of {
            check(claim, cases, places)?;
            let cases: Vec<_> = list(claim, "cases")?.iter().map(|id| format!("`{id}`")).collect();
            let cells = [
                text(claim, "where")?,
                text(claim, "claim")?,
                text(claim, "state")?,
                &cases.join(", "),
                &list(claim, "measured")?.join(", "),
                text(claim, "says")?,
            ];
            if cells.iter().any(|cell| cell.contains(['|', '\n'])) {
                return Err(format!("a cell of the table cannot hold this: {cells:?}"));
            }
            let _ = writeln!(page, "| {} |", cells.join(" | "));
            shown += 1;
        }
        if shown == before {
            return Err(format!("document {key} has no claims"));
        }
    }
    if shown != claims.len() {
        return Err("a claim is of no document, or of two".to_owned());
    }
    Ok(page)
}

fn library() -> BTreeSet<String> {
    CASES.keys().cloned().collect()
}

#[test]
fn page_matches_the_data() {
    let data = fs::read_to_string(root().join(DATA)).expect("it is part of the project");
    let page = page(&data, &library()).unwrap_or_else(|mistake| panic!("{DATA}: {mistake}"));
    assert_page(PAGE, &page, "ROCREPRO_WRITE_REFERENCE=1 cargo test -p case --test case claims::");
}

/// Returns the page that is generated from an example with one document and one claim, after the text `there` in the
/// example has been replaced by `instead`.
fn altered(there: &str, instead: &str) -> Result<String, String> {
    let data = r#"
[measured]
gpu = { how = "on a card", report = "reports/pytorch-on-nvidia.md" }
emulated = { how = "emulated", rocm = true }
[[document]]
key = "a"
title = "A"
about = "About."
[[claim]]
document = "a"
where = "1"
claim = "it works"
state = "confirmed"
cases = ["copies/tensors"]
measured = ["emulated", "gpu"]
says = "It does."
"#;
    assert!(there.is_empty() || data.contains(there), "{there}");
    page(&data.replace(if there.is_empty() { "\0" } else { there }, instead), &library())
}

#[test]
fn mistakes_of_claims_are_reported() {
    assert!(altered("", "").expect("it is right").contains("| 1 | it works | confirmed |"));
    for (there, instead, expected) in [
        ("copies/tensors", "copies/no-such", "unknown case copies/no-such"),
        (
            "reports/pytorch-on-nvidia.md",
            "reports/none.md",
            "report reports/none.md does not exist",
        ),
        ("\"confirmed\"", "\"likely\"", "no state is called `likely`"),
        ("[\"emulated\", \"gpu\"]", "[\"gpu\"]", "no ROCm was asked"),
        ("[\"emulated\", \"gpu\"]", "[]", "nowhere it was measured"),
        ("[\"emulated\", \"gpu\"]", "[\"moon\"]", "nothing was measured at `moon`"),
        ("document = \"a\"", "document = \"b\"", "document a has no claims"),
        ("\"It does.\"", "\"\"", "no text `says`"),
        ("\"It does.\"", "\"It | does.\"", "cannot hold this"),
    ] {
        let mistake = altered(there, instead).expect_err(expected);
        assert!(mistake.contains(expected), "{mistake}");
    }
}
