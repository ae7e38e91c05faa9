//! Tests `bisect` with a local server that imitates each irregularity that was observed on AMD's servers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::Instant,
};

use crate::machine::{Machine, PROBE};
use standin::{Entry, Fake, Listing, Server, Site, Trouble, pack};

struct Told {
    code: Option<i32>,
    out: String,
    err: String,
    seconds: f64,
}

struct Search(Machine);

impl Search {
    fn new() -> Search {
        Search(Machine::new())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.at(name)
    }

    fn bisect(&self, arguments: &[&str]) -> Told {
        let begun = Instant::now();
        let search = ["bisect", "--gfx", "gfx1151", "--out=out"];
        let output = self.0.command(&[&search, arguments, &PROBE].concat()).output();
        let Output { status, stdout, stderr } = output.expect("it starts");
        Told {
            code: status.code(),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
            seconds: begun.elapsed().as_secs_f64(),
        }
    }

    fn journal(&self) -> String {
        fs::read_to_string(self.at("out").join("bisect.jsonl")).expect("a journal")
    }
}

impl Told {
    fn confidence(&self) -> f64 {
        let line = self.out.lines().find_map(|line| line.strip_prefix("confidence"));
        let number = line.expect("a line of it").trim().trim_end_matches(" %");
        number.parse().expect("a number")
    }

    #[track_caller]
    fn check(&self, code: i32, out: &[&str], err: &[&str]) -> &Self {
        let shown = format!("{:?}\n{}\n--- stderr\n{}", self.code, self.out, self.err);
        assert_eq!(self.code, Some(code), "{shown}");
        for (text, wanted) in [(&self.out, out), (&self.err, err)] {
            for part in wanted {
                assert!(text.contains(part), "no {part:?}: {shown}");
            }
        }
        self
    }
}

fn tarball(version: &str) -> String {
    format!("therock-dist-linux-gfx1151-{version}.tar.gz")
}

fn night(day: u32) -> String {
    format!("7.15.0a202607{day:02}")
}

fn fake(version: &str, fails: bool) -> Fake {
    Fake { conf: if fails { "1000" } else { "0" }.into(), ..Fake::new(version) }
}

/// Publishes nightly builds of July; those from day `bad` on fail.
fn nights(site: &mut Site, below: &str, days: std::ops::RangeInclusive<u32>, bad: u32) {
    for day in days {
        let fake = fake(&night(day), day >= bad);
        site.file(&format!("{below}{}", tarball(&fake.version)), fake.tarball());
    }
    site.listing(below, Listing::S3(100));
}

fn source(server: &Server) -> String {
    format!("--source=s3-xml={}", server.url("/bucket/"))
}

const ALL: [&str; 2] = ["--good=first", "--bad=last"];

#[test]
fn leaves_out_side_branch_builds_unless_requested() {
    let mut site = Site::default();
    nights(&mut site, "/bucket/", 1..=9, 6);
    // These builds fail before the first bad nightly build, so a search that included them would find them.
    let bkc = "7.15.0a20260702+bkc.20260703";
    let dev = format!("7.15.0.dev0+{}", "ab".repeat(20));
    for version in [bkc, dev.as_str()] {
        site.file(&format!("/bucket/{}", tarball(version)), fake(version, true).tarball());
    }
    let server = site.serve();
    let machine = Search::new();
    let printed = machine.bisect(&[&source(&server), ALL[0], ALL[1]]);
    let left_out =
        "2 builds that are not nightly builds of the main branch (+bkc, .dev0) are skipped";
    printed.check(0, &["last good 7.15.0a20260705, first bad 7.15.0a20260706", left_out], &[]);
    assert!(!machine.journal().contains("bkc"));
    let asked = format!("--bad={bkc}");
    let printed = Search::new().bisect(&[&source(&server), "--good=7.15.0a20260701", &asked]);
    printed.check(0, &["first bad 7.15.0a20260702+bkc.20260703"], &[]);
}

