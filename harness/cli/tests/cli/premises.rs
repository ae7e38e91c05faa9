//! Tests that the minimiser keeps the calls on which an expected result depends.
//!
//! In these tests, a script decides which trials fail. With an injected fault, one call gives a wrong result, whatever
//! the other calls are; without the fault, every program passes. Such a failure survives every reduction, so only the
//! minimiser's own rules keep the calls that make the expected result right. Afterwards the reduced cases run on a
//! healthy device, where a case that lost one of these calls fails.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use device::{Arch, Fault, FaultSpec};
use engine::{
    Cancel, CaseLibrary, DeviceChoice, Job, Selected, Session, SessionOptions, Slot, TrialRunner,
    evidence,
    failing_trial::Subjects,
    jobs_with,
    minimise::{MinimiseOptions, Minimiser},
    record, select,
};
use judge::{End, Kind, Location, Observation, Outcome};
use plan::{Plan, Step, Version};
use report::{Record, evidence::MinimiseEvidence};
use supervise::Limits;

/// A case for ROCm/ROCm#6681: the allocation is allowed only in the capture mode `relaxed`.
const RELAXED: &str = "\
title: A thread in relaxed mode allocates while another one captures
source: a test
buffers:
  src: {on: device, bytes: 4096, fill: pattern}
  out: {on: device, bytes: 4096, fill: zero}
  extra: {on: device, bytes: 4096}
steps:
  - begin_capture: {stream: s, mode: global}
  - copy: {to: out, from: src, api: memcpy_async, stream: s}
  - thread:
      - exchange_capture_mode: relaxed
        gives: global
      - alloc: extra
      - exchange_capture_mode: global
        gives: relaxed
  - end_capture: {stream: s, graph: g}
  - instantiate: {exec: x, graph: g}
  - launch_graph: {exec: x, stream: s}
  - sync: s
  - check: out
faults: [copy.zero]
";

/// The call that fails in a scripted trial.
#[derive(Clone, Copy, Debug)]
enum Failing {
    /// The first call with an injected fault.
    First,
    /// The last call with an injected fault.
    Last,
    /// The last call of this function.
    Function(&'static str),
}

impl Failing {
    fn step(self, plan: &Plan) -> Option<&Step> {
        let mut steps = plan.steps().into_iter();
        match self {
            Failing::First => steps.find(|step| !step.planted.is_empty()),
            Failing::Last => steps.rfind(|step| !step.planted.is_empty()),
            Failing::Function(name) => steps.rfind(|step| judge::api(&step.call, plan) == name),
        }
    }
}

/// A runner that executes nothing. A trial with injected faults fails at the call that the script names.
#[derive(Debug)]
struct Scripted(Failing);

impl TrialRunner for Scripted {
    fn run(
        &self,
        session: &Session,
        job: &Job<'_>,
        _: &Limits,
        _: Option<&Slot>,
        _: &Cancel,
    ) -> Option<Record> {
        let plan = &job.lowered.plan;
        let failing = self.0.step(plan).filter(|_| !job.faults.is_empty());
        let (kind, signature) = match failing {
            None => (Kind::Pass, "pass".to_owned()),
            Some(step) => {
                let value = job.faults.iter().any(|p| p.fault == Fault::ValueWrong);
                let what = if value { "unexpected-value" } else { "api-error" };
                (Kind::ApiError, format!("{what}:{}:wrong", judge::api(&step.call, plan)))
            }
        };
        let at = Location { step: failing.map(|step| step.id), ..Location::default() };
        let summary = format!("the script says {signature}");
        let outcome = Outcome { kind, signature, at, summary, details: Vec::new() };
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

/// Reduces a trial whose failure survives every reduction, and returns the minimal case.
fn minimal(
    library: &CaseLibrary,
    selected: Selected<'_>,
    fault: Fault,
    failing: Failing,
    release: &str,
) -> MinimiseEvidence {
    let folder = tempfile::tempdir().expect("a folder");
    let arch = Arch::Gfx1151;
    let session = SessionOptions {
        worker: Some(env!("CARGO_BIN_EXE_rocrepro").into()),
        runner: Some(Arc::new(Scripted(failing))),
        ..SessionOptions::new(format!("debian:{release}"), DeviceChoice::Emulated(arch), arch)
    };
    let out = folder.path().join("out");
    let options = MinimiseOptions { out: Some(out.clone()), ..MinimiseOptions::new(session) };
    let id = selected.id();
    let faults = vec![FaultSpec::from(fault)];
    let subjects = Subjects { library, selected: vec![selected], faults, command: None };
    let minimiser = Minimiser::prepare(&options, &subjects).unwrap_or_else(|e| panic!("{id}: {e}"));
    let cancel = Cancel::new().expect("a pipe");
    let result = minimiser.run(&cancel, &|_| {}).unwrap_or_else(|e| panic!("{id}: {e}"));
    assert!(result.complete, "{id}: {}", result.text);
    evidence::read(&out).expect("readable").expect("written")
}

/// Runs all cases of a folder on the healthy device.
#[track_caller]
fn pass(folder: &Path, release: &str, number: usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["run", "--cases-from"]).arg(folder);
    command.args(["--rocm", &format!("debian:{release}"), "--device", "emulated"]);
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let shown = format!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}");
    assert!(text.contains(&format!(": {number} passed in")), "{shown}");
}

#[test]
fn keeps_the_mode_that_an_allocation_needs() {
    let library = CaseLibrary::of_text("capture/relaxed", RELAXED).expect("a good case");
    let selected = select(&library, &[]).expect("it has a trial").remove(0);
    let failing = Failing::Function("hipMalloc");
    let found = minimal(&library, selected, Fault::CopyZero, failing, "7.2.4");
    let kept = |text: &str| assert!(found.yaml.contains(text), "no {text}: {}", found.yaml);
    kept("exchange_capture_mode: relaxed");
    kept("begin_capture");
    assert!(!found.yaml.contains("copy:"), "{}", found.yaml);
}

/// Draws numbers from a fixed seed, so that a failure can be repeated.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (device::mix(self.0) % limit as u64) as usize
    }
}

