//! Describes all forms of a stack's name, for help texts, messages and shell completion.

use crate::{RELEASES, Release, Sources};

/// A form that the name of a stack can have.
#[derive(Clone, Debug)]
pub struct Spelling {
    /// The form, with capital letters in place of a value, for example `debian:VERSION`.
    pub form: &'static str,
    /// Example of a name that has this form.
    pub example: String,
    /// Short version of the form for lists. A value is replaced by its possible values if they are known.
    pub short: String,
    /// Description of the stacks whose names have this form, as a noun phrase.
    pub about: String,
}

/// Returns all forms that a stack's name can have.
pub fn spellings() -> Vec<Spelling> {
    let spelling = |form, example: &str, short, about: &str| Spelling {
        form,
        example: example.to_owned(),
        short,
        about: about.to_owned(),
    };
    let (releases, build) = (known_releases(), "nightly:2026-07-02");
    let sources = Sources::built_in_channels().join(", ");
    let of_build = format!("SOURCE:BUILD such as {build} (sources: {sources})");
    vec![
        spelling("system", "system", "system".into(), "the ROCm installed on this machine"),
        spelling(
            "FOLDER",
            "/opt/rocm",
            "a folder such as /opt/rocm".into(),
            "a folder that contains ROCm: /opt/rocm, an unpacked TheRock tarball or wheel, a Debian root",
        ),
        spelling(
            "debian:VERSION",
            &Release::latest().to_string(),
            releases.clone(),
            &format!("a ROCm release packaged by Debian: {releases}"),
        ),
        spelling(
            "SOURCE:BUILD",
            build,
            of_build,
            &format!(
                "a build of TheRock by date, version or commit, or `first` or `last`, such as {build}; sources: \
                 {sources}, and the sources in rocrepro/sources.toml in the configuration folder"
            ),
        ),
    ]
}

pub(super) fn spellings_in_one_line() -> String {
    let mut all: Vec<String> = spellings().into_iter().map(|spelling| spelling.short).collect();
    let last = all.pop().unwrap_or_default();
    format!("{}, or {last}", all.join(", "))
}

pub(super) fn known_releases() -> String {
    let releases: Vec<_> = RELEASES.iter().map(Release::to_string).collect();
    format!("{}, debian:latest", releases.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Spec;

    /// Returns the form of a stack's name. Because of the exhaustive match, a new variant does not compile without a
    /// form.
    fn form(spec: &Spec) -> &'static str {
        match spec {
            Spec::System => "system",
            Spec::Directory(_) => "FOLDER",
            Spec::Debian(_) => "debian:VERSION",
        }
    }

    #[test]
    fn the_parser_takes_every_spelling() {
        let mut parsed = Vec::new();
        for Spelling { form: written, example, about, .. } in spellings() {
            match example.parse::<Spec>() {
                Ok(spec) => {
                    assert_eq!(form(&spec), written, "{example}");
                    parsed.push(written);
                }
                Err(_) => {
                    let (source, _) = example.split_once(':').expect("a build of a source");
                    let sources = Sources::load(Some(Path::new("/dev/null"))).unwrap();
                    assert!(sources.select(&[source.to_owned()]).is_ok(), "{example}");
                    assert_eq!(written, "SOURCE:BUILD");
                }
            }
            assert!(!about.is_empty(), "{written}");
        }
        // There must be a name for each form that the function `form` can return.
        assert_eq!(parsed, ["system", "FOLDER", "debian:VERSION"]);
    }

    #[test]
    fn every_release_and_source_is_named() {
        let all = spellings_in_one_line();
        let names = all.split([' ', ',', ';', ')']).collect::<Vec<_>>();
        let releases = known_releases();
        for name in releases.split(", ") {
            assert!(names.contains(&name), "{name}: {all}");
            assert!(name.parse::<Spec>().is_ok(), "{name}");
        }
        let sources = Sources::load(Some(Path::new("/dev/null"))).unwrap();
        for channel in sources.channels() {
            assert!(names.contains(&channel.as_str()), "{channel}: {all}");
        }
    }
}
