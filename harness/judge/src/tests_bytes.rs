use plan::{Arg, Call, Event, POISON_BYTE, Plan, Scalar, Step};

use crate::{
    Kind,
    fixture::{Run, at, check as read, copy, fill, launch, plan, step, there_and_back},
    tests::{check, healthy},
};

fn pattern(id: u32, occurrence: u32, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    plan::pattern(plan::fill_stamp(id, occurrence), &mut out);
    out
}

#[track_caller]
fn wrong(plan: Plan, (id, nth): (u32, u32), got: Vec<u8>, signature: &str, summary: &str) {
    let run = Run::healthy(plan).read(id, nth, |bytes| *bytes = got);
    check(&run, Kind::WrongData, signature, summary);
}

#[test]
fn wrong_bytes_are_traced() {
    let loops = || there_and_back(64, 3);
    let mixed = |parts: &[&[u8]]| parts.concat();
    let (first, second, third) = (pattern(1, 0, 64), pattern(1, 1, 64), pattern(1, 2, 64));
    let poison = vec![POISON_BYTE; 64];

    wrong(
        there_and_back(2, 3),
        (4, 1),
        vec![0, 0],
        "wrong-data:back:zero",
        "back (line 17, iteration 2): 2 of 2 bytes wrong from offset 0: all zero; expected \
         the pattern written at line 14 (fill of src, iteration 2)",
    );
    wrong(loops(), (4, 0), poison.clone(), "wrong-data:back:poison", "nothing was written there");
    wrong(
        loops(),
        (4, 1),
        first.clone(),
        "wrong-data:back:stale",
        "an earlier content of `back`, the pattern written at line 14 (fill of src, iteration 1)",
    );
    wrong(
        loops(),
        (4, 1),
        third.clone(),
        "wrong-data:back:later",
        "a later content of `src`, the pattern written at line 14 (fill of src, iteration 3)",
    );
    let torn = |rest: &[u8]| mixed(&[&second[..48], &rest[48..]]);
    let name = "wrong-data:back:torn";
    wrong(loops(), (4, 1), torn(&[0; 64]), name, "correct up to offset 48, then all zero");
    wrong(loops(), (4, 1), torn(&poison), name, "then the fill pattern");
    wrong(loops(), (4, 1), torn(&first), name, "then an earlier content");
    // If right bytes follow the wrong ones, the write was not torn.
    let hole = mixed(&[&second[..16], &[0; 16], &second[32..]]);
    wrong(loops(), (4, 1), hole, "wrong-data:back:zero", "all zero");
    let both = mixed(&[&[0; 16], &second[16..32], &first[32..]]);
    wrong(loops(), (4, 1), both, "wrong-data:back:mixed", "from several sources");
    let noise = (0..64).map(|i| 0x80 | i as u8).collect();
    wrong(
        loops(),
        (4, 1),
        noise,
        "wrong-data:back:garbage",
        "not those of any one write of this trial",
    );
    let short = second[..32].to_vec();
    wrong(loops(), (4, 1), short, "wrong-data:back:garbage", "32 bytes were read");
}

#[test]
fn missing_rows_are_a_torn_write() {
    // The copy writes three rows of 8 bytes, with 8 bytes of padding between them, over an older pattern.
    let stream = "default".to_owned();
    let rows = Call::Copy2d {
        to: at("back"),
        to_pitch: 16,
        from: at("src"),
        from_pitch: 16,
        width: 8,
        height: 3,
        asynchronous: false,
        stream,
    };
    let body = vec![fill(1, 3, "src"), fill(2, 4, "back"), step(3, 5, rows), read(4, 6, "back")];
    let (new, old) = (pattern(1, 0, 64), pattern(2, 0, 64));
    let got = [&new[..8], &old[8..]].concat();
    wrong(plan(64, body, vec![]), (4, 0), got, "wrong-data:back:torn", "correct up to offset 16");
}

#[test]
fn rewritten_source_shows_as_later() {
    let body = vec![
        fill(1, 3, "src"),
        copy(2, 4, "dst", "src", 64),
        fill(3, 5, "src"),
        copy(4, 6, "back", "dst", 64),
        read(5, 7, "back"),
    ];
    let plan = plan(64, body, vec![]);
    let text = "a later content of `src`, the pattern written at line 5 (fill of src)";
    wrong(plan, (5, 0), pattern(3, 0, 64), "wrong-data:back:later", text);
}

#[test]
fn bytes_of_another_buffer_are_named() {
    let with_aux = || {
        let body = vec![
            fill(1, 3, "src"),
            fill(2, 4, "aux"),
            copy(3, 5, "dst", "src", 64),
            copy(4, 6, "back", "dst", 64),
            read(5, 7, "back"),
        ];
        plan(64, body, vec![])
    };
    let aux = pattern(2, 0, 64);
    let name = "wrong-data:back:other";
    wrong(
        with_aux(),
        (5, 0),
        aux.clone(),
        name,
        "the bytes of `aux`, the pattern written at line 4",
    );
    let mut moved = pattern(1, 0, 64);
    moved[..32].copy_from_slice(&aux[16..48]);
    wrong(with_aux(), (5, 0), moved, name, "bytes of `aux`, shifted by 16 bytes forward");
    wrong(with_aux(), (5, 0), vec![0x5C; 64], name, "the bytes of a guard");
}

