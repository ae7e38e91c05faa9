//! Tests and writes docs/language.md, the reference of everything that a case may contain. The page is generated from
//! the schema, the declarations of the calls, and the faults. Each example is a step of a library case, which other
//! tests run.

use std::{collections::BTreeMap, fmt::Write, fs, sync::LazyLock};

use plan::{Buffer, Call, Choice, Memory, Plan};
use serde_json::{Map, Value};

use super::texts::{CASES, assert_page, root};

const PAGE: &str = "docs/language.md";

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = fs::read_to_string(root().join("cases/schema.json")).expect("the schema");
    serde_json::from_str(&text).expect("the schema is JSON")
});

/// Describes in English which YAML values a schema allows. Returns an empty text for a placeholder, which may be any
/// value.
fn form(value: &Value) -> String {
    if let Some(name) = value["$ref"].as_str() {
        return named(name.trim_start_matches("#/$defs/")).to_owned();
    }
    if let Some(words) = value["enum"].as_array() {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        return format!("`{}`", words.join("`, `"));
    }
    if let Some(all) = value["anyOf"].as_array() {
        let mut forms: Vec<String> = Vec::new();
        for value in all {
            let each = form(&value["items"]);
            let form =
                if forms.contains(&each) { "a list of these".to_owned() } else { form(value) };
            if !form.is_empty() && !forms.contains(&form) {
                forms.push(form);
            }
        }
        return forms.join(", or ");
    }
    match value["type"].as_str() {
        Some("string") => "a text".to_owned(),
        Some("integer") => "a whole number".to_owned(),
        Some("number") => "a number".to_owned(),
        Some("null") => "nothing".to_owned(),
        Some("array") => of("a list", "a list, each", &value["items"]),
        Some("object") if value["properties"].is_object() => {
            let keys: Vec<_> = properties(value).map(|(key, _)| format!("`{key}`")).collect();
            format!("a mapping with {}", keys.join(", "))
        }
        Some("object") => of("a mapping", "a mapping of names to", &value["additionalProperties"]),
        _ => {
            let kinds = value["type"].as_array().into_iter().flatten();
            let kinds: Vec<_> =
                kinds.map(|kind| form(&serde_json::json!({ "type": kind }))).collect();
            kinds.join(", or ")
        }
    }
}

/// Returns `words` followed by the description of the inner schema; `anything` if the inner schema allows any value.
fn of(anything: &str, words: &str, inner: &Value) -> String {
    match form(inner).as_str() {
        "" => anything.to_owned(),
        each => format!("{words} {each}"),
    }
}

fn named(definition: &str) -> &'static str {
    match definition {
        "argument" => "an argument",
        "name" => "a name",
        "placeholder" => "",
        "number" => "a number",
        "flag" => "`true` or `false`",
        "sizes" => "one to three numbers",
        "text" => "a text",
        "scalar" => "a value",
        "scalars" => "a value or a list of values",
        "texts" => "a text or a list of texts",
        "issue" => "`owner/repository#number`",
        "range" => "a range of versions",
        "gfx" | "gfx_name" => "architectures",
        "library" => "`hiprand`, `hipblaslt`, `rocblas`",
        "group" => "a group of `stack fetch --with`",
        "selector" => "a selector",
        "by_version" => "an answer by version",
        "fault_name" => "the name of a fault",
        "fault" => "a fault",
        "steps" => "a list of steps",
        "step" => "a step",
        "expected" => "a check",
        "window" => "a window",
        "expectation" => "an expectation",
        other => panic!("the page has no words for `{other}` of the schema"),
    }
}

fn properties(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value["properties"].as_object().into_iter().flat_map(Map::iter)
}

