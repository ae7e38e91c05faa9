//! Tests `rocrepro demo`: each finding appears, the text fits into 80 columns, and the suggested commands work.

use std::process::{Command, Output};

fn rocrepro() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    for name in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.env("ROCREPRO_DEVICE_KIND", "emulated");
    command
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn each_finding_appears_and_the_next_commands_work() {
    let output = rocrepro().arg("demo").output().expect("it starts");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!([count("bug "), count("fault "), count("race ")], [5, 1, 1], "{text}");
    assert!(text.contains("\n7 of 7 findings appeared, in "), "{text}");
    assert_eq!(text.matches("not a GPU result").count(), 1, "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    for value in [
        "SIGSEGV in hipGraphInstantiate",
        "hipGraphGetNodes returned hipErrorInvalidValue",
        "the sanitizer found: ",
        "https://github.com/ROCm/ROCm/issues/6602",
    ] {
        // The text is wrapped, so spaces and line breaks are equal.
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(value), "{value} is not in {text}");
    }
    for line in text.lines().filter(|line| line.chars().count() > 80) {
        assert!(line.trim_start().starts_with('`'), "{line:?} is too long");
    }
    let (_, next) = text.split_once("\nNext:\n").expect("it suggests commands");
    let commands: Vec<_> =
        next.lines().filter_map(|line| line.trim().split_once("   ").map(|(one, _)| one)).collect();
    assert_eq!(commands.len(), 3, "{text}");
    for command in commands {
        let words = command.strip_prefix("rocrepro ").expect("it is a command");
        let words = shell::split(words).expect("a shell can read it");
        let output = rocrepro().args(words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{command}: {output:?}");
        assert!(!printed(&output).is_empty(), "{command} prints nothing");
    }
}
