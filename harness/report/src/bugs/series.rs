//! Orders the builds of a store, and groups those whose results can be compared.

use plan::Version;
use serde::Serialize;

use crate::{Record, Stack, conditions, ground};

/// A sequence of builds whose results can be compared: builds of one origin, on one device with the same options.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Series {
    /// Origin of the builds, for example `nightly builds` or `releases of Debian`.
    pub builds: String,
    /// Device and unusual options, for example `emulated gfx1151; schedule lazy`.
    pub device: String,
    /// Architecture without features, for example `gfx1151`.
    pub gfx: String,
    /// True for the emulated device, whose results are not results of a GPU.
    pub emulated: bool,
    /// True if the runs had unusual options, such as a variable or a schedule.
    pub unusual: bool,
}

/// Position of a build in its series. Builds of one day are in the order of their versions. Builds without a day all
/// have the day 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BuildRank {
    day: u32,
    version: Option<Version>,
}

/// Returns the series of a record, the position of its build, and the name of the build.
pub(super) fn classify(record: &Record) -> (Series, BuildRank, String) {
    let (builds, rank, name) = build(&record.stack);
    let device = &record.device;
    let kind = if device.emulated { "emulated " } else { "" };
    let series = Series {
        builds,
        device: format!("{kind}{}", ground::device_and_options(record)),
        gfx: device.gfx.split(':').next().unwrap_or_default().to_owned(),
        emulated: device.emulated,
        unusual: !conditions::unusual_options(record).is_empty(),
    };
    (series, rank, name)
}

/// Returns the origin of a build, its position in its series, and its name. A build whose age is unknown is a series of
/// its own.
fn build(stack: &Stack) -> (String, BuildRank, String) {
    let identity = stack.identity();
    // The folder of a fetched build has the name of the build and its architectures: `7.15.0a20260702-gfx1151`.
    let folder = identity.rsplit('/').next().unwrap_or_default();
    let folder = folder.split('-').next().and_then(|name| name.parse::<Version>().ok());
    let dated = [folder.as_ref(), stack.rocm.as_ref()].into_iter().flatten().find_map(|version| {
        let name = version.to_string();
        Some((day(&name)?, version, name))
    });
    if let Some((day, version, name)) = dated {
        let builds = match (name.contains("bkc"), name.contains("dev")) {
            (true, _) => "nightly builds with fixes",
            (_, true) => "development builds",
            _ => "nightly builds",
        };
        return (builds.to_owned(), BuildRank { day, version: Some(version.clone()) }, name);
    }
    let origin = match identity.split_once(':') {
        Some(("debian", _)) => "releases of Debian".to_owned(),
        Some((origin, _)) if !origin.contains('/') => origin.to_owned(),
        _ if identity == "system" => "the installed ROCm".to_owned(),
        _ => "folders".to_owned(),
    };
    match &stack.rocm {
        Some(version) if !version.to_string().contains("dev") => {
            let name = match identity == "system" {
                true => format!("{identity} {version}"),
                false => identity.to_owned(),
            };
            (origin, BuildRank { day: 0, version: Some(version.clone()) }, name)
        }
        _ => (identity.to_owned(), BuildRank::default(), identity.to_owned()),
    }
}

/// Returns the last date that the name of a version contains, as the number `yyyymmdd`; `None` if it contains none.
fn day(version: &str) -> Option<u32> {
    let numbers = version.split(|c: char| !c.is_ascii_digit()).filter(|run| run.len() == 8);
    numbers.filter_map(|run| run.parse().ok()).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{on_gpu, passed, with_options};

    #[test]
    fn builds_are_ordered_within_their_origin() {
        let at = |spec: &str, root: &str, rocm: Option<&str>| {
            let mut record = passed("a/b");
            (record.stack.spec, record.stack.root) = (spec.to_owned(), root.to_owned());
            record.stack.rocm = rocm.map(|version| version.parse().expect("a version"));
            classify(&record)
        };
        let check = |older: (Series, BuildRank, String), newer: (Series, BuildRank, String)| {
            assert!(older.0 == newer.0 && older.1 < newer.1, "{older:?} {newer:?}");
        };
        check(at("debian:6.4.3", "", Some("6.4.3")), at("debian:7.2.4", "", Some("7.2.4")));
        let night = |name: &str, rocm: &str| {
            let root = format!("/builds/prefixes/{name}-gfx1151");
            at(&root, &root, Some(rocm))
        };
        // Version 7.15 was followed by 10.0, and later by a 7.15 of a branch: the day decides.
        check(night("10.0.0a20260701", "10.0.0a20260701"), night("7.15.0a20260702", "7.15.0"));
        assert_eq!(night("7.15.0a20260702", "7.15.0").2, "7.15.0a20260702");
        let fixes = night("7.15.0a20260702+bkc.20260704", "7.15.0");
        assert_eq!(fixes.0.builds, "nightly builds with fixes");
        let push = |commit: &str| at("/a/x", "/a/x", Some(&format!("7.15.0.dev0+{commit}")));
        assert_eq!((push("361a3e7").0.builds, push("361a3e7").2), ("/a/x".into(), "/a/x".into()));
        assert_eq!(at("/a/x", "/a/x", None).0.builds, "/a/x");
        assert_eq!(at("system", "/opt", Some("7.2")).2, "system 7.2");
    }

    #[test]
    fn devices_and_options_are_series_of_their_own() {
        let series = |record: &Record| classify(record).0;
        assert_eq!(series(&passed("a/b")).device, "emulated gfx1151");
        assert_eq!(series(&on_gpu(passed("a/b"))).device, "gfx1100 GPU 0000:03:00.0");
        let lazy = series(&with_options(&[("--schedule", "lazy")], passed("a/b")));
        assert_eq!((lazy.device.as_str(), lazy.unusual), ("emulated gfx1151; schedule lazy", true));
    }
}
