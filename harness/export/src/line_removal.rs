//! Finds lines that might be removed from a printed program to make it shorter.
//!
//! These lines are only candidates: the caller has to compile and run the shorter program to find out whether it still
//! shows the failure.

use std::{collections::BTreeSet, ops::Range};

use crate::helpers::includes;

/// Maximum number of consecutive lines that are removed together.
const LONGEST: usize = 32;

/// Returns sets of lines, each of which might be removed as a whole. The most promising sets come first: functions,
/// names with all their uses, runs of consecutive lines and blocks, pairs of lines, single lines. Lines are counted
/// from 0.
pub fn removable_parts(lines: &[&str]) -> Vec<Vec<usize>> {
    let Some(code) = code(lines) else { return Vec::new() };
    let functions = paragraphs(lines, code.clone()).into_iter();
    let functions = functions.filter(|part| !has_main(&lines[part.clone()]));
    let mut found: Vec<Vec<usize>> = functions.map(Iterator::collect).collect();
    found.extend(code.clone().filter_map(|at| with_its_name(lines, code.clone(), at)));
    let mut length = LONGEST;
    while length > 2 {
        found.extend(
            code.clone().step_by(length).map(|at| (at..code.end.min(at + length)).collect()),
        );
        length /= 2;
    }
    found.extend(code.clone().filter_map(|at| block(lines, at)).map(Iterator::collect));
    for length in [2, 1] {
        let starts = code.start..code.end.saturating_sub(length - 1);
        found.extend(starts.map(|at| (at..at + length).collect()));
    }
    let mut seen = BTreeSet::new();
    found.retain(|part| can_remove(lines, part) && seen.insert(part.clone()));
    found
}

/// Returns true if these lines might be removed: their brackets are balanced, and the remaining lines do not use a name
/// that the removed lines declare. A compiler would find such errors, too, but it takes longer.
pub fn can_remove(lines: &[&str], part: &[usize]) -> bool {
    let gone: Vec<&str> = part.iter().map(|at| lines[*at]).collect();
    (is_code(&gone) || is_paragraph(lines, part))
        && balanced(&gone)
        && !declares_for_others(lines, part)
}

/// Returns true if these lines are a whole paragraph (all lines between two empty lines) that is not part of `main`.
fn is_paragraph(lines: &[&str], part: &[usize]) -> bool {
    let (Some(first), Some(last)) = (part.first(), part.last()) else { return false };
    let empty =
        |at: Option<usize>| at.and_then(|at| lines.get(at)).is_none_or(|line| line.is_empty());
    let text =
        |line: &&str| !line.is_empty() && !line.starts_with("#include") && !has_main(&[*line]);
    last - first + 1 == part.len()
        && empty(first.checked_sub(1))
        && empty(Some(last + 1))
        && part.iter().all(|at| text(&lines[*at]))
}

/// Removes empty lines, and comments on lines of their own, from the function `main` of a program.
pub fn strip_main(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let main = lines.iter().position(|line| line.starts_with("int main(")).unwrap_or(lines.len());
    let spare = |(n, line): &(usize, &&str)| {
        *n > main && (line.trim().is_empty() || line.trim_start().starts_with("//"))
    };
    let kept: Vec<&str> =
        lines.iter().enumerate().filter(|entry| !spare(entry)).map(|(_, line)| *line).collect();
    join_tidy(&kept)
}

/// The loop in a short program that compares a buffer with its expected bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteComparison {
    /// Line at which the loop begins, counted from 0.
    line: usize,
    /// Name of the C++ variable that contains the expected bytes.
    right: String,
    /// Number of bytes that the loop compares.
    pub bytes: usize,
}

