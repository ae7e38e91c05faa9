//! Tests whole bisects: the command, listings and downloads over loopback, and fake builds with a chosen failure rate.
//!
//! `cargo test` runs 12 bisects. This command makes the published table, with 200 bisects: `ROCREPRO_BISECTS=200 cargo
//! test -p rocrepro --test cli builds:: -- --nocapture`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use standin::{Entry, Fake, Listing, Server, Site, pack};

use crate::common::output_text;

/// Number of nightly builds in a history.
const BUILDS: usize = 100;

/// Parameters of one bisect.
#[derive(Clone, Copy)]
struct Cell {
    /// Failure rate of a bad build, in per mille.
    rate: u64,
    /// Share of broken builds, in per cent.
    broken: u64,
    listing: &'static str,
}

const RATES: [u64; 3] = [1000, 500, 200];
const BROKEN: [u64; 2] = [10, 30];
const LISTINGS: [&str; 3] = ["s3-xml", "multi-arch", "index-html"];

struct Outcome {
    cell: Cell,
    /// True if the change is between the last good and the first bad build of the answer.
    right: bool,
    /// Number of builds, according to the answer, that may have introduced the change; 1 if the answer is exact.
    width: usize,
    /// True if every build between the last good and the first bad build is broken, so that the answer cannot be
    /// narrower.
    tight: bool,
    runs: u64,
    installs: u64,
    seconds: f64,
    printed: String,
}

/// Generator of pseudo-random numbers that are the same in every test run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, limit: u64) -> u64 {
        // The constants are those of Knuth's MMIX generator.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Publishes a simulated history whose builds fail from the build with index `bad` on.
fn publish(cell: Cell, bad: usize, numbers: &mut Numbers) -> (Server, String, Vec<String>) {
    let mut site = Site::default();
    let (folder, root, family) = match cell.listing {
        "s3-xml" => ("/bucket/", "/bucket/", "gfx1151"),
        "multi-arch" => ("/bucket/v4/tarball/", "/bucket/", "multiarch"),
        _ => ("/rocm/core/tarball/", "/rocm/core/tarball/", "multiarch"),
    };
    let kind = if cell.listing == "index-html" { Listing::Index } else { Listing::S3(30) };
    site.listing(root, kind);
    let first: stacks::Date = "2026-05-20".parse().unwrap();
    let mut versions = Vec::new();
    for n in 0..BUILDS {
        let day = first.plus(n as i64);
        // The version number jumps within the history, as TheRock's did from 7.15 to 10.0.
        let line = if n < 60 { "7.15.0" } else { "10.0.0" };
        let mut fake = Fake::new(&format!("{line}a{}", day.compact()));
        fake.conf = if n < bad { "0".into() } else { cell.rate.to_string() };
        let version = fake.version.clone();
        let path = format!("{folder}therock-dist-linux-{family}-{version}.tar.gz");
        let inner = n > 0 && n + 1 < BUILDS;
        let broken = (inner && numbers.next(100) < cell.broken).then(|| numbers.next(5));
        match broken {
            Some(0) => {
                site.ghost(&path);
            }
            Some(1) => {
                let whole = fake.tarball();
                site.file(&path, whole[..whole.len() * 2 / 3].to_vec());
            }
            Some(2) => {
                let mut entries = fake.entries();
                entries.push(Entry::file("../evil", "x"));
                site.file(&path, pack(&entries, "tar.gz"));
            }
            Some(3) => {
                let mut entries = fake.entries();
                entries.retain(|e| !matches!(e, Entry::File(p, ..) if p.contains("libamdhip64")));
                entries.push(Entry::file("lib/libamdhip64.so.7.0", "no library"));
                site.file(&path, pack(&entries, "tar.gz"));
            }
            // This build loads, but its test program exits with 125, which means "cannot be tested".
            Some(_) => {
                fake.conf = "skip".into();
                site.file(&path, fake.tarball());
            }
            None => {
                site.file(&path, fake.tarball());
            }
        }
        for decoy in ["multiarch-tests", "gfx94X-dcgpu", "gfx1151-ADHOCBUILD"] {
            site.ghost(&format!("{folder}therock-dist-linux-{decoy}-{version}.tar.gz"));
        }
        versions.push(version);
    }
    let source = match cell.listing {
        "index-html" => "index-html",
        _ => "s3-xml",
    };
    let server = site.serve();
    let source = format!("{source}={}", server.url(root));
    (server, source, versions)
}

