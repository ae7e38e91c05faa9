use device::Fault;

use super::*;
use crate::fixture::{
    changed, failed, known, on_gpu, passed, plain, skipped, unproven, with_digest, with_fault,
    with_options,
};

/// Returns `times` copies of a record, as if they were from the nightly build of a day in July.
fn night(day: u32, times: usize, record: Record) -> Vec<Record> {
    let mut record = record;
    record.stack.root = format!("/builds/7.15.0a202607{day:02}-gfx1151");
    record.stack.spec.clone_from(&record.stack.root);
    record.date = format!("2026-07-{day:02}T01:00:00Z");
    vec![record; times]
}

fn bugs(records: &[Vec<Record>]) -> Vec<Bug> {
    let mut bugs = Bugs::default();
    records.iter().flatten().for_each(|record| bugs.add(record));
    bugs.all()
}

/// Returns the state of the only bug.
#[track_caller]
fn state(records: &[Vec<Record>]) -> BugState {
    let bugs = bugs(records);
    assert_eq!(bugs.len(), 1, "{bugs:?}");
    bugs[0].state
}

fn bad(day: u32, times: usize) -> Vec<Record> {
    night(day, times, failed("a/b"))
}

fn good(day: u32, times: usize) -> Vec<Record> {
    night(day, times, passed("a/b"))
}

/// The expected numbers follow from quantiles of the beta distribution: 30 of 30 failures have the lower bound 88.43 %.
#[test]
fn rarer_bugs_need_more_passes() {
    let all = [(1, 1), (1, 30), (2, 2), (6, 6), (31, 31), (6, 11), (51, 101)];
    let needed = all.map(|(failed, ran)| passes_needed(failed, ran));
    assert_eq!(needed, [None, None, Some(273), Some(11), Some(4), Some(34), Some(14)]);
}

#[test]
fn passes_fix_a_bug_and_a_failure_reopens_it() {
    let mut records = vec![good(1, 5), bad(2, 3), bad(3, 3)];
    assert_eq!(state(&records), BugState::Open);
    // 11 passes show that a bug is fixed that failed in 6 of 6 runs.
    records.push(good(4, 1));
    assert_eq!(state(&records), BugState::Unseen);
    records.push(good(5, 9));
    assert_eq!(state(&records), BugState::Unseen);
    records.push(good(6, 1));
    assert_eq!(state(&records), BugState::Fixed);
    records.push(bad(7, 1));
    assert_eq!(state(&records), BugState::Reopened);
    // A later run of an older build changes nothing about newer ones.
    let mut old = bad(3, 1);
    old[0].date = "2026-07-20T01:00:00Z".to_owned();
    records.pop();
    records.push(old);
    assert_eq!(state(&records), BugState::Fixed);
    let trial = &bugs(&records)[0].series[0].trials[0];
    assert_eq!((trial.failed, trial.ran, trial.passed), (7, 7, 11));
    let name = |day: u32| format!("7.15.0a202607{day:02}");
    assert_eq!((&trial.from, &trial.to), (&name(2), &name(3)));
    assert_eq!((trial.before.clone(), trial.since.clone()), (Some(name(1)), Some(name(4))));
}

#[test]
fn one_pass_does_not_fix_a_flaky_bug() {
    let flaky = |day: u32| [good(day, 7), bad(day, 3)].concat();
    let mut records = vec![flaky(1), flaky(2), flaky(3)];
    records.push(good(4, 30));
    let needed = bugs(&records)[0].series[0].trials[0].needed;
    assert_eq!((state(&records), needed), (BugState::Unseen, passes_needed(9, 30)));
    records.push(good(5, needed.expect("a number") as usize - 30));
    assert_eq!(state(&records), BugState::Fixed);
}

