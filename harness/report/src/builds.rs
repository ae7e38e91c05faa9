//! Determines which builds of rocrepro produced a set of records, and warns if there are several builds.

use std::collections::BTreeMap;

use crate::{Record, count};

/// Number of records per build of rocrepro, by version and build id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Builds(BTreeMap<(String, String), usize>);

impl Builds {
    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        *self.0.entry((record.rocrepro.clone(), record.build.clone())).or_default() += 1;
    }

    /// Returns a warning if several builds of rocrepro produced the records.
    pub fn warning(&self) -> Option<String> {
        let each = self.0.iter().map(|((version, build), trials)| {
            let build = if build.is_empty() { "an unknown build" } else { build };
            format!("\n    {version}, {build}: {}", count(*trials, "trial"))
        });
        (self.0.len() > 1).then(|| {
            format!(
                "warning: the records were written by {} of rocrepro, which may classify results differently:{}",
                count(self.0.len(), "build"),
                each.collect::<String>()
            )
        })
    }

    /// Returns the build id if one build of rocrepro produced all records, otherwise an empty string.
    pub fn single_build_id(&self) -> &str {
        match self.0.first_key_value() {
            Some(((_, build), _)) if self.0.len() == 1 => build,
            _ => "",
        }
    }
}

impl<'r> FromIterator<&'r Record> for Builds {
    fn from_iter<I: IntoIterator<Item = &'r Record>>(records: I) -> Builds {
        let mut builds = Builds::default();
        records.into_iter().for_each(|record| builds.add(record));
        builds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::passed;

    #[test]
    fn reports_records_of_several_builds() {
        let of = |build: &str| Record { build: build.to_owned(), ..passed("a/b") };
        let one: Builds = [of("aa"), of("aa")].iter().collect();
        assert_eq!((one.warning(), one.single_build_id()), (None, "aa"));
        let two: Builds = [of("aa"), of(""), of("aa")].iter().collect();
        assert_eq!(two.single_build_id(), "");
        assert_eq!(
            two.warning().expect("two builds"),
            "warning: the records were written by 2 builds of rocrepro, which may classify results differently:\n    0.1.0, an unknown build: 1 trial\n    0.1.0, aa: 2 trials"
        );
        assert_eq!(Builds::default(), Builds::from_iter([]));
    }
}
