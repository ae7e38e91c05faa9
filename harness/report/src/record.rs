use std::{collections::BTreeMap, time::SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use device::{FaultActivations, FaultSpec, Identity};
use judge::{End, Location, Outcome, PhaseUse, Verdict, VerdictKind};
use plan::{Event, LoadedLibrary, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Errors, Gpu, ProgramRun, RequestedOptions,
    text::{escape, one_line},
};

/// Version of the record format. The number grows when a field is removed or changes its meaning, but not when a field
/// is added.
pub const FORMAT: u32 = 1;

/// Limits on the standard error and on the standard output that a record stores: the last 20 lines, and at most 4096
/// bytes.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 4096;

/// Result of one trial, stored as one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of the record format, 1.
    pub format: u32,
    /// Run to which the trial belongs. Each invocation of rocrepro is one run.
    #[serde(default)]
    pub run: String,
    /// Number of the trial in the run, as in the line that was written when the trial began.
    #[serde(default)]
    pub number: u64,
    /// Date on which the trial ended, RFC 3339 in UTC.
    pub date: String,
    /// Version of the rocrepro that ran the trial.
    pub rocrepro: String,
    /// Identity of the build of rocrepro: its GNU build id, or `sha256:` and the digest of the executable file. Empty
    /// in records of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// Name of the case, for example `copies/small-sizes`.
    pub case: String,
    /// Name of the trial, for example `copies/small-sizes[bytes=2,host=pageable]`.
    pub trial: String,
    /// Title of the case.
    pub title: String,
    /// Upstream issues that the case reproduces, for example `ROCm/rocm-systems#10639`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstream: Vec<String>,
    /// Injected faults with their parameters, for example `copy.late,ms=50`. A record with a fault says nothing about a
    /// ROCm release.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "texts")]
    #[schemars(with = "Vec<String>")]
    pub faults: Vec<FaultSpec>,
    /// Options with which the trial was run; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<RequestedOptions>,
    /// ROCm stack with which the trial ran.
    pub stack: Stack,
    /// GPU or emulated device on which the trial ran.
    pub device: Device,
    /// Outcome: passed, wrong data, an error status, a hang or a crash, with its signature.
    pub outcome: Outcome,
    /// Steps at which the trial deviated from its plan, in order, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub red: Vec<Location>,
    /// Interpreter, packages and checks of the program; present only for a program case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<ProgramRun>>,
    /// Number of times that each injected fault took effect. The worker reports the numbers before its teardown, so the
    /// list is empty if the worker ended earlier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub acts: Vec<FaultActivations>,
    /// Injected delays (`--late`); absent if none were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<InjectedDelays>,
    /// Verdict: the meaning of the outcome, given the failures that the case expects.
    pub verdict: Verdict,
    /// Exit status or signal of the worker process or of the program.
    pub exit: End,
    /// Phases of the worker, with the time and memory that each used.
    pub phases: Vec<PhaseUse>,
    /// Number of calls of the plan that returned.
    pub calls: u64,
    /// Wall time of the process, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time of the process, in nanoseconds; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Largest resident set size of the process, in bytes; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rss_bytes: Option<u64>,
    /// Environment variables as the worker reported them, including those that a launcher added.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Resource limits as the worker reported them, for example `stack: 8M`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Sandbox that confined the worker of a case from outside rocrepro, or the reason why it was not confined. Empty
    /// for a case of rocrepro's case library, or if the worker did not report a sandbox.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub confined: String,
    /// Last lines of the standard error of the process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// Last lines of the standard output of a program; empty for a case with steps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout_tail: String,
    /// State of each thread when a hang was ended: the Linux kernel function in which it waited, and its call stack,
    /// innermost call first. Each call is written as `function (file)`, or `file+address` if the file has no symbol. For
    /// a program that crashed, the first line is about the thread that received the signal, its functions have offsets,
    /// and further lines name the build id of each file in its call stack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<String>,
    /// Result of the GPU health check after a failure; empty if there was no check.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gpu_after: String,
    /// Random number that the worker had to repeat, to prove that its report is from this run.
    pub nonce: String,
    /// Command that repeats the trial.
    pub again: String,
}

impl Record {
    /// Removes the fields that no view of a run shows, if the trial passed or was skipped. This saves memory in large
    /// runs. The record file keeps these fields.
    pub fn trim(&mut self) {
        if !matches!(self.verdict.kind, VerdictKind::Pass | VerdictKind::Skip) {
            return;
        }
        self.environment = BTreeMap::new();
        self.limits = BTreeMap::new();
        self.phases = Vec::new();
        self.nonce = String::new();
        self.again = String::new();
        self.stack.libraries = Vec::new();
    }
}

