//! The identity of the program that a search runs, by which a search detects that the program has changed.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{command_spec::CommandSpec, error::SearchError};
use engine::Stop;

/// SHA-256 digests of the files that determine what the subject of a search does. The key is the path of the file, or
/// `case` and the id of a case.
pub(crate) type Files = BTreeMap<String, String>;

/// Returns the digest of the file with the program: the file of `--program`, or the first word of the command if it
/// contains a `/`, or the first argument that names a file. Empty if no such file exists. Further arguments are
/// ignored, because they may be data files that every run writes.
pub(crate) fn program_digests(wanted: &CommandSpec) -> Result<Files, SearchError> {
    let first = wanted.words.first().map(PathBuf::from);
    let own = wanted.program.clone().or_else(|| first.filter(|word| word.components().count() > 1));
    let named = || wanted.words.iter().skip(1).map(PathBuf::from).find(|word| word.is_file());
    let file = own.or_else(named).filter(|path| path.is_file());
    let known = |path: PathBuf| {
        let sum = sha256(&path);
        let sum = sum.map_err(|error| SearchError::Unreadable(path.clone(), error))?;
        Ok((path.display().to_string(), sum))
    };
    file.map(known).into_iter().collect()
}

/// Returns the digest of a case's file.
pub(crate) fn case_digest(id: &str, text: &str) -> Files {
    Files::from([(format!("case {id}"), hex(&Sha256::digest(text)))])
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut sum) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => sum.update(&buffer[..n]),
        }
    }
    Ok(hex(&sum.finalize()))
}

pub(crate) fn reject_changes(before: &Files, now: &Files) -> Result<(), Stop> {
    let changed = now.iter().filter_map(|(path, now)| {
        let before = before.get(path).filter(|before| *before != now)?;
        let [path, now, before] = [path, now, before].map(String::clone);
        Some(SearchError::FileChanged { path, now, before })
    });
    Stop::unless_empty(changed)
}
