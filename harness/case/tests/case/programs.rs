//! Tests of cases whose body is a program: reading, and messages for mistakes.

use case::{Body, Case, Kernels, lower, mistakes};
use plan::{
    Program,
    program::{Packages, ProgramBody},
};

const HEAD: &str = "title: A program\nsource: [this test]\nfaults: [copy.zero]\n";

#[track_caller]
fn program(text: &str) -> Program {
    let text = format!("{HEAD}{text}");
    let case = Case::parse("a/b", &text).unwrap_or_else(|m| panic!("{m:#?}"));
    let lowered = lower(&case, &case.trials()[0], &Kernels::new(), &[]);
    match lowered.unwrap_or_else(|m| panic!("{m:#?}")).body {
        Body::Program(program) => *program,
        Body::Calls(_) => panic!("it has steps"),
    }
}

fn messages(text: &str) -> Vec<String> {
    let found = mistakes("a/b", &format!("{HEAD}{text}"), &Kernels::new());
    found.iter().map(|m| format!("{}:{} {}", m.at.line, m.at.column, m.message)).collect()
}

#[test]
fn program_is_read_with_the_values_of_its_trial() {
    let read = program(
        "matrix: {n: [3, 4]}\nneeds: {with: [dev, rocblas]}\nprogram:\n  python: |\n    import rocrepro\n    \
         rocrepro.equal('n', $n, 3)\n  packages: [numpy, triton==3.9.0]\n  args: [-v, $n]\n  exit: 2\n  says: right\n",
    );
    let ProgramBody::Python(source) = &read.what else { panic!("{read:?}") };
    assert_eq!(source.text, "import rocrepro\nrocrepro.equal('n', 3, 3)\n");
    // Line 1 of the program is line 8 of the case file.
    assert_eq!((source.above, read.line), (7, 6));
    assert_eq!(read.packages, Packages::These(vec!["numpy".into(), "triton==3.9.0".into()]));
    assert_eq!(read.arguments, ["-v", "3"]);
    assert_eq!(read.groups, ["dev", "rocblas"]);
    assert_eq!(read.parameters["n"], "3");
    assert_eq!((read.stated.exit, read.stated.says), (Some(2), vec!["right".to_owned()]));
}

#[test]
fn program_may_be_in_a_file_of_its_own() {
    let text = format!("{HEAD}program: {{cpp: sum.cpp, arch: gfx90a, options: [-O1]}}\n");
    let mut case = Case::parse("a/b", &text).unwrap();
    assert_eq!(case.program_file().as_deref(), Some("sum.cpp"));
    let trial = &case.trials()[0];
    case.set_program_text(None);
    let absent = lower(&case, trial, &Kernels::new(), &[]).unwrap_err();
    assert_eq!(absent[0].message, "file `sum.cpp` not found in the folder of the case");
    assert_eq!((absent[0].at.line, absent[0].at.column), (4, 16));
    case.set_program_text(Some("#include \"rocrepro.h\"\nrocrepro::equal( done()".to_owned()));
    let Body::Program(read) = lower(&case, trial, &Kernels::new(), &[]).unwrap().body else {
        panic!("it has steps");
    };
    let ProgramBody::Cpp { source, arch, options } = &read.what else { panic!("{read:?}") };
    assert_eq!(source.file.as_deref(), Some("sum.cpp"));
    assert_eq!(
        (arch.as_slice(), options.as_slice()),
        (&["gfx90a".to_owned()][..], &["-O1".to_owned()][..])
    );
}

