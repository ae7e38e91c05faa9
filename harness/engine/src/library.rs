//! Loads the case library: the built-in cases, or those in a folder of the user.

mod files;

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use case::{Case, Kernels, mistakes_of};
use include_dir::{Dir, include_dir};

use crate::{Stop, case_names::selected_cases, diagnostics, python_syntax, recording};

static CASES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../cases");
static KERNELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../kernels");

/// A file, folder or recording of the user with cases, which replace the built-in ones.
#[derive(Clone, Debug)]
pub struct CasesFrom {
    /// Path of a folder, of one case file, or of a recording.
    pub path: PathBuf,
    /// True if the user trusts the cases like programs, so that they run with the rights of the user.
    pub trusted: bool,
}

struct Source {
    path: String,
    text: String,
}

/// Mistakes that are found while the files are read.
#[derive(Default)]
struct Mistakes {
    /// Mistakes that are not about a single case, for example two files that define the same case.
    of_files: Vec<String>,
    /// Mistakes by the case's id.
    of_cases: BTreeMap<String, String>,
}

/// Cases that cannot be used.
#[derive(Debug)]
pub struct FaultyCases {
    /// Number of cases with mistakes.
    pub count: usize,
    /// The mistakes, formatted for the terminal.
    pub text: String,
}

/// Cases, and the GPU kernels that they use. The built-in cases and kernels are embedded in the program.
pub struct CaseLibrary {
    cases: BTreeMap<String, Case>,
    sources: BTreeMap<String, Source>,
    kernels: Kernels,
    /// Differences between a recorded program and the case that was made from its calls.
    notes: Vec<String>,
}

impl CaseLibrary {
    /// Returns the built-in cases, or the cases in `from` with their GPU kernels (`*.hip`).
    ///
    /// # Errors
    /// Returns all mistakes in all files.
    pub fn load(from: Option<&CasesFrom>) -> Result<CaseLibrary, Stop> {
        CaseLibrary::load_named(from, &[])
    }

    /// Loads cases like [`CaseLibrary::load`], but reads only those built-in cases that `named` selects, because
    /// reading all of them takes longer than a trial.
    ///
    /// # Errors
    /// Returns all mistakes in all files.
    pub fn load_named(from: Option<&CasesFrom>, named: &[&str]) -> Result<CaseLibrary, Stop> {
        let (library, mistakes) = CaseLibrary::read(from, named)?;
        if mistakes.of_files.is_empty() && mistakes.of_cases.is_empty() {
            return Ok(library);
        }
        // Some mistakes are found only when a case is lowered, and the files that could be parsed may contain such
        // mistakes too.
        let mut mistakes: Vec<String> =
            mistakes.of_files.into_iter().chain(mistakes.of_cases.into_values()).collect();
        mistakes.extend(library.check(library.cases()).err().map(|more| more.to_string()));
        Err(Stop::usage(mistakes.join("\n\n")))
    }

    /// Loads the user's cases, except those with mistakes. If there are such cases, also returns their number and the
    /// mistakes.
    ///
    /// # Errors
    /// Returns all mistakes if one of them does not belong to a single case, or if every case has mistakes.
    pub fn load_usable(from: &CasesFrom) -> Result<(CaseLibrary, Option<FaultyCases>), Stop> {
        let (mut library, Mistakes { of_files, mut of_cases }) =
            CaseLibrary::read(Some(from), &[])?;
        for case in library.cases.values() {
            if let Err(found) = library.check([case]) {
                let all = of_cases.entry(case.id.clone()).or_default();
                let both = [std::mem::take(all), found.to_string()];
                *all =
                    both.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n\n");
            }
        }
        library.cases.retain(|id, _| !of_cases.contains_key(id));
        let (count, texts) = (of_cases.len(), of_cases.into_values());
        if !of_files.is_empty() || count > 0 && library.cases.is_empty() {
            let all: Vec<_> = of_files.into_iter().chain(texts).collect();
            return Err(Stop::usage(all.join("\n\n")));
        }
        let text = texts.collect::<Vec<_>>().join("\n\n");
        Ok((library, (count > 0).then_some(FaultyCases { count, text })))
    }

