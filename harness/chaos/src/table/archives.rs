//! Tests bisects with broken or malicious archives of builds. A bisect must skip such a build, and must write no files
//! outside its folders.

use std::ffi::OsString;

use standin::{Entry, Fake, Listing, Site, Trouble, pack};

use crate::{
    row::{Row, row},
    setup::RunSetup,
};

/// Allowed answers if the bisect must find the first bad build although another build cannot be used.
const FINDS_BUILD: &[&str] = &["done"];

/// Maximum number of bytes that a build may occupy on the disk. Without this limit, a small archive could fill a disk.
const BUDGET: u64 = 600 << 20;

pub(crate) const ROWS: &[Row] = &[
    row("archive/good", |s| bisect(s, |fake| fake.tarball()), &["done"]).alone(),
    row("archive/empty", |s| bisect(s, |_| Vec::new()), FINDS_BUILD).alone(),
    row("archive/text", |s| bisect(s, |_| b"no archive".to_vec()), FINDS_BUILD).alone(),
    row(
        "archive/half",
        |s| {
            bisect(s, |fake| {
                let all = fake.tarball();
                all[..all.len() / 2].to_vec()
            })
        },
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/damaged",
        |s| {
            bisect(s, |fake| {
                let mut all = fake.tarball();
                let at = all.len() / 2;
                all[at] ^= 255;
                all
            })
        },
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/path-that-leads-out",
        |s| bisect(s, |fake| with(fake, Entry::file("../../../../../../../../evil", "x"))),
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/absolute-path",
        |s| bisect(s, |fake| with(fake, Entry::file("/tmp/chaos-evil", "x"))),
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/link-that-leads-out",
        |s| {
            bisect(s, |fake| {
                with_two(
                    fake,
                    Entry::Link("lib/out".into(), "/".into()),
                    Entry::file("lib/out/evil", "x"),
                )
            })
        },
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/link-to-itself",
        |s| bisect(s, |fake| with(fake, Entry::Link("lib/loop".into(), "loop".into()))),
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/hard-link-that-leads-out",
        |s| bisect(s, |fake| with(fake, Entry::Hard("lib/passwd".into(), "/etc/passwd".into()))),
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/pipe",
        |s| bisect(s, |fake| with(fake, Entry::Pipe("lib/pipe".into()))),
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/device",
        |s| bisect(s, |fake| with(fake, Entry::Device("lib/device".into()))),
        FINDS_BUILD,
    )
    .alone(),
    row("archive/bomb", |s| bisect(s, |fake| standin::bomb(&fake.entries(), 3 << 10)), FINDS_BUILD)
        .long(),
    row("archive/many-files", |s| bisect(s, many), FINDS_BUILD).long(),
    row(
        "archive/name-with-an-escape",
        |s| bisect(s, |fake| with(fake, Entry::file("lib/\u{1b}[31mred\u{202e}", "x"))),
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/ghost",
        |s| {
            bisect_site(s, |site, path, _| {
                site.ghost(path);
            })
        },
        FINDS_BUILD,
    )
    .alone(),
    row(
        "archive/cut-on-the-way",
        |s| {
            bisect_site(s, |site, path, fake| {
                let all = fake.tarball();
                let cut = all.len() / 3;
                site.file(path, all).trouble(path, &[Trouble::Cut(cut)]);
            })
        },
        FINDS_BUILD,
    )
    .alone(),
];

fn with(fake: &Fake, entry: Entry) -> Vec<u8> {
    let mut entries = fake.entries();
    entries.push(entry);
    pack(&entries, "tar.gz")
}

fn with_two(fake: &Fake, first: Entry, second: Entry) -> Vec<u8> {
    let mut entries = fake.entries();
    entries.extend([first, second]);
    pack(&entries, "tar.gz")
}

fn many(fake: &Fake) -> Vec<u8> {
    let mut entries = fake.entries();
    entries.extend((0..50_000).map(|n| Entry::file(&format!("lib/f{n}"), "")));
    pack(&entries, "tar.gz")
}

fn bisect(setup: &mut RunSetup<'_>, archive: fn(&Fake) -> Vec<u8>) {
    bisect_site(setup, |site, path, fake| {
        site.file(path, archive(fake));
    });
}

/// Bisects seven builds, the last three of which fail. `publish` publishes the fourth build.
fn bisect_site(setup: &mut RunSetup<'_>, publish: impl Fn(&mut Site, &str, &Fake)) {
    let mut site = Site::default();
    site.listing("/bucket/", Listing::S3(30));
    for n in 0..7 {
        let mut fake = Fake::new(&format!("7.15.0a2026060{}", n + 1));
        fake.conf = if n < 4 { "0".into() } else { "1000".into() };
        let path = format!("/bucket/therock-dist-linux-gfx1151-{}.tar.gz", fake.version);
        if n == 3 {
            publish(&mut site, &path, &fake);
        } else {
            site.file(&path, fake.tarball());
        }
    }
    let server = site.serve();
    let cache = setup.own_cache();
    let out = setup.folder.join("work/out");
    let state = setup.folder.join("work/state");
    crate::setup::write_file(&state, b"1");
    setup.outputs.extend([out.clone(), state.clone()]);
    setup.variable("FAKE_STATE", state);
    let source = format!("s3-xml={}", server.url("/bucket/"));
    let words = [
        "bisect", "--good", "first", "--bad", "last", "--gfx", "gfx1151", "--source", &source,
        "--out",
    ];
    setup.words = words.map(OsString::from).to_vec();
    setup.words.push(out.into());
    setup.more = ["--", "sh", "-c", "\"$ROCREPRO_PREFIX/bin/probe\""].map(OsString::from).to_vec();
    setup.afterwards(move |_| {
        for path in ["/evil", "/tmp/chaos-evil", "/tmp/evil"] {
            if std::fs::remove_file(path).is_ok() {
                return Some(format!("an archive wrote {path}"));
            }
        }
        let files = crate::folder_snapshot::snapshot(&cache);
        let bytes: u64 = files
            .values()
            .map(|entry| match entry {
                crate::folder_snapshot::Entry::File { bytes, .. } => *bytes,
                _ => 0,
            })
            .sum();
        (bytes > BUDGET).then(|| format!("the cache contains {} MiB", bytes >> 20))
    });
}
