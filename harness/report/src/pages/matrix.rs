//! Writes the HTML page that compares several runs: one row per case, one column per run.

use std::collections::BTreeMap;

use judge::VerdictKind;
use maud::{Markup, html};

use super::{
    findings::Findings,
    layout::{Text, document, filter, issues},
    over_time::{Column, class, drawn, over_time},
};
use crate::{
    Record,
    words::{count, count_label, describe_setup, rank, verdict_label},
};

/// Content of the page that compares several runs.
#[derive(Clone, Debug)]
pub struct MatrixPage<'a> {
    /// One column for each run, in the order in which the page shows them.
    pub columns: &'a [Column],
    /// Date of the page, RFC 3339 in UTC.
    pub date: &'a str,
}

/// Maximum size of the page, in bytes.
const MOST_BYTES: usize = 2_400_000;

/// Settings that are tried one after the other until the page is small enough: maximum bytes of details per failure,
/// and maximum number of runs drawn.
const SIZE_LIMITS: [(usize, usize); 5] =
    [(3000, 6000), (1000, 2000), (300, 600), (100, 200), (0, 0)];

/// Choices of rows: the id of the choice, which is also the class of the rows that it shows, and its label.
const CHOICES: [(&str, &str); 3] = [
    ("differs", "what differs between columns or is unexpected"),
    ("bad", "all cases that did not pass everywhere"),
    ("all", "all cases"),
];

/// Results of the trials of a case in one run.
#[derive(Default)]
struct Cell<'a> {
    records: Vec<&'a Record>,
    /// Number of planned trials without a record.
    missing: usize,
}

impl<'a> Cell<'a> {
    fn count_of(&self, kind: VerdictKind) -> usize {
        self.records.iter().filter(|record| record.verdict.kind == kind).count()
    }

    /// Returns a record with the verdict that needs attention most, or `None` if the cell has no records.
    fn worst_record(&self) -> Option<&'a Record> {
        self.records.iter().min_by_key(|record| rank(record.verdict.kind)).copied()
    }

    fn worst(&self) -> Option<VerdictKind> {
        self.worst_record().map(|record| record.verdict.kind)
    }

    /// Returns the number of passed trials and of trials that ran.
    fn passed_and_ran(&self) -> (usize, usize) {
        let ran = self.records.len() - self.count_of(VerdictKind::Skip);
        (self.count_of(VerdictKind::Pass), ran)
    }

    /// Returns the text of the cell: number of passed trials, most important verdict, and number of trials that were
    /// not run.
    fn words(&self) -> String {
        let (passed, ran) = self.passed_and_ran();
        let passed = format!("{passed}/{ran}");
        let words = match self.worst() {
            None => String::new(),
            Some(VerdictKind::Skip) => verdict_label(VerdictKind::Skip).to_owned(),
            Some(VerdictKind::Pass) => passed,
            Some(worst) => format!("{passed} {}", verdict_label(worst)),
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

/// Results of a case in all runs.
struct Row<'a> {
    case: &'a str,
    cells: Vec<Cell<'a>>,
}

impl<'a> Row<'a> {
    fn has_news(&self) -> bool {
        self.cells.iter().any(|cell| cell.class() == "news")
    }

    fn passed_everywhere(&self) -> bool {
        self.cells.iter().all(|cell| matches!(cell.class(), "ok" | "none"))
    }

    /// Returns true if a result is unexpected or missing, or if the case passed in one column and failed in another.
    fn differs(&self) -> bool {
        let classes = || self.cells.iter().map(Cell::class).filter(|class| *class != "none");
        classes().any(|class| matches!(class, "news" | "unknown"))
            || classes().zip(classes().skip(1)).any(|(one, next)| one != next)
    }

    /// Returns the CSS classes of the row, which determine for which of the [`CHOICES`] the row is shown.
    fn class(&self) -> &'static str {
        match (self.differs(), self.passed_everywhere()) {
            (true, _) => "entry differs bad",
            (false, false) => "entry bad",
            (false, true) => "entry",
        }
    }

    fn records(&self) -> impl Iterator<Item = &'a Record> {
        self.cells.iter().flat_map(|cell| cell.records.iter().copied())
    }
}

/// Rows of one folder of the case library.
struct Family<'a> {
    name: &'a str,
    rows: Vec<Row<'a>>,
}

