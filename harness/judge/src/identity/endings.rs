//! Finds out why a process ended, from its output.

use super::SourcePlace;

/// Maximum length, in characters, of the last line of output in a signature.
const MAX_LINE_CHARS: usize = 100;

const TRACEBACK: &str = "Traceback (most recent call last):";

/// Fragments of paths that belong to files which the user did not write: Python's library, installed packages and the
/// Python module `rocrepro`.
const INSTALLED_PATHS: [&str; 5] =
    ["/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "/rocrepro.py"];

/// Fragments of variable names whose values may be secrets. Such values are removed from recorded lines.
const SECRET_NAMES: [&str; 7] =
    ["passw", "secret", "token", "api_key", "access_key", "credential", "authorization"];

/// A Python exception, as read from the traceback that Python printed.
pub(crate) struct PythonException {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Innermost place in the user's own files. If the traceback contains no such place, the innermost place in any
    /// file.
    pub(crate) place: Option<SourcePlace>,
}

/// Returns the last exception whose traceback Python printed; `None` if the text contains no complete traceback.
pub(crate) fn python_exception(text: &str) -> Option<PythonException> {
    let (_, report) = text.rsplit_once(TRACEBACK)?;
    let mut lines = report.lines().skip(1);
    let mut places = Vec::new();
    let last = loop {
        let line = lines.next()?;
        if line.is_empty() || line.starts_with(' ') {
            places.extend(frame(line, ", in "));
        } else {
            break line;
        }
    };
    let (name, text) = last.split_once(':').unwrap_or((last, ""));
    let name = name.trim();
    let is_name = |c: char| c.is_alphanumeric() || "._".contains(c);
    (!name.is_empty() && name.chars().all(is_name)).then(|| PythonException {
        name: without_module(name).to_owned(),
        text: text.trim().to_owned(),
        place: first_own_place(places.into_iter().rev()),
    })
}

/// Returns the place of the thread that received a signal, according to Python's `faulthandler`: the innermost place in
/// the user's own files, else the innermost place in any file. Returns `None` if the text contains no report of
/// `faulthandler`.
pub(super) fn last_place(text: &str) -> Option<SourcePlace> {
    let (_, report) = text.split_once("Fatal Python error: ")?;
    let (_, thread) = report.split_once("Current thread ")?;
    let frames = thread.lines().skip(1).map_while(|line| frame(line, " in "));
    first_own_place(frames)
}

/// Returns why a C++ program aborted: the type of an uncaught exception, or the text of a failed assertion; `None` if
/// the text contains neither.
pub(super) fn abort_reason(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let thrown = line.split_once("terminate called after throwing an instance of '");
        if let Some((_, name)) = thrown {
            return Some(name.trim_end().trim_end_matches('\'').to_owned());
        }
        line.find("Assertion `").map(|at| normalised(&line[at..]))
    })
}

/// Parses a line of a traceback, for example `  File "PATH", line 12, in main`. `before_function` is the text between
/// the number and the name of the function. Keeps the whole path of the file. Returns `None` for other lines.
fn frame(line: &str, before_function: &str) -> Option<SourcePlace> {
    let (file, rest) = line.strip_prefix("  File \"")?.split_once("\", line ")?;
    let (number, name) = rest.split_once(before_function).unwrap_or((rest, ""));
    Some(SourcePlace {
        file: file.to_owned(),
        line: number.trim().parse().ok()?,
        function: function(name),
    })
}

/// Returns the first place in one of the user's own files; if no place is in such a file, the first of all places.
/// Removes the folder from the path of the file.
fn first_own_place(places: impl Iterator<Item = SourcePlace>) -> Option<SourcePlace> {
    let places: Vec<SourcePlace> = places.collect();
    let is_own = |place: &&SourcePlace| {
        let file = format!("/{}", place.file);
        !INSTALLED_PATHS.iter().any(|part| file.contains(part))
    };
    let place = places.iter().find(is_own).or(places.first())?;
    let file = place.file.rsplit('/').next().unwrap_or_default().replace(':', "-");
    let file = file.trim_matches(['<', '>']).to_owned();
    Some(SourcePlace { file, ..place.clone() })
}

