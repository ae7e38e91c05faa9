//! Tests the worker as a process: its events, and how it ends. The tests do not need ROCm. Tests that need results from
//! a HIP runtime load the library of `examples/pretend_hip.rs`.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::symlink,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
};

use libtest_mimic::{Arguments, Failed, Trial};
use plan::{Event, Order, PLAN_VERSION, Phase, Plan, digest, fill_stamp, pattern};
use serde_json::{Value, json};
use tempfile::TempDir;

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some("__worker") {
        return worker::main(env::args_os().skip(2));
    }
    macro_rules! trials {
        ($($name:ident),* $(,)?) => { vec![$(Trial::test(stringify!($name), $name)),*] };
    }
    let trials = trials![
        without_rocm_the_library_is_missing,
        missing_function_is_reported_before_set_up,
        bad_orders_exit_with_2,
        calls_are_reported_in_order_with_their_occurrence,
        failed_checked_call_stops_the_plan,
        injected_faults_take_effect_at_their_call,
        abort_ends_the_process_after_begin,
        only_wrong_or_unknown_bytes_are_kept,
        free_memory_is_measured_before_a_plan_that_counts_it,
        memory_that_comes_back_late_is_waited_for,
        closed_input_ends_the_worker,
        library_output_is_not_among_the_events,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A folder that contains the imitation of the HIP runtime under the file name of the real runtime. The worker also
/// writes buffer contents to this folder.
struct Stack(TempDir);

impl Stack {
    fn new() -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        symlink(pretend_hip()?, folder.path().join("libamdhip64.so.7"))?;
        Ok(Stack(folder))
    }

    fn spool(&self) -> &Path {
        self.0.path()
    }

    fn talk(&self, plan: &Value) -> Result<Output, Failed> {
        talk(worker(self.0.path()), &order(plan, self.spool(), &[]))
    }
}

/// Returns the path of the imitation of the HIP runtime. `cargo test` builds examples before tests run.
fn pretend_hip() -> Result<PathBuf, Failed> {
    let this = env::current_exe()?;
    let profile = this.parent().and_then(Path::parent).ok_or("no build folder")?;
    let library = profile.join("examples/libpretend_hip.so");
    match library.exists() {
        true => Ok(library),
        false => Err("run `cargo build -p worker --examples` first".into()),
    }
}

fn worker(libraries: &Path) -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this test is known"));
    command
        .arg("__worker")
        .env("LD_LIBRARY_PATH", libraries)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the worker and sends `input` to it. Standard input remains open until the worker has closed its output.
fn talk(mut command: Command, input: &str) -> Result<Output, Failed> {
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().ok_or("no pipe")?;
    stdin.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    drop(stdin);
    Ok(output)
}

/// Returns an empty plan in which the fields of `edit` replace the defaults.
fn plan(edit: &Value) -> Value {
    let mut plan = json!({
        "version": PLAN_VERSION, "trial": "t", "buffers": {}, "streams": {},
        "setup": [], "body": [], "verify": [], "teardown": [],
    });
    for (key, value) in edit.as_object().expect("an object") {
        plan[key] = value.clone();
    }
    plan
}

fn order(edit: &Value, spool: &Path, wanted: &[(u32, u32, String)]) -> String {
    let plan: Plan = serde_json::from_value(plan(edit)).expect("a plan");
    let order = Order {
        confinement: None,
        late: None,
        nonce: "a nonce".into(),
        plan,
        faults: Vec::new(),
        spool: spool.to_string_lossy().into_owned(),
        code_cache: None,
        wanted: wanted.to_vec(),
    };
    serde_json::to_string(&order).expect("an order is valid JSON") + "\n"
}