impl MatrixPage<'_> {
    /// Renders the page as one file that loads nothing else. Without JavaScript, everything works except the search,
    /// the comparison of two columns and folding.
    pub fn html(&self) -> String {
        let mut page = String::new();
        for (details, runs) in SIZE_LIMITS {
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
        let drawn = drawn(&over, runs);
        let numbers: BTreeMap<&str, usize> =
            over[..drawn].iter().enumerate().map(|(n, over)| (over.case, n + 1)).collect();
        let families = self.families();
        let findings = Findings::of(self.columns, &|name| self.short(name));
        let cases: usize = families.iter().map(|family| family.rows.len()).sum();
        let title = format!("{} on {}", count(cases, "case"), count(self.columns.len(), "column"));
        let header = html! {
            p { "rocrepro, " (Text(self.date)) }
            h1 { (title) }
            p { (Text(&self.totals_sentence())) }
        };
        let main = html! {
            (filter(&CHOICES, first_choice(&families), "cases, titles, issues and results"))
            (self.comparison())
            p {
                "Each cell shows how many of the executed trials passed. A linked cell leads to the details."
                @if self.columns.len() > 4 { " The table scrolls to the right." }
            }
            @if !self.shared().is_empty() { p { "All columns: " (Text(&self.shared().join("; "))) "." } }
            div.wide tabindex="0" role="region" aria-label="Cases and columns" {
                table.matrix.filtered {
                    thead { tr { th scope="col" { "case" } @for column in self.columns { (self.heading(column)) } } }
                    @for family in &families { (self.family(family, &numbers, &findings)) }
                }
            }
            (legend())
            (findings.markup(details))
            @if !over.is_empty() {
                h2 { "Over time" }
                p {
                    "Cases whose result varied between the runs of a column; one bar per run, a short bar means passed "
                    "or skipped."
                }
                @for (number, case) in over[..drawn].iter().enumerate() { (case.markup(number + 1)) }
                @if drawn < over.len() {
                    p {
                        (count(over.len() - drawn, "case")) " more changed; run "
                        code { "rocrepro records history CASE" } " for the details."
                    }
                }
            }
            (self.stacks())
        };
        document(&title, true, &header, &main)
    }

    /// Returns two lists of the columns, in which the reader chooses two of them. The script then shows only the rows
    /// in which these two differ.
    fn comparison(&self) -> Markup {
        html! {
            @if self.columns.len() > 1 {
                p.choice.script hidden {
                    @for (id, label) in [("a", "Compare"), ("b", "with")] {
                        label for=(id) { (label) } " "
                        select.compare id=(id) {
                            option value="" { "all columns" }
                            @for column in self.columns {
                                @let name = self.short(&column.name);
                                option value=(Text(&name)) { (Text(&name)) }
                            }
                        }
                        " "
                    }
                }
            }
        }
    }

    /// Returns the heading of a column. The words after the first one are on a line of their own, so that columns are
    /// narrow.
    fn heading(&self, column: &Column) -> Markup {
        let name = self.short(&column.name);
        let (first, others) = name.split_once(' ').unwrap_or((&name, ""));
        html! { th scope="col" { (Text(first)) " " @if !others.is_empty() { span.sub { (Text(others)) } } } }
    }

    fn family(
        &self,
        family: &Family<'_>,
        numbers: &BTreeMap<&str, usize>,
        findings: &Findings<'_>,
    ) -> Markup {
        html! {
            tbody {
                tr.family {
                    th scope="rowgroup" {
                        button.fold disabled aria-expanded="true" { (Text(family.name)) }
                        span.sub { (count(family.rows.len(), "case")) }
                    }
                    @for column in 0..self.columns.len() { td { (family.total(column)) } }
                }
                @for row in &family.rows {
                    tr class=(row.class()) {
                        th scope="row" { (row_heading(row, numbers)) }
                        @for cell in &row.cells { (cell_markup(cell, findings)) }
                    }
                }
            }
        }
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

    /// Returns the rows by folder. Folders and cases with unexpected results come first, the others are sorted by name.
    fn families(&self) -> Vec<Family<'_>> {
        let mut cases: BTreeMap<&str, Row<'_>> = BTreeMap::new();
        let empty =
            |case| Row { case, cells: self.columns.iter().map(|_| Cell::default()).collect() };
        for (at, column) in self.columns.iter().enumerate() {
            for record in &column.records {
                let row = cases.entry(&record.case).or_insert_with(|| empty(&record.case));
                row.cells[at].records.push(record);
            }
            for trial in &column.missing {
                let case = trial.split('[').next().unwrap_or_default();
                cases.entry(case).or_insert_with(|| empty(case)).cells[at].missing += 1;
            }
        }
        let mut families: BTreeMap<&str, Vec<Row<'_>>> = BTreeMap::new();
        for row in cases.into_values() {
            let name = row.case.split('/').next().unwrap_or_default();
            families.entry(name).or_default().push(row);
        }
        let mut families: Vec<Family<'_>> =
            families.into_iter().map(|(name, rows)| Family { name, rows }).collect();
        for family in &mut families {
            family.rows.sort_by_key(|row| (!row.has_news(), row.case));
        }
        families.sort_by_key(|family| (!family.rows.iter().any(Row::has_news), family.name));
        families
    }

    /// Returns a sentence with the number of trials for each verdict.
    fn totals_sentence(&self) -> String {
        let all = || self.columns.iter().flat_map(|column| &column.records);
        let mut kinds = VerdictKind::ALL.to_vec();
        kinds.sort_by_key(|kind| rank(*kind));
        let numbers = kinds.into_iter().filter_map(|kind| {
            let n = all().filter(|record| record.verdict.kind == kind).count();
            (n > 0).then(|| format!("{n} {}", count_label(kind)))
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

    fn stacks(&self) -> Markup {
        html! {
            h2 { "Stacks and devices of the columns" }
            @for column in self.columns {
                section {
                    h3 { (Text(&column.name)) }
                    (stack(column))
                }
            }
        }
    }
}

impl Family<'_> {
    /// Returns the number of passed trials of a column and of its trials that ran; empty if none ran.
    fn total(&self, column: usize) -> String {
        let numbers = self.rows.iter().map(|row| row.cells[column].passed_and_ran());
        match numbers.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)) {
            (_, 0) => String::new(),
            (passed, ran) => format!("{passed}/{ran}"),
        }
    }
}

