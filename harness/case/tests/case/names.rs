//! What may be called how: names of streams, events, graphs and handles, and of buffers that a check adds.

use super::edges::told;

#[test]
fn a_name_is_no_value_of_yaml_and_no_number() {
    let step = |step: &str| {
        told(&format!(
            "buffers: {{a: {{on: device, bytes: 64, fill: pattern}}}}\nsteps:\n  - {step}\n"
        ))
    };
    for (taken, called) in [
        ("set: {to: a, value: 1, stream: NAME}", "a stream"),
        ("create_stream: NAME", "a stream"),
        ("record: {event: NAME, stream: s}", "an event"),
        ("hip: {call: hipEventQuery, args: [NAME]}", "an event"),
        ("empty_graph: {graph: NAME, nodes: 1}", "a graph"),
        ("launch_graph: {exec: NAME, stream: s}", "an executable graph"),
        ("rand_create: {generator: NAME}", "a generator"),
        ("rand_generate: {generator: NAME, to: a}", "a generator"),
        ("blaslt_create: NAME", "a hipBLASLt handle"),
        ("rocblas_destroy: NAME", "a rocBLAS handle"),
    ] {
        for (name, why) in [
            (
                "0",
                format!(
                    "the name of {called} begins with a letter and has letters, digits, `_`, `-` and `.`"
                ),
            ),
            (
                "~",
                format!(
                    "the name of {called} begins with a letter and has letters, digits, `_`, `-` and `.`"
                ),
            ),
            ("true", format!("{called} cannot be called `true`")),
        ] {
            let mistakes = step(&taken.replace("NAME", name));
            assert!(mistakes.iter().any(|m| m.contains(&why)), "{taken} {name}: {mistakes:?}");
        }
    }
}

#[test]
fn no_step_names_what_a_check_adds() {
    let steps = |last: &str| {
        told(&format!(
            "buffers: {{a: {{on: device, bytes: 64, fill: pattern}}, b: {{on: host.pinned, bytes: 64}}}}\nsteps:\n  - check: a\n  - {last}\n"
        ))
    };
    assert_eq!(steps("check: a"), Vec::<String>::new());
    for last in ["check: a.back", "copy: {to: b, from: a.back}", "equal: [a.back, b]"] {
        let mistakes = steps(last);
        assert!(mistakes[0].contains("there is no buffer `a.back`"), "{last}: {mistakes:?}");
    }
}

/// What is wrong with a buffer of the case is told whatever its name is.
#[test]
fn a_buffer_that_is_called_as_one_that_a_check_adds_has_its_mistakes_told() {
    let steps = "  - copy: {to: a, from: b.back}\n  - fill: c\n  - fill: c.back\n  - copy: {to: d, from: c, bytes: 65}\n";
    let buffers = ["a", "b.back", "c", "c.back", "d"]
        .map(|name| format!("  {name}: {{on: host.pinned, bytes: 64}}\n"))
        .concat();
    let mistakes = told(&format!("buffers:\n{buffers}steps:\n{steps}"));
    assert!(mistakes.iter().any(|m| m.contains("`b.back` is read before")), "{mistakes:?}");
    assert!(mistakes.iter().any(|m| m.contains("outside buffer `c`")), "{mistakes:?}");
}

#[test]
fn handles_of_two_libraries_may_have_one_name() {
    let steps = |steps: &str| {
        told(&format!(
            "buffers: {{a: {{on: host.pinned, bytes: 64}}, b: {{on: host.pinned, bytes: 64}}, d: {{on: host.pinned, bytes: 64}}}}\nsteps:\n{steps}"
        ))
    };
    let ask = "  - blaslt_heuristic: {handle: h, dtype: f32, m: 4, n: 4, k: 4, bias: false}\n    gives: 1\n";
    let (lt, rb) = ("  - blaslt_create: h\n", "  - rocblas_create: h\n");
    assert_eq!(steps(&format!("{lt}{rb}{ask}")), Vec::<String>::new());
    let other = steps(&format!("{rb}{ask}"));
    assert!(other[0].contains("there is no hipBLASLt handle `h` here"), "{other:?}");
    let gone = steps(&format!("{lt}{rb}  - blaslt_destroy: h\n{ask}  - rocblas_destroy: h\n"));
    assert!(gone[0].contains("there is no hipBLASLt handle `h` here"), "{gone:?}");
    assert_eq!(gone.len(), 1, "{gone:?}");
}
