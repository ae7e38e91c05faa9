//! Finds out which versions the mirrors offer in place of a package that they no longer have.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::AtomicBool;

use crate::debian::packages::Mirrors;
use crate::debian::planned::Planned;
use crate::unpack::budget::{Budget, CompressedReader, DecompressedReader};
use crate::unpack::decode::xz;
use crate::{FetchError, RELEASES, Release, ReleaseLock, Version};
use download::SizeLimit;

/// Possible file names of the index of a suite, the preferred one first. Large mirrors compress the index.
const INDEXES: [&str; 2] = ["Packages.xz", "Packages"];

/// Maximum size of an index. The largest index in Debian has 60 MB.
const INDEX: SizeLimit = SizeLimit::new(512 << 20, "no index of Debian is larger");

/// Maximum number of bytes that are read from a line of an index. The needed fields are shorter.
const MAX_LINE_BYTES: u64 = 1 << 12;

/// Returns the error for a package that the mirrors no longer have. The error contains the ROCm versions in the
/// indexes, and the nearest release for which the mirrors have every package. The signatures of the indexes are not
/// checked, because nothing in the indexes is unpacked.
pub(crate) fn gone(
    release: &'static Release,
    package: String,
    suites: &[String],
    mirrors: &Mirrors<'_>,
    stop: &AtomicBool,
) -> FetchError {
    let versions = suites.iter().flat_map(|suite| versions(suite, release, mirrors, stop));
    let versions: BTreeSet<Version> = versions.collect();
    let texts: Vec<String> = versions.iter().map(Version::to_string).collect();
    let there = match texts.as_slice() {
        [] => "unknown, because no index could be downloaded".to_owned(),
        texts => texts.join(", "),
    };
    let again = match versions.contains(&release.version()) {
        true => format!(
            " (another revision of {} is used if apt-get and Debian's archive keys are installed)",
            release.version
        ),
        false => String::new(),
    };
    let suites = suites.join(" and ");
    FetchError::Gone {
        spec: release.to_string(),
        gone: package,
        mirrors: mirrors.names(),
        offered: format!("ROCm versions in {suites} now: {there}{again}"),
        nearest: nearest(release, mirrors, stop).map(Release::to_string),
    }
}

/// Returns the versions of the HIP runtime that the index of a suite contains.
fn versions(
    suite: &str,
    release: &Release,
    mirrors: &Mirrors<'_>,
    stop: &AtomicBool,
) -> Vec<Version> {
    let stem = release.runtime().trim_end_matches(|c: char| c.is_ascii_digit());
    let found = INDEXES.iter().find_map(|name| {
        let path = format!("dists/{suite}/main/binary-amd64/{name}");
        mirrors.read(&path, INDEX, stop, |bytes| {
            let budget = Budget::new(stop);
            let packed = CompressedReader { inner: bytes, budget: &budget };
            match name.ends_with(".xz") {
                true => named(DecompressedReader { inner: xz(packed), budget: &budget }, stem),
                false => named(packed, stem),
            }
        })
    });
    found.unwrap_or_default()
}

/// Returns the versions of those packages in the index of a suite whose names consist of `stem` and a number.
fn named(index: impl Read, stem: &str) -> Vec<Version> {
    let mut index = BufReader::new(index);
    let (mut versions, mut line, mut wanted) = (Vec::new(), Vec::new(), false);
    loop {
        line.clear();
        // If an index cannot be read to its end, the versions found so far are returned.
        match index.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return versions,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(name) = text.strip_prefix("Package: ") {
            let number = name.trim_end().strip_prefix(stem).unwrap_or_default();
            wanted = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        } else if let Some(version) = text.strip_prefix("Version: ").filter(|_| wanted) {
            versions.extend(Version::from_prefix(version.trim_end()));
        }
    }
}

/// Returns the release closest to `release` in the table, other than `release` itself, for which the mirrors have every
/// package of a new stack. `None` if the mirrors have no other release completely.
fn nearest(
    release: &Release,
    mirrors: &Mirrors<'_>,
    stop: &AtomicBool,
) -> Option<&'static Release> {
    let place = |wanted: &Release| RELEASES.iter().position(|r| r.version == wanted.version);
    let own = place(release)?;
    let mut others: Vec<_> = (0..RELEASES.len()).filter(|at| *at != own).collect();
    others.sort_by_key(|at| at.abs_diff(own));
    others.into_iter().map(|at| &RELEASES[at]).find(|other| {
        let plan = ReleaseLock::for_release(other).plan(&other.standard.iter().copied().collect());
        let of =
            |package: &Planned| SizeLimit::new(package.size, "that is the size of the package");
        plan.iter().all(|package| mirrors.read(&package.path, of(package), stop, |_| ()).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_the_versions_of_the_runtime_from_an_index() {
        let check = |index: &str, expected: &[&str]| {
            let versions = named(index.as_bytes(), "libamdhip64-");
            let texts: Vec<_> = versions.iter().map(Version::to_string).collect();
            assert_eq!(texts, expected, "{index}");
        };
        check("", &[]);
        check("Package: libamdhip64-7\nVersion: 7.2.5-1\n", &["7.2.5"]);
        check(
            "Package: libamdhip64-6\nSource: x\nVersion: 6.4.3-9\n\n\
             Package: libamdhip64-dev\nVersion: 7.9.9-1\n\n\
             Package: libamdhip64-\nVersion: 7.9.9-1\n\n\
             Package: other\nVersion: 7.9.9-1\n\nPackage: libamdhip64-7\nVersion: 7.2.5-1",
            &["6.4.3", "7.2.5"],
        );
        let long =
            format!("Description: {}\nPackage: libamdhip64-7\nVersion: 7.2.5\n", "x".repeat(9999));
        check(&long, &["7.2.5"]);
        check("Version: 7.2.5\nPackage: libamdhip64-7\nVersion: unknown\n", &[]);
    }
}
