//! Finds hints for the user: what a failure may mean if the cause is a mistake of the case or the program. A hint never
//! changes an outcome or a verdict.

mod compiler;
mod source;

use judge::{Kind, Known, Outcome, RunProperties, signature_fits};
use plan::{
    Program,
    program::{ProgramBody, Source},
};

/// Facts about a run from which hints follow.
#[derive(Default)]
pub(crate) struct HintFacts<'a> {
    /// The program that was run; `None` for a trial with calls.
    pub(crate) program: Option<&'a Program>,
    /// Standard error of the run.
    pub(crate) stderr: &'a str,
    /// True if the run could have used the sanitizer, and did not.
    pub(crate) can_sanitize: bool,
}

/// Returns the outcome with hints about it.
pub(crate) fn with_hints(mut outcome: Outcome, facts: &HintFacts<'_>) -> Outcome {
    if !outcome.kind.is_failure() && outcome.kind != Kind::NoVerdict {
        return outcome;
    }
    let of_program = facts.program.map(|program| of_program(&outcome, program, facts.stderr));
    for hint in of_program.unwrap_or_default() {
        outcome.add_hint(&hint);
    }
    let is_beside = outcome.kind == Kind::WrongData && outcome.signature.contains(".guards:");
    if is_beside && facts.can_sanitize {
        outcome.add_hint("`--sanitize` names the kernel that writes out of bounds, if it is a kernel of the case");
    }
    outcome
}

fn of_program(outcome: &Outcome, program: &Program, stderr: &str) -> Vec<String> {
    let text = program.source().map_or("", |source| source.text.as_str());
    match (outcome.kind, &program.what) {
        (Kind::CompileError, ProgramBody::Cpp { source: Source { text, .. }, .. }) => {
            compiler::hints(&outcome.details, text)
        }
        (Kind::LibraryExit, _) if program.reports() => {
            source::missing_end(text).into_iter().collect()
        }
        (Kind::WrongData, ProgramBody::Cpp { .. }) => {
            source::missing_wait(text).into_iter().collect()
        }
        (Kind::MemoryFault, _) => source::host_pointer(&outcome.summary).into_iter().collect(),
        (_, ProgramBody::Python(_)) => source::missing_package(stderr).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns a hint if a failure has the signature of an expected failure that does not apply to this run. `known`
/// contains the expected failures of the case, each with true if it applies to this trial.
pub(crate) fn of_expected_failures(
    known: &[(bool, Known)],
    signature: &str,
    on: &RunProperties<'_>,
) -> Option<String> {
    let (is_of_trial, known) =
        known.iter().find(|(_, known)| signature_fits(&known.signature, signature))?;
    let all = Known { rocm: plan::VersionRange::ALL, card: None, driver: None, ..known.clone() };
    let mut conditions = Vec::new();
    if !on.rocm.is_some_and(|version| known.rocm.contains(version)) {
        conditions.push(format!("`rocm: \"{}\"`", known.rocm));
    }
    if !all.holds(on) {
        conditions.push(format!("`gfx: {}`", known.gfx.join(", ")));
    }
    for (key, wanted, value) in
        [("card", &known.card, on.card), ("driver", &known.driver, on.driver)]
    {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| Some(*wanted) != value) {
            conditions.push(format!("`{key}: {wanted}`"));
        }
    }
    if !is_of_trial {
        conditions.push("other trials (`on`)".to_owned());
    }
    (!conditions.is_empty()).then(|| {
        format!("an entry of `known` has this signature, but is for {}", conditions.join(" and "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(rocm: &str, signature: &str) -> Known {
        Known {
            gfx: Vec::new(),
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
    fn expected_failure_for_another_run_is_named() {
        let version: plan::Version = "7.2.4".parse().unwrap();
        let on = RunProperties { gfx: "gfx1151", rocm: Some(&version), ..RunProperties::default() };
        let check = |of_trial: bool, known: Known, named: Option<&str>| {
            let hint = of_expected_failures(&[(of_trial, known)], "hang:hipFree", &on);
            let named = named
                .map(|named| format!("an entry of `known` has this signature, but is for {named}"));
            assert_eq!(hint, named);
        };
        check(true, known("<7.2.4", "hang:hipFree"), Some("`rocm: \"<7.2.4\"`"));
        check(true, known("<7.2.4", "hang:*"), Some("`rocm: \"<7.2.4\"`"));
        check(true, known("<7.2.4", "hang:hipMalloc"), None);
        check(false, known("*", "hang:hipFree"), Some("other trials (`on`)"));
        let card = Some("AMD Radeon PRO W7900".to_owned());
        let entry = Known { card, ..known("*", "hang:hipFree") };
        check(true, entry, Some("`card: AMD Radeon PRO W7900`"));
        let entry = Known { gfx: vec!["gfx90a".to_owned()], ..known("<7.0", "hang:hipFree") };
        check(true, entry, Some("`rocm: \"<7.0\"` and `gfx: gfx90a`"));
    }

    #[test]
    fn bytes_beside_a_buffer_have_a_hint_unless_sanitized() {
        let outcome = |signature: &str| Outcome {
            kind: Kind::WrongData,
            signature: signature.to_owned(),
            at: judge::Location::default(),
            summary: String::new(),
            details: Vec::new(),
        };
        let check = |signature: &str, can_sanitize: bool, expected: bool| {
            let facts = HintFacts { can_sanitize, ..HintFacts::default() };
            let found = with_hints(outcome(signature), &facts);
            let named = |line: &String| line.starts_with("Hint: `--sanitize` names the kernel");
            assert_eq!(found.details.iter().any(named), expected, "{signature}");
            assert_eq!(found.observed_details().count(), 0);
        };
        check("wrong-data:out.guards:garbage", true, true);
        check("wrong-data:out.guards:garbage", false, false);
        check("wrong-data:out.back:garbage", true, false);
    }
}