fn bisect(cell: Cell, seed: u64) -> Outcome {
    let mut numbers = Numbers(seed.wrapping_mul(7919).wrapping_add(17));
    let bad = 2 + numbers.next(BUILDS as u64 - 3) as usize;
    let (_server, source, versions) = publish(cell, bad, &mut numbers);
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    fs::write(&state, numbers.next(1 << 31).to_string()).unwrap();
    let out = folder.path().join("out");
    let begun = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["bisect", "--good", "first", "--bad", "last", "--gfx", "gfx1151"])
        .args(["--source", &source, "--out"])
        .arg(&out)
        .args(["--", "sh", "-c", "\"$ROCREPRO_PREFIX/bin/probe\""])
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .env("FAKE_STATE", &state)
        .output()
        .unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    let printed = format!("seed {seed}, first bad {}\n{}", versions[bad], output_text(&output));
    let answer = fs::read(out.join("bisect.json")).unwrap_or_default();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
    let position = |field: &str| {
        let id = answer[field].as_str()?;
        versions.iter().position(|version| version == id)
    };
    let (good, first_bad) = (position("last_good"), position("first_bad"));
    let rates = answer["rates"].as_array().cloned().unwrap_or_default();
    let runs = rates.iter().filter_map(|rate| rate["rate"]["runs"].as_u64()).sum();
    let skipped: Vec<_> =
        answer["skipped"].as_array().into_iter().flatten().map(|s| s["version"].clone()).collect();
    let tight = good.zip(first_bad).is_some_and(|(good, first)| {
        versions[good..first].iter().skip(1).all(|v| skipped.iter().any(|s| s == v.as_str()))
    });
    let right = good.zip(first_bad).is_some_and(|(good, first)| good < bad && bad <= first);
    Outcome {
        cell,
        right,
        width: good.zip(first_bad).map_or(0, |(good, first)| first.saturating_sub(good)),
        runs,
        tight,
        installs: (rates.len() + skipped.len()) as u64,
        seconds,
        printed,
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for rate in RATES {
        for broken in BROKEN {
            for listing in LISTINGS {
                cells.push(Cell { rate, broken, listing });
            }
        }
    }
    cells
}

fn table(outcomes: &[Outcome]) -> String {
    let mut rows: BTreeMap<_, Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        let Cell { rate, broken, listing } = outcome.cell;
        rows.entry((std::cmp::Reverse(rate), broken, listing)).or_default().push(outcome);
    }
    let mut text = String::from(
        "| p | broken | listing | bisects | right | one build | only broken ones between | mean width | runs | builds | seconds |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for ((rate, broken, listing), row) in rows {
        let count = row.len() as f64;
        let mean =
            |value: &dyn Fn(&Outcome) -> f64| row.iter().map(|o| value(o)).sum::<f64>() / count;
        let _ = writeln!(
            text,
            "| {} | {broken} % | {listing} | {} | {} | {} | {} | {:.2} | {:.1} | {:.1} | {:.1} |",
            rate.0 as f64 / 1000.0,
            row.len(),
            row.iter().filter(|o| o.right).count(),
            row.iter().filter(|o| o.right && o.width == 1).count(),
            row.iter().filter(|o| o.tight).count(),
            mean(&|o| o.width as f64),
            mean(&|o| o.runs as f64),
            mean(&|o| o.installs as f64),
            mean(&|o| o.seconds),
        );
    }
    text
}

#[test]
fn finds_the_first_bad_build_among_broken_ones() {
    let count = std::env::var("ROCREPRO_BISECTS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let cells = cells();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    // 5 and 18 have no common divisor, so the first few bisects differ in all parameters.
                    let outcome = bisect(cells[n * 5 % cells.len()], n as u64);
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    println!("{}", table(&outcomes));
    let wrong: Vec<_> = outcomes.iter().filter(|o| !o.right).collect();
    for outcome in &wrong {
        println!("{}", outcome.printed);
    }
    assert!(wrong.len() * 100 <= count, "{} of {count} are wrong", wrong.len());
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let each = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |data| data.len()),
        _ => 0,
    });
    each.sum()
}

