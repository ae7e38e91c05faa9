//! Runs the commands in docs/recipes and compares their output with the output that the pages show, or updates the
//! pages.

use std::fmt::Write;

use xshell::{Shell, cmd};

use crate::{TaskResult, frameworks};

const PAGES: &str = "docs/recipes";

/// Pages whose commands cannot be repeated on every machine, each with the reason.
const SKIPPED_PAGES: [(&str, &str); 3] = [
    ("performance.md", "the measured times depend on the machine and its load"),
    ("pytorch.md", "the page uses placeholders for environments with PyTorch wheels"),
    ("record.md", "the page uses placeholders for a program of the user"),
];

/// Keys of output lines that must be equal in every run. In all other lines, numbers may differ.
const STABLE_KEYS: [&str; 4] = ["answer", "signature", "device", "moved"];

/// Width of the key at the start of an output line, in characters.
const KEY_WIDTH: usize = 11;

/// A command on a page, and the lines of its output that the page shows.
#[derive(Debug, PartialEq)]
struct Recipe {
    /// Shell commands that must run before the command, because they create the files that it uses.
    before: String,
    command: String,
    /// Each shown line: its line number on the page, and its text without the indent.
    shown: Vec<(usize, String)>,
}

/// Runs the commands of all pages and compares their output. If `write` is true, updates the pages instead.
pub(crate) fn recipes(sh: &Shell, write: bool) -> TaskResult {
    cmd!(sh, "cargo build --quiet --locked -p rocrepro").run()?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let programs = sh.current_dir().join(target).join("debug");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut stale = String::new();
    for page in sh.read_dir(PAGES)? {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((_, why)) = SKIPPED_PAGES.iter().find(|(page, _)| *page == name) {
            println!("{name}: the commands are not run, because {why}");
            continue;
        }
        let text = sh.read_file(&page)?;
        if let Some(framework) = name.strip_suffix(".md") {
            frameworks::prepare(sh, framework)?;
        }
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let folder = sh.create_temp_dir()?;
        for Recipe { before, command, shown } in read(&text) {
            println!("{name}: {command}");
            let script = format!("{before}\n{command}");
            let here = sh.clone();
            here.change_dir(folder.path());
            let output = cmd!(here, "sh -c {script}").env("PATH", &path).ignore_status();
            let printed = output.quiet().ignore_stderr().read()?;
            for (number, was, now) in pair_lines(&shown, &printed) {
                match now {
                    Some(now) if write => {
                        let indent = lines[number].len() - lines[number].trim_start().len();
                        lines[number] = format!("{}{now}", " ".repeat(indent));
                    }
                    Some(now) if stable_part(&was) == stable_part(&now) => {}
                    now => {
                        let now = now.unwrap_or_else(|| "no such line".to_owned());
                        let _ =
                            write!(stale, "\n{name}:{}: {was}\n  printed now: {now}", number + 1);
                    }
                }
            }
        }
        if write {
            sh.write_file(&page, lines.join("\n") + "\n")?;
        }
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!("these lines on the pages differ from the output:{stale}").into())
    }
}

