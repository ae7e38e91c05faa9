//! The table of all disturbances with which the command is tested. Each family of disturbances has a module.

mod archives;
mod calls;
mod cases;
mod descendants;
mod disks;
mod environment;
mod folders;
mod launchers;
mod limits;
mod preload;
mod protocol;
mod runtime;
mod signals;

use crate::row::Row;

pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    let families: [&'static [Row]; 13] = [
        preload::ROWS,
        protocol::ROWS,
        runtime::ROWS,
        launchers::ROWS,
        limits::ROWS,
        disks::ROWS,
        signals::ROWS,
        descendants::ROWS,
        environment::ROWS,
        folders::ROWS,
        cases::ROWS,
        archives::ROWS,
        calls::ROWS,
    ];
    families.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_names_are_unique() {
        let names: std::collections::BTreeSet<_> = rows().map(|row| row.name).collect();
        assert_eq!(names.len(), rows().count());
        assert!(names.len() >= 120, "{}", names.len());
    }

    #[test]
    fn every_row_has_allowed_answers() {
        const WORDS: [&str; 12] = [
            "pass",
            "known",
            "done",
            "refused",
            "stopped",
            "nothing",
            "news",
            "fail",
            "no-verdict",
            "skip",
            "killed",
            // The loader ends with its own exit code.
            "exit",
        ];
        for row in rows() {
            assert!(!row.expect.any.all().is_empty(), "{}", row.name);
            for answer in row.expect.any.all() {
                let word = answer.split([' ', '*']).next().unwrap_or_default();
                assert!(WORDS.contains(&word), "{}: {answer}", row.name);
            }
        }
    }
}
