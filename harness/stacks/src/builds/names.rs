use version::Version;

use crate::Date;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tarball<'a> {
    pub(crate) family: &'a str,
    pub(crate) version: &'a str,
}

/// Parses `therock-dist-linux-<family>-<version>.tar.gz`. Returns `None` for any other name, because the same listings
/// also contain builds for Windows, test packages and ad-hoc builds. The pattern is that of TheRock's
/// `install_rocm_from_artifacts.py`, with the additional endings `+bkc.<date>` and `rc<n>` that other release streams
/// use.
pub(crate) fn tarball(name: &str) -> Option<Tarball<'_>> {
    let stem = name.strip_prefix("therock-dist-linux-")?;
    let stem = [".tar.gz", ".tar.xz", ".tar.zst"].iter().find_map(|e| stem.strip_suffix(e))?;
    let (family, version) = stem.rsplit_once('-')?;
    let decoy = family.ends_with("-tests") || family == "tests" || family.contains("ADHOCBUILD");
    (!decoy && !family.is_empty() && is_version(version)).then_some(Tarball { family, version })
}

/// Returns true if the text is a version with three numbers and, optionally, a suffix as in Python packages. Listings
/// contain no native packages, whose versions have other suffixes.
fn is_version(text: &str) -> bool {
    !text.contains('~') && text.parse().is_ok_and(|version: Version| version.is_exact())
}

/// Returns the mark in a version, for example `+bkc`, if the build is not a nightly build of the main branch; otherwise
/// `None`. The same listings also contain builds for a single customer (`+bkc`) and of a developer's commit (`.dev0`).
pub(crate) fn beside_main(version: &str) -> Option<&'static str> {
    let (_, local) = version.split_once('+')?;
    if local.starts_with("bkc.") {
        Some("+bkc")
    } else {
        version.contains(".dev0+").then_some(".dev0")
    }
}

/// Returns the day that a version contains. If the version contains two days, as in `10.1.0a20260811+bkc.20260813`,
/// returns the last one.
pub(crate) fn day(version: &str) -> Option<Date> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter(|run| run.len() == 8)
        .filter_map(|run| run.parse().ok())
        .next_back()
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wheel {
    /// Package name, normalised as in PEP 503, for example `rocm-sdk-core`.
    pub(crate) package: String,
    pub(crate) version: String,
}

/// Parses the name of a wheel, for example `rocm_sdk_core-7.15.0a20260630-py3-none-linux_x86_64.whl`. Returns `None`
/// for source distributions, and for wheels for other operating systems.
pub(crate) fn wheel(name: &str) -> Option<Wheel> {
    let parts: Vec<_> = name.strip_suffix(".whl")?.split('-').collect();
    let platform = parts.last().filter(|_| (5..=6).contains(&parts.len()))?;
    let linux = platform.contains("linux") && platform.ends_with("x86_64");
    (linux || *platform == "any")
        .then(|| Wheel { package: normalised(parts[0]), version: parts[1].to_owned() })
}

/// Returns the normalised name of a package (PEP 503): each run of `-`, `_` and `.` becomes one dash.
pub(crate) fn normalised(package: &str) -> String {
    let words = package.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_tarballs_from_decoys() {
        let check = |name: &str, expected: &str| {
            let got =
                tarball(name).map_or("none".into(), |t| format!("{} {}", t.family, t.version));
            assert_eq!(got, expected, "{name}");
        };
        let sha = "361a3e79d630361a3e79d630361a3e79d630361a";
        check("therock-dist-linux-gfx1151-7.11.0a20251122.tar.gz", "gfx1151 7.11.0a20251122");
        check("therock-dist-linux-gfx110X-all-7.14.0.tar.gz", "gfx110X-all 7.14.0");
        check(
            "therock-dist-linux-gfx94X-dcgpu-7.0.0rc20250625.tar.gz",
            "gfx94X-dcgpu 7.0.0rc20250625",
        );
        check("therock-dist-linux-multiarch-10.1.0a20260831.tar.gz", "multiarch 10.1.0a20260831");
        check("therock-dist-linux-gfx1151-10.1.0rc3.tar.gz", "gfx1151 10.1.0rc3");
        check(
            &format!("therock-dist-linux-gfx1151-7.10.0.dev0+{sha}.tar.gz"),
            &format!("gfx1151 7.10.0.dev0+{sha}"),
        );
        check(
            "therock-dist-linux-gfx1151-10.1.0a20260811+bkc.20260813.tar.gz",
            "gfx1151 10.1.0a20260811+bkc.20260813",
        );
        for decoy in [
            "therock-dist-windows-gfx1151-7.11.0a20251122.tar.gz",
            "therock-dist-linux-gfx1151-tests-7.11.0a20251122.tar.gz",
            "therock-dist-linux-gfx110X-all-ADHOCBUILD-7.0.0rc20250625.tar.gz",
            "therock-dist-linux-7.11.0a20251122.tar.gz",
            "therock-dist-linux-gfx1151-7.11.0a2025x.tar.gz",
            "therock-dist-linux-gfx1151-7.11.tar.gz",
            "therock-dist-linux-gfx1151-7.10.0.dev0.tar.gz",
            "therock-dist-linux-gfx1151-7.11.0a20251122.tar.gz.sha256sum",
            "index.html",
            "",
        ] {
            check(decoy, "none");
        }
    }

    #[test]
    fn reads_days_from_versions() {
        let check = |version: &str, expected: &str| {
            let got = day(version).map_or("none".into(), |d| d.to_string());
            assert_eq!(got, expected, "{version}");
        };
        check("7.11.0a20251122", "2025-11-22");
        check("10.1.0a20260811+bkc.20260813", "2026-08-13");
        check("7.14.0", "none");
        check("10.1.0rc3", "none");
        check("therock-20260102-x", "2026-01-02");
    }

    #[test]
    fn recognises_builds_beside_the_main_branch() {
        assert_eq!(beside_main("10.1.0a20260811+bkc.20260813"), Some("+bkc"));
        assert_eq!(beside_main("7.10.0.dev0+361a3e79"), Some(".dev0"));
        assert_eq!(beside_main("7.11.0a20251122"), None);
        assert_eq!(beside_main("2.9.1+rocm7.10.0a20251124"), None);
    }

    #[test]
    fn reads_wheels_for_linux() {
        let check = |name: &str, expected: &str| {
            let got = wheel(name).map_or("none".into(), |w| format!("{} {}", w.package, w.version));
            assert_eq!(got, expected, "{name}");
        };
        let version = "7.15.0a20260630";
        check(
            &format!("rocm_sdk_core-{version}-py3-none-linux_x86_64.whl"),
            &format!("rocm-sdk-core {version}"),
        );
        check(
            &format!(
                "rocm_sdk_libraries_gfx94X_dcgpu-{version}-py3-none-manylinux_2_28_x86_64.whl"
            ),
            &format!("rocm-sdk-libraries-gfx94x-dcgpu {version}"),
        );
        check(&format!("rocm_sdk_core-{version}-py3-none-win_amd64.whl"), "none");
        check(&format!("rocm-{version}.tar.gz"), "none");
    }
}
