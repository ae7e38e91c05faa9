use plan::{Version, VersionRange};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Kind, Outcome};

/// An expected failure: where a case is known to fail, and with which signature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Known {
    /// Architectures on which the failure is expected, without features, such as `gfx1100`; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gfx: Vec<String>,
    /// Range of ROCm versions in which the failure is expected, for example `>=7.0`.
    #[schemars(with = "String")]
    pub rocm: VersionRange,
    /// Product name of the GPU, or a prefix of it and a final `*`; absent for all, including the emulated device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// Driver of the GPU as it is written in records, for example `amdgpu of Linux 6.14*`; absent for all drivers,
    /// including the emulated device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Signature of the failure, or a prefix of it followed by `*`. If the entry comes from a `--baseline` or
    /// `--flakes` file, the status in its line.
    pub signature: String,
    /// Upstream issue, for example `ROCm/rocm-systems#10639`. If the entry comes from a `--baseline` or `--flakes`
    /// file, `FILE:LINE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Description of the failure as a sentence; absent if the case has none, or if the record is of an earlier version
    /// of rocrepro.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Present if neither a document nor CUDA promises the behaviour that the case expects: the evidence for that. The
    /// failure is then a difference, not a bug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

impl Known {
    /// Returns true if the entry comes from a `--baseline` or `--flakes` file instead of a `known` entry of the case.
    pub fn is_from_file(&self) -> bool {
        ["Fail", "Crash", "Timeout", "Flake"].contains(&self.signature.as_str())
    }

    /// Returns true if the failure is expected in a run with these properties. If the ROCm version of the run is
    /// unknown, only entries for all versions apply.
    pub fn holds(&self, on: &RunProperties<'_>) -> bool {
        let base = on.gfx.split(':').next().unwrap_or(on.gfx);
        let version = match on.rocm {
            Some(version) => self.rocm.contains(version),
            None => self.rocm == VersionRange::ALL,
        };
        let is = |pattern: &Option<String>, name: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| name.is_some_and(|name| fits(pattern, name)))
        };
        version
            && (self.gfx.is_empty() || self.gfx.iter().any(|g| g == base))
            && is(&self.card, on.card)
            && is(&self.driver, on.driver)
    }
}

/// Properties of a run on which expected failures can depend.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunProperties<'a> {
    /// Architecture of the device, possibly with features such as `:xnack+`.
    pub gfx: &'a str,
    /// ROCm version of the stack; `None` if it is unknown.
    pub rocm: Option<&'a Version>,
    /// Product name of the GPU; `None` for the emulated device, or if it is unknown.
    pub card: Option<&'a str>,
    /// Driver of the GPU, for example `amdgpu of Linux 6.14.0`; `None` for the emulated device, or if it is unknown.
    pub driver: Option<&'a str>,
}

/// Beginnings of those signatures to which later versions of rocrepro added parts. Earlier versions wrote, for example,
/// `exception:KeyError`, `crash:copy` and `exit:3`.
const EXTENDED_KINDS: [&str; 3] = ["exception:", "crash:", "exit:"];

/// Returns true if a signature matches a pattern. A pattern from an earlier version of rocrepro may have fewer parts
/// than the signatures of this version.
pub fn signature_fits(pattern: &str, signature: &str) -> bool {
    let fits_old = || {
        EXTENDED_KINDS.iter().any(|family| pattern.starts_with(family))
            && signature.strip_prefix(pattern).is_some_and(|rest| rest.starts_with(':'))
    };
    fits(pattern, signature) || fits_old()
}

/// Returns true if the text equals the pattern, or if the pattern ends with `*` and the text begins with the part
/// before it.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => text == pattern,
    }
}

/// Kinds of verdict on a trial.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The trial passed, and no failure was expected.
    Pass,
    /// The trial failed as expected.
    Known,
    /// The result is not the one that the case expects, but neither a document nor CUDA promises the expected result.
    Difference,
    /// The trial failed, and no failure was expected.
    NewsFail,
    /// The trial failed, but with another signature than expected.
    NewsChanged,
    /// The trial passed, although a failure was expected: the bug may be fixed.
    NewsFixed,
    /// The trial was not run, because the stack lacks something.
    Skip,
    /// The run proves nothing about ROCm.
    NoVerdict,
}

impl VerdictKind {
    /// Every kind of verdict.
    pub const ALL: [VerdictKind; 8] = [
        VerdictKind::Pass,
        VerdictKind::Known,
        VerdictKind::Difference,
        VerdictKind::NewsFail,
        VerdictKind::NewsChanged,
        VerdictKind::NewsFixed,
        VerdictKind::Skip,
        VerdictKind::NoVerdict,
    ];

    /// Returns true if the trial failed as expected.
    pub const fn fails_as_expected(self) -> bool {
        matches!(self, VerdictKind::Known | VerdictKind::Difference)
    }

    /// Returns true if this verdict needs attention: a new failure, a failure other than the expected one, or an
    /// unexpected pass.
    pub const fn is_unexpected(self) -> bool {
        matches!(self, VerdictKind::NewsFail | VerdictKind::NewsChanged | VerdictKind::NewsFixed)
    }
}

