//! Edge cases of reading and lowering, as small examples. Mutation testing showed that no other test covered them.

use case::{Case, Kernels, analyse, mistakes};
use plan::{Arg, Call, HipArg, Memory, Plan, Step};

const HEAD: &str = "title: t\nsource: s\nfaults: copy.zero\n";

#[track_caller]
fn plan(text: &str) -> Plan {
    let case = Case::parse("a/b", &format!("{HEAD}{text}")).unwrap_or_else(|m| panic!("{m:#?}"));
    analyse(&case, &case.trials()[0], &Kernels::new()).unwrap_or_else(|m| panic!("{m:#?}"))
}

pub(crate) fn messages(text: &str) -> Vec<String> {
    let found = mistakes("a/b", &format!("{HEAD}{text}"), &Kernels::new());
    let one = |m: case::Diagnostic| {
        let help = m.help.map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}:{} {}{help}", m.at.line, m.at.column, m.message)
    };
    found.into_iter().map(one).collect()
}

#[test]
fn added_host_buffers_are_guarded_like_their_device_buffers() {
    for (on, guarded, both) in [
        ("device", true, (true, true)),
        ("device", false, (false, false)),
        // Stream-ordered memory cannot have guards.
        ("device.async", true, (false, true)),
    ] {
        let text = format!(
            "streams: {{s: non_blocking}}\nbuffers:\n  b: {{on: {on}, bytes: 64, guarded: {guarded}}}\nsteps:\n  \
             - alloc: {{buffer: b, stream: s}}\n  - set: {{to: b, value: 1, async: true, stream: s}}\n  - sync: s\n  - check: b\n  - free: b\n"
        );
        let text = match on {
            "device" => {
                text.replace("  - alloc: {buffer: b, stream: s}\n", "").replace("  - free: b\n", "")
            }
            _ => text.replace("free: b", "free: {buffer: b, stream: s}"),
        };
        let plan = plan(&text);
        let back = &plan.buffers["b.back"];
        assert_eq!((plan.buffers["b"].guarded, back.guarded), both, "{on} {guarded}");
        assert_eq!((back.memory, back.bytes), (Memory::HostPageable, 64));
    }
}

#[test]
fn too_large_buffer_is_rejected_unless_its_allocation_must_fail() {
    let buffers = "buffers:\n  huge: {on: device, bytes: 8192M}\n  b: {on: device, bytes: 64}\n";
    let alloc =
        |returns: &str| format!("{buffers}steps:\n  - alloc: b\n  - alloc: huge\n{returns}");
    assert_eq!(messages(&alloc("    returns: hipErrorOutOfMemory\n")), Vec::<String>::new());
    let refused = "5:29 `bytes` must be from 1 byte to 4 GiB, not 8589934592";
    assert_eq!(messages(&alloc("    returns: any\n"))[0], refused);
    assert_eq!(messages(&alloc(""))[0], refused);
}

#[test]
fn value_of_a_refused_call_is_reported_at_its_key() {
    let step = "  - hip: {call: hipGetDeviceCount, args: [count]}\n    returns: hipErrorNoDevice\n    gives: [\"1\"]\n";
    let mistakes = messages(&format!("buffers: {{}}\nsteps:\n{step}"));
    assert!(
        mistakes[0].starts_with("8:5 `hipGetDeviceCount` returns no value where it must fail"),
        "{mistakes:?}"
    );
}

#[test]
fn program_kind_is_known_and_absent_for_steps() {
    let kind = |text: &str| {
        let case =
            Case::parse("a/b", &format!("{HEAD}{text}")).unwrap_or_else(|m| panic!("{m:#?}"));
        (case.is_program(), case.program_kind())
    };
    assert_eq!(kind("program: {python: 'print(1)'}\n"), (true, Some("python")));
    assert_eq!(kind("program: {command: [/bin/true]}\n"), (true, Some("command")));
    assert_eq!(kind("steps: [{sync: device}]\n"), (false, None));
}

