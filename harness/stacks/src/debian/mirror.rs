//! Finds the Debian mirror that this machine uses, from the configuration of its apt.

use std::fs;
use std::path::{Path, PathBuf};

use crate::LockReleaseError;

/// A repository that this machine's apt is configured to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    uri: String,
    suites: Vec<String>,
    signed_by: String,
}

/// Debian's general address, which redirects to a mirror near the client.
const DEBIAN: &str = "http://deb.debian.org/debian";

/// Debian's archive of all old versions.
const SNAPSHOT: &str = "https://snapshot.debian.org/archive/debian";

/// Returns the mirrors to use by default: this machine's mirror if it runs Debian, then Debian's general address, then
/// Debian's archive of old versions at the time `at`, for example `20261121T214500Z`. `etc` is the folder with the
/// configuration of this machine, usually `/etc`.
pub(crate) fn usual(etc: &Path, at: &str) -> Vec<String> {
    let mut mirrors: Vec<String> =
        host_mirror(etc).into_iter().filter(|own| is_address(own)).collect();
    if !mirrors.iter().any(|own| own.trim_end_matches('/') == DEBIAN) {
        mirrors.push(DEBIAN.to_owned());
    }
    mirrors.push(format!("{SNAPSHOT}/{at}"));
    mirrors
}

