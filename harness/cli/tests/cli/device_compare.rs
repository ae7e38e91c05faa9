//! Tests `rocrepro device compare`, which writes the results of a device to a file and compares such files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::output_text;

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
    let said = output_text(output);
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
fn rejects_files_that_cannot_be_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let whole = format!(
        "{HEADER}\n{{\"probe\":\"s_add_u32\",\"results\":{{\"s40\":\"00000001\"}}}}\n{{\"end\":1}}\n"
    );
    write(at, "whole", &whole);
    write(at, "cut", &whole[..HEADER.len() + 20]);
    write(at, "foreign", "<xml/>\n");
    write(at, "other", &whole.replace("gfx1100", "gfx90a:sramecc+:xnack-"));
    let printed = said(&compare(at, &["cut", "foreign"]), 2);
    assert!(printed.contains("error: `cut`: line 2: EOF while parsing"), "{printed}");
    assert!(
        printed.contains("error: `cut`: line 2: the file is cut off: its end is missing"),
        "{printed}"
    );
    assert!(printed.contains("error: `foreign`: line 1: not a result file of"), "{printed}");
    let printed = said(&compare(at, &["whole", "other"]), 2);
    assert!(printed.contains("for different architectures, gfx1100 and gfx90a"), "{printed}");
    let printed = said(&compare(at, &[]), 2);
    assert!(printed.contains("error: nothing to compare"), "{printed}");
    let printed = said(&compare(at, &["whole", "--write", "foreign"]), 2);
    assert!(
        printed.contains("error: `foreign` already exists; choose another file name"),
        "{printed}"
    );
    let printed = said(&compare(at, &["whole", "whole"]), 0);
    assert!(printed.contains("gfx1100 `a GPU` (a GPU), debian:7.2.4"), "{printed}");
    assert!(printed.contains("1 results compared: 1 equal, 0 different"), "{printed}");
}

#[test]
fn names_the_instruction_whose_result_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let on = ["--device", "emulated", "--gfx", "gfx1151"];
    let printed = said(&compare(at, &[&["--write", "one"][..], &on].concat()), 0);
    assert!(printed.contains("(the emulated device; not a GPU result)"), "{printed}");
    let text = fs::read_to_string(at.join("one")).expect("it was written");
    let count = text.lines().count() - 2;
    assert!(count > 500, "{count} probes");
    // A second run on the device has equal results, except where the order of operations is undefined.
    let printed = said(&compare(at, &[&["one"][..], &on].concat()), 0);
    assert!(
        printed.contains(" 0 different") || printed.contains("not specified for hardware"),
        "{printed}"
    );
    let is_fma = |line: &&str| line.contains("\"v_fma_f32 ") && line.contains("\"v40\"");
    let line = text.lines().find(is_fma).expect("every architecture has it");
    let (start, rest) = line.split_once("\"v40\":\"").expect("its result");
    let (words, end) = rest.split_once('"').expect("the end of it");
    let last = words.len() - 1;
    let other = if words.ends_with('0') { '1' } else { '0' };
    let planted = format!("{start}\"v40\":\"{}{other}\"{end}", &words[..last]);
    write(at, "two", &text.replace(line, &planted));
    let printed = said(&compare(at, &["one", "two"]), 1);
    let differences: Vec<&str> = printed.lines().filter(|line| line.starts_with("    ")).collect();
    assert_eq!(differences.len(), 1, "{printed}");
    assert!(
        differences[0].contains(
            "v_fma_f32 v40, v10, v20, v30: v40 differs in 1 of 512 work-items; the first is 511"
        ),
        "{printed}"
    );
}
