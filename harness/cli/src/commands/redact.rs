//! Redacts evidence for publication.

use std::{
    ffi::OsStr,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
};

use report::issue::{Identity, private_values, publish_file, redact as redact_text};

use crate::{args::Redact, outputs};
use engine::{Stop, host};

pub(crate) fn redact(args: &Redact) -> Result<ExitCode, Stop> {
    let mut who = host::identity();
    let is_folder = args.path.is_dir();
    match &args.out {
        None if is_folder => {
            return Err(Stop::usage(
                "error: `--out` is missing; it names the new folder for the redacted files",
            ));
        }
        None => {
            let text = read(&args.path)?;
            who.values.extend(private_values(text.as_bytes()));
            outputs::print_data(&publish_file(&text, &who))?;
        }
        Some(out) => {
            if is_folder && is_inside(out, &args.path) {
                return Err(Stop::usage(format!(
                    "error: `{}` is inside the folder to be redacted, `{}`",
                    out.display(),
                    args.path.display()
                )));
            }
            // Private values that a record contains, such as those of `--env`, may occur in the other files too.
            collect_values(&args.path, &mut who.values)?;
            // The folder must be new, so that no existing file is replaced.
            fs::create_dir(out).map_err(|e| cannot("create", out, &e))?;
            if is_folder {
                folder(&args.path, out, &who)?;
            } else {
                let name = args.path.file_name().unwrap_or_default();
                file(&args.path, &free_path(out, name, &who), &who)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if the folder `new`, which does not exist yet, would be inside `folder`.
fn is_inside(new: &Path, folder: &Path) -> bool {
    let parent = new.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    match (parent.canonicalize(), folder.canonicalize()) {
        (Ok(parent), Ok(folder)) => parent.starts_with(folder),
        _ => false,
    }
}

/// Adds the private values, such as those of `--env`, in the records of a file or folder to `values`.
fn collect_values(path: &Path, values: &mut Vec<String>) -> Result<(), Stop> {
    let kind = fs::metadata(path).map_err(|e| cannot("read", path, &e))?;
    if kind.is_dir() {
        for entry in fs::read_dir(path).map_err(|e| cannot("read", path, &e))? {
            let entry = entry.map_err(|e| cannot("read", path, &e))?;
            let kind = entry.file_type().map_err(|e| cannot("read", path, &e))?;
            if kind.is_dir() || kind.is_file() {
                collect_values(&entry.path(), values)?;
            }
        }
    } else if kind.is_file() {
        let file = fs::read(path).map_err(|e| cannot("read", path, &e))?;
        values.extend(private_values(&file));
    }
    Ok(())
}

/// Redacts every regular file of a folder. Links are skipped, because their targets may be outside of the folder.
fn folder(from: &Path, to: &Path, who: &Identity) -> Result<(), Stop> {
    for entry in fs::read_dir(from).map_err(|e| cannot("read", from, &e))? {
        let entry = entry.map_err(|e| cannot("read", from, &e))?;
        let (path, at) = (entry.path(), free_path(to, &entry.file_name(), who));
        let kind = entry.file_type().map_err(|e| cannot("read", &path, &e))?;
        if kind.is_dir() {
            fs::create_dir(&at).map_err(|e| cannot("create", &at, &e))?;
            folder(&path, &at, who)?;
        } else if kind.is_file() {
            file(&path, &at, who)?;
        } else {
            outputs::note(format!(
                "skipped `{}`: not a regular file. If it contains records, their --env values may remain in the \
                 other files",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Returns a path in the output folder for the redacted copy of a file or folder. The name is redacted too, and is not
/// in use yet.
fn free_path(folder: &Path, name: &OsStr, who: &Identity) -> PathBuf {
    let shown = name.to_string_lossy();
    // The file name extension may hide the end of an address: `10.1.2.3.log`.
    let whole = redact_text(&shown, who);
    let redacted = match whole.rsplit_once('.') {
        Some((stem, ending)) => format!("{}.{ending}", redact_text(stem, who)),
        None => whole,
    };
    if *redacted == *shown {
        return folder.join(name);
    }
    let redacted = redacted.replace('/', "_").replace(['<', '>'], "");
    let mut paths = std::iter::successors(Some(1_u32), |n| n.checked_add(1)).map(|n| match n {
        1 => folder.join(&redacted),
        n => folder.join(format!("{n}-{redacted}")),
    });
    paths.find(|path| !path.exists()).unwrap_or_else(|| folder.join(&redacted))
}

fn file(from: &Path, to: &Path, who: &Identity) -> Result<(), Stop> {
    let left_out = || {
        outputs::note(format!(
            "skipped `{}`: not a text file. If it contains compressed records, their --env values may remain in the \
             other files",
            from.display()
        ));
    };
    match fs::read_to_string(from) {
        // A text with zero bytes may be UTF-16, in which the patterns would find nothing.
        Ok(text) if text.contains('\0') => {
            left_out();
            Ok(())
        }
        Ok(text) => {
            atomic::write_new(to, publish_file(&text, who)).map_err(|e| cannot("write", to, &e))
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            left_out();
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
