//! Tests that every case of the library is valid in every trial and with every fault.

use std::collections::BTreeSet;

use case::{Case, analyse, forbidden_parts, inject_fault, lower, mistakes};
use device::Fault;
use proptest::prelude::*;

use super::texts::{CASES, KERNELS, root};

/// Parses a case, and provides the content of the file that contains its program.
fn with_file(id: &str, text: &str) -> Case {
    let mut case = Case::parse(id, text).unwrap_or_else(|m| panic!("{id}: {m:#?}"));
    if let Some(name) = case.program_file() {
        let file = root().join("cases").join(id).with_file_name(name);
        case.set_program_text(std::fs::read_to_string(file).ok());
    }
    case
}

#[test]
fn dropped_tree_is_parsed_again() {
    for (id, text) in CASES.iter() {
        let mut case = with_file(id, text);
        let all = |case: &Case| {
            let plans = case.trials().into_iter().map(|trial| analyse(case, &trial, &KERNELS));
            let kind = (case.is_program(), case.program_kind(), case.program_file());
            (plans.collect::<Vec<_>>(), forbidden_parts(case), kind)
        };
        let before = all(&case);
        case.drop_body();
        assert_eq!(all(&case), before, "{id}");
    }
}

#[test]
fn every_fault_applies_to_something_in_its_case() {
    assert!(!CASES.is_empty());
    for (id, text) in CASES.iter() {
        let case = with_file(id, text);
        let mut idle: BTreeSet<_> = case.faults.iter().map(|f| f.planted.to_string()).collect();
        for trial in case.trials() {
            let sound =
                analyse(&case, &trial, &KERNELS).unwrap_or_else(|m| panic!("{id}{trial}: {m:#?}"));
            let declared = case.faults.iter().filter(|f| f.on.matches(&trial));
            let faults = declared.map(|f| Some(f.planted.clone())).chain([None]);
            for fault in faults {
                let mut plan = sound.clone();
                if let Some(fault) = &fault {
                    inject_fault(&mut plan, fault);
                }
                let mut ids: Vec<_> = plan.steps().iter().map(|s| s.id).collect();
                ids.sort_unstable();
                ids.dedup();
                assert_eq!(ids.len(), plan.steps().len(), "{id}{trial}: step ids are unique");
                let Some(fault) = fault else { continue };
                // A fault at a call counts as injected into a program case if the text of the program contains a call
                // of the function.
                let planted = plan.steps().iter().any(|s| !s.planted.is_empty())
                    || case.is_program() && text.contains(&format!("{}(", fault.which("call")));
                let at_calls = fault.fault.place() == device::FaultPlace::Call;
                // The faults below change a status or value only where the case lists accepted ones. A trial may list
                // none.
                let of_answers = [Fault::CallAccepted, Fault::CallDenied, Fault::ValueWrong];
                assert!(
                    planted || !at_calls || of_answers.contains(&fault.fault),
                    "{id}{trial}: {fault} concerns no call"
                );
                if planted || !at_calls {
                    idle.remove(&fault.to_string());
                }
            }
        }
        assert!(idle.is_empty(), "{id}: {idle:?} concern nothing that it does");
    }
}

/// The source of every expectation must be a document, a measurement or a difference between releases. Otherwise the
/// case must declare the expectation as a `difference`.
#[test]
fn every_case_has_sources_of_its_expectations() {
    let mut without = Vec::new();
    for (id, text) in CASES.iter() {
        let case = with_file(id, text);
        let entries = case.expectations();
        for trial in case.trials() {
            if !entries.iter().any(|entry| entry.on.matches(&trial)) {
                without.push(format!("{id}{trial}"));
            }
            // A difference from CUDA or the documents is not a bug, so it may have neither an expected failure nor an
            // upstream issue.
            for entry in case.differences(&trial) {
                let pattern = entry.signature.as_deref().unwrap_or_default();
                let windows = case.known.iter().filter(|known| known.on.matches(&trial));
                for known in windows {
                    assert!(known.signature != pattern, "{id}{trial}: {pattern} is known, too");
                }
                assert!(case.upstream.is_empty(), "{id}: a difference has an issue");
            }
        }
    }
    assert!(without.is_empty(), "no document, measurement or release is named by {without:?}");
    let known_wrong = ["graphs/pageable-copy-after-host-function", "graphs/exec-destroyed-twice"];
    for id in known_wrong {
        let case = with_file(id, &CASES[id]);
        assert!(case.trials().iter().any(|trial| case.differences(trial).next().is_some()), "{id}");
    }
}

