//! Tests `rocrepro bisect --to commits`, which finds the first bad nightly build, and then the push between that build
//! and the last good one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::machine::{Machine, PROBE, interrupted};
use standin::{Entry, Fake, Listing, Server, Site, Trouble, pack, sha256};

const A_DAY: u32 = 3;
/// Number of the push that breaks the program. It is the second push of 4 July.
const BREAKS: u32 = 10;
const PUSHES: u32 = 21;

fn commit(n: u32) -> String {
    sha256(format!("push {n}").as_bytes())[..40].to_owned()
}

/// Returns the commit of rocm-systems that the push with number `n` pins. It changes at every seventh push and at the
/// breaking one.
fn systems(n: u32) -> String {
    sha256(format!("systems {} {}", n / 7, n >= BREAKS).as_bytes())[..40].to_owned()
}

fn fake(version: &str, push: u32, fails: bool) -> Fake {
    Fake {
        conf: if fails { "1000" } else { "0" }.into(),
        therock: commit(push),
        pins: vec![("rocm-systems".into(), systems(push))],
        ..Fake::new(version)
    }
}

/// Returns the number of the last push that the nightly build of a day in July contains. Nightly builds are made at
/// midnight, except that of 5 July, which contains one push more.
fn last_push(day: u32) -> u32 {
    A_DAY * (day - 1) - 1 + u32::from(day == 5)
}

/// The history that the simulated servers publish.
struct World {
    /// Number of the first push that fails or, if `fix` is true, that passes.
    changes: u32,
    fix: bool,
    /// Message of the failing pushes, if it differs from the message of the nightly builds.
    says: Option<&'static str>,
    /// True if the list of CI runs contains the additional push in the nightly build of 5 July.
    late_push: bool,
}

/// A history that breaks at push [`BREAKS`], with a complete list of CI runs.
const PLAIN: World = World { changes: BREAKS, fix: false, says: None, late_push: true };

impl World {
    fn fails(&self, push: u32) -> bool {
        (push >= self.changes) != self.fix
    }

    fn serve(&self) -> Server {
        let mut site = Site::default();
        for day in 2..=7 {
            let version = format!("7.15.0a202607{day:02}");
            let fake = fake(&version, last_push(day), self.fails(last_push(day)));
            let path = format!("/bucket/therock-dist-linux-gfx1151-{version}.tar.gz");
            site.file(&path, fake.tarball());
        }
        site.listing("/bucket/", Listing::S3(100));
        let mut runs = Vec::new();
        for n in (0..PUSHES).rev().filter(|n| self.late_push || *n != last_push(5)) {
            let created = format!("2026-07-{:02}T{:02}:00:00Z", n / A_DAY + 1, 8 + n % A_DAY);
            runs.push(serde_json::json!({"id": 100 + n, "head_sha": commit(n), "event": "push",
                "created_at": created}));
            let mut entries = fake(&commit(n), n, self.fails(n)).entries();
            if let Some(says) = self.says {
                for entry in &mut entries {
                    if let Entry::File(_, text, true) = entry {
                        *text = String::from_utf8_lossy(text).replace("wrong bytes", says).into();
                    }
                }
            }
            site.file(&format!("/ci/{}-linux/all.tar.zst", 100 + n), pack(&entries, "tar.zst"));
        }
        let page = serde_json::json!({"total_count": runs.len(), "workflow_runs": runs});
        site.file("/runs", page.to_string().into_bytes());
        site.serve()
    }
}

const SOURCES: &str = "[[source]]\nname = 'july'\nchannel = 'july'\nkind = 's3-xml'\nurl = 'HOST/bucket/'\n\
                       [[source]]\nname = 'commits'\nchannel = 'commits'\nkind = 'shards'\nurl = 'HOST/ci/{run}-linux/'\n\
                       runs = 'HOST/runs?created={from}..{to}'\nparts = ['all']\n";