/// The branch of the release left the main branch before all of these nightly builds.
#[test]
fn places_a_release_where_its_branch_began() {
    let mut site = Site::default();
    nights(&mut site, "/bucket/", 1..=6, 4);
    site.file(&format!("/bucket/{}", tarball("7.14.0")), fake("7.14.0", false).tarball());
    let server = site.serve();
    let printed = Search::new().bisect(&[&source(&server), "--good=7.14.0", "--bad=last"]);
    let why = "7.14.0 is a release from its own branch: it is sorted after the last nightly build of its version";
    printed.check(0, &["last good 7.15.0a20260703, first bad 7.15.0a20260704", why], &[]);
    let exchanged =
        Search::new().bisect(&[&source(&server), "--good=7.14.0", "--bad=2026-07-06", "--fixed"]);
    exchanged.check(2, &[], &["7.15.0a20260706 comes after 7.14.0"]);
}

/// The release passes, but all nightly builds after it fail. The failure began before the first of them, on another
/// branch than that of the release.
#[test]
fn does_not_call_a_release_the_last_good_night() {
    let mut site = Site::default();
    nights(&mut site, "/bucket/", 1..=6, 1);
    site.file(&format!("/bucket/{}", tarball("7.14.0")), fake("7.14.0", false).tarball());
    let server = site.serve();
    let printed = Search::new().bisect(&[&source(&server), "--good=7.14.0", "--bad=last"]);
    let why = "7.14.0 is a release, from a branch of its own, so this is not a change between two builds of one branch; name \
               an older nightly build as --good";
    printed.check(4, &["7.14.0 passes and 7.15.0a20260701 fails, but", why], &[]);
    assert!(!printed.out.contains("last good"), "{}", printed.out);
}

/// Builds fail in half of their runs from the third day on, and always from the seventh day on.
#[test]
fn does_not_call_a_build_good_that_has_failed() {
    let mut site = Site::default();
    for day in 1..=9 {
        let per_mille = [0, 500, 1000][usize::from(day >= 3) + usize::from(day >= 7)];
        let build = Fake { conf: per_mille.to_string(), ..Fake::new(&night(day)) };
        site.file(&format!("/bucket/{}", tarball(&build.version)), build.tarball());
    }
    site.listing("/bucket/", Listing::S3(100));
    let server = site.serve();
    let printed = Search::new().bisect(&[&source(&server), ALL[0], ALL[1], "--budget-runs=400"]);
    let called_good = |day: u32| printed.out.contains(&format!("last good   {}", night(day)));
    assert!((3..=9).all(|day| !called_good(day)), "{}", printed.out);
    assert!(matches!(printed.code, Some(0 | 4)), "{}{}", printed.out, printed.err);
}

#[test]
fn orders_two_builds_of_one_day() {
    let mut site = Site::default();
    nights(&mut site, "/bucket/", 1..=4, 9);
    // The version number jumped on that day. As texts, 10 sorts before 7.
    let jumped = "10.0.0a20260704";
    site.file(&format!("/bucket/{}", tarball(jumped)), fake(jumped, true).tarball());
    let server = site.serve();
    let machine = Search::new();
    let printed = machine.bisect(&[&source(&server), "--good=2026-07-01", "--bad=2026-07-04"]);
    let several = "2026-07-04 has 2 builds; using the last one, 10.0.0a20260704";
    printed.check(
        0,
        &["last good 7.15.0a20260704, first bad 10.0.0a20260704", several],
        &[several],
    );
}

#[test]
fn refuses_to_mix_results_of_a_republished_build() {
    let mut site = Site::default();
    nights(&mut site, "/bucket/", 1..=9, 6);
    let server = site.serve();
    let machine = Search::new();
    let source = source(&server);
    let few = [&source, ALL[0], ALL[1], "--budget-runs=2"];
    machine.bisect(&few).check(4, &["the budget of runs is spent"], &[]);
    let sum = standin::sha256(&fake(&night(9), true).tarball());
    assert!(machine.journal().contains(&sum), "{}", machine.journal());
    // The build is published again, and the cache is empty, so only the journal contains the first checksum.
    let path = format!("/bucket/{}", tarball(&night(9)));
    let mut again = fake(&night(9), true);
    again.pins.clear();
    server.change(|site| {
        site.file(&path, again.tarball());
    });
    fs::rename(machine.at("cache"), machine.at("old")).expect("a folder");
    let resumed = [&source, ALL[0], ALL[1], "--resume"];
    let now = standin::sha256(&again.tarball());
    machine.bisect(&resumed).check(
        5,
        &[],
        &["7.15.0a20260709 was republished", &sum, &now, "start a new bisect with --out"],
    );
    let printed = Search::new().bisect(&[&source, ALL[0], ALL[1]]);
    let good = standin::sha256(&fake(&night(5), false).tarball());
    printed.check(0, &[&format!("sha256 of 7.15.0a20260705: {good}")], &[]);
}

