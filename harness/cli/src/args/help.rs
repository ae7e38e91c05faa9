//! Shapes the help so that it fits on a screen. Commands are in groups, and options are under headings. The short form
//! (`-h`) shows three examples, and only the essential options of commands with many options. `--help` shows
//! everything.

use std::ffi::OsString;

use clap::{
    Arg, ArgAction, Command, CommandFactory, FromArgMatches,
    builder::StyledStr,
    error::{ContextKind, ContextValue},
};

use super::{Cli, complete::completed, old_names::renamed};
use crate::outputs;

/// Groups of `rocrepro --help`. Every visible command is in exactly one group.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Run", &["demo", "run", "exec", "record", "prove", "matrix"]),
    ("From a failure to an issue", &["minimise", "mitigate", "bisect", "export", "report"]),
    ("Cases and records", &["case", "records"]),
    ("Machine", &["stack", "device", "doctor"]),
];

/// Headings in the help of a command, each with the ids of the options under it.
const HEADINGS: [(&str, &[&str]); 6] = [
    (
        "What to run",
        &[
            "exclude",
            "cases_from",
            "trust",
            "no_run",
            "shard",
            "program",
            "matching",
            "also",
            "all",
        ],
    ),
    (
        "Stack and device",
        &[
            "rocm",
            "on",
            "with",
            "device",
            "gfx",
            "mirror",
            "env",
            "launcher",
            "cards",
            "environment",
            "home",
            "schedule",
            "sanitize",
            "device_option",
            "environments",
        ],
    ),
    (
        "How to run",
        &[
            "jobs",
            "fault",
            "repeat",
            "late",
            "schedules",
            "mutate",
            "declared_fault",
            "exit",
            "says",
            "never",
            "fixes",
            "reducer",
        ],
    ),
    (
        "Search",
        &[
            "good",
            "bad",
            "fixed",
            "source",
            "sources_file",
            "to",
            "axis",
            "packages",
            "skip",
            "list",
            "dry_run",
            "regress",
            "rate",
            "install_cost",
            "cross",
            "replay",
            "passes_on",
        ],
    ),
    (
        "Limits",
        &[
            "timeout",
            "quiet_timeout",
            "limit",
            "fail_fast",
            "max_hangs",
            "recover",
            "budget_runs",
            "budget_installs",
            "budget_seconds",
            "disk_budget",
        ],
    ),
    (
        "Results",
        &[
            "record",
            "junit",
            "tap",
            "annotations",
            "trials",
            "verbose",
            "explain_skips",
            "resume",
            "out",
            "baseline",
            "flakes",
            "skips",
            "report",
            "title",
            "form",
            "failures",
            "json",
            "below",
            "open",
            "store",
            "verify",
            "write_baseline",
            "anyway",
        ],
    ),
];

/// Ids of the options that `-h` shows for a command with more than [`MAX_SHOWN_OPTIONS`] options.
const ESSENTIAL: [&str; 19] = [
    "cases_from",
    "rocm",
    "gfx",
    "device",
    "with",
    "fault",
    "repeat",
    "sanitize",
    "record",
    "junit",
    "out",
    "good",
    "bad",
    "axis",
    "source",
    "report",
    "mutate",
    "verify",
    "resume",
];

/// Maximum number of options of a command for which `-h` shows all of them.
const MAX_SHOWN_OPTIONS: usize = 9;

/// Maximum number of examples that `-h` shows.
const EXAMPLES: usize = 3;

/// Width of a narrow terminal, in columns.
const WIDTH: usize = 80;

/// Text about the options of `rocrepro` itself, without a subcommand.
const OPTIONS: &str = "\
Options:
  -h, --help     Print help
  -V, --version  Print version";

/// Returns the command line with grouped and shortened help.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let groups = list_groups(&command);
    let template =
        format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\n{OPTIONS}{{after-help}}");
    command.help_template(template).mut_subcommands(|command| arrange_help(command, "rocrepro"))
}

/// Parses the arguments of this process. If they request help or are invalid, prints the help or the error and exits.
pub(crate) fn parse() -> Cli {
    let words = renamed(std::env::args_os());
    let matches = command().try_get_matches_from(&words).unwrap_or_else(|error| {
        let Some(hint) = hint(&error, &words) else { error.exit() };
        let mut error = error;
        // The parser suggests to pass the word as the name of a case.
        error.remove(ContextKind::Suggested);
        // The error ends with two lines about `--help`, and nothing more can be done if it cannot be printed.
        let _ = error.print();
        outputs::note(format!("hint: {hint}"));
        std::process::exit(error.exit_code())
    });
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Returns a hint for an argument that the command does not accept; `None` if no hint applies.
fn hint(error: &clap::Error, words: &[OsString]) -> Option<&'static str> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_of_prove = words.get(1).is_some_and(|command| command == "prove");
    if is_of_prove && word.starts_with("--fault") {
        return Some(
            "`prove` injects every fault that a case declares: add the fault under `faults` of the case, or use \
             `rocrepro run CASE --fault NAME`",
        );
    }
    let is_of_new = words.get(1..3).is_some_and(|command| command == ["case", "new"]);
    if is_of_new && !word.starts_with('-') {
        return Some("program arguments belong in the case file: `args` under `program`");
    }
    let at = words.iter().position(|other| other == word.as_str())?;
    let list = words.get(at.checked_sub(2)?)?.to_str()?;
    let is_list = ["--with", "--gfx", "--also"].contains(&list) && !word.starts_with('-');
    is_list.then_some("several values of an option are written with commas and without spaces")
}

