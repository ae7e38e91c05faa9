//! Explains why the HIP runtime finds no device: a variable hides it, or the release does not know its architecture.

use std::{
    collections::BTreeMap,
    io::BufRead,
    path::{Path, PathBuf},
};

use device::Arch;
use judge::{Kind, Outcome};
use parking_lot::Mutex;
use plan::Phase;

use crate::Session;

/// Signature of a trial whose HIP runtime finds no device.
const SIGNATURE: &str = "no-verdict:no-device";

/// Environment variables that restrict the devices of a process.
const HIDING_VARIABLES: [&str; 3] =
    ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Returns the outcome of a trial on the emulated device, or a "no verdict" outcome if the case or the release explains
/// why the HIP runtime finds no device. A runtime that does not know the architecture may also crash. `of_case` are the
/// environment variables of the case.
pub(crate) fn explain_missing_device(
    session: &Session,
    of_case: &BTreeMap<String, String>,
    outcome: Outcome,
) -> Outcome {
    let Some(gfx) = session.gfx() else { return outcome };
    let is_missing = reports_no_device(&outcome);
    if !is_missing && !may_lack_a_device(&outcome) {
        return outcome;
    }
    let of_release = || {
        let hip = session.stack.library("libamdhip64.so")?;
        let release =
            session.rocm.as_ref().map_or(session.stack.spec.clone(), |v| format!("ROCm {v}"));
        unknown_architecture(&release, gfx, &known_architectures(&hip))
    };
    let hidden = || {
        let given = session.variables().map(|(name, value)| (name.clone(), value.clone()));
        is_missing.then(|| hiding_variable(of_case, &given.collect())).flatten()
    };
    match of_release().or_else(hidden) {
        Some(why) if outcome.kind.is_failure() => outcome.attribute_to(SIGNATURE, why),
        Some(why) => Outcome { summary: why, ..outcome },
        None => outcome,
    }
}

/// Returns true if the HIP runtime reported before the body of a trial that it has no device.
fn reports_no_device(outcome: &Outcome) -> bool {
    let refused = ["hipErrorNoDevice", "hipErrorInvalidDevice"];
    outcome.signature == SIGNATURE
        || outcome.signature == judge::NOT_STARTED
            && refused.iter().any(|status| outcome.summary.contains(status))
        || outcome.kind == Kind::ApiError
            && outcome.at.phase == Some(Phase::Init)
            && refused.iter().any(|status| outcome.signature.ends_with(status))
}

/// Returns true for a failure that is possible without a device. A trial with calls then ends before its set-up.
fn may_lack_a_device(outcome: &Outcome) -> bool {
    let kinds = [Kind::ApiError, Kind::CompileError, Kind::Crash, Kind::Hang, Kind::LibraryExit];
    let is_early = outcome
        .at
        .phase
        .is_none_or(|phase| [Phase::Start, Phase::Load, Phase::Init].contains(&phase));
    kinds.contains(&outcome.kind) && is_early
}

/// Returns the reason if a variable of the case or of the command line may hide the only device.
fn hiding_variable(
    of_case: &BTreeMap<String, String>,
    given: &BTreeMap<String, String>,
) -> Option<String> {
    let variable = |name: &&str| {
        let of_case = of_case.get(*name).map(|value| ("the case", value));
        let given = given.get(*name).map(|value| ("`--env`", value));
        let (who, value) = of_case.or(given).filter(|(_, value)| value.trim() != "0")?;
        Some(format!("{who} sets {name}={value}, and with it the HIP runtime finds no device"))
    };
    HIDING_VARIABLES.iter().find_map(variable)
}

/// Returns the reason if a release does not know an architecture.
fn unknown_architecture(release: &str, gfx: &str, known: &[Arch]) -> Option<String> {
    let names: Vec<&str> = known.iter().map(|arch| arch.name()).collect();
    let is_unknown = !names.is_empty() && !names.contains(&gfx);
    is_unknown.then(|| {
        format!(
            "the HIP runtime of {release} does not know {gfx}; choose with `--gfx` one that it knows: {}",
            names.join(", ")
        )
    })
}

