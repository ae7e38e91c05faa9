//! Evidence as others may read it.

use std::{fs, io::ErrorKind, path::Path, process::ExitCode};

use report::issue::{Identity, publish_file};

use crate::{args::Redact, outputs};
use engine::{Stop, host};

pub(crate) fn redact(args: &Redact) -> Result<ExitCode, Stop> {
    let who = host::identity();
    let is_folder = args.path.is_dir();
    match &args.out {
        None if is_folder => {
            return Err(Stop::usage(
                "error: a folder is redacted into another one: name it by `--out`",
            ));
        }
        None => outputs::data(&publish_file(&read(&args.path)?, &who))?,
        Some(out) => {
            // Never into a folder that has something: its files could be the only ones of their name.
            fs::create_dir(out).map_err(|e| cannot("create", out, &e))?;
            if is_folder {
                folder(&args.path, out, &who)?;
            } else {
                file(&args.path, &out.join(args.path.file_name().unwrap_or_default()), &who)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every plain file of a folder; links are left out, as they may lead anywhere.
fn folder(from: &Path, to: &Path, who: &Identity) -> Result<(), Stop> {
    for entry in fs::read_dir(from).map_err(|e| cannot("read", from, &e))? {
        let entry = entry.map_err(|e| cannot("read", from, &e))?;
        let (path, at) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|e| cannot("read", &path, &e))?;
        if kind.is_dir() {
            fs::create_dir(&at).map_err(|e| cannot("create", &at, &e))?;
            folder(&path, &at, who)?;
        } else if kind.is_file() {
            file(&path, &at, who)?;
        } else {
            outputs::note(format!("`{}` is left out: it is no plain file", path.display()));
        }
    }
    Ok(())
}

fn file(from: &Path, to: &Path, who: &Identity) -> Result<(), Stop> {
    match fs::read_to_string(from) {
        Ok(text) => {
            atomic::write_new(to, publish_file(&text, who)).map_err(|e| cannot("write", to, &e))
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            outputs::note(format!("`{}` is left out: it is no text", from.display()));
            Ok(())
        }
        Err(error) => Err(cannot("read", from, &error)),
    }
}

fn read(path: &Path) -> Result<String, Stop> {
    fs::read_to_string(path).map_err(|e| cannot("read", path, &e))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Stop {
    Stop::usage(format!("error: cannot {what} `{}`: {error}", path.display()))
}