impl Record {
    /// Escapes control characters in all strings that a view shows within a line. Otherwise a worker, or the author of
    /// a record file, could make rocrepro print lines such as `1 passed`. Strings with several lines are not changed.
    pub fn escape_names(&mut self) {
        let Record { run, date, rocrepro, build, case, trial, title, upstream, .. } = self;
        [run, date, rocrepro, build, case, trial, title].into_iter().for_each(escape);
        upstream.iter_mut().for_each(escape);
        let Record { stack, device, outcome, stacks, gpu_after, again, confined, .. } = self;
        [gpu_after, again, confined].into_iter().for_each(escape);
        stacks.iter_mut().for_each(escape);
        [&mut stack.spec, &mut stack.root].into_iter().for_each(escape);
        for Library { name, path, build_id } in &mut stack.libraries {
            [name, path].into_iter().chain(build_id).for_each(escape);
        }
        let Device { name, gfx, bdf, driver, card, errors, .. } = device;
        [name, gfx, bdf, driver].into_iter().for_each(escape);
        errors.iter_mut().for_each(|errors| escape(&mut errors.unit));
        if let Some(card) = card {
            card.escape_names();
        }
        [&mut outcome.signature, &mut outcome.summary].into_iter().for_each(escape);
        let red = self.red.iter_mut().chain([&mut outcome.at]);
        red.filter_map(|location| location.api.as_mut()).for_each(escape);
        if let Some(asked) = &mut self.asked {
            asked.given.iter_mut().chain([&mut asked.text]).for_each(escape);
        }
        if let Some(late) = &mut self.late {
            escape(&mut late.asked);
        }
        if let Some(known) = &mut self.verdict.known {
            escape(&mut known.signature);
            known.gfx.iter_mut().chain(&mut known.upstream).for_each(escape);
            known.card.iter_mut().chain(&mut known.difference).for_each(escape);
            known.about.iter_mut().for_each(escape);
        }
    }
}

/// Delays that were injected into a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InjectedDelays {
    /// Requested distribution of the delays, for example `seeded=7`.
    pub asked: String,
    /// Number of injected delays. The worker reports it before its teardown, so it is absent if the worker ended
    /// earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