/// Lists the subcommands with their descriptions, under the headings of [`GROUPS`].
fn list_groups(command: &Command) -> String {
    let about = |name: &str| {
        let found = command.find_subcommand(name).and_then(Command::get_about);
        found.map(ToString::to_string).unwrap_or_default()
    };
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text.push_str(&format!("{heading}:\n"));
        for name in names {
            text.push_str(&format!("  {name:<12} {}\n", about(name)));
        }
    }
    text
}

/// Arranges the help of a subcommand and of its own subcommands. `parent` is the name of the command above it, for
/// example `rocrepro case`.
fn arrange_help(command: Command, parent: &str) -> Command {
    let path = format!("{parent} {}", command.get_name());
    let options = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let many = options.count() > MAX_SHOWN_OPTIONS;
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help);
    let help = help.help("Print help: -h a summary, --help everything");
    let command =
        command.disable_help_flag(true).mut_args(|arg| shorten_description(completed(arg), many));
    command
        .arg(if many { help.help_heading("Results") } else { help })
        .after_help(summary(&after, &path))
        .after_long_help(reflow(&after))
        .mut_subcommands(|command| arrange_help(command, &path))
}

/// Shortens the description of an option to one clause for `-h`. If the command has many options, puts the option under
/// its heading.
fn shorten_description(arg: Arg, many: bool) -> Arg {
    let id = arg.get_id().as_str().to_owned();
    let variable = arg.get_env().map(|name| format!(" [env: {}]", name.to_string_lossy()));
    let Some(text) = arg.get_help().map(ToString::to_string) else { return arg };
    let long = arg.get_long_help().map_or_else(|| text.clone(), StyledStr::to_string);
    let short = first_clause(&text).to_owned();
    let arg = arg.hide_env(true).help(short).long_help(long + &variable.unwrap_or_default());
    if arg.is_positional() || !many {
        return arg;
    }
    let heading = HEADINGS.iter().find(|(_, ids)| ids.contains(&id.as_str()));
    let arg = arg.hide_short_help(!ESSENTIAL.contains(&id.as_str()));
    match heading {
        Some((heading, _)) => arg.help_heading(*heading),
        None => arg,
    }
}

/// Returns a description up to the end of its first clause.
fn first_clause(text: &str) -> &str {
    // `...` does not end a sentence.
    let dots = |at: &usize, end: &str| end == ". " && text[..*at].ends_with('.');
    let ends = ["; ", ". ", " [default"]
        .iter()
        .filter_map(|end| text.match_indices(end).map(|(at, _)| at).find(|at| !dots(at, end)));
    &text[..ends.min().unwrap_or(text.len())]
}

/// Returns the first examples for `-h`. If an example does not fit on a line, its remark is left out.
fn summary(after: &str, path: &str) -> String {
    let examples = after.lines().skip(1).take_while(|line| line.starts_with("  "));
    let fits = |line: &&str| line.chars().count() <= WIDTH;
    let short = |line| Some(line).filter(fits).or_else(|| remark(line).map(|(line, _)| line));
    let lines: Vec<&str> = examples.filter_map(short).filter(fits).take(EXAMPLES).collect();
    format!("Examples:\n{}\n\n`{path} --help` shows everything.", lines.join("\n"))
}

/// Splits a line into an example and the remark after it; `None` if the line has no remark.
fn remark(line: &str) -> Option<(&str, &str)> {
    let at = line.trim_start().find("   ")? + line.len() - line.trim_start().len();
    Some((&line[..at], line[at..].trim_start()))
}

/// Reformats examples and paragraphs so that a terminal of any width can wrap them. Each paragraph becomes one line,
/// long commands continue after a backslash, and a remark that does not fit next to its example goes below the example.
fn reflow(after: &str) -> String {
    let mut text = String::new();
    let mut in_paragraph = false;
    for line in after.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        if in_paragraph && is_prose {
            text.push(' ');
        } else if !text.is_empty() {
            text.push('\n');
        }
        in_paragraph = is_prose;
        if is_prose || line.chars().count() <= WIDTH {
            text.push_str(line);
            continue;
        }
        let (example, remark) = remark(line).unwrap_or((line, ""));
        text.push_str(&break_command(example));
        if !remark.is_empty() {
            text.push_str(&format!("\n      {remark}"));
        }
    }
    text
}