/// Returns the choice of rows with which the page opens: the first one that shows any.
fn first_choice(families: &[Family<'_>]) -> &'static str {
    let rows = || families.iter().flat_map(|family| &family.rows);
    match (rows().any(Row::differs), rows().any(|row| !row.passed_everywhere())) {
        (true, _) => "differs",
        (false, true) => "bad",
        (false, false) => "all",
    }
}

/// Returns the name of a case, its title and its upstream issues. `numbers` contains the numbers of the sections that
/// show results over time; the name of a case with such a section is a link to it.
fn row_heading(row: &Row<'_>, numbers: &BTreeMap<&str, usize>) -> Markup {
    let title = row.records().next().map_or("", |record| record.title.as_str());
    let upstream = row.records().map(|record| &record.upstream).find(|issues| !issues.is_empty());
    html! {
        @match numbers.get(row.case) {
            Some(number) => a href=(format!("#t{number}")) { (Text(row.case)) },
            None => (Text(row.case)),
        }
        span.sub {
            (Text(title))
            @if let Some(upstream) = upstream { " " (issues(upstream)) }
        }
    }
}

fn cell_markup(cell: &Cell<'_>, findings: &Findings<'_>) -> Markup {
    let section = cell.worst_record().and_then(|record| findings.section(record));
    html! {
        td class=(cell.class()) {
            @match section {
                Some(section) => a href=(format!("#{section}")) { (cell.words()) },
                None => (cell.words()),
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        p {
            "Only numbers in a cell: all executed trials passed. " b { "known" } ": an expected failure of the case. "
            b { "FAIL" } ", " b { "CHANGED" } ", " b { "FIXED?" } ": unexpected results. " b { "no verdict" }
            ": the run proves nothing. " b { "skip" }
            ": the stack or architecture lacks something that the case needs; the link leads to the reason. "
            b { "not run" } ": planned, but the run ended earlier. Empty: not part of that run. The row of a folder "
            "counts the trials of all its cases."
        }
    }
}

/// Returns the stack and the device of a column, and the build ids of its libraries.
fn stack(column: &Column) -> Markup {
    let with_libraries = column.records.iter().find(|record| !record.stack.libraries.is_empty());
    let Some(record) = with_libraries.or(column.records.first()) else {
        return html! { p { "No trial has finished." } };
    };
    let ends = column.records.iter().map(|record| record.date.as_str());
    let (first, last) = (ends.clone().min(), ends.max());
    let mut libraries = String::new();
    for library in &record.stack.libraries {
        let id = library.build_id.as_deref().unwrap_or("without build id");
        libraries += &format!("{} {id}\n", library.name);
    }
    html! {
        p {
            (Text(&describe_setup(record))) ". " (count(column.records.len(), "trial")) ", from "
            (Text(first.unwrap_or_default())) " to " (Text(last.unwrap_or_default())) "."
        }
        @if !column.missing.is_empty() {
            p { (count(column.missing.len(), "trial")) " planned but not run." }
        }
        pre { (Text(&libraries)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        PastRun,
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
        let between = |start: &str| -> Vec<&str> {
            page.split(start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
        };
        let mut ids = between("<section class=\"found\" id=\"");
        ids.extend(between("<section id=\""));
        let links = between("href=\"#");
        assert!(links.iter().all(|link| ids.contains(link)) && !links.is_empty(), "{links:?}");
        assert!(ids.iter().all(|id| links.contains(id)), "{ids:?}");
        // The heading, and a row for each of the five folders and five cases.
        assert_eq!(page.matches("<tr").count(), 1 + 5 + 5);
        assert_eq!(page.matches("<td").count(), (5 + 5) * 3);
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
        let heading = |release: &str, others: &str| {
            format!("<th scope=\"col\">{release} <span class=\"sub\">{others}</span></th>")
        };
        for (release, others) in [("7.2.4", "gfx1151; late"), ("6.4.3", "gfx90a; x")] {
            assert!(page.contains(&heading(release, others)), "{page}");
        }
        // With a single column, nothing is left out of the column's name.
        let alone = MatrixPage { columns: &columns[..1], date: "" }.html();
        assert!(alone.contains(&heading("7.2.4", "gfx1151; late; silent")), "{alone}");
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
            let runs = [PastRun::from_records(&fine), PastRun::from_records(&records)];
            let past: Vec<PastRun> = (0..20).map(|n| runs[n % 2].clone()).collect();
            let column = |n: usize| Column {
                name: format!("7.2.4 gfx{n}"),
                records: records.clone(),
                missing: Vec::new(),
                past: past.clone(),
            };
            let columns: Vec<Column> = (0..20).map(column).collect();
            let page = MatrixPage { columns: &columns, date: "" }.html();
            assert!(page.len() < 2_500_000, "{}", page.len());
            assert_eq!(page.matches("<td class").count(), 20_000);
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
            past: runs.iter().map(PastRun::from_records).collect(),
        };
        let page = MatrixPage { columns: &[column], date: "" }.html();
        let bars: Vec<&str> =
            page.split("<rect class=\"").skip(1).filter_map(|r| r.split('"').next()).collect();
        assert_eq!(bars, ["ok", "news", "ok"]);
        assert!(page.contains("aria-label=\"ok, FAIL, ok\""), "{page}");
        assert!(page.contains("<th scope=\"row\"><a href=\"#t1\">a/b</a>"), "{page}");
        assert!(page.contains("<section id=\"t1\"><h3>a/b</h3>"), "{page}");
    }

    /// The page opens with the first choice that shows a row.
    #[test]
    fn opens_with_rows_that_need_attention() {
        let chosen = |one: Record, other: Record| {
            let column = |name: &str, record: Record| Column {
                name: name.to_owned(),
                records: vec![record],
                missing: Vec::new(),
                past: Vec::new(),
            };
            let columns = [column("7.2.4 gfx1151", one), column("6.4.3 gfx1151", other)];
            let page = MatrixPage { columns: &columns, date: "" }.html();
            let before = page.split(" checked").next().unwrap_or_default();
            let id = before.rsplit("value=\"").next().and_then(|rest| rest.split('"').next());
            id.unwrap_or_default().to_owned()
        };
        assert_eq!(chosen(known("a/b"), passed("a/b")), "differs");
        assert_eq!(chosen(failed("a/b"), failed("a/b")), "differs");
        assert_eq!(chosen(known("a/b"), known("a/b")), "bad");
        assert_eq!(chosen(known("a/b"), skipped("a/b")), "bad");
        assert_eq!(chosen(passed("a/b"), skipped("a/b")), "all");
    }
}