/// Finds the loop that compares a buffer with its expected bytes. Returns `None` if there are several such loops, if
/// more than 16 bytes are compared, or if the expected bytes differ between the iterations of another loop.
pub fn find_comparison(text: &str) -> Option<ByteComparison> {
    let lines: Vec<&str> = text.lines().collect();
    let at = |n: usize| {
        let bytes = lines[n].strip_prefix("  for (size_t ")?.split(" < ").nth(1)?;
        let (_, right) = lines.get(n + 1)?.trim().strip_prefix("if (")?.split_once("] == ")?;
        let right = right.strip_suffix("] continue;").or(right.strip_suffix("]) continue;"))?;
        let bytes = bytes.split(';').next()?.parse().ok()?;
        Some(ByteComparison { line: n, right: right.split('[').next()?.to_owned(), bytes })
    };
    let mut found = (0..lines.len()).filter_map(at);
    let one = found.next().filter(|found| found.bytes <= 16)?;
    found.next().is_none().then_some(one)
}

impl ByteComparison {
    /// Returns the program with `bytes` as literals, in place of the variable that contains the expected bytes.
    pub fn with_literal_bytes(&self, text: &str, bytes: &[u8]) -> String {
        let listed: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
        let mut out = String::new();
        for (n, line) in text.lines().enumerate() {
            if n == self.line {
                let listed = listed.join(", ");
                out.push_str(&format!("  const unsigned char right[] = {{{listed}}};\n"));
            }
            // These lines contain the comparison and the message after it.
            let line = match n > self.line && n <= self.line + 4 {
                true => line.replace(&format!("{}[", self.right), "right["),
                false => line.to_owned(),
            };
            out.push_str(&format!("{line}\n"));
        }
        out
    }
}

/// Parses the offset and the value of the wrong byte from a message of the program. The results for `FAIL: buffer b:
/// byte 3 is 4f; expected 00` are 3 and 0x4f.
pub fn parse_wrong_byte(line: &str) -> Option<(usize, u8)> {
    let (at, rest) = line.split_once(": byte ")?.1.split_once(" is ")?;
    Some((at.parse().ok()?, u8::from_str_radix(rest.split(';').next()?, 16).ok()?))
}

