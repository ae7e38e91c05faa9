//! What tells a program from another one under the same name: what two of them show is not mixed.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::wanted::Wanted;
use engine::Stop;

/// The sha256 of each file that decides what a command does, by its path.
pub(crate) type Files = BTreeMap<String, String>;

/// The program; or the command's own file; or, where the command is found in PATH and so is an interpreter or a tool of the
/// machine, the first file among its words. Files behind it may be data that every run writes anew.
pub(crate) fn files(wanted: &Wanted) -> Result<Files, Stop> {
    let first = wanted.words.first().map(PathBuf::from);
    let own = wanted.program.clone().or_else(|| first.filter(|word| word.components().count() > 1));
    let named = || wanted.words.iter().skip(1).map(PathBuf::from).find(|word| word.is_file());
    let file = own.or_else(named).filter(|path| path.is_file());
    let known = |path: PathBuf| {
        let sum = sha256(&path).map_err(|error| {
            Stop::usage(format!("error: cannot read `{}`: {error}", path.display()))
        })?;
        Ok((path.display().to_string(), sum))
    };
    file.map(known).into_iter().collect()
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
    Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Refuses to go on where a file is another one than before.
pub(crate) fn same(before: &Files, now: &Files) -> Result<(), Stop> {
    let changed = now.iter().filter_map(|(path, now)| {
        let before = before.get(path).filter(|before| *before != now)?;
        Some(format!(
            "error: `{path}` was changed since this bisect began: its sha256 is {now}, and was {before}; results of the two must \
             not be mixed, so begin anew in another folder (--out)"
        ))
    });
    let changed: Vec<_> = changed.collect();
    if changed.is_empty() { Ok(()) } else { Err(Stop::usage(changed.join("\n"))) }
}
