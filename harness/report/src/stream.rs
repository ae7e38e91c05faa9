//! Formats the results of a run as its trials end.

use std::collections::BTreeMap;

use crate::{
    Record,
    table::{Passes, TableLine, ViewOptions, case, family, trial},
};

/// Results of a run, which are formatted as soon as the last trial of a case or folder has ended.
#[derive(Default)]
pub struct ResultStream {
    options: ViewOptions,
    /// For each case, the number of trials that have not ended, and the records of those that have.
    cases: BTreeMap<String, (usize, Vec<Record>)>,
    /// For each folder, the number of cases with unfinished trials, and the passed trials of its finished cases.
    families: BTreeMap<String, (usize, Passes)>,
    has_lines: bool,
}

impl ResultStream {
    /// Creates the stream of a run. `cases` contains one item for each trial: the name of its case.
    pub fn new<'a>(options: ViewOptions, cases: impl IntoIterator<Item = &'a str>) -> ResultStream {
        let mut stream = ResultStream { options, ..ResultStream::default() };
        for case in cases {
            let (left, _) = stream.cases.entry(case.to_owned()).or_insert_with(|| {
                stream.families.entry(family(case).to_owned()).or_default().0 += 1;
                (0, Vec::new())
            });
            *left += 1;
        }
        stream
    }

    /// Adds the record of a trial, and returns the lines that are complete now.
    pub fn add(&mut self, record: &Record) -> String {
        let text = if self.options.trials {
            trial(record, self.options).text()
        } else if let Some((left, records)) = self.cases.get_mut(&record.case) {
            *left = left.saturating_sub(1);
            records.push(record.clone());
            if *left > 0 { String::new() } else { self.complete(&record.case) }
        } else {
            String::new()
        };
        self.has_lines |= !text.is_empty();
        text
    }

    /// Returns the lines of the cases that still have unfinished trials. An empty line follows if the run has any
    /// lines.
    pub fn finish(&mut self) -> String {
        let rest = if self.options.trials { String::new() } else { self.complete_all() };
        let blank = if self.has_lines || !rest.is_empty() { "\n" } else { "" };
        rest + blank
    }

    fn complete_all(&mut self) -> String {
        let cases: Vec<String> = self.cases.keys().cloned().collect();
        let lines: String = cases.iter().map(|case| self.complete(case)).collect();
        let left = std::mem::take(&mut self.families);
        lines
            + &left
                .iter()
                .filter_map(|(name, (_, passes))| self.passes(name, passes))
                .collect::<String>()
    }

    fn complete(&mut self, name: &str) -> String {
        let Some((_, records)) = self.cases.remove(name) else { return String::new() };
        let records: Vec<&Record> = records.iter().collect();
        let lines = case(name, &records, self.options);
        let mut text: String = lines.iter().map(TableLine::text).collect();
        if let Some((left, passes)) = self.families.get_mut(family(name)) {
            passes.add(name, &records);
            *left = left.saturating_sub(1);
            if *left == 0
                && let Some((_, passes)) = self.families.remove(family(name))
            {
                text.extend(self.passes(family(name), &passes));
            }
        }
        text
    }

    /// Returns the line that counts the passed trials of a folder. `None` if each case has its own line, or if no trial
    /// passed.
    fn passes(&self, family: &str, passes: &Passes) -> Option<String> {
        (!self.options.verbose).then(|| passes.line(family))?.map(|line| line.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failed, passed, plain, skipped};

    fn line(word: &str, rest: &str) -> String {
        format!("{word:10} {rest}\n")
    }

    #[test]
    fn cases_and_folders_are_shown_when_they_are_complete() {
        let cases = ["copies/a", "copies/a", "copies/b", "rng/c", "rng/d"];
        let mut stream = ResultStream::new(ViewOptions::default(), cases);
        let mut add = |record: Record| plain(&stream.add(&record));
        assert_eq!(add(failed("copies/a[n=1]")), "");
        assert_eq!(add(passed("copies/b")), "");
        let both = line("FAIL", "copies/a (1 of 2): wrong-data:back:zero")
            + &line("ok", "copies: 2 of 3 trials passed");
        assert_eq!(add(passed("copies/a[n=2]")), both);
        assert_eq!(add(skipped("rng/c")), "");
        // The run was interrupted before rng/d.
        assert_eq!(plain(&stream.finish()), "\n");
        assert_eq!(ResultStream::new(ViewOptions::default(), cases).finish(), "");
    }

    #[test]
    fn incomplete_cases_are_shown_at_the_end() {
        let mut stream =
            ResultStream::new(ViewOptions::default(), ["copies/a", "copies/a", "rng/b"]);
        assert_eq!(stream.add(&passed("copies/a[n=1]")), "");
        assert_eq!(plain(&stream.finish()), line("ok", "copies/a: 1 of 1 trial passed") + "\n");
    }

    #[test]
    fn trials_are_shown_at_once() {
        let options = ViewOptions { trials: true, ..ViewOptions::default() };
        let mut stream = ResultStream::new(options, ["copies/a", "copies/a"]);
        let text = plain(&stream.add(&failed("copies/a[n=1]")));
        assert_eq!(text, line("FAIL", "copies/a[n=1]: 43 ms: wrong-data:back:zero"));
        assert_eq!(stream.finish(), "\n");
    }
}
