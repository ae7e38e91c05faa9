//! Runs a bisect, a run with an expected failure, and a health check without child processes: a scripted runner
//! replaces the workers.

use std::{fmt, path::Path, sync::Mutex, time::Duration};

use bisect::{BisectOptions, Bisection, FailureFilter};
use device::Arch;
use engine::{
    Cancel, CaseLibrary, DeviceChoice, Job, Session, SessionOptions, Slot, TrialRunner,
    batch::{Batch, RunLimits, run_batch},
    lower_all, record, select,
};
use judge::{End, Kind, Location, Observation, Outcome, VerdictKind};
use report::Record;
use search::bisect::Answer;
use standin::{Entry, Fake};
use std::sync::Arc;
use supervise::Limits;

const CASE: &str = "\
title: Copies arrive whole
source: a test
matrix: {bytes: [1, 2, 3]}
buffers:
  src: {on: host.pageable, bytes: $bytes}
  dst: {on: device, bytes: $bytes}
steps:
  - fill: src
  - copy: {to: dst, from: src, stream: s}
  - sync: s
  - check: dst
faults: [copy.zero]
known:
  - {rocm: \"*\", on: {bytes: 2}, signature: \"wrong-data:dst:zero\", about: \"A test expects it.\"}
";

/// Function that returns the failure of the trial with a given id; `None` if it passes.
type Script = dyn Fn(&str) -> Option<(Kind, &'static str)> + Send + Sync;

/// A runner that starts no processes. Trials fail as the script says.
struct Scripted {
    script: Box<Script>,
    ran: Mutex<Vec<String>>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.ran)
    }
}

impl Scripted {
    fn new(
        script: impl Fn(&str) -> Option<(Kind, &'static str)> + Send + Sync + 'static,
    ) -> Arc<Scripted> {
        Arc::new(Scripted { script: Box::new(script), ran: Mutex::default() })
    }

    fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

impl TrialRunner for Scripted {
    fn run(
        &self,
        session: &Session,
        job: &Job<'_>,
        _: &Limits,
        _: Option<&Slot>,
        _: &Cancel,
    ) -> Option<Record> {
        let id = job.id();
        self.ran.lock().unwrap().push(id.clone());
        let (kind, signature) = (self.script)(&id).unwrap_or((Kind::Pass, "pass"));
        let outcome = Outcome {
            kind,
            signature: signature.to_owned(),
            at: Location::default(),
            summary: format!("the script says {signature}"),
            details: Vec::new(),
        };
        let observation = Observation {
            events: Vec::new(),
            noise: Vec::new(),
            garbage: Vec::new(),
            end: End::Exited(0),
            stderr: String::new(),
            stderr_dropped: 0,
            stacks: Vec::new(),
            left_behind: Vec::new(),
            wall: Duration::from_millis(1),
        };
        Some(record::record(session, job, "", observation, None, (outcome, Vec::new())))
    }
}

fn options(folder: &Path, device: DeviceChoice, runner: &Arc<Scripted>) -> SessionOptions {
    let stack = folder.join("stack");
    for entry in Fake::new("7.2.4").entries() {
        match entry {
            Entry::File(path, content, _) => {
                let path = stack.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, content).unwrap();
            }
            Entry::Link(path, target) => {
                std::os::unix::fs::symlink(target, stack.join(path)).unwrap();
            }
            _ => {}
        }
    }
    let cache = folder.join("cache");
    std::fs::create_dir_all(&cache).unwrap();
    SessionOptions {
        worker: Some("/nonexistent/worker".into()),
        cache: Some(cache),
        runner: Some(runner.clone()),
        ..SessionOptions::new(stack.display().to_string(), device, Arch::Gfx1151)
    }
}

fn run_all(options: SessionOptions) -> Batch {
    let library = CaseLibrary::of_text("copies/whole", CASE).unwrap();
    let selected = select(&library, &[]).unwrap();
    let lowered = lower_all(&library, &selected, []).unwrap();
    let jobs = selected.iter().zip(lowered).map(|(selected, lowered)| Job {
        case: selected.case,
        trial: &selected.trial,
        lowered,
        run: 0,
        faults: Vec::new(),
    });
    let jobs: Vec<_> = (0..).zip(jobs).collect();
    let session = Session::open(options).unwrap_or_else(|error| panic!("{error}"));
    let cancel = Cancel::new().unwrap();
    run_batch(&session, &jobs, &RunLimits::default(), &[], None, &cancel, |_| ())
}

#[test]
fn expects_only_the_listed_failure() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Scripted::new(|id| match id {
        "copies/whole[bytes=1]" => None,
        _ => Some((Kind::WrongData, "wrong-data:dst:zero")),
    });
    let batch = run_all(options(folder.path(), DeviceChoice::Emulated(Arch::Gfx1151), &runner));
    let verdicts: Vec<_> = batch.records.iter().map(|record| record.verdict.kind).collect();
    assert_eq!(verdicts, [VerdictKind::Pass, VerdictKind::Known, VerdictKind::NewsFail]);
    assert_eq!(runner.ran().len(), 3);
}