const TWO: &str = "[[source]]\nname = 'old'\nchannel = 'two'\nkind = 's3-xml'\nurl = 'HOST/old/'\n\
                   [[source]]\nname = 'new'\nchannel = 'two'\nkind = 'index-html'\nurl = 'HOST/new/'\n";

/// Searches two download sources, of which the second causes `trouble`, and checks the sentence about missing builds.
#[track_caller]
fn check_hole(trouble: Trouble, said: &str) {
    let mut site = Site::default();
    nights(&mut site, "/old/", 1..=9, 6);
    nights(&mut site, "/new/", 1..=9, 6);
    site.ill("/new/", trouble);
    let server = site.serve();
    let machine = Search::new();
    let sources = machine.0.knows(&server, TWO);
    let printed = machine.bisect(&[&sources, "--source=two", ALL[0], ALL[1]]);
    let claim = "% the change is between 7.15.0a20260705 and 7.15.0a20260706; there may be further builds between these two, because new did not list";
    printed.check(0, &[claim, "builds may be missing: new: ", said], &["builds may be missing"]);
    assert!(!printed.out.contains("answer      last good"), "{}", printed.out);
    // A build of the failed source may be between the last good and the first bad build, so the confidence is at most
    // 50 %.
    assert!(printed.confidence() < 50.0 && printed.confidence() > 40.0, "{}", printed.out);
    assert!(printed.out.contains(
        "7.15.0a20260706 itself introduced the change, not one of 1 build before it that"
    ));
}

#[test]
fn lowers_the_confidence_if_a_source_does_not_answer() {
    check_hole(Trouble::Status("500 Internal Server Error", None), "500 Internal Server Error");
    check_hole(Trouble::Status("404 Not Found", None), "/new/: not found");
    check_hole(Trouble::Portal, "a portal or proxy may require a login");
    let limit = Trouble::Status("429 Too Many Requests", Some(("Retry-After", "900")));
    check_hole(limit, "rate-limited (429 Too Many Requests); try again in 900 s");
    // GitHub reports its rate limit in this way.
    let limit = Trouble::Status("403 Forbidden", Some(("X-RateLimit-Remaining", "0")));
    check_hole(limit, "rate-limited (403 Forbidden)");
}

/// The days without builds are not between the last good and the first bad build.
#[test]
fn keeps_the_confidence_if_missing_days_lie_elsewhere() {
    let mut site = Site::default();
    nights(&mut site, "/old/", 1..=9, 6);
    let server = site.serve();
    let machine = Search::new();
    let new = TWO.replace("url = 'HOST/new/'", "url = 'HOST/new/'\nfrom = '2026-07-08'");
    let sources = machine.0.knows(&server, &new);
    let printed = machine.bisect(&[&sources, "--source=two", ALL[0], ALL[1]]);
    printed.check(
        0,
        &["last good 7.15.0a20260705, first bad 7.15.0a20260706", "builds may be missing: new"],
        &[],
    );
    assert!(printed.confidence() > 90.0, "{}", printed.out);
}

#[test]
fn skips_one_failing_download_and_stops_if_all_fail() {
    let ill = |trouble: Trouble, path: &str| {
        let mut site = Site::default();
        nights(&mut site, "/bucket/", 1..=9, 6);
        site.ill(path, trouble);
        let server = site.serve();
        let machine = Search::new();
        machine.bisect(&[&source(&server), ALL[0], ALL[1]])
    };
    let (one, all) = (format!("/bucket/{}", tarball(&night(5))), "/bucket/therock");
    let broken = || Trouble::Status("500 Internal Server Error", None);
    ill(broken(), &one).check(
        0,
        &["last good 7.15.0a20260704, first bad 7.15.0a20260706", "skipped     7.15.0a20260705: "],
        // If the build was prefetched, with five attempts, the actual fetch makes two more.
        &["500 Internal Server Error after "],
    );
    let portal = "received an HTML page instead; a portal or proxy may require a login";
    ill(Trouble::Portal, all).check(5, &[], &[portal, "--resume to continue"]);
    let limit = Trouble::Status("429 Too Many Requests", Some(("Retry-After", "900")));
    ill(limit, all).check(5, &[], &["rate-limited (429 Too Many Requests)", "900 s"]);
}