/// The malicious archive is the build in the middle, which every search tries first.
#[test]
fn skips_a_hostile_archive_and_reports_the_reason() {
    let damaged = |fake: &Fake| {
        let mut whole = fake.tarball();
        let at = whole.len() / 2;
        whole[at] ^= 255;
        whole
    };
    let leads_out = |fake: &Fake| {
        let mut entries = fake.entries();
        entries.push(Entry::file("../../../evil", "x"));
        pack(&entries, "tar.gz")
    };
    type Archive = fn(&Fake) -> Vec<u8>;
    let archives: [(&str, Archive, &str); 3] = [
        // One gigabyte is unpacked before the decompression bomb is detected, which takes a minute.
        #[cfg(feature = "long-tests")]
        ("a bomb", |fake| standin::bomb(&fake.entries(), 3 << 10), "so it cannot be ROCm"),
        #[cfg(not(feature = "long-tests"))]
        ("one that is cut", |fake| fake.tarball()[..900].to_vec(), "is damaged"),
        ("a damaged one", damaged, "is damaged"),
        ("one with a path that leads out", leads_out, "../../../evil"),
    ];
    for (what, archive, reason) in archives {
        let folder = tempfile::tempdir().unwrap();
        let mut site = Site::default();
        site.listing("/bucket/", Listing::S3(30));
        let mut versions = Vec::new();
        for n in 0..7 {
            let mut fake = Fake::new(&format!("7.15.0a2026060{}", n + 1));
            fake.conf = if n < 4 { "0".into() } else { "1000".into() };
            let path = format!("/bucket/therock-dist-linux-gfx1151-{}.tar.gz", fake.version);
            site.file(&path, if n == 3 { archive(&fake) } else { fake.tarball() });
            versions.push(fake.version);
        }
        let server = site.serve();
        let (out, state) = (folder.path().join("out"), folder.path().join("state"));
        let cache = folder.path().join("one/two/three/cache");
        fs::write(&state, "1").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
            .args(["bisect", "--good", "first", "--bad", "last", "--gfx", "gfx1151", "--source"])
            .arg(format!("s3-xml={}", server.url("/bucket/")))
            .arg("--out")
            .arg(&out)
            .args(["--", "sh", "-c", "\"$ROCREPRO_PREFIX/bin/probe\""])
            .env("XDG_CACHE_HOME", &cache)
            .env("FAKE_STATE", &state)
            .output()
            .unwrap();
        let said = output_text(&output);
        assert!(output.status.success(), "{what}: {said}");
        let answer: serde_json::Value =
            serde_json::from_slice(&fs::read(out.join("bisect.json")).unwrap()).unwrap();
        assert_eq!(answer["last_good"], versions[2], "{what}: {answer}");
        assert_eq!(answer["first_bad"], versions[4], "{what}: {answer}");
        assert_eq!(answer["skipped"][0]["version"], versions[3], "{what}: {answer}");
        let why = answer["skipped"][0]["why"].as_str().unwrap_or_default();
        assert!(why.contains(reason), "{what}: {why}");
        assert!(said.contains(reason), "{what}: {said}");
        // The partly unpacked build was removed, and no file is outside of the cache.
        assert!(bytes_below(&cache) < 64 << 20, "{what}: {}", bytes_below(&cache));
        let beside: Vec<_> = fs::read_dir(folder.path().join("one")).unwrap().collect();
        assert_eq!(beside.len(), 1, "{what}: {beside:?}");
        assert!(!folder.path().join("one/two/evil").exists(), "{what}");
    }
}

#[test]
fn names_the_component_of_a_crossed_build() {
    let folder = tempfile::tempdir().unwrap();
    for (n, hip) in ["well", "well", "ill", "ill"].iter().enumerate() {
        let lib = folder.path().join(format!("builds/{n}/lib"));
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libamdhip64.so.7"), standin::runtime(hip)).unwrap();
        fs::write(lib.join("libhsa-runtime64.so.1"), standin::runtime(&n.to_string())).unwrap();
    }
    let out = folder.path().join("out");
    let source = format!("dir:{}", folder.path().join("builds").display());
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["bisect", "--good", "first", "--bad", "last", "--cross", "--disk-budget", "1"])
        .args(["--source", &source, "--out"])
        .arg(&out)
        .args(["--", "sh", "-c", "grep -q well $ROCREPRO_PREFIX/lib/libamdhip64.so.7"])
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let crossed: Vec<_> = text.lines().filter_map(|l| l.strip_prefix("crossed     ")).collect();
    let [libraries, hip, compiler, rocr] = crossed.as_slice() else { panic!("{text}") };
    assert_eq!(*hip, "last good build with hip of 2: 2 of 2 runs failed");
    assert_eq!(*rocr, "last good build with rocr of 2: 2 of 2 runs passed");
    for none in [libraries, compiler] {
        assert!(none.contains("no result: "), "{none}");
    }
}
