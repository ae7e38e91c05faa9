//! The worker as a process, on a machine without ROCm: what it says and how it ends.

use std::{
    env,
    io::{Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitCode, Output, Stdio},
};

use libtest_mimic::{Arguments, Failed, Trial};
use plan::{Event, Order, PLAN_VERSION, Phase, Plan};

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some("__worker") {
        return worker::main();
    }
    let trials = vec![
        Trial::test("without_rocm_the_library_is_missing", without_rocm_the_library_is_missing),
        Trial::test("bad_orders_exit_with_2", bad_orders_exit_with_2),
        Trial::test("a_closed_input_kills_the_group", a_closed_input_kills_the_group),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn worker() -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this test"));
    command
        .arg("__worker")
        // An empty folder first: this machine's own ROCm, where it has one, is not what is tested.
        .env("LD_LIBRARY_PATH", "/nonexistent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Sends `input` and closes standard input only after the worker's output ended.
fn talk(input: &str) -> Output {
    let mut child = worker().spawn().expect("the worker starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("the worker reads");
    let output = child.wait_with_output().expect("the worker ends");
    drop(stdin);
    output
}

fn order(plan: Plan) -> String {
    let order = Order {
        nonce: "a nonce".into(),
        plan,
        spool: "/nonexistent".into(),
        code_cache: None,
        wanted: Vec::new(),
    };
    serde_json::to_string(&order).expect("an order serialises") + "\n"
}

fn plan(edit: &str) -> Plan {
    let base = serde_json::json!({
        "version": PLAN_VERSION, "trial": "t", "buffers": {}, "streams": {},
        "setup": [], "body": [], "verify": [], "teardown": [],
    });
    let mut base = base.as_object().expect("an object").clone();
    let edit: serde_json::Value = serde_json::from_str(edit).expect("JSON");
    base.extend(edit.as_object().expect("an object").clone());
    serde_json::from_value(base.into()).expect("a plan")
}

fn without_rocm_the_library_is_missing() -> Result<(), Failed> {
    if hip_sys::Hip::load(&hip_sys::Hip::SONAMES).is_ok() {
        // This machine has ROCm where the loader always looks; then there is nothing missing to see.
        return Ok(());
    }
    let output = talk(&order(plan("{}")));
    let events: Vec<Event> = String::from_utf8(output.stdout)?
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let [
        Event::Hello { version: PLAN_VERSION, nonce, .. },
        start,
        load,
        Event::Missing { what, why },
    ] = &events[..]
    else {
        return Err(format!("{events:?}").into());
    };
    assert_eq!(nonce, "a nonce");
    assert_eq!(*start, Event::Phase { phase: Phase::Start });
    assert_eq!(*load, Event::Phase { phase: Phase::Load });
    assert_eq!(what, "libamdhip64");
    assert!(why.contains("libamdhip64.so.6"), "{why}");
    assert_eq!(output.status.code(), Some(0));
    Ok(())
}

fn bad_orders_exit_with_2() -> Result<(), Failed> {
    let other_version = order(plan(r#"{"version": 99}"#));
    let unknown_buffer = order(plan(r#"{"body": [{"id": 7, "call": "check", "buffer": "b"}]}"#));
    let device_check = order(plan(
        r#"{"buffers": {"b": {"memory": "device", "bytes": 4, "guarded": true}},
            "body": [{"id": 7, "call": "check", "buffer": "b"}]}"#,
    ));
    for (input, expected) in [
        ("\n", "EOF while parsing"),
        ("{\"nonce\": 1}\n", "cannot be read"),
        ("\u{0}\u{1}\n", "cannot be read"),
        (&other_version, "version 99"),
        (&unknown_buffer, "step 7 of the plan: there is no buffer `b`"),
        (&device_check, "the host cannot read or write buffer `b`"),
    ] {
        let output = talk(input);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{input}: {errors}");
        assert!(errors.starts_with("worker: "), "{errors}");
        assert!(errors.contains(expected), "{input}: {errors}");
    }
    Ok(())
}

fn a_closed_input_kills_the_group() -> Result<(), Failed> {
    // Not a leader: it ends by itself, as the group is this test's.
    let mut child = worker().spawn()?;
    drop(child.stdin.take());
    assert_eq!(child.wait()?.code(), Some(2));

    // The leader of its group. The order is cut off by the end of input, so the worker never gets to the leash; what it
    // says is the same.
    let mut child = worker().process_group(0).spawn()?;
    let mut stdin = child.stdin.take().ok_or("a pipe")?;
    stdin.write_all(b"{\"nonce\"")?;
    drop(stdin);
    let mut errors = String::new();
    child.stderr.take().ok_or("a pipe")?.read_to_string(&mut errors)?;
    let status = child.wait()?;
    assert_eq!((status.code(), status.signal()), (Some(2), None), "{errors}");
    Ok(())
}
