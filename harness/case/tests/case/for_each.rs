//! Tests of `for_each`: the steps after expansion, and the messages for invalid tables.

use case::{Case, Kernels, analyse, mistakes};
use plan::Call;

fn with(steps: &str) -> String {
    format!(
        "title: t\nsource: s\nfaults: copy.zero\nmatrix: {{mode: [global, relaxed]}}\n\
         buffers: {{a: {{on: device, bytes: 64, fill: zero}}}}\nsteps:\n{steps}"
    )
}

fn plans(text: &str) -> Vec<plan::Plan> {
    let case = Case::parse("a/b", text).unwrap_or_else(|m| panic!("{m:#?}"));
    let kernels = Kernels::new();
    let plan = |trial| analyse(&case, &trial, &kernels).unwrap_or_else(|m| panic!("{m:#?}"));
    case.trials().into_iter().map(plan).collect()
}

fn messages(text: &str) -> Vec<String> {
    let found = mistakes("a/b", text, &Kernels::new());
    let one = |m: case::Diagnostic| {
        let help = m.help.map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}:{} {}{help}", m.at.line, m.at.column, m.message)
    };
    found.into_iter().map(one).collect()
}

const TABLE: &str = r#"  - for_each:
      default: {do: set, before: [], right: hipSuccess}
      steps:
        - $before
        - {$do: $with, returns: "${right.mode}"}
        - sync: device
      rows:
        - {with: {to: a, value: 1}}
        - {with: {to: a, value: 2}, before: [{sleep: 1}, {sleep: 2}]}
        - {do: sync, with: device, right: {global: hipErrorNotReady, relaxed: {"<6.0": hipSuccess, ">=6.0": any}}}
        - {do: sleep, with: 3, right: any, when: {mode: relaxed}}
"#;

#[test]
fn rows_expand_to_steps_with_their_cells() {
    let by_hand = [
        r#"  - {set: {to: a, value: 1}, returns: hipSuccess}
  - sync: device
  - sleep: 1
  - sleep: 2
  - {set: {to: a, value: 2}, returns: hipSuccess}
  - sync: device
  - {sync: device, returns: hipErrorNotReady}
  - sync: device
"#,
        r#"  - {set: {to: a, value: 1}, returns: hipSuccess}
  - sync: device
  - sleep: 1
  - sleep: 2
  - {set: {to: a, value: 2}, returns: hipSuccess}
  - sync: device
  - {sync: device, returns: {"<6.0": hipSuccess, ">=6.0": any}}
  - sync: device
  - {sleep: 3, returns: any}
  - sync: device
"#,
    ];
    let expanded = plans(&with(TABLE));
    assert_eq!(expanded.len(), 2);
    for (n, expanded) in expanded.iter().enumerate() {
        let by_hand = &plans(&with(by_hand[n]))[n];
        let say = |plan: &plan::Plan| -> Vec<_> {
            let steps = plan.body.iter();
            steps.map(|step| (step.call.clone(), step.returns.clone())).collect()
        };
        assert_eq!(say(expanded), say(by_hand));
    }
    // Each expanded step has the line number of its row in the table.
    let lines: Vec<_> = expanded[0].body.iter().map(|step| step.line).collect();
    assert_eq!(lines, [14, 14, 15, 15, 15, 15, 16, 16]);
}

#[test]
fn for_each_may_be_in_a_block_but_not_nested() {
    let text = with(
        "  - thread:\n      - for_each:\n          rows: [{ms: 1}, {ms: 3}]\n          steps:\n            - repeat: {count: 2, steps: [{sleep: $ms}]}\n",
    );
    let Call::Thread { body } = &plans(&text)[0].body[0].call else { panic!("a thread") };
    let sleeps: Vec<u64> = body
        .iter()
        .filter_map(|step| match &step.call {
            Call::Repeat { body, .. } => Some(&body[0].call),
            _ => None,
        })
        .filter_map(|call| if let Call::Sleep { ms } = call { Some(*ms) } else { None })
        .collect();
    assert_eq!(sleeps, [1, 3]);
    let nested = "11:13 a `for_each` cannot contain another `for_each`".to_owned();
    let text = text.replace("repeat: {count: 2,", "for_each: {rows: [],");
    assert!(messages(&text).contains(&nested), "{:#?}", messages(&text));
    let text = text.replace("steps: [{sleep: $ms}]", "steps: [{sleep: 1}]");
    assert!(messages(&text).contains(&nested), "{:#?}", messages(&text));
}

