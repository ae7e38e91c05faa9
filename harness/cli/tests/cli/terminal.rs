//! Tests how lines are wrapped on a terminal of 80 columns.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

const COLUMNS: usize = 80;

fn command(at: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(words).current_dir(at);
    command.env("ROCREPRO_DEVICE_KIND", "emulated").env("TERM", "xterm").env("NO_COLOR", "1");
    for name in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "COLUMNS", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

fn on_terminal(mut command: Command) -> String {
    let pty = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&pty).expect("it is ours");
    unlockpt(&pty).expect("it is ours");
    let size = Winsize { ws_row: 24, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&pty, size).expect("it has a size");
    let name = ptsname(&pty, Vec::new()).expect("it has a name");
    let name = Path::new(name.to_str().expect("it is text"));
    let slave = || {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = OpenOptions::new();
        let flags = OFlags::NOCTTY.bits() as i32;
        options.read(true).write(true).custom_flags(flags).open(name).expect("it opens")
    };
    let mut child =
        command.stdin(Stdio::null()).stdout(slave()).stderr(slave()).spawn().expect("it starts");
    // Reading from the terminal ends when no process has the other side of it open.
    drop(command);
    let mut bytes = Vec::new();
    // Linux reports the end as the error EIO.
    let _ = File::from(pty).read_to_end(&mut bytes);
    child.wait().expect("it ends");
    String::from_utf8_lossy(&bytes).replace('\r', "")
}

/// Compares the output of a command on a terminal with that in a pipe. Lines must fit into 80 columns unless they are a
/// single word, and the words must be the same.
#[track_caller]
fn check(at: &Path, words: &[&str]) {
    let text = on_terminal(command(at, words));
    let output = command(at, words).output().expect("it starts");
    let piped =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let in_words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(in_words(&text), in_words(&piped.concat()), "{words:?}");
    assert!(!text.trim().is_empty(), "{words:?} prints nothing");
    for line in text.lines().filter(|line| line.chars().count() > COLUMNS) {
        let whole = line.trim().contains("rocrepro ") || !line.trim().contains(' ');
        assert!(whole, "{words:?}: {line:?} is too long\n{text}");
    }
    let wide =
        piped.iter().flat_map(|text| text.lines()).any(|line| line.chars().count() > COLUMNS);
    let broken = text.lines().count() > piped.iter().map(|text| text.lines().count()).sum();
    assert_eq!(wide && !text.contains("Usage:"), broken, "{words:?}: {text}");
}

#[test]
fn tables_and_texts_break_between_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let trial = "copies/small-sizes[bytes=2,host=pinned,api=memcpy]";
    let run = command(at, &["run", trial, "--record", "runs"]).output().expect("it starts");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    check(at, &["case", "list"]);
    check(at, &["case", "list", "--faults"]);
    check(at, &["case", "list", "--issues"]);
    check(at, &["case", "explain", "graphs/long-chain"]);
    check(at, &["case", "explain", "--steps"]);
    check(at, &["case", "explain", "--faults"]);
    check(at, &["records", "show", "runs"]);
    check(at, &["records", "show", "runs", "--trials"]);
    check(at, &["records", "diff", "runs", "runs"]);
    check(at, &["stack", "list"]);
    check(at, &["run", "nothing/like-it"]);
    check(at, &["run", "--rocm", "nonsense"]);
}

#[test]
fn nothing_is_broken_in_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = command(folder.path(), &["case", "list"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line.chars().count() > COLUMNS), "{text}");
    let shown = on_terminal(command(folder.path(), &["case", "list"]));
    assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
}
