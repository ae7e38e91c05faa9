//! Tests of what issues say about rates, and of the numbers and names to which their sentences refer.

use super::{tests::planted, *};
use crate::evidence::{FactorVerdict, MinimisedProgram, OtherFailure, Rate, Setting};

fn hang(count: u32) -> OtherFailure {
    OtherFailure { signature: "hang:hipMemcpy".to_owned(), count }
}

fn user_program() -> UnexportedProgram {
    UnexportedProgram {
        plainly: Vec::new(),
        packages: Vec::new(),
        again: Vec::new(),
        text_is_whole: true,
        in_case: false,
        helper: None,
        as_printed: None,
    }
}

fn page(findings: &Findings) -> String {
    Issue::new(findings, None).markdown()
}

/// If a kernel of the user's case gives wrong results on every release, its formula in the case is more likely wrong.
#[test]
fn own_kernel_that_fails_on_every_release_makes_a_draft() {
    let on_release = |failed| Control {
        release: Some("ROCm 6.4.3".to_owned()),
        rate: Rate { failed, runs: 5 },
        ..planted().controls[0].clone()
    };
    let similar = Control { release: None, ..on_release(0) };
    let case = || Findings {
        planted: Vec::new(),
        program: None,
        duplicates: Vec::new(),
        known_bugs: Vec::new(),
        is_of_the_user: true,
        launches_own_kernels: true,
        controls: vec![similar.clone(), on_release(5)],
        ..planted()
    };
    let filing = |findings: &Findings| Issue::new(findings, None).filing;
    assert_eq!(case().record.outcome.kind, judge::Kind::WrongData);
    assert_eq!(filing(&case()), Filing::Draft);
    assert!(page(&case()).contains("The case may be wrong: the kernel is defined in the case"));
    let draft = Issue::new(&case(), None);
    let text = summary(std::path::Path::new("out"), &case(), &draft, false);
    assert!(text.contains("`--anyway` writes the issue"), "{text}");
    let of_library = Findings { is_of_the_user: false, ..case() };
    let of_rocm = Findings { launches_own_kernels: false, ..case() };
    let passes = Findings { controls: vec![on_release(5), on_release(0)], ..case() };
    let anyway = Findings { anyway: true, ..case() };
    for findings in [of_library, of_rocm, passes, anyway] {
        assert_eq!(filing(&findings), Filing::New);
    }
}

#[test]
fn runs_that_fail_in_another_way_are_not_passes() {
    let mut findings = planted();
    (findings.rate, findings.others) = (Rate { failed: 2, runs: 5 }, vec![hang(3)]);
    let control = &mut findings.controls[0];
    (control.rate, control.others) = (Rate { failed: 5, runs: 5 }, vec![hang(2)]);
    control.signature = Some("crash:hipFree".to_owned());
    let text = page(&findings);
    let fails = "**Fails** in 5/5 runs, of which 2 failed as described here (95 % interval 5.2 % to 86 %), 3 as \
                 `hang:hipMemcpy`, on ROCm 7.2.4";
    assert!(text.contains(fails), "{text}");
    let row = "| as reported | **5/5** | 2 as `wrong-data:back:zero`, 3 as `hang:hipMemcpy` |";
    assert!(text.contains(row), "{text}");
    let other = "| 5/5 | 3 as another failure: `crash:hipFree`, 2 as `hang:hipMemcpy` |";
    assert!(text.contains(other), "{text}");
}

#[test]
fn changes_of_the_failure_are_counted_as_failures() {
    let mut findings = planted();
    let found = findings.mitigations.as_mut().expect("settings");
    found.factors.retain(|factor| matches!(factor.verdict, FactorVerdict::ChangedSignature { .. }));
    let text = page(&findings);
    for part in [
        "**What helps:** none of 1 change that were tried; with calls: pin the host buffer 7 of 7 runs fail in another \
         way: `hang:hipMemcpy`",
        "* **Fails in another way:** calls: pin the host buffer (7 of 7 runs fail in another way: `hang:hipMemcpy`)",
        "| calls: pin the host buffer | 7/7 | 7/10, 5 of them as described | 7 of 7 runs fail in another way: \
         `hang:hipMemcpy` |",
        "fails in 7/10 runs without any change, of which 5 failed as described here (95 % interval 18 % to 82 %), 2 as \
         `hang:hipMemcpy`",
    ] {
        assert!(text.contains(part), "{part}\n\n{text}");
    }
    assert!(!text.contains("0/7"), "{text}");
}

/// Only those packages are listed whose libraries the failing process reported.
#[test]
fn notice_names_the_packages_that_are_listed() {
    let text = page(&planted());
    assert!(
        text.contains("those of Debian's packages, with Debian's patches (versions below)."),
        "{text}"
    );
    assert!(
        text.contains("Debian packages, with Debian's patches: libamdhip64-7 7.2.4-1."),
        "{text}"
    );
}

/// The number of lines of the shorter program is the number before the import of rocrepro's helper was replaced by the
/// functions of the helper.
#[test]
fn printed_helper_is_not_counted_as_part_of_the_shorter_program() {
    let mut findings = planted();
    findings.shortened = Some(MinimisedProgram {
        trial: String::new(),
        digest: String::new(),
        signature: String::new(),
        on: Setting::from_record(&findings.record),
        file: String::new(),
        lines_before: 71,
        lines: 2,
        tries: 1,
        rate: Rate { failed: 3, runs: 3 },
        complete: true,
        passes: Some("on debian:6.4.3".to_owned()),
        reducer: None,
        without_checks: None,
    });
    let own = user_program();
    let program = findings.program.as_mut().expect("a program");
    let said = |findings: &Findings| super::program::steps(findings, "a.py", &own);
    program.text = "a\nb\n".to_owned();
    let text = said(&findings);
    assert!(text.contains("from 71 lines to 2:") && !text.contains("printed text"), "{text}");
    findings.program.as_mut().expect("a program").text.push_str("c\n");
    let text = said(&findings);
    assert!(text.contains("The printed text has 1 line more, "), "{text}");
}

#[test]
fn expectation_of_a_known_failure_names_its_last_call() {
    let mut findings = planted();
    findings.program.as_mut().expect("a program").own = Some(user_program());
    let expected = super::write::expected(&findings);
    let last = "`hipStreamEndCapture` does not return `hipErrorStreamCaptureInvalidated` there.";
    assert!(expected.ends_with(last), "{expected}");
    findings.known_bugs[0].calls.clear();
    let expected = super::write::expected(&findings);
    assert!(!expected.contains("does not return"), "{expected}");
}
