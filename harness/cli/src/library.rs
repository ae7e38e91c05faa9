mod files;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use case::{Case, Kernels};
use include_dir::{Dir, include_dir};

use crate::{Stop, diagnostics, select, trial::analyse_each};

static CASES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../cases");
static KERNELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../kernels");

/// Cases that are not the built-in ones.
#[derive(Clone, Debug)]
pub struct CasesFrom {
    /// A folder, or one file.
    pub path: PathBuf,
    /// Whether they may do all that a program may.
    pub trusted: bool,
}

/// The text of a case file.
struct Source {
    /// As the user sees it.
    path: String,
    text: String,
}

/// Cases and kernels. The ones of the project are part of the program, so that it runs from anywhere.
pub struct CaseLibrary {
    cases: BTreeMap<String, Case>,
    sources: BTreeMap<String, Source>,
    kernels: Kernels,
}

impl CaseLibrary {
    /// The built-in cases, or those from elsewhere; kernels (`*.hip`) beside these are added to the built-in ones.
    ///
    /// # Errors
    /// All mistakes of all files.
    pub fn load(from: Option<&CasesFrom>) -> Result<CaseLibrary, Stop> {
        let mut kernels = Kernels::new();
        embedded(&KERNELS, "hip", "", &mut |id, _, text| {
            kernels.insert(id, text);
        });
        let (mut sources, mut programs) = (BTreeMap::new(), BTreeMap::new());
        let mut mistakes = Vec::new();
        match from {
            None => {
                embedded(&CASES, "yaml", "", &mut |id, path, text| {
                    sources.insert(id, Source { path: format!("cases/{path}"), text });
                });
                for ending in files::PROGRAMS {
                    embedded(&CASES, ending, "", &mut |_, path, text| {
                        programs.insert(format!("cases/{path}"), text);
                    });
                }
            }
            Some(from) => {
                files::read(from, &mut sources, &mut programs, &mut kernels, &mut mistakes)?;
            }
        }
        let mut cases = BTreeMap::new();
        for (id, source) in &sources {
            match Case::parse(id, &source.text) {
                Ok(mut case) => {
                    if let Some(name) = case.file_beside() {
                        case.give_file(programs.get(&beside(&source.path, &name)).cloned());
                    }
                    if from.is_some_and(|from| !from.trusted) {
                        let found = case::foreign(&case);
                        if !found.is_empty() {
                            mistakes.push(diagnostics::render(&source.path, &source.text, &found));
                        }
                    }
                    cases.insert(id.clone(), case);
                }
                Err(_) => {
                    let found = case::mistakes(id, &source.text, &kernels);
                    mistakes.push(diagnostics::render(&source.path, &source.text, &found));
                }
            }
        }
        let library = CaseLibrary { cases, sources, kernels };
        if mistakes.is_empty() {
            return Ok(library);
        }
        // Mistakes of other files may only show when they are lowered.
        if let Err(more) = select(&library, &[]).and_then(|all| analyse_each(&library, &all)) {
            mistakes.push(more.to_string());
        }
        Err(Stop::usage(mistakes.join("\n\n")))
    }

    /// One case that is no file, such as one that was made of a command line.
    ///
    /// # Errors
    /// Its mistakes.
    pub(crate) fn of_text(id: &str, text: &str) -> Result<CaseLibrary, Stop> {
        let kernels = Kernels::new();
        let source = Source { path: id.to_owned(), text: text.to_owned() };
        let shown = |found: &[case::Diagnostic]| {
            Stop::usage(diagnostics::render(&source.path, &source.text, found))
        };
        let case = Case::parse(id, text).map_err(|_| shown(&case::mistakes(id, text, &kernels)))?;
        let cases = BTreeMap::from([(id.to_owned(), case)]);
        Ok(CaseLibrary { cases, sources: BTreeMap::from([(id.to_owned(), source)]), kernels })
    }

    /// All cases, by id.
    pub fn cases(&self) -> impl Iterator<Item = &Case> + Clone {
        self.cases.values()
    }

    /// The case of this id.
    pub fn case(&self, id: &str) -> Option<&Case> {
        self.cases.get(id)
    }

    /// Kernel sources by name.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// The mistakes of a case, shown at their place.
    pub fn show(&self, id: &str, mistakes: &[case::Diagnostic]) -> String {
        match self.sources.get(id) {
            Some(source) => diagnostics::render(&source.path, &source.text, mistakes),
            None => String::new(),
        }
    }

    /// The text of a case file.
    pub fn text(&self, id: &str) -> &str {
        self.sources.get(id).map_or("", |s| s.text.as_str())
    }

    /// The path of a case file, as the user sees it.
    pub fn path(&self, id: &str) -> &str {
        self.sources.get(id).map_or("", |s| s.path.as_str())
    }
}

/// The path of a file in the folder of another one.
fn beside(path: &str, name: &str) -> String {
    Path::new(path).with_file_name(name).display().to_string()
}

fn embedded(
    dir: &Dir<'_>,
    ending: &str,
    prefix: &str,
    add: &mut dyn FnMut(String, String, String),
) {
    for file in dir.files() {
        let path = file.path();
        let (Some(stem), Some(text)) = (path.file_stem(), file.contents_utf8()) else { continue };
        if path.extension().is_some_and(|e| e == ending) {
            let id = format!("{prefix}{}", stem.to_string_lossy());
            add(id, path.display().to_string(), text.to_owned());
        }
    }
    for sub in dir.dirs() {
        let name = sub.path().file_name().unwrap_or_default().to_string_lossy();
        embedded(sub, ending, &format!("{prefix}{name}/"), add);
    }
}
