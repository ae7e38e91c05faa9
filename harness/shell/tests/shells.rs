//! Pastes quoted words into real shells, and checks that the shells read the original words.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of command lines with random words that each shell reads.
const COMMANDS: usize = 150;

/// Parts of words. Each of them has a special meaning in at least one shell.
const PIECES: [&str; 62] = [
    "!",
    "!!",
    "!1",
    "!e",
    "!?a?",
    "^a^b",
    "{a,b}",
    "{1..3}",
    "{",
    "}",
    "~",
    "~/",
    "~root",
    "~+",
    "*",
    "?",
    "[a-z]",
    "[",
    "]",
    "=",
    "==ls",
    "=ls",
    ":=ls",
    "a=~",
    "%",
    "%1",
    "%self",
    "#",
    "(",
    ")",
    "<(a)",
    "@(a)",
    "+(a)",
    "<",
    ">",
    "2>x",
    "&",
    "&&",
    "|",
    ";",
    "$",
    "$HOME",
    "${HOME}",
    "$(id)",
    "`id`",
    "\"",
    "'",
    "''",
    "\\",
    "\\\\",
    "\\'",
    "\\n",
    " ",
    "  ",
    "\n",
    "\t",
    "\u{1b}[201~",
    "\u{7f}",
    "\u{202e}",
    "\u{9b}2J",
    "é",
    "中",
];

/// Commands that a shell reads first. They enable expansions that are disabled by default.
const OPTIONS: [(&str, &str); 2] = [
    ("bash", "shopt -s extglob nullglob globstar; set -o histexpand\n"),
    ("zsh", "setopt extended_glob magic_equal_subst null_glob rc_quotes glob_subst\n"),
];

/// Generator of pseudo-random numbers, which are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        // The constants are those of Knuth's linear congruential generator.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % n
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        for _ in 0..self.below(6) {
            match self.below(4) {
                0 => word.push_str(["a", "b", "e", "1", "-", "/", ".", ","][self.below(8)]),
                _ => word.push_str(PIECES[self.below(PIECES.len())]),
            }
        }
        word
    }
}

/// Returns the words that a shell reads from each command line. The shell is interactive. It runs in its own session,
/// so that it cannot take over the terminal.
fn read_by(shell: &[&str], commands: &[String]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "ab", "x!e"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let read = folder.path().join("read");
    let options = OPTIONS.iter().find(|(name, _)| *name == shell[0]).map_or("", |(_, text)| text);
    let mut script = options.to_owned();
    for command in commands {
        script += &format!("printf '%s\\0' {command} end >> {}\n", read.display());
    }
    let mut child = Command::new("setsid")
        .arg("--wait")
        .args(shell)
        .current_dir(&folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder.path())
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    writer.join().unwrap().unwrap();
    let read = fs::read(read).unwrap_or_else(|error| panic!("{}: {error}: {said}", shell[0]));
    let read = String::from_utf8(read).unwrap();
    let mut lists = vec![Vec::new()];
    for word in read.split_terminator('\0') {
        if word == "end" {
            lists.push(Vec::new());
        } else {
            lists.last_mut().unwrap().push(word.to_owned());
        }
    }
    lists.pop();
    lists
}

#[test]
fn shells_read_the_words_that_were_quoted() {
    let shells: [&[&str]; 4] = [
        &["bash", "--norc", "--noprofile", "-i"],
        &["dash", "-i"],
        &["zsh", "-f", "-i"],
        &["fish", "--no-config", "-i"],
    ];
    let mut numbers = Numbers(1);
    let mut words: Vec<Vec<String>> =
        PIECES.iter().map(|piece| vec![(*piece).to_owned()]).collect();
    words.extend((0..COMMANDS).map(|_| (0..=numbers.below(4)).map(|_| numbers.word()).collect()));
    let commands: Vec<String> = words.iter().map(shell::join).collect();
    let mut tried = Vec::new();
    for shell in shells {
        let found = ["/bin", "/usr/bin", "/usr/local/bin"];
        if !found.iter().any(|folder| Path::new(folder).join(shell[0]).exists()) {
            continue;
        }
        tried.push(shell[0]);
        let read = read_by(shell, &commands);
        for ((words, command), read) in words.iter().zip(&commands).zip(&read) {
            assert_eq!(read, words, "{} reads {command}", shell[0]);
        }
        assert_eq!(read.len(), words.len(), "{}", shell[0]);
    }
    assert!(tried.contains(&"bash"), "bash is missing");
}
