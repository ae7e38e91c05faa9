use std::{collections::BTreeMap, path::Path};

use case::{Case, Header, Kernels, lower, write};
use plan::Plan;
use search::reduce::EditTree;

use super::*;

fn texts(folder: &Path, ending: &str, prefix: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder is part of the project") {
        let path = entry.expect("readable").path();
        let name = path.file_stem().expect("has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(texts(&path, ending, &format!("{prefix}{name}/")));
        } else if path.extension().is_some_and(|e| e == ending) {
            found.insert(format!("{prefix}{name}"), std::fs::read_to_string(&path).expect("text"));
        }
    }
    found
}

fn library() -> (Vec<Case>, Kernels) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cases = texts(&root.join("cases"), "yaml", "");
    let cases = cases.iter().map(|(id, text)| Case::parse(id, text).expect("a good case"));
    let kernels = texts(&root.join("kernels"), "hip", "");
    (cases.filter(|case| !case.is_program()).collect(), kernels.into_iter().collect())
}

fn leaves(tree: &EditTree<Edit>) -> Vec<Edit> {
    match tree {
        EditTree::Edit(levels) => levels.clone(),
        EditTree::Halves(all) | EditTree::Each(all) | EditTree::Turn(all) => {
            all.iter().flat_map(leaves).collect()
        }
    }
}

/// Writes an edited plan as a case and lowers the case. Returns the first mistake if the case is invalid.
fn again(plan: &Plan, kernels: &Kernels) -> Result<Plan, String> {
    let header = Header {
        title: "edited".into(),
        source: vec!["a test".into()],
        faults: vec![case::FaultEntry {
            planted: device::Fault::CopyZero.into(),
            on: Default::default(),
            signature: None,
            shows: Vec::new(),
        }],
        ..Header::default()
    };
    let text = write(plan, &header, kernels);
    let first = |mistakes: Vec<case::Diagnostic>| format!("{}\n{text}", mistakes[0].message);
    let case = Case::parse("edited", &text).map_err(first)?;
    Ok(lower(&case, &case.trials()[0], kernels, &[]).map_err(first)?.plan)
}

#[test]
fn every_edit_results_in_a_case_or_a_mistake() {
    let (cases, kernels) = library();
    for case in cases {
        let trial = &case.trials()[0];
        let plan = lower(&case, trial, &kernels, &[]).expect("a good trial").plan;
        let check = calls(&plan.body).last().map(|s| s.id);
        let edits = leaves(&reductions(&plan, check));
        // For cases with thousands of steps, only some edits are tested, because testing all of them takes quadratic
        // time.
        let some = edits.iter().step_by(1 + edits.len() / 100);
        let mut good = 0;
        for edit in some {
            let smaller = apply(&plan, std::slice::from_ref(edit));
            let twice = apply(&smaller, std::slice::from_ref(edit)) == smaller;
            assert!(twice, "{}: {edit:?} goes on and on", case.id);
            let (what, _) = describe(&plan, edit);
            assert!(!what.is_empty(), "{}: {edit:?} has no words", case.id);
            good += u32::from(again(&smaller, &kernels).is_ok());
        }
        assert!(good > 0 || edits.is_empty(), "{}: none of {edits:#?} is well-formed", case.id);
    }
}

#[track_caller]
fn check(id: &str, edits: impl Fn(&Plan) -> Vec<Edit>, expected: &str) {
    let (cases, kernels) = library();
    let case = cases.iter().find(|c| c.id == id).expect("in the library");
    let plan = lower(case, &case.trials()[0], &kernels, &[]).expect("a good trial").plan;
    let smaller = apply(&plan, &edits(&plan));
    again(&smaller, &kernels).unwrap_or_else(|m| panic!("{m}"));
    let text = write(&smaller, &Header::default(), &kernels);
    let text = text.split_once("title: \"\"\n").map_or(text.as_str(), |(_, rest)| rest);
    assert_eq!(text, expected.trim_start());
}

