//! Builds small plans, and the events of workers that execute them, for tests.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::Duration,
};

use device::{Config, Fault, FaultSpec, Identity};
use plan::{
    Arg, Buffer, BufferAddress, Call, CopyApi, Event, LoadedLibrary, Memory, PLAN_VERSION, Phase,
    Plan, Reference, Step, Version, digest, reference,
};

use crate::{Context, End, Location, Observation, Outcome, RocmEvidence, judge_everywhere};

pub(crate) const NONCE: &str = "n0nce";
pub(crate) const BUILD: &str = "b01d";
const ORDER: &str = "0rder";
pub(crate) const HEAD: usize = 8;
pub(crate) const HSA_BUILD: &str = "45a";
pub(crate) const ROOT: &str = "/stack";

/// A plan, the events of a worker that executes the plan on a healthy device, and the files that the worker saves.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) seen: Observation,
    pub(crate) files: HashMap<String, Vec<u8>>,
    pub(crate) rocm: Option<Version>,
    pub(crate) launched: bool,
    pub(crate) late: bool,
    pub(crate) evidence: RocmEvidence,
    /// Requested configuration of the emulated device; `None` if the trial is for a GPU.
    pub(crate) emulated: Option<Config>,
    pub(crate) gfx: &'static str,
    /// Name of the stack, as given on the command line.
    pub(crate) spec: &'static str,
}

/// Returns the first event of a worker that runs with the requested configuration.
pub(crate) fn hello() -> Event {
    Event::Hello {
        version: PLAN_VERSION,
        build: Some(BUILD.to_owned()),
        nonce: NONCE.to_owned(),
        pid: 42,
        order: ORDER.to_owned(),
        environment: environment(),
        limits: limits(),
    }
}

fn loaded(name: &str) -> Event {
    let path = format!("{ROOT}/lib/{name}");
    Event::Loaded { libraries: vec![LoadedLibrary { name: name.to_owned(), path, build_id: None }] }
}