/// Writes one line to the page for each key of every mapping that the schema allows.
fn keys(value: &Value, page: &mut String) {
    for (key, inner) in properties(value) {
        let about =
            inner["description"].as_str().map_or(String::new(), |about| format!(" {about}"));
        let form = form(inner);
        let form = if form.is_empty() { form } else { format!(" {form}.") };
        let _ = writeln!(page, "* `{key}`:{form}{about}");
    }
    let inner: Vec<_> = value["anyOf"].as_array().into_iter().flatten().collect();
    let lists_of_these = inner.iter().filter(|list| inner.iter().any(|one| list["items"] == **one));
    let lists_of_these: Vec<_> = lists_of_these.copied().collect();
    let others = inner.into_iter().filter(|inner| !lists_of_these.contains(inner));
    for inner in others.chain([&value["items"], &value["additionalProperties"]]) {
        if let Some(name @ ("expected" | "expectation" | "fault" | "window")) =
            inner["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"))
        {
            keys(&SCHEMA["$defs"][name], page);
        } else if inner.is_object() {
            keys(inner, page);
        }
    }
}

/// Returns one example per verb: of all steps in the cases, the one with the fewest lines, and among those the one with
/// the most keys.
fn examples(cases: &BTreeMap<String, String>) -> BTreeMap<String, (String, String)> {
    let mut found: BTreeMap<String, (String, String)> = BTreeMap::new();
    for (case, text) in cases {
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let indent = line.len() - line.trim_start().len();
            let Some((verb, _)) =
                line.trim_start().strip_prefix("- ").and_then(|rest| rest.split_once(':'))
            else {
                continue;
            };
            let mut step = line[indent..].to_owned();
            while let Some(next) =
                lines.peek().filter(|next| next.starts_with(&" ".repeat(indent + 1)))
            {
                step.push('\n');
                step.push_str(&next[indent..]);
                // Steps inside a block are examples too.
                if next.trim_start().starts_with("- ") {
                    break;
                }
                lines.next();
            }
            let block = matches!(verb, "repeat" | "thread");
            let rank = |step: &str| (step.lines().count(), usize::MAX - step.matches(": ").count());
            let better = found.get(verb).is_none_or(|(known, _)| rank(&step) < rank(known));
            if better && !block {
                found.insert(verb.to_owned(), (step, case.clone()));
            }
        }
    }
    found
}

const MEMORIES: [(&str, Memory); 7] = [
    ("device", Memory::Device),
    ("device.pitched", Memory::DevicePitched),
    ("device.async", Memory::DeviceAsync),
    ("managed", Memory::Managed),
    ("host.pageable", Memory::HostPageable),
    ("host.pinned", Memory::HostPinned),
    ("host.registered", Memory::HostRegistered),
];

fn allocated_by(memory: Memory) -> &'static str {
    let mut plan = Plan::empty();
    plan.buffers.insert("b".to_owned(), Buffer { memory, bytes: 4, guarded: false });
    let stream = plan::DEFAULT_STREAM.to_owned();
    plan::api(&Call::Alloc { buffer: "b".to_owned(), stream }, &plan)
}

/// Describes the functions of the Python helper for programs. The descriptions are taken from the helper's source.
fn helper() -> String {
    let file = root().join("harness/cli/program/rocrepro.py");
    let text = fs::read_to_string(file).expect("the helper");
    let mut page = "\n### Functions for programs\n\n\
        A Python program imports `rocrepro`, and a C++ program includes `rocrepro.h`; rocrepro provides both files. Names of checks and\n\
        phases become parts of signatures, such as `wrong-data:sum:zero` and `crash:launch`. A failed check does not end the program.\n\n\
        In Python:\n\n"
        .to_owned();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(signature) = line.strip_prefix("def ").filter(|rest| !rest.starts_with('_'))
        else {
            continue;
        };
        let about = lines.peek().map_or("", |line| line.trim()).trim_matches('"');
        assert!(!about.is_empty(), "`{signature}` says what it is");
        let _ = writeln!(page, "* `{}`: {about}", signature.trim_end_matches(':'));
    }
    page + "\nIn C++, in the namespace `rocrepro`:\n\n" + &cpp_helper()
}

