//! Tests of `case new`, which makes a case from a reproducer, and of case files in place of the names of cases.

use std::{fs, path::Path, process::Output};

use crate::common::{output_text, rocrepro};

const COPY: &str = "\
// A copy of 63 bytes keeps the last one
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
int main() {
  std::vector<unsigned char> in(63, 7), out(63);
  void *p;
  if (hipMalloc(&p, 63) != hipSuccess) return 2;
  (void)hipMemcpy(p, in.data(), 63, hipMemcpyHostToDevice);
  (void)hipMemcpy(out.data(), p, 63, hipMemcpyDeviceToHost);
  puts(in == out ? \"PASS\" : \"FAIL\");
  return in == out ? 0 : 1;
}
";

const SCALE: &str = "\
#include <hip/hip_runtime.h>
__global__ void scale(float *x, float f) { x[threadIdx.x] *= f; }
int main() {
  float *x;
  if (hipMallocManaged(&x, 256) != hipSuccess) return 2;
  for (int i = 0; i < 64; i++) x[i] = i + 1;  // costs $5
  scale<<<1, 64>>>(x, 2.0f);
  (void)hipDeviceSynchronize();
  for (int i = 0; i < 64; i++) if (x[i] != 2.0f * (i + 1)) return 1;
}
";

const COUNT: &str = "\
import ctypes
hip, n = ctypes.CDLL(\"libamdhip64.so\"), ctypes.c_int()
assert hip.hipGetDeviceCount(ctypes.byref(n)) == 0
assert n.value == 2, n.value
";

fn here(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = rocrepro(arguments);
    command.current_dir(folder).env("ROCREPRO_DEVICE_KIND", "emulated");
    command.output().expect("it starts")
}

#[test]
fn reproducer_becomes_a_case_that_is_run_and_proven() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, text) in [("copy.cpp", COPY), ("scale.hip", SCALE)] {
        fs::write(folder.path().join(file), text).expect("a file");
        let made = here(folder.path(), &["case", "new", file]);
        let said = output_text(&made);
        assert_eq!(made.status.code(), Some(0), "{said}");
        assert!(said.contains("1 trial of 1 case: 1 passed"), "{said}");
        let case = file.split('.').next().expect("a stem").to_owned() + ".yaml";
        assert!(said.contains(&format!("rocrepro prove {case} --trust")), "{said}");
        let proven = here(folder.path(), &["prove", &case, "--trust"]);
        assert_eq!(proven.status.code(), Some(0), "{}", output_text(&proven));
        assert!(output_text(&proven).contains("1 of 1 injected fault detected"));
    }
}

#[test]
fn program_that_hangs_is_given_up_after_the_timeout() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("loop.py"), "print(\"a\\nb\")\nwhile True: pass\n")
        .expect("a file");
    let made = here(folder.path(), &["case", "new", "loop.py", "--timeout", "2"]);
    let said = output_text(&made);
    assert!(said.contains("was killed at the time limit (2."), "{said}");
    assert!(said.contains("rocrepro report loop.yaml --trust"), "{said}");
    assert!(said.contains("--timeout 2"), "{said}");
}

