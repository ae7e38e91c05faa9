//! Tests of the histories that are read from all kinds of listings. The listings contain the same kinds of entries as
//! real ones.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use stacks::{BuildLocation, BuildQuery, History, ListError, Sources};
use standin::{Fake, Listing, Server, Site, Trouble};

static NEVER: AtomicBool = AtomicBool::new(false);

fn list(sources: &Sources, wanted: &BuildQuery) -> Result<History, ListError> {
    stacks::list_builds(sources, wanted, &NEVER)
}

fn read_components(
    sources: &Sources,
    history: &mut History,
    range: std::ops::Range<usize>,
) -> usize {
    stacks::read_components(sources, history, range, &NEVER)
}

fn sources(text: &str, server: &Server) -> Sources {
    let text = text.replace("HOST", &server.url(""));
    Sources::parse(&text, Path::new("test.toml")).unwrap()
}

#[test]
fn stops_an_endless_listing() {
    let mut site = Site::default();
    site.ill("/", Trouble::Endless);
    let server = site.serve();
    let sources =
        sources("[[source]]\nname = \"all\"\nkind = \"index-html\"\nurl = \"HOST/\"\n", &server);
    let error = list(&sources, &wanted("gfx1151", "2026-01-01", "2026-12-31")).unwrap_err();
    let expected = "the response has more than 67108864 bytes; no page of a listing is longer";
    assert!(error.to_string().contains(expected), "{error}");
}

fn wanted(gfx: &str, from: &str, to: &str) -> BuildQuery {
    BuildQuery {
        gfx: gfx.into(),
        from: from.parse().ok(),
        to: to.parse().ok(),
        beside_main: Vec::new(),
    }
}

fn all(gfx: &str) -> BuildQuery {
    wanted(gfx, "", "")
}

/// Returns the id, family and sources of each build.
fn told(history: &History) -> Vec<String> {
    let place = |place: &BuildLocation| match place {
        BuildLocation::Archives { source, archives } => format!("{source}:{}", archives.len()),
        BuildLocation::Directory(path) => path.file_name().unwrap().to_string_lossy().into_owned(),
        BuildLocation::Debian(spec) => spec.clone(),
    };
    let build = |build: &stacks::Build| {
        let places: Vec<_> = build.places.iter().map(place).collect();
        format!("{} {} [{}]", build.id, build.family, places.join(" "))
    };
    history.builds.iter().map(build).collect()
}

const FAMILIES: &str = "[families]\ngfx1100 = ['gfx110X-all', 'gfx110X-dgpu', 'multiarch']\n";

/// Names of files that real hosts list among the tarballs, and which are not builds to test.
const DECOYS: &[&str] = &[
    "therock-dist-linux-gfx110X-all-ADHOCBUILD-7.0.0rc20260702.tar.gz",
    "therock-dist-linux-gfx110X-all-tests-7.15.0a20260702.tar.gz",
    "therock-dist-windows-gfx110X-all-7.15.0a20260702.tar.gz",
    "therock-dist-linux-gfx94X-dcgpu-7.15.0a20260702.tar.gz",
    "therock-dist-linux-gfx110X-all-7.15.0a20260702.tar.gz.sig",
    "therock-dist-linux-gfx110X-all-latest.tar.gz",
];

fn tarball(family: &str, version: &str) -> String {
    format!("therock-dist-linux-{family}-{version}.tar.gz")
}

