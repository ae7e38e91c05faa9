//! Creates stores and builds for the tests of the store.

use std::path::Path;
use std::time::Duration;

use stacks::{Archive, Build, BuildLocation, BuildStore};
use standin::Server;

/// Path of the archive that most tests use.
pub(crate) const A: &str = "/a/one.tar.gz";

/// Returns a store that waits only a short time between two attempts of a download.
pub(crate) fn store(folder: &Path) -> BuildStore {
    BuildStore::new(stacks::StackCache::at(folder.join("cache")))
        .with_backoff(Duration::from_millis(1))
}

/// Returns a build that consists of these archives, each with its SHA-256 if one is published.
pub(crate) fn build(server: &Server, id: &str, archives: &[(&str, Option<&str>)]) -> Build {
    let archive = |(path, sha256): &(&str, Option<&str>)| Archive {
        name: path.rsplit('/').next().unwrap().to_owned(),
        url: server.url(path),
        size: None,
        sha256: sha256.map(str::to_owned),
        sha256_url: None,
    };
    Build {
        id: id.to_owned(),
        version: id.to_owned(),
        date: None,
        family: "gfx1151".into(),
        run: None,
        places: vec![BuildLocation::Archives {
            source: "test".into(),
            archives: archives.iter().map(archive).collect(),
        }],
        components: None,
    }
}
