use judge::VerdictKind;

use crate::{
    Record,
    explain::{advice, explain},
    one_line, sentence, visible, words,
};

/// Formats the records as annotations for GitHub Actions: workflow commands that a step prints, for example with `cat`.
///
/// Unexpected results and missing verdicts become errors. Expected failures and differences become notices. Passed and
/// skipped trials are only counted, in the first notice, because GitHub shows at most 10 annotations of each kind per
/// step. An annotation does not change the status of the step. Source:
/// <https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands>.
pub fn annotations(records: &[Record]) -> String {
    let mut out = "# rocrepro: annotations for GitHub Actions\n".to_owned();
    out.push_str(&command("notice", "rocrepro", &plain(&sentence(records))));
    for record in records {
        let kind = record.verdict.kind;
        let (level, message) = match kind {
            VerdictKind::Pass | VerdictKind::Skip => continue,
            VerdictKind::Known | VerdictKind::Difference => {
                let next = advice(record).unwrap_or_default();
                let place = words::describe_setup(record);
                ("notice", [record.outcome.summary.as_str(), &next, &place].join("\n"))
            }
            VerdictKind::NoVerdict
            | VerdictKind::NewsFail
            | VerdictKind::NewsChanged
            | VerdictKind::NewsFixed => {
                // The first line of the explanation is left out, because the title of the annotation contains its
                // verdict and name.
                let explained = plain(&explain(record));
                ("error", explained.split_once('\n').map_or("", |(_, text)| text).to_owned())
            }
        };
        let title = format!("{} {}", words::verdict_label(kind), record.trial);
        out.push_str(&command(level, &title, &message));
    }
    out
}

fn plain(view: &str) -> String {
    anstream::adapter::strip_str(view).to_string()
}

/// Formats one workflow command. The runner decodes `%0A` in a message, so the command is a single line.
fn command(level: &str, title: &str, message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let message = escaped(&visible(&lines.join("\n")));
    let title = escaped(&one_line(title)).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={title}::{message}\n")
}

/// Escapes a message in the same way as GitHub's toolkit:
/// <https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts>.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{changed, failed, fixed, known, passed, skipped, unproven};

    #[test]
    fn annotates_unexpected_results_and_expected_failures() {
        let mut differs = known("copies/d");
        differs.verdict.kind = VerdictKind::Difference;
        let records = [
            passed("copies/a[x=1]"),
            failed("copies/a[x=2,y=3]"),
            known("copies/b"),
            changed("copies/c"),
            fixed("copies/c"),
            differs,
            skipped("rng/a"),
            unproven("rng/b"),
        ];
        insta::assert_snapshot!(annotations(&records));
    }

    /// GitHub's runner reads each line after the first one as exactly one command, whatever text a library printed.
    #[test]
    fn keeps_hostile_texts_inside_their_command() {
        let hostile =
            "x::y,line=1%0A100%\r\n::error::mine\n##[error]z\u{1b}[31m\u{85}\n::stop-commands::t";
        let makers = [passed, failed, known, changed, fixed, skipped, unproven];
        let mut records = makers.map(|make| make("copies/a"));
        for record in &mut records {
            for text in [
                &mut record.trial,
                &mut record.case,
                &mut record.outcome.summary,
                &mut record.outcome.signature,
                &mut record.stderr_tail,
                &mut record.stdout_tail,
                &mut record.stack.spec,
                &mut record.device.gfx,
                &mut record.title,
            ] {
                text.push_str(hostile);
            }
            record.outcome.details.push(hostile.to_owned());
        }
        let report = annotations(&records);
        let mut lines = report.lines();
        assert_eq!(lines.next(), Some("# rocrepro: annotations for GitHub Actions"));
        let found: Vec<(String, String)> = lines
            .map(|line| {
                assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
                let (head, message) =
                    line.strip_prefix("::").unwrap().split_once("::").expect("a command");
                let (level, properties) = head.split_once(' ').expect("properties");
                // The title is the only property: its value contains neither a comma, which would begin another
                // property, nor a colon, which could end the properties.
                assert!(!properties.contains([':', ',']), "{properties}");
                let title = properties.strip_prefix("title=").expect("a title");
                for text in [title, message] {
                    let codes = text.split('%').skip(1);
                    let known = ["25", "0A", "0D", "3A", "2C"];
                    codes.for_each(|code| assert!(known.contains(&&code[..2]), "{text}"));
                }
                (level.to_owned(), decoded(title))
            })
            .collect();
        let title = |word: &str| format!("{word} {}", one_line(&format!("copies/a{hostile}")));
        let expected = [
            ("notice", "rocrepro".to_owned()),
            ("error", title("FAIL")),
            ("notice", title("known")),
            ("error", title("CHANGED")),
            ("error", title("FIXED?")),
            ("error", title("no verdict")),
        ];
        assert_eq!(found, expected.map(|(level, title)| (level.to_owned(), title)));
    }

    /// Decodes a property in the order in which GitHub's runner does.
    fn decoded(text: &str) -> String {
        let codes = [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")];
        codes.iter().fold(text.to_owned(), |text, (code, is)| text.replace(code, is))
    }
}
