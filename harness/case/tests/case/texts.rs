//! Texts of the library's cases and kernels. Each file is read once, for all tests.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use case::Kernels;

pub(crate) static CASES: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| texts(&root().join("cases"), "yaml"));

/// Texts of the cases that have steps, by the ids of the cases.
pub(crate) static PLANS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut all = CASES.clone();
    all.retain(|_, text| !text.contains("\nprogram:"));
    all
});

pub(crate) static KERNELS: LazyLock<Kernels> =
    LazyLock::new(|| texts(&root().join("kernels"), "hip").into_iter().collect());

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Checks that a page of the repository has the text `page`. If ROCREPRO_WRITE_REFERENCE is set, writes the page
/// instead.
#[track_caller]
pub(crate) fn assert_page(file: &str, page: &str, how: &str) {
    let path = root().join(file);
    if std::env::var_os("ROCREPRO_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, page).expect("it is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).find(|(now, then)| now != then);
    assert!(page == written, "{file} is stale at {differs:?}; write it by `{how}`");
}

/// Returns the content of all files with this extension below a folder, by their path without the extension.
fn texts(folder: &Path, ending: &str) -> BTreeMap<String, String> {
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