#[test]
fn kernel_result_is_traced() {
    let args = |out: &str, input: &str| {
        vec![Arg::Address(at(out)), Arg::Address(at(input)), Arg::u32(16), Arg::u32(7)]
    };
    let body = vec![
        fill(1, 3, "src"),
        copy(2, 4, "dst", "src", 64),
        launch(3, 5, "add_u32", args("dst", "dst")),
        copy(4, 6, "back", "dst", 64),
        read(5, 7, "back"),
    ];
    wrong(
        plan(64, body, vec![]),
        (5, 0),
        pattern(1, 0, 64),
        "wrong-data:back:stale",
        "expected the result of kernel add_u32 at line 5 (in dst)",
    );
}

#[test]
fn overwritten_guards_are_wrong_data() {
    let touched =
        |at: std::ops::Range<usize>, byte: u8| healthy().read(6, 0, |got| got[at].fill(byte));
    let run = touched(256..260, 0);
    check(&run, Kind::WrongData, "wrong-data:dst.guards:zero", "something wrote after the buffer");
    let run = touched(250..256, 0x77);
    check(&run, Kind::WrongData, "wrong-data:dst.guards:garbage", "something wrote before");
    let run = touched(0..512, POISON_BYTE);
    check(
        &run,
        Kind::WrongData,
        "wrong-data:dst.guards:poison",
        "were overwritten, or the guards were not read",
    );
    let run = touched(100..400, POISON_BYTE);
    check(&run, Kind::WrongData, "wrong-data:dst.guards:poison", "on both sides of");
    let own = pattern(1, 2, 64);
    let run = healthy().read(6, 0, |got| got[256..288].copy_from_slice(&own[16..48]));
    let text = "bytes of `back`, the pattern written at line 14";
    check(&run, Kind::WrongData, "wrong-data:dst.guards:other", text);
}

#[test]
fn dropped_bytes_are_still_wrong() {
    let run = healthy().read(4, 0, |got| got.fill(0)).with(|run| run.files.clear());
    check(&run, Kind::WrongData, "wrong-data:back:unknown", "were not saved");
}

#[test]
fn buffers_are_compared_with_each_other() {
    let compare = |equal: bool| -> Step {
        let (a, b) = ("src".to_owned(), "back".to_owned());
        step(5, 8, if equal { Call::Equal { a, b } } else { Call::Differ { a, b } })
    };
    let run = |equal: bool, digests: [&str; 2]| {
        let mut run = Run::healthy(plan(64, vec![compare(equal)], vec![]));
        let mut digests = digests.into_iter();
        for event in &mut run.seen.events {
            if let Event::Data { digest, file, .. } = event {
                let name = digests.next().unwrap();
                *digest = name.to_owned();
                *file = Some(name.to_owned());
                run.files.insert(name.to_owned(), format!("{name:>64}").into_bytes());
            }
        }
        run
    };
    check(&run(true, ["x", "x"]), Kind::Pass, "pass", "");
    check(&run(false, ["x", "y"]), Kind::Pass, "pass", "");
    let unequal = run(true, ["x", "y"]);
    let summary = "must be equal but differ in 1 byte, from offset 63 on";
    check(&unequal, Kind::WrongData, "wrong-data:src:unequal", summary);
    check(&run(false, ["x", "x"]), Kind::WrongData, "wrong-data:src:same", "must differ");
}

#[test]
fn elements_have_a_lower_bound() {
    let run = |least: Scalar, value: Option<&str>| {
        let call = Call::AtLeast { buffer: "back".to_owned(), least };
        Run::healthy(plan(64, vec![step(5, 8, call)], vec![])).returned(5, 0, "hipSuccess", value)
    };
    check(&run(Scalar::u32(3), Some("3 at 7")), Kind::Pass, "pass", "");
    let text = "back (line 8): element 7 is 2; each element must be at least 3";
    check(&run(Scalar::u32(3), Some("2 at 7")), Kind::WrongData, "wrong-data:back:below", text);
    let text = "element 0 is NaN; each element must be at least -1";
    let nan = run(Scalar::f32(-1.0), Some("NaN at 0"));
    check(&nan, Kind::WrongData, "wrong-data:back:below", text);
    for odd in [None, Some("2"), Some("two at 7"), Some("-2 at 7")] {
        let text = "did not report the least element of back";
        check(&run(Scalar::u32(3), odd), Kind::NoVerdict, "no-verdict:worker", text);
    }
}