#[test]
fn merges_three_generations_of_listings() {
    let mut site = Site::default();
    let mut publish = |folder: &str, family: &str, version: &str| {
        site.file(&format!("{folder}{}", tarball(family, version)), b"x".to_vec());
    };
    // The family was renamed. Both names have a build for the day of the change.
    publish("/bucket/", "gfx110X-dgpu", "7.14.0a20260608");
    publish("/bucket/", "gfx110X-all", "7.14.0a20260609");
    publish("/bucket/", "gfx110X-all", "7.15.0a20260612");
    // This build was published at the old location after the move, so the history must not contain it.
    publish("/bucket/", "gfx110X-all", "7.15.0a20260613");
    publish("/bucket/v4/tarball/", "gfx110X-all", "7.15.0a20260612");
    publish("/bucket/v4/tarball/", "multiarch", "7.15.0a20260612");
    publish("/bucket/v4/tarball/", "multiarch", "7.15.0a20260614");
    publish("/bucket/v4/tarball/", "gfx110X-all", "10.0.0a20260730");
    publish("/new/core/tarball/", "multiarch", "10.1.0a20260831");
    for folder in ["/bucket/", "/bucket/v4/tarball/", "/new/core/tarball/"] {
        for decoy in DECOYS {
            site.file(&format!("{folder}{decoy}"), b"x".to_vec());
        }
    }
    site.listing("/bucket/", Listing::S3(3)).listing("/new/core/tarball/", Listing::Index);
    let server = site.serve();
    let sources = sources(
        &format!(
            "[[source]]\nname = 'old'\nkind = 's3-xml'\nurl = 'HOST/bucket/'\nprefix = 'therock-dist-linux-'\nto = '2026-06-12'\n\
             [[source]]\nname = 'middle'\nkind = 's3-xml'\nurl = 'HOST/bucket/'\nprefix = 'v4/tarball/therock-dist-linux-'\n\
             [[source]]\nname = 'new'\nkind = 'index-html'\nurl = 'HOST/new/core/tarball/'\n{FAMILIES}"
        ),
        &server,
    );
    let history = list(&sources, &all("gfx1100")).unwrap();
    assert_eq!(
        told(&history),
        [
            "7.14.0a20260608 gfx110X-dgpu [old:1]",
            "7.14.0a20260609 gfx110X-all [old:1]",
            "7.15.0a20260612 gfx110X-all [middle:1 old:1]",
            "7.15.0a20260614 multiarch [middle:1]",
            "10.0.0a20260730 gfx110X-all [middle:1]",
            "10.1.0a20260831 multiarch [new:1]",
        ]
    );
    assert_eq!((history.silent, history.holes), Default::default());
    let pages = server.requests().iter().filter(|r| r.contains("continuation-token")).count();
    assert!(pages >= 3, "pages are small here: {pages}");

    let few = list(&sources, &wanted("gfx1100", "2026-06-12", "2026-07-30")).unwrap();
    assert_eq!(few.builds.len(), 3);
}

#[test]
fn reports_sources_that_do_not_answer() {
    let mut site = Site::default();
    site.file(&format!("/a/{}", tarball("gfx1151", "7.15.0a20260702")), b"x".to_vec());
    site.listing("/a/", Listing::Index);
    site.file("/page/", b"<a href='x.tar.gz'>x</a>".to_vec());
    let server = site.serve();
    let sources = sources(
        "[[source]]\nname = 'good'\nkind = 'index-html'\nurl = 'HOST/a/'\n\
         [[source]]\nname = 'gone'\nkind = 'index-html'\nurl = 'HOST/gone/'\n\
         [[source]]\nname = 'odd'\nkind = 'index-html'\nurl = 'HOST/page/'\n\
         [[source]]\nname = 'xml'\nkind = 's3-xml'\nurl = 'HOST/page/'\n",
        &server,
    );
    let history = list(&sources, &all("gfx1151")).unwrap();
    assert_eq!(history.builds.len(), 1);
    let silent: Vec<_> = history.holes.iter().map(ToString::to_string).collect();
    let silent = silent.join("\n");
    for part in ["gone: http", "/gone/: not found", "odd: ", "no `const files", "xml: "] {
        assert!(silent.contains(part), "{part} is missing in {silent}");
    }
    let Err(ListError::Empty { reasons, .. }) = list(&sources, &all("gfx900")) else {
        panic!("nothing is there for gfx900")
    };
    assert_eq!(reasons.len(), 4);
}

/// If the page of a family's name cannot be read, the builds under the family's other name are still listed.
#[test]
fn reports_a_failing_family_next_to_a_working_one() {
    let with = |trouble: Trouble| {
        let mut site = Site::default();
        for family in ["gfx110X-all", "gfx110X-dgpu"] {
            let at = format!("/v2/{family}/rocm-sdk-core/");
            let wheel = "rocm_sdk_core-7.15.0a20260702-py3-none-linux_x86_64.whl";
            site.file(&format!("{at}{wheel}"), b"x".to_vec()).listing(&at, Listing::SimpleHtml);
        }
        site.ill("/v2/gfx110X-dgpu/", trouble);
        let server = site.serve();
        let text = "[[source]]\nname = 'w'\nkind = 'simple-index'\nurl = 'HOST/v2/{family}/'\nparts = ['rocm-sdk-core']\n";
        list(&sources(&format!("{text}{FAMILIES}"), &server), &all("gfx1100")).unwrap()
    };
    let refused = with(Trouble::Status("500 Internal Server ListError", None));
    assert_eq!(told(&refused), ["7.15.0a20260702 gfx110X-all [w:1]"]);
    assert_eq!(refused.holes.len(), 1, "{refused:?}");
    assert!(
        refused.holes[0].reason.contains("/v2/gfx110X-dgpu/rocm-sdk-core/: 500"),
        "{refused:?}"
    );
    // A page that is missing under the family's old name is not a gap. The history contains a remark about it.
    let absent = with(Trouble::Status("404 Not Found", None));
    assert_eq!((told(&absent).len(), absent.holes.len()), (1, 0), "{absent:?}");
    assert!(absent.silent[0].contains("/v2/gfx110X-dgpu/rocm-sdk-core/: not found"), "{absent:?}");
}