#[test]
fn output_of_a_program_that_fails_is_shown_and_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = COPY
        .replace("// A copy of 63 bytes", "// A copy of 63 bytes (ROCm/hip#13)")
        .replace("puts(in == out ? \"PASS\" : \"FAIL\");", "puts(\"in: 7\\nout: 7\");")
        .replace("return in == out ? 0 : 1;", "return 1;");
    for file in ["copy.cc", "other.hip"] {
        fs::write(folder.path().join(file), &text).expect("a file");
        let said = output_text(&here(folder.path(), &["case", "new", file]));
        let lines: Vec<_> = said.lines().map(str::trim).collect();
        let shown = ["Last lines of standard output:", "in: 7", "out: 7"];
        assert!(lines.windows(3).any(|lines| lines == shown), "{said}");
        assert!(said.contains("https://github.com/ROCm/hip/issues/13"), "{said}");
    }
    let case = fs::read_to_string(folder.path().join("copy.yaml")).expect("a case");
    assert!(case.contains("upstream: [\"ROCm/hip#13\"]\n"), "{case}");
    assert!(case.contains("  cpp: copy.cc\n"), "{case}");
    let run = here(folder.path(), &["run", "copy.yaml", "--trust", "--record", "records.jsonl"]);
    let records = fs::read_to_string(folder.path().join("records.jsonl"));
    let records = records.unwrap_or_else(|error| panic!("{error}: {}", output_text(&run)));
    assert!(records.contains(r#""stdout_tail":"in: 7\nout: 7""#), "{records}");
    // A folder of cases may have programs and kernels with the same extension.
    let checked = here(folder.path(), &["case", "check", "--cases-from", ".", "--trust"]);
    assert!(output_text(&checked).contains("2 cases are well-formed"), "{}", output_text(&checked));
}

#[test]
fn reproducer_that_fails_is_reported_with_the_next_command() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("count.py"), COUNT).expect("a file");
    let made = here(folder.path(), &["case", "new", "count.py"]);
    let said = output_text(&made);
    assert_eq!(made.status.code(), Some(1), "{said}");
    assert!(said.contains("AssertionError: 1"), "{said}");
    assert!(said.contains("if it fails      rocrepro report count.yaml --trust"), "{said}");
    let again = here(folder.path(), &["case", "new", "count.py"]);
    assert!(output_text(&again).contains("has the same content"), "{}", output_text(&again));
    assert_eq!(again.status.code(), Some(1));
    let edited =
        fs::read_to_string(folder.path().join("count.yaml")).expect("the case") + "# mine\n";
    fs::write(folder.path().join("count.yaml"), &edited).expect("a file");
    let again = here(folder.path(), &["case", "new", "count.py"]);
    assert_eq!(again.status.code(), Some(2), "{}", output_text(&again));
    assert!(output_text(&again).contains("name another file with --out"));
    assert_eq!(fs::read_to_string(folder.path().join("count.yaml")).expect("the case"), edited);
    let other = here(folder.path(), &["case", "new", "count.rb"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(output_text(&other).contains("neither C++"), "{}", output_text(&other));
}

#[test]
fn case_file_is_named_like_a_case() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = "title: A set of bytes\nsource: a document\nmatrix: {n: [1, 2]}\nbuffers: {a: {on: device, bytes: 64}}\n\
                steps: [{set: {to: a, value: $n}}, {check: a}]\nfaults: copy.zero\n";
    fs::write(folder.path().join("sets.yaml"), case).expect("a file");
    let checked = here(folder.path(), &["case", "check", "sets.yaml"]);
    assert_eq!(checked.status.code(), Some(0), "{}", output_text(&checked));
    assert!(output_text(&checked).contains("1 case is well-formed: 2 trials"));
    let listed = here(folder.path(), &["case", "list", "sets.yaml[n=2]", "--trials"]);
    assert!(output_text(&listed).contains("sets[n=2]"), "{}", output_text(&listed));
    assert!(!output_text(&listed).contains("sets[n=1]"), "{}", output_text(&listed));
    for wrong in [["case", "check", "--trust"], ["case", "check", "missing.yaml"]] {
        let refused = here(folder.path(), &wrong);
        assert_eq!(refused.status.code(), Some(2), "{}", output_text(&refused));
    }
}

#[test]
fn case_with_a_mistake_does_not_keep_the_others_from_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = |value: &str| {
        format!(
            "title: A set of bytes\nsource: a document\nbuffers: {{a: {{on: device, bytes: 64}}}}\n\
             steps: [{{set: {{to: a, value: {value}}}}}, {{check: a}}]\nfaults: copy.zero\n"
        )
    };
    fs::write(folder.path().join("good.yaml"), case("1")).expect("a file");
    fs::write(folder.path().join("large.yaml"), case("256")).expect("a file");
    fs::write(folder.path().join("broken.yaml"), "title: [").expect("a file");
    let run = here(folder.path(), &["run", "--cases-from", "."]);
    let said = output_text(&run);
    assert_eq!(run.status.code(), Some(2), "{said}");
    for part in [
        "`value` must be a byte, 0 to 255",
        "error: not YAML",
        "1 trial of 1 case: 1 passed",
        "error: 2 cases did not run, because of the mistakes shown first",
    ] {
        assert!(said.contains(part), "`{part}` in\n{said}");
    }
    fs::remove_file(folder.path().join("good.yaml")).expect("it is there");
    let run = here(folder.path(), &["run", "--cases-from", "."]);
    assert_eq!(run.status.code(), Some(2), "{}", output_text(&run));
    assert!(!output_text(&run).contains("did not run"), "{}", output_text(&run));
}
