//! What mirrors have in the place of a package that they no longer have.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::AtomicBool;

use download::Bound;
use lzma_rust2::XzReader;

use crate::budget::{Budget, Packed, Plain};
use crate::debian::packages::Mirrors;
use crate::debian::planned::Planned;
use crate::{RELEASES, Release, ReleaseLock, StackError, Version};

/// The index of a suite: as mirrors keep it, and as small archives do.
const INDEXES: [&str; 2] = ["Packages.xz", "Packages"];

/// The largest index of Debian has 60 MB.
const INDEX: Bound = Bound::new(512 << 20, "no index of Debian is larger");

/// No field that is looked at is longer.
const LONGEST_LINE: u64 = 1 << 12;

/// Says what there is instead of `package`, which is gone: the ROCm versions of the indexes, and the nearest release whose lock still
/// holds. Nothing that is read here is unpacked, so nobody has to vouch for it.
pub(crate) fn gone(
    release: &'static Release,
    package: String,
    suites: &[String],
    mirrors: &Mirrors<'_>,
    stop: &AtomicBool,
) -> StackError {
    let versions = suites.iter().flat_map(|suite| versions(suite, release, mirrors, stop));
    let versions: BTreeSet<Version> = versions.collect();
    let texts: Vec<String> = versions.iter().map(Version::to_string).collect();
    let there = match texts.as_slice() {
        [] => "unknown, as no index came".to_owned(),
        texts => texts.join(", "),
    };
    let again = match versions.contains(&release.version()) {
        true => format!(
            " (another revision of {} is taken where apt-get and Debian's archive keys are)",
            release.version
        ),
        false => String::new(),
    };
    let nearest = nearest(release, mirrors, stop).map_or_else(String::new, |near| {
        format!("run `rocrepro rocm fetch {near}`, the nearest that they have, or ")
    });
    let suites = suites.join(" and ");
    StackError::Gone {
        spec: release.to_string(),
        gone: package,
        mirrors: mirrors.names(),
        instead: format!("the ROCm in {suites} now: {there}{again}; {nearest}"),
    }
}

/// Versions of the HIP runtime in the index of a suite.
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
            let budget = Budget::default();
            let packed = Packed { inner: bytes, budget: &budget };
            match name.ends_with(".xz") {
                true => named(Plain { inner: XzReader::new(packed, true), budget: &budget }, stem),
                false => named(packed, stem),
            }
        })
    });
    found.unwrap_or_default()
}

/// Versions of the packages that are called `stem` and a number.
fn named(index: impl Read, stem: &str) -> Vec<Version> {
    let mut index = BufReader::new(index);
    let (mut versions, mut line, mut wanted) = (Vec::new(), Vec::new(), false);
    loop {
        line.clear();
        // An index that is cut has told something all the same.
        match index.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
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

/// The release next to this one of which the mirrors still have every package of a new stack.
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
        let plan = ReleaseLock::of(other).plan(&other.standard.iter().copied().collect());
        let of = |package: &Planned| Bound::new(package.size, "that is the size of the package");
        plan.iter().all(|package| mirrors.read(&package.path, of(package), stop, |_| ()).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_tells_the_versions_of_the_runtime_alone() {
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