#[test]
fn trouble_faults_and_other_failures_are_no_evidence() {
    let other = |record: Record| vec![bad(1, 30), night(2, 30, record)];
    let fault = with_fault(Fault::CopyZero, passed("a/b"));
    for record in [skipped("a/b"), unproven("a/b"), fault, passed("a/c")] {
        assert_eq!(state(&other(record)), BugState::Open);
    }
    let mut differs = failed("a/b");
    differs.verdict.kind = VerdictKind::Difference;
    for record in [differs, with_fault(Fault::CopyZero, failed("a/b")), skipped("a/b")] {
        assert_eq!(bugs(&[night(1, 3, record)]), []);
    }
    // Another failure is a bug of its own, and hides the first one.
    let both = bugs(&[bad(1, 30), night(2, 30, changed("a/b"))]);
    let states: Vec<_> = both.iter().map(|bug| (bug.signature.as_str(), bug.state)).collect();
    let open = |signature| (signature, BugState::Open);
    assert_eq!(states, [open("hang:hipGraphLaunch"), open("wrong-data:back:zero")]);
}

#[test]
fn devices_options_and_origins_are_kept_apart() {
    let mut release = passed("a/b");
    release.date = "2026-07-02T01:00:00Z".to_owned();
    let options = with_options(&[("--schedule", "lazy")], passed("a/b"));
    for records in [night(2, 99, on_gpu(passed("a/b"))), night(2, 99, options), vec![release; 99]] {
        assert_eq!(state(&[bad(1, 30), records]), BugState::Open);
    }
    // The state of the bug is that of the series that needs attention most.
    let on_both = [bad(1, 30), night(1, 30, on_gpu(failed("a/b"))), good(2, 30)];
    let both = bugs(&on_both);
    let states: Vec<_> = both[0].series.iter().map(|of| (of.series.emulated, of.state)).collect();
    assert_eq!(states, [(true, BugState::Fixed), (false, BugState::Open)]);
    let open = |wanted: &dyn Fn(&Series) -> bool| Bugs::open_trials(&both, wanted).len();
    assert_eq!((open(&|series| series.emulated), open(&|series| !series.emulated)), (0, 1));
}

#[test]
fn options_that_avoid_a_bug_are_shown() {
    let given = |value: &str, record: Record| with_options(&[("--env", value)], record);
    let helps = given("AMD_SERIALIZE_COPY=3", passed("a/b"));
    let fails = [passed("a/b"), failed("a/b")].map(|record| night(1, 1, given("A=1", record)));
    // On night 2 the trial passes without options, so a pass with options shows nothing.
    let idle = given("B=1", passed("a/b"));
    let records = [bad(1, 3), good(2, 3), night(1, 30, helps), fails.concat(), night(2, 30, idle)];
    let all = bugs(&records);
    let usual = all[0].series.iter().find(|of| !of.series.unusual).expect("a series");
    let options = "with AMD_SERIALIZE_COPY=3".to_owned();
    assert_eq!(usual.passes_with, [BugOptions { options, passed: 30 }]);
    let line = "did not fail with AMD_SERIALIZE_COPY=3: 30 runs on builds that fail otherwise, a rate of at \
                most 11.6 %";
    assert!(plain(&all[0].text()).contains(line), "{}", all[0].text());
}

#[test]
fn edited_cases_do_not_fix_bugs() {
    let text = |text: &str, records: Vec<Record>| -> Vec<Record> {
        records.into_iter().map(|record| with_digest(text, record)).collect()
    };
    let mut records = vec![text("old", bad(1, 30)), text("new", good(2, 30))];
    assert_eq!(state(&records), BugState::Edited);
    assert_eq!(bugs(&records)[0].series[0].builds, []);
    // The same failure of the new text is the same bug.
    records.push(text("new", bad(3, 1)));
    assert_eq!(state(&records), BugState::Open);
    let builds = &bugs(&records)[0].series[0].builds;
    assert_eq!(builds.iter().map(|on| on.failed + on.passed).sum::<u32>(), 31);
}

