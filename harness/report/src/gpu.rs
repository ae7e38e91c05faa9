//! Describes a GPU and its state, as read from the files of its driver.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::escape;

/// A GPU: its identity, its configuration and its state at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Product name; empty if the driver does not know it.
    pub name: String,
    /// Architecture, for example `gfx1100`.
    pub gfx: String,
    /// PCI vendor, device and revision, such as `1002:744c rev c8`.
    pub pci: String,
    /// PCI address, for example `0000:03:00.0`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bdf: String,
    /// Anonymous identity of the card: the first 12 hexadecimal digits of the SHA-256 of its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// Video memory, in bytes.
    pub vram_bytes: u64,
    /// Video memory in use by all processes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vram_used_bytes: Option<u64>,
    /// Host memory that the GPU may use (GTT), in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtt_bytes: Option<u64>,
    /// Compute and memory partition mode, for example `SPX/NPS1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// PCIe link to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Highest temperature of all sensors, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<u32>,
    /// Power limit, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cap_watts: Option<u32>,
    /// Hardware errors (RAS) counted since the driver was loaded, by unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Errors>,
    /// Version of the board's firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vbios: Option<String>,
    /// Name and version of each firmware of the GPU; the names are for example `mec` and `sdma`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub firmware: Vec<(String, String)>,
}

/// Current and maximum speed of a PCIe link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Current speed and width, for example `16.0 GT/s x16`.
    pub now: String,
    /// Maximum speed and width that both the card and its slot support.
    pub most: String,
}

/// Hardware errors of a unit, for example `umc` (memory) or `gfx`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// Name of the unit.
    pub unit: String,
    /// Number of errors that the hardware could not correct, so that data was wrong.
    pub uncorrected: u64,
    /// Number of errors that the hardware corrected.
    pub corrected: u64,
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Errors { unit, uncorrected, corrected } = self;
        write!(f, "{unit}: {uncorrected} uncorrected, {corrected} corrected")
    }
}

impl Gpu {
    /// Escapes control characters in all strings, see [`crate::Record::escape_names`].
    pub(crate) fn escape_names(&mut self) {
        let Gpu { name, gfx, pci, bdf, card, partition, link, vbios, firmware, errors, .. } = self;
        [name, gfx, pci, bdf].into_iter().for_each(escape);
        [card, partition, vbios].into_iter().flatten().for_each(escape);
        link.iter_mut().flat_map(|link| [&mut link.now, &mut link.most]).for_each(escape);
        firmware.iter_mut().flat_map(|(part, version)| [part, version]).for_each(escape);
        errors.iter_mut().for_each(|errors| escape(&mut errors.unit));
    }

    /// Returns the hardware errors that were counted since `before`, which describes the same card at an earlier time.
    pub fn errors_since(&self, before: &Gpu) -> Vec<Errors> {
        let new = self.errors.iter().map(|now| {
            let then = before.errors.iter().find(|then| then.unit == now.unit);
            let (uncorrected, corrected) = then.map_or((0, 0), |e| (e.uncorrected, e.corrected));
            Errors {
                unit: now.unit.clone(),
                uncorrected: now.uncorrected.saturating_sub(uncorrected),
                corrected: now.corrected.saturating_sub(corrected),
            }
        });
        new.filter(|errors| errors.uncorrected > 0 || errors.corrected > 0).collect()
    }

    /// Describes the GPU in one line.
    pub(crate) fn words(&self) -> String {
        let name = if self.name.is_empty() { "AMD GPU" } else { &self.name };
        let mut text = format!("{name}, {}, {}", self.gfx, self.pci);
        let mut add = |what: String| text.push_str(&format!(", {what}"));
        if !self.bdf.is_empty() {
            add(format!("at {}", self.bdf));
        }
        if let Some(card) = &self.card {
            add(format!("card {card}"));
        }
        add(match self.vram_used_bytes {
            Some(used) => {
                format!("{} of memory ({} in use)", gib(self.vram_bytes), gib(used))
            }
            None => format!("{} of memory", gib(self.vram_bytes)),
        });
        if let Some(gtt) = self.gtt_bytes {
            add(format!("{} of host memory", gib(gtt)));
        }
        if let Some(partition) = &self.partition {
            add(partition.clone());
        }
        if let Some(Link { now, most }) = &self.link {
            add(match now == most {
                true => format!("PCIe {now}"),
                false => format!("PCIe {now} of {most}"),
            });
        }
        if let Some(celsius) = self.celsius {
            add(format!("{celsius} degrees Celsius"));
        }
        if let Some(watts) = self.power_cap_watts {
            add(format!("at most {watts} W"));
        }
        if let Some(vbios) = &self.vbios {
            add(format!("vbios {vbios}"));
        }
        text
    }
}

pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_errors_are_counted_since_the_trial_began() {
        let card = |counted: &[(&str, u64, u64)]| Gpu {
            errors: counted
                .iter()
                .map(|(unit, uncorrected, corrected)| Errors {
                    unit: (*unit).to_owned(),
                    uncorrected: *uncorrected,
                    corrected: *corrected,
                })
                .collect(),
            ..Gpu::default()
        };
        let before = card(&[("umc", 1, 7), ("gfx", 0, 2)]);
        assert_eq!(before.errors_since(&before), []);
        // The driver was reloaded between the two descriptions, which resets its counters. A lower count is therefore
        // not an error.
        let after = card(&[("umc", 2, 7), ("gfx", 0, 1), ("sdma", 0, 3)]);
        let new_errors: Vec<_> =
            after.errors_since(&before).iter().map(Errors::to_string).collect();
        assert_eq!(
            new_errors,
            ["umc: 1 uncorrected, 0 corrected", "sdma: 0 uncorrected, 3 corrected"]
        );
    }
}