#[test]
fn only_steps_may_state_the_number_of_processes() {
    let program = "needs: {processes: 2}\nprogram: {command: [/bin/true], exit: 0}\n";
    assert!(
        messages(program)[0].contains("`needs: {processes: ...}` is only for steps"),
        "{:?}",
        messages(program)
    );
    assert_eq!(messages(&program.replace("needs: {processes: 2}\n", "")), Vec::<String>::new());
}

#[test]
fn every_fill_has_its_own_pattern() {
    fn stamps(steps: &[Step], all: &mut Vec<u32>) {
        for step in steps {
            if let Call::Fill { stamp, .. } | Call::FillNumbers { stamp, .. } = &step.call {
                assert_eq!(*stamp, step.id);
                all.push(*stamp);
            }
            stamps(step.call.body().unwrap_or_default(), all);
        }
    }
    let plan = plan(
        "buffers:\n  a: {on: host.pinned, bytes: 64, fill: pattern}\n  b: {on: device, bytes: 64, fill: pattern}\nsteps:\n  \
         - fill: a\n  - repeat: {count: 2, steps: [{fill: a}]}\n",
    );
    let mut all = Vec::new();
    for steps in [&plan.setup, &plan.body] {
        stamps(steps, &mut all);
    }
    assert_eq!(all.len(), 4);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4, "two have the same");
}

#[test]
fn matrix_has_at_most_ten_thousand_trials() {
    let values = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let steps = "steps: [{sync: device}]\n";
    let of = |m: usize| format!("matrix: {{a: [{}], b: [{}]}}\n{steps}", values(100), values(m));
    let case = Case::parse("a/b", &format!("{HEAD}{}", of(100))).expect("that many are allowed");
    assert_eq!(case.trials().len(), 10_000);
    assert_eq!(messages(&of(101))[0], "4:9 the matrix has more than 10000 trials");
}

#[test]
fn texts_with_values_of_axes_have_at_most_4_mib() {
    let of = |value: usize, uses: usize| {
        let (value, uses) = ("a".repeat(value), "$m ".repeat(uses));
        messages(&format!(
            "matrix: {{m: [{value}, b]}}\nkernels:\n  own: \"__global__ own {uses}\"\nsteps: [{{sync: device}}]\n"
        ))
    };
    assert_eq!(of(4097, 1)[0], "4:13 axis `m` has a value of 4097 bytes; a value has at most 4096");
    let long = of(4096, 2000);
    assert!(long.iter().any(|it| it.ends_with("the text has more than 4 MiB")), "{long:?}");
}

#[test]
fn doubled_dollar_in_a_table_is_not_a_cell() {
    let table = "buffers: {}\nsteps:\n  - for_each: {steps: [{sleep: $$n}], rows: [{n: 3}]}\n";
    assert!(messages(table)[0].contains("$n"), "{:?}", messages(table));
}

#[test]
fn three_similar_functions_are_offered() {
    let mistakes =
        messages("buffers: {}\nsteps: [{hip: {call: hipGraphOfThingsThatNobodyHas, args: []}}]\n");
    let offered =
        mistakes[0].split("similar names: ").nth(1).unwrap_or_else(|| panic!("{mistakes:?}"));
    assert!(offered.starts_with("`hipGraph"), "{offered}");
    assert_eq!(offered.matches("`hipGraph").count(), 3, "{offered}");
}

#[test]
fn streams_up_to_the_limit_may_be_used_twice() {
    let mistakes = |streams: u32| {
        let each = (0..streams)
            .map(|n| format!("  - record: {{event: e{n}, stream: s{n}}}\n"))
            .collect::<String>();
        messages(&format!("buffers: {{}}\nsteps:\n{each}{each}")).len()
    };
    assert_eq!(mistakes(1_000), 0);
    assert_eq!(mistakes(1_001), 2);
}

#[test]
fn maps_and_lists_nest_up_to_the_limit() {
    let nested = |open: &str, close: &str, depth: usize| {
        let text = format!(
            "about: {}x{}\nsteps: [{{sync: device}}]\n",
            open.repeat(depth),
            close.repeat(depth)
        );
        messages(&text)[0].split_once(' ').expect("a place and a message").1.to_owned()
    };
    for (open, close) in [("{a: ", "}"), ("[", "]")] {
        assert!(nested(open, close, 63).starts_with("`about` must be text"));
        assert_eq!(nested(open, close, 64), "nested too deeply");
    }
}

