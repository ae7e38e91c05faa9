//! Checks that the time of `rocrepro case check` grows about linearly: four times the input may take at most eight
//! times as long.

use std::{
    path::Path,
    process::{Command, Stdio},
};

fn case(more: &str) -> String {
    format!(
        "title: A case\nsource: [this test]\n{more}\nbuffers:\n  src: {{on: host.pageable, bytes: 64}}\n  \
         dst: {{on: device, bytes: 64}}\nsteps:\n  - fill: src\n  - copy: {{to: dst, from: src}}\n  - check: dst\n\
         faults: [copy.zero]\n"
    )
}

/// Returns the processor time of a check in seconds. Unlike the elapsed time, it hardly depends on the load of the
/// machine.
fn seconds(what: &str, path: &Path, code: i32) -> f64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["check", "--cases-from"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut status = 0;
    // SAFETY: `rusage` consists of integers, so a value of zeros is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child belongs to this test and was not waited for; both pointers are to live variables.
    let reaped = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    assert_eq!(reaped, child.id() as i32);
    assert_eq!(libc::WEXITSTATUS(status), code, "{what}");
    // wait4 has already reaped the child, so this returns an error.
    let _ = child.try_wait();
    let time = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[track_caller]
fn check(what: &str, code: i32, small: u32, make: impl Fn(&Path, u32)) {
    let time = |n: u32| {
        let folder = tempfile::tempdir().expect("a folder");
        make(folder.path(), n);
        seconds(what, folder.path(), code)
    };
    let (one, four) = (time(small), time(4 * small));
    assert!(
        four < 8.0 * one + 0.15,
        "{what}: {small} take {one:.2} s, four times as many {four:.2} s"
    );
}

fn one(at: &Path, text: &str) {
    std::fs::write(at.join("case.yaml"), text).expect("a file");
}

#[test]
fn checks_input_in_time_proportional_to_its_size() {
    let list = |n: u32| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    check("values of an axis", 0, 1200, |at, n| {
        let used = "environment: {HIP_LAUNCH_BLOCKING: $a}";
        one(at, &case(&format!("matrix: {{a: [{}]}}\n{used}", list(n))))
    });
    let keys = |n: u32| (0..n).map(|i| format!("key{i}: 1\n")).collect::<String>();
    check("unknown keys", 2, 2500, |at, n| one(at, &case(&keys(n))));
    check("keys given twice", 2, 2500, |at, n| one(at, &case(&"about: x\n".repeat(n as usize))));
    let steps = |n: u32, step: fn(u32) -> String| {
        let steps: String = (0..n).map(step).collect();
        case("").replace("fill: src\n", &format!("fill: src\n{steps}"))
    };
    check("steps", 0, 2500, |at, n| one(at, &steps(n, |_| "  - fill: src\n".to_owned())));
    check("events", 0, 1200, |at, n| {
        one(
            at,
            &steps(n, |i| {
                format!(
                    "  - record: {{event: e{i}, stream: s}}\n  - wait: {{event: e{i}, stream: t}}\n"
                )
            }),
        )
    });
    check("graphs", 0, 500, |at, n| {
        one(
            at,
            &steps(n, |i| {
                format!(
                    "  - empty_graph: {{graph: g{i}, nodes: 1}}\n  - instantiate: {{exec: x{i}, graph: g{i}}}\n  - launch_graph: {{exec: x{i}}}\n"
                )
            }),
        )
    });
    check("streams", 2, 1200, |at, n| {
        one(
            at,
            &steps(n, |i| {
                format!(
                    "  - set: {{to: dst, value: 1, async: true, stream: s{i}}}\n  - sync: s{i}\n"
                )
            }),
        )
    });
    let buffers = |n: u32| {
        let buffers: String = (0..n)
            .map(|i| format!("buffers:\n  b{i}: {{on: device, bytes: 64, fill: zero}}\n"))
            .collect();
        let buffers = buffers.replace("\nbuffers:", "");
        steps(n, |i| format!("  - copy: {{to: b{i}, from: src}}\n")).replace("buffers:\n", &buffers)
    };
    check("buffers", 0, 1000, |at, n| one(at, &buffers(n)));
    check("case files", 0, 1200, |at, n| {
        for i in 0..n {
            std::fs::write(at.join(format!("case{i}.yaml")), case("")).expect("a file");
        }
    });
}