pub(super) fn without_module(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns the last line of a text that is not blank. If the text contains a Python traceback, returns the line that
/// names the exception instead.
pub fn last_words(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    let traceback = lines().enumerate().filter(|(_, line)| line.trim() == TRACEBACK).last();
    let exception =
        traceback.and_then(|(at, _)| lines().skip(at + 1).find(|line| !line.starts_with(' ')));
    exception.or_else(|| lines().next_back()).map(str::trim)
}

/// Maximum number of lines of a traceback that are shown, not counting its first line and the exception. The innermost
/// lines are kept.
const TRACEBACK_LINES: usize = 12;

/// Returns the lines of the last traceback in a text, up to the line that names the exception. Leaves out lines that
/// only mark columns. Returns an empty list for a text without a traceback.
pub fn traceback(text: &str) -> Vec<&str> {
    let Some((_, report)) = text.rsplit_once(TRACEBACK) else { return Vec::new() };
    let lines: Vec<&str> = report.lines().skip(1).collect();
    let is_frame = |line: &str| line.is_empty() || line.starts_with(' ');
    let Some(end) = lines.iter().position(|line| !is_frame(line)) else { return Vec::new() };
    let is_text = |line: &&&str| !line.trim().trim_matches(['~', '^']).is_empty();
    let frames: Vec<&str> = lines[..end].iter().filter(is_text).copied().collect();
    let innermost = &frames[frames.len().saturating_sub(TRACEBACK_LINES)..];
    [&[TRACEBACK], innermost, &[lines[end]]].concat()
}

/// Removes from a line the parts that differ between runs of the same failure: addresses, numbers, folders, times and
/// the values of secrets.
pub(super) fn normalised(line: &str) -> String {
    let mut words = Vec::new();
    let mut is_value = false;
    for word in line.split_whitespace() {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if let Some(name) = secret(word) {
            is_value = word.len() == name.len() + 1;
            words.push(without_numbers(name));
            continue;
        }
        let path = word.trim_start_matches(['\'', '"', '`', '(']);
        let word = match path.starts_with('/') && path.len() > 1 {
            true => path.trim_end_matches('/').rsplit('/').next().unwrap_or(path),
            false => word,
        };
        words.push(without_numbers(word));
    }
    let text = words.join(" ");
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// If `word` is `name=value` or `name:` and the name suggests a secret value, for example `api_key`, returns the name.
fn secret(word: &str) -> Option<&str> {
    let (name, _) = word.split_once(['=', ':'])?;
    let lower = name.to_lowercase();
    SECRET_NAMES.iter().any(|part| lower.contains(part)).then_some(name)
}

/// Returns the name of a function for a signature; an empty text for code outside of functions, which Python calls
/// `<module>`.
pub(crate) fn function(name: &str) -> String {
    let name = name.trim().trim_matches(['<', '>']);
    if name == "module" { String::new() } else { name.to_owned() }
}

/// Replaces every decimal or hexadecimal number by `#`.
pub fn without_numbers(word: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceback_ends_with_the_exception() {
        let text = "a\nTraceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    f(1)\n    ~^^^\n\
                    KeyError: 'c'\nmore\n";
        let expected =
            [TRACEBACK, "  File \"x.py\", line 3, in <module>", "    f(1)", "KeyError: 'c'"];
        assert_eq!(traceback(text), expected);
        let frames: String = (0..20).map(|n| format!("  frame {n}\n")).collect();
        let long = format!("{TRACEBACK}\n{frames}E: x\n");
        let shown = traceback(&long);
        assert_eq!((shown.len(), shown[1], shown[13]), (14, "  frame 8", "E: x"));
        assert!(traceback("no traceback").is_empty());
        assert!(traceback(&format!("{TRACEBACK}\n  cut off")).is_empty());
    }

    #[test]
    fn normalised_lines_omit_numbers_folders_and_secrets() {
        let check = |line: &str, expected: &str| assert_eq!(normalised(line), expected, "{line}");
        check("error at 0x7f12ab: 17 of 4096 differ", "error at #: # of # differ");
        check("/tmp/x.3/repro: cannot open '/tmp/ab/data.bin'", "repro: cannot open data.bin'");
        check("max diff 1.25e-3", "max diff #.#e-#");
        check("0x is short", "#x is short");
        check("run 1 password=hunter2 token: b2", "run # password token");
        assert!(normalised(&"ü ".repeat(300)).ends_with("..."));
    }

    #[test]
    fn last_line_of_a_python_program_is_its_exception() {
        let text = "warming up\nTraceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    f()\n\
                    RuntimeError: HIP error: invalid device function\nCompile with `TORCH_USE_HIP_DSA` to see more.\n\n";
        assert_eq!(last_words(text), Some("RuntimeError: HIP error: invalid device function"));
        assert_eq!(last_words("a\n b \n\n"), Some("b"));
        assert_eq!(last_words("\n"), None);
        let found = python_exception(text).expect("an exception");
        assert_eq!(
            (&*found.name, &*found.text),
            ("RuntimeError", "HIP error: invalid device function")
        );
        assert_eq!(found.place.expect("a place").to_string(), "x.py:3");
    }

    #[test]
    fn exception_place_is_in_the_users_own_files() {
        let report = |frames: &[&str], last: &str| {
            let frames: String =
                frames.iter().map(|f| format!("  File \"{f}\", line 4, in g\n    x\n")).collect();
            format!(
                "{TRACEBACK}\n  File \"/a/old.py\", line 1, in h\nOSError: x\n\n{TRACEBACK}\n{frames}{last}\n"
            )
        };
        let place = |frames: &[&str]| {
            let found =
                python_exception(&report(frames, "torch.cuda.OutOfMemoryError: HIP")).expect("one");
            (found.name, found.place.map(|place| place.file))
        };
        let named = |file: &str| ("OutOfMemoryError".to_owned(), Some(file.to_owned()));
        assert_eq!(place(&["/a/x.py", "/v/lib/python3.12/site-packages/t.py"]), named("x.py"));
        assert_eq!(place(&["/a/x.py", "/t/rocrepro.py"]), named("x.py"));
        assert_eq!(
            place(&["/usr/lib/python3.12/runpy.py", "<frozen runpy>"]),
            named("frozen runpy")
        );
        assert_eq!(place(&[]), ("OutOfMemoryError".to_owned(), None));
        assert!(python_exception(&report(&[], "not a name of one: x")).is_none());
        assert!(python_exception(TRACEBACK).is_none());
        assert!(python_exception("KeyError: 1").is_none());
    }
}