/// Lists the functions of the C++ helper that a program calls, each after the comment in the helper's source.
fn cpp_helper() -> String {
    const CALLED: [&str; 12] = [
        "close",
        "done",
        "equal",
        "given_back",
        "holds",
        "must",
        "parameter",
        "phase",
        "same",
        "skip",
        "status",
        "told_of_fault",
    ];
    let file = root().join("harness/cli/program/rocrepro.h");
    let text = fs::read_to_string(file).expect("the helper");
    let (mut page, mut about, mut found) = (String::new(), "", Vec::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("// ") {
            about = comment;
            continue;
        }
        let Some((head, rest)) = line.split_once('(') else { continue };
        let name = head.rsplit(' ').next().unwrap_or_default().trim_start_matches(['*', '&']);
        let is_declaration = !line.starts_with(' ') && CALLED.contains(&name);
        if !is_declaration || about.is_empty() {
            continue;
        }
        let parameters = rest.rsplit_once(") {").map_or(rest, |(parameters, _)| parameters);
        // The last parameter is the line of the call, which no program gives.
        let given = parameters.split(", int line").next().unwrap_or_default();
        let given = given
            .replace("const std::string &", "")
            .replace("const std::vector<T> &", "std::vector<T> ");
        let _ = writeln!(page, "* `{name}({given})`: {about}");
        found.push(name);
        about = "";
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, CALLED, "functions of the C++ helper without a comment");
    page
}

/// Lists the functions that the step `hip` can call, with their parameters.
fn functions() -> String {
    let mut page = "\n## Functions of the step `hip`\n\n\
        The step `hip` calls one of these functions; `args` has one entry for each parameter. What an entry may be follows from the\n\
        parameter, which is listed with its type:\n\n\
        * a number, or the name of an enumerator or flag in HIP's headers, such as `hipMemcpyDeviceToDevice`;\n\
        * the name of a stream, event, graph, kernel or buffer of the case, or `{buffer, offset}`;\n\
        * a new name for a pointer through which the function returns a value. Later steps use the value by this name, and `gives`\n  \
          states the first such value of a step; `{out: name, before: 7}` if the memory must contain a number before the call;\n\
        * a list for a pointer to a struct or array that the function reads, such as `[{u32: 1}, null]`;\n\
        * `null` for a null pointer or handle, and text for a string.\n\n"
        .to_owned();
    for function in plan::hip_functions() {
        let one = |p: &plan::HipParameter| format!("{} {}", p.ty, p.name);
        let all: Vec<_> = function.parameters.iter().map(one).collect();
        let _ = writeln!(page, "* `{}({})`", function.name(), all.join(", "));
    }
    page
}

/// Longest line of the page, in characters.
const MAX_LINE_LENGTH: usize = 120;

/// Divides long lines of a page at their spaces, except in code blocks and headings.
fn wrapped(page: &str) -> String {
    let (mut out, mut is_code) = (String::new(), false);
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if is_code || line.starts_with('#') || line.chars().count() <= MAX_LINE_LENGTH {
            let _ = writeln!(out, "{line}");
            continue;
        }
        let indent = if line.starts_with("* ") { "  " } else { "" };
        let mut part = String::new();
        for word in line.split(' ') {
            if part.chars().count() + 1 + word.chars().count() > MAX_LINE_LENGTH {
                let _ = writeln!(out, "{}", part.trim_end());
                part = indent.to_owned();
            } else if !part.is_empty() {
                part.push(' ');
            }
            part.push_str(word);
        }
        let _ = writeln!(out, "{part}");
    }
    out
}

/// Shows two whole cases of the library: one with steps, one with a program.
fn whole_cases() -> String {
    let mut page = "\n## Two whole cases\n".to_owned();
    for (case, about) in [
        ("copies/small-sizes", "A case with steps"),
        ("programs/missing-architecture", "A case with a program"),
    ] {
        let text = CASES.get(case).unwrap_or_else(|| panic!("no case {case}"));
        let _ = writeln!(page, "\n{about}, `{case}`:\n\n```yaml\n{}\n```", text.trim_end());
    }
    page
}

/// Table of results and messages, each with the key of a case that mends it.
const MENDS: &str = "
## What you see, and which key mends it

