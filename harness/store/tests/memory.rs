//! Checks that the needed memory grows with the number of records, not with their size. The allocator of this test
//! counts the allocated bytes while large records are stored.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs::File,
    io::{BufReader, BufWriter, Write as _},
    sync::atomic::{AtomicUsize, Ordering},
};

use report::{Builds, RecordIndex, RunSummary, ShardMerger, ShardPlan};
use serde_json::json;
use store::Store;

/// Allocator that counts the bytes that are currently allocated, and their maximum.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: each call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Approximate size of each record, in bytes.
const FAT: usize = 64 << 10;
const RECORDS: usize = 400;

/// Returns the maximum number of bytes that were allocated at the same time while `work` ran.
fn most(work: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}

fn file() -> File {
    let file = tempfile::tempfile().expect("a file");
    let mut out = BufWriter::new(&file);
    let trials: Vec<String> = (0..RECORDS).map(|n| format!("copies/a[n={n}]")).collect();
    let opened = json!({
        "format": 1, "opened": "2026-11-01T00:00:00Z", "run": "r", "trials": trials, "repeat": 1, "digest": "d",
    });
    writeln!(out, "{opened}").expect("there is room");
    for (number, trial) in trials.iter().enumerate() {
        let record = json!({
            "format": 1, "run": "r", "number": number, "date": "2026-11-01T01:00:00Z", "rocrepro": "0.1.0", "case": "copies/a",
            "trial": trial, "title": "A title", "stack": {"spec": "debian:7.2.4", "root": "/stack", "libraries": []},
            "device": {"name": "a device", "gfx": "gfx1151", "emulated": true, "proven": true},
            "outcome": {"kind": "wrong-data", "signature": "wrong-data:dst:zero", "at": {}, "summary": "s", "details": []},
            "verdict": {"kind": "news-fail"}, "exit": {"exited": 0}, "phases": [], "calls": 3, "wall_ns": 1000,
            "environment": {"FAT": format!("{number}").repeat(FAT / 2)[..FAT / 2]},
            "stderr_tail": "x".repeat(FAT / 2), "nonce": format!("{number}"), "again": "rocrepro run",
        });
        writeln!(out, "{record}").expect("there is room");
    }
    out.into_inner().expect("it is written");
    file
}

fn index(file: &File) -> RecordIndex {
    use std::io::{Seek as _, SeekFrom};

    let mut reader = file;
    reader.seek(SeekFrom::Start(0)).expect("a file");
    RecordIndex::read(BufReader::new(file)).expect("it can be read")
}

#[test]
fn records_are_read_one_at_a_time() {
    let file = file();
    let bytes = file.metadata().expect("a file").len() as usize;
    assert!(bytes > RECORDS * FAT);
    // The limit is a few times the size of one record, because the record, its line, its shared values and the reader's
    // buffer are in memory. It does not depend on the number of records.
    let few = 24 * FAT;
    assert!(few < bytes / 16);
    let folder = tempfile::tempdir().expect("a folder");

    let compared = most(|| {
        let index = index(&file);
        let mut sides = [RunSummary::default(), RunSummary::default()];
        for side in &mut sides {
            index.runs[0].records(&file).for_each(|record| side.add(&record.expect("a record")));
        }
        assert!(!report::Changes::compare(&sides[0], &sides[1]).differ());
    });
    let merged = most(|| {
        let index = index(&file);
        let run = &index.runs[0];
        let opened = run.opened(&file).expect("a plan");
        let numbers = run.numbers().collect();
        let mut merging =
            ShardMerger::new(vec![ShardPlan { file: "f".to_owned(), opened, numbers }]);
        let mut builds = Builds::default();
        for record in run.records(&file) {
            builds.add(&merging.add_record(0, record.expect("a record")));
        }
        assert!(merging.end().expect("one run").1.count == 0);
    });
    let mut store = Store::open_or_make(&folder.path().join("results.db")).expect("a store");
    // In the second iteration the store already has every record, so each record is compared with the stored one.
    let added = most(|| {
        for _ in 0..2 {
            let index = index(&file);
            let run = &index.runs[0];
            let mut adding = store.begin().expect("the store is unlocked");
            adding.run(&run.opened(&file).expect("a plan"), run.records(&file)).expect("added");
            let added = adding.commit().expect("added");
            assert_eq!(added.trials + added.there, RECORDS);
        }
    });
    for (what, most) in [("diff", compared), ("merge", merged), ("store add", added)] {
        assert!(most < few, "{what}: {most} bytes at once for a file of {bytes}");
    }
}
