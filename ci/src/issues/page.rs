//! Parses those parts of a report file whose statements can be tested.

/// The testable parts of a report.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) title: String,
    /// Items of the list at the beginning, without the leading `* `.
    pub(super) first: Vec<String>,
    /// File name and text of the printed program.
    pub(super) program: Option<(String, String)>,
    /// Commands that build and run the program.
    pub(super) commands: Vec<String>,
    /// Command that repeats the trial with rocrepro.
    pub(super) again: String,
    /// Rows of the table of controls: description, number of failures, number of runs.
    pub(super) controls: Vec<(String, u32, u32)>,
    /// Names of the libraries with their build ids.
    pub(super) libraries: Vec<(String, String)>,
    pub(super) text: String,
}

impl Page {
    pub(super) fn read(text: &str) -> Page {
        let title = between(text, "<!-- title: ", " -->").unwrap_or_default().to_owned();
        // A comment for an existing issue has no headings.
        let body = text.split_once("-->\n\n").map_or("", |(_, body)| body);
        let problem = body.split("\n### ").next().unwrap_or_default();
        let first = problem.lines().skip_while(|line| !line.starts_with("* "));
        let first = first.take_while(|line| line.starts_with("* "));
        let first = first.map(|line| line.trim_start_matches("* ").to_owned()).collect();
        let steps = ["### Steps to Reproduce", "To run it directly"].iter();
        let steps = steps.filter_map(|mark| text.split_once(mark)).next_back();
        let steps = steps.map_or(body, |(_, steps)| steps);
        let commands = block(steps, "sh").unwrap_or_default();
        let case = text.split_once(", for rocrepro</summary>").map_or("", |(_, case)| case);
        let again = block(case, "sh").or_else(|| last_command(text)).unwrap_or_default();
        let again = again.lines().next().unwrap_or_default();
        Page {
            title,
            first,
            program: program(text),
            commands: commands.lines().map(str::to_owned).collect(),
            again: again.split("   # ").next().unwrap_or_default().to_owned(),
            controls: rows(text).filter_map(|row| control(&row)).collect(),
            libraries: rows(text).filter_map(|row| library(&row)).collect(),
            text: text.to_owned(),
        }
    }

    /// Returns the item of the first list that begins with this word.
    pub(super) fn item(&self, word: &str) -> Option<&str> {
        let start = format!("**{word}");
        self.first.iter().map(String::as_str).find(|item| item.starts_with(&start))
    }

    /// Returns the text between the first `start` and the next `end`.
    pub(super) fn quoted(&self, start: &str, end: &str) -> Option<&str> {
        between(&self.text, start, end)
    }
}

pub(super) fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

/// Returns the content of the first code block in a language.
fn block(text: &str, language: &str) -> Option<String> {
    between(text, &format!("```{language}\n"), "\n```").map(str::to_owned)
}

fn last_command(text: &str) -> Option<String> {
    let mut blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("\n```"));
    let is_ours = |command: &&str| command.starts_with("rocrepro ");
    blocks.find_map(|(block, _)| block.lines().find(is_ours).map(str::to_owned))
}

fn program(text: &str) -> Option<(String, String)> {
    let language = ["cpp", "python"].into_iter().find(|it| text.contains(&format!("```{it}\n")))?;
    let (before, _) = text.split_once(&format!("```{language}\n"))?;
    let line = before.lines().rfind(|line| !line.trim().is_empty())?;
    let file = match line.split_once("<code>") {
        Some((_, rest)) => rest.split("</code>").next()?,
        None => line.trim_matches(['`', ':']),
    };
    Some((file.to_owned(), block(text, language)? + "\n"))
}

/// Returns the cells of all table rows.
fn rows(text: &str) -> impl Iterator<Item = Vec<String>> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| {
        let cells = row.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().to_owned()).collect()
    })
}

fn control(row: &[String]) -> Option<(String, u32, u32)> {
    let [what, rate, _] = row else { return None };
    let (failed, runs) = rate.split_once('/')?;
    Some((what.clone(), failed.parse().ok()?, runs.parse().ok()?))
}

fn library(row: &[String]) -> Option<(String, String)> {
    let [name, id] = row else { return None };
    let is_id = id.len() >= 16 && id.chars().all(|c| c.is_ascii_hexdigit());
    (name.starts_with("lib") && is_id).then(|| (name.clone(), id.clone()))
}