/// Joins lines to the text of a program. Leaves out standard headers that are not needed, and repeated empty lines.
pub fn join_tidy(lines: &[&str]) -> String {
    let rest: Vec<&str> = lines.iter().copied().filter(|l| !l.starts_with("#include")).collect();
    let needed = includes(&rest.join("\n"));
    let mut out = String::new();
    let mut empty = true;
    for line in lines {
        let header = line.strip_prefix("#include ").unwrap_or_default();
        if header.starts_with('<') && !header.contains('/') && !needed.contains(&header) {
            continue;
        }
        if line.is_empty() && empty {
            continue;
        }
        empty = line.is_empty();
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Returns the range of the lines after the last `#include`; `None` if no line is an `#include`.
fn code(lines: &[&str]) -> Option<Range<usize>> {
    let from = lines.iter().rposition(|line| line.starts_with("#include"))? + 1;
    Some(from..lines.len())
}

/// Returns the ranges of lines between empty lines. Leaves out ranges whose brackets are not balanced.
fn paragraphs(lines: &[&str], code: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = code.start;
    for at in code.clone() {
        if lines[at].is_empty() {
            found.push(from..at);
            from = at + 1;
        }
    }
    found.push(from..code.end);
    found.retain(|part| !part.is_empty() && balanced(&lines[part.clone()]));
    found
}

fn has_main(lines: &[&str]) -> bool {
    lines.iter().any(|line| line.starts_with("int main("))
}

/// Returns true if all lines are inside functions. Macros and the line that prints `PASS` count as outside.
fn is_code(lines: &[&str]) -> bool {
    lines.iter().all(|line| {
        line.starts_with(' ') && !line.trim_end().ends_with('\\') && !line.contains("\"PASS")
    })
}

/// Returns the range of lines of a statement with a block, such as a loop, that begins at this line; `None` if no such
/// statement begins here.
fn block(lines: &[&str], at: usize) -> Option<Range<usize>> {
    lines[at].ends_with('{').then_some(())?;
    let end = (at + 1..=lines.len()).find(|end| balanced(&lines[at..*end]))?;
    Some(at..end)
}

/// Returns the lines that use the name that this line declares, the declaration included. If a line begins a block, the
/// whole block belongs to the result. Returns `None` if the line declares no name, or nothing else uses the name.
fn with_its_name(lines: &[&str], code: Range<usize>, at: usize) -> Option<Vec<usize>> {
    let name = declared(lines[at]).filter(|_| lines[at].starts_with(' '))?;
    let uses = |n: &usize| lines[*n].starts_with(' ') && words(lines[*n]).any(|word| word == name);
    let mut found = BTreeSet::new();
    for n in code.filter(uses) {
        found.extend(block(lines, n).unwrap_or(n..n + 1));
    }
    (found.len() > 1).then(|| found.into_iter().collect())
}

fn balanced(lines: &[&str]) -> bool {
    let mut open = [0_i32; 2];
    for c in lines.iter().flat_map(|line| line.chars()) {
        match c {
            '{' => open[0] += 1,
            '}' => open[0] -= 1,
            '(' => open[1] += 1,
            ')' => open[1] -= 1,
            _ => {}
        }
        if open.iter().any(|depth| *depth < 0) {
            return false;
        }
    }
    open == [0, 0]
}

/// Returns true if the remaining lines use a name that these lines declare.
fn declares_for_others(lines: &[&str], part: &[usize]) -> bool {
    let mut names = part.iter().filter_map(|at| declared(lines[*at]));
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let rest: Vec<&str> =
        (0..lines.len()).filter(|n| !part.contains(n)).map(|n| lines[n]).filter(code).collect();
    names.any(|name| rest.iter().any(|line| words(line).any(|word| word == name)))
}

/// Returns the words of a line, except conversion specifiers such as `%s` in format strings.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.split(['%', '"']).enumerate().flat_map(move |(n, part)| {
        let is_format =
            n > 0 && line[..part.as_ptr() as usize - line.as_ptr() as usize].ends_with('%');
        let part = if is_format { part.trim_start_matches(is_word) } else { part };
        part.split(move |c: char| !is_word(c)).filter(|word| !word.is_empty())
    })
}

