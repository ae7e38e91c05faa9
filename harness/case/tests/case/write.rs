//! Tests that lowering a written case results in the plan from which the case was written.

use std::collections::HashMap;

use case::{Case, Header, Kernels, analyse, write};
use plan::{Call, Plan, Step};

use super::texts::{KERNELS, PLANS};

/// Returns the plan without what a written case cannot preserve: the trial's name, line numbers, ids and stamps.
fn comparable(plan: &Plan) -> Plan {
    fn walk(steps: &mut [Step], ids: &mut HashMap<u32, u32>) {
        for step in steps {
            let next = ids.len() as u32;
            step.id = *ids.entry(step.id).or_insert(next);
            step.line = 0;
            match &mut step.call {
                Call::Fill { stamp, .. } | Call::FillNumbers { stamp, .. } => *stamp = step.id,
                Call::Repeat { body, .. } | Call::Thread { body } => walk(body, ids),
                _ => {}
            }
        }
    }
    let mut plan = plan.clone();
    let mut ids = HashMap::new();
    plan.trial.clear();
    plan.own_kernels.values_mut().for_each(|own| own.place.clear());
    for steps in [&mut plan.setup, &mut plan.body, &mut plan.verify, &mut plan.teardown] {
        walk(steps, &mut ids);
    }
    plan
}

#[track_caller]
fn check(name: &str, plan: &Plan, header: &Header, kernels: &Kernels) -> String {
    let text = write(plan, header, kernels);
    let again = Case::parse("written", &text).unwrap_or_else(|m| panic!("{name}: {m:#?}\n{text}"));
    let trials = again.trials();
    let lowered =
        analyse(&again, &trials[0], kernels).unwrap_or_else(|m| panic!("{name}: {m:#?}\n{text}"));
    assert_eq!(comparable(&lowered), comparable(plan), "{name}\n{text}");
    assert_eq!(Header::for_trial(&again, &trials[0]), *header, "{name}\n{text}");
    text
}

#[test]
fn every_trial_of_the_library_survives() {
    let mut trials = 0;
    for (id, text) in PLANS.iter() {
        let case = Case::parse(id, text).expect("a good case");
        for trial in case.trials() {
            let plan = analyse(&case, &trial, &KERNELS).expect("a good trial");
            let mut header = Header::for_trial(&case, &trial);
            // A written case takes its libraries and functions from the plan.
            header.needs.libraries = plan.libraries.clone();
            check(&case.trial_id(&trial), &plan, &header, &KERNELS);
            trials += 1;
        }
    }
    assert!(trials > 600, "{trials}");
}

