//! Formats the mistakes in case files for the terminal, each with its line.

use std::io::IsTerminal;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use case::Diagnostic;

const MAX_SHOWN: usize = 200;

pub(crate) fn render(path: &str, text: &str, mistakes: &[Diagnostic]) -> String {
    let renderer =
        if std::io::stderr().is_terminal() { Renderer::styled() } else { Renderer::plain() };
    let lines: Vec<&str> = text.split('\n').collect();
    let mut shown: Vec<String> = mistakes
        .iter()
        .take(MAX_SHOWN)
        .map(|mistake| {
            // The renderer reads its whole text again for each mistake, so only the line of the mistake is passed.
            let number = (mistake.at.line.max(1) as usize).min(lines.len());
            let line = lines[number - 1].trim_end_matches('\r');
            let snippet = Snippet::source(line)
                .line_start(number)
                .path(path)
                .annotation(AnnotationKind::Primary.span(span(line, mistake)));
            let mut group = Level::ERROR.primary_title(&mistake.message).element(snippet);
            if let Some(help) = &mistake.help {
                group = group.element(Level::HELP.message(help));
            }
            renderer.render(&[group]).to_string()
        })
        .collect();
    let more = mistakes.len().saturating_sub(MAX_SHOWN);
    if more > 0 {
        let text = format!("{} in {path} are not shown", report::count(more, "further mistake"));
        let title = Level::ERROR.primary_title(text);
        shown.push(renderer.render(&[Group::with_title(title)]).to_string());
    }
    shown.join("\n\n")
}

/// Returns the reason why a regular expression is invalid.
pub(crate) fn regex_error(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Converts the columns of a mistake, which count characters, to the byte range of the mistake in its line.
fn span(line: &str, mistake: &Diagnostic) -> std::ops::Range<usize> {
    let offset = |characters: u32| {
        line.char_indices().nth(characters as usize).map_or(line.len(), |(at, _)| at)
    };
    let column = mistake.at.column.saturating_sub(1);
    let from = offset(column);
    from..offset(column.saturating_add(mistake.at.length)).max(from)
}