/// Returns the name that a line declares: the last word before the value, the parameters or the end of the declaration.
/// Returns `None` if the line is not a declaration.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim();
    if let Some(name) = line.strip_prefix("#define ") {
        return words(name).next();
    }
    let head = &line[..line.find(['=', '(', ';', '['])?];
    let plain = |c: char| c.is_ascii_alphanumeric() || " _:<>*&,".contains(c);
    if !head.chars().all(plain) || head.starts_with("return ") {
        return None;
    }
    let head = head.trim_end();
    let at = head.rfind([' ', '*', '&'])?;
    Some(&head[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "\
// A title.

#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

static int used() { return 1; }

static int spare() { return 2; }

int main() {
  // Words.
  std::vector<int> a(4);
  void* b = nullptr;
  CHECK(hipMalloc(&b, used()), hipSuccess);

  for (int i = 0; i < 4; i++) {
    a[i] = i;
  }
  std::puts(\"PASS\");
}
";

    fn found() -> Vec<String> {
        let lines: Vec<&str> = PROGRAM.lines().collect();
        let text =
            |part: Vec<usize>| part.into_iter().map(|at| lines[at]).collect::<Vec<_>>().join("|");
        removable_parts(&lines).into_iter().map(text).collect()
    }

    #[test]
    fn removable_parts_are_balanced_and_unused() {
        let found = found();
        let has = |text: &str| found.iter().any(|part| part.contains(text));
        assert!(found.contains(&"static int spare() { return 2; }".to_owned()), "{found:#?}");
        assert!(found.contains(&"  CHECK(hipMalloc(&b, used()), hipSuccess);".to_owned()));
        assert!(found.iter().any(|p| p.starts_with("  for (") && p.ends_with("  }")), "{found:#?}");
        assert!(!has("static int used") && !has("PASS") && !has("main"), "{found:#?}");
        assert!(!found.contains(&"  void* b = nullptr;".to_owned()), "{found:#?}");
        assert!(!found.iter().any(|part| part.starts_with("  for") && !part.ends_with('}')));
    }

    #[test]
    fn comment_is_removed_with_its_function() {
        let text = PROGRAM.replace("static int used", "// Says one.\nstatic int used");
        let lines: Vec<&str> = text.lines().collect();
        let comment = lines.iter().position(|line| *line == "// Says one.").expect("it");
        assert!(!can_remove(&lines, &[comment]));
        assert!(removable_parts(&lines).iter().all(|part| !part.contains(&comment)));
    }

    #[test]
    fn declaration_is_removed_with_all_uses_of_its_name() {
        let found = found();
        let of_b = "  void* b = nullptr;|  CHECK(hipMalloc(&b, used()), hipSuccess);";
        assert!(found.contains(&of_b.to_owned()), "{found:#?}");
        let of_a = "  std::vector<int> a(4);|    a[i] = i;";
        assert!(found.contains(&of_a.to_owned()), "{found:#?}");
    }

    #[test]
    fn format_is_no_use_of_a_name() {
        let lines = ["#include <a>", "  int s = 0;", "  f(\"%s of %zu: %02x s\", b);"];
        assert!(!can_remove(&lines, &[1]), "a word of the text");
        let lines = ["#include <a>", "  int s = 0;", "  f(\"%s of %zu\", b);"];
        assert!(can_remove(&lines, &[1]));
        assert_eq!(words("a %s %sb %c, d \"e\"").collect::<Vec<_>>(), ["a", "d", "e"]);
    }

    #[test]
    fn unused_headers_are_removed() {
        let kept: Vec<&str> = PROGRAM.lines().filter(|l| !l.contains("std::vector<int>")).collect();
        let shorter = join_tidy(&kept);
        assert!(!shorter.contains("<vector>") && shorter.contains("<cstdio>"), "{shorter}");
        assert!(shorter.contains("<hip/hip_runtime.h>"));
    }

    #[test]
    fn comparison_takes_literal_bytes() {
        let text = "  want = model();\n  for (size_t at = 0; at < 2; at++) {\n    if (b[at] == want[at]) continue;\n\
                    \x20   std::printf(\"FAIL: buffer b: byte %zu is %02x; expected %02x\\n\", at,\n\
                    \x20               b[at], want[at]);\n    std::exit(1);\n  }\n";
        let found = find_comparison(text).expect("one");
        assert_eq!(found.bytes, 2);
        let written = found.with_literal_bytes(text, &[1, 0xa5]);
        assert!(
            written.contains("  const unsigned char right[] = {0x01, 0xa5};\n  for ("),
            "{written}"
        );
        assert!(written.contains("b[at] == right[at]") && written.contains("b[at], right[at]"));
        assert_eq!(written.matches("want").count(), 1, "{written}");
        assert_eq!(find_comparison(&text.repeat(2)), None, "which one?");
        assert_eq!(
            find_comparison(&text.replace("  for", "    for")),
            None,
            "other bytes in each round"
        );
        assert_eq!(parse_wrong_byte("FAIL: buffer b: byte 3 is 4f; expected 00"), Some((3, 0x4f)));
        assert_eq!(parse_wrong_byte("FAIL: hipMalloc returned hipErrorUnknown"), None);
    }

    #[test]
    fn main_is_stripped_of_comments_and_empty_lines() {
        let text = strip_main(PROGRAM);
        assert!(text.starts_with("// A title.") && !text.contains("Words"), "{text}");
        assert!(!text[text.find("int main").expect("main")..].contains("\n\n"), "{text}");
    }
}