/// Breaks a command that is too long for a line. Each line except the last ends with a backslash, so that a shell reads
/// one command.
fn break_command(command: &str) -> String {
    let (mut text, mut column, mut word) = (String::new(), 0, String::new());
    for part in command.split_inclusive(' ') {
        word.push_str(part);
        if word.matches('\'').count() % 2 == 1 {
            continue;
        }
        // The backslash and its space need two columns.
        if column > 2 && column + word.trim_end().chars().count() + 2 > WIDTH {
            text.push_str("\\\n      ");
            column = 6;
        }
        column += word.chars().count();
        text.push_str(&std::mem::take(&mut word));
    }
    text + &word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of lines of a terminal on which `-h` must fit without scrolling.
    const SCREEN: usize = 40;

    fn all() -> Vec<(String, Command)> {
        fn below(command: &Command, path: &str, all: &mut Vec<(String, Command)>) {
            all.push((path.to_owned(), command.clone()));
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                below(sub, &format!("{path} {}", sub.get_name()), all);
            }
        }
        let mut command = command().term_width(WIDTH);
        command.build();
        let mut all = Vec::new();
        below(&command, "rocrepro", &mut all);
        assert!(all.len() > 35, "{} commands", all.len());
        all
    }

    #[test]
    fn each_visible_command_is_in_one_group_and_there_are_sixteen_at_most() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
        let mut visible: Vec<&str> = visible.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
        assert!(visible.len() <= 16, "{visible:?}");
    }

    #[test]
    fn short_help_fits_on_a_screen_and_has_examples() {
        let mut mistakes = Vec::new();
        for (path, command) in all() {
            let hidden = command.is_hide_set();
            let text = command.term_width(WIDTH).render_help().to_string();
            let lines = text.lines().count();
            if lines > SCREEN {
                mistakes.push(format!("{path}: {lines} lines\n{text}"));
            }
            let example = text.split("Examples:\n").nth(1).is_some_and(|text| {
                text.lines().next().is_some_and(|line| line.contains("rocrepro "))
            });
            if !example && !hidden {
                mistakes.push(format!("{path}: no example\n{text}"));
            }
        }
        assert!(mistakes.is_empty(), "{}", mistakes.join("\n\n"));
    }

    #[test]
    fn help_has_no_line_wider_than_eighty_columns() {
        for (path, command) in all() {
            let command = command.term_width(WIDTH);
            let texts = [command.clone().render_help(), command.clone().render_long_help()];
            for text in texts.map(|text| text.to_string()) {
                let wide: Vec<&str> =
                    text.lines().filter(|line| line.chars().count() > WIDTH).collect();
                assert!(wide.is_empty(), "{path}: {wide:#?}");
            }
        }
    }

    #[test]
    fn examples_name_commands_that_exist() {
        let all = all();
        let mut seen = 0;
        for (path, command) in &all {
            let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            for words in after.replace("\n  rocrepro ", "`rocrepro ").split("`rocrepro ").skip(1) {
                let name = words.split([' ', '`', '\n']).next().unwrap_or_default();
                let known = all.iter().any(|(known, _)| *known == format!("rocrepro {name}"));
                assert!(known || name == "COMMAND", "{path}: rocrepro {name}");
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen} examples");
    }

    #[test]
    fn options_of_large_commands_have_headings_and_long_help_keeps_all() {
        let (mut bare, mut missing) = (Vec::new(), Vec::new());
        for (path, command) in all() {
            let options: Vec<Arg> = command
                .get_arguments()
                .filter(|a| !a.is_positional() && !a.is_hide_set())
                .cloned()
                .collect();
            let long = command.clone().render_long_help().to_string();
            for option in &options {
                let name = option.get_long().unwrap_or_default();
                let named = format!("{path} --{name} ({})", option.get_id());
                if options.len() > MAX_SHOWN_OPTIONS + 1 && option.get_help_heading().is_none() {
                    bare.push(named.clone());
                }
                if !long.contains(&format!("--{name}")) {
                    missing.push(named);
                }
            }
        }
        assert!(
            bare.is_empty() && missing.is_empty(),
            "no heading: {bare:#?}; no help: {missing:#?}"
        );
    }

    #[test]
    fn long_examples_continue_as_a_shell_reads_them() {
        let long = "  rocrepro bisect --good debian:6.4.3 --bad debian:7.2.4 --match 'invalid device' -- python3 repro.py";
        let text = reflow(&format!("Examples:\n{long}    a remark\n\nOne line.\nAnother one."));
        let (command, rest) = text.split_once("a remark\n").expect("it has a remark");
        let command = command.trim_end();
        assert!(command.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(command.replace("\\\n      ", ""), format!("Examples:\n{long}"));
        assert_eq!(rest, "\nOne line. Another one.");
    }

    #[test]
    fn ends_a_summary_at_the_first_clause() {
        let check = |text, expected| assert_eq!(first_clause(text), expected);
        check("A build; fetched when needed", "A build");
        check(
            "Values: V1,V2,... or LOW..HIGH, and more. Then",
            "Values: V1,V2,... or LOW..HIGH, and more",
        );
        check("One thing [default: 1]", "One thing");
        check("All of it", "All of it");
    }
}
