//! Writes a shorter program into the YAML of its case.

use search::shorten::ShortenedText;

/// The source of a program inside the YAML of its case.
pub(super) struct Block<'t> {
    /// Number of lines of the case file above the program; `None` if the program is a file of its own.
    pub(super) above: Option<u32>,
    pub(super) text: &'t str,
}

impl Block<'_> {
    /// Returns the YAML of the case without the lines that were removed from the program. If the program is a file of
    /// its own, the YAML is unchanged. `None` if the program is not a block of lines in the YAML.
    pub(super) fn without_lines(&self, case: &str, shorter: &ShortenedText) -> Option<String> {
        let Some(above) = self.above else { return Some(case.to_owned()) };
        let above = above as usize;
        let (lines, end) = self.lines(case, above)?;
        let left = |n: &usize| *n < above || *n >= end || shorter.lines.contains(&(n - above));
        Some((0..lines.len()).filter(left).map(|n| lines[n]).collect())
    }

    /// Returns the YAML of the case with the source of the program replaced by `text`. If the program is a file of its
    /// own, the YAML is unchanged. `None` if the program is not a block of lines in the YAML.
    pub(super) fn replaced(&self, case: &str, text: &str) -> Option<String> {
        let Some(above) = self.above else { return Some(case.to_owned()) };
        let above = above as usize;
        let (lines, end) = self.lines(case, above)?;
        let depth = |line: &&str| line.len() - line.trim_start().len();
        let filled = |line: &&&str| !line.trim().is_empty();
        let depth =
            lines[above..end].iter().copied().filter(|line| filled(&line)).map(|l| depth(&l)).min();
        let depth = " ".repeat(depth.unwrap_or(4));
        let line = |line: &str| match line.trim() {
            "" => "\n".to_owned(),
            // A dollar sign in the program must not become a reference to an axis of the matrix.
            _ => format!("{depth}{}\n", line.replace('$', "$$")),
        };
        let new: String = text.lines().map(line).collect();
        Some([&lines[..above].concat(), new.as_str(), &lines[end..].concat()].concat())
    }

    /// Returns the lines of the YAML, and the index of the line after the program. `None` if the lines from the index
    /// `above` on are not those of the program.
    fn lines<'c>(&self, case: &'c str, above: usize) -> Option<(Vec<&'c str>, usize)> {
        let lines: Vec<&str> = case.split_inclusive('\n').collect();
        let own: Vec<&str> = self.text.lines().collect();
        let end = above + own.len();
        // In the program, axis values have replaced the references that the YAML contains.
        let same =
            |(of_case, own): (&&str, &&str)| of_case.contains('$') || of_case.trim() == own.trim();
        lines.get(above..end)?.iter().zip(&own).all(same).then_some((lines, end))
    }
}