/// Meaning of an outcome, given the expected failures of its case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Kind of this verdict.
    pub kind: VerdictKind,
    /// Expected failure from which the verdict follows; absent if no expected failure applies. For a pass, the failure
    /// was expected, but an unusual option of the run may have prevented it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Known>,
}

impl Verdict {
    /// Returns true if this verdict needs attention.
    pub fn is_unexpected(&self) -> bool {
        self.kind.is_unexpected()
    }
}

/// Compares an outcome with the expected failures of its case. `otherwise` is true if the run had unusual options that
/// may prevent a failure, so that a pass does not mean that the failure was fixed.
pub fn verdict(
    outcome: &Outcome,
    known: &[Known],
    on: &RunProperties<'_>,
    otherwise: bool,
) -> Verdict {
    let windows = || known.iter().filter(|k| k.holds(on));
    // A difference is not a bug: a pass is not a fix, and a failure with another signature is a new failure.
    let first = windows().find(|k| k.difference.is_none()).cloned();
    match outcome.kind {
        Kind::Skip => Verdict { kind: VerdictKind::Skip, known: None },
        Kind::NoVerdict => Verdict { kind: VerdictKind::NoVerdict, known: None },
        Kind::Pass => {
            let fixed = first.is_some() && !otherwise;
            let kind = if fixed { VerdictKind::NewsFixed } else { VerdictKind::Pass };
            Verdict { kind, known: first }
        }
        _ => match (windows().find(|k| signature_fits(&k.signature, &outcome.signature)), first) {
            (Some(window), _) => {
                let promised = window.difference.is_none();
                let kind = if promised { VerdictKind::Known } else { VerdictKind::Difference };
                Verdict { kind, known: Some(window.clone()) }
            }
            (None, Some(window)) => Verdict { kind: VerdictKind::NewsChanged, known: Some(window) },
            (None, None) => Verdict { kind: VerdictKind::NewsFail, known: None },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(gfx: &[&str], rocm: &str, signature: &str) -> Known {
        Known {
            gfx: gfx.iter().map(|g| (*g).to_owned()).collect(),
            rocm: rocm.parse().unwrap(),
            card: None,
            driver: None,
            signature: signature.to_owned(),
            upstream: None,
            about: None,
            difference: None,
        }
    }

    #[test]
    fn failure_that_no_document_rules_out_is_a_difference() {
        let difference = Some("CUDA does the same".to_owned());
        let window = super::Known { difference, ..known(&[], "*", "wrong-data:back:stale") };
        let on = RunProperties { gfx: "gfx1151", ..RunProperties::default() };
        let check = |kind, signature: &str, expected| {
            let windows = [window.clone()];
            let got = verdict(&outcome(kind, signature), &windows, &on, false);
            assert_eq!(got.kind, expected, "{signature}");
            assert!(got.is_unexpected() == (expected == VerdictKind::NewsFail));
        };
        check(Kind::WrongData, "wrong-data:back:stale", VerdictKind::Difference);
        check(Kind::WrongData, "wrong-data:back:zero", VerdictKind::NewsFail);
        check(Kind::Pass, "pass", VerdictKind::Pass);
        // If both an expected failure and a difference apply, the expected failure decides.
        let both = [known(&[], "*", "crash:*"), window.clone()];
        let got = verdict(&outcome(Kind::Crash, "crash:hipInit"), &both, &on, false);
        assert_eq!(got.kind, VerdictKind::Known);
        let got = verdict(&outcome(Kind::Pass, "pass"), &both, &on, false);
        assert_eq!(got.kind, VerdictKind::NewsFixed);
    }

    fn outcome(kind: Kind, signature: &str) -> Outcome {
        Outcome::new(kind, signature.to_owned(), String::new())
    }

    #[track_caller]
    fn check(kind: Kind, signature: &str, gfx: &str, rocm: Option<&str>, expected: VerdictKind) {
        let windows = [
            known(&["gfx1100", "gfx1101"], ">=7.0 <7.1", "wrong-data:back:zero"),
            known(&["gfx1100"], ">=7.0 <7.1", "crash:hip*"),
        ];
        let version = rocm.map(|v| v.parse().unwrap());
        let on = RunProperties { gfx, rocm: version.as_ref(), ..RunProperties::default() };
        let got = verdict(&outcome(kind, signature), &windows, &on, false);
        assert_eq!(got.kind, expected, "{signature} on {gfx} with {rocm:?}");
        // Unusual options can explain a pass. They do not excuse a failure.
        let asked = verdict(&outcome(kind, signature), &windows, &on, true);
        let expected = match expected {
            VerdictKind::NewsFixed => VerdictKind::Pass,
            other => other,
        };
        assert_eq!(asked, Verdict { kind: expected, known: got.known });
    }

    #[test]
    fn file_lines_have_a_status_as_signature() {
        let lines = ["Fail", "Crash", "Timeout", "Flake"];
        assert!(lines.iter().all(|status| known(&[], "*", status).is_from_file()));
        assert!(!known(&[], "*", "wrong-data:back:zero").is_from_file());
    }

    #[test]
    fn unexpected_results_are_news() {
        use VerdictKind::*;
        let is_news = |kind: &VerdictKind| Verdict { kind: *kind, known: None }.is_unexpected();
        let news: Vec<_> = VerdictKind::ALL.into_iter().filter(is_news).collect();
        assert_eq!(news, [NewsFail, NewsChanged, NewsFixed]);
    }

    #[test]
    fn expected_failures_decide_the_verdict() {
        use VerdictKind::*;
        let zero = "wrong-data:back:zero";
        check(Kind::Pass, "pass", "gfx90a:xnack-", Some("7.0.1"), Pass);
        check(Kind::Pass, "pass", "gfx1100", Some("7.0.1"), NewsFixed);
        check(Kind::Pass, "pass", "gfx1100", Some("7.1"), Pass);
        check(Kind::Pass, "pass", "gfx1100", None, Pass);
        check(Kind::WrongData, zero, "gfx1101", Some("7.0.1"), Known);
        check(Kind::WrongData, zero, "gfx1101:x+", Some("7.0.1"), Known);
        check(Kind::WrongData, zero, "gfx1101", Some("6.4.3"), NewsFail);
        check(Kind::WrongData, zero, "gfx1151", Some("7.0.1"), NewsFail);
        check(Kind::WrongData, "wrong-data:back:stale", "gfx1101", Some("7.0.1"), NewsChanged);
        check(Kind::Crash, "crash:hipMalloc", "gfx1100", Some("7.0.1"), Known);
        check(Kind::Crash, "crash:hipMalloc", "gfx1101", Some("7.0.1"), NewsChanged);
        check(Kind::Skip, "skip:libhiprand", "gfx1100", Some("7.0.1"), Skip);
        check(Kind::NoVerdict, "no-verdict:device", "gfx1100", Some("7.0.1"), NoVerdict);
    }

    /// An expected failure for one GPU product or driver does not apply to others, or to the emulated device.
    #[test]
    fn card_and_driver_restrict_an_expected_failure() {
        let (card, driver) = ("Radeon 8060S Graphics", "amdgpu of Linux 6.14.0-33-generic");
        let window = |card: Option<&str>, driver: Option<&str>| {
            let [card, driver] = [card, driver].map(|pattern| pattern.map(str::to_owned));
            [super::Known { card, driver, ..known(&["gfx1151"], ">=7.0", "hang:*") }]
        };
        let here = RunProperties {
            gfx: "gfx1151",
            card: Some(card),
            driver: Some(driver),
            ..RunProperties::default()
        };
        let version = "7.2.4".parse().unwrap();
        for (windows, on_card, emulated) in [
            (window(None, None), true, true),
            (window(Some("Radeon 8060S*"), None), true, false),
            (window(Some(card), Some("amdgpu of Linux 6.14*")), true, false),
            (window(Some(card), Some("amdgpu of Linux 6.15*")), false, false),
            (window(Some("Radeon 8060S"), None), false, false),
            (window(None, Some("amdgpu 6.16.6 (of the host)")), false, false),
        ] {
            for (on, expected) in [
                (here, on_card),
                (RunProperties { gfx: "gfx1151", ..RunProperties::default() }, emulated),
            ] {
                let on = RunProperties { rocm: Some(&version), ..on };
                let got = verdict(&outcome(Kind::Hang, "hang:hipMemcpy"), &windows, &on, false);
                let expected = if expected { VerdictKind::Known } else { VerdictKind::NewsFail };
                assert_eq!(got.kind, expected, "{windows:?} {on:?}");
            }
        }
    }

    /// The case library contains `known` entries from versions in which signatures of programs had fewer parts.
    #[test]
    fn earlier_spellings_in_known_entries_still_fit() {
        for (pattern, signature, expected) in [
            ("exception:KeyError", "exception:KeyError:program.py:7:<module>", true),
            ("exception:Key", "exception:KeyError:program.py:7:<module>", false),
            ("crash:launch", "crash:launch:SIGSEGV:program.py:7:f", true),
            ("crash:launch:SIGSEGV", "crash:launch:SIGABRT", false),
            ("exit:3", "exit:3:no-device", true),
            ("exit:3", "exit:30", false),
            ("exit:1", "exception:KeyError:program.py:7:<module>", false),
            ("wrong-data:back", "wrong-data:back:zero", false),
        ] {
            assert_eq!(signature_fits(pattern, signature), expected, "{pattern} {signature}");
        }
    }

    #[test]
    fn entry_for_all_versions_needs_no_version() {
        let all = [known(&[], "*", "crash:*")];
        let on = RunProperties { gfx: "gfx906", ..RunProperties::default() };
        let got = verdict(&outcome(Kind::Crash, "crash:hipInit"), &all, &on, false);
        assert_eq!(got, Verdict { kind: VerdictKind::Known, known: Some(all[0].clone()) });
        assert!(!got.is_unexpected());
    }
}
