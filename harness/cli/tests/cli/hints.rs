//! Tests of the hints that commands give for mistakes on the command line, in cases and in programs.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Output};

use crate::common::{CASE, output_text, rocrepro};

const ON: [&str; 4] = ["--rocm", "debian:7.2.4", "--device", "emulated"];

fn here(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = rocrepro(arguments);
    command.current_dir(folder).envs(variables.iter().copied()).output().expect("it starts")
}

#[track_caller]
fn check(output: &Output, code: i32, expected: &[&str]) -> String {
    let shown = output_text(output);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    for text in expected {
        assert!(shown.contains(text), "no {text:?}: {shown}");
    }
    shown
}

#[test]
fn words_that_a_command_does_not_take_have_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("c.yaml", CASE);
    write("product.hip", "int main() {}");
    write("train.py", "print(1)");
    write("product", "#!/bin/sh\n");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path().join("product"), executable).expect("it is ours");
    let commas = "separate several values of an option with commas";
    let rows: &[(&[&str], &[&str])] = &[
        (&["exec", "product.hip"], &["it is source code", "`rocrepro case new product.hip`"]),
        (&["exec", "./train.py"], &["start it with `python3 ./train.py`"]),
        (&["report", "--", "./product.hip"], &["`rocrepro case new ./product.hip`"]),
        (
            &["bisect", "--good", "6.4.3", "--bad", "7.2.4", "--", "./train.py"],
            &["start it with `python3 ./train.py`"],
        ),
        (&["run", "./product"], &["it is a program; `rocrepro exec ./product` runs it"]),
        (&["report", "product"], &["`rocrepro report -- ./product` reports its failure"]),
        (
            &["run", "c.yaml", "--fault", "copy.zero", "probability=0.5"],
            &["but `probability=0.5` is given too", commas],
        ),
        (
            &["matrix", "c.yaml", "--rocm", "debian:7.2.4", "debian:6.4.3", "--out", "m"],
            &["but `debian:6.4.3` is given too", commas],
        ),
        (
            &["prove", "c.yaml", "--fault", "copy.zero"],
            &["add the fault under `faults` of the case"],
        ),
        (&["case", "new", "product.hip", "64"], &["`args` under `program`"]),
        (&["case", "check", "."], &["it is a folder; `--cases-from .` reads the cases in it"]),
    ];
    for (arguments, expected) in rows {
        let shown = check(&here(folder.path(), arguments, &[]), 2, expected);
        assert!(!shown.contains("tip:"), "{shown}");
    }
}

/// A case that fails in its only trial: the free returns hipSuccess.
const FAILS: &str = "\
title: A case
source: [this test]
buffers:
  p: {on: device, bytes: 64}
steps:
  - free: p
    returns: hipErrorInvalidValue