fn events(output: &Output) -> Result<Vec<Event>, Failed> {
    let text = String::from_utf8(output.stdout.clone())?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Returns the events in a short form. Events about the stack are left out.
fn short(events: &[Event]) -> Vec<String> {
    let mut out = Vec::new();
    for event in events {
        out.push(match event {
            Event::Phase { phase } => phase.to_string(),
            Event::Missing { what, .. } => format!("missing {what}"),
            Event::Begin { step, occurrence } => format!("begin {step}.{occurrence}"),
            Event::Delayed { times } => format!("delayed {times}"),
            Event::Mistaken { step, why } => format!("mistaken {step}: {}", why.join("; ")),
            Event::End { step, occurrence, code, status, .. } => {
                format!("end {step}.{occurrence} {code} {status}").trim_end().to_owned()
            }
            Event::Data { step, occurrence, buffer, .. } => {
                format!("data {step}.{occurrence} {buffer}")
            }
            Event::Stopped { step } => format!("stopped {step}"),
            Event::Broken { .. } => "broken".into(),
            Event::Ended { .. } => "ended".into(),
            Event::Done => "done".into(),
            Event::Bye => "bye".into(),
            Event::Acted { acts } => {
                let acts: Vec<_> =
                    acts.iter().map(|a| format!("{} {}", a.fault, a.times)).collect();
                format!("acted {}", acts.join(" "))
            }
            Event::Hello { .. }
            | Event::Confined { .. }
            | Event::Loaded { .. }
            | Event::FreeAtRest { .. }
            | Event::Device { .. } => continue,
        });
    }
    out
}

/// Runs a plan on the imitation of the HIP runtime, and compares the events after the initialisation with the expected
/// ones. Fails unless the worker ends normally.
fn check(edit: &Value, expected: &[&str]) -> Result<(), Failed> {
    let output = Stack::new()?.talk(edit)?;
    let reported = short(&events(&output)?);
    let after_init = reported.iter().position(|s| s == "init").map_or(reported.len(), |at| at + 1);
    let expected: Vec<_> = expected.iter().flat_map(|line| line.split(", ")).collect();
    assert_eq!(reported[after_init..], expected[..], "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(plan::WORKER_DONE));
    Ok(())
}

fn without_rocm_the_library_is_missing() -> Result<(), Failed> {
    if hip_sys::Hip::load(&hip_sys::Hip::SONAMES).is_ok() {
        // If ROCm is installed in the dynamic loader's default folders, no library is missing.
        return Ok(());
    }
    let empty = tempfile::tempdir()?;
    let output = talk(worker(empty.path()), &order(&json!({}), empty.path(), &[]))?;
    let events = events(&output)?;
    assert_eq!(short(&events), ["start", "load", "missing libamdhip64"]);
    let Some(Event::Hello { version: PLAN_VERSION, nonce, .. }) = events.first() else {
        return Err("no hello".into());
    };
    assert_eq!(nonce, "a nonce");
    let Some(Event::Missing { why, .. }) = events.last() else {
        return Err("nothing missing".into());
    };
    assert!(why.contains("libamdhip64.so.7") && why.contains("libamdhip64.so.5"), "{why}");
    assert_eq!(output.status.code(), Some(plan::WORKER_DONE));
    Ok(())
}

fn missing_function_is_reported_before_set_up() -> Result<(), Failed> {
    let stack = Stack::new()?;
    for (edit, expected) in [
        (json!({"functions": ["hipInit", "hipNothing"]}), "missing hipNothing"),
        (json!({"body": [{"id": 1, "call": "get_last_error"}]}), "missing hipGetLastError"),
        (
            json!({"teardown": [{"id": 1, "call": "rocblas_destroy", "handle": "h"}]}),
            "missing librocblas",
        ),
        (
            json!({"kernels": {"k": ""}, "setup": [{"id": 1, "call": "compile", "kernel": "k"}]}),
            "missing libhiprtc",
        ),
    ] {
        let output = stack.talk(&edit)?;
        assert_eq!(short(&events(&output)?), ["start", "load", expected], "{edit}");
        assert_eq!(output.status.code(), Some(plan::WORKER_DONE));
    }
    Ok(())
}

fn bad_orders_exit_with_2() -> Result<(), Failed> {
    let empty = tempfile::tempdir()?;
    let order = |edit: Value| order(&edit, empty.path(), &[]);
    for (input, expected) in [
        (String::new(), "closed before an order"),
        ("\n".into(), "EOF while parsing"),
        ("{\"nonce\": 1}\n".into(), "cannot be read"),
        ("\u{0}\u{1}\n".into(), "cannot be read"),
        (order(json!({"version": 99})), "version 99"),
        (
            order(json!({"body": [{"id": 7, "call": "check", "buffer": "b"}]})),
            "buffer `b` does not exist",
        ),
        (
            order(json!({
                "buffers": {"b": {"memory": "device", "bytes": 4, "guarded": true}},
                "body": [{"id": 7, "call": "check", "buffer": "b"}],
            })),
            "the host cannot read or write buffer `b`",
        ),
    ] {
        let mut command = worker(empty.path());
        if input.is_empty() {
            command.stdin(Stdio::null());
        }
        let output = if input.is_empty() { command.output()? } else { talk(command, &input)? };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{input}: {errors}");
        assert!(errors.starts_with("worker: ") && errors.contains(expected), "{input}: {errors}");
    }
    Ok(())
}

fn calls_are_reported_in_order_with_their_occurrence() -> Result<(), Failed> {
    check(
        &json!({
            "body": [{"id": 1, "call": "repeat", "count": 2, "body": [
                {"id": 2, "call": "sleep", "ms": 0},
                {"id": 3, "call": "thread", "body": [{"id": 4, "call": "device_synchronize"}]},
            ]}],
            "teardown": [{"id": 5, "call": "sleep", "ms": 0}],
        }),
        &[
            "setup",
            "body, begin 2.0, end 2.0 0, begin 4.0, end 4.0 0 hipSuccess",
            "begin 2.1, end 2.1 0, begin 4.1, end 4.1 0 hipSuccess",
            "verify, done, teardown, begin 5.0, end 5.0 0, bye",
        ],
    )
}

fn failed_checked_call_stops_the_plan() -> Result<(), Failed> {
    let destroy = |id: u32| json!({"id": id, "call": "graph_destroy", "graph": "g"});
    let mut unchecked = destroy(1);
    unchecked["returns"] = json!([["*", ["hipErrorInvalidValue"]]]);
    check(
        &json!({
            "body": [unchecked, {"id": 2, "call": "repeat", "count": 9, "body": [
                {"id": 3, "call": "thread", "body": [destroy(4)]},
            ]}],
            "verify": [destroy(5)],
            "teardown": [destroy(6)],
        }),
        &[
            "setup",
            "body, begin 1.0, end 1.0 1 hipErrorInvalidValue",
            "begin 4.0, end 4.0 1 hipErrorInvalidValue, stopped 4, teardown",
        ],
    )
}

fn injected_faults_take_effect_at_their_call() -> Result<(), Failed> {
    let launch =
        |id: u32| json!({"id": id, "call": "graph_launch", "exec": "x", "stream": "default"});
    let late = |id: u32| json!({"id": id, "call": "sleep", "ms": 0, "planted": [{"fault": "graph.overwrite-output", "effect": "after_next_launch"}]});
    check(
        &json!({"body": [late(1), launch(2), launch(3), late(4), {"id": 5, "call": "sleep", "ms": 0}]}),
        &[
            "setup",
            "body, begin 2.0, end 2.0 0 hipSuccess, begin 1.0, end 1.0 0",
            "begin 3.0, end 3.0 0 hipSuccess, begin 5.0, end 5.0 0, begin 4.0, end 4.0 0",
            "verify, done, teardown, bye",
        ],
    )?;
    check(
        &json!({"body": [{"id": 1, "call": "device_synchronize", "planted": [{"fault": "graph.launch-lost", "effect": {"return": 1}}]}]}),
        &["setup, body, begin 1.0, end 1.0 1 hipErrorInvalidValue, stopped 1, teardown"],
    )
}

fn abort_ends_the_process_after_begin() -> Result<(), Failed> {
    let output = Stack::new()?
        .talk(&json!({"body": [{"id": 1, "call": "device_synchronize", "planted": [{"fault": "handle.crash", "effect": "abort"}]}]}))?;
    assert_eq!(short(&events(&output)?).last().map(String::as_str), Some("begin 1.0"));
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    Ok(())
}

fn only_wrong_or_unknown_bytes_are_kept() -> Result<(), Failed> {
    let stack = Stack::new()?;
    let edit = json!({
        "buffers": {"b": {"memory": "host_pageable", "bytes": 6, "guarded": true}},
        "setup": [
            {"id": 1, "call": "alloc", "buffer": "b", "stream": "default"},
            {"id": 2, "call": "poison", "buffer": "b"},
        ],
        "body": [
            {"id": 3, "call": "check", "buffer": "b"},
            {"id": 4, "call": "fill", "buffer": "b", "stamp": 3},
            {"id": 5, "call": "check", "buffer": "b"},
            {"id": 6, "call": "equal", "a": "b", "b": "b"},
        ],
        "verify": [{"id": 7, "call": "guards", "buffer": "b"}],
        "teardown": [{"id": 8, "call": "free", "buffer": "b", "stream": "default"}],
    });
    let mut filled = [0; 6];
    pattern(fill_stamp(3, 0), &mut filled);
    let guards = [plan::GUARD_BYTE; 2 * plan::GUARD_BYTES as usize];
    // For the first check, the digest of the pattern is expected, but the check reads the poison byte.
    let wanted = [(3, 0, digest(&filled)), (5, 0, digest(&filled)), (7, 0, digest(&guards))];
    let output = talk(worker(stack.0.path()), &order(&edit, stack.spool(), &wanted))?;
    let mut data = Vec::new();
    for event in events(&output)? {
        if let Event::Data { step, buffer, bytes, digest, file, .. } = event {
            let kept = file.map(|f| fs::read(stack.spool().join(f))).transpose()?;
            data.push((step, buffer, bytes, digest, kept));
        }
    }
    let poison = [plan::POISON_BYTE; 6];
    let b = || "b".to_owned();
    assert_eq!(
        data,
        [
            (3, b(), 6, digest(&poison), Some(poison.to_vec())),
            (5, b(), 6, digest(&filled), None),
            (6, b(), 6, digest(&filled), Some(filled.to_vec())),
            (6, b(), 6, digest(&filled), Some(filled.to_vec())),
            (7, "b.guards".to_owned(), 512, digest(&guards), None),
        ]
    );
    Ok(())
}

fn free_memory_is_measured_before_a_plan_that_counts_it() -> Result<(), Failed> {
    let stack = Stack::new()?;
    let at_rest = |plan: &Value, others: bool| -> Result<Vec<Vec<u64>>, Failed> {
        let mut command = worker(stack.0.path());
        if others {
            command.env("PRETEND_OTHERS", "1");
        }
        let events = events(&talk(command, &order(plan, stack.spool(), &[]))?)?;
        let body = events.iter().position(|e| matches!(e, Event::Phase { phase: Phase::Body }));
        let before = &events[..body.ok_or("no body")?];
        assert_eq!(short(&events).last().map(String::as_str), Some("bye"));
        let bytes_of = |event: &Event| match event {
            Event::FreeAtRest { bytes } => Some(bytes.clone()),
            _ => None,
        };
        Ok(before.iter().filter_map(bytes_of).collect())
    };
    let counts = json!({"body": [{"id": 1, "call": "mem_get_info"}]});
    assert_eq!(at_rest(&counts, false)?, [vec![1 << 20; 6]]);
    let moving = at_rest(&counts, true)?;
    assert!(moving.len() == 1 && moving[0].is_sorted_by(|a, b| a > b), "{moving:?}");
    assert_eq!(at_rest(&json!({}), true)?, [[0; 0]; 0]);
    Ok(())
}

fn memory_that_comes_back_late_is_waited_for() -> Result<(), Failed> {
    let stack = Stack::new()?;
    let last = |late: &str, gives: Option<&str>| -> Result<Option<String>, Failed> {
        let mut command = worker(stack.0.path());
        command.env("PRETEND_LATE", late);
        let mut second = json!({"id": 2, "call": "mem_get_info"});
        if let Some(word) = gives {
            second["gives"] = json!([["*", [word]]]);
        }
        let plan = json!({"body": [{"id": 1, "call": "mem_get_info"}, second]});
        let events = events(&talk(command, &order(&plan, stack.spool(), &[]))?)?;
        let value_of = |event: &Event| match event {
            Event::End { value, .. } => value.clone(),
            _ => None,
        };
        Ok(events.iter().filter_map(value_of).next_back())
    };
    let whole = (1 << 20).to_string();
    let less = ((1 << 20) - 4096).to_string();
    assert_eq!(last("5", Some("returned"))?, Some(whole.clone()));
    assert_eq!(last("5", Some("unchanged"))?, Some(whole));
    assert_eq!(
        last("5", None)?,
        Some(less.clone()),
        "the plan compares no amounts, so the worker does not wait"
    );
    assert_eq!(
        last("1000000", Some("returned"))?,
        Some(less.clone()),
        "the missing memory is never returned"
    );
    assert_eq!(last("even", Some("returned"))?, Some(less), "every second query returns less");
    Ok(())
}

fn closed_input_ends_the_worker() -> Result<(), Failed> {
    let stack = Stack::new()?;
    let edit = json!({"body": [{"id": 1, "call": "sleep", "ms": 3_600_000}]});
    // If the process is the leader of its process group, it kills the group. Otherwise only the process itself ends.
    for (leader, expected) in
        [(true, (None, Some(libc::SIGKILL))), (false, (Some(plan::WORKER_ORPHANED), None))]
    {
        let mut command = worker(stack.0.path());
        if leader {
            command.process_group(0);
        }
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().ok_or("no pipe")?;
        stdin.write_all(order(&edit, stack.spool(), &[]).as_bytes())?;
        let said = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let began = said.lines().any(|line| line.is_ok_and(|l| l.contains("\"begin\"")));
        assert!(began, "the plan began");
        drop(stdin);
        let status = child.wait()?;
        assert_eq!((status.code(), status.signal()), expected);
    }
    Ok(())
}

fn library_output_is_not_among_the_events() -> Result<(), Failed> {
    let output = Stack::new()?.talk(&json!({"body": [{"id": 1, "call": "device_synchronize"}]}))?;
    assert_eq!(short(&events(&output)?).last().map(String::as_str), Some("bye"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "chatter\n");
    Ok(())
}