#[test]
fn lists_only_complete_sets_of_wheels() {
    let mut site = Site::default();
    let wheel =
        |package: &str, version: &str| format!("{package}-{version}-py3-none-linux_x86_64.whl");
    for version in ["7.15.0a20260701", "7.15.0a20260702"] {
        let core = wheel("rocm_sdk_core", version);
        site.file(&format!("/v2/gfx1151/rocm-sdk-core/{core}"), b"x".to_vec());
    }
    let libraries = wheel("rocm_sdk_libraries_gfx1151", "7.15.0a20260702");
    site.file(&format!("/v2/gfx1151/rocm-sdk-libraries-gfx1151/{libraries}"), b"x".to_vec());
    site.file("/v2/gfx1151/rocm-sdk-core/rocm_sdk_core-7.15.0a20260702.tar.gz", b"x".to_vec());
    site.listing("/v2/gfx1151/rocm-sdk-core/", Listing::SimpleHtml);
    site.listing("/v2/gfx1151/rocm-sdk-libraries-gfx1151/", Listing::SimpleJson);
    let server = site.serve();
    let sources = sources(
        "[[source]]\nname = 'w'\nkind = 'simple-index'\nurl = 'HOST/v2/{family}/'\n\
         parts = ['rocm-sdk-core', 'rocm-sdk-libraries-{family}']\n",
        &server,
    );
    let history = list(&sources, &all("gfx1151")).unwrap();
    assert_eq!(told(&history), ["7.15.0a20260702 gfx1151 [w:2]"]);
    let BuildLocation::Archives { archives, .. } = &history.builds[0].places[0] else { panic!() };
    assert!(archives.iter().all(|archive| archive.sha256.is_some()), "{archives:?}");
}

#[test]
fn lists_pushes_in_their_order() {
    let mut site = Site::default();
    let run = |id: u64, sha: &str, event: &str| serde_json::json!({"id": id, "head_sha": sha, "event": event, "created_at": "2026-07-02T10:00:00Z"});
    // GitHub lists the newest run first. The list also contains a run of a pull request, and a second run of the same
    // push.
    let runs = [
        run(40, "0aa", "push"),
        run(30, "9cc", "pull_request"),
        run(21, "fbb", "push"),
        run(20, "fbb", "push"),
    ];
    let page = serde_json::json!({"total_count": 4, "workflow_runs": runs}).to_string();
    site.file("/runs", page.into_bytes());
    let fake = Fake::new("x");
    site.file("/ci/40-linux/manifest.json", fake.manifest().into_bytes());
    let server = site.serve();
    let sources = sources(
        "[[source]]\nname = 'commits'\nkind = 'shards'\nurl = 'HOST/ci/{run}-linux/'\nruns = 'HOST/runs?created={from}..{to}'\n\
         manifest = 'HOST/ci/{run}-linux/manifest.json'\nparts = ['core-hip_lib_generic', 'base_lib_generic']\n",
        &server,
    );
    let mut history = list(&sources, &wanted("gfx1151", "2026-07-01", "2026-07-03")).unwrap();
    assert_eq!(
        told(&history),
        ["fbb gfx1151 [commits:2 commits:2]", "0aa gfx1151 [commits:2 commits:2]"]
    );
    // The last push that a nightly build contains may be ten days older than the build.
    assert_eq!(server.requests()[0], "GET /runs?created=2026-06-21..2026-07-03");
    let known = read_components(&sources, &mut history, 0..2);
    assert_eq!(known, 1);
    assert_eq!(history.builds[1].components.as_ref().unwrap().therock, fake.therock);
}

#[test]
fn nightlies_of_shards_and_their_commits() {
    let mut site = Site::default();
    for (day, run) in [("20260812", "\"71\""), ("20260814", "72")] {
        let status = format!(
            r#"{{"schema_version":"2.7","rocm_version":"10.1.0a{day}","trigger_workflow_run_id":{run},"new":[]}}"#
        );
        site.file(&format!("/quartz/{day}/status.json"), status.into_bytes());
    }
    let (one, two) = (Fake::new("one"), Fake::new("two"));
    site.file("/a/71-linux/m.json", one.manifest().into_bytes());
    site.file("/a/72-linux/m.json", two.manifest().into_bytes());
    let server = site.serve();
    let sources = sources(
        "[[source]]\nname = 'shards'\nkind = 'shards'\nurl = 'HOST/a/{run}-linux/'\nstatus = 'HOST/quartz/{date}/status.json'\n\
         manifest = 'HOST/a/{run}-linux/m.json'\nparts = ['core-hip_lib_generic']\n",
        &server,
    );
    let mut history = list(&sources, &wanted("gfx1151", "2026-08-10", "2026-08-15")).unwrap();
    assert_eq!(
        told(&history),
        [
            "10.1.0a20260812 gfx1151 [shards:1 shards:1]",
            "10.1.0a20260814 gfx1151 [shards:1 shards:1]"
        ]
    );
    assert_eq!(read_components(&sources, &mut history, 0..2), 2);
    let components = |n: usize| history.builds[n].components.clone().unwrap();
    let moved = components(0).moved(&components(1));
    assert_eq!(moved.len(), 1, "only TheRock moved: {moved:?}");
}

