use super::*;
use crate::fixture::{failed, on_gpu, passed, plain, skipped, unproven, with_fault};

fn proof(records: &[Vec<Record>]) -> Proof {
    prove(&records.concat(), |_, fault| {
        (fault == Fault::CopyTorn).then(|| "wrong-data:back:torn".to_owned())
    })
}

fn without_location(mut record: Record) -> Record {
    record.outcome.at.line = None;
    record
}

fn idle(mut record: Record) -> Record {
    record.exit = judge::End::Exited(plan::WORKER_DONE);
    record.acts = record.faults.iter().map(|p| device::FaultActivations::new(p.fault)).collect();
    record
}

#[test]
fn expected_failure_may_hide_a_fault() {
    let healthy = |kind| {
        let mut record = failed("copies/a");
        record.verdict.kind = kind;
        vec![record]
    };
    let hidden = || vec![with_fault(Fault::SignalStuck, failed("copies/a"))];
    let zero = |signature: &str| {
        let mut record = with_fault(Fault::CopyZero, failed("copies/a"));
        record.outcome.signature = signature.to_owned();
        vec![record]
    };
    let (caught, same) = ("wrong-data:another:zero", failed("copies/a").outcome.signature);
    let known = proof(&[healthy(VerdictKind::Known), hidden(), zero(caught)]);
    assert_eq!(known.exit_status(), 0);
    assert_eq!(known.rows[0].cells.keys().copied().collect::<Vec<_>>(), [Fault::CopyZero]);
    let text = plain(&matrix(&known));
    let line = "KNOWN copies/a under signal.stuck: 1 trial such as copies/a failed as expected without the fault";
    assert!(text.contains(line) && text.contains("copies/a  healthy  x k\n"), "{text}");
    assert_eq!(proof(&[vec![passed("copies/a")], hidden()]).exit_status(), 1);
    // The same failure as without the fault shows nothing about the fault.
    let same_as_known = proof(&[healthy(VerdictKind::Known), zero(&same)]);
    assert!(same_as_known.rows[0].hidden.contains_key(&Fault::CopyZero));
    let always = proof(&[healthy(VerdictKind::NewsFail), zero(&same)]);
    let text = plain(&matrix(&always));
    let hint = "hint: if copies/a fails on this release because of a bug of ROCm, add its signature under `known`";
    assert!(text.contains(hint), "{text}");
    for other in [healthy(VerdictKind::Known), vec![unproven("copies/a")]] {
        assert!(!plain(&matrix(&proof(&[other, zero(&same)]))).contains("hint:"));
    }
    assert!(text.contains(&format!("copy.zero: {same}, as without the fault")), "{text}");
}

#[test]
fn skipped_trials_are_reported_and_do_not_count() {
    let zero = |record| vec![with_fault(Fault::CopyZero, record)];
    let (ran, caught) = (vec![passed("copies/a[n=1]")], zero(failed("copies/a[n=1]")));
    let (idle, still) = (vec![skipped("copies/a[n=2]")], zero(skipped("copies/a[n=2]")));
    let mixed = proof(&[ran.clone(), caught, idle.clone(), still.clone()]);
    assert_eq!(mixed.exit_status(), 0);
    let text = plain(&matrix(&mixed));
    assert!(text.contains("SKIPPED copies/a: 1 trial not counted"), "{text}");
    // A case of which nothing ran is not proven, and neither is a trial that is skipped only under the fault.
    assert_eq!(proof(&[idle, still]).exit_status(), 3);
    let only_under = zero(skipped("copies/a[n=1]"));
    assert_eq!(proof(&[ran.clone(), only_under]).exit_status(), 3);
    let missed = zero(passed("copies/a[n=1]"));
    assert_eq!(proof(&[ran, missed]).exit_status(), 1);
}

#[test]
fn program_without_checks_shows_a_fault_by_its_end() {
    let red = |signature: &str, checks: &[bool]| {
        let mut record = without_location(with_fault(Fault::CopyZero, failed("programs/a")));
        record.outcome.signature = signature.to_owned();
        record.outcome.kind = Kind::LibraryExit;
        let check = |held: &bool| crate::CheckRun { name: "a".to_owned(), line: 1, held: *held };
        let checks = checks.iter().map(check).collect();
        let program = crate::ProgramRun {
            kind: "cpp".to_owned(),
            runs_on: None,
            environment: None,
            packages: Vec::new(),
            lock: None,
            checks,
        };
        record.program = Some(Box::new(program));
        proof(&[vec![passed("programs/a")], vec![record]]).exit_status()
    };
    for signature in ["exit:1:FAIL", "exception:ValueError", "wrong-data:output:missing"] {
        assert_eq!(red(signature, &[]), 0, "{signature}");
        assert_eq!(red(signature, &[true]), 1, "{signature}");
    }
    assert_eq!(red("crash:hipMemcpy:SIGSEGV", &[]), 1);
}

#[test]
fn guards_count_for_faults_about_guards() {
    let healthy = vec![passed("copies/a")];
    let red = |fault| vec![without_location(with_fault(fault, failed("copies/a")))];
    assert_eq!(proof(&[healthy.clone(), red(Fault::CopyOverrun)]).exit_status(), 0);
    assert_eq!(proof(&[healthy, red(Fault::CopyZero)]).exit_status(), 1);
}