/// Serialises faults in the format of the command line, for example `copy.late,ms=50`.
mod texts {
    use device::FaultSpec;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(all: &[FaultSpec], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(FaultSpec::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<FaultSpec>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

/// Returns the environment variables and the resource limits that a worker reported. Both are empty if the worker
/// reported none.
pub fn reported_environment(
    events: &[Event],
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let hello = events.iter().find_map(|event| match event {
        Event::Hello { environment, limits, .. } => Some((environment.clone(), limits.clone())),
        _ => None,
    });
    hello.unwrap_or_default()
}

/// Describes the sandbox that confined the worker, as the worker reported it. Empty if the worker reported none.
pub fn describe_confinement(events: &[Event]) -> String {
    let said = events.iter().find_map(|event| match event {
        Event::Confined { complete, devices, why } => Some((*complete, devices, why)),
        _ => None,
    });
    match said {
        None => String::new(),
        Some((true, devices, _)) => {
            let devices = match &devices[..] {
                [] => String::new(),
                devices => format!(" and to the devices {}", devices.join(", ")),
            };
            format!(
                "the worker could write only to its scratch and cache{devices}, and read only these and the paths \
                 listed in SECURITY.md"
            )
        }
        Some((false, _, why)) => format!("the worker was NOT confined: {why}"),
    }
}

/// The ROCm user space with which a trial ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Name of the stack as the user gave it, for example `debian:7.2.4`; `bundled:PATH, build id ID` for a program
    /// that contains its own HIP.
    pub spec: String,
    /// Folder that contains the stack.
    pub root: String,
    /// ROCm version; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub rocm: Option<Version>,
    /// ROCm libraries that the worker reported to have loaded.
    pub libraries: Vec<Library>,
}

impl Stack {
    /// Returns the unique name of the stack. For a folder, this is its resolved path, because users may give a folder
    /// as a link or as a relative path.
    pub fn identity(&self) -> &str {
        // All other names contain a colon, which the path of a stack cannot contain.
        let folder = self.spec != "system" && !self.spec.contains(':') && !self.root.is_empty();
        if folder { &self.root } else { &self.spec }
    }

    /// Creates the description of a stack from its name and the libraries that the worker reported.
    pub fn from_events(spec: &str, root: &str, rocm: Option<Version>, events: &[Event]) -> Self {
        let mut libraries: Vec<Library> = Vec::new();
        for event in events {
            if let Event::Loaded { libraries: loaded } = event {
                for library in loaded.iter().map(Library::from) {
                    if !libraries.contains(&library) {
                        libraries.push(library);
                    }
                }
            }
        }
        Stack { spec: spec.to_owned(), root: root.to_owned(), rocm, libraries }
    }
}

/// A library that was mapped into the worker process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Library {
    /// File name, such as `libamdhip64.so.7`.
    pub name: String,
    /// Path from which the library was mapped.
    pub path: String,
    /// GNU build id in hexadecimal. Unlike a version, it identifies one build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

impl From<&LoadedLibrary> for Library {
    fn from(library: &LoadedLibrary) -> Self {
        let LoadedLibrary { name, path, build_id } = library.clone();
        Library { name, path, build_id }
    }
}

/// The GPU or emulated device on which a trial ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Name that the HIP runtime reports; empty if it was not queried.
    pub name: String,
    /// Architecture with features, for example `gfx90a:sramecc+:xnack-`.
    pub gfx: String,
    /// PCI address, for example `0000:03:00.0`; empty if the HIP runtime does not report it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bdf: String,
    /// True for the emulated device, whose results are not results of a GPU.
    pub emulated: bool,
    /// True if the worker proved these values; false if they are only the requested ones.
    pub proven: bool,
    /// State of the GPU after the trial, from the files of its driver; absent if these do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Box<Gpu>>,
    /// Errors that the GPU's hardware counted during the trial, for each unit of the GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Errors>,
    /// Name of the GPU driver and release of the Linux kernel; empty if no driver is loaded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// Report of the emulated device, which contains its configuration; absent for a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub identity: Option<Identity>,
}

impl Device {
    /// Returns the device that the worker reported, or the requested device if the worker reported none.
    pub fn from_events(events: &[Event], planned_gfx: &str, planned_emulated: bool) -> Self {
        let found = events.iter().find_map(|event| match event {
            Event::Device { count, name, gfx, bdf, emulated, .. } if *count > 0 => Some(Device {
                name: one_line(&name.replace('\n', " ")),
                gfx: one_line(gfx),
                bdf: one_line(bdf),
                emulated: emulated.is_some(),
                proven: true,
                card: None,
                errors: Vec::new(),
                driver: String::new(),
                identity: emulated.clone(),
            }),
            _ => None,
        });
        found.unwrap_or_else(|| Device {
            name: String::new(),
            gfx: planned_gfx.to_owned(),
            bdf: String::new(),
            emulated: planned_emulated,
            proven: false,
            card: None,
            errors: Vec::new(),
            driver: String::new(),
            identity: None,
        })
    }
}

/// Reason why a line of a record file is not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The line is not JSON, or lacks fields of a record.
    #[error("not a record: {0}")]
    Json(#[from] serde_json::Error),
    /// The line is valid in a record file but is not the record of a trial.
    #[error("the line is the start or the end of a trial or run, not the record of a trial")]
    NoTrial,
    /// The line has a later format than this version can read. The value is the version of that format.
    #[error("the record has format {0}, but this rocrepro reads format {FORMAT}")]
    Format(u32),
}

/// Serialises a record as one line of JSON, without the newline.
///
/// # Errors
/// None in practice, because every record can be written as JSON.
pub fn to_line(record: &Record) -> Result<String, RecordError> {
    Ok(serde_json::to_string(record)?)
}

/// Formats a time as RFC 3339 in UTC, rounded down to whole seconds.
pub fn date(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Returns the end of a process's output, as a record stores it: at most the last 20 lines and the last 4096 bytes.
pub fn output_tail(output: &str) -> String {
    let mut from = output.len().saturating_sub(TAIL_BYTES);
    while !output.is_char_boundary(from) {
        from += 1;
    }
    let lines: Vec<&str> = output[from..].lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::{
        fixture::{failed, passed},
        parse, schema,
    };

    #[test]
    fn record_round_trips_through_its_line() {
        for record in [passed("copies/plain[bytes=2]"), failed("copies/plain[bytes=2]")] {
            let line = to_line(&record).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(parse(&line).unwrap(), record);
            assert!(line.contains(r#""emulated":true"#));
        }
    }

    #[test]
    fn rejects_other_formats() {
        assert!(matches!(parse(r#"{"format":2}"#), Err(RecordError::Format(2))));
        assert!(matches!(parse(r#"{"format":1}"#), Err(RecordError::Json(_))));
        assert!(matches!(parse("{"), Err(RecordError::Json(_))));
    }

    #[test]
    fn every_field_is_documented_in_the_schema() {
        let schema = schema();
        let definitions = schema["$defs"].as_object().unwrap();
        for (name, definition) in definitions.iter().chain([(&"Line".to_owned(), &schema)]) {
            let Some(properties) = definition["properties"].as_object() else { continue };
            for (field, property) in properties {
                assert!(property["description"].is_string(), "{name}.{field}");
            }
        }
        insta::assert_json_snapshot!(schema);
    }

    #[test]
    fn dates_are_utc() {
        assert_eq!(
            date(UNIX_EPOCH + Duration::from_millis(1_795_222_923_999)),
            "2026-11-21T01:02:03Z"
        );
    }

    #[test]
    fn keeps_the_end_of_standard_error() {
        assert_eq!(output_tail(""), "");
        assert_eq!(output_tail("a\nb\n"), "a\nb");
        let long: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert_eq!(output_tail(&long).lines().next(), Some("80"));
        assert!(output_tail(&"é".repeat(5000)).len() <= TAIL_BYTES);
    }
}
