use std::time::Duration;

use device::{Config, Identity, Mapped, Witness};
use plan::{
    Event, Program,
    program::{Packages, ProgramBody, ProgramExpectations, Source},
};

use crate::{
    CheckSubject::{self, Answer, Data, Leak},
    Crash, CrashedCall, CrashedThread, End, FailedCheck, Kind, LeftProcess, Limit, Location,
    Observation, Outcome, ProgramContext, ProgramMessage as Message, ProgramObservation, RaisedAt,
    device_events, is_stated, judge_program, other_hip,
};

const NONCE: &str = "n0nce";

fn program() -> Program {
    let text = "import rocrepro\nrocrepro.equal('sum', 1, 1)\n".to_owned();
    Program {
        what: ProgramBody::Python(Source { text, file: None, above: 6 }),
        arguments: Vec::new(),
        packages: Packages::None,
        groups: Vec::new(),
        parameters: Default::default(),
        stated: ProgramExpectations::default(),
        line: 5,
    }
}

fn command(stated: ProgramExpectations) -> Program {
    Program { what: ProgramBody::Command(vec!["true".into()]), stated, ..program() }
}

fn begin() -> Message {
    Message::Begin { nonce: NONCE.to_owned(), runs_on: "Python 3".to_owned(), pid: 7 }
}

fn phase(name: &str) -> Message {
    Message::Phase { name: name.to_owned() }
}

fn check(wrong: Option<(CheckSubject, &str)>) -> Message {
    let wrong = wrong.map(|(about, class)| FailedCheck {
        about,
        class: class.to_owned(),
        text: "3 of 3 wrong".to_owned(),
        details: vec!["got 1".to_owned()],
    });
    Message::Check { name: "sum".to_owned(), line: 2, wrong }
}

fn witness(build_id: &str) -> Witness {
    let library = |name: &str, id: &str| Mapped {
        name: name.to_owned(),
        path: format!("/usr/lib/{name}"),
        build_id: Some(id.to_owned()),
    };
    Witness {
        pid: 7,
        identity: Identity { version: String::new(), config: Config::default() },
        reached: true,
        libraries: vec![library("libamdhip64.so.7", build_id)],
        others: Vec::new(),
    }
}

/// Returns the report of a process whose HIP runtime used another HSA runtime than the emulated device.
fn astray() -> Witness {
    let other = Mapped {
        name: "libhsa-runtime64.so".to_owned(),
        path: "/torch/lib/libhsa-runtime64.so".to_owned(),
        build_id: None,
    };
    Witness { reached: false, others: vec![other], ..witness("bb") }
}

struct Run {
    program: Program,
    said: Vec<Message>,
    witnesses: Vec<Witness>,
    end: End,
    stdout: &'static str,
    stderr: &'static str,
    left_behind: Vec<LeftProcess>,
    crash: Option<Crash>,
}

fn good() -> Run {
    Run {
        program: program(),
        said: vec![begin(), check(None), Message::Done { pid: 7 }],
        witnesses: vec![witness("aa")],
        end: End::Exited(0),
        stdout: "",
        stderr: "",
        left_behind: Vec::new(),
        crash: None,
    }
}

impl Run {
    fn outcome(&self) -> Outcome {
        self.judged().0
    }

    fn judged(&self) -> (Outcome, Vec<Location>) {
        let observation = Observation {
            events: Vec::new(),
            noise: Vec::new(),
            garbage: Vec::new(),
            end: self.end.clone(),
            stderr: self.stderr.to_owned(),
            stderr_dropped: 0,
            stacks: Vec::new(),
            left_behind: self.left_behind.clone(),
            wall: Duration::from_secs(1),
        };
        let seen = ProgramObservation {
            messages: &self.said,
            witnesses: &self.witnesses,
            stdout: self.stdout,
            observation: &observation,
            crash: self.crash.as_ref(),
        };
        let context = ProgramContext {
            program: &self.program,
            nonce: NONCE,
            emulated: &Config::default(),
            runtime: Some("aa"),
            device_build: None,
            spec: "debian:7.2.4",
        };
        judge_program(&seen, &context)
    }

