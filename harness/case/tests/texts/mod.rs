//! The files of the library.

use std::{collections::BTreeMap, path::Path};

/// The cases of the library whose body is steps.
#[allow(dead_code, reason = "not every test is about these alone")]
pub(crate) fn plans(cases: &Path) -> BTreeMap<String, String> {
    let mut all = texts(cases, "yaml");
    all.retain(|_, text| !text.contains("\nprogram:"));
    all
}

/// All files with this ending below a folder, by path without it.
pub(crate) fn texts(folder: &Path, ending: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder is part of the project") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            let name = path.file_name().expect("has a name").to_string_lossy().into_owned();
            for (id, text) in texts(&path, ending) {
                found.insert(format!("{name}/{id}"), text);
            }
        } else if path.extension().is_some_and(|e| e == ending) {
            let id = path.file_stem().expect("has a name").to_string_lossy().into_owned();
            found.insert(id, std::fs::read_to_string(&path).expect("readable"));
        }
    }
    found
}
