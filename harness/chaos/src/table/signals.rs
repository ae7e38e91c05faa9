//! Tests the command while another process sends signals to the command or to its worker.

use std::{path::Path, time::Duration};

use rustix::process::{Signal, kill_process};

use crate::{
    row::{Row, row},
    setup::RunSetup,
};

const NOTHING: &[&str] = &["no-verdict *"];

pub(crate) const ROWS: &[Row] = &[
    row("signal/worker-killed", |s| worker(s, "body", Signal::KILL), NOTHING),
    row("signal/worker-killed-in-setup", |s| worker(s, "setup", Signal::KILL), NOTHING),
    row(
        "signal/worker-killed-in-init",
        |s| {
            s.hangs();
            worker(s, "init", Signal::KILL)
        },
        NOTHING,
    ),
    row("signal/worker-killed-in-teardown", |s| worker(s, "teardown", Signal::KILL), NOTHING),
    row("signal/worker-killed-after-bye", |s| worker(s, "bye", Signal::KILL), NOTHING),
    row("signal/worker-terminated", |s| worker(s, "body", Signal::TERM), NOTHING),
    row("signal/worker-terminated-in-teardown", |s| worker(s, "teardown", Signal::TERM), NOTHING),
    row("signal/worker-interrupted", |s| worker(s, "body", Signal::INT), NOTHING),
    row("signal/worker-hung-up", |s| worker(s, "body", Signal::HUP), NOTHING),
    row("signal/worker-quits", |s| worker(s, "body", Signal::QUIT), NOTHING),
    row(
        "signal/worker-quits-below-who-ignores-it",
        |s| {
            s.launcher("trap '' HUP INT QUIT TERM; exec \"$@\"");
            worker(s, "body", Signal::QUIT)
        },
        NOTHING,
    ),
    row("signal/worker-usr1", |s| worker(s, "body", Signal::USR1), NOTHING),
    row("signal/worker-usr2", |s| worker(s, "body", Signal::USR2), NOTHING),
    row("signal/worker-alarm", |s| worker(s, "body", Signal::ALARM), NOTHING),
    row("signal/worker-processor-time", |s| worker(s, "body", Signal::XCPU), NOTHING),
    row("signal/worker-file-size", |s| worker(s, "body", Signal::XFSZ), NOTHING),
    row(
        "signal/worker-pipe",
        |s| {
            s.hangs();
            worker(s, "body", Signal::PIPE)
        },
        &["fail hang:*"],
    ),
    row(
        "signal/worker-stopped",
        |s| {
            s.hangs();
            worker(s, "body", Signal::STOP)
        },
        NOTHING,
    ),
    row("signal/worker-stopped-for-a-while", stopped_for_a_while, &["pass"]),
    row("signal/worker-in-a-frozen-cgroup", frozen, &["no-verdict no-verdict:lost"])
        .says(&["its cgroup was frozen"])
        .alone(),
    row("signal/library-kills-itself", |s| s.trouble("signal=9@body"), NOTHING),
    row("signal/library-terminates-itself", |s| s.trouble("signal=15@body"), NOTHING),
    row("signal/library-raises-an-alarm", |s| s.trouble("alarm@body"), NOTHING),
    row(
        "signal/library-stops-itself",
        |s| {
            s.hangs();
            s.trouble("stop@body")
        },
        NOTHING,
    ),
    row("signal/command-terminated", |s| command(s, Signal::TERM), &["stopped"]).alone(),
    row("signal/command-interrupted", |s| command(s, Signal::INT), &["stopped"]).alone(),
    row("signal/command-hung-up", |s| command(s, Signal::HUP), &["stopped"]).alone(),
    row(
        "signal/command-quits",
        |s| {
            killed(s);
            // Shells make their background jobs ignore SIGQUIT, so the default action is restored.
            s.before.extend(["env", "--default-signal=QUIT"].map(Into::into));
            command(s, Signal::QUIT)
        },
        &["killed by signal 3"],
    )
    .alone(),
    row(
        "signal/command-interrupted-twice",
        interrupt_twice, // The second signal may arrive when the command no longer handles the first one.
        &["stopped", "killed by signal 2"],
    )
    .alone(),
    row(
        "signal/command-usr1",
        |s| {
            killed(s);
            command(s, Signal::USR1)
        },
        &["killed by signal 10"],
    )
    .alone(),
    row(
        "signal/command-killed",
        |s| {
            killed(s);
            command(s, Signal::KILL)
        },
        &["killed by signal 9"],
    )
    .alone(),
    row(
        "signal/command-killed-with-descendants",
        |s| {
            killed(s);
            s.trouble("fork@setup");
            s.trouble("daemon@setup");
            s.trouble("double_fork@body");
            command(s, Signal::KILL)
        },
        &["killed by signal 9"],
    )
    .alone(),
    row("signal/two-commands-at-once", two_at_once, &["pass"]).alone(),
    row(
        "signal/command-aborts",
        |s| {
            killed(s);
            command(s, Signal::ABORT)
        },
        &["killed*"],
    )
    .alone(),
    row("signal/command-stopped-for-a-while", command_stopped, &["pass"]).alone(),
    row(
        "signal/all-at-once",
        hang_up_all, // The command may detect the end of the worker before it receives its own signal.
        &["stopped", "no-verdict *"],
    )
    .alone(),
];