    #[track_caller]
    fn is(&self, signature: &str) -> Outcome {
        let outcome = self.outcome();
        assert_eq!(outcome.signature, signature, "{outcome:?}");
        outcome
    }
}

#[test]
fn program_passes_if_it_checked_something_and_reached_its_end() {
    let pass = good().is("pass");
    assert_eq!(pass.summary, "1 check passed, and the program reached its end");
    Run { said: vec![begin(), Message::Done { pid: 7 }], ..good() }.is("no-verdict:no-check");
    Run { said: vec![begin(), check(None)], ..good() }.is("library-exit:program");
    Run { said: vec![begin(), phase("copy"), check(None)], ..good() }.is("library-exit:copy");
    // A program that never imported the helper cannot have reported its end.
    Run { said: Vec::new(), ..good() }.is("library-exit:program");
}

#[test]
fn first_failed_check_decides() {
    let said = vec![begin(), check(None), check(Some((Data, "zero"))), Message::Done { pid: 7 }];
    let zero = Run { said, ..good() }.is("wrong-data:sum:zero");
    // Line 1 of the program is line 7 of the case, so line 2 is line 8.
    assert_eq!(zero.at.line, Some(8));
    assert_eq!(zero.summary, "sum (line 8): 3 of 3 wrong");
    assert!(is_stated(device::Fault::CopyZero, &zero));
    let answer = vec![begin(), check(Some((Answer, "hipErrorUnknown"))), Message::Done { pid: 7 }];
    Run { said: answer, ..good() }.is("api-error:sum:hipErrorUnknown");
    let leak = vec![begin(), check(Some((Leak, "lost"))), Message::Done { pid: 7 }];
    Run { said: leak, ..good() }.is("leak:sum:lost");
    let two = vec![begin(), check(Some((Data, "nan"))), check(Some((Data, "zero")))];
    let crashed = Run { said: two, end: End::Signalled { signal: 11 }, ..good() };
    let first = crashed.is("wrong-data:sum:nan");
    assert!(first.details.iter().any(|d| d.starts_with("Also: sum")), "{first:?}");
    assert!(
        first.details.iter().any(|d| d.contains("Afterwards: the program was killed by SIGSEGV"))
    );
    let exception =
        Message::Exception { name: "KeyError".into(), text: "x".into(), line: 1, place: None };
    let raised = Run { said: vec![begin(), exception], end: End::Exited(1), ..good() };
    assert_eq!(raised.is("exception:KeyError:program.py:1").at.line, Some(7));
}

/// If the release does not know the architecture, the failure says nothing about ROCm. If a check was made before, the
/// device was there.
#[test]
fn program_without_a_device_has_no_verdict() {
    let raised = || Message::Exception {
        name: "hipErrorNoDevice".into(),
        text: "HIP".into(),
        line: 6,
        place: None,
    };
    let first = Run { said: vec![begin(), raised()], end: End::Exited(1), ..good() };
    let outcome = first.is("no-verdict:no-device");
    assert!(outcome.summary.contains("may not support the emulated gfx1151"), "{outcome:?}");
    let later = Run { said: vec![begin(), check(None), raised()], end: End::Exited(1), ..good() };
    later.is("exception:hipErrorNoDevice:program.py:6");
}