#[test]
fn empty_answer_is_reported_once() {
    for key in ["gives", "returns"] {
        let text = format!("buffers: {{}}\nsteps:\n  - mem_info:\n    {key}: \"\"\n");
        assert_eq!(messages(&text), [format!("7:{} `{key}` must not be empty", key.len() + 7)]);
    }
}

fn with(steps: &str) -> String {
    format!(
        "buffers:\n  b: {{on: device, bytes: 64, fill: zero}}\nsteps:\n{steps}  - sync: device\n"
    )
}

#[test]
fn arguments_of_hip_steps_may_be_formulas() {
    let steps = "  - hip: {call: hipDeviceGetAttribute, args: [v, 2 * 3, 0]}\n";
    assert_eq!(messages(&with(steps)), [""; 0]);
}

#[test]
fn values_have_plain_names() {
    let of = |name: &str| {
        messages(&with(&format!("  - hip: {{call: hipDriverGetVersion, args: [{name}]}}\n")))
    };
    assert_eq!(of("v1_"), [""; 0]);
    for name in ["1v", "a-b", "_a"] {
        assert!(of(name)[0].contains("the name of a value must be a letter"), "{:?}", of(name));
    }
}

#[test]
fn values_are_read_up_to_their_last_byte() {
    let look = |what: &str| {
        messages(&with(&format!(
            "  - hip: {{call: hipDriverGetVersion, args: [v]}}\n  - hip_value: {{of: v, {what}}}\n    gives: any\n"
        )))
    };
    assert_eq!(look("at: 4088, type: u64"), [""; 0]);
    assert!(look("at: 4089, type: u64")[0].contains("a value may have at most 4096 bytes"));
    assert!(look("type: text_at")[0].contains("`v` is not the address of a text"));
}

#[test]
fn block_and_grid_have_one_to_three_numbers() {
    let launch = |block: &str| {
        messages(&with(&format!("  - launch: {{kernel: own, args: [b], block: {block}, grid: 1}}\n"))
            .replace("buffers:", "kernels:\n  own: 'extern \"C\" __global__ void own(unsigned *out) { out[0] = 1; }'\nbuffers:"))
    };
    assert_eq!(launch("[1, 1, 1]"), [""; 0]);
    for block in ["[]", "[1, 1, 1, 1]"] {
        assert!(
            launch(block)[0].contains("`block` has one to three numbers"),
            "{:?}",
            launch(block)
        );
    }
}

/// An argument of unknown type is read as the name of a buffer if the buffer exists, else as a number.
#[test]
fn argument_of_unknown_type_is_a_number_or_a_buffer() {
    let text = with("  - launch: {kernel: own, args: [7, b], items: 1}\n")
        .replace("buffers:", "kernels:\n  own: 'template <class T> struct S; extern \"C\" __global__ void own(S<int> x, S<float> y) {}'\nbuffers:");
    let plan = plan(&text);
    let Call::Launch { args, .. } = &plan.body[0].call else { panic!("{:?}", plan.body) };
    assert!(matches!(&args[..], [Arg::Number(_), Arg::Address(_)]), "{args:?}");
}

#[test]
fn program_has_the_environment_of_its_case() {
    let plan = plan("environment: {A_VARIABLE: '1'}\nprogram: {command: [/bin/true], exit: 0}\n");
    assert_eq!(plan.environment["A_VARIABLE"], "1");
}

#[test]
fn kernel_is_compiled_for_its_first_line() {
    let launch = "  - launch: {kernel: own, args: [b], items: 1}\n";
    let text = with(&format!("  - sync: device\n{launch}{launch}"))
        .replace("buffers:", "kernels:\n  own: 'extern \"C\" __global__ void own(unsigned *out) { out[0] = 1; }'\nbuffers:");
    let lines: Vec<u32> = plan(&text)
        .setup
        .iter()
        .filter(|s| matches!(s.call, Call::Compile { .. }))
        .map(|s| s.line)
        .collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| *line == 10), "{lines:?}");
}

