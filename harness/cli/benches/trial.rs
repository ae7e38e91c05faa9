//! Measures the time that the harness needs per trial, compared with starting a process that does nothing. The HIP
//! runtime and the device are not measured: the worker is `/bin/true`, or no process is started.

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use case::{Lowered, lower};
use criterion::{Criterion, criterion_group, criterion_main};
use judge::{Context, End, Kind, Observation, judge};
use plan::{Event, LoadedLibrary, PLAN_VERSION, Step};
use rocrepro::{CaseLibrary, DeviceChoice, Job, Session, SessionOptions, run_trial, select};
use supervise::Cancel;

const NONCE: &str = "0123456789abcdef0123456789abcdef";

/// Id of a typical trial: two buffers, a copy and a check.
const TRIAL: &str = "copies/device-to-device";

fn library() -> CaseLibrary {
    CaseLibrary::load(None).expect("the built-in cases")
}

/// Measures all steps from a case to a verdict, without starting a process.
fn pure(criterion: &mut Criterion) {
    let library = library();
    let selected = &select(&library, &[TRIAL.to_owned()]).expect("a case of the library")[0];
    let lower = || -> Lowered {
        lower(selected.case, &selected.trial, library.kernels(), &[]).expect("a correct case")
    };
    let lowered = lower();
    let wanted: Vec<_> =
        lowered.body.expected().iter().map(|e| (e.step, e.occurrence, e.digest.clone())).collect();
    let nothing = BTreeMap::new();
    let context = Context {
        plan: &lowered.plan,
        nonce: NONCE,
        order: "",
        build: None,
        device_build: None,
        hsa_build: None,
        environment: &nothing,
        launched: false,
        late: false,
        evidence: judge::RocmEvidence::Unknown,
        limits: &nothing,
        wanted: &wanted,
        spec: "bench",
        adding: &|_| String::new(),
        rocm: None,
        expect_gfx: None,
        emulated: None,
        stack_root: Some(Path::new("/stack")),
        spool: &|_| None,
    };
    let lines: Vec<_> = events(&lowered, &wanted)
        .iter()
        .map(|event| serde_json::to_vec(event).expect("events are JSON"))
        .collect();
    let mut group = criterion.benchmark_group("pure");
    group.bench_function("read all cases", |bencher| bencher.iter(self::library));
    group.bench_function("lower and expected bytes", |bencher| {
        bencher.iter(lower);
    });
    group.bench_function("read events and judge", |bencher| {
        bencher.iter(|| {
            let events =
                lines.iter().map(|line| serde_json::from_slice(line).expect("an event")).collect();
            let outcome = judge(&observation(events), &context);
            assert_eq!(outcome.kind, Kind::Pass, "{outcome:?}");
        });
    });
    group.finish();
}

fn observation(events: Vec<Event>) -> Observation {
    Observation {
        events,
        noise: Vec::new(),
        garbage: Vec::new(),
        end: End::Exited(plan::WORKER_DONE),
        stderr: String::new(),
        stderr_dropped: 0,
        stacks: Vec::new(),
        left_behind: Vec::new(),
        wall: Duration::from_millis(50),
    }
}

/// Returns the events of a worker in which every call of the plan succeeds and has the right bytes.
fn events(lowered: &Lowered, wanted: &[(u32, u32, String)]) -> Vec<Event> {
    let library = |name: &str| LoadedLibrary {
        name: name.to_owned(),
        path: format!("/stack/lib/{name}"),
        build_id: None,
    };
    let all = ["libamdhip64.so.7", "libhsa-runtime64.so.1", "libamd_comgr.so.3"];
    let mut events = vec![
        Event::Hello {
            version: PLAN_VERSION,
            build: None,
            nonce: NONCE.to_owned(),
            pid: 1,
            order: String::new(),
            environment: BTreeMap::new(),
            limits: BTreeMap::new(),
        },
        Event::Loaded { libraries: all.map(library).into() },
        Event::Device {
            hip_runtime: 70_253_211,
            count: 1,
            name: "bench".to_owned(),
            gfx: "gfx1151".to_owned(),
            memory: 4 << 30,
            bdf: String::new(),
            nodes: vec!["/dev/kfd".to_owned()],
            refused: None,
            emulated: None,
        },
    ];
    for (phase, steps) in lowered.plan.phases() {
        if phase == plan::Phase::Teardown {
            events.push(Event::Done);
        }
        events.push(Event::Phase { phase });
        steps.iter().for_each(|step| call(step, wanted, &mut events));
    }
    events.push(Event::Bye);
    events
}

fn call(step: &Step, wanted: &[(u32, u32, String)], events: &mut Vec<Event>) {
    let (id, occurrence) = (step.id, 0);
    events.push(Event::Begin { step: id, occurrence });
    if let Some((.., digest)) = wanted.iter().find(|(step, ..)| *step == id) {
        events.push(Event::Data {
            step: id,
            occurrence,
            buffer: String::new(),
            bytes: 0,
            digest: digest.clone(),
            file: None,
        });
    }
    let status = "hipSuccess".to_owned();
    let (value, function) = (None, None);
    events.push(Event::End {
        step: id,
        occurrence,
        code: 0,
        status,
        value,
        function,
        address: None,
        ns: 1000,
    });
}

/// Measures a trial whose worker ends immediately, and, for comparison, only the start of the worker's program.
fn process(criterion: &mut Criterion) {
    // A folder that contains this file is recognised as a stack. The worker does not load the file.
    let stack = tempfile::tempdir().expect("a temporary folder");
    let lib = stack.path().join("lib");
    std::fs::create_dir(&lib).expect("a folder");
    std::fs::write(lib.join("libamdhip64.so.7"), b"").expect("a file");
    let defaults = rocrepro::options_from_environment("/bin/true".into()).expect("no bad variable");
    let session = Session::open(SessionOptions {
        rocm: stack.path().display().to_string(),
        device: DeviceChoice::Gpu,
        ..defaults
    })
    .expect("a session");
    let library = library();
    let selected = &select(&library, &[TRIAL.to_owned()]).expect("a case of the library")[0];
    let lower = || -> Lowered {
        lower(selected.case, &selected.trial, library.kernels(), &[]).expect("a correct case")
    };
    let lowered = lower();
    let (run, faults) = (0, Vec::new());
    let job = Job { case: selected.case, trial: &selected.trial, lowered, run, faults };
    let cancel = Cancel::new().expect("an eventfd");

    let mut group = criterion.benchmark_group("process");
    group.bench_function("/bin/true alone", |bencher| {
        bencher.iter(|| Command::new("/bin/true").status().expect("/bin/true starts"));
    });
    group.bench_function("trial with /bin/true as worker", |bencher| {
        bencher.iter(|| {
            let record = serde_json::to_string(&run_trial(&session, &job, &cancel));
            let record = record.expect("records are JSON");
            assert!(record.contains("without a report"), "{record}");
        });
    });
    group.finish();
}

criterion_group!(benches, pure, process);
criterion_main!(benches);