/// The helper reports one of the two exceptions. Python prints the other one on standard error.
#[test]
fn exception_has_one_signature_with_and_without_helper() {
    let stderr = "Traceback (most recent call last):\n  File \"/tmp/a/program.py\", line 2, in <module>\n    f()\n  File \
                  \"/tmp/a/program.py\", line 1, in f\nKeyError: 'x'\n";
    let place = RaisedAt { file: "program.py".to_owned(), line: 1, function: "f".to_owned() };
    let exception = Message::Exception {
        name: "KeyError".to_owned(),
        text: "'x'".to_owned(),
        line: 1,
        place: Some(place),
    };
    let end = || End::Exited(1);
    let reported = Run { said: vec![begin(), exception], end: end(), stderr, ..good() };
    let plain = Run {
        program: command(ProgramExpectations::default()),
        said: Vec::new(),
        end: end(),
        stderr,
        ..good()
    };
    let with_helper = reported.is("exception:KeyError:program.py:1:f");
    let without = plain.is("exception:KeyError:program.py:1:f");
    assert_eq!(with_helper.summary, "the program ended with an exception (line 7): KeyError: 'x'");
    assert_eq!(without.summary, "the program ended with an exception: KeyError: 'x'");
    assert_eq!((with_helper.kind, with_helper.at.line), (without.kind, Some(7)));
    // If the exit status is not 1, the program continued after the traceback.
    let went_on = Run {
        program: command(ProgramExpectations::default()),
        said: Vec::new(),
        end: End::Exited(3),
        stderr,
        ..good()
    };
    went_on.is("exit:3:KeyError:-'x'");
}

#[test]
fn bare_exit_status_identifies_nothing() {
    let silent = Run {
        program: command(ProgramExpectations::default()),
        said: Vec::new(),
        end: End::Exited(1),
        ..good()
    };
    let outcome = silent.is("exit:1");
    assert!(outcome.summary.ends_with("printed nothing that identifies the failure"));
}

#[test]
fn only_the_first_process_reports_the_end() {
    let child = || Message::Begin { nonce: NONCE.to_owned(), runs_on: String::new(), pid: 8 };
    let said = |said| Run { said, ..good() };
    let done = |pid| Message::Done { pid };
    let early = said(vec![begin(), check(None), child(), done(8)]).is("library-exit:program");
    assert!(early.summary.contains("(one of its child processes did)"), "{}", early.summary);
    said(vec![begin(), child(), check(None), done(8), done(7)]).is("pass");
    // The parent process executes more checks after its child has ended.
    said(vec![begin(), child(), done(8), check(None), done(7)]).is("pass");
    said(vec![begin(), check(None), done(7), check(None)]).is("no-verdict:done-early");
    let wrong = Some((Data, "other"));
    said(vec![begin(), check(None), done(7), check(wrong)]).is("wrong-data:sum:other");
}

#[test]
fn end_of_a_program_is_judged_by_its_progress() {
    let at = |end, said| Run { end, said, ..good() };
    let middle = || vec![begin(), phase("launch")];
    let over = || vec![begin(), check(None), Message::Done { pid: 7 }];
    at(End::Exited(3), middle()).is("exit:3");
    at(End::Signalled { signal: 11 }, middle()).is("crash:launch:SIGSEGV");
    at(End::Signalled { signal: 6 }, over()).is("teardown-crash");
    // A process that exits by itself did not crash.
    at(End::Exited(3), over()).is("exit:3");
    at(End::TimedOut { limit: Limit::Quiet }, middle()).is("hang:launch");
    at(End::TimedOut { limit: Limit::Total }, over()).is("hang:teardown");
    // A signal from outside ended the program.
    at(End::Signalled { signal: 9 }, middle()).is("no-verdict:killed");
    at(End::NotStarted("no memory".into()), Vec::new()).is("no-verdict:not-started");
    at(End::Lost("flooded".into()), middle()).is("no-verdict:lost");
}

fn left(name: &str, command: &[&str]) -> LeftProcess {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    LeftProcess { name: name.to_owned(), command }
}

