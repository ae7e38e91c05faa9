//! Demonstrates bugs of a release, an injected fault and a race, with trials of the library.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use device::{Arch, Config, FaultSpec, Sanitize};
use report::{DemoFinding, Demonstrated, Record};

use crate::{
    args::{DEFAULT_GFX, Demo},
    console, interrupt, outputs,
};
use engine::{
    CaseLibrary, DeviceChoice, Session, SessionOptions, Stop, jobs_with, run_trial, select,
    session::{QUIET_TIMEOUT, TIMEOUT},
};
use supervise::Limits;

const STACK: &str = "debian:7.2.4";

/// A trial of the demonstration.
struct DemoTrial {
    trial: &'static str,
    finding: DemoFinding,
    fault: Option<&'static str>,
    /// Description of what the program does, as a sentence.
    does: &'static str,
    /// Description of what should happen, as a sentence without its full stop.
    should: &'static str,
}

const TRIALS: [DemoTrial; 7] = [
    DemoTrial {
        trial: "graphs/long-chain[nodes=30000]",
        finding: DemoFinding::Bug,
        fault: None,
        does: "A stream captures 30 000 kernel launches, and the graph is instantiated.",
        should: "hipGraphInstantiate should return hipSuccess",
    },
    DemoTrial {
        trial: "capture/retry-after-invalidated-capture[node=kernel]",
        finding: DemoFinding::Bug,
        fault: None,
        does: "A capture fails and is ended, and the same stream captures again.",
        should: "The second capture should give a valid graph",
    },
    DemoTrial {
        trial: "programs/masked-multiply[level=O3,add=v]",
        finding: DemoFinding::Bug,
        fault: None,
        does: "A kernel computes (v & 511) * (v & 16777215) + v in 64 bits, with -O3.",
        should: "The results should be those of the host",
    },
    DemoTrial {
        trial: "copies/pool-reused-by-its-stream[user=other]",
        finding: DemoFinding::Bug,
        fault: None,
        does: "A stream frees memory (hipFreeAsync) after its kernels. Another one allocates \
               (hipMallocAsync) and sets each byte to 7.",
        should: "Each byte should be 7",
    },
    DemoTrial {
        trial: "rng/replay-advances[kind=philox]",
        finding: DemoFinding::Bug,
        fault: None,
        does: "A captured hiprandGenerate of Philox, as for dropout, is replayed twice.",
        should: "The second replay should draw other numbers",
    },
    DemoTrial {
        trial: "copies/small-sizes[bytes=2,host=pageable,api=memcpy]",
        finding: DemoFinding::Fault,
        fault: Some("copy.zero"),
        does: "Two bytes are copied to the device and back, and the device copies zeros.",
        should: "The check of the two bytes should fail",
    },
    DemoTrial {
        trial: "graphs/forked-launches-in-order[stream=blocking]",
        finding: DemoFinding::Race,
        fault: None,
        does: "A graph with two branches is launched five times in one stream.",
        should: "Each launch should wait for the one before, as up to ROCm 6.4.3",
    },
];

/// Commands that the demonstration suggests, each with a remark.
const NEXT: [(&str, &str); 3] = [
    ("rocrepro case explain graphs/long-chain", "what a case does, and why"),
    ("rocrepro export 'graphs/long-chain[nodes=30000]'", "the same as one C++ file"),
    ("rocrepro run capture", "all cases of a folder"),
];

/// Hint for users who have a GPU.
const ON_A_GPU: &str =
    "On an AMD GPU, with the ROCm of this machine: rocrepro run --rocm system --device gpu\n";

/// Width to which lines are broken if the output is not a terminal, in columns.
const COLUMNS: usize = 80;

impl DemoTrial {
    fn faults(&self) -> Result<Vec<FaultSpec>, Stop> {
        let fault = self.fault.map(|name| {
            let unknown = |_| Stop::usage(format!("error: unknown fault `{name}`"));
            name.parse::<FaultSpec>().map_err(unknown)
        });
        Ok(fault.transpose()?.into_iter().collect())
    }

    fn result<'a>(&self, record: &'a Record) -> Demonstrated<'a> {
        let DemoTrial { finding, does, should, .. } = *self;
        Demonstrated { finding, does, should, record }
    }
}

pub(crate) fn demo(args: &Demo) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load_named(None, &TRIALS.map(|entry| entry.trial))?;
    let cancel = interrupt::cancel()?;
    let arch: Arch = DEFAULT_GFX.parse().map_err(|error| Stop::usage(format!("error: {error}")))?;
    let options = SessionOptions {
        mirrors: args.mirrors.mirror.clone(),
        limits: Limits {
            total: Duration::from_secs(TIMEOUT.into()),
            quiet: Duration::from_secs(QUIET_TIMEOUT.into()),
            ..Limits::default()
        },
        reporting: console::reporting(),
        stop: interrupt::flag_for(STACK),
        ..SessionOptions::new(STACK.to_owned(), DeviceChoice::Emulated(arch), arch)
    };
    // The stack is fetched before the time is measured.
    options.stack()?;
    let begun = Instant::now();
    let mut records = Vec::new();
    let mut session: Option<(Sanitize, Session)> = None;
    for entry in &TRIALS {
        let sanitize =
            if entry.finding == DemoFinding::Race { Sanitize::On } else { Sanitize::Off };
        let session = match session.take().filter(|(other, _)| *other == sanitize) {
            Some(same) => session.insert(same),
            None => {
                let emulation = Config::for_arch(arch, sanitize);
                let opened = Session::open(SessionOptions { emulation, ..options.clone() })?;
                session.insert((sanitize, opened))
            }
        };
        let selected = select(&library, &[entry.trial.to_owned()])?;
        for job in jobs_with(&library, &selected, &entry.faults()?)? {
            let record = run_trial(&session.1, &job, &cancel);
            let record = record.ok_or_else(|| Stop::no_verdict("interrupted"))?;
            if records.is_empty() {
                shown(&report::demonstration_header(&record))?;
            }
            shown(&format!("{}\n", entry.result(&record).text()))?;
            records.push((entry, record));
        }
    }
    let results: Vec<_> = records.iter().map(|(entry, record)| entry.result(record)).collect();
    shown(&report::demonstration_summary(&results, begun.elapsed().as_secs_f64()))?;
    let next = NEXT.map(|(command, remark)| format!("  {command:<50} {remark}\n"));
    shown(&format!("\nNext:\n{}\n{ON_A_GPU}", next.concat()))?;
    Ok(ExitCode::from(report::demonstration_status(&results)))
}

fn shown(text: &str) -> Result<(), Stop> {
    outputs::print_in(text, COLUMNS)
}