#[test]
fn struct_member_is_null_a_value_or_typed() {
    let member = |text: &str| {
        let all = messages(&with(&format!(
            "  - hip: {{call: hipGraphCreate, args: [g, 0]}}\n  - hip: {{call: hipGraphAddMemsetNode, args: [n, g, null, 0, [{text}, {{u32: 1}}, {{u64: 1}}, {{u64: 64}}, {{u32: 7}}, {{u64: 64}}]]}}\n"
        )));
        all.iter()
            .any(|m| m.contains("a member is a value of an earlier step, `null`, or has its type"))
    };
    assert!(!member("b") && !member("null") && !member("{u64: 0}"));
    assert!(member("nothing"));
}

#[test]
fn names_in_threads_are_checked() {
    let thread = |steps: &str| messages(&with(&format!("  - thread:\n{steps}")));
    let messages = thread("      - sync: s\n      - sync_event: e\n");
    assert!(
        messages.iter().any(|m| m.contains("no step gives work to stream `s`")),
        "{messages:?}"
    );
    assert!(messages.iter().any(|m| m.contains("event `e` is never recorded")), "{messages:?}");
    assert_eq!(thread("      - record: {event: e, stream: s}\n      - sync_event: e\n"), [""; 0]);
}

#[test]
fn own_kernel_has_its_line() {
    let text = with("  - launch: {kernel: own, args: [b], items: 1}\n").replace(
        "buffers:",
        "kernels:\n  own: 'extern \"C\" __global__ void own(unsigned *out) { out[0] = 1; }'\nbuffers:",
    );
    let place = &plan(&text).own_kernels["own"].place;
    assert!(place.contains("line 5"), "{place}");
}

#[test]
fn hip_step_may_take_an_event_of_the_case() {
    let steps = "  - record: {event: e, stream: s}\n  - hip: {call: hipEventQuery, args: [e]}\n    returns: any\n";
    let plan = plan(&with(steps));
    let Call::Hip { args, .. } = &plan.body[1].call else { panic!("{:?}", plan.body) };
    assert_eq!(args[..], [HipArg::Event("e".to_owned())]);
}

#[test]
fn address_of_a_text_is_read_from_its_first_byte() {
    let look = |at: u32| {
        messages(&with(&format!(
            "  - hip: {{call: hipDrvGetErrorName, args: [1, name]}}\n  - hip_value: {{of: name, at: {at}, type: text_at}}\n    gives: hipErrorInvalidValue\n"
        )))
    };
    assert_eq!(look(0), [""; 0]);
    assert!(look(4)[0].contains("`name` is not the address of a text"), "{:?}", look(4));
}

#[test]
fn lowering_adds_guards_and_teardown() {
    let steps = plan(&with("  - set: {to: b, value: 1}\n"));
    assert_eq!(steps.trial, "a/b");
    assert!(!steps.verify.is_empty() && !steps.teardown.is_empty());
    let program = plan("program: {command: [/bin/true], exit: 0}\n");
    assert_eq!((program.trial.as_str(), program.verify.len()), ("a/b", 0));
}

#[test]
fn host_work_has_no_status() {
    for step in
        ["check: b", "sleep: 1", "differ: [b, c]", "repeat: {count: 2, steps: [{sync: device}]}"]
    {
        let with =
            |status: &str| {
                messages(&with(&format!("  - {step}\n    returns: {status}\n")).replace(
                    "steps:\n",
                    "  c: {on: host.pinned, bytes: 64, fill: pattern}\nsteps:\n",
                ))
            };
        assert!(
            with("hipErrorUnknown")[0].contains("returns no status"),
            "{:?}",
            with("hipErrorUnknown")
        );
        assert!(!with("any").iter().any(|m| m.contains("returns no status")), "{:?}", with("any"));
    }
}

