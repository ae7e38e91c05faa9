//! The program of a case, or of the user's, as part of an issue.

use case::Body;
use plan::program::ProgramBody;
use report::{
    Record,
    issue::{Own, Program},
};

use super::IssueError;
use crate::{Stop, command_line::CommandLine, failing_trial::FailingTrial, rerun::quoted};

/// Name of the module with which a program reports its checks.
const HELPER: &str = "rocrepro";

/// Returns the program of a trial.
///
/// # Errors
/// Mistakes of the case.
pub(super) fn of_trial(subject: &FailingTrial<'_>, failed: &Record) -> Result<Program, Stop> {
    match subject.command {
        Some(command) => Ok(of_command(command, failed)),
        None => of_case(subject, failed),
    }
}

fn of_case(subject: &FailingTrial<'_>, failed: &Record) -> Result<Program, Stop> {
    let job = subject.job()?;
    let Body::Program(program) = &job.lowered.body else {
        return Err(IssueError::NoProgram.into());
    };
    let name = subject.selected.case.id.rsplit('/').next().unwrap_or_default();
    let again = vec![failed.again.clone()];
    let parameters: Vec<String> = program
        .parameters
        .iter()
        .map(|(axis, value)| format!("ROCREPRO_PARAMETER_{axis}={}", quoted(value)))
        .collect();
    let with = |command: String| {
        let words = [&parameters[..], &[command]].concat();
        words
            .into_iter()
            .chain(program.arguments.iter().map(|word| quoted(word)))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let source = program.source();
    let ending = if matches!(program.what, ProgramBody::Cpp { .. }) { "cpp" } else { "py" };
    let file = source.and_then(|source| source.file.clone());
    let file = file.unwrap_or_else(|| format!("{name}.{ending}"));
    let text = source.map(|source| source.text.clone()).unwrap_or_default();
    let (language, plainly, helper) = match &program.what {
        ProgramBody::Python(_) => {
            let mut lines = install(failed);
            lines.push(with(format!("python3 {file}")));
            ("python", lines, "rocrepro.py")
        }
        ProgramBody::Cpp { arch, options, .. } => {
            let arch =
                arch.iter().map(|arch| format!(" --offload-arch={arch}")).collect::<String>();
            let options =
                options.iter().map(|word| format!(" {}", quoted(word))).collect::<String>();
            let build = format!("hipcc{arch}{options} {file} -o {name}");
            ("cpp", vec![build, with(format!("./{name}"))], "rocrepro.h")
        }
        ProgramBody::Command(words) => ("", vec![with(shell::join(words))], ""),
    };
    let own = Own {
        plainly,
        again,
        text_is_whole: source.is_some(),
        in_case: source.is_some_and(|source| source.file.is_none()),
        helper: program.reports().then_some(helper),
    };
    let file = if source.is_some() { file } else { name.to_owned() };
    Ok(Program { file, language, text, exported: None, own: Some(own) })
}

/// Returns the command that installs the packages of the failing run.
fn install(failed: &Record) -> Vec<String> {
    let packages = failed.program.iter().flat_map(|program| &program.packages);
    let words: Vec<String> = packages.map(|package| quoted(package)).collect();
    if words.is_empty() { Vec::new() } else { vec![format!("pip install {}", words.join(" "))] }
}

/// Returns the program of a command line.
fn of_command(command: &CommandLine, failed: &Record) -> Program {
    let text = command.text();
    let helper = text.filter(|it| it.text.contains(HELPER));
    let helper = helper.map(|it| if it.language == "cpp" { "rocrepro.h" } else { "rocrepro.py" });
    let mut plainly = install(failed);
    plainly.push(shell::join(command.words()));
    let own = Own {
        plainly,
        again: vec![failed.again.clone()],
        text_is_whole: text.is_some(),
        in_case: false,
        helper,
    };
    let file = text.and_then(|it| it.file.file_name());
    Program {
        file: file.map_or(command.name().to_owned(), |name| name.to_string_lossy().into_owned()),
        language: text.map_or("", |it| it.language),
        text: text.map(|it| it.text.clone()).unwrap_or_default(),
        exported: None,
        own: Some(own),
    }
}
