//! Tests nightly builds of a download source: listing and fetching builds, previewing a search, skipping builds, and
//! interrupting a download.

use std::process::Stdio;

use crate::common::output_text;
use crate::machine::{Machine, PROBE, interrupted};
use standin::{Fake, Listing, Server, Site, pack};

/// A machine whose configuration contains the local server as the download source `july`.
struct July(Machine);

impl July {
    fn new(server: &Server) -> July {
        let source =
            "[[source]]\nname = 'july'\nchannel = 'july'\nkind = 's3-xml'\nurl = 'HOST/bucket/'\n";
        let july = July(Machine::new());
        july.0.knows(server, source);
        july
    }

    #[track_caller]
    fn check(&self, arguments: &[&str], code: i32, parts: &[&str]) -> String {
        let output = self.0.command(arguments).output().expect("it starts");
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}");
        for part in parts {
            assert!(text.contains(part), "no {part:?}: {arguments:?}\n{text}");
        }
        text
    }

    fn bisect(&self, options: &[&str]) -> Vec<String> {
        let out = self.0.at("out").display().to_string();
        let head = ["bisect", "--source=july", "--good=first", "--bad=last", "--out", &out];
        head.iter().chain(options).chain(&PROBE).map(|word| (*word).to_owned()).collect()
    }
}

/// Serves nine nightly builds of July. Those from day `bad` on fail. `slow` limits the speed in bytes per second.
fn serve(bad: u32, slow: Option<usize>) -> Server {
    let mut site = Site::default();
    for day in 1..=9 {
        let version = format!("7.15.0a202607{day:02}");
        let conf = if day < bad { "0" } else { "1000" };
        let fake = Fake { conf: conf.into(), ..Fake::new(&version) };
        let mut entries = fake.entries();
        if slow.is_some() {
            // The builds contain data that hardly compresses.
            let noise = (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes());
            entries.push(standin::Entry::file("lib/large", noise.collect::<Vec<u8>>()));
        }
        let path = format!("/bucket/therock-dist-linux-gfx1151-{version}.tar.gz");
        site.file(&path, pack(&entries, "tar.gz"));
    }
    site.listing("/bucket/", Listing::S3(100));
    slow.map(|speed| site.slow(speed));
    site.serve()
}

fn words(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn lists_and_fetches_nightlies() {
    let server = serve(6, None);
    let machine = July::new(&server);
    let list = ["rocm", "list", "--source", "july"];
    let text =
        machine.check(&list, 0, &["7.15.0a20260702              2026-07-02 ", " MB  gfx1151"]);
    assert_eq!(text.lines().count(), 9, "{text}");
    let fetched = machine.check(
        &["rocm", "fetch", "july:2026-07-02", "--gfx", "gfx1151"],
        0,
        &["7.15.0a20260702-gfx1151"],
    );
    assert!(!fetched.contains("error"), "{fetched}");
    // A build that was already downloaded costs one request, for the listing.
    let before = server.requests().len();
    machine.check(&["rocm", "fetch", "july:7.15.0a20260702", "--gfx", "gfx1151"], 0, &[]);
    assert_eq!(server.requests().len(), before + 1);
    // `stack path` prints the folder without fetching.
    let path = machine.check(&["rocm", "path", "july:2026-07-02"], 0, &[]);
    assert_eq!(path.trim(), fetched.lines().next().unwrap_or_default().trim(), "{fetched}");
    let archives = || server.requests().iter().filter(|r| r.contains(".tar.gz")).count();
    let before = archives();
    let hint = "run `rocrepro stack fetch july:2026-07-03 --gfx gfx1151`";
    machine.check(&["rocm", "path", "july:2026-07-03"], 2, &["7.15.0a20260703", hint]);
    assert_eq!(archives(), before);
    let nearest = "the build before it is 7.15.0a20260709, the build after it is none";
    machine.check(&["rocm", "fetch", "july:2026-07-12"], 2, &["no build \"2026-07-12\"", nearest]);
    machine.check(&["rocm", "fetch", "juli:2026-07-12"], 2, &["juli"]);
    // The build contains no real libraries, so a trial fails when it loads them.
    let run = ["run", "graphs/empty", "--rocm", "july:2026-07-02", "--device", "emulated"];
    let text = output_text(&machine.0.command(&run).output().expect("it starts"));
    assert!(text.contains("7.15.0a20260702-gfx1151"), "{text}");
}

#[test]
fn previews_a_search_without_downloads() {
    let server = serve(6, None);
    let machine = July::new(&server);
    let text = machine.check(&words(&machine.bisect(&["--list"])), 0, &["7.15.0a20260709"]);
    assert_eq!(text.lines().count(), 9, "{text}");
    let expected =
        ["points      9", "expect      about", "if bad ones fail in every run", "min at 4 MB/s"];
    machine.check(&words(&machine.bisect(&["--dry-run"])), 0, &expected);
    let archives = server.requests().iter().filter(|r| r.contains(".tar.gz")).count();
    assert_eq!((archives, machine.0.at("out").exists()), (0, false));
}

#[test]
fn leaves_out_skipped_nightlies() {
    let server = serve(6, None);
    let machine = July::new(&server);
    let skips = ["--skip", "2026-07-05", "--skip", "7.15.0a20260706"];
    machine.check(
        &words(&machine.bisect(&skips)),
        0,
        &[
            "last good 7.15.0a20260704, first bad 7.15.0a20260707; the 2 points between them were skipped on request",
            "left out by --skip",
        ],
    );
    assert!(server.requests().iter().all(|r| !r.contains("20260705") && !r.contains("20260706")));
    let journal = machine.0.at("out/bisect.jsonl").display().to_string();
    machine.check(&["bisect", "--replay", &journal], 0, &["first bad 7.15.0a20260707"]);
    let other = July::new(&server);
    let wrong = ["--skip", "2026-07-01", "--skip", "2026-07-22"];
    let ends = [
        "`--skip 2026-07-01`: an end of the search cannot be skipped",
        "`--skip 2026-07-22`: no such point between",
    ];
    other.check(&words(&other.bisect(&wrong)), 2, &ends);
}

/// The download of a build takes five seconds at 200 kB/s.
#[test]
fn interrupts_a_download_at_once_and_resumes_it() {
    let server = serve(6, Some(200_000));
    let machine = July::new(&server);
    let search = machine.bisect(&["--resume"]);
    let child =
        machine.0.command(&words(&search)).stderr(Stdio::piped()).spawn().expect("it starts");
    let output = interrupted(child, || server.sent() >= 100_000);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(
        text.contains("the fetch was cancelled") && text.contains("--resume to continue"),
        "{text}"
    );
    server.change(|site| {
        site.slow(100_000_000);
    });
    machine.check(&words(&search), 0, &["last good 7.15.0a20260705, first bad 7.15.0a20260706"]);
    // The second request continues the download where the first one ended.
    let archive = server.requests().into_iter().find(|r| r.contains(".tar.gz")).expect("one");
    let again = server.requests().into_iter().filter(|r| r.starts_with(&archive)).nth(1);
    assert!(again.as_ref().is_some_and(|r| r.contains(" bytes=")), "{archive}: {again:?}");
}
