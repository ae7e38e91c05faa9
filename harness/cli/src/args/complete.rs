//! Completes command lines in shells: names of cases, stacks, architectures, libraries and faults.
//!
//! `rocrepro completions SHELL` prints a script that calls this program at each press of the tab key, with the words
//! typed so far and the name of the shell in [`VARIABLE`].

use std::{ffi::OsStr, io};

use clap::{Arg, Command};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter},
    env::{EnvCompleter, Shells},
};
use device::{Arch, Fault};
use engine::{CaseLibrary, environments::Environments};
use stacks::{Extra, RELEASES, Sources};

use super::old_names::OLD_NAMES;

/// Environment variable by which a completion script requests completions.
const VARIABLE: &str = "ROCREPRO_COMPLETE";

/// Completion script for bash. Bash splits the command line at `:` and `=`, which occur in the names of stacks and
/// trials. clap's own script does not join the parts again, but this one does.
const BASH: &str = include_str!("complete.bash");

/// If a completion script started this process, prints the completions and exits.
pub(super) fn complete_and_exit(command: fn() -> Command) {
    CompleteEnv::with_factory(|| with_old_names(command())).var(VARIABLE).complete();
}

/// Returns the script that a shell reads to complete commands.
///
/// # Errors
/// Returns an error for a shell without a script.
pub(crate) fn script(shell: clap_complete::Shell) -> io::Result<Vec<u8>> {
    if shell == clap_complete::Shell::Bash {
        return Ok(BASH.into());
    }
    let name = shell.to_string();
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer: &dyn EnvCompleter =
        shells.completer(&name).ok_or_else(|| io::Error::other(format!("no script for {name}")))?;
    completer.write_registration(VARIABLE, "rocrepro", "rocrepro", "rocrepro", &mut script)?;
    Ok(script)
}

/// Adds the old names of commands, whose arguments complete like those of the new names.
fn with_old_names(mut command: Command) -> Command {
    for (old, new) in OLD_NAMES {
        let found = new.iter().try_fold(&command, |command, name| command.find_subcommand(name));
        if let Some(found) = found.cloned() {
            command = command.subcommand(found.name(old).hide(true));
        }
    }
    command
}

/// Adds the completion candidates of an argument.
pub(super) fn completed(arg: Arg) -> Arg {
    let completer = match arg.get_id().as_str() {
        "cases" | "case" | "exclude" => ArgValueCompleter::new(cases),
        "rocm" | "spec" | "also" | "passes_on" => ArgValueCompleter::new(stacks),
        "source" | "to" if arg.get_value_names().is_some_and(|names| names[0] == "SOURCE") => {
            ArgValueCompleter::new(|typed: &OsStr| candidates_with_prefix(typed, channels()))
        }
        "gfx" => ArgValueCompleter::new(|typed: &OsStr| {
            candidates_with_prefix(typed, Arch::ALL.iter().map(|arch| arch.name().to_owned()))
        }),
        "with" => ArgValueCompleter::new(|typed: &OsStr| {
            candidates_with_prefix(typed, Extra::ALL.iter().map(|extra| extra.name().to_owned()))
        }),
        "fault" => ArgValueCompleter::new(|typed: &OsStr| {
            candidates_with_prefix(typed, Fault::ALL.iter().map(|fault| fault.name().to_owned()))
        }),
        "environment" | "environments" => ArgValueCompleter::new(|typed: &OsStr| {
            let all = Environments::open().map(|all| all.all()).unwrap_or_default();
            candidates_with_prefix(typed, all.into_iter().map(|environment| environment.name))
        }),
        _ => return arg,
    };
    arg.add(completer)
}

/// Returns those of `words` that begin with the typed text.
fn candidates_with_prefix(
    typed: &OsStr,
    words: impl IntoIterator<Item = String>,
) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fitting = words.into_iter().filter(|word| word.starts_with(&*typed));
    fitting.map(CompletionCandidate::new).collect()
}

/// Returns the names of all cases. If the typed text contains a `[`, returns the ids of the case's trials.
fn cases(typed: &OsStr) -> Vec<CompletionCandidate> {
    let text = typed.to_string_lossy();
    let case = text.split_once('[').map(|(case, _)| case);
    let Ok(library) = CaseLibrary::load_named(None, case.as_slice()) else { return Vec::new() };
    match case.and_then(|case| library.case(case)) {
        Some(case) => {
            candidates_with_prefix(typed, case.trials().iter().map(|trial| case.trial_id(trial)))
        }
        None => candidates_with_prefix(typed, library.cases().map(|case| case.id.clone())),
    }
}

/// Returns the names of stacks, and the folders that match the typed text.
fn stacks(typed: &OsStr) -> Vec<CompletionCandidate> {
    let debian = RELEASES.iter().map(ToString::to_string);
    let builds = channels().into_iter().map(|channel| format!("{channel}:"));
    let words = ["system", "debian:latest"].map(str::to_owned);
    let mut all = candidates_with_prefix(typed, debian.chain(words).chain(builds));
    all.extend(PathCompleter::dir().complete(typed));
    all
}

/// Returns the prefixes with which a stack's name selects a build of a configured download source, for example
/// `nightly`.
fn channels() -> Vec<String> {
    Sources::load(None).map(|sources| sources.channels()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(typed: &str) -> Vec<String> {
        let candidates = stacks(OsStr::new(typed)).into_iter();
        candidates.map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn every_stack_that_is_offered_is_one() {
        let all = [offered(""), offered("/us")].concat();
        let mut builds = 0;
        for name in &all {
            let is_build = name.ends_with(':');
            let is_stack = match is_build {
                true => engine::stack_source::is_night(&format!("{name}2026-07-02")),
                false => name.parse::<stacks::Spec>().is_ok(),
            };
            assert!(is_stack, "{name}");
            builds += usize::from(is_build);
        }
        assert!(builds >= 5 && all.len() > builds + 6, "{all:?}");
    }

    #[test]
    fn every_form_of_a_stack_is_offered() {
        let all = [offered(""), offered("/op")].concat();
        for spelling in stacks::spellings() {
            let begins = spelling.example.split_inclusive(':').next().unwrap_or_default();
            let found =
                all.iter().any(|name| name.starts_with(begins) || begins.starts_with(&**name));
            assert!(found, "{spelling:?}: {all:?}");
        }
    }
}
