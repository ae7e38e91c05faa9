//! Tests the emulated device that replaces the thunk library under the released HSA runtime (`--device-option
//! level=thunk`).

use std::{fs, path::Path, process::Output};

use device::Level;
use judge::VerdictKind;

use crate::common::rocrepro;

const SPEC: &str = "debian:7.2.4";

fn run(words: &[&str], records: &Path) -> Output {
    let on = ["--device", "emulated", "--gfx", "gfx1151", "--device-option", "level=thunk"];
    let mut command = rocrepro(&["run"]);
    command.args(words).args(on).arg("--record").arg(records);
    command.output().expect("it starts")
}

/// Returns the build id of the HSA runtime in the fetched stack.
fn released_hsa() -> String {
    let fetched = rocrepro(&["rocm", "fetch", SPEC]).output().expect("it starts");
    assert!(fetched.status.success(), "{fetched:?}");
    let store = stacks::StackCache::from_environment().expect("there is a cache");
    let stack = stacks::locate(&SPEC.parse().expect("a stack"), &store).expect("it is there");
    let file = stack.library("libhsa-runtime64.so").expect("the stack has an HSA runtime");
    stacks::build_id(&file).expect("it has a build id")
}

/// A copy, a kernel that hipRTC compiles, and a captured graph have the right values on the released HSA runtime, and
/// the records prove that it ran.
#[test]
fn cases_pass_on_the_released_hsa_runtime() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = folder.path().join("records");
    let trials = [
        "copies/batch-in-one-go[host=pageable,api=memcpy_async]",
        "kernels/saxpy[n=1000,block=100]",
        "graphs/captured-copies[host=pinned,bytes=1M+4]",
    ];
    let output = run(&[&trials[..], &["--rocm", SPEC]].concat(), &records);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let all = report::records(&fs::read_to_string(&records).expect("records")).expect("records");
    let hsa = released_hsa();
    for record in &all {
        let trial = &record.trial;
        assert_eq!(record.verdict.kind, VerdictKind::Pass, "{trial}");
        let config = &record.device.identity.as_ref().expect("the device's identity").config;
        assert_eq!(config.level, Level::Thunk, "{trial}");
        let build = |name: &str| {
            let mut found = record.stack.libraries.iter().filter(|l| l.name.starts_with(name));
            let only = found.next().and_then(|library| library.build_id.clone());
            assert!(found.next().is_none(), "{trial}: several {name}");
            only
        };
        assert_eq!(build("libhsa-runtime64").as_ref(), Some(&hsa), "{trial}");
        assert!(build("libdtif").is_some_and(|ours| ours != hsa), "{trial}");
        assert!(record.again.contains("level=thunk"), "{}", record.again);
    }
    assert_eq!(all.len(), trials.len());
}

#[test]
fn level_of_the_thunk_refuses_what_it_cannot_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let check = |words: &[&str], why: &str| {
        let output = run(words, &folder.path().join("records"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    };
    let here = ["copies/batch-in-one-go", "--rocm", SPEC];
    let with = |more: &[&'static str]| [&here[..], more].concat();
    check(&with(&["--sanitize"]), "no sanitizer at `level=thunk`");
    check(&with(&["--schedule", "lazy"]), "no choice of schedules at `level=thunk`");
    check(&with(&["--fault", "copy.zero"]), "faults below the HIP runtime cannot be injected");
    check(&with(&["--device-option", "level=driver"]), "`level=driver` is not an option");
    let exec = rocrepro(&["exec", "--device-option", "level=thunk", "/bin/true"]).output();
    let exec = exec.expect("it starts");
    let said = String::from_utf8_lossy(&exec.stderr);
    assert!(
        said.contains("`--device-option level=thunk` works only with `rocrepro run`"),
        "{said}"
    );
    assert_eq!(exec.status.code(), Some(2));
}
