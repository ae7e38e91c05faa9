use std::{collections::BTreeMap, time::SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use device::{Acts, Identity, Planted};
use judge::{End, Location, Outcome, PhaseUse, Verdict, VerdictKind};
use plan::{Event, LoadedLibrary, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Asked, Errors, Gpu, ProgramRun};

/// Version of the record format. It grows when a field changes its meaning or goes away; new fields do not change it.
pub const FORMAT: u32 = 1;

/// Lines and bytes of standard error that a record keeps.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 4096;

/// What happened in one trial. One line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of this format, 1.
    pub format: u32,
    /// The run that the trial belongs to: one invocation of rocrepro.
    #[serde(default)]
    pub run: String,
    /// Its number in the run, the one of the line that said that it began.
    #[serde(default)]
    pub number: u64,
    /// When the trial ended, RFC 3339 in UTC.
    pub date: String,
    /// Version of rocrepro.
    pub rocrepro: String,
    /// Identity of the build of rocrepro: its GNU build id, or `sha256:` and the digest of its file. Empty in records of versions that
    /// did not write it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// The case, such as `copies/small-sizes`.
    pub case: String,
    /// The trial, such as `copies/small-sizes[bytes=2,host=pageable]`.
    pub trial: String,
    /// The case's title.
    pub title: String,
    /// Issues that the case stands for, such as `ROCm/rocm-systems#10639`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstream: Vec<String>,
    /// Faults that were planted on purpose, with their parameters, such as `copy.late,ms=50`; a record with one says nothing
    /// about a ROCm release.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "texts")]
    #[schemars(with = "Vec<String>")]
    pub faults: Vec<Planted>,
    /// What was asked of the trial besides; none in records of versions that did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// The ROCm user space.
    pub stack: Stack,
    /// What stood under the HIP runtime.
    pub device: Device,
    /// What happened.
    pub outcome: Outcome,
    /// Every place at which the trial deviated from its plan, the first one first, each step once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub red: Vec<Location>,
    /// The program of a trial whose body is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<ProgramRun>>,
    /// How often each planted fault misbehaved, as the worker says before it tears down; empty where it did not come that far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub acts: Vec<Acts>,
    /// How work was made late on purpose (`--late`); none where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Lateness>,
    /// What it means.
    pub verdict: Verdict,
    /// How the process ended.
    pub exit: End,
    /// The phases that the worker went through.
    pub phases: Vec<PhaseUse>,
    /// Calls that returned.
    pub calls: u64,
    /// Wall time of the process, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time of the process, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Largest resident set of the process, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rss_bytes: Option<u64>,
    /// The environment that the worker found, as it said itself: what it was told, and what a launcher added.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The limits of resources that the worker found, such as `stack: 8M`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// How the worker of a case from elsewhere was confined; empty where the case was trusted, or where the worker said
    /// nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub confined: String,
    /// The end of standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// Where each thread stood when a hang was ended: what it waited for in the kernel, and its calls, innermost first, each as
    /// `function (file)`, or `file+address` where the file has no symbol for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<String>,
    /// On a GPU, whether it still worked after this trial failed; nothing where that was not looked at.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gpu_after: String,
    /// The nonce by which the worker proved itself.
    pub nonce: String,
    /// The command that repeats this trial.
    pub again: String,
}

impl Record {
    /// Lets go of what no view of a run shows of a trial that passed or was skipped: in a run of many it would fill the memory. The
    /// record file has it.
    pub fn let_go(&mut self) {
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

/// Lateness on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// How the lengths were drawn, such as `seeded=7`.
    pub asked: String,
    /// How often work was late, as the worker says before it tears down; none where it did not come that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

/// Planted faults as they are written on the command line.
mod texts {
    use device::Planted;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(all: &[Planted], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(Planted::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Planted>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

/// The environment and the limits of resources that a worker said it found; nothing where it said nothing.
pub fn found(events: &[Event]) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let hello = events.iter().find_map(|event| match event {
        Event::Hello { environment, limits, .. } => Some((environment.clone(), limits.clone())),
        _ => None,
    });
    hello.unwrap_or_default()
}

/// What a worker said of its confinement, in words.
pub fn confined(events: &[Event]) -> String {
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
                "the worker could write only to its scratch and cache{devices}, and read only these and what SECURITY.md lists"
            )
        }
        Some((false, _, why)) => format!("the worker was NOT confined: {why}"),
    }
}

/// A ROCm user space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// How the user names it, such as `debian:7.2.4`; `bundled:PATH, build id ID` of a program that brought its own HIP.
    pub spec: String,
    /// Its folder.
    pub root: String,
    /// Its ROCm version, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub rocm: Option<Version>,
    /// The ROCm libraries that the worker had loaded, as it said itself.
    pub libraries: Vec<Library>,
}