#[test]
fn mistakes_of_a_table_are_reported_at_their_cells() {
    let right = [
        ("value: 1}", "valeu: 1}", "14:26 `set` has no `valeu` (did you mean `value`?)"),
        (
            "before: [{sleep: 1}",
            "befoer: [{sleep: 1}",
            "15:37 no step of this `for_each` uses `$befoer` (did you mean `before`?)",
        ),
        ("{do: sleep, with: 3", "{do: sleep", "17:11 the row has no `with`, which the steps use"),
        (
            "${right.mode}",
            "${right.moed}",
            "11:33 the matrix has no axis `moed` (did you mean `mode`?)",
        ),
        (
            "global: hipErrorNotReady, ",
            "",
            "16:43 `right` has no entry for the value `global` of axis `mode`",
        ),
        (
            "global: hipErrorNotReady",
            "globla: hipErrorNotReady",
            "16:44 axis `mode` has no value `globla` (did you mean `global`?)",
        ),
        (
            "hipErrorNotReady",
            "hipErrorNotRaedy",
            "16:52 `hipErrorNotRaedy` is not a status of `sync`",
        ),
        ("{mode: relaxed}", "{mode: relax}", "17:57 axis `mode` has no value `relax`"),
        (
            "default: {do: set, ",
            "default: {do: [set], ",
            "8:21 `$do` is used inside a text, so its value must be text",
        ),
        (
            "steps:\n        -",
            "step:\n        -",
            "9:7 `for_each` has no `step` (did you mean `steps`?)",
        ),
    ];
    for (old, new, wanted) in &right {
        let text = with(&TABLE.replacen(old, new, 1));
        assert_ne!(text, with(TABLE), "{old}");
        let messages = messages(&text);
        assert!(messages.iter().any(|line| line.starts_with(wanted)), "{new}: {messages:#?}");
    }
    assert_eq!(messages(&with(TABLE)), [""; 0]);
    let alone = "  - {for_each: {rows: [], steps: []}, returns: any}\n  - sync: device\n";
    assert_eq!(
        messages(&with(alone)),
        ["7:39 `for_each` cannot have another key next to it; put `when` into its rows"]
    );
    let all = "  - {for_each: {rows: {a: 1}, steps: [{sleep: $a}]}}\n  - sync: device\n";
    assert_eq!(messages(&with(all)), ["7:23 `rows` must be a list of mappings"]);
}

#[test]
fn cells_of_a_kind_precede_defaults() {
    let table = r#"  - for_each:
      default: {do: sync, with: device, right: hipSuccess, when: {mode: relaxed}}
      kinds:
        often: {do: set, with: {to: a, value: 3}, right: any}
      steps:
        - {$do: $with, returns: $right}
      rows:
        - {is: often, when: {}}
        - {is: often, right: hipErrorNotReady}
        - {when: {}}
"#;
    let by_hand = [
        "  - {set: {to: a, value: 3}, returns: any}\n  - {sync: device, returns: hipSuccess}\n",
        "  - {set: {to: a, value: 3}, returns: any}\n  - {set: {to: a, value: 3}, returns: hipErrorNotReady}\n  \
         - {sync: device, returns: hipSuccess}\n",
    ];
    for (expanded, by_hand) in plans(&with(table)).iter().zip(by_hand) {
        let say = |plan: &plan::Plan| -> Vec<_> {
            plan.body.iter().map(|step| (step.call.clone(), step.returns.clone())).collect()
        };
        assert_eq!(say(expanded), say(&plans(&with(by_hand))[0]));
    }
    let wrong = |old, new| messages(&with(&table.replacen(old, new, 1)));
    let kind = "14:16 unknown kind `offten` of rows (did you mean `often`?)";
    assert_eq!(wrong("is: often, when", "is: offten, when"), [kind]);
    let cell = "10:51 no step of this `for_each` uses `$rihgt` (did you mean `right`?)";
    assert_eq!(wrong("right: any", "rihgt: any"), [cell]);
}

#[test]
fn number_of_expanded_steps_is_limited() {
    let rows = vec!["{a: 1}"; 400].join(", ");
    let steps = vec!["{sleep: $a}"; 400].join(", ");
    let text = with(&format!("  - for_each: {{rows: [{rows}], steps: [{steps}]}}\n"));
    assert_eq!(messages(&text), ["7:15 this makes more than 100000 steps of the case"]);
}