#[test]
fn processes_that_a_program_leaves_are_named_and_workers_are_no_failure() {
    let run = |left_behind: &[LeftProcess]| Run { left_behind: left_behind.to_vec(), ..good() };
    let sleeper = left("sleep", &["sleep", "1000"]);
    let one = run(std::slice::from_ref(&sleeper)).is("leak:process");
    assert_eq!(one.summary, "the program left a process running");
    assert!(one.details.contains(&"Still running: sleep 1000".to_owned()), "{one:?}");
    let workers = [
        left("python3", &["/v/bin/python3", "/v/lib/torch/_inductor/compile_worker/__main__.py"]),
        left(
            "python3",
            &["python3", "-c", "from multiprocessing.resource_tracker import main;main(5)"],
        ),
        left(
            "python3",
            &["python3", "-c", "from multiprocessing.forkserver import main; main(3, 4)"],
        ),
        left("pt_data_worker", &["python3", "train.py"]),
    ];
    let names = [
        "a compile worker of PyTorch's Inductor",
        "the resource tracker of Python's multiprocessing",
        "a process of the fork server of Python's multiprocessing",
        "a worker of PyTorch's DataLoader",
    ];
    let passed = run(&workers).is("pass");
    assert_eq!(passed.details.len(), workers.len());
    for (detail, name) in passed.details.iter().zip(names) {
        assert!(detail.starts_with("Still running: ") && detail.ends_with(name), "{detail}");
    }
    // If the same words are elsewhere in a command line, the process is not a worker.
    for other in [
        left(
            "python3",
            &["python3", "train.py", "from multiprocessing.resource_tracker import main"],
        ),
        left("cat", &["cat", "/v/lib/torch/_inductor/compile_worker/__main__.py"]),
        left("python3", &["python3", "train.py"]),
        left("", &[]),
    ] {
        run(std::slice::from_ref(&other)).is("leak:process");
        let mixed = [&workers[..], &[other, sleeper.clone()]].concat();
        let both = run(&mixed).is("leak:process");
        assert_eq!(both.summary, "the program left 2 processes running");
        assert_eq!(both.details.iter().filter(|it| it.contains("Still running")).count(), 6);
    }
}

#[test]
fn programs_that_bypassed_the_device_have_no_verdict() {
    let skip = |why: &str| vec![begin(), Message::Skip { why: why.to_owned() }];
    Run { said: skip("no GPU"), ..good() }.is("skip:program");
    Run { said: skip("no torch"), witnesses: Vec::new(), ..good() }.is("skip:program");
    let never = Witness { reached: false, ..witness("bb") };
    for (witnesses, names) in [
        (vec![astray()], "/torch/lib/libhsa-runtime64.so"),
        (vec![witness("aa"), astray()], "/torch/lib/libhsa-runtime64.so"),
        (vec![never.clone()], "never used the device"),
    ] {
        for said in [good().said, skip("no GPU"), vec![begin(), check(Some((Data, "x")))]] {
            let outcome =
                Run { witnesses: witnesses.clone(), said, ..good() }.is("no-verdict:device");
            assert!(outcome.summary.contains(names), "{outcome:?}");
        }
    }
    let source = Source { text: String::new(), file: None, above: 6 };
    let what = ProgramBody::Cpp { source, arch: Vec::new(), options: Vec::new() };
    let linked = Program { what, ..program() };
    Run { program: linked, witnesses: vec![never.clone()], said: skip("no driver"), ..good() }
        .is("skip:program");
    // A child process that only imports a framework does not use the device.
    Run { witnesses: vec![witness("aa"), never], ..good() }.is("pass");
    let text = "ImportError: /torch/lib/libamdhip64.so: undefined symbol: hsa_of_8, version ROCR_1";
    let exception =
        Message::Exception { name: "ImportError".into(), text: text.into(), line: 1, place: None };
    let missing = Run { said: vec![begin(), exception], end: End::Exited(1), ..good() };
    let outcome = missing.is("no-verdict:symbol");
    assert!(outcome.summary.contains("`hsa_of_8`"), "{outcome:?}");
    Run { said: skip(text), witnesses: Vec::new(), ..good() }.is("no-verdict:symbol");
}

