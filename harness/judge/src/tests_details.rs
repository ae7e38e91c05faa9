//! Tests of the locations, explanations and texts in outcomes.

use plan::{BufferAddress, Call, Dtype, Event, MatmulProblem, Operands, Phase, Plan, Step};

use crate::{
    End, Kind, Limit, Location, RocmEvidence,
    fixture::{HEAD, Run, at, check as read, copy, fill, plan, step},
    is_stated,
    tests::{QUIET, check, healthy},
};

fn inside(id: u32) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::End { step, .. } if *step == id)
}

fn place(buffer: &str, offset: u64) -> BufferAddress {
    BufferAddress { offset, ..at(buffer) }
}

fn explained(plan: Plan, id: u32, change: impl FnOnce(&mut Vec<u8>)) -> (String, Vec<String>) {
    let outcome = Run::healthy(plan).read(id, 0, change).judge();
    assert_eq!(outcome.kind, Kind::WrongData, "{outcome:#?}");
    (outcome.summary, outcome.details)
}

fn zeroed(plan: Plan, id: u32) -> String {
    explained(plan, id, |bytes| bytes.fill(0)).0
}

#[test]
fn right_bytes_are_named_after_the_call_that_wrote_them() {
    let made = |calls: Vec<Step>, id: u32, what: &str| {
        let body = calls.into_iter().chain([copy(90, 8, "back", "dst", 64), read(91, 9, "back")]);
        let summary = zeroed(plan(64, body.collect(), vec![]), 91);
        assert!(summary.contains(&format!("expected {what}")), "{id}: {summary}");
    };
    let set = |words: bool| {
        step(
            1,
            3,
            Call::Set {
                to: at("dst"),
                value: 0x0102_03ff,
                words,
                bytes: 64,
                asynchronous: false,
                stream: "default".to_owned(),
            },
        )
    };
    made(vec![set(true)], 1, "the words 0x010203ff set at line 3 (dst)");
    let mut bytes = set(false);
    if let Call::Set { value, .. } = &mut bytes.call {
        *value = 0xff;
    }
    made(vec![bytes], 2, "the 0xff bytes set at line 3 (dst)");
    let numbers = Call::FillNumbers { buffer: "src".to_owned(), dtype: Dtype::F32, stamp: 1 };
    let numbers = step(1, 4, numbers);
    let through = copy(2, 5, "dst", "src", 64);
    made(vec![numbers, through], 3, "the numbers written at line 4 (fill of src)");
    // Each half of the buffer comes from another fill, so no single fill wrote all the bytes.
    let half = |id, line, from: &str, offset| {
        let call = Call::Copy {
            to: place("dst", offset),
            from: at(from),
            bytes: 32,
            api: plan::CopyApi::Memcpy,
            stream: "default".to_owned(),
        };
        step(id, line, call)
    };
    let halves =
        vec![fill(1, 2, "src"), fill(2, 3, "aux"), half(3, 4, "src", 0), half(4, 5, "aux", 32)];
    made(halves, 4, "the copy made at line 5 (to dst)");
    let problem = MatmulProblem {
        dtype: Dtype::I8,
        m: 4,
        n: 4,
        k: 4,
        transpose_a: false,
        transpose_b: false,
        bias: false,
    };
    let [a, b, d] = ["src", "aux", "dst"].map(str::to_owned);
    let product = vec![
        step(1, 2, Call::RocblasCreate { handle: "h".to_owned() }),
        fill(2, 3, "src"),
        fill(3, 4, "aux"),
        step(
            4,
            6,
            Call::RocblasGemm {
                handle: "h".to_owned(),
                problem,
                operands: Operands { a, b, d, bias: None },
                stream: "default".to_owned(),
            },
        ),
    ];
    made(product, 5, "the product made at line 6 (in dst)");
}