| what you see | what to write |
| --- | --- |
| `api-error:hipX:hipErrorY`, and the call must fail so | `returns: hipErrorY` in the column of the verb |
| a call returns a number or a word that must be right | `gives: 3` in the column of the verb |
| `buffer ... is read before it is written` | `fill: zero` or `fill: pattern` in `buffers`, or a step that writes it |
| `may still use it`, `order the two` | `sync: s` between them, or `record` in one stream and `wait` in the other |
| `uses the null stream`, or `is refused`, during a capture | `stream: s`, or the step after `end_capture` |
| `has not been recorded here` | `record` before the step |
| `may not have happened here` | `sync_event: e` before `elapsed` |
| a bug of some releases makes the case red | `known`, with `rocm` and the `signature` that `run` prints |
| a trial makes no sense, or a step in some trials | `exclude` for the trial, `when` for the step |
| releases do different things, and each is right | `returns: {\"<6.0\": hipSuccess, \">=6.0\": hipErrorY}` |
| `nothing depends on axis` | `$axis` in a step, a buffer or the program |
| `a case needs at least one fault` | `faults: copy.zero`; `rocrepro prove` shows whether it is noticed |
| `no step calls ..., so this fault changes nothing` | `with: {call: hipX}` with a function that a step calls |
| the case fails on devices that lack something | `needs`, such as `needs: {gfx: [gfx90a]}` or `needs: {devices: 2}` |
| a program passes whatever it prints | `says: PASS` or `never: FAIL`, or let it end with status 1 |
| a program lacks a header or a library | `needs: {with: [dev, rocblas]}` and `options: [-lrocblas]` |
| a Python program lacks a module | `packages: [numpy]` |
| a trial hangs and takes long | no key: `rocrepro run --timeout 60` |
";