#[test]
fn libraries_that_a_program_loads_later_are_known() {
    let compiler = Mapped {
        name: "libLLVM.so.22.1".to_owned(),
        path: "/usr/lib/libLLVM.so.22.1".to_owned(),
        build_id: Some("cc".to_owned()),
    };
    let (first, mut last) = (witness("aa"), witness("aa"));
    last.libraries.push(compiler.clone());
    let child = Witness { pid: first.pid + 1, libraries: vec![compiler], ..witness("aa") };
    let names = |witnesses: &[Witness]| -> Vec<String> {
        let events = device_events(witnesses);
        let Some(Event::Loaded { libraries }) = events.first() else { return Vec::new() };
        libraries.iter().map(|library| library.name.clone()).collect()
    };
    let at_first = names(std::slice::from_ref(&first));
    assert_eq!(names(&[first.clone(), child]), at_first, "a library of another process");
    let all = [at_first, vec!["libLLVM.so.22.1".to_owned()]].concat();
    assert_eq!(names(&[first, last]), all);
}

#[test]
fn programs_may_bring_their_own_hip() {
    let brings = Run { witnesses: vec![witness("bb")], ..good() };
    brings.is("pass");
    assert_eq!(other_hip(&brings.witnesses, Some("aa")).unwrap().path, "/usr/lib/libamdhip64.so.7");
    assert_eq!(other_hip(&[witness("aa")], Some("aa")), None);
    assert_eq!(other_hip(&[astray()], Some("aa")), None);
    // A program that the stack's compiler built cannot contain a HIP runtime of its own.
    let source = Source { text: String::new(), file: None, above: 6 };
    let what = ProgramBody::Cpp { source, arch: Vec::new(), options: Vec::new() };
    let compiled = Program { what, ..program() };
    Run { program: compiled, witnesses: vec![witness("bb")], ..good() }.is("no-verdict:stack");
}

#[test]
fn unproven_programs_have_no_verdict() {
    Run { witnesses: Vec::new(), ..good() }.is("no-verdict:device");
    let crashed = End::Signalled { signal: 11 };
    Run { witnesses: Vec::new(), end: crashed, ..good() }.is("no-verdict:device");
    Run { witnesses: vec![witness("aa"), witness("bb")], ..good() }.is("no-verdict:stack");
    let mut other = witness("aa");
    other.identity.config.memory = 1 << 20;
    Run { witnesses: vec![other], ..good() }.is("no-verdict:device");
    let stranger = Message::Begin { nonce: "x".into(), runs_on: String::new(), pid: 7 };
    Run { said: vec![stranger, check(None), Message::Done { pid: 7 }], ..good() }
        .is("no-verdict:worker");
    Run { said: vec![check(None), Message::Done { pid: 7 }], ..good() }.is("no-verdict:worker");
    let gap = "rocrepro-device: gap: kernel k: unimplemented instruction\n";
    Run { stderr: gap, end: End::Exited(1), ..good() }.is("no-verdict:gap");
    let skip = Message::Skip { why: "no numpy".to_owned() };
    Run { said: vec![begin(), skip], ..good() }.is("skip:program");
}

#[test]
fn commands_are_judged_by_their_required_output() {
    let stated = |says: &[&str], never: &[&str], exit| ProgramExpectations {
        exit,
        says: says.iter().map(|s| (*s).to_owned()).collect(),
        never: never.iter().map(|s| (*s).to_owned()).collect(),
    };
    let run = |stated, stdout, end| Run {
        program: command(stated),
        said: Vec::new(),
        stdout,
        end,
        ..good()
    };
    let says = || stated(&["sum 7"], &["Error"], None);
    let pass = run(says(), "sum 7\n", End::Exited(0)).is("pass");
    assert_eq!(pass.summary, "the program ended with the required output");
    run(says(), "sum 8\n", End::Exited(0)).is("wrong-data:output:missing");
    run(says(), "sum 7\nError\n", End::Exited(0)).is("wrong-data:output:forbidden");
    run(says(), "sum 7\n", End::Exited(2)).is("exit:2:sum-#");
    run(stated(&[], &[], Some(2)), "", End::Exited(2)).is("pass");
    run(stated(&[], &[], Some(2)), "", End::Exited(0)).is("exit:0");
}

