//! Compares three exported programs with copies stored in `reports/snapshots`.
//!
//! `rocrepro export --all --verify` checks that exported programs compile, run and make the calls of their trials.

use device::Fault;
use export::{Form, Header, print};
use plan::Version;
use report::issue::{Identity, Syntax, redact_program};
use rocrepro::{CaseLibrary, lower_all, select};

#[track_caller]
fn check(name: &str, trial: &str, form: Form, fault: Option<Fault>) {
    let library = CaseLibrary::load(None).expect("the library is well-formed");
    let selected = select(&library, &[trial.to_owned()]).expect("the trial is in the library");
    let lowered =
        lower_all(&library, &selected[..1], fault.map(device::FaultSpec::from)).expect("it lowers");
    let case = selected[0].case;
    let header = Header {
        title: case.title.clone(),
        upstream: case.upstream.clone(),
        faults: fault
            .map(|f| format!("Injected into this program: {}", f.about()))
            .into_iter()
            .collect(),
        gfx: "gfx1151".to_owned(),
        ..Header::default()
    };
    let text = print(&lowered[0].plan, form, &Version::new(7, 2, 4), &header).expect("it prints");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../reports/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn prints_small_copies_for_hiprtc() {
    let trial = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
    check("export-small-sizes-hiprtc", trial, Form::Hiprtc, None);
}

#[test]
fn prints_an_updated_graph_for_hipcc() {
    check("export-exec-update-hipcc", "graphs/exec-update[nodes=8]", Form::Hipcc, None);
}

#[test]
fn prints_an_injected_fault() {
    let fault = Some(Fault::GraphOverwriteOutput);
    let trial = "graphs/output-after-next-replay[words=16,clone=device]";
    check("export-overwritten-output", trial, Form::Hiprtc, fault);
}

/// A word that was replaced by mistake would change the program, or keep it from being compiled.
#[test]
fn redaction_leaves_programs_of_the_library_unchanged() {
    let library = CaseLibrary::load(None).expect("the library is well-formed");
    let mut selected = select(&library, &["copies".into(), "graphs".into()]).expect("families");
    selected.dedup_by(|next, first| next.case.id == first.case.id);
    let lowered = lower_all(&library, &selected, Vec::new()).expect("it lowers");
    let programs = lowered.iter().filter_map(|trial| {
        print(&trial.plan, Form::Hiprtc, &Version::new(7, 2, 4), &Header::default()).ok()
    });
    let mut count = 0;
    for program in programs {
        assert_eq!(redact_program(&program, Syntax::Cpp, &Identity::default()), program);
        count += 1;
    }
    assert!(count > 40, "{count}");
}

#[test]
fn escapes_text_of_a_case_in_its_program() {
    let evil = r#"x", f(), "%s"#;
    let text = format!(
        "title: t\nsource: s\nfaults: copy.zero\nkernels:\n  own:\n    source: 'extern \"C\" __global__ void own(unsigned *out) {{}}'\n    \
         options: ['{evil}']\nbuffers:\n  b: {{on: device, bytes: 64, fill: zero}}\nsteps:\n  - launch: {{kernel: own, args: [b], items: 1}}\n  \
         - sync: device\n  - find_symbol: {{kernel: own, symbol: '{evil}'}}\n    returns: hipErrorNotFound\n  \
         - hip: {{call: hipGetErrorName, args: [1]}}\n    gives: '{evil}'\n"
    );
    let case = case::Case::parse("a/b", &text).unwrap_or_else(|m| panic!("{m:#?}"));
    let plan = case::analyse(&case, &case.trials()[0], &case::Kernels::new())
        .unwrap_or_else(|m| panic!("{m:#?}"));
    let program = print(&plan, Form::Hiprtc, &Version::new(7, 2, 4), &Header::default())
        .expect("it can be printed");
    assert_eq!(program.matches(r#"x\", f(), \"%s""#).count(), 4, "{program}");
    assert!(!program.contains(r#"x", f()"#), "{program}");
}