#[test]
fn reports_faults_that_a_gpu_cannot_have() {
    let caught = || on_gpu(with_fault(Fault::GraphLaunchLost, failed("graphs/b")));
    let healthy = || ["graphs/b", "copies/a"].map(|trial| on_gpu(passed(trial)));
    let mut proof = proof(&[healthy().to_vec(), vec![caught()]]);
    let left = [("graphs/b", Fault::CopyZero), ("copies/a", Fault::CopyZero)];
    proof.left_out = left.map(|(case, fault)| (case.to_owned(), fault)).into();
    assert_eq!(proof.exit_status(), 0);
    let text = plain(&matrix(&proof));
    assert!(text.contains("1 of 1 injected fault detected in 2 cases"), "{text}");
    assert!(
        text.contains("2 declared faults below the HIP runtime could not be injected"),
        "{text}"
    );
    assert!(text.contains("1 case could therefore not be proven"), "{text}");
    assert!(text.contains("AMD Radeon RX 7900 XTX") && !text.contains("emulated gfx"), "{text}");
}

#[test]
fn reports_statements_that_no_fault_needs() {
    let mut proof =
        proof(&[vec![passed("graphs/b"), with_fault(Fault::CopyZero, failed("graphs/b"))]]);
    let unnoticed = UnneededStatement {
        case: "graphs/b".to_owned(),
        line: 12,
        statement: "returns of hipFree".to_owned(),
        trial: "graphs/b[x=1]".to_owned(),
    };
    proof.mutation = Some(Mutation { all: 3, unnoticed: Vec::new() });
    assert_eq!(proof.exit_status(), 0);
    proof.mutation = Some(Mutation { all: 3, unnoticed: vec![unnoticed] });
    assert_eq!(proof.exit_status(), 1);
    let text = plain(&matrix(&proof));
    assert!(text.contains("UNNOTICED graphs/b, line 12: returns of hipFree"), "{text}");
    assert!(text.contains("of 3 checks, expected statuses and values"), "{text}");
}

#[test]
fn faults_are_caught_or_missed() {
    let healthy = || vec![passed("copies/a[x=1]"), passed("copies/a[x=2]"), passed("graphs/b")];
    let caught = || {
        vec![
            with_fault(Fault::CopyZero, failed("copies/a[x=1]")),
            with_fault(Fault::CopyZero, failed("copies/a[x=2]")),
            with_fault(Fault::KernelDrop, failed("graphs/b")),
        ]
    };
    let good = proof(&[healthy(), caught()]);
    assert_eq!(good.exit_status(), 0);
    let by = vec!["wrong-data:back:zero".to_owned()];
    assert_eq!(good.rows[0].cells[&Fault::CopyZero], FaultCell::Caught { by });

    let missed = vec![
        // This fault must be detected as a hang, not as wrong data.
        with_fault(Fault::SignalStuck, failed("copies/a[x=1]")),
        // A single trial that misses the fault is enough to fail.
        with_fault(Fault::CopyDrop, failed("copies/a[x=1]")),
        with_fault(Fault::CopyDrop, passed("copies/a[x=2]")),
        // The failure does not match the signature that the case declares.
        with_fault(Fault::CopyTorn, failed("copies/a[x=1]")),
        // A guard of rocrepro failed, but none of the case's checks and expected results did.
        with_fault(Fault::CopyMisplaced, without_location(failed("copies/a[x=1]"))),
        // The fault never acted, so the trial failed for another reason.
        idle(with_fault(Fault::KernelTwice, failed("copies/a[x=1]"))),
    ];
    let unsure = || vec![with_fault(Fault::CopyTorn, unproven("graphs/b"))];
    let bad = proof(&[healthy(), caught(), missed, unsure()]);
    assert_eq!(bad.exit_status(), 1);
    insta::assert_snapshot!(plain(&matrix(&bad)));

    assert_eq!(proof(&[healthy(), caught(), unsure()]).exit_status(), 3);
    assert_eq!(proof(&[caught(), vec![failed("graphs/b")]]).exit_status(), 1);
    assert_eq!(proof(&[healthy()]).exit_status(), 4);
    assert_eq!(proof(&[]).exit_status(), 4);
}

#[test]
fn rejects_trials_that_depend_on_the_schedule() {
    let eager = [passed("copies/a[x=1]"), passed("graphs/b")];
    let lazy = vec![failed("copies/a[x=1]"), passed("graphs/b")];
    let orders = [(Schedule::Lazy, lazy.clone()), (Schedule::Seeded(1), lazy)];
    let found = find_racy_trials(&eager, &orders);
    let trials: Vec<_> = found.iter().map(|r| (r.trial.as_str(), r.schedule)).collect();
    assert_eq!(trials, [("copies/a[x=1]", Schedule::Lazy)]);
    assert!(found[0].other.starts_with("wrong-data:back:zero"), "{}", found[0].other);
    let mut proof = proof(&[eager.to_vec(), vec![with_fault(Fault::CopyZero, failed("graphs/b"))]]);
    assert_eq!(proof.exit_status(), 0);
    proof.racy = found;
    proof.racy[0].watched = Some("memory-fault:k: the two accesses".to_owned());
    assert_eq!(proof.exit_status(), 1);
    let text = plain(&matrix(&proof));
    assert!(text.contains("RACY copies/a[x=1] is rejected"), "{text}");
    assert!(text.contains("--schedule lazy --sanitize: memory-fault:k: the two"), "{text}");
}
