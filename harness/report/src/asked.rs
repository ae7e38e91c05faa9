//! What was asked of a trial besides its stack and its device.

use device::Sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was asked of a trial besides its stack, its device, its faults and its lateness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Options of the command line that a result depends on and that are not usual, such as `--env AMD_SERIALIZE_COPY=3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
    /// A digest of what the trial does: its plan without places in the case file, or its program. Another text of the same case has
    /// another one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl Asked {
    /// Options with their values, as a session gives them, and a digest.
    pub fn new<'o>(given: impl IntoIterator<Item = (&'o str, String)>, text: String) -> Asked {
        let option =
            |(option, value): (&str, String)| format!("{option} {value}").trim().to_owned();
        Asked { given: given.into_iter().map(option).collect(), text }
    }

    /// Whether it may be why a failure stays away. A launcher says where a trial runs, and nothing about how.
    pub fn may_avoid_failures(&self) -> bool {
        self.given.iter().any(|given| !given.starts_with("--launcher "))
    }

    /// The options for people; variables together, as one mitigation may need several.
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
                "--timeout" => format!("at most {value} s"),
                "--quiet-timeout" => format!("silent for at most {value} s"),
                "--schedule" => format!("schedule {value}"),
                "--sanitize" => sanitized(Sanitize::On).to_owned(),
                "--sanitize=stop" => sanitized(Sanitize::Stop).to_owned(),
                "--device-option" => value.to_owned(),
                _ => given.clone(),
            });
        }
        if !variables.is_empty() {
            words.insert(0, format!("{WITH}{}", variables.join(" ")));
        }
        words
    }
}

/// In front of variables.
pub(crate) const WITH: &str = "with ";

pub(crate) fn sanitized(sanitize: Sanitize) -> &'static str {
    match sanitize {
        Sanitize::Off => "not sanitized",
        Sanitize::On => "sanitized",
        Sanitize::Stop => "sanitized up to the first finding",
    }
}