/// Returns those architectures of the emulated device whose names a HIP runtime contains. The runtime has a table of
/// the architectures that it supports: `Isa::supportedIsas` in rocclr/device/device.cpp of ROCm/clr.
fn known_architectures(hip: &Path) -> Vec<Arch> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Vec<Arch>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock();
    let read = || names_in(&std::fs::read(hip).unwrap_or_default());
    known.entry(hip.to_owned()).or_insert_with(read).clone()
}

fn names_in(bytes: &[u8]) -> Vec<Arch> {
    let mut found = vec![false; Arch::ALL.len()];
    // Reading up to a byte is fast also in a build without optimisation.
    for part in BufRead::split(bytes, b'g').map_while(Result::ok).skip(1) {
        let Some(number) = part.strip_prefix(b"fx") else { continue };
        let length = number.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let is_here = |arch: &Arch| arch.name().as_bytes()[3..] == number[..length];
        if let Some(at) = Arch::ALL.iter().position(is_here) {
            found[at] = true;
        }
    }
    Arch::ALL.iter().zip(found).filter(|(_, found)| *found).map(|(arch, _)| *arch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn variable_that_hides_the_device_is_named_with_its_origin() {
        let none = variables(&[]);
        for name in HIDING_VARIABLES {
            let set = variables(&[("PATH", "/bin"), (name, "1")]);
            let why = format!("sets {name}=1, and with it the HIP runtime finds no device");
            assert_eq!(hiding_variable(&set, &none), Some(format!("the case {why}")));
            assert_eq!(hiding_variable(&none, &set), Some(format!("`--env` {why}")));
        }
        assert_eq!(hiding_variable(&variables(&[("HIP_VISIBLE_DEVICES", "0")]), &none), None);
    }

    #[test]
    fn release_that_does_not_know_the_architecture_is_named_with_those_that_it_knows() {
        let known = names_in(b"..\0gfx90a\0gfx1030:xnack+\0gfx1151d\0gfx9\0amdhsa--gfx906");
        assert_eq!(known, [Arch::Gfx906, Arch::Gfx90a, Arch::Gfx1030]);
        let why = "the HIP runtime of ROCm 5.2.3 does not know gfx1151; choose with `--gfx` one that it knows: \
                   gfx906, gfx90a, gfx1030";
        assert_eq!(unknown_architecture("ROCm 5.2.3", "gfx1151", &known).as_deref(), Some(why));
        assert_eq!(unknown_architecture("ROCm 5.2.3", "gfx90a", &known), None);
        assert_eq!(unknown_architecture("a library without a table", "gfx1151", &[]), None);
    }

    #[test]
    fn only_a_missing_device_is_explained() {
        let outcome = |kind, signature: &str, phase| Outcome {
            kind,
            signature: signature.to_owned(),
            at: judge::Location { phase: Some(phase), ..judge::Location::default() },
            summary: String::new(),
            details: Vec::new(),
        };
        let check = |kind, signature: &str, phase, expected: bool| {
            let found = reports_no_device(&outcome(kind, signature, phase));
            assert_eq!(found, expected, "{signature}");
        };
        check(Kind::NoVerdict, "no-verdict:no-device", Phase::Init, true);
        check(Kind::NoVerdict, "no-verdict:device", Phase::Init, false);
        check(Kind::ApiError, "api-error:hipInit:hipErrorNoDevice", Phase::Init, true);
        check(Kind::ApiError, "api-error:hipSetDevice:hipErrorInvalidDevice", Phase::Body, false);
        check(Kind::ApiError, "api-error:hipInit:hipErrorOutOfMemory", Phase::Init, false);
        let mut start = outcome(Kind::NoVerdict, judge::NOT_STARTED, Phase::Init);
        assert!(!reports_no_device(&start));
        start.summary = "hipInit returned hipErrorNoDevice".to_owned();
        assert!(reports_no_device(&start));
        assert!(may_lack_a_device(&outcome(Kind::Crash, "crash:init", Phase::Init)));
        assert!(!may_lack_a_device(&outcome(Kind::Crash, "crash:hipMemcpy", Phase::Body)));
        assert!(!may_lack_a_device(&outcome(Kind::WrongData, "wrong-data:a:zero", Phase::Init)));
    }
}