#[test]
fn ungraph_replaces_launches_by_captured_calls() {
    check(
        "graphs/output-after-next-replay",
        |plan| {
            let repeat = plan.body.iter().find(|s| block(&s.call).is_some()).expect("a block").id;
            let merge = Edit::Merge { from: "s".into(), to: "default".into() };
            vec![Edit::Ungraph, merge, Edit::Inline(repeat), Edit::Scale(16)]
        },
        "
buffers:
  batch: {on: host.pageable, bytes: 16}
  first: {on: device, bytes: 16}
  second: {on: device, bytes: 16}
  static_in: {on: device, bytes: 16, fill: pattern}
  static_out: {on: device, bytes: 16}
steps:
  - fill: batch
  - copy: {to: static_in, from: batch, api: memcpy_async}
  - launch: {kernel: add_u32, args: [static_out, static_in, 4, 9]}
  - copy: {to: first, from: static_out, api: memcpy_async}
  - fill: batch
  - copy: {to: static_in, from: batch, api: memcpy_async}
  - launch: {kernel: add_u32, args: [static_out, static_in, 4, 9]}
  - copy: {to: second, from: static_out, api: memcpy_async}
  - sync: default
  - check: first
  - check: second
",
    );
}

#[test]
fn by_hand_replaces_captures_by_added_nodes() {
    let begin = |plan: &Plan| {
        let all = calls(&plan.body);
        let begin = all.iter().find(|s| matches!(s.call, Call::BeginCapture { .. }));
        begin.expect("a capture").id
    };
    check(
        "graphs/output-after-next-replay",
        |plan| vec![Edit::ByHand(begin(plan)), Edit::Scale(16)],
        "
buffers:
  batch: {on: host.pageable, bytes: 16}
  first: {on: device, bytes: 16}
  second: {on: device, bytes: 16}
  static_in: {on: device, bytes: 16, fill: pattern}
  static_out: {on: device, bytes: 16}
steps:
  - empty_graph: {graph: g, nodes: 0}
  - launch: {kernel: add_u32, args: [static_out, static_in, 4, 9], graph: g}
  - instantiate: {exec: x, graph: g}
  - repeat:
      count: 3
      steps:
        - fill: batch
        - copy: {to: static_in, from: batch, stream: s}
        - launch_graph: {exec: x, stream: s}
        - copy: {to: first, from: static_out, stream: s}
        - fill: batch
        - copy: {to: static_in, from: batch, stream: s}
        - launch_graph: {exec: x, stream: s}
        - copy: {to: second, from: static_out, stream: s}
        - sync: s
        - check: first
        - check: second
",
    );
    // A capture with a fork is not a single chain, so its calls are not added one by one.
    let (cases, kernels) = library();
    let fork = cases.iter().find(|c| c.id == "graphs/fork-join").expect("in the library");
    let plan = lower(fork, &fork.trials()[0], &kernels, &[]).expect("a good trial").plan;
    assert_eq!(apply(&plan, &[Edit::ByHand(begin(&plan))]), plan);
}

#[test]
fn drops_calls_that_a_check_does_not_depend_on() {
    check(
        "graphs/fork-join",
        |plan| {
            let all = calls(&plan.body);
            let left = all
                .iter()
                .find(|s| matches!(&s.call, Call::Check { buffer, .. } if buffer == "left.back"));
            let failing = left.expect("a check").id;
            vec![leaves(&reductions(plan, Some(failing)))[0].clone(), Edit::Scale(64)]
        },
        "
buffers:
  batch: {on: host.pageable, bytes: 64}
  in: {on: device, bytes: 64, fill: pattern}
  left: {on: device, bytes: 64}
  right: {on: device, bytes: 64}
steps:
  - begin_capture: {stream: s}
  - launch: {kernel: add_u32, args: [left, in, 16, 1], stream: s}
  - record: {event: fork, stream: s}
  - wait: {stream: t, event: fork}
  - launch: {kernel: add_u32, args: [right, left, 16, 100], stream: t}
  - record: {event: join, stream: t}
  - wait: {stream: s, event: join}
  - launch: {kernel: add_u32, args: [left, right, 16, 10000], stream: s}
  - end_capture: {stream: s, graph: g}
  - instantiate: {exec: x, graph: g}
  - repeat:
      count: 3
      steps:
        - fill: batch
        - copy: {to: in, from: batch, stream: s}
        - launch_graph: {exec: x, stream: s}
        - sync: s
        - check: left
",
    );
}
