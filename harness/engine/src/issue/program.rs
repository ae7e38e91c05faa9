//! Prepares the program of a case, or a program of the user, for an issue.

use std::{collections::BTreeMap, path::Path};

use case::Body;
use plan::program::ProgramBody;
use report::{
    Record,
    evidence::MinimisedProgram,
    issue::{PrintedProgramRun, Program, UnexportedProgram},
};
use supervise::Cancel;

use super::{
    IssueError,
    as_printed::{self, SimplerTexts, simplest_version},
    inline_helper::{inline, simpler},
};
use crate::{
    Session, Stop, command_line::CommandLine, failing_trial::FailingTrial, helper, rerun::quoted,
};

/// Prefix of the environment variables from which programs read their axis values.
const PARAMETER: &str = "ROCREPRO_PARAMETER_";

/// Runs the program in the form in which the report prints it. Returns that form, and the result of shortening the
/// program. A version without checks is preferred if an earlier search found one and it still fails as described.
///
/// # Errors
/// Those of [`of_trial`].
pub(super) fn printed(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    shortened: Option<MinimisedProgram>,
    cancel: &Cancel,
) -> Result<(Program, Option<MinimisedProgram>), Stop> {
    let text = shortened.as_ref().and_then(|found| found.without_checks.as_deref());
    if let (Some(text), Some(found)) = (text, &shortened) {
        let program = of_trial(subject, session, failed, Some(text), Some(cancel))?;
        let ran = program.own.as_ref().and_then(|own| own.as_printed.as_ref());
        if matches!(ran, Some(PrintedProgramRun::Ran { fails_alike: true, .. })) {
            let passes = found.passes.as_ref().map(|place| {
                format!(
                    "{place} until its checks were removed too, and then still ended with exit status 0 there"
                )
            });
            let lines = text.lines().count();
            return Ok((program, Some(MinimisedProgram { lines, passes, ..found.clone() })));
        }
    }
    Ok((of_trial(subject, session, failed, None, Some(cancel))?, shortened))
}

/// Returns the program of a trial as the issue prints it, after it has run once in that form. It is not run if `cancel`
/// is `None`. `text` replaces the source of the program.
///
/// # Errors
/// Fails if the case has mistakes, or on a request to stop.
pub(super) fn of_trial(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    text: Option<&str>,
    cancel: Option<&Cancel>,
) -> Result<Program, Stop> {
    match subject.command {
        Some(command) => of_command(command, subject, session, failed, text, cancel),
        None => of_case(subject, session, failed, text, cancel),
    }
}

fn of_case(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    replaced: Option<&str>,
    cancel: Option<&Cancel>,
) -> Result<Program, Stop> {
    let job = subject.job()?;
    let Body::Program(program) = &job.lowered.body else {
        return Err(IssueError::NoProgram.into());
    };
    let name = subject.selected.case.id.rsplit('/').next().unwrap_or_default();
    let source = program.source();
    let (language, ending) = match &program.what {
        ProgramBody::Python(_) => ("python", "py"),
        ProgramBody::Cpp { .. } => ("cpp", "cpp"),
        ProgramBody::Command(_) => ("", "py"),
    };
    let file = source.and_then(|source| source.file.clone());
    let file = file.unwrap_or_else(|| format!("{name}.{ending}"));
    let original = source.map(|source| source.text.as_str()).unwrap_or_default();
    let original = replaced.unwrap_or(original).to_owned();
    let variables = |of: &BTreeMap<String, String>, prefix: &str| {
        let words = of.iter().map(|(name, value)| format!("{prefix}{name}={}", quoted(value)));
        words.collect::<Vec<_>>()
    };
    let make = |text: String, helper: bool| {
        // A program that was rewritten to be self-contained has the axis values in its source.
        let reads = helper || source.is_none() || text.contains(PARAMETER);
        let parameters = if reads { variables(&program.parameters, PARAMETER) } else { Vec::new() };
        let set = [variables(&job.lowered.plan.environment, ""), parameters].concat();
        let with = |command: String| {
            let arguments = program.arguments.iter().map(|word| quoted(word));
            let words = set.iter().cloned().chain([command]).chain(arguments);
            words.collect::<Vec<_>>().join(" ")
        };
        let (plainly, helper_file) = match &program.what {
            ProgramBody::Python(_) => {
                // With unbuffered output, nothing is lost in a crash.
                (vec![with(format!("python3 -u {file}"))], helper::PYTHON.0)
            }
            ProgramBody::Cpp { arch, options, .. } => {
                let own: Vec<String> = session.gfx().map(str::to_owned).into_iter().collect();
                let arch = if arch.is_empty() { &own } else { arch };
                let build = hipcc(arch, &file, name, &text, options);
                (vec![build, with(format!("./{name}"))], helper::CPP.0)
            }
            ProgramBody::Command(words) => (vec![with(shell::join(words))], ""),
        };
        let own = UnexportedProgram {
            plainly,
            packages: imported(failed, language, &text),
            again: vec![failed.again.clone()],
            text_is_whole: source.is_some(),
            in_case: source.is_some_and(|source| source.file.is_none()),
            helper: helper.then_some(helper_file),
            as_printed: None,
        };
        let file = if source.is_some() { file.clone() } else { name.to_owned() };
        Program { file, language, text, exported: None, own: Some(own) }
    };
    let inlined = inline(&original, language, &program.parameters);
    let printed = match inlined {
        Some(text) => make(text, false),
        None => make(original.clone(), true),
    };
    let texts = simpler(&original, language, &program.parameters);
    let with_helper = || make(original, program.reports());
    let printed = run_as_printed(subject, session, failed, program, printed, with_helper, cancel)?;
    let Some(cancel) = cancel else { return Ok(printed) };
    let simpler = SimplerTexts { texts, make: &|text| make(text, false) };
    simplest_version(subject, session, failed, program, printed, simpler, cancel)
}

