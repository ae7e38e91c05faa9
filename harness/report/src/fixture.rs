//! Creates records for tests.

use device::{Config, Fault, Identity};
use judge::{End, Kind, Known, Limit, Location, Outcome, PhaseUse, Verdict, VerdictKind};
use plan::{Phase, Version};

use crate::{Device, FORMAT, Library, Record, RequestedOptions, Stack};

pub(crate) fn plain(view: &str) -> String {
    anstream::adapter::strip_str(view).to_string()
}

fn record(trial: &str, kind: Kind, signature: &str, summary: &str, verdict: VerdictKind) -> Record {
    let case = trial.split('[').next().unwrap_or(trial);
    let known = (verdict != VerdictKind::NewsFail).then(window);
    Record {
        format: FORMAT,
        run: "20261121T010100Z-4f3a".to_owned(),
        number: 0,
        date: "2026-11-21T01:02:03Z".to_owned(),
        rocrepro: "0.1.0".to_owned(),
        build: String::new(),
        case: case.to_owned(),
        trial: trial.to_owned(),
        title: "Small pageable host-to-device copies arrive as zeros".to_owned(),
        upstream: vec!["ROCm/rocm-systems#10639".to_owned()],
        faults: Vec::new(),
        asked: None,
        stack: Stack {
            spec: "debian:7.2.4".to_owned(),
            root: "/stacks/debian-7.2.4".to_owned(),
            rocm: Some(Version::new(7, 2, 4)),
            libraries: vec![Library {
                name: "libamdhip64.so.7".to_owned(),
                path: "/stacks/debian-7.2.4/usr/lib/libamdhip64.so.7".to_owned(),
                build_id: Some("0123abcd".to_owned()),
            }],
        },
        device: Device {
            name: "rocrepro emulated gfx1151".to_owned(),
            gfx: "gfx1151".to_owned(),
            bdf: String::new(),
            emulated: true,
            proven: true,
            card: None,
            errors: Vec::new(),
            driver: String::new(),
            identity: Some(Identity { version: "0.1.0".to_owned(), config: Config::default() }),
        },
        outcome: Outcome {
            kind,
            signature: signature.to_owned(),
            at: Location::default(),
            summary: summary.to_owned(),
            details: Vec::new(),
        },
        red: Vec::new(),
        program: None,
        acts: Vec::new(),
        late: None,
        verdict: Verdict { kind: verdict, known },
        exit: End::Exited(0),
        phases: vec![PhaseUse { phase: Phase::Body, calls: 12, ns: 34_000 }],
        calls: 12,
        wall_ns: 43_210_987,
        cpu_ns: Some(40_000_000),
        max_rss_bytes: None,
        environment: [("HSA_XNACK".to_owned(), "1".to_owned())].into(),
        limits: [("stack".to_owned(), "8M".to_owned())].into(),
        stderr_tail: String::new(),
        stdout_tail: String::new(),
        stacks: Vec::new(),
        nonce: "n0nce".to_owned(),
        confined: String::new(),
        gpu_after: String::new(),
        again: format!("rocrepro run --rocm debian:7.2.4 --device emulated:gfx1151 '{trial}'"),
    }
}

fn window() -> Known {
    Known {
        gfx: vec!["gfx1151".to_owned()],
        rocm: ">=7.0 <7.3".parse().expect("a range"),
        card: None,
        driver: None,
        signature: "wrong-data:back:zero".to_owned(),
        upstream: Some("ROCm/rocm-systems#10639".to_owned()),
        about: None,
        difference: None,
    }
}

const ZERO: &str = "wrong-data:back:zero";
const ZERO_TEXT: &str = "back (line 17, iteration 2): 2 of 2 bytes wrong from offset 0: all zero; expected the pattern written at line 14 (fill of src, iteration 2)";

pub(crate) fn passed(trial: &str) -> Record {
    let text = "every status, value and byte was as expected";
    let mut record = record(trial, Kind::Pass, "pass", text, VerdictKind::Pass);
    record.verdict.known = None;
    record
}

pub(crate) fn failed(trial: &str) -> Record {
    let mut record = record(trial, Kind::WrongData, ZERO, ZERO_TEXT, VerdictKind::NewsFail);
    record.outcome.at = Location {
        phase: Some(Phase::Body),
        step: Some(4),
        line: Some(17),
        api: Some("host read".to_owned()),
        occurrence: Some(1),
    };
    record.outcome.details =
        vec!["  got at 0x0000: 00 00".to_owned(), "right at 0x0000: 0c e1".to_owned()];
    record.stderr_tail = "a warning of the runtime".to_owned();
    record
}

pub(crate) fn known(trial: &str) -> Record {
    record(trial, Kind::WrongData, ZERO, ZERO_TEXT, VerdictKind::Known)
}

pub(crate) fn changed(trial: &str) -> Record {
    let text = "the process hung in hipGraphLaunch (line 9) and was killed after making no progress (30.1 s in total)";
    let mut record =
        record(trial, Kind::Hang, "hang:hipGraphLaunch", text, VerdictKind::NewsChanged);
    record.exit = End::TimedOut { limit: Limit::Quiet };
    record
}

pub(crate) fn fixed(trial: &str) -> Record {
    Record {
        verdict: Verdict { kind: VerdictKind::NewsFixed, known: Some(window()) },
        ..passed(trial)
    }
}

pub(crate) fn skipped(trial: &str) -> Record {
    let text =
        "the stack has no libhiprand; `rocrepro stack fetch debian:7.2.4 --with hiprand` adds it";
    let mut record = record(trial, Kind::Skip, "skip:libhiprand", text, VerdictKind::Skip);
    record.verdict.known = None;
    record
}

pub(crate) fn unproven(trial: &str) -> Record {
    let text = "the program that was started as the worker ended (exit status 0) without a report: it is not a worker, or could not be loaded";
    let mut record =
        record(trial, Kind::NoVerdict, "no-verdict:worker", text, VerdictKind::NoVerdict);
    record.verdict.known = None;
    record.stack.libraries.clear();
    record.device = Device::from_events(&[], "gfx1151", true);
    record
}

pub(crate) fn with_options(given: &[(&str, &str)], mut record: Record) -> Record {
    let given = given.iter().map(|(option, value)| (*option, (*value).to_owned()));
    record.asked = Some(RequestedOptions::new(given, String::new()));
    record
}

pub(crate) fn with_digest(text: &str, mut record: Record) -> Record {
    record.asked = Some(RequestedOptions { text: text.to_owned(), ..RequestedOptions::default() });
    record
}

pub(crate) fn with_fault(fault: Fault, mut record: Record) -> Record {
    record.faults = vec![fault.into()];
    record
}

pub(crate) fn on_gpu(mut record: Record) -> Record {
    record.again = record.again.replace("emulated:gfx1151", "0");
    record.device = Device {
        name: "AMD Radeon RX 7900 XTX".to_owned(),
        gfx: "gfx1100".to_owned(),
        bdf: "0000:03:00.0".to_owned(),
        emulated: false,
        proven: true,
        card: None,
        errors: Vec::new(),
        driver: String::new(),
        identity: None,
    };
    record
}
