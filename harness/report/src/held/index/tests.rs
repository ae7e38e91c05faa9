use super::*;
use crate::{FORMAT, RunEnd, fixture::passed, to_line};

fn opened(run: &str) -> String {
    let opened = RunPlan {
        format: FORMAT,
        opened: "2026-11-22T01:02:03Z".to_owned(),
        run: run.to_owned(),
        resumes: None,
        trials: vec!["copies/a".to_owned()],
        repeat: 3,
        shard: None,
        digest: run.to_owned(),
        build: String::new(),
        merged: Vec::new(),
    };
    serde_json::to_string(&Line::Opened(opened)).unwrap()
}

fn record(run: &str, number: u64) -> Record {
    Record { run: run.to_owned(), number, ..passed("copies/a") }
}

fn trial(run: &str, number: u64) -> String {
    to_line(&record(run, number)).unwrap()
}

#[test]
fn invalid_lines_are_reported_with_their_numbers() {
    let whole = trial("p", 0);
    let text = [&whole, &whole[..whole.len() / 2], "", "hello", r#"{"format":9}"#, "{}"];
    let index = RecordIndex::read(text.join("\n").as_bytes()).unwrap();
    let places = |lines: &InvalidLines| lines.first.iter().map(|odd| odd.line).collect::<Vec<_>>();
    assert_eq!((places(&index.torn), places(&index.foreign)), (vec![2], vec![4, 5, 6]));
    let many = RecordIndex::read("x\n".repeat(100).as_bytes()).unwrap();
    assert_eq!(
        (many.foreign.first.len(), many.foreign.more),
        (MAX_KEPT_LINES, 100 - MAX_KEPT_LINES)
    );
}

/// If the time grew quadratically with the number of lines, this test would take minutes.
#[test]
fn reads_many_begun_trials_in_linear_time() {
    const TRIALS: usize = 60_000;
    let line = |over: bool, number: usize| {
        let (format, run, date) = (FORMAT, "o".to_owned(), "2026-11-22T01:02:03Z".to_owned());
        let line = match over {
            true => Line::Over(RunEnd { format, over: date, run }),
            false => Line::Begun(TrialStart {
                format,
                begun: date,
                run,
                number: number as u64,
                trial: "copies/a".to_owned(),
                again: String::new(),
                pid: 1,
                boot: String::new(),
            }),
        };
        serde_json::to_string(&line).unwrap() + "\n"
    };
    let lines = |over| (0..TRIALS).map(|number| line(over, number)).collect::<String>();
    let begun = format!("{}\n{}", opened("o"), lines(false));
    let lost = |text: &str| {
        let index = RecordIndex::read(text.as_bytes()).unwrap();
        index.runs[0].read_run(text.as_bytes(), false).unwrap().lost.len()
    };
    assert_eq!(lost(&begun), TRIALS);
    assert_eq!(lost(&(begun + &lines(true))), 0);
}

#[test]
fn records_are_read_by_their_position() {
    let torn = &trial("p", 1)[..30];
    let lines = [&opened("o"), &trial("o", 0), &opened("p"), torn, "\u{fffd}", &trial("p", 2)];
    // These records are from another run, from a trial that already has a record, and from a run without a plan.
    let more = [trial("o", 1), trial("p", 2), trial("p", 0), trial("none", 0)].join("\r\n");
    let text = lines.join("\n") + "\n" + &more;
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
    let index = RecordIndex::read(io::BufReader::new(&file)).unwrap();
    let trials: Vec<usize> = index.runs.iter().map(RunIndex::trials).collect();
    assert_eq!((trials, index.left_out), (vec![2, 2], 2));
    let [last] = index.last()[..] else { panic!("one run is the last") };
    assert_eq!(last.identity.run, "p");
    assert!(last.has(2) && !last.has(1));
    let records: Vec<Record> = last.records(&file).map(Result::unwrap).collect();
    assert_eq!(records, [record("p", 0), record("p", 2)]);
    assert_eq!(last.opened(text.as_bytes()).unwrap().run, "p");
    // Reading a file that has changed since it was indexed is an error.
    file.set_len(10).unwrap();
    assert!(last.records(&file).all(|record| record.is_err()));
    file.write_all_at(&[b' '; 9000], 0).unwrap();
    assert!(last.opened(&file).is_err());
}