/// Returns the command that compiles a program, with the options that the runs used.
fn hipcc(arch: &[String], file: &str, name: &str, text: &str, options: &[String]) -> String {
    let mut words = vec!["hipcc".to_owned(), "-std=c++17".to_owned()];
    words.extend(arch.iter().map(|arch| format!("--offload-arch={arch}")));
    words.extend([quoted(file), "-o".to_owned(), quoted(name)]);
    words.extend(options.iter().map(|word| quoted(word)));
    if text.contains("hiprtc") && !options.iter().any(|word| word == "-lhiprtc") {
        words.push("-lhiprtc".to_owned());
    }
    words.join(" ")
}

/// Returns the user's program as the issue prints it, after it has run once in that form. It is not run if `cancel` is
/// `None`. `replaced` replaces its source.
fn of_command(
    command: &CommandLine,
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    replaced: Option<&str>,
    cancel: Option<&Cancel>,
) -> Result<Program, Stop> {
    let job = subject.job()?;
    let Body::Program(program) = &job.lowered.body else {
        return Err(IssueError::NoProgram.into());
    };
    let text = command.text();
    let (path, original, language) = text.map_or((Path::new(command.name()), "", ""), |it| {
        (it.file.as_path(), it.text.as_str(), it.language)
    });
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // In the printed commands, the file is in the current folder, and the interpreter in PATH.
    let is_file = |word: &&String| Path::new(word.as_str()) == path;
    let is_run = command.source_argument_index().is_some();
    let mut words: Vec<&str> = command
        .words()
        .iter()
        .map(|word| if is_file(&word) { &file } else { word }.as_str())
        .collect();
    if let (Some(first), true) = (words.first_mut(), language == "python") {
        *first = first.rsplit('/').next().unwrap_or(first);
    }
    let is_whole = text.is_some();
    let make = |text: String, helper: bool| {
        let helper_file = if language == "cpp" { helper::CPP.0 } else { helper::PYTHON.0 };
        let own = UnexportedProgram {
            plainly: vec![shell::join(&words)],
            packages: imported(failed, language, &text),
            // The path of a file elsewhere is private.
            again: vec![match path.is_absolute() {
                true => failed.again.replace(&quoted(&path.to_string_lossy()), &quoted(&file)),
                false => failed.again.clone(),
            }],
            text_is_whole: is_whole,
            in_case: false,
            helper: helper.then_some(helper_file),
            as_printed: None,
        };
        Program { file: file.clone(), language, text, exported: None, own: Some(own) }
    };
    let parameters = session.variables().filter_map(|(name, value)| {
        Some((name.strip_prefix(PARAMETER)?.to_owned(), value.clone()))
    });
    let original = replaced.unwrap_or(original).to_owned();
    let parameters = parameters.collect();
    let texts = simpler(&original, language, &parameters);
    let mut printed = match inline(&original, language, &parameters) {
        Some(text) => make(text, false),
        None => make(original.clone(), true),
    };
    if !is_run {
        if let Some(own) = printed.own.as_mut().filter(|own| own.text_is_whole) {
            let why = match build_comment(&original) {
                Some(build) => format!("a comment in its source says how it is built: `{build}`"),
                None => "the report cannot determine how the program is built from its source"
                    .to_owned(),
            };
            own.as_printed = Some(PrintedProgramRun::NotRun(why));
        }
        return Ok(printed);
    }
    let with_helper = || make(original, true);
    let printed = run_as_printed(subject, session, failed, program, printed, with_helper, cancel)?;
    let Some(cancel) = cancel else { return Ok(printed) };
    let simpler = SimplerTexts { texts, make: &|text| make(text, false) };
    simplest_version(subject, session, failed, program, printed, simpler, cancel)
}

