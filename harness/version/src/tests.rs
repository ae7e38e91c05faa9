use std::cmp::Ordering;

use proptest::{option, prelude::*};

use crate::{Spelling, Stage, Version};

fn version(text: &str) -> Version {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Examples from TheRock's docs/packaging/versioning.md, and from the tests of TheRock's scripts
/// (compute_rocm_package_version_test.py). Each channel has three spellings of a version.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "development",
        &[
            "7.10.0.dev0+efed3c3b10a5cce8578f58f8eb288582c26d18c4",
            "7.10.0~20251124gefed3c3",
            "7.10.0~dev20251124",
            "8.1.0~20251201gf689a8ea",
        ],
    ),
    (
        "nightly",
        &[
            "7.10.0a20251124",
            "7.10.0~20251124",
            "8.1.0~20260811.bkc.20260813",
            "7.9.0a20260811+bkc.20260813",
        ],
    ),
    ("candidate", &["7.10.0rc0", "7.10.0~rc0", "7.10.0~pre0", "7.99.0rc2", "7.0.0rc20250625"]),
    ("release", &["7.10.0", "8.1.1", "5.2.3", "7.2", "7", "6.4.3-128"]),
];

#[test]
fn examples_of_therock_have_their_channels() {
    for (channel, texts) in EXAMPLES {
        for text in *texts {
            let read = version(text);
            let got = match read.stage {
                Stage::Development { .. } => "development",
                Stage::Nightly { .. } => "nightly",
                Stage::Candidate(_) => "candidate",
                Stage::Release => "release",
            };
            assert_eq!(got, *channel, "{text}");
            assert_eq!(read.to_string(), *text);
        }
    }
}

#[test]
fn order_equals_that_of_therocks_tests() {
    // The expected order combines test_versions_sort_by_release_type, test_rpm_version_sequence and
    // test_deb_version_sequence of TheRock.
    let sorted: &[&[&str]] = &[
        &["6.4.3", "6.4.3-0"],
        &["6.4.3-128"],
        &["7.10.0.dev0+abcdef1234567890abcdef1234567890abcdef12"],
        &["7.10.0~dev20251201"],
        &["7.10.0~20251201gf689a8ea"],
        &["7.10.0~dev20251202"],
        &["7.10.0a20251124", "7.10.0~20251124"],
        &["7.10.0a20251124+bkc.20251130", "7.10.0~20251124.bkc.20251130"],
        &["7.10.0a20251203", "7.10.0~20251203"],
        &["7.10.0rc1", "7.10.0~rc1", "7.10.0~pre1"],
        &["7.10.0rc2", "7.10.0~rc2", "7.10.0~pre2"],
        &["7.10.0", "7.10"],
        &["7.10.1"],
        &["10.0", "10", "10.0.0"],
    ];
    for (i, same) in sorted.iter().enumerate() {
        for (j, others) in sorted.iter().enumerate() {
            for (a, b) in same.iter().flat_map(|a| others.iter().map(move |b| (a, b))) {
                assert_eq!(version(a).cmp(&version(b)), i.cmp(&j), "{a} and {b}");
            }
        }
    }
}

#[test]
fn rejects_malformed_versions() {
    for text in [
        "",
        "latest",
        "7..2",
        ".7",
        "7.2.",
        "7.2 4",
        "v7.2",
        "+7",
        "07.2",
        "99999999999",
        "7.2.4.1",
        "7.x",
        "7.2.4b1",
        "7.15.0a2026",
        "7.15.0a20261301",
        "7.15.0a20260900",
        "7.10.0rc",
        "7.10.0.dev0",
        "7.10.0.dev1+ab",
        "7.10.0.dev0+xyz",
        "7.10.0~",
        "7.10.0~g12",
        "7.10.0~20251124gxyz",
        "7.10.0~dev",
        "7.10.0+bkc.20260813",
        "7.2.4-",
        "7.2.4-beta",
        "7.2.4+dfsg-1",
        "7.99.0.custom1",
    ] {
        let error = text.parse::<Version>().expect_err(text).to_string();
        assert!(error.contains(&format!("`{text}` is not a version")), "{error}");
    }
}

#[test]
fn reads_the_release_at_the_start_of_a_text() {
    let leading = |text| Version::from_prefix(text).map(|v| v.to_string());
    assert_eq!(leading("7.2.4+dfsg-1~exp1").as_deref(), Some("7.2.4"));
    assert_eq!(leading("6.4.3.60403-128~24.04").as_deref(), Some("6.4.3"));
    assert_eq!(leading("~exp"), None);
}