    /// Reads the cases like [`CaseLibrary::load_named`], and returns the mistakes that are found without lowering.
    fn read(from: Option<&CasesFrom>, named: &[&str]) -> Result<(CaseLibrary, Mistakes), Stop> {
        let mut kernels = CaseLibrary::shipped_kernels();
        let (mut sources, mut programs) = (BTreeMap::new(), BTreeMap::new());
        let mut mistakes = Mistakes::default();
        let mut converted = None;
        match from {
            None => {
                let mut all = BTreeMap::new();
                embedded(&CASES, "yaml", "", &mut |id, path, text| {
                    all.insert(id, (path, text));
                });
                if let Some(ids) = selected_cases(named, all.keys()) {
                    all.retain(|id, _| ids.contains(id));
                }
                for (id, (path, text)) in all {
                    let source = Source { path: format!("cases/{path}"), text: text.to_owned() };
                    sources.insert(id, source);
                }
                for ending in files::PROGRAMS {
                    embedded(&CASES, ending, "", &mut |_, path, text| {
                        programs.insert(format!("cases/{path}"), text.to_owned());
                    });
                }
            }
            Some(from) if recording::is_recording(&from.path) => {
                let (id, case) = files::read_recording(from, &mut kernels)?;
                let source =
                    Source { path: from.path.display().to_string(), text: case.yaml.clone() };
                sources.insert(id, source);
                converted = Some(case);
            }
            Some(from) => {
                let found = files::read(from, &mut sources, &mut programs, &mut kernels)?;
                let texts = found.into_iter().map(|mistake| Stop::from(mistake).to_string());
                mistakes.of_files.extend(texts);
            }
        }
        let trusted = from.is_none_or(|from| from.trusted);
        let mut cases = BTreeMap::new();
        let read = in_parallel(&sources, |id, source| {
            parse_case(id, source, trusted, &programs, &kernels)
        });
        for (id, (case, found)) in sources.keys().zip(read) {
            cases.extend(case.map(|case| (id.clone(), case)));
            mistakes.of_cases.extend(found.map(|found| (id.clone(), found)));
        }
        let mut notes = Vec::new();
        if let (Some(converted), Some(case)) = (converted, cases.values_mut().next()) {
            // Mistakes in the case are in the list already.
            case.recorded =
                recording::calls_by_line(case, &kernels, &converted).unwrap_or_default();
            notes.extend(converted.notes);
        }
        Ok((CaseLibrary { cases, sources, kernels, notes }, mistakes))
    }

    /// Returns a library with one case, whose YAML is `text` instead of the content of a file.
    ///
    /// # Errors
    /// Returns the mistakes in the case.
    pub fn of_text(id: &str, text: &str) -> Result<CaseLibrary, Stop> {
        let kernels = Kernels::new();
        let source = Source { path: id.to_owned(), text: text.to_owned() };
        let shown = |found: &[case::Diagnostic]| {
            Stop::usage(diagnostics::render(&source.path, &source.text, found))
        };
        let case = Case::parse(id, text).map_err(|_| shown(&case::mistakes(id, text, &kernels)))?;
        let cases = BTreeMap::from([(id.to_owned(), case)]);
        let sources = BTreeMap::from([(id.to_owned(), source)]);
        Ok(CaseLibrary { cases, sources, kernels, notes: Vec::new() })
    }

    /// Returns the differences between a recorded program and its case that do not change what the calls do. The list
    /// is empty for cases that were not made from a recording.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns all cases in the order of their ids.
    pub fn cases(&self) -> impl Iterator<Item = &Case> + Clone {
        self.cases.values()
    }

    /// Returns the case with this id; `None` if the library has none.
    pub fn case(&self, id: &str) -> Option<&Case> {
        self.cases.get(id)
    }

