//! Replaces the names that commands had before they were grouped. Version 0.1 still accepts these old names:
//! [`renamed`] replaces them before the arguments are parsed. Version 0.2 will not accept them.

use std::ffi::OsString;

/// Old names of commands, each with the names of the command and subcommand that replace it.
pub(crate) const OLD_NAMES: [(&str, &[&str]); 13] = [
    ("check", &["case", "check"]),
    ("list", &["case", "list"]),
    ("explain", &["case", "explain"]),
    ("schema", &["case", "schema"]),
    ("show", &["records", "show"]),
    ("diff", &["records", "diff"]),
    ("merge", &["records", "merge"]),
    ("store", &["records", "store"]),
    ("history", &["records", "history"]),
    ("unfinished", &["records", "unfinished"]),
    ("redact", &["records", "redact"]),
    ("rocm", &["stack"]),
    ("env", &["stack", "env"]),
];

/// Replaces the old name of a command in the arguments of this process. The first argument is the name of the program.
pub(super) fn renamed(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let at = if words.get(1).is_some_and(|word| word == "help") { 2 } else { 1 };
    let Some(old) = words.get(at) else { return words };
    let Some((old, new)) = OLD_NAMES.iter().find(|(name, _)| old == name) else { return words };
    let mut new = *new;
    if *old == "schema"
        && let Some(record) = words.iter().position(|word| word == "--record")
    {
        words.remove(record);
        new = &["records", "schema"];
    }
    words.splice(at..=at, new.iter().map(OsString::from));
    words
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{super::Cli, *};

    #[test]
    fn every_old_name_has_a_command() {
        for (old, new) in OLD_NAMES {
            let command = Cli::command();
            assert!(command.find_subcommand(old).is_none(), "`{old}` is a command");
            let found =
                new.iter().try_fold(&command, |command, name| command.find_subcommand(name));
            assert!(found.is_some(), "{new:?}");
        }
    }

    #[test]
    fn only_the_name_of_the_command_is_replaced() {
        let check = |line: &str, expected: &str| {
            let words = renamed(line.split(' ').map(OsString::from));
            assert_eq!(words, expected.split(' ').collect::<Vec<_>>(), "{line}");
        };
        check("rocrepro list --trials", "rocrepro case list --trials");
        check("rocrepro help rocm fetch", "rocrepro help stack fetch");
        check("rocrepro env list", "rocrepro stack env list");
        check("rocrepro schema", "rocrepro case schema");
        check("rocrepro schema --record", "rocrepro records schema");
        check("rocrepro exec list", "rocrepro exec list");
        check("rocrepro run show", "rocrepro run show");
        check("rocrepro", "rocrepro");
    }
}
