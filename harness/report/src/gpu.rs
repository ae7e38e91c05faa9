//! A card, as the files of its driver describe it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// The product's name where the driver knows it.
    pub name: String,
    /// Its architecture, such as `gfx1100`.
    pub gfx: String,
    /// PCI vendor, device and revision, such as `1002:744c rev c8`.
    pub pci: String,
    /// Its PCI address, such as `0000:03:00.0`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bdf: String,
    /// Tells this card from every other without naming it: the first 12 hexadecimal digits of the SHA-256 of its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// Memory of its own, in bytes.
    pub vram_bytes: u64,
    /// How much of that is in use, by whatever process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vram_used_bytes: Option<u64>,
    /// Memory of the host that it may use, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtt_bytes: Option<u64>,
    /// How it is divided, compute and memory, such as `SPX/NPS1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Its link to the host, such as `16.0 GT/s x16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The hottest of its sensors, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<u32>,
    /// The limit of its power, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cap_watts: Option<u32>,
    /// Errors of its memory and units that hardware counted since the driver was loaded, by unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Errors>,
    /// Version of the board's firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vbios: Option<String>,
    /// Firmware versions by part, such as `mec` and `sdma`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub firmware: Vec<(String, String)>,
}

/// A PCIe link: what it is now and what it could be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Such as `16.0 GT/s x16`.
    pub now: String,
    /// The most that the card and its slot can do.
    pub most: String,
}

/// What hardware counted in a unit, such as `umc` (memory) or `gfx`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// The unit.
    pub unit: String,
    /// Errors that nothing could mend: data was wrong.
    pub uncorrected: u64,
    /// Errors that were mended.
    pub corrected: u64,
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Errors { unit, uncorrected, corrected } = self;
        write!(f, "{unit}: {uncorrected} uncorrected, {corrected} corrected")
    }
}

impl Gpu {
    /// What was counted since an earlier look at the same card.
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
        new.filter(|errors| errors.uncorrected + errors.corrected > 0).collect()
    }

    /// In one line.
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
            add(format!("{} of the host's", gib(gtt)));
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

/// Bytes in GiB, for people.
pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_trial_are_those_since_it_began() {
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
        // The driver was loaded anew in between: what it counted first is not known to be new, and a fall is none.
        let after = card(&[("umc", 2, 7), ("gfx", 0, 1), ("sdma", 0, 3)]);
        let told: Vec<_> = after.errors_since(&before).iter().map(Errors::to_string).collect();
        assert_eq!(told, ["umc: 1 uncorrected, 0 corrected", "sdma: 0 uncorrected, 3 corrected"]);
    }
}