    /// Returns the kernel sources that are part of rocrepro, by name.
    pub fn shipped_kernels() -> Kernels {
        let mut kernels = Kernels::new();
        embedded(&KERNELS, "hip", "", &mut |id, _, text| {
            kernels.insert(id, text.to_owned());
        });
        kernels
    }

    /// Returns the sources of the GPU kernels, by the name of the kernel.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Formats the mistakes in a case for the terminal, each with its line.
    pub fn show(&self, id: &str, mistakes: &[case::Diagnostic]) -> String {
        match self.sources.get(id) {
            Some(source) => diagnostics::render(&source.path, &source.text, mistakes),
            None => String::new(),
        }
    }

    /// Checks every trial of these cases as lowering would, but does not compute the content of buffers.
    ///
    /// # Errors
    /// Returns all mistakes in all cases.
    pub fn check<'c>(&self, cases: impl IntoIterator<Item = &'c Case>) -> Result<(), Stop> {
        let mistakes = |case: &'c Case| mistakes_of(case, self.text(&case.id), &self.kernels);
        let check = |case, ()| match mistakes(case) {
            found if found.is_empty() => Ok(()),
            found => Err(found),
        };
        self.map_cases(cases.into_iter().map(|case| (case, ())), check).map(drop)
    }

    /// Parses the Python programs of these cases.
    ///
    /// # Errors
    /// Returns the first syntax error of each program. On a machine without python3, no error is found.
    pub fn parse_python<'c>(&self, cases: impl IntoIterator<Item = &'c Case>) -> Result<(), Stop> {
        let programs = cases.into_iter().filter(|case| case.program_kind() == Some("python"));
        let shown = programs.filter_map(|case| {
            Some(match python_syntax::of_case(case, self.text(&case.id))? {
                python_syntax::SyntaxErrorPlace::InCase(diagnostic) => {
                    self.show(&case.id, &[diagnostic])
                }
                python_syntax::SyntaxErrorPlace::InFile { file, text, diagnostic } => {
                    diagnostics::render(
                        &sibling_path(self.path(&case.id), &file),
                        &text,
                        &[diagnostic],
                    )
                }
            })
        });
        let shown: Vec<_> = shown.collect();
        if shown.is_empty() { Ok(()) } else { Err(Stop::usage(shown.join("\n\n"))) }
    }

    /// Calls `make` with each case and the value that is paired with it. Returns all results, or the formatted mistakes
    /// in all cases.
    pub(crate) fn map_cases<'c, Own, T>(
        &self,
        all: impl IntoIterator<Item = (&'c Case, Own)>,
        make: impl Fn(&'c Case, Own) -> Result<T, Vec<case::Diagnostic>>,
    ) -> Result<Vec<T>, Stop> {
        let mut good = Vec::new();
        let mut mistakes = BTreeMap::<&str, Vec<case::Diagnostic>>::new();
        for (case, own) in all {
            match make(case, own) {
                Ok(one) => good.push(one),
                Err(found) => mistakes.entry(&case.id).or_default().extend(found),
            }
        }
        if mistakes.is_empty() {
            return Ok(good);
        }
        let shown: Vec<_> = mistakes
            .into_iter()
            .map(|(id, mut found)| {
                found.sort();
                // Many trials of a case may report the same mistake.
                found.dedup_by(|a, b| (a.at, &a.message) == (b.at, &b.message));
                self.show(id, &found)
            })
            .collect();
        Err(Stop::usage(shown.join("\n\n")))
    }

    /// Returns the YAML of a case; empty if the library does not have the case.
    pub fn text(&self, id: &str) -> &str {
        self.sources.get(id).map_or("", |s| s.text.as_str())
    }

    /// Returns the path of a case file, for messages; empty if the library does not have the case.
    pub fn path(&self, id: &str) -> &str {
        self.sources.get(id).map_or("", |s| s.path.as_str())
    }
}