fn page() -> String {
    let schema = &*SCHEMA;
    let examples = examples(&CASES);
    let mut page = "# The language of cases\n\n\
        Everything that a case file may contain. The page is generated from the schema, the declarations of the steps and the faults by\n\
        `ROCREPRO_WRITE_REFERENCE=1 cargo test -p case --test case reference::`. Each example is a step of a case in the library, which the\n\
        tests run.\n\n\
        A case is a YAML file. `rocrepro case check FILE` reports its mistakes, `rocrepro case explain FILE` shows what it does, and editors\n\
        that support JSON Schema complete it by `cases/schema.json`.\n"
        .to_owned();
    page.push_str(&whole_cases());
    page.push_str(MENDS);
    page.push_str("\n## Values\n\n");
    for (name, value) in schema["$defs"].as_object().expect("definitions") {
        if let Some(about) = value["description"].as_str() {
            let (first, rest) = about.split_at(1);
            let first =
                if about.starts_with("ROCm") { first.to_owned() } else { first.to_lowercase() };
            let _ = writeln!(page, "* {}: {first}{rest}", named(name));
        }
    }
    page.push_str("* `$axis`: the trial's value of an axis, in what a trial does: buffers, kernels, environment, steps, checks and program; `$$` is a dollar there.\n\n## The file\n");
    for (key, value) in properties(schema) {
        let about = value["description"].as_str().expect("every key is described");
        let _ = writeln!(page, "\n### `{key}`\n\n{about} It is {}.", form(value));
        let mut inner = String::new();
        keys(value, &mut inner);
        if !inner.is_empty() {
            let _ = write!(page, "\n{inner}");
        }
    }
    page.push_str(&helper());
    page.push_str("\n### Memory\n\nWhere a buffer is `on`, and what allocates it:\n\n");
    for (word, memory) in MEMORIES {
        let _ = writeln!(page, "* `{word}`: {}", allocated_by(memory));
    }
    page.push_str(
        "\n## Steps\n\nEach step is one verb with its value, and may say these as well:\n\n",
    );
    let verbs: Vec<_> = plan::verbs().collect();
    let step = &schema["$defs"]["step"];
    let many = "for_each";
    let of_all = |key: &str| key != many && verbs.iter().all(|v| v.name != key);
    for (key, value) in properties(step).filter(|(key, _)| of_all(key)) {
        let about = value["description"].as_str().unwrap_or_default();
        let _ = writeln!(page, "* `{key}`: {}. {about}", form(value));
    }
    let value = &step["properties"][many];
    let about = value["description"].as_str().expect("it is described");
    let _ = writeln!(page, "\n### `{many}`\n\n{about}\n");
    keys(value, &mut page);
    for verb in verbs {
        let value = &step["properties"][verb.name];
        let about = value["description"].as_str().unwrap_or_else(|| {
            panic!("cases/schema.json lacks `{}`, and is written first", verb.name)
        });
        let _ = writeln!(page, "\n### `{}`\n\n{about}", verb.name);
        let mut inner = String::new();
        match value["properties"].is_object() || value["anyOf"].is_array() {
            true => keys(value, &mut inner),
            false => inner = format!("Its value is {}.\n", form(value)),
        }
        if !inner.is_empty() {
            let _ = write!(page, "\n{inner}");
        }
        match verb.gives {
            plan::ValueKind::Nothing => {}
            plan::ValueKind::Anything => page.push_str("\nIt gives a number or a text.\n"),
            plan::ValueKind::Number([]) => page.push_str("\nIt gives a number.\n"),
            plan::ValueKind::Number(since) => {
                let words: Vec<_> = since.iter().map(|since| since.word()).collect();
                let _ = writeln!(
                    page,
                    "\nIt gives a number, of which `gives` may also say `{}`.",
                    words.join("`, `")
                );
            }
            plan::ValueKind::Word(words) => {
                let _ = writeln!(page, "\nIt gives `{}`.", words.join("`, `"));
            }
        }
        if let Some((step, case)) = examples.get(verb.name) {
            let _ = writeln!(page, "\n```yaml\n# {case}\n{step}\n```");
        }
    }
    page.push_str(&functions());
    page.push_str("\n## Faults\n\nFaults that `faults` and `rocrepro run --fault` inject:\n\n");
    for fault in device::Fault::ALL {
        let _ = writeln!(page, "* `{}`: {}", fault.name(), fault.about());
    }
    page.push_str(
        "\n`call` is any function that libamdhip64 exports, or a function of another library that a step calls; `status` is any\n\
         error of hipError_t. `rocrepro case explain --faults` lists them. In a C++ program, a library that is loaded before\n\
         the others replaces the function; calls through a pointer of hipGetProcAddress or dlsym are not replaced. Some faults\n\
         cannot be injected at some functions:\n\n",
    );
    for restriction in device::RESTRICTIONS {
        let faults: Vec<_> = restriction.faults.iter().map(|f| format!("`{}`", f.name())).collect();
        let body = match restriction.body {
            Some(device::CaseBody::Steps) => " in a case with steps",
            Some(device::CaseBody::Program) => " in a C++ program",
            None => "",
        };
        let concerned = device::library_functions().iter().filter(|f| (restriction.concerns)(f));
        let names: Vec<_> = concerned.map(|function| format!("`{}`", function.name)).collect();
        let at = if names.len() < 9 { format!(" at {}", names.join(", ")) } else { String::new() };
        let _ = writeln!(page, "* {}{at}{body}: {}.", faults.join(", "), restriction.reason);
    }
    wrapped(&page)
}

#[test]
fn page_matches_the_language() {
    assert_page(
        PAGE,
        &page(),
        "ROCREPRO_WRITE_REFERENCE=1 cargo test -p case --test case reference::",
    );
}

#[test]
fn every_kind_of_memory_is_documented() {
    let text = fs::read_to_string(root().join("cases/schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("the schema is JSON");
    let on = &schema["properties"]["buffers"]["additionalProperties"]["properties"]["on"];
    assert_eq!(on["anyOf"][0]["enum"], serde_json::json!(MEMORIES.map(|(word, _)| word)));
}

/// A verb that no case uses would have no example, and no trial would test it.
#[test]
fn every_verb_has_an_example() {
    let examples = examples(&CASES);
    let blocks = ["repeat", "thread"];
    let without: Vec<_> = plan::verbs()
        .map(|verb| verb.name)
        .filter(|name| !examples.contains_key(*name) && !blocks.contains(name))
        .collect();
    assert!(without.is_empty(), "no case has a step {without:?}");
}