#[test]
fn rare_features_of_cases_survive() {
    let text = r#"
title: 'Odd "title": with, marks # and $n'
about: "two\nlines"
source: ["a, b", '- c', "true", "%"]
matrix: {n: [3]}
needs: {function: [hipMalloc], rocm: ">=6.0 <7.0", gfx: [gfx90a], devices: 2, device: {large-bar: yes, memory: "${n}M"}, processes: 3}
environment: {A_VARIABLE: "1 # 2", OTHER: " x"}
streams: {s: non_blocking, idle: blocking}
kernels:
  own: |
    extern "C" __global__ void own(unsigned *out, unsigned n) {
        if (n > 1) out[0] = n;   // a comment: "quoted"

    }
buffers:
  a: {on: host.pinned, bytes: 64, guarded: false, fill: pattern}
  b: {on: device, bytes: 128, fill: zero}
  c: {on: device, bytes: 64, fill: pattern}
  b.back: {on: host.pageable, bytes: 128}
  unused: {on: managed, bytes: 1}
steps:
  - copy: {to: b, from: a, bytes: 32, to_offset: 8, from_offset: 4, api: memcpy_async}
  - sync: device
  - copy: {to: c, from: a, api: memcpy, stream: s}
  - launch: {kernel: own, args: [{buffer: b, offset: 16}, 7], grid: [2, 3], block: [32, 2], stream: s}
    returns: [hipSuccess, hipErrorNotReady]
  - sync: s
  - equal: [c, a]
  - check: c
  - mem_info:
    gives: {"<7.0": [returned], ">=7.0": ">=1"}
  - thread:
      - set: {to: b, value: 3, bytes: 4, offset: 4}
  - repeat:
      count: $n
      steps:
        - fill: a
        - sleep: 1
  - copy: {to: b.back, from: b, bytes: 64, to_offset: 64}
expectation:
  - {kind: cuda, source: "as measured: it passes", date: 2026-11-27}
  - {kind: difference, source: odd, signature: "wrong-data:b.back:*", on: {n: 3}}
faults: [{fault: copy.zero, signature: "wrong-data:*"}, copy.drop, {fault: copy.torn, with: {probability: 0.25, per: process, seed: 3}}]
known:
  - {gfx: [gfx90a], rocm: "<5.7", signature: "wrong-data:*", upstream: ROCm/hip#1}
  - {rocm: "*", card: "Radeon 8060S*", driver: "amdgpu of Linux 6.14*", signature: "wrong-data:*", about: odd}
"#;
    let case = Case::parse("odd", text).unwrap_or_else(|m| panic!("{m:#?}"));
    let trial = &case.trials()[0];
    let plan = analyse(&case, trial, &KERNELS).unwrap_or_else(|m| panic!("{m:#?}"));
    let written = check("odd", &plan, &Header::for_trial(&case, trial), &KERNELS);
    assert!(written.contains("check: c\n"), "{written}");
}

/// Covers sources that cannot be written as literal blocks, and numbers for kernels whose parameters are unknown.
#[test]
fn odd_kernels_and_their_numbers_survive() {
    let source = |name: &str, before: &str, after: &str| {
        format!(
            r#"  {name}: "{before}extern \"C\" __global__ void {name}(S<int> x, unsigned y) {{}}{after}""#
        )
    };
    let kernels = [
        source("plain", "", "\\n"),
        source("two_ends", "", "\\n\\n"),
        source("no_end", "", ""),
        source("begins_late", " ", "\\n"),
        source("begins_below", "\\n", "\\n"),
        source("bell", "// \\u0007\\n", "\\n"),
        source("tab", "// a\\n\\t", "\\n"),
    ];
    let launches = ["plain", "two_ends", "no_end", "begins_late", "begins_below", "bell", "tab"].map(|name| {
        format!("  - launch: {{kernel: {name}, args: [{{f32: 1.5}}, 7], items: 1}}\n  - launch: {{kernel: {name}, args: [3, 8], items: 1}}\n")
    });
    let text = format!(
        "title: t\nsource: s\nfaults: copy.zero\nkernels:\n{}\nbuffers:\n  b: {{on: device, bytes: 64, fill: zero}}\nsteps:\n{}  - sync: device\n",
        kernels.join("\n"),
        launches.concat(),
    );
    let case = Case::parse("odd", &text).unwrap_or_else(|m| panic!("{m:#?}\n{text}"));
    let trial = &case.trials()[0];
    let plan = analyse(&case, trial, &KERNELS).unwrap_or_else(|m| panic!("{m:#?}\n{text}"));
    let written = check("odd", &plan, &Header::for_trial(&case, trial), &KERNELS);
    for said in
        ["args: [{f32: 1.5}, 7]", "args: [3, 8]", "  plain: |\n", "  bell: \"", "  tab: |\n"]
    {
        assert!(written.contains(said), "{said}: {written}");
    }
}

/// The number of work-items is written as one number, and defaults are left out.
#[test]
fn launches_are_written_like_a_person_would() {
    for (given, written) in [
        ("items: 512", "items: 512}"),
        ("items: 1", "args: [b]}"),
        ("grid: [2, 3]", "grid: [2, 3]}"),
        ("grid: [1, 1, 4]", "grid: [1, 1, 4]}"),
        ("grid: [2], block: [8, 2]", "grid: [2], block: [8, 2]}"),
        ("grid: [3], block: [8]", "items: 24, block: [8]}"),
    ] {
        let text = format!(
            "title: t\nsource: s\nfaults: copy.zero\nkernels:\n  own: 'extern \"C\" __global__ void own(unsigned *out) {{}}'\n\
             buffers:\n  b: {{on: device, bytes: 64, fill: zero}}\nsteps:\n  - launch: {{kernel: own, args: [b], {given}}}\n  - sync: device\n"
        );
        let case = Case::parse("launch", &text).unwrap_or_else(|m| panic!("{m:#?}"));
        let trial = &case.trials()[0];
        let plan = analyse(&case, trial, &KERNELS).unwrap_or_else(|m| panic!("{m:#?}"));
        let again = check("launch", &plan, &Header::for_trial(&case, trial), &KERNELS);
        assert!(again.contains(written), "{given}: {again}");
    }
}

#[test]
fn checked_buffer_is_declared_if_other_steps_use_it() {
    let text = "title: t\nsource: s\nfaults: copy.zero\nbuffers:\n  b: {on: device, bytes: 64, fill: zero}\n  b.back: {on: host.pageable, bytes: 64}\nsteps:\n  - copy: {to: b.back, from: b, bytes: 64}\n  - check: b.back\n  - set: {to: b, value: 3}\n  - copy: {to: b.back, from: b, bytes: 32}\n  - check: b.back\n";
    let case = Case::parse("both", text).unwrap_or_else(|m| panic!("{m:#?}"));
    let trial = &case.trials()[0];
    let plan = analyse(&case, trial, &KERNELS).unwrap_or_else(|m| panic!("{m:#?}"));
    let written = check("both", &plan, &Header::for_trial(&case, trial), &KERNELS);
    assert!(written.contains("\n  b.back: {"), "{written}");
    let alone = text.split("  - set").next().expect("the first check");
    let alone = alone.replace("  b.back: {on: host.pageable, bytes: 64}\n", "");
    let alone = alone.replace(
        "  - copy: {to: b.back, from: b, bytes: 64}\n  - check: b.back\n",
        "  - check: b\n",
    );
    let case = Case::parse("alone", &alone).unwrap_or_else(|m| panic!("{m:#?}"));
    let plan = analyse(&case, trial, &KERNELS).unwrap_or_else(|m| panic!("{m:#?}"));
    let written = check("alone", &plan, &Header::for_trial(&case, trial), &KERNELS);
    assert!(!written.contains("b.back"), "{written}");
}

/// A dollar is doubled, because a single one would name an axis.
#[test]
fn dollars_survive() {
    let text = "title: costs $$5\nabout: '$$a and $$'\nsource: [$$]\nfaults: copy.zero\nenvironment: {A_VARIABLE: x$$y}\n\
                kernels:\n  own: |\n    // $$n\n    extern \"C\" __global__ void own(unsigned *out) {}\n\
                buffers:\n  b: {on: device, bytes: 64, fill: zero}\nsteps:\n  - launch: {kernel: own, args: [b], items: 1}\n  - sync: device\n";
    let case = Case::parse("dollars", text).unwrap_or_else(|m| panic!("{m:#?}"));
    let trial = &case.trials()[0];
    let plan = analyse(&case, trial, &KERNELS).unwrap_or_else(|m| panic!("{m:#?}"));
    assert_eq!(plan.environment["A_VARIABLE"], "x$y");
    assert!(plan.kernels["own"].starts_with("// $n\n"));
    check("dollars", &plan, &Header::for_trial(&case, trial), &KERNELS);
}
