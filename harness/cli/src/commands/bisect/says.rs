//! What a failed command says: the identity of its failure, without what changes from run to run.

use regex::Regex;

/// Longest text of a signature.
const LONGEST: usize = 100;

/// The last line of a text that says something; of a Python program that ended with an exception, the exception.
pub(super) fn last_words(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    let traceback = lines().rposition_of("Traceback (most recent call last):");
    let exception =
        traceback.and_then(|at| lines().skip(at + 1).find(|line| !line.starts_with(' ')));
    exception.or_else(|| lines().next_back()).map(str::trim)
}

trait PositionOf {
    fn rposition_of(self, line: &str) -> Option<usize>;
}

impl<'a, I: Iterator<Item = &'a str>> PositionOf for I {
    fn rposition_of(self, wanted: &str) -> Option<usize> {
        self.enumerate().filter(|(_, line)| line.trim() == wanted).map(|(at, _)| at).last()
    }
}

/// A line without addresses, numbers, folders and times: what is left is the same in every run of the same failure.
pub(super) fn normalised(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let path = word.trim_start_matches(['\'', '"', '`', '(']);
        // Of a path its last part.
        let word = match path.starts_with('/') && path.len() > 1 {
            true => path.trim_end_matches('/').rsplit('/').next().unwrap_or(path),
            false => word,
        };
        words.push(numbers_out(word));
    }
    let text = words.join(" ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Every number becomes `#`, in hexadecimal too.
fn numbers_out(word: &str) -> String {
    let (mut out, mut rest) = (String::new(), word);
    while let Some(first) = rest.chars().next() {
        let digits = |text: &str, of: fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
        let hexadecimal = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
        let taken = match hexadecimal.map_or(0, |tail| digits(tail, |c| c.is_ascii_hexdigit())) {
            0 => digits(rest, |c| c.is_ascii_digit()),
            n => n + 2,
        };
        if taken == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.push('#');
            rest = &rest[taken..];
        }
    }
    out
}

/// The identity of a failure: how it ended, and what it said last, or that it said what is looked for.
pub(super) fn signature(ended: &str, errors: &str, output: &str, wanted: Option<&Regex>) -> String {
    if let Some(wanted) = wanted.filter(|w| w.is_match(errors) || w.is_match(output)) {
        return format!("match:{wanted}");
    }
    match last_words(errors).or_else(|| last_words(output)).map(normalised) {
        Some(words) => format!("{ended}:{words}"),
        None => ended.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_from_run_to_run_is_left_out() {
        let check = |line: &str, expected: &str| assert_eq!(normalised(line), expected, "{line}");
        check("error at 0x7f12ab: 17 of 4096 differ", "error at #: # of # differ");
        check("/tmp/x.3/repro: cannot open '/tmp/ab/data.bin'", "repro: cannot open data.bin'");
        check("max diff 1.25e-3", "max diff #.#e-#");
        check("0x is no number", "#x is no number");
        assert!(normalised(&"ü ".repeat(300)).ends_with("..."));
    }

    #[test]
    fn a_python_program_is_known_by_its_exception() {
        let text = "warming up\nTraceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    f()\n\
                    RuntimeError: HIP error: invalid device function\nCompile with `TORCH_USE_HIP_DSA` to see more.\n\n";
        assert_eq!(last_words(text), Some("RuntimeError: HIP error: invalid device function"));
        assert_eq!(last_words("a\n b \n\n"), Some("b"));
        assert_eq!(last_words("\n"), None);
    }

    #[test]
    fn a_wanted_text_is_a_failures_name() {
        let wanted = Regex::new("invalid \\w+").unwrap();
        let named = |errors, output| signature("exit:1", errors, output, Some(&wanted));
        assert_eq!(named("x\ninvalid value\nbye", ""), "match:invalid \\w+");
        assert_eq!(named("", "invalid value"), "match:invalid \\w+");
        assert_eq!(named("out of memory", ""), "exit:1:out of memory");
        assert_eq!(signature("signal:11", "", "", None), "signal:11");
    }
}
