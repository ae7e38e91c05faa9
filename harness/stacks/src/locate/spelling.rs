//! Every way to write a stack. Help, messages and completion take their text from here.

use crate::{RELEASES, Release, Sources};

/// A way to write a stack.
#[derive(Clone, Debug)]
pub struct Spelling {
    /// The form, in which capitals stand for a value: `debian:VERSION`.
    pub form: &'static str,
    /// A text of this form.
    pub example: String,
    /// The form for a list of all, with the values that can be listed.
    pub short: String,
    /// A description of the stacks that are written in this form, as a fragment.
    pub about: String,
}

/// Returns every way to write a stack.
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
            "a folder that holds a ROCm: /opt/rocm, an unpacked TheRock tarball or wheel, a Debian root",
        ),
        spelling(
            "debian:VERSION",
            &Release::latest().to_string(),
            releases.clone(),
            &format!("a release that Debian packages: {releases}"),
        ),
        spelling(
            "SOURCE:BUILD",
            build,
            of_build,
            &format!(
                "a build of TheRock by its day, version or commit, or first or last, such as {build}; sources: {sources}, and those \
                 of rocrepro/sources.toml in the configuration folder"
            ),
        ),
    ]
}

/// Returns all spellings in one line.
pub(super) fn spellings_in_one_line() -> String {
    let mut all: Vec<String> = spellings().into_iter().map(|spelling| spelling.short).collect();
    let last = all.pop().unwrap_or_default();
    format!("{}, or {last}", all.join(", "))
}

/// Returns the names of the Debian releases.
pub(super) fn known_releases() -> String {
    let releases: Vec<_> = RELEASES.iter().map(Release::to_string).collect();
    format!("{}, debian:latest", releases.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Spec;

    /// The form of a stack; a new variant needs one.
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
        // All forms that `form` knows.
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