#[test]
fn reads_the_release_from_a_runtimes_version() {
    let of = |version| Version::from_hip_version(version).map(|v| v.to_string());
    // The arguments are HIP_VERSION of the releases 5.2.3, 6.4.3 and 7.2.4.
    assert_eq!(of(50_221_153).as_deref(), Some("5.2"));
    assert_eq!(of(60_443_484).as_deref(), Some("6.4"));
    assert_eq!(of(70_253_211).as_deref(), Some("7.2"));
    assert_eq!((of(0), of(-1), of(1)), (None, None, None));
    let file = |tail| Version::from_runtime_file_name(tail).map(|v| v.to_string());
    assert_eq!(file("7.2.53211").as_deref(), Some("7.2"));
    assert_eq!(file("7"), None, "the ABI version is not a release");
}

fn any_version() -> impl Strategy<Value = Version> {
    let small = || 0..12u32;
    let day =
        || (2020..2030u32, 1..=12u32, 1..=31u32).prop_map(|(y, m, d)| y * 10_000 + m * 100 + d);
    let commit = || "[0-9a-f]{0,6}[a-f][0-9a-f]{0,6}";
    let spelling = prop_oneof![Just(Spelling::Python), Just(Spelling::Rpm), Just(Spelling::Debian)];
    let stage = (0..4, small(), day(), option::of(day()), commit(), spelling).prop_map(
        |(stage, number, day, fixes, commit, spelling)| match (stage, spelling) {
            (0, Spelling::Python) => {
                (Stage::Development { day: None, commit: Some(commit) }, spelling)
            }
            (0, Spelling::Rpm) => {
                (Stage::Development { day: Some(day), commit: Some(commit) }, spelling)
            }
            (0, Spelling::Debian) => {
                (Stage::Development { day: Some(day), commit: None }, spelling)
            }
            // RPM and Debian spell the versions of nightly builds in the same way.
            (1, Spelling::Debian) => (Stage::Nightly { day, fixes }, Spelling::Rpm),
            (1, _) => (Stage::Nightly { day, fixes }, spelling),
            (2, _) => (Stage::Candidate(number), spelling),
            _ => (Stage::Release, Spelling::Python),
        },
    );
    let numbers = (small(), option::of((small(), option::of(small()))));
    (numbers, stage, option::of(small())).prop_map(
        |((major, rest), (stage, spelling), revision)| {
            let (minor, patch) = (rest.map(|r| r.0), rest.and_then(|r| r.1));
            Version { major, minor, patch, stage, spelling, revision }
        },
    )
}

/// Converts a version to one that a Python package can have. Revisions are dropped, because PEP 440 would interpret
/// them as post-releases.
fn as_python_package(version: Version) -> Version {
    let stage = match version.stage {
        Stage::Development { commit, .. } => {
            Stage::Development { day: None, commit: commit.or(Some("abc".to_owned())) }
        }
        other => other,
    };
    Version { stage, spelling: Spelling::Python, revision: None, ..version }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn versions_survive_printing_and_parsing(version in any_version()) {
        let text = version.to_string();
        let read: Version = text.parse().map_err(|e| TestCaseError::fail(format!("{e}")))?;
        prop_assert_eq!(read.to_string(), text);
        prop_assert_eq!(format!("{read:?}"), format!("{version:?}"));
    }

    #[test]
    fn order_is_total(a in any_version(), b in any_version(), c in any_version()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b) == Ordering::Equal, a == b);
        let mut sorted = [&a, &b, &c];
        sorted.sort();
        prop_assert!(sorted[0] <= sorted[1] && sorted[1] <= sorted[2] && sorted[0] <= sorted[2]);
    }

    #[test]
    fn order_equals_pep_440(a in any_version(), b in any_version()) {
        let (a, b) = (as_python_package(a), as_python_package(b));
        let pep = |version: &Version| version.to_string().parse::<pep440_rs::Version>().unwrap();
        prop_assert_eq!(a.cmp(&b), pep(&a).cmp(&pep(&b)), "{} and {}", a, b);
    }

    #[test]
    fn parsing_never_panics(text in "[0-9a-g.~+rcpdevbk-]{0,24}|\\PC{0,12}") {
        if let Ok(version) = text.parse::<Version>() {
            prop_assert_eq!(version.to_string(), text.clone());
        }
        let _ = Version::from_prefix(&text);
    }
}
