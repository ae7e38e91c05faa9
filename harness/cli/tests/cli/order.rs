//! Tests the order of accesses that `rocrepro case check` requires. Random programs that it accepts run on the emulated
//! device with schedules that delay work, and must give the right results. The device's sanitizer is an independent
//! reference: it follows vector clocks of queues, signals and copies, and does not read plans.
//!
//! `ROCREPRO_ORDER_PROGRAMS` is the number of random programs (default 300).

mod program;

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use case::{Body, Case, Kernels, Lowered, Trial, lower};
use device::{Arch, Config, Sanitize, Schedule};
use plan::{Call, Plan, Step, analyse, races, reference};
use rocrepro::{Job, Session, run_trial};

use self::program::{FRAME, Program, steps};
use crate::common::{library, never, ran_in_own_process, session};

const SCHEDULES: [Schedule; 5] = [
    Schedule::Eager,
    Schedule::Lazy,
    Schedule::Seeded(1),
    Schedule::Seeded(2),
    Schedule::Seeded(3),
];

/// Number of accepted programs in one process. The device becomes idle after each.
const TOGETHER: usize = 16;

struct Frame {
    case: Case,
    trial: Trial,
    plan: Plan,
    sessions: Vec<Session>,
}

impl Frame {
    fn new() -> Frame {
        let case = Case::parse("drawn", FRAME).expect("the frame is a case");
        let trial = case.trials().remove(0);
        let plan =
            lower(&case, &trial, library().kernels(), &[]).expect("the frame is well-formed").plan;
        let sessions = SCHEDULES.map(|schedule| {
            session(|options| {
                options.emulation = Config::for_arch(Arch::Gfx1151, Sanitize::On);
                options.emulation.schedule = schedule;
            })
        });
        Frame { case, trial, plan, sessions: sessions.into() }
    }

    /// Returns a plan that runs these programs one after the other.
    fn plan(&self, programs: &[&Program]) -> Plan {
        let body = &self.plan.body;
        let place = body.iter().position(|step| step.call == Call::GetLastError).expect("a place");
        let (before, after) = (&body[..place], &body[place + 1..]);
        let calls = |steps: &[Step]| steps.iter().map(|step| step.call.clone()).collect::<Vec<_>>();
        let mut all = calls(before);
        for program in programs {
            all.extend(program.calls());
            all.extend(calls(after));
        }
        Plan { body: steps(all, 1000), ..self.plan.clone() }
    }

    /// Runs the plan with a schedule. Returns a description of the failure, or `None` if the results are those of
    /// program order.
    fn run(&self, plan: &Plan, schedule: usize) -> Option<String> {
        let reference = reference(plan).expect("it was analysed");
        let lowered = Lowered { plan: plan.clone(), body: Body::Calls(reference) };
        let job = Job { case: &self.case, trial: &self.trial, lowered, run: 0, faults: Vec::new() };
        let record =
            run_trial(&self.sessions[schedule], &job, &never()).expect("it is not cancelled");
        let outcome = &record.outcome;
        let why = || format!("{} {:?}", outcome.summary, outcome.details);
        (outcome.kind != judge::Kind::Pass)
            .then(|| format!("{}: {}: {}", SCHEDULES[schedule], outcome.signature, why()))
    }

    fn shows(&self, plan: &Plan) -> Option<String> {
        (0..SCHEDULES.len()).find_map(|schedule| self.run(plan, schedule))
    }

    /// Returns the smallest variant of the program for which `wanted` returns true.
    fn shrink(&self, program: &Program, wanted: impl Fn(&Plan) -> bool) -> Program {
        let mut program = program.clone();
        while let Some(less) = program.smaller().into_iter().find(|less| {
            let plan = self.plan(&[less]);
            analyse(&plan).is_ok() && wanted(&plan)
        }) {
            program = less;
        }
        program
    }
}

/// Returns the number of random programs to test.
fn wanted() -> u64 {
    std::env::var("ROCREPRO_ORDER_PROGRAMS")
        .ok()
        .map_or(300, |text| text.parse().expect("ROCREPRO_ORDER_PROGRAMS is a number"))
}

/// Calls `work` for each item, with one thread per processor.
fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(item);
                    done.lock().expect("no thread panicked").push(result);
                }
            });
        }
    });
    done.into_inner().expect("no thread panicked")
}

/// Programs, each with its number, from which it was drawn.
type Drawn = Vec<(u64, Program)>;

/// Draws well-formed programs. Returns those that `rocrepro case check` accepts, and those that it refuses.
fn drawn(frame: &Frame) -> (Drawn, Drawn) {
    let programs = (0..wanted()).map(|number| (number, Program::draw(number)));
    let sound = programs.filter(|(_, program)| analyse(&frame.plan(&[program])).is_ok());
    sound.partition(|(_, program)| races(&frame.plan(&[program])).is_empty())
}