/// In a YAML list without quotes, `(a, b)` is split at the comma, and each of the two texts would be accepted as a
/// source.
#[test]
fn sources_have_both_parentheses() {
    for (id, text) in CASES.iter() {
        let case = with_file(id, text);
        for source in &case.source {
            let count = |wanted| source.chars().filter(|found| *found == wanted).count();
            assert_eq!(count('('), count(')'), "{id}: `{source}`");
        }
    }
}

#[test]
fn only_a_quoted_place_of_a_document_is_a_source() {
    let case = |source: &str| {
        let text = format!(
            "title: t\nsource: [{source}]\nsteps:\n  - sync: device\nfaults: [copy.zero]\n"
        );
        Case::parse("a/b", &text).expect("a case").expectations().len()
    };
    assert_eq!(case("HIP runtime API reference (hipMemcpy)"), 1);
    assert_eq!(case("HIP runtime API reference"), 0);
    assert_eq!(case("user report on graph replay (2025-12)"), 0);
    assert_eq!(case("made for this library"), 0);
}

/// Each issue under `upstream` needs a fault that reproduces it, or an expected failure on a release that has the bug.
#[test]
fn every_upstream_issue_has_a_fault_or_a_release_that_shows_it() {
    let mut shown = 0;
    for (id, text) in CASES.iter() {
        let case = Case::parse(id, text).unwrap_or_else(|m| panic!("{id}: {m:#?}"));
        for issue in &case.upstream {
            assert!(!case.shown_by(issue).is_empty(), "{id}: nothing reproduces {issue}");
            shown += 1;
        }
    }
    assert!(shown > 20, "{shown}");
}

#[test]
fn every_expected_failure_has_an_explanation() {
    let mut windows = 0;
    for (id, text) in CASES.iter() {
        let case = Case::parse(id, text).unwrap_or_else(|m| panic!("{id}: {m:#?}"));
        for known in &case.known {
            let reason = known.about.as_ref().or(known.upstream.as_ref());
            assert!(
                reason.is_some(),
                "{id}: neither `about` nor `upstream` of {}",
                known.signature
            );
            windows += 1;
        }
    }
    assert!(windows > 50, "{windows}");
}

#[test]
fn library_follows_the_rules_for_untrusted_cases() {
    for (id, text) in CASES.iter() {
        let case = Case::parse(id, text).unwrap_or_else(|m| panic!("{id}: {m:#?}"));
        // A program can do anything, so a program case is rejected with a single mistake.
        let wrong = usize::from(case.is_program());
        assert_eq!(case::forbidden_parts(&case).len(), wrong, "{id}");
    }
    for (name, source) in KERNELS.iter() {
        assert_eq!(case::forbidden_construct(source), None, "{name}");
    }
}

#[test]
fn every_kernel_has_a_reference_and_every_reference_a_kernel() {
    let files: Vec<_> = KERNELS.keys().cloned().collect();
    let mut references: Vec<_> = plan::KERNELS.iter().map(|k| k.name.to_owned()).collect();
    references.sort();
    assert_eq!(files, references);
}

const PIECES: &[&str] = &[
    "",
    " ",
    "\n",
    "\t",
    ":",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "$",
    "${",
    "'",
    "\"",
    "#",
    "&a",
    "*a",
    "|",
    ">-",
    "0",
    "-1",
    "4294967297",
    "18446744073709551615",
    "64M * 64M",
    "é",
    "\u{0}",
    "copy: ",
    "repeat: ",
    "thread:",
    "when: ",
    "null",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// For any text, reading and lowering return mistakes or a plan, and never panic.
    #[test]
    fn mutated_cases_never_panic(which in any::<prop::sample::Index>(), edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, 0..PIECES.len()), 1..4)) {
        let cases: Vec<_> = CASES.iter().collect();
        let (id, text) = *which.get(&cases);
        let mut chars: Vec<char> = text.chars().collect();
        for (at, cut, piece) in edits {
            let at = at.index(chars.len() + 1);
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, PIECES[piece].chars());
        }
        let text: String = chars.into_iter().collect();
        match Case::parse(id, &text) {
            // Only one trial of the mutated case is lowered, because some cases have long loops and large buffers.
            Ok(case) => {
                if let Some(trial) = case.trials().first() {
                    let _ = lower(&case, trial, &KERNELS, &[]);
                }
            }
            Err(of_header) => {
                let all = mistakes(id, &text, &KERNELS);
                prop_assert!(of_header.iter().all(|m| all.contains(m)), "{of_header:?} {all:?}");
            }
        }
    }
}