/// A machine for the test, and the option that names the machine's file of both download sources.
struct July(Machine, String);

impl July {
    fn new(server: &Server) -> July {
        let machine = Machine::new();
        let sources = machine.knows(server, SOURCES);
        July(machine, sources)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.at(name)
    }

    fn command(&self, options: &[&str]) -> Command {
        let two = ["bisect", "--source=july", "--to=commits", "--gfx=gfx1151", "--out=out"];
        let mut command = self.0.command(&[&two[..], &[&self.1], options, &PROBE].concat());
        command.env_remove("XDG_CONFIG_HOME");
        command
    }

    #[track_caller]
    fn check(&self, options: &[&str], code: i32, parts: &[&str]) -> (String, String) {
        let Output { status, stdout, stderr } = self.command(options).output().expect("it starts");
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        let text = format!("{stdout}\n--- stderr\n{stderr}");
        assert_eq!(status.code(), Some(code), "{text}");
        for part in parts {
            assert!(text.contains(part), "no {part:?}: {text}");
        }
        (stdout, stderr)
    }
}

const ENDS: [&str; 2] = ["--good=first", "--bad=last"];

#[test]
fn finds_the_push_between_two_nightlies() {
    let server = PLAIN.serve();
    let machine = July::new(&server);
    let night = "last good 7.15.0a20260704, first bad 7.15.0a20260705";
    let push = format!("last good {}, first bad {}", commit(BREAKS - 1), commit(BREAKS));
    let link = |from: u32, to: u32| {
        let (from, to) = (systems(from), systems(to));
        format!("https://github.com/ROCm/rocm-systems/compare/{from}...{to}")
    };
    let (nights, pushes) = (link(last_push(4), last_push(5)), link(BREAKS - 1, BREAKS));
    let (text, printed) = machine.check(&ENDS, 0, &[night, &push, &nights, &pushes]);
    assert!(text.find(night) < text.find(&push), "{text}");
    // The ends of the second search are the commits of the two nightly builds.
    let journal = fs::read_to_string(machine.at("out/commits/bisect.jsonl")).expect("a journal");
    let begun = journal.lines().next().expect("a line");
    let ends = (commit(last_push(4)), commit(last_push(5)));
    assert!(begun.contains(&ends.0) && begun.contains(&ends.1), "{begun}");
    let points = format!("\"points\":{}", last_push(5) - last_push(4) + 1);
    assert!(begun.contains(&points) && begun.contains("exit:1:wrong bytes"), "{begun}");
    // Progress lines state the current answer and an estimate of the remaining effort.
    let mut progress = printed.lines().filter(|line| line.contains("if stopped now: between"));
    assert!(progress.clone().count() > 5, "{printed}");
    assert!(
        progress.all(|line| line.contains("; about ") && line.contains(" remaining, ")),
        "{printed}"
    );
    // The pages of the two searches link to each other.
    for (page, link) in [
        ("out/bisect.html", "href=\"commits/bisect.html\""),
        ("out/commits/bisect.html", "href=\"../bisect.html\""),
    ] {
        let text = fs::read_to_string(machine.at(page)).expect("a page");
        assert!(text.contains(link), "{page}: {text}");
    }
    for file in ["out/bisect.json", "out/commits/bisect.json"] {
        assert!(machine.at(file).is_file(), "{file}");
    }
    // The printed command names the push with its date, so that old pushes are found too.
    let again = text.lines().rfind(|line| line.starts_with("again")).expect("a line of it");
    let words = again["again".len()..].trim();
    let own = Path::new(env!("CARGO_BIN_EXE_rocrepro")).parent().expect("a folder");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").expect("a path"));
    let mut shell = machine.0.started("sh");
    let output = shell.args(["-c", words]).env("PATH", path).output().expect("it starts");
    let repeated = String::from_utf8_lossy(&output.stdout);
    assert!(repeated.contains(&push), "{words}\n{repeated}\n{output:?}");
    let asked = server.requests().into_iter().rfind(|request| request.contains("created="));
    assert!(asked.is_some_and(|asked| asked.contains("created=2026-06-24..2026-07-04")));
    // A finished search is not repeated.
    let before = fs::read_to_string(machine.at("state")).expect("a file");
    machine.check(&[ENDS[0], ENDS[1], "--resume"], 0, &[night, &push]);
    assert_eq!(fs::read_to_string(machine.at("state")).expect("a file"), before);
}