/// Returns the command of a comment such as `// Build: g++ repro.cpp -o repro` in the first lines of a program; `None`
/// if no such comment exists.
fn build_comment(text: &str) -> Option<&str> {
    let begins = ["Build:", "Compile:", "Compile with:", "Build with:"];
    let comments =
        text.lines().take(20).map(|line| line.trim().trim_start_matches(['/', '*', '#', ' ']));
    let mut commands =
        comments.filter_map(|line| begins.iter().find_map(|begin| line.strip_prefix(begin)));
    let command = commands.next()?.trim().trim_end_matches("*/").trim_end();
    (!command.is_empty() && !command.contains('`')).then_some(command)
}

/// Runs a program once as printed. If the compiler rejects it, returns instead the version that needs rocrepro's
/// helper.
fn run_as_printed(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    of_case: &plan::Program,
    mut printed: Program,
    with_helper: impl FnOnce() -> Program,
    cancel: Option<&Cancel>,
) -> Result<Program, Stop> {
    let Some(cancel) = cancel else {
        if let Some(own) = printed.own.as_mut().filter(|own| own.text_is_whole) {
            own.as_printed =
                Some(PrintedProgramRun::NotRun("the report is not finished".to_owned()));
        }
        return Ok(printed);
    };
    let result = match as_printed::run(subject, session, failed, of_case, &printed, cancel)? {
        Ok(result) => result,
        Err(log) => {
            printed = with_helper();
            let first = log.lines().find(|line| line.contains("error:")).unwrap_or(&log).trim();
            Some(PrintedProgramRun::NotRun(format!(
                "without the helper, the program does not compile: {first}"
            )))
        }
    };
    if let Some(own) = &mut printed.own {
        own.as_printed = result;
    }
    Ok(printed)
}

/// Returns those Python packages of the failing run that the program imports by name, each as `NAME==VERSION`. Packages
/// that only other packages import are left out, because they are installed with these.
fn imported(failed: &Record, language: &str, text: &str) -> Vec<String> {
    if language != "python" {
        return Vec::new();
    }
    let modules: Vec<&str> = text.lines().flat_map(modules).collect();
    let packages = failed.program.iter().flat_map(|program| &program.packages);
    let is_imported = |package: &&String| {
        let name = package.split("==").next().unwrap_or_default().to_lowercase().replace('-', "_");
        // A framework may have one package for each version of ROCm, such as `cupy-rocm-7-0`.
        let belongs = |module: &&str| {
            let rest = name.strip_prefix(&module.to_lowercase());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("_rocm"))
        };
        modules.iter().any(belongs)
    };
    packages.filter(is_imported).cloned().collect()
}

/// Returns the names of the top-level modules that a line of Python imports.
pub(super) fn modules(line: &str) -> Vec<&str> {
    fn top_level_module(name: &str) -> &str {
        name.trim().split(['.', ' ']).next().unwrap_or_default()
    }
    match line.trim_start() {
        from if from.starts_with("from ") => {
            from[5..].split(" import").map(top_level_module).take(1).collect()
        }
        import if import.starts_with("import ") => {
            import[7..].split(',').map(top_level_module).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_names_the_build() {
        let of = |text| build_comment(text);
        assert_eq!(of("#!/bin/x\n// Build: g++ a.cpp -o a\n"), Some("g++ a.cpp -o a"));
        assert_eq!(of("/* Compile with:  hipcc a.hip */"), Some("hipcc a.hip"));
        assert_eq!(of("// Build it yourself\nint main() {}\n"), None);
    }

    #[test]
    fn finds_the_modules_that_a_line_imports() {
        for (line, expected) in [
            ("import torch", &["torch"][..]),
            ("import numpy as np, torch.nn", &["numpy", "torch"]),
            ("    from torch.nn import Linear, Module", &["torch"]),
            ("from . import x", &[""]),
            ("imported = 1", &[]),
            ("# import torch", &[]),
        ] {
            assert_eq!(modules(line), expected, "{line}");
        }
    }
}
