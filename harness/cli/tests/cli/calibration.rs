//! Checks that the answers of `rocrepro bisect` are right as often as they state. The builds come from the simulated
//! histories in `calibration`, an example of the crate `search`.

#[path = "../../../search/examples/calibration/claim.rs"]
#[allow(dead_code)]
mod claim;
#[path = "../../../search/examples/calibration/worlds.rs"]
#[allow(dead_code)]
mod worlds;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use standin::{Fake, Listing, Server, Site, Trouble};

use claim::at_least;
use worlds::{Lab, MODELS, Model, Random, World};

const BISECTS: usize = if cfg!(feature = "long-tests") { 8 * MODELS.len() } else { 8 };

/// Offset of the seeds, beyond those that the example uses.
const SEEDS: u64 = 1_000_000;

/// Script of the tested program. It asks this test for the result of each run, because the simulation keeps state
/// between runs.
const PROGRAM: &str = r#"echo "$ROCREPRO_VALUE" >"$ASK"; read -r failed <"$TELL"
[ "$failed" = 0 ] || echo "wrong bytes" >&2
exit "$failed""#;

/// The parsed answer of one bisect.
struct Said {
    model: &'static str,
    /// True if the answer names exactly one place of the change.
    place: bool,
    /// Stated confidence, from 0 to 1; `None` if the answer does not name a place.
    stated: Option<f64>,
    right: bool,
    runs: u64,
    /// Seed, model and output, for the message of a failed test.
    printed: String,
}

fn version(build: usize) -> String {
    format!("7.15.0a{}", day(build).compact())
}

fn day(build: usize) -> stacks::Date {
    let first: stacks::Date = "2025-10-01".parse().expect("a day");
    first.plus(build as i64)
}

/// Publishes the nightly builds of a simulated history. Broken builds are listed, but their files are missing. Hidden
/// builds belong to a download source that answers with a login page.
fn publish(world: &World) -> (Server, String) {
    let mut site = Site::default();
    site.listing("/bucket/", Listing::S3(100)).ill("/hole/", Trouble::Portal);
    let source = |name: &str, rest: &str| {
        format!("[[source]]\nname = '{name}'\nchannel = 'all'\nkind = 's3-xml'\n{rest}\n")
    };
    let mut sources = source("bucket", "url = 'HOST/bucket/'");
    for (build, _) in world.hidden.iter().enumerate().filter(|(_, hidden)| **hidden) {
        let day = day(build);
        let rest = format!("url = 'HOST/hole/'\nfrom = '{day}'\nto = '{day}'");
        sources.push_str(&source(&format!("hole-{build}"), &rest));
    }
    let whole = Fake::new("7.15.0").tarball();
    for build in world.listed() {
        let broken = world.broken[build];
        let path = format!("/bucket/therock-dist-linux-gfx1151-{}.tar.gz", version(build));
        match broken {
            true => site.ghost(&path),
            false => site.file(&path, whole.clone()),
        };
    }
    let server = site.serve();
    let sources = sources.replace("HOST", &server.url(""));
    (server, sources)
}

/// Answers the questions of the tested program until the test writes `stop`.
fn serve(lab: &mut Lab<'_>, ask: &Path, tell: &Path) {
    let mut active = None;
    while let Ok(asked) = fs::read_to_string(ask) {
        let asked = asked.trim();
        let known = (0..).take_while(|_| asked != "stop").find(|build| version(*build) == asked);
        let Some(build) = known else { return };
        if active != Some(build) {
            lab.install(build);
            active = Some(build);
        }
        let failed = lab.run(build);
        fs::write(tell, format!("{}\n", u8::from(failed))).expect("the program listens");
    }
}

/// Returns the model for the bisect with number `n`. Successive numbers are spread over all models;
/// `ROCREPRO_MODEL=NAME` selects one model for all bisects.
fn of(n: usize) -> &'static Model {
    const STEP: usize = 9;
    let only = std::env::var("ROCREPRO_MODEL").ok();
    let named = MODELS.iter().find(|model| only.as_deref() == Some(model.name));
    named.unwrap_or(&MODELS[STEP * n % MODELS.len()])
}

#[test]
fn covers_every_model() {
    let names: BTreeSet<_> = (0..MODELS.len()).map(|n| of(n).name).collect();
    assert_eq!(names.len(), MODELS.len());
}