#[test]
fn device_faults_fail_a_program_that_does_not_expect_them() {
    let fault = "rocrepro-device: fault: kernel k: device-side abort\n";
    Run { stderr: fault, ..good() }.is("memory-fault:k");
    let said = vec![begin(), Message::ToldOfFault, check(None), Message::Done { pid: 7 }];
    Run { stderr: fault, said, ..good() }.is("pass");
    let finding = "rocrepro-device: finding: kernel k: a race\n";
    Run { stderr: finding, ..good() }.is("memory-fault:k");
    let asserts = "Device-side assertion `n > 0' failed.\nrocrepro-device: fault: kernel k: device-side abort: s_trap 2\n";
    let says =
        |text: &str| ProgramExpectations { says: vec![text.to_owned()], ..Default::default() };
    let run = |says| Run {
        program: command(says),
        said: Vec::new(),
        stderr: asserts,
        stdout: "end\n",
        end: End::Exited(0),
        ..good()
    };
    run(says("Device-side assertion")).is("pass");
    run(says("end")).is("memory-fault:k");
    let both = "Device-side assertion `n > 0' failed.\nrocrepro-device: fault: kernel k: device-side abort: s_trap 2\n\
                rocrepro-device: fault: kernel k: read of unmapped address 0x10\n";
    Run { stderr: both, ..run(says("Device-side assertion")) }.is("memory-fault:k");
    run(says("Device-side assertion `m")).is("wrong-data:output:missing");
}

#[test]
fn failed_check_decides_whatever_follows() {
    let wrong = check(Some((Data, "zero")));
    let skip = Message::Skip { why: "no numpy".to_owned() };
    Run { said: vec![begin(), wrong.clone(), skip], ..good() }.is("wrong-data:sum:zero");
    let ended = Run { said: vec![begin(), wrong], end: End::Signalled { signal: 15 }, ..good() };
    ended.is("wrong-data:sum:zero");
}

#[test]
fn location_is_a_line_of_the_case_or_the_program() {
    let answer = check(Some((Answer, "hipErrorUnknown")));
    let exception = Message::Exception {
        name: "KeyError".to_owned(),
        text: "'x'".to_owned(),
        line: 1,
        place: None,
    };
    let said = vec![begin(), check(None), check(Some((Data, "zero"))), answer, exception];
    let (first, red) = Run { said: said.clone(), ..good() }.judged();
    let places: Vec<_> = red.iter().map(|at| (at.line, at.api.as_deref())).collect();
    assert_eq!(places, [(Some(8), None), (Some(8), Some("sum")), (Some(7), None)]);
    assert_eq!((first.at.line, first.at.api), (Some(8), None));
    // Each wrong check is followed by its values.
    assert_eq!(first.details[..3], ["got 1", "Also: sum (line 8): 3 of 3 wrong", "got 1"]);
    let answered = Run { said: vec![begin(), said[3].clone()], ..good() }.outcome();
    assert_eq!((answered.at.line, answered.at.api.as_deref()), (Some(8), Some("sum")));

    let text = "import rocrepro\n".to_owned();
    let what = ProgramBody::Python(Source { text, file: Some("sums.py".to_owned()), above: 0 });
    let (outcome, red) = Run { program: Program { what, ..program() }, said, ..good() }.judged();
    assert_eq!(outcome.summary, "sum (line 2 of sums.py): 3 of 3 wrong");
    assert!(red.iter().all(|at| at.line == Some(5)), "{red:?}");

    // For some checks, the helper reports no line of the program.
    let nowhere = match check(Some((Data, "zero"))) {
        Message::Check { name, wrong, .. } => Message::Check { name, line: 0, wrong },
        other => other,
    };
    let outcome = Run { said: vec![begin(), nowhere], ..good() }.is("wrong-data:sum:zero");
    assert_eq!((outcome.at.line, &*outcome.summary), (Some(5), "sum: 3 of 3 wrong"));
}

#[test]
fn failed_start_differs_from_exit_status_127() {
    let stderr = "starter: cannot set the limit `files`\n";
    let ended = |stderr| Run { end: End::Exited(127), said: Vec::new(), stderr, ..good() };
    let outcome = ended(stderr).is("no-verdict:not-started");
    assert!(outcome.summary.ends_with(": cannot set the limit `files`"), "{outcome:?}");
    ended("sh: 1: some: not found\n").is("exit:127:sh:-#:-some:-not-found");
}