#[test]
fn failed_health_check_stops_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let broken = Mutex::new(false);
    let runner = Scripted::new(move |id| {
        let mut broken = broken.lock().unwrap();
        match id {
            "copies/whole[bytes=2]" => {
                *broken = true;
                Some((Kind::Hang, "hang:hipMemcpy"))
            }
            "rocrepro/health-check" if *broken => Some((Kind::Hang, "hang:hipMalloc")),
            _ => None,
        }
    });
    let batch = run_all(options(folder.path(), DeviceChoice::Gpu, &runner));
    let [passed, suspect] = &batch.records[..] else { panic!("{:?}", batch.records) };
    assert_eq!(passed.gpu_after, "");
    assert!(
        suspect.gpu_after.contains("the suspected cause is `copies/whole[bytes=2]` of run"),
        "{}",
        suspect.gpu_after
    );
    assert_eq!(batch.not_run.len(), 1);
    let why = batch.left_out.unwrap();
    assert!(why.contains("the GPU did not pass the health check"), "{why}");
    let check = "rocrepro/health-check";
    let ran = [check, "copies/whole[bytes=1]", "copies/whole[bytes=2]", check];
    assert_eq!(runner.ran(), ran);
}

#[test]
fn finds_the_first_value_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Scripted::new(|id| {
        let bytes: u32 = id.split(['=', ']']).nth(1)?.parse().ok()?;
        (bytes >= 23).then_some((Kind::WrongData, "wrong-data:dst:zero"))
    });
    let session = options(folder.path(), DeviceChoice::Emulated(Arch::Gfx1151), &runner);
    let library = CaseLibrary::of_text("copies/whole", CASE).unwrap();
    let bisect = BisectOptions {
        axis: Some("bytes=1..64".to_owned()),
        out: Some(folder.path().join("answer")),
        regress: FailureFilter::Signature,
        ..BisectOptions::new("copies/whole".to_owned(), session)
    };
    let cancel = Cancel::new().unwrap();
    let observed = Mutex::new(0);
    let report = |_: bisect::BisectEvent<'_>| *observed.lock().unwrap() += 1;
    let prepared = Bisection::prepare(&bisect, &library, None, &cancel, &report);
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    let again = |_: &_, _: &_, _: &[usize], _: (usize, usize)| "the same".to_owned();
    let found = prepared.run(&again, &report).unwrap_or_else(|error| panic!("{error}"));
    let Answer::Found(edge) = &found.answer else { panic!("{}", found.text) };
    // Points are numbered from 0, at the good end, whose value is 1.
    assert_eq!((edge.last_good, edge.first_bad), (21, 22));
    assert_eq!(bisect::exit_code(&found.answer), 0);
    assert!(found.text.contains("22") && found.text.contains("23"), "{}", found.text);
    assert_eq!(found.problems, Vec::<String>::new());
    assert!(*observed.lock().unwrap() > 0 && !runner.ran().is_empty());
}
