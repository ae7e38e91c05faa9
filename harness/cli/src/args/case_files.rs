//! Accepts a case file or a recording in place of the name of a case: `run my-case.yaml` means `run --cases-from
//! my-case.yaml`.

use std::path::{Path, PathBuf};

use engine::{Stop, recording};

use super::{Case, Command, Origin};

/// Divides `FILE.yaml` or `FILE.yaml[axis=value]` into the path of an existing file and the selection of its trials.
/// The folder of a recording counts as a case file with one trial. `None` if the text is not the name of an existing
/// case file or recording.
fn split_selection(text: &str) -> Option<(PathBuf, String)> {
    if recording::is_recording(Path::new(text)) {
        return Some((PathBuf::from(text), String::new()));
    }
    let at = [".yaml", ".yml"].iter().find_map(|ending| Some(text.find(ending)? + ending.len()))?;
    let (file, values) = text.split_at(at);
    let is_whole = values.is_empty() || values.starts_with('[');
    let path = Path::new(file);
    let stem = path.file_stem()?.to_str()?;
    let selection = if values.is_empty() { String::new() } else { format!("{stem}{values}") };
    (is_whole && path.is_file()).then(|| (path.to_owned(), selection))
}

impl Origin {
    /// Moves a case file that the user named among the cases to the option `--cases-from`.
    fn take_file(&mut self, cases: &mut Vec<String>) -> Result<(), Stop> {
        let files: Vec<_> = cases.iter().filter_map(|case| split_selection(case)).collect();
        let Some((file, _)) = files.first() else {
            return self.check_trust();
        };
        let is_other =
            |case: &String| split_selection(case).is_none_or(|(other, _)| other != *file);
        let other = cases.iter().find(|case| is_other(case));
        if self.cases_from.is_some() || other.is_some() {
            let given = "--cases-from".to_owned();
            return Err(Stop::usage(format!(
                "error: only one case file can be named, but `{}` is given too\nhint: separate several values of an \
                 option with commas and without spaces; for several case files use `--cases-from FOLDER`",
                other.unwrap_or(&given)
            )));
        }
        *cases = files.iter().map(|(_, selection)| selection.clone()).collect();
        cases.retain(|selection| !selection.is_empty());
        self.cases_from = Some(file.clone());
        Ok(())
    }

    /// Moves a case file from the single case that a command takes to `--cases-from`.
    fn take_file_of(&mut self, case: &mut Option<String>) -> Result<(), Stop> {
        let mut cases: Vec<String> = case.iter().cloned().collect();
        self.take_file(&mut cases)?;
        if let (Some(named), Some(file)) = (case.as_mut(), &self.cases_from)
            && split_selection(named).is_some()
        {
            // The file's only case has the name of the file.
            let stem = match recording::is_recording(file) {
                true => recording::case_name(file),
                false => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            };
            *named = cases.pop().unwrap_or(stem);
        }
        Ok(())
    }

    fn check_trust(&self) -> Result<(), Stop> {
        if self.trust && self.cases_from.is_none() {
            return Err(Stop::usage(
                "error: `--trust` needs cases of your own: `--cases-from PATH` or a case file",
            ));
        }
        Ok(())
    }
}

impl Command {
    /// Replaces a case file among the named cases by the option `--cases-from`.
    ///
    /// # Errors
    /// Returns an error if several files are named, or a file and other cases.
    pub(crate) fn take_case_files(&mut self) -> Result<(), Stop> {
        let selection = match self {
            Command::Run(args) => &mut args.selection,
            Command::Prove(args) => &mut args.selection,
            Command::Matrix(args) => &mut args.selection,
            Command::Minimise(args) => &mut args.selection,
            Command::Export(args) => &mut args.selection,
            Command::Case(Case::List(args)) => &mut args.selection,
            Command::Case(Case::Check(args)) => args,
            Command::Case(Case::Explain(args)) => return args.from.take_file_of(&mut args.case),
            Command::Mitigate(args) => return args.from.take_file_of(&mut args.case),
            Command::Bisect(args) => return args.from.take_file_of(&mut args.case),
            Command::Report(args) => return args.from.take_file_of(&mut args.case),
            _ => return Ok(()),
        };
        selection.from.take_file(&mut selection.cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(folder: &Path, cases: &[&str]) -> Result<(Option<PathBuf>, Vec<String>), String> {
        let path = |case: &&str| case.replace("HERE", folder.to_str().expect("UTF-8"));
        let mut cases: Vec<String> = cases.iter().map(path).collect();
        let mut from = Origin { cases_from: None, trust: false };
        from.take_file(&mut cases).map_err(|stop| stop.to_string())?;
        Ok((from.cases_from, cases))
    }

    #[test]
    fn named_file_is_the_origin_of_the_cases() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["one.yaml", "two.yml"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        let here = folder.path();
        let one = Some(here.join("one.yaml"));
        assert_eq!(taken(here, &["HERE/one.yaml"]), Ok((one.clone(), vec![])));
        let trial = ["HERE/one.yaml[n=1]", "HERE/one.yaml[n=2]"];
        assert_eq!(taken(here, &trial), Ok((one, vec!["one[n=1]".into(), "one[n=2]".into()])));
        let two = Some(here.join("two.yml"));
        assert_eq!(taken(here, &["HERE/two.yml"]), Ok((two, vec![])));
        // A name that is not a file is a case, about which the selection reports an error.
        assert_eq!(taken(here, &["copies"]), Ok((None, vec!["copies".into()])));
        assert_eq!(taken(here, &["no.yaml"]), Ok((None, vec!["no.yaml".into()])));
        for word in ["HERE/two.yml", "copies", "probability=0.5", "debian:6.4.3"] {
            let other = word.replace("HERE", here.to_str().expect("UTF-8"));
            let stop = taken(here, &["HERE/one.yaml", word]).expect_err("two names");
            assert!(
                stop.contains(&format!("but `{other}` is given too\nhint: separate")),
                "{stop}"
            );
        }
    }
}
