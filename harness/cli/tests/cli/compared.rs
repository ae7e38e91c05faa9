//! `rocrepro device compare`: what the emulated device gives, into a file, and files beside each other.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn compare(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["device", "compare"]).args(words).current_dir(folder);
    for variable in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "ROCREPRO_DEVICE_KIND"] {
        command.env_remove(variable);
    }
    command.output().expect("the command starts")
}

#[track_caller]
fn said(output: &Output, code: i32) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("the folder is writable");
    path
}

const HEADER: &str = r#"{"format":"rocrepro device probe","version":1,"stack":"debian:7.2.4","device":"a GPU","gfx":"gfx1100","emulated":false,"date":"2026-11-22T00:00:00Z","items":1}"#;

#[test]
fn what_cannot_be_compared_is_refused_before_any_device_is_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let whole = format!(
        "{HEADER}\n{{\"probe\":\"s_add_u32\",\"results\":{{\"s40\":\"00000001\"}}}}\n{{\"end\":1}}\n"
    );
    write(at, "whole", &whole);
    write(at, "cut", &whole[..HEADER.len() + 20]);
    write(at, "foreign", "<xml/>\n");
    write(at, "other", &whole.replace("gfx1100", "gfx90a:sramecc+:xnack-"));
    let told = said(&compare(at, &["cut", "foreign"]), 2);
    assert!(told.contains("error: `cut`: line 2: EOF while parsing"), "{told}");
    assert!(
        told.contains("error: `cut`: line 2: the file is cut off: its end is missing"),
        "{told}"
    );
    assert!(told.contains("error: `foreign`: line 1: not a result file of"), "{told}");
    let told = said(&compare(at, &["whole", "other"]), 2);
    assert!(told.contains("for different architectures, gfx1100 and gfx90a"), "{told}");
    let told = said(&compare(at, &[]), 2);
    assert!(told.contains("error: nothing to do"), "{told}");
    let told = said(&compare(at, &["whole", "--write", "foreign"]), 2);
    assert!(told.contains("error: `foreign` is there already"), "{told}");
    let told = said(&compare(at, &["whole", "whole"]), 0);
    assert!(told.contains("gfx1100 `a GPU` (a GPU), debian:7.2.4"), "{told}");
    assert!(told.contains("1 probes compared: 1 the same, 0 not"), "{told}");
}

#[test]
fn a_fault_in_one_instruction_of_a_device_is_told_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let on = ["--device", "emulated", "--gfx", "gfx1151"];
    let told = said(&compare(at, &[&["--write", "one"][..], &on].concat()), 0);
    assert!(told.contains("(the emulated device; not a GPU result)"), "{told}");
    let text = fs::read_to_string(at.join("one")).expect("it was written");
    let count = text.lines().count() - 2;
    assert!(count > 500, "{count} probes");
    // The device does the same again, whatever comes in no order.
    let told = said(&compare(at, &[&["one"][..], &on].concat()), 0);
    assert!(told.contains(" 0 not") || told.contains("promises nothing"), "{told}");
    // The last word-item of one register of one instruction.
    let is_fma = |line: &&str| line.contains("\"v_fma_f32 ") && line.contains("\"v40\"");
    let line = text.lines().find(is_fma).expect("every architecture has it");
    let (start, rest) = line.split_once("\"v40\":\"").expect("its result");
    let (words, end) = rest.split_once('"').expect("the end of it");
    let last = words.len() - 1;
    let other = if words.ends_with('0') { '1' } else { '0' };
    let planted = format!("{start}\"v40\":\"{}{other}\"{end}", &words[..last]);
    write(at, "two", &text.replace(line, &planted));
    let told = said(&compare(at, &["one", "two"]), 1);
    let differences: Vec<&str> = told.lines().filter(|line| line.starts_with("    ")).collect();
    assert_eq!(differences.len(), 1, "{told}");
    assert!(
        differences[0].contains(
            "v_fma_f32 v40, v10, v20, v30: v40 differs in 1 of 512 work-items; the first is 511"
        ),
        "{told}"
    );
}