/// Makes the worker hang at a point of its execution, and sends a signal to it.
fn worker(setup: &mut RunSetup<'_>, point: &str, signal: Signal) {
    setup.at_worker(point, move |_, worker| {
        let _ = kill_process(worker, signal);
    });
}

fn command(setup: &mut RunSetup<'_>, signal: Signal) {
    setup.at_worker("body", move |running, _| running.send(signal));
}

fn interrupt_twice(setup: &mut RunSetup<'_>) {
    setup.at_worker("body", |running, _| {
        running.send(Signal::INT);
        std::thread::sleep(Duration::from_millis(20));
        running.send(Signal::INT);
    });
}

/// Allows files to remain in TMPDIR. A row of this table uses this function if it kills the command: the files then
/// remain until the next run removes them, so the row checks only that no processes remain.
fn killed(setup: &mut RunSetup<'_>) {
    setup.outputs.push(setup.folder.join("tmp"));
}

fn stopped_for_a_while(setup: &mut RunSetup<'_>) {
    let path = setup.folder.join(crate::processes::WORKER);
    setup.outputs.push(path.clone());
    setup.trouble(&format!("pid={}@body", path.display()));
    setup.trouble("sleep=300@body");
    setup.during(|running| {
        if let Some(worker) = running.worker() {
            let _ = kill_process(worker, Signal::STOP);
            std::thread::sleep(Duration::from_millis(700));
            let _ = kill_process(worker, Signal::CONT);
        }
    });
}

/// Freezes the cgroup of the worker, as a batch system does in order to suspend a job.
fn frozen(setup: &mut RunSetup<'_>) {
    let name = format!("rocrepro-chaos-{}", std::process::id());
    let make = |place: &&str| {
        let folder = Path::new(place).join(&name);
        std::fs::create_dir(&folder).ok()?;
        let made = folder.join("cgroup.freeze").exists().then(|| folder.clone());
        if made.is_none() {
            let _ = std::fs::remove_dir(&folder);
        }
        made
    };
    let Some(folder) = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].iter().find_map(make) else {
        setup.impossible = Some("this user cannot freeze a cgroup".into());
        return;
    };
    let made = folder.clone();
    setup.hangs();
    setup.at_worker("body", move |_, worker| {
        let set = |file: &str, text: String| std::fs::write(folder.join(file), text);
        let _ = set("cgroup.procs", worker.as_raw_pid().to_string());
        let _ = set("cgroup.freeze", "1".to_owned());
    });
    setup.afterwards(move |_| {
        let _ = std::fs::write(made.join("cgroup.freeze"), "0");
        for _ in 0..200 {
            if std::fs::remove_dir(&made).is_ok() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(format!("a process is still in {}", made.display()))
    });
}

fn command_stopped(setup: &mut RunSetup<'_>) {
    let path = setup.folder.join(crate::processes::WORKER);
    setup.outputs.push(path.clone());
    setup.hangs();
    setup.trouble(&format!("pid={}@body", path.display()));
    setup.during(|running| {
        if running.worker().is_some() {
            running.send(Signal::STOP);
            // This pause is longer than the time limit for a worker without output.
            std::thread::sleep(Duration::from_millis(3500));
            running.send(Signal::CONT);
        }
    });
}

/// Starts a second run with the same arguments in the same folders while the first run is in progress. The second run
/// ends first.
fn two_at_once(setup: &mut RunSetup<'_>) {
    let path = setup.folder.join(crate::processes::WORKER);
    setup.outputs.push(path.clone());
    setup.warm_cache();
    setup.trouble(&format!("pid={}@body", path.display()));
    setup.trouble("sleep=3000@body");
    let said = setup.folder.join("work/second");
    setup.outputs.push(said.clone());
    let mut other = std::process::Command::new(&setup.tools.program);
    other.args(["run", crate::shared_tools::TRIAL, "--device", "emulated", "--rocm"]);
    other.arg(&setup.tools.stack).env_clear().envs(setup.environment());
    other.stdin(std::process::Stdio::null());
    let file = said.clone();
    setup.during(move |running| {
        running.worker();
        let file = std::fs::File::create(&file).expect("the folder is writable");
        let errors = file.try_clone().expect("the descriptor can be duplicated");
        let status = other.stdout(file).stderr(errors).status();
        assert!(status.is_ok_and(|status| status.success()), "the other run must succeed");
    });
}

/// Sends SIGHUP to the worker and to the command, as Linux does when their terminal is closed.
fn hang_up_all(setup: &mut RunSetup<'_>) {
    setup.at_worker("body", |running, worker| {
        let _ = kill_process(worker, Signal::HUP);
        running.send(Signal::HUP);
    });
}