#[test]
fn trials_of_a_case_share_a_bug_and_describe_it() {
    let trial = |day: u32, name: &str| night(day, 30, known(name));
    let records = [trial(1, "a/b[n=1]"), trial(1, "a/b[n=2]"), night(2, 30, passed("a/b[n=1]"))];
    let all = bugs(&records);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].id.as_str(), all[0].state), ("582fcfd4", BugState::Open));
    assert_eq!(all[0].upstream, ["ROCm/rocm-systems#10639"]);
    let list = plain(&Bugs::list(&all));
    assert_eq!(
        list,
        "1 bug: 1 open\n\n\
         582fcfd4 open  a/b: Small pageable host-to-device copies arrive as zeros\n    \
         wrong-data:back:zero, ROCm/rocm-systems#10639\n    \
         nightly builds on emulated gfx1151: open; 30 of 30 runs failed on 7.15.0a20260701, a rate of 88.4 % to \
         100.00 % (95 % interval); not tested on 7.15.0a20260702 (1 trial more)\n"
    );
    let text = plain(&all[0].text());
    for part in [
        "    state      open\n",
        "    issue      https://github.com/ROCm/rocm-systems/issues/10639\n",
        "    program    rocrepro export 'a/b[n=1]'\n",
        "    a/b[n=1]: fixed; 30 of 30 runs failed on 7.15.0a20260701, a rate of 88.4 % to 100.00 % (95 % interval); \
         then 30 runs passed on 7.15.0a20260702 (4 are enough to show a fix)\n",
        "    7.15.0a20260701: 60 of 60 runs failed, 94.0 % to 100.00 %\n",
    ] {
        assert!(text.contains(part), "no {part:?}: {text}");
    }
    let comment = all[0].comment();
    for part in [
        "* `a/b[n=1]` passes since 7.15.0a20260702 (emulated gfx1151, which is not a GPU): 30 of 30 runs failed",
        "* `a/b[n=2]` still fails on 7.15.0a20260701 (emulated gfx1151, which is not a GPU): 30 of 30 runs failed",
    ] {
        assert!(comment.contains(part), "no {part:?}: {comment}");
    }
    // A list of the states before and after more runs has the changes only.
    let after = bugs(&[records.as_slice(), &[night(3, 30, passed("a/b[n=2]"))]].concat());
    let changes = plain(&Bugs::changes(&all, &after));
    assert_eq!(changes, "582fcfd4 a/b: open -> fixed, nightly builds on emulated gfx1151\n");
    assert_eq!(Bugs::changes(&after, &after), "");
}

/// Two cases are one bug if a trial of each runs the same plan and fails in the same way. The chain a, b, c is one bug,
/// although a and c share no plan.
#[test]
fn equal_plans_with_one_signature_are_one_bug() {
    let on = |trial: &str, text: &str, second: u32| {
        let mut record = with_digest(trial, failed(trial));
        if let Some(asked) = &mut record.asked {
            asked.unnamed = text.to_owned();
        }
        record.date = format!("2026-11-20T00:00:{second:02}Z");
        record.upstream = vec![format!("ROCm/x#{second}")];
        record
    };
    let records = [
        on("c/c", "two", 3),
        on("b/b[n=2]", "two", 4),
        on("b/b[n=1]", "one", 2),
        on("a/a", "one", 1),
        on("other/plan", "three", 1),
        on("no/text", "", 1),
        on("no/other-text", "", 1),
    ];
    let cases = |records: &[Record]| -> Vec<(String, String, usize)> {
        let mut cases: Vec<_> = bugs(&[records.to_vec()])
            .into_iter()
            .map(|bug| (bug.case, bug.trial, bug.upstream.len()))
            .collect();
        cases.sort();
        cases
    };
    let one = |case: &str, trial: &str, issues| (case.to_owned(), trial.to_owned(), issues);
    let expected = [
        one("a/a", "b/b[n=2]", 4),
        one("no/other-text", "no/other-text", 1),
        one("no/text", "no/text", 1),
        one("other/plan", "other/plan", 1),
    ];
    assert_eq!(cases(&records), expected);
    let mut reversed = records.clone();
    reversed.reverse();
    assert_eq!(cases(&reversed), expected);
    // Another signature is another bug.
    let mut other = records[3].clone();
    other.outcome.signature = "hang:hipGraphLaunch".to_owned();
    assert_eq!(cases(&[records[3].clone(), other]).len(), 2);
}