#[test]
fn likeliest_version_is_named() {
    let got = |id: u32| {
        let mut bytes = vec![0; 64];
        plan::pattern(plan::fill_stamp(id, 0), &mut bytes);
        bytes
    };
    // An earlier version of the same buffer is more likely than equal bytes in another buffer.
    let body = vec![
        fill(1, 2, "src"),
        copy(2, 3, "back", "src", 64),
        copy(3, 4, "dst", "src", 64),
        fill(4, 5, "src"),
        copy(5, 6, "dst", "src", 64),
        copy(6, 7, "back", "dst", 64),
        read(7, 8, "back"),
    ];
    let (summary, _) = explained(plan(64, body, vec![]), 7, |bytes| *bytes = got(1));
    assert!(summary.contains("an earlier content of `back`"), "{summary}");
    // Later content of an unrelated buffer is not a later version of the data. If a call runs only once, the text names
    // no iteration.
    let around = |count: u32| {
        let looped = vec![fill(3, 4, "src"), copy(4, 5, "back", "src", 64)];
        let body = vec![
            fill(1, 2, "aux"),
            step(2, 3, Call::Repeat { count, body: looped }),
            read(5, 6, "back"),
            fill(6, 7, "aux"),
            read(7, 8, "aux"),
        ];
        plan(64, body, vec![])
    };
    let (summary, _) = explained(around(2), 5, |bytes| *bytes = got(6));
    let text = "the bytes of `aux`, the pattern written at line 7 (fill of aux); expected the pattern written at line \
                4 (fill of src, iteration 2)";
    assert!(summary.contains(text), "{summary}");
    let (summary, _) = explained(around(2), 5, |bytes| *bytes = got(1));
    assert!(summary.contains("the pattern written at line 2 (fill of aux);"), "{summary}");
}

#[test]
fn ranges_from_several_writes_are_listed() {
    let body = vec![fill(1, 3, "back"), fill(2, 4, "back"), fill(3, 5, "back"), read(4, 6, "back")];
    let old = |id: u32| {
        let mut bytes = vec![0; 320];
        plan::pattern(plan::fill_stamp(id, 0), &mut bytes);
        bytes
    };
    let (first, second) = (old(1), old(2));
    let (summary, details) = explained(plan(320, body.clone(), vec![]), 4, |bytes| {
        bytes[..16].copy_from_slice(&first[..16]);
        bytes[64..80].copy_from_slice(&second[64..80]);
    });
    assert!(summary.contains("from several writes"), "{summary}");
    assert!(details[0].starts_with("Bytes 0..15: an earlier content"), "{details:?}");
    assert!(details[0].contains("line 3") && details[1].contains("line 4"), "{details:?}");
    assert!(!details.iter().any(|line| line.contains("ranges")), "{details:?}");
    // At most eight ranges are listed, and the remaining ones are counted.
    let of_both = |count: usize| {
        explained(plan(320, body.clone(), vec![]), 4, |bytes| {
            for n in 0..count {
                let from = if n % 2 == 0 { &first } else { &second };
                bytes[32 * n..32 * n + 8].copy_from_slice(&from[32 * n..32 * n + 8]);
            }
        })
    };
    assert!(!of_both(8).1.iter().any(|line| line.contains("ranges")));
    let (_, details) = of_both(10);
    assert_eq!(details[8], "... and 2 more ranges", "{details:?}");
    assert_eq!(details.iter().filter(|line| line.starts_with("Bytes ")).count(), 8);
}

#[test]
fn unexplained_bytes_have_no_ranges() {
    let body = vec![fill(1, 3, "back"), read(2, 4, "back")];
    let (summary, details) = explained(plan(64, body, vec![]), 2, |bytes| {
        (0..64).for_each(|n| bytes[n] = 0x80 | n as u8);
    });
    assert!(
        summary.contains("bytes that are not those of any one write of this trial"),
        "{summary}"
    );
    assert!(details.iter().all(|line| line.contains(" at 0x")), "{details:?}");
    assert_eq!(details.len(), 2);
}

#[test]
fn differences_are_shown_with_their_bytes() {
    let (a, b) = ("src".to_owned(), "back".to_owned());
    let mut run = Run::healthy(plan(64, vec![step(5, 8, Call::Equal { a, b })], vec![]));
    let mut n = 0;
    for event in &mut run.seen.events {
        if let Event::Data { digest, file, .. } = event {
            n += 1;
            (*digest, *file) = (format!("{n}"), Some(format!("{n}")));
            run.files.insert(format!("{n}"), vec![n; 16]);
        }
    }
    let bytes = |name: &str, byte: &str| format!("{name:>4} at 0x0000:{}", byte.repeat(16));
    assert_eq!(run.judge().details, [bytes("src", " 01"), bytes("back", " 02")]);
}

