//! Tests which names of streams, events, graphs and handles are allowed, and which names of buffers clash with those
//! that checks add.

use super::edges::messages;

#[test]
fn rejects_yaml_keywords_and_numbers_as_names() {
    let step = |step: &str| {
        messages(&format!(
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
            ("NULL", format!("{called} cannot be called `NULL`")),
        ] {
            let mistakes = step(&taken.replace("NAME", name));
            assert!(mistakes.iter().any(|m| m.contains(&why)), "{taken} {name}: {mistakes:?}");
        }
    }
}

#[test]
fn steps_cannot_name_buffers_that_checks_add() {
    let steps = |last: &str| {
        messages(&format!(
            "buffers: {{a: {{on: device, bytes: 64, fill: pattern}}, b: {{on: host.pinned, bytes: 64}}}}\nsteps:\n  - check: a\n  - {last}\n"
        ))
    };
    assert_eq!(steps("check: a"), Vec::<String>::new());
    for last in ["check: a.back", "copy: {to: b, from: a.back}", "equal: [a.back, b]"] {
        let mistakes = steps(last);
        assert!(mistakes[0].contains("unknown buffer `a.back`"), "{last}: {mistakes:?}");
    }
}

#[test]
fn buffer_named_like_an_added_one_has_its_mistakes_reported() {
    let steps = "  - copy: {to: a, from: b.back}\n  - fill: c\n  - fill: c.back\n  - copy: {to: d, from: c, bytes: 65}\n";
    let buffers = ["a", "b.back", "c", "c.back", "d"]
        .map(|name| format!("  {name}: {{on: host.pinned, bytes: 64}}\n"))
        .concat();
    let mistakes = messages(&format!("buffers:\n{buffers}steps:\n{steps}"));
    assert!(mistakes.iter().any(|m| m.contains("`b.back` is read before")), "{mistakes:?}");
    assert!(mistakes.iter().any(|m| m.contains("outside buffer `c`")), "{mistakes:?}");
}

#[test]
fn handles_of_two_libraries_may_have_one_name() {
    let steps = |steps: &str| {
        messages(&format!(
            "buffers: {{a: {{on: host.pinned, bytes: 64}}, b: {{on: host.pinned, bytes: 64}}, d: {{on: host.pinned, bytes: 64}}}}\nsteps:\n{steps}"
        ))
    };
    let ask = "  - blaslt_heuristic: {handle: h, dtype: f32, m: 4, n: 4, k: 4, bias: false}\n    gives: 1\n";
    let (lt, rb) = ("  - blaslt_create: h\n", "  - rocblas_create: h\n");
    assert_eq!(steps(&format!("{lt}{rb}{ask}")), Vec::<String>::new());
    let other = steps(&format!("{rb}{ask}"));
    assert!(other[0].contains("hipBLASLt handle `h` does not exist here"), "{other:?}");
    let gone = steps(&format!("{lt}{rb}  - blaslt_destroy: h\n{ask}  - rocblas_destroy: h\n"));
    assert!(gone[0].contains("hipBLASLt handle `h` does not exist here"), "{gone:?}");
    assert_eq!(gone.len(), 1, "{gone:?}");
}

/// A graph refers to the generator that existed when it was captured, not to a later one of the same name.
#[test]
fn graph_does_not_outlive_its_captured_handles() {
    let steps = |between: &str| {
        messages(&format!(
            "buffers: {{a: {{on: device, bytes: 64}}}}\nsteps:\n  - rand_create: {{generator: g}}\n  - rand_stream: {{generator: g, stream: s}}\n  \
             - begin_capture: {{stream: s}}\n  - rand_generate: {{generator: g, to: a}}\n  - end_capture: {{stream: s, graph: p}}\n  \
             - instantiate: {{exec: x, graph: p}}\n{between}  - launch_graph: {{exec: x, stream: s}}\n  - sync: s\n"
        ))
    };
    assert_eq!(steps(""), Vec::<String>::new());
    assert_eq!(steps("  - rand_create: {generator: other}\n"), Vec::<String>::new());
    for (between, what) in [
        (
            "  - rand_destroy: g\n",
            "13:5 the graph uses generator `g`, which was destroyed after line 9",
        ),
        (
            "  - rand_destroy: g\n  - rand_create: {generator: g}\n",
            "14:5 the graph uses generator `g`, which was recreated after line 9",
        ),
    ] {
        let mistakes = steps(between);
        assert!(mistakes[0].starts_with(what), "{mistakes:?}");
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    }
}

#[test]
fn destroyed_stream_cannot_be_used() {
    let steps = |steps: &str| {
        messages(&format!(
            "buffers: {{a: {{on: device, bytes: 64}}}}\nsteps:\n  - create_stream: s\n{steps}"
        ))
    };
    let (set, gone) =
        ("  - set: {to: a, value: 1, async: true, stream: s}\n", "  - destroy_stream: s\n");
    assert_eq!(steps(&format!("{set}{gone}")), Vec::<String>::new());
    assert_eq!(
        steps(&format!("{gone}  - create_stream: s\n{set}  - sync: s\n")),
        Vec::<String>::new()
    );
    let query = "  - query: s\n    returns: hipErrorContextIsDestroyed\n";
    assert_eq!(steps(&format!("{set}{gone}{query}")), Vec::<String>::new());
    let generator = "  - rand_create: {generator: g}\n  - rand_stream: {generator: g, stream: s}\n";
    for last in [
        format!("{set}{gone}{set}"),
        format!("{set}{gone}  - sync: s\n"),
        format!("{set}{gone}{gone}"),
        format!("{set}{generator}{gone}  - rand_generate: {{generator: g, to: a}}\n"),
    ] {
        let mistakes = steps(&last);
        let destroyed = |m: &String| m.contains("stream `s` was destroyed before");
        assert!(mistakes.iter().any(destroyed), "{last}: {mistakes:?}");
    }
}