impl Stack {
    /// What tells it from every other: its name, and of a folder, which may be given as a link or from another folder, where that
    /// really is.
    pub fn identity(&self) -> &str {
        // The names of all others have a colon, which a folder of a stack has not.
        let folder = self.spec != "system" && !self.spec.contains(':') && !self.root.is_empty();
        if folder { &self.root } else { &self.spec }
    }

    /// A stack with the libraries that a worker reported.
    pub fn seen(spec: &str, root: &str, rocm: Option<Version>, events: &[Event]) -> Self {
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

/// A library mapped into the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Library {
    /// File name, such as `libamdhip64.so.7`.
    pub name: String,
    /// The path it was mapped from.
    pub path: String,
    /// GNU build id in hexadecimal; the identity of a build where version strings are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

impl From<&LoadedLibrary> for Library {
    fn from(library: &LoadedLibrary) -> Self {
        let LoadedLibrary { name, path, build_id } = library.clone();
        Library { name, path, build_id }
    }
}

/// What stands under the HIP runtime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// The runtime's name for it; empty where nobody asked.
    pub name: String,
    /// Its architecture with features, such as `gfx90a:sramecc+:xnack-`.
    pub gfx: String,
    /// Its PCI address, such as `0000:03:00.0`; empty where the runtime does not tell.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bdf: String,
    /// Whether it is emulated. An emulated result is no GPU result.
    pub emulated: bool,
    /// Whether the worker proved this; else it is what was planned.
    pub proven: bool,
    /// The GPU, as the files of its driver described it after the trial; none where these do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Box<Gpu>>,
    /// Errors that the GPU's hardware counted during the trial, by unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Errors>,
    /// The driver of the GPU and the release of the kernel that runs it; nothing where none is loaded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// The emulated device's own statement, with its configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub identity: Option<Identity>,
}

impl Device {
    /// What a worker reported, or what was planned where it did not come that far.
    pub fn seen(events: &[Event], planned_gfx: &str, planned_emulated: bool) -> Self {
        let found = events.iter().find_map(|event| match event {
            Event::Device { count, name, gfx, bdf, emulated, .. } if *count > 0 => Some(Device {
                name: crate::text::visible(&name.replace('\n', " ")),
                gfx: gfx.clone(),
                bdf: bdf.clone(),
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

/// A line is no record of this format.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not JSON, or not a record.
    #[error("not a record: {0}")]
    Json(#[from] serde_json::Error),
    /// A line of a record file that says something else.
    #[error("a line that says that a trial or a run began or is over, and no record of a trial")]
    NoTrial,
    /// Of a later format.
    #[error("a record of format {0}; this rocrepro reads format {FORMAT}")]
    Format(u32),
}

/// A record as one line of JSON, without the newline.
///
/// # Errors
/// None in practice: every record can be written as JSON.
pub fn to_line(record: &Record) -> Result<String, RecordError> {
    Ok(serde_json::to_string(record)?)
}

/// A time as RFC 3339 in UTC, to the second.
pub fn date(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The part of a standard error that a record keeps: its last lines.
pub fn stderr_tail(stderr: &str) -> String {
    let mut from = stderr.len().saturating_sub(TAIL_BYTES);
    while !stderr.is_char_boundary(from) {
        from += 1;
    }
    let lines: Vec<&str> = stderr[from..].lines().collect();
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
    fn a_record_survives_its_line() {
        for record in [passed("copies/plain[bytes=2]"), failed("copies/plain[bytes=2]")] {
            let line = to_line(&record).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(parse(&line).unwrap(), record);
            assert!(line.contains(r#""emulated":true"#));
        }
    }

    #[test]
    fn other_formats_are_refused() {
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
    fn the_end_of_standard_error_is_kept() {
        assert_eq!(stderr_tail(""), "");
        assert_eq!(stderr_tail("a\nb\n"), "a\nb");
        let long: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert_eq!(stderr_tail(&long).lines().next(), Some("80"));
        assert!(stderr_tail(&"é".repeat(5000)).len() <= TAIL_BYTES);
    }
}
