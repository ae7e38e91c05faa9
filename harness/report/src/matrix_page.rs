//! Writes an HTML page that compares several runs: one row per case, one column per run.

use std::{collections::BTreeMap, fmt::Write};

use judge::VerdictKind;

use crate::{
    Record,
    over_time::{Column, class, over_time, write},
    text::html,
    words::{count, counted, place, rank, word},
};

/// Content of the page that compares several runs.
#[derive(Clone, Debug)]
pub struct MatrixPage<'a> {
    /// One column for each run, in the order in which the page shows them.
    pub columns: &'a [Column],
    /// Date of the page, RFC 3339 in UTC.
    pub date: &'a str,
}

const STYLE: &str = include_str!("search_page.css");
const OWN_STYLE: &str = include_str!("matrix_page.css");

const SCRIPT: &str = include_str!("matrix_page.js");

/// Base64 of the SHA-256 of the page's script. The page's Content-Security-Policy allows only this script.
const SCRIPT_HASH: &str = "RQA7vcC+tO4pQ520l8schpZU+gPweWplSXCHpsC6LSM=";

/// Maximum size of the page, in bytes.
const MOST_BYTES: usize = 1_900_000;

/// Settings that are tried one after the other until the page is small enough: maximum bytes of details per failure,
/// and maximum number of runs drawn.
const ROOM: [(usize, usize); 5] = [(3000, 6000), (1000, 2000), (300, 600), (100, 200), (0, 0)];

/// Maximum number of columns that a finding lists by name.
const NAMED: usize = 6;

/// Results of the trials of a case in one run.
struct Cell<'a> {
    records: Vec<&'a Record>,
    /// Number of planned trials without a record.
    missing: usize,
}

impl Cell<'_> {
    fn of(&self, kind: VerdictKind) -> usize {
        self.records.iter().filter(|record| record.verdict.kind == kind).count()
    }

    /// Returns the verdict that needs attention most, or `None` if the cell has no records.
    fn worst(&self) -> Option<VerdictKind> {
        self.records.iter().map(|record| record.verdict.kind).min_by_key(|kind| rank(*kind))
    }

    /// Returns the text of the cell: number of passed trials, most important verdict, and number of trials that were
    /// not run.
    fn words(&self) -> String {
        let ran = self.records.len() - self.of(VerdictKind::Skip);
        let passed = format!("{}/{ran}", self.of(VerdictKind::Pass));
        let words = match self.worst() {
            None => String::new(),
            Some(VerdictKind::Skip) => word(VerdictKind::Skip).to_owned(),
            Some(VerdictKind::Pass) => passed,
            Some(worst) => format!("{passed} {}", word(worst)),
        };
        match (self.missing, words.as_str()) {
            (0, _) => words,
            (n, "") => format!("{n} not run"),
            (n, words) => format!("{words}, {n} not run"),
        }
    }

    fn class(&self) -> &'static str {
        match class(self.worst()) {
            "ok" | "none" | "known" if self.missing > 0 => "unknown",
            class => class,
        }
    }
}

/// A failure or missing verdict of a case. The same failure in several columns is one finding.
struct Finding<'a> {
    first: &'a Record,
    /// Names of the columns with this finding, each with the number of trials that show it.
    on: Vec<(String, usize)>,
}

type Key<'a> = (&'a str, VerdictKind, &'a str);

fn key(record: &Record) -> Key<'_> {
    (&record.case, record.verdict.kind, &record.outcome.signature)
}

