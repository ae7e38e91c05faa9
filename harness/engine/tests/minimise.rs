//! Tests a minimisation without worker processes: a scripted runner replaces them, and the path of the worker does not
//! exist.

use std::{
    cell::{Cell, RefCell},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use device::{Arch, Fault, FaultSpec};
use engine::{
    Cancel, CaseLibrary, DeviceChoice, Job, Session, SessionOptions, Slot, TrialRunner, evidence,
    failing_trial::Subjects,
    minimise::{MinimiseEvent, MinimiseOptions, MinimiseResult, Minimiser},
    record, select,
};
use judge::{End, Kind, Location, Observation, Outcome};
use plan::Call;
use report::{Record, evidence::MinimiseEvidence};
use standin::{Entry, Fake};
use supervise::Limits;

const CASE: &str = "\
title: Copies arrive whole
source: a test
buffers:
  src: {on: host.pageable, bytes: 8}
  other: {on: device, bytes: 8}
  dst: {on: device, bytes: 8}
steps:
  - fill: src
  - copy: {to: other, from: src, stream: s}
  - copy: {to: dst, from: src, stream: s}
  - sync: s
  - check: other
  - check: dst
faults: [copy.zero]
";

const SIGNATURE: &str = "wrong-data:dst.back:zero";

/// A runner that executes nothing. A trial that copies to `dst` under an injected fault fails at the check of
/// `dst.back`, the copy of `dst` on the host.
#[derive(Debug, Default)]
struct Scripted {
    runs: AtomicU32,
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
        self.runs.fetch_add(1, Ordering::Relaxed);
        let plan = &job.lowered.plan;
        let copied = plan
            .body
            .iter()
            .any(|s| matches!(&s.call, Call::Copy { to, .. } if to.buffer == "dst"));
        let check = plan
            .steps()
            .into_iter()
            .find(|s| matches!(&s.call, Call::Check { buffer, .. } if buffer == "dst.back"));
        let failing = check.filter(|_| copied && !job.faults.is_empty());
        let (kind, signature) =
            failing.map_or((Kind::Pass, "pass"), |_| (Kind::WrongData, SIGNATURE));
        let outcome = Outcome {
            kind,
            signature: signature.to_owned(),
            at: Location { step: failing.map(|step| step.id), ..Location::default() },
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

/// Returns options for a stack in this folder. No process could use the stack, because it does not exist.
fn options(folder: &Path, runner: &Arc<Scripted>) -> MinimiseOptions {
    let (stack, cache) = (folder.join("stack"), folder.join("cache"));
    std::fs::create_dir_all(&cache).unwrap();
    if !stack.exists() {
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
    }
    let arch = Arch::Gfx1151;
    let session = SessionOptions {
        worker: Some("/nonexistent/worker".into()),
        cache: Some(cache),
        runner: Some(runner.clone()),
        ..SessionOptions::new(stack.display().to_string(), DeviceChoice::Emulated(arch), arch)
    };
    MinimiseOptions { out: Some(folder.join("out")), ..MinimiseOptions::new(session) }
}

fn minimise(
    options: &MinimiseOptions,
    report: &dyn Fn(MinimiseEvent<'_>),
) -> Result<MinimiseResult, engine::Stop> {
    minimise_with(options, vec![FaultSpec::from(Fault::CopyZero)], report)
}

fn minimise_with(
    options: &MinimiseOptions,
    faults: Vec<FaultSpec>,
    report: &dyn Fn(MinimiseEvent<'_>),
) -> Result<MinimiseResult, engine::Stop> {
    let library = CaseLibrary::of_text("copies/whole", CASE).unwrap();
    let selected = select(&library, &[]).unwrap();
    let subjects = Subjects { library: &library, selected, faults, command: None };
    let minimiser = Minimiser::prepare(options, &subjects)?;
    minimiser.run(&Cancel::new().unwrap(), report)
}

#[test]
fn leaves_out_calls_without_effect_on_the_failure() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(Scripted::default());
    let (ended, smaller) = (Cell::new(0), RefCell::new(Vec::new()));
    let report = |event: MinimiseEvent<'_>| match event {
        MinimiseEvent::TrialEnded => ended.set(ended.get() + 1),
        MinimiseEvent::Smaller { signature, calls, .. } => {
            assert_eq!(signature, SIGNATURE);
            smaller.borrow_mut().push(calls);
        }
        _ => {}
    };
    let result = minimise(&options(folder.path(), &runner), &report)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(result.complete, "{}", result.text);
    let out = folder.path().join("out");
    let found: MinimiseEvidence = evidence::read(&out).unwrap().unwrap();
    assert_eq!(found.signature, SIGNATURE);
    assert!(found.calls_after < found.calls_before, "{}", result.text);
    assert!(found.yaml.contains("dst") && !found.yaml.contains("other"), "{}", found.yaml);
    assert_eq!(std::fs::read_to_string(out.join("case.yaml")).unwrap(), found.yaml);
    // The healthy device is the oracle here, and the minimal case passed on it.
    assert_eq!(found.passes.unwrap().rate.failed, 0);
    assert!(result.text.contains(&found.yaml.lines().last().unwrap().to_owned()));
    let smaller = smaller.into_inner();
    assert_eq!(smaller.last(), Some(&found.calls_after), "{smaller:?}");
    assert!(ended.get() > 0 && ended.get() <= runner.runs.load(Ordering::Relaxed));
}

#[test]
fn resumes_without_repeating_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(Scripted::default());
    let first = minimise(&options(folder.path(), &runner), &|_| {}).unwrap();
    let runs = runner.runs.swap(0, Ordering::Relaxed);
    let ended = Cell::new(0);
    let report = |event: MinimiseEvent<'_>| {
        ended.set(ended.get() + u32::from(matches!(event, MinimiseEvent::TrialEnded)));
    };
    let resumed = MinimiseOptions { resume: true, ..options(folder.path(), &runner) };
    let second = minimise(&resumed, &report).unwrap();
    // The journal does not contain the runs after the search, so only these are made again.
    assert_eq!(ended.get(), 0);
    assert!(runner.runs.load(Ordering::Relaxed) < runs);
    let case = |text: &str| text.split("\n\n").nth(1).map(str::to_owned);
    assert_eq!(case(&first.text), case(&second.text));
    // With another fault, the journal cannot be reused.
    let torn = vec![FaultSpec::from(Fault::CopyTorn)];
    let error = minimise_with(&resumed, torn, &|_| {}).unwrap_err();
    assert_eq!(error.code(), 2, "{error}");
    assert!(error.to_string().contains("omit `--resume` "), "{error}");
}

#[test]
fn rejects_trials_that_pass() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(Scripted::default());
    let error = minimise_with(&options(folder.path(), &runner), Vec::new(), &|_| {}).unwrap_err();
    assert_eq!(error.code(), 4, "{error}");
    assert!(error.to_string().contains("nothing to minimise: copies/whole passed"), "{error}");
}