#[test]
fn outcomes_have_the_known_parts_of_their_location() {
    let segfault = || End::Signalled { signal: 11 };
    let begins = |event: &Event| matches!(event, Event::Begin { step: 2, .. });
    let between = healthy().cut(begins, segfault()).judge();
    assert_eq!(between.at, Location { phase: Some(Phase::Body), ..Location::default() });
    // A step that lowering added has no line.
    let set_up = healthy().cut(inside(100), segfault()).judge();
    assert_eq!((set_up.at.phase, set_up.at.line), (Some(Phase::Setup), None));
    let after = healthy().with(|run| run.seen.end = QUIET).judge();
    assert_eq!(after.at, Location { phase: Some(Phase::Teardown), ..Location::default() });
    let missing = healthy().with(|run| {
        run.evidence = RocmEvidence::AnotherStack;
        run.seen.events.truncate(1);
        let (what, why) = ("libhiprand".to_owned(), String::new());
        run.seen.events.push(Event::Missing { what, why, there: true });
    });
    let at = missing.judge().at;
    assert_eq!((at.api.as_deref(), at.phase), (Some("dlopen"), Some(Phase::Load)));
    let refused = healthy().with(|run| {
        run.evidence = RocmEvidence::ThisStack;
        run.seen.events.truncate(HEAD - 1);
        if let Some(Event::Device { refused, count, .. }) = run.seen.events.last_mut() {
            let (api, status) = ("hipInit".to_owned(), "hipErrorUnknown".to_owned());
            (*refused, *count) = (Some(plan::RefusedCall { api, status }), 0);
        }
    });
    let at = refused.judge().at;
    assert_eq!((at.api.as_deref(), at.phase), (Some("hipInit"), Some(Phase::Init)));
}

#[test]
fn last_line_on_standard_error_is_shown() {
    let last = "Last line on standard error: it is over";
    let silent = healthy().cut(inside(3), QUIET).stderr("first\nit is over\n\n");
    check(
        &silent,
        Kind::Hang,
        "hang:hipMemcpy",
        "killed after making no progress (0.0 s in total)",
    );
    assert_eq!(silent.judge().details, [last]);
    let limit = End::TimedOut { limit: Limit::Total };
    let long = healthy().cut(inside(3), limit);
    check(&long, Kind::Hang, "hang:hipMemcpy", "killed at the time limit (0.0 s)");
    assert_eq!(long.judge().details, Vec::<String>::new());
    // The worker reported too little for a verdict.
    let nothing = healthy().stderr("it is over\n").with(|run| {
        run.seen.events.clear();
        run.seen.noise = vec![String::new(), "srun: no such partition\n".to_owned()];
    });
    let noise = "Line on the pipe of the worker that is not an event: srun: no such partition";
    assert_eq!(nothing.judge().details, [last, noise]);
}

#[test]
fn worker_without_bye_event_ended_badly() {
    let bye = |run: &mut Run| run.seen.events.retain(|event| *event != Event::Bye);
    let kind = Kind::TeardownCrash;
    check(&healthy().with(bye), kind, "teardown-crash", "after the teardown: exit status 85");
}

#[test]
fn crash_does_not_replace_no_verdict() {
    let stopped = |run: &mut Run| run.seen.events.insert(HEAD, Event::Stopped { step: 2 });
    let crashed = healthy().cut(inside(2), End::Signalled { signal: 11 }).with(stopped);
    check(&crashed, Kind::NoVerdict, "no-verdict:worker", "stopped at hipMemcpy");
    assert_eq!(crashed.judge().details, Vec::<String>::new());
}

#[test]
fn worker_that_died_need_not_report_its_delays() {
    let late = |run: &mut Run| run.late = true;
    let said = "did not report how many delays";
    check(&healthy().with(late), Kind::NoVerdict, "no-verdict:worker", said);
    let crash = healthy().cut(inside(2), End::Signalled { signal: 11 }).with(late);
    check(&crash, Kind::Crash, "crash:hipMemcpy", "");
}

#[test]
fn missing_library_must_be_reported_first() {
    let missing = || {
        let (what, why) = ("libhiprand".to_owned(), "not found".to_owned());
        Event::Missing { what, why, there: false }
    };
    let no = |run: Run| check(&run, Kind::NoVerdict, "no-verdict:worker", "missing, but continued");
    // The worker has loaded all libraries, and then reports that one of them is missing.
    no(healthy().with(|run| {
        run.seen.events.truncate(5);
        run.seen.events.push(missing());
    }));
    no(healthy().with(|run| {
        run.seen.events.truncate(1);
        run.seen.events.extend([missing(), Event::Phase { phase: Phase::Load }]);
    }));
}

#[test]
fn architecture_features_count_only_on_request() {
    let on = |gfx: &str, wanted: &'static str| {
        healthy().with(|run| {
            run.gfx = wanted;
            for event in &mut run.seen.events {
                if let Event::Device { gfx: found, .. } = event {
                    gfx.clone_into(found);
                }
            }
        })
    };
    check(&on("gfx90a:xnack-", "gfx90a"), Kind::Pass, "pass", "");
    check(&on("gfx90a:xnack-", "gfx90a:xnack-"), Kind::Pass, "pass", "");
    let other = on("gfx90a:xnack-", "gfx90a:xnack+");
    check(
        &other,
        Kind::NoVerdict,
        "no-verdict:device",
        "is a gfx90a:xnack-, but the trial needs gfx90a:xnack+",
    );
}