#[test]
fn answer_by_version_needs_a_version() {
    for key in ["returns", "gives"] {
        let messages = messages(&with(&format!("  - mem_info:\n    {key}: {{}}\n")));
        assert!(messages[0].contains(&format!("`{key}` has no values")), "{messages:?}");
    }
}

/// The expected value is copied into an exported C++ program. If the call returns a number, the value must be a number.
#[test]
fn value_of_a_hip_step_has_its_type() {
    let messages = |gives: &str| {
        messages(&with(&format!(
            "  - hip: {{call: hipMemGetInfo, args: [free, total]}}\n    gives: \"{gives}\"\n  - hip_value: {{of: free, against: total}}\n    gives: \"{gives}\"\n"
        )))
    };
    let refused = |gives: &str| -> Vec<bool> {
        let all = messages(gives);
        ["8", "10"]
            .map(|line| all.iter().any(|m| m.starts_with(line) && m.contains("cannot ")))
            .to_vec()
    };
    assert_eq!(refused("any"), [false, false]);
    for number in ["12", ">=1", "< 5"] {
        assert_eq!(refused(number), [false, true], "{number}");
    }
    assert_eq!(refused("less"), [true, false]);
    for neither in ["zz", "les", ">=x", "0x10", ">=1) ; f("] {
        assert_eq!(refused(neither), [true, true], "{neither}");
    }
}

#[test]
fn trial_ids_and_packages_have_plain_texts() {
    let messages = |head: &str| messages(&format!("{head}\nsteps: [{{sync: device}}]\n"));
    for hidden in ["\\n", "\\u2028", "\\u202e", "\\u200b"] {
        let found = messages(&format!("matrix: {{n: [\"a{hidden}b\"]}}"));
        assert!(found[0].contains("must not have control or invisible characters"), "{found:?}");
    }
    let packages = |package: &str| {
        self::messages(&format!(
            "program:\n  python: print('right')\n  packages: [{package}]\n  says: right\n"
        ))
    };
    for good in ["numpy", "numpy==2.1", "torch==2.9.1+rocm7.2", "x==1!2.0"] {
        assert_eq!(packages(good), [""; 0], "{good}");
    }
    for bad in ["numpy==", "numpy==1==2", "==1"] {
        assert!(packages(bad)[0].contains("is not a package"), "{bad}");
    }
    assert!(messages("related: ['ROCm/ROCm#+1']")[0].contains("is not `owner/repository#number`"));
}

#[test]
fn long_formulas_and_nested_structs_take_bounded_time() {
    let case = |kernel: &str, computes: &str, args: &str| {
        messages(
            &with(&format!("  - launch: {{kernel: own, args: {args}, items: 1, block: 16}}\n"))
                .replace(
                    "buffers:",
                    &format!("kernels:\n  own:\n    source: '{kernel}'\n{computes}buffers:"),
                ),
        )
    };
    let source = "extern \"C\" __global__ void own(unsigned *out) {}";
    let formula = |terms: usize| {
        let computes = format!("    computes: \"out[i] = 1{}\"\n", "+1".repeat(terms));
        case(source, &computes, "[b]")
    };
    assert_eq!(formula(900), [""; 0]);
    assert!(
        formula(100_000)[0].contains("the formula has more than 2000"),
        "{:?}",
        formula(100_000)
    );
    let mut structs = "struct S0 {int x;};".to_owned();
    for n in 1..60 {
        structs += &format!(" struct S{n} {{S{0} a; S{0} b;}};", n - 1);
    }
    let of = |last: u32| {
        case(
            &format!("{structs} extern \"C\" __global__ void own(unsigned *out, S{last} x) {{}}"),
            "",
            "[b, {struct: [{u32: 1}]}]",
        )
    };
    assert!(of(3)[0].contains("2 members"), "{:?}", of(3));
    // The struct has more members than the reader accepts, so the kernel's parameters are unknown.
    assert_eq!(of(59), [""; 0]);
}