#[test]
fn explained_failure_keeps_its_details() {
    let said = vec![begin(), check(Some((Data, "zero")))];
    let failed = Run { said, ..good() }.is("wrong-data:sum:zero");
    let put_down = failed.clone().attribute_to("no-verdict:hardware", "the GPU".to_owned());
    assert_eq!((put_down.kind, &*put_down.signature), (Kind::NoVerdict, "no-verdict:hardware"));
    assert_eq!((&*put_down.summary, &put_down.details[0]), ("the GPU", &failed.summary));
    assert_eq!((put_down.details[1..].to_vec(), put_down.at), (failed.details, failed.at));
}

#[test]
fn last_lines_of_output_are_shown() {
    let failed = Run {
        said: vec![begin(), check(Some((Data, "zero")))],
        stderr: "a warning\nzeros\n\n",
        stdout: "sum 0\n",
        ..good()
    };
    let lines = |outcome: Outcome| -> Vec<String> {
        outcome.details.into_iter().filter(|line| line.starts_with("Last line")).collect()
    };
    assert_eq!(
        lines(failed.outcome()),
        ["Last line on standard error: zeros", "Last line on standard output: sum 0"]
    );
    assert_eq!(lines(Run { stdout: "done\n", ..good() }.is("pass")), Vec::<String>::new());
}

#[test]
fn device_reports_are_recorded_as_worker_events() {
    assert_eq!(device_events(&[]), []);
    let mut first = witness("aa");
    first.identity.config.devices = 2;
    let events = device_events(&[first.clone(), witness("bb")]);
    let [Event::Loaded { libraries }, Event::Device { count, gfx, memory, emulated, .. }] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    let named: Vec<_> = libraries.iter().map(|l| (&*l.name, l.build_id.as_deref())).collect();
    assert_eq!(named, [("libamdhip64.so.7", Some("aa"))]);
    let config = &first.identity.config;
    assert_eq!((*count, &**gfx, *memory), (2, config.arch.name(), config.memory));
    assert_eq!(emulated.as_ref(), Some(&first.identity));
}

#[test]
fn crash_names_the_call_and_keeps_its_signature() {
    let call = |function: &str, file: &str| CrashedCall {
        file: file.to_owned(),
        function: Some(function.to_owned()),
        offset: 1,
        build_id: None,
    };
    let calls = vec![call("hipFree", "libamdhip64.so.7"), call("main", "a.out")];
    let thread = CrashedThread { name: "a.out".to_owned(), calls, is_complete: true };
    let crash = Some(Crash { pid: 7, signal: 11, thread, ..Crash::default() });
    let end = End::Signalled { signal: 11 };
    let crashed = |said| Run { said, end: end.clone(), crash: crash.clone(), ..good() };
    let found = crashed(vec![begin()]).is("crash:program:SIGSEGV");
    assert_eq!(found.summary, "the program died of SIGSEGV in hipFree");
    assert_eq!(found.at.api.as_deref(), Some("hipFree"));
    let found = crashed(vec![begin(), phase("launch")]).is("crash:launch:SIGSEGV");
    assert_eq!(found.summary, "the program died of SIGSEGV in hipFree, in phase launch");
    let found = crashed(good().said).is("teardown-crash");
    assert_eq!(
        found.summary,
        "the program died of SIGSEGV in hipFree, after it had reported its end"
    );
    // If the stacks are those of another signal, they do not belong to this end.
    let other = Run { end: End::Signalled { signal: 6 }, ..crashed(vec![begin()]) };
    let found = other.is("crash:program:SIGABRT");
    assert_eq!(found.summary, "the program was killed by SIGABRT in phase program");
    let shell = Run { end: End::Exited(139), ..crashed(vec![begin()]) };
    let found = shell.is("exit:139");
    assert_eq!(found.details[0], "Process 7: the program died of SIGSEGV in hipFree");
}
