//! Tests a journal whose writer is killed. The writer is this test program, started again with an environment variable.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use supervise::{Durability, Journal, read};

const ROLE: &str = "SUPERVISE_TEST_JOURNAL";

#[derive(Serialize, Deserialize)]
struct Record {
    number: usize,
    padding: String,
}

/// Writes records until it is killed. Prints the number of each record after writing it. Does nothing unless another
/// test starts it.
#[test]
fn writer() {
    let Ok(path) = env::var(ROLE) else { return };
    let mut journal = Journal::open(Path::new(&path), Durability::Process).unwrap();
    for number in 0.. {
        journal.write(&Record { number, padding: "x".repeat(number % 5000) }).unwrap();
        println!("\nwritten {number}");
    }
}

/// `--record /dev/stdout` in a pipeline opens a pipe. A pipe contains no data that a crash of the machine could lose.
#[test]
fn pipes_can_be_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut journal = Journal::open(&path, Durability::Machine).unwrap();
    let mut reader = BufReader::new(std::fs::File::open(&path).unwrap());
    for number in 0..3 {
        journal.write(&Record { number, padding: String::new() }).unwrap();
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains(&format!("\"number\":{number}")), "{line}");
    }
}

#[test]
fn killed_writer_loses_no_written_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    for wanted in [1, 10, 1000] {
        let _ = std::fs::remove_file(&path);
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "writer", "--nocapture"]).env(ROLE, &path);
        let mut writer = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut last = None;
        for line in lines {
            last = line.strip_prefix("written ").and_then(|n| n.parse().ok()).or(last);
            if last == Some(wanted) {
                writer.kill().unwrap();
            }
        }
        writer.wait().unwrap();

        let found = read::<Record>(&path).unwrap();
        assert!(last >= Some(wanted) && found.records.len() > last.unwrap(), "{last:?}");
        assert!(found.records.iter().enumerate().all(|(index, r)| r.number == index));
        let lengths_fit = |r: &Record| r.padding.len() == r.number % 5000;
        assert!(found.records.iter().all(lengths_fit));
        assert!(found.unreadable.iter().all(|line| line.source.is_eof()));
    }
}
