//! Options of a trial that are recorded because its result depends on them.

use device::Sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options with which a trial was run, and a digest of the trial itself. The stack, the device, injected faults and
/// injected delays are recorded elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Asked")]
pub struct RequestedOptions {
    /// Command-line options that affect the result and are not the defaults, such as `--env AMD_SERIALIZE_COPY=3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
    /// Digest of the trial's plan (without line numbers of the case file) or of its program. It changes when the case
    /// is edited.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Digest of the same data without the name of the trial: equal for trials of different cases that do the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unnamed: String,
}

impl RequestedOptions {
    /// Creates the options from names and values, for example `--env A=1`. `text` is the digest of the trial.
    pub fn new<'o>(
        given: impl IntoIterator<Item = (&'o str, String)>,
        text: String,
    ) -> RequestedOptions {
        let option =
            |(option, value): (&str, String)| format!("{option} {value}").trim().to_owned();
        RequestedOptions {
            given: given.into_iter().map(option).collect(),
            text,
            unnamed: String::new(),
        }
    }

    /// Returns true if an option may be the reason why an expected failure does not occur. `--launcher` is not such an
    /// option, because it only selects where a trial runs.
    pub fn may_avoid_failures(&self) -> bool {
        self.given.iter().any(|given| !given.starts_with("--launcher "))
    }

    /// Describes the options for people, one string per option. All variables share one string, because a mitigation
    /// may need several of them.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut variables = Vec::new();
        let mut words = Vec::new();
        for given in &self.given {
            let (option, value) = given.split_once(' ').unwrap_or((given, ""));
            words.push(match option {
                "--env" => {
                    variables.push(value);
                    continue;
                }
                "--launcher" => format!("started by `{value}`"),
                "--limit" => format!("limit {value}"),
                "--timeout" => format!("time limit {value} s"),
                "--quiet-timeout" => format!("limit without progress {value} s"),
                "--schedule" => format!("schedule {value}"),
                "--sanitize" => sanitized(Sanitize::On).to_owned(),
                "--sanitize=stop" => sanitized(Sanitize::Stop).to_owned(),
                "--device-option" => value.to_owned(),
                _ => given.clone(),
            });
        }
        if !variables.is_empty() {
            words.insert(0, format!("{WITH_PREFIX}{}", variables.join(" ")));
        }
        words
    }
}

pub(crate) const WITH_PREFIX: &str = "with ";

pub(crate) fn sanitized(sanitize: Sanitize) -> &'static str {
    match sanitize {
        Sanitize::Off => "not sanitized",
        Sanitize::On => "sanitized",
        Sanitize::Stop => "sanitized up to the first finding",
    }
}