fn environment() -> BTreeMap<String, String> {
    let variables = [("PATH", "/bin"), ("HSA_XNACK", "1")];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn limits() -> BTreeMap<String, String> {
    [("stack".to_owned(), "8M".to_owned())].into()
}

pub(crate) fn config() -> Config {
    Config { faults: vec![FaultSpec::from(Fault::CopyZero)], ..Config::default() }
}

pub(crate) fn at(buffer: &str) -> BufferAddress {
    BufferAddress { buffer: buffer.to_owned(), offset: 0 }
}

pub(crate) fn step(id: u32, line: u32, call: Call) -> Step {
    Step { id, call, returns: None, gives: None, line, planted: Vec::new() }
}

pub(crate) fn fill(id: u32, line: u32, buffer: &str) -> Step {
    step(id, line, Call::Fill { buffer: buffer.to_owned(), stamp: id })
}

pub(crate) fn copy(id: u32, line: u32, to: &str, from: &str, bytes: u64) -> Step {
    let stream = "default".to_owned();
    let call = Call::Copy { to: at(to), from: at(from), bytes, api: CopyApi::Memcpy, stream };
    step(id, line, call)
}

pub(crate) fn check(id: u32, line: u32, buffer: &str) -> Step {
    step(id, line, Call::Check { buffer: buffer.to_owned(), file: None })
}

pub(crate) fn launch(id: u32, line: u32, kernel: &str, args: Vec<Arg>) -> Step {
    let (kernel, stream) = (kernel.to_owned(), "default".to_owned());
    step(
        id,
        line,
        Call::Launch {
            kernel,
            grid: [4, 1, 1],
            block: [64, 1, 1],
            args,
            shared: 0,
            cooperative: false,
            stream,
        },
    )
}

/// Returns a plan with host buffers `src`, `aux` and `back` and a device buffer `dst`. Each buffer has `bytes` bytes.
/// The set-up allocates them and fills them with poison.
pub(crate) fn plan(bytes: u64, body: Vec<Step>, verify: Vec<Step>) -> Plan {
    let mut setup = Vec::new();
    let mut buffers = BTreeMap::new();
    let kinds = [
        ("src", Memory::HostPageable),
        ("aux", Memory::HostPageable),
        ("dst", Memory::Device),
        ("back", Memory::HostPageable),
    ];
    for (n, (name, memory)) in kinds.into_iter().enumerate() {
        buffers.insert(name.to_owned(), Buffer { memory, bytes, guarded: true });
        let (buffer, stream) = (name.to_owned(), "default".to_owned());
        let id = 100 + 2 * n as u32;
        setup.push(step(id, 0, Call::Alloc { buffer: buffer.clone(), stream }));
        setup.push(step(id + 1, 0, Call::Poison { buffer }));
    }
    let stream = "default".to_owned();
    let teardown = vec![step(120, 0, Call::Free { buffer: "dst".to_owned(), stream })];
    Plan {
        version: PLAN_VERSION,
        trial: "copies/there-and-back[bytes=64]".to_owned(),
        environment: BTreeMap::new(),
        limits: BTreeMap::new(),
        libraries: Vec::new(),
        functions: Vec::new(),
        buffers,
        streams: BTreeMap::new(),
        events: Vec::new(),
        kernels: BTreeMap::new(),
        own_kernels: BTreeMap::new(),
        files: BTreeMap::new(),
        setup,
        body,
        verify,
        teardown,
    }
}

/// Returns a plan that repeats four steps `count` times: fill `src`, copy `src` to `dst`, copy `dst` to `back`, check
/// `back`.
pub(crate) fn there_and_back(bytes: u64, count: u32) -> Plan {
    let body = vec![
        fill(1, 14, "src"),
        copy(2, 15, "dst", "src", bytes),
        copy(3, 16, "back", "dst", bytes),
        check(4, 17, "back"),
    ];
    let guards = step(6, 20, Call::Guards { buffer: "dst".to_owned() });
    plan(bytes, vec![step(5, 13, Call::Repeat { count, body })], vec![guards])
}

impl Run {
    /// Returns a run in which the worker executes the plan without any deviation.
    pub(crate) fn healthy(plan: Plan) -> Run {
        let mut seen = Observation {
            events: vec![
                hello(),
                Event::Phase { phase: Phase::Start },
                Event::Phase { phase: Phase::Load },
                loaded("libamdhip64.so.7"),
                Event::Phase { phase: Phase::Init },
                loaded("libLLVM.so.22.1"),
                Event::Device {
                    hip_runtime: 70_253_211,
                    count: 1,
                    name: "emulated gfx1151".to_owned(),
                    gfx: "gfx1151".to_owned(),
                    memory: 4 << 30,
                    bdf: "0000:03:00.0".to_owned(),
                    nodes: Vec::new(),
                    refused: None,
                    emulated: Some(Identity { version: "0.1.0".to_owned(), config: config() }),
                },
            ],
            noise: Vec::new(),
            garbage: Vec::new(),
            end: End::Exited(plan::WORKER_DONE),
            stderr: String::new(),
            stderr_dropped: 0,
            stacks: Vec::new(),
            left_behind: Vec::new(),
            wall: Duration::from_millis(43),
        };
        let wanted = wanted(&plan);
        let mut occurrences = HashMap::new();
        for (phase, steps) in plan.phases() {
            if phase == Phase::Teardown {
                seen.events.push(Event::Done);
            }
            seen.events.push(Event::Phase { phase });
            play(steps, &plan, &wanted, &mut occurrences, &mut seen.events);
        }
        seen.events.push(Event::Bye);
        let rocm = Some(Version::new(7, 2, 4));
        Run {
            plan,
            seen,
            files: HashMap::new(),
            rocm,
            launched: false,
            late: false,
            evidence: RocmEvidence::Unknown,
            emulated: Some(config()),
            gfx: "gfx1151",
            spec: "debian:7.2.4",
        }
    }

    pub(crate) fn libraries(&mut self) -> &mut Vec<LoadedLibrary> {
        let mut events = self.seen.events.iter_mut();
        let loaded = events.find_map(|event| match event {
            Event::Loaded { libraries } => Some(libraries),
            _ => None,
        });
        loaded.expect("the worker has reported its libraries")
    }

    /// Changes the bytes that the check with step id `id` reads in its execution number `nth`, counted from 0.
    pub(crate) fn read(mut self, id: u32, nth: u32, change: impl FnOnce(&mut Vec<u8>)) -> Run {
        let mut got = Reference::content(&self.plan, id, nth).expect("the plan has the check").want;
        change(&mut got);
        for event in &mut self.seen.events {
            if let Event::Data { step, occurrence, digest: found, file, .. } = event
                && (*step, *occurrence) == (id, nth)
            {
                *found = digest(&got);
                *file = Some("spooled".to_owned());
            }
        }
        self.files.insert("spooled".to_owned(), got);
        self
    }

    pub(crate) fn returned(mut self, id: u32, code: i32, status: &str, value: Option<&str>) -> Run {
        for event in &mut self.seen.events {
            if let Event::End { step, code: c, status: s, value: v, .. } = event
                && *step == id
            {
                (*c, *s, *v) = (code, status.to_owned(), value.map(str::to_owned));
            }
        }
        self
    }

    /// Removes all events from the first event for which `before` returns true, and sets how the process ended.
    pub(crate) fn cut(mut self, before: impl Fn(&Event) -> bool, end: End) -> Run {
        let at = self.seen.events.iter().position(before).expect("there is such an event");
        self.seen.events.truncate(at);
        self.seen.end = end;
        self
    }

    pub(crate) fn stderr(mut self, text: &str) -> Run {
        self.seen.stderr = text.to_owned();
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Run)) -> Run {
        change(&mut self);
        self
    }

    pub(crate) fn judge(&self) -> Outcome {
        self.judge_everywhere().0
    }

    pub(crate) fn judge_everywhere(&self) -> (Outcome, Vec<Location>) {
        let wanted = wanted(&self.plan);
        let context = Context {
            plan: &self.plan,
            nonce: NONCE,
            order: ORDER,
            build: Some(BUILD),
            device_build: None,
            hsa_build: Some(HSA_BUILD),
            environment: &environment(),
            launched: self.launched,
            late: self.late,
            evidence: self.evidence,
            limits: &limits(),
            wanted: &wanted,
            spec: self.spec,
            adding: &|name| format!("the shop has {name}"),
            rocm: self.rocm.clone(),
            expect_gfx: Some(self.gfx),
            emulated: self.emulated.as_ref(),
            stack_root: Some(Path::new(ROOT)),
            spool: &|name| self.files.get(name).cloned(),
        };
        judge_everywhere(&self.seen, &context)
    }
}