#[test]
fn fault_that_a_call_reported_is_only_a_remark() {
    let expects_refusal = || {
        let mut step = step(1, 9, Call::DeviceSynchronize);
        let names = vec!["hipErrorUnknown".to_owned()];
        step.returns = Some(plan::ByVersion::always(names));
        Run::healthy(plan(64, vec![step], vec![])).returned(1, 999, "hipErrorUnknown", None)
    };
    let fault = "rocrepro-device: fault: kernel k: page fault\n";
    let outcome = expects_refusal().stderr(fault).judge();
    assert_eq!(outcome.kind, Kind::Pass);
    assert_eq!(outcome.details, ["The device also reported a fault: kernel k: page fault"]);
    let queue = "Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_X";
    check(&expects_refusal().stderr(queue), Kind::Pass, "pass", "");
    let wrong = healthy().read(4, 0, |got| got.fill(0)).stderr(queue);
    check(&wrong, Kind::WrongData, "wrong-data:back:zero", "");
    check(&healthy().stderr(queue), Kind::ApiError, "api-error:queue:aborted", "");
}

#[test]
fn case_detects_what_contradicts_its_statements() {
    use device::Fault;
    let zero = |id: u32| healthy().read(id, 0, |got| got.fill(0)).judge();
    let mut stated = zero(4);
    assert!(is_stated(Fault::CopyZero, &stated));
    // The harness adds the guards, so a failed check of guards counts only for a fault that writes outside of a buffer.
    stated.at.line = None;
    assert!(!is_stated(Fault::CopyZero, &stated));
    assert!(is_stated(Fault::CopyOverrun, &stated));
    let crash = healthy().cut(inside(2), End::Signalled { signal: 11 }).judge();
    assert!(is_stated(Fault::CopyZero, &crash));
    assert!(!is_stated(Fault::CopyZero, &healthy().judge()));
}

#[test]
fn pass_skip_and_no_verdict_are_not_failures() {
    let good = Kind::ALL.into_iter().filter(|kind| !kind.is_failure());
    assert_eq!(good.collect::<Vec<_>>(), [Kind::Pass, Kind::Skip, Kind::NoVerdict]);
    assert_eq!(Kind::WrongData.to_string(), "wrong-data");
}

#[test]
fn each_deviating_step_is_listed_once() {
    let run = healthy().read(4, 0, |got| got.fill(0)).read(4, 2, |got| got.fill(0)).returned(
        3,
        1,
        "hipErrorInvalidValue",
        None,
    );
    let steps: Vec<_> = run.judge_everywhere().1.iter().map(|at| at.step).collect();
    assert_eq!(steps, [Some(3), Some(4)]);
}

#[test]
fn status_belongs_to_the_function_that_returned_it() {
    let mut run = healthy().returned(2, 1, "hipErrorInvalidValue", None);
    for event in &mut run.seen.events {
        if let Event::End { step: 2, function, .. } = event {
            *function = Some("hipMemcpyDtoD".to_owned());
        }
    }
    let outcome = run.judge();
    assert_eq!(outcome.signature, "api-error:hipMemcpyDtoD:hipErrorInvalidValue");
    assert_eq!(outcome.at.api.as_deref(), Some("hipMemcpyDtoD"));
}

#[test]
fn free_memory_is_compared_on_request() {
    let run =
        |wanted: &str, after: &str| {
            let mut last = step(2, 9, Call::MemGetInfo);
            last.gives = Some(plan::ByVersion::always(vec![wanted.to_owned()]));
            let body = vec![step(1, 7, Call::MemGetInfo), last];
            Run::healthy(plan(64, body, vec![]))
                .returned(1, 0, "hipSuccess", Some("4096"))
                .returned(2, 0, "hipSuccess", Some(after))
        };
    let leak = "leak:hipMemGetInfo";
    check(&run("unchanged", "4032"), Kind::Leak, leak, "64 bytes of device memory were not given");
    check(&run("unchanged", "4160"), Kind::Leak, leak, "64 bytes of device memory are free that");
    check(&run("unchanged", "4096"), Kind::Pass, "pass", "");
    // The value `any` accepts that less memory is free.
    check(&run("any", "4032"), Kind::Pass, "pass", "");
}

#[test]
fn worker_is_done_only_once() {
    let again = healthy().with(|run| {
        let at =
            run.seen.events.iter().position(|event| *event == Event::Done).expect("it is done");
        run.seen.events.insert(at, Event::Done);
    });
    check(&again, Kind::NoVerdict, "no-verdict:worker", "more than once");
}
