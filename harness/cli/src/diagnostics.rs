//! Mistakes of case files, shown at their place.

use std::io::IsTerminal;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use case::Diagnostic;

/// All mistakes of one file with the lines they are in.
pub(crate) fn render(path: &str, text: &str, mistakes: &[Diagnostic]) -> String {
    let renderer =
        if std::io::stderr().is_terminal() { Renderer::styled() } else { Renderer::plain() };
    let shown: Vec<String> = mistakes
        .iter()
        .map(|mistake| {
            let span = span(text, mistake);
            let snippet = Snippet::source(text)
                .line_start(1)
                .path(path)
                .annotation(AnnotationKind::Primary.span(span));
            let mut group = Level::ERROR.primary_title(&mistake.message).element(snippet);
            if let Some(help) = &mistake.help {
                group = group.element(Level::HELP.message(help));
            }
            renderer.render(&[group]).to_string()
        })
        .collect();
    shown.join("\n\n")
}

/// Bytes of the text that a mistake points at; lines and columns count characters.
fn span(text: &str, mistake: &Diagnostic) -> std::ops::Range<usize> {
    let mut start = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number + 1 == mistake.at.line as usize {
            let content = line.trim_end_matches(['\n', '\r']);
            let offset = |characters: u32| {
                content.char_indices().nth(characters as usize).map_or(content.len(), |(i, _)| i)
            };
            let column = mistake.at.column.saturating_sub(1);
            let from = offset(column);
            return start + from..start + offset(column + mistake.at.length).max(from);
        }
        start += line.len();
    }
    text.len()..text.len()
}
