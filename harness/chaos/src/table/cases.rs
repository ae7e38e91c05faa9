//! Tests the command with malicious case files.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::{
    row::{Row, row},
    setup::{RunSetup, write_file},
};

const GOOD: &str = "\
title: A device buffer keeps what a copy put there
about: A case of the tests.
source: https://docs.example.org/
buffers:
  src: {on: host.pageable, bytes: 4}
  dst: {on: device, bytes: 4}
steps:
  - fill: src
  - copy: {to: dst, from: src}
  - check: dst
faults: [copy.zero]
";

const WORKS: &[&str] = &["pass"];
const FAILS: &[&str] = &["fail wrong-data:*"];
const REFUSED: &[&str] = &["refused"];

pub(crate) const ROWS: &[Row] = &[
    row("case/good", |s| s.case(GOOD), WORKS),
    row("case/missing", |s| s.cases_from("/nonexistent/case.yaml"), REFUSED),
    row("case/empty", |s| s.case(""), REFUSED),
    row(
        "case/bytes",
        |s| {
            let path = s.work("case.yaml", &[0xff, 0xfe, 0, 0x80]);
            s.cases_from(path)
        },
        REFUSED,
    ),
    row(
        "case/zeros",
        |s| {
            let path = s.work("case.yaml", &[0; 4096]);
            s.cases_from(path)
        },
        REFUSED,
    ),
    row("case/fifo", |s| fifo(s, false), REFUSED),
    row("case/fifo-in-a-folder", |s| fifo(s, true), REFUSED),
    row("case/dev-zero", |s| s.cases_from("/dev/zero"), REFUSED),
    row("case/dev-null", |s| s.cases_from("/dev/null"), REFUSED),
    row("case/dev-stdin", |s| s.cases_from("/dev/stdin"), REFUSED),
    row("case/link-to-dev-zero", |s| linked(s, "/dev/zero"), REFUSED),
    row("case/link-to-itself", |s| linked(s, "case.yaml"), REFUSED),
    row(
        "case/link-out-of-the-folder",
        |s| {
            good(s);
            write_file(&s.folder.join("secret.yaml"), b"secret: |\n  the password\n");
            linked(s, "../../secret.yaml")
        },
        &["refused"],
    )
    .hides(&["the password"]),
    row(
        "case/folder-that-is-a-loop",
        |s| {
            good(s);
            let _ = symlink(".", s.folder.join("work/cases/again"));
            folder(s)
        },
        REFUSED,
    ),
    row(
        "case/folder-that-leads-up",
        |s| {
            good(s);
            let _ = symlink("/", s.folder.join("work/cases/root"));
            folder(s)
        },
        REFUSED,
    ),
    row(
        "case/folder-called-yaml",
        |s| {
            good(s);
            let _ = std::fs::create_dir(s.folder.join("work/cases/x.yaml"));
            folder(s)
        },
        WORKS,
    ),
    row(
        "case/dangling-link",
        |s| {
            good(s);
            linked(s, "/nonexistent")
        },
        REFUSED,
    ),
    row(
        "case/deep-folders",
        |s| {
            let path = format!("cases/{}case.yaml", "d/".repeat(200));
            s.work(&path, GOOD.as_bytes());
            folder(s)
        },
        WORKS,
    ),
    row(
        "case/large",
        |s| {
            let text = format!("{GOOD}# {}\n", "x".repeat(64 << 20));
            s.case(&text)
        },
        REFUSED,
    ),
    row(
        "case/long-line",
        |s| {
            let text = GOOD.replace("A case of the tests.", &"x".repeat(1 << 20));
            s.case(&text)
        },
        WORKS,
    ),
    row(
        "case/deep",
        |s| {
            let text = format!("{GOOD}known: {}", "[".repeat(100_000));
            s.case(&text)
        },
        REFUSED,
    ),
    row(
        "case/deep-maps",
        |s| {
            let text = format!("{GOOD}known: {}", "{a: ".repeat(20_000));
            s.case(&text)
        },
        REFUSED,
    ),
    row("case/deep-repeats", deep_repeats, REFUSED),
    row("case/aliases-of-aliases", billion_laughs, REFUSED),
    row("case/two-documents", |s| s.case(&format!("{GOOD}---\n{GOOD}")), REFUSED),
    row(
        "case/tags",
        |s| s.case(&GOOD.replace("title: A", "title: !!python/object/apply:os.system A")),
        WORKS,
    ),
    row("case/20000-keys", |s| keys(s, 20_000), REFUSED).long(),
    row("case/20000-steps", |s| steps(s, 20_000), &["pass", "refused"]).long(),
    row(
        "case/20000-unknown-steps",
        |s| {
            let text = GOOD.replace("  - check: dst\n", &"  - chekc: dst\n".repeat(20_000));
            s.case(&text)
        },
        REFUSED,
    )
    .long(),
    row("case/axis-of-10000", |s| axis(s, 10_000), WORKS),
    row("case/axis-of-10001", |s| axis(s, 10_001), REFUSED),
    row("case/eight-axes", axes, REFUSED),
    row(
        "case/2000-files",
        |s| {
            (0..2000).for_each(|n| {
                s.work(&format!("cases/c{n}.yaml"), b"title: x\n");
            });
            folder(s)
        },
        REFUSED,
    ),
    row(
        "case/huge-buffer",
        |s| s.case(&GOOD.replace("bytes: 4", "bytes: 18446744073709551615")),
        REFUSED,
    ),
    row("case/negative-buffer", |s| s.case(&GOOD.replace("bytes: 4", "bytes: -4")), REFUSED),
    row(
        "case/large-buffer",
        |s| s.case(&GOOD.replace("bytes: 4", "bytes: 1099511627776")),
        REFUSED,
    ),
    row(
        "case/huge-repeat",
        |s| {
            s.case(&GOOD.replace(
                "  - check: dst",
                "  - repeat: {count: 18446744073709551615, steps: [{fill: src}]}\n  - check: dst",
            ))
        },
        REFUSED,
    ),
    row(
        "case/million-million-repeats",
        |s| {
            s.case(&GOOD.replace("  - check: dst", "  - repeat: {count: 1000000, steps: [{repeat: {count: 1000000, steps: [{fill: src}]}}]}\n  - check: dst"))
        },
        REFUSED,
    ),
    row(
        "case/bidi-title",
        |s| {
            failing(
                s,
                &GOOD
                    .replace("title: A", "title: \"\\u202ered\\u202c \\u2066x\\u2069 A")
                    .replace("put there", "put there\""),
            )
        },
        FAILS,
    ),
    row(
        "case/escape-title",
        |s| {
            failing(
                s,
                &GOOD
                    .replace("title: A", "title: \"\\e[2J\\e]0;owned\\a A")
                    .replace("put there", "put there\""),
            )
        },
        REFUSED,
    ),
    row(
        "case/newline-title",
        |s| {
            failing(
                s,
                &GOOD
                    .replace("title: A", "title: \"A\\nok  everything\\n")
                    .replace("put there", "put there\""),
            )
        },
        REFUSED,
    ),
    row("case/raw-escape", |s| failing(s, &GOOD.replace("A case", "A \u{1b}[31mcase")), FAILS),
    row("case/raw-bidi", |s| failing(s, &GOOD.replace("A case", "A \u{202e}case")), FAILS),
    row(
        "case/escape-in-a-mistake",
        |s| s.case(&GOOD.replace("fill: src", "\"f\\e[31m\\u202eill\": src")),
        REFUSED,
    ),
    row(
        "case/escape-in-an-axis",
        |s| s.case(&GOOD.replace("buffers:", "matrix: {\"a\\e[31m\": [1, 2]}\nbuffers:")),
        REFUSED,
    ),
    row("case/file-name-with-an-escape", |s| named(s, "a\u{1b}[31m.yaml"), REFUSED),
    row(
        "case/file-name-with-quotes",
        |s| named(s, "a'b\"c $(touch pwned) `touch pwned`.yaml"),
        WORKS,
    ),
    row("case/file-name-with-a-newline", |s| named(s, "a\nb.yaml"), REFUSED),
    row("case/file-name-with-bidi", |s| named(s, "a\u{202e}b.yaml"), REFUSED),
    row("case/file-name-like-an-option", |s| named(s, "--help.yaml"), REFUSED)
        .says(&["begins with `-`, like a command-line option"]),
    row("case/file-name-with-bytes", bytes, WORKS),
    row(
        "case/sets-the-preload",
        |s| {
            let library = s.tools.trouble.display().to_string();
            s.case(&format!("{GOOD}environment: {{LD_PRELOAD: \"{library}\", CHAOS_TROUBLE: \"touch=/pwned@body\"}}\n"))
        },
        REFUSED,
    ),
    row(
        "case/sets-the-log-file",
        |s| {
            let file = s.folder.join("work/log").display().to_string();
            s.case(&format!(
                "{GOOD}environment: {{AMD_LOG_LEVEL: \"4\", AMD_LOG_LEVEL_FILE: \"{file}\"}}\n"
            ))
        },
        REFUSED,
    ),
    row(
        "case/sets-the-library-path",
        |s| s.case(&format!("{GOOD}environment: {{LD_LIBRARY_PATH: /nonexistent}}\n")),
        REFUSED,
    ),
    row(
        "case/sets-the-device",
        |s| s.case(&format!("{GOOD}environment: {{ROCREPRO_DEVICE: '{{}}'}}\n")),
        REFUSED,
    ),
    row(
        "case/sets-a-harmless-variable",
        |s| s.case(&format!("{GOOD}environment: {{HIP_LAUNCH_BLOCKING: \"1\"}}\n")),
        &["pass"],
    ),
    row("case/kernel-includes-a-file", |s| kernel(s, "#include \"/etc/passwd\"\n"), REFUSED)
        .hides(&["root:x:"]),
    row(
        "case/kernel-embeds-a-file",
        |s| kernel(s, "static const char text[] = {\n#embed \"/etc/passwd\"\n};\n"),
        REFUSED,
    )
    .hides(&["root:x:"]),
    row(
        "case/kernel-reads-dev-zero",
        |s| {
            s.hangs();
            kernel(s, "#include \"/dev/zero\"\n")
        },
        REFUSED,
    ),
    row(
        "case/kernel-never-ends-to-compile",
        |s| {
            s.hangs();
            kernel(
                s,
                "template<int N> struct A { static constexpr int v = A<N-1>::v + A<N-2>::v; };\n#error stop\n",
            )
        },
        REFUSED,
    ),
];

