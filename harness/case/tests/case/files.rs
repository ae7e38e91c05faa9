//! Tests kernels in code objects, and steps with the bytes of a file.

use case::{Case, Header, Kernels, analyse, mistakes, write};

const TEXT: &str = r#"
title: A case
source: a document
faults: copy.zero
kernels:
  k: {code: one.co, kernel: _Z1kPKiPi}
  other: {code: one.co}
buffers:
  in: {on: host.pageable, bytes: 8}
  src: {on: device, bytes: 8}
  dst: {on: device, bytes: 8}
steps:
  - fill: {buffer: in, file: in.bin}
  - copy: {to: src, from: in}
  - launch: {kernel: k, args: [{input: src, offset: 4}, dst]}
  - launch: {kernel: other, args: [dst]}
  - check: {buffer: dst, file: right.bin}
"#;

fn files() -> Kernels {
    let mut kernels = Kernels::new();
    for (name, bytes) in [("one.co", 3), ("in.bin", 8), ("right.bin", 8), ("short.bin", 7)] {
        kernels.files.insert(name.to_owned(), vec![1; bytes].into());
    }
    kernels
}

#[test]
fn plans_contain_the_files_that_they_need() {
    let kernels = files();
    let case = Case::parse("a/b", TEXT).expect("a good case");
    let plan = analyse(&case, &case.trials()[0], &kernels).expect("a good trial");
    let names: Vec<_> = plan.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["in.bin", "one.co", "right.bin"]);
    let text = write(&plan, &Header::for_trial(&case, &case.trials()[0]), &kernels);
    for line in [
        "  k: {code: one.co, kernel: _Z1kPKiPi}",
        "  other: {code: one.co, kernel: other}",
        "  - fill: {buffer: in, file: in.bin}",
        "  - launch: {kernel: k, args: [{input: src, offset: 4}, dst]}",
        "  - check: {buffer: dst, file: right.bin}",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}

#[test]
fn mistakes_about_files_are_reported() {
    let check = |from: &str, to: &str, message: &str| {
        assert!(TEXT.contains(from), "{from}");
        let found = mistakes("a/b", &TEXT.replace(from, to), &files());
        let messages: Vec<_> = found.iter().map(|mistake| &mistake.message).collect();
        assert!(messages.iter().any(|found| found.contains(message)), "{to}: {messages:#?}");
    };
    assert_eq!(mistakes("a/b", TEXT, &files()), []);
    check("in.bin", "on.bin", "no file `on.bin` next to the case");
    check("{code: one.co}", "{code: two.co}", "no file `two.co` next to the case");
    check("file: in.bin", "file: short.bin", "`in` has 8 bytes, but `short.bin` has 7");
    check("file: in.bin", "file: in.bin, numbers: f32", "give `numbers` or `file`, not both");
    check(
        "{code: one.co}",
        "{code: one.co, computes: x}",
        "has `code`, so it cannot have `computes`",
    );
    check("{code: one.co}", "{kernel: x}", "needs `code`");
    check("{buffer: dst, file: right.bin}", "dst", "cannot be computed in advance");
}