impl MatrixPage<'_> {
    /// Renders the page as one file that loads nothing else. Without JavaScript, everything works except the search.
    pub fn html(&self) -> String {
        let mut page = String::new();
        for (details, runs) in ROOM {
            page = self.page(details, runs);
            if page.len() < MOST_BYTES {
                break;
            }
        }
        page
    }

    /// Renders the page with at most `details` bytes of details per failure, and at most `runs` drawn runs.
    fn page(&self, details: usize, runs: usize) -> String {
        let over = over_time(self.columns);
        let mut past = String::new();
        let written = write(&over, runs, &mut past);
        let drawn: BTreeMap<&str, usize> =
            over[..written].iter().enumerate().map(|(n, over)| (over.case, n + 1)).collect();
        let rows = self.rows();
        let findings = self.findings();
        let numbers: BTreeMap<Key<'_>, usize> =
            findings.iter().enumerate().map(|(n, finding)| (key(finding.first), n + 1)).collect();
        let mut page = String::new();
        let title =
            format!("{} on {}", count(rows.len(), "case"), count(self.columns.len(), "column"));
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'\">\n\
             <title>rocrepro: {title}</title>\n<style>\n{STYLE}{OWN_STYLE}</style>\n</head>\n<body>\n\
             <header>\n<p>rocrepro, {date}</p>\n<h1>{title}</h1>\n<p>{sum}</p>\n</header>\n<main>\n",
            date = html(self.date),
            sum = html(&self.sum()),
        );
        page.push_str(
            "<p class=\"choice\"><label><input type=\"checkbox\" id=\"only-bad\"> Only cases that did not pass \
             everywhere</label></p>\n<p class=\"choice\" hidden><label for=\"find\">Search</label> <input \
             type=\"search\" id=\"find\"> in cases, cells and results</p>\n<p>Each cell shows how many of the \
             executed trials passed. A linked cell leads to the details.</p>\n",
        );
        if let [_, ..] = self.shared()[..] {
            let _ = writeln!(page, "<p>All columns: {}.</p>", html(&self.shared().join("; ")));
        }
        page.push_str(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Cases and columns\"><table class=\"matrix\">\n<thead><tr><th scope=\"col\">case</th>",
        );
        for column in self.columns {
            let _ = write!(page, "<th scope=\"col\">{}</th>", html(&self.short(&column.name)));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for (case, cells) in &rows {
            let quiet = cells.iter().all(|cell| matches!(cell.class(), "ok" | "none"));
            let class = if quiet { " class=\"quiet\"" } else { "" };
            let name = match drawn.get(case) {
                Some(number) => format!("<a href=\"#t{number}\">{}</a>", html(case)),
                None => html(case),
            };
            let _ = write!(page, "<tr{class}><th scope=\"row\">{name}</th>");
            for cell in cells {
                let words = html(&cell.words());
                let link = cell.worst().and_then(|worst| {
                    let record = cell.records.iter().find(|r| r.verdict.kind == worst)?;
                    numbers.get(&key(record))
                });
                let words = link
                    .map_or(words.clone(), |number| format!("<a href=\"#f{number}\">{words}</a>"));
                let _ = write!(page, "<td class=\"{}\">{words}</td>", cell.class());
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table></div>\n");
        self.key(&mut page);
        if !findings.is_empty() {
            page.push_str("<h2>Results</h2>\n");
        }
        for (number, finding) in findings.iter().enumerate() {
            finding.write(number + 1, details, &mut page);
        }
        if !over.is_empty() {
            page.push_str("<h2>Over time</h2>\n<p>Cases whose result varied between the runs of a column; one bar per \
                run, a short bar means passed or skipped.</p>\n");
            page.push_str(&past);
            if written < over.len() {
                let _ = writeln!(
                    page,
                    "<p>{} more changed; run <code>rocrepro records history CASE</code> for the details.</p>",
                    count(over.len() - written, "case")
                );
            }
        }
        self.stacks(&mut page);
        let _ = write!(page, "</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n");
        page
    }

    /// Returns the parts that the names of all columns have in common, without the first part. The page shows these
    /// parts only once.
    fn shared(&self) -> Vec<&str> {
        let [first, others @ ..] = self.columns else { return Vec::new() };
        let has = |name: &str, part: &str| name.split("; ").skip(1).any(|other| other == part);
        let parts = first.name.split("; ").skip(1);
        parts
            .filter(|part| !others.is_empty() && others.iter().all(|o| has(&o.name, part)))
            .collect()
    }

    /// Returns the name of a column without the parts that all columns have in common.
    fn short(&self, name: &str) -> String {
        let shared = self.shared();
        let own =
            name.split("; ").enumerate().filter(|(n, part)| *n == 0 || !shared.contains(part));
        own.map(|(_, part)| part).collect::<Vec<_>>().join("; ")
    }

    /// Returns each case with one cell per column. Cases with unexpected results come first.
    fn rows(&self) -> Vec<(&str, Vec<Cell<'_>>)> {
        let mut cases: BTreeMap<&str, Vec<Cell<'_>>> = BTreeMap::new();
        let empty = || {
            let cell = |_| Cell { records: Vec::new(), missing: 0 };
            self.columns.iter().map(cell).collect()
        };
        for (at, column) in self.columns.iter().enumerate() {
            for record in &column.records {
                cases.entry(&record.case).or_insert_with(empty)[at].records.push(record);
            }
            for trial in &column.missing {
                let case = trial.split('[').next().unwrap_or_default();
                cases.entry(case).or_insert_with(empty)[at].missing += 1;
            }
        }
        let mut rows: Vec<_> = cases.into_iter().collect();
        // Expected failures do not move a case to the top. Within each of the two groups, cases are sorted by name.
        let news = |cells: &[Cell<'_>]| !cells.iter().any(|cell| cell.class() == "news");
        rows.sort_by_key(|(case, cells)| (news(cells), *case));
        rows
    }

    /// Returns one finding for each result that is neither passed nor skipped. Unexpected results come first.
    fn findings(&self) -> Vec<Finding<'_>> {
        let mut found: BTreeMap<Key<'_>, Finding<'_>> = BTreeMap::new();
        for column in self.columns {
            let name = self.short(&column.name);
            for record in &column.records {
                if matches!(record.verdict.kind, VerdictKind::Pass | VerdictKind::Skip) {
                    continue;
                }
                let new = || Finding { first: record, on: Vec::new() };
                let finding = found.entry(key(record)).or_insert_with(new);
                match finding.on.last_mut() {
                    Some((last, trials)) if *last == name => *trials += 1,
                    _ => finding.on.push((name.clone(), 1)),
                }
            }
        }
        let mut findings: Vec<_> = found.into_values().collect();
        findings.sort_by_key(|f| (rank(f.first.verdict.kind), f.first.case.clone()));
        findings
    }

    /// Returns a sentence with the number of trials for each verdict.
    fn sum(&self) -> String {
        let all = || self.columns.iter().flat_map(|column| &column.records);
        let mut kinds = VerdictKind::ALL.to_vec();
        kinds.sort_by_key(|kind| rank(*kind));
        let numbers = kinds.into_iter().filter_map(|kind| {
            let n = all().filter(|record| record.verdict.kind == kind).count();
            (n > 0).then(|| format!("{n} {}", counted(kind)))
        });
        let missing: usize = self.columns.iter().map(|column| column.missing.len()).sum();
        let missing = (missing > 0).then(|| format!("{missing} planned but not run"));
        let parts: Vec<String> = numbers.chain(missing).collect();
        let emulated = all().any(|record| record.device.emulated);
        format!(
            "{}: {}.{}",
            count(all().count(), "trial"),
            parts.join(", "),
            if emulated {
                " The emulated device is not a GPU: its results say nothing about hardware, firmware, driver or timing."
            } else {
                ""
            }
        )
    }

    fn key(&self, page: &mut String) {
        page.push_str(
            "<p>A coloured cell without a label: all passed. <b>known</b>: an expected failure of the case. \
             <b>FAIL</b>, <b>CHANGED</b>, <b>FIXED?</b>: unexpected results. <b>no verdict</b>: the run proves nothing. <b>skip</b>: the stack or architecture lacks something that the case \
             needs. <b>not run</b>: planned, but the run ended earlier. Empty: not part of that run.</p>\n",
        );
    }

    fn stacks(&self, page: &mut String) {
        page.push_str("<h2>Stacks and devices of the columns</h2>\n");
        for column in self.columns {
            let _ = write!(page, "<section>\n<h3>{}</h3>\n", html(&column.name));
            let with_libraries =
                column.records.iter().find(|record| !record.stack.libraries.is_empty());
            let Some(record) = with_libraries.or(column.records.first()) else {
                page.push_str("<p>No trial has finished.</p>\n</section>\n");
                continue;
            };
            let ends = column.records.iter().map(|record| record.date.as_str());
            let (first, last) = (ends.clone().min(), ends.max());
            let _ = writeln!(
                page,
                "<p>{}. {}, from {} to {}.</p>",
                html(&place(record)),
                count(column.records.len(), "trial"),
                html(first.unwrap_or_default()),
                html(last.unwrap_or_default()),
            );
            if !column.missing.is_empty() {
                let _ = writeln!(
                    page,
                    "<p>{} planned but not run.</p>",
                    count(column.missing.len(), "trial")
                );
            }
            page.push_str("<pre>");
            for library in &record.stack.libraries {
                let id = library.build_id.as_deref().unwrap_or("without build id");
                let _ = writeln!(page, "{} {}", html(&library.name), html(id));
            }
            page.push_str("</pre>\n</section>\n");
        }
    }
}

impl Finding<'_> {
    fn write(&self, number: usize, most: usize, page: &mut String) {
        let Finding { first, on } = self;
        let outcome = &first.outcome;
        let _ = write!(
            page,
            "<section class=\"found\" id=\"f{number}\">\n<h3>{} {}: {}</h3>\n<p>{}</p>\n",
            html(word(first.verdict.kind)),
            html(&first.case),
            html(&outcome.signature),
            html(&first.title),
        );
        let mut names: Vec<String> = on
            .iter()
            .take(NAMED)
            .map(|(name, trials)| format!("{name} ({})", count(*trials, "trial")))
            .collect();
        if on.len() > NAMED {
            names.push(format!("and {}", count(on.len() - NAMED, "more column")));
        }
        let _ = writeln!(
            page,
            "<p>On {}.</p>\n<p>{}</p>",
            html(&names.join(", ")),
            html(&outcome.summary)
        );
        let mut details = outcome.details.join("\n");
        if details.len() > most {
            let mut end = most;
            while !details.is_char_boundary(end) {
                end -= 1;
            }
            details.truncate(end);
            details.push_str("\n(cut)");
        }
        if !details.is_empty() {
            let _ = writeln!(page, "<pre>{}</pre>", html(&details));
        }
        let _ = write!(page, "<p>Again: <code>{}</code></p>\n</section>\n", html(&first.again));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Past,
        fixture::{failed, known, passed, skipped, unproven},
    };

    fn columns() -> Vec<Column> {
        let column = |name: &str, records: Vec<Record>, missing| Column {
            name: name.to_owned(),
            records,
            missing: (0..missing).map(|n| format!("not/run[n={n}]")).collect(),
            past: Vec::new(),
        };
        vec![
            column(
                "7.2.4 gfx1151",
                vec![passed("a/b[x=1]"), failed("a/b[x=2]"), known("c/d"), passed("z/z")],
                0,
            ),
            column(
                "6.4.3 <gfx90a>",
                vec![failed("a/b[x=1]"), failed("a/b[x=2]"), skipped("c/d"), unproven("e/f")],
                3,
            ),
            column("5.2.3 gfx90a", Vec::new(), 9),
        ]
    }

    #[test]
    fn renders_the_page() {
        let columns = columns();
        let page = MatrixPage { columns: &columns, date: "2026-11-23T02:00:00Z" }.html();
        let page = page.split("</style>").nth(1).unwrap_or_default();
        insta::assert_snapshot!(page);
    }

    /// Links and cells are counted in the finished page, independently of the code that writes them.
    #[test]
    fn cells_cover_all_verdicts_and_links_resolve() {
        let columns = columns();
        let page = MatrixPage { columns: &columns, date: "" }.html();
        let ids: Vec<&str> = page
            .split("<section class=\"found\" id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let links: Vec<&str> =
            page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(links.iter().all(|link| ids.contains(link)) && !links.is_empty(), "{links:?}");
        assert!(ids.iter().all(|id| links.contains(id)), "{ids:?}");
        assert_eq!(page.matches("<tr").count(), 1 + 5);
        assert_eq!(page.matches("<td").count(), 5 * 3);
        assert!(page.contains("<td class=\"unknown\">9 not run</td>"), "{page}");
        assert!(!page.contains("<gfx90a>") && page.contains("&lt;gfx90a&gt;"));
    }

    #[test]
    fn shared_parts_of_names_are_shown_once() {
        let column = |name: &str| Column {
            name: name.to_owned(),
            records: vec![failed("a/b")],
            missing: Vec::new(),
            past: Vec::new(),
        };
        let columns = ["7.2.4 gfx1151; late; silent", "6.4.3 gfx90a; silent; x"].map(column);
        let page = MatrixPage { columns: &columns, date: "" }.html();
        assert!(page.contains("<p>All columns: silent.</p>"), "{page}");
        for name in ["7.2.4 gfx1151; late", "6.4.3 gfx90a; x"] {
            assert!(page.contains(&format!("<th scope=\"col\">{name}</th>")), "{page}");
        }
        // With a single column, nothing is left out of the column's name.
        let alone = MatrixPage { columns: &columns[..1], date: "" }.html();
        assert!(alone.contains("<th scope=\"col\">7.2.4 gfx1151; late; silent</th>"), "{alone}");
        assert!(!alone.contains("All columns"));
    }

    /// Checks the size limit with a run that mostly passes, and with the worst case: in every second run, every case
    /// fails in a different way, with long details.
    #[test]
    fn page_of_a_thousand_cases_stays_small() {
        let name = |n: usize| format!("family/a-case-with-a-usual-name-{n}");
        let good =
            |n: usize| if n.is_multiple_of(50) { failed(&name(n)) } else { passed(&name(n)) };
        let worst = |n: usize| {
            let mut record = failed(&name(n));
            record.outcome.signature = format!("wrong-data:dst.back:{n}");
            record.outcome.details =
                vec!["  got at 0x0000: 00 00 00 00 00 00 00 00".to_owned(); 60];
            record
        };
        let check = |records: Vec<Record>| {
            let fine: Vec<Record> = (0..1000).map(|n| passed(&name(n))).collect();
            let runs = [Past::of(&fine), Past::of(&records)];
            let past: Vec<Past> = (0..20).map(|n| runs[n % 2].clone()).collect();
            let column = |n: usize| Column {
                name: format!("7.2.4 gfx{n}"),
                records: records.clone(),
                missing: Vec::new(),
                past: past.clone(),
            };
            let columns: Vec<Column> = (0..20).map(column).collect();
            let page = MatrixPage { columns: &columns, date: "" }.html();
            assert!(page.len() < 2_000_000, "{}", page.len());
            assert_eq!(page.matches("<td").count(), 20_000);
            page.len()
        };
        let sizes = [check((0..1000).map(good).collect()), check((0..1000).map(worst).collect())];
        assert!(sizes[0] < sizes[1], "{sizes:?}");
    }

    /// A case whose results changed has a bar for each run; a case whose results never changed has none.
    #[test]
    fn draws_cases_whose_results_changed() {
        let runs = [passed("a/b"), failed("a/b"), passed("a/b")];
        let runs = runs.map(|record| vec![record, known("c/d")]);
        let column = Column {
            name: "7.2.4 gfx1151".to_owned(),
            records: runs[2].clone(),
            missing: Vec::new(),
            past: runs.iter().map(Past::of).collect(),
        };
        let page = MatrixPage { columns: &[column], date: "" }.html();
        let bars: Vec<&str> =
            page.split("<rect class=\"").skip(1).filter_map(|r| r.split('"').next()).collect();
        assert_eq!(bars, ["ok", "news", "ok"]);
        assert!(page.contains("aria-label=\"ok, FAIL, ok\""), "{page}");
        assert!(page.contains("<th scope=\"row\"><a href=\"#t1\">a/b</a></th>"), "{page}");
        assert!(page.contains("<section id=\"t1\">\n<h3>a/b</h3>"), "{page}");
    }

    /// Recomputes the hash of the script. If the page's policy contained another hash, browsers would not run the
    /// script.
    #[test]
    fn script_matches_the_allowed_hash() {
        use sha2::Digest;
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digest = sha2::Sha256::digest(SCRIPT);
        let mut text = String::new();
        for three in digest.chunks(3) {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            for at in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
                text.push(if at > three.len() { '=' } else { letter as char });
            }
        }
        assert_eq!(text, SCRIPT_HASH);
    }
}