faults: [call.hang]
known:
  - {rocm: \"<7.2.4\", signature: \"api-error:hipFree:hipSuccess\", upstream: ROCm/ROCm#6602}
";

#[test]
fn variables_and_expected_failures_that_do_not_apply_have_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let hidden = format!("{CASE}environment: {{HIP_VISIBLE_DEVICES: \"1\"}}\n");
    let renamed = format!("{CASE}environment: {{HSA_OVERRIDE_GFX_VERSION: 11.0.0}}\n");
    let cases =
        [("c", CASE), ("hidden", hidden.as_str()), ("renamed", renamed.as_str()), ("fails", FAILS)];
    for (name, text) in cases {
        fs::write(folder.path().join(format!("{name}.yaml")), text).expect("a file");
    }
    let no_effect = "`HSA_OVERRIDE_GFX_VERSION` has no effect on the emulated device; use `--gfx`";
    let rows: &[(&str, &[&str], i32, &[&str])] = &[
        ("hidden.yaml", &[], 3, &["the case sets HIP_VISIBLE_DEVICES=1, and with it the HIP"]),
        (
            "c.yaml",
            &["--env", "CUDA_VISIBLE_DEVICES=7"],
            3,
            &["`--env` sets CUDA_VISIBLE_DEVICES=7"],
        ),
        ("renamed.yaml", &[], 0, &[no_effect]),
        ("c.yaml", &["--env", "HSA_OVERRIDE_GFX_VERSION=11.0.0"], 0, &[no_effect]),
        (
            "fails.yaml",
            &[],
            1,
            &["Hint: an entry of `known` has this signature, but is for `rocm: \"<7.2.4\"`"],
        ),
        (
            "c.yaml",
            &["--rocm", "debian:5.2.3", "--gfx", "gfx1151"],
            3,
            &["does not know gfx1151; choose with `--gfx`", "gfx90a"],
        ),
    ];
    for (file, more, code, expected) in rows {
        let on = if more.contains(&"--rocm") { &ON[2..] } else { &ON };
        let output = here(folder.path(), &[&["run", file], *more, on].concat(), &[]);
        let shown = check(&output, *code, expected);
        assert!(!shown.contains("not passed on"), "{shown}");
    }
    let variables = [("AMD_LOG_LEVEL", "4"), ("HIP_VISIBLE_DEVICES", "7")];
    let dropped = ["`AMD_LOG_LEVEL`, `HIP_VISIBLE_DEVICES` of this shell are not passed on"];
    check(&here(folder.path(), &[&["run", "c.yaml"], &ON[..]].concat(), &variables), 0, &dropped);
    let exec = [&["exec"], &ON[..], &["--", "true"]].concat();
    check(&here(folder.path(), &exec, &variables), 0, &dropped);
    assert_eq!(output_text(&here(folder.path(), &exec, &[])), "");
}

/// Crashes in hipLaunchKernel, as a program without code for the device does.
#[test]
fn program_without_code_for_the_device_has_a_hint_in_exec() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "#include <hip/hip_runtime.h>\n__global__ void one(int *p) { *p = 1; }\n\
                int main() { int *p; if (hipMalloc(&p, 4)) return 2; one<<<1, 1>>>(p); return 0; }\n";
    fs::write(folder.path().join("a.cpp"), text).expect("a file");
    let compile = ["--with", "dev", "--", "hipcc", "--offload-arch=gfx90a", "a.cpp", "-o", "a"];
    check(&here(folder.path(), &[&["exec"], &ON[..], &compile].concat(), &[]), 0, &[]);
    let shown = output_text(&here(folder.path(), &[&["exec"], &ON[..], &["./a"]].concat(), &[]));
    let hint = "rocrepro:   hint: the program has code for gfx90a only, and the device is gfx1151";
    assert!(
        shown.contains("died of SIGSEGV in hipLaunchKernel") && shown.contains(hint),
        "{shown}"
    );
}

/// A program whose kernel adds one. `ARCH` and `END` are replaced.
const PROGRAM: &str = "\
title: The kernel adds one
source: [this test]
needs: {with: dev}
program:
  arch: ARCH
  cpp: |
    #include \"rocrepro.h\"
    #include <vector>
    __global__ void one(int *p) { p[threadIdx.x] += 1; }
    int main() {
      std::vector<int> host(64, 5), right(64, 6);
      int *p;
      rocrepro::must(hipMalloc(&p, 256));
      rocrepro::must(hipMemcpy(p, host.data(), 256, hipMemcpyHostToDevice));
      one<<<1, 64>>>(p);
      rocrepro::must(hipMemcpy(host.data(), p, 256, hipMemcpyDeviceToHost));
      rocrepro::equal(\"sum\", host, right);
      END
    }
faults: [copy.zero]
";

#[test]
fn mistakes_in_programs_have_a_hint_and_keep_their_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = [
        (
            "gfx90a",
            "return rocrepro::done();",
            "Hint: the program has code for gfx90a only, and the device is gfx1151",
        ),
        ("gfx1151", "return 0;", "Hint: the program does not call `done()`"),
    ];
    for (number, (arch, end, hint)) in rows.into_iter().enumerate() {
        let name = format!("c{number}.yaml");
        let text = PROGRAM.replace("ARCH", arch).replace("END", end);
        fs::write(folder.path().join(&name), text).expect("a file");
        let output = here(folder.path(), &[&["run", &name, "--trust"], &ON[..]].concat(), &[]);
        check(&output, 1, &[hint]);
    }
}
