//! Three exported programs as a reader gets them, kept in `reports/snapshots`.
//!
//! That they compile, run and call what their trials call is shown by `rocrepro export --all --verify`.

use device::Fault;
use export::{Form, Header, print};
use plan::Version;
use rocrepro::{CaseLibrary, lower_all, select};

#[track_caller]
fn check(name: &str, trial: &str, form: Form, fault: Option<Fault>) {
    let library = CaseLibrary::load(None).expect("the library is well-formed");
    let selected = select(&library, &[trial.to_owned()]).expect("the trial is in the library");
    let lowered =
        lower_all(&library, &selected[..1], fault.map(device::Planted::from)).expect("it lowers");
    let case = selected[0].case;
    let header = Header {
        title: case.title.clone(),
        upstream: case.upstream.clone(),
        planted: fault
            .map(|f| format!("Planted in this program: {}", f.about()))
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
fn small_copies_for_hiprtc() {
    let trial = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
    check("export-small-sizes-hiprtc", trial, Form::Hiprtc, None);
}

#[test]
fn an_updated_graph_for_hipcc() {
    check("export-exec-update-hipcc", "graphs/exec-update[nodes=8]", Form::Hipcc, None);
}

#[test]
fn an_overwritten_output_as_a_planted_fault() {
    let fault = Some(Fault::GraphOverwriteOutput);
    let trial = "graphs/output-after-next-replay[words=16,clone=device]";
    check("export-overwritten-output", trial, Form::Hiprtc, fault);
}