/// The nightly build of 4 July is built at midnight and contains the pushes up to 3 July.
#[test]
fn maps_a_nightly_to_the_pushes_of_the_day_before() {
    let mut site = Site::default();
    let sha = |n: u32| standin::sha256(&n.to_le_bytes())[..40].to_owned();
    let mut runs = Vec::new();
    // Three pushes per day. The sixth push, on 2 July, breaks the program.
    for n in (0..12).rev() {
        let day = n / 3 + 1;
        let run = serde_json::json!({"id": 100 + n, "head_sha": sha(n), "event": "push",
            "created_at": format!("2026-07-{day:02}T{:02}:00:00Z", 8 + n % 3)});
        runs.push(run);
        let build = fake(&sha(n), n >= 5);
        site.file(&format!("/ci/{}-linux/all.tar.zst", 100 + n), pack(&build.entries(), "tar.zst"));
    }
    let page = serde_json::json!({"total_count": runs.len(), "workflow_runs": runs});
    site.file("/runs", page.to_string().into_bytes());
    let server = site.serve();
    let machine = Search::new();
    let sources = machine.0.knows(
        &server,
        "[[source]]\nname = 'commits'\nchannel = 'commits'\nkind = 'shards'\nurl = 'HOST/ci/{run}-linux/'\n\
         runs = 'HOST/runs?created={from}..{to}'\nparts = ['all']\n",
    );
    let search = ["--source=commits", "--good=2026-07-02", "--bad=7.15.0a20260704"];
    let printed = machine.bisect(&[&sources, search[0], search[1], search[2]]);
    printed.check(0, &[&format!("last good {}, first bad {}", sha(4), sha(5))], &[]);
    // The last push before 2 July is the third one, and the last before 4 July is the ninth.
    let journal = machine.journal();
    let begun = journal.lines().next().expect("a line");
    assert!(begun.contains(&sha(2)) && begun.contains(&sha(8)), "{begun}");
    assert!(begun.contains("\"points\":7"), "{begun}");
}

/// The download of a build takes one second, longer than its runs. On a busy machine the runs take longer, and more
/// builds are downloaded meanwhile, so the best of three searches counts.
#[test]
fn fetches_few_unneeded_bytes_on_a_slow_connection() {
    let mut tries = (0..3).map(|_| beyond_need());
    let seen: Vec<f64> = tries.by_ref().take_while(|beyond| *beyond >= 0.15).collect();
    assert!(seen.len() < 3, "bytes beyond need: {seen:?}");
}

/// Returns the bytes that a search fetches in addition to the builds that it installs, divided by the size of those
/// builds.
fn beyond_need() -> f64 {
    let mut site = Site::default();
    let mut size = 0;
    // This makes four MiB that cannot be compressed.
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..4 << 20)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    for day in 1..=31 {
        let build = fake(&night(day), day >= 20);
        let mut entries = build.entries();
        entries.push(Entry::file("lib/large", noise.clone()));
        let whole = pack(&entries, "tar.gz");
        size = whole.len();
        site.file(&format!("/bucket/{}", tarball(&build.version)), whole);
    }
    site.listing("/bucket/", Listing::S3(100)).slow(4_000_000);
    let server = site.serve();
    let machine = Search::new();
    let printed = machine.bisect(&[&source(&server), ALL[0], ALL[1]]);
    printed.check(0, &["last good 7.15.0a20260719, first bad 7.15.0a20260720"], &[]);
    let journal = machine.journal();
    let builds: std::collections::BTreeSet<_> = journal
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|entry| entry["event"] == "installed")
        .filter_map(|entry| entry["build"].as_u64())
        .collect();
    let needed = builds.len() * size;
    let beyond = server.sent() as f64 / needed as f64 - 1.0;
    println!(
        "{} builds of {size} bytes in {:.1} s, {:.1} % beyond need",
        builds.len(),
        printed.seconds,
        100.0 * beyond
    );
    beyond
}

#[test]
fn writes_files_where_the_answer_says() {
    let mut site = Site::default();
    nights(&mut site, "/bucket/", 1..=3, 2);
    let server = site.serve();
    let machine = Search::new();
    machine.bisect(&[&source(&server), ALL[0], ALL[1]]).check(0, &["files "], &[]);
    for file in ["bisect.json", "bisect.html", "bisect.jsonl"] {
        assert!(Path::new(&machine.at("out").join(file)).is_file(), "{file}");
    }
}