/// Returns the commands of a page that are followed by output. The command is an indented block, and its output is the
/// next indented block.
fn read(page: &str) -> Vec<Recipe> {
    let (mut recipes, mut before) = (Vec::new(), String::new());
    let mut lines = page.lines().enumerate().peekable();
    let mut last: Option<Recipe> = None;
    while let Some((number, line)) = lines.next() {
        let (text, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        if text.is_empty() {
            continue;
        }
        if indent < 4 {
            recipes.extend(last.take().filter(|recipe| !recipe.shown.is_empty()));
        } else if text.starts_with("rocrepro stack fetch ") {
            let _ = writeln!(before, "{text} >/dev/null");
        } else if text.starts_with("cat >") {
            before.push_str(text);
            // A here-document may contain empty lines, and commands after it belong to the same block.
            let mut open = text.ends_with("'END'");
            while let Some((_, line)) = lines.next_if(|(_, line)| open || !line.is_empty()) {
                open &= line.trim() != "END";
                before.push('\n');
                before.push_str(line.get(indent..).unwrap_or_default());
            }
            before.push('\n');
        } else if text.starts_with("rocrepro ") {
            recipes.extend(last.take().filter(|recipe| !recipe.shown.is_empty()));
            let (before, command) = (before.clone(), text.to_owned());
            last = Some(Recipe { before, command, shown: Vec::new() });
        } else if let Some(recipe) = &mut last {
            recipe.shown.push((number, text.to_owned()));
        }
    }
    recipes.extend(last.filter(|recipe| !recipe.shown.is_empty()));
    recipes
}

/// Returns a sentence for each line of a page that differs from the output. Numbers may differ.
pub(crate) fn stale(shown: &[(usize, String)], printed: &str, page: &str) -> Vec<String> {
    let differs = pair_lines(shown, printed).into_iter().filter(|(_, was, now)| {
        now.as_ref().is_none_or(|now| stable_part(was) != stable_part(now))
    });
    let sentence = |(number, was, now): (usize, String, Option<String>)| {
        let now = now.unwrap_or_else(|| "no such line".to_owned());
        format!("{page}:{}: {was}\n  printed now: {now}", number + 1)
    };
    differs.map(sentence).collect()
}

/// Returns each line that the page shows, with its number and with the printed line that has the same key; `None` if no
/// printed line has this key. Several lines with the same key are paired in order.
fn pair_lines(shown: &[(usize, String)], printed: &str) -> Vec<(usize, String, Option<String>)> {
    let with_rank = shown.iter().enumerate().map(|(at, (number, was))| {
        let rank = shown[..at].iter().filter(|(_, other)| key(other) == key(was)).count();
        let now = printed.lines().map(str::trim).filter(|line| key(line) == key(was)).nth(rank);
        (*number, was.clone(), now.map(str::to_owned))
    });
    with_rank.collect()
}

fn key(line: &str) -> &str {
    line.get(..KEY_WIDTH).unwrap_or(line).trim_end()
}

/// Returns the part of a line that is equal in every run: the line without numbers, except for the keys in
/// [`STABLE_KEYS`].
fn stable_part(line: &str) -> String {
    if STABLE_KEYS.contains(&key(line)) {
        return line.to_owned();
    }
    let mut text = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_commands_with_their_shown_output() {
        let page = "Text\n\n    cat > a.sh <<'END'\n    x\n\n      y\n    END\n    chmod +x a.sh\n\n1. Look:\n\n       rocrepro case list\n\n\
                    2. Search:\n\n       rocrepro bisect -- ./a.sh\n\n       answer      last good a\n\
       \u{20}      spent       3 runs, 1 s\n\n   Text\n";
        let before = "cat > a.sh <<'END'\nx\n\n  y\nEND\nchmod +x a.sh\n".to_owned();
        let shown =
            vec![(17, "answer      last good a".into()), (18, "spent       3 runs, 1 s".into())];
        let command = "rocrepro bisect -- ./a.sh".to_owned();
        assert_eq!(read(page), [Recipe { before, command, shown }]);
    }

    #[test]
    fn ignores_numbers_outside_of_the_answer() {
        let shown = [(0, "answer      a 1".to_owned()), (1, "note        x 10 %".to_owned())];
        let differs = |printed: &str| {
            let each = pair_lines(&shown, printed).into_iter();
            each.filter(|(_, was, now)| {
                now.as_ref().is_none_or(|now| stable_part(was) != stable_part(now))
            })
            .count()
        };
        assert_eq!(differs("trial       t\nanswer      a 1\nnote        x 7 %\n"), 0);
        assert_eq!(differs("answer      a 2\nnote        y 7 %\n"), 2);
        assert_eq!(differs("answer      a 1\n"), 1);
    }

    /// If the format of the pages changed, no command would be found, and the pages would silently not be tested.
    #[test]
    fn finds_commands_in_the_pages() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/recipes");
        for (page, commands) in [
            ("bugs.md", 6),
            ("cpp.md", 5),
            ("cupy.md", 3),
            ("deterministic.md", 1),
            ("fix.md", 1),
            ("flaky.md", 1),
            ("hang.md", 1),
            ("jax.md", 3),
            ("llama.md", 2),
            ("triton.md", 2),
        ] {
            let text = std::fs::read_to_string(format!("{folder}/{page}")).expect(page);
            assert_eq!(read(&text).len(), commands, "{page}");
        }
    }
}
