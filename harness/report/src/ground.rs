//! Identifies the configuration of a run: its stack, device and unusual options. Results from different configurations
//! are never mixed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Record, conditions::unusual_options, words::stack_and_device};

/// Configuration of a run: its stack, device and unusual options.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunConfiguration {
    /// Short name of the configuration, for example `debian:7.2.4@gfx1151` or `system@gfx1100 GPU 0123456789ab`. Equal
    /// configurations have equal names.
    pub name: String,
    /// Description of the configuration for people.
    pub words: String,
}

impl RunConfiguration {
    /// Returns the configuration of the first record whose device is proven, or of the first record if no device is
    /// proven. `None` for an empty list.
    pub fn from_records<'a>(
        records: impl IntoIterator<Item = &'a Record> + Clone,
    ) -> Option<RunConfiguration> {
        let proven = records.clone().into_iter().find(|record| record.device.proven);
        proven.or_else(|| records.into_iter().next()).map(from_record)
    }
}

/// Groups the records of one run by configuration, because its trials may have run on several GPUs. If all proven
/// records are from one GPU, the records without proof are added to the group of that GPU.
pub fn group_by_configuration(run: Vec<Record>) -> Vec<(RunConfiguration, Vec<Record>)> {
    let card = |record: &Record| record.device.proven.then(|| record.device.bdf.clone());
    let cards: BTreeSet<String> = run.iter().filter_map(card).collect();
    let mut parts: BTreeMap<Option<String>, Vec<Record>> = BTreeMap::new();
    for record in run {
        let part = if cards.len() > 1 { card(&record) } else { None };
        parts.entry(part).or_default().push(record);
    }
    let named =
        parts.into_values().map(|part| Some((RunConfiguration::from_records(&part)?, part)));
    named.flatten().collect()
}

/// Collects the configurations of one run, record by record. The result is the same as that of
/// [`group_by_configuration`].
#[derive(Clone, Debug, Default)]
pub struct RunConfigurations(BTreeMap<Option<String>, RunConfiguration>);

impl RunConfigurations {
    /// Adds a record of the run. The records must be added in the order of their numbers.
    pub fn add(&mut self, record: &Record) {
        let card = record.device.proven.then(|| record.device.bdf.clone());
        self.0.entry(card).or_insert_with(|| from_record(record));
    }

    /// Returns the configurations: one for each GPU if the run used several, otherwise a single one.
    pub fn into_list(self) -> Vec<RunConfiguration> {
        let proven = self.0.keys().flatten().count();
        match proven {
            0 | 1 => self.0.into_values().next_back().into_iter().collect(),
            _ => self.0.into_values().collect(),
        }
    }
}

fn from_record(record: &Record) -> RunConfiguration {
    let mut words = stack_and_device(record);
    let device = &record.device;
    if !device.emulated {
        match card(record) {
            Some(card) => words.push_str(&format!(", card {card}")),
            None if !device.bdf.is_empty() => words.push_str(&format!(", at {}", device.bdf)),
            None => {}
        }
        if !device.driver.is_empty() {
            words.push_str(&format!(", {}", device.driver));
        }
    }
    for asked in unusual_options(record) {
        words.push_str(&format!("; {asked}"));
    }
    RunConfiguration {
        name: format!("{}@{}", record.stack.identity(), device_and_options(record)),
        words,
    }
}

/// Returns the anonymous identity of the GPU, if it has a serial number.
fn card(record: &Record) -> Option<&str> {
    record.device.card.as_ref().and_then(|card| card.card.as_deref())
}

