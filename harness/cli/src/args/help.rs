//! Help that fits on a screen: commands in groups, options under headings, and a short form (`-h`) with the options that most
//! people need. `--help` prints everything.

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::Cli;

/// The groups of `rocrepro --help`: every visible command is in exactly one.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run", &["run", "exec", "prove", "matrix"]),
    (
        "From a failure to an issue",
        &["minimise", "mitigate", "bisect", "export", "report", "redact"],
    ),
    ("Cases", &["list", "explain", "check", "schema"]),
    ("Records", &["show", "diff", "merge", "store", "history", "unfinished"]),
    ("Machine", &["rocm", "env", "doctor", "device", "completions", "man"]),
];

/// The headings of options, with the ids of their arguments.
const HEADINGS: [(&str, &[&str]); 6] = [
    (
        "What to run",
        &["exclude", "cases_from", "trust", "shard", "program", "matching", "also", "all"],
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
            "trials",
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
        ],
    ),
];

/// Options that `-h` shows of a command that has many.
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

/// A command with more options than this has a short form of its help.
const MANY: usize = 9;

/// Most examples that `-h` shows: those that fit in a line.
const EXAMPLES: usize = 3;

/// Columns of a narrow terminal.
const WIDTH: usize = 80;

/// Returns the command line with grouped and shortened help.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let groups = grouped(&command);
    let template = format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}{{after-help}}");
    command.help_template(template).mut_subcommands(sorted)
}

/// Parses the arguments of this process. Prints help or a usage error and exits where these are what is wanted.
pub(crate) fn parse() -> Cli {
    let matches = command().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Lists the subcommands with their descriptions, under the headings of [`GROUPS`].
fn grouped(command: &Command) -> String {
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

/// Puts the options of a subcommand under [`HEADINGS`], and shortens its `-h` if it has [`MANY`].
fn sorted(command: Command) -> Command {
    let options = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let many = options.count() > MANY;
    if !many {
        return command;
    }
    let name = command.get_name().to_owned();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = after.lines().skip(1).take_while(|line| line.starts_with("  "));
    let narrow = examples.filter(|line| line.chars().count() <= WIDTH).take(EXAMPLES);
    let first: Vec<&str> = after.lines().take(1).chain(narrow).collect();
    let short =
        format!("{}\n\n`rocrepro {name} --help` shows all options and examples.", first.join("\n"));
    command.after_long_help(after).after_help(short).mut_args(|arg| {
        let id = arg.get_id().as_str().to_owned();
        let of = HEADINGS.iter().find(|(_, ids)| ids.contains(&id.as_str()));
        let arg = match of {
            Some((heading, _)) if !arg.is_positional() => arg.help_heading(*heading),
            _ => arg,
        };
        let hidden = !arg.is_positional() && id != "help" && !ESSENTIAL.contains(&id.as_str());
        shortened(arg).hide_short_help(hidden)
    })
}

/// Uses the first clause of an option's description in the short form.
fn shortened(arg: Arg) -> Arg {
    let Some(long) = arg.get_help().map(ToString::to_string) else { return arg };
    let ends = ["; ", ". ", " [default"].iter().filter_map(|end| long.find(end));
    let short = long[..ends.min().unwrap_or(long.len())].to_owned();
    arg.help(short).long_help(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a terminal on which `-h` must fit without scrolling.
    const SCREEN: usize = 50;

    #[test]
    fn each_visible_command_is_in_one_group() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
        let mut visible: Vec<&str> = visible.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
    }

    #[test]
    fn short_help_fits_on_a_screen_of_eighty_columns() {
        let mut command = command().term_width(80);
        command.build();
        let all = std::iter::once(&mut command.clone())
            .map(|c| (c.get_name().to_owned(), c.render_help().to_string()))
            .chain(command.get_subcommands_mut().map(|c| {
                let name = c.get_name().to_owned();
                (name, c.clone().term_width(80).render_help().to_string())
            }))
            .collect::<Vec<_>>();
        for (name, text) in all {
            assert!(
                text.lines().count() <= SCREEN,
                "{name}: {} lines\n{text}",
                text.lines().count()
            );
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{name}: {wide:#?}");
        }
    }

    #[test]
    fn options_of_large_commands_have_headings_and_long_help_keeps_all() {
        let (mut bare, mut missing) = (Vec::new(), Vec::new());
        for command in command().get_subcommands() {
            let options: Vec<&Arg> = command
                .get_arguments()
                .filter(|a| !a.is_positional() && !a.is_hide_set())
                .collect();
            if options.len() <= MANY {
                continue;
            }
            let long = command.clone().render_long_help().to_string();
            for option in options {
                let name = option.get_long().unwrap_or_default();
                let named = format!("{} --{name} ({})", command.get_name(), option.get_id());
                if option.get_help_heading().is_none() {
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
}
