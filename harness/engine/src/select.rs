//! Finds the trials that the user selects on the command line.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use case::{Case, Language, Trial};

use crate::{
    CaseLibrary, Stop,
    case_names::{ParsedSelection, SelectionError, nearest, spelling_hint},
    which,
};

/// One trial of the library.
#[derive(Clone)]
pub struct Selected<'a> {
    /// The case of the trial.
    pub case: &'a Case,
    /// The trial: one value for each axis of the case's matrix.
    pub trial: Trial,
}

impl Selected<'_> {
    /// Returns the id of the trial, for example `copies/small-sizes[bytes=2]`.
    pub fn id(&self) -> String {
        self.case.trial_id(&self.trial)
    }
}

/// Returns the selected trials in the order of the library; all trials without a selection.
///
/// A selection is the name of a case (`copies/small-sizes`) or of a folder (`copies`), or a pattern with `*`. It may be
/// followed by axis values: `copies/small-sizes[bytes=2]`.
///
/// # Errors
/// Returns all selections that match nothing, each with the nearest name.
pub fn select<'a>(library: &'a CaseLibrary, wanted: &[String]) -> Result<Vec<Selected<'a>>, Stop> {
    if wanted.is_empty() {
        let of =
            |case: &'a Case| case.trials().into_iter().map(move |trial| Selected { case, trial });
        return Ok(library.cases().flat_map(of).collect());
    }
    let mut problems = Vec::new();
    // Flags of the trials that are selected, by case. The list of a case remains empty if nothing selects the case, so
    // that its trials need not be expanded.
    let mut picked: Vec<Vec<bool>> = library.cases().map(|_| Vec::new()).collect();
    for text in wanted {
        match ParsedSelection::read(text) {
            Ok(named) => pick_trials(library, text, &named, &mut picked, &mut problems),
            Err(problem) => problems.push(problem),
        }
    }
    Stop::unless_empty(problems)?;
    let named = library.cases().zip(picked).filter(|(_, picked)| !picked.is_empty());
    let trials = named.flat_map(|(case, picked)| {
        let trials = case.trials().into_iter().zip(picked).filter(|(_, picked)| *picked);
        trials.map(move |(trial, _)| Selected { case, trial })
    });
    Ok(trials.collect())
}

/// Returns an error if program cases are selected, because `command` works on the calls of a plan.
pub fn plans_only(command: &str, selected: &[Selected<'_>]) -> Result<(), SelectionError> {
    let Some(program) = selected.iter().find(|entry| entry.case.is_program()) else {
        return Ok(());
    };
    Err(SelectionError::Program(program.case.id.clone(), command.to_owned()))
}

fn pick_trials(
    library: &CaseLibrary,
    text: &str,
    named: &ParsedSelection<'_>,
    picked: &mut [Vec<bool>],
    problems: &mut Vec<SelectionError>,
) {
    let (mut cases, mut trials) = (0, 0);
    let mut axes = BTreeMap::<String, Vec<String>>::new();
    let mut seen = HashSet::new();
    for (case, picked) in library.cases().zip(picked) {
        if !named.matches(&case.id) {
            continue;
        }
        cases += 1;
        let all = case.trials();
        picked.resize(all.len(), false);
        for (trial, picked) in all.iter().zip(picked) {
            for (axis, value) in &trial.values {
                if seen.insert((axis.clone(), value.clone())) {
                    axes.entry(axis.to_string()).or_default().push(value.to_string());
                }
            }
            if named.values.iter().all(|(axis, value)| trial.value(axis) == Some(value)) {
                *picked = true;
                trials += 1;
            }
        }
    }
    if cases == 0 {
        let ids = library.cases().map(|case| case.id.as_str());
        let folders = library.cases().filter_map(|case| Some(case.id.rsplit_once('/')?.0));
        let help = if named.case.ends_with(".yaml") || named.case.ends_with(".yml") {
            similar_file(named.case).unwrap_or_else(|| "no file has this name".to_owned())
        } else if let Some(help) = similar_file(named.case) {
            help
        } else {
            nearest(named.case, ids.chain(folders)).map_or_else(
                || "`rocrepro case list` shows all cases".to_owned(),
                |name| format!("did you mean `{name}`?"),
            )
        };
        problems.push(SelectionError::UnknownCase(named.case.to_owned(), help));
    } else if trials == 0 {
        problems.push(SelectionError::NoTrial(text.to_owned(), describe_axes(&axes, named)));
    }
}

/// Returns a hint for the name of a program or of a folder, or for a name that lacks the ending of a case file or has
/// the wrong one. `None` for any other name.
fn similar_file(name: &str) -> Option<String> {
    let path = Path::new(name);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if path.is_file() && Language::of_extension(ending).is_some() {
        return Some(format!("it is a program; `rocrepro case new {name}` makes a case of it"));
    }
    let is_path = name.contains('/') || name == "." || name == "..";
    if is_path && path.is_dir() {
        return Some(format!("it is a folder; `--cases-from {name}` reads the cases in it"));
    }
    if which::is_program(path) {
        let file = if name.contains('/') { name.to_owned() } else { format!("./{name}") };
        return Some(format!(
            "it is a program; `rocrepro exec {file}` runs it, and `rocrepro report -- {file}` reports its failure"
        ));
    }
    let mut files = ["yaml", "yml"].map(|ending| path.with_extension(ending)).into_iter();
    let file = files.find(|file| file.is_file())?;
    Some(format!("did you mean the file `{}`?", file.display()))
}

fn describe_axes(axes: &BTreeMap<String, Vec<String>>, named: &ParsedSelection<'_>) -> String {
    if axes.is_empty() {
        return "the case has no matrix".to_owned();
    }
    let mut problems = Vec::new();
    for (axis, value) in &named.values {
        match axes.get(*axis) {
            None => {
                let help = spelling_hint(axis, axes.keys().map(String::as_str));
                problems.push(format!("unknown axis `{axis}`; {help}"));
            }
            Some(values) if !values.iter().any(|v| v == value) => {
                problems.push(format!("`{axis}` is one of {}", values.join(", ")));
            }
            Some(_) => {}
        }
    }
    if problems.is_empty() {
        problems.push("no trial has this combination of values".to_owned());
    }
    problems.join("; ")
}
