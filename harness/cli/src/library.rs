use std::{collections::BTreeMap, path::Path};

use case::{Case, Kernels};
use include_dir::{Dir, include_dir};

use crate::{Stop, diagnostics, select, trial::analyse_each};

static CASES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../cases");
static KERNELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../kernels");

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
    /// The built-in cases, or those below `folder`; kernels of `folder/kernels` are added to the built-in ones.
    ///
    /// # Errors
    /// All mistakes of all files.
    pub fn load(folder: Option<&Path>) -> Result<CaseLibrary, Stop> {
        let mut kernels = Kernels::new();
        embedded(&KERNELS, "hip", "", &mut |id, _, text| {
            kernels.insert(id, text);
        });
        let mut sources = BTreeMap::new();
        let mut mistakes = Vec::new();
        match folder {
            None => embedded(&CASES, "yaml", "", &mut |id, path, text| {
                sources.insert(id, Source { path: format!("cases/{path}"), text });
            }),
            Some(folder) => read_folder(folder, &mut sources, &mut kernels, &mut mistakes)?,
        }
        let mut cases = BTreeMap::new();
        for (id, source) in &sources {
            match Case::parse(id, &source.text) {
                Ok(case) => {
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

/// A text without the mark of its byte order, which some editors put before it.
fn read_text(path: &Path) -> std::io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn read_folder(
    folder: &Path,
    sources: &mut BTreeMap<String, Source>,
    kernels: &mut Kernels,
    mistakes: &mut Vec<String>,
) -> Result<(), Stop> {
    let message =
        |path: &Path, e: std::io::Error| format!("error: cannot read `{}`: {e}", path.display());
    let cannot = |path: &Path, e| Stop::usage(message(path, e));
    // A single file is a library of one case.
    if folder.is_file() {
        let text = read_text(folder).map_err(|e| cannot(folder, e))?;
        let id = folder.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        sources.insert(id, Source { path: folder.display().to_string(), text });
        return Ok(());
    }
    let mut pending = vec![(folder.to_path_buf(), String::new())];
    while let Some((current, prefix)) = pending.pop() {
        for entry in std::fs::read_dir(&current).map_err(|e| cannot(&current, e))? {
            let path = entry.map_err(|e| cannot(&current, e))?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                pending.push((path, format!("{prefix}{stem}/")));
                continue;
            }
            let Some(ending @ ("yaml" | "yml" | "hip")) = path.extension().and_then(|e| e.to_str())
            else {
                continue;
            };
            match read_text(&path) {
                Err(error) => mistakes.push(message(&path, error)),
                Ok(text) if ending == "hip" => {
                    kernels.insert(stem, text);
                }
                Ok(text) => {
                    let source = Source { path: path.display().to_string(), text };
                    sources.insert(format!("{prefix}{stem}"), source);
                }
            }
        }
    }
    if sources.is_empty() && mistakes.is_empty() {
        return Err(Stop::usage(format!("error: no case (*.yaml) below `{}`", folder.display())));
    }
    Ok(())
}