fn wanted(plan: &Plan) -> Vec<(u32, u32, String)> {
    let expected = reference(plan).map(|r| r.expected).unwrap_or_default();
    expected.into_iter().map(|e| (e.step, e.occurrence, e.digest)).collect()
}

fn play(
    steps: &[Step],
    whole: &Plan,
    wanted: &[(u32, u32, String)],
    occurrences: &mut HashMap<u32, u32>,
    events: &mut Vec<Event>,
) {
    for step in steps {
        match &step.call {
            Call::Repeat { count, body } => {
                (0..*count).for_each(|_| play(body, whole, wanted, occurrences, events));
                continue;
            }
            Call::Thread { body } => {
                play(body, whole, wanted, occurrences, events);
                continue;
            }
            _ => {}
        }
        let next = occurrences.entry(step.id).or_insert(0);
        let occurrence = *next;
        *next += 1;
        let step_id = step.id;
        events.push(Event::Begin { step: step_id, occurrence });
        let buffers: Vec<&String> = match &step.call {
            Call::Check { buffer, .. } | Call::Guards { buffer } => vec![buffer],
            Call::Equal { a, b } | Call::Differ { a, b } => vec![a, b],
            _ => Vec::new(),
        };
        for (n, buffer) in buffers.into_iter().enumerate() {
            let right = wanted.iter().find(|(s, o, _)| (*s, *o) == (step_id, occurrence));
            let same = !matches!(step.call, Call::Differ { .. });
            let digest = match right {
                Some((_, _, digest)) => digest.clone(),
                None if same => "same".to_owned(),
                None => format!("different {n}"),
            };
            let of_step = &whole.buffers[buffer];
            let bytes = match step.call {
                Call::Guards { .. } => 2 * of_step.guard(),
                _ => of_step.bytes,
            };
            let buffer = match step.call {
                Call::Guards { .. } => format!("{buffer}.guards"),
                _ => buffer.clone(),
            };
            events.push(Event::Data {
                step: step_id,
                occurrence,
                buffer,
                bytes,
                digest,
                file: None,
            });
        }
        let status = match plan::api(&step.call, whole) {
            api if api.starts_with("host ") => "",
            api if api.starts_with("hiprtc") => "HIPRTC_SUCCESS",
            _ => "hipSuccess",
        };
        events.push(Event::End {
            step: step_id,
            occurrence,
            code: 0,
            status: status.to_owned(),
            value: None,
            function: None,
            address: None,
            ns: 1000,
        });
    }
}

/// Plan and events of a real worker, one JSON value per line. The test `harness/cli/tests/cli/worker_events.rs` updates
/// the file.
const RECORDED: &str = include_str!("../recorded/saxpy.jsonl");

pub(crate) fn recorded() -> (Plan, Vec<Event>) {
    let mut lines = RECORDED.lines();
    let plan = serde_json::from_str(lines.next().expect("a plan")).expect("a plan");
    (plan, lines.map(|line| serde_json::from_str(line).expect("an event")).collect())
}

#[test]
fn healthy_run_has_the_events_of_a_recorded_one() {
    use serde_json::{Value, json};
    /// Returns an event as JSON without the values that depend on the machine, the stack or the time.
    fn form(event: &Event) -> Value {
        let mut form = serde_json::to_value(event).expect("it is JSON");
        let fields = form.as_object_mut().expect("an object");
        for name in ["environment", "limits", "libraries", "name", "memory", "emulated"] {
            fields.get_mut(name).into_iter().for_each(|value| *value = json!("any"));
        }
        form
    }
    let (plan, reported) = recorded();
    let made = Run::healthy(plan).seen.events;
    let forms = |events: &[Event]| events.iter().map(form).collect::<Vec<_>>();
    for (made, reported) in forms(&made).into_iter().zip(forms(&reported)) {
        assert_eq!(made, reported);
    }
    assert_eq!(made.len(), reported.len());
}
