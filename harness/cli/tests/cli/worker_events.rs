//! Stores the events of a real worker in a file, for the tests of the crates that read such events.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use plan::{Event, LoadedLibrary, Phase};
use rocrepro::{CaseLibrary, lower_all, select};

/// Id of a trial that produces every kind of event that occurs in passing trials: it compiles, loads and launches GPU
/// kernels, and checks bytes.
const TRIAL: &str = "kernels/saxpy[n=64,block=64]";

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../judge/recorded/saxpy.jsonl");

/// Runs one worker with a launcher that copies the worker's events.
fn events() -> Vec<Event> {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("events");
    let launcher = format!("bash -c 'exec \"$@\" > >(tee {})' bash", copy.display());
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["run", TRIAL, "--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"])
        .args(["--launcher", &launcher])
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(copy).expect("it was written");
    text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

/// Replaces, in the events, all values that differ between runs and machines.
fn steady(events: Vec<Event>) -> Vec<Event> {
    let mut phase = Phase::Start;
    let mut kept = Vec::new();
    for event in events {
        kept.push(match event {
            Event::Hello { version, .. } => Event::Hello {
                version,
                build: Some("b01d".to_owned()),
                nonce: "n0nce".to_owned(),
                pid: 42,
                order: "0rder".to_owned(),
                environment: [("PATH".to_owned(), "/bin".to_owned())].into(),
                limits: [("stack".to_owned(), "8M".to_owned())].into(),
            },
            Event::Loaded { libraries } => {
                let steady = |library: LoadedLibrary| LoadedLibrary {
                    path: format!("/stack/lib/{}", library.name),
                    build_id: None,
                    ..library
                };
                let mut libraries: Vec<_> = libraries.into_iter().map(steady).collect();
                libraries.sort();
                Event::Loaded { libraries }
            }
            Event::Phase { phase: next } => {
                phase = next;
                Event::Phase { phase: next }
            }
            Event::End { step, occurrence, code, status, value, function, .. } => Event::End {
                step,
                occurrence,
                code,
                status,
                value,
                function,
                address: None,
                ns: 1000,
            },
            // This event comes from the starter, and exists only if a launcher is used.
            Event::Ended { .. } => continue,
            other => other,
        });
    }
    assert_eq!(phase, Phase::Teardown, "{kept:?}");
    kept
}

#[test]
fn matches_the_kept_events_of_a_worker() {
    let library = CaseLibrary::load(None).expect("the library is well-formed");
    let selected = select(&library, &[TRIAL.to_owned()]).expect("there is such a trial");
    let lowered = lower_all(&library, &selected, std::iter::empty()).expect("it is well-formed");
    let plan = serde_json::to_string(&lowered[0].plan).expect("it is JSON");
    let said =
        steady(events()).into_iter().map(|event| serde_json::to_string(&event).expect("JSON"));
    let said: Vec<String> = std::iter::once(plan).chain(said).collect();
    let said = said.join("\n") + "\n";
    if std::env::var_os("ROCREPRO_KEEP").is_some() {
        fs::create_dir_all(Path::new(KEPT).parent().expect("a folder")).expect("a folder");
        fs::write(KEPT, &said).expect("the file can be written");
    }
    let kept = fs::read_to_string(KEPT).unwrap_or_default();
    let differs = kept.lines().zip(said.lines()).position(|(kept, said)| kept != said);
    assert!(
        kept == said,
        "`judge/recorded/saxpy.jsonl` differs from the worker's events from line {} on. If the worker is right, write the file with \
        `ROCREPRO_KEEP=yes cargo test -p rocrepro --test cli worker_events::` and read the difference",
        differs.map_or_else(|| kept.lines().count().min(said.lines().count()) + 1, |line| line + 1)
    );
}