/// Returns true if the text is a valid address of a mirror: `http://`, `https://` or `file:/`, without spaces.
pub(crate) fn is_address(mirror: &str) -> bool {
    let rest = ["http://", "https://", "file:/"].iter().find_map(|s| mirror.strip_prefix(s));
    rest.is_some_and(|rest| {
        !rest.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

/// Returns the Debian mirror of this machine: the repository that contains Debian itself, from the apt configuration
/// below `etc` (usually `/etc`).
///
/// # Errors
/// [`LockReleaseError::NoMirror`] if the configuration does not contain a Debian mirror, for example on another
/// distribution.
pub(crate) fn host_mirror(etc: &Path) -> Result<String, LockReleaseError> {
    let codename = codename(&fs::read_to_string(etc.join("os-release")).unwrap_or_default());
    let files = source_files(&etc.join("apt"));
    let sources: Vec<_> = files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            if path.extension().is_some_and(|e| e == "sources") {
                deb822(&text)
            } else {
                one_line(&text)
            }
        })
        .collect();
    choose(&sources, codename.as_deref()).ok_or_else(|| {
        let looked: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        LockReleaseError::NoMirror {
            looked: if looked.is_empty() {
                format!("no package sources found in {}", etc.join("apt").display())
            } else {
                looked.join(", ")
            },
        }
    })
}

/// Returns the files in which apt lists repositories (sources.list(5)). Files with other extensions are ignored, as apt
/// does.
fn source_files(apt: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(apt.join("sources.list.d"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "list" || e == "sources"))
        .collect();
    files.sort();
    files.extend(Some(apt.join("sources.list")).filter(|path| path.is_file()));
    files
}

fn codename(os_release: &str) -> Option<String> {
    let line = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// Returns the address of the repository that is most likely a complete Debian mirror; `None` if no repository is
/// likely to be one.
fn choose(sources: &[Source], codename: Option<&str>) -> Option<String> {
    let score = |source: &Source| {
        let path = source.uri.split_once("://").map_or(source.uri.as_str(), |(_, rest)| rest);
        let path = path.trim_end_matches('/');
        // Archives of security updates and archives of third parties do not contain ROCm, even if Debian has signed
        // them.
        let other = |suite: &String| suite.ends_with("-security") || suite.contains("-security/");
        if path.ends_with("/debian-security") || source.suites.iter().all(other) {
            return 0;
        }
        let named_debian = path.rsplit('/').next() == Some("debian");
        let signed_by_debian = source.signed_by.contains("debian-archive-");
        let own_suite = source.suites.iter().any(|s| Some(s.as_str()) == codename);
        let debian_suite = own_suite
            || ["stable", "testing", "unstable", "sid"]
                .iter()
                .any(|s| source.suites.iter().any(|t| t == s));
        // An archive of a third party is often called `debian` too, but it is signed with another key.
        let foreign = !source.signed_by.is_empty() && !signed_by_debian;
        if foreign || !(signed_by_debian || (named_debian && debian_suite)) {
            return 0;
        }
        1 + i32::from(named_debian) + 2 * i32::from(own_suite) + 4 * i32::from(signed_by_debian)
    };
    let best = sources.iter().map(score).max().filter(|best| *best > 0)?;
    sources.iter().find(|source| score(source) == best).map(|source| source.uri.clone())
}

/// Parses a file in apt's one-line format: `deb [options] URI SUITE COMPONENT...`.
fn one_line(text: &str) -> Vec<Source> {
    let parse = |line: &str| {
        let line = line.split('#').next()?.trim();
        let rest = line.strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let option = |word: &str| word.strip_prefix("signed-by=").map(str::to_owned);
        Some(Source {
            uri: words.next()?.to_owned(),
            suites: vec![words.next()?.to_owned()],
            signed_by: options.split_whitespace().find_map(option).unwrap_or_default(),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Parses a file in apt's deb822 format: paragraphs of fields, where indented lines continue a field.
fn deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            sources.extend(paragraph(&fields));
            fields.clear();
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    sources
}

fn paragraph(fields: &[(String, String)]) -> Vec<Source> {
    let field = |name: &str| {
        fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    if field("enabled").eq_ignore_ascii_case("no")
        || !field("types").split_whitespace().any(|kind| kind == "deb")
    {
        return Vec::new();
    }
    let source = |uri: &str| Source {
        uri: uri.to_owned(),
        suites: field("suites").split_whitespace().map(str::to_owned).collect(),
        signed_by: field("signed-by").to_owned(),
    };
    field("uris").split_whitespace().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::in_full;

    const DEBIAN: &str = "Types: deb deb-src\nURIs: http://mirror.example/debian\n\
        Suites: bookworm bookworm-updates\nComponents: main\n\
        Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
        Types: deb\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\n\
        Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";
    const NODE: &str = "Types: deb\nURIs: https://node.example/debian\nSuites: nodistro\n\
        Components: main\nSigned-By: /usr/share/keyrings/node.gpg\n";
    const CLOUD: &str = "deb https://cloud.example/apt cloud-sdk-bookworm main\n";

    /// Checks which mirror is chosen for these configuration files. `expected` is the mirror's host; an empty text
    /// means that no mirror may be found.
    fn check(files: &[(&str, &str)], expected: &str) {
        let etc = tempfile::tempdir().unwrap();
        fs::create_dir_all(etc.path().join("apt/sources.list.d")).unwrap();
        fs::write(etc.path().join("os-release"), "ID=debian\nVERSION_CODENAME=bookworm\n").unwrap();
        for (name, text) in files {
            fs::write(etc.path().join("apt").join(name), text).unwrap();
        }
        match host_mirror(etc.path()) {
            Ok(mirror) => assert_eq!(mirror, expected, "{files:?}"),
            Err(error) => {
                assert_eq!(expected, "", "{files:?}: {error}");
                assert!(in_full(&error).contains("--mirror"), "{error}");
            }
        }
    }

    #[test]
    fn the_mirror_is_the_source_that_serves_debian() {
        let debian = "http://mirror.example/debian";
        check(&[("sources.list.d/debian.sources", DEBIAN)], debian);
        check(
            &[
                ("sources.list.d/a-cloud.list", CLOUD),
                ("sources.list.d/a-node.sources", NODE),
                ("sources.list.d/debian.sources", DEBIAN),
            ],
            debian,
        );
        check(
            &[(
                "sources.list",
                "# old\ndeb-src http://src.example/debian bookworm main\n\
                deb [arch=amd64] http://mirror.example/debian/ bookworm main # main\n",
            )],
            "http://mirror.example/debian/",
        );
        check(
            &[(
                "sources.list",
                "deb http://three.example/debian bookworm main\n\
                deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm main\n",
            )],
            debian,
        );
        check(&[("sources.list", "deb http://mirror.example/debian stable main\n")], debian);
        check(
            &[(
                "sources.list.d/x.sources",
                "Types: deb\nURIs:\n https://mirror.example/pool/\nSuites:\n bookworm\n\
                # comment\n sid\nSigned-By: /etc/keys/debian-archive-keyring.pgp\n",
            )],
            "https://mirror.example/pool/",
        );
    }

    #[test]
    fn accepts_one_address_as_a_mirror() {
        let check = |mirror: &str, expected| assert_eq!(is_address(mirror), expected, "{mirror:?}");
        check("http://mirror.example/debian", true);
        check("https://mirror.example/debian/", true);
        check("file:/srv/debian", true);
        check("file:///srv/debian", true);
        let others = ["", "mirror.example", "/srv/debian", "://x", "http://", "cdrom:[Debian]/"];
        for mirror in others {
            check(mirror, false);
        }
        for mirror in ["http://x\nTrusted: yes", "http://x y", "mirror+file:/etc/apt/mirrors.txt"] {
            check(mirror, false);
        }
    }

    #[test]
    fn the_archive_of_old_versions_is_asked_last() {
        let etc = tempfile::tempdir().unwrap();
        fs::create_dir_all(etc.path().join("apt")).unwrap();
        let sources = |mirror: &str| {
            let text = format!("deb {mirror} sid main\n");
            fs::write(etc.path().join("apt/sources.list"), text).unwrap();
            usual(etc.path(), "20261121T214500Z")
        };
        let old = format!("{SNAPSHOT}/20261121T214500Z");
        let own = "http://mirror.example/debian";
        assert_eq!(sources(own), [own, super::DEBIAN, &old]);
        assert_eq!(sources("http://deb.debian.org/debian/").len(), 2, "this is Debian's own");
        assert_eq!(sources("mirror+file:/etc/mirrors/debian"), [super::DEBIAN, &old]);
        assert_eq!(sources("http://archive.example/ubuntu"), [super::DEBIAN, &old]);
    }

    #[test]
    fn rejects_other_archives_as_mirrors() {
        check(&[], "");
        check(&[("sources.list.d/a.list", CLOUD), ("sources.list.d/b.sources", NODE)], "");
        check(&[("sources.list.d/c.sources.disabled", DEBIAN)], "");
        check(
            &[(
                "sources.list.d/d.sources",
                &DEBIAN.replace("Types: deb", "Enabled: no\nTypes: deb"),
            )],
            "",
        );
        check(
            &[(
                "sources.list",
                "deb http://mirror.example/debian-security bookworm-security main\n",
            )],
            "",
        );
        // The first repository is recognised as one of security updates by its suite, the second one by its path.
        for (path, suite) in [("debian", "bookworm-security"), ("debian-security", "bookworm")] {
            let signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
            let line = format!("deb {signed} http://mirror.example/{path} {suite} main\n");
            check(&[("sources.list", &line)], "");
        }
        check(&[("sources.list", "deb http://archive.example/ubuntu noble main\n")], "");
        check(&[("sources.list", "deb\ndeb [\ndeb [x] \ndebian http://x/debian bookworm\n")], "");
    }
}