fn parse_case(
    id: &str,
    source: &Source,
    trusted: bool,
    programs: &BTreeMap<String, String>,
    kernels: &Kernels,
) -> (Option<Case>, Option<String>) {
    let shown = |found: &[case::Diagnostic]| {
        (!found.is_empty()).then(|| diagnostics::render(&source.path, &source.text, found))
    };
    let Ok(mut case) = Case::parse(id, &source.text) else {
        return (None, shown(&case::mistakes(id, &source.text, kernels)));
    };
    // The program of an untrusted case is not read, and not reported as missing.
    if let Some(name) = case.program_file().filter(|_| trusted) {
        case.set_program_text(programs.get(&sibling_path(&source.path, &name)).cloned());
    }
    let foreign = if trusted { Vec::new() } else { case::forbidden_parts(&case) };
    case.drop_body();
    (Some(case), shown(&foreign))
}

const FEW: usize = 64;

/// Calls `give` for each entry of `sources`, in parallel on all processors. A folder may have tens of thousands of case
/// files.
fn in_parallel<F: Sync, T: Send>(
    sources: &BTreeMap<String, F>,
    give: impl Fn(&str, &F) -> T + Sync,
) -> Vec<T> {
    let sources: Vec<_> = sources.iter().collect();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let part = sources.len().div_ceil(processors).max(FEW);
    let (first, others) = sources.split_at(part.min(sources.len()));
    let give = |part: &[(&String, &F)]| -> Vec<T> {
        part.iter().map(|(id, source)| give(id, source)).collect()
    };
    thread::scope(|scope| {
        let threads = others.chunks(part).map(|part| {
            // If a thread cannot be started, this thread does its work.
            thread::Builder::new().spawn_scoped(scope, move || give(part)).map_err(|_| part)
        });
        let threads: Vec<_> = threads.collect();
        let mut all = give(first);
        for thread in threads {
            all.extend(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|why| resume_unwind(why)),
                Err(part) => give(part),
            });
        }
        all
    })
}

fn sibling_path(path: &str, name: &str) -> String {
    Path::new(path).with_file_name(name).display().to_string()
}

fn embedded(
    dir: &'static Dir<'static>,
    ending: &str,
    prefix: &str,
    add: &mut dyn FnMut(String, String, &'static str),
) {
    for file in dir.files() {
        let path = file.path();
        let (Some(stem), Some(text)) = (path.file_stem(), file.contents_utf8()) else { continue };
        if path.extension().is_some_and(|e| e == ending) {
            let id = format!("{prefix}{}", stem.to_string_lossy());
            add(id, path.display().to_string(), text);
        }
    }
    for sub in dir.dirs() {
        let name = sub.path().file_name().unwrap_or_default().to_string_lossy();
        embedded(sub, ending, &format!("{prefix}{name}/"), add);
    }
}

#[cfg(test)]
mod tests {
    use super::CaseLibrary;

    #[track_caller]
    fn check(named: &[&str], expected: impl Fn(&str) -> bool) {
        let all = CaseLibrary::load(None).unwrap();
        let some = CaseLibrary::load_named(None, named).unwrap();
        let shown = |library: &CaseLibrary| -> Vec<String> {
            let cases = library.cases().filter(|case| expected(&case.id));
            cases.map(|case| format!("{case:?} {}", library.text(&case.id))).collect()
        };
        assert_eq!(shown(&some), shown(&all), "{named:?}");
        let read = some.cases().count();
        assert_eq!(read, all.cases().filter(|case| expected(&case.id)).count(), "{named:?}");
    }

    #[test]
    fn reads_named_cases_as_with_all_others() {
        let long = |id: &str| id == "graphs/long-chain";
        check(&["graphs/long-chain"], long);
        check(&["graphs/long-chain[nodes=30000]"], long);
        check(&["graphs/long-chain", "copies/arrays"], |id| long(id) || id == "copies/arrays");
        check(&["programs/"], |id| id.starts_with("programs/"));
        check(&["*long*"], |id| id.contains("long"));
    }

    #[test]
    fn reads_all_cases_if_a_word_matches_none() {
        for named in [&[][..], &["graphs/long-chian"], &["copies", "coppies"], &["copies[bytes"]] {
            check(named, |_| true);
        }
    }
}
