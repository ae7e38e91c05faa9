//! Tests the completion of command lines in shells.

use std::{
    path::Path,
    process::{Command, Output},
};

/// Returns a `PATH` on which the tested program is called `rocrepro`.
fn path() -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_rocrepro")).parent().expect("it is in a folder");
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

fn script(shell: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro")).args(["completions", shell]).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// Splits a command line as bash does for completion: at spaces, and around `:` and `=`, but not inside quotes.
fn bash_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for char in line.chars() {
        let last = words.last_mut().expect("there is one");
        match char {
            _ if quote == Some(char) => {
                last.push(char);
                quote = None;
            }
            _ if quote.is_some() => last.push(char),
            '\'' | '"' => {
                last.push(char);
                quote = Some(char);
            }
            ' ' if last.is_empty() => {}
            ' ' => words.push(String::new()),
            ':' | '=' if last.is_empty() || last.chars().all(|c| matches!(c, ':' | '=')) => {
                last.push(char);
            }
            ':' | '=' => words.push(char.to_string()),
            _ if last.ends_with([':', '=']) && !last.starts_with(['\'', '"']) => {
                words.push(char.to_string());
            }
            _ => last.push(char),
        }
    }
    words
}

/// Returns the completions that bash offers at the end of a command line. If `has_line` is true, the variable
/// `COMP_LINE` contains the command line.
fn bash(line: &str, has_line: bool) -> Vec<String> {
    let program = "eval \"$SCRIPT\"
        COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMP_POINT=${#COMP_LINE} COMP_TYPE=9
        _rocrepro rocrepro \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", program, "bash"]).args(bash_words(line));
    command.env("PATH", path()).env("SCRIPT", script("bash")).env_remove("COMP_LINE");
    if has_line {
        command.env("COMP_LINE", line);
    }
    let output = command.output().expect("bash is there");
    assert!(output.stderr.is_empty(), "{line:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_cases_stacks_and_architectures() {
    let has = |line: &str, expected: &[&str], unexpected: &[&str]| {
        for has_line in [true, false] {
            let offered = bash(line, has_line);
            for word in expected {
                assert!(offered.iter().any(|o| o == word), "{line:?}: no {word:?} in {offered:?}");
            }
            for word in unexpected {
                assert!(!offered.iter().any(|o| o == word), "{line:?}: {word:?} in {offered:?}");
            }
        }
    };
    // The names of commands are offered, except those of hidden commands.
    has("rocrepro ", &["run", "case", "records", "stack"], &["list", "rocm", "man", "show"]);
    has("rocrepro re", &["records", "report"], &["run", "redact"]);
    has("rocrepro stack env ", &["create", "list", "path", "remove"], &["fetch"]);
    has("rocrepro run --sch", &["--schedule"], &["--rocm"]);
    has("rocrepro run copies/sm", &["copies/small-sizes"], &["copies/tensors"]);
    has("rocrepro case explain graphs/lo", &["graphs/long-chain"], &["copies/tensors"]);
    has("rocrepro list copies/sm", &["copies/small-sizes"], &[]);
    let trial = "copies/small-sizes[bytes=2,host=pinned,api=memcpy]";
    has("rocrepro run 'copies/small-sizes[bytes=2,", &[trial], &[]);
    // Bash replaces only the part after the last `=`.
    has("rocrepro run copies/small-sizes[bytes=2,host=pinned,api=memcp", &["memcpy]"], &[trial]);
    has("rocrepro run --rocm sys", &["system"], &[]);
    has("rocrepro run --rocm debian:7", &["7.2.4"], &["6.4.3"]);
    has("rocrepro run --rocm debian:", &["7.2.4", "6.4.3", "latest"], &["system"]);
    has("rocrepro run --rocm=debian:6", &["6.4.3"], &["7.2.4"]);
    has("rocrepro run --rocm night", &["nightly:", "nightly-wheels:"], &[]);
    has("rocrepro stack fetch debian:5", &["5.7.1"], &[]);
    has("rocrepro rocm fetch debian:5", &["5.7.1"], &[]);
    has("rocrepro run --rocm /us", &["/usr/"], &[]);
    has("rocrepro run --gfx gfx11", &["gfx1100", "gfx1151"], &["gfx90a"]);
    has("rocrepro matrix --gfx gfx1151,gfx9", &["gfx1151,gfx90a"], &["gfx1151,gfx1100"]);
    has("rocrepro run --with hipbl", &["hipblaslt"], &["rocblas"]);
    has("rocrepro run --fault copy.z", &["copy.zero"], &["copy.drop"]);
    has("rocrepro run --device e", &["emulated"], &["gpu"]);
}

fn shell(name: &str, arguments: &[&str], input: &str) -> Option<Output> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("script");
    std::fs::write(&file, input).expect("it can be written");
    let mut command = Command::new(name);
    command.args(arguments).arg(&file).env("PATH", path()).env("HOME", folder.path());
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn scripts_of_all_shells_are_well_formed() {
    for (name, part) in [
        ("bash", "complete -o bashdefault"),
        ("zsh", "#compdef rocrepro"),
        ("fish", "--command rocrepro"),
        ("elvish", "arg-completer[rocrepro]"),
        ("powershell", "-CommandName rocrepro"),
    ] {
        let text = script(name);
        assert!(text.contains(part) && text.contains("ROCREPRO_COMPLETE"), "{name}: {text}");
        // Only these three shells can check a script without running it.
        if ["bash", "zsh", "fish"].contains(&name)
            && let Some(output) = shell(name, &["-n"], &text)
        {
            assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
        }
    }
}

#[test]
fn fish_completes_stacks() {
    let asks = format!("{}\ncomplete -C 'rocrepro run --rocm debian:7'\n", script("fish"));
    if let Some(output) = shell("fish", &["--no-config"], &asks) {
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.lines().any(|line| line.starts_with("debian:7.2.4")), "{output:?}");
    }
}

/// zsh has `compdef` and `_describe` only in its line editor. The test defines both, and its `_describe` prints the
/// offered words.
#[test]
fn zsh_completes_stacks() {
    let asks = format!(
        "compdef() {{ }}\n_describe() {{ print -rl -- ${{(P)3}} }}\n{}\nwords=(rocrepro run --rocm debian:7)\nCURRENT=4\n\
         _clap_dynamic_completer_rocrepro\n",
        script("zsh")
    );
    if let Some(output) = shell("zsh", &["-f"], &asks) {
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.lines().any(|line| line.starts_with("debian\\:7.2.4")), "{output:?}");
    }
}

#[test]
fn help_and_the_error_name_every_spelling_of_a_stack() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
        let output = command.args(arguments).env_remove("ROCREPRO_ROCM").output();
        let output = output.expect("it starts");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).expect("it is text");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let error = run(&["run", "--rocm", "nonsense"]);
    for command in ["run", "exec", "prove", "bisect"] {
        let (short, long) = (run(&[command, "-h"]), run(&[command, "--help"]));
        for spelling in stacks::spellings() {
            assert!(short.contains(spelling.form), "{spelling:?}: {short}");
            let described = format!("{}: {}", spelling.form, spelling.about);
            assert!(long.contains(&described), "{spelling:?}: {long}");
            assert!(error.contains(&spelling.short), "{spelling:?}: {error}");
        }
    }
}