/// Cases with functions that 6.4.3 does not contain.
const NEWER: [&str; 1] = ["copies/rectangles-refused"];

#[test]
fn reduced_cases_pass_on_a_healthy_device() {
    const FAULTS: [Fault; 3] = [Fault::CallDenied, Fault::CallAccepted, Fault::ValueWrong];
    let library = CaseLibrary::load(None).expect("the embedded library");
    let mut draw = Draw(6681);
    for release in ["7.2.4", "6.4.3"] {
        let version: Version = release.parse().expect("a version");
        let applies = |entry: &Selected<'_>| {
            let Selected { case, trial } = entry;
            let known =
                |known: &case::Known| known.rocm.contains(&version) && known.on.matches(trial);
            let needs_more = case.needs.devices > 1
                || case.needs.processes > 1
                || !case.needs.libraries.is_empty();
            let missing = release == "6.4.3" && NEWER.contains(&case.id.as_str());
            // Where no document defines the result, the healthy trial may fail, too.
            let differs = case.differences(trial).next().is_some();
            let fails = differs || case.known.iter().any(known);
            !case.is_program() && !missing && !needs_more && !fails
        };
        let mut trials = select(&library, &[]).expect("it has trials");
        trials.retain(applies);
        let cases = tempfile::tempdir().expect("a folder");
        let mut number = 0;
        while number < 15 {
            let selected = trials.swap_remove(draw.below(trials.len()));
            let fault = FAULTS[draw.below(FAULTS.len())];
            let failing = [Failing::First, Failing::Last][draw.below(2)];
            let one = std::slice::from_ref(&selected);
            let jobs = jobs_with(&library, one, &[FaultSpec::from(fault)]).expect("a good trial");
            let plan = &jobs[0].lowered.plan;
            // A search over a long case would take minutes.
            let long = plan.steps().len() > 60;
            if long
                || failing
                    .step(plan)
                    .is_none_or(|step| !judge::api(&step.call, plan).starts_with("hip"))
            {
                continue;
            }
            let id = selected.id();
            let found = minimal(&library, selected, fault, failing, release);
            println!(
                "{number}: {id} {fault} {failing:?}: {} -> {}",
                found.calls_before, found.calls_after
            );
            let path = cases.path().join(format!("case-{number}.yaml"));
            std::fs::write(path, &found.yaml).expect("written");
            number += 1;
        }
        pass(cases.path(), release, number);
    }
}
