//! Lines of a program that can only be removed together.

/// The declaration and the uses of a variable are removed as a group only if they are on at most this many lines.
const MOST_USES: usize = 6;

/// Returns groups of lines whose removal is tried first: all lines that only name phases, and for each variable with
/// few uses its declaration and these uses, because neither compiles without the other.
pub(super) fn groups(text: &str) -> Vec<Vec<usize>> {
    let names_phase = |line: &str| {
        let line = line.trim();
        let call = ["rocrepro.phase(", "rocrepro::phase(", "phase("];
        call.iter().any(|call| line.starts_with(call)) && line.ends_with([')', ';'])
    };
    let phases = text.lines().enumerate().filter(|(_, line)| names_phase(line));
    let mut groups = vec![phases.map(|(n, _)| n).collect()];
    for (n, line) in text.lines().enumerate() {
        let Some(name) = declared(line) else { continue };
        let uses =
            text.lines().enumerate().filter(|(_, line)| words(line).any(|word| word == name));
        let uses: Vec<usize> = uses.map(|(n, _)| n).collect();
        if uses.first() == Some(&n) && (2..=MOST_USES).contains(&uses.len()) {
            groups.push(uses);
        }
    }
    groups
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the name of the variable that a line declares, if it is a declaration of one variable.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim().trim_end_matches(';');
    let name = line.split(['=', '{', '[']).next()?.trim_end();
    let is_plain = |c: char| c.is_alphanumeric() || "_<>:*& ".contains(c);
    let last = words(name).last()?;
    let starts = last.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (starts && name.ends_with(last) && name.chars().all(is_plain) && name != "return")
        .then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_tried_with_their_uses() {
        let text = "std::atomic<bool> begun;\nvoid f() {\n  begun = true;\n  int *a = nullptr;\n  int b[4];\n}\nint main() {\n  \
                    while (!begun) usleep(1);\n  g(a);\n  return 0;\n}\n";
        assert_eq!(groups(text), [vec![], vec![0, 2, 7], vec![3, 8]]);
        let text = "import x\nvalues = x.ones(3)\nprint(values)\nrocrepro.phase('a')\n";
        assert_eq!(groups(text), [vec![3], vec![0, 1], vec![1, 2]]);
    }
}