fn good(setup: &mut RunSetup<'_>) {
    setup.work("cases/good.yaml", GOOD.as_bytes());
}

fn folder(setup: &mut RunSetup<'_>) {
    let path = setup.folder.join("work/cases");
    setup.cases_from(path);
}

fn fifo(setup: &mut RunSetup<'_>, beside: bool) {
    let path = setup.folder.join("work/cases/case.yaml");
    good(setup);
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        setup.impossible = Some("`mkfifo` is not installed".into());
    }
    if beside { folder(setup) } else { setup.cases_from(path) }
}

fn linked(setup: &mut RunSetup<'_>, target: &str) {
    let cases = setup.folder.join("work/cases");
    let _ = std::fs::create_dir_all(&cases);
    let _ = symlink(target, cases.join("case.yaml"));
    folder(setup);
}

fn keys(setup: &mut RunSetup<'_>, count: usize) {
    let mut text = GOOD.to_owned();
    for n in 0..count {
        let _ = writeln!(text, "unknown{n}: {n}");
    }
    setup.case(&text);
}

fn steps(setup: &mut RunSetup<'_>, count: usize) {
    let text = GOOD.replace("  - check: dst\n", &"  - copy: {to: dst, from: src}\n".repeat(count));
    setup.case(&text.replace("faults:", "  - check: dst\nfaults:").to_string());
}

