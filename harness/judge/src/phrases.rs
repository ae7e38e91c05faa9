/// Returns line and iteration in parentheses, for example ` (line 14, iteration 3)`. Line 0 and occurrence 0 are left
/// out. Occurrences count from 0, iterations from 1.
pub(crate) fn place(line: u32, occurrence: u32) -> String {
    // The number comes from the worker, where an untrusted case can send any.
    let iteration = occurrence.saturating_add(1);
    match (line, occurrence) {
        (0, 0) => String::new(),
        (0, _) => format!(" (iteration {iteration})"),
        (line, 0) => format!(" (line {line})"),
        (line, _) => format!(" (line {line}, iteration {iteration})"),
    }
}

/// Text in the summary of an outcome that separates the description of a deviation from the right value.
pub const EXPECTED: &str = "; expected ";

/// End of the summary of a comparison that found no difference between two buffers.
pub const SAME_BYTES: &str = " hold the same bytes; they must differ";

/// End of the summary of a comparison that found a difference between two buffers that must be equal.
pub const UNEQUAL: &str = " must be equal but differ";

/// Text that separates an element that is too small from the least value that would be right.
pub const AT_LEAST: &str = "; each element must be at least ";

/// Formats a number with its noun in singular or plural: `1 byte`, `2 bytes`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Joins alternatives into a phrase: `a`, `a or b`, `a, b or c`.
pub(crate) fn any_of(items: &[String]) -> String {
    match items {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

/// Signals that the Linux kernel sends to a process because of a bug in the process: SIGILL, SIGTRAP, SIGABRT, SIGBUS,
/// SIGFPE, SIGSEGV and SIGSYS.
pub(crate) const FAULTS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];

/// Returns the Linux name of a signal, for example `SIGSEGV`; `signal 64` if the number has no common name. Source:
/// signal(7).
pub fn signal(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

/// Describes a process that ended because of a signal from outside, that is, one that is not in [`FAULTS`]. `what` is
/// the name of the process in the message.
pub(crate) fn ended_from_outside(what: &str, number: i32) -> String {
    let name = signal(number);
    match name.as_str() {
        "SIGXFSZ" => format!(
            "Linux killed {what} with SIGXFSZ: a file exceeded the size limit (`file-size`)"
        ),
        "SIGXCPU" => {
            format!("Linux killed {what} with SIGXCPU: the limit on processor time was exceeded")
        }
        _ => format!("{what} was killed from outside with {name}"),
    }
}

/// Returns the reason if the output of a starter says that it could not start its program; otherwise `None`. A starter
/// is the process through which `supervise::Start` starts a program.
pub(crate) fn not_started(stderr: &str) -> Option<&str> {
    stderr.lines().find_map(|line| line.strip_prefix("starter: "))
}

/// Maximum length of a quoted line, in bytes. Without this limit, a worker could print a line of any length.
const MAX_LINE_BYTES: usize = 1000;

/// Returns the last line that is not blank. The end of a long line is replaced by `...`.
pub(crate) fn last_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(shortened)
}

/// Returns the last line that is neither blank nor part of a warning of Python. Python prints a warning as
/// `FILE:LINE: CATEGORY: MESSAGE`, and below it the line of the source, indented by two spaces.
///
/// Source: the function `_formatwarnmsg_impl` of Python's module `warnings`.
pub(crate) fn last_line_but_warnings(text: &str) -> Option<String> {
    let mut in_warning = false;
    let mut last = None;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let is_its_source = in_warning && line.starts_with("  ");
        in_warning = is_warning(line);
        if !in_warning && !is_its_source {
            last = Some(line.trim());
        }
    }
    last.map(shortened)
}

/// Returns true if the line is the first of a warning of Python.
fn is_warning(line: &str) -> bool {
    let parts: Vec<&str> = line.split(": ").collect();
    parts.windows(2).any(|pair| {
        let number = pair[0].rsplit_once(':').map(|(_, number)| number);
        let is_place =
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        is_place && pair[1].ends_with("Warning") && pair[1].chars().all(is_name)
    })
}

/// Returns the line. If the line is too long, its end is replaced by `...`.
fn shortened(line: &str) -> String {
    let ends = line.char_indices().map(|(at, character)| at + character.len_utf8());
    let kept = ends.take_while(|end| *end <= MAX_LINE_BYTES).last().unwrap_or(0);
    if kept == line.len() { line.to_owned() } else { format!("{} ...", &line[..kept]) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn long_last_lines_are_cut_between_characters() {
        let long = format!("a{}\n \n", "ä".repeat(1000));
        let shown = last_line(&long).expect("a line");
        assert_eq!(shown, format!("a{} ...", "ä".repeat(499)));
        assert_eq!(last_line("first\n last \n\n").as_deref(), Some("last"));
        assert_eq!(last_line("\n \n"), None);
    }

    /// The warnings are those that Python 3.13 prints.
    #[test]
    fn warnings_of_python_are_not_the_last_line() {
        #[track_caller]
        fn check(text: &str, expected: Option<&str>) {
            assert_eq!(last_line_but_warnings(text).as_deref(), expected);
        }
        let warning =
            "/a b/jit.py:12: UserWarning: no fusion: off\n  warn_once(FP_FUSION_DEFAULT_WARNING)\n";
        check(warning, None);
        check(&format!("real error\n\n{warning}"), Some("real error"));
        check(&format!("{warning}real error\n"), Some("real error"));
        check(&format!("{warning}{warning}  indented\n"), Some("indented"));
        check("<stdin>:1: torch.x.OwnWarning: a\n", None);
        check("main.cpp:3:4: warning: unused\n  int x;\n", Some("int x;"));
        check("error: a Warning: b\n", Some("error: a Warning: b"));
    }

    /// The expected names are those that the shell lists (`kill -l`, POSIX).
    #[test]
    fn signal_names_match_those_of_the_shell() {
        for number in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 24, 25, 31] {
            let output = Command::new("sh").args(["-c", &format!("kill -l {number}")]).output();
            let name = String::from_utf8(output.expect("a shell").stdout).expect("a name");
            assert_eq!(signal(number), format!("SIG{}", name.trim()));
        }
        assert_eq!(signal(64), "signal 64");
    }
}