fn bisect(n: usize) -> Said {
    let model = of(n);
    let mut random = Random::new(SEEDS + n as u64);
    let world = (model.make)(&mut random);
    let (_server, sources) = publish(&world);
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("sources.toml"), sources).expect("a file");
    let pipes = Command::new("mkfifo").args([at("ask"), at("tell")]).status();
    assert!(pipes.expect("mkfifo").success());
    let output = std::thread::scope(|scope| {
        let (world, random, ask, tell) = (&world, &mut random, at("ask"), at("tell"));
        scope.spawn(move || serve(&mut Lab::new(world, random), &ask, &tell));
        let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
            .args(["bisect", "--good", "first", "--bad", "last", "--gfx", "gfx1151", "--source"])
            .args(["all", "--sources-file"])
            .arg(at("sources.toml"))
            .arg("--out")
            .arg(at("out"))
            .args(["--", "sh", "-c", PROGRAM])
            .env("XDG_CACHE_HOME", at("cache"))
            .env("ROCREPRO_DEVICE_KIND", "emulated")
            .envs([("ASK", at("ask")), ("TELL", at("tell"))])
            .output()
            .expect("it starts");
        fs::write(at("ask"), "stop\n").expect("the thread listens");
        output
    });
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let answer = stdout.lines().find_map(|line| line.strip_prefix("answer ")).unwrap_or_default();
    let json = fs::read(at("out").join("bisect.json")).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
    let code = output.status.code();
    let place = answer.contains("last good")
        || answer.contains("there may be further builds between these two");
    let stated = json["confidence"].as_f64();
    assert!(!answer.is_empty(), "{}: {code:?}\n{stdout}{stderr}", model.name);
    assert_eq!(
        place || answer.contains("the failure becomes more frequent"),
        code == Some(0),
        "{code:?} {answer}"
    );
    let rates = json["rates"].as_array().into_iter().flatten();
    Said {
        model: model.name,
        place,
        stated,
        // If builds between the two are hidden, the answer must name the newer one as the build that contains the
        // change.
        right: claims(answer).iter().all(|(good, bad)| match world.hidden_between(*good, *bad) {
            0 => world.changes.iter().any(|change| good < change && change <= bad),
            _ => world.changes.contains(bad),
        }),
        runs: rates.filter_map(|rate| rate["rate"]["runs"].as_u64()).sum(),
        printed: format!("bisect {n}, {}: {:?}, but\n{stdout}", model.name, world.changes),
    }
}

/// Returns the pairs of builds between which an answer places a change.
fn claims(answer: &str) -> Vec<(usize, usize)> {
    let build = |word: &str| {
        let word = word.trim_end_matches([',', ';']);
        (0..1000).find(|build| version(*build) == word)
    };
    let builds: Vec<usize> = answer.split_whitespace().filter_map(build).collect();
    assert!(builds.len().is_multiple_of(2), "{answer}");
    builds.chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

fn table(all: &[Said]) -> String {
    let mut rows: BTreeMap<&str, Vec<&Said>> = BTreeMap::new();
    for said in all {
        rows.entry(said.model).or_default().push(said);
        rows.entry("~ all").or_default().push(said);
    }
    let mut text =
        "| model | one place | wider | none | stated % | wrong | runs |\n|---|---|---|---|---|---|---|\n".to_owned();
    for (model, row) in rows {
        let answered: Vec<_> = row.iter().filter(|said| said.stated.is_some()).collect();
        let place = answered.iter().filter(|said| said.place).count();
        let stated: f64 = answered.iter().filter_map(|said| said.stated).sum();
        text.push_str(&format!(
            "| {} | {place} | {} | {} | {:.2} | {} | {:.1} |\n",
            model.trim_start_matches("~ "),
            answered.len() - place,
            row.len() - answered.len(),
            100.0 * stated.max(0.0) / answered.len().max(1) as f64,
            answered.iter().filter(|said| !said.right).count(),
            row.iter().map(|said| said.runs).sum::<u64>() as f64 / row.len() as f64,
        ));
    }
    text
}

#[test]
fn is_wrong_at_most_as_often_as_it_claims() {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= BISECTS {
                        return;
                    }
                    let said = bisect(n);
                    all.lock().expect("no thread panicked").push(said);
                }
            });
        }
    });
    let all = all.into_inner().expect("no thread panicked");
    println!("{}", table(&all));
    let answered: Vec<_> = all.iter().filter(|said| said.stated.is_some()).collect();
    let wrong: Vec<_> = answered.iter().filter(|said| !said.right).collect();
    for said in &wrong {
        println!("{}", said.printed);
    }
    let doubt: f64 = answered.iter().filter_map(|said| said.stated).map(|s| 1.0 - s).sum();
    let doubt = doubt / answered.len() as f64;
    let chance = at_least(wrong.len(), answered.len(), doubt);
    assert!(chance >= 0.01, "{} of {} are wrong", wrong.len(), answered.len());
    // At least half of the searches must state a confidence.
    assert!(2 * answered.len() >= all.len(), "{} of {} answered", answered.len(), all.len());
}

#[test]
fn parses_the_builds_of_an_answer() {
    let v = version;
    let text = format!(
        "last good {}, first bad {}; none of the 3 points between them can be tested",
        v(7),
        v(11)
    );
    assert_eq!(claims(&text), [(7, 11)]);
    let text = format!(
        "the failure began several times: between {} and {}, and again between {} and {}",
        v(1),
        v(2),
        v(30),
        v(31)
    );
    assert_eq!(claims(&text), [(1, 2), (30, 31)]);
}