fn axis(setup: &mut RunSetup<'_>, count: usize) {
    let values: Vec<String> = (1..=count).map(|n| n.to_string()).collect();
    let text = GOOD
        .replace("buffers:", &format!("matrix: {{n: [{}]}}\nbuffers:", values.join(", ")))
        .replace("bytes: 4", "bytes: $n");
    let path = setup.work("case.yaml", text.as_bytes());
    setup.cases_from(path);
    // One trial is enough to show that the file is read quickly.
    setup.more.push("case[n=7]".into());
}

fn axes(setup: &mut RunSetup<'_>) {
    let axes: String = (0..8).map(|n| format!("  a{n}: [1, 2, 3, 4, 5, 6, 7, 8, 9]\n")).collect();
    setup.case(&GOOD.replace("buffers:", &format!("matrix:\n{axes}buffers:")));
}

fn deep_repeats(setup: &mut RunSetup<'_>) {
    let depth = 5000;
    let text = format!(
        "{}{{fill: src}}{}",
        "{repeat: {count: 1, steps: [".repeat(depth),
        "]}}".repeat(depth)
    );
    setup.case(&GOOD.replace("  - check: dst", &format!("  - {text}\n  - check: dst")));
}

fn billion_laughs(setup: &mut RunSetup<'_>) {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let _ = writeln!(text, "a{n}: &a{n} [{}]", vec![format!("*a{}", n - 1); 9].join(", "));
    }
    setup.case(&format!("{text}{GOOD}"));
}

/// Runs a case with an injected fault. Because the case fails, the command prints the case's title, description and
/// other strings.
fn failing(setup: &mut RunSetup<'_>, text: &str) {
    setup.case(text);
    setup.option("--fault", "copy.zero");
}

fn named(setup: &mut RunSetup<'_>, name: &str) {
    setup.work(&format!("cases/{name}"), GOOD.as_bytes());
    folder(setup);
}

fn bytes(setup: &mut RunSetup<'_>) {
    use std::os::unix::ffi::OsStringExt;
    let name = std::ffi::OsString::from_vec(b"a\xff\xfe.yaml".to_vec());
    write_file(&setup.folder.join("work/cases").join(PathBuf::from(name)), GOOD.as_bytes());
    folder(setup);
}

fn kernel(setup: &mut RunSetup<'_>, prologue: &str) {
    let source = format!(
        "{prologue}extern \"C\" __global__ void own(float* out, unsigned n) {{ if (n > 7) out[0] = 1; }}\n"
    );
    setup.work("cases/own.hip", source.as_bytes());
    let launch = "  - launch: {kernel: own, items: 1, args: [dst, 1]}\n  - check: dst";
    let text = GOOD.replace("  - check: dst", launch);
    setup.work("cases/case.yaml", text.as_bytes());
    folder(setup);
}