/// Returns the part of a configuration's name that does not depend on the stack, for example `gfx1151; schedule lazy` or
/// `gfx1100 GPU 0123456789ab`.
pub(crate) fn device_and_options(record: &Record) -> String {
    let device = &record.device;
    // Requested features of the emulated device are part of its options below. Features of a GPU are part of its name.
    let mut name = match device.emulated {
        true => device.gfx.split(':').next().unwrap_or_default().to_owned(),
        false => format!("{} GPU", device.gfx),
    };
    if !device.emulated {
        // A card without a serial number is identified by its PCI address.
        match card(record) {
            Some(card) => name.push_str(&format!(" {card}")),
            None if !device.bdf.is_empty() => name.push_str(&format!(" {}", device.bdf)),
            None => {}
        }
        if !device.driver.is_empty() {
            name.push_str(&format!(", {}", device.driver));
        }
    }
    for asked in unusual_options(record) {
        name.push_str(&format!("; {asked}"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gpu, fixture::*};

    #[test]
    fn groups_records_by_gpu() {
        let at = |bdf: &str, proven: bool| {
            let mut record = on_gpu(passed("a/b"));
            (record.device.bdf, record.device.proven) = (bdf.to_owned(), proven);
            record
        };
        let (one, two) = ("0000:03:00.0", "0000:43:00.0");
        let grouped = |run: &[Record]| {
            let parts = group_by_configuration(run.to_vec()).into_iter();
            parts.map(|(ground, records)| (ground.name, records.len())).collect::<Vec<_>>()
        };
        let name = |bdf: &str| format!("debian:7.2.4@gfx1100 GPU {bdf}");
        let both = grouped(&[at(one, true), at(two, true), at("", false), at(one, true)]);
        let nowhere = "debian:7.2.4@gfx1100 GPU".to_owned();
        assert_eq!(both, [(nowhere, 1), (name(one), 2), (name(two), 1)]);
        // If all proven records are from one GPU, records without proof belong to the same configuration.
        assert_eq!(grouped(&[at("", false), at(one, true)]), [(name(one), 2)]);
        assert_eq!(grouped(&[passed("a/b"), unproven("a/b")]).len(), 1);
        assert_eq!(grouped(&[]), []);
    }

    #[test]
    fn options_are_part_of_the_configuration() {
        let card = |digest: &str, driver: &str| {
            let mut record = on_gpu(passed("a/b"));
            record.device.driver = driver.to_owned();
            record.device.card =
                Some(Box::new(Gpu { card: Some(digest.to_owned()), ..Gpu::default() }));
            record
        };
        let mut late = passed("a/b");
        late.late = Some(crate::InjectedDelays { asked: "seeded=7".to_owned(), times: None });
        let folder = |root: &str| {
            let mut record = passed("a/b");
            (record.stack.spec, record.stack.root) = ("./here".to_owned(), root.to_owned());
            record
        };
        // Without proof the actual device is unknown, but the requested options are in the record.
        let unproven = with_options(&[("--schedule", "lazy")], unproven("a/b"));
        let records = [
            passed("a/b"),
            with_options(&[], passed("a/b")),
            with_options(&[("--env", "AMD_SERIALIZE_COPY=3")], passed("a/b")),
            with_options(&[("--limit", "stack=64M")], passed("a/b")),
            unproven,
            folder("/stacks/a"),
            folder("/stacks/b"),
            on_gpu(passed("a/b")),
            card("0123456789ab", "amdgpu, kernel 6.12"),
            card("0123456789ab", "amdgpu, kernel 6.13"),
            card("ba9876543210", "amdgpu, kernel 6.12"),
            with_fault(device::Fault::CopyZero, failed("a/b")),
            late,
        ];
        let names: Vec<String> = records
            .iter()
            .filter_map(|r| RunConfiguration::from_records([r]))
            .map(|ground| ground.name)
            .collect();
        assert_eq!(
            names,
            [
                "debian:7.2.4@gfx1151",
                "debian:7.2.4@gfx1151",
                "debian:7.2.4@gfx1151; with AMD_SERIALIZE_COPY=3",
                "debian:7.2.4@gfx1151; limit stack=64M",
                "debian:7.2.4@gfx1151; schedule lazy",
                "/stacks/a@gfx1151",
                "/stacks/b@gfx1151",
                "debian:7.2.4@gfx1100 GPU 0000:03:00.0",
                "debian:7.2.4@gfx1100 GPU 0123456789ab, amdgpu, kernel 6.12",
                "debian:7.2.4@gfx1100 GPU 0123456789ab, amdgpu, kernel 6.13",
                "debian:7.2.4@gfx1100 GPU ba9876543210, amdgpu, kernel 6.12",
                "debian:7.2.4@gfx1151; injected fault: copy.zero",
                "debian:7.2.4@gfx1151; injected delays",
            ]
        );
        // The first record with proof determines the configuration, even if records without proof come first.
        let run = [crate::fixture::unproven("a/b"), passed("a/b")];
        assert_eq!(
            RunConfiguration::from_records(&run),
            RunConfiguration::from_records([&passed("a/b")])
        );
        assert_eq!(RunConfiguration::from_records(&[]), None);
    }
}