#[test]
fn accepts_only_programs_that_pass_on_every_schedule() {
    if ran_in_own_process("order::accepts_only_programs_that_pass_on_every_schedule") {
        return;
    }
    let frame = Frame::new();
    let (accepted, refused) = drawn(&frame);
    eprintln!("{} accepted, {} refused of {}", accepted.len(), refused.len(), wanted());
    let batches: Vec<_> = accepted.chunks(TOGETHER).collect();
    let runs: Vec<_> = batches
        .iter()
        .flat_map(|batch| (0..SCHEDULES.len()).map(move |schedule| (batch, schedule)))
        .collect();
    let found = each(&runs, |(batch, schedule)| {
        let programs: Vec<_> = batch.iter().map(|(_, program)| program).collect();
        let plan = frame.plan(&programs);
        assert_eq!(
            races(&plan),
            [],
            "each of them is accepted, and the device is idle between them"
        );
        let shown = frame.run(&plan, *schedule)?;
        // Only one of the programs in the batch may fail, so each is run alone. A race need not show in each run.
        let again = |plan: &Plan| (0..3).find_map(|_| frame.run(plan, *schedule));
        let alone = |program: &Program| again(&frame.plan(&[program]));
        let Some((number, program)) = batch.iter().find(|(_, program)| alone(program).is_some())
        else {
            return Some(format!("programs from {} on: {shown}", batch[0].0));
        };
        let small = frame
            .shrink(program, |plan| races(plan).is_empty() && frame.run(plan, *schedule).is_some());
        let shown = alone(&small).unwrap_or_default();
        let calls: Vec<_> = small.0.iter().map(|action| format!("{action:?}")).collect();
        Some(format!("program {number}:\n  {}\n  {shown}", calls.join("\n  ")))
    });
    let found: Vec<_> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{} of {} runs:\n{}", found.len(), runs.len(), found.join("\n"));
}

/// Of the refused programs, at least three quarters must show a race. The others cannot, because the sanitizer does not
/// see accesses of the host, and because ROCm 7.2.4 keeps more order than the API promises.
#[test]
fn refuses_mostly_programs_that_show_a_race() {
    if ran_in_own_process("order::refuses_mostly_programs_that_show_a_race") {
        return;
    }
    let frame = Frame::new();
    let (_, mut refused) = drawn(&frame);
    refused.truncate((wanted() / 10) as usize);
    let shown = each(&refused, |(number, program)| {
        // The program is shrunk to a single race.
        let small = frame.shrink(program, |plan| !races(plan).is_empty());
        let plan = frame.plan(&[&small]);
        let why = races(&plan).remove(0).message;
        frame.shows(&plan).is_none().then(|| format!("program {number}: {why}\n  {:?}", small.0))
    });
    let hidden: Vec<_> = shown.iter().flatten().map(String::as_str).collect();
    let all = refused.len();
    eprintln!("{} of {all} refused programs show nothing:\n{}", hidden.len(), hidden.join("\n"));
    assert!(all > 0 && hidden.len() * 4 <= all, "{} of {all} show nothing", hidden.len());
}

/// A case with two copies inside the device. The copy on the null stream may still run when the call returns; the other
/// copy is on a non-blocking stream.
const COPY_INSIDE: &str = "\
title: A copy inside the device, then one on another stream
source: [made for this test]
streams: {s: non_blocking}
buffers:
  first: {on: device, bytes: 1M, fill: pattern}
  second: {on: device, bytes: 1M}
  back: {on: host.pinned, bytes: 1M}
steps:
  - copy: {to: second, from: first}
  - copy: {to: back, from: second, stream: s}
  - sync: s
  - check: back
faults: [copy.zero]
";

#[test]
fn refuses_an_unordered_copy_on_a_non_blocking_stream() {
    if ran_in_own_process("order::refuses_an_unordered_copy_on_a_non_blocking_stream") {
        return;
    }
    let frame = Frame::new();
    let read = |text: &str| {
        let case = Case::parse("copies/inside", text).expect("its header is good");
        let lowered = lower(&case, &case.trials()[0], &Kernels::new(), &[]);
        lowered.map(|lowered| lowered.plan)
    };
    let mistakes = read(COPY_INSIDE).expect_err("it is racy");
    let printed: Vec<_> = mistakes.iter().map(|m| (m.at.line, m.message.as_str())).collect();
    let why = "buffer `second` is read by stream `s` while the null stream may still use it (line 9); order the two with a \
               synchronisation or an event";
    assert_eq!(printed, [(10, why)]);
    // The sanitizer reports the race of these two calls with every schedule.
    let waiting =
        COPY_INSIDE.replace("  - copy: {to: back", "  - sync: default\n  - copy: {to: back");
    let sound = read(&waiting).expect("it is well-formed");
    let mut racy = sound.clone();
    racy.body.retain(|step| step.call != Call::StreamSynchronize { stream: "default".into() });
    assert_eq!(racy.body.len() + 1, sound.body.len());
    for (schedule, name) in SCHEDULES.iter().enumerate() {
        assert_eq!(frame.run(&sound, schedule), None);
        let shown = frame.run(&racy, schedule).expect("it shows");
        assert!(
            shown.contains("unordered accesses") && shown.contains("`second`"),
            "{name}: {shown}"
        );
    }
}