#[test]
fn all_mistakes_of_a_step_are_reported() {
    for (step, mistakes) in [
        (
            "copy: {to: x, from: y, bytes: z, api: w, stream: device, to_offset: v, from_offset: u}",
            7,
        ),
        (
            "copy_2d: {to: x, from: y, width: z, height: w, to_pitch: v, from_pitch: u, async: t, stream: device}",
            8,
        ),
        ("copy_2d: {to: b, from: b}", 2),
        (
            "copy_3d: {to: x, from: y, width: z, height: w, depth: v, to_at: [0, u, t], from_rows: s, async: r, stream: device}",
            10,
        ),
        (
            "set_rows: {to: x, width: y, height: z, depth: w, at: [0], value: v, async: u, stream: device}",
            8,
        ),
        ("set: {to: x, value: y, words: z, offset: w, bytes: v, async: u, stream: device}", 7),
        ("host_func: {buffer: x, api: y, stream: device}", 3),
        ("fill: {buffer: x, numbers: y}", 2),
        ("rand_generate: {}", 2),
        (
            "rocblas_gemm: {dtype: x, m: y, n: 0, a: z, b: w, d: v, transpose: t, stream: device}",
            10,
        ),
        ("blaslt_heuristic: {handle: h, dtype: x, m: y, n: 1, k: 1, bias: z}", 3),
        ("launch: {kernel: own, grid: [], block: y, shared: z, stream: device, items: w}", 7),
        ("launch: {kernel: copy_u32, args: [x, 1, 2, 3, 4], shared: z}", 2),
        ("equal: [x, y]", 2),
        ("alloc: {buffer: x, stream: device}", 2),
    ] {
        let messages = messages(&with(&format!("  - {step}\n")));
        assert_eq!(messages.len(), mistakes, "{step}: {messages:#?}");
    }
}

/// A step that no trial executes still needs a valid verb and valid statuses, in any order of its keys.
#[test]
fn steps_of_other_trials_are_checked() {
    let steps = |step: &str| {
        messages(&format!(
            "matrix: {{n: [1, 2]}}\nexclude: [{{n: 2}}]\nsteps: [{{sync: device}}, {step}]\n"
        ))
    };
    for step in ["{when: {n: 2}, snyc: device}", "{snyc: device, when: {n: 2}}"] {
        assert!(steps(step)[0].contains("unknown step `snyc`"), "{:?}", steps(step));
    }
    let answer = steps("{when: {n: 2}, sync: device, returns: hipSucess}");
    assert!(answer[0].contains("`hipSucess` is not a status of `sync`"), "{answer:?}");
    assert_eq!(steps("{when: {n: 2}, sync: device, returns: hipErrorUnknown}"), [""; 0]);
}

#[test]
fn kernel_argument_outside_a_buffer_is_rejected() {
    let of = |offset: &str| {
        messages(
            &with(&format!(
                "  - launch: {{kernel: own, args: [{{buffer: b, offset: {offset}}}], items: 1}}\n"
            ))
            .replace(
                "buffers:",
                "kernels:\n  own: 'extern \"C\" __global__ void own(unsigned *out) {}'\nbuffers:",
            ),
        )
    };
    assert_eq!(of("64"), [""; 0]);
    for outside in ["65", "18446744073709551615"] {
        assert!(of(outside)[0].contains("`b` has 64 bytes, and byte"), "{:?}", of(outside));
    }
}

#[test]
fn fault_that_a_program_cannot_have_is_explained() {
    let of = |fault: &str| {
        let text = "title: t\nsource: s\nfaults: [FAULT]\nprogram: {cpp: 'int main() { hipMalloc(); }', exit: 0}\n";
        let found = mistakes("a/b", &text.replace("FAULT", fault), &Kernels::new());
        found.into_iter().map(|m| m.message).collect::<Vec<_>>()
    };
    assert_eq!(of("{fault: call.crash, with: {call: hipMalloc}}"), [""; 0]);
    assert_eq!(of("{fault: call.crash, with: {call: hipMalloc, probability: 0.5}}"), [""; 0]);
    assert!(
        of("graph.node-lost")[0].contains("only into a case with steps"),
        "{:?}",
        of("graph.node-lost")
    );
}