#[test]
fn mistakes_are_reported_at_their_position() {
    let check = |text: &str, expected: &[&str]| assert_eq!(messages(text), expected, "{text}");
    check("program: {command: [true], says: x}\n", &[]);
    check(
        "program: {command: [true]}\n",
        &["4:1 the program has no check and no expected output, so it proves nothing"],
    );
    check(
        "program: {python: 'print(1)'}\n",
        &["4:1 the program has no check and no expected output, so it proves nothing"],
    );
    // Importing the helper does not count as a check.
    check(
        "program:\n  python: |\n    import rocrepro\n    rocrepro.done()\n",
        &["4:1 the program has no check and no expected output, so it proves nothing"],
    );
    check("program: {says: x}\n", &["4:1 `program` does not define a program"]);
    check(
        "program: {command: [true], pyhton: x, says: x}\n",
        &["4:20 a program is `python` or `command`, not both", "4:28 `program` has no `pyhton`"],
    );
    check(
        "program: {command: [true], cpp: x, says: x}\n",
        &["4:20 a program is `cpp` or `command`, not both"],
    );
    check(
        "program: {command: [true], arch: gfx90a, options: [-O1], says: x, exit: 300}\n",
        &[
            "4:34 `arch` is only for `cpp`",
            "4:51 `options` is only for `cpp`",
            "4:73 an exit status is at most 255",
        ],
    );
    check(
        "program: {command: [true], env: a, packages: ['b c'], says: x}\n",
        &["4:46 give `env` or `packages`, not both"],
    );
    check(
        "program: {command: [true], packages: ['b c'], says: x}\n",
        &["4:39 `b c` is not a package"],
    );
    check(
        "buffers: {}\nsteps: []\nprogram: {command: [true], says: x}\n",
        &[
            "4:1 a case with a `program` cannot have `buffers`",
            "5:1 a case with a `program` cannot have `steps`",
        ],
    );
    check(
        "needs: {with: cuppy}\nprogram: {command: [true], says: $y}\n",
        &["4:15 a package group of a stack cannot be `cuppy`", "5:34 the matrix has no axis `y`"],
    );
    check(
        "known: [{rocm: '*', signature: 'wrong:a'}]\nprogram: {command: [true], says: x}\n",
        &["4:32 unknown kind of failure `wrong`"],
    );
    let call = format!("{HEAD}program: {{command: [true], says: x}}\n")
        .replace("copy.zero", "graph.launch-lost");
    let found = mistakes("a/b", &call, &Kernels::new());
    assert_eq!((found[0].at.line, found[0].at.column), (3, 10));
    assert!(found[0].message.contains("a program takes faults of the device"), "{found:?}");
    let cpp = |fault: &str| {
        let text = format!("{HEAD}program: {{cpp: 'rocrepro.h equal(1, 1) done()'}}\n")
            .replace("copy.zero", fault);
        mistakes("a/b", &text, &Kernels::new())
            .iter()
            .map(|m| m.message.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(cpp("{fault: call.refused, with: {call: hipMalloc}}"), [""; 0]);
    assert!(cpp("call.accepted")[0].contains("only into a case with steps"));
    let unknown = cpp("{fault: call.refused, with: {call: hipMaloc, status: hipErrorNotReddy}}");
    assert!(unknown[0].contains("write hipMalloc, "), "{unknown:?}");
    assert!(unknown[1].contains("write hipErrorNotReady, "), "{unknown:?}");
    let python = call.replace("graph.launch-lost", "call.crash");
    assert!(!mistakes("a/b", &python, &Kernels::new()).is_empty());
    let plan = "needs: {with: dev}\nsteps: [{sync: device}]\n";
    assert!(
        messages(plan).iter().any(|m| m.contains("is only for programs")),
        "{:?}",
        messages(plan)
    );
    let leak = "{fault: call.leak, with: {call: hipMemcpy}}";
    assert_eq!(cpp(leak), [""; 0]);
    let plan = format!("{HEAD}steps: [{{sync: device}}]\n").replace("copy.zero", leak);
    let mistakes = mistakes("a/b", &plan, &Kernels::new());
    assert!(mistakes.iter().any(|m| m.message.contains("only a C++ program can")), "{mistakes:?}");
}

#[test]
fn untrusted_program_is_rejected_as_a_whole() {
    let text = format!("{HEAD}program: {{command: [true], says: x}}\n");
    let case = Case::parse("a/b", &text).unwrap();
    let found = case::forbidden_parts(&case);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].at.line, found[0].at.column), (4, 1));
}

#[test]
fn doubled_dollar_is_a_dollar() {
    let read = program(
        "matrix: {n: [3]}\nprogram: {command: [sh, -c, 'echo $$HOME $n $$$n $$'], exit: 0}\n",
    );
    assert_eq!(
        read.what,
        ProgramBody::Command(["sh", "-c", "echo $HOME 3 $3 $"].map(Into::into).into())
    );
}

#[test]
fn program_cannot_have_the_name_of_the_helper() {
    let text = format!("{HEAD}program: {{python: rocrepro.py}}\n");
    let mut case = Case::parse("a/b", &text).unwrap();
    case.set_program_text(Some("import rocrepro\nrocrepro.equal(".to_owned()));
    let found = lower(&case, &case.trials()[0], &Kernels::new(), &[]).unwrap_err();
    assert_eq!((found[0].at.line, found[0].at.column), (4, 19));
    assert!(found[0].message.contains("the program would import itself"), "{}", found[0].message);
}