#[test]
fn derives_days_from_the_ends() {
    let check = |one: &str, other: &str, expected: &str| {
        let wanted = BuildQuery::between("gfx1151", one, other);
        let day = |day: Option<stacks::Date>| day.map_or("any".into(), |day| day.to_string());
        assert_eq!(format!("{}..{}", day(wanted.from), day(wanted.to)), expected);
    };
    check("2026-07-02", "7.15.0a20260801", "2026-07-02..2026-08-01");
    check("10.0.0a20260801", "20260702", "2026-07-02..2026-08-01");
    check("first", "2026-07-02", "any..any");
    check("debian:6.4.3", "debian:7.2.4", "any..any");
}

#[test]
fn finds_builds_by_the_names_that_users_type() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["7.15.0a20260702", "7.15.0a20260704", "10.0.0a20260730", ".hidden"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let source = format!("dir:{}", folder.path().display());
    let sources = Sources::load(None).unwrap().select(&[source]).unwrap();
    let history = list(&sources, &all("gfx1151")).unwrap();
    let check = |text: &str, expected: &str| {
        let found = history.find(text);
        // Error messages contain numbers too, so the result is compared with `expected` as a parsed number.
        assert_eq!(found.as_ref().ok(), expected.parse().ok().as_ref(), "{text:?}");
        if let Err(error) = found {
            assert!(error.to_string().contains(expected), "{text:?} gave {error}");
        }
    };
    check("7.15.0a20260704", "1");
    check("2026-07-04", "1");
    check("20260730", "2");
    check("first", "0");
    check("last", "2");
    check(
        "2026-07-03",
        "the build before it is 7.15.0a20260702, the build after it is 7.15.0a20260704",
    );
    check("2026-08-03", "the build before it is 10.0.0a20260730, the build after it is none");
    check("7.16", "the history has 3 builds, from 7.15.0a20260702 to 10.0.0a20260730");
}

#[test]
fn leaves_out_builds_of_other_branches_unless_an_end_names_one() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["10.1.0a20260811", "10.1.0a20260811+bkc.20260813", "10.1.0a20260812"];
    for name in names {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let source = format!("dir:{}", folder.path().display());
    let sources = Sources::load(None).unwrap().select(&[source]).unwrap();
    let ids = |history: &History| -> Vec<String> {
        history.builds.iter().map(|build| build.id.clone()).collect()
    };
    let history = list(&sources, &all("gfx1151")).unwrap();
    assert_eq!(ids(&history), [names[0], names[2]]);
    let told = "1 builds that are not nightly builds of the main branch (+bkc, .dev0) are skipped";
    assert!(history.silent.iter().any(|text| text.starts_with(told)), "{:?}", history.silent);
    // The last day in the name of the other branch's build, the 13th, counts as the build's day.
    let history = list(&sources, &BuildQuery::between("gfx1151", names[0], names[1])).unwrap();
    assert_eq!(ids(&history).len(), 3, "{history:?}");
    assert!(
        !history.silent.iter().any(|text| text.contains("are skipped")),
        "{:?}",
        history.silent
    );
}

/// The host does not respond at all, or stops in the middle of its list.
#[test]
fn cancels_a_listing_at_once() {
    for trouble in [Trouble::Silent, Trouble::Stall(10)] {
        let mut site = Site::default();
        site.listing("/b/", Listing::S3(100)).ill("/b/", trouble.clone());
        let server = site.serve();
        let sources =
            sources("[[source]]\nname = 'b'\nkind = 's3-xml'\nurl = 'HOST/b/'\n", &server);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| stacks::list_builds(&sources, &all("gfx1151"), &stop));
            while server.requests().is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(50));
            let asked = Instant::now();
            stop.store(true, Ordering::Relaxed);
            let got = waits.join().unwrap();
            assert!(matches!(got, Err(ListError::Cancelled)), "{trouble:?}: {got:?}");
            assert!(asked.elapsed() < Duration::from_secs(2), "{trouble:?}: {:?}", asked.elapsed());
        });
    }
}