#[test]
fn finds_the_push_that_fixed_a_failure() {
    let server = World { fix: true, ..PLAIN }.serve();
    let machine = July::new(&server);
    let push = format!("first good {}, last bad {}", commit(BREAKS), commit(BREAKS - 1));
    let night = "first good 7.15.0a20260705, last bad 7.15.0a20260704";
    machine.check(&["--fixed", "--good=last", "--bad=first"], 0, &[night, &push]);
}

#[test]
fn takes_the_push_of_the_day_if_the_nightly_has_none() {
    let server = World { late_push: false, ..PLAIN }.serve();
    let machine = July::new(&server);
    let late = commit(last_push(5));
    let printed = format!("commits has no build of commit {late}, from which 7.15.0a20260705");
    let push = format!("last good {}, first bad {}", commit(BREAKS - 1), commit(BREAKS));
    machine.check(&ENDS, 0, &[&printed, &format!("using {} instead", commit(11)), &push]);
}

/// The second search looks for the failure that the first one found; other failures do not count.
#[test]
fn rejects_pushes_that_fail_with_another_signature() {
    let server = World { says: Some("no device"), ..PLAIN }.serve();
    let machine = July::new(&server);
    let look = ["--good=first", "--bad=last", "--dry-run"];
    machine.check(
        &look,
        0,
        &["then        search the builds of commits between last good and first bad build"],
    );
    let refused = "with a different signature: exit:1:no device";
    machine.check(&ENDS, 3, &["first bad 7.15.0a20260705", refused]);
}

#[test]
fn interrupts_the_listing_of_pushes_and_resumes() {
    let server = PLAIN.serve();
    server.change(|site| {
        site.trouble("/runs", &[Trouble::Silent]);
    });
    let machine = July::new(&server);
    let child = machine.command(&ENDS).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("it starts");
    let asked = || server.requests().iter().any(|request| request.contains("/runs"));
    let output = interrupted(child, asked);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains("the listing was cancelled") && text.contains("--resume"), "{text}");
    let night = "last good 7.15.0a20260704, first bad 7.15.0a20260705";
    assert!(String::from_utf8_lossy(&output.stdout).contains(night));
    let before = fs::read_to_string(machine.at("state")).expect("a file");
    let push = format!("last good {}, first bad {}", commit(BREAKS - 1), commit(BREAKS));
    machine.check(&[ENDS[0], ENDS[1], "--resume"], 0, &[night, &push]);
    assert_ne!(fs::read_to_string(machine.at("state")).expect("a file"), before);
}

#[test]
fn keeps_the_answer_if_both_nightlies_hold_one_push() {
    let server = World { changes: 99, ..PLAIN }.serve();
    // Two builds of the same download source, of which only the second one is bad.
    let version = "7.15.0a20260706";
    server.change(|site| {
        let again = Fake { conf: "1000".into(), ..fake(version, last_push(5), true) };
        site.file(&format!("/bucket/therock-dist-linux-gfx1151-{version}.tar.gz"), again.tarball());
    });
    let machine = July::new(&server);
    let ends = ["--good=first", "--bad=2026-07-06"];
    let why = format!(
        "7.15.0a20260705 and 7.15.0a20260706 correspond to the same build of commits, so no search is possible: {}",
        commit(last_push(5))
    );
    let parts = ["first bad 7.15.0a20260706", &why, "the answer above is still valid"];
    machine.check(&ends, 4, &parts);
}
