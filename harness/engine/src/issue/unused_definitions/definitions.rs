//! Finds the definitions of a C++ program that the program does not use, by asking the compiler.

use std::ops::Range;

/// Returns the text without those definitions that `may_go` allows to remove and without which the text still compiles.
/// If `compiles` returns `None`, the search ends, and the result is the text so far.
///
/// Later definitions use earlier ones, so they are tried from the last to the first.
pub(super) fn without_unused(
    text: &str,
    may_go: impl Fn(&str) -> bool,
    compiles: &mut dyn FnMut(&str) -> Option<bool>,
) -> String {
    let mut text = text.to_owned();
    for lines in definitions(&text).into_iter().rev() {
        let without = without_lines(&text, &lines);
        if !may_go(&without) {
            continue;
        }
        match compiles(&without) {
            Some(true) => text = without,
            Some(false) => {}
            None => break,
        }
    }
    text
}

fn without_lines(text: &str, lines: &Range<usize>) -> String {
    let kept = text.split_inclusive('\n').enumerate().filter(|(n, _)| !lines.contains(n));
    kept.map(|(_, line)| line).collect()
}

/// Returns the line range of each definition of a function or type, counted from 0, including definitions inside
/// namespaces. Lines of the preprocessor belong to no definition. Variables are left out, because an initial value may
/// be a call with an effect.
fn definitions(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut begun, mut depth) = (Vec::new(), None, 0_i64);
    for (n, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default().trim_end();
        let is_outside = begun.is_none() && depth == 0;
        let is_namespace = code.starts_with("namespace") && code.ends_with('{');
        if is_outside && (code.is_empty() || is_namespace || code == "}" || code.starts_with('#')) {
            continue;
        }
        let from = *begun.get_or_insert(n);
        let count = |brackets: [char; 3]| code.matches(brackets).count() as i64;
        depth += count(['(', '[', '{']) - count([')', ']', '}']);
        if depth <= 0 && code.ends_with([';', '}']) {
            found.extend(code.ends_with('}').then_some(from..n + 1));
            (begun, depth) = (None, 0);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
#include <vector>

// A comment.
namespace rocrepro {
static int number;  // one
template <class T>
bool compare(const T &a) {
  if (a) {
    return true;
  }
  return false;
}
inline int done(
    int one) { return one; }
}  // namespace rocrepro

int main() {
  return 0;
}
";

    #[test]
    fn finds_definitions_of_several_lines() {
        assert_eq!(definitions(TEXT), [5..12, 12..14, 16..19]);
    }

    #[test]
    fn removes_what_the_compiler_does_not_miss() {
        let mut tried = 0;
        let shorter = without_unused(TEXT, |text| text.contains("main"), &mut |text| {
            tried += 1;
            Some(text.contains("done"))
        });
        let expected = TEXT.lines().enumerate().filter(|(n, _)| !(5..12).contains(n));
        let expected: String = expected.map(|(_, line)| format!("{line}\n")).collect();
        assert_eq!((shorter, tried), (expected, 2));
        assert_eq!(without_unused(TEXT, |_| true, &mut |_| None), TEXT);
    }
}
